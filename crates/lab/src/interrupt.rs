//! Ctrl-C and its kin, as something that can be waited for: the run ends between two steps, with its servers.

use std::os::fd::{AsFd, BorrowedFd};

use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// INT, TERM and HUP, blocked and read from a descriptor.
#[derive(Debug)]
pub struct Interrupt {
    descriptor: SignalFd,
}

impl Interrupt {
    /// From now on these signals no longer end this process; processes it starts inherit that and must undo it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn catch() -> nix::Result<Interrupt> {
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            signals.add(signal);
        }
        signals.thread_block()?;
        Ok(Interrupt { descriptor: SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)? })
    }

    /// For waiting on it alone.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// For waiting on it beside other descriptors; readable once a signal has come.
    pub fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(self.descriptor.as_fd(), PollFlags::POLLIN)
    }

    /// Whether a signal has come; it stays true, so that every loop on the way out sees it.
    pub fn came(&self) -> bool {
        let mut waited = [self.poll_fd()];
        nix::poll::poll(&mut waited, nix::poll::PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }
}
