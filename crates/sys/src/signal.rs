//! Signals: the parent and threaded children read them from a descriptor, a prefork child notes one in a flag.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{self, SaFlags, SigAction, SigHandler, SigSet, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};

pub use nix::sys::signal::Signal;

/// Signals as a descriptor: the listed ones are blocked and read here instead of interrupting anything.
#[derive(Debug)]
pub struct Signals {
    descriptor: SignalFd,
}

impl Signals {
    /// Blocks `signals` for the calling thread (and threads and processes it makes later) and collects them here.
    ///
    /// # Errors
    /// The error of signalfd(2).
    pub fn collect(signals: &[Signal]) -> io::Result<Signals> {
        let set: SigSet = signals.iter().copied().collect();
        set.thread_block()?;
        let descriptor = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Signals { descriptor })
    }

    /// The next signal that arrived, and where it came from; `None` when there is none.
    pub fn next(&self) -> Option<(Signal, Origin)> {
        let info = self.descriptor.read_signal().ok()??;
        // Not the sender's id: to a container, that of a process outside is 0.
        let origin = if info.ssi_code == libc::SI_KERNEL { Origin::Kernel } else { Origin::Process };
        Some((Signal::try_from(info.ssi_signo as i32).ok()?, origin))
    }
}

/// Where a signal came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The kernel, by itself: a terminal was resized, or hung up.
    Kernel,
    /// A process asked for it (kill(2)), or caused it by ending.
    Process,
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Lets the calling thread receive exactly the signals that are not in `blocked`.
///
/// # Errors
/// The error of pthread_sigmask(3).
pub fn block_only(blocked: &[Signal]) -> io::Result<()> {
    let set: SigSet = blocked.iter().copied().collect();
    Ok(set.thread_set_mask()?)
}

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: i32) {
    ASKED.store(true, Ordering::Relaxed);
}

/// From now on `signal` interrupts a blocking call (`EINTR`, no restart) and is noted; [`asked`] tells.
///
/// # Errors
/// The error of sigaction(2).
pub fn note_on(signal: Signal) -> io::Result<()> {
    let action = SigAction::new(SigHandler::Handler(note), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler only stores to an atomic, which is async-signal-safe.
    unsafe { sigaction(signal, &action) }?;
    Ok(())
}

/// Whether a signal given to [`note_on`] has arrived.
pub fn asked() -> &'static AtomicBool {
    &ASKED
}

static ENDS: AtomicBool = AtomicBool::new(false);
static HOLDS_BACK: AtomicBool = AtomicBool::new(true);
static TOLD_TO_END: AtomicBool = AtomicBool::new(false);

extern "C" fn end(signal: i32) {
    if HOLDS_BACK.load(Ordering::Relaxed) {
        TOLD_TO_END.store(true, Ordering::Relaxed);
    } else {
        // SAFETY: signal(3) with SIG_DFL and raise(3) are async-signal-safe. The signal is blocked while its handler runs
        // and ends the process, as it does by default, when the handler returns.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

/// From now on `signal` ends the process only while it does not hold back ([`hold_back`], which it does at first). Otherwise
/// the signal interrupts a blocking call (`EINTR`, no restart) and is noted: [`is_told_to_end`]. For a process of one thread.
///
/// # Errors
/// The error of sigaction(2).
pub fn end_on(signal: Signal) -> io::Result<()> {
    let action = SigAction::new(SigHandler::Handler(end), SaFlags::empty(), SigSet::empty());
    ENDS.store(true, Ordering::Relaxed);
    // SAFETY: the handler only uses atomics and async-signal-safe calls.
    unsafe { sigaction(signal, &action) }?;
    Ok(())
}

/// Says whether the process has something to finish before it ends. Where [`end_on`] was not called this does nothing.
pub fn hold_back(yes: bool) {
    if ENDS.load(Ordering::Relaxed) {
        HOLDS_BACK.store(yes, Ordering::Relaxed);
    }
}

/// Whether a signal given to [`end_on`] arrived while the process held back.
pub fn is_told_to_end() -> bool {
    TOLD_TO_END.load(Ordering::Relaxed)
}

/// Ends the process as `signal` does by default, even where it was blocked or handled.
pub fn end_by(signal: Signal) -> ! {
    let action = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action has no precondition.
    let _only_unknown_signals_fail = unsafe { sigaction(signal, &action) };
    let _it_ends_below_at_the_latest = signal::raise(signal).and_then(|()| SigSet::from(signal).thread_unblock());
    crate::process::exit_now(0)
}

/// What [`leave`] does away with.
struct Last {
    file: CString,
    listeners: Vec<RawFd>,
}

static LAST: OnceLock<Last> = OnceLock::new();

extern "C" fn leave(_: i32) {
    if let Some(last) = LAST.get() {
        for listener in &last.listeners {
            // SAFETY: shutdown(2) is async-signal-safe, and takes any number for a descriptor.
            unsafe { libc::shutdown(*listener, libc::SHUT_RDWR) };
        }
        // SAFETY: unlink(2) is async-signal-safe, and the path is never freed.
        unsafe { libc::unlink(last.file.as_ptr()) };
    }
    crate::process::exit_now(0)
}

/// From now on each of `signals` ends the process at once with status 0, removes the file `remove` (a `PidFile`) and shuts
/// `listeners`, which stay open until then: a ring holds its sockets a while longer than its process lives, and nobody else
/// could listen there meanwhile. For a process that serves alone and has no parent of its own kind to take signals.
///
/// # Errors
/// The error of sigaction(2), or `InvalidInput` when the path holds a zero byte.
pub fn leave_on(signals: &[Signal], remove: &Path, listeners: Vec<RawFd>) -> io::Result<()> {
    let file = CString::new(remove.as_os_str().as_bytes())?;
    LAST.get_or_init(|| Last { file, listeners });
    let action = SigAction::new(SigHandler::Handler(leave), SaFlags::empty(), SigSet::empty());
    for signal in signals {
        // SAFETY: the handler only loads an atomic and calls shutdown(2), unlink(2) and _exit(2), which are async-signal-safe.
        unsafe { sigaction(*signal, &action) }?;
    }
    Ok(())
}

/// Sends `signal` to `pid`; a process that is gone already is no error.
pub fn send(pid: i32, signal: Signal) {
    let _gone_is_fine = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
}

/// Whether a process with this id exists (it may belong to somebody else).
pub fn exists(pid: i32) -> bool {
    !matches!(nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None), Err(nix::errno::Errno::ESRCH))
}

/// The calling process is sent `signal` when its parent ends, so that no child outlives a parent that was killed.
///
/// # Errors
/// The error of prctl(2).
pub fn on_parent_death(signal: Signal) -> io::Result<()> {
    Ok(nix::sys::prctl::set_pdeathsig(signal)?)
}
