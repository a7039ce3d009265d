//! The kinds of runs: what each is kept as, what it is compared by, and how it is told again.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::{Key, Outcome, Run, Store, Value};
use crate::csv;
use crate::figures;
use crate::files::{self, File};
use crate::generators::results::{self as generators, Generators};
use crate::output::{Kept, Output, keeps};
use crate::page::Frame;
use crate::peers::results::{PeerCell, Peers, counts};
use crate::plot::Plot;
use crate::results::{Cell, Environment, Results};
use crate::study::results::{Found, Studies, StudyCell};
use crate::tune::results::Tuned;
use crate::{generators as generators_run, peers, report, study, tune, words};

/// What a list tells of a run.
#[derive(Debug)]
pub struct About<'r> {
    /// Where it ran, and what repeats it.
    pub environment: &'r Environment,
    /// Why it ended before its plan did.
    pub ended_early: Option<&'r str>,
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
        path if keeps::<Tuned>(path) => again::<Tuned>(path),
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

/// The report of a kept run as a page.
///
/// # Errors
/// If its document cannot be read by this version.
pub fn html(run: &Run, frame: &Frame) -> Result<String> {
    with(run, Html(frame))
}

/// Every file of a kept run, its data first.
///
/// # Errors
/// If its document cannot be read by this version.
pub fn files(run: &Run) -> Result<Vec<File>> {
    with(run, Files)
}

/// What a kept run is shown by beside another.
///
/// # Errors
/// If its document cannot be read by this version.
pub fn beside(run: &Run) -> Result<Beside> {
    with(run, Aside)
}

/// A run beside another.
#[derive(Debug)]
pub struct Beside {
    /// Where it ran.
    pub environment: Environment,
    /// Its plots.
    pub plots: Vec<Plot>,
}

struct Html<'a>(&'a Frame);

impl Use for Html<'_> {
    type Result = String;
    fn on<T: Stored>(self, found: &T) -> Result<String> {
        found.html(self.0)
    }
}

struct Files;

impl Use for Files {
    type Result = Vec<File>;
    fn on<T: Stored>(self, found: &T) -> Result<Vec<File>> {
        let mut files = vec![files::data(found)?];
        files.extend(files::derived(found)?);
        Ok(files)
    }
}

struct Aside;

impl Use for Aside {
    type Result = Beside;
    fn on<T: Stored>(self, found: &T) -> Result<Beside> {
        Ok(Beside { environment: found.about().environment.clone(), plots: found.plots() })
    }
}

fn with<U: Use>(run: &Run, what: U) -> Result<U::Result> {
    match run.kind.as_str() {
        Results::KIND => what.on(&read::<Results>(run)?),
        Peers::KIND => what.on(&read::<Peers>(run)?),
        Generators::KIND => what.on(&read::<Generators>(run)?),
        Studies::KIND => what.on(&read::<Studies>(run)?),
        Tuned::KIND => what.on(&read::<Tuned>(run)?),
        other => bail!("run {} is of the kind {other}, which this version does not know", run.id),
    }
}

fn read<T: Stored>(run: &Run) -> Result<T> {
    let Some(document) = &run.document else {
        let way_out = match run.plan {
            Some(_) => format!("`manifold lab run --resume {}` goes on with it", run.id),
            None => format!("repeat it with: {}", run.command),
        };
        bail!(
            "run {} has no results yet: it is {}, with {} cells measured; {way_out}",
            run.id,
            run.state.text(),
            run.cells.max(run.done)
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
            environment: &self.environment,
            ended_early: self.ended_early.as_deref(),
            took_s: self.took_s,
            headline: words::answer(self).headline,
        }
    }

    fn values(&self) -> Vec<Value> {
        self.cells.iter().flat_map(|cell| of_models(&self.targets[cell.target].label, cell)).collect()
    }

    fn tell(&self) -> String {
        words::terminal(self)
    }

    fn html(&self, frame: &Frame) -> Result<String> {
        Ok(report::html(self, frame)?)
    }

    fn texts(&self) -> Result<Vec<File>> {
        Ok(vec![File::new("report.md", report::markdown(self)), File::new("cells.csv", csv::cells(self))])
    }

    fn plots(&self) -> Vec<Plot> {
        report::plots(self)
    }
}

impl Stored for Peers {
    const KIND: &'static str = "peers";

    fn about(&self) -> About<'_> {
        About {
            environment: &self.environment,
            ended_early: self.ended_early.as_deref(),
            took_s: self.took_s,
            headline: peers::view::View::of(self).headline,
        }
    }

    fn values(&self) -> Vec<Value> {
        self.cells.iter().flat_map(|cell| of_peers(&self.targets[cell.cell.target].label, cell)).collect()
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
            environment: &self.environment,
            ended_early: self.ended_early.as_deref(),
            took_s: self.took_s,
            headline: generators_run::view::of(self).headline,
        }
    }

    fn values(&self) -> Vec<Value> {
        self.cells.iter().flat_map(|cell| of_generators(&self.programs[cell.program].label, cell)).collect()
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
            environment: &self.environment,
            ended_early: self.ended_early.as_deref(),
            took_s: self.took_s,
            headline: study::view::View::of(self).headline,
        }
    }

    fn values(&self) -> Vec<Value> {
        let of = |found: &Found| -> Vec<Value> {
            found.cells.iter().flat_map(|seen| of_study(&found.study.show, &found.key(seen), seen)).collect()
        };
        self.found.iter().flat_map(of).collect()
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

/// What a cell of `lab run` without a name adds.
pub fn of_models(target: &str, cell: &Cell) -> Vec<Value> {
    of_cell(&cell.step().key(target), cell)
}

/// What a cell of a race of settings adds.
pub fn of_race(setting: &str, cell: &Cell) -> Vec<Value> {
    of_cell(&Key { part: "race".to_owned(), ..cell.step().key(setting) }, cell)
}

/// What a cell of `peers` adds.
pub fn of_peers(target: &str, seen: &PeerCell) -> Vec<Value> {
    match counts(&seen.cell) {
        true => of_cell(&Key::new("", seen.cell.round, target, &seen.work.label()), &seen.cell),
        false => Vec::new(),
    }
}

fn of_cell(key: &Key, cell: &Cell) -> Vec<Value> {
    let value =
        |metric: figures::Metric| Some(Value { key: key.clone(), metric: name_of(&metric), value: metric.of(cell)? });
    figures::Metric::ALL.into_iter().filter_map(value).collect()
}

/// What a cell of `generators` adds.
pub fn of_generators(program: &str, cell: &generators::Cell) -> Vec<Value> {
    let metrics = [
        (generators::Metric::PerCpuSecond, "requests_per_cpu_second"),
        (generators::Metric::PerSecond, "requests_per_second"),
        (generators::Metric::PeakMib, "peak_mib"),
    ];
    let key = Key::new("", cell.round, program, &cell.work.label());
    let value = |(metric, name): (generators::Metric, &str)| {
        Some(Value { key: key.clone(), metric: name.to_owned(), value: cell.metric(metric)? })
    };
    if cell.counts() { metrics.into_iter().filter_map(value).collect() } else { Vec::new() }
}

/// What a cell of a study adds, of these figures.
pub fn of_study(metrics: &[study::metric::Metric], key: &Key, seen: &StudyCell) -> Vec<Value> {
    let value = |metric: &study::metric::Metric| {
        Some(Value { key: key.clone(), metric: name_of(metric), value: metric.of(seen)? })
    };
    metrics.iter().filter_map(value).collect()
}

impl Stored for Tuned {
    const KIND: &'static str = "tune";

    fn about(&self) -> About<'_> {
        About {
            environment: &self.environment,
            ended_early: self.ended_early.as_deref(),
            took_s: self.took_s,
            headline: tune::view::headline(self),
        }
    }

    fn values(&self) -> Vec<Value> {
        let values = |cell: &Cell| of_race(&self.candidates[cell.target].name, cell);
        self.race.iter().flat_map(values).collect()
    }

    fn tell(&self) -> String {
        tune::view::terminal(self)
    }

    fn html(&self, frame: &Frame) -> Result<String> {
        Ok(tune::view::html(self, frame)?)
    }

    fn texts(&self) -> Result<Vec<File>> {
        Ok(tune::view::texts(self))
    }

    fn plots(&self) -> Vec<Plot> {
        tune::view::plots(self)
    }
}

/// A metric's name in files.
fn name_of(metric: &impl Serialize) -> String {
    serde_json::to_value(metric).ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
}
