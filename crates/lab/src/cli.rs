//! The command line of `manifold lab`: what was typed, and what it comes to.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::doctor::{self, DoctorArgs};
use crate::experiment::Experiment;
use crate::generators;
use crate::idle_test::{self, IdleArgs};
use crate::peers;
use crate::reload_test::{self, ReloadArgs};
use crate::server::Page;
use crate::slow_test::hold::HoldArgs;
use crate::slow_test::{self, SlowArgs};
use crate::study;
use crate::target::{Family, TARGETS, Target};
use crate::tune::{self, TuneArgs};
use crate::view::ViewArgs;

/// Apache's own page, 44 bytes: what every server is asked for unless told otherwise.
pub const BUILT_IN_PAGE: &str = "<html><body><h1>It works!</h1></body></html>";

/// Measures web servers and concurrency models side by side, and says which to choose.
#[derive(Debug, Parser)]
#[command(
    name = "manifold lab",
    bin_name = "manifold lab",
    version,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Do,
}

/// The laboratory's commands.
#[derive(Debug, Subcommand)]
pub enum Do {
    /// Start every server, load them in random order, and write a report with the answer
    #[command(after_help = run_help())]
    Run(RunArgs),
    /// Reload a server again and again under load, and count every request it loses
    #[command(after_help = reload_test::EXAMPLES)]
    ReloadTest(ReloadArgs),
    /// Put many slow clients on a server, and see how long a normal request takes
    #[command(after_help = slow_test::EXAMPLES)]
    SlowTest(SlowArgs),
    /// Put idle connections on a server, and see what they cost in memory and in other requests' time
    #[command(after_help = idle_test::EXAMPLES)]
    IdleTest(IdleArgs),
    /// Say what a configuration comes to and what runs out first, without load
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(DoctorArgs),
    /// Search the model and the numbers that serve a site best within the memory, and print their block
    #[command(after_help = tune::EXAMPLES)]
    Tune(TuneArgs),
    /// Become slow clients (used by `slow-test` and `idle-test`)
    #[command(hide = true)]
    Hold(HoldArgs),
    /// Write an experiment file to begin with, every line explained
    New {
        /// The file; it must not exist
        file: PathBuf,
    },
    /// List the runs that are kept
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Tell a kept run's answer again
    Show {
        /// Its number, or `last`
        #[arg(default_value = "last")]
        run: String,
    },
    /// Compare two kept runs, figure by figure
    Diff {
        /// The number of the first
        a: String,
        /// The number of the second, or `last`
        b: String,
        /// Figures that do not differ as well
        #[arg(long)]
        all: bool,
    },
    /// Write a kept run's data and report into a folder
    Export {
        /// Its number, or `last`
        run: String,
        /// The folder; it must not exist or be empty
        folder: PathBuf,
    },
    /// Show the kept runs in a browser: reports, two runs beside each other, and a run that is being measured
    View(ViewArgs),
    /// Forget kept runs; their reports stay where they are
    Delete {
        /// Their numbers
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<String>,
    },
    /// Write report.html and cells.csv again from a results.json
    Report {
        /// The results.json of an earlier run, or the folder it is in
        results: PathBuf,
    },
    /// Remove a folder when the standard input ends (used by `run`)
    #[command(hide = true)]
    Guard {
        /// The folder
        folder: PathBuf,
    },
    /// Become a server under test (used by `run`)
    #[command(hide = true)]
    Exec {
        /// Processors to run on
        #[arg(long)]
        cores: String,
        /// Program and arguments
        #[arg(last = true, required = true)]
        command: Vec<std::ffi::OsString>,
    },
}

const RUN_EXAMPLES: &str = "\
What it does: every server is started once on a port of its own on 127.0.0.1. Then each of them is loaded with each
number of connections, with and without keep-alive, in random order, and all of that several times over (rounds).
apache2 and nginx take part where they are installed. Nothing else should run on the machine meanwhile.

It writes a folder with report.html (open it in a browser), results.json and cells.csv. Ctrl-C ends it early, keeps
what was measured, and stops the servers.

Examples:
  manifold lab run --quick                          a first look, in half a minute
  manifold lab run                                  the default experiment, under 4 minutes
  manifold lab run --targets event,apache2-event    two servers only
  manifold lab run --site /var/www/html --path /    your own site's front page
  manifold lab run -f /etc/apache2/apache2.conf     your own Apache configuration, under each of its models
  manifold lab run origin --scaled                  published experiments on Apache's models, judged here, in 10 minutes
  manifold lab new mine.toml                        an experiment of your own; then: manifold lab run mine.toml
  manifold lab run --seed 7                         the same order of cells as another run with that seed";

/// Experiments with code of their own, and what they are.
const OTHERS: [(&str, &str); 3] = [
    (peers::PLACE, "beside h2o, lighttpd, caddy and a server that does nothing, in 14 minutes"),
    (generators::PLACE, "our load generators beside wrk, h2load, ab, siege..., in 6 minutes"),
    (study::ORIGIN, "the first six of the following, with one report"),
];

/// What stands under the help of `lab run`.
fn run_help() -> String {
    let files = study::BUILT_IN.iter().map(|one| (one.name, one.about));
    let lines: Vec<String> =
        OTHERS.into_iter().chain(files).map(|(name, about)| format!("  {name:<16}  {about}")).collect();
    format!("{RUN_EXAMPLES}\n\nExperiments:\n{}", lines.join("\n"))
}

/// Options of `lab run` as typed.
#[derive(Args, Clone, Debug, Deserialize, Serialize)]
pub struct RunArgs {
    /// One of the experiments below, or a file as `manifold lab new` writes it [default: the models on one page]
    #[arg(value_name = "EXPERIMENT")]
    pub experiment: Option<String>,
    /// Smaller than the experiment's file says: fewer requests, shorter cells
    #[arg(long)]
    pub scaled: bool,
    /// As small as can be, once: whether everything works here, no more
    #[arg(long, conflicts_with_all = ["scaled", "rounds"])]
    pub smallest: bool,
    /// Go on with a run that was interrupted: its number, or `last`
    #[arg(long, value_name = "RUN", exclusive = true)]
    pub resume: Option<String>,
    /// A first look in half a minute: fewer, shorter rounds and wider intervals
    #[arg(long)]
    pub quick: bool,
    /// Serve this folder instead of the built-in page of 44 bytes
    #[arg(long, value_name = "DIR", group = "served")]
    pub site: Option<PathBuf>,
    /// Measure a private copy of this Apache configuration, with its own model and with each other; the original is only read
    #[arg(short = 'f', long, value_name = "FILE", group = "served", conflicts_with = "experiment")]
    pub config: Option<PathBuf>,
    /// `-f`: the virtual host to ask
    #[arg(long, value_name = "NAME", requires = "config")]
    pub host: Option<String>,
    /// The URL path to ask for; with --site, a file must stand behind it in the folder
    #[arg(long, value_name = "/PATH", requires = "served")]
    pub path: Option<String>,
    /// What to measure, separated by commas [default: all that are installed]
    #[arg(long, value_delimiter = ',', value_name = "NAME,..", value_parser = names(), hide_possible_values = false)]
    pub targets: Vec<String>,
    /// `generators`: what to measure, separated by commas [default: all that are installed]
    #[arg(long, value_delimiter = ',', value_name = "NAME,..", value_parser = generators::names())]
    pub generators: Vec<String>,
    /// Numbers of connections, separated by commas [default: 10,100,500,1000]
    #[arg(long, value_delimiter = ',', value_name = "N,..", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub concurrency: Vec<u32>,
    /// How often every cell is measured; from 6 on the intervals are full 95 % ones [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Seconds measured in each cell [default: 0.4]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Keep connections alive between requests
    #[arg(long, value_name = "MODE", default_value = "both")]
    pub keep_alive: KeepAlive,
    /// Decides the order of the cells [default: from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// How long `peers` or `generators` may take: as many rounds are made as fit, at least 3 [default: 14 and 6]
    #[arg(long, value_name = "MIN", value_parser = minutes, conflicts_with = "rounds")]
    pub minutes: Option<f64>,
    /// `peers` and `generators` write their tables there as well; in a file that has the lines `<!-- begin peers -->` and
    /// `<!-- end peers -->` (or `generators`), between them
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Folder for the report; it must not exist or be empty [default: lab-DATE-TIME here]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// What a run was asked for: what it takes to go on with it, wherever that is done.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Asked {
    /// What was typed.
    pub args: RunArgs,
    /// What decides the order of the cells.
    pub seed: u64,
}

impl Asked {
    /// Here and now; `clock_seed` is the seed where none was given.
    ///
    /// # Errors
    /// A sentence, if a folder is not there.
    pub fn now(args: &RunArgs, clock_seed: u64) -> Result<Asked, String> {
        let mut args = args.clone();
        for path in [&mut args.site, &mut args.config, &mut args.markdown].into_iter().flatten() {
            *path = std::path::absolute(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let seed = args.seed.unwrap_or(clock_seed);
        Ok(Asked { args, seed })
    }
}

/// The modes of `--keep-alive`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
pub enum KeepAlive {
    /// Kept alive only
    On,
    /// A new connection for each request only
    Off,
    /// One after the other
    Both,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(TARGETS.iter().map(|target| target.name))
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(m) if (0.1..=1440.0).contains(&m) => Ok(m),
        _ => Err("minutes from 0.1 to 1440 are needed".to_owned()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.05..=600.0).contains(&s) => Ok(s),
        _ => Err("seconds from 0.05 to 600 are needed".to_owned()),
    }
}

/// What the options come to.
#[derive(Debug)]
pub struct Settings {
    /// The plan.
    pub experiment: Experiment,
    /// What to measure.
    pub targets: Vec<&'static Target>,
    /// The targets were named, so one that is missing is an error and no remark.
    pub named: bool,
    /// The folder to serve; `None` for the built-in page.
    pub site: Option<PathBuf>,
    /// The page.
    pub page: Page,
    /// Where to write; `None` for a new folder here.
    pub out: Option<PathBuf>,
    /// The command that repeats the run.
    pub command: String,
}

/// Resolves the options. `clock_seed` is the seed where none was given.
///
/// # Errors
/// A sentence for the user, with the way out.
pub fn resolve(args: &RunArgs, clock_seed: u64) -> Result<Settings, String> {
    let sorted = |list: &[u32], default: &[u32]| {
        let mut list = if list.is_empty() { default.to_vec() } else { list.to_vec() };
        list.sort_unstable();
        list.dedup();
        list
    };
    for (given, option, whose) in [
        (args.minutes.is_some(), "--minutes", "`manifold lab run peers` and `generators`"),
        (args.markdown.is_some(), "--markdown", "`manifold lab run peers` and `generators`"),
        (!args.generators.is_empty(), "--generators", "`manifold lab run generators`"),
        (args.scaled, "--scaled", "`manifold lab run origin` and other experiment files"),
        (args.smallest, "--smallest", "`manifold lab run origin` and other experiment files"),
    ] {
        if given {
            return Err(format!("{option} is an option of {whose}"));
        }
    }
    let experiment = Experiment {
        keep_alive: match args.keep_alive {
            KeepAlive::On => vec![true],
            KeepAlive::Off => vec![false],
            KeepAlive::Both => vec![false, true],
        },
        concurrency: sorted(&args.concurrency, if args.quick { &[10, 100, 1000] } else { &[10, 100, 500, 1000] }),
        rounds: args.rounds.unwrap_or(if args.quick { 3 } else { 5 }),
        seed: args.seed.unwrap_or(clock_seed),
        warm_up_s: if args.quick { 0.06 } else { 0.12 },
        measured_s: args.seconds.unwrap_or(if args.quick { 0.1 } else { 0.4 }),
    };
    let (site, page) = match &args.site {
        None => (None, Page { path: "/index.html".to_owned(), body: BUILT_IN_PAGE.as_bytes().to_vec() }),
        Some(site) => {
            let path = args.path.as_deref().unwrap_or("/");
            let (folder, page) = page_of(site, path).map_err(|said| format!("--{said}"))?;
            (Some(folder), page)
        }
    };
    let command = command(args, &experiment, site.as_deref(), &page.path);
    Ok(Settings {
        experiment,
        targets: TARGETS
            .iter()
            .filter(|t| match &args.targets[..] {
                [] => t.family != Family::Peer,
                named => named.iter().any(|name| name == t.name),
            })
            .collect(),
        named: !args.targets.is_empty(),
        site,
        page,
        out: args.out.clone(),
        command,
    })
}

/// The page behind a path of a folder, and the folder as it is called from everywhere.
///
/// # Errors
/// A sentence that begins with `site` or `path`.
pub fn page_of(site: &Path, path: &str) -> Result<(PathBuf, Page), String> {
    let folder = site.canonicalize().map_err(|e| format!("site {}: {e}", site.display()))?;
    if !folder.is_dir() {
        return Err(format!("site {} is not a folder; give the folder, and the file as its path", site.display()));
    }
    let body = read_page(&folder, path)?;
    Ok((folder, Page { path: path.to_owned(), body }))
}

/// The file behind a path, as all servers map it.
fn read_page(site: &Path, path: &str) -> Result<Vec<u8>, String> {
    if !path.starts_with('/') || path.contains(|c: char| c.is_ascii_control() || c == ' ' || c == '#') {
        return Err(format!(
            "path {path}: a URL path is needed, beginning with / and without spaces (write them as %20)"
        ));
    }
    let plain = path.split('?').next().unwrap_or(path);
    let decoded =
        percent_decoded(plain).ok_or_else(|| format!("path {path}: a % must be followed by two hexadecimal digits"))?;
    if decoded.split('/').any(|segment| segment == "..") {
        return Err(format!("path {path}: it may not lead out of the folder with .."));
    }
    let mut file = site.join(decoded.trim_start_matches('/'));
    if file.is_dir() {
        if !plain.ends_with('/') {
            return Err(format!("path {path} is a folder, which servers answer with a redirect; ask for {path}/"));
        }
        file.push("index.html");
    }
    std::fs::read(&file).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            format!(
                "path {path}: there is no file {}; every server would answer 404. {}",
                file.display(),
                there_is(&file)
            )
        }
        _ => format!("path {path}: {}: {e}", file.display()),
    })
}

/// Some names that are there instead of `file`.
fn there_is(file: &Path) -> String {
    let Some(folder) = file.parent() else { return String::new() };
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .map(|entries| entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
        .unwrap_or_default();
    names.sort();
    names.truncate(6);
    if names.is_empty() { String::new() } else { format!("{} has: {}", folder.display(), names.join(", ")) }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?);
            rest = &rest[2..];
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The command with everything written out that a default or the clock decided.
fn command(args: &RunArgs, experiment: &Experiment, site: Option<&Path>, path: &str) -> String {
    let list: Vec<String> = experiment.concurrency.iter().map(ToString::to_string).collect();
    let mut words = vec!["manifold lab run".to_owned()];
    if args.quick {
        words.push("--quick".to_owned());
    }
    if let Some(site) = site {
        words.push(format!("--site '{}' --path '{path}'", site.display()));
    }
    if !args.targets.is_empty() {
        words.push(format!("--targets {}", args.targets.join(",")));
    }
    words.push(format!(
        "--concurrency {} --rounds {} --seconds {}",
        list.join(","),
        experiment.rounds,
        experiment.measured_s
    ));
    if let [only] = experiment.keep_alive[..] {
        words.push(format!("--keep-alive {}", if only { "on" } else { "off" }));
    }
    words.push(format!("--seed {}", experiment.seed));
    words.join(" ")
}

/// Parses `0-3,8`, as `cores::text` writes it.
///
/// # Errors
/// A sentence.
pub fn cores(text: &str) -> Result<Vec<usize>, String> {
    let mut cores = Vec::new();
    for run in text.split(',').filter(|run| !run.is_empty()) {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) if first <= last && last < 65_536 => cores.extend(first..=last),
            _ => return Err(format!("{run}: processors are numbers, as 0-3,8")),
        }
    }
    Ok(cores)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn read(line: &[&str]) -> Result<Settings, String> {
        let words = ["lab", "run"].iter().chain(line);
        match Cli::try_parse_from(words).map_err(|e| e.to_string())?.command {
            Do::Run(args) => resolve(&args, 42),
            _ => panic!("another command"),
        }
    }

    #[test]
    fn defaults_are_the_default_experiment() {
        let settings = read(&[]).expect("defaults");
        let e = &settings.experiment;
        assert_eq!(
            (e.keep_alive.as_slice(), e.concurrency.as_slice()),
            (&[false, true][..], &[10, 100, 500, 1000][..])
        );
        assert_eq!((e.rounds, e.seed, settings.targets.len(), settings.named), (5, 42, 8, false));
        assert_eq!(settings.page.body.len(), 44);
        assert!(e.estimate(8) < Duration::from_secs(240), "{:?}", e.estimate(8));
    }

    #[test]
    fn quick_fits_into_forty_seconds() {
        let e = read(&["--quick"]).expect("defaults").experiment;
        assert!(e.estimate(8) < Duration::from_secs(42), "{:?}", e.estimate(8));
        assert_eq!(e.rounds, 3);
    }

    #[test]
    fn options_override_and_the_command_repeats_them() {
        let line =
            ["--quick", "--targets", "nginx,event", "--concurrency", "50,5,50", "--rounds", "2", "--seconds", "1.5"];
        let settings = read(&[&line[..], &["--keep-alive", "on", "--seed", "9"]].concat()).expect("right");
        assert_eq!(settings.targets.iter().map(|t| t.name).collect::<Vec<_>>(), ["event", "nginx"]);
        assert!(settings.named);
        assert_eq!(
            settings.command,
            "manifold lab run --quick --targets nginx,event --concurrency 5,50 --rounds 2 --seconds 1.5 --keep-alive on --seed 9"
        );
    }

    #[test]
    fn mistakes_are_named_with_a_way_out() {
        let site = std::env::temp_dir().join(format!("manifold-lab-cli-{}", std::process::id()));
        std::fs::create_dir_all(site.join("sub")).expect("a folder");
        std::fs::write(site.join("a page.html"), "hello").expect("a file");
        let site = site.to_str().expect("text").to_owned();
        let site = site.as_str();
        for (line, part) in [
            (&["--targets", "workr"][..], "similar value exists: 'worker'"),
            (&["--site", "/no/such/folder"], "--site /no/such/folder: No such file"),
            (&["--site", "/etc/passwd"], "is not a folder"),
            (&["--path", "/x"], "--site"),
            (&["--site", site, "--path", "/nothing"], "answer 404"),
            (&["--site", site, "--path", "/nothing"], "has: a page.html, sub"),
            (&["--site", site], "index.html"),
            (&["--site", site, "--path", "/sub"], "ask for /sub/"),
            (&["--site", site, "--path", "x"], "beginning with /"),
            (&["--site", site, "--path", "/../x"], "may not lead out"),
            (&["--site", site, "--path", "/%2e%2e/x"], "may not lead out"),
            (&["--site", site, "--path", "/%zz"], "hexadecimal"),
            (&["--concurrency", "0"], "1..=20000"),
            (&["--rounds", "none"], "invalid"),
            (&["--seconds", "0"], "0.05 to 600"),
            (&["--keep-alive", "maybe"], "possible values: on, off, both"),
        ] {
            let said = read(line).expect_err(&line.join(" "));
            assert!(said.contains(part), "{line:?}: {said}");
        }
        let settings = read(&["--site", site, "--path", "/a%20page.html?x=%41"]).expect("it is there");
        assert_eq!(settings.page.body, b"hello");
        std::fs::remove_dir_all(site).expect("it can be removed");
    }

    #[test]
    fn processor_lists() {
        for (text, expected) in
            [("0", Ok(vec![0])), ("0-2,5", Ok(vec![0, 1, 2, 5])), ("", Ok(vec![])), ("x", Err(())), ("3-1", Err(()))]
        {
            assert_eq!(cores(text).map_err(|_| ()), expected, "{text}");
        }
    }
}
