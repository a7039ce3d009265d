//! A distribution of durations, in memory that does not grow with their number.

use hdrhistogram::Histogram;

/// Significant digits of the histograms: a percentile is off by less than 0.1 %.
pub const SIGNIFICANT_DIGITS: u8 = 3;
/// Latencies beyond this are recorded as this, in microseconds: a day.
const LATENCY_MAX_US: u64 = 86_400_000_000;

/// A distribution of durations: histogram in microseconds, exact extremes and sum in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Microseconds, three significant digits.
    pub histogram: Histogram<u64>,
    /// Shortest, nanoseconds.
    pub min: u64,
    /// Longest, nanoseconds.
    pub max: u64,
    /// All together, nanoseconds.
    pub sum: u128,
}

impl Default for Latencies {
    fn default() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_US, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants within the crate's limits");
        Latencies { histogram, min: u64::MAX, max: 0, sum: 0 }
    }
}

impl Latencies {
    /// Adds one of this many nanoseconds.
    #[inline]
    pub fn record(&mut self, nanoseconds: u64) {
        self.histogram.saturating_record((nanoseconds + 500) / 1000);
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
        self.histogram.add(&other.histogram).expect("both have the same bounds");
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }

    /// None recorded, again.
    pub fn clear(&mut self) {
        self.histogram.reset();
        (self.min, self.max, self.sum) = (u64::MAX, 0, 0);
    }
}
