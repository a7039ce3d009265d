//! Running studies: the servers of one are started together and loaded one at a time, in rounds of a random order; then the next.

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use manifold_load::native::find_max::Outcome;
use manifold_load::report::Report;
use manifold_stats::{Rng, next_look};
use nix::sys::signal::Signal;

use super::metric::Metric;
use super::reload::Reloads;
use super::resolve::{Load, Origin, Study, Subject, Work};
use super::results::{FORMAT, Found, Studies, StudyCell};
use super::start::{Started, Starter};
use super::{Settings, claims, idle, page, slow, view};
use crate::cores::{self, Cores};
use crate::environment;
use crate::experiment::{self, Step};
use crate::generator::{Amount, Bench, Memory, Search};
use crate::interrupt::Interrupt;
use crate::keeper::{Attempt, Keeper};
use crate::output::Output;
use crate::progress::{self, Progress};
use crate::reload_test::tally::Counts;
use crate::results::{Cell, Environment, Mark, Missing};
use crate::run::Ended;
use crate::slow_test::kind::{LARGE, LARGE_BYTES};
use crate::staged::Stage;
use crate::store::kinds;
use crate::target::Family;
use crate::{text, wire};

/// The exit code of a run that Ctrl-C ended, as shells expect it.
const INTERRUPTED: u8 = 130;
/// Load before the measured time of cells that last some seconds.
const WARM_UP: Duration = Duration::from_millis(120);
/// The figures that are told while a run goes on; what it is to show comes at its end.
const TOLD: [Metric; 6] =
    [Metric::RequestsPerSecond, Metric::P50, Metric::P99, Metric::CpuPerRequest, Metric::Memory, Metric::Held];
/// What a cell costs beside its load, for the estimate.
const CELL_OVERHEAD_S: f64 = 0.2;
/// What a server answers at least, for the estimate of cells of so many requests.
const RATE_GUESS: f64 = 8000.0;

/// Runs the studies, or goes on with them.
///
/// # Errors
/// What prevented any result.
pub fn run(settings: &Settings, attempt: Attempt) -> Result<ExitCode> {
    let mut lab = Lab::prepare(settings, attempt)?;
    progress::note(&format!(
        "{}, about {} in all. Ctrl-C ends it early and keeps what was measured.",
        text::counted(settings.studies.len(), "experiment"),
        text::duration(settings.studies.iter().map(estimate_s).sum())
    ));
    let mut rng = Rng::new(settings.plan.seed);
    let (mut all, mut ended) = (Vec::new(), None);
    for study in &settings.studies {
        let (found, why) = lab.measure(study, &mut rng)?;
        all.push(found);
        ended = why;
        if ended.is_some() {
            break;
        }
    }
    if let Some(ended) = &ended {
        progress::note(&format!("Ended early: {}.", ended.reason));
    }
    let Lab { out, environment, keeper, .. } = lab;
    let studies = Studies {
        format: FORMAT,
        seed: settings.plan.seed,
        size: settings.plan.size,
        environment,
        ended_early: ended.as_ref().map(|ended| ended.reason.clone()),
        took_s: keeper.took_s(),
        found: all,
    };
    page::conclude(&studies, &view::View::of(&studies), &out)?;
    keeper.end(&studies);
    Ok(ended.map_or(ExitCode::SUCCESS, |ended| ExitCode::from(ended.code)))
}

/// How long a study takes, by a guess at the servers' speed.
fn estimate_s(study: &Study) -> f64 {
    let cell = |load: &Load| match &load.work {
        Work::Asks(Amount::Seconds(seconds)) => seconds + WARM_UP.as_secs_f64() + CELL_OVERHEAD_S,
        Work::Asks(Amount::Requests(requests)) => *requests as f64 / RATE_GUESS + CELL_OVERHEAD_S,
        Work::Holds(_, numbers) => numbers.len() as f64 * slow::STEP_S,
        Work::Idles => idle::CELL_S,
        Work::Reloads(seconds, _) => seconds + CELL_OVERHEAD_S,
        Work::Searches(condition, step_s) => Search { condition, step_s: *step_s }.budget_s() / 2.0,
    };
    let round: f64 = study.loads.iter().map(cell).sum::<f64>() * study.targets.len() as f64;
    round * f64::from(study.rounds) + study.targets.len() as f64
}

/// What all studies of a run share.
struct Lab {
    out: Output,
    /// Configurations and logs; they stay.
    stage: Stage,
    /// The pages; they go with the run.
    pages: Stage,
    cores: Cores,
    environment: Environment,
    interrupt: Interrupt,
    log: File,
    keeper: Keeper,
}

/// What a study loads, by index of its target; `None` for one that is gone.
type Fleet = Vec<Option<Started>>;

impl Lab {
    fn prepare(settings: &Settings, attempt: Attempt) -> Result<Lab> {
        let out = attempt.output(settings.out.as_deref())?;
        let cores = Cores::detect();
        let environment = environment::describe(&cores, &settings.command);
        cores::bind(&cores.generator).context("cannot keep to the generator's processors")?;
        wire::raise_descriptors(wire::DESCRIPTORS_WANTED);
        let interrupt = Interrupt::catch().context("cannot catch Ctrl-C")?;
        let stage = Stage::new(Some(&out.folder().join("servers")))?;
        let pages = Stage::new(None)?;
        let log = File::options().create(true).append(true).open(out.folder().join("generator.log"));
        let log = log.context("cannot write generator.log")?;
        let keeper = Keeper::of::<Studies>(attempt, &settings.plan.experiment, &environment, &out)?;
        Ok(Lab { out, stage, pages, cores, environment, interrupt, log, keeper })
    }

    /// Measures one study.
    fn measure(&mut self, study: &Study, rng: &mut Rng) -> Result<(Found, Option<Ended>)> {
        progress::note(&format!("{}: {}", study.name, study.question));
        let mut study = study.clone();
        let site = self.site(&study)?;
        let (mut fleet, missing) = self.start(&mut study, &site)?;
        let mut found = Found::new(study, missing);
        found.versions = fleet.iter().flatten().map(|started| started.version.clone()).collect();
        found.remarks = fleet.iter().flatten().flat_map(|started| started.remarks.clone()).collect();
        let mut ended = None;
        let cells = fleet.len() * found.study.loads.len() * found.study.rounds as usize;
        let guess = estimate_s(&found.study) / cells.max(1) as f64;
        let mut progress = Progress::new(cells, Duration::from_secs_f64(guess)).telling(self.keeper.live());
        let mut until = found.study.rounds;
        while ended.is_none() {
            if found.rounds == until {
                let Some(further) = further_rounds(&mut found) else { break };
                progress.grow((further - until) as usize * fleet.len() * found.study.loads.len());
                until = further;
            }
            let began = Instant::now();
            ended = self.round(&mut found, &mut fleet, (rng, &mut progress))?;
            if ended.is_none() {
                found.rounds += 1;
                // One that an earlier attempt measured takes no time.
                found.round_s = found.round_s.max(began.elapsed().as_secs_f64());
            }
        }
        progress.end();
        for server in fleet.iter().flatten().filter_map(|started| started.server.as_ref()) {
            server.ask_to_end();
        }
        Ok((found, ended))
    }

    /// The folder that is served: the user's, or one with the page that is made up.
    fn site(&self, study: &Study) -> Result<PathBuf> {
        match &study.page.site {
            Some(site) => Ok(site.clone()),
            None if study.page.theirs => self.pages.folder(&study.name),
            None => {
                self.pages.write(&study.name, study.page.path.trim_start_matches('/'), &study.page.body)?;
                if study.loads.iter().any(|load| matches!(load.work, Work::Holds(..))) {
                    self.pages.write(&study.name, LARGE.trim_start_matches('/'), &vec![b'x'; LARGE_BYTES])?;
                }
                self.pages.folder(&study.name)
            }
        }
    }

    /// Starts every target; those that cannot be leave the study, and the claims about them with them.
    fn start(&self, study: &mut Study, site: &std::path::Path) -> Result<(Fleet, Vec<Missing>)> {
        let (mut fleet, mut missing, mut kept) = (Fleet::new(), Vec::new(), Vec::new());
        for (index, subject) in study.targets.iter().enumerate() {
            let (part, page) = (&study.name, &study.page);
            match (Starter { stage: &self.stage, cores: &self.cores, part, page, site }).start(subject) {
                Ok(started) => {
                    fleet.push(Some(started));
                    kept.push(index);
                }
                Err(error) => {
                    progress::note(&format!("{} is left out: {error:#}", subject.label()));
                    missing.push(Missing { label: subject.label(), reason: text::one_line(&format!("{error:#}")) });
                }
            }
            if self.interrupt.came() {
                bail!("interrupted while the servers of {} were started", study.name);
            }
        }
        if fleet.is_empty() {
            bail!(
                "no server of {} could be started, so there is nothing to measure; the reasons are above",
                study.name
            );
        }
        study.keep_targets(&kept);
        for server in fleet.iter().flatten().filter_map(|started| started.server.as_ref()) {
            server.wait_full_size();
        }
        Ok((fleet, missing))
    }

    /// All cells once, in a random order.
    fn round(
        &mut self,
        found: &mut Found,
        fleet: &mut Fleet,
        (rng, progress): (&mut Rng, &mut Progress),
    ) -> Result<Option<Ended>> {
        let loads = found.study.loads.len();
        let mut order: Vec<(usize, usize)> =
            (0..fleet.len()).flat_map(|target| (0..loads).map(move |load| (target, load))).collect();
        rng.shuffle(&mut order);
        let before = order.len() * found.rounds as usize;
        for (done, &(target, index)) in order.iter().enumerate() {
            let Some(started) = fleet.get_mut(target).and_then(Option::as_mut) else { continue };
            let (label, load) = (found.study.targets[target].label(), &found.study.loads[index]);
            let round = format!("{}, round {} of {}", found.study.name, found.rounds + 1, found.study.rounds);
            progress.show(before + done, &format!("{round}, {label}, {}", view::load_label(load)));
            let key = found.study.key(found.rounds, target, index);
            if let Some(mut seen) = self.keeper.take::<StudyCell>(&key) {
                (seen.cell.target, seen.load) = (target, index);
                found.cells.push(seen);
                continue;
            }
            let measured = self.cell(&found.study, (found.rounds, target, index), started);
            started.tidy_up();
            let so_far = format!("in {round}, after {done} cells");
            match measured {
                Ok(Some(seen)) => {
                    self.keeper.keep(&key, &seen, &kinds::of_study(&TOLD, &key, &seen));
                    found.cells.push(seen);
                }
                Ok(None) => return Ok(Some(Ended { reason: format!("interrupted {so_far}"), code: INTERRUPTED })),
                // A server that has ended takes itself out; the others go on.
                Err(error) if !started.alive() => {
                    progress::note(&format!("{label} is out of the run: {error:#}"));
                    found.missing.push(Missing { label, reason: format!("it ended {so_far}") });
                    fleet[target] = None;
                }
                Err(error) => return Ok(Some(Ended { reason: format!("{error:#} ({so_far})"), code: 1 })),
            }
        }
        Ok(None)
    }

    fn cell(
        &self,
        study: &Study,
        (round, target, index): (u32, usize, usize),
        started: &mut Started,
    ) -> Result<Option<StudyCell>> {
        if self.interrupt.came() {
            return Ok(None);
        }
        let load = &study.loads[index];
        let step = Step {
            round,
            target,
            load: experiment::Load { keep_alive: load.keep_alive, concurrency: load.connections },
        };
        match load.work {
            Work::Asks(amount) => {
                let measured = self.asked(&step, amount, started)?;
                Ok(measured.map(|(cell, report)| StudyCell::new(index, cell, &report)))
            }
            _ => self.special(study, (&step, index), started),
        }
    }

    /// A cell of requests.
    fn asked(&self, step: &Step, amount: Amount, started: &mut Started) -> Result<Option<(Cell, Report)>> {
        let warm_up = match amount {
            Amount::Seconds(_) => WARM_UP,
            // As with ab, the first request counts.
            Amount::Requests(_) => Duration::ZERO,
        };
        let mut server = started.server.take();
        let bench = self.bench(amount, started);
        let measured = match &mut server {
            Some(server) => {
                server.warm_up = warm_up;
                bench.measure_whole(step, server, &self.interrupt)
            }
            None => bench.measure_unwatched(step, warm_up, &self.interrupt),
        };
        started.server = server;
        measured
    }

    fn bench<'a>(&'a self, amount: Amount, started: &'a Started) -> Bench<'a> {
        Bench {
            manifold: &self.stage.manifold,
            amount,
            generator: &self.cores.generator,
            pin: !self.cores.shared(),
            memory: Memory::AfterLoad,
            ask: started.ask(),
            log: &self.log,
        }
    }

    /// A cell of a load that does not ask alone.
    fn special(
        &self,
        study: &Study,
        (step, index): (&Step, usize),
        started: &mut Started,
    ) -> Result<Option<StudyCell>> {
        let (load, body, interrupt) = (&study.loads[index], &study.page.body, &self.interrupt);
        let subject = &study.targets[step.target];
        let mut cell = Cell {
            round: step.round,
            target: step.target,
            concurrency: load.connections,
            keep_alive: load.keep_alive,
            ..Cell::default()
        };
        if let Work::Searches(condition, step_s) = &load.work {
            let search = Search { condition, step_s: *step_s };
            let port = started.server.as_ref().map_or(0, |server| server.port);
            let bench = self.bench(Amount::Seconds(*step_s), started);
            let Some(maximum) = bench.find_max(port, step.load, &search, interrupt)? else { return Ok(None) };
            if maximum.outcome == Outcome::AtLeast {
                cell.marks.push(Mark::GeneratorSaturated);
            }
            let rate = maximum.maximum.or(maximum.holds).unwrap_or(0.0);
            return Ok(Some(StudyCell::special(index, cell, [(Metric::HighestRate, rate)])));
        }
        let server = started.server.as_mut().context("this load needs a server that the laboratory started")?;
        match &load.work {
            Work::Holds(kind, numbers) => {
                let place = slow::Place { manifold: &self.stage.manifold, interrupt };
                let seen = place.most_held(server, *kind, numbers, body)?;
                Ok(seen.map(|held| StudyCell::holding(index, cell, held)))
            }
            Work::Reloads(seconds, times) => {
                let tells = subject.origin == Origin::Lab && subject.server != Family::Nginx;
                let reloads = Reloads {
                    clients: load.connections,
                    keep_alive: load.keep_alive,
                    seconds: *seconds,
                    times: *times,
                    signal: if subject.server == Family::Nginx { Signal::SIGHUP } else { Signal::SIGUSR1 },
                    log: tells.then(|| server.error_log()),
                    page: body,
                };
                let counts = reloads.measure(server, interrupt)?;
                Ok(counts.map(|counts| StudyCell::special(index, cell, of_reloads(&counts))))
            }
            _ => {
                let site = self.pages.folder(&study.name)?;
                let alone = Subject { name: format!("{} alone", subject.name), ..subject.clone() };
                let starter = Starter {
                    stage: &self.stage,
                    cores: &self.cores,
                    part: &study.name,
                    page: &study.page,
                    site: &site,
                };
                let fresh = starter.start(&alone)?.server.context("it was not started")?;
                fresh.wait_full_size();
                let place = (self.stage.manifold.as_path(), interrupt);
                let cost = idle::cost(&fresh, load.connections as usize, body, place)?;
                Ok(cost.map(|cost| StudyCell::special(index, cell, of_idle(&cost))))
            }
        }
    }
}

fn of_reloads(counts: &Counts) -> Vec<(Metric, f64)> {
    let (answered, lost) = (counts.answered as f64, counts.lost() as f64);
    let share = (answered + lost > 0.0).then(|| (Metric::Answered, answered / (answered + lost) * 100.0));
    std::iter::once((Metric::Lost, lost)).chain(share).collect()
}

fn of_idle(cost: &idle::Cost) -> Vec<(Metric, f64)> {
    let memory = cost.pss_kib.map(|kib| (Metric::Memory, kib as f64 / 1024.0));
    let each = cost.each_kib.map(|kib| (Metric::MemoryEach, kib));
    [Some((Metric::Stood, cost.stood as f64)), each, memory].into_iter().flatten().collect()
}

/// Looks at the claims: up to how many rounds it goes on, if it does.
fn further_rounds(found: &mut Found) -> Option<u32> {
    if found.study.most_rounds == found.study.rounds {
        return None;
    }
    found.looks += 1;
    let further = next_look(found.rounds).min(found.study.most_rounds);
    (further > found.rounds && claims::are_open(found)).then_some(further)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the fixture both claims are decided after six rounds.
    #[test]
    fn rounds_go_on_while_claims_are_open() {
        let mut found = super::super::fixture::found();
        (found.study.rounds, found.study.most_rounds) = (6, 6);
        assert_eq!((further_rounds(&mut found), found.looks), (None, 0), "the number is fixed");
        found.study.most_rounds = 20;
        assert_eq!((further_rounds(&mut found), found.looks), (None, 1), "all is decided");
        found.cells.retain(|seen| seen.cell.round < 2);
        assert_eq!((further_rounds(&mut found), found.looks), (Some(9), 2));
        found.study.most_rounds = 7;
        assert_eq!(further_rounds(&mut found), Some(7));
        found.rounds = 7;
        assert_eq!(further_rounds(&mut found), None, "there is no more");
    }
}
