//! A world for the parent, in memory: processes that start, serve, crash and hang, clients that come and stay, forks that
//! fail, an administrator who reloads. It has a clock of its own and one source of chance, so that a seed is a history.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use manifold_engine::phases::Phases;
use manifold_engine::site::Site;
use manifold_engine::transport::Activity;
use manifold_sys::process::Ended;
use manifold_sys::signal::Signal;

use super::history::{Ask, Chance, Configuration, Event, Nature, Tally};
use crate::child::{EXIT_FATAL, EXIT_SICK, EXIT_WELL};
use crate::generation::{Generation, ListenPlan};
use crate::limits::Limits;
use crate::scoreboard::{Scoreboard, ServerState, Status};
use crate::server::Plan;
use crate::system::Request;

/// Connections that a listening socket keeps (`ListenBacklog`).
const BACKLOG: usize = 50;

#[derive(Debug)]
pub struct Process {
    pub(super) generation: u64,
    pub(super) slot: usize,
    pub(super) set: usize,
    pub(super) sets: usize,
    /// Sockets there were when its generation was made.
    pub(super) sockets: usize,
    pub(super) board: Scoreboard,
    pub(super) workers: Vec<Option<u64>>,
    pub up: bool,
    pub(super) quiescing: bool,
    /// Does not hear USR1, TERM.
    pub deaf: bool,
    pub(super) stubborn: bool,
    pub(super) left_to_accept: u64,
}

impl Process {
    /// Clients it serves.
    pub fn held(&self) -> usize {
        self.workers.iter().flatten().count()
    }

    /// Whether it would take a client from a socket.
    pub fn could_accept(&self, socket: usize) -> bool {
        is_own(socket, self.sockets, self.set, self.sets)
            && self.up
            && !self.quiescing
            && self.held() < self.workers.len()
    }

    fn is_busy(&self) -> bool {
        self.workers.iter().any(Option::is_some)
    }
}

pub struct World {
    pub chance: Chance,
    pub(super) base: Instant,
    /// Since the beginning.
    pub now: Duration,
    pub(super) events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    pub(super) sequence: u64,
    pub children: BTreeMap<i32, Process>,
    pub(super) next_pid: i32,
    /// The accept queue of each set.
    pub sockets: Vec<VecDeque<u64>>,
    pub listens: bool,
    pub(super) requests: VecDeque<Request>,
    pub(super) ended: VecDeque<(i32, Ended)>,
    /// Generation and set of children that ended well since the last look at this.
    pub well_ended: Vec<(u64, usize)>,
    pub forks_fail: bool,
    pub fork_failed_at: Option<Duration>,
    pub(super) load: (Duration, Duration, u64),
    pub tally: Tally,
    pub(super) clients: u64,
    /// What the next reload finds.
    pub configure: Box<dyn Fn(&mut Chance) -> Configuration>,
    /// How children fare, by the address in memory of what they serve.
    pub(super) natures: BTreeMap<usize, Nature>,
    pub listen: ListenPlan,
    /// What the parent did that was not a reminder.
    pub acts: u64,
    pub reloads: u64,
    pub in_force: u64,
    pub refused: u64,
    /// Which set of how many, of how many sockets, the listeners at an address in memory are.
    pub(super) sets_by_address: BTreeMap<usize, (usize, usize, usize)>,
    pub(super) successor: Option<(i32, bool)>,
    pub forks: u64,
    pub faults: u64,
    /// A child of a generation that works returned a fatal status.
    pub fatal: bool,
    /// Whether the history is printed.
    pub tells: bool,
}

impl World {
    pub fn new(seed: u64, listen: ListenPlan) -> World {
        World {
            chance: Chance(seed),
            base: Instant::now(),
            now: Duration::ZERO,
            events: BinaryHeap::new(),
            sequence: 0,
            children: BTreeMap::new(),
            next_pid: 2,
            sockets: Vec::new(),
            listens: true,
            requests: VecDeque::new(),
            ended: VecDeque::new(),
            well_ended: Vec::new(),
            forks_fail: false,
            fork_failed_at: None,
            load: (Duration::ZERO, Duration::ZERO, 0),
            tally: Tally::default(),
            clients: 0,
            configure: Box::new(|_| Configuration::Broken),
            natures: BTreeMap::new(),
            listen,
            acts: 0,
            reloads: 0,
            in_force: 0,
            refused: 0,
            sets_by_address: BTreeMap::new(),
            successor: None,
            forks: 0,
            faults: 0,
            fatal: false,
            tells: false,
        }
    }

    pub fn plan(&mut self, limits: Limits, nature: Nature) -> Plan {
        let (site, listen) = (Arc::new(Site::new(Phases::new())), self.listen.clone());
        self.natures.insert(Arc::as_ptr(&site).addr(), nature);
        Plan { limits, site, listen, identity: None, core_dump_directory: None }
    }

    pub fn at(&mut self, when: Duration, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((when, self.sequence, event)));
    }

    pub fn after(&mut self, delay: Duration, event: Event) {
        self.at(self.now + delay, event);
    }

    /// Children that have ended and that the parent has not asked for.
    pub fn unburied(&self) -> usize {
        self.ended.iter().filter(|(pid, _)| self.successor.is_none_or(|(successor, _)| successor != *pid)).count()
    }

    /// The kernel spreads clients over so many sockets, or more.
    pub fn listen_on(&mut self, sockets: usize) {
        if self.sockets.len() < sockets {
            self.sockets.resize_with(sockets, VecDeque::new);
        }
    }

    /// The parent's clock, for a moment of this world.
    pub fn moment(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.base)
    }

    pub fn next_event(&self) -> Option<Duration> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    /// Time passes until `until`, or until the parent is woken.
    pub fn pass(&mut self, until: Duration) {
        while self.ended.is_empty() && self.requests.is_empty() {
            let Some(Reverse((at, _, event))) = self.events.pop_if_due(until) else {
                self.now = self.now.max(until);
                return;
            };
            self.now = self.now.max(at);
            self.happen(&event);
        }
    }

    pub(super) fn tell(&self, what: std::fmt::Arguments<'_>) {
        if self.tells {
            println!("{:12.3} {what}", self.now.as_secs_f64());
        }
    }

    fn happen(&mut self, event: &Event) {
        if !matches!(event, Event::Client | Event::Done { .. }) {
            self.tell(format_args!("{event:?}"));
        }
        match *event {
            Event::Client => self.client_comes(),
            Event::Done { pid, worker, client } => self.client_is_done(pid, worker, client),
            Event::Up(pid) => self.child_is_up(pid),
            Event::Ends(pid, status) => self.child_ends(pid, Ended::Exit(status)),
            Event::Strike(signal) => {
                let place = self.chance.pick(0..self.children.len().max(1) as u64) as usize;
                if let Some(pid) = self.children.keys().nth(place).copied() {
                    self.faults += 1;
                    self.child_ends(pid, Ended::Signal(signal));
                }
            }
            Event::ForksFail(fail) => self.forks_fail = fail,
            Event::Load { every_us, stay_ms, stuck } => {
                self.load = (Duration::from_micros(every_us), Duration::from_millis(stay_ms), stuck);
                if every_us > 0 {
                    self.after(Duration::ZERO, Event::Client);
                }
            }
            Event::Ask(ask) => self.requests.push_back(match ask {
                Ask::Stop => Request::Stop,
                Ask::GracefulStop => Request::GracefulStop,
                Ask::Restart => Request::Restart,
                Ask::Graceful => Request::Graceful,
                Ask::Upgrade => Request::Upgrade,
            }),
            Event::Successor(ready) => match &mut self.successor {
                Some((_, is_ready)) if ready => *is_ready = true,
                Some((pid, _)) => self.ended.push_back((*pid, Ended::Exit(1))),
                None => {}
            },
        }
    }

    fn client_comes(&mut self) {
        let (every, ..) = self.load;
        if every.is_zero() {
            return;
        }
        let next = self.chance.around(every);
        self.after(next, Event::Client);
        self.tally.came += 1;
        self.clients += 1;
        let client = self.clients;
        if !self.listens {
            self.tally.closed += 1;
            return;
        }
        let socket = self.chance.pick(0..self.sockets.len() as u64) as usize;
        if self.sockets[socket].len() >= BACKLOG {
            self.tally.backlog += 1;
            return;
        }
        self.sockets[socket].push_back(client);
        let pids: Vec<i32> = self.children.keys().copied().collect();
        for pid in pids {
            if self.sockets[socket].is_empty() {
                break;
            }
            self.accept(pid);
        }
    }

    /// A child takes what waits for it.
    fn accept(&mut self, pid: i32) {
        let Some(child) = self.children.get_mut(&pid) else { return };
        let (_, stay, stuck) = self.load;
        let (sets, sockets) = (child.sets, child.sockets);
        while child.up && !child.quiescing {
            let Some(worker) = child.workers.iter().position(Option::is_none) else { return };
            let own = (0..sockets).filter(|socket| is_own(*socket, sockets, child.set, sets));
            let Some(client) = own.into_iter().find_map(|socket| self.sockets[socket].pop_front()) else { return };
            child.workers[worker] = Some(client);
            let slot = child.board.worker(child.slot, worker);
            slot.set_status(Status::Doing(Activity::Writing));
            slot.count_connection();
            slot.count_request(1);
            let is_stuck = self.chance.happens(stuck);
            let stay = if is_stuck { self.chance.millis(5_000..400_000) } else { self.chance.around(stay) };
            self.sequence += 1;
            self.events.push(Reverse((self.now + stay, self.sequence, Event::Done { pid, worker, client })));
            child.left_to_accept -= 1;
            if child.left_to_accept == 0 {
                child.quiescing = true;
                child.board.server(child.slot).set_state(ServerState::Quiescing);
            }
        }
    }

    fn client_is_done(&mut self, pid: i32, worker: usize, client: u64) {
        let Some(child) = self.children.get_mut(&pid) else { return };
        if child.workers[worker] != Some(client) {
            return;
        }
        child.workers[worker] = None;
        child.board.worker(child.slot, worker).set_status(Status::Doing(Activity::Ready));
        self.tally.served += 1;
        self.leave_or_accept(pid);
    }

    pub(super) fn leave_or_accept(&mut self, pid: i32) {
        let Some(child) = self.children.get(&pid) else { return };
        if !child.quiescing {
            self.accept(pid);
        } else if child.up && !child.is_busy() {
            self.child_ends(pid, Ended::Exit(EXIT_WELL));
        }
    }

    fn child_is_up(&mut self, pid: i32) {
        let Some(child) = self.children.get_mut(&pid) else { return };
        child.up = true;
        child.board.server(child.slot).set_used();
        child.board.server(child.slot).starts_running();
        for worker in 0..child.workers.len() {
            child.board.worker(child.slot, worker).begin();
        }
        self.leave_or_accept(pid);
    }

    pub(super) fn child_ends(&mut self, pid: i32, how: Ended) {
        let Some(child) = self.children.remove(&pid) else { return };
        self.tell(format_args!("{pid} of generation {}, slot {}, ends: {how:?}", child.generation, child.slot));
        let lost = child.workers.iter().flatten().count() as u64;
        match how {
            Ended::Signal(signal) if signal == Signal::SIGTERM as i32 || signal == Signal::SIGKILL as i32 => {
                self.tally.cut += lost;
            }
            _ => self.tally.died += lost,
        }
        if how == Ended::Exit(EXIT_WELL) {
            self.well_ended.push((child.generation, child.set));
        }
        self.ended.push_back((pid, how));
    }

    /// What a generation's child does from its fork on.
    pub(super) fn begin(&mut self, pid: i32, generation: &Generation) {
        let nature = self.natures[&Arc::as_ptr(&generation.site).addr()];
        let soon = self.chance.millis(2..60);
        match nature {
            Nature::Ends(status) => self.after(soon, Event::Ends(pid, status)),
            Nature::Hangs => {}
            Nature::Slow => {
                let delay = self.chance.millis(1_000..6_000);
                self.after(delay, Event::Up(pid));
            }
            Nature::Good => match self.chance.pick(0..1000) {
                0..4 => self.after(soon, Event::Ends(pid, 101)),
                4..8 => {
                    // The only one, and none before it was well.
                    self.fatal |= generation.number == 1 && self.in_force == 0;
                    self.after(soon, Event::Ends(pid, EXIT_SICK));
                }
                8 => {
                    self.fatal = true;
                    self.after(soon, Event::Ends(pid, EXIT_FATAL));
                }
                9..12 => {}
                12..20 => {
                    let delay = self.chance.millis(1_000..6_000);
                    self.after(delay, Event::Up(pid));
                }
                _ => self.after(soon, Event::Up(pid)),
            },
        }
    }
}

trait PopIfDue<T> {
    fn pop_if_due(&mut self, until: Duration) -> Option<T>;
}

impl PopIfDue<Reverse<(Duration, u64, Event)>> for BinaryHeap<Reverse<(Duration, u64, Event)>> {
    fn pop_if_due(&mut self, until: Duration) -> Option<Reverse<(Duration, u64, Event)>> {
        self.peek().is_some_and(|Reverse((at, ..))| *at <= until).then(|| self.pop()).flatten()
    }
}

/// Sockets that the children of a generation accept from, all together.
pub(super) fn sockets_of(generation: &Generation) -> usize {
    generation.listeners.iter().map(Vec::len).sum()
}

/// Whether set `set` of `sets` accepts from socket `socket` of `sockets` (`Listeners::share`).
pub(super) fn is_own(socket: usize, sockets: usize, set: usize, sets: usize) -> bool {
    socket < sockets && (socket % sets == set || set % sockets == socket)
}
