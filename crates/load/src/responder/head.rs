//! The end of a request's head, and the little of it that decides how to answer. Nothing else is looked at, and nothing is checked.

use memchr::memchr;

/// How a request is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The whole answer; then the connection goes on.
    Keep,
    /// The whole answer; then the connection is closed.
    Close,
    /// The head of the answer (HEAD); then the connection is closed.
    HeadOnly,
}

/// The last head that was seen. A generator sends the same again and again, and comparing costs less than looking for line ends.
#[derive(Debug)]
pub struct Known {
    bytes: Vec<u8>,
    ask: Ask,
}

impl Known {
    /// Nothing is known.
    pub fn nothing() -> Known {
        Known { bytes: Vec::new(), ask: Ask::Keep }
    }

    /// As [`first`].
    pub fn first(&mut self, bytes: &[u8]) -> Option<(usize, Ask)> {
        // Where a head ends is decided by nothing behind it.
        if !self.bytes.is_empty() && bytes.starts_with(&self.bytes) {
            return Some((self.bytes.len(), self.ask));
        }
        let (length, ask) = first(bytes)?;
        self.bytes.clear();
        self.bytes.extend_from_slice(&bytes[..length]);
        self.ask = ask;
        Some((length, ask))
    }
}

/// The first head in `bytes`: its length with the empty line that ends it, and what it asks for. `None` while it is not whole.
///
/// A connection goes on unless the request says `close`, or is of HTTP/1.0 and does not say `keep-alive` (RFC 9112, section 9.3).
pub fn first(bytes: &[u8]) -> Option<(usize, Ask)> {
    let mut at = 0;
    let mut request_line: &[u8] = &[];
    let mut keep = true;
    loop {
        let line_end = at + memchr(b'\n', &bytes[at..])?;
        let line = &bytes[at..line_end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        at = line_end + 1;
        if request_line.is_empty() {
            // Empty lines before a request are nothing (RFC 9112, section 2.2).
            request_line = line;
            keep = !line.ends_with(b"HTTP/1.0");
        } else if line.is_empty() {
            break;
        } else if let Some(options) = connection_field(line) {
            for option in options.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                if option.eq_ignore_ascii_case(b"close") {
                    keep = false;
                } else if option.eq_ignore_ascii_case(b"keep-alive") {
                    keep = true;
                }
            }
        }
    }
    let ask = match keep {
        _ if request_line.starts_with(b"HEAD ") => Ask::HeadOnly,
        true => Ask::Keep,
        false => Ask::Close,
    };
    Some((at, ask))
}

/// The value of a `Connection` field.
fn connection_field(line: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"connection:";
    // Most fields begin with another letter, so that this costs one comparison.
    let own = line[0] | 0x20 == b'c' && line.len() >= NAME.len() && line[..NAME.len()].eq_ignore_ascii_case(NAME);
    own.then(|| &line[NAME.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_end_and_ask() {
        let mut known = Known::nothing();
        let mut check = |bytes: &[u8], expected: Option<(usize, Ask)>| {
            assert_eq!(first(bytes), expected, "{}", String::from_utf8_lossy(bytes));
            let twice = [known.first(bytes), known.first(bytes)];
            assert_eq!(twice, [expected; 2], "{}", String::from_utf8_lossy(bytes));
            if let Some((length, _)) = expected {
                assert!((0..length).all(|cut| first(&bytes[..cut]).is_none()), "a part of it is no head");
            }
        };
        check(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", Some((27, Ask::Keep)));
        check(b"GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /", Some((27, Ask::Keep)));
        check(b"GET / HTTP/1.1\nHost: h\n\n", Some((24, Ask::Keep)));
        check(b"GET / HTTP/1.1\r\nconnection:close\r\n\r\n", Some((36, Ask::Close)));
        check(b"GET / HTTP/1.1\r\nConnection: te, Close\r\n\r\n", Some((41, Ask::Close)));
        check(b"GET / HTTP/1.1\r\nCookie: close\r\n\r\n", Some((33, Ask::Keep)));
        check(b"GET / HTTP/1.0\r\n\r\n", Some((18, Ask::Close)));
        check(b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", Some((42, Ask::Keep)));
        check(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", Some((28, Ask::HeadOnly)));
        check(b"\r\nGET / HTTP/1.1\r\n\r\n", Some((20, Ask::Keep)));
        for part in [&b""[..], b"\r\n", b"\r\n\r\n", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nC\r\n"] {
            check(part, None);
        }
    }
}
