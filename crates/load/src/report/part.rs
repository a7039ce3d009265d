//! A part of a run's requests: those of one kind, or those that were due in one stage.

use serde::{Deserialize, Serialize};

use super::{Distribution, Errors, Summary};

/// The figures of a part of a run's requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The place of its kind in [`Config::requests_sent`](super::Config::requests_sent), or of its stage among those of
    /// [`PaceConfig::Open`](super::PaceConfig::Open), from 0.
    pub first: u32,
    /// The same, but for the last part of many, which is of all from `first` to this.
    pub last: u32,
    /// How long it lasted within the window, seconds: a stage its own time, a kind all of it.
    pub seconds: f64,
    /// Answers to its requests.
    pub completed: u64,
    /// Answers that came while it lasted: to requests of this kind, or during this stage to any.
    pub completed_within: u64,
    /// `completed_within` divided by `seconds`.
    pub requests_per_second: f64,
    /// Its requests that ended without a complete answer.
    pub errors: Errors,
    /// Its requests that were under way at the end of the run, and of a stage those that were never begun.
    pub unanswered: u64,
    /// Answers whose status was not the expected one.
    pub wrong_status: u64,
    /// Answers whose length was not the expected one.
    pub wrong_length: u64,
    /// Answers whose body was not the expected one.
    pub wrong_content: u64,
    /// Response time, microseconds; absent when nothing was completed.
    pub latency_us: Option<Summary>,
    /// The same, complete.
    pub histogram: Option<Distribution>,
}
