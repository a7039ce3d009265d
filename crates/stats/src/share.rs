//! How large a part of all requests was bad, and how surely that is known.
//!
//! Wilson's interval for a binomial share ("Probable Inference", JASA 22, 1927), with two things said honestly. Requests of a queue are not
//! independent: a slow one has slow neighbours, so that ten thousand of them may be worth a hundred. So requests come in [`Batch`]es of
//! neighbours, and the interval is widened by how much more the batches differ than independent requests would (the design effect of
//! survey statistics, by the ratio estimator's variance). And a batch more is always possible: no batch, no interval.

/// How surely a share is to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// 95 %.
    Usual,
    /// 99.9 %: for what must hardly ever be said wrongly.
    Strict,
}

/// Requests that were due one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// How many.
    pub all: u64,
    /// How many of them were not as they should be; at most `all`.
    pub bad: u64,
}

/// A share of requests, 0..=1, and the range in which it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareInterval {
    /// Bad ones among all.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How many independent requests would tell as much.
    pub worth: f64,
}

/// The share of bad requests in these batches; `None` without a request.
pub fn share_interval(batches: &[Batch], level: Level) -> Option<ShareInterval> {
    // The two-sided level's quantile of the normal distribution.
    let z = match level {
        Level::Usual => 1.959_964,
        Level::Strict => 3.290_527,
    };
    let all = batches.iter().map(|batch| batch.all).sum::<u64>() as f64;
    let bad = batches.iter().map(|batch| batch.bad).sum::<u64>() as f64;
    if all == 0.0 {
        return None;
    }
    let estimate = bad / all;
    let worth = all / design_effect(batches, all, estimate);
    let square = z * z;
    let centre = (estimate + square / (2.0 * worth)) / (1.0 + square / worth);
    let spread = estimate * (1.0 - estimate) / worth + square / (4.0 * worth * worth);
    let half = z * spread.sqrt() / (1.0 + square / worth);
    Some(ShareInterval { estimate, low: (centre - half).max(0.0), high: (centre + half).min(1.0), worth })
}

/// How many times larger the share's variance is than that of independent requests; at least 1.
fn design_effect(batches: &[Batch], all: f64, estimate: f64) -> f64 {
    let filled = batches.iter().filter(|batch| batch.all > 0);
    let number = filled.clone().count() as f64;
    let independent = estimate * (1.0 - estimate) * all;
    if number < 2.0 || independent == 0.0 {
        return 1.0;
    }
    let apart = |batch: &Batch| (batch.bad as f64 - estimate * batch.all as f64).powi(2);
    let between = filled.map(apart).sum::<f64>() * number / (number - 1.0);
    (between / independent).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    fn batch(all: u64, bad: u64) -> Batch {
        Batch { all, bad }
    }

    #[test]
    fn shares_and_their_ends() {
        let check = |batches: &[Batch], estimate: f64, low: f64, high: f64| {
            let got = share_interval(batches, Level::Usual).expect("an interval");
            let near = |one: f64, other: f64| (one - other).abs() < 5e-5;
            assert!(near(got.estimate, estimate) && near(got.low, low) && near(got.high, high), "{batches:?}: {got:?}");
        };
        // Wilson's closed form: with none of n bad the upper end is z²/(n + z²).
        check(&[batch(1000, 0)], 0.0, 0.0, 0.00383);
        check(&[batch(1000, 1000)], 1.0, 0.99617, 1.0);
        check(&[batch(100, 50)], 0.5, 0.40383, 0.59617);
        // Batches that agree are worth their requests; such that differ are not.
        check(&[batch(50, 25), batch(50, 25)], 0.5, 0.40383, 0.59617);
        let apart = share_interval(&[batch(50, 0), batch(50, 50)], Level::Usual).expect("an interval");
        assert!(apart.worth < 1.5 && apart.low < 0.1 && apart.high > 0.9, "{apart:?}");
        assert_eq!(share_interval(&[batch(0, 0)], Level::Usual), None);
    }

    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says() {
        // Requests that are bad in bursts: each begins or ends one with a small chance. The true share is 2 %.
        let covered = |seed: u64| {
            let mut rng = Rng::new(seed);
            let mut bad = false;
            let batches: Vec<Batch> = (0..40)
                .map(|_| {
                    let mut batch = Batch { all: 500, bad: 0 };
                    for _ in 0..500 {
                        bad = if bad { rng.unit() >= 0.049 } else { rng.unit() < 0.001 };
                        batch.bad += u64::from(bad);
                    }
                    batch
                })
                .collect();
            let got = share_interval(&batches, Level::Usual).expect("an interval");
            (got.low..=got.high).contains(&0.02)
        };
        let share = (0..500).filter(|seed| covered(*seed)).count();
        assert!(share >= 465, "{share} of 500");
    }
}
