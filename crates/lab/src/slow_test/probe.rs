//! Normal requests at fixed times, each on a connection of its own: how long does each take from the first SYN to the last byte?
//!
//! They start when they are due, whether or not those before them are through, as visitors do; or one after the other.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use manifold_load::connection::{Connection, End, KnownHead, Progress, Reading};
use manifold_load::outcome::{Clock, nanoseconds};
use manifold_load::plan::AnswerEnd;
use manifold_load::poller::Poller;
use nix::errno::Errno;
use nix::sys::socket::{self, MsgFlags};

use super::kind::PAGE;
use crate::wire;

/// A normal request without an answer after this long has failed, unless less is asked for.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Answers are read in pieces of this size.
const READ_BYTES: usize = 16 * 1024;
/// Between two looks at the clock.
const TURN: Duration = Duration::from_millis(5);

/// What became of a probe: microseconds to its answer, or why there was none.
pub type Outcome = Result<u64, &'static str>;

/// When to probe.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// How often.
    pub count: usize,
    /// From one probe's start to the next one's.
    pub every: Duration,
    /// Whether each waits until the one before it is through, however long it has been due.
    pub one_by_one: bool,
    /// A request without an answer after this long has failed.
    pub within: Duration,
    /// Whether the first that fails ends it.
    pub until_one_fails: bool,
}

impl Times {
    /// So many, each as soon as the one before it is through.
    pub const fn one_by_one(count: usize) -> Times {
        Times { count, every: Duration::ZERO, one_by_one: true, within: ANSWER_WITHIN, until_one_fails: false }
    }
}

struct Probe {
    socket: Option<OwnedFd>,
    connection: Connection,
    body: Vec<u8>,
    sent: usize,
    outcome: Option<Outcome>,
}

/// Probes `ports` in turn at those times; an answer must be 200 with `page` as its body. Ends when all probes have, or early when
/// `interrupted` says so (probes not made are then left out).
///
/// # Errors
/// If the system has no epoll instance.
pub fn probe(
    ports: &[u16],
    page: &[u8],
    times: Times,
    mut interrupted: impl FnMut() -> bool,
) -> io::Result<Vec<Outcome>> {
    let clock = Clock::since(Instant::now());
    let request = format!("GET {PAGE} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").into_bytes();
    let mut prober =
        Prober { request, page, clock, poller: Poller::new()?, probes: Vec::new(), known: KnownHead::default() };
    let mut buffer = vec![0; READ_BYTES];
    let mut next_look = 0;
    loop {
        let now = clock.now();
        let started = prober.probes.len();
        let free = !times.one_by_one || prober.probes.last().is_none_or(|probe| probe.outcome.is_some());
        if free && started < times.count && now >= nanoseconds(times.every) * started as u64 {
            prober.start(ports[started % ports.len()], now);
        }
        for index in 0..prober.poller.wait(TURN)? {
            let token = prober.poller.event(index).token as usize;
            prober.go_on(token, &mut buffer);
        }
        let now = prober.clock.now();
        if now >= next_look {
            prober.expire(now, times.within);
            next_look = now + nanoseconds(TURN);
        }
        let all = prober.probes.len() == times.count;
        let through = all && prober.probes.iter().rev().all(|probe| probe.outcome.is_some());
        let failed = |probe: &Probe| probe.outcome.is_some_and(|outcome| outcome.is_err());
        if through || interrupted() || times.until_one_fails && prober.probes.iter().any(failed) {
            return Ok(prober.probes.into_iter().filter_map(|probe| probe.outcome).collect());
        }
    }
}

struct Prober<'p> {
    request: Vec<u8>,
    page: &'p [u8],
    clock: Clock,
    poller: Poller,
    probes: Vec<Probe>,
    known: KnownHead,
}

impl Prober<'_> {
    fn start(&mut self, port: u16, now: u64) {
        let index = self.probes.len();
        let reading = Reading { head_request: false, keep_alive: false, end: AnswerEnd::Framing };
        let mut connection = Connection::new(reading);
        connection.begin(now, true);
        let opened = wire::connect(wire::source(index), port, None);
        let opened = opened.and_then(|socket| match self.poller.watch(&socket, index as u64) {
            Ok(()) => Ok(socket),
            Err(_) => Err(Errno::ENOMEM),
        });
        let (socket, outcome) = match opened {
            Ok(socket) => (Some(socket), None),
            Err(error) => (None, Some(Err(words(error)))),
        };
        self.probes.push(Probe { socket, connection, body: Vec::new(), sent: 0, outcome });
    }

    fn go_on(&mut self, index: usize, buffer: &mut [u8]) {
        let probe = &mut self.probes[index];
        if probe.outcome.is_some() {
            return;
        }
        probe.outcome = probe.advance(&self.request, self.page, &mut self.known, self.clock, buffer);
        if probe.outcome.is_some() {
            probe.socket = None;
        }
    }

    fn expire(&mut self, now: u64, within: Duration) {
        for probe in &mut self.probes {
            let age = now.saturating_sub(probe.connection.exchange.started);
            if probe.outcome.is_none() && age >= nanoseconds(within) {
                probe.outcome = Some(Err("no answer in time"));
                probe.socket = None;
            }
        }
    }
}

impl Probe {
    /// Sends what is left and reads what is there.
    fn advance(
        &mut self,
        request: &[u8],
        page: &[u8],
        known: &mut KnownHead,
        clock: Clock,
        buffer: &mut [u8],
    ) -> Option<Outcome> {
        let socket = self.socket.as_ref()?.as_raw_fd();
        while self.sent < request.len() {
            match socket::send(socket, &request[self.sent..], MsgFlags::MSG_NOSIGNAL) {
                Ok(sent) => self.sent += sent,
                Err(Errno::EAGAIN) => return None,
                Err(Errno::EINTR) => {}
                Err(error) => return Some(Err(words(error))),
            }
        }
        loop {
            let received = match socket::recv(socket, buffer, MsgFlags::empty()) {
                Ok(0) if self.connection.end_of_stream() == End::Complete => return Some(self.judge(page, clock)),
                Ok(0) => return Some(Err("closed without an answer")),
                Ok(received) => received,
                Err(Errno::EAGAIN) => return None,
                Err(Errno::EINTR) => continue,
                Err(error) => return Some(Err(words(error))),
            };
            self.body.extend_from_slice(&buffer[..received]);
            match self.connection.receive(&buffer[..received], clock.now(), known, |_, _| {}) {
                Progress::Complete { .. } => return Some(self.judge(page, clock)),
                Progress::Malformed => return Some(Err("wrong answer")),
                Progress::More => {}
            }
        }
    }

    fn judge(&self, page: &[u8], clock: Clock) -> Outcome {
        let exchange = &self.connection.exchange;
        let body = &self.body[self.body.len().saturating_sub(exchange.body as usize)..];
        match exchange.status {
            200 if body == page => Ok(clock.now().saturating_sub(exchange.started) / 1000),
            503 => Err("503"),
            _ => Err("wrong answer"),
        }
    }
}

fn words(error: Errno) -> &'static str {
    match error {
        Errno::ECONNREFUSED => "refused",
        Errno::ECONNRESET | Errno::EPIPE => "reset",
        _ => error.desc(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn probes_are_judged() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let answers: [&[u8]; 4] = [
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage",
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour",
            b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
            b"",
        ];
        let server = std::thread::Builder::new().spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("a connection");
                let _ = stream.read(&mut [0; 1024]).expect("a request");
                stream.write_all(answer).expect("the client reads");
            }
        });
        let times = Times::one_by_one(answers.len());
        let outcomes = probe(&[port], b"page", times, || false).expect("epoll");
        server.expect("a thread").join().expect("it ended");
        assert!(outcomes[0].is_ok(), "{outcomes:?}");
        let failed: Vec<_> = outcomes[1..].iter().map(|outcome| outcome.expect_err("not answered rightly")).collect();
        assert_eq!(failed, ["wrong answer", "503", "closed without an answer"]);
        let few = |count, until_one_fails| {
            probe(&[port], b"page", Times { count, until_one_fails, ..times }, || false).expect("epoll")
        };
        assert_eq!(few(1, false), [Err("refused")]);
        assert_eq!((few(3, false).len(), few(3, true).len()), (3, 1));
    }
}
