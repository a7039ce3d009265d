//! What was counted, how it is kept, and what may differ from what was kept.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// A count may rise by this much before the check fails, in percent.
const RISE_MAX_PERCENT: f64 = 3.0;

/// The same for instructions where the baseline comes from another compiler, which orders and inlines differently.
const RISE_MAX_OTHER_COMPILER_PERCENT: f64 = 15.0;

/// Where the baseline is kept.
pub const BASELINE: &str = "xtask/bench-baseline.json";

/// Everything counted, and the compiler it was counted with.
#[derive(Debug, Default, PartialEq)]
pub struct Counts {
    pub compiler: String,
    /// Instructions a round of each scenario of bench/.
    pub scenarios: BTreeMap<String, f64>,
    /// What a request costs a whole server, by model and workload.
    pub served: BTreeMap<String, Cost>,
}

/// What a request costs a whole server process, in user space and at its border.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    pub instructions: f64,
    pub calls: f64,
    /// Calls of malloc and its kin.
    pub allocations: f64,
}

/// What bounds a cost: the largest rises in percent, where more than usual, and the most allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    pub instructions_may_rise: f64,
    pub calls_may_rise: f64,
    pub allocations_max: f64,
}

/// Compares counts with kept ones, and words it.
pub struct Comparison {
    /// A table of everything counted.
    pub table: String,
    pub failures: usize,
    rise_max_percent: f64,
}

impl Comparison {
    /// `partly`: only some of it was counted this time, so what is missing is not gone.
    /// `bounds` tells them for a name in `served`.
    pub fn of(baseline: &Counts, now: &Counts, bounds: impl Fn(&str) -> Bounds, partly: bool) -> Comparison {
        let same = baseline.compiler == now.compiler;
        let rise_max_percent = if same { RISE_MAX_PERCENT } else { RISE_MAX_OTHER_COMPILER_PERCENT };
        let mut comparison = Comparison { table: String::new(), failures: 0, rise_max_percent };
        comparison.scenarios(baseline, now);
        comparison.served(baseline, now, bounds);
        if !partly {
            let gone = baseline.scenarios.keys().filter(|name| !now.scenarios.contains_key(*name));
            let gone = gone.chain(baseline.served.keys().filter(|name| !now.served.contains_key(*name)));
            for name in gone {
                comparison.table.push_str(&format!("{name:<44} is in the baseline and is gone  FAILED\n"));
                comparison.failures += 1;
            }
        }
        if !same {
            let (theirs, ours) = (&baseline.compiler, &now.compiler);
            let told = format!("The baseline is rustc {theirs}'s, this is {ours}: {rise_max_percent} % allowed.\n");
            comparison.table.push_str(&told);
        }
        comparison
    }

    fn scenarios(&mut self, baseline: &Counts, now: &Counts) {
        if !now.scenarios.is_empty() {
            self.table.push_str(&format!("{:<44} {:>10}\n", "instructions a round", "now"));
        }
        for (name, &count) in &now.scenarios {
            let (change, word) = self.judge(baseline.scenarios.get(name).copied(), count, self.rise_max_percent);
            self.table.push_str(&format!("{name:<44} {count:>10.1} {change:>8}{word}\n"));
        }
    }

    fn served(&mut self, baseline: &Counts, now: &Counts, bounds: impl Fn(&str) -> Bounds) {
        if !now.served.is_empty() {
            let title = "a request of a whole server";
            self.table
                .push_str(&format!("\n{title:<44} {:>12} {:>18} {:>22}\n", "instructions", "calls", "allocations"));
        }
        for (name, cost) in &now.served {
            let (before, bounds) = (baseline.served.get(name), bounds(name));
            let (instructions, first) = self.judge(
                before.map(|cost| cost.instructions),
                cost.instructions,
                self.rise_max_percent.max(bounds.instructions_may_rise),
            );
            let (calls, second) =
                self.judge(before.map(|cost| cost.calls), cost.calls, RISE_MAX_PERCENT.max(bounds.calls_may_rise));
            let allocates = cost.allocations > bounds.allocations_max;
            self.failures += usize::from(allocates);
            let third = if allocates { "  FAILED: allocates" } else { "" };
            let words: BTreeSet<&str> = [first, second, third].into();
            let words = words.into_iter().collect::<String>();
            self.table.push_str(&format!(
                "{name:<44} {:>10.0} {instructions:>8} {:>10.2} {calls:>8} {:>12.2}{words}\n",
                cost.instructions, cost.calls, cost.allocations
            ));
        }
    }

    /// The change in percent, and a word on it.
    fn judge(&mut self, before: Option<f64>, now: f64, rise_max_percent: f64) -> (String, &'static str) {
        let Some(before) = before else {
            self.failures += 1;
            return ("-".to_owned(), "  FAILED: no baseline");
        };
        let change = if before == now { 0.0 } else { (now / before - 1.0) * 100.0 };
        let word = if change > rise_max_percent {
            self.failures += 1;
            "  FAILED"
        } else if change < -rise_max_percent {
            "  better: --bless keeps it"
        } else {
            ""
        };
        (format!("{change:+.1}%"), word)
    }
}

impl Counts {
    /// Reads what [`render`](Self::render) wrote.
    pub fn parse(text: &str) -> Result<Counts> {
        let value: Value = serde_json::from_str(text).with_context(|| format!("{BASELINE} is not JSON"))?;
        let mut counts =
            Counts { compiler: value["rustc"].as_str().unwrap_or_default().to_string(), ..Counts::default() };
        for (name, count) in object(&value, "scenarios")? {
            counts.scenarios.insert(
                name.clone(),
                number(count)
                    .filter(|count| *count > 0.0)
                    .with_context(|| format!("{BASELINE}: {name} is not a count"))?,
            );
        }
        for (name, cost) in object(&value, "served")? {
            let of = |what| number(&cost[what]).with_context(|| format!("{BASELINE}: {name} has no {what}"));
            let cost = Cost { instructions: of("instructions")?, calls: of("calls")?, allocations: of("allocations")? };
            counts.served.insert(name.clone(), cost);
        }
        Ok(counts)
    }

    /// As JSON with one line a count, so that two changes of it can be merged.
    pub fn render(&self) -> String {
        let served: serde_json::Map<String, Value> = self
            .served
            .iter()
            .map(|(name, cost)| {
                let Cost { instructions, calls, allocations } = cost;
                let cost = json!({ "instructions": instructions, "calls": calls, "allocations": allocations });
                (name.clone(), cost)
            })
            .collect();
        let value = json!({ "rustc": self.compiler, "scenarios": self.scenarios, "served": served });
        format!("{value:#}\n")
    }

    /// Takes over what was counted anew; the rest stays.
    pub fn update(&mut self, now: &Counts) {
        self.compiler.clone_from(&now.compiler);
        self.scenarios.extend(now.scenarios.iter().map(|(name, count)| (name.clone(), *count)));
        self.served.extend(now.served.iter().map(|(name, cost)| (name.clone(), *cost)));
    }
}

fn object<'a>(value: &'a Value, name: &str) -> Result<&'a serde_json::Map<String, Value>> {
    value[name].as_object().with_context(|| format!("{BASELINE} has no {name}"))
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|count| count.is_finite() && *count >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(compiler: &str, scenarios: &[(&str, f64)]) -> Counts {
        let scenarios = scenarios.iter().map(|(name, count)| (name.to_string(), *count)).collect();
        Counts { compiler: compiler.to_string(), scenarios, ..Counts::default() }
    }

    fn served(instructions: f64, calls: f64, allocations: f64) -> Counts {
        let served = [("m w".to_owned(), Cost { instructions, calls, allocations })].into_iter().collect();
        Counts { compiler: "1.95.0".to_owned(), served, ..Counts::default() }
    }

    #[test]
    fn a_count_may_rise_a_little() {
        let baseline = counts("1.95.0", &[("a", 100.0), ("b", 100.0)]);
        let failures = |now: Counts, partly| Comparison::of(&baseline, &now, |_| Bounds::default(), partly).failures;
        assert_eq!(failures(counts("1.95.0", &[("a", 102.9), ("b", 50.0)]), false), 0);
        assert_eq!(failures(counts("1.95.0", &[("a", 103.1), ("b", 100.0)]), false), 1);
        assert_eq!(failures(counts("1.96.0", &[("a", 110.0), ("b", 100.0)]), false), 0);
        assert_eq!(failures(counts("1.95.0", &[("a", 100.0), ("c", 100.0)]), false), 2);
        assert_eq!(failures(counts("1.95.0", &[("a", 100.0)]), true), 0);
    }

    #[test]
    fn each_cost_of_a_request_may_rise_a_little() {
        let baseline = served(5000.0, 3.0, 0.0);
        let failures = |now: Counts| Comparison::of(&baseline, &now, |_| Bounds::default(), false).failures;
        assert_eq!(failures(served(5100.0, 3.05, 0.0)), 0);
        assert_eq!(failures(served(5200.0, 3.0, 0.0)), 1);
        assert_eq!(failures(served(5000.0, 3.1, 0.0)), 1);
        assert_eq!(failures(served(5000.0, 3.0, 0.01)), 1);
        assert_eq!(failures(served(4000.0, 2.0, 0.0)), 0);
        let varies = |_: &str| Bounds { instructions_may_rise: 25.0, calls_may_rise: 40.0, allocations_max: 0.1 };
        assert_eq!(Comparison::of(&baseline, &served(6200.0, 4.0, 0.05), varies, false).failures, 0);
    }

    #[test]
    fn the_baseline_reads_back_as_written() {
        let mut kept = counts("1.95.0", &[("parse", 310.4), ("serve", 1200.0)]);
        kept.update(&served(5000.0, 0.25, 0.0));
        assert_eq!(Counts::parse(&kept.render()).unwrap(), kept);
        for bad in [
            "",
            "{}",
            r#"{"scenarios": {"a": "b"}, "served": {}}"#,
            r#"{"scenarios": {"a": 0}, "served": {}}"#,
            r#"{"scenarios": {}, "served": {"a": {"instructions": 1, "calls": 1}}}"#,
        ] {
            assert!(Counts::parse(bad).is_err(), "{bad}");
        }
    }
}
