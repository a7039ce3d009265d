//! `manifold load --target-server`: a server that does nothing, as the yardstick of generators and of servers.
//!
//! One thread, epoll, and no system call that could be left out. A new connection is received from at once and watched only if it
//! has to wait, edge-triggered; a receive that did not fill its buffer has emptied the socket, and a send that took less than it was
//! given has filled it, so neither is tried again before the kernel has news.

pub mod answer;
pub mod args;
pub mod head;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

use manifold_sys::listener::{self, ListenOptions};
use manifold_sys::signal::{Signal, Signals};
use nix::errno::Errno;
use nix::sys::socket::{self, MsgFlags};

use crate::plan::raise_descriptor_limit;
use crate::poller::{Event, Poller};
use answer::{Answers, Sent};
use args::Options;
use head::{Ask, Known};

/// What a receive takes at most.
const BUFFER_BYTES: usize = 16 * 1024;
/// A longer head ends its connection.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Receives from one connection before the others have their turn.
const RECEIVES_MAX: usize = 16;
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
    announce(listener.local_addr()?);
    Responder {
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
    }
    .run()
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
}

/// What is to become of a connection.
#[derive(PartialEq, Eq)]
enum Fate {
    /// The kernel tells when it can go on.
    Waits,
    /// It can go on and lets others pass.
    GoesOn,
    Closes,
}

impl Responder {
    fn run(mut self) -> io::Result<()> {
        loop {
            let pause = if self.unfinished.is_empty() { Duration::from_secs(60) } else { Duration::ZERO };
            let ready = self.poller.wait(pause)?;
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
        match connection.serve(&self.answers, &mut self.buffer, &mut self.known, readable, ended) {
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

struct Connection {
    socket: OwnedFd,
    watched: bool,
    /// The beginning of a head whose end has not come yet.
    part: Vec<u8>,
    /// Answers to send after which the connection goes on.
    owed: usize,
    /// The request after which it does not.
    last: Option<Ask>,
    /// Bytes sent of the answer that is being sent.
    at: usize,
}

impl Connection {
    fn new(socket: OwnedFd) -> Connection {
        Connection { socket, watched: false, part: Vec::new(), owed: 0, last: None, at: 0 }
    }

    /// Sends what is owed and receives what is there, in turns.
    fn serve(
        &mut self,
        answers: &Answers,
        buffer: &mut [u8],
        known: &mut Known,
        mut readable: bool,
        ended: bool,
    ) -> Fate {
        for _ in 0..RECEIVES_MAX {
            match self.send(answers) {
                Err(_) => return Fate::Closes,
                Ok(Sent::Blocked) => return Fate::Waits,
                Ok(Sent::All) if self.last.is_some() => return Fate::Closes,
                Ok(Sent::All) if !readable => return Fate::Waits,
                Ok(Sent::All) => {}
            }
            match socket::recv(self.socket.as_raw_fd(), buffer, MsgFlags::empty()) {
                Ok(0) => return Fate::Closes,
                Ok(received) => {
                    // A short receive has emptied the socket, unless its end is there as well.
                    readable = received == buffer.len() || ended;
                    if self.take(&buffer[..received], known).is_err() {
                        return Fate::Closes;
                    }
                }
                Err(Errno::EAGAIN) => readable = false,
                Err(Errno::EINTR) => {}
                Err(_) => return Fate::Closes,
            }
        }
        Fate::GoesOn
    }

    fn send(&mut self, answers: &Answers) -> io::Result<Sent> {
        if answers.keep.send(&self.socket, &mut self.owed, &mut self.at)? == Sent::Blocked {
            return Ok(Sent::Blocked);
        }
        let last = match self.last {
            Some(Ask::HeadOnly) => &answers.head_only,
            Some(Ask::Close) => &answers.close,
            Some(Ask::Keep) | None => return Ok(Sent::All),
        };
        last.send(&self.socket, &mut 1, &mut self.at)
    }

    /// Counts the requests whose heads end in these bytes.
    fn take(&mut self, received: &[u8], known: &mut Known) -> Result<(), TooLong> {
        if self.part.is_empty() {
            let used = self.count(received, known);
            self.part.extend_from_slice(&received[used..]);
        } else {
            let mut part = std::mem::take(&mut self.part);
            part.extend_from_slice(received);
            let used = self.count(&part, known);
            part.drain(..used);
            self.part = part;
        }
        if self.part.len() > HEAD_BYTES_MAX { Err(TooLong) } else { Ok(()) }
    }

    /// Returns how many bytes the whole heads have. What follows the last request is no longer of interest.
    fn count(&mut self, bytes: &[u8], known: &mut Known) -> usize {
        let mut at = 0;
        while self.last.is_none()
            && let Some((length, ask)) = known.first(&bytes[at..])
        {
            at += length;
            match ask {
                Ask::Keep => self.owed += 1,
                Ask::Close | Ask::HeadOnly => self.last = Some(ask),
            }
        }
        if self.last.is_some() { bytes.len() } else { at }
    }
}

/// A head has more than [`HEAD_BYTES_MAX`] bytes.
struct TooLong;
