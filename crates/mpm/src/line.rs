//! A generation's line of children: forking them, burying them, keeping spares. The parent has one line that is current,
//! perhaps one that comes up to replace it, and some that drain.

use std::time::{Duration, Instant};

use manifold_sys::process::Ended;
use manifold_sys::signal::Signal;

use crate::generation::Generation;
use crate::health::{End, Health, Verdict};
use crate::limits::{Model, SpawnPolicy};
use crate::messages::Messages;
use crate::saturation::Alarm;
use crate::scoreboard::{ServerState, Status};
use crate::spare::{Census, Full, Order, SetCensus, SpareManager};
use crate::system::System;

/// A child, a generation or a new server that does not accept connections after so long is given up.
pub(crate) const COMES_UP_WITHIN: Duration = Duration::from_secs(30);

/// A generation with what the parent remembers of its children.
#[derive(Debug)]
pub(crate) struct Line {
    pub generation: Generation,
    pub messages: &'static Messages,
    spares: SpareManager,
    health: Health,
    began: Instant,
    /// When the child in each process slot was forked.
    forked: Vec<Instant>,
    look_at_spares: Instant,
    no_workers: Alarm,
    no_slots: Alarm,
}

impl Line {
    pub fn new(generation: Generation, now: Instant) -> Line {
        let messages = Messages::of(generation.limits.model);
        let (spares, health) = (SpareManager::default(), Health::default());
        let (no_workers, no_slots) = (Alarm::default(), Alarm::default());
        let forked = vec![now; generation.scoreboard.servers()];
        Line { generation, messages, spares, health, began: now, forked, look_at_spares: now, no_workers, no_slots }
    }

    /// The first children: `StartServers`, and as many as the connections of the generation before keep busy.
    pub fn start(&mut self, busy_before: u32, system: &mut impl System) {
        let limits = &self.generation.limits;
        let for_busy = busy_before.div_ceil(limits.threads_per_child.max(1));
        let children = limits.start_servers.saturating_add(for_busy).min(limits.processes());
        let sets = self.sets();
        let _failed = (0..children as usize).find(|child| !self.fork_one(child % sets, system));
        self.look_at_spares = system.now() + self.spares.next_look();
    }

    /// Growth is slow at first: the old children still serve.
    pub fn follows_a_reload(&mut self) {
        self.spares.reloaded();
    }

    /// When spares are to be looked at again.
    pub fn next_look(&self) -> Instant {
        self.look_at_spares
    }

    /// Sees to it that there are spares, neither too few nor too many.
    pub fn keep_spares(&mut self, system: &mut impl System) {
        let now = system.now();
        if now < self.look_at_spares {
            return;
        }
        let mut census = self.census(now);
        self.ask_who_waits(&mut census, system);
        let total = census.total();
        self.health.tick(total.processes > total.starting);
        for order in self.spares.decide(&census, &self.generation.limits) {
            self.obey(order, &census, system);
        }
        self.look_at_spares = now + self.spares.next_look();
    }

    /// Whether connections are accepted from every set of listening sockets.
    pub fn is_running(&self) -> bool {
        (0..self.sets()).all(|set| self.running().any(|slot| self.generation.set_of(slot) == set))
    }

    /// Workers that are neither idle nor gone, in children that accept.
    pub fn busy(&self) -> u32 {
        let threads = self.generation.scoreboard.threads() as u32;
        self.running().map(|slot| threads - self.idle_workers(slot)).sum()
    }

    /// Workers in children that accept.
    pub fn workers(&self) -> u32 {
        self.running().count() as u32 * self.generation.scoreboard.threads() as u32
    }

    fn running(&self) -> impl Iterator<Item = usize> {
        let board = &self.generation.scoreboard;
        (0..board.servers()).filter(|slot| board.server(*slot).state() == ServerState::Running)
    }

    /// Takes the end of process `pid` into account, if it is a child of this line. A line that is not current any more
    /// makes no others in its place.
    pub fn bury(&mut self, pid: i32, how: Ended, is_current: bool, system: &mut impl System) -> Option<Verdict> {
        let slot = self.occupied().find(|slot| self.generation.scoreboard.server(*slot).pid() == pid)?;
        let state = self.generation.scoreboard.server(slot).state();
        self.generation.scoreboard.clear(slot);
        let census = self.census(system.now());
        let others = census.total();
        let verdict = self.health.verdict(End {
            how,
            is_current,
            was_well: state != ServerState::Starting,
            was_quiescing: state == ServerState::Quiescing,
            others_start: others.starting > 0,
            others_are_well: others.processes > others.starting,
        });
        self.messages.child_ended(verdict, pid, how);
        if is_current && !verdict.fails() {
            let set = self.generation.set_of(slot);
            for order in self.spares.child_ended(verdict, set, &census, &self.generation.limits) {
                self.obey(order, &census, system);
            }
        }
        Some(verdict)
    }

    /// Every child finishes what it has.
    pub fn ask_all_to_end(&self, system: &mut impl System) {
        for slot in self.occupied() {
            self.ask_to_end(slot, system);
        }
    }

    /// Repeats what children that end gracefully were told: a signal that reached one in the instant before it waited was
    /// seen too late.
    pub fn remind(&self, system: &mut impl System) {
        let board = &self.generation.scoreboard;
        for slot in self.occupied().filter(|slot| board.server(*slot).state() == ServerState::Quiescing) {
            system.signal(board.server(slot).pid(), Signal::SIGUSR1);
        }
    }

    /// Ends children that have been starting for too long. They count as idle, and keep better ones from being made.
    pub fn give_up_starting(&self, system: &mut impl System) {
        let board = &self.generation.scoreboard;
        let now = system.now();
        for slot in self.occupied().filter(|slot| board.server(*slot).state() == ServerState::Starting) {
            if now >= self.forked[slot] + COMES_UP_WITHIN {
                let pid = board.server(slot).pid();
                self.messages.does_not_start(pid, COMES_UP_WITHIN);
                system.signal(pid, Signal::SIGKILL);
            }
        }
    }

    /// Process ids of the children there are.
    pub fn pids(&self) -> impl Iterator<Item = i32> {
        self.occupied().map(|slot| self.generation.scoreboard.server(slot).pid())
    }

    /// Whether the last child is gone.
    pub fn is_empty(&self) -> bool {
        self.occupied().next().is_none()
    }

    fn obey(&mut self, order: Order, census: &Census, system: &mut impl System) {
        match order {
            Order::Fork { set, children, busy } => {
                if busy {
                    self.messages.seems_busy(children, census);
                }
                // Where one fork fails, the next would fail as well.
                let _failed = (0..children).find(|_| !self.fork_one(set, system));
            }
            Order::EndOne { set } => self.end_one(set, system),
            Order::Full(full) => self.tell_full(full, system),
        }
    }

    /// Not at every look, but again and again while it lasts; and why.
    fn tell_full(&mut self, full: Full, system: &impl System) {
        let now = system.now();
        match full {
            Full::Near => self.messages.full(full, None),
            Full::Slots if self.no_slots.is_due(now) => self.messages.full(full, None),
            Full::Workers if self.no_workers.is_due(now) => {
                let waiting = self.generation.listeners.iter().map(|set| system.waiting(set)).sum();
                let why = system.look(&self.generation).map(|look| look.report(waiting));
                self.messages.full(full, why.as_deref());
            }
            Full::Slots | Full::Workers => {}
        }
    }

    /// The time for its end is over after `since`, and it is held up.
    pub fn tell_holders(&self, since: Duration, system: &impl System) {
        let number = self.generation.number;
        let holders = system.look(&self.generation).map(|look| look.holders(number)).unwrap_or_default();
        self.messages.drained_too_long(number, since, &holders);
    }

    fn census(&self, now: Instant) -> Census {
        let board = &self.generation.scoreboard;
        let at = now.saturating_duration_since(self.began);
        let mut census = Census { at, sets: vec![SetCensus::default(); self.sets()], quiescing: 0 };
        for slot in 0..board.servers() {
            let set = &mut census.sets[self.generation.set_of(slot)];
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

    /// Only the predictive policy wants to know.
    fn ask_who_waits(&self, census: &mut Census, system: &impl System) {
        if self.generation.limits.spawn_policy == SpawnPolicy::Predictive {
            for (set, listeners) in census.sets.iter_mut().zip(&self.generation.listeners) {
                set.waiting = system.waiting(listeners);
            }
        }
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

    fn sets(&self) -> usize {
        self.generation.listeners.len().max(1)
    }

    fn idle_workers(&self, slot: usize) -> u32 {
        let board = &self.generation.scoreboard;
        (0..board.threads()).map(|thread| u32::from(board.worker(slot, thread).status().is_idle())).sum()
    }

    /// Whether a child was made.
    fn fork_one(&mut self, set: usize, system: &mut impl System) -> bool {
        let board = &self.generation.scoreboard;
        let mut slots = (0..board.servers()).filter(|slot| self.generation.set_of(*slot) == set);
        let Some(slot) = slots.find(|slot| board.server(*slot).state() == ServerState::Empty) else { return false };
        board.server(slot).set_state(ServerState::Starting);
        for thread in 0..board.threads() {
            board.worker(slot, thread).set_status(Status::Starting);
        }
        match system.fork(&self.generation, slot) {
            Ok(pid) => {
                board.server(slot).occupy(pid, self.generation.number);
                self.forked[slot] = system.now();
                true
            }
            Err(error) => {
                board.clear(slot);
                self.messages.fork_failed(&error);
                self.spares.fork_failed();
                false
            }
        }
    }

    /// The child of a set with the most idle workers finishes what it has.
    fn end_one(&self, set: usize, system: &mut impl System) {
        let board = &self.generation.scoreboard;
        let slots = (0..board.servers()).filter(|slot| self.generation.set_of(*slot) == set);
        let running = slots.filter(|slot| board.server(*slot).state() == ServerState::Running);
        if let Some(slot) = running.max_by_key(|slot| self.idle_workers(*slot)) {
            self.ask_to_end(slot, system);
        }
    }

    fn ask_to_end(&self, slot: usize, system: &mut impl System) {
        let server = self.generation.scoreboard.server(slot);
        server.set_state(ServerState::Quiescing);
        system.signal(server.pid(), Signal::SIGUSR1);
    }

    fn occupied(&self) -> impl Iterator<Item = usize> {
        let board = &self.generation.scoreboard;
        (0..board.servers()).filter(|slot| board.server(*slot).state() != ServerState::Empty)
    }
}
