//! The form of frames (RFC 9113, sections 4.1 and 6), and how they are written.

use super::error::Code;

/// What a client sends first (section 3.4); SETTINGS follow.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a frame before its payload.
pub const HEAD_BYTES: usize = 9;
/// The largest flow-control window (section 6.9.1), and the largest number of a stream.
pub const WINDOW_MAX: u32 = (1 << 31) - 1;
/// The window of a connection at its beginning, and of its streams where nothing is said (section 6.9.2).
pub const WINDOW_DEFAULT: u32 = 65_535;
/// The largest payload that may be sent to a peer that has not allowed more (section 4.2).
pub const PAYLOAD_DEFAULT: usize = 16_384;

/// The kinds of frames.
pub mod kind {
    /// Part of a body.
    pub const DATA: u8 = 0x0;
    /// Begins a field block, and with it often a stream.
    pub const HEADERS: u8 = 0x1;
    /// Deprecated.
    pub const PRIORITY: u8 = 0x2;
    /// Ends a stream at once.
    pub const RST_STREAM: u8 = 0x3;
    /// What the sender wants of its peer.
    pub const SETTINGS: u8 = 0x4;
    /// Announces an answer that nobody asked for.
    pub const PUSH_PROMISE: u8 = 0x5;
    /// Wants to be sent back.
    pub const PING: u8 = 0x6;
    /// No further streams.
    pub const GOAWAY: u8 = 0x7;
    /// More may be sent.
    pub const WINDOW_UPDATE: u8 = 0x8;
    /// Goes on with a field block.
    pub const CONTINUATION: u8 = 0x9;
}

/// Their flags.
pub mod flag {
    /// SETTINGS, PING: it answers the peer's.
    pub const ACK: u8 = 0x1;
    /// DATA, HEADERS: the sender sends nothing more on this stream.
    pub const END_STREAM: u8 = 0x1;
    /// HEADERS, CONTINUATION: the field block is complete.
    pub const END_HEADERS: u8 = 0x4;
    /// DATA, HEADERS: the payload has a length of padding at its beginning, and the padding at its end.
    pub const PADDED: u8 = 0x8;
    /// HEADERS: five bytes of priority precede the field block.
    pub const PRIORITY: u8 = 0x20;
}

/// What can be set (section 6.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting(pub u16);

impl Setting {
    /// Size of the dynamic table the peer's field blocks may use, bytes.
    pub const HEADER_TABLE_SIZE: Setting = Setting(0x1);
    /// 0: no PUSH_PROMISE, please.
    pub const ENABLE_PUSH: Setting = Setting(0x2);
    /// Streams the peer may have open at once.
    pub const MAX_CONCURRENT_STREAMS: Setting = Setting(0x3);
    /// Window of new streams, bytes.
    pub const INITIAL_WINDOW_SIZE: Setting = Setting(0x4);
    /// Largest payload of a frame, bytes.
    pub const MAX_FRAME_SIZE: Setting = Setting(0x5);
    /// Largest sum of fields, bytes (advisory).
    pub const MAX_HEADER_LIST_SIZE: Setting = Setting(0x6);
}

/// The nine bytes before a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the payload, below 2^24.
    pub length: usize,
    /// See [`kind`].
    pub kind: u8,
    /// See [`flag`].
    pub flags: u8,
    /// The stream; 0 is the connection.
    pub stream: u32,
}

impl Head {
    /// Reads a frame's head; the reserved bit is ignored.
    pub fn parse(bytes: &[u8; HEAD_BYTES]) -> Head {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        Head {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & WINDOW_MAX,
        }
    }

    /// The bytes of the head.
    pub fn bytes(self) -> [u8; HEAD_BYTES] {
        let [_, a, b, c] = (self.length as u32).to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, d, e, f, g]
    }
}

fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&Head { length: payload.len(), kind, flags, stream }.bytes());
    out.extend_from_slice(payload);
}

/// SETTINGS.
pub fn write_settings(out: &mut Vec<u8>, settings: &[(Setting, u32)]) {
    out.extend_from_slice(&Head { length: 6 * settings.len(), kind: kind::SETTINGS, flags: 0, stream: 0 }.bytes());
    for (setting, value) in settings {
        out.extend_from_slice(&setting.0.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// That the peer's SETTINGS are in force.
pub fn write_settings_ack(out: &mut Vec<u8>) {
    write(out, kind::SETTINGS, flag::ACK, 0, &[]);
}

/// The answer to a PING.
pub fn write_ping_ack(out: &mut Vec<u8>, data: [u8; 8]) {
    write(out, kind::PING, flag::ACK, 0, &data);
}

/// WINDOW_UPDATE of a stream, or of the connection (0).
pub fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    write(out, kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
}

/// RST_STREAM.
pub fn write_reset(out: &mut Vec<u8>, stream: u32, code: Code) {
    write(out, kind::RST_STREAM, 0, stream, &code.0.to_be_bytes());
}

/// GOAWAY: no stream of the peer's above `last` was or will be looked at.
pub fn write_go_away(out: &mut Vec<u8>, last: u32, code: Code) {
    let [a, b, c, d] = last.to_be_bytes();
    let [e, f, g, h] = code.0.to_be_bytes();
    write(out, kind::GOAWAY, 0, 0, &[a, b, c, d, e, f, g, h]);
}

/// One frame of a body.
pub fn write_data(out: &mut Vec<u8>, stream: u32, bytes: &[u8], end_stream: bool) {
    write(out, kind::DATA, if end_stream { flag::END_STREAM } else { 0 }, stream, bytes);
}

/// HEADERS and as many CONTINUATION as the block needs, with payloads of at most [`PAYLOAD_DEFAULT`].
pub fn write_headers(out: &mut Vec<u8>, stream: u32, block: &[u8], end_stream: bool) {
    let (first, mut rest) = block.split_at(block.len().min(PAYLOAD_DEFAULT));
    let end = |rest: &[u8]| if rest.is_empty() { flag::END_HEADERS } else { 0 };
    let stream_ends = if end_stream { flag::END_STREAM } else { 0 };
    write(out, kind::HEADERS, end(rest) | stream_ends, stream, first);
    while !rest.is_empty() {
        let (next, after) = rest.split_at(rest.len().min(PAYLOAD_DEFAULT));
        rest = after;
        write(out, kind::CONTINUATION, end(rest), stream, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back() {
        for head in [
            Head { length: 0, kind: kind::SETTINGS, flags: flag::ACK, stream: 0 },
            Head { length: (1 << 24) - 1, kind: 0xff, flags: 0xff, stream: WINDOW_MAX },
            Head { length: 0x01_02_03, kind: kind::DATA, flags: flag::PADDED, stream: 0x0405_0607 },
        ] {
            assert_eq!(Head::parse(&head.bytes()), head);
        }
        let mut reserved = Head { length: 1, kind: 2, flags: 3, stream: 4 }.bytes();
        reserved[5] |= 0x80;
        assert_eq!(Head::parse(&reserved).stream, 4);
    }

    #[test]
    fn frames_are_written_as_the_standard_shows_them() {
        let check = |write: &dyn Fn(&mut Vec<u8>), expected: &[u8]| {
            let mut out = Vec::new();
            write(&mut out);
            assert_eq!(out, expected);
        };
        check(&|out| write_settings(out, &[(Setting::ENABLE_PUSH, 0)]), b"\0\0\x06\x04\0\0\0\0\0\0\x02\0\0\0\0");
        check(&|out| write_settings_ack(out), b"\0\0\0\x04\x01\0\0\0\0");
        check(&|out| write_ping_ack(out, *b"12345678"), b"\0\0\x08\x06\x01\0\0\0\x0012345678");
        check(&|out| write_window_update(out, 3, 256), b"\0\0\x04\x08\0\0\0\0\x03\0\0\x01\0");
        check(&|out| write_reset(out, 5, Code::CANCEL), b"\0\0\x04\x03\0\0\0\0\x05\0\0\0\x08");
        check(&|out| write_go_away(out, 0, Code::NO_ERROR), b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0");
        check(&|out| write_data(out, 1, b"hi", true), b"\0\0\x02\0\x01\0\0\0\x01hi");
        check(&|out| write_headers(out, 1, b"\x82", true), b"\0\0\x01\x01\x05\0\0\0\x01\x82");
    }

    #[test]
    fn long_blocks_are_continued() {
        let mut out = Vec::new();
        write_headers(&mut out, 1, &[0; 2 * PAYLOAD_DEFAULT + 1], false);
        let head = |at: usize| Head::parse(out[at..].first_chunk().expect("a head"));
        let second = HEAD_BYTES + PAYLOAD_DEFAULT;
        assert_eq!((head(0).kind, head(0).flags), (kind::HEADERS, 0));
        assert_eq!((head(second).kind, head(second).flags), (kind::CONTINUATION, 0));
        let last = head(2 * second);
        assert_eq!((last.length, last.kind, last.flags), (1, kind::CONTINUATION, flag::END_HEADERS));
    }
}
