//! The simulated world as the parent knows it.

use std::io;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use manifold_sys::process::Ended;
use manifold_sys::signal::Signal;

use super::history::{Configuration, Event};
use super::world::{Process, World, is_own, sockets_of};
use crate::generation::Generation;
use crate::listeners::Owner;
use crate::server::{Operator, Plan, Pulse};
use crate::system::{Request, Successor, System};

impl System for World {
    fn now(&self) -> Instant {
        self.base + self.now
    }

    fn wall(&self) -> Duration {
        self.now
    }

    fn wait_until(&mut self, until: Instant) -> io::Result<()> {
        self.pass(until - self.base);
        Ok(())
    }

    fn next_request(&mut self) -> Option<Request> {
        let request = self.requests.pop_front();
        if matches!(request, Some(Request::Stop | Request::GracefulStop)) {
            self.listens = false;
            let waiting: usize = self.sockets.iter_mut().map(|socket| std::mem::take(socket).len()).sum();
            self.tally.closed += waiting as u64;
        }
        request
    }

    fn reap(&mut self) -> Option<(i32, Ended)> {
        self.ended.pop_front()
    }

    fn fork(&mut self, generation: &Generation, slot: usize) -> io::Result<i32> {
        self.acts += 1;
        if self.forks_fail {
            self.fork_failed_at = Some(self.now);
            self.tell(format_args!("a fork fails"));
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        self.forks += 1;
        let pid = self.next_pid;
        self.next_pid += 1;
        let limits = &generation.limits;
        let sets = generation.listeners.len();
        let sockets = sockets_of(generation);
        self.listen_on(sockets);
        for (set, listeners) in generation.listeners.iter().enumerate() {
            self.sets_by_address.insert(listeners.as_ptr().addr(), (set, sets, sockets));
        }
        let process = Process {
            generation: generation.number,
            slot,
            set: generation.set_of(slot),
            sets,
            sockets,
            board: generation.scoreboard.clone(),
            workers: vec![None; limits.threads_per_child as usize],
            up: false,
            quiescing: false,
            deaf: self.chance.happens(5),
            stubborn: self.chance.happens(20),
            left_to_accept: match limits.max_connections_per_child {
                0 => u64::MAX,
                enough => enough,
            },
        };
        self.tell(format_args!("generation {}, slot {slot}: {pid}", generation.number));
        self.children.insert(pid, process);
        self.begin(pid, generation);
        Ok(pid)
    }

    fn waiting(&self, listeners: &[TcpListener]) -> Option<u32> {
        let (set, sets, sockets) = self.sets_by_address.get(&listeners.as_ptr().addr()).copied()?;
        let own = (0..sockets).filter(|socket| is_own(*socket, sockets, set, sets));
        Some(own.map(|socket| self.sockets[socket].len() as u32).sum())
    }

    fn signal(&mut self, pid: i32, signal: Signal) {
        if self.successor.is_some_and(|(successor, _)| successor == pid) {
            self.successor = None;
            return;
        }
        let Some(child) = self.children.get_mut(&pid) else {
            assert!(self.ended.iter().any(|(ended, _)| *ended == pid), "{signal} for {pid}, which is nobody");
            return;
        };
        if !child.quiescing || signal != Signal::SIGUSR1 {
            let generation = child.generation;
            self.tell(format_args!("{signal} for {pid} of generation {generation}"));
        }
        let Some(child) = self.children.get_mut(&pid) else { return };
        match signal {
            Signal::SIGUSR1 if child.deaf || child.quiescing => {}
            Signal::SIGUSR1 => {
                self.acts += 1;
                child.quiescing = true;
                self.leave_or_accept(pid);
            }
            Signal::SIGTERM if child.stubborn => self.acts += 1,
            _ => {
                self.acts += 1;
                self.child_ends(pid, Ended::Signal(signal as i32));
            }
        }
    }

    fn start_successor(&mut self, _sockets: &mut dyn Iterator<Item = (&TcpListener, Owner)>) -> io::Result<i32> {
        self.acts += 1;
        if self.forks_fail {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        let pid = self.next_pid;
        self.next_pid += 1;
        self.successor = Some((pid, false));
        match self.chance.pick(0..3) {
            0 => self.after(Duration::from_millis(80), Event::Successor(false)),
            1 => self.after(Duration::from_millis(80), Event::Successor(true)),
            _ => {}
        }
        Ok(pid)
    }

    fn successor(&mut self) -> Successor {
        match self.successor {
            Some((_, true)) => Successor::Ready,
            _ => Successor::Starting,
        }
    }

    fn operator(&mut self) -> &mut dyn Operator {
        self
    }
}

impl Operator for World {
    fn reload(&mut self) -> Result<Plan, String> {
        self.acts += 1;
        self.reloads += 1;
        let configuration = (self.configure)(&mut self.chance);
        self.tell(format_args!("{configuration:?}"));
        match configuration {
            Configuration::Valid(limits, nature) => Ok(self.plan(*limits, nature)),
            Configuration::Broken => Err("broken".to_owned()),
        }
    }

    fn in_force(&mut self) {
        self.tell(format_args!("in force"));
        self.in_force += 1;
    }

    fn refused(&mut self, why: &str) {
        self.tell(format_args!("refused: {why}"));
        self.refused += 1;
    }

    fn stopping(&mut self, _within: Option<Duration>) {}

    /// The clients in the queues are the successor's now.
    fn replaced(&mut self, _pid: i32) {
        self.listens = false;
        let waiting: usize = self.sockets.iter_mut().map(|socket| std::mem::take(socket).len()).sum();
        self.tally.served += waiting as u64;
    }

    fn tick(&mut self, _pulse: Pulse) {}

    fn beat(&mut self, _now: Instant) -> Option<Instant> {
        None
    }

    fn start_successor(
        &mut self,
        _sockets: &mut dyn Iterator<Item = (&TcpListener, Owner)>,
        _ready: io::PipeWriter,
    ) -> io::Result<i32> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}
