//! The clients: 127.0.0.x sockets in one thread, each with at most one request under way, each request classified exactly.
//!
//! The generator of `manifold load` is made for figures; here every request is looked at. A closing client opens a connection
//! for each request and says `Connection: close`. A keep-alive client sends one request after another for as long as the
//! answers keep the connection. Every second one pauses between them, so that a reload finds connections that carry a
//! request and connections that wait. It does not look whether the server closed meanwhile before it sends the next
//! request: across a network it could not know either.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use manifold_load::connection::{Connection, End, KnownHead, Progress, Reading};
use manifold_load::outcome::{Clock, nanoseconds};
use manifold_load::plan::AnswerEnd;
use manifold_load::poller::{Event, Poller};
use nix::errno::Errno;
use nix::sys::socket::{self, MsgFlags};

use super::pages::Pages;
use super::tally::{Counts, Loss, Seen, classify};
use crate::wire;

/// No answer takes longer than this, or it is lost.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The server closes after its last answer on a connection; it is given this long, then the client closes.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// A client whose request was lost waits this long, so that a server that refuses is not asked without end.
const AFTER_LOSS: Duration = Duration::from_millis(10);
/// The longest pause of a keep-alive client between two requests; pauses are spread evenly from 0 to here.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Between two looks at the deadlines of all clients.
const SWEEP: Duration = Duration::from_millis(2);
/// Losses kept with their circumstances; the others are only counted.
const EXAMPLES_MAX: usize = 40;
/// One read takes at most this much.
const READ_BYTES: usize = 16 * 1024;
/// No longer answer than this is kept for comparison; the page is shorter.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A loss with its circumstances.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Example {
    /// Nanoseconds since the beginning.
    pub at: u64,
    /// Its class.
    pub loss: Loss,
    /// Whether a keep-alive client lost it.
    pub keep_alive: bool,
    /// What came, if anything did.
    pub detail: String,
}

/// An answer, as the reloads' watcher sees it.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// When its answer was complete, nanoseconds since the beginning.
    pub at: u64,
    /// Whether it was the first of its connection.
    pub fresh: bool,
    /// The generation whose page came.
    pub generation: usize,
}

/// What the clients tell while they go on.
#[derive(Debug, Default)]
pub struct Tally {
    /// Of the keep-alive clients.
    pub keep_alive: Counts,
    /// Of the closing ones.
    pub closing: Counts,
    /// The first losses.
    pub examples: Vec<Example>,
    /// Losses since it was last asked.
    pub lost_now: u64,
    /// Why the client's own machine failed; the test then says nothing about the server.
    pub broken: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// Between two requests, on a kept connection or without one.
    Pausing {
        until: u64,
    },
    Connecting,
    Sending,
    Receiving,
    /// The last answer has come; the server is to close.
    Ending {
        until: u64,
    },
    /// No further request.
    Done,
}

struct Client {
    keep_alive: bool,
    pauses: bool,
    source: Ipv4Addr,
    socket: Option<OwnedFd>,
    phase: Phase,
    connection: Connection,
    answer: Vec<u8>,
    sent: usize,
    /// The server has closed its side since the last answer.
    close_seen: bool,
    /// The state of this client's random pauses.
    random: u64,
}

/// All clients of a test.
pub struct Clients<'p> {
    clients: Vec<Client>,
    port: u16,
    pages: &'p Pages,
    poller: Poller,
    clock: Clock,
    buffer: Vec<u8>,
    known: KnownHead,
    requests: [Vec<u8>; 2],
    next_sweep: u64,
    stopping: bool,
    /// Right answers of this turn.
    answered: Vec<Answered>,
    tally: Tally,
}

impl<'p> Clients<'p> {
    /// `keep_alive` and `closing` clients of `port` that expect one of `pages`; they begin with the first [`turn`](Self::turn).
    ///
    /// # Errors
    /// If there is no epoll instance to be had.
    pub fn new(
        port: u16,
        pages: &'p Pages,
        (keep_alive, closing): (usize, usize),
        clock: Clock,
    ) -> io::Result<Clients<'p>> {
        let request = |connection: &str| {
            format!("GET /index.html HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{connection}\r\n").into_bytes()
        };
        let clients = (0..keep_alive + closing).map(|index| Client::new(index, index < keep_alive)).collect();
        Ok(Clients {
            clients,
            port,
            pages,
            poller: Poller::new()?,
            clock,
            buffer: vec![0; READ_BYTES],
            known: KnownHead::default(),
            requests: [request("Connection: close\r\n"), request("")],
            next_sweep: 0,
            stopping: false,
            answered: Vec::new(),
            tally: Tally::default(),
        })
    }

    /// Waits for the next events, at most a few milliseconds, and acts on them; returns the right answers that came.
    ///
    /// # Errors
    /// If waiting fails.
    pub fn turn(&mut self) -> io::Result<&[Answered]> {
        self.answered.clear();
        let ready = self.poller.wait(SWEEP)?;
        for index in 0..ready {
            let event = self.poller.event(index);
            self.handle(event);
        }
        let now = self.clock.now();
        if now >= self.next_sweep {
            self.next_sweep = now + nanoseconds(SWEEP);
            self.sweep(now);
        }
        Ok(&self.answered)
    }

    /// No client begins another request; those under way go on.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Whether every client is through.
    pub fn done(&self) -> bool {
        self.clients.iter().all(|client| client.phase == Phase::Done)
    }

    /// What was counted so far.
    pub fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }

    fn sweep(&mut self, now: u64) {
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            match client.phase {
                Phase::Pausing { .. } if self.stopping => client.finish(),
                Phase::Pausing { until } if now >= until => self.begin(index, now),
                Phase::Ending { until } if now >= until => client.rest(now, Duration::ZERO),
                Phase::Connecting | Phase::Sending | Phase::Receiving
                    if now.saturating_sub(client.connection.exchange.started) >= nanoseconds(ANSWER_WITHIN) =>
                {
                    self.lose(index, Seen::Deadline);
                }
                _ => {}
            }
        }
    }

    /// The next request, on the kept connection or on a new one.
    fn begin(&mut self, index: usize, now: u64) {
        let client = &mut self.clients[index];
        client.sent = 0;
        client.answer.clear();
        let kept = client.socket.is_some();
        client.connection.begin(now, !kept);
        if kept {
            client.phase = Phase::Sending;
        } else {
            client.close_seen = false;
            client.phase = Phase::Connecting;
            match wire::connect(client.source, self.port, None) {
                Ok(socket) => {
                    let watched = self.poller.watch(&socket, index as u64);
                    client.socket = Some(socket);
                    if let Err(error) = watched {
                        self.tally.broken.get_or_insert(format!("epoll: {error}"));
                    }
                }
                Err(error) => return self.lose(index, Seen::Error(error)),
            }
        }
        self.send(index);
        // The end of the stream was reported before and will not be again: it is there to be read.
        if self.clients[index].close_seen && self.clients[index].phase == Phase::Receiving {
            self.receive(index, true);
        }
    }

    fn handle(&mut self, event: Event) {
        let index = event.token as usize;
        let client = &mut self.clients[index];
        client.close_seen |= event.ended && matches!(client.phase, Phase::Pausing { .. });
        if matches!(client.phase, Phase::Connecting | Phase::Sending) {
            self.send(index);
        }
        if !event.readable {
            return;
        }
        match self.clients[index].phase {
            Phase::Sending | Phase::Receiving => self.receive(index, event.ended),
            Phase::Ending { .. } if event.ended => self.clients[index].rest(self.clock.now(), Duration::ZERO),
            _ => {}
        }
    }

    fn send(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let Some(socket) = &client.socket else { return };
        let request = &self.requests[usize::from(client.keep_alive)];
        while client.sent < request.len() {
            match socket::send(socket.as_raw_fd(), &request[client.sent..], MsgFlags::MSG_NOSIGNAL) {
                Ok(sent) => {
                    client.phase = Phase::Sending;
                    client.sent += sent;
                }
                // Still connecting, or the buffer is full: writability will be reported.
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => {}
                Err(error) => return self.lose(index, Seen::Error(error)),
            }
        }
        client.phase = Phase::Receiving;
    }

    fn receive(&mut self, index: usize, ended: bool) {
        loop {
            let client = &mut self.clients[index];
            let Some(socket) = &client.socket else { return };
            let received = match socket::recv(socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
                Ok(0) => {
                    return match client.connection.end_of_stream() {
                        End::Complete => self.answer(index, false, true),
                        End::Truncated | End::NoAnswer => self.lose(index, Seen::End),
                    };
                }
                Ok(received) => received,
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => continue,
                Err(error) => return self.lose(index, Seen::Error(error)),
            };
            let bytes = &self.buffer[..received];
            if client.answer.len() < ANSWER_BYTES_MAX {
                client.answer.extend_from_slice(bytes);
            }
            match client.connection.receive(bytes, self.clock.now(), &mut self.known, |_, _| {}) {
                Progress::Complete { reusable } => return self.answer(index, reusable, ended),
                Progress::Malformed => return self.lose(index, Seen::NotThePage),
                Progress::More => {}
            }
        }
    }

    /// The answer is complete; it may still be another one than the page.
    fn answer(&mut self, index: usize, reusable: bool, ended: bool) {
        let now = self.clock.now();
        let client = &mut self.clients[index];
        let exchange = client.connection.exchange;
        let body = &client.answer[client.answer.len().saturating_sub(exchange.body as usize)..];
        let Some(generation) = self.pages.generation(exchange.status, body) else {
            return self.lose(index, Seen::NotThePage);
        };
        let counts = if client.keep_alive { &mut self.tally.keep_alive } else { &mut self.tally.closing };
        counts.answered += 1;
        counts.answered_reused += u64::from(!exchange.fresh);
        self.answered.push(Answered { at: now, fresh: exchange.fresh, generation });
        if client.keep_alive && reusable {
            client.close_seen = ended;
            let pause = client.pause();
            client.phase = Phase::Pausing { until: now + pause };
            // One whose stream has ended already begins with the next sweep, lest it go on from here again and again.
            if pause == 0 && !ended && !self.stopping {
                self.begin(index, now);
            }
            return;
        }
        counts.ended_by_answer += u64::from(client.keep_alive);
        if ended {
            client.rest(now, Duration::ZERO);
        } else {
            client.phase = Phase::Ending { until: now + nanoseconds(CLOSE_WITHIN) };
        }
    }

    fn lose(&mut self, index: usize, seen: Seen) {
        let now = self.clock.now();
        let client = &mut self.clients[index];
        let exchange = client.connection.exchange;
        match classify(exchange.fresh, exchange.received, seen) {
            Ok(loss) => {
                let counts = if client.keep_alive { &mut self.tally.keep_alive } else { &mut self.tally.closing };
                counts.lose(loss, client.close_seen);
                self.tally.lost_now += 1;
                if self.tally.examples.len() < EXAMPLES_MAX {
                    let detail = detail(&client.answer, seen);
                    let keep_alive = client.keep_alive;
                    self.tally.examples.push(Example { at: now, loss, keep_alive, detail });
                }
            }
            Err(error) => {
                self.tally.broken.get_or_insert_with(|| format!("a client's system call failed: {error}"));
            }
        }
        client.rest(now, AFTER_LOSS);
    }
}

impl Client {
    fn new(index: usize, keep_alive: bool) -> Client {
        Client {
            keep_alive,
            pauses: keep_alive && index % 2 == 1,
            source: wire::source(index),
            socket: None,
            phase: Phase::Pausing { until: 0 },
            connection: Connection::new(Reading { head_request: false, keep_alive, end: AnswerEnd::Framing }),
            answer: Vec::new(),
            sent: 0,
            close_seen: false,
            random: 0x9e37_79b9_7f4a_7c15 ^ (index as u64 + 1).wrapping_mul(0x2545_f491_4f6c_dd1d),
        }
    }

    /// Nanoseconds until the next request on this connection.
    fn pause(&mut self) -> u64 {
        if !self.pauses {
            return 0;
        }
        // xorshift64: pauses shall be spread, no more.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % nanoseconds(PAUSE_MAX)
    }

    /// Without a connection, until the next sweep after `pause`.
    fn rest(&mut self, now: u64, pause: Duration) {
        self.socket = None;
        self.phase = Phase::Pausing { until: now + nanoseconds(pause) };
    }

    fn finish(&mut self) {
        self.socket = None;
        self.phase = Phase::Done;
    }
}

/// The first line of what came, or what the system said.
fn detail(answer: &[u8], seen: Seen) -> String {
    const LINE_MAX: usize = 60;
    let line = answer.split(|&b| b == b'\r' || b == b'\n').next().unwrap_or_default();
    let line: String = String::from_utf8_lossy(&line[..line.len().min(LINE_MAX)]).into_owned();
    match seen {
        _ if !line.is_empty() => line,
        Seen::Error(error) => error.to_string(),
        Seen::End | Seen::NotThePage => String::new(),
        Seen::Deadline => format!("nothing within {} s", ANSWER_WITHIN.as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// One client against a server that answers its first connections with `answers` in turn (`None`: closes at once).
    fn check(keep_alive: bool, answers: &[Option<&str>], expect: impl Fn(&Counts) -> bool) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let answers: Vec<Option<String>> = answers.iter().map(|a| a.map(str::to_owned)).collect();
        let server = std::thread::Builder::new().spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("a connection");
                let mut request = [0; 1024];
                let _ = stream.read(&mut request).expect("a request");
                if let Some(answer) = answer {
                    stream.write_all(answer.as_bytes()).expect("the client reads");
                }
            }
        });
        let server = server.expect("a thread");
        let number = if keep_alive { (1, 0) } else { (0, 1) };
        let clock = Clock::since(std::time::Instant::now());
        let pages = Pages::new(1);
        let mut clients = Clients::new(port, &pages, number, clock).expect("an epoll instance");
        // The server is gone after its answers, and what follows is refused: that ends the wait.
        let refused = |tally: &Tally| tally.keep_alive.of(Loss::Refused) + tally.closing.of(Loss::Refused) > 0;
        for _ in 0..20_000 {
            clients.turn().expect("epoll");
            if refused(clients.tally()) {
                break;
            }
        }
        server.join().expect("the server ended");
        let tally = clients.tally();
        let counts = tally.keep_alive.plus(&tally.closing);
        assert!(expect(&counts), "{counts:?} {:?}", tally.examples);
    }

    fn right() -> String {
        let page = Pages::new(1).body(0);
        let page = String::from_utf8(page).expect("text");
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{page}", page.len())
    }

    #[test]
    fn answers_and_losses_are_told_apart() {
        let right = right();
        let kept = right.replace("Connection: close\r\n", "");
        let cut = &right[..right.len() - 1];
        let wrong = right.replace("200 OK", "503 Busy");
        let other = right.replace("generation", "generatiom");
        check(false, &[Some(&right), Some(&right)], |c| c.answered == 2 && c.lost() == c.of(Loss::Refused));
        check(false, &[None, Some(&right)], |c| {
            c.answered == 1 && c.of(Loss::ClosedFresh) + c.of(Loss::ResetFresh) == 1
        });
        check(false, &[Some(cut)], |c| c.answered == 0 && c.of(Loss::CutShort) == 1);
        check(false, &[Some(&wrong), Some(&other), Some("SSH-2.0\r\n")], |c| c.answered == 0 && c.of(Loss::Wrong) == 3);
        // The answer keeps the connection, and then it is closed.
        check(true, &[Some(&kept)], |c| c.answered == 1 && c.of(Loss::ClosedReused) + c.of(Loss::ResetReused) == 1);
        check(true, &[Some(&right)], |c| c.answered == 1 && c.ended_by_answer == 1 && c.lost() == c.of(Loss::Refused));
    }
}
