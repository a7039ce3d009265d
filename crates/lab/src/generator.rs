//! One cell: the generator in a process of its own, the server watched meanwhile.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use manifold_load::native::find_max::Maximum;
use manifold_load::report::{Flag, Report};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cores;
use crate::experiment::{Load, Step};
use crate::interrupt::Interrupt;
use crate::results::{Cell, Course, Latency, Mark};
use crate::sampler::account::Account;
use crate::sampler::watch::{Watch, Watched};
use crate::sampler::{self, Usage};
use crate::server::Server;

/// After the generator was started, until memory is looked at: it has connected by then, and is warming up.
const CONNECTED_AFTER: Duration = Duration::from_millis(40);
/// No warm-up is longer, however long memory takes to be read.
const WARM_UP_MAX: Duration = Duration::from_millis(500);
/// A generator that is this late, its warm-up included, is killed.
const LATE: Duration = Duration::from_secs(15);
/// A cell of so many requests is given up after this long.
const REQUESTS_WITHIN: Duration = Duration::from_secs(900);
/// Reading the memory of a server may take this long.
const MEMORY_WITHIN: Duration = Duration::from_secs(5);
/// A request without an answer after this long has failed; longer than any cell, so that a stall shows as one.
const REQUEST_TIMEOUT_S: &str = "10";
/// A search may take as long as so many of its steps.
const SEARCH_STEPS: f64 = 25.0;
/// Load before each of its steps, as a part of it.
const WARM_UP_PART: f64 = 0.25;
/// Above this share of one processor, something else disturbed the cell.
const OTHER_LOAD_MAX: f64 = 0.10;
/// Above so many bytes, an answer is not in the sockets' buffers as soon as it is asked for.
const LONG_ANSWER: u64 = 1024 * 1024;
/// The answers over time are kept in so many intervals at most.
const INTERVALS_MAX: usize = 120;
/// The longest pause after a cell.
const SETTLE_MAX: Duration = Duration::from_millis(60);

/// When a cell ends.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Amount {
    /// After so many seconds beside the warm-up.
    Seconds(f64),
    /// After so many requests, as ab's cells do.
    Requests(u64),
}

/// When a cell looks at the server's memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Memory {
    /// Not at all.
    Never,
    /// During the warm-up: the server is at full size from the start.
    WarmUp,
    /// As soon as the load has ended: the server has grown to what the load made of it, and has not shrunk yet.
    AfterLoad,
}

/// What the generator asks for, and what must come.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// A path of the server's port, or a whole URL.
    pub url: &'a str,
    /// Further options of the generator: fields, names, certificates.
    pub options: &'a [String],
    /// How long every answer must be.
    pub length: Length,
    /// Others on this machine may work on the answers, so that their load is none that disturbs.
    pub helped: bool,
}

impl Ask<'_> {
    /// A page of so many bytes that the server has itself.
    pub fn page(path: &str, bytes: u64) -> Ask<'_> {
        Ask { url: path, options: &[], length: Length::Exactly(bytes), helped: false }
    }
}

/// A search for the highest rate.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// What is to hold, as `p99<50ms`.
    pub condition: &'a str,
    /// How long one rate is tried at least, seconds.
    pub step_s: f64,
}

impl Search<'_> {
    /// How long it may take, seconds.
    pub fn budget_s(self) -> f64 {
        self.step_s * SEARCH_STEPS
    }
}

/// How long every answer must be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Length {
    /// So many bytes.
    Exactly(u64),
    /// As the first one.
    AsFirst,
    /// It may differ from one to the next.
    Any,
}

/// What every cell needs.
#[derive(Debug)]
pub struct Bench<'a> {
    /// This binary.
    pub manifold: &'a Path,
    /// When a cell ends.
    pub amount: Amount,
    /// The generator's processors; a thread for each.
    pub generator: &'a [usize],
    /// Its threads are bound to them, one each.
    pub pin: bool,
    /// When the server's memory is looked at.
    pub memory: Memory,
    /// What is asked for.
    pub ask: Ask<'a>,
    /// Where the generator's complaints go.
    pub log: &'a File,
}

impl Bench<'_> {
    /// Measures one cell. `None` if the run was interrupted meanwhile.
    ///
    /// # Errors
    /// If the generator cannot be run or understood, or the server is gone.
    pub fn measure(&self, step: &Step, server: &mut Server, interrupt: &Interrupt) -> Result<Option<Cell>> {
        Ok(self.measure_whole(step, server, interrupt)?.map(|(cell, _)| cell))
    }

    /// As [`measure`](Self::measure), with all that the generator reported.
    ///
    /// # Errors
    /// As `measure`.
    pub fn measure_whole(
        &self,
        step: &Step,
        server: &mut Server,
        interrupt: &Interrupt,
    ) -> Result<Option<(Cell, Report)>> {
        let pid = server.pid();
        let clocks = Clocks::read();
        let pids = sampler::tree(pid)?;
        let account = Account::read(&pids);
        let reading = Instant::now();
        let before = sampler::usage(&pids);
        let cost = reading.elapsed();
        let measured_from = Instant::now() + server.warm_up;
        let mut child = self.start(server.port, step.load, server.warm_up)?;
        let watch = Watch::begin(pid, before, cost).context("cannot watch the server")?;
        std::thread::sleep(CONNECTED_AFTER);
        let mut pss_kib = match self.memory {
            Memory::WarmUp => sampler::pss_kib(&pids, measured_from),
            Memory::Never | Memory::AfterLoad => None,
        };
        let Some(report) = self.finish::<Report>(&mut child, self.within(), interrupt)? else { return Ok(None) };
        let watched = watch.end();
        if self.memory == Memory::AfterLoad && server.alive() {
            pss_kib = sampler::pss_kib(&sampler::tree(pid)?, Instant::now() + MEMORY_WITHIN);
        }
        settle(step.load, &report);
        if !server.alive() {
            bail!("{} ended during the run\n{}", server.installed.target.label, server.last_words());
        }
        let pids = sampler::tree(pid)?;
        let used = sampler::usage(&pids).since(&before);
        let mut cell = self.cell(step, &report, &used, pss_kib, &clocks);
        (cell.kernel, cell.course) = (Account::read(&pids).since(&account), course(&report, watched, server.warm_up));
        Ok(Some((cell, report)))
    }

    /// As [`measure_whole`](Self::measure_whole), of a server that is none of ours: what it uses is not known.
    ///
    /// # Errors
    /// If the generator cannot be run or understood.
    pub fn measure_unwatched(
        &self,
        step: &Step,
        warm_up: Duration,
        interrupt: &Interrupt,
    ) -> Result<Option<(Cell, Report)>> {
        let clocks = Clocks::read();
        let mut child = self.start(0, step.load, warm_up)?;
        let Some(report) = self.finish::<Report>(&mut child, self.within(), interrupt)? else { return Ok(None) };
        settle(step.load, &report);
        Ok(Some((self.cell(step, &report, &Usage::default(), None, &clocks), report)))
    }

    /// The highest rate at which a condition holds, by the generator's own search. `None` if it was interrupted.
    ///
    /// # Errors
    /// If the generator cannot be run or understood.
    pub fn find_max(
        &self,
        port: u16,
        load: Load,
        search: &Search<'_>,
        interrupt: &Interrupt,
    ) -> Result<Option<Maximum>> {
        let mut command = self.command(port, load);
        command
            .args(["--find-max", search.condition, "--duration", &search.step_s.to_string()])
            .args(["--warmup", &(search.step_s * WARM_UP_PART).to_string()])
            .args(["--budget", &format!("{}s", search.budget_s())]);
        command.stderr(self.log.try_clone()?);
        let child = command.spawn();
        let mut child = child.with_context(|| format!("cannot start the generator, {}", self.manifold.display()))?;
        self.finish(&mut child, Duration::from_secs_f64(search.budget_s()), interrupt)
    }

    fn cell(&self, step: &Step, report: &Report, used: &Usage, pss_kib: Option<u64>, clocks: &Clocks) -> Cell {
        let other_load = if self.ask.helped { 0.0 } else { clocks.other_load(used) };
        let bytes = match self.ask.length {
            Length::Exactly(bytes) => bytes,
            Length::AsFirst | Length::Any => report.bytes.received / report.completed_with_warmup.max(1),
        };
        let mut cell = cell(step, report, bytes, used, pss_kib, other_load);
        if matches!(self.amount, Amount::Requests(_)) {
            // So few were asked for.
            cell.marks.retain(|mark| *mark != Mark::TooShort);
        }
        cell
    }

    fn start(&self, port: u16, load: Load, warm_up: Duration) -> Result<Child> {
        let mut command = self.command(port, load);
        command.args(["--warmup", &warm_up.as_secs_f64().to_string()]);
        match self.amount {
            Amount::Seconds(seconds) => command.args(["--duration", &seconds.to_string()]),
            Amount::Requests(requests) => command.args(["--requests", &requests.to_string()]),
        };
        command.stderr(self.log.try_clone()?);
        command.spawn().with_context(|| format!("cannot start the generator, {}", self.manifold.display()))
    }

    /// The generator without what it is to do, and how long.
    fn command(&self, port: u16, load: Load) -> Command {
        let threads = self.generator.len().clamp(1, load.concurrency as usize);
        let Ask { url, options, length, .. } = self.ask;
        let url = if url.starts_with('/') { format!("http://127.0.0.1:{port}{url}") } else { url.to_owned() };
        let mut command = Command::new(self.manifold);
        command
            // It ends with the laboratory, should that be killed.
            .args(["lab", "exec", "--cores", &cores::text(self.generator), "--"])
            .arg(self.manifold)
            .arg("load")
            .arg(url)
            .args(options)
            .args(["--connections", &load.concurrency.to_string()])
            .args(["--threads", &threads.to_string()])
            .args(["--timeout", REQUEST_TIMEOUT_S, "--expect-status", "200"])
            .arg("--json");
        match length {
            Length::Exactly(bytes) => _ = command.args(["--expect-length", &bytes.to_string()]),
            Length::AsFirst => {}
            Length::Any => _ = command.args(["--expect-length", "any"]),
        }
        if load.keep_alive {
            command.arg("--keep-alive");
        }
        if self.pin {
            let list: Vec<String> = self.generator.iter().map(ToString::to_string).collect();
            command.args(["--pin", &list.join(",")]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        command
    }

    /// How long the load takes.
    fn within(&self) -> Duration {
        match self.amount {
            Amount::Seconds(seconds) => Duration::from_secs_f64(seconds),
            Amount::Requests(_) => REQUESTS_WITHIN,
        }
    }

    /// Reads the generator's report to its end; kills it when interrupted or late.
    fn finish<T: DeserializeOwned>(
        &self,
        child: &mut Child,
        within: Duration,
        interrupt: &Interrupt,
    ) -> Result<Option<T>> {
        let deadline = Instant::now() + within + LATE;
        let mut output = child.stdout.take().context("the generator's output is not connected")?;
        let mut text = Vec::new();
        let mut chunk = vec![0; 64 * 1024];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut waited = [PollFd::new(output.as_fd(), PollFlags::POLLIN), interrupt.poll_fd()];
            let ready = poll(&mut waited, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
            let interrupted = waited[1].any().unwrap_or(false);
            if interrupted || left.is_zero() {
                let _ = child.kill();
                let _ = child.wait();
                return if interrupted {
                    Ok(None)
                } else {
                    bail!("the generator did not end in time; see generator.log")
                };
            }
            match ready {
                Ok(_) if waited[0].any().unwrap_or(false) => {}
                Ok(_) | Err(nix::errno::Errno::EINTR) => continue,
                Err(e) => return Err(e).context("cannot wait for the generator"),
            }
            match output.read(&mut chunk).context("cannot read the generator's report")? {
                0 => break,
                n => text.extend_from_slice(&chunk[..n]),
            }
        }
        let status = child.wait().context("cannot wait for the generator")?;
        match serde_json::from_slice(&text) {
            Ok(report) => Ok(Some(report)),
            Err(e) => bail!("the generator ({status}) left no report that can be read: {e}; see generator.log"),
        }
    }
}

/// The warm-up of a server whose memory takes so long to be read while nothing happens: under load it may take three
/// times as long, and it shall not reach into the measured time.
pub fn warm_up(least: Duration, memory_takes: Duration) -> Duration {
    (CONNECTED_AFTER + 3 * memory_takes).min(WARM_UP_MAX).max(least)
}

/// Lets the server finish what the generator left: the requests in flight and the connections to close. Their cost
/// belongs to this cell, not to the next.
fn settle(load: Load, report: &Report) {
    let in_flight = f64::from(load.concurrency) / report.requests_per_second.max(1000.0);
    std::thread::sleep((Duration::from_millis(10) + Duration::from_secs_f64(in_flight)).min(SETTLE_MAX));
}

/// Processor time counted so far of the whole machine, of this process, and of the generators it has waited for.
struct Clocks {
    machine: Option<Duration>,
    ours: Duration,
    wall: Instant,
}

impl Clocks {
    fn read() -> Clocks {
        let of = |who| {
            getrusage(who).map_or(Duration::ZERO, |usage| {
                let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
                Duration::from_micros(micros.max(0) as u64)
            })
        };
        Clocks {
            machine: sampler::machine(),
            ours: of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN),
            wall: Instant::now(),
        }
    }

    /// What something else than this run used since then, as a share of one processor.
    fn other_load(&self, server: &Usage) -> f64 {
        let now = Clocks::read();
        let (Some(machine), Some(earlier)) = (now.machine, self.machine) else { return 0.0 };
        let known = server.cpu + now.ours.saturating_sub(self.ours);
        let other = machine.saturating_sub(earlier).saturating_sub(known);
        other.as_secs_f64() / (now.wall - self.wall).as_secs_f64()
    }
}

/// The cell out of what was seen from both sides.
fn cell(step: &Step, report: &Report, bytes: u64, used: &Usage, pss_kib: Option<u64>, other_load: f64) -> Cell {
    // A request in flight at the end reached the server, unless its connection was never taken up.
    let in_flight = report.unfinished.count.saturating_sub(report.unserved_connections);
    // Of an answer that no socket's buffer holds, half was sent on average.
    let in_flight = if bytes > LONG_ANSWER { in_flight / 2 } else { in_flight };
    Cell {
        round: step.round,
        target: step.target,
        keep_alive: step.load.keep_alive,
        concurrency: step.load.concurrency,
        seconds: report.seconds,
        completed: report.completed,
        worked_on: report.completed_with_warmup + in_flight,
        requests_per_second: report.requests_per_second,
        latency_us: report.latency_us.map(|l| Latency { mean: l.mean, p50: l.p50, p90: l.p90, p99: l.p99, max: l.max }),
        errors: report.errors.total(),
        unserved: report.unserved_connections,
        cpu_s: used.cpu.as_secs_f64(),
        user_s: used.user.as_secs_f64(),
        system_s: used.system.as_secs_f64(),
        pss_kib,
        processes: used.processes,
        threads: used.threads,
        generator_cpu_s: report.generator.user_s + report.generator.system_s,
        other_load,
        marks: marks(report, other_load),
        ..Cell::default()
    }
}

/// The load over time; `None` of one that was over before the server was looked at.
fn course(report: &Report, mut server: Watched, warm_up: Duration) -> Option<Course> {
    server.looks.iter_mut().for_each(|look| look.at_s -= warm_up.as_secs_f64());
    let series = &report.series;
    let joined = series.completed.len().div_ceil(INTERVALS_MAX).next_power_of_two();
    (!server.looks.is_empty()).then(|| Course {
        interval_s: series.interval_ms as f64 * joined as f64 / 1000.0,
        answers: series.completed.chunks(joined).map(|part| part.iter().sum()).collect(),
        server,
    })
}

/// The generator's flags as marks, and the laboratory's own.
fn marks(report: &Report, other_load: f64) -> Vec<Mark> {
    let too_short = report.completed_with_warmup < 2 * u64::from(report.config.connections);
    let mut marks: Vec<Mark> = report
        .flags
        .iter()
        .filter_map(|flag| match flag {
            // Cells are closed loops: there is no schedule to miss.
            Flag::GeneratorSaturated | Flag::ScheduleMissed | Flag::TooFewConnections => Some(Mark::GeneratorSaturated),
            Flag::WrongStatus => Some(Mark::WrongStatus),
            Flag::WrongLength => Some(Mark::WrongLength),
            Flag::Errors => Some(Mark::Errors),
            Flag::PortsExhausted => Some(Mark::PortsExhausted),
            Flag::DescriptorsExhausted => Some(Mark::DescriptorsExhausted),
            // With less than an answer a connection there is no telling whether a connection was left out.
            Flag::UnservedConnections => (!too_short).then_some(Mark::Unserved),
            Flag::Stalled => Some(Mark::Stalled),
            Flag::NothingCompleted => Some(Mark::NothingCompleted),
            // A cell that was interrupted is not kept, none is merged, and none asks for a certain body.
            Flag::Interrupted | Flag::WrongContent | Flag::NotSimultaneous | Flag::SameSeed => None,
        })
        .collect();
    if too_short && report.completed > 0 {
        marks.push(Mark::TooShort);
    }
    if other_load > OTHER_LOAD_MAX {
        marks.push(Mark::Disturbed);
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report as `manifold load --json` prints it.
    const REPORT: &str = include_str!("../tests/load-report.json");

    fn step() -> Step {
        Step { round: 2, target: 1, load: Load { keep_alive: true, concurrency: 100 } }
    }

    #[test]
    fn a_cell_joins_both_sides() {
        let report: Report = serde_json::from_str(REPORT).expect("the generator's own form");
        let used = Usage {
            cpu: Duration::from_millis(300),
            user: Duration::from_millis(100),
            system: Duration::from_millis(200),
            processes: 17,
            threads: 433,
        };
        let cell = cell(&step(), &report, 44, &used, Some(2048), 0.02);
        assert_eq!((cell.round, cell.target, cell.load()), (2, 1, step().load));
        assert_eq!(cell.completed, report.completed);
        assert_eq!(cell.worked_on, report.completed_with_warmup + report.unfinished.count);
        assert_eq!((cell.cpu_s, cell.pss_kib, cell.threads), (0.3, Some(2048), 433));
        assert_eq!(cell.latency_us.map(|l| l.p99), report.latency_us.map(|l| l.p99));
        assert!(cell.usable());
    }

    /// A connection that was never taken up has a request waiting that the server never saw.
    #[test]
    fn unserved_requests_are_not_the_servers_work() {
        let mut report: Report = serde_json::from_str(REPORT).expect("the generator's own form");
        report.unfinished.count = 100;
        report.unserved_connections = 40;
        let cell = cell(&step(), &report, 44, &Usage::default(), None, 0.0);
        assert_eq!(cell.worked_on, report.completed_with_warmup + 60);
        let cell = super::cell(&step(), &report, 10 << 20, &Usage::default(), None, 0.0);
        assert_eq!(cell.worked_on, report.completed_with_warmup + 30);
    }

    #[test]
    fn a_large_server_is_warmed_up_longer() {
        let ms = Duration::from_millis;
        for (memory_takes, expected) in [(0, 120), (20, 120), (30, 130), (10_000, 500)] {
            assert_eq!(warm_up(ms(120), ms(memory_takes)), ms(expected), "{memory_takes} ms");
        }
        assert_eq!(warm_up(ms(600), ms(1)), ms(600));
    }

    #[test]
    fn flags_become_marks() {
        let mut report: Report = serde_json::from_str(REPORT).expect("the generator's own form");
        for (flags, answers, other, expected) in [
            (&[][..], 1000, 0.05, &[][..]),
            (&[Flag::GeneratorSaturated, Flag::Errors], 1000, 0.0, &[Mark::GeneratorSaturated, Mark::Errors]),
            (&[Flag::WrongLength], 1000, 0.5, &[Mark::WrongLength, Mark::Disturbed]),
            (&[Flag::UnservedConnections, Flag::Stalled], 1000, 0.0, &[Mark::Unserved, Mark::Stalled]),
            (&[Flag::UnservedConnections], 150, 0.0, &[Mark::TooShort]),
        ] {
            report.flags = flags.to_vec();
            report.completed_with_warmup = answers;
            assert_eq!(marks(&report, other), expected, "{flags:?}");
        }
    }
}
