//! The threads' figures and what was asked of them become one [`Report`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::args::{ExpectLength, Options};
use super::record::{Recorder, ThreadUse};
use super::spec::RequestSpec;
use crate::grid::Grid;
use crate::outcome::{Ended, Outcome};
use crate::plan::{Address, Plan};
use crate::report::{Config, Machine, PaceConfig, Report, RequestConfig, StageConfig};
use crate::schedule::{Arrivals, Pace, Think};
use crate::slices::Slice;
use crate::tally::Tally;

/// What one thread leaves.
#[derive(Debug)]
pub struct ThreadResult {
    /// The loop's end with the recorder.
    pub outcome: Outcome<Recorder>,
    /// CPU used in the window.
    pub used: ThreadUse,
}

/// Merges the threads' figures; `began` is the time of the run's clock 0, `slices` the latencies of each second where they were kept.
pub fn assemble(
    options: &Options,
    plan: &Plan,
    began: SystemTime,
    threads: &[ThreadResult],
    slices: Grid<Slice>,
) -> Report {
    let mut report = merge(config(options, plan), began, threads, slices);
    report.replay = options.log.as_ref().map(|log| log.told.clone());
    report
}

/// The same for whoever has no options of ours.
pub fn merge(config: Config, began: SystemTime, threads: &[ThreadResult], slices: Grid<Slice>) -> Report {
    let mut sum = Tally { slices, ..Tally::default() };
    threads.iter().for_each(|thread| sum.add(&tally(thread, began)));
    let mut report = sum.report(config, Vec::new());
    report.machines = vec![Machine::of(&report, host())];
    report
}

/// The name of this machine.
fn host() -> String {
    let name = nix::sys::utsname::uname().ok().map(|names| names.nodename().to_string_lossy().into_owned());
    name.unwrap_or_default()
}

/// One thread's figures.
fn tally(thread: &ThreadResult, began: SystemTime) -> Tally {
    let ThreadResult { outcome, used } = thread;
    let (recorder, health) = (&outcome.observer, &outcome.health);
    let started = began.duration_since(UNIX_EPOCH).unwrap_or_default() + Duration::from_nanos(recorder.window_start);
    let end = recorder.window_end.unwrap_or(outcome.ended_at);
    let mut tally = Tally {
        started_unix_us: u64::try_from(started.as_micros()).unwrap_or(0),
        window: Duration::from_nanos(end.saturating_sub(recorder.window_start)),
        handshakes: recorder.handshakes.as_deref().cloned().unwrap_or_default(),
        errors: recorder.errors,
        failures: recorder.failures.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        statuses: (0..).zip(recorder.statuses.iter().copied()).filter(|(_, count)| *count > 0).collect(),
        bytes: recorder.bytes,
        wrong_status: recorder.wrong_status,
        wrong_length: recorder.wrong_length,
        wrong_content: recorder.wrong_content,
        unserved: outcome.unserved,
        completed_in_warmup: recorder.completed_in_warmup,
        completed_late: recorder.completed_late,
        unfinished: outcome.unfinished.len() as u64,
        unfinished_sum: outcome.unfinished.iter().map(|age| u128::from(*age)).sum(),
        unfinished_max: outcome.unfinished.iter().copied().max().unwrap_or(0),
        unsent: outcome.unsent,
        short_of_connections: health.short_of_connections,
        short_longest: health.short_longest,
        used: *used,
        awake: Duration::from_nanos(health.awake),
        series: recorder.series.clone(),
        parts: recorder.parts().cloned().unwrap_or_default(),
        interrupted: !matches!(outcome.ended, Ended::Requests | Ended::Duration),
        ..Tally::default()
    };
    for (sum, more) in [
        (&mut tally.latencies, &recorder.latencies),
        (&mut tally.service, &recorder.service),
        (&mut tally.first_bytes, &recorder.first_bytes),
        (&mut tally.connects, &recorder.connects),
        (&mut tally.lag, &health.lag),
        (&mut tally.turns, &health.turns),
    ] {
        sum.merge(more);
    }
    (tally.cpu_share_max, tally.busy_share_max) = shares(thread);
    tally
}

/// The shares of its wall time that a thread was on a CPU, and on one or waiting for one.
fn shares(thread: &ThreadResult) -> (f64, f64) {
    let ThreadUse { user, system, waited } = thread.used;
    let outcome = &thread.outcome;
    let wall = seconds(Duration::from_nanos(outcome.ended_at.saturating_sub(outcome.observer.window_start)));
    if wall <= 0.0 {
        return (0.0, 0.0);
    }
    let awake = outcome.health.awake as f64 / 1e9;
    let busy = (seconds(user + system + waited) - awake).max(0.0) / wall;
    ((seconds(user + system) / wall).min(1.0), busy.min(1.0))
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
        protocol: options.protocol.name().to_owned(),
        streams: u32::try_from(options.protocol.streams()).unwrap_or(u32::MAX),
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
        Pace::Listed(list) => {
            // The mean, over the time of the log.
            let seconds = options.log.as_ref().map_or(1.0, |log| log.told.span_s / log.told.speed.unwrap_or(1.0));
            let rate = list.len() as f64 / seconds;
            PaceConfig::Open {
                arrivals: "replay".to_owned(),
                stages: vec![StageConfig { from: rate, to: rate, seconds: Some(seconds) }],
            }
        }
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
