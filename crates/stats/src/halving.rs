//! Successive halving: many candidates are measured briefly, the worse half is given up, and the rest is measured for longer, until few are
//! left (Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016).
//!
//! Which half is worse is read off few short rounds, so one that cannot be told apart from the best is not given up with it. What is chosen at
//! the end was chosen because it looked good, and looks better than it is: it has to be measured anew before anything is claimed of it.

use crate::describe::median;
use crate::signed_rank::ratio_interval;

/// One of the worse half stays only if it may be as good as the best and seems no further from it than this.
const NEAR: f64 = 0.05;

/// Figures of all candidates by round, higher is better; `None` or 0 where a candidate has none.
pub type Figures = [Vec<Option<f64>>];

/// The candidates among `alive` that go on, best first: the better half, and those of the other that cannot be told apart from the best. One
/// without figures never goes on, unless none has any.
pub fn survivors(figures: &Figures, alive: &[usize]) -> Vec<usize> {
    let ranked = ranked(figures, alive);
    let Some((&best, _)) = ranked.split_first() else { return Vec::new() };
    let half = ranked.len().div_ceil(2);
    let stays = |(place, candidate): (usize, &usize)| {
        let goes_on = score(&figures[*candidate]) > 0.0 && (place < half || is_near(figures, *candidate, best));
        goes_on.then_some(*candidate)
    };
    let stay: Vec<usize> = ranked.iter().enumerate().filter_map(stays).collect();
    if stay.is_empty() { ranked } else { stay }
}

/// The candidates of `alive` that cannot be told apart from the best of them, it included, best first.
pub fn as_good_as_the_best(figures: &Figures, alive: &[usize]) -> Vec<usize> {
    let ranked = ranked(figures, alive);
    let Some(&best) = ranked.first() else { return Vec::new() };
    ranked.into_iter().filter(|&candidate| candidate == best || is_near(figures, candidate, best)).collect()
}

/// Best first.
fn ranked(figures: &Figures, alive: &[usize]) -> Vec<usize> {
    let mut ranked = alive.to_vec();
    ranked.sort_by(|&a, &b| score(&figures[b]).total_cmp(&score(&figures[a])));
    ranked
}

/// The median over rounds, where a round without a figure counts as 0.
fn score(rounds: &[Option<f64>]) -> f64 {
    let values: Vec<f64> = rounds.iter().map(|round| round.unwrap_or(0.0)).collect();
    median(&values).unwrap_or(0.0)
}

fn is_near(figures: &Figures, candidate: usize, best: usize) -> bool {
    let ratio = ratio_interval(&figures[candidate], &figures[best]);
    ratio.is_some_and(|ratio| ratio.high >= 1.0 && ratio.estimate * (1.0 + NEAR) >= 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::{NOISES, Noise, rounds};
    use crate::{Verdict, judge_look, next_look};

    const ROUNDS: usize = 3;
    const CANDIDATES: usize = 14;

    /// A whole search for one of so many candidates: halving, the cheapest (here: the first) of those that are as good as the best, and its
    /// comparison with candidate 0 in rounds of its own. `None` where nothing better than candidate 0 is claimed.
    fn search(noise: Noise, truths: [f64; CANDIDATES], seed: u64) -> Option<usize> {
        let mut figures = vec![Vec::new(); CANDIDATES];
        let mut alive: Vec<usize> = (0..CANDIDATES).collect();
        for rung in 0..3 {
            let new = rounds(noise, truths, ROUNDS, seed * 8 + rung);
            for &candidate in &alive {
                figures[candidate].extend(new[candidate].iter().copied());
            }
            alive = survivors_now(&figures, &alive);
        }
        let chosen = *as_good_as_the_best(&aligned(&figures, &alive), &alive).iter().min()?;
        (chosen != 0 && is_confirmed(noise, [truths[chosen], truths[0]], seed)).then_some(chosen)
    }

    /// Those that were given up have fewer rounds; comparisons need the same ones.
    fn aligned(figures: &Figures, alive: &[usize]) -> Vec<Vec<Option<f64>>> {
        let most = alive.iter().map(|&candidate| figures[candidate].len()).max().unwrap_or(0);
        figures
            .iter()
            .map(|rounds| rounds.iter().copied().chain(std::iter::repeat(None)).take(most).collect())
            .collect()
    }

    fn survivors_now(figures: &Figures, alive: &[usize]) -> Vec<usize> {
        survivors(&aligned(figures, alive), alive)
    }

    fn is_confirmed(noise: Noise, truths: [f64; 2], seed: u64) -> bool {
        let [new, old] = rounds(noise, truths, 22, seed.wrapping_add(1 << 40));
        let (mut n, mut look) = (5, 1);
        loop {
            let judged = judge_look(&[(&new[..n as usize], &old[..n as usize])], look);
            let Some(comparison) = judged.into_iter().flatten().next() else { return false };
            if n == 22 || !comparison.is_open(0.05) {
                return comparison.claim == Verdict::More;
            }
            (n, look) = (next_look(n).min(22), look + 1);
        }
    }

    #[test]
    fn the_best_is_found_and_confirmed() {
        for noise in NOISES {
            let mut truths = [1.0; CANDIDATES];
            (truths[3], truths[7], truths[9], truths[11]) = (1.1, 0.2, 1.3, 0.7);
            let found = (0..300).filter(|seed| search(*noise, truths, *seed) == Some(9)).count();
            assert!(found >= 285, "{noise:?}: {found} of 300");
        }
    }

    #[test]
    fn where_all_are_equal_nothing_better_is_claimed() {
        for noise in NOISES {
            let fooled = (0..1000).filter(|seed| search(*noise, [1.0; CANDIDATES], *seed).is_some()).count();
            assert!(fooled <= 50, "{noise:?}: {fooled} of 1000");
        }
    }

    #[test]
    fn the_worse_half_goes_and_what_may_be_as_good_stays() {
        let rounds = |values: &[f64]| values.iter().map(|&value| Some(value)).collect::<Vec<_>>();
        let figures = vec![
            rounds(&[100.0, 101.0, 99.0]),
            rounds(&[50.0, 51.0, 49.0]),
            rounds(&[99.0, 102.0, 98.0]),
            rounds(&[101.0, 100.0, 97.0]),
            vec![None, None, None],
            rounds(&[0.0, 0.0, 0.0]),
        ];
        let all: Vec<usize> = (0..figures.len()).collect();
        let mut stay = survivors(&figures, &all);
        stay.sort_unstable();
        assert_eq!(stay, [0, 2, 3]);
        // Of three the better half is two; the third may be as good.
        assert_eq!(survivors(&figures, &[0, 2, 3]).len(), 3);
        assert_eq!(survivors(&figures, &[1, 0]), [0]);
        assert_eq!(survivors(&figures, &[4, 5]), [4, 5], "none has any");
        assert_eq!(survivors(&figures, &[]), Vec::<usize>::new());
        assert_eq!(as_good_as_the_best(&figures, &[1, 4, 0]), [0]);
    }
}
