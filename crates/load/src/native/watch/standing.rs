//! How a run stands: pure, from what its threads hand over once a second.
//!
//! Seconds are the wall's, so that those of all threads are added up. One counts as whole a moment after its end, when all threads have
//! handed theirs over. Memory has a bound: single latencies are kept of a few seconds, and of the ten minutes before only what is drawn.

use std::collections::VecDeque;
use std::time::Duration;

use super::goal::Goal;
use crate::grid::Cell;
use crate::latencies::Latencies;
use crate::native::handover::{Account, Second};
use crate::outcome::{Vitals, nanoseconds};
use crate::report::Errors;
use crate::slices::Slice;

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// The percentiles of now are those of so many seconds.
pub const LAST: usize = 5;
/// Of seconds that are not whole yet, threads may be late with so many.
const UNDER_WAY: usize = 3;
/// After its end a second is whole, nanoseconds.
const SETTLED: u64 = 400_000_000;
/// Seconds that are drawn at most: wider than most terminals.
const HISTORY: usize = 600;

/// What is known of a run.
#[derive(Debug)]
pub struct Standing {
    goal: Goal,
    /// When it began, nanoseconds since 1970-01-01 UTC.
    began: u64,
    /// Seconds of the window have come; what is counted is of them.
    opened: bool,
    threads: Vec<Thread>,
    whole: Latencies,
    errors: Errors,
    received: u64,
    /// The last seconds, in order.
    recent: VecDeque<Recent>,
    /// Those before.
    past: VecDeque<Past>,
}

/// A second of which all is known.
#[derive(Debug)]
struct Recent {
    /// Seconds since 1970.
    second: u64,
    slice: Slice,
}

/// A second of which only this is known.
#[derive(Clone, Copy, Debug)]
struct Past {
    completed: u64,
    p99: u64,
}

/// A thread's last account of itself, and the share of its time that it was busy before.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    account: Account,
    busy: f64,
}

/// What is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// What is done meanwhile.
    pub phase: &'static str,
    /// Since the run's beginning.
    pub elapsed: Duration,
    /// How far it has come, 0..=1.
    pub done: f64,
    /// How long it takes from now on, if nothing changes.
    pub left: Option<Duration>,
    /// Requests a second that the schedule asked for in the last second.
    pub asked: Option<f64>,
    /// Answers a second in the last second and on the whole.
    pub rate: [f64; 2],
    /// Percentiles of the last seconds and of the whole.
    pub latency: [Option<Percentiles>; 2],
    /// Answers.
    pub completed: u64,
    /// Bytes received.
    pub received: u64,
    /// Failures by class.
    pub errors: Errors,
    /// Answers with another status, length and body than expected.
    pub wrong: [u64; 3],
    /// All threads' together, but for the longest turn, which is that of one.
    pub vitals: Vitals,
    /// The largest share of its time that a thread was busy in its last second, 0..=1.
    pub busy: f64,
    /// Answers in each second, the newest last.
    pub rates: Vec<u64>,
    /// Their 99th percentiles, microseconds.
    pub p99s: Vec<u64>,
}

/// Of response times, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Percentiles {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p99_9: u64,
    pub max: u64,
}

impl Standing {
    /// Of a run that begins at `began`, nanoseconds since 1970-01-01 UTC.
    pub fn new(goal: Goal, began: u64) -> Standing {
        let threads = vec![Thread::default(); goal.threads as usize];
        Standing {
            goal,
            began,
            opened: false,
            threads,
            whole: Latencies::default(),
            errors: Errors::default(),
            received: 0,
            recent: VecDeque::new(),
            past: VecDeque::new(),
        }
    }

    /// What the run is to do.
    pub fn goal(&self) -> &Goal {
        &self.goal
    }

    /// A thread has handed over a second; `slice`: its latencies.
    pub fn look(&mut self, thread: usize, second: &Second, slice: &Slice) {
        self.threads[thread].tell(second.account);
        if second.warming && self.opened {
            return;
        }
        if !second.warming && !self.opened {
            self.open();
        }
        self.whole.merge(&second.latencies);
        self.errors.add(&second.errors);
        self.received += second.received;
        let number = second.began / SECOND;
        let place = self.recent.partition_point(|recent| recent.second < number);
        match self.recent.get_mut(place) {
            Some(recent) if recent.second == number => recent.slice.add(slice),
            _ => self.recent.insert(place, Recent { second: number, slice: slice.clone() }),
        }
        while self.recent.len() > LAST + UNDER_WAY {
            let oldest = self.recent.pop_front().map(|recent| Past::of(&recent.slice));
            if self.past.len() == HISTORY {
                self.past.pop_front();
            }
            self.past.extend(oldest);
        }
    }

    /// The warm-up is over, and forgotten.
    fn open(&mut self) {
        self.opened = true;
        self.whole.clear();
        (self.errors, self.received) = (Errors::default(), 0);
        self.recent.clear();
        self.past.clear();
    }

    /// What is to be shown at `now`, nanoseconds since 1970-01-01 UTC.
    pub fn figures(&self, now: u64) -> Figures {
        let elapsed = Duration::from_nanos(now.saturating_sub(self.began));
        let completed = self.whole.count();
        let over = if self.opened { completed + self.errors.total() } else { 0 };
        let progress = self.goal.progress(elapsed, over);
        let settled = now.saturating_sub(SETTLED) / SECOND;
        let recent = || self.recent.iter().take_while(|recent| recent.second < settled);
        let last = || recent().skip(recent().count().saturating_sub(LAST));
        let mut sum = Slice::default();
        last().for_each(|recent| sum.add(&recent.slice));
        let newest = recent().last();
        let newest_span = newest.map_or((now, now), |newest| self.span(newest.second));
        let newest_middle = Duration::from_nanos(u64::midpoint(newest_span.0, newest_span.1) - self.began);
        let seconds = || self.past.iter().copied().chain(recent().map(|recent| Past::of(&recent.slice)));
        Figures {
            phase: progress.phase,
            elapsed,
            done: progress.done,
            left: progress.left,
            asked: self.goal.rate(newest_middle),
            rate: [
                newest.map_or(0.0, |newest| per_second(newest.slice.completed(), newest_span)),
                per_second(completed, (self.counted_from(), self.counted_until(now))),
            ],
            latency: [Percentiles::of_slice(&sum), Percentiles::of(&self.whole)],
            completed,
            received: self.received,
            errors: self.errors,
            wrong: self.sum(|account| account.wrong),
            vitals: self.vitals(),
            busy: self.threads.iter().map(|thread| thread.busy).fold(0.0, f64::max),
            rates: seconds().map(|second| second.completed).collect(),
            p99s: seconds().map(|second| second.p99).collect(),
        }
    }

    /// Since when is counted: the beginning of the run, or of the window once that has come.
    fn counted_from(&self) -> u64 {
        self.began + if self.opened { nanoseconds(self.goal.warmup) } else { 0 }
    }

    /// Until when is counted: the end of the last second that was handed over.
    fn counted_until(&self, now: u64) -> u64 {
        let last = self.threads.iter().map(|thread| thread.account.at).max().unwrap_or(0);
        ((last / SECOND + 1) * SECOND).min(now)
    }

    /// From when to when something was counted in this second.
    fn span(&self, second: u64) -> (u64, u64) {
        let begins = (second * SECOND).max(self.counted_from());
        (begins, ((second + 1) * SECOND).max(begins))
    }

    fn sum<const N: usize>(&self, of: impl Fn(&Account) -> [u64; N]) -> [u64; N] {
        let mut sums = [0; N];
        for thread in &self.threads {
            sums.iter_mut().zip(of(&thread.account)).for_each(|(sum, more)| *sum += more);
        }
        sums
    }

    fn vitals(&self) -> Vitals {
        let [open, under_way, begun, late, short_of_connections, awake] = self.sum(|account| {
            let Vitals { open, under_way, begun, late, short_of_connections, awake, .. } = account.vitals;
            [open, under_way, begun, late, short_of_connections, awake]
        });
        let longest_turn = self.threads.iter().map(|thread| thread.account.vitals.longest_turn).max().unwrap_or(0);
        Vitals { open, under_way, begun, late, short_of_connections, longest_turn, awake }
    }
}

impl Thread {
    /// Time awake for moments of the schedule is no work.
    fn tell(&mut self, account: Account) {
        let before = self.account;
        let awake = account.vitals.awake.saturating_sub(before.vitals.awake);
        let worked = nanoseconds(account.cpu.saturating_sub(before.cpu)).saturating_sub(awake);
        if before.at > 0 && account.at > before.at {
            self.busy = (worked as f64 / (account.at - before.at) as f64).min(1.0);
        }
        self.account = account;
    }
}

impl Past {
    fn of(slice: &Slice) -> Past {
        Past { completed: slice.completed(), p99: slice.quantile(0.99).unwrap_or(0) }
    }
}

impl Percentiles {
    fn of(latencies: &Latencies) -> Option<Percentiles> {
        let at = |quantile| latencies.histogram.value_at_quantile(quantile);
        (latencies.count() > 0).then(|| Percentiles {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: latencies.max / 1000,
        })
    }

    fn of_slice(slice: &Slice) -> Option<Percentiles> {
        let at = |quantile| slice.quantile(quantile);
        Some(Percentiles { p50: at(0.5)?, p90: at(0.9)?, p99: at(0.99)?, p99_9: at(0.999)?, max: at(1.0)? })
    }
}

/// So many in this time, which is taken for a millisecond if it is shorter.
fn per_second(count: u64, (from, to): (u64, u64)) -> f64 {
    count as f64 * 1e9 / to.saturating_sub(from).max(1_000_000) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::args::{Command, parse};

    /// The run's beginning: a tenth into a second of 2026.
    const BEGAN: u64 = 1_795_253_400 * SECOND + SECOND / 10;

    fn standing(line: &str) -> Standing {
        let Ok(Command::Run(options)) = parse(line.split_whitespace().map(std::ffi::OsString::from)) else {
            panic!("{line} is not understood")
        };
        Standing::new(Goal::of(&options), BEGAN)
    }

    /// Hands over a second that begins so long after the run, with these latencies in microseconds.
    fn tell(standing: &mut Standing, thread: usize, after: u64, warming: bool, latencies: &[u64]) {
        let mut second = Second { began: BEGAN + after, warming, ..Second::default() };
        latencies.iter().for_each(|us| second.latencies.record(us * 1000));
        second.received = 100 * latencies.len() as u64;
        let vitals = Vitals { open: 3, under_way: 2, begun: 10, late: 1, ..Vitals::default() };
        let cpu = Duration::from_nanos(after / 4 * (1 + thread as u64));
        second.account = Account { at: BEGAN + after, vitals, wrong: [1, 0, 0], cpu };
        let slice = Slice::of(&second.latencies, 0);
        standing.look(thread, &second, &slice);
    }

    #[test]
    fn seconds_of_all_threads_are_added_and_the_last_ones_stand_apart() {
        let mut standing = standing("http://h/ -c 9 -t 20 --threads 2");
        for second in 0..10 {
            // The first is cut short: it begins with the run.
            let after = (second * SECOND).saturating_sub(SECOND / 10);
            let us = if second < 5 { 1000 } else { 5000 };
            for thread in [0, 1] {
                tell(&mut standing, thread, after, false, &[us; 100]);
            }
        }
        let figures = standing.figures(BEGAN - SECOND / 10 + 10 * SECOND + SETTLED);
        assert_eq!((figures.completed, figures.received, figures.rates.as_slice()), (2000, 200_000, &[200; 10][..]));
        assert_eq!(figures.rate[0], 200.0);
        assert!((figures.rate[1] - 2000.0 / 9.9).abs() < 1e-6, "{:?}", figures.rate);
        let [last, whole] = figures.latency.map(|latency| latency.expect("answers"));
        // Three significant digits.
        assert_eq!((last.p50, last.max), (5003, 5003));
        assert_eq!(figures.asked, None);
        assert_eq!((whole.p50, whole.p90, whole.max), (1000, 5003, 5000));
        assert_eq!((figures.p99s[0], figures.p99s[9]), (1000, last.p99));
        assert_eq!((figures.vitals.open, figures.vitals.begun, figures.wrong), (6, 20, [2, 0, 0]));
        assert_eq!(figures.busy, 0.5, "that of the busier thread");
    }

    #[test]
    fn a_second_is_shown_once_it_is_whole() {
        let mut standing = standing("http://h/ -c 9 -t 20");
        tell(&mut standing, 0, 0, false, &[10; 5]);
        let rates = |at: u64| standing.figures(BEGAN - SECOND / 10 + at).rates;
        assert_eq!(rates(SECOND + SETTLED - 1).len(), 0);
        assert_eq!(rates(SECOND + SETTLED), [5]);
        let first = standing.figures(BEGAN - SECOND / 10 + SECOND + SETTLED);
        assert!((first.rate[0] - 5.0 / 0.9).abs() < 1e-6, "nine tenths of it were there: {:?}", first.rate);
    }

    #[test]
    fn a_ramp_is_held_against_what_it_asked_for() {
        let mut standing = standing("http://h/ -c 9 --stage 0..100:10");
        for second in 0..4 {
            tell(&mut standing, 0, (second * SECOND).saturating_sub(SECOND / 10), false, &[10; 25]);
        }
        let figures = standing.figures(BEGAN - SECOND / 10 + 4 * SECOND + SETTLED);
        assert_eq!((figures.rate[0], figures.asked), (25.0, Some(34.0)), "the middle of the fourth second");
    }

    #[test]
    fn nothing_is_known_at_first() {
        let figures = standing("http://h/ -c 9 -t 20").figures(BEGAN + 3 * SECOND);
        assert_eq!((figures.latency, figures.rate, figures.completed), ([None, None], [0.0, 0.0], 0));
        assert_eq!((figures.phase, figures.left), ("running", Some(Duration::from_secs(17))));
    }

    #[test]
    fn the_warm_up_is_shown_and_then_forgotten() {
        let mut standing = standing("http://h/ -c 9 -t 20 --warmup 2 --threads 2");
        tell(&mut standing, 0, 0, true, &[10; 5]);
        assert_eq!(standing.figures(BEGAN + SECOND).completed, 5);
        assert_eq!(standing.figures(BEGAN + SECOND).phase, "warming up");
        tell(&mut standing, 0, 2 * SECOND, false, &[10; 7]);
        // The other thread's warm-up comes late.
        tell(&mut standing, 1, SECOND, true, &[10; 9]);
        assert_eq!(standing.figures(BEGAN + 3 * SECOND).completed, 7);
    }

    #[test]
    fn a_long_run_takes_no_more_memory() {
        let mut standing = standing("http://h/ -c 9 -t 20000");
        for second in 0..2000 {
            tell(&mut standing, 0, second * SECOND, false, &[second]);
        }
        assert_eq!((standing.recent.len(), standing.past.len()), (LAST + UNDER_WAY, HISTORY));
        let figures = standing.figures(BEGAN + 2001 * SECOND);
        assert_eq!((figures.completed, figures.rates.len()), (2000, HISTORY + LAST + UNDER_WAY));
    }
}
