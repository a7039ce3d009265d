//! Which model, and its numbers: from what the configuration says to what is in effect.
//!
//! [`resolve`] is pure. It applies Apache's corrections in Apache's order, and reports each with Apache's number and text;
//! adjustments that Apache makes in silence are reported as information.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use manifold_config::{Diagnostic, Span};

/// A multi-processing module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Model {
    /// Many processes of one thread, one connection each.
    Prefork,
    /// Some processes of many threads, one connection each.
    Worker,
    /// Some processes of many threads; idle connections are parked with a listener.
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
    /// `ListenCoresBucketsRatio`, not negative.
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
    /// Sets of listening sockets among which the kernel spreads connections; at least 1. In percore one a core, elsewhere
    /// by `ListenCoresBucketsRatio`.
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

/// `MaxConnections` where nothing is said.
pub const MAX_CONNECTIONS: u32 = 65_536;
/// More cores than any machine of today has; bounds the memory of the scoreboard.
const CORES_MAX: i64 = 4_096;

/// What is in effect when the configuration says `raw` and the machine has `cores_available` cores, and what had to be
/// corrected for it.
pub fn resolve(model: Model, raw: &RawLimits, cores_available: u32) -> (Limits, Vec<Diagnostic>) {
    let mut resolver = Resolver { model, raw, findings: Vec::new() };
    resolver.report_old_names();
    let limits = match model {
        Model::Prefork => resolver.prefork(),
        Model::Worker | Model::Event => resolver.threaded(),
        Model::Percore => resolver.percore(cores_available.max(1)),
    };
    (limits, resolver.findings)
}

/// What differs between models: defaults, compiled-in bounds and message numbers (`mpm_common.h` and each model's
/// `mpm_default.h` in Apache).
struct Rules {
    server_limit: i64,
    server_limit_max: i64,
    thread_limit: i64,
    thread_limit_max: i64,
    threads_per_child: i64,
    max_request_workers: i64,
    start_servers: i64,
    min_spare: i64,
    max_spare: i64,
    /// Number of the first message about `ServerLimit`; the others follow in steps of 2 (see `Resolver`).
    code: u16,
    max_clients_code: u16,
}

const PREFORK: Rules = Rules {
    server_limit: 256,
    server_limit_max: 200_000,
    thread_limit: 1,
    thread_limit_max: 1,
    threads_per_child: 1,
    max_request_workers: 256,
    start_servers: 5,
    min_spare: 5,
    max_spare: 10,
    code: 175,
    max_clients_code: 188,
};

const WORKER: Rules = Rules {
    server_limit: 16,
    server_limit_max: 20_000,
    thread_limit: 64,
    thread_limit_max: 20_000,
    threads_per_child: 25,
    max_request_workers: 400,
    start_servers: 3,
    min_spare: 75,
    max_spare: 250,
    code: 300,
    max_clients_code: 324,
};

const EVENT: Rules = Rules { thread_limit_max: 100_000, code: 497, max_clients_code: 521, ..WORKER };

struct Resolver<'a> {
    model: Model,
    raw: &'a RawLimits,
    findings: Vec<Diagnostic>,
}

impl Resolver<'_> {
    fn prefork(&mut self) -> Limits {
        let rules = &PREFORK;
        let raw = self.raw;
        let server_limit = self.server_limit(rules);
        let written = &raw.max_request_workers;
        let mut workers = value(written, rules.max_request_workers);
        if workers > server_limit {
            let text = format!(
                "MaxRequestWorkers of {workers} exceeds ServerLimit value of {server_limit} servers, decreasing \
                 MaxRequestWorkers to {server_limit}. To increase, please see the ServerLimit directive."
            );
            self.warn(rules.code + 5, span(written).or(span(&raw.server_limit)), text);
            workers = server_limit;
        }
        let workers = self.at_least_one(rules.code + 7, "MaxRequestWorkers", written, workers);
        self.finish(rules, rules.code + 9, server_limit, 1, 1, workers)
    }

    fn threaded(&mut self) -> Limits {
        let rules = if self.model == Model::Worker { &WORKER } else { &EVENT };
        let server_limit = self.server_limit(rules);
        let thread_limit = self.thread_limit(rules);
        let threads = self.threads_per_child(rules, thread_limit);
        let workers = self.max_request_workers(rules, server_limit, threads);
        self.finish(rules, rules.code + 20, server_limit, thread_limit, threads, workers)
    }

    fn percore(&mut self, available: u32) -> Limits {
        let raw = self.raw;
        let cores = match &raw.cores {
            Some(Written { value: Some(wanted), span, .. }) => self.cores(*wanted, *span, available),
            _ => i64::from(available),
        };
        let most = value(&raw.max_connections, i64::from(MAX_CONNECTIONS));
        let most = if most < 1 {
            self.warn(
                None,
                span(&raw.max_connections),
                format!("MaxConnections of {most} not allowed, increasing to 1."),
            );
            1
        } else {
            most
        };
        let cores = number(cores);
        Limits {
            start_servers: cores,
            min_spare: 0,
            max_spare: cores,
            server_limit: cores,
            thread_limit: 1,
            threads_per_child: 1,
            max_request_workers: cores,
            cores,
            max_connections: number(most),
            listener_sets: cores,
            ..self.common()
        }
    }

    fn cores(&mut self, wanted: i64, span: Option<Span>, available: u32) -> i64 {
        if wanted < 1 {
            self.warn(None, span, format!("Cores of {wanted} not allowed, increasing to 1."));
            return 1;
        }
        if wanted > CORES_MAX {
            let text = format!(
                "Cores of {wanted} exceeds compile-time limit of {CORES_MAX} cores, decreasing to {CORES_MAX}."
            );
            self.warn(None, span, text);
            return CORES_MAX;
        }
        if wanted > i64::from(available) {
            let text =
                format!("Cores of {wanted} exceeds the {available} that this process may use; cores are shared.");
            self.inform(None, span, text);
        }
        wanted
    }

    fn server_limit(&mut self, rules: &Rules) -> i64 {
        let written = &self.raw.server_limit;
        let limit = value(written, rules.server_limit);
        let limit = self.at_most(rules.code, "ServerLimit", written, limit, rules.server_limit_max, "servers");
        self.at_least_one(rules.code + 2, "ServerLimit", written, limit)
    }

    fn thread_limit(&mut self, rules: &Rules) -> i64 {
        let written = &self.raw.thread_limit;
        let limit = value(written, rules.thread_limit);
        let limit = self.at_most(rules.code + 5, "ThreadLimit", written, limit, rules.thread_limit_max, "threads");
        self.at_least_one(rules.code + 7, "ThreadLimit", written, limit)
    }

    fn threads_per_child(&mut self, rules: &Rules, thread_limit: i64) -> i64 {
        let written = &self.raw.threads_per_child;
        let mut threads = value(written, rules.threads_per_child);
        if threads > thread_limit {
            let text = format!(
                "ThreadsPerChild of {threads} exceeds ThreadLimit of {thread_limit} threads, decreasing to \
                 {thread_limit}. To increase, please see the ThreadLimit directive."
            );
            self.warn(rules.code + 10, span(written).or(span(&self.raw.thread_limit)), text);
            threads = thread_limit;
        }
        self.at_least_one(rules.code + 12, "ThreadsPerChild", written, threads)
    }

    fn max_request_workers(&mut self, rules: &Rules, server_limit: i64, threads: i64) -> i64 {
        let written = &self.raw.max_request_workers;
        let mut workers = value(written, rules.max_request_workers);
        let place = span(written).or(span(&self.raw.threads_per_child)).or(span(&self.raw.thread_limit));
        if workers < threads {
            let text = format!(
                "MaxRequestWorkers of {workers} is less than ThreadsPerChild of {threads}, increasing to {threads}. \
                 MaxRequestWorkers must be at least as large as the number of threads in a single server."
            );
            self.warn(rules.code + 14, place, text);
            workers = threads;
        }
        let processes = workers / threads;
        if workers % threads != 0 {
            let nearest = processes * threads;
            let text = format!(
                "MaxRequestWorkers of {workers} is not an integer multiple of ThreadsPerChild of {threads}, decreasing \
                 to nearest multiple {nearest}, for a maximum of {processes} servers."
            );
            self.warn(rules.code + 16, place, text);
            workers = nearest;
        }
        if processes > server_limit {
            let most = server_limit * threads;
            let text = format!(
                "MaxRequestWorkers of {workers} would require {processes} servers and would exceed ServerLimit of \
                 {server_limit}, decreasing to {most}. To increase, please see the ServerLimit directive."
            );
            self.warn(rules.code + 18, place.or(span(&self.raw.server_limit)), text);
            workers = most;
        }
        workers
    }

    /// The rules that prefork, worker and event share: first `StartServers`, whose message is number `code`, then spares.
    fn finish(
        &mut self,
        rules: &Rules,
        code: u16,
        servers: i64,
        thread_limit: i64,
        threads: i64,
        workers: i64,
    ) -> Limits {
        let raw = self.raw;
        let start = value(&raw.start_servers, rules.start_servers);
        let start = self.at_least_one(code, "StartServers", &raw.start_servers, start);
        let mut min_spare = value(&raw.min_spare, rules.min_spare);
        let unit = self.model.spare_unit();
        if min_spare < 1 {
            let text = format!(
                "MinSpare{unit} of {min_spare} not allowed, increasing to 1 to avoid almost certain server failure. \
                 Please read the documentation."
            );
            self.warn(code + 2, span(&raw.min_spare), text);
            min_spare = 1;
        }
        let processes = workers / threads;
        if start > processes && raw.start_servers.is_some() {
            let text =
                format!("StartServers of {start} exceeds the {processes} processes allowed; {processes} are started.");
            self.inform(None, span(&raw.start_servers), text);
        }
        Limits {
            start_servers: number(start.min(processes)),
            min_spare: number(min_spare),
            max_spare: number(self.max_spare(rules, min_spare, threads)),
            server_limit: number(servers),
            thread_limit: number(thread_limit),
            threads_per_child: number(threads),
            max_request_workers: number(workers),
            ..self.common()
        }
    }

    /// Room for one more process between the two bounds, or the parent would start and end processes in turns.
    fn max_spare(&mut self, rules: &Rules, min_spare: i64, threads: i64) -> i64 {
        let written = &self.raw.max_spare;
        let wanted = value(written, rules.max_spare);
        let room = if self.model.is_threaded() { threads + 1 } else { 1 };
        let least = min_spare.saturating_add(room);
        if wanted < least && written.is_some() {
            let unit = self.model.spare_unit();
            let text = format!(
                "MaxSpare{unit} of {wanted} is too close to MinSpare{unit} of {min_spare}, increasing to {least}."
            );
            self.inform(None, span(written), text);
        }
        wanted.max(least)
    }

    fn common(&mut self) -> Limits {
        let raw = self.raw;
        let factor = raw.async_factor.as_ref().map_or(2.0, |written| written.value);
        if factor < 1.0 {
            let place = raw.async_factor.as_ref().and_then(|written| written.span);
            self.inform(None, place, format!("AsyncRequestWorkerFactor of {factor} is less than 1, increasing to 1."));
        }
        Limits {
            model: self.model,
            start_servers: 1,
            min_spare: 0,
            max_spare: 1,
            server_limit: 1,
            thread_limit: 1,
            threads_per_child: 1,
            max_request_workers: 1,
            max_connections_per_child: value(&raw.max_connections_per_child, 0).max(0).unsigned_abs(),
            async_factor: factor.max(1.0),
            graceful_shutdown_timeout: raw.graceful_shutdown_timeout.filter(|timeout| !timeout.is_zero()),
            cores: 1,
            max_connections: if self.model == Model::Event { MAX_CONNECTIONS } else { 0 },
            core_pinning: raw.core_pinning.unwrap_or(true),
            listener_sets: 1,
            spawn_policy: raw.spawn_policy.unwrap_or_default(),
            thread_stack: usize::try_from(value(&raw.thread_stack, 0)).ok().filter(|bytes| *bytes > 0),
        }
    }

    fn report_old_names(&mut self) {
        let raw = self.raw;
        let max_clients_code = match self.model {
            Model::Prefork => Some(PREFORK.max_clients_code),
            Model::Worker => Some(WORKER.max_clients_code),
            Model::Event => Some(EVENT.max_clients_code),
            Model::Percore => None,
        };
        let renamed = [
            (&raw.max_request_workers, "MaxClients", "MaxRequestWorkers", max_clients_code),
            (&raw.max_connections_per_child, "MaxRequestsPerChild", "MaxConnectionsPerChild", Some(545)),
        ];
        for (written, old, new, code) in renamed {
            if let Some(written) = written.filter(|written| written.directive == old) {
                self.inform(code, written.span, format!("{old} is deprecated, use {new} instead."));
            }
        }
    }

    fn at_most(
        &mut self,
        code: u16,
        name: &str,
        written: &Option<Written<i64>>,
        wanted: i64,
        most: i64,
        unit: &str,
    ) -> i64 {
        if wanted > most {
            let text = format!("{name} of {wanted} exceeds compile-time limit of {most} {unit}, decreasing to {most}.");
            self.warn(code, span(written), text);
        }
        wanted.min(most)
    }

    fn at_least_one(&mut self, code: u16, name: &str, written: &Option<Written<i64>>, wanted: i64) -> i64 {
        if wanted < 1 {
            self.warn(code, span(written), format!("{name} of {wanted} not allowed, increasing to 1."));
        }
        wanted.max(1)
    }

    fn warn(&mut self, code: impl Into<Option<u16>>, span: Option<Span>, mut text: String) {
        // Part of the text at start-up, as in Apache.
        text.insert_str(0, "WARNING: ");
        self.findings.push(Diagnostic { code: code.into(), ..Diagnostic::warning(span, text) });
    }

    fn inform(&mut self, code: Option<u16>, span: Option<Span>, text: String) {
        self.findings.push(Diagnostic { code, ..Diagnostic::info(span, text) });
    }
}

fn value(written: &Option<Written<i64>>, default: i64) -> i64 {
    written.as_ref().map_or(default, |written| written.value)
}

fn span(written: &Option<Written<i64>>) -> Option<Span> {
    written.as_ref().and_then(|written| written.span)
}

/// A corrected number as a `Limits` holds it. Nothing is negative here; numbers without a bound of their own saturate.
fn number(corrected: i64) -> u32 {
    u32::try_from(corrected).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use manifold_config::Severity;

    /// Numbers in effect, as `start min max servers thread-limit threads workers`.
    fn shape(limits: &Limits) -> String {
        let l = limits;
        let numbers = [l.start_servers, l.min_spare, l.max_spare, l.server_limit, l.thread_limit, l.threads_per_child];
        let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
        format!("{} {}", numbers.join(" "), l.max_request_workers)
    }

    /// `settings` is `Name value; Name value`; `expected` the shape and then each finding on a line of its own.
    #[track_caller]
    fn check(model: Model, settings: &str, expected: &[&str]) {
        let mut raw = RawLimits::default();
        for (name, number) in settings.split(';').filter_map(|setting| setting.trim().split_once(' ')) {
            set(&mut raw, name, number);
        }
        let (limits, findings) = resolve(model, &raw, 4);
        let mut seen = vec![shape(&limits)];
        seen.extend(findings.iter().map(|finding| {
            let code = finding.code.map_or(String::new(), |code| format!("AH{code:05}: "));
            assert_eq!(finding.severity == Severity::Warning, finding.message.starts_with("WARNING: "));
            format!("{code}{}", finding.message)
        }));
        assert_eq!(seen, expected, "{model}: {settings}");
    }

    fn set(raw: &mut RawLimits, name: &str, number: &str) {
        let integer = |directive| Some(Written { value: number.parse().unwrap(), span: None, directive });
        match name {
            "StartServers" => raw.start_servers = integer("StartServers"),
            "MinSpare" => raw.min_spare = integer("MinSpareThreads"),
            "MaxSpare" => raw.max_spare = integer("MaxSpareThreads"),
            "ServerLimit" => raw.server_limit = integer("ServerLimit"),
            "ThreadLimit" => raw.thread_limit = integer("ThreadLimit"),
            "ThreadsPerChild" => raw.threads_per_child = integer("ThreadsPerChild"),
            "MaxRequestWorkers" => raw.max_request_workers = integer("MaxRequestWorkers"),
            "MaxClients" => raw.max_request_workers = integer("MaxClients"),
            "MaxRequestsPerChild" => raw.max_connections_per_child = integer("MaxRequestsPerChild"),
            "Cores" => raw.cores = Some(Written { value: number.parse().ok(), span: None, directive: "Cores" }),
            "MaxConnections" => raw.max_connections = integer("MaxConnections"),
            _ => panic!("no setting {name}"),
        }
    }

    // The texts and numbers below were printed by `apache2 -t`, 2.4.71, for the same settings; those without a number are ours.

    #[test]
    fn prefork_corrects_as_apache_does() {
        let check = |settings, expected: &[&str]| check(Model::Prefork, settings, expected);
        check("", &["5 5 10 256 1 1 256"]);
        let too_many = "AH00175: WARNING: ServerLimit of 300000 exceeds compile-time limit of 200000 servers, decreasing to 200000.";
        check("ServerLimit 300000", &["5 5 10 200000 1 1 256", too_many]);
        let none = "AH00177: WARNING: ServerLimit of 0 not allowed, increasing to 1.";
        let cascade = "AH00180: WARNING: MaxRequestWorkers of 256 exceeds ServerLimit value of 1 servers, decreasing \
                       MaxRequestWorkers to 1. To increase, please see the ServerLimit directive.";
        check("ServerLimit 0", &["1 5 10 1 1 1 1", none, cascade]);
        let capped = "AH00180: WARNING: MaxRequestWorkers of 390 exceeds ServerLimit value of 256 servers, decreasing \
                      MaxRequestWorkers to 256. To increase, please see the ServerLimit directive.";
        check("MaxRequestWorkers 390", &["5 5 10 256 1 1 256", capped]);
        let no_workers = "AH00182: WARNING: MaxRequestWorkers of 0 not allowed, increasing to 1.";
        check("MaxRequestWorkers 0", &["1 5 10 256 1 1 1", no_workers]);
        let no_start = "AH00184: WARNING: StartServers of -3 not allowed, increasing to 1.";
        check("StartServers -3", &["1 5 10 256 1 1 256", no_start]);
        let no_spare = "AH00186: WARNING: MinSpareServers of 0 not allowed, increasing to 1 to avoid almost certain server \
                        failure. Please read the documentation.";
        check("MinSpare 0", &["5 1 10 256 1 1 256", no_spare]);
        let close = "MaxSpareServers of 3 is too close to MinSpareServers of 5, increasing to 6.";
        check("MaxSpare 3", &["5 5 6 256 1 1 256", close]);
        let old = "AH00188: MaxClients is deprecated, use MaxRequestWorkers instead.";
        check("MaxClients 100", &["5 5 10 256 1 1 100", old]);
    }

    #[test]
    fn worker_corrects_as_apache_does() {
        let check = |settings, expected: &[&str]| check(Model::Worker, settings, expected);
        check("", &["3 75 250 16 64 25 400"]);
        let above = "AH00310: WARNING: ThreadsPerChild of 100 exceeds ThreadLimit of 64 threads, decreasing to 64. To \
                     increase, please see the ThreadLimit directive.";
        let multiple = "AH00316: WARNING: MaxRequestWorkers of 400 is not an integer multiple of ThreadsPerChild of 64, \
                        decreasing to nearest multiple 384, for a maximum of 6 servers.";
        check("ThreadsPerChild 100", &["3 75 250 16 64 64 384", above, multiple]);
        let no_threads = "AH00307: WARNING: ThreadLimit of 0 not allowed, increasing to 1.";
        let to_one = "AH00310: WARNING: ThreadsPerChild of 25 exceeds ThreadLimit of 1 threads, decreasing to 1. To \
                      increase, please see the ThreadLimit directive.";
        let servers = "AH00318: WARNING: MaxRequestWorkers of 400 would require 400 servers and would exceed ServerLimit of \
                       16, decreasing to 16. To increase, please see the ServerLimit directive.";
        check("ThreadLimit 0", &["3 75 250 16 1 1 16", no_threads, to_one, servers]);
        let many_servers =
            "AH00300: WARNING: ServerLimit of 300000 exceeds compile-time limit of 20000 servers, decreasing to 20000.";
        check("ServerLimit 300000", &["3 75 250 20000 64 25 400", many_servers]);
        let many_threads =
            "AH00305: WARNING: ThreadLimit of 200000 exceeds compile-time limit of 20000 threads, decreasing to 20000.";
        check("ThreadLimit 200000", &["3 75 250 16 20000 25 400", many_threads]);
        let no_child = "AH00312: WARNING: ThreadsPerChild of 0 not allowed, increasing to 1.";
        check("ThreadsPerChild 0", &["3 75 250 16 64 1 16", no_child, servers]);
        let few = "AH00314: WARNING: MaxRequestWorkers of 10 is less than ThreadsPerChild of 25, increasing to 25. \
                   MaxRequestWorkers must be at least as large as the number of threads in a single server.";
        check("MaxRequestWorkers 10", &["1 75 250 16 64 25 25", few]);
        let no_start = "AH00320: WARNING: StartServers of 0 not allowed, increasing to 1.";
        check("StartServers 0", &["1 75 250 16 64 25 400", no_start]);
        let no_spare = "AH00322: WARNING: MinSpareThreads of 0 not allowed, increasing to 1 to avoid almost certain server \
                        failure. Please read the documentation.";
        check("MinSpare 0", &["3 1 250 16 64 25 400", no_spare]);
        let old = "AH00324: MaxClients is deprecated, use MaxRequestWorkers instead.";
        let older = "AH00545: MaxRequestsPerChild is deprecated, use MaxConnectionsPerChild instead.";
        check("MaxClients 100; MaxRequestsPerChild 3", &["3 75 250 16 64 25 100", old, older]);
    }

    #[test]
    fn event_corrects_as_apache_does() {
        let check = |settings, expected: &[&str]| check(Model::Event, settings, expected);
        check("", &["3 75 250 16 64 25 400"]);
        let servers = "AH00499: WARNING: ServerLimit of 0 not allowed, increasing to 1.";
        let threads = "AH00504: WARNING: ThreadLimit of 0 not allowed, increasing to 1.";
        let above = "AH00507: WARNING: ThreadsPerChild of 3 exceeds ThreadLimit of 1 threads, decreasing to 1. To increase, \
                     please see the ThreadLimit directive.";
        let required = "AH00515: WARNING: MaxRequestWorkers of 400 would require 400 servers and would exceed ServerLimit \
                        of 1, decreasing to 1. To increase, please see the ServerLimit directive.";
        let start = "AH00517: WARNING: StartServers of 0 not allowed, increasing to 1.";
        let all = "ServerLimit 0; ThreadLimit 0; ThreadsPerChild 3; StartServers 0";
        check(all, &["1 75 250 1 1 1 1", servers, threads, above, required, start]);
        let many = "AH00502: WARNING: ThreadLimit of 200000 exceeds compile-time limit of 100000 threads, decreasing to 100000.";
        check("ThreadLimit 200000", &["3 75 250 16 100000 25 400", many]);
        let none = "AH00509: WARNING: ThreadsPerChild of 0 not allowed, increasing to 1.";
        let sixteen = "AH00515: WARNING: MaxRequestWorkers of 400 would require 400 servers and would exceed ServerLimit of \
                       16, decreasing to 16. To increase, please see the ServerLimit directive.";
        check("ThreadsPerChild 0", &["3 75 250 16 64 1 16", none, sixteen]);
        let few = "AH00511: WARNING: MaxRequestWorkers of 0 is less than ThreadsPerChild of 25, increasing to 25. \
                   MaxRequestWorkers must be at least as large as the number of threads in a single server.";
        check("MaxRequestWorkers 0", &["1 75 250 16 64 25 25", few]);
        let multiple = "AH00513: WARNING: MaxRequestWorkers of 390 is not an integer multiple of ThreadsPerChild of 25, \
                        decreasing to nearest multiple 375, for a maximum of 15 servers.";
        check("MaxRequestWorkers 390", &["3 75 250 16 64 25 375", multiple]);
        let no_spare = "AH00519: WARNING: MinSpareThreads of -1 not allowed, increasing to 1 to avoid almost certain server \
                        failure. Please read the documentation.";
        check("MinSpare -1", &["3 1 250 16 64 25 400", no_spare]);
        let close = "MaxSpareThreads of 80 is too close to MinSpareThreads of 75, increasing to 101.";
        check("MaxSpare 80", &["3 75 101 16 64 25 400", close]);
        let start_many = "StartServers of 20 exceeds the 16 processes allowed; 16 are started.";
        check("StartServers 20", &["16 75 250 16 64 25 400", start_many]);
        check(
            "MaxClients 100",
            &["3 75 250 16 64 25 100", "AH00521: MaxClients is deprecated, use MaxRequestWorkers instead."],
        );
    }

    #[test]
    fn percore_has_a_process_a_core() {
        let check = |settings, expected: &[&str]| check(Model::Percore, settings, expected);
        check("", &["4 0 4 4 1 1 4"]);
        check("Cores auto", &["4 0 4 4 1 1 4"]);
        check("Cores 2", &["2 0 2 2 1 1 2"]);
        check("Cores 0", &["1 0 1 1 1 1 1", "WARNING: Cores of 0 not allowed, increasing to 1."]);
        let shared = "Cores of 8 exceeds the 4 that this process may use; cores are shared.";
        check("Cores 8", &["8 0 8 8 1 1 8", shared]);
        let none = "WARNING: MaxConnections of 0 not allowed, increasing to 1.";
        check("MaxConnections 0", &["4 0 4 4 1 1 4", none]);
    }

    #[test]
    fn no_numbers_break_it() {
        let extremes = [i64::MIN, -1, 0, 1, 7, 1 << 31, i64::MAX];
        let wild = |value| Some(Written { value, span: None, directive: "ServerLimit" });
        for (model, (a, b)) in Model::ALL.into_iter().flat_map(|model| {
            extremes.into_iter().flat_map(move |a| extremes.into_iter().map(move |b| (model, (a, b))))
        }) {
            let raw = RawLimits {
                start_servers: wild(b),
                min_spare: wild(a),
                max_spare: wild(b),
                server_limit: wild(a),
                thread_limit: wild(b),
                threads_per_child: wild(b),
                max_request_workers: wild(a),
                max_connections: wild(b),
                ..RawLimits::default()
            };
            let (limits, _) = resolve(model, &raw, 0);
            assert!(limits.start_servers >= 1 && limits.start_servers <= limits.processes(), "{limits:?}");
            assert!(limits.processes() <= limits.server_limit && limits.threads_per_child <= limits.thread_limit);
            assert_eq!(limits.max_request_workers % limits.threads_per_child, 0);
        }
    }

    #[test]
    fn names_round_trip() {
        for model in Model::ALL {
            assert_eq!(model.to_string().parse(), Ok(model));
        }
        assert_eq!("mpm".parse::<Model>(), Err(UnknownModel("mpm".to_owned())));
    }
}
