//! The threads of a run: each drives its share of the connections, and what they collected becomes one.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Instant, SystemTime};

use manifold_sys::signal::{Signal, Signals};

use super::args::Options;
use super::collect::{Collector, Counts, Rules, Times};
use super::common::{Common, Fatal};
use super::request::Method;
use super::spool::{self, FeederMaker, Kept};
use crate::outcome::{Clock, Ended, Outcome};
use crate::plan::{AnswerEnd, Plan, Stop, Tickets, Timeout, raise_descriptor_limit};
use crate::run::{Share, drive_share};

/// Descriptors needed besides the connections.
const DESCRIPTORS_BESIDES: u64 = 64;
/// Descriptors that each thread needs besides its connections.
const DESCRIPTORS_A_THREAD: u64 = 8;

/// What became of a run.
#[derive(Debug)]
pub struct Run {
    /// Why it ended.
    pub ended: Why,
    /// Product name in the first answer's Server field.
    pub server: String,
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
pub fn run(options: &Options, head: String, to: &[SocketAddr], from: Option<IpAddr>) -> io::Result<Run> {
    let plan = plan(options, head, to, from);
    let threads = options.threads();
    let descriptors = options.concurrency + DESCRIPTORS_BESIDES + DESCRIPTORS_A_THREAD * u64::from(threads);
    // Without the descriptors the run ends with ab's own message about sockets.
    let _told_by_the_run = raise_descriptor_limit(descriptors);
    let signals = Signals::collect(&[Signal::SIGINT])?;
    let common = Common::new()?;
    let tickets = Tickets::new(plan.stop.requests);
    let (began, clock) = (SystemTime::now(), Clock::since(Instant::now()));
    let (feeders, batches) = options.gnuplot.as_ref().map(|_| spool::channel()).unzip();
    let (outcomes, samples) = std::thread::scope(|scope| {
        let output = options.gnuplot.as_deref();
        let keeper = batches.zip(output).map(|(batches, output)| {
            std::thread::Builder::new().spawn_scoped(scope, move || spool::keep(&batches, Path::new(output)))
        });
        let keeper = keeper.transpose()?;
        let worker = |thread: u32| {
            let collector = Collector::new(rules(options), &common, false, feeders.as_ref().map(FeederMaker::feeder));
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
        let outcomes: io::Result<Vec<Outcome<Collector<'_>>>> = workers?
            .into_iter()
            .filter_map(|worker| worker.join().map_err(ended).and_then(|outcome| outcome).transpose())
            .collect();
        // The keeper ends with the last collector.
        let parts: io::Result<Vec<Part>> = outcomes.map(|outcomes| outcomes.into_iter().map(Part::of).collect());
        let samples = keeper.map(|keeper| keeper.join().map_err(ended)).transpose()?;
        io::Result::Ok((parts?, samples))
    })?;
    Ok(together(outcomes, &common, samples, began))
}

fn share(connections: usize, thread: u32, threads: u32) -> Share {
    let (each, left) = (connections / threads as usize, connections % threads as usize);
    Share { thread, threads, connections: each + usize::from((thread as usize) < left) }
}

/// The first thread opens the first connection; the others follow once somebody has answered. `None`: nobody did.
fn one_thread<'c>(
    plan: &Plan,
    tickets: &Tickets,
    share: Share,
    clock: Clock,
    common: &'c Common,
    signals: &Signals,
    collector: Collector<'c>,
) -> io::Result<Option<Outcome<Collector<'c>>>> {
    let is_first = share.thread == 0;
    if !is_first && !common.wait_for_an_answer() {
        return Ok(None);
    }
    let outcome = common
        .interrupt(signals.as_fd())
        .map(|interrupt| Some(drive_share(plan, tickets, share, clock, Some(interrupt.0.as_fd()), collector)));
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
}

impl Part {
    fn of(outcome: Outcome<Collector<'_>>) -> Part {
        let Outcome { observer, ended, ended_at, unfinished, .. } = outcome;
        let Collector { counts, times, window, .. } = observer;
        Part { ended, ended_at, window, counts, times, unfinished }
    }
}

fn together(parts: Vec<Part>, common: &Common, samples: Option<Kept>, began: SystemTime) -> Run {
    let window = parts.iter().map(|part| part.window).min().unwrap_or(0);
    let end = parts.iter().map(|part| part.ended_at).max().unwrap_or(0);
    let (mut counts, mut times, mut unfinished) = (Counts::default(), Times::default(), Vec::new());
    let mut ended = common.fatal().map_or(Why::Over, Why::Fatal);
    for part in parts {
        counts.merge(&part.counts);
        times.merge(&part.times);
        unfinished.extend(part.unfinished);
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
        length: common.length(),
        counts,
        times,
        samples,
        began,
        taken: end - window,
        unfinished,
    }
}

fn plan(options: &Options, head: String, to: &[SocketAddr], from: Option<IpAddr>) -> Plan {
    let mut request = head.into_bytes();
    request.extend_from_slice(options.request.body.as_deref().unwrap_or_default());
    let mut plan = Plan {
        local: from.into_iter().collect(),
        socket_buffer: options.socket_buffer,
        connections: usize::try_from(options.concurrency).unwrap_or(usize::MAX),
        keep_alive: options.keep_alive,
        end: AnswerEnd::Close,
        stop: Stop { requests: Some(options.requests), duration: options.time_limit },
        timeout: Timeout::Silence(options.timeout),
        probe_first: true,
        ..Plan::one(to.to_vec(), request)
    };
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
    }
}
