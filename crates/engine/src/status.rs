//! What the server is doing, as plain data: the shape of `server-status?json`, and what every other form of the status page
//! is rendered from. The process model fills a [`Snapshot`] in; modules and tools only read it.
//!
//! Times of the day are milliseconds since the Unix epoch. A reader must skip fields that it does not know: new ones may
//! come without a new [`SCHEMA`].

pub mod holders;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Number of the JSON's shape. It changes when a field is renamed, removed or means something else.
pub const SCHEMA: u32 = 1;

/// The server at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Which program this is.
    pub server: Server,
    /// The moment.
    pub time_ms: u64,
    /// When the server was started. Totals count from here; reloads do not change it.
    pub started_ms: u64,
    /// When it was last restarted (HUP), or started.
    pub restarted_ms: u64,
    /// Configurations read successfully so far.
    pub config_generation: u64,
    /// The newest generation of children.
    pub mpm_generation: u64,
    /// The system's load averages over 1, 5 and 15 minutes, where it tells them.
    pub load: Option<[f64; 3]>,
    /// Whether workers tell about their requests (`ExtendedStatus`).
    pub extended: bool,
    /// Sums since the server was started.
    pub totals: Totals,
    /// CPU time of the parent and of children that run.
    pub cpu: Cpu,
    /// CPU time of children that are gone.
    pub cpu_gone: Cpu,
    /// What happened over the last seconds.
    pub rates: Rates,
    /// Workers by what they do.
    pub worker_counts: WorkerCounts,
    /// Connections by state, of all processes.
    pub connections: Connections,
    /// The numbers of the newest generation.
    pub limits: Limits,
    /// Generations with processes, the newest first.
    pub generations: Vec<Generation>,
    /// Processes, the newest generation's first.
    pub processes: Vec<Process>,
    /// Workers of those processes; and of slots without a process, where a request was answered there before.
    pub workers: Vec<Worker>,
    /// A letter for each worker slot, as `mod_status` shows them.
    pub scoreboard: String,
}

/// Which program answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Name and version, such as `Manifold/0.1.0`.
    pub version: String,
    /// When it was built, such as `2026-11-12T08:58:41`.
    pub built: String,
    /// The newest generation's model.
    pub mpm: String,
    /// Process id of the parent.
    pub pid: i32,
}

/// Sums since the server was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Requests answered.
    pub accesses: u64,
    /// Bytes of their answers, heads included.
    pub bytes: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Time spent on requests, from the complete head to the last byte handed over; 0 unless `extended`.
    pub duration_us: u64,
    /// Idle connections that were closed to make room for new ones (`MaxConnections`).
    #[serde(default)]
    pub shed: u64,
    /// New connections that were answered with 503 for lack of room.
    #[serde(default)]
    pub refused: u64,
}

/// CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// In the program.
    pub user_ms: u64,
    /// In the kernel on its behalf.
    pub system_ms: u64,
}

/// Means over the last seconds, by the parent's tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Time they are taken over; 0 where there is nothing to compare with yet, and then so are the rates.
    pub over_ms: u64,
    /// Requests answered a second.
    pub requests: f64,
    /// Bytes sent a second.
    pub bytes: f64,
    /// Connections accepted a second.
    pub connections: f64,
}

/// Workers by what they do. Those of processes that drain are `graceful` while they have work, and not counted otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerCounts {
    /// Working on a request or a connection.
    pub busy: u64,
    /// Finishing for a process that ends.
    pub graceful: u64,
    /// Waiting for work.
    pub idle: u64,
    /// Not ready yet.
    pub starting: u64,
}

/// Connections by state. Those of `open` in none of the other states hold a worker, or wait for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Accepted and not yet closed.
    pub open: u64,
    /// Parked until the client sends its next request.
    pub keep_alive: u64,
    /// Parked until the client sends more of a head or body.
    pub wait_io: u64,
    /// Parked until the client takes more of an answer.
    pub writing: u64,
    /// Half-closed, until the client closes as well.
    pub lingering: u64,
}

/// The numbers in effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// `MaxRequestWorkers`; in percore the cores.
    pub max_request_workers: u64,
    /// `ThreadsPerChild`; 1 in prefork and percore.
    pub threads_per_child: u64,
    /// `ServerLimit`; in percore the cores.
    pub server_limit: u64,
    /// `MaxConnections`, of each process; 0 in models where a connection holds a worker.
    pub max_connections: u64,
}

/// A generation that has processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// Counts up with each reload.
    pub number: u64,
    /// Its model.
    pub mpm: String,
    /// Whether a newer one has taken its place.
    pub draining: bool,
    /// Processes left.
    pub processes: u64,
    /// Its connections.
    pub connections: Connections,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its slot in its generation's scoreboard.
    pub slot: u64,
    /// Process id.
    pub pid: i32,
    /// Its generation.
    pub generation: u64,
    /// Where it is in its life.
    pub state: ProcessState,
    /// Whether it accepts connections, or holds as many as it admits.
    pub accepting: bool,
    /// When it was forked.
    pub started_ms: u64,
    /// Its CPU time, where it could be read.
    pub cpu: Option<Cpu>,
    /// Its connections.
    pub connections: Connections,
    /// Its workers.
    pub workers: WorkerCounts,
}

/// The life of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessState {
    /// Forked, not accepting yet.
    #[default]
    Starting,
    /// Accepting.
    Running,
    /// Asked to end; finishes what it has.
    Quiescing,
}

/// A worker: a thread, or a whole process in prefork.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Slot of its process.
    pub process: u64,
    /// Its own slot there.
    pub thread: u64,
    /// Generation of its process.
    pub generation: u64,
    /// Process id; `None` where there is no process any more.
    pub pid: Option<i32>,
    /// Thread id, where known.
    pub tid: Option<i32>,
    /// The letter of `mod_status`.
    pub status: Letter,
    /// The same in finer steps.
    pub phase: Step,
    /// When the current request was complete or, before that, waited for; or the last one.
    pub began_ms: u64,
    /// When the last answer was finished; 0 for never.
    pub last_used_ms: u64,
    /// How long the last request took.
    pub last_duration_us: u64,
    /// How long all requests of the slot took.
    pub duration_us: u64,
    /// Requests answered.
    pub accesses: Counts,
    /// Bytes sent.
    pub bytes: Counts,
    /// CPU time of the thread, where it could be read.
    pub cpu: Option<Cpu>,
    /// Address of the current or last client.
    pub client: String,
    /// Such as `http/1.1`.
    pub protocol: String,
    /// Which host it asked.
    pub vhost: String,
    /// The request line, at most 64 bytes of it.
    pub request: String,
}

/// A counter from three starting points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Of the current or last connection.
    pub connection: u64,
    /// Since the process started.
    pub process: u64,
    /// Of all processes that had the slot.
    pub slot: u64,
}

/// A letter of the scoreboard key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Letter(pub char);

impl Default for Letter {
    fn default() -> Letter {
        Letter('.')
    }
}

/// What a worker does, in finer steps than the letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// No such thread.
    #[default]
    Dead,
    /// Starting up.
    Starting,
    /// Waiting for work.
    Idle,
    /// Reading a request head.
    Head,
    /// Reading a request body.
    Body,
    /// Modules make the answer.
    Handler,
    /// Sending the answer.
    Sending,
    /// Waiting for the next request of a kept-alive connection.
    KeepAlive,
    /// Closing the connection.
    Closing,
    /// Writing the log.
    Logging,
}

impl Step {
    /// As it is written in JSON and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Step::Dead => "dead",
            Step::Starting => "starting",
            Step::Idle => "idle",
            Step::Head => "head",
            Step::Body => "body",
            Step::Handler => "handler",
            Step::Sending => "sending",
            Step::KeepAlive => "keep-alive",
            Step::Closing => "closing",
            Step::Logging => "logging",
        }
    }
}

/// Who can tell what the server is doing: the process model.
pub trait StatusSource: Send + Sync + fmt::Debug {
    /// The server at this moment, `now` since the Unix epoch.
    fn snapshot(&self, now: Duration) -> Snapshot;
}

/// How the status page finds its source: made with the configuration, filled whenever a generation is made of it.
#[derive(Debug, Default)]
pub struct StatusHandle(RwLock<Option<Arc<dyn StatusSource>>>);

impl StatusHandle {
    /// Sets the source.
    pub fn set(&self, source: Arc<dyn StatusSource>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }

    /// The source, once a generation was made.
    pub fn get(&self) -> Option<Arc<dyn StatusSource>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_named_as_in_json() {
        use Step::{Body, Closing, Dead, Handler, Head, Idle, KeepAlive, Logging, Sending, Starting};
        for step in [Dead, Starting, Idle, Head, Body, Handler, Sending, KeepAlive, Closing, Logging] {
            assert_eq!(serde_json::to_string(&step).unwrap(), format!("\"{}\"", step.name()));
        }
    }

    #[test]
    fn a_snapshot_reads_back_and_unknown_fields_are_skipped() {
        let worker =
            Worker { status: Letter('W'), request: "GET /\"\u{fffd} HTTP/1.1".to_owned(), ..Worker::default() };
        let snapshot = Snapshot { schema: SCHEMA, load: Some([0.5; 3]), workers: vec![worker], ..Snapshot::default() };
        let text = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
        let newer = text.replacen("\"schema\"", "\"mood\":\"fine\",\"schema\"", 1);
        assert_eq!(serde_json::from_str::<Snapshot>(&newer).unwrap(), snapshot);
    }
}
