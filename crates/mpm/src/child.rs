//! What every child does first, whatever its model: who it is, which signals reach it, and how it tells why it ended.

use std::fs::{File, OpenOptions};
use std::io;
use std::thread::Builder;

use manifold_sys::signal::{self, Signal, Signals};
use manifold_sys::{heap, privileges, process};
use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::sendfile::sendfile;
use nix::sys::signal::SigSet;

use crate::generation::{Child, Generation};
use crate::limits::{Limits, Model};
use crate::scoreboard::ServerState;
use crate::{clock, event, pause, percore, prefork, worker};

/// Exit status of a child that ended because it was asked to, or had served enough.
pub const EXIT_WELL: u8 = 0;
/// Exit status of a child that lacks a resource (Apache's `APEXIT_CHILDSICK`): the parent stops growing so fast.
pub const EXIT_SICK: u8 = 7;
/// Exit status of a child that can never work (Apache's `APEXIT_CHILDFATAL`): the parent gives up.
pub const EXIT_FATAL: u8 = 15;

/// Runs a freshly forked child to its end.
pub fn run(child: &Child<'_>) -> u8 {
    if let Err(error) = settle(child) {
        log::error!(target: "unixd", "AH02159: a child cannot take up its identity: {error}");
        return EXIT_FATAL;
    }
    let status = serve(child);
    // One that never accepted stays what it was: the parent tells a child that cannot start from one that is done.
    if child.server().state() == ServerState::Running {
        child.server().set_state(ServerState::Quiescing);
    }
    status
}

/// The four shapes.
pub(crate) fn serve(child: &Child<'_>) -> u8 {
    clock::tick();
    for thread in 0..child.generation.scoreboard.threads() {
        child.worker(thread).begin();
    }
    let status = match child.generation.limits.model {
        Model::Prefork => prefork::child_main(child),
        Model::Worker => worker::child_main(child),
        Model::Event => event::child_main(child),
        Model::Percore => percore::child_main(child),
    };
    child.generation.site.phases.flush_logs();
    status
}

/// Gives up privileges, and sees to it that the child ends with its parent. Of the signals only TERM ends a child, at once or,
/// where it has logs, when they are written; USR1 asks it to finish (each model collects both in its own way); all others are the parent's business.
fn settle(child: &Child<'_>) -> io::Result<()> {
    take_place(child.generation)?;
    if matches!(child.generation.limits.model, Model::Worker | Model::Event) {
        // In the steady state nothing is allocated, so that no thread waits for another's heap.
        heap::share(cpus());
    }
    signal::on_parent_death(Signal::SIGTERM)?;
    let mut blocked = vec![Signal::SIGINT, Signal::SIGHUP, Signal::SIGWINCH, Signal::SIGCHLD, Signal::SIGUSR2];
    let has_logs = child.generation.site.phases.has_logs();
    if child.generation.limits.model == Model::Prefork {
        // Noted before they are let through: they may have been sent already.
        signal::note_on(Signal::SIGUSR1)?;
        if has_logs {
            signal::end_on(Signal::SIGTERM)?;
        }
    } else {
        blocked.push(Signal::SIGUSR1);
        if has_logs {
            blocked.push(Signal::SIGTERM);
        }
    }
    signal::block_only(&blocked)
}

/// The signals that a child of several threads collects. TERM is among them where [`settle`] has blocked it; the only process
/// of a server without a parent has a way of its own to end by it.
///
/// # Errors
/// The error of signalfd(2).
pub fn signals() -> io::Result<Signals> {
    let mut signals = vec![Signal::SIGUSR1];
    if SigSet::thread_get_mask()?.contains(Signal::SIGTERM) {
        signals.push(Signal::SIGTERM);
    }
    Signals::collect(&signals)
}

/// Takes the signals that arrived: `true` where the child is to finish. TERM ends it at once.
pub fn is_asked(child: &Child<'_>, signals: &Signals) -> bool {
    let mut asked = false;
    while let Some((signal, _)) = signals.next() {
        if signal == Signal::SIGTERM {
            pause::end(&child.generation.site);
        }
        asked = true;
    }
    asked
}

/// Takes what only the privileged may, and becomes who serves, where that one works.
pub(crate) fn take_place(generation: &Generation) -> io::Result<()> {
    raise_descriptor_limit(descriptors_needed(&generation.limits));
    if matches!(generation.limits.model, Model::Prefork | Model::Percore) {
        // Elsewhere it is other threads that send. Without it large files are sent more slowly, and that is all.
        let _a_pipe_of_full_size = take_pipe();
    }
    if let Some(identity) = &generation.identity {
        privileges::drop_to(identity)?;
    }
    if let Some(folder) = &generation.core_dump_directory
        && let Err(error) = process::dump_core_in(folder)
    {
        // The server serves well without.
        log::warn!(target: "core", "CoreDumpDirectory {}: {error}; there will be no core dumps", folder.display());
    }
    Ok(())
}

/// Has the kernel make the pipe through which this thread's sendfile(2) will move pages, as it does at the first call, while
/// the process may still have one of full size. Of a user who is not privileged all pipes together hold
/// `fs.pipe-user-pages-soft` pages, 16 a pipe, and each further one holds two: from the 1,024th sending process or thread
/// on, whatever it is, a file costs up to twice as much.
fn take_pipe() -> io::Result<usize> {
    let file = File::from(memfd_create(c"", MFdFlags::MFD_CLOEXEC)?);
    file.set_len(1)?;
    let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    Ok(sendfile(nowhere, file, None, 1)?)
}

/// A thread of a child in the making, with the stack that `ThreadStackSize` asks for.
pub fn thread(child: &Child<'_>, name: String) -> Builder {
    let builder = Builder::new().name(name);
    match child.generation.limits.thread_stack {
        Some(bytes) => builder.stack_size(bytes),
        None => builder,
    }
}

/// Processors this process may run on.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Descriptors a child needs beside its connections': logs, listeners, files being served. Where a process may have few,
/// a quarter of them.
const DESCRIPTORS_BESIDE: u64 = 1024;

/// Files that a thread of prefork or worker has open at a time: a connection, and what it sends.
const DESCRIPTORS_A_THREAD: u64 = 2;

fn descriptors_needed(limits: &Limits) -> u64 {
    let connections = match limits.model {
        Model::Event | Model::Percore => u64::from(limits.max_connections),
        Model::Prefork | Model::Worker => DESCRIPTORS_A_THREAD * u64::from(limits.threads_per_child),
    };
    connections + DESCRIPTORS_BESIDE
}

/// A process may open fewer files than it may hold connections (`MaxConnections`): gives the connections it can really
/// hold, at least 1. The first child tells the log when they are fewer.
pub fn connections_allowed(child: &Child<'_>, target: &str) -> usize {
    let wanted = u64::from(child.generation.limits.max_connections.max(1));
    let allowed = getrlimit(Resource::RLIMIT_NOFILE).map_or(wanted + DESCRIPTORS_BESIDE, |(soft, _)| soft);
    let most = connections_of(allowed).min(wanted);
    if most < wanted && child.slot == 0 {
        log::warn!(
            target: target,
            "a process may open {allowed} files only (ulimit -n, LimitNOFILE): it holds {most} connections, not \
             MaxConnections {wanted}"
        );
    }
    most as usize
}

fn connections_of(descriptors: u64) -> u64 {
    descriptors.saturating_sub(DESCRIPTORS_BESIDE.min(descriptors / 4)).max(1)
}

/// Raises the limit of open files (`ulimit -n`) as far as that is allowed: with privileges, beyond the hard limit too. Where
/// it is refused, [`connections_allowed`] says what that comes to.
fn raise_descriptor_limit(needed: u64) {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    if needed > hard && setrlimit(Resource::RLIMIT_NOFILE, needed, needed).is_ok() {
        return;
    }
    let allowed = needed.min(hard);
    if allowed > soft {
        let _refused = setrlimit(Resource::RLIMIT_NOFILE, allowed, hard);
    }
}

/// Whether a call failed because the process, or the system, lacks a resource.
pub fn lacks_resource(error: &io::Error) -> bool {
    let error = error.raw_os_error().map(Errno::from_raw);
    matches!(error, Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS))
}

/// Whether a call failed because the process has as many descriptors as it may.
pub fn lacks_descriptors(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::EMFILE as i32)
}

/// Whether accepting failed because the parent has shut the listening socket for good.
pub fn is_shut(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::EINVAL as i32)
}

/// What a failed accept means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptFailure {
    /// The connection is gone again, a signal arrived, or another child was quicker: go on.
    Passing,
    /// The process or the system lacks descriptors or memory: this child had better end (AH00052 follows).
    Sick,
    /// The parent has shut the socket: nothing will come from it any more.
    Closed,
}

impl AcceptFailure {
    /// Sorts the error of an accept.
    pub fn of(error: &io::Error) -> AcceptFailure {
        if lacks_resource(error) {
            log::error!(target: "mpm_common", "AH00052: accept failed, the child ends: {error}");
            return AcceptFailure::Sick;
        }
        if is_shut(error) { AcceptFailure::Closed } else { AcceptFailure::Passing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_left_for_files_and_logs() {
        for (descriptors, connections) in [(0, 1), (1, 1), (8, 6), (1024, 768), (4096, 3072), (66_560, 65_536)] {
            assert_eq!(connections_of(descriptors), connections, "of {descriptors}");
        }
    }
}
