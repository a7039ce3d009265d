//! A [`Report`] as text for a terminal.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::replay::skipped;
use crate::report::{Errors, Kept, Machine, PaceConfig, Part, Replayed, Report, StageConfig, Summary, Tls};

/// The whole text, line ends included.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _infallible = write_all(&mut text, report);
    text
}

fn write_all(out: &mut String, report: &Report) -> std::fmt::Result {
    let config = &report.config;
    let kept = match (config.protocol.as_str(), config.streams) {
        ("http/2", 1) => "HTTP/2".to_owned(),
        ("http/2", streams) => format!("HTTP/2 with {streams} streams each"),
        _ if config.keep_alive => "kept alive".to_owned(),
        _ => "one request each".to_owned(),
    };
    let threads = threads(config.threads);
    let others = others(config.requests_sent.len());
    writeln!(
        out,
        "{}{others} at {}: {} connections, {kept}, {threads}",
        config.url, config.address, config.connections
    )?;
    if let PaceConfig::Open { arrivals, stages } = &config.pace {
        let lines: Vec<String> = stages.iter().map(stage).collect();
        writeln!(out, "Open loop, {arrivals} arrivals: {}", lines.join(", then "))?;
    }
    writeln!(out)?;
    let window = format!("{:.3} s", report.seconds);
    writeln!(out, "Requests    {:>12.1} /s   {} completed in {window}", report.requests_per_second, report.completed)?;
    let megabytes = report.bytes.received as f64 / 1e6 / report.seconds.max(f64::MIN_POSITIVE);
    writeln!(out, "Received    {megabytes:>12.2} MB/s {} body bytes", report.bytes.body)?;
    write_summary(out, "Latency", report.latency_us.as_ref())?;
    if let Some(kept) = &report.schedule {
        write_summary(out, "Service", report.service_us.as_ref())?;
        write_schedule(out, kept)?;
    }
    if report.connect.opened > 0 {
        write_summary(out, "Connecting", report.connect.latency_us.as_ref())?;
        writeln!(out, "Connections {:>12}      opened in the window", report.connect.opened)?;
    }
    if let Some(tls) = &report.tls {
        write_tls(out, tls)?;
    }
    write_parts(out, report)?;
    if let Some(replay) = &report.replay {
        write_replay(out, replay, &report.statuses)?;
    }
    write_trouble(out, report)?;
    let generator = &report.generator;
    let per_request = (generator.user_s + generator.system_s) * 1e6 / report.completed.max(1) as f64;
    writeln!(
        out,
        "Generator   {:>11.0} %    of a CPU in its busiest thread; {per_request:.2} us CPU a request ({:.2} s user, {:.2} s system)",
        generator.cpu_share_max_thread * 100.0,
        generator.user_s,
        generator.system_s,
    )?;
    if report.machines.len() > 1 {
        write_machines(out, &report.machines)?;
    }
    for flag in &report.flags {
        writeln!(out, "WARNING: {}", flag.meaning())?;
    }
    Ok(())
}

/// The figures of each kind of request and of each stage, where there are several.
fn write_parts(out: &mut String, report: &Report) -> std::fmt::Result {
    let sent = &report.config.requests_sent;
    for part in &report.kinds {
        let what = match sent.get(part.first as usize) {
            Some(kind) if part.first == part.last => format!("{} {}", kind.method, kind.url),
            _ => format!("requests {} to {} of the plan", part.first + 1, part.last + 1),
        };
        write_part(out, "Request", part, &what)?;
    }
    let asked: &[StageConfig] = if let PaceConfig::Open { stages, .. } = &report.config.pace { stages } else { &[] };
    for part in &report.stages {
        let what = match asked.get(part.first as usize) {
            Some(asked) if part.first == part.last => stage(asked),
            _ => format!("stages {} to {} of the plan", part.first + 1, part.last + 1),
        };
        write_part(out, "Stage", part, &what)?;
    }
    Ok(())
}

fn write_part(out: &mut String, name: &str, part: &Part, what: &str) -> std::fmt::Result {
    write!(out, "{name:<11} {:>12.1} /s   ", part.requests_per_second)?;
    if let Some(Summary { p50, p90, p99, p99_9, max, .. }) = part.latency_us {
        write!(out, "p50 {p50:.0}, p90 {p90:.0}, p99 {p99:.0}, p99.9 {p99_9:.0}, max {max:.0} us, ")?;
    }
    write!(out, "{} completed", part.completed)?;
    if part.unanswered > 0 {
        write!(out, ", {} unanswered", part.unanswered)?;
    }
    let trouble = trouble(&part.errors, [part.wrong_status, part.wrong_length, part.wrong_content]);
    if !trouble.is_empty() {
        write!(out, ", {trouble}")?;
    }
    writeln!(out, ": {what}")
}

/// What each machine of a merged report did, and what is wrong with its part.
fn write_machines(out: &mut String, machines: &[Machine]) -> std::fmt::Result {
    let first = machines.iter().map(|machine| machine.started_unix_us).min().unwrap_or(0);
    for machine in machines {
        writeln!(
            out,
            "Machine     {:>12.1} /s   {} completed in {:.3} s, begun after {:.3} s, busiest thread {:.0} %: {}",
            machine.requests_per_second,
            machine.completed,
            machine.seconds,
            (machine.started_unix_us - first) as f64 / 1e6,
            machine.busy_share_max_thread * 100.0,
            machine.host,
        )?;
        for flag in &machine.flags {
            writeln!(out, "WARNING: {}: {}", machine.host, flag.meaning())?;
        }
    }
    Ok(())
}

/// A stage in words.
fn stage(stage: &StageConfig) -> String {
    let StageConfig { from, to, seconds } = stage;
    let rate = if from == to { format!("{from}") } else { format!("{from} to {to}") };
    let time = seconds.map(|seconds| format!(" for {seconds} s")).unwrap_or_default();
    format!("{rate} /s{time}")
}

fn write_schedule(out: &mut String, kept: &Kept) -> std::fmt::Result {
    let lag = kept.lag_us.unwrap_or_default();
    writeln!(
        out,
        "Schedule    {:>12}      begun; the generator was late by p50 {:.0}, p99 {:.0}, max {:.0} us",
        kept.begun, lag.p50, lag.p99, lag.max
    )?;
    if kept.short_of_connections > 0 || kept.unsent > 0 {
        writeln!(
            out,
            "Waited      {:>12}      for a free connection, up to {:.0} us; {} were never sent",
            kept.short_of_connections, kept.short_longest_us, kept.unsent
        )?;
    }
    Ok(())
}

fn write_replay(out: &mut String, replay: &Replayed, now: &BTreeMap<u16, u64>) -> std::fmt::Result {
    let Replayed { log, lines, requests, different, span_s, .. } = replay;
    writeln!(
        out,
        "Replay      {requests:>12}      requests, {different} different, in {lines} lines and {span_s} s of {log}"
    )?;
    let list = |statuses: &BTreeMap<u16, u64>| {
        statuses.iter().map(|(status, count)| format!("{status} {count}")).collect::<Vec<_>>().join(", ")
    };
    writeln!(out, "Statuses    {} in the log; {} now", list(&replay.statuses), list(now))?;
    if !replay.skipped.is_empty() {
        writeln!(out, "Left out    {}", skipped(&replay.skipped))?;
    }
    if replay.malformed > 0 {
        writeln!(out, "Malformed   {:>12}      lines: {}", replay.malformed, replay.malformed_first.join("; "))?;
    }
    Ok(())
}

fn write_summary(out: &mut String, name: &str, summary: Option<&Summary>) -> std::fmt::Result {
    let Some(s) = summary else { return Ok(()) };
    let Summary { min, mean, p50, p90, p99, p99_9, max, .. } = s;
    writeln!(
        out,
        "{name:<11} {:>12} us   p90 {p90:.0}, p99 {p99:.0}, p99.9 {p99_9:.0}, max {max:.0}, min {min:.0}, mean {mean:.1} us",
        format!("p50 {p50:.0}")
    )
}

fn write_tls(out: &mut String, tls: &Tls) -> std::fmt::Result {
    if tls.handshakes > 0 {
        write_summary(out, "Handshakes", tls.handshake_us.as_ref())?;
        let of_each: Vec<String> = tls.negotiated.iter().map(|(name, count)| format!("{name} {count}")).collect();
        writeln!(out, "TLS         {:>12}      of these resumed a session; {}", tls.resumed, of_each.join(", "))?;
    }
    tls.failures.iter().try_for_each(|(said, count)| writeln!(out, "TLS failed  {count:>12}      {said}"))
}

fn write_trouble(out: &mut String, report: &Report) -> std::fmt::Result {
    let trouble = trouble(&report.errors, [report.wrong_status, report.wrong_length, report.wrong_content]);
    if !trouble.is_empty() {
        writeln!(out, "Trouble     {trouble}")?;
    }
    if report.unfinished.count > 0 {
        let longest = report.unfinished.max_age_us;
        writeln!(out, "Unfinished  {:>12}      at the end, the oldest after {longest:.0} us", report.unfinished.count)?;
    }
    if report.unserved_connections > 0 {
        writeln!(out, "Unserved    {:>12}      connections never got an answer", report.unserved_connections)?;
    }
    Ok(())
}

/// So many threads.
pub fn threads(count: u32) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") }
}

/// What follows the first URL where there are so many requests.
pub fn others(requests: usize) -> String {
    match requests {
        0 | 1 => String::new(),
        2 => " and 1 more request".to_owned(),
        all => format!(" and {} more requests", all - 1),
    }
}

/// Failures by class, and answers with another status, length and body than expected; empty if there are none.
pub fn trouble(errors: &Errors, wrong: [u64; 3]) -> String {
    let wrong = ["wrong status", "wrong length", "wrong content"].into_iter().zip(wrong);
    let present = errors.classes().into_iter().chain(wrong).filter(|(_, count)| *count > 0);
    present.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}
