//! The store as a study uses it: every cell is kept as soon as it is measured, and a run that is gone on with takes those it has.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;

use super::metric::Metric;
use super::results::{Studies, StudyCell};
use crate::output::Output;
use crate::results::Environment;
use crate::store::{Begun, Key, Live, Store, kinds};

/// The figures that are told while a run goes on; what it is to show comes at its end.
const TOLD: [Metric; 6] =
    [Metric::RequestsPerSecond, Metric::P50, Metric::P99, Metric::CpuPerRequest, Metric::Memory, Metric::Held];

/// Where cells come from and go to.
#[derive(Debug)]
pub struct Keeper {
    run: Begun,
    /// Those of earlier attempts that were not asked for yet.
    done: BTreeMap<Key, String>,
    /// Seconds of earlier attempts.
    before_s: f64,
    began: Instant,
}

/// A run that is gone on with.
#[derive(Debug)]
pub struct Resumed {
    /// The store that it is in.
    pub store: Store,
    /// Its number.
    pub run: i64,
    /// Seconds of earlier attempts.
    pub took_s: f64,
    /// What was measured.
    pub done: BTreeMap<Key, String>,
}

impl Keeper {
    /// For a run that begins. A store that cannot be written is a remark: the report does not depend on it.
    pub fn begin(name: &str, plan: &str, environment: &Environment, out: &Output) -> Keeper {
        let run = Begun::new::<Studies>(name, Some(plan), environment, out);
        Keeper { run, done: BTreeMap::new(), before_s: 0.0, began: Instant::now() }
    }

    /// For the display of its progress.
    pub fn live(&self) -> Option<Live> {
        self.run.live()
    }

    /// For a run that is gone on with.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn go_on(resumed: Resumed) -> Result<Keeper> {
        let Resumed { store, run, took_s, done } = resumed;
        store.take_up(run)?;
        Ok(Keeper { run: Begun::again(store, run), done, before_s: took_s, began: Instant::now() })
    }

    /// The cell, if an earlier attempt measured it. `target` is its place now.
    pub fn take(&mut self, key: &Key, target: usize, load: usize) -> Option<StudyCell> {
        let mut seen: StudyCell = serde_json::from_str(&self.done.remove(key)?).ok()?;
        // Other targets may be missing this time.
        (seen.cell.target, seen.load) = (target, load);
        Some(seen)
    }

    /// Keeps a cell that was measured.
    pub fn keep(&mut self, key: &Key, seen: &StudyCell) {
        let took_s = self.took_s();
        self.run.write(|store, run| {
            store.cell(run, key, &serde_json::to_string(seen)?, took_s)?;
            store.add_values(run, &kinds::of_study(&TOLD, key, seen))
        });
    }

    /// Seconds, all attempts together.
    pub fn took_s(&self) -> f64 {
        self.before_s + self.began.elapsed().as_secs_f64()
    }

    /// Keeps how the run has ended, and says how it is found again.
    pub fn end(self, studies: &Studies) {
        self.run.end(studies);
    }
}
