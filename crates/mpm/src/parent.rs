//! The parent: one thread that holds the listeners and never parses a request. It forks, reaps, keeps spares and takes
//! signals; everything it waits for comes through one descriptor and one tick a second.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use manifold_sys::process::{self, Ended as ChildEnded};
use manifold_sys::signal::{self, Signal, Signals};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Shutdown, shutdown};

use crate::child;
use crate::generation::{Child, Generation};
use crate::health::{End, Health};
use crate::limits::Model;
use crate::messages::Messages;
use crate::scoreboard::{ServerState, Status};
use crate::spare::{Census, Order, SetCensus, SpareManager};

/// What is not caused by an event happens this often; spares are looked at as often, or as their manager asks for.
const TICK: Duration = Duration::from_secs(1);
/// While stopping, stragglers get another TERM at these seconds, then KILL, then are given up (Apache's
/// `ap_reclaim_child_processes`).
const TERM_AGAIN_SECONDS: [u64; 3] = [3, 5, 7];
const KILL_SECOND: u64 = 9;
const GIVE_UP_SECOND: u64 = 10;

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
pub(crate) struct Parent {
    generation: Generation,
    signals: Signals,
    spares: SpareManager,
    messages: &'static Messages,
    health: Health,
    failed: bool,
    started: Instant,
}

impl Parent {
    /// Collects the parent's signals.
    pub fn new(generation: Generation) -> io::Result<Parent> {
        use Signal::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGWINCH};
        let signals = Signals::collect(&[SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGWINCH, SIGCHLD])?;
        let messages = Messages::of(generation.limits.model);
        let spares = SpareManager::default();
        let health = Health::default();
        Ok(Parent { generation, signals, spares, messages, health, failed: false, started: Instant::now() })
    }

    /// Runs until a signal or a fatal child ends the server.
    pub fn run(mut self) -> io::Result<Ended> {
        let sets = self.generation.listeners.len();
        for child in 0..self.spares.start_size(&self.generation.limits) {
            self.fork_one(child as usize % sets);
        }
        self.messages.resuming();
        let mut tick = Instant::now() + TICK;
        let mut look = tick;
        loop {
            self.wait_until(tick.min(look))?;
            if let Some(ended) = self.take_signals() {
                self.stop(ended)?;
                return Ok(ended);
            }
            self.reap();
            if self.failed {
                self.stop(Ended::AtOnce)?;
                return Ok(Ended::Failed);
            }
            if Instant::now() >= tick {
                tick = Instant::now() + TICK;
                self.remind_quiescing();
            }
            if Instant::now() >= look {
                self.keep_spares();
                look = Instant::now() + self.spares.next_look();
            }
        }
    }

    fn wait_until(&self, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        // Rounded up, so that the wait does not end a moment before its time again and again.
        let milliseconds = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
        match poll(&mut [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)], PollTimeout::from(milliseconds)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn take_signals(&mut self) -> Option<Ended> {
        while let Some((signal, sender)) = self.signals.next() {
            match signal {
                Signal::SIGTERM | Signal::SIGINT => return Some(Ended::AtOnce),
                // A terminal that is resized sends the same signal, with no process behind it.
                Signal::SIGWINCH if sender != 0 => return Some(Ended::Gracefully),
                Signal::SIGHUP | Signal::SIGUSR1 => self.messages.no_reload(),
                _ => {}
            }
        }
        None
    }

    fn keep_spares(&mut self) {
        let census = self.census();
        let total = census.total();
        self.health.tick(total.processes > total.starting);
        for order in self.spares.decide(&census, &self.generation.limits) {
            self.obey(order, &census);
        }
    }

    fn obey(&mut self, order: Order, census: &Census) {
        match order {
            Order::Fork { set, children, busy } => {
                if busy {
                    self.messages.seems_busy(children, census);
                }
                for _ in 0..children {
                    self.fork_one(set);
                }
            }
            Order::EndOne { set } => self.end_one(set),
            Order::Full(full) => self.messages.full(full),
        }
    }

    fn census(&self) -> Census {
        let board = &self.generation.scoreboard;
        let sets = vec![SetCensus::default(); self.generation.listeners.len()];
        let mut census = Census { at: self.started.elapsed(), sets, quiescing: 0 };
        for slot in 0..board.servers() {
            let index = self.set_of(slot);
            let set = &mut census.sets[index];
            set.arrivals += self.arrivals(slot);
            match board.server(slot).state() {
                ServerState::Empty => set.empty_slots += 1,
                ServerState::Quiescing => census.quiescing += 1,
                state @ (ServerState::Starting | ServerState::Running) => {
                    set.processes += 1;
                    set.starting += u32::from(state == ServerState::Starting);
                    let idle = self.idle_workers(slot);
                    set.busy += self.generation.limits.threads_per_child.saturating_sub(idle);
                    if board.server(slot).is_accepting() {
                        set.idle += idle;
                    }
                }
            }
        }
        census
    }

    /// What occupies a worker: a connection; in event, where idle ones occupy nobody, a request.
    fn arrivals(&self, slot: usize) -> u64 {
        let board = &self.generation.scoreboard;
        let workers = (0..board.threads()).map(|thread| board.worker(slot, thread));
        match self.generation.limits.model {
            Model::Event => workers.map(|worker| worker.requests()).sum(),
            _ => workers.map(|worker| worker.connections()).sum(),
        }
    }

    /// The set of listening sockets that the child in a process slot accepts from.
    fn set_of(&self, slot: usize) -> usize {
        slot % self.generation.listeners.len()
    }

    fn idle_workers(&self, slot: usize) -> u32 {
        let board = &self.generation.scoreboard;
        (0..board.threads()).map(|thread| u32::from(board.worker(slot, thread).status().is_idle())).sum()
    }

    fn fork_one(&mut self, set: usize) {
        let board = &self.generation.scoreboard;
        let mut slots = (0..board.servers()).filter(|slot| self.set_of(*slot) == set);
        let Some(slot) = slots.find(|slot| board.server(*slot).state() == ServerState::Empty) else { return };
        board.server(slot).set_state(ServerState::Starting);
        for thread in 0..board.threads() {
            board.worker(slot, thread).set_status(Status::Starting);
        }
        let generation = &self.generation;
        match process::spawn_child(|| child::run(&Child { generation, slot })) {
            Ok(pid) => board.server(slot).occupy(pid, generation.number),
            Err(error) => {
                board.clear(slot);
                self.messages.fork_failed(&error);
                self.spares.fork_failed();
            }
        }
    }

    /// The child of a set with the most idle workers finishes what it has.
    fn end_one(&self, set: usize) {
        let board = &self.generation.scoreboard;
        let slots = (0..board.servers()).filter(|slot| self.set_of(*slot) == set);
        let running = slots.filter(|slot| board.server(*slot).state() == ServerState::Running);
        if let Some(slot) = running.max_by_key(|slot| self.idle_workers(*slot)) {
            self.ask_to_end(slot);
        }
    }

    fn ask_to_end(&self, slot: usize) {
        let server = self.generation.scoreboard.server(slot);
        server.set_state(ServerState::Quiescing);
        signal::send(server.pid(), Signal::SIGUSR1);
    }

    /// A signal that reached a prefork child in the instant before it waited was seen too late.
    fn remind_quiescing(&self) {
        let board = &self.generation.scoreboard;
        for slot in 0..board.servers() {
            if board.server(slot).state() == ServerState::Quiescing {
                signal::send(board.server(slot).pid(), Signal::SIGUSR1);
            }
        }
    }

    fn reap(&mut self) {
        while let Some((pid, ended)) = process::reap() {
            let Some(slot) = self.slot_of(pid) else { continue };
            let state = self.generation.scoreboard.server(slot).state();
            self.generation.scoreboard.clear(slot);
            self.take_note(pid, slot, ended, state);
        }
    }

    /// What the end of a child means for the others.
    fn take_note(&mut self, pid: i32, slot: usize, how: ChildEnded, state: ServerState) {
        let census = self.census();
        let verdict = self.health.verdict(End {
            how,
            is_current: true,
            was_well: state != ServerState::Starting,
            was_quiescing: state == ServerState::Quiescing,
            others_start: census.total().starting > 0,
        });
        self.messages.child_ended(verdict, pid, how);
        self.failed |= verdict.fails();
        for order in self.spares.child_ended(verdict, self.set_of(slot), &census, &self.generation.limits) {
            self.obey(order, &census);
        }
    }

    fn stop(&mut self, how: Ended) -> io::Result<()> {
        if how == Ended::Gracefully {
            self.messages.stopping_gracefully();
            self.stop_gracefully()?;
        } else {
            self.messages.stopping_at_once();
        }
        self.stop_at_once()
    }

    /// Every child finishes what it has; until `GracefulShutdownTimeout`, or a stronger signal, ends the patience.
    fn stop_gracefully(&mut self) -> io::Result<()> {
        let until = self.generation.limits.graceful_shutdown_timeout.map(|timeout| Instant::now() + timeout);
        for slot in self.occupied() {
            self.ask_to_end(slot);
        }
        // Children hold the sockets as well. Shut down, they refuse connections at once, whoever holds them; closed here,
        // they would collect connections that nobody accepts until the last child has ended.
        for listener in self.generation.listeners.iter_mut().flat_map(|set| set.drain(..)) {
            let _only_closed_then = shutdown(listener.as_raw_fd(), Shutdown::Both);
        }
        while !self.occupied().is_empty() && until.is_none_or(|until| Instant::now() < until) {
            self.wait_until(Instant::now() + TICK)?;
            while let Some((signal, _)) = self.signals.next() {
                if matches!(signal, Signal::SIGTERM | Signal::SIGINT) {
                    return Ok(());
                }
            }
            self.reap_only();
            self.remind_quiescing();
        }
        Ok(())
    }

    /// TERM, again and again, then KILL.
    fn stop_at_once(&mut self) -> io::Result<()> {
        let start = Instant::now();
        let mut reminders = TERM_AGAIN_SECONDS.into_iter().peekable();
        let mut killed = false;
        self.signal_all(Signal::SIGTERM);
        loop {
            self.reap_only();
            let left = self.occupied();
            let seconds = start.elapsed().as_secs();
            if left.is_empty() || seconds >= GIVE_UP_SECOND {
                left.iter().for_each(|slot| self.messages.gave_up(self.generation.scoreboard.server(*slot).pid()));
                return Ok(());
            }
            if reminders.next_if(|at| seconds >= *at).is_some() {
                self.signal_all(Signal::SIGTERM);
            }
            if seconds >= KILL_SECOND && !std::mem::replace(&mut killed, true) {
                self.signal_all(Signal::SIGKILL);
            }
            self.wait_until(Instant::now() + TICK / 10)?;
            while self.signals.next().is_some() {}
        }
    }

    fn reap_only(&self) {
        while let Some((pid, _)) = process::reap() {
            if let Some(slot) = self.slot_of(pid) {
                self.generation.scoreboard.clear(slot);
            }
        }
    }

    fn slot_of(&self, pid: i32) -> Option<usize> {
        self.occupied().into_iter().find(|slot| self.generation.scoreboard.server(*slot).pid() == pid)
    }

    fn signal_all(&self, signal: Signal) {
        for slot in self.occupied() {
            signal::send(self.generation.scoreboard.server(slot).pid(), signal);
        }
    }

    fn occupied(&self) -> Vec<usize> {
        let board = &self.generation.scoreboard;
        (0..board.servers()).filter(|slot| board.server(*slot).state() != ServerState::Empty).collect()
    }
}
