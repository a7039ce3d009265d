//! Spare management, pure: from a census of the scoreboard to one order a second. Apache's algorithm, in which growth
//! doubles each second that spares are short and falls back to one as soon as they are not.

use crate::limits::{Limits, Model};

/// Most processes that are forked in one second (Apache's `MAX_SPAWN_RATE`).
pub const RATE_MAX: u32 = 32;
/// From this rate on the log says that the server seems busy.
const RATE_BUSY: u32 = 8;
/// Seconds without growth after a fork failed; signals and children are attended to meanwhile.
const HOLD_OFF_SECONDS: u32 = 10;

/// What the scoreboard says at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Processes that accept, or are about to.
    pub processes: u32,
    /// Process slots that are empty.
    pub empty_slots: u32,
    /// Idle servers in prefork, idle threads elsewhere.
    pub idle: u32,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nothing.
    Rest,
    /// Fork so many children.
    Fork {
        /// Children.
        children: u32,
        /// Growth has reached a rate worth telling.
        busy: bool,
    },
    /// Ask one idle child to end.
    EndOne,
    /// Spares are short, and no child may be added: tell once.
    Full,
}

/// What is remembered from second to second.
#[derive(Clone, Copy, Debug)]
pub struct SpareManager {
    rate: u32,
    full_was_told: bool,
    hold_off: u32,
}

impl Default for SpareManager {
    fn default() -> SpareManager {
        SpareManager { rate: 1, full_was_told: false, hold_off: 0 }
    }
}

impl SpareManager {
    /// The order of this second.
    pub fn decide(&mut self, census: Census, limits: &Limits) -> Order {
        if limits.model == Model::Percore {
            return self.keep_one_a_core(census, limits);
        }
        let processes_max = limits.max_request_workers / limits.threads_per_child.max(1);
        let room = processes_max.saturating_sub(census.processes).min(census.empty_slots);
        if census.idle > limits.max_spare {
            self.rate = 1;
            return Order::EndOne;
        }
        if census.idle >= limits.min_spare {
            self.rate = 1;
            return Order::Rest;
        }
        if room == 0 {
            self.rate = 1;
            return if std::mem::replace(&mut self.full_was_told, true) { Order::Rest } else { Order::Full };
        }
        if self.held_off() {
            return Order::Rest;
        }
        let order = Order::Fork { children: self.rate.min(room), busy: self.rate >= RATE_BUSY };
        self.rate = (self.rate * 2).min(RATE_MAX);
        order
    }

    /// A child lacked a resource: do not make it worse.
    pub fn child_was_sick(&mut self) {
        self.rate = 1;
    }

    /// A fork failed: wait before the next one, without ceasing to attend to anything else.
    pub fn fork_failed(&mut self) {
        self.rate = 1;
        self.hold_off = HOLD_OFF_SECONDS;
    }

    fn keep_one_a_core(&mut self, census: Census, limits: &Limits) -> Order {
        let missing = limits.cores.saturating_sub(census.processes).min(census.empty_slots);
        if missing == 0 || self.held_off() { Order::Rest } else { Order::Fork { children: missing, busy: false } }
    }

    fn held_off(&mut self) -> bool {
        let held = self.hold_off > 0;
        self.hold_off = self.hold_off.saturating_sub(1);
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{RawLimits, resolve};

    fn limits(model: Model) -> Limits {
        resolve(model, &RawLimits::default(), 2).0
    }

    /// Second by second, `busy` clients keep as many workers busy; gives the number of processes after each second.
    fn grow(limits: &Limits, start: u32, busy: u32, seconds: usize) -> Vec<u32> {
        let mut manager = SpareManager::default();
        let mut processes = start;
        let mut history = vec![processes];
        for _ in 0..seconds {
            let idle = (processes * limits.threads_per_child).saturating_sub(busy);
            let census = Census { processes, empty_slots: limits.server_limit - processes, idle };
            match manager.decide(census, limits) {
                Order::Fork { children, .. } => processes += children,
                Order::EndOne => processes -= 1,
                Order::Rest | Order::Full => {}
            }
            history.push(processes);
        }
        history
    }

    #[test]
    fn prefork_grows_as_apache_was_measured_to() {
        let expected = [5, 6, 8, 12, 20, 36, 68, 100, 132, 164, 196, 228, 256, 256];
        assert_eq!(grow(&limits(Model::Prefork), 5, 256, 13), expected);
    }

    #[test]
    fn worker_grows_by_whole_processes_and_overshoots() {
        // 101 busy threads leave 49 idle of 150; one process makes it 74, one short of the 75 wanted, and two follow.
        assert_eq!(grow(&limits(Model::Worker), 6, 101, 4), [6, 7, 9, 9, 9]);
    }

    #[test]
    fn idle_children_end_one_a_second_until_enough_are_left() {
        assert_eq!(grow(&limits(Model::Prefork), 14, 0, 6), [14, 13, 12, 11, 10, 10, 10]);
    }

    #[test]
    fn a_full_server_is_told_once() {
        let limits = limits(Model::Event);
        let mut manager = SpareManager::default();
        let full = Census { processes: 16, empty_slots: 0, idle: 0 };
        assert_eq!(manager.decide(full, &limits), Order::Full);
        assert_eq!(manager.decide(full, &limits), Order::Rest);
    }

    #[test]
    fn a_failed_fork_holds_growth_off_and_starts_it_slowly() {
        let limits = limits(Model::Prefork);
        let mut manager = SpareManager::default();
        let short = Census { processes: 50, empty_slots: 206, idle: 0 };
        for _ in 0..5 {
            manager.decide(short, &limits);
        }
        manager.fork_failed();
        for _ in 0..HOLD_OFF_SECONDS {
            assert_eq!(manager.decide(short, &limits), Order::Rest);
        }
        assert_eq!(manager.decide(short, &limits), Order::Fork { children: 1, busy: false });
    }

    #[test]
    fn a_lost_core_is_replaced() {
        let limits = limits(Model::Percore);
        let census = Census { processes: 1, empty_slots: 1, idle: 0 };
        assert_eq!(SpareManager::default().decide(census, &limits), Order::Fork { children: 1, busy: false });
    }
}
