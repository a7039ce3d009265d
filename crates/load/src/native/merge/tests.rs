//! Whatever a recorded set is cut into, merging the parts gives what the whole gives.

use std::collections::BTreeMap;
use std::time::Duration;

use manifold_stats::Rng;
use rustls::{CipherSuite, ProtocolVersion};
use serde_json::Value;

use super::*;
use crate::grid::{Grid, INTERVAL, INTERVALS_MAX};
use crate::native::record::ThreadUse;
use crate::outcome::Unsent;
use crate::parts::Parts;
use crate::report::{Bytes, Errors};
use crate::tls::Secured;

/// Kinds of requests.
const KINDS: usize = 3;

/// One thread's share of a run with everything in it that can be, by chance.
fn thread(rng: &mut Rng) -> Tally {
    let started_unix_us = 1_795_253_400_000_000 + rng.below(3_000_000) as u64;
    let mut tally = Tally {
        started_unix_us,
        window: Duration::from_nanos(5_000_000_000 + rng.below(1_000_000_000) as u64),
        series: Grid::new(INTERVAL, INTERVALS_MAX, started_unix_us * 1000),
        ..Tally::default()
    };
    for _ in 0..rng.below(3000) {
        // From a microsecond to a minute, and a few beyond what a histogram holds.
        let latency = (rng.unit() * 25.0).exp() as u64;
        tally.latencies.record(latency);
        tally.service.record(latency / 2);
        tally.first_bytes.record(latency / 3);
        tally.lag.record(rng.below(3_000_000) as u64);
        tally.turns.record(rng.below(50_000) as u64);
        let interval = tally.series.at(started_unix_us * 1000 + rng.next_u64() % 9_000_000_000);
        interval.completed += 1;
        interval.longest = interval.longest.max(latency / 1000);
        *tally.statuses.entry([200, 204, 301, 404, 503, 999][rng.below(6)]).or_default() += 1;
    }
    let mut some = || rng.below(4) as u64;
    for _ in 0..some() {
        tally.handshakes.count(&Secured {
            version: ProtocolVersion::TLSv1_3,
            suite: CipherSuite::TLS13_AES_128_GCM_SHA256,
            group: None,
            key_bits: None,
            resumed: some() > 1,
            http2: false,
            nanoseconds: 1_000_000 * some(),
        });
        tally.handshakes.count_failure("no");
    }
    tally.errors = Errors { connect: some(), receive: some(), timeout: some(), ..Errors::default() };
    tally.failures = BTreeMap::from([("reset".to_owned(), some()), ("no-local-port".to_owned(), 1)]);
    tally.bytes = Bytes { received: some() * 1000, body: some() * 900, sent: some() * 100 };
    (tally.wrong_status, tally.wrong_length, tally.wrong_content) = (some(), some(), some());
    tally.unserved = some();
    tally.completed_in_warmup = some();
    tally.completed_late = some().min(tally.latencies.count());
    tally.unfinished = 1 + some();
    tally.unfinished_sum = u128::from(tally.unfinished) * 1_234_567_891;
    tally.unfinished_max = 1_234_567_891 + some();
    tally.unsent = Unsent { count: some(), oldest: some() * 777_777_777 };
    (tally.short_of_connections, tally.short_longest) = (some(), some() * 333_333_333);
    let time = |part: u64| Duration::from_nanos(1_111_111_111 * part + 7);
    tally.used = ThreadUse { user: time(some()), system: time(some()), waited: time(some()) };
    tally.awake = time(some());
    (tally.cpu_share_max, tally.busy_share_max) = (rng.unit(), rng.unit());
    tally.parts = parts(rng);
    tally.interrupted = rng.below(5) == 0;
    tally
}

/// Figures of all kinds and of two stages.
fn parts(rng: &mut Rng) -> Parts {
    let mut parts = Parts::new(KINDS, 2);
    for part in parts.kinds.iter_mut().chain(&mut parts.stages) {
        (0..rng.below(50)).for_each(|_| part.latencies.record((rng.unit() * 25.0).exp() as u64));
        let mut some = || rng.below(4) as u64;
        part.within = some();
        part.unanswered = some();
        part.errors = Errors { connect: some(), timeout: some(), ..Errors::default() };
        part.wrong = [some(), some(), some()];
    }
    parts
}

/// What was asked of so many threads, of the same run.
fn config(threads: u32) -> Config {
    let mut config = read_report().config;
    config.threads = threads;
    config.connections = threads * 10;
    config.requests = Some(u64::from(threads) * 1000);
    config.pin = Vec::new();
    config.requests_sent = vec![config.requests_sent[0].clone(); KINDS];
    let stage = |rate: u32| StageConfig { from: 0.0, to: f64::from(rate * threads), seconds: Some(2.5) };
    config.pace = PaceConfig::Open { arrivals: "constant".to_owned(), stages: vec![stage(100), stage(250)] };
    config
}

fn read_report() -> Report {
    serde_json::from_str(include_str!("../../../../lab/tests/load-report.json")).expect("a report")
}

fn report(threads: &[Tally], host: &str) -> Report {
    let mut sum = Tally::default();
    threads.iter().for_each(|thread| sum.add(thread));
    let mut report = sum.report(config(threads.len() as u32), Vec::new());
    report.machines = vec![Machine::of(&report, host.to_owned())];
    report
}

/// As files hold them.
fn named(reports: Vec<Report>) -> Vec<Named> {
    let read = |report: Report| serde_json::from_str(&serde_json::to_string(&report).expect("written")).expect("read");
    reports
        .into_iter()
        .enumerate()
        .map(|(at, report)| Named { name: format!("{at}.json"), report: read(report) })
        .collect()
}

/// The figures by their names, without where they came from and what is said of that.
fn figures(report: &Report) -> Value {
    let mut report = report.clone();
    report.machines.clear();
    report.flags.retain(|flag| !matches!(flag, Flag::NotSimultaneous | Flag::SameSeed));
    serde_json::to_value(report).expect("a document")
}

/// Fails with the names of the figures that differ.
#[track_caller]
fn same(what: &str, got: &Report, expected: &Report) {
    let (got, expected) = (figures(got), figures(expected));
    let names = expected.as_object().expect("an object").keys();
    let other: Vec<_> = names.filter(|name| got[*name] != expected[*name]).collect();
    assert!(other.is_empty(), "{what}: {other:?} differ: {}, expected {}", got[other[0]], expected[other[0]]);
}

#[test]
fn parts_of_a_recorded_set_merge_to_the_report_of_the_whole() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let threads: Vec<Tally> = (0..2 + rng.below(6)).map(|_| thread(&mut rng)).collect();
        let whole = report(&threads, "whole");
        // Two parts at least, each with a thread at least.
        let mut cuts = vec![0, 1 + rng.below(threads.len() - 1), threads.len()];
        cuts.push(rng.below(threads.len() + 1));
        cuts.sort_unstable();
        cuts.dedup();
        let part = |pair: &[usize]| report(&threads[pair[0]..pair[1]], &format!("host-{}", pair[0]));
        let mut parts = named(cuts.windows(2).map(part).collect());
        let hosts = parts.len();
        let merged = merge(&parts).expect("they belong together");
        same(&format!("seed {seed}, cut at {cuts:?}"), &merged, &whole);
        assert_eq!(merged.machines.len(), hosts);
        // In any order, and in steps.
        parts.reverse();
        same(&format!("seed {seed}, reversed"), &merge(&parts).expect("in any order"), &whole);
        if let [first, second, third] = parts.as_slice() {
            let some = merge(&named(vec![first.report.clone(), second.report.clone()])).expect("two");
            let all = merge(&named(vec![some, third.report.clone()])).expect("the third");
            same(&format!("seed {seed}, in steps"), &all, &whole);
            assert_eq!(all.machines.len(), 3);
        }
    }
}

#[test]
fn what_a_machine_says_of_itself_stays_with_it() {
    let mut rng = Rng::new(99);
    let sound = |rng: &mut Rng| Tally { busy_share_max: 0.2, interrupted: false, ..thread(rng) };
    let (calm, busy) = (sound(&mut rng), Tally { busy_share_max: 0.99, ..sound(&mut rng) });
    let merged = merge(&named(vec![report(&[calm], "calm"), report(&[busy], "busy")])).expect("merged");
    let saturated = |machine: &Machine| machine.flags.contains(&Flag::GeneratorSaturated);
    let told: Vec<_> = merged.machines.iter().map(|machine| (machine.host.as_str(), saturated(machine))).collect();
    assert_eq!(told, [("calm", false), ("busy", true)]);
    assert!(merged.flags.contains(&Flag::GeneratorSaturated));
}

#[test]
fn runs_that_were_no_one_run_are_flagged_or_refused() {
    let mut rng = Rng::new(5);
    let mut at = |second: u64, seed: u64| {
        let mut tally = thread(&mut rng);
        tally.started_unix_us = 1_795_253_400_000_000 + second * 1_000_000;
        tally.window = Duration::from_secs(10);
        let mut report = report(&[tally], "host");
        report.config.seed = seed;
        report.machines[0].seed = seed;
        if let PaceConfig::Open { arrivals, .. } = &mut report.config.pace {
            *arrivals = "poisson".to_owned();
        }
        report
    };
    let check = |one: &Report, other: Report, expected: &[Flag]| {
        let merged = merge(&named(vec![one.clone(), other])).expect("merged");
        let ours: Vec<Flag> =
            merged.flags.into_iter().filter(|flag| matches!(flag, Flag::NotSimultaneous | Flag::SameSeed)).collect();
        assert_eq!(ours, expected);
    };
    let first = at(0, 1);
    check(&first, at(0, 2), &[]);
    check(&first, at(1, 2), &[]);
    check(&first, at(2, 2), &[Flag::NotSimultaneous]);
    check(&first, at(20, 2), &[Flag::NotSimultaneous]);
    check(&first, at(0, 1), &[Flag::SameSeed]);
    let refused = |change: fn(&mut Report), part: &str| {
        let mut other = first.clone();
        other.completed_with_warmup += 1;
        change(&mut other);
        let said = merge(&named(vec![first.clone(), other])).expect_err(part);
        assert!(said.contains(part) && said.contains("1.json"), "{said}");
    };
    refused(|report| report.completed_with_warmup -= 1, "is the same run as 0.json");
    refused(|report| report.config.keep_alive = !report.config.keep_alive, "differ in keeping connections");
    refused(|report| report.config.requests_sent[0].url.push('x'), "differ in the requests");
    refused(
        |report| report.config.pace = PaceConfig::Closed { think_mean_s: 0.0, ramp_up_s: 0.0 },
        "differ in the kind of loop",
    );
    refused(
        |report| report.config.pace = PaceConfig::Open { arrivals: "poisson".to_owned(), stages: Vec::new() },
        "differ in the stages",
    );
    refused(|report| report.kinds.clear(), "differ in the kinds and stages of which figures were kept");
    refused(|report| report.stages[1].last = 2, "contradict each other: the parts");
    refused(|report| report.kinds[1].completed += 1, "contradict each other: the completed of a part");
    refused(|report| report.completed += 1, "1.json: its figures contradict each other");
    refused(|report| report.series.interval_ms = 0, "1.json: its figures contradict each other: series");
    refused(|report| report.series.begins_unix_ms = u64::MAX, "contradict each other: series");
    refused(|report| report.seconds = -1.0, "a time below 0");
    refused(|report| report.histogram.as_mut().expect("it has one").hdr.clear(), "a histogram cannot be read");
}
