//! What was published, held against what was measured: reproduced, contradicted, or not to be told here.

use manifold_stats::{Comparison, ROUNDS_MIN, Rounds, Verdict as Seen, judge, judge_look, median};
use serde::Serialize;

use super::file::Relation;
use super::resolve::Claim;
use super::results::Found;
use crate::results::Mark;
use crate::text;

/// From so many rounds on an interval is of 95 %; fewer tell no small difference, however quiet they are.
const ENOUGH: u32 = 6;

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
    /// Something else used the machine in too many of the cells: nothing is said.
    Disturbed,
    /// One of the two has no figures.
    NotMeasured,
}

/// Where more than this share of the cells that a claim rests on was disturbed, it is not judged.
const DISTURBED_MOST: f64 = 0.25;

impl Verdict {
    /// All of them, in the order of a headline.
    pub const ALL: [Verdict; 5] = [
        Verdict::Reproduced,
        Verdict::Contradicted,
        Verdict::NotDistinguishable,
        Verdict::Disturbed,
        Verdict::NotMeasured,
    ];

    /// For a table.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Contradicted => "contradicted",
            Verdict::NotDistinguishable => "not distinguishable here",
            Verdict::Disturbed => "not judged, the machine was busy",
            Verdict::NotMeasured => "not measured",
        }
    }

    /// Its class in the report.
    pub fn class(self) -> &'static str {
        match self {
            Verdict::Reproduced => "less",
            Verdict::Contradicted => "more",
            Verdict::NotDistinguishable | Verdict::Disturbed | Verdict::NotMeasured => "same",
        }
    }
}

/// A claim, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// The study's name.
    pub study: String,
    /// Whose models: `apache2`; or the two that are compared.
    pub server: String,
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
        text::ratio_figure(self.measured, self.low, self.high)
    }

    /// The published ratio, for a table.
    pub fn published(&self) -> String {
        self.published.map_or_else(|| "not printed".to_owned(), text::ratio_number)
    }
}

/// Judges all claims of a study together, so that all of them are wrong no more often than one would be.
pub fn judge_all(found: &Found) -> Vec<Judgement> {
    found.study.claims.iter().zip(compare(found)).map(|(claim, seen)| judgement(found, claim, seen)).collect()
}

/// Whether further rounds may decide a claim that is not decided yet.
pub fn are_open(found: &Found) -> bool {
    compare(found).into_iter().flatten().any(|seen| seen.is_open(found.study.precision))
}

fn compare(found: &Found) -> Vec<Option<Comparison>> {
    let claims = &found.study.claims;
    let pairs: Vec<_> = claims
        .iter()
        .map(|claim| {
            let of = |(target, loads): &(usize, Vec<usize>)| found.means(*target, loads, claim.metric);
            (of(&claim.of), of(&claim.than))
        })
        .collect();
    let borrowed: Vec<(Rounds<'_>, Rounds<'_>)> = pairs.iter().map(|(a, b)| (&a[..], &b[..])).collect();
    match found.looks {
        0 => judge(&borrowed),
        look => judge_look(&borrowed, look),
    }
}

fn judgement(found: &Found, claim: &Claim, seen: Option<Comparison>) -> Judgement {
    let ratio = seen.map(|seen| seen.ratio);
    Judgement {
        study: found.study.name.clone(),
        server: servers(found, claim),
        claim: claim.says.clone(),
        metric: claim.metric.title(),
        published: claim.published,
        measured: ratio.map(|ratio| ratio.estimate),
        low: ratio.map(|ratio| ratio.low),
        high: ratio.map(|ratio| ratio.high),
        verdict: match seen {
            None => Verdict::NotMeasured,
            Some(_) if is_disturbed(found, claim) => Verdict::Disturbed,
            Some(seen) => verdict(claim.is, seen.claim),
        },
    }
}

fn servers(found: &Found, claim: &Claim) -> String {
    let [of, than] = [claim.of.0, claim.than.0].map(|target| found.study.targets[target].server_name());
    if of == than { of.to_owned() } else { format!("{of}, {than}") }
}

fn is_disturbed(found: &Found, claim: &Claim) -> bool {
    let cells = [&claim.of, &claim.than]
        .into_iter()
        .flat_map(|(target, loads)| loads.iter().flat_map(|&load| found.of(*target, load)));
    let (mut disturbed, mut all) = (0.0, 0.0);
    for seen in cells {
        all += 1.0;
        disturbed += f64::from(u8::from(seen.cell.marks.contains(&Mark::Disturbed)));
    }
    disturbed > DISTURBED_MOST * all
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

/// The smallest difference that is worth asking for.
const SMALL: f64 = 1.03;

/// How long a run of this study must be until most of its claims tell a difference of 3 %, as a sentence; by the noise that was seen,
/// which shrinks with the square root of the number of rounds.
pub fn power(found: &Found, judgements: &[Judgement]) -> Option<String> {
    let rounds_needed = |judgement: &Judgement| {
        let half_width = (judgement.high? / judgement.low?).ln() / 2.0;
        Some((half_width / SMALL.ln()).powi(2) * f64::from(found.rounds))
    };
    if found.rounds < ROUNDS_MIN as u32 || found.round_s <= 0.0 {
        return None;
    }
    let needed = median(&judgements.iter().filter_map(rounds_needed).collect::<Vec<f64>>())?;
    let rounds = needed.ceil().max(f64::from(ENOUGH));
    Some(format!(
        "To see a difference of 3 % in most of these claims takes about {} here, {}.",
        text::duration(rounds * found.round_s),
        text::counted(rounds as usize, "round")
    ))
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
    use super::super::results::StudyCell;
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
    fn how_long_a_run_must_be_follows_from_its_noise() {
        let found = fixture::found();
        let mut judged = judge_all(&found);
        let said = |judged: &[Judgement]| power(&found, judged).expect("there are intervals");
        // Twice the half-width of 3 % takes four times the six rounds of ten seconds.
        for judgement in &mut judged {
            (judgement.low, judgement.high) = (Some(1.03f64.powi(-2)), Some(1.03f64.powi(2)));
        }
        assert!(said(&judged).contains("about 4 min 0 s here, 24 rounds"), "{}", said(&judged));
        for judgement in &mut judged {
            (judgement.low, judgement.high) = (Some(1.0), Some(1.0));
        }
        assert!(said(&judged).contains("about 1 min 0 s here, 6 rounds"), "{}", said(&judged));
        assert_eq!(power(&found, &[]), None);
    }

    #[test]
    fn a_busy_machine_has_nothing_to_say() {
        let mut found = fixture::found();
        let (of, than) = (found.study.claims[0].of.0, found.study.claims[0].than.0);
        let verdict = |found: &Found| judge_all(found)[0].verdict;
        let judged = verdict(&found);
        let disturb = |found: &mut Found, rounds: u32| {
            let own = |seen: &&mut StudyCell| [of, than].contains(&seen.cell.target) && seen.cell.round < rounds;
            found.cells.iter_mut().filter(own).for_each(|seen| seen.cell.marks = vec![Mark::Disturbed]);
        };
        disturb(&mut found, 1);
        assert_eq!(verdict(&found), judged, "one round of six is no reason");
        disturb(&mut found, 2);
        assert_eq!(verdict(&found), Verdict::Disturbed);
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
