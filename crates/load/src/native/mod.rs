//! `manifold load`: the generator with figures to trust, for people and for the laboratory.

pub mod args;
mod assemble;
mod intervals;
mod pace;
pub(crate) mod record;
mod summary;

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::{Duration, Instant, SystemTime};

use manifold_sys::signal::{Signal, Signals};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::os::fd::AsFd;

use crate::outcome::{Clock, Outcome};
use crate::plan::{Plan, Stop, Tickets, Timeout, raise_descriptor_limit};
use crate::report::Report;
use crate::responder;
use crate::run::{Share, drive_share};
use crate::schedule::Pace;
use args::{Command, Options};
use assemble::ThreadResult;
use record::{Expectation, Recorder, ThreadUse};

/// Pause of a connection after a refused connection attempt.
const CONNECT_PAUSE: Duration = Duration::from_millis(10);
/// How long the first, unmeasured connection may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Descriptors needed besides the connections: standard streams, epoll instances, libraries.
const DESCRIPTORS_BESIDES: u64 = 64;

/// Runs `manifold load` with `args`, the program's name not among them.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    if args.iter().any(|arg| arg == responder::args::FLAG) {
        return responder::main(args.into_iter());
    }
    let options = match args::parse(args.into_iter()) {
        Ok(Command::Help) => {
            print!("{}", args::USAGE);
            return ExitCode::SUCCESS;
        }
        Ok(Command::Run(options)) => options,
        Err(sentence) => {
            eprintln!("manifold load: {sentence}\n\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(&options).and_then(|report| show(&report, options.json).map(|()| report)) {
        Ok(report) if report.flags.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(3),
        Err(error) => {
            eprintln!("manifold load: {error}");
            ExitCode::from(1)
        }
    }
}

/// Makes the run.
///
/// # Errors
/// A sentence, if it could not begin: unknown host, nobody there, too few descriptors, no such CPU.
pub fn run(options: &Options) -> io::Result<Report> {
    let descriptors = u64::from(options.connections) + DESCRIPTORS_BESIDES;
    let limit = raise_descriptor_limit(descriptors)?;
    if limit < descriptors {
        let sentence = format!(
            "{} connections need {descriptors} open files, the limit is {limit} (ulimit -Hn)",
            options.connections
        );
        return Err(io::Error::other(sentence));
    }
    let (plan, address) = plan(options)?;
    let signals = Signals::collect(&[Signal::SIGINT, Signal::SIGTERM])?;
    let tickets = Tickets::new(plan.stop.requests);
    let barrier = Barrier::new(options.threads as usize);
    let epoch = Instant::now();
    let began = SystemTime::now();
    let results: io::Result<Vec<ThreadResult>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.threads)
            .map(|number| {
                let (plan, tickets, barrier, signals) = (&plan, &tickets, &barrier, &signals);
                let body = move || one_thread(options, number, plan, tickets, barrier, epoch, signals);
                std::thread::Builder::new().name(format!("load-{number}")).spawn_scoped(scope, body)
            })
            .collect::<io::Result<_>>()?;
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a generator thread failed"))))
            .collect()
    });
    Ok(assemble::assemble(options, address, began, &results?))
}

fn one_thread(
    options: &Options,
    number: u32,
    plan: &Plan,
    tickets: &Tickets,
    barrier: &Barrier,
    epoch: Instant,
    signals: &Signals,
) -> io::Result<ThreadResult> {
    let bound = bind_to_cpu(&options.pin, number);
    // A thread that cannot be bound still has to arrive here, or the others wait for ever.
    barrier.wait();
    bound?;
    let connections = options.connections / options.threads + u32::from(number < options.connections % options.threads);
    let expectation = Expectation { status: options.expect_status, length: options.expect_length };
    let open_loop = matches!(plan.pace, Pace::Open { .. });
    let recorder = Recorder::new(vec![expectation; plan.requests.len()], open_loop);
    let share = Share { thread: number, threads: options.threads, connections: connections as usize };
    let outcome: Outcome<Recorder> =
        drive_share(plan, tickets, share, Clock::since(epoch), Some(signals.as_fd()), recorder);
    let used = ThreadUse::now().since(outcome.observer.used_before);
    Ok(ThreadResult { outcome, used })
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

fn plan(options: &Options) -> io::Result<(Plan, SocketAddr)> {
    let addresses =
        options.target.resolve().map_err(|error| io::Error::other(format!("{}: {error}", options.target.host)))?;
    let reachable = first_reachable(&addresses)?;
    let mut plan = Plan {
        pace: options.pace_with_warmup(),
        connections: options.connections as usize,
        ramp_up: options.ramp_up,
        keep_alive: options.keep_alive,
        stop: Stop { requests: options.requests, duration: options.duration },
        drain: options.drain,
        warmup: options.warmup,
        timeout: Timeout::Exchange(options.timeout),
        connect_pause: CONNECT_PAUSE,
        seed: options.seed,
        ..Plan::one(vec![reachable], request(options))
    };
    plan.requests[0].head_request = options.head;
    Ok((plan, reachable))
}

/// The first address somebody listens on: a wrong port is told at once instead of measured.
fn first_reachable(addresses: &[SocketAddr]) -> io::Result<SocketAddr> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address");
    for address in addresses {
        match TcpStream::connect_timeout(address, PROBE_TIMEOUT) {
            Ok(_) => return Ok(*address),
            Err(error) => last = io::Error::new(error.kind(), format!("cannot connect to {address}: {error}")),
        }
    }
    Err(last)
}

/// The bytes of every request.
fn request(options: &Options) -> Vec<u8> {
    let method = if options.head { "HEAD" } else { "GET" };
    let mut text = format!("{method} {} HTTP/1.1\r\n", options.target.path);
    let given = |name: &str| {
        options
            .headers
            .iter()
            .any(|line| line.split_once(':').is_some_and(|(field, _)| field.eq_ignore_ascii_case(name)))
    };
    if !given("Host") {
        text.push_str(&format!("Host: {}\r\n", options.target.host_field()));
    }
    if !given("User-Agent") {
        text.push_str(concat!("User-Agent: manifold-load/", env!("CARGO_PKG_VERSION"), "\r\n"));
    }
    if !given("Accept") {
        text.push_str("Accept: */*\r\n");
    }
    if !options.keep_alive {
        text.push_str("Connection: close\r\n");
    }
    for line in &options.headers {
        text.push_str(line);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    text.into_bytes()
}

fn show(report: &Report, json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, report)?;
        out.write_all(b"\n")
    } else {
        out.write_all(summary::render(report).as_bytes())
    }
}
