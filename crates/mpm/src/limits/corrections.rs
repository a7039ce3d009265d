//! Apache's corrections, in Apache's order: first those it warns of (`*_check_config` of each model), then those it makes
//! in silence when it starts to run (`*_run`).

use std::fmt;

use manifold_config::{Diagnostic, Span};

use super::rules::{
    CORES_BOUND, EVENT, EVENT_THREADS, LISTENER_SETS, MAX_CONNECTIONS, MAX_CONNECTIONS_BOUND, MAX_REQUESTS_PER_CHILD,
    PREFORK, PREFORK_WORKERS_BELOW, Rules, THREAD_STACK_LEAST, ThreadRules, WORKER, WORKER_THREADS,
};
use super::{Finding, Kind, Limits, Model, Occasion, RawLimits, Written};

/// Resolves one configuration.
pub(super) struct Resolver<'a> {
    model: Model,
    raw: &'a RawLimits,
    /// At least 1.
    cores: u32,
    occasion: Occasion,
    findings: Vec<Finding>,
}

/// What prefork, worker and event end with after the corrections that are told.
struct Shape {
    server_limit: i64,
    thread_limit: i64,
    threads: i64,
    /// A multiple of `threads`.
    workers: i64,
    start: i64,
    min_spare: i64,
}

impl<'a> Resolver<'a> {
    pub fn new(model: Model, raw: &'a RawLimits, cores: u32, occasion: Occasion) -> Resolver<'a> {
        Resolver { model, raw, cores, occasion, findings: Vec::new() }
    }

    pub fn resolve(mut self) -> (Limits, Vec<Finding>) {
        let limits = match self.model {
            Model::Prefork => self.prefork(),
            Model::Worker => self.threaded(&WORKER, &WORKER_THREADS),
            Model::Event => self.threaded(&EVENT, &EVENT_THREADS),
            Model::Percore => self.percore(),
        };
        (limits, self.findings)
    }

    fn prefork(&mut self) -> Limits {
        let (raw, rules) = (self.raw, &PREFORK);
        self.report_old_names(Some(rules.max_clients));
        let server_limit = self.server_limit(rules);
        let written = &raw.max_request_workers;
        let mut workers = value(written, rules.max_request_workers);
        if workers > server_limit {
            let of = format!("MaxRequestWorkers of {workers} exceeds ServerLimit value of {server_limit}");
            let long = format!(
                "{of} servers, decreasing MaxRequestWorkers to {server_limit}. To increase, please see the ServerLimit \
                 directive."
            );
            let place = span(written).or(span(&raw.server_limit));
            self.correct(rules.workers_above_servers, place, long, format!("{of}, decreasing to match"));
            workers = server_limit;
        }
        let workers = self.at_least_one(PREFORK_WORKERS_BELOW, "MaxRequestWorkers", written, workers);
        let (start, min_spare) = (self.start_servers(rules), self.min_spare(rules));
        if raw.thread_stack.is_some() {
            let why = "a child of prefork has one thread, and the system made its stack";
            self.note(None, span(&raw.thread_stack), format!("ThreadStackSize has no effect here: {why}"));
        }
        self.finish(rules, &Shape { server_limit, thread_limit: 1, threads: 1, workers, start, min_spare })
    }

    fn threaded(&mut self, rules: &Rules, of_threads: &ThreadRules) -> Limits {
        self.report_old_names(Some(rules.max_clients));
        let server_limit = self.server_limit(rules);
        let thread_limit = self.thread_limit(of_threads);
        let threads = self.threads_per_child(of_threads, thread_limit);
        let workers = self.max_request_workers(rules, of_threads, server_limit, threads);
        let (start, min_spare) = (self.start_servers(rules), self.min_spare(rules));
        let thread_stack = self.thread_stack(of_threads);
        let factor = if self.model == Model::Event { self.async_factor() } else { 1.0 };
        let most = if self.model == Model::Event { self.max_connections() } else { 0 };
        let limits = self.finish(rules, &Shape { server_limit, thread_limit, threads, workers, start, min_spare });
        Limits { thread_stack, async_factor: factor, max_connections: most, ..limits }
    }

    fn percore(&mut self) -> Limits {
        let raw = self.raw;
        self.report_old_names(None);
        let cores = match &raw.cores {
            Some(written @ Written { value: Some(wanted), .. }) => self.cores(*wanted, written.span),
            _ => number(i64::from(self.cores).min(CORES_BOUND)),
        };
        let max_connections = self.max_connections();
        if raw.listen_cores_buckets_ratio.is_some() {
            let why = "percore has a set of listening sockets for each core";
            let place = span(&raw.listen_cores_buckets_ratio);
            self.note(None, place, format!("ListenCoresBucketsRatio has no effect here: {why}"));
        }
        if raw.thread_stack.is_some() {
            let why = "a process of percore has one thread, and the system made its stack";
            self.note(None, span(&raw.thread_stack), format!("ThreadStackSize has no effect here: {why}"));
        }
        Limits {
            start_servers: cores,
            min_spare: 0,
            max_spare: cores,
            server_limit: cores,
            max_request_workers: cores,
            cores,
            max_connections,
            listener_sets: cores,
            ..self.common()
        }
    }

    fn cores(&mut self, wanted: i64, span: Option<Span>) -> u32 {
        let written = Some(Written { value: wanted, span, directive: "Cores" });
        let cores = self.at_most(None, "Cores", &written, wanted, CORES_BOUND, "cores");
        let cores = self.at_least_one(None, "Cores", &written, cores);
        let available = self.cores;
        if cores > i64::from(available) {
            let shared = "that this process may use; cores are shared.";
            self.note(None, span, format!("Cores of {cores} exceeds the {available} {shared}"));
        }
        number(cores)
    }

    fn max_connections(&mut self) -> u32 {
        let written = &self.raw.max_connections;
        let most = value(written, i64::from(MAX_CONNECTIONS));
        let most = self.at_most(None, "MaxConnections", written, most, MAX_CONNECTIONS_BOUND, "connections");
        number(self.at_least_one(None, "MaxConnections", written, most))
    }

    fn server_limit(&mut self, rules: &Rules) -> i64 {
        let written = &self.raw.server_limit;
        let (limit, bound) = (value(written, rules.server_limit), rules.server_limit_bound);
        let limit = self.at_most(rules.server_limit_above, "ServerLimit", written, limit, bound, "servers");
        self.at_least_one(rules.server_limit_below, "ServerLimit", written, limit)
    }

    fn thread_limit(&mut self, rules: &ThreadRules) -> i64 {
        let written = &self.raw.thread_limit;
        let (limit, bound) = (value(written, rules.thread_limit), rules.thread_limit_bound);
        let limit = self.at_most(rules.thread_limit_above, "ThreadLimit", written, limit, bound, "threads");
        self.at_least_one(rules.thread_limit_below, "ThreadLimit", written, limit)
    }

    fn threads_per_child(&mut self, rules: &ThreadRules, thread_limit: i64) -> i64 {
        let written = &self.raw.threads_per_child;
        let mut threads = value(written, rules.threads_per_child);
        if threads > thread_limit {
            let of = format!("ThreadsPerChild of {threads} exceeds ThreadLimit of {thread_limit}");
            let see = "To increase, please see the ThreadLimit directive.";
            let long = format!("{of} threads, decreasing to {thread_limit}. {see}");
            let place = span(written).or(span(&self.raw.thread_limit));
            self.correct(rules.threads_above, place, long, format!("{of}, decreasing to match"));
            threads = thread_limit;
        }
        self.at_least_one(rules.threads_below, "ThreadsPerChild", written, threads)
    }

    fn max_request_workers(&mut self, rules: &Rules, of_threads: &ThreadRules, server_limit: i64, threads: i64) -> i64 {
        let written = &self.raw.max_request_workers;
        let mut workers = value(written, rules.max_request_workers);
        let place = span(written).or(span(&self.raw.threads_per_child)).or(span(&self.raw.thread_limit));
        if workers < threads {
            let of = format!("MaxRequestWorkers of {workers} is less than ThreadsPerChild of {threads}, increasing to");
            let least = "MaxRequestWorkers must be at least as large as the number of threads in a single server.";
            let long = format!("{of} {threads}. {least}");
            self.correct(of_threads.workers_below_threads, place, long, format!("{of} match"));
            workers = threads;
        }
        let processes = workers / threads;
        if workers % threads != 0 {
            let nearest = processes * threads;
            let short = format!(
                "MaxRequestWorkers of {workers} is not an integer multiple of ThreadsPerChild of {threads}, decreasing \
                 to nearest multiple {nearest}"
            );
            let long = format!("{short}, for a maximum of {processes} servers.");
            self.correct(of_threads.workers_no_multiple, place, long, short);
            workers = nearest;
        }
        if processes > server_limit {
            let most = server_limit * threads;
            let require = format!("MaxRequestWorkers of {workers} would require {processes} servers and");
            let exceed = format!("exceed ServerLimit of {server_limit}, decreasing to {most}");
            let long = format!("{require} would {exceed}. To increase, please see the ServerLimit directive.");
            let place = place.or(span(&self.raw.server_limit));
            self.correct(rules.workers_above_servers, place, long, format!("{require} {exceed}"));
            workers = most;
        }
        workers
    }

    fn start_servers(&mut self, rules: &Rules) -> i64 {
        let written = &self.raw.start_servers;
        let start = value(written, rules.start_servers);
        self.at_least_one(rules.start_servers_below, "StartServers", written, start)
    }

    fn min_spare(&mut self, rules: &Rules) -> i64 {
        let written = &self.raw.min_spare;
        let min_spare = value(written, rules.min_spare);
        if min_spare < 1 {
            let short = format!("MinSpare{} of {min_spare} not allowed, increasing to 1", self.model.spare_unit());
            let long = format!("{short} to avoid almost certain server failure. Please read the documentation.");
            self.correct(rules.min_spare_below, span(written), long, short);
        }
        min_spare.max(1)
    }

    /// Apache learns from the C library, in each child, that a stack is too small; the message has one number.
    fn thread_stack(&mut self, rules: &ThreadRules) -> Option<usize> {
        let written = &self.raw.thread_stack;
        let bytes = value(written, 0);
        if bytes > 0 && bytes < THREAD_STACK_LEAST {
            let text = format!("ThreadStackSize of {bytes} is inappropriate, using default");
            let text = if self.occasion == Occasion::Start { format!("WARNING: {text}") } else { text };
            self.warn(Some(rules.thread_stack), span(written), text);
            return None;
        }
        usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
    }

    fn async_factor(&mut self) -> f64 {
        let written = self.raw.async_factor.as_ref();
        let factor = written.map_or(2.0, |written| written.value);
        if factor < 1.0 {
            let place = written.and_then(|written| written.span);
            self.adjust(place, format!("AsyncRequestWorkerFactor of {factor} is less than 1, increasing to 1."));
        }
        factor.max(1.0)
    }

    /// What Apache does in silence: each set of listening sockets needs a process, and spares of its own.
    fn finish(&mut self, rules: &Rules, shape: &Shape) -> Limits {
        let raw = self.raw;
        let Shape { server_limit, thread_limit, threads, mut workers, mut start, mut min_spare } = *shape;
        let (is_threaded, unit) = (self.model.is_threaded(), self.model.spare_unit());
        let sets = self.listener_sets(server_limit);
        if workers < sets * threads {
            let place = span(&raw.max_request_workers);
            workers = self.for_sets("MaxRequestWorkers", place, workers, sets * threads, sets);
        }
        if start < sets {
            start = self.for_sets("StartServers", span(&raw.start_servers), start, sets, sets);
        }
        let least = if is_threaded { threads * (sets - 1) + sets } else { sets };
        if min_spare < least {
            min_spare = self.for_sets(&format!("MinSpare{unit}"), span(&raw.min_spare), min_spare, least, sets);
        }
        // Room for one more process between the two, or the parent would start and end processes in turns.
        let room = if is_threaded { (threads + 1) * sets } else { sets };
        let least = min_spare.saturating_add(room);
        let mut max_spare = value(&raw.max_spare, rules.max_spare);
        if max_spare < least {
            let text = format!(
                "MaxSpare{unit} of {max_spare} is too close to MinSpare{unit} of {min_spare}, increasing to {least}."
            );
            self.adjust(span(&raw.max_spare).or(span(&raw.min_spare)), text);
            max_spare = least;
        }
        let processes = workers / threads;
        if start > processes {
            let text =
                format!("StartServers of {start} exceeds the {processes} processes allowed; {processes} are started.");
            self.adjust(span(&raw.start_servers).or(span(&raw.max_request_workers)), text);
            start = processes;
        }
        Limits {
            start_servers: number(start),
            min_spare: number(min_spare),
            max_spare: number(max_spare),
            server_limit: number(server_limit),
            thread_limit: number(thread_limit),
            threads_per_child: number(threads),
            max_request_workers: number(workers),
            listener_sets: number(sets),
            ..self.common()
        }
    }

    /// Apache counts the cores that are online. Counted here are those that the process may use, so that a container
    /// gets as many sets as it can keep busy.
    fn listener_sets(&mut self, server_limit: i64) -> i64 {
        let Some(Written { value: ratio, span, .. }) = self.raw.listen_cores_buckets_ratio else { return 1 };
        let cores = i64::from(self.cores);
        let sets = (cores / ratio.max(1)).max(1);
        if sets > server_limit {
            let text = format!(
                "ListenCoresBucketsRatio of {ratio} asks for {sets} sets of listening sockets, more than ServerLimit of \
                 {server_limit} processes can accept from, decreasing to {server_limit}."
            );
            self.adjust(span, text);
        }
        let sets = sets.min(server_limit);
        if sets > 1 {
            let text =
                format!("Using {sets} listeners bucket(s) based on {cores} online CPU cores and a ratio of {ratio}");
            self.note(Some(LISTENER_SETS), span, text);
        }
        sets
    }

    fn for_sets(&mut self, name: &str, place: Option<Span>, value: i64, least: i64, sets: i64) -> i64 {
        let text =
            format!("{name} of {value} is too little for {sets} sets of listening sockets, increasing to {least}.");
        self.adjust(place.or(span(&self.raw.listen_cores_buckets_ratio)), text);
        least
    }

    /// What no rule of a model is about.
    fn common(&self) -> Limits {
        let raw = self.raw;
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
            async_factor: 1.0,
            graceful_shutdown_timeout: raw.graceful_shutdown_timeout.filter(|timeout| !timeout.is_zero()),
            cores: 1,
            max_connections: 0,
            core_pinning: raw.core_pinning.unwrap_or(true),
            listener_sets: 1,
            spawn_policy: raw.spawn_policy.unwrap_or_default(),
            thread_stack: None,
        }
    }

    fn report_old_names(&mut self, max_clients: Option<u16>) {
        let raw = self.raw;
        let renamed = [
            (&raw.max_request_workers, "MaxClients", "MaxRequestWorkers", max_clients),
            (
                &raw.max_connections_per_child,
                "MaxRequestsPerChild",
                "MaxConnectionsPerChild",
                Some(MAX_REQUESTS_PER_CHILD),
            ),
        ];
        for (written, old, new, code) in renamed {
            if let Some(written) = written.filter(|written| written.directive == old) {
                self.note(code, written.span, format!("{old} is deprecated, use {new} instead."));
            }
        }
    }

    fn at_most(
        &mut self,
        code: impl Into<Option<u16>>,
        name: &str,
        written: &Option<Written<i64>>,
        wanted: i64,
        most: i64,
        unit: &str,
    ) -> i64 {
        if wanted > most {
            let of = format!("{name} of {wanted} exceeds compile-time limit of {most}");
            let long = format!("{of} {unit}, decreasing to {most}.");
            self.correct(code, span(written), long, format!("{of}, decreasing to match"));
        }
        wanted.min(most)
    }

    fn at_least_one(
        &mut self,
        code: impl Into<Option<u16>>,
        name: &str,
        written: &Option<Written<i64>>,
        wanted: i64,
    ) -> i64 {
        if wanted < 1 {
            let short = format!("{name} of {wanted} not allowed, increasing to 1");
            self.correct(code, span(written), format!("{short}."), short);
        }
        wanted.max(1)
    }

    /// `code` is that at start; at a reload Apache has the next number, and the shorter text.
    fn correct(&mut self, code: impl Into<Option<u16>>, span: Option<Span>, long: impl fmt::Display, short: String) {
        let code = code.into();
        match self.occasion {
            // Part of the text at start-up, as in Apache.
            Occasion::Start => self.warn(code, span, format!("WARNING: {long}")),
            Occasion::Reload => self.warn(code.map(|code| code + 1), span, short),
        }
    }

    fn warn(&mut self, code: Option<u16>, span: Option<Span>, text: String) {
        let diagnostic = Diagnostic { code, ..Diagnostic::warning(span, text) };
        self.findings.push(Finding { kind: Kind::Correction, diagnostic });
    }

    fn adjust(&mut self, span: Option<Span>, text: String) {
        self.findings.push(Finding { kind: Kind::Adjustment, diagnostic: Diagnostic::info(span, text) });
    }

    fn note(&mut self, code: Option<u16>, span: Option<Span>, text: String) {
        let diagnostic = Diagnostic { code, ..Diagnostic::info(span, text) };
        self.findings.push(Finding { kind: Kind::Note, diagnostic });
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
