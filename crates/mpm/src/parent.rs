//! The parent: one thread that holds the listeners and never parses a request. It forks, reaps, keeps spares, takes
//! signals, and puts one generation of children in the place of another.
//!
//! A reload makes a new [`Line`] of children beside the current one. Only when a child of the new line accepts connections
//! are the old ones asked to end: until then a configuration that cannot work costs nothing but a message. Old lines drain
//! beside the current one, on scoreboards of their own, so that the new one may have any model and any limits.

use std::io;
use std::time::{Duration, Instant};

use manifold_sys::process::Ended as ChildEnded;
use manifold_sys::signal::Signal;

use crate::ending::{Escalation, Step};
use crate::generation::Generation;
use crate::ledger::{Ledger, Reload};
use crate::line::{COMES_UP_WITHIN, Line};
use crate::listeners::Listeners;
use crate::scoreboard::Scoreboard;
use crate::server::{self, Pulse};
use crate::status::Board;
use crate::system::{Request, Successor, System};

mod recast;
#[cfg(test)]
mod simulation;

/// Spare management, and everything else that is not caused by an event, happens this often.
const TICK: Duration = Duration::from_secs(1);
/// While something is about to come up or to end, the parent looks this often: no signal tells of it.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Generations that drain at the same time. When another reload comes, the oldest has to hurry.
const DRAINING_MAX: usize = 32;

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By TERM or INT.
    AtOnce,
    /// By WINCH (`-k graceful-stop`): connections in flight were finished.
    Gracefully,
    /// No child could run; the log says why.
    Failed,
}

/// The running server.
pub(crate) struct Parent<S> {
    system: S,
    listeners: Listeners,
    ledger: Ledger,
    current: Line,
    incoming: Option<Incoming>,
    draining: Vec<Draining>,
    succession: Option<Succession>,
    phase: Phase,
    tick: Instant,
    /// A reload that was asked for while another was under way.
    pending: Option<Reload>,
    generations: u64,
    in_force: bool,
    /// When the operator wants to hear that the parent is alive.
    beat: Option<Instant>,
    /// When the line that serves is to be made anew, to accept from sockets that it lacks.
    recast_at: Option<Instant>,
}

/// A line that takes over when it accepts connections.
struct Incoming {
    line: Line,
    listeners: Listeners,
    restart: Reload,
    give_up_at: Instant,
    /// It has the configuration of the line that serves.
    is_recast: bool,
}

/// A line that was replaced.
struct Draining {
    line: Line,
    since: Instant,
    /// Set when its patience is over.
    hurry: Option<Escalation>,
}

/// A new server that takes over when it serves.
struct Succession {
    pid: i32,
    give_up_at: Instant,
}

/// Where the server is in its life.
enum Phase {
    Serving,
    /// Every connection is finished, until then at most.
    Finishing {
        until: Option<Instant>,
    },
    /// Whatever is left is made to end.
    Reclaiming {
        escalation: Escalation,
        ended: Ended,
    },
}

impl<S: System> Parent<S> {
    /// A parent without children.
    pub fn new(listeners: Listeners, ledger: Ledger, generation: Generation, system: S) -> Parent<S> {
        let (now, generations) = (system.now(), generation.number);
        Parent {
            system,
            listeners,
            ledger,
            current: Line::new(generation, now),
            incoming: None,
            draining: Vec::new(),
            succession: None,
            phase: Phase::Serving,
            tick: now + TICK,
            pending: None,
            generations,
            in_force: false,
            beat: None,
            recast_at: None,
        }
    }

    /// Runs until a signal or a fatal child ends the server.
    pub fn run(mut self) -> io::Result<Ended> {
        self.start();
        loop {
            let until = self.next_look();
            self.system.wait_until(until)?;
            if let Some(ended) = self.step() {
                return Ok(ended);
            }
        }
    }

    /// The first children.
    pub fn start(&mut self) {
        self.take_sample();
        self.current.start(0, &mut self.system);
        self.current.messages.resuming();
        self.listeners.tell_unused();
    }

    /// When the parent wants to look again, even if nothing happens.
    pub fn next_look(&self) -> Instant {
        let latest = self.beat.map_or(self.tick, |beat| self.tick.min(beat));
        let something_comes = self.incoming.is_some() || self.succession.is_some() || !self.in_force;
        let hurries = matches!(self.phase, Phase::Reclaiming { .. });
        if something_comes || hurries {
            return latest.min(self.system.now() + LOOK_AGAIN);
        }
        latest.min(self.current.next_look())
    }

    /// Deals with everything that has happened; the server's end, when it has come.
    pub fn step(&mut self) -> Option<Ended> {
        while let Some(request) = self.system.next_request() {
            self.take(request);
        }
        while let Some((pid, ended)) = self.system.reap() {
            self.bury(pid, ended);
        }
        let now = self.system.now();
        self.look_at_what_comes_up(now);
        if now >= self.tick {
            self.tick = now + TICK;
            self.maintain(now);
        }
        if matches!(self.phase, Phase::Serving) {
            self.current.keep_spares(&mut self.system);
            if let Some(incoming) = &mut self.incoming {
                incoming.line.keep_spares(&mut self.system);
            }
        }
        self.beat = self.system.operator().beat(now);
        self.look_at_what_ends(now)
    }

    fn take(&mut self, request: Request) {
        let serving = matches!(self.phase, Phase::Serving);
        match request {
            Request::Stop => self.stop_at_once(Ended::AtOnce),
            // Asked twice, it is meant: a container's runtime does so before it kills.
            Request::GracefulStop if !serving => self.stop_at_once(Ended::Gracefully),
            Request::GracefulStop => self.stop_gracefully(),
            Request::Restart if serving => self.reload(Reload::Restart),
            Request::Graceful if serving => self.reload(Reload::Graceful),
            Request::Upgrade if serving => self.upgrade(),
            Request::Restart | Request::Graceful | Request::Upgrade => {}
        }
    }

    /// Once a second.
    fn maintain(&mut self, now: Instant) {
        let pulse = self.take_sample();
        self.system.operator().tick(pulse);
        self.current.remind(&mut self.system);
        self.current.give_up_starting(&mut self.system);
        let patience = self.current.generation.limits.graceful_shutdown_timeout;
        for draining in &mut self.draining {
            draining.line.remind(&mut self.system);
            let is_over = patience.is_some_and(|patience| now >= draining.since + patience);
            if is_over && draining.hurry.is_none() {
                draining.line.tell_holders(now - draining.since, &self.system);
                draining.hurry = Some(Escalation::begin(now));
            }
        }
    }

    /// The counts of this second, for the rates on the status page, and what they come to.
    fn take_sample(&self) -> Pulse {
        let lines = self.lines();
        let boards: Vec<&Scoreboard> = lines.map(|line| &line.generation.scoreboard).collect();
        self.ledger.sample(&boards, self.system.wall());
        let requests_per_second = self.ledger.account(&boards).rates.requests;
        Pulse {
            requests_per_second,
            busy: self.current.busy(),
            workers: self.current.workers(),
            draining: self.draining.len(),
        }
    }

    /// The scoreboards of all generations that are alive, the newest first.
    fn boards(&self) -> impl Iterator<Item = Board> {
        self.lines().map(|line| Board::of(&line.generation))
    }

    fn lines(&self) -> impl Iterator<Item = &Line> {
        let draining = self.draining.iter().rev().map(|draining| &draining.line);
        let incoming = self.incoming.iter().map(|incoming| &incoming.line);
        incoming.chain([&self.current]).chain(draining)
    }

    fn bury(&mut self, pid: i32, how: ChildEnded) {
        let is_serving = matches!(self.phase, Phase::Serving);
        if let Some(verdict) = self.current.bury(pid, how, is_serving, &mut self.system) {
            if is_serving && verdict.fails() {
                self.stop_at_once(Ended::Failed);
            }
            return;
        }
        if let Some(incoming) = &mut self.incoming
            && let Some(verdict) = incoming.line.bury(pid, how, true, &mut self.system)
        {
            if verdict.fails() {
                self.roll_back("its children cannot run");
            }
            return;
        }
        if self.succession.as_ref().is_some_and(|succession| succession.pid == pid) {
            self.succession = None;
            self.current.messages.successor_failed(&format!("it ended ({how:?})"));
            return;
        }
        // How a child of an old generation ends is told, and means nothing for the server.
        let system = &mut self.system;
        let _foreign = self.draining.iter_mut().find_map(|draining| draining.line.bury(pid, how, false, system));
    }
}

/// Reloading.
impl<S: System> Parent<S> {
    fn reload(&mut self, restart: Reload) {
        if self.incoming.is_some() || self.succession.is_some() {
            self.pending = self.pending.max(Some(restart));
            return;
        }
        self.current.messages.restarting(restart);
        let plan = match self.system.operator().reload() {
            Ok(plan) => plan,
            Err(why) => return self.refuse(&why),
        };
        let next = self.listeners.rebind(&plan.listen, plan.limits.listener_sets as usize).and_then(|listeners| {
            let generation =
                server::generation(self.generations + 1, plan, &listeners, &self.ledger, self.boards().collect())?;
            Ok((listeners, generation))
        });
        let (listeners, generation) = match next {
            Ok(next) => next,
            Err(error) => return self.refuse(&error.to_string()),
        };
        self.generations += 1;
        let now = self.system.now();
        let mut line = Line::new(generation, now);
        line.follows_a_reload();
        line.start(self.current.busy(), &mut self.system);
        let give_up_at = now + COMES_UP_WITHIN;
        self.incoming = Some(Incoming { line, listeners, restart, give_up_at, is_recast: false });
    }

    fn refuse(&mut self, why: &str) {
        self.current.messages.reload_refused(why);
        self.system.operator().refused(why);
    }

    /// A new generation that serves takes over; one that does not come up is given up.
    fn look_at_what_comes_up(&mut self, now: Instant) {
        if !self.in_force && self.current.is_running() {
            self.in_force = true;
            self.system.operator().in_force();
        }
        if self.incoming.as_ref().is_some_and(|incoming| incoming.line.is_running()) {
            self.promote(now);
        } else if self.incoming.as_ref().is_some_and(|incoming| incoming.line.is_empty()) {
            self.roll_back("none of its children stays alive");
        } else if self.incoming.as_ref().is_some_and(|incoming| now >= incoming.give_up_at) {
            self.roll_back("none of its children came up");
        }
        if let Some(Succession { pid, give_up_at }) = self.succession {
            if self.system.successor() == Successor::Ready {
                self.hand_over(pid);
            } else if now >= give_up_at {
                self.system.signal(pid, Signal::SIGKILL);
                self.succession = None;
                self.current.messages.successor_failed("it did not come up");
            }
        }
        if let Some(restart) = self.pending
            && self.incoming.is_none()
            && self.succession.is_none()
        {
            self.pending = None;
            if matches!(self.phase, Phase::Serving) {
                self.reload(restart);
            }
        }
        self.recast(now);
    }

    fn promote(&mut self, now: Instant) {
        let Some(Incoming { line, listeners, restart, is_recast, .. }) = self.incoming.take() else { return };
        self.listeners.shut_down_except(&listeners);
        self.listeners = listeners;
        let old = std::mem::replace(&mut self.current, line);
        old.ask_all_to_end(&mut self.system);
        let hurry = (restart == Reload::Restart).then(|| Escalation::begin(now));
        self.drain(Draining { line: old, since: now, hurry });
        self.ledger.reloaded(self.current.generation.number, restart, self.system.wall());
        self.recast_at = None;
        self.current.messages.resuming();
        self.listeners.tell_unused();
        self.in_force = true;
        if !is_recast {
            self.system.operator().in_force();
        }
    }

    fn roll_back(&mut self, why: &str) {
        let Some(Incoming { line, listeners, is_recast, .. }) = self.incoming.take() else { return };
        let now = self.system.now();
        if is_recast {
            self.current.messages.cannot_recast(why);
        } else {
            self.keep_sockets_of(listeners, now);
            self.refuse(why);
        }
        self.drain(Draining { line, since: now, hurry: Some(Escalation::begin(now)) });
    }

    fn drain(&mut self, draining: Draining) {
        if self.draining.len() >= DRAINING_MAX
            && let Some(oldest) = self.draining.iter_mut().find(|draining| draining.hurry.is_none())
        {
            oldest.hurry = Some(Escalation::begin(self.system.now()));
        }
        self.draining.push(draining);
    }

    fn upgrade(&mut self) {
        if self.incoming.is_some() || self.succession.is_some() {
            return self.current.messages.successor_failed("a reload or an upgrade is under way");
        }
        self.current.messages.upgrading();
        match self.system.start_successor(&mut self.listeners.sockets()) {
            Ok(pid) => {
                self.succession = Some(Succession { pid, give_up_at: self.system.now() + COMES_UP_WITHIN });
            }
            Err(error) => self.current.messages.successor_failed(&error.to_string()),
        }
    }

    /// The successor serves on the same sockets: they are closed here, not shut down.
    fn hand_over(&mut self, pid: i32) {
        self.succession = None;
        self.current.messages.replaced(pid);
        self.system.operator().replaced(pid);
        self.listeners = Listeners::default();
        self.finish();
    }
}

/// Ending.
impl<S: System> Parent<S> {
    fn stop_gracefully(&mut self) {
        self.current.messages.stopping_gracefully();
        let patience = self.current.generation.limits.graceful_shutdown_timeout;
        self.system.operator().stopping(patience.map(|patience| patience + Escalation::LONGEST));
        // Children hold the sockets as well. Shut down, they refuse connections at once, whoever holds them; merely closed
        // here, they would collect connections that nobody accepts until the last child has ended.
        self.listeners.shut_down_except(&Listeners::default());
        self.finish();
    }

    /// Every child finishes what it has; until `GracefulShutdownTimeout`, or a stronger signal, ends the patience.
    fn finish(&mut self) {
        let now = self.system.now();
        self.give_up_what_comes_up(now);
        self.current.ask_all_to_end(&mut self.system);
        let patience = self.current.generation.limits.graceful_shutdown_timeout;
        self.phase = Phase::Finishing { until: patience.map(|patience| now + patience) };
    }

    fn stop_at_once(&mut self, ended: Ended) {
        if matches!(self.phase, Phase::Reclaiming { .. }) {
            return;
        }
        if ended == Ended::AtOnce {
            self.current.messages.stopping_at_once();
        }
        self.system.operator().stopping(Some(Escalation::LONGEST));
        let now = self.system.now();
        self.give_up_what_comes_up(now);
        self.phase = Phase::Reclaiming { escalation: Escalation::begin(now), ended };
    }

    fn give_up_what_comes_up(&mut self, now: Instant) {
        if let Some(Incoming { line, .. }) = self.incoming.take() {
            self.draining.push(Draining { line, since: now, hurry: Some(Escalation::begin(now)) });
        }
        if let Some(Succession { pid, .. }) = self.succession.take() {
            self.system.signal(pid, Signal::SIGTERM);
        }
    }

    /// Presses what takes too long, and forgets what is gone.
    fn look_at_what_ends(&mut self, now: Instant) -> Option<Ended> {
        for Draining { line, hurry, .. } in &mut self.draining {
            if let Some((step, first)) = hurry.as_mut().and_then(|hurry| hurry.due(now)) {
                press(line, step, first, &mut self.system);
            }
        }
        let ledger = &self.ledger;
        self.draining.retain(|draining| {
            if draining.line.is_empty() {
                ledger.retire(&draining.line.generation.scoreboard);
            }
            !draining.line.is_empty()
        });
        let all_gone = self.draining.is_empty() && self.current.is_empty();
        match &mut self.phase {
            Phase::Serving => None,
            Phase::Finishing { .. } if all_gone => Some(Ended::Gracefully),
            Phase::Finishing { until } => {
                if until.is_some_and(|until| now >= until) {
                    self.current.tell_holders(Duration::ZERO, &self.system);
                    self.phase = Phase::Reclaiming { escalation: Escalation::begin(now), ended: Ended::Gracefully };
                }
                None
            }
            Phase::Reclaiming { ended, .. } if all_gone => Some(*ended),
            Phase::Reclaiming { escalation, ended } => {
                let (step, first) = escalation.due(now)?;
                for line in self.draining.iter().map(|draining| &draining.line).chain([&self.current]) {
                    press(line, step, first, &mut self.system);
                }
                (step == Step::GiveUp).then_some(*ended)
            }
        }
    }
}

fn press(line: &Line, step: Step, first: bool, system: &mut impl System) {
    for pid in line.pids() {
        match step {
            Step::Send(signal) => {
                if !first {
                    line.messages.still_there(pid, signal);
                }
                system.signal(pid, signal);
            }
            Step::GiveUp => line.messages.gave_up(pid),
        }
    }
}
