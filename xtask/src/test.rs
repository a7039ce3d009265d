//! `cargo xtask test`: THE test command. A visible list of steps, run in order; all of them run even when one fails, and
//! the last line counts them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::run::{Run, target_dir};
use crate::{bench, docs, fuzz, setup, tidy};

/// One check of the whole. All steps share one target folder, one set of flags and two profiles (dev and release), so
/// that nothing is compiled twice; only fuzzing, which instruments the code, has a folder of its own.
struct Step {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result<()>,
}

const STEPS: &[Step] = &[
    Step { name: "setup", about: "packages and toolchain components", run: || setup::main(&[]) },
    Step { name: "fmt", about: "layout of the code", run: fmt },
    Step { name: "tidy", about: "house rules as code", run: || tidy::main(&[]) },
    Step { name: "clippy", about: "lints, of tests and examples too", run: clippy },
    Step { name: "build", about: "the release binary that e2e and bench run", run: build },
    Step { name: "unit", about: "unit, property and simulation tests of every crate", run: unit },
    Step { name: "rustdoc", about: "the documentation comments", run: rustdoc },
    Step {
        name: "docs",
        about: "generated pages are what the tables say",
        run: || docs::main(&["--check".to_string()]),
    },
    Step { name: "e2e", about: "real clients, real servers, real signals", run: e2e },
    Step { name: "bench", about: "instructions, system calls and allocations a request", run: || bench::main(&[]) },
    Step { name: "fuzz", about: "each fuzz target for half a minute", run: || fuzz::main(&[]) },
];

/// Runs the task.
pub fn main(arguments: &[String]) -> Result<()> {
    let steps = chosen(arguments)?;
    let mut outcomes = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        println!("\n=== {} of {}: {} ({})", index + 1, steps.len(), step.name, step.about);
        let start = Instant::now();
        let result = (step.run)();
        if let Err(error) = &result {
            println!("error: {error:#}");
        }
        println!("=== {}: {} in {}", step.name, verdict(result.is_ok()), seconds(start.elapsed()));
        outcomes.push(Outcome { name: step.name, passed: result.is_ok(), took: start.elapsed() });
    }
    print!("{}", summary(&outcomes));
    if outcomes.iter().any(|outcome| !outcome.passed) {
        bail!("some steps failed; `cargo xtask test --only STEP` runs one of them again");
    }
    Ok(())
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
fn summary(outcomes: &[Outcome]) -> String {
    let mut text = String::from("\n");
    for outcome in outcomes {
        text.push_str(&format!("{:<8} {:<6} {:>8}\n", outcome.name, verdict(outcome.passed), seconds(outcome.took)));
    }
    let total = outcomes.iter().map(|outcome| outcome.took).sum();
    text.push_str(&format!("{:<8} {:<6} {:>8}\n", "all", "", seconds(total)));
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
        let text = summary(&[outcome("fmt", true), outcome("unit", false), outcome("docs", true)]);
        assert!(text.contains("unit     FAILED    1.5 s\n"), "{text}");
        assert_eq!(text.lines().last(), Some("2 passed, 1 failed"));
    }
}
