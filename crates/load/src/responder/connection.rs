//! One client of the responder: requests in, answers out, some of them later.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc::linger;
use nix::sys::socket::{self, MsgFlags, sockopt};

use super::Planned;
use super::answer::{Answers, Sent};
use super::head::{Ask, Known};
use super::plan::Fault;

/// A longer head ends its connection.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Receives from one connection before the others have their turn.
const RECEIVES_MAX: usize = 16;

/// What is to become of a connection.
#[derive(PartialEq, Eq)]
pub enum Fate {
    /// The kernel tells when it can go on.
    Waits,
    /// It can go on and lets others pass.
    GoesOn,
    Closes,
}

/// A client.
pub struct Connection {
    /// Nonblocking.
    pub socket: OwnedFd,
    /// The kernel tells what happens to it.
    pub watched: bool,
    /// The beginning of a head whose end has not come yet.
    part: Vec<u8>,
    /// Answers to send after which the connection goes on.
    owed: usize,
    /// The request after which it does not.
    last: Option<Ask>,
    /// Bytes sent of the answer that is being sent.
    at: usize,
    /// By a plan: answers that are not due yet, in order.
    pending: VecDeque<Pending>,
    /// By a plan: the wrong answer that is being sent.
    wrong: Option<Fault>,
}

/// An answer that is not due yet.
struct Pending {
    came: u64,
    due: u64,
    ask: Ask,
    fault: Option<Fault>,
}

impl Connection {
    /// One that was accepted.
    pub fn new(socket: OwnedFd) -> Connection {
        Connection {
            socket,
            watched: false,
            part: Vec::new(),
            owed: 0,
            last: None,
            at: 0,
            pending: VecDeque::new(),
            wrong: None,
        }
    }

    /// When the next answer is due, if a plan has put one off.
    pub fn next_due(&self) -> Option<u64> {
        self.pending.front().map(|pending| pending.due)
    }

    /// Sends what is owed and receives what is there, in turns.
    pub fn serve(
        &mut self,
        answers: &Answers,
        buffer: &mut [u8],
        known: &mut Known,
        mut planned: Option<&mut Planned>,
        mut readable: bool,
        ended: bool,
    ) -> Fate {
        for _ in 0..RECEIVES_MAX {
            match self.send_due(answers, planned.as_deref_mut()) {
                Err(_) => return Fate::Closes,
                Ok(Sent::Blocked) => return Fate::Waits,
                Ok(Sent::All) if self.last.is_some() => return Fate::Closes,
                Ok(Sent::All) if !readable => return Fate::Waits,
                Ok(Sent::All) => {}
            }
            let socket = self.socket.as_raw_fd();
            let received = match planned.as_deref_mut() {
                Some(planned) => planned.receive(socket, buffer),
                None => socket::recv(socket, buffer, MsgFlags::empty()),
            };
            match received {
                Ok(0) => return Fate::Closes,
                Ok(received) => {
                    // A short receive has emptied the socket, unless its end is there as well.
                    readable = received == buffer.len() || ended;
                    if self.take(&buffer[..received], known, planned.as_deref_mut()).is_err() {
                        return Fate::Closes;
                    }
                }
                Err(Errno::EAGAIN) => readable = false,
                Err(Errno::EINTR) => {}
                Err(_) => return Fate::Closes,
            }
        }
        Fate::GoesOn
    }

    /// Sends what is owed, and of what a plan has put off what is due by now.
    fn send_due(&mut self, answers: &Answers, planned: Option<&mut Planned>) -> io::Result<Sent> {
        if self.send(answers)? == Sent::Blocked {
            return Ok(Sent::Blocked);
        }
        let Some(planned) = planned else { return Ok(Sent::All) };
        while self.last.is_none()
            && let Some(Pending { came, due, ask, fault }) = self.pending.front()
        {
            let now = planned.clock.now();
            if *due > now {
                break;
            }
            planned.truth.late.record(now - due);
            planned.truth.took.record(now.saturating_sub(*came));
            match (fault, ask) {
                (None, Ask::Keep) => self.owed = 1,
                (None, ask) => self.last = Some(*ask),
                (Some(Fault::Silent), _) => {}
                (Some(Fault::Close), _) => return Err(ErrorKind::ConnectionAborted.into()),
                (Some(Fault::Reset), _) => {
                    let at_once = linger { l_onoff: 1, l_linger: 0 };
                    socket::setsockopt(&self.socket, sockopt::Linger, &at_once)?;
                    return Err(ErrorKind::ConnectionReset.into());
                }
                (Some(fault), ask) => {
                    self.wrong = Some(*fault);
                    // A short answer ends with its connection.
                    self.last = (*ask != Ask::Keep || *fault == Fault::Short).then_some(Ask::Close);
                }
            }
            self.pending.pop_front();
            if self.send(answers)? == Sent::Blocked {
                return Ok(Sent::Blocked);
            }
        }
        Ok(Sent::All)
    }

    fn send(&mut self, answers: &Answers) -> io::Result<Sent> {
        if let Some(fault) = self.wrong {
            let answer = answers.wrong(fault).ok_or(ErrorKind::NotFound)?;
            if answer.send(&self.socket, &mut 1, &mut self.at)? == Sent::Blocked {
                return Ok(Sent::Blocked);
            }
            self.wrong = None;
            return Ok(Sent::All);
        }
        if answers.keep.send(&self.socket, &mut self.owed, &mut self.at)? == Sent::Blocked {
            return Ok(Sent::Blocked);
        }
        let last = match self.last {
            Some(Ask::HeadOnly) => &answers.head_only,
            Some(Ask::Close) => &answers.close,
            Some(Ask::Keep) | None => return Ok(Sent::All),
        };
        last.send(&self.socket, &mut 1, &mut self.at)
    }

    /// Counts the requests whose heads end in these bytes.
    fn take(&mut self, received: &[u8], known: &mut Known, planned: Option<&mut Planned>) -> Result<(), TooLong> {
        if self.part.is_empty() {
            let used = self.count(received, known, planned);
            self.part.extend_from_slice(&received[used..]);
        } else {
            let mut part = std::mem::take(&mut self.part);
            part.extend_from_slice(received);
            let used = self.count(&part, known, planned);
            part.drain(..used);
            self.part = part;
        }
        if self.part.len() > HEAD_BYTES_MAX { Err(TooLong) } else { Ok(()) }
    }

    /// Returns how many bytes the whole heads have. What follows the last request is no longer of interest.
    fn count(&mut self, bytes: &[u8], known: &mut Known, mut planned: Option<&mut Planned>) -> usize {
        let mut at = 0;
        let is_last = |pending: &Pending| pending.ask != Ask::Keep;
        while self.last.is_none()
            && !self.pending.back().is_some_and(is_last)
            && let Some((length, ask)) = known.first(&bytes[at..])
        {
            at += length;
            if let Some(planned) = planned.as_deref_mut() {
                self.put_off(ask, planned);
                continue;
            }
            match ask {
                Ask::Keep => self.owed += 1,
                Ask::Close | Ask::HeadOnly => self.last = Some(ask),
            }
        }
        if self.last.is_some() || self.pending.back().is_some_and(is_last) { bytes.len() } else { at }
    }

    /// An answer will be given when the plan says, but not before those to earlier requests.
    fn put_off(&mut self, ask: Ask, planned: &mut Planned) {
        let came = planned.came;
        let (due, fault) = planned.plan.next(came, &mut planned.free_at, &mut planned.rng);
        let due = self.pending.back().map_or(due, |before| due.max(before.due));
        planned.truth.intended.record(due - came);
        self.pending.push_back(Pending { came, due, ask, fault });
    }
}

/// A head has more than [`HEAD_BYTES_MAX`] bytes.
struct TooLong;
