//! `manifold load`: the generator with figures to trust, for people and for the laboratory.

pub mod args;
pub(crate) mod assemble;
mod comparing;
mod counting;
pub(crate) mod files;
pub mod find_max;
mod handover;
mod merge;
mod pace;
mod plan_file;
mod read;
pub(crate) mod record;
pub mod replay;
mod resolve;
mod security;
mod settings;
mod show;
mod spec;
mod summary;
mod watch;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant, SystemTime};

use manifold_sys::signal::{Signal, Signals};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::os::fd::AsFd;

use crate::compare::Pair;
use crate::h2::request::translate;
use crate::outcome::{Clock, Outcome};
use crate::plan::{Order, Plan, Protocol, Request, Stop, Tickets, Timeout, raise_descriptor_limit};
use crate::report::Report;
use crate::responder;
use crate::run::{Share, drive_share};
use crate::verdict;
use args::{Command, Options};
use assemble::ThreadResult;
use counting::Counting;
use find_max::condition::Tally;
use handover::Hand;
use record::{ANY_STATUS, Besides, Expectation, Recorder, SUCCESS, ThreadUse};
use show::Output;
use spec::RequestSpec;
use watch::Watch;

/// Pause of a connection after a refused connection attempt.
const CONNECT_PAUSE: Duration = Duration::from_millis(10);
/// How often what the threads hand over is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Descriptors needed besides the connections: standard streams, epoll instances, libraries.
const DESCRIPTORS_BESIDES: u64 = 64;

/// Runs `manifold load` with `args`, the program's name not among them.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    if args.iter().any(|arg| arg == responder::args::FLAG) {
        return responder::main(args.into_iter());
    }
    if args.first().is_some_and(|word| word == "merge") {
        return merge::main(args.into_iter().skip(1));
    }
    if args.first().is_some_and(|word| word == "compare") {
        return comparing::main(args.into_iter().skip(1));
    }
    let options = match args::parse(args.into_iter()) {
        Ok(Command::Help) => {
            print!("{}", args::usage());
            return ExitCode::SUCCESS;
        }
        Ok(Command::Run(options)) => options,
        Err(sentence) => {
            eprintln!("manifold load: {sentence}\n\n{}", args::usage());
            return ExitCode::from(2);
        }
    };
    if options.find_max.is_some() {
        return find_max::main(&options);
    }
    match run_and_show(&options) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("manifold load: {error}");
            ExitCode::from(1)
        }
    }
}

fn run_and_show(options: &Options) -> io::Result<ExitCode> {
    let base = options.compare.as_ref().map(read::file).transpose().map_err(io::Error::other)?;
    let report = make(options, Watch::begin)?;
    let output = Output { json: options.json, csv: options.csv.clone(), hdr: options.hdr.clone() };
    show::show(&report, &output)?;
    let Some(base) = base else { return Ok(show::verdict(&report, &options.fail_on)) };
    let pair = Pair::of((&base.name, &base.report), ("this run", &report)).map_err(io::Error::other)?;
    let text = comparing::text(&pair);
    if options.json {
        eprint!("{text}");
    } else {
        show::print(&format!("\n{text}"))?;
    }
    let breaches = verdict::breaches(&options.fail_on, &report, Some(&pair));
    Ok(show::status(&breaches, comparing::is_flagged(&pair)))
}

/// Makes the run; nobody looks on.
///
/// # Errors
/// A sentence, if it could not begin: unknown host, nobody there, too few descriptors, no such CPU.
pub fn run(options: &Options) -> io::Result<Report> {
    make(options, |_| Watch::nobody())
}

/// Makes the run, while whom `watch` brings looks on.
fn make(options: &Options, watch: fn(&Options) -> Watch) -> io::Result<Report> {
    let options = &match &options.replay {
        Some(replay) => replay::read(options, replay)?,
        None => options.clone(),
    };
    let plan = prepare(options)?;
    let signals = Signals::collect(&[Signal::SIGINT, Signal::SIGTERM])?;
    let (hands, mut keeper) = handover::channel(options.threads as usize);
    let mut watch = watch(options);
    let driven = drive(options, &plan, &signals, None, hands, &mut || {
        keeper.collect(|thread, second, slice| watch.look(thread, second, slice));
        watch.show();
    });
    // The terminal is given back before anything is said.
    drop(watch);
    let (began, mut results) = driven?;
    keeper.collect(|_thread, _second, _slice| {});
    // What the threads had not handed over at their end.
    let last = results.iter_mut().filter_map(|result| result.outcome.observer.hand.take());
    last.for_each(|hand| keeper.keep_last(&hand.second));
    Ok(assemble::assemble(options, &plan, began, &results, keeper.slices))
}

/// What has to be there before the first connection: descriptors, addresses, somebody who listens.
fn prepare(options: &Options) -> io::Result<Plan> {
    let descriptors = u64::from(options.connections) + DESCRIPTORS_BESIDES;
    let limit = raise_descriptor_limit(descriptors)?;
    if limit < descriptors {
        let sentence = format!(
            "{} connections need {descriptors} open files, the limit is {limit} (ulimit -Hn)",
            options.connections
        );
        return Err(io::Error::other(sentence));
    }
    plan(options)
}

/// Carries a plan out: when it began, and what each thread leaves. Each has a copy of the tally, and one of the hands if there are any. This
/// thread meanwhile does `meanwhile` ten times a second, off the processors that the others are bound to where it can.
fn drive(
    options: &Options,
    plan: &Plan,
    signals: &Signals,
    tally: Option<&Tally>,
    hands: Vec<Hand>,
    meanwhile: &mut dyn FnMut(),
) -> io::Result<(SystemTime, Vec<ThreadResult>)> {
    let began = SystemTime::now();
    let run = Run {
        options,
        plan,
        tickets: &Tickets::new(plan.stop.requests),
        barrier: &Barrier::new(options.threads as usize),
        clock: Clock::since(Instant::now()),
        began,
        signals,
        tally,
    };
    let results: io::Result<Vec<ThreadResult>> = std::thread::scope(|scope| {
        let (working, over) = mpsc::channel::<()>();
        let mut hands = hands.into_iter();
        let start = |number| {
            let (hand, working) = (hands.next(), working.clone());
            let body = move || {
                // Let go of at the thread's end, however it ends.
                let _working = working;
                run.one_thread(number, hand)
            };
            std::thread::Builder::new().name(format!("load-{number}")).spawn_scoped(scope, body)
        };
        let threads: Vec<_> = (0..options.threads).map(start).collect::<io::Result<_>>()?;
        drop(working);
        step_aside(&options.pin);
        while let Err(RecvTimeoutError::Timeout) = over.recv_timeout(LOOK) {
            meanwhile();
        }
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a generator thread failed"))))
            .collect()
    });
    Ok((began, results?))
}

/// What the threads of a run have in common.
#[derive(Clone, Copy)]
struct Run<'r> {
    options: &'r Options,
    plan: &'r Plan,
    tickets: &'r Tickets,
    barrier: &'r Barrier,
    clock: Clock,
    began: SystemTime,
    signals: &'r Signals,
    tally: Option<&'r Tally>,
}

impl Run<'_> {
    fn one_thread(self, number: u32, hand: Option<Hand>) -> io::Result<ThreadResult> {
        let Run { options, plan, .. } = self;
        let bound = bind_to_cpu(&options.pin, number);
        // A thread that cannot be bound still has to arrive here, or the others wait for ever.
        self.barrier.wait();
        bound?;
        let connections =
            options.connections / options.threads + u32::from(number < options.connections % options.threads);
        let usual = if options.log.is_some() { ANY_STATUS } else { SUCCESS };
        let expectation = |spec: &RequestSpec| Expectation {
            status: spec.expect_status.map_or(usual, |status| (status, status)),
            length: spec.expect_length,
        };
        let expectations = options.specs().iter().map(expectation).collect();
        let mut recorder = Recorder::new(expectations, plan.pace.is_open(), self.began);
        recorder.hand = hand;
        let besides = match self.tally {
            Some(tally) => Some(Besides::Search(tally.clone())),
            // A log's requests are thousands.
            None if options.log.is_some() => None,
            None => Counting::of(options.requests.len(), &options.pace).map(Besides::Parts),
        };
        recorder.besides = besides.map(Box::new);
        let share = Share { thread: number, threads: options.threads, connections: connections as usize };
        let outcome: Outcome<Recorder> =
            drive_share(plan, self.tickets, share, self.clock, Some(self.signals.as_fd()), recorder);
        let used = ThreadUse::now().since(outcome.observer.used_before);
        Ok(ThreadResult { outcome, used })
    }
}

/// Leaves the processors that the generator's threads are bound to, if there are others.
fn step_aside(pin: &[usize]) {
    let Ok(mut ours) = sched_getaffinity(Pid::from_raw(0)) else { return };
    for cpu in pin {
        // One beyond what a set can name is told of by the thread that is to be bound to it.
        let _unknown = ours.unset(*cpu);
    }
    let any = (0..CpuSet::count()).any(|cpu| ours.is_set(cpu).unwrap_or(false));
    if !pin.is_empty() && any {
        // Where this is refused, it stays where it is.
        let _refused = sched_setaffinity(Pid::from_raw(0), &ours);
    }
}

fn bind_to_cpu(pin: &[usize], number: u32) -> io::Result<()> {
    if pin.is_empty() {
        return Ok(());
    }
    let cpu = pin[number as usize % pin.len()];
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &set)
        .map_err(|error| io::Error::other(format!("--pin {cpu}: {}", error.desc())))
}

/// What is resolved before the first connection: addresses, requests as bytes.
fn plan(options: &Options) -> io::Result<Plan> {
    let specs = options.specs();
    let (endpoints, places) = resolve::endpoints(specs, &options.route, &options.tls, options.protocol)?;
    let request = |(spec, endpoint): (&RequestSpec, usize)| Request {
        bytes: match options.protocol {
            Protocol::Http1 => spec.bytes(options.keep_alive),
            Protocol::Http2 { .. } => translate(&spec.bytes(true), if spec.target.secure { "https" } else { "http" }),
        },
        head_request: spec.method == "HEAD",
        endpoint,
        weight: spec.weight,
        content: (!spec.expect_content.is_any()).then(|| Arc::new(spec.expect_content.clone())),
    };
    Ok(Plan {
        endpoints,
        requests: specs.iter().zip(places).map(request).collect(),
        order: match &options.log {
            Some(log) => Order::Listed(log.arrivals.clone()),
            None => Order::Weighted,
        },
        pace: options.pace_with_warmup(),
        local: options.route.source.clone(),
        connections: options.connections as usize,
        protocol: options.protocol,
        ramp_up: options.ramp_up,
        keep_alive: options.keep_alive,
        stop: Stop { requests: options.stop_requests, duration: options.duration },
        drain: options.drain,
        warmup: options.warmup,
        timeout: Timeout::Exchange(options.timeout),
        connect_pause: CONNECT_PAUSE,
        seed: options.seed,
        poller: options.poller,
        awake: options.awake,
        ..Plan::one(Vec::new(), Vec::new())
    })
}
