//! Response heads, the client's side: the outcome does not depend on how the bytes are split, and a body's framing is
//! the one the head announces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use manifold_http::{Limits, ResponseBody, ResponseDecoder, find_field, parse_response_head, response_fields};

/// Longer inputs only make the quadratic check slow.
const INPUT_MAX: usize = 2048;

fuzz_target!(|bytes: &[u8]| {
    if bytes.len() > INPUT_MAX {
        return;
    }
    for limits in [Limits::default(), Limits { request_line: 24, field_size: 24, fields: 2, ..Limits::default() }] {
        let outcome = parse_response_head(bytes, false, &limits);
        for end in 0..bytes.len() {
            let now = parse_response_head(&bytes[..end], false, &limits);
            if now != Ok(None) {
                assert_eq!(now, outcome, "decided differently at {end}");
                break;
            }
        }
        let Ok(Some((n, head))) = outcome else { continue };
        assert!(bytes[..n].ends_with(b"\n") && (100..=999).contains(&head.status));
        assert!(!head.keep_alive || head.body != ResponseBody::UntilClose);
        if let ResponseBody::Length(_) = head.body {
            assert!(find_field(&bytes[..n], "content-length").is_some());
        }
        assert!(response_fields(&bytes[..n]).count() <= limits.fields);

        let (_, to_head) = parse_response_head(bytes, true, &limits).ok().flatten().expect("the same head");
        assert_eq!(to_head.body, ResponseBody::None);

        let mut decoder = ResponseDecoder::new(head.body);
        let mut rest = &bytes[n..];
        while !rest.is_empty() && !decoder.is_done() {
            let Ok(step) = decoder.decode(rest) else { break };
            assert!(step.consumed > 0 && step.payload.end <= step.consumed);
            rest = &rest[step.consumed..];
        }
    }
});
