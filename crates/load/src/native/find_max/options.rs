//! The options of a search, and what they change in those of a run.

use std::time::Duration;

use manifold_stats::capacity::requests_needed;

use super::condition::{self, Condition};
use crate::native::args::Options;
use crate::native::pace::Pacing;
use crate::units::{self, RATE_MAX};
use crate::verdict::Metric;

/// Length of a step, unless `--duration` says otherwise.
const STEP: Duration = Duration::from_secs(10);
/// Load before each step's window, unless `--warmup` says otherwise.
pub const WARM_UP: Duration = Duration::from_secs(1);
/// Time for the whole search, unless `--budget` says otherwise.
const BUDGET: Duration = Duration::from_secs(900);
/// Distance of neighbouring rates, unless `--precision` says otherwise.
const PRECISION: f64 = 0.05;
/// The start's part that is the lowest rate.
const LOWEST: f64 = 0.01;

/// `--find-max` and the options beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct FindMax {
    /// What is to hold; at least one.
    pub conditions: Vec<Condition>,
    /// How far neighbouring rates are apart, as a share.
    pub precision: f64,
    /// How long the whole search may take.
    pub budget: Duration,
    /// The rate to begin with.
    pub start: f64,
}

/// What was given so far.
#[derive(Debug, Default)]
pub struct Given {
    conditions: Vec<Condition>,
    precision: Option<f64>,
    budget: Option<Duration>,
}

impl Given {
    /// `None`: the option is another's.
    pub fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
        Some(match name {
            "find-max" => condition::parse(value).map(|conditions| self.conditions.extend(conditions)),
            "precision" => {
                let share = units::share(value).filter(|share| (0.001..=1.0).contains(share));
                self.precision = share;
                share.map(drop).ok_or_else(|| format!("{value}: from 0.1% to 100% are needed"))
            }
            "budget" => {
                let budget = units::duration(value).filter(|budget| !budget.is_zero());
                self.budget = budget;
                budget.map(drop).ok_or_else(|| format!("{value}: a time above 0 is needed, as 10min"))
            }
            _ => return None,
        })
    }

    /// Whether a search is wanted.
    pub fn is_search(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// The search, whose steps have a length and a rate: those that were said, or else its own.
    ///
    /// # Errors
    /// A sentence, if these options do not go together with the others.
    pub fn finish(self, options: &mut Options, pacing: &mut Pacing) -> Result<Option<FindMax>, String> {
        if !self.is_search() {
            return match (self.precision, self.budget) {
                (None, None) => Ok(None),
                _ => Err("--precision and --budget are of a search; give --find-max".to_owned()),
            };
        }
        if options.stop_requests.is_some() {
            return Err("--find-max makes steps of a duration; give -t, not -n".to_owned());
        }
        if options.csv.is_some() || options.hdr.is_some() {
            return Err("--csv and --hdr are of one run; a search has many".to_owned());
        }
        if options.fail_on.iter().any(|threshold| threshold.metric != Metric::Rate) {
            return Err("--fail-on beside --find-max is held against the rate found: give rate<NUMBER".to_owned());
        }
        let needed = self.conditions.iter().map(|condition| requests_needed(condition.allowed)).max().unwrap_or(0);
        let step = *options.duration.get_or_insert(STEP);
        let start = pacing.begin_at((needed as f64 / step.as_secs_f64().max(f64::MIN_POSITIVE)).min(RATE_MAX))?;
        Ok(Some(FindMax {
            conditions: self.conditions,
            precision: self.precision.unwrap_or(PRECISION),
            budget: self.budget.unwrap_or(BUDGET),
            start,
        }))
    }
}

impl FindMax {
    /// What the search is asked.
    pub fn wanted(&self) -> manifold_stats::capacity::Wanted {
        manifold_stats::capacity::Wanted {
            start: self.start,
            lowest: self.start * LOWEST,
            highest: RATE_MAX,
            precision: self.precision,
            allowed: self.conditions.iter().map(|condition| condition.allowed).collect(),
        }
    }
}
