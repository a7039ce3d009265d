//! Which differences in CPU time a request a run may claim.
//!
//! Sentences and tables pick from all pairs of targets, under all loads and under those of each mode, so all of these are judged together.

use manifold_stats::{Comparison, Rounds, judge};

use crate::experiment::{Experiment, Load};
use crate::figures::{Cells, Metric, Pair};

/// Every pair of targets under every set of loads that is compared.
#[derive(Debug)]
pub struct Comparisons {
    /// Loads, the two targets, and what may be said; the first target is the lower number.
    judged: Vec<(Vec<Load>, usize, usize, Option<Comparison>)>,
}

impl Comparisons {
    /// Judges the cells of so many targets.
    pub fn new(experiment: &Experiment, cells: Cells<'_>, targets: usize) -> Comparisons {
        let mut pairs = Vec::new();
        for loads in sets(experiment) {
            for b in 0..targets {
                pairs.extend((0..b).map(|a| (loads.clone(), a, b)));
            }
        }
        let rounds: Vec<Pair> =
            pairs.iter().map(|(loads, a, b)| cells.paired(*a, *b, loads, Metric::CpuUsPerRequest)).collect();
        let borrowed: Vec<(Rounds<'_>, Rounds<'_>)> = rounds.iter().map(|(a, b)| (&a[..], &b[..])).collect();
        let judged =
            pairs.into_iter().zip(judge(&borrowed)).map(|((loads, a, b), claim)| (loads, a, b, claim)).collect();
        Comparisons { judged }
    }

    /// How many times `a`'s mean over these loads is `b`'s, and what may be claimed of it. `None` where no round has both, or where the
    /// loads are not one of the sets that are compared.
    pub fn of(&self, a: usize, b: usize, loads: &[Load]) -> Option<Comparison> {
        let (first, second) = (a.min(b), a.max(b));
        let wanted = |(set, x, y, _): &&(Vec<Load>, usize, usize, _)| set == loads && (*x, *y) == (first, second);
        let comparison = self.judged.iter().find(wanted)?.3?;
        Some(if a < b { comparison } else { comparison.inverse() })
    }

    /// How many comparisons were judged together.
    pub fn count(&self) -> usize {
        self.judged.iter().filter(|(.., claim)| claim.is_some()).count()
    }
}

/// All loads, and those of each mode.
fn sets(experiment: &Experiment) -> Vec<Vec<Load>> {
    let all = experiment.loads();
    let of = |keep_alive| all.iter().copied().filter(|load| load.keep_alive == keep_alive).collect::<Vec<Load>>();
    let mut sets = vec![of(true), of(false), all.clone()];
    sets.retain(|set| !set.is_empty());
    sets.dedup();
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use manifold_stats::Verdict;

    #[test]
    fn pairs_are_seen_from_both_sides() {
        let results = fixture::clear_winner();
        let cells = Cells::new(&results.experiment, &results.cells);
        let comparisons = Comparisons::new(&results.experiment, cells, results.targets.len());
        // 28 pairs of eight targets, in each mode and in both.
        assert_eq!(comparisons.count(), 84);
        let all = results.experiment.loads();
        let (percore, nginx) = (3, 7);
        let claim = |a, b| comparisons.of(a, b, &all).map(|comparison| comparison.claim);
        assert_eq!((claim(percore, nginx), claim(nginx, percore)), (Some(Verdict::Less), Some(Verdict::More)));
        assert_eq!(claim(percore, percore), None);
        assert_eq!(comparisons.of(percore, nginx, &all[..1]), None);
    }

    #[test]
    fn one_mode_is_compared_once() {
        let mut results = fixture::clear_winner();
        results.experiment.keep_alive = vec![true];
        let cells = Cells::new(&results.experiment, &results.cells);
        assert_eq!(Comparisons::new(&results.experiment, cells, results.targets.len()).count(), 28);
    }
}
