//! `lab run generators`: Manifold's load generators beside others, against one target that does nothing but answer, and over TLS and
//! HTTP/2 against nginx.
//!
//! [`plan`] and [`program`] say what is measured, [`mod@nginx`] is the second target; [`mod@run`] measures it into [`results`]; [`view`] judges what is claimed and lays it
//! out, and the pages of `lab run peers` write it.

mod nginx;
mod plan;
mod program;
pub mod results;
mod run;
pub mod view;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::builder::PossibleValuesParser;

use crate::cli::{KeepAlive, RunArgs};
use crate::keeper::Attempt;
use crate::output::Kept;
use program::PROGRAMS;
use results::{FORMAT, Generators};

/// The name of its place in a page.
pub const PLACE: &str = "generators";
/// How long a run may take unless told otherwise, minutes.
const MINUTES: f64 = 6.0;

/// What the options come to.
#[derive(Debug)]
pub struct Settings {
    /// Those wanted; none: all that are there.
    names: Vec<String>,
    rounds: Option<u32>,
    budget: Duration,
    seconds: u32,
    seed: u64,
    out: Option<PathBuf>,
    markdown: Option<PathBuf>,
    command: String,
}

/// The names of all generators, for the command line.
pub fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(PROGRAMS.iter().map(|program| program.name))
}

/// Resolves the options. `clock_seed` is the seed where none was given.
///
/// # Errors
/// A sentence for the user, with the way out.
pub fn resolve(args: &RunArgs, clock_seed: u64) -> Result<Settings, String> {
    for (given, option) in [
        (args.site.is_some(), "--site"),
        (!args.targets.is_empty(), "--targets"),
        (!args.concurrency.is_empty(), "--concurrency"),
        (args.keep_alive != KeepAlive::Both, "--keep-alive"),
        (args.scaled, "--scaled"),
        (args.smallest, "--smallest"),
    ] {
        if given {
            return Err(format!(
                "{option} does not go with `generators`, whose target and loads are fixed; leave one of them out"
            ));
        }
    }
    let seconds = args.seconds.unwrap_or(1.0);
    if seconds.fract() != 0.0 || seconds < 1.0 {
        return Err(format!("--seconds {seconds}: most generators know whole seconds only"));
    }
    let seed = args.seed.unwrap_or(clock_seed);
    let mut words = vec!["manifold lab run generators".to_owned()];
    let numbers = [
        args.quick.then(|| "--quick".to_owned()),
        (!args.generators.is_empty()).then(|| format!("--generators {}", args.generators.join(","))),
        args.minutes.map(|minutes| format!("--minutes {minutes}")),
        args.rounds.map(|rounds| format!("--rounds {rounds}")),
        args.seconds.map(|seconds| format!("--seconds {seconds}")),
        Some(format!("--seed {seed}")),
    ];
    words.extend(numbers.into_iter().flatten());
    let minutes = args.minutes.unwrap_or(if args.quick { 1.5 } else { MINUTES });
    Ok(Settings {
        names: args.generators.clone(),
        rounds: args.rounds,
        budget: Duration::from_secs_f64(minutes * 60.0),
        seconds: seconds as u32,
        seed,
        out: args.out.clone(),
        markdown: args.markdown.clone(),
        command: words.join(" "),
    })
}

/// Runs the experiment.
///
/// # Errors
/// What prevented any result.
pub fn run(settings: &Settings, attempt: Attempt) -> Result<ExitCode> {
    run::run(settings, attempt)
}

impl Kept for Generators {
    const FILE: &'static str = "generators.json";
    const FORMAT: u32 = FORMAT;

    fn format(&self) -> u32 {
        self.format
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Do};
    use clap::Parser;

    fn read(line: &[&str]) -> Result<Settings, String> {
        match Cli::try_parse_from(["lab", "run", "generators"].iter().chain(line)).map_err(|e| e.to_string())?.command {
            Do::Run(args) => resolve(&args, 42),
            _ => panic!("another command"),
        }
    }

    #[test]
    fn options_and_the_command_that_repeats_them() {
        let all = read(&[]).expect("defaults");
        assert_eq!((all.names.len(), all.rounds, all.seconds), (0, None, 1));
        assert_eq!(all.command, "manifold lab run generators --seed 42");
        let line = ["--generators", "load,wrk", "--rounds", "3", "--seconds", "2"];
        let few = read(&[&line[..], &["--seed", "9"]].concat()).expect("right");
        assert_eq!((few.names.join(","), few.rounds, few.seconds), ("load,wrk".to_owned(), Some(3), 2));
        assert_eq!(few.command, format!("manifold lab run generators {} --seed 9", line.join(" ")));
    }

    #[test]
    fn options_that_mean_nothing_here_are_refused() {
        for line in [&["--site", "/"][..], &["--targets", "nginx"], &["--concurrency", "7"], &["--seconds", "0.5"]] {
            let said = read(line).expect_err("refused");
            assert!(said.contains(line[0]), "{said}");
        }
    }
}
