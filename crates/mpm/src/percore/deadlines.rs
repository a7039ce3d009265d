//! Deadlines of many connections: a few queues, each sorted because entries are only appended, as timeouts are few values.
//!
//! An entry may be early, never late: a connection whose deadline moved back keeps its entry and is queued anew when that
//! comes due, so that a busy connection costs nothing here. One whose deadline moved forward gets a second entry.

use std::collections::VecDeque;
use std::time::Instant;

/// Queues before entries are sorted into the last one by hand. There are as many as timeouts of different length are mixed.
const QUEUES_MAX: usize = 8;

/// A queued look at a connection.
#[derive(Clone, Copy, Debug)]
struct Entry {
    due: Instant,
    index: usize,
}

/// What is to be looked at, and when.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    queues: Vec<VecDeque<Entry>>,
}

impl Deadlines {
    /// Queues a look at `index` when `due` has come.
    pub(super) fn push(&mut self, due: Instant, index: usize) {
        let entry = Entry { due, index };
        // Of the queues that end early enough the one that ends last, so that the others stay open for earlier entries.
        let fitting = self.queues.iter_mut().filter(|queue| queue.back().is_none_or(|last| last.due <= due));
        if let Some(queue) = fitting.max_by_key(|queue| queue.back().map(|last| last.due)) {
            queue.push_back(entry);
        } else if self.queues.len() < QUEUES_MAX {
            self.queues.push(VecDeque::from([entry]));
        } else if let Some(queue) = self.queues.last_mut() {
            let place = queue.partition_point(|other| other.due <= due);
            queue.insert(place, entry);
        }
    }

    /// The earliest entry's time.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.queues.iter().filter_map(|queue| queue.front()).map(|entry| entry.due).min()
    }

    /// Takes an entry that is due at `now`: its time and what to look at.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Instant, usize)> {
        let queue = self.queues.iter_mut().find(|queue| queue.front().is_some_and(|entry| entry.due <= now))?;
        queue.pop_front().map(|entry| (entry.due, entry.index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn everything_comes_when_it_is_due_and_not_before() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut deadlines = Deadlines::default();
        // A pseudo-random mix of far more timeout values than there are queues.
        let dues: Vec<u64> = (0..500u64).map(|n| n * 7919 % 997).collect();
        for (index, due) in dues.iter().enumerate() {
            deadlines.push(at(*due), index);
        }
        let mut seen = vec![false; dues.len()];
        for now in 0..1000 {
            assert!(deadlines.next_due().is_none_or(|due| due >= at(now)));
            while let Some((due, index)) = deadlines.pop(at(now)) {
                assert_eq!((due, dues[index]), (at(now), now));
                assert!(!std::mem::replace(&mut seen[index], true));
            }
        }
        assert!(seen.iter().all(|seen| *seen));
        assert!(deadlines.next_due().is_none());
    }

    #[test]
    fn two_timeouts_need_two_queues() {
        let start = Instant::now();
        let mut deadlines = Deadlines::default();
        for second in 0..100 {
            deadlines.push(start + Duration::from_secs(second + 60), 1);
            deadlines.push(start + Duration::from_secs(second + 5), 2);
        }
        assert_eq!(deadlines.queues.len(), 2);
    }
}
