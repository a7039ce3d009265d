//! A time series on the wall's clock, whose memory has a bound: when it is full, its intervals become twice as wide.
//!
//! Intervals begin at whole multiples of their width since 1970-01-01 UTC, not at the beginning of a run. So series of several threads and
//! of several machines, which all began at different moments, are added interval by interval and nothing is divided or guessed.

use std::time::Duration;

/// No series is of a time beyond this, nanoseconds since 1970: in the year 2116.
const UNIX_NS_MAX: u64 = 1 << 62;
/// Width of the intervals of completions at first.
pub const INTERVAL: Duration = Duration::from_millis(100);
/// So many at most: an hour of the first width.
pub const INTERVALS_MAX: usize = 36_000;

/// What an interval holds.
pub trait Cell: Clone + Default {
    /// Adds what another interval holds.
    fn add(&mut self, other: &Self);
}

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

impl Cell for Interval {
    fn add(&mut self, other: &Interval) {
        self.completed += other.completed;
        self.failed += other.failed;
        self.longest = self.longest.max(other.longest);
    }
}

/// A series. Times are nanoseconds since 1970-01-01 UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid<T> {
    /// Width of an interval, nanoseconds: the first width, or it doubled some times.
    pub width: u64,
    /// The first interval begins at `first * width`.
    pub first: u64,
    /// One after the other.
    pub cells: Vec<T>,
    most: usize,
}

impl<T: Cell> Grid<T> {
    /// A series of at most `most` intervals which begins with the one that `at` is in.
    pub fn new(width: Duration, most: usize, at: u64) -> Grid<T> {
        let width = width.as_nanos() as u64;
        Grid { width, first: at / width, cells: vec![T::default()], most }
    }

    /// A series that has not begun.
    pub fn empty(width: Duration, most: usize) -> Grid<T> {
        Grid { width: width.as_nanos() as u64, first: 0, cells: Vec::new(), most }
    }

    /// A series again, as a document holds it; `None`: it cannot be one of this first width.
    pub fn read(width: Duration, most: usize, width_ms: u64, begins_ms: u64, cells: Vec<T>) -> Option<Grid<T>> {
        let first_width = width.as_nanos() as u64;
        let width = width_ms.checked_mul(1_000_000)?;
        let begins = begins_ms.checked_mul(1_000_000)?;
        let is_doubled = width % first_width == 0 && (width / first_width).is_power_of_two();
        let fits = width < UNIX_NS_MAX && begins < UNIX_NS_MAX && cells.len() <= most;
        (is_doubled && fits && begins % width == 0).then(|| Grid { width, first: begins / width, cells, most })
    }

    /// The interval that `at` is in.
    #[inline]
    pub fn at(&mut self, at: u64) -> &mut T {
        let index = (at / self.width).wrapping_sub(self.first) as usize;
        if index < self.cells.len() { &mut self.cells[index] } else { self.reach(at) }
    }

    /// Adds another series of the same first width.
    pub fn merge(&mut self, other: &Grid<T>) {
        while self.width < other.width {
            self.widen();
        }
        for (index, cell) in (other.first..).zip(&other.cells) {
            self.at(index * other.width).add(cell);
        }
    }

    /// When an interval begins.
    pub fn begins(&self, index: usize) -> u64 {
        (self.first + index as u64) * self.width
    }

    /// Makes an interval, and those between.
    #[cold]
    fn reach(&mut self, at: u64) -> &mut T {
        if self.cells.is_empty() {
            self.first = at / self.width;
        }
        loop {
            let index = at / self.width;
            let first = index.min(self.first);
            let end = (index + 1).max(self.first + self.cells.len() as u64);
            if end - first <= self.most as u64 {
                let before = (self.first - first) as usize;
                self.cells.splice(0..0, std::iter::repeat_n(T::default(), before));
                self.cells.resize((end - first) as usize, T::default());
                self.first = first;
                return &mut self.cells[(index - first) as usize];
            }
            self.widen();
        }
    }

    /// Joins pairs, those that begin at an even place.
    fn widen(&mut self) {
        let mut joined: Vec<T> = Vec::with_capacity(self.cells.len() / 2 + 1);
        for (index, cell) in (self.first..).zip(self.cells.drain(..)) {
            match joined.get_mut((index / 2 - self.first / 2) as usize) {
                Some(other) => other.add(&cell),
                None => joined.push(cell),
            }
        }
        self.cells = joined;
        self.first /= 2;
        self.width *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    /// Half past a second of 2026.
    const START: u64 = 1_795_253_400 * SECOND + SECOND / 2 + 7;

    fn series(at: u64) -> Grid<Interval> {
        Grid::new(INTERVAL, INTERVALS_MAX, at)
    }

    fn count(series: &mut Grid<Interval>, at: u64, longest: u64) {
        series.at(at).add(&Interval { completed: 1, failed: 0, longest });
    }

    #[test]
    fn a_long_run_has_wider_intervals_and_loses_nothing() {
        let mut series = series(START);
        for second in 0..20_000 {
            count(&mut series, START + second * SECOND, second);
            series.at(START + second * SECOND + 999_999_999).failed += 1;
        }
        assert_eq!(series.width, 800_000_000, "5.6 hours");
        assert!(series.cells.len() <= INTERVALS_MAX);
        let sum = |of: fn(&Interval) -> u64| series.cells.iter().map(of).sum::<u64>();
        assert_eq!((sum(|i| i.completed), sum(|i| i.failed)), (20_000, 20_000));
        assert_eq!(series.cells.iter().map(|interval| interval.longest).max(), Some(19_999));
        assert_eq!(series.begins(0), START / 800_000_000 * 800_000_000);
    }

    /// Whichever begins first, whichever is wider: what is added interval by interval is as if it had been one series.
    #[test]
    fn series_that_begin_at_different_moments_are_one() {
        for (one_begins, other_begins, other_lasts) in [
            (0, 0, 3 * SECOND),
            (0, SECOND / 3, SECOND),
            (5 * SECOND, 0, 4000 * SECOND),
            (0, 7000 * SECOND, 12_345_678_901_234),
        ] {
            let (one_begins, other_begins) = (START + one_begins, START + other_begins);
            let (mut one, mut other) = (series(one_begins), series(other_begins));
            let mut whole = series(one_begins.min(other_begins));
            for step in 0..500 {
                for (part, at) in
                    [(&mut one, one_begins + step * SECOND / 9), (&mut other, other_begins + step * other_lasts / 500)]
                {
                    count(part, at, step);
                    count(&mut whole, at, step);
                }
            }
            for (first, second) in [(&one, &other), (&other, &one)] {
                let mut merged = Grid::empty(INTERVAL, INTERVALS_MAX);
                merged.merge(first);
                merged.merge(second);
                assert_eq!(merged, whole, "{one_begins} {other_begins} {other_lasts}");
            }
        }
    }
}
