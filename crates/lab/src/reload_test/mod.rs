//! `lab reload-test`: does a server lose requests while it takes a new configuration?
//!
//! The server runs on a private configuration. Keep-alive clients and closing clients ask it for one page without a
//! break, and meanwhile it is told to reload gracefully, again and again: manifold walks through all ordered pairs of its
//! models, apache2 and nginx take a new document root. Each configuration has a page of its own, so every answer says
//! which one gave it, and a reload that did not take effect is found out. Every request is looked at: lost is lost, also
//! where a client may try again.

pub mod client;
pub mod pages;
pub mod plan;
pub mod tally;
mod verdict;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use manifold_load::outcome::{Clock, nanoseconds};
use nix::sys::signal::Signal;
use serde::Serialize;

use self::client::{Answered, Clients, Example};
use self::pages::Pages;
use self::verdict::{Reload, Trial};
use crate::interrupt::Interrupt;
use crate::server::{self, CONFIG_FILE, Page, Server};
use crate::staged::{Recipe, Stage};
use crate::target::{Family, Installed, Model};
use crate::{progress, text, wire};

/// A reload that has not taken effect after this long never will.
pub const IN_FORCE_WITHIN: Duration = Duration::from_secs(10);
/// Requests under way at the end are waited for this long: longer than any may take.
pub const END_WITHIN: Duration = Duration::from_secs(7);
/// Descriptors wanted: clients of this process and connections of a server's.
const DESCRIPTORS_WANTED: u64 = 16_384;
/// The exit code of a test that Ctrl-C ended, as shells expect it.
const INTERRUPTED: u8 = 130;

/// Examples under the help.
pub const EXAMPLES: &str = "\
Exit code: 0 nothing was lost and every reload took effect, 1 otherwise, 2 the test could not be run.

Examples:
  manifold lab reload-test                        20 reloads in 30 s, through all 12 ordered pairs of models
  manifold lab reload-test --buckets              the same with listener buckets (ListenCoresBucketsRatio 1)
  manifold lab reload-test --mpm percore          reloads without a change of the model
  manifold lab reload-test --target apache2       each of Apache's models in turn, for comparison";

/// Options of `lab reload-test`.
#[derive(Args, Debug)]
pub struct ReloadArgs {
    /// The server to test
    #[arg(long, value_name = "NAME", default_value = "manifold")]
    target: Family,
    /// The models: manifold changes between them, apache2 is tested with each [default: all]
    #[arg(long, value_delimiter = ',', value_name = "MPM,..")]
    mpm: Vec<Model>,
    /// Graceful reloads
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    reloads: u32,
    /// Seconds in which they happen, evenly spread
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Clients that keep their connection as long as the server does; every second one pauses between requests
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=1000))]
    keep_alive_clients: u32,
    /// Clients that open a connection for each request
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=1000))]
    closing_clients: u32,
    /// A listening socket a bucket: ListenCoresBucketsRatio 1, nginx: reuseport
    #[arg(long)]
    buckets: bool,
    /// Write the counts there as JSON
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
    trials: &'a [Trial],
    notes: &'a [String],
}

/// Runs the test.
///
/// # Errors
/// What prevented it: a server that is not installed or does not start, a file that cannot be written.
pub fn run(args: &ReloadArgs) -> Result<ExitCode> {
    if args.keep_alive_clients + args.closing_clients == 0 {
        bail!("without clients nothing can be lost; give --keep-alive-clients or --closing-clients");
    }
    let rounds = rounds(args.target, &args.mpm).map_err(anyhow::Error::msg)?;
    wire::raise_descriptors(DESCRIPTORS_WANTED);
    let stage = Stage::new(args.folder.as_deref())?;
    let interrupt = Interrupt::catch().context("cannot catch Ctrl-C")?;
    let mut trials = Vec::new();
    for models in rounds {
        let test = Test { args, stage: &stage, interrupt: &interrupt, models };
        match test.run()? {
            Some(trial) => {
                show(&trial);
                trials.push(trial);
            }
            None => return Ok(ExitCode::from(INTERRUPTED)),
        }
    }
    let mut notes = Vec::new();
    if args.target == Family::Apache2 {
        notes.push(apache_changes_model(&stage)?);
    }
    for note in &notes {
        println!("{note}");
    }
    if let Some(file) = &args.json {
        let json = serde_json::to_string_pretty(&Report { format: 1, trials: &trials, notes: &notes })?;
        fs::write(file, json + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(ExitCode::from(u8::from(!trials.iter().all(Trial::passed))))
}

/// The models of each trial: manifold changes between all of them in one, apache2 has one trial for each.
fn rounds(family: Family, asked: &[Model]) -> Result<Vec<Vec<Model>>, String> {
    let known: &[Model] = match family {
        Family::Manifold => &[Model::Prefork, Model::Worker, Model::Event, Model::Percore],
        Family::Apache2 => &[Model::Prefork, Model::Worker, Model::Event],
        Family::Nginx | Family::Peer => &[Model::Loop],
    };
    if let Some(unknown) = asked.iter().find(|model| !known.contains(model)) {
        return Err(format!("--mpm {}: {} has no such model", unknown.name(), family.name()));
    }
    let mut models: Vec<Model> = Vec::new();
    for model in if asked.is_empty() { known } else { asked } {
        if !models.contains(model) {
            models.push(*model);
        }
    }
    Ok(match family {
        Family::Manifold => vec![models],
        Family::Apache2 | Family::Nginx | Family::Peer => models.into_iter().map(|model| vec![model]).collect(),
    })
}

fn show(trial: &Trial) {
    println!("\n{}{}, {}", trial.label, if trial.buckets { ", with buckets" } else { "" }, trial.version);
    println!("\n{}\n{}", trial.counts(), trial.reload_table());
    for example in trial.examples.iter().take(EXAMPLES_SHOWN) {
        println!("  {example}");
    }
    println!("{}\n{}", if trial.passed() { "PASSED" } else { "FAILED" }, trial.sentence());
}

/// Losses shown one by one.
const EXAMPLES_SHOWN: usize = 8;

/// One server, its clients and its reloads.
struct Test<'a> {
    args: &'a ReloadArgs,
    stage: &'a Stage,
    interrupt: &'a Interrupt,
    models: Vec<Model>,
}

impl Test<'_> {
    /// `None` if it was interrupted.
    fn run(&self) -> Result<Option<Trial>> {
        let args = self.args;
        let walk = plan::walk(&self.models, args.reloads as usize);
        let installed = self.stage.detect(args.target, walk[0]).map_err(anyhow::Error::msg)?;
        let name = match args.target {
            Family::Manifold => "manifold",
            Family::Apache2 | Family::Nginx | Family::Peer => installed.target.name,
        };
        let pages = Pages::new(walk.len());
        let ports = server::free_ports(2).context("no free port on 127.0.0.1")?;
        let reloader = Reloader { test: self, name, walk: &walk, pages: &pages, ports: &ports };
        let mut server = self.stage.start(name, &installed, ports[0], &reloader.config(0)?)?;
        let page = Page { path: "/index.html".to_owned(), body: pages.body(0) };
        server.wait_ready(&page).with_context(|| format!("{name} did not start"))?;
        server.wait_full_size();
        progress::note(&format!(
            "{name}: {} in {} s under {} keep-alive and {} closing clients",
            text::counted(args.reloads as usize, "reload"),
            args.seconds,
            args.keep_alive_clients,
            args.closing_clients
        ));
        let trial = reloader.watch(&mut server, &installed)?;
        Ok(trial)
    }
}

/// The course of one trial.
struct Reloader<'a> {
    test: &'a Test<'a>,
    name: &'static str,
    walk: &'a [Model],
    pages: &'a Pages,
    ports: &'a [u16],
}

/// How long the clients were at work, and how long they stood still at most.
struct Times {
    seconds: f64,
    stall_ms: f64,
}

/// The reload under way, or the last one.
struct UnderWay {
    generation: usize,
    signalled: u64,
    in_force: Option<u64>,
    old_until: Option<u64>,
}

impl UnderWay {
    /// An answer on a fresh connection tells which generation accepted it.
    fn see(&mut self, answered: Answered) {
        if !answered.fresh {
            return;
        }
        if answered.generation == self.generation {
            self.in_force.get_or_insert(answered.at);
        } else {
            self.old_until = Some(answered.at);
        }
    }

    fn row(&self, walk: &[Model], lost: u64) -> Reload {
        let since = |at: u64| at.saturating_sub(self.signalled) as f64 / 1e6;
        Reload {
            number: self.generation,
            from: walk[self.generation - 1].name(),
            to: walk[self.generation].name(),
            in_force_ms: self.in_force.map(since),
            old_until_ms: self.old_until.map_or(0.0, since),
            lost,
        }
    }
}

impl Reloader<'_> {
    /// Writes the generation's page and returns its configuration.
    fn config(&self, generation: usize) -> Result<String> {
        let args = self.test.args;
        let model = self.walk[generation];
        let site = format!("{}-site-{generation}", self.name);
        let page = self.test.stage.write(&site, "index.html", &self.pages.body(generation))?;
        let clients = (args.keep_alive_clients + args.closing_clients) as usize;
        let recipe = Recipe {
            model,
            ports: if plan::second_port(args.target, generation) { self.ports } else { &self.ports[..1] },
            root: page.parent().unwrap_or(Path::new("/")),
            buckets: args.buckets,
            workers: None,
            modules: &[],
            lines: plan::lines(args.target, model, clients, generation),
        };
        self.test.stage.config(self.name, args.target, &recipe)
    }

    fn reload(&self, server: &Server, generation: usize) -> Result<()> {
        self.test.stage.write(self.name, CONFIG_FILE, self.config(generation)?.as_bytes())?;
        server.signal(match self.test.args.target {
            Family::Manifold | Family::Apache2 => Signal::SIGUSR1,
            Family::Nginx | Family::Peer => Signal::SIGHUP,
        });
        Ok(())
    }

    /// Lets the clients work and reloads meanwhile. `None` if it was interrupted.
    fn watch(&self, server: &mut Server, installed: &Installed) -> Result<Option<Trial>> {
        let args = self.test.args;
        let clock = Clock::since(Instant::now());
        let number = (args.keep_alive_clients as usize, args.closing_clients as usize);
        let mut clients = Clients::new(server.port, self.pages, number, clock).context("no epoll instance")?;
        let end = nanoseconds(Duration::from_secs(u64::from(args.seconds)));
        let interval = end / u64::from(args.reloads);
        let mut rows = Vec::new();
        let mut faults = Vec::new();
        let mut lost_before = 0;
        let (mut last_turn, mut stall) = (clock.now(), 0);
        let mut under_way: Option<UnderWay> = None;
        // In the middle of its interval, so that losses before the first and after the last reload are seen too.
        let mut next = interval / 2;
        loop {
            for answered in clients.turn()? {
                if let Some(under_way) = &mut under_way {
                    under_way.see(*answered);
                }
            }
            let now = clock.now();
            (last_turn, stall) = (now, stall.max(now - last_turn));
            if self.test.interrupt.came() {
                return Ok(None);
            }
            if let Some(broken) = &clients.tally().broken {
                bail!("the test cannot go on: {broken}");
            }
            if let Some(how) = server.ended() {
                faults.push(format!("The server ended ({how}): {}", text::one_line(&server.last_words())));
                break;
            }
            let done = rows.len() + usize::from(under_way.is_some());
            let waiting = under_way.as_ref().filter(|reload| reload.in_force.is_none());
            if let Some(reload) = waiting {
                if now.saturating_sub(reload.signalled) > nanoseconds(IN_FORCE_WITHIN) {
                    let waited = IN_FORCE_WITHIN.as_secs();
                    faults.push(format!("Reload {} did not take effect within {waited} s", reload.generation));
                    break;
                }
            } else if done == args.reloads as usize {
                if now >= end {
                    break;
                }
            } else if now >= next {
                let lost = std::mem::take(&mut clients.tally().lost_now);
                match under_way.take() {
                    Some(last) => rows.push(last.row(self.walk, lost)),
                    None => lost_before = lost,
                }
                self.reload(server, done + 1)?;
                let signalled = clock.now();
                under_way = Some(UnderWay { generation: done + 1, signalled, in_force: None, old_until: None });
                next = (next + interval).max(now);
            }
        }
        self.let_end(&mut clients, clock)?;
        let lost = clients.tally().lost_now;
        match under_way {
            Some(last) => rows.push(last.row(self.walk, lost)),
            None => lost_before = lost,
        }
        faults.extend(self.wrong_models(rows.len()));
        let times = Times { seconds: clock.now() as f64 / 1e9, stall_ms: stall as f64 / 1e6 };
        Ok(Some(self.trial(installed, clients.tally(), (lost_before, rows, faults), times)))
    }

    /// No new requests; those under way are seen to their end.
    fn let_end(&self, clients: &mut Clients<'_>, clock: Clock) -> Result<()> {
        clients.stop();
        let until = clock.now() + nanoseconds(END_WITHIN);
        while !clients.done() && clock.now() < until {
            clients.turn()?;
        }
        Ok(())
    }

    /// Whether the error log names other models than were configured (nginx names none).
    fn wrong_models(&self, reloads: usize) -> Option<String> {
        if self.test.args.target == Family::Nginx {
            return None;
        }
        let log = self.test.stage.folder(self.name).ok()?.join("error.log");
        let log = String::from_utf8_lossy(&fs::read(log).ok()?).into_owned();
        let logged = plan::models_logged(&log);
        let expected: Vec<&str> = self.walk[..=reloads].iter().map(|model| model.name()).collect();
        (logged != expected).then(|| {
            let [logged, expected] = [logged, expected].map(|names| names.join(" "));
            format!("Its error log says it resumed operations with \"{logged}\" where \"{expected}\" was configured")
        })
    }

    fn trial(
        &self,
        installed: &Installed,
        tally: &client::Tally,
        (lost_before, reloads, faults): (u64, Vec<Reload>, Vec<String>),
        Times { seconds, stall_ms }: Times,
    ) -> Trial {
        let args = self.test.args;
        Trial {
            label: if args.target == Family::Manifold { "manifold" } else { installed.target.label }.to_owned(),
            version: installed.version.clone(),
            buckets: args.buckets,
            seconds,
            stall_ms,
            pairs: plan::pairs(&self.walk[..=reloads.len()]),
            planned: args.reloads as usize,
            lost_before,
            reloads,
            keep_alive: tally.keep_alive.clone(),
            closing: tally.closing.clone(),
            examples: tally.examples.iter().map(describe).collect(),
            faults,
        }
    }
}

fn describe(example: &Example) -> String {
    format!(
        "at {:.3} s, {} client: {}{}{}",
        example.at as f64 / 1e9,
        if example.keep_alive { "keep-alive" } else { "closing" },
        example.loss.words(),
        if example.detail.is_empty() { "" } else { ": " },
        example.detail
    )
}

/// What apache2 does when the configuration names another model at a graceful restart.
fn apache_changes_model(stage: &Stage) -> Result<String> {
    const NAME: &str = "apache2-changed";
    let installed = match (stage.detect(Family::Apache2, Model::Event), stage.detect(Family::Apache2, Model::Worker)) {
        (Ok(installed), Ok(_)) => installed,
        _ => return Ok("A changed MPM was not tried: apache2's event and worker are not both installed.".to_owned()),
    };
    let port = server::free_ports(1).context("no free port on 127.0.0.1")?[0];
    let page = stage.write("apache2-changed-site", "index.html", b"one page\n")?;
    let config = |model| {
        let root = page.parent().unwrap_or(Path::new("/"));
        let recipe =
            Recipe { model, ports: &[port], root, buckets: false, workers: None, modules: &[], lines: String::new() };
        stage.config(NAME, Family::Apache2, &recipe)
    };
    let mut server = stage.start(NAME, &installed, port, &config(Model::Event)?)?;
    let page = Page { path: "/index.html".to_owned(), body: b"one page\n".to_vec() };
    server.wait_ready(&page).context("apache2 did not start")?;
    stage.write(NAME, CONFIG_FILE, config(Model::Worker)?.as_bytes())?;
    server.signal(Signal::SIGUSR1);
    let asked = Instant::now();
    while asked.elapsed() < IN_FORCE_WITHIN / 5 {
        if let Some(how) = server.ended() {
            return Ok(format!(
                "apache2, changed from event to worker by a graceful restart: the server ended ({how})."
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok("apache2, changed from event to worker by a graceful restart: the server goes on.".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_by_target() {
        use Model::{Event, Loop, Percore, Prefork, Worker};
        for (family, asked, expected) in [
            (Family::Manifold, &[][..], Ok(vec![vec![Prefork, Worker, Event, Percore]])),
            (Family::Manifold, &[Percore, Event, Percore], Ok(vec![vec![Percore, Event]])),
            (Family::Apache2, &[], Ok(vec![vec![Prefork], vec![Worker], vec![Event]])),
            (Family::Apache2, &[Worker], Ok(vec![vec![Worker]])),
            (Family::Apache2, &[Percore], Err("--mpm percore: apache2 has no such model")),
            (Family::Nginx, &[], Ok(vec![vec![Loop]])),
            (Family::Nginx, &[Event], Err("--mpm event: nginx has no such model")),
        ] {
            assert_eq!(rounds(family, asked), expected.map_err(str::to_owned), "{family:?} {asked:?}");
        }
    }

    #[test]
    fn a_reload_is_in_force_with_its_first_fresh_answer() {
        let mut reload = UnderWay { generation: 2, signalled: 1_000_000, in_force: None, old_until: None };
        let answer = |at, fresh, generation| Answered { at, fresh, generation };
        for seen in [answer(2_000_000, false, 2), answer(3_000_000, true, 1), answer(5_000_000, true, 2)] {
            reload.see(seen);
        }
        reload.see(answer(6_000_000, true, 1));
        reload.see(answer(9_000_000, true, 2));
        let row = reload.row(&[Model::Event, Model::Event, Model::Percore], 3);
        assert_eq!((row.in_force_ms, row.old_until_ms, row.lost), (Some(4.0), 5.0, 3));
        assert_eq!((row.number, row.from, row.to), (2, "event", "percore"));
    }
}
