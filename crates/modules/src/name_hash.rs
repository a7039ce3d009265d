//! A quick hash for maps whose keys nobody can choose: names that exist on our own disk, extensions of our own
//! configuration. A client that looks up other names never adds any, so that collisions cannot be provoked.

use std::hash::Hasher;

/// Multiply and fold, eight bytes at a time.
#[derive(Default)]
pub(crate) struct NameHasher(u64);

/// The hash of a name by itself.
pub(crate) fn hash(name: &[u8]) -> u64 {
    let mut hasher = NameHasher::default();
    hasher.write(name);
    hasher.finish()
}

impl NameHasher {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0.rotate_left(23) ^ word) * 0x9E37_79B9_7F4A_7C15;
        // A product's lower bits depend on the lower bits of its factors alone; its upper half makes up for that.
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        if let Some(last) = bytes.last_chunk::<8>() {
            // The last eight overlap what was mixed in already: one load instead of a loop over the rest.
            self.mix(u64::from_le_bytes(*last) ^ rest.len() as u64);
        } else {
            self.mix(rest.iter().fold(1, |word, &byte| word << 8 | u64::from(byte)));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_that_differ_anywhere_differ_in_their_hash() {
        let long = "/srv/www/a-folder/page.html";
        let mut names: Vec<String> = (0..=long.len()).map(|end| long[..end].to_owned()).collect();
        names.extend((0..long.len()).map(|at| format!("{}~{}", &long[..at], &long[at + 1..])));
        names.extend((0..1000).map(|number| format!("/srv/www/{number}")));
        let hashes: HashSet<u64> = names.iter().map(|name| hash(name.as_bytes())).collect();
        assert_eq!(hashes.len(), names.len());
        // The lower bits choose a place in a table.
        let places: HashSet<u64> = names.iter().map(|name| hash(name.as_bytes()) % 1024).collect();
        assert!(places.len() > 600, "{}", places.len());
    }
}
