//! The main job: `manifold lab run` ends with a report that opens in a browser and says what to choose.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e::{Scratch, alone, binary};
use serde_json::Value;

/// A finished run and the folder it wrote.
struct Run {
    _scratch: Scratch,
    folder: PathBuf,
    results: Value,
}

fn run(arguments: &[&str]) -> Run {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path("report");
    let mut command = binary::command(["lab", "run", "--quick", "--out"]);
    let output = command.arg(&folder).args(arguments).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}:\n{said}", output.status);
    assert!(said.contains("report.html"), "it says where the report is:\n{said}");
    let results = serde_json::from_str(&fs::read_to_string(folder.join("results.json")).unwrap()).unwrap();
    Run { _scratch: scratch, folder, results }
}

impl Run {
    fn targets(&self) -> Vec<&str> {
        self.results["targets"].as_array().unwrap().iter().map(|target| target["name"].as_str().unwrap()).collect()
    }

    fn cells(&self) -> &[Value] {
        self.results["cells"].as_array().unwrap()
    }

    /// Checks that all cells are there and that those of our own models were measured in earnest. What a peer does under
    /// load is its own affair: apache2's event drops kept connections when it is busy.
    fn check_cells(&self, expected: usize) {
        let cells = self.cells();
        assert_eq!(cells.len(), expected);
        let ours =
            |cell: &&Value| self.results["targets"][cell["target"].as_u64().unwrap() as usize]["family"] == "manifold";
        for cell in cells.iter().filter(ours) {
            assert!(cell["completed"].as_u64().unwrap() > 0 && cell["errors"] == 0, "{cell:#}");
        }
    }

    fn check_csv(&self) {
        let csv = fs::read_to_string(self.folder.join("cells.csv")).unwrap();
        let columns = |line: &str| line.split(',').count();
        let head = csv.lines().next().unwrap();
        assert_eq!(csv.lines().count(), self.cells().len() + 1);
        assert!(csv.lines().all(|line| columns(line) == columns(head)), "a table has the same columns in every row");
    }
}

#[test]
fn a_quick_run_measures_all_models_and_the_installed_peers() {
    let _alone = alone();
    // Fewer cells than it has by itself: what it measures is what this is about.
    let run = run(&["--concurrency", "10,1000", "--rounds", "2"]);
    let expected =
        ["prefork", "worker", "event", "percore", "apache2-prefork", "apache2-worker", "apache2-event", "nginx"];
    assert_eq!(run.targets(), expected, "missing: {}", run.results["missing"]);
    // Two rounds of 10 and 1000 connections, with and without keep-alive.
    run.check_cells(expected.len() * 2 * 2 * 2);
    run.check_csv();
    let figures = run.results["figures"].as_array().unwrap();
    assert!(!figures.is_empty());
    check_report(&run.folder.join("report.html"));
}

#[test]
fn a_folder_of_ones_own_is_measured() {
    let _alone = alone();
    let site = Scratch::new().unwrap();
    fs::write(site.path("data.bin"), vec![7; 20_000]).unwrap();
    let folder = site.path("");
    let options =
        ["--path", "/data.bin", "--targets", "event,percore", "--concurrency", "10", "--rounds", "2", "--seed", "7"];
    let run = run(&[&["--site", folder.to_str().unwrap()], &options[..]].concat());
    assert_eq!(run.targets(), ["event", "percore"]);
    assert_eq!(run.results["page"]["bytes"], 20_000);
    assert_eq!(run.results["experiment"]["seed"], 7);
    run.check_cells(2 * 2 * 2);
    run.check_csv();
}

/// Few targets, one round: that every load is measured and every claim about them judged, not how.
#[test]
fn peers_are_measured_and_claims_are_judged() {
    let _alone = alone();
    let scratch = Scratch::new().unwrap();
    let (folder, page) = (scratch.path("report"), scratch.path("page.md"));
    fs::write(&page, "# Figures\n\n<!-- begin peers -->\n<!-- end peers -->\n\nThe end.\n").unwrap();
    let targets = ["prefork", "percore", "nginx", "responder", "responder-sendfile"];
    let mut command = binary::command(["lab", "run", "peers", "--quick", "--rounds", "1", "--targets"]);
    let command = command.arg(targets.join(",")).arg("--out").arg(&folder).arg("--markdown").arg(&page);
    let output = command.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}:\n{said}", output.status);
    let read = |name: &str| -> Value { serde_json::from_str(&fs::read_to_string(folder.join(name)).unwrap()).unwrap() };
    let (peers, claims) = (read("peers.json"), read("claims.json"));
    let names: Vec<&str> = peers["targets"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names, targets, "{said}");
    let cells = peers["cells"].as_array().unwrap();
    // Ten loads of each server, four and six of the responders, and four each of percore and nginx on both processors.
    assert_eq!(cells.len(), 3 * 10 + 4 + 6 + 2 * 4, "this needs two processors\n{said}");
    // How far cells with many connections come is a matter of the machine.
    for cell in cells.iter().filter(|cell| cell["concurrency"].as_u64().unwrap() <= 100) {
        assert!(cell["completed"].as_u64().unwrap() > 0 && cell["cpu_s"].as_f64().unwrap() > 0.0, "{cell:#}");
    }
    let idle = peers["idle"].as_array().unwrap();
    let kib = |row: &Value, when: &str| row[when].as_u64().unwrap();
    // A responder has made room for all its connections before the first comes, so that its share of pages may even shrink.
    let responds = |row: &Value| row["target"].as_u64().unwrap() >= 3;
    let grew = |row: &Value| kib(row, "idle_kib") > if responds(row) { 0 } else { kib(row, "fresh_kib") };
    let stood = |row: &Value| row["open"] == 1000 && grew(row);
    assert!(idle.len() == targets.len() && idle.iter().all(stood), "{idle:#?}");
    let prefork = idle.iter().find(|row| row["target"] == 0).unwrap();
    assert!(prefork["processes"].as_u64().unwrap() > 1000, "a process for each connection: {prefork:#}");
    let claims = claims.as_array().unwrap();
    let memory = |claim: &&Value| claim["about"] == "PSS with 1,000 idle connections";
    assert!(claims.len() > 20 && claims.iter().filter(memory).count() == 1, "{claims:#?}");
    assert!(claims.iter().filter(memory).all(|claim| claim["verdict"] != "not-measured"), "{claims:#?}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.starts_with("# Figures\n") && page.ends_with("The end.\n") && page.contains("| manifold percore |"));
    let again = binary::command(["lab", "report"]).arg(&folder).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let dom = chromium(&["--dump-dom"], &folder.join("report.html"));
    assert!(dom.contains("id=\"answer\"") && dom.matches("<svg").count() == 10);
}

/// All published experiments in their smallest size: that every server starts with the settings they name, every load is measured and
/// every claim judged, not how.
#[test]
fn published_experiments_are_repeated_and_their_claims_judged() {
    let _alone = alone();
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path("report");
    let mut command = binary::command(["lab", "run", "origin", "--smallest", "--out"]);
    let output = command.arg(&folder).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}:\n{said}", output.status);
    let read = |name: &str| -> Value { serde_json::from_str(&fs::read_to_string(folder.join(name)).unwrap()).unwrap() };
    let (studies, claims) = (read("study.json"), read("claims.json"));
    let found = studies["found"].as_array().unwrap();
    let shape: Vec<(&str, usize, usize)> = found
        .iter()
        .map(|found| {
            let count = |of: &Value| of.as_array().unwrap().len();
            (found["study"]["name"].as_str().unwrap(), count(&found["study"]["targets"]), count(&found["cells"]))
        })
        .collect();
    let expected = [
        ("default-mpms", 4, 4 * 2),
        ("big-page", 4, 4),
        ("max-requests", 6, 6 * 10),
        ("max-concurrency", 6, 6 * 10),
        ("settings-matrix", 14, 14 * 4),
        ("slow-clients", 6, 6 * 4),
    ];
    assert_eq!(shape, expected, "{said}");
    let cells: Vec<&Value> = found.iter().flat_map(|found| found["cells"].as_array().unwrap()).collect();
    let (slow, asking): (Vec<&Value>, Vec<&Value>) = cells.into_iter().partition(|cell| cell["held"].is_number());
    assert!(slow.len() == 24 && slow.iter().any(|cell| cell["held"].as_u64().unwrap() >= 140), "{slow:#?}");
    let answered = asking.iter().filter(|cell| cell["completed"].as_u64().unwrap() > 0).count();
    assert_eq!(answered, asking.len(), "{said}");
    assert!(asking.iter().all(|cell| cell["pss_kib"].as_u64().unwrap() > 0), "memory is looked at after each load");
    let claims = claims.as_array().unwrap();
    // Of one round nothing can be told, and the report says so.
    let nothing = |claim: &Value| ["not-distinguishable", "disturbed"].contains(&claim["verdict"].as_str().unwrap());
    assert!(claims.len() == 32 && claims.iter().all(nothing), "{claims:#?}");
    let again = binary::command(["lab", "report"]).arg(&folder).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let dom = chromium(&["--dump-dom"], &folder.join("report.html"));
    assert!(dom.contains("id=\"settings-matrix\"") && dom.contains("published: prefork 1500"), "{dom}");
}

/// `lab new` writes what `lab run` takes; nginx takes part with its own settings; what cannot be started is named.
#[test]
fn a_file_of_ones_own_is_measured() {
    let _alone = alone();
    let scratch = Scratch::new().unwrap();
    let (file, folder) = (scratch.path("mine.toml"), scratch.path("report"));
    let new = binary::command(["lab", "new"]).arg(&file).output().unwrap();
    assert!(new.status.success(), "{}", String::from_utf8_lossy(&new.stderr));
    let more = "\n[[target]]\nname = \"nginx\"\nservers = [\"nginx\"]\nsettings = { keepalive_requests = 10 }\n\n\
                [[target]]\nname = \"broken\"\nservers = [\"manifold\"]\nmpm = \"event\"\nsettings = { NoSuch = 1 }\n";
    fs::write(&file, fs::read_to_string(&file).unwrap() + more).unwrap();
    let mut command = binary::command(["lab", "run", "--scaled", "--rounds", "1"]);
    let output = command.arg(&file).arg("--out").arg(&folder).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}:\n{said}", output.status);
    assert!(said.contains("manifold broken is left out") && said.contains("NoSuch"), "{said}");
    let studies: Value = serde_json::from_str(&fs::read_to_string(folder.join("study.json")).unwrap()).unwrap();
    let found = &studies["found"][0];
    let names: Vec<&str> =
        found["study"]["targets"].as_array().unwrap().iter().map(|target| target["name"].as_str().unwrap()).collect();
    let (few, many) = ("event ThreadsPerChild=25", "event ThreadsPerChild=100");
    assert_eq!(names, [few, few, many, many, "nginx"], "{said}");
    assert_eq!(found["cells"].as_array().unwrap().len(), 5 * 4, "{said}");
    let config = fs::read_to_string(folder.join("servers/mine/nginx/server.conf")).unwrap();
    assert!(config.contains("keepalive_requests 10;"), "{config}");
    let wrong = binary::command(["lab", "run", "no-such-experiment"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("there are peers, generators, origin"));
}

/// Ours and Debian's, each understood, with what it used. What they reach is a matter of the machine.
#[test]
fn generators_are_measured_beside_each_other() {
    let _alone = alone();
    let scratch = Scratch::new().unwrap();
    let (folder, page) = (scratch.path("report"), scratch.path("page.md"));
    fs::write(&page, "# Figures\n\n<!-- begin generators -->\n<!-- end generators -->\n\nThe end.\n").unwrap();
    let names = ["load", "manifold-ab", "manifold-siege", "wrk", "h2load", "ab", "siege"];
    let mut command = binary::command(["lab", "run", "generators", "--rounds", "1", "--generators"]);
    let command = command.arg(names.join(",")).arg("--out").arg(&folder).arg("--markdown").arg(&page);
    let output = command.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}:\n{said}", output.status);
    let read = |name: &str| -> Value { serde_json::from_str(&fs::read_to_string(folder.join(name)).unwrap()).unwrap() };
    let (generators, claims) = (read("generators.json"), read("claims.json"));
    let programs = generators["programs"].as_array().unwrap();
    assert_eq!(programs.iter().map(|program| program["name"].as_str().unwrap()).collect::<Vec<_>>(), names, "{said}");
    let cells = generators["cells"].as_array().unwrap();
    // Three loads each; two over TLS of load, wrk, h2load and ab; two in HTTP/2 of load and h2load.
    assert_eq!(cells.len(), 3 * names.len() + 2 * 4 + 2 * 2, "{said}");
    for cell in cells {
        let cpu = cell["cpu_s"].as_f64().unwrap();
        // On a busy machine siege may get nothing done with a thousand threads.
        let may_fail = names[cell["program"].as_u64().unwrap() as usize] == "siege";
        assert!(may_fail || cell["done"].as_u64().unwrap() > 0, "{cell:#}");
        assert!(cpu > 0.0 && cpu < cell["wall_s"].as_f64().unwrap() * 64.0, "{cell:#}");
        assert!(cell["peak_kib"].as_u64().unwrap() > 1000, "{cell:#}");
    }
    assert!(claims.as_array().unwrap().len() > 8, "{claims:#}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.starts_with("# Figures\n") && page.ends_with("The end.\n") && page.contains("| manifold load |"));
    let again = binary::command(["lab", "report"]).arg(&folder).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert!(fs::read_to_string(folder.join("report.html")).unwrap().contains("id=\"answer\""));
}

/// Opens the report in headless Chromium: the answer is there in words, plots are drawn, nothing is fetched, and at the
/// width of a phone and of a desktop something is painted.
fn check_report(report: &Path) {
    let html = fs::read_to_string(report).unwrap();
    for outside in ["src=\"http", "href=\"http", "url(http", "@import"] {
        assert!(!html.contains(outside), "the report must be self-contained, it has {outside}");
    }
    let dom = chromium(&["--dump-dom"], report);
    assert!(dom.contains("id=\"answer\""), "the answer comes first");
    assert!(dom.matches("<svg").count() >= 4, "requests/s, latency, CPU and memory are plotted");
    for (width, height) in [(390, 844), (1440, 900)] {
        let picture = report.with_file_name(format!("{width}.png"));
        chromium(&[&format!("--screenshot={}", picture.display()), &format!("--window-size={width},{height}")], report);
        let bytes = fs::read(&picture).unwrap();
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 10_000, "{width} pixels: {} bytes", bytes.len());
    }
}

fn chromium(arguments: &[&str], page: &Path) -> String {
    let profile = Scratch::new().unwrap();
    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]);
    command.arg(format!("--user-data-dir={}", profile.path("").display())).args(arguments);
    let output = command.arg(format!("file://{}", page.display())).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
