//! Waiting as being parked: the transport of event. A call that would block
//! returns `Pending` and notes what it waits for and until when; whoever holds the connection parks it.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use manifold_engine::out::OutQueue;
use manifold_engine::transport::Transport;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use crate::blocking::{LINGER_READ, send_front};
use crate::buffer::ReadBuffer;
use crate::clock::{self, Deadline};

/// Where a connection is parked while it waits: the epoll instance that watches it, and its deadline there.
#[derive(Clone, Copy, Debug)]
pub struct Parking<'a> {
    /// Watches the socket once it had to wait for the first time; edge-triggered, so that no call is needed for later waits.
    pub epoll: &'a Epoll,
    /// Names the connection among the epoll instance's events.
    pub token: u64,
    /// Until when the connection may wait; looked at by whoever runs the epoll instance.
    pub deadline: &'a Deadline,
}

/// A non-blocking socket, watched edge-triggered: it must be tried until it would block before it is parked.
#[derive(Debug)]
pub struct NonblockingTransport<'a> {
    stream: TcpStream,
    parking: Parking<'a>,
    watched: bool,
    in_buffer: ReadBuffer,
    out: OutQueue,
    /// The last receive filled its buffer: more may be waiting, and no event will tell.
    more_waiting: bool,
    /// While a flush waits: how long the peer may take nothing, and until when it may now.
    send_wait: Option<(Duration, Instant)>,
}

impl<'a> NonblockingTransport<'a> {
    /// Wraps a socket that is non-blocking already.
    pub fn new(stream: TcpStream, parking: Parking<'a>) -> NonblockingTransport<'a> {
        let (in_buffer, out) = (ReadBuffer::new(), OutQueue::new());
        NonblockingTransport { stream, parking, watched: false, in_buffer, out, more_waiting: false, send_wait: None }
    }

    /// Whether bytes may be waiting in the socket without an event to tell.
    pub fn more_waiting(&self) -> bool {
        self.more_waiting
    }

    /// Parks an idle connection until `deadline`: it is watched, and gives up all its memory.
    ///
    /// # Errors
    /// The error of epoll_ctl(2).
    pub fn park(&mut self, deadline: Instant) -> io::Result<()> {
        self.in_buffer.release();
        self.out.shrink();
        self.wait_until(deadline)
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
    pub fn into_lingering(mut self, total: Duration) -> io::Result<Lingering<'a>> {
        self.stream.shutdown(Shutdown::Write)?;
        let now = clock::tick().now;
        self.wait_until(now + LINGER_READ)?;
        Ok(Lingering { stream: self.stream, parking: self.parking, give_up: now + total, deadline: now + LINGER_READ })
    }

    /// The peer is waited for until `by`, unless that has passed.
    fn would_block<T>(&mut self, by: Instant) -> Poll<io::Result<T>> {
        if clock::tick().now >= by {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        match self.wait_until(by) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// `by` at first; whenever the peer took something it has the whole time again.
    fn send_deadline(&mut self, by: Instant, progress: bool) -> Instant {
        let now = clock::tick().now;
        let deadline = match self.send_wait {
            None => by,
            Some((timeout, _)) if progress => now + timeout,
            Some((_, deadline)) => deadline,
        };
        let timeout = self.send_wait.map_or(by.saturating_duration_since(now), |(timeout, _)| timeout);
        self.send_wait = Some((timeout, deadline));
        deadline
    }

    fn wait_until(&mut self, deadline: Instant) -> io::Result<()> {
        self.parking.deadline.set(deadline);
        if !self.watched {
            let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
            self.parking.epoll.add(&self.stream, EpollEvent::new(flags, self.parking.token))?;
            self.watched = true;
        }
        Ok(())
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
        match self.receive() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.would_block(by),
            result => Poll::Ready(result),
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
                    self.out.advance(sent.unwrap_or(0));
                    if self.out.is_empty() {
                        self.send_wait = None;
                        return Poll::Ready(Ok(()));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let by = self.send_deadline(by, progress);
                    return self.would_block(by);
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// A half-closed connection: what the client still sends is dropped until it closes as well (RFC 9112 section 9.6).
#[derive(Debug)]
pub struct Lingering<'a> {
    stream: TcpStream,
    parking: Parking<'a>,
    give_up: Instant,
    deadline: Instant,
}

/// Bytes of a lingering client that are dropped; one that sends more after our goodbye is cut off.
const LINGER_BYTES_MAX: usize = 256 * 1024;

impl Lingering<'_> {
    /// Drops what arrived. `true` when the connection is to be closed now.
    pub fn drain(&mut self) -> bool {
        let now = clock::tick().now;
        if now >= self.deadline {
            return true;
        }
        let mut drop_here = [0; 4096];
        for _ in 0..LINGER_BYTES_MAX / drop_here.len() {
            match self.stream.read(&mut drop_here) {
                Ok(0) => return true,
                Ok(_) => self.deadline = self.give_up.min(now + LINGER_READ),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.parking.deadline.set(self.deadline);
                    return false;
                }
                Err(_) => return true,
            }
        }
        true
    }
}
