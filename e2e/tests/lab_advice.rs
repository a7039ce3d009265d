//! The laboratory's advice: what `lab doctor` says of a configuration is what the real Apache makes of it.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

use e2e::peer::servers_are_installed;
use e2e::{Scratch, alone, binary};
use serde_json::Value;

const APACHE: &str = "/usr/sbin/apache2";
const MODULES: &str = "/usr/lib/apache2/modules";

fn doctor(arguments: &[&str]) -> Output {
    binary::command(["lab", "doctor"]).args(arguments).output().unwrap()
}

fn diagnosis(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Numbers of the messages that the real one prints when it checks a file.
fn apaches_messages(file: &str) -> BTreeSet<u64> {
    let output = Command::new(APACHE).args(["-t", "-f", file]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.split("AH").skip(1).filter_map(|rest| rest.get(..5)?.parse().ok()).collect()
}

#[test]
fn the_doctor_tells_every_correction_that_apache_makes() {
    if !servers_are_installed() {
        return;
    }
    for (mpm, lines) in [
        ("event", ""),
        ("event", "ThreadsPerChild 100"),
        ("event", "MaxRequestWorkers 390\nServerLimit 4"),
        ("worker", "ThreadLimit 0\nMinSpareThreads 0\nStartServers 0"),
        ("worker", "MaxRequestWorkers 5\nMaxClients 20000"),
        ("prefork", "ServerLimit 300000\nMaxRequestWorkers 0"),
        ("prefork", "MaxRequestWorkers 300\nMinSpareServers 0"),
    ] {
        let dir = Scratch::new().unwrap();
        let root = dir.path("");
        let root = root.display();
        fs::create_dir(dir.path("htdocs")).unwrap();
        let text = format!(
            "ServerRoot \"{root}\"\nDefaultRuntimeDir \"{root}\"\nLoadModule mpm_{mpm}_module {MODULES}/mod_mpm_{mpm}.so\n\
             ServerName localhost\nListen 127.0.0.1:18080\nErrorLog error.log\nDocumentRoot htdocs\n{lines}\n"
        );
        let file = dir.path("httpd.conf").display().to_string();
        fs::write(&file, text).unwrap();
        let output = doctor(&["--no-measure", "--json", &file]);
        let diagnosis = diagnosis(&output);
        let corrections = diagnosis["corrections"].as_array().unwrap();
        // That a name is old stands in Apache's log at level info, which a check does not show.
        let changes = corrections.iter().filter(|correction| correction["changes"] == true);
        let ours: BTreeSet<u64> = changes.filter_map(|correction| correction["code"].as_u64()).collect();
        assert_eq!(ours, apaches_messages(&file), "{mpm}: {lines}\n{diagnosis:#}");
        let changed = corrections.iter().any(|correction| correction["changes"] == true);
        assert_eq!(output.status.code(), Some(i32::from(changed)), "{mpm}: {lines}\n{diagnosis:#}");
    }
}

#[test]
fn debians_own_configuration_is_explained_with_measured_memory() {
    if !servers_are_installed() {
        return;
    }
    let _alone = alone();
    let output = doctor(&["--json"]);
    let diagnosis = diagnosis(&output);
    assert_eq!(diagnosis["mpm"]["from"], "/etc/apache2/mods-enabled/mpm_event.load:2", "{diagnosis:#}");
    let value = |name: &str| {
        let values = diagnosis["values"].as_array().unwrap();
        values.iter().find(|value| value["name"] == name).unwrap().clone()
    };
    assert_eq!(value("MaxRequestWorkers")["value"], "150", "{diagnosis:#}");
    assert!(value("ThreadsPerChild")["from"].as_str().unwrap().contains("mods-enabled/mpm_event.conf:"));
    assert_eq!(diagnosis["not_measured"], Value::Null, "{diagnosis:#}");
    let memory = |name: &str| diagnosis["memory"][name].as_f64().unwrap();
    assert!(memory("child_kib") > memory("thread_kib") && memory("thread_kib") > 0.0, "{diagnosis:#}");
    assert!(memory("modules") > 10.0, "{diagnosis:#}");
    let ends = diagnosis["ends"].as_array().unwrap();
    assert!(ends.iter().any(|end| end["what"] == "memory"), "{diagnosis:#}");
}

#[test]
fn what_apache_refuses_the_doctor_refuses_with_file_and_line() {
    let dir = Scratch::new().unwrap();
    let file = dir.path("httpd.conf").display().to_string();
    fs::write(&file, "Listen 80\nLoadModule mpm_event_module x\nMaxRequestWorkers lots\n").unwrap();
    let output = doctor(&[&file]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
    assert!(said.contains("httpd.conf:3") && said.contains("whole number"), "{said}");
}
