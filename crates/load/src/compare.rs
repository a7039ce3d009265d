//! Two reports side by side: how many times the figures of one are those of the other, and how sure that is.
//!
//! An interval comes from the seconds within each run ([`manifold_stats::sums_interval`]). That of a percentile is Woodruff's ("Confidence
//! intervals for medians and other position measures", 1952): seconds say how sure the share of answers beyond it is, and the histogram of
//! the whole run turns shares into times.

use manifold_stats::{Interval, Verdict, quotient, sums_interval};

use crate::grid::Grid;
use crate::histogram::Histogram;
use crate::report::{Distribution, PaceConfig, Report};
use crate::slices::Slice;

/// Beyond a percentile there must be so many answers for it to have an interval.
const BEYOND_MIN: f64 = 20.0;
/// One side of an interval: what is rarer by chance is told apart.
const TAIL: f64 = 0.025;
/// Decides what is drawn, so that the same files give the same intervals.
const SEED: u64 = 1;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Answers a second.
    Rate,
    /// Mean response time, microseconds.
    Mean,
    /// The response time at this quantile, microseconds.
    Percentile(f64),
    /// The part of all requests that failed.
    Errors,
}

/// One figure of both.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// The base's; absent where it has none.
    pub base: Option<f64>,
    /// The other's.
    pub new: Option<f64>,
    /// How many times the base's the other's is, at a level of 95 % within each run; or why that cannot be said.
    pub ratio: Result<Interval, Doubt>,
    /// What can be concluded.
    pub verdict: Verdict,
}

/// Why there is no interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// One of them has no such figure, or it is 0.
    NoFigure,
    /// A run has too few whole seconds, or its seconds were not kept.
    TooShort,
    /// Too few answers lie beyond the percentile.
    TooFewAnswers,
}

impl Doubt {
    /// For a person.
    pub fn meaning(self) -> &'static str {
        match self {
            Doubt::NoFigure => "no ratio: one of them is 0 or absent",
            Doubt::TooShort => "no interval: 8 whole seconds of each run are needed",
            Doubt::TooFewAnswers => "no interval: too few answers are beyond it",
        }
    }
}

/// A report, ready to be compared.
#[derive(Debug)]
struct Side {
    histogram: Option<Histogram>,
    mean: Option<f64>,
    rate: f64,
    failed: u64,
    all: u64,
    slices: Grid<Slice>,
    /// Nanoseconds since 1970.
    window: (u64, u64),
}

impl Side {
    fn of(report: &Report) -> Result<Side, String> {
        let latencies = report.histogram.as_ref().map(Distribution::latencies).transpose()?;
        let begins = report.started_unix_us.saturating_mul(1000);
        let failed = report.errors.total();
        Ok(Side {
            histogram: latencies.map(|latencies| latencies.histogram),
            mean: report.latency_us.map(|latency| latency.mean),
            rate: report.requests_per_second,
            failed,
            all: report.completed + failed,
            slices: report.slices.grid()?,
            window: (begins, begins.saturating_add((report.seconds * 1e9) as u64)),
        })
    }

    fn value(&self, figure: Figure) -> Option<f64> {
        match figure {
            Figure::Rate => Some(self.rate),
            Figure::Mean => self.mean,
            Figure::Percentile(quantile) => {
                self.histogram.as_ref().map(|histogram| histogram.value_at_quantile(quantile) as f64)
            }
            Figure::Errors => (self.all > 0).then(|| self.failed as f64 / self.all as f64),
        }
    }

    fn interval(&self, figure: Figure) -> Result<Interval, Doubt> {
        let value = self.value(figure).filter(|value| *value > 0.0).ok_or(Doubt::NoFigure)?;
        let slices = self.slices.cells.iter();
        let parts: Vec<(f64, f64)> = match figure {
            Figure::Rate => self.whole_seconds(),
            Figure::Mean => slices.map(|slice| (slice.sum as f64, slice.completed() as f64)).collect(),
            Figure::Percentile(quantile) => return self.percentile(quantile, value as u64),
            Figure::Errors => {
                slices.map(|slice| (slice.failed as f64, (slice.failed + slice.completed()) as f64)).collect()
            }
        };
        let interval = sums_interval(&parts, SEED).ok_or(Doubt::TooShort)?;
        Ok(around(value, interval))
    }

    /// Answers and seconds of the slices that lie in the window with both ends.
    fn whole_seconds(&self) -> Vec<(f64, f64)> {
        let width = self.slices.width;
        let lies_within = |at: u64| at >= self.window.0 && at.saturating_add(width) <= self.window.1;
        let slices = self.slices.cells.iter().enumerate().filter(|(at, _)| lies_within(self.slices.begins(*at)));
        slices.map(|(_, slice)| (slice.completed() as f64, width as f64 / 1e9)).collect()
    }

    fn percentile(&self, quantile: f64, value: u64) -> Result<Interval, Doubt> {
        let histogram = self.histogram.as_ref().ok_or(Doubt::NoFigure)?;
        if (1.0 - quantile) * (histogram.len() as f64) < BEYOND_MIN {
            return Err(Doubt::TooFewAnswers);
        }
        // Of those at the percentile itself half are counted as beyond.
        let beyond = |slice: &Slice| {
            let at = slice.counts.partition_point(|(place, _)| *place < value);
            let count = |place: &(u64, u64)| place.1 as f64 * if place.0 == value { 0.5 } else { 1.0 };
            (slice.counts[at..].iter().map(count).sum::<f64>(), slice.completed() as f64)
        };
        let parts: Vec<(f64, f64)> = self.slices.cells.iter().map(beyond).collect();
        let share = around(1.0 - quantile, sums_interval(&parts, SEED).ok_or(Doubt::TooShort)?);
        let time = |beyond: f64| histogram.value_at_quantile((1.0 - beyond).clamp(0.0, 1.0)).max(1) as f64;
        let estimate = value as f64;
        let (low, high) = (time(share.high).min(estimate), time(share.low).max(estimate));
        Ok(Interval { estimate, low, high, rounds: share.rounds })
    }
}

/// An interval as wide, in proportion, around a figure of the whole run.
fn around(value: f64, interval: Interval) -> Interval {
    let times = value / interval.estimate;
    Interval { estimate: value, low: interval.low * times, high: interval.high * times, ..interval }
}

/// How many times the base's a figure is.
fn ratio(figure: Figure, base: &Side, new: &Side) -> Ratio {
    let (old, value) = (base.value(figure), new.value(figure));
    let ratio = new.interval(figure).and_then(|new| Ok(quotient(new, base.interval(figure)?)));
    let verdict = match (&ratio, figure) {
        (Ok(ratio), _) => ratio.verdict(),
        (Err(Doubt::NoFigure), Figure::Errors) => appearance(base, new),
        (Err(_), _) => Verdict::TooFewRounds,
    };
    Ratio { base: old, new: value, ratio, verdict }
}

/// Where only one of them had errors: whether they came in so many seconds that chance does not put all of them on one side. Seconds are
/// counted and not errors, since one mishap brings many at once.
fn appearance(base: &Side, new: &Side) -> Verdict {
    let seconds = |side: &Side| side.slices.cells.iter().filter(|slice| slice.failed > 0).count();
    let share = |side: &Side, other: &Side| side.all as f64 / (side.all + other.all).max(1) as f64;
    let beyond_chance = |side, other| share(side, other).powi(seconds(side) as i32) < TAIL;
    match (base.failed > 0, new.failed > 0) {
        (false, true) if beyond_chance(new, base) => Verdict::More,
        (true, false) if beyond_chance(base, new) => Verdict::Less,
        _ => Verdict::NotDistinguishable,
    }
}

/// Two runs.
#[derive(Debug)]
pub struct Pair<'r> {
    /// What is held against.
    pub base: &'r Report,
    /// What is held against it.
    pub new: &'r Report,
    sides: (Side, Side),
}

impl<'r> Pair<'r> {
    /// Of a base and what is held against it, each with its name for complaints.
    ///
    /// # Errors
    /// A sentence, if one of them contradicts itself.
    pub fn of(base: (&str, &'r Report), new: (&str, &'r Report)) -> Result<Pair<'r>, String> {
        let side = |(name, report): (&str, &Report)| Side::of(report).map_err(|said| format!("{name}: {said}"));
        Ok(Pair { base: base.1, new: new.1, sides: (side(base)?, side(new)?) })
    }

    /// How many times the base's a figure is.
    pub fn ratio(&self, figure: Figure) -> Ratio {
        ratio(figure, &self.sides.0, &self.sides.1)
    }
}

/// What was asked of the two in different ways, a sentence each. The servers may differ: that is what one compares.
pub fn differences(base: &Report, new: &Report) -> Vec<String> {
    let (one, other) = (&base.config, &new.config);
    let mut found = Vec::new();
    let mut note = |what: &str, one: String, other: String| {
        if one != other {
            found.push(format!("{what}: {one} in the base, {other} in the new run"));
        }
    };
    let requests = |report: &Report| {
        let all = report.config.requests_sent.iter();
        all.map(|request| format!("{} {} ({})", request.method, path(&request.url), request.weight)).collect::<Vec<_>>()
    };
    note("requests", requests(base).join(", "), requests(new).join(", "));
    note("connections", one.connections.to_string(), other.connections.to_string());
    note("generator threads", one.threads.to_string(), other.threads.to_string());
    note("machines", base.machines.len().to_string(), new.machines.len().to_string());
    note("keep-alive", one.keep_alive.to_string(), other.keep_alive.to_string());
    note("pace", pace(&one.pace), pace(&other.pace));
    found
}

/// A URL without scheme and host.
fn path(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("/", |at| &rest[at..])
}

fn pace(pace: &PaceConfig) -> String {
    match pace {
        PaceConfig::Closed { think_mean_s, .. } if *think_mean_s > 0.0 => {
            format!("closed loop, {think_mean_s} s to think")
        }
        PaceConfig::Closed { .. } => "closed loop".to_owned(),
        PaceConfig::Open { arrivals, stages } => {
            let stage = |stage: &crate::report::StageConfig| match stage.seconds {
                Some(seconds) => format!("{}..{}:{seconds}", stage.from, stage.to),
                None => format!("{} /s", stage.from),
            };
            format!("{arrivals} {}", stages.iter().map(stage).collect::<Vec<_>>().join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Cell;
    use crate::latencies::Latencies;
    use manifold_stats::Rng;

    const SECOND: u64 = 1_000_000_000;
    const START: u64 = 1_795_253_400 * SECOND;

    /// A run of so many seconds with about 1,000 answers in each, exponential times with this mean in milliseconds, and failures.
    fn side(seconds: u64, mean_ms: f64, failed: u64, seed: u64) -> Side {
        let mut rng = Rng::new(seed);
        let (mut all, mut slices) = (Latencies::default(), crate::slices::none());
        for second in 0..seconds {
            let mut latencies = Latencies::default();
            for _ in 0..950 + rng.below(100) {
                latencies.record((-(1.0 - rng.unit()).ln() * mean_ms * 1e6) as u64);
            }
            all.merge(&latencies);
            slices.at(START + second * SECOND).add(&Slice::of(&latencies, failed));
        }
        let completed = all.count();
        Side {
            mean: Some(all.sum as f64 / completed as f64 / 1000.0),
            histogram: Some(all.histogram),
            rate: completed as f64 / seconds as f64,
            failed: failed * seconds,
            all: completed + failed * seconds,
            slices,
            window: (START, START + seconds * SECOND),
        }
    }

    #[test]
    fn what_differs_is_told_apart_and_what_does_not_is_not() {
        let check = |figure: Figure, base: &Side, new: &Side, expected: Verdict| {
            let got = ratio(figure, base, new);
            assert_eq!(got.verdict, expected, "{figure:?}: {got:?}");
        };
        let (base, same, slower) = (side(20, 5.0, 0, 1), side(20, 5.0, 0, 2), side(20, 6.0, 0, 3));
        for figure in [Figure::Mean, Figure::Percentile(0.5), Figure::Percentile(0.9), Figure::Percentile(0.99)] {
            check(figure, &base, &same, Verdict::NotDistinguishable);
            check(figure, &base, &slower, Verdict::More);
            check(figure, &slower, &base, Verdict::Less);
        }
        check(Figure::Rate, &base, &slower, Verdict::NotDistinguishable);
        let (few, many) = (side(20, 5.0, 1, 4), side(20, 5.0, 3, 5));
        check(Figure::Errors, &few, &many, Verdict::More);
        check(Figure::Errors, &base, &same, Verdict::NotDistinguishable);
        check(Figure::Errors, &base, &many, Verdict::More);
        check(Figure::Errors, &many, &base, Verdict::Less);
    }

    /// Ratios of runs with a known truth: an interval holds it about as often as it says. 60 pairs give a standard error of 3 points.
    #[test]
    fn intervals_of_ratios_hold_the_truth() {
        for figure in [Figure::Mean, Figure::Percentile(0.99)] {
            let held = (0..60)
                .filter(|seed| {
                    let (base, new) = (side(10, 5.0, 0, 2 * seed), side(10, 10.0, 0, 2 * seed + 1));
                    let interval = ratio(figure, &base, &new).ratio.expect("an interval");
                    interval.low <= 2.0 && 2.0 <= interval.high
                })
                .count();
            assert!(held >= 52, "{figure:?}: {held} of 60");
        }
    }

    #[test]
    fn what_cannot_be_said_is_not_said() {
        let doubt = |figure: Figure, base: &Side, new: &Side| ratio(figure, base, new).ratio.expect_err("no interval");
        let (short, long) = (side(5, 5.0, 0, 1), side(20, 5.0, 0, 2));
        assert_eq!(doubt(Figure::Rate, &short, &long), Doubt::TooShort);
        assert_eq!(doubt(Figure::Percentile(0.9), &long, &short), Doubt::TooShort);
        assert_eq!(doubt(Figure::Percentile(0.9999), &long, &long), Doubt::TooFewAnswers);
        let silent = Side { histogram: None, mean: None, rate: 0.0, ..side(20, 5.0, 0, 3) };
        for figure in [Figure::Rate, Figure::Mean, Figure::Percentile(0.5)] {
            assert_eq!(doubt(figure, &silent, &long), Doubt::NoFigure);
        }
        // One mishap is no difference, be it of a hundred requests.
        let mut once = side(20, 5.0, 0, 4);
        (once.slices.cells[3].failed, once.failed) = (100, 100);
        assert_eq!(ratio(Figure::Errors, &long, &once).verdict, Verdict::NotDistinguishable);
    }

    #[test]
    fn plans_that_differ_are_told() {
        let report: Report = serde_json::from_str(include_str!("../../lab/tests/load-report.json")).expect("a report");
        assert_eq!(differences(&report, &report), Vec::<String>::new());
        let mut other = report.clone();
        other.config.connections = 7;
        other.config.address = "192.0.2.1:80".to_owned();
        other.config.requests_sent[0].url = "http://elsewhere/index.html".to_owned();
        assert_eq!(differences(&report, &other), ["connections: 100 in the base, 7 in the new run"]);
        other.config.requests_sent[0].url.push('x');
        other.config.pace = PaceConfig::Open { arrivals: "constant".to_owned(), stages: Vec::new() };
        assert_eq!(differences(&report, &other).len(), 3);
    }
}
