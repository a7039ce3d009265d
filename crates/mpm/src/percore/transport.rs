//! The engine's side of a connection. The future that serves a connection never touches the kernel: it leaves what it
//! wants on its [`Desk`], or in its [`Mail`] where it waits, and the loop that polled it carries it out. So the transport may
//! be `Send` while ring and sockets belong to one thread.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Instant;

use manifold_engine::out::OutQueue;
use manifold_engine::serve::Conn;
use manifold_engine::transport::{Next, Transport};

/// Answers in memory up to this many bytes are copied and sent behind the engine's back, so that the engine need not wait:
/// a request is then one poll of its future. Larger ones are sent from where they lie.
pub(super) const SEND_BEHIND_MAX: usize = 16 * 1024;
/// Room for such an answer from the start: a usual head fits.
const STAGED_CAPACITY: usize = 512;
/// Pieces of such an answer.
const GATHER_MAX: usize = 8;
/// Buffers that grew larger are given back when a connection is left.
const BUFFER_KEEP_MAX: usize = 64 * 1024;

/// What passes between the loop and a future that waits. One that does not, as nearly all requests, has no mail.
#[derive(Default)]
pub(super) struct Mail {
    /// To the future: bytes received.
    pub(super) inbox: Vec<u8>,
    /// To the future: what comes after those bytes, end of file or an error.
    pub(super) ended: Option<io::Result<()>>,
    /// From the future: it waits for input, until then.
    pub(super) fill_by: Option<Instant>,
    /// To the future: that time has passed.
    pub(super) timed_out: bool,
    /// From the future: small answers to be sent.
    pub(super) staged: Vec<u8>,
    /// From the future: a queue to be sent while it waits, until then. The loop gives the queue back with the result.
    pub(super) flush: Option<(OutQueue, Instant)>,
    /// To the future: how that, or an earlier send, ended.
    pub(super) flushed: Option<io::Result<()>>,
}

impl Mail {
    /// Forgets the connection that was left, keeping buffers of ordinary size.
    pub(super) fn forget(&mut self) {
        self.inbox.clear();
        self.inbox.shrink_to(BUFFER_KEEP_MAX);
        (self.ended, self.flush, self.flushed) = (None, None, None);
        (self.fill_by, self.timed_out) = (None, false);
    }
}

thread_local! {
    /// One for each pooled future of the thread.
    static MAIL: RefCell<Vec<Mail>> = const { RefCell::new(Vec::new()) };
}

/// Adds the mail of a new future and returns its number.
pub(super) fn open_mail() -> usize {
    MAIL.with_borrow_mut(|all| {
        all.push(Mail::default());
        all.len() - 1
    })
}

/// Looks into the mail of a future.
pub(super) fn with_mail<R>(id: usize, look: impl FnOnce(&mut Mail) -> R) -> R {
    MAIL.with_borrow_mut(|all| look(&mut all[id]))
}

/// A connection while a future serves it: handed over with what it has sent already, and back with what is to be sent to it.
pub(super) struct Desk {
    pub(super) conn: Conn,
    pub(super) io: MailTransport,
    /// How the connection was left.
    pub(super) result: io::Result<Next>,
}

impl Desk {
    /// The desk of the future whose mail is `id`.
    pub(super) fn new(id: usize) -> Desk {
        let (input, staged) = (Vec::new(), Vec::with_capacity(STAGED_CAPACITY));
        let io = MailTransport { id, input, start: 0, out: OutQueue::new(), staged, behind: 0 };
        Desk { conn: Conn::new(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))), io, result: Ok(Next::Close) }
    }

    /// The next connection to serve, what it has sent already, and how many bytes of earlier answers it has still to get
    /// beside those that are being sent.
    pub(super) fn prepare(&mut self, conn: Conn, input: &[u8], behind: usize) {
        self.conn = conn;
        self.io.input.extend_from_slice(input);
        self.io.behind = behind;
    }

    /// Forgets the connection that was left, keeping buffers of ordinary size.
    pub(super) fn clear(&mut self) {
        self.io.input.clear();
        self.io.input.shrink_to(BUFFER_KEEP_MAX);
        self.io.start = 0;
        self.io.out.clear();
    }
}

/// A connection as its future sees it.
pub(super) struct MailTransport {
    id: usize,
    input: Vec<u8>,
    start: usize,
    out: OutQueue,
    /// Small answers to be sent when the future waits or leaves.
    pub(super) staged: Vec<u8>,
    /// Bytes of earlier answers that may still wait for the one being sent.
    behind: usize,
}

impl MailTransport {
    /// The future is about to wait: what it has made until now is sent.
    fn post(&mut self, mail: &mut Mail) {
        debug_assert!(mail.staged.is_empty(), "the loop takes what is staged whenever the future waits");
        self.behind += self.staged.len();
        std::mem::swap(&mut self.staged, &mut mail.staged);
    }

    /// Moves what was received behind what was not consumed yet.
    pub(super) fn take_in(&mut self, inbox: &mut Vec<u8>) -> usize {
        let n = inbox.len();
        if self.start == self.input.len() {
            self.input.clear();
            std::mem::swap(&mut self.input, inbox);
        } else {
            self.input.drain(..self.start);
            self.input.append(inbox);
        }
        self.start = 0;
        n
    }
}

impl Transport for MailTransport {
    fn received(&self) -> &[u8] {
        &self.input[self.start..]
    }

    fn consume(&mut self, n: usize) {
        self.start += n;
        assert!(self.start <= self.input.len(), "consumed more than was received");
    }

    fn poll_fill(&mut self, _: &mut Context<'_>, by: Instant) -> Poll<io::Result<usize>> {
        with_mail(self.id, |mail| {
            if !mail.inbox.is_empty() {
                return Poll::Ready(Ok(self.take_in(&mut mail.inbox)));
            }
            match &mut mail.ended {
                Some(Ok(())) => return Poll::Ready(Ok(0)),
                Some(ended) => return Poll::Ready(std::mem::replace(ended, Ok(())).map(|()| 0)),
                None => {}
            }
            if std::mem::take(&mut mail.timed_out) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.post(mail);
            mail.fill_by = Some(by);
            Poll::Pending
        })
    }

    fn outgoing(&mut self) -> &mut OutQueue {
        &mut self.out
    }

    fn poll_flush(&mut self, _: &mut Context<'_>, by: Instant) -> Poll<io::Result<()>> {
        // As it nearly always is: a small answer in one piece.
        let room = SEND_BEHIND_MAX.saturating_sub(self.behind);
        if self.staged.is_empty() && self.out.swap_only(&mut self.staged, room) {
            return Poll::Ready(Ok(()));
        }
        self.poll_flush_by_mail(by)
    }
}

impl MailTransport {
    fn poll_flush_by_mail(&mut self, by: Instant) -> Poll<io::Result<()>> {
        with_mail(self.id, |mail| {
            if let Some(result) = mail.flushed.take() {
                if let Some((queue, _)) = mail.flush.take() {
                    self.out = queue;
                }
                self.behind = 0;
                return Poll::Ready(result);
            }
            if mail.flush.is_some() {
                return Poll::Pending;
            }
            if self.stage() {
                return Poll::Ready(Ok(()));
            }
            self.post(mail);
            mail.flush = Some((std::mem::take(&mut self.out), by));
            Poll::Pending
        })
    }

    /// Copies a small answer that lies in memory; `false` where it is not such a one.
    fn stage(&mut self) -> bool {
        let mut slices = [IoSlice::new(&[]); GATHER_MAX];
        let (filled, more) = self.out.gather(&mut slices);
        let length: usize = slices[..filled].iter().map(|slice| slice.len()).sum();
        if more || self.staged.len() + self.behind + length > SEND_BEHIND_MAX {
            return false;
        }
        for slice in &slices[..filled] {
            self.staged.extend_from_slice(slice);
        }
        self.out.advance(length as u64);
        true
    }
}
