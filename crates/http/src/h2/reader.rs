//! Frames out of a stream of bytes, however it is cut, with the rules that need no knowledge of streams (RFC 9113, sections 4 and 6).

use super::error::{Code, Error};
use super::frame::{HEAD_BYTES, Head, PAYLOAD_DEFAULT, Setting, WINDOW_MAX, flag, kind};

/// Payloads are at most this long, since our SETTINGS allow no more.
pub const FRAME_BYTES_MAX: usize = PAYLOAD_DEFAULT;
/// Field blocks are at most this long, over all their frames.
pub const BLOCK_BYTES_MAX: usize = 64 * 1024;
/// Frames of a field block at most: without a limit, empty ones could come for ever.
const BLOCK_FRAMES_MAX: usize = 64;

/// What a frame, a part of one, or several say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// A field block is complete.
    Headers {
        /// Its stream.
        stream: u32,
        /// The block, to be decoded whatever has become of the stream.
        block: &'b [u8],
        /// The peer sends nothing more on the stream.
        end_stream: bool,
        /// Bytes of all its frames.
        wire: usize,
    },
    /// Part of a body.
    Data {
        /// Its stream.
        stream: u32,
        /// The bytes, without padding.
        bytes: &'b [u8],
        /// So much of the windows it takes.
        flow: u32,
        /// The peer sends nothing more on the stream.
        end_stream: bool,
        /// Bytes of the frame that are told with this.
        wire: usize,
    },
    /// The stream is at its end.
    Reset {
        /// The stream.
        stream: u32,
        /// Why.
        code: Code,
    },
    /// What the peer wants; to be acknowledged.
    Settings(Settings<'b>),
    /// Our settings are in force.
    SettingsAck,
    /// To be sent back, unless it comes back.
    Ping {
        /// It answers one of ours.
        ack: bool,
        /// What to send back.
        data: [u8; 8],
    },
    /// The peer takes no further streams on this connection.
    GoAway {
        /// Streams above this one were not processed.
        last: u32,
        /// Why.
        code: Code,
    },
    /// More may be sent.
    WindowUpdate {
        /// The stream, or 0 for the connection.
        stream: u32,
        /// By so many bytes, at least one.
        increment: u32,
    },
    /// A frame that says nothing: part of a field block, PRIORITY, or of an unknown kind.
    Nothing,
}

/// The settings of a frame; those that are unknown are among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings<'b>(&'b [u8]);

impl<'b> Settings<'b> {
    fn parse(payload: &'b [u8]) -> Result<Settings<'b>, Error> {
        if !payload.len().is_multiple_of(6) {
            return Err(Error::size("SETTINGS is cut off"));
        }
        let settings = Settings(payload);
        for (setting, value) in settings.iter() {
            match setting {
                Setting::ENABLE_PUSH if value > 1 => return Err(Error::protocol("ENABLE_PUSH is neither 0 nor 1")),
                Setting::INITIAL_WINDOW_SIZE if value > WINDOW_MAX => {
                    return Err(Error { code: Code::FLOW_CONTROL_ERROR, what: "INITIAL_WINDOW_SIZE is too large" });
                }
                Setting::MAX_FRAME_SIZE if !(PAYLOAD_DEFAULT as u32..1 << 24).contains(&value) => {
                    return Err(Error::protocol("MAX_FRAME_SIZE is out of its range"));
                }
                _ => {}
            }
        }
        Ok(settings)
    }

    /// Each setting and its value, in order.
    pub fn iter(self) -> impl Iterator<Item = (Setting, u32)> + 'b {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        self.0.chunks_exact(6).map(move |each| (Setting(number(&each[..2]) as u16), number(&each[2..])))
    }
}

/// Reads frames. After an error nothing can be read any more.
#[derive(Debug, Default)]
pub struct Reader {
    /// The beginning of a frame whose end has not come yet.
    held: Vec<u8>,
    /// What is held was told already.
    spent: bool,
    /// A DATA frame of which more is to come; it is told as it comes.
    data: Option<Data>,
    /// A field block of which more is to come.
    block: Vec<u8>,
    assembly: Option<Assembly>,
}

#[derive(Clone, Copy, Debug)]
struct Data {
    stream: u32,
    left: usize,
    end_stream: bool,
    /// Its head is still to be counted.
    begins: bool,
}

#[derive(Clone, Copy, Debug)]
struct Assembly {
    stream: u32,
    end_stream: bool,
    frames: usize,
    wire: usize,
}

impl Reader {
    /// The next event; what it needs is taken from the front of `input`. `None`: all of the input was taken and more is needed.
    ///
    /// # Errors
    /// A connection error.
    #[inline]
    pub fn next<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Result<Option<Event<'s>>, Error> {
        if std::mem::take(&mut self.spent) {
            self.held.clear();
        }
        if self.data.is_none() {
            let Some(head) = self.head(input) else { return Ok(None) };
            if head.length > FRAME_BYTES_MAX {
                return Err(Error::size("a frame is longer than allowed"));
            }
            if let Some(Assembly { stream, .. }) = self.assembly
                && (head.kind != kind::CONTINUATION || head.stream != stream)
            {
                return Err(Error::protocol("a field block is interrupted"));
            }
            if head.kind != kind::DATA || head.flags & flag::PADDED != 0 {
                return self.whole(head, input);
            }
            if head.stream == 0 {
                return Err(Error::protocol("DATA without a stream"));
            }
            if self.held.is_empty() {
                *input = &input[HEAD_BYTES..];
            }
            self.held.clear();
            let end_stream = head.flags & flag::END_STREAM != 0;
            self.data = Some(Data { stream: head.stream, left: head.length, end_stream, begins: true });
        }
        Ok(self.piece(input))
    }

    /// The head of the next frame, once it is there; of the input only what is held is taken.
    #[inline]
    fn head(&mut self, input: &mut &[u8]) -> Option<Head> {
        if self.held.is_empty()
            && let Some(head) = input.first_chunk()
        {
            return Some(Head::parse(head));
        }
        self.hold(HEAD_BYTES, input);
        self.held.first_chunk().map(Head::parse)
    }

    /// Holds as many bytes as there are, up to this many in all.
    fn hold(&mut self, length: usize, input: &mut &[u8]) {
        let (taken, rest) = input.split_at(length.saturating_sub(self.held.len()).min(input.len()));
        self.held.extend_from_slice(taken);
        *input = rest;
    }

    /// The rest of a DATA frame, as far as it is there.
    #[inline]
    fn piece<'i>(&mut self, input: &mut &'i [u8]) -> Option<Event<'i>> {
        let data = self.data.as_mut()?;
        if data.left > 0 && input.is_empty() {
            return None;
        }
        let (bytes, rest) = input.split_at(data.left.min(input.len()));
        *input = rest;
        data.left -= bytes.len();
        let wire = bytes.len() + if std::mem::take(&mut data.begins) { HEAD_BYTES } else { 0 };
        let (stream, ends) = (data.stream, data.left == 0);
        let end_stream = ends && data.end_stream;
        if ends {
            self.data = None;
        }
        Some(Event::Data { stream, bytes, flow: bytes.len() as u32, end_stream, wire })
    }

    /// A frame that is told when all of it is there.
    #[inline]
    fn whole<'s, 'i: 's>(&'s mut self, head: Head, input: &mut &'i [u8]) -> Result<Option<Event<'s>>, Error> {
        let length = HEAD_BYTES + head.length;
        let payload = if self.held.is_empty() && input.len() >= length {
            let (frame, rest) = input.split_at(length);
            *input = rest;
            &frame[HEAD_BYTES..]
        } else {
            self.hold(length, input);
            if self.held.len() < length {
                return Ok(None);
            }
            self.spent = true;
            &self.held[HEAD_BYTES..]
        };
        match head.kind {
            kind::HEADERS => begin_block(head, payload, &mut self.block, &mut self.assembly),
            kind::CONTINUATION => go_on_with_block(head, payload, &mut self.block, &mut self.assembly),
            _ => event(head, payload),
        }
        .map(Some)
    }
}

fn begin_block<'s>(
    head: Head,
    payload: &'s [u8],
    block: &'s mut Vec<u8>,
    assembly: &mut Option<Assembly>,
) -> Result<Event<'s>, Error> {
    if head.stream == 0 {
        return Err(Error::protocol("HEADERS without a stream"));
    }
    let mut part = without_padding(head, payload)?;
    if head.flags & flag::PRIORITY != 0 {
        part = part.get(5..).ok_or(Error::size("HEADERS is too short for its priority"))?;
    }
    let (stream, end_stream) = (head.stream, head.flags & flag::END_STREAM != 0);
    let wire = HEAD_BYTES + head.length;
    if head.flags & flag::END_HEADERS != 0 {
        return Ok(Event::Headers { stream, block: part, end_stream, wire });
    }
    block.clear();
    block.extend_from_slice(part);
    *assembly = Some(Assembly { stream, end_stream, frames: 1, wire });
    Ok(Event::Nothing)
}

fn go_on_with_block<'s>(
    head: Head,
    payload: &[u8],
    block: &'s mut Vec<u8>,
    assembly: &mut Option<Assembly>,
) -> Result<Event<'s>, Error> {
    let Some(Assembly { stream, end_stream, frames, wire }) = assembly.take() else {
        return Err(Error::protocol("CONTINUATION of nothing"));
    };
    if frames == BLOCK_FRAMES_MAX || block.len() + payload.len() > BLOCK_BYTES_MAX {
        return Err(Error { code: Code::ENHANCE_YOUR_CALM, what: "a field block is too long" });
    }
    block.extend_from_slice(payload);
    let wire = wire + HEAD_BYTES + head.length;
    if head.flags & flag::END_HEADERS != 0 {
        return Ok(Event::Headers { stream, block, end_stream, wire });
    }
    *assembly = Some(Assembly { stream, end_stream, frames: frames + 1, wire });
    Ok(Event::Nothing)
}

/// All other kinds.
fn event(head: Head, payload: &[u8]) -> Result<Event<'_>, Error> {
    let Head { stream, flags, .. } = head;
    let number = |at: usize| payload[at..].iter().take(4).fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    let rule = |holds: bool, what| if holds { Ok(()) } else { Err(Error::protocol(what)) };
    let length = |holds: bool, what| if holds { Ok(()) } else { Err(Error::size(what)) };
    match head.kind {
        kind::DATA => {
            rule(stream != 0, "DATA without a stream")?;
            let bytes = without_padding(head, payload)?;
            let end_stream = flags & flag::END_STREAM != 0;
            Ok(Event::Data { stream, bytes, flow: head.length as u32, end_stream, wire: HEAD_BYTES + head.length })
        }
        kind::RST_STREAM => {
            rule(stream != 0, "RST_STREAM without a stream")?;
            length(payload.len() == 4, "RST_STREAM has a wrong length")?;
            Ok(Event::Reset { stream, code: Code(number(0)) })
        }
        kind::SETTINGS => {
            rule(stream == 0, "SETTINGS of a stream")?;
            if flags & flag::ACK != 0 {
                length(payload.is_empty(), "an acknowledgement of SETTINGS has a payload")?;
                return Ok(Event::SettingsAck);
            }
            Settings::parse(payload).map(Event::Settings)
        }
        kind::PUSH_PROMISE => Err(Error::protocol("PUSH_PROMISE, which is not allowed here")),
        kind::PING => {
            rule(stream == 0, "PING of a stream")?;
            let data = payload.try_into().map_err(|_| Error::size("PING has a wrong length"))?;
            Ok(Event::Ping { ack: flags & flag::ACK != 0, data })
        }
        kind::GOAWAY => {
            rule(stream == 0, "GOAWAY of a stream")?;
            length(payload.len() >= 8, "GOAWAY is too short")?;
            Ok(Event::GoAway { last: number(0) & WINDOW_MAX, code: Code(number(4)) })
        }
        kind::WINDOW_UPDATE => {
            length(payload.len() == 4, "WINDOW_UPDATE has a wrong length")?;
            let increment = number(0) & WINDOW_MAX;
            rule(increment > 0, "WINDOW_UPDATE by nothing")?;
            Ok(Event::WindowUpdate { stream, increment })
        }
        kind::PRIORITY => {
            rule(stream != 0, "PRIORITY without a stream")?;
            length(payload.len() == 5, "PRIORITY has a wrong length")?;
            Ok(Event::Nothing)
        }
        _ => Ok(Event::Nothing),
    }
}

/// The payload of DATA or HEADERS without its padding (section 6.1).
fn without_padding(head: Head, payload: &[u8]) -> Result<&[u8], Error> {
    if head.flags & flag::PADDED == 0 {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(Error::size("a padded frame is empty"))?;
    let length = rest.len().checked_sub(usize::from(*padding));
    length.map(|length| &rest[..length]).ok_or(Error::protocol("there is more padding than payload"))
}

#[cfg(test)]
mod tests {
    use super::super::frame::*;
    use super::*;

    /// Everything the bytes say, in text; pieces of DATA put together again.
    fn read(bytes: &[u8], cuts: &[usize]) -> (Vec<String>, Option<&'static str>) {
        let mut reader = Reader::default();
        let mut said = Vec::new();
        let mut body: Option<(u32, Vec<u8>, usize)> = None;
        let mut start = 0;
        for end in cuts.iter().copied().chain([bytes.len()]) {
            let mut input = &bytes[start..end];
            start = end;
            loop {
                match reader.next(&mut input) {
                    Ok(Some(Event::Data { stream, bytes, end_stream, wire, .. })) => {
                        let (_, all, wires) = body.get_or_insert((stream, Vec::new(), 0));
                        all.extend_from_slice(bytes);
                        *wires += wire;
                        if end_stream {
                            said.push(format!("{body:?}"));
                            body = None;
                        }
                    }
                    Ok(Some(event)) => said.push(format!("{event:?}")),
                    Ok(None) => break,
                    Err(error) => return (said, Some(error.what)),
                }
            }
            assert!(input.is_empty());
        }
        (said, None)
    }

    /// The same in one piece, byte by byte, and in pieces of seeded random sizes; returns what was said.
    fn check(bytes: &[u8]) -> (Vec<String>, Option<&'static str>) {
        let whole = read(bytes, &[]);
        assert_eq!(read(bytes, &(1..bytes.len()).collect::<Vec<_>>()), whole, "byte by byte");
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..50 {
            let mut cuts = Vec::new();
            let mut at = 0;
            while at < bytes.len() {
                // xorshift64, so that a failure can be repeated.
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                at = (at + 1 + (state % 30) as usize).min(bytes.len());
                cuts.push(at);
            }
            assert_eq!(read(bytes, &cuts), whole, "{cuts:?}");
        }
        whole
    }

    fn raw(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = Head { length: payload.len(), kind, flags, stream }.bytes().to_vec();
        out.extend_from_slice(payload);
        out
    }

    #[test]
    fn a_conversation_is_read_however_it_is_cut() {
        let mut out = Vec::new();
        write_settings(&mut out, &[(Setting::MAX_CONCURRENT_STREAMS, 128), (Setting(0x99), 7)]);
        write_settings_ack(&mut out);
        write_headers(&mut out, 1, b"\x88\x89", false);
        write_data(&mut out, 1, b"hello ", false);
        write_data(&mut out, 1, b"", false);
        out.extend(raw(kind::DATA, flag::PADDED | flag::END_STREAM, 1, b"\x03world\0\0\0"));
        out.extend(raw(kind::HEADERS, flag::PADDED | flag::PRIORITY, 3, b"\x02\0\0\0\0\0\x88\0\0"));
        out.extend(raw(kind::CONTINUATION, 0, 3, b""));
        out.extend(raw(kind::CONTINUATION, flag::END_HEADERS, 3, b"\x89"));
        out.extend(raw(0xfe, 0xff, 9, b"whatever"));
        out.extend(raw(kind::PING, 0, 0, b"12345678"));
        write_window_update(&mut out, 0, 99);
        write_reset(&mut out, 5, Code::REFUSED_STREAM);
        out.extend(raw(kind::GOAWAY, 0, 0, b"\x80\0\0\x07\0\0\0\0debug"));
        let (said, error) = check(&out);
        assert_eq!(error, None);
        let expected = [
            "Settings(Settings([0, 3, 0, 0, 0, 128, 0, 153, 0, 0, 0, 7]))",
            "SettingsAck",
            "Headers { stream: 1, block: [136, 137], end_stream: false, wire: 11 }",
            "Some((1, [104, 101, 108, 108, 111, 32, 119, 111, 114, 108, 100], 42))",
            "Nothing",
            "Nothing",
            "Headers { stream: 3, block: [136, 137], end_stream: false, wire: 37 }",
            "Nothing",
            "Ping { ack: false, data: [49, 50, 51, 52, 53, 54, 55, 56] }",
            "WindowUpdate { stream: 0, increment: 99 }",
            "Reset { stream: 5, code: Code(7) }",
            "GoAway { last: 7, code: Code(0) }",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn broken_rules_end_the_connection() {
        let long = raw(kind::DATA, 0, 1, &[0; FRAME_BYTES_MAX + 1]);
        let unfinished = || raw(kind::HEADERS, 0, 1, b"\x88");
        for (bytes, what) in [
            (long, "longer than allowed"),
            (raw(kind::DATA, 0, 0, b"x"), "DATA without a stream"),
            (raw(kind::DATA, flag::PADDED, 0, b"\0x"), "DATA without a stream"),
            (raw(kind::DATA, flag::PADDED, 1, b""), "a padded frame is empty"),
            (raw(kind::DATA, flag::PADDED, 1, b"\x05abcd"), "more padding than payload"),
            (raw(kind::HEADERS, flag::END_HEADERS, 0, b"\x88"), "HEADERS without a stream"),
            (raw(kind::HEADERS, flag::PRIORITY, 1, b"\x88"), "too short for its priority"),
            (raw(kind::CONTINUATION, flag::END_HEADERS, 1, b""), "CONTINUATION of nothing"),
            ([unfinished(), raw(kind::PING, 0, 0, b"12345678")].concat(), "interrupted"),
            ([unfinished(), raw(kind::CONTINUATION, 0, 3, b"")].concat(), "interrupted"),
            ([unfinished(), raw(kind::CONTINUATION, 0, 1, b"").repeat(64)].concat(), "a field block is too long"),
            (
                [unfinished(), raw(kind::CONTINUATION, 0, 1, &[0; FRAME_BYTES_MAX]).repeat(4)].concat(),
                "a field block is too long",
            ),
            (raw(kind::RST_STREAM, 0, 0, b"\0\0\0\0"), "RST_STREAM without"),
            (raw(kind::RST_STREAM, 0, 1, b"\0\0\0"), "RST_STREAM has"),
            (raw(kind::SETTINGS, 0, 1, b""), "SETTINGS of a stream"),
            (raw(kind::SETTINGS, 0, 0, b"\0"), "cut off"),
            (raw(kind::SETTINGS, flag::ACK, 0, b"\0\0\0\0\0\0"), "has a payload"),
            (raw(kind::SETTINGS, 0, 0, b"\0\x02\0\0\0\x02"), "ENABLE_PUSH"),
            (raw(kind::SETTINGS, 0, 0, b"\0\x04\x80\0\0\0"), "INITIAL_WINDOW_SIZE"),
            (raw(kind::SETTINGS, 0, 0, b"\0\x05\0\0\0\x01"), "MAX_FRAME_SIZE"),
            (raw(kind::PUSH_PROMISE, flag::END_HEADERS, 1, b"\0\0\0\x02\x88"), "PUSH_PROMISE"),
            (raw(kind::PING, 0, 0, b"1234567"), "PING has"),
            (raw(kind::PING, 0, 1, b"12345678"), "PING of"),
            (raw(kind::GOAWAY, 0, 1, b"12345678"), "GOAWAY of"),
            (raw(kind::GOAWAY, 0, 0, b"1234567"), "GOAWAY is"),
            (raw(kind::WINDOW_UPDATE, 0, 1, b"\0\0\0\0"), "by nothing"),
            (raw(kind::WINDOW_UPDATE, 0, 1, b"\0\0\0"), "WINDOW_UPDATE has"),
            (raw(kind::PRIORITY, 0, 1, b""), "PRIORITY has"),
        ] {
            let (_, error) = check(&bytes);
            assert!(error.is_some_and(|error| error.contains(what)), "{what}: {error:?}");
        }
    }
}
