//! Durations kept exactly in little memory, so that ab's tables of whole milliseconds come out as if every sample had been kept.
//!
//! Up to [`COUNTED_US`] there is one counter a microsecond. Beyond, a counter stands for a 65,536th of an octave, so that a duration is off
//! by less than eight millionths; octaves are made as they are needed. That costs half a megabyte and, with durations of hours, 5 more.

/// Durations below this have a counter each, in microseconds.
const COUNTED_US: usize = 1 << COUNTED_BITS;
const COUNTED_BITS: u32 = 17;
/// Counters of an octave.
const OCTAVE: usize = 1 << (COUNTED_BITS - 1);
/// Octaves beyond [`COUNTED_US`]: up to 12 days; what is longer counts as that.
const OCTAVES: usize = 23;

/// Durations in whole microseconds.
#[derive(Clone, Debug)]
pub struct Distribution {
    counted: Vec<u32>,
    octaves: [Vec<u32>; OCTAVES],
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Default for Distribution {
    fn default() -> Distribution {
        let octaves = std::array::from_fn(|_| Vec::new());
        Distribution { counted: vec![0; COUNTED_US], octaves, count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

/// The octave of a duration beyond the counted ones, and the counter in it.
fn place(microseconds: u64) -> (usize, usize) {
    let microseconds = microseconds.min((1 << (COUNTED_BITS as usize + OCTAVES)) - 1);
    let octave = microseconds.ilog2() - COUNTED_BITS;
    (octave as usize, (microseconds >> (octave + 1)) as usize - OCTAVE)
}

/// The duration in the middle of those that a counter stands for.
fn middle(octave: usize, counter: usize) -> u64 {
    (((counter + OCTAVE) as u64) << (octave + 1)) + (1 << octave)
}

impl Distribution {
    /// Adds a duration of this many microseconds.
    #[inline]
    pub fn record(&mut self, microseconds: u64) {
        match usize::try_from(microseconds).ok().and_then(|index| self.counted.get_mut(index)) {
            Some(counter) => *counter += 1,
            None => self.record_long(microseconds),
        }
        self.count += 1;
        self.sum += microseconds;
        self.min = self.min.min(microseconds);
        self.max = self.max.max(microseconds);
    }

    #[cold]
    fn record_long(&mut self, microseconds: u64) {
        let (octave, counter) = place(microseconds);
        let counters = &mut self.octaves[octave];
        counters.resize(OCTAVE, 0);
        counters[counter] += 1;
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Distribution) {
        let add = |to: &mut Vec<u32>, from: &[u32]| {
            to.resize(to.len().max(from.len()), 0);
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        };
        add(&mut self.counted, &other.counted);
        self.octaves.iter_mut().zip(&other.octaves).for_each(|(to, from)| add(to, from));
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The longest, microseconds; 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The durations in order, to take figures from.
    pub fn sorted(&self) -> Sorted {
        let short = self.counted.iter().enumerate().map(|(value, count)| (value as u64, *count));
        let long = self.octaves.iter().enumerate().flat_map(|(octave, counters)| {
            counters.iter().enumerate().map(move |(counter, count)| (middle(octave, counter), *count))
        });
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut below = 0;
        for (value, count) in short.chain(long).filter(|(_, count)| *count > 0) {
            below += u64::from(count);
            runs.push((below, value.clamp(self.min, self.max)));
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

    /// Every figure against the same figure of the sorted list itself; the values were recorded by two threads.
    fn check(values: &[u64]) {
        let mut parts = [Distribution::default(), Distribution::default()];
        values.iter().enumerate().for_each(|(index, value)| parts[index % 2].record(*value));
        let [mut distribution, other] = parts;
        distribution.merge(&other);
        let sorted = distribution.sorted();
        let mut list = values.to_vec();
        list.sort_unstable();
        for (rank, value) in list.iter().enumerate() {
            let allowed = if *value < COUNTED_US as u64 { 0 } else { value / 125_000 };
            assert!(sorted.at(rank as u64).abs_diff(*value) <= allowed, "{rank}: {value} {}", sorted.at(rank as u64));
        }
        assert_eq!(sorted.at(u64::MAX), *list.last().unwrap());
        assert_eq!((sorted.min(), sorted.max()), (list[0], list[list.len() - 1]));
        let mean = list.iter().sum::<u64>() / list.len() as u64;
        assert_eq!(sorted.mean(), mean);
        let half = list.len() / 2;
        let median = if list.len().is_multiple_of(2) { (list[half - 1] + list[half]) / 2 } else { list[half] };
        assert!(sorted.median().abs_diff(median) <= median / 125_000, "{median}");
        let squares: f64 = list.iter().map(|value| (*value as f64 - mean as f64).powi(2)).sum();
        let deviation = if list.len() > 1 { (squares / (list.len() - 1) as f64).sqrt() } else { 0.0 };
        assert!((sorted.deviation() - deviation).abs() <= deviation * 1e-5, "{} {deviation}", sorted.deviation());
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
    fn every_octave_has_its_place() {
        for value in (COUNTED_BITS..63).flat_map(|bits| [1u64 << bits, (2 << bits) - 1, 3 << (bits - 1)]) {
            let (octave, counter) = place(value);
            assert!(octave < OCTAVES && counter < OCTAVE, "{value}");
            let capped = value.min((1 << 40) - 1);
            assert!(middle(octave, counter).abs_diff(capped) <= capped / 125_000, "{value}");
        }
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        let sorted = Distribution::default().sorted();
        assert_eq!((sorted.at(0), sorted.min(), sorted.max(), sorted.mean(), sorted.median()), (0, 0, 0, 0, 0));
    }
}
