//! A thousand searches each against servers whose capacity is known: how often the answer is right.
//!
//! Servers are simulated request by request, in a time of their own, so that a queue's memory, a bad second or a slow decline look to the
//! search as they would on a wire. Steps last ten seconds after a second of warm-up, as those of `manifold load --find-max` do
//! by default. `cargo test -p manifold-stats --test capacity -- --nocapture` prints the shares.

use manifold_stats::capacity::{Border, Finding, Measured, Next, Search, Wanted};
use manifold_stats::{Batch, Rng};

const SEARCHES: u64 = 1000;
const STEP_S: f64 = 10.0;
const WARM_UP_S: f64 = 1.0;
const BATCHES: usize = 20;
const PRECISION: f64 = 0.05;
/// What is searched for: `p99<50ms`.
const LIMIT_S: f64 = 0.05;

/// A server as a step meets it: the seconds a request needs that arrives at this time (in the step, in the search), after those before it.
trait Server {
    /// A step at this rate begins, so many seconds after the search did.
    fn step(&mut self, rate: f64, search_s: f64, rng: &mut Rng);
    /// The response time of the next request, which arrives at `at`.
    fn respond(&mut self, at: f64, rng: &mut Rng) -> f64;
    /// Mean seconds between arrivals are exponential, and not constant.
    fn poisson(&self) -> bool {
        false
    }
}

/// One search to its end, and how long it took.
fn search(server: &mut dyn Server, step_s: f64, seed: u64) -> (Finding, f64) {
    let wanted = Wanted { start: 20.0, lowest: 1.0, highest: 20_000.0, precision: PRECISION, allowed: vec![0.01] };
    let mut search = Search::new(wanted);
    let mut rng = Rng::new(seed);
    let mut now = 0.0;
    while let Next::Try { rate, requests } = search.next() {
        let length = step_s.max(requests as f64 / rate);
        search.tell(Measured::Batches(vec![step(server, rate, now, length, &mut rng)]));
        now += WARM_UP_S + length + 1.0;
        assert!(now < 3000.0, "seed {seed}: it takes too long: {:?}", search.finding());
    }
    (search.finding(), now)
}

fn step(server: &mut dyn Server, rate: f64, now: f64, length: f64, rng: &mut Rng) -> Vec<Batch> {
    server.step(rate, now, rng);
    let mut batches = vec![Batch::default(); BATCHES];
    let mut at = 0.0;
    while at < WARM_UP_S + length {
        let bad = server.respond(at, rng) >= LIMIT_S;
        if at >= WARM_UP_S {
            let batch = &mut batches[((at - WARM_UP_S) / length * BATCHES as f64) as usize];
            batch.all += 1;
            batch.bad += u64::from(bad);
        }
        at += if server.poisson() { exponential(rng) / rate } else { 1.0 / rate };
    }
    batches
}

fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.unit()).ln()
}

/// A queue before one server. Service times are exponential (M/M/1), or constant behind constant arrivals, which is a knee.
struct Queue {
    capacity: f64,
    exponential: bool,
    /// Standard deviation of the capacity from step to step, as a share; a pause of 30 ms comes so often in a second.
    noise: f64,
    pauses: f64,
    /// Share of the capacity lost in each 100 seconds.
    decline: f64,
    now_capacity: f64,
    free_at: f64,
    pause_at: f64,
}

impl Queue {
    fn new(capacity: f64) -> Queue {
        let (exponential, noise, pauses, decline) = (false, 0.0, 0.0, 0.0);
        Queue { capacity, exponential, noise, pauses, decline, now_capacity: capacity, free_at: 0.0, pause_at: 0.0 }
    }

    /// One that has exponential service times.
    fn mm1(capacity: f64) -> Queue {
        Queue { exponential: true, ..Queue::new(capacity) }
    }

    fn next_pause(&self, after: f64, rng: &mut Rng) -> f64 {
        if self.pauses > 0.0 { after + exponential(rng) / self.pauses } else { f64::INFINITY }
    }
}

impl Server for Queue {
    fn step(&mut self, _rate: f64, search_s: f64, rng: &mut Rng) {
        // The sum of twelve even numbers is normal enough.
        let normal = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
        self.now_capacity = self.capacity * (1.0 + self.noise * normal) * (1.0 - self.decline * search_s / 100.0);
        self.free_at = 0.0;
        self.pause_at = self.next_pause(0.0, rng);
    }

    fn respond(&mut self, at: f64, rng: &mut Rng) -> f64 {
        let mut begins = self.free_at.max(at);
        if begins >= self.pause_at {
            begins += 0.03;
            self.pause_at = self.next_pause(begins, rng);
        }
        let work = if self.exponential { exponential(rng) } else { 1.0 };
        self.free_at = begins + work / self.now_capacity;
        self.free_at - at
    }

    fn poisson(&self) -> bool {
        self.exponential
    }
}

/// Always the same answer time.
struct Constant(f64);

impl Server for Constant {
    fn step(&mut self, _rate: f64, _search_s: f64, _rng: &mut Rng) {}

    fn respond(&mut self, _at: f64, _rng: &mut Rng) -> f64 {
        self.0
    }
}

/// Slow between two rates, fast below and above, until the capacity.
struct Dip {
    from: f64,
    to: f64,
    slow: bool,
    queue: Queue,
}

impl Server for Dip {
    fn step(&mut self, rate: f64, search_s: f64, rng: &mut Rng) {
        self.slow = (self.from..self.to).contains(&rate);
        self.queue.step(rate, search_s, rng);
    }

    fn respond(&mut self, at: f64, rng: &mut Rng) -> f64 {
        self.queue.respond(at, rng) + if self.slow { LIMIT_S } else { 0.0 }
    }
}

/// How many of a thousand searches, each against a server of its own, `right` says are.
fn share<S: Server>(
    what: &str,
    make: &dyn Fn(f64) -> S,
    step_s: f64,
    right: impl Fn(&Finding, f64, f64) -> bool,
) -> u64 {
    let mut seconds = 0.0;
    let one = |seed: u64| {
        // Capacities lie anywhere on the grid, or the grid would be part of the luck.
        let capacity = 300.0 * (1.0 + Rng::new(seed).unit());
        let (finding, took) = search(&mut make(capacity), step_s, seed);
        seconds += took;
        right(&finding, capacity, took)
    };
    let found = (0..SEARCHES).map(one).filter(|right| *right).count() as u64;
    println!("{what}: {found} of {SEARCHES} right, {:.0} s a search", seconds / SEARCHES as f64);
    found
}

/// The answer is within the precision of the truth.
fn precise(found: &Finding, truth: f64) -> bool {
    found.complete && found.estimate.is_some_and(|rate| (rate / truth).ln().abs() <= PRECISION.ln_1p())
}

/// The truth is within the answer's interval. A step of ten seconds cannot see a queue that grows by less than 50 ms meanwhile, so that it
/// takes 0.5 % above a knee for one that holds.
fn covered(found: &Finding, truth: f64) -> bool {
    found.low.zip(found.high).is_some_and(|(low, high)| low <= truth * 1.005 && truth <= high)
}

/// The response time of M/M/1 is exponential with the rate `capacity - rate`, so that its 99th percentile is `ln 100` of its mean.
fn mm1_truth(capacity: f64) -> f64 {
    capacity - 100f64.ln() / LIMIT_S
}

#[test]
fn a_knee_is_found() {
    assert_eq!(
        share("knee", &Queue::new, STEP_S, |found, truth, _| precise(found, truth) && !found.unstable),
        SEARCHES
    );
    assert!(share("knee, interval", &Queue::new, STEP_S, |found, truth, _| covered(found, truth)) >= 990);
}

#[test]
fn a_queue_with_random_arrivals_and_work_is_found_the_better_the_longer_the_steps() {
    let near = |found: &Finding, capacity: f64, _| precise(found, mm1_truth(capacity));
    assert!(share("M/M/1", &Queue::mm1, STEP_S, near) >= 860);
    assert!(share("M/M/1, steps of 40 s", &Queue::mm1, 40.0, near) >= 970);
    assert!(
        share("M/M/1, interval", &Queue::mm1, STEP_S, |found, capacity, _| covered(found, mm1_truth(capacity))) >= 930
    );
}

#[test]
fn a_noisy_server_is_found() {
    let noisy = |capacity| Queue { noise: 0.02, pauses: 0.1, ..Queue::new(capacity) };
    assert!(share("noisy", &noisy, STEP_S, |found, truth, _| precise(found, truth)) >= 950);
}

#[test]
fn a_server_that_declines_is_found_as_it_is_in_the_end_or_said_to_be_unstable() {
    let declining = |capacity| Queue { decline: 0.05, ..Queue::new(capacity) };
    let right = |found: &Finding, capacity: f64, took: f64| {
        found.unstable || !found.complete || precise(found, capacity * (1.0 - 0.05 * took / 100.0))
    };
    assert!(share("declining", &declining, STEP_S, right) >= 900);
}

#[test]
fn what_has_no_maximum_gets_none() {
    let never = |found: &Finding, _, _| found.low.is_none() && found.border == Border::Failing && found.complete;
    assert_eq!(share("never holds", &|_| Constant(2.0 * LIMIT_S), STEP_S, never), SEARCHES);
    let always = |found: &Finding, _, _| found.low.is_some_and(|low| low > 19_000.0) && found.border == Border::None;
    let (found, _) = search(&mut Constant(0.5 * LIMIT_S), STEP_S, 1);
    assert!(always(&found, 0.0, 0.0), "{found:?}");
}

#[test]
fn of_several_borders_one_is_found() {
    let dip = |capacity| Dip { from: 0.5 * capacity, to: 0.7 * capacity, slow: false, queue: Queue::new(capacity) };
    let right = |found: &Finding, capacity: f64, _| precise(found, capacity) || precise(found, 0.5 * capacity);
    assert!(share("dip", &dip, STEP_S, right) >= 990);
}
