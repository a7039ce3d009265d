//! The threads' figures become one [`Report`], with its verdict on itself.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::args::{ExpectLength, Options};
use super::intervals::Intervals;
use super::record::{NO_DESCRIPTOR, NO_LOCAL_PORT, Recorder, ThreadUse};
use super::spec::RequestSpec;
use crate::latencies::Latencies;
use crate::outcome::{Ended, Outcome};
use crate::plan::{Address, Plan};
use crate::report::{
    Buckets, Bytes, Config, Connect, Errors, Flag, Generator, Kept, PaceConfig, Report, RequestConfig, SCHEMA, Series,
    StageConfig, StatusClasses, Summary, Unfinished,
};
use crate::run::Health;
use crate::schedule::{Arrivals, Pace, Think};

/// From this share of its wall time on a thread counts as busy all the time.
const SATURATED_SHARE: f64 = 0.95;
/// Unfinished requests younger than this never count as stalled, nanoseconds.
const STALLED_NS: u64 = 1_000_000_000;

/// A scheduled request that begins later than this through the generator's fault was missed, microseconds.
const MISSED_US: u64 = 1000;
/// So large a part of the schedule may be missed, or wait for a connection.
const MISSED_SHARE: f64 = 0.01;

/// What one thread leaves.
#[derive(Debug)]
pub struct ThreadResult {
    /// The loop's end with the recorder.
    pub outcome: Outcome<Recorder>,
    /// CPU used in the window.
    pub used: ThreadUse,
}

/// Merges the threads' figures; `began` is the time of the run's clock 0.
pub fn assemble(options: &Options, plan: &Plan, began: SystemTime, threads: &[ThreadResult]) -> Report {
    merge(config(options, plan), began, threads)
}

/// The same for whoever has no options of ours.
pub fn merge(config: Config, began: SystemTime, threads: &[ThreadResult]) -> Report {
    let mut sum = Sum::default();
    threads.iter().for_each(|thread| sum.add(thread));
    let seconds = threads.iter().map(window_seconds).fold(0.0, f64::max);
    let completed = sum.latencies.count();
    let in_time = completed - sum.completed_late;
    let window_start = threads.iter().map(|thread| thread.outcome.observer.window_start).min().unwrap_or(0);
    let started = began.duration_since(UNIX_EPOCH).unwrap_or_default() + Duration::from_nanos(window_start);
    let mut report = Report {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        schedule: matches!(config.pace, PaceConfig::Open { .. }).then(|| kept(threads, &sum.health)),
        config,
        started_unix_us: u64::try_from(started.as_micros()).unwrap_or(0),
        seconds,
        completed,
        completed_with_warmup: completed + sum.completed_in_warmup,
        completed_late: sum.completed_late,
        requests_per_second: if seconds > 0.0 { in_time as f64 / seconds } else { 0.0 },
        errors: sum.errors,
        failures: sum.failures.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        status: classes(&sum.statuses),
        statuses: sum.statuses.clone(),
        wrong_status: sum.wrong_status,
        wrong_length: sum.wrong_length,
        bytes: sum.bytes,
        latency_us: Summary::of(&sum.latencies),
        histogram: Buckets::of(&sum.latencies.histogram),
        service_us: Summary::of(&sum.service),
        service_histogram: Buckets::of(&sum.service.histogram),
        first_byte_us: Summary::of(&sum.first_bytes),
        connect: Connect { opened: sum.connects.count(), latency_us: Summary::of(&sum.connects) },
        unfinished: unfinished(&sum.ages),
        unserved_connections: sum.unserved,
        generator: generator(threads, &sum.health),
        series: series(&sum.series),
        flags: Vec::new(),
    };
    report.flags = flags(&report, threads, &sum);
    report
}

/// The figures of all threads together.
#[derive(Default)]
struct Sum {
    latencies: Latencies,
    service: Latencies,
    first_bytes: Latencies,
    connects: Latencies,
    errors: Errors,
    failures: BTreeMap<&'static str, u64>,
    statuses: BTreeMap<u16, u64>,
    bytes: Bytes,
    wrong_status: u64,
    wrong_length: u64,
    unserved: u64,
    completed_in_warmup: u64,
    completed_late: u64,
    ages: Vec<u64>,
    series: Intervals,
    health: Health,
}

impl Sum {
    fn add(&mut self, thread: &ThreadResult) {
        let recorder = &thread.outcome.observer;
        self.latencies.merge(&recorder.latencies);
        self.service.merge(&recorder.service);
        self.first_bytes.merge(&recorder.first_bytes);
        self.connects.merge(&recorder.connects);
        add_errors(&mut self.errors, &recorder.errors);
        for (name, count) in &recorder.failures {
            *self.failures.entry(name).or_default() += count;
        }
        for (status, count) in (0..).zip(&recorder.statuses).filter(|(_, count)| **count > 0) {
            *self.statuses.entry(status).or_default() += count;
        }
        self.bytes.received += recorder.bytes.received;
        self.bytes.body += recorder.bytes.body;
        self.bytes.sent += recorder.bytes.sent;
        self.wrong_status += recorder.wrong_status;
        self.wrong_length += recorder.wrong_length;
        self.unserved += thread.outcome.unserved;
        self.completed_in_warmup += recorder.completed_in_warmup;
        self.completed_late += recorder.completed_late;
        self.ages.extend_from_slice(&thread.outcome.unfinished);
        self.series.merge(&recorder.series);
        self.health.merge(&thread.outcome.health);
    }
}

/// Every reason not to believe the report.
fn flags(report: &Report, threads: &[ThreadResult], sum: &Sum) -> Vec<Flag> {
    let any = |is: fn(&ThreadResult) -> bool| threads.iter().any(is);
    let is_share = |part: u64| part as f64 > sum.health.lag.count() as f64 * MISSED_SHARE;
    let missed = sum.health.lag.count() - sum.health.lag.histogram.count_between(0, MISSED_US);
    let short = report.schedule.is_some_and(|kept| kept.unsent > 0 || is_share(kept.short_of_connections));
    let ages = &sum.ages;
    let longest_us = report.latency_us.map_or(0.0, |latency| latency.max);
    let stalled = ages.iter().any(|age| *age > STALLED_NS && *age as f64 / 1000.0 > longest_us);
    [
        (report.generator.saturated, Flag::GeneratorSaturated),
        (is_share(missed), Flag::ScheduleMissed),
        (short, Flag::TooFewConnections),
        (report.wrong_status > 0, Flag::WrongStatus),
        (report.wrong_length > 0, Flag::WrongLength),
        (report.errors.total() > 0, Flag::Errors),
        (sum.failures.contains_key(NO_LOCAL_PORT), Flag::PortsExhausted),
        (sum.failures.contains_key(NO_DESCRIPTOR), Flag::DescriptorsExhausted),
        // An open loop may never have needed all of them.
        (report.schedule.is_none() && report.unserved_connections > 0, Flag::UnservedConnections),
        (stalled, Flag::Stalled),
        (report.completed == 0, Flag::NothingCompleted),
        (any(|thread| !matches!(thread.outcome.ended, Ended::Requests | Ended::Duration)), Flag::Interrupted),
    ]
    .into_iter()
    .filter_map(|(holds, flag)| holds.then_some(flag))
    .collect()
}

fn window_seconds(thread: &ThreadResult) -> f64 {
    let recorder = &thread.outcome.observer;
    let end = recorder.window_end.unwrap_or(thread.outcome.ended_at);
    seconds(Duration::from_nanos(end.saturating_sub(recorder.window_start)))
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn config(options: &Options, plan: &Plan) -> Config {
    let first = &options.requests[0];
    Config {
        url: first.url.clone(),
        address: address(plan),
        requests_sent: options.requests.iter().map(request).collect(),
        connections: options.connections,
        threads: options.threads,
        keep_alive: options.keep_alive,
        pace: pace(options),
        seed: options.seed,
        requests: options.stop_requests,
        duration_s: options.duration.map(seconds),
        warmup_s: seconds(options.warmup),
        drain_s: seconds(options.drain),
        timeout_s: seconds(options.timeout),
        pin: if options.pin.is_empty() {
            Vec::new()
        } else {
            options.pin.iter().copied().cycle().take(options.threads as usize).collect()
        },
        expect_status: first.expect_status,
        expect_length: match first.expect_length {
            ExpectLength::Exactly(length) => Some(length),
            ExpectLength::First | ExpectLength::Any => None,
        },
    }
}

/// Where the first request goes.
pub fn address(plan: &Plan) -> String {
    match &plan.endpoints[0].addresses[0] {
        Address::Inet(address) => address.to_string(),
        Address::Unix(path) => path.display().to_string(),
    }
}

fn request(spec: &RequestSpec) -> RequestConfig {
    RequestConfig {
        url: spec.url.clone(),
        method: spec.method.clone(),
        weight: spec.weight,
        body_bytes: spec.body.len() as u64,
    }
}

fn pace(options: &Options) -> PaceConfig {
    match &options.pace {
        Pace::Closed(think) => PaceConfig::Closed {
            think_mean_s: match think {
                Think::Never => 0.0,
                Think::Uniform(from, to) => f64::midpoint(seconds(*from), seconds(*to)),
                Think::Exponential(mean) => seconds(*mean),
            },
            ramp_up_s: seconds(options.ramp_up),
        },
        Pace::Open { stages, arrivals } => PaceConfig::Open {
            arrivals: match arrivals {
                Arrivals::Constant => "constant".to_owned(),
                Arrivals::Poisson => "poisson".to_owned(),
            },
            stages: stages
                .iter()
                .map(|stage| StageConfig { from: stage.from, to: stage.to, seconds: stage.length.map(seconds) })
                .collect(),
        },
    }
}

/// Of a schedule, what became of it.
fn kept(threads: &[ThreadResult], health: &Health) -> Kept {
    let unsent = threads.iter().map(|thread| thread.outcome.unsent);
    Kept {
        begun: health.lag.count(),
        unsent: unsent.clone().map(|unsent| unsent.count).sum(),
        unsent_oldest_us: microseconds(unsent.map(|unsent| unsent.oldest).max().unwrap_or(0)),
        lag_us: Summary::of(&health.lag),
        short_of_connections: health.short_of_connections,
        short_longest_us: microseconds(health.short_longest),
    }
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}

fn unfinished(ages: &[u64]) -> Unfinished {
    let sum: u128 = ages.iter().map(|age| u128::from(*age)).sum();
    Unfinished {
        count: ages.len() as u64,
        mean_age_us: if ages.is_empty() { 0.0 } else { sum as f64 / ages.len() as f64 / 1000.0 },
        max_age_us: ages.iter().max().map_or(0.0, |age| *age as f64 / 1000.0),
    }
}

fn generator(threads: &[ThreadResult], health: &Health) -> Generator {
    let mut generator = Generator {
        awake_s: health.awake as f64 / 1e9,
        turn_p99_us: health.turns.histogram.value_at_quantile(0.99) as f64,
        turn_max_us: microseconds(health.turns.max),
        ..Generator::default()
    };
    for thread in threads {
        let ThreadUse { user, system, waited } = thread.used;
        generator.user_s += seconds(user);
        generator.system_s += seconds(system);
        generator.wait_s += seconds(waited);
        let wall =
            seconds(Duration::from_nanos(thread.outcome.ended_at.saturating_sub(thread.outcome.observer.window_start)));
        if wall > 0.0 {
            let on_cpu = seconds(user + system) / wall;
            let awake = thread.outcome.health.awake as f64 / 1e9;
            let busy = (seconds(user + system + waited) - awake).max(0.0) / wall;
            generator.cpu_share_max_thread = generator.cpu_share_max_thread.max(on_cpu.min(1.0));
            generator.busy_share_max_thread = generator.busy_share_max_thread.max(busy.min(1.0));
        }
    }
    generator.saturated = generator.busy_share_max_thread >= SATURATED_SHARE;
    generator
}

fn series(intervals: &Intervals) -> Series {
    Series {
        interval_ms: intervals.width / 1_000_000,
        completed: intervals.intervals.iter().map(|interval| interval.completed).collect(),
        failed: intervals.intervals.iter().map(|interval| interval.failed).collect(),
        max_latency_us: intervals.intervals.iter().map(|interval| interval.longest).collect(),
    }
}

/// Counts by status become counts by its first digit.
fn classes(statuses: &BTreeMap<u16, u64>) -> StatusClasses {
    let mut classes = StatusClasses::default();
    for (status, count) in statuses {
        let class = match status / 100 {
            1 => &mut classes.informational,
            2 => &mut classes.success,
            3 => &mut classes.redirection,
            4 => &mut classes.client_error,
            5 => &mut classes.server_error,
            _ => &mut classes.other,
        };
        *class += count;
    }
    classes
}

fn add_errors(sum: &mut Errors, more: &Errors) {
    let Errors { connect, receive, write, timeout, length, closed_reused, exceptions } = more;
    sum.connect += connect;
    sum.receive += receive;
    sum.write += write;
    sum.timeout += timeout;
    sum.length += length;
    sum.closed_reused += closed_reused;
    sum.exceptions += exceptions;
}
