//! What ends a connection, and the codes by which both sides say so (RFC 9113, section 7).

use std::fmt;

/// A connection error: the peer broke the protocol in a way that leaves nothing to rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// What GOAWAY says of it.
    pub code: Code,
    /// What was wrong, for people.
    pub what: &'static str,
}

impl Error {
    /// `PROTOCOL_ERROR`, for this reason.
    pub fn protocol(what: &'static str) -> Error {
        Error { code: Code::PROTOCOL_ERROR, what }
    }

    /// `FRAME_SIZE_ERROR`, for this reason.
    pub fn size(what: &'static str) -> Error {
        Error { code: Code::FRAME_SIZE_ERROR, what }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.code)
    }
}

impl std::error::Error for Error {}

/// An error code of RST_STREAM and GOAWAY; one that is not known is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    /// Nothing is wrong.
    pub const NO_ERROR: Code = Code(0x0);
    /// Broken rules without a code of their own.
    pub const PROTOCOL_ERROR: Code = Code(0x1);
    /// More was sent than the receiver had allowed.
    pub const FLOW_CONTROL_ERROR: Code = Code(0x3);
    /// A frame of a wrong length.
    pub const FRAME_SIZE_ERROR: Code = Code(0x6);
    /// The stream was not processed, and may be sent again.
    pub const REFUSED_STREAM: Code = Code(0x7);
    /// The stream is not wanted any more.
    pub const CANCEL: Code = Code(0x8);
    /// A field block that cannot be decoded.
    pub const COMPRESSION_ERROR: Code = Code(0x9);
    /// The peer makes more work than is reasonable.
    pub const ENHANCE_YOUR_CALM: Code = Code(0xb);
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            0x0 => "NO_ERROR",
            0x1 => "PROTOCOL_ERROR",
            0x2 => "INTERNAL_ERROR",
            0x3 => "FLOW_CONTROL_ERROR",
            0x4 => "SETTINGS_TIMEOUT",
            0x5 => "STREAM_CLOSED",
            0x6 => "FRAME_SIZE_ERROR",
            0x7 => "REFUSED_STREAM",
            0x8 => "CANCEL",
            0x9 => "COMPRESSION_ERROR",
            0xa => "CONNECT_ERROR",
            0xb => "ENHANCE_YOUR_CALM",
            0xc => "INADEQUATE_SECURITY",
            0xd => "HTTP_1_1_REQUIRED",
            other => return write!(f, "error {other:#x}"),
        };
        f.write_str(name)
    }
}
