//! Experiments as data: `lab run FILE.toml`, and the built-in ones, which are such files.
//!
//! A [`mod@file`] is read as it was typed and [resolved](mod@resolve) to a [`Study`]: servers with their settings, loads, published
//! figures, claims. [`mod@run`] measures it into [`results`]; from there all is pure: [`claims`] are held against what was measured,
//! [`view`] lays out what is told, and [`page`] writes it as text, Markdown and HTML. [`metric`] says, a row each, what can be shown.

mod claims;
mod condition;
mod course;
mod file;
#[cfg(test)]
mod fixture;
mod idle;
pub mod metric;
pub mod page;
mod reload;
pub mod resolve;
pub mod results;
mod run;
mod slow;
pub mod start;
mod sweep;
pub mod view;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::cli::{KeepAlive, RunArgs};
use crate::keeper::Attempt;
use resolve::Study;

/// A built-in experiment.
#[derive(Debug)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line of help.
    pub about: &'static str,
    text: &'static str,
    /// Among the published experiments this project comes from.
    origin: bool,
}

macro_rules! built_in {
    ($name:literal, $origin:literal, $about:literal) => {
        BuiltIn {
            name: $name,
            about: $about,
            text: include_str!(concat!("../../experiments/", $name, ".toml")),
            origin: $origin,
        }
    };
}

/// The built-in experiments.
pub static BUILT_IN: [BuiltIn; 10] = [
    built_in!("default-mpms", true, "prefork and worker at the defaults of Apache 2.2, 10 clients"),
    built_in!("big-page", true, "prefork and worker, a page of 136 KB, 500 clients"),
    built_in!("max-requests", true, "prefork, worker and event: the time for ever more requests of 500 clients"),
    built_in!("max-concurrency", true, "prefork, worker and event: 100 to 1000 clients at once, a request each"),
    built_in!("settings-matrix", true, "four settings of prefork, three of worker, 100 to 1000 clients"),
    built_in!("slow-clients", true, "how many slow clients prefork, worker and event hold beside a normal one"),
    built_in!("reload", false, "requests lost while a server takes a new configuration, again and again"),
    built_in!("idle-memory", false, "what an idle kept connection costs each model in memory"),
    built_in!("find-max", false, "the highest rate that each model serves within 50 ms"),
    built_in!("a-a", false, "one server measured as two: the noise of this machine"),
];

/// The name of all published experiments together.
pub const ORIGIN: &str = "origin";

/// How large an experiment is made.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Size {
    /// As its file says.
    #[default]
    Full,
    /// As its file says of `--scaled`.
    Scaled,
    /// Once, with as little as can be.
    Smallest,
}

impl Size {
    fn of(args: &RunArgs) -> Size {
        match (args.scaled, args.smallest) {
            (_, true) => Size::Smallest,
            (true, false) => Size::Scaled,
            (false, false) => Size::Full,
        }
    }

    /// The option that asks for it.
    fn option(self) -> Option<&'static str> {
        match self {
            Size::Full => None,
            Size::Scaled => Some("--scaled"),
            Size::Smallest => Some("--smallest"),
        }
    }
}

/// What makes a run, and makes it again: kept with it, so that one that was interrupted goes on as it began, whatever became of the file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Plan {
    /// As typed.
    experiment: String,
    sources: Vec<Source>,
    size: Size,
    /// Rounds instead of the files'.
    rounds: Option<u32>,
    /// Decides the order of the cells.
    seed: u64,
}

/// An experiment's text.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Source {
    /// For messages.
    file: String,
    /// The study's name.
    name: String,
    text: String,
}

/// What the options come to.
#[derive(Debug)]
pub struct Settings {
    plan: Plan,
    studies: Vec<Study>,
    out: Option<PathBuf>,
    command: String,
}

impl Settings {
    fn of(plan: Plan, out: Option<PathBuf>) -> Result<Settings, String> {
        let study = |source: &Source| resolve::resolve(&source.file, &source.name, &source.text, plan.size);
        let mut studies = plan.sources.iter().map(study).collect::<Result<Vec<Study>, String>>()?;
        if let Some(rounds) = plan.rounds {
            studies.iter_mut().for_each(|study| (study.rounds, study.most_rounds) = (rounds, rounds));
        }
        let mut words = vec![format!("manifold lab run {}", plan.experiment)];
        words.extend(plan.size.option().map(str::to_owned));
        words.extend(plan.rounds.map(|rounds| format!("--rounds {rounds}")));
        words.push(format!("--seed {}", plan.seed));
        Ok(Settings { plan, studies, out, command: words.join(" ") })
    }
}

/// Resolves the options for the experiment of this name or file, or for the configuration of `-f`. `clock_seed` is the seed where none was given.
///
/// # Errors
/// A sentence for the user, with the way out.
pub fn resolve(args: &RunArgs, experiment: &str, clock_seed: u64) -> Result<Settings, String> {
    for (given, option) in [
        (args.site.is_some(), "--site"),
        (!args.targets.is_empty(), "--targets"),
        (!args.concurrency.is_empty(), "--concurrency"),
        (args.keep_alive != KeepAlive::Both, "--keep-alive"),
        (!args.generators.is_empty(), "--generators"),
        (args.seconds.is_some(), "--seconds"),
        (args.minutes.is_some(), "--minutes"),
        (args.markdown.is_some(), "--markdown"),
        (args.quick, "--quick"),
    ] {
        if given {
            return Err(format!(
                "{option} does not go with the experiment {experiment}, whose file says all of that; \
                 --scaled makes it smaller, and `manifold lab new FILE` writes a file of your own"
            ));
        }
    }
    let (experiment, sources) = match &args.config {
        Some(config) => own_config(config, args),
        None => (experiment.to_owned(), sources(experiment)?),
    };
    let plan =
        Plan { experiment, sources, size: Size::of(args), rounds: args.rounds, seed: args.seed.unwrap_or(clock_seed) };
    Settings::of(plan, args.out.clone())
}

/// The experiment of `-f`: what repeats it, and its text.
fn own_config(config: &Path, args: &RunArgs) -> (String, Vec<Source>) {
    // A text of JSON is one of TOML as well.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let path = args.path.as_deref().unwrap_or("/");
    let host = args.host.as_ref().map(|host| format!("host = {}", quoted(host))).unwrap_or_default();
    let text = OWN_CONFIG.replace("@CONFIG@", &quoted(&config.to_string_lossy()));
    let text = text.replace("@HOST@", &host).replace("@PATH@", &quoted(path));
    let host = args.host.as_ref().map(|host| format!(" --host {host}")).unwrap_or_default();
    let command = format!("-f {}{host} --path {path}", config.display());
    (command, vec![Source { file: "-f".to_owned(), name: "own-config".to_owned(), text }])
}

/// The texts of a name or file.
fn sources(experiment: &str) -> Result<Vec<Source>, String> {
    let built_in =
        |one: &BuiltIn| Source { file: one.name.to_owned(), name: one.name.to_owned(), text: one.text.to_owned() };
    let wanted = |one: &&BuiltIn| if experiment == ORIGIN { one.origin } else { one.name == experiment };
    let found: Vec<Source> = BUILT_IN.iter().filter(wanted).map(built_in).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let file = Path::new(experiment);
    let text = std::fs::read_to_string(file).map_err(|error| no_such(experiment, &error))?;
    let name = file.file_stem().map_or_else(|| "experiment".to_owned(), |stem| stem.to_string_lossy().into_owned());
    Ok(vec![Source { file: experiment.to_owned(), name, text }])
}

fn no_such(experiment: &str, error: &std::io::Error) -> String {
    let names: Vec<&str> =
        ["peers", "generators", ORIGIN].into_iter().chain(BUILT_IN.iter().map(|one| one.name)).collect();
    if experiment.contains(['/', '.']) {
        return format!("{experiment}: {error}");
    }
    format!("there is no experiment \"{experiment}\"; there are {}, or give a file", names.join(", "))
}

/// Runs it.
///
/// # Errors
/// What prevented any result.
pub fn run(settings: &Settings) -> Result<ExitCode> {
    let plan = serde_json::to_string(&settings.plan).context("the plan cannot be written as JSON")?;
    run::run(settings, Attempt::First(plan))
}

/// Goes on with a run that was interrupted, in its folder.
///
/// # Errors
/// What prevented any result.
pub fn go_on(plan: Plan, folder: PathBuf, attempt: Attempt) -> Result<ExitCode> {
    let settings = Settings::of(plan, Some(folder)).map_err(anyhow::Error::msg)?;
    run::run(&settings, attempt)
}

/// An Apache configuration under each model.
const OWN_CONFIG: &str = include_str!("../../experiments/own-config.toml");

/// An experiment of one's own to begin with: complete, and every line explained.
const NEW: &str = include_str!("../../experiments/new.toml");

/// `lab new FILE`.
///
/// # Errors
/// If the file is there already or cannot be written.
pub fn write_new(file: &Path) -> Result<(), String> {
    use std::io::Write;
    let mut new = std::fs::OpenOptions::new().write(true).create_new(true).open(file).map_err(|error| {
        let way_out = if file.exists() { "; nothing was changed, give another name" } else { "" };
        format!("{}: {error}{way_out}", file.display())
    })?;
    new.write_all(NEW.as_bytes()).map_err(|error| format!("{}: {error}", file.display()))?;
    println!("{} is written; change it, then: manifold lab run {}", file.display(), file.display());
    Ok(())
}

#[cfg(test)]
mod tests;
