//! The seam between the protocol and the process model. The protocol is written once against [`Transport`] and [`Host`];
//! an MPM implements both and thereby decides what waiting means: a blocking call, or being parked until a descriptor fires.

use std::fmt;
use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::out::OutQueue;
use crate::request::Request;
use crate::serve::Conn;
use crate::status::Step;

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
    /// [`poll_fill`](Transport::poll_fill) as a future. Where `by` has passed at `now` nothing is received: a client that always
    /// has a byte ready is none the faster for it.
    ///
    /// # Errors
    /// As `poll_fill`.
    pub async fn fill(&mut self, now: Instant, by: Instant) -> io::Result<usize> {
        if by <= now {
            return Err(io::ErrorKind::TimedOut.into());
        }
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

/// What the thread is doing: Apache's scoreboard letters (`mod_status`, "Scoreboard Key"), some of them in finer steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Activity {
    /// `_`: waiting for a connection.
    Ready,
    /// `R`: reading a request head.
    Reading,
    /// `R`: reading a request body.
    ReadingBody,
    /// `W`: modules make the reply.
    Handling,
    /// `W`: sending the reply.
    Writing,
    /// `K`: waiting for the next request of a kept-alive connection.
    KeepAlive,
    /// `C`: closing the connection.
    Closing,
    /// `L`: logging.
    Logging,
}

impl Activity {
    /// All of them, each at the place of its number.
    pub const ALL: [Activity; 8] = [
        Activity::Ready,
        Activity::Reading,
        Activity::ReadingBody,
        Activity::Handling,
        Activity::Writing,
        Activity::KeepAlive,
        Activity::Closing,
        Activity::Logging,
    ];

    /// The letter of the scoreboard key.
    pub fn letter(self) -> u8 {
        match self {
            Activity::Ready => b'_',
            Activity::Reading | Activity::ReadingBody => b'R',
            Activity::Handling | Activity::Writing => b'W',
            Activity::KeepAlive => b'K',
            Activity::Closing => b'C',
            Activity::Logging => b'L',
        }
    }

    /// How the status page calls it.
    pub fn step(self) -> Step {
        match self {
            Activity::Ready => Step::Idle,
            Activity::Reading => Step::Head,
            Activity::ReadingBody => Step::Body,
            Activity::Handling => Step::Handler,
            Activity::Writing => Step::Sending,
            Activity::KeepAlive => Step::KeepAlive,
            Activity::Closing => Step::Closing,
            Activity::Logging => Step::Logging,
        }
    }
}

/// A call that may take long because it waits for something else than the client: a disk, above all.
pub struct Job(Box<dyn FnOnce() + Send + Sync>);

impl Job {
    /// The call of `function`, to be made once.
    pub fn new(function: impl FnOnce() + Send + Sync + 'static) -> Job {
        Job(Box::new(function))
    }

    /// Makes the call.
    pub fn run(self) {
        (self.0)();
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}

/// What the engine may ask of the process it runs in.
pub trait Host: Send + Sync {
    /// The current turn of the calling thread.
    fn turn(&self) -> Turn;

    /// The time since the Unix epoch at this very moment, for how long a request took.
    fn wall(&self) -> Duration {
        self.turn().wall
    }

    /// Whether the calling thread may wait for a disk: it does where it serves nobody else meanwhile.
    fn may_wait(&self) -> bool {
        true
    }

    /// Has `job` run, which is taken out, and is ready once that has happened. A `Pending` future is polled again then, and
    /// for no other reason. A thread that [may wait](Self::may_wait) runs it itself.
    fn poll_offload(&self, job: &mut Option<Job>) -> Poll<()> {
        if let Some(job) = job.take() {
            job.run();
        }
        Poll::Ready(())
    }

    /// Tells the scoreboard what the calling thread does now.
    fn activity(&self, activity: Activity);

    /// Tells that the calling thread waits for a request of `conn`, or reads its head: [`Activity::Reading`].
    fn reading(&self, conn: &Conn) {
        let _clients_are_of_interest_to_few_hosts = conn;
        self.activity(Activity::Reading);
    }

    /// Tells which request the calling thread works on, once its head is complete; and again when another thread goes on
    /// with it after a wait.
    fn began(&self, request: &Request) {
        let _requests_are_of_interest_to_few_hosts = request;
    }

    /// Counts one answered request and the bytes of its response, head included. `conn` counts these bytes already, but
    /// not yet the request.
    fn served(&self, bytes: u64, request: &Request, conn: &Conn);

    /// Whether the generation is draining: this answer shall be the connection's last, with `Connection: close`.
    fn draining(&self) -> bool;
}

impl dyn Host + '_ {
    /// [`poll_offload`](Host::poll_offload) as a future.
    pub async fn offload(&self, job: Job) {
        let mut job = Some(job);
        std::future::poll_fn(|_| self.poll_offload(&mut job)).await;
    }
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
