//! From scoreboards and ledger to the plain data of the status page.

use std::fs;
use std::path::Path;
use std::time::Duration;

use manifold_engine::site::Site;
use manifold_engine::status::{
    Connections, Counts, Cpu, Generation as GenerationRow, Letter, Limits as LimitsRow, Process, ProcessState, SCHEMA,
    Server, Snapshot, StatusSource, Step, Worker, WorkerCounts,
};
use manifold_engine::transport::Activity;
use nix::unistd::{SysconfVar, getpid, sysconf};

use crate::generation::Generation;
use crate::ledger::{Ledger, milliseconds};
use crate::limits::{Limits, Model};
use crate::scoreboard::{Scoreboard, ServerSlot, ServerState, Status, WorkerSlot};

/// CPU times of single threads are read of so many at most, to bound what a look at the status page costs.
const THREADS_READ_MAX: usize = 512;

/// A generation's scoreboard with what is needed to understand it.
#[derive(Clone, Debug)]
pub struct Board {
    /// The generation's number.
    pub number: u64,
    /// Its numbers.
    pub limits: Limits,
    /// Its scoreboard.
    pub scoreboard: Scoreboard,
}

impl Board {
    /// That of a generation.
    pub fn of(generation: &Generation) -> Board {
        Board {
            number: generation.number,
            limits: generation.limits.clone(),
            scoreboard: generation.scoreboard.clone(),
        }
    }
}

/// The status page's source in a generation's children: set into the site's handle before the first fork.
#[derive(Debug)]
pub struct Source {
    ledger: Ledger,
    boards: Vec<Board>,
    version: String,
    built: String,
    extended: bool,
}

impl Source {
    /// `boards` are those of all generations that are alive, the newest (of the children that will answer) first. A board
    /// stays shared memory: what happens in it later is seen. Generations that come later are not; [`Ledger::sample`] makes
    /// up for their counts.
    pub fn new(ledger: Ledger, boards: Vec<Board>, site: &Site) -> Source {
        let (version, built) = (site.server.clone(), site.built.clone());
        Source { ledger, boards, version, built, extended: site.extended_status }
    }

    /// The server at `now`, since the Unix epoch; with the CPU times of everybody, which have to be read from /proc, or not.
    pub fn look(&self, now: Duration, with_cpu: bool) -> Snapshot {
        let scoreboards: Vec<&Scoreboard> = self.boards.iter().map(|board| &board.scoreboard).collect();
        let account = self.ledger.account(&scoreboards);
        let mut snapshot = Snapshot {
            schema: SCHEMA,
            server: Server { version: self.version.clone(), built: self.built.clone(), ..Server::default() },
            time_ms: milliseconds(now),
            started_ms: account.started_ms,
            restarted_ms: account.restarted_ms,
            config_generation: account.config_generation,
            mpm_generation: account.mpm_generation,
            load: load_averages(),
            extended: self.extended,
            totals: account.totals,
            rates: account.rates,
            ..Snapshot::default()
        };
        if let Some(newest) = self.boards.first() {
            newest.limits.model.name().clone_into(&mut snapshot.server.mpm);
            snapshot.limits = limits(&newest.limits);
        }
        for (age, board) in self.boards.iter().enumerate() {
            let draining = age > 0 || board.number < account.mpm_generation;
            if !board.scoreboard.is_retired() {
                add_board(&mut snapshot, board, draining);
            }
        }
        // A server of one process (`-X`) has no parent.
        snapshot.server.pid = if account.parent == 0 { getpid().as_raw() } else { account.parent };
        if with_cpu {
            add_cpu(&mut snapshot);
        }
        snapshot
    }
}

impl StatusSource for Source {
    fn snapshot(&self, now: Duration) -> Snapshot {
        self.look(now, true)
    }
}

fn limits(limits: &Limits) -> LimitsRow {
    let percore = limits.model == Model::Percore;
    LimitsRow {
        max_request_workers: limits.max_request_workers.into(),
        threads_per_child: limits.threads_per_child.into(),
        server_limit: if percore { limits.cores } else { limits.server_limit }.into(),
        max_connections: limits.max_connections.into(),
    }
}

fn add_board(snapshot: &mut Snapshot, board: &Board, draining: bool) {
    let mut generation = GenerationRow {
        number: board.number,
        mpm: board.limits.model.name().to_owned(),
        draining,
        ..GenerationRow::default()
    };
    for slot in 0..board.scoreboard.servers() {
        let server = board.scoreboard.server(slot);
        let mut process = process(slot, &server, board.number);
        add_workers(snapshot, board, process.as_mut(), slot, draining);
        if let Some(process) = process {
            generation.processes += 1;
            add(&mut generation.connections, &process.connections);
            snapshot.processes.push(process);
        }
    }
    add(&mut snapshot.connections, &generation.connections);
    if generation.processes > 0 || !draining {
        snapshot.generations.push(generation);
    }
}

fn process(slot: usize, server: &ServerSlot<'_>, generation: u64) -> Option<Process> {
    let state = match server.state() {
        ServerState::Empty => return None,
        ServerState::Starting => ProcessState::Starting,
        ServerState::Running => ProcessState::Running,
        ServerState::Quiescing => ProcessState::Quiescing,
    };
    Some(Process {
        slot: slot as u64,
        pid: server.pid(),
        generation,
        state,
        accepting: state == ProcessState::Running && server.is_accepting(),
        started_ms: server.started_ms(),
        cpu: None,
        connections: server.counts(),
        workers: WorkerCounts::default(),
    })
}

/// The letters, counts and rows of the workers of one process slot.
fn add_workers(snapshot: &mut Snapshot, board: &Board, mut process: Option<&mut Process>, slot: usize, draining: bool) {
    let limits = &board.limits;
    let ending = draining || process.as_ref().is_some_and(|process| process.state == ProcessState::Quiescing);
    for thread in 0..board.scoreboard.threads() {
        let worker = board.scoreboard.worker(slot, thread);
        let status = if process.is_some() { worker.status() } else { Status::Dead };
        let letter = letter(status, ending);
        let beyond = draining || slot >= limits.processes() as usize || thread >= limits.threads_per_child as usize;
        if status == Status::Dead && beyond {
            continue;
        }
        snapshot.scoreboard.push(letter);
        if let Some(process) = &mut process {
            let (sum, own) = (&mut snapshot.worker_counts, &mut process.workers);
            match letter {
                '_' => (sum.idle, own.idle) = (sum.idle + 1, own.idle + 1),
                'S' => (sum.starting, own.starting) = (sum.starting + 1, own.starting + 1),
                'G' => (sum.graceful, own.graceful) = (sum.graceful + 1, own.graceful + 1),
                '.' | 'I' => {}
                _ => (sum.busy, own.busy) = (sum.busy + 1, own.busy + 1),
            }
        }
        if status != Status::Dead || worker.requests() > 0 {
            let mut row = row(&worker, status, letter);
            (row.process, row.thread, row.generation) = (slot as u64, thread as u64, board.number);
            row.pid = process.as_ref().map(|process| process.pid).filter(|_| status != Status::Dead);
            snapshot.workers.push(row);
        }
    }
}

/// A worker of a process that ends is not there for new requests: it finishes one, or is cleaned away.
fn letter(status: Status, ending: bool) -> char {
    match status {
        Status::Doing(Activity::Ready) if ending => 'I',
        Status::Doing(_) if ending => 'G',
        status => char::from(status.letter()),
    }
}

fn row(worker: &WorkerSlot<'_>, status: Status, letter: char) -> Worker {
    let details = worker.details().unwrap_or_default();
    let (requests, bytes) = worker.own();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Worker {
        tid: Some(worker.tid()).filter(|tid| *tid > 0 && status != Status::Dead),
        status: Letter(letter),
        phase: status.step(),
        began_ms: details.began_us / 1000,
        last_used_ms: details.last_used_us / 1000,
        last_duration_us: details.last_duration_us,
        duration_us: worker.duration_us(),
        accesses: Counts { connection: details.connection.0, process: requests, slot: worker.requests() },
        bytes: Counts { connection: details.connection.1, process: bytes, slot: worker.bytes() },
        client: details.client.map(|ip| ip.to_string()).unwrap_or_default(),
        protocol: text(&details.protocol),
        vhost: text(&details.vhost),
        request: text(&details.request),
        ..Worker::default()
    }
}

fn add(sum: &mut Connections, more: &Connections) {
    sum.open += more.open;
    sum.keep_alive += more.keep_alive;
    sum.wait_io += more.wait_io;
    sum.writing += more.writing;
    sum.lingering += more.lingering;
}

fn add_cpu(snapshot: &mut Snapshot) {
    let tick = sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|tick| u64::try_from(tick).ok()).unwrap_or(100);
    if let Some((own, gone)) = cpu_of(&format!("/proc/{}/stat", snapshot.server.pid), tick) {
        (snapshot.cpu, snapshot.cpu_gone) = (own, gone);
    }
    for process in &mut snapshot.processes {
        process.cpu = cpu_of(&format!("/proc/{}/stat", process.pid), tick).map(|(own, _)| own);
        let cpu = process.cpu.unwrap_or_default();
        snapshot.cpu.user_ms += cpu.user_ms;
        snapshot.cpu.system_ms += cpu.system_ms;
    }
    let alive = snapshot.workers.iter_mut().filter(|worker| worker.phase != Step::Dead);
    for worker in alive.take(THREADS_READ_MAX) {
        if let (Some(pid), Some(tid)) = (worker.pid, worker.tid) {
            worker.cpu = cpu_of(&format!("/proc/{pid}/task/{tid}/stat"), tick).map(|(own, _)| own);
        }
    }
}

/// CPU time of a process and of its children that are gone; `None` for one that is gone itself.
fn cpu_of(stat: &str, tick: u64) -> Option<(Cpu, Cpu)> {
    cpu(&fs::read_to_string(Path::new(stat)).ok()?, tick)
}

/// See proc_pid_stat(5): fields 14 to 17, in clock ticks. The name before them may contain anything, even parentheses.
fn cpu(stat: &str, tick: u64) -> Option<(Cpu, Cpu)> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split_ascii_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
    let mut next = || Some(times.next()?? * 1000 / tick.max(1));
    let own = Cpu { user_ms: next()?, system_ms: next()? };
    Some((own, Cpu { user_ms: next()?, system_ms: next()? }))
}

fn load_averages() -> Option<[f64; 3]> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let mut averages = text.split_ascii_whitespace().map(|word| word.parse().ok());
    let mut next = || averages.next()?;
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use manifold_engine::phases::Phases;
    use manifold_engine::serve::Conn;

    use super::*;
    use crate::limits::{Occasion, RawLimits, resolve};
    use crate::scoreboard::Began;

    const NOW: Duration = Duration::from_secs(1_700_000_100);

    /// A generation of 3 processes of 2 threads, with room for one process more in the board.
    fn board(number: u64) -> Board {
        let (limits, _) = resolve(Model::Event, &RawLimits::default(), 2, Occasion::Start);
        let limits = Limits { threads_per_child: 2, max_request_workers: 6, server_limit: 4, ..limits };
        Board { number, limits, scoreboard: Scoreboard::new(4, 3).unwrap() }
    }

    /// Puts a process into a slot, its workers at these activities.
    fn occupy(board: &Board, slot: usize, state: ServerState, activities: [Activity; 2]) {
        let server = board.scoreboard.server(slot);
        // No process has the highest number there can be.
        server.occupy(i32::MAX - slot as i32, board.number);
        server.set_state(state);
        server.set_used();
        for (thread, activity) in activities.into_iter().enumerate() {
            board.scoreboard.worker(slot, thread).begin();
            board.scoreboard.worker(slot, thread).set_status(Status::Doing(activity));
        }
    }

    fn source(ledger: &Ledger, boards: &[Board]) -> Source {
        let mut site = Site::new(Phases::new());
        site.extended_status = true;
        Source::new(ledger.clone(), boards.to_vec(), &site)
    }

    #[test]
    fn letters_and_counts_are_as_the_slots_are() {
        use Activity::{Handling, KeepAlive, Ready, Writing};
        let ledger = Ledger::new(NOW).unwrap();
        let boards = [board(2), board(1)];
        ledger.reloaded(2, crate::ledger::Reload::Graceful, NOW);
        occupy(&boards[0], 0, ServerState::Running, [Ready, Handling]);
        occupy(&boards[0], 1, ServerState::Quiescing, [Ready, Writing]);
        // Above MaxRequestWorkers / ThreadsPerChild, and alive because a slot below has a process that ends.
        occupy(&boards[0], 3, ServerState::Running, [KeepAlive, Ready]);
        occupy(&boards[1], 2, ServerState::Quiescing, [Writing, Writing]);
        let snapshot = source(&ledger, &boards).look(NOW, false);
        assert_eq!(snapshot.scoreboard, "_WIG..K_GG");
        assert_eq!(snapshot.worker_counts, WorkerCounts { busy: 2, graceful: 3, idle: 2, starting: 0 });
        let processes: Vec<_> = snapshot.processes.iter().map(|process| (process.generation, process.slot)).collect();
        assert_eq!(processes, [(2, 0), (2, 1), (2, 3), (1, 2)]);
        let generations: Vec<_> =
            snapshot.generations.iter().map(|row| (row.number, row.draining, row.processes)).collect();
        assert_eq!(generations, [(2, false, 3), (1, true, 1)]);
        // When the older generation is gone its letters go, and so does its row.
        boards[1].scoreboard.clear(2);
        ledger.retire(&boards[1].scoreboard);
        let snapshot = source(&ledger, &boards).look(NOW, false);
        assert_eq!((snapshot.scoreboard.as_str(), snapshot.generations.len()), ("_WIG..K_", 1));
    }

    #[test]
    fn a_worker_tells_its_request() {
        let ledger = Ledger::new(NOW).unwrap();
        let board = board(1);
        occupy(&board, 0, ServerState::Running, [Activity::Ready, Activity::Writing]);
        board.scoreboard.server(0).add_open(3);
        let slot = board.scoreboard.worker(0, 1);
        slot.reading(&Conn::new("192.0.2.7:80".parse().unwrap()), NOW);
        let request = b"GET /\xff HTTP/1.1";
        slot.began(&Began { at: NOW, request, tail: false, vhost: b"a.example", protocol: "http/1.1" });
        slot.count_request(100);
        let snapshot = source(&ledger, &[board]).look(NOW + Duration::from_secs(3), false);
        let worker = &snapshot.workers[1];
        let texts = [&worker.client, &worker.protocol, &worker.vhost, &worker.request].map(String::as_str);
        assert_eq!(texts, ["192.0.2.7", "http/1.1", "a.example", "GET /\u{fffd} HTTP/1.1"]);
        assert_eq!((worker.phase, worker.status, worker.accesses.process), (Step::Sending, Letter('W'), 1));
        assert_eq!(snapshot.time_ms - worker.began_ms, 3_000);
        assert_eq!((snapshot.totals.accesses, snapshot.connections.open, snapshot.extended), (1, 3, true));
    }

    #[test]
    fn cpu_times_are_found_behind_any_name() {
        let line = "7 (a) (b c) S 1 7 7 0 -1 4194560 1 2 3 4 150 30 1000 20 20 0 1 0 5 6 7";
        let own = Cpu { user_ms: 1_500, system_ms: 300 };
        assert_eq!(cpu(line, 100), Some((own, Cpu { user_ms: 10_000, system_ms: 200 })));
        for bad in ["", "7 (a) S", "7 (a) S 1 7 7 0 -1 4194560 1 2 3 4 x 30 1000 20"] {
            assert_eq!(cpu(bad, 100), None);
        }
        assert!(cpu_of("/proc/self/stat", 100).is_some());
    }
}
