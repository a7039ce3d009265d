//! `--fail-on`: the conditions of `manifold load` and `ab`, held against what siege counts.

use super::report::Figures;
use crate::latencies::Latencies;
use crate::verdict::{self, Breach, Metric, Threshold};

/// Reads conditions with commas between them.
///
/// # Errors
/// A sentence that names the condition.
pub fn parse(list: &str) -> Result<Vec<Threshold>, String> {
    let thresholds = verdict::parse(list).map_err(|said| format!("--fail-on: {said}"))?;
    let unknown = |threshold: &&Threshold| {
        matches!(
            threshold.metric,
            Metric::WrongStatus | Metric::WrongLength | Metric::WrongContent | Metric::Unfinished
        )
    };
    match thresholds.iter().find(unknown) {
        Some(other) => Err(format!(
            "--fail-on: `{}`: siege expects nothing of answers; there are pNN, mean, max, rate, completed, errors and non2xx",
            other.text
        )),
        None => Ok(thresholds),
    }
}

/// The conditions that hold. `errors` are failed transactions, `completed` the hits; a run without an answer holds every one on latency.
pub fn breaches(thresholds: &[Threshold], figures: &Figures, times: &Latencies) -> Vec<Breach> {
    let answers = times.count();
    let us = |nanoseconds: f64| if answers == 0 { f64::INFINITY } else { nanoseconds / 1000.0 };
    let value = |metric: Metric| match metric {
        Metric::Percentile(quantile) => us(times.histogram.value_at_quantile(quantile) as f64 * 1000.0),
        Metric::Mean => us(times.sum as f64 / answers.max(1) as f64),
        Metric::Max => us(times.max as f64),
        Metric::Rate => figures.rate(),
        Metric::Completed => figures.tally.hits as f64,
        Metric::Errors => figures.failed as f64,
        Metric::Non2xx => figures.tally.non2xx as f64,
        Metric::WrongStatus | Metric::WrongLength | Metric::WrongContent | Metric::Unfinished => 0.0,
    };
    // An answer with a status of 500 is a failed transaction as well.
    let all = answers.max(figures.tally.hits + figures.failed).max(1) as f64;
    thresholds.iter().filter_map(|threshold| threshold.breach(value(threshold.metric), all)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::siege::report::Tally;

    #[test]
    fn conditions_hold_for_what_siege_counts() {
        let mut times = Latencies::default();
        (1..=80).for_each(|ms| times.record(ms * 1_000_000));
        let tally = Tally { hits: 80, non2xx: 8, ..Tally::default() };
        let figures = Figures { tally, failed: 20, elapsed: 2_000_000_000 };
        for (list, held) in [
            ("errors>0", 1),
            ("errors>19%,errors>20%", 1),
            ("non2xx>7%,non2xx>8", 1),
            ("rate<41,completed<80", 1),
            ("p50>39ms,p50>41ms,max>=80ms,mean>1s", 2),
        ] {
            let breaches = breaches(&parse(list).unwrap(), &figures, &times);
            assert_eq!(breaches.len(), held, "{list}: {breaches:?}");
        }
        let nothing =
            breaches(&parse("p99>1h,max>1h,mean>1h,errors>0").unwrap(), &Figures::default(), &Latencies::default());
        assert_eq!(nothing.len(), 3, "{nothing:?}");
        assert!(parse("wrong-length>0").unwrap_err().contains("`wrong-length>0`"));
        assert!(parse("p99").unwrap_err().starts_with("--fail-on: `p99`"));
    }
}
