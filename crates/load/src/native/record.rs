//! What one thread of a native run keeps: counts, one histogram, and the CPU the thread itself used.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

use super::args::ExpectLength;
use super::counting::Counting;
use super::find_max::condition::{Seen, Tally};
use super::handover::{Account, Hand};
use crate::connection::Exchange;
use crate::grid::{Grid, INTERVAL, INTERVALS_MAX, Interval};
use crate::handshakes::Handshakes;
use crate::latencies::Latencies;
use crate::outcome::{Failure, Observer, Verdict, Vitals, nanoseconds};
use crate::parts::Parts;
use crate::report::{Bytes, Errors, NO_DESCRIPTOR, NO_LOCAL_PORT};
use crate::tls::{Fault, Secured};

/// Places for answers by status.
const STATUSES: usize = 1000;

/// The statuses that are right where nothing else is said.
pub const SUCCESS: (u16, u16) = (200, 299);
/// All of them.
pub const ANY_STATUS: (u16, u16) = (0, u16::MAX);

/// The answers every request is held against.
#[derive(Clone, Copy, Debug)]
pub struct Expectation {
    /// The first and the last status that is right.
    pub status: (u16, u16),
    /// Body length.
    pub length: ExpectLength,
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

/// What is counted for some runs only.
#[derive(Debug)]
pub enum Besides {
    /// The conditions of a search.
    Search(Tally),
    /// Kinds of requests and stages.
    Parts(Counting),
}

impl Besides {
    /// An answer is complete. Apart from the path of all other runs, so that it costs them one look.
    #[inline(never)]
    fn answered(&mut self, exchange: &Exchange, latency: u64, right_status: bool, right_length: bool) {
        match self {
            Besides::Search(tally) => {
                let success = (SUCCESS.0..=SUCCESS.1).contains(&exchange.status);
                let right_content = !exchange.wrong_content;
                tally
                    .answered(exchange.intended, &Seen { latency, success, right_status, right_length, right_content });
            }
            Besides::Parts(counting) => {
                counting.answered(exchange, latency, [!right_status, !right_length, exchange.wrong_content]);
            }
        }
    }
}

/// One thread's figures of the measured window.
#[derive(Debug)]
pub struct Recorder {
    /// Of completed requests, from when they were meant to begin: the response time.
    pub latencies: Latencies,
    /// Of completed requests, from when they were sent: the service time.
    pub service: Latencies,
    /// From when a request was sent to the first byte of its answer.
    pub first_bytes: Latencies,
    /// Durations of connecting.
    pub connects: Latencies,
    /// Of connections that are secured; made with the first of them.
    pub handshakes: Option<Box<Handshakes>>,
    /// Failures by class.
    pub errors: Errors,
    /// Failures by what the system said.
    pub failures: BTreeMap<&'static str, u64>,
    /// Answers by status; the last place is for those beyond.
    pub statuses: Vec<u64>,
    /// Answers with another status than expected.
    pub wrong_status: u64,
    /// Answers with another length than expected.
    pub wrong_length: u64,
    /// Answers with another body than expected.
    pub wrong_content: u64,
    /// Bytes moved.
    pub bytes: Bytes,
    /// Completions over time.
    pub series: Grid<Interval>,
    /// Answers completed before the window opened.
    pub completed_in_warmup: u64,
    /// Of those in `latencies`, completed after the window closed.
    pub completed_late: u64,
    /// When the window opened, nanoseconds of the run.
    pub window_start: u64,
    /// When it closed, if it has.
    pub window_end: Option<u64>,
    /// CPU figures when it opened.
    pub used_before: ThreadUse,
    /// What is counted besides, if anything.
    pub besides: Option<Box<Besides>>,
    /// Where each second goes, if somebody keeps them.
    pub hand: Option<Hand>,
    /// The time of the run's clock 0, nanoseconds since 1970-01-01 UTC.
    epoch: u64,
    expectations: Vec<Expectation>,
    /// Requests that were meant to begin before the window are not of it.
    open_loop: bool,
}

impl Recorder {
    /// A recorder whose window opens at once; a warm-up opens it again later. There is one expectation for each request of the plan;
    /// `began` is the time of the run's clock 0.
    pub fn new(expectations: Vec<Expectation>, open_loop: bool, began: SystemTime) -> Recorder {
        let epoch = nanoseconds(began.duration_since(UNIX_EPOCH).unwrap_or_default());
        Recorder {
            epoch,
            hand: None,
            latencies: Latencies::default(),
            service: Latencies::default(),
            first_bytes: Latencies::default(),
            connects: Latencies::default(),
            handshakes: None,
            errors: Errors::default(),
            failures: BTreeMap::new(),
            statuses: vec![0; STATUSES],
            wrong_status: 0,
            wrong_length: 0,
            wrong_content: 0,
            bytes: Bytes::default(),
            series: Grid::new(INTERVAL, INTERVALS_MAX, epoch),
            completed_in_warmup: 0,
            completed_late: 0,
            window_start: 0,
            window_end: None,
            used_before: ThreadUse::now(),
            besides: None,
            expectations,
            open_loop,
        }
    }

    /// What a search counts, if this is one.
    pub fn tally(&mut self) -> Option<&mut Tally> {
        if let Some(Besides::Search(tally)) = self.besides.as_deref_mut() { Some(tally) } else { None }
    }

    /// What was counted of kinds and stages, if there are several.
    pub fn parts(&self) -> Option<&Parts> {
        if let Some(Besides::Parts(counting)) = self.besides.as_deref() { Some(&counting.parts) } else { None }
    }

    fn counting(&mut self) -> Option<&mut Counting> {
        if let Some(Besides::Parts(counting)) = self.besides.as_deref_mut() { Some(counting) } else { None }
    }

    fn is_of_warm_up(&self, exchange: &Exchange) -> bool {
        self.open_loop && exchange.intended < self.window_start
    }

    fn count_bytes(&mut self, exchange: &Exchange) {
        self.bytes.received += exchange.received;
        self.bytes.body += exchange.body;
        self.bytes.sent += exchange.sent;
    }

    fn check(&mut self, exchange: &Exchange, latency: u64) {
        self.statuses[usize::from(exchange.status).min(STATUSES - 1)] += 1;
        let expectation = &mut self.expectations[exchange.request as usize];
        let right_status = (expectation.status.0..=expectation.status.1).contains(&exchange.status);
        self.wrong_status += u64::from(!right_status);
        let right_length = match expectation.length {
            ExpectLength::Any => true,
            ExpectLength::First => {
                expectation.length = ExpectLength::Exactly(exchange.body);
                true
            }
            ExpectLength::Exactly(length) => exchange.body == length,
        };
        self.wrong_length += u64::from(!right_length);
        self.wrong_content += u64::from(exchange.wrong_content);
        if let Some(besides) = &mut self.besides {
            besides.answered(exchange, latency, right_status, right_length);
        }
    }
}

impl Observer for Recorder {
    const TIMES_WRITING: bool = false;

    fn window_opens(&mut self, now: u64) {
        self.completed_in_warmup += self.latencies.count();
        for latencies in [&mut self.latencies, &mut self.service, &mut self.first_bytes, &mut self.connects] {
            latencies.clear();
        }
        self.handshakes = None;
        self.errors = Errors::default();
        self.failures.clear();
        self.statuses.fill(0);
        (self.wrong_status, self.wrong_length, self.wrong_content) = (0, 0, 0);
        self.bytes = Bytes::default();
        self.series = Grid::new(INTERVAL, INTERVALS_MAX, self.epoch + now);
        self.window_start = now;
        if let Some(hand) = &mut self.hand {
            hand.window_opens(self.epoch + now);
        }
        match self.besides.as_deref_mut() {
            None => {}
            Some(Besides::Search(tally)) => tally.open(now),
            Some(Besides::Parts(counting)) => counting.open(now),
        }
        self.used_before = ThreadUse::now();
    }

    fn window_closes(&mut self, now: u64) {
        self.window_end = Some(now);
        if let Some(counting) = self.counting() {
            counting.close(now);
        }
    }

    fn opened(&mut self, nanoseconds: u64) {
        self.connects.record(nanoseconds);
    }

    fn secured(&mut self, secured: &Secured) {
        self.handshakes.get_or_insert_default().count(secured);
    }

    fn insecure(&mut self, said: &str) {
        self.handshakes.get_or_insert_default().count_failure(said);
    }

    fn completed(&mut self, exchange: &Exchange) -> ControlFlow<()> {
        if self.is_of_warm_up(exchange) {
            self.completed_in_warmup += 1;
            return ControlFlow::Continue(());
        }
        let latency = exchange.finished - exchange.intended;
        self.latencies.record(latency);
        self.service.record(exchange.finished - exchange.connected);
        self.first_bytes.record(exchange.first_byte - exchange.connected);
        self.completed_late += u64::from(self.window_end.is_some_and(|end| exchange.finished > end));
        let interval = self.series.at(self.epoch + exchange.finished);
        interval.completed += 1;
        interval.longest = interval.longest.max(latency / 1000);
        if let Some(hand) = &mut self.hand {
            let second = hand.at(self.epoch + exchange.finished);
            second.latencies.record(latency);
            second.received += exchange.received;
        }
        self.count_bytes(exchange);
        self.check(exchange, latency);
        ControlFlow::Continue(())
    }

    fn tick(&mut self, now: u64, vitals: impl FnOnce() -> Vitals) {
        if let Some(hand) = &mut self.hand {
            let at = self.epoch + now;
            hand.at(at).account = Account {
                at,
                vitals: vitals(),
                wrong: [self.wrong_status, self.wrong_length, self.wrong_content],
                cpu: thread_cpu(),
            };
        }
    }

    fn failed(&mut self, failure: Failure, exchange: &Exchange) -> Verdict {
        if self.is_of_warm_up(exchange) {
            return Verdict::Count;
        }
        self.count_bytes(exchange);
        match self.besides.as_deref_mut() {
            None => {}
            Some(Besides::Search(tally)) => tally.unanswered(exchange.intended),
            Some(Besides::Parts(counting)) => counting.failed(exchange, |errors| class(errors, failure)),
        }
        self.series.at(self.epoch + exchange.finished).failed += 1;
        if let Some(hand) = &mut self.hand {
            *class(&mut hand.at(self.epoch + exchange.finished).errors, failure) += 1;
        }
        *class(&mut self.errors, failure) += 1;
        *self.failures.entry(name(failure)).or_default() += 1;
        Verdict::Count
    }

    fn unfinished(&mut self, exchange: &Exchange) {
        if !self.is_of_warm_up(exchange)
            && let Some(counting) = self.counting()
        {
            counting.unfinished(exchange);
        }
    }

    fn unsent(&mut self, due: u64) {
        if let Some(counting) = self.counting() {
            counting.unsent(due);
        }
    }
}

/// CPU time that this thread has used; zero where the system does not tell.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The class that a failure counts in.
fn class(errors: &mut Errors, failure: Failure) -> &mut u64 {
    match failure {
        Failure::Connect(_) => &mut errors.connect,
        Failure::Receive(_) => &mut errors.receive,
        Failure::Write(_) => &mut errors.write,
        Failure::Tls(_) => &mut errors.tls,
        Failure::Timeout => &mut errors.timeout,
        Failure::Truncated => &mut errors.length,
        Failure::ClosedReused => &mut errors.closed_reused,
        Failure::StreamReset => &mut errors.receive,
        Failure::NoAnswer | Failure::Malformed | Failure::NotHttp2 | Failure::Refused => &mut errors.exceptions,
    }
}

/// The word for a failure in reports.
fn name(failure: Failure) -> &'static str {
    match failure {
        Failure::Connect(Errno::ECONNREFUSED) => "connect-refused",
        Failure::Connect(Errno::ECONNRESET) => "connect-reset",
        Failure::Connect(Errno::ETIMEDOUT) => "connect-timeout",
        Failure::Connect(Errno::EHOSTUNREACH | Errno::ENETUNREACH) => "connect-unreachable",
        Failure::Connect(Errno::EADDRNOTAVAIL) => NO_LOCAL_PORT,
        Failure::Connect(Errno::EMFILE | Errno::ENFILE) => NO_DESCRIPTOR,
        Failure::Connect(_) => "connect-other",
        Failure::Receive(Errno::ECONNRESET) => "reset",
        Failure::Receive(_) => "receive-other",
        Failure::Write(_) => "write",
        Failure::Tls(Fault::Handshake) => "tls-handshake",
        Failure::Tls(Fault::Certificate) => "tls-certificate",
        Failure::Tls(Fault::NoProtocol) => "tls-protocol",
        Failure::Tls(Fault::Alert) => "tls-alert",
        Failure::Tls(Fault::Truncated) => "tls-truncated",
        Failure::Tls(Fault::Record) => "tls-record",
        Failure::Timeout => "timeout",
        Failure::Truncated => "short-answer",
        Failure::NoAnswer => "no-answer",
        Failure::ClosedReused => "closed-reused",
        Failure::Malformed => "malformed",
        Failure::NotHttp2 => "not-http2",
        Failure::StreamReset => "stream-reset",
        Failure::Refused => "refused",
    }
}
