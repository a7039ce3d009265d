//! Reasons not to believe a report, which are found in the report itself: so a merged one is judged as one of a single run is.

use serde::{Deserialize, Serialize};

use super::Report;
use crate::latencies::Latencies;

/// A scheduled request that begins later than this through the generator's fault was missed, microseconds.
const MISSED_US: u64 = 1000;
/// So large a part of the schedule may be missed, or wait for a connection.
const MISSED_SHARE: f64 = 0.01;
/// Unfinished requests younger than this never count as stalled, microseconds.
const STALLED_US: f64 = 1_000_000.0;
/// The failure of a system that has no local port left.
pub const NO_LOCAL_PORT: &str = "no-local-port";
/// The failure of a process that has no descriptor left.
pub const NO_DESCRIPTOR: &str = "no-descriptor";

/// Every reason not to believe these figures. `interrupted`: a run was ended early.
pub fn flags(report: &Report, lag: &Latencies, interrupted: bool) -> Vec<Flag> {
    let is_share = |part: u64| part as f64 > lag.count() as f64 * MISSED_SHARE;
    let missed = lag.count() - lag.histogram.count_up_to(MISSED_US);
    let short = report.schedule.is_some_and(|kept| kept.unsent > 0 || is_share(kept.short_of_connections));
    let longest_us = report.latency_us.map_or(0.0, |latency| latency.max);
    let oldest_us = report.unfinished.max_age_us;
    [
        (report.generator.saturated, Flag::GeneratorSaturated),
        (is_share(missed), Flag::ScheduleMissed),
        (short, Flag::TooFewConnections),
        (report.wrong_status > 0, Flag::WrongStatus),
        (report.wrong_length > 0, Flag::WrongLength),
        (report.wrong_content > 0, Flag::WrongContent),
        (report.errors.total() > 0, Flag::Errors),
        (report.failures.contains_key(NO_LOCAL_PORT), Flag::PortsExhausted),
        (report.failures.contains_key(NO_DESCRIPTOR), Flag::DescriptorsExhausted),
        // An open loop may never have needed all of them.
        (report.schedule.is_none() && report.unserved_connections > 0, Flag::UnservedConnections),
        (oldest_us > STALLED_US && oldest_us > longest_us, Flag::Stalled),
        (report.completed == 0, Flag::NothingCompleted),
        (interrupted, Flag::Interrupted),
    ]
    .into_iter()
    .filter_map(|(holds, flag)| holds.then_some(flag))
    .collect()
}

/// A reason not to believe the figures as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flag {
    /// A generator thread was busy for 95 % of the window or more.
    GeneratorSaturated,
    /// More than 1 % of the scheduled requests began over a millisecond late though a connection was free.
    ScheduleMissed,
    /// More than 1 % of the scheduled requests had to wait for a connection, or some were never sent.
    TooFewConnections,
    /// At least one answer had another status than expected.
    WrongStatus,
    /// At least one answer had another body length than expected.
    WrongLength,
    /// At least one answer had another body than expected.
    WrongContent,
    /// At least one request ended without a complete answer.
    Errors,
    /// The operating system had no local port left for a connection (`EADDRNOTAVAIL`).
    PortsExhausted,
    /// The process ran out of file descriptors.
    DescriptorsExhausted,
    /// At least one connection of the set was never answered.
    UnservedConnections,
    /// Requests unfinished at the end had been waiting for more than a second and longer than any answered one.
    Stalled,
    /// Nothing was completed.
    NothingCompleted,
    /// The run was ended early by a signal.
    Interrupted,
    /// Of merged runs: for more than a tenth of the longest, not all of them were under way.
    NotSimultaneous,
    /// Of merged runs: two had the same seed and Poisson arrivals, so that their requests came in pairs.
    SameSeed,
}

impl Flag {
    /// The sentence shown to a person.
    pub fn meaning(self) -> &'static str {
        match self {
            Flag::GeneratorSaturated => {
                "the generator was busy all the time: the server may be faster than shown; use more --threads or more CPUs"
            }
            Flag::ScheduleMissed => {
                "the generator was late with requests of the schedule: use more --threads, more CPUs, or a lower rate"
            }
            Flag::TooFewConnections => {
                "scheduled requests had to wait for a connection: the server cannot keep up, or more --connections are needed"
            }
            Flag::WrongStatus => "some answers had another status than expected",
            Flag::WrongLength => "some answers had another length than expected",
            Flag::WrongContent => "some answers had another body than expected",
            Flag::Errors => "some requests failed",
            Flag::PortsExhausted => {
                "no local port was left for new connections; use --keep-alive, fewer requests or several addresses"
            }
            Flag::DescriptorsExhausted => "the limit of open files was reached (ulimit -n)",
            Flag::UnservedConnections => "some connections were never answered",
            Flag::Stalled => "at the end requests had been waiting for longer than any answer took",
            Flag::NothingCompleted => "no request was completed",
            Flag::Interrupted => "the run was ended early",
            Flag::NotSimultaneous => "the merged runs were not all under way at the same time",
            Flag::SameSeed => {
                "merged runs had the same --seed: their Poisson arrivals came in pairs; give each machine its own"
            }
        }
    }
}
