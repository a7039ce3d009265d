//! The same as the ring, said by epoll: descriptors are watched edge-triggered from the first time they had to wait, bytes
//! are read when the event is taken, and a send is tried at once.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use manifold_sys::listener;
use manifold_sys::socket::{self, Flags};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::driver::{Driver, Event, Handle, Readiness, Shots};

/// Events taken in one wait, and at most as many connections that had their share of an earlier turn go on.
const EVENTS: usize = 512;
/// Connections accepted from one listener before other events are looked at.
const ACCEPTS: usize = 64;
/// Bytes read at once.
const BUFFER_SIZE: usize = 16 * 1024;
/// Buffers of ended sends kept for the next ones, and the largest capacity worth keeping.
const SPARES_MAX: usize = 1024;
const SPARE_CAPACITY_MAX: usize = 64 * 1024;

/// A descriptor and what is wanted of it.
#[derive(Default)]
struct Entity {
    descriptor: Option<OwnedFd>,
    listener: Option<TcpListener>,
    /// Tells this occupant of the place from earlier ones.
    generation: u32,
    watched: bool,
    /// It may have something to read: not tried yet, or more was there than was read.
    readable: bool,
    hung_up: bool,
    /// A read or an accept is among the things to do.
    planned: bool,
    accepting: bool,
    receiving: Option<Shots>,
    polling: Option<Readiness>,
    sending: bool,
    outgoing: Vec<u8>,
    sent: usize,
    /// More follows at once.
    more: bool,
    closing: bool,
}

/// Something to be told or tried, for the occupant of that generation.
#[derive(Clone, Copy)]
struct Todo {
    handle: Handle,
    generation: u32,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Accept(usize),
    Read,
    Write,
    AcceptStopped,
    ReceiveStopped,
    Sent(Option<Errno>),
    Ready,
    Closed,
}

/// An epoll instance with its descriptors.
pub(super) struct EpollDriver {
    epoll: Epoll,
    entities: Vec<Entity>,
    vacant: Vec<usize>,
    events: Vec<EpollEvent>,
    todo: VecDeque<Todo>,
    /// Reads and accepts that had their share of this turn.
    next_turn: VecDeque<Todo>,
    buffer: Vec<u8>,
    spares: Vec<Vec<u8>>,
}

impl EpollDriver {
    /// An empty instance.
    ///
    /// # Errors
    /// The error of epoll_create1(2).
    pub(super) fn new() -> io::Result<EpollDriver> {
        Ok(EpollDriver {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            entities: Vec::new(),
            vacant: Vec::new(),
            events: vec![EpollEvent::empty(); EVENTS],
            todo: VecDeque::new(),
            next_turn: VecDeque::new(),
            buffer: vec![0; BUFFER_SIZE],
            spares: Vec::new(),
        })
    }

    fn entity(&mut self, handle: Handle) -> &mut Entity {
        &mut self.entities[handle.index()]
    }

    fn plan(&mut self, handle: Handle, what: What) {
        let generation = self.entity(handle).generation;
        self.todo.push_back(Todo { handle, generation, what });
    }

    /// Plans a read or an accept, unless one is planned.
    fn plan_once(&mut self, handle: Handle, what: What) {
        if !std::mem::replace(&mut self.entity(handle).planned, true) {
            self.plan(handle, what);
        }
    }

    /// The same for the next turn.
    fn plan_later(&mut self, handle: Handle, what: What) {
        let entity = self.entity(handle);
        if !std::mem::replace(&mut entity.planned, true) {
            let generation = entity.generation;
            self.next_turn.push_back(Todo { handle, generation, what });
        }
    }

    /// Sees to it that edges of the descriptor are told from now on; the present state counts as one. Where that fails, for
    /// lack of memory, what waits for the descriptor ends by its deadline.
    fn watch(&mut self, handle: Handle) {
        let index = handle.index();
        let entity = &mut self.entities[index];
        let Some(descriptor) = entity.descriptor.as_ref().filter(|_| !entity.watched) else { return };
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        let token = u64::from(entity.generation) << 32 | index as u64;
        entity.watched = self.epoll.add(descriptor, EpollEvent::new(flags, token)).is_ok();
    }

    fn note(&mut self, event: EpollEvent) {
        let (index, generation) = (event.data() as u32 as usize, (event.data() >> 32) as u32);
        let handle = Handle::from_index(index);
        let entity = &mut self.entities[index];
        if entity.generation != generation {
            return;
        }
        let flags = event.events();
        let hung_up = flags.intersects(EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR);
        entity.hung_up |= hung_up;
        if hung_up || flags.contains(EpollFlags::EPOLLIN) {
            entity.readable = true;
            let (accepting, receiving) = (entity.accepting, entity.receiving.is_some());
            let polling = entity.polling == Some(Readiness::Readable);
            if accepting {
                self.plan_once(handle, What::Accept(ACCEPTS));
            } else if receiving {
                self.plan_once(handle, What::Read);
            } else if polling {
                self.plan(handle, What::Ready);
            }
        }
        let entity = self.entity(handle);
        if hung_up || flags.contains(EpollFlags::EPOLLOUT) {
            let (sending, polling) = (entity.sending, entity.polling == Some(Readiness::Writable));
            if sending {
                self.plan(handle, What::Write);
            } else if polling {
                self.entity(handle).polling = None;
                self.plan(handle, What::Ready);
            }
        }
    }

    /// Sends until all was accepted, which is the end, as is an error; or the socket is full.
    fn write(&mut self, handle: Handle) -> Option<Result<(), Errno>> {
        let entity = &mut self.entities[handle.index()];
        let descriptor = entity.descriptor.as_ref().filter(|_| entity.sending)?;
        let flags = if entity.more { Flags::MoreFollows } else { Flags::None };
        loop {
            match socket::send(descriptor, &[IoSlice::new(&entity.outgoing[entity.sent..])], flags) {
                Ok(n) => entity.sent += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.watch(handle);
                    return None;
                }
                Err(error) => return Some(Err(error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))),
            }
            if entity.sent == entity.outgoing.len() {
                return Some(Ok(()));
            }
        }
    }

    /// Writes, and plans to tell how it ended.
    fn write_and_tell(&mut self, handle: Handle) {
        if let Some(result) = self.write(handle) {
            self.end_send(handle, result);
        }
    }

    fn end_send(&mut self, handle: Handle, result: Result<(), Errno>) {
        self.keep_spare(handle);
        let closing = self.entity(handle).closing;
        self.plan(handle, if closing { What::Closed } else { What::Sent(result.err()) });
    }

    /// Nothing is being sent any more.
    fn keep_spare(&mut self, handle: Handle) {
        let entity = self.entity(handle);
        entity.sending = false;
        let mut bytes = std::mem::take(&mut entity.outgoing);
        if self.spares.len() < SPARES_MAX && bytes.capacity() <= SPARE_CAPACITY_MAX {
            bytes.clear();
            self.spares.push(bytes);
        }
    }

    /// Frees the place; closing the descriptor ends its being watched.
    fn vacate(&mut self, handle: Handle) {
        let entity = self.entity(handle);
        let generation = entity.generation.wrapping_add(1);
        *entity = Entity { generation, ..Entity::default() };
        self.vacant.push(handle.index());
    }

    /// One accept; `None` where nobody waits.
    fn accept_one(&mut self, handle: Handle, left: usize) -> Option<io::Result<Handle>> {
        let entity = self.entity(handle);
        entity.planned = false;
        let listener = entity.listener.as_ref().filter(|_| entity.accepting)?;
        let result = listener::accept(listener, true);
        match &result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Ok(_) if left > 1 => self.plan_once(handle, What::Accept(left - 1)),
            _ => self.plan_later(handle, What::Accept(ACCEPTS)),
        }
        Some(result.map(|(stream, _)| self.adopt(stream.into())))
    }

    /// One read; `None` where there was nothing.
    fn read(&mut self, handle: Handle) -> Option<(io::Result<usize>, bool)> {
        let entity = &mut self.entities[handle.index()];
        entity.planned = false;
        let descriptor = entity.descriptor.as_ref()?;
        let shots = entity.receiving?;
        let result = loop {
            match nix::unistd::read(descriptor, &mut self.buffer) {
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    entity.readable = false;
                    self.watch(handle);
                    return None;
                }
                result => break result,
            }
        };
        let filled = matches!(result, Ok(n) if n == self.buffer.len());
        // A read that came up short has emptied the socket, and an edge will tell of more; unless the end is known to follow.
        entity.readable = filled || entity.hung_up || !entity.watched;
        let more = shots == Shots::Many && matches!(result, Ok(1..));
        if !more {
            entity.receiving = None;
        } else if entity.readable {
            self.plan_later(handle, What::Read);
        }
        Some((result.map_err(io::Error::from), more))
    }
}

impl Driver for EpollDriver {
    fn adopt(&mut self, descriptor: OwnedFd) -> Handle {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.entities.push(Entity::default());
            self.entities.len() - 1
        });
        self.entities[index].descriptor = Some(descriptor);
        self.entities[index].readable = true;
        Handle::from_index(index)
    }

    fn descriptor(&self, handle: Handle) -> BorrowedFd<'_> {
        self.entities[handle.index()].descriptor.as_ref().expect("the handle names an open descriptor").as_fd()
    }

    fn accept(&mut self, listener: Handle) {
        let entity = self.entity(listener);
        if entity.listener.is_none() {
            // A second descriptor of the same socket, in the type that accepting wants; without one accepting never starts,
            // which a process that lacks descriptors that early does not survive anyway.
            entity.listener = entity.descriptor.as_ref().and_then(|fd| fd.try_clone().ok()).map(TcpListener::from);
        }
        entity.accepting = true;
        self.watch(listener);
        self.plan_once(listener, What::Accept(ACCEPTS));
    }

    fn stop_accepting(&mut self, listener: Handle) {
        if std::mem::take(&mut self.entity(listener).accepting) {
            self.plan(listener, What::AcceptStopped);
        }
    }

    fn receive(&mut self, handle: Handle, shots: Shots) {
        let entity = self.entity(handle);
        entity.receiving = Some(shots);
        if entity.readable {
            self.plan_once(handle, What::Read);
        }
    }

    fn is_receiving(&self, handle: Handle) -> bool {
        self.entities[handle.index()].receiving.is_some()
    }

    fn stop_receiving(&mut self, handle: Handle) {
        if self.entity(handle).receiving.take().is_some() {
            self.plan(handle, What::ReceiveStopped);
        }
    }

    fn spare(&mut self) -> Vec<u8> {
        self.spares.pop().unwrap_or_default()
    }

    fn send(&mut self, handle: Handle, bytes: Vec<u8>, more: bool) {
        let entity = self.entity(handle);
        (entity.outgoing, entity.sent, entity.sending, entity.more) = (bytes, 0, true, more);
        self.write_and_tell(handle);
    }

    fn send_at_once(&mut self, handle: Handle, bytes: Vec<u8>) -> bool {
        let entity = self.entity(handle);
        (entity.outgoing, entity.sent, entity.sending, entity.more) = (bytes, 0, true, false);
        match self.write(handle) {
            Some(Ok(())) => {
                self.keep_spare(handle);
                return false;
            }
            Some(error) => self.end_send(handle, error),
            None => {}
        }
        true
    }

    fn is_unsubmitted(&self, _: Handle) -> bool {
        false
    }

    fn stop_sending(&mut self, handle: Handle) {
        if self.entity(handle).sending {
            self.end_send(handle, Err(Errno::ECANCELED));
        }
    }

    fn poll(&mut self, handle: Handle, readiness: Readiness) {
        self.entity(handle).polling = Some(readiness);
        self.watch(handle);
    }

    fn close(&mut self, handle: Handle) -> bool {
        let entity = self.entity(handle);
        if entity.sending {
            entity.closing = true;
            entity.receiving = None;
            entity.polling = None;
            return false;
        }
        self.vacate(handle);
        true
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let begun = self.next_turn.len().min(EVENTS);
        self.todo.extend(self.next_turn.drain(..begun));
        let timeout = if self.todo.is_empty() { timeout } else { Some(Duration::ZERO) };
        // Rounded up: a deadline that is less than a millisecond away must not be waited for by spinning.
        let timeout = timeout.map_or(EpollTimeout::NONE, |timeout| {
            let ms = timeout.as_nanos().div_ceil(1_000_000);
            EpollTimeout::from(u16::try_from(ms).unwrap_or(u16::MAX))
        });
        let mut events = std::mem::take(&mut self.events);
        let result = self.epoll.wait(&mut events, timeout);
        if let Ok(count) = result {
            for event in &events[..count] {
                self.note(*event);
            }
        }
        self.events = events;
        match result {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn next_event(&mut self) -> Option<Event<'_>> {
        loop {
            let Todo { handle, generation, what } = self.todo.pop_front()?;
            let entity = &self.entities[handle.index()];
            if entity.generation != generation || entity.closing && !matches!(what, What::Write | What::Closed) {
                continue;
            }
            match what {
                What::Accept(left) => {
                    if let Some(connection) = self.accept_one(handle, left) {
                        return Some(Event::Accepted { listener: handle, connection, more: true });
                    }
                }
                What::Read => {
                    if let Some((result, more)) = self.read(handle) {
                        let data = result.map(|n| &self.buffer[..n]);
                        return Some(Event::Received { handle, data, more });
                    }
                }
                What::Write => self.write_and_tell(handle),
                What::AcceptStopped => {
                    let connection = Err(Errno::ECANCELED.into());
                    return Some(Event::Accepted { listener: handle, connection, more: false });
                }
                What::ReceiveStopped => {
                    return Some(Event::Received { handle, data: Err(Errno::ECANCELED.into()), more: false });
                }
                What::Sent(error) => {
                    let result = error.map_or(Ok(()), |error| Err(error.into()));
                    return Some(Event::Sent { handle, result });
                }
                What::Ready => {
                    let more = entity.polling.is_some();
                    return Some(Event::Ready { handle, result: Ok(()), more });
                }
                What::Closed => {
                    self.vacate(handle);
                    return Some(Event::Closed { handle });
                }
            }
        }
    }
}
