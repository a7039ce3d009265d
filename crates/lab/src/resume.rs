//! Going on with a run that was interrupted, of whatever kind: with the options it was begun with, and the cells it has.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::cli::Asked;
use crate::keeper::{Attempt, Resumed};
use crate::store::{Run, State, Store, Stored, VARIABLE};
use crate::study::{self, results::Studies};

/// Goes on with the run of this number, or the last.
///
/// # Errors
/// If there is nothing to go on with; what prevented any result.
pub fn resume(which: &str) -> Result<ExitCode> {
    let Some(store) = Store::of_user()? else { bail!("{VARIABLE} is none, so that no run is kept to go on with") };
    let run = store.run(which)?;
    match &run.state {
        State::Interrupted | State::EndedEarly(_) => {}
        State::Running => bail!("run {} is being measured by another process", run.id),
        State::Complete => bail!("run {} is complete; `manifold lab show {}` tells its answer", run.id, run.id),
    }
    let Some(plan) = &run.plan else {
        bail!("run {} is of a kind that cannot be gone on with; repeat it with: {}", run.id, run.command);
    };
    let done = store.cells(run.id)?.into_iter().collect();
    let attempt = Attempt::Again(Resumed { store, run: run.id, took_s: run.took_s, done });
    if run.kind == Studies::KIND {
        return study::go_on(plan_of(&run, plan)?, run.folder, attempt);
    }
    let mut asked: Asked = plan_of(&run, plan)?;
    asked.args.out = Some(run.folder);
    crate::measure(&asked, attempt).map_err(anyhow::Error::msg)?
}

/// What a run was begun with.
fn plan_of<T: serde::de::DeserializeOwned>(run: &Run, plan: &str) -> Result<T> {
    serde_json::from_str(plan)
        .with_context(|| format!("run {} was begun by another version; repeat it with: {}", run.id, run.command))
}
