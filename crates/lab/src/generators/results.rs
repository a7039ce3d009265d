//! Everything a run of `generators` found, as `generators.json` keeps it, and the figures that come from it.

use manifold_stats::{Interval, median_interval, ratio_interval};
use serde::{Deserialize, Serialize};

use super::plan::Work;
use crate::results::{Environment, Missing};

/// The version of the file's form; it changes when a reader must.
pub const FORMAT: u32 = 2;
/// A cell with a larger part of failures enters no figure.
const FAILED_SHARE_MAX: f64 = 0.01;

/// A whole run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Generators {
    /// [`FORMAT`].
    pub format: u32,
    /// Decides the order of the cells.
    pub seed: u64,
    /// Length of a cell, seconds.
    pub seconds: u32,
    /// Complete rounds.
    pub rounds: u32,
    /// The generators measured, in the order of the tables.
    pub programs: Vec<Described>,
    /// Those that could not be.
    pub missing: Vec<Missing>,
    /// Where it ran.
    pub environment: Environment,
    /// Set when it was ended early: why.
    pub ended_early: Option<String>,
    /// How long it took, seconds.
    pub took_s: f64,
    /// Every cell in the order measured.
    pub cells: Vec<Cell>,
}

/// A generator that was measured.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Described {
    /// Its name in the files.
    pub name: String,
    /// Its name for a person.
    pub label: String,
    /// It is this binary.
    pub ours: bool,
    /// What it says of itself.
    pub version: String,
}

/// One measurement.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Cell {
    /// Round, from 0.
    pub round: u32,
    /// Index into [`Generators::programs`].
    pub program: usize,
    /// The load.
    pub work: Work,
    /// Requests it says to have been answered.
    pub done: u64,
    /// Requests it says to have failed.
    pub failed: u64,
    /// From its start to its end, seconds.
    pub wall_s: f64,
    /// CPU time of its process and all that it started, from start to end, seconds.
    pub cpu_s: f64,
    /// The most memory it had resident (VmHWM), KiB.
    pub peak_kib: Option<u64>,
}

/// What is reported of a cell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Metric {
    /// Requests for each second of the generator's CPU time.
    PerCpuSecond,
    /// CPU time a request, microseconds.
    CpuUs,
    /// Requests a second.
    PerSecond,
    /// Peak memory, MiB.
    PeakMib,
}

impl Cell {
    /// Whether it enters any figure.
    pub fn counts(&self) -> bool {
        self.done >= u64::from(self.work.connections)
            && self.failed as f64 <= self.done as f64 * FAILED_SHARE_MAX
            && self.cpu_s > 0.0
    }

    /// The figure; `None` where it was not seen.
    pub fn metric(&self, metric: Metric) -> Option<f64> {
        let done = self.done as f64;
        match metric {
            Metric::PerCpuSecond => Some(done / self.cpu_s),
            Metric::CpuUs => Some(self.cpu_s * 1e6 / done),
            Metric::PerSecond => Some(done / self.wall_s),
            Metric::PeakMib => self.peak_kib.map(|kib| kib as f64 / 1024.0),
        }
    }
}

impl Generators {
    /// The index of a generator.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.programs.iter().position(|program| program.name == name)
    }

    /// Whether anything was measured under a load.
    pub fn knows(&self, work: Work) -> bool {
        self.cells.iter().any(|cell| cell.work == work)
    }

    /// The values of each round, in order; `None` where a round has none.
    fn values(&self, program: usize, work: Work, metric: Metric) -> Vec<Option<f64>> {
        let mut values = vec![None; self.cells.iter().map(|cell| cell.round as usize + 1).max().unwrap_or(0)];
        for cell in self.cells.iter().filter(|cell| cell.program == program && cell.work == work && cell.counts()) {
            values[cell.round as usize] = cell.metric(metric);
        }
        values
    }

    /// The median over the rounds with its interval.
    pub fn figure(&self, program: usize, work: Work, metric: Metric) -> Option<Interval> {
        let values: Vec<f64> = self.values(program, work, metric).into_iter().flatten().collect();
        median_interval(&values)
    }

    /// How many times what `a` has `b` has; paired by round.
    pub fn ratio(&self, a: usize, b: usize, work: Work, metric: Metric) -> Option<Interval> {
        ratio_interval(&self.values(a, work, metric), &self.values(b, work, metric))
    }

    /// Cells that enter no figure.
    pub fn refused(&self) -> usize {
        self.cells.iter().filter(|cell| !cell.counts()).count()
    }
}
