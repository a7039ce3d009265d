//! The wire over io_uring: receives that deliver again and again into the ring's buffers, and sends that go out with the wait.
//!
//! A new connection's first request is sent by send(2), which over loopback finds it standing already; later ones are submitted with the
//! turn's wait and tell nothing unless they fail. So a request costs a share of one system call.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use manifold_sys::ring::{Event, Handle, Options, Readiness, Ring, Shots};
use nix::errno::Errno;
use nix::sys::socket::{self, MsgFlags};

use super::{Connected, Happening, Origin, Sent, Wire, begin_connecting};
use crate::plan::Address;
use crate::tls::Client;

/// Operations submitted at once.
const SUBMISSIONS: u32 = 1024;
/// Completions at most that the kernel keeps in order for us; beyond, it sets them aside.
const COMPLETIONS_MAX: usize = 32 * 1024;
/// Buffers for what is received, and their size in bytes.
const BUFFERS: u16 = 256;
const BUFFER_BYTES: u32 = 16 * 1024;
/// Longer requests are sent by send(2), part by part as the socket takes them.
const AT_ONCE_BYTES_MAX: usize = 16 * 1024;

/// Sockets behind an io_uring.
pub struct Uring<'p> {
    ring: Ring,
    places: Vec<Place<'p>>,
    /// Slots by the numbers of their handles.
    slots: Vec<usize>,
    interrupt: Option<Handle>,
    /// Slots whose socket takes bytes again.
    writable: VecDeque<usize>,
    /// Slots whose receive has ended and is to begin again.
    deaf: Vec<usize>,
    /// Slots with bytes that have to wait until those before them are submitted.
    queued: Vec<usize>,
}

/// What a slot has.
#[derive(Default)]
struct Place<'p> {
    handle: Option<Handle>,
    /// The first byte was sent.
    stands: bool,
    only_end: bool,
    /// A send that was to go out at once is stuck.
    blocked: bool,
    /// The bytes being sent by send(2), and how many of them were; or those that wait.
    outgoing: Cow<'p, [u8]>,
    sent: usize,
}

impl<'p> Uring<'p> {
    /// A wire for so many slots.
    ///
    /// # Errors
    /// As [`Ring::new`]: io_uring is missing, forbidden or too old.
    pub fn new(slots: usize, interrupt: Option<BorrowedFd<'_>>) -> io::Result<Uring<'p>> {
        let completions = (4 * slots).clamp(SUBMISSIONS as usize, COMPLETIONS_MAX) as u32;
        let mut ring =
            Ring::new(&Options { submissions: SUBMISSIONS, completions, buffers: BUFFERS, buffer_size: BUFFER_BYTES })?;
        let interrupt = interrupt.map(|descriptor| descriptor.try_clone_to_owned()).transpose()?;
        let interrupt = interrupt.map(|descriptor| ring.adopt(descriptor));
        if let Some(handle) = interrupt {
            ring.poll(handle, Readiness::Readable);
        }
        Ok(Uring {
            ring,
            places: (0..slots).map(|_| Place::default()).collect(),
            slots: Vec::new(),
            interrupt,
            writable: VecDeque::new(),
            deaf: Vec::new(),
            queued: Vec::new(),
        })
    }

    /// Sends with the next wait.
    fn send_with_wait(&mut self, slot: usize, handle: Handle, bytes: &[u8]) {
        let mut outgoing = self.ring.spare();
        outgoing.extend_from_slice(bytes);
        if let Err(outgoing) = self.ring.send_at_once(handle, outgoing) {
            self.places[slot].blocked = true;
            self.ring.send(handle, outgoing, false);
        }
    }

    /// Sends what had to wait, now that all is known of the sends before.
    fn send_queued(&mut self) {
        for slot in std::mem::take(&mut self.queued) {
            let place = &mut self.places[slot];
            let Some(handle) = place.handle.filter(|_| !place.outgoing.is_empty()) else { continue };
            if self.ring.is_unsubmitted(handle) {
                self.queued.push(slot);
            } else if !place.blocked {
                let bytes = std::mem::take(&mut place.outgoing);
                self.send_with_wait(slot, handle, &bytes);
                self.writable.push_back(slot);
            }
        }
    }

    /// Sends by send(2) what is left, and begins to receive once the connection stands.
    fn send_now(&mut self, slot: usize) -> Sent {
        let place = &mut self.places[slot];
        let Some(handle) = place.handle else { return Sent::Failed(Errno::EBADF) };
        while place.sent < place.outgoing.len() {
            let socket = self.ring.descriptor(handle).as_raw_fd();
            match socket::send(socket, &place.outgoing[place.sent..], MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT) {
                Ok(sent) => {
                    place.sent += sent;
                    if !std::mem::replace(&mut place.stands, true) {
                        self.ring.receive(handle, Shots::Many);
                    }
                }
                Err(Errno::EAGAIN) => {
                    self.ring.poll(handle, Readiness::Writable);
                    return if place.stands { Sent::Part(place.sent) } else { Sent::Connecting };
                }
                Err(Errno::EINTR) => {}
                Err(error) => {
                    place.outgoing = Cow::default();
                    return Sent::Failed(error);
                }
            }
        }
        Sent::All
    }
}

impl<'p> Wire<'p> for Uring<'p> {
    fn connect(
        &mut self,
        slot: usize,
        to: &Address,
        origin: Origin,
        _tls: Option<&'p Client>,
    ) -> Result<Connected, Errno> {
        let handle = self.ring.adopt(begin_connecting(to, origin)?);
        if self.slots.len() <= handle.index() {
            self.slots.resize(handle.index() + 1, 0);
        }
        self.slots[handle.index()] = slot;
        self.places[slot] = Place { handle: Some(handle), ..Place::default() };
        Ok(Connected::Anew)
    }

    fn send(&mut self, slot: usize, bytes: &'p [u8]) -> Sent {
        let place = &mut self.places[slot];
        let Some(handle) = place.handle else { return Sent::Failed(Errno::EBADF) };
        if place.blocked || self.ring.is_unsubmitted(handle) {
            // The answer came before the request before was sent: such a connection is of no use.
            return Sent::Failed(Errno::EPIPE);
        }
        if place.stands && bytes.len() <= AT_ONCE_BYTES_MAX {
            self.send_with_wait(slot, handle, bytes);
            return Sent::All;
        }
        (place.outgoing, place.sent) = (Cow::Borrowed(bytes), 0);
        self.send_now(slot)
    }

    fn send_copy(&mut self, slot: usize, bytes: &[u8]) -> Sent {
        let place = &mut self.places[slot];
        let Some(handle) = place.handle else { return Sent::Failed(Errno::EBADF) };
        if !place.stands {
            (place.outgoing, place.sent) = (Cow::Owned(bytes.to_vec()), 0);
            return self.send_now(slot);
        }
        if place.blocked || self.ring.is_unsubmitted(handle) {
            place.outgoing = Cow::Owned(bytes.to_vec());
            self.queued.push(slot);
            return Sent::Part(0);
        }
        self.send_with_wait(slot, handle, bytes);
        Sent::All
    }

    fn await_end(&mut self, slot: usize) {
        self.places[slot].only_end = true;
    }

    fn close(&mut self, slot: usize) {
        if let Some(handle) = self.places[slot].handle.take() {
            self.ring.close(handle);
        }
    }

    fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        for slot in self.deaf.drain(..) {
            if let Some(handle) = self.places[slot].handle
                && !self.ring.is_receiving(handle)
            {
                self.ring.receive(handle, Shots::Many);
            }
        }
        let idle = self.writable.is_empty() && self.queued.is_empty();
        self.ring.wait(Some(if idle { timeout } else { Duration::ZERO }))?;
        Ok(!idle || self.ring.has_events())
    }

    fn next(&mut self) -> Option<Happening<'_>> {
        if !self.queued.is_empty() && !self.ring.has_events() {
            self.send_queued();
        }
        if let Some(slot) = self.writable.pop_front() {
            return Some(Happening::Sending { slot, sent: self.send_now(slot) });
        }
        let slot_of = |slots: &[usize], handle: Handle| slots[handle.index()];
        Some(match self.ring.next_event()? {
            Event::Received { handle, data, more } => {
                let slot = slot_of(&self.slots, handle);
                match data {
                    Ok([]) => Happening::Ended { slot },
                    Ok(bytes) => {
                        if !more {
                            self.deaf.push(slot);
                        }
                        if self.places[slot].only_end {
                            Happening::Nothing
                        } else {
                            Happening::Received { slot, bytes, ended: false, waited: 0 }
                        }
                    }
                    Err(error) => Happening::Broken { slot, error: errno(&error) },
                }
            }
            Event::Sent { handle, result } => {
                let slot = slot_of(&self.slots, handle);
                self.places[slot].blocked = false;
                self.queued.extend((!self.places[slot].outgoing.is_empty()).then_some(slot));
                match result {
                    Ok(()) => Happening::Nothing,
                    Err(error) => Happening::Sending { slot, sent: Sent::Failed(errno(&error)) },
                }
            }
            Event::Blocked { handle } => {
                self.places[slot_of(&self.slots, handle)].blocked = true;
                Happening::Nothing
            }
            Event::Ready { handle, .. } if Some(handle) == self.interrupt => Happening::Interrupted,
            Event::Ready { handle, .. } => {
                self.writable.push_back(slot_of(&self.slots, handle));
                Happening::Nothing
            }
            Event::Accepted { .. } | Event::Closed { .. } => Happening::Nothing,
        })
    }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
