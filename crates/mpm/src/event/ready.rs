//! Connections with work to do, on their way from the listener to the workers.
//!
//! As many workers are kept awake as there are processors: waking more of them costs switches and gains nothing, as long
//! as they run. A worker that is stuck in a system call is noticed by the listener, which then wakes another
//! ([`ReadyQueue::wake_another`]).

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A queue of slot numbers. Its length is bounded by the number of slots: a slot is queued at most once.
#[derive(Debug)]
pub struct ReadyQueue {
    inner: Mutex<Inner>,
    added: Condvar,
    awake_target: usize,
}

#[derive(Debug)]
struct Inner {
    slots: VecDeque<u32>,
    /// Workers that look for work or do it.
    awake: usize,
    /// Workers asleep, not counting those that were woken and have not run yet.
    asleep: usize,
    /// Wake-ups given and not taken yet.
    wakes: usize,
    /// Slots taken so far.
    taken: u64,
    closed: bool,
}

impl ReadyQueue {
    /// A queue for at most `slots` slots, served by workers of which `processors` shall be awake while there is work.
    pub fn new(slots: usize, processors: usize) -> ReadyQueue {
        let slots = VecDeque::with_capacity(slots);
        let inner = Inner { slots, awake: 0, asleep: 0, wakes: 0, taken: 0, closed: false };
        ReadyQueue { inner: Mutex::new(inner), added: Condvar::new(), awake_target: processors.max(1) }
    }

    /// Queues `slots`.
    pub fn push(&self, slots: &[u32]) {
        let mut inner = self.lock();
        inner.slots.extend(slots);
        let wanted = slots.len().min(self.awake_target.saturating_sub(inner.awake)).min(inner.asleep);
        inner.wake(wanted);
        drop(inner);
        for _ in 0..wanted {
            self.added.notify_one();
        }
    }

    /// The next slot; sleeps while there is none; `None` when the queue was closed. The first call enlists the worker.
    pub fn pop(&self, enlisted: &mut bool) -> Option<u32> {
        let mut inner = self.lock();
        if !*enlisted {
            *enlisted = true;
            inner.awake += 1;
        }
        loop {
            if let Some(slot) = inner.slots.pop_front() {
                inner.taken += 1;
                return Some(slot);
            }
            if inner.closed {
                return None;
            }
            inner.awake -= 1;
            inner.asleep += 1;
            while inner.wakes == 0 {
                inner = self.added.wait(inner).unwrap_or_else(PoisonError::into_inner);
            }
            inner.wakes -= 1;
        }
    }

    /// Workers that look for work or do it.
    pub fn awake(&self) -> usize {
        self.lock().awake
    }

    /// Slots waiting, and slots taken so far: if nothing was taken since the last look, the awake workers are stuck.
    pub fn progress(&self) -> (usize, u64) {
        let inner = self.lock();
        (inner.slots.len(), inner.taken)
    }

    /// Wakes one more worker than there are processors, if one sleeps.
    pub fn wake_another(&self) {
        let mut inner = self.lock();
        let wanted = inner.asleep.min(1);
        inner.wake(wanted);
        drop(inner);
        if wanted > 0 {
            self.added.notify_one();
        }
    }

    /// Lets the workers end once the queue is empty.
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        let all = inner.asleep;
        inner.wake(all);
        drop(inner);
        self.added.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The queue stays whole even when a worker panics between two of its calls.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn wake(&mut self, workers: usize) {
        self.asleep -= workers;
        self.awake += workers;
        self.wakes += workers;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    #[test]
    fn every_slot_is_taken_once_whoever_sleeps() {
        const SLOTS: u32 = 10_000;
        let queue = ReadyQueue::new(SLOTS as usize, 2);
        let sum = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| {
                    let mut enlisted = false;
                    while let Some(slot) = queue.pop(&mut enlisted) {
                        sum.fetch_add(u64::from(slot), Ordering::Relaxed);
                    }
                });
            }
            for slot in (0..SLOTS).step_by(2) {
                queue.push(&[slot, slot + 1]);
                if slot % 100 == 0 {
                    queue.wake_another();
                }
            }
            queue.close();
        });
        assert_eq!(sum.into_inner(), u64::from(SLOTS) * u64::from(SLOTS - 1) / 2);
    }
}
