//! What is served and under which rules: the resolved configuration that the engine runs on. It is built before the first
//! fork and never changes; nothing of the configuration text is looked at while serving.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use manifold_http::{Limits, PathOptions};

use crate::phases::Phases;
use crate::reqtimeout::ReadTimeouts;
use crate::status::StatusHandle;

/// One server's resolved configuration.
pub struct Site {
    /// Value of the `Server` field, such as `Manifold/0.1.0`.
    pub server: String,
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

/// `LimitRequestBody`'s default since Apache 2.4.54.
pub const LIMIT_REQUEST_BODY: u64 = 1 << 30;

impl Site {
    /// Apache's defaults around `phases`, except that `EnableSendfile` is on.
    pub fn new(phases: Phases) -> Site {
        Site {
            server: concat!("Manifold/", env!("CARGO_PKG_VERSION")).to_owned(),
            built: String::new(),
            timeout: Duration::from_secs(60),
            read_timeouts: ReadTimeouts::default(),
            keep_alive: true,
            keep_alive_timeout: Duration::from_secs(5),
            max_keep_alive_requests: 100,
            sendfile: true,
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
