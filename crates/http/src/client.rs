//! The client's side: what a load generator has to know of a response, found as fast as possible.
//!
//! That is the status, how the body ends and whether the connection lives on. Line ends may be LF alone (RFC 9112
//! section 2.2 allows a recipient that much), and fields that do not matter are not looked at: the servers measured
//! are the servers measured.

use std::fmt;

use memchr::memchr;

use crate::body::{BodyDecoder, BodyError, BodyLength, Step};
use crate::chars::{decimal, is_name, trim_ows};
use crate::{Limits, Status, Version};

/// What a response head says about the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code, 100 to 999. After a 1xx other than 101 the final response follows.
    pub status: u16,
    /// The protocol version of the response.
    pub version: Version,
    /// How the end of the body is found.
    pub body: ResponseBody,
    /// Whether the connection can carry another request after this response.
    pub keep_alive: bool,
    /// Whether `Connection: keep-alive` was named, which is what `ab` counts.
    pub keep_alive_named: bool,
}

/// How the end of a response body is found (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// No body: the response to HEAD, or a status that has none.
    None,
    /// `Content-Length`, in bytes.
    Length(u64),
    /// The chunked coding.
    Chunked,
    /// The body ends with the connection.
    UntilClose,
}

/// Parses the response head at the start of `bytes`; `head_request` says that it answers a HEAD.
///
/// `Ok(None)`: incomplete. `Ok(Some((n, head)))`: the head is `bytes[..n]`, the empty line included.
///
/// # Errors
/// [`ResponseError`] if this is no HTTP/1.x response, if its length cannot be told, or if it passes `limits`
/// (`request_line` bounds the status line).
pub fn parse_response_head(
    bytes: &[u8],
    head_request: bool,
    limits: &Limits,
) -> Result<Option<(usize, ResponseHead)>, ResponseError> {
    let Some((version, status)) = status_line(bytes)? else { return Ok(None) };
    let Some((_, mut at)) = line_at(bytes, 0, limits.request_line)? else { return Ok(None) };
    let mut digest = Digest::default();
    for _ in 0..=limits.fields_max() {
        let Some((line, next)) = line_at(bytes, at, limits.field_size)? else { return Ok(None) };
        if line.is_empty() {
            return Ok(Some((next, digest.finish(version, status, head_request))));
        }
        digest.field(line)?;
        at = next;
    }
    Err(ResponseError::TooManyFields)
}

/// All fields of a response head as [`parse_response_head`] measured it, in order: name and value without white space
/// at its ends. Lines without a colon are left out.
pub fn response_fields(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    head.split(|&b| b == b'\n').skip(1).filter_map(|line| {
        let colon = memchr(b':', line)?;
        Some((&line[..colon], trim_ows(line[colon + 1..].strip_suffix(b"\r").unwrap_or(&line[colon + 1..]))))
    })
}

/// The value of the first field called `name`, in any case, in a response head.
pub fn find_field<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    response_fields(head).find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
}

/// `HTTP/1.x NNN`, checked as far as it is there; what follows the code does not matter.
fn status_line(bytes: &[u8]) -> Result<Option<(Version, u16)>, ResponseError> {
    const PATTERN: &[u8; 13] = b"HTTP/1.d ddd$";
    let fits = |b: u8, expected: u8| match expected {
        b'd' => b.is_ascii_digit(),
        // Without a reason phrase its space is often left out as well.
        b'$' => matches!(b, b' ' | b'\r' | b'\n'),
        _ => b == expected,
    };
    let Some(head) = bytes.first_chunk::<13>() else {
        let good = bytes.iter().zip(PATTERN).all(|(&b, &expected)| fits(b, expected));
        return if good { Ok(None) } else { Err(ResponseError::StatusLine) };
    };
    let status = head[9..12].iter().fold(0, |n, b| n * 10 + u16::from(b.wrapping_sub(b'0')));
    let good = head.iter().zip(PATTERN).fold(true, |good, (&b, &expected)| good & fits(b, expected));
    if !good || status < 100 {
        return Err(ResponseError::StatusLine);
    }
    let version = if head[7] == b'0' { Version::Http10 } else { Version::Http11 };
    Ok(Some((version, status)))
}

/// The line at `at` without its line end, and where the next begins.
#[inline]
fn line_at(bytes: &[u8], at: usize, limit: usize) -> Result<Option<(&[u8], usize)>, ResponseError> {
    let rest = bytes.get(at..).unwrap_or_default();
    match memchr(b'\n', rest) {
        Some(length) => {
            let line = &rest[..length];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.len() > limit { Err(ResponseError::LineTooLong) } else { Ok(Some((line, at + length + 1))) }
        }
        // One more may still be the CR.
        None if rest.len() > limit.saturating_add(1) => Err(ResponseError::LineTooLong),
        None => Ok(None),
    }
}

#[derive(Default)]
struct Digest {
    content_length: Option<u64>,
    transfer_encoding: bool,
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

impl Digest {
    #[inline]
    fn field(&mut self, line: &[u8]) -> Result<(), ResponseError> {
        // The first letter rules out most lines.
        if !matches!(line.first(), Some(b'C' | b'c' | b'T' | b't')) {
            return Ok(());
        }
        if let Some(value) = value_of(line, b"content-length") {
            let length = decimal(trim_ows(value)).map_err(|_| ResponseError::ContentLength)?;
            if self.content_length.is_some_and(|before| before != length) {
                return Err(ResponseError::ContentLength);
            }
            self.content_length = Some(length);
        } else if let Some(value) = value_of(line, b"connection") {
            for option in value.split(|&b| b == b',') {
                let option = trim_ows(option);
                self.close |= option.eq_ignore_ascii_case(b"close");
                self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if let Some(value) = value_of(line, b"transfer-encoding") {
            self.transfer_encoding = true;
            let last = value.rsplit(|&b| b == b',').next().unwrap_or_default();
            self.chunked = trim_ows(last).eq_ignore_ascii_case(b"chunked");
        }
        Ok(())
    }

    fn finish(&self, version: Version, status: u16, head_request: bool) -> ResponseHead {
        let body = if head_request || Status(status).is_bodiless() {
            ResponseBody::None
        } else if self.transfer_encoding {
            if self.chunked { ResponseBody::Chunked } else { ResponseBody::UntilClose }
        } else {
            self.content_length.map_or(ResponseBody::UntilClose, ResponseBody::Length)
        };
        // Both a coding and a length smell of a proxy led astray: such a connection is not used again (6.3).
        let ambiguous = self.transfer_encoding && self.content_length.is_some();
        let asked = if version >= Version::Http11 { !self.close } else { self.keep_alive && !self.close };
        ResponseHead {
            status,
            version,
            body,
            keep_alive: asked && !ambiguous && body != ResponseBody::UntilClose,
            keep_alive_named: self.keep_alive,
        }
    }
}

/// What follows the colon, if `line` is the field `name` (lower case). The colon's place rules out nearly every line.
#[inline]
fn value_of<'a, const N: usize>(line: &'a [u8], name: &[u8; N]) -> Option<&'a [u8]> {
    if line.get(N) == Some(&b':') && is_name(&line[..N], name) { Some(&line[N + 1..]) } else { None }
}

/// Finds the payload and the end of one response body.
#[derive(Clone, Debug)]
pub struct ResponseDecoder {
    /// `None`: the body goes on until the connection ends.
    framed: Option<BodyDecoder>,
}

impl ResponseDecoder {
    /// A decoder at the start of a body.
    pub fn new(body: ResponseBody) -> ResponseDecoder {
        let length = match body {
            ResponseBody::None => BodyLength::None,
            ResponseBody::Length(length) => BodyLength::Length(length),
            ResponseBody::Chunked => BodyLength::Chunked,
            ResponseBody::UntilClose => return ResponseDecoder { framed: None },
        };
        ResponseDecoder { framed: Some(BodyDecoder::new(length)) }
    }

    /// Whether the body is complete without any further byte.
    pub fn is_done(&self) -> bool {
        self.framed.as_ref().is_some_and(BodyDecoder::is_done)
    }

    /// Whether the body is complete if the connection ends here.
    pub fn is_done_at_end(&self) -> bool {
        self.framed.as_ref().is_none_or(BodyDecoder::is_done)
    }

    /// Takes in the next bytes, as [`BodyDecoder::decode`] does. A body that ends with the connection is never `done`.
    ///
    /// # Errors
    /// [`BodyError`] if the chunked coding is broken.
    pub fn decode(&mut self, input: &[u8]) -> Result<Step, BodyError> {
        match &mut self.framed {
            Some(decoder) => decoder.decode(input),
            None => Ok(Step { consumed: input.len(), payload: 0..input.len(), done: false }),
        }
    }
}

/// Why a response cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseError {
    /// It does not begin with `HTTP/1.x` and a status code.
    StatusLine,
    /// A line is longer than the limits allow.
    LineTooLong,
    /// There are more fields than the limits allow.
    TooManyFields,
    /// A `Content-Length` that is no number, or several that differ.
    ContentLength,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResponseError::StatusLine => "not an HTTP/1.x response",
            ResponseError::LineTooLong => "a line of the response head is too long",
            ResponseError::TooManyFields => "too many fields in the response head",
            ResponseError::ContentLength => "malformed or contradictory Content-Length",
        })
    }
}

impl std::error::Error for ResponseError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Seen = Result<Option<(usize, ResponseHead)>, ResponseError>;

    fn parse(bytes: &[u8], head_request: bool) -> Seen {
        let seen = parse_response_head(bytes, head_request, &Limits::default());
        let mut decided = false;
        for end in 0..bytes.len() {
            let now = parse_response_head(&bytes[..end], head_request, &Limits::default());
            assert!(now == seen || (now == Ok(None) && !decided), "{:?}", bytes[..end].escape_ascii().to_string());
            decided = now != Ok(None);
        }
        seen
    }

    fn head(fields: &str, line: &str) -> ResponseHead {
        let bytes = format!("{line}\r\n{fields}\r\n");
        let (n, head) = parse(bytes.as_bytes(), false).unwrap().expect("a whole head");
        assert_eq!(n, bytes.len());
        let with_lf = parse(bytes.replace("\r\n", "\n").as_bytes(), false).unwrap().expect("a whole head");
        assert_eq!(with_lf.1, head);
        head
    }

    #[test]
    fn status_lines() {
        let check = |line: &str, version, status| {
            let head = head("", line);
            assert_eq!((head.version, head.status), (version, status), "{line}");
        };
        check("HTTP/1.1 200 OK", Version::Http11, 200);
        check("HTTP/1.0 404 ", Version::Http10, 404);
        check("HTTP/1.1 999", Version::Http11, 999);
        check("HTTP/1.5 200 A reason \u{e9}", Version::Http11, 200);
    }

    #[test]
    fn refused_heads() {
        let check = |bytes: &str, error| assert_eq!(parse(bytes.as_bytes(), false), Err(error), "{bytes}");
        for line in
            ["<html>", "HTTP/2 200\r\n", "HTTP/1.1 20 \r\n", "HTTP/1.1 099 \r\n", "HTTP/1.1  200", "HTTP/1.1 2000"]
        {
            check(line, ResponseError::StatusLine);
        }
        for value in ["", "x", "-1", "1, 1", "18446744073709551616"] {
            check(&format!("HTTP/1.1 200 OK\r\nContent-Length: {value}\r\n"), ResponseError::ContentLength);
        }
        check("HTTP/1.1 200 \r\nContent-Length: 1\r\nContent-Length: 2\r\n", ResponseError::ContentLength);
        check(&format!("HTTP/1.1 200 {}", "a".repeat(8190)), ResponseError::LineTooLong);
        check(&format!("HTTP/1.1 200 \r\n{}", "a".repeat(8192)), ResponseError::LineTooLong);
        check(&format!("HTTP/1.1 200 \r\n{}", "a\r\n".repeat(101)), ResponseError::TooManyFields);
    }

    #[test]
    fn limits_hold_to_the_byte() {
        let limits = Limits { request_line: 20, field_size: 8, fields: 2, ..Limits::default() };
        let parse = |text: &str| parse_response_head(text.as_bytes(), false, &limits).map(|seen| seen.is_some());
        assert_eq!(parse("HTTP/1.1 200 4567890\r\nA: 45678\r\nB:345678\n\r\n"), Ok(true));
        assert_eq!(parse("HTTP/1.1 200 4567890\r"), Ok(false));
        assert_eq!(parse("HTTP/1.1 200 45678901\r"), Err(ResponseError::LineTooLong));
        assert_eq!(parse("HTTP/1.1 200 45678901\n"), Err(ResponseError::LineTooLong));
        assert_eq!(parse("HTTP/1.1 200 \nA: 456789\n"), Err(ResponseError::LineTooLong));
        assert_eq!(parse("HTTP/1.1 200 \nA:\nB:\nC:\n"), Err(ResponseError::TooManyFields));
    }

    #[test]
    fn bodies() {
        let check =
            |line: &str, fields: &str, expected| assert_eq!(head(fields, line).body, expected, "{line} {fields}");
        let ok = "HTTP/1.1 200 OK";
        check(ok, "Content-Length: 44\r\n", ResponseBody::Length(44));
        check(ok, "CONTENT-LENGTH:44 \r\nContent-Length: 44\r\n", ResponseBody::Length(44));
        check(ok, "Transfer-Encoding: chunked\r\n", ResponseBody::Chunked);
        check(ok, "transfer-encoding:CHUNKED\r\n", ResponseBody::Chunked);
        check(ok, "Transfer-Encoding: gzip, Chunked\r\nContent-Length: 1\r\n", ResponseBody::Chunked);
        check(ok, "Transfer-Encoding: gzip\r\nContent-Length: 1\r\n", ResponseBody::UntilClose);
        check(ok, "X-Content-Length: 1\r\n", ResponseBody::UntilClose);
        for bodiless in ["HTTP/1.1 100 Continue", "HTTP/1.1 204 No Content", "HTTP/1.1 304 Not Modified"] {
            check(bodiless, "Content-Length: 44\r\n", ResponseBody::None);
        }
        let answer_to_head = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 44\r\n\r\n", true).unwrap().unwrap();
        assert_eq!(answer_to_head.1.body, ResponseBody::None);
    }

    #[test]
    fn keep_alive() {
        let check = |version: &str, fields: &str, keep_alive, named| {
            let head = head(&format!("Content-Length: 0\r\n{fields}"), &format!("{version} 200 OK"));
            assert_eq!((head.keep_alive, head.keep_alive_named), (keep_alive, named), "{version} {fields}");
        };
        check("HTTP/1.1", "", true, false);
        check("HTTP/1.1", "Connection: Keep-Alive\r\n", true, true);
        check("HTTP/1.1", "Connection: close\r\n", false, false);
        check("HTTP/1.1", "Transfer-Encoding: chunked\r\n", false, false);
        check("HTTP/1.0", "", false, false);
        check("HTTP/1.0", "connection: keep-alive\r\n", true, true);
        check("HTTP/1.0", "Connection: keep-alive, close\r\n", false, true);
        assert!(!head("Connection: keep-alive\r\n", "HTTP/1.1 200 OK").keep_alive, "the body ends with the connection");
    }

    #[test]
    fn fields_by_name() {
        let head = b"HTTP/1.1 200 OK\r\nDate: now\r\nServer:  a/1 \r\nnothing\r\nSERVER: b\nEmpty:\r\n\r\n";
        let check = |name, expected: Option<&str>| assert_eq!(find_field(head, name), expected.map(str::as_bytes));
        check("server", Some("a/1"));
        check("Empty", Some(""));
        check("HTTP/1.1 200 OK", None);
        check("nothing", None);
        assert_eq!(response_fields(head).count(), 4);
    }

    #[test]
    fn a_body_until_close_ends_only_with_the_connection() {
        let mut decoder = ResponseDecoder::new(ResponseBody::UntilClose);
        assert_eq!(decoder.decode(b"abc"), Ok(Step { consumed: 3, payload: 0..3, done: false }));
        assert!(!decoder.is_done() && decoder.is_done_at_end());
        let mut decoder = ResponseDecoder::new(ResponseBody::Length(3));
        assert!(!decoder.is_done() && !decoder.is_done_at_end());
        assert_eq!(decoder.decode(b"abcd"), Ok(Step { consumed: 3, payload: 0..3, done: true }));
        assert!(decoder.is_done() && decoder.is_done_at_end());
        assert!(ResponseDecoder::new(ResponseBody::None).is_done());
        assert!(!ResponseDecoder::new(ResponseBody::Chunked).is_done_at_end());
    }

    proptest! {
        #[test]
        fn splitting_changes_nothing(
            bytes in proptest::collection::vec(prop_oneof![
                4 => Just(b"HTTP/1.1 200 OK\r\n".to_vec()),
                2 => Just(b"Content-Length: 5\r\n".to_vec()),
                1 => Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
                2 => Just(b"\r\n".to_vec()),
                1 => Just(b"\n".to_vec()),
                1 => any::<u8>().prop_map(|b| vec![b]),
            ], 0..12).prop_map(|pieces| pieces.concat()),
            head_request in any::<bool>(),
        ) {
            parse(&bytes, head_request).ok();
            response_fields(&bytes).count();
        }
    }
}
