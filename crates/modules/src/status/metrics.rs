//! `?metrics`: OpenMetrics text, version 1.0.0, as Prometheus scrapes it.

use std::fmt::{self, Display, Write};

use manifold_engine::status::{ProcessState, Snapshot};

use super::escape::Label;

/// The whole page.
pub(super) fn page(snapshot: &Snapshot) -> String {
    let mut out = String::with_capacity(4096);
    // Writing into a String cannot fail.
    let _ = write_page(&mut Metrics(&mut out), snapshot);
    out
}

fn write_page(out: &mut Metrics<'_>, snapshot: &Snapshot) -> fmt::Result {
    write_server(out, snapshot)?;
    write_totals(out, snapshot)?;
    write_workers(out, snapshot)?;
    write_limits(out, snapshot)?;
    out.0.write_str("# EOF\n")
}

fn write_server(out: &mut Metrics<'_>, snapshot: &Snapshot) -> fmt::Result {
    let server = &snapshot.server;
    out.family("manifold_server", "info", "", "The program that answers.")?;
    writeln!(
        out.0,
        "manifold_server_info{{version=\"{}\",built=\"{}\",mpm=\"{}\"}} 1",
        Label(&server.version),
        Label(&server.built),
        Label(&server.mpm)
    )?;
    let seconds = |milliseconds: u64| milliseconds as f64 / 1000.0;
    let up = snapshot.time_ms.saturating_sub(snapshot.started_ms);
    out.gauge("manifold_uptime_seconds", "seconds", "Time since the server was started.", seconds(up))?;
    let help = "When the server was last started or restarted, since the Unix epoch.";
    out.gauge("manifold_restart_time_seconds", "seconds", help, seconds(snapshot.restarted_ms))?;
    let help = "Configurations read successfully.";
    out.gauge("manifold_config_generation", "", help, snapshot.config_generation)?;
    out.gauge("manifold_mpm_generation", "", "The newest generation of children.", snapshot.mpm_generation)?;
    if let Some(load) = snapshot.load {
        out.family("manifold_load", "gauge", "", "The system's load averages.")?;
        for (minutes, load) in ["1", "5", "15"].into_iter().zip(load) {
            out.sample("manifold_load", "minutes", minutes, load)?;
        }
    }
    Ok(())
}

fn write_totals(out: &mut Metrics<'_>, snapshot: &Snapshot) -> fmt::Result {
    let totals = &snapshot.totals;
    out.counter("manifold_requests", "", "Requests answered.", totals.accesses)?;
    out.counter("manifold_sent_bytes", "bytes", "Bytes of answers, heads included.", totals.bytes)?;
    out.counter("manifold_connections_accepted", "", "Connections accepted.", totals.connections)?;
    let help = "Idle connections closed to make room for new ones.";
    out.counter("manifold_connections_shed", "", help, totals.shed)?;
    let help = "New connections answered with 503 for lack of room.";
    out.counter("manifold_connections_refused", "", help, totals.refused)?;
    if snapshot.extended {
        let help = "Time from complete request heads to the last bytes of their answers.";
        out.counter("manifold_request_duration_seconds", "seconds", help, totals.duration_us as f64 / 1e6)?;
    }
    let (own, gone) = (&snapshot.cpu, &snapshot.cpu_gone);
    out.family("manifold_cpu_seconds", "counter", "seconds", "CPU time of the parent and all children.")?;
    for (mode, spent_ms) in [("user", own.user_ms + gone.user_ms), ("system", own.system_ms + gone.system_ms)] {
        out.sample("manifold_cpu_seconds_total", "mode", mode, spent_ms as f64 / 1000.0)?;
    }
    Ok(())
}

fn write_workers(out: &mut Metrics<'_>, snapshot: &Snapshot) -> fmt::Result {
    let workers = &snapshot.worker_counts;
    out.family("manifold_workers", "gauge", "", "Workers by what they do.")?;
    let states = [
        ("busy", workers.busy),
        ("graceful", workers.graceful),
        ("idle", workers.idle),
        ("starting", workers.starting),
    ];
    states.into_iter().try_for_each(|(state, count)| out.sample("manifold_workers", "state", state, count))?;
    out.family("manifold_scoreboard", "gauge", "", "Worker slots by the letter of the scoreboard key.")?;
    for letter in ['_', 'S', 'R', 'W', 'K', 'D', 'C', 'L', 'G', 'I', '.'] {
        let count = snapshot.scoreboard.chars().filter(|found| *found == letter).count();
        out.sample("manifold_scoreboard", "letter", letter, count)?;
    }
    let connections = &snapshot.connections;
    let waiting = [
        ("keep_alive", connections.keep_alive),
        ("wait_io", connections.wait_io),
        ("writing", connections.writing),
        ("lingering", connections.lingering),
    ];
    let parked: u64 = waiting.iter().map(|(_, count)| count).sum();
    out.family("manifold_connections", "gauge", "", "Open connections; those that are in work hold a worker.")?;
    out.sample("manifold_connections", "state", "in_work", connections.open.saturating_sub(parked))?;
    waiting.into_iter().try_for_each(|(state, count)| out.sample("manifold_connections", "state", state, count))?;
    out.family("manifold_processes", "gauge", "", "Processes by where they are in their lives.")?;
    let states = [
        ("starting", ProcessState::Starting),
        ("running", ProcessState::Running),
        ("quiescing", ProcessState::Quiescing),
    ];
    for (name, state) in states {
        let count = snapshot.processes.iter().filter(|process| process.state == state).count();
        out.sample("manifold_processes", "state", name, count)?;
    }
    let draining = snapshot.generations.iter().filter(|generation| generation.draining).count();
    out.gauge("manifold_draining_generations", "", "Generations that were replaced and have processes left.", draining)
}

fn write_limits(out: &mut Metrics<'_>, snapshot: &Snapshot) -> fmt::Result {
    let limits = &snapshot.limits;
    let help = "MaxRequestWorkers; in percore the cores.";
    out.gauge("manifold_max_request_workers", "", help, limits.max_request_workers)?;
    if limits.max_connections > 0 {
        out.gauge("manifold_max_connections", "", "Connections that a process admits.", limits.max_connections)?;
    }
    Ok(())
}

/// Writes metric families. A family's name ends with its unit, where it has one.
struct Metrics<'a>(&'a mut String);

impl Metrics<'_> {
    fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) -> fmt::Result {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
        if unit.is_empty() { Ok(()) } else { writeln!(self.0, "# UNIT {name} {unit}") }
    }

    fn sample(&mut self, name: &str, label: &str, value: impl Display, number: impl Display) -> fmt::Result {
        writeln!(self.0, "{name}{{{label}=\"{value}\"}} {number}")
    }

    fn gauge(&mut self, name: &str, unit: &str, help: &str, number: impl Display) -> fmt::Result {
        self.family(name, "gauge", unit, help)?;
        writeln!(self.0, "{name} {number}")
    }

    fn counter(&mut self, name: &str, unit: &str, help: &str, number: impl Display) -> fmt::Result {
        self.family(name, "counter", unit, help)?;
        writeln!(self.0, "{name}_total {number}")
    }
}
