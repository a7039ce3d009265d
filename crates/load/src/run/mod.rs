//! The loop of one thread: connections that carry one request at a time, begun by each other's ends (closed loop) or by a schedule (open
//! loop).
//!
//! What happened is told to an [`Observer`]; the loop itself keeps no figures but those of its own health. `slots.rs` is the life of a
//! connection. What is due in an open loop and finds no connection free is not stored: the schedule waits, so that memory does not grow
//! with what a slow server leaves waiting.

mod health;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod simulation_h2;
mod slots;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use manifold_stats::Rng;

use crate::alarm::Alarm;
use crate::connection::{Connection, KnownHead, Reading};
use crate::outcome::{Clock, Ended, Observer, Outcome, Time, Unsent, Vitals, nanoseconds};
use crate::plan::{Picker, Plan, PollerKind, Protocol, Tickets, Timeout};
use crate::schedule::{Coming, Pace, Schedule, Think};
use crate::wire::{Epoll, Multiplexed, Tls, Uring, Wire, slots_below};

pub use health::{Health, LATE_NS};

/// How often connections are looked through for expired requests.
const SWEEP: Duration = Duration::from_millis(100);
/// An open loop's schedule begins this long after the run, so that all threads are there.
const LEAD_IN: Duration = Duration::from_millis(20);
/// A request that the server refuses without looking at it is made again, so many times at most.
const REFUSALS_MAX: u32 = 100;
/// So many scheduled requests begin before it is looked what has happened meanwhile.
const DISPATCH_MAX: usize = 128;

/// Scheduled requests that were never begun are counted up to this many, which takes half a second.
const UNSENT_MAX: u64 = 50_000_000;

/// What one thread of a run has to do.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Its number, from 0, and how many there are.
    pub thread: u32,
    /// See `thread`.
    pub threads: u32,
    /// Its connections.
    pub connections: usize,
}

/// Runs one thread's share of `plan` until it ends. All threads have the same clock.
pub fn drive_share<O: Observer>(
    plan: &Plan,
    tickets: &Tickets,
    share: Share,
    clock: Clock,
    interrupt: Option<BorrowedFd<'_>>,
    observer: O,
) -> Outcome<O> {
    let slots = match plan.protocol {
        Protocol::Http1 => share.connections,
        Protocol::Http2 { streams } => {
            slots_below(share.connections * streams, share.connections, plan.endpoints.len())
        }
    };
    // A ring's wait of no time takes ten microseconds, an epoll's 0.15: what is due at a moment is waited for in epoll.
    if plan.poller == PollerKind::Ring
        && matches!(plan.pace, Pace::Closed(_))
        && let Ok(wire) = Uring::new(slots, interrupt)
    {
        return drive_over(wire, slots, plan, tickets, share, clock, observer);
    }
    match Epoll::new(slots, interrupt, plan.pace.is_open()) {
        Ok(wire) => drive_over(wire, slots, plan, tickets, share, clock, observer),
        Err(error) => Outcome {
            observer,
            ended: Ended::System(error),
            ended_at: clock.now(),
            unfinished: Vec::new(),
            unsent: Unsent::default(),
            unserved: 0,
            health: Health::default(),
        },
    }
}

/// With TLS and HTTP/2 around the wire only where they are wanted, so that they cost nothing elsewhere.
fn drive_over<'p, O: Observer, W: Wire<'p> + 'p>(
    wire: W,
    slots: usize,
    plan: &'p Plan,
    tickets: &'p Tickets,
    share: Share,
    clock: Clock,
    observer: O,
) -> Outcome<O> {
    let secured = plan.endpoints.iter().any(|endpoint| endpoint.tls.is_some());
    if let Protocol::Http2 { streams } = plan.protocol {
        let (connections, servers) = (share.connections, plan.endpoints.len());
        let below: Box<dyn Wire<'p> + 'p> = if secured { Box::new(Tls::new(wire, slots)) } else { Box::new(wire) };
        let wire = Multiplexed::new(below, connections * streams, connections, servers, O::READS_HEADS);
        return Driver::new(plan, tickets, share, clock, wire, observer).run();
    }
    if secured {
        let wire = Tls::new(wire, slots);
        return Driver::new(plan, tickets, share, clock, wire, observer).run();
    }
    Driver::new(plan, tickets, share, clock, wire, observer).run()
}

/// A place in the fixed set: a connection or the pause between two.
struct Slot {
    phase: Phase,
    /// There is a connection, or one is being made.
    open: bool,
    /// Where to.
    endpoint: usize,
    /// Where the next request is in the list, if connections go through it in turn.
    cursor: usize,
    /// Since when it has been free.
    free_since: u64,
    connection: Connection,
    served: bool,
    /// Its connection was begun for its request, and not for another slot's.
    opens: bool,
    /// So many times the server has refused its request.
    refusals: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Without a request: in a closed loop nothing is left to do, or nothing yet; in an open one the schedule may choose it.
    Idle,
    /// Without a request, until it takes one at this time.
    Resting {
        until: u64,
    },
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

impl Phase {
    /// There is a request without a complete answer.
    fn is_under_way(self) -> bool {
        matches!(self, Phase::Connecting | Phase::Sending | Phase::Receiving)
    }
}

/// An open loop's schedule and who can serve it.
struct Open {
    coming: Coming,
    /// When the next request is due; `None` after the last.
    due: Option<u64>,
    /// Which one that is, if the schedule says so.
    request: Option<u32>,
    /// Slots without a request, the one that has been free longest first.
    free: VecDeque<usize>,
}

/// A server as this thread knows it.
#[derive(Clone, Copy, Default)]
struct Server {
    /// Which of its addresses is connected to.
    address: usize,
    /// A response head has come from that address.
    answered: bool,
}

/// When things are to happen, in nanoseconds.
struct Moments {
    /// The measured window is to open.
    window: u64,
    /// No request begins from here on.
    end: Option<u64>,
    /// What is not over by then is given up.
    last: Option<u64>,
    sweep: u64,
    last_event: u64,
}

struct Driver<'p, O, W, T> {
    plan: &'p Plan,
    tickets: &'p Tickets,
    clock: T,
    observer: O,
    wire: W,
    slots: Vec<Slot>,
    servers: Vec<Server>,
    known: KnownHead,
    /// Slots that rest or pause, by the end of that; entries whose slot says otherwise by then mean nothing.
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    open: Option<Open>,
    think: Think,
    picker: Picker,
    rng: Rng,
    /// The last one taken.
    ticket: u64,
    /// Slots that are not idle.
    active: usize,
    /// How many connections were opened, to choose local addresses in turn.
    opened: usize,
    /// Only the first connection is open so far.
    probing: bool,
    warming: bool,
    /// The window has closed.
    draining: bool,
    moments: Moments,
    alarm: Alarm,
    health: Health,
    ended: Option<Ended>,
}

impl<'p, O: Observer, W: Wire<'p>, T: Time> Driver<'p, O, W, T> {
    fn new(plan: &'p Plan, tickets: &'p Tickets, share: Share, clock: T, wire: W, observer: O) -> Self {
        let reading = Reading { head_request: false, keep_alive: plan.keep_alive, end: plan.end };
        let places = plan.requests.len();
        let streams = plan.protocol.streams();
        let slots = share.connections * streams;
        let slot = |index: usize| Slot {
            phase: Phase::Idle,
            open: false,
            endpoint: 0,
            cursor: (index * share.threads as usize + share.thread as usize) * places
                / (plan.connections * streams).max(1)
                % places,
            opens: false,
            refusals: 0,
            free_since: 0,
            connection: Connection::new(reading),
            served: false,
        };
        let lead_in = nanoseconds(LEAD_IN);
        let (coming, think) = match &plan.pace {
            Pace::Closed(think) => (None, *think),
            Pace::Open { stages, arrivals } => {
                let schedule = Schedule::new(stages, *arrivals, share.thread, share.threads, plan.seed);
                (Some(Coming::Staged(schedule)), Think::Never)
            }
            Pace::Listed(list) => {
                let (place, threads) = (share.thread as usize, share.threads.max(1) as usize);
                (Some(Coming::Listed { list: list.clone(), place, threads }), Think::Never)
            }
        };
        let free = || (0..slots).collect();
        let open = coming.map(|coming| Open { coming, due: None, request: None, free: free() });
        let begins = if open.is_some() { lead_in } else { 0 };
        let window = begins.saturating_add(nanoseconds(plan.warmup));
        let end = plan.stop.duration.map(|duration| window.saturating_add(nanoseconds(duration)));
        let last = end.map(|end| end.saturating_add(nanoseconds(plan.drain)));
        Driver {
            plan,
            tickets,
            clock,
            observer,
            wire,
            slots: (0..slots).map(slot).collect(),
            servers: vec![Server::default(); plan.endpoints.len()],
            known: KnownHead::default(),
            timers: BinaryHeap::new(),
            warming: open.is_some() || !plan.warmup.is_zero(),
            open,
            think,
            picker: Picker::new(&plan.requests),
            rng: Rng::new(plan.seed.wrapping_add(u64::from(share.thread)).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            ticket: 0,
            active: 0,
            opened: share.thread as usize,
            probing: plan.probe_first,
            draining: false,
            moments: Moments { window, end, last, sweep: 0, last_event: 0 },
            alarm: Alarm::default(),
            health: Health::default(),
            ended: None,
        }
    }

    fn run(mut self) -> Outcome<O> {
        let now = self.clock.now();
        if self.open.is_some() {
            // The system may delay what we wait for by 50 microseconds otherwise; where it refuses, the alarm makes up for it.
            let _refused = nix::sys::prctl::set_timerslack(1);
            self.next_arrival();
        } else {
            let first = if self.probing { 1 } else { self.slots.len() };
            for index in 0..first {
                self.begin_slot(index, now);
            }
        }
        self.turn_until_end(now);
        let ended_at = self.clock.now();
        let mut unfinished = Vec::new();
        for slot in self.slots.iter().filter(|slot| slot.phase.is_under_way()) {
            self.observer.unfinished(&slot.connection.exchange);
            unfinished.push(ended_at.saturating_sub(slot.connection.exchange.intended));
        }
        Outcome {
            unfinished,
            unserved: self.slots.iter().filter(|slot| !slot.served).count() as u64,
            unsent: self.unsent(ended_at),
            ended: self.ended.unwrap_or(Ended::Requests),
            ended_at,
            observer: self.observer,
            health: self.health,
        }
    }

    /// In a closed loop with a ramp connections begin one after the other.
    fn begin_slot(&mut self, index: usize, now: u64) {
        let after = u128::from(nanoseconds(self.plan.ramp_up)) * index as u128 / self.slots.len() as u128;
        if after == 0 {
            self.next(index);
        } else {
            self.active += 1;
            self.rest(index, now.saturating_add(after as u64));
        }
    }

    fn turn_until_end(&mut self, mut now: u64) {
        self.moments.sweep = now + nanoseconds(SWEEP);
        self.moments.last_event = now;
        loop {
            self.pass_moments(now);
            self.resume(now);
            self.dispatch(now);
            if self.ended.is_some() || self.is_done() {
                return;
            }
            let (until, precise) = self.next_moment();
            let sleep = if self.open.is_some() && self.plan.awake {
                0
            } else if precise {
                self.alarm.sleep(now, until)
            } else {
                until.saturating_sub(now)
            };
            let happened = match self.wire.wait(Duration::from_nanos(sleep)) {
                Ok(happened) => happened,
                Err(error) => {
                    self.ended = Some(Ended::System(error));
                    return;
                }
            };
            let woken = self.clock.now();
            if happened {
                self.handle_all();
                now = self.clock.now();
                self.moments.last_event = now;
                self.health.turned(now - woken);
                if self.ended.is_some() {
                    return;
                }
                continue;
            }
            if sleep == 0 {
                self.health.waited_awake(woken - now);
            } else if precise {
                self.alarm.woke(now + sleep, woken);
            }
            now = woken;
            if let Timeout::Silence(limit) = self.plan.timeout
                && now.saturating_sub(self.moments.last_event) >= nanoseconds(limit)
            {
                self.ended = Some(Ended::Silence);
            }
        }
    }

    /// Whether nothing is left to do.
    fn is_done(&self) -> bool {
        self.active == 0 && self.open.as_ref().is_none_or(|open| open.due.is_none())
    }

    /// Does what is to be done at certain times, of those whose time has come.
    fn pass_moments(&mut self, now: u64) {
        if self.warming && now >= self.moments.window {
            self.open_window(now);
        }
        if let Some(end) = self.moments.end
            && now >= end
            && !self.draining
        {
            self.draining = true;
            self.observer.window_closes(end);
        }
        if self.moments.last.is_some_and(|last| now >= last) {
            self.ended = Some(Ended::Duration);
        }
        if now >= self.moments.sweep {
            self.sweep(now);
            self.tick(now);
            self.moments.sweep = now + nanoseconds(SWEEP);
        }
    }

    fn tick(&mut self, now: u64) {
        let (slots, health) = (&self.slots, &self.health);
        self.observer.tick(now, || Vitals {
            open: slots.iter().filter(|slot| slot.open).count() as u64,
            under_way: slots.iter().filter(|slot| slot.phase.is_under_way()).count() as u64,
            begun: health.lag.count(),
            late: health.late,
            short_of_connections: health.short_of_connections,
            longest_turn: health.turns.max,
            awake: health.awake,
        });
    }

    /// When the loop has to look up again even if nothing happens, and whether it must not be late.
    fn next_moment(&self) -> (u64, bool) {
        let mut until = self.moments.sweep;
        if self.warming {
            until = until.min(self.moments.window);
        }
        let next_end = if self.draining { self.moments.last } else { self.moments.end };
        until = next_end.map_or(until, |end| until.min(end));
        if let Timeout::Silence(limit) = self.plan.timeout {
            until = until.min(self.moments.last_event.saturating_add(nanoseconds(limit)));
        }
        if let Some(Reverse((at, _))) = self.timers.peek() {
            until = until.min(*at);
        }
        match &self.open {
            Some(Open { due: Some(due), free, .. }) if !free.is_empty() && *due <= until => (*due, true),
            _ => (until, false),
        }
    }

    /// Requests of the warm-up had no ticket. In a closed loop those under way take one now and are the window's first.
    fn open_window(&mut self, now: u64) {
        self.warming = false;
        self.health = Health::default();
        if self.open.is_some() {
            return self.observer.window_opens(self.moments.window);
        }
        self.moments.window = now;
        self.moments.end = self.plan.stop.duration.map(|duration| now.saturating_add(nanoseconds(duration)));
        self.moments.last = self.moments.end.map(|end| end.saturating_add(nanoseconds(self.plan.drain)));
        self.observer.window_opens(now);
        let carrying: Vec<usize> = (0..self.slots.len())
            .filter(|index| !matches!(self.slots[*index].phase, Phase::Idle | Phase::Resting { .. } | Phase::Closing))
            .collect();
        let tickets = self.tickets.take_up_to(carrying.len() as u64) as usize;
        for index in carrying.into_iter().skip(tickets) {
            self.go_idle(index);
        }
    }

    /// Begins the scheduled requests that are due, as far as there are connections free.
    fn dispatch(&mut self, now: u64) {
        for _ in 0..DISPATCH_MAX {
            let Some(open) = &mut self.open else { return };
            let Some(due) = open.due.filter(|due| *due <= now) else { return };
            let Some(index) = open.free.pop_front() else { return };
            // Those of the window begin after it was opened, with tickets.
            if self.ended.is_some() || self.warming && due >= self.moments.window {
                return open.free.push_front(index);
            }
            if !self.take_ticket() {
                self.open.as_mut().expect("it is an open loop").due = None;
                return;
            }
            let request = self.open.as_ref().and_then(|open| open.request);
            let number = request.map_or_else(|| self.choose(index), |request| request as usize);
            let begins = self.clock.now();
            self.health.dispatched(due, self.slots[index].free_since, begins);
            self.active += 1;
            self.begin_request(index, number, due, begins);
            self.next_arrival();
        }
    }

    fn next_arrival(&mut self) {
        let end = self.moments.end.unwrap_or(u64::MAX);
        if let Some(open) = &mut self.open {
            let lead_in = nanoseconds(LEAD_IN);
            let next = open.coming.next();
            open.due = next.map(|(at, _)| at.saturating_add(lead_in)).filter(|due| *due < end);
            open.request = next.and_then(|(_, request)| request);
        }
    }

    /// What was due but never begun.
    fn unsent(&mut self, ended_at: u64) -> Unsent {
        let mut unsent = Unsent::default();
        while let Some(due) = self.open.as_ref().and_then(|open| open.due).filter(|due| *due < ended_at)
            && unsent.count < UNSENT_MAX
        {
            unsent.count += 1;
            unsent.oldest = unsent.oldest.max(ended_at - due);
            self.observer.unsent(due);
            self.next_arrival();
        }
        unsent
    }

    fn take_ticket(&mut self) -> bool {
        if self.draining_closed() {
            return false;
        }
        if self.warming {
            return true;
        }
        let ticket = self.tickets.take();
        self.ticket = ticket.unwrap_or(self.ticket);
        ticket.is_some()
    }

    /// No request begins any more, except those of a schedule that were due before.
    fn draining_closed(&self) -> bool {
        self.draining && self.open.is_none()
    }
}
