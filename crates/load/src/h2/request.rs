//! A request as the frames of a stream, made once: HEADERS (and CONTINUATION) with a field block that needs no table, then the body as it is.
//!
//! Only the number of the stream is still to be written into the frames. The body is cut into DATA when it is sent, by what the server
//! allows.

use manifold_http::h2::encode_field;
use manifold_http::h2::frame::{HEAD_BYTES, Head, flag, write_headers};
use manifold_http::{find_field, response_fields};

/// Fields that HTTP/2 does not have (section 8.2.2), and Host, which is the authority.
const NOT_SENT: &[&str] =
    &["connection", "host", "http2-settings", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];

/// A request of HTTP/1 as frames of a stream. Names of fields become lower case, Host becomes the authority, and fields that HTTP/2 does
/// not have are left out.
pub fn translate(request: &[u8], scheme: &str) -> Vec<u8> {
    let end = request.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(request.len(), |end| end + 4);
    let (head, body) = request.split_at(end);
    let mut words = head.split(|byte| *byte == b'\r').next().unwrap_or_default().split(|byte| *byte == b' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let authority = find_field(head, "Host").unwrap_or_default();
    let mut block = Vec::new();
    // Section 8.3.1: these come first.
    for (name, value) in
        [(":method", method), (":scheme", scheme.as_bytes()), (":authority", authority), (":path", path)]
    {
        encode_field(&mut block, name.as_bytes(), value);
    }
    for (name, value) in response_fields(head) {
        let name = name.to_ascii_lowercase();
        if !NOT_SENT.iter().any(|other| other.as_bytes() == name) {
            encode_field(&mut block, &name, value);
        }
    }
    let mut frames = Vec::new();
    write_headers(&mut frames, 0, &block, body.is_empty());
    frames.extend_from_slice(body);
    frames
}

/// Adds the request's head to `out` as that of a stream; returns its body.
#[inline]
pub fn write_head<'p>(request: &'p [u8], stream: u32, out: &mut Vec<u8>) -> &'p [u8] {
    let mut rest = request;
    while let Some(bytes) = rest.first_chunk::<HEAD_BYTES>() {
        let head = Head { stream, ..Head::parse(bytes) };
        let (frame, after) = rest.split_at((HEAD_BYTES + head.length).min(rest.len()));
        out.extend_from_slice(&head.bytes());
        out.extend_from_slice(&frame[HEAD_BYTES..]);
        rest = after;
        if head.flags & flag::END_HEADERS != 0 {
            break;
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use manifold_http::h2::{Decoder, Event, Reader};

    #[test]
    fn a_request_is_frames_of_any_stream() {
        let long = "x".repeat(40_000);
        for (value, body) in [("text/plain", &b"x=1"[..]), ("text/plain", b""), (&long, b"x=1")] {
            let fields = format!("Content-Type: {value}\r\nConnection: close\r\nHOST: h:81\r\nX-Own:  1 \r\n");
            let head = format!("POST /a?b HTTP/1.1\r\n{fields}\r\n");
            let request = translate(&[head.as_bytes(), body].concat(), "http");
            let mut out = Vec::new();
            assert_eq!(write_head(&request, 7, &mut out), body);
            let mut input = out.as_slice();
            let mut reader = Reader::default();
            let (block, end) = loop {
                match reader.next(&mut input) {
                    Ok(Some(Event::Headers { stream: 7, block, end_stream, .. })) => break (block, end_stream),
                    Ok(Some(Event::Nothing)) => {}
                    other => panic!("{other:?}"),
                }
            };
            assert_eq!(end, body.is_empty());
            let mut text = String::new();
            let field = |name: &[u8], value: &[u8]| {
                text += &format!("{}={} ", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
            };
            Decoder::new(0).decode(block, field).expect("a block");
            let expected = ":method=POST :scheme=http :authority=h:81 :path=/a?b content-type=";
            assert_eq!(text, format!("{expected}{value} x-own=1 "));
            assert!(input.is_empty());
        }
    }
}
