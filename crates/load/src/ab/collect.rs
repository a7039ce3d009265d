//! What ab keeps of a run, and ab's rules of what counts as failed and what ends the run.

use std::io::Write;
use std::ops::ControlFlow;
use std::time::SystemTime;

use manifold_http::{ResponseHead, find_field};
use nix::errno::Errno;

use super::common::{Common, Fatal};
use super::distribution::Distribution;
use super::spool::{Feeder, Sample};
use crate::connection::Exchange;
use crate::native::args::ExpectLength;
use crate::native::record::{Expectation, Recorder, SUCCESS, ThreadUse};
use crate::outcome::{Failure, Observer, Verdict};
use crate::system_error::plain;
use crate::tls::{Fault, Secured};

/// Bytes of an answer shown with `-v 2`.
const SHOWN_BYTES_MAX: usize = 2047;

/// What is said of a server with which `--http2` is in vain.
const NO_HTTP2: &str = "the server does not speak HTTP/2; without --http2 HTTP/1.0 is spoken";

/// How strict and how talkative to be.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// `-r`.
    pub tolerate_receive_errors: bool,
    /// `-l`.
    pub variable_length: bool,
    /// `-v`.
    pub verbosity: i64,
    /// Show progress after each so many requests.
    pub heartbeat: Option<u64>,
    /// Standard output is for text.
    pub text: bool,
    /// Requests have a schedule: those that were due before the window are not of it.
    pub scheduled: bool,
}

/// One thread's counts and times.
#[derive(Debug)]
pub struct Collector<'c> {
    /// The counts.
    pub counts: Counts,
    /// The times.
    pub times: Times,
    /// When the measured window began, nanoseconds since the beginning of the run.
    pub window: u64,
    /// Requests of the warm-up count nowhere.
    warming: bool,
    /// Keeps what `manifold load` reports, where that is wanted.
    pub recorder: Option<Box<Recorder>>,
    /// Takes every request, where they are kept.
    feeder: Option<Feeder>,
    /// The last thing said of TLS.
    said: String,
    common: &'c Common,
    rules: Rules,
}

/// The times of a request, each over all requests.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Connecting, microseconds.
    pub connect: Distribution,
    /// From the connection to the end of the answer.
    pub processing: Distribution,
    /// From the end of the request to the first byte of the answer.
    pub waiting: Distribution,
    /// All of it.
    pub total: Distribution,
}

impl Times {
    fn record(&mut self, sample: Sample) {
        self.connect.record(sample.connect);
        self.processing.record(sample.total - sample.connect);
        self.waiting.record(sample.waiting);
        self.total.record(sample.total);
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Times) {
        self.connect.merge(&other.connect);
        self.processing.merge(&other.processing);
        self.waiting.merge(&other.waiting);
        self.total.merge(&other.total);
    }
}

/// What ab counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that are over, failed ones included.
    pub done: u64,
    /// Failures, all classes.
    pub failed: u64,
    /// Connections not made.
    pub connect: u64,
    /// Errors while reading.
    pub receive: u64,
    /// Answers of another length than the first, or shorter than they said.
    pub length: u64,
    /// Answers that are no HTTP.
    pub exceptions: u64,
    /// Requests that could not be sent.
    pub write: u64,
    /// Answers without a 2xx status.
    pub non_2xx: u64,
    /// Answers that left their connection open.
    pub kept_alive: u64,
    /// Bytes received.
    pub received: u64,
    /// Body bytes received.
    pub body: u64,
    /// Bytes sent.
    pub sent: u64,
}

impl Counts {
    /// Adds all of another.
    pub fn merge(&mut self, other: &Counts) {
        let Counts {
            done,
            failed,
            connect,
            receive,
            length,
            exceptions,
            write,
            non_2xx,
            kept_alive,
            received,
            body,
            sent,
        } = other;
        self.done += done;
        self.failed += failed;
        self.connect += connect;
        self.receive += receive;
        self.length += length;
        self.exceptions += exceptions;
        self.write += write;
        self.non_2xx += non_2xx;
        self.kept_alive += kept_alive;
        self.received += received;
        self.body += body;
        self.sent += sent;
    }
}

impl<'c> Collector<'c> {
    /// Nothing collected yet.
    pub fn new(rules: Rules, common: &'c Common, warming: bool, feeder: Option<Feeder>) -> Collector<'c> {
        Collector {
            counts: Counts::default(),
            times: Times::default(),
            window: 0,
            warming,
            recorder: None,
            feeder,
            said: String::new(),
            common,
            rules,
        }
    }

    /// Keeps what `manifold load` reports as well; `began` is the time of the run's clock 0.
    pub fn recording(mut self, began: SystemTime) -> Collector<'c> {
        let length = if self.rules.variable_length { ExpectLength::Any } else { ExpectLength::First };
        let recorder = Recorder::new(vec![Expectation { status: SUCCESS, length }], self.rules.scheduled, began);
        self.recorder = Some(Box::new(recorder));
        self
    }

    /// The thread that measures begins.
    pub fn begin(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.used_before = ThreadUse::now();
        }
    }

    fn over(&mut self, exchange: &Exchange) {
        let counts = &mut self.counts;
        counts.done += 1;
        counts.received += exchange.received;
        counts.body += exchange.body;
        counts.sent += exchange.sent;
        let microseconds = |from: u64, to: u64| to.saturating_sub(from) / 1000;
        let total = microseconds(exchange.intended, exchange.finished);
        let sample = Sample {
            started: exchange.intended / 1000,
            connect: microseconds(exchange.started, exchange.connected).min(total),
            total,
            waiting: if exchange.first_byte == 0 { 0 } else { microseconds(exchange.wrote, exchange.first_byte) },
        };
        self.times.record(sample);
        if self.warming {
            return;
        }
        if let Some(feeder) = &mut self.feeder {
            feeder.push(sample);
        }
        if let Some(every) = self.rules.heartbeat {
            self.common.completed(every);
        }
    }

    /// A failure that ab survives.
    fn failed_once(&mut self, exchange: &Exchange, class: fn(&mut Counts) -> &mut u64) -> Verdict {
        *class(&mut self.counts) += 1;
        self.counts.failed += 1;
        self.over(exchange);
        Verdict::Count
    }

    fn end(&mut self, call: &'static str, error: Errno, after_many: bool) -> Verdict {
        self.common.give_up(Fatal { call, error, after_many });
        Verdict::Abort
    }

    fn connect_failed(&mut self, error: Errno, exchange: &Exchange) -> Verdict {
        match error {
            // ab learns of a refused connection when it reads from it, so that is where it is counted.
            Errno::ECONNREFUSED | Errno::ECONNRESET | Errno::ETIMEDOUT | Errno::EHOSTUNREACH => {
                self.receive_failed(error, exchange)
            }
            Errno::EMFILE | Errno::ENFILE => self.end("socket", error, false),
            _ => {
                self.counts.connect += 1;
                self.counts.failed += 1;
                if self.common.connect_failed_too_often() {
                    return self.end("apr_socket_connect()", error, true);
                }
                Verdict::Retry
            }
        }
    }

    fn receive_failed(&mut self, error: Errno, exchange: &Exchange) -> Verdict {
        if !self.rules.tolerate_receive_errors {
            return self.end("apr_socket_recv", error, false);
        }
        if self.rules.verbosity >= 1 {
            super::tell(&format!("apr_socket_recv: {} ({})\n", plain(&error.into()), error as i32));
        }
        self.failed_once(exchange, |counts| &mut counts.receive)
    }
}

impl Observer for Collector<'_> {
    const TIMES_WRITING: bool = true;
    const READS_HEADS: bool = true;

    fn head(&mut self, received: &[u8], head: &ResponseHead) {
        // The answer that counts is still to come.
        if (100..200).contains(&head.status) && head.status != 101 {
            return;
        }
        self.common.answered();
        if self.common.length().is_none() {
            let product = find_field(received, "Server").unwrap_or_default();
            let product = product.split(|byte| *byte <= b' ').next().unwrap_or_default();
            self.common.introduce(String::from_utf8_lossy(product).into_owned());
        }
        let success = (200..300).contains(&head.status);
        self.counts.non_2xx += u64::from(!success);
        if self.rules.verbosity >= 2 {
            let mut out = std::io::stdout().lock();
            // A closed standard output is noticed when the report is written.
            let _noticed_later = out
                .write_all(b"LOG: header received:\n")
                .and_then(|()| out.write_all(&received[..received.len().min(SHOWN_BYTES_MAX)]))
                .and_then(|()| match (success, self.rules.verbosity) {
                    (false, _) => write!(out, "\nWARNING: Response code not 2xx ({})\n", head.status),
                    (true, 3..) => write!(out, "\nLOG: Response code = {}\n", head.status),
                    (true, _) => out.write_all(b"\n"),
                });
        }
    }

    fn window_opens(&mut self, now: u64) {
        self.counts = Counts::default();
        self.times = Times::default();
        self.window = now;
        self.warming = false;
        if let Some(recorder) = &mut self.recorder {
            recorder.window_opens(now);
        }
    }

    fn window_closes(&mut self, now: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.window_closes(now);
        }
    }

    fn secured(&mut self, secured: &Secured) {
        self.common.secure(secured);
        if let Some(recorder) = &mut self.recorder {
            recorder.secured(secured);
        }
    }

    fn insecure(&mut self, said: &str) {
        said.clone_into(&mut self.said);
        if let Some(recorder) = &mut self.recorder {
            recorder.insecure(said);
        }
    }

    fn opened(&mut self, nanoseconds: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.opened(nanoseconds);
        }
    }

    fn completed(&mut self, exchange: &Exchange) -> ControlFlow<()> {
        if let Some(recorder) = &mut self.recorder {
            let _never_ends_the_run = recorder.completed(exchange);
        }
        if self.is_of_warm_up(exchange) {
            return ControlFlow::Continue(());
        }
        let expected = self.common.expect(exchange.body);
        if exchange.body != expected && !self.rules.variable_length {
            self.counts.length += 1;
            self.counts.failed += 1;
        }
        self.counts.kept_alive += u64::from(exchange.kept);
        self.over(exchange);
        ControlFlow::Continue(())
    }

    fn failed(&mut self, failure: Failure, exchange: &Exchange) -> Verdict {
        let verdict = if self.is_of_warm_up(exchange) { Verdict::Count } else { self.judge(failure, exchange) };
        // What is sent again has not failed.
        if let Some(recorder) = self.recorder.as_mut().filter(|_| verdict != Verdict::Retry) {
            recorder.failed(failure, exchange);
        }
        verdict
    }
}

impl Collector<'_> {
    fn is_of_warm_up(&self, exchange: &Exchange) -> bool {
        self.rules.scheduled && exchange.intended < self.window
    }

    fn judge(&mut self, failure: Failure, exchange: &Exchange) -> Verdict {
        match failure {
            Failure::Connect(error) => self.connect_failed(error, exchange),
            Failure::Receive(error) => self.receive_failed(error, exchange),
            Failure::Write(_) => {
                if self.rules.text {
                    // A closed standard output is noticed when the report is written.
                    let _noticed_later = super::show("Send request failed!\n");
                }
                self.counts.write += 1;
                self.failed_once(exchange, |counts| &mut counts.length)
            }
            Failure::Tls(fault) => {
                let what = match fault {
                    Fault::Truncated | Fault::Record => "SSL read failed (1) - closing connection",
                    Fault::Handshake | Fault::Certificate | Fault::NoProtocol | Fault::Alert => {
                        "SSL handshake failed (1)."
                    }
                };
                super::tell(&format!("{what}\n{}\n", self.said));
                self.failed_once(exchange, |counts| &mut counts.exceptions)
            }
            // The server was within its rights to close an idle connection.
            Failure::ClosedReused => Verdict::Retry,
            Failure::Truncated | Failure::NoAnswer => {
                self.common.expect(exchange.body);
                self.failed_once(exchange, |counts| &mut counts.length)
            }
            // So it will be with every other request.
            Failure::NotHttp2 => self.end(NO_HTTP2, Errno::EPROTONOSUPPORT, false),
            Failure::Malformed | Failure::Timeout | Failure::StreamReset | Failure::Refused => {
                self.failed_once(exchange, |counts| &mut counts.exceptions)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        tolerate_receive_errors: false,
        variable_length: false,
        verbosity: 0,
        heartbeat: None,
        text: true,
        scheduled: false,
    };

    fn exchange(body: u64) -> Exchange {
        Exchange {
            intended: 1_000_000,
            started: 1_000_000,
            connected: 1_400_999,
            wrote: 1_500_000,
            first_byte: 3_500_000,
            finished: 4_000_000,
            received: body + 100,
            body,
            sent: 50,
            status: 200,
            ..Exchange::default()
        }
    }

    #[test]
    fn times_are_taken_between_the_points_ab_names() {
        let common = Common::new().unwrap();
        let (maker, batches) = super::super::spool::channel();
        let mut collector = Collector::new(RULES, &common, false, Some(maker.feeder()));
        assert!(collector.completed(&exchange(44)).is_continue());
        assert_eq!(collector.times.processing.sorted().at(0), 2600);
        // Of a schedule, from when it was due.
        let late = Exchange { intended: 500_000, ..exchange(44) };
        assert!(collector.completed(&late).is_continue());
        assert_eq!(collector.times.total.sorted().max(), 3500);
        drop(collector);
        let expected = Sample { started: 1000, connect: 400, total: 3000, waiting: 2000 };
        assert_eq!(batches.recv().unwrap(), [expected, Sample { started: 500, total: 3500, ..expected }]);
    }

    #[test]
    fn what_came_before_the_window_counts_nowhere() {
        let common = Common::new().unwrap();
        let mut collector = Collector::new(Rules { heartbeat: Some(100), ..RULES }, &common, true, None);
        assert!(collector.completed(&exchange(44)).is_continue());
        collector.window_opens(7);
        assert_eq!((collector.counts, collector.window), (Counts::default(), 7));
        assert!(collector.completed(&exchange(44)).is_continue());
        assert_eq!((collector.counts.done, collector.times.total.sorted().count), (1, 1));
        // Of a schedule, what was due before does not count either.
        collector.rules.scheduled = true;
        collector.window_opens(1_000_001);
        assert!(collector.completed(&exchange(44)).is_continue());
        assert_eq!(collector.failed(Failure::Truncated, &exchange(44)), Verdict::Count);
        assert_eq!(collector.counts, Counts::default());
    }

    #[test]
    fn the_first_answers_length_is_the_measure_unless_lengths_may_vary() {
        for (variable_length, failed) in [(false, 2), (true, 0)] {
            let common = Common::new().unwrap();
            let mut collector = Collector::new(Rules { variable_length, ..RULES }, &common, false, None);
            for body in [44, 45, 44, 43] {
                assert!(collector.completed(&exchange(body)).is_continue());
            }
            assert_eq!((collector.counts.failed, collector.counts.length, collector.counts.done), (failed, failed, 4));
            assert_eq!(common.length(), Some(44));
        }
    }

    #[test]
    fn failures_end_the_run_or_count_as_ab_has_it() {
        let check = |tolerate_receive_errors, failure, verdict, failed, fatal: Option<(&'static str, i32)>| {
            let common = Common::new().unwrap();
            let mut collector = Collector::new(Rules { tolerate_receive_errors, ..RULES }, &common, false, None);
            assert_eq!(collector.failed(failure, &exchange(0)), verdict, "{failure:?}");
            assert_eq!(collector.counts.failed, failed, "{failure:?}");
            assert_eq!(common.fatal().map(|fatal| (fatal.call, fatal.error as i32)), fatal, "{failure:?}");
        };
        check(false, Failure::Connect(Errno::ECONNREFUSED), Verdict::Abort, 0, Some(("apr_socket_recv", 111)));
        check(true, Failure::Connect(Errno::ECONNREFUSED), Verdict::Count, 1, None);
        check(false, Failure::Connect(Errno::EADDRNOTAVAIL), Verdict::Retry, 1, None);
        check(false, Failure::Receive(Errno::ECONNRESET), Verdict::Abort, 0, Some(("apr_socket_recv", 104)));
        check(true, Failure::Receive(Errno::ECONNRESET), Verdict::Count, 1, None);
        check(false, Failure::ClosedReused, Verdict::Retry, 0, None);
        check(false, Failure::Truncated, Verdict::Count, 1, None);
        check(false, Failure::Malformed, Verdict::Count, 1, None);
    }

    #[test]
    fn ten_connections_that_cannot_be_made_are_tolerated() {
        let common = Common::new().unwrap();
        // Of several threads together.
        let mut collectors = [(); 2].map(|()| Collector::new(RULES, &common, false, None));
        let failure = Failure::Connect(Errno::EADDRNOTAVAIL);
        for round in 0..10 {
            assert_eq!(collectors[round % 2].failed(failure, &exchange(0)), Verdict::Retry);
        }
        assert_eq!(collectors[0].failed(failure, &exchange(0)), Verdict::Abort);
        assert!(common.fatal().is_some_and(|fatal| fatal.after_many));
    }
}
