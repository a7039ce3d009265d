//! What a run of siege is set to: siegerc's keys, in the reading of siege, and the table that `-C` shows.
//!
//! Two sets of values a run begins with: those of siege's code, which a resource file then changes, and those of the file that siege
//! writes for a new user, which hold here where there is no resource file at all.

use super::auth::Credentials;
use super::variables::{Variables, expand};
use crate::leading::{leading_decimal, leading_number};
use crate::verdict::Threshold;

/// siege's version whose behaviour this is.
pub const VERSION: &str = "4.0.7";
/// So often a user goes round where neither `-r` nor `-t` says otherwise, as in siege.
pub const REPETITIONS_MAX: i64 = 10_301_062;
/// Users at most unless `limit` says otherwise.
const LIMIT: i64 = 255;

/// How often a user goes round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetitions {
    /// So many pages.
    Times(i64),
    /// Once through the whole list (`-r once`).
    Once,
}

/// Whether times are shown in seconds, as siege 4.0 does, or partly in milliseconds, as later ones do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `Response time: 0.01 secs`.
    Seconds,
    /// `Response time: 10.00 ms`.
    Milliseconds,
}

/// Everything that can be set, by a key of siegerc or by an option.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of siege's by its own name")]
pub struct Settings {
    pub verbose: bool,
    pub color: bool,
    pub quiet: bool,
    pub debug: bool,
    /// Shows the request and the answer's head (`-g`).
    pub get: bool,
    /// Shows the request and the page (`-p`).
    pub print: bool,
    pub http11: bool,
    pub parser: bool,
    /// `gmethod`: `-g` sends a GET instead of a HEAD. Not set, it is shown as HEAD and sent as GET, as by siege.
    pub get_sends_get: Option<bool>,
    pub keep_alive: bool,
    pub concurrent: i64,
    /// `time`, seconds; 0: none.
    pub seconds: i64,
    pub repetitions: Repetitions,
    /// Of connecting, seconds.
    pub timeout: i64,
    pub cache: bool,
    pub accept_encoding: String,
    /// Seconds.
    pub delay: f64,
    pub internet: bool,
    pub benchmark: bool,
    pub failures: i64,
    pub url: Option<String>,
    pub file: String,
    pub limit: i64,
    pub logging: bool,
    pub log_file: String,
    pub show_log_file: bool,
    pub mark: Option<String>,
    /// The resource file.
    pub resource: String,
    pub timestamp: bool,
    pub csv: bool,
    pub full_url: bool,
    pub display_id: bool,
    pub follow: bool,
    pub zero_ok: bool,
    pub chunked: bool,
    pub unique: bool,
    pub json: bool,
    pub no_follow: Vec<String>,
    pub proxy: Option<String>,
    pub proxy_port: u16,
    pub proxy_logins: Vec<Credentials>,
    pub logins: Vec<Credentials>,
    pub login_urls: Vec<String>,
    /// Rounds of answering a challenge.
    pub attempts: i64,
    pub user_agent: String,
    pub content_type: String,
    /// Lines of `-H` and `header`.
    pub headers: Vec<String>,
    /// Files in PEM.
    pub ssl_cert: Option<String>,
    /// Where it is elsewhere.
    pub ssl_key: Option<String>,
    pub ssl_ciphers: Option<String>,
    pub cookies: bool,
    pub expire_session: bool,
    pub escape: bool,
    /// Silence of a connection, seconds, after which an answer has failed.
    pub stall_timeout: u64,
    pub dialect: Dialect,
    /// What the run must not do.
    pub fail_on: Vec<Threshold>,
}

/// A resource file that cannot be used: a sentence.
pub type Refusal = String;

impl Settings {
    /// What siege's code sets before it reads a resource file.
    pub fn of_code() -> Settings {
        Settings {
            verbose: false,
            color: true,
            quiet: false,
            debug: false,
            get: false,
            print: false,
            http11: false,
            parser: false,
            get_sends_get: None,
            keep_alive: false,
            concurrent: 1,
            seconds: 0,
            repetitions: Repetitions::Times(REPETITIONS_MAX),
            timeout: 30,
            cache: false,
            accept_encoding: "*".to_owned(),
            delay: 0.0,
            internet: false,
            benchmark: false,
            failures: 1024,
            url: None,
            file: "/etc/siege/urls.txt".to_owned(),
            limit: LIMIT,
            logging: false,
            log_file: "/var/log/siege.log".to_owned(),
            show_log_file: false,
            mark: None,
            resource: String::new(),
            timestamp: false,
            csv: false,
            full_url: false,
            display_id: false,
            follow: true,
            zero_ok: true,
            chunked: false,
            unique: true,
            json: false,
            no_follow: Vec::new(),
            proxy: None,
            proxy_port: 3128,
            proxy_logins: Vec::new(),
            logins: Vec::new(),
            login_urls: Vec::new(),
            attempts: 5,
            user_agent: format!("Mozilla/5.0 (pc-x86_64-linux-gnu) Siege/{VERSION}"),
            content_type: "application/x-www-form-urlencoded".to_owned(),
            headers: Vec::new(),
            ssl_cert: None,
            ssl_key: None,
            ssl_ciphers: None,
            cookies: true,
            expire_session: false,
            escape: true,
            stall_timeout: 300,
            fail_on: Vec::new(),
            dialect: Dialect::Seconds,
        }
    }

    /// What the resource file sets that siege writes for a new user.
    pub fn of_new_user(resource: &str) -> Settings {
        let advertisers = ["ad.doubleclick.net", "pagead2.googlesyndication.com", "ads.pubsqrd.com", "ib.adnxs.com"];
        Settings {
            verbose: true,
            json: true,
            show_log_file: true,
            parser: true,
            http11: true,
            get_sends_get: Some(false),
            chunked: true,
            concurrent: 25,
            accept_encoding: "gzip, deflate".to_owned(),
            no_follow: advertisers.map(str::to_owned).to_vec(),
            resource: resource.to_owned(),
            ..Settings::of_code()
        }
    }

    /// Reads a resource file.
    ///
    /// # Errors
    /// The sentence with which siege ends.
    pub fn read(&mut self, text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<(), Refusal> {
        let mut variables = Variables::default();
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        for line in lines.filter(|line| !line.is_empty()) {
            let separator = |c: char| c.is_ascii_whitespace() || c == '=' || c == ':';
            let end = line.find(separator).unwrap_or(line.len());
            let value = line[end..].trim_start_matches(separator);
            let key = expand(&line[..end], &variables, environment);
            let value = expand(value, &variables, environment);
            if !self.set(&key.to_ascii_lowercase(), &value)? {
                variables.set(&key, &value);
            }
        }
        // What was left empty is as if it had not been set.
        let usual = Settings::of_code();
        for (set, usual) in [
            (&mut self.log_file, usual.log_file),
            (&mut self.file, usual.file),
            (&mut self.user_agent, usual.user_agent),
            (&mut self.accept_encoding, usual.accept_encoding),
        ] {
            if set.is_empty() {
                *set = usual;
            }
        }
        Ok(())
    }

    /// Sets one key; false: siege knows no such key, so that it names a variable.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, Refusal> {
        if let Some(switch) = self.switch(key) {
            *switch = starts_with(value, "true");
            return Ok(true);
        }
        match key {
            "color" => self.color = !starts_with(value, "off") && !starts_with(value, "false"),
            "cookies" => self.cookies = value.eq_ignore_ascii_case("true"),
            "gmethod" => self.get_sends_get = Some(value.eq_ignore_ascii_case("get")),
            "connection" => self.keep_alive = starts_with(value, "keep-alive"),
            "protocol" => self.http11 = starts_with(value, "http/1.1"),
            "concurrent" => self.concurrent = leading_number(value),
            "limit" => self.limit = Some(leading_number(value)).filter(|limit| *limit > 0).unwrap_or(LIMIT),
            "reps" => self.repetitions = Repetitions::Times(leading_number(value)),
            "time" => self.seconds = seconds_of(value),
            "delay" => self.delay = leading_decimal(value),
            "timeout" => self.timeout = leading_number(value),
            "failures" => self.failures = leading_number(value),
            "attempts" => self.attempts = leading_number(value),
            "url" => self.url = Some(value.to_owned()).filter(|url| !url.is_empty()),
            "logfile" => self.log_file = value.to_owned(),
            "file" => self.file = value.to_owned(),
            "user-agent" => self.user_agent = value.to_owned(),
            "accept-encoding" => self.accept_encoding = value.to_owned(),
            "login" => self.logins.push(Credentials::parse(value)),
            "login-url" => self.login_urls.push(value.to_owned()),
            "proxy-host" => self.proxy = Some(value.to_owned()).filter(|host| !host.is_empty()),
            "proxy-port" => self.proxy_port = u16::try_from(leading_number(value)).unwrap_or(3128),
            "proxy-login" => self.proxy_logins.push(Credentials::parse(value)),
            "nofollow" => self.no_follow.push(value.to_owned()),
            "header" => self.add_header(value)?,
            "ssl-cert" => self.ssl_cert = Some(value.to_owned()),
            "ssl-key" => self.ssl_key = Some(value.to_owned()),
            "ssl-ciphers" => self.ssl_ciphers = Some(value.to_owned()),
            // Of FTP, of sessions that are never resumed, of a spinner: nothing that this version does.
            "ftp-login" | "ssl-timeout" | "spinner" | "username" | "password" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The keys that are true or false.
    fn switch(&mut self, key: &str) -> Option<&mut bool> {
        Some(match key {
            "verbose" => &mut self.verbose,
            "quiet" => &mut self.quiet,
            "debug" => &mut self.debug,
            "parser" => &mut self.parser,
            "cache" => &mut self.cache,
            "csv" => &mut self.csv,
            "fullurl" => &mut self.full_url,
            "display-id" => &mut self.display_id,
            "logging" => &mut self.logging,
            "show-logfile" => &mut self.show_log_file,
            "timestamp" => &mut self.timestamp,
            "internet" => &mut self.internet,
            "benchmark" => &mut self.benchmark,
            "chunked" => &mut self.chunked,
            "unique" => &mut self.unique,
            "json_output" => &mut self.json,
            "expire-session" => &mut self.expire_session,
            "follow-location" => &mut self.follow,
            "url-escaping" => &mut self.escape,
            "zero-data-ok" => &mut self.zero_ok,
            _ => return None,
        })
    }

    /// A field to be sent with every request.
    ///
    /// # Errors
    /// It is none.
    pub fn add_header(&mut self, line: &str) -> Result<(), Refusal> {
        if !line.contains(':') {
            return Err("no ':' in http-header".to_owned());
        }
        self.headers.push(line.to_owned());
        Ok(())
    }

    /// Makes of what was set what holds together, as siege does once everything is read; what it says of it.
    pub fn settle(&mut self) -> Option<String> {
        let mut said = None;
        if self.benchmark {
            self.delay = 0.0;
        }
        let limited =
            !matches!(self.repetitions, Repetitions::Times(i64::MIN..=0 | REPETITIONS_MAX) | Repetitions::Once);
        if self.seconds > 0 && limited {
            said = Some(format!(
                "{}defaulting to time-based testing: {} seconds\n",
                notice(Kind::Error, "CONFIG conflict: selected time and repetition based testing"),
                self.seconds
            ));
            self.repetitions = Repetitions::Times(REPETITIONS_MAX);
        }
        self.concurrent = self.concurrent.max(1);
        if self.get || self.print {
            (self.concurrent, self.repetitions) = (1, Repetitions::Times(1));
        }
        if self.json {
            (self.quiet, self.verbose) = (true, false);
        }
        if self.quiet {
            self.verbose = false;
        }
        said
    }

    /// What `-C` shows.
    pub fn table(&self) -> String {
        let truth = |yes: bool| if yes { "true" } else { "false" }.to_owned();
        let known =
            |known: bool, value: i64, unit: &str| if known { format!("{value}{unit}") } else { "n/a".to_owned() };
        let times = if let Repetitions::Times(times) = self.repetitions { times } else { 0 };
        let mut rows = vec![
            ("version", VERSION.to_owned()),
            ("verbose", truth(self.verbose)),
            ("color", truth(self.color)),
            ("quiet", truth(self.quiet)),
            ("debug", truth(self.debug)),
            ("protocol", if self.http11 { "HTTP/1.1" } else { "HTTP/1.0" }.to_owned()),
            ("HTML parser", if self.parser { "enabled" } else { "disabled" }.to_owned()),
            ("get method", if self.get_sends_get == Some(true) { "GET" } else { "HEAD" }.to_owned()),
        ];
        if let Some(host) = &self.proxy {
            rows.extend([("proxy-host", host.clone()), ("proxy-port", self.proxy_port.to_string())]);
        }
        rows.extend([
            ("connection", if self.keep_alive { "keep-alive" } else { "close" }.to_owned()),
            ("concurrent users", self.concurrent.to_string()),
            ("time to run", known(self.seconds > 0, self.seconds, " seconds")),
            ("repetitions", known(times > 0 && times != REPETITIONS_MAX, times, "")),
            ("socket timeout", self.timeout.to_string()),
            ("cache enabled", truth(self.cache)),
            ("accept-encoding", self.accept_encoding.clone()),
            ("delay", format!("{:.3} sec{}", self.delay, if self.delay > 1.0 { "s" } else { "" })),
            ("internet simulation", truth(self.internet)),
            ("benchmark mode", truth(self.benchmark)),
            ("failures until abort", self.failures.to_string()),
            ("named URL", self.url.clone().filter(|url| url.len() > 1).unwrap_or_else(|| "none".to_owned())),
            ("URLs file", self.file.clone()),
            ("thread limit", self.limit.to_string()),
            ("logging", truth(self.logging)),
            ("log file", self.log_file.clone()),
            ("resource file", self.resource.clone()),
            ("timestamped output", truth(self.timestamp)),
            ("comma separated output", truth(self.csv)),
            ("allow redirects", truth(self.follow)),
            ("allow zero byte data", truth(self.zero_ok)),
            ("allow chunked encoding", truth(self.chunked)),
            ("upload unique files", truth(self.unique)),
            ("json output", truth(self.json)),
        ]);
        let mut text = format!(
            "CURRENT  SIEGE  CONFIGURATION\n{}\nEdit the resource file to change the settings.\n{}\n",
            self.user_agent,
            "-".repeat(46)
        );
        for (name, value) in rows {
            text.push_str(&format!("{:32}{value}\n", format!("{name}:")));
        }
        if !self.no_follow.is_empty() {
            text.push_str("no-follow:\n");
            self.no_follow.iter().for_each(|host| text.push_str(&format!(" - {host}\n")));
        }
        for (name, logins) in [("proxy auth", &self.proxy_logins), ("www auth", &self.logins)] {
            text.push_str(&format!("{:32}", format!("{name}:")));
            logins.iter().for_each(|login| text.push_str(&format!("credentials:  {login}\n")));
            text.push('\n');
        }
        text
    }
}

/// What a message is to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Fatal,
    Error,
    Alert,
}

/// A line as siege writes its messages: coloured, whatever `color` says and whoever reads it.
pub fn notice(kind: Kind, sentence: &str) -> String {
    let (color, name) = match kind {
        Kind::Fatal => (31, "fatal"),
        Kind::Error => (33, "error"),
        Kind::Alert => (32, "alert"),
    };
    format!("[\u{1b}[1;{color}m{name}\u{1b}[0m] {sentence}\n")
}

/// `NUM` with S, M or H; minutes where it has none of them.
pub fn seconds_of(text: &str) -> i64 {
    let number = leading_number(text).max(0);
    let unit = text.trim_start().trim_start_matches(|c: char| !c.is_ascii_alphabetic()).chars().next();
    number.saturating_mul(match unit.map(|unit| unit.to_ascii_lowercase()) {
        Some('s') => 1,
        Some('h') => 3600,
        _ => 60,
    })
}

/// Whether a text begins so, in whatever case.
fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Settings {
        let mut settings = Settings::of_code();
        let environment = |name: &str| (name == "HOME").then(|| "/h/me".to_owned());
        settings.read(text, &environment).unwrap();
        settings.settle();
        settings
    }

    #[test]
    fn keys_are_read_as_siege_reads_them() {
        let check = |text: &str, row: &str| {
            let table = read(text).table();
            let shown: Vec<String> =
                table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
            assert!(shown.iter().any(|line| line == row), "{text}: no `{row}` in {shown:?}");
        };
        check("verbose = true", "verbose: true");
        check("VERBOSE = TRUE", "verbose: true");
        check("  verbose   true", "verbose: true");
        check("verbose = on", "verbose: false");
        check("color = off", "color: false");
        check("color = x", "color: true");
        check("user-agent: q:r", "q:r");
        check("user-agent = a # b", "a");
        check("# user-agent = a", "Mozilla/5.0 (pc-x86_64-linux-gnu) Siege/4.0.7");
        check("X = 1\nuser-agent = $X/b$(X)c", "1/b1c");
        check("file = $(HOME)/${NONE}x", "URLs file: /h/me/x");
        check("concurrent = -2", "concurrent users: 1");
        check("limit=0", "thread limit: 255");
        check("time = 5S\nreps=3", "repetitions: n/a");
        check("time = 10", "time to run: 600 seconds");
        check("reps = once", "repetitions: n/a");
        check("benchmark=true\ndelay=3", "delay: 0.000 sec");
        check("delay = 2.5", "delay: 2.500 secs");
        check("timeout = abc", "socket timeout: 0");
        check("login = a:b # c", "www auth: credentials: a:b:any");
        check("login = abc", "www auth: credentials: abc::any");
        check("json_output = true", "quiet: true");
        check("file =", "URLs file: /etc/siege/urls.txt");
        check("header = X: y\nnofollow = ads", "- ads");
        assert!(Settings::of_code().read("header = x", &|_| None).is_err());
    }

    #[test]
    fn lengths_of_time() {
        let check = |text: &str, seconds: i64| assert_eq!(seconds_of(text), seconds, "{text}");
        for (text, seconds) in
            [("1S", 1), ("1s", 1), ("2", 120), ("1M", 60), ("1H", 3600), ("S", 0), ("1X", 60), ("1.5S", 1), ("1 S", 1)]
        {
            check(text, seconds);
        }
    }

    #[test]
    fn a_new_user_has_the_settings_of_the_file_that_siege_would_write() {
        let settings = Settings::of_new_user("/h/me/.siege/siege.conf");
        assert!(settings.json && settings.parser && settings.http11 && settings.no_follow.len() == 4);
        assert_eq!((settings.concurrent, settings.accept_encoding.as_str()), (25, "gzip, deflate"));
    }
}
