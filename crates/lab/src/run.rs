//! `lab run`: start every server, measure every cell, stop every server, write what was found.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::absent::Absent;
use crate::cli::Settings;
use crate::cores::{self, Cores};
use crate::environment;
use crate::experiment::Step;
use crate::figures::Cells;
use crate::generator::{self, Amount, Ask, Bench, Memory};
use crate::interrupt::Interrupt;
use crate::keeper::{Attempt, Keeper};
use crate::output::Output;
use crate::progress::{self, Progress};
use crate::results::{Cell, Environment, FORMAT, Missing, NAME, PageInfo, Results, TargetInfo};
use crate::sampler;
use crate::scratch::Scratch;
use crate::server::{self, Server};
use crate::store::kinds;
use crate::target::{Installed, Limits, Terms};
use crate::{text, wire, words};

/// The exit code of a run that Ctrl-C ended, as shells expect it.
const INTERRUPTED: u8 = 130;

/// Runs the experiment.
///
/// # Errors
/// What prevented any result.
pub fn run(settings: &Settings, attempt: Attempt) -> Result<ExitCode> {
    let mut run = Run::prepare(settings, &attempt)?;
    let installed = run.absent.detect(&settings.targets, &run.manifold)?;
    progress::note(&format!(
        "{}, {}, {}: about {}. Ctrl-C ends it early and keeps what was measured.",
        text::counted(installed.len(), "target"),
        text::counted(settings.experiment.loads().len(), "load"),
        text::counted(settings.experiment.rounds as usize, "round"),
        text::duration(settings.experiment.estimate(installed.len()).as_secs_f64())
    ));
    let mut servers = run.start(&installed)?;
    let targets = servers.describe(settings.experiment.warm_up_s);
    let mut kept = Keeper::of::<Results>(attempt, NAME, &run.environment, &run.out)?;
    let (cells, ended) = run.measure(&mut servers, &mut kept)?;
    servers.stop();

    let results = Results {
        format: FORMAT,
        experiment: settings.experiment.clone(),
        page: PageInfo {
            site: settings.site.as_ref().map(|site| site.display().to_string()),
            path: settings.page.path.clone(),
            bytes: settings.page.body.len() as u64,
        },
        figures: Cells::new(&settings.experiment, &cells).figures(targets.len()),
        targets,
        missing: run.absent.list,
        environment: run.environment,
        ended_early: ended.as_ref().map(|ended| ended.reason.clone()),
        took_s: kept.took_s(),
        cells,
    };
    run.out.write(&results)?;
    conclude(&results, &run.out, ended.as_ref());
    kept.end(&results);
    Ok(ended.map_or(ExitCode::SUCCESS, |ended| ExitCode::from(ended.code)))
}

/// A run under way.
struct Run<'s> {
    settings: &'s Settings,
    /// This binary: server, generator and helper.
    manifold: PathBuf,
    user: Option<(String, String)>,
    out: Output,
    scratch: Scratch,
    cores: Cores,
    environment: Environment,
    interrupt: Interrupt,
    absent: Absent,
}

/// Why a run ended before its plan did.
pub struct Ended {
    /// As a sentence.
    pub reason: String,
    /// The exit code that tells it.
    pub code: u8,
}

impl Run<'_> {
    fn prepare<'s>(settings: &'s Settings, attempt: &Attempt) -> Result<Run<'s>> {
        let manifold = std::env::current_exe().context("cannot tell which program this is")?;
        let user = environment::server_user().map_err(anyhow::Error::msg)?;
        let out = attempt.output(settings.out.as_deref())?;
        let cores = Cores::detect();
        let environment = environment::describe(&cores, &settings.command);
        cores::bind(&cores.generator).context("cannot keep to the generator's processors")?;
        // With fewer the generator says so, cell by cell.
        wire::raise_descriptors(wire::DESCRIPTORS_WANTED);
        let interrupt = Interrupt::catch().context("cannot catch Ctrl-C")?;
        let scratch = Scratch::new(&manifold)?;
        write_page(scratch.folder())?;
        let absent = Absent::of(settings.named);
        Ok(Run { settings, manifold, user, out, scratch, cores, environment, interrupt, absent })
    }

    /// Starts all servers, waits until each answers with the page and has its full size.
    fn start(&mut self, installed: &[Installed]) -> Result<Fleet> {
        let ports = server::free_ports(installed.len()).context("no free port on 127.0.0.1")?;
        let site = self.settings.site.clone().unwrap_or_else(|| self.scratch.folder().to_owned());
        let mut fleet = Fleet(Vec::new());
        for (found, port) in installed.iter().zip(ports) {
            let folder = self.out.folder().join("servers").join(found.target.name);
            let user = self.user.as_ref().map(|(user, group)| (user.as_str(), group.as_str()));
            let page = &self.settings.page;
            let terms = Terms {
                port,
                site: &site,
                folder: &folder,
                cores: &self.cores.server,
                user,
                limits: &Limits::USUAL,
                body_bytes: page.body.len(),
            };
            let started = Server::start(found, &terms, &self.manifold)
                .and_then(|mut server| server.wait_ready(page).map(|()| server));
            match started {
                Ok(server) => fleet.0.push(Some(server)),
                Err(error) => self.absent.leave_out(found.target, &format!("{error:#}"))?,
            }
            if self.interrupt.came() {
                bail!("interrupted while the servers were started; nothing was measured");
            }
        }
        if fleet.0.is_empty() {
            bail!("no server could be started, so there is nothing to measure; the reasons are above");
        }
        for server in fleet.0.iter().flatten() {
            server.wait_full_size();
        }
        Ok(fleet)
    }

    /// Goes through the plan.
    fn measure(&mut self, servers: &mut Fleet, kept: &mut Keeper) -> Result<(Vec<Cell>, Option<Ended>)> {
        let experiment = &self.settings.experiment;
        let plan = experiment.plan(servers.0.len());
        let log = File::create(self.out.folder().join("generator.log")).context("cannot write generator.log")?;
        let bench = Bench {
            manifold: &self.manifold,
            amount: Amount::Seconds(experiment.measured_s),
            generator: &self.cores.generator,
            pin: !self.cores.shared(),
            memory: Memory::WarmUp,
            ask: Ask::page(&self.settings.page.path, self.settings.page.body.len() as u64),
            log: &log,
        };
        let mut progress = Progress::new(plan.len(), experiment.cell_time()).telling(kept.live());
        let mut cells = Vec::with_capacity(plan.len());
        let mut ended = None;
        for (done, step) in plan.iter().enumerate() {
            let Some(server) = servers.0[step.target].as_mut() else { continue };
            progress.show(done, &describe(step, server, experiment.rounds));
            let key = step.key(server.installed.target.label);
            if let Some(cell) = kept.take::<Cell>(&key) {
                cells.push(Cell { target: step.target, ..cell });
                continue;
            }
            let measured = if self.interrupt.came() { Ok(None) } else { bench.measure(step, server, &self.interrupt) };
            let so_far = format!("after {done} of {} cells", plan.len());
            match measured {
                Ok(Some(cell)) => {
                    kept.keep(&key, &cell, &kinds::of_models(server.installed.target.label, &cell));
                    cells.push(cell);
                }
                Ok(None) => ended = Some(Ended { reason: format!("interrupted {so_far}"), code: INTERRUPTED }),
                // A server that has ended takes itself out; the others go on.
                Err(error) if !server.alive() => {
                    let label = server.installed.target.label.to_owned();
                    progress::note(&format!("{label} is out of the run: {error:#}"));
                    self.absent.list.push(Missing { label, reason: format!("it ended {so_far}") });
                    servers.0[step.target] = None;
                }
                Err(error) => ended = Some(Ended { reason: format!("{error:#} ({so_far})"), code: 1 }),
            }
            if ended.is_some() {
                break;
            }
        }
        progress.end();
        if ended.is_none() && servers.0.iter().all(Option::is_none) {
            ended = Some(Ended { reason: "every server had ended".to_owned(), code: 1 });
        }
        Ok((cells, ended))
    }
}

fn describe(step: &Step, server: &Server, rounds: u32) -> String {
    format!(
        "round {} of {rounds}, {} {}, {} connections",
        step.round + 1,
        server.installed.target.label,
        words::mode(step.load.keep_alive),
        step.load.concurrency
    )
}

/// The answer on the terminal, and where the rest is.
fn conclude(results: &Results, out: &Output, ended: Option<&Ended>) {
    if let Some(ended) = ended {
        progress::note(&format!(
            "Ended early: {}. The servers were stopped; {} saved.",
            ended.reason,
            text::counted(results.cells.len(), "measured cell")
        ));
    }
    print!("\n{}", words::terminal(results));
    println!("Report: {}", out.folder().join("report.html").display());
    println!("Took {}; repeat it with: {}", text::duration(results.took_s), results.environment.command);
}

/// The servers of a run, by index of their target; `None` for one that is gone.
struct Fleet(Vec<Option<Server>>);

impl Fleet {
    /// Looks at each server before any load, and decides its warm-up by that.
    fn describe(&mut self, warm_up_s: f64) -> Vec<TargetInfo> {
        let of = |server: &mut Server| {
            let target = server.installed.target;
            let pids = sampler::tree(server.pid()).unwrap_or_default();
            let usage = sampler::usage(&pids);
            let began = Instant::now();
            let pss_fresh_kib = sampler::pss_kib(&pids, began + Duration::from_secs(5));
            server.warm_up = generator::warm_up(Duration::from_secs_f64(warm_up_s), began.elapsed());
            TargetInfo {
                name: target.name.to_owned(),
                label: target.label.to_owned(),
                family: target.family,
                model: target.model,
                version: server.installed.version.clone(),
                processes: usage.processes,
                threads: usage.threads,
                pss_fresh_kib,
                warm_up_s: server.warm_up.as_secs_f64(),
            }
        };
        self.0.iter_mut().flatten().map(of).collect()
    }

    /// Ends them side by side.
    fn stop(&mut self) {
        for server in self.0.iter().flatten() {
            server.ask_to_end();
        }
        self.0.clear();
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Puts the built-in page into a folder that every user may read.
fn write_page(site: &Path) -> Result<()> {
    let page = site.join("index.html");
    fs::write(&page, crate::cli::BUILT_IN_PAGE).with_context(|| format!("cannot write {}", page.display()))?;
    // Whatever the umask: the servers run as another user when we are root.
    fs::set_permissions(site, fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(&page, fs::Permissions::from_mode(0o644))?;
    Ok(())
}
