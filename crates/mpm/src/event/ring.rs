//! Slots with work to do, in order: a ring that whoever listens fills and every worker takes from, without a lock.
//!
//! What does not fit, and slots that have work again as soon as their worker was done with them, stand behind the ring's in
//! a list with a lock. Its length is bounded by the number of slots: a slot is queued at most once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Slots the ring holds: as many as one wait of the listener brings, connections to be accepted included, and then some.
const RING: usize = 512;

/// A word that several threads write, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line(AtomicU64);

/// Slot numbers on their way to the workers.
#[derive(Debug)]
pub(crate) struct Ring {
    entries: Box<[AtomicU32]>,
    /// Entries taken so far. Whoever moves it on owns the entry it has passed.
    head: Line,
    /// Entries written so far.
    tail: Line,
    rest: Mutex<VecDeque<u32>>,
    /// What `rest` has, for looks without the lock, and what was taken from it so far.
    rest_length: AtomicUsize,
    rest_taken: AtomicU64,
}

impl Ring {
    /// An empty ring.
    pub fn new() -> Ring {
        Ring {
            entries: (0..RING).map(|_| AtomicU32::new(0)).collect(),
            head: Line::default(),
            tail: Line::default(),
            rest: Mutex::default(),
            rest_length: AtomicUsize::new(0),
            rest_taken: AtomicU64::new(0),
        }
    }

    /// Appends `slots`. One thread at a time may: the one at the listener's post.
    pub fn push(&self, slots: &[u32]) {
        let tail = self.tail.0.load(Ordering::Relaxed);
        // An entry is written anew only after it was taken.
        let room = RING - (tail - self.head.0.load(Ordering::Acquire)) as usize;
        let (fitting, others) = slots.split_at(room.min(slots.len()));
        for (at, slot) in (tail..).zip(fitting) {
            self.entries[at as usize % RING].store(*slot, Ordering::Relaxed);
        }
        self.tail.0.store(tail + fitting.len() as u64, Ordering::Release);
        if !others.is_empty() {
            let mut rest = self.rest();
            rest.extend(others);
            self.rest_length.store(rest.len(), Ordering::Relaxed);
        }
    }

    /// Appends a slot behind all others. Any thread may.
    pub fn push_behind(&self, slot: u32) {
        let mut rest = self.rest();
        rest.push_back(slot);
        self.rest_length.store(rest.len(), Ordering::Relaxed);
    }

    /// The next slot.
    pub fn pop(&self) -> Option<u32> {
        let mut head = self.head.0.load(Ordering::Acquire);
        while head != self.tail.0.load(Ordering::Acquire) {
            let slot = self.entries[head as usize % RING].load(Ordering::Relaxed);
            // Where another was quicker, the entry may have been written anew: what was read is of no use.
            match self.head.0.compare_exchange_weak(head, head + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(slot),
                Err(now) => head = now,
            }
        }
        if self.rest_length.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut rest = self.rest();
        let slot = rest.pop_front()?;
        self.rest_length.store(rest.len(), Ordering::Relaxed);
        self.rest_taken.store(self.rest_taken.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Some(slot)
    }

    /// Slots waiting.
    pub fn len(&self) -> usize {
        let head = self.head.0.load(Ordering::Acquire);
        // Read later: never less than the head was.
        let tail = self.tail.0.load(Ordering::Acquire);
        (tail - head) as usize + self.rest_length.load(Ordering::Relaxed)
    }

    /// Slots taken so far.
    pub fn taken(&self) -> u64 {
        self.head.0.load(Ordering::Relaxed) + self.rest_taken.load(Ordering::Relaxed)
    }

    fn rest(&self) -> MutexGuard<'_, VecDeque<u32>> {
        // The list stays whole even when a thread panics between two calls.
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn slots_come_out_in_order_and_those_that_do_not_fit_as_well() {
        let ring = Ring::new();
        for first in [0, 7, RING as u32] {
            let slots: Vec<u32> = (first..first + 2 * RING as u32).collect();
            ring.push(&slots);
            ring.push_behind(1_000_000);
            assert_eq!(ring.len(), slots.len() + 1);
            let out: Vec<u32> = std::iter::from_fn(|| ring.pop()).collect();
            assert_eq!(out[..slots.len()], slots);
            assert_eq!(out[slots.len()..], [1_000_000]);
        }
        assert_eq!((ring.len(), ring.taken()), (0, 3 * (2 * RING as u64 + 1)));
    }

    #[test]
    fn every_slot_is_taken_once() {
        const SLOTS: u32 = 200_000;
        let (ring, sum, taken) = (Ring::new(), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while taken.load(Ordering::Relaxed) < u64::from(SLOTS) {
                        match ring.pop() {
                            Some(slot) if slot % 3 == 0 => ring.push_behind(slot + 1),
                            Some(slot) => {
                                sum.fetch_add(u64::from(slot), Ordering::Relaxed);
                                taken.fetch_add(1, Ordering::Relaxed);
                            }
                            None => thread::yield_now(),
                        }
                    }
                });
            }
            // Of three numbers in a row the first is taken, and put behind as the second.
            let slots: Vec<u32> = (0..SLOTS).map(|n| n / 2 * 3 + n % 2 * 2).collect();
            for some in slots.chunks(61) {
                while ring.len() > RING {
                    thread::yield_now();
                }
                ring.push(some);
            }
        });
        let expected: u64 = (0..u64::from(SLOTS) / 2).map(|n| n * 3 + 1 + n * 3 + 2).sum();
        assert_eq!((sum.into_inner(), ring.len()), (expected, 0));
    }
}
