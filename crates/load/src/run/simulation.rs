//! Runs lived through on a clock of their own, against a simulated target whose response times follow from its plan.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use manifold_stats::Rng;
use nix::errno::Errno;

use super::{Driver, LEAD_IN, Share};
use crate::latencies::Latencies;
use crate::native::args::ExpectLength;
use crate::native::record::{Expectation, Recorder, SUCCESS};
use crate::outcome::{Ended, Outcome, Time, nanoseconds};
use crate::plan::{Address, Order, Plan, Request, Stop, Tickets, Timeout};
use crate::responder::plan::{Fault, Plan as Target};
use crate::schedule::{Arrival, Arrivals, Pace, Stage, Think};
use crate::tls::Client;
use crate::wire::{Connected, Happening, Origin, Sent, Wire};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const WRONG: &[u8] = b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n";
/// What a look at the sockets costs, and with it each turn of a loop that does not sleep.
const LOOK_NS: u64 = 500;

#[derive(Clone, Copy)]
struct Virtual<'c>(&'c Cell<u64>);

impl Time for Virtual<'_> {
    fn now(&self) -> u64 {
        self.0.get()
    }
}

/// An answer on its way: when it arrives, whose it is, which connection of that slot, and the place of its fault in the plan.
type Coming = (u64, usize, u32, Option<u8>);

/// A target and the network to it, which takes no time.
struct Simulated<'c> {
    clock: &'c Cell<u64>,
    target: Target,
    rng: Rng,
    /// When the target's work on all requests will be done.
    free_at: u64,
    /// Answers on their way, the first to arrive on top.
    coming: BinaryHeap<Reverse<Coming>>,
    /// How many connections each slot has had.
    connections: Vec<u32>,
    /// The peer has closed.
    ending: Option<usize>,
}

impl<'p> Wire<'p> for Simulated<'_> {
    fn connect(
        &mut self,
        slot: usize,
        _to: &Address,
        _origin: Origin,
        _tls: Option<&'p Client>,
    ) -> Result<Connected, Errno> {
        self.connections[slot] += 1;
        Ok(Connected::Anew)
    }

    fn send(&mut self, slot: usize, _bytes: &'p [u8]) -> Sent {
        let (due, fault) = self.target.next(self.clock.get(), &mut self.free_at, &mut self.rng);
        let place = fault.map(|fault| self.target.faults.iter().position(|(_, of)| *of == fault).unwrap() as u8);
        self.coming.push(Reverse((due, slot, self.connections[slot], place)));
        Sent::All
    }

    fn send_copy(&mut self, _slot: usize, _bytes: &[u8]) -> Sent {
        unreachable!("only TLS sends what is not the plan's")
    }

    fn await_end(&mut self, slot: usize) {
        self.ending = Some(slot);
    }

    fn close(&mut self, slot: usize) {
        // Nothing that is on its way to this connection will be heard.
        self.connections[slot] += 1;
    }

    fn wait(&mut self, timeout: Duration) -> std::io::Result<bool> {
        let now = self.clock.get() + LOOK_NS;
        let until = now + nanoseconds(timeout);
        let first = self.coming.peek().map(|Reverse(coming)| coming.0).filter(|due| *due <= until);
        self.clock.set(first.map_or(until, |due| due.max(now)));
        Ok(first.is_some())
    }

    fn next(&mut self) -> Option<Happening<'_>> {
        if let Some(slot) = self.ending.take() {
            return Some(Happening::Ended { slot });
        }
        loop {
            let Reverse((due, slot, connection, place)) = self.coming.peek().copied()?;
            if due > self.clock.get() {
                return None;
            }
            self.coming.pop();
            if connection != self.connections[slot] {
                continue;
            }
            return Some(match place.map(|place| self.target.faults[usize::from(place)].1) {
                None => Happening::Received { slot, bytes: ANSWER, ended: false, waited: 0 },
                Some(Fault::Status(_)) => Happening::Received { slot, bytes: WRONG, ended: false, waited: 0 },
                Some(Fault::Reset) => Happening::Broken { slot, error: Errno::ECONNRESET },
                Some(Fault::Close) => Happening::Ended { slot },
                Some(Fault::Short) => {
                    Happening::Received { slot, bytes: &ANSWER[..ANSWER.len() - 2], ended: true, waited: 0 }
                }
                Some(Fault::Silent) => continue,
                Some(Fault::Length | Fault::Content) => unreachable!("not simulated"),
            });
        }
    }
}

fn run(plan: &Plan, target: &Target) -> Outcome<Recorder> {
    run_expecting(plan, target, vec![Expectation { status: SUCCESS, length: ExpectLength::First }])
}

fn run_expecting(plan: &Plan, target: &Target, expectations: Vec<Expectation>) -> Outcome<Recorder> {
    let clock = Cell::new(0);
    let wire = Simulated {
        clock: &clock,
        target: target.clone(),
        rng: Rng::new(target.seed),
        free_at: 0,
        coming: BinaryHeap::new(),
        connections: vec![0; plan.connections],
        ending: None,
    };
    let tickets = Tickets::new(plan.stop.requests);
    let recorder = Recorder::new(expectations, plan.pace.is_open(), UNIX_EPOCH);
    let share = Share { thread: 0, threads: 1, connections: plan.connections };
    Driver::new(plan, &tickets, share, Virtual(&clock), wire, recorder).run()
}

fn open(rate: f64, arrivals: Arrivals, connections: usize, seconds: u64) -> Plan {
    Plan {
        pace: Pace::Open { stages: vec![Stage { from: rate, to: rate, length: None }], arrivals },
        connections,
        keep_alive: true,
        stop: Stop { requests: None, duration: Some(Duration::from_secs(seconds)) },
        drain: Duration::from_secs(5),
        ..Plan::one(vec!["127.0.0.1:1".parse().unwrap()], b"GET".to_vec())
    }
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn near(what: &str, latencies: &Latencies, quantile: f64, truth_ms: f64) {
    let got = latencies.histogram.value_at_quantile(quantile) as f64 / 1000.0;
    assert!((got - truth_ms).abs() <= (truth_ms * 0.02).max(0.02), "{what}: {quantile} is {got}, truly {truth_ms} ms");
}

/// Known plans are measured with every percentile within 2 % or 20 microseconds of the truth.
#[test]
fn an_open_loop_measures_what_users_wait() {
    let fixed = Target { delay: ms(5), seed: 1, ..Target::default() };
    let bimodal = Target { slow: Some((0.1, ms(50))), ..fixed.clone() };
    let stalling = Target { stall: Some((ms(1000), ms(10_000))), ..fixed.clone() };
    let truth_fixed: &dyn Fn(f64) -> f64 = &|_| 5.0;
    let truth_bimodal: &dyn Fn(f64) -> f64 = &|q| if q < 0.9 { 5.0 } else { 50.0 };
    // A tenth of the requests wait evenly for the end of the stall.
    let truth_stalling: &dyn Fn(f64) -> f64 = &|q| if q < 0.9 { 5.0 } else { 5.0 + 10_000.0 * (q - 0.9) };
    for (what, target, truth) in
        [("fixed", fixed, truth_fixed), ("bimodal", bimodal, truth_bimodal), ("stalling", stalling, truth_stalling)]
    {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            // Connections for all that wait at once, and then fewer: what waits in the schedule is measured as well.
            for connections in [2000, 300] {
                let outcome = run(&open(1000.0, arrivals, connections, 200), &target);
                let recorder = &outcome.observer;
                let what = format!("{what}, {arrivals:?}, {connections} connections");
                for quantile in [0.01, 0.1, 0.25, 0.5, 0.75, 0.85, 0.95, 0.99, 0.999] {
                    near(&what, &recorder.latencies, quantile, truth(quantile));
                }
                assert!(matches!(outcome.ended, Ended::Duration | Ended::Requests), "{what}: {:?}", outcome.ended);
                assert_eq!((outcome.unfinished.len(), outcome.unsent.count), (0, 0), "{what}");
                assert!(outcome.health.lag.max < 2000, "{what}: late by {} ns", outcome.health.lag.max);
                if arrivals == Arrivals::Constant {
                    assert_eq!(recorder.latencies.count(), 200_000, "{what}");
                }
            }
        }
    }
}

/// The same stall in a closed loop: one bad figure for each connection. It is what the open loop is for.
#[test]
fn a_closed_loop_does_not_see_a_stall() {
    let target = Target { delay: ms(5), stall: Some((ms(1000), ms(10_000))), seed: 1, ..Target::default() };
    let plan = Plan { pace: Pace::Closed(Think::Never), ..open(1.0, Arrivals::Constant, 10, 100) };
    let latencies = run(&plan, &target).observer.latencies;
    near("closed", &latencies, 0.99, 5.0);
    near("closed", &latencies, 1.0, 1005.0);
}

#[test]
fn a_server_that_cannot_keep_up_shows_in_the_response_time_and_not_in_the_service_time() {
    // 4 connections with 5 ms each: 800 of 1,000 requests a second. After a second the newest waits for 200 ms.
    let target = Target { delay: ms(5), seed: 1, ..Target::default() };
    let outcome = run(&open(1000.0, Arrivals::Constant, 4, 10), &target);
    let recorder = &outcome.observer;
    near("response", &recorder.latencies, 0.5, 1255.0);
    near("response", &recorder.latencies, 1.0, 2505.0);
    near("service", &recorder.service, 0.999, 5.0);
    assert_eq!((recorder.latencies.count(), outcome.unsent.count), (10_000, 0), "it drained");
    assert!((1990..2010).contains(&recorder.completed_late), "{}", recorder.completed_late);
    assert!(outcome.health.short_of_connections > 9000, "{}", outcome.health.short_of_connections);
    assert!(outcome.health.lag.max < 2000, "the generator was not late itself");
    // Without time to drain, what was never sent is counted.
    let outcome = run(&Plan { drain: Duration::ZERO, ..open(1000.0, Arrivals::Constant, 4, 10) }, &target);
    let (sent, unsent) = (outcome.observer.latencies.count() + outcome.unfinished.len() as u64, outcome.unsent);
    assert_eq!(sent + unsent.count, 10_000);
    assert!((1_990_000_000..2_010_000_000).contains(&unsent.oldest), "{}", unsent.oldest);
}

#[test]
fn warm_up_and_end_cut_by_when_requests_were_due() {
    let plan = Plan { warmup: Duration::from_secs(2), ..open(100.0, Arrivals::Constant, 50, 3) };
    let recorder = run(&plan, &Target { delay: ms(20), seed: 1, ..Target::default() }).observer;
    assert_eq!((recorder.latencies.count(), recorder.completed_in_warmup), (300, 200));
    assert_eq!(recorder.completed_late, 1, "the one due 10 ms before the end");
    let plan = Plan { stop: Stop { requests: Some(42), duration: None }, ..plan };
    let outcome = run(&plan, &Target { delay: ms(20), seed: 1, ..Target::default() });
    assert!(matches!(outcome.ended, Ended::Requests));
    assert_eq!(outcome.observer.latencies.count(), 42);
}

#[test]
fn users_who_think_ask_less() {
    // 10 connections, 5 ms for an answer and 45 ms to think: 20 a second each.
    let target = Target { delay: ms(5), seed: 1, ..Target::default() };
    let think = Think::Uniform(ms(45), ms(45));
    let plan = Plan { pace: Pace::Closed(think), drain: Duration::ZERO, ..open(1.0, Arrivals::Constant, 10, 10) };
    let count = run(&plan, &target).observer.latencies.count();
    assert!((1980..=2000).contains(&count), "{count}");
    // They come one after the other: half of the requests are missing in a ramp over the whole time.
    let plan = Plan { ramp_up: Duration::from_secs(10), ..plan };
    let count = run(&plan, &target).observer.latencies.count();
    assert!((1080..=1100).contains(&count), "{count}");
}

#[test]
fn every_wrong_answer_has_its_class_and_no_run_hangs() {
    let check = |fault: Fault, name: &str| {
        for closed in [false, true] {
            let target = Target { faults: vec![(0.5, fault)], delay: ms(1), seed: 3, ..Target::default() };
            let pace = Pace::Closed(Think::Never);
            let mut plan = Plan { timeout: Timeout::Exchange(ms(200)), ..open(100.0, Arrivals::Constant, 20, 4) };
            if closed {
                plan = Plan { pace, stop: Stop { requests: Some(400), duration: None }, ..plan };
            }
            let outcome = run(&plan, &target);
            let recorder = &outcome.observer;
            let failed = recorder.failures.get(name).copied().unwrap_or(0) + recorder.wrong_status;
            assert!((150..250).contains(&failed), "{fault:?}, closed {closed}: {:?}", recorder.failures);
            assert_eq!(recorder.errors.total() + recorder.latencies.count(), 400, "{fault:?}, closed {closed}");
        }
    };
    check(Fault::Status(503), "");
    check(Fault::Reset, "reset");
    check(Fault::Short, "short-answer");
    check(Fault::Silent, "timeout");
    // On a connection that was kept, the server may have closed it before the request came.
    let target = Target { faults: vec![(1.0, Fault::Close)], delay: ms(1), ..Target::default() };
    let recorder = run(&open(100.0, Arrivals::Constant, 20, 1), &target).observer;
    assert_eq!(recorder.failures.get("no-answer"), Some(&100));
}

#[test]
fn a_silent_target_is_given_up_at_the_end() {
    let target = Target { faults: vec![(1.0, Fault::Silent)], ..Target::default() };
    let outcome = run(&open(10.0, Arrivals::Constant, 5, 3), &target);
    assert!(matches!(outcome.ended, Ended::Duration));
    // 5 hold all connections, and 25 were never sent.
    assert_eq!((outcome.unfinished.len(), outcome.unsent.count), (5, 25));
    assert!(outcome.ended_at < 8_100_000_000, "3 s and 5 s to drain: {}", outcome.ended_at);
}

#[test]
fn a_list_is_followed_to_the_moment_and_to_the_request() {
    let request = |head_request| Request { head_request, ..Plan::one(Vec::new(), b"GET".to_vec()).requests.remove(0) };
    let ms = 1_000_000;
    let list: Arc<[Arrival]> =
        [(0, 1), (3, 0), (3, 1), (500, 1)].map(|(at, request)| Arrival { at: at * ms, request }).into();
    let plan = Plan {
        pace: Pace::Listed(list.clone()),
        requests: vec![request(false), request(true)],
        stop: Stop { requests: None, duration: None },
        ..open(1.0, Arrivals::Constant, 10, 1)
    };
    let expectation = Expectation { status: SUCCESS, length: ExpectLength::Any };
    let target = Target { delay: Duration::from_millis(1), ..Target::default() };
    let outcome = run_expecting(&plan, &target, vec![expectation; 2]);
    let recorder = &outcome.observer;
    assert_eq!((recorder.latencies.count(), outcome.health.lag.count(), outcome.unsent.count), (4, 4, 0));
    assert!(recorder.latencies.max < 2 * ms, "{}", recorder.latencies.max);
    // The answers to HEAD have no body; what comes of one makes the connection useless.
    assert_eq!(recorder.bytes.body, 5);
    assert!((500 * ms..510 * ms).contains(&(outcome.ended_at - nanoseconds(LEAD_IN))), "{}", outcome.ended_at);
    // In a closed loop the list is gone through once, by all connections together.
    let closed = Plan { pace: Pace::Closed(Think::Never), order: Order::Listed(list), ..plan };
    let closed = Plan { stop: Stop { requests: Some(4), duration: None }, ..closed };
    let outcome = run_expecting(&closed, &target, vec![expectation; 2]);
    assert_eq!((outcome.observer.latencies.count(), outcome.observer.bytes.body), (4, 5));
}
