//! `manifold lab slow-test` and `idle-test` on a real server: slow clients of every kind hold nothing up in event and percore.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs;

use e2e::{Scratch, alone, binary};
use serde_json::Value;

/// Whether normal requests were answered, not how fast: that is for the lab on a quiet machine.
#[test]
fn normal_requests_are_answered_under_slow_clients_of_every_kind() {
    let _alone = alone();
    let scratch = Scratch::new().unwrap();
    let json = scratch.path("rows.json");
    let output = binary::command(["lab", "slow-test", "--quick", "--json"]).arg(&json).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(&json).unwrap_or_else(|e| panic!("no JSON: {e}\n{said}"));
    let report: Value = serde_json::from_str(&text).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 14, "two models, seven kinds\n{said}");
    for row in rows {
        assert_eq!((&row["clients"], &row["held"]["connected"]), (&200.into(), &200.into()), "{said}");
        assert!(row["asked"].as_u64().unwrap() > 0 && row["asked"] == row["answered"], "{said}");
    }
}

#[test]
fn a_number_beyond_the_descriptors_is_an_error() {
    // The shell's limit is for this program alone.
    let script = format!("ulimit -n 400; exec {} lab slow-test --clients 450", binary::manifold().display());
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("450 clients need 650 file descriptors") && said.contains("ulimit -Hn"), "{said}");
}

/// How much and how fast is for the lab; here, that connections stand, and that both figures come out.
#[test]
fn idle_connections_are_measured() {
    let _alone = alone();
    let scratch = Scratch::new().unwrap();
    let json = scratch.path("figures.json");
    let mut command =
        binary::command(["lab", "idle-test", "--connections", "500", "--rounds", "2", "--requests", "100"]);
    let output = command.arg("--json").arg(&json).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(&json).unwrap_or_else(|e| panic!("no JSON: {e}\n{said}"));
    let report: Value = serde_json::from_str(&text).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "percore and event\n{said}");
    for row in rows {
        assert_eq!((&row["held"]["open"], &row["failed"]), (&500.into(), &0.into()), "{said}");
        assert!(row["bytes_each"].is_number() && row["p99_ratio"].is_number(), "{said}");
    }
}
