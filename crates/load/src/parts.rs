//! What is counted of each kind of request and of each stage of a schedule, where there are several.
//!
//! A request belongs to the stage that it was due in: its latency tells how that stage was served, whenever the answer came. How many
//! answers came while a stage lasted is counted beside it, for that is the rate that was reached.

use std::ops::Range;

use crate::latencies::Latencies;
use crate::report::{self, Config, Distribution, Errors, PaceConfig, Summary};

/// So many parts at most have figures of their own; what is beyond shares the last one's.
const PARTS_MAX: usize = 64;

/// A part's figures.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Response times of its answers.
    pub latencies: Latencies,
    /// Answers that came while it lasted.
    pub within: u64,
    /// Failures by class.
    pub errors: Errors,
    /// Requests that did not end.
    pub unanswered: u64,
    /// Answers with another status, length and body than expected.
    pub wrong: [u64; 3],
}

/// The parts of a run, of one thread or of many.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Of each kind of request; none where there is only one.
    pub kinds: Vec<Part>,
    /// Of each stage; none where there is only one.
    pub stages: Vec<Part>,
}

impl Part {
    fn add(&mut self, other: &Part) {
        self.latencies.merge(&other.latencies);
        self.within += other.within;
        self.errors.add(&other.errors);
        self.unanswered += other.unanswered;
        self.wrong.iter_mut().zip(other.wrong).for_each(|(sum, more)| *sum += more);
    }

    fn report(&self, places: &Range<usize>, seconds: f64) -> report::Part {
        let [wrong_status, wrong_length, wrong_content] = self.wrong;
        report::Part {
            first: places.start as u32,
            last: places.end as u32 - 1,
            seconds,
            completed: self.latencies.count(),
            completed_within: self.within,
            requests_per_second: if seconds > 0.0 { self.within as f64 / seconds } else { 0.0 },
            errors: self.errors,
            unanswered: self.unanswered,
            wrong_status,
            wrong_length,
            wrong_content,
            latency_us: Summary::of(&self.latencies),
            histogram: Distribution::of(&self.latencies),
        }
    }

    /// # Errors
    /// A sentence, if the part contradicts itself.
    fn of_report(part: &report::Part) -> Result<Part, String> {
        let latencies = part.histogram.as_ref().map(Distribution::latencies).transpose()?.unwrap_or_default();
        if latencies.count() != part.completed {
            return Err("its figures contradict each other: the completed of a part and its histogram".to_owned());
        }
        Ok(Part {
            latencies,
            within: part.completed_within,
            errors: part.errors,
            unanswered: part.unanswered,
            wrong: [part.wrong_status, part.wrong_length, part.wrong_content],
        })
    }
}

impl Parts {
    /// Nothing counted yet, of so many kinds and stages. Where there is one it has no part, for that would be the whole.
    pub fn new(kinds: usize, stages: usize) -> Parts {
        let parts = |all: usize| vec![Part::default(); places(all).len()];
        Parts { kinds: parts(kinds), stages: parts(stages) }
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.stages.is_empty()
    }

    /// Adds another's of the same run.
    pub fn add(&mut self, other: &Parts) {
        for (sum, more) in [(&mut self.kinds, &other.kinds), (&mut self.stages, &other.stages)] {
            sum.resize_with(sum.len().max(more.len()), Part::default);
            sum.iter_mut().zip(more).for_each(|(sum, more)| sum.add(more));
        }
    }

    /// As a report with this configuration and a window of so many seconds has them: kinds, and stages.
    pub fn report(&self, config: &Config, window: f64) -> [Vec<report::Part>; 2] {
        let lengths = lengths(config);
        let begins = |place: usize| lengths[..place].iter().sum::<f64>();
        let lasted = |places: &Range<usize>| begins(places.end).min(window) - begins(places.start).min(window);
        let kinds = self.kinds.iter().zip(places(config.requests_sent.len()));
        let stages = self.stages.iter().zip(places(lengths.len()));
        [
            kinds.map(|(part, places)| part.report(&places, window)).collect(),
            stages.map(|(part, places)| part.report(&places, lasted(&places))).collect(),
        ]
    }

    /// The figures of a report again.
    ///
    /// # Errors
    /// A sentence, if the report contradicts itself.
    pub fn of_report(report: &report::Report) -> Result<Parts, String> {
        let of = |parts: &[report::Part]| parts.iter().map(Part::of_report).collect::<Result<Vec<_>, _>>();
        let stages = lengths(&report.config).len();
        for (parts, all) in [(&report.kinds, report.config.requests_sent.len()), (&report.stages, stages)] {
            let said = parts.iter().map(|part| part.first as usize..part.last as usize + 1);
            if !parts.is_empty() && !said.eq(places(all)) {
                return Err("its figures contradict each other: the parts and what was asked for".to_owned());
            }
        }
        Ok(Parts { kinds: of(&report.kinds)?, stages: of(&report.stages)? })
    }
}

/// The part that a place counts in.
#[inline]
pub fn part_of(place: usize) -> usize {
    place.min(PARTS_MAX - 1)
}

/// Which places each part is of, of so many; none if there is one.
fn places(all: usize) -> Vec<Range<usize>> {
    match all {
        0 | 1 => Vec::new(),
        2..=PARTS_MAX => (0..all).map(|place| place..place + 1).collect(),
        _ => (0..PARTS_MAX).map(|part| part..if part + 1 < PARTS_MAX { part + 1 } else { all }).collect(),
    }
}

/// The lengths of the stages, seconds; one without end is the last.
fn lengths(config: &Config) -> Vec<f64> {
    match &config.pace {
        PaceConfig::Open { stages, .. } => stages.iter().map(|stage| stage.seconds.unwrap_or(f64::INFINITY)).collect(),
        PaceConfig::Closed { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_them_all_and_gives_them_back() {
        let mut report: report::Report =
            serde_json::from_str(include_str!("../../lab/tests/load-report.json")).expect("a report");
        report.config.requests_sent = vec![report.config.requests_sent[0].clone(); 70];
        let stage = |seconds| report::StageConfig { from: 1.0, to: 1.0, seconds };
        let stages = vec![stage(Some(2.0)), stage(Some(3.0)), stage(None)];
        report.config.pace = PaceConfig::Open { arrivals: "constant".to_owned(), stages };
        let mut parts = Parts::new(70, 3);
        parts.kinds[63].latencies.record(5000);
        for stage in &mut parts.stages {
            (stage.within, stage.unanswered) = (8, 1);
        }
        [report.kinds, report.stages] = parts.report(&report.config, 4.0);
        let last = &report.kinds[63];
        assert_eq!((last.first, last.last, last.completed, last.seconds), (63, 69, 1, 4.0));
        let stages: Vec<(f64, f64)> =
            report.stages.iter().map(|stage| (stage.seconds, stage.requests_per_second)).collect();
        assert_eq!(stages, [(2.0, 4.0), (2.0, 4.0), (0.0, 0.0)], "the window was over in the middle of the second");
        let again = Parts::of_report(&report).expect("sound");
        assert_eq!(again.report(&report.config, 4.0), [report.kinds, report.stages]);
    }

    #[test]
    fn every_place_is_in_one_part() {
        for all in [0, 1, 2, 63, 64, 65, 1000] {
            let places = places(all);
            assert!(places.len() <= PARTS_MAX, "{all}");
            if all < 2 {
                assert!(places.is_empty(), "{all}");
                continue;
            }
            let covered: Vec<usize> = places.iter().cloned().flatten().collect();
            assert!(covered.into_iter().eq(0..all), "{all}");
            let is_its_own = |place: usize| places[part_of(place)].contains(&place);
            assert!((0..all).all(is_its_own), "{all}");
        }
    }
}
