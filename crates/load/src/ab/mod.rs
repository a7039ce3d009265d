//! `ab`: ApacheBench's command line, output, files and exit status over Manifold's generator.
//!
//! What scripts can see is kept: field names and their order, whole milliseconds, the order of `-n` and `-t`, exit status 0 after a run
//! whatever failed. What nobody can want is not: several `-C` are all sent, an answer that stops before its stated length has failed, one
//! failure counts once, `-t` ends a run whose server has stalled, and memory does not grow with the number of requests (unless `-g` asks).

mod args;
mod collect;
mod distribution;
mod files;
mod html;
mod report;
mod request;

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use jiff::tz::TimeZone;
use manifold_sys::signal::{Signal, Signals};

use crate::outcome::{Clock, Ended, Outcome};
use crate::plan::{AnswerEnd, Plan, Stop, Tickets, Timeout, raise_descriptor_limit};
use crate::run::drive;
use args::{Exit, Options};
use collect::{Collector, Rules};
use report::{Figures, Shown};
use request::Method;

/// Exit status of wrong usage.
const USAGE_STATUS: u8 = 22;
/// Exit status and error number of a name that cannot be resolved.
const UNKNOWN_HOST: (u8, u32) = (50, 670_002);
/// Exit status and error number of a silent server.
const SILENCE: (u8, u32) = (119, 70_007);
/// Requests waiting for less than this at the end are not worth a warning, microseconds.
const STALLED_US: u64 = 1_000_000;
/// Descriptors needed besides the connections.
const DESCRIPTORS_BESIDES: u64 = 64;

/// Runs `ab` with `args`, the program's name not among them.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let parsed = args::parse(args, &|path| std::fs::read(path), &mut |complaint| tell(&format!("{complaint}\n")));
    match parsed {
        Ok(options) => ExitCode::from(run(&options).unwrap_or(1)),
        Err(Exit::Version) => {
            let shown = io::stdout().write_all(banner(false).as_bytes());
            if shown.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err(Exit::Usage(sentence)) => {
            let sentence = sentence.map(|sentence| format!("{sentence}\n")).unwrap_or_default();
            tell(&format!("{sentence}{}", args::usage()));
            ExitCode::from(USAGE_STATUS)
        }
        Err(Exit::Error(sentence)) => {
            tell(&format!("{sentence}\n"));
            ExitCode::from(1)
        }
    }
}

/// Makes the run and shows it; the exit status.
///
/// # Errors
/// Standard output cannot be written.
fn run(options: &Options) -> io::Result<u8> {
    let head = options.request.head(&options.path, &options.host_field(), options.keep_alive);
    show(&opening(options, &head))?;
    let resolved = addresses(&options.host, options.port)
        .and_then(|to| Ok((to, options.bind.as_deref().map(local_address).transpose()?)));
    let (addresses, local) = match resolved {
        Ok(resolved) => resolved,
        Err(sentence) => {
            tell(&sentence);
            return Ok(UNKNOWN_HOST.0);
        }
    };
    let plan = plan(options, head, addresses, local);
    // Without the descriptors the run ends with ab's own message about sockets.
    let _told_by_the_run = raise_descriptor_limit(options.concurrency + DESCRIPTORS_BESIDES);
    let interrupt = Signals::collect(&[Signal::SIGINT])?;
    let tickets = Tickets::new(plan.stop.requests);
    let collector = Collector::new(rules(options));
    let (began, clock) = (SystemTime::now(), Clock::since(Instant::now()));
    let outcome = drive(&plan, &tickets, plan.connections, clock, Some(interrupt.as_fd()), collector);
    finish(options, outcome, began)
}

/// Up to the moment the first connection is opened.
fn opening(options: &Options, head: &str) -> String {
    let mut text = banner(options.html.is_some());
    if options.html.is_none() {
        let waiting = if options.heartbeat().is_some() { "\n" } else { "..." };
        text.push_str(&format!("Benchmarking {} (be patient){waiting}", options.host));
    }
    if options.verbosity >= 2 {
        text.push_str(&format!("INFO: {} header == \n---\n{head}\n---\n", options.request.method_name()));
    }
    text
}

/// Three lines, as the original has, that say what this is.
fn banner(html: bool) -> String {
    const NAME: &str = concat!("Version 2.3 (Manifold ", env!("CARGO_PKG_VERSION"), ")");
    const WHAT: &str = "Written anew for Manifold, with the options, output and exit status of ApacheBench";
    const WHOSE: &str = "Not a product of The Apache Software Foundation; Apache License 2.0";
    if html {
        format!("<p>\n This is ApacheBench, <i>{NAME}</i><br>\n {WHAT}<br>\n {WHOSE}<br>\n</p>\n<p>\n")
    } else {
        format!("This is ApacheBench, {NAME}\n{WHAT}\n{WHOSE}\n\n")
    }
}

fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found: Option<Vec<SocketAddr>> = (host, port).to_socket_addrs().ok().map(Iterator::collect);
    found.filter(|addresses| !addresses.is_empty()).ok_or_else(|| unknown_host(host))
}

fn local_address(name: &str) -> Result<IpAddr, String> {
    addresses(name, 0).map(|addresses| addresses[0].ip())
}

fn unknown_host(name: &str) -> String {
    format!("apr_sockaddr_info_get() for {name}: Name or service not known ({})\n", UNKNOWN_HOST.1)
}

fn plan(options: &Options, head: String, addresses: Vec<SocketAddr>, local: Option<IpAddr>) -> Plan {
    let mut request = head.into_bytes();
    request.extend_from_slice(options.request.body.as_deref().unwrap_or_default());
    let mut plan = Plan {
        local: local.into_iter().collect(),
        socket_buffer: options.socket_buffer,
        connections: usize::try_from(options.concurrency).unwrap_or(usize::MAX),
        keep_alive: options.keep_alive,
        end: AnswerEnd::Close,
        stop: Stop { requests: Some(options.requests), duration: options.time_limit },
        timeout: Timeout::Silence(options.timeout),
        probe_first: true,
        ..Plan::one(addresses, request)
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
        keep_samples: options.gnuplot.is_some(),
    }
}

fn finish(options: &Options, outcome: Outcome<Collector>, began: SystemTime) -> io::Result<u8> {
    let collector = outcome.observer;
    let done = collector.counts.done;
    if let Some(fatal) = collector.fatal {
        let many = if fatal.after_many { "\nTest aborted after 10 failures\n\n" } else { "" };
        let number = fatal.error as i32;
        tell(&format!("{many}{}: {} ({number})\n", fatal.call, plain(&io::Error::from(fatal.error))));
        return given_up(done, number as u8);
    }
    match outcome.ended {
        Ended::Silence => {
            tell(&format!("apr_pollset_poll: The timeout specified has expired ({})\n", SILENCE.1));
            return given_up(done, SILENCE.0);
        }
        Ended::System(error) => {
            let number = error.raw_os_error().unwrap_or(1);
            tell(&format!("apr_pollset_poll: {} ({number})\n", plain(&error)));
            return given_up(done, number as u8);
        }
        Ended::Interrupted => {}
        Ended::Requests | Ended::Duration | Ended::Observer if options.heartbeat().is_some() => {
            tell(&format!("Finished {done} requests\n"));
        }
        Ended::Requests | Ended::Duration | Ended::Observer => show("..done\n")?,
    }
    warn_of_waiting(&outcome.unfinished, collector.total.max());
    let interrupted = matches!(outcome.ended, Ended::Interrupted);
    let samples = collector.samples.clone();
    let figures = figures(options, collector, outcome.ended_at);
    let shown = Shown { percentiles: options.percentiles, confidence: options.confidence };
    match &options.html {
        Some(attributes) => show(&html::render(&figures, &html_attributes(attributes)))?,
        None => show(&report::render(&figures, shown))?,
    }
    if done > 0 && options.html.is_none() {
        if let Some(path) = &options.csv
            && let Err(error) = std::fs::write(path, files::csv(&figures.total))
        {
            tell(&format!("Cannot open CSV output file: {}\n", plain(&error)));
            return Ok(1);
        }
        if let Some(path) = &options.gnuplot
            && let Err(error) = std::fs::write(path, files::gnuplot(samples, began, &TimeZone::system()))
        {
            tell(&format!("Cannot open gnuplot output file: {}\n", plain(&error)));
            return Ok(1);
        }
    }
    Ok(u8::from(interrupted))
}

/// A run that ended while the server had stalled says so, on standard error, where the report cannot show it.
fn warn_of_waiting(ages: &[u64], longest_us: u64) {
    let oldest_us = ages.iter().max().map_or(0, |age| age / 1000);
    if oldest_us > STALLED_US.max(longest_us) {
        let seconds = oldest_us as f64 / 1e6;
        tell(&format!(
            "Warning: requests without an answer at the end: {}, the oldest after {seconds:.1} seconds\n",
            ages.len()
        ));
    }
}

fn figures(options: &Options, collector: Collector, taken: u64) -> Figures {
    Figures {
        server: collector.server,
        host: options.host.clone(),
        port: options.port,
        path: options.path.clone(),
        length: (!options.variable_length).then(|| collector.length.unwrap_or(0)),
        concurrency: options.concurrency,
        taken_us: taken / 1000,
        counts: collector.counts,
        keep_alive: options.keep_alive,
        sends_body: options.sends_body,
        connect: collector.connect.sorted(),
        processing: collector.processing.sorted(),
        waiting: collector.waiting.sorted(),
        total: collector.total.sorted(),
    }
}

/// ab's cells are white unless `-z` says otherwise.
fn html_attributes(given: &[String; 3]) -> [String; 3] {
    let mut attributes = given.clone();
    if attributes[2].is_empty() {
        attributes[2] = "bgcolor=white".to_owned();
    }
    attributes
}

/// The run was ended by an error: what was done is said in one line.
fn given_up(done: u64, status: u8) -> io::Result<u8> {
    if done > 0 {
        show(&format!("Total of {done} requests completed\n"))?;
    }
    Ok(status)
}

/// An error's text without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Writes to standard output.
fn show(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes to standard error, which nobody may be reading.
fn tell(text: &str) {
    let _nobody_reads = io::stderr().write_all(text.as_bytes());
}
