//! What is counted, between those who count and the report: threads of a run and reports of machines are added up in one and the same way,
//! so that a merged report is what one run with all their threads would have reported.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::grid::{Grid, INTERVAL, INTERVALS_MAX, Interval};
use crate::handshakes::Handshakes;
use crate::latencies::Latencies;
use crate::native::record::ThreadUse;
use crate::outcome::Unsent;
use crate::parts::Parts;
use crate::report::{
    Bytes, Config, Connect, Distribution, Errors, Generator, Kept, Machine, PaceConfig, Report, SCHEMA, Series,
    StatusClasses, Summary, Unfinished, flags,
};
use crate::slices::{SLICE, SLICES_MAX, Slice, Slices};

/// From this share of its wall time on a thread counts as busy all the time.
const SATURATED_SHARE: f64 = 0.95;

/// Figures of the measured window, of one or of many.
#[derive(Debug)]
pub struct Tally {
    /// When the first window opened, microseconds since 1970-01-01 UTC.
    pub started_unix_us: u64,
    /// The longest window.
    pub window: Duration,
    /// Response times.
    pub latencies: Latencies,
    /// Service times.
    pub service: Latencies,
    /// Times to the first byte.
    pub first_bytes: Latencies,
    /// Times to connect.
    pub connects: Latencies,
    /// Of connections that are secured.
    pub handshakes: Handshakes,
    /// How late scheduled requests began through the generator's fault.
    pub lag: Latencies,
    /// Between two looks at what has happened.
    pub turns: Latencies,
    /// Failures by class.
    pub errors: Errors,
    /// Failures by what happened.
    pub failures: BTreeMap<String, u64>,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes moved.
    pub bytes: Bytes,
    /// Answers with another status than expected.
    pub wrong_status: u64,
    /// Answers with another length than expected.
    pub wrong_length: u64,
    /// Answers with another body than expected.
    pub wrong_content: u64,
    /// Connections that never got an answer.
    pub unserved: u64,
    /// Answers completed before the window.
    pub completed_in_warmup: u64,
    /// Of `latencies`, completed after it.
    pub completed_late: u64,
    /// Requests under way at the end.
    pub unfinished: u64,
    /// How long they had been, together, nanoseconds.
    pub unfinished_sum: u128,
    /// The oldest, nanoseconds.
    pub unfinished_max: u64,
    /// Requests of a schedule that were never begun.
    pub unsent: Unsent,
    /// Requests of a schedule that waited for a connection.
    pub short_of_connections: u64,
    /// The longest such wait, nanoseconds.
    pub short_longest: u64,
    /// The generator's own.
    pub used: ThreadUse,
    /// Of `used`, spent awake for moments of the schedule.
    pub awake: Duration,
    /// Of its busiest thread.
    pub cpu_share_max: f64,
    /// Of its busiest thread.
    pub busy_share_max: f64,
    /// Completions over time.
    pub series: Grid<Interval>,
    /// The latencies of each second.
    pub slices: Grid<Slice>,
    /// The figures of kinds of requests and of stages.
    pub parts: Parts,
    /// A run was ended early.
    pub interrupted: bool,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            started_unix_us: u64::MAX,
            window: Duration::ZERO,
            latencies: Latencies::default(),
            service: Latencies::default(),
            first_bytes: Latencies::default(),
            connects: Latencies::default(),
            handshakes: Handshakes::default(),
            lag: Latencies::default(),
            turns: Latencies::default(),
            errors: Errors::default(),
            failures: BTreeMap::new(),
            statuses: BTreeMap::new(),
            bytes: Bytes::default(),
            wrong_status: 0,
            wrong_length: 0,
            wrong_content: 0,
            unserved: 0,
            completed_in_warmup: 0,
            completed_late: 0,
            unfinished: 0,
            unfinished_sum: 0,
            unfinished_max: 0,
            unsent: Unsent::default(),
            short_of_connections: 0,
            short_longest: 0,
            used: ThreadUse::default(),
            awake: Duration::ZERO,
            cpu_share_max: 0.0,
            busy_share_max: 0.0,
            series: Grid::empty(INTERVAL, INTERVALS_MAX),
            slices: Grid::empty(SLICE, SLICES_MAX),
            parts: Parts::default(),
            interrupted: false,
        }
    }
}

impl Tally {
    /// Adds another's.
    pub fn add(&mut self, other: &Tally) {
        self.started_unix_us = self.started_unix_us.min(other.started_unix_us);
        self.window = self.window.max(other.window);
        self.latencies.merge(&other.latencies);
        self.service.merge(&other.service);
        self.first_bytes.merge(&other.first_bytes);
        self.connects.merge(&other.connects);
        self.handshakes.merge(&other.handshakes);
        self.lag.merge(&other.lag);
        self.turns.merge(&other.turns);
        self.errors.add(&other.errors);
        for (name, count) in &other.failures {
            *self.failures.entry(name.clone()).or_default() += count;
        }
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        self.bytes.received += other.bytes.received;
        self.bytes.body += other.bytes.body;
        self.bytes.sent += other.bytes.sent;
        self.wrong_status += other.wrong_status;
        self.wrong_length += other.wrong_length;
        self.wrong_content += other.wrong_content;
        self.unserved += other.unserved;
        self.completed_in_warmup += other.completed_in_warmup;
        self.completed_late += other.completed_late;
        self.unfinished += other.unfinished;
        self.unfinished_sum += other.unfinished_sum;
        self.unfinished_max = self.unfinished_max.max(other.unfinished_max);
        self.unsent.count += other.unsent.count;
        self.unsent.oldest = self.unsent.oldest.max(other.unsent.oldest);
        self.short_of_connections += other.short_of_connections;
        self.short_longest = self.short_longest.max(other.short_longest);
        self.used.user += other.used.user;
        self.used.system += other.used.system;
        self.used.waited += other.used.waited;
        self.awake += other.awake;
        self.cpu_share_max = self.cpu_share_max.max(other.cpu_share_max);
        self.busy_share_max = self.busy_share_max.max(other.busy_share_max);
        self.series.merge(&other.series);
        self.slices.merge(&other.slices);
        self.parts.add(&other.parts);
        self.interrupted |= other.interrupted;
    }

    /// The report of these figures. `machines`: where they come from.
    pub fn report(&self, config: Config, machines: Vec<Machine>) -> Report {
        let seconds = self.window.as_secs_f64();
        let completed = self.latencies.count();
        let in_time = completed - self.completed_late;
        let [kinds, stages] = self.parts.report(&config, seconds);
        let mut report = Report {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            schedule: matches!(config.pace, PaceConfig::Open { .. }).then(|| self.kept()),
            config,
            started_unix_us: self.started_unix_us,
            seconds,
            completed,
            completed_with_warmup: completed + self.completed_in_warmup,
            completed_late: self.completed_late,
            requests_per_second: if seconds > 0.0 { in_time as f64 / seconds } else { 0.0 },
            errors: self.errors,
            failures: self.failures.clone(),
            status: classes(&self.statuses),
            statuses: self.statuses.clone(),
            wrong_status: self.wrong_status,
            wrong_length: self.wrong_length,
            wrong_content: self.wrong_content,
            bytes: self.bytes,
            latency_us: Summary::of(&self.latencies),
            histogram: Distribution::of(&self.latencies),
            service_us: Summary::of(&self.service),
            service_histogram: Distribution::of(&self.service),
            first_byte_us: Summary::of(&self.first_bytes),
            first_byte_histogram: Distribution::of(&self.first_bytes),
            connect: Connect { opened: self.connects.count(), latency_us: Summary::of(&self.connects) },
            connect_histogram: Distribution::of(&self.connects),
            tls: self.handshakes.report(),
            unfinished: self.unfinished(),
            unserved_connections: self.unserved,
            lag_histogram: Distribution::of(&self.lag),
            generator: self.generator(),
            turn_histogram: Distribution::of(&self.turns),
            series: series(&self.series),
            slices: Slices::of(&self.slices),
            kinds,
            stages,
            replay: None,
            flags: Vec::new(),
            machines,
        };
        report.flags = flags(&report, &self.lag, self.interrupted);
        report
    }

    /// The figures of a report again.
    ///
    /// # Errors
    /// A sentence, if the report contradicts itself.
    pub fn of_report(report: &Report) -> Result<Tally, String> {
        let of = |distribution: &Option<Distribution>| match distribution {
            Some(distribution) => distribution.latencies(),
            None => Ok(Latencies::default()),
        };
        let latencies = of(&report.histogram)?;
        let contradiction = |what: &str| format!("its figures contradict each other: {what}");
        if latencies.count() != report.completed || report.completed_late > report.completed {
            return Err(contradiction("completed and histogram"));
        }
        let in_warmup = report.completed_with_warmup.checked_sub(report.completed);
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).map_err(|_| contradiction("a time below 0"));
        let kept = report.schedule.unwrap_or_default();
        Ok(Tally {
            started_unix_us: report.started_unix_us,
            window: seconds(report.seconds)?,
            latencies,
            service: of(&report.service_histogram)?,
            first_bytes: of(&report.first_byte_histogram)?,
            connects: of(&report.connect_histogram)?,
            handshakes: report.tls.as_ref().map(Handshakes::of_report).transpose()?.unwrap_or_default(),
            lag: of(&report.lag_histogram)?,
            turns: of(&report.turn_histogram)?,
            errors: report.errors,
            failures: report.failures.clone(),
            statuses: report.statuses.clone(),
            bytes: report.bytes,
            wrong_status: report.wrong_status,
            wrong_length: report.wrong_length,
            wrong_content: report.wrong_content,
            unserved: report.unserved_connections,
            completed_in_warmup: in_warmup.ok_or_else(|| contradiction("completed_with_warmup"))?,
            completed_late: report.completed_late,
            unfinished: report.unfinished.count,
            unfinished_sum: report.unfinished.sum_age_ns,
            unfinished_max: nanoseconds(report.unfinished.max_age_us),
            unsent: Unsent { count: kept.unsent, oldest: nanoseconds(kept.unsent_oldest_us) },
            short_of_connections: kept.short_of_connections,
            short_longest: nanoseconds(kept.short_longest_us),
            used: ThreadUse {
                user: seconds(report.generator.user_s)?,
                system: seconds(report.generator.system_s)?,
                waited: seconds(report.generator.wait_s)?,
            },
            awake: seconds(report.generator.awake_s)?,
            cpu_share_max: report.generator.cpu_share_max_thread,
            busy_share_max: report.generator.busy_share_max_thread,
            series: grid(&report.series).ok_or_else(|| contradiction("series"))?,
            slices: report.slices.grid()?,
            parts: Parts::of_report(report)?,
            interrupted: report.flags.contains(&crate::report::Flag::Interrupted),
        })
    }

    /// Of a schedule, what became of it.
    fn kept(&self) -> Kept {
        Kept {
            begun: self.lag.count(),
            unsent: self.unsent.count,
            unsent_oldest_us: microseconds(self.unsent.oldest),
            lag_us: Summary::of(&self.lag),
            short_of_connections: self.short_of_connections,
            short_longest_us: microseconds(self.short_longest),
        }
    }

    fn unfinished(&self) -> Unfinished {
        Unfinished {
            count: self.unfinished,
            mean_age_us: self.unfinished_sum as f64 / self.unfinished.max(1) as f64 / 1000.0,
            max_age_us: microseconds(self.unfinished_max),
            sum_age_ns: self.unfinished_sum,
        }
    }

    fn generator(&self) -> Generator {
        Generator {
            user_s: self.used.user.as_secs_f64(),
            system_s: self.used.system.as_secs_f64(),
            wait_s: self.used.waited.as_secs_f64(),
            cpu_share_max_thread: millionths(self.cpu_share_max),
            busy_share_max_thread: millionths(self.busy_share_max),
            awake_s: self.awake.as_secs_f64(),
            turn_p99_us: self.turns.histogram.value_at_quantile(0.99) as f64,
            turn_max_us: microseconds(self.turns.max),
            saturated: self.busy_share_max >= SATURATED_SHARE,
        }
    }
}

impl Machine {
    /// What a report says of the machine it is from.
    pub fn of(report: &Report, host: String) -> Machine {
        Machine {
            host,
            started_unix_us: report.started_unix_us,
            seconds: report.seconds,
            completed: report.completed,
            requests_per_second: report.requests_per_second,
            connections: report.config.connections,
            threads: report.config.threads,
            seed: report.config.seed,
            busy_share_max_thread: report.generator.busy_share_max_thread,
            flags: report.flags.clone(),
        }
    }
}

/// A share that is the same after it was written and read.
fn millionths(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}

/// The inverse of [`microseconds`], exact up to three months.
fn nanoseconds(microseconds: f64) -> u64 {
    (microseconds * 1000.0).round() as u64
}

fn series(grid: &Grid<Interval>) -> Series {
    Series {
        interval_ms: grid.width / 1_000_000,
        begins_unix_ms: grid.begins(0) / 1_000_000,
        completed: grid.cells.iter().map(|interval| interval.completed).collect(),
        failed: grid.cells.iter().map(|interval| interval.failed).collect(),
        max_latency_us: grid.cells.iter().map(|interval| interval.longest).collect(),
    }
}

/// `None`: it is no series of ours.
fn grid(series: &Series) -> Option<Grid<Interval>> {
    let Series { interval_ms, begins_unix_ms, completed, failed, max_latency_us } = series;
    if completed.len() != failed.len() || completed.len() != max_latency_us.len() {
        return None;
    }
    let rows = completed.iter().zip(failed).zip(max_latency_us);
    let cells = rows.map(|((completed, failed), longest)| Interval {
        completed: *completed,
        failed: *failed,
        longest: *longest,
    });
    Grid::read(INTERVAL, INTERVALS_MAX, *interval_ms, *begins_unix_ms, cells.collect())
}

/// Counts by status become counts by its first digit.
fn classes(statuses: &BTreeMap<u16, u64>) -> StatusClasses {
    let mut classes = StatusClasses::default();
    for (status, count) in statuses {
        let class = match status / 100 {
            1 => &mut classes.informational,
            2 => &mut classes.success,
            3 => &mut classes.redirection,
            4 => &mut classes.client_error,
            5 => &mut classes.server_error,
            _ => &mut classes.other,
        };
        *class += count;
    }
    classes
}
