//! `manifold load merge`, `manifold load compare` and `manifold load --compare` as they are typed: reports of real runs, and the mistakes
//! that are made most.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs;
use std::process::Output;

use e2e::server::Server;
use e2e::{Scratch, binary, peer};
use serde_json::Value;

/// Two runs against nginx in files `a.json` and `b.json`, and a folder for what is made of them.
struct Reports {
    server: Server,
    folder: Scratch,
}

impl Reports {
    /// `None`: nginx is not installed.
    fn make() -> Option<Reports> {
        if !peer::servers_are_installed() {
            return None;
        }
        let reports = Reports { server: peer::nginx("").unwrap(), folder: Scratch::new().unwrap() };
        for (name, requests) in [("a.json", "400"), ("b.json", "600")] {
            let output = reports.run(&["load", "URL", "-k", "-c2", "-n", requests, "--json"]);
            fs::write(reports.folder.path(name), &output.stdout).unwrap();
        }
        Some(reports)
    }

    fn run(&self, words: &[&str]) -> Output {
        let url = self.server.url("/page.html");
        let mut command = binary::command(words.iter().map(|word| word.replace("URL", &url)));
        command.current_dir(self.folder.path("")).output().unwrap()
    }

    /// A document on standard output. Short runs may be flagged, and so is what is made of them.
    fn json(&self, words: &[&str]) -> Value {
        let output = self.run(words);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{words:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{words:?}: {error}: {output:?}"))
    }
}

#[test]
fn reports_are_merged() {
    let Some(reports) = Reports::make() else { return };
    let merged = reports.json(&["load", "merge", "a.json", "b.json", "--json"]);
    assert_eq!((&merged["completed"], &merged["statuses"]["200"]), (&1000.into(), &1000.into()), "{merged}");
    assert_eq!(merged["bytes"]["body"], 44_000);
    assert_eq!(merged["machines"].as_array().unwrap().len(), 2);
    // What was merged is a report as others are.
    fs::write(reports.folder.path("ab.json"), merged.to_string()).unwrap();
    assert_eq!(reports.json(&["load", "merge", "ab.json", "a.json", "--json"])["completed"], 1400);
    let text = reports.run(&["load", "merge", "a.json", "b.json", "--fail-on", "completed<1001"]);
    assert_eq!(text.status.code(), Some(99), "{text:?}");
}

#[test]
fn reports_are_compared() {
    let Some(reports) = Reports::make() else { return };
    let compared = reports.json(&["load", "compare", "a.json", "b.json", "--json"]);
    let rate = &compared["figures"]["rate"];
    assert!(rate["base"].as_f64().unwrap() > 0.0 && rate["new"].as_f64().unwrap() > 0.0, "{compared}");
    let itself = reports.run(&["load", "compare", "a.json", "b.json", "--fail-on", "completed<601"]);
    assert_eq!(itself.status.code(), Some(99), "{itself:?}");
    let anew = reports.run(&["load", "URL", "-k", "-c2", "-n400", "--compare", "a.json"]);
    let said = String::from_utf8_lossy(&anew.stdout).into_owned();
    assert!(said.contains("ratio   interval") && said.contains("400"), "{said}{anew:?}");
    // As a document the run is the report alone, and the ratios are said beside it.
    let anew = reports.run(&["load", "URL", "-k", "-c2", "-n400", "--json", "--compare", "a.json"]);
    assert_eq!(serde_json::from_slice::<Value>(&anew.stdout).unwrap()["completed"], 400);
    assert!(String::from_utf8_lossy(&anew.stderr).contains("ratio   interval"), "{anew:?}");
}

/// Each says what is wrong, where, and ends before anything is loaded or written.
#[test]
fn the_usual_mistakes_are_told() {
    let Some(reports) = Reports::make() else { return };
    let whole = fs::read(reports.folder.path("a.json")).unwrap();
    fs::write(reports.folder.path("cut.json"), &whole[..whole.len() / 2]).unwrap();
    fs::write(reports.folder.path("text.json"), "Requests  400 in 0.1 s\n").unwrap();
    for (line, status, said) in [
        ("load merge a.json", 2, "two reports or more are needed"),
        ("load merge a.json a.json", 2, "a.json is named twice"),
        ("load merge a.json ./a.json", 2, "are the same file"),
        ("load merge a.json none.json", 1, "cannot read none.json: "),
        ("load merge a.json cut.json", 1, "cut.json ends in the middle of a report"),
        ("load merge a.json text.json", 1, "text.json is no report of manifold load --json"),
        ("load compare a.json", 2, "needed"),
        ("load compare a.json none.json", 1, "cannot read none.json: "),
        ("load compare text.json a.json", 1, "text.json is no report of manifold load --json"),
        ("load URL -n400 --compare none.json", 1, "cannot read none.json: "),
        ("load URL -n400 --compare cut.json", 1, "cut.json ends in the middle of a report"),
        ("load URL -n400 --fail-on p99>1.1x", 2, "give --compare BASE.json"),
    ] {
        let output = reports.run(&line.split(' ').collect::<Vec<_>>());
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{line}: {words}");
        assert!(words.contains(said), "{line}: {words}");
        assert!(output.stdout.is_empty(), "{line}: {output:?}");
    }
}
