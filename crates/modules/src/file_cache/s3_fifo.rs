//! What is kept when not all can be: S3-FIFO ("FIFO queues are all you need for cache eviction", SOSP 2023), weighed in
//! bytes or whatever a weight means.
//!
//! What is new enters a small queue, and the main one only if it was used again meanwhile, or was thrown out of the small one
//! a short while ago. A crawler that reads every file once thereby passes through a tenth of the room. Using an entry is a
//! store to a counter that the entry shares with whoever uses it: no lock, and nothing at all once the counter is full. No
//! library has that: they have to be told of every use.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::name_hash::NameHasher;

/// Uses that are counted; more make no difference.
const USES_MAX: u8 = 3;
/// The small queue's part of the room, as its divisor.
const SMALL_PART: u64 = 10;
/// Those that were thrown out and are remembered by their key, at least.
const GHOSTS_MIN: usize = 64;

/// What an entry knows of its own uses.
#[derive(Debug, Default)]
pub(super) struct Uses(AtomicU8);

impl Uses {
    /// Counts a use. Two threads that do so at the same time may count one: what is used often is used again.
    pub(super) fn count(&self) {
        let uses = self.0.load(Ordering::Relaxed);
        if uses < USES_MAX {
            self.0.store(uses + 1, Ordering::Relaxed);
        }
    }

    fn take_one(&self) -> bool {
        let uses = self.0.load(Ordering::Relaxed);
        self.0.store(uses.saturating_sub(1), Ordering::Relaxed);
        uses > 0
    }

    fn several(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }
}

/// What counts its own uses.
pub(super) trait Used {
    /// The count.
    fn uses(&self) -> &Uses;
}

/// Values by a key, as many as weigh no more than a limit together.
#[derive(Debug)]
pub(super) struct S3Fifo<V> {
    entries: HashMap<u64, Entry<V>, BuildHasherDefault<NameHasher>>,
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
    limit: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    weight: u64,
    in_main: bool,
}

#[derive(Debug, Default)]
struct Queue {
    /// Oldest first. Each key of `entries` stands in one queue, once.
    keys: VecDeque<u64>,
    weight: u64,
}

/// Keys that were thrown out of the small queue, the latest ones.
#[derive(Debug, Default)]
struct Ghosts {
    keys: HashSet<u64, BuildHasherDefault<NameHasher>>,
    order: VecDeque<u64>,
}

impl<V: Used> S3Fifo<V> {
    /// Room for values that weigh `limit` together.
    pub(super) fn new(limit: u64) -> S3Fifo<V> {
        let entries = HashMap::default();
        S3Fifo { entries, small: Queue::default(), main: Queue::default(), ghosts: Ghosts::default(), limit }
    }

    /// The value of `key`.
    pub(super) fn get(&self, key: u64) -> Option<&V> {
        self.entries.get(&key).map(|entry| &entry.value)
    }

    /// Keeps a value in place of the one before, and throws out what there is no room for any more. A value that weighs more
    /// than there is room for is not kept.
    pub(super) fn insert(&mut self, key: u64, value: V, weight: u64) {
        if weight > self.limit {
            self.remove(key);
            return;
        }
        if let Some(entry) = self.entries.get_mut(&key) {
            let queue = if entry.in_main { &mut self.main } else { &mut self.small };
            queue.weight = queue.weight - entry.weight + weight;
            (entry.value, entry.weight) = (value, weight);
        } else {
            let in_main = self.ghosts.remove(key);
            let queue = if in_main { &mut self.main } else { &mut self.small };
            queue.push(key, weight);
            self.entries.insert(key, Entry { value, weight, in_main });
        }
        while self.small.weight + self.main.weight > self.limit {
            if self.small.weight > self.limit / SMALL_PART || self.main.keys.is_empty() {
                self.step_small();
            } else {
                self.step_main();
            }
        }
    }

    /// Forgets `key`: a file that is gone. Takes time in proportion to what is kept.
    pub(super) fn remove(&mut self, key: u64) {
        if let Some(entry) = self.entries.remove(&key) {
            let queue = if entry.in_main { &mut self.main } else { &mut self.small };
            queue.keys.retain(|&other| other != key);
            queue.weight -= entry.weight;
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = S3Fifo::new(self.limit);
    }

    /// The oldest of the small queue goes on to the main one if it was used several times, else out.
    fn step_small(&mut self) {
        let Some(key) = self.small.keys.pop_front() else { return };
        let Some(entry) = self.entries.get_mut(&key) else { return };
        self.small.weight -= entry.weight;
        if entry.value.uses().several() {
            entry.in_main = true;
            self.main.push(key, entry.weight);
        } else {
            self.entries.remove(&key);
            self.ghosts.add(key, self.entries.len().max(GHOSTS_MIN));
        }
    }

    /// The oldest of the main queue gets another round for each of its uses. Each round takes one, so that this ends.
    fn step_main(&mut self) {
        let Some(key) = self.main.keys.pop_front() else { return };
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if entry.value.uses().take_one() {
            self.main.keys.push_back(key);
        } else {
            self.main.weight -= entry.weight;
            self.entries.remove(&key);
        }
    }
}

impl Queue {
    fn push(&mut self, key: u64, weight: u64) {
        self.keys.push_back(key);
        self.weight += weight;
    }
}

impl Ghosts {
    fn add(&mut self, key: u64, most: usize) {
        if self.keys.insert(key) {
            self.order.push_back(key);
        }
        while self.order.len() > most {
            if let Some(oldest) = self.order.pop_front() {
                self.keys.remove(&oldest);
            }
        }
    }

    /// Whether `key` was there. Its place in the order stays until its time comes; that makes others leave a little earlier.
    fn remove(&mut self, key: u64) -> bool {
        self.keys.remove(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    impl Used for Arc<Uses> {
        fn uses(&self) -> &Uses {
            self
        }
    }

    /// Uses `key` as a cache's owner does; whether it was there.
    fn touch(cache: &mut S3Fifo<Arc<Uses>>, key: u64, weight: u64) -> bool {
        if let Some(uses) = cache.get(key) {
            uses.count();
            return true;
        }
        cache.insert(key, Arc::default(), weight);
        false
    }

    fn weight(cache: &S3Fifo<Arc<Uses>>) -> u64 {
        let weights = cache.entries.values().map(|entry| entry.weight).sum();
        assert_eq!(cache.small.weight + cache.main.weight, weights);
        assert_eq!(cache.small.keys.len() + cache.main.keys.len(), cache.entries.len());
        assert!(cache.ghosts.order.len() <= 1000);
        weights
    }

    #[test]
    fn a_scan_of_100_000_names_leaves_the_hot_ones_in() {
        let mut cache = S3Fifo::new(1000);
        let hot = 0..500;
        for _ in 0..3 {
            hot.clone().for_each(|key| _ = touch(&mut cache, key, 1));
        }
        let mut missed = 0;
        for name in 0..100_000 {
            assert!(!touch(&mut cache, 1_000_000 + name, 1));
            // Each hot one is used once while 500 others come by.
            missed += u32::from(!touch(&mut cache, name % 500, 1));
        }
        assert_eq!(missed, 0);
        assert!(weight(&cache) <= 1000);
    }

    #[test]
    fn the_limit_holds_whatever_comes() {
        for limit in [0, 1, 7, 100, 1000] {
            let mut cache = S3Fifo::new(limit);
            let mut random = 1_u64;
            for _ in 0..20_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (key, size) = (random >> 33 & 255, random >> 41 & 31);
                match random >> 60 {
                    0 => cache.remove(key),
                    1..5 => cache.insert(key, Arc::default(), size),
                    _ => _ = touch(&mut cache, key, size),
                }
                assert!(weight(&cache) <= limit);
            }
            cache.clear();
            assert_eq!(weight(&cache), 0);
        }
    }

    #[test]
    fn what_comes_back_soon_is_taken_for_good() {
        let mut cache = S3Fifo::new(10);
        (0..20).for_each(|key| _ = touch(&mut cache, key, 1));
        assert!(cache.get(5).is_none());
        assert!(!touch(&mut cache, 5, 1));
        assert!(cache.entries[&5].in_main);
    }
}
