//! The protocol versions this crate speaks.

/// The version of a message, as far as behaviour depends on it (RFC 9112 section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// `HTTP/0.9`: a request line without a version; the answer is the body alone, and ends with the connection.
    Http09,
    /// `HTTP/1.0`: one request a connection, unless the client asks for more.
    Http10,
    /// `HTTP/1.1`, and any higher minor version of 1: RFC 9110 section 2.5 has us treat it as the highest we know.
    Http11,
}

impl Version {
    /// The version as it stands in a request line: `HTTP/1.0` or `HTTP/1.1`; an HTTP/0.9 request has none,
    /// and gives `HTTP/0.9`, as in Apache's logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::Http09 => "HTTP/0.9",
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        }
    }
}
