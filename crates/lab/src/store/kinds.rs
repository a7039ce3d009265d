//! The kinds of runs: what each is kept as, what it is compared by, and how it is told again.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::{Key, NewRun, Outcome, Run, Store, Value};
use crate::csv;
use crate::figures;
use crate::files::File;
use crate::generators::results::{self as generators, Generators};
use crate::output::{Kept, Output, keeps};
use crate::page::Frame;
use crate::peers::results::{Peers, counts};
use crate::plot::Plot;
use crate::results::{Environment, Results};
use crate::study::results::Studies;
use crate::{generators as generators_run, peers, progress, report, study, words};

/// What a list tells of a run.
#[derive(Debug)]
pub struct About<'r> {
    /// The experiment.
    name: String,
    /// Where it ran, and what repeats it.
    environment: &'r Environment,
    /// Why it ended before its plan did.
    ended_early: Option<&'r str>,
    /// Seconds.
    took_s: f64,
    /// One sentence of the answer.
    headline: String,
}

/// A kind of run.
pub trait Stored: Kept + Serialize {
    /// Its name in the store.
    const KIND: &'static str;

    /// What a list tells of it.
    fn about(&self) -> About<'_>;
    /// What it is compared by.
    fn values(&self) -> Vec<Value>;
    /// The answer for a terminal.
    fn tell(&self) -> String;
    /// The report as a page.
    ///
    /// # Errors
    /// If the template fails, which nothing measured makes it do.
    fn html(&self, frame: &Frame) -> Result<String>;
    /// Further files that are made of it.
    ///
    /// # Errors
    /// If one cannot be written as JSON, which nothing measured prevents.
    fn texts(&self) -> Result<Vec<File>>;
    /// The plots of the report, in its order.
    fn plots(&self) -> Vec<Plot>;
}

/// Keeps a run that has ended. A store that cannot be written is a remark and no error: the report is there.
pub fn keep<T: Stored>(found: &T, out: &Output) {
    match try_keep(found, out) {
        Ok(Some(run)) => progress::note(&format!("Kept as run {run}: manifold lab show {run}")),
        Ok(None) => {}
        Err(error) => progress::note(&format!("The run is not kept: {error:#}")),
    }
}

fn try_keep<T: Stored>(found: &T, out: &Output) -> Result<Option<i64>> {
    let Some(mut store) = Store::of_user()? else { return Ok(None) };
    let About { name, environment, .. } = found.about();
    let new = NewRun {
        kind: T::KIND,
        name: &name,
        command: &environment.command,
        started: &environment.started_utc,
        folder: out.folder(),
        plan: None,
    };
    let run = store.begin(&new)?;
    end(&mut store, run, found)?;
    Ok(Some(run))
}

/// Keeps how a run that was begun has ended.
///
/// # Errors
/// If it cannot be written.
pub fn end<T: Stored>(store: &mut Store, run: i64, found: &T) -> Result<()> {
    let document = serde_json::to_string(found).context("the results cannot be written as JSON")?;
    let About { ended_early, took_s, headline, .. } = found.about();
    let outcome = Outcome { ended_early, took_s, headline: &headline, document: &document, values: &found.values() };
    store.end(run, &outcome)
}

/// The answer of a run that is kept, for a terminal.
///
/// # Errors
/// If its document cannot be read by this version.
pub fn tell(run: &Run) -> Result<String> {
    with(run, Tell)
}

/// Writes a kept run's data and report into a folder.
///
/// # Errors
/// If its document cannot be read by this version, or a file cannot be written.
pub fn export(run: &Run, out: &Output) -> Result<()> {
    with(run, Export(out))
}

/// Writes what is derived from the data of a run again: beside them, by their file or its folder.
///
/// # Errors
/// If they cannot be read, are of another format, or a file cannot be written.
pub fn report_again(path: &Path) -> Result<()> {
    fn again<T: Stored>(path: &Path) -> Result<()> {
        let (out, found) = Output::open::<T>(path)?;
        out.write_views(&found)
    }
    match path {
        path if keeps::<Peers>(path) => again::<Peers>(path),
        path if keeps::<Generators>(path) => again::<Generators>(path),
        path if keeps::<Studies>(path) => again::<Studies>(path),
        path => again::<Results>(path),
    }
}

/// Something done with a run, whatever its kind.
trait Use {
    type Result;
    fn on<T: Stored>(self, found: &T) -> Result<Self::Result>;
}

struct Tell;

impl Use for Tell {
    type Result = String;
    fn on<T: Stored>(self, found: &T) -> Result<String> {
        Ok(found.tell())
    }
}

struct Export<'a>(&'a Output);

impl Use for Export<'_> {
    type Result = ();
    fn on<T: Stored>(self, found: &T) -> Result<()> {
        self.0.write(found)
    }
}

fn with<U: Use>(run: &Run, what: U) -> Result<U::Result> {
    match run.kind.as_str() {
        Results::KIND => what.on(&read::<Results>(run)?),
        Peers::KIND => what.on(&read::<Peers>(run)?),
        Generators::KIND => what.on(&read::<Generators>(run)?),
        Studies::KIND => what.on(&read::<Studies>(run)?),
        other => bail!("run {} is of the kind {other}, which this version does not know", run.id),
    }
}

fn read<T: Stored>(run: &Run) -> Result<T> {
    let Some(document) = &run.document else {
        bail!(
            "run {} has no results yet: it is {}, with {} cells measured; `manifold lab run --resume {}` goes on with it",
            run.id,
            run.state.text(),
            run.cells,
            run.id
        );
    };
    let found: T = serde_json::from_str(document)
        .with_context(|| format!("run {} was written by another version, which this one cannot read", run.id))?;
    if found.format() != T::FORMAT {
        bail!("run {} has format {}, and this version reads {}", run.id, found.format(), T::FORMAT);
    }
    Ok(found)
}

impl Stored for Results {
    const KIND: &'static str = "models";

    fn about(&self) -> About<'_> {
        About {
            name: "models".to_owned(),
            environment: &self.environment,
            ended_early: self.ended_early.as_deref(),
            took_s: self.took_s,
            headline: words::answer(self).headline,
        }
    }

    fn values(&self) -> Vec<Value> {
        let mut values = Vec::new();
        for cell in &self.cells {
            for metric in figures::Metric::ALL {
                let load = format!("c = {}, {}", cell.concurrency, words::mode(cell.keep_alive));
                let key = key("", cell.round, &self.targets[cell.target].label, &load);
                values.extend(metric.of(cell).map(|value| Value { key, metric: name_of(&metric), value }));
            }
        }
        values
    }

    fn tell(&self) -> String {
        words::terminal(self)
    }

    fn html(&self, frame: &Frame) -> Result<String> {
        Ok(report::html(self, frame)?)
    }

    fn texts(&self) -> Result<Vec<File>> {
        Ok(vec![File::new("cells.csv", csv::cells(self))])
    }

    fn plots(&self) -> Vec<Plot> {
        report::plots(self)
    }
}

impl Stored for Peers {
    const KIND: &'static str = "peers";

    fn about(&self) -> About<'_> {
        About {
            name: peers::PLACE.to_owned(),
            environment: &self.environment,
            ended_early: self.ended_early.as_deref(),
            took_s: self.took_s,
            headline: peers::view::View::of(self).headline,
        }
    }

    fn values(&self) -> Vec<Value> {
        let mut values = Vec::new();
        for cell in self.cells.iter().filter(|cell| counts(&cell.cell)) {
            for metric in figures::Metric::ALL {
                let key = key("", cell.cell.round, &self.targets[cell.cell.target].label, &cell.work.label());
                values.extend(metric.of(&cell.cell).map(|value| Value { key, metric: name_of(&metric), value }));
            }
        }
        values
    }

    fn tell(&self) -> String {
        peers::page::terminal(&peers::view::View::of(self))
    }

    fn html(&self, frame: &Frame) -> Result<String> {
        Ok(peers::page::html(&peers::view::View::of(self), frame)?)
    }

    fn texts(&self) -> Result<Vec<File>> {
        peers::page::texts(&peers::view::View::of(self))
    }

    fn plots(&self) -> Vec<Plot> {
        peers::view::View::of(self).bars
    }
}

impl Stored for Generators {
    const KIND: &'static str = "generators";

    fn about(&self) -> About<'_> {
        About {
            name: generators_run::PLACE.to_owned(),
            environment: &self.environment,
            ended_early: self.ended_early.as_deref(),
            took_s: self.took_s,
            headline: generators_run::view::of(self).headline,
        }
    }

    fn values(&self) -> Vec<Value> {
        let metrics = [
            (generators::Metric::PerCpuSecond, "requests_per_cpu_second"),
            (generators::Metric::PerSecond, "requests_per_second"),
            (generators::Metric::PeakMib, "peak_mib"),
        ];
        let mut values = Vec::new();
        for cell in self.cells.iter().filter(|cell| cell.counts()) {
            for (metric, name) in metrics {
                let key = key("", cell.round, &self.programs[cell.program].label, &cell.work.label());
                values.extend(cell.metric(metric).map(|value| Value { key, metric: name.to_owned(), value }));
            }
        }
        values
    }

    fn tell(&self) -> String {
        peers::page::terminal(&generators_run::view::of(self))
    }

    fn html(&self, frame: &Frame) -> Result<String> {
        Ok(peers::page::html(&generators_run::view::of(self), frame)?)
    }

    fn texts(&self) -> Result<Vec<File>> {
        peers::page::texts(&generators_run::view::of(self))
    }

    fn plots(&self) -> Vec<Plot> {
        generators_run::view::of(self).bars
    }
}

impl Stored for Studies {
    const KIND: &'static str = "study";

    fn about(&self) -> About<'_> {
        About {
            name: self.found.iter().map(|found| found.study.name.as_str()).collect::<Vec<_>>().join(", "),
            environment: &self.environment,
            ended_early: self.ended_early.as_deref(),
            took_s: self.took_s,
            headline: study::view::View::of(self).headline,
        }
    }

    fn values(&self) -> Vec<Value> {
        let mut values = Vec::new();
        for found in &self.found {
            for seen in &found.cells {
                for metric in &found.study.show {
                    let key = found.key(seen);
                    values.extend(metric.of(seen).map(|value| Value { key, metric: name_of(metric), value }));
                }
            }
        }
        values
    }

    fn tell(&self) -> String {
        study::page::terminal(&study::view::View::of(self))
    }

    fn html(&self, frame: &Frame) -> Result<String> {
        Ok(study::page::html(&study::view::View::of(self), frame)?)
    }

    fn texts(&self) -> Result<Vec<File>> {
        study::page::texts(&study::view::View::of(self))
    }

    fn plots(&self) -> Vec<Plot> {
        study::view::View::of(self).sections.into_iter().flat_map(|section| section.figures).collect()
    }
}

fn key(part: &str, round: u32, target: &str, load: &str) -> Key {
    Key { part: part.to_owned(), round, target: target.to_owned(), load: load.to_owned() }
}

/// A metric's name in files.
fn name_of(metric: &impl Serialize) -> String {
    serde_json::to_value(metric).ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
}
