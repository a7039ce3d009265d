//! The wire over epoll: a request on a kept connection costs one send and one receive, and a share of a wait.
//!
//! Sockets are watched edge-triggered from their first send on, for everything, with one call each. A receive that was short has emptied
//! the socket, so it is not repeated before the kernel has news.

use std::borrow::Cow;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{self, MsgFlags};

use super::{Connected, Happening, Origin, Sent, Wire, begin_connecting};
use crate::plan::Address;
use crate::poller::{Event, Poller};
use crate::stamp::Stamps;
use crate::tls::Client;

/// One receive takes at most this much; larger answers take several.
const RECEIVE_BYTES: usize = 64 * 1024;
/// The token of the descriptor that interrupts the run.
const INTERRUPT: u64 = u64::MAX;

/// Sockets behind an epoll instance.
pub struct Epoll<'p> {
    poller: Poller,
    places: Vec<Place<'p>>,
    buffer: Vec<u8>,
    /// Events of the last wait, and how many of them were looked at.
    ready: usize,
    looked_at: usize,
    /// The event that there is still to read for.
    reading: Option<Event>,
    /// Sending at once after connecting has worked so far (it does over loopback, where connecting takes no time).
    optimistic: bool,
    /// Where it is asked when bytes came.
    stamps: Option<Stamps>,
}

/// What a slot has.
#[derive(Default)]
struct Place<'p> {
    socket: Option<OwnedFd>,
    watched: bool,
    /// The first byte was sent.
    stands: bool,
    only_end: bool,
    /// The bytes being sent, and how many of them were.
    outgoing: Cow<'p, [u8]>,
    sent: usize,
}

impl<'p> Epoll<'p> {
    /// A wire for so many slots. `stamped`: for how long bytes had waited to be read is asked of the kernel.
    ///
    /// # Errors
    /// The error of epoll_create1(2) or epoll_ctl(2).
    pub fn new(slots: usize, interrupt: Option<BorrowedFd<'_>>, stamped: bool) -> io::Result<Epoll<'p>> {
        let poller = Poller::new()?;
        if let Some(descriptor) = interrupt {
            poller.watch_level(descriptor, INTERRUPT)?;
        }
        Ok(Epoll {
            poller,
            places: (0..slots).map(|_| Place::default()).collect(),
            buffer: vec![0; RECEIVE_BYTES],
            ready: 0,
            looked_at: 0,
            reading: None,
            optimistic: true,
            stamps: stamped.then(Stamps::new),
        })
    }

    fn begin_sending(&mut self, slot: usize, bytes: Cow<'p, [u8]>) -> Sent {
        let place = &mut self.places[slot];
        (place.outgoing, place.sent) = (bytes, 0);
        let fresh = !place.watched;
        let sent = if fresh && !self.optimistic { Sent::Connecting } else { place.send() };
        if fresh && !matches!(sent, Sent::Failed(_)) {
            self.optimistic = sent != Sent::Connecting;
            if let Some(socket) = &place.socket
                && let Err(error) = self.poller.watch(socket, slot as u64)
            {
                return Sent::Failed(Errno::try_from(error).unwrap_or(Errno::EIO));
            }
            place.watched = true;
        }
        sent
    }
}

impl<'p> Wire<'p> for Epoll<'p> {
    fn connect(
        &mut self,
        slot: usize,
        to: &Address,
        origin: Origin,
        _tls: Option<&'p Client>,
    ) -> Result<Connected, Errno> {
        let socket = begin_connecting(to, origin)?;
        if self.stamps.is_some() {
            Stamps::ask(&socket);
        }
        self.places[slot] = Place { socket: Some(socket), ..Place::default() };
        Ok(Connected::Anew)
    }

    fn send(&mut self, slot: usize, bytes: &'p [u8]) -> Sent {
        self.begin_sending(slot, Cow::Borrowed(bytes))
    }

    fn send_copy(&mut self, slot: usize, bytes: &[u8]) -> Sent {
        let place = &mut self.places[slot];
        if !place.watched {
            return self.begin_sending(slot, Cow::Owned(bytes.to_vec()));
        }
        // What the socket takes at once, as it nearly always does, is not copied.
        (place.outgoing, place.sent) = (Cow::default(), 0);
        let sent = place.send_some(bytes);
        if let Sent::Part(_) | Sent::Connecting = sent {
            place.outgoing = Cow::Owned(bytes.to_vec());
        }
        sent
    }

    fn await_end(&mut self, slot: usize) {
        self.places[slot].only_end = true;
    }

    fn close(&mut self, slot: usize) {
        self.places[slot].socket = None;
        if self.reading.is_some_and(|event| event.token == slot as u64) {
            self.reading = None;
        }
    }

    fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        self.looked_at = 0;
        self.ready = self.poller.wait(timeout)?;
        if let Some(stamps) = &mut self.stamps {
            stamps.looked();
        }
        Ok(self.ready > 0)
    }

    fn next(&mut self) -> Option<Happening<'_>> {
        loop {
            if let Some(event) = self.reading {
                match self.places[event.token as usize].receive(&mut self.buffer, self.stamps.as_mut()) {
                    Ok(Some((0, _))) => {
                        self.reading = None;
                        return Some(Happening::Ended { slot: event.token as usize });
                    }
                    Ok(Some((received, waited))) => {
                        let short = received < self.buffer.len() && !event.broken;
                        if short {
                            self.reading = None;
                        }
                        // A short receive has emptied the socket. If the peer had sent its last byte by then, that was all.
                        let (slot, ended) = (event.token as usize, short && event.ended);
                        return Some(Happening::Received { slot, bytes: &self.buffer[..received], ended, waited });
                    }
                    Ok(None) => self.reading = None,
                    Err(error) => {
                        self.reading = None;
                        return Some(Happening::Broken { slot: event.token as usize, error });
                    }
                }
            }
            if self.looked_at == self.ready {
                return None;
            }
            let event = self.poller.event(self.looked_at);
            self.looked_at += 1;
            if event.token == INTERRUPT {
                return Some(Happening::Interrupted);
            }
            let slot = event.token as usize;
            let place = &mut self.places[slot];
            if place.only_end {
                if event.ended {
                    return Some(Happening::Ended { slot });
                }
                continue;
            }
            if event.readable {
                self.reading = Some(event);
            }
            if place.sent < place.outgoing.len() {
                return Some(Happening::Sending { slot, sent: place.send() });
            }
        }
    }
}

impl Place<'_> {
    /// Sends what is left.
    fn send(&mut self) -> Sent {
        let outgoing = std::mem::take(&mut self.outgoing);
        let sent = self.send_some(&outgoing);
        if let Sent::Part(_) | Sent::Connecting = sent {
            self.outgoing = outgoing;
        }
        sent
    }

    /// Sends what is left of these bytes.
    fn send_some(&mut self, outgoing: &[u8]) -> Sent {
        let Some(socket) = &self.socket else { return Sent::Failed(Errno::EBADF) };
        while self.sent < outgoing.len() {
            match socket::send(socket.as_raw_fd(), &outgoing[self.sent..], MsgFlags::MSG_NOSIGNAL) {
                Ok(sent) => {
                    self.sent += sent;
                    self.stands = true;
                }
                // Connecting still, or the socket's buffer is full: writability will be reported.
                Err(Errno::EAGAIN) if self.stands => return Sent::Part(self.sent),
                Err(Errno::EAGAIN) => return Sent::Connecting,
                Err(Errno::EINTR) => {}
                Err(error) => return Sent::Failed(error),
            }
        }
        Sent::All
    }

    /// Receives once: how many bytes, and for how many nanoseconds they had waited. `None` when there is nothing to receive, or nothing to
    /// receive from.
    fn receive(&self, buffer: &mut [u8], mut stamps: Option<&mut Stamps>) -> Result<Option<(usize, u64)>, Errno> {
        let Some(socket) = self.socket.as_ref().map(AsRawFd::as_raw_fd) else { return Ok(None) };
        loop {
            let received = match &mut stamps {
                Some(stamps) => stamps.receive(socket, buffer),
                None => socket::recv(socket, buffer, MsgFlags::empty()).map(|received| (received, 0)),
            };
            match received {
                Ok(received) => return Ok(Some(received)),
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
