//! `mod_log_config`: a line for each request (`CustomLog`), in a format of the administrator's choice (`LogFormat`). Lines are
//! collected and written many at a time ([`batch`]).

mod batch;

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use manifold_engine::phases::Phases;
use manifold_engine::request::Request;
use manifold_engine::transaction::{LogTransaction, Transaction};
use manifold_http::write_decimal;

use self::batch::BatchedFile;
pub use self::batch::Buffering;

/// Apache's `common` format.
pub const COMMON: &str = "%h %l %u %t \"%r\" %>s %b";
/// Apache's `combined` format.
pub const COMBINED: &str = "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"";

/// An open access log.
#[derive(Debug)]
pub struct AccessLog {
    file: BatchedFile,
    format: Format,
    zone: TimeZone,
}

impl AccessLog {
    /// Opens `path` for appending, creating it where it is missing; a standard stream is duplicated.
    ///
    /// # Errors
    /// The error of open(2) or dup(2).
    pub fn open(path: &Path, format: Format, buffering: Buffering) -> io::Result<AccessLog> {
        Ok(AccessLog { file: BatchedFile::open(path, buffering)?, format, zone: TimeZone::system() })
    }
}

impl LogTransaction for AccessLog {
    fn log(&self, transaction: &Transaction<'_>) {
        thread_local! {
            static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        LINE.with_borrow_mut(|line| {
            line.clear();
            self.format.write(line, transaction.request, transaction.sent.body, &self.zone);
            line.push(b'\n');
            self.file.append(line, transaction.host.turn().now);
        });
    }

    fn settle(&self, now: Instant) -> Option<Instant> {
        self.file.settle(now)
    }

    fn flush(&self) {
        self.file.flush();
    }
}

/// Adds an access log to a site.
pub fn register(phases: &mut Phases, log: AccessLog) {
    phases.add_log(log);
}

/// A parsed `LogFormat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format(Vec<Item>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Text(String),
    /// `%h` and `%a`: the client's address.
    Client,
    /// `%l` and `%u`: never known here.
    Dash,
    /// `%t`: when the request was received.
    Time,
    /// `%r`: the request line.
    RequestLine,
    /// `%>s` and `%s`: the status.
    Status,
    /// `%b`: bytes of the body, `-` for none; `%B`: 0 for none.
    BodyBytes {
        dash: bool,
    },
    /// `%m`: the method.
    Method,
    /// `%U`: the path.
    Path,
    /// `%q`: the query with its question mark.
    Query,
    /// `%{Name}i`: a request field.
    Field(String),
}

impl Format {
    /// Parses a format string.
    ///
    /// # Errors
    /// Names the directive that is unknown here, as a sentence.
    pub fn parse(text: &str) -> Result<Format, String> {
        let mut items = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            push_text(&mut items, &rest[..at]);
            let (item, after) = parse_item(&rest[at..])?;
            match item {
                Item::Text(text) => push_text(&mut items, &text),
                item => items.push(item),
            }
            rest = after;
        }
        push_text(&mut items, rest);
        Ok(Format(items))
    }

    fn write(&self, out: &mut Vec<u8>, request: &Request, bytes: u64, zone: &TimeZone) {
        for item in &self.0 {
            match item {
                Item::Text(text) => out.extend_from_slice(text.as_bytes()),
                Item::Client => {
                    let _infallible = write!(out, "{}", request.peer.ip().to_canonical());
                }
                Item::Dash => out.push(b'-'),
                Item::Time => write_time(out, request.turn.wall.as_secs(), zone),
                Item::RequestLine => escape(out, request.request_line()),
                Item::Status => write_decimal(out, u64::from(request.response.status.0)),
                Item::BodyBytes { dash: true } if bytes == 0 => out.push(b'-'),
                Item::BodyBytes { .. } => write_decimal(out, bytes),
                Item::Method => escape(out, request.head.method_token(&request.bytes)),
                Item::Path => escape(out, &request.path),
                Item::Query => {
                    if let Some(query) = request.query() {
                        out.push(b'?');
                        escape(out, query);
                    }
                }
                Item::Field(name) => match request.field(name) {
                    Some(value) => escape(out, value),
                    None => out.push(b'-'),
                },
            }
        }
    }
}

fn push_text(items: &mut Vec<Item>, text: &str) {
    match items.last_mut() {
        _ if text.is_empty() => {}
        Some(Item::Text(before)) => before.push_str(text),
        _ => items.push(Item::Text(text.to_owned())),
    }
}

/// Parses one directive at the start of `text`; gives what follows it.
fn parse_item(text: &str) -> Result<(Item, &str), String> {
    let unknown = |end: usize| format!("\"{}\" is not a log format directive of this version", &text[..end]);
    let body = text[1..].strip_prefix('>').unwrap_or(&text[1..]);
    if let Some(named) = body.strip_prefix('{') {
        let Some((name, after)) = named.split_once('}') else {
            return Err(format!("\"{text}\" lacks its closing brace"));
        };
        return match after.strip_prefix('i') {
            Some(after) => Ok((Item::Field(name.to_owned()), after)),
            None => Err(unknown(text.len() - after.len() + after.chars().next().map_or(0, char::len_utf8))),
        };
    }
    let Some(letter) = body.chars().next() else { return Err("a format ends with a lone %".to_owned()) };
    let item = match letter {
        '%' => Item::Text("%".to_owned()),
        'h' | 'a' => Item::Client,
        'l' | 'u' => Item::Dash,
        't' => Item::Time,
        'r' => Item::RequestLine,
        's' => Item::Status,
        'b' => Item::BodyBytes { dash: true },
        'B' => Item::BodyBytes { dash: false },
        'm' => Item::Method,
        'U' => Item::Path,
        'q' => Item::Query,
        _ => return Err(unknown(text.len() - body.len() + letter.len_utf8())),
    };
    Ok((item, &body[letter.len_utf8()..]))
}

/// `[10/Oct/2000:13:55:36 -0700]`, rendered once a second on each thread.
fn write_time(out: &mut Vec<u8>, second: u64, zone: &TimeZone) {
    thread_local! {
        static TIME: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
    }
    TIME.with_borrow_mut(|(rendered_for, text)| {
        if *rendered_for != second {
            let at = i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok());
            *text = at.unwrap_or_default().to_zoned(zone.clone()).strftime("[%d/%b/%Y:%H:%M:%S %z]").to_string();
            *rendered_for = second;
        }
        out.extend_from_slice(text.as_bytes());
    });
}

/// Writes what came from a client so that it cannot end the line or the quotes (Apache's `ap_escape_logitem`).
fn escape(out: &mut Vec<u8>, mut bytes: &[u8]) {
    let is_plain = |byte: &u8| matches!(byte, 0x20..=0x7e) && !matches!(byte, b'"' | b'\\');
    while let Some(at) = bytes.iter().position(|byte| !is_plain(byte)) {
        out.extend_from_slice(&bytes[..at]);
        match bytes[at] {
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte => {
                let _infallible = write!(out, "\\x{byte:02x}");
            }
        }
        bytes = &bytes[at + 1..];
    }
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

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
        check("%h %Z x", Err("\"%Z\" is not a log format directive of this version"));
        check("%>é", Err("\"%>é\" is not a log format directive of this version"));
        check("%{Referer}o", Err("\"%{Referer}o\" is not a log format directive of this version"));
        check("%{Referer}", Err("\"%{Referer}\" is not a log format directive of this version"));
        check("%{Referer", Err("\"%{Referer\" lacks its closing brace"));
        check("x%", Err("a format ends with a lone %"));
    }

    #[test]
    fn a_client_cannot_forge_a_log_line() {
        let mut out = Vec::new();
        escape(&mut out, b"GET /\"\\\r\n\t\x00\xe9 HTTP/1.1");
        assert_eq!(out, b"GET /\\\"\\\\\\r\\n\\t\\x00\\xe9 HTTP/1.1");
    }

    #[test]
    fn time_is_written_as_apache_does() {
        let mut out = Vec::new();
        write_time(&mut out, 971_211_336, &TimeZone::fixed(jiff::tz::offset(-7)));
        assert_eq!(out, b"[10/Oct/2000:13:55:36 -0700]");
    }
}
