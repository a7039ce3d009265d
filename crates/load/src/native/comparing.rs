//! `manifold load compare` and `--compare`: the ratios of two reports, for people and programs.

use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;

use manifold_stats::Verdict;
use serde_json::{Value, json};

use super::read;
use super::show;
use crate::compare::{Doubt, Figure, Pair, differences};
use crate::verdict::{self, Threshold};

/// What `manifold load compare --help` prints.
const USAGE: &str = "\
Usage: manifold load compare [options] BASE.json NEW.json

Says how many times the figures of one run (`manifold load --json`) are those of another: rate, percentiles, mean and
errors, with intervals at 95 % and with `not distinguishable` where that is the truth. `manifold load URL --compare
BASE.json` makes the new run as well.

      --json              print the ratios as one JSON document
      --fail-on LIST      conditions on the new run, and on ratios, as 'p99>1.1x,rate<0.95x,errors>1x'
  -h, --help              show this text

Exit status: 0 both runs can be believed; 1 a report cannot be read; 2 wrong usage; 3 one of them is flagged;
99 a condition of --fail-on holds.
";

/// What is shown, with its name and unit.
const ROWS: &[(&str, &str, Figure)] = &[
    ("rate", "/s", Figure::Rate),
    ("mean", "us", Figure::Mean),
    ("p50", "us", Figure::Percentile(0.5)),
    ("p90", "us", Figure::Percentile(0.9)),
    ("p99", "us", Figure::Percentile(0.99)),
    ("p99.9", "us", Figure::Percentile(0.999)),
    ("errors", "%", Figure::Errors),
];

/// Either run is not to be believed as it is.
pub fn is_flagged(pair: &Pair<'_>) -> bool {
    show::is_flagged(pair.base) || show::is_flagged(pair.new)
}

/// As text, line ends included.
pub fn text(pair: &Pair<'_>) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _infallible = write(&mut out, pair);
    out
}

fn write(out: &mut String, pair: &Pair<'_>) -> std::fmt::Result {
    writeln!(out, "{:<8} {:>14} {:>14}       ratio   interval", "", "base", "new")?;
    for (name, unit, figure) in ROWS {
        let row = pair.ratio(*figure);
        let shown = |value: Option<f64>| match (value, figure) {
            (None, _) => "-".to_owned(),
            (Some(value), Figure::Errors) => format!("{:.3} {unit}", value * 100.0),
            (Some(value), _) => format!("{value:.1} {unit}"),
        };
        let said = match &row.ratio {
            Ok(interval) => format!(
                "{:>8.3}   {:.3} to {:.3}   {}",
                interval.estimate,
                interval.low,
                interval.high,
                word(row.verdict)
            ),
            Err(Doubt::NoFigure) if *figure == Figure::Errors => format!("{:>8}   {}", "-", word(row.verdict)),
            Err(doubt) => {
                let plain = row.base.zip(row.new).filter(|(base, _)| *base > 0.0);
                let estimate = plain.map_or("-".to_owned(), |(base, new)| format!("{:.3}", new / base));
                format!("{estimate:>8}   {}", doubt.meaning())
            }
        };
        writeln!(out, "{name:<8} {:>14} {:>14}    {said}", shown(row.base), shown(row.new))?;
    }
    writeln!(
        out,
        "Intervals hold what changed from second to second within each run. What changes from run to run is in none of\n\
         them: repeat the runs in turns, or let `manifold lab run` do it, before a small ratio is believed."
    )?;
    for difference in differences(pair.base, pair.new) {
        writeln!(out, "WARNING: the plans differ in {difference}")?;
    }
    for (name, report) in [("base", pair.base), ("new run", pair.new)] {
        let parts = report.machines.iter().filter(|_| report.machines.len() > 1).flat_map(|machine| &machine.flags);
        let mut flags: Vec<_> = report.flags.iter().chain(parts).collect();
        flags.sort_unstable();
        flags.dedup();
        for flag in flags {
            writeln!(out, "WARNING: {name}: {}", flag.meaning())?;
        }
    }
    Ok(())
}

/// As a document.
fn document(pair: &Pair<'_>) -> Value {
    let figure = |(name, _, figure): &(&str, &str, Figure)| {
        let row = pair.ratio(*figure);
        let interval = row.ratio.as_ref().ok();
        let value = json!({
            "base": row.base,
            "new": row.new,
            "ratio": interval.map(|interval| interval.estimate),
            "low": interval.map(|interval| interval.low),
            "high": interval.map(|interval| interval.high),
            "seconds": interval.map(|interval| interval.rounds),
            "verdict": word(row.verdict),
            "doubt": row.ratio.as_ref().err().map(|doubt| doubt.meaning()),
        });
        ((*name).to_owned(), value)
    };
    json!({
        "level": manifold_stats::LEVEL,
        "figures": ROWS.iter().map(figure).collect::<serde_json::Map<_, _>>(),
        "plans_differ": differences(pair.base, pair.new),
        "flags": { "base": pair.base.flags, "new": pair.new.flags },
    })
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Less => "less",
        Verdict::More => "more",
        Verdict::NotDistinguishable => "not distinguishable",
        Verdict::TooFewRounds => "cannot be told",
    }
}

/// Runs `manifold load compare` with `args`, the word `compare` not among them.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let (files, json, fail_on) = match parse(args) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(sentence) => {
            eprintln!("manifold load compare: {sentence}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match compare(&files, json, &fail_on) {
        Ok(status) => status,
        Err(sentence) => {
            eprintln!("manifold load compare: {sentence}");
            ExitCode::from(1)
        }
    }
}

fn compare(files: &[OsString; 2], json: bool, fail_on: &[Threshold]) -> Result<ExitCode, String> {
    let [base, new] = [read::file(&files[0])?, read::file(&files[1])?];
    let pair = Pair::of((&base.name, &base.report), (&new.name, &new.report))?;
    let text = if json { format!("{}\n", document(&pair)) } else { text(&pair) };
    show::print(&text).map_err(|error| error.to_string())?;
    let breaches = verdict::breaches(fail_on, &new.report, Some(&pair));
    Ok(show::status(&breaches, is_flagged(&pair)))
}

type Asked = ([OsString; 2], bool, Vec<Threshold>);

/// `None`: help is wanted.
fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Asked>, String> {
    use lexopt::prelude::{Long, Short, Value, ValueExt};
    let text = |error: lexopt::Error| error.to_string();
    let mut parser = lexopt::Parser::from_args(args);
    let (mut files, mut json, mut fail_on) = (Vec::new(), false, Vec::new());
    while let Some(arg) = parser.next().map_err(text)? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("json") => json = true,
            Long("fail-on") => {
                let list = parser.value().and_then(ValueExt::string).map_err(text)?;
                fail_on.extend(verdict::parse_with_ratios(&list)?);
            }
            Value(file) => files.push(file),
            other => return Err(text(other.unexpected())),
        }
    }
    read::different(&files)?;
    let files = <[OsString; 2]>::try_from(files).map_err(|_| "two reports are needed, the base first".to_owned())?;
    Ok(Some((files, json, fail_on)))
}
