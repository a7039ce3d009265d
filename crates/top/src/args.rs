//! The command lines of `status` and `top`.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use crate::DEFAULT_URL;

/// What was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// Which server.
    pub whom: Whom,
    /// `--json`: the document as it comes.
    pub json: bool,
    /// `--interval`.
    pub interval: Option<Duration>,
}

/// Which server is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// The one whose status page has this address.
    Url(String),
    /// The one of a configuration: `httpd`'s `-d` and `-f` with their values.
    Configured(Vec<OsString>),
}

/// Longest pause between two looks; also what a number of seconds is bounded by before it is used.
const INTERVAL_MAX_S: f64 = 3600.0;
/// Shortest pause: more often is a load of its own.
const INTERVAL_MIN_S: f64 = 0.1;

impl Args {
    /// `None` where the help was asked for, which is printed.
    ///
    /// # Errors
    /// Names the word that is not understood.
    pub fn parse(program: &str, args: impl Iterator<Item = OsString>) -> Result<Option<Args>, String> {
        let mut parser = Parser::from_args(args);
        let (mut url, mut configured, mut json, mut interval) = (None, Vec::new(), false, None);
        while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
            match arg {
                Arg::Short('h') | Arg::Long("help") => {
                    print!("{}", usage(program));
                    return Ok(None);
                }
                Arg::Short(letter @ ('d' | 'f')) => {
                    let value = parser.value().map_err(|error| error.to_string())?;
                    configured.extend([format!("-{letter}").into(), value]);
                }
                Arg::Long("json") if program == "status" => json = true,
                Arg::Short('i') | Arg::Long("interval") if program == "top" => {
                    let text = parser.value().and_then(ValueExt::string).map_err(|error| error.to_string())?;
                    interval = Some(seconds(&text)?);
                }
                Arg::Value(text) if url.is_none() => {
                    url = Some(text.into_string().map_err(|_| "the address is no text".to_owned())?);
                }
                other => return Err(format!("{}\n\n{}", other.unexpected(), usage(program).trim_end())),
            }
        }
        let whom = match (url, configured.is_empty()) {
            (Some(_), false) => return Err("an address and a configuration are two servers; name one".to_owned()),
            (Some(url), true) => Whom::Url(url),
            (None, false) => Whom::Configured(configured),
            // The configuration of this machine's own server, where it has one.
            (None, true) if Path::new(manifold_httpd::DEFAULT_CONFIG).exists() => Whom::Configured(Vec::new()),
            (None, true) => Whom::Url(DEFAULT_URL.to_owned()),
        };
        Ok(Some(Args { whom, json, interval }))
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|s| (INTERVAL_MIN_S..=INTERVAL_MAX_S).contains(s));
    let seconds = seconds.ok_or_else(|| format!("--interval: '{text}' is no number of seconds from 0.1 to 3600"))?;
    Ok(Duration::from_secs_f64(seconds))
}

fn usage(program: &str) -> String {
    let (what, own) = match program {
        "top" => (
            "Shows live what a server is doing, until q is pressed.",
            "  -i, --interval S  seconds between two looks (1)\n",
        ),
        _ => (
            "Says what a server is doing. Exit status: 0 it runs, 1 it is dead and its PID file is\n\
             still there, 3 it does not run, 4 that cannot be told.",
            "      --json        the whole document, for programs\n",
        ),
    };
    format!(
        "Usage: manifold {program} [URL | -d ROOT -f FILE]\n\n{what}\n\n  \
         URL               its status page ({DEFAULT_URL})\n  \
         -d ROOT           its ServerRoot, as for httpd\n  \
         -f FILE           its configuration, which tells where its status page is\n{own}  \
         -h, --help        this text\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(program: &str, words: &str) -> Result<Args, String> {
        Args::parse(program, words.split_ascii_whitespace().map(OsString::from)).map(|args| args.expect("no help"))
    }

    #[test]
    fn a_server_is_named_by_address_or_by_configuration() {
        let url = |url: &str| Whom::Url(url.to_owned());
        let check = |program, words: &str, whom, json, interval: Option<u64>| {
            let interval = interval.map(Duration::from_millis);
            assert_eq!(parse(program, words), Ok(Args { whom, json, interval }), "{words}");
        };
        check("status", "http://a/s", url("http://a/s"), false, None);
        check("status", "--json http://a/s", url("http://a/s"), true, None);
        check("top", "-i 2.5 http://a/s", url("http://a/s"), false, Some(2500));
        let words = ["-d", "/srv", "-f", "a.conf"].map(OsString::from).to_vec();
        check("top", "-d /srv -f a.conf", Whom::Configured(words), false, None);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let check = |program, words: &str, expected: &str| {
            let error = parse(program, words).unwrap_err();
            assert!(error.starts_with(expected), "{words}: {error}");
        };
        check("status", "--interval 1", "invalid option '--interval'");
        check("top", "--json", "invalid option '--json'");
        check("top", "--interval 0", "--interval: '0' is no number of seconds from 0.1 to 3600");
        check("top", "--interval NaN", "--interval: 'NaN' is no number");
        check("status", "a b", "unexpected argument \"b\"");
        check("status", "a -f b", "an address and a configuration are two servers");
    }
}
