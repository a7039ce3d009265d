//! HTTP/2 frames: what they say does not depend on how the bytes are split, and all of the input is taken.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use manifold_http::h2::{BLOCK_BYTES_MAX, Event, Reader};

#[derive(Debug, Arbitrary)]
struct Input {
    bytes: Vec<u8>,
    /// Sizes of pieces, in turn.
    pieces: Vec<u8>,
}

/// Everything that was said, the pieces of a body's frame put together.
fn read(bytes: &[u8], pieces: &[u8]) -> (Vec<String>, Option<&'static str>) {
    let mut reader = Reader::default();
    let mut said = Vec::new();
    let mut body: Vec<u8> = Vec::new();
    let mut rest = bytes;
    let mut sizes = pieces.iter().cycle();
    while !rest.is_empty() {
        let size = sizes.next().map_or(rest.len(), |size| usize::from(*size).clamp(1, rest.len()));
        let (mut piece, after) = rest.split_at(size);
        rest = after;
        loop {
            match reader.next(&mut piece) {
                Ok(Some(Event::Data { stream, bytes, end_stream, .. })) => {
                    body.extend_from_slice(bytes);
                    if end_stream {
                        said.push(format!("{stream}: {:?}", std::mem::take(&mut body)));
                    }
                }
                Ok(Some(event)) => {
                    if let Event::Headers { block, .. } = event {
                        assert!(block.len() <= BLOCK_BYTES_MAX);
                    }
                    said.push(format!("{event:?}"));
                }
                Ok(None) => break,
                Err(error) => return (said, Some(error.what)),
            }
        }
        assert!(piece.is_empty(), "not all was taken");
    }
    (said, None)
}

fuzz_target!(|input: Input| {
    assert_eq!(read(&input.bytes, &input.pieces), read(&input.bytes, &[]));
});
