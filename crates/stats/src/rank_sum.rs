//! How many times one run's figure is another's, where their rounds have nothing to do with each other: Hodges and Lehmann's estimate over
//! the ratios of all pairs, with the interval that Wilcoxon's rank-sum test (Mann and Whitney's) gives (Hollander, Wolfe and Chicken,
//! "Nonparametric Statistical Methods", 3rd ed. 2014, sections 4.1 to 4.3).
//!
//! Nothing frees such a ratio of what differed between the two runs: the hour, the neighbours, the machine. It is for runs that cannot be
//! repeated side by side; [`ratio_interval`](crate::ratio_interval) is for rounds of one run.

use crate::describe::quantile_sorted;
use crate::interval::{Interval, LEVEL, ends, place_within};

/// Up to so many rounds of both together the distribution is counted; above, the normal one is as good.
const EXACT_ROUNDS_MAX: usize = 50;

/// How many times the rounds of `a` are those of `b`, with its interval at [`LEVEL`]; where there are too few for that, the whole range of the
/// ratios. Rounds not above 0 take no part. The interval's rounds are those of the run that has fewer. `None` when either has none.
pub fn runs_ratio_interval(a: &[f64], b: &[f64]) -> Option<Interval> {
    let logs = |rounds: &[f64]| -> Vec<f64> { rounds.iter().filter(|v| **v > 0.0).map(|v| v.ln()).collect() };
    let (a, b) = (logs(a), logs(b));
    let mut differences: Vec<f64> = a.iter().flat_map(|a| b.iter().map(move |b| a - b)).collect();
    differences.sort_by(f64::total_cmp);
    let estimate = quantile_sorted(&differences, 0.5)?;
    let (place, fraction) = place(a.len(), b.len());
    let (low, high) = ends(&differences, place, fraction);
    Some(Interval { estimate: estimate.exp(), low: low.exp(), high: high.exp(), rounds: a.len().min(b.len()) })
}

/// How far from the ends of the ordered differences of `n` and `m` rounds the interval ends, from 0, and the fraction of the way to the next.
fn place(n: usize, m: usize) -> (usize, f64) {
    let tail = (1.0 - LEVEL) / 2.0;
    if n + m <= EXACT_ROUNDS_MAX {
        return place_within(tail, pair_counts(n, m));
    }
    let (n, m) = (n as f64, m as f64);
    let place = (n * m / 2.0 - 1.959_964 * (n * m * (n + m + 1.0) / 12.0).sqrt() - 0.5).max(0.0);
    (place as usize, place.fract())
}

/// The probability of each number of pairs in which the first is the larger, from none to all, when neither run is.
fn pair_counts(n: usize, m: usize) -> Vec<f64> {
    // Coefficients of the Gaussian binomial: a product of (1 - x^(m + i)) / (1 - x^i), whole numbers throughout.
    let mut ways = vec![0.0; n * m + 1];
    ways[0] = 1.0;
    for i in 1..=n {
        for count in (m + i..ways.len()).rev() {
            ways[count] -= ways[count - m - i];
        }
        for count in i..ways.len() {
            ways[count] += ways[count - i];
        }
    }
    let all: f64 = ways.iter().sum();
    ways.iter().map(|ways| ways / all).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::simulation::{Noise, rounds};

    /// Table of the rank-sum distribution: 5 and 5 rounds, P(U <= 2) = 4/252; 8 and 7, P(U <= 10) = 0.0200; 3 and 3, P(U = 0) = 1/20.
    #[test]
    fn counts_are_those_of_the_tables() {
        for (n, m, count, expected) in [(5, 5, 2, 4.0 / 252.0), (3, 3, 0, 0.05), (8, 7, 10, 0.0200), (1, 4, 0, 0.2)] {
            let below: f64 = pair_counts(n, m)[..=count].iter().sum();
            assert!((below - expected).abs() < 5e-5, "{n} and {m} rounds, {count}: {below}");
        }
    }

    #[test]
    fn counted_and_normal_places_meet() {
        let (place, fraction) = place(25, 25);
        let normal = 312.5 - 1.96 * (625.0 * 51.0 / 12.0f64).sqrt() - 0.5;
        assert!((place as f64 + fraction - normal).abs() < 2.0, "{place} {fraction} {normal}");
    }

    #[test]
    fn ratios_of_runs() {
        let got = runs_ratio_interval(&[2.0, 2.0, 2.0, 2.0], &[1.0, 1.0, 1.0, 0.0]).expect("rounds");
        assert!((got.estimate - 2.0).abs() < 1e-9 && got.rounds == 3, "{got:?}");
        assert_eq!(got.verdict(), Verdict::More);
        assert_eq!(runs_ratio_interval(&[], &[1.0]), None);
    }

    /// Simulated true ratios of runs that do not drift: 95 % intervals hold them in 93 to 97.5 % of pairs of runs.
    #[test]
    fn true_ratios_are_held_as_often_as_stated() {
        for noise in [Noise::Normal, Noise::Outliers, Noise::Skewed] {
            for (n, m) in [(4, 4), (5, 5), (5, 9), (7, 7), (12, 12), (30, 30)] {
                let truth = 1.07;
                let held = (0..2000).filter(|seed| {
                    let of = |truth: f64, n, seed| -> Vec<f64> {
                        let [values] = rounds(noise, [truth], n, seed);
                        values.into_iter().flatten().collect()
                    };
                    let (a, b) = (of(100.0 * truth, n, 2 * seed), of(100.0, m, 2 * seed + 1));
                    let got = runs_ratio_interval(&a, &b).expect("rounds");
                    got.low <= truth && truth <= got.high
                });
                let coverage = held.count() as f64 / 2000.0;
                assert!((0.93..=0.975).contains(&coverage), "{noise:?}, {n} and {m} rounds: {coverage}");
            }
        }
    }
}
