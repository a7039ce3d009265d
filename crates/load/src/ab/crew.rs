//! The threads of a run: each drives its share of the connections, and what they collected becomes one.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use manifold_sys::signal::{Signal, Signals};

use super::args::Options;
use super::collect::{Collector, Counts, Rules, Times};
use super::common::{Common, Fatal};
use super::request::Method;
use super::spool::{self, FeederMaker, Kept};
use crate::h2::request::translate;
use crate::native::assemble::{self, ThreadResult};
use crate::native::record::ThreadUse;
use crate::outcome::{Clock, Ended, Outcome};
use crate::plan::{AnswerEnd, Plan, Protocol, Stop, Tickets, Timeout, raise_descriptor_limit};
use crate::report::{Config, PaceConfig, Report, RequestConfig, StageConfig};
use crate::run::{Share, drive_share};
use crate::schedule::{Arrivals, Pace, Stage};
use crate::slices;
use crate::tls::Secured;

/// From here on a scheduled request counts as late, microseconds.
pub const LATE_US: u64 = 1000;
/// Descriptors needed besides the connections.
const DESCRIPTORS_BESIDES: u64 = 64;
/// How long the last requests of a schedule may take after the end of `-t`.
const DRAIN: Duration = Duration::from_secs(5);
/// Descriptors that each thread needs besides its connections.
const DESCRIPTORS_A_THREAD: u64 = 8;

/// What became of a run.
#[derive(Debug)]
pub struct Run {
    /// Why it ended.
    pub ended: Why,
    /// Product name in the first answer's Server field.
    pub server: String,
    /// What the first handshake led to.
    pub secured: Option<Secured>,
    /// Body length of the first answer.
    pub length: Option<u64>,
    /// The counts.
    pub counts: Counts,
    /// The times.
    pub times: Times,
    /// Every request, where they are kept (`-g`).
    pub samples: Option<Kept>,
    /// When the run's clock showed 0.
    pub began: SystemTime,
    /// Length of the measured window, nanoseconds.
    pub taken: u64,
    /// How long requests had been waiting at the end, nanoseconds each.
    pub unfinished: Vec<u64>,
    /// What `manifold load` would report, where that is wanted.
    pub report: Option<Report>,
    /// Requests of a schedule that were due, but never begun.
    pub unsent: u64,
    /// Requests of a schedule that the generator itself began late by more than [`LATE_US`].
    pub late: u64,
}

/// Why a run ended.
#[derive(Debug)]
pub enum Why {
    /// All requests are over, or the time is.
    Over,
    /// A signal.
    Interrupted,
    /// An error that ab does not survive.
    Fatal(Fatal),
    /// Nobody said anything for too long.
    Silence,
    /// The operating system refused something the loop cannot do without.
    System(io::Error),
}

/// Makes the run.
///
/// # Errors
/// Threads or descriptors cannot be made.
pub fn run(options: &Options, head: &str, to: &[SocketAddr], from: Option<IpAddr>) -> io::Result<Run> {
    let plan = plan(options, head, to, from);
    let threads = options.threads();
    let descriptors = options.concurrency + DESCRIPTORS_BESIDES + DESCRIPTORS_A_THREAD * u64::from(threads);
    // Without the descriptors the run ends with ab's own message about sockets.
    let _told_by_the_run = raise_descriptor_limit(descriptors);
    let signals = Signals::collect(&[Signal::SIGINT])?;
    let common = Common::new()?;
    let tickets = Tickets::new(plan.stop.requests);
    let (began, clock) = (SystemTime::now(), Clock::since(Instant::now()));
    let warming = !plan.warmup.is_zero() || options.beyond.rate.is_some();
    let (feeders, batches) = options.gnuplot.as_ref().map(|_| spool::channel()).unzip();
    let (mut parts, samples) = std::thread::scope(|scope| {
        let output = options.gnuplot.as_deref();
        let keeper = batches.zip(output).map(|(batches, output)| {
            std::thread::Builder::new().spawn_scoped(scope, move || spool::keep(&batches, Path::new(output)))
        });
        let keeper = keeper.transpose()?;
        let worker = |thread: u32| {
            let collector = Collector::new(rules(options), &common, warming, feeders.as_ref().map(FeederMaker::feeder));
            let collector = if options.beyond.reports() { collector.recording(began) } else { collector };
            let (plan, tickets, common, signals) = (&plan, &tickets, &common, &signals);
            let share = share(plan.connections, thread, threads);
            std::thread::Builder::new()
                .name(format!("ab-{thread}"))
                .spawn_scoped(scope, move || one_thread(plan, tickets, share, clock, common, signals, collector))
        };
        let workers = (0..threads).map(worker).collect::<io::Result<Vec<_>>>();
        // Threads that wait for one that could not be made would wait for ever.
        if workers.is_err() {
            common.stop();
            common.first_is_over();
        }
        drop(feeders);
        let ended = |_| io::Error::other("a thread of the generator failed");
        let parts: io::Result<Vec<Part>> = workers?
            .into_iter()
            .filter_map(|worker| worker.join().map_err(ended).and_then(|outcome| outcome).transpose())
            .collect();
        // The keeper ends with the last collector.
        let samples = keeper.map(|keeper| keeper.join().map_err(ended)).transpose()?;
        io::Result::Ok((parts?, samples))
    })?;
    let results: Vec<ThreadResult> = parts.iter_mut().filter_map(|part| part.result.take()).collect();
    let report = options
        .beyond
        .reports()
        .then(|| assemble::merge(config(options, &plan, to[0], threads), began, &results, slices::none()));
    let run = together(parts, &common, samples, began);
    Ok(Run { report, ..run })
}

fn share(connections: usize, thread: u32, threads: u32) -> Share {
    let (each, left) = (connections / threads as usize, connections % threads as usize);
    Share { thread, threads, connections: each + usize::from((thread as usize) < left) }
}

/// The first thread opens the first connection; the others follow once somebody has answered. `None`: nobody did.
fn one_thread(
    plan: &Plan,
    tickets: &Tickets,
    share: Share,
    clock: Clock,
    common: &Common,
    signals: &Signals,
    mut collector: Collector<'_>,
) -> io::Result<Option<Part>> {
    let is_first = share.thread == 0;
    if plan.probe_first && !is_first && !common.wait_for_an_answer() {
        return Ok(None);
    }
    collector.begin();
    let outcome = common.interrupt(signals.as_fd()).map(|interrupt| {
        Some(Part::of(drive_share(plan, tickets, share, clock, Some(interrupt.0.as_fd()), collector)))
    });
    if is_first {
        common.first_is_over();
    }
    outcome
}

/// What a thread leaves, without its collector.
struct Part {
    ended: Ended,
    ended_at: u64,
    window: u64,
    counts: Counts,
    times: Times,
    unfinished: Vec<u64>,
    unsent: u64,
    late: u64,
    result: Option<ThreadResult>,
}

impl Part {
    fn of(outcome: Outcome<Collector<'_>>) -> Part {
        let Outcome { observer, ended, ended_at, unfinished, unsent, unserved, health } = outcome;
        let Collector { counts, times, window, recorder, .. } = observer;
        let late = health.lag.count() - health.lag.histogram.count_up_to(LATE_US);
        let result = recorder.map(|recorder| {
            let used = ThreadUse::now().since(recorder.used_before);
            // The report asks of the end only whether a signal made it.
            let ended = if matches!(ended, Ended::Interrupted) { Ended::Interrupted } else { Ended::Requests };
            let unfinished = unfinished.clone();
            ThreadResult {
                outcome: Outcome { observer: *recorder, ended, ended_at, unfinished, unsent, unserved, health },
                used,
            }
        });
        Part { ended, ended_at, window, counts, times, unfinished, unsent: unsent.count, late, result }
    }
}

fn together(parts: Vec<Part>, common: &Common, samples: Option<Kept>, began: SystemTime) -> Run {
    let window = parts.iter().map(|part| part.window).min().unwrap_or(0);
    let end = parts.iter().map(|part| part.ended_at).max().unwrap_or(0);
    let (mut counts, mut times, mut unfinished) = (Counts::default(), Times::default(), Vec::new());
    let (mut unsent, mut late) = (0, 0);
    let mut ended = common.fatal().map_or(Why::Over, Why::Fatal);
    for part in parts {
        counts.merge(&part.counts);
        times.merge(&part.times);
        unfinished.extend(part.unfinished);
        unsent += part.unsent;
        late += part.late;
        ended = match (ended, part.ended) {
            (Why::Fatal(fatal), _) => Why::Fatal(fatal),
            (_, Ended::System(error)) => Why::System(error),
            (Why::System(error), _) => Why::System(error),
            (_, Ended::Silence) | (Why::Silence, _) => Why::Silence,
            (_, Ended::Interrupted) => Why::Interrupted,
            (ended, Ended::Requests | Ended::Duration | Ended::Observer) => ended,
        };
    }
    Run {
        ended,
        server: common.server(),
        secured: common.secured(),
        length: common.length(),
        counts,
        times,
        samples,
        began,
        taken: end.saturating_sub(window),
        unfinished,
        report: None,
        unsent,
        late,
    }
}

/// What was asked for, in the words of `manifold load`.
fn config(options: &Options, plan: &Plan, address: SocketAddr, threads: u32) -> Config {
    let stage = |rate: f64| StageConfig { from: rate, to: rate, seconds: None };
    Config {
        url: options.written.clone(),
        address: address.to_string(),
        requests_sent: vec![RequestConfig {
            url: options.written.clone(),
            method: options.request.method_name().to_owned(),
            weight: 1,
            body_bytes: options.request.body.as_ref().map_or(0, Vec::len) as u64,
        }],
        connections: u32::try_from(options.concurrency).unwrap_or(u32::MAX),
        threads,
        protocol: plan.protocol.name().to_owned(),
        streams: u32::try_from(plan.protocol.streams()).unwrap_or(u32::MAX),
        keep_alive: options.keep_alive,
        pace: match options.beyond.rate {
            Some(rate) => PaceConfig::Open { arrivals: "constant".to_owned(), stages: vec![stage(rate)] },
            None => PaceConfig::Closed { think_mean_s: 0.0, ramp_up_s: 0.0 },
        },
        seed: plan.seed,
        requests: plan.stop.requests,
        duration_s: plan.stop.duration.map(|duration| duration.as_secs_f64()),
        warmup_s: plan.warmup.as_secs_f64(),
        drain_s: plan.drain.as_secs_f64(),
        timeout_s: options.timeout.as_secs_f64(),
        pin: Vec::new(),
        expect_status: None,
        expect_length: None,
    }
}

fn plan(options: &Options, head: &str, to: &[SocketAddr], from: Option<IpAddr>) -> Plan {
    let mut request = head.as_bytes().to_vec();
    request.extend_from_slice(options.request.body.as_deref().unwrap_or_default());
    let mut plan = Plan {
        local: from.into_iter().collect(),
        socket_buffer: options.socket_buffer,
        connections: usize::try_from(options.concurrency).unwrap_or(usize::MAX),
        keep_alive: options.keep_alive,
        end: if options.beyond.http11 { AnswerEnd::Framing } else { AnswerEnd::Close },
        stop: Stop { requests: Some(options.requests), duration: options.time_limit },
        warmup: options.beyond.warmup,
        timeout: Timeout::Silence(options.timeout),
        probe_first: true,
        ..Plan::one(to.to_vec(), request)
    };
    if let Some(rate) = options.beyond.rate {
        let stages = vec![Stage { from: rate, to: rate, length: None }];
        plan.pace = Pace::Open { stages, arrivals: Arrivals::Constant };
        // Between two requests of a schedule nothing need happen for long, and none waits for the first.
        plan.timeout = Timeout::Exchange(options.timeout);
        plan.probe_first = false;
        plan.drain = DRAIN;
    }
    if let Some(streams) = options.beyond.http2 {
        plan.protocol = Protocol::Http2 { streams };
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        plan.requests[0].bytes = translate(&plan.requests[0].bytes, scheme);
    }
    plan.endpoints[0].tls = options.tls.clone();
    plan.requests[0].head_request =
        matches!(&options.request.method, Method::Head) || options.request.method_name() == "HEAD";
    plan
}

fn rules(options: &Options) -> Rules {
    Rules {
        tolerate_receive_errors: options.tolerate_receive_errors,
        variable_length: options.variable_length,
        verbosity: options.verbosity,
        heartbeat: options.heartbeat(),
        text: !options.beyond.json,
        scheduled: options.beyond.rate.is_some(),
    }
}
