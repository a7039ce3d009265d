//! One answer as it arrives: head, body, and what a user wants to know of both.

use std::io::Read;

use manifold_http::{Limits, ResponseDecoder, ResponseHead, Version, parse_response_head};

use crate::connection::HEAD_BYTES_MAX;

/// A page is looked through up to here, packed or not; what follows is counted and dropped.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How far an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    More,
    Complete,
    Malformed,
}

/// An answer, whole or in part.
#[derive(Debug)]
pub struct Answer {
    head_request: bool,
    keep_page: bool,
    limits: Limits,
    /// What was received of the head, then the head.
    head: Vec<u8>,
    parsed: Option<ResponseHead>,
    decoder: Option<ResponseDecoder>,
    page: Vec<u8>,
    /// Bytes of the body.
    pub bytes: u64,
    /// Something came.
    pub begun: bool,
    /// The connection can carry another request.
    pub reusable: bool,
}

impl Answer {
    /// Nothing yet, of an answer to HEAD or another request, whose page is wanted or not.
    pub fn new(head_request: bool, keep_page: bool) -> Answer {
        let limits = Limits { request_line: HEAD_BYTES_MAX, field_size: HEAD_BYTES_MAX, ..Limits::default() };
        Answer {
            head_request,
            keep_page,
            limits,
            head: Vec::new(),
            parsed: None,
            decoder: None,
            page: Vec::new(),
            bytes: 0,
            begun: false,
            reusable: false,
        }
    }

    /// Takes in what was received.
    pub fn receive(&mut self, bytes: &[u8]) -> Progress {
        self.begun = true;
        if self.decoder.is_some() {
            return self.receive_body(bytes);
        }
        self.head.extend_from_slice(bytes);
        loop {
            match parse_response_head(&self.head, self.head_request, &self.limits) {
                Ok(Some((length, head))) => {
                    // An interim answer: the one that counts follows (RFC 9110 section 15.2).
                    if (100..200).contains(&head.status) && head.status != 101 {
                        self.head.drain(..length);
                        continue;
                    }
                    let rest = self.head.split_off(length);
                    self.parsed = Some(head);
                    self.decoder = Some(ResponseDecoder::new(head.body));
                    return self.receive_body(&rest);
                }
                Ok(None) if self.head.len() <= HEAD_BYTES_MAX => return Progress::More,
                Ok(None) | Err(_) => return Progress::Malformed,
            }
        }
    }

    /// The server sends nothing more: whether that completes the answer.
    pub fn end(&self) -> bool {
        self.decoder.as_ref().is_some_and(ResponseDecoder::is_done_at_end)
    }

    fn receive_body(&mut self, bytes: &[u8]) -> Progress {
        let Some(decoder) = &mut self.decoder else { return Progress::More };
        let mut used = 0;
        loop {
            if decoder.is_done() {
                // Bytes after the end that nobody asked for make the connection useless.
                self.reusable = used == bytes.len() && self.parsed.is_some_and(|head| head.keep_alive);
                return Progress::Complete;
            }
            let Ok(step) = decoder.decode(&bytes[used..]) else { return Progress::Malformed };
            let payload = &bytes[used..][step.payload.clone()];
            self.bytes += payload.len() as u64;
            if self.keep_page {
                let room = PAGE_BYTES_MAX.saturating_sub(self.page.len()).min(payload.len());
                self.page.extend_from_slice(&payload[..room]);
            }
            used += step.consumed;
            if !step.done && (used == bytes.len() || step.consumed == 0) {
                return Progress::More;
            }
        }
    }

    /// 0 before there is a head.
    pub fn status(&self) -> u16 {
        self.parsed.map_or(0, |head| head.status)
    }

    /// As lines show it.
    pub fn version(&self) -> &'static str {
        match self.parsed.map(|head| head.version) {
            Some(Version::Http10) => "HTTP/1.0",
            _ => "HTTP/1.1",
        }
    }

    /// The head as it came, with its empty line.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Values of the fields of this name.
    pub fn fields<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.head.split(|byte| *byte == b'\n').filter_map(move |line| {
            let (field, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// Whether it is a page that may name others.
    pub fn is_html(&self) -> bool {
        let kind = self.fields("Content-Type").next().unwrap_or_default();
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/html"))
    }

    /// The body, unpacked if it came packed; empty if that fails.
    pub fn page(&self) -> Vec<u8> {
        let mut page = Vec::new();
        let unpacked = match self.fields("Content-Encoding").next().map(str::to_ascii_lowercase).as_deref() {
            Some("gzip" | "x-gzip") => read_some(flate2::read::GzDecoder::new(self.page.as_slice()), &mut page),
            // Some servers send the bare coding, without the frame that RFC 9110 asks for.
            Some("deflate") if self.page.first().is_some_and(|first| first & 15 == 8) => {
                read_some(flate2::read::ZlibDecoder::new(self.page.as_slice()), &mut page)
            }
            Some("deflate") => read_some(flate2::read::DeflateDecoder::new(self.page.as_slice()), &mut page),
            _ => return self.page.clone(),
        };
        if unpacked.is_err() {
            page.clear();
        }
        page
    }
}

fn read_some(from: impl Read, page: &mut Vec<u8>) -> std::io::Result<usize> {
    from.take(PAGE_BYTES_MAX as u64).read_to_end(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole and byte by byte.
    fn check(text: &str, expected: (Progress, u16, u64, bool)) {
        for size in [text.len().max(1), 1] {
            let mut answer = Answer::new(false, true);
            let mut progress = Progress::More;
            for piece in text.as_bytes().chunks(size) {
                progress = answer.receive(piece);
                if progress != Progress::More {
                    break;
                }
            }
            assert_eq!((progress, answer.status(), answer.bytes, answer.reusable), expected, "{text:?} by {size}");
        }
    }

    #[test]
    fn answers() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", (Progress::Complete, 200, 2, true));
        check(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
            (Progress::Complete, 200, 2, false),
        );
        check("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", (Progress::Complete, 200, 0, true));
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            (Progress::Complete, 200, 3, true),
        );
        check("HTTP/1.1 100 C\r\n\r\nHTTP/1.1 204 No\r\n\r\n", (Progress::Complete, 204, 0, true));
        check("HTTP/1.1 200 OK\r\n\r\nhi", (Progress::More, 200, 2, false));
        check("hello there\r\n\r\n", (Progress::Malformed, 0, 0, false));
    }

    #[test]
    fn pages_are_unpacked() {
        use std::io::Write;
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(b"<img src=x>").unwrap();
        let packed = packer.finish().unwrap();
        let mut answer = Answer::new(false, true);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: Text/HTML; charset=x\r\nContent-Length: {}\r\n\r\n",
            packed.len()
        );
        answer.receive(head.as_bytes());
        assert_eq!(answer.receive(&packed), Progress::Complete);
        assert_eq!((answer.page().as_slice(), answer.is_html()), (b"<img src=x>".as_slice(), true));
        assert_eq!(answer.bytes, packed.len() as u64, "what counts is what was sent");
    }
}
