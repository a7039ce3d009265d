//! The latencies of each second of a run: what intervals of a comparison are drawn from, in little memory.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::grid::{Cell, Grid};
use crate::histogram::Histogram;
use crate::latencies::Latencies;
use crate::report;

/// Width of a slice at first.
pub const SLICE: Duration = Duration::from_secs(1);
/// So many at most: four minutes of the first width; then each is twice as wide.
pub const SLICES_MAX: usize = 240;

/// What completed within a slice of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Requests that failed.
    pub failed: u64,
    /// All response times together, nanoseconds.
    pub sum: u128,
    /// Filled places of the histogram, ascending: microseconds and how many.
    pub counts: Vec<(u64, u64)>,
}

impl Slice {
    /// Of these, and so many failures.
    pub fn of(latencies: &Latencies, failed: u64) -> Slice {
        Slice { failed, sum: latencies.sum, counts: latencies.histogram.counts().collect() }
    }

    /// Answers completed.
    pub fn completed(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// The response time, microseconds, that this part of the answers did not exceed; `None` if nothing was completed.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let wanted = (quantile * self.completed() as f64).ceil() as u64;
        let mut passed = 0;
        let place = self.counts.iter().find(|(_, count)| {
            passed += count;
            passed >= wanted
        });
        place.or(self.counts.last()).map(|(value, _)| *value)
    }
}

impl Cell for Slice {
    fn add(&mut self, other: &Slice) {
        self.failed += other.failed;
        self.sum += other.sum;
        let mut merged = Vec::with_capacity(self.counts.len() + other.counts.len());
        let (mut ours, mut theirs) = (self.counts.iter().peekable(), other.counts.iter().peekable());
        while let Some(next) = match (ours.peek(), theirs.peek()) {
            (Some(one), Some(other)) if other.0 < one.0 => theirs.next(),
            (None, _) => theirs.next(),
            _ => ours.next(),
        } {
            match merged.last_mut() {
                Some((value, count)) if *value == next.0 => *count += next.1,
                _ => merged.push(*next),
            }
        }
        self.counts = merged;
    }
}

/// A series without a slice: of a run whose seconds are not kept.
pub fn none() -> Grid<Slice> {
    Grid::empty(SLICE, SLICES_MAX)
}

/// Slices as a report holds them: of equal width, beginning at whole multiples of it since 1970-01-01 UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slices {
    /// Width of a slice in milliseconds.
    pub interval_ms: u64,
    /// When the first slice begins, milliseconds since 1970-01-01 UTC.
    pub begins_unix_ms: u64,
    /// One after the other; none where they were not kept.
    pub slices: Vec<SliceFigures>,
}

/// A slice as a report holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceFigures {
    /// Answers completed.
    pub completed: u64,
    /// Requests that failed.
    pub failed: u64,
    /// All response times together, nanoseconds.
    pub sum_ns: u128,
    /// Their histogram as in a distribution's `hdr`; empty if nothing was completed.
    pub hdr: String,
}

impl Slices {
    /// Of these.
    pub fn of(grid: &Grid<Slice>) -> Slices {
        let mut scratch = Histogram::default();
        let mut figures = |slice: &Slice| {
            scratch.clear();
            for (value, count) in &slice.counts {
                scratch.record_n(*value, *count);
            }
            let completed = scratch.len();
            let hdr = if completed > 0 { report::encode(&scratch) } else { String::new() };
            SliceFigures { completed, failed: slice.failed, sum_ns: slice.sum, hdr }
        };
        Slices {
            interval_ms: grid.width / 1_000_000,
            begins_unix_ms: if grid.cells.is_empty() { 0 } else { grid.begins(0) / 1_000_000 },
            slices: grid.cells.iter().map(&mut figures).collect(),
        }
    }

    /// The slices again.
    ///
    /// # Errors
    /// A sentence, if these were not written by [`Slices::of`].
    pub fn grid(&self) -> Result<Grid<Slice>, String> {
        let slice = |figures: &SliceFigures| {
            let counts = match figures.hdr.as_str() {
                "" => Vec::new(),
                hdr => report::decode(hdr)?.counts().collect(),
            };
            let slice = Slice { failed: figures.failed, sum: figures.sum_ns, counts };
            if slice.completed() == figures.completed {
                Ok(slice)
            } else {
                Err("a slice contradicts itself".to_owned())
            }
        };
        let cells = self.slices.iter().map(slice).collect::<Result<Vec<_>, String>>()?;
        Grid::read(SLICE, SLICES_MAX, self.interval_ms, self.begins_unix_ms, cells)
            .ok_or_else(|| "its figures contradict each other: slices".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn slices_are_added_and_read_again_to_the_last_count() {
        let mut grid = none();
        let mut all = Latencies::default();
        for second in 0..1000 {
            let mut latencies = Latencies::default();
            (0..50).for_each(|n| latencies.record((second * 977 + n * n * 131) * 1000));
            all.merge(&latencies);
            grid.at(1_795_253_400 * SECOND + second * SECOND).add(&Slice::of(&latencies, 1));
        }
        assert_eq!((grid.width, grid.cells.len()), (8 * SECOND, 125));
        let slices: Slices = serde_json::from_str(&serde_json::to_string(&Slices::of(&grid)).unwrap()).unwrap();
        assert_eq!(slices.grid().unwrap(), grid);
        let mut whole = Slice::default();
        grid.cells.iter().for_each(|slice| whole.add(slice));
        assert_eq!(whole, Slice::of(&all, 1000));
        for quantile in [0.0, 0.5, 0.99, 0.999, 1.0] {
            assert_eq!(whole.quantile(quantile), Some(all.histogram.value_at_quantile(quantile)), "{quantile}");
        }
        assert_eq!(Slice::default().quantile(0.5), None);
        assert_eq!(Slices::of(&none()).grid().unwrap(), none());
    }

    #[test]
    fn slices_that_contradict_themselves_are_an_error() {
        let mut grid = none();
        let mut latencies = Latencies::default();
        latencies.record(5_000_000);
        grid.at(9 * SECOND).add(&Slice::of(&latencies, 0));
        let good = Slices::of(&grid);
        let check = |change: fn(&mut Slices)| {
            let mut slices = good.clone();
            change(&mut slices);
            assert!(slices.grid().is_err(), "{slices:?}");
        };
        check(|slices| slices.interval_ms = 0);
        check(|slices| slices.interval_ms = 3000);
        check(|slices| slices.begins_unix_ms = 9500);
        check(|slices| slices.begins_unix_ms = u64::MAX);
        check(|slices| slices.slices[0].completed = 2);
        check(|slices| slices.slices[0].hdr.push('A'));
        check(|slices| slices.slices = vec![SliceFigures::default(); SLICES_MAX + 1]);
    }
}
