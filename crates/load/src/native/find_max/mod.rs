//! `manifold load --find-max`: the highest rate at which conditions hold.
//!
//! Which rate is next, and what the steps' requests say, is decided by [`manifold_stats::capacity`]; here the steps are made. Each is a run of
//! its own, with a warm-up, on new connections. Before the next one the server has as long to work off what the last one left as its slowest
//! request took. A step that does not hold while the generator was late or busy all the time is not the server's, and counts as none.

pub mod condition;
pub mod options;
mod result;
mod text;

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use manifold_stats::Batch;
use manifold_stats::capacity::{Measured, Next, Search, decide};
use manifold_stats::{Level, share_interval};
use manifold_sys::signal::{Signal, Signals};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::args::Options;
use super::assemble::{ThreadResult, assemble};
use super::show::FAILED;
use super::{drive, prepare};
use crate::outcome::{Ended, nanoseconds};
use crate::plan::Plan;
use crate::report::{Flag, Report};
use crate::schedule::{Pace, Stage};
use crate::slices;
use crate::verdict;
use condition::{Bad, Condition, Tally, merge};
pub use options::FindMax;
pub use result::{Maximum, Note, Outcome, Step, Verdict};

/// Pauses between steps are at least and at most so long.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Steps of one search at most.
const STEPS_MAX: usize = 200;
/// A generator that is late by more than this part of a limit cannot tell whether the limit holds.
const LATE_PART: f64 = 0.1;

/// Makes the search that the options ask for, shows it, and says how it ended.
pub fn main(options: &Options) -> ExitCode {
    let mut out = io::stdout().lock();
    // A line that cannot be written now cannot be later either: the end tells.
    let mut show = |text: &str| {
        if !options.json {
            let _told_at_the_end = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    };
    let maximum = match find(options, &mut show) {
        Ok(maximum) => maximum,
        Err(error) => {
            eprintln!("manifold load: {error}");
            return ExitCode::from(1);
        }
    };
    let written = if options.json {
        serde_json::to_writer(&mut out, &maximum).map_err(io::Error::from).and_then(|()| out.write_all(b"\n"))
    } else {
        out.write_all(text::end(&maximum).as_bytes())
    };
    if let Err(error) = written.and_then(|()| out.flush()) {
        eprintln!("manifold load: {error}");
        return ExitCode::from(1);
    }
    let too_low = verdict::rate_breaches(&options.fail_on, maximum.holds.unwrap_or(0.0));
    too_low.iter().for_each(|breach| eprintln!("manifold load: failed on {breach}"));
    match maximum.outcome {
        _ if !too_low.is_empty() => ExitCode::from(FAILED),
        Outcome::Never => ExitCode::from(FAILED),
        Outcome::Found if maximum.notes.is_empty() => ExitCode::SUCCESS,
        _ => ExitCode::from(3),
    }
}

/// Makes the search. `show` is given its text line by line as it goes on.
///
/// # Errors
/// A sentence, if it could not begin.
///
/// # Panics
/// If no search was asked for.
pub fn find(options: &Options, show: &mut dyn FnMut(&str)) -> io::Result<Maximum> {
    let wanted = options.find_max.as_ref().expect("--find-max was given");
    let mut plan = prepare(options)?;
    let signals = Signals::collect(&[Signal::SIGINT, Signal::SIGTERM])?;
    let mut search = Search::new(wanted.wanted());
    let mut maximum = Maximum::begin(options, wanted, &plan);
    show(&text::beginning(&maximum));
    let began = Instant::now();
    while let Next::Try { rate, requests } = search.next() {
        let length = length(options, rate, requests);
        if began.elapsed() + length + options.warmup > wanted.budget || maximum.steps.len() == STEPS_MAX {
            maximum.notes.push(Note::Budget);
            break;
        }
        let step = one_step(options, &wanted.conditions, &mut plan, &signals, rate, length)?;
        if step.report.flags.contains(&Flag::Interrupted) {
            maximum.notes.push(Note::Interrupted);
            break;
        }
        let valid = step.row.verdict != Verdict::Invalid;
        search.tell(if valid { Measured::Batches(step.batches) } else { Measured::Invalid });
        show(&text::row(&step.row));
        maximum.steps.push(step.row);
        if wait(&signals, pause(&step.report))? {
            maximum.notes.push(Note::Interrupted);
            break;
        }
    }
    maximum.finish(&search.finding(), began.elapsed());
    Ok(maximum)
}

/// A step needs time for the requests that can decide it.
fn length(options: &Options, rate: f64, requests: u64) -> Duration {
    let enough = Duration::try_from_secs_f64(requests as f64 / rate).unwrap_or(Duration::MAX);
    options.duration.unwrap_or_default().max(enough)
}

/// A step that was made.
struct Made {
    report: Report,
    batches: Vec<Vec<Batch>>,
    row: Step,
}

fn one_step(
    options: &Options,
    conditions: &[Condition],
    plan: &mut Plan,
    signals: &Signals,
    rate: f64,
    length: Duration,
) -> io::Result<Made> {
    let mut options = options.clone();
    options.duration = Some(length);
    if let Pace::Open { stages, .. } = &mut options.pace {
        *stages = vec![Stage { from: rate, to: rate, length: None }];
    }
    plan.pace = options.pace_with_warmup();
    plan.stop.duration = options.duration;
    let tally = Tally::new(conditions, length);
    let (began, mut threads) = drive(&options, plan, signals, Some(&tally), Vec::new(), &mut || {})?;
    threads.iter_mut().for_each(count_unanswered);
    let batches = merge(threads.iter_mut().filter_map(|thread| thread.outcome.observer.tally().map(|tally| &*tally)));
    let report = assemble(&options, plan, began, &threads, slices::none());
    let allowed: Vec<f64> = conditions.iter().map(|condition| condition.allowed).collect();
    let mut verdict = Verdict::from(decide(&allowed, &batches, Level::Usual));
    // What holds holds, however hard it was for the generator.
    if verdict != Verdict::Holds && is_generators_fault(&report, conditions) {
        verdict = Verdict::Invalid;
    }
    let shares = batches.iter().map(|batches| share_interval(batches, Level::Usual)).collect();
    let row = Step::new(rate, verdict, &report, conditions, shares);
    Ok(Made { report, batches, row })
}

/// Requests without an answer at the step's end are bad ones, and so are those that were never begun.
fn count_unanswered(thread: &mut ThreadResult) {
    let outcome = &mut thread.outcome;
    let Some(tally) = outcome.observer.tally() else { return };
    if matches!(outcome.ended, Ended::Interrupted) {
        return;
    }
    for age in &outcome.unfinished {
        tally.unanswered(outcome.ended_at.saturating_sub(*age));
    }
    if outcome.unsent.count > 0 {
        tally.never_begun(outcome.ended_at.saturating_sub(outcome.unsent.oldest), outcome.unsent.count);
    }
}

/// The generator was busy all the time or had nothing left to connect with, or was so late that its lateness is part of what was measured.
fn is_generators_fault(report: &Report, conditions: &[Condition]) -> bool {
    let own = [Flag::GeneratorSaturated, Flag::PortsExhausted, Flag::DescriptorsExhausted];
    let lag_us = report.schedule.and_then(|kept| kept.lag_us).map_or(0.0, |lag| lag.p99);
    let late_ns = lag_us.max(report.generator.turn_p99_us) * 1000.0;
    let late = |condition: &Condition| matches!(condition.bad, Bad::Slow(limit) if late_ns > limit as f64 * LATE_PART);
    report.flags.iter().any(|flag| own.contains(flag)) || conditions.iter().any(late)
}

/// As long as the slowest request took: by then the queue that it waited in has been worked off.
fn pause(report: &Report) -> Duration {
    let slowest_us = report.latency_us.map_or(0.0, |latency| latency.max).max(report.unfinished.max_age_us);
    Duration::from_secs_f64(slowest_us / 1e6).clamp(PAUSE_MIN, PAUSE_MAX)
}

/// Whether a signal came meanwhile.
fn wait(signals: &Signals, pause: Duration) -> io::Result<bool> {
    let until = Instant::now() + pause;
    loop {
        let left = nanoseconds(until.saturating_duration_since(Instant::now())).div_ceil(1_000_000);
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(signals.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
