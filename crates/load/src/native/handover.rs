//! What a generator's thread hands over once a second: its latencies of that second and how it does, to whoever draws and keeps them.
//!
//! The thread swaps a full histogram for an empty one and goes on: no lock, no copy, no system call. The other side looks in passing, empties
//! what it got and gives it back. If it is late, the thread goes on with what it has, and that second is longer.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use crate::grid::{Cell, Grid};
use crate::latencies::Latencies;
use crate::outcome::Vitals;
use crate::report::Errors;
use crate::slices::{SLICE, SLICES_MAX, Slice};

/// Nanoseconds.
const SECOND: u64 = SLICE.as_nanos() as u64;
/// Seconds of one thread that are on their way or empty, besides the one being filled.
const SPARE: usize = 2;

/// A second of one thread, by the wall's clock.
#[derive(Debug, Default)]
pub struct Second {
    /// When it began, nanoseconds since 1970-01-01 UTC.
    pub began: u64,
    /// It is of the warm-up.
    pub warming: bool,
    /// Response times of its answers.
    pub latencies: Latencies,
    /// Its failures by class.
    pub errors: Errors,
    /// Bytes received.
    pub received: u64,
    /// The thread's last account of itself.
    pub account: Account,
}

/// How a thread does at a moment; counts are since the window's beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    /// When, nanoseconds since 1970-01-01 UTC.
    pub at: u64,
    /// What its loop says.
    pub vitals: Vitals,
    /// Answers with another status, length and body than expected.
    pub wrong: [u64; 3],
    /// CPU time that the thread has used since it began.
    pub cpu: Duration,
}

impl Second {
    fn slice(&self) -> Slice {
        Slice::of(&self.latencies, self.errors.total())
    }

    fn clear(&mut self) {
        self.latencies.clear();
        (self.errors, self.received, self.warming) = (Errors::default(), 0, false);
    }
}

/// The thread's side.
#[derive(Debug)]
pub struct Hand {
    give: SyncSender<Box<Second>>,
    back: Receiver<Box<Second>>,
    /// The one being filled.
    pub second: Box<Second>,
    /// When it is over; 0: it has not begun.
    ends: u64,
}

/// To and from one thread.
#[derive(Debug)]
struct Line {
    got: Receiver<Box<Second>>,
    give_back: SyncSender<Box<Second>>,
}

/// The other side.
#[derive(Debug)]
pub struct Keeper {
    threads: Vec<Line>,
    /// The window's slices so far.
    pub slices: Grid<Slice>,
}

/// Both sides, for so many threads.
pub fn channel(threads: usize) -> (Vec<Hand>, Keeper) {
    let pair = |_| {
        let (give, got) = sync_channel(SPARE);
        let (give_back, back) = sync_channel(SPARE);
        for _ in 0..SPARE {
            // There is room for them, and the receiver is here.
            let _sent = give_back.try_send(Box::default());
        }
        (Hand { give, back, second: Box::default(), ends: 0 }, Line { got, give_back })
    };
    let (hands, threads) = (0..threads).map(pair).unzip();
    (hands, Keeper { threads, slices: Grid::empty(SLICE, SLICES_MAX) })
}

impl Hand {
    /// The second that `at` is in; hands over the one before.
    #[inline]
    pub fn at(&mut self, at: u64) -> &mut Second {
        if at >= self.ends {
            self.pass(at);
        }
        &mut self.second
    }

    /// The warm-up is over: what was filled is of it.
    pub fn window_opens(&mut self, at: u64) {
        self.second.warming = true;
        self.pass(at);
        self.second.clear();
        self.second.began = at;
    }

    #[cold]
    fn pass(&mut self, at: u64) {
        let is_first = self.ends == 0;
        self.ends = (at / SECOND + 1) * SECOND;
        if is_first {
            self.second.began = at;
            return;
        }
        // Nothing was given back: whoever draws is late, and this second goes on.
        let Ok(mut empty) = self.back.try_recv() else { return };
        (empty.began, empty.account) = (at, self.second.account);
        // There is room for all that exist, and where nobody listens any more nobody misses it.
        let _sent = self.give.try_send(std::mem::replace(&mut self.second, empty));
    }
}

impl Keeper {
    /// Takes what has been handed over since, and shows each to `look` with its thread's number and what its latencies are in short.
    pub fn collect(&mut self, mut look: impl FnMut(usize, &Second, &Slice)) {
        for number in 0..self.threads.len() {
            while let Ok(mut second) = self.threads[number].got.try_recv() {
                let slice = second.slice();
                look(number, &second, &slice);
                if !second.warming {
                    self.slices.at(second.began).add(&slice);
                }
                second.clear();
                // There is room for all that exist; a thread that has ended needs none.
                let _sent = self.threads[number].give_back.try_send(second);
            }
        }
    }

    /// Adds the second that a thread was in when it ended.
    pub fn keep_last(&mut self, second: &Second) {
        if !second.warming {
            self.slices.at(second.began).add(&second.slice());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that counts 1,000 answers a second for so many seconds; the other side looks each `every` seconds.
    fn run(seconds: u64, every: u64) -> (Grid<Slice>, u64) {
        let (mut hands, mut keeper) = channel(1);
        let hand = &mut hands[0];
        let mut seen = 0;
        let start = 1_795_253_400 * SECOND + 300_000_000;
        for n in 0..seconds * 1000 {
            let at = start + n * 1_000_000;
            let second = hand.at(at);
            second.latencies.record(n);
            second.errors.timeout += n % 2;
            if n % (every * 1000) == 0 {
                keeper.collect(|_, second, _| seen += second.latencies.count());
            }
        }
        keeper.collect(|_, second, _| seen += second.latencies.count());
        keeper.keep_last(&hand.second);
        (keeper.slices, seen + hand.second.latencies.count())
    }

    #[test]
    fn seconds_are_handed_over_whole() {
        let (slices, seen) = run(10, 1);
        assert_eq!(seen, 10_000);
        let counts: Vec<u64> = slices.cells.iter().map(Slice::completed).collect();
        assert_eq!(counts, [700, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 300]);
        assert_eq!((slices.begins(0), slices.cells[1].failed), (1_795_253_400 * SECOND, 500));
    }

    #[test]
    fn whoever_looks_late_loses_nothing() {
        let (slices, seen) = run(10, 5);
        let kept: u64 = slices.cells.iter().map(Slice::completed).sum();
        assert_eq!((seen, kept), (10_000, 10_000));
        assert!(slices.cells.iter().any(|slice| slice.completed() > 1000), "some are longer");
    }

    #[test]
    fn the_warm_up_is_shown_and_not_kept() {
        let (mut hands, mut keeper) = channel(2);
        let at = 7 * SECOND + 5;
        hands[1].at(at).latencies.record(1000);
        hands[1].window_opens(at + 500);
        hands[1].at(at + 600).latencies.record(2000);
        let mut told = Vec::new();
        keeper.collect(|thread, second, _| told.push((thread, second.warming, second.latencies.count())));
        assert_eq!(told, [(1, true, 1)]);
        keeper.keep_last(&hands[1].second);
        assert_eq!(keeper.slices.cells.iter().map(|slice| slice.sum).collect::<Vec<_>>(), [2000]);
    }
}
