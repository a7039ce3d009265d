//! What a figure over rounds says: the interval it lies in, and whether a ratio is told apart from 1.
//!
//! Both kinds of interval are exact whatever the distribution of the rounds, as long as they are independent of each other: a median's by
//! counting signs ([`median_interval`](crate::median_interval)), a ratio's by ranking as well ([`ratio_interval`](crate::ratio_interval)).
//! Percentile bootstrap intervals, which are usual in their place, are too narrow for the few rounds that a run has: of the median of 7
//! normal rounds they hold the truth in 87 of 100 runs.

/// The level of every interval: 95 %.
pub const LEVEL: f64 = 0.95;

/// Fewer rounds compare nothing: the range of two misses the truth in half of all runs.
pub const ROUNDS_MIN: usize = 3;

/// A figure and the range that it lies in, at [`LEVEL`] as far as the number of rounds allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The middle of the rounds.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How many rounds it comes from.
    pub rounds: usize,
}

/// What a ratio says about the two that were compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The whole interval is below 1.
    Less,
    /// The interval holds 1.
    NotDistinguishable,
    /// The whole interval is above 1.
    More,
    /// Fewer than [`ROUNDS_MIN`] rounds: nothing can be said, neither that they differ nor that they do not.
    TooFewRounds,
}

impl Interval {
    /// Reads the interval as a ratio: is it told apart from 1?
    pub fn verdict(&self) -> Verdict {
        if self.rounds < ROUNDS_MIN {
            Verdict::TooFewRounds
        } else if self.low <= 1.0 && self.high >= 1.0 {
            Verdict::NotDistinguishable
        } else if self.high < 1.0 {
            Verdict::Less
        } else {
            Verdict::More
        }
    }

    /// The ratio seen from the other side: how many times b is a, where this says how many times a is b.
    pub fn inverse(&self) -> Interval {
        Interval { estimate: 1.0 / self.estimate, low: 1.0 / self.high, high: 1.0 / self.low, rounds: self.rounds }
    }
}

/// How often an interval over `rounds` rounds can hold the truth at best: its widest form is the range of the rounds, which misses when
/// all of them fall on the same side, with probability 2 (1/2)^n. Never above [`LEVEL`].
pub fn attainable_level(rounds: usize) -> f64 {
    match rounds {
        0 | 1 => 0.0,
        n => (1.0 - 2.0 * 0.5f64.powi(n.min(1000) as i32)).min(LEVEL),
    }
}

/// How far from the end of a test's statistic its tail reaches: the last place whose probabilities sum up to no more than `tail`, from 0,
/// and the fraction of the way to the next.
pub(crate) fn place_within(tail: f64, probabilities: Vec<f64>) -> (usize, f64) {
    let mut below = 0.0;
    for (place, probability) in probabilities.into_iter().enumerate() {
        let next = below + probability;
        if next > tail {
            // The place before is within the tail; not even the first one is where the rounds are few.
            return if place == 0 { (0, 0.0) } else { (place - 1, (tail - below) / probability) };
        }
        below = next;
    }
    (0, 0.0)
}

/// The values of an ascending list that lie `place` from its ends, counted from 0, and at the fraction between two of them.
pub(crate) fn ends(sorted: &[f64], place: usize, fraction: f64) -> (f64, f64) {
    let last = sorted.len() - 1;
    let (outer, inner) = (place.min(last), (place + 1).min(last));
    let between = |from: f64, to: f64| from + fraction * (to - from);
    (between(sorted[outer], sorted[inner]), between(sorted[last - outer], sorted[last - inner]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts() {
        let interval = |low, high, rounds| Interval { estimate: 1.0, low, high, rounds };
        for (low, high, rounds, expected) in [
            (0.8, 0.9, 5, Verdict::Less),
            (0.8, 1.0, 5, Verdict::NotDistinguishable),
            (0.9, 1.1, 5, Verdict::NotDistinguishable),
            (1.0, 1.0, 5, Verdict::NotDistinguishable),
            (1.01, 1.1, 5, Verdict::More),
            (1.01, 1.1, 3, Verdict::More),
            (1.5, 1.6, 2, Verdict::TooFewRounds),
            (3.0, 3.0, 1, Verdict::TooFewRounds),
        ] {
            assert_eq!(interval(low, high, rounds).verdict(), expected, "{low} to {high} over {rounds}");
        }
    }

    #[test]
    fn attainable_levels() {
        for (rounds, expected) in
            [(0, 0.0), (1, 0.0), (2, 0.5), (3, 0.75), (4, 0.875), (5, 0.9375), (6, 0.95), (100_000, 0.95)]
        {
            assert_eq!(attainable_level(rounds), expected, "{rounds} rounds");
        }
    }
}
