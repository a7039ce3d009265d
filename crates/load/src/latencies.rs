//! A distribution of durations, in memory that does not grow with their number.

use crate::histogram::Histogram;

/// A distribution of durations: histogram in microseconds, exact extremes and sum in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Microseconds, three significant digits.
    pub histogram: Histogram,
    /// Shortest, nanoseconds.
    pub min: u64,
    /// Longest, nanoseconds.
    pub max: u64,
    /// All together, nanoseconds.
    pub sum: u128,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { histogram: Histogram::default(), min: u64::MAX, max: 0, sum: 0 }
    }
}

impl Latencies {
    /// Adds one of this many nanoseconds.
    #[inline]
    pub fn record(&mut self, nanoseconds: u64) {
        self.histogram.record(nanoseconds.saturating_add(500) / 1000);
        self.min = self.min.min(nanoseconds);
        self.max = self.max.max(nanoseconds);
        self.sum += u128::from(nanoseconds);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }

    /// None recorded, again.
    pub fn clear(&mut self) {
        self.histogram.clear();
        (self.min, self.max, self.sum) = (u64::MAX, 0, 0);
    }
}
