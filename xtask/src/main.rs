//! The workshop: everything a contributor or CI runs that is not the product itself. One table of tasks, each in its
//! own file; `cargo xtask help` prints it.

#![forbid(unsafe_code)]

mod bench;
mod docs;
mod fuzz;
mod run;
mod setup;
mod test;
mod tidy;
mod without_ring;

use std::process::ExitCode;

use anyhow::{Result, bail};

/// A thing to do, by the name given on the command line.
struct Task {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const TASKS: &[Task] = &[
    Task { name: "setup", about: "install what the tests and the lab's peers need", run: setup::main },
    Task { name: "test", about: "THE test command: every check of this repository, in order", run: test::main },
    Task { name: "tidy", about: "the house rules that neither rustc nor clippy checks", run: tidy::main },
    Task { name: "bench", about: "instructions and system calls against the kept baseline", run: bench::main },
    Task { name: "fuzz", about: "each fuzz target for a minute", run: fuzz::main },
    Task { name: "docs", about: "write the generated pages of docs/", run: docs::main },
    Task { name: without_ring::NAME, about: "run a program for which io_uring is refused", run: without_ring::main },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    let Some((name, rest)) = arguments.split_first() else {
        bail!("say which task:\n{}", help());
    };
    if matches!(name.as_str(), "help" | "-h" | "--help") {
        print!("{}", help());
        return Ok(());
    }
    match TASKS.iter().find(|task| task.name == name) {
        Some(task) => (task.run)(rest),
        None => bail!("there is no task `{name}`:\n{}", help()),
    }
}

fn help() -> String {
    let mut text = String::from("usage: cargo xtask TASK [ARGUMENTS]\n\n");
    for task in TASKS {
        text.push_str(&format!("  {:<8} {}\n", task.name, task.about));
    }
    text.push_str("\n`cargo xtask TASK --help` tells the arguments of a task.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_task_is_refused_with_the_list() {
        let error = dispatch(&["tset".to_string()]).unwrap_err().to_string();
        assert!(error.contains("no task `tset`") && error.contains("  test "), "{error}");
    }

    #[test]
    fn task_names_are_distinct() {
        let mut names: Vec<_> = TASKS.iter().map(|task| task.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TASKS.len());
    }
}
