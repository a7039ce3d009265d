//! The connections of a core: what each is waiting for, and what happens to it when that comes.
//!
//! A connection is its state and nothing else while it is idle: no future, no buffer. From the first byte of a request to
//! its answer it is busy and has a future of the pool ([`Tasks`]).

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use manifold_engine::serve::Conn;
use manifold_engine::site::Site;
use manifold_engine::transport::{Activity, Host, Next, Turn};
use nix::errno::Errno;
use nix::sys::socket::{Shutdown, shutdown};

use super::deadlines::{Deadlines, Moment};
use super::disk::Disk;
use super::driver::{Driver, Event, Handle, Shots};
use super::queues::{Queue, Queues};
use super::residency::Residency;
use super::sending::TURN_BYTES;
use super::slot::{INBOX_MAX, Slot, State, deliver, peer};
use super::tasks::Tasks;
use super::transport::with_mail;
use crate::blocking::{LINGER_READ, linger_total};
use crate::clock;
use crate::generation::Child;
use crate::host::ThreadHost;
use crate::scoreboard::{Place, ServerSlot};
use crate::shed::Shedding;

/// Bytes of a lingering client that are dropped before it is cut off.
const LINGER_BYTES_MAX: u32 = 16 * 1024 * 1024;
/// Refused connections that linger at the same time; they have descriptors beside those of `MaxConnections`.
const REFUSED_MAX: usize = 512;
/// See [`Room::silence`].
const SILENCE: Duration = Duration::from_secs(1);
/// Deadlines looked at in a turn: those of many connections may come together, and no request waits for all of them.
const EXPIRED_A_TURN: usize = 256;

/// Something that happened to a descriptor that is no connection.
pub(super) enum Outside {
    /// See [`Event::Accepted`].
    Accepted { listener: Handle, connection: io::Result<Handle>, more: bool },
    /// Signals arrived; whether the wait for them goes on.
    Signals { more: bool },
}

/// How many connections there may be at the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Those that are served: `MaxConnections`, as far as there are descriptors.
    pub(super) connections: usize,
    /// Those that were refused and still read why.
    pub(super) refused: usize,
    /// A client that has said nothing for so long has to make room; before, its request may be on its way.
    pub(super) silence: Duration,
}

impl Room {
    /// For so many that are served.
    pub(super) fn of(connections: usize) -> Room {
        Room { connections, refused: (connections / 16).clamp(1, REFUSED_MAX), silence: SILENCE }
    }
}

/// All connections of the core.
pub(super) struct Connections<'a, D> {
    pub(super) driver: D,
    pub(super) child: &'a Child<'a>,
    pub(super) site: &'a Site,
    pub(super) host: &'a ThreadHost<'a>,
    pub(super) server: ServerSlot<'a>,
    /// The turn, and when it began.
    pub(super) turn: Turn,
    pub(super) now: Moment,
    pub(super) slots: Vec<Slot>,
    pub(super) tasks: Tasks<'a>,
    deadlines: Deadlines,
    pub(super) queues: Queues,
    pub(super) room: Room,
    pub(super) shedding: Shedding,
    /// Why accepting failed, and with how many connections, until the log was told.
    pub(super) accept_error: Option<(usize, io::Error)>,
    /// Connections that take up room, and all there are.
    pub(super) served: usize,
    open: usize,
    admitted: u64,
    /// Accepted in this turn when there was no room.
    pub(super) newcomers: Vec<Handle>,
    /// Connections that sent their share and go on in another turn.
    pub(super) unfinished: VecDeque<Handle>,
    /// Connections that have more to send than what goes out with the turn's end.
    pub(super) unsubmitted: Vec<Handle>,
    /// Bytes of large answers that may still be sent in this turn.
    pub(super) turn_bytes: u64,
    /// Who waits for disks; nobody so far where it is `None`.
    pub(super) disk: Option<Disk>,
    /// What needs not be waited for.
    pub(super) residency: Residency,
}

impl<'a, D: Driver> Connections<'a, D> {
    pub(super) fn new(driver: D, child: &'a Child<'a>, host: &'a ThreadHost<'a>, room: Room) -> Connections<'a, D> {
        let site: &Site = &child.generation.site;
        Connections {
            driver,
            child,
            site,
            host,
            server: child.server(),
            turn: clock::turn(),
            now: clock::turn().now.into(),
            slots: Vec::new(),
            tasks: Tasks::new(site, host),
            deadlines: Deadlines::default(),
            queues: Queues::new(),
            room,
            shedding: Shedding::new(&site.server, "mpm_percore"),
            accept_error: None,
            served: 0,
            open: 0,
            admitted: 0,
            newcomers: Vec::new(),
            unfinished: VecDeque::new(),
            unsubmitted: Vec::new(),
            turn_bytes: TURN_BYTES,
            disk: None,
            residency: Residency::new(),
        }
    }

    /// Connections there are.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Connections there ever were.
    pub(super) fn admitted(&self) -> u64 {
        self.admitted
    }

    /// Takes over a connection that was accepted.
    pub(super) fn admit(&mut self, handle: Handle) {
        self.admitted += 1;
        self.open += 1;
        self.host.worker.count_connection();
        self.server.add_open(1);
        if self.slots.len() <= handle.index() {
            self.slots.resize_with(handle.index() + 1, Slot::vacant);
        }
        if self.served < self.room.connections {
            self.begin(handle);
            self.recount(handle);
        } else {
            self.slots[handle.index()].state = State::Newcomer;
            self.newcomers.push(handle);
        }
    }

    /// Waits for the first request. One receive only: a connection that is closed after its answer has none under way then.
    pub(super) fn begin(&mut self, handle: Handle) {
        self.served += 1;
        let slot = &mut self.slots[handle.index()];
        slot.served = true;
        match peer(self.driver.descriptor(handle).as_raw_fd()) {
            Some(peer) => slot.conn = Conn::new(peer),
            // It is gone already.
            None => return self.close(handle),
        }
        self.set_state(handle, State::Idle);
        self.set_deadline(handle, self.now + self.site.first_byte_timeout());
        self.driver.receive(handle, Shots::One);
    }

    /// Hands over to the kernel what was queued, and waits until something happens, a deadline comes, or `by` has passed.
    pub(super) fn wait(&mut self, by: Option<Instant>) -> io::Result<()> {
        let lines_due = self.site.phases.settle_logs(self.turn.now);
        let timeout = if self.unfinished.is_empty() && self.unsubmitted.is_empty() {
            let due = sooner(sooner(self.deadlines.next_due(), by), lines_due);
            due.map(|due| due.since(self.now))
        } else {
            Some(Duration::ZERO)
        };
        self.turn_bytes = TURN_BYTES;
        self.host.activity(Activity::Ready);
        self.driver.wait(timeout)?;
        self.turn = clock::tick();
        self.now = self.turn.now.into();
        Ok(())
    }

    /// Handles what happened to connections; returns what happened to other descriptors, then `None`.
    pub(super) fn handle_events(&mut self, signals: Handle) -> Option<Outside> {
        loop {
            let handle = match self.driver.next_event()? {
                Event::Received { handle, data, more } => {
                    let slot = &mut self.slots[handle.index()];
                    let got = data.map(|bytes| {
                        deliver(slot, &mut self.tasks, bytes);
                        bytes.len()
                    });
                    match (slot.state, got) {
                        (State::Busy(task), Ok(1..)) if slot.filling => self.run(handle, task),
                        (_, got) => self.received(handle, got, more),
                    }
                    handle
                }
                Event::Sent { handle, result } => {
                    self.sent(handle, result);
                    handle
                }
                Event::Blocked { handle } => {
                    self.blocked(handle);
                    handle
                }
                Event::Ready { handle, more, .. } if handle == signals => return Some(Outside::Signals { more }),
                Event::Ready { handle, more, .. } => {
                    if self.is_bell(handle) {
                        self.disk_answered(more);
                        continue;
                    }
                    self.slots[handle.index()].polling = false;
                    self.go_on(handle);
                    handle
                }
                Event::Closed { handle } => {
                    self.forget(handle);
                    handle
                }
                Event::Accepted { listener, connection, more } => {
                    return Some(Outside::Accepted { listener, connection, more });
                }
            };
            self.recount(handle);
        }
    }

    /// The turn ends: decides about connections for which there was no room, and looks after those whose deadline has come.
    pub(super) fn end_turn(&mut self) {
        self.go_on_submitted();
        self.expire();
        self.settle_newcomers();
        self.report_shedding();
    }

    fn expire(&mut self) {
        let now = self.now;
        for _ in 0..EXPIRED_A_TURN {
            let Some(index) = self.deadlines.pop(now) else { return };
            match self.slots[index].deadline {
                Some(at) if at > now => self.deadlines.look_by(at, index),
                Some(_) => {
                    self.slots[index].deadline = None;
                    self.timed_out(Handle::from_index(index));
                    self.recount(Handle::from_index(index));
                }
                None => {}
            }
        }
    }

    /// Connections that never sent a byte are not waited for longer than those kept alive.
    pub(super) fn drain(&mut self) {
        let by = self.now + self.site.keep_alive_timeout;
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            if matches!(slot.state, State::Idle) && slot.deadline.is_some_and(|at| at > by) {
                self.set_deadline(Handle::from_index(index), by);
            }
        }
    }

    /// Bytes arrived (and were delivered), or will not any more.
    fn received(&mut self, handle: Handle, got: io::Result<usize>, more: bool) {
        let stopped = matches!(&got, Err(error) if error.raw_os_error() == Some(Errno::ECANCELED as i32));
        let ended = matches!(got, Ok(0) | Err(_)) && !stopped;
        let slot = &mut self.slots[handle.index()];
        slot.ended |= ended;
        match slot.state {
            State::Busy(task) => {
                if ended {
                    with_mail(self.tasks.mail(task), |mail| mail.ended = Some(got.map(drop)));
                }
                if !slot.filling {
                    self.bound_inbox(handle, task);
                } else if stopped {
                    self.driver.receive(handle, Shots::Many);
                } else {
                    self.run(handle, task);
                }
            }
            State::Idle if ended => self.leave(handle, got.ok().map(|_| Next::Close)),
            State::Lingering { .. } if ended => self.close(handle),
            State::Lingering { until, bytes } => {
                let bytes = bytes.saturating_add(u32::try_from(got.unwrap_or(0)).unwrap_or(u32::MAX));
                if bytes > LINGER_BYTES_MAX {
                    return self.close(handle);
                }
                slot.state = State::Lingering { until, bytes };
                self.set_deadline(handle, until.min(self.now + LINGER_READ));
                if !more {
                    self.driver.receive(handle, Shots::Many);
                }
            }
            State::Idle if !more => self.driver.receive(handle, Shots::Many),
            State::Idle | State::Leaving { .. } | State::Closing | State::Newcomer | State::Vacant => {}
        }
    }

    /// A client that sends ahead of its answers is left waiting after a while.
    fn bound_inbox(&mut self, handle: Handle, task: usize) {
        let waiting = with_mail(self.tasks.mail(task), |mail| mail.inbox.len());
        if waiting > INBOX_MAX {
            self.driver.stop_receiving(handle);
        }
    }

    /// Lets the future of a connection go on until it waits for something, and sees to it that this will come.
    pub(super) fn run(&mut self, handle: Handle, task: usize) {
        self.slots[handle.index()].filling = false;
        self.queues.leave(handle.index());
        self.count_as(handle, Place::Nowhere);
        loop {
            if let Some(desk) = self.tasks.poll(task) {
                match self.take_back(handle, task, desk) {
                    Some(result) => return self.finish(handle, result),
                    None => continue,
                }
            }
            match self.collect(handle, task) {
                Wants::Flush => {
                    if !self.begin_flush(handle, task) {
                        return;
                    }
                }
                Wants::Disk => {
                    if !self.offload(handle) {
                        return;
                    }
                }
                Wants::Fill(by) => {
                    self.slots[handle.index()].filling = true;
                    self.set_deadline(handle, by.into());
                    if !self.driver.is_receiving(handle) {
                        self.driver.receive(handle, Shots::Many);
                    }
                    return;
                }
            }
        }
    }

    /// A future has left its connection.
    fn finish(&mut self, handle: Handle, result: io::Result<Next>) {
        let slot = &self.slots[handle.index()];
        let wait = if slot.sending { self.site.timeout } else { self.site.keep_alive_timeout };
        if !matches!(result, Ok(Next::KeepAlive)) || slot.ended {
            return self.leave(handle, result.ok());
        }
        self.slots[handle.index()].state = State::Idle;
        self.line_up(handle);
        self.set_deadline(handle, self.now + wait);
        if !self.driver.is_receiving(handle) {
            self.driver.receive(handle, Shots::Many);
        }
    }

    /// Ends a connection, after what is still to be sent; `None` is one that broke or took too long.
    pub(super) fn leave(&mut self, handle: Handle, how: Option<Next>) {
        let slot = &mut self.slots[handle.index()];
        let linger = how == Some(Next::Linger) && !slot.ended;
        if how.is_none() {
            if slot.sending {
                self.driver.stop_sending(handle);
            }
            self.close(handle);
        } else if self.driver.is_unsubmitted(handle) {
            self.unsubmitted.push(handle);
            self.set_state(handle, State::Leaving { linger });
        } else if slot.sending && (linger || !slot.behind.is_empty()) {
            self.set_state(handle, State::Leaving { linger });
            self.set_deadline(handle, self.now + self.site.timeout);
        } else if linger {
            let total = linger_total(&slot.conn);
            self.linger(handle, total);
        } else {
            self.close(handle);
        }
    }

    /// Half-closes, and drops what the client still sends for at most `total` (RFC 9112 section 9.6).
    pub(super) fn linger(&mut self, handle: Handle, total: Duration) {
        let socket = self.driver.descriptor(handle).as_raw_fd();
        if self.slots[handle.index()].ended || shutdown(socket, Shutdown::Write).is_err() {
            return self.close(handle);
        }
        self.set_state(handle, State::Lingering { until: self.now + total, bytes: 0 });
        self.set_deadline(handle, self.now + total.min(LINGER_READ));
        if !self.driver.is_receiving(handle) {
            self.driver.receive(handle, Shots::Many);
        }
    }

    /// Closes. A send under way is carried through, as long as the client takes it.
    pub(super) fn close(&mut self, handle: Handle) {
        self.set_state(handle, State::Closing);
        let slot = &mut self.slots[handle.index()];
        slot.behind = Vec::new();
        let sending = slot.sending;
        if self.driver.close(handle) {
            self.forget(handle);
        } else if sending {
            self.set_deadline(handle, self.now + self.site.timeout);
        } else {
            self.give_up_room(handle);
        }
    }

    /// The last operation on a closed connection has ended: its place is free.
    fn forget(&mut self, handle: Handle) {
        self.give_up_room(handle);
        self.count_as(handle, Place::Nowhere);
        self.slots[handle.index()] = Slot::vacant();
        self.open -= 1;
        self.server.add_open(-1);
    }

    fn give_up_room(&mut self, handle: Handle) {
        if std::mem::take(&mut self.slots[handle.index()].served) {
            self.served -= 1;
        }
    }

    fn timed_out(&mut self, handle: Handle) {
        let slot = &mut self.slots[handle.index()];
        match slot.state {
            State::Busy(task) => {
                let filling = slot.filling;
                with_mail(self.tasks.mail(task), |mail| {
                    if filling {
                        mail.timed_out = true;
                    } else {
                        mail.flushed = Some(Err(io::ErrorKind::TimedOut.into()));
                    }
                });
                self.run(handle, task);
            }
            State::Idle | State::Leaving { .. } => self.leave(handle, None),
            State::Lingering { .. } => self.close(handle),
            State::Closing => self.driver.stop_sending(handle),
            State::Newcomer | State::Vacant => {}
        }
    }

    fn set_state(&mut self, handle: Handle, state: State) {
        self.queues.leave(handle.index());
        let slot = &mut self.slots[handle.index()];
        slot.state = state;
        match state {
            State::Closing => slot.deadline = None,
            State::Idle => self.line_up(handle),
            _ => {}
        }
    }

    /// An idle connection to which nothing is being sent is among those that make room for others.
    pub(super) fn line_up(&mut self, handle: Handle) {
        let slot = &self.slots[handle.index()];
        if !slot.sending {
            let queue = if slot.conn.kept_alive > 0 { Queue::Kept } else { Queue::Silent };
            self.queues.enter(queue, handle.index());
        }
    }

    /// Sees to it that the scoreboard counts a connection where it belongs, now that work on it has paused.
    pub(super) fn recount(&mut self, handle: Handle) {
        self.count_as(handle, self.slots[handle.index()].waits_for());
    }

    fn count_as(&mut self, handle: Handle, place: Place) {
        let before = std::mem::replace(&mut self.slots[handle.index()].counted, place);
        if before != place {
            self.server.shift(before, place);
        }
    }

    pub(super) fn set_deadline(&mut self, handle: Handle, at: Moment) {
        self.slots[handle.index()].deadline = Some(at);
        self.deadlines.look_by(at, handle.index());
    }
}

/// The earlier one.
fn sooner(one: Option<Moment>, other: Option<Instant>) -> Option<Moment> {
    match other {
        Some(other) => Some(one.map_or(other.into(), |one| one.min(other.into()))),
        None => one,
    }
}

/// What a future waits for.
pub(super) enum Wants {
    /// Input, until then.
    Fill(Instant),
    /// That its queue was sent.
    Flush,
    /// A call that may wait for a disk.
    Disk,
}
