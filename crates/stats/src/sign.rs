//! The median of one figure over its rounds, with the interval that the sign test gives.
//!
//! A round lies above the true median as often as below, whatever the distribution, so the number of rounds above it is binomial, and the
//! order statistics so many places from the ends hold it with a known probability. Between two places the interval is interpolated
//! (Hettmansperger and Sheather, "Confidence intervals based on interpolated order statistics", Statistics & Probability Letters 4, 1986),
//! which makes it 95 % within half a percentage point for the distributions that timings have.

use crate::describe::quantile_sorted;
use crate::interval::{Interval, LEVEL, ends};

/// The median over the rounds and its interval at [`LEVEL`]; up to 5 rounds their whole range, which is less
/// ([`attainable_level`](crate::attainable_level)). `None` without rounds.
pub fn median_interval(rounds: &[f64]) -> Option<Interval> {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let estimate = quantile_sorted(&sorted, 0.5)?;
    let (place, fraction) = place(sorted.len());
    let (low, high) = ends(&sorted, place, fraction);
    Some(Interval { estimate, low, high, rounds: rounds.len() })
}

/// How far from the ends of `n` ordered rounds the interval ends, from 0, and the fraction of the way to the next.
fn place(n: usize) -> (usize, f64) {
    let tail = (1.0 - LEVEL) / 2.0;
    // P(at most `place` rounds lie on one side), binomial with 1/2, in logarithms so that many rounds do not underflow.
    let mut log_term = -(n as f64) * std::f64::consts::LN_2;
    let mut below = log_term.exp();
    for place in 0..n / 2 {
        log_term += ((n - place) as f64 / (place + 1) as f64).ln();
        let next = below + log_term.exp();
        if next > tail {
            return (place, fraction(n, place, (tail - below).max(0.0) / (next - below)));
        }
        below = next;
    }
    (0, 0.0)
}

/// Hettmansperger and Sheather's weight, from the share of the way that the probabilities have come.
fn fraction(n: usize, place: usize, share: f64) -> f64 {
    let (n, d) = (n as f64, place as f64 + 1.0);
    (n - d) * share / (d + (n - 2.0 * d) * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn of(rounds: &[f64]) -> Interval {
        median_interval(rounds).expect("there are rounds")
    }

    /// P(none of 5 above) = 1/32 = 3.1 % is more than the tail of 2.5 %: the interval is the range.
    #[test]
    fn five_rounds_give_their_range() {
        let got = of(&[5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!((got.estimate, got.low, got.high, got.rounds), (3.0, 1.0, 5.0, 5));
    }

    /// P(at most 1 of 9) = 10/512 = 1.95 %, P(at most 2) = 46/512 = 8.98 %: from the second round 0.0781 of the way in probability, by the
    /// paper's weight 7 * 0.0781 / (2 + 5 * 0.0781) = 0.2288 of the way in value.
    #[test]
    fn nine_rounds_drop_the_extremes() {
        let got = of(&[10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0]);
        assert_eq!(got.estimate, 50.0);
        assert!((got.low - 22.288).abs() < 0.01 && (got.high - 77.712).abs() < 0.01, "{got:?}");
    }

    #[test]
    fn few_equal_and_many_rounds() {
        assert_eq!(median_interval(&[]), None);
        assert_eq!(of(&[7.0]), Interval { estimate: 7.0, low: 7.0, high: 7.0, rounds: 1 });
        assert_eq!(of(&[2.0; 12]), Interval { estimate: 2.0, low: 2.0, high: 2.0, rounds: 12 });
        let many: Vec<f64> = (0..10_001).map(f64::from).collect();
        // 1.96 * sqrt(n) / 2 = 98 places from the middle.
        assert!((of(&many).low - 4902.0).abs() < 2.0, "{:?}", of(&many));
    }

    /// Simulated runs with a known truth. 2,000 give a standard error of half a percentage point.
    #[test]
    fn the_truth_is_held_as_often_as_stated() {
        let exponential = |rng: &mut Rng| -(1.0 - rng.unit()).ln();
        let triangular = |rng: &mut Rng| rng.unit() + rng.unit();
        type Draw = fn(&mut Rng) -> f64;
        let mut rng = Rng::new(2026);
        for n in [5, 6, 7, 8, 11, 20, 33] {
            for (name, draw, truth) in
                [("triangular", triangular as Draw, 1.0), ("exponential", exponential as Draw, std::f64::consts::LN_2)]
            {
                let held = (0..2000).filter(|_| {
                    let got = of(&(0..n).map(|_| draw(&mut rng)).collect::<Vec<f64>>());
                    got.low <= truth && truth <= got.high
                });
                let coverage = held.count() as f64 / 2000.0;
                assert!((0.925..=0.97).contains(&coverage), "{n} {name} rounds: {coverage}");
            }
        }
    }
}
