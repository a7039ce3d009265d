//! A time series whose memory has a bound: when it is full, its intervals become twice as wide.

use std::time::Duration;

/// Width of the intervals at first.
pub const INTERVAL: Duration = Duration::from_millis(100);
/// So many at most: an hour of the first width.
const INTERVALS_MAX: usize = 36_000;

/// What happened in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Answers completed.
    pub completed: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Longest latency among the completed, microseconds.
    pub longest: u64,
}

impl Interval {
    /// Adds what happened in another.
    pub fn add(&mut self, other: Interval) {
        self.completed += other.completed;
        self.failed += other.failed;
        self.longest = self.longest.max(other.longest);
    }
}

/// The series of one thread, or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Nanoseconds.
    pub width: u64,
    /// From the window's beginning.
    pub intervals: Vec<Interval>,
}

impl Default for Intervals {
    fn default() -> Intervals {
        Intervals { width: INTERVAL.as_nanos() as u64, intervals: Vec::new() }
    }
}

impl Intervals {
    /// A request completed `at` nanoseconds after the beginning, with this latency in nanoseconds.
    #[inline]
    pub fn count(&mut self, at: u64, latency: u64) {
        let interval = self.interval(at);
        interval.completed += 1;
        interval.longest = interval.longest.max(latency / 1000);
    }

    /// A request failed then.
    pub fn count_failure(&mut self, at: u64) {
        self.interval(at).failed += 1;
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &Intervals) {
        for (index, interval) in other.intervals.iter().enumerate() {
            self.interval(index as u64 * other.width).add(*interval);
        }
    }

    fn interval(&mut self, at: u64) -> &mut Interval {
        while at / self.width >= INTERVALS_MAX as u64 {
            self.widen();
        }
        let index = (at / self.width) as usize;
        if index >= self.intervals.len() {
            self.intervals.resize(index + 1, Interval::default());
        }
        &mut self.intervals[index]
    }

    fn widen(&mut self) {
        self.width *= 2;
        let join = |pair: &[Interval]| {
            let mut joined = pair[0];
            pair.iter().skip(1).for_each(|other| joined.add(*other));
            joined
        };
        self.intervals = self.intervals.chunks(2).map(join).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_has_wider_intervals_and_loses_nothing() {
        let width = INTERVAL.as_nanos() as u64;
        let mut series = Intervals::default();
        for second in 0..20_000u64 {
            series.count(second * 1_000_000_000 + 5, second * 1000);
            series.count_failure(second * 1_000_000_000 + 999_999_999);
        }
        assert_eq!(series.width, 8 * width, "5.6 hours");
        assert!(series.intervals.len() <= INTERVALS_MAX);
        let sum = |of: fn(&Interval) -> u64| series.intervals.iter().map(of).sum::<u64>();
        assert_eq!((sum(|i| i.completed), sum(|i| i.failed)), (20_000, 20_000));
        assert_eq!(series.intervals.iter().map(|interval| interval.longest).max(), Some(19_999));
    }

    #[test]
    fn threads_with_different_widths_are_merged() {
        let mut short = Intervals::default();
        short.count(150_000_000, 7000);
        let mut long = Intervals::default();
        long.count(3_700_000_000_000, 1000);
        let mut merged = short.clone();
        merged.merge(&long);
        assert_eq!((merged.width, merged.intervals[0].completed, merged.intervals[0].longest), (200_000_000, 1, 7));
        assert_eq!(merged.intervals.last().map(|interval| interval.completed), Some(1));
        long.merge(&merged);
        assert_eq!(long.intervals.iter().map(|interval| interval.completed).sum::<u64>(), 3);
    }
}
