//! The parent, its spare managers and its generations, run through thousands of days of a simulated world (`world`): loads
//! that come and go, crashes, children that lack something or hang, forks that fail, reloads of any model to any other
//! with configurations good and bad. Quiet time is skipped. What must always hold is looked at after every step.
//!
//! A failure prints the seed of its day; `MANIFOLD_DAY=seed cargo test -p manifold-mpm one_day` runs that day alone.

mod history;
mod invariants;
mod system;
mod world;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use super::*;
use crate::generation::ListenAddress;
use crate::generation::ListenPlan;
use crate::limits::{Limits, Model, Occasion, RawLimits, SpawnPolicy, Written, resolve};
use history::{Ask, Chance, Configuration, Event, Nature, Tally};
use world::World;

/// Days of the test.
const DAYS: u64 = 10_000;
/// Broken days after which a thread gives up.
const BROKEN_MAX: u64 = 20;
/// Days are spread over so many threads.
const THREADS: u64 = 2;
/// Steps of a day, at most: a parent that never comes to rest is a failure.
const STEPS_MAX: u32 = 20_000;
/// Nothing happens for so long: hysteresis, hold-offs and patience are over.
const LONG: Duration = Duration::from_secs(61);

/// One day.
struct Day {
    parent: Parent<World>,
    /// Since when each set of the generation that serves has had no child.
    gaps: Vec<(u64, Option<Duration>)>,
    /// Since when clients of each set wait for a child that may be made, and forks until then.
    hungry: Vec<(u64, Option<Duration>)>,
    steps: u32,
    /// Steps in a row in which the parent did nothing.
    idle_steps: u32,
    may_fail: bool,
    /// The generation that serves, and reloads that were taken.
    serves: u64,
    taken: u64,
    /// Whether what came up before the last step was the same configuration anew.
    recasts: bool,
}

impl Day {
    fn new(seed: u64, tells: bool) -> Day {
        let address = "127.0.0.1:0".parse().unwrap();
        let listen = ListenPlan { addresses: vec![ListenAddress::At(address)], ..ListenPlan::new() };
        let mut chance = Chance(seed);
        let sets = chance.pick(1..4) as u32;
        let mut world = World::new(chance.pick(0..u64::MAX), listen);
        world.tells = tells;
        let limits = limits(&mut world.chance, sets);
        let nature = match world.chance.pick(0..200) {
            0 => Nature::Ends(7),
            1 => Nature::Ends(15),
            2 => Nature::Slow,
            _ => Nature::Good,
        };
        let plan = world.plan(limits, nature);
        let listeners = Listeners::bind(&plan.listen, sets as usize, Vec::new()).unwrap();
        let ledger = Ledger::new(Duration::ZERO).unwrap();
        let generation = server::generation(1, plan, &listeners, &ledger, Vec::new()).unwrap();
        world.configure = Box::new(|chance| {
            let sets = chance.pick(1..4) as u32;
            configuration(chance, sets)
        });
        let parent = Parent::new(listeners, ledger, generation, world);
        Day {
            parent,
            gaps: Vec::new(),
            hungry: Vec::new(),
            steps: 0,
            idle_steps: 0,
            may_fail: nature != Nature::Good,
            serves: 1,
            taken: 0,
            recasts: false,
        }
    }

    /// From start to end; gives what became of the clients.
    fn run(mut self) -> Summary {
        self.parent.start();
        for _ in 0..self.world().chance.pick(1..4) {
            let until = self.episode();
            if let Some(ended) = self.live_until(until) {
                return self.has_ended(ended);
            }
        }
        if let Some(ended) = self.come_to_rest() {
            return self.has_ended(ended);
        }
        self.check_rest();
        self.end()
    }

    fn world(&mut self) -> &mut World {
        &mut self.parent.system
    }

    /// Half a minute in which things happen, some time of the day; gives its end.
    fn episode(&mut self) -> Duration {
        let world = self.world();
        let begin = world.now + world.chance.millis(1_000..20_000_000);
        let long = world.chance.millis(5_000..40_000);
        let every_us = world.chance.pick(30_000..600_000);
        let (stay_ms, stuck) = (world.chance.pick(5..3_000), [0, 0, 20, 200][world.chance.pick(0..4) as usize]);
        world.at(begin, Event::Load { every_us, stay_ms, stuck });
        world.at(begin + long, Event::Load { every_us: 0, stay_ms, stuck });
        let within = |chance: &mut Chance| begin + chance.millis(0..long.as_millis() as u64);
        if world.chance.happens(400) {
            for _ in 0..world.chance.pick(1..7) {
                let at = within(&mut world.chance);
                let signal = [11, 9, 6][world.chance.pick(0..3) as usize];
                world.at(at, Event::Strike(signal));
            }
        }
        if world.chance.happens(200) {
            let at = within(&mut world.chance);
            for _ in 0..world.chance.pick(2..20) {
                world.at(at, Event::Strike(11));
            }
        }
        if world.chance.happens(200) {
            let at = within(&mut world.chance);
            world.at(at, Event::ForksFail(true));
            let later = at + world.chance.millis(100..20_000);
            world.at(later, Event::ForksFail(false));
        }
        if world.chance.happens(600) {
            for _ in 0..world.chance.pick(1..5) {
                let at = within(&mut world.chance);
                let ask = if world.chance.happens(200) { Ask::Restart } else { Ask::Graceful };
                world.at(at, Event::Ask(ask));
            }
        }
        if world.chance.happens(20) {
            let at = within(&mut world.chance);
            world.at(at, Event::Ask(Ask::Upgrade));
        }
        begin + long + Duration::from_secs(20)
    }

    fn live_until(&mut self, until: Duration) -> Option<Ended> {
        while self.parent.system.now < until {
            if let Some(ended) = self.step(until) {
                return Some(ended);
            }
        }
        None
    }

    /// Everybody leaves, old generations end, spares go back to what they should be.
    fn come_to_rest(&mut self) -> Option<Ended> {
        let mut rounds_left = 3;
        while rounds_left > 0 {
            let until = self.world().next_event().unwrap_or_else(|| {
                rounds_left -= 1;
                self.parent.system.now + LONG
            });
            if let Some(ended) = self.live_until(until) {
                return Some(ended);
            }
            self.idle_steps = 0;
            while self.idle_steps < 3 {
                let look = self.world().now + TICK;
                if let Some(ended) = self.step(look) {
                    return Some(ended);
                }
            }
        }
        None
    }

    /// One step of the parent, at the next moment at which something happens or it wants to look, or later where nothing does.
    fn step(&mut self, until: Duration) -> Option<Ended> {
        self.steps += 1;
        assert!(self.steps < STEPS_MAX, "the parent does not come to rest");
        let wanted = self.parent.next_look();
        let world = &mut self.parent.system;
        let wanted = world.moment(wanted);
        assert!(wanted <= world.now + TICK, "the parent sleeps for more than a tick");
        let serving = matches!(self.parent.phase, Phase::Serving);
        let no_deadline = self.parent.current.generation.limits.graceful_shutdown_timeout.is_none();
        let patient = self.parent.draining.iter().all(|draining| draining.hurry.is_none() && no_deadline);
        let comes = self.parent.incoming.is_some() || self.parent.succession.is_some() || !self.parent.in_force;
        let hungry = self.hungry.iter().any(|(_, since)| since.is_some());
        let quiet = self.idle_steps >= 3 && serving && patient && !hungry && !comes;
        let next = world.next_event().unwrap_or(until).min(until);
        let to = match (quiet, comes || !serving) {
            (true, _) => next.max(wanted),
            // The parent looks every 10 ms, and sees nothing before the next event.
            (_, true) => next.max(wanted).min(world.moment(self.parent.tick)),
            _ => wanted,
        };
        let acts = world.acts;
        world.pass(to);
        self.recasts = self.parent.incoming.as_ref().is_some_and(|incoming| incoming.is_recast);
        let ended = self.parent.step();
        self.idle_steps = if self.parent.system.acts == acts { self.idle_steps + 1 } else { 0 };
        if ended.is_none() {
            self.close_sockets();
            self.check();
        }
        ended
    }
}

/// What the kernel does.
impl Day {
    /// Sockets that the parent no longer has are gone with the clients that wait in them: nobody may.
    fn close_sockets(&mut self) {
        if !matches!(self.parent.phase, Phase::Serving) || self.parent.incoming.is_some() {
            return;
        }
        let left = self.parent.listeners.sockets().count();
        self.parent.system.listen_on(left);
        let world = &mut self.parent.system;
        let closed = world.sockets.split_off(left.min(world.sockets.len()));
        assert!(closed.iter().all(VecDeque::is_empty), "connections are reset: {closed:?}");
    }
}

/// How days end.
impl Day {
    /// The server is told to stop, by and by or at once, and does.
    fn end(mut self) -> Summary {
        let ask = if self.world().chance.happens(500) { Ask::Stop } else { Ask::GracefulStop };
        self.world().after(Duration::ZERO, Event::Ask(ask));
        // Without a deadline a graceful stop waits for ever for a child that does not hear.
        let again = Duration::from_secs(60);
        self.world().after(again, Event::Ask(Ask::Stop));
        let until = self.world().now + again + Duration::from_secs(12);
        while self.world().now < until {
            let look = self.world().now + TICK;
            if let Some(ended) = self.step(look) {
                let expected = if ask == Ask::Stop { Ended::AtOnce } else { Ended::Gracefully };
                assert!(ended == expected || ended == Ended::AtOnce, "{ask:?} ended {ended:?}");
                return self.has_ended(ended);
            }
        }
        panic!("{ask:?} does not end the server");
    }

    fn has_ended(mut self, ended: Ended) -> Summary {
        let world = self.world();
        assert!(world.children.is_empty(), "{} children outlive the server", world.children.len());
        let waiting: usize = world.sockets.iter().map(VecDeque::len).sum();
        world.tally.closed += waiting as u64;
        assert_eq!(world.tally.came, world.tally.accounted(), "{:?}", world.tally);
        let was_fatal = world.fatal;
        assert!(ended != Ended::Failed || self.may_fail || was_fatal, "the server gave up");
        let world = &self.parent.system;
        Summary {
            days: 1,
            broken: 0,
            failed: u64::from(ended == Ended::Failed),
            steps: u64::from(self.steps),
            forks: world.forks,
            faults: world.faults,
            reloads: world.reloads,
            in_force: world.in_force,
            tally: world.tally,
        }
    }
}

/// What a day, or many, came to.
#[derive(Clone, Copy, Debug, Default)]
struct Summary {
    days: u64,
    /// On which something did not hold.
    broken: u64,
    /// On which the server gave up, with reason.
    failed: u64,
    steps: u64,
    forks: u64,
    faults: u64,
    reloads: u64,
    in_force: u64,
    tally: Tally,
}

impl Summary {
    fn add(&mut self, other: Summary) {
        self.days += other.days;
        self.broken += other.broken;
        self.failed += other.failed;
        self.steps += other.steps;
        self.forks += other.forks;
        self.faults += other.faults;
        self.reloads += other.reloads;
        self.in_force += other.in_force;
        self.tally.add(other.tally);
    }
}

/// Some limits of any model, by Apache's rules from some numbers, with `sets` sets of listening sockets.
fn limits(chance: &mut Chance, sets: u32) -> Limits {
    let model = Model::ALL[chance.pick(0..4) as usize];
    let mut some = |range: std::ops::Range<u64>, directive| {
        let value = chance.pick(range) as i64;
        Some(Written { value, span: None, directive })
    };
    let raw = RawLimits {
        start_servers: some(1..6, "StartServers"),
        min_spare: some(1..8, "MinSpare"),
        max_spare: some(1..14, "MaxSpare"),
        server_limit: some(u64::from(sets)..16, "ServerLimit"),
        threads_per_child: some(1..5, "ThreadsPerChild").filter(|_| model.is_threaded()),
        max_request_workers: some(1..30, "MaxRequestWorkers"),
        max_connections_per_child: some(0..60, "MaxConnectionsPerChild").filter(|enough| enough.value > 30),
        graceful_shutdown_timeout: some(0..40, "").map(|seconds| Duration::from_secs(seconds.value as u64 / 2)),
        listen_cores_buckets_ratio: some(1..2, "ListenCoresBucketsRatio"),
        spawn_policy: some(0..2, "").map(|which| match which.value {
            0 => SpawnPolicy::Compatible,
            _ => SpawnPolicy::Predictive,
        }),
        ..RawLimits::default()
    };
    resolve(model, &raw, sets, Occasion::Start).0
}

fn configuration(chance: &mut Chance, sets: u32) -> Configuration {
    if chance.happens(150) {
        return Configuration::Broken;
    }
    let nature = if chance.happens(800) { Nature::Good } else { some_nature(chance) };
    Configuration::Valid(Box::new(limits(chance, sets)), nature)
}

fn some_nature(chance: &mut Chance) -> Nature {
    match chance.pick(0..6) {
        0 => Nature::Ends(7),
        1 => Nature::Ends(15),
        2 => Nature::Ends(101),
        3 => Nature::Hangs,
        _ => Nature::Slow,
    }
}

/// Some days, to their ends; those that fail print their seeds.
fn live(seeds: impl Iterator<Item = u64>, tells: bool) -> Summary {
    let mut sum = Summary::default();
    for seed in seeds {
        match catch_unwind(AssertUnwindSafe(|| Day::new(seed, tells).run())) {
            Ok(day) => sum.add(day),
            Err(_) => {
                println!("MANIFOLD_DAY={seed} cargo test -p manifold-mpm one_day");
                sum.broken += 1;
            }
        }
        if sum.broken >= BROKEN_MAX {
            break;
        }
    }
    sum
}

#[test]
fn ten_thousand_days() {
    let mut sum = Summary::default();
    thread::scope(|scope| {
        let days = |first| move || live((first..DAYS).step_by(THREADS as usize), false);
        let spawn = |first| thread::Builder::new().spawn_scoped(scope, days(first)).unwrap();
        let threads: Vec<_> = (0..THREADS).map(spawn).collect();
        threads.into_iter().for_each(|thread| sum.add(thread.join().unwrap()));
    });
    println!("{sum:#?}");
    assert_eq!((sum.days, sum.broken), (DAYS, 0));
}

#[test]
fn one_day() {
    let seed = std::env::var("MANIFOLD_DAY").map_or(1, |seed| seed.parse().unwrap());
    let day = live([seed].into_iter(), true);
    println!("{day:#?}");
    assert_eq!(day.broken, 0);
}
