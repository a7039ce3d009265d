//! What a run tells while it goes on and leaves when it ends: the words between the loop and the front ends.

use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use manifold_http::ResponseHead;
use nix::errno::Errno;

use crate::connection::Exchange;
use crate::run::Health;
use crate::tls::{Fault, Secured};

/// Is told what happens, as it happens.
pub trait Observer {
    /// Whether [`Exchange::wrote`] is wanted; it costs a look at the clock a request.
    const TIMES_WRITING: bool;

    /// Whether [`head`](Observer::head) is to be told of HTTP/2's heads, which have to be written for it.
    const READS_HEADS: bool = false;

    /// A response head came; `received` begins with it and holds what came with it.
    fn head(&mut self, _received: &[u8], _head: &ResponseHead) {}

    /// The warm-up is over: the measured window begins at `now`.
    fn window_opens(&mut self, _now: u64) {}

    /// The measured window is over: it ended at `now`, and what completes later was due before.
    fn window_closes(&mut self, _now: u64) {}

    /// A connection stands after `nanoseconds`.
    fn opened(&mut self, _nanoseconds: u64) {}

    /// A connection is secured; it stands.
    fn secured(&mut self, _secured: &Secured) {}

    /// A connection could not be secured, or not any more; the failure of its request follows if it has one.
    fn insecure(&mut self, _said: &str) {}

    /// An answer is complete. `Break` ends the run.
    fn completed(&mut self, exchange: &Exchange) -> ControlFlow<()>;

    /// Called about ten times a second, whatever happens; `vitals` tells how the thread does.
    fn tick(&mut self, _now: u64, _vitals: impl FnOnce() -> Vitals) {}

    /// A request ended without a complete answer.
    fn failed(&mut self, failure: Failure, exchange: &Exchange) -> Verdict;

    /// The run has ended, with this request under way.
    fn unfinished(&mut self, _exchange: &Exchange) {}

    /// The run has ended before a request of the schedule began that was due at `due`.
    fn unsent(&mut self, _due: u64) {}
}

/// How a thread does, counted since the window's beginning but for what is open and under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    /// Connections that are open or being made now; with HTTP/2, streams that have one.
    pub open: u64,
    /// Requests under way now.
    pub under_way: u64,
    /// Requests of a schedule that were begun.
    pub begun: u64,
    /// Of those, begun more than a millisecond late by the thread's own fault.
    pub late: u64,
    /// Of those, that had to wait for a connection.
    pub short_of_connections: u64,
    /// The longest time between two looks at what has happened, nanoseconds.
    pub longest_turn: u64,
    /// Time spent awake, waiting for the moment of a scheduled request, nanoseconds.
    pub awake: u64,
}

/// Why a request has no complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Connecting failed.
    Connect(Errno),
    /// Reading failed.
    Receive(Errno),
    /// Writing failed.
    Write(Errno),
    /// The connection could not be secured, or not any more.
    Tls(Fault),
    /// The time for one request was up.
    Timeout,
    /// The stream ended before the answer did.
    Truncated,
    /// The stream ended without a byte of an answer, on a fresh connection.
    NoAnswer,
    /// The stream ended without a byte of an answer, on a connection the server had kept.
    ClosedReused,
    /// What came is no HTTP answer.
    Malformed,
    /// HTTP/2 was to be spoken, and the server does not.
    NotHttp2,
    /// The server has reset the request's stream.
    StreamReset,
    /// The server has refused the request again and again, without looking at it.
    Refused,
}

/// What becomes of a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It counts; the connection goes on with another one.
    Count,
    /// It is sent again on a new connection and counts once only.
    Retry,
    /// The run ends.
    Abort,
}

/// Why the loop ended.
#[derive(Debug)]
pub enum Ended {
    /// All requests are over.
    Requests,
    /// The time is over.
    Duration,
    /// The interrupting descriptor became readable.
    Interrupted,
    /// The observer ended it.
    Observer,
    /// Nothing happened for [`Timeout::Silence`](crate::plan::Timeout::Silence).
    Silence,
    /// The operating system refused something the loop cannot do without.
    System(io::Error),
}

/// What is left when the loop has ended.
#[derive(Debug)]
pub struct Outcome<O> {
    /// The observer with everything it was told.
    pub observer: O,
    /// Why the loop ended.
    pub ended: Ended,
    /// When, in nanoseconds since the beginning of the run.
    pub ended_at: u64,
    /// How long requests that were under way had been waiting, nanoseconds each.
    pub unfinished: Vec<u64>,
    /// Requests of a schedule that were due, but never begun.
    pub unsent: Unsent,
    /// Connections that never received an answer.
    pub unserved: u64,
    /// How the thread itself did.
    pub health: Health,
}

/// Requests of a schedule that were due, but never begun, since no connection was free for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsent {
    /// How many.
    pub count: u64,
    /// How long the first of them had been due, nanoseconds.
    pub oldest: u64,
}

/// What tells the time: the system, or a simulation.
pub trait Time: Copy {
    /// Nanoseconds since the beginning of the run.
    fn now(&self) -> u64;
}

/// Nanoseconds since the beginning of the run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Instant,
}

impl Clock {
    /// A clock that shows 0 at `epoch`.
    pub fn since(epoch: Instant) -> Clock {
        Clock { epoch }
    }

    /// Now.
    #[inline]
    pub fn now(&self) -> u64 {
        nanoseconds(self.epoch.elapsed())
    }
}

impl Time for Clock {
    #[inline]
    fn now(&self) -> u64 {
        Clock::now(self)
    }
}

/// As nanoseconds; more than 584 years stay 584 years.
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
