//! Where a message body ends: by its length, or by the chunked coding (RFC 9112 section 7.1), strictly.
//!
//! The decoder is a state machine over single framing bytes and whole stretches of payload, so it can be fed any
//! slices; it copies nothing and never needs to see bytes twice.

use std::fmt;
use std::ops::Range;

use crate::Status;
use crate::chars::{QDTEXT, TOKEN, is, is_value};
use crate::scan::value_end;

/// Most bytes of chunk extensions in one body. They are read past, never used.
pub const EXTENSION_BYTES_MAX: u32 = 16 * 1024;
/// Most bytes of trailer fields in one body. They are read past, never used.
pub const TRAILER_BYTES_MAX: u32 = 16 * 1024;
/// Most trailer fields in one body.
pub const TRAILER_FIELDS_MAX: u32 = 100;

/// More hexadecimal digits than this in a chunk size are refused, leading zeros included: it fits in 64 bits.
const SIZE_DIGITS_MAX: u32 = 16;

/// How the end of a request body is found (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// There is no body.
    None,
    /// `Content-Length`, in bytes.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// What one call of a decoder found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// How many bytes of the input are dealt with; do not give them again.
    pub consumed: usize,
    /// Which of them are payload; an empty range where none are.
    pub payload: Range<usize>,
    /// The body is complete; bytes after `consumed` belong to the next message.
    pub done: bool,
}

/// Finds the payload and the end of one body.
#[derive(Clone, Debug)]
pub struct BodyDecoder {
    state: State,
    /// Payload bytes left in the body or the chunk; while a chunk size is read, that size so far.
    left: u64,
    size_digits: u32,
    extension_bytes: u32,
    trailer_bytes: u32,
    trailer_fields: u32,
}

/// What the next byte has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Payload of a body with a known length.
    Length,
    /// Digits of a chunk size.
    Size,
    /// White space after a chunk size, an extension's name or value: a semicolon must follow, or `=` after a name.
    SizeSpace,
    ExtensionStart,
    ExtensionName,
    ExtensionNameSpace,
    ExtensionValueStart,
    ExtensionValue,
    ExtensionQuoted,
    ExtensionQuotedPair,
    ExtensionEnd,
    /// LF after a chunk size.
    SizeLf,
    /// Payload of a chunk.
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    LastLf,
    Done,
    Failed(BodyError),
}

impl BodyDecoder {
    /// A decoder at the start of a body.
    pub fn new(length: BodyLength) -> BodyDecoder {
        let (state, left) = match length {
            BodyLength::None | BodyLength::Length(0) => (State::Done, 0),
            BodyLength::Length(left) => (State::Length, left),
            BodyLength::Chunked => (State::Size, 0),
        };
        BodyDecoder { state, left, size_digits: 0, extension_bytes: 0, trailer_bytes: 0, trailer_fields: 0 }
    }

    /// Whether the body is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes in the next bytes. Unless the body is done or `input` is empty, `consumed` is above zero: call again with
    /// the rest of the input until it is used up or `done`. Each call finds at most one stretch of payload.
    ///
    /// # Errors
    /// [`BodyError`] on the first byte that breaks the framing, and on every call after that.
    pub fn decode(&mut self, input: &[u8]) -> Result<Step, BodyError> {
        let mut at = 0;
        let mut payload = 0..0;
        while at < input.len() && self.state != State::Done {
            match self.state {
                State::Length | State::Data => {
                    if !payload.is_empty() {
                        break;
                    }
                    payload = at..at + usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len() - at);
                    at = payload.end;
                    self.left -= payload.len() as u64;
                    if self.left == 0 {
                        self.state = if self.state == State::Data { State::DataCr } else { State::Done };
                    }
                }
                State::TrailerValue => {
                    let end = value_end(input, at);
                    self.count_trailer_bytes(end - at)?;
                    at = end;
                    if end < input.len() {
                        self.framing_byte(input[end])?;
                        at += 1;
                    }
                }
                State::Failed(error) => return Err(error),
                _ => {
                    self.framing_byte(input[at])?;
                    at += 1;
                }
            }
        }
        Ok(Step { consumed: at, payload, done: self.state == State::Done })
    }

    /// Takes in one byte that is not payload.
    fn framing_byte(&mut self, b: u8) -> Result<(), BodyError> {
        let next = match (self.state, b) {
            (State::Size, _) => match (b as char).to_digit(16) {
                Some(digit) if self.size_digits < SIZE_DIGITS_MAX => {
                    self.size_digits += 1;
                    self.left = self.left << 4 | u64::from(digit);
                    Ok(State::Size)
                }
                Some(_) => Err(BodyError::ChunkSizeOverflow),
                None if self.size_digits == 0 => Err(BodyError::ChunkSize),
                None => match b {
                    b'\r' => Ok(State::SizeLf),
                    b';' => Ok(State::ExtensionStart),
                    b' ' | b'\t' => Ok(State::SizeSpace),
                    _ => Err(BodyError::ChunkSize),
                },
            },
            (State::SizeLf, b'\n') => {
                self.size_digits = 0;
                Ok(if self.left == 0 { State::TrailerStart } else { State::Data })
            }
            (State::SizeLf, _) => Err(BodyError::ChunkSize),

            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => Ok(State::Size),
            (State::DataCr | State::DataLf, _) => Err(BodyError::ChunkEnd),

            (State::TrailerStart, b'\r') => Ok(State::LastLf),
            (State::LastLf, b'\n') => Ok(State::Done),
            (State::TrailerStart, _) if is(b, TOKEN) => Ok(State::TrailerName),
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerName, _) if is(b, TOKEN) => Ok(State::TrailerName),
            (State::TrailerValue, b'\r') => Ok(State::TrailerLf),
            (State::TrailerValue, _) if is_value(b) => Ok(State::TrailerValue),
            (State::TrailerLf, b'\n') => Ok(State::TrailerStart),
            (State::TrailerStart | State::TrailerName | State::TrailerValue | State::TrailerLf | State::LastLf, _) => {
                Err(BodyError::Trailer)
            }

            (state, _) => extension_byte(state, b).ok_or(BodyError::ChunkExtension),
        };
        let counted = next.and_then(|next| self.count(next));
        self.state = counted.unwrap_or_else(State::Failed);
        counted.map(|_| ())
    }

    /// Counts what is bounded, for a byte that leads to the state `next`.
    fn count(&mut self, next: State) -> Result<State, BodyError> {
        match next {
            State::SizeSpace
            | State::ExtensionStart
            | State::ExtensionName
            | State::ExtensionNameSpace
            | State::ExtensionValueStart
            | State::ExtensionValue
            | State::ExtensionQuoted
            | State::ExtensionQuotedPair
            | State::ExtensionEnd => {
                self.extension_bytes += 1;
                if self.extension_bytes > EXTENSION_BYTES_MAX {
                    return Err(BodyError::ExtensionsTooLong);
                }
            }
            State::TrailerName => {
                if self.state == State::TrailerStart {
                    self.trailer_fields += 1;
                    if self.trailer_fields > TRAILER_FIELDS_MAX {
                        return Err(BodyError::TrailersTooLong);
                    }
                }
                self.count_trailer_bytes(1)?;
            }
            _ => {}
        }
        Ok(next)
    }

    fn count_trailer_bytes(&mut self, n: usize) -> Result<(), BodyError> {
        self.trailer_bytes = self.trailer_bytes.saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
        if self.trailer_bytes > TRAILER_BYTES_MAX {
            self.state = State::Failed(BodyError::TrailersTooLong);
            return Err(BodyError::TrailersTooLong);
        }
        Ok(())
    }
}

/// `chunk-ext = *( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )`, after the chunk size.
fn extension_byte(state: State, b: u8) -> Option<State> {
    let space = matches!(b, b' ' | b'\t');
    Some(match (state, b) {
        (State::SizeSpace | State::ExtensionName | State::ExtensionNameSpace, b';')
        | (State::ExtensionValue | State::ExtensionEnd, b';') => State::ExtensionStart,
        (State::ExtensionName | State::ExtensionValue | State::ExtensionEnd, b'\r') => State::SizeLf,
        (State::ExtensionName | State::ExtensionNameSpace, b'=') => State::ExtensionValueStart,
        (State::ExtensionStart, _) if space => State::ExtensionStart,
        (State::ExtensionName | State::ExtensionNameSpace, _) if space => State::ExtensionNameSpace,
        (State::ExtensionValueStart, _) if space => State::ExtensionValueStart,
        (State::SizeSpace | State::ExtensionValue | State::ExtensionEnd, _) if space => State::SizeSpace,
        (State::ExtensionValueStart, b'"') => State::ExtensionQuoted,
        (State::ExtensionQuoted, b'"') => State::ExtensionEnd,
        (State::ExtensionQuoted, b'\\') => State::ExtensionQuotedPair,
        (State::ExtensionQuoted, _) if is(b, QDTEXT) => State::ExtensionQuoted,
        (State::ExtensionQuotedPair, _) if is_value(b) => State::ExtensionQuoted,
        (State::ExtensionStart | State::ExtensionName, _) if is(b, TOKEN) => State::ExtensionName,
        (State::ExtensionValueStart | State::ExtensionValue, _) if is(b, TOKEN) => State::ExtensionValue,
        _ => return None,
    })
}

/// Why a body cannot be read on. The connection has to be closed: where the next message begins is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyError {
    /// A chunk size that is not hexadecimal digits, or does not end with CRLF.
    ChunkSize,
    /// A chunk size of more than 16 digits.
    ChunkSizeOverflow,
    /// A malformed chunk extension.
    ChunkExtension,
    /// More than [`EXTENSION_BYTES_MAX`].
    ExtensionsTooLong,
    /// Chunk data that is not followed by CRLF.
    ChunkEnd,
    /// A malformed trailer field.
    Trailer,
    /// More than [`TRAILER_BYTES_MAX`] or [`TRAILER_FIELDS_MAX`].
    TrailersTooLong,
}

impl BodyError {
    /// The status to answer with, where no response has begun yet: 400, or 413 for what is only too large.
    pub fn status(&self) -> Status {
        match self {
            BodyError::ChunkSizeOverflow => Status::REQUEST_ENTITY_TOO_LARGE,
            _ => Status::BAD_REQUEST,
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BodyError::ChunkSize => "malformed chunk size",
            BodyError::ChunkSizeOverflow => "chunk size is too large",
            BodyError::ChunkExtension => "malformed chunk extension",
            BodyError::ExtensionsTooLong => "chunk extensions are too long",
            BodyError::ChunkEnd => "chunk data does not end with CRLF",
            BodyError::Trailer => "malformed trailer field",
            BodyError::TrailersTooLong => "trailer fields are too long",
        })
    }
}

impl std::error::Error for BodyError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Outcome = Result<(Vec<u8>, usize, bool), BodyError>;

    /// Payload, bytes consumed and whether the end was found, with the input cut into pieces of the given sizes.
    fn decode(length: BodyLength, input: &[u8], sizes: &[usize]) -> Outcome {
        let mut decoder = BodyDecoder::new(length);
        let (mut payload, mut consumed) = (Vec::new(), 0);
        let mut sizes = sizes.iter().copied().cycle();
        let mut visible = 0;
        loop {
            visible = input.len().min(visible + sizes.next().unwrap_or(input.len()).max(1));
            while !decoder.is_done() && consumed < visible {
                let step = decoder.decode(&input[consumed..visible])?;
                assert!(step.consumed > 0, "no progress at {consumed}");
                assert!(step.payload.end <= step.consumed);
                payload.extend_from_slice(&input[consumed..visible][step.payload]);
                consumed += step.consumed;
            }
            if decoder.is_done() || visible == input.len() {
                return Ok((payload, consumed, decoder.is_done()));
            }
        }
    }

    fn check(length: BodyLength, input: &[u8], expected: Result<(&[u8], usize, bool), BodyError>) {
        let expected = expected.map(|(payload, consumed, done)| (payload.to_vec(), consumed, done));
        for sizes in [&[][..], &[1], &[2], &[3, 1]] {
            assert_eq!(decode(length, input, sizes), expected, "{:?} in {sizes:?}", String::from_utf8_lossy(input));
        }
    }

    #[test]
    fn lengths() {
        check(BodyLength::None, b"GET", Ok((b"", 0, true)));
        check(BodyLength::Length(0), b"GET", Ok((b"", 0, true)));
        check(BodyLength::Length(3), b"abcGET", Ok((b"abc", 3, true)));
        check(BodyLength::Length(u64::MAX), b"abc", Ok((b"abc", 3, false)));
    }

    #[test]
    fn a_finished_or_empty_input_is_no_error() {
        let step = BodyDecoder::new(BodyLength::None).decode(b"next").unwrap();
        assert_eq!(step, Step { consumed: 0, payload: 0..0, done: true });
        let step = BodyDecoder::new(BodyLength::Chunked).decode(b"").unwrap();
        assert_eq!(step, Step { consumed: 0, payload: 0..0, done: false });
    }

    #[test]
    fn chunked_bodies() {
        let good = |input: &str, payload: &str| {
            check(BodyLength::Chunked, input.as_bytes(), Ok((payload.as_bytes(), input.len(), true)));
            let followed = format!("{input}GET / HTTP/1.1\r\n");
            check(BodyLength::Chunked, followed.as_bytes(), Ok((payload.as_bytes(), input.len(), true)));
            for end in 0..input.len() {
                let (found, consumed, done) = decode(BodyLength::Chunked, &input.as_bytes()[..end], &[]).unwrap();
                assert!(payload.as_bytes().starts_with(&found) && consumed == end && !done, "{input:?} up to {end}");
            }
        };
        good("0\r\n\r\n", "");
        good("3\r\nabc\r\n0\r\n\r\n", "abc");
        good("3\r\nabc\r\n00A\r\n0123456789\r\n000\r\n\r\n", "abc0123456789");
        good("a\r\n0123456789\r\n0\r\n\r\n", "0123456789");
        good("1\r\n\r\r\n1\r\n\n\r\n0\r\n\r\n", "\r\n");
        good("0000000000000001\r\nx\r\n0\r\n\r\n", "x");
        good("1;a\r\nx\r\n0;b=c\r\n\r\n", "x");
        good("1;a=\"q; \\\"\"\r\nx\r\n0\r\n\r\n", "x");
        good("1 ; a = b ;c\t=\t\"d e\"\r\nx\r\n0\r\n\r\n", "x");
        good("1;a=\"\" ;b\r\nx\r\n0\r\n\r\n", "x");
        good("0\r\nA: b\r\nC:\r\nD:\t\u{e9} \r\n\r\n", "");
    }

    #[test]
    fn refused_chunks() {
        let bad = |input: &str, error| check(BodyLength::Chunked, input.as_bytes(), Err(error));
        bad("\r\n", BodyError::ChunkSize);
        bad("x\r\n", BodyError::ChunkSize);
        bad(" 1\r\n", BodyError::ChunkSize);
        bad("+1\r\n", BodyError::ChunkSize);
        bad("-1\r\n", BodyError::ChunkSize);
        bad("0x1\r\n", BodyError::ChunkSize);
        bad("1\nx", BodyError::ChunkSize);
        bad("1\rx", BodyError::ChunkSize);
        bad("1g\r\n", BodyError::ChunkSize);
        bad("12345678901234567", BodyError::ChunkSizeOverflow);
        bad("00000000000000000", BodyError::ChunkSizeOverflow);
        bad("1 \r\nx", BodyError::ChunkExtension);
        bad("1 a\r\nx", BodyError::ChunkExtension);
        bad("1;\r\nx", BodyError::ChunkExtension);
        bad("1;=b\r\nx", BodyError::ChunkExtension);
        bad("1;a=\r\nx", BodyError::ChunkExtension);
        bad("1;a \r\nx", BodyError::ChunkExtension);
        bad("1;a b\r\nx", BodyError::ChunkExtension);
        bad("1;a\nx", BodyError::ChunkExtension);
        bad("1;a=\"b\r\n\"\r\nx", BodyError::ChunkExtension);
        bad("1;a=\"b\\\r\n", BodyError::ChunkExtension);
        bad("1;a=\"\\\0", BodyError::ChunkExtension);
        bad("1;a=\"\x7f", BodyError::ChunkExtension);
        bad("1;a=\"b\"c\r\nx", BodyError::ChunkExtension);
        bad("1;a\r1", BodyError::ChunkSize);
        bad("1\r\nxx\r\n", BodyError::ChunkEnd);
        bad("1\r\nx\n", BodyError::ChunkEnd);
        bad("1\r\nx\r1", BodyError::ChunkEnd);
        bad("0\r\n\n", BodyError::Trailer);
        bad("0\r\n\rx", BodyError::Trailer);
        bad("0\r\nA b: c\r\n", BodyError::Trailer);
        bad("0\r\n: c\r\n", BodyError::Trailer);
        bad("0\r\n folded\r\n", BodyError::Trailer);
        bad("0\r\nA: b\n", BodyError::Trailer);
        bad("0\r\nA: b\0\r\n", BodyError::Trailer);
        bad("0\r\nA: b\rc", BodyError::Trailer);
    }

    #[test]
    fn extensions_and_trailers_are_bounded() {
        let extension = |n: u32| format!("1;{}\r\nx\r\n0\r\n\r\n", "a".repeat(n as usize - 1));
        assert!(decode(BodyLength::Chunked, extension(EXTENSION_BYTES_MAX).as_bytes(), &[]).is_ok());
        let bad = |input: String, error| check(BodyLength::Chunked, input.as_bytes(), Err(error));
        bad(extension(EXTENSION_BYTES_MAX + 1), BodyError::ExtensionsTooLong);
        bad("1;a\r\nx\r\n".repeat(EXTENSION_BYTES_MAX as usize), BodyError::ExtensionsTooLong);
        bad(format!("0\r\n{}", "a".repeat(TRAILER_BYTES_MAX as usize + 1)), BodyError::TrailersTooLong);
        bad(format!("0\r\na:{}", "a".repeat(TRAILER_BYTES_MAX as usize)), BodyError::TrailersTooLong);
        bad(format!("0\r\n{}", "a:b\r\n".repeat(TRAILER_FIELDS_MAX as usize + 1)), BodyError::TrailersTooLong);
    }

    #[test]
    fn an_error_stays() {
        let mut decoder = BodyDecoder::new(BodyLength::Chunked);
        assert_eq!(decoder.decode(b"x"), Err(BodyError::ChunkSize));
        assert_eq!(decoder.decode(b"0\r\n\r\n"), Err(BodyError::ChunkSize));
    }

    proptest! {
        #[test]
        fn encoded_bodies_come_back(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..8),
            extension in prop_oneof![Just(""), Just(";a"), Just(" ; a = \"b\"")],
            sizes in proptest::collection::vec(1..50usize, 0..6),
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                wire.extend_from_slice(format!("{:x}{extension}\r\n", chunk.len()).as_bytes());
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\nTrailer: x\r\n\r\n");
            let end = wire.len();
            wire.extend_from_slice(b"GET");
            prop_assert_eq!(decode(BodyLength::Chunked, &wire, &sizes), Ok((chunks.concat(), end, true)));
        }

        #[test]
        fn splitting_changes_nothing(
            input in proptest::collection::vec(prop_oneof![
                Just(b"0\r\n".to_vec()), Just(b"2\r\nab\r\n".to_vec()), Just(b"\r\n".to_vec()), Just(b"A: b".to_vec()),
                Just(b";a=".to_vec()), Just(b"\"".to_vec()), any::<u8>().prop_map(|b| vec![b]),
            ], 0..12).prop_map(|pieces| pieces.concat()),
            sizes in proptest::collection::vec(1..10usize, 1..6),
        ) {
            prop_assert_eq!(decode(BodyLength::Chunked, &input, &sizes), decode(BodyLength::Chunked, &input, &[]));
        }
    }
}
