//! `cargo xtask test`: THE test command. A visible list of steps, run in order; all of them run even when one fails, and
//! the last line counts them.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::run::{Run, target_dir};
use crate::{bench, docs, fuzz, setup, tidy};

/// One check of the whole. All steps share one target folder, one set of flags and two profiles (dev and release), so
/// that nothing is compiled twice; only fuzzing, which instruments the code, has a folder of its own.
struct Step {
    name: &'static str,
    about: &'static str,
    when: When,
    run: fn() -> Result<()>,
}

/// When a step runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum When {
    /// When the one before it has ended.
    InTurn,
    /// Beside those that follow.
    Beside,
    /// As `InTurn`, and alone: when everything before it has ended.
    Alone,
}

const STEPS: &[Step] = &[
    step("setup", "packages and toolchain components", When::InTurn, || setup::main(&[])),
    step("fmt", "layout of the code", When::InTurn, fmt),
    step("tidy", "house rules as code", When::InTurn, || tidy::main(&[])),
    // Linking takes minutes of one processor, and its profile is not that of the steps beside it.
    step("build", "the release binary that e2e and bench run", When::Beside, build),
    step("clippy", "lints, of tests and examples too", When::InTurn, clippy),
    step("unit", "unit, property and simulation tests of every crate", When::InTurn, unit),
    step("rustdoc", "the documentation comments", When::InTurn, rustdoc),
    step("docs", "generated pages are what the tables say", When::InTurn, || docs::main(&["--check".to_string()])),
    step("e2e", "real clients, real servers, real signals", When::Alone, e2e),
    step("bench", "instructions, system calls and allocations a request", When::Alone, || bench::main(&[])),
    step("fuzz", "each fuzz target for a while", When::Alone, || fuzz::main(&[])),
];

const fn step(name: &'static str, about: &'static str, when: When, run: fn() -> Result<()>) -> Step {
    Step { name, about, when, run }
}

/// Runs the task.
pub fn main(arguments: &[String]) -> Result<()> {
    let steps = chosen(arguments)?;
    let began = Instant::now();
    let (mut outcomes, mut beside) = (Vec::new(), Vec::new());
    for (index, step) in steps.iter().enumerate() {
        if step.when == When::Alone {
            outcomes.extend(beside.drain(..).map(ended));
        }
        println!("\n=== {} of {}: {} ({})", index + 1, steps.len(), step.name, step.about);
        match step.when {
            When::Beside => beside.push(std::thread::Builder::new().spawn(|| step.outcome())?),
            When::InTurn | When::Alone => outcomes.push(step.outcome()),
        }
    }
    outcomes.extend(beside.into_iter().map(ended));
    print!("{}", summary(&outcomes, began.elapsed()));
    if outcomes.iter().any(|outcome| !outcome.passed) {
        bail!("some steps failed; `cargo xtask test --only STEP` runs one of them again");
    }
    Ok(())
}

impl Step {
    /// Runs it and says how it went.
    fn outcome(&self) -> Outcome {
        let start = Instant::now();
        let result = (self.run)();
        let took = start.elapsed();
        if let Err(error) = &result {
            println!("error: {error:#}");
        }
        println!("=== {}: {} in {}", self.name, verdict(result.is_ok()), seconds(took));
        Outcome { name: self.name, passed: result.is_ok(), took }
    }
}

/// The outcome of a step that ran beside others.
fn ended(step: JoinHandle<Outcome>) -> Outcome {
    step.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

struct Outcome {
    name: &'static str,
    passed: bool,
    took: Duration,
}

/// The steps that the arguments ask for.
fn chosen(arguments: &[String]) -> Result<Vec<&'static Step>> {
    let mut skip_setup = false;
    let mut only = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--skip-setup" => skip_setup = true,
            "--only" => only.push(arguments.next().context("--only needs the name of a step")?.as_str()),
            _ => bail!("usage: cargo xtask test [--skip-setup] [--only STEP]...\n\n{}", list()),
        }
    }
    if let Some(unknown) = only.iter().find(|name| !STEPS.iter().any(|step| step.name == **name)) {
        bail!("there is no step `{unknown}`:\n{}", list());
    }
    let wanted = |step: &Step| {
        if only.is_empty() { !(skip_setup && step.name == "setup") } else { only.contains(&step.name) }
    };
    Ok(STEPS.iter().filter(|step| wanted(step)).collect())
}

fn list() -> String {
    STEPS.iter().map(|step| format!("  {:<8} {}\n", step.name, step.about)).collect()
}

/// The closing table; its last line is read by machines: `N passed, N failed`.
fn summary(outcomes: &[Outcome], all: Duration) -> String {
    let mut text = String::from("\n");
    for outcome in outcomes {
        text.push_str(&format!("{:<8} {:<6} {:>8}\n", outcome.name, verdict(outcome.passed), seconds(outcome.took)));
    }
    text.push_str(&format!("{:<8} {:<6} {:>8}\n", "all", "", seconds(all)));
    let passed = outcomes.iter().filter(|outcome| outcome.passed).count();
    text.push_str(&format!("{passed} passed, {} failed\n", outcomes.len() - passed));
    text
}

fn verdict(passed: bool) -> &'static str {
    if passed { "passed" } else { "FAILED" }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

fn fmt() -> Result<()> {
    Run::cargo("fmt --all --check").show()
}

fn clippy() -> Result<()> {
    Run::cargo("clippy --quiet --workspace --all-targets --locked -- -D warnings").show()
}

fn build() -> Result<()> {
    Run::cargo("build --quiet --release --locked -p manifold -p manifold-bench").show()
}

fn unit() -> Result<()> {
    Run::cargo("test --quiet --workspace --exclude e2e --locked --no-fail-fast").show()
}

fn rustdoc() -> Result<()> {
    // A crate's own page may lead to its private parts: they are documented too, for those who work on it.
    let flags = "-D warnings -A rustdoc::private-intra-doc-links";
    Run::cargo("doc --quiet --workspace --no-deps --document-private-items --locked").env("RUSTDOCFLAGS", flags).show()
}

fn e2e() -> Result<()> {
    let binary = target_dir().join("release/manifold");
    let run = Run::cargo("test --package e2e --locked --no-fail-fast").env("MANIFOLD_BIN", &binary.to_string_lossy());
    run.show()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(arguments: &[&str]) -> Vec<&'static str> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        chosen(&arguments).unwrap().iter().map(|step| step.name).collect()
    }

    #[test]
    fn steps_are_chosen_by_flags() {
        assert_eq!(names(&[]).len(), STEPS.len());
        assert_eq!(names(&["--skip-setup"]).len(), STEPS.len() - 1);
        assert_eq!(names(&["--only", "tidy"]), ["tidy"]);
        assert_eq!(names(&["--only", "tidy", "--only", "fmt"]), ["fmt", "tidy"]);
        let error = chosen(&["--only".to_string(), "tydi".to_string()]).err().unwrap().to_string();
        assert!(error.contains("no step `tydi`"), "{error}");
    }

    #[test]
    fn the_last_line_counts_the_steps() {
        let outcome = |name, passed| Outcome { name, passed, took: Duration::from_millis(1500) };
        let text =
            summary(&[outcome("fmt", true), outcome("unit", false), outcome("docs", true)], Duration::from_secs(4));
        assert!(text.contains("unit     FAILED    1.5 s\n"), "{text}");
        assert_eq!(text.lines().last(), Some("2 passed, 1 failed"));
    }
}
