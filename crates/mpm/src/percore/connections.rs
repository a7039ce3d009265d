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
use manifold_engine::transport::{Activity, Host, Next};
use nix::errno::Errno;
use nix::sys::socket::{Shutdown, shutdown};

use super::deadlines::Deadlines;
use super::driver::{Driver, Event, Handle, Readiness, Shots};
use super::slot::{INBOX_MAX, Slot, State, deliver, peer};
use super::tasks::Tasks;
use super::transport::with_mail;
use crate::blocking::{LINGER_READ, LINGER_TOTAL, send_front};
use crate::clock;
use crate::generation::Child;
use crate::host::ThreadHost;

/// Bytes of a large answer that one connection sends before the others get their turn.
const SHARE: u64 = 1024 * 1024;
/// Bytes of a lingering client that are dropped before it is cut off.
const LINGER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Something that happened to a descriptor that is no connection.
pub(super) enum Outside {
    /// See [`Event::Accepted`].
    Accepted { listener: Handle, connection: io::Result<Handle>, more: bool },
    /// Signals arrived.
    Signals,
}

/// All connections of the core.
pub(super) struct Connections<'a, D> {
    pub(super) driver: D,
    child: &'a Child<'a>,
    site: &'a Site,
    host: &'a ThreadHost<'a>,
    slots: Vec<Slot>,
    tasks: Tasks<'a>,
    deadlines: Deadlines,
    /// `MaxConnections`.
    max: usize,
    /// Connections that are served, and those that wait to be.
    served: usize,
    waiting: VecDeque<Handle>,
    admitted: u64,
    idle: u64,
    /// Connections that sent their share and go on next turn.
    unfinished: Vec<Handle>,
}

impl<'a, D: Driver> Connections<'a, D> {
    pub(super) fn new(driver: D, child: &'a Child<'a>, host: &'a ThreadHost<'a>) -> Connections<'a, D> {
        let site: &Site = &child.generation.site;
        let max = child.generation.limits.max_connections.max(1) as usize;
        let (tasks, deadlines) = (Tasks::new(site, host), Deadlines::default());
        let (slots, waiting, unfinished) = (Vec::new(), VecDeque::new(), Vec::new());
        let (served, admitted, idle) = (0, 0, 0);
        Connections {
            driver,
            child,
            site,
            host,
            slots,
            tasks,
            deadlines,
            max,
            served,
            waiting,
            admitted,
            idle,
            unfinished,
        }
    }

    /// Connections there are.
    pub(super) fn open(&self) -> usize {
        self.served + self.waiting.len()
    }

    /// Connections there ever were.
    pub(super) fn admitted(&self) -> u64 {
        self.admitted
    }

    pub(super) fn has_room(&self) -> bool {
        self.served < self.max && self.waiting.is_empty()
    }

    /// Takes over a connection that was accepted.
    pub(super) fn admit(&mut self, handle: Handle) {
        self.admitted += 1;
        self.child.worker(0).count_connection();
        self.child.server().add_open(1);
        if self.slots.len() <= handle.index() {
            self.slots.resize_with(handle.index() + 1, Slot::vacant);
        }
        if self.served < self.max {
            self.begin(handle);
        } else {
            self.slots[handle.index()].state = State::Queued;
            self.waiting.push_back(handle);
        }
    }

    /// Waits for the first request. One receive only: a connection that is closed after its answer has none under way then.
    fn begin(&mut self, handle: Handle) {
        self.served += 1;
        self.set_state(handle, State::Idle);
        match peer(self.driver.descriptor(handle).as_raw_fd()) {
            Some(peer) => self.slots[handle.index()].conn = Conn::new(peer),
            // It is gone already.
            None => return self.close(handle),
        }
        self.set_deadline(handle, clock::turn().now + self.site.timeout);
        self.driver.receive(handle, Shots::One);
    }

    /// Hands over to the kernel what was queued, and waits until something happens or a deadline comes.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        let now = clock::turn().now;
        let timeout = if self.unfinished.is_empty() {
            self.deadlines.next_due().map(|due| due.saturating_duration_since(now))
        } else {
            Some(Duration::ZERO)
        };
        if self.tasks.busy() == 0 {
            self.host.activity(Activity::Ready);
        }
        self.driver.wait(timeout)
    }

    /// Handles what happened to connections; returns what happened to other descriptors, then `None`.
    pub(super) fn handle_events(&mut self, signals: Handle) -> Option<Outside> {
        loop {
            match self.driver.next_event()? {
                Event::Received { handle, data, more } => {
                    let got = data.map(|bytes| {
                        deliver(&mut self.slots[handle.index()], &mut self.tasks, &mut self.idle, bytes);
                        bytes.len()
                    });
                    self.received(handle, got, more);
                }
                Event::Sent { handle, result } => self.sent(handle, result),
                Event::Ready { handle, .. } if handle == signals => return Some(Outside::Signals),
                Event::Ready { handle, .. } => {
                    self.slots[handle.index()].polling = false;
                    self.go_on(handle);
                }
                Event::Closed { handle } => self.forget(handle),
                Event::Accepted { listener, connection, more } => {
                    return Some(Outside::Accepted { listener, connection, more });
                }
            }
        }
    }

    /// Lets connections go on that had sent their share.
    pub(super) fn go_on_sending(&mut self) {
        for handle in std::mem::take(&mut self.unfinished) {
            self.go_on(handle);
        }
    }

    /// Looks after connections whose deadline has come; the turn ends.
    pub(super) fn expire(&mut self) {
        let now = clock::turn().now;
        while let Some((due, index)) = self.deadlines.pop(now) {
            let slot = &mut self.slots[index];
            if slot.queued_due != Some(due) {
                continue;
            }
            slot.queued_due = None;
            let handle = Handle::from_index(index);
            match slot.deadline {
                Some(at) if at > now => self.set_deadline(handle, at),
                Some(_) => {
                    slot.deadline = None;
                    self.timed_out(handle);
                }
                None => {}
            }
        }
        self.child.server().set_parked(self.idle);
    }

    /// Connections that never sent a byte are not waited for longer than those kept alive.
    pub(super) fn drain(&mut self) {
        let by = clock::turn().now + self.site.keep_alive_timeout;
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
        let slot = &mut self.slots[handle.index()];
        let ended = matches!(got, Ok(0) | Err(_)) && !stopped;
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
                let bytes = bytes + got.unwrap_or(0);
                if bytes > LINGER_BYTES_MAX {
                    return self.close(handle);
                }
                slot.state = State::Lingering { until, bytes };
                self.set_deadline(handle, until.min(clock::turn().now + LINGER_READ));
                if !more {
                    self.driver.receive(handle, Shots::Many);
                }
            }
            State::Idle if !more => self.driver.receive(handle, Shots::Many),
            State::Idle | State::Leaving { .. } | State::Closing | State::Queued | State::Vacant => {}
        }
    }

    /// A client that sends ahead of its answers is left waiting after a while.
    fn bound_inbox(&mut self, handle: Handle, task: usize) {
        let waiting = with_mail(self.tasks.mail(task), |mail| mail.inbox.len());
        if waiting > INBOX_MAX {
            self.driver.stop_receiving(handle);
        }
    }

    /// A send has ended.
    fn sent(&mut self, handle: Handle, result: io::Result<()>) {
        let slot = &mut self.slots[handle.index()];
        slot.sending = false;
        if result.is_ok() && !slot.behind.is_empty() {
            let behind = std::mem::replace(&mut slot.behind, self.driver.spare());
            self.driver.send(handle, behind, false);
            slot.sending = true;
            if let State::Busy(task) = slot.state {
                with_mail(self.tasks.mail(task), |mail| mail.behind = 0);
            }
            return;
        }
        slot.behind.clear();
        match (slot.state, result) {
            (State::Idle, Ok(())) => self.set_deadline(handle, clock::turn().now + self.site.keep_alive_timeout),
            (State::Leaving { linger: true }, Ok(())) => self.linger(handle),
            (State::Busy(task), Err(error)) => {
                with_mail(self.tasks.mail(task), |mail| mail.flushed = Some(Err(error)));
                self.go_on(handle);
            }
            (State::Busy(_), Ok(())) => self.go_on(handle),
            (State::Idle | State::Leaving { .. }, _) => self.close(handle),
            (State::Lingering { .. } | State::Closing | State::Queued | State::Vacant, _) => {}
        }
    }

    /// Goes on with the large answer of a connection, if it has one under way.
    fn go_on(&mut self, handle: Handle) {
        if let State::Busy(task) = self.slots[handle.index()].state
            && with_mail(self.tasks.mail(task), |mail| mail.flush.is_some())
            && self.flush(handle, task)
        {
            self.run(handle, task);
        }
    }

    /// Lets the future of a connection go on until it waits for something, and sees to it that this will come.
    fn run(&mut self, handle: Handle, task: usize) {
        self.slots[handle.index()].filling = false;
        loop {
            self.tasks.poll(task);
            match self.collect(handle, task) {
                Wants::Leave(conn, result) => {
                    self.slots[handle.index()].conn = conn;
                    if self.finish(handle, task, result) {
                        return;
                    }
                }
                Wants::Flush => {
                    if !self.flush(handle, task) {
                        return;
                    }
                }
                Wants::Fill(by) => {
                    self.slots[handle.index()].filling = true;
                    self.set_deadline(handle, by);
                    if !self.driver.is_receiving(handle) {
                        self.driver.receive(handle, Shots::Many);
                    }
                    return;
                }
            }
        }
    }

    /// Takes out of a future's mail what it left there.
    fn collect(&mut self, handle: Handle, task: usize) -> Wants {
        let (slot, driver) = (&mut self.slots[handle.index()], &mut self.driver);
        with_mail(self.tasks.mail(task), |mail| {
            if !mail.staged.is_empty() {
                if !slot.sending {
                    let staged = std::mem::replace(&mut mail.staged, driver.spare());
                    driver.send(handle, staged, mail.flush.is_some());
                    slot.sending = true;
                } else {
                    slot.behind.append(&mut mail.staged);
                    mail.behind = slot.behind.len();
                }
            }
            if let Some((conn, result)) = mail.done.take() {
                return Wants::Leave(conn, result);
            }
            match mail.fill_by.take() {
                Some(by) => Wants::Fill(by),
                None => Wants::Flush,
            }
        })
    }

    /// Sends what a future has queued, a share at a time. Returns whether that has ended and the future can go on.
    fn flush(&mut self, handle: Handle, task: usize) -> bool {
        let mail = self.tasks.mail(task);
        let Some((mut queue, mut by)) = with_mail(mail, |mail| mail.flush.take()) else { return true };
        let mut result = with_mail(mail, |mail| mail.flushed.take());
        let slot = &mut self.slots[handle.index()];
        let mut share = SHARE;
        // What was sent behind the engine's back comes first; its end lets this go on.
        while result.is_none() && !slot.sending {
            match send_front(&self.driver.descriptor(handle), &queue) {
                Ok(sent) => {
                    let sent = sent.unwrap_or(0);
                    queue.advance(sent);
                    share = share.saturating_sub(sent);
                    by = clock::turn().now + self.site.timeout;
                    if queue.is_empty() {
                        result = Some(Ok(()));
                    } else if share == 0 {
                        self.unfinished.push(handle);
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !slot.polling {
                        slot.polling = true;
                        self.driver.poll(handle, Readiness::Writable);
                    }
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => result = Some(Err(error)),
            }
        }
        let ended = result.is_some();
        if !ended {
            self.set_deadline(handle, by);
        }
        with_mail(mail, |mail| (mail.flush, mail.flushed) = (Some((queue, by)), result));
        ended
    }

    /// A future has left its connection. `false` when the next request is there already.
    fn finish(&mut self, handle: Handle, task: usize, result: io::Result<Next>) -> bool {
        let conn = self.slots[handle.index()].conn;
        let kept = matches!(result, Ok(Next::KeepAlive));
        let again = with_mail(self.tasks.mail(task), |mail| {
            let again = kept && !mail.inbox.is_empty();
            if again {
                mail.job = Some(conn);
            } else {
                mail.forget();
            }
            again
        });
        if again {
            return false;
        }
        self.tasks.give_back(task);
        let slot = &self.slots[handle.index()];
        let wait = if slot.sending { self.site.timeout } else { self.site.keep_alive_timeout };
        if !kept || slot.ended {
            self.leave(handle, result.ok());
            return true;
        }
        self.set_state(handle, State::Idle);
        self.set_deadline(handle, clock::turn().now + wait);
        if !self.driver.is_receiving(handle) {
            self.driver.receive(handle, Shots::Many);
        }
        true
    }

    /// Ends a connection, after what is still to be sent; `None` is one that broke or took too long.
    fn leave(&mut self, handle: Handle, how: Option<Next>) {
        let slot = &mut self.slots[handle.index()];
        let linger = how == Some(Next::Linger) && !slot.ended;
        if how.is_none() {
            if slot.sending {
                self.driver.stop_sending(handle);
            }
            self.close(handle);
        } else if slot.sending && (linger || !slot.behind.is_empty()) {
            self.set_state(handle, State::Leaving { linger });
            self.set_deadline(handle, clock::turn().now + self.site.timeout);
        } else if linger {
            self.linger(handle);
        } else {
            self.close(handle);
        }
    }

    /// Half-closes, and drops what the client still sends (RFC 9112 section 9.6).
    fn linger(&mut self, handle: Handle) {
        let socket = self.driver.descriptor(handle).as_raw_fd();
        if self.slots[handle.index()].ended || shutdown(socket, Shutdown::Write).is_err() {
            return self.close(handle);
        }
        let now = clock::turn().now;
        self.set_state(handle, State::Lingering { until: now + LINGER_TOTAL, bytes: 0 });
        self.set_deadline(handle, now + LINGER_READ);
        if !self.driver.is_receiving(handle) {
            self.driver.receive(handle, Shots::Many);
        }
    }

    /// Closes. A send under way is carried through, as long as the client takes it.
    fn close(&mut self, handle: Handle) {
        self.set_state(handle, State::Closing);
        let slot = &mut self.slots[handle.index()];
        slot.behind = Vec::new();
        let sending = slot.sending;
        if self.driver.close(handle) {
            self.forget(handle);
        } else if sending {
            self.set_deadline(handle, clock::turn().now + self.site.timeout);
        }
    }

    /// The last operation on a closed connection has ended: its place is free.
    fn forget(&mut self, handle: Handle) {
        self.set_state(handle, State::Vacant);
        let slot = &mut self.slots[handle.index()];
        // The entry among the deadlines stays, and is used by the connection that takes the place.
        *slot = Slot { queued_due: slot.queued_due, ..Slot::vacant() };
        self.served -= 1;
        self.child.server().add_open(-1);
        if let Some(next) = self.waiting.pop_front() {
            self.begin(next);
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
            State::Queued | State::Vacant => {}
        }
    }

    fn set_state(&mut self, handle: Handle, state: State) {
        let before = std::mem::replace(&mut self.slots[handle.index()].state, state);
        match before {
            State::Idle => self.idle -= 1,
            State::Lingering { .. } => self.child.server().add_lingering(-1),
            _ => {}
        }
        match state {
            State::Idle => self.idle += 1,
            State::Lingering { .. } => self.child.server().add_lingering(1),
            State::Closing | State::Vacant => self.slots[handle.index()].deadline = None,
            _ => {}
        }
    }

    fn set_deadline(&mut self, handle: Handle, at: Instant) {
        let slot = &mut self.slots[handle.index()];
        slot.deadline = Some(at);
        if slot.queued_due.is_none_or(|due| due > at) {
            slot.queued_due = Some(at);
            self.deadlines.push(at, handle.index());
        }
    }
}

/// What a future waits for.
enum Wants {
    /// Input, until then.
    Fill(Instant),
    /// That its queue was sent.
    Flush,
    /// Nothing: it has left its connection.
    Leave(Conn, io::Result<Next>),
}
