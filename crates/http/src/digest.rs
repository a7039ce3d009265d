//! What the fields of a request head say about framing and the connection, gathered while they are parsed.
//!
//! A request whose length could be understood in two ways is refused (RFC 9112 section 6.3): that is what request
//! smuggling lives on.

use crate::chars::{DecimalError, TOKEN, decimal, is, is_authority, trim_ows};
use crate::{BodyLength, HeadError, Version};

/// The digest of one request head.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Digest {
    /// Which field is `Host`.
    pub(crate) host: Option<u32>,
    content_length: Option<u64>,
    transfer_coding: TransferCoding,
    connection_close: bool,
    connection_keep_alive: bool,
    expects_continue: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TransferCoding {
    #[default]
    None,
    Chunked,
}

impl Digest {
    /// Whether a field of this name can matter to the digest; a quick look that rules out nearly all others. `name`
    /// is a token.
    #[inline]
    pub(crate) fn may_concern(name: &[u8]) -> bool {
        let first = |lower: u8| name[0] | 0x20 == lower;
        match name.len() {
            4 => first(b'h'),
            6 => first(b'e'),
            10 | 14 => first(b'c'),
            17 => first(b't'),
            _ => false,
        }
    }

    /// Takes in one field; `name` is a token and `value` has no white space at its ends.
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
            Ok(())
        }
    }

    /// The checks that need the whole head.
    #[inline]
    pub(crate) fn finish(&self, version: Version) -> Result<(), HeadError> {
        if self.host.is_none() && version >= Version::Http11 { Err(HeadError::HostMissing) } else { Ok(()) }
    }

    pub(crate) fn body(&self) -> BodyLength {
        match (self.transfer_coding, self.content_length) {
            (TransferCoding::Chunked, _) => BodyLength::Chunked,
            (TransferCoding::None, Some(length)) => BodyLength::Length(length),
            (TransferCoding::None, None) => BodyLength::None,
        }
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

    /// RFC 9112 section 3.2: more than one, or an invalid one, is 400 in every version. An empty one is valid.
    fn host(&mut self, value: &[u8], index: u32) -> Result<(), HeadError> {
        if self.host.is_some() {
            return Err(HeadError::HostRepeated);
        }
        if !value.is_empty() && !is_authority(value) {
            return Err(HeadError::HostMalformed);
        }
        self.host = Some(index);
        Ok(())
    }

    /// RFC 9110 section 10.1.1; a 1.0 client cannot expect anything, so there the field is ignored.
    fn expect(&mut self, version: Version, value: &[u8]) -> Result<(), HeadError> {
        if version < Version::Http11 {
            return Ok(());
        }
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(HeadError::Expectation);
        }
        self.expects_continue = true;
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|&b| b == b',') {
            let option = trim_ows(option);
            self.connection_close |= option.eq_ignore_ascii_case(b"close");
            self.connection_keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// RFC 9110 section 8.6 lets us take `42, 42` as 42; anything that differs is refused.
    fn content_length(&mut self, value: &[u8]) -> Result<(), HeadError> {
        if self.transfer_coding != TransferCoding::None {
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

    /// RFC 9112 section 6.1. `chunked` is the only coding known, so it must stand alone, once, without parameters.
    fn transfer_encoding(&mut self, version: Version, value: &[u8]) -> Result<(), HeadError> {
        if version < Version::Http11 {
            return Err(HeadError::TransferEncodingInHttp10);
        }
        if self.content_length.is_some() {
            return Err(HeadError::TransferEncodingWithLength);
        }
        for element in value.split(|&b| b == b',') {
            let element = trim_ows(element);
            let name_end = element.iter().position(|&b| !is(b, TOKEN)).unwrap_or(element.len());
            let name = &element[..name_end];
            if name.is_empty() || self.transfer_coding == TransferCoding::Chunked {
                return Err(HeadError::TransferEncodingMalformed);
            }
            if !name.eq_ignore_ascii_case(b"chunked") {
                return Err(HeadError::TransferCodingUnknown);
            }
            if name_end != element.len() {
                return Err(HeadError::TransferEncodingMalformed);
            }
            self.transfer_coding = TransferCoding::Chunked;
        }
        Ok(())
    }
}

/// Whether the token `name` is `lower`, in any case. Setting one bit is enough: no token byte but a capital becomes a
/// small letter by it, and none becomes a hyphen.
#[inline]
fn is_name<const N: usize>(name: &[u8], lower: &[u8; N]) -> bool {
    match <&[u8; N]>::try_from(name) {
        Ok(name) => name.iter().zip(lower).fold(true, |same, (&b, &l)| same & (b | 0x20 == l)),
        Err(_) => false,
    }
}
