//! A request that was answered, as logs see it, and what a log is to the engine (`ap_hook_log_transaction`).
//!
//! A log may keep lines back and write many at once. Then somebody has to come back to it: a thread that goes to wait asks
//! [`Phases::settle_logs`](crate::phases::Phases::settle_logs) how long it may, and a process that ends calls
//! [`Phases::flush_logs`](crate::phases::Phases::flush_logs).

use std::time::Instant;

use crate::request::Request;
use crate::respond::Sent;
use crate::serve::Conn;
use crate::transport::Host;

/// A request that was answered.
#[derive(Clone, Copy)]
pub struct Transaction<'a> {
    /// The request with its answer.
    pub request: &'a Request,
    /// Its connection; `kept_alive` does not count this request yet.
    pub conn: &'a Conn,
    /// Bytes of the answer that left, or are queued behind earlier answers.
    pub sent: Sent,
    /// What becomes of the connection.
    pub ending: Ending,
    /// For the time.
    pub host: &'a dyn Host,
}

/// What becomes of a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It may carry another request.
    Kept,
    /// It is closed.
    Closed,
    /// It broke before the answer was sent.
    Aborted,
}

/// Writes down requests that were answered (`ap_hook_log_transaction`).
pub trait LogTransaction: Send + Sync {
    /// Notes an answered request. Lines of one connection are noted one after the other, in the order of its requests.
    fn log(&self, transaction: &Transaction<'_>);

    /// Whether [`Response::head`](crate::request::Response::head) is to be kept for it.
    fn needs_head(&self) -> bool {
        false
    }

    /// Writes what is due at `now`. Where something is kept back still, gives when it will be due; whoever is about to wait
    /// has to call again then.
    fn settle(&self, now: Instant) -> Option<Instant> {
        let _nothing_is_kept_back = now;
        None
    }

    /// Writes everything, because the process is about to end.
    fn flush(&self) {}
}
