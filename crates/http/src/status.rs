//! Status codes with their reason phrases (RFC 9110 section 15 and the IANA registry), in Apache's wording where
//! Apache has its own.

/// A response status code. Any number can be carried, so that a proxy can pass on what it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub u16);

macro_rules! statuses {
    ($($name:ident = $code:literal $reason:literal,)*) => {
        impl Status {
            $(
                #[doc = concat!("`", $code, " ", $reason, "`")]
                pub const $name: Status = Status($code);
            )*

            /// The reason phrase; empty for a code that is not registered.
            pub fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }

            /// Code and reason as they stand in a status line, `200 OK`. A code that is not registered gives
            /// `500 Internal Server Error`, as in Apache; [`crate::write_status_line`] can write any code.
            pub fn line(self) -> &'static str {
                match self.0 {
                    $($code => concat!($code, " ", $reason),)*
                    _ => "500 Internal Server Error",
                }
            }

            /// Every registered status, in order.
            pub const ALL: &'static [Status] = &[$(Status($code)),*];
        }
    };
}

statuses! {
    CONTINUE = 100 "Continue",
    SWITCHING_PROTOCOLS = 101 "Switching Protocols",
    PROCESSING = 102 "Processing",
    EARLY_HINTS = 103 "Early Hints",
    OK = 200 "OK",
    CREATED = 201 "Created",
    ACCEPTED = 202 "Accepted",
    NON_AUTHORITATIVE_INFORMATION = 203 "Non-Authoritative Information",
    NO_CONTENT = 204 "No Content",
    RESET_CONTENT = 205 "Reset Content",
    PARTIAL_CONTENT = 206 "Partial Content",
    MULTI_STATUS = 207 "Multi-Status",
    ALREADY_REPORTED = 208 "Already Reported",
    IM_USED = 226 "IM Used",
    MULTIPLE_CHOICES = 300 "Multiple Choices",
    MOVED_PERMANENTLY = 301 "Moved Permanently",
    FOUND = 302 "Found",
    SEE_OTHER = 303 "See Other",
    NOT_MODIFIED = 304 "Not Modified",
    USE_PROXY = 305 "Use Proxy",
    TEMPORARY_REDIRECT = 307 "Temporary Redirect",
    PERMANENT_REDIRECT = 308 "Permanent Redirect",
    BAD_REQUEST = 400 "Bad Request",
    UNAUTHORIZED = 401 "Unauthorized",
    PAYMENT_REQUIRED = 402 "Payment Required",
    FORBIDDEN = 403 "Forbidden",
    NOT_FOUND = 404 "Not Found",
    METHOD_NOT_ALLOWED = 405 "Method Not Allowed",
    NOT_ACCEPTABLE = 406 "Not Acceptable",
    PROXY_AUTHENTICATION_REQUIRED = 407 "Proxy Authentication Required",
    REQUEST_TIMEOUT = 408 "Request Timeout",
    CONFLICT = 409 "Conflict",
    GONE = 410 "Gone",
    LENGTH_REQUIRED = 411 "Length Required",
    PRECONDITION_FAILED = 412 "Precondition Failed",
    REQUEST_ENTITY_TOO_LARGE = 413 "Request Entity Too Large",
    REQUEST_URI_TOO_LONG = 414 "Request-URI Too Long",
    UNSUPPORTED_MEDIA_TYPE = 415 "Unsupported Media Type",
    RANGE_NOT_SATISFIABLE = 416 "Requested Range Not Satisfiable",
    EXPECTATION_FAILED = 417 "Expectation Failed",
    IM_A_TEAPOT = 418 "I'm A Teapot",
    MISDIRECTED_REQUEST = 421 "Misdirected Request",
    UNPROCESSABLE_ENTITY = 422 "Unprocessable Entity",
    LOCKED = 423 "Locked",
    FAILED_DEPENDENCY = 424 "Failed Dependency",
    TOO_EARLY = 425 "Too Early",
    UPGRADE_REQUIRED = 426 "Upgrade Required",
    PRECONDITION_REQUIRED = 428 "Precondition Required",
    TOO_MANY_REQUESTS = 429 "Too Many Requests",
    REQUEST_HEADER_FIELDS_TOO_LARGE = 431 "Request Header Fields Too Large",
    UNAVAILABLE_FOR_LEGAL_REASONS = 451 "Unavailable For Legal Reasons",
    INTERNAL_SERVER_ERROR = 500 "Internal Server Error",
    NOT_IMPLEMENTED = 501 "Not Implemented",
    BAD_GATEWAY = 502 "Bad Gateway",
    SERVICE_UNAVAILABLE = 503 "Service Unavailable",
    GATEWAY_TIMEOUT = 504 "Gateway Timeout",
    HTTP_VERSION_NOT_SUPPORTED = 505 "HTTP Version Not Supported",
    VARIANT_ALSO_NEGOTIATES = 506 "Variant Also Negotiates",
    INSUFFICIENT_STORAGE = 507 "Insufficient Storage",
    LOOP_DETECTED = 508 "Loop Detected",
    NOT_EXTENDED = 510 "Not Extended",
    NETWORK_AUTHENTICATION_REQUIRED = 511 "Network Authentication Required",
}

impl Status {
    /// Whether a response with this status never has a body (RFC 9110 section 6.4.1): 1xx, 204 and 304.
    pub fn is_bodiless(self) -> bool {
        matches!(self.0, 100..=199 | 204 | 304)
    }
}

#[cfg(test)]
mod tests {
    use super::Status;

    #[test]
    fn lines_are_code_and_reason() {
        for &status in Status::ALL {
            assert_eq!(status.line(), format!("{} {}", status.0, status.reason()));
        }
        assert_eq!(Status(299).reason(), "");
        assert_eq!(Status(299).line(), "500 Internal Server Error");
    }

    #[test]
    fn the_table_is_in_order_and_without_repeats() {
        assert!(Status::ALL.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
