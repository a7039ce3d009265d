//! From cells to figures: medians over rounds with intervals, and what two targets have in the same rounds.

use manifold_stats::{Interval, geometric_mean, median_interval};
use serde::{Deserialize, Serialize};

use crate::experiment::{Experiment, Load};
use crate::results::{Cell, Mark};

/// What is reported of a cell.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Answers a second.
    RequestsPerSecond,
    /// Median latency, microseconds.
    P50Us,
    /// 99th percentile of latency, microseconds.
    P99Us,
    /// The server's CPU time a request, microseconds.
    CpuUsPerRequest,
    /// The server's memory, MiB PSS.
    PssMib,
    /// The server's processes.
    Processes,
    /// The server's threads.
    Threads,
}

impl Metric {
    /// Every metric, in the order of the tables.
    pub const ALL: [Metric; 7] = [
        Metric::RequestsPerSecond,
        Metric::P50Us,
        Metric::P99Us,
        Metric::CpuUsPerRequest,
        Metric::PssMib,
        Metric::Processes,
        Metric::Threads,
    ];

    /// The cell's value; `None` where it has none, or may not be used.
    pub fn of(self, cell: &Cell) -> Option<f64> {
        if !cell.usable() {
            return None;
        }
        match self {
            Metric::RequestsPerSecond => Some(cell.requests_per_second),
            Metric::P50Us => cell.latency_us.map(|l| l.p50),
            Metric::P99Us => cell.latency_us.map(|l| l.p99),
            Metric::CpuUsPerRequest => {
                (cell.worked_on > 0 && cell.cpu_s > 0.0).then(|| cell.cpu_s * 1e6 / cell.worked_on as f64)
            }
            Metric::PssMib => cell.pss_kib.map(|kib| kib as f64 / 1024.0),
            Metric::Processes => Some(f64::from(cell.processes)),
            Metric::Threads => Some(f64::from(cell.threads)),
        }
    }
}

/// One figure of the results: a metric of a target under a load, over all rounds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Figure {
    /// Index into the results' targets.
    pub target: usize,
    /// Whether connections were kept alive.
    pub keep_alive: bool,
    /// Connections.
    pub concurrency: u32,
    /// Which metric.
    pub metric: Metric,
    /// Median over the rounds.
    pub median: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// Rounds it comes from.
    pub rounds: usize,
}

impl Figure {
    /// As an interval.
    pub fn interval(&self) -> Interval {
        Interval { estimate: self.median, low: self.low, high: self.high, rounds: self.rounds }
    }
}

/// What two targets have in each round.
pub type Pair = (Vec<Option<f64>>, Vec<Option<f64>>);

/// The cells of a run, looked at by target and load.
#[derive(Clone, Copy, Debug)]
pub struct Cells<'r> {
    experiment: &'r Experiment,
    cells: &'r [Cell],
}

impl<'r> Cells<'r> {
    /// A view of these cells.
    pub fn new(experiment: &'r Experiment, cells: &'r [Cell]) -> Cells<'r> {
        Cells { experiment, cells }
    }

    /// Every figure of every target.
    pub fn figures(&self, targets: usize) -> Vec<Figure> {
        let mut figures = Vec::new();
        for target in 0..targets {
            for load in self.experiment.loads() {
                for metric in Metric::ALL {
                    let rounds: Vec<f64> = self.rounds(target, load, metric).into_iter().flatten().collect();
                    if let Some(interval) = median_interval(&rounds) {
                        figures.push(Figure {
                            target,
                            keep_alive: load.keep_alive,
                            concurrency: load.concurrency,
                            metric,
                            median: interval.estimate,
                            low: interval.low,
                            high: interval.high,
                            rounds: interval.rounds,
                        });
                    }
                }
            }
        }
        figures
    }

    /// The cells of one target under one load.
    pub fn of(&self, target: usize, load: Load) -> impl Iterator<Item = &'r Cell> {
        self.cells.iter().filter(move |cell| cell.target == target && cell.load() == load)
    }

    /// The values of each round, in order; `None` where a round has none.
    fn rounds(&self, target: usize, load: Load, metric: Metric) -> Vec<Option<f64>> {
        let mut rounds = vec![None; self.experiment.rounds as usize];
        for cell in self.of(target, load) {
            if let Some(slot) = rounds.get_mut(cell.round as usize) {
                *slot = metric.of(cell);
            }
        }
        rounds
    }

    /// One value a round: the geometric mean over the loads; `None` for a round in which a load is missing, since the
    /// mean of the others would be that of an easier experiment.
    fn means(&self, target: usize, loads: &[Load], metric: Metric) -> Vec<Option<f64>> {
        let by_load: Vec<Vec<Option<f64>>> = loads.iter().map(|&load| self.rounds(target, load, metric)).collect();
        (0..self.experiment.rounds as usize)
            .map(|round| {
                let values: Option<Vec<f64>> = by_load.iter().map(|rounds| rounds[round]).collect();
                geometric_mean(&values?)
            })
            .collect()
    }

    /// The mean over these loads, with its interval over rounds.
    pub fn mean(&self, target: usize, loads: &[Load], metric: Metric) -> Option<Interval> {
        let rounds: Vec<f64> = self.means(target, loads, metric).into_iter().flatten().collect();
        median_interval(&rounds)
    }

    /// The means over these loads that `a` and `b` have in each round. A load that either misses in a round takes no part in it, on both
    /// sides; a round in which most are missing takes none.
    pub fn paired(&self, a: usize, b: usize, loads: &[Load], metric: Metric) -> Pair {
        let by_load =
            |target| -> Vec<Vec<Option<f64>>> { loads.iter().map(|&load| self.rounds(target, load, metric)).collect() };
        let (of_a, of_b) = (by_load(a), by_load(b));
        let means = (0..self.experiment.rounds as usize).map(|round| {
            let pairs = of_a.iter().zip(&of_b).filter_map(|(a, b)| a[round].zip(b[round]));
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.unzip();
            if 2 * a.len() < loads.len() { (None, None) } else { (geometric_mean(&a), geometric_mean(&b)) }
        });
        means.unzip()
    }

    /// The share of user mode in the CPU time, 0 to 1, pooled over all rounds since one cell has too few ticks.
    pub fn user_share(&self, target: usize, load: Load) -> Option<f64> {
        let (user, all) = self
            .of(target, load)
            .fold((0.0, 0.0), |(user, all), cell| (user + cell.user_s, all + cell.user_s + cell.system_s));
        (all > 0.0).then(|| user / all)
    }

    /// How many rounds of this cell carry a mark.
    pub fn marked(&self, target: usize, load: Load, mark: Mark) -> usize {
        self.of(target, load).filter(|cell| cell.marks.contains(&mark)).count()
    }

    /// How many cells were measured, and how many of them carry a mark.
    pub fn count(&self, mark: Mark) -> (usize, usize) {
        (self.cells.iter().filter(|cell| cell.marks.contains(&mark)).count(), self.cells.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manifold_stats::{Verdict, ratio_interval};

    fn experiment() -> Experiment {
        Experiment {
            keep_alive: vec![true],
            concurrency: vec![10, 1000],
            rounds: 3,
            seed: 1,
            warm_up_s: 0.1,
            measured_s: 0.4,
        }
    }

    /// CPU microseconds a request of each round for 10 and 1000 connections.
    fn cells(target: usize, cpu: [[f64; 3]; 2]) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (concurrency, rounds) in [10, 1000].into_iter().zip(cpu) {
            for (round, us) in rounds.into_iter().enumerate() {
                cells.push(Cell {
                    round: round as u32,
                    target,
                    keep_alive: true,
                    concurrency,
                    completed: 1000,
                    worked_on: 2000,
                    cpu_s: us * 2000.0 / 1e6,
                    user_s: 0.01,
                    system_s: 0.03,
                    ..Cell::default()
                });
            }
        }
        cells
    }

    fn loads() -> Vec<Load> {
        experiment().loads()
    }

    fn second_to_first(view: &Cells<'_>) -> Interval {
        let (a, b) = view.paired(1, 0, &loads(), Metric::CpuUsPerRequest);
        ratio_interval(&a, &b).expect("measured")
    }

    #[test]
    fn cpu_is_divided_by_all_the_work_of_its_window() {
        let cell = &cells(0, [[5.0; 3]; 2])[0];
        assert_eq!(Metric::CpuUsPerRequest.of(cell), Some(5.0));
        let unmeasured = Cell { cpu_s: 0.0, ..cell.clone() };
        assert_eq!(Metric::CpuUsPerRequest.of(&unmeasured), None);
        let refused = Cell { marks: vec![Mark::WrongStatus], ..cell.clone() };
        assert_eq!(Metric::CpuUsPerRequest.of(&refused), None);
        assert_eq!(Metric::P99Us.of(cell), None);
        assert_eq!(Metric::PssMib.of(&Cell { pss_kib: Some(512), ..cell.clone() }), Some(0.5));
    }

    #[test]
    fn means_and_ratios_are_geometric_and_paired() {
        // 2 and 8 average to 4; b is three times a in each round although rounds differ.
        let mut all = cells(0, [[2.0, 4.0, 3.0], [8.0, 16.0, 12.0]]);
        all.extend(cells(1, [[6.0, 12.0, 9.0], [24.0, 48.0, 36.0]]));
        let e = experiment();
        let view = Cells::new(&e, &all);
        let mean = view.mean(0, &loads(), Metric::CpuUsPerRequest).expect("measured");
        assert!((mean.estimate - 6.0).abs() < 1e-9, "{mean:?}");
        let ratio = second_to_first(&view);
        assert!((ratio.estimate - 3.0).abs() < 1e-9 && (ratio.high - ratio.low).abs() < 1e-9, "{ratio:?}");
        assert_eq!(ratio.verdict(), Verdict::More);
        assert_eq!(view.user_share(0, loads()[0]), Some(0.25));
        assert_eq!(view.user_share(7, loads()[0]), None);
    }

    #[test]
    fn a_round_without_one_load_has_no_mean() {
        let mut all = cells(0, [[2.0, 4.0, 3.0], [8.0, 16.0, 12.0]]);
        all[1].marks.push(Mark::PortsExhausted);
        let e = experiment();
        let view = Cells::new(&e, &all);
        assert_eq!(view.mean(0, &loads(), Metric::CpuUsPerRequest).map(|i| i.rounds), Some(2));
        assert_eq!(view.marked(0, loads()[0], Mark::PortsExhausted), 1);
        assert_eq!(view.count(Mark::PortsExhausted), (1, 6));
        assert_eq!(view.mean(1, &loads(), Metric::CpuUsPerRequest), None);
    }

    #[test]
    fn a_ratio_is_over_the_loads_that_both_have() {
        let mut all = cells(0, [[2.0, 2.0, 2.0], [8.0, 8.0, 8.0]]);
        all.extend(cells(1, [[6.0, 6.0, 6.0], [24.0, 24.0, 24.0]]));
        // b has no answer with 10 connections in the second round: there only 1000 connections count, for both.
        all[7].marks.push(Mark::NothingCompleted);
        let e = experiment();
        let view = Cells::new(&e, &all);
        let ratio = second_to_first(&view);
        assert!((ratio.low - 3.0).abs() < 1e-9 && (ratio.high - 3.0).abs() < 1e-9 && ratio.rounds == 3, "{ratio:?}");
        // With both loads missing there is nothing to compare in that round.
        all[10].marks.push(Mark::NothingCompleted);
        let view = Cells::new(&e, &all);
        assert_eq!(second_to_first(&view).rounds, 2);
    }

    #[test]
    fn figures_cover_what_was_measured() {
        let all = cells(0, [[2.0, 4.0, 3.0], [8.0, 16.0, 12.0]]);
        let e = experiment();
        let figures = Cells::new(&e, &all).figures(1);
        let cpu: Vec<_> = figures.iter().filter(|f| f.metric == Metric::CpuUsPerRequest).collect();
        assert_eq!(
            cpu.iter().map(|f| (f.concurrency, f.median.round(), f.rounds)).collect::<Vec<_>>(),
            [(10, 3.0, 3), (1000, 12.0, 3)]
        );
        assert!(figures.iter().all(|f| f.metric != Metric::P50Us), "no latency was measured");
    }
}
