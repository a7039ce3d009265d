//! ab's command line: getopt's rules, ab's checks in ab's order, ab's messages and exit status.

use std::ffi::OsString;
use std::net::IpAddr;
use std::time::Duration;

use lexopt::Arg;
use lexopt::prelude::ValueExt;

use super::request::{self, Method};
use crate::plan::split_authority;

/// Most connections ab takes.
const CONNECTIONS_MAX: i64 = 200_000;
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
    /// Host without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path and query as written.
    pub path: String,
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
    options: Options,
}

/// The name in messages.
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
            Ok(Some(Arg::Long(_))) => {
                complain(format!("{PROGRAM}: illegal option -- -"));
                surplus = true;
                break;
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
        _ => return Err(Exit::Usage(Some(format!("{PROGRAM}: wrong number of arguments")))),
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
            host: String::new(),
            port: 80,
            path: String::new(),
            request: request::Parts::default(),
        };
        Draft { requests: 1, concurrency: 1, time_limit: None, timeout: 30, options }
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
            'I' => return Err(no_tls("-I")),
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
            'A' => options.request.authorization = Some(text.trim_ascii_start().to_owned()),
            'P' => options.request.proxy_authorization = Some(text.trim_ascii_start().to_owned()),
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
                return Err(Exit::Error(format!(
                    "{PROGRAM}: -X: requests through a proxy are not built into this version"
                )));
            }
            other => return Err(no_tls(&format!("-{other}"))),
        }
        Ok(())
    }

    /// The checks between options, in ab's order.
    fn finish(mut self, url: &str) -> Result<Options, Exit> {
        let invalid = || Exit::Usage(Some(format!("{PROGRAM}: invalid URL")));
        if url.starts_with("https://") {
            return Err(no_tls(url));
        }
        let rest = url.strip_prefix("http://").unwrap_or(url);
        let (authority, path) = rest.find('/').map(|slash| rest.split_at(slash)).ok_or_else(invalid)?;
        let (host, port) = split_authority(authority).ok_or_else(invalid)?;
        if self.concurrency < 1 || self.concurrency > CONNECTIONS_MAX {
            return Err(Exit::Usage(Some(format!("{PROGRAM}: Invalid Concurrency [Range 1..{CONNECTIONS_MAX}]"))));
        }
        let concurrency = self.concurrency.unsigned_abs();
        if concurrency > self.requests {
            let sentence = "Cannot use concurrency level greater than total number of requests";
            return Err(Exit::Usage(Some(format!("{PROGRAM}: {sentence}"))));
        }
        self.options.request.finish_method();
        self.options.requests = self.requests;
        self.options.concurrency = concurrency;
        self.options.time_limit = self
            .time_limit
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs);
        self.options.timeout = Duration::from_secs(u64::try_from(self.timeout).unwrap_or(0));
        (self.options.host, self.options.port, self.options.path) = (host, port.unwrap_or(80), path.to_owned());
        Ok(self.options)
    }
}

impl Options {
    /// After how many completed requests progress is shown; `None`: not at all.
    pub fn heartbeat(&self) -> Option<u64> {
        (self.progress && self.requests > 150).then(|| (self.requests / 10).max(100))
    }

    /// The value of the Host field.
    pub fn host_field(&self) -> String {
        let host = if self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        if self.port == 80 { host } else { format!("{host}:{}", self.port) }
    }
}

fn mixed(method: &str) -> Exit {
    Exit::Error(format!("Cannot mix {method} with other methods\n"))
}

fn no_tls(what: &str) -> Exit {
    Exit::Error(format!("{what}: TLS is not built into this version; use an http:// URL without TLS options"))
}

fn body(name: &str, read: ReadFile<'_>) -> Result<Vec<u8>, Exit> {
    read(std::path::Path::new(name)).map_err(|error| {
        let text = error.to_string();
        let reason = text.split(" (os error").next().unwrap_or(&text);
        Exit::Error(format!("{PROGRAM}: Could not open POST data file ({name}): {reason}"))
    })
}

/// C's `atoi`: the number a text begins with, 0 without one; too large ones stay at the ends.
fn leading_number(text: &str) -> i64 {
    let text = text.trim_ascii_start();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let number = digits.bytes().take_while(u8::is_ascii_digit).fold(0i64, |number, digit| {
        number.saturating_mul(10).saturating_add(i64::from(digit - b'0')).min(i64::from(i32::MAX))
    });
    sign * number
}

/// The options, in ab's columns.
pub fn usage() -> String {
    format!("Usage: {PROGRAM} [options] [http://]hostname[:port]/path\n{OPTIONS}")
}

const OPTIONS: &str = "\
Options are:
    -n requests     How many requests to make
    -c concurrency  How many of them at the same time
    -t timelimit    Seconds after which the run ends
                    This implies -n 50000, unless -n follows
    -s timeout      Seconds without any answer after which the run is given up
                    Default is 30 seconds
    -b windowsize   Size of the sockets' send and receive buffers, in bytes
    -B address      Local address to connect from
    -p postfile     File whose contents are sent with POST. See also -T
    -u putfile      File whose contents are sent with PUT. See also -T
    -T content-type Content-type field for POST and PUT, for example
                    'application/x-www-form-urlencoded'
                    Default is 'text/plain'
    -v verbosity    2: show heads; 3: and status codes
    -w              Print the results as HTML tables
    -i              Use HEAD instead of GET
    -x attributes   Attributes of the table elements
    -y attributes   Attributes of the tr elements
    -z attributes   Attributes of the td and th elements
    -C attribute    Send a cookie, for example 'Apache=1234'. (repeatable)
    -H attribute    Send a header line, for example 'Accept-Encoding: gzip'
                    It replaces Host, User-Agent and Accept. (repeatable)
    -A attribute    Send Basic authentication,
                    user name and password with a colon between them.
    -P attribute    Send Basic proxy authentication,
                    user name and password with a colon between them.
    -X proxy:port   Not in this version: use a proxy
    -V              Print the version and exit
    -k              Keep connections for further requests (KeepAlive)
    -d              Leave out the table of percentiles.
    -S              Leave out median, deviation and the warnings about them.
    -q              Show no progress with more than 150 requests
    -l              Accept answers of different length (for dynamic pages)
    -g filename     Write every request's times to a file for gnuplot.
    -e filename     Write the percentiles to a CSV file
    -r              Go on after errors on a connection.
    -m method       Use this method
    -h              Print this text
    -I, -Z ciphersuite, -f protocol, -E certfile
                    Not in this version: TLS
";

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
        check(&["h/"], 1, None);
    }

    #[test]
    fn letters_may_be_grouped_and_values_attached() {
        let options = read(&["-kn5", "-c2", "-lrqdS", "http://h:81/x?y"]).0.unwrap();
        assert_eq!((options.requests, options.concurrency, options.keep_alive), (5, 2, true));
        assert!(!options.progress && !options.percentiles && !options.confidence);
        assert!(options.variable_length && options.tolerate_receive_errors);
        assert_eq!((options.host.as_str(), options.port, options.path.as_str()), ("h", 81, "/x?y"));
        assert_eq!(read(&["-n=5", "h/"]).0.unwrap_err(), Exit::Error("Invalid number of requests\n".into()));
    }

    #[test]
    fn wrong_lines_end_as_the_original_does() {
        let usage = |sentence: &str| Exit::Usage(Some(format!("ab: {sentence}")));
        let error = |sentence: &str| Exit::Error(sentence.to_owned());
        let check =
            |line: &[&str], expected: Exit| assert_eq!(read(line).0.expect_err("refused"), expected, "{line:?}");
        check(&[], usage("wrong number of arguments"));
        check(&["a/", "b/"], usage("wrong number of arguments"));
        check(&["h/", "-n", "5"], usage("wrong number of arguments"));
        check(&["http://h"], usage("invalid URL"));
        check(&["http://:80/"], usage("invalid URL"));
        check(&["-c", "-1", "h/"], usage("Invalid Concurrency [Range 1..200000]"));
        check(&["-c", "5", "h/"], usage("Cannot use concurrency level greater than total number of requests"));
        check(&["-n", "x", "h/"], error("Invalid number of requests\n"));
        check(&["-i", "-p", "body", "h/"], error("Cannot mix POST with other methods\n"));
        check(&["-p", "body", "-i", "h/"], error("Cannot mix HEAD with other methods\n"));
        check(&["-p", "body", "-u", "body", "h/"], error("Cannot mix PUT with other methods\n"));
        check(&["-p", "none", "h/"], error("ab: Could not open POST data file (none): No such file or directory"));
        check(&["-h"], Exit::Usage(None));
        check(&["-V", "-h"], Exit::Version);
        assert!(matches!(read(&["https://h/"]).0, Err(Exit::Error(sentence)) if sentence.contains("TLS")));
        assert!(matches!(read(&["-X", "p:1", "h/"]).0, Err(Exit::Error(sentence)) if sentence.contains("proxy")));
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
        check(&["--json", "h/"], "ab: illegal option -- -", false);
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
