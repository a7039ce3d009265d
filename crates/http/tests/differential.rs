//! Our request parser beside httparse, the common lenient one: over thousands of heads, each difference must be of a
//! kind that is listed and explained here.

use std::collections::BTreeMap;

use manifold_http::{Head, HeadError, Limits, ProtocolOptions, Version};

/// Why the two may judge a head differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// httparse takes LF alone as a line end; Apache's Strict mode and we demand CRLF, since servers that disagree on
    /// where a line ends can be made to disagree on where a request ends.
    LineFeed,
    /// httparse leaves fields to its caller; RFC 9112 section 3.2 has us refuse a missing, repeated or malformed Host.
    Host,
    /// The same for Content-Length and Transfer-Encoding (RFC 9112 section 6.3).
    Framing,
    /// The same for Expect (RFC 9110 section 10.1.1).
    Expectation,
    /// httparse bounds only the number of fields, by the caller's array; Apache's limits are per line.
    Limits,
    /// httparse skips any number of empty lines before the request line, we skip ten.
    BlankLines,
    /// httparse knows 1.0 and 1.1 only; a higher minor version is 1.1 to us (RFC 9110 section 2.5).
    MinorVersion,
    /// httparse wants UTF-8 in the target, because it returns a `str`; Apache takes any byte from 0x80 on.
    TargetEncoding,
    /// httparse refuses a major version by its first byte; we need the whole version to tell 505 from 400.
    MajorVersionLater,
}

/// A parser's judgement of some bytes.
#[derive(Debug, PartialEq)]
enum Verdict<E> {
    Complete(Parsed),
    Incomplete,
    Refused(E),
}

#[derive(Debug, PartialEq)]
struct Parsed {
    length: usize,
    method: Vec<u8>,
    target: Vec<u8>,
    version: u8,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

fn ours(bytes: &[u8]) -> Verdict<HeadError> {
    let mut head = Head::new();
    // httparse knows no HTTP/0.9.
    let protocol = ProtocolOptions { allow_http09: false, ..ProtocolOptions::default() };
    match head.parse(bytes, &Limits { protocol, ..Limits::default() }) {
        Err(error) => Verdict::Refused(error),
        Ok(None) => Verdict::Incomplete,
        Ok(Some(length)) => Verdict::Complete(Parsed {
            length,
            method: head.method_token(bytes).to_vec(),
            target: head.target(bytes).to_vec(),
            version: if head.version() == Version::Http11 { 1 } else { 0 },
            fields: head.fields(bytes).map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
        }),
    }
}

fn theirs(bytes: &[u8]) -> Verdict<httparse::Error> {
    let mut fields = [httparse::EMPTY_HEADER; 200];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Err(error) => Verdict::Refused(error),
        Ok(httparse::Status::Partial) => Verdict::Incomplete,
        Ok(httparse::Status::Complete(length)) => Verdict::Complete(Parsed {
            length,
            method: request.method.unwrap_or_default().as_bytes().to_vec(),
            target: request.path.unwrap_or_default().as_bytes().to_vec(),
            version: request.version.unwrap_or_default(),
            fields: request.headers.iter().map(|h| (h.name.as_bytes().to_vec(), h.value.to_vec())).collect(),
        }),
    }
}

/// Judges `bytes` by both. `Ok(None)`: they agree, in every detail where both accept. `Err`: they differ, and no kind
/// explains it.
fn compare(bytes: &[u8]) -> Result<Option<Difference>, String> {
    use Verdict::{Complete, Incomplete, Refused};
    let (ours, theirs) = (ours(bytes), theirs(bytes));
    let difference = match (&ours, &theirs) {
        (Incomplete, Incomplete) | (Refused(_), Refused(_)) => return Ok(None),
        (Complete(a), Complete(b)) if a == b => return Ok(None),
        (Refused(error), Complete(_) | Incomplete) => refused_by_us_alone(*error),
        (Complete(_) | Incomplete, Refused(error)) => refused_by_them_alone(*error, bytes),
        _ => None,
    };
    let text = bytes.escape_ascii();
    difference.map(Some).ok_or_else(|| format!("\"{text}\"\n    ours {ours:?}\n    theirs {theirs:?}"))
}

fn refused_by_us_alone(error: HeadError) -> Option<Difference> {
    Some(match error {
        HeadError::BareLf => Difference::LineFeed,
        HeadError::HostMissing | HeadError::HostRepeated | HeadError::HostMalformed => Difference::Host,
        HeadError::ContentLengthMalformed
        | HeadError::ContentLengthOverflow
        | HeadError::ContentLengthConflict
        | HeadError::TransferEncodingWithLength
        | HeadError::TransferEncodingInHttp10
        | HeadError::TransferEncodingMalformed
        | HeadError::TransferCodingUnknown => Difference::Framing,
        HeadError::Expectation => Difference::Expectation,
        HeadError::RequestLineTooLong | HeadError::FieldTooLong | HeadError::TooManyFields => Difference::Limits,
        HeadError::BlankLines => Difference::BlankLines,
        _ => return None,
    })
}

fn refused_by_them_alone(error: httparse::Error, bytes: &[u8]) -> Option<Difference> {
    let mut words = bytes.trim_ascii_start().split(|&b| b == b' ');
    let (target, version) = (words.nth(1)?, words.next());
    match error {
        httparse::Error::Token if std::str::from_utf8(target).is_err() => Some(Difference::TargetEncoding),
        httparse::Error::Version => match version? {
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9', ..] => Some(Difference::MinorVersion),
            [b'H', b'T', b'T', b'P', b'/', b'0' | b'2'..=b'9', rest @ ..] if rest.len() < 2 => {
                Some(Difference::MajorVersionLater)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Compares all heads; `expected` names each kind of difference that must occur, so that no explanation outlives what
/// it explains.
fn check<T: AsRef<[u8]>>(heads: impl IntoIterator<Item = T>, expected: &[Difference]) -> usize {
    let (mut count, mut seen, mut unexplained) = (0, BTreeMap::<Difference, usize>::new(), Vec::new());
    for bytes in heads {
        count += 1;
        match compare(bytes.as_ref()) {
            Ok(None) => {}
            Ok(Some(difference)) => *seen.entry(difference).or_default() += 1,
            Err(text) => unexplained.push(text),
        }
    }
    let shown = unexplained.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(unexplained.is_empty(), "{} of {count} heads differ without explanation:\n{shown}", unexplained.len());
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), expected, "{seen:?}");
    count
}

#[test]
fn heads_on_which_both_agree() {
    let long_value = format!("GET / HTTP/1.0\r\nA: {}\r\n\r\n", "b".repeat(8187));
    let heads: &[&[u8]] = &[
        b"",
        b"GET",
        b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /next HTTP/1.1\r\n",
        b"\r\n\nGET / HTTP/1.0\r\n\r\n",
        b"!#$%&'*+-.^_`|~ / HTTP/1.0\r\n\r\n",
        b"POST /a?b=c;d#e HTTP/1.1\r\nHost:h\r\nContent-Length:5\r\n\r\nhello",
        b"GET / HTTP/1.0\r\nA:\r\nB: \t\r\nC:\tc\t\r\nD: d d\r\n\r\n",
        b"GET / HTTP/1.0\r\nA: \x80\xff\r\n\r\n",
        b"GET /\xc3\xa9 HTTP/1.0\r\n\r\n",
        long_value.as_bytes(),
        b"GET / HTTP/1.0\r\nA: b\r\n folded\r\n\r\n",
        b"GET / HTTP/1.0\r\n folded: b\r\n\r\n",
        b"GET / HTTP/1.0\r\nA : b\r\n\r\n",
        b"GET / HTTP/1.0\r\n: b\r\n\r\n",
        b"GET / HTTP/1.0\r\nA\r\n\r\n",
        b"GET / HTTP/1.0\r\nA: b\0\r\n\r\n",
        b"GET / HTTP/1.0\r\nA: b\rc\r\n\r\n",
        b"GET / HTTP/1.0\r\nA\xc3\xa9: b\r\n\r\n",
        b"GET  / HTTP/1.0\r\n\r\n",
        b"GET /  HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.0 \r\n\r\n",
        b"GET\t/\tHTTP/1.0\r\n\r\n",
        b" GET / HTTP/1.0\r\n\r\n",
        b"GET / http/1.0\r\n\r\n",
        b"GET / HTTP/1.1x\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /\r\n",
        b"GET\r\n",
        b"GET / \r\n",
        b"GET /a b HTTP/1.0\r\n\r\n",
        b"GET /\x7f HTTP/1.0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ];
    check(heads, &[]);
}

#[test]
fn heads_on_which_they_differ() {
    use Difference as D;
    let one = |bytes: &[u8], difference| {
        check([bytes], &[difference]);
    };
    one(b"GET / HTTP/1.0\n\n", D::LineFeed);
    one(b"GET / HTTP/1.0\r\nA: b\nC: d\r\n\r\n", D::LineFeed);
    one(b"GET / HTTP/1.0\r\n\n", D::LineFeed);
    one(b"GET / HTTP/1.1\r\n\r\n", D::Host);
    one(b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", D::Host);
    one(b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", D::Host);
    one(b"POST / HTTP/1.0\r\nContent-Length: +5\r\n\r\n", D::Framing);
    one(b"POST / HTTP/1.0\r\nContent-Length: 5, 6\r\n\r\n", D::Framing);
    one(b"POST / HTTP/1.0\r\nContent-Length: 99999999999999999999\r\n\r\n", D::Framing);
    one(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", D::Framing);
    one(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", D::Framing);
    one(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", D::Framing);
    one(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", D::Framing);
    one(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: miracles\r\n\r\n", D::Expectation);
    one(format!("GET /{} HTTP/1.0\r\n\r\n", "a".repeat(8190)).as_bytes(), D::Limits);
    one(format!("GET / HTTP/1.0\r\nA: {}\r\n\r\n", "b".repeat(8190)).as_bytes(), D::Limits);
    one(format!("GET / HTTP/1.0\r\n{}\r\n", "A: b\r\n".repeat(101)).as_bytes(), D::Limits);
    one(format!("{}GET / HTTP/1.0\r\n\r\n", "\r\n".repeat(11)).as_bytes(), D::BlankLines);
    one(b"GET / HTTP/1.2\r\nHost: h\r\n\r\n", D::MinorVersion);
    one(b"GET / HTTP/1.9\r\nHost: h\r\n\r\n", D::MinorVersion);
    one(b"GET /\xff HTTP/1.0\r\n\r\n", D::TargetEncoding);
    one(b"GET / HTTP/2", D::MajorVersionLater);
    one(b"GET / HTTP/0.", D::MajorVersionLater);
}

const BASES: [&str; 5] = [
    "GET / HTTP/1.0\r\n\r\n",
    "GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: h:80\r\nContent-Length: 5\r\nAccept:*/*\r\n\r\n",
    "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: [::1]\r\nExpect: 100-continue\r\n\r\n",
    "\r\nOPTIONS * HTTP/1.1\r\nhost:\r\nConnection: close\t, x\r\nEmpty: \r\n\r\n",
];

const BYTES: &[u8] = b"\0\t\n\r \"#%,/:;19AH[\\a{\x7f\x80\xc3\xff";

/// Every base with, at every place, one byte exchanged, put in or left out, the line end there exchanged, or the rest
/// cut off.
fn mutations() -> Vec<Vec<u8>> {
    let mut heads = Vec::new();
    for base in BASES.map(str::as_bytes) {
        for at in 0..base.len() {
            let (before, rest) = base.split_at(at);
            heads.push(before.to_vec());
            heads.push([before, &rest[1..]].concat());
            heads.push([before, rest, rest].concat());
            for &b in BYTES {
                heads.push([before, &[b], &rest[1..]].concat());
                heads.push([before, &[b], rest].concat());
            }
            if rest.starts_with(b"\r\n") {
                for instead in [&b"\r\n "[..], b"\r\n\t", b" \r\n", b"\r\r\n", b"\n\r", b"\r\n\r\n", b""] {
                    heads.push([before, instead, &rest[2..]].concat());
                }
            }
        }
    }
    heads
}

#[test]
fn every_small_change_of_a_good_head() {
    use Difference as D;
    let count =
        check(mutations(), &[D::LineFeed, D::Host, D::Framing, D::Expectation, D::MinorVersion, D::TargetEncoding]);
    assert!(count > 10_000, "{count}");
}
