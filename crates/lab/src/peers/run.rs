//! Running `peers`: memory first, of each server anew and alone; then rounds of all loads in random order, while there is time.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use manifold_stats::Rng;

use super::fleet::{Instance, Places, Starter};
use super::plan::{self, Page, Step, Work};
use super::results::{FORMAT, Idle, PeerCell, PeerTarget, Peers};
use super::{PLACE, Settings, page, view};
use crate::absent::Absent;
use crate::cores::{self, Cores};
use crate::environment;
use crate::experiment::Step as One;
use crate::generator::{Amount, Ask, Bench, Memory};
use crate::interrupt::Interrupt;
use crate::keeper::{Attempt, Keeper};
use crate::output::Output;
use crate::progress::{self, Progress};
use crate::results::{Cell, Environment, Mark, Missing};
use crate::run::Ended;
use crate::sampler;
use crate::slow_test::holders::{Holders, Wanted};
use crate::slow_test::kind::Kind;
use crate::staged::Stage;
use crate::store::{Key, kinds};
use crate::target::Installed;
use crate::{text, wire};

/// The exit code of a run that Ctrl-C ended, as shells expect it.
const INTERRUPTED: u8 = 130;
/// Idle connections while memory is looked at.
const IDLE: usize = 1000;
/// How long they may take to arrive.
const ARRIVE_WITHIN: Duration = Duration::from_secs(20);
/// After they have, the server is left alone so that what they set off is over.
const SETTLE: Duration = Duration::from_millis(300);
/// What a cell costs beside its warm-up and its measured time.
const CELL_OVERHEAD: Duration = Duration::from_millis(110);
/// A cell that was too short is measured once again, so many times as long.
const LONGER: f64 = 8.0;
/// Starting and stopping a server; large ones take longer, small ones less.
const START_AND_STOP: Duration = Duration::from_secs(2);
/// With fewer rounds nothing can be compared, so a budget does not cut below them.
const ROUNDS_LEAST: u32 = 3;
/// A run ends, whatever its budget.
const ROUNDS_MOST: u32 = 1000;

/// Runs the experiment.
pub fn run(settings: &Settings, attempt: Attempt) -> Result<ExitCode> {
    let mut run = Run::prepare(settings, &attempt)?;
    let installed = run.absent.detect(&settings.targets, &run.manifold)?;
    progress::note(&format!(
        "{}: memory first, then rounds of all loads; about {} in all. Ctrl-C ends it early and keeps what was measured.",
        text::counted(installed.len(), "target"),
        run.expected_time(&installed)
    ));
    let mut kept = Keeper::of::<Peers>(attempt, PLACE, &run.environment, &run.out)?;
    let mut idle = Vec::new();
    let mut ended = run.measure_idle(&installed, &mut idle, &mut kept)?;
    let mut measured = Measured::default();
    if ended.is_none() {
        ended = run.measure(&installed, &mut measured, &mut kept)?;
    }
    let peers = Peers {
        format: FORMAT,
        seed: settings.seed,
        warm_up_s: settings.warm_up_s,
        measured_s: settings.measured_s,
        rounds: measured.rounds,
        targets: installed.iter().map(described).collect(),
        missing: std::mem::take(&mut run.absent.list),
        environment: run.environment.clone(),
        ended_early: ended.as_ref().map(|ended| ended.reason.clone()),
        took_s: kept.took_s(),
        cells: measured.cells,
        idle,
    };
    let markdown = settings.markdown.as_deref().map(|file| (file, PLACE));
    page::conclude(&peers, &view::View::of(&peers), &run.out, markdown, kept)?;
    Ok(ended.map_or(ExitCode::SUCCESS, |ended| ExitCode::from(ended.code)))
}

/// A run under way.
struct Run<'s> {
    settings: &'s Settings,
    /// A copy of this binary: were our servers, the generator and the laboratory the same file, they would share its pages,
    /// and each server's part of them would be smaller than it is alone.
    manifold: PathBuf,
    stage: Stage,
    site: PathBuf,
    out: Output,
    places: Places,
    environment: Environment,
    interrupt: Interrupt,
    absent: Absent,
}

#[derive(Default)]
struct Measured {
    cells: Vec<PeerCell>,
    /// Complete ones.
    rounds: u32,
}

impl Run<'_> {
    fn prepare<'s>(settings: &'s Settings, attempt: &Attempt) -> Result<Run<'s>> {
        let stage = Stage::new(None)?;
        let out = attempt.output(settings.out.as_deref())?;
        let detected = Cores::detect();
        let places = Places::of(&detected);
        let own = Cores { server: places.one.clone(), generator: places.apart.clone() };
        let environment = environment::describe(&own, &settings.command);
        cores::bind(&places.apart).context("cannot keep to the generator's processors")?;
        wire::raise_descriptors(wire::DESCRIPTORS_WANTED);
        let interrupt = Interrupt::catch().context("cannot catch Ctrl-C")?;
        let mut site = PathBuf::new();
        for page in Page::ALL {
            let file = stage.write("site", page.file(), &page.body())?;
            site = file.parent().unwrap_or(Path::new("/")).to_owned();
        }
        let manifold = stage.folder("program")?.join("manifold");
        fs::copy(&stage.manifold, &manifold).context("cannot copy this program")?;
        fs::set_permissions(&manifold, fs::Permissions::from_mode(0o755)).context("cannot copy this program")?;
        let absent = Absent::of(settings.named);
        Ok(Run { settings, manifold, stage, site, out, places, environment, interrupt, absent })
    }

    /// How long these cells take.
    fn time(&self, steps: &[Step]) -> Duration {
        let of = |step: &Step| {
            let seconds = self.settings.warm_up_s + step.1.measured_s(self.settings.measured_s);
            Duration::from_secs_f64(seconds) + CELL_OVERHEAD
        };
        steps.iter().map(of).sum()
    }

    fn steps(&self, installed: &[Installed]) -> Vec<Step> {
        let names: Vec<&str> = installed.iter().map(|installed| installed.target.name).collect();
        plan::steps(&names, self.places.two.is_some())
    }

    fn expected_time(&self, installed: &[Installed]) -> String {
        let rounds = self.settings.rounds.unwrap_or(ROUNDS_LEAST);
        let least = self.time(&self.steps(installed)) * rounds;
        let starts = (self.settings.passes + 1) * installed.len() as u32;
        let least = least + START_AND_STOP * starts;
        let wanted = if self.settings.rounds.is_some() { least } else { least.max(self.settings.budget) };
        text::duration(wanted.as_secs_f64())
    }

    fn starter(&self, folder: &str) -> Starter<'_> {
        Starter {
            stage: &self.stage,
            places: &self.places,
            site: &self.site,
            folder: self.out.folder().join(folder),
            warm_up: Duration::from_secs_f64(self.settings.warm_up_s),
        }
    }

    /// Memory of each server with idle connections, each anew and alone.
    fn measure_idle(&self, installed: &[Installed], idle: &mut Vec<Idle>, kept: &mut Keeper) -> Result<Option<Ended>> {
        let mut rng = Rng::new(self.settings.seed);
        let starter = self.starter("servers-idle");
        let total = installed.len() * self.settings.passes as usize;
        let mut progress = Progress::new(total, START_AND_STOP).telling(kept.live());
        for pass in 0..self.settings.passes {
            let mut order: Vec<usize> = (0..installed.len()).collect();
            rng.shuffle(&mut order);
            for target in order {
                let label = installed[target].target.label;
                progress.show(idle.len(), &format!("{label}, memory with {IDLE} idle connections"));
                let key = Key::new("memory", pass, label, "idle");
                if let Some(seen) = kept.take::<Idle>(&key) {
                    idle.push(Idle { target, ..seen });
                    continue;
                }
                if self.interrupt.came() {
                    return Ok(Some(interrupted("while memory was measured")));
                }
                match self.idle(&starter, &installed[target], target, pass) {
                    Ok(one) => {
                        kept.keep(&key, &one, &[]);
                        idle.push(one);
                    }
                    // It is named when it cannot be started for the rounds either.
                    Err(error) => progress::note(&format!("{label}: no memory measured: {error:#}")),
                }
            }
        }
        progress.end();
        Ok(None)
    }

    fn idle(&self, starter: &Starter<'_>, installed: &Installed, target: usize, pass: u32) -> Result<Idle> {
        let name = format!("{}-{pass}", installed.target.name);
        let server = starter.start(installed, &name, Page::Small, false)?;
        let far = Instant::now() + ARRIVE_WITHIN;
        let fresh_kib = sampler::pss_kib(&sampler::tree(server.pid())?, far);
        let wanted = Wanted { port: server.port, kind: Kind::Idle, clients: IDLE, within: ARRIVE_WITHIN };
        let mut holders = Holders::start(&self.stage.manifold, &wanted, IDLE)?;
        holders.wait_open(&wanted, || self.interrupt.came())?;
        std::thread::sleep(SETTLE);
        let tree = sampler::tree(server.pid())?;
        let idle_kib = sampler::pss_kib(&tree, far + ARRIVE_WITHIN);
        let used = sampler::usage(&tree);
        let open = holders.held()?.open;
        let (processes, threads) = (used.processes, used.threads);
        Ok(Idle { target, pass, fresh_kib, idle_kib, open, wanted: IDLE, processes, threads })
    }

    /// Rounds of all loads.
    fn measure(
        &mut self,
        installed: &[Installed],
        measured: &mut Measured,
        kept: &mut Keeper,
    ) -> Result<Option<Ended>> {
        let steps = self.steps(installed);
        let mut fleet = self.start(installed, &steps)?;
        let log = File::create(self.out.folder().join("generator.log")).context("cannot write generator.log")?;
        let mut rng = Rng::new(self.settings.seed);
        let mut ended = None;
        let mut last_round = self.time(&steps);
        while ended.is_none() && self.another(measured.rounds, kept.took() + last_round) {
            let round_began = Instant::now();
            let order = plan::round(&steps, &mut rng);
            ended = self.round(&order, &mut fleet, &log, (measured, kept))?;
            last_round = round_began.elapsed();
        }
        for instance in fleet.iter().filter_map(|instance| instance.server.as_ref()) {
            instance.ask_to_end();
        }
        Ok(ended)
    }

    /// Whether another round is wanted, and there is time for it until then.
    fn another(&self, done: u32, until: Duration) -> bool {
        match self.settings.rounds {
            Some(rounds) => done < rounds,
            None if done < ROUNDS_LEAST => true,
            None => done < ROUNDS_MOST && until <= self.settings.budget,
        }
    }

    /// Starts all servers.
    fn start(&mut self, installed: &[Installed], steps: &[Step]) -> Result<Vec<Instance>> {
        let mut fleet = Vec::new();
        for (target, found) in installed.iter().enumerate() {
            progress::note(&format!("{} starts", found.target.label));
            let works: Vec<Work> = steps.iter().filter(|step| step.0 == target).map(|step| step.1).collect();
            let started = self.starter("servers").start_all(target, found, &works);
            match started {
                Ok(instances) => fleet.extend(instances),
                Err(error) => self.absent.leave_out(found.target, &format!("{error:#}"))?,
            }
            if self.interrupt.came() {
                bail!("interrupted while the servers were started; only memory was measured");
            }
        }
        if fleet.is_empty() {
            bail!("no server could be started, so there is nothing to measure; the reasons are above");
        }
        Ok(fleet)
    }

    fn round(
        &mut self,
        order: &[Step],
        fleet: &mut [Instance],
        log: &File,
        (measured, kept): (&mut Measured, &mut Keeper),
    ) -> Result<Option<Ended>> {
        let round = measured.rounds;
        let mut progress = Progress::new(order.len(), self.time(order) / order.len().max(1) as u32);
        progress = progress.telling(kept.live());
        for (done, &(target, work)) in order.iter().enumerate() {
            let Some(instance) = fleet.iter_mut().find(|instance| instance.serves(target, work)) else { continue };
            let Some(server) = instance.server.as_mut() else { continue };
            let label = server.installed.target.label;
            let key = Key::new("", round, label, &work.label());
            if let Some(seen) = kept.take::<PeerCell>(&key) {
                let cell = Cell { target, ..seen.cell };
                measured.cells.push(PeerCell { cell, ..seen });
                continue;
            }
            progress.show(done, &format!("round {}, {label}, {}", round + 1, work.label()));
            let so_far = format!("after {} and {done} cells", text::counted(round as usize, "round"));
            let (generator, pin) = self.places.generator(work.placement);
            let measured_s = work.measured_s(self.settings.measured_s);
            let path = format!("/{}", work.page.file());
            let mut bench = Bench {
                manifold: &self.stage.manifold,
                amount: Amount::Seconds(measured_s),
                generator,
                pin,
                memory: Memory::Never,
                ask: Ask::page(&path, work.page.bytes() as u64),
                log,
            };
            let step = One { round, target, load: work.load() };
            let mut measure = |bench: &Bench<'_>| match self.interrupt.came() {
                true => Ok(None),
                false => bench.measure(&step, server, &self.interrupt),
            };
            let mut cell: Result<Option<Cell>> = measure(&bench);
            // On a slow or busy machine some need longer; those that do not are not held up for them.
            if matches!(&cell, Ok(Some(cell)) if cell.marks.contains(&Mark::TooShort)) {
                bench.amount = Amount::Seconds(measured_s * LONGER);
                cell = measure(&bench);
            }
            match cell {
                Ok(Some(cell)) => {
                    let seen = PeerCell { work, cell };
                    kept.keep(&key, &seen, &kinds::of_peers(label, &seen));
                    measured.cells.push(seen);
                }
                Ok(None) => return Ok(Some(interrupted(&so_far))),
                // A server that has ended takes itself out; the others go on.
                Err(error) if !server.alive() => {
                    progress::note(&format!("{label} is out of the run: {error:#}"));
                    self.absent.list.push(Missing { label: label.to_owned(), reason: format!("it ended {so_far}") });
                    instance.server = None;
                }
                Err(error) => return Ok(Some(Ended { reason: format!("{error:#} ({so_far})"), code: 1 })),
            }
        }
        progress.end();
        measured.rounds += 1;
        Ok(None)
    }
}

fn interrupted(when: &str) -> Ended {
    Ended { reason: format!("interrupted {when}"), code: INTERRUPTED }
}

fn described(installed: &Installed) -> PeerTarget {
    let target = installed.target;
    PeerTarget {
        name: target.name.to_owned(),
        label: target.label.to_owned(),
        family: target.family,
        model: target.model,
        version: installed.version.clone(),
    }
}
