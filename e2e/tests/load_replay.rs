//! `manifold load --replay`: a log that our own server wrote is replayed, and the log that comes of it is the same.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use e2e::client::Client;
use e2e::server::{Mpm, Server};
use e2e::{Scratch, binary, until};
use serde_json::Value;

const COMBINED: &str = "LogFormat \"%h %l %u %t \\\"%r\\\" %>s %O \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\"\" combined\n\
    CustomLog access.log combined";
const REQUESTS: usize = 60;

fn start() -> Server {
    Server::start(Mpm::Event, COMBINED).unwrap()
}

fn log_of(dir: &Scratch) -> String {
    fs::read_to_string(dir.path("access.log")).unwrap_or_default()
}

/// The log of a server, once it has so many lines.
fn written(server: &Server, lines: usize) -> String {
    until("the log", || Some(log_of(&server.dir)).filter(|log| log.lines().count() >= lines)).unwrap()
}

/// A log's lines without host, time and size.
fn essence(log: &str) -> Vec<String> {
    let of = |line: &str| {
        let request = line.split("] ").nth(1).unwrap_or_else(|| panic!("{line}"));
        let mut words: Vec<&str> = request.split(' ').collect();
        words.remove(4);
        words.join(" ")
    };
    log.lines().map(of).collect()
}

/// A server that has been asked for many things, and its log.
fn original() -> String {
    let server = start();
    let mut client = Client::connect(server.port).unwrap();
    for n in 0..REQUESTS {
        let agent = format!("Agent/{} (\"{}\")", n % 3, n % 2);
        let path = if n % 5 == 4 { format!("/nothing?{n}") } else { format!("/page.html?{n}") };
        let head = format!("GET {path} HTTP/1.1\r\nHost: h\r\nUser-Agent: {agent}\r\nReferer: http://r/{n}\r\n\r\n");
        client.send(head.as_bytes()).unwrap();
        client.response().unwrap();
    }
    written(&server, REQUESTS)
}

fn replay(log: &std::path::Path, server: &Server, options: &[&str]) -> Output {
    let mut command = binary::command(["load", "--replay"]);
    command.arg(log).args(["--target", &server.url("/"), "-k", "--json"]).args(options);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap()
}

#[test]
fn a_log_of_ours_is_replayed_to_the_letter() {
    let scratch = Scratch::new().unwrap();
    let text = original();
    let plain = scratch.path("plain.log");
    fs::write(&plain, &text).unwrap();
    // What is no request for us, and what is no line: neither is sent.
    let more = scratch.path("more.log");
    let others = "h - - [10/Oct/2000:13:55:36 -0700] \"POST /page.html HTTP/1.1\" 405 1\nnonsense\n";
    fs::write(&more, format!("{others}{text}")).unwrap();
    let packed = scratch.path("packed.log.gz");
    let mut gzip =
        Command::new("gzip").stdin(Stdio::piped()).stdout(fs::File::create(&packed).unwrap()).spawn().unwrap();
    gzip.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(gzip.wait().unwrap().success());

    for (log, options) in [
        (&plain, &["--replay-speed", "max", "-c", "1"][..]),
        (&packed, &["--replay-rate", "500", "-c", "1"]),
        (&more, &["--replay-speed", "50", "-c", "1"]),
        (&more, &["--replay-speed", "max", "-c", "7"]),
    ] {
        let server = start();
        let output = replay(log, &server, &[options, &["--replay-user-agent", "--replay-referer"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
        let told = &report["replay"];
        assert_eq!(
            (&report["completed"], &told["requests"]),
            (&REQUESTS.into(), &REQUESTS.into()),
            "{options:?} {report}"
        );
        assert_eq!(told["statuses"], report["statuses"], "{options:?}");
        assert_eq!((&report["wrong_status"], &report["wrong_length"]), (&0.into(), &0.into()), "{options:?}");
        let skipped = if log == &more { 1 } else { 0 };
        assert_eq!(told["malformed"], skipped, "{options:?}");
        assert_eq!(told["skipped"]["POST"].as_u64().unwrap_or(0), skipped, "{options:?}");
        let (mut before, mut now) = (essence(&text), essence(&written(&server, REQUESTS)));
        if options.contains(&"7") {
            before.sort();
            now.sort();
        }
        assert_eq!(before, now, "{options:?}");
    }
}

#[test]
fn logs_that_cannot_be_replayed_say_why() {
    let server = start();
    let scratch = Scratch::new().unwrap();
    let log = scratch.path("a.log");
    fs::write(&log, "nonsense\n").unwrap();
    for (log, part) in [(log, "no request can be sent"), (scratch.path("missing.log"), "missing.log")] {
        let output = replay(&log, &server, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(part), "{said}");
    }
}
