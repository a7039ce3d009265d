//! Thresholds: what a run must not do, written as `p99>50ms,non2xx>0`.

use std::fmt;

use manifold_stats::Verdict;

use crate::compare::{Doubt, Figure, Pair};
use crate::histogram::Histogram;
use crate::report::Report;
use crate::units;

/// One condition that makes a run fail.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    pub(crate) metric: Metric,
    pub(crate) comparison: Comparison,
    /// Microseconds, requests a second, a number, or with `percent` a share of all requests in percent.
    pub(crate) value: f64,
    pub(crate) percent: bool,
    /// The value is how many times that of a base.
    times: bool,
    /// As it was written.
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Metric {
    /// Of the response time.
    Percentile(f64),
    Mean,
    Max,
    Rate,
    Completed,
    Errors,
    Non2xx,
    WrongStatus,
    WrongLength,
    WrongContent,
    Unfinished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// A threshold that was passed.
#[derive(Clone, Debug, PartialEq)]
pub struct Breach {
    /// The condition as it was written.
    pub condition: String,
    /// What the run had instead, in the condition's unit.
    pub value: f64,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: it is {}", self.condition, self.value)
    }
}

/// Reads conditions with commas between them.
///
/// # Errors
/// A sentence that names the condition and what can be written.
pub fn parse(list: &str) -> Result<Vec<Threshold>, String> {
    let thresholds = parse_with_ratios(list)?;
    match thresholds.iter().find(|threshold| threshold.times) {
        Some(ratio) => Err(format!("`{}`: there is nothing to compare with here", ratio.text)),
        None => Ok(thresholds),
    }
}

/// The same where there is another run to be compared with: `p99>1.1x` is a condition on the ratio.
///
/// # Errors
/// As of [`parse`].
pub fn parse_with_ratios(list: &str) -> Result<Vec<Threshold>, String> {
    list.split(',').map(|condition| one(condition.trim())).collect()
}

fn one(text: &str) -> Result<Threshold, String> {
    let wrong = |what: &str| {
        format!("`{text}`: {what}; write METRIC>VALUE, as p99>50ms, p99.9>=1s, errors>1%, non2xx>0, rate<1000")
    };
    let at = text.find(['<', '>']).ok_or_else(|| wrong("there is no < or >"))?;
    let (name, rest) = text.split_at(at);
    let (comparison, value) = match (rest.strip_prefix(">="), rest.strip_prefix("<=")) {
        (Some(value), _) => (Comparison::AtLeast, value),
        (_, Some(value)) => (Comparison::AtMost, value),
        _ if rest.starts_with('>') => (Comparison::Above, &rest[1..]),
        _ => (Comparison::Below, &rest[1..]),
    };
    let metric = metric(name.trim()).ok_or_else(|| wrong("the metric is none of pNN, mean, max, rate, completed, errors, non2xx, wrong-status, wrong-length, wrong-content, unfinished"))?;
    let value = value.trim();
    if let Some(times) = value.strip_suffix('x') {
        let times = times.parse().ok().filter(|times| (0.0..=f64::MAX).contains(times));
        let value = times.filter(|_| metric.figure().is_some());
        let value = value.ok_or_else(|| wrong("a ratio as 1.1x can be asked of pNN, mean, rate and errors"))?;
        return Ok(Threshold { metric, comparison, value, percent: false, times: true, text: text.to_owned() });
    }
    let (number, percent) = value.strip_suffix('%').map_or((value, false), |number| (number, true));
    let parsed = match metric {
        _ if percent && !metric.is_count() => None,
        Metric::Percentile(_) | Metric::Mean | Metric::Max => {
            units::duration(number).map(|duration| duration.as_nanos() as f64 / 1000.0)
        }
        Metric::Rate => units::rate(number),
        _ => number.parse().ok().filter(|number| (0.0..=f64::MAX).contains(number)),
    };
    let value = parsed.ok_or_else(|| wrong("the value cannot be read"))?;
    Ok(Threshold { metric, comparison, value, percent, times: false, text: text.to_owned() })
}

fn metric(name: &str) -> Option<Metric> {
    Some(match name {
        "mean" => Metric::Mean,
        "max" => Metric::Max,
        "rate" => Metric::Rate,
        "completed" => Metric::Completed,
        "errors" => Metric::Errors,
        "non2xx" => Metric::Non2xx,
        "wrong-status" => Metric::WrongStatus,
        "wrong-length" => Metric::WrongLength,
        "wrong-content" => Metric::WrongContent,
        "unfinished" => Metric::Unfinished,
        percentile => {
            let number = percentile.strip_prefix('p')?.parse::<f64>().ok()?;
            Metric::Percentile((0.0..=100.0).contains(&number).then_some(number / 100.0)?)
        }
    })
}

impl Metric {
    /// What of two runs is compared by it.
    fn figure(self) -> Option<Figure> {
        match self {
            Metric::Percentile(quantile) => Some(Figure::Percentile(quantile)),
            Metric::Mean => Some(Figure::Mean),
            Metric::Rate => Some(Figure::Rate),
            Metric::Errors => Some(Figure::Errors),
            _ => None,
        }
    }

    /// It counts requests, so that it can be a part of all.
    fn is_count(self) -> bool {
        matches!(
            self,
            Metric::Errors
                | Metric::Non2xx
                | Metric::WrongStatus
                | Metric::WrongLength
                | Metric::WrongContent
                | Metric::Unfinished
        )
    }

    /// Its value in a run. One without a single answer has no latency that would hold a threshold: it is beyond any.
    fn of(self, report: &Report, latencies: Option<&Histogram>) -> f64 {
        let summary = |of: fn(&crate::report::Summary) -> f64| report.latency_us.as_ref().map_or(f64::INFINITY, of);
        match self {
            Metric::Percentile(quantile) => latencies
                .filter(|latencies| !latencies.is_empty())
                .map_or(f64::INFINITY, |latencies| latencies.value_at_quantile(quantile) as f64),
            Metric::Mean => summary(|summary| summary.mean),
            Metric::Max => summary(|summary| summary.max),
            Metric::Rate => report.requests_per_second,
            Metric::Completed => report.completed as f64,
            Metric::Errors => report.errors.total() as f64,
            Metric::Non2xx => (report.completed - report.status.success) as f64,
            Metric::WrongStatus => report.wrong_status as f64,
            Metric::WrongLength => report.wrong_length as f64,
            Metric::WrongContent => report.wrong_content as f64,
            Metric::Unfinished => report.unfinished.count as f64,
        }
    }
}

/// Of thresholds on the rate alone, those that this one has passed.
pub fn rate_breaches(thresholds: &[Threshold], rate: f64) -> Vec<Breach> {
    let passed = thresholds.iter().filter(|threshold| threshold.metric == Metric::Rate && threshold.is_passed_by(rate));
    passed.map(|threshold| Breach { condition: threshold.text.clone(), value: rate }).collect()
}

impl Threshold {
    /// What is wrong where this is the metric's value, among so many requests.
    pub(crate) fn breach(&self, value: f64, all: f64) -> Option<Breach> {
        let value = if self.percent { value / all * 100.0 } else { value };
        let unit = match self.metric {
            Metric::Percentile(_) | Metric::Mean | Metric::Max => " (us)",
            _ if self.percent => " (%)",
            _ => "",
        };
        self.is_passed_by(value).then(|| Breach { condition: format!("{}{unit}", self.text), value })
    }

    /// It compares with another run.
    pub fn is_ratio(&self) -> bool {
        self.times
    }

    /// A ratio is passed if its whole interval is beyond; one that cannot be told is no pass, for else a run that is too short would
    /// always do.
    fn ratio_breach(&self, pair: &Pair<'_>) -> Option<Breach> {
        let row = pair.ratio(self.metric.figure()?);
        let upwards = matches!(self.comparison, Comparison::Above | Comparison::AtLeast);
        let appeared = if upwards { Verdict::More } else { Verdict::Less };
        let (passed, doubt) = match row.ratio {
            Ok(interval) => (self.is_passed_by(if upwards { interval.low } else { interval.high }), None),
            Err(Doubt::NoFigure) if self.metric == Metric::Errors => (row.verdict == appeared, None),
            Err(doubt) => (true, Some(doubt)),
        };
        let value = row.base.zip(row.new).map_or(f64::NAN, |(base, new)| new / base);
        let doubt = doubt.map(|doubt| format!(" ({})", doubt.meaning())).unwrap_or_default();
        passed.then(|| Breach { condition: format!("{}{doubt}", self.text), value })
    }

    fn is_passed_by(&self, value: f64) -> bool {
        match self.comparison {
            Comparison::Above => value > self.value,
            Comparison::AtLeast => value >= self.value,
            Comparison::Below => value < self.value,
            Comparison::AtMost => value <= self.value,
        }
    }
}

/// The thresholds that a run has passed; `pair`: it and the one it is compared with, which ratios need.
pub fn breaches(thresholds: &[Threshold], report: &Report, pair: Option<&Pair<'_>>) -> Vec<Breach> {
    let latencies = report.histogram.as_ref().and_then(|histogram| histogram.latencies().ok());
    let all = (report.completed + report.errors.total()).max(1) as f64;
    let histogram = latencies.as_ref().map(|latencies| &latencies.histogram);
    let breach = |threshold: &Threshold| match (threshold.times, pair) {
        (false, _) => threshold.breach(threshold.metric.of(report, histogram), all),
        (true, pair) => threshold.ratio_breach(pair?),
    };
    thresholds.iter().filter_map(breach).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 answers with 1 to 100 ms, and 25 failures.
    fn report() -> Report {
        let mut report: Report =
            serde_json::from_str(include_str!("../../lab/tests/load-report.json")).expect("a report");
        report.completed = 100;
        report.errors = crate::report::Errors { receive: 25, ..Default::default() };
        report.status = crate::report::StatusClasses { success: 90, server_error: 10, ..Default::default() };
        report.requests_per_second = 50.0;
        let mut latencies = crate::latencies::Latencies::default();
        (1..=100).for_each(|n| latencies.record(n * 1_000_000));
        report.histogram = crate::report::Distribution::of(&latencies);
        report
    }

    #[test]
    fn conditions_hold_or_are_passed() {
        let report = report();
        for (list, passed) in [
            ("p99>50ms", 1),
            ("p99>100ms", 0),
            ("p50 > 51ms, p50>=50ms", 1),
            ("p50<1s,p99.9>1us", 2),
            ("non2xx>0", 1),
            ("non2xx>9%", 0),
            ("errors>19%,errors>20%", 1),
            ("rate<51/s,rate<=50,rate<50", 2),
            ("completed<100,wrong-status>0,unfinished>100", 0),
        ] {
            let breaches = breaches(&parse(list).expect(list), &report, None);
            assert_eq!(breaches.len(), passed, "{list}: {breaches:?}");
        }
        let none = Report { completed: 0, latency_us: None, histogram: None, ..report };
        assert_eq!(
            breaches(&parse("p50>1h").expect("a threshold"), &none, None).len(),
            1,
            "no answer is no good answer"
        );
    }

    #[test]
    fn ratios_are_held_against_their_intervals() {
        let mut report = report();
        let (mut slices, mut all) = (crate::slices::none(), crate::latencies::Latencies::default());
        for second in 0..20 {
            let mut latencies = crate::latencies::Latencies::default();
            (1..=100).for_each(|n| latencies.record(n * 1_000_000 + second));
            all.merge(&latencies);
            crate::grid::Cell::add(slices.at((second + 1) * 1_000_000_000), &crate::slices::Slice::of(&latencies, 0));
        }
        (report.started_unix_us, report.seconds) = (1_000_000, 20.0);
        report.slices = crate::slices::Slices::of(&slices);
        (report.histogram, report.completed) = (crate::report::Distribution::of(&all), all.count());
        report.errors = Default::default();
        let faster = Report { requests_per_second: 100.0, ..report.clone() };
        let short = Report { slices: crate::slices::Slices::of(&crate::slices::none()), ..report.clone() };
        let check = |base: &Report, new: &Report, list: &str, passed: usize| {
            let pair = Pair::of(("base", base), ("new", new)).expect("sound");
            let got = breaches(&parse_with_ratios(list).expect(list), new, Some(&pair));
            assert_eq!(got.len(), passed, "{list}: {got:?}");
        };
        check(&report, &faster, "rate>1.5x,rate>=1.9x,rate>2.1x,rate<3x,rate<1x", 3);
        check(&report, &report, "rate<1x,rate>1x,p50>1x,p90<0.99x,errors>1x", 0);
        check(&report, &short, "rate<0.5x,p50>10x", 2);
    }

    #[test]
    fn mistakes_are_named() {
        for (list, part) in [
            ("p99=5ms", "no < or >"),
            ("p101>5ms", "none of"),
            ("latency>5ms", "none of"),
            ("p99>5", ""),
            ("p99>fast", "cannot be read"),
            ("p99>5%", "cannot be read"),
            ("non2xx>-1", "cannot be read"),
            ("p99>1.1x", "nothing to compare with"),
            ("non2xx>1.1x", "a ratio as 1.1x can be asked"),
            ("p99>-1x", "a ratio as 1.1x"),
            ("", "no < or >"),
        ] {
            match parse(list) {
                Err(said) => assert!(said.contains(part) && said.contains(list), "{list}: {said}"),
                Ok(_) => assert!(part.is_empty(), "{list} was read"),
            }
        }
    }
}
