//! What the parent says in the error log: Apache's messages under Apache's numbers, which differ from model to model.

use std::io;

use manifold_sys::process::Ended;

use crate::limits::Model;
use crate::spare::Census;

/// The messages of one model.
pub(crate) struct Messages {
    target: &'static str,
    resuming: &'static str,
    seems_busy: &'static str,
    reached_max: &'static str,
    fork_failed: &'static str,
    stopping_at_once: &'static str,
    stopping_gracefully: &'static str,
}

static PREFORK: Messages = Messages {
    target: "mpm_prefork",
    resuming: "AH00163",
    seems_busy: "AH00162",
    reached_max: "AH00161",
    fork_failed: "AH00159",
    stopping_at_once: "AH00169",
    stopping_gracefully: "AH00170",
};

static WORKER: Messages = Messages {
    target: "mpm_worker",
    resuming: "AH00292",
    seems_busy: "AH00289",
    reached_max: "AH00286",
    fork_failed: "AH00283",
    stopping_at_once: "AH00295",
    stopping_gracefully: "AH00296",
};

/// percore is ours and has no numbers of its own; it says what event says.
const fn event_like(target: &'static str) -> Messages {
    Messages {
        target,
        resuming: "AH00489",
        seems_busy: "AH00486",
        reached_max: "AH00484",
        fork_failed: "AH00481",
        stopping_at_once: "AH00491",
        stopping_gracefully: "AH00492",
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

    pub fn seems_busy(&self, children: u32, census: Census) {
        log::debug!(
            target: self.target,
            "{}: server seems busy, spawning {children} children, there are {} idle workers, and {} children",
            self.seems_busy,
            census.idle,
            census.processes
        );
    }

    pub fn reached_max_request_workers(&self) {
        log::error!(
            target: self.target,
            "{}: server reached MaxRequestWorkers setting, consider raising the MaxRequestWorkers setting",
            self.reached_max
        );
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

    pub fn no_reload(&self) {
        log::error!(
            target: self.target,
            "this version cannot reload its configuration; the server goes on as it is. Stop and start it instead"
        );
    }

    pub fn child_was_fatal(&self, pid: i32) {
        log::error!(target: "core", "AH00050: child {pid} returned a fatal error, the server is exiting");
    }

    pub fn no_child_ever_well(&self, pid: i32) {
        log::error!(target: "core", "AH02325: child {pid} lacked a resource and no child ever ran, the server is exiting");
    }

    pub fn child_was_sick(&self, pid: i32) {
        log::warn!(target: "core", "AH02324: child {pid} lacked a resource and has ended");
    }

    pub fn child_died(&self, pid: i32, ended: Ended) {
        match ended {
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
