//! Conditions on single requests: what makes one of them bad, and how many may be so.
//!
//! `p99<50ms` says that at most 1 % of the requests take 50 ms or longer. A request that failed, or was never answered, is bad in the eyes of
//! every condition: whoever sent it has waited for longer than any limit.

use std::time::Duration;

use manifold_stats::Batch;

use crate::outcome::nanoseconds;
use crate::verdict::{self, Comparison, Metric};

/// Batches of a step.
const BATCHES: u64 = 20;

/// What is to hold, as it was written and as it is counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// As it was written.
    pub text: String,
    /// The share of requests that may be bad, above 0 and below 1.
    pub allowed: f64,
    /// What makes a request bad.
    pub bad: Bad,
}

/// What makes a request bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// A response time of so many nanoseconds or longer.
    Slow(u64),
    /// No complete answer.
    Failed,
    /// Another status than 2xx.
    Non2xx,
    /// Another status than expected.
    WrongStatus,
    /// Another length than expected.
    WrongLength,
    /// Another body than expected.
    WrongContent,
}

/// An answer, as far as conditions look at it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Response time, nanoseconds.
    pub latency: u64,
    /// Its status is 2xx.
    pub success: bool,
    /// Its status is the expected one.
    pub right_status: bool,
    /// Its length is the expected one.
    pub right_length: bool,
    /// Its body is the expected one.
    pub right_content: bool,
}

/// Reads conditions with commas between them, in the words of `--fail-on`.
///
/// # Errors
/// A sentence that names the condition and what can be written.
pub fn parse(list: &str) -> Result<Vec<Condition>, String> {
    let one = |threshold: verdict::Threshold| {
        let text = threshold.text.clone();
        let wrong =
            |said: &str| Err(format!("`{text}`: {said}; write what is to hold, as p99<50ms, errors<0.1%, non2xx<1%"));
        if matches!(threshold.comparison, Comparison::Above | Comparison::AtLeast) {
            return wrong("that is what is not to be");
        }
        let (bad, allowed) = match threshold.metric {
            Metric::Percentile(quantile) => {
                let limit = (threshold.value * 1000.0) as u64;
                (Bad::Slow(limit + u64::from(threshold.comparison == Comparison::AtMost)), 1.0 - quantile)
            }
            Metric::Errors => (Bad::Failed, threshold.value / 100.0),
            Metric::Non2xx => (Bad::Non2xx, threshold.value / 100.0),
            Metric::WrongStatus => (Bad::WrongStatus, threshold.value / 100.0),
            Metric::WrongLength => (Bad::WrongLength, threshold.value / 100.0),
            Metric::WrongContent => (Bad::WrongContent, threshold.value / 100.0),
            Metric::Mean | Metric::Max => return wrong("a search looks at percentiles"),
            Metric::Rate | Metric::Completed | Metric::Unfinished => {
                return wrong("that grows with the rate, or with time");
            }
        };
        if !matches!(bad, Bad::Slow(_)) && !threshold.percent {
            return wrong("a part of all requests is needed, as 0.1%");
        }
        if !(1e-6..=0.999_999).contains(&allowed) {
            return wrong("no number of requests can show that; from 0.0001 % to 99.9999 % of them may be bad");
        }
        Ok(Condition { text: threshold.text, allowed, bad })
    };
    verdict::parse(list)?.into_iter().map(one).collect()
}

impl Bad {
    fn is(self, seen: &Seen) -> bool {
        match self {
            Bad::Slow(limit) => seen.latency >= limit,
            Bad::Failed => false,
            Bad::Non2xx => !seen.success,
            Bad::WrongStatus => !seen.right_status,
            Bad::WrongLength => !seen.right_length,
            Bad::WrongContent => !seen.right_content,
        }
    }
}

/// Counts one thread's requests in batches of those that were due one after the other.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    conditions: Vec<Bad>,
    /// When the window opened, and the width of a batch, in nanoseconds.
    start: u64,
    width: u64,
    /// For each condition, its batches.
    pub batches: Vec<Vec<Batch>>,
}

impl Tally {
    /// For a window of this length.
    pub fn new(conditions: &[Condition], window: Duration) -> Tally {
        Tally {
            conditions: conditions.iter().map(|condition| condition.bad).collect(),
            start: 0,
            width: (nanoseconds(window) / BATCHES).max(1),
            batches: vec![vec![Batch::default(); BATCHES as usize]; conditions.len()],
        }
    }

    /// The window opens; nothing before it counts.
    pub fn open(&mut self, now: u64) {
        self.start = now;
        self.batches.iter_mut().for_each(|batches| batches.fill(Batch::default()));
    }

    /// A request that was due at `intended` was answered.
    pub fn answered(&mut self, intended: u64, seen: &Seen) {
        let place = self.place(intended);
        for (bad, batches) in self.conditions.iter().zip(&mut self.batches) {
            batches[place].all += 1;
            batches[place].bad += u64::from(bad.is(seen));
        }
    }

    /// One that was due then was not, and will not be.
    pub fn unanswered(&mut self, intended: u64) {
        if intended < self.start {
            return;
        }
        let place = self.place(intended);
        for batches in &mut self.batches {
            batches[place].all += 1;
            batches[place].bad += 1;
        }
    }

    /// So many that were due, evenly from `first` to the window's end, were never begun.
    pub fn never_begun(&mut self, first: u64, count: u64) {
        let from = self.place(first);
        let places = BATCHES - from as u64;
        for batches in &mut self.batches {
            for (place, batch) in (0..).zip(&mut batches[from..]) {
                let share = count * (place + 1) / places - count * place / places;
                batch.all += share;
                batch.bad += share;
            }
        }
    }

    fn place(&self, at: u64) -> usize {
        (at.saturating_sub(self.start) / self.width).min(BATCHES - 1) as usize
    }
}

/// The threads' batches together.
pub fn merge<'t>(tallies: impl Iterator<Item = &'t Tally>) -> Vec<Vec<Batch>> {
    let mut sum: Vec<Vec<Batch>> = Vec::new();
    for tally in tallies {
        sum.resize(tally.batches.len(), vec![Batch::default(); BATCHES as usize]);
        for (sum, more) in sum.iter_mut().flatten().zip(tally.batches.iter().flatten()) {
            sum.all += more.all;
            sum.bad += more.bad;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_shares_of_bad_requests() {
        let read = |list: &str| {
            let conditions = parse(list).expect(list);
            conditions.iter().map(|one| ((one.allowed * 1e6).round(), one.bad)).collect::<Vec<_>>()
        };
        assert_eq!(read("p99<50ms"), [(10_000.0, Bad::Slow(50_000_000))]);
        assert_eq!(read("p99.9 <= 1s"), [(1000.0, Bad::Slow(1_000_000_001))]);
        assert_eq!(read("p50<1ms,errors<0.1%"), [(500_000.0, Bad::Slow(1_000_000)), (1000.0, Bad::Failed)]);
        let others = [(20_000.0, Bad::Non2xx), (1000.0, Bad::WrongStatus), (1000.0, Bad::WrongLength)];
        assert_eq!(read("non2xx<2%,wrong-status<0.1%,wrong-length<=0.1%"), others);
        for (list, part) in [
            ("p99>50ms", "what is not to be"),
            ("mean<5ms", "percentiles"),
            ("p100<5ms", "no number of requests"),
            ("p0<5ms", "no number of requests"),
            ("errors<1", "a part of all requests"),
            ("rate<5", "grows with the rate"),
            ("p99=5ms", "no < or >"),
        ] {
            let said = parse(list).expect_err(list);
            assert!(said.contains(part) && said.contains(list), "{list}: {said}");
        }
    }

    #[test]
    fn requests_count_where_they_were_due() {
        let mut tally = Tally::new(&parse("p99<5ms,non2xx<1%").expect("conditions"), Duration::from_nanos(2000));
        tally.answered(
            5,
            &Seen { latency: 1, success: true, right_status: true, right_length: true, right_content: true },
        );
        tally.open(100);
        let seen = |ms: u64, success| Seen {
            latency: ms * 1_000_000,
            success,
            right_status: true,
            right_length: true,
            right_content: true,
        };
        tally.answered(100, &seen(4, true));
        tally.answered(199, &seen(5, true));
        tally.answered(200, &seen(1, false));
        tally.unanswered(99);
        tally.unanswered(2099);
        tally.never_begun(1900, 5);
        let expected = |list: &[(usize, u64, u64)]| {
            let mut batches = vec![Batch::default(); BATCHES as usize];
            list.iter().for_each(|(place, all, bad)| batches[*place] = Batch { all: *all, bad: *bad });
            batches
        };
        assert_eq!(tally.batches[0], expected(&[(0, 2, 1), (1, 1, 0), (18, 2, 2), (19, 4, 4)]));
        assert_eq!(tally.batches[1], expected(&[(0, 2, 0), (1, 1, 1), (18, 2, 2), (19, 4, 4)]));
        let both = merge([&tally, &tally].into_iter());
        assert_eq!(both[1][19], Batch { all: 8, bad: 8 });
    }
}
