//! The engine's side of a connection. The future that serves a connection never touches the kernel: it leaves what it
//! wants in its [`Mail`], and the loop that polled it carries it out. So the future may be `Send` while ring and sockets
//! belong to one thread.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};
use std::time::Instant;

use manifold_engine::out::OutQueue;
use manifold_engine::serve::Conn;
use manifold_engine::transport::{Next, Transport};

/// Answers in memory up to this many bytes are copied and sent behind the engine's back, so that the engine need not wait:
/// a request is then one poll of its future. Larger ones are sent from where they lie.
pub(super) const SEND_BEHIND_MAX: usize = 16 * 1024;
/// Pieces of such an answer.
const GATHER_MAX: usize = 8;
/// Buffers that grew larger are given back when a connection is left.
const BUFFER_KEEP_MAX: usize = 64 * 1024;

/// What passes between the loop and one pooled future.
#[derive(Default)]
pub(super) struct Mail {
    /// To the future: the connection to serve.
    pub(super) job: Option<Conn>,
    /// From the future: how the connection is left.
    pub(super) done: Option<(Conn, io::Result<Next>)>,
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
    /// To the future: bytes of earlier answers that wait for the one being sent.
    pub(super) behind: usize,
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
        (self.job, self.done, self.ended, self.flush, self.flushed) = (None, None, None, None, None);
        (self.fill_by, self.timed_out, self.behind) = (None, false, 0);
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

/// A connection as its future sees it. It stays with the future and serves one connection after the other.
pub(super) struct MailTransport {
    id: usize,
    input: Vec<u8>,
    start: usize,
    out: OutQueue,
}

impl MailTransport {
    /// The transport of the future whose mail is `id`.
    pub(super) fn new(id: usize) -> MailTransport {
        MailTransport { id, input: Vec::new(), start: 0, out: OutQueue::new() }
    }

    /// The next connection to serve, and what it has sent already.
    pub(super) async fn job(&mut self) -> Conn {
        std::future::poll_fn(|_| {
            with_mail(self.id, |mail| match mail.job.take() {
                Some(conn) => {
                    self.take_in(&mut mail.inbox);
                    Poll::Ready(conn)
                }
                None => Poll::Pending,
            })
        })
        .await
    }

    /// Leaves a connection; nothing of it stays behind.
    pub(super) fn leave(&mut self, conn: Conn, result: io::Result<Next>) {
        self.input.clear();
        self.input.shrink_to(BUFFER_KEEP_MAX);
        self.start = 0;
        self.out.clear();
        with_mail(self.id, |mail| mail.done = Some((conn, result)));
    }

    /// Moves what was received behind what was not consumed yet.
    fn take_in(&mut self, inbox: &mut Vec<u8>) -> usize {
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
        MAIL.with_borrow_mut(|all| {
            let mail = &mut all[self.id];
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
            mail.fill_by = Some(by);
            Poll::Pending
        })
    }

    fn outgoing(&mut self) -> &mut OutQueue {
        &mut self.out
    }

    fn poll_flush(&mut self, _: &mut Context<'_>, by: Instant) -> Poll<io::Result<()>> {
        MAIL.with_borrow_mut(|all| {
            let mail = &mut all[self.id];
            if let Some(result) = mail.flushed.take() {
                if let Some((queue, _)) = mail.flush.take() {
                    self.out = queue;
                }
                return Poll::Ready(result);
            }
            if mail.flush.is_some() {
                return Poll::Pending;
            }
            if stage(&mut self.out, mail) {
                return Poll::Ready(Ok(()));
            }
            mail.flush = Some((std::mem::take(&mut self.out), by));
            Poll::Pending
        })
    }
}

/// Takes over a small answer that lies in memory, or copies it where it is in pieces or others come before it; `false` where
/// it is not such a one.
fn stage(out: &mut OutQueue, mail: &mut Mail) -> bool {
    if mail.staged.is_empty() && out.swap_only(&mut mail.staged, SEND_BEHIND_MAX.saturating_sub(mail.behind)) {
        return true;
    }
    let mut slices = [IoSlice::new(&[]); GATHER_MAX];
    let (filled, more) = out.gather(&mut slices);
    let length: usize = slices[..filled].iter().map(|slice| slice.len()).sum();
    if more || mail.staged.len() + mail.behind + length > SEND_BEHIND_MAX {
        return false;
    }
    for slice in &slices[..filled] {
        mail.staged.extend_from_slice(slice);
    }
    out.advance(length as u64);
    true
}
