//! The seam between the protocol and the process model. The protocol is written once against [`Transport`] and [`Host`];
//! an MPM implements both and thereby decides what waiting means: a blocking call, or being parked until a descriptor fires.

use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::out::OutQueue;

/// One client connection, as the protocol engine sees it. Each MPM has one implementation.
///
/// Buffers belong to the transport, so that a buffer filled by the kernel and a plain `Vec` look the same, and dropping a
/// future never loses a byte. `poll_*` may block the thread (prefork, worker) or return `Pending` (event, percore); a
/// `Pending` future is polled again when the awaited descriptor or completion fires, or when `by` has passed.
pub trait Transport: Send {
    /// Bytes received and not consumed yet; may borrow a buffer that the kernel filled.
    fn received(&self) -> &[u8];

    /// Drops the first `n` bytes of [`received`](Self::received). `n` is at most its length.
    fn consume(&mut self, n: usize);

    /// Appends more input to [`received`](Self::received). `Ok(0)` is end of file.
    ///
    /// # Errors
    /// `TimedOut` when `by` has passed; otherwise the socket's error.
    fn poll_fill(&mut self, cx: &mut Context<'_>, by: Instant) -> Poll<io::Result<usize>>;

    /// What is to be sent, in order.
    fn outgoing(&mut self) -> &mut OutQueue;

    /// Sends all of [`outgoing`](Self::outgoing) or as far as the peer takes it.
    ///
    /// # Errors
    /// `TimedOut` when `by` has passed with nothing more accepted by the peer; otherwise the socket's error.
    fn poll_flush(&mut self, cx: &mut Context<'_>, by: Instant) -> Poll<io::Result<()>>;
}

impl dyn Transport + '_ {
    /// [`poll_fill`](Transport::poll_fill) as a future.
    ///
    /// # Errors
    /// As `poll_fill`.
    pub async fn fill(&mut self, by: Instant) -> io::Result<usize> {
        std::future::poll_fn(|cx| self.poll_fill(cx, by)).await
    }

    /// [`poll_flush`](Transport::poll_flush) as a future.
    ///
    /// # Errors
    /// As `poll_flush`.
    pub async fn flush(&mut self, by: Instant) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_flush(cx, by)).await
    }
}

/// The moment at which input was collected. All requests of one turn were received before it, so that a file checked
/// once in a turn is fresh for each of them: percore checks a file once for a whole batch of completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Changes each time the thread collects input; no two turns of a process have the same number. Never 0.
    pub number: u64,
    /// Monotonic time of the turn, for deadlines.
    pub now: Instant,
    /// Time since the Unix epoch, for `Date` and logs.
    pub wall: Duration,
}

/// What the thread is doing, as Apache's scoreboard letters tell it (`ap_mod_status`, "Scoreboard Key").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Activity {
    /// `_`: waiting for a connection.
    Ready = b'_',
    /// `R`: reading a request.
    Reading = b'R',
    /// `W`: sending a reply.
    Writing = b'W',
    /// `K`: waiting for the next request of a kept-alive connection.
    KeepAlive = b'K',
    /// `C`: closing the connection.
    Closing = b'C',
    /// `L`: logging.
    Logging = b'L',
}

/// What the engine may ask of the process it runs in.
pub trait Host: Send + Sync {
    /// The current turn of the calling thread.
    fn turn(&self) -> Turn;

    /// Tells the scoreboard what the calling thread does now.
    fn activity(&self, activity: Activity);

    /// Counts one answered request and the bytes of its response, head included.
    fn served(&self, bytes: u64);

    /// Whether the generation is draining: this answer shall be the connection's last, with `Connection: close`.
    fn draining(&self) -> bool;
}

/// How a connection leaves the engine between requests; the MPM decides what waiting means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Idle: call the engine again when bytes arrive, within `KeepAliveTimeout`.
    KeepAlive,
    /// Half-close, then read and drop what the client still sends, for a bounded time (RFC 9112 section 9.6).
    Linger,
    /// Nothing is under way in either direction: close at once.
    Close,
}
