//! Request methods: the ones of RFC 9110 and PATCH by name, everything else as `Other`.

/// A request method. Methods are case-sensitive (RFC 9110 section 9.1), so `get` is [`Method::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Transfer a representation.
    Get,
    /// As GET, without the body.
    Head,
    /// Let the resource process the body.
    Post,
    /// Replace the resource.
    Put,
    /// Remove the resource.
    Delete,
    /// Ask what is possible.
    Options,
    /// Send the request back.
    Trace,
    /// Open a tunnel.
    Connect,
    /// Change the resource (RFC 5789).
    Patch,
    /// A well-formed token that is none of the above; a server answers 501. See [`crate::Head::method_token`].
    Other,
}

impl Method {
    /// The method a token names. The token must have been checked to be one.
    pub(crate) fn of_token(token: &[u8]) -> Method {
        match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            b"PATCH" => Method::Patch,
            _ => Method::Other,
        }
    }

    /// The method's name in capitals; `OTHER` for a method unknown here, whose real name is in the request line.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Connect => "CONNECT",
            Method::Patch => "PATCH",
            Method::Other => "OTHER",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Method;

    #[test]
    fn known_names_and_back() {
        for name in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH"] {
            assert_eq!(Method::of_token(name.as_bytes()).as_str(), name);
        }
        for name in ["get", "GETT", "GE", "PROPFIND", ""] {
            assert_eq!(Method::of_token(name.as_bytes()), Method::Other, "{name}");
        }
    }
}
