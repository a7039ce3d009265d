//! What the parent says in the error log: Apache's messages under Apache's numbers, which differ from model to model.

use std::io;
use std::time::Duration;

use manifold_sys::process::Ended;
use manifold_sys::signal::Signal;

use crate::health::Verdict;
use crate::ledger::Reload;
use crate::limits::Model;
use crate::spare::{Census, Full};

/// Signals that end a child without a word.
const EXPECTED: [Signal; 4] = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGKILL];

/// The messages of one model.
#[derive(Debug)]
pub(crate) struct Messages {
    target: &'static str,
    resuming: &'static str,
    seems_busy: &'static str,
    reached_max: &'static str,
    /// The same while a few workers are idle; prefork says the one above.
    near_max: &'static str,
    slots_full: &'static str,
    fatal_ignored: &'static str,
    killed_in_a_row: &'static str,
    never_well: &'static str,
    fork_failed: &'static str,
    stopping_at_once: &'static str,
    stopping_gracefully: &'static str,
    restarting_gracefully: &'static str,
    restarting: &'static str,
}

static PREFORK: Messages = Messages {
    target: "mpm_prefork",
    resuming: "AH00163",
    seems_busy: "AH00162",
    reached_max: "AH00161",
    near_max: "AH00161",
    slots_full: "AH00161",
    fatal_ignored: "AH00166",
    killed_in_a_row: "AH10392",
    never_well: "AH02324",
    fork_failed: "AH00159",
    stopping_at_once: "AH00169",
    stopping_gracefully: "AH00170",
    restarting_gracefully: "AH00171",
    restarting: "AH00173",
};

static WORKER: Messages = Messages {
    target: "mpm_worker",
    resuming: "AH00292",
    seems_busy: "AH00289",
    reached_max: "AH00286",
    near_max: "AH00287",
    slots_full: "AH00288",
    fatal_ignored: "AH00290",
    killed_in_a_row: "AH10393",
    never_well: "AH02325",
    fork_failed: "AH00283",
    stopping_at_once: "AH00295",
    stopping_gracefully: "AH00296",
    restarting_gracefully: "AH00297",
    restarting: "AH00298",
};

/// percore is ours and has no numbers of its own; it says what event says.
const fn event_like(target: &'static str) -> Messages {
    Messages {
        target,
        resuming: "AH00489",
        seems_busy: "AH00486",
        reached_max: "AH00484",
        near_max: "AH10159",
        slots_full: "AH03490",
        fatal_ignored: "AH00487",
        killed_in_a_row: "AH10392",
        never_well: "AH02324",
        fork_failed: "AH00481",
        stopping_at_once: "AH00491",
        stopping_gracefully: "AH00492",
        restarting_gracefully: "AH00493",
        restarting: "AH00494",
    }
}

static EVENT: Messages = event_like("mpm_event");
static PERCORE: Messages = event_like("mpm_percore");

impl Messages {
    pub fn of(model: Model) -> &'static Messages {
        match model {
            Model::Prefork => &PREFORK,
            Model::Worker => &WORKER,
            Model::Event => &EVENT,
            Model::Percore => &PERCORE,
        }
    }

    pub fn resuming(&self) {
        let version = env!("CARGO_PKG_VERSION");
        log::info!(target: self.target, "{}: Manifold/{version} configured -- resuming normal operations", self.resuming);
    }

    pub fn seems_busy(&self, children: u32, census: &Census) {
        let total = census.total();
        log::debug!(
            target: self.target,
            "{}: server seems busy, spawning {children} children, there are {} idle workers, and {} children",
            self.seems_busy,
            total.idle,
            total.processes
        );
    }

    /// The server has not enough; `why`, where that is known.
    pub fn full(&self, full: Full, why: Option<&str>) {
        let (code, text) = match full {
            Full::Workers => (
                self.reached_max,
                "server reached MaxRequestWorkers setting, consider raising the MaxRequestWorkers setting",
            ),
            Full::Near => (
                self.near_max,
                "server is within MinSpareThreads of MaxRequestWorkers, consider raising the MaxRequestWorkers setting",
            ),
            Full::Slots => {
                (self.slots_full, "scoreboard is full, not at MaxRequestWorkers; exiting processes hold its slots")
            }
        };
        let (colon, why) = why.map_or(("", ""), |why| (": ", why));
        log::error!(target: self.target, "{code}: {text}{colon}{why}");
    }

    pub fn fork_failed(&self, error: &io::Error) {
        log::error!(target: self.target, "{}: fork: Unable to fork new process: {error}", self.fork_failed);
    }

    pub fn stopping_at_once(&self) {
        log::info!(target: self.target, "{}: caught SIGTERM, shutting down", self.stopping_at_once);
    }

    pub fn stopping_gracefully(&self) {
        log::info!(target: self.target, "{}: caught SIGWINCH, shutting down gracefully", self.stopping_gracefully);
    }

    pub fn restarting(&self, how: Reload) {
        let target = self.target;
        match how {
            Reload::Graceful => {
                log::info!(target: target, "{}: Graceful restart requested, doing restart", self.restarting_gracefully);
            }
            Reload::Restart => {
                log::info!(target: target, "{}: SIGHUP received.  Attempting to restart", self.restarting);
            }
        }
    }

    pub fn reload_refused(&self, why: &str) {
        log::error!(target: self.target, "the new configuration is not taken, the server goes on with the old one: {why}");
    }

    /// A generation that was asked to end still has connections.
    pub fn drained_too_long(&self, number: u64, since: Duration, holders: &str) {
        log::warn!(
            target: self.target,
            "GracefulShutdownTimeout: generation {number} still has connections after {} s, they are closed now: {holders}",
            since.as_secs(),
        );
    }

    pub fn upgrading(&self) {
        log::info!(target: self.target, "SIGUSR2 received. Starting the binary anew on the same sockets");
    }

    pub fn replaced(&self, pid: i32) {
        log::info!(target: self.target, "process {pid} serves now; this server finishes its connections and ends");
    }

    pub fn successor_failed(&self, why: &str) {
        log::error!(target: self.target, "the binary could not be started anew, this server goes on: {why}");
    }

    pub fn still_there(&self, pid: i32, signal: Signal) {
        match signal {
            Signal::SIGKILL => {
                log::error!(target: "core", "AH00046: child process {pid} still did not exit, sending a SIGKILL");
            }
            _ => log::warn!(target: "core", "AH00045: child process {pid} still did not exit, sending a {signal}"),
        }
    }

    pub fn cannot_recast(&self, why: &str) {
        log::error!(
            target: self.target,
            "sockets that a refused configuration added cannot be served yet, their connections wait: {why}"
        );
    }

    pub fn does_not_start(&self, pid: i32, within: Duration) {
        let seconds = within.as_secs();
        log::error!(target: "core", "child pid {pid} does not accept connections after {seconds} s, it is killed");
    }

    /// What is told of the end of a child.
    pub fn child_ended(&self, verdict: Verdict, pid: i32, ended: Ended) {
        match verdict {
            Verdict::Well => {}
            Verdict::Died | Verdict::Replace | Verdict::DiedStarting => self.child_died(pid, ended),
            Verdict::DiedInARow => {
                self.child_died(pid, ended);
                log::warn!(target: self.target, "{}: children are killed successively!", self.killed_in_a_row);
            }
            Verdict::Sick => log::warn!(target: "core", "child {pid} lacked a resource and has ended"),
            Verdict::NeverWell => {
                log::error!(
                    target: self.target,
                    "{}: child {pid} lacked a resource and no child ever ran, the server is exiting",
                    self.never_well
                );
            }
            Verdict::Fatal => {
                log::error!(target: "core", "AH00050: child {pid} returned a fatal error, the server is exiting");
            }
            Verdict::FatalIgnored => {
                log::warn!(
                    target: self.target,
                    "{}: ignoring fatal error in child of previous generation (pid {pid})",
                    self.fatal_ignored
                );
            }
        }
    }

    fn child_died(&self, pid: i32, ended: Ended) {
        match ended {
            // Such as the parent sends; Apache says nothing of them either.
            Ended::Signal(signal) if EXPECTED.iter().any(|expected| *expected as i32 == signal) => {}
            Ended::Signal(signal) => {
                log::info!(target: "core", "AH00052: child pid {pid} exit signal {signal}");
            }
            Ended::Exit(status) => log::error!(target: "core", "child pid {pid} exit status {status}"),
        }
    }

    pub fn gave_up(&self, pid: i32) {
        log::error!(target: "core", "AH00047: could not make child process {pid} exit, attempting to continue anyway");
    }
}
