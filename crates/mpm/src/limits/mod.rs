//! Which model, and its numbers: from what the configuration says to what is in effect.
//!
//! [`resolve`] is pure. It applies Apache's corrections in Apache's order, and reports each with Apache's number and text;
//! adjustments that Apache makes in silence are reported as information. [`Limits::effective`] tells what came of it.

mod corrections;
mod effective;
mod rules;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use manifold_config::{Diagnostic, Severity, Span};

pub use rules::MAX_CONNECTIONS;

/// A multi-processing module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Model {
    /// Many processes of one thread, one connection each.
    Prefork,
    /// Some processes of many threads, one connection each.
    Worker,
    /// Some processes of many threads; idle connections are parked.
    Event,
    /// One process a core, which holds all of its core's connections.
    Percore,
}

impl Model {
    /// All models, in the order of the manual.
    pub const ALL: [Model; 4] = [Model::Prefork, Model::Worker, Model::Event, Model::Percore];

    /// The model where nothing chooses one, as in Apache.
    pub const DEFAULT: Model = Model::Event;

    /// Its name in lower case: `-M NAME`, and the middle of `LoadModule mpm_NAME_module`.
    pub fn name(self) -> &'static str {
        match self {
            Model::Prefork => "prefork",
            Model::Worker => "worker",
            Model::Event => "event",
            Model::Percore => "percore",
        }
    }

    /// Whether its processes have several threads that serve connections.
    pub fn is_threaded(self) -> bool {
        matches!(self, Model::Worker | Model::Event)
    }

    /// The directives that count its spare capacity are about these.
    fn spare_unit(self) -> &'static str {
        if self.is_threaded() { "Threads" } else { "Servers" }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Model {
    type Err = UnknownModel;

    fn from_str(name: &str) -> Result<Model, UnknownModel> {
        let found = Model::ALL.into_iter().find(|model| model.name() == name);
        found.ok_or_else(|| UnknownModel(name.to_owned()))
    }
}

/// A name that no model has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownModel(pub String);

impl fmt::Display for UnknownModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no MPM '{}'; choose prefork, worker, event or percore", self.0)
    }
}

impl std::error::Error for UnknownModel {}

/// A number as it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Written<T> {
    /// The number.
    pub value: T,
    /// Where it was written; `None` where a program chose it.
    pub span: Option<Span>,
    /// The directive's name as the manual spells it; older names are accepted and reported.
    pub directive: &'static str,
}

/// What the configuration says about processes and threads; `None` where it says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawLimits {
    /// `StartServers`.
    pub start_servers: Option<Written<i64>>,
    /// `MinSpareServers` or `MinSpareThreads`.
    pub min_spare: Option<Written<i64>>,
    /// `MaxSpareServers` or `MaxSpareThreads`.
    pub max_spare: Option<Written<i64>>,
    /// `ServerLimit`.
    pub server_limit: Option<Written<i64>>,
    /// `ThreadLimit`.
    pub thread_limit: Option<Written<i64>>,
    /// `ThreadsPerChild`.
    pub threads_per_child: Option<Written<i64>>,
    /// `MaxRequestWorkers`, once `MaxClients`.
    pub max_request_workers: Option<Written<i64>>,
    /// `MaxConnectionsPerChild`, once `MaxRequestsPerChild`; not negative.
    pub max_connections_per_child: Option<Written<i64>>,
    /// `AsyncRequestWorkerFactor`, above 0.
    pub async_factor: Option<Written<f64>>,
    /// `GracefulShutdownTimeout`; zero is no limit.
    pub graceful_shutdown_timeout: Option<Duration>,
    /// `Cores`; without a number (`auto`) all that are there.
    pub cores: Option<Written<Option<i64>>>,
    /// `MaxConnections` of each process.
    pub max_connections: Option<Written<i64>>,
    /// `CorePinning`.
    pub core_pinning: Option<bool>,
    /// `ListenCoresBucketsRatio`, at least 1.
    pub listen_cores_buckets_ratio: Option<Written<i64>>,
    /// `SpawnPolicy`.
    pub spawn_policy: Option<SpawnPolicy>,
    /// Bytes, `ThreadStackSize`; not negative, zero is the system's default.
    pub thread_stack: Option<Written<i64>>,
}

/// How many children are made ahead of the load (`SpawnPolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpawnPolicy {
    /// As Apache does it: growth doubles each second that spares are short.
    #[default]
    Compatible,
    /// As many as arrivals and service times ask for.
    Predictive,
}

/// The numbers in effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Which model.
    pub model: Model,
    /// Processes at start.
    pub start_servers: u32,
    /// Fewest idle processes in prefork, idle threads of the whole server in worker and event; 0 in percore.
    pub min_spare: u32,
    /// Most idle ones, in the same unit; always more than `min_spare`.
    pub max_spare: u32,
    /// Process slots of the scoreboard.
    pub server_limit: u32,
    /// Thread slots of each process in the scoreboard.
    pub thread_limit: u32,
    /// Threads of a process that serve connections; 1 in prefork and percore.
    pub threads_per_child: u32,
    /// Requests that are worked on at the same time in the whole server: a multiple of `threads_per_child`, and never
    /// more than `server_limit` processes hold. In percore, where a core works on one at any instant, the cores.
    pub max_request_workers: u32,
    /// Connections after which a process is replaced; 0 is never.
    pub max_connections_per_child: u64,
    /// event: connections a process accepts beyond `threads_per_child`, for each idle thread; at least 1.
    pub async_factor: f64,
    /// How long a graceful stop waits for connections; `None` is for as long as they take.
    pub graceful_shutdown_timeout: Option<Duration>,
    /// percore: processes, one a core; 1 elsewhere.
    pub cores: u32,
    /// percore and event: connections a process holds at the same time, idle ones included. 0 in the other models.
    pub max_connections: u32,
    /// percore: whether each process stays on its core.
    pub core_pinning: bool,
    /// Sets of listening sockets among which the kernel spreads connections (Apache's listener buckets); at least 1 and
    /// never more than processes. In percore one a core, elsewhere by `ListenCoresBucketsRatio`.
    pub listener_sets: u32,
    /// prefork, worker, event: how spare children are made.
    pub spawn_policy: SpawnPolicy,
    /// worker and event: bytes of the stack of a thread; `None` leaves it to the system.
    pub thread_stack: Option<usize>,
}

impl Limits {
    /// Processes that may run at the same time in one generation.
    pub fn processes(&self) -> u32 {
        self.max_request_workers / self.threads_per_child
    }

    /// The same in one process (`-X`).
    #[must_use]
    pub fn one_process(self) -> Limits {
        Limits {
            start_servers: 1,
            server_limit: 1,
            max_request_workers: self.threads_per_child,
            cores: 1,
            listener_sets: 1,
            ..self
        }
    }
}

/// When numbers are resolved. Apache words its corrections differently then, and numbers them differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The server starts, or a configuration is only checked: the reader sits at a console.
    Start,
    /// A running server takes a new configuration: the reader looks into the error log.
    Reload,
}

/// Something that is to be said about the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it means for the configuration.
    pub kind: Kind,
    /// The words, and where the number was written.
    pub diagnostic: Diagnostic,
}

/// What a [`Finding`] means for the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number is not allowed, and another holds. Apache warns of it.
    Correction,
    /// A number, be it written or a default, does not go with the others, and another holds. Apache says nothing.
    Adjustment,
    /// Numbers hold as they are written.
    Note,
}

impl Finding {
    /// Whether another number holds than the one that was written, or the default.
    pub fn is_change(&self) -> bool {
        self.kind != Kind::Note
    }

    /// How it stands in the error log: `AH00498: ServerLimit of 300000 exceeds ...`.
    pub fn line(&self) -> String {
        let Diagnostic { code, message, .. } = &self.diagnostic;
        code.map_or_else(|| message.clone(), |code| format!("AH{code:05}: {message}"))
    }
}

/// What is in effect when the configuration says `raw` and the machine has `cores_available` cores for this process, and
/// what there is to say about it, in Apache's order.
///
/// A reload resolves with [`Occasion::Reload`] and then calls [`log_findings`]; corrections have Apache's second number and
/// its shorter text there. Apache's rules that keep `ServerLimit` and `ThreadLimit` as they were at start (AH00179,
/// AH00304, AH00309, AH00501, AH00506) are not among them: each generation has a scoreboard of its own, so a reload may
/// change both.
pub fn resolve(model: Model, raw: &RawLimits, cores_available: u32, occasion: Occasion) -> (Limits, Vec<Finding>) {
    corrections::Resolver::new(model, raw, cores_available.max(1), occasion).resolve()
}

/// Writes `findings` to the error log as `model`'s: corrections as warnings, the rest at level info.
///
/// The new generation's model, `Limits::model`, is the one whose numbers they are about.
pub fn log_findings<'a>(model: Model, findings: impl IntoIterator<Item = &'a Finding>) {
    let target = match model {
        Model::Prefork => "mpm_prefork",
        Model::Worker => "mpm_worker",
        Model::Event => "mpm_event",
        Model::Percore => "mpm_percore",
    };
    for finding in findings {
        match finding.diagnostic.severity {
            Severity::Info => log::debug!(target: target, "{}", finding.line()),
            Severity::Warning | Severity::Error => log::warn!(target: target, "{}", finding.line()),
        }
    }
}
