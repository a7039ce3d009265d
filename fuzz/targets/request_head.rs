//! Request heads, in Strict and in Unsafe mode: however the bytes arrive the outcome is the same, an accepted head is consistent with itself, and the
//! bound for buffers holds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use manifold_http::{BodyLength, Head, Limits, ProtocolOptions, Strictness, Version, request_line_of};

/// Longer inputs only make the quadratic checks slow.
const INPUT_MAX: usize = 2048;

fuzz_target!(|bytes: &[u8]| {
    if bytes.len() <= INPUT_MAX {
        for strictness in [Strictness::Strict, Strictness::Unsafe] {
            let protocol = ProtocolOptions { strictness, ..ProtocolOptions::default() };
            check(bytes, &Limits { protocol, ..Limits::default() });
            check(bytes, &Limits { request_line: 24, field_size: 24, fields: 2, protocol });
        }
        no_stricter_when_unsafe(bytes);
    }
});

/// What Strict mode takes, Unsafe mode takes and understands in the same way.
fn no_stricter_when_unsafe(bytes: &[u8]) {
    let mut strict = Head::new();
    if let Ok(Some(end)) = strict.parse(bytes, &Limits::default()) {
        let protocol = ProtocolOptions { strictness: Strictness::Unsafe, ..ProtocolOptions::default() };
        let mut lenient = Head::new();
        assert_eq!(lenient.parse(bytes, &Limits { protocol, ..Limits::default() }), Ok(Some(end)));
        assert_eq!(lenient.target(bytes), strict.target(bytes));
        assert_eq!((lenient.version(), lenient.body()), (strict.version(), strict.body()));
        assert!(lenient.fields(bytes).eq(strict.fields(bytes)));
    }
}

fn check(bytes: &[u8], limits: &Limits) {
    let mut whole = Head::new();
    let outcome = whole.parse(bytes, limits);

    let mut resumed = Head::new();
    for end in 0..=bytes.len() {
        let now = resumed.parse_more(&bytes[..end], limits);
        assert_eq!(now, Head::new().parse(&bytes[..end], limits), "going on is not the same as starting anew");
        if now != Ok(None) {
            assert_eq!(now, outcome, "decided differently at {end}");
            break;
        }
        assert!(end < limits.head_max());
    }

    let line = request_line_of(bytes);
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    if let Ok(Some(n)) = outcome {
        let end: &[u8] = match (limits.protocol.strictness, whole.version()) {
            (Strictness::Strict, Version::Http09) => b"\r\n",
            (Strictness::Strict, _) => b"\r\n\r\n",
            (Strictness::Unsafe, _) => b"\n",
        };
        assert!(n <= bytes.len() && bytes[..n].ends_with(end));
        consistent(&whole, &bytes[..n], limits);
    }
}

fn consistent(head: &Head, bytes: &[u8], limits: &Limits) {
    let is_strict = limits.protocol.strictness == Strictness::Strict;
    if is_strict {
        let version: &[u8] = if head.version() == Version::Http09 { b"" } else { b" HTTP/1." };
        let line = [head.method_token(bytes), b" ", head.target(bytes), version].concat();
        assert!(head.request_line(bytes).starts_with(&line));
    }
    assert!(!head.method_token(bytes).is_empty() && !head.target(bytes).is_empty());
    assert_eq!(head.request_line(bytes), request_line_of(bytes));
    assert!(head.request_line(bytes).len() <= limits.request_line);

    let fields: Vec<_> = head.fields(bytes).collect();
    assert!(fields.len() <= limits.fields);
    for (name, value) in &fields {
        assert!(!name.is_empty() && name.len() + 1 + value.len() <= limits.field_size);
        assert!(!value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)));
        assert!(
            !value.starts_with(b" ") && !value.ends_with(b" ") && !value.starts_with(b"\t") && !value.ends_with(b"\t")
        );
    }
    let named = |name: &str| fields.iter().filter(|field| field.0.eq_ignore_ascii_case(name.as_bytes())).count();
    assert_eq!(head.host(bytes), head.field(bytes, "Host"));
    assert!(named("Host") <= 1 && (head.version() < Version::Http11 || head.host(bytes).is_some()));
    assert!(!head.host(bytes).is_some_and(|host| host.windows(2).any(|pair| pair == b"..") || host.contains(&b'/')));
    match head.body() {
        BodyLength::None => assert!(named("Content-Length") == 0 && named("Transfer-Encoding") == 0),
        BodyLength::Length(_) => assert!(named("Content-Length") > 0 && named("Transfer-Encoding") == 0),
        BodyLength::Chunked => assert!(named("Content-Length") == 0 && named("Transfer-Encoding") == 1),
    }
    assert!(head.version() == Version::Http11 || head.keep_alive_asked() || !head.keep_alive());
}
