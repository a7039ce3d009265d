//! `ab`: ApacheBench's command line, output, files and exit status over Manifold's generator.
//!
//! What scripts can see is kept to the byte: field names and their order, whole milliseconds, the order of `-n` and `-t`, exit status 0 after
//! a run whatever failed. What nobody can want is not; `docs/src/from-ab.md` lists it, and `e2e/tests/ab_parity` tries both.

mod address;
mod args;
mod beyond;
mod collect;
mod common;
mod crew;
mod distribution;
mod files;
mod html;
mod repeat;
mod report;
mod request;
mod security;
mod spool;
mod usage;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

use jiff::tz::TimeZone;
use nix::errno::Errno;

use crate::native;
use crate::report::Report;
use crate::system_error::plain;
use crate::verdict;
use address::Unreachable;
use args::{Exit, Options};
use crew::{Run, Why};
use report::{Figures, Shown};

/// Exit status of wrong usage.
const USAGE_STATUS: u8 = 22;
/// Exit status of a run on which a condition of `--fail-on` holds, as k6 has it.
const FAILED_STATUS: u8 = 99;
/// Exit status and error number of a silent server.
const SILENCE: (u8, u32) = (119, 70_007);
/// Requests waiting for less than this at the end are not worth a warning, microseconds.
const STALLED_US: u64 = 1_000_000;

/// Runs `ab` with `args`, the program's name not among them.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let parsed = args::parse(args, &|path| std::fs::read(path), &mut |complaint| tell(&format!("{complaint}\n")));
    match parsed {
        Ok(options) => ExitCode::from(run(&options).unwrap_or_else(|error| {
            tell(&format!("ab: {error}\n"));
            1
        })),
        Err(Exit::Version) => {
            let shown = io::stdout().write_all(banner(false).as_bytes());
            if shown.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err(Exit::Usage(sentence)) => {
            let name = called_by("ab");
            let sentence = sentence.map(|sentence| format!("{name}: {sentence}\n")).unwrap_or_default();
            tell(&format!("{sentence}{}", usage::usage(&name)));
            ExitCode::from(USAGE_STATUS)
        }
        Err(Exit::Error(sentence)) => {
            tell(&format!("{sentence}\n"));
            ExitCode::from(1)
        }
    }
}

/// What a link to the binary that is called like the program was called by, in full; otherwise the name of the program.
pub(crate) fn called_by(program: &str) -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    let is_it = Path::new(&name).file_name().is_some_and(|file| file == program);
    if is_it { name.to_string_lossy().into_owned() } else { program.to_owned() }
}

/// Makes the run and shows it; the exit status.
///
/// # Errors
/// Standard output cannot be written.
fn run(options: &Options) -> io::Result<u8> {
    let head = options.request.head(options.request_target(), &options.url.host_field, options.keep_alive);
    show(&opening(options, &head))?;
    let (addresses, local) = match whereabouts(options) {
        Ok(found) => found,
        Err(unreachable) => {
            tell(&format!("{}\n", unreachable.sentence));
            return Ok(unreachable.status);
        }
    };
    if options.concurrency == 0 {
        tell("apr_pollset_poll: Invalid argument (22)\n");
        return Ok(Errno::EINVAL as u8);
    }
    let mut rates = repeat::Rates::default();
    for number in 1..=options.beyond.repeat.unwrap_or(1) {
        let run = crew::run(options, &head, &addresses, local)?;
        let goes_on = matches!(run.ended, Why::Over);
        rates.add(run.counts.done, run.taken);
        let status = finish(options, run)?;
        if !goes_on || status != 0 {
            return Ok(status);
        }
        if options.beyond.repeat == Some(number) && !options.beyond.json {
            show(&rates.summary())?;
        }
    }
    Ok(0)
}

/// Up to the moment the first connection is opened.
fn opening(options: &Options, head: &str) -> String {
    if options.beyond.json {
        return String::new();
    }
    let mut text = banner(options.html.is_some());
    if options.html.is_none() {
        let waiting = if options.heartbeat().is_some() { "\n" } else { "..." };
        let through = options.proxy.as_ref().map(|(host, port)| format!("[through {host}:{port}] "));
        let through = through.unwrap_or_default();
        text.push_str(&format!("Benchmarking {} {through}(be patient){waiting}", options.url.host));
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

/// Where to connect, and from where.
fn whereabouts(options: &Options) -> Result<(Vec<SocketAddr>, Option<IpAddr>), Unreachable> {
    let local = options.bind.as_deref().map(address::resolve_local).transpose()?;
    let (host, port) = options.peer();
    let addresses = address::resolve(host, port, local)?;
    local.map_or(Ok(()), address::check_local)?;
    Ok((addresses, local))
}

/// Says how the run ended, and what was done.
fn finish(options: &Options, run: Run) -> io::Result<u8> {
    let (done, text) = (run.counts.done, !options.beyond.json);
    let given_up = !matches!(run.ended, Why::Over | Why::Interrupted);
    let status = tell_the_end(options, &run)?;
    if given_up && done > 0 && text {
        // This is all that the original tells of a run that it gives up.
        show(&format!("Total of {done} requests completed\n"))?;
    }
    let figures = figures(options, &run);
    if done > 0 || !given_up {
        warn_of_waiting(&run.unfinished, run.times.total.max());
        warn_of_the_schedule(&run);
        if text {
            show_report(options, &figures)?;
        }
    }
    let breaches = match &run.report {
        Some(report) => show_beyond(options, report)?,
        None => 0,
    };
    let written = done == 0 || options.html.is_some() || write_files(options, &figures, run);
    Ok(if breaches > 0 {
        FAILED_STATUS
    } else if written {
        status
    } else {
        1
    })
}

/// ab's last words on how the run ended; the exit status.
fn tell_the_end(options: &Options, run: &Run) -> io::Result<u8> {
    Ok(match &run.ended {
        Why::Over if options.heartbeat().is_some() => {
            tell(&format!("Finished {} requests\n", run.counts.done));
            0
        }
        Why::Over if options.beyond.json => 0,
        Why::Over => {
            show("..done\n")?;
            0
        }
        Why::Interrupted => 1,
        Why::Fatal(fatal) => {
            let many = if fatal.after_many { "\nTest aborted after 10 failures\n\n" } else { "" };
            tell(&format!("{many}{}: {} ({})\n", fatal.call, fatal.error.desc(), fatal.error as i32));
            fatal.error as u8
        }
        Why::Silence => {
            tell(&format!("apr_pollset_poll: The timeout specified has expired ({})\n", SILENCE.1));
            SILENCE.0
        }
        Why::System(error) => {
            let number = error.raw_os_error().unwrap_or(1);
            tell(&format!("apr_pollset_poll: {} ({number})\n", plain(error)));
            number as u8
        }
    })
}

fn show_report(options: &Options, figures: &Figures) -> io::Result<()> {
    let shown = Shown { percentiles: options.percentiles, confidence: options.confidence };
    match &options.html {
        Some(attributes) => show(&html::render(figures, &html_attributes(attributes)))?,
        None => show(&report::render(figures, shown))?,
    }
    if options.beyond.percentiles.is_empty() || figures.counts.done == 0 {
        return Ok(());
    }
    show(&report::percentiles_asked(&figures.total, &options.beyond.percentiles))
}

/// What the long options show and write; how many conditions of `--fail-on` hold.
fn show_beyond(options: &Options, report: &Report) -> io::Result<usize> {
    if options.beyond.json {
        show(&format!("{}\n", serde_json::to_string(report)?))?;
    }
    if let Some(path) = &options.beyond.hdr {
        std::fs::write(path, native::files::hdr(report)?)
            .map_err(|error| io::Error::other(format!("cannot write {}: {}", path.display(), plain(&error))))?;
    }
    let breaches = verdict::breaches(&options.beyond.fail_on, report, None);
    breaches.iter().for_each(|breach| tell(&format!("ab: failed on {breach}\n")));
    Ok(breaches.len())
}

/// Writes the files of `-e` and `-g`; false: that failed, and was told.
fn write_files(options: &Options, figures: &Figures, run: Run) -> bool {
    if let Some(path) = &options.csv
        && !write_file("CSV", path, |file| file.write_all(files::csv(&figures.total).as_bytes()))
    {
        return false;
    }
    let (Some(path), Some(samples)) = (&options.gnuplot, run.samples) else { return true };
    write_file("gnuplot", path, |file| files::gnuplot(file, samples, run.began, &TimeZone::system()))
}

fn write_file(what: &str, path: &OsStr, write: impl FnOnce(&mut File) -> io::Result<()>) -> bool {
    let failed = |doing: &str, error: &io::Error| {
        tell(&format!("Cannot {doing} {what} output file: {}\n", plain(error)));
        false
    };
    match File::create(path) {
        Ok(mut file) => write(&mut file).map_or_else(|error| failed("write", &error), |()| true),
        Err(error) => failed("open", &error),
    }
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

/// A schedule that was not kept is said, on standard error, where the report cannot show it.
fn warn_of_the_schedule(run: &Run) {
    if run.unsent > 0 {
        tell(&format!(
            "Warning: requests that were due and never sent, since all connections were busy: {}\n",
            run.unsent
        ));
    }
    if run.late > run.counts.done / 100 {
        tell(&format!(
            "Warning: requests that this machine sent late by more than {} us: {}\n",
            crew::LATE_US,
            run.late
        ));
    }
}

fn figures(options: &Options, run: &Run) -> Figures {
    Figures {
        server: run.server.clone(),
        host: options.url.host.clone(),
        port: options.url.port,
        tls: security::lines(run.secured.as_ref(), options.server_name()),
        path: options.url.path.clone(),
        length: (!options.variable_length).then(|| run.length.unwrap_or(0)),
        concurrency: options.concurrency,
        taken_us: run.taken / 1000,
        counts: run.counts,
        keep_alive: options.keep_alive,
        sends_body: options.sends_body,
        connect: run.times.connect.sorted(),
        processing: run.times.processing.sorted(),
        waiting: run.times.waiting.sorted(),
        total: run.times.total.sorted(),
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
