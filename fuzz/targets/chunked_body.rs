//! Chunked bodies: the outcome does not depend on how the bytes are split, the decoder always gets on, and what was
//! encoded comes back.
#![no_main]

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use manifold_http::{BodyDecoder, BodyError, BodyLength};

fuzz_target!(|bytes: &[u8]| {
    let whole = decode(bytes, &[usize::MAX]);
    for sizes in [&[1][..], &[2], &[3, 1], &[7]] {
        assert_eq!(decode(bytes, sizes), whole, "pieces of {sizes:?}");
    }
    if let Ok(body) = Body::arbitrary(&mut Unstructured::new(bytes)) {
        round_trip(&body);
    }
});

/// A body to be encoded, and how to cut it.
#[derive(Arbitrary, Debug)]
struct Body {
    chunks: Vec<Vec<u8>>,
    extension: bool,
    trailer: bool,
    sizes: Vec<u8>,
}

fn round_trip(body: &Body) {
    let mut wire = Vec::new();
    for chunk in body.chunks.iter().filter(|chunk| !chunk.is_empty()) {
        let extension = if body.extension { ";a=\"b\"" } else { "" };
        wire.extend_from_slice(format!("{:x}{extension}\r\n", chunk.len()).as_bytes());
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(if body.trailer { b"0\r\nA: b\r\n\r\n" } else { b"0\r\n\r\n" });
    let end = wire.len();
    wire.extend_from_slice(b"next");
    let sizes: Vec<usize> = body.sizes.iter().map(|&size| usize::from(size)).chain([usize::MAX]).collect();
    assert_eq!(decode(&wire, &sizes), (body.chunks.concat(), end, Ok(true)));
}

/// Payload, bytes consumed, and whether the body ended or why it failed; pieces of the given sizes, in turn.
fn decode(bytes: &[u8], sizes: &[usize]) -> (Vec<u8>, usize, Result<bool, BodyError>) {
    let mut decoder = BodyDecoder::new(BodyLength::Chunked);
    let (mut payload, mut consumed, mut visible) = (Vec::new(), 0, 0);
    for size in sizes.iter().cycle() {
        visible = bytes.len().min(size.max(&1).saturating_add(visible));
        while consumed < visible {
            let input = &bytes[consumed..visible];
            match decoder.decode(input) {
                // How much went before the error is not reported, so it must not be compared either.
                Err(error) => return (Vec::new(), 0, Err(error)),
                Ok(step) => {
                    assert!(step.consumed > 0 || step.done, "no progress");
                    assert!(step.payload.end <= step.consumed && step.consumed <= input.len());
                    payload.extend_from_slice(&input[step.payload]);
                    consumed += step.consumed;
                    if step.done {
                        return (payload, consumed, Ok(true));
                    }
                }
            }
        }
        if visible == bytes.len() {
            break;
        }
    }
    (payload, consumed, Ok(decoder.is_done()))
}
