//! The document a search leaves: what was looked for, what was found, and the steps that show it.
//!
//! `manifold load --find-max ... --json` prints exactly one [`Maximum`].

use std::time::Duration;

use manifold_stats::ShareInterval;
use manifold_stats::capacity::{Border, Decision, Finding};
use serde::{Deserialize, Serialize};

use super::condition::{Bad, Condition};
use super::options::FindMax;
use crate::native::args::Options;
use crate::native::assemble::address;
use crate::plan::Plan;
use crate::report::{Distribution, Flag, Report, Summary};
use crate::schedule::{Arrivals, Pace};

/// Version of this document's shape; it changes when a reader must.
const SCHEMA: u32 = 1;

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Maximum {
    /// Version of the document's shape.
    pub schema: u32,
    /// Version of Manifold that wrote it.
    pub version: String,
    /// The first URL as given.
    pub url: String,
    /// The address connected to for it.
    pub address: String,
    /// What is to hold, as it was written.
    pub conditions: Vec<String>,
    /// How far neighbouring rates are apart, as a share.
    pub precision: f64,
    /// How long the whole search might take, seconds.
    pub budget_s: f64,
    /// Connections open at most.
    pub connections: u32,
    /// Generator threads.
    pub threads: u32,
    /// Whether connections are kept for the next request.
    pub keep_alive: bool,
    /// `constant` or `poisson`.
    pub arrivals: String,
    /// Load before each step's window, seconds.
    pub warmup_s: f64,
    /// Decides every random choice.
    pub seed: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// The best guess at the highest rate at which the conditions hold, requests a second. It lies from `holds` to `fails`. Absent where no
    /// rate held.
    pub maximum: Option<f64>,
    /// The highest rate at which they surely hold.
    pub holds: Option<f64>,
    /// The lowest rate above at which they surely do not, or, if `outcome` is `at-least`, which the generator could not keep.
    pub fails: Option<f64>,
    /// What is to be held against the result.
    pub notes: Vec<Note>,
    /// What was measured, in order.
    pub steps: Vec<Step>,
    /// How long it took, seconds.
    pub seconds: f64,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The maximum is the server's.
    Found,
    /// The conditions hold at `holds`, and more could not be asked for: the generator is the limit, or the highest rate there is.
    AtLeast,
    /// At none of the rates tried.
    Never,
    /// Not far enough to say.
    Open,
}

/// What is to be held against a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Note {
    /// The time, or the number of steps, was used up.
    Budget,
    /// A signal ended it.
    Interrupted,
    /// The server held a rate and failed it later, or the other way round.
    Unstable,
    /// Above the maximum all connections were taken though each answer itself came in time: with more of them it may be higher.
    FewConnections,
}

impl Note {
    /// The sentence shown to a person.
    pub fn meaning(self) -> &'static str {
        match self {
            Note::Budget => "the search was ended by its --budget: more time makes the interval narrower",
            Note::Interrupted => "the search was ended early",
            Note::Unstable => {
                "the server held a rate once and failed it later, or the other way round: it changed meanwhile, or steps (-t) are too short"
            }
            Note::FewConnections => {
                "above the maximum all connections were taken, while answers themselves came in time: with more -c it may be higher"
            }
        }
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Requests a second that were due.
    pub rate: f64,
    /// Answers a second that came.
    pub answered: f64,
    /// Length of its window, seconds.
    pub seconds: f64,
    /// Beginning of its window, microseconds since 1970-01-01 UTC.
    pub started_unix_us: u64,
    /// Answers received completely.
    pub completed: u64,
    /// Requests that failed, were unfinished at the end, or never begun.
    pub unanswered: u64,
    /// Response times of the answers, microseconds; absent without an answer.
    pub latency_us: Option<Summary>,
    /// For each condition, in their order.
    pub conditions: Vec<Share>,
    /// What this step alone says.
    pub verdict: Verdict,
    /// Flags of the run, as in the report of a single one.
    pub flags: Vec<Flag>,
}

/// How a condition fared in a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The share of requests that may be bad.
    pub allowed: f64,
    /// The share that was; absent where there was no request.
    pub bad: Option<f64>,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How many independent requests would tell as much as these did.
    pub worth: f64,
}

/// What a step says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The conditions hold.
    Holds,
    /// One of them does not.
    Fails,
    /// Too little to tell.
    Undecided,
    /// The generator could not keep the rate.
    Invalid,
}

impl From<Decision> for Verdict {
    fn from(decision: Decision) -> Verdict {
        match decision {
            Decision::Holds => Verdict::Holds,
            Decision::Fails => Verdict::Fails,
            Decision::Undecided => Verdict::Undecided,
        }
    }
}

impl Step {
    /// The row of a run. `shares` are those of the conditions' bad requests.
    pub(super) fn new(
        rate: f64,
        verdict: Verdict,
        report: &Report,
        conditions: &[Condition],
        shares: Vec<Option<ShareInterval>>,
    ) -> Step {
        let share = |(condition, share): (&Condition, Option<ShareInterval>)| Share {
            allowed: condition.allowed,
            bad: share.map(|share| share.estimate),
            low: share.map_or(0.0, |share| share.low),
            high: share.map_or(1.0, |share| share.high),
            worth: share.map_or(0.0, |share| share.worth),
        };
        let mut flags = report.flags.clone();
        // An answer that takes long is no accident here; that it was not awaited is said by the number of unanswered ones.
        flags.retain(|flag| *flag != Flag::Stalled);
        let few = verdict == Verdict::Fails && is_short_of_connections(report, conditions);
        if !few {
            flags.retain(|flag| *flag != Flag::TooFewConnections);
        }
        let unsent = report.schedule.map_or(0, |kept| kept.unsent);
        Step {
            rate,
            answered: report.requests_per_second,
            seconds: report.seconds,
            started_unix_us: report.started_unix_us,
            completed: report.completed,
            unanswered: report.errors.total() + report.unfinished.count + unsent,
            latency_us: report.latency_us,
            conditions: conditions.iter().zip(shares).map(share).collect(),
            verdict,
            flags,
        }
    }
}

/// Requests waited for a connection, and from when they had one, they were answered as fast as they should.
fn is_short_of_connections(report: &Report, conditions: &[Condition]) -> bool {
    let Some(Ok(service)) = report.service_histogram.as_ref().map(Distribution::latencies) else { return false };
    let service = service.histogram;
    let in_time = |condition: &Condition| match condition.bad {
        Bad::Slow(limit) => {
            let quantile = service.value_at_quantile(1.0 - condition.allowed);
            !service.is_empty() && quantile.saturating_mul(1000) < limit
        }
        _ => true,
    };
    report.flags.contains(&Flag::TooFewConnections) && conditions.iter().all(in_time)
}

impl Maximum {
    /// Of a search that is about to begin.
    pub(super) fn begin(options: &Options, wanted: &FindMax, plan: &Plan) -> Maximum {
        Maximum {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            url: options.requests[0].url.clone(),
            address: address(plan),
            conditions: wanted.conditions.iter().map(|condition| condition.text.clone()).collect(),
            precision: wanted.precision,
            budget_s: wanted.budget.as_secs_f64(),
            connections: options.connections,
            threads: options.threads,
            keep_alive: options.keep_alive,
            arrivals: match options.pace {
                Pace::Open { arrivals: Arrivals::Poisson, .. } => "poisson".to_owned(),
                _ => "constant".to_owned(),
            },
            warmup_s: options.warmup.as_secs_f64(),
            seed: options.seed,
            outcome: Outcome::Open,
            maximum: None,
            holds: None,
            fails: None,
            notes: Vec::new(),
            steps: Vec::new(),
            seconds: 0.0,
        }
    }

    /// The search has ended with this.
    pub(super) fn finish(&mut self, finding: &Finding, took: Duration) {
        (self.maximum, self.holds, self.fails) = (finding.estimate, finding.low, finding.high);
        self.seconds = took.as_secs_f64();
        let failed = || self.steps.iter().any(|step| step.verdict == Verdict::Fails);
        self.outcome = match (finding.low, finding.border) {
            (Some(_), Border::Generator) => Outcome::AtLeast,
            (Some(_), Border::None) if finding.complete => Outcome::AtLeast,
            (Some(_), Border::Failing) => Outcome::Found,
            (None, Border::Failing) if finding.complete && failed() => Outcome::Never,
            _ => Outcome::Open,
        };
        if self.outcome == Outcome::AtLeast {
            // What the generator did not reach tells nothing of the server.
            self.maximum = self.holds;
        }
        if finding.unstable {
            self.notes.push(Note::Unstable);
        }
        // At the lowest rate that failed.
        let failing = self.steps.iter().filter(|step| step.verdict == Verdict::Fails);
        let lowest = failing.min_by(|one, other| one.rate.total_cmp(&other.rate));
        if lowest.is_some_and(|step| step.flags.contains(&Flag::TooFewConnections)) {
            self.notes.push(Note::FewConnections);
        }
    }
}
