//! The parent: one thread that holds the listeners and never parses a request. It forks, reaps, keeps spares and takes
//! signals; everything it waits for comes through one descriptor and one tick a second.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use manifold_sys::process::{self, Ended as ChildEnded};
use manifold_sys::signal::{self, Signal, Signals};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Shutdown, shutdown};

use crate::child::{self, EXIT_FATAL, EXIT_SICK, EXIT_WELL};
use crate::generation::{Child, Generation};
use crate::messages::Messages;
use crate::scoreboard::{ServerState, Status};
use crate::spare::{Census, Order, SpareManager};

/// Spare management, and everything else that is not caused by an event, happens this often.
const TICK: Duration = Duration::from_secs(1);
/// Children that died by a signal are replaced at once up to this many in a row; more wait for the next tick.
const REPLACED_AT_ONCE_MAX: u32 = 3;
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
    replaced_in_a_row: u32,
    one_was_well: bool,
    failed: bool,
}

impl Parent {
    /// Collects the parent's signals.
    pub fn new(generation: Generation) -> io::Result<Parent> {
        use Signal::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGWINCH};
        let signals = Signals::collect(&[SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGWINCH, SIGCHLD])?;
        let messages = Messages::of(generation.limits.model);
        let spares = SpareManager::default();
        Ok(Parent { generation, signals, spares, messages, replaced_in_a_row: 0, one_was_well: false, failed: false })
    }

    /// Runs until a signal or a fatal child ends the server.
    pub fn run(mut self) -> io::Result<Ended> {
        for _ in 0..self.generation.limits.start_servers {
            self.fork_one();
        }
        self.messages.resuming();
        let mut tick = Instant::now() + TICK;
        loop {
            self.wait_until(tick)?;
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
                self.maintain();
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

    /// Once a second: spares, and a reminder for children that were asked to end.
    fn maintain(&mut self) {
        self.replaced_in_a_row = 0;
        self.remind_quiescing();
        let census = self.census();
        match self.spares.decide(census, &self.generation.limits) {
            Order::Rest => {}
            Order::Fork { children, busy } => {
                if busy {
                    self.messages.seems_busy(children, census);
                }
                for _ in 0..children {
                    self.fork_one();
                }
            }
            Order::EndOne => self.end_one(),
            Order::Full => self.messages.reached_max_request_workers(),
        }
    }

    fn census(&mut self) -> Census {
        let mut census = Census::default();
        for slot in 0..self.generation.scoreboard.servers() {
            match self.generation.scoreboard.server(slot).state() {
                ServerState::Empty => census.empty_slots += 1,
                ServerState::Quiescing => {}
                state @ (ServerState::Starting | ServerState::Running) => {
                    self.one_was_well |= state == ServerState::Running;
                    census.processes += 1;
                    if self.generation.scoreboard.server(slot).is_accepting() {
                        census.idle += self.idle_workers(slot);
                    }
                }
            }
        }
        census
    }

    fn idle_workers(&self, slot: usize) -> u32 {
        let board = &self.generation.scoreboard;
        (0..board.threads()).map(|thread| u32::from(board.worker(slot, thread).status().is_idle())).sum()
    }

    fn fork_one(&mut self) {
        let board = &self.generation.scoreboard;
        let Some(slot) = (0..board.servers()).find(|slot| board.server(*slot).state() == ServerState::Empty) else {
            return;
        };
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

    /// The child with the most idle workers finishes what it has.
    fn end_one(&self) {
        let board = &self.generation.scoreboard;
        let running = (0..board.servers()).filter(|slot| board.server(*slot).state() == ServerState::Running);
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
            let board = &self.generation.scoreboard;
            let was_well = board.server(slot).state() != ServerState::Starting;
            self.one_was_well |= was_well;
            board.clear(slot);
            self.take_note(pid, ended, was_well);
        }
    }

    /// What the end of a child means for the others.
    fn take_note(&mut self, pid: i32, ended: ChildEnded, was_well: bool) {
        match ended {
            ChildEnded::Exit(EXIT_WELL) => {}
            ChildEnded::Exit(EXIT_FATAL) => {
                self.messages.child_was_fatal(pid);
                self.failed = true;
            }
            ChildEnded::Exit(EXIT_SICK) if !self.one_was_well => {
                self.messages.no_child_ever_well(pid);
                self.failed = true;
            }
            ChildEnded::Exit(EXIT_SICK) => {
                self.messages.child_was_sick(pid);
                self.spares.child_was_sick();
            }
            ChildEnded::Exit(_) | ChildEnded::Signal(_) => {
                self.messages.child_died(pid, ended);
                // One that had served is replaced at once; one that dies as it starts would do so again.
                if was_well && self.replaced_in_a_row < REPLACED_AT_ONCE_MAX {
                    self.replaced_in_a_row += 1;
                    self.fork_one();
                }
            }
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
