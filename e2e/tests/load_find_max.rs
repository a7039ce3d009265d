//! `manifold load --find-max` against a target whose capacity is known: its answer, its words and its exit status.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Output, Stdio};

use e2e::{alone, binary};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A running target; killed at the end.
struct Target {
    child: Child,
    url: String,
}

impl Target {
    fn start(options: &[&str]) -> Target {
        let mut child =
            binary::command(["load", "--target-server"]).args(options).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.split(' ').find(|word| word.starts_with("http://")).expect(&line).to_owned();
        Target { child, url }
    }

    fn search(&self, line: &str) -> Output {
        binary::command(["load", &self.url, "-k"]).args(line.split(' ')).output().unwrap()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_capacity_is_found_and_never_exceeded() {
    let _alone = alone();
    let target = Target::start(&["--capacity", "500"]);
    let output = target.search("--find-max p95<100ms -t 2 --warmup 0.5 --drain 1 --precision 20% --json");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let holds = found["holds"].as_f64().expect("some rate holds");
    // In 2.5 s a queue of 100 ms grows from 4 % above the capacity on.
    assert!(holds < 521.0, "{found}");
    let sound = found["outcome"] == "found" && found["notes"] == Value::Array(Vec::new());
    assert_eq!(output.status.code(), Some(if sound { 0 } else { 3 }), "{found}");
    if found["outcome"] == "found" {
        assert!(found["fails"].as_f64().unwrap() > holds, "{found}");
    }
    // The rate found can be held against a number.
    let low = "--find-max p95<100ms -t 0.5 --drain 0.5 --precision 100% --budget 20 --fail-on rate<100000";
    assert_eq!(target.search(low).status.code(), Some(99));
}

#[test]
fn conditions_that_hold_nowhere_are_a_failure() {
    let target = Target::start(&["--delay", "400ms"]);
    let output = target.search("--find-max p50<300ms -t 0.2 --warmup 0 --drain 0.5 --precision 100%");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(99), "{said}");
    assert!(said.contains("Maximum     none"), "{said}");
}

#[test]
fn a_search_that_is_interrupted_says_what_it_knows() {
    let target = Target::start(&["--delay", "1ms"]);
    let mut command = binary::command(["load", &target.url, "-k", "--find-max", "p50<2s", "-t", "1"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    // Title, conditions, a blank, the table's head, the first row.
    (0..5).for_each(|_| assert!(out.read_line(&mut text).unwrap() > 0, "{text}"));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    out.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3), "{text}");
    assert!(text.contains("Maximum     ") && text.contains("ended early"), "{text}");
}
