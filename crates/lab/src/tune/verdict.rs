//! From the race and the confirmation to a verdict: pure, so that its error rates can be simulated.

use manifold_stats::halving::as_good_as_the_best;
use manifold_stats::{Comparison, ROUNDS_MIN, Verdict as Claim, judge_look, ratio_interval};

use super::candidate::Candidate;
use super::objective::NOTHING;
use super::results::{Confirmation, Verdict};

/// Two settings whose ratio lies within this of 1 are the same for every purpose.
pub const PRECISION: f64 = 0.05;
/// What does not seem this much better in the race is not measured anew.
const WORTH_CONFIRMING: f64 = 1.02;
/// With a larger part of disturbed rounds nothing is claimed.
const DISTURBED_MOST: f64 = 0.25;

/// The present setting's place among the candidates.
pub const PRESENT: usize = 0;

/// Which candidate is measured anew: of those that cannot be told apart from the best, the one that takes least memory.
///
/// # Errors
/// Why none is: a sentence.
pub fn choose(candidates: &[Candidate], figures: &[Vec<Option<f64>>], alive: &[usize]) -> Result<usize, String> {
    let does = |candidate: &usize| figures[*candidate].iter().flatten().any(|figure| *figure > NOTHING);
    if !alive.iter().any(does) {
        return Err("none of the settings that were tried did what is asked, the present one included".to_owned());
    }
    let good = as_good_as_the_best(figures, alive);
    let memory = |candidate: &usize| candidates[*candidate].memory_kib.unwrap_or(f64::MAX);
    let others = good.into_iter().filter(|candidate| *candidate != PRESENT);
    let Some(chosen) = others.min_by(|a, b| memory(a).total_cmp(&memory(b))) else {
        return Err("the present setting was the best of all that were tried".to_owned());
    };
    let Some(ratio) = ratio_interval(&figures[chosen], &figures[PRESENT]) else {
        return Err("too few rounds of the race count to compare anything".to_owned());
    };
    if ratio.estimate < WORTH_CONFIRMING {
        return Err(format!(
            "the best of the others, {}, was {:.2} times the present setting in the race, which is not worth a change",
            candidates[chosen].name, ratio.estimate
        ));
    }
    Ok(chosen)
}

/// The comparison at this look; `None` without a round in common.
pub fn look(confirmation: &Confirmation) -> Option<Comparison> {
    let pairs = [(&confirmation.chosen[..], &confirmation.present[..])];
    judge_look(&pairs, confirmation.looks).into_iter().flatten().next()
}

/// What is to be said at the end.
pub fn verdict(confirmation: &Confirmation, name: &str) -> Verdict {
    let keep = |why: String| Verdict::Keep { why };
    let pairs = confirmation.chosen.iter().zip(&confirmation.present);
    let counted = pairs.filter(|(a, b)| a.is_some() && b.is_some()).count();
    let all = confirmation.chosen.len().max(1);
    if counted < ROUNDS_MIN {
        return keep(format!("{counted} rounds of the confirmation count, which are too few to claim anything"));
    }
    let disturbed = all - counted;
    if disturbed as f64 > DISTURBED_MOST * all as f64 {
        return keep(format!(
            "something else used the machine in {disturbed} of {all} rounds of the confirmation, so nothing is claimed; repeat it on a quiet machine"
        ));
    }
    match look(confirmation) {
        Some(Comparison { ratio, claim: Claim::More, .. }) => {
            Verdict::Better { times: ratio.estimate, low: ratio.low, high: ratio.high }
        }
        Some(Comparison { ratio, claim: Claim::Less, .. }) => keep(format!(
            "measured anew, {name} was only {:.2} times the present setting [{:.2} to {:.2}]",
            ratio.estimate, ratio.low, ratio.high
        )),
        Some(Comparison { ratio, .. }) => keep(format!(
            "measured anew, {name} was {:.2} times the present setting [{:.2} to {:.2}], which cannot be told apart from 1",
            ratio.estimate, ratio.low, ratio.high
        )),
        None => keep("no round of the confirmation counts".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Model;

    fn candidate(name: &str, memory_kib: f64) -> Candidate {
        Candidate {
            name: name.to_owned(),
            model: Model::Event,
            settings: Vec::new(),
            workers: 1,
            memory_kib: Some(memory_kib),
            closes: false,
            is_present: false,
        }
    }

    fn rounds(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().map(|&value| Some(value)).collect()
    }

    #[test]
    fn the_smallest_of_the_best_is_chosen() {
        let candidates =
            [candidate("now", 1.0), candidate("large", 900.0), candidate("small", 90.0), candidate("bad", 5.0)];
        let figures = [
            rounds(&[100.0, 101.0, 99.0]),
            rounds(&[151.0, 150.0, 149.0]),
            rounds(&[150.0, 149.0, 150.0]),
            rounds(&[10.0, 10.0, 10.0]),
        ];
        assert_eq!(choose(&candidates, &figures, &[0, 1, 2, 3]), Ok(2));
        let said = choose(&candidates, &figures, &[0, 3]).expect_err("the present one is the best");
        assert!(said.contains("best of all"), "{said}");
        let none = [rounds(&[NOTHING; 3]), rounds(&[NOTHING; 3])];
        let said = choose(&candidates, &none, &[0, 1]).expect_err("nothing does what is asked");
        assert!(said.contains("none of the settings"), "{said}");
        let close = [figures[0].clone(), rounds(&[101.0, 102.0, 100.0]), rounds(&[1.0; 3]), rounds(&[1.0; 3])];
        let said = choose(&candidates, &close, &[0, 1]).expect_err("hardly better");
        assert!(said.contains("1.01 times"), "{said}");
    }

    #[test]
    fn verdicts() {
        let confirmation = |chosen: &[Option<f64>], looks| Confirmation {
            chosen: chosen.to_vec(),
            present: rounds(&[100.0, 102.0, 98.0, 101.0, 99.0, 100.0, 101.0]),
            looks,
            ..Confirmation::default()
        };
        let better = rounds(&[150.0, 155.0, 148.0, 152.0, 149.0, 151.0, 150.0]);
        assert!(
            matches!(verdict(&confirmation(&better, 1), "x"), Verdict::Better { times, .. } if (1.45..1.55).contains(&times))
        );
        let keeps = |chosen: &[Option<f64>], part: &str| match verdict(&confirmation(chosen, 1), "x") {
            Verdict::Keep { why } => assert!(why.contains(part), "{why}"),
            better @ Verdict::Better { .. } => panic!("{better:?}"),
        };
        keeps(&rounds(&[101.0, 99.0, 100.0, 100.0, 100.0, 99.0, 103.0]), "cannot be told apart");
        keeps(&rounds(&[50.0, 51.0, 49.0, 50.0, 52.0, 50.0, 49.0]), "only 0.50 times");
        let mut disturbed = better.clone();
        disturbed[..3].fill(None);
        keeps(&disturbed, "in 3 of 7 rounds");
        disturbed.fill(None);
        keeps(&disturbed, "0 rounds");
    }
}
