//! The search: a look at the present setting under growing load, a race of all candidates that halves their number again and again, and a
//! comparison of the winner with the present setting on servers of their own. Every part has its share of the time, which is a bound.

use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use manifold_stats::halving::survivors;
use manifold_stats::{Rng, next_look};

use super::candidate::{Candidate, Candidates, Wanted};
use super::load::Paths;
use super::objective::{Objective, knee};
use super::results::{Confirmation, FORMAT, Rung, Tuned, Verdict};
use super::verdict::{self, PRECISION, PRESENT};
use super::{Settings, Site};
use crate::cores::{self, Cores};
use crate::doctor::memory::{Costs, Measured};
use crate::environment;
use crate::experiment::{Load, Step};
use crate::generator::{Amount, Ask, Bench, Length, Memory};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::{self, Progress};
use crate::results::{Cell, Environment, Mark};
use crate::staged::Stage;
use crate::store::{Begun, kinds};
use crate::study::resolve::{Origin, OwnFile, Subject};
use crate::study::start::{Started, Starter};
use crate::target::{Family, Model};
use crate::{text, wire};

/// What such runs are called where they are kept.
pub const NAME: &str = "tune";
/// The race's part of the time; the confirmation has the rest.
const RACE_PART: f64 = 0.55;
/// The curve's part of the time.
const CURVE_PART: f64 = 0.08;
/// Rungs of the race: 16 candidates become one.
const RUNGS: u32 = 4;
/// Rounds of a rung: the least that compare anything.
const RUNG_ROUNDS: u32 = 3;
/// What a cell costs beside its load: starting the generator, connecting, memory, the pause after it.
const CELL_OVERHEAD_S: f64 = 0.35;
/// What starting and ending a server takes.
const SERVER_S: f64 = 0.5;
/// The shortest and the longest cell.
const CELL_S: (f64, f64) = (0.2, 5.0);
/// Rounds of the confirmation before its first look, and the most.
const CONFIRM_ROUNDS: (u32, u32) = (5, 50);
/// Load before the measured time of a cell, as a part of that, and its bounds.
const WARM_UP_PART: f64 = 0.25;
/// See [`WARM_UP_PART`].
const WARM_UP_S: (f64, f64) = (0.12, 2.0);
/// A cell lasts so many times as long as an answer takes at least, and its warm-up once.
const ANSWERS_A_CLIENT: f64 = 3.0;
/// Threads of the children whose cost is measured.
const COST_THREADS: u32 = 25;

/// What was found, and where it goes.
pub fn run(settings: &Settings) -> Result<(Tuned, Output, Begun)> {
    let mut lab = Lab::prepare(settings)?;
    let costs = lab.costs();
    let present = settings.present.candidate(&costs);
    let mut found = Tuned {
        format: FORMAT,
        question: settings.question.clone(),
        environment: lab.environment.clone(),
        version: lab.version.clone(),
        costs,
        curve: Vec::new(),
        knee: None,
        candidates: vec![present],
        left_out: Vec::new(),
        remarks: Vec::new(),
        rungs: Vec::new(),
        race: Vec::new(),
        figures: Vec::new(),
        chosen: None,
        confirmation: None,
        verdict: Verdict::Keep { why: "nothing was compared".to_owned() },
        ended_early: None,
        took_s: 0.0,
    };
    let ended = lab.search(&mut found);
    found.took_s = lab.began.elapsed().as_secs_f64();
    match ended {
        Ok(()) => {}
        // What was measured is worth telling, and claims nothing.
        Err(error) if !found.race.is_empty() => {
            let why = format!("{error:#}");
            found.verdict = Verdict::Keep { why: format!("the search was ended early: {why}") };
            found.ended_early = Some(why);
        }
        Err(error) => return Err(error),
    }
    found.remarks = lab.remarks;
    Ok((found, lab.out, lab.kept))
}

struct Lab<'s> {
    settings: &'s Settings,
    out: Output,
    /// Configurations and logs; they stay.
    stage: Stage,
    /// The built-in page, and private servers; they go with the run.
    scratch: Stage,
    cores: Cores,
    environment: Environment,
    version: String,
    interrupt: Interrupt,
    log: File,
    rng: Rng,
    kept: Begun,
    /// What is told of the copies that were made.
    remarks: Vec<String>,
    /// How long the present setting takes to answer the most clients, seconds; 0 until it is known.
    answer_s: f64,
    began: Instant,
}

impl Lab<'_> {
    fn prepare(settings: &Settings) -> Result<Lab<'_>> {
        let began = Instant::now();
        let out = Output::create(settings.out.as_deref())?;
        let cores = Cores::detect();
        let environment = environment::describe(&cores, &settings.command);
        cores::bind(&cores.generator).context("cannot keep to the generator's processors")?;
        wire::raise_descriptors(wire::DESCRIPTORS_WANTED);
        let interrupt = Interrupt::catch().context("cannot catch Ctrl-C")?;
        let stage = Stage::new(Some(&out.folder().join("servers")))?;
        let scratch = Stage::new(None)?;
        let log = File::create(out.folder().join("generator.log")).context("cannot write generator.log")?;
        let question = &settings.question;
        let version = stage.detect(question.target, Model::Event).map_err(anyhow::Error::msg)?.version;
        let rng = Rng::new(question.seed);
        let kept = Begun::new::<Tuned>(NAME, None, &environment, &out);
        let remarks = Vec::new();
        Ok(Lab {
            settings,
            out,
            stage,
            scratch,
            cores,
            environment,
            version,
            interrupt,
            log,
            rng,
            kept,
            remarks,
            answer_s: 0.0,
            began,
        })
    }

    fn objective(&self) -> &Objective {
        &self.settings.question.objective
    }

    fn most_clients(&self) -> u32 {
        self.objective().clients.last().copied().unwrap_or(1)
    }

    /// How long a cell is measured so that so many fit into the time, if they can.
    fn cell_s(&self, time_s: f64, cells: usize) -> f64 {
        cell_s(time_s, cells, self.answer_s)
    }

    /// Seconds that are left of this part of all the time.
    fn left_s(&self, part: f64) -> f64 {
        (self.settings.question.minutes * 60.0 * part - self.began.elapsed().as_secs_f64()).max(0.0)
    }

    /// What children of each model cost; models that cannot be started are not there.
    fn costs(&self) -> Vec<(Model, Costs)> {
        let family = self.settings.question.target;
        let models: &[Model] = match family {
            Family::Manifold => &[Model::Prefork, Model::Worker, Model::Event, Model::Percore],
            _ => &[Model::Prefork, Model::Worker, Model::Event],
        };
        let cost = |&model: &Model| {
            let threads = if matches!(model, Model::Worker | Model::Event) { COST_THREADS } else { 1 };
            let measured = Measured { family, model, threads, modules: &self.settings.modules };
            match measured.costs(&self.scratch) {
                Ok(costs) => Some((model, costs)),
                Err(error) => {
                    progress::note(&format!("{}: {error:#}", model.name()));
                    None
                }
            }
        };
        models.iter().filter_map(cost).collect()
    }

    fn search(&mut self, found: &mut Tuned) -> Result<()> {
        progress::note(&format!(
            "What is better: {}. It takes {} at most; Ctrl-C ends it early.",
            self.objective().text(),
            text::duration(self.settings.question.minutes * 60.0)
        ));
        let mut fleet = vec![Some(self.start("race", &found.candidates[PRESENT])?)];
        found.curve = self.curve(&mut fleet)?;
        found.knee = knee(&found.curve);
        let best = found.curve.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        // Little's law: at the same time = a second x seconds each.
        self.answer_s = if best > 0.0 { f64::from(self.most_clients()) / best } else { 0.0 };
        self.enter(found, &mut fleet)?;
        let alive = self.race(found, &mut fleet)?;
        fleet.clear();
        match verdict::choose(&found.candidates, &found.figures, &alive) {
            Err(why) => found.verdict = Verdict::Keep { why },
            Ok(chosen) => {
                found.chosen = Some(chosen);
                let confirmation = self.confirm(&found.candidates[PRESENT], &found.candidates[chosen])?;
                found.verdict = verdict::verdict(&confirmation, &found.candidates[chosen].name);
                found.confirmation = Some(confirmation);
            }
        }
        Ok(())
    }

    /// Answers a second of the present setting for 1, 2, 4 ... clients.
    fn curve(&mut self, fleet: &mut [Option<Started>]) -> Result<Vec<(u32, f64)>> {
        let most = self.most_clients();
        let mut numbers: Vec<u32> = std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n < most).collect();
        numbers.push(most);
        let cell_s = self.cell_s(self.left_s(CURVE_PART), numbers.len());
        let mut curve = Vec::new();
        for clients in numbers {
            let cell = self.cell(fleet, PRESENT, clients, 0, cell_s)?;
            if cell.usable() {
                curve.push((clients, cell.requests_per_second));
            }
        }
        Ok(curve)
    }

    /// Makes the table of candidates, as many as the time is enough for, and starts their servers.
    fn enter(&mut self, found: &mut Tuned, fleet: &mut Vec<Option<Started>>) -> Result<()> {
        let question = &self.settings.question;
        let wanted = Wanted {
            family: question.target,
            clients: question.objective.clients.last().copied().unwrap_or(1),
            keep_alive: question.objective.keep_alive && self.settings.present.keeps(),
            knee: found.knee,
            cores: u32::try_from(self.cores.server.len()).unwrap_or(1),
            costs: &found.costs,
            memory_kib: question.objective.memory_kib,
            replaced_after: self.settings.present.replaced_after(),
        };
        let Candidates { mut list, left_out } = wanted.candidates();
        found.left_out = left_out;
        let is_new = |one: &Candidate| !one.is_same(&found.candidates[PRESENT]);
        list.retain(is_new);
        let shortest = self.cell_s(0.0, 1);
        // Halving again and again measures twice as many as there are at first.
        let cells = 2.0 * f64::from(RUNG_ROUNDS) * question.objective.clients.len() as f64;
        let each = cells * (shortest + warm_up_s(shortest, self.answer_s) + CELL_OVERHEAD_S) + SERVER_S;
        let room = ((self.left_s(CURVE_PART + RACE_PART) / each) as usize).saturating_sub(1).max(1);
        if list.len() > room {
            found.left_out.extend(list.drain(room..).map(|one| format!("there was no time for {}", one.name)));
        }
        for candidate in list {
            self.check_interrupt()?;
            match self.start("race", &candidate) {
                Ok(server) => {
                    fleet.push(Some(server));
                    found.candidates.push(candidate);
                }
                Err(error) => {
                    found.left_out.push(format!("{}: {}", candidate.name, text::one_line(&format!("{error:#}"))));
                }
            }
        }
        found.figures = vec![Vec::new(); found.candidates.len()];
        Ok(())
    }

    /// Rung after rung; those that are left.
    fn race(&mut self, found: &mut Tuned, fleet: &mut [Option<Started>]) -> Result<Vec<usize>> {
        let mut alive: Vec<usize> = (0..found.candidates.len()).collect();
        // By which no round is begun that would not end in time.
        let mut cell_took_s = 0.0;
        for rung in 0..RUNGS {
            let rungs_left = f64::from(RUNGS - rung);
            let loads = self.objective().clients.len();
            let cells = alive.len() * loads * RUNG_ROUNDS as usize;
            let cell_s = self.cell_s(self.left_s(CURVE_PART + RACE_PART) / rungs_left, cells);
            let mut progress = Progress::new(cells, Duration::from_secs_f64(cell_s + CELL_OVERHEAD_S));
            let mut done = 0;
            for _ in 0..RUNG_ROUNDS {
                let round_s = cell_took_s * (alive.len() * loads) as f64;
                if self.left_s(CURVE_PART + RACE_PART) <= round_s {
                    break;
                }
                let round_began = Instant::now();
                let round = found.figures[PRESENT].len() as u32;
                let mut order = alive.clone();
                self.rng.shuffle(&mut order);
                found.figures.iter_mut().for_each(|figures| figures.push(None));
                for candidate in order {
                    progress.show(done, &format!("rung {} of {RUNGS}, {}", rung + 1, found.candidates[candidate].name));
                    let cells = self.cells(fleet, candidate, round, cell_s)?;
                    done += loads;
                    found.figures[candidate][round as usize] =
                        self.objective().figure(&cells.iter().collect::<Vec<_>>());
                    for cell in &cells {
                        self.kept.figures(&kinds::of_race(&found.candidates[candidate].name, cell));
                    }
                    found.race.extend(cells);
                }
                cell_took_s = round_began.elapsed().as_secs_f64() / (alive.len() * loads) as f64;
            }
            progress.end();
            found.rungs.push(Rung { alive: alive.clone(), rounds: RUNG_ROUNDS, cell_s });
            let mut stay = survivors(&found.figures, &alive);
            // It is what all others are compared with.
            if !stay.contains(&PRESENT) {
                stay.push(PRESENT);
            }
            for &gone in alive.iter().filter(|one| !stay.contains(one)) {
                fleet[gone] = None;
            }
            alive = stay;
            if alive.len() <= 1 || self.left_s(CURVE_PART + RACE_PART) <= 0.0 {
                break;
            }
        }
        Ok(alive)
    }

    /// Both on new servers, in rounds of a random order, until the comparison is decided or the time is over.
    fn confirm(&mut self, present: &Candidate, chosen: &Candidate) -> Result<Confirmation> {
        let mut fleet = vec![Some(self.start("confirmation", present)?), Some(self.start("confirmation", chosen)?)];
        let loads = self.objective().clients.len();
        let cell_s = self.cell_s(self.left_s(1.0), loads * CONFIRM_ROUNDS.1 as usize);
        let mut confirmation = Confirmation { cell_s, ..Confirmation::default() };
        let round_s = 2.0 * loads as f64 * (cell_s + warm_up_s(cell_s, self.answer_s) + CELL_OVERHEAD_S);
        let mut progress = Progress::new((self.left_s(1.0) / round_s) as usize, Duration::from_secs_f64(round_s));
        let (mut until, mut looked) = (CONFIRM_ROUNDS.0, 0);
        while confirmation.rounds < CONFIRM_ROUNDS.1 && self.left_s(1.0) >= round_s {
            progress.show(confirmation.rounds as usize, &format!("{} against the present setting", chosen.name));
            let mut order = [0, 1];
            self.rng.shuffle(&mut order);
            let mut figures = [None, None];
            for who in order {
                let cells = self.cells(&mut fleet, who, confirmation.rounds, cell_s)?;
                figures[who] = self.objective().undisturbed_figure(&cells.iter().collect::<Vec<_>>());
                confirmation.cells.extend(cells);
            }
            confirmation.present.push(figures[0]);
            confirmation.chosen.push(figures[1]);
            confirmation.rounds += 1;
            if confirmation.rounds == until {
                confirmation.looks += 1;
                (until, looked) = (next_look(until), until);
                if verdict::look(&confirmation).is_some_and(|comparison| !comparison.is_open(PRECISION)) {
                    break;
                }
            }
        }
        // Rounds after the last look count as well, and that is one more.
        confirmation.looks += u32::from(confirmation.rounds > looked);
        progress.end();
        Ok(confirmation)
    }

    fn cells(&self, fleet: &mut [Option<Started>], who: usize, round: u32, cell_s: f64) -> Result<Vec<Cell>> {
        self.objective().clients.iter().map(|&clients| self.cell(fleet, who, clients, round, cell_s)).collect()
    }

    fn cell(&self, fleet: &mut [Option<Started>], who: usize, clients: u32, round: u32, cell_s: f64) -> Result<Cell> {
        self.check_interrupt()?;
        let Some(started) = fleet.get_mut(who).and_then(Option::as_mut) else { bail!("a server of the race is gone") };
        started.tidy_up();
        let options = others(started, &self.settings.paths);
        let Started { server: Some(server), .. } = &mut *started else { bail!("a server of the race is not ours") };
        server.warm_up = Duration::from_secs_f64(warm_up_s(cell_s, self.answer_s));
        let ask = started.ask();
        // Pages of several lengths: each has that of its first answer.
        let length = if self.settings.paths.cycle.len() > 1 { Length::Any } else { ask.length };
        let (url, helped) = (ask.url.to_owned(), ask.helped);
        let bench = Bench {
            manifold: &self.stage.manifold,
            amount: Amount::Seconds(cell_s),
            generator: &self.cores.generator,
            pin: !self.cores.shared(),
            memory: Memory::AfterLoad,
            ask: Ask { url: &url, options: &options, length, helped },
            log: &self.log,
        };
        let Some(server) = &mut started.server else { bail!("a server of the race is not ours") };
        let load = Load { keep_alive: self.objective().keep_alive, concurrency: clients };
        match bench.measure(&Step { round, target: who, load }, server, &self.interrupt) {
            Ok(Some(cell)) => Ok(cell),
            Ok(None) => bail!("interrupted"),
            // One that has ended under this load does not do what is asked.
            Err(error) if !server.alive() => {
                progress::note(&format!("a server ended: {error:#}"));
                Ok(Cell {
                    round,
                    target: who,
                    concurrency: clients,
                    marks: vec![Mark::NothingCompleted],
                    ..Cell::default()
                })
            }
            Err(error) => Err(error),
        }
    }

    fn check_interrupt(&self) -> Result<()> {
        if self.interrupt.came() { bail!("interrupted") } else { Ok(()) }
    }

    /// A server of this setting, at its full size.
    fn start(&mut self, part: &str, candidate: &Candidate) -> Result<Started> {
        let settings = self.settings;
        let mut lines = settings.present.keeping();
        if candidate.closes {
            lines.retain(|(name, _)| name != "KeepAlive");
            lines.push(("KeepAlive".to_owned(), "Off".to_owned()));
        }
        lines.extend(candidate.settings.iter().cloned());
        let subject = Subject {
            name: candidate.folder(),
            server: settings.question.target,
            model: candidate.model,
            settings: lines,
            origin: match &settings.site {
                Site::Folder(_) => Origin::Lab,
                Site::Own(file) => {
                    Origin::Own(OwnFile { file: file.clone(), model: Some(candidate.model), host: None, port: None })
                }
            },
        };
        let starter = Starter {
            stage: &self.stage,
            cores: &self.cores,
            part,
            page: &settings.page,
            site: settings.site.folder(),
        };
        let started = starter.start(&subject)?;
        if let Some(server) = &started.server {
            server.wait_full_size();
        }
        for remark in &started.remarks {
            // A setting's name stands before what is the same of all.
            let remark = remark.split_once(": ").map_or(remark.as_str(), |(_, remark)| remark).to_owned();
            if !self.remarks.contains(&remark) && !remark.starts_with("it is a private copy") {
                self.remarks.push(remark);
            }
        }
        Ok(started)
    }
}

/// What a cell asks for: the first path as the server was found by it, and the others beside.
fn others(started: &Started, paths: &Paths) -> Vec<String> {
    let ask = started.ask();
    let first = &paths.cycle[0];
    let port = started.server.as_ref().map_or(0, |server| server.port);
    let base = match ask.url.strip_suffix(first.as_str()) {
        Some(base) if !base.is_empty() => base.to_owned(),
        _ => format!("http://127.0.0.1:{port}"),
    };
    let further = paths.cycle[1..].iter().map(|path| format!("{base}{path}"));
    ask.options.iter().cloned().chain(further).collect()
}

/// How long a cell is measured so that so many fit into the time; never so short that clients get no answers.
fn cell_s(time_s: f64, cells: usize, answer_s: f64) -> f64 {
    let wanted = (time_s / cells.max(1) as f64 - CELL_OVERHEAD_S) / (1.0 + WARM_UP_PART);
    wanted.clamp(CELL_S.0.max(ANSWERS_A_CLIENT * answer_s).min(CELL_S.1), CELL_S.1)
}

/// Load before a cell of this length.
fn warm_up_s(cell_s: f64, answer_s: f64) -> f64 {
    (cell_s * WARM_UP_PART).max(answer_s).clamp(WARM_UP_S.0, WARM_UP_S.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_fill_their_time_within_bounds() {
        for (time_s, cells, answer_s, expected) in [
            (10.0, 10, 0.0, 0.52),
            (1.0, 100, 0.0, 0.2),
            (1000.0, 3, 0.0, 5.0),
            (5.0, 0, 0.0, 3.72),
            // A second for each answer: three of them.
            (1.0, 100, 1.0, 3.0),
            (1.0, 100, 60.0, 5.0),
        ] {
            let got = cell_s(time_s, cells, answer_s);
            assert!((got - expected).abs() < 1e-9, "{time_s} {cells} {answer_s}: {got}");
        }
        assert_eq!(
            [warm_up_s(0.2, 0.0), warm_up_s(2.0, 0.1), warm_up_s(3.0, 1.0), warm_up_s(5.0, 9.0)],
            [0.12, 0.5, 1.0, 2.0]
        );
    }
}
