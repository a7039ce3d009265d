//! What is measured, in which order, and how long it will take: pure arithmetic on the settings and the seed.

use std::time::Duration;

use manifold_stats::Rng;
use serde::{Deserialize, Serialize};

use crate::store::Key;
use crate::words;

/// Starting servers and waiting for each to answer, plus stopping them and writing the report.
const START_AND_STOP: Duration = Duration::from_millis(6000);

/// What a cell costs beside its warm-up and its measured time: starting the generator, connecting, two looks at the
/// process tree, the pause after it.
const CELL_OVERHEAD: Duration = Duration::from_millis(70);

/// One load: how many connections, and whether they are kept alive between requests.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Load {
    /// Connections kept alive between requests; otherwise each request opens and closes its own.
    pub keep_alive: bool,
    /// Connections open at the same time.
    pub concurrency: u32,
}

/// One measurement to be made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Step {
    /// Which round, from 0.
    pub round: u32,
    /// Index into the experiment's targets.
    pub target: usize,
    /// The load put on it.
    pub load: Load,
}

impl Step {
    /// Which cell it is among all that are kept; `target` is the target's label.
    pub fn key(&self, target: &str) -> Key {
        let load = format!("c = {}, {}", self.load.concurrency, words::mode(self.load.keep_alive));
        Key::new("", self.round, target, &load)
    }
}

/// The settings that decide a run. With the same targets and seed the plan is the same.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Experiment {
    /// Keep-alive off and on, in this order in every table.
    pub keep_alive: Vec<bool>,
    /// Numbers of connections, ascending.
    pub concurrency: Vec<u32>,
    /// How often every cell is measured.
    pub rounds: u32,
    /// Decides the order of the cells.
    pub seed: u64,
    /// Load before the measured time of each cell, in seconds; memory is sampled meanwhile, and a server whose memory
    /// takes long to sample gets more.
    pub warm_up_s: f64,
    /// Measured time of each cell, in seconds.
    pub measured_s: f64,
}

impl Experiment {
    /// The loads, in the order of the tables.
    pub fn loads(&self) -> Vec<Load> {
        let of = |&keep_alive| self.concurrency.iter().map(move |&concurrency| Load { keep_alive, concurrency });
        self.keep_alive.iter().flat_map(of).collect()
    }

    /// Every measurement in the order it is made: round after round, each round all cells in a new random order, so
    /// that a slow minute of the machine hits all targets and not one.
    pub fn plan(&self, targets: usize) -> Vec<Step> {
        let mut rng = Rng::new(self.seed);
        let loads = self.loads();
        let mut plan = Vec::with_capacity(self.rounds as usize * targets * loads.len());
        for round in 0..self.rounds {
            let mut cells: Vec<Step> =
                (0..targets).flat_map(|target| loads.iter().map(move |&load| Step { round, target, load })).collect();
            rng.shuffle(&mut cells);
            plan.extend(cells);
        }
        plan
    }

    /// How long one cell takes, by these settings.
    pub fn cell_time(&self) -> Duration {
        Duration::from_secs_f64(self.warm_up_s + self.measured_s) + CELL_OVERHEAD
    }

    /// How long the whole run takes with so many targets, before anything was measured.
    pub fn estimate(&self, targets: usize) -> Duration {
        let cells = self.rounds as usize * targets * self.loads().len();
        START_AND_STOP + self.cell_time() * cells as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn experiment(rounds: u32, seed: u64) -> Experiment {
        Experiment {
            keep_alive: vec![false, true],
            concurrency: vec![10, 100, 500, 1000],
            rounds,
            seed,
            warm_up_s: 0.12,
            measured_s: 0.4,
        }
    }

    #[test]
    fn every_round_measures_every_cell_once() {
        let plan = experiment(5, 1).plan(8);
        assert_eq!(plan.len(), 320);
        for (round, steps) in plan.chunks(64).enumerate() {
            assert!(steps.iter().all(|s| s.round == round as u32), "rounds are interleaved, not mixed");
            let cells: HashSet<_> = steps.iter().map(|s| (s.target, s.load)).collect();
            assert_eq!(cells.len(), 64);
        }
    }

    #[test]
    fn the_order_is_random_and_decided_by_the_seed() {
        let order = |seed| experiment(2, seed).plan(8);
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        let plan = order(7);
        let cell = |s: &Step| (s.target, s.load);
        assert!(plan[..64].iter().map(cell).ne(plan[64..].iter().map(cell)), "each round has its own order");
    }

    #[test]
    fn loads_are_in_table_order() {
        let mut e = experiment(1, 1);
        e.concurrency = vec![1, 2];
        let got: Vec<(bool, u32)> = e.loads().iter().map(|l| (l.keep_alive, l.concurrency)).collect();
        assert_eq!(got, [(false, 1), (false, 2), (true, 1), (true, 2)]);
    }

    #[test]
    fn estimates() {
        // 320 cells of 120 + 400 + 70 ms, and the start.
        assert_eq!(experiment(5, 1).estimate(8), Duration::from_millis(320 * 590 + 6000));
        assert_eq!(experiment(5, 1).estimate(0), START_AND_STOP);
    }
}
