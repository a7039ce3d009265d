//! `RequestReadTimeout`: how long a client may take to send a request head, and how long a body. Pure arithmetic: a stage,
//! when it began and what arrived of it give the moment at which it has taken too long.

use std::time::{Duration, Instant};

/// The bounds on one stage of a request (Apache's mod_reqtimeout, "RequestReadTimeout").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Time for the stage before a byte of it has arrived; zero is no bound at all.
    pub timeout: Duration,
    /// The stage's time never grows beyond this; zero is no bound on the growth.
    pub max_timeout: Duration,
    /// Bytes a second: each byte that arrives gives the client so much more time. 0 gives none.
    pub min_rate: u32,
}

impl Stage {
    /// A stage without bounds.
    pub const OFF: Stage = Stage { timeout: Duration::ZERO, max_timeout: Duration::ZERO, min_rate: 0 };

    /// Whether the stage has bounds.
    pub const fn is_on(&self) -> bool {
        !self.timeout.is_zero()
    }

    /// When a stage that began at `start`, and of which `bytes` have arrived, has taken too long; `None` is never.
    pub fn ends(&self, start: Instant, bytes: u64) -> Option<Instant> {
        if !self.is_on() {
            return None;
        }
        let grown = match u64::from(self.min_rate) {
            0 => self.timeout,
            rate => {
                let (seconds, rest) = (bytes / rate, bytes % rate);
                self.timeout
                    .saturating_add(Duration::from_secs(seconds) + Duration::from_nanos(rest * 1_000_000_000 / rate))
            }
        };
        start.checked_add(if self.max_timeout.is_zero() { grown } else { grown.min(self.max_timeout) })
    }

    /// Until when the next byte is waited for: no longer than `wait` from `now`, and not beyond the stage's end.
    pub fn next_byte_by(&self, start: Instant, bytes: u64, now: Instant, wait: Duration) -> Instant {
        let by = now + wait;
        self.ends(start, bytes).map_or(by, |end| end.min(by))
    }
}

/// The stages of a request. A TLS handshake would be one more; there is none in this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadTimeouts {
    /// From the first byte, or from the beginning of the connection, to the end of the request head.
    pub header: Stage,
    /// From the end of the head to that of the body.
    pub body: Stage,
}

impl Default for ReadTimeouts {
    /// Apache's: `header=20-40,MinRate=500 body=20,MinRate=500`.
    fn default() -> ReadTimeouts {
        let header = Stage { timeout: Duration::from_secs(20), max_timeout: Duration::from_secs(40), min_rate: 500 };
        ReadTimeouts { header, body: Stage { max_timeout: Duration::ZERO, ..header } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stage as `timeout-max,rate` in seconds and bytes a second.
    const fn stage(timeout: u64, max: u64, min_rate: u32) -> Stage {
        Stage { timeout: Duration::from_secs(timeout), max_timeout: Duration::from_secs(max), min_rate }
    }

    #[test]
    fn every_byte_extends_a_stage_up_to_its_maximum() {
        let start = Instant::now();
        let check = |stage: Stage, bytes: u64, expected_ms: Option<u64>| {
            let ends = stage.ends(start, bytes).map(|end| end - start);
            assert_eq!(ends, expected_ms.map(Duration::from_millis), "{stage:?} after {bytes} bytes");
        };
        let defaults = ReadTimeouts::default();
        check(defaults.header, 0, Some(20_000));
        check(defaults.header, 1, Some(20_002));
        check(defaults.header, 500, Some(21_000));
        check(defaults.header, 10_000, Some(40_000));
        check(defaults.header, 10_001, Some(40_000));
        check(defaults.body, 10_001, Some(40_002));
        check(defaults.body, 500 << 30, Some((20 + (1 << 30)) * 1000));
        // Without a rate the time is fixed; a range without a rate is not allowed, so that a maximum alone means nothing.
        check(stage(5, 0, 0), 1_000_000, Some(5_000));
        check(stage(1, 0, 4_000_000_000), 4_000_000_000, Some(2_000));
        check(Stage::OFF, 0, None);
        check(Stage::OFF, 1_000, None);
        // `header=0-5,MinRate=1`: no bound, as in Apache.
        check(stage(0, 5, 1), 7, None);
    }

    #[test]
    fn no_number_is_too_large() {
        let longest = u64::from(u32::MAX);
        let start = Instant::now();
        assert_eq!(stage(longest, 0, 1).ends(start, u64::MAX), None);
        let end = stage(longest, longest + 1, u32::MAX).ends(start, u64::MAX).map(|end| end - start);
        assert_eq!(end, Some(Duration::from_secs(longest + 1)));
    }

    #[test]
    fn the_plain_timeout_bounds_every_wait() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let check = |stage: Stage, bytes, now, wait, expected| {
            let by = stage.next_byte_by(start, bytes, at(now), Duration::from_secs(wait));
            assert_eq!(by, at(expected), "{stage:?} after {bytes} bytes at {now} s, Timeout {wait}");
        };
        let header = ReadTimeouts::default().header;
        check(header, 0, 0, 60, 20);
        check(header, 0, 0, 5, 5);
        check(header, 2_500, 18, 60, 25);
        check(header, 2_500, 18, 5, 23);
        check(header, 100_000, 39, 60, 40);
        // The end stays where it is, however late one asks.
        check(header, 0, 30, 60, 20);
        check(Stage::OFF, 0, 1_000, 60, 1_060);
    }
}
