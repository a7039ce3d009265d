//! What `manifold status` prints: a snapshot as lines.

use std::fmt::Write;

use manifold_engine::status::{ProcessState, Snapshot, Step, Worker};

use crate::text::{bytes, count, plain, rate, time};

/// Requests that are named.
const REQUESTS: usize = 5;

/// The snapshot as text.
pub fn text(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = head(&mut text, snapshot).and_then(|()| numbers(&mut text, snapshot));
    for (title, lines) in [("Longest requests", longest(snapshot)), ("Note", notes(snapshot))] {
        for (n, line) in lines.iter().enumerate() {
            let _ = writeln!(text, "{:18}{line}", if n == 0 { title } else { "" });
        }
    }
    text
}

fn head(text: &mut String, snapshot: &Snapshot) -> std::fmt::Result {
    let server = &snapshot.server;
    writeln!(text, "{:18}{} (MPM {}), pid {}", "Server", plain(&server.version), plain(&server.mpm), server.pid)?;
    let age = snapshot.time_ms.saturating_sub(snapshot.started_ms);
    writeln!(text, "{:18}{}; generation {}", "Up for", time(age), snapshot.mpm_generation)?;
    for old in snapshot.generations.iter().filter(|generation| generation.draining) {
        let (processes, open) = (old.processes, old.connections.open);
        writeln!(text, "{:18}generation {} ({processes} processes, {open} connections)", "Draining", old.number)?;
    }
    Ok(())
}

fn numbers(text: &mut String, snapshot: &Snapshot) -> std::fmt::Result {
    let Snapshot { totals, rates, worker_counts: workers, connections, limits, .. } = snapshot;
    writeln!(text, "{:18}{}/s, {}/s", "Requests", rate(rates.requests), bytes(rates.bytes.max(0.0) as u64))?;
    let (answered, sent, accepted) = (count(totals.accesses), bytes(totals.bytes), count(totals.connections));
    writeln!(text, "{:18}{answered} requests, {sent}, {accepted} connections", "In all")?;
    let (busy, idle, most) = (workers.busy, workers.idle, limits.max_request_workers);
    writeln!(text, "{:18}{busy} busy, {idle} idle, {} graceful, of at most {most}", "Workers", workers.graceful)?;
    writeln!(
        text,
        "{:18}{} open: {} keep-alive, {} wait for input, {} writing, {} lingering",
        "Connections",
        connections.open,
        connections.keep_alive,
        connections.wait_io,
        connections.writing,
        connections.lingering
    )
}

fn longest(snapshot: &Snapshot) -> Vec<String> {
    let requests = under_way(snapshot);
    let line = |worker: &&Worker| {
        let age = time(snapshot.time_ms.saturating_sub(worker.began_ms));
        let (client, request) = (plain(&worker.client), plain(&worker.request));
        format!("{} {age}, {client}: {request}", worker.status.0)
    };
    requests.iter().take(REQUESTS).map(line).collect()
}

/// Workers that are at a request, the longest first. The look itself is one of them.
pub fn under_way(snapshot: &Snapshot) -> Vec<&Worker> {
    let at_work = |worker: &&Worker| {
        matches!(worker.phase, Step::Head | Step::Body | Step::Handler | Step::Sending | Step::Logging)
            && !worker.request.is_empty()
    };
    let mut found: Vec<&Worker> = snapshot.workers.iter().filter(at_work).collect();
    found.sort_by_key(|worker| worker.began_ms);
    found
}

/// What an administrator should see without looking for it.
pub fn notes(snapshot: &Snapshot) -> Vec<String> {
    let (workers, most) = (&snapshot.worker_counts, snapshot.limits.max_request_workers);
    let mut notes = Vec::new();
    if most > 0 && workers.busy >= most && snapshot.server.mpm != "percore" {
        notes.push("every worker is busy: MaxRequestWorkers is reached; the error log says why".to_owned());
    } else if most > 0 && workers.busy * 10 >= most * 9 && snapshot.server.mpm != "percore" {
        notes.push("nine of ten workers are busy".to_owned());
    }
    let closed =
        |process: &&manifold_engine::status::Process| process.state == ProcessState::Running && !process.accepting;
    let refusing = snapshot.processes.iter().filter(closed).count();
    if refusing > 0 {
        notes.push(format!("{refusing} processes hold as many connections as they admit"));
    }
    if !snapshot.extended {
        notes.push("ExtendedStatus is Off: requests are not shown".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use manifold_engine::status::{Connections, Generation, Letter, Limits, Server, WorkerCounts};

    fn snapshot() -> Snapshot {
        let worker = Worker {
            status: Letter('W'),
            phase: Step::Sending,
            began_ms: 88_000,
            client: "192.0.2.1".into(),
            request: "GET /slow\u{1b} HTTP/1.1".into(),
            ..Worker::default()
        };
        Snapshot {
            server: Server { version: "Manifold/0.1.0".into(), mpm: "event".into(), pid: 7, ..Server::default() },
            time_ms: 100_000,
            started_ms: 20_000,
            mpm_generation: 2,
            extended: true,
            worker_counts: WorkerCounts { busy: 4, idle: 1, graceful: 2, starting: 0 },
            connections: Connections { open: 9, keep_alive: 3, ..Connections::default() },
            limits: Limits { max_request_workers: 4, ..Limits::default() },
            generations: vec![Generation { number: 1, draining: true, processes: 1, ..Generation::default() }],
            workers: vec![worker],
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_state_is_told_in_few_lines() {
        let expected = "\
Server            Manifold/0.1.0 (MPM event), pid 7
Up for            1 min 20 s; generation 2
Draining          generation 1 (1 processes, 0 connections)
Requests          0/s, 0 B/s
In all            0 requests, 0 B, 0 connections
Workers           4 busy, 1 idle, 2 graceful, of at most 4
Connections       9 open: 3 keep-alive, 0 wait for input, 0 writing, 0 lingering
Longest requests  W 12 s, 192.0.2.1: GET /slow? HTTP/1.1
Note              every worker is busy: MaxRequestWorkers is reached; the error log says why
";
        assert_eq!(text(&snapshot()), expected);
    }
}
