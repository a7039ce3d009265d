//! The administrator's side of a running `httpd`: where its configuration comes from, and who is told how it fares.

use std::ffi::OsString;
use std::io::{self, PipeWriter};
use std::net::TcpListener;

use manifold_config::{Severity, render_line};
use manifold_mpm::limits::{self, Occasion};
use manifold_mpm::server::{Operator, Plan};

use crate::args::Args;
use crate::config::{Config, Loaded, load, reason};
use crate::error_log::ErrorLog;
use crate::pid_file::PidFile;
use crate::print;
use crate::run::PROGRAM;
use crate::successor::{Invocation, Ready};

/// The operator of a server that was started as `args` say.
#[derive(Debug)]
pub(crate) struct Httpd {
    pub args: Args,
    /// The words of the command line, for the log.
    pub words: Vec<OsString>,
    /// The numbers in effect, for the log.
    pub in_effect: String,
    pub invocation: Invocation,
    pub pid_file: PidFile,
    /// A server that this one replaces.
    pub predecessor: Option<Ready>,
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
        let mut config = self.read()?;
        let error_log = ErrorLog::open(&config.error_log, config.levels.clone())
            .map_err(|error| format!("AH00091: could not open {}: {}", config.error_log.display(), reason(&error)))?;
        if config.pid_file != self.pid_file.path() {
            log::warn!(target: "core", "PidFile takes effect when the server is started, not when it is reloaded");
        }
        let site = config.site()?;
        error_log.install();
        let plan = config.plan(site, &self.args);
        self.in_effect = print::effective_line(&plan.limits, &plan.listen);
        Ok(plan)
    }

    fn in_force(&mut self) {
        let command: Vec<_> = self.words.iter().map(|word| word.to_string_lossy()).collect();
        log::info!(target: "core", "AH00094: Command line: '{PROGRAM} {}'", command.join(" "));
        log::info!(target: "core", "{}", self.in_effect);
        if let Some(predecessor) = self.predecessor.take() {
            if let Err(error) = self.pid_file.place() {
                log::error!(target: "core", "AH00099: could not create {}: {error}", self.pid_file.path().display());
            }
            predecessor.tell();
        }
    }

    fn stopping(&mut self) {}

    fn replaced(&mut self, _: i32) {
        self.pid_file.leave_to_successor();
    }

    fn tick(&mut self) {}

    fn start_successor(
        &mut self,
        sockets: &mut dyn Iterator<Item = &TcpListener>,
        ready: PipeWriter,
    ) -> io::Result<i32> {
        self.invocation.start(sockets, &ready)
    }
}
