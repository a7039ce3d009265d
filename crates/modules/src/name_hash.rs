//! A quick hash for maps whose keys nobody can choose: names that exist on our own disk, extensions of our own
//! configuration. A client that looks up other names never adds any, so that collisions cannot be provoked.

use std::hash::Hasher;

/// Multiply and rotate, eight bytes at a time.
#[derive(Default)]
pub(crate) struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
