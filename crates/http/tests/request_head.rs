//! The request head parser, case by case and by its properties.

use manifold_http::{
    BLANK_LINES_MAX, BodyLength, Conditions, FIELDS_MAX, HEAD_MAX, Head, HeadError, Limits, Method, Version,
};
use manifold_http::{Status, request_line_of};
use proptest::prelude::*;

/// What a parser made of an input, with everything the head tells.
type Seen = Result<Option<(usize, Told)>, HeadError>;

#[derive(Debug, PartialEq, Clone)]
struct Told {
    method: Method,
    request_line: Vec<u8>,
    method_token: Vec<u8>,
    target: Vec<u8>,
    version: Version,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    host: Option<Vec<u8>>,
    body: BodyLength,
    keep_alive: bool,
    keep_alive_asked: bool,
    expects_continue: bool,
}

fn told(head: &Head, bytes: &[u8], outcome: Result<Option<usize>, HeadError>) -> Seen {
    let Some(n) = outcome? else { return Ok(None) };
    Ok(Some((
        n,
        Told {
            method: head.method(),
            request_line: head.request_line(bytes).to_vec(),
            method_token: head.method_token(bytes).to_vec(),
            target: head.target(bytes).to_vec(),
            version: head.version(),
            fields: head.fields(bytes).map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
            host: head.host(bytes).map(<[u8]>::to_vec),
            body: head.body(),
            keep_alive: head.keep_alive(),
            keep_alive_asked: head.keep_alive_asked(),
            expects_continue: head.expects_continue(),
        },
    )))
}

fn parse(bytes: &[u8], limits: &Limits) -> Seen {
    let mut head = Head::new();
    let outcome = head.parse(bytes, limits);
    told(&head, bytes, outcome)
}

#[test]
fn what_was_learnt_of_hosts_changes_no_answer() {
    let limits = Limits::default();
    let check = |fields: &str, limits: &Limits| {
        for (line, known) in
            [("GET / HTTP/1.1\r\n", "a:80"), ("GET / HTTP/1.0\r\n", "a:80"), ("GET / HTTP/1.1\r\n", "a")]
        {
            let mut head = Head::new();
            let before = format!("GET / HTTP/1.1\r\nHost: {known}\r\n\r\n");
            assert!(head.parse(before.as_bytes(), &Limits::default()).is_ok_and(|end| end.is_some()));
            let bytes = [line, fields, "\r\n"].concat();
            for end in 0..=bytes.len() {
                let bytes = &bytes.as_bytes()[..end];
                let outcome = head.parse(bytes, limits);
                assert_eq!(told(&head, bytes, outcome), parse(bytes, limits), "{fields:?} cut at {end}, {known} known");
            }
        }
    };
    for fields in [
        "Host: a:80\r\n",
        "Host: a:80\r\nAccept: */*\r\n",
        "Accept: */*\r\nHost: a:80\r\n",
        "Host: a:80\r\nHost: a:80\r\n",
        "host: a:80\r\n",
        "Host:a:80\r\n",
        "Host: a:8\r\n",
        "Host: a:800\r\n",
        "Host: a:80 \r\n",
        "Host: a:80\r\n folded\r\n",
        "Host: a:80\n",
        "Host: a:80\r\r\n",
        "Host: b\r\n",
        "Host: \r\n",
        "",
    ] {
        check(fields, &limits);
    }
    check("Host: a:80\r\n", &Limits { field_size: 10, ..limits });
    check("Host: a:80\r\n", &Limits { field_size: 9, ..limits });
}

/// Parses `bytes` and asserts that no way of splitting them would have led elsewhere: each shorter input is incomplete
/// or already has the same outcome, whether parsed anew or taken up where the parser stopped.
fn parse_split_everywhere(bytes: &[u8], limits: &Limits) -> Seen {
    let seen = parse(bytes, limits);
    let (mut anew, mut resumed) = (Head::new(), Head::new());
    let mut decided = false;
    for end in 0..=bytes.len() {
        let prefix = &bytes[..end];
        let outcome = anew.parse(prefix, limits);
        let now = told(&anew, prefix, outcome);
        assert!(now == seen || (now == Ok(None) && !decided), "{:?}: {now:?}, then {seen:?}", show(prefix));
        if !decided {
            let outcome = resumed.parse_more(prefix, limits);
            assert_eq!(told(&resumed, prefix, outcome), now, "resumed at {:?}", show(prefix));
        }
        decided = now != Ok(None);
    }
    seen
}

fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn head(bytes: &[u8]) -> Told {
    match parse_split_everywhere(bytes, &Limits::default()) {
        Ok(Some((n, told))) => {
            assert_eq!(n, bytes.len(), "{}", show(bytes));
            told
        }
        other => panic!("{}: {other:?}", show(bytes)),
    }
}

/// `bytes` must be refused for `error`, and by its last byte: the input before it is incomplete.
fn refused(bytes: &[u8], limits: &Limits, error: HeadError) {
    assert_eq!(parse_split_everywhere(bytes, limits), Err(error), "{}", show(bytes));
    let before = &bytes[..bytes.len() - 1];
    assert_eq!(parse(before, limits), Ok(None), "{} is refused too early", show(before));
    let mut after = bytes.to_vec();
    after.extend_from_slice(b"x\r\n\r\n");
    assert_eq!(parse(&after, limits), Err(error), "{}", show(&after));
}

#[test]
fn a_plain_get() {
    let told = head(b"GET /index.html?a=b HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent:ab\r\nEmpty:\r\n\r\n");
    let field = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    assert_eq!(
        told,
        Told {
            method: Method::Get,
            request_line: b"GET /index.html?a=b HTTP/1.1".to_vec(),
            method_token: b"GET".to_vec(),
            target: b"/index.html?a=b".to_vec(),
            version: Version::Http11,
            fields: vec![field("Host", "localhost:8080"), field("User-Agent", "ab"), field("Empty", "")],
            host: Some(b"localhost:8080".to_vec()),
            body: BodyLength::None,
            keep_alive: true,
            keep_alive_asked: false,
            expects_continue: false,
        }
    );
}

#[test]
fn conditions_are_found_in_any_head_that_has_some() {
    let check = |fields: &str, expected: Option<Conditions<'_>>| {
        let bytes = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let mut head = Head::new();
        assert!(head.parse(bytes.as_bytes(), &Limits::default()).is_ok_and(|end| end.is_some()), "{fields}");
        assert_eq!(head.conditions(bytes.as_bytes()), expected, "{fields}");
    };
    let of = |name: &str, value: &'static str| {
        let mut conditions = Conditions::default();
        conditions.add(name.as_bytes(), value.as_bytes());
        Some(conditions)
    };
    for name in ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range"] {
        check(&format!("{name}: a\r\n"), of(name, "a"));
        check(&format!("{}:a \r\nX: y\r\n", name.to_uppercase()), of(name, "a"));
        check(&format!("{}: a\r\nX: y\r\n{name}: b\r\n", name.to_lowercase()), of(name, "a, b"));
        check(&format!("X{}: a\r\n", &name[1..]), None);
    }
    check("", None);
    check("Referer: a\r\nIf-Else: b\r\nRefer: c\r\n", None);
}

#[test]
fn the_head_ends_at_the_empty_line() {
    let pipelined = b"GET / HTTP/1.0\r\n\r\nGET /second HTTP/1.0\r\n\r\n";
    let seen = parse_split_everywhere(pipelined, &Limits::default());
    assert_eq!(seen.map(|seen| seen.map(|(n, told)| (n, told.target))), Ok(Some((18, b"/".to_vec()))));
}

#[test]
fn request_lines() {
    let check = |line: &str, method, target: &str, version| {
        let told = head(format!("{line}\r\nHost: h\r\n\r\n").as_bytes());
        assert_eq!((told.method, told.version), (method, version), "{line}");
        assert_eq!(told.target, target.as_bytes(), "{line}");
        assert_eq!(told.request_line, line.as_bytes(), "{line}");
    };
    check("GET / HTTP/1.1", Method::Get, "/", Version::Http11);
    check("HEAD / HTTP/1.0", Method::Head, "/", Version::Http10);
    check("POST /a HTTP/1.2", Method::Post, "/a", Version::Http11);
    check("PUT /a HTTP/1.9", Method::Put, "/a", Version::Http11);
    check("OPTIONS * HTTP/1.1", Method::Options, "*", Version::Http11);
    check("CONNECT h:443 HTTP/1.1", Method::Connect, "h:443", Version::Http11);
    check("PROPFIND / HTTP/1.1", Method::Propfind, "/", Version::Http11);
    check("get / HTTP/1.1", Method::Other, "/", Version::Http11);
    check("!#$%&'*+-.^_`|~09azAZ / HTTP/1.1", Method::Other, "/", Version::Http11);
    check("GET http://h/a?b HTTP/1.1", Method::Get, "http://h/a?b", Version::Http11);
    check("GET /\u{e9}\"<>\\^`{|} HTTP/1.1", Method::Get, "/\u{e9}\"<>\\^`{|}", Version::Http11);
    check("GET /%zz#x HTTP/1.1", Method::Get, "/%zz#x", Version::Http11);
}

#[test]
fn refused_request_lines() {
    let check = |line: &[u8], error| refused(line, &Limits::default(), error);
    check(b" ", HeadError::Method);
    check(b"\0", HeadError::Method);
    check(b"\x16", HeadError::Method);
    check(b"G@", HeadError::Method);
    check(b"GET\t", HeadError::Method);
    check(b"GET\r", HeadError::TargetMissing);
    check(b"GET\n", HeadError::TargetMissing);
    check(b"GET  ", HeadError::Target);
    check(b"GET \r", HeadError::Target);
    check(b"GET /\t", HeadError::Target);
    check(b"GET /a\0", HeadError::Target);
    check(b"GET /a\x7f", HeadError::Target);
    check(b"GET /\rX", HeadError::BareCr);
    check(b"GET /\n", HeadError::BareLf);
    check(b"HEAD /\r", HeadError::SimpleRequest);
    check(b"POST /\n", HeadError::SimpleRequest);
    check(b"GET / \r", HeadError::VersionMalformed);
    check(b"GET /  ", HeadError::VersionMalformed);
    check(b"GET / h", HeadError::VersionMalformed);
    check(b"GET /a b", HeadError::VersionMalformed);
    check(b"GET / HTTPS", HeadError::VersionMalformed);
    check(b"GET / HTTP/\r", HeadError::VersionMalformed);
    check(b"GET / HTTP/x", HeadError::VersionMalformed);
    check(b"GET / HTTP/1,", HeadError::VersionMalformed);
    check(b"GET / HTTP/1.\r", HeadError::VersionMalformed);
    check(b"GET / HTTP/11", HeadError::VersionMalformed);
    check(b"GET / HTTP/1.10", HeadError::VersionMalformed);
    check(b"GET / HTTP/1.1 ", HeadError::VersionMalformed);
    check(b"GET / HTTP/1.1\n", HeadError::BareLf);
    check(b"GET / HTTP/1.1\rX", HeadError::BareCr);
    check(b"GET / HTTP/1.1\r\r", HeadError::BareCr);
    check(b"GET / HTTP/2.0", HeadError::VersionUnsupported);
    check(b"PRI * HTTP/2.0", HeadError::VersionUnsupported);
    check(b"GET / HTTP/0.9", HeadError::VersionUnsupported);
    check(b"GET / HTTP/3.1", HeadError::VersionUnsupported);
}

#[test]
fn blank_lines_before_the_request_line() {
    let request = "GET / HTTP/1.0\r\n\r\n";
    for blank in ["\r\n", "\n", "\r\n\n\r\n"] {
        let told = head(format!("{blank}{request}").as_bytes());
        assert_eq!(told.request_line, b"GET / HTTP/1.0");
    }
    head(format!("{}{request}", "\r\n".repeat(BLANK_LINES_MAX)).as_bytes());
    let limits = Limits::default();
    refused("\r\n".repeat(BLANK_LINES_MAX + 1).as_bytes(), &limits, HeadError::BlankLines);
    refused("\n".repeat(BLANK_LINES_MAX + 1).as_bytes(), &limits, HeadError::BlankLines);
    refused(b"\rG", &limits, HeadError::BareCr);
    refused(b"\r\r", &limits, HeadError::BareCr);
}

#[test]
fn field_values() {
    let check = |line: &[u8], name: &[u8], value: &[u8]| {
        let told = head(&[b"GET / HTTP/1.0\r\n", line, b"\r\n\r\n"].concat());
        assert_eq!(told.fields, [(name.to_vec(), value.to_vec())], "{}", show(line));
    };
    check(b"A:b", b"A", b"b");
    check(b"A: b", b"A", b"b");
    check(b"A: \t b\t ", b"A", b"b");
    check(b"A:", b"A", b"");
    check(b"A:  \t", b"A", b"");
    check(b"a-B_c.1: d: e", b"a-B_c.1", b"d: e");
    check(b"A: b\t c  d", b"A", b"b\t c  d");
    check(b"A: \x80\xff\xc3\xa9", b"A", b"\x80\xff\xc3\xa9");
    check(b"A: \"quoted\\\"\", (comment)", b"A", b"\"quoted\\\"\", (comment)");
    check(b"!#$%&'*+-.^_`|~: x", b"!#$%&'*+-.^_`|~", b"x");
}

#[test]
fn refused_fields() {
    let check = |field: &[u8], error| {
        refused(&[b"GET / HTTP/1.1\r\n", field].concat(), &Limits::default(), error);
        refused(&[b"GET / HTTP/1.1\r\nHost: h\r\n", field].concat(), &Limits::default(), error);
    };
    check(b"\n", HeadError::BareLf);
    check(b"\rx", HeadError::BareCr);
    check(b" ", HeadError::ObsFold);
    check(b"\t", HeadError::ObsFold);
    check(b":", HeadError::FieldName);
    check(b"A\r", HeadError::FieldName);
    check(b"A\n", HeadError::FieldName);
    check(b"A/", HeadError::FieldName);
    check(b"\xe9", HeadError::FieldName);
    check(b"\0", HeadError::FieldName);
    check(b"A ", HeadError::SpaceBeforeColon);
    check(b"Content-Length\t", HeadError::SpaceBeforeColon);
    check(b"A: b\n", HeadError::BareLf);
    check(b"A: b\rc", HeadError::BareCr);
    check(b"A: b\r\r", HeadError::BareCr);
    check(b"A: b\0", HeadError::FieldValue);
    check(b"A: long enough for a whole word\x01", HeadError::FieldValue);
    check(b"A: \x7f", HeadError::FieldValue);
    check(b"A: \x1b", HeadError::FieldValue);
    check(b"A: b\r\n ", HeadError::ObsFold);
}

#[test]
fn limits_hold_to_the_byte() {
    let limits = Limits { request_line: 20, field_size: 8, fields: 2, ..Limits::default() };
    let complete = |bytes: &[u8]| {
        assert!(matches!(parse_split_everywhere(bytes, &limits), Ok(Some(_))), "{}", show(bytes));
        assert!(bytes.len() <= limits.head_max());
    };
    complete(b"GET /901234 HTTP/1.0\r\n\r\n");
    refused(b"GET /9012345 HTTP/1.0", &limits, HeadError::RequestLineTooLong);
    refused(b"GET /9012345678901234", &limits, HeadError::RequestLineTooLong);
    refused(b"METHOD789012345678901", &limits, HeadError::RequestLineTooLong);
    refused(b"GET /9012345678 HTTP/", &limits, HeadError::RequestLineTooLong);

    complete(b"GET / HTTP/1.0\r\nA: 45678\r\nB:345678\r\n\r\n");
    refused(b"GET / HTTP/1.0\r\nA: 456789", &limits, HeadError::FieldTooLong);
    refused(b"GET / HTTP/1.0\r\nA:       ", &limits, HeadError::FieldTooLong);
    refused(b"GET / HTTP/1.0\r\nA23456789", &limits, HeadError::FieldTooLong);
    refused(b"GET / HTTP/1.0\r\nA:\r\nB:\r\nC", &limits, HeadError::TooManyFields);

    let none = Limits { fields: 0, ..limits };
    let many = |n: usize| format!("GET / HTTP/1.0\r\n{}", "A:\r\n".repeat(n)).into_bytes();
    assert!(matches!(parse(&[many(FIELDS_MAX), b"\r\n".to_vec()].concat(), &none), Ok(Some(_))));
    assert_eq!(parse(&[many(FIELDS_MAX), b"A".to_vec()].concat(), &none), Err(HeadError::TooManyFields));
}

#[test]
fn a_head_at_the_bound_is_complete() {
    let limits = Limits { request_line: 14, field_size: 3, fields: 2, ..Limits::default() };
    let blanks = "\r\n".repeat(BLANK_LINES_MAX);
    let bytes = format!("{blanks}GET / HTTP/1.0\r\nA:b\r\nC:d\r\n\r\n");
    assert_eq!(bytes.len(), limits.head_max());
    assert!(matches!(parse_split_everywhere(bytes.as_bytes(), &limits), Ok(Some(_))));
}

#[test]
fn a_head_has_a_bound_without_limits() {
    let none = Limits { request_line: usize::MAX, field_size: usize::MAX, fields: 0, ..Limits::default() };
    let mut bytes = b"GET / HTTP/1.0\r\nA: ".to_vec();
    bytes.resize(HEAD_MAX, b'b');
    bytes.extend_from_slice(b"\r\n\r\n");
    assert_eq!(parse(&bytes, &none), Err(HeadError::HeadTooLarge));
}

#[test]
fn hosts() {
    let good = |value: &str| {
        let told = head(format!("GET / HTTP/1.1\r\nhOSt: {value}\r\n\r\n").as_bytes());
        assert_eq!(told.host, Some(value.as_bytes().to_vec()));
    };
    for value in ["h", "example.com:80", "[::1]:8080", "127.0.0.1", "a_b"] {
        good(value);
    }
    let bad = |fields: &str, error| refused(fields.as_bytes(), &Limits::default(), error);
    bad("GET / HTTP/1.1\r\n\r\n", HeadError::HostMissing);
    bad("GET / HTTP/1.2\r\nHos: h\r\n\r\n", HeadError::HostMissing);
    for line in ["GET / HTTP/1.1", "GET / HTTP/1.0"] {
        bad(&format!("{line}\r\nHost: h\r\nA: b\r\nHost: h\r\n"), HeadError::HostRepeated);
        for value in [
            "", "a b", "a, b", "h:", "a..b", "a%20b", "h:80:80", "h:port", "h:65536", "u@h", "h/", "[::1", "http://h",
            "h\u{e9}",
        ] {
            bad(&format!("{line}\r\nHost: {value}\r\n"), HeadError::HostMalformed);
        }
    }
    assert_eq!(head(b"GET / HTTP/1.0\r\n\r\n").host, None);
}

#[test]
fn body_lengths() {
    let check = |fields: &str, expected| {
        let told = head(format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n").as_bytes());
        assert_eq!(told.body, expected, "{fields}");
    };
    check("Content-Length: 0", BodyLength::Length(0));
    check("content-LENGTH:18446744073709551615", BodyLength::Length(u64::MAX));
    check("Content-Length: 5\r\nContent-Length: 5", BodyLength::Length(5));
    check("Content-Length: 5, 5,5", BodyLength::Length(5));
    check("Transfer-Encoding: chunked", BodyLength::Chunked);
    check("transfer-encoding:\tChunKed ", BodyLength::Chunked);
    check("Transfer-Encodin: chunked", BodyLength::None);
    assert_eq!(head(b"POST / HTTP/1.0\r\nContent-Length: 7\r\n\r\n").body, BodyLength::Length(7));
}

#[test]
fn refused_body_lengths() {
    let check = |fields: &str, error| {
        refused(format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes(), &Limits::default(), error);
    };
    for value in ["", "x", "+1", "-1", "1.0", "0x1", "1 1", "1,", ",1", "1;2", "\"1\"", "\u{b2}"] {
        check(&format!("Content-Length: {value}"), HeadError::ContentLengthMalformed);
    }
    check("Content-Length: 18446744073709551616", HeadError::ContentLengthOverflow);
    check("Content-Length: 5, 6", HeadError::ContentLengthConflict);
    check("Content-Length: 5\r\nContent-Length: 6", HeadError::ContentLengthConflict);
    check("Content-Length: 5\r\nTransfer-Encoding: chunked", HeadError::TransferEncodingWithLength);
    check("Transfer-Encoding: chunked\r\nContent-Length: 5", HeadError::TransferEncodingWithLength);
    for value in ["", "chunked, chunked", "chunked,", ",chunked", "chunked;a=b", "chunked x", "\"chunked\"", "\u{e9}"] {
        check(&format!("Transfer-Encoding: {value}"), HeadError::TransferEncodingMalformed);
    }
    check("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", HeadError::TransferEncodingMalformed);
    check("Transfer-Encoding: chunked, gzip", HeadError::TransferEncodingMalformed);
    for value in ["gzip", "identity", "xchunked", "chunke", "chunkedx", "gzip;q=1", "gzip, deflate"] {
        check(&format!("Transfer-Encoding: {value}\r\n"), HeadError::TransferEncodingMalformed);
    }
    for value in ["gzip, chunked", "gzip;q=1,deflate,CHUNKED", "gzip\r\nTransfer-Encoding: chunked"] {
        check(&format!("Transfer-Encoding: {value}\r\n"), HeadError::TransferCodingUnknown);
    }
    let http10 = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n";
    refused(http10, &Limits::default(), HeadError::TransferEncodingInHttp10);
}

#[test]
fn keep_alive() {
    let check = |version: &str, fields: &str, keep_alive, asked| {
        let told = head(format!("GET / {version}\r\nHost: h\r\n{fields}\r\n").as_bytes());
        assert_eq!((told.keep_alive, told.keep_alive_asked), (keep_alive, asked), "{version} {fields}");
    };
    check("HTTP/1.1", "", true, false);
    check("HTTP/1.1", "Connection: close\r\n", false, false);
    check("HTTP/1.1", "Connection: Keep-Alive\r\n", true, true);
    check("HTTP/1.1", "connection: keep-alive ,\tCLOSE\r\n", false, true);
    check("HTTP/1.1", "Connection: upgrade\r\nConnection: close\r\n", false, false);
    check("HTTP/1.1", "Connection: closed, not-keep-alive\r\n", true, false);
    check("HTTP/1.0", "", false, false);
    check("HTTP/1.0", "Connection: keep-alive\r\n", true, true);
    check("HTTP/1.0", "Connection: close, keep-alive\r\n", false, true);
    check("HTTP/1.0", "Keep-Alive: 5\r\n", false, false);
}

#[test]
fn expectations() {
    let http11 = head(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\n\r\n");
    assert!(http11.expects_continue);
    let http10 = head(b"POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n");
    assert!(!http10.expects_continue);
    let empty = head(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: \r\n\r\n");
    assert!(!empty.expects_continue);
    for value in ["200-ok", "100-continue, 100-continue"] {
        for line in ["POST / HTTP/1.1", "POST / HTTP/1.0"] {
            let bytes = format!("{line}\r\nExpect: {value}\r\n");
            refused(bytes.as_bytes(), &Limits::default(), HeadError::Expectation);
        }
    }
}

#[test]
fn statuses() {
    assert_eq!(HeadError::SimpleRequest.status(), Status::BAD_REQUEST);
    assert_eq!(HeadError::RequestLineTooLong.status(), Status::REQUEST_URI_TOO_LONG);
    assert_eq!(HeadError::TooManyFields.status(), Status::REQUEST_HEADER_FIELDS_TOO_LARGE);
    assert_eq!(HeadError::TransferCodingUnknown.status(), Status::NOT_IMPLEMENTED);
    assert_eq!(HeadError::VersionUnsupported.status(), Status::HTTP_VERSION_NOT_SUPPORTED);
    assert_eq!(HeadError::Expectation.status(), Status::EXPECTATION_FAILED);
}

#[test]
fn fields_are_found_by_name_in_any_case() {
    let bytes = b"GET / HTTP/1.1\r\nHost: h\r\nAccept: a\r\naccept: b\r\nAccept-Encoding: c\r\n\r\n";
    let mut head = Head::new();
    head.parse(bytes, &Limits::default()).unwrap().unwrap();
    assert_eq!(head.field(bytes, "ACCEPT"), Some(&b"a"[..]));
    assert_eq!(head.field(bytes, "accept-encoding"), Some(&b"c"[..]));
    assert_eq!(head.field(bytes, "accep"), None);
}

#[test]
fn a_used_head_forgets() {
    let mut head = Head::new();
    let post =
        b"POST /long HTTP/1.1\r\nHost: h\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    head.parse(post, &Limits::default()).unwrap().unwrap();
    let get = b"GET / HTTP/1.0\r\n\r\n";
    let outcome = head.parse_more(get, &Limits::default());
    assert_eq!(told(&head, get, outcome), parse(get, &Limits::default()));
    assert_eq!(head.parse_more(b"GET / HTTP/1.0\r\nA", &Limits::default()), Ok(None));
    let outcome = head.parse(get, &Limits::default());
    assert_eq!(told(&head, get, outcome), parse(get, &Limits::default()));
}

#[test]
fn other_bytes_than_those_parsed_do_not_panic() {
    let mut head = Head::new();
    head.parse(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", &Limits::default()).unwrap().unwrap();
    assert_eq!(head.request_line(b""), b"");
    assert_eq!(head.target(b"GET"), b"");
    assert_eq!(head.host(b"short"), Some(&b""[..]));
    assert_eq!(head.field(b"", "Host"), None);
    assert_eq!(Head::new().target(b"x"), b"");
}

#[test]
fn request_lines_for_the_log() {
    let check = |bytes: &[u8], expected: &[u8]| assert_eq!(request_line_of(bytes), expected, "{}", show(bytes));
    check(b"", b"");
    check(b"GET / HTTP/9\r\nHost", b"GET / HTTP/9");
    check(b"\r\n\nGET /\nx", b"GET /");
    check(b"no end", b"no end");
    check(b"\x16\x03\x01\0\r", b"\x16\x03\x01\0");
    check(&[b'a'; 9000], &[b'a'; 8190]);
}

/// Valid heads with what they should parse to.
fn generated() -> impl Strategy<Value = (Vec<u8>, Told)> {
    let token = "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}";
    let value = r"([!-~\x80-\u{ff}]([ -~\t]{0,30}[!-~])?)?";
    let field = (token, value, "[ \t]{0,3}", "[ \t]{0,3}").prop_filter("a field with a meaning", |(name, ..)| {
        let special = ["host", "expect", "connection", "content-length", "transfer-encoding"];
        !special.contains(&name.to_ascii_lowercase().as_str())
    });
    let body = prop_oneof![
        Just((String::new(), BodyLength::None)),
        Just(("Transfer-Encoding: chunked\r\n".to_string(), BodyLength::Chunked)),
        any::<u64>().prop_map(|n| (format!("Content-Length: {n}\r\n"), BodyLength::Length(n))),
    ];
    let target = r"[!-~\x80-\u{ff}]{1,40}";
    let method = prop_oneof![
        Just(("GET".to_string(), Method::Get)),
        Just(("OPTIONS".to_string(), Method::Options)),
        token.prop_map(|token| (format!("x{token}"), Method::Other)),
    ];
    (method, target, proptest::collection::vec(field, 0..8), body, 0..3usize).prop_map(
        |((token, method), target, fields, (body_line, body), blanks)| {
            let request_line = format!("{token} {target} HTTP/1.1");
            let mut text = format!("{}{request_line}\r\nHost: h\r\n{body_line}", "\r\n".repeat(blanks));
            let mut expected = vec![(b"Host".to_vec(), b"h".to_vec())];
            if let Some((name, value)) = body_line.trim_end().split_once(": ") {
                expected.push((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
            }
            for (name, value, before, after) in fields {
                text.push_str(&format!("{name}:{before}{value}{after}\r\n"));
                expected.push((name.into_bytes(), value.into_bytes()));
            }
            text.push_str("\r\n");
            let told = Told {
                method,
                request_line: request_line.into_bytes(),
                method_token: token.into_bytes(),
                target: target.into_bytes(),
                version: Version::Http11,
                fields: expected,
                host: Some(b"h".to_vec()),
                body,
                keep_alive: true,
                keep_alive_asked: false,
                expects_continue: false,
            };
            (text.into_bytes(), told)
        },
    )
}

/// Heads cut from pieces that matter to the parser, mostly invalid ones.
fn mangled() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b"GET / HTTP/1.1\r\n".to_vec()),
        4 => Just(b"Host: h\r\n".to_vec()),
        4 => Just(b"\r\n".to_vec()),
        1 => Just(b"POST /a?b HTTP/1.0\r\n".to_vec()),
        1 => Just(b"Content-Length: 5\r\n".to_vec()),
        1 => Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
        1 => Just(b"Connection: close\r\n".to_vec()),
        1 => Just(b"GET ".to_vec()),
        1 => Just(b"/ HTTP/".to_vec()),
        1 => Just(b"1.1".to_vec()),
        1 => Just(b"A: ".to_vec()),
        1 => Just(b"\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        1 => Just(b" ".to_vec()),
        2 => any::<u8>().prop_map(|b| vec![b]),
    ];
    proptest::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn generated_heads_parse_to_what_was_generated((bytes, expected) in generated()) {
        prop_assert_eq!(parse_split_everywhere(&bytes, &Limits::default()), Ok(Some((bytes.len(), expected))));
    }

    #[test]
    fn splitting_changes_nothing(bytes in mangled(), line in 5..40usize, field in 1..30usize, fields in 0..4usize) {
        parse_split_everywhere(&bytes, &Limits::default()).ok();
        parse_split_everywhere(&bytes, &Limits { request_line: line, field_size: field, fields, ..Limits::default() }).ok();
    }

    #[test]
    fn one_changed_byte_splits_nowhere((bytes, _) in generated(), at in any::<prop::sample::Index>(), b in any::<u8>()) {
        let mut bytes = bytes;
        let at = at.index(bytes.len());
        bytes[at] = b;
        parse_split_everywhere(&bytes, &Limits::default()).ok();
    }

    #[test]
    fn garbage_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        parse_split_everywhere(&bytes, &Limits::default()).ok();
        request_line_of(&bytes);
    }

    #[test]
    fn a_decision_comes_within_the_bound(bytes in mangled(), line in 5..20usize, field in 1..10usize, fields in 1..4usize) {
        let limits = Limits { request_line: line, field_size: field, fields, ..Limits::default() };
        if parse(&bytes, &limits) == Ok(None) {
            prop_assert!(bytes.len() < limits.head_max());
        }
    }
}
