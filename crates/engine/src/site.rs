//! What is served and under which rules: the resolved configuration that the engine runs on. It is built before the first
//! fork and never changes; nothing of the configuration text is looked at while serving.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use manifold_http::{Boundary, Limits, PathOptions, RangeLimits, write_decimal};

use crate::phases::Phases;
use crate::reqtimeout::ReadTimeouts;
use crate::request::Request;
use crate::status::StatusHandle;

/// One server's resolved configuration.
pub struct Site {
    /// Value of the `Server` field, such as `Manifold/0.1.0`.
    pub server: String,
    /// What the server calls itself where the client does not say (`ServerName`).
    pub name: ServerName,
    /// Whom error pages name as responsible (`ServerAdmin`).
    pub admin: String,
    /// What error pages are signed with (`ServerSignature`).
    pub signature: Signature,
    /// What becomes of TRACE (`TraceEnable`).
    pub trace: Trace,
    /// When the program was built, for the status page, such as `2026-11-12T08:58:41`.
    pub built: String,
    /// Longest wait for one receive or send (`Timeout`).
    pub timeout: Duration,
    /// Longest time for a request head and for a body (`RequestReadTimeout`).
    pub read_timeouts: ReadTimeouts,
    /// Whether a connection may carry more than one request (`KeepAlive`).
    pub keep_alive: bool,
    /// Longest wait for the next request of a connection (`KeepAliveTimeout`).
    pub keep_alive_timeout: Duration,
    /// Requests that may follow the first on a connection (`MaxKeepAliveRequests`); 0 is no limit.
    pub max_keep_alive_requests: u32,
    /// Whether large files are sent by sendfile(2) rather than read and sent (`EnableSendfile`).
    pub sendfile: bool,
    /// Ranges that one request may ask for (`MaxRanges`, `MaxRangeOverlaps`, `MaxRangeReversals`).
    pub ranges: RangeLimits,
    /// What stands between several ranges of one answer; chosen at random for each configuration.
    pub boundary: Boundary,
    /// Bounds on a request head (`LimitRequestLine`, `LimitRequestFields`, `LimitRequestFieldSize`), and how it is read
    /// (`HttpProtocolOptions`).
    pub limits: Limits,
    /// How the path of a request is read (`AllowEncodedSlashes`, `MergeSlashes`).
    pub paths: PathOptions,
    /// Bytes of a request body that are read before the request is refused with 413 (`LimitRequestBody`).
    pub limit_request_body: u64,
    /// Whether workers tell the scoreboard about their requests (`ExtendedStatus`).
    pub extended_status: bool,
    /// Whether they tell the end of a long request line rather than its beginning (`SeeRequestTail`).
    pub see_request_tail: bool,
    /// How the status page learns what the server is doing.
    pub status: Arc<StatusHandle>,
    /// What modules do with a request, phase by phase.
    pub phases: Phases,
}

/// `ServerName`: host and port of URLs that lead back here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerName {
    /// A host name or address, IPv6 without brackets.
    pub host: String,
    /// The port; 80 where nothing is said.
    pub port: u16,
}

impl Default for ServerName {
    fn default() -> ServerName {
        ServerName { host: "localhost".to_owned(), port: HTTP_PORT }
    }
}

/// The port that URLs leave out.
const HTTP_PORT: u16 = 80;

impl ServerName {
    /// The host that the client named, as it wrote it, or else this name; and the port.
    pub fn used<'a>(&'a self, request: &'a Request) -> (&'a [u8], u16) {
        let Some(authority) = request.host() else { return (self.host.as_bytes(), self.port) };
        let end_of_host = authority.iter().rposition(|&byte| byte == b']').unwrap_or(0);
        let colon = authority[end_of_host..].iter().position(|&byte| byte == b':').map(|at| end_of_host + at);
        let host = &authority[..colon.unwrap_or(authority.len())];
        let host = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")).unwrap_or(host);
        let host = host.strip_suffix(b".").unwrap_or(host);
        let port = colon.and_then(|colon| std::str::from_utf8(&authority[colon + 1..]).ok()?.parse().ok());
        (host, port.unwrap_or(self.port))
    }

    /// Host, in lower case, and port under which the client knows the server: what it said itself, and this name where it
    /// said nothing (Apache's `UseCanonicalName Off`).
    pub fn of(&self, request: &Request) -> (Vec<u8>, u16) {
        let (host, port) = self.used(request);
        (host.to_ascii_lowercase(), port)
    }

    /// Appends `http://HOST:PORT`, without a port that says nothing.
    pub fn write_origin(&self, out: &mut Vec<u8>, request: &Request) {
        let (host, port) = self.of(request);
        out.extend_from_slice(b"http://");
        let (before, after): (&[u8], &[u8]) = if host.contains(&b':') { (b"[", b"]") } else { (b"", b"") };
        out.extend_from_slice(before);
        out.extend_from_slice(&host);
        out.extend_from_slice(after);
        if port != HTTP_PORT {
            out.push(b':');
            write_decimal(out, u64::from(port));
        }
    }
}

/// `ServerSignature`: the last line of error pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    /// None.
    Off,
    /// Server, host and port.
    On,
    /// The same, with a link to `ServerAdmin`.
    EMail,
}

/// `TraceEnable`: what becomes of TRACE (RFC 9110 section 9.3.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// It is answered with 405.
    Off,
    /// The request comes back; one with a body is answered with 413.
    On,
    /// The request comes back with its body, which has at most 64 KiB.
    Extended,
}

/// `LimitRequestBody`'s default since Apache 2.4.54.
pub const LIMIT_REQUEST_BODY: u64 = 1 << 30;

impl Site {
    /// Apache's defaults around `phases`, except that `EnableSendfile` is on.
    pub fn new(phases: Phases) -> Site {
        Site {
            server: concat!("Manifold/", env!("CARGO_PKG_VERSION")).to_owned(),
            name: ServerName::default(),
            admin: "[no address given]".to_owned(),
            signature: Signature::Off,
            trace: Trace::On,
            built: String::new(),
            timeout: Duration::from_secs(60),
            read_timeouts: ReadTimeouts::default(),
            keep_alive: true,
            keep_alive_timeout: Duration::from_secs(5),
            max_keep_alive_requests: 100,
            sendfile: true,
            ranges: RangeLimits::default(),
            boundary: Boundary::new(0),
            limits: Limits::default(),
            paths: PathOptions::default(),
            limit_request_body: LIMIT_REQUEST_BODY,
            extended_status: false,
            see_request_tail: false,
            status: Arc::default(),
            phases,
        }
    }

    /// Longest wait for the first byte of a connection: the time of one receive, or of a whole head where that is shorter.
    pub fn first_byte_timeout(&self) -> Duration {
        let header = self.read_timeouts.header;
        if header.is_on() { self.timeout.min(header.timeout) } else { self.timeout }
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").field("server", &self.server).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
