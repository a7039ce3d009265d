//! `lab tune`: the model and the numbers that serve a site best on this machine, within its memory, as a block with the evidence for each
//! number; or that nothing is distinguishably better than what there is.

mod candidate;
mod load;
mod objective;
pub mod results;
mod run;
mod verdict;
pub mod view;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use self::candidate::Candidate;
use self::load::Paths;
use self::objective::Objective;
use self::results::{Question, Verdict};
use crate::cli::{BUILT_IN_PAGE, page_of};
use crate::doctor::machine::Machine;
use crate::doctor::memory::Costs;
use crate::doctor::{self, Present, Server};
use crate::staged::Stage;
use crate::study::resolve::Page;
use crate::target::Model;
use crate::{progress, text};

/// Clients where nothing is said.
const CLIENTS: u32 = 100;
/// Minutes where nothing is said.
const MINUTES: f64 = 5.0;
/// Of these parts of the clients, the most with which the 99th percentile is within its limit is looked for.
const P99_PARTS: [u32; 4] = [8, 4, 2, 1];

/// Examples under the help.
pub const EXAMPLES: &str = "\
What is better: answers a second to so many clients, or with --p99 the most answers a second at which the 99th percentile is within
it, never with more memory than there is. The present setting is that of --file, or of the installed Apache's configuration.

Exit code: 0 something better was found, its block is printed; 3 keep what you have; 1 it could not be done; 2 wrong usage;
130 ended early by Ctrl-C.

Examples:
  manifold lab tune --site /var/www/html                          the front page, for the installed Apache
  manifold lab tune --site /srv/www --path /big.html --clients 1000
  manifold lab tune --site /srv/www --access-log /var/log/apache2/access.log --p99 50ms --memory 2G
  manifold lab tune --site /srv/www --target manifold --minutes 2
  manifold lab tune -f /etc/apache2/apache2.conf --path /index.php    what this configuration serves, by private copies of it";

/// Options of `lab tune`.
#[derive(Args, Debug)]
pub struct TuneArgs {
    /// Serve this folder [default: what --file serves, or else the built-in page of 44 bytes]
    #[arg(long, value_name = "DIR")]
    site: Option<PathBuf>,
    /// What is asked for [default: /]; with --site a file must stand behind it
    #[arg(long, value_name = "/PATH", conflicts_with_all = ["url_list", "access_log"])]
    path: Option<String>,
    /// What is asked for: a URL or a path a line, equally often
    #[arg(long, value_name = "FILE", conflicts_with = "access_log")]
    url_list: Option<PathBuf>,
    /// What is asked for: the most frequent paths of this log, as often as there
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Whose server
    #[arg(long, value_name = "NAME", default_value = "apache2")]
    target: Server,
    /// The configuration whose numbers are the present setting [default: where distributions have it]; without --site, private copies of
    /// it serve what it serves
    #[arg(short = 'f', long, value_name = "httpd.conf")]
    file: Option<PathBuf>,
    /// Memory that the server may take, as 512M or 2G [default: what is available]
    #[arg(long, value_name = "SIZE", value_parser = kib)]
    memory: Option<f64>,
    /// The 99th percentile of latency that may not be exceeded, as 50ms or 1s
    #[arg(long, value_name = "TIME", value_parser = millis)]
    p99: Option<f64>,
    /// Clients at the same time [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    clients: Option<u32>,
    /// Clients make a new connection for each request
    #[arg(long)]
    close: bool,
    /// How long it may take at most [default: 5]
    #[arg(long, value_name = "M", value_parser = minutes)]
    minutes: Option<f64>,
    /// Decides the order of cells [default: from the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write the block there as well
    #[arg(long, value_name = "FILE")]
    block: Option<PathBuf>,
    /// Folder for the report; it must not exist or be empty [default: lab-DATE-TIME here]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What is served.
#[derive(Debug)]
enum Site {
    /// A folder, by a configuration with nothing in it that is not needed.
    Folder(PathBuf),
    /// What a configuration of the user's serves, by private copies of it.
    Own(PathBuf),
}

impl Site {
    /// The folder; a configuration has its own.
    fn folder(&self) -> &Path {
        match self {
            Site::Folder(folder) => folder,
            Site::Own(_) => Path::new("/"),
        }
    }
}

/// What the options come to.
#[derive(Debug)]
struct Settings {
    question: Question,
    site: Site,
    /// The built-in page's folder goes with it.
    _stage: Option<Stage>,
    paths: Paths,
    /// What the first path answers.
    page: Page,
    present: Now,
    /// Modules beside the model: name and file.
    modules: Vec<(String, PathBuf)>,
    out: Option<PathBuf>,
    command: String,
}

/// The present setting.
#[derive(Debug)]
struct Now(Present);

impl Now {
    fn candidate(&self, costs: &[(Model, Costs)]) -> Candidate {
        let Present { model, settings, workers, shape: (children, threads), .. } = &self.0;
        let costs = costs.iter().find(|(of, _)| of == model).map(|(_, costs)| costs);
        let shape = if *threads > 1 { format!("{children} x {threads}") } else { children.to_string() };
        Candidate {
            name: format!("present setting ({} {shape})", model.name()),
            model: *model,
            settings: settings.clone(),
            workers: *workers,
            memory_kib: costs.map(|costs| costs.of(*children, *threads)),
            closes: false,
            is_present: true,
        }
    }

    fn value(&self, name: &str) -> Option<&str> {
        let Present { settings, keeping, .. } = &self.0;
        settings.iter().chain(keeping).find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn keeps(&self) -> bool {
        self.value("KeepAlive").is_none_or(|value| !value.eq_ignore_ascii_case("off"))
    }

    fn replaced_after(&self) -> &str {
        self.value("MaxConnectionsPerChild").unwrap_or("0")
    }

    fn keeping(&self) -> Vec<(String, String)> {
        self.0.keeping.clone()
    }
}

/// Runs it. `seed` is that where none was given.
///
/// # Errors
/// What prevented it.
pub fn run(args: &TuneArgs, seed: u64) -> Result<ExitCode> {
    let settings = match resolve(args, seed) {
        Ok(settings) => settings,
        Err(sentence) => {
            eprintln!("manifold lab: {}", sentence.trim_end());
            return Ok(ExitCode::from(2));
        }
    };
    let (found, out, kept) = run::run(&settings)?;
    out.write(&found)?;
    print!("\n{}", view::terminal(&found));
    println!("Report: {}", out.folder().join("report.html").display());
    println!("Took {}; repeat it with: {}", text::duration(found.took_s), found.environment.command);
    if let (Some(file), Some(block)) = (&args.block, view::block(&found)) {
        std::fs::write(file, block).with_context(|| format!("cannot write {}", file.display()))?;
        progress::note(&format!("The block is in {}", file.display()));
    }
    kept.end(&found);
    Ok(match (&found.verdict, &found.ended_early) {
        (_, Some(why)) => ExitCode::from(if why == "interrupted" { 130 } else { 1 }),
        (Verdict::Better { .. }, None) => ExitCode::SUCCESS,
        (Verdict::Keep { .. }, None) => ExitCode::from(3),
    })
}

fn resolve(args: &TuneArgs, clock_seed: u64) -> Result<Settings, String> {
    let manifold = std::env::current_exe().map_err(|error| format!("cannot tell which program this is: {error}"))?;
    let paths = match (&args.url_list, &args.access_log) {
        (Some(file), _) => Paths::of_list(file)?,
        (None, Some(file)) => Paths::of_log(file)?,
        (None, None) => Paths::one(args.path.as_deref().unwrap_or("/")),
    };
    let is_own = args.file.is_some() && args.site.is_none();
    if is_own && args.target == Server::Manifold {
        return Err("copies of a configuration are served by apache2 alone; give --site as well".to_owned());
    }
    let (site, stage, page) =
        if is_own { own(args.file.as_deref(), &paths)? } else { site(args.site.as_deref(), &paths)? };
    let present = doctor::present(args.file.as_deref(), args.target, &manifold)?;
    let clients = args.clients.unwrap_or(CLIENTS);
    let numbers = match args.p99 {
        None => vec![clients],
        Some(_) => {
            let mut numbers: Vec<u32> = P99_PARTS.iter().map(|part| (clients / part).max(1)).collect();
            numbers.dedup();
            numbers
        }
    };
    let available =
        || Machine::available_kib().ok_or("how much memory there is cannot be told; give --memory".to_owned());
    let memory_kib = args.memory.map_or_else(available, Ok)?;
    let seed = args.seed.unwrap_or(clock_seed);
    let question = Question {
        target: args.target.family(),
        objective: Objective { clients: numbers, keep_alive: !args.close, p99_ms: args.p99, memory_kib },
        paths: paths.paths.clone(),
        share: paths.share,
        site: args.site.as_ref().map(|_| site.folder().display().to_string()),
        present: present.file.as_ref().map(|file| file.display().to_string()),
        is_own,
        minutes: args.minutes.unwrap_or(MINUTES),
        seed,
    };
    let command = command(args, seed);
    let out = args.out.clone();
    let modules = if is_own { present.modules.clone() } else { Vec::new() };
    Ok(Settings { question, site, _stage: stage, paths, page, present: Now(present), modules, out, command })
}

/// What a configuration of the user's serves, whatever that is.
fn own(file: Option<&Path>, paths: &Paths) -> Result<(Site, Option<Stage>, Page), String> {
    let file = file.and_then(|file| std::path::absolute(file).ok()).ok_or("--file cannot be found")?;
    let page = Page { path: paths.paths[0].clone(), site: None, body: Vec::new(), bytes: 0, theirs: true };
    Ok((Site::Own(file), None, page))
}

/// The folder that is served, and what its first path answers. Every path must be there.
fn site(folder: Option<&Path>, paths: &Paths) -> Result<(Site, Option<Stage>, Page), String> {
    let page = |path: &str, body: Vec<u8>| Page {
        path: path.to_owned(),
        site: None,
        bytes: body.len() as u64,
        body,
        theirs: false,
    };
    let Some(folder) = folder else {
        if paths.paths != ["/"] {
            return Err(
                "--site is needed for a page, a list or a log, or --file for what a configuration serves".to_owned()
            );
        }
        let failed = |error: anyhow::Error| format!("{error:#}");
        let stage = Stage::new(None).map_err(failed)?;
        stage.write("site", "index.html", BUILT_IN_PAGE.as_bytes()).map_err(failed)?;
        let folder = stage.folder("site").map_err(failed)?;
        return Ok((Site::Folder(folder), Some(stage), page("/", BUILT_IN_PAGE.as_bytes().to_vec())));
    };
    let mut first = None;
    for path in &paths.paths {
        let read = page_of(folder, path).map_err(|said| format!("--{said}"))?;
        first.get_or_insert(read);
    }
    let (folder, read) = first.ok_or_else(|| "there is nothing to ask for".to_owned())?;
    Ok((Site::Folder(folder), None, page(&read.path, read.body)))
}

/// The command that repeats it.
fn command(args: &TuneArgs, seed: u64) -> String {
    let path = |name: &str, value: &Option<PathBuf>| value.as_ref().map(|path| format!("--{name} {}", path.display()));
    let words = [
        path("site", &args.site),
        args.path.as_ref().map(|path| format!("--path '{path}'")),
        path("url-list", &args.url_list),
        path("access-log", &args.access_log),
        (args.target == Server::Manifold).then(|| "--target manifold".to_owned()),
        path("file", &args.file),
        args.memory.map(|kib| format!("--memory {kib}K")),
        args.p99.map(|p99| format!("--p99 {p99}ms")),
        args.clients.map(|clients| format!("--clients {clients}")),
        args.close.then(|| "--close".to_owned()),
        args.minutes.map(|minutes| format!("--minutes {minutes}")),
        Some(format!("--seed {seed}")),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    format!("manifold lab tune {}", words.join(" "))
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(m) if (0.1..=1440.0).contains(&m) => Ok(m),
        _ => Err("minutes from 0.1 to 1440 are needed".to_owned()),
    }
}

/// A size in KiB: `512M`, `2G`, `65536K`.
fn kib(text: &str) -> Result<f64, String> {
    let units = [('K', 1.0), ('M', 1024.0), ('G', 1024.0 * 1024.0)];
    let number =
        |unit: char| text.to_ascii_uppercase().strip_suffix(unit).and_then(|number| number.parse::<f64>().ok());
    let found = units.iter().find_map(|(unit, kib)| Some(number(*unit)? * kib));
    found.filter(|kib| (1024.0..=1e12).contains(kib)).ok_or_else(|| "a size such as 512M or 2G is needed".to_owned())
}

/// A time in milliseconds: `50ms`, `1s`.
fn millis(text: &str) -> Result<f64, String> {
    let number = |unit: &str| text.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok());
    let found = number("ms").or_else(|| number("s").map(|seconds| seconds * 1000.0));
    found.filter(|ms| (0.01..=600_000.0).contains(ms)).ok_or_else(|| "a time such as 50ms or 1s is needed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        let check = |text: &str, expected: Option<f64>| assert_eq!(kib(text).ok(), expected, "{text}");
        check("2G", Some(2_097_152.0));
        check("1.5g", Some(1_572_864.0));
        check("512M", Some(524_288.0));
        check("65536K", Some(65_536.0));
        check("1K", None);
        check("2", None);
        check("many", None);
        let check = |text: &str, expected: Option<f64>| assert_eq!(millis(text).ok(), expected, "{text}");
        check("50ms", Some(50.0));
        check("1.5s", Some(1500.0));
        check("50", None);
        check("-1ms", None);
    }
}
