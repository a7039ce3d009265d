//! `httpd` itself: from the command line to a running server, or to the one that runs already.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use log::LevelFilter;
use manifold_config::{Diagnostic, Severity, Style, document, render};
use manifold_mpm::limits::{Model, Occasion};
use manifold_mpm::parent::Ended;
use manifold_mpm::server::{Server, StartError};
use manifold_sys::process::daemonise;
use manifold_sys::signal::{Signal, leave_on};
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::args::{Args, Dump, Print, USAGE, Verb};
use crate::config::{Config, Loaded, load, reason, rows};
use crate::control_group::ControlGroup;
use crate::error_log::ErrorLog;
use crate::operator::{Httpd, InEffect, log_findings};
use crate::pid_file::{PidFile, Running, running};
use crate::service_manager::ServiceManager;
use crate::successor::{Inheritance, Invocation};
use crate::{loader, print};

/// The name that messages begin with.
pub(crate) const PROGRAM: &str = "httpd";

/// Something is wrong, and what; the exit status is 1.
struct Failure(String);

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure(text)
    }
}

/// `httpd` with the arguments that follow its name.
pub(crate) fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = args.collect();
    let args = match Args::parse(words.iter().cloned()) {
        Ok(args) => args,
        Err(error) => {
            print::tell(&format!("{PROGRAM}: {error}\n{USAGE}"));
            return ExitCode::FAILURE;
        }
    };
    let outcome = match args.print {
        Some(what) => print(what, &args),
        None => run(&args, &words),
    };
    outcome.unwrap_or_else(|Failure(text)| {
        print::tell(&format!("{text}\n"));
        ExitCode::FAILURE
    })
}

fn print(what: Print, args: &Args) -> Result<ExitCode, Failure> {
    match what {
        // Apache's usage goes to standard error, with status 1.
        Print::Help => return Err(Failure(USAGE.trim_end().to_owned())),
        Print::Version => print::say(&print::version()),
        Print::Modules => print::say(&loader::list_built_in()),
        Print::Directives => print::say(&document::list(&rows(args.model.unwrap_or(Model::DEFAULT)))),
        Print::Settings => {
            let loaded = load(args, Occasion::Start);
            print::say(&print::settings(loaded.modules.model()));
            // Without a word on which configuration is meant, one need not be there.
            if args.file.is_some() && loaded.config.is_none() {
                report(&loaded, args)?;
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn run(args: &Args, words: &[OsString]) -> Result<ExitCode, Failure> {
    let mut loaded = load(args, Occasion::Start);
    report(&loaded, args)?;
    let Some(config) = loaded.config.take() else { return Ok(ExitCode::FAILURE) };
    if args.test || !args.dumps.is_empty() {
        return Ok(test(args, &loaded, &config));
    }
    let inheritance = Inheritance::take()?;
    match args.verb {
        // However the server was started that this one replaces.
        _ if inheritance.replaces_a_server() => start(config, &loaded, args, words, inheritance),
        None | Some(Verb::Start) => start(config, &loaded, args, words, inheritance),
        Some(verb) => match running(&config.pid_file)? {
            Running::Yes(pid) => control(verb, pid),
            not_running => {
                if matches!(verb, Verb::Restart | Verb::Graceful) {
                    print::say(&format!("{PROGRAM} not running, trying to start\n"));
                    return start(config, &loaded, args, words, inheritance);
                }
                let whose = if let Running::Stale(pid) = not_running {
                    format!("pid {pid}?")
                } else {
                    "no pid file".to_owned()
                };
                print::say(&format!("{PROGRAM} ({whose}) not running\n"));
                Ok(ExitCode::SUCCESS)
            }
        },
    }
}

/// Shows the findings: errors always, and the rest as `-e` asks, on standard error or in the file of `-E`. What `--strict`
/// fails on is shown as well.
fn report(loaded: &Loaded, args: &Args) -> Result<(), Failure> {
    let level = args.startup_level.unwrap_or(LevelFilter::Warn);
    let colours =
        args.startup_file.is_none() && std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let style = if colours { Style::Coloured } else { Style::Plain };
    let asked = |finding: &Diagnostic| match finding.severity {
        Severity::Error => true,
        Severity::Warning => level >= LevelFilter::Warn,
        Severity::Info => level >= LevelFilter::Debug,
    };
    let findings = loaded.findings.iter().filter(|finding| asked(finding));
    let numbers = loaded.numbers.iter().filter(|number| asked(&number.diagnostic) || args.strict && number.is_change());
    let shown = findings.chain(numbers.map(|number| &number.diagnostic));
    let text: String = shown.map(|finding| render(finding, &loaded.configuration.sources, PROGRAM, style)).collect();
    let Some(path) = &args.startup_file else {
        print::tell(&text);
        return Ok(());
    };
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        Failure(format!("{PROGRAM}: could not open startup log {}: {}", path.display(), reason(&error)))
    })
}

/// `-t`. The last line is the verdict, for scripts.
fn test(args: &Args, loaded: &Loaded, config: &Config) -> ExitCode {
    for dump in &args.dumps {
        match dump {
            Dump::VirtualHosts => print::say("VirtualHost configuration:\n"),
            Dump::RunConfiguration => print::say(&print::run_configuration(config)),
            Dump::Modules => print::say(&loaded.modules.list_loaded()),
            Dump::Includes => print::say(&print::includes(&loaded.configuration)),
        }
    }
    if args.dumps.is_empty() {
        // Corrections come one by one; what they amount to is told once.
        let group = ControlGroup::current();
        print::tell(&print::effective_table(&config.limits, &config.listen, group));
        if let Some(complaint) = group.complaint(&config.limits) {
            print::tell(&format!("{PROGRAM}: warning: {complaint}\n"));
        }
    }
    let changes = loaded.numbers.iter().filter(|number| number.is_change()).count();
    if args.strict && changes > 0 {
        let what = if changes == 1 { "1 number does".to_owned() } else { format!("{changes} numbers do") };
        print::tell(&format!("{PROGRAM}: --strict: {what} not hold as configured, see above\n"));
        return ExitCode::FAILURE;
    }
    if args.dumps.is_empty() {
        print::tell("Syntax OK\n");
    }
    ExitCode::SUCCESS
}

/// Tells the running server.
fn control(verb: Verb, pid: i32) -> Result<ExitCode, Failure> {
    let signal = match verb {
        Verb::Stop => Signal::SIGTERM,
        Verb::GracefulStop => Signal::SIGWINCH,
        Verb::Graceful => Signal::SIGUSR1,
        Verb::Start | Verb::Restart => Signal::SIGHUP,
    };
    match kill(Pid::from_raw(pid), signal) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure(format!("{PROGRAM}: could not signal the server (pid {pid}): {}", error.desc()))),
    }
}

/// Starts a server. Whatever can fail is done while there is someone to tell: before the terminal is left.
fn start(
    mut config: Config,
    loaded: &Loaded,
    args: &Args,
    words: &[OsString],
    inheritance: Inheritance,
) -> Result<ExitCode, Failure> {
    let replaces = inheritance.replaces_a_server();
    let stale = match running(&config.pid_file)? {
        Running::Yes(pid) if !replaces => {
            print::say(&format!("{PROGRAM} (pid {pid}) already running\n"));
            return Ok(ExitCode::SUCCESS);
        }
        Running::Stale(_) => true,
        Running::Yes(_) | Running::NoFile => false,
    };
    let error_log = ErrorLog::open(&config.error_log, config.levels.clone()).map_err(|error| {
        let number = error.raw_os_error().unwrap_or(0);
        let what = format!("AH00091: {PROGRAM}: could not open error log file {}.", config.error_log.display());
        Failure(format!("({number}){}: {what}\nAH00015: Unable to open logs", reason(&error)))
    })?;
    let site = config.site().map_err(|error| Failure(format!("{error}\nAH00015: Unable to open logs")))?;
    let path = config.pid_file.clone();
    let plan = config.plan(site, args);
    let in_effect = InEffect::of(&plan);
    let offered = inheritance.managed();
    let server = Server::start(plan, inheritance.sockets).map_err(|error| could_not_start(&error, &offered))?;
    let invocation = Invocation::of_this_process();
    let no_pid_file =
        |error: io::Error| Failure(format!("AH00099: could not create {}: {}", path.display(), reason(&error)));
    let mut pid_file = PidFile::create(&path).map_err(no_pid_file)?;
    if !args.foreground && !args.one_process && !replaces {
        daemonise().map_err(|error| Failure(format!("{PROGRAM}: could not leave the terminal: {}", reason(&error))))?;
    }
    error_log.install();
    // Warnings were shown to whoever starts the server.
    log_findings(loaded, |severity| severity == Severity::Info);
    for what in &inheritance.unfit {
        log::warn!(target: "core", "{what}");
    }
    if stale {
        let text = "overwritten -- Unclean shutdown of previous Apache run?";
        log::warn!(target: "core", "AH00098: pid file {} {text}", path.display());
    }
    if !replaces {
        // A successor's is placed when it serves.
        pid_file.place().map_err(no_pid_file)?;
    }
    let ended = if args.one_process {
        in_effect.log();
        // The only process has no parent that takes signals.
        leave_on(&[Signal::SIGTERM, Signal::SIGINT], &path, server.own_sockets()).and_then(|()| server.run_single())
    } else {
        let (args, words, predecessor) = (args.clone(), words.to_vec(), inheritance.ready);
        let manager = ServiceManager::from_environment();
        server.run(Box::new(Httpd { args, words, in_effect, invocation, pid_file, manager, predecessor }))
    };
    match ended {
        Ok(Ended::AtOnce | Ended::Gracefully) => Ok(ExitCode::SUCCESS),
        Ok(Ended::Failed) => Ok(ExitCode::FAILURE),
        Err(error) => {
            log::error!(target: "core", "{PROGRAM}: {error}");
            Err(Failure(format!("{PROGRAM}: {error}")))
        }
    }
}

fn could_not_start(error: &StartError, offered: &[SocketAddr]) -> Failure {
    Failure(match error {
        StartError::Bind(..) => {
            let mut text =
                format!("{error}\nno listening sockets available, shutting down\nAH00015: Unable to open logs");
            if !offered.is_empty() {
                let offered: Vec<String> = offered.iter().map(ToString::to_string).collect();
                let offered = offered.join(", ");
                text.push_str(&format!(
                    "\n  = help: the service manager listens on {offered}; a Listen line takes its socket where it names the \
                     same address"
                ));
            }
            text
        }
        StartError::NoListeners => {
            format!("{error}\n  = help: say where to listen, for example 'Listen 8080'\nAH00015: Unable to open logs")
        }
        StartError::Scoreboard(_) | StartError::Descriptors(_) => error.to_string(),
    })
}
