//! Runs over HTTP/2, lived through on a clock of their own, against a simulated server whose connections end and whose streams are refused.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, UNIX_EPOCH};

use manifold_http::h2::frame::{write_data, write_go_away, write_headers, write_reset, write_settings};
use manifold_http::h2::{Code, Event, PREFACE, Reader, Setting, encode_field};
use manifold_stats::Rng;
use nix::errno::Errno;

use super::{Driver, Share};
use crate::h2::request::translate;
use crate::native::args::ExpectLength;
use crate::native::record::{Expectation, Recorder, SUCCESS};
use crate::outcome::{Ended, Outcome, Time, nanoseconds};
use crate::plan::{Address, Plan, Protocol, Stop, Tickets, Timeout};
use crate::responder::plan::{Fault, Plan as Target};
use crate::schedule::{Arrivals, Pace, Stage, Think};
use crate::tls::Client;
use crate::wire::{Connected, Happening, Multiplexed, Origin, Sent, Wire, slots_below};

const LOOK_NS: u64 = 500;

#[derive(Clone, Copy)]
struct Virtual<'c>(&'c Cell<u64>);

impl Time for Virtual<'_> {
    fn now(&self) -> u64 {
        self.0.get()
    }
}

/// How the server treats its connections.
#[derive(Clone, Copy, Default)]
struct Manners {
    /// A connection takes so many streams, and then says that it goes away.
    streams_each: Option<u32>,
    /// Each so manieth stream is refused.
    refuses_each: Option<u32>,
    /// Streams at once.
    at_once: Option<u32>,
}

struct Peer {
    reader: Reader,
    /// Bytes of the preface still to come.
    preface: usize,
    streams: u32,
    open: u32,
    goes_away: bool,
}

/// Something on its way: when it arrives, on which connection of which slot, and what.
type Coming = (u64, usize, u32, u64);

struct Simulated<'c> {
    clock: &'c Cell<u64>,
    target: Target,
    manners: Manners,
    rng: Rng,
    coming: BinaryHeap<Reverse<Coming>>,
    /// By their place in `coming`: frames, and whether they are the end of a stream.
    frames: Vec<(Vec<u8>, bool)>,
    peers: Vec<Option<Peer>>,
    generations: Vec<u32>,
    opened: &'c Cell<u32>,
    most_at_once: &'c Cell<u32>,
}

impl Simulated<'_> {
    fn deliver(&mut self, slot: usize, due: u64, frames: Vec<u8>, ends: bool) {
        self.frames.push((frames, ends));
        self.coming.push(Reverse((due, slot, self.generations[slot], self.frames.len() as u64 - 1)));
    }

    fn request(&mut self, slot: usize, stream: u32) {
        let Some(peer) = &mut self.peers[slot] else { return };
        peer.streams += 1;
        let now = self.clock.get();
        let mut out = Vec::new();
        if self.manners.streams_each.is_some_and(|most| peer.streams > most) {
            if !std::mem::replace(&mut peer.goes_away, true) {
                write_go_away(&mut out, stream - 2, Code::NO_ERROR);
                self.deliver(slot, now, out, false);
            }
            return;
        }
        if self.manners.refuses_each.is_some_and(|each| peer.streams.is_multiple_of(each)) {
            write_reset(&mut out, stream, Code::REFUSED_STREAM);
            return self.deliver(slot, now, out, false);
        }
        peer.open += 1;
        self.most_at_once.set(self.most_at_once.get().max(peer.open));
        let (due, fault) = self.target.next(now, &mut 0, &mut self.rng);
        let status = if let Some(Fault::Status(_)) = fault { "503" } else { "200" };
        let mut block = Vec::new();
        encode_field(&mut block, b":status", status.as_bytes());
        encode_field(&mut block, b"content-length", b"5");
        write_headers(&mut out, stream, &block, false);
        match fault {
            Some(Fault::Silent) => return,
            Some(Fault::Short) => write_data(&mut out, stream, b"hel", true),
            Some(Fault::Reset) => write_reset(&mut out, stream, Code::CANCEL),
            _ => write_data(&mut out, stream, b"hello", true),
        }
        self.deliver(slot, due, out, true);
    }
}

impl<'p> Wire<'p> for Simulated<'_> {
    fn connect(
        &mut self,
        slot: usize,
        _to: &Address,
        _origin: Origin,
        _tls: Option<&'p Client>,
    ) -> Result<Connected, Errno> {
        self.generations[slot] += 1;
        self.opened.set(self.opened.get() + 1);
        let peer = Peer { reader: Reader::default(), preface: PREFACE.len(), streams: 0, open: 0, goes_away: false };
        self.peers[slot] = Some(peer);
        let mut out = Vec::new();
        let limit = self.manners.at_once.map(|limit| (Setting::MAX_CONCURRENT_STREAMS, limit));
        write_settings(&mut out, limit.as_slice());
        self.deliver(slot, self.clock.get(), out, false);
        Ok(Connected::Anew)
    }

    fn send(&mut self, slot: usize, _bytes: &'p [u8]) -> Sent {
        unreachable!("slot {slot}: streams are sent as copies")
    }

    fn send_copy(&mut self, slot: usize, bytes: &[u8]) -> Sent {
        let Some(peer) = &mut self.peers[slot] else { return Sent::Failed(Errno::EPIPE) };
        let (preface, mut rest) = bytes.split_at(peer.preface.min(bytes.len()));
        peer.preface -= preface.len();
        let mut asked = Vec::new();
        while let Some(event) = peer.reader.next(&mut rest).expect("the generator keeps to the protocol") {
            if let Event::Headers { stream, end_stream: true, .. } = event {
                asked.push(stream);
            }
        }
        asked.into_iter().for_each(|stream| self.request(slot, stream));
        Sent::All
    }

    fn await_end(&mut self, slot: usize) {
        unreachable!("slot {slot}: connections are kept")
    }

    fn close(&mut self, slot: usize) {
        self.generations[slot] += 1;
        self.peers[slot] = None;
    }

    fn wait(&mut self, timeout: Duration) -> std::io::Result<bool> {
        let now = self.clock.get() + LOOK_NS;
        let until = now + nanoseconds(timeout);
        let first = self.coming.peek().map(|Reverse(coming)| coming.0).filter(|due| *due <= until);
        self.clock.set(first.map_or(until, |due| due.max(now)));
        Ok(first.is_some())
    }

    fn next(&mut self) -> Option<Happening<'_>> {
        loop {
            let Reverse((due, slot, generation, place)) = self.coming.peek().copied()?;
            if due > self.clock.get() {
                return None;
            }
            self.coming.pop();
            if generation != self.generations[slot] {
                continue;
            }
            let (bytes, ends) = &self.frames[place as usize];
            let mut ended = false;
            if let (Some(peer), true) = (&mut self.peers[slot], *ends) {
                peer.open -= 1;
                // A connection that goes away closes behind its last answer.
                ended = peer.goes_away && peer.open == 0;
            }
            return Some(Happening::Received { slot, bytes, ended, waited: 0 });
        }
    }
}

struct Lived {
    outcome: Outcome<Recorder>,
    opened: u32,
    most_at_once: u32,
}

fn run(plan: &Plan, target: &Target, manners: Manners) -> Lived {
    let (clock, opened, most_at_once) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let (connections, slots) = (plan.connections, plan.connections * plan.protocol.streams());
    let below = slots_below(slots, connections, 1);
    let server = Simulated {
        clock: &clock,
        target: target.clone(),
        manners,
        rng: Rng::new(target.seed),
        coming: BinaryHeap::new(),
        frames: Vec::new(),
        peers: (0..below).map(|_| None).collect(),
        generations: vec![0; below],
        opened: &opened,
        most_at_once: &most_at_once,
    };
    let wire = Multiplexed::new(Box::new(server), slots, connections, 1, false);
    let tickets = Tickets::new(plan.stop.requests);
    let expectation = Expectation { status: SUCCESS, length: ExpectLength::First };
    let recorder = Recorder::new(vec![expectation], matches!(plan.pace, Pace::Open { .. }), UNIX_EPOCH);
    let share = Share { thread: 0, threads: 1, connections };
    let outcome = Driver::new(plan, &tickets, share, Virtual(&clock), wire, recorder).run();
    Lived { outcome, opened: opened.get(), most_at_once: most_at_once.get() }
}

fn plan(connections: usize, streams: usize, pace: Pace, stop: Stop) -> Plan {
    let request = translate(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "http");
    Plan {
        pace,
        connections,
        protocol: Protocol::Http2 { streams },
        keep_alive: true,
        stop,
        drain: Duration::from_secs(5),
        connect_pause: ms(10),
        ..Plan::one(vec!["127.0.0.1:1".parse().unwrap()], request)
    }
}

fn closed(connections: usize, streams: usize, requests: u64) -> Plan {
    plan(connections, streams, Pace::Closed(Think::Never), Stop { requests: Some(requests), duration: None })
}

fn open(rate: f64, connections: usize, streams: usize, seconds: u64) -> Plan {
    let stages = vec![Stage { from: rate, to: rate, length: None }];
    let stop = Stop { requests: None, duration: Some(Duration::from_secs(seconds)) };
    plan(connections, streams, Pace::Open { stages, arrivals: Arrivals::Constant }, stop)
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn five_ms() -> Target {
    Target { delay: ms(5), seed: 1, ..Target::default() }
}

#[test]
fn every_request_is_made_once_whatever_the_server_refuses() {
    let polite = Manners::default();
    for manners in [
        polite,
        Manners { streams_each: Some(120), ..polite },
        Manners { refuses_each: Some(3), ..polite },
        Manners { at_once: Some(3), ..polite },
        Manners { streams_each: Some(150), refuses_each: Some(11), at_once: Some(20) },
    ] {
        for (connections, streams) in [(1, 1), (1, 100), (10, 10), (100, 1)] {
            let lived = run(&closed(connections, streams, 5000), &five_ms(), manners);
            let recorder = &lived.outcome.observer;
            let done = (recorder.latencies.count(), recorder.errors.total(), recorder.wrong_length);
            assert_eq!(done, (5000, 0, 0), "{connections} x {streams}: {:?}", recorder.failures);
            assert!(matches!(lived.outcome.ended, Ended::Requests));
            assert_eq!((lived.outcome.unserved, lived.outcome.unfinished.len()), (0, 0));
            // Only what was begun before the server's SETTINGS came can be above its limit.
            let limit = if manners.at_once.is_some() { 100 } else { streams as u32 };
            assert!(lived.most_at_once <= limit.max(streams as u32), "{}", lived.most_at_once);
            if manners.streams_each.is_none() {
                assert_eq!(u64::from(lived.opened), connections as u64);
            }
            assert_eq!(recorder.connects.count(), u64::from(lived.opened), "each connection is counted once");
        }
    }
}

#[test]
fn an_open_loop_measures_what_users_wait() {
    for (connections, streams) in [(1, 100), (10, 10), (100, 1)] {
        let lived = run(&open(1000.0, connections, streams, 20), &five_ms(), Manners::default());
        let latencies = &lived.outcome.observer.latencies;
        assert_eq!(latencies.count(), 20_000);
        for quantile in [0.01, 0.5, 0.99] {
            let got = latencies.histogram.value_at_quantile(quantile);
            assert!((4980..=5100).contains(&got), "{connections} x {streams}: {quantile} is {got} us");
        }
    }
    // A tenth of the requests wait for the end of a stall, however many streams they share.
    let stalling = Target { stall: Some((ms(1000), ms(10_000))), ..five_ms() };
    let lived = run(&open(1000.0, 20, 100, 100), &stalling, Manners::default());
    let got = lived.outcome.observer.latencies.histogram.value_at_quantile(0.95) as f64 / 1000.0;
    assert!((got - 505.0).abs() < 12.0, "{got} ms");
}

#[test]
fn wrong_answers_have_their_classes_and_no_run_hangs() {
    for (fault, name) in [(Fault::Short, "short-answer"), (Fault::Reset, "stream-reset"), (Fault::Silent, "timeout")] {
        let target = Target { faults: vec![(0.5, fault)], delay: ms(1), seed: 3, ..Target::default() };
        for connections in [1, 5] {
            let plan = Plan { timeout: Timeout::Exchange(ms(200)), ..closed(connections, 10, 400) };
            let recorder = run(&plan, &target, Manners::default()).outcome.observer;
            let failed = recorder.failures.get(name).copied().unwrap_or(0);
            assert!((150..250).contains(&failed), "{fault:?}: {:?}", recorder.failures);
            assert_eq!(failed + recorder.latencies.count(), 400, "{fault:?}: {:?}", recorder.failures);
        }
    }
    // One that refuses everything.
    let refusing = Manners { refuses_each: Some(1), ..Manners::default() };
    let recorder = run(&closed(1, 2, 10), &five_ms(), refusing).outcome.observer;
    assert_eq!(recorder.failures.get("refused"), Some(&10));
}

#[test]
fn warm_up_thinking_and_drain_are_as_without_streams() {
    let warm = Plan { warmup: Duration::from_secs(2), ..open(100.0, 5, 10, 3) };
    let recorder = run(&warm, &five_ms(), Manners::default()).outcome.observer;
    assert_eq!((recorder.latencies.count(), recorder.completed_in_warmup), (300, 200));
    let stop = Stop { requests: Some(1000), duration: None };
    let warm = Plan { warmup: Duration::from_secs(1), ..plan(2, 5, Pace::Closed(Think::Never), stop) };
    let recorder = run(&warm, &five_ms(), Manners::default()).outcome.observer;
    assert_eq!(recorder.latencies.count() + recorder.errors.total(), 1000);
    // 10 users, 5 ms for an answer and 45 ms to think: 20 a second each.
    let stop = Stop { requests: None, duration: Some(Duration::from_secs(10)) };
    let thinking = plan(2, 5, Pace::Closed(Think::Uniform(ms(45), ms(45))), stop);
    let count = run(&thinking, &five_ms(), Manners::default()).outcome.observer.latencies.count();
    assert!((1980..=2010).contains(&count), "{count}");
}
