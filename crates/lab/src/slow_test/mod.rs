//! `lab slow-test`: does a normal visitor still get an answer while many clients are slow?
//!
//! For each server, each kind of slow client and each number of them: the server is started on its defaults, the clients
//! arrive and stay, and then a normal request is sent ten times a second on connections of its own. What counts is how
//! long each of those takes. Between them, a second server without slow clients is asked the same: where that is slow as
//! well, the machine is busy and not the server.

pub mod hold;
pub mod holders;
pub mod kind;
pub mod probe;
mod verdict;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;

use self::hold::Held;
use self::holders::{Holders, Wanted};
use self::kind::{Kind, LARGE, LARGE_BYTES, PAGE};
use self::probe::{ANSWER_WITHIN, Times, probe};
use self::verdict::Row;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::server::{self, Page};
use crate::staged::{Recipe, Stage};
use crate::target::{Family, Installed, Model};
use crate::wire;

/// Clients may take this long to arrive.
const ARRIVE_WITHIN: Duration = Duration::from_secs(5);
/// Between two probes.
const PROBE_EVERY: Duration = Duration::from_millis(100);
/// A row that does not pass while the server without slow clients was slow as well is repeated this often at most.
const REPEATS_MAX: u32 = 2;
/// Descriptors that a process needs beside its connections.
const SPARE_DESCRIPTORS: u64 = 200;
/// The exit code of a test that Ctrl-C ended, as shells expect it.
const INTERRUPTED: u8 = 130;
/// What a row takes beside its probes, for the estimate.
const ROW_OVERHEAD: Duration = Duration::from_millis(1600);

/// Examples under the help.
pub const EXAMPLES: &str = "\
Exit code: 0 every row of manifold's event and percore passes, 1 otherwise, 2 the test could not be run. prefork and worker
hold a process or a thread for each slow client, as Apache's do: they are shown and not judged. So are apache2 and nginx.

Examples:
  manifold lab slow-test                                450 and 10 000 slow clients of each kind, event and percore
  manifold lab slow-test --mpm prefork,worker           what the models that hold a thread do
  manifold lab slow-test --target apache2 --clients 450
  manifold lab slow-test --kinds slow-head,slow-read    two kinds only";

/// Options of `lab slow-test`.
#[derive(Args, Debug)]
pub struct SlowArgs {
    /// The server to test
    #[arg(long, value_name = "NAME", default_value = "manifold")]
    target: Family,
    /// Its models [default: event,percore; apache2: prefork,worker,event]
    #[arg(long, value_delimiter = ',', value_name = "MPM,..")]
    mpm: Vec<Model>,
    /// Numbers of slow clients [default: 450,10000]
    #[arg(long, value_delimiter = ',', value_name = "N,..", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: Vec<u32>,
    /// Kinds of slow clients [default: all]
    #[arg(long, value_delimiter = ',', value_name = "KIND,..")]
    kinds: Vec<Kind>,
    /// Seconds of probes in each row [default: 2]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: Option<u32>,
    /// 200 slow clients of each kind, for one second
    #[arg(long)]
    quick: bool,
    /// Write the rows there as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep configurations and logs in this folder [default: a temporary one, which is removed]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// What is written as JSON.
#[derive(Debug, Serialize)]
struct Report<'a> {
    format: u32,
    rows: &'a [Row],
}

/// A row to come.
#[derive(Clone, Copy, Debug)]
struct Step {
    model: Model,
    kind: Kind,
    clients: usize,
}

/// Runs the test.
///
/// # Errors
/// What prevented it: a server that is not installed or does not start, too few descriptors, a file that cannot be written.
pub fn run(args: &SlowArgs) -> Result<ExitCode> {
    let steps = steps(args);
    let most = steps.iter().map(|step| step.clients).max().unwrap_or(0) as u64;
    check_descriptors(most)?;
    let stage = Stage::new(args.folder.as_deref())?;
    let interrupt = Interrupt::catch().context("cannot catch Ctrl-C")?;
    let test = Test::prepare(args, &stage, &interrupt)?;
    let mut progress = Progress::new(steps.len(), ROW_OVERHEAD + test.seconds);
    let mut rows = Vec::new();
    for (done, step) in steps.iter().enumerate() {
        progress.show(done, &format!("{} {} {} clients", step.model.name(), step.clients, step.kind.name()));
        let Some(row) = test.quiet_row(*step)? else {
            progress.end();
            return Ok(ExitCode::from(INTERRUPTED));
        };
        rows.push(row);
    }
    progress.end();
    print!("\n{}\n{}\n", verdict::lines(&rows), verdict::sentence(&rows));
    for note in notes(args.target) {
        println!("{note}");
    }
    if let Some(file) = &args.json {
        let json = serde_json::to_string_pretty(&Report { format: 1, rows: &rows })?;
        fs::write(file, json + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(ExitCode::from(u8::from(rows.iter().any(|row| row.counts() && !row.passed))))
}

/// The rows: small numbers first, so that the quick ones come soon.
fn steps(args: &SlowArgs) -> Vec<Step> {
    let default: &[Model] = match args.target {
        Family::Manifold => &[Model::Event, Model::Percore],
        Family::Apache2 => &[Model::Prefork, Model::Worker, Model::Event],
        Family::Nginx | Family::Peer => &[Model::Loop],
    };
    let numbers: &[u32] = match (&args.clients[..], args.quick) {
        ([], true) => &[200],
        ([], false) => &[450, 10_000],
        (asked, _) => asked,
    };
    let models = if args.mpm.is_empty() { default } else { &args.mpm };
    let kinds = if args.kinds.is_empty() { &Kind::ALL } else { &args.kinds[..] };
    let mut steps = Vec::new();
    for &clients in numbers {
        for &model in models {
            steps.extend(kinds.iter().map(|&kind| Step { model, kind, clients: clients as usize }));
        }
    }
    steps
}

/// What a reader must know about the server's settings.
fn notes(family: Family) -> &'static [&'static str] {
    match family {
        Family::Manifold => &[],
        Family::Apache2 => &[
            "apache2 has mod_reqtimeout with Debian's values (header=20-40,minrate=500 body=20,minrate=500): a slow client is \
             dropped after 20 s at the earliest, which is longer than a row takes.",
        ],
        Family::Nginx | Family::Peer => {
            &["nginx has worker_connections 16384 instead of its default 512, which would refuse the most."]
        }
    }
}

/// Each process holds at most this many connections: the prober none, the clients and each server process all.
fn check_descriptors(most: u64) -> Result<()> {
    let wanted = most + SPARE_DESCRIPTORS;
    let there = wire::raise_descriptors(wanted);
    if there < wanted {
        bail!(
            "{most} clients need {wanted} file descriptors, and this machine allows {there} (ulimit -Hn); \
             give fewer --clients or raise the hard limit"
        );
    }
    Ok(())
}

struct Test<'a> {
    args: &'a SlowArgs,
    stage: &'a Stage,
    interrupt: &'a Interrupt,
    site: PathBuf,
    page: Page,
    seconds: Duration,
}

impl Test<'_> {
    fn prepare<'a>(args: &'a SlowArgs, stage: &'a Stage, interrupt: &'a Interrupt) -> Result<Test<'a>> {
        let body = crate::cli::BUILT_IN_PAGE.as_bytes().to_vec();
        stage.write("site", PAGE.trim_start_matches('/'), &body)?;
        let large: Vec<u8> = (0..LARGE_BYTES).map(|i| (i % 251) as u8).collect();
        stage.write("site", LARGE.trim_start_matches('/'), &large)?;
        let seconds = Duration::from_secs(args.seconds.unwrap_or(if args.quick { 1 } else { 2 }).into());
        let page = Page { path: PAGE.to_owned(), body };
        Ok(Test { args, stage, interrupt, site: stage.folder("site")?, page, seconds })
    }

    /// One row, repeated where something else kept the machine busy; `None` if it was interrupted.
    fn quiet_row(&self, step: Step) -> Result<Option<Row>> {
        let mut row = self.row(step)?;
        for _ in 0..REPEATS_MAX {
            match row {
                Some(disturbed) if disturbed.was_disturbed() => row = self.row(step)?,
                done => return Ok(done),
            }
        }
        Ok(row)
    }

    /// One row; `None` if it was interrupted.
    fn row(&self, step: Step) -> Result<Option<Row>> {
        let family = self.args.target;
        let installed = self.stage.detect(family, step.model).map_err(anyhow::Error::msg)?;
        let run = |name: &str| -> Result<server::Server> {
            let mut server = start(self.stage, &installed, name, &self.site, &lines(family, step.kind), None)?;
            server.wait_ready(&self.page).with_context(|| format!("{} did not start", installed.target.label))?;
            server.wait_full_size();
            Ok(server)
        };
        let (server, control) = (run(installed.target.name)?, run("control")?);
        let interrupted = || self.interrupt.came();
        let wanted = Wanted { port: server.port, kind: step.kind, clients: step.clients, within: ARRIVE_WITHIN };
        let mut holders = Holders::start(&self.stage.manifold, &wanted, step.clients)?;
        holders.wait_open(&wanted, interrupted)?;
        let count = 2 * (self.seconds.as_millis() / PROBE_EVERY.as_millis()) as usize;
        let times =
            Times { count, every: PROBE_EVERY / 2, one_by_one: false, within: ANSWER_WITHIN, until_one_fails: false };
        let outcomes = probe(&[server.port, control.port], &self.page.body, times, interrupted)?;
        let held = holders.held()?;
        // All end side by side.
        server.ask_to_end();
        control.ask_to_end();
        drop(holders);
        if interrupted() {
            return Ok(None);
        }
        let (probes, without): (Vec<_>, Vec<_>) = outcomes.chunks_exact(2).map(|pair| (pair[0], pair[1])).unzip();
        Ok(Some(empty_row(&installed, step, held).judge(&without, &probes)))
    }
}

fn empty_row(installed: &Installed, step: Step, held: Held) -> Row {
    Row {
        label: installed.target.label,
        family: installed.target.family,
        model: step.model,
        kind: step.kind,
        clients: step.clients,
        held,
        without_max_us: None,
        asked: 0,
        answered: 0,
        median_us: None,
        max_us: None,
        failures: Vec::new(),
        passed: false,
    }
}

/// Starts a server by its defaults and `lines` in the folder `name`; it does not answer yet. `workers`: nginx's processes, with a socket
/// each so that connections are spread evenly, where one a core does not do.
///
/// # Errors
/// If it cannot be started.
pub fn start(
    stage: &Stage,
    installed: &Installed,
    name: &str,
    site: &Path,
    lines: &str,
    workers: Option<usize>,
) -> Result<server::Server> {
    let ports = server::free_ports(1).context("no free port on 127.0.0.1")?;
    let target = installed.target;
    let modules: &[&str] = if target.family == Family::Apache2 { &["reqtimeout"] } else { &[] };
    let recipe = Recipe {
        model: target.model,
        ports: &ports,
        root: site,
        buckets: target.family == Family::Nginx && workers.is_some(),
        workers,
        modules,
        lines: lines.to_owned(),
    };
    let text = stage.config(name, target.family, &recipe)?;
    stage.start(name, installed, ports[0], &text)
}

/// Defaults, and what the kind needs: idle connections that are not ended meanwhile, and the way files are sent.
pub fn lines(family: Family, kind: Kind) -> String {
    let sendfile = if kind == Kind::SlowReadNosendfile { "off" } else { "on" };
    match family {
        Family::Manifold => format!("KeepAliveTimeout 300\nEnableSendfile {sendfile}\n"),
        Family::Apache2 => format!(
            "KeepAliveTimeout 300\nEnableSendfile {sendfile}\n\
             RequestReadTimeout header=20-40,minrate=500\nRequestReadTimeout body=20,minrate=500\n"
        ),
        Family::Nginx | Family::Peer => format!("keepalive_timeout 300s;\nsendfile {sendfile};\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(target: Family) -> SlowArgs {
        SlowArgs {
            target,
            mpm: Vec::new(),
            clients: Vec::new(),
            kinds: Vec::new(),
            seconds: None,
            quick: false,
            json: None,
            folder: None,
        }
    }

    #[test]
    fn rows_to_come() {
        let number = |args: &SlowArgs| (steps(args).len(), steps(args)[0].clients);
        assert_eq!(number(&args(Family::Manifold)), (2 * 2 * 7, 450));
        assert_eq!(number(&args(Family::Apache2)), (2 * 3 * 7, 450));
        assert_eq!(number(&args(Family::Nginx)), (2 * 7, 450));
        assert_eq!(number(&SlowArgs { quick: true, ..args(Family::Manifold) }), (2 * 7, 200));
        let few = SlowArgs { kinds: vec![Kind::Idle], clients: vec![5, 6], ..args(Family::Nginx) };
        assert_eq!(number(&few), (2, 5));
    }

    #[test]
    fn a_kind_gets_the_server_it_needs() {
        for (family, on, off) in [
            (Family::Manifold, "EnableSendfile on\n", "EnableSendfile off\n"),
            (Family::Apache2, "EnableSendfile on\n", "EnableSendfile off\n"),
            (Family::Nginx, "sendfile on;\n", "sendfile off;\n"),
        ] {
            assert!(lines(family, Kind::SlowRead).contains(on));
            assert!(lines(family, Kind::SlowReadNosendfile).contains(off));
        }
        assert!(lines(Family::Manifold, Kind::Idle).contains("KeepAliveTimeout 300"));
    }

    #[test]
    fn too_few_descriptors_are_an_error_with_a_way_out() {
        let said = check_descriptors(1 << 40).expect_err("nobody has so many").to_string();
        assert!(said.contains("ulimit -Hn") && said.contains("fewer --clients"), "{said}");
    }
}
