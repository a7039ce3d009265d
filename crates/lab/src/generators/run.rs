//! Running `generators`: one fast target, and rounds of every generator under every load in random order, while there is time.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use manifold_stats::Rng;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use super::nginx::{self, Nginx};
use super::plan::{self, Over, Step, WORKS, Work};
use super::program::{Found, Job, PROGRAMS, siegerc};
use super::results::{Cell, Described, FORMAT, Generators};
use super::{PLACE, Settings, view};
use crate::cores::{self, Cores};
use crate::environment;
use crate::interrupt::Interrupt;
use crate::keeper::{Attempt, Keeper};
use crate::output::Output;
use crate::peers::fleet::{Places, Starter};
use crate::peers::page;
use crate::peers::plan::Page;
use crate::progress::{self, Progress};
use crate::results::{Environment, Missing};
use crate::run::Ended;
use crate::server::Server;
use crate::staged::Stage;
use crate::store::{Key, kinds};
use crate::target::TARGETS;
use crate::{proc, text, wire};

/// The exit code of a run that Ctrl-C ended, as shells expect it.
const INTERRUPTED: u8 = 130;
/// How often a generator is looked at for its memory.
const LOOK: Duration = Duration::from_millis(5);
/// A generator that takes so much longer than it was told is killed.
const LATE: Duration = Duration::from_secs(15);
/// What a cell costs beside its length.
const CELL_OVERHEAD: Duration = Duration::from_millis(150);
/// With fewer rounds nothing can be compared, so a budget does not cut below them.
const ROUNDS_LEAST: u32 = 3;
/// A run ends, whatever its budget.
const ROUNDS_MOST: u32 = 1000;
/// The target that generators are pointed at.
const TARGET: &str = "responder";

/// Runs the experiment.
pub fn run(settings: &Settings, attempt: Attempt) -> Result<ExitCode> {
    let mut run = Run::prepare(settings, &attempt)?;
    let found = run.detect()?;
    if found.is_empty() {
        bail!("none of the generators is there, so there is nothing to measure; the reasons are above");
    }
    let targets = run.start_targets()?;
    let works: Vec<Work> = WORKS.into_iter().filter(|work| targets.url(work.over).is_some()).collect();
    progress::note(&format!(
        "{}, up to {} each, rounds until {} are over. Ctrl-C ends it early and keeps what was measured.",
        text::counted(found.len(), "generator"),
        text::counted(works.len(), "load"),
        text::duration(settings.budget.as_secs_f64())
    ));
    let programs: Vec<_> = found.iter().map(|found| found.program).collect();
    let mut kept = Keeper::of::<Generators>(attempt, PLACE, &run.environment, &run.out)?;
    let mut rng = Rng::new(settings.seed);
    let (mut cells, mut rounds, mut ended) = (Vec::new(), 0, None);
    let mut last_round = Duration::ZERO;
    while ended.is_none() && run.another(rounds, kept.took() + last_round) {
        let began = Instant::now();
        let order = plan::round(&programs, &works, &mut rng);
        ended = run.round(rounds, &order, &found, &targets, (&mut cells, &mut kept))?;
        last_round = began.elapsed();
        rounds += u32::from(ended.is_none());
    }
    targets.plain.ask_to_end();
    if let Some(nginx) = &targets.nginx {
        nginx.server.ask_to_end();
    }
    let generators = Generators {
        format: FORMAT,
        seed: settings.seed,
        seconds: settings.seconds,
        rounds,
        programs: found.iter().map(described).collect(),
        missing: std::mem::take(&mut run.missing),
        environment: run.environment.clone(),
        ended_early: ended.as_ref().map(|ended| ended.reason.clone()),
        took_s: kept.took_s(),
        cells,
    };
    let markdown = settings.markdown.as_deref().map(|file| (file, PLACE));
    page::conclude(&generators, &view::of(&generators), &run.out, markdown, kept)?;
    Ok(ended.map_or(ExitCode::SUCCESS, |ended| ExitCode::from(ended.code)))
}

fn described(found: &Found) -> Described {
    Described {
        name: found.program.name.to_owned(),
        label: found.program.label.to_owned(),
        ours: found.program.file.is_none(),
        version: found.version.clone(),
    }
}

/// What generators are pointed at.
struct Targets {
    plain: Server,
    /// For TLS and HTTP/2; `None` where it is not installed.
    nginx: Option<Nginx>,
}

impl Targets {
    fn url(&self, over: Over) -> Option<String> {
        match over {
            Over::Plain => Some(format!("http://127.0.0.1:{}/", self.plain.port)),
            Over::Tls => self.nginx.as_ref().map(|nginx| nginx.https.clone()),
            Over::Http2 => self.nginx.as_ref().map(|nginx| nginx.http2.clone()),
        }
    }
}

/// A run under way.
struct Run<'s> {
    settings: &'s Settings,
    stage: Stage,
    /// siege keeps files in its user's home.
    home: PathBuf,
    out: Output,
    places: Places,
    environment: Environment,
    interrupt: Interrupt,
    missing: Vec<Missing>,
}

impl Run<'_> {
    fn prepare<'s>(settings: &'s Settings, attempt: &Attempt) -> Result<Run<'s>> {
        let stage = Stage::new(None)?;
        let out = attempt.output(settings.out.as_deref())?;
        let places = Places::of(&Cores::detect());
        let own = Cores { server: places.one.clone(), generator: places.apart.clone() };
        let environment = environment::describe(&own, &settings.command);
        cores::bind(&places.apart).context("cannot keep to the generator's processors")?;
        wire::raise_descriptors(wire::DESCRIPTORS_WANTED);
        let interrupt = Interrupt::catch().context("cannot catch Ctrl-C")?;
        let home = stage.folder("home")?;
        for keep_alive in [true, false] {
            stage.write("home", rc_name(keep_alive), siegerc(keep_alive).as_bytes())?;
        }
        Ok(Run { settings, stage, home, out, places, environment, interrupt, missing: Vec::new() })
    }

    /// Those that are there; the others are named.
    fn detect(&mut self) -> Result<Vec<Found>> {
        let wanted = &self.settings.names;
        let mut all = Vec::new();
        for program in &PROGRAMS {
            if !wanted.is_empty() && !wanted.iter().any(|name| name == program.name) {
                continue;
            }
            match program.detect(&self.stage.manifold) {
                Ok(found) => all.push(found),
                Err(reason) if !wanted.is_empty() => bail!("--generators {}: {reason}", program.name),
                Err(reason) => {
                    progress::note(&format!("{} is left out: {reason}", program.label));
                    self.missing.push(Missing { label: program.label.to_owned(), reason });
                }
            }
        }
        Ok(all)
    }

    fn start_targets(&mut self) -> Result<Targets> {
        let plain = self.start_responder()?;
        let nginx = match nginx::detect(&self.stage.manifold) {
            Ok(installed) => {
                let folder = self.out.folder().join("servers").join("nginx");
                Some(Nginx::start(&installed, &self.stage, &self.places, &folder)?)
            }
            Err(reason) => {
                progress::note(&format!("HTTPS and HTTP/2 are left out: {reason}"));
                self.missing.push(Missing { label: "The target of HTTPS and HTTP/2".to_owned(), reason });
                None
            }
        };
        Ok(Targets { plain, nginx })
    }

    fn start_responder(&self) -> Result<Server> {
        let target = TARGETS.iter().find(|target| target.name == TARGET).context("the target is in the list")?;
        let installed = target.detect(&self.stage.manifold).map_err(anyhow::Error::msg)?;
        let starter = Starter {
            stage: &self.stage,
            places: &self.places,
            site: &self.home,
            folder: self.out.folder().join("servers"),
            warm_up: Duration::ZERO,
        };
        starter.start(&installed, TARGET, Page::Small, false)
    }

    /// Whether another round is wanted, and there is time for it until then.
    fn another(&self, done: u32, until: Duration) -> bool {
        match self.settings.rounds {
            Some(rounds) => done < rounds,
            None if done < ROUNDS_LEAST => true,
            None => done < ROUNDS_MOST && until <= self.settings.budget,
        }
    }

    fn round(
        &self,
        round: u32,
        order: &[Step],
        found: &[Found],
        targets: &Targets,
        (cells, kept): (&mut Vec<Cell>, &mut Keeper),
    ) -> Result<Option<Ended>> {
        let cell_time = Duration::from_secs(u64::from(self.settings.seconds)) + CELL_OVERHEAD;
        let mut progress = Progress::new(order.len(), cell_time).telling(kept.live());
        for (done, &(program, work)) in order.iter().enumerate() {
            let found = &found[program];
            let key = Key::new("", round, found.program.label, &work.label());
            if let Some(cell) = kept.take::<Cell>(&key) {
                cells.push(Cell { program, ..cell });
                continue;
            }
            progress.show(done, &format!("round {}, {}, {}", round + 1, found.program.label, work.label()));
            let url = targets.url(work.over).context("there is a target for every load of the round")?;
            let job = Job {
                url: &url,
                work,
                seconds: self.settings.seconds,
                threads: self.places.apart.len(),
                siegerc: &self.home.join(rc_name(work.keep_alive)),
            };
            let so_far = || format!("after {} and {done} cells", text::counted(round as usize, "round"));
            match self.cell(round, program, found, &job) {
                Ok(Some(cell)) => {
                    kept.keep(&key, &cell, &kinds::of_generators(found.program.label, &cell));
                    cells.push(cell);
                }
                Ok(None) => {
                    progress.end();
                    return Ok(Some(Ended { reason: format!("interrupted {}", so_far()), code: INTERRUPTED }));
                }
                Err(error) => progress::note(&format!("{}, {}: {error:#}", found.program.label, work.label())),
            }
        }
        progress.end();
        Ok(None)
    }

    /// One generator under one load; `None`: interrupted.
    fn cell(&self, round: u32, program: usize, found: &Found, job: &Job<'_>) -> Result<Option<Cell>> {
        let said = self.out.folder().join(format!("{}.txt", found.program.name));
        let (used_before, began) = (children_cpu()?, Instant::now());
        let mut child = self.start(found, job, &said)?;
        let deadline = began + Duration::from_secs(u64::from(job.seconds)) + LATE;
        let mut peak_kib = None;
        while child.try_wait().context("cannot wait for the generator")?.is_none() {
            let interrupted = self.interrupt.came();
            if interrupted || Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                if interrupted {
                    return Ok(None);
                }
                bail!("it did not end in time");
            }
            let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            peak_kib = proc::peak_kib(&status).or(peak_kib);
            std::thread::sleep(LOOK);
        }
        let wall_s = began.elapsed().as_secs_f64();
        let cpu_s = children_cpu()?.saturating_sub(used_before).as_secs_f64();
        let text = fs::read_to_string(&said).with_context(|| format!("cannot read {}", said.display()))?;
        let Some(tally) = (found.program.tally)(&text) else {
            bail!("what it said cannot be understood; see {}", said.display());
        };
        let work = job.work;
        Ok(Some(Cell { round, program, work, done: tally.done, failed: tally.failed, wall_s, cpu_s, peak_kib }))
    }

    fn start(&self, found: &Found, job: &Job<'_>, said: &Path) -> Result<Child> {
        let output = File::create(said).with_context(|| format!("cannot write {}", said.display()))?;
        // As servers are started: with signals of its own, and not to outlive the laboratory.
        Command::new(&self.stage.manifold)
            .args(["lab", "exec", "--cores", &cores::text(&self.places.apart), "--"])
            .arg(&found.path)
            .args((found.program.arguments)(job))
            .env("HOME", &self.home)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", found.path.display()))
    }
}

fn rc_name(keep_alive: bool) -> &'static str {
    if keep_alive { "keep-alive.rc" } else { "close.rc" }
}

/// CPU time of all processes that were waited for, and of those that these had waited for.
fn children_cpu() -> Result<Duration> {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).context("cannot tell CPU times")?;
    let micros = used.user_time().num_microseconds() + used.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
}
