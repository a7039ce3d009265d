//! The ledger: what outlives generations. Each generation has a scoreboard of its own that goes with it; the ledger keeps
//! what they counted, so that no total ever goes back, and what the parent has measured for all of them.
//!
//! The parent writes, children read. What belongs together is guarded by a sequence word, odd while it is being written.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use manifold_engine::status::{Rates, Totals};
use manifold_sys::shm::SharedWords;

use crate::scoreboard::Scoreboard;

/// Samples that are kept: at one a second, rates are means over nine seconds.
const SAMPLES: usize = 10;
/// Words of a sample: its time in milliseconds, and [`Totals`].
const SAMPLE_WORDS: usize = 7;
/// A reader takes what it has after so many changes under its eyes.
const READS_MAX: usize = 100;

const SEQUENCE: usize = 0;
const STARTED: usize = 1;
const RESTARTED: usize = 2;
const CONFIG_GENERATION: usize = 3;
const MPM_GENERATION: usize = 4;
const SAMPLES_TAKEN: usize = 5;
const PARENT: usize = 6;
/// Totals of generations that are gone: six words.
const GONE: usize = 8;
const FIRST_SAMPLE: usize = 16;
const WORDS: usize = FIRST_SAMPLE + SAMPLES * SAMPLE_WORDS;

/// What outlives generations. Clones share the same memory.
#[derive(Clone, Debug)]
pub struct Ledger {
    words: Arc<SharedWords>,
}

/// What the ledger says at one moment, with what the scoreboards of living generations add to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Account {
    /// When the server was started, in milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// When it was last restarted, the same.
    pub restarted_ms: u64,
    /// Configurations read so far.
    pub config_generation: u64,
    /// The newest generation.
    pub mpm_generation: u64,
    /// Process id of the parent, who takes the samples; 0 where there is none.
    pub parent: i32,
    /// Sums of all generations.
    pub totals: Totals,
    /// Means over the last samples.
    pub rates: Rates,
}

/// What becomes of connections under the old configuration at a reload; the stronger kind is the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reload {
    /// They are finished (USR1).
    Graceful,
    /// They are cut (HUP).
    Restart,
}

impl Ledger {
    /// The ledger of a server that is started at `now`, since the Unix epoch.
    ///
    /// # Errors
    /// When the system has no memory for it.
    pub fn new(now: Duration) -> io::Result<Ledger> {
        let ledger = Ledger { words: Arc::new(SharedWords::new(WORDS)?) };
        ledger.write(|ledger| {
            ledger.store(STARTED, milliseconds(now));
            ledger.store(RESTARTED, milliseconds(now));
            ledger.store(CONFIG_GENERATION, 1);
            ledger.store(MPM_GENERATION, 1);
        });
        Ok(ledger)
    }

    /// Notes that generation `number` has taken over, at `now` since the Unix epoch.
    pub fn reloaded(&self, number: u64, how: Reload, now: Duration) {
        self.write(|ledger| {
            ledger.store(MPM_GENERATION, number);
            ledger.store(CONFIG_GENERATION, ledger.load(CONFIG_GENERATION) + 1);
            if how == Reload::Restart {
                ledger.store(RESTARTED, milliseconds(now));
            }
        });
    }

    /// Takes over what the children of a generation counted. None of them may be alive any more; to retire a scoreboard
    /// twice does nothing.
    pub fn retire(&self, board: &Scoreboard) {
        self.write(|ledger| {
            if !board.is_retired() {
                let sum = plus(ledger.load_totals(GONE), board.totals());
                ledger.store_totals(GONE, sum);
                board.set_retired();
            }
        });
    }

    /// Notes what all generations have counted until `now`, for the rates: the parent does so when it begins and once a second.
    pub fn sample(&self, boards: &[&Scoreboard], now: Duration) {
        let totals = self.sum(boards);
        let taken = self.load(SAMPLES_TAKEN);
        let place = FIRST_SAMPLE + (taken as usize % SAMPLES) * SAMPLE_WORDS;
        self.write(|ledger| {
            ledger.store(place, milliseconds(now));
            ledger.store_totals(place + 1, totals);
            ledger.store(SAMPLES_TAKEN, taken + 1);
            ledger.store(PARENT, u64::from(std::process::id()));
        });
    }

    /// The account at this moment. `boards` are the scoreboards of all generations that the caller knows; a child of an
    /// older generation does not know the newest ones, and falls back on the parent's last sample.
    pub fn account(&self, boards: &[&Scoreboard]) -> Account {
        let mut account = Account::default();
        for _ in 0..READS_MAX {
            let before = self.words[SEQUENCE].load(Ordering::Acquire);
            account = self.read(boards);
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.load(SEQUENCE) == before {
                break;
            }
        }
        account
    }

    fn read(&self, boards: &[&Scoreboard]) -> Account {
        let totals = self.sum(boards);
        let (totals, rates) = match self.samples() {
            Some((first, last)) => (at_least(totals, last.1), rates(first, last)),
            None => (totals, Rates::default()),
        };
        Account {
            started_ms: self.load(STARTED),
            restarted_ms: self.load(RESTARTED),
            config_generation: self.load(CONFIG_GENERATION),
            mpm_generation: self.load(MPM_GENERATION),
            parent: self.load(PARENT) as i32,
            totals,
            rates,
        }
    }

    fn sum(&self, boards: &[&Scoreboard]) -> Totals {
        let living = boards.iter().filter(|board| !board.is_retired()).map(|board| board.totals());
        living.fold(self.load_totals(GONE), plus)
    }

    /// The oldest and the newest sample.
    fn samples(&self) -> Option<((u64, Totals), (u64, Totals))> {
        let taken = self.load(SAMPLES_TAKEN) as usize;
        let sample = |number: usize| {
            let place = FIRST_SAMPLE + (number % SAMPLES) * SAMPLE_WORDS;
            (self.load(place), self.load_totals(place + 1))
        };
        let newest = taken.checked_sub(1)?;
        Some((sample(taken.saturating_sub(SAMPLES)), sample(newest)))
    }

    fn load_totals(&self, first: usize) -> Totals {
        let [accesses, bytes, connections, duration_us, shed, refused] =
            std::array::from_fn(|word| self.load(first + word));
        Totals { accesses, bytes, connections, duration_us, shed, refused }
    }

    fn store_totals(&self, first: usize, totals: Totals) {
        let Totals { accesses, bytes, connections, duration_us, shed, refused } = totals;
        let words = [accesses, bytes, connections, duration_us, shed, refused];
        words.into_iter().enumerate().for_each(|(word, value)| self.store(first + word, value));
    }

    /// There is one writer, the parent.
    fn write(&self, change: impl FnOnce(&Self)) {
        let odd = self.load(SEQUENCE) | 1;
        self.store(SEQUENCE, odd);
        fence(Ordering::Release);
        change(self);
        self.words[SEQUENCE].store(odd.wrapping_add(1), Ordering::Release);
    }

    fn load(&self, word: usize) -> u64 {
        self.word(word).load(Ordering::Relaxed)
    }

    fn store(&self, word: usize, value: u64) {
        self.word(word).store(value, Ordering::Relaxed);
    }

    fn word(&self, word: usize) -> &AtomicU64 {
        &self.words[word]
    }
}

fn plus(a: Totals, b: Totals) -> Totals {
    Totals {
        accesses: a.accesses + b.accesses,
        bytes: a.bytes + b.bytes,
        connections: a.connections + b.connections,
        duration_us: a.duration_us + b.duration_us,
        shed: a.shed + b.shed,
        refused: a.refused + b.refused,
    }
}

fn at_least(a: Totals, b: Totals) -> Totals {
    Totals {
        accesses: a.accesses.max(b.accesses),
        bytes: a.bytes.max(b.bytes),
        connections: a.connections.max(b.connections),
        duration_us: a.duration_us.max(b.duration_us),
        shed: a.shed.max(b.shed),
        refused: a.refused.max(b.refused),
    }
}

fn rates(first: (u64, Totals), last: (u64, Totals)) -> Rates {
    let over_ms = last.0.saturating_sub(first.0);
    if over_ms == 0 {
        return Rates::default();
    }
    let a_second = |before: u64, after: u64| after.saturating_sub(before) as f64 * 1000.0 / over_ms as f64;
    Rates {
        over_ms,
        requests: a_second(first.1.accesses, last.1.accesses),
        bytes: a_second(first.1.bytes, last.1.bytes),
        connections: a_second(first.1.connections, last.1.connections),
    }
}

/// Since the Unix epoch.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    time.as_secs() * 1000 + u64::from(time.subsec_millis())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn at(second: u64) -> Duration {
        Duration::from_secs(1_700_000_000 + second)
    }

    fn board(servers: usize, threads: usize) -> Scoreboard {
        let board = Scoreboard::new(servers, threads).unwrap();
        board.server(0).set_used();
        board
    }

    fn count(board: &Scoreboard, requests: u64) {
        (0..requests).for_each(|_| board.worker(0, 0).count_request(10));
    }

    #[test]
    fn totals_never_go_back_when_generations_go() {
        let ledger = Ledger::new(at(0)).unwrap();
        let (old, new) = (board(1, 1), board(2, 2));
        count(&old, 3);
        count(&new, 4);
        let check = |boards: &[&Scoreboard], accesses| {
            assert_eq!(ledger.account(boards).totals.accesses, accesses, "{} boards", boards.len());
        };
        check(&[&new, &old], 7);
        ledger.retire(&old);
        check(&[&new, &old], 7);
        check(&[&new], 7);
        ledger.retire(&old);
        check(&[&new], 7);
        // A child that does not know of the newest generation.
        ledger.sample(&[&new, &old], at(1));
        check(&[&old], 7);
        count(&new, 1);
        check(&[&new, &old], 8);
    }

    #[test]
    fn a_reload_is_counted_and_a_restart_has_its_time() {
        let ledger = Ledger::new(at(0)).unwrap();
        let check = |config_generation, mpm_generation, restarted: Duration| {
            let account = ledger.account(&[]);
            let expected = (milliseconds(at(0)), milliseconds(restarted), config_generation, mpm_generation);
            let found = (account.started_ms, account.restarted_ms, account.config_generation, account.mpm_generation);
            assert_eq!(found, expected);
        };
        check(1, 1, at(0));
        ledger.reloaded(2, Reload::Graceful, at(5));
        check(2, 2, at(0));
        ledger.reloaded(3, Reload::Restart, at(9));
        check(3, 3, at(9));
    }

    #[test]
    fn rates_are_over_the_last_samples_only() {
        let ledger = Ledger::new(at(0)).unwrap();
        let board = board(1, 1);
        assert_eq!(ledger.account(&[&board]).rates, Rates::default());
        count(&board, 1000);
        for second in 0..20 {
            ledger.sample(&[&board], at(second));
            count(&board, 2);
            board.worker(0, 0).count_connection();
        }
        let expected = Rates { over_ms: 9_000, requests: 2.0, bytes: 20.0, connections: 1.0 };
        assert_eq!(ledger.account(&[&board]).rates, expected);
    }

    #[test]
    fn a_reader_never_counts_a_generation_twice_or_not_at_all_while_it_is_retired() {
        const BOARDS: u64 = 200;
        let ledger = Ledger::new(at(0)).unwrap();
        let boards: Vec<Scoreboard> = (0..BOARDS).map(|_| board(1, 1)).collect();
        boards.iter().for_each(|board| count(board, 1));
        let all: Vec<&Scoreboard> = boards.iter().collect();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                boards.iter().for_each(|board| ledger.retire(board));
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                let before = ledger.load(SEQUENCE);
                let found = ledger.account(&all).totals.accesses;
                // Only where the reader had to give up may it be wrong.
                assert!(found == BOARDS || ledger.load(SEQUENCE) > before + READS_MAX as u64, "{found}");
            }
        });
        assert_eq!(ledger.account(&all).totals.accesses, BOARDS);
    }
}
