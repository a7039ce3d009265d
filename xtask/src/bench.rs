//! `cargo xtask bench`: counts the instructions of fixed scenarios (the package in bench/) under valgrind and compares
//! them with the kept baseline. Counts are the same on a busy machine as on an idle one; times are not, and are left to
//! the lab.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::run::{Run, root, target_dir};

/// A count may rise by this much before the check fails, in percent.
const RISE_MAX_PERCENT: f64 = 3.0;

/// The same where the baseline comes from another compiler, which orders and inlines differently.
const RISE_MAX_OTHER_COMPILER_PERCENT: f64 = 15.0;

/// Each scenario runs twice, with these numbers of rounds; the difference leaves out start-up and warming up.
const ROUNDS: (u64, u64) = (2_000, 12_000);

/// Where the baseline is kept.
const BASELINE: &str = "xtask/bench-baseline.json";

/// Instructions a round of each scenario, and the compiler they were counted with.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    compiler: String,
    scenarios: BTreeMap<String, f64>,
}

/// Runs the task.
pub fn main(arguments: &[String]) -> Result<()> {
    let bless = match arguments {
        [] => false,
        [flag] if flag == "--bless" => true,
        _ => bail!("usage: cargo xtask bench [--bless]\n\n--bless keeps today's counts as the baseline ({BASELINE})."),
    };
    Run::cargo("build --quiet --release --locked -p manifold -p manifold-bench").show()?;
    let counts = count_all(&target_dir().join("release/manifold-bench"))?;
    let path = root().join(BASELINE);
    if bless {
        fs::write(&path, counts.render()).with_context(|| format!("cannot write {BASELINE}"))?;
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {BASELINE}; --bless makes it"))?;
    let (table, failures) = compare(&Counts::parse(&text)?, &counts);
    print!("{table}");
    if failures > 0 {
        bail!(
            "{failures} counts are not as the baseline says; if that is meant, `cargo xtask bench --bless` and say why in the commit"
        );
    }
    Ok(())
}

fn count_all(program: &Path) -> Result<Counts> {
    let program = program.to_string_lossy();
    let names = Run::new(&program, ["list"]).output()?;
    let folder = target_dir().join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut counts = Counts { compiler: compiler()?, scenarios: BTreeMap::new() };
    for name in names.lines() {
        let few = count(&program, name, ROUNDS.0, &folder)?;
        let many = count(&program, name, ROUNDS.1, &folder)?;
        let a_round = many.saturating_sub(few) as f64 / (ROUNDS.1 - ROUNDS.0) as f64;
        counts.scenarios.insert(name.to_string(), (a_round * 10.0).round() / 10.0);
    }
    Ok(counts)
}

/// Instructions of one run, as callgrind's output file sums them up.
fn count(program: &str, scenario: &str, rounds: u64, folder: &Path) -> Result<u64> {
    let file: PathBuf = folder.join(format!("{scenario}.{rounds}.callgrind"));
    let out = format!("--callgrind-out-file={}", file.display());
    let rounds = rounds.to_string();
    let run = Run::new("valgrind", ["--quiet", "--tool=callgrind", &out, program, scenario, &rounds]);
    // Time stamps in logs are rendered in the machine's time zone, and some zones have longer tables than others.
    run.env("TZ", "UTC").output()?;
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    instructions(&text).with_context(|| format!("no total in {}", file.display()))
}

fn instructions(callgrind: &str) -> Option<u64> {
    let total =
        callgrind.lines().find_map(|line| line.strip_prefix("totals:").or_else(|| line.strip_prefix("summary:")))?;
    total.split_whitespace().next()?.parse().ok()
}

fn compiler() -> Result<String> {
    let text = Run::new("rustc", ["--version"]).output()?;
    Ok(text.split_whitespace().nth(1).unwrap_or_default().to_string())
}

/// A table of all scenarios, and how many of them fail.
fn compare(baseline: &Counts, now: &Counts) -> (String, usize) {
    let same = baseline.compiler == now.compiler;
    let limit = if same { RISE_MAX_PERCENT } else { RISE_MAX_OTHER_COMPILER_PERCENT };
    let mut table = format!("{:<28} {:>10} {:>10} {:>8}\n", "instructions a round", "baseline", "now", "change");
    let mut failures = 0;
    for (name, &count) in &now.scenarios {
        let Some(&before) = baseline.scenarios.get(name) else {
            table.push_str(&format!("{name:<28} {:>10} {count:>10.1} {:>8}  FAILED: no baseline\n", "-", "-"));
            failures += 1;
            continue;
        };
        let change = (count / before - 1.0) * 100.0;
        let word = if change > limit {
            failures += 1;
            "  FAILED"
        } else if change < -limit {
            "  better: --bless keeps it"
        } else {
            ""
        };
        table.push_str(&format!("{name:<28} {before:>10.1} {count:>10.1} {change:>+7.1}%{word}\n"));
    }
    for name in baseline.scenarios.keys().filter(|name| !now.scenarios.contains_key(*name)) {
        table.push_str(&format!("{name:<28} is in the baseline and is gone  FAILED\n"));
        failures += 1;
    }
    if !same {
        let (theirs, ours) = (&baseline.compiler, &now.compiler);
        table.push_str(&format!("The baseline is rustc {theirs}'s, this is {ours}: {limit} % allowed.\n"));
    }
    (table, failures)
}

impl Counts {
    fn parse(text: &str) -> Result<Counts> {
        let value: Value = serde_json::from_str(text).with_context(|| format!("{BASELINE} is not JSON"))?;
        let scenarios = value["scenarios"].as_object().with_context(|| format!("{BASELINE} has no scenarios"))?;
        let mut counts =
            Counts { compiler: value["rustc"].as_str().unwrap_or_default().to_string(), ..Counts::default() };
        for (name, count) in scenarios {
            let count = count.as_f64().filter(|count| *count > 0.0);
            counts.scenarios.insert(name.clone(), count.with_context(|| format!("{BASELINE}: {name} is not a count"))?);
        }
        Ok(counts)
    }

    fn render(&self) -> String {
        let value = json!({ "rustc": self.compiler, "scenarios": self.scenarios });
        format!("{value:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(compiler: &str, scenarios: &[(&str, f64)]) -> Counts {
        let scenarios = scenarios.iter().map(|(name, count)| (name.to_string(), *count)).collect();
        Counts { compiler: compiler.to_string(), scenarios }
    }

    #[test]
    fn a_count_may_rise_a_little() {
        let baseline = counts("1.95.0", &[("a", 100.0), ("b", 100.0)]);
        let failures = |now: Counts| compare(&baseline, &now).1;
        assert_eq!(failures(counts("1.95.0", &[("a", 102.9), ("b", 50.0)])), 0);
        assert_eq!(failures(counts("1.95.0", &[("a", 103.1), ("b", 100.0)])), 1);
        assert_eq!(failures(counts("1.96.0", &[("a", 110.0), ("b", 100.0)])), 0);
        assert_eq!(failures(counts("1.95.0", &[("a", 100.0), ("c", 100.0)])), 2);
    }

    #[test]
    fn the_baseline_reads_back_as_written() {
        let kept = counts("1.95.0", &[("parse", 310.4), ("serve", 1200.0)]);
        assert_eq!(Counts::parse(&kept.render()).unwrap(), kept);
        for bad in ["", "{}", r#"{"scenarios": {"a": "b"}}"#, r#"{"scenarios": {"a": 0}}"#] {
            assert!(Counts::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn callgrind_totals_are_found() {
        assert_eq!(instructions("events: Ir\nfn=x\n1 2\ntotals: 123456\n"), Some(123_456));
        assert_eq!(instructions("events: Ir\nsummary: 77\n"), Some(77));
        assert_eq!(instructions("events: Ir\n"), None);
    }
}
