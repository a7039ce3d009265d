//! The threads' figures become one [`Report`], with its verdict on itself.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::args::{ExpectLength, Options};
use super::record::{INTERVAL, Latencies, Recorder, ThreadUse};
use crate::outcome::{Ended, Outcome};
use crate::report::{
    Buckets, Bytes, Config, Connect, Errors, Flag, Generator, Report, SCHEMA, Series, StatusClasses, Summary,
    Unfinished,
};

/// From this share of its wall time on a thread counts as busy all the time.
const SATURATED_SHARE: f64 = 0.95;
/// Unfinished requests younger than this never count as stalled, nanoseconds.
const STALLED_NS: u64 = 1_000_000_000;

/// What one thread leaves.
#[derive(Debug)]
pub struct ThreadResult {
    /// The loop's end with the recorder.
    pub outcome: Outcome<Recorder>,
    /// CPU used in the window.
    pub used: ThreadUse,
}

/// Merges the threads' figures; `began` is the time of the run's clock 0.
pub fn assemble(options: &Options, address: SocketAddr, began: SystemTime, threads: &[ThreadResult]) -> Report {
    let mut latencies = Latencies::new();
    let mut connects = Latencies::new();
    let mut errors = Errors::default();
    let mut status = StatusClasses::default();
    let mut bytes = Bytes::default();
    let (mut wrong_status, mut wrong_length, mut unserved) = (0, 0, 0);
    let mut ages = Vec::new();
    for thread in threads {
        let recorder = &thread.outcome.observer;
        latencies.merge(&recorder.latencies);
        connects.merge(&recorder.connects);
        add_errors(&mut errors, &recorder.errors);
        add_status(&mut status, &recorder.status);
        bytes.received += recorder.bytes.received;
        bytes.body += recorder.bytes.body;
        bytes.sent += recorder.bytes.sent;
        wrong_status += recorder.wrong_status;
        wrong_length += recorder.wrong_length;
        unserved += thread.outcome.unserved;
        ages.extend_from_slice(&thread.outcome.unfinished);
    }
    let seconds = threads.iter().map(window_seconds).fold(0.0, f64::max);
    let completed = latencies.histogram.len();
    let warmup: u64 = threads.iter().map(|thread| thread.outcome.observer.completed_in_warmup).sum();
    let window_start = threads.iter().map(|thread| thread.outcome.observer.window_start).min().unwrap_or(0);
    let started = began.duration_since(UNIX_EPOCH).unwrap_or_default() + Duration::from_nanos(window_start);
    let mut report = Report {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        config: config(options, address),
        started_unix_us: u64::try_from(started.as_micros()).unwrap_or(0),
        seconds,
        completed,
        completed_with_warmup: completed + warmup,
        requests_per_second: if seconds > 0.0 { completed as f64 / seconds } else { 0.0 },
        errors,
        status,
        wrong_status,
        wrong_length,
        bytes,
        latency_us: summary(&latencies),
        histogram: Buckets::of(&latencies.histogram),
        connect: Connect { opened: connects.histogram.len(), latency_us: summary(&connects) },
        unfinished: unfinished(&ages),
        unserved_connections: unserved,
        generator: generator(threads),
        series: series(threads),
        flags: Vec::new(),
    };
    report.flags = flags(&report, threads, &ages);
    report
}

/// Every reason not to believe the report.
fn flags(report: &Report, threads: &[ThreadResult], ages: &[u64]) -> Vec<Flag> {
    let any = |is: fn(&ThreadResult) -> bool| threads.iter().any(is);
    let longest_us = report.latency_us.map_or(0.0, |latency| latency.max);
    let stalled = ages.iter().any(|age| *age > STALLED_NS && *age as f64 / 1000.0 > longest_us);
    [
        (report.generator.saturated, Flag::GeneratorSaturated),
        (report.wrong_status > 0, Flag::WrongStatus),
        (report.wrong_length > 0, Flag::WrongLength),
        (report.errors.total() > 0, Flag::Errors),
        (any(|thread| thread.outcome.observer.ports_exhausted), Flag::PortsExhausted),
        (any(|thread| thread.outcome.observer.descriptors_exhausted), Flag::DescriptorsExhausted),
        (report.unserved_connections > 0, Flag::UnservedConnections),
        (stalled, Flag::Stalled),
        (report.completed == 0, Flag::NothingCompleted),
        (any(|thread| !matches!(thread.outcome.ended, Ended::Requests | Ended::Duration)), Flag::Interrupted),
    ]
    .into_iter()
    .filter_map(|(holds, flag)| holds.then_some(flag))
    .collect()
}

fn window_seconds(thread: &ThreadResult) -> f64 {
    seconds(Duration::from_nanos(thread.outcome.ended_at.saturating_sub(thread.outcome.observer.window_start)))
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn config(options: &Options, address: SocketAddr) -> Config {
    Config {
        url: options.url.clone(),
        address: address.to_string(),
        connections: options.connections,
        threads: options.threads,
        keep_alive: options.keep_alive,
        requests: options.requests,
        duration_s: options.duration.map(seconds),
        warmup_s: seconds(options.warmup),
        timeout_s: seconds(options.timeout),
        pin: if options.pin.is_empty() {
            Vec::new()
        } else {
            options.pin.iter().copied().cycle().take(options.threads as usize).collect()
        },
        expect_status: options.expect_status,
        expect_length: match options.expect_length {
            ExpectLength::Exactly(length) => Some(length),
            ExpectLength::First | ExpectLength::Any => None,
        },
    }
}

fn summary(latencies: &Latencies) -> Option<Summary> {
    let count = latencies.histogram.len();
    if count == 0 {
        return None;
    }
    let percentile = |quantile| latencies.histogram.value_at_quantile(quantile) as f64;
    Some(Summary {
        min: latencies.min as f64 / 1000.0,
        mean: latencies.sum as f64 / count as f64 / 1000.0,
        p50: percentile(0.5),
        p90: percentile(0.9),
        p99: percentile(0.99),
        p99_9: percentile(0.999),
        max: latencies.max as f64 / 1000.0,
    })
}

fn unfinished(ages: &[u64]) -> Unfinished {
    let sum: u128 = ages.iter().map(|age| u128::from(*age)).sum();
    Unfinished {
        count: ages.len() as u64,
        mean_age_us: if ages.is_empty() { 0.0 } else { sum as f64 / ages.len() as f64 / 1000.0 },
        max_age_us: ages.iter().max().map_or(0.0, |age| *age as f64 / 1000.0),
    }
}

fn generator(threads: &[ThreadResult]) -> Generator {
    let mut generator = Generator::default();
    for thread in threads {
        let ThreadUse { user, system, waited } = thread.used;
        generator.user_s += seconds(user);
        generator.system_s += seconds(system);
        generator.wait_s += seconds(waited);
        let wall = window_seconds(thread);
        if wall > 0.0 {
            let on_cpu = seconds(user + system) / wall;
            let busy = seconds(user + system + waited) / wall;
            generator.cpu_share_max_thread = generator.cpu_share_max_thread.max(on_cpu.min(1.0));
            generator.busy_share_max_thread = generator.busy_share_max_thread.max(busy.min(1.0));
        }
    }
    generator.saturated = generator.busy_share_max_thread >= SATURATED_SHARE;
    generator
}

fn series(threads: &[ThreadResult]) -> Series {
    let mut series = Series { interval_ms: INTERVAL.as_millis() as u64, ..Series::default() };
    for thread in threads {
        let intervals = &thread.outcome.observer.series;
        if series.completed.len() < intervals.len() {
            series.completed.resize(intervals.len(), 0);
            series.max_latency_us.resize(intervals.len(), 0);
        }
        for (index, (completed, longest)) in intervals.iter().enumerate() {
            series.completed[index] += completed;
            series.max_latency_us[index] = series.max_latency_us[index].max(*longest);
        }
    }
    series
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

fn add_status(sum: &mut StatusClasses, more: &StatusClasses) {
    let StatusClasses { informational, success, redirection, client_error, server_error, other } = more;
    sum.informational += informational;
    sum.success += success;
    sum.redirection += redirection;
    sum.client_error += client_error;
    sum.server_error += server_error;
    sum.other += other;
}
