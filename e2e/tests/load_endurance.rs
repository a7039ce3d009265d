//! The generators where it gets rough: many connections, targets that fail in every way, a full disk, and interrupts at any moment. A run
//! always ends, and always says what was done.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use e2e::server::free_port;
use e2e::{Scratch, alone, binary, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A target that answers at once, or fails as it is told.
struct Target {
    child: Child,
    url: String,
}

impl Target {
    fn start(arguments: &[&str]) -> Target {
        let mut command = binary::command(["load", "--target-server"]);
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.split(' ').find(|word| word.starts_with("http://")).expect(&line).to_owned();
        Target { child, url }
    }

    fn signal(&self, signal: Signal) {
        send(&self.child, signal);
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The number behind a label at the start of a line.
fn number(text: &str, label: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.trim().strip_prefix(label))?;
    rest.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}

/// `manifold load` with these words; its report.
fn load(url: &str, line: &str) -> Value {
    let output = binary::command(["load", url, "--json"]).args(line.split_whitespace()).output().unwrap();
    report(&output)
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn failures(report: &Value) -> u64 {
    report["failures"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
}

#[test]
fn ten_thousand_connections_and_a_million_requests() {
    let _alone = alone();
    let target = Target::start(&[]);
    let report = load(&target.url, "-k -c 10000 -n 1000000");
    assert_eq!((&report["completed"], failures(&report)), (&Value::from(1_000_000), 0), "{}", report["failures"]);
    let line = format!("-q -k -c 10000 -n 1000000 {}", target.url);
    let output = binary::command(["ab"]).args(line.split_whitespace()).output().unwrap();
    let said = text(&output.stdout);
    let counts = ["Complete requests:", "Failed requests:", "Keep-Alive requests:"].map(|label| number(&said, label));
    assert_eq!(counts, [Some(1_000_000), Some(0), Some(1_000_000)], "{said}{}", text(&output.stderr));
}

/// Each request is answered or has failed in the way the target meant it to.
#[test]
fn every_request_to_a_bad_target_is_accounted_for() {
    let _alone = alone();
    for (fault, keep, kinds) in [
        ("reset:100%", "", &["reset"][..]),
        ("reset:100%", "-k", &["reset"]),
        ("close:100%", "-k", &["no-answer"]),
        ("short:100%", "", &["short-answer"]),
        ("short:50%", "-k", &["short-answer"]),
        ("silent:100%", "-k", &["timeout"]),
    ] {
        let target = Target::start(&["--fail", fault]);
        for poller in ["ring", "epoll"] {
            let report = load(&target.url, &format!("{keep} -c 500 -n 2000 --timeout 0.3 --poller {poller}"));
            let what = format!("{fault} {keep} {poller}: {}", report["failures"]);
            assert_eq!(report["completed"].as_u64().unwrap() + failures(&report), 2000, "{what}");
            assert!(failures(&report) > 500, "{what}");
            let told = report["failures"].as_object().unwrap();
            assert!(told.keys().all(|kind| kinds.contains(&kind.as_str())), "{what}");
        }
    }
}

/// Where nobody listens, that is said and no run is made; ab makes it, as the original does.
#[test]
fn a_refusing_target_is_named() {
    let _alone = alone();
    let nobody = format!("http://127.0.0.1:{}/", free_port().unwrap());
    for (line, status, said) in [
        ("load -c 500 -n 2000", 1, "Connection refused"),
        ("load -c 500 -t 600 --rate 1000", 1, "Connection refused"),
        ("ab -c 500 -n 2000", 111, "Connection refused"),
    ] {
        let output = binary::command(line.split(' ')).arg(&nobody).output().unwrap();
        let complained = text(&output.stderr);
        assert!(output.status.code() == Some(status) && complained.contains(said), "{line}: {output:?}");
    }
    let output = binary::command(["ab", "-r", "-q", "-c", "500", "-n", "2000", &nobody]).output().unwrap();
    let said = text(&output.stdout);
    assert_eq!(
        (number(&said, "Complete requests:"), number(&said, "Failed requests:")),
        (Some(2000), Some(2000)),
        "{said}"
    );
}

/// The target stops answering, or is gone, while requests are under way.
#[test]
fn a_target_that_dies_in_the_middle_ends_no_run() {
    let _alone = alone();
    for (signal, line) in
        [(Signal::SIGKILL, "-k"), (Signal::SIGKILL, ""), (Signal::SIGSTOP, "-k"), (Signal::SIGSTOP, "-k --rate 2000")]
    {
        let target = Target::start(&[]);
        let mut command = binary::command(["load", &target.url, "--json", "-c", "300", "-t", "2", "--timeout", "0.4"]);
        let child = command.args(line.split_whitespace()).stdout(Stdio::piped()).spawn().unwrap();
        until("the run to be under way", || is_under_way(&child).then_some(())).unwrap();
        std::thread::sleep(Duration::from_millis(700));
        target.signal(signal);
        let report = report(&child.wait_with_output().unwrap());
        let what = format!("{signal} {line}: {}", report["failures"]);
        assert!(report["completed"].as_u64().unwrap() > 0, "{what}");
        assert!(failures(&report) > 0, "{what}");
    }
}

/// What cannot be written is said, behind the report, which does not go with it.
#[test]
fn a_full_disk_takes_no_report_along() {
    let _alone = alone();
    let target = Target::start(&[]);
    let done = "Complete requests:";
    for (line, label) in [
        ("ab -n 200000 -q -k -c 50 -g /dev/full", Some(done)),
        ("ab -n 1000 -q -k -e /dev/full", Some(done)),
        ("ab -n 1000 -q -k --hdr /dev/full", Some(done)),
        ("load -n 1000 -k --csv /dev/full", None),
        ("load -n 1000 -k --hdr /dev/full", None),
    ] {
        let output = binary::command(line.split(' ')).arg(&target.url).output().unwrap();
        let (said, complained) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{line}: {said}{complained}");
        assert!(complained.contains("No space left on device"), "{line}: {complained}");
        assert!(label.map_or(!said.is_empty(), |label| number(&said, label).is_some()), "{line}: {said}");
    }
    // Here it is the report itself that has no place.
    for line in ["ab -n 1000 -q -k -w", "ab -n 1000 -q", "load -n 1000"] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = binary::command(line.split(' ')).arg(&target.url).stdout(full).output().unwrap();
        let complained = text(&output.stderr);
        assert!(
            output.status.code() == Some(1) && complained.contains("No space left on device"),
            "{line}: {output:?}"
        );
    }
}

/// What is interrupted, and what it must say then.
struct Interrupted {
    line: &'static str,
    status: i32,
    /// How many requests were done, by its report.
    done: fn(&Output) -> Option<u64>,
}

const INTERRUPTED: [Interrupted; 5] = [
    Interrupted {
        line: "ab -k -n 100000000 -c 50",
        status: 1,
        done: |output| number(&text(&output.stdout), "Complete requests:"),
    },
    Interrupted {
        line: "ab -n 100000000 -c 50",
        status: 1,
        done: |output| number(&text(&output.stdout), "Complete requests:"),
    },
    Interrupted {
        line: "siege -b -c 50 -t 1H",
        status: 0,
        done: |output| number(&text(&output.stderr), "Transactions:"),
    },
    Interrupted { line: "load -k --json -c 50 -t 600", status: 3, done: |output| report(output)["completed"].as_u64() },
    Interrupted {
        line: "load -k --json -c 50 -t 600 --rate 5000",
        status: 3,
        done: |output| report(output)["completed"].as_u64(),
    },
];
/// How often each of them is.
const ROUNDS: usize = 6;
/// The latest moment, milliseconds after the program takes signals itself.
const LATEST_MS: u64 = 400;

#[test]
fn an_interrupt_at_any_moment_ends_a_run_with_its_report() {
    let _alone = alone();
    let target = Target::start(&[]);
    let scratch = Scratch::new().unwrap();
    fs::write(scratch.path("rc"), "verbose = false\nparser = false\nlogging = false\n").unwrap();
    let mut state = 7u64;
    for _ in 0..ROUNDS {
        for Interrupted { line, status, done } in INTERRUPTED {
            // Knuth's MMIX constants, so that a failure can be repeated.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let moment = Duration::from_millis((state >> 33) % LATEST_MS);
            let mut command = binary::command(line.split(' '));
            command.arg(&target.url).env("HOME", scratch.path("")).env("SIEGERC", scratch.path("rc"));
            let output = interrupted(command, moment, &scratch);
            assert_eq!(output.status.code(), Some(status), "{line} after {moment:?}: {output:?}");
            let done = done(&output);
            // In the first moments nothing may have been answered yet.
            let enough = if moment > Duration::from_millis(200) { 1 } else { 0 };
            assert!(done.is_some_and(|done| done >= enough), "{line} after {moment:?}: {done:?} {output:?}");
        }
    }
}

/// Its output goes to files, so that a run that does not end is not waited for without end.
fn interrupted(mut command: Command, moment: Duration, scratch: &Scratch) -> Output {
    let [said, complained] = ["said", "complained"].map(|name| scratch.path(name));
    let create = |path| fs::File::create(path).unwrap();
    let mut child = command.stdout(create(&said)).stderr(create(&complained)).spawn().unwrap();
    until("the run to be under way", || is_under_way(&child).then_some(())).unwrap();
    std::thread::sleep(moment);
    send(&child, Signal::SIGINT);
    let status = until("the end of the run", || child.try_wait().unwrap()).unwrap();
    Output { status, stdout: fs::read(said).unwrap(), stderr: fs::read(complained).unwrap() }
}

/// It takes signals from a descriptor by now.
fn is_under_way(child: &Child) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{}/fd", child.id())) else { return false };
    let mut names = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    names.any(|name| name == Path::new("anon_inode:[signalfd]"))
}
