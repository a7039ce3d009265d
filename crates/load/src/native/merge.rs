//! `manifold load merge`: reports of several machines become the report of one run that all of them made.

use std::ffi::OsString;
use std::process::ExitCode;

use super::read::{self, Named};
use super::show::{self, Output};
use crate::report::{Config, Flag, Machine, PaceConfig, Report, StageConfig};
use crate::tally::Tally;
use crate::verdict::Threshold;

/// What `manifold load merge --help` prints.
const USAGE: &str = "\
Usage: manifold load merge [options] A.json B.json ...

Merges reports of runs that several machines made at the same time (`manifold load --json` on each) into one: histograms
bucket by bucket, counts, errors, and the time series by the wall's clock. Nothing is averaged: every figure is what one
run with all their threads would have reported.

      --json              print the report as one JSON document
      --csv FILE          write the time series
      --hdr FILE          write the latencies as an HdrHistogram log
      --fail-on LIST      conditions that make the whole fail, as for `manifold load`
  -h, --help              show this text

Exit status: 0 the figures can be believed; 1 a report cannot be read or the runs do not belong together;
2 wrong usage; 3 the whole or a machine's part is flagged; 99 a condition of --fail-on holds.
";

/// For more than so large a part of the longest window, not all runs were under way.
const APART_SHARE: f64 = 0.1;

/// What the arguments amount to.
#[derive(Debug)]
struct Options {
    files: Vec<OsString>,
    output: Output,
    fail_on: Vec<Threshold>,
}

/// Runs `manifold load merge` with `args`, the word `merge` not among them.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match parse(args) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(sentence) => {
            eprintln!("manifold load merge: {sentence}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let merged =
        options.files.iter().map(read::file).collect::<Result<Vec<_>, _>>().and_then(|reports| merge(&reports));
    let shown = merged
        .and_then(|report| show::show(&report, &options.output).map(|()| report).map_err(|error| error.to_string()));
    match shown {
        Ok(report) => show::verdict(&report, &options.fail_on),
        Err(sentence) => {
            eprintln!("manifold load merge: {sentence}");
            ExitCode::from(1)
        }
    }
}

/// `None`: help is wanted.
fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Options>, String> {
    use lexopt::prelude::{Long, Short, Value, ValueExt};
    let text = |error: lexopt::Error| error.to_string();
    let mut parser = lexopt::Parser::from_args(args);
    let mut options = Options { files: Vec::new(), output: Output::default(), fail_on: Vec::new() };
    while let Some(arg) = parser.next().map_err(text)? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("json") => options.output.json = true,
            Long("csv") => options.output.csv = Some(parser.value().map_err(text)?.into()),
            Long("hdr") => options.output.hdr = Some(parser.value().map_err(text)?.into()),
            Long("fail-on") => {
                let list = parser.value().and_then(ValueExt::string).map_err(text)?;
                options.fail_on.extend(crate::verdict::parse(&list)?);
            }
            Value(file) => options.files.push(file),
            other => return Err(text(other.unexpected())),
        }
    }
    if options.files.len() < 2 {
        return Err("two reports or more are needed".to_owned());
    }
    read::different(&options.files)?;
    Ok(Some(options))
}

/// One report of all.
///
/// # Errors
/// A sentence that names the reports which contradict themselves or do not belong together.
fn merge(reports: &[Named]) -> Result<Report, String> {
    let mut config = reports[0].report.config.clone();
    let mut sum = Tally::default();
    for (index, Named { name, report }) in reports.iter().enumerate() {
        if let Some(same) = reports[..index].iter().find(|other| other.report == *report) {
            return Err(format!("{name} is the same run as {}: it would count twice", same.name));
        }
        if index > 0 {
            let first = &reports[0];
            let joined = join(&mut config, &report.config).and_then(|()| same_parts(&first.report, report));
            joined
                .map_err(|what| format!("{name} and {} differ in {what}: they are no parts of one run", first.name))?;
        }
        sum.add(&Tally::of_report(report).map_err(|said| format!("{name}: {said}"))?);
    }
    let machines: Vec<Machine> = reports.iter().flat_map(|named| named.report.machines.clone()).collect();
    let mut merged = sum.report(config, machines);
    if apart(&merged.machines) {
        merged.flags.push(Flag::NotSimultaneous);
    }
    if is_poisson(&merged.config) && shares_a_seed(&merged.machines) {
        merged.flags.push(Flag::SameSeed);
    }
    Ok(merged)
}

/// What was asked for of all: connections, threads, requests and rates add up. `Err`: what differs and must not.
fn join(config: &mut Config, other: &Config) -> Result<(), &'static str> {
    if config.requests_sent != other.requests_sent {
        return Err("the requests");
    }
    if config.keep_alive != other.keep_alive {
        return Err("keeping connections");
    }
    join_pace(&mut config.pace, &other.pace)?;
    config.connections = config.connections.saturating_add(other.connections);
    config.threads = config.threads.saturating_add(other.threads);
    config.requests = config.requests.zip(other.requests).map(|(one, other)| one.saturating_add(other));
    config.duration_s = config.duration_s.zip(other.duration_s).map(|(one, other)| one.max(other));
    config.warmup_s = config.warmup_s.max(other.warmup_s);
    config.drain_s = config.drain_s.max(other.drain_s);
    config.timeout_s = config.timeout_s.max(other.timeout_s);
    config.pin.extend_from_slice(&other.pin);
    Ok(())
}

/// Whether figures were kept of the same kinds and stages, which earlier versions did not.
fn same_parts(one: &Report, other: &Report) -> Result<(), &'static str> {
    let lengths = |report: &Report| (report.kinds.len(), report.stages.len());
    if lengths(one) == lengths(other) { Ok(()) } else { Err("the kinds and stages of which figures were kept") }
}

fn join_pace(pace: &mut PaceConfig, other: &PaceConfig) -> Result<(), &'static str> {
    match (pace, other) {
        (PaceConfig::Open { arrivals, stages }, PaceConfig::Open { arrivals: others, stages: more }) => {
            let lengths = |stages: &[StageConfig]| stages.iter().map(|stage| stage.seconds).collect::<Vec<_>>();
            if arrivals != others {
                return Err("the arrivals");
            }
            if lengths(stages) != lengths(more) {
                return Err("the stages");
            }
            for (stage, more) in stages.iter_mut().zip(more) {
                stage.from += more.from;
                stage.to += more.to;
            }
            Ok(())
        }
        (pace @ PaceConfig::Closed { .. }, other @ PaceConfig::Closed { .. }) if pace == other => Ok(()),
        (PaceConfig::Closed { .. }, PaceConfig::Closed { .. }) => Err("think time or ramp"),
        _ => Err("the kind of loop"),
    }
}

/// Whether for a good part of the longest window not all machines were at work, by their own clocks.
fn apart(machines: &[Machine]) -> bool {
    let begins = |machine: &Machine| machine.started_unix_us as f64 / 1e6;
    let ends = |machine: &Machine| begins(machine) + machine.seconds;
    let last_begin = machines.iter().map(begins).fold(f64::MIN, f64::max);
    let first_end = machines.iter().map(ends).fold(f64::MAX, f64::min);
    let longest = machines.iter().map(|machine| machine.seconds).fold(0.0, f64::max);
    first_end - last_begin < longest * (1.0 - APART_SHARE)
}

fn is_poisson(config: &Config) -> bool {
    matches!(&config.pace, PaceConfig::Open { arrivals, .. } if arrivals == "poisson")
}

fn shares_a_seed(machines: &[Machine]) -> bool {
    (1..machines.len()).any(|index| machines[..index].iter().any(|other| other.seed == machines[index].seed))
}

#[cfg(test)]
mod tests;
