//! The store as a run uses it: every cell is kept as soon as it is measured, and a run that is gone on with takes those it has.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::output::Output;
use crate::results::Environment;
use crate::store::{Begun, Key, Live, Store, Stored, Value};

/// A run's first attempt or a further one.
#[derive(Debug)]
pub enum Attempt {
    /// The first. What is needed to go on, should it be interrupted.
    First(String),
    /// A further one.
    Again(Resumed),
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

impl Attempt {
    /// The folder it writes to: a new one, or that of the first attempt.
    ///
    /// # Errors
    /// If it cannot be made, or a new one has something in it.
    pub fn output(&self, folder: Option<&Path>) -> Result<Output> {
        match (self, folder) {
            (Attempt::Again(_), Some(folder)) => Output::again(folder),
            _ => Output::create(folder),
        }
    }
}

/// Where cells come from and go to.
#[derive(Debug)]
pub struct Keeper {
    run: Begun,
    /// Those of earlier attempts that were not asked for yet.
    done: BTreeMap<Key, String>,
    /// What earlier attempts took.
    before: Duration,
    began: Instant,
}

impl Keeper {
    /// For an attempt at a run of this kind, which is called so in lists.
    ///
    /// # Errors
    /// If it is a further one, and the store cannot be written.
    pub fn of<T: Stored>(attempt: Attempt, name: &str, environment: &Environment, out: &Output) -> Result<Keeper> {
        let (run, done, before) = match attempt {
            Attempt::First(plan) => {
                (Begun::new::<T>(name, Some(&plan), environment, out), BTreeMap::new(), Duration::ZERO)
            }
            Attempt::Again(Resumed { store, run, took_s, done }) => {
                store.take_up(run)?;
                (Begun::again(store, run), done, Duration::try_from_secs_f64(took_s).unwrap_or_default())
            }
        };
        Ok(Keeper { run, done, before, began: Instant::now() })
    }

    /// For the display of its progress.
    pub fn live(&self) -> Option<Live> {
        self.run.live()
    }

    /// The cell, if an earlier attempt measured it. Its target may have another place now: others may be missing this time.
    pub fn take<T: DeserializeOwned>(&mut self, key: &Key) -> Option<T> {
        serde_json::from_str(&self.done.remove(key)?).ok()
    }

    /// Keeps a cell that was measured, and the figures of it that those who look on are told.
    pub fn keep<T: Serialize>(&mut self, key: &Key, seen: &T, told: &[Value]) {
        let took_s = self.took_s();
        self.run.write(|store, run| {
            store.cell(run, key, &serde_json::to_string(seen)?, took_s)?;
            store.add_values(run, told)
        });
    }

    /// All attempts together.
    pub fn took(&self) -> Duration {
        self.before + self.began.elapsed()
    }

    /// Seconds, all attempts together.
    pub fn took_s(&self) -> f64 {
        self.took().as_secs_f64()
    }

    /// Keeps how the run has ended, and says how it is found again.
    pub fn end<T: Stored>(self, found: &T) {
        self.run.end(found);
    }
}
