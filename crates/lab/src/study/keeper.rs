//! The store as a study uses it: every cell is kept as soon as it is measured, and a run that is gone on with takes those it has.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;

use super::results::{Studies, StudyCell};
use crate::output::Output;
use crate::progress;
use crate::results::Environment;
use crate::store::{self, Key, NewRun, Store, Stored};

/// Where cells come from and go to.
#[derive(Debug)]
pub struct Keeper {
    /// `None` where nothing is kept.
    store: Option<(Store, i64)>,
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
        let new = NewRun {
            kind: Studies::KIND,
            name,
            command: &environment.command,
            started: &environment.started_utc,
            folder: out.folder(),
            plan: Some(plan),
        };
        let begin = |store: Option<Store>| -> Result<Option<(Store, i64)>> {
            store.map(|store| store.begin(&new).map(|run| (store, run))).transpose()
        };
        let store = Store::of_user().and_then(begin).unwrap_or_else(|error| {
            progress::note(&format!("The run is not kept: {error:#}"));
            None
        });
        Keeper { store, done: BTreeMap::new(), before_s: 0.0, began: Instant::now() }
    }

    /// For a run that is gone on with.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn go_on(resumed: Resumed) -> Result<Keeper> {
        let Resumed { store, run, took_s, done } = resumed;
        store.take_up(run)?;
        Ok(Keeper { store: Some((store, run)), done, before_s: took_s, began: Instant::now() })
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
        let Some((store, run)) = &mut self.store else { return };
        let kept =
            serde_json::to_string(seen).map_err(Into::into).and_then(|data| store.cell(*run, key, &data, took_s));
        if let Err(error) = kept {
            progress::note(&format!("The rest of the run is not kept: {error:#}"));
            self.store = None;
        }
    }

    /// Seconds, all attempts together.
    pub fn took_s(&self) -> f64 {
        self.before_s + self.began.elapsed().as_secs_f64()
    }

    /// Keeps how the run has ended, and says how it is found again.
    pub fn end(self, studies: &Studies) {
        let Some((mut store, run)) = self.store else { return };
        match store::end(&mut store, run, studies) {
            Ok(()) if studies.ended_early.is_some() => {
                progress::note(&format!("Kept as run {run}; go on with it: manifold lab run --resume {run}"));
            }
            Ok(()) => progress::note(&format!("Kept as run {run}: manifold lab show {run}")),
            Err(error) => progress::note(&format!("How the run ended is not kept: {error:#}")),
        }
    }
}
