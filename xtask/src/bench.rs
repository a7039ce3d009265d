//! `cargo xtask bench`: counts what work costs and compares it with the kept baseline. The package in bench/ has fixed
//! scenarios, whose instructions are counted; then real servers of each model answer real requests, whose instructions,
//! system calls and allocations are counted ([`served`]). Counts are the same on a busy machine as on an idle one; times
//! are not, and are left to the lab.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::run::{Run, root, target_dir};

mod baseline;
mod dump;
mod page;
mod served;
mod server;
mod trace;
mod workload;

use baseline::{BASELINE, Comparison, Counts};
use page::PAGE;

/// Each scenario of bench/ runs twice, with these numbers of rounds; the difference leaves out start-up and warming up.
const ROUNDS: (u64, u64) = (2_000, 12_000);

/// Runs the task.
pub fn main(arguments: &[String]) -> Result<()> {
    let (bless, words) = match arguments {
        [flag, words @ ..] if flag == "--bless" => (true, words),
        words => (false, words),
    };
    if words.iter().any(|word| word.starts_with('-')) {
        bail!(
            "usage: cargo xtask bench [--bless] [WORD]...\n\n--bless keeps today's counts as the baseline ({BASELINE}). \
             With words, only what has one of them in its name is counted."
        );
    }
    Run::cargo("build --quiet --release --locked -p manifold -p manifold-bench").show()?;
    let is_wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let scenarios = scenarios(&target_dir().join("release/manifold-bench"), is_wanted)?;
    let now = Counts { compiler: compiler()?, scenarios, served: served::count_all(is_wanted)? };
    let path = root().join(BASELINE);
    let partly = !words.is_empty();
    let kept = || -> Result<Counts> {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {BASELINE}; --bless makes it"))?;
        Counts::parse(&text)
    };
    let comparison = Comparison::of(&kept().unwrap_or_default(), &now, served::bounds, partly);
    print!("{}", comparison.table);
    if bless {
        let mut counts = if partly { kept()? } else { Counts::default() };
        counts.update(&now);
        fs::write(root().join(PAGE), page::render(&counts)).with_context(|| format!("cannot write {PAGE}"))?;
        return fs::write(&path, counts.render()).with_context(|| format!("cannot write {BASELINE}"));
    }
    kept()?;
    if comparison.failures > 0 {
        bail!(
            "{} counts are not as the baseline says; if that is meant, `cargo xtask bench --bless` and say why in the commit",
            comparison.failures
        );
    }
    Ok(())
}

/// Instructions a round of each wanted scenario of bench/.
fn scenarios(program: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<BTreeMap<String, f64>> {
    let program = program.to_string_lossy();
    let names = Run::new(&program, ["list"]).output()?;
    let folder = target_dir().join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut scenarios = BTreeMap::new();
    for name in names.lines().filter(|name| is_wanted(name)) {
        let few = count(&program, name, ROUNDS.0, &folder)?;
        let many = count(&program, name, ROUNDS.1, &folder)?;
        let a_round = many.saturating_sub(few) as f64 / (ROUNDS.1 - ROUNDS.0) as f64;
        scenarios.insert(name.to_string(), (a_round * 10.0).round() / 10.0);
    }
    Ok(scenarios)
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
    dump::instructions(&text).with_context(|| format!("no total in {}", file.display()))
}

fn compiler() -> Result<String> {
    let text = Run::new("rustc", ["--version"]).output()?;
    Ok(text.split_whitespace().nth(1).unwrap_or_default().to_string())
}
