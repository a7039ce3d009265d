//! The status page against pages recorded from Apache 2.4.71, byte for byte, and against the rules of OpenMetrics.

use std::collections::HashSet;

use jiff::tz::TimeZone;
use manifold_engine::status::{
    Connections, Counts, Cpu, Generation, Letter, Limits, Process, ProcessState, SCHEMA, Server, Snapshot, Step,
    Totals, Worker, WorkerCounts,
};
use manifold_modules::status::{Asked, render};

/// 21 November 2026, 12:48:53 UTC: when the recorded servers were started.
const STARTED_MS: u64 = 1_795_265_333_000;

fn page(snapshot: &Snapshot, query: &str) -> (&'static str, String) {
    render(snapshot, &Asked::of(query.as_bytes()), "127.0.0.1", &TimeZone::UTC)
}

/// What the recordings have in common, `seconds` after the start.
fn recorded(mpm: &str, seconds: u64, load: [f64; 3], scoreboard: &str) -> Snapshot {
    Snapshot {
        schema: SCHEMA,
        server: Server {
            version: "Apache/2.4.71 (Debian)".to_owned(),
            built: "2026-11-12T08:58:41".to_owned(),
            mpm: mpm.to_owned(),
            pid: 7,
        },
        time_ms: STARTED_MS + seconds * 1000 + 999,
        started_ms: STARTED_MS,
        restarted_ms: STARTED_MS,
        config_generation: 1,
        load: Some(load),
        extended: true,
        scoreboard: scoreboard.to_owned(),
        ..Snapshot::default()
    }
}

fn totals(accesses: u64, kilobytes: u64, milliseconds: u64) -> Totals {
    Totals { accesses, bytes: kilobytes * 1024 + 1023, duration_us: milliseconds * 1000 + 999, ..Totals::default() }
}

fn workers(busy: u64, idle: u64) -> WorkerCounts {
    WorkerCounts { busy, idle, ..WorkerCounts::default() }
}

fn process(slot: u64, generation: u64, state: ProcessState) -> Process {
    Process { slot, pid: 20466 + slot as i32, generation, state, accepting: true, ..Process::default() }
}

#[track_caller]
fn check(snapshot: &Snapshot, query: &str, expected: &str) {
    let (_, text) = page(snapshot, query);
    for (number, (line, expected)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(line, expected, "line {}", number + 1);
    }
    assert_eq!(text.len(), expected.len(), "the rest of {text}");
}

#[test]
fn auto_is_apaches_for_prefork() {
    let letters = format!("K_RW{}", ".".repeat(66));
    let mut snapshot = recorded("prefork", 4, [0.78, 0.47, 0.37], &letters);
    // This one was told within the fourth second.
    snapshot.time_ms = STARTED_MS + 3_999;
    (snapshot.totals, snapshot.worker_counts) = (totals(9, 6, 3), workers(3, 1));
    let recording = include_str!("apache-status/prefork.txt").replace("12:48:57", "12:48:56");
    check(&snapshot, "auto", &recording);
}

#[test]
fn auto_is_apaches_for_worker() {
    let letters = format!("_________W________R_{}", ".".repeat(20));
    let mut snapshot = recorded("worker", 225, [0.31, 0.40, 0.37], &letters);
    (snapshot.totals, snapshot.worker_counts) = (totals(1218, 1_536_503, 1306), workers(2, 18));
    snapshot.cpu = Cpu { user_ms: 50, system_ms: 670 };
    let recording = include_str!("apache-status/worker.txt").replace("12:52:39", "12:52:38");
    check(&snapshot, "auto", &recording);
}

#[test]
fn auto_is_apaches_for_event_with_a_draining_process() {
    let mut snapshot = recorded("event", 232, [0.60, 0.46, 0.39], ".........G.........._________________W__");
    (snapshot.totals, snapshot.worker_counts) = (totals(1222, 1_536_519, 693), workers(1, 19));
    (snapshot.config_generation, snapshot.mpm_generation) = (2, 1);
    snapshot.cpu = Cpu { user_ms: 30, system_ms: 70 };
    snapshot.cpu_gone = Cpu { user_ms: 20, system_ms: 130 };
    snapshot.connections.open = 1;
    let (old, new) = (ProcessState::Quiescing, ProcessState::Running);
    snapshot.processes = vec![process(0, 0, old), process(2, 1, new), process(3, 1, new)];
    let recording = include_str!("apache-status/event.txt").replace("12:52:46", "12:52:45");
    check(&snapshot, "auto&refresh=5", &recording);
}

#[test]
fn auto_without_extended_status_has_no_totals() {
    let letters = format!("____________W_______{}", ".".repeat(20));
    let mut snapshot = recorded("event", 1, [0.0; 3], &letters);
    snapshot.extended = false;
    snapshot.worker_counts = workers(1, 19);
    snapshot.processes = vec![process(0, 0, ProcessState::Running), process(1, 0, ProcessState::Running)];
    let text = page(&snapshot, "auto").1;
    // Times and load are another server's.
    let names = |text: &str| text.lines().map(|line| line.split(':').next().unwrap().to_owned()).collect::<Vec<_>>();
    let recording = include_str!("apache-status/not-extended.txt");
    assert_eq!(names(&text)[1..], names(recording)[1..]);
    assert_eq!(text.lines().rev().take(9).collect::<Vec<_>>(), recording.lines().rev().take(9).collect::<Vec<_>>());
}

/// Three rows of the recorded table: a ready worker, one that reads, one that answers.
fn three_workers() -> Vec<Worker> {
    let worker = |process, letter, phase, connection, accesses, bytes, request: &str| Worker {
        process,
        pid: Some(20466 + process as i32),
        status: Letter(letter),
        phase,
        began_ms: STARTED_MS + 4_000 + process * 1000,
        accesses: Counts { connection, process: accesses, slot: accesses },
        bytes: Counts { connection: 0, process: bytes, slot: bytes },
        cpu: Some(Cpu::default()),
        client: "127.0.0.1".to_owned(),
        protocol: "http/1.1".to_owned(),
        vhost: if request.is_empty() { String::new() } else { "localhost:18096".to_owned() },
        request: request.to_owned(),
        ..Worker::default()
    };
    let idle = worker(0, '_', Step::Idle, 0, 0, 0, "");
    let ready = worker(0, '_', Step::Idle, 0, 2, 814, "GET /index.html?x=%3Cb%3E&y=1 HTTP/1.1");
    let reading = worker(0, 'R', Step::Head, 0, 0, 0, "");
    let writing = worker(1, 'W', Step::Handler, 1, 0, 0, "GET /server-status HTTP/1.1");
    vec![idle, ready, reading, writing]
}

#[test]
fn html_is_apaches_but_for_the_name() {
    let letters = format!("______R___W_________{}", ".".repeat(20));
    let mut snapshot = recorded("event", 5, [0.88, 0.49, 0.37], &letters);
    snapshot.time_ms = STARTED_MS + 5_999;
    (snapshot.totals, snapshot.worker_counts) = (totals(8, 3, 0), workers(2, 18));
    snapshot.processes = vec![process(0, 0, ProcessState::Running), process(1, 0, ProcessState::Running)];
    snapshot.processes.iter_mut().for_each(|process| process.workers = workers(1, 9));
    snapshot.workers = three_workers();
    let recording = include_str!("apache-status/event.html").replace("<title>Apache", "<title>Manifold");
    let recording = recording.replace("<h1>Apache", "<h1>Manifold").replace(" (via 127.0.0.1)", "");
    // The recording is kept without spaces at the ends of lines.
    let (_, text) = page(&snapshot, "");
    let trimmed: Vec<&str> = text.lines().map(str::trim_end).collect();
    assert_eq!(trimmed, recording.replace("12:48:59", "12:48:58").lines().collect::<Vec<_>>());
}

#[test]
fn html_without_the_table_is_apaches() {
    let mut snapshot = recorded("event", 5, [0.0; 3], "");
    snapshot.time_ms = STARTED_MS + 5_999;
    let mut rows = three_workers();
    rows[3] = Worker {
        status: Letter('_'),
        phase: Step::Idle,
        accesses: Counts { connection: 0, process: 1, slot: 1 },
        bytes: Counts { connection: 0, process: 5_998, slot: 5_998 },
        request: "GET /server-status?refresh=7 HTTP/1.1".to_owned(),
        ..rows[3].clone()
    };
    snapshot.workers = rows;
    let (_, text) = page(&snapshot, "notable");
    let details = &text[text.find("<hr /><h2>").unwrap()..];
    let expected = include_str!("apache-status/notable.html");
    assert_eq!(details.trim_end(), expected.trim_end());
}

#[test]
fn rows_of_the_scoreboard_have_64_letters() {
    let text = page(&recorded("prefork", 1, [0.0; 3], &"_".repeat(70)), "").1;
    assert!(text.contains(&format!("<pre>{}\n______</pre>", "_".repeat(64))), "{text}");
}

#[test]
fn what_a_client_sent_is_no_markup() {
    let mut snapshot = recorded("event", 1, [0.0; 3], "W");
    let evil = "\"'><script>alert(1)</script>\u{1}\u{fffd}";
    snapshot.workers = vec![Worker {
        accesses: Counts { connection: 1, process: 1, slot: 1 },
        client: evil.to_owned(),
        protocol: evil.to_owned(),
        vhost: evil.to_owned(),
        request: evil.to_owned(),
        ..Worker::default()
    }];
    for query in ["", "notable"] {
        let text = page(&snapshot, query).1;
        assert!(!text.contains("<script"), "{text}");
        assert!(text.is_ascii() && text.matches("&lt;script&gt;").count() == 4, "{text}");
    }
}

#[test]
fn json_reads_back() {
    let mut snapshot = recorded("percore", 9, [0.1, 0.2, 0.3], "_W");
    snapshot.workers = three_workers();
    snapshot.generations = vec![Generation { number: 1, mpm: "percore".to_owned(), ..Generation::default() }];
    let (media_type, text) = page(&snapshot, "json");
    assert_eq!(media_type, "application/json");
    assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
}

#[test]
fn metrics_keep_the_rules_of_openmetrics() {
    let mut snapshot = recorded("event", 5, [0.88, 0.49, 0.37], "_WWK..");
    snapshot.server.version = "a\"b\\c\nd".to_owned();
    (snapshot.totals, snapshot.worker_counts) = (totals(8, 3, 1500), workers(2, 18));
    snapshot.connections = Connections { open: 5, keep_alive: 2, wait_io: 1, ..Connections::default() };
    snapshot.limits = Limits { max_request_workers: 400, max_connections: 75, ..Limits::default() };
    let (media_type, text) = page(&snapshot, "metrics");
    assert_eq!(media_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let samples = open_metrics(&text).unwrap();
    let value = |name: &str| samples.iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("{text}")).1;
    assert_eq!(value("manifold_requests_total"), 8.0);
    assert_eq!(value("manifold_sent_bytes_total"), 4095.0);
    assert_eq!(value("manifold_request_duration_seconds_total"), 1.500_999);
    assert_eq!(value("manifold_connections{state=\"in_work\"}"), 2.0);
    assert_eq!(value("manifold_scoreboard{letter=\"W\"}"), 2.0);
    assert_eq!(value("manifold_max_connections"), 75.0);
    assert!(text.contains("manifold_server_info{version=\"a\\\"b\\\\c\\nd\",built="), "{text}");
}

#[test]
fn the_checker_of_openmetrics_finds_errors() {
    let fine = "# HELP a A.\n# TYPE a gauge\na 1\n# EOF\n";
    assert!(open_metrics(fine).is_ok());
    for (from, to) in [
        ("# EOF\n", ""),
        ("# EOF\n", "# EOF\n\n"),
        ("a 1\n", "a x\n"),
        ("a 1\n", "b 1\n"),
        ("a 1\n", "a 1\na 2\n"),
        ("gauge\n", "counter\n"),
        ("gauge\n", "thing\n"),
        ("gauge\n", "gauge\n# UNIT a seconds\n"),
        ("a 1\n", "a{b=c} 1\n"),
        ("a 1\n", "a 1\n# HELP b B.\n# TYPE b gauge\nb 1\na{c=\"d\"} 1\n"),
    ] {
        assert!(open_metrics(&fine.replacen(from, to, 1)).is_err(), "{to:?} for {from:?}");
    }
}

/// A small checker of OpenMetrics text 1.0.0: the samples with their labels, or what is wrong.
fn open_metrics(text: &str) -> Result<Vec<(String, f64)>, String> {
    let lines = text.strip_suffix("# EOF\n").ok_or("no EOF at the end")?;
    let (mut family, mut kind) = (String::new(), String::new());
    let (mut families, mut names, mut samples) = (HashSet::new(), HashSet::new(), Vec::new());
    for line in lines.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let [word, name, rest] = [(); 3].map(|()| words.next().unwrap_or_default());
            match word {
                "HELP" if rest.is_empty() => return Err(format!("no help: {line}")),
                "HELP" if !families.insert(name.to_owned()) => return Err(format!("twice: {line}")),
                "HELP" => family = name.to_owned(),
                "TYPE" if name == family && ["gauge", "counter", "info"].contains(&rest) => kind = rest.to_owned(),
                "UNIT" if name == family && name.ends_with(&format!("_{rest}")) => {}
                _ => return Err(format!("what is this? {line}")),
            }
            continue;
        }
        let (name, value) = line.rsplit_once(' ').ok_or(format!("no value: {line}"))?;
        let bare = name.split('{').next().unwrap_or_default();
        let suffix = match kind.as_str() {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        if bare != format!("{family}{suffix}") {
            return Err(format!("not of the family {family}: {line}"));
        }
        if let Some(labels) = name.strip_prefix(bare).and_then(|rest| rest.strip_prefix('{')) {
            let labels = labels.strip_suffix("\"}").ok_or(format!("labels: {line}"))?;
            if !labels.split("\",").all(|label| label.contains("=\"")) {
                return Err(format!("labels: {line}"));
            }
        }
        if !names.insert(name.to_owned()) {
            return Err(format!("twice: {line}"));
        }
        samples.push((name.to_owned(), value.parse().map_err(|_| format!("no number: {line}"))?));
    }
    Ok(samples)
}
