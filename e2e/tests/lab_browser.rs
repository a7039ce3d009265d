//! The laboratory's pages in Chromium, driven by Playwright: the report and `lab view`; and its plots as gnuplot draws them. What is
//! looked at is prepared, nothing is measured.

use std::path::PathBuf;
use std::process::Command;

use e2e::tool::stdout;
use e2e::{Scratch, binary};

/// Where `cargo xtask setup` puts Playwright.
fn python() -> PathBuf {
    // A test program is target/debug/deps/name-hash.
    let test = std::env::current_exe().expect("it has a path");
    let target = test.ancestors().nth(3).expect("a test program lies in target/debug/deps").to_owned();
    target.join("playwright/bin/python")
}

#[test]
fn reports_and_the_view_work_in_a_browser() {
    let python = python();
    assert!(
        python.is_file(),
        "Playwright is not installed: there is no {}; `cargo xtask setup` installs it",
        python.display()
    );
    let scratch = Scratch::new().expect("a folder");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/browser/lab.py");
    stdout(Command::new(python).arg("-B").arg(script).arg(binary::manifold()).arg(scratch.path("")))
        .expect("all is as it should be");
    let plots = scratch.path("report/plots");
    stdout(Command::new("gnuplot").arg("plots.gnuplot").current_dir(&plots)).expect("gnuplot draws them");
    let of = |kind: &str| -> Vec<PathBuf> {
        let files = plots.read_dir().expect("it is there").map(|entry| entry.expect("readable").path());
        let mut files: Vec<PathBuf> = files
            .filter(|file| file.extension().is_some_and(|e| e == kind))
            .map(|file| file.with_extension(""))
            .collect();
        files.sort();
        files
    };
    assert_eq!((of("svg").len(), of("svg")), (12, of("png")), "a picture of each");
}
