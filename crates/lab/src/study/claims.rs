//! What was published, held against what was measured: reproduced, contradicted, or not to be told here.

use manifold_stats::{Comparison, Rounds, Verdict as Seen, judge};
use serde::Serialize;

use super::file::Relation;
use super::resolve::Claim;
use super::results::Found;
use crate::text;

/// What a run says to a claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The difference is there, in the direction claimed; or none is, where none is claimed.
    Reproduced,
    /// There is a difference in the other direction; or there is one where none is claimed.
    Contradicted,
    /// No difference can be told from noise, or there are too few rounds.
    NotDistinguishable,
    /// One of the two has no figures.
    NotMeasured,
}

impl Verdict {
    /// All of them, in the order of a headline.
    pub const ALL: [Verdict; 4] =
        [Verdict::Reproduced, Verdict::Contradicted, Verdict::NotDistinguishable, Verdict::NotMeasured];

    /// For a table.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Contradicted => "contradicted",
            Verdict::NotDistinguishable => "not distinguishable here",
            Verdict::NotMeasured => "not measured",
        }
    }

    /// Its class in the report.
    pub fn class(self) -> &'static str {
        match self {
            Verdict::Reproduced => "less",
            Verdict::Contradicted => "more",
            Verdict::NotDistinguishable | Verdict::NotMeasured => "same",
        }
    }
}

/// A claim, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// The study's name.
    pub study: String,
    /// Whose models: `apache2`.
    pub server: &'static str,
    /// The claim.
    pub claim: String,
    /// The metric's name for a person.
    pub metric: &'static str,
    /// The ratio that was published.
    pub published: Option<f64>,
    /// The ratio measured, the one's to the other's.
    pub measured: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// What it comes to.
    pub verdict: Verdict,
}

impl Judgement {
    /// The ratio with its interval, for a table.
    pub fn figure(&self) -> String {
        match (self.measured, self.low, self.high) {
            (Some(measured), Some(low), Some(high)) => format!(
                "{} [{} to {}]",
                text::ratio_number(measured),
                text::ratio_number(low),
                text::ratio_number(high)
            ),
            _ => "–".to_owned(),
        }
    }

    /// The published ratio, for a table.
    pub fn published(&self) -> String {
        self.published.map_or_else(|| "not printed".to_owned(), text::ratio_number)
    }
}

/// Judges all claims of a study together, so that all of them are wrong no more often than one would be.
pub fn judge_all(found: &Found) -> Vec<Judgement> {
    let claims = &found.study.claims;
    let pairs: Vec<_> = claims
        .iter()
        .map(|claim| {
            let of = |(target, loads): &(usize, Vec<usize>)| found.means(*target, loads, claim.metric);
            (of(&claim.of), of(&claim.than))
        })
        .collect();
    let borrowed: Vec<(Rounds<'_>, Rounds<'_>)> = pairs.iter().map(|(a, b)| (&a[..], &b[..])).collect();
    claims.iter().zip(judge(&borrowed)).map(|(claim, seen)| judgement(found, claim, seen)).collect()
}

fn judgement(found: &Found, claim: &Claim, seen: Option<Comparison>) -> Judgement {
    let ratio = seen.map(|seen| seen.ratio);
    Judgement {
        study: found.study.name.clone(),
        server: found.study.targets[claim.of.0].server.name(),
        claim: claim.says.clone(),
        metric: claim.metric.title(),
        published: claim.published,
        measured: ratio.map(|ratio| ratio.estimate),
        low: ratio.map(|ratio| ratio.low),
        high: ratio.map(|ratio| ratio.high),
        verdict: seen.map_or(Verdict::NotMeasured, |seen| verdict(claim.is, seen.claim)),
    }
}

fn verdict(is: Relation, seen: Seen) -> Verdict {
    match (is, seen) {
        (_, Seen::TooFewRounds) => Verdict::NotDistinguishable,
        (Relation::Same, Seen::NotDistinguishable) => Verdict::Reproduced,
        (Relation::Same, Seen::More | Seen::Less) => Verdict::Contradicted,
        (_, Seen::NotDistinguishable) => Verdict::NotDistinguishable,
        (Relation::More, Seen::More) | (Relation::Less, Seen::Less) => Verdict::Reproduced,
        (Relation::More, Seen::Less) | (Relation::Less, Seen::More) => Verdict::Contradicted,
    }
}

/// How many claims came out how, as a sentence.
pub fn headline(judgements: &[Judgement]) -> String {
    if judgements.is_empty() {
        return "Nothing is claimed in this experiment; the figures are below.".to_owned();
    }
    let counts = Verdict::ALL.into_iter().filter_map(|verdict| {
        let count = judgements.iter().filter(|judgement| judgement.verdict == verdict).count();
        (count > 0).then(|| format!("{count} {}", verdict.text()))
    });
    format!("Of {}: {}.", text::counted(judgements.len(), "claim"), text::list(&counts.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn relations_and_what_was_seen() {
        use Relation::{Less, More, Same};
        for (is, seen, expected) in [
            (More, Seen::More, Verdict::Reproduced),
            (More, Seen::Less, Verdict::Contradicted),
            (Less, Seen::Less, Verdict::Reproduced),
            (Less, Seen::More, Verdict::Contradicted),
            (More, Seen::NotDistinguishable, Verdict::NotDistinguishable),
            (Same, Seen::NotDistinguishable, Verdict::Reproduced),
            (Same, Seen::Less, Verdict::Contradicted),
            (Same, Seen::TooFewRounds, Verdict::NotDistinguishable),
            (More, Seen::TooFewRounds, Verdict::NotDistinguishable),
        ] {
            assert_eq!(verdict(is, seen), expected, "{is:?} {seen:?}");
        }
    }

    #[test]
    fn claims_are_judged_for_each_server() {
        // In the fixture manifold's worker serves twice what its prefork does, and apache2's half of it.
        let judged = judge_all(&fixture::found());
        let of = |server: &str| judged.iter().find(|judgement| judgement.server == server).expect("it has both");
        assert_eq!(of("manifold").verdict, Verdict::Reproduced);
        assert_eq!(of("manifold").published(), "1.96");
        assert!((of("manifold").measured.expect("measured") - 2.0).abs() < 0.1, "{judged:#?}");
        assert_eq!(of("apache2").verdict, Verdict::Contradicted);
        assert_eq!(headline(&judged), "Of 2 claims: 1 reproduced and 1 contradicted.");
    }

    #[test]
    fn a_target_without_figures_is_not_measured() {
        let mut found = fixture::found();
        let of = found.study.claims[0].of.0;
        found.cells.retain(|seen| seen.cell.target != of);
        let judged = judge_all(&found);
        assert_eq!((judged[0].verdict, judged[0].figure()), (Verdict::NotMeasured, "–".to_owned()));
    }
}
