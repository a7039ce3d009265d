//! `?auto`: the form that monitoring tools read. Names, order and number formats are Apache's, byte for byte.

use std::fmt::{self, Write};

use jiff::tz::TimeZone;
use manifold_engine::status::{ProcessState, Snapshot};

use super::number::{general, time_of_day, uptime};

/// Significant digits of C's `%g`.
const DIGITS: usize = 6;

/// The whole page.
pub(super) fn page(snapshot: &Snapshot, host: &str, zone: &TimeZone) -> String {
    let mut out = String::with_capacity(1024 + snapshot.scoreboard.len());
    // Writing into a String cannot fail.
    let _ = write_page(&mut out, snapshot, host, zone);
    out
}

fn write_page(out: &mut String, snapshot: &Snapshot, host: &str, zone: &TimeZone) -> fmt::Result {
    let up = Uptime::of(snapshot);
    writeln!(out, "{host}\nServerVersion: {}", snapshot.server.version)?;
    writeln!(out, "ServerMPM: {}", snapshot.server.mpm)?;
    writeln!(out, "Server Built: {}", snapshot.server.built)?;
    writeln!(out, "CurrentTime: {}", time_of_day(snapshot.time_ms, zone))?;
    writeln!(out, "RestartTime: {}", time_of_day(snapshot.restarted_ms, zone))?;
    writeln!(out, "ParentServerConfigGeneration: {}", snapshot.config_generation)?;
    writeln!(out, "ParentServerMPMGeneration: {}", snapshot.mpm_generation)?;
    writeln!(out, "ServerUptimeSeconds: {}", up.0)?;
    writeln!(out, "ServerUptime:{}", uptime(up.0))?;
    // Apache writes -1.00 where the system does not tell.
    let [one, five, fifteen] = snapshot.load.unwrap_or([-1.0; 3]);
    writeln!(out, "Load1: {one:.2}\nLoad5: {five:.2}\nLoad15: {fifteen:.2}")?;
    if snapshot.extended {
        write_totals(out, snapshot, up)?;
    }
    let workers = &snapshot.worker_counts;
    writeln!(out, "BusyWorkers: {}", workers.busy)?;
    writeln!(out, "GracefulWorkers: {}", workers.graceful)?;
    writeln!(out, "IdleWorkers: {}", workers.idle)?;
    if is_async(snapshot) {
        let connections = &snapshot.connections;
        writeln!(out, "Processes: {}\nStopping: {}", snapshot.processes.len(), stopping(snapshot))?;
        writeln!(out, "ConnsTotal: {}", connections.open)?;
        writeln!(out, "ConnsAsyncWaitIO: {}", connections.wait_io)?;
        writeln!(out, "ConnsAsyncWriting: {}", connections.writing)?;
        writeln!(out, "ConnsAsyncKeepAlive: {}", connections.keep_alive)?;
        writeln!(out, "ConnsAsyncClosing: {}", connections.lingering)?;
    }
    writeln!(out, "Scoreboard: {}", snapshot.scoreboard)
}

fn write_totals(out: &mut String, snapshot: &Snapshot, up: Uptime) -> fmt::Result {
    let kilobytes = snapshot.totals.bytes / 1024;
    let accesses = snapshot.totals.accesses;
    let duration_ms = snapshot.totals.duration_us / 1000;
    writeln!(out, "Total Accesses: {accesses}\nTotal kBytes: {kilobytes}\nTotal Duration: {duration_ms}")?;
    let seconds = |milliseconds: u64| general(f64::from(milliseconds as f32 / 1000.0), DIGITS);
    let (own, gone) = (&snapshot.cpu, &snapshot.cpu_gone);
    writeln!(out, "CPUUser: {}\nCPUSystem: {}", seconds(own.user_ms), seconds(own.system_ms))?;
    writeln!(out, "CPUChildrenUser: {}\nCPUChildrenSystem: {}", seconds(gone.user_ms), seconds(gone.system_ms))?;
    if let Some(load) = up.cpu_load(snapshot) {
        writeln!(out, "CPULoad: {}", general(load, DIGITS))?;
    }
    writeln!(out, "Uptime: {}", up.0)?;
    if up.0 > 0 {
        writeln!(out, "ReqPerSec: {}", general(up.requests_a_second(snapshot), DIGITS))?;
        writeln!(out, "BytesPerSec: {}", general(up.bytes_a_second(snapshot), DIGITS))?;
    }
    if accesses > 0 {
        writeln!(out, "BytesPerReq: {}", general(bytes_a_request(snapshot), DIGITS))?;
        writeln!(out, "DurationPerReq: {}", general(milliseconds_a_request(snapshot), DIGITS))?;
    }
    Ok(())
}

/// Seconds since the server was started, from which on totals count.
#[derive(Clone, Copy)]
pub(super) struct Uptime(pub u64);

/// Means since the start, in the precision that Apache computes with.
impl Uptime {
    pub(super) fn of(snapshot: &Snapshot) -> Uptime {
        Uptime(snapshot.time_ms.saturating_sub(snapshot.started_ms) / 1000)
    }

    pub(super) fn requests_a_second(self, snapshot: &Snapshot) -> f64 {
        f64::from(snapshot.totals.accesses as f32 / self.0 as f32)
    }

    pub(super) fn bytes_a_second(self, snapshot: &Snapshot) -> f64 {
        f64::from(1024.0 * (snapshot.totals.bytes / 1024) as f32 / self.0 as f32)
    }

    /// In percent of one processor; `None` where no time was spent.
    pub(super) fn cpu_load(self, snapshot: &Snapshot) -> Option<f64> {
        let (own, gone) = (&snapshot.cpu, &snapshot.cpu_gone);
        let spent_ms = own.user_ms + own.system_ms + gone.user_ms + gone.system_ms;
        (spent_ms > 0 && self.0 > 0).then(|| spent_ms as f64 / 10.0 / self.0 as f64)
    }
}

pub(super) fn bytes_a_request(snapshot: &Snapshot) -> f64 {
    f64::from(1024.0 * (snapshot.totals.bytes / 1024) as f32 / snapshot.totals.accesses as f32)
}

pub(super) fn milliseconds_a_request(snapshot: &Snapshot) -> f64 {
    f64::from((snapshot.totals.duration_us / 1000) as f32 / snapshot.totals.accesses as f32)
}

/// Whether connections may wait without a worker, and are worth a table.
pub(super) fn is_async(snapshot: &Snapshot) -> bool {
    matches!(snapshot.server.mpm.as_str(), "event" | "percore")
}

/// Processes that were asked to end.
pub(super) fn stopping(snapshot: &Snapshot) -> usize {
    snapshot.processes.iter().filter(|process| process.state == ProcessState::Quiescing).count()
}
