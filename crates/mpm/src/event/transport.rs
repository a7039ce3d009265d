//! Waiting as being parked: the transport of event. A call that would block returns `Pending` and notes what it waits for
//! and until when; the worker that polled it then leaves the connection in its slot.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use manifold_engine::out::OutQueue;
use manifold_engine::transport::Transport;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use crate::blocking::{LINGER_READ, send_front};
use crate::buffer::ReadBuffer;
use crate::clock;
use crate::event::slot::{Place, Waits};

/// Bytes that one connection sends or receives before others get their turn, where its client never makes it wait.
const SHARE: u64 = 1024 * 1024;
/// Bytes of a lingering client that are dropped before others get their turn.
const LINGER_SHARE: usize = 256 * 1024;

/// Where a connection is parked while it waits: its place, and the epoll instance that watches it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parking<'a> {
    /// Watches the socket for what it had to wait for once; edge-triggered, so that no call is needed for later waits.
    pub epoll: &'a Epoll,
    /// Names the connection among the epoll instance's events.
    pub token: u64,
    pub place: &'a Place,
}

/// What of a socket the epoll instance watches. A socket that was just added tells at once what it is ready for, and that it
/// can be written to is so nearly always and of no interest to a connection that waits for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Watched {
    Nothing,
    Input,
    InputAndOutput,
}

impl Parking<'_> {
    fn wait(&self, stream: &TcpStream, watched: &mut Watched, wanted: Watched, deadline: Instant) -> io::Result<()> {
        self.place.deadline.set(deadline);
        if *watched < wanted {
            let mut flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
            flags.set(EpollFlags::EPOLLOUT, wanted == Watched::InputAndOutput);
            let mut event = EpollEvent::new(flags, self.token);
            match watched {
                Watched::Nothing => self.epoll.add(stream, event)?,
                _ => self.epoll.modify(stream, &mut event)?,
            }
            *watched = wanted;
        }
        Ok(())
    }
}

/// An idle connection: a socket and nothing else. It must be tried until it would block before it is parked.
#[derive(Debug)]
pub(crate) struct Resting {
    stream: TcpStream,
    watched: Watched,
}

impl Resting {
    /// A socket that was just accepted and is non-blocking.
    pub fn new(stream: TcpStream) -> Resting {
        Resting { stream, watched: Watched::Nothing }
    }

    /// Has the socket watched until `deadline`.
    ///
    /// # Errors
    /// The error of epoll_ctl(2).
    pub fn park(&mut self, parking: Parking<'_>, deadline: Instant) -> io::Result<()> {
        parking.wait(&self.stream, &mut self.watched, Watched::Input, deadline)
    }

    /// The transport of its next request.
    pub fn wake(self, parking: Parking<'_>) -> NonblockingTransport<'_> {
        let Resting { stream, watched } = self;
        let (in_buffer, out) = (ReadBuffer::new(), OutQueue::new());
        let (more_waiting, send_wait, share) = (false, None, SHARE);
        NonblockingTransport { stream, parking, watched, in_buffer, out, more_waiting, send_wait, share }
    }
}

/// A non-blocking socket with the buffers that a request needs.
#[derive(Debug)]
pub(crate) struct NonblockingTransport<'a> {
    stream: TcpStream,
    parking: Parking<'a>,
    watched: Watched,
    in_buffer: ReadBuffer,
    out: OutQueue,
    /// The last receive filled its buffer: more may be waiting, and no event will tell.
    more_waiting: bool,
    /// While a flush waits: how long the peer may take nothing, and until when it may now.
    send_wait: Option<(Duration, Instant)>,
    /// Bytes left of the connection's [`SHARE`].
    share: u64,
}

impl NonblockingTransport<'_> {
    /// Whether bytes may be waiting in the socket without an event to tell.
    pub fn more_waiting(&self) -> bool {
        self.more_waiting
    }

    /// The connection without its buffers, which hold nothing between requests.
    pub fn rest(self) -> Resting {
        debug_assert!(
            self.in_buffer.received().is_empty() && self.out.is_empty(),
            "an idle connection has nothing to do"
        );
        Resting { stream: self.stream, watched: self.watched }
    }

    /// One receive: `Ok(0)` is end of file, `WouldBlock` nothing yet.
    ///
    /// # Errors
    /// The socket's error.
    pub fn receive(&mut self) -> io::Result<usize> {
        loop {
            let result = self.in_buffer.read_from(&self.stream);
            clock::tick();
            match result {
                Ok((n, full)) => {
                    self.more_waiting = full;
                    return Ok(n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.more_waiting = false;
                    return Err(error);
                }
            }
        }
    }

    /// Half-closes and goes on as a lingering connection, for `total` at most.
    ///
    /// # Errors
    /// The socket's or epoll's error; the connection is closed then.
    pub fn into_lingering(mut self, total: Duration) -> io::Result<Lingering> {
        self.stream.shutdown(Shutdown::Write)?;
        let now = clock::tick().now;
        self.parking.wait(&self.stream, &mut self.watched, Watched::Input, now + LINGER_READ)?;
        Ok(Lingering { stream: self.stream, give_up: now + total, deadline: now + LINGER_READ })
    }

    /// The peer is waited for until `by`, unless that has passed.
    fn would_block<T>(&mut self, waits: Waits, by: Instant) -> Poll<io::Result<T>> {
        if clock::turn().now >= by {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.share = SHARE;
        self.in_buffer.settle();
        self.parking.place.want(waits);
        let wanted = if waits == Waits::Output { Watched::InputAndOutput } else { Watched::Input };
        match self.parking.wait(&self.stream, &mut self.watched, wanted, by) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Whether the connection has used up its share. Then its slot is queued again, behind those that wait meanwhile.
    fn gives_way(&mut self, waits: Waits) -> bool {
        if self.share > 0 {
            return false;
        }
        self.share = SHARE;
        self.parking.place.want(waits);
        self.parking.place.schedule.notify(false);
        true
    }

    /// `by` at first; whenever the peer took something it has the whole time again.
    fn send_deadline(&mut self, by: Instant, progress: bool) -> Instant {
        let now = clock::turn().now;
        let deadline = match self.send_wait {
            None => by,
            Some((timeout, _)) if progress => now + timeout,
            Some((_, deadline)) => deadline,
        };
        let timeout = self.send_wait.map_or(by.saturating_duration_since(now), |(timeout, _)| timeout);
        self.send_wait = Some((timeout, deadline));
        deadline
    }
}

impl Transport for NonblockingTransport<'_> {
    fn received(&self) -> &[u8] {
        self.in_buffer.received()
    }

    fn consume(&mut self, n: usize) {
        self.in_buffer.consume(n);
    }

    fn poll_fill(&mut self, _: &mut Context<'_>, by: Instant) -> Poll<io::Result<usize>> {
        if self.gives_way(Waits::Input) {
            return Poll::Pending;
        }
        match self.receive() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.would_block(Waits::Input, by),
            Ok(n) => {
                self.share = self.share.saturating_sub(n as u64);
                Poll::Ready(Ok(n))
            }
            result @ Err(_) => Poll::Ready(result),
        }
    }

    fn outgoing(&mut self) -> &mut OutQueue {
        &mut self.out
    }

    fn poll_flush(&mut self, _: &mut Context<'_>, by: Instant) -> Poll<io::Result<()>> {
        let mut progress = false;
        loop {
            match send_front(&self.stream, &self.out) {
                Ok(sent) => {
                    progress = true;
                    let sent = sent.unwrap_or(0);
                    self.out.advance(sent);
                    if self.out.is_empty() {
                        self.send_wait = None;
                        return Poll::Ready(Ok(()));
                    }
                    self.share = self.share.saturating_sub(sent);
                    if self.gives_way(Waits::Output) {
                        self.send_deadline(by, true);
                        return Poll::Pending;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    clock::tick();
                    let by = self.send_deadline(by, progress);
                    return self.would_block(Waits::Output, by);
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// A half-closed connection: what the client still sends is dropped until it closes as well (RFC 9112 section 9.6).
#[derive(Debug)]
pub(crate) struct Lingering {
    stream: TcpStream,
    give_up: Instant,
    deadline: Instant,
}

impl Lingering {
    /// Drops what arrived. `true` when the connection is to be closed now. Not inlined: its buffer would make every thread touch
    /// that much more of its stack.
    #[inline(never)]
    pub fn drain(&mut self, place: &Place) -> bool {
        let now = clock::tick().now;
        if now >= self.deadline {
            return true;
        }
        let mut drop_here = [0; 4096];
        for _ in 0..LINGER_SHARE / drop_here.len() {
            match self.stream.read(&mut drop_here) {
                Ok(0) => return true,
                Ok(_) => self.deadline = self.give_up.min(now + LINGER_READ),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    place.deadline.set(self.deadline);
                    return false;
                }
                Err(_) => return true,
            }
        }
        place.schedule.notify(false);
        false
    }
}
