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
use std::os::fd::BorrowedFd;
use std::time::Duration;

use jiff::{Timestamp, Zoned};
use nix::errno::Errno;

use super::answer::{Answer, Progress};
use super::line::{Came, Line, Route, Trouble};
use super::names::{Names, Resolved};
use super::settings::Settings;
use super::urls::{Scheme, Url};
use super::user::{Campaign, Fate, Next, Output, User, show_request, shows};
use crate::latencies::Latencies;
use crate::outcome::{Clock, nanoseconds};
use crate::plan::Address;
use crate::poller::Poller;
use crate::tls::stream::Buffers;

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
pub const NO_FTP: &str = "FTP is not in this version";

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
    /// Of connections that are secured.
    buffers: Buffers,
    connect_limit: u64,
    stall_limit: u64,
}

/// A user's place: what the user waits for.
struct Seat {
    user: User,
    phase: Phase,
    line: Option<Line>,
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
        let seat = |user| Seat { user, phase: Phase::Waiting { until: 0 }, line: None, task: None };
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
            buffers: Buffers::default(),
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
                self.active -= 1;
                self.hang_up(index);
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
        let Seat { line, task: Some(task), .. } = &mut self.seats[index] else { return };
        if let Some(sentence) = out_of_reach(&task.url, &self.campaign.settings) {
            return self.over(index, Fate::Failed(sentence));
        }
        let route = Route::of(&task.url, &self.campaign.settings);
        if line.as_ref().is_some_and(|line| line.route == route) {
            task.reused = true;
            return self.begin_sending(index);
        }
        task.reused = false;
        if task.addresses.is_empty() {
            match self.names.look_up(&route.peer.0) {
                Resolved::Known(ips) => {
                    task.addresses = ips.into_iter().map(|ip| SocketAddr::new(ip, route.peer.1)).collect();
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
        self.hang_up(index);
        match self.open(index, route, &to) {
            Ok(line) => {
                self.seats[index].line = Some(line);
                self.begin_sending(index);
            }
            Err(Trouble::System(error)) => self.unconnected(index, error),
            Err(Trouble::Insecure(sentence)) => self.over(index, Fate::Failed(Some(sentence))),
        }
    }

    fn open(&mut self, index: usize, route: Route, to: &Address) -> Result<Line, Trouble> {
        let client = |(host, _): &(String, u16)| {
            let prepared = self.campaign.security.as_ref().map_err(Clone::clone)?;
            prepared.client(host)
        };
        let client = route.secured.as_ref().map(client).transpose().map_err(Trouble::Insecure)?;
        let line = Line::open(route, to, client, &mut self.buffers)?;
        let watched = self.poller.watch(&line, index as u64);
        watched.map_err(|error| Trouble::System(Errno::try_from(error).unwrap_or(Errno::EIO)))?;
        Ok(line)
    }

    /// Ends the seat's connection, if it has one.
    fn hang_up(&mut self, index: usize) {
        if let Some(line) = self.seats[index].line.take() {
            line.close(&mut self.buffers);
        }
    }

    /// Renders the request for its connection and sends what the kernel takes.
    fn begin_sending(&mut self, index: usize) {
        let now = self.clock.now();
        let Seat { user, line: Some(line), task: Some(task), phase } = &mut self.seats[index] else { return };
        let limit = if line.stands() { self.stall_limit } else { self.connect_limit };
        *phase = Phase::Exchanging { until: now.saturating_add(limit) };
        if task.bytes.is_empty() {
            let seconds = u64::try_from(Timestamp::now().as_second()).unwrap_or(0);
            task.bytes = user.render(&task.url, &self.campaign.settings, seconds);
        }
        task.sent = 0;
        self.send(index);
    }

    fn send(&mut self, index: usize) {
        let Seat { line: Some(line), task: Some(task), phase, .. } = &mut self.seats[index] else { return };
        let before = task.sent;
        let pushed = line.push(&task.bytes, &mut task.sent, &mut self.buffers);
        if task.sent > before {
            *phase = Phase::Exchanging { until: self.clock.now().saturating_add(self.stall_limit) };
            if task.sent == task.bytes.len() {
                show_request(&task.url, &task.bytes, &self.campaign.settings, &mut self.output);
            }
        }
        if let Err(trouble) = pushed {
            self.in_trouble(index, trouble);
        }
    }

    /// Something has happened to a seat's connection.
    fn happened(&mut self, index: usize) {
        loop {
            self.send(index);
            let Seat { line: Some(line), task, phase, .. } = &mut self.seats[index] else { return };
            let (bytes, ended) = match line.receive(&mut self.buffer, &mut self.buffers) {
                Ok(Came::Nothing) => return,
                Ok(Came::Bytes { bytes: [], ended: false }) => continue,
                Ok(Came::Bytes { bytes, ended }) => (bytes, ended),
                Ok(Came::Tunnel(talk)) => {
                    if shows(&self.campaign.settings) {
                        self.output.out.extend_from_slice(&talk);
                    }
                    continue;
                }
                Err(trouble) => return self.in_trouble(index, trouble),
            };
            // Between requests, whatever comes ends a kept connection.
            let Some(task) = task else { return self.hang_up(index) };
            let progress = if bytes.is_empty() {
                Progress::More
            } else {
                *phase = Phase::Exchanging { until: self.clock.now().saturating_add(self.stall_limit) };
                task.answer.receive(bytes)
            };
            match progress {
                Progress::More if ended => return self.broken(index, None),
                Progress::More => {}
                Progress::Complete => return self.answered(index),
                Progress::Malformed => {
                    self.hang_up(index);
                    return self.over(index, Fate::Malformed);
                }
            }
        }
    }

    /// The answer is there.
    fn answered(&mut self, index: usize) {
        let Some(task) = &mut self.seats[index].task else { return };
        let answer = std::mem::replace(&mut task.answer, Answer::new(false, false));
        if !answer.reusable || !self.campaign.settings.keep_alive {
            self.hang_up(index);
        }
        self.over(index, Fate::Answered(answer));
    }

    /// The connection is of no use any more, or never was.
    fn in_trouble(&mut self, index: usize, trouble: Trouble) {
        let stands = self.seats[index].line.as_ref().is_some_and(Line::stands);
        match trouble {
            Trouble::System(error) if stands => self.broken(index, Some(error)),
            Trouble::System(error) => self.unconnected(index, error),
            Trouble::Insecure(sentence) => {
                self.seats[index].line = None;
                // Between requests nobody has to know.
                if self.seats[index].task.is_some() {
                    self.over(index, Fate::Failed(Some(sentence)));
                }
            }
        }
    }

    /// The connection has ended, by itself or by an error, while an answer was awaited.
    fn broken(&mut self, index: usize, error: Option<Errno>) {
        let Seat { line, task, .. } = &mut self.seats[index];
        *line = None;
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
        let Seat { line, task: Some(task), .. } = &mut self.seats[index] else { return };
        *line = None;
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
            let Seat { phase: Phase::Exchanging { until }, line, .. } = &self.seats[index] else { continue };
            if *until <= now {
                let trouble = line.as_ref().map_or(Trouble::System(Errno::ETIMEDOUT), Line::timed_out);
                self.in_trouble(index, trouble);
            }
        }
    }
}

/// A scheme that this version does not speak, and what is said of it; `None`: it speaks it.
fn out_of_reach(url: &Url, settings: &Settings) -> Option<Option<String>> {
    match url.scheme {
        Scheme::Http | Scheme::Https => None,
        Scheme::Ftp => Some(Some(format!("{}: {NO_FTP}", url.absolute))),
        Scheme::Unsupported if !settings.verbose || settings.get || settings.print => Some(None),
        Scheme::Unsupported => {
            Some(Some("UNSPPRTD 501   0.00 secs:       0 bytes ==> PROTOCOL NOT SUPPORTED BY SIEGE\n".to_owned()))
        }
    }
}
