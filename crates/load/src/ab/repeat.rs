//! What several runs of the same say about each other (`--repeat`).

use manifold_stats::{ROUNDS_MIN, attainable_level, median, median_interval};

/// Requests a second of each run.
#[derive(Debug, Default)]
pub struct Rates(Vec<f64>);

impl Rates {
    /// A run that did so many in so many nanoseconds.
    pub fn add(&mut self, done: u64, taken: u64) {
        self.0.push(done as f64 * 1e9 / taken.max(1) as f64);
    }

    /// Median and extremes, and where there are enough runs the interval of the median.
    pub fn summary(&self) -> String {
        let least = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.0.iter().copied().fold(0.0, f64::max);
        let middle = median(&self.0).unwrap_or(0.0);
        let mut text = format!(
            "\nRuns:                   {}\nRate of the runs:       {middle:.2} [#/sec] (median), from {least:.2} to {most:.2}\n",
            self.0.len()
        );
        if let Some(interval) = median_interval(&self.0).filter(|interval| interval.rounds >= ROUNDS_MIN) {
            text.push_str(&format!(
                "Interval of the median: {:.2} to {:.2} [#/sec] ({:.0} %)\n",
                interval.low,
                interval.high,
                attainable_level(interval.rounds) * 100.0
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_summed_up() {
        let mut rates = Rates::default();
        for rate in [100, 300, 200] {
            rates.add(rate, 1_000_000_000);
        }
        let text = rates.summary();
        assert!(
            text.starts_with(
                "\nRuns:                   3\nRate of the runs:       200.00 [#/sec] (median), from 100.00 to 300.00\n"
            ),
            "{text}"
        );
    }
}
