//! What is claimed of our models beside their peers, as data, and whether a run shows it.

use manifold_stats::{Interval, ROUNDS_MIN};
use serde::Serialize;

use super::plan::{Page, Placement, Work, mode};
use super::results::Peers;
use crate::figures::Metric;
use crate::target::Family;
use crate::text;

/// One claim: what `who` needs stands in this relation to what another needs.
#[derive(Clone, Copy, Debug)]
struct Claim {
    who: &'static [&'static str],
    what: What,
    bound: Bound,
    than: Than,
}

/// What is compared.
#[derive(Clone, Copy, Debug)]
enum What {
    /// CPU time a request, with each of the page's numbers of connections.
    Cpu(Page, bool),
    /// The 99th percentile of latency with 1,000 connections.
    P99(Page, bool),
    /// Memory with 1,000 idle connections.
    Idle,
    /// Requests a second of CPU time, on two processors and on one.
    TwoCores,
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// What it is compared with.
#[derive(Clone, Copy, Debug)]
enum Than {
    /// The target of this name.
    Other(&'static str),
    /// Apache's model of the same name.
    Namesake,
    /// A number of MiB.
    Mib,
    /// Itself on one processor.
    OneCore,
}

const PERCORE: &[&str] = &["percore"];
const EVENT: &[&str] = &["event"];

const fn cpu(who: &'static [&'static str], page: Page, keep_alive: bool, at_most: f64, than: Than) -> Claim {
    Claim { who, what: What::Cpu(page, keep_alive), bound: Bound::AtMost(at_most), than }
}

const fn p99(page: Page, keep_alive: bool, than: &'static str) -> Claim {
    Claim { who: PERCORE, what: What::P99(page, keep_alive), bound: Bound::AtMost(1.0), than: Than::Other(than) }
}

const fn idle(who: &'static [&'static str], at_most: f64, than: Than) -> Claim {
    Claim { who, what: What::Idle, bound: Bound::AtMost(at_most), than }
}

const KEEP: bool = true;
const CLOSE: bool = false;

/// The claims, in the order of the report.
static CLAIMS: [Claim; 29] = [
    cpu(PERCORE, Page::Small, KEEP, 1.0, Than::Other("responder")),
    cpu(PERCORE, Page::Small, KEEP, 0.8, Than::Other("lighttpd")),
    cpu(PERCORE, Page::Small, KEEP, 0.8, Than::Other("h2o")),
    cpu(PERCORE, Page::Small, KEEP, 0.55, Than::Other("nginx")),
    cpu(EVENT, Page::Small, KEEP, 0.8, Than::Other("nginx")),
    cpu(&["worker", "prefork"], Page::Small, KEEP, 0.25, Than::Namesake),
    cpu(PERCORE, Page::Small, CLOSE, 1.0, Than::Other("responder")),
    cpu(PERCORE, Page::Small, CLOSE, 0.9, Than::Other("h2o")),
    cpu(EVENT, Page::Small, CLOSE, 1.0, Than::Other("nginx")),
    cpu(&["worker", "prefork", "event"], Page::Small, CLOSE, 0.5, Than::Namesake),
    cpu(PERCORE, Page::Medium, KEEP, 1.1, Than::Other("responder-sendfile")),
    cpu(PERCORE, Page::Medium, KEEP, 1.0, Than::Other("nginx")),
    cpu(PERCORE, Page::Medium, KEEP, 1.0, Than::Other("lighttpd")),
    cpu(&["worker", "prefork", "event"], Page::Medium, KEEP, 0.5, Than::Namesake),
    cpu(PERCORE, Page::Medium, CLOSE, 1.0, Than::Other("nginx")),
    cpu(PERCORE, Page::Large, KEEP, 1.0, Than::Other("nginx")),
    cpu(PERCORE, Page::Large, CLOSE, 1.0, Than::Other("nginx")),
    p99(Page::Small, KEEP, "nginx"),
    p99(Page::Small, KEEP, "h2o"),
    p99(Page::Small, CLOSE, "nginx"),
    p99(Page::Small, CLOSE, "h2o"),
    p99(Page::Medium, KEEP, "nginx"),
    p99(Page::Medium, KEEP, "h2o"),
    p99(Page::Medium, CLOSE, "nginx"),
    p99(Page::Medium, CLOSE, "h2o"),
    idle(PERCORE, 5.0, Than::Mib),
    idle(PERCORE, 1.0, Than::Other("lighttpd")),
    idle(EVENT, 1.0, Than::Other("nginx")),
    idle(&["prefork"], 1.0 / 3.0, Than::Namesake),
];

/// Connections of the claims about latency.
const P99_CONNECTIONS: u32 = 1000;

/// What a run says to a claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval is within the bound.
    Met,
    /// The whole interval is beyond it.
    Missed,
    /// The bound lies in the interval, or there are too few rounds.
    NotDistinguishable,
    /// One of the two was not measured.
    NotMeasured,
}

impl Verdict {
    /// For a table.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Missed => "missed",
            Verdict::NotDistinguishable => "not distinguishable",
            Verdict::NotMeasured => "not measured",
        }
    }
}

/// A claim under one load, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// What it is about: `CPU a request, 44 B keep-alive`.
    pub about: String,
    /// The claim as a sentence without its subject matter: `percore at most 0.80 of nginx, c = 100`.
    pub claim: String,
    /// The number claimed.
    pub bound: f64,
    /// It is a lower bound.
    pub at_least: bool,
    /// The ratio (or MiB) measured; absent where it was not.
    pub measured: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// What it comes to.
    pub verdict: Verdict,
}

impl Judgement {
    /// The figure with its interval, for a table.
    pub fn figure(&self) -> String {
        text::ratio_figure(self.measured, self.low, self.high)
    }
}

/// Judges every claim about targets that were wanted in this run. A claim that needs a target which is not there is left out, so
/// that a run of few targets does not speak of the others.
pub fn judge(peers: &Peers) -> Vec<Judgement> {
    let two_cores = Claim { who: PERCORE, what: What::TwoCores, bound: Bound::AtLeast(0.95), than: Than::OneCore };
    let mut judgements = Vec::new();
    for claim in CLAIMS.iter().chain([&two_cores]) {
        for who in claim.who {
            let Some(target) = peers.find(who) else { continue };
            let other = match claim.than {
                Than::Other(name) => peers.find(name),
                Than::Namesake => namesake(peers, target),
                Than::Mib | Than::OneCore => Some(target),
            };
            let Some(other) = other else { continue };
            judgements.extend(claim.judge(peers, target, other));
        }
    }
    judgements
}

fn namesake(peers: &Peers, target: usize) -> Option<usize> {
    let model = peers.targets[target].model;
    peers.targets.iter().position(|other| other.family == Family::Apache2 && other.model == model)
}

impl Claim {
    /// The claim with each of its numbers of connections.
    fn judge(&self, peers: &Peers, target: usize, other: usize) -> Vec<Judgement> {
        let work = |page, keep_alive, connections, placement| Work { page, keep_alive, connections, placement };
        match self.what {
            What::Cpu(page, keep_alive) => {
                let about = format!("CPU a request, {} {}", page.label(), mode(keep_alive));
                let of = |&connections: &u32| {
                    let work = work(page, keep_alive, connections, Placement::Apart);
                    let ratio = peers.ratio((target, work), (other, work), Metric::CpuUsPerRequest);
                    self.judgement(peers, &about, (target, other), Some(connections), ratio)
                };
                page.connections().iter().map(of).collect()
            }
            What::P99(page, keep_alive) => {
                let about = format!("Latency, 99th percentile, {} {}", page.label(), mode(keep_alive));
                let work = work(page, keep_alive, P99_CONNECTIONS, Placement::Apart);
                let ratio = peers.ratio((target, work), (other, work), Metric::P99Us);
                vec![self.judgement(peers, &about, (target, other), Some(P99_CONNECTIONS), ratio)]
            }
            What::Idle => {
                let measured = match self.than {
                    Than::Mib => peers.idle(target),
                    _ => peers.idle_ratio(target, other),
                };
                vec![self.judgement(peers, "PSS with 1,000 idle connections", (target, other), None, measured)]
            }
            What::TwoCores => {
                let of = |&connections: &u32| {
                    let on = |placement| work(Page::Small, true, connections, placement);
                    // Work a second of CPU time is the inverse of CPU time a request.
                    let (one, two) = ((target, on(Placement::OneOfTwo)), (target, on(Placement::Two)));
                    let ratio = peers.ratio(one, two, Metric::CpuUsPerRequest);
                    let about = "Requests a second of CPU time on two cores, 44 B keep-alive";
                    self.judgement(peers, about, (target, other), Some(connections), ratio)
                };
                Page::Small.connections().iter().map(of).collect()
            }
        }
    }

    fn judgement(
        &self,
        peers: &Peers,
        about: &str,
        (target, other): (usize, usize),
        connections: Option<u32>,
        measured: Option<Interval>,
    ) -> Judgement {
        let label = |target: usize| peers.targets[target].label.as_str();
        let (words, number, at_least) = match self.bound {
            Bound::AtMost(number) => ("at most", number, false),
            Bound::AtLeast(number) => ("at least", number, true),
        };
        let than = match self.than {
            Than::Other(_) | Than::Namesake => format!("{} of {}", text::ratio_number(number), label(other)),
            Than::Mib => format!("{} MiB", text::number(number)),
            Than::OneCore => format!("{} of those on one", text::ratio_number(number)),
        };
        let connections = connections.map(|c| format!(", c = {}", text::grouped(i64::from(c)))).unwrap_or_default();
        // Memory does not waver: one look is enough.
        let rounds_min = if matches!(self.what, What::Idle) { 1 } else { ROUNDS_MIN };
        Judgement {
            about: about.to_owned(),
            claim: format!("{} {words} {than}{connections}", label(target)),
            bound: number,
            at_least,
            measured: measured.map(|m| m.estimate),
            low: measured.map(|m| m.low),
            high: measured.map(|m| m.high),
            verdict: verdict(measured.as_ref(), number, at_least, rounds_min),
        }
    }
}

/// What an interval says to a bound.
pub fn verdict(measured: Option<&Interval>, bound: f64, at_least: bool, rounds_min: usize) -> Verdict {
    let Some(measured) = measured else { return Verdict::NotMeasured };
    let (met, missed) = if at_least {
        (measured.low >= bound, measured.high < bound)
    } else {
        (measured.high <= bound, measured.low > bound)
    };
    match (met, missed) {
        _ if measured.rounds < rounds_min => Verdict::NotDistinguishable,
        (true, _) => Verdict::Met,
        (_, true) => Verdict::Missed,
        _ => Verdict::NotDistinguishable,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn verdicts() {
        for (low, high, rounds, bound, at_least, expected) in [
            (0.7, 0.8, 5, 0.8, false, Verdict::Met),
            (0.7, 0.81, 5, 0.8, false, Verdict::NotDistinguishable),
            (0.81, 0.9, 5, 0.8, false, Verdict::Missed),
            (0.7, 0.7, 2, 0.8, false, Verdict::NotDistinguishable),
            (0.96, 1.1, 5, 0.95, true, Verdict::Met),
            (0.9, 1.1, 5, 0.95, true, Verdict::NotDistinguishable),
            (0.8, 0.94, 5, 0.95, true, Verdict::Missed),
        ] {
            let measured = Interval { estimate: (low + high) / 2.0, low, high, rounds };
            assert_eq!(verdict(Some(&measured), bound, at_least, ROUNDS_MIN), expected, "{measured:?} {bound}");
        }
        assert_eq!(verdict(None, 1.0, false, 1), Verdict::NotMeasured);
    }

    #[test]
    fn every_claim_is_judged_on_a_whole_run() {
        let peers = fixture::peers();
        let judged = judge(&peers);
        assert!(judged.iter().all(|j| j.verdict != Verdict::NotMeasured), "{judged:#?}");
        let find = |about: &str, claim: &str| {
            let found = judged.iter().find(|j| j.about.starts_with(about) && j.claim == claim);
            found.unwrap_or_else(|| panic!("no {claim:?} about {about:?} in {judged:#?}"))
        };
        // The fixture's percore needs 4 µs where nginx needs 8, and prefork 10 where Apache's needs 30.
        let met = find("CPU a request, 44 B keep-alive", "manifold percore at most 0.55 of nginx, c = 1\u{202f}000");
        assert_eq!((met.verdict, met.figure()), (Verdict::Met, "0.50 [0.50 to 0.50]".to_owned()));
        let missed =
            find("CPU a request, 44 B keep-alive", "manifold prefork at most 0.25 of apache2 prefork, c = 100");
        assert_eq!(missed.verdict, Verdict::Missed);
        assert_eq!(find("PSS", "manifold percore at most 5.0 MiB").verdict, Verdict::Met);
        let two = find("Requests a second", "manifold percore at least 0.95 of those on one, c = 100");
        assert_eq!(two.verdict, Verdict::Met);
    }

    #[test]
    fn what_was_not_wanted_is_not_spoken_of() {
        let mut peers = fixture::peers();
        let percore = peers.find("percore").expect("it is there");
        let nginx = peers.find("nginx").expect("it is there");
        for (index, target) in peers.targets.iter_mut().enumerate() {
            if index != percore && index != nginx {
                target.name = "another".to_owned();
            }
        }
        let judged = judge(&peers);
        assert!(judged.iter().all(|j| j.claim.starts_with("manifold percore")), "{judged:#?}");
        assert!(judged.iter().any(|j| j.claim.contains("nginx")) && !judged.iter().any(|j| j.claim.contains("h2o")));
    }
}
