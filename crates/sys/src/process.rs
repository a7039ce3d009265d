//! Forking a process that has one thread, and never returning into the parent's stack.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid};

/// Makes this process write its core dump into `folder`, if the system is set up to write one at all; it does not by itself
/// once the user was changed. It works there from now on.
///
/// # Errors
/// The error of chdir(2), or of prctl(2).
pub fn dump_core_in(folder: &Path) -> io::Result<()> {
    nix::unistd::chdir(folder)?;
    Ok(nix::sys::prctl::set_dumpable(true)?)
}

/// Exit status of a child whose body panicked: the one that Apache's children use for a resource shortage is 7, for a
/// fatal error 15; a panic is neither, so that the parent replaces the child.
pub const EXIT_PANIC: u8 = 101;

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By leaving with this status.
    Exit(u8),
    /// By this signal.
    Signal(i32),
}

/// Forks; the child runs `body` and leaves with the status it returns.
///
/// The body cannot return into the caller's frames in the child: a panic is caught and reported by the hook, buffers of
/// the standard library are not flushed a second time (`_exit`).
///
/// # Errors
/// The error of fork(2), such as `EAGAIN` at the process limit.
///
/// # Panics
/// When the process has more than one thread: a lock held by another thread would stay locked in the child for ever.
pub fn spawn_child(body: impl FnOnce() -> u8) -> io::Result<i32> {
    assert!(has_one_thread(), "fork() in a process with several threads: {}", thread_names().join(", "));
    // SAFETY: the process has one thread (asserted above), so no lock is held by a thread that the child lacks, and the
    // child may run any code. It leaves by `_exit` below and so never reaches the caller's frames.
    match Errno::result(unsafe { fork() })? {
        0 => {
            let status = catch_unwind(AssertUnwindSafe(body)).unwrap_or(EXIT_PANIC);
            exit_now(status)
        }
        child => Ok(child),
    }
}

/// fork(2) without its handlers where the C library has that (`_Fork`, POSIX 2024). They put locks of the library in order
/// that other threads may have held; there are none, and each child would make three pages its own for it.
///
/// # Safety
/// The process has one thread.
unsafe fn fork() -> libc::pid_t {
    static BARE: OnceLock<Option<unsafe extern "C" fn() -> libc::pid_t>> = OnceLock::new();
    let bare = BARE.get_or_init(|| {
        // SAFETY: the name ends with a NUL; what is found is the function that POSIX describes, or nothing.
        unsafe {
            let found = libc::dlsym(libc::RTLD_DEFAULT, c"_Fork".as_ptr());
            std::mem::transmute::<*mut libc::c_void, Option<unsafe extern "C" fn() -> libc::pid_t>>(found)
        }
    });
    // SAFETY: the caller promises that the process has one thread.
    unsafe { bare.map_or_else(|| libc::fork(), |bare| bare()) }
}

/// Ends the process at once: no destructors, no flushing of buffers that a parent would flush as well.
pub fn exit_now(status: u8) -> ! {
    // SAFETY: `_exit` has no precondition; it does not return.
    unsafe { libc::_exit(i32::from(status)) }
}

/// Takes over the descriptor number `descriptor`, which the process was started with; programs that this process starts do
/// not inherit it. Each number can be taken once. Call it before the process opens anything of its own, or with numbers
/// that whoever started the process has named.
///
/// # Errors
/// `EBADF` when there is no such descriptor, `EBUSY` when it was taken before.
pub fn inherited(descriptor: RawFd) -> io::Result<OwnedFd> {
    static TAKEN: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());
    if !TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(descriptor) {
        return Err(Errno::EBUSY.into());
    }
    // SAFETY: fcntl(2) with F_SETFD has no precondition; on a descriptor that is not open it fails with EBADF.
    let result = unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    Errno::result(result)?;
    // SAFETY: the descriptor is open (checked above), it was given to this process by whoever started it, and it is handed
    // out once only (the set above), so that nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Collects one child that ended, without waiting; `None` when none has.
pub fn reap() -> Option<(i32, Ended)> {
    loop {
        return match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, status)) => Some((pid.as_raw(), Ended::Exit(status as u8))),
            Ok(WaitStatus::Signaled(pid, signal, _)) => Some((pid.as_raw(), Ended::Signal(signal as i32))),
            Ok(WaitStatus::StillAlive) | Err(_) => None,
            Ok(_) => continue,
        };
    }
}

/// Leaves the terminal: the caller goes on in a process that is no session leader's child of it, with standard input,
/// output and error on `/dev/null`. The calling process ends with status 0 once the new one runs.
///
/// # Errors
/// The error of fork(2), setsid(2) or of opening `/dev/null`.
pub fn daemonise() -> io::Result<()> {
    assert!(has_one_thread(), "daemonise() in a process with several threads: {}", thread_names().join(", "));
    // SAFETY: one thread (asserted); the original process leaves at once by `_exit`, only the new one goes on.
    if let ForkResult::Parent { .. } = unsafe { nix::unistd::fork() }? {
        exit_now(0);
    }
    nix::unistd::setsid()?;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    Ok(())
}

/// Whether this process has one thread: a folder has a link for each folder in it, and two of its own. Where there is no
/// `/proc`, nothing speaks against it. Nothing is allocated: what a parent writes between two forks, its children own.
fn has_one_thread() -> bool {
    std::fs::metadata("/proc/self/task").map_or(true, |task| task.nlink() == 3)
}

/// The names of this process' threads, from `/proc/self/task`.
fn thread_names() -> Vec<String> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return vec!["unknown (no /proc)".to_owned()] };
    tasks
        .flatten()
        .map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default().trim_end().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted() {
        // The test's own thread is beside the main one.
        assert!(!has_one_thread());
        assert!(thread_names().len() > 1);
    }
}
