//! The page for people, under Apache's headings.

use std::fmt::{self, Write};

use jiff::tz::TimeZone;
use manifold_engine::status::{Cpu, Process, ProcessState, Snapshot, Step, Worker};

use super::auto::{Uptime, bytes_a_request, is_async, milliseconds_a_request, stopping};
use super::escape::Html;
use super::number::{bytes, general, kilobytes, part, time_of_day, uptime};

/// Letters in a row of the scoreboard.
const ROW: usize = 64;
/// States in a row of the list of processes.
const STATES: usize = 3;

const KEY: &str = "\
<p>Scoreboard Key:<br />\n\
\"<b><code>_</code></b>\" Waiting for Connection, \n\
\"<b><code>S</code></b>\" Starting up, \n\
\"<b><code>R</code></b>\" Reading Request,<br />\n\
\"<b><code>W</code></b>\" Sending Reply, \n\
\"<b><code>K</code></b>\" Keepalive (read), \n\
\"<b><code>D</code></b>\" DNS Lookup,<br />\n\
\"<b><code>C</code></b>\" Closing connection, \n\
\"<b><code>L</code></b>\" Logging, \n\
\"<b><code>G</code></b>\" Gracefully finishing,<br /> \n\
\"<b><code>I</code></b>\" Idle cleanup of worker, \n\
\"<b><code>.</code></b>\" Open slot with no current process<br />\n\
</p>\n\
";

const ASYNC_HEAD: &str = "
<table rules=\"all\" cellpadding=\"1%\">
<tr><th rowspan=\"2\">Slot</th><th rowspan=\"2\">PID</th><th rowspan=\"2\">Stopping</th><th colspan=\"2\">Connections</th>
<th colspan=\"3\">Threads</th><th colspan=\"4\">Async connections</th></tr>
<tr><th>total</th><th>accepting</th><th>busy</th><th>graceful</th><th>idle</th><th>wait-io</th><th>writing</th>\
<th>keep-alive</th><th>closing</th></tr>
";

const TABLE_HEAD: &str = "\n
<table border=\"0\"><tr><th>Srv</th><th>PID</th><th>Acc</th><th>M</th><th>CPU
</th><th>SS</th><th>Req</th><th>Dur</th><th>Conn</th><th>Child</th><th>Slot</th><th>Client</th><th>Protocol</th>\
<th>VHost</th><th>Request</th></tr>\n
";

const TABLE_KEY: &str = "\
</table>
 <hr /> <table>
 <tr><th>Srv</th><td>Child Server number - generation</td></tr>
 <tr><th>PID</th><td>OS process ID</td></tr>
 <tr><th>Acc</th><td>Number of accesses this connection / this child / this slot</td></tr>
 <tr><th>M</th><td>Mode of operation</td></tr>
<tr><th>CPU</th><td>CPU usage, number of seconds</td></tr>
<tr><th>SS</th><td>Seconds since beginning of most recent request</td></tr>
 <tr><th>Req</th><td>Milliseconds required to process most recent request</td></tr>
 <tr><th>Dur</th><td>Sum of milliseconds required to process all requests</td></tr>
 <tr><th>Conn</th><td>Kilobytes transferred this connection</td></tr>
 <tr><th>Child</th><td>Megabytes transferred this child</td></tr>
 <tr><th>Slot</th><td>Total megabytes transferred this slot</td></tr>
 </table>
";

/// The whole page.
pub(super) fn page(snapshot: &Snapshot, no_table: bool, host: &str, zone: &TimeZone) -> String {
    let mut out = String::with_capacity(4096 + 512 * snapshot.workers.len());
    // Writing into a String cannot fail.
    let _ = write_page(&mut out, snapshot, no_table, host, zone);
    out
}

fn write_page(out: &mut String, snapshot: &Snapshot, no_table: bool, host: &str, zone: &TimeZone) -> fmt::Result {
    write_head(out, snapshot, host, zone)?;
    if is_async(snapshot) {
        write_async_table(out, snapshot)?;
    }
    out.push_str("<pre>");
    for (place, letter) in snapshot.scoreboard.chars().enumerate() {
        out.push(letter);
        if place % ROW == ROW - 1 {
            out.push('\n');
        }
    }
    out.push_str("</pre>\n");
    out.push_str(KEY);
    if !snapshot.extended {
        write_states(out, snapshot)?;
    } else if no_table {
        out.push_str("<hr /><h2>Server Details</h2>\n\n");
        shown(snapshot).try_for_each(|worker| write_paragraph(out, snapshot, worker))?;
    } else {
        out.push_str(TABLE_HEAD);
        shown(snapshot).try_for_each(|worker| write_row(out, snapshot, worker))?;
        out.push_str(TABLE_KEY);
    }
    out.push_str("</body></html>\n");
    Ok(())
}

fn write_head(out: &mut String, snapshot: &Snapshot, host: &str, zone: &TimeZone) -> fmt::Result {
    let up = Uptime::of(snapshot);
    out.push_str("<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n");
    writeln!(out, "<html><head>\n<title>Manifold Status</title>\n</head><body>")?;
    writeln!(out, "<h1>Manifold Server Status for {}</h1>\n", Html(host))?;
    writeln!(out, "<dl><dt>Server Version: {}</dt>", Html(&snapshot.server.version))?;
    writeln!(out, "<dt>Server MPM: {}</dt>", Html(&snapshot.server.mpm))?;
    writeln!(out, "<dt>Server Built: {}\n</dt></dl><hr /><dl>", Html(&snapshot.server.built))?;
    writeln!(out, "<dt>Current Time: {}</dt>", Html(&time_of_day(snapshot.time_ms, zone)))?;
    writeln!(out, "<dt>Restart Time: {}</dt>", Html(&time_of_day(snapshot.restarted_ms, zone)))?;
    writeln!(out, "<dt>Parent Server Config. Generation: {}</dt>", snapshot.config_generation)?;
    writeln!(out, "<dt>Parent Server MPM Generation: {}</dt>", snapshot.mpm_generation)?;
    writeln!(out, "<dt>Server uptime: {}</dt>", uptime(up.0))?;
    let [one, five, fifteen] = snapshot.load.unwrap_or([-1.0; 3]);
    writeln!(out, "<dt>Server load: {one:.2} {five:.2} {fifteen:.2}</dt>")?;
    if snapshot.extended {
        write_totals(out, snapshot, up)?;
    }
    let workers = &snapshot.worker_counts;
    write!(out, "<dt>{} requests currently being processed, ", workers.busy)?;
    write!(out, "{} workers gracefully restarting, {} idle workers</dt>\n</dl>", workers.graceful, workers.idle)?;
    if is_async(snapshot) {
        out.push('\n');
    }
    Ok(())
}

fn write_totals(out: &mut String, snapshot: &Snapshot, up: Uptime) -> fmt::Result {
    let totals = &snapshot.totals;
    let traffic = kilobytes(totals.bytes / 1024);
    let duration_ms = totals.duration_us / 1000;
    writeln!(
        out,
        "<dt>Total accesses: {} - Total Traffic: {traffic} - Total Duration: {duration_ms}</dt>",
        totals.accesses
    )?;
    let cpu = four_times(&snapshot.cpu, &snapshot.cpu_gone);
    write!(out, "<dt>CPU Usage: {cpu}")?;
    if let Some(load) = up.cpu_load(snapshot) {
        write!(out, " - {}% CPU load", general(load, 3))?;
    }
    out.push_str("</dt>\n<dt>");
    if up.0 > 0 {
        let (requests, sent) = (up.requests_a_second(snapshot), up.bytes_a_second(snapshot));
        write!(out, "{} requests/sec - {}/second", general(requests, 3), bytes(sent as u64))?;
    }
    if totals.accesses > 0 {
        let separator = if up.0 > 0 { " - " } else { "" };
        let (size, duration) = (bytes_a_request(snapshot), milliseconds_a_request(snapshot));
        write!(out, "{separator}{}/request - {} ms/request", bytes(size as u64), general(duration, 6))?;
    }
    out.push_str("</dt>\n");
    Ok(())
}

/// User and system time of those that run, and of those that are gone, in seconds.
fn four_times(own: &Cpu, gone: &Cpu) -> String {
    let seconds = |milliseconds: u64| general(f64::from(milliseconds as f32 / 1000.0), 6);
    let (user, system) = (seconds(own.user_ms), seconds(own.system_ms));
    format!("u{user} s{system} cu{} cs{}", seconds(gone.user_ms), seconds(gone.system_ms))
}

fn write_async_table(out: &mut String, snapshot: &Snapshot) -> fmt::Result {
    out.push_str(ASYNC_HEAD);
    for process in &snapshot.processes {
        let accepting = if process.accepting { "yes" } else { "no" };
        write!(out, "<tr><td>{}</td><td>{}</td><td>", process.slot, process.pid)?;
        write!(out, "{}</td><td>{}</td><td>{accepting}</td>", leaving(snapshot, process), process.connections.open)?;
        let (workers, waiting) = (&process.workers, &process.connections);
        write!(out, "<td>{}</td><td>{}</td><td>{}</td>", workers.busy, workers.graceful, workers.idle)?;
        write!(out, "<td>{}</td><td>{}</td>", waiting.wait_io, waiting.writing)?;
        writeln!(out, "<td>{}</td><td>{}</td></tr>", waiting.keep_alive, waiting.lingering)?;
    }
    let (workers, waiting) = (&snapshot.worker_counts, &snapshot.connections);
    write!(out, "<tr><td>Sum</td><td>{}</td><td>{}</td>", snapshot.processes.len(), stopping(snapshot))?;
    write!(out, "<td>{}</td><td>&nbsp;</td>", waiting.open)?;
    write!(out, "<td>{}</td><td>{}</td><td>{}</td>", workers.busy, workers.graceful, workers.idle)?;
    write!(out, "<td>{}</td><td>{}</td>", waiting.wait_io, waiting.writing)?;
    writeln!(out, "<td>{}</td><td>{}</td></tr>\n</table>", waiting.keep_alive, waiting.lingering)
}

fn leaving(snapshot: &Snapshot, process: &Process) -> &'static str {
    match process.state {
        ProcessState::Quiescing if process.generation < snapshot.mpm_generation => "yes (old gen)",
        ProcessState::Quiescing => "yes",
        ProcessState::Starting | ProcessState::Running => "no",
    }
}

/// Without `ExtendedStatus` there is little to tell of a worker.
fn write_states(out: &mut String, snapshot: &Snapshot) -> fmt::Result {
    out.push_str("PID Key: <br />\n<pre>\n");
    let alive = snapshot.workers.iter().filter_map(|worker| Some((worker.pid?, worker.status.0)));
    for (place, (pid, letter)) in alive.enumerate() {
        let end = if place % STATES == STATES - 1 { '\n' } else { ',' };
        write!(out, "   {pid} in state: {letter} {end}")?;
    }
    out.push_str("\n</pre>\n<hr />To obtain a full report with current status information you need to use the ");
    out.push_str("<code>ExtendedStatus On</code> directive.\n");
    Ok(())
}

/// Workers that have something to show, as in Apache.
fn shown(snapshot: &Snapshot) -> impl Iterator<Item = &Worker> {
    let idle = |worker: &Worker| matches!(worker.phase, Step::Idle | Step::Dead);
    snapshot.workers.iter().filter(move |worker| worker.accesses.slot > 0 || !idle(worker))
}

/// Seconds since the request began.
fn age(snapshot: &Snapshot, worker: &Worker) -> u64 {
    let since = if worker.began_ms == 0 { worker.last_used_ms } else { worker.began_ms };
    if since == 0 { 0 } else { snapshot.time_ms.saturating_sub(since) / 1000 }
}

fn write_row(out: &mut String, snapshot: &Snapshot, worker: &Worker) -> fmt::Result {
    let (accesses, sent) = (&worker.accesses, &worker.bytes);
    write!(out, "<tr><td><b>{}-{}</b></td><td>", worker.process, worker.generation)?;
    match worker.pid {
        Some(pid) => write!(out, "{pid}")?,
        None => out.push('-'),
    }
    write!(out, "</td><td>{}/{}/{}</td><td>", accesses.connection, accesses.process, accesses.slot)?;
    match worker.status.0 {
        letter @ ('_' | '.' | 'G' | 'I') => out.push(letter),
        letter => write!(out, "<b>{letter}</b>")?,
    }
    let cpu = worker.cpu.unwrap_or_default();
    write!(out, "\n</td><td>{:.2}</td>", (cpu.user_ms + cpu.system_ms) as f64 / 1000.0)?;
    write!(out, "<td>{}</td><td>{}</td>", age(snapshot, worker), worker.last_duration_us / 1000)?;
    write!(out, "<td>{}</td><td>{:.1}</td>", worker.duration_us / 1000, part(sent.connection, 1024))?;
    writeln!(out, "<td>{:.2}</td><td>{:.2}", part(sent.process, 1 << 20), part(sent.slot, 1 << 20))?;
    write!(out, "</td><td>{}</td><td>{}</td>", Html(&worker.client), Html(&worker.protocol))?;
    write!(out, "<td nowrap>{}</td>", Html(&worker.vhost))?;
    writeln!(out, "<td nowrap>{}</td></tr>\n", Html(&worker.request))
}

fn write_paragraph(out: &mut String, snapshot: &Snapshot, worker: &Worker) -> fmt::Result {
    let (accesses, sent) = (&worker.accesses, &worker.bytes);
    let pid = worker.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
    write!(out, "<b>Server {}-{}</b> ({pid}): ", worker.process, worker.generation)?;
    let mode = mode(worker.status.0);
    write!(out, "{}|{}|{} [{mode}] ", accesses.connection, accesses.process, accesses.slot)?;
    writeln!(out, "{}", four_times(&worker.cpu.unwrap_or_default(), &Cpu::default()))?;
    let times = (age(snapshot, worker), worker.last_duration_us / 1000, worker.duration_us / 1000);
    write!(out, " {} {} {}(", times.0, times.1, times.2)?;
    writeln!(out, "{}|{}|{})", bytes(sent.connection), bytes(sent.process), bytes(sent.slot))?;
    write!(out, " <i>{} {{{}}}</i> ", Html(&worker.client), Html(&worker.request))?;
    writeln!(out, "<i>({})</i> <b>[{}]</b><br />\n", Html(&worker.protocol), Html(&worker.vhost))
}

fn mode(letter: char) -> &'static str {
    match letter {
        '_' => "Ready",
        'S' => "Starting",
        'R' => "<b>Read</b>",
        'W' => "<b>Write</b>",
        'K' => "<b>Keepalive</b>",
        'L' => "<b>Logging</b>",
        'C' => "<b>Closing</b>",
        'G' => "Graceful",
        'I' => "Dying",
        _ => "Dead",
    }
}
