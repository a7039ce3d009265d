//! `LogFormat` as it is written, and what it becomes: a list of items, resolved as far as possible before the first request.

use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A parsed `LogFormat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format(pub(super) Vec<Item>);

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// The statuses for which it is shown; otherwise it is `-`.
    pub only: Option<Only>,
    pub what: What,
}

/// `%400,501{...}` and `%!200,304{...}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Only {
    pub not: bool,
    pub statuses: Vec<u16>,
}

impl Only {
    /// Whether an item is shown for an answer of this status.
    pub fn admits(&self, status: u16) -> bool {
        self.statuses.contains(&status) != self.not
    }
}

/// What a piece of a line shows: the letters of Apache's manual page of mod_log_config, "Custom Log Formats".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Text(Vec<u8>),
    /// `%h`, `%a` and `%{c}a`: the client's address.
    Client,
    /// `%l`, `%u` and `%L`: never known here.
    Unknown,
    /// `%t`, `%{format}t` and so on.
    Time {
        /// `%{end:...}t`: when the answer was sent rather than when the request was received.
        end: bool,
        clock: Clock,
    },
    /// `%D`, `%T` and `%{unit}T`: the time between.
    Taken(Unit),
    /// `%r`: the request line.
    RequestLine,
    /// `%s` and `%>s`.
    Status,
    /// `%b`: bytes of the body, `-` for none; `%B`: 0 for none.
    BodyBytes {
        dash: bool,
    },
    /// `%I`.
    Received,
    /// `%O`.
    Sent,
    /// `%S`: both.
    Transferred,
    /// `%m`.
    Method,
    /// `%U`: the path, decoded.
    Path,
    /// `%q`: the query with its question mark.
    Query,
    /// `%H`.
    Protocol,
    /// `%f`: the file.
    Filename,
    /// `%R`: the handler, where `SetHandler` named one.
    Handler,
    /// `%{Name}i`.
    RequestField(String),
    /// `%{Name}o`.
    ResponseField(String),
    /// `%{Name}C`.
    Cookie(String),
    /// `%k`: requests on the connection before this one.
    KeptAlive,
    /// `%X`: what becomes of the connection.
    Ending,
    /// `%p` and `%{canonical}p`: that of `ServerName`.
    Port,
    /// `%{remote}p`.
    ClientPort,
    /// `%v`: `ServerName`.
    ServerName,
    /// `%V`: the name that the client used.
    UsedName,
    /// `%P`.
    Process,
    /// `%{tid}P` and `%{hextid}P`.
    Thread {
        hex: bool,
    },
}

/// How a moment is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// By strftime(3); the text is the same for a whole second.
    Text {
        format: String,
        /// Distinguishes formats, for the memory of what was rendered last.
        id: usize,
    },
    /// Since 1970.
    Since(Unit),
    /// Of the second: three digits or six.
    Fraction(Unit),
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
    Microseconds,
}

/// `[10/Oct/2000:13:55:36 -0700]`.
pub(super) const COMMON_TIME: &str = "[%d/%b/%Y:%H:%M:%S %z]";

impl Format {
    /// Parses a format string.
    ///
    /// # Errors
    /// Names the directive that is unknown here, as a sentence.
    pub fn parse(text: &str) -> Result<Format, String> {
        let mut items = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['%', '\\']) {
            push_text(&mut items, &rest[..at]);
            rest = match rest.as_bytes()[at] {
                b'%' => {
                    let (item, after) = parse_item(&rest[at..])?;
                    match item.what {
                        What::Text(text) if item.only.is_none() => push_bytes(&mut items, &text),
                        _ => items.push(item),
                    }
                    after
                }
                _ => parse_escape(&mut items, &rest[at..]),
            };
        }
        push_text(&mut items, rest);
        Ok(Format(items))
    }

    /// Whether an item shows the name of the file.
    pub(super) fn shows_file_names(&self) -> bool {
        self.0.iter().any(|item| matches!(item.what, What::Filename))
    }

    /// Whether an item shows a field of the answer.
    pub(super) fn shows_response_fields(&self) -> bool {
        self.0.iter().any(|item| matches!(item.what, What::ResponseField(_)))
    }
}

fn push_text(items: &mut Vec<Item>, text: &str) {
    push_bytes(items, text.as_bytes());
}

fn push_bytes(items: &mut Vec<Item>, text: &[u8]) {
    match items.last_mut() {
        _ if text.is_empty() => {}
        Some(Item { only: None, what: What::Text(before) }) => before.extend_from_slice(text),
        _ => items.push(Item { only: None, what: What::Text(text.to_owned()) }),
    }
}

/// `\n`, `\r` and `\t`; any other backslash stands for itself. Gives what follows.
fn parse_escape<'a>(items: &mut Vec<Item>, text: &'a str) -> &'a str {
    let (control, length) = match text.as_bytes().get(1) {
        Some(b'n') => ("\n", 2),
        Some(b'r') => ("\r", 2),
        Some(b't') => ("\t", 2),
        _ => ("\\", 1),
    };
    push_text(items, control);
    &text[length..]
}

/// Parses one directive at the start of `text`; gives what follows it.
fn parse_item(text: &str) -> Result<(Item, &str), String> {
    let (mut not, mut statuses, mut argument) = (false, Vec::new(), None);
    let mut rest = &text[1..];
    loop {
        let Some(letter) = rest.chars().next() else {
            return Err(match text {
                "%" => "a format ends with a lone %".to_owned(),
                _ => format!("\"{text}\" is no whole log format directive"),
            });
        };
        let after = &rest[letter.len_utf8()..];
        rest = match letter {
            // Which of several requests is meant matters after internal redirects alone; there are none that log twice.
            '<' | '>' | ',' => after,
            '!' => {
                not = true;
                after
            }
            '0'..='9' => {
                let length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                let status = rest[..length].parse().map_err(|_| format!("\"{}\" is no status", &rest[..length]))?;
                statuses.push(status);
                &rest[length..]
            }
            '{' => {
                let (name, after) =
                    after.split_once('}').ok_or_else(|| format!("\"{text}\" lacks its closing brace"))?;
                argument = Some(name);
                after
            }
            _ => {
                let written = &text[..text.len() - after.len()];
                let what = what(letter, argument).map_err(|why| format!("\"{written}\" {why}"))?;
                let only = (!statuses.is_empty()).then_some(Only { not, statuses });
                return Ok((Item { only, what }, after));
            }
        }
    }
}

const UNKNOWN: &str = "is not a log format directive of this version";

fn what(letter: char, argument: Option<&str>) -> Result<What, String> {
    let name = || argument.filter(|name| !name.is_empty()).map(str::to_owned).ok_or("lacks a name in braces");
    Ok(match (letter, argument) {
        ('%', _) => What::Text(b"%".to_vec()),
        ('h', _) | ('a', None | Some("c")) => What::Client,
        ('l' | 'u' | 'L', _) => What::Unknown,
        ('t', argument) => time(argument.unwrap_or_default())?,
        ('r', _) => What::RequestLine,
        ('s', _) => What::Status,
        ('b', _) => What::BodyBytes { dash: true },
        ('B', _) => What::BodyBytes { dash: false },
        ('I', _) => What::Received,
        ('O', _) => What::Sent,
        ('S', _) => What::Transferred,
        ('m', _) => What::Method,
        ('U', _) => What::Path,
        ('q', _) => What::Query,
        ('H', _) => What::Protocol,
        ('f', _) => What::Filename,
        ('R', _) => What::Handler,
        ('i', _) => What::RequestField(name()?),
        ('o', _) => What::ResponseField(name()?),
        ('C', _) => What::Cookie(name()?),
        ('k', _) => What::KeptAlive,
        ('X', _) => What::Ending,
        ('D', _) | ('T', Some("us")) => What::Taken(Unit::Microseconds),
        ('T', Some("ms")) => What::Taken(Unit::Milliseconds),
        ('T', None | Some("" | "s")) => What::Taken(Unit::Seconds),
        ('T', _) => return Err("has a unit other than s, ms and us".to_owned()),
        ('p', None | Some("" | "canonical")) => What::Port,
        ('p', Some("remote")) => What::ClientPort,
        ('v', _) => What::ServerName,
        ('V', _) => What::UsedName,
        ('P', None | Some("" | "pid")) => What::Process,
        ('P', Some("tid")) => What::Thread { hex: false },
        ('P', Some("hextid")) => What::Thread { hex: true },
        _ => return Err(UNKNOWN.to_owned()),
    })
}

/// What stands in the braces of `%{...}t`.
fn time(argument: &str) -> Result<What, String> {
    let (end, rest) = match (argument.strip_prefix("begin"), argument.strip_prefix("end")) {
        (Some(rest), _) if rest.is_empty() || rest.starts_with(':') => (false, rest),
        (_, Some(rest)) if rest.is_empty() || rest.starts_with(':') => (true, rest),
        _ => (false, argument),
    };
    let clock = match rest.strip_prefix(':').unwrap_or(rest) {
        "sec" => Clock::Since(Unit::Seconds),
        "msec" => Clock::Since(Unit::Milliseconds),
        "usec" => Clock::Since(Unit::Microseconds),
        "msec_frac" => Clock::Fraction(Unit::Milliseconds),
        "usec_frac" => Clock::Fraction(Unit::Microseconds),
        "" => text_clock(COMMON_TIME)?,
        format => text_clock(format)?,
    };
    Ok(What::Time { end, clock })
}

fn text_clock(format: &str) -> Result<Clock, String> {
    static FORMATS: AtomicUsize = AtomicUsize::new(0);
    let sample = Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
    jiff::fmt::strtime::format(format, &sample)
        .map_err(|error| format!("has a format that is not understood: {error}"))?;
    Ok(Clock::Text { format: format.to_owned(), id: FORMATS.fetch_add(1, Ordering::Relaxed) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_config::{COMBINED, COMMON};

    #[test]
    fn formats_are_parsed_or_named_as_unknown() {
        let check = |text: &str, expected: Result<usize, &str>| {
            let items = Format::parse(text).map(|format| format.0.len());
            assert_eq!(items, expected.map_err(str::to_owned), "{text}");
        };
        check(COMMON, Ok(13));
        check(COMBINED, Ok(18));
        check("100%%", Ok(1));
        check("plain", Ok(1));
        check("", Ok(0));
        check("%400,501{User-agent}i%!200,304,302{Referer}i", Ok(2));
        check("%{end:%H:%M}t%{begin:msec_frac}t%{sec}t%{beginning}t", Ok(4));
        check("%h %Z x", Err("\"%Z\" is not a log format directive of this version"));
        check("%>é", Err("\"%>é\" is not a log format directive of this version"));
        check("%{PATH}e", Err("\"%{PATH}e\" is not a log format directive of this version"));
        check("%{ratio}n", Err("\"%{ratio}n\" is not a log format directive of this version"));
        check("%^FB", Err("\"%^\" is not a log format directive of this version"));
        check("%A", Err("\"%A\" is not a log format directive of this version"));
        check("%{Referer}", Err("\"%{Referer}\" is no whole log format directive"));
        check("%{Referer", Err("\"%{Referer\" lacks its closing brace"));
        check("%i", Err("\"%i\" lacks a name in braces"));
        check("%{h}T", Err("\"%{h}T\" has a unit other than s, ms and us"));
        check("%99999s", Err("\"99999\" is no status"));
        check("x%", Err("a format ends with a lone %"));
    }

    #[test]
    fn text_is_joined_and_its_escapes_are_resolved() {
        let text = |text: &str| Item { only: None, what: What::Text(text.into()) };
        let check =
            |format: &str, expected: &[Item]| assert_eq!(Format::parse(format).unwrap().0, expected, "{format}");
        check(r"a\tb\nc\rd\\e\q%%\", &[text("a\tb\nc\rd\\\\e\\q%\\")]);
        check("é%%é", &[text("é%é")]);
    }

    #[test]
    fn conditions_hold_for_statuses() {
        let check = |format: &str, status: u16, shown: bool| {
            let format = Format::parse(format).unwrap();
            let only = format.0[0].only.as_ref();
            assert_eq!(only.is_none_or(|only| only.admits(status)), shown, "{status}");
        };
        check("%400,501{User-agent}i", 400, true);
        check("%400,501{User-agent}i", 501, true);
        check("%400,501{User-agent}i", 200, false);
        check("%!200,304>s", 200, false);
        check("%!200,304>s", 404, true);
        check("%>s", 404, true);
    }
}
