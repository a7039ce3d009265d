//! `lab idle-test`: what do idle kept connections cost a server, in memory and in the time of everybody else's requests?
//!
//! Two servers run on the same configuration. One of them gets the idle connections, each after one answered request, and
//! then both are asked in turn, many rounds long: whatever else the machine does meets both alike. Memory is the server's
//! own (private pages of all its processes) after and before; what the kernel holds for sockets is in neither.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;

use crate::interrupt::Interrupt;
use crate::sampler;
use crate::server::{Page, Server};
use crate::slow_test::hold::Held;
use crate::slow_test::holders::{Holders, Wanted};
use crate::slow_test::kind::{Kind, PAGE};
use crate::slow_test::probe::{Outcome, Times, probe};
use crate::slow_test::start;
use crate::staged::Stage;
use crate::target::{Family, Model};
use crate::{progress, table, text, wire};

/// Clients may take this long to arrive: 100 000 of them take some ten seconds on two processors.
const ARRIVE_WITHIN: Duration = Duration::from_secs(90);
/// Requests before anything is measured, so that what a server allocates once is there in both servers.
const WARM_UP: Times = Times::one_by_one(1000);
/// The server is left alone after the connections have come, so that what they set off is over.
const SETTLE: Duration = Duration::from_secs(1);
/// Descriptors of a process that are no idle connections.
const SPARE_DESCRIPTORS: u64 = 600;
/// Descriptors wanted for each process.
const DESCRIPTORS_WANTED: u64 = 65_536 + SPARE_DESCRIPTORS;
/// Bytes of private memory that an idle connection of ours may cost.
const BYTES_MAX: f64 = 1024.0;
/// How much longer than without idle connections the slowest hundredth of requests may take.
const RATIO_MAX: f64 = 1.5;
/// The exit code of a test that Ctrl-C ended, as shells expect it.
const INTERRUPTED: u8 = 130;

/// Examples under the help.
pub const EXAMPLES: &str = "\
Exit code: 0 if on each of manifold's models all connections stand, each costs less than 1 KiB of the server's private memory,
and the 99th percentile of other requests is at most 1.5 times that without them; 1 if not; 2 the test could not be run.

Examples:
  manifold lab idle-test                            100 000 idle connections on percore, then on event
  manifold lab idle-test --target nginx             the same on nginx
  manifold lab idle-test --connections 10000 --rounds 5";

/// Options of `lab idle-test`.
#[derive(Args, Debug)]
pub struct IdleArgs {
    /// The server to test
    #[arg(long, value_name = "NAME", default_value = "manifold")]
    target: Family,
    /// Its models [default: percore,event; apache2: event]
    #[arg(long, value_delimiter = ',', value_name = "MPM,..")]
    mpm: Vec<Model>,
    /// Idle connections
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=500_000))]
    connections: u32,
    /// Rounds of requests to either server
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Requests to either server in a round
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(100..=10_000))]
    requests: u32,
    /// Write the figures there as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep configurations and logs in this folder [default: a temporary one, which is removed]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// What one model did.
#[derive(Clone, Debug, Serialize)]
struct Row {
    label: &'static str,
    #[serde(skip)]
    family: Family,
    /// Processes of the server, its parent among them.
    processes: usize,
    /// Idle connections wanted.
    connections: usize,
    /// How they were at the end.
    held: Held,
    /// Bytes of private memory a connection that stood.
    bytes_each: Option<f64>,
    /// Of the server without idle connections, microseconds.
    without: Percentiles,
    /// Of the server with them, microseconds.
    with: Percentiles,
    /// The median over the rounds of the ratio of the 99th percentiles.
    p99_ratio: Option<f64>,
    /// Requests without the right answer, of both servers.
    failed: usize,
}

/// Percentiles over all rounds, in microseconds; 0 without any answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
struct Percentiles {
    p50: u64,
    p99: u64,
}

/// What is written as JSON.
#[derive(Debug, Serialize)]
struct Report<'a> {
    format: u32,
    rows: &'a [Row],
}

/// Runs the test.
///
/// # Errors
/// What prevented it: a server that is not installed or does not start, a file that cannot be written.
pub fn run(args: &IdleArgs) -> Result<ExitCode> {
    let descriptors = wire::raise_descriptors(DESCRIPTORS_WANTED);
    let each = descriptors.saturating_sub(SPARE_DESCRIPTORS) as usize;
    if each < 100 {
        bail!(
            "a process may have {descriptors} file descriptors here, which is too few; raise the hard limit (ulimit -Hn)"
        );
    }
    let stage = Stage::new(args.folder.as_deref())?;
    let interrupt = Interrupt::catch().context("cannot catch Ctrl-C")?;
    let page = Page { path: PAGE.to_owned(), body: crate::cli::BUILT_IN_PAGE.as_bytes().to_vec() };
    let site = stage.write("site", PAGE.trim_start_matches('/'), &page.body)?;
    let site = site.parent().unwrap_or(Path::new("/"));
    let test = Test { args, stage: &stage, interrupt: &interrupt, page: &page, site, each };
    let default: &[Model] = match args.target {
        Family::Manifold => &[Model::Percore, Model::Event],
        Family::Apache2 => &[Model::Event],
        Family::Nginx | Family::Peer => &[Model::Loop],
    };
    let mut rows = Vec::new();
    for &model in if args.mpm.is_empty() { default } else { &args.mpm } {
        match test.row(model)? {
            Some(row) => rows.push(row),
            None => return Ok(ExitCode::from(INTERRUPTED)),
        }
    }
    print!("\n{}\n{}", lines(&rows), rows.iter().map(|row| row.sentence() + "\n").collect::<String>());
    if let Some(file) = &args.json {
        let json = serde_json::to_string_pretty(&Report { format: 1, rows: &rows })?;
        fs::write(file, json + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    let failed = rows.iter().any(|row| row.family == Family::Manifold && !row.passed());
    Ok(ExitCode::from(u8::from(failed)))
}

struct Test<'a> {
    args: &'a IdleArgs,
    stage: &'a Stage,
    interrupt: &'a Interrupt,
    page: &'a Page,
    site: &'a Path,
    /// Idle connections that a process may hold.
    each: usize,
}

impl Test<'_> {
    /// One model; `None` if it was interrupted.
    fn row(&self, model: Model) -> Result<Option<Row>> {
        let args = self.args;
        let installed = self.stage.detect(args.target, model).map_err(anyhow::Error::msg)?;
        let label = installed.target.label;
        let connections = args.connections as usize;
        let processes = processes(connections, self.each, self.stage.cores.len());
        if processes > self.stage.cores.len() {
            progress::note(&format!(
                "{label}: a process may hold {} connections here (ulimit -Hn), so there are {processes} processes",
                text::grouped(self.each as i64)
            ));
        }
        let lines = config(args.target, model, processes, connections);
        let run = |name: &str| -> Result<Server> {
            let mut server = start(self.stage, &installed, name, self.site, &lines, Some(processes))?;
            server.wait_ready(self.page).with_context(|| format!("{label} did not start"))?;
            server.wait_full_size();
            Ok(server)
        };
        let (with, without) = (run("with")?, run("without")?);
        let interrupted = || self.interrupt.came();
        for server in [&with, &without] {
            probe(&[server.port], &self.page.body, WARM_UP, interrupted)?;
        }
        let fresh = sampler::private_kib(&sampler::tree(with.pid())?);
        let wanted = Wanted { port: with.port, kind: Kind::Idle, clients: connections, within: ARRIVE_WITHIN };
        let mut holders = Holders::start(&self.stage.manifold, &wanted, self.each)?;
        progress::note(&format!("{label}: {connections} connections arrive"));
        holders.wait_open(&wanted, interrupted)?;
        std::thread::sleep(SETTLE);
        let tree = sampler::tree(with.pid())?;
        let full = sampler::private_kib(&tree);
        let stood = holders.held()?.open;
        let mut rounds = Rounds::default();
        let times = Times { count: args.requests as usize, ..WARM_UP };
        for _ in 0..args.rounds {
            let without = probe(&[without.port], &self.page.body, times, interrupted)?;
            let with = probe(&[with.port], &self.page.body, times, interrupted)?;
            rounds.add(&without, &with);
        }
        let held = holders.held()?;
        for server in [&with, &without] {
            server.ask_to_end();
        }
        if interrupted() {
            return Ok(None);
        }
        let bytes = |(fresh, full): (u64, u64)| full.saturating_sub(fresh) as f64 * 1024.0 / stood.max(1) as f64;
        Ok(Some(Row {
            label,
            family: args.target,
            processes: tree.len(),
            connections,
            held,
            bytes_each: fresh.zip(full).map(bytes),
            without: Percentiles::of(&mut rounds.without),
            with: Percentiles::of(&mut rounds.with),
            p99_ratio: median(&mut rounds.ratios),
            failed: rounds.failed,
        }))
    }
}

/// How many server processes it takes: one a core, or as many as may hold the connections with a quarter to spare, since
/// they are not spread evenly.
fn processes(connections: usize, each: usize, cores: usize) -> usize {
    (connections + connections / 4).div_ceil(each).max(cores).max(1)
}

/// So many processes from the start, and idle connections that are not ended meanwhile.
fn config(family: Family, model: Model, processes: usize, connections: usize) -> String {
    let httpd = match model {
        Model::Percore => format!("Cores {processes}\n"),
        // Apache's event counts idle connections in its formula; ours does not.
        Model::Event if family == Family::Apache2 => {
            let factor = connections.div_ceil(processes * 25);
            format!("{}AsyncRequestWorkerFactor {factor}\n", threaded(processes))
        }
        Model::Event | Model::Worker => threaded(processes),
        Model::Prefork | Model::Loop => String::new(),
    };
    match family {
        Family::Manifold | Family::Apache2 => format!("KeepAliveTimeout 1000\n{httpd}"),
        Family::Nginx | Family::Peer => "keepalive_timeout 1000s;\nsendfile on;\n".to_owned(),
    }
}

fn threaded(processes: usize) -> String {
    let threads = processes * 25;
    format!(
        "ServerLimit {processes}\nThreadsPerChild 25\nMaxRequestWorkers {threads}\nStartServers {processes}\n\
         MinSpareThreads 25\nMaxSpareThreads {threads}\n"
    )
}

/// The requests' times, as they come.
#[derive(Default)]
struct Rounds {
    without: Vec<u64>,
    with: Vec<u64>,
    ratios: Vec<f64>,
    failed: usize,
}

impl Rounds {
    fn add(&mut self, without: &[Outcome], with: &[Outcome]) {
        let answered = |outcomes: &[Outcome]| outcomes.iter().filter_map(|outcome| outcome.ok()).collect::<Vec<u64>>();
        let (mut before, mut after) = (answered(without), answered(with));
        self.failed += without.len() + with.len() - before.len() - after.len();
        let [one, other] = [Percentiles::of(&mut before), Percentiles::of(&mut after)];
        if one.p99 > 0 && other.p99 > 0 {
            self.ratios.push(other.p99 as f64 / one.p99 as f64);
        }
        self.without.extend(before);
        self.with.extend(after);
    }
}

impl Percentiles {
    fn of(times: &mut [u64]) -> Percentiles {
        times.sort_unstable();
        let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).max(1) - 1).copied().unwrap_or(0);
        Percentiles { p50: at(50), p99: at(99) }
    }
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

impl Row {
    fn passed(&self) -> bool {
        self.held.open == self.connections
            && self.failed == 0
            && self.bytes_each.is_some_and(|bytes| bytes < BYTES_MAX)
            && self.p99_ratio.is_some_and(|ratio| ratio <= RATIO_MAX)
    }

    fn sentence(&self) -> String {
        let mut faults = Vec::new();
        if self.held.open < self.connections {
            faults.push(format!("only {} connections stood", text::grouped(self.held.open as i64)));
        }
        if self.failed > 0 {
            faults.push(format!("{} had no right answer", text::counted(self.failed, "request")));
        }
        match self.bytes_each {
            Some(bytes) if bytes >= BYTES_MAX => faults.push(format!("a connection costs {bytes:.0} bytes")),
            None => faults.push("the memory could not be read".to_owned()),
            Some(_) => {}
        }
        match self.p99_ratio {
            Some(ratio) if ratio > RATIO_MAX => faults.push(format!("the 99th percentile is {ratio:.2} times as long")),
            None => faults.push("there is no ratio".to_owned()),
            Some(_) => {}
        }
        if faults.is_empty() {
            format!("{}: passed; less than 1 KiB a connection, and the 99th percentile within 1.5 times.", self.label)
        } else {
            format!("{}: not passed; {}.", self.label, text::list(&faults))
        }
    }
}

fn lines(rows: &[Row]) -> String {
    let head = ["server", "processes", "idle", "bytes each", "p50 without", "with", "p99 without", "with", "ratio"];
    let number = |value: Option<f64>, digits: usize| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.digits$}"));
    let row = |row: &Row| {
        let us = |us: u64| text::micros(us as f64);
        vec![
            row.label.to_owned(),
            row.processes.to_string(),
            text::grouped(row.held.open as i64),
            number(row.bytes_each, 0),
            us(row.without.p50),
            us(row.with.p50),
            us(row.without.p99),
            us(row.with.p99),
            number(row.p99_ratio, 2),
        ]
    };
    table::lines(&head, &rows.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_as_many_as_it_takes() {
        for (connections, each, cores, expected) in
            [(100_000, 65_536, 2, 2), (100_000, 19_400, 2, 7), (1000, 19_400, 4, 4), (100, 1000, 0, 1)]
        {
            assert_eq!(processes(connections, each, cores), expected, "{connections} {each} {cores}");
        }
    }

    #[test]
    fn configurations() {
        for (family, model, part) in [
            (Family::Manifold, Model::Percore, "Cores 7\n"),
            (
                Family::Manifold,
                Model::Event,
                "ServerLimit 7\nThreadsPerChild 25\nMaxRequestWorkers 175\nStartServers 7\n",
            ),
            (Family::Apache2, Model::Event, "AsyncRequestWorkerFactor 572\n"),
            (Family::Nginx, Model::Loop, "keepalive_timeout 1000s;\n"),
        ] {
            let text = config(family, model, 7, 100_000);
            assert!(text.contains(part), "no {part:?} in {text}");
        }
    }

    #[test]
    fn percentiles_are_of_those_answered() {
        let times: Vec<Outcome> = (1..=200).rev().map(Ok).chain([Err("reset")]).collect();
        let slower: Vec<Outcome> = (1..=200).map(|us| Ok(2 * us)).collect();
        let mut rounds = Rounds::default();
        rounds.add(&times, &slower);
        rounds.add(&[Err("reset")], &slower);
        assert_eq!((rounds.failed, median(&mut rounds.ratios)), (2, Some(2.0)));
        assert_eq!(Percentiles::of(&mut rounds.without), Percentiles { p50: 100, p99: 198 });
        assert_eq!(Percentiles::of(&mut []), Percentiles::default());
    }

    fn check(change: impl Fn(&mut Row), said: &str) {
        let mut row = Row {
            label: "manifold percore",
            family: Family::Manifold,
            processes: 3,
            connections: 1000,
            held: Held { open: 1000, ..Held::default() },
            bytes_each: Some(99.6),
            without: Percentiles { p50: 100, p99: 200 },
            with: Percentiles { p50: 110, p99: 220 },
            p99_ratio: Some(1.1),
            failed: 0,
        };
        change(&mut row);
        let sentence = row.sentence();
        assert!(sentence.contains(said), "{sentence}");
        assert_eq!(row.passed(), said == "passed; less than 1 KiB", "{sentence}");
        let table = lines(&[row]);
        assert!(table.contains("manifold percore          3"), "{table}");
    }

    #[test]
    fn verdicts() {
        check(|_| {}, "passed; less than 1 KiB");
        check(|row| row.held.open = 900, "not passed; only 900 connections stood.");
        check(|row| row.failed = 2, "2 requests had no right answer");
        check(|row| row.bytes_each = Some(1024.0), "a connection costs 1024 bytes");
        check(|row| row.bytes_each = None, "the memory could not be read");
        check(|row| row.p99_ratio = Some(1.51), "the 99th percentile is 1.51 times as long");
        check(|row| row.p99_ratio = None, "there is no ratio");
    }
}
