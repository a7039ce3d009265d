//! Deadlines of many connections: a heap with one entry a connection at most, whatever the connection does.
//!
//! An entry may be early, never late: a connection whose deadline moved back keeps its entry and is queued anew when that
//! comes due, so that a busy connection costs nothing here. Where a deadline moves forward, its entry does.

use std::num::NonZeroU64;
use std::ops::Add;
use std::time::{Duration, Instant};

use crate::clock;

/// A point in time in half the memory of an [`Instant`], and with a niche: nanoseconds since the process first asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(NonZeroU64);

impl From<Instant> for Moment {
    fn from(at: Instant) -> Moment {
        Moment(clock::nanoseconds(at))
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, later: Duration) -> Moment {
        let nanoseconds = later.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(later.subsec_nanos()));
        Moment(self.0.saturating_add(nanoseconds))
    }
}

impl Moment {
    /// How long after `earlier` it is; nothing where it is not.
    pub(super) fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

/// A queued look at a connection.
#[derive(Clone, Copy, Debug)]
struct Entry {
    due: Moment,
    index: u32,
}

/// The place of a connection that has no entry.
const NOWHERE: u32 = u32::MAX;

/// What is to be looked at, and when.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// A binary heap, the earliest first.
    heap: Vec<Entry>,
    /// Where in it the entry of each connection is.
    places: Vec<u32>,
}

impl Deadlines {
    /// Sees to it that `index` is looked at when `due` has come, or earlier.
    #[inline]
    pub(super) fn look_by(&mut self, due: Moment, index: usize) {
        // As it is nearly always: the deadline moves back.
        let entry = self.places.get(index).and_then(|place| self.heap.get(*place as usize));
        if entry.is_none_or(|entry| due <= entry.due) {
            self.enter(due, index);
        }
    }

    fn enter(&mut self, due: Moment, index: usize) {
        if self.places.len() <= index {
            self.places.resize(index + 1, NOWHERE);
        }
        let place = match self.places[index] {
            NOWHERE => {
                self.heap.push(Entry { due, index: index as u32 });
                self.heap.len() - 1
            }
            place => place as usize,
        };
        if due <= self.heap[place].due {
            self.heap[place].due = due;
            self.rise(place);
        }
    }

    /// The earliest entry's time.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.heap.first().map(|entry| entry.due)
    }

    /// Takes what is to be looked at by `now`.
    #[inline]
    pub(super) fn pop(&mut self, now: Moment) -> Option<usize> {
        if self.next_due()? > now {
            return None;
        }
        Some(self.take_first())
    }

    fn take_first(&mut self) -> usize {
        let first = self.heap.swap_remove(0);
        if !self.heap.is_empty() {
            self.sink();
        }
        self.places[first.index as usize] = NOWHERE;
        first.index as usize
    }

    /// Moves an entry towards the front until none before it is later, and notes its place.
    fn rise(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let above = (place - 1) / 2;
            if self.heap[above].due <= entry.due {
                break;
            }
            self.put(place, self.heap[above]);
            place = above;
        }
        self.put(place, entry);
    }

    /// Moves the first entry towards the back until none behind it is earlier, and notes its place.
    fn sink(&mut self) {
        let entry = self.heap[0];
        let mut place = 0;
        loop {
            let left = place * 2 + 1;
            let below = match (self.heap.get(left), self.heap.get(left + 1)) {
                (Some(one), Some(other)) if other.due < one.due => left + 1,
                (Some(_), _) => left,
                (None, _) => break,
            };
            if entry.due <= self.heap[below].due {
                break;
            }
            self.put(place, self.heap[below]);
            place = below;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.places[entry.index as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment(NonZeroU64::new(ms * 1_000_000 + 1).unwrap())
    }

    #[test]
    fn everything_comes_when_it_is_due_and_not_before() {
        let mut deadlines = Deadlines::default();
        // A pseudo-random mix; some are put off, which is not noted, and some are brought forward.
        let mut dues: Vec<u64> = (0..500u64).map(|n| 1000 + n * 7919 % 997).collect();
        for (index, due) in dues.iter_mut().enumerate() {
            deadlines.look_by(at(*due), index);
            match index % 3 {
                0 => deadlines.look_by(at(*due + 5000), index),
                1 => {
                    *due -= 37 * index as u64 % 1000;
                    deadlines.look_by(at(*due), index);
                }
                _ => {}
            }
        }
        let mut seen = vec![false; dues.len()];
        for now in 0..2000 {
            assert!(deadlines.next_due().is_none_or(|due| due >= at(now)));
            while let Some(index) = deadlines.pop(at(now)) {
                assert_eq!(dues[index], now);
                assert!(!std::mem::replace(&mut seen[index], true));
            }
        }
        assert!(seen.iter().all(|seen| *seen));
        assert!(deadlines.next_due().is_none());
    }

    #[test]
    fn a_connection_has_one_entry_however_often_its_deadline_moves() {
        let mut deadlines = Deadlines::default();
        for second in 0..1000 {
            for index in 0..10 {
                deadlines.look_by(at(second * 1000 + 60_000), index);
                deadlines.look_by(at(second * 1000 + 5_000), index);
            }
            while let Some(index) = deadlines.pop(at(second * 1000)) {
                deadlines.look_by(at(second * 1000 + 5_000), index);
            }
            assert!(deadlines.heap.len() == 10);
        }
        assert_eq!((size_of::<Entry>(), size_of::<Option<Moment>>()), (16, 8));
    }
}
