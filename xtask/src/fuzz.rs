//! `cargo xtask fuzz`: runs the targets of fuzz/ for a while each, one a core at a time. How they are instrumented is said in that folder's
//! own .cargo/config.toml, which cargo reads when it runs there.

use std::fs;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::run::{Run, root, target_dir};

/// Seconds a target runs when nothing else is said, as in continuous integration.
const SECONDS: u32 = 20;

/// One input must be done with after this many seconds.
const INPUT_SECONDS_MAX: u32 = 5;

/// Runs the task.
pub fn main(arguments: &[String]) -> Result<()> {
    let (seconds, chosen) = match arguments {
        [] => (SECONDS, None),
        [flag, seconds] if flag == "--seconds" => (number(seconds)?, None),
        [flag, seconds, target] if flag == "--seconds" => (number(seconds)?, Some(target)),
        [target] if !target.starts_with('-') => (SECONDS, Some(target)),
        _ => bail!(
            "usage: cargo xtask fuzz [--seconds N] [TARGET]\n\nWithout TARGET it runs all of them, {SECONDS} seconds each."
        ),
    };
    let mut targets = targets()?;
    if let Some(chosen) = chosen {
        targets.retain(|target| target == chosen);
        if targets.is_empty() {
            bail!("fuzz/ has no target `{chosen}`");
        }
    }
    let folder = target_dir().join("fuzz");
    let folder = folder.to_string_lossy();
    let host = host()?;
    let build = Run::cargo("build --quiet --release --locked").current_dir(&root().join("fuzz"));
    build.env("CARGO_TARGET_DIR", &folder).show()?;
    fuzz_all(&targets, &format!("{folder}/{host}/release"), seconds)
}

/// Runs targets, as many at a time as there are cores. Each runs, whatever another found; the first finding is the error.
fn fuzz_all(targets: &[String], programs: &str, seconds: u32) -> Result<()> {
    let lanes = std::thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let lane = || {
        let mut outcome = Ok(());
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = fuzz(target, &format!("{programs}/{target}"), seconds);
            outcome = outcome.and(found);
        }
        outcome
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        lanes
            .into_iter()
            .try_for_each(|lane| lane.join().unwrap_or_else(|_| Err(anyhow!("a lane of targets panicked"))))
    })
}

fn fuzz(target: &str, program: &str, seconds: u32) -> Result<()> {
    let corpus = root().join("fuzz/corpus").join(target);
    let artifacts = root().join("fuzz/artifacts").join(target);
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut run = Run::new(program, [format!("-max_total_time={seconds}"), format!("-timeout={INPUT_SECONDS_MAX}")]);
    run =
        run.args([format!("-artifact_prefix={}/", artifacts.display())]).args(["-verbosity=0", "-print_final_stats=1"]);
    run = run.args([corpus.to_string_lossy()]);
    let seeds = root().join("fuzz/seeds").join(target);
    if seeds.is_dir() {
        run = run.args([seeds.to_string_lossy()]);
    }
    let said = run.quietly().with_context(|| format!("the input that did it is in fuzz/artifacts/{target}"))?;
    let inputs = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    println!("{target}: {} inputs, nothing found", inputs.context("libFuzzer told no number of inputs")?.trim());
    Ok(())
}

/// The targets are the binaries of the package in fuzz/.
fn targets() -> Result<Vec<String>> {
    let text = Run::cargo("metadata --no-deps --format-version 1 --manifest-path fuzz/Cargo.toml").output()?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata printed something else than JSON")?;
    let targets = metadata["packages"][0]["targets"].as_array().context("fuzz/Cargo.toml has no targets")?;
    let is_binary =
        |target: &&Value| target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "bin"));
    Ok(targets.iter().filter(is_binary).filter_map(|target| Some(target["name"].as_str()?.to_string())).collect())
}

/// The machine's own platform, as rustc names it.
fn host() -> Result<String> {
    let text = Run::new("rustc", ["-vV"]).output()?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV does not tell its host")?.to_string())
}

fn number(text: &str) -> Result<u32> {
    text.parse().with_context(|| format!("`{text}` is not a number of seconds"))
}
