//! `HttpProtocolOptions`: what each word lets in, and that framing is read strictly whatever it says.

use manifold_http::{BodyLength, Head, HeadError, Limits, Method, Methods, ProtocolOptions, Strictness, Version};
use proptest::prelude::*;

const UNSAFE: ProtocolOptions =
    ProtocolOptions { strictness: Strictness::Unsafe, methods: Methods::Lenient, allow_http09: true };

fn limits(protocol: ProtocolOptions) -> Limits {
    Limits { protocol, ..Limits::default() }
}

/// What there is to know of a head: `METHOD target version (name: value)...`.
fn told(head: &Head, bytes: &[u8]) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let fields: String =
        head.fields(bytes).map(|(name, value)| format!(" ({}: {})", text(name), text(value))).collect();
    let line = format!("{} {} {}", text(head.method_token(bytes)), text(head.target(bytes)), head.version().as_str());
    line + &fields
}

/// Parses, and checks that the answer is the same however the bytes arrive.
fn parse(bytes: &[u8], limits: &Limits) -> Result<Option<(usize, String)>, HeadError> {
    let mut whole = Head::new();
    let outcome = whole.parse(bytes, limits);
    let mut resumed = Head::new();
    for end in 0..=bytes.len() {
        let now = resumed.parse_more(&bytes[..end], limits);
        assert_eq!(now, Head::new().parse(&bytes[..end], limits), "{} up to {end}", bytes.escape_ascii());
        if now != Ok(None) {
            assert_eq!(now, outcome, "{} up to {end}", bytes.escape_ascii());
            assert_eq!(told(&resumed, bytes), told(&whole, bytes));
            break;
        }
    }
    outcome.map(|end| end.map(|end| (end, told(&whole, bytes))))
}

fn check_in(protocol: ProtocolOptions, request: &[u8], expected: Result<&str, HeadError>) {
    let seen = parse(request, &limits(protocol)).map(|seen| seen.map(|(end, told)| (end == request.len(), told)));
    let expected = expected.map(|told| Some((true, told.to_owned())));
    assert_eq!(seen, expected, "{}", request.escape_ascii());
}

fn check(request: &[u8], expected: Result<&str, HeadError>) {
    check_in(UNSAFE, request, expected);
}

#[test]
fn unsafe_request_lines() {
    check(b"GET / HTTP/1.0\r\n\r\n", Ok("GET / HTTP/1.0"));
    check(b"GET / HTTP/1.0\n\n", Ok("GET / HTTP/1.0"));
    check(b"GET / HTTP/1.0\r\n\n", Ok("GET / HTTP/1.0"));
    check(b"GET / HTTP/1.0\n\r\n", Ok("GET / HTTP/1.0"));
    check(b"\n\r\nGET / HTTP/1.0\n\n", Ok("GET / HTTP/1.0"));
    check(b"GET  /   HTTP/1.0 \r\n\r\n", Ok("GET / HTTP/1.0"));
    check(b"GET / http/1.0\r\n\r\n", Ok("GET / HTTP/1.0"));
    check(b"GET / hTTp/1.1\r\nHost: h\r\n\r\n", Ok("GET / HTTP/1.1 (Host: h)"));
    check(b"G@T(\xff /\xe9 HTTP/1.0\r\n\r\n", Ok("G@T(\\xff /\\xe9 HTTP/1.0"));
    check(b" GET / HTTP/1.0\r\n", Err(HeadError::Method));
    check(b"GET\t/ HTTP/1.0\r\n", Err(HeadError::Method));
    check(b"GET /\tHTTP/1.0\r\n", Err(HeadError::Target));
    check(b"GET /\x01 HTTP/1.0\r\n", Err(HeadError::Target));
    check(b"GET /\0 HTTP/1.0\r\n", Err(HeadError::Target));
    check(b"GET / HTTP/1.0\r\r\n", Err(HeadError::VersionMalformed));
    check(b"GET / HTTP/1.0\t\r\n", Err(HeadError::VersionMalformed));
    check(b"GET / HTTP/1.0 x\r\n", Err(HeadError::VersionMalformed));
    check(b"GET / HTTP/1.10\r\n", Err(HeadError::VersionMalformed));
    check(b"GET / HTTP/1\r\n", Err(HeadError::VersionMalformed));
    check(b"GET / HTTP/2.0\r\n", Err(HeadError::VersionUnsupported));
    check(b"GET\r\n", Err(HeadError::TargetMissing));
    check(b"GET \r\n", Err(HeadError::TargetMissing));
    check(b"GET / HTTP/1.1\n\n", Err(HeadError::HostMissing));
}

#[test]
fn unsafe_fields() {
    let field = |line: &str, expected: Result<&str, HeadError>| {
        let expected = expected.map(|told| format!("GET / HTTP/1.0{told}"));
        let expected = expected.as_ref().map(String::as_str).map_err(|error| *error);
        check(format!("GET / HTTP/1.0\r\n{line}\r\n\r\n").as_bytes(), expected);
    };
    field("A: b\nC:d", Ok(" (A: b) (C: d)"));
    field("A/(@): \t b \t", Ok(" (A/(@): b)"));
    field("A: \x01\x7f", Ok(" (A: \\x01\\x7f)"));
    field("A: b\r\n c", Ok(" (A: b c)"));
    field("A: b \t\n\t \tc \r\n d\r\nE: f", Ok(" (A: b c d) (E: f)"));
    field("A:\r\n b", Ok(" (A: b)"));
    field("A: b\r\n ", Ok(" (A: b)"));
    field("If-None-Match: a,\r\n b", Ok(" (If-None-Match: a, b)"));
    field(" c", Err(HeadError::ObsFold));
    field("A : b", Err(HeadError::SpaceBeforeColon));
    field("A\t: b", Err(HeadError::SpaceBeforeColon));
    field("A b: c", Err(HeadError::SpaceBeforeColon));
    field(": b", Err(HeadError::FieldName));
    field("A", Err(HeadError::FieldName));
    field("A\x01: b", Err(HeadError::FieldName));
    field("A: b\rc", Err(HeadError::FieldValue));
    field("A: b\x0bc", Err(HeadError::FieldValue));
    field("A: b\x0cc", Err(HeadError::FieldValue));
    field("A: b\0c", Err(HeadError::FieldValue));
    field("A: b\r\n c\0", Err(HeadError::FieldValue));
}

/// Whatever could be understood in two ways is refused in Unsafe mode as well.
#[test]
fn unsafe_mode_is_not_lenient_about_framing() {
    let refused = |lines: &str, error| {
        check(format!("POST / HTTP/1.1\nHost: h\n{lines}\n\n").as_bytes(), Err(error));
    };
    refused("Content-Length: 5\nContent-Length: 6", HeadError::ContentLengthConflict);
    refused("Content-Length: +5", HeadError::ContentLengthMalformed);
    refused("Content-Length: 1\n 2", HeadError::ObsFold);
    refused("Content-Length:\n 2", HeadError::ContentLengthMalformed);
    refused("Transfer-Encoding:\n chunked", HeadError::TransferEncodingMalformed);
    refused("Transfer-Encoding: chunked\n ", HeadError::ObsFold);
    refused("transfer-encoding: chunked\r\n\tX: y", HeadError::ObsFold);
    refused("Transfer-Encoding: chunked\nContent-Length: 5", HeadError::TransferEncodingWithLength);
    refused("Transfer-Encoding: \x01chunked", HeadError::TransferEncodingMalformed);
    refused("Transfer-Encoding : chunked", HeadError::SpaceBeforeColon);
    refused("Transfer-Encoding\x01: chunked", HeadError::FieldName);
    refused("Host: h", HeadError::HostRepeated);
    refused("Connection: close\n x", HeadError::ObsFold);
    refused("Expect: 100-continue\n x", HeadError::ObsFold);
    check(b"POST / HTTP/1.1\nHost: a\n b\n\n", Err(HeadError::ObsFold));
}

#[test]
fn requests_without_a_version() {
    let strict = ProtocolOptions::default();
    let required = |protocol| ProtocolOptions { allow_http09: false, ..protocol };
    check_in(strict, b"GET /a\r\n", Ok("GET /a HTTP/0.9"));
    check_in(strict, b"\r\nGET /a\r\n", Ok("GET /a HTTP/0.9"));
    check_in(strict, b"GET /a\n", Err(HeadError::BareLf));
    check_in(strict, b"GET /a \r\n", Err(HeadError::VersionMalformed));
    check_in(strict, b"POST /a\r\n", Err(HeadError::SimpleRequest));
    check_in(required(strict), b"GET /a\r\n", Err(HeadError::SimpleRequest));
    check_in(required(strict), b"GET /a\n", Err(HeadError::SimpleRequest));
    check(b"GET /a\n", Ok("GET /a HTTP/0.9"));
    check(b"POST  /a \r\n", Ok("POST /a HTTP/0.9"));
    check_in(required(UNSAFE), b"GET /a\n", Err(HeadError::SimpleRequest));

    let mut head = Head::new();
    let pipelined = b"GET /a\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n";
    assert_eq!(head.parse(pipelined, &Limits::default()), Ok(Some(8)));
    assert_eq!((head.version(), head.body(), head.keep_alive()), (Version::Http09, BodyLength::None, false));
    assert_eq!(head.request_line(pipelined), b"GET /a");
}

#[test]
fn methods() {
    let registered = |protocol| ProtocolOptions { methods: Methods::Registered, ..protocol };
    for protocol in [ProtocolOptions::default(), UNSAFE] {
        for (name, method) in [("PROPFIND", Method::Propfind), ("PATCH", Method::Patch), ("MERGE", Method::Merge)] {
            let request = format!("{name} / HTTP/1.0\r\n\r\n");
            let mut head = Head::new();
            assert_eq!(head.parse(request.as_bytes(), &limits(registered(protocol))), Ok(Some(request.len())));
            assert_eq!(head.method(), method);
        }
        check_in(protocol, b"BREW / HTTP/1.0\r\n\r\n", Ok("BREW / HTTP/1.0"));
        check_in(registered(protocol), b"BREW / HTTP/1.0\r\n", Err(HeadError::MethodUnregistered));
        check_in(registered(protocol), b"get / HTTP/1.0\r\n", Err(HeadError::MethodUnregistered));
    }
    assert_eq!(HeadError::MethodUnregistered.status().0, 501);
}

#[test]
fn unsafe_mode_has_the_same_limits() {
    let limits = Limits { request_line: 20, field_size: 8, fields: 2, protocol: UNSAFE };
    let good = |bytes: &[u8]| assert!(matches!(parse(bytes, &limits), Ok(Some(_))), "{}", bytes.escape_ascii());
    let bad = |bytes: &[u8], error| assert_eq!(parse(bytes, &limits), Err(error), "{}", bytes.escape_ascii());
    good(b"GET /9012345 HTTP/1.0\n\n".get(1..).unwrap_or_default());
    good(b"GET /901234 HTTP/1.0\r\nA:345678\r\nB:345678\n\r\n");
    bad(b"GET /9012345 HTTP/1.0\n", HeadError::RequestLineTooLong);
    bad(b"GET /9012345 HTTP/1.0\r", HeadError::RequestLineTooLong);
    bad(b"GET /90123456789012345", HeadError::RequestLineTooLong);
    bad(b"GET / HTTP/1.0\nA:3456789\n", HeadError::FieldTooLong);
    bad(b"GET / HTTP/1.0\nA:34567890", HeadError::FieldTooLong);
    bad(b"GET / HTTP/1.0\nA:345\n 789\n", HeadError::FieldTooLong);
    bad(b"GET / HTTP/1.0\nA:\nB:\nC:\n", HeadError::TooManyFields);
    let folded = [&b"GET / HTTP/1.0\nA:"[..], &b"\n \t \t".repeat(20)].concat();
    bad(&folded, HeadError::HeadTooLarge);
    let many = [&b"\n\n\nGET / HTTP/1.0\nA: 3\nB: 4\n"[..], &[b';'; 100]].concat();
    bad(&many, HeadError::FieldTooLong);
}

proptest! {
    /// Where Strict mode accepts, Unsafe mode understands the same.
    #[test]
    fn unsafe_mode_takes_all_that_strict_mode_takes(
        pieces in proptest::collection::vec(prop_oneof![
            Just("GET / HTTP/1.1\r\nHost: h\r\n"), Just("A: b\r\n"), Just("\r\n"), Just("Content-Length: 3\r\n"),
            Just("Transfer-Encoding: chunked\r\n"), Just("\n"), Just(" c\r\n"), Just("A:\t\u{e9} \r\n"), Just("GET /\r\n"),
        ], 0..8),
    ) {
        let bytes = pieces.concat().into_bytes();
        if let Ok(Some(strict)) = parse(&bytes, &Limits::default()) {
            prop_assert_eq!(parse(&bytes, &limits(UNSAFE)), Ok(Some(strict)));
        }
    }

    #[test]
    fn unsafe_mode_is_the_same_however_bytes_arrive(
        bytes in proptest::collection::vec(prop_oneof![
            Just(b"GET / HTTP/1.0\n".to_vec()), Just(b"A: b".to_vec()), Just(b"\r\n".to_vec()), Just(b"\n ".to_vec()),
            any::<u8>().prop_map(|b| vec![b]),
        ], 0..20).prop_map(|pieces| pieces.concat()),
        line in 0..20usize, field in 0..10usize, fields in 0..4usize,
    ) {
        parse(&bytes, &Limits { request_line: line, field_size: field, fields, protocol: UNSAFE }).ok();
    }
}
