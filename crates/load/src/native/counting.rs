//! What a thread counts of each kind of request and of each stage while it runs.

use crate::connection::Exchange;
use crate::outcome::nanoseconds;
use crate::parts::{Part, Parts, part_of};
use crate::report::Errors;
use crate::schedule::{Pace, Stage};

/// One thread's.
#[derive(Clone, Debug)]
pub struct Counting {
    /// What was counted.
    pub parts: Parts,
    /// When the window opened and closed, nanoseconds of the run.
    window: (u64, u64),
    /// When each stage ends, nanoseconds of the window.
    ends: Vec<u64>,
}

impl Counting {
    /// Of a run with so many kinds of requests; `None` where there is one kind and one stage at most.
    pub fn of(kinds: usize, pace: &Pace) -> Option<Counting> {
        let stages: &[Stage] = match pace {
            Pace::Open { stages, .. } => stages,
            Pace::Closed(_) | Pace::Listed(_) => &[],
        };
        let mut end = 0u64;
        let ends = stages.iter().map(|stage| {
            end = end.saturating_add(stage.length.map_or(u64::MAX, nanoseconds));
            end
        });
        let (ends, parts) = (ends.collect(), Parts::new(kinds, stages.len()));
        (!parts.is_empty()).then_some(Counting { parts, window: (0, u64::MAX), ends })
    }

    /// The window opens; nothing before it counts.
    pub fn open(&mut self, now: u64) {
        self.parts = Parts::new(self.parts.kinds.len(), self.parts.stages.len());
        self.window.0 = now;
    }

    /// The window has closed.
    pub fn close(&mut self, now: u64) {
        self.window.1 = now;
    }

    /// An answer is complete; `wrong`: it has another status, length, body than expected.
    pub fn answered(&mut self, exchange: &Exchange, latency: u64, wrong: [bool; 3]) {
        self.count(exchange, |part| {
            part.latencies.record(latency);
            part.wrong.iter_mut().zip(wrong).for_each(|(sum, wrong)| *sum += u64::from(wrong));
        });
        if exchange.finished <= self.window.1 {
            self.kind(exchange.request).into_iter().for_each(|kind| kind.within += 1);
            self.stage(exchange.finished).into_iter().for_each(|stage| stage.within += 1);
        }
    }

    /// A request has failed.
    pub fn failed(&mut self, exchange: &Exchange, class: impl Fn(&mut Errors) -> &mut u64) {
        self.count(exchange, |part| *class(&mut part.errors) += 1);
    }

    /// A request was under way when the run ended.
    pub fn unfinished(&mut self, exchange: &Exchange) {
        self.count(exchange, |part| part.unanswered += 1);
    }

    /// A request of the schedule was never begun; of which kind it would have been nobody knows.
    pub fn unsent(&mut self, due: u64) {
        self.stage(due).into_iter().for_each(|stage| stage.unanswered += 1);
    }

    /// Changes the parts that a request belongs to.
    fn count(&mut self, exchange: &Exchange, change: impl Fn(&mut Part)) {
        self.kind(exchange.request).into_iter().for_each(&change);
        self.stage(exchange.intended).into_iter().for_each(&change);
    }

    fn kind(&mut self, request: u32) -> Option<&mut Part> {
        self.parts.kinds.get_mut(part_of(request as usize))
    }

    /// The stage that is at work at a time of the run; none is after the last.
    fn stage(&mut self, at: u64) -> Option<&mut Part> {
        let at = at.saturating_sub(self.window.0);
        let place = self.ends.partition_point(|end| *end <= at);
        if place == self.ends.len() { None } else { self.parts.stages.get_mut(part_of(place)) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::schedule::Arrivals;

    const SECOND: u64 = 1_000_000_000;

    /// 100 /s for a second, then 50 /s for two, from the tenth second of the run on.
    fn counting() -> Counting {
        let stage = |rate, seconds| Stage { from: rate, to: rate, length: Some(Duration::from_secs(seconds)) };
        let pace = Pace::Open { stages: vec![stage(100.0, 1), stage(50.0, 2)], arrivals: Arrivals::Constant };
        let mut counting = Counting::of(3, &pace).expect("there are parts");
        // Of the warm-up.
        counting.answered(&exchange(0, 5 * SECOND, 1), 1, [true; 3]);
        counting.open(10 * SECOND);
        counting
    }

    /// A request that was due then and took so long.
    fn exchange(request: u32, due: u64, took: u64) -> Exchange {
        Exchange { request, intended: due, finished: due + took, ..Exchange::default() }
    }

    /// Answers, answers within, failures, unanswered, wrong of each part.
    fn counts(parts: &[Part]) -> Vec<[u64; 5]> {
        let count = |part: &Part| {
            let wrong = part.wrong.iter().sum();
            [part.latencies.count(), part.within, part.errors.total(), part.unanswered, wrong]
        };
        parts.iter().map(count).collect()
    }

    #[test]
    fn a_request_belongs_to_its_kind_and_to_the_stage_it_was_due_in() {
        let mut counting = counting();
        let at = |seconds: f64| 10 * SECOND + (seconds * 1e9) as u64;
        counting.answered(&exchange(0, at(0.0), 5), 5, [false; 3]);
        // Its answer came when the next stage was on.
        counting.answered(&exchange(1, at(0.999), SECOND), SECOND, [true, false, true]);
        counting.answered(&exchange(1, at(1.0), 5), 5, [false; 3]);
        counting.failed(&exchange(2, at(2.5), 5), |errors| &mut errors.timeout);
        counting.unfinished(&exchange(2, at(2.9), 0));
        counting.unsent(at(0.5));
        counting.close(at(3.0));
        // After the end of all stages.
        counting.answered(&exchange(0, at(2.95), SECOND), SECOND, [false; 3]);
        assert_eq!(counts(&counting.parts.kinds), [[2, 1, 0, 0, 0], [2, 2, 0, 0, 2], [0, 0, 1, 1, 0]]);
        assert_eq!(counts(&counting.parts.stages), [[2, 1, 0, 1, 2], [2, 2, 1, 1, 0]]);
        assert_eq!(counting.parts.stages[0].latencies.max, SECOND);
    }

    #[test]
    fn one_kind_and_one_stage_have_no_parts() {
        let rate = |length| vec![Stage { from: 9.0, to: 9.0, length }];
        let open = |length| Pace::Open { stages: rate(length), arrivals: Arrivals::Constant };
        assert!(Counting::of(1, &open(None)).is_none());
        assert!(Counting::of(1, &open(Some(Duration::from_secs(1)))).is_none());
        let kinds = Counting::of(2, &open(None)).expect("two kinds").parts;
        assert_eq!((kinds.kinds.len(), kinds.stages.len()), (2, 0));
    }

    #[test]
    fn many_kinds_take_the_memory_of_64() {
        let pace = Pace::Closed(crate::schedule::Think::Never);
        let mut counting = Counting::of(10_000, &pace).expect("there are parts");
        for request in [0, 62, 63, 64, 9999] {
            counting.answered(&exchange(request, 5, 5), 5, [false; 3]);
        }
        let counts: Vec<u64> = counting.parts.kinds.iter().map(|kind| kind.within).collect();
        assert_eq!((counts.len(), counts[0], counts[62], counts[63]), (64, 1, 1, 3));
    }
}
