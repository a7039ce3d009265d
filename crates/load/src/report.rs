//! The document one run of `manifold load` leaves: what was asked, what happened, and whether to believe it.
//!
//! It is the interface between the generator's process and whoever started it (the laboratory): `manifold load --json` prints exactly one
//! [`Report`]. Every figure is of the measured window alone; the warm-up is excluded unless a field says otherwise.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::latencies::Latencies;
use crate::plan::Protocol;
use crate::slices::Slices;

mod distribution;
mod flags;
mod part;

pub use distribution::{Distribution, decode, encode};
pub use flags::{Flag, NO_DESCRIPTOR, NO_LOCAL_PORT, flags};
pub use part::Part;

/// Version of this document's shape; it changes when a reader must.
pub const SCHEMA: u32 = 4;

/// One run of the generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// Version of Manifold that wrote it.
    pub version: String,
    /// What was asked for, after defaults were filled in.
    pub config: Config,
    /// Beginning of the measured window, microseconds since 1970-01-01 UTC.
    pub started_unix_us: u64,
    /// Length of the measured window in seconds (with several threads or machines: the longest of theirs).
    pub seconds: f64,
    /// Answers received completely in the window, whatever their status and length.
    pub completed: u64,
    /// Answers received completely since the beginning of the run, warm-up included: what to divide a server's CPU time by when that was
    /// read before the generator started and after it ended.
    pub completed_with_warmup: u64,
    /// Of `completed`, those that were due in the window but completed after it, while the run drained.
    pub completed_late: u64,
    /// Answers completed before the window's end, divided by `seconds`.
    pub requests_per_second: f64,
    /// Requests that ended without a complete answer, by class, in the window.
    pub errors: Errors,
    /// The same by what happened: `connect-refused`, `reset`, `timeout`, `short-answer`, `no-local-port` ...
    pub failures: BTreeMap<String, u64>,
    /// Completed answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Completed answers by first digit of their status.
    pub status: StatusClasses,
    /// Completed answers whose status was not the expected one ([`Config::expect_status`]).
    pub wrong_status: u64,
    /// Completed answers whose body had not the expected length ([`Config::expect_length`], or else the length of the first answer).
    pub wrong_length: u64,
    /// Completed answers whose body was not the expected one (`--expect-body-contains`, `--expect-sha256`).
    pub wrong_content: u64,
    /// Bytes moved in the window.
    pub bytes: Bytes,
    /// Response time: from the moment a request was meant to begin to the last byte of its answer, in microseconds. In an open loop that
    /// moment is the schedule's, so that what waits behind a stall is counted; in a closed loop it is when the request began. On a fresh
    /// connection connecting is included. Absent when nothing was completed.
    pub latency_us: Option<Summary>,
    /// The same latencies, complete; absent with them.
    pub histogram: Option<Distribution>,
    /// Service time: from when a request was sent to the last byte of its answer.
    pub service_us: Option<Summary>,
    /// The same, complete.
    pub service_histogram: Option<Distribution>,
    /// From when a request was sent to the first byte of its answer.
    pub first_byte_us: Option<Summary>,
    /// The same, complete.
    pub first_byte_histogram: Option<Distribution>,
    /// Connections opened in the window, and how long connecting took.
    pub connect: Connect,
    /// How long connecting took, complete.
    pub connect_histogram: Option<Distribution>,
    /// Of connections that are secured; absent where there were none.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// Requests that were waiting for an answer when the window closed. They are in no other figure: a server that stalls shows here.
    pub unfinished: Unfinished,
    /// Connections of the fixed set that never received one answer from the beginning of the run, warm-up included.
    pub unserved_connections: u64,
    /// How the schedule of an open loop was kept; absent in a closed loop.
    pub schedule: Option<Kept>,
    /// How late requests of the schedule began through the generator's own fault, complete.
    pub lag_histogram: Option<Distribution>,
    /// The load the generator itself caused.
    pub generator: Generator,
    /// The times between the threads' looks at what has happened, complete.
    pub turn_histogram: Option<Distribution>,
    /// Completions over time.
    pub series: Series,
    /// The latencies of each second: what the intervals of a comparison are drawn from.
    pub slices: Slices,
    /// The figures of each kind of request, where there are several and no log is replayed. Of 64 at most: where there are more, the last is
    /// of all others together.
    #[serde(default)]
    pub kinds: Vec<Part>,
    /// The figures of each stage, where there are several; a request belongs to the stage in which it was due. Of 64 at most, as above.
    #[serde(default)]
    pub stages: Vec<Part>,
    /// Of a replayed log, what became of its lines; absent in other runs, and where reports were merged.
    pub replay: Option<Replayed>,
    /// Reasons not to believe the figures as they are; empty in a sound run.
    pub flags: Vec<Flag>,
    /// Where the load came from: one machine, or those whose reports were merged into this one.
    pub machines: Vec<Machine>,
}

/// A machine that load came from, and what of it a merged report would hide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    pub host: String,
    /// Beginning of its window, microseconds since 1970-01-01 UTC by its own clock.
    pub started_unix_us: u64,
    /// Length of its window, seconds.
    pub seconds: f64,
    /// Answers it received.
    pub completed: u64,
    /// Its share of the rate.
    pub requests_per_second: f64,
    /// Its share of the connections.
    pub connections: u32,
    /// Its generator threads.
    pub threads: u32,
    /// What decided its random choices.
    pub seed: u64,
    /// The largest share of its time a generator thread was on a CPU or waiting for one, 0..=1.
    pub busy_share_max_thread: f64,
    /// Reasons not to believe its part.
    pub flags: Vec<Flag>,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The first URL as given.
    pub url: String,
    /// The address connected to for it: `IP:port`, or the path of a socket.
    pub address: String,
    /// All that is sent.
    pub requests_sent: Vec<RequestConfig>,
    /// The fixed number of connections.
    pub connections: u32,
    /// Generator threads; each holds its share of the connections.
    pub threads: u32,
    /// `http/1` or `http/2`.
    #[serde(default = "http1")]
    pub protocol: String,
    /// Requests at once on each connection; 1 with HTTP/1.
    #[serde(default = "one")]
    pub streams: u32,
    /// Whether connections are kept for the next request.
    pub keep_alive: bool,
    /// What begins requests.
    pub pace: PaceConfig,
    /// Decides every random choice.
    pub seed: u64,
    /// Stop after this many answers or failures in the window.
    pub requests: Option<u64>,
    /// Stop after this many seconds of window.
    pub duration_s: Option<f64>,
    /// Load before the window opens, seconds.
    pub warmup_s: f64,
    /// After the window requests that were due in it may take this long to end, seconds.
    pub drain_s: f64,
    /// A request without a complete answer after this many seconds has failed.
    pub timeout_s: f64,
    /// CPUs the generator's threads were bound to, in the order of the threads; empty: not bound.
    pub pin: Vec<usize>,
    /// The status every answer to the first request must have; `None`: any of 200..=299.
    pub expect_status: Option<u16>,
    /// The body length every answer to the first request must have; `None`: that of the first answer of each thread, or any.
    pub expect_length: Option<u64>,
}

fn http1() -> String {
    Protocol::Http1.name().to_owned()
}

fn one() -> u32 {
    1
}

/// One kind of request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestConfig {
    /// As given.
    pub url: String,
    /// Such as `GET`.
    pub method: String,
    /// How often it is sent, compared with the others.
    pub weight: u32,
    /// Length of its body.
    pub body_bytes: u64,
}

/// What begins requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "kebab-case")]
pub enum PaceConfig {
    /// The end of the request before.
    Closed {
        /// Mean pause of a connection between an answer and its next request, seconds.
        think_mean_s: f64,
        /// Connections begin evenly spread over this time, seconds.
        ramp_up_s: f64,
    },
    /// A schedule.
    Open {
        /// `constant` or `poisson`.
        arrivals: String,
        /// The rate over time, from the window's beginning.
        stages: Vec<StageConfig>,
    },
}

/// A piece of an open loop's rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageConfig {
    /// Requests a second at its beginning.
    pub from: f64,
    /// Requests a second at its end.
    pub to: f64,
    /// Its length; absent: to the run's end.
    pub seconds: Option<f64>,
}

/// Requests that ended without a complete answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// The connection could not be made.
    pub connect: u64,
    /// Reading failed: reset by the server.
    pub receive: u64,
    /// Writing the request failed.
    pub write: u64,
    /// The connection could not be secured, or not any more.
    #[serde(default)]
    pub tls: u64,
    /// No complete answer within the timeout.
    pub timeout: u64,
    /// The connection ended before the answer's stated length.
    pub length: u64,
    /// The server closed a connection it had said it would keep, while or before our next request was on it.
    pub closed_reused: u64,
    /// Anything else: no answer at all on a fresh connection, or bytes that are no HTTP answer.
    pub exceptions: u64,
}

impl Errors {
    /// All classes together.
    pub fn total(&self) -> u64 {
        let Errors { connect, receive, write, tls, timeout, length, closed_reused, exceptions } = self;
        connect + receive + write + tls + timeout + length + closed_reused + exceptions
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Errors) {
        let Errors { connect, receive, write, tls, timeout, length, closed_reused, exceptions } = other;
        self.connect += connect;
        self.receive += receive;
        self.write += write;
        self.tls += tls;
        self.timeout += timeout;
        self.length += length;
        self.closed_reused += closed_reused;
        self.exceptions += exceptions;
    }

    /// Each class in words, and its number.
    pub fn classes(&self) -> [(&'static str, u64); 8] {
        let Errors { connect, receive, write, tls, timeout, length, closed_reused, exceptions } = *self;
        [
            ("connect", connect),
            ("receive", receive),
            ("write", write),
            ("TLS", tls),
            ("timeout", timeout),
            ("length", length),
            ("closed while reused", closed_reused),
            ("exceptions", exceptions),
        ]
    }
}

/// Completed answers by first digit of the status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct StatusClasses {
    #[serde(rename = "1xx")]
    pub informational: u64,
    #[serde(rename = "2xx")]
    pub success: u64,
    #[serde(rename = "3xx")]
    pub redirection: u64,
    #[serde(rename = "4xx")]
    pub client_error: u64,
    #[serde(rename = "5xx")]
    pub server_error: u64,
    /// Outside 100..=599.
    pub other: u64,
}

/// Bytes moved, as seen by the application (no TCP or IP overhead).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// Received: heads, chunk framing and bodies, of failed requests as well.
    pub received: u64,
    /// Received body bytes alone, without chunk framing.
    pub body: u64,
    /// Sent.
    pub sent: u64,
}

/// A distribution in microseconds. Percentiles come from a histogram with three significant digits; min, mean and max are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Summary {
    pub min: f64,
    pub mean: f64,
    pub p50: f64,
    pub p75: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub p99_99: f64,
    pub max: f64,
}

impl Summary {
    /// Of these; none if there are none.
    pub fn of(latencies: &Latencies) -> Option<Summary> {
        let count = latencies.count();
        let percentile = |quantile| latencies.histogram.value_at_quantile(quantile) as f64;
        (count > 0).then(|| Summary {
            min: latencies.min as f64 / 1000.0,
            mean: latencies.sum as f64 / count as f64 / 1000.0,
            p50: percentile(0.5),
            p75: percentile(0.75),
            p90: percentile(0.9),
            p95: percentile(0.95),
            p99: percentile(0.99),
            p99_9: percentile(0.999),
            p99_99: percentile(0.9999),
            max: latencies.max as f64 / 1000.0,
        })
    }
}

/// Connections opened in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connect {
    /// How many were made; with keep-alive and a steady server this is close to 0.
    pub opened: u64,
    /// Time from the call to the established connection, microseconds; absent when none was opened.
    pub latency_us: Option<Summary>,
}

/// Connections secured by TLS in the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tls {
    /// Handshakes that succeeded.
    pub handshakes: u64,
    /// Of these, those that resumed the session of an earlier connection.
    pub resumed: u64,
    /// How long they took from the moment the connection stood, microseconds; it is part of the time to connect.
    pub handshake_us: Option<Summary>,
    /// The same, complete.
    pub handshake_histogram: Option<Distribution>,
    /// How many led to each protocol version and cipher suite.
    pub negotiated: BTreeMap<String, u64>,
    /// Failures in words, as many as are worth reading.
    pub failures: BTreeMap<String, u64>,
}

/// Requests that were waiting for an answer when the window closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unfinished {
    /// How many: with a duration about one a connection is normal, with a number of requests 0 is.
    pub count: u64,
    /// Mean time they had been waiting, microseconds.
    pub mean_age_us: f64,
    /// Longest time one had been waiting, microseconds. Far beyond `latency_us.max` means the server had stalled.
    pub max_age_us: f64,
    /// How long they had been waiting together, nanoseconds.
    pub sum_age_ns: u128,
}

/// How the schedule of an open loop was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// Requests begun that were due in the window.
    pub begun: u64,
    /// Requests due in the window that were never begun: no connection was free for them until the end.
    pub unsent: u64,
    /// How long the first of them had been due at the end, microseconds.
    pub unsent_oldest_us: f64,
    /// How late requests began through the generator's own fault, microseconds: since they were due and a connection was free.
    pub lag_us: Option<Summary>,
    /// Requests that had to wait for a connection to be free. Their response time has the waiting in it; more connections end it.
    pub short_of_connections: u64,
    /// The longest such wait, microseconds.
    pub short_longest_us: f64,
}

/// What the generator cost in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU seconds in user mode, all threads.
    pub user_s: f64,
    /// CPU seconds in the kernel, all threads.
    pub system_s: f64,
    /// Seconds in which a thread was ready to run but had no CPU (`/proc/thread-self/schedstat`), all threads; 0 where unknown.
    pub wait_s: f64,
    /// The largest share of its wall time a thread spent on a CPU, 0..=1.
    pub cpu_share_max_thread: f64,
    /// The largest share of its wall time a thread was on a CPU or waiting for one, 0..=1: what is left is time it waited for the server.
    pub busy_share_max_thread: f64,
    /// CPU seconds spent awake for the moments of scheduled requests, all threads; they are in `user_s` and `system_s`, and not in
    /// `busy_share_max_thread`.
    pub awake_s: f64,
    /// 99 % of the threads' looks at what has happened followed the one before within so many microseconds; an answer may have been seen
    /// that much too late.
    pub turn_p99_us: f64,
    /// The longest time between two, microseconds.
    pub turn_max_us: f64,
    /// `busy_share_max_thread` reached 0.95: the generator, not the server, may have set the pace.
    pub saturated: bool,
}

/// What became of a log's lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Replayed {
    /// The log's name.
    pub log: String,
    /// Its lines.
    pub lines: u64,
    /// Of these, the requests that can be sent.
    pub requests: u64,
    /// Different ones among them.
    pub different: u64,
    /// Requests that are left out, by their method; `no path` are connections without a request and the like.
    pub skipped: BTreeMap<String, u64>,
    /// Lines in none of the formats.
    pub malformed: u64,
    /// The first of them, with their numbers and what is wrong.
    pub malformed_first: Vec<String>,
    /// Requests whose time is before that of an earlier line; they are sent in their time's order.
    pub out_of_order: u64,
    /// From the first second to the last, seconds.
    pub span_s: f64,
    /// How many times as fast as in the log its time goes by; absent where requests follow one another (closed loop).
    pub speed: Option<f64>,
    /// The statuses that the log has for these requests, to be held against [`Report::statuses`].
    pub statuses: BTreeMap<u16, u64>,
}

/// Completions in intervals of equal width. They begin at whole multiples of it since 1970-01-01 UTC, so the first and the last are cut short
/// by the window, and series of several machines are added interval by interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// Width of an interval in milliseconds.
    pub interval_ms: u64,
    /// When the first interval begins, milliseconds since 1970-01-01 UTC.
    pub begins_unix_ms: u64,
    /// Answers completed in each interval.
    pub completed: Vec<u64>,
    /// Requests failed in each interval.
    pub failed: Vec<u64>,
    /// Longest latency among them, microseconds.
    pub max_latency_us: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_written_as_words() {
        let written = serde_json::to_string(&[Flag::GeneratorSaturated, Flag::PortsExhausted]).unwrap();
        assert_eq!(written, r#"["generator-saturated","ports-exhausted"]"#);
    }
}
