//! A transport and a host without a kernel: for tests, simulation and instruction counts. Reads are split, writes are
//! short and deadlines pass exactly as a script says.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::out::{Front, OutQueue};
use crate::request::Request;
use crate::serve::Conn;
use crate::transport::{Activity, Host, Job, Transport, Turn};

/// What the next `poll_fill` meets.
#[derive(Clone, Debug)]
pub enum Input {
    /// These bytes arrive.
    Bytes(Vec<u8>),
    /// Nothing yet: `Pending` once.
    Pending,
    /// The deadline passes.
    Timeout,
    /// The peer is gone: `ConnectionReset`.
    Reset,
}

/// What the next attempt to send meets.
#[derive(Clone, Copy, Debug)]
pub enum Output {
    /// The peer takes at most this many bytes.
    Take(usize),
    /// The peer takes nothing yet: `Pending` once.
    Pending,
    /// The deadline passes.
    Timeout,
    /// The peer is gone: `BrokenPipe`.
    Broken,
}

/// A connection in memory. After its script the input is at end of file, and output is taken whole.
#[derive(Debug, Default)]
pub struct MemoryTransport {
    /// What arrives, in order.
    pub input: VecDeque<Input>,
    /// What becomes of output, in order.
    pub output: VecDeque<Output>,
    /// What was sent.
    pub sent: Vec<u8>,
    /// The latest moment that anything was to be waited for.
    pub latest_deadline: Option<Instant>,
    received: Vec<u8>,
    consumed: usize,
    out: OutQueue,
}

impl MemoryTransport {
    /// A connection on which `input` arrives in these pieces.
    pub fn new(input: impl IntoIterator<Item = Input>) -> MemoryTransport {
        MemoryTransport { input: input.into_iter().collect(), ..MemoryTransport::default() }
    }
}

impl Transport for MemoryTransport {
    fn received(&self) -> &[u8] {
        &self.received[self.consumed..]
    }

    fn consume(&mut self, n: usize) {
        self.consumed += n;
        assert!(self.consumed <= self.received.len(), "consumed more than was received");
        if self.consumed == self.received.len() {
            self.received.clear();
            self.consumed = 0;
        }
    }

    fn poll_fill(&mut self, _: &mut Context<'_>, by: Instant) -> Poll<io::Result<usize>> {
        self.latest_deadline = self.latest_deadline.max(Some(by));
        match self.input.pop_front() {
            Some(Input::Bytes(bytes)) => {
                self.received.extend_from_slice(&bytes);
                Poll::Ready(Ok(bytes.len()))
            }
            Some(Input::Pending) => Poll::Pending,
            Some(Input::Timeout) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Some(Input::Reset) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            None => Poll::Ready(Ok(0)),
        }
    }

    fn outgoing(&mut self) -> &mut OutQueue {
        &mut self.out
    }

    fn poll_flush(&mut self, _: &mut Context<'_>, by: Instant) -> Poll<io::Result<()>> {
        self.latest_deadline = self.latest_deadline.max(Some(by));
        while !self.out.is_empty() {
            let most = match self.output.pop_front() {
                Some(Output::Take(most)) => most,
                None => usize::MAX,
                Some(Output::Pending) => return Poll::Pending,
                Some(Output::Timeout) => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Some(Output::Broken) => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            };
            let taken = take(&self.out, most, &mut self.sent)?;
            self.out.advance(taken as u64);
        }
        Poll::Ready(Ok(()))
    }
}

/// Copies at most `most` bytes from the front of `out` to `sent`.
fn take(out: &OutQueue, most: usize, sent: &mut Vec<u8>) -> io::Result<usize> {
    let before = sent.len();
    match out.front() {
        Front::Empty => {}
        Front::File(file, range) | Front::Read(file, range) => {
            let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(most);
            sent.resize(before + length, 0);
            file.read_exact_at(&mut sent[before..], range.start)?;
        }
        Front::Memory => {
            let mut slices = [IoSlice::new(&[]); 8];
            let (filled, _) = out.gather(&mut slices);
            let mut left = most;
            for slice in &slices[..filled] {
                let length = slice.len().min(left);
                sent.extend_from_slice(&slice[..length]);
                left -= length;
            }
        }
    }
    Ok(sent.len() - before)
}

/// A process in memory: its clock is set by hand, what it is told is kept.
#[derive(Debug)]
pub struct MemoryHost {
    turn: Mutex<Turn>,
    /// Requests counted.
    pub requests: AtomicU64,
    /// Bytes counted.
    pub bytes: AtomicU64,
    /// What [`Host::draining`] says.
    pub draining: AtomicBool,
    /// The opposite of what [`Host::may_wait`] says.
    pub impatient: AtomicBool,
    /// Calls made for [`Host::poll_offload`].
    pub offloaded: AtomicU64,
}

impl Default for MemoryHost {
    fn default() -> MemoryHost {
        MemoryHost {
            // 6 November 1994, 08:49:37 GMT: the date of RFC 9110's examples.
            turn: Mutex::new(Turn { number: 1, now: Instant::now(), wall: Duration::from_secs(784_111_777) }),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            impatient: AtomicBool::new(false),
            offloaded: AtomicU64::new(0),
        }
    }
}

impl MemoryHost {
    /// Begins the next turn, `by` later.
    pub fn advance(&self, by: Duration) {
        let mut turn = self.turn.lock().expect("no holder of this lock panics");
        *turn = Turn { number: turn.number + 1, now: turn.now + by, wall: turn.wall + by };
    }
}

impl Host for MemoryHost {
    fn turn(&self) -> Turn {
        *self.turn.lock().expect("no holder of this lock panics")
    }

    fn may_wait(&self) -> bool {
        !self.impatient.load(Ordering::Relaxed)
    }

    fn poll_offload(&self, job: &mut Option<Job>) -> Poll<()> {
        let Some(job) = job.take() else { return Poll::Ready(()) };
        job.run();
        self.offloaded.fetch_add(1, Ordering::Relaxed);
        Poll::Pending
    }

    fn activity(&self, _: Activity) {}

    fn served(&self, bytes: u64, _: &Request, _: &Conn) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
