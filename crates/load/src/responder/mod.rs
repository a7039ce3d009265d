//! `manifold load --target-server`: a server that does nothing, as the yardstick of generators and of servers.
//!
//! One thread, epoll, and no system call that could be left out. A new connection is received from at once and watched only if it
//! has to wait, edge-triggered; a receive that did not fill its buffer has emptied the socket, and a send that took less than it was
//! given has filled it, so neither is tried again before the kernel has news.

pub mod answer;
pub mod args;
mod connection;
pub mod head;
pub mod plan;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use manifold_stats::Rng;
use manifold_sys::listener::{self, ListenOptions};
use manifold_sys::signal::{Signal, Signals};
use nix::errno::Errno;
use serde_json::json;

use crate::alarm::Alarm;
use crate::outcome::Clock;
use crate::plan::raise_descriptor_limit;
use crate::poller::{Event, Poller};
use crate::report::{Distribution, Summary};
use crate::stamp::Stamps;
use answer::Answers;
use args::Options;
use connection::{Connection, Fate};
use head::Known;
use plan::{Plan, Truth};

/// What a receive takes at most.
const BUFFER_BYTES: usize = 16 * 1024;
/// Accepts before the connections have their turn.
const ACCEPTS_MAX: usize = 512;
/// Connections that wait to be accepted; the system's `somaxconn` bounds it as well.
const BACKLOG: i32 = 4096;
/// With `--defer-accept`, how long a silent connection is the kernel's.
const DEFER: Duration = Duration::from_secs(30);
/// Descriptors besides the connections.
const DESCRIPTORS_BESIDES: u64 = 32;
/// The tokens of what is no connection.
const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;

/// Runs the server with the arguments of `manifold load`.
pub fn main(args: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let options = match args::parse(args) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{}", args::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(sentence) => {
            eprintln!("manifold load: {sentence}\n\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    let announce = |address| {
        let mut out = io::stdout();
        // Whoever closed our standard output knows the address from elsewhere.
        let _ = writeln!(out, "answering on http://{address}/ with {} bytes", options.body).and_then(|()| out.flush());
    };
    let signals = Signals::collect(&[Signal::SIGINT, Signal::SIGTERM]);
    match signals.and_then(|signals| serve(&options, signals.as_fd(), announce)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("manifold load {}: {error}", args::FLAG);
            ExitCode::from(1)
        }
    }
}

/// Serves until `stop` has something to read. `announce` is told the address once connections are taken.
///
/// # Errors
/// What prevents serving: an address in use, too few descriptors, a failure of epoll.
pub fn serve(options: &Options, stop: BorrowedFd<'_>, announce: impl FnOnce(SocketAddr)) -> io::Result<()> {
    let limit = raise_descriptor_limit(options.max_connections as u64 + DESCRIPTORS_BESIDES)?;
    let room = options.max_connections.min(limit.saturating_sub(DESCRIPTORS_BESIDES) as usize).max(1);
    let answers = Answers::render(options)?;
    let set_up = ListenOptions {
        backlog: BACKLOG,
        reuse_port: false,
        send_buffer: None,
        receive_buffer: None,
        defer_accept: options.defer_accept.then_some(DEFER),
    };
    let listener = listener::listen(options.listen, &set_up)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {}: {error}", options.listen)))?;
    let poller = Poller::new()?;
    poller.watch_level(stop, STOP)?;
    poller.watch_level(&listener, LISTENER)?;
    let planned = (!options.plan.is_plain()).then(|| {
        // The system may delay what we wait for by 50 microseconds otherwise; where it refuses, the alarm makes up for it.
        let _refused = nix::sys::prctl::set_timerslack(1);
        Stamps::ask(&listener);
        Planned::new(&options.plan)
    });
    announce(listener.local_addr()?);
    let mut responder = Responder {
        answers,
        listener,
        poller,
        connections: Vec::new(),
        free: Vec::new(),
        room,
        accepting: true,
        unfinished: Vec::new(),
        buffer: vec![0; BUFFER_BYTES],
        known: Known::nothing(),
        planned,
        timers: BinaryHeap::new(),
        alarm: Alarm::default(),
        awake: options.awake && !options.plan.is_plain(),
    };
    responder.run()?;
    match (&options.record, &responder.planned) {
        (Some(path), Some(planned)) => write_record(path, &planned.truth)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))),
        _ => Ok(()),
    }
}

/// What the target did, as JSON.
fn write_record(path: &Path, truth: &Truth) -> io::Result<()> {
    let record = json!({
        "requests": truth.intended.count(),
        "intended_us": Summary::of(&truth.intended),
        "intended_histogram": Distribution::of(&truth.intended),
        "late_us": Summary::of(&truth.late),
        "late_histogram": Distribution::of(&truth.late),
        "took_us": Summary::of(&truth.took),
        "took_histogram": Distribution::of(&truth.took),
    });
    std::fs::write(path, format!("{record}\n"))
}

/// What a plan needs while it is carried out.
struct Planned {
    plan: Plan,
    rng: Rng,
    clock: Clock,
    /// When the work on all requests that came will be done.
    free_at: u64,
    /// When what was received last came, by the kernel's account.
    came: u64,
    stamps: Stamps,
    truth: Truth,
}

impl Planned {
    fn new(plan: &Plan) -> Planned {
        let clock = Clock::since(Instant::now());
        let rng = Rng::new(plan.seed);
        Planned { plan: plan.clone(), rng, clock, free_at: 0, came: 0, stamps: Stamps::new(), truth: Truth::default() }
    }

    /// Receives as recv(2) does, and notes when that came.
    fn receive(&mut self, socket: RawFd, buffer: &mut [u8]) -> Result<usize, Errno> {
        let (received, waited) = self.stamps.receive(socket, buffer)?;
        self.came = self.clock.now().saturating_sub(waited);
        Ok(received)
    }
}

struct Responder {
    answers: Answers,
    listener: TcpListener,
    poller: Poller,
    connections: Vec<Option<Connection>>,
    /// Places in `connections` that are empty.
    free: Vec<usize>,
    /// Connections that may be open at once.
    room: usize,
    /// The listener is watched; it is not while there is no room.
    accepting: bool,
    /// Connections that were interrupted so that others have their turn.
    unfinished: Vec<usize>,
    buffer: Vec<u8>,
    known: Known,
    /// Answers are not given at once and rightly.
    planned: Option<Planned>,
    /// Connections by the time at which an answer of theirs is due. An entry whose connection is gone, or has nothing due, means nothing.
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    alarm: Alarm,
    awake: bool,
}

impl Responder {
    fn run(&mut self) -> io::Result<()> {
        loop {
            let ready = if self.timers.is_empty() {
                let sleeps = self.unfinished.is_empty() && !self.awake;
                self.poller.wait(if sleeps { Duration::from_secs(60) } else { Duration::ZERO })?
            } else {
                self.wait_for_timers()?
            };
            if let Some(planned) = &mut self.planned {
                planned.stamps.looked();
            }
            for index in 0..ready {
                match self.poller.event(index) {
                    Event { token: STOP, .. } => return Ok(()),
                    Event { token: LISTENER, .. } => self.accept()?,
                    event => self.go_on(event.token as usize, event.readable, event.ended)?,
                }
            }
            for index in std::mem::take(&mut self.unfinished) {
                self.go_on(index, true, true)?;
            }
            if !self.accepting && self.open() < self.room {
                self.poller.watch_level(&self.listener, LISTENER)?;
                self.accepting = true;
            }
        }
    }

    /// Waits until something happens or an answer is due, and gives those that are.
    fn wait_for_timers(&mut self) -> io::Result<usize> {
        let Some((clock, Reverse((due, _)))) =
            self.planned.as_ref().map(|planned| planned.clock).zip(self.timers.peek().copied())
        else {
            return Ok(0);
        };
        let now = clock.now();
        let sleep = if self.unfinished.is_empty() && !self.awake { self.alarm.sleep(now, due) } else { 0 };
        let ready = self.poller.wait(Duration::from_nanos(sleep))?;
        let woken = clock.now();
        if ready == 0 && sleep > 0 {
            self.alarm.woke(now + sleep, woken);
        }
        while let Some(Reverse((due, index))) = self.timers.peek().copied()
            && due <= woken
        {
            self.timers.pop();
            self.go_on(index, false, false)?;
        }
        Ok(ready)
    }

    fn open(&self) -> usize {
        self.connections.len() - self.free.len()
    }

    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..ACCEPTS_MAX {
            if self.open() >= self.room {
                self.poller.forget(&self.listener)?;
                self.accepting = false;
                return Ok(());
            }
            let socket = match listener::accept_anonymous(&self.listener) {
                Ok(socket) => socket,
                Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                    Some(Errno::EAGAIN) => return Ok(()),
                    // The client has gone already, or its network; accept(2) says to try the next.
                    Some(
                        Errno::ECONNABORTED | Errno::EINTR | Errno::EPROTO | Errno::ENETDOWN | Errno::EHOSTUNREACH,
                    ) => {
                        continue;
                    }
                    _ => return Err(error),
                },
            };
            let index = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            self.connections[index] = Some(Connection::new(socket));
            self.go_on(index, true, false)?;
        }
        Ok(())
    }

    /// Does what there is to do on a connection. An event of one that was closed a moment ago may name its successor, which then
    /// finds nothing to do.
    fn go_on(&mut self, index: usize, readable: bool, ended: bool) -> io::Result<()> {
        let Some(connection) = &mut self.connections[index] else { return Ok(()) };
        let before = connection.next_due();
        let fate =
            connection.serve(&self.answers, &mut self.buffer, &mut self.known, self.planned.as_mut(), readable, ended);
        if let Some(due) = connection.next_due().filter(|due| Some(*due) != before) {
            self.timers.push(Reverse((due, index)));
        }
        match fate {
            Fate::Waits if connection.watched => {}
            Fate::Waits => {
                self.poller.watch(&connection.socket, index as u64)?;
                connection.watched = true;
            }
            Fate::GoesOn => self.unfinished.push(index),
            Fate::Closes => {
                self.connections[index] = None;
                self.free.push(index);
            }
        }
        Ok(())
    }
}
