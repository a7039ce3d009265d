//! What may be claimed of many comparisons made in one experiment.
//!
//! Each comparison is a chance to be fooled. Holm's step-down method ("A simple sequentially rejective multiple test procedure", Scandinavian
//! Journal of Statistics 6, 1979) keeps the chance that a whole experiment claims any difference where there is none below 5 %, however
//! its comparisons depend on each other.
//!
//! A comparison's own test is Student's, paired, on logarithms: with 5 rounds it can be as sure as many comparisons need, which a rank
//! test cannot. It errs on the careful side where rounds have outliers. In addition the interval by ranks must leave 1 out.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::interval::{Interval, Verdict};
use crate::signed_rank::{log_ratios, ratio_interval};

/// How often an experiment may claim a difference where there is none: a fifth of 5 % is kept in hand for noise that is not quite normal.
pub const ERROR: f64 = 0.04;

/// One of the comparisons of an experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// How many times the first is the second; an interval for this comparison alone.
    pub ratio: Interval,
    /// How often so large a difference is seen where there is none, in this comparison alone.
    pub p: f64,
    /// What may be claimed in view of all comparisons.
    pub claim: Verdict,
}

impl Comparison {
    /// Whether further rounds are worth while: not if a difference is claimed, nor if the interval says that both are the same up to
    /// a factor of 1 + `precision`.
    pub fn is_open(&self, precision: f64) -> bool {
        let same = self.ratio.high <= 1.0 + precision && self.ratio.low >= 1.0 / (1.0 + precision);
        match self.claim {
            Verdict::More | Verdict::Less => false,
            Verdict::NotDistinguishable => !same,
            Verdict::TooFewRounds => true,
        }
    }

    /// The comparison seen from the other side.
    pub fn inverse(&self) -> Comparison {
        let claim = match self.claim {
            Verdict::Less => Verdict::More,
            Verdict::More => Verdict::Less,
            same => same,
        };
        Comparison { ratio: self.ratio.inverse(), claim, ..*self }
    }
}

/// Figures of one target by round; `None` where a round has none.
pub type Rounds<'a> = &'a [Option<f64>];

/// Judges all comparisons of an experiment together: pairs of figures of the same rounds. A comparison without a round in common is `None`.
pub fn judge(pairs: &[(Rounds<'_>, Rounds<'_>)]) -> Vec<Option<Comparison>> {
    judge_within(pairs, ERROR)
}

/// As [`judge`], where the experiment is looked at again and again while rounds come in, and ended when all is decided: look number `look`, from
/// 1, spends its share of the error, 1/(k (k + 1)) for look k. The shares add up to one however many looks follow, and they hold however looks
/// depend on each other.
pub fn judge_look(pairs: &[(Rounds<'_>, Rounds<'_>)], look: u32) -> Vec<Option<Comparison>> {
    let look = f64::from(look.max(1));
    judge_within(pairs, ERROR / (look * (look + 1.0)))
}

/// The number of rounds to look at after `rounds`: half as many again, so that looks are few and little time is wasted between them.
pub fn next_look(rounds: u32) -> u32 {
    rounds.saturating_add((rounds / 2).max(1))
}

fn judge_within(pairs: &[(Rounds<'_>, Rounds<'_>)], error: f64) -> Vec<Option<Comparison>> {
    let mut judged: Vec<Option<Comparison>> = pairs
        .iter()
        .map(|(a, b)| {
            let ratio = ratio_interval(a, b)?;
            Some(Comparison { ratio, p: p_of_none(&log_ratios(a, b)), claim: ratio.verdict() })
        })
        .collect();
    let mut by_p: Vec<&mut Comparison> = judged.iter_mut().flatten().collect();
    by_p.sort_by(|x, y| x.p.total_cmp(&y.p));
    let all = by_p.len();
    let mut refused = false;
    for (place, comparison) in by_p.into_iter().enumerate() {
        refused |= comparison.p * (all - place) as f64 > error;
        if refused && comparison.claim != Verdict::TooFewRounds {
            comparison.claim = Verdict::NotDistinguishable;
        }
    }
    judged
}

/// Student's two-sided test that logarithms of ratios have the mean 0.
fn p_of_none(logs: &[f64]) -> f64 {
    let n = logs.len() as f64;
    let Ok(student) = StudentsT::new(0.0, 1.0, n - 1.0) else { return 1.0 };
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
    if variance == 0.0 {
        // All rounds are equal: counts, not timings.
        return if mean == 0.0 { 1.0 } else { 0.0 };
    }
    2.0 * student.cdf(-mean.abs() / (variance / n).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::{NOISES, Noise, rounds};

    /// Values of R's t.test.
    #[test]
    fn student_is_student() {
        for (logs, expected) in [
            (&[0.1, 0.2, 0.3][..], 0.074_180),
            (&[0.01, -0.02, 0.03, 0.01, 0.0], 0.501_169),
            (&[0.0, 0.0, 0.0], 1.0),
            (&[0.5, 0.5, 0.5], 0.0),
            (&[0.5], 1.0),
            (&[], 1.0),
        ] {
            assert!((p_of_none(logs) - expected).abs() < 1e-5, "{logs:?}: {}", p_of_none(logs));
        }
    }

    /// Each of three equal targets compared with each of three others, which they are `truth` times, over `n` rounds.
    fn experiment(noise: Noise, truth: f64, n: usize, seed: u64) -> Vec<Comparison> {
        let all = rounds(noise, [truth, truth, truth, 1.0, 1.0, 1.0], n, seed);
        let (left, right) = all.split_at(3);
        let mut pairs: Vec<(Rounds<'_>, Rounds<'_>)> = Vec::new();
        for a in left {
            pairs.extend(right.iter().map(|b| (&a[..], &b[..])));
        }
        judge(&pairs).into_iter().flatten().collect()
    }

    #[test]
    fn at_most_one_in_twenty_experiments_of_equals_claims_a_difference() {
        for noise in NOISES {
            for n in [3, 5, 12, 24] {
                let claims =
                    |seed| experiment(*noise, 1.0, n, seed).iter().any(|c| c.claim != Verdict::NotDistinguishable);
                let fooled = (0..4000).filter(|seed| claims(*seed)).count();
                assert!(fooled <= 200, "{noise:?}, {n} rounds: {fooled} of 4000");
            }
        }
    }

    /// Rounds of a whole experiment come in, and it ends as soon as every comparison is decided to 5 %.
    fn until_decided(noise: Noise, truth: f64, seed: u64) -> (Vec<Comparison>, usize) {
        const MOST: u32 = 33;
        let all = rounds(noise, [truth, truth, truth, 1.0, 1.0, 1.0], MOST as usize, seed);
        let (left, right) = all.split_at(3);
        let (mut n, mut look) = (5, 1);
        loop {
            let so_far = |target: &Vec<Option<f64>>| target[..n as usize].to_vec();
            let (left, right): (Vec<_>, Vec<_>) =
                (left.iter().map(so_far).collect(), right.iter().map(so_far).collect());
            let pairs: Vec<(Rounds<'_>, Rounds<'_>)> =
                left.iter().flat_map(|a| right.iter().map(move |b| (&a[..], &b[..]))).collect();
            let judged: Vec<Comparison> = judge_look(&pairs, look).into_iter().flatten().collect();
            if n == MOST || !judged.iter().any(|comparison| comparison.is_open(0.05)) {
                return (judged, n as usize);
            }
            (n, look) = (next_look(n).min(MOST), look + 1);
        }
    }

    #[test]
    fn looking_again_and_again_fools_no_more_often() {
        for noise in NOISES {
            let claims =
                |seed| until_decided(*noise, 1.0, seed).0.iter().any(|c| c.claim != Verdict::NotDistinguishable);
            let fooled = (0..2000).filter(|seed| claims(*seed)).count();
            assert!(fooled <= 100, "{noise:?}: {fooled} of 2000");
        }
    }

    /// The interval that an experiment ends with was not chosen by its rounds alone, and still holds the truth as often as stated.
    #[test]
    fn intervals_at_the_end_hold_the_truth_as_often_as_stated() {
        for (noise, truth) in
            [(Noise::Normal, 1.0), (Noise::Normal, 1.07), (Noise::Outliers, 1.2), (Noise::Skewed, 1.07)]
        {
            let (mut held, mut all) = (0, 0);
            for seed in 0..1000 {
                let (judged, _) = until_decided(noise, truth, seed);
                held += judged.iter().filter(|c| c.ratio.low <= truth && truth <= c.ratio.high).count();
                all += judged.len();
            }
            let coverage = f64::from(u32::try_from(held).expect("few")) / all as f64;
            assert!((0.92..=0.975).contains(&coverage), "{noise:?} {truth}: {coverage}");
        }
    }

    #[test]
    fn large_differences_end_early_and_small_ones_do_not() {
        let rounds_of =
            |truth| (0..100).map(|seed| until_decided(Noise::Normal, truth, seed).1).sum::<usize>() as f64 / 100.0;
        let (large, small) = (rounds_of(2.0), rounds_of(1.04));
        assert!(large < 6.0 && small > 10.0, "{large} {small}");
    }

    #[test]
    fn differences_are_seen() {
        for (truth, n, expected) in
            [(3.0, 5, Verdict::More), (0.33, 5, Verdict::Less), (1.5, 5, Verdict::More), (1.1, 15, Verdict::More)]
        {
            let seen = |seed| experiment(Noise::Normal, truth, n, seed).iter().filter(|c| c.claim == expected).count();
            let seen: usize = (0..100).map(seen).sum();
            assert!(seen >= 800, "{truth} in {n} rounds: {seen} of 900");
        }
    }

    #[test]
    fn a_comparison_without_a_common_round_spoils_none() {
        let rounds = [Some(1.0), Some(1.1), Some(0.9), Some(1.0), Some(1.05)];
        let twice = rounds.map(|round| round.map(|round| 2.0 * round));
        let judged = judge(&[(&rounds, &[None; 5]), (&twice, &rounds)]);
        assert_eq!(judged[0], None);
        let seen = judged[1].expect("there are rounds");
        assert_eq!((seen.claim, seen.inverse().claim), (Verdict::More, Verdict::Less));
    }
}
