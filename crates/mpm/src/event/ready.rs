//! Connections with work to do, on their way from whoever listens to the workers, and the rule by which more are let in.

use std::sync::atomic::{AtomicBool, Ordering, fence};

use nix::sys::eventfd::EventFd;

use crate::event::crew::Crew;
use crate::event::ring::Ring;

/// Slot numbers, and those who take them.
#[derive(Debug)]
pub(crate) struct ReadyQueue<'a> {
    pub crew: Crew,
    ring: Ring,
    rule: Admission,
    /// Wakes whoever listens.
    listener: &'a EventFd,
    /// The listener does not accept and wants to be woken when it may.
    wants_room: AtomicBool,
}

/// Apache's rule for accepting: connections may be so many more than threads as `AsyncRequestWorkerFactor` times the idle
/// threads. Apache counts every open connection. Here only those count that are queued for a worker or have one: parked
/// connections hold no worker and are no reason to turn others away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    /// `ThreadsPerChild`.
    pub threads: usize,
    /// `AsyncRequestWorkerFactor`.
    pub factor: f64,
}

impl Admission {
    fn admits(&self, queued: usize, working: usize) -> bool {
        let idle = self.threads.saturating_sub(working) as f64;
        ((queued + working) as f64) < self.threads as f64 + self.factor * idle
    }

    /// Whether a listener that has stopped is to begin again: not for every connection that ends.
    fn admits_again(&self, queued: usize, working: usize) -> bool {
        self.admits(queued * 2, working)
    }
}

impl<'a> ReadyQueue<'a> {
    /// A queue served by workers of which `processors` shall be awake while there is work.
    pub fn new(rule: Admission, processors: usize, listener: &'a EventFd) -> ReadyQueue<'a> {
        ReadyQueue {
            crew: Crew::new(rule.threads, processors),
            ring: Ring::new(),
            rule,
            listener,
            wants_room: AtomicBool::new(false),
        }
    }

    /// Queues `slots`, which the calling worker begins to serve itself. One at a time may call this: who listens.
    pub fn push(&self, slots: &[u32]) {
        self.ring.push(slots);
        self.crew.help(slots.len() - 1);
    }

    /// Queues a slot again, behind all others; the calling worker goes on to take them.
    pub fn push_again(&self, slot: u32) {
        self.ring.push_behind(slot);
    }

    /// The next slot.
    pub fn pop(&self) -> Option<u32> {
        let slot = self.ring.pop();
        if self.wants_room.load(Ordering::Relaxed) {
            self.tell_of_room();
        }
        slot
    }

    /// Sleeps until there may be work for worker `index`: somebody else listens.
    pub fn sleep(&self, index: usize) {
        self.crew.sleep(index, || {
            // One worker less is busy.
            if self.wants_room.load(Ordering::Relaxed) {
                self.tell_of_room();
            }
            self.queued() > 0
        });
    }

    /// Looks after the workers until the child ends; gives its status.
    pub fn watch(&self) -> u8 {
        self.crew.watch(|| self.ring.taken())
    }

    /// Whether the workers follow, so that a connection may be accepted. For the worker that listens.
    pub fn has_room(&self) -> bool {
        self.rule.admits(self.queued(), self.working())
    }

    /// As [`has_room`](Self::has_room); if not, who listens is woken as soon as it is so again.
    pub fn wait_for_room(&self) -> bool {
        self.wants_room.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let room = self.has_room();
        self.wants_room.store(!room, Ordering::Relaxed);
        room
    }

    /// Slots waiting.
    fn queued(&self) -> usize {
        self.ring.len()
    }

    /// Workers that are busy while another listens.
    fn working(&self) -> usize {
        self.crew.awake().saturating_sub(1)
    }

    fn tell_of_room(&self) {
        fence(Ordering::SeqCst);
        if self.rule.admits_again(self.queued(), self.working()) && self.wants_room.swap(false, Ordering::Relaxed) {
            let _full_counter_wakes_as_well = self.listener.write(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::eventfd::EfdFlags;

    #[test]
    fn connections_that_wait_for_a_worker_are_what_admission_counts() {
        let rule = Admission { threads: 25, factor: 2.0 };
        for (queued, working, admitted) in [(0, 0, true), (74, 0, true), (75, 0, false), (0, 25, false), (0, 24, true)]
        {
            assert_eq!(rule.admits(queued, working), admitted, "{queued} queued, {working} worked on");
        }
        assert!(Admission { threads: 1, factor: 1.0 }.admits(0, 0), "one thread is enough");
    }

    #[test]
    fn who_listens_is_told_of_room_once_it_is_wanted() {
        let listener = EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap();
        let queue = ReadyQueue::new(Admission { threads: 2, factor: 1.0 }, 2, &listener);
        (0..2).for_each(|index| queue.crew.enlist(index));
        assert!(queue.wait_for_room());
        queue.push(&[0, 1, 2, 3]);
        assert!(!queue.has_room() && !queue.wait_for_room());
        for (slot, told) in [(0, false), (1, false), (2, false), (3, true)] {
            assert_eq!(queue.pop(), Some(slot));
            assert_eq!(listener.read().is_ok(), told, "after slot {slot}");
        }
        assert!(queue.has_room());
        assert_eq!(queue.pop(), None);
    }
}
