//! Experiments as data: `lab run FILE.toml`, and the built-in ones, which are such files.
//!
//! A [`mod@file`] is read as it was typed and [resolved](mod@resolve) to a [`Study`]: servers with their settings, loads, published
//! figures, claims. [`mod@run`] measures it into [`results`]; from there all is pure: [`claims`] are held against what was measured,
//! [`view`] lays out what is told, and [`page`] writes it as text, Markdown and HTML. [`metric`] says, a row each, what can be shown.

mod claims;
mod condition;
mod file;
#[cfg(test)]
mod fixture;
mod metric;
mod page;
mod resolve;
mod results;
mod run;
mod sweep;
mod view;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

use crate::cli::{KeepAlive, RunArgs};
use crate::output::{self, Output};
use resolve::Study;
use results::Studies;

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
pub static BUILT_IN: [BuiltIn; 6] = [
    built_in!("default-mpms", true, "prefork and worker at the defaults of Apache 2.2, 10 clients"),
    built_in!("big-page", true, "prefork and worker, a page of 136 KB, 500 clients"),
    built_in!("max-requests", true, "prefork, worker and event: the time for ever more requests of 500 clients"),
    built_in!("max-concurrency", true, "prefork, worker and event: 100 to 1000 clients at once, a request each"),
    built_in!("settings-matrix", true, "four settings of prefork, three of worker, 100 to 1000 clients"),
    built_in!("a-a", false, "one server measured as two: the noise of this machine"),
];

/// The name of all published experiments together.
pub const ORIGIN: &str = "origin";

/// What the options come to.
#[derive(Debug)]
pub struct Settings {
    studies: Vec<Study>,
    scaled: bool,
    seed: u64,
    out: Option<PathBuf>,
    command: String,
}

/// Resolves the options for the experiment of this name or file. `clock_seed` is the seed where none was given.
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
    let mut studies = read(experiment, args.scaled)?;
    if let Some(rounds) = args.rounds {
        studies.iter_mut().for_each(|study| study.rounds = rounds);
    }
    let seed = args.seed.unwrap_or(clock_seed);
    let mut words = vec![format!("manifold lab run {experiment}")];
    words.extend(args.scaled.then(|| "--scaled".to_owned()));
    words.extend(args.rounds.map(|rounds| format!("--rounds {rounds}")));
    words.push(format!("--seed {seed}"));
    Ok(Settings { studies, scaled: args.scaled, seed, out: args.out.clone(), command: words.join(" ") })
}

/// The studies of a name or file.
fn read(experiment: &str, scaled: bool) -> Result<Vec<Study>, String> {
    let built_in = |one: &BuiltIn| resolve::resolve(one.name, one.name, one.text, scaled);
    if experiment == ORIGIN {
        return BUILT_IN.iter().filter(|one| one.origin).map(built_in).collect();
    }
    if let Some(one) = BUILT_IN.iter().find(|one| one.name == experiment) {
        return Ok(vec![built_in(one)?]);
    }
    let file = Path::new(experiment);
    let text = std::fs::read_to_string(file).map_err(|error| no_such(experiment, &error))?;
    let stem = file.file_stem().map_or_else(|| "experiment".to_owned(), |stem| stem.to_string_lossy().into_owned());
    Ok(vec![resolve::resolve(experiment, &stem, &text, scaled)?])
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
    run::run(settings)
}

/// Whether `path` is of a run of studies.
pub fn is_one(path: &Path) -> bool {
    output::keeps::<Studies>(path)
}

/// Writes the report of an earlier run again.
///
/// # Errors
/// If it cannot be read or written.
pub fn report_again(path: &Path) -> Result<()> {
    let (out, studies) = Output::open::<Studies>(path)?;
    page::write(&view::View::of(&studies), &out)
}

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
