//! The laboratory: starts servers and models side by side, loads them, watches them, and says which to choose.
//!
//! An [`experiment`] is a plan of cells (target x load x round) in a random order kept by its seed. [`run`] starts the
//! [`target`]s as [`server`]s, lets the [`generator`] load one cell at a time in a process of its own while the [`sampler`]
//! reads the server's processor time and memory, and keeps it all in [`results`]. From there everything is pure:
//! [`figures`] (medians, intervals, ratios), [`words`] (the answer), [`plot`] and [`report`].
#![forbid(unsafe_code)]

mod absent;
mod cli;
mod compare;
mod cores;
mod csv;
mod doctor;
mod environment;
mod experiment;
mod figures;
mod files;
#[cfg(test)]
mod fixture;
mod generator;
mod generators;
mod idle_test;
mod interrupt;
mod keeper;
mod limits;
mod output;
mod own_config;
mod page;
mod peer;
mod peers;
mod plot;
mod proc;
mod progress;
mod reload_test;
mod report;
mod results;
mod resume;
mod run;
mod sampler;
mod scratch;
mod server;
mod slow_test;
mod staged;
mod store;
mod study;
mod suspicion;
mod table;
mod target;
mod text;
mod tune;
mod view;
mod wire;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;

use crate::cli::{Asked, Cli, Do, RunArgs};
use crate::keeper::Attempt;
use crate::store::commands;

/// `manifold lab`. `args` are those after the program's name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(std::iter::once("manifold lab".into()).chain(args)) {
        Ok(cli) => cli,
        Err(message) => {
            // Help and version go to the standard output, mistakes to the standard error stream.
            let _ = message.print();
            return ExitCode::from(if message.use_stderr() { 2 } else { 0 });
        }
    };
    match cli.command {
        Do::Run(args) => run_experiment(&args),
        Do::New { file } => match study::write_new(&file) {
            Ok(()) => ExitCode::SUCCESS,
            Err(sentence) => fail(&sentence, 1),
        },
        Do::List { json } => told(commands::list(json)),
        Do::Show { run } => told(commands::show(&run)),
        Do::Diff { a, b, all } => told(commands::diff(&a, &b, all)),
        Do::Export { run, folder } => told(commands::export(&run, &folder)),
        Do::View(args) => told(view::run(&args)),
        Do::Delete { runs } => told(commands::delete(&runs)),
        Do::ReloadTest(args) => reload_test::run(&args).unwrap_or_else(|error| fail(&format!("{error:#}"), 2)),
        Do::SlowTest(args) => slow_test::run(&args).unwrap_or_else(|error| fail(&format!("{error:#}"), 2)),
        Do::IdleTest(args) => idle_test::run(&args).unwrap_or_else(|error| fail(&format!("{error:#}"), 2)),
        Do::Doctor(args) => doctor::run(&args).unwrap_or_else(|error| fail(&format!("{error:#}"), 2)),
        Do::Tune(args) => tune::run(&args, clock_seed()).unwrap_or_else(|error| fail(&format!("{error:#}"), 1)),
        Do::Hold(args) => slow_test::hold::run(args),
        Do::Report { results } => told(store::report_again(&results)),
        Do::Guard { folder } => scratch::guard(&folder),
        Do::Exec { cores, command } => match cli::cores(&cores) {
            Ok(cores) => server::exec(&cores, &command),
            Err(sentence) => fail(&sentence, 2),
        },
    }
}

/// The experiment that was named, or one that was interrupted.
fn run_experiment(args: &RunArgs) -> ExitCode {
    if let Some(run) = &args.resume {
        return resume::resume(run).unwrap_or_else(|error| fail(&format!("{error:#}"), 1));
    }
    let begun = Asked::now(args, clock_seed()).and_then(|asked| {
        let plan = serde_json::to_string(&asked).map_err(|error| format!("the options cannot be kept: {error}"))?;
        measure(&asked, Attempt::First(plan))
    });
    match begun {
        Ok(ended) => ended.unwrap_or_else(|error| fail(&format!("{error:#}"), 1)),
        Err(sentence) => fail(&sentence, 2),
    }
}

/// An experiment with code of its own, or one that is a file. The outer error is a sentence about the options.
fn measure(asked: &Asked, attempt: Attempt) -> Result<anyhow::Result<ExitCode>, String> {
    let (args, seed) = (&asked.args, asked.seed);
    match args.experiment.as_deref() {
        None if args.config.is_some() => study::resolve(args, "", seed).map(|settings| study::run(&settings)),
        None => cli::resolve(args, seed).map(|settings| run::run(&settings, attempt)),
        Some(peers::PLACE) => peers::resolve(args, seed).map(|settings| peers::run(&settings, attempt)),
        Some(generators::PLACE) => generators::resolve(args, seed).map(|settings| generators::run(&settings, attempt)),
        Some(other) => study::resolve(args, other, seed).map(|settings| study::run(&settings)),
    }
}

fn told(done: anyhow::Result<()>) -> ExitCode {
    done.map_or_else(|error| fail(&format!("{error:#}"), 1), |()| ExitCode::SUCCESS)
}

fn fail(sentence: &str, code: u8) -> ExitCode {
    eprintln!("manifold lab: {}", sentence.trim_end());
    ExitCode::from(code)
}

/// A seed that differs from run to run and is short enough to type.
fn clock_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_millis() as u64 % 1_000_000)
}
