//! Everything a run of `peers` found, as `peers.json` keeps it, and the figures that come from it. The report is made from this alone.

use manifold_stats::{Interval, median_interval, ratio_interval};
use serde::{Deserialize, Serialize};

use super::plan::Work;
use crate::figures::Metric;
use crate::results::{Cell, Environment, Mark, Missing};
use crate::target::{Family, Model};

/// The version of the file's form; it changes when a reader must.
pub const FORMAT: u32 = 1;

/// A whole run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Peers {
    /// [`FORMAT`].
    pub format: u32,
    /// Decides the order of the cells.
    pub seed: u64,
    /// Load before the measured time of each cell, seconds.
    pub warm_up_s: f64,
    /// Measured time of each cell, seconds.
    pub measured_s: f64,
    /// Complete rounds.
    pub rounds: u32,
    /// The targets measured, in the order of the tables.
    pub targets: Vec<PeerTarget>,
    /// The targets that were wanted and could not be measured.
    pub missing: Vec<Missing>,
    /// Where it ran.
    pub environment: Environment,
    /// Set when it was ended early: why.
    pub ended_early: Option<String>,
    /// How long it took, seconds.
    pub took_s: f64,
    /// Every cell in the order measured.
    pub cells: Vec<PeerCell>,
    /// Memory with idle connections, in the order measured.
    pub idle: Vec<Idle>,
}

/// A target that was measured.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PeerTarget {
    /// Its name in the files.
    pub name: String,
    /// Its name for a person.
    pub label: String,
    /// Whose program.
    pub family: Family,
    /// Which model.
    pub model: Model,
    /// What the program says of itself.
    pub version: String,
}

/// One measurement under load.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PeerCell {
    /// The load.
    pub work: Work,
    /// What was seen.
    #[serde(flatten)]
    pub cell: Cell,
}

/// One measurement of memory: the server was started anew and alone, and nothing else was asked of it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Idle {
    /// Index into [`Peers::targets`].
    pub target: usize,
    /// Which pass, from 0.
    pub pass: u32,
    /// PSS before any connection, KiB.
    pub fresh_kib: Option<u64>,
    /// PSS with the idle connections, KiB.
    pub idle_kib: Option<u64>,
    /// Connections that stood.
    pub open: usize,
    /// Connections that were wanted.
    pub wanted: usize,
    /// Processes of the server then.
    pub processes: u32,
    /// Threads of the server then.
    pub threads: u32,
}

/// Whether a cell enters any figure: not if its answers were wrong, nor if it ended before most connections had their second
/// answer, for then connecting and unfinished requests are most of what was measured.
pub fn counts(cell: &Cell) -> bool {
    cell.usable() && !cell.marks.contains(&Mark::TooShort)
}

impl Peers {
    /// The index of a target.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.targets.iter().position(|target| target.name == name)
    }

    /// The cells of one target under one load.
    pub fn of(&self, target: usize, work: Work) -> impl Iterator<Item = &Cell> {
        let own = move |cell: &&PeerCell| cell.cell.target == target && cell.work == work;
        self.cells.iter().filter(own).map(|cell| &cell.cell)
    }

    /// The values of each round, in order; `None` where a round has none.
    fn values(&self, target: usize, work: Work, metric: Metric) -> Vec<Option<f64>> {
        let mut values = vec![None; self.cells.iter().map(|cell| cell.cell.round as usize + 1).max().unwrap_or(0)];
        for cell in self.of(target, work) {
            values[cell.round as usize] = if counts(cell) { metric.of(cell) } else { None };
        }
        values
    }

    /// The median over the rounds with its interval.
    pub fn figure(&self, target: usize, work: Work, metric: Metric) -> Option<Interval> {
        let values: Vec<f64> = self.values(target, work, metric).into_iter().flatten().collect();
        median_interval(&values)
    }

    /// How many times what `a` has `b` has, each under its load; paired by round.
    pub fn ratio(&self, a: (usize, Work), b: (usize, Work), metric: Metric) -> Option<Interval> {
        ratio_interval(&self.values(a.0, a.1, metric), &self.values(b.0, b.1, metric))
    }

    /// MiB of each pass; `None` where not all connections stood, or the memory could not be read.
    fn idle_mib(&self, target: usize) -> Vec<Option<f64>> {
        let mut values = vec![None; self.idle.iter().map(|idle| idle.pass as usize + 1).max().unwrap_or(0)];
        for idle in self.idle.iter().filter(|idle| idle.target == target && idle.open == idle.wanted) {
            values[idle.pass as usize] = idle.idle_kib.map(|kib| kib as f64 / 1024.0);
        }
        values
    }

    /// MiB with idle connections.
    pub fn idle(&self, target: usize) -> Option<Interval> {
        let values: Vec<f64> = self.idle_mib(target).into_iter().flatten().collect();
        median_interval(&values)
    }

    /// How many times `a`'s memory with idle connections is `b`'s.
    pub fn idle_ratio(&self, a: usize, b: usize) -> Option<Interval> {
        ratio_interval(&self.idle_mib(a), &self.idle_mib(b))
    }

    /// In how many rounds this cell carries the mark.
    pub fn marked(&self, target: usize, work: Work, mark: Mark) -> usize {
        self.of(target, work).filter(|cell| cell.marks.contains(&mark)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::super::plan;
    use super::*;

    #[test]
    fn cells_that_were_too_short_enter_no_figure() {
        let mut peers = fixture::peers();
        let (target, work) = (peers.find("event").expect("it is there"), plan::apart()[0]);
        let rounds = |peers: &Peers| peers.figure(target, work, Metric::CpuUsPerRequest).map(|figure| figure.rounds);
        assert_eq!(rounds(&peers), Some(6));
        let own = |cell: &&mut PeerCell| cell.cell.target == target && cell.work == work;
        peers.cells.iter_mut().find(own).expect("it is there").cell.marks.push(Mark::TooShort);
        assert_eq!(rounds(&peers), Some(5));
        let ratio = peers.ratio((target, work), (0, work), Metric::CpuUsPerRequest).expect("both are there");
        assert_eq!(ratio.rounds, 5, "nor has the other its round then");
    }

    #[test]
    fn memory_counts_if_all_connections_stood() {
        let mut peers = fixture::peers();
        assert!(peers.idle(0).is_some() && peers.idle_ratio(0, 1).is_some());
        peers.idle[0].open = 999;
        assert!(peers.idle(0).is_none() && peers.idle_ratio(0, 1).is_none());
    }
}
