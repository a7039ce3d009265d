//! `lab run peers`: all models beside their peers and beside a server that does nothing, on three pages, in one run.
//!
//! [`plan`] says what is measured; [`mod@run`] measures it into [`results`]; from there all is pure: [`claims`] are held against the
//! results, [`view`] lays out what is told, and [`page`] writes it as text, Markdown and HTML.

pub mod claims;
#[cfg(test)]
mod fixture;
pub mod fleet;
pub mod page;
pub mod plan;
pub mod results;
mod run;
pub mod view;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use crate::cli::{KeepAlive, RunArgs};
use crate::keeper::Attempt;
use crate::output::Kept;
use crate::target::{TARGETS, Target};
use results::{FORMAT, Peers};

/// The name of its place in a page.
pub const PLACE: &str = "peers";
/// Seconds measured in most cells unless told otherwise; long answers get three or four times as much.
const MEASURED_S: f64 = 0.3;
/// How long a run may take unless told otherwise, minutes.
const MINUTES: f64 = 14.0;

/// What the options come to.
#[derive(Debug)]
pub struct Settings {
    targets: Vec<&'static Target>,
    /// The targets were named, so one that is missing is an error and no remark.
    named: bool,
    /// How many rounds; otherwise as many as there is time for.
    rounds: Option<u32>,
    /// How long it may take.
    budget: Duration,
    /// How often memory is measured.
    passes: u32,
    seed: u64,
    warm_up_s: f64,
    measured_s: f64,
    out: Option<PathBuf>,
    markdown: Option<PathBuf>,
    command: String,
}

/// Resolves the options. `clock_seed` is the seed where none was given.
///
/// # Errors
/// A sentence for the user, with the way out.
pub fn resolve(args: &RunArgs, clock_seed: u64) -> Result<Settings, String> {
    for (given, option) in [
        (args.site.is_some(), "--site"),
        (!args.concurrency.is_empty(), "--concurrency"),
        (args.keep_alive != KeepAlive::Both, "--keep-alive"),
        (!args.generators.is_empty(), "--generators"),
        (args.scaled, "--scaled"),
        (args.smallest, "--smallest"),
    ] {
        if given {
            return Err(format!(
                "{option} does not go with `peers`, whose pages and loads are fixed; leave one of them out"
            ));
        }
    }
    let seed = args.seed.unwrap_or(clock_seed);
    let mut words = vec!["manifold lab run peers".to_owned()];
    words.extend(args.quick.then(|| "--quick".to_owned()));
    if !args.targets.is_empty() {
        words.push(format!("--targets {}", args.targets.join(",")));
    }
    let numbers = [
        args.minutes.map(|minutes| format!("--minutes {minutes}")),
        args.rounds.map(|rounds| format!("--rounds {rounds}")),
        args.seconds.map(|seconds| format!("--seconds {seconds}")),
        Some(format!("--seed {seed}")),
    ];
    words.extend(numbers.into_iter().flatten());
    let minutes = args.minutes.unwrap_or(if args.quick { 2.0 } else { MINUTES });
    Ok(Settings {
        targets: TARGETS
            .iter()
            .filter(|target| args.targets.is_empty() || args.targets.iter().any(|name| name == target.name))
            .collect(),
        named: !args.targets.is_empty(),
        rounds: args.rounds,
        budget: Duration::from_secs_f64(minutes * 60.0),
        passes: if args.quick { 1 } else { 2 },
        seed,
        warm_up_s: if args.quick { 0.06 } else { 0.12 },
        measured_s: args.seconds.unwrap_or(if args.quick { 0.1 } else { MEASURED_S }),
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

impl Kept for Peers {
    const FILE: &'static str = "peers.json";
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
        match Cli::try_parse_from(["lab", "run", "peers"].iter().chain(line)).map_err(|e| e.to_string())?.command {
            Do::Run(args) => resolve(&args, 42),
            _ => panic!("another command"),
        }
    }

    #[test]
    fn options_and_the_command_that_repeats_them() {
        let all = read(&[]).expect("defaults");
        assert_eq!((all.targets.len(), all.named, all.rounds, all.passes), (13, false, None, 2));
        assert_eq!((all.budget, all.command.as_str()), (Duration::from_secs(840), "manifold lab run peers --seed 42"));
        let line = ["--quick", "--targets", "percore,nginx", "--minutes", "3", "--seconds", "0.2"];
        let few = read(&[&line[..], &["--seed", "9"]].concat()).expect("right");
        assert_eq!(few.targets.iter().map(|t| t.name).collect::<Vec<_>>(), ["percore", "nginx"]);
        assert_eq!((few.rounds, few.budget, few.measured_s), (None, Duration::from_secs(180), 0.2));
        assert_eq!(few.command, format!("manifold lab run peers {} --seed 9", line.join(" ")));
    }

    #[test]
    fn options_that_mean_nothing_here_are_refused() {
        for line in [["--site", "/"], ["--concurrency", "7"], ["--keep-alive", "on"]] {
            let said = read(&line).expect_err("refused");
            assert!(said.contains(line[0]) && said.contains("fixed"), "{said}");
        }
    }
}
