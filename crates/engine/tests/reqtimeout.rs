//! `RequestReadTimeout` over memory: when bytes arrive is written down, and time passes only as it is written.

#![expect(clippy::unwrap_used, reason = "a test fails where its set-up does")]

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use manifold_engine::memory::{Input, MemoryHost, MemoryTransport};
use manifold_engine::out::OutQueue;
use manifold_engine::phases::Phases;
use manifold_engine::reqtimeout::Stage;
use manifold_engine::serve::{Conn, serve};
use manifold_engine::site::Site;
use manifold_engine::transport::{Host, Next, Transport};

/// A connection on which each piece arrives so long after the one before it was read. It passes the time by itself.
struct Dribble<'a> {
    host: &'a MemoryHost,
    pieces: VecDeque<(Duration, Vec<u8>)>,
    memory: MemoryTransport,
}

impl Transport for Dribble<'_> {
    fn received(&self) -> &[u8] {
        self.memory.received()
    }

    fn consume(&mut self, n: usize) {
        self.memory.consume(n);
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, by: Instant) -> Poll<io::Result<usize>> {
        let left = by.saturating_duration_since(self.host.turn().now);
        match self.pieces.pop_front() {
            Some((after, bytes)) if after < left => {
                self.host.advance(after);
                self.memory.input.push_back(Input::Bytes(bytes));
            }
            _ => {
                self.host.advance(left);
                self.memory.input.push_back(Input::Timeout);
            }
        }
        self.memory.poll_fill(cx, by)
    }

    fn outgoing(&mut self) -> &mut OutQueue {
        self.memory.outgoing()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>, by: Instant) -> Poll<io::Result<()>> {
        self.memory.poll_flush(cx, by)
    }
}

/// Pieces, and the milliseconds that pass before each.
type Pieces = VecDeque<(Duration, Vec<u8>)>;

/// `text` in pieces of so many bytes, one every so many milliseconds.
fn paced(text: &str, (length, every): (usize, u64)) -> Pieces {
    text.as_bytes().chunks(length).map(|piece| (Duration::from_millis(every), piece.to_vec())).collect()
}

/// What comes of pieces that are followed by silence: the status that is answered, how the connection is left, and when,
/// in milliseconds.
#[track_caller]
fn check_pieces(site: &Site, pieces: Pieces, expected: (&str, Next, u128)) {
    let host = MemoryHost::default();
    let mut io = Dribble { host: &host, pieces, memory: MemoryTransport::default() };
    let start = host.turn().now;
    let mut conn = Conn::new(([192, 0, 2, 1], 4711).into());
    let next = pin!(serve(&mut io, &mut conn, site, &host)).poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(next) = next else { panic!("time passes by itself, nothing is to be waited for") };
    let sent = String::from_utf8(io.memory.sent).unwrap();
    let status = sent.split(' ').nth(1).unwrap_or("nothing");
    let closed = if sent.contains("\r\nConnection: close\r\n") { " close" } else { "" };
    let status = format!("{status}{closed}");
    assert_eq!((status.as_str(), next.unwrap(), (host.turn().now - start).as_millis()), expected);
    assert_eq!(conn.linger_briefly, status == SLOW, "who was too slow would be slow in lingering too");
}

#[track_caller]
fn check(site: &Site, text: &str, pace: (usize, u64), expected: (&str, Next, u128)) {
    check_pieces(site, paced(text, pace), expected);
}

fn site(timeout: u64, header: Stage, body: Stage) -> Site {
    let mut site = Site::new(Phases::new());
    site.timeout = Duration::from_secs(timeout);
    (site.read_timeouts.header, site.read_timeouts.body) = (header, body);
    site
}

/// A stage as `timeout-max,MinRate=rate`.
const fn stage(timeout: u64, max: u64, min_rate: u32) -> Stage {
    Stage { timeout: Duration::from_secs(timeout), max_timeout: Duration::from_secs(max), min_rate }
}

/// A head of exactly 1000 bytes for a page that is not there.
fn head() -> String {
    let start = "GET / HTTP/1.1\r\nHost: h\r\nX: ";
    format!("{start}{}\r\n\r\n", "x".repeat(1000 - start.len() - 4))
}

const SLOW: &str = "408 close";

#[test]
fn a_head_has_to_come_at_its_rate() {
    let site = site(60, stage(20, 40, 500), Stage::OFF);
    let head = head();
    check(&site, &head, (1000, 0), ("404", Next::KeepAlive, 0));
    // One byte every 20 ms is enough within the first 20 seconds, and 50 bytes a second are not in the long run.
    check(&site, &head, (1, 20), ("404", Next::KeepAlive, 20_000));
    check(&site, &head, (1, 21), ("404", Next::KeepAlive, 21_000));
    // 22 s are the time of 1000 bytes; 999 bytes have arrived by then, and theirs is over 2 ms earlier.
    check(&site, &head, (1, 22), (SLOW, Next::Linger, 21_998));
    check(&site, &head, (1, 1_000), (SLOW, Next::Linger, 20_040));
    // Silence after the first byte, before it, and in the middle of the head.
    check(&site, "G", (1, 0), (SLOW, Next::Linger, 20_002));
    check(&site, "", (1, 0), ("nothing", Next::Close, 20_000));
    check(&site, &head, (1, 19_999), (SLOW, Next::Linger, 20_002));
    check(&site, &head[..500], (500, 1_000), (SLOW, Next::Linger, 21_000));
}

#[test]
fn a_head_has_no_longer_than_its_maximum() {
    let site = site(60, stage(20, 21, 10), Stage::OFF);
    check(&site, &head(), (1, 100), (SLOW, Next::Linger, 21_000));
    check(&site, &head(), (100, 2_000), ("404", Next::KeepAlive, 20_000));
}

#[test]
fn the_plain_timeout_bounds_every_wait() {
    let site = site(5, stage(20, 40, 500), stage(20, 0, 500));
    check(&site, "GET /", (1, 4_000), (SLOW, Next::Linger, 20_010));
    check(&site, "GET /", (1, 6_000), ("nothing", Next::Close, 5_000));
    check(&site, "GET /", (5, 4_000), (SLOW, Next::Linger, 9_000));
    let body = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n";
    check(&site, body, (body.len(), 1_000), (SLOW, Next::Linger, 6_000));
}

#[test]
fn a_stage_of_0_is_bounded_by_the_plain_timeout_alone() {
    let site = site(5, Stage::OFF, Stage::OFF);
    check(&site, &head(), (1, 4_999), ("404", Next::KeepAlive, 4_999_000));
    check(&site, &head(), (1, 5_000), ("nothing", Next::Close, 5_000));
}

#[test]
fn a_body_has_to_come_at_its_rate() {
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n";
    let site = site(60, stage(20, 40, 500), stage(1, 0, 500));
    let body = "b".repeat(1000);
    let after_head = |pace, expected| {
        let mut pieces = paced(&body, pace);
        pieces.push_front((Duration::ZERO, head.as_bytes().to_vec()));
        check_pieces(&site, pieces, expected);
    };
    after_head((1000, 999), ("404", Next::KeepAlive, 999));
    after_head((1000, 1_000), (SLOW, Next::Linger, 1_000));
    after_head((1, 2), ("404", Next::KeepAlive, 2_000));
    after_head((1, 3), (SLOW, Next::Linger, 2_994));
    after_head((1, 4), (SLOW, Next::Linger, 1_996));
}
