//! percore: one process a core, one thread in it, which holds all of its core's connections. Waiting is being parked in
//! an io_uring, or in epoll where io_uring is forbidden.
//!
//! This file is the turn of the loop: wait once for whatever happened, read the clock once, let each connection concerned
//! go on as far as it can, and hand everything they want to the kernel with the next wait. At high load a turn serves many
//! requests, so that the system calls of one are shared by all of them.

use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use manifold_engine::transport::Host;
use manifold_sys::listener;
use manifold_sys::ring::{Options, Ring};
use manifold_sys::signal::Signals;
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::child::{self, EXIT_SICK, EXIT_WELL, connections_allowed, lacks_resource};
use crate::clock;
use crate::generation::Child;
use crate::host::ThreadHost;

mod connections;
mod deadlines;
mod disk;
mod driver;
mod epoll;
mod full;
mod queues;
mod residency;
mod sending;
mod slot;
mod tasks;
#[cfg(test)]
mod tests;
mod transport;

use connections::{Connections, Outside, Room};
use driver::{Driver, Handle, Readiness};
use epoll::EpollDriver;

/// Operations submitted in one call; more are submitted in several.
const SUBMISSIONS: u32 = 1024;
/// Room for completions, which takes its memory from the start: one of each connection that is likely to be active in a turn.
/// The kernel keeps what does not fit.
const COMPLETIONS_MAX: u32 = 4 * 1024;
/// Buffers for received bytes, at most. They return within the turn; when a turn needs more, the rest waits for the next.
const BUFFERS: u16 = 256;
/// Most request heads fit into one.
const BUFFER_SIZE: u32 = 4096;

/// Accepting that failed for lack of descriptors or memory is tried again after this time at the latest.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Connections accepted after accepting was stopped; more than ever wait (`net.core.somaxconn`).
const ACCEPTED_LAST_MAX: usize = 4096;

/// The whole life of a child.
pub fn child_main(child: &Child<'_>) -> u8 {
    pin_to_core(child).and_then(|()| start(child)).unwrap_or_else(|error| {
        log::error!(target: "mpm_percore", "a child cannot go on: {error}");
        EXIT_SICK
    })
}

fn start(child: &Child<'_>) -> io::Result<u8> {
    let room = Room::of(connections_allowed(child, "mpm_percore"));
    let draining = AtomicBool::new(false);
    let host = ThreadHost::impatient(child, 0, &draining);
    let completions = child.generation.limits.max_connections.saturating_mul(2).clamp(SUBMISSIONS, COMPLETIONS_MAX);
    match Ring::new(&Options { submissions: SUBMISSIONS, completions, buffers: BUFFERS, buffer_size: BUFFER_SIZE }) {
        Ok(ring) => Core::new(ring, child, &host, room)?.run(),
        Err(error) => {
            // All children find the same; one says so.
            let level = if child.slot == 0 { log::Level::Warn } else { log::Level::Debug };
            log::log!(target: "mpm_percore", level, "io_uring is not available ({error}); connections wait in epoll instead");
            Core::new(EpollDriver::new()?, child, &host, room)?.run()
        }
    }
}

/// A core's process at work.
struct Core<'a, D> {
    child: &'a Child<'a>,
    host: &'a ThreadHost<'a>,
    signals: Signals,
    signals_handle: Handle,
    listeners: Vec<Listening<'a>>,
    connections: Connections<'a, D>,
    /// Accepting failed for lack of a resource.
    exhausted: Option<Exhausted>,
}

/// When accepting goes on that failed for lack of a resource.
#[derive(Clone, Copy, Debug)]
struct Exhausted {
    /// There were so many connections; one that ends frees some.
    with: usize,
    /// Other processes may have freed some by then.
    until: Instant,
}

/// A listening socket.
#[derive(Clone, Copy)]
struct Listening<'a> {
    socket: &'a TcpListener,
    handle: Handle,
    /// Whether an accept is under way, and whether its end was asked for.
    accepting: bool,
    stopping: bool,
}

impl<'a, D: Driver> Core<'a, D> {
    fn new(mut driver: D, child: &'a Child<'a>, host: &'a ThreadHost<'a>, room: Room) -> io::Result<Core<'a, D>> {
        let signals = child::signals()?;
        let signals_handle = driver.adopt(signals.as_fd().try_clone_to_owned()?);
        driver.poll(signals_handle, Readiness::Readable);
        let mut listeners = Vec::new();
        for socket in child.listeners() {
            socket.set_nonblocking(true)?;
            let handle = driver.adopt(socket.try_clone()?.into());
            listeners.push(Listening { socket, handle, accepting: false, stopping: false });
        }
        let connections = Connections::new(driver, child, host, room);
        Ok(Core { child, host, signals, signals_handle, listeners, connections, exhausted: None })
    }

    /// Turn after turn, until the child is asked to end and its last connection is gone.
    fn run(&mut self) -> io::Result<u8> {
        self.child.is_running();
        clock::tick();
        while !self.has_finished() {
            if self.exhausted.is_some_and(|exhausted| exhausted.with == 0) {
                return Ok(EXIT_SICK);
            }
            self.start_and_stop_accepting();
            self.connections.wait(self.exhausted.map(|exhausted| exhausted.until))?;
            self.connections.go_on_sending();
            while let Some(event) = self.connections.handle_events(self.signals_handle) {
                match event {
                    Outside::Accepted { listener, connection, more } => self.accepted(listener, connection, more),
                    Outside::Signals { more } => self.take_signals(more),
                }
            }
            self.connections.end_turn();
        }
        Ok(EXIT_WELL)
    }

    fn has_finished(&self) -> bool {
        self.host.draining()
            && self.connections.open() == 0
            && self.listeners.iter().all(|listening| !listening.accepting)
    }

    /// Accepts unless draining, or out of descriptors. A core that is full accepts all the same and sheds.
    fn start_and_stop_accepting(&mut self) {
        if let Some(Exhausted { with, until }) = self.exhausted
            && (self.connections.open() < with || self.connections.turn.now >= until)
        {
            self.exhausted = None;
        }
        let wanted = !self.host.draining() && self.exhausted.is_none();
        for listening in &mut self.listeners {
            if wanted && !listening.accepting {
                self.connections.driver.accept(listening.handle);
                (listening.accepting, listening.stopping) = (true, false);
            } else if !wanted && listening.accepting && !listening.stopping {
                self.connections.driver.stop_accepting(listening.handle);
                listening.stopping = true;
            }
        }
    }

    fn accepted(&mut self, listener: Handle, connection: io::Result<Handle>, more: bool) {
        match connection {
            Ok(handle) => self.admit(handle),
            Err(error) if lacks_resource(&error) => {
                self.exhausted =
                    Some(Exhausted { with: self.connections.open(), until: clock::turn().now + ACCEPT_AGAIN });
                self.connections.make_room(error);
            }
            // The parent has shut the socket for good: the whole server ends.
            Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => self.drain(),
            // The connection is gone again, or accepting was stopped.
            Err(_) => {}
        }
        if !more && let Some(listening) = self.listeners.iter_mut().find(|listening| listening.handle == listener) {
            listening.accepting = false;
            if self.host.draining() {
                let socket = listening.socket;
                self.accept_the_rest(socket);
            }
        }
    }

    fn admit(&mut self, handle: Handle) {
        self.connections.admit(handle);
        let enough = self.child.generation.limits.max_connections_per_child;
        if enough > 0 && self.connections.admitted() >= enough {
            self.drain();
        }
    }

    /// The kernel wakes one of the processes that wait for a socket. Where it has woken this one, which has just ceased to
    /// accept, nobody else knows of the connections that wait.
    fn accept_the_rest(&mut self, socket: &TcpListener) {
        for _ in 0..ACCEPTED_LAST_MAX {
            let Ok((stream, _)) = listener::accept(socket, true) else { return };
            let handle = self.connections.driver.adopt(stream.into());
            self.connections.admit(handle);
        }
    }

    fn take_signals(&mut self, more: bool) {
        if child::is_asked(self.child, &self.signals) {
            self.drain();
        }
        if !more {
            self.connections.driver.poll(self.signals_handle, Readiness::Readable);
        }
    }

    /// No more connections are accepted; those there are get one more answer each, with `Connection: close`.
    fn drain(&mut self) {
        if !self.host.draining.swap(true, Ordering::Relaxed) {
            self.connections.drain();
        }
    }
}

/// Keeps the child on its core: the n-th of those the process may run on. A single child may run anywhere.
fn pin_to_core(child: &Child<'_>) -> io::Result<()> {
    if child.generation.limits.cores < 2 || !child.generation.limits.core_pinning {
        return Ok(());
    }
    let itself = Pid::from_raw(0);
    let allowed = sched_getaffinity(itself)?;
    let cores: Vec<usize> = (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false)).collect();
    if cores.len() > 1 {
        let mut own = CpuSet::new();
        own.set(cores[child.slot % cores.len()])?;
        sched_setaffinity(itself, &own)?;
    }
    Ok(())
}
