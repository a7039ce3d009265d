//! Two kept runs beside each other, figure by figure.

use std::collections::{BTreeMap, BTreeSet};

use manifold_stats::{Interval, Verdict, median, runs_ratio_interval};

use super::Value;
use crate::text;

/// One figure in two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Whose, with the experiment within the run where there are several.
    pub target: String,
    /// Under which load.
    pub load: String,
    /// Which figure.
    pub metric: String,
    /// Medians over the rounds.
    pub medians: (f64, f64),
    /// How many times the second run's is the first's.
    pub ratio: Interval,
    /// What may be said.
    pub claim: Verdict,
}

/// Of all figures that both have. What may be claimed allows for how many they are: the interval of each is of 95 %, and so a twentieth
/// of all must differ by chance before any counts.
pub fn compare(a: &[Value], b: &[Value]) -> Vec<Difference> {
    type Series<'v> = BTreeMap<(&'v str, &'v str, &'v str, &'v str), Vec<f64>>;
    let series = |values: &'_ [Value]| -> BTreeMap<(String, String, String, String), Vec<f64>> {
        let mut of: Series<'_> = BTreeMap::new();
        for value in values {
            let key =
                (value.key.part.as_str(), value.key.target.as_str(), value.key.load.as_str(), value.metric.as_str());
            of.entry(key).or_default().push(value.value);
        }
        of.into_iter().map(|((p, t, l, m), v)| ((p.into(), t.into(), l.into(), m.into()), v)).collect()
    };
    let (a, b) = (series(a), series(b));
    let common: BTreeSet<_> = a.keys().filter(|key| b.contains_key(*key)).collect();
    let difference = |key: &(String, String, String, String)| {
        let (of_a, of_b) = (&a[key], &b[key]);
        let ratio = runs_ratio_interval(of_b, of_a)?;
        let (part, target, load, metric) = key;
        let target = if part.is_empty() { target.clone() } else { format!("{part}: {target}") };
        let medians = (median(of_a)?, median(of_b)?);
        Some(Difference { target, load: load.clone(), metric: metric.clone(), medians, ratio, claim: ratio.verdict() })
    };
    common.into_iter().filter_map(difference).collect()
}

impl Difference {
    /// Whether the runs differ in it.
    pub fn differs(&self) -> bool {
        matches!(self.claim, Verdict::More | Verdict::Less)
    }

    /// What is said of the second run; nothing where it cannot be told from the first.
    pub fn says(&self) -> &'static str {
        match self.claim {
            Verdict::More => "more",
            Verdict::Less => "less",
            Verdict::NotDistinguishable => "",
            Verdict::TooFewRounds => "too few rounds",
        }
    }
}

/// How many differ, and what is to be held against that.
pub fn summary(differences: &[Difference]) -> String {
    let count = differences.iter().filter(|difference| difference.differs()).count();
    let few = differences.iter().filter(|difference| difference.claim == Verdict::TooFewRounds).count();
    let mut told = format!(
        "{count} of {} differ by their intervals; where nothing differs, {} would by chance. ",
        text::counted(differences.len(), "figure"),
        text::number(differences.len() as f64 / 20.0)
    );
    if few > 0 {
        told.push_str(&format!("{few} have fewer than 3 rounds in one run, and say nothing. "));
    }
    told.push_str(
        "The runs were made at different hours, and what differed between these is in every ratio: what is to be compared is best measured in one run.",
    );
    told
}
