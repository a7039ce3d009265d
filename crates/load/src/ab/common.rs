//! What the threads of one run know together: the first answer, progress, and why it is given up.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::tls::Secured;

/// After this many connections that could not be made the run is given up.
const CONNECT_FAILURES_MAX: u64 = 10;
/// There is no first answer yet.
const NO_LENGTH: u64 = u64::MAX;

/// An error that ends the run, with the call ab names for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fatal {
    /// The call.
    pub call: &'static str,
    /// The error.
    pub error: Errno,
    /// It was one of too many, each of which would have been tolerated.
    pub after_many: bool,
}

/// Shared by all threads of a run.
#[derive(Debug)]
pub struct Common {
    /// Body length of the first answer, or [`NO_LENGTH`].
    length: AtomicU64,
    done: AtomicU64,
    connect_failures: AtomicU64,
    is_answered: AtomicBool,
    told: Mutex<Told>,
    /// Wakes threads that wait for [`Told::gate`].
    news: Condvar,
    /// Readable once the run is to end.
    stop: EventFd,
}

#[derive(Debug, Default)]
struct Told {
    server: String,
    secured: Option<Secured>,
    fatal: Option<Fatal>,
    /// Progress has been shown up to here.
    shown: u64,
    gate: Gate,
}

/// Whether the threads that do not open the first connection may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Gate {
    /// Nobody has answered yet.
    #[default]
    Shut,
    Open,
    /// The first thread has ended before anybody answered.
    Never,
}

impl Common {
    /// Of a run that has not begun.
    ///
    /// # Errors
    /// The error of eventfd(2).
    pub fn new() -> io::Result<Common> {
        Ok(Common {
            length: AtomicU64::new(NO_LENGTH),
            done: AtomicU64::new(0),
            connect_failures: AtomicU64::new(0),
            is_answered: AtomicBool::new(false),
            told: Mutex::default(),
            news: Condvar::new(),
            stop: EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
        })
    }

    /// A descriptor that is readable once the run is to end, be it by a signal or by a thread that gives up.
    ///
    /// # Errors
    /// The error of epoll_create1(2) or epoll_ctl(2).
    pub fn interrupt(&self, signals: BorrowedFd<'_>) -> io::Result<Epoll> {
        let either = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        either.add(signals, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        either.add(self.stop.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, 1))?;
        Ok(either)
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Body length of the first answer.
    pub fn length(&self) -> Option<u64> {
        Some(self.length.load(Ordering::Relaxed)).filter(|length| *length != NO_LENGTH)
    }

    /// The length that answers should have: the first one's, which may be this.
    pub fn expect(&self, body: u64) -> u64 {
        match self.length() {
            Some(length) => length,
            None => match self.length.compare_exchange(NO_LENGTH, body, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => body,
                Err(earlier) => earlier,
            },
        }
    }

    /// Remembers what the first handshake led to.
    pub fn secure(&self, secured: &Secured) {
        self.told().secured.get_or_insert(*secured);
    }

    /// What the first handshake led to.
    pub fn secured(&self) -> Option<Secured> {
        self.told().secured
    }

    /// Remembers the server's name.
    pub fn introduce(&self, server: String) {
        self.told().server = server;
    }

    /// The server's name.
    pub fn server(&self) -> String {
        self.told().server.clone()
    }

    /// A head has come: others may begin.
    pub fn answered(&self) {
        // Looked at first, since it is written once and asked with every answer by all threads.
        if !self.is_answered.load(Ordering::Relaxed) && !self.is_answered.swap(true, Ordering::Relaxed) {
            self.set_gate(Gate::Open);
        }
    }

    /// The first thread has ended.
    pub fn first_is_over(&self) {
        self.set_gate(Gate::Never);
    }

    fn set_gate(&self, gate: Gate) {
        let mut told = self.told();
        if told.gate == Gate::Shut {
            told.gate = gate;
            self.news.notify_all();
        }
    }

    /// Waits until somebody has answered; false: nobody did before the first thread ended.
    pub fn wait_for_an_answer(&self) -> bool {
        let mut told = self.told();
        while told.gate == Gate::Shut {
            told = self.news.wait(told).unwrap_or_else(PoisonError::into_inner);
        }
        told.gate == Gate::Open
    }

    /// One more request is done; every so many are told, in order whichever thread did them.
    pub fn completed(&self, every: u64) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if !done.is_multiple_of(every) {
            return;
        }
        let mut told = self.told();
        while told.shown < done {
            told.shown += every;
            super::tell(&format!("Completed {} requests\n", told.shown));
        }
    }

    /// One more connection could not be made; whether that is one too many.
    pub fn connect_failed_too_often(&self) -> bool {
        self.connect_failures.fetch_add(1, Ordering::Relaxed) >= CONNECT_FAILURES_MAX
    }

    /// Ends the run in all threads; the first reason is kept.
    pub fn give_up(&self, fatal: Fatal) {
        self.told().fatal.get_or_insert(fatal);
        self.stop();
    }

    /// Ends the run in all threads.
    pub fn stop(&self) {
        // It can only fail when it is readable already.
        let _is_readable = self.stop.write(1);
    }

    /// Why the run was given up.
    pub fn fatal(&self) -> Option<Fatal> {
        self.told().fatal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_length_counts_for_all() {
        let common = Common::new().unwrap();
        assert_eq!(common.length(), None);
        assert_eq!([common.expect(5), common.expect(6)], [5, 5]);
    }

    #[test]
    fn the_gate_opens_with_an_answer_or_never() {
        let check = |act: fn(&Common), expected: bool| {
            let common = Common::new().unwrap();
            let opened = std::thread::scope(|scope| {
                let waiting = std::thread::Builder::new().spawn_scoped(scope, || common.wait_for_an_answer()).unwrap();
                act(&common);
                waiting.join().unwrap()
            });
            assert_eq!(opened, expected);
        };
        check(Common::answered, true);
        check(Common::first_is_over, false);
    }
}
