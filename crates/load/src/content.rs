//! What the body of an answer has to be: looked at while it passes, and never kept.

use std::sync::Arc;

use memchr::memmem::Finder;
use sha2::{Digest, Sha256};

/// What a body has to be. As it comes: a body that was packed by gzip is looked at packed.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// These bytes are somewhere in it.
    pub contains: Option<Finder<'static>>,
    /// This is its SHA-256.
    pub sha256: Option<[u8; 32]>,
}

impl PartialEq for Expected {
    fn eq(&self, other: &Expected) -> bool {
        let bytes = |of: &Expected| of.contains.as_ref().map(|finder| finder.needle().to_vec());
        (bytes(self), self.sha256) == (bytes(other), other.sha256)
    }
}

impl Expected {
    /// Reads a SHA-256 as 64 hexadecimal digits.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn sha256(given: &str) -> Result<[u8; 32], String> {
        let wrong = || format!("{given}: the 64 hexadecimal digits of a SHA-256 are needed, as sha256sum prints them");
        let mut sum = [0; 32];
        if given.len() != 64 || !given.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        for (byte, digits) in sum.iter_mut().zip(given.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(sum)
    }

    /// Whether anything is expected at all.
    pub fn is_any(&self) -> bool {
        self.contains.is_none() && self.sha256.is_none()
    }
}

/// A look at one body.
#[derive(Debug)]
pub struct Look {
    expected: Arc<Expected>,
    found: bool,
    /// The last bytes that might be the beginning of what is to be found.
    tail: Vec<u8>,
    sum: Option<Sha256>,
}

impl Look {
    /// At a body of which nothing has come yet.
    pub fn new(expected: &Arc<Expected>) -> Look {
        let sum = expected.sha256.map(|_| Sha256::new());
        Look { expected: expected.clone(), found: expected.contains.is_none(), tail: Vec::new(), sum }
    }

    /// More of it has come.
    pub fn feed(&mut self, bytes: &[u8]) {
        if let Some(sum) = &mut self.sum {
            sum.update(bytes);
        }
        let Some(finder) = self.expected.contains.as_ref().filter(|_| !self.found) else { return };
        // What is looked for may begin before and end in these bytes.
        let overlap = finder.needle().len().saturating_sub(1);
        self.tail.extend_from_slice(&bytes[..bytes.len().min(overlap)]);
        self.found = finder.find(&self.tail).is_some() || finder.find(bytes).is_some();
        if bytes.len() > overlap {
            self.tail.clear();
            self.tail.extend_from_slice(&bytes[bytes.len() - overlap..]);
        } else {
            self.tail.drain(..self.tail.len().saturating_sub(overlap));
        }
    }

    /// Whether the body, which is over, was as it has to be.
    pub fn is_right(&self) -> bool {
        let sum = self.sum.clone().map(|sum| <[u8; 32]>::from(sum.finalize()));
        self.found && sum == self.expected.sha256
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a body is right, in one piece and in all others.
    fn check(expected: &Expected, body: &str, right: bool) {
        let expected = Arc::new(expected.clone());
        for size in 1..=body.len().max(1) {
            let mut look = Look::new(&expected);
            body.as_bytes().chunks(size).for_each(|piece| look.feed(piece));
            assert_eq!(look.is_right(), right, "{body:?} in pieces of {size}: {expected:?}");
        }
    }

    #[test]
    fn bodies_are_looked_through_however_they_are_cut() {
        let contains =
            |text: &str| Expected { contains: Some(Finder::new(text.as_bytes()).into_owned()), ..Expected::default() };
        check(&contains("aab"), "xaaab", true);
        check(&contains("aab"), "aab", true);
        check(&contains("aab"), "aaxab", false);
        check(&contains("aab"), "aa", false);
        check(&contains("aab"), "", false);
        check(&contains("x"), "aax", true);
        check(&contains("works! long text"), "<html><body><h1>It works! long text</h1>", true);
        check(&Expected::default(), "anything", true);
    }

    #[test]
    fn bodies_have_their_sum() {
        // The empty text's and `abc`'s, as in FIPS 180-2.
        let sum = |digits: &str| Expected { sha256: Expected::sha256(digits).ok(), ..Expected::default() };
        let empty = sum("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        let abc = sum("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD");
        check(&empty, "", true);
        check(&empty, "a", false);
        check(&abc, "abc", true);
        check(&abc, "abcd", false);
        check(&Expected { contains: Some(Finder::new("z").into_owned()), ..abc }, "abc", false);
        for wrong in ["", "ab", &"g".repeat(64), &"é".repeat(32)] {
            assert!(Expected::sha256(wrong).is_err(), "{wrong}");
        }
    }
}
