//! What the original never had: long options, and ends of runs that it does not survive.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use e2e::{Scratch, binary, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::target::Target;

/// Our own with these arguments; `URL` is the target's.
fn ours(target: &Target, line: &str) -> Command {
    let url = format!("http://{}", target.address);
    let mut command = binary::command(["ab"]);
    command.args(line.split_whitespace().map(|word| word.replace("URL", &url)));
    command
}

fn run(target: &Target, line: &str) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = ours(target, line).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn json(target: &Target, line: &str) -> (Option<i32>, Value) {
    let (status, stdout, stderr) = run(target, line);
    let value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{line}: {error}: {stdout}{stderr}"));
    (status, value)
}

#[test]
fn json_is_the_report_of_manifold_load_and_nothing_else() {
    let target = Target::start("127.0.0.1").unwrap();
    let (status, report) = json(&target, "-n 200 -c 4 -k --json URL/");
    assert_eq!(status, Some(0));
    assert_eq!((&report["completed"], &report["statuses"]["200"]), (&Value::from(200), &Value::from(200)));
    assert_eq!(report["bytes"]["body"], 1000);
    assert_eq!(report["config"]["connections"], 4);
    assert_eq!(report["errors"]["receive"], 0);
    // A run that is given up says what was done as well.
    target.rewind();
    let (status, report) = json(&target, "-n 5 --json URL/reset-third");
    assert_eq!(
        (status, &report["completed"], &report["errors"]["receive"]),
        (Some(104), &Value::from(2), &Value::from(1))
    );
}

#[test]
fn thresholds_end_with_99() {
    let target = Target::start("127.0.0.1").unwrap();
    for (line, expected) in [
        ("-n 5 --fail-on non2xx>0 URL/", Some(0)),
        ("-n 5 --fail-on non2xx>0 URL/404", Some(99)),
        ("-n 3 --fail-on p50>50ms URL/slow", Some(99)),
        ("-n 3 --fail-on p50>20s,errors>0 URL/slow", Some(0)),
        ("-n 3 --fail-on errors>50% URL/short", Some(99)),
        ("-n 3 --fail-on nonsense URL/", Some(22)),
    ] {
        let (status, _, stderr) = run(&target, line);
        assert_eq!(status, expected, "{line}: {stderr}");
        assert_eq!(stderr.contains("failed on"), expected == Some(99), "{line}: {stderr}");
    }
}

#[test]
fn a_schedule_counts_from_when_requests_were_due() {
    let target = Target::start("127.0.0.1").unwrap();
    // One connection that needs 150 ms for an answer, and requests each 20 ms: each waits longer than the one before.
    let (_, report) = json(&target, "-n 6 -k --rate 50 --json URL/slow");
    let [response, service] = ["latency_us", "service_us"].map(|which| report[which]["max"].as_f64().unwrap());
    assert!(response > 600_000.0 && service < response - 300_000.0, "{report}");
    let (status, stdout, _) = run(&target, "-n 6 -c 3 -t 20 -n 6 --rate 100 URL/");
    assert!(status == Some(0) && stdout.contains("Complete requests:      6"), "{stdout}");
}

#[test]
fn what_comes_before_the_window_counts_nowhere() {
    let target = Target::start("127.0.0.1").unwrap();
    let (_, report) = json(&target, "-n 20 -k --warmup 200ms --json URL/");
    assert_eq!(report["completed"], 20);
    assert!(report["completed_with_warmup"].as_u64().unwrap() > 20, "{report}");
}

#[test]
fn runs_are_repeated_and_percentiles_are_shown() {
    let target = Target::start("127.0.0.1").unwrap();
    let (status, stdout, _) = run(&target, "-n 20 --repeat 3 --percentiles 50,99.9 URL/");
    assert_eq!(status, Some(0));
    assert_eq!(stdout.matches("Complete requests:      20\n").count(), 3);
    assert_eq!(stdout.matches("    99.9%").count(), 3);
    assert!(stdout.contains("\nRuns:                   3\n"), "{stdout}");
}

#[test]
fn newer_http_keeps_connections_with_chunks() {
    let target = Target::start("127.0.0.1").unwrap();
    let (_, stdout, _) = run(&target, "-n 3 -k --http1.1 URL/chunked-kept");
    assert!(
        stdout.contains("Keep-Alive requests:    3\n") && stdout.contains("Document Length:        11 bytes\n"),
        "{stdout}"
    );
    let (_, stdout, _) = run(&target, "-n 1 --http1.1 -v 2 URL/echo");
    assert!(stdout.contains("GET /echo HTTP/1.1\r\nConnection: close\r\n"), "{stdout}");
    assert_eq!(run(&target, "--http2 --http1.1 URL/").0, Some(22));
}

#[test]
fn a_log_for_histograms_is_written() {
    let target = Target::start("127.0.0.1").unwrap();
    let folder = Scratch::new().unwrap();
    let path = folder.path("log.hdr").display().to_string();
    assert_eq!(run(&target, &format!("-n 20 --hdr {path} URL/")).0, Some(0));
    assert!(fs::read_to_string(path).unwrap().contains("HIST"));
}

/// Every request is in the file, in order, although it went through several sorted runs on disk; and nothing else is left there.
#[test]
fn all_requests_reach_the_gnuplot_file() {
    let target = manifold_target();
    let folder = Scratch::new().unwrap();
    let path = folder.path("out.tsv");
    let line = format!("-q -k -n 300000 -c 20 -g {} http://{}/", path.display(), target.address);
    let output = binary::command(["ab"]).args(line.split_whitespace()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = fs::read_to_string(&path).unwrap();
    let totals: Vec<u64> = text.lines().skip(1).map(|line| line.split('\t').nth(4).unwrap().parse().unwrap()).collect();
    assert_eq!(totals.len(), 300_000);
    assert!(totals.is_sorted());
    assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 1);
}

/// Many connections to servers that refuse, reset, say nothing or stop in the middle: the run ends, with what was done.
#[test]
fn many_connections_to_bad_servers_end() {
    let target = Target::start("127.0.0.1").unwrap();
    for (line, status, done) in [
        ("-r -n 300 -c 50 URL/reset", 0, Some("300")),
        ("-r -n 300 -c 50 URL/reset-midway", 0, Some("300")),
        ("-n 100 -c 20 URL/close", 0, Some("100")),
        ("-n 100 -c 20 -s 1 URL/never", 119, None),
        ("-n 100 -c 20 -k -s 1 URL/half", 119, None),
        ("-n 100 -c 20 -r -s 1 --rate 200 URL/never", 0, Some("100")),
        ("-n 100 -c 20 -t 1 -s 20 URL/never", 0, Some("0")),
        ("-r -n 300 -c 50 http://127.0.0.1:1/", 0, Some("300")),
        ("-n 300 -c 50 http://127.0.0.1:1/", 111, None),
    ] {
        target.rewind();
        let (ended, stdout, stderr) = run(&target, line);
        assert_eq!(ended, Some(status), "{line}: {stdout}{stderr}");
        let shown = stdout.lines().find_map(|line| line.strip_prefix("Complete requests:"));
        assert_eq!(shown.map(str::trim), done, "{line}: {stdout}{stderr}");
    }
}

/// More connections than a process may usually open.
#[test]
fn ten_thousand_connections() {
    let target = manifold_target();
    let line = format!("-q -k -n 30000 -c 10000 http://{}/", target.address);
    let output = binary::command(["ab"]).args(line.split_whitespace()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Complete requests:      30000\nFailed requests:        0\n"), "{text}{output:?}");
}

/// An interrupt at any moment ends a run, which then shows what it has.
#[test]
fn an_interrupt_at_any_moment_ends_the_run() {
    let target = manifold_target();
    let folder = Scratch::new().unwrap();
    for (round, milliseconds) in [0, 1, 5, 20, 80, 300].into_iter().enumerate() {
        let path = folder.path(&format!("{round}.tsv"));
        let line = format!("-k -n 100000000 -c 50 -g {} http://{}/", path.display(), target.address);
        let mut command = binary::command(["ab"]);
        let child = command.args(line.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        until("the run to be under way", || is_under_way(pid).then_some(())).unwrap();
        std::thread::sleep(Duration::from_millis(milliseconds));
        kill(pid, Signal::SIGINT).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{milliseconds} ms: {text}");
        let done = text.lines().find_map(|line| line.strip_prefix("Complete requests:")).unwrap().trim().to_owned();
        let lines = fs::read_to_string(&path).map_or(0, |text| text.lines().count() - 1);
        assert_eq!(done, lines.to_string(), "{milliseconds} ms");
    }
}

/// It takes signals from a descriptor by now.
fn is_under_way(pid: Pid) -> bool {
    let folder = format!("/proc/{pid}/fd");
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let names = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    names.into_iter().any(|name| name == Path::new("anon_inode:[signalfd]"))
}

/// A target that is fast enough for many requests.
struct Fast {
    child: std::process::Child,
    address: String,
}

impl Drop for Fast {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

fn manifold_target() -> Fast {
    use std::io::{BufRead, BufReader};
    let mut command = binary::command(["load", "--target-server", "--listen", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    Fast { child, address }
}
