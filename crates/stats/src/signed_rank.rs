//! How many times one target's figure is another's: Hodges and Lehmann's estimate over the ratios of each round, with the interval that
//! Wilcoxon's signed-rank test gives (Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods", 3rd ed. 2014, sections 3.1 to 3.3).
//!
//! Logarithms of ratios of two targets in the same round are symmetric about the true one when both are disturbed alike, which is all that
//! the test asks for. Neither one disturbed round nor heavy tails spoil it, and for normal noise it needs only a twentieth more rounds than
//! the t interval; the median of the ratios would need half as many again.

use crate::describe::quantile_sorted;
use crate::interval::{Interval, LEVEL, ends, place_within};

/// Up to here the distribution of rank sums is counted; above, the normal one is as good.
const EXACT_ROUNDS_MAX: usize = 60;

/// How many times `a` is `b`, with its interval at [`LEVEL`]; up to 5 rounds the whole range of the rounds' ratios, which is less
/// ([`attainable_level`](crate::attainable_level)). A round where either is missing, or not above 0, takes no part. `None` when none is left.
///
/// `a[i]` and `b[i]` must come from the same round: that is what frees the ratio of the machine's slow drifts.
pub fn ratio_interval(a: &[Option<f64>], b: &[Option<f64>]) -> Option<Interval> {
    let logs = log_ratios(a, b);
    let mut means = walsh_averages(&logs);
    means.sort_by(f64::total_cmp);
    let estimate = quantile_sorted(&means, 0.5)?;
    let (place, fraction) = place(logs.len());
    let (low, high) = ends(&means, place, fraction);
    Some(Interval { estimate: estimate.exp(), low: low.exp(), high: high.exp(), rounds: logs.len() })
}

/// Logarithms of the ratios of the rounds in which both figures were measured.
pub(crate) fn log_ratios(a: &[Option<f64>], b: &[Option<f64>]) -> Vec<f64> {
    let measured = |pair: (&Option<f64>, &Option<f64>)| match pair {
        (&Some(a), &Some(b)) if a > 0.0 && b > 0.0 => Some((a / b).ln()),
        _ => None,
    };
    a.iter().zip(b).filter_map(measured).collect()
}

/// The means of all pairs, each with itself as well.
fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let with_those_behind = |(index, first): (usize, &f64)| {
        let first = *first;
        values[index..].iter().map(move |second| f64::midpoint(first, *second))
    };
    values.iter().enumerate().flat_map(with_those_behind).collect()
}

/// How far from the ends of the ordered means of `n` rounds the interval ends, from 0, and the fraction of the way to the next.
fn place(n: usize) -> (usize, f64) {
    let tail = (1.0 - LEVEL) / 2.0;
    if n > EXACT_ROUNDS_MAX {
        let n = n as f64;
        let spread = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        let place = n * (n + 1.0) / 4.0 - 1.959_964 * spread - 0.5;
        return (place as usize, place.fract());
    }
    place_within(tail, rank_sums(n))
}

/// The probability of each sum of those of the ranks 1 to `n` that carry a plus, when each does so as often as not.
fn rank_sums(n: usize) -> Vec<f64> {
    let mut sums = vec![0.0; n * (n + 1) / 2 + 1];
    sums[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..sums.len()).rev() {
            let with = if sum >= rank { sums[sum - rank] } else { 0.0 };
            sums[sum] = f64::midpoint(sums[sum], with);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::simulation::{NOISES, rounds};

    /// Table of the signed-rank distribution: P(T <= 8) for 10 rounds is 0.0244, for 7 rounds P(T <= 2) is 0.0234; 15 rounds P(T <= 25) 0.0240.
    #[test]
    fn rank_sums_are_those_of_the_tables() {
        for (n, sum, expected) in [(6, 0, 0.0156), (7, 2, 0.0234), (10, 8, 0.0244), (15, 25, 0.0240), (20, 52, 0.0242)]
        {
            let below: f64 = rank_sums(n)[..=sum].iter().sum();
            assert!((below - expected).abs() < 5e-5, "{n} rounds, {sum}: {below}");
        }
    }

    #[test]
    fn counted_and_normal_places_meet() {
        let (place, fraction) = place(EXACT_ROUNDS_MAX);
        let n = EXACT_ROUNDS_MAX as f64;
        let normal = n * (n + 1.0) / 4.0 - 1.96 * (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt() - 0.5;
        assert!((place as f64 + fraction - normal).abs() < 2.0, "{place} {fraction} {normal}");
    }

    #[test]
    fn ratios_are_paired_by_round() {
        // The machine slows down by half over the rounds; within each round a is exactly twice b.
        let b = [100.0, 90.0, 80.0, 60.0, 50.0].map(Some);
        let a = b.map(|v| v.map(|v| 2.0 * v));
        let got = ratio_interval(&a, &b).expect("rounds");
        for figure in [got.estimate, got.low, got.high] {
            assert!((figure - 2.0).abs() < 1e-12, "{got:?}");
        }
        assert_eq!((got.verdict(), got.inverse().verdict()), (Verdict::More, Verdict::Less));
    }

    #[test]
    fn a_round_with_a_missing_side_takes_no_part() {
        let got =
            ratio_interval(&[Some(2.0), None, Some(9.0), Some(4.0)], &[Some(1.0), Some(1.0), Some(0.0), Some(2.0)]);
        assert_eq!(got.map(|i| ((i.estimate * 1e9).round(), i.rounds)), Some((2e9, 2)));
        assert_eq!(ratio_interval(&[None], &[Some(1.0)]), None);
    }

    /// Simulated true ratios: 95 % intervals hold them in 93 to 97 % of runs, whatever the noise. 2,000 runs give a standard error of half
    /// a percentage point; the range of 5 rounds is 93.75 %, which their simulation may miss by as much.
    #[test]
    fn true_ratios_are_held_as_often_as_stated() {
        for noise in NOISES {
            for (n, least) in [(5, 0.925), (6, 0.93), (7, 0.93), (10, 0.93), (14, 0.93), (25, 0.93)] {
                let truth = 1.07;
                let held = (0..2000).filter(|seed| {
                    let [a, b] = rounds(*noise, [100.0 * truth, 100.0], n, *seed);
                    let got = ratio_interval(&a, &b).expect("rounds");
                    got.low <= truth && truth <= got.high
                });
                let coverage = held.count() as f64 / 2000.0;
                assert!((least..=0.97).contains(&coverage), "{noise:?}, {n} rounds: {coverage}");
            }
        }
    }
}
