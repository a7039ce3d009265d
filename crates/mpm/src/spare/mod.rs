//! Spare management, pure: from a census of the scoreboard to orders for the parent. Apache's algorithm, in which growth
//! doubles each second that spares are short and falls back to one as soon as they are not; or, with
//! `SpawnPolicy predictive`, a size worked out from arrivals and service times (`predict`).
//!
//! Each set of listening sockets is kept by itself: the kernel spreads connections over the sets without looking who
//! is idle, so that spares of one set are of no use to the clients of another.

mod predict;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod traces;

use std::time::Duration;

use crate::health::Verdict;
use crate::limits::{Limits, Model, SpawnPolicy};
use predict::Predictor;

/// Most processes that Apache's algorithm forks in one second, over all sets (Apache's `MAX_SPAWN_RATE`).
pub const RATE_MAX: u32 = 32;
/// From this rate on the log says that the server seems busy.
const RATE_BUSY: u32 = 8;
/// Looks with forks after a reload before growth doubles: old children still serve, and the load comes back by and by.
const HOLD_OFF_LOOKS: u32 = 10;
/// No fork for so long after one failed; signals and children are attended to meanwhile.
const FORK_FAILED_HOLD_OFF: Duration = Duration::from_secs(10);
/// The same where a set has no child at all: its clients wait for nothing else.
const FORK_FAILED_RETRY: Duration = Duration::from_secs(1);
/// Between two looks where nothing is urgent, and always with `SpawnPolicy compatible`.
const LOOK: Duration = Duration::from_secs(1);
/// Between two looks while the predictive policy grows.
const LOOK_GROWING: Duration = Duration::from_millis(100);
/// Most processes the predictive policy forks at one look, over all sets: forking must not keep the parent from its signals.
const FORKS_A_LOOK_MAX: u32 = 64;

/// What the scoreboard of the running generation says at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// When, since any fixed moment; never goes back.
    pub at: Duration,
    /// One entry for each set of listening sockets, in their order.
    pub sets: Vec<SetCensus>,
    /// Processes that were asked to end, or end by themselves, and are not gone yet. They are in no set's `processes`.
    pub quiescing: u32,
}

impl Census {
    /// All sets together.
    pub fn total(&self) -> SetCensus {
        self.sets.iter().fold(SetCensus::default(), |sum, set| SetCensus {
            processes: sum.processes + set.processes,
            starting: sum.starting + set.starting,
            empty_slots: sum.empty_slots + set.empty_slots,
            idle: sum.idle + set.idle,
            busy: sum.busy + set.busy,
            arrivals: sum.arrivals + set.arrivals,
            waiting: match (sum.waiting, set.waiting) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
            },
        })
    }
}

/// The part of the scoreboard that serves one set of listening sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetCensus {
    /// Processes that accept, or are about to: starting and running ones.
    pub processes: u32,
    /// How many of them do not accept yet.
    pub starting: u32,
    /// Process slots that are empty and may be filled for this set.
    pub empty_slots: u32,
    /// Idle processes in prefork, idle threads elsewhere. All workers of a starting process count; none of a process
    /// that refuses new connections.
    pub idle: u32,
    /// Workers of `processes` that serve something; what quiescing processes finish is not counted.
    pub busy: u32,
    /// Connections accepted since the generation began (event: requests). Never goes back within a generation.
    pub arrivals: u64,
    /// Connections that the kernel holds and no child has accepted; `None` where nobody asked.
    pub waiting: Option<u32>,
}

/// Something that is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Fork so many children for a set.
    Fork {
        /// Index of the set of listening sockets.
        set: usize,
        /// Children, at least 1.
        children: u32,
        /// Growth has reached a rate worth telling (AH00162, AH00289, AH00486).
        busy: bool,
    },
    /// Ask one idle child of a set to end.
    EndOne {
        /// Index of the set of listening sockets.
        set: usize,
    },
    /// Spares are short, and no child may be added. Given at every look at which it is so; whoever reports it decides
    /// how often.
    Full(Full),
}

/// Why no child may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Full {
    /// Some workers are still idle, fewer than wanted (AH00287, AH10159); given once, as Apache tells it once.
    Near,
    /// `MaxRequestWorkers` is reached (AH00161, AH00286, AH00484).
    Workers,
    /// `MaxRequestWorkers` is not reached, but exiting processes hold all process slots (AH00288, AH03490).
    Slots,
}

/// What is remembered from look to look.
#[derive(Clone, Debug, Default)]
pub struct SpareManager {
    sets: Vec<SetMemory>,
    /// Looks with forks for which growth does not double.
    hold_off: u32,
    fork_failed_at: Option<Duration>,
    near_was_told: bool,
    now: Duration,
    is_growing: bool,
}

#[derive(Clone, Debug)]
struct SetMemory {
    /// Children to be forked when spares are short.
    rate: u32,
    predictor: Predictor,
    one_ended_at: Option<Duration>,
}

impl Default for SetMemory {
    fn default() -> SetMemory {
        SetMemory { rate: 1, predictor: Predictor::default(), one_ended_at: None }
    }
}

impl SpareManager {
    /// The orders of this look; none is most often the best.
    pub fn decide(&mut self, census: &Census, limits: &Limits) -> Vec<Order> {
        self.look_at(census);
        self.is_growing = false;
        let mut desk = Desk::new(census, limits);
        for index in desk.neediest_first() {
            let set = &census.sets[index];
            match self.wish(index, set, &desk) {
                Wish::Rest => self.sets[index].rate = 1,
                Wish::EndOne => self.end_one(index, &mut desk),
                Wish::Grow(children) => self.grow(index, children, &mut desk),
            }
        }
        self.tell_full(desk.full, &mut desk.orders);
        desk.orders
    }

    /// The orders that the end of a child of `set` calls for at once; `census` no longer counts it. Everything else waits
    /// for the next look, so that children that die as they start do not make the parent fork without pause.
    pub fn child_ended(&mut self, verdict: Verdict, set: usize, census: &Census, limits: &Limits) -> Vec<Order> {
        self.look_at(census);
        if verdict.slows_growth() {
            self.sets.iter_mut().for_each(|set| set.rate = 1);
        }
        let mut desk = Desk::new(census, limits);
        if verdict.asks_replacement() && desk.room_for(set) > 0 && self.may_fork(&census.sets[set]) {
            desk.fork(set, 1, false);
        }
        if verdict.may_leave_a_gap() {
            let empty = |desk: &Desk<'_>, index: usize| census.sets[index].processes == 0 && desk.room_for(index) > 0;
            for index in 0..census.sets.len() {
                if empty(&desk, index) && !desk.has_fork_for(index) && self.may_fork(&census.sets[index]) {
                    desk.fork(index, 1, false);
                }
            }
        }
        desk.orders
    }

    /// How long the parent may wait for the next look.
    pub fn next_look(&self) -> Duration {
        if self.is_growing { LOOK_GROWING } else { LOOK }
    }

    /// A new generation serves now: growth is slow for a while, and its counters start anew.
    pub fn reloaded(&mut self) {
        let failed_at = self.fork_failed_at;
        *self = SpareManager { hold_off: HOLD_OFF_LOOKS, fork_failed_at: failed_at, ..SpareManager::default() };
    }

    /// A fork failed: wait before the next one, without ceasing to attend to anything else.
    pub fn fork_failed(&mut self) {
        self.sets.iter_mut().for_each(|set| set.rate = 1);
        self.fork_failed_at = Some(self.now);
    }

    fn look_at(&mut self, census: &Census) {
        self.now = self.now.max(census.at);
        self.sets.resize_with(census.sets.len(), SetMemory::default);
    }

    fn wish(&mut self, index: usize, set: &SetCensus, desk: &Desk<'_>) -> Wish {
        let limits = desk.limits;
        let memory = &mut self.sets[index];
        if limits.model == Model::Percore {
            let missing = limits.cores.div_ceil(desk.share.sets).saturating_sub(set.processes);
            return if missing > 0 { Wish::Grow(missing) } else { Wish::Rest };
        }
        match limits.spawn_policy {
            SpawnPolicy::Compatible if set.idle > desk.share.max_spare => Wish::EndOne,
            SpawnPolicy::Compatible if set.idle < desk.share.min_spare => Wish::Grow(memory.rate),
            SpawnPolicy::Compatible => Wish::Rest,
            SpawnPolicy::Predictive => memory.predictor.wish(self.now, set, &desk.share),
        }
    }

    fn grow(&mut self, index: usize, children: u32, desk: &mut Desk<'_>) {
        let children = children.min(desk.room_for(index));
        let set = &desk.census.sets[index];
        if children == 0 {
            // A hold-off goes on: event calls it off when it may not fork, and adds one look to it.
            self.sets[index].rate = 1;
            desk.note_full(index);
            return;
        }
        // Growing as well while forks are held off: the next look may be allowed to.
        self.is_growing |= desk.limits.spawn_policy == SpawnPolicy::Predictive && desk.limits.model != Model::Percore;
        if !self.may_fork(set) {
            return;
        }
        let memory = &mut self.sets[index];
        let rate = if self.is_growing { children } else { memory.rate };
        desk.fork(index, children, rate >= RATE_BUSY);
        if self.hold_off > 0 {
            self.hold_off -= 1;
        } else {
            memory.rate = (memory.rate * 2).min(desk.share.rate_max);
        }
    }

    fn end_one(&mut self, index: usize, desk: &mut Desk<'_>) {
        let memory = &mut self.sets[index];
        memory.rate = 1;
        let is_due = memory.one_ended_at.is_none_or(|at| self.now >= at + LOOK);
        if is_due && desk.may_end(index) {
            memory.one_ended_at = Some(self.now);
            desk.orders.push(Order::EndOne { set: index });
        }
    }

    fn tell_full(&mut self, full: Option<Full>, orders: &mut Vec<Order>) {
        match full {
            None => {}
            Some(Full::Near) if std::mem::replace(&mut self.near_was_told, true) => {}
            Some(full) => orders.push(Order::Full(full)),
        }
    }

    fn may_fork(&self, set: &SetCensus) -> bool {
        let patience = if set.processes == 0 { FORK_FAILED_RETRY } else { FORK_FAILED_HOLD_OFF };
        self.fork_failed_at.is_none_or(|at| self.now >= at + patience)
    }
}

/// What is best for one set, before room and hold-offs are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Rest,
    EndOne,
    Grow(u32),
}

/// The limits of one set: an equal part of the whole server's, as in Apache.
#[derive(Clone, Copy, Debug)]
struct Share {
    sets: u32,
    threads: u32,
    min_spare: u32,
    max_spare: u32,
    rate_max: u32,
    forks_a_look_max: u32,
}

impl Share {
    fn of(limits: &Limits, sets: usize) -> Share {
        let sets = u32::try_from(sets).unwrap_or(u32::MAX).max(1);
        let threads = limits.threads_per_child.max(1);
        let min_spare = (limits.min_spare / sets).max(1);
        // Room for one more process between the two, or one would be forked and ended in turns.
        let room = if limits.model.is_threaded() { threads + 1 } else { 1 };
        Share {
            sets,
            threads,
            min_spare,
            max_spare: (limits.max_spare / sets).max(min_spare.saturating_add(room)),
            rate_max: (RATE_MAX / sets).max(1),
            forks_a_look_max: (FORKS_A_LOOK_MAX / sets).max(1),
        }
    }
}

/// One look: what was counted, and what was ordered so far.
struct Desk<'a> {
    census: &'a Census,
    limits: &'a Limits,
    share: Share,
    /// Processes that may still be added to the whole server.
    room: u32,
    orders: Vec<Order>,
    full: Option<Full>,
}

impl<'a> Desk<'a> {
    fn new(census: &'a Census, limits: &'a Limits) -> Desk<'a> {
        let room = limits.processes().saturating_sub(census.total().processes);
        let share = Share::of(limits, census.sets.len());
        Desk { census, limits, share, room, orders: Vec::new(), full: None }
    }

    /// Sets without a child first, then by idle workers: room may not suffice for all.
    fn neediest_first(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.census.sets.len()).collect();
        order.sort_by_key(|index| (self.census.sets[*index].processes > 0, self.census.sets[*index].idle));
        order
    }

    /// Processes that may be added for a set: one place is kept for every other set that has none.
    fn room_for(&self, index: usize) -> u32 {
        let is_bare =
            |other: usize| other != index && self.census.sets[other].processes == 0 && !self.has_fork_for(other);
        let kept = (0..self.census.sets.len()).filter(|other| is_bare(*other)).count();
        let room = self.room.saturating_sub(u32::try_from(kept).unwrap_or(u32::MAX));
        room.min(self.census.sets[index].empty_slots)
    }

    fn has_fork_for(&self, index: usize) -> bool {
        self.orders.iter().any(|order| matches!(order, Order::Fork { set, .. } if *set == index))
    }

    fn fork(&mut self, set: usize, children: u32, busy: bool) {
        self.room = self.room.saturating_sub(children);
        self.orders.push(Order::Fork { set, children, busy });
    }

    /// A set keeps its last child. event ends none while another is exiting, which may take as long as its slowest client,
    /// unless so many slots are left that all processes could be replaced.
    fn may_end(&self, index: usize) -> bool {
        let all_gone = self.census.quiescing == 0 || self.limits.model != Model::Event;
        self.census.sets[index].processes > 1 && (all_gone || self.census.total().empty_slots > self.limits.processes())
    }

    fn note_full(&mut self, index: usize) {
        let set = &self.census.sets[index];
        let full = if self.room > 0 {
            // What is left is either without a slot, or kept for another set.
            (set.empty_slots == 0).then_some(Full::Slots)
        } else if !self.limits.model.is_threaded() {
            Some(Full::Workers)
        } else if set.starting > 0 {
            None
        } else if set.idle > 0 {
            Some(Full::Near)
        } else {
            Some(Full::Workers)
        };
        self.full = self.full.max(full);
    }
}
