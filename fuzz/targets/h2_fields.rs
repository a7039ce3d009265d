//! HPACK: a block that is known again means what decoding it again would have meant; what was encoded comes back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use manifold_http::h2::{Decoder, LIST_BYTES_MAX, encode_field};

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn decode(decoder: &mut Decoder, block: &[u8]) -> Option<Fields> {
    let mut fields = Vec::new();
    let decoded = decoder.decode(block, |name, value| fields.push((name.to_vec(), value.to_vec())));
    let length: usize = fields.iter().map(|(name, value): &(Vec<u8>, Vec<u8>)| name.len() + value.len()).sum();
    decoded.ok().inspect(|()| assert!(length <= LIST_BYTES_MAX))?;
    Some(fields)
}

fuzz_target!(|blocks: Vec<(Vec<u8>, u8)>| {
    let (mut quick, mut plain) = (Decoder::new(256), Decoder::new(256));
    for (block, times) in &blocks {
        let mut known = None;
        for _ in 0..=times % 4 {
            let Some(expected) = decode(&mut plain, block) else { return };
            if known.is_none() || !quick.repeats(block) {
                known = decode(&mut quick, block);
            }
            assert_eq!(known.as_ref(), Some(&expected));
            let mut again = Vec::new();
            expected.iter().for_each(|(name, value)| encode_field(&mut again, name, value));
            assert_eq!(decode(&mut Decoder::new(0), &again), Some(expected));
        }
    }
});
