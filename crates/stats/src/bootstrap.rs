//! Intervals by the bootstrap: rounds are drawn again with replacement, and the spread of the median over the draws is
//! the interval (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13: the percentile interval).
//!
//! The median and not the mean, for two reasons. One disturbed round does not move it. And with few rounds the
//! percentile interval of a mean is too narrow (with 5 normal rounds it covers the truth in about 85 % of runs, not
//! 95 %), while that of a median becomes the whole range of the rounds, which covers the true median in
//! 1 - 2^(1-n) of runs whatever the distribution: 93.75 % with 5 rounds. [`attainable_level`] says it for every n.

use crate::describe::{median, quantile_sorted};
use crate::rng::Rng;

/// The level of every interval: 95 %.
pub const LEVEL: f64 = 0.95;

/// How often the rounds are drawn again; the interval's ends are then good to about 1 % of its own level.
pub const RESAMPLES: usize = 2000;

/// Fewer rounds compare nothing: the range of two misses the truth in half of all runs.
pub const ROUNDS_MIN: usize = 3;

/// A figure and the range that it lies in, at [`LEVEL`] as far as the number of rounds allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The median over the rounds.
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

/// The median of one figure over its rounds, with its percentile bootstrap interval. `None` without rounds.
pub fn median_interval(rounds: &[f64], seed: u64) -> Option<Interval> {
    let estimate = median(rounds)?;
    let mut rng = Rng::new(seed);
    let mut drawn = vec![0.0; rounds.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            drawn.fill_with(|| rounds[rng.below(rounds.len())]);
            drawn.sort_by(f64::total_cmp);
            quantile_sorted(&drawn, 0.5).unwrap_or(estimate)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let tail = (1.0 - LEVEL) / 2.0;
    Some(Interval {
        estimate,
        low: quantile_sorted(&medians, tail)?,
        high: quantile_sorted(&medians, 1.0 - tail)?,
        rounds: rounds.len(),
    })
}

/// How many times `a` is `b`: the median of the ratios within each round, with its interval. A round where either is
/// missing, or not above 0, takes no part. `None` when no round is left.
///
/// `a[i]` and `b[i]` must come from the same round: that is what frees the ratio of the machine's slow drifts.
pub fn ratio_interval(a: &[Option<f64>], b: &[Option<f64>], seed: u64) -> Option<Interval> {
    let ratios: Vec<f64> = a
        .iter()
        .zip(b)
        .filter_map(|pair| match pair {
            (&Some(a), &Some(b)) if a > 0.0 && b > 0.0 => Some(a / b),
            _ => None,
        })
        .collect();
    median_interval(&ratios, seed)
}

/// How often an interval over `rounds` rounds can hold the true median at best: its widest form is the range of the
/// rounds, which misses when all rounds fall on the same side, with probability 2 (1/2)^n. Never above [`LEVEL`].
pub fn attainable_level(rounds: usize) -> f64 {
    match rounds {
        0 | 1 => 0.0,
        n => (1.0 - 2.0 * 0.5f64.powi(n.min(1000) as i32)).min(LEVEL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rounds: &[f64]) -> Interval {
        median_interval(rounds, 1).expect("there are rounds")
    }

    /// With 5 rounds the extreme medians have probability 5.8 % each (3 or more of 5 draws hit the same round:
    /// 10 (1/5)^3 (4/5)^2 + 5 (1/5)^4 (4/5) + (1/5)^5 = 0.0579), more than the tail of 2.5 %: the interval is the range.
    #[test]
    fn five_rounds_give_their_range() {
        let got = of(&[5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!((got.estimate, got.low, got.high, got.rounds), (3.0, 1.0, 5.0, 5));
    }

    /// With 9 distinct rounds, P(median of the draws is the least) = P(B(9, 1/9) >= 5) = 0.0013, and
    /// P(it is one of the two least) = P(B(9, 2/9) >= 5) = 0.0295 > 0.025: the ends are the second and the eighth.
    #[test]
    fn nine_rounds_drop_the_extremes() {
        let got = of(&[10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0]);
        assert_eq!((got.estimate, got.low, got.high), (50.0, 20.0, 80.0));
    }

    #[test]
    fn few_or_equal_rounds() {
        assert_eq!(median_interval(&[], 1), None);
        assert_eq!(of(&[7.0]), Interval { estimate: 7.0, low: 7.0, high: 7.0, rounds: 1 });
        assert_eq!(of(&[2.0; 12]), Interval { estimate: 2.0, low: 2.0, high: 2.0, rounds: 12 });
    }

    #[test]
    fn same_seed_same_interval() {
        let rounds: Vec<f64> = (0..20).map(|i| f64::from(i * i % 17)).collect();
        assert_eq!(median_interval(&rounds, 9), median_interval(&rounds, 9));
    }

    #[test]
    fn ratios_are_paired_by_round() {
        // The machine slows down by half over the rounds; within each round a is exactly twice b.
        let b = [100.0, 90.0, 80.0, 60.0, 50.0].map(Some);
        let a = b.map(|v| v.map(|v| 2.0 * v));
        let got = ratio_interval(&a, &b, 1).expect("rounds");
        assert_eq!((got.estimate, got.low, got.high), (2.0, 2.0, 2.0));
        assert_eq!(got.verdict(), Verdict::More);
        assert_eq!(got.inverse().verdict(), Verdict::Less);
        assert_eq!(got.inverse().estimate, 0.5);
    }

    #[test]
    fn a_round_with_a_missing_side_takes_no_part() {
        let got =
            ratio_interval(&[Some(2.0), None, Some(9.0), Some(4.0)], &[Some(1.0), Some(1.0), Some(0.0), Some(2.0)], 1);
        assert_eq!(got.map(|i| (i.estimate, i.rounds)), Some((2.0, 2)));
        assert_eq!(ratio_interval(&[None], &[Some(1.0)], 1), None);
    }

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

    /// Simulated runs with a known truth: the interval must hold it about as often as it claims, for a symmetric and
    /// a skewed distribution. 500 runs give a standard error of about 1 percentage point.
    #[test]
    fn coverage_is_as_stated() {
        fn exponential(rng: &mut Rng) -> f64 {
            -(1.0 - rng.unit()).ln()
        }
        fn triangular(rng: &mut Rng) -> f64 {
            rng.unit() + rng.unit()
        }
        type Draw = fn(&mut Rng) -> f64;
        for (n, draw, truth, least, most) in [
            (5, triangular as Draw, 1.0, 0.91, 0.965),
            (5, exponential, std::f64::consts::LN_2, 0.91, 0.965),
            (11, triangular, 1.0, 0.92, 0.99),
            (11, exponential, std::f64::consts::LN_2, 0.92, 0.99),
        ] {
            let mut rng = Rng::new(2026);
            let held = (0..500)
                .filter(|&run| {
                    let rounds: Vec<f64> = (0..n).map(|_| draw(&mut rng)).collect();
                    let got = median_interval(&rounds, run).expect("rounds");
                    got.low <= truth && truth <= got.high
                })
                .count();
            let coverage = held as f64 / 500.0;
            assert!((least..=most).contains(&coverage), "{n} rounds: {coverage}");
        }
    }
}
