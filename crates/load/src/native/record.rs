//! What one thread of a native run keeps: counts, one histogram, and the CPU the thread itself used.

use std::ops::ControlFlow;
use std::time::Duration;

use hdrhistogram::Histogram;
use nix::errno::Errno;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use super::args::ExpectLength;
use crate::connection::Exchange;
use crate::outcome::{Failure, Observer, Verdict};
use crate::report::{Bytes, Errors, StatusClasses};

/// Significant digits of the latency histograms: a percentile is off by less than 0.1 %.
pub const SIGNIFICANT_DIGITS: u8 = 3;
/// Latencies beyond this are recorded as this, in microseconds: a day.
const LATENCY_MAX_US: u64 = 86_400_000_000;
/// Width of the intervals of the time series.
pub const INTERVAL: Duration = Duration::from_millis(100);
/// The series holds at most this many intervals (a week); a longer run keeps its totals only.
const INTERVALS_MAX: usize = 6_048_000;

/// The answers every request is held against.
#[derive(Clone, Copy, Debug)]
pub struct Expectation {
    /// `None`: 200..=299.
    pub status: Option<u16>,
    /// Body length.
    pub length: ExpectLength,
}

/// A distribution of durations: histogram in microseconds, exact extremes and sum in nanoseconds.
#[derive(Debug)]
pub struct Latencies {
    /// Microseconds, three significant digits.
    pub histogram: Histogram<u64>,
    /// Shortest, nanoseconds.
    pub min: u64,
    /// Longest, nanoseconds.
    pub max: u64,
    /// All together, nanoseconds.
    pub sum: u128,
}

impl Latencies {
    /// None recorded.
    pub fn new() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_US, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants within the crate's limits");
        Latencies { histogram, min: u64::MAX, max: 0, sum: 0 }
    }

    /// Adds one of this many nanoseconds.
    #[inline]
    pub fn record(&mut self, nanoseconds: u64) {
        self.histogram.saturating_record((nanoseconds + 500) / 1000);
        self.min = self.min.min(nanoseconds);
        self.max = self.max.max(nanoseconds);
        self.sum += u128::from(nanoseconds);
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }

    fn clear(&mut self) {
        self.histogram.reset();
        (self.min, self.max, self.sum) = (u64::MAX, 0, 0);
    }
}

/// CPU figures of the calling thread since it began.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadUse {
    /// In user mode.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
    /// Ready to run, but without a CPU.
    pub waited: Duration,
}

impl ThreadUse {
    /// The figures now; zero where the system does not tell.
    pub fn now() -> ThreadUse {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).ok();
        let time = |value: nix::sys::time::TimeVal| {
            Duration::from_micros(u64::try_from(value.num_microseconds()).unwrap_or(0))
        };
        let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let waited = schedstat.split_ascii_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
        ThreadUse {
            user: usage.map_or(Duration::ZERO, |usage| time(usage.user_time())),
            system: usage.map_or(Duration::ZERO, |usage| time(usage.system_time())),
            waited: Duration::from_nanos(waited),
        }
    }

    /// What was used between `earlier` and this.
    pub fn since(self, earlier: ThreadUse) -> ThreadUse {
        ThreadUse {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            waited: self.waited.saturating_sub(earlier.waited),
        }
    }
}

/// One thread's figures of the measured window.
#[derive(Debug)]
pub struct Recorder {
    /// Latencies of completed requests.
    pub latencies: Latencies,
    /// Durations of connecting.
    pub connects: Latencies,
    /// Failures by class.
    pub errors: Errors,
    /// Answers by status class.
    pub status: StatusClasses,
    /// Answers with another status than expected.
    pub wrong_status: u64,
    /// Answers with another length than expected.
    pub wrong_length: u64,
    /// Bytes moved.
    pub bytes: Bytes,
    /// `EADDRNOTAVAIL` was met.
    pub ports_exhausted: bool,
    /// `EMFILE` or `ENFILE` was met.
    pub descriptors_exhausted: bool,
    /// Completed and longest latency (microseconds) by interval of the window.
    pub series: Vec<(u64, u64)>,
    /// Answers completed before the window opened.
    pub completed_in_warmup: u64,
    /// When the window opened, nanoseconds of the run.
    pub window_start: u64,
    /// CPU figures then.
    pub used_before: ThreadUse,
    expectation: Expectation,
    interval_end: u64,
}

impl Recorder {
    /// A recorder whose window opens at once; a warm-up opens it again later.
    pub fn new(expectation: Expectation) -> Recorder {
        Recorder {
            latencies: Latencies::new(),
            connects: Latencies::new(),
            errors: Errors::default(),
            status: StatusClasses::default(),
            wrong_status: 0,
            wrong_length: 0,
            bytes: Bytes::default(),
            ports_exhausted: false,
            descriptors_exhausted: false,
            series: Vec::new(),
            completed_in_warmup: 0,
            window_start: 0,
            used_before: ThreadUse::now(),
            expectation,
            interval_end: 0,
        }
    }

    fn count_bytes(&mut self, exchange: &Exchange) {
        self.bytes.received += exchange.received;
        self.bytes.body += exchange.body;
        self.bytes.sent += exchange.sent;
    }

    fn count_interval(&mut self, finished: u64, latency: u64) {
        let width = INTERVAL.as_nanos() as u64;
        if self.series.is_empty() {
            self.interval_end = self.window_start + width;
            self.series.push((0, 0));
        }
        while finished >= self.interval_end && self.series.len() < INTERVALS_MAX {
            self.interval_end += width;
            self.series.push((0, 0));
        }
        if let Some((completed, longest)) = self.series.last_mut() {
            *completed += 1;
            *longest = (*longest).max(latency / 1000);
        }
    }

    fn check(&mut self, exchange: &Exchange) {
        let class = match exchange.status / 100 {
            1 => &mut self.status.informational,
            2 => &mut self.status.success,
            3 => &mut self.status.redirection,
            4 => &mut self.status.client_error,
            5 => &mut self.status.server_error,
            _ => &mut self.status.other,
        };
        *class += 1;
        let right_status = match self.expectation.status {
            Some(status) => exchange.status == status,
            None => (200..300).contains(&exchange.status),
        };
        self.wrong_status += u64::from(!right_status);
        match self.expectation.length {
            ExpectLength::Any => {}
            ExpectLength::First => self.expectation.length = ExpectLength::Exactly(exchange.body),
            ExpectLength::Exactly(length) => self.wrong_length += u64::from(exchange.body != length),
        }
    }
}

impl Observer for Recorder {
    const TIMES_WRITING: bool = false;

    fn window_opens(&mut self, now: u64) {
        self.completed_in_warmup = self.latencies.histogram.len();
        self.latencies.clear();
        self.connects.clear();
        self.errors = Errors::default();
        self.status = StatusClasses::default();
        (self.wrong_status, self.wrong_length) = (0, 0);
        self.bytes = Bytes::default();
        self.series.clear();
        self.window_start = now;
        self.used_before = ThreadUse::now();
    }

    fn opened(&mut self, nanoseconds: u64) {
        self.connects.record(nanoseconds);
    }

    fn completed(&mut self, exchange: &Exchange) -> ControlFlow<()> {
        let latency = exchange.finished - exchange.started;
        self.latencies.record(latency);
        self.count_interval(exchange.finished, latency);
        self.count_bytes(exchange);
        self.check(exchange);
        ControlFlow::Continue(())
    }

    fn failed(&mut self, failure: Failure, exchange: &Exchange) -> Verdict {
        self.count_bytes(exchange);
        let class = match failure {
            Failure::Connect(error) => {
                self.ports_exhausted |= error == Errno::EADDRNOTAVAIL;
                self.descriptors_exhausted |= matches!(error, Errno::EMFILE | Errno::ENFILE);
                &mut self.errors.connect
            }
            Failure::Receive(_) => &mut self.errors.receive,
            Failure::Write(_) => &mut self.errors.write,
            Failure::Timeout => &mut self.errors.timeout,
            Failure::Truncated => &mut self.errors.length,
            Failure::ClosedReused => &mut self.errors.closed_reused,
            Failure::NoAnswer | Failure::Malformed => &mut self.errors.exceptions,
        };
        *class += 1;
        Verdict::Count
    }
}
