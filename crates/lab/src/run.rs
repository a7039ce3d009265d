//! `lab run`: start every server, measure every cell, stop every server, write what was found.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::cli::Settings;
use crate::cores::{self, Cores};
use crate::environment;
use crate::experiment::Step;
use crate::figures::Cells;
use crate::generator::Bench;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::results::{Cell, FORMAT, Missing, PageInfo, Results, TargetInfo};
use crate::sampler;
use crate::server::{self, Server};
use crate::target::{Installed, Terms};
use crate::words;

/// The exit code of a run that Ctrl-C ended, as shells expect it.
const INTERRUPTED: u8 = 130;
/// Descriptors wanted: a thousand connections and more in the generator and in each server.
const DESCRIPTORS_WANTED: u64 = 65_536;

/// Runs the experiment.
///
/// # Errors
/// What prevented any result.
pub fn run(settings: &Settings) -> Result<ExitCode> {
    let began = Instant::now();
    let manifold = std::env::current_exe().context("cannot tell which program this is")?;
    let (installed, mut missing) = detect(settings, &manifold)?;
    let user = environment::server_user().map_err(anyhow::Error::msg)?;
    raise_descriptors();
    let out = Output::create(settings.out.as_deref())?;
    let scratch = Scratch::with_page()?;
    let cores = Cores::detect();
    let environment = environment::describe(&cores, &settings.command);
    cores::bind(&cores.generator).context("cannot keep to the generator's processors")?;
    let interrupt = Interrupt::catch().context("cannot catch Ctrl-C")?;

    let mut progress = Progress::new(settings.experiment.plan(installed.len()).len(), settings.experiment.cell_time());
    progress.note(&format!(
        "{} targets, {} loads, {} rounds: about {}. Ctrl-C ends it early and keeps what was measured.",
        installed.len(),
        settings.experiment.loads().len(),
        settings.experiment.rounds,
        crate::text::duration(settings.experiment.estimate(installed.len()).as_secs_f64())
    ));
    let site = settings.site.as_deref().unwrap_or(&scratch.site);
    let user = user.as_ref().map(|(user, group)| (user.as_str(), group.as_str()));
    let mut servers =
        Fleet::start(settings, &installed, &out, site, &cores, user, &manifold, &mut missing, &progress, &interrupt)?;
    let targets = servers.describe();

    let log = File::create(out.folder().join("generator.log")).context("cannot write generator.log")?;
    let bench = Bench {
        manifold: &manifold,
        experiment: &settings.experiment,
        cores: &cores,
        path: &settings.page.path,
        bytes: settings.page.body.len() as u64,
        log: &log,
    };
    let (cells, ended) = measure(settings, &bench, &mut servers, &mut missing, &mut progress, &interrupt);
    progress.end();
    servers.stop();

    let figures = Cells::new(&settings.experiment, &cells).figures(targets.len());
    let results = Results {
        format: FORMAT,
        experiment: settings.experiment.clone(),
        page: PageInfo {
            site: settings.site.as_ref().map(|site| site.display().to_string()),
            path: settings.page.path.clone(),
            bytes: settings.page.body.len() as u64,
        },
        targets,
        missing,
        environment,
        ended_early: ended.as_ref().map(|ended| ended.reason.clone()),
        took_s: began.elapsed().as_secs_f64(),
        cells,
        figures,
    };
    out.write(&results)?;
    conclude(&results, &out, ended.as_ref(), &progress);
    Ok(ended.map_or(ExitCode::SUCCESS, |ended| ExitCode::from(ended.code)))
}

/// Which targets are there; those that are not become remarks, or errors where they were asked for by name.
fn detect(settings: &Settings, manifold: &Path) -> Result<(Vec<Installed>, Vec<Missing>)> {
    let mut installed = Vec::new();
    let mut missing = Vec::new();
    for &target in &settings.targets {
        match target.detect(manifold) {
            Ok(found) => installed.push(found),
            Err(reason) if settings.named => bail!("--targets {}: {reason}", target.name),
            Err(reason) => missing.push(Missing { label: target.label.to_owned(), reason }),
        }
    }
    Ok((installed, missing))
}

/// Why a run ended before its plan did.
struct Ended {
    reason: String,
    code: u8,
}

/// Goes through the plan.
fn measure(
    settings: &Settings,
    bench: &Bench<'_>,
    servers: &mut Fleet,
    missing: &mut Vec<Missing>,
    progress: &mut Progress,
    interrupt: &Interrupt,
) -> (Vec<Cell>, Option<Ended>) {
    let plan = settings.experiment.plan(servers.0.len());
    let mut cells = Vec::with_capacity(plan.len());
    for (done, step) in plan.iter().enumerate() {
        let Some(server) = servers.0[step.target].as_mut() else { continue };
        progress.show(done, &describe(step, server, settings));
        let interrupted =
            || Ended { reason: format!("interrupted after {done} of {} cells", plan.len()), code: INTERRUPTED };
        if interrupt.came() {
            return (cells, Some(interrupted()));
        }
        match bench.measure(step, server, interrupt) {
            Ok(Some(cell)) => cells.push(cell),
            Ok(None) => return (cells, Some(interrupted())),
            Err(error) if !server.alive() => {
                let label = server.installed.target.label.to_owned();
                progress.note(&format!("{label} is out of the run: {error:#}"));
                missing.push(Missing { label, reason: format!("it ended after {done} of {} cells", plan.len()) });
                servers.0[step.target] = None;
                if servers.0.iter().all(Option::is_none) {
                    return (cells, Some(Ended { reason: "every server had ended".to_owned(), code: 1 }));
                }
            }
            Err(error) => return (cells, Some(Ended { reason: format!("{error:#}"), code: 1 })),
        }
    }
    (cells, None)
}

fn describe(step: &Step, server: &Server, settings: &Settings) -> String {
    format!(
        "round {} of {}, {} {}, {} connections",
        step.round + 1,
        settings.experiment.rounds,
        server.installed.target.label,
        words::mode(step.load.keep_alive),
        step.load.concurrency
    )
}

/// The answer on the terminal, and where the rest is.
fn conclude(results: &Results, out: &Output, ended: Option<&Ended>, progress: &Progress) {
    if let Some(ended) = ended {
        progress.note(&format!(
            "Ended early: {}. The servers were stopped; {} saved.",
            ended.reason,
            crate::text::counted(results.cells.len(), "measured cell")
        ));
    }
    let answer = words::answer(results);
    println!("\n{}\n", answer.headline);
    for point in &answer.points {
        println!("{}: {}\n", point.title, point.text);
    }
    println!("Report: {}", out.folder().join("report.html").display());
    println!("Took {}; repeat it with: {}", crate::text::duration(results.took_s), results.environment.command);
}

/// The servers of a run, by index of their target; `None` for one that is gone.
struct Fleet(Vec<Option<Server>>);

impl Fleet {
    /// Starts them all, waits until each answers with the page and has its full size.
    #[allow(clippy::too_many_arguments)]
    fn start(
        settings: &Settings,
        installed: &[Installed],
        out: &Output,
        site: &Path,
        cores: &Cores,
        user: Option<(&str, &str)>,
        manifold: &Path,
        missing: &mut Vec<Missing>,
        progress: &Progress,
        interrupt: &Interrupt,
    ) -> Result<Fleet> {
        let ports = server::free_ports(installed.len()).context("no free port on 127.0.0.1")?;
        let mut fleet = Fleet(Vec::new());
        for (found, port) in installed.iter().zip(ports) {
            let folder = out.folder().join("servers").join(found.target.name);
            let terms = Terms { port, site, folder: &folder, cores: &cores.server, user };
            let started = Server::start(found, &terms, manifold)
                .and_then(|mut server| server.wait_ready(&settings.page).map(|()| server));
            match started {
                Ok(server) => fleet.0.push(Some(server)),
                Err(error) if settings.named => return Err(error),
                Err(error) => {
                    progress.note(&format!("{} is left out: {error:#}", found.target.label));
                    missing.push(Missing { label: found.target.label.to_owned(), reason: format!("{error:#}") });
                }
            }
            if interrupt.came() {
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

    fn describe(&self) -> Vec<TargetInfo> {
        let of = |server: &Server| {
            let target = server.installed.target;
            let usage = sampler::usage(server.pid()).unwrap_or_default();
            TargetInfo {
                name: target.name.to_owned(),
                label: target.label.to_owned(),
                family: target.family,
                model: target.model,
                version: server.installed.version.clone(),
                processes: usage.processes,
                threads: usage.threads,
                pss_fresh_kib: sampler::pss_kib(server.pid()).ok(),
            }
        };
        self.0.iter().flatten().map(of).collect()
    }

    /// Ends them side by side.
    fn stop(&mut self) {
        for server in self.0.iter().flatten() {
            server.ask_to_end();
        }
        for server in self.0.iter_mut().filter_map(Option::take) {
            server.stop();
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A folder that every user may read, for the built-in page; gone at the end of the run.
struct Scratch {
    site: PathBuf,
}

impl Scratch {
    fn with_page() -> Result<Scratch> {
        let site = std::env::temp_dir().join(format!("manifold-lab-{}", std::process::id()));
        fs::create_dir(&site).with_context(|| format!("cannot make the folder {}", site.display()))?;
        let scratch = Scratch { site };
        let page = scratch.site.join("index.html");
        fs::write(&page, crate::cli::BUILT_IN_PAGE).with_context(|| format!("cannot write {}", page.display()))?;
        // Whatever the umask: the servers run as another user when we are root.
        fs::set_permissions(&scratch.site, fs::Permissions::from_mode(0o755))?;
        fs::set_permissions(&page, fs::Permissions::from_mode(0o644))?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.site);
    }
}

/// As many descriptors as we may have; children inherit the limit.
fn raise_descriptors() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let wanted = DESCRIPTORS_WANTED.min(hard);
        if soft < wanted {
            // With fewer the generator says so, cell by cell.
            let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard);
        }
    }
}
