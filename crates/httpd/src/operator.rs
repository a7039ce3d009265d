//! The administrator's side of a running `httpd`: where its configuration comes from, and who is told how it fares.

use std::ffi::OsString;
use std::io::{self, PipeWriter};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use manifold_config::{Severity, render_line};
use manifold_mpm::limits::{self, Occasion};
use manifold_mpm::listeners::Owner;
use manifold_mpm::server::{Operator, Plan, Pulse};

use crate::args::Args;
use crate::config::{Config, Loaded, load, reason};
use crate::control_group::ControlGroup;
use crate::error_log::{self, ErrorLog};
use crate::pid_file::PidFile;
use crate::print;
use crate::run::PROGRAM;
use crate::service_manager::ServiceManager;
use crate::successor::{Invocation, Ready};

/// The operator of a server that was started as `args` say.
#[derive(Debug)]
pub(crate) struct Httpd {
    pub args: Args,
    /// The words of the command line, for the log.
    pub words: Vec<OsString>,
    pub in_effect: InEffect,
    pub invocation: Invocation,
    pub pid_file: PidFile,
    pub manager: ServiceManager,
    /// A server that this one replaces.
    pub predecessor: Option<Ready>,
}

/// What the log is told of the configuration that came into force.
#[derive(Debug)]
pub(crate) struct InEffect {
    /// All numbers, in one line.
    numbers: String,
    /// What they need and will not get.
    complaint: Option<String>,
}

impl InEffect {
    /// That of a plan, under the limits of the control group at this moment.
    pub(crate) fn of(plan: &Plan) -> InEffect {
        let group = ControlGroup::current();
        let numbers = print::effective_line(&plan.limits, &plan.listen, group);
        InEffect { numbers, complaint: group.complaint(&plan.limits) }
    }

    /// Tells the log.
    pub(crate) fn log(&self) {
        log::info!(target: "core", "{}", self.numbers);
        if let Some(complaint) = &self.complaint {
            log::warn!(target: "core", "{complaint}");
        }
    }
}

impl Httpd {
    /// Reads the configuration, and says in the log what there is to say about it.
    fn read(&self) -> Result<Config, String> {
        let mut loaded = load(&self.args, Occasion::Reload);
        let config = loaded.config.take();
        log_findings(&loaded, |_| true);
        config.ok_or_else(|| {
            let error = loaded.findings.iter().find(|finding| finding.severity == Severity::Error);
            error.map_or_else(String::new, |error| render_line(error, &loaded.configuration.sources, PROGRAM))
        })
    }
}

/// Writes to the error log what there is to say about a configuration, as far as it is of a severity that `is_due`.
pub(crate) fn log_findings(loaded: &Loaded, is_due: impl Fn(Severity) -> bool) {
    for finding in loaded.findings.iter().filter(|finding| is_due(finding.severity)) {
        let text = render_line(finding, &loaded.configuration.sources, PROGRAM);
        match finding.severity {
            Severity::Error => log::error!(target: "core", "{text}"),
            Severity::Warning => log::warn!(target: "core", "{text}"),
            Severity::Info => log::debug!(target: "core", "{text}"),
        }
    }
    let is_good = loaded.findings.iter().all(|finding| finding.severity != Severity::Error);
    let numbers = loaded.numbers.iter().filter(|number| is_good && is_due(number.diagnostic.severity));
    limits::log_findings(loaded.modules.model(), numbers);
}

impl Operator for Httpd {
    fn reload(&mut self) -> Result<Plan, String> {
        self.manager.reloading();
        let mut config = self.read()?;
        let error_log = ErrorLog::open(&config.error_log, config.levels.clone())
            .map_err(|error| format!("AH00091: could not open {}: {}", config.error_log.display(), reason(&error)))?;
        if config.pid_file != self.pid_file.path() {
            log::warn!(target: "core", "PidFile takes effect when the server is started, not when it is reloaded");
        }
        let site = config.site()?;
        error_log.install();
        let plan = config.plan(site, &self.args);
        self.in_effect = InEffect::of(&plan);
        Ok(plan)
    }

    fn in_force(&mut self) {
        let command: Vec<_> = self.words.iter().map(|word| word.to_string_lossy()).collect();
        log::info!(target: "core", "AH00094: Command line: '{PROGRAM} {}'", command.join(" "));
        self.in_effect.log();
        if let Some(predecessor) = self.predecessor.take() {
            if let Err(error) = self.pid_file.place() {
                log::error!(target: "core", "AH00099: could not create {}: {error}", self.pid_file.path().display());
            }
            // The service manager listens to the old server until that has named this one.
            predecessor.tell();
        } else {
            self.manager.ready();
        }
    }

    fn refused(&mut self, why: &str) {
        self.manager.refused(why);
    }

    fn stopping(&mut self, within: Option<Duration>) {
        self.manager.stopping(within);
    }

    fn replaced(&mut self, pid: i32) {
        self.pid_file.leave_to_successor();
        self.manager.replaced(pid);
    }

    fn tick(&mut self, pulse: Pulse) {
        self.manager.tick(Instant::now(), pulse);
    }

    fn beat(&mut self, now: Instant) -> Option<Instant> {
        self.manager.beat(now)
    }

    fn start_successor(
        &mut self,
        sockets: &mut dyn Iterator<Item = (&TcpListener, Owner)>,
        ready: PipeWriter,
    ) -> io::Result<i32> {
        // What keeps it from starting belongs into the log where the terminal is gone.
        let errors = if self.args.foreground { None } else { error_log::installed_file() };
        self.invocation.start(sockets, &ready, errors)
    }
}
