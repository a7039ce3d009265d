//! Connections with work to do, on their way from the listener to the workers, and the rule by which more are let in.
//!
//! As many workers are kept awake as there are processors: waking more of them costs switches and gains nothing, as long
//! as they run. A worker that is stuck in a system call is noticed by the listener, which then wakes another
//! ([`ReadyQueue::wake_another`]). The worker that fell asleep last is woken first: few threads keep warm what each thread
//! has of its own, its stack and its pools of buffers, and those beyond stay small.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

use nix::sys::eventfd::EventFd;

/// A queue of slot numbers. Its length is bounded by the number of slots: a slot is queued at most once.
#[derive(Debug)]
pub(crate) struct ReadyQueue<'a> {
    inner: Mutex<Inner>,
    rule: Admission,
    seats: Box<[Seat]>,
    awake_target: usize,
    /// Wakes the listener.
    listener: &'a EventFd,
    /// What `inner` has, for looks without the lock.
    queued: AtomicUsize,
    working: AtomicUsize,
    taken: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    slots: VecDeque<u32>,
    /// Workers that look for work or do it.
    awake: usize,
    /// Workers that do it.
    working: usize,
    /// Workers asleep, the last to fall asleep last.
    asleep: Vec<usize>,
    /// Slots taken so far.
    taken: u64,
    /// The listener does not accept and wants to be woken when it may.
    wants_room: bool,
    closed: bool,
}

/// Where a worker sleeps.
#[derive(Debug, Default)]
struct Seat {
    thread: OnceLock<Thread>,
    woken: AtomicBool,
}

/// A worker, as the queue knows it.
#[derive(Debug)]
pub(crate) struct Worker {
    index: usize,
    working: bool,
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
        let inner = Inner {
            slots: VecDeque::new(),
            awake: 0,
            working: 0,
            asleep: Vec::with_capacity(rule.threads),
            taken: 0,
            wants_room: false,
            closed: false,
        };
        ReadyQueue {
            inner: Mutex::new(inner),
            rule,
            seats: (0..rule.threads).map(|_| Seat::default()).collect(),
            awake_target: processors.max(1),
            listener,
            queued: AtomicUsize::new(0),
            working: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
        }
    }

    /// Makes the calling thread worker number `index`, below `ThreadsPerChild`.
    pub fn enlist(&self, index: usize) -> Worker {
        let _first_time = self.seats[index].thread.set(thread::current());
        self.lock().awake += 1;
        Worker { index, working: false }
    }

    /// Queues `slots`.
    pub fn push(&self, slots: &[u32]) {
        let mut inner = self.lock();
        inner.slots.extend(slots);
        let wanted = slots.len().min(self.awake_target.saturating_sub(inner.awake));
        self.publish(&inner);
        self.wake(inner, wanted);
    }

    /// The next slot, when the worker is done with the one it had; sleeps while there is none; `None` when the queue was
    /// closed.
    pub fn pop(&self, worker: &mut Worker) -> Option<u32> {
        let mut inner = self.lock();
        inner.working -= usize::from(std::mem::take(&mut worker.working));
        let mut yielded = false;
        loop {
            let slot = inner.slots.pop_front();
            worker.working = slot.is_some();
            if worker.working {
                inner.working += 1;
                inner.taken += 1;
            }
            let room = inner.wants_room && self.rule.admits_again(inner.slots.len(), inner.working);
            inner.wants_room &= !room;
            self.publish(&inner);
            if worker.working || inner.closed {
                drop(inner);
                self.tell_listener(room);
                return slot;
            }
            if !yielded {
                // Others run, and what they do may be work for this one: cheaper than to sleep and be woken.
                yielded = true;
                drop(inner);
                self.tell_listener(room);
                thread::yield_now();
                inner = self.lock();
                continue;
            }
            yielded = false;
            inner.awake -= 1;
            inner.asleep.push(worker.index);
            drop(inner);
            self.tell_listener(room);
            let woken = &self.seats[worker.index].woken;
            while !woken.swap(false, Ordering::Acquire) {
                thread::park();
            }
            inner = self.lock();
        }
    }

    /// Whether the workers follow, so that a connection may be accepted.
    pub fn has_room(&self) -> bool {
        self.rule.admits(self.queued(), self.working.load(Ordering::Relaxed))
    }

    /// As [`has_room`](Self::has_room); if not, the listener is woken as soon as it is so again.
    pub fn wait_for_room(&self) -> bool {
        let mut inner = self.lock();
        inner.wants_room = !self.rule.admits(inner.slots.len(), inner.working);
        !inner.wants_room
    }

    /// Slots waiting.
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// Slots taken so far: if some wait and none was taken since the last look, the awake workers are stuck.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Wakes one more worker than there are processors, if one sleeps.
    pub fn wake_another(&self) {
        self.wake(self.lock(), 1);
    }

    /// Lets the workers end once the queue is empty.
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        self.wake(inner, usize::MAX);
    }

    fn wake(&self, mut inner: MutexGuard<'_, Inner>, wanted: usize) {
        let first = inner.asleep.len().saturating_sub(wanted);
        inner.awake += inner.asleep.len() - first;
        if let [seat] = inner.asleep[first..] {
            // The usual case allocates nothing.
            inner.asleep.truncate(first);
            drop(inner);
            return self.seats[seat].wake();
        }
        let woken = inner.asleep.split_off(first);
        drop(inner);
        woken.into_iter().for_each(|seat| self.seats[seat].wake());
    }

    fn tell_listener(&self, room: bool) {
        if room {
            let _full_counter_wakes_as_well = self.listener.write(1);
        }
    }

    fn publish(&self, inner: &Inner) {
        self.queued.store(inner.slots.len(), Ordering::Relaxed);
        self.working.store(inner.working, Ordering::Relaxed);
        self.taken.store(inner.taken, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The queue stays whole even when a worker panics between two of its calls.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::eventfd::EfdFlags;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    fn listener() -> EventFd {
        EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap()
    }

    #[test]
    fn every_slot_is_taken_once_whoever_sleeps() {
        const SLOTS: u32 = 10_000;
        let listener = listener();
        let queue = ReadyQueue::new(Admission { threads: 5, factor: 2.0 }, 2, &listener);
        let sum = AtomicU64::new(0);
        thread::scope(|scope| {
            for index in 0..5 {
                let (queue, sum) = (&queue, &sum);
                scope.spawn(move || {
                    let mut worker = queue.enlist(index);
                    while let Some(slot) = queue.pop(&mut worker) {
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
        assert_eq!((queue.queued(), queue.taken()), (0, u64::from(SLOTS)));
    }

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
    fn the_listener_is_told_of_room_once_it_wants_some() {
        let listener = listener();
        let queue = ReadyQueue::new(Admission { threads: 2, factor: 1.0 }, 2, &listener);
        let mut worker = queue.enlist(0);
        assert!(queue.wait_for_room());
        queue.push(&[0, 1, 2, 3]);
        assert!(!queue.has_room() && !queue.wait_for_room());
        for (slot, told) in [(0, false), (1, false), (2, false), (3, true)] {
            assert_eq!(queue.pop(&mut worker), Some(slot));
            assert_eq!(listener.read().is_ok(), told, "after slot {slot}");
        }
        assert!(queue.has_room(), "the last one is worked on");
        queue.close();
        assert_eq!(queue.pop(&mut worker), None);
    }
}
