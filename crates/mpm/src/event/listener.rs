//! event's listener: the child's first thread. It accepts, watches every parked connection with one epoll instance, keeps
//! their deadlines, and queues whatever has work for the workers. It never touches a connection itself.

use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use manifold_engine::serve::Conn;
use manifold_sys::listener::accept;
use manifold_sys::signal::{Signal, Signals};
use nix::sys::epoll::{EpollEvent, EpollFlags, EpollTimeout};

use crate::child::{AcceptFailure, EXIT_SICK, EXIT_WELL};
use crate::clock;
use crate::event::Shared;
use crate::generation::Child;
use crate::nonblocking::NonblockingTransport;

/// Events taken in one wait.
const EVENTS: usize = 256;
/// Connections accepted from one listening socket before parked ones are looked at again.
const ACCEPTS: usize = 16;
/// Deadlines are looked at this often: a connection may overstay by as much. Looking costs a nanosecond a slot, so that
/// neither a queue a timeout value nor a timer wheel is needed.
const LOOK_AT_DEADLINES: Duration = Duration::from_millis(100);
/// While slots wait and none was taken for this long, the awake workers are taken to be stuck.
const STUCK_AFTER: Duration = Duration::from_millis(1);

/// Among the events: the signal descriptor, the wake-up, and from `LISTENERS` on the listening sockets; below are slots.
const SIGNALS: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;
const LISTENERS: u64 = 1 << 32;

/// The accepting and watching side of a child.
pub(crate) struct Listener<'a> {
    listeners: &'a [TcpListener],
    signals: Signals,
}

/// What changes from turn to turn.
struct State {
    accepting: bool,
    accepted: u64,
    look_at: Instant,
    taken_before: u64,
    last_taken: Instant,
    /// Slots to be queued at the end of the turn, all at once.
    ready: Vec<u32>,
}

impl<'a> Listener<'a> {
    /// Prepares the child's sockets and signals.
    ///
    /// # Errors
    /// When the process lacks descriptors.
    pub fn new(child: &Child<'a>, shared: &Shared<'a>) -> io::Result<Listener<'a>> {
        let signals = Signals::collect(&[Signal::SIGUSR1])?;
        shared.epoll.add(signals.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, SIGNALS))?;
        shared.epoll.add(shared.wake.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, WAKE))?;
        for listener in child.listeners() {
            listener.set_nonblocking(true)?;
        }
        Ok(Listener { listeners: child.listeners(), signals })
    }

    /// Runs until the child is asked to end and its last connection is gone. `hold` puts a new connection into its slot.
    pub fn run(
        &self,
        child: &Child<'a>,
        shared: &Shared<'a>,
        hold: impl Fn(usize, NonblockingTransport<'a>, Conn),
    ) -> u8 {
        let enough = child.generation.limits.max_connections_per_child;
        let mut events = [EpollEvent::empty(); EVENTS];
        let ready = Vec::with_capacity(EVENTS);
        let now = clock::tick().now;
        let mut state = State { accepting: false, accepted: 0, look_at: now, taken_before: 0, last_taken: now, ready };
        child.is_running();
        loop {
            if enough > 0 && state.accepted >= enough {
                shared.draining.store(true, Ordering::Relaxed);
            }
            let open = child.server().connections().0;
            if shared.draining.load(Ordering::Relaxed) && open == 0 {
                return EXIT_WELL;
            }
            if self.set_accepting(shared, &mut state).is_err() {
                return EXIT_SICK;
            }
            let count = shared.epoll.wait(&mut events, self.wait_for(shared, open)).unwrap_or(0);
            for event in &events[..count] {
                match event.data() {
                    SIGNALS => self.take_signals(shared),
                    WAKE => {}
                    listener @ LISTENERS.. => {
                        let listener = &self.listeners[(listener - LISTENERS) as usize];
                        if self.accept_some(listener, child, shared, &mut state, &hold) == AcceptFailure::Sick {
                            return EXIT_SICK;
                        }
                    }
                    slot => {
                        let hung_up = EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
                        if shared.places[slot as usize].schedule.notify(event.events().intersects(hung_up)) {
                            state.ready.push(slot as u32);
                        }
                    }
                }
            }
            look_at_deadlines(shared, &mut state);
            if !state.ready.is_empty() {
                shared.ready.push(&state.ready);
                state.ready.clear();
            }
            help_stuck_workers(shared, &mut state);
        }
    }

    /// Accepts as long as admission allows; a listener that does not accept leaves connections to other children.
    fn set_accepting(&self, shared: &Shared<'_>, state: &mut State) -> io::Result<()> {
        let mut accepting = !shared.draining.load(Ordering::Relaxed) && shared.may_accept();
        if !accepting && !shared.draining.load(Ordering::Relaxed) {
            // Ask to be woken, then look again: a worker may have made room just before it was asked.
            shared.wants_room.store(true, Ordering::SeqCst);
            accepting = shared.may_accept();
        }
        if accepting == state.accepting {
            return Ok(());
        }
        state.accepting = accepting;
        shared.child.server().set_accepting(accepting);
        for (index, listener) in self.listeners.iter().enumerate() {
            if accepting {
                // One process is woken for a connection, not all of them.
                let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE;
                shared.epoll.add(listener, EpollEvent::new(flags, LISTENERS + index as u64))?;
            } else {
                shared.epoll.delete(listener)?;
            }
        }
        Ok(())
    }

    fn wait_for(&self, shared: &Shared<'_>, open: u64) -> EpollTimeout {
        if shared.ready.progress().0 > 0 {
            EpollTimeout::from(STUCK_AFTER.as_millis() as u8)
        } else if open > 0 {
            EpollTimeout::from(LOOK_AT_DEADLINES.as_millis() as u8)
        } else {
            EpollTimeout::NONE
        }
    }

    fn take_signals(&self, shared: &Shared<'_>) {
        while self.signals.next().is_some() {
            shared.draining.store(true, Ordering::Relaxed);
        }
    }

    fn accept_some(
        &self,
        listener: &TcpListener,
        child: &Child<'a>,
        shared: &Shared<'a>,
        state: &mut State,
        hold: &impl Fn(usize, NonblockingTransport<'a>, Conn),
    ) -> AcceptFailure {
        for _ in 0..ACCEPTS {
            if !shared.may_accept() {
                break;
            }
            let Some(slot) = shared.take_slot() else { break };
            match accept(listener, true) {
                Ok((stream, peer)) => {
                    state.accepted += 1;
                    child.worker(0).count_connection();
                    child.server().add_open(1);
                    hold(slot, shared.transport(slot, stream), Conn::new(peer));
                    // The client has usually sent its request already (TCP_DEFER_ACCEPT): straight to a worker.
                    if shared.places[slot].schedule.start() {
                        state.ready.push(slot as u32);
                    }
                }
                Err(error) => {
                    shared.give_back(slot);
                    return AcceptFailure::of(&error);
                }
            }
        }
        AcceptFailure::Passing
    }
}

fn look_at_deadlines(shared: &Shared<'_>, state: &mut State) {
    let now = clock::tick().now;
    if now < state.look_at {
        return;
    }
    state.look_at = now + LOOK_AT_DEADLINES;
    for (slot, place) in shared.places.iter().enumerate() {
        if place.deadline.has_passed(now) && place.schedule.notify(false) {
            state.ready.push(slot as u32);
        }
    }
}

/// Where slots wait and none was taken for a while, every awake worker is stuck in a slow call: one more is woken.
fn help_stuck_workers(shared: &Shared<'_>, state: &mut State) {
    let (waiting, taken) = shared.ready.progress();
    let now = clock::turn().now;
    if waiting == 0 || taken != state.taken_before {
        (state.taken_before, state.last_taken) = (taken, now);
    } else if now.saturating_duration_since(state.last_taken) >= STUCK_AFTER {
        shared.ready.wake_another();
        state.last_taken = now;
    }
}
