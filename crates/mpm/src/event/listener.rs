//! event's listener: a post that the workers take in turns. Who holds it accepts, watches every parked connection with one
//! epoll instance, keeps their deadlines, and queues whatever has work; then leaves the post and serves, as a worker, what it
//! has queued. So a request needs no switch of threads, and as long as one thread follows it is the only one that runs.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use manifold_engine::serve::Conn;
use manifold_sys::listener::accept;
use manifold_sys::signal::Signals;
use nix::sys::epoll::{EpollEvent, EpollFlags, EpollTimeout};

use crate::child::{self, EXIT_SICK, EXIT_WELL, is_shut, lacks_resource};
use crate::event::appetite::Appetite;
use crate::event::room::{Doors, Room};
use crate::event::slot::Waits;
use crate::event::transport::Resting;
use crate::event::{Shared, WORKER};

/// Events taken in one wait.
const EVENTS: usize = 256;
/// Clients turned away in one go where descriptors are lacking.
const REFUSALS: usize = 16;
/// Deadlines are looked at this often: a connection may overstay by as much. A look costs a nanosecond a slot, 0.1 ms for
/// 100,000 connections, so that neither a queue a timeout value nor a timer wheel is needed.
const LOOK_AT_DEADLINES: Duration = Duration::from_millis(100);

/// Among the events: the signal descriptor, the wake-up, and from `LISTENERS` on the listening sockets; below are slots.
const SIGNALS: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;
const LISTENERS: u64 = 1 << 32;

/// The accepting and watching side of a child.
pub(crate) struct Listener<'s, 'a> {
    shared: &'s Shared<'a>,
    signals: Signals,
    sockets: Vec<Socket<'a>>,
    room: Room,
    doors: Doors,
    /// Closed to answer one more connection when the process has no other descriptor.
    reserve: Option<OwnedFd>,
    accepted: u64,
    /// Slots that were never used begin here; those known to be free again.
    unused: usize,
    free: Vec<u32>,
    look_at: Instant,
    now: Instant,
    events: Box<[EpollEvent]>,
    /// Slots to be queued at the end of the turn, all at once.
    ready: Vec<u32>,
}

/// A listening socket; `shut` once the parent has shut it for good.
struct Socket<'a> {
    listener: &'a TcpListener,
    shut: bool,
    appetite: Appetite,
}

impl<'a> Socket<'a> {
    fn new(listener: &'a TcpListener) -> Socket<'a> {
        Socket { listener, shut: false, appetite: Appetite::default() }
    }
}

impl<'s, 'a> Listener<'s, 'a> {
    /// Prepares the child's sockets and signals.
    ///
    /// # Errors
    /// When the process lacks descriptors.
    pub fn new(shared: &'s Shared<'a>) -> io::Result<Listener<'s, 'a>> {
        let signals = child::signals()?;
        shared.epoll.add(signals.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, SIGNALS))?;
        shared.epoll.add(shared.wake.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, WAKE))?;
        let sockets = shared.child.listeners().iter().map(Socket::new).collect();
        let now = Instant::now();
        Ok(Listener {
            shared,
            reserve: Some(signals.as_fd().try_clone_to_owned()?),
            signals,
            sockets,
            room: Room::new(&shared.site.server),
            doors: Doors::Shut,
            accepted: 0,
            unused: 0,
            free: Vec::new(),
            look_at: now,
            now,
            events: vec![EpollEvent::empty(); EVENTS].into(),
            ready: Vec::with_capacity(EVENTS),
        })
    }

    /// Waits for something to happen and queues what is to be done about it. `hold` puts a new connection into its slot. Gives
    /// a status when the child has been asked to end and its last connection is gone, or it cannot go on.
    pub fn turn(&mut self, hold: impl Fn(usize, Resting, Conn)) -> Option<u8> {
        let shared = self.shared;
        if shared.is_draining() {
            shared.ask_for_end();
            if shared.open() == 0 && !self.room.has_refused() {
                return Some(EXIT_WELL);
            }
        }
        if self.set_doors().is_err() {
            return Some(EXIT_SICK);
        }
        let longest = self.longest_wait();
        shared.ready.crew.listens();
        let count = shared.epoll.wait(&mut self.events, longest).unwrap_or(0);
        shared.ready.crew.listened();
        self.now = Instant::now();
        for at in 0..count {
            let event = self.events[at];
            match event.data() {
                SIGNALS => self.take_signals(),
                WAKE => self.room.look_again(),
                listener @ LISTENERS.. => {
                    if self.accept_some((listener - LISTENERS) as usize, &hold) == Health::Sick {
                        return Some(EXIT_SICK);
                    }
                }
                slot => {
                    let hung_up = EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
                    if shared.places.at(slot as usize).schedule.notify(event.events().intersects(hung_up)) {
                        self.ready.push(slot as u32);
                    }
                }
            }
        }
        self.look_at_deadlines();
        if self.has_accepted_enough() {
            self.drain();
        }
        if !self.ready.is_empty() {
            shared.ready.push(&self.ready);
            self.ready.clear();
        }
        None
    }

    /// A listener that does not accept leaves connections to other children.
    fn set_doors(&mut self) -> io::Result<()> {
        let doors = self.room.doors(self.shared, self.now);
        if doors != self.doors {
            self.shared.child.server().set_accepting(doors == Doors::Open);
        }
        let (watched, watch) = (self.doors != Doors::Shut, doors != Doors::Shut);
        self.doors = doors;
        if watched == watch {
            return Ok(());
        }
        for (index, socket) in self.sockets.iter().enumerate().filter(|(_, socket)| !socket.shut) {
            if watch {
                // One process is woken for a connection, not all of them.
                let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE;
                self.shared.epoll.add(socket.listener, EpollEvent::new(flags, LISTENERS + index as u64))?;
            } else {
                self.shared.epoll.delete(socket.listener)?;
            }
        }
        Ok(())
    }

    fn longest_wait(&self) -> EpollTimeout {
        if self.shared.open() > 0 || self.room.has_refused() || self.shared.has_lines(self.now) {
            EpollTimeout::from(LOOK_AT_DEADLINES.as_millis() as u8)
        } else {
            EpollTimeout::NONE
        }
    }

    fn take_signals(&mut self) {
        if child::is_asked(&self.shared.child, &self.signals) {
            self.drain();
        }
    }

    /// No more connections are accepted; those there are get one more answer each, with `Connection: close`. Those that
    /// never sent a byte are not waited for longer than those kept alive.
    fn drain(&mut self) {
        let shared = self.shared;
        if shared.draining.swap(true, Ordering::Relaxed) {
            return;
        }
        let by = Instant::now() + shared.site.keep_alive_timeout;
        for (_, place) in shared.places.made().filter(|(_, place)| place.waits() == Waits::First) {
            if !place.deadline.has_passed(by) {
                place.deadline.set(by);
            }
        }
        for worker in 0..shared.child.generation.limits.threads_per_child as usize {
            shared.child.worker(worker).set_graceful_if_ready();
        }
    }

    fn accept_some(&mut self, index: usize, hold: &impl Fn(usize, Resting, Conn)) -> Health {
        let (shared, now) = (self.shared, self.now);
        for accepted in 0..self.sockets[index].appetite.at_once() {
            if self.doors == Doors::Full {
                // Where a connection has ended meanwhile, the next turn accepts.
                if !shared.is_full() || accepted == 0 && self.room.make(shared, now, &mut self.ready) {
                    return Health::Well;
                }
                match accept(self.sockets[index].listener, true) {
                    Ok((stream, _)) => self.refuse(stream, now),
                    Err(error) => return self.accept_failed(index, accepted, error),
                }
                continue;
            }
            if shared.is_full() || !shared.ready.has_room() || self.has_accepted_enough() {
                return Health::Well;
            }
            let Some(slot) = self.take_slot() else { return Health::Well };
            match accept(self.sockets[index].listener, true) {
                Ok((stream, peer)) => {
                    self.accepted += 1;
                    shared.child.worker(WORKER.get()).count_connection();
                    shared.child.server().add_open(1);
                    hold(slot, Resting::new(stream), Conn::new(peer));
                    // The client has usually sent its request already (TCP_DEFER_ACCEPT): straight to a worker.
                    if shared.places.at(slot).schedule.start() {
                        self.ready.push(slot as u32);
                    }
                }
                Err(error) => {
                    self.free.push(slot as u32);
                    return self.accept_failed(index, accepted, error);
                }
            }
        }
        self.sockets[index].appetite.satisfied();
        Health::Well
    }

    /// After so many of the turn were accepted from a socket there is no other, or it cannot be had.
    fn accept_failed(&mut self, index: usize, accepted: u32, error: io::Error) -> Health {
        let (shared, now) = (self.shared, self.now);
        self.sockets[index].appetite.left_hungry(accepted);
        if is_shut(&error) {
            // It would tell so again and again.
            self.sockets[index].shut = true;
            let _closed_sockets_are_not_watched = shared.epoll.delete(self.sockets[index].listener);
            if self.sockets.iter().all(|socket| socket.shut) {
                self.drain();
            }
        } else if lacks_resource(&error) {
            if shared.open() == 0 {
                log::error!(target: "mpm_common", "AH00052: accept failed, the child ends: {error}");
                return Health::Sick;
            }
            if !self.room.exhausted(error, shared, now, &mut self.ready) {
                self.refuse_with_reserve(index, now);
            }
        }
        // Otherwise the connection is gone again, or another child was quicker.
        Health::Well
    }

    /// Answers clients one after the other with the descriptor that is left for this.
    fn refuse_with_reserve(&mut self, index: usize, now: Instant) {
        self.reserve = None;
        let mut refused = 0;
        while refused < REFUSALS
            && let Ok((stream, _)) = accept(self.sockets[index].listener, true)
        {
            self.refuse(stream, now);
            self.room.let_go_of_refused();
            refused += 1;
        }
        self.reserve = self.signals.as_fd().try_clone_to_owned().ok();
        if refused == 0 {
            // A worker took the descriptor, for a file.
            self.room.pause(now);
        }
    }

    fn refuse(&mut self, stream: TcpStream, now: Instant) {
        self.shared.child.worker(WORKER.get()).count_connection();
        self.shared.child.server().count_refused();
        self.room.refuse(stream, now);
    }

    fn has_accepted_enough(&self) -> bool {
        let enough = self.shared.child.generation.limits.max_connections_per_child;
        enough > 0 && self.accepted >= enough
    }

    fn take_slot(&mut self) -> Option<usize> {
        if self.free.is_empty() {
            std::mem::swap(&mut self.free, &mut *self.shared.freed.lock().unwrap_or_else(PoisonError::into_inner));
        }
        if let Some(slot) = self.free.pop() {
            return Some(slot as usize);
        }
        let slot = self.unused;
        self.unused += usize::from(slot < self.shared.most);
        (slot < self.shared.most).then_some(slot)
    }

    fn look_at_deadlines(&mut self) {
        let now = self.now;
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK_AT_DEADLINES;
        for (slot, place) in self.shared.places.made().take(self.unused) {
            if place.deadline.has_passed(now) && place.schedule.notify(false) {
                self.ready.push(slot as u32);
            }
        }
        self.room.tend(self.shared, now);
        self.shared.site.phases.settle_logs(now);
    }
}

/// Whether the child can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Well,
    Sick,
}
