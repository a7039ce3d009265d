//! Everything a run of a study found, as `study.json` keeps it. The report is made from this alone.

use std::collections::BTreeMap;

use manifold_load::report::{Distribution, Report};
use manifold_stats::{Interval, geometric_mean, median_interval};
use serde::{Deserialize, Serialize};

use super::Size;
use super::metric::{Metric, PERCENTILES};
use super::resolve::Study;
use crate::output::Kept;
use crate::results::{Cell, Environment, Mark, Missing};
use crate::store::Key;

/// The version of the file's form; it changes when a reader must.
pub const FORMAT: u32 = 1;

/// A run of one study or of several, one after the other.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Studies {
    /// [`FORMAT`].
    pub format: u32,
    /// Decides the order of the cells.
    pub seed: u64,
    /// How large it was made.
    #[serde(default)]
    pub size: Size,
    /// Where it ran.
    pub environment: Environment,
    /// Set when it was ended early: why.
    pub ended_early: Option<String>,
    /// How long it took, seconds.
    pub took_s: f64,
    /// What was found, study by study.
    pub found: Vec<Found>,
}

impl Kept for Studies {
    const FILE: &'static str = "study.json";
    const FORMAT: u32 = FORMAT;

    fn format(&self) -> u32 {
        self.format
    }
}

/// What was found in one study.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Found {
    /// What was asked; only the targets that were measured.
    pub study: Study,
    /// What each target's program says of itself, in the targets' order.
    pub versions: Vec<String>,
    /// The targets that were wanted and could not be measured.
    pub missing: Vec<Missing>,
    /// What is to be told of targets beside their figures, as sentences without their full stop.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Complete rounds.
    pub rounds: u32,
    /// How often the claims were looked at while rounds came in; 0 where the number of rounds was fixed.
    pub looks: u32,
    /// How long a round takes, seconds, pauses and looks at memory included.
    pub round_s: f64,
    /// Every cell in the order measured.
    pub cells: Vec<StudyCell>,
}

/// One measurement.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct StudyCell {
    /// Index into the study's loads.
    pub load: usize,
    /// What every experiment keeps.
    #[serde(flatten)]
    pub cell: Cell,
    /// Requests without a right answer: errors, and answers of another status or length than the page's.
    pub failed: u64,
    /// Bytes received, heads included.
    pub received_bytes: u64,
    /// How long connecting took; absent where no connection was made.
    pub connect_ms: Option<Connecting>,
    /// Standard deviation of latency, milliseconds.
    pub deviation_ms: Option<f64>,
    /// The most slow clients beside which a normal one was answered in time; in cells of slow clients only.
    #[serde(default)]
    pub held: Option<u32>,
    /// The figures of loads that are idle, reload or search, by metric; empty for all others.
    #[serde(default)]
    pub special: BTreeMap<Metric, f64>,
    /// The percentiles of [`PERCENTILES`], milliseconds; empty without answers.
    pub percentiles_ms: Vec<f64>,
}

/// How long connecting took, milliseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Connecting {
    pub mean: f64,
    pub longest: f64,
}

impl StudyCell {
    /// A cell of slow clients.
    pub fn holding(load: usize, cell: Cell, held: u32) -> StudyCell {
        StudyCell { load, cell, held: Some(held), ..StudyCell::default() }
    }

    /// A cell with figures of its own.
    pub fn special(load: usize, cell: Cell, figures: impl IntoIterator<Item = (Metric, f64)>) -> StudyCell {
        StudyCell { load, cell, special: figures.into_iter().collect(), ..StudyCell::default() }
    }

    /// What the laboratory saw, and what the generator reported.
    pub fn new(load: usize, cell: Cell, report: &Report) -> StudyCell {
        let latencies = report.histogram.as_ref().and_then(|histogram| Distribution::latencies(histogram).ok());
        let percentile = |quantile: f64| latencies.as_ref().map(|l| l.histogram.value_at_quantile(quantile) as f64);
        StudyCell {
            load,
            failed: cell.errors + report.wrong_status + report.wrong_length,
            cell,
            received_bytes: report.bytes.received,
            connect_ms: report
                .connect
                .latency_us
                .map(|connect| Connecting { mean: connect.mean / 1000.0, longest: connect.max / 1000.0 }),
            deviation_ms: latencies.as_ref().map(|l| l.histogram.standard_deviation() / 1000.0),
            held: None,
            special: BTreeMap::new(),
            percentiles_ms: PERCENTILES
                .iter()
                .filter_map(|&(_, quantile)| Some(percentile(quantile)? / 1000.0))
                .collect(),
        }
    }
}

impl Found {
    /// Before anything was measured.
    pub fn new(study: Study, missing: Vec<Missing>) -> Found {
        Found {
            study,
            versions: Vec::new(),
            missing,
            remarks: Vec::new(),
            rounds: 0,
            looks: 0,
            round_s: 0.0,
            cells: Vec::new(),
        }
    }

    /// The cells of one target under one load.
    pub fn of(&self, target: usize, load: usize) -> impl Iterator<Item = &StudyCell> {
        self.cells.iter().filter(move |seen| seen.cell.target == target && seen.load == load)
    }

    /// The values of each round, in order; `None` where a round has none.
    fn values(&self, target: usize, load: usize, metric: Metric) -> Vec<Option<f64>> {
        let mut values = vec![None; self.rounds as usize];
        for seen in self.of(target, load) {
            if let Some(slot) = values.get_mut(seen.cell.round as usize) {
                *slot = metric.of(seen);
            }
        }
        values
    }

    /// The median over the rounds with its interval.
    pub fn figure(&self, target: usize, load: usize, metric: Metric) -> Option<Interval> {
        let values: Vec<f64> = self.values(target, load, metric).into_iter().flatten().collect();
        median_interval(&values)
    }

    /// One value a round: the geometric mean over the loads; `None` for a round in which one of them is missing or zero.
    pub fn means(&self, target: usize, loads: &[usize], metric: Metric) -> Vec<Option<f64>> {
        let by_load: Vec<Vec<Option<f64>>> = loads.iter().map(|&load| self.values(target, load, metric)).collect();
        (0..self.rounds as usize)
            .map(|round| {
                let values: Option<Vec<f64>> =
                    by_load.iter().map(|rounds| rounds[round].filter(|v| *v > 0.0)).collect();
                geometric_mean(&values?)
            })
            .collect()
    }

    /// Which cell this is, among all that are kept.
    pub fn key(&self, seen: &StudyCell) -> Key {
        let study = &self.study;
        study.key(seen.cell.round, seen.cell.target, seen.load)
    }

    /// How many cells carry a mark.
    pub fn marked(&self, mark: Mark) -> usize {
        self.cells.iter().filter(|seen| seen.cell.marks.contains(&mark)).count()
    }
}
