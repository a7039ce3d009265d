//! What must hold on every simulated day: after each step of the parent, and once all is quiet.

use std::collections::VecDeque;
use std::time::Duration;

use super::Day;
use super::world::{Process, is_own, sockets_of};
use crate::limits::Model;
use crate::parent::{DRAINING_MAX, Incoming, Phase};
use crate::scoreboard::ServerState;

/// A set of listening sockets may be without any child for one look, unless forks fail.
const GAP_MAX: Duration = Duration::from_millis(1_010);
/// The same after forks have failed: the next attempt is a second later, at a look.
const GAP_AFTER_FAILURE_MAX: Duration = Duration::from_millis(2_020);
/// Forks are held off for so long after one failed, and a look more.
const FORKS_HELD_OFF: Duration = Duration::from_millis(11_010);

/// What must hold after every step.
impl Day {
    pub(super) fn check(&mut self) {
        for line in self.parent.lines() {
            let (board, limits) = (&line.generation.scoreboard, &line.generation.limits);
            let states = (0..board.servers()).map(|slot| board.server(slot).state());
            let alive = states.filter(|state| matches!(state, ServerState::Starting | ServerState::Running)).count();
            assert!(alive <= limits.processes() as usize, "{alive} processes: {limits:?}");
        }
        let occupied: usize = self.parent.lines().map(|line| line.pids().count()).sum();
        let buried: usize = self.parent.system.unburied();
        assert_eq!(occupied, self.parent.system.children.len() + buried, "processes that no line knows");
        assert!(self.parent.draining.len() <= DRAINING_MAX + 8, "{} lines drain", self.parent.draining.len());
        self.check_reloads();
        self.check_gaps();
        self.check_nobody_waits_in_vain();
        self.check_growth();
        let world = &self.parent.system;
        let held: usize = world.children.values().map(Process::held).sum();
        let queued: usize = world.sockets.iter().map(VecDeque::len).sum();
        assert_eq!(world.tally.came, world.tally.accounted() + (held + queued) as u64, "{:?}", world.tally);
    }

    /// Each reload is answered: taken, refused, or under way.
    fn check_reloads(&mut self) {
        if !matches!(self.parent.phase, Phase::Serving) {
            return;
        }
        let serves = self.parent.current.generation.number;
        self.taken += u64::from(serves != self.serves && !self.recasts);
        self.serves = serves;
        let world = &self.parent.system;
        let is_reload = |incoming: &Incoming| !incoming.is_recast;
        let under_way = u64::from(self.parent.incoming.as_ref().is_some_and(is_reload));
        assert_eq!(world.reloads, world.refused + self.taken + under_way, "reloads");
    }

    /// Each set of the generation that serves has a child that accepts, or will.
    fn check_gaps(&mut self) {
        let well_ended = std::mem::take(&mut self.parent.system.well_ended);
        if !matches!(self.parent.phase, Phase::Serving) {
            return;
        }
        let world = &self.parent.system;
        let generation = &self.parent.current.generation;
        let board = &generation.scoreboard;
        self.gaps.resize(generation.listeners.len(), (0, None));
        for (set, gap) in self.gaps.iter_mut().enumerate() {
            let slots = (0..board.servers()).filter(|slot| generation.set_of(*slot) == set);
            let is_there = |state: ServerState| matches!(state, ServerState::Starting | ServerState::Running);
            let states: Vec<ServerState> = slots.map(|slot| board.server(slot).state()).collect();
            // Where children that do not end hold every slot, nothing can be done.
            let has_child = states.iter().any(|state| is_there(*state)) || !states.contains(&ServerState::Empty);
            if has_child || gap.0 != generation.number {
                *gap = (generation.number, None);
            }
            if has_child {
                continue;
            }
            let retries = world.fork_failed_at.is_some_and(|at| world.now <= at + GAP_MAX);
            let has_ended = well_ended.contains(&(generation.number, set));
            assert!(retries || !has_ended, "the last child of set {set} ended well, and none is made at once");
            let since = *gap.1.get_or_insert(world.now);
            let most = match world.fork_failed_at {
                _ if world.forks_fail => continue,
                Some(at) if at + GAP_AFTER_FAILURE_MAX > since => GAP_AFTER_FAILURE_MAX + (at.saturating_sub(since)),
                _ => GAP_MAX,
            };
            assert!(world.now - since <= most, "set {set} has had no child for {:?}", world.now - since);
        }
    }

    /// Where a child that accepts is idle nobody waits.
    fn check_nobody_waits_in_vain(&self) {
        let world = &self.parent.system;
        for (socket, queue) in world.sockets.iter().enumerate() {
            let idle = world.children.values().any(|child| child.could_accept(socket));
            assert!(queue.is_empty() || !idle, "clients wait though a child is idle");
        }
    }

    /// Where clients wait, all children are busy and there may be more, the next look makes one.
    fn check_growth(&mut self) {
        let world = &self.parent.system;
        let generation = &self.parent.current.generation;
        let (board, limits, sets) = (&generation.scoreboard, &generation.limits, generation.listeners.len());
        let sockets = sockets_of(generation);
        let states: Vec<ServerState> = (0..board.servers()).map(|slot| board.server(slot).state()).collect();
        let is_alive = |state: &&ServerState| matches!(state, ServerState::Starting | ServerState::Running);
        let failed = world.fork_failed_at.is_some_and(|at| world.now < at + FORKS_HELD_OFF);
        let may_grow = matches!(self.parent.phase, Phase::Serving)
            && states.iter().filter(is_alive).count() < limits.processes() as usize
            && !world.forks_fail
            && !failed;
        self.hungry.resize(sets, (0, None));
        for (set, hungry) in self.hungry.iter_mut().enumerate() {
            let own = || {
                states.iter().enumerate().filter(|(slot, _)| generation.set_of(*slot) == set).map(|(_, state)| *state)
            };
            let mut own_sockets = (0..sockets).filter(|socket| is_own(*socket, sockets, set, sets));
            let waits = own_sockets.any(|socket| !world.sockets[socket].is_empty());
            let is_hungry = waits
                && may_grow
                && own().any(|state| state == ServerState::Empty)
                && own().all(|state| state != ServerState::Starting);
            if !is_hungry || hungry.0 != world.forks {
                *hungry = (world.forks, None);
            }
            if is_hungry {
                let since = *hungry.1.get_or_insert(world.now);
                assert!(world.now - since <= GAP_MAX, "clients of set {set} wait and no child is made");
            }
        }
    }

    /// No load, no clients, no old generations; spares within their bounds.
    pub(super) fn check_rest(&mut self) {
        if !matches!(self.parent.phase, Phase::Serving) {
            // A successor serves; what is left here is a child that does not hear.
            return;
        }
        let world = &self.parent.system;
        assert!(
            self.parent
                .draining
                .iter()
                .all(|draining| draining.line.pids().all(|pid| world.children[&pid].deaf || !world.children[&pid].up)),
            "an old generation does not end"
        );
        assert!(
            world.sockets.iter().all(VecDeque::is_empty),
            "clients wait and nobody serves them: {:?}",
            world.sockets
        );
        let generation = &self.parent.current.generation;
        let (board, limits) = (&generation.scoreboard, &generation.limits);
        let sets = generation.listeners.len();
        let (mut idle, mut processes) = (vec![0; sets], vec![0; sets]);
        let mut exiting = 0;
        for slot in 0..board.servers() {
            let set = generation.set_of(slot);
            assert_ne!(board.server(slot).state(), ServerState::Starting, "a child starts for ever");
            exiting += u32::from(board.server(slot).state() == ServerState::Quiescing);
            if board.server(slot).state() == ServerState::Running {
                processes[set] += 1;
                idle[set] += limits.threads_per_child;
            }
        }
        let total: u32 = processes.iter().sum();
        for set in 0..sets {
            assert!(processes[set] > 0, "set {set} has no child");
            if limits.model == Model::Percore {
                assert_eq!(processes[set], 1, "children of a core");
                continue;
            }
            let (least, most) = (limits.min_spare / sets as u32, limits.max_spare / sets as u32);
            // event ends nobody while a child that was asked to does not.
            let may_end = processes[set] > 1 && (exiting == 0 || limits.model != Model::Event);
            assert!(idle[set] <= most || !may_end, "{} idle: {limits:?}", idle[set]);
            assert!(idle[set] >= least || total == limits.processes(), "{} idle: {limits:?}", idle[set]);
        }
    }
}
