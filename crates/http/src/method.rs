//! Request methods: those that Apache has registered by name, everything else as `Other`.

macro_rules! methods {
    ($($variant:ident $name:literal $about:literal)*) => {
        /// A request method. Methods are case-sensitive (RFC 9110 section 9.1), so `get` is [`Method::Other`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Method {
            $(#[doc = $about] $variant,)*
            /// A well-formed token that is none of the above; a server answers 501. See [`crate::Head::method_token`].
            Other,
        }

        impl Method {
            /// Every method but `Other`: Apache's registry.
            #[cfg(test)]
            const REGISTERED: &'static [Method] = &[$(Method::$variant),*];

            /// The method a token names. The token must have been checked to be one.
            pub(crate) fn of_token(token: &[u8]) -> Method {
                match std::str::from_utf8(token).unwrap_or_default() {
                    $($name => Method::$variant,)*
                    _ => Method::Other,
                }
            }

            /// The method's name in capitals; `OTHER` for a method unknown here, whose real name is in the request line.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Method::$variant => $name,)*
                    Method::Other => "OTHER",
                }
            }
        }
    };
}

methods! {
    Get "GET" "Transfer a representation."
    Head "HEAD" "As GET, without the body."
    Post "POST" "Let the resource process the body."
    Put "PUT" "Replace the resource."
    Delete "DELETE" "Remove the resource."
    Options "OPTIONS" "Ask what is possible."
    Trace "TRACE" "Send the request back."
    Connect "CONNECT" "Open a tunnel."
    Patch "PATCH" "Change the resource (RFC 5789)."
    Propfind "PROPFIND" "Properties of a resource (RFC 4918)."
    Proppatch "PROPPATCH" "Change properties (RFC 4918)."
    Mkcol "MKCOL" "Make a collection (RFC 4918)."
    Copy "COPY" "Copy a resource (RFC 4918)."
    Move "MOVE" "Move a resource (RFC 4918)."
    Lock "LOCK" "Lock a resource (RFC 4918)."
    Unlock "UNLOCK" "Unlock a resource (RFC 4918)."
    VersionControl "VERSION-CONTROL" "Put a resource under version control (RFC 3253)."
    Checkout "CHECKOUT" "Begin a change of a version (RFC 3253)."
    Uncheckout "UNCHECKOUT" "Give up a change (RFC 3253)."
    Checkin "CHECKIN" "End a change by a new version (RFC 3253)."
    Update "UPDATE" "Change to another version (RFC 3253)."
    Label "LABEL" "Label a version (RFC 3253)."
    Report "REPORT" "Ask for a report (RFC 3253)."
    Mkworkspace "MKWORKSPACE" "Make a workspace (RFC 3253)."
    Mkactivity "MKACTIVITY" "Make an activity (RFC 3253)."
    BaselineControl "BASELINE-CONTROL" "Put a collection under baseline control (RFC 3253)."
    Merge "MERGE" "Merge versions (RFC 3253)."
}

#[cfg(test)]
mod tests {
    use super::Method;

    #[test]
    fn known_names_and_back() {
        for &method in Method::REGISTERED {
            assert_eq!(Method::of_token(method.as_str().as_bytes()), method);
        }
        for name in ["get", "GETT", "GE", "PROPFINDER", "propfind", "BREW", "OTHER", ""] {
            assert_eq!(Method::of_token(name.as_bytes()), Method::Other, "{name}");
        }
    }
}
