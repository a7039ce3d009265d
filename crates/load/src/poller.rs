//! Waiting for many sockets at once: epoll behind the four calls the loop needs.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use manifold_sys::epoll;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// Events taken from the kernel with one call.
const BATCH: usize = 512;

/// Something happened to the source watched under `token`.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The number given to [`Poller::watch`].
    pub token: u64,
    /// There is something to read: bytes, the end of the stream or an error.
    pub readable: bool,
    /// The peer has sent its last byte; what is readable now is all there will be.
    pub ended: bool,
    /// The connection is broken (reset) or closed in both directions; reading tells which.
    pub broken: bool,
}

/// An epoll instance with its event buffer.
pub struct Poller {
    epoll: Epoll,
    events: Vec<EpollEvent>,
    ready: usize,
}

impl Poller {
    /// # Errors
    /// The error of epoll_create1(2).
    pub fn new() -> io::Result<Poller> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Poller { epoll, events: vec![EpollEvent::empty(); BATCH], ready: 0 })
    }

    /// Watches a socket for everything, edge-triggered: one call a connection, none in the steady state. Closing the socket ends it.
    ///
    /// # Errors
    /// The error of epoll_ctl(2).
    pub fn watch(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        let everything = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        Ok(self.epoll.add(socket, EpollEvent::new(everything, token))?)
    }

    /// Watches a descriptor for something to read, telling it again as long as there is (a signal descriptor that nobody reads, a
    /// listener).
    ///
    /// # Errors
    /// The error of epoll_ctl(2).
    pub fn watch_level(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        Ok(self.epoll.add(source, EpollEvent::new(EpollFlags::EPOLLIN, token))?)
    }

    /// Watches a source no longer.
    ///
    /// # Errors
    /// The error of epoll_ctl(2).
    pub fn forget(&self, source: impl AsFd) -> io::Result<()> {
        Ok(self.epoll.delete(source)?)
    }

    /// Waits until something happens, at most `timeout` (before Linux 5.11 rounded up to a millisecond); returns how many events
    /// there are.
    ///
    /// # Errors
    /// The error of epoll_pwait2(2); an interrupted wait is none, but the end of the wait.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<usize> {
        self.ready = 0;
        match epoll::wait(self.epoll.0.as_fd(), &mut self.events, timeout) {
            Ok(ready) => self.ready = ready,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == Some(Errno::ENOSYS as i32) => {
                let milliseconds = u16::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(u16::MAX);
                match self.epoll.wait(&mut self.events, EpollTimeout::from(milliseconds)) {
                    Ok(ready) => self.ready = ready,
                    Err(Errno::EINTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error),
        }
        Ok(self.ready)
    }

    /// One of the events of the last wait.
    pub fn event(&self, index: usize) -> Event {
        let event = self.events[..self.ready][index];
        let flags = event.events();
        let broken = EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
        let ended = EpollFlags::EPOLLRDHUP | broken;
        Event {
            token: event.data(),
            readable: flags.intersects(EpollFlags::EPOLLIN | ended),
            ended: flags.intersects(ended),
            broken: flags.intersects(broken),
        }
    }
}
