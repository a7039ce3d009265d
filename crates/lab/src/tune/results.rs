//! Everything a search found, as `tune.json` keeps it. The report is made from this alone.

use serde::{Deserialize, Serialize};

use super::candidate::Candidate;
use super::objective::Objective;
use crate::doctor::memory::Costs;
use crate::output::Kept;
use crate::results::{Cell, Environment};
use crate::target::{Family, Model};

/// The version of the file's form; it changes when a reader must.
pub const FORMAT: u32 = 1;

/// A search.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Tuned {
    /// [`FORMAT`].
    pub format: u32,
    /// What was asked.
    pub question: Question,
    /// Where it ran.
    pub environment: Environment,
    /// What the server's program says of itself.
    pub version: String,
    /// What children cost, by model.
    pub costs: Vec<(Model, Costs)>,
    /// Clients, and answers a second of the present setting.
    pub curve: Vec<(u32, f64)>,
    /// Fewest clients at which it is nearly as fast as at its best.
    pub knee: Option<u32>,
    /// All that were measured; the present setting stands first.
    pub candidates: Vec<Candidate>,
    /// Why others were not.
    pub left_out: Vec<String>,
    /// What is told of private copies of the user's configuration.
    pub remarks: Vec<String>,
    /// The rungs of the race.
    pub rungs: Vec<Rung>,
    /// Every cell of the race, by candidate.
    pub race: Vec<Cell>,
    /// Figures of the race by candidate and round.
    pub figures: Vec<Vec<Option<f64>>>,
    /// The race's choice, which was measured anew; `None` where there was nothing to confirm.
    pub chosen: Option<usize>,
    /// What was measured anew.
    pub confirmation: Option<Confirmation>,
    /// What came of it.
    pub verdict: Verdict,
    /// Set when it was ended early: why.
    pub ended_early: Option<String>,
    /// How long it took, seconds.
    pub took_s: f64,
}

/// What was asked.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Question {
    /// Whose server.
    pub target: Family,
    /// What is better.
    pub objective: Objective,
    /// What is asked for, the most frequent first.
    pub paths: Vec<String>,
    /// What of the requests in the list or log these paths are; 1 for all.
    pub share: f64,
    /// The folder served; `None` with a configuration of the user's.
    pub site: Option<String>,
    /// The configuration that is the present setting; `None` for the server's defaults.
    pub present: Option<String>,
    /// It is served itself, and not only its numbers.
    pub is_own: bool,
    /// Minutes that it may take.
    pub minutes: f64,
    /// Decides the order of cells.
    pub seed: u64,
}

/// A rung of the race.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Rung {
    /// Candidates that were measured.
    pub alive: Vec<usize>,
    /// Rounds.
    pub rounds: u32,
    /// Measured time of a cell, seconds.
    pub cell_s: f64,
}

/// The chosen setting against the present one, on servers of their own.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Confirmation {
    /// Complete rounds.
    pub rounds: u32,
    /// How often it was looked at while rounds came in.
    pub looks: u32,
    /// Measured time of a cell, seconds.
    pub cell_s: f64,
    /// Cells; target 0 is the present setting, 1 the chosen one.
    pub cells: Vec<Cell>,
    /// Figures of the present setting by round.
    pub present: Vec<Option<f64>>,
    /// Figures of the chosen one.
    pub chosen: Vec<Option<f64>>,
}

/// What came of a search.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The chosen setting is better, so many times.
    Better {
        /// Ratio of the figures.
        times: f64,
        /// Lower end of its interval.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// Keep what you have, and why.
    Keep {
        /// As a sentence.
        why: String,
    },
}

impl Kept for Tuned {
    const FILE: &'static str = "tune.json";
    const FORMAT: u32 = FORMAT;

    fn format(&self) -> u32 {
        self.format
    }
}
