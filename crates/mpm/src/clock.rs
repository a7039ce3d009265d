//! The turn of the calling thread: time is read once each time input was collected, not once for each use.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use manifold_engine::transport::Turn;
use nix::time::{ClockId, clock_gettime};

/// Each thread numbers its turns from a range of its own, so that no two turns of a process are alike and no thread waits
/// for another.
const TURNS_A_THREAD: u64 = 1 << 44;

thread_local! {
    static TURN: Cell<Option<Turn>> = const { Cell::new(None) };
}

/// Begins the thread's next turn: call it when input was collected, or after a wait.
pub fn tick() -> Turn {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    let number = match TURN.get() {
        Some(turn) => turn.number + 1,
        None => THREADS.fetch_add(1, Ordering::Relaxed) * TURNS_A_THREAD + 1,
    };
    let turn = Turn { number, now: Instant::now(), wall: wall() };
    TURN.set(Some(turn));
    turn
}

/// The thread's current turn; the first one begins now.
#[inline]
pub fn turn() -> Turn {
    TURN.get().unwrap_or_else(tick)
}

/// The time since the Unix epoch at this very moment.
pub fn wall() -> Duration {
    // As `SystemTime::now` asks, without a subtraction; it cannot fail.
    clock_gettime(ClockId::CLOCK_REALTIME).map_or(Duration::ZERO, Duration::from)
}

/// A deadline that one thread sets and another looks at.
#[derive(Debug, Default)]
pub struct Deadline(AtomicU64);

impl Deadline {
    /// Sets the deadline.
    pub fn set(&self, at: Instant) {
        self.0.store(nanoseconds(at).get(), Ordering::Relaxed);
    }

    /// There is no deadline any more.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// It has passed, whenever it was.
    pub fn pass(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    /// Tells which of two deadlines comes first: the one with the lower number.
    pub fn order(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether there is a deadline.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Whether there is a deadline and it has passed at `now`.
    pub fn has_passed(&self, now: Instant) -> bool {
        let at = self.0.load(Ordering::Relaxed);
        at != 0 && at <= nanoseconds(now).get()
    }
}

/// Nanoseconds since the process first asked, at least 1.
pub(crate) fn nanoseconds(at: Instant) -> NonZeroU64 {
    static BASE: OnceLock<Instant> = OnceLock::new();
    let base = *BASE.get_or_init(Instant::now);
    let since = at.saturating_duration_since(base);
    let since = since.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(since.subsec_nanos()));
    NonZeroU64::new(since).unwrap_or(NonZeroU64::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_passes_at_its_time_and_not_when_it_was_cleared() {
        let now = Instant::now();
        let deadline = Deadline::default();
        assert!(!deadline.has_passed(now));
        deadline.set(now + Duration::from_secs(1));
        assert!(!deadline.has_passed(now));
        assert!(deadline.has_passed(now + Duration::from_secs(2)));
        deadline.clear();
        assert!(!deadline.has_passed(now + Duration::from_secs(2)));
    }
}
