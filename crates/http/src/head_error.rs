//! The causes for which a request head is refused, each with its status.

use std::fmt;

use crate::Status;

/// Why a request head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeadError {
    /// More than [`crate::BLANK_LINES_MAX`] empty lines before the request line.
    BlankLines,
    /// A CR that is not followed by LF.
    BareCr,
    /// A line that ends with LF alone.
    BareLf,
    /// The method is not a token, or not followed by one space.
    Method,
    /// A method that is not registered, where only those are let in; see [`crate::Methods::Registered`].
    MethodUnregistered,
    /// The request line ends after the method.
    TargetMissing,
    /// A control byte in the target, an empty target, or more than one space before it.
    Target,
    /// An HTTP/0.9 request, which has no version, where these are not allowed; or one with another method than GET.
    SimpleRequest,
    /// What should be the version is none, or something follows it.
    VersionMalformed,
    /// A version of HTTP whose major number is not 1.
    VersionUnsupported,
    /// Longer than [`crate::Limits::request_line`].
    RequestLineTooLong,
    /// A field name that is empty or not a token, or a line without a colon.
    FieldName,
    /// White space between a field name and its colon.
    SpaceBeforeColon,
    /// A control byte in a field value.
    FieldValue,
    /// A field line that begins with white space.
    ObsFold,
    /// Longer than [`crate::Limits::field_size`].
    FieldTooLong,
    /// More than [`crate::Limits::fields`].
    TooManyFields,
    /// Longer than [`crate::HEAD_MAX`]; only where the single limits are set very high.
    HeadTooLarge,
    /// HTTP/1.1 without `Host`.
    HostMissing,
    /// More than one `Host`.
    HostRepeated,
    /// A `Host` that is no host with an optional port.
    HostMalformed,
    /// A `Content-Length` that is not made of digits.
    ContentLengthMalformed,
    /// A `Content-Length` of 2^64 or more.
    ContentLengthOverflow,
    /// `Content-Length` values that contradict each other.
    ContentLengthConflict,
    /// `Transfer-Encoding` and `Content-Length` together.
    TransferEncodingWithLength,
    /// `Transfer-Encoding` in an HTTP/1.0 request.
    TransferEncodingInHttp10,
    /// A `Transfer-Encoding` that is no list of codings ending with the one `chunked`.
    TransferEncodingMalformed,
    /// A transfer coding other than `chunked`, before it.
    TransferCodingUnknown,
    /// An expectation other than `100-continue`.
    Expectation,
}

impl HeadError {
    /// The status to answer with.
    pub fn status(&self) -> Status {
        match self {
            HeadError::RequestLineTooLong => Status::REQUEST_URI_TOO_LONG,
            HeadError::FieldTooLong | HeadError::TooManyFields | HeadError::HeadTooLarge => {
                Status::REQUEST_HEADER_FIELDS_TOO_LARGE
            }
            HeadError::Expectation => Status::EXPECTATION_FAILED,
            HeadError::TransferCodingUnknown | HeadError::MethodUnregistered => Status::NOT_IMPLEMENTED,
            HeadError::VersionUnsupported => Status::HTTP_VERSION_NOT_SUPPORTED,
            _ => Status::BAD_REQUEST,
        }
    }
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeadError::BlankLines => "too many empty lines before the request line",
            HeadError::BareCr => "CR without LF",
            HeadError::BareLf => "line ends with LF instead of CRLF",
            HeadError::Method => "malformed method in the request line",
            HeadError::MethodUnregistered => "method is not registered",
            HeadError::TargetMissing => "no target in the request line",
            HeadError::Target => "malformed target in the request line",
            HeadError::SimpleRequest => "HTTP/0.9 request",
            HeadError::VersionMalformed => "malformed protocol version in the request line",
            HeadError::VersionUnsupported => "protocol version is not HTTP/1.x",
            HeadError::RequestLineTooLong => "request line is longer than LimitRequestLine",
            HeadError::FieldName => "malformed field name",
            HeadError::SpaceBeforeColon => "white space before the colon of a field",
            HeadError::FieldValue => "control byte in a field value",
            HeadError::ObsFold => "folded field line",
            HeadError::FieldTooLong => "field is longer than LimitRequestFieldSize",
            HeadError::TooManyFields => "more fields than LimitRequestFields",
            HeadError::HeadTooLarge => "request head is too large",
            HeadError::HostMissing => "HTTP/1.1 request without Host",
            HeadError::HostRepeated => "more than one Host",
            HeadError::HostMalformed => "malformed Host",
            HeadError::ContentLengthMalformed => "malformed Content-Length",
            HeadError::ContentLengthOverflow => "Content-Length is too large",
            HeadError::ContentLengthConflict => "contradictory Content-Length values",
            HeadError::TransferEncodingWithLength => "Transfer-Encoding together with Content-Length",
            HeadError::TransferEncodingInHttp10 => "Transfer-Encoding in an HTTP/1.0 request",
            HeadError::TransferEncodingMalformed => "malformed Transfer-Encoding",
            HeadError::TransferCodingUnknown => "unknown transfer coding",
            HeadError::Expectation => "unknown expectation",
        })
    }
}

impl std::error::Error for HeadError {}
