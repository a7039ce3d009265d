//! The run: users' connections on a few threads, each with its poller.
//!
//! A user is a state machine (`user.rs`), as one of the engine's slots is, and not a thread as in siege: 10,000 of them cost a connection
//! and a few hundred bytes each, and a wait for one of them holds up nobody. The engine's own loop is not used, since its requests are
//! rendered before the run and chosen without looking at answers, which is what makes it fast, and what cookies, redirects, logins and
//! parts of pages forbid. The poller, the sockets and the reading of answers are the engine's. Every wait has an end: of connecting
//! (`timeout`), of silence (`--stall-timeout`), of the run (`-t`, signals).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use jiff::{Timestamp, Zoned};
use nix::errno::Errno;
use nix::sys::socket::{self, MsgFlags};

use super::answer::{Answer, Progress};
use super::names::{Names, Resolved};
use super::settings::Settings;
use super::urls::{Scheme, Url};
use super::user::{Campaign, Fate, Next, Output, User, show_request};
use crate::latencies::Latencies;
use crate::outcome::{Clock, nanoseconds};
use crate::plan::Address;
use crate::poller::Poller;
use crate::wire::{Origin, begin_connecting};

/// One receive takes at most this much.
const RECEIVE_BYTES: usize = 64 * 1024;
/// How often it is looked whether somebody has waited too long.
const SWEEP: Duration = Duration::from_millis(100);
/// How long until it is looked again whether a name is known.
const NAME_PAUSE: Duration = Duration::from_millis(1);
/// A user whose request failed waits so long, so that a refusing server does not make a busy loop.
const FAILED_PAUSE: Duration = Duration::from_millis(1);
/// What is shown is written at the latest when it is so long.
const OUTPUT_BYTES: usize = 256 * 1024;
/// The token of the descriptor that interrupts the run.
const INTERRUPT: u64 = u64::MAX;

/// What is said of URLs that cannot be got.
pub const NO_TLS: &str =
    "neither TLS nor FTP is in this version; use http://, or a proxy that speaks TLS to the server";

/// Why a thread's users stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// They are through, or have given up.
    Done,
    /// The time is over.
    Time,
    /// By a signal.
    Interrupted,
}

/// A thread's users, and what they need.
pub struct Crew<'c> {
    campaign: &'c Campaign,
    names: &'c Names,
    clock: Clock,
    poller: Poller,
    seats: Vec<Seat>,
    /// When to look after whom; entries whose seat says otherwise by then mean nothing.
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    /// Seats that are not done.
    active: usize,
    output: Output,
    buffer: Vec<u8>,
    connect_limit: u64,
    stall_limit: u64,
}

/// A user's place: what the user waits for.
struct Seat {
    user: User,
    phase: Phase,
    connection: Option<Connection>,
    /// The request under way.
    task: Option<Task>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Until then.
    Waiting {
        until: u64,
    },
    /// For the server, which has until then.
    Exchanging {
        until: u64,
    },
    Done,
}

struct Task {
    url: Url,
    bytes: Vec<u8>,
    sent: usize,
    answer: Answer,
    /// Addresses of the server, and which of them is tried.
    addresses: Vec<SocketAddr>,
    address: usize,
    started: u64,
    /// On a connection that the server had kept.
    reused: bool,
}

struct Connection {
    socket: OwnedFd,
    host: (String, u16),
    stands: bool,
}

impl<'c> Crew<'c> {
    /// Users who have not begun.
    ///
    /// # Errors
    /// The error of epoll_create1(2) or epoll_ctl(2).
    pub fn new(
        campaign: &'c Campaign,
        names: &'c Names,
        clock: Clock,
        users: Vec<User>,
        interrupt: BorrowedFd<'_>,
    ) -> io::Result<Crew<'c>> {
        let poller = Poller::new()?;
        poller.watch_level(interrupt, INTERRUPT)?;
        let seat = |user| Seat { user, phase: Phase::Waiting { until: 0 }, connection: None, task: None };
        let seats: Vec<Seat> = users.into_iter().map(seat).collect();
        Ok(Crew {
            campaign,
            names,
            clock,
            poller,
            timers: (0..seats.len()).map(|index| Reverse((0, index))).collect(),
            active: seats.len(),
            seats,
            output: Output::default(),
            buffer: vec![0; RECEIVE_BYTES],
            // `timeout = 0` would fail every connection; siege waits for ever then.
            connect_limit: match u64::try_from(campaign.settings.timeout) {
                Ok(0) | Err(_) => campaign.settings.stall_timeout,
                Ok(seconds) => seconds,
            }
            .saturating_mul(1_000_000_000),
            stall_limit: campaign.settings.stall_timeout.saturating_mul(1_000_000_000),
        })
    }

    /// Runs until all are done, or `end` (nanoseconds on the clock), or the interrupt.
    ///
    /// # Errors
    /// Waiting is impossible.
    pub fn run(&mut self, end: Option<u64>) -> io::Result<Ended> {
        let mut sweep = 0;
        loop {
            let now = self.clock.now();
            if end.is_some_and(|end| now >= end) {
                return Ok(self.leave(Ended::Time));
            }
            while let Some(Reverse((at, index))) = self.timers.peek().copied().filter(|Reverse((at, _))| *at <= now) {
                self.timers.pop();
                if self.seats[index].phase == (Phase::Waiting { until: at }) {
                    self.proceed(index);
                }
            }
            if now >= sweep {
                self.sweep(now);
                sweep = now + nanoseconds(SWEEP);
            }
            self.show();
            if self.active == 0 {
                return Ok(self.leave(Ended::Done));
            }
            let timer = self.timers.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            let until = sweep.min(timer).min(end.unwrap_or(u64::MAX));
            let ready = self.poller.wait(Duration::from_nanos(until.saturating_sub(self.clock.now())))?;
            for index in 0..ready {
                let event = self.poller.event(index);
                if event.token == INTERRUPT {
                    return Ok(self.leave(Ended::Interrupted));
                }
                self.happened(event.token as usize);
            }
        }
    }

    /// The users, when all is over, and how long their answers took.
    pub fn into_parts(self) -> (Vec<User>, Latencies) {
        (self.seats.into_iter().map(|seat| seat.user).collect(), self.output.times)
    }

    fn leave(&mut self, ended: Ended) -> Ended {
        self.show();
        ended
    }

    /// Writes what is to be shown, whole lines at a time, so that threads do not mix theirs. Nobody may be reading it.
    fn show(&mut self) {
        if !self.output.out.is_empty() {
            let mut out = io::stdout().lock();
            let _nobody_reads = out.write_all(&self.output.out).and_then(|()| out.flush());
            self.output.out.clear();
        }
        if !self.output.err.is_empty() {
            let _nobody_reads = io::stderr().write_all(self.output.err.as_bytes());
            self.output.err.clear();
        }
    }

    /// A seat's time has come: its name may be known now, or its rest is over.
    fn proceed(&mut self, index: usize) {
        if self.seats[index].task.is_some() { self.connect(index) } else { self.next(index) }
    }

    /// What the user does next.
    fn next(&mut self, index: usize) {
        let now = self.clock.now();
        let seat = &mut self.seats[index];
        match seat.user.next(self.campaign) {
            Next::Done => {
                seat.phase = Phase::Done;
                seat.connection = None;
                self.active -= 1;
            }
            Next::Rest(pause) => self.wait(index, now.saturating_add(nanoseconds(pause))),
            Next::Request(url) => {
                let settings = &self.campaign.settings;
                let keep_page = settings.parser || settings.print;
                let answer = Answer::new(url.method == "HEAD", keep_page);
                seat.task = Some(Task {
                    url,
                    bytes: Vec::new(),
                    sent: 0,
                    answer,
                    addresses: Vec::new(),
                    address: 0,
                    started: now,
                    reused: false,
                });
                self.connect(index);
            }
        }
    }

    fn wait(&mut self, index: usize, until: u64) {
        self.seats[index].phase = Phase::Waiting { until };
        self.timers.push(Reverse((until, index)));
    }

    /// Goes on with the request: on the connection that there is, or on a new one.
    fn connect(&mut self, index: usize) {
        let Seat { connection, task: Some(task), .. } = &mut self.seats[index] else { return };
        if let Some(sentence) = out_of_reach(&task.url, &self.campaign.settings) {
            return self.over(index, Fate::Failed(sentence));
        }
        let host = match &self.campaign.settings.proxy {
            Some(proxy) => (proxy.clone(), self.campaign.settings.proxy_port),
            None => (task.url.host.clone(), task.url.port),
        };
        if connection.as_ref().is_some_and(|connection| connection.host == host) {
            task.reused = true;
            return self.begin_sending(index);
        }
        *connection = None;
        task.reused = false;
        if task.addresses.is_empty() {
            match self.names.look_up(&host.0) {
                Resolved::Known(ips) => {
                    task.addresses = ips.into_iter().map(|ip| SocketAddr::new(ip, host.1)).collect();
                }
                Resolved::NotYet => return self.wait(index, self.clock.now() + nanoseconds(NAME_PAUSE)),
                Resolved::Failed(reason) => {
                    let sentence =
                        format!("Address resolution failed at sock.c:158 with the following error:\n{reason}");
                    return self.over(index, Fate::Failed(Some(sentence)));
                }
            }
        }
        let to = Address::Inet(task.addresses[task.address]);
        let opened = begin_connecting(&to, Origin { local: None, buffer: None, no_delay: true }).and_then(|socket| {
            let watched = self.poller.watch(&socket, index as u64);
            watched.map(|()| socket).map_err(|error| Errno::try_from(error).unwrap_or(Errno::EIO))
        });
        match opened {
            Ok(socket) => {
                *connection = Some(Connection { socket, host, stands: false });
                self.begin_sending(index);
            }
            Err(error) => self.unconnected(index, error),
        }
    }

    /// Renders the request for its connection and sends what the kernel takes.
    fn begin_sending(&mut self, index: usize) {
        let now = self.clock.now();
        let Seat { user, connection: Some(connection), task: Some(task), phase } = &mut self.seats[index] else {
            return;
        };
        let limit = if connection.stands { self.stall_limit } else { self.connect_limit };
        *phase = Phase::Exchanging { until: now.saturating_add(limit) };
        if task.bytes.is_empty() {
            let seconds = u64::try_from(Timestamp::now().as_second()).unwrap_or(0);
            task.bytes = user.render(&task.url, &self.campaign.settings, seconds);
        }
        task.sent = 0;
        self.send(index);
    }

    fn send(&mut self, index: usize) {
        let Seat { connection: Some(connection), task: Some(task), phase, .. } = &mut self.seats[index] else { return };
        while task.sent < task.bytes.len() {
            match socket::send(connection.socket.as_raw_fd(), &task.bytes[task.sent..], MsgFlags::MSG_NOSIGNAL) {
                Ok(sent) => {
                    task.sent += sent;
                    connection.stands = true;
                    *phase = Phase::Exchanging { until: self.clock.now().saturating_add(self.stall_limit) };
                    if task.sent == task.bytes.len() {
                        show_request(&task.url, &task.bytes, &self.campaign.settings, &mut self.output);
                    }
                }
                // Connecting still, or the socket's buffer is full: writability will be reported.
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => {}
                Err(error) if connection.stands => return self.broken(index, Some(error)),
                Err(error) => return self.unconnected(index, error),
            }
        }
    }

    /// Something has happened to a seat's connection.
    fn happened(&mut self, index: usize) {
        self.send(index);
        loop {
            let Seat { connection: Some(connection), task, phase, .. } = &mut self.seats[index] else { return };
            let received = match socket::recv(connection.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
                Ok(received) => received,
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => continue,
                Err(error) if connection.stands => return self.broken(index, Some(error)),
                Err(error) => return self.unconnected(index, error),
            };
            // Between requests, whatever comes ends a kept connection.
            let Some(task) = task else {
                self.seats[index].connection = None;
                return;
            };
            if received == 0 {
                return self.broken(index, None);
            }
            *phase = Phase::Exchanging { until: self.clock.now().saturating_add(self.stall_limit) };
            match task.answer.receive(&self.buffer[..received]) {
                Progress::More => {}
                Progress::Complete => return self.answered(index),
                Progress::Malformed => {
                    self.seats[index].connection = None;
                    return self.over(index, Fate::Malformed);
                }
            }
        }
    }

    /// The answer is there.
    fn answered(&mut self, index: usize) {
        let Seat { connection, task: Some(task), .. } = &mut self.seats[index] else { return };
        if !task.answer.reusable || !self.campaign.settings.keep_alive {
            *connection = None;
        }
        let answer = std::mem::replace(&mut task.answer, Answer::new(false, false));
        self.over(index, Fate::Answered(answer));
    }

    /// The connection has ended, by itself or by an error, while an answer was awaited.
    fn broken(&mut self, index: usize, error: Option<Errno>) {
        let Seat { connection, task, .. } = &mut self.seats[index];
        *connection = None;
        let Some(task) = task else { return };
        let answer = &task.answer;
        if error.is_none() && answer.end() {
            return self.answered(index);
        }
        if task.reused && !answer.begun {
            // The server ended a connection that it had kept: no fault of the request's.
            return self.connect(index);
        }
        let sentence = match error {
            Some(error @ Errno::ECONNRESET) => {
                Some(format!("socket: read error {} sock.c:635: {}", error.desc(), error.desc()))
            }
            Some(error) => Some(format!("{}: {}", task.url.absolute, error.desc())),
            None if !answer.begun => None,
            None => Some(format!("{}: the answer ended too early", task.url.absolute)),
        };
        self.over(index, Fate::Failed(sentence));
    }

    /// The address cannot be connected to; there may be another one.
    fn unconnected(&mut self, index: usize, error: Errno) {
        let Seat { connection, task: Some(task), .. } = &mut self.seats[index] else { return };
        *connection = None;
        if task.address + 1 < task.addresses.len() {
            task.address += 1;
            return self.connect(index);
        }
        self.over(index, Fate::Failed(Some(format!("socket: unable to connect sock.c:282: {}", error.desc()))));
    }

    /// The request is over, and the user's turn comes at once, or a moment later where nothing else slows down a loop of failures.
    fn over(&mut self, index: usize, fate: Fate) {
        let now = self.clock.now();
        let pause = if matches!(fate, Fate::Answered(_)) { 0 } else { nanoseconds(FAILED_PAUSE) };
        let Seat { user, task, .. } = &mut self.seats[index];
        if let Some(task) = task.take() {
            let took = now.saturating_sub(task.started);
            user.finish(&task.url, fate, took, self.campaign, &Zoned::now(), &mut self.output);
        }
        if self.output.out.len() > OUTPUT_BYTES {
            self.show();
        }
        self.wait(index, now.saturating_add(pause));
    }

    /// Gives up requests that have waited too long.
    fn sweep(&mut self, now: u64) {
        for index in 0..self.seats.len() {
            let Seat { phase: Phase::Exchanging { until }, connection, .. } = &mut self.seats[index] else { continue };
            if *until <= now {
                let stands = connection.as_ref().is_some_and(|connection| connection.stands);
                if stands {
                    self.broken(index, Some(Errno::ETIMEDOUT));
                } else {
                    self.unconnected(index, Errno::ETIMEDOUT);
                }
            }
        }
    }
}

/// A scheme that this version does not speak, and what is said of it; `None`: it speaks it.
fn out_of_reach(url: &Url, settings: &Settings) -> Option<Option<String>> {
    match url.scheme {
        Scheme::Http => None,
        Scheme::Https | Scheme::Ftp => Some(Some(format!("{}: {NO_TLS}", url.absolute))),
        Scheme::Unsupported if !settings.verbose || settings.get || settings.print => Some(None),
        Scheme::Unsupported => {
            Some(Some("UNSPPRTD 501   0.00 secs:       0 bytes ==> PROTOCOL NOT SUPPORTED BY SIEGE\n".to_owned()))
        }
    }
}
