//! A run while it is measured, as the store shows it to those who look on: where it is, and its figures so far.

use std::cell::RefCell;

use anyhow::Result;

use super::{NewRun, Store, Stored, Value, kinds};
use crate::output::Output;
use crate::progress;
use crate::results::Environment;

/// A run that was begun and is kept.
#[derive(Debug)]
pub struct Begun(Option<(Store, i64)>);

impl Begun {
    /// Notes that a run begins. A store that cannot be written is a remark and no error: the report does not depend on it.
    pub fn new<T: Stored>(name: &str, plan: Option<&str>, environment: &Environment, out: &Output) -> Begun {
        let Environment { command, started_utc: started, .. } = environment;
        let new = NewRun { kind: T::KIND, name, command, started, folder: out.folder(), plan };
        let begin = |store: Option<Store>| -> Result<Option<(Store, i64)>> {
            store.map(|store| store.begin(&new).map(|run| (store, run))).transpose()
        };
        Begun(Store::of_user().and_then(begin).unwrap_or_else(|error| {
            progress::note(&format!("The run is not kept: {error:#}"));
            None
        }))
    }

    /// Goes on with one.
    pub fn again(store: Store, run: i64) -> Begun {
        Begun(Some((store, run)))
    }

    /// For the display of its progress.
    pub fn live(&self) -> Option<Live> {
        let (_, run) = self.0.as_ref()?;
        let store = Store::of_user().ok()??;
        // What is lost with the power is no more than where the run was.
        store.db.pragma_update(None, "synchronous", "normal").ok()?;
        Some(Live { store: RefCell::new(store), run: *run })
    }

    /// Writes something about the run. Where that fails the rest is not kept, and a remark says so.
    pub fn write(&mut self, write: impl FnOnce(&mut Store, i64) -> Result<()>) {
        let Some((store, run)) = &mut self.0 else { return };
        if let Err(error) = write(store, *run) {
            progress::note(&format!("The rest of the run is not kept: {error:#}"));
            self.0 = None;
        }
    }

    /// Keeps what one more cell found.
    pub fn figures(&mut self, values: &[Value]) {
        self.write(|store, run| store.add_values(run, values));
    }

    /// Keeps how it has ended, and says how it is found again.
    pub fn end<T: Stored>(self, found: &T) {
        let Some((mut store, run)) = self.0 else { return };
        let resumes =
            found.about().ended_early.is_some() && store.run(&run.to_string()).is_ok_and(|run| run.plan.is_some());
        match kinds::end(&mut store, run, found) {
            Ok(()) if resumes => {
                progress::note(&format!("Kept as run {run}; go on with it: manifold lab run --resume {run}"));
            }
            Ok(()) => progress::note(&format!("Kept as run {run}: manifold lab show {run}")),
            Err(error) => progress::note(&format!("How the run ended is not kept: {error:#}")),
        }
    }
}

/// Tells where a run is.
#[derive(Debug)]
pub struct Live {
    store: RefCell<Store>,
    run: i64,
}

impl Live {
    /// `done` of `total` cells are measured, and now comes `doing`. A display that cannot be written is no reason to lose the run.
    pub fn tell(&self, done: usize, total: usize, doing: &str) {
        let _ = self.store.borrow_mut().tell(self.run, done, total, doing);
    }
}
