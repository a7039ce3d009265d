//! Durations kept exactly in little memory, so that ab's tables of whole milliseconds come out as if every sample had been kept.
//!
//! Up to [`COUNTED_US`] there is one counter a microsecond; the few durations beyond are kept one by one. That costs half a megabyte however
//! many requests there are, and 8 bytes for each one slower than that (at most a few thousand a second whatever the concurrency).

/// Durations below this have a counter each, in microseconds.
const COUNTED_US: usize = 1 << 17;

/// Durations in whole microseconds.
#[derive(Clone, Debug)]
pub struct Distribution {
    counted: Vec<u32>,
    long: Vec<u64>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution { counted: vec![0; COUNTED_US], long: Vec::new(), count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Distribution {
    /// Adds a duration of this many microseconds.
    #[inline]
    pub fn record(&mut self, microseconds: u64) {
        match usize::try_from(microseconds).ok().and_then(|index| self.counted.get_mut(index)) {
            Some(counter) => *counter += 1,
            None => self.long.push(microseconds),
        }
        self.count += 1;
        self.sum += microseconds;
        self.min = self.min.min(microseconds);
        self.max = self.max.max(microseconds);
    }

    /// The longest, microseconds; 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The durations in order, to take figures from.
    pub fn sorted(mut self) -> Sorted {
        self.long.sort_unstable();
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut below = 0;
        for (value, count) in self.counted.iter().enumerate().filter(|(_, count)| **count > 0) {
            below += u64::from(*count);
            runs.push((below, value as u64));
        }
        for value in self.long {
            below += 1;
            runs.push((below, value));
        }
        Sorted { runs, count: self.count, sum: self.sum, min: self.min, max: self.max }
    }
}

/// Durations in order.
#[derive(Clone, Debug, Default)]
pub struct Sorted {
    /// (how many durations are this long or shorter, microseconds), ascending in both.
    runs: Vec<(u64, u64)>,
    /// How many there are.
    pub count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Sorted {
    /// The duration at `rank` (0: the shortest), in microseconds; the longest for a rank beyond the end, 0 if there is none at all.
    pub fn at(&self, rank: u64) -> u64 {
        let run = self.runs.partition_point(|(below, _)| *below <= rank);
        self.runs.get(run).or(self.runs.last()).map_or(0, |(_, value)| *value)
    }

    /// Shortest, microseconds.
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// Longest, microseconds.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Mean in whole microseconds, rounded down as ab does.
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }

    /// All together, microseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The median. (The original averages the middle duration and the one after it where the count is odd, and takes the upper of the two in
    /// the middle where it is even.)
    pub fn median(&self) -> u64 {
        let middle = self.count / 2;
        if self.count > 0 && self.count.is_multiple_of(2) {
            u64::midpoint(self.at(middle - 1), self.at(middle))
        } else {
            self.at(middle)
        }
    }

    /// Sample standard deviation around the whole-microsecond mean, in microseconds; 0 for fewer than two.
    pub fn deviation(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let mean = self.mean() as f64;
        let mut before = 0;
        let mut squares = 0.0;
        for (below, value) in &self.runs {
            let distance = *value as f64 - mean;
            squares += distance * distance * (below - before) as f64;
            before = *below;
        }
        (squares / (self.count - 1) as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every figure against the same figure of the sorted list itself.
    fn check(values: &[u64]) {
        let mut distribution = Distribution::default();
        values.iter().for_each(|value| distribution.record(*value));
        let sorted = distribution.sorted();
        let mut list = values.to_vec();
        list.sort_unstable();
        let ranks: Vec<u64> = (0..list.len() as u64).map(|rank| sorted.at(rank)).collect();
        assert_eq!(ranks, list);
        assert_eq!(sorted.at(u64::MAX), *list.last().unwrap());
        assert_eq!((sorted.min(), sorted.max()), (list[0], list[list.len() - 1]));
        let mean = list.iter().sum::<u64>() / list.len() as u64;
        assert_eq!(sorted.mean(), mean);
        let half = list.len() / 2;
        let median = if list.len().is_multiple_of(2) { (list[half - 1] + list[half]) / 2 } else { list[half] };
        assert_eq!(sorted.median(), median);
        let squares: f64 = list.iter().map(|value| (*value as f64 - mean as f64).powi(2)).sum();
        let deviation = if list.len() > 1 { (squares / (list.len() - 1) as f64).sqrt() } else { 0.0 };
        assert!((sorted.deviation() - deviation).abs() <= deviation * 1e-9, "{} {deviation}", sorted.deviation());
    }

    #[test]
    fn figures_are_those_of_all_samples() {
        check(&[7]);
        check(&[5, 3]);
        check(&[9, 1, 5]);
        check(&[131_071, 131_072, 131_073, 0, 0, 4_000_000_000]);
        check(&(0..5000u64).map(|n| (n * 2_654_435_761) % 400_000).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        let sorted = Distribution::default().sorted();
        assert_eq!((sorted.at(0), sorted.min(), sorted.max(), sorted.mean(), sorted.median()), (0, 0, 0, 0, 0));
    }
}
