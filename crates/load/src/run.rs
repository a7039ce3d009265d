//! The closed loop of one thread: a fixed set of connections, each with at most one request under way.
//!
//! In the steady state a request costs one send and one receive; the waiting is shared by all connections that became ready together.
//! What happened is told to an [`Observer`]; the loop itself keeps no figures.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, sockopt};

use crate::connection::{Connection, End, KnownHead, Progress, Reading};
use crate::outcome::{Clock, Ended, Failure, Observer, Outcome, Verdict, nanoseconds};
use crate::plan::{Plan, Tickets, Timeout};
use crate::poller::{Event, Poller};

/// One read takes at most this much; larger answers take several.
const READ_BYTES: usize = 64 * 1024;
/// How often connections are looked through for expired requests.
const SWEEP: Duration = Duration::from_millis(100);
/// The token of the descriptor that interrupts the run.
const INTERRUPT: u64 = u64::MAX;

/// Runs `connections` connections of `plan` until it ends.
pub fn drive<O: Observer>(
    plan: &Plan,
    tickets: &Tickets,
    connections: usize,
    clock: Clock,
    interrupt: Option<BorrowedFd<'_>>,
    observer: O,
) -> Outcome<O> {
    let poller = match ready_poller(interrupt) {
        Ok(poller) => poller,
        Err(error) => {
            let ended_at = clock.now();
            return Outcome { observer, ended: Ended::System(error), ended_at, unfinished: Vec::new(), unserved: 0 };
        }
    };
    let reading = Reading { head_request: plan.head_request, keep_alive: plan.keep_alive, end: plan.end };
    let driver = Driver {
        plan,
        tickets,
        clock,
        observer,
        poller,
        slots: (0..connections).map(|_| Slot::new(reading)).collect(),
        buffer: vec![0; READ_BYTES],
        known: KnownHead::default(),
        paused: Vec::new(),
        active: 0,
        probing: plan.probe_first,
        address: 0,
        answered: false,
        optimistic: true,
        warming: !plan.warmup.is_zero(),
        ended: None,
    };
    driver.run()
}

fn ready_poller(interrupt: Option<BorrowedFd<'_>>) -> io::Result<Poller> {
    let poller = Poller::new()?;
    if let Some(descriptor) = interrupt {
        poller.watch_level(descriptor, INTERRUPT)?;
    }
    Ok(poller)
}

/// A place in the fixed set: a connection or the pause between two.
struct Slot {
    socket: Option<OwnedFd>,
    phase: Phase,
    connection: Connection,
    /// Bytes of the request sent.
    sent: usize,
    served: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Without a request: nothing is left to do, or nothing yet.
    Idle,
    /// With a request, waiting until this time to open a connection for it.
    Paused {
        until: u64,
    },
    Connecting,
    Sending,
    Receiving,
    /// The answer is complete; the server is to close.
    Closing,
}

impl Slot {
    fn new(reading: Reading) -> Slot {
        Slot { socket: None, phase: Phase::Idle, connection: Connection::new(reading), sent: 0, served: false }
    }
}

struct Driver<'p, O> {
    plan: &'p Plan,
    tickets: &'p Tickets,
    clock: Clock,
    observer: O,
    poller: Poller,
    slots: Vec<Slot>,
    buffer: Vec<u8>,
    known: KnownHead,
    /// Slots in [`Phase::Paused`].
    paused: Vec<usize>,
    /// Slots that are not idle.
    active: usize,
    /// Only the first slot runs yet.
    probing: bool,
    /// Index into the plan's addresses.
    address: usize,
    /// A response head has come from that address.
    answered: bool,
    /// Sending at once after connecting has worked so far (it does over loopback, where connecting takes no time).
    optimistic: bool,
    warming: bool,
    ended: Option<Ended>,
}

impl<O: Observer> Driver<'_, O> {
    fn run(mut self) -> Outcome<O> {
        let first = if self.probing { 1 } else { self.slots.len() };
        for index in 0..first {
            self.next(index);
        }
        self.turn_until_end();
        let ended_at = self.clock.now();
        let waiting = |slot: &&Slot| matches!(slot.phase, Phase::Connecting | Phase::Sending | Phase::Receiving);
        let age = |slot: &Slot| ended_at.saturating_sub(slot.connection.exchange.started);
        Outcome {
            unfinished: self.slots.iter().filter(waiting).map(age).collect(),
            unserved: self.slots.iter().filter(|slot| !slot.served).count() as u64,
            ended: self.ended.unwrap_or(Ended::Requests),
            ended_at,
            observer: self.observer,
        }
    }

    fn turn_until_end(&mut self) {
        let warm = nanoseconds(self.plan.warmup);
        let mut end = self.plan.stop.duration.map(|duration| warm.saturating_add(nanoseconds(duration)));
        let mut now = self.clock.now();
        let mut last_event = now;
        let mut next_sweep = now + nanoseconds(SWEEP);
        while self.ended.is_none() && self.active > 0 {
            if self.warming && now >= warm {
                self.open_window(now);
                end = self.plan.stop.duration.map(|duration| now.saturating_add(nanoseconds(duration)));
            }
            if end.is_some_and(|end| now >= end) {
                self.ended = Some(Ended::Duration);
                break;
            }
            let until = self.next_deadline(next_sweep, end, warm, last_event);
            let ready = match self.poller.wait(Duration::from_nanos(until.saturating_sub(now))) {
                Ok(ready) => ready,
                Err(error) => {
                    self.ended = Some(Ended::System(error));
                    break;
                }
            };
            for index in 0..ready {
                let event = self.poller.event(index);
                self.handle(event);
                if self.ended.is_some() {
                    return;
                }
            }
            now = self.clock.now();
            if ready > 0 {
                last_event = now;
            } else if let Timeout::Silence(limit) = self.plan.timeout
                && now.saturating_sub(last_event) >= nanoseconds(limit)
            {
                self.ended = Some(Ended::Silence);
            }
            if now >= next_sweep {
                self.sweep(now);
                next_sweep = now + nanoseconds(SWEEP);
            }
            if !self.paused.is_empty() {
                self.resume(now);
            }
        }
    }

    /// When the loop has to look up again even if nothing happens.
    fn next_deadline(&self, sweep: u64, end: Option<u64>, warm: u64, last_event: u64) -> u64 {
        let mut until = end.map_or(sweep, |end| sweep.min(end));
        if self.warming {
            until = until.min(warm);
        }
        if let Timeout::Silence(limit) = self.plan.timeout {
            until = until.min(last_event.saturating_add(nanoseconds(limit)));
        }
        for index in &self.paused {
            if let Phase::Paused { until: pause } = self.slots[*index].phase {
                until = until.min(pause);
            }
        }
        until
    }

    /// Requests of the warm-up had no ticket; those under way take one now and are the window's first.
    fn open_window(&mut self, now: u64) {
        self.warming = false;
        self.observer.window_opens(now);
        let carrying: Vec<usize> = (0..self.slots.len())
            .filter(|index| !matches!(self.slots[*index].phase, Phase::Idle | Phase::Closing))
            .collect();
        let tickets = self.tickets.take_up_to(carrying.len() as u64) as usize;
        for index in carrying.into_iter().skip(tickets) {
            self.go_idle(index);
        }
    }

    fn handle(&mut self, event: Event) {
        if event.token == INTERRUPT {
            self.ended = Some(Ended::Interrupted);
            return;
        }
        let index = event.token as usize;
        if matches!(self.slots[index].phase, Phase::Connecting | Phase::Sending) {
            self.send(index);
        }
        if !event.readable {
            return;
        }
        match self.slots[index].phase {
            Phase::Sending | Phase::Receiving => self.receive(index, event),
            Phase::Closing if event.ended => self.next(index),
            _ => {}
        }
    }

    /// Gives the slot its next request on a new connection, or lets it rest if there is none.
    fn next(&mut self, index: usize) {
        if self.slots[index].phase == Phase::Idle {
            self.active += 1;
        }
        if self.take_ticket() {
            self.connect(index);
        } else {
            self.go_idle(index);
        }
    }

    fn take_ticket(&self) -> bool {
        self.warming || self.tickets.take()
    }

    fn go_idle(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.socket = None;
        slot.phase = Phase::Idle;
        self.active -= 1;
    }

    fn connect(&mut self, index: usize) {
        let started = self.clock.now();
        let slot = &mut self.slots[index];
        slot.socket = None;
        slot.sent = 0;
        slot.phase = Phase::Connecting;
        slot.connection.begin(started, true);
        let address = self.plan.addresses[self.address.min(self.plan.addresses.len() - 1)];
        match open_socket(address, self.plan.local, self.plan) {
            Ok(socket) => slot.socket = Some(socket),
            Err(error) => return self.fail(index, Failure::Connect(error)),
        }
        // Over loopback the connection stands by now, although the call says that it is in progress.
        if self.optimistic {
            self.send(index);
            self.optimistic = self.slots[index].phase != Phase::Connecting;
        }
        if let Some(socket) = &self.slots[index].socket
            && let Err(error) = self.poller.watch(socket, index as u64)
        {
            self.ended = Some(Ended::System(error));
        }
    }

    /// Sends what is left of the request. On a connection that is being made the first successful send is the news that it stands.
    fn send(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(socket) = &slot.socket else { return };
        if slot.phase == Phase::Connecting {
            slot.connection.exchange.connected = self.clock.now();
        }
        while slot.sent < self.plan.request.len() {
            let sent = match socket::send(socket.as_raw_fd(), &self.plan.request[slot.sent..], MsgFlags::MSG_NOSIGNAL) {
                Ok(sent) => sent,
                // Connecting still, or the socket's buffer is full: writability will be reported.
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => continue,
                Err(error) if slot.phase == Phase::Connecting => return self.fail(index, Failure::Connect(error)),
                Err(_) if !slot.connection.exchange.fresh && slot.sent == 0 => {
                    return self.fail(index, Failure::ClosedReused);
                }
                Err(error) => return self.fail(index, Failure::Write(error)),
            };
            if slot.phase == Phase::Connecting {
                slot.phase = Phase::Sending;
                let exchange = &slot.connection.exchange;
                self.observer.opened(exchange.connected - exchange.started);
            }
            slot.sent += sent;
            slot.connection.exchange.sent += sent as u64;
        }
        slot.phase = Phase::Receiving;
        if O::TIMES_WRITING {
            slot.connection.exchange.wrote = self.clock.now();
        }
    }

    fn receive(&mut self, index: usize, event: Event) {
        loop {
            let slot = &mut self.slots[index];
            let Some(socket) = &slot.socket else { return };
            let received = match socket::recv(socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
                Ok(0) => return self.end_of_stream(index),
                Ok(received) => received,
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => continue,
                Err(error) => return self.fail(index, Failure::Receive(error)),
            };
            let now = self.clock.now();
            let observer = &mut self.observer;
            let answered = &mut self.answered;
            let progress = slot.connection.receive(&self.buffer[..received], now, &mut self.known, |bytes, head| {
                *answered = true;
                observer.head(bytes, head);
            });
            if self.probing && self.answered {
                self.start_others();
            }
            match progress {
                Progress::Complete { reusable } => return self.answer(index, now, reusable, event.ended),
                Progress::Malformed => return self.fail(index, Failure::Malformed),
                Progress::More if received == self.buffer.len() || event.broken => {}
                // A short read has emptied the socket. If the peer had sent its last byte by then, that was all.
                Progress::More if event.ended => return self.end_of_stream(index),
                Progress::More => return,
            }
        }
    }

    /// The answer is complete.
    fn answer(&mut self, index: usize, now: u64, reusable: bool, ended: bool) {
        let slot = &mut self.slots[index];
        let whole_request_sent = slot.phase == Phase::Receiving;
        slot.served = true;
        slot.connection.exchange.finished = now;
        if self.observer.completed(&slot.connection.exchange).is_break() {
            slot.phase = Phase::Closing;
            self.ended = Some(Ended::Observer);
        } else if reusable && whole_request_sent {
            self.next_on_same(index, now);
        } else if ended || !whole_request_sent || slot.connection.exchange.kept {
            self.next(index);
        } else {
            slot.phase = Phase::Closing;
        }
    }

    fn next_on_same(&mut self, index: usize, now: u64) {
        if !self.take_ticket() {
            return self.go_idle(index);
        }
        let slot = &mut self.slots[index];
        slot.sent = 0;
        slot.phase = Phase::Sending;
        slot.connection.begin(now, false);
        self.send(index);
    }

    fn end_of_stream(&mut self, index: usize) {
        let connection = &self.slots[index].connection;
        match connection.end_of_stream() {
            End::Complete => self.answer(index, self.clock.now(), false, true),
            End::Truncated => self.fail(index, Failure::Truncated),
            End::NoAnswer if connection.exchange.fresh => self.fail(index, Failure::NoAnswer),
            End::NoAnswer => self.fail(index, Failure::ClosedReused),
        }
    }

    /// The request has failed; its connection is closed. What follows begins with the next turn of the loop, never from here, so that
    /// a server that fails at once cannot make the stack grow.
    fn fail(&mut self, index: usize, failure: Failure) {
        let now = self.clock.now();
        let slot = &mut self.slots[index];
        slot.socket = None;
        slot.connection.exchange.finished = now;
        let refused = matches!(failure, Failure::Connect(_));
        let another_address = refused && !self.answered && self.address + 1 < self.plan.addresses.len();
        let verdict = if another_address {
            self.address += 1;
            Verdict::Retry
        } else {
            self.observer.failed(failure, &slot.connection.exchange)
        };
        match verdict {
            Verdict::Abort => {
                slot.phase = Phase::Closing;
                self.ended = Some(Ended::Observer);
            }
            Verdict::Count if !self.take_ticket() => self.go_idle(index),
            Verdict::Count | Verdict::Retry => {
                let pause = if refused && !another_address { nanoseconds(self.plan.connect_pause) } else { 0 };
                self.slots[index].phase = Phase::Paused { until: now.saturating_add(pause) };
                self.paused.push(index);
            }
        }
    }

    /// The first connection has shown that somebody is there.
    fn start_others(&mut self) {
        self.probing = false;
        for index in 1..self.slots.len() {
            self.next(index);
        }
    }

    /// Opens connections for slots whose pause is over.
    fn resume(&mut self, now: u64) {
        let due = |slot: &Slot| matches!(slot.phase, Phase::Paused { until } if until <= now);
        let paused = std::mem::take(&mut self.paused);
        for index in paused {
            if self.ended.is_some() {
                return;
            }
            if due(&self.slots[index]) {
                self.connect(index);
            } else if matches!(self.slots[index].phase, Phase::Paused { .. }) {
                self.paused.push(index);
            }
        }
    }

    /// Ends requests that have had their time.
    fn sweep(&mut self, now: u64) {
        let Timeout::Exchange(limit) = self.plan.timeout else { return };
        let limit = nanoseconds(limit);
        for index in 0..self.slots.len() {
            if self.ended.is_some() {
                return;
            }
            let exchange = &self.slots[index].connection.exchange;
            match self.slots[index].phase {
                Phase::Connecting | Phase::Sending | Phase::Receiving
                    if now.saturating_sub(exchange.started) > limit =>
                {
                    self.fail(index, Failure::Timeout);
                }
                Phase::Closing if now.saturating_sub(exchange.finished) > limit => self.next(index),
                _ => {}
            }
        }
    }
}

/// A nonblocking socket on its way to `address`.
fn open_socket(address: SocketAddr, local: Option<IpAddr>, plan: &Plan) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket::socket(family, SockType::Stream, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)?;
    if let Some(bytes) = plan.socket_buffer {
        socket::setsockopt(&socket, sockopt::SndBuf, &bytes)?;
        socket::setsockopt(&socket, sockopt::RcvBuf, &bytes)?;
    }
    if let Some(local) = local {
        socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(local, 0)))?;
    }
    match socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}
