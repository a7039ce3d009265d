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

/// What comes out depends on the machine; that the search goes through all its parts does not.
#[test]
fn a_small_search_ends_in_time_with_a_block_that_both_servers_take_or_says_to_keep() {
    if !servers_are_installed() {
        return;
    }
    let _alone = alone();
    let dir = Scratch::new().unwrap();
    let present = dir.path("httpd.conf");
    // Two workers that hold their clients' connections: whatever the machine does, more of them serve more.
    let numbers = "ServerLimit 2\nStartServers 2\nMinSpareServers 1\nMaxSpareServers 2\nMaxRequestWorkers 2\n";
    fs::write(&present, format!("LoadModule mpm_prefork_module {MODULES}/mod_mpm_prefork.so\n{numbers}")).unwrap();
    fs::create_dir(dir.path("site")).unwrap();
    fs::write(dir.path("site/index.html"), "<html>a page</html>").unwrap();
    let block = dir.path("block.conf");
    let mut command = binary::command(["lab", "tune", "--minutes", "0.15", "--clients", "40", "--seed", "1"]);
    command.arg("--site").arg(dir.path("site"));
    let output = command.arg("--file").arg(&present).arg("--block").arg(&block).arg("--out").arg(dir.path("report"));
    let output = output.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let data = fs::read(dir.path("report/tune.json")).unwrap_or_else(|error| panic!("{error}: {said}"));
    let found: Value = serde_json::from_slice(&data).unwrap();
    assert!(found["candidates"].as_array().unwrap().len() >= 2, "{said}");
    assert!(fs::read_to_string(dir.path("report/report.html")).unwrap().contains("The race"), "{said}");
    eprintln!("{said}");
    match output.status.code() {
        Some(3) => assert!(said.contains("Keep what you have: "), "{said}"),
        Some(0) => both_take(&dir, &fs::read_to_string(&block).unwrap()),
        other => panic!("{other:?}: {said}"),
    }
}

/// The block between the lines that every server needs.
fn both_take(dir: &Scratch, block: &str) {
    let model = block.split_once("<IfModule mpm_").unwrap().1.split_once('_').unwrap().0;
    let root = dir.path("");
    let root = root.display();
    let text = format!(
        "ServerRoot \"{root}\"\n<IfDefine !MANIFOLD>\nDefaultRuntimeDir \"{root}\"\n</IfDefine>\n\
         LoadModule mpm_{model}_module {MODULES}/mod_mpm_{model}.so\nServerName localhost\nListen 127.0.0.1:18080\n\
         ErrorLog error.log\nDocumentRoot {root}\n{block}"
    );
    let file = dir.path("checked.conf").display().to_string();
    fs::write(&file, text).unwrap();
    assert_eq!(apaches_messages(&file), BTreeSet::new(), "{block}");
    for (program, arguments) in [(APACHE.into(), vec![]), (binary::manifold().to_owned(), vec!["httpd"])] {
        let output = Command::new(program).args(arguments).args(["-t", "-f", &file]).output().unwrap();
        assert!(output.status.success(), "{block}\n{}", String::from_utf8_lossy(&output.stderr));
    }
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
