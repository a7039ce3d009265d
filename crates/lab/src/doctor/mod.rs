//! `lab doctor`: what a configuration comes to, and what will run out first, without any load on the server it is for.
//!
//! The file is read as the server reads it ([`reading`]), its numbers go through the server's own rules of correction, and a private
//! server of the same model tells what a child costs ([`memory`]). From there on everything is arithmetic ([`ends`]).

mod ends;
pub mod machine;
pub mod memory;
mod program;
mod reading;
mod view;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;

use self::ends::{End, Remark};
use self::machine::Machine;
use self::memory::{Costs, Measured};
use self::program::Program;
use self::reading::{Correction, Setup, Value, Whose};
use crate::staged::Stage;
use crate::target::{Family, Model};

/// The form of `--json`; it changes when a reader must.
const FORMAT: u32 = 1;
/// Where distributions keep Apache's configuration.
const APACHES: [&str; 2] = ["/etc/apache2/apache2.conf", "/etc/httpd/conf/httpd.conf"];
/// Ours.
const OURS: &str = "/etc/manifold/httpd.conf";

/// Examples under the help.
pub const EXAMPLES: &str = "\
Nothing is sent to the server that the configuration is for, and it need not run. A private one of the same model is started on a port of
its own on 127.0.0.1, twice or three times for about a second, to measure what a child and a thread cost.

Exit code: 0 nothing to act on; 1 a number is corrected, or something runs out before the workers do; 2 the configuration cannot be used.

Examples:
  manifold lab doctor                                  the installed Apache's own configuration
  manifold lab doctor /etc/httpd/conf/httpd.conf       another one
  manifold lab doctor --target manifold my/httpd.conf  the same for Manifold
  manifold lab doctor --no-measure --json              without the private server, as JSON";

/// Options of `lab doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// The main file [default: where distributions have it]
    #[arg(value_name = "httpd.conf")]
    file: Option<PathBuf>,
    /// Which server the configuration is for
    #[arg(long, value_name = "NAME", default_value = "apache2")]
    target: Server,
    /// `ServerRoot` where the file does not say, as `httpd -d` [default: the server's own]
    #[arg(short = 'd', value_name = "DIR")]
    root: Option<PathBuf>,
    /// Start no private server, so say nothing of memory
    #[arg(long)]
    no_measure: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// The servers that Apache's configurations are for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Server {
    /// Apache HTTP Server, as installed here
    Apache2,
    /// This binary
    Manifold,
}

impl Server {
    fn whose(self) -> Whose {
        match self {
            Server::Apache2 => Whose::Apache,
            Server::Manifold => Whose::Manifold,
        }
    }

    /// The laboratory's name for it.
    pub fn family(self) -> Family {
        match self {
            Server::Apache2 => Family::Apache2,
            Server::Manifold => Family::Manifold,
        }
    }
}

/// What is configured now, for those who look for something better.
#[derive(Clone, Debug)]
pub struct Present {
    /// Which model.
    pub model: Model,
    /// The model's numbers in effect.
    pub settings: Vec<(String, String)>,
    /// How connections are kept.
    pub keeping: Vec<(String, String)>,
    /// Requests that are worked on at the same time.
    pub workers: u32,
    /// Children at most, and threads of each that serve.
    pub shape: (u32, u32),
    /// Modules beside the model: name and file.
    pub modules: Vec<(String, PathBuf)>,
    /// The main file; `None` where there is none, and the server's defaults hold.
    pub file: Option<PathBuf>,
}

/// Directives of a model's numbers that a block has.
const OF_MODELS: [&str; 14] = [
    "ServerLimit",
    "StartServers",
    "ThreadLimit",
    "ThreadsPerChild",
    "MinSpareServers",
    "MaxSpareServers",
    "MinSpareThreads",
    "MaxSpareThreads",
    "MaxRequestWorkers",
    "MaxConnectionsPerChild",
    "AsyncRequestWorkerFactor",
    "Cores",
    "CorePinning",
    "MaxConnections",
];
/// Those of keeping connections.
const OF_KEEPING: [&str; 3] = ["KeepAlive", "KeepAliveTimeout", "MaxKeepAliveRequests"];

/// What `file`, or else the usual one, says; the server's defaults where there is none.
///
/// # Errors
/// What is wrong with the file, as lines for a person.
pub fn present(file: Option<&Path>, server: Server, manifold: &Path) -> Result<Present, String> {
    let whose = server.whose();
    let Some(file) = file.map_or_else(|| named(None, whose).ok(), |file| std::path::absolute(file).ok()) else {
        let limits = manifold_mpm::limits::resolve(
            manifold_mpm::limits::Model::DEFAULT,
            &manifold_mpm::limits::RawLimits::default(),
            1,
            manifold_mpm::limits::Occasion::Start,
        );
        let (workers, threads) = (limits.0.max_request_workers, limits.0.threads_per_child);
        let shape = (workers / threads, threads);
        return Ok(Present {
            model: Model::Event,
            settings: Vec::new(),
            keeping: Vec::new(),
            workers,
            shape,
            modules: Vec::new(),
            file: None,
        });
    };
    let program = Program::ask(whose, manifold, file.parent().unwrap_or(Path::new("/")));
    let root = program.root_for(&file);
    let setup = reading::read(&file, whose, &program, &root)?;
    let of = |names: &[&str]| {
        let values = setup.values.iter().filter(|value| names.contains(&value.name.as_str()));
        values.map(|value| (value.name.clone(), value.value.clone())).collect()
    };
    let limits = &setup.limits;
    Ok(Present {
        model: model(limits.model),
        settings: of(&OF_MODELS),
        keeping: of(&OF_KEEPING),
        workers: limits.max_request_workers,
        shape: (limits.processes(), limits.threads_per_child),
        modules: setup.modules,
        file: Some(file),
    })
}

/// The laboratory's name for a model.
fn model(model: manifold_mpm::limits::Model) -> Model {
    match model {
        manifold_mpm::limits::Model::Prefork => Model::Prefork,
        manifold_mpm::limits::Model::Worker => Model::Worker,
        manifold_mpm::limits::Model::Event => Model::Event,
        manifold_mpm::limits::Model::Percore => Model::Percore,
    }
}

/// All that is said.
#[derive(Debug, Serialize)]
struct Diagnosis {
    format: u32,
    /// The main file.
    file: String,
    /// What the server's program says of itself.
    server: String,
    /// In a sentence or two.
    answer: String,
    mpm: Value,
    values: Vec<Value>,
    corrections: Vec<Correction>,
    /// What runs out first stands first.
    ends: Vec<End>,
    remarks: Vec<Remark>,
    /// What was measured, or why it was not.
    memory: Option<Costs>,
    not_measured: Option<String>,
    machine: Machine,
}

impl Diagnosis {
    /// Whether there is something to act on.
    fn has_findings(&self) -> bool {
        self.corrections.iter().any(|correction| correction.changes)
            || self.ends.iter().any(|end| end.too_early)
            || self.remarks.iter().any(|remark| remark.is_finding)
    }
}

/// Runs it.
///
/// # Errors
/// If the configuration cannot be used; the message says where.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let manifold = std::env::current_exe().context("cannot tell which program this is")?;
    let whose = args.target.whose();
    let file = named(args.file.as_deref(), whose)?;
    let program = Program::ask(whose, &manifold, file.parent().unwrap_or(Path::new("/")));
    let root = args.root.clone().unwrap_or_else(|| program.root_for(&file));
    let setup = match reading::read(&file, whose, &program, &root) {
        Ok(setup) => setup,
        Err(text) => return refused(&file, &text),
    };
    if let Some(text) = program.refuses(whose, &file, &root) {
        return refused(&file, &format!("{text}\n"));
    }
    let diagnosis = diagnose(args, &file, &program, setup);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&diagnosis).context("it cannot be written as JSON")?);
    } else {
        print!("{}", view::text(&diagnosis));
    }
    Ok(ExitCode::from(u8::from(diagnosis.has_findings())))
}

fn refused(file: &Path, text: &str) -> Result<ExitCode> {
    eprint!("{text}");
    eprintln!("manifold lab: {} cannot be used as it is; nothing is told of it", file.display());
    Ok(ExitCode::from(2))
}

/// The main file: the given one, or where it is on this system.
fn named(given: Option<&Path>, whose: Whose) -> Result<PathBuf> {
    let usual: &[&str] = if whose == Whose::Apache { &APACHES } else { &[OURS] };
    match given {
        Some(file) => std::path::absolute(file).with_context(|| format!("cannot tell where {} is", file.display())),
        None => usual
            .iter()
            .map(PathBuf::from)
            .find(|file| file.exists())
            .with_context(|| format!("there is no {}; name the main file", usual.join(" or "))),
    }
}

fn diagnose(args: &DoctorArgs, file: &Path, program: &Program, setup: Setup) -> Diagnosis {
    let whose = args.target.whose();
    let machine = Machine::look(whose, setup.pid_file.as_deref().and_then(running), &program.variables);
    let measured =
        if args.no_measure { Err("--no-measure was given".to_owned()) } else { measure(args.target.family(), &setup) };
    let (memory, not_measured) = match measured {
        Ok(costs) => (Some(costs), None),
        Err(why) => (None, Some(why)),
    };
    let ends = ends::ends(&setup, &machine, memory.as_ref());
    let remarks = ends::remarks(&setup, &machine, whose);
    let changed = setup.corrections.iter().filter(|correction| correction.changes).count();
    let server =
        if program.path.is_some() { program.version.clone() } else { "Apache, which is not installed here".to_owned() };
    Diagnosis {
        format: FORMAT,
        file: file.display().to_string(),
        server,
        answer: view::answer(&ends, changed, &setup.mpm.value),
        mpm: setup.mpm,
        values: setup.values,
        corrections: setup.corrections,
        ends,
        remarks,
        memory,
        not_measured,
        machine,
    }
}

/// The process of a PID file, where it is there.
fn running(pid_file: &Path) -> Option<i32> {
    let pid: i32 = fs::read_to_string(pid_file).ok()?.trim().parse().ok()?;
    Path::new(&format!("/proc/{pid}")).exists().then_some(pid)
}

/// What a child costs, or why that is not known. With all of the configuration's modules, and without them where they need more of the
/// configuration than a private server has.
fn measure(family: Family, setup: &Setup) -> Result<Costs, String> {
    let stage = Stage::new(None).map_err(|error| format!("{error:#}"))?;
    let modules: &[(String, PathBuf)] = if family == Family::Apache2 { &setup.modules } else { &[] };
    let measured =
        Measured { family, model: model(setup.limits.model), threads: setup.limits.threads_per_child, modules };
    let with_all = measured.costs(&stage);
    let costs = match with_all {
        Err(_) if !modules.is_empty() => Measured { modules: &[], ..measured }.costs(&stage),
        other => other,
    };
    costs.map_err(|error| format!("{error:#}"))
}
