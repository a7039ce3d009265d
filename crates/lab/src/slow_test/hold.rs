//! `lab hold`: a process that is nothing but slow clients, so that they cost the prober neither descriptors nor time.
//!
//! One thread, one epoll instance. Each client acts once a second, the clients spread evenly over the second. Every tenth
//! of a second a line of JSON says how they are. It ends when its standard input does.

use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use manifold_load::poller::{Event, Poller};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::socket::{self, MsgFlags};
use serde::{Deserialize, Serialize};

use super::kind::{Habit, Kind};
use crate::wire;

/// Turns a second: each client acts in one of them.
const TICKS: usize = 50;
/// Connections under way at the same time; with more the server's backlog would decide.
const CONNECTING_MAX: usize = 128;
/// Connections begun in one turn, so that turns stay short.
const BEGIN_MAX: usize = 64;
/// A slow reader's receive buffer, in bytes (the kernel doubles it), and what it reads a second.
const SMALL_BUFFER: usize = 4096;
/// A slow reader's segments are as long as on an Ethernet; on loopback's of 64 KiB the kernel would buffer megabytes each.
const SEGMENT_BYTES: u32 = 1448;
/// One read of a client that reads all.
const READ_BYTES: usize = 16 * 1024;
/// The token of the standard input.
const INPUT: u64 = u64::MAX;

/// Options of the hidden `lab hold`.
#[derive(Args, Debug)]
pub struct HoldArgs {
    /// Port on 127.0.0.1
    #[arg(long)]
    pub port: u16,
    /// What the clients do
    #[arg(long)]
    pub kind: Kind,
    /// How many
    #[arg(long)]
    pub clients: usize,
    /// Seconds after which no further connection is begun: a server that takes none is full
    #[arg(long)]
    pub within: u64,
}

/// How the clients are.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Held {
    /// Clients that are still being opened, or wait for the answer that their kind waits for.
    pub opening: usize,
    /// Connections that stood at some time.
    pub connected: usize,
    /// Connections that got a byte of an answer.
    pub answered: usize,
    /// Connections that stand and that the server has not closed.
    pub open: usize,
    /// Connections that could not be made.
    pub failed: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Connecting,
    Standing,
    /// The server has closed its side; the client goes on sending.
    Outstaying,
    Gone,
}

struct Slow {
    socket: Option<OwnedFd>,
    state: State,
    answered: bool,
}

struct Holder {
    args: HoldArgs,
    poller: Poller,
    greeting: Vec<u8>,
    clients: Vec<Slow>,
    connecting: usize,
    held: Held,
    buffer: Vec<u8>,
}

/// Runs the clients until the standard input ends.
pub fn run(args: HoldArgs) -> ExitCode {
    // Whatever becomes of the laboratory, this process ends with it.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    wire::raise_descriptors(args.clients as u64 + 64);
    match Holder::new(args).and_then(Holder::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("manifold lab hold: {error}");
            ExitCode::from(1)
        }
    }
}

impl Holder {
    fn new(args: HoldArgs) -> io::Result<Holder> {
        let poller = Poller::new()?;
        poller.watch_level(io::stdin(), INPUT)?;
        let greeting = args.kind.greeting().into_bytes();
        let clients = Vec::with_capacity(args.clients);
        let held = Held::default();
        Ok(Holder { args, poller, greeting, clients, connecting: 0, held, buffer: vec![0; READ_BYTES] })
    }

    fn run(mut self) -> io::Result<()> {
        let turn = Duration::from_secs(1) / TICKS as u32;
        let began = Instant::now();
        let mut next = began;
        for tick in 0.. {
            next += turn;
            loop {
                let left = next.saturating_duration_since(Instant::now());
                self.open(began.elapsed());
                for index in 0..self.poller.wait(if self.may_open(began.elapsed()) { Duration::ZERO } else { left })? {
                    let event = self.poller.event(index);
                    if event.token == INPUT {
                        return Ok(());
                    }
                    self.handle(event);
                }
                if left.is_zero() {
                    break;
                }
            }
            for index in (tick % TICKS..self.clients.len()).step_by(TICKS) {
                self.act(index);
            }
            if tick % (TICKS / 10) == 0 {
                self.tell(began.elapsed())?;
            }
        }
        Ok(())
    }

    fn tell(&mut self, elapsed: Duration) -> io::Result<()> {
        let not_begun = if elapsed.as_secs() < self.args.within { self.args.clients - self.clients.len() } else { 0 };
        let unanswered = |slow: &&Slow| slow.state == State::Standing && !slow.answered;
        let awaited =
            if self.args.kind.waits_for_answer() { self.clients.iter().filter(unanswered).count() } else { 0 };
        self.held.opening = not_begun + self.connecting + awaited;
        let mut out = io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&self.held)?)?;
        out.flush()
    }

    fn may_open(&self, elapsed: Duration) -> bool {
        self.clients.len() < self.args.clients
            && self.connecting < CONNECTING_MAX
            && elapsed.as_secs() < self.args.within
    }

    fn open(&mut self, elapsed: Duration) {
        for _ in 0..BEGIN_MAX {
            if !self.may_open(elapsed) {
                return;
            }
            let index = self.clients.len();
            let reads = self.args.kind.habit() == Habit::Reads;
            let buffer = reads.then_some((SMALL_BUFFER, SEGMENT_BYTES));
            let opened = wire::connect(wire::source(index), self.args.port, buffer).map_err(io::Error::from);
            let watched = opened.and_then(|socket| self.poller.watch(&socket, index as u64).map(|()| socket));
            match watched {
                Ok(socket) => {
                    self.clients.push(Slow { socket: Some(socket), state: State::Connecting, answered: false });
                    self.connecting += 1;
                }
                Err(_) => {
                    self.clients.push(Slow { socket: None, state: State::Gone, answered: false });
                    self.held.failed += 1;
                }
            }
        }
    }

    fn handle(&mut self, event: Event) {
        let index = event.token as usize;
        if self.clients[index].state == State::Connecting {
            self.connecting -= 1;
            if event.broken {
                self.held.failed += 1;
                return self.forget(index);
            }
            self.held.connected += 1;
            self.held.open += 1;
            self.clients[index].state = State::Standing;
            let greeting = std::mem::take(&mut self.greeting);
            self.send(index, &greeting);
            self.greeting = greeting;
        }
        if event.readable {
            self.receive(index, &event);
        }
    }

    fn receive(&mut self, index: usize, event: &Event) {
        if self.args.kind.habit() == Habit::Reads {
            self.note_answer(index);
            if event.ended {
                self.closed(index);
            }
            return;
        }
        while let Some(socket) = &self.clients[index].socket {
            match socket::recv(socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
                Ok(0) => return self.closed(index),
                Ok(_) => self.note_answer(index),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                Err(_) => return self.lost(index),
            }
        }
    }

    fn note_answer(&mut self, index: usize) {
        if !std::mem::replace(&mut self.clients[index].answered, true) {
            self.held.answered += 1;
        }
    }

    /// What the kind does once a second.
    fn act(&mut self, index: usize) {
        if matches!(self.clients[index].state, State::Connecting | State::Gone) {
            return;
        }
        match self.args.kind.habit() {
            Habit::Sends => self.send(index, b"a"),
            Habit::Waits => {}
            Habit::Reads => {
                let Some(socket) = &self.clients[index].socket else { return };
                match socket::recv(socket.as_raw_fd(), &mut self.buffer[..SMALL_BUFFER], MsgFlags::empty()) {
                    Ok(0) => self.closed(index),
                    Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => {}
                    Err(_) => self.lost(index),
                }
            }
        }
    }

    fn send(&mut self, index: usize, bytes: &[u8]) {
        let Some(socket) = &self.clients[index].socket else { return };
        // A greeting fits into a fresh socket's buffer; a byte that does not fit is not missed.
        match socket::send(socket.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL) {
            Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(_) => self.lost(index),
        }
    }

    /// The server has closed its side in order.
    fn closed(&mut self, index: usize) {
        if self.args.kind.outstays() {
            self.clients[index].state = State::Outstaying;
        } else {
            self.lost(index);
        }
    }

    /// The connection is over.
    fn lost(&mut self, index: usize) {
        if self.clients[index].state != State::Gone {
            self.held.open -= 1;
            self.forget(index);
        }
    }

    fn forget(&mut self, index: usize) {
        self.clients[index].state = State::Gone;
        self.clients[index].socket = None;
    }
}
