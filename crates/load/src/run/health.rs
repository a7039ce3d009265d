//! How the generator itself did: what it was late with, and how long it was busy without looking up.

use crate::latencies::Latencies;

/// A request that begins this much later than it should is late, nanoseconds.
pub const LATE_NS: u64 = 1_000_000;

/// A thread's account of itself in the measured window.
#[derive(Debug, Default)]
pub struct Health {
    /// How late scheduled requests began through the generator's own fault: since they were due and a connection was free for them.
    pub lag: Latencies,
    /// Of these, longer than a millisecond.
    pub late: u64,
    /// Requests that were due before a connection was free for them, and the longest they had to wait for it, nanoseconds.
    pub short_of_connections: u64,
    /// See `short_of_connections`.
    pub short_longest: u64,
    /// Between two looks at what has happened: an answer that came at the beginning may have been seen at the end.
    pub turns: Latencies,
    /// Time spent awake, waiting for the moment of a scheduled request, nanoseconds.
    pub awake: u64,
}

impl Health {
    /// A request that was due at `due` begins at `now` on a connection that had been free since `free_since`.
    pub(super) fn dispatched(&mut self, due: u64, free_since: u64, now: u64) {
        let lag = now.saturating_sub(due.max(free_since));
        self.lag.record(lag);
        self.late += u64::from(lag > LATE_NS);
        if free_since > due {
            self.short_of_connections += 1;
            self.short_longest = self.short_longest.max(free_since - due);
        }
    }

    pub(super) fn turned(&mut self, nanoseconds: u64) {
        self.turns.record(nanoseconds);
    }

    pub(super) fn waited_awake(&mut self, nanoseconds: u64) {
        self.awake += nanoseconds;
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &Health) {
        self.lag.merge(&other.lag);
        self.turns.merge(&other.turns);
        self.late += other.late;
        self.short_of_connections += other.short_of_connections;
        self.short_longest = self.short_longest.max(other.short_longest);
        self.awake += other.awake;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_the_generators_only_from_when_a_connection_was_free() {
        let check = |due, free_since, now, lag, waited: u64| {
            let mut health = Health::default();
            health.dispatched(due, free_since, now);
            assert_eq!((health.lag.max, health.short_longest), (lag, waited), "{due} {free_since} {now}");
            assert_eq!(health.short_of_connections, u64::from(waited > 0));
        };
        check(1000, 0, 1000, 0, 0);
        check(1000, 0, 1500, 500, 0);
        check(1000, 900, 1500, 500, 0);
        check(1000, 1400, 1500, 100, 400);
    }
}
