//! Runs are kept: found again, compared, exported, deleted, and gone on with after their laboratory was killed.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use e2e::{Scratch, alone, binary, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// One small target under one load; enough rounds to be interrupted in.
const EXPERIMENT: &str = "format = 1\ntitle = \"t\"\nquestion = \"q\"\nrounds = 30\n\
    [[target]]\nname = \"one\"\nservers = [\"manifold\"]\nmpm = \"event\"\n\
    [[load]]\nconnections = 5\nseconds = 0.1\n";

struct Lab {
    scratch: Scratch,
}

impl Lab {
    fn new() -> Lab {
        let scratch = Scratch::new().unwrap();
        fs::write(scratch.path("small.toml"), EXPERIMENT).unwrap();
        fs::create_dir(scratch.path("tmp")).unwrap();
        Lab { scratch }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = binary::command(std::iter::once("lab").chain(line.split(' ')));
        command
            .env("MANIFOLD_LAB_STORE", self.scratch.path("store/lab.sqlite"))
            .env("TMPDIR", self.scratch.path("tmp"))
            .current_dir(self.scratch.path(""));
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// What a command that must succeed prints.
    fn says(&self, line: &str) -> String {
        let output = self.run(line);
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "lab {line}: {}\n{said}", output.status);
        said
    }

    /// What a command that must fail says.
    fn refuses(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(1), "lab {line}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn cells(&self) -> u64 {
        let list = self.says("list --json");
        let runs: serde_json::Value = serde_json::from_str(&list).unwrap();
        runs[0]["cells"].as_u64().unwrap_or(0)
    }
}

/// Processes that were started with this in their command line.
fn processes(with: &Path) -> Vec<i32> {
    let with = with.to_str().unwrap();
    let command_line = |pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| String::from_utf8_lossy(&command_line(pid)).contains(with)).collect()
}

/// Kills the laboratory of `lab run LINE` after a few cells, and goes on with the run; `cells` are in the file and `kept` in the store then.
fn check_killed(line: &str, file: &str, cells: usize, kept: u64) {
    let lab = Lab::new();
    let command = format!("run {line} --out report");
    let mut killed = lab.command(&command).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the first cells", || lab.scratch.path("store/lab.sqlite").is_file().then_some(())).unwrap();
    until("a few cells", || (lab.run("list --json").status.success() && lab.cells() >= 3).then_some(())).unwrap();
    kill(Pid::from_raw(killed.id() as i32), Signal::SIGKILL).unwrap();
    killed.wait().unwrap();
    // The servers' configurations and the guarded folder are below the scratch folder, and so in every command line of the run's.
    let scratch = lab.scratch.path("");
    until("no process is left", || processes(&scratch).is_empty().then_some(())).unwrap();
    let tmp = lab.scratch.path("tmp");
    until("no temporary folder is left", || fs::read_dir(&tmp).unwrap().next().is_none().then_some(())).unwrap();

    let before = lab.cells();
    assert!((3..kept).contains(&before), "{line}: {before}");
    assert!(lab.says("list").contains("interrupted"), "{line}");
    assert!(lab.refuses("show last").contains("--resume 1"), "{line}: it has no results yet");
    let said = lab.says("run --resume last");
    assert!(said.contains("Kept as run 1"), "{said}");
    assert_eq!(lab.cells(), kept, "{line}");
    let results: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(lab.scratch.path("report").join(file)).unwrap()).unwrap();
    let found = results.get("found").map_or(&results, |found| &found[0]);
    assert_eq!(found["cells"].as_array().unwrap().len(), cells, "{line}: each once, those before the kill as well");
    assert!(lab.refuses("run --resume 1").contains("is complete"), "{line}");
}

#[test]
fn a_killed_run_leaves_nothing_and_goes_on() {
    let _alone = alone();
    check_killed("small.toml", "study.json", 30, 30);
    let small = "--targets event --concurrency 5 --keep-alive on --rounds 30 --seconds 0.05";
    check_killed(small, "results.json", 30, 30);
    // Ten loads, and four on both processors; what memory was is kept beside them.
    check_killed("peers --quick --targets percore --rounds 1", "peers.json", 14, 15);
}

/// Kills the first child of a laboratory with this word in its command line, after a few cells: what the laboratory said, and its exit code.
fn check_child_killed(lab: &Lab, word: &str) -> (String, Option<i32>) {
    let run = lab.command("run two.toml --out report").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("the store", || lab.scratch.path("store/lab.sqlite").is_file().then_some(())).unwrap();
    until("a few cells", || (lab.run("list --json").status.success() && lab.cells() >= 4).then_some(())).unwrap();
    let victim = until("it runs", || child_with(run.id(), word)).unwrap();
    kill(Pid::from_raw(victim), Signal::SIGKILL).unwrap();
    let output = run.wait_with_output().unwrap();
    let scratch = lab.scratch.path("");
    until("no process is left", || processes(&scratch).is_empty().then_some(())).unwrap();
    let tmp = lab.scratch.path("tmp");
    until("no temporary folder is left", || fs::read_dir(&tmp).unwrap().next().is_none().then_some(())).unwrap();
    assert!(lab.scratch.path("report/report.html").is_file(), "what was measured is told");
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
}

/// A child of this process with a word in its command line.
fn child_with(parent: u32, word: &str) -> Option<i32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).ok()?.flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok()).collect::<String>();
    let has_word = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|given| given == word.as_bytes())
    };
    children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).find(has_word)
}

fn with_two_targets() -> Lab {
    let lab = Lab::new();
    let two = "[[target]]\nname = \"two\"\nservers = [\"manifold\"]\nmpm = \"worker\"\n";
    fs::write(lab.scratch.path("two.toml"), format!("{EXPERIMENT}{two}")).unwrap();
    lab
}

#[test]
fn a_run_whose_generator_was_killed_goes_on() {
    let _alone = alone();
    let lab = with_two_targets();
    let (said, code) = check_child_killed(&lab, "load");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("left no report that can be read") && said.contains("--resume 1"), "{said}");
    lab.says("run --resume 1");
    assert_eq!(lab.cells(), 60);
}

#[test]
fn a_server_that_was_killed_leaves_the_run() {
    let _alone = alone();
    let lab = with_two_targets();
    let (said, code) = check_child_killed(&lab, "httpd");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("is out of the run"), "{said}");
    let cells = lab.cells();
    assert!((32..60).contains(&cells), "all cells of the other, and a few of its own: {cells}");
}

#[test]
fn runs_are_found_compared_exported_and_deleted() {
    let _alone = alone();
    let lab = Lab::new();
    assert!(lab.says("list").contains("No run is kept yet"));
    lab.says("run small.toml --rounds 4 --out a");
    lab.says("run small.toml --rounds 4 --out b");
    lab.says("run --quick --targets event --concurrency 5 --rounds 1 --out c");
    let list = lab.says("list");
    assert_eq!(list.lines().count(), 4, "{list}");
    assert!(lab.says("show 1").contains("Requests a second"));
    assert!(lab.says("show").to_lowercase().contains("manifold event"), "the last one");
    let diff = lab.says("diff 1 2 --all");
    assert!(diff.contains("manifold one") && diff.contains("requests-per-second"), "{diff}");
    assert!(lab.refuses("diff 1 3").contains("no target, load and metric in common"));
    lab.says("export 2 exported");
    let kept = |folder: &str| fs::read_to_string(lab.scratch.path(folder).join("study.json")).unwrap();
    let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["found"][0]["study"].clone();
    assert_eq!(parsed(&kept("exported")), parsed(&kept("b")));
    assert!(lab.refuses("export 2 exported").contains("not empty"));
    lab.says("delete 1 3");
    assert!(lab.refuses("show 1").contains("there is no run 1; `manifold lab list` shows them"));
    assert!(lab.refuses("run --resume 2").contains("is complete"));
    assert!(lab.scratch.path("a/report.html").is_file(), "reports stay");
}

/// While something else uses all processors no claim is judged, and the report says why.
#[test]
fn a_busy_machine_makes_no_claims() {
    let _alone = alone();
    let lab = Lab::new();
    let claim = "[[target]]\nname = \"two\"\nservers = [\"manifold\"]\nmpm = \"event\"\n\
        [[claim]]\nsays = \"s\"\nmetric = \"requests-per-second\"\nof = \"one\"\nthan = \"two\"\nis = \"same\"\n";
    fs::write(lab.scratch.path("busy.toml"), format!("{EXPERIMENT}{claim}")).unwrap();
    let processors = std::thread::available_parallelism().unwrap().get();
    let hog = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let mut hogs: Vec<_> = (0..processors).map(|_| hog()).collect();
    let output = lab.run("run busy.toml --rounds 3 --out report");
    for hog in &mut hogs {
        hog.kill().unwrap();
        hog.wait().unwrap();
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let claims = fs::read_to_string(lab.scratch.path("report/claims.json")).unwrap();
    let claims: serde_json::Value = serde_json::from_str(&claims).unwrap();
    assert_eq!(claims[0]["verdict"], "disturbed", "{claims}");
    let report = fs::read_to_string(lab.scratch.path("report/report.md")).unwrap();
    assert!(
        report.contains("not judged, the machine was busy") && report.contains("more than a tenth of a processor"),
        "{report}"
    );
}

/// Ctrl-C ends a run early, keeps what was measured, and the run can be gone on with.
#[test]
fn an_interrupted_run_says_how_to_go_on() {
    let _alone = alone();
    let lab = Lab::new();
    let run = lab.command("run small.toml --out report").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("the store", || lab.scratch.path("store/lab.sqlite").is_file().then_some(())).unwrap();
    until("a few cells", || (lab.run("list --json").status.success() && lab.cells() >= 2).then_some(())).unwrap();
    kill(Pid::from_raw(run.id() as i32), Signal::SIGINT).unwrap();
    let output = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("go on with it: manifold lab run --resume 1"), "{said}");
    assert!(lab.says("list").contains("ended early"));
    assert!(lab.scratch.path("report/report.html").is_file());
    lab.says("run --resume 1");
    assert_eq!(lab.cells(), 30);
}
