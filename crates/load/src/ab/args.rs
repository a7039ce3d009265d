//! ab's command line: getopt's rules, ab's checks in ab's order, ab's messages and exit status.

use std::ffi::OsString;
use std::time::Duration;

use lexopt::Arg;
use lexopt::prelude::ValueExt;

use super::address::Url;
use super::beyond::Beyond;
use super::request::{self, Credentials, Method};
use super::security::Given;
use crate::leading::leading_number;
use crate::system_error::plain;
use crate::tls::Client;

/// Most connections ab takes.
const CONNECTIONS_MAX: i64 = 200_000;
/// Most bytes of credentials ab takes, so that they fit its buffer in base64.
const CREDENTIALS_MAX: usize = 765;
/// Requests at most under `-t`, unless `-n` follows it.
const TIMED_REQUESTS: u64 = 50_000;

/// How a command line that starts no run ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// `-V`: the banner.
    Version,
    /// The usage text, after this sentence if there is one; exit status 22.
    Usage(Option<String>),
    /// A message; exit status 1.
    Error(String),
}

/// A run as asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// `-n`, or what `-t` makes of it.
    pub requests: u64,
    /// `-c`.
    pub concurrency: u64,
    /// `-t`.
    pub time_limit: Option<Duration>,
    /// `-s`: longest silence of all connections.
    pub timeout: Duration,
    /// `-b`.
    pub socket_buffer: Option<usize>,
    /// `-B`, not resolved yet.
    pub bind: Option<String>,
    /// Whether a body is sent (`-p`, `-u`).
    pub sends_body: bool,
    /// `-k`.
    pub keep_alive: bool,
    /// `-v`.
    pub verbosity: i64,
    /// `-q` not given.
    pub progress: bool,
    /// `-l`.
    pub variable_length: bool,
    /// `-r`.
    pub tolerate_receive_errors: bool,
    /// `-d` not given.
    pub percentiles: bool,
    /// `-S` not given.
    pub confidence: bool,
    /// `-g`.
    pub gnuplot: Option<OsString>,
    /// `-e`.
    pub csv: Option<OsString>,
    /// `-w`, `-x`, `-y`, `-z`: attributes of table, tr, td.
    pub html: Option<[String; 3]>,
    /// What ab never had.
    pub beyond: Beyond,
    /// `-X`: a proxy's host, and the port as it is shown.
    pub proxy: Option<(String, i64)>,
    /// The URL as written.
    pub written: String,
    /// The URL.
    pub url: Url,
    /// How connections are secured, for `https://`.
    pub tls: Option<Client>,
    /// Servers are told the name (`-I` not given).
    pub tells_name: bool,
    /// The request.
    pub request: request::Parts,
}

/// Reads a body file; a parameter so that reading the command line stays free of I/O in tests.
pub type ReadFile<'r> = &'r dyn Fn(&std::path::Path) -> std::io::Result<Vec<u8>>;

/// What the options are while they are read.
struct Draft {
    requests: u64,
    concurrency: i64,
    time_limit: Option<i64>,
    timeout: i64,
    security: Given,
    options: Options,
}

/// The name in the messages that have it whatever the program is called by.
const PROGRAM: &str = "ab";

/// Reads the arguments, without the program's name. `complain` gets getopt's messages, which do not end the program by themselves.
///
/// # Errors
/// [`Exit`]: there is nothing to run.
pub fn parse(
    args: impl Iterator<Item = OsString>,
    read: ReadFile<'_>,
    complain: &mut dyn FnMut(String),
) -> Result<Options, Exit> {
    let mut parser = lexopt::Parser::from_args(args);
    parser.set_short_equals(false);
    let mut draft = Draft::new();
    let mut url = None;
    let mut surplus = false;
    loop {
        match parser.next() {
            Ok(None) => break,
            Ok(Some(Arg::Short(option))) => {
                if takes_value(option) {
                    match parser.value() {
                        Ok(value) => draft.with_value(option, value, read)?,
                        Err(_) => {
                            complain(format!("{PROGRAM}: option requires an argument -- {option}"));
                            break;
                        }
                    }
                } else if !draft.flag(option)? {
                    complain(format!("{PROGRAM}: illegal option -- {option}"));
                    // getopt stands still inside a group of letters: what remains of it counts as an argument.
                    surplus = parser.optional_value().is_some();
                    break;
                }
            }
            Ok(Some(Arg::Long(name))) => {
                let name = name.to_owned();
                let value = || parser.value().ok().map(|value| value.to_string_lossy().into_owned());
                draft.options.beyond.take(&name, value).map_err(|sentence| Exit::Usage(Some(sentence)))?;
            }
            // getopt ends at the first argument that is no option.
            Ok(Some(Arg::Value(value))) => {
                url = Some(value);
                break;
            }
            Err(_) => break,
        }
    }
    let mut rest: Vec<OsString> = parser.raw_args().map(Iterator::collect).unwrap_or_default();
    let url = match url {
        Some(url) if rest.is_empty() && !surplus => url,
        None if rest.len() == 1 && !surplus => rest.remove(0),
        _ => return Err(Exit::Usage(Some("wrong number of arguments".to_owned()))),
    };
    draft.finish(&url.to_string_lossy())
}

fn takes_value(option: char) -> bool {
    "ncstbTpuvxyzCHPAgXeBmZfE".contains(option)
}

impl Draft {
    fn new() -> Draft {
        let options = Options {
            requests: 1,
            concurrency: 1,
            time_limit: None,
            timeout: Duration::ZERO,
            socket_buffer: None,
            bind: None,
            sends_body: false,
            keep_alive: false,
            verbosity: 0,
            progress: true,
            variable_length: false,
            tolerate_receive_errors: false,
            percentiles: true,
            confidence: true,
            gnuplot: None,
            csv: None,
            html: None,
            beyond: Beyond::default(),
            proxy: None,
            written: String::new(),
            url: Url { tls: false, host: String::new(), port: 80, path: String::new(), host_field: String::new() },
            tls: None,
            tells_name: true,
            request: request::Parts::default(),
        };
        Draft { requests: 1, concurrency: 1, time_limit: None, timeout: 30, security: Given::default(), options }
    }

    /// An option without a value; `Ok(false)`: there is no such option.
    fn flag(&mut self, option: char) -> Result<bool, Exit> {
        let options = &mut self.options;
        match option {
            'k' => options.keep_alive = true,
            'q' => options.progress = false,
            'l' => options.variable_length = true,
            'r' => options.tolerate_receive_errors = true,
            'd' => options.percentiles = false,
            'S' => options.confidence = false,
            'w' => _ = options.html.get_or_insert_default(),
            'i' if options.request.method != Method::Unset => return Err(mixed("HEAD")),
            'i' => options.request.method = Method::Head,
            'I' => self.security.nameless = true,
            'h' => return Err(Exit::Usage(None)),
            'V' => return Err(Exit::Version),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn with_value(&mut self, option: char, value: OsString, read: ReadFile<'_>) -> Result<(), Exit> {
        if matches!(option, 'g' | 'e') {
            let file = if option == 'g' { &mut self.options.gnuplot } else { &mut self.options.csv };
            *file = Some(value);
            return Ok(());
        }
        let text = value.string().unwrap_or_else(|error| format!("{error}"));
        let options = &mut self.options;
        match option {
            'n' => match u64::try_from(leading_number(&text)) {
                Ok(requests) if requests > 0 => self.requests = requests,
                _ => return Err(Exit::Error("Invalid number of requests\n".to_owned())),
            },
            'c' => self.concurrency = leading_number(&text),
            't' => {
                self.time_limit = Some(leading_number(&text));
                self.requests = TIMED_REQUESTS;
            }
            's' => self.timeout = leading_number(&text),
            'b' => options.socket_buffer = usize::try_from(leading_number(&text)).ok().filter(|bytes| *bytes > 0),
            'B' => options.bind = Some(text),
            'v' => options.verbosity = leading_number(&text),
            'x' => options.html.get_or_insert_default()[0] = text,
            'y' => options.html.get_or_insert_default()[1] = text,
            'z' => options.html.get_or_insert_default()[2] = text,
            'T' => options.request.content_type = Some(text),
            'C' => options.request.cookies.push(text),
            'H' => options.request.headers.push(text),
            'A' | 'P' => options.request.credentials.push(credentials(option == 'P', &text)?),
            'm' => options.request.method = Method::Custom(text),
            'p' | 'u' => {
                let (name, method) = if option == 'p' { ("POST", Method::Post) } else { ("PUT", Method::Put) };
                if options.request.method != Method::Unset {
                    return Err(mixed(name));
                }
                options.request.body = Some(body(&text, read)?);
                options.request.method = method;
                options.sends_body = true;
            }
            'X' => {
                let (host, port) = text.split_once(':').unwrap_or((&text, ""));
                options.proxy = Some((host.to_owned(), leading_number(port)));
            }
            'E' => {
                check_certificate(&text, read)?;
                self.security.certificate = Some(text.into());
            }
            'Z' => self.security.ciphers = Some(text),
            'f' => self.security.protocol = Some(text),
            _ => {}
        }
        Ok(())
    }

    /// The checks between options, in ab's order.
    fn finish(mut self, written: &str) -> Result<Options, Exit> {
        let wrong = |sentence: &str| Exit::Usage(Some(sentence.to_owned()));
        let url = Url::parse(written).ok_or_else(|| wrong("invalid URL"))?;
        // Zero is let through by ab and then refused by the poll; that is told when it comes to it.
        if self.concurrency < 0 || self.concurrency > CONNECTIONS_MAX {
            return Err(wrong(&format!("Invalid Concurrency [Range 0..{CONNECTIONS_MAX}]")));
        }
        let concurrency = self.concurrency.unsigned_abs();
        if concurrency > self.requests {
            return Err(wrong("Cannot use concurrency level greater than total number of requests"));
        }
        if url.tls {
            self.security.http2 = self.options.beyond.http2.is_some();
            self.options.tls = Some(self.security.client(&url.host)?);
            self.options.tells_name = !self.security.nameless;
        }
        let options = &mut self.options;
        let beyond = &options.beyond;
        let files = options.gnuplot.is_some() || options.csv.is_some() || beyond.hdr.is_some();
        if beyond.repeat.is_some() && files {
            return Err(wrong(
                "--repeat would write the files of -g, -e and --hdr again with each run; leave them out",
            ));
        }
        if options.html.is_some() && (beyond.json || beyond.repeat.is_some() || !beyond.percentiles.is_empty()) {
            return Err(wrong("--json, --repeat and --percentiles are not for HTML; leave out -w, -x, -y and -z"));
        }
        if beyond.json && (options.verbosity >= 2 || !beyond.percentiles.is_empty()) {
            return Err(wrong("--json prints nothing but JSON; leave out -v and --percentiles"));
        }
        if beyond.http2.is_some() && (beyond.http11 || options.proxy.is_some()) {
            return Err(wrong("--http2 and --streams go neither with --http1.1 nor with a proxy (-X)"));
        }
        options.keep_alive |= beyond.http2.is_some();
        options.request.finish_method();
        options.request.http11 = options.beyond.http11;
        options.requests = self.requests;
        options.concurrency = concurrency;
        // ab stops at once at a time that was over before it began.
        let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        options.time_limit = self.time_limit.filter(|limit| *limit != 0).map(seconds);
        options.timeout = if self.timeout < 0 { Duration::MAX } else { seconds(self.timeout) };
        options.written = written.to_owned();
        options.url = url;
        Ok(self.options)
    }
}

impl Options {
    /// After how many completed requests progress is shown; `None`: not at all.
    pub fn heartbeat(&self) -> Option<u64> {
        (self.progress && self.requests > 150).then(|| (self.requests / 10).max(100))
    }

    /// How many threads share the connections: as many as the machine has processors, if nothing else is wanted.
    pub fn threads(&self) -> u32 {
        let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32;
        let connections = u32::try_from(self.concurrency).unwrap_or(u32::MAX);
        self.beyond.threads.unwrap_or_else(processors).min(connections).max(1)
    }

    /// The name that servers are told with TLS; an address is no name.
    pub fn server_name(&self) -> Option<&str> {
        let told = self.url.tls && self.tells_name && self.url.host.parse::<std::net::IpAddr>().is_err();
        told.then_some(self.url.host.as_str())
    }

    /// Host and port to connect to.
    pub fn peer(&self) -> (&str, u16) {
        match &self.proxy {
            // A port beyond 65535 loses its upper bits, as in the original.
            Some((host, port)) => (host, *port as u16),
            None => (&self.url.host, self.url.port),
        }
    }

    /// What the request asks for: a path, or of a proxy the whole URL.
    pub fn request_target(&self) -> &str {
        if self.proxy.is_some() { &self.written } else { &self.url.path }
    }
}

fn mixed(method: &str) -> Exit {
    Exit::Error(format!("Cannot mix {method} with other methods\n"))
}

fn credentials(proxy: bool, text: &str) -> Result<Credentials, Exit> {
    let text = text.trim_ascii_start();
    if text.len() > CREDENTIALS_MAX {
        let whose = if proxy { "Proxy" } else { "Authentication" };
        return Err(Exit::Error(format!("{whose} credentials too long\n")));
    }
    Ok(Credentials { proxy, text: text.to_owned() })
}

/// ab reads the client's certificate whether the URL is to need it or not.
fn check_certificate(name: &str, read: ReadFile<'_>) -> Result<(), Exit> {
    let unreadable = |_| Exit::Error(format!("unable to get certificate from '{name}'"));
    read(std::path::Path::new(name)).map(drop).map_err(unreadable)
}

fn body(name: &str, read: ReadFile<'_>) -> Result<Vec<u8>, Exit> {
    read(std::path::Path::new(name)).map_err(|error| {
        let reason = plain(&error);
        // A folder can be opened, but not read.
        Exit::Error(if error.kind() == std::io::ErrorKind::IsADirectory {
            format!("{PROGRAM}: Could not read POST data file: {reason}")
        } else {
            format!("{PROGRAM}: Could not open POST data file ({name}): {reason}")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> (Result<Options, Exit>, Vec<String>) {
        let mut complaints = Vec::new();
        let file = |path: &std::path::Path| match path.to_str() {
            Some("body") => Ok(b"a=b".to_vec()),
            _ => Err(std::io::Error::from_raw_os_error(2)),
        };
        let args = line.iter().copied().map(OsString::from);
        let result = parse(args, &file, &mut |complaint| complaints.push(complaint));
        (result, complaints)
    }

    #[test]
    fn the_order_of_n_and_t_matters_as_in_the_original() {
        let check = |line: &[&str], requests, limit| {
            let options = read(line).0.unwrap();
            assert_eq!(
                (options.requests, options.time_limit.map(|limit| limit.as_secs())),
                (requests, limit),
                "{line:?}"
            );
        };
        check(&["-n", "100", "-t", "1", "h/"], 50_000, Some(1));
        check(&["-t", "1", "-n", "100", "h/"], 100, Some(1));
        check(&["-t", "0", "h/"], 50_000, None);
        check(&["-t", "-1", "h/"], 50_000, Some(0));
        check(&["h/"], 1, None);
    }

    #[test]
    fn letters_may_be_grouped_and_values_attached() {
        let options = read(&["-kn5", "-c2", "-lrqdS", "http://h:81/x?y"]).0.unwrap();
        assert_eq!((options.requests, options.concurrency, options.keep_alive), (5, 2, true));
        assert!(!options.progress && !options.percentiles && !options.confidence);
        assert!(options.variable_length && options.tolerate_receive_errors);
        assert_eq!((options.url.host.as_str(), options.url.port, options.url.path.as_str()), ("h", 81, "/x?y"));
        assert_eq!(read(&["-n=5", "h/"]).0.unwrap_err(), Exit::Error("Invalid number of requests\n".into()));
    }

    #[test]
    fn wrong_lines_end_as_the_original_does() {
        let usage = |sentence: &str| Exit::Usage(Some(sentence.to_owned()));
        let error = |sentence: &str| Exit::Error(sentence.to_owned());
        let check =
            |line: &[&str], expected: Exit| assert_eq!(read(line).0.expect_err("refused"), expected, "{line:?}");
        check(&[], usage("wrong number of arguments"));
        check(&["a/", "b/"], usage("wrong number of arguments"));
        check(&["h/", "-n", "5"], usage("wrong number of arguments"));
        check(&["http://h"], usage("invalid URL"));
        check(&["http://:80/"], usage("invalid URL"));
        check(&["-c", "-1", "h/"], usage("Invalid Concurrency [Range 0..200000]"));
        check(&["-c", "5", "h/"], usage("Cannot use concurrency level greater than total number of requests"));
        check(&["-n", "x", "h/"], error("Invalid number of requests\n"));
        check(&["-i", "-p", "body", "h/"], error("Cannot mix POST with other methods\n"));
        check(&["-p", "body", "-i", "h/"], error("Cannot mix HEAD with other methods\n"));
        check(&["-p", "body", "-u", "body", "h/"], error("Cannot mix PUT with other methods\n"));
        check(&["-p", "none", "h/"], error("ab: Could not open POST data file (none): No such file or directory"));
        check(&["--such", "h/"], usage("there is no option --such"));
        check(
            &["--repeat", "2", "-e", "x", "h/"],
            usage("--repeat would write the files of -g, -e and --hdr again with each run; leave them out"),
        );
        check(
            &["--repeat=2", "-w", "h/"],
            usage("--json, --repeat and --percentiles are not for HTML; leave out -w, -x, -y and -z"),
        );
        check(&["-h"], Exit::Usage(None));
        check(&["-V", "-h"], Exit::Version);
        assert!(
            read(&["https://h/"]).0.is_ok_and(|options| options.tls.is_some() && options.server_name() == Some("h"))
        );
        assert!(read(&["-I", "https://h/"]).0.is_ok_and(|options| options.server_name().is_none()));
        check(&["-A", &"x".repeat(766), "h/"], error("Authentication credentials too long\n"));
        check(&["-P", &"x".repeat(766), "h/"], error("Proxy credentials too long\n"));
        check(&["-E", "none", "h/"], error("unable to get certificate from 'none'"));
    }

    #[test]
    fn a_proxy_is_connected_to_and_asked_for_the_whole_url() {
        let check = |line: &[&str], peer: (&str, u16), target: &str| {
            let options = read(line).0.unwrap();
            assert_eq!((options.peer(), options.request_target()), (peer, target), "{line:?}");
        };
        check(&["http://h:81/x"], ("h", 81), "/x");
        check(&["-X", "p:3128", "http://h:81/x"], ("p", 3128), "http://h:81/x");
        check(&["-X", "p", "h/"], ("p", 0), "h/");
        check(&["-X", "p:65537", "h/"], ("p", 1), "h/");
    }

    #[test]
    fn options_of_tls_are_taken_where_they_mean_nothing() {
        assert!(read(&["-I", "-f", "TLS1.2", "-Z", "x", "-E", "body", "h/"]).0.is_ok());
    }

    #[test]
    fn getopts_complaints() {
        let check = |line: &[&str], complaint: &str, runs: bool| {
            let (result, complaints) = read(line);
            assert_eq!((complaints.as_slice(), result.is_ok()), ([complaint.to_owned()].as_slice(), runs), "{line:?}");
        };
        check(&["-Q", "h/"], "ab: illegal option -- Q", true);
        check(&["-kQ", "h/"], "ab: illegal option -- Q", true);
        check(&["-Qk", "h/"], "ab: illegal option -- Q", false);
        check(&["-n"], "ab: option requires an argument -- n", false);
    }

    #[test]
    fn progress_is_shown_each_tenth_but_at_least_each_hundredth() {
        let check = |line: &[&str], expected| assert_eq!(read(line).0.unwrap().heartbeat(), expected, "{line:?}");
        check(&["-n", "150", "h/"], None);
        check(&["-n", "151", "h/"], Some(100));
        check(&["-n", "5000", "h/"], Some(500));
        check(&["-q", "-n", "5000", "h/"], None);
    }

    #[test]
    fn numbers_are_read_as_atoi_reads_them() {
        let check = |text, expected| assert_eq!(leading_number(text), expected, "{text}");
        check("12ab", 12);
        check(" +7", 7);
        check("-3", -3);
        check("x", 0);
        check("99999999999999999999999", i64::from(i32::MAX));
    }
}
