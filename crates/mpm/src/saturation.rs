//! The server is full: why, and what it would cost to raise the limit. A number in the log helps nobody who does not know
//! what holds the workers; so the parent looks, and says.

use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant};

use manifold_engine::status::holders::Holders;
use manifold_engine::status::{ProcessState, Snapshot};

use crate::generation::Generation;

/// While the server stays full it says so again after these times, the last of them again and again.
const AGAIN: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(600)];
/// A server that was not full for so long says it at once when it is full again.
const CALM: Duration = Duration::from_secs(60);
/// Children whose memory is read: what one is like the others are like.
const CHILDREN_READ_MAX: usize = 8;
/// Processes that are named by their number.
const PIDS_SHOWN: usize = 8;
/// Characters of a report.
const REPORT_CHARS_MAX: usize = 1_500;

/// Decides when a server that is full says so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alarm {
    told: usize,
    due: Option<Instant>,
    last_full: Option<Instant>,
}

impl Alarm {
    /// The server is full at `now`: whether to say so.
    pub fn is_due(&mut self, now: Instant) -> bool {
        if self.last_full.is_some_and(|last| now.saturating_duration_since(last) >= CALM) {
            *self = Alarm::default();
        }
        self.last_full = Some(now);
        if self.due.is_some_and(|due| now < due) {
            return false;
        }
        self.due = Some(now + AGAIN[self.told.min(AGAIN.len() - 1)]);
        self.told += 1;
        true
    }
}

/// Memory of some children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Their proportional set sizes together: shared pages count in part, so that sums are true.
    pub pss_kib: u64,
    /// How many they are.
    pub children: u64,
}

/// What the parent finds out when it is full.
#[derive(Clone, Debug)]
pub struct Look {
    /// The server at this moment.
    pub snapshot: Snapshot,
    /// Memory of its children, where it could be read.
    pub memory: Option<Memory>,
}

impl Look {
    /// At the server that `generation` is the newest of, `now` since the Unix epoch.
    pub fn at(generation: &Generation, now: Duration) -> Option<Look> {
        let snapshot = generation.site.status.get()?.snapshot(now);
        let memory = measure(&snapshot, generation.number);
        Some(Look { snapshot, memory })
    }

    /// Why the newest generation is full, in one line of bounded length. `waiting` are connections that nobody has accepted.
    pub fn report(&self, waiting: Option<u32>) -> String {
        let snapshot = &self.snapshot;
        let newest = snapshot.generations.first().map_or(snapshot.mpm_generation, |generation| generation.number);
        let holders = Holders::of(snapshot, Some(newest));
        let limit = snapshot.limits.max_request_workers;
        let mut text = format!("{} of {limit} workers are held: {holders}", holders.held);
        // Writing into a String cannot fail.
        let _ = self.write_rates(&mut text, waiting);
        if holders.wait_for_clients() * 2 > holders.held
            && ["prefork", "worker"].contains(&snapshot.server.mpm.as_str())
        {
            text.push_str("; most wait for slow or idle clients, for whom the event and percore MPMs hold no worker");
        }
        let _ = self.write_cost(&mut text);
        truncate(text)
    }

    /// What holds up generation `number`, which shall end.
    pub fn holders(&self, number: u64) -> String {
        let processes = self.snapshot.processes.iter().filter(|process| process.generation == number);
        let pids: Vec<String> = processes
            .take(PIDS_SHOWN)
            .map(|process| format!("pid {} with {}", process.pid, process.connections.open))
            .collect();
        truncate(format!("{} ({})", Holders::of(&self.snapshot, Some(number)), pids.join(", ")))
    }

    fn write_rates(&self, text: &mut String, waiting: Option<u32>) -> std::fmt::Result {
        let rates = &self.snapshot.rates;
        if rates.over_ms > 0 {
            let seconds = rates.over_ms as f64 / 1000.0;
            write!(text, ". Over the last {seconds:.0} s, {:.1} connections/s were accepted", rates.connections)?;
            write!(text, " and {:.1} requests/s answered", rates.requests)?;
        }
        match waiting {
            Some(waiting @ 1..) => write!(text, "; {waiting} connections wait to be accepted"),
            _ => Ok(()),
        }
    }

    /// A quarter more workers, in whole children.
    fn write_cost(&self, text: &mut String) -> std::fmt::Result {
        let limits = &self.snapshot.limits;
        let Some(memory) = self.memory.filter(|memory| memory.children > 0) else { return Ok(()) };
        let threads = limits.threads_per_child.max(1);
        let children = (limits.max_request_workers / 4).div_ceil(threads).max(1);
        let mib = (memory.pss_kib * children / memory.children).div_ceil(1024);
        write!(text, "; {} more workers would take about {mib} MiB", children * threads)
    }
}

/// Memory of a few running children of a generation.
fn measure(snapshot: &Snapshot, generation: u64) -> Option<Memory> {
    let running = snapshot
        .processes
        .iter()
        .filter(|process| process.generation == generation && process.state == ProcessState::Running);
    let mut memory = Memory { pss_kib: 0, children: 0 };
    for process in running.take(CHILDREN_READ_MAX) {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid)).ok();
        if let Some(kib) = rollup.as_deref().and_then(pss_kib) {
            memory.pss_kib += kib;
            memory.children += 1;
        }
    }
    (memory.children > 0).then_some(memory)
}

/// The line `Pss:` of smaps_rollup, see proc_pid_smaps(5).
fn pss_kib(rollup: &str) -> Option<u64> {
    rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?.trim().strip_suffix(" kB")?.parse().ok()
}

fn truncate(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(REPORT_CHARS_MAX) {
        text.truncate(end);
        text.push_str(" ...");
    }
    text
}

#[cfg(test)]
mod tests {
    use manifold_engine::status::{Connections, Generation, Letter, Limits, Process, Rates, Server, Step, Worker};

    use super::*;

    #[test]
    fn a_server_that_stays_full_says_so_less_and_less_often() {
        let start = Instant::now();
        let told = |full: &dyn Fn(u64) -> bool, seconds: u64| -> Vec<u64> {
            let mut alarm = Alarm::default();
            let at = |second| start + Duration::from_secs(second);
            (0..seconds).filter(|second| full(*second) && alarm.is_due(at(*second))).collect()
        };
        assert_eq!(told(&|_| true, 2_000), [0, 60, 660, 1_260, 1_860]);
        // Full every other second is full; full again after a calm minute is news.
        assert_eq!(told(&|second| second % 2 == 0, 700), [0, 60, 660]);
        assert_eq!(told(&|second| !(10..69).contains(&second), 131), [0, 69, 129]);
        assert_eq!(told(&|second| second < 10 || second == 68, 131), [0, 68]);
    }

    fn full(mpm: &str, phase: Step, limits: Limits) -> Snapshot {
        let worker = Worker {
            generation: 3,
            status: Letter('W'),
            phase,
            vhost: "a.example".to_owned(),
            request: "GET /x HTTP/1.1".to_owned(),
            ..Worker::default()
        };
        Snapshot {
            server: Server { mpm: mpm.to_owned(), ..Server::default() },
            rates: Rates { over_ms: 9_000, requests: 38.25, bytes: 0.0, connections: 41.0 },
            workers: vec![worker; 4],
            generations: vec![Generation { number: 3, ..Generation::default() }],
            limits,
            ..Snapshot::default()
        }
    }

    #[test]
    fn the_report_says_who_how_fast_and_how_dear() {
        let limits = Limits { max_request_workers: 400, threads_per_child: 25, ..Limits::default() };
        let memory = Some(Memory { pss_kib: 3 * 5_888, children: 3 });
        let check = |snapshot: Snapshot, memory, waiting, expected: &str| {
            assert_eq!(Look { snapshot, memory }.report(waiting), expected);
        };
        check(
            full("event", Step::Handler, limits),
            memory,
            Some(12),
            "4 of 400 workers are held: 4 W handler a.example/x of 1 client, longest 0 s. Over the last 9 s, \
             41.0 connections/s were accepted and 38.2 requests/s answered; 12 connections wait to be accepted; \
             100 more workers would take about 23 MiB",
        );
        check(
            Snapshot { rates: Rates::default(), ..full("worker", Step::Sending, limits) },
            None,
            Some(0),
            "4 of 400 workers are held: 4 W sending a.example/x of 1 client, longest 0 s; most wait for slow or idle \
             clients, for whom the event and percore MPMs hold no worker",
        );
    }

    #[test]
    fn a_report_is_bounded_whatever_clients_send() {
        let mut snapshot = full("prefork", Step::Handler, Limits::default());
        for (number, worker) in snapshot.workers.iter_mut().enumerate() {
            worker.vhost = format!("{number}{}", "\u{fffd}".repeat(5_000));
        }
        assert_eq!(Look { snapshot, memory: None }.report(None).chars().count(), REPORT_CHARS_MAX + 4);
    }

    #[test]
    fn a_generation_that_drains_is_told_with_its_processes() {
        let mut snapshot = full("event", Step::Sending, Limits::default());
        let connections = Connections { open: 9, writing: 5, ..Connections::default() };
        snapshot.processes = vec![Process { pid: 77, generation: 3, connections, ..Process::default() }];
        snapshot.generations[0].connections = connections;
        let look = Look { snapshot, memory: None };
        let expected =
            "4 W sending a.example/x of 1 client, longest 0 s; 5 without a worker receiving slowly (pid 77 with 9)";
        assert_eq!(look.holders(3), expected);
        assert_eq!(look.holders(2), "nothing that is known ()");
    }

    #[test]
    fn the_proportional_set_size_is_found() {
        let rollup =
            "55d0-7ffd ---p 00000000 00:00 0    [rollup]\nRss:     1234 kB\nPss:      567 kB\nPss_Dirty: 8 kB\n";
        assert_eq!(pss_kib(rollup), Some(567));
        assert_eq!(pss_kib("Rss: 1 kB\n"), None);
    }
}
