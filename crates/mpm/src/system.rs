//! What the parent asks of the world: processes, signals, time and its administrator. The parent itself only decides, so
//! that whole days of it can be simulated; [`Unix`] is the real world.

use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use manifold_sys::heap;
use manifold_sys::listener;
use manifold_sys::process::{self, Ended};
use manifold_sys::signal::{self, Origin, Signal, Signals};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::child;
use crate::clock;
use crate::generation::{Child, Generation};
use crate::listeners::Owner;
use crate::saturation::Look;
use crate::server::Operator;

/// What the parent was asked to do, by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// TERM, INT: end at once.
    Stop,
    /// WINCH: end when every connection is done.
    GracefulStop,
    /// HUP: a new configuration now; connections are cut.
    Restart,
    /// USR1: a new configuration; connections are finished under the old one.
    Graceful,
    /// USR2: the binary anew, on the same sockets.
    Upgrade,
}

/// How far a server that is to replace this one has got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Successor {
    /// It starts.
    Starting,
    /// It serves.
    Ready,
}

/// The world around the parent.
pub trait System {
    /// The present.
    fn now(&self) -> Instant;

    /// The time since the Unix epoch, for the ledger.
    fn wall(&self) -> Duration;

    /// Waits until `until`, a signal, or the end of a child.
    ///
    /// # Errors
    /// When waiting is impossible; the server ends.
    fn wait_until(&mut self, until: Instant) -> io::Result<()>;

    /// The next request that arrived; `None` when there is none.
    fn next_request(&mut self) -> Option<Request>;

    /// The next child that has ended; `None` when there is none.
    fn reap(&mut self) -> Option<(i32, Ended)>;

    /// Makes a child for process slot `slot` of `generation`; its process id.
    ///
    /// # Errors
    /// The error of fork(2).
    fn fork(&mut self, generation: &Generation, slot: usize) -> io::Result<i32>;

    /// Connections that wait to be accepted from any of `listeners`; `None` where the system does not tell.
    fn waiting(&self, listeners: &[TcpListener]) -> Option<u32>;

    /// What the status page shows and what children weigh, where there is something to look at.
    fn look(&self, generation: &Generation) -> Option<Look> {
        let _simulated_children_do_nothing = generation;
        None
    }

    /// Sends a signal to a child.
    fn signal(&mut self, pid: i32, signal: Signal);

    /// Starts the server's binary anew and hands it `sockets`; its process id.
    ///
    /// # Errors
    /// When it cannot be started.
    fn start_successor(&mut self, sockets: &mut dyn Iterator<Item = (&TcpListener, Owner)>) -> io::Result<i32>;

    /// How far the successor has got.
    fn successor(&mut self) -> Successor;

    /// The administrator.
    fn operator(&mut self) -> &mut dyn Operator;
}

/// The real world.
pub struct Unix {
    signals: Signals,
    operator: Box<dyn Operator>,
    /// The reading end of the pipe in which the successor tells that it serves.
    ready: Option<io::PipeReader>,
    /// The generation of the last child.
    forked: u64,
}

impl Unix {
    /// Collects the signals that are the parent's business.
    ///
    /// # Errors
    /// The error of signalfd(2).
    pub fn new(operator: Box<dyn Operator>) -> io::Result<Unix> {
        use Signal::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
        let signals = Signals::collect(&[SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD])?;
        Ok(Unix { signals, operator, ready: None, forked: 0 })
    }
}

impl System for Unix {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wall(&self) -> Duration {
        clock::wall()
    }

    fn wait_until(&mut self, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        // Rounded up, so that the wait does not end a moment before its time again and again.
        let milliseconds = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
        match poll(&mut [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)], PollTimeout::from(milliseconds)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn next_request(&mut self) -> Option<Request> {
        loop {
            let (signal, origin) = self.signals.next()?;
            return Some(match signal {
                // A container's first process is told to end by TERM alone; nobody there sends WINCH.
                Signal::SIGTERM if std::process::id() == 1 => Request::GracefulStop,
                Signal::SIGTERM | Signal::SIGINT => Request::Stop,
                // A terminal that is resized sends the same signal, with no process behind it.
                Signal::SIGWINCH if origin == Origin::Process => Request::GracefulStop,
                Signal::SIGHUP => Request::Restart,
                Signal::SIGUSR1 => Request::Graceful,
                Signal::SIGUSR2 => Request::Upgrade,
                _ => continue,
            });
        }
    }

    fn reap(&mut self) -> Option<(i32, Ended)> {
        process::reap()
    }

    fn fork(&mut self, generation: &Generation, slot: usize) -> io::Result<i32> {
        if self.forked != generation.number {
            self.forked = generation.number;
            heap::tidy_up();
        }
        process::spawn_child(|| child::run(&Child { generation, slot }))
    }

    fn waiting(&self, listeners: &[TcpListener]) -> Option<u32> {
        listeners.iter().map(|listener| listener::waiting(listener).ok()).sum()
    }

    fn look(&self, generation: &Generation) -> Option<Look> {
        Look::at(generation, clock::wall())
    }

    fn signal(&mut self, pid: i32, signal: Signal) {
        signal::send(pid, signal);
    }

    fn start_successor(&mut self, sockets: &mut dyn Iterator<Item = (&TcpListener, Owner)>) -> io::Result<i32> {
        if std::process::id() == 1 {
            // With process 1, everything in its container ends.
            return Err(io::Error::other("process 1 of a container cannot be replaced; replace the container"));
        }
        let (reader, writer) = io::pipe()?;
        let pid = self.operator.start_successor(sockets, writer)?;
        self.ready = Some(reader);
        Ok(pid)
    }

    fn successor(&mut self) -> Successor {
        let Some(reader) = &self.ready else { return Successor::Starting };
        let mut wait = [PollFd::new(reader.as_fd(), PollFlags::POLLIN)];
        let told = poll(&mut wait, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
            && wait[0].revents().is_some_and(|events| events.contains(PollFlags::POLLIN));
        if told { Successor::Ready } else { Successor::Starting }
    }

    fn operator(&mut self) -> &mut dyn Operator {
        &mut *self.operator
    }
}
