//! What a study can show and claim: one row a metric, with its name in files, its unit and how it comes out of a cell.

use serde::{Deserialize, Serialize};

use super::results::StudyCell;
use crate::plot::Axis;
use crate::text;

/// A figure of a cell.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Seconds from the first request to the last answer.
    TimeTaken,
    /// Answers a second.
    RequestsPerSecond,
    /// KiB received a second, heads included, as ab counts them.
    TransferRate,
    /// Requests without a right answer.
    Failed,
    /// Mean time to connect.
    ConnectMean,
    /// Longest time to connect.
    ConnectLongest,
    /// Mean latency, connecting included.
    Mean,
    /// Standard deviation of latency.
    Deviation,
    /// Percentiles of latency, as ab prints them.
    P50,
    /// See [`P50`](Self::P50).
    P66,
    /// See [`P50`](Self::P50).
    P75,
    /// See [`P50`](Self::P50).
    P80,
    /// See [`P50`](Self::P50).
    P90,
    /// See [`P50`](Self::P50).
    P95,
    /// See [`P50`](Self::P50).
    P98,
    /// See [`P50`](Self::P50).
    P99,
    /// Longest latency.
    Longest,
    /// CPU time of the server in the time taken, in percent of one processor.
    CpuPercent,
    /// CPU time of the server a request.
    CpuPerRequest,
    /// Memory of the server when the load had ended: PSS of all its processes.
    Memory,
    /// Processes of the server when the load had ended.
    Processes,
    /// Its threads.
    Threads,
    /// How often its threads were put on a processor, a request.
    Switches,
    /// How long they were ready and had no processor, a request.
    RunQueue,
    /// What it had read from disks.
    DiskRead,
    /// What it wrote to disks.
    DiskWritten,
    /// TCP segments sent again, of the whole machine.
    Retransmitted,
    /// Connections that found a backlog full, of the whole machine.
    Overflows,
    /// The most slow clients beside which a normal one is still answered within a second, of the numbers that were tried.
    Held,
    /// Private memory for each idle connection that stood.
    MemoryEach,
    /// Idle connections that stood.
    Stood,
    /// Requests lost while the server was reloaded.
    Lost,
    /// The share of requests that were answered meanwhile.
    Answered,
    /// The highest rate at which the condition of a search holds.
    HighestRate,
}

/// How a metric's numbers are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// A number a second, or of requests.
    Number,
    /// Milliseconds.
    Millis,
    /// Percent.
    Percent,
    /// Microseconds.
    Micros,
    /// MiB.
    Mib,
    /// KiB.
    Kib,
}

/// Which percentile each metric is, and its place in [`StudyCell::percentiles_ms`].
pub const PERCENTILES: [(Metric, f64); 8] = [
    (Metric::P50, 0.50),
    (Metric::P66, 0.66),
    (Metric::P75, 0.75),
    (Metric::P80, 0.80),
    (Metric::P90, 0.90),
    (Metric::P95, 0.95),
    (Metric::P98, 0.98),
    (Metric::P99, 0.99),
];

impl Metric {
    /// For a heading.
    pub fn title(self) -> &'static str {
        match self {
            Metric::TimeTaken => "Time taken",
            Metric::RequestsPerSecond => "Requests a second",
            Metric::TransferRate => "Transfer rate",
            Metric::Failed => "Failed requests",
            Metric::ConnectMean => "Connect, mean",
            Metric::ConnectLongest => "Connect, longest",
            Metric::Mean => "Latency, mean",
            Metric::Deviation => "Latency, standard deviation",
            Metric::P50 => "Latency, 50 %",
            Metric::P66 => "Latency, 66 %",
            Metric::P75 => "Latency, 75 %",
            Metric::P80 => "Latency, 80 %",
            Metric::P90 => "Latency, 90 %",
            Metric::P95 => "Latency, 95 %",
            Metric::P98 => "Latency, 98 %",
            Metric::P99 => "Latency, 99 %",
            Metric::Longest => "Latency, longest",
            Metric::CpuPercent => "CPU of one processor",
            Metric::CpuPerRequest => "CPU a request",
            Metric::Memory => "Memory",
            Metric::Processes => "Processes",
            Metric::Threads => "Threads",
            Metric::Switches => "Switches a request",
            Metric::RunQueue => "Wait for a processor a request",
            Metric::DiskRead => "Read from disk",
            Metric::DiskWritten => "Written to disk",
            Metric::Retransmitted => "Segments sent again",
            Metric::Overflows => "Backlog overflows",
            Metric::Held => "Slow clients held",
            Metric::MemoryEach => "Memory of an idle connection",
            Metric::Stood => "Idle connections that stood",
            Metric::Lost => "Requests lost",
            Metric::Answered => "Requests answered",
            Metric::HighestRate => "Highest rate, requests a second",
        }
    }

    /// How it is written.
    pub fn unit(self) -> Unit {
        match self {
            Metric::TimeTaken => Unit::Seconds,
            Metric::RequestsPerSecond | Metric::TransferRate | Metric::Switches => Unit::Number,
            _ if self.is_counted() => Unit::Number,
            Metric::HighestRate => Unit::Number,
            Metric::MemoryEach => Unit::Kib,
            Metric::CpuPercent | Metric::Answered => Unit::Percent,
            Metric::CpuPerRequest | Metric::RunQueue => Unit::Micros,
            Metric::Memory | Metric::DiskRead | Metric::DiskWritten => Unit::Mib,
            _ => Unit::Millis,
        }
    }

    /// Whole numbers, written to the last digit.
    fn is_counted(self) -> bool {
        use Metric::{Failed, Held, Lost, Overflows, Processes, Retransmitted, Stood, Threads};
        matches!(self, Failed | Held | Lost | Overflows | Processes | Retransmitted | Stood | Threads)
    }

    /// What only looking at the server's processes tells.
    fn is_the_servers(self) -> bool {
        use Metric::{DiskRead, DiskWritten, Overflows, Processes, Retransmitted, RunQueue, Switches, Threads};
        matches!(self, DiskRead | DiskWritten | Overflows | Processes | Retransmitted | RunQueue | Switches | Threads)
    }

    /// Title and unit, for the head of a row.
    pub fn heading(self) -> String {
        let unit = match self.unit() {
            Unit::Seconds => ", s",
            Unit::Number if self == Metric::TransferRate => ", KiB/s",
            Unit::Number => "",
            Unit::Millis => ", ms",
            Unit::Percent => ", %",
            Unit::Micros => ", µs",
            Unit::Mib => ", MiB",
            Unit::Kib => ", KiB",
        };
        format!("{}{unit}", self.title())
    }

    /// A value in its unit, without the unit's name.
    pub fn text(self, value: f64) -> String {
        match self.unit() {
            Unit::Seconds if value < 1.0 => format!("{value:.3}"),
            _ if self.is_counted() => text::grouped(value.round() as i64),
            // The last digits are what it is about.
            _ if self == Metric::Answered => format!("{value:.3}"),
            _ => text::number(value),
        }
    }

    /// How a plot of it is scaled, and what a value must be multiplied by for it.
    pub fn axis(self) -> (Axis, f64) {
        match self.unit() {
            Unit::Seconds => (Axis::Micros, 1e6),
            Unit::Millis => (Axis::Micros, 1e3),
            Unit::Micros => (Axis::Micros, 1.0),
            Unit::Mib => (Axis::Mib, 1.0),
            Unit::Number | Unit::Percent | Unit::Kib => (Axis::Count, 1.0),
        }
    }

    /// The cell's value; `None` where it has none, or where its answers were not the page.
    pub fn of(self, seen: &StudyCell) -> Option<f64> {
        let cell = &seen.cell;
        if !seen.special.is_empty() {
            return seen.special.get(&self).copied();
        }
        match self {
            Metric::Failed if seen.held.is_none() => return Some(seen.failed as f64),
            Metric::Held => return seen.held.map(f64::from),
            _ if !cell.usable() || (self.is_the_servers() && cell.is_unwatched()) => return None,
            _ => {}
        }
        let latency = |of: fn(&crate::results::Latency) -> f64| cell.latency_us.as_ref().map(|l| of(l) / 1000.0);
        let a_request = |all: f64| (cell.worked_on > 0).then(|| all / cell.worked_on as f64);
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        match self {
            Metric::TimeTaken => Some(cell.seconds),
            Metric::RequestsPerSecond => Some(cell.requests_per_second),
            Metric::TransferRate => Some(seen.received_bytes as f64 / 1024.0 / cell.seconds),
            Metric::ConnectMean => seen.connect_ms.map(|connect| connect.mean),
            Metric::ConnectLongest => seen.connect_ms.map(|connect| connect.longest),
            Metric::Mean => latency(|l| l.mean),
            Metric::Deviation => seen.deviation_ms,
            Metric::Longest => latency(|l| l.max),
            Metric::CpuPercent => (cell.cpu_s > 0.0).then(|| cell.cpu_s / cell.seconds * 100.0),
            Metric::CpuPerRequest => (cell.cpu_s > 0.0).then(|| a_request(cell.cpu_s * 1e6)).flatten(),
            Metric::Processes => Some(f64::from(cell.processes)),
            Metric::Threads => Some(f64::from(cell.threads)),
            Metric::Switches => a_request(cell.kernel.switches as f64),
            Metric::RunQueue => a_request(cell.kernel.waited_s * 1e6),
            Metric::DiskRead => Some(mib(cell.kernel.disk_read)),
            Metric::DiskWritten => Some(mib(cell.kernel.disk_written)),
            Metric::Retransmitted => Some(cell.kernel.retransmitted as f64),
            Metric::Overflows => Some(cell.kernel.overflows as f64),
            Metric::Memory => cell.pss_kib.map(|kib| kib as f64 / 1024.0),
            // Those above, and percentiles.
            percentile => {
                let place = PERCENTILES.iter().position(|(metric, _)| *metric == percentile)?;
                seen.percentiles_ms.get(place).copied()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::results::Connecting;
    use super::*;
    use crate::results::{Cell, Latency, Mark};
    use crate::sampler::account::Kernel;

    fn cell() -> StudyCell {
        let latency_us = Some(Latency { mean: 2000.0, p50: 1500.0, p90: 3000.0, p99: 9000.0, max: 12_000.0 });
        let kernel = Kernel {
            switches: 250,
            waited_s: 0.04,
            disk_read: 1 << 20,
            disk_written: 1 << 19,
            retransmitted: 6,
            overflows: 5,
        };
        StudyCell {
            load: 0,
            cell: Cell {
                seconds: 2.0,
                completed: 100,
                worked_on: 100,
                requests_per_second: 50.0,
                cpu_s: 0.5,
                pss_kib: Some(2048),
                processes: 3,
                threads: 75,
                kernel,
                latency_us,
                ..Cell::default()
            },
            failed: 3,
            received_bytes: 4096,
            connect_ms: Some(Connecting { mean: 0.5, longest: 7.0 }),
            deviation_ms: Some(1.25),
            held: Some(400),
            special: BTreeMap::new(),
            percentiles_ms: vec![1.5, 1.6, 1.7, 1.8, 3.0, 5.0, 8.0, 9.0],
        }
    }

    #[test]
    fn every_metric_comes_out_of_a_cell() {
        for (metric, expected, heading) in [
            (Metric::TimeTaken, 2.0, "Time taken, s"),
            (Metric::RequestsPerSecond, 50.0, "Requests a second"),
            (Metric::TransferRate, 2.0, "Transfer rate, KiB/s"),
            (Metric::ConnectMean, 0.5, "Connect, mean, ms"),
            (Metric::ConnectLongest, 7.0, "Connect, longest, ms"),
            (Metric::Mean, 2.0, "Latency, mean, ms"),
            (Metric::Deviation, 1.25, "Latency, standard deviation, ms"),
            (Metric::P50, 1.5, "Latency, 50 %, ms"),
            (Metric::P98, 8.0, "Latency, 98 %, ms"),
            (Metric::P99, 9.0, "Latency, 99 %, ms"),
            (Metric::Longest, 12.0, "Latency, longest, ms"),
            (Metric::CpuPercent, 25.0, "CPU of one processor, %"),
            (Metric::CpuPerRequest, 5000.0, "CPU a request, µs"),
            (Metric::Memory, 2.0, "Memory, MiB"),
            (Metric::Processes, 3.0, "Processes"),
            (Metric::Threads, 75.0, "Threads"),
            (Metric::Switches, 2.5, "Switches a request"),
            (Metric::RunQueue, 400.0, "Wait for a processor a request, µs"),
            (Metric::DiskRead, 1.0, "Read from disk, MiB"),
            (Metric::DiskWritten, 0.5, "Written to disk, MiB"),
            (Metric::Retransmitted, 6.0, "Segments sent again"),
            (Metric::Overflows, 5.0, "Backlog overflows"),
            (Metric::Held, 400.0, "Slow clients held"),
        ] {
            assert_eq!(metric.of(&cell()), Some(expected), "{metric:?}");
            assert_eq!(metric.heading(), heading);
        }
    }

    /// Zero is a value there as any other.
    #[test]
    fn loads_that_do_not_ask_alone_have_figures_of_their_own() {
        let seen = StudyCell::special(0, Cell::default(), [(Metric::Lost, 0.0), (Metric::Answered, 100.0)]);
        assert_eq!([Metric::Lost, Metric::Answered].map(|metric| metric.of(&seen)), [Some(0.0), Some(100.0)]);
        assert_eq!([Metric::Failed, Metric::P50, Metric::Held].map(|metric| metric.of(&seen)), [None; 3]);
    }

    #[test]
    fn values_are_written_as_exactly_as_they_matter() {
        for (metric, value, expected) in [
            (Metric::TimeTaken, 0.0123, "0.012"),
            (Metric::TimeTaken, 478.18, "478"),
            (Metric::Failed, 4.0, "4"),
            (Metric::P50, 0.123, "0.12"),
            (Metric::Answered, 99.9987, "99.999"),
        ] {
            assert_eq!(metric.text(value), expected);
        }
    }

    #[test]
    fn wrong_answers_leave_nothing_but_their_number() {
        let mut seen = cell();
        seen.cell.marks = vec![Mark::WrongLength];
        seen.held = None;
        assert_eq!((Metric::P50.of(&seen), Metric::Failed.of(&seen)), (None, Some(3.0)));
    }
}
