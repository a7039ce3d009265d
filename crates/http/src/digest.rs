//! What the fields of a request head say about framing and the connection, gathered while they are parsed.
//!
//! A request whose length could be understood in two ways is refused (RFC 9112 section 6.3): that is what request
//! smuggling lives on.

use crate::chars::{DecimalError, decimal, is_authority, is_name, trim_ows};
use crate::scan::token_end;
use crate::{BodyLength, Conditions, HeadError, Version};

/// The digest of one request head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digest {
    /// Which field is `Host`.
    pub(crate) host: Option<u32>,
    content_length: Option<u64>,
    transfer_encoding: TransferEncoding,
    connection_close: bool,
    connection_keep_alive: bool,
    expects_continue: bool,
    /// There are fields for [`Conditions`].
    pub(crate) conditional: bool,
    known_host: KnownHost,
}

/// A field line `Host: value` that was found in order, so that the next one that is the same need not be looked at: nearly all
/// requests to a server name the same few hosts, and most clients name them first.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownHost(Vec<u8>);

/// Longer values are looked at each time.
const KNOWN_HOST_MAX: usize = 64;

impl KnownHost {
    const NAME: &[u8] = b"Host: ";

    #[inline]
    fn is(&self, value: &[u8]) -> bool {
        // It is never empty in order.
        !value.is_empty() && self.0.strip_prefix(Self::NAME).and_then(|line| line.strip_suffix(b"\r\n")) == Some(value)
    }

    fn remember(&mut self, value: &[u8]) {
        if value.len() <= KNOWN_HOST_MAX {
            self.0.clear();
            for part in [Self::NAME, value, b"\r\n"] {
                self.0.extend_from_slice(part);
            }
        }
    }
}

/// By the length of a field's name, the letters with which names begin that matter to the digest: a bit each, `a` being
/// bit 1.
const FIRST_LETTERS: [u32; 32] = {
    let names: [&[u8]; 11] = [
        b"host",
        b"expect",
        b"connection",
        b"content-length",
        b"transfer-encoding",
        b"range",
        b"if-match",
        b"if-range",
        b"if-none-match",
        b"if-modified-since",
        b"if-unmodified-since",
    ];
    let mut letters = [0; 32];
    let mut i = 0;
    while i < names.len() {
        letters[names[i].len()] |= 1 << (names[i][0] & 31);
        i += 1;
    }
    letters
};

/// The codings named so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TransferEncoding {
    #[default]
    None,
    /// Only ones unknown here; `chunked` must still come.
    Unknown,
    /// Unknown ones, then `chunked`.
    UnknownChunked,
    /// `chunked` alone.
    Chunked,
}

impl Digest {
    /// Forgets the head, but not what was learnt of hosts.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.host = None;
        self.content_length = None;
        self.transfer_encoding = TransferEncoding::None;
        self.connection_close = false;
        self.connection_keep_alive = false;
        self.expects_continue = false;
        self.conditional = false;
    }

    /// Takes in the first field of a head, if that is a host known from heads before, on a line of at most `limit` bytes; gives
    /// where its value begins and ends.
    #[inline]
    pub(crate) fn known_host(&mut self, rest: &[u8], limit: usize) -> Option<(usize, usize)> {
        let line = &self.known_host.0;
        let end = line.len().checked_sub(b"\r\n".len())?;
        if end > limit || !rest.starts_with(line) {
            return None;
        }
        self.host = Some(0);
        Some((KnownHost::NAME.len(), end))
    }

    /// Whether a field of this name can matter to the digest; a quick look that rules out nearly all others. `name`
    /// is a token.
    #[inline]
    pub(crate) fn may_concern(name: &[u8]) -> bool {
        FIRST_LETTERS[name.len() & 31] >> (name[0] & 31) & 1 != 0
    }

    /// Whether a field of this name says something about framing, host or connection; such a field may not be folded.
    #[cold]
    pub(crate) fn frames(name: &[u8]) -> bool {
        let names = ["host", "connection", "content-length", "transfer-encoding", "expect"];
        names.iter().any(|framing| name.eq_ignore_ascii_case(framing.as_bytes()))
    }

    /// Takes in one field; `value` has no white space at its ends.
    pub(crate) fn field(&mut self, version: Version, name: &[u8], value: &[u8], index: u32) -> Result<(), HeadError> {
        if is_name(name, b"host") {
            self.host(value, index)
        } else if is_name(name, b"connection") {
            self.connection(value);
            Ok(())
        } else if is_name(name, b"content-length") {
            self.content_length(value)
        } else if is_name(name, b"transfer-encoding") {
            self.transfer_encoding(version, value)
        } else if is_name(name, b"expect") {
            self.expect(version, value)
        } else {
            self.conditional |= Conditions::concern(name);
            Ok(())
        }
    }

    /// The checks that need the whole head.
    #[inline]
    pub(crate) fn finish(&self, version: Version) -> Result<(), HeadError> {
        match self.transfer_encoding {
            TransferEncoding::None | TransferEncoding::Chunked => {}
            TransferEncoding::Unknown => return Err(HeadError::TransferEncodingMalformed),
            TransferEncoding::UnknownChunked => return Err(HeadError::TransferCodingUnknown),
        }
        if self.host.is_none() && version >= Version::Http11 { Err(HeadError::HostMissing) } else { Ok(()) }
    }

    pub(crate) fn body(&self) -> BodyLength {
        if self.transfer_encoding == TransferEncoding::Chunked {
            return BodyLength::Chunked;
        }
        self.content_length.map_or(BodyLength::None, BodyLength::Length)
    }

    pub(crate) fn keep_alive(&self, version: Version) -> bool {
        !self.connection_close && (version >= Version::Http11 || self.connection_keep_alive)
    }

    pub(crate) fn keep_alive_asked(&self) -> bool {
        self.connection_keep_alive
    }

    pub(crate) fn expects_continue(&self) -> bool {
        self.expects_continue
    }

    /// RFC 9112 section 3.2: more than one, or an invalid one, is 400 in every version. So is an empty one: the scheme
    /// is always http or https here, whose URIs have a host (RFC 9110 section 4.2.1).
    fn host(&mut self, value: &[u8], index: u32) -> Result<(), HeadError> {
        if self.host.is_some() {
            return Err(HeadError::HostRepeated);
        }
        if !self.known_host.is(value) {
            if !is_authority(value) {
                return Err(HeadError::HostMalformed);
            }
            self.known_host.remember(value);
        }
        self.host = Some(index);
        Ok(())
    }

    /// RFC 9110 section 10.1.1: a 1.0 client cannot wait for 100, so there that expectation is ignored. An empty field
    /// expects nothing.
    fn expect(&mut self, version: Version, value: &[u8]) -> Result<(), HeadError> {
        if value.eq_ignore_ascii_case(b"100-continue") {
            self.expects_continue |= version >= Version::Http11;
        } else if !value.is_empty() {
            return Err(HeadError::Expectation);
        }
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        if is_name(value, b"keep-alive") {
            self.connection_keep_alive = true;
            return;
        }
        for option in value.split(|&b| b == b',') {
            let option = trim_ows(option);
            self.connection_close |= option.eq_ignore_ascii_case(b"close");
            self.connection_keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// RFC 9110 section 8.6 lets us take `42, 42` as 42; anything that differs is refused.
    fn content_length(&mut self, value: &[u8]) -> Result<(), HeadError> {
        if self.transfer_encoding != TransferEncoding::None {
            return Err(HeadError::TransferEncodingWithLength);
        }
        for element in value.split(|&b| b == b',') {
            let length = decimal(trim_ows(element)).map_err(|error| match error {
                DecimalError::NotDigits => HeadError::ContentLengthMalformed,
                DecimalError::Overflow => HeadError::ContentLengthOverflow,
            })?;
            if self.content_length.is_some_and(|before| before != length) {
                return Err(HeadError::ContentLengthConflict);
            }
            self.content_length = Some(length);
        }
        Ok(())
    }

    /// RFC 9112 section 6.1: `chunked` must come last, once and without parameters, or the length is unknown. It is
    /// the only coding known here; what other codings come before it matters only at the end of the head.
    fn transfer_encoding(&mut self, version: Version, value: &[u8]) -> Result<(), HeadError> {
        if version < Version::Http11 {
            return Err(HeadError::TransferEncodingInHttp10);
        }
        if self.content_length.is_some() {
            return Err(HeadError::TransferEncodingWithLength);
        }
        for element in value.split(|&b| b == b',') {
            let element = trim_ows(element);
            let name = &element[..token_end(element, 0)];
            let chunked = name.eq_ignore_ascii_case(b"chunked");
            self.transfer_encoding = match self.transfer_encoding {
                TransferEncoding::Chunked | TransferEncoding::UnknownChunked => {
                    return Err(HeadError::TransferEncodingMalformed);
                }
                _ if name.is_empty() || (chunked && name.len() != element.len()) => {
                    return Err(HeadError::TransferEncodingMalformed);
                }
                TransferEncoding::None if chunked => TransferEncoding::Chunked,
                TransferEncoding::Unknown if chunked => TransferEncoding::UnknownChunked,
                _ => TransferEncoding::Unknown,
            };
        }
        Ok(())
    }
}
