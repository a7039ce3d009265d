//! Everything a run found, as `results.json` keeps it: what was asked, where it ran, each measured cell, each figure.
//! The report, the CSV and the words are made from this alone, so they can be made again from the file.

use serde::{Deserialize, Serialize};

use crate::cores::Cores;
use crate::experiment::{Experiment, Load, Step};
use crate::figures::Figure;
use crate::sampler::account::Kernel;
use crate::sampler::watch::Watched;
use crate::target::{Family, Model};

/// The version of the file's form; it changes when a reader must.
pub const FORMAT: u32 = 1;

/// What the experiment is called in lists.
pub const NAME: &str = "models";

/// A whole run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Results {
    /// [`FORMAT`].
    pub format: u32,
    /// What was asked.
    pub experiment: Experiment,
    /// The page.
    pub page: PageInfo,
    /// The targets measured, in the order of the tables.
    pub targets: Vec<TargetInfo>,
    /// The targets that were wanted and could not be measured.
    pub missing: Vec<Missing>,
    /// Where it ran.
    pub environment: Environment,
    /// Set when it was ended early: why, and so how far it came.
    pub ended_early: Option<String>,
    /// How long it took, seconds.
    pub took_s: f64,
    /// Every cell in the order measured.
    pub cells: Vec<Cell>,
    /// The figures over all rounds, computed from the cells.
    pub figures: Vec<Figure>,
}

/// The page that was asked for.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PageInfo {
    /// The served folder; `None` for the built-in page.
    pub site: Option<String>,
    /// The path.
    pub path: String,
    /// Length of the body in bytes.
    pub bytes: u64,
}

/// A target that was measured.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct TargetInfo {
    /// Its name in the files.
    pub name: String,
    /// Its name for a person.
    pub label: String,
    /// Whose program.
    pub family: Family,
    /// Which model.
    pub model: Model,
    /// What the program says of itself.
    pub version: String,
    /// Processes and threads after the start, before any load.
    pub processes: u32,
    /// See `processes`.
    pub threads: u32,
    /// PSS after the start, before any load, KiB.
    pub pss_fresh_kib: Option<u64>,
    /// Load before the measured time of each of its cells, seconds.
    pub warm_up_s: f64,
}

/// A target that was wanted but is not there.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Missing {
    /// Its name for a person.
    pub label: String,
    /// Why.
    pub reason: String,
}

/// Where the run took place.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Environment {
    /// Beginning of the run, UTC, `2026-11-21 09:30:00`.
    pub started_utc: String,
    /// Operating system.
    pub system: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor model.
    pub cpu: String,
    /// Memory of the machine, MiB.
    pub memory_mib: u64,
    /// Who got which processors.
    pub cores: Cores,
    /// Version of Manifold.
    pub manifold: String,
    /// The command that repeats the run.
    pub command: String,
    /// What of the machine makes figures worth less, as sentences.
    #[serde(default)]
    pub suspicions: Vec<String>,
}

/// One measurement: one target under one load in one round.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Cell {
    /// Round, from 0.
    pub round: u32,
    /// Index into [`Results::targets`].
    pub target: usize,
    /// Whether connections were kept alive.
    pub keep_alive: bool,
    /// Connections.
    pub concurrency: u32,
    /// Measured time, seconds.
    pub seconds: f64,
    /// Answers in the measured time.
    pub completed: u64,
    /// Requests the server worked on while its CPU time was counted: with the warm-up and those unfinished at the end.
    pub worked_on: u64,
    /// Answers a second.
    pub requests_per_second: f64,
    /// Latency percentiles, microseconds; absent without answers.
    pub latency_us: Option<Latency>,
    /// Requests without a complete answer.
    pub errors: u64,
    /// Connections that never got one answer.
    pub unserved: u64,
    /// CPU seconds of the server's process tree from before the warm-up to after the load.
    pub cpu_s: f64,
    /// The part in user mode, counted in clock ticks of 10 ms and so rough in one cell: it and `system_s` need not add up
    /// to `cpu_s`.
    pub user_s: f64,
    /// The part in the kernel, counted in clock ticks.
    pub system_s: f64,
    /// PSS of the server's process tree under load, KiB.
    pub pss_kib: Option<u64>,
    /// Processes of the server.
    pub processes: u32,
    /// Threads of the server.
    pub threads: u32,
    /// CPU seconds of the generator in the measured time.
    pub generator_cpu_s: f64,
    /// Share of one processor that something else than server and generator used meanwhile (1 = one whole processor).
    pub other_load: f64,
    /// What the kernel counted from before the warm-up to after the load.
    #[serde(default)]
    pub kernel: Kernel,
    /// How it went, of a load that took seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Course>,
    /// What is to be held against it.
    pub marks: Vec<Mark>,
}

/// A load over time.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Course {
    /// Width of an interval of `answers`, seconds; the first begins with the measured time.
    pub interval_s: f64,
    /// Answers in each interval.
    pub answers: Vec<u64>,
    /// The server, looked at now and then; times count as those of `answers`, CPU time from the beginning of the warm-up.
    pub server: Watched,
}

/// Latency in microseconds: from the start of a request (of connecting, without keep-alive) to its last byte.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Latency {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

impl Course {
    /// The part of one processor that looking at the server took.
    pub fn watching_took(&self) -> f64 {
        self.server.own_cpu_s / self.server.looks.last().map_or(f64::INFINITY, |look| look.at_s)
    }
}

impl Cell {
    /// The load.
    pub fn load(&self) -> Load {
        Load { keep_alive: self.keep_alive, concurrency: self.concurrency }
    }

    /// Whether it is of a server that somebody else started, at whose processes nobody looked.
    pub fn is_unwatched(&self) -> bool {
        self.processes == 0 && self.cpu_s == 0.0
    }

    /// What was to be measured.
    pub fn step(&self) -> Step {
        Step { round: self.round, target: self.target, load: self.load() }
    }

    /// Whether its figures may enter a median: not if the answers were wrong, or none came.
    pub fn usable(&self) -> bool {
        self.completed > 0 && !self.marks.iter().any(|mark| mark.refuses())
    }
}

/// A validity guard that spoke up.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// The generator had no CPU left: the server may be faster than shown.
    GeneratorSaturated,
    /// An answer had another status than 200.
    WrongStatus,
    /// An answer had another length than the page.
    WrongLength,
    /// Some requests got no complete answer.
    Errors,
    /// No local port was left for new connections.
    PortsExhausted,
    /// The generator ran out of file descriptors.
    DescriptorsExhausted,
    /// Some connections never got an answer.
    Unserved,
    /// Requests were waiting at the end, for longer than any answered one.
    Stalled,
    /// No answer at all, or the generator failed.
    NothingCompleted,
    /// Fewer than two answers a connection: too little time for so many.
    TooShort,
    /// Something else on the machine used more than a tenth of a processor.
    Disturbed,
}

impl Mark {
    /// Every mark, in the order of the report's table.
    pub const ALL: [Mark; 11] = [
        Mark::WrongStatus,
        Mark::WrongLength,
        Mark::NothingCompleted,
        Mark::PortsExhausted,
        Mark::DescriptorsExhausted,
        Mark::Errors,
        Mark::Unserved,
        Mark::Stalled,
        Mark::TooShort,
        Mark::GeneratorSaturated,
        Mark::Disturbed,
    ];

    /// The cell's figures are refused, not only marked.
    pub fn refuses(self) -> bool {
        matches!(
            self,
            Mark::WrongStatus
                | Mark::WrongLength
                | Mark::NothingCompleted
                | Mark::PortsExhausted
                | Mark::DescriptorsExhausted
        )
    }

    /// One letter for the tables.
    pub fn letter(self) -> char {
        match self {
            Mark::GeneratorSaturated => 'G',
            Mark::WrongStatus => 'S',
            Mark::WrongLength => 'L',
            Mark::Errors => 'E',
            Mark::PortsExhausted => 'P',
            Mark::DescriptorsExhausted => 'F',
            Mark::Unserved => 'U',
            Mark::Stalled => 'W',
            Mark::NothingCompleted => 'N',
            Mark::TooShort => 'T',
            Mark::Disturbed => 'D',
        }
    }

    /// What it means, for the report.
    pub fn meaning(self) -> &'static str {
        match self {
            Mark::GeneratorSaturated => {
                "the generator's processor was full: requests a second are a lower bound of what the server can do, and latency \
                 contains waiting inside the generator; CPU a request and memory are not affected"
            }
            Mark::WrongStatus => "an answer had another status than 200: the round is left out",
            Mark::WrongLength => "an answer had another length than the page: the round is left out",
            Mark::Errors => "some requests got no complete answer (refused, reset, or closed while in use)",
            Mark::PortsExhausted => "no local port was left for new connections: the round is left out",
            Mark::DescriptorsExhausted => "the generator ran out of file descriptors: the round is left out",
            Mark::Unserved => {
                "some connections got no answer at all: the server had no process or thread for them, or its backlog of 511 overflowed \
                 when all connected at once (the kernel tries again after a second)"
            }
            Mark::Stalled => "requests were still waiting at the end, for longer than any answered one had taken",
            Mark::NothingCompleted => "nothing was answered: the round is left out",
            Mark::TooShort => {
                "fewer than two answers a connection came: the cell was too short for so many; give more --seconds"
            }
            Mark::Disturbed => "something else on the machine used more than a tenth of a processor",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_has_its_own_letter_and_is_listed() {
        let letters: std::collections::BTreeSet<char> = Mark::ALL.iter().map(|m| m.letter()).collect();
        assert_eq!(letters.len(), Mark::ALL.len());
    }

    #[test]
    fn wrong_answers_are_refused_and_a_full_generator_is_not() {
        let cell = |completed, marks: &[Mark]| Cell { completed, marks: marks.to_vec(), ..Cell::default() };
        for (cell, expected) in [
            (cell(5, &[]), true),
            (cell(0, &[]), false),
            (cell(5, &[Mark::GeneratorSaturated, Mark::Errors, Mark::Unserved]), true),
            (cell(5, &[Mark::Errors, Mark::WrongLength]), false),
            (cell(5, &[Mark::PortsExhausted]), false),
        ] {
            assert_eq!(cell.usable(), expected, "{cell:?}");
        }
    }
}
