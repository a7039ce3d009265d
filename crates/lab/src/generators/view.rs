//! What a run of `generators` tells: the claims with their verdicts, and the tables.

use manifold_stats::{Interval, ROUNDS_MIN, attainable_level};

use super::plan::{CLOSING, H2_SHARED, H2_SINGLE, KEPT, MANY, TLS_CLOSING, TLS_KEPT, WORKS, Work};
use super::results::{Generators, Metric};
use crate::cores;
use crate::peers::claims::{Judgement, verdict};
use crate::peers::view::{Table, View, Words, by_subject, cell, headline};
use crate::plot::{Axis, Plot, Who};
use crate::target::{Family, Model};
use crate::text;

/// What is claimed: `who`'s ratio to `than` under a load.
#[derive(Clone, Copy, Debug)]
struct Claim {
    who: &'static str,
    than: &'static str,
    work: Work,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// Requests for each second of CPU time, at least so many times as many.
    Speed(f64),
    /// Peak memory, at most so much of it.
    Memory(f64),
}

const fn speed(who: &'static str, work: Work, at_least: f64, than: &'static str) -> Claim {
    Claim { who, than, work, what: What::Speed(at_least) }
}

/// The claims, in the order of the report.
static CLAIMS: [Claim; 23] = [
    speed("load", KEPT, 1.5, "wrk"),
    speed("load", KEPT, 1.0, "h2load"),
    speed("load", KEPT, 1.0, "oha"),
    speed("load", KEPT, 1.0, "bombardier"),
    speed("load", KEPT, 1.0, "ab"),
    speed("load", KEPT, 1.0, "siege"),
    speed("manifold-ab", KEPT, 1.0, "ab"),
    speed("manifold-siege", KEPT, 1.0, "siege"),
    speed("load", CLOSING, 1.0, "wrk"),
    speed("load", CLOSING, 1.0, "h2load"),
    speed("load", CLOSING, 1.0, "oha"),
    speed("load", CLOSING, 1.0, "bombardier"),
    speed("load", CLOSING, 1.0, "ab"),
    speed("load", CLOSING, 1.0, "siege"),
    speed("manifold-ab", CLOSING, 1.0, "ab"),
    speed("manifold-siege", CLOSING, 1.0, "siege"),
    Claim { who: "load", than: "wrk", work: MANY, what: What::Memory(1.0) },
    speed("load", TLS_KEPT, 1.0, "wrk"),
    speed("load", TLS_KEPT, 1.0, "h2load"),
    speed("load", TLS_CLOSING, 1.0, "wrk"),
    speed("load", TLS_CLOSING, 1.0, "h2load"),
    speed("load", H2_SHARED, 1.0, "h2load"),
    speed("load", H2_SINGLE, 1.0, "h2load"),
];

static WORDS: Words = Words {
    title: "Manifold's load generators beside others",
    bars: "What a request costs the generator",
    bars_remark: "The generator’s own processor time a request, user and system. Thin lines are intervals.",
    shown: &["Requests for each second", "Peak memory"],
    method: &[
        (
            "Equal terms",
            "All generators ask one target for the same 44 bytes: manifold load --target-server, on a processor of its own, which does nothing but answer; over TLS and HTTP/2 it is nginx with one process there. h2load is told --h1 where it is not to speak HTTP/2. Over TLS manifold load and wrk resume the session of an earlier connection, ab makes a whole handshake each time. Each generator has the other processors, and as many threads where it asks for a number. ab and siege have their own ways with a request (HTTP/1.0, an access to a cookie jar, a log of each request) and are measured as they come, siege in its benchmark mode without a log.",
        ),
        (
            "Figures and intervals",
            "One cell is one generator under one load in one round, started anew. CPU time is all that its processes used from start to end, user and system, divided by the requests it reports. Memory is the most that was resident (VmHWM), looked at every 5 ms until the end. Ratios are taken within each round. Figures are medians over rounds with the sign test’s intervals, ratios are Hodges and Lehmann’s estimates over rounds with the signed-rank test’s.",
        ),
    ],
    footer: "Written by manifold lab. The data are in generators.json and claims.json beside this file.",
};

/// The view of these results.
pub fn of(generators: &Generators) -> View {
    let judgements: Vec<Judgement> = CLAIMS.iter().filter_map(|claim| judge(generators, claim)).collect();
    View {
        words: &WORDS,
        headline: headline(&judgements),
        claims: by_subject(&judgements),
        judgements,
        bars: [KEPT, CLOSING, TLS_CLOSING, H2_SHARED].into_iter().filter_map(|work| bars(generators, work)).collect(),
        tables: tables(generators),
        limits: limits(generators),
        facts: facts(generators),
        command: generators.environment.command.clone(),
    }
}

/// `None` where one of the two was not in the run.
fn judge(generators: &Generators, claim: &Claim) -> Option<Judgement> {
    let (who, than) = (generators.find(claim.who)?, generators.find(claim.than)?);
    let (about, metric, bound, at_least) = match claim.what {
        What::Speed(least) => {
            ("Requests for each second of the generator's CPU time", Metric::PerCpuSecond, least, true)
        }
        What::Memory(most) => ("Peak memory", Metric::PeakMib, most, false),
    };
    let measured = generators.ratio(who, than, claim.work, metric);
    let label = |program: usize| &generators.programs[program].label;
    let words = if at_least { "at least" } else { "at most" };
    Some(Judgement {
        about: format!("{about}, {}", claim.work.label()),
        claim: format!("{} {words} {} of {}", label(who), text::ratio_number(bound), label(than)),
        bound,
        at_least,
        measured: measured.map(|m| m.estimate),
        low: measured.map(|m| m.low),
        high: measured.map(|m| m.high),
        verdict: verdict(measured.as_ref(), bound, at_least, ROUNDS_MIN),
    })
}

fn bars(generators: &Generators, work: Work) -> Option<Plot> {
    let family = |ours: bool| if ours { Family::Manifold } else { Family::Peer };
    let whos = Who::all(generators.programs.iter().map(|one| (one.label.clone(), family(one.ours), Model::Loop)));
    let row = |(index, who)| Some((who, generators.figure(index, work, Metric::CpuUs)?));
    let mut rows: Vec<(Who, Interval)> = whos.into_iter().enumerate().filter_map(row).collect();
    rows.sort_by(|a, b| a.1.estimate.total_cmp(&b.1.estimate));
    let caption = work.label();
    Plot::bars(format!("CPU a request, {caption}"), caption, Axis::Micros, rows)
}

fn tables(generators: &Generators) -> Vec<Table> {
    let wrk = generators.find("wrk");
    let per_cpu = |program, work| cell(generators.figure(program, work, Metric::PerCpuSecond), text::number);
    let times_wrk = |program, work| {
        let ratio = wrk.and_then(|wrk| generators.ratio(program, wrk, work, Metric::PerCpuSecond));
        cell(ratio, text::ratio_number)
    };
    let micros = |program, work| cell(generators.figure(program, work, Metric::CpuUs), text::number);
    let per_second = |program, work| cell(generators.figure(program, work, Metric::PerSecond), text::number);
    let peak = |program, work| cell(generators.figure(program, work, Metric::PeakMib), text::number);
    vec![
        table(
            generators,
            "Requests for each second of the generator's CPU time",
            "More is better: it is what a processor of the generator can ask for, whatever the server.",
            &per_cpu,
        ),
        table(
            generators,
            "The same, times wrk's",
            "Paired within each round, so that the machine's slow drifts fall out.",
            &times_wrk,
        ),
        table(generators, "CPU a request, µs", "The inverse: user and system time of the generator.", &micros),
        table(
            generators,
            "Requests a second",
            "From the start of the program to its end, its own beginning included. Where the target's processor is full, this is what the target can do.",
            &per_second,
        ),
        table(generators, "Peak memory, MiB", "VmHWM. What sockets hold in the kernel is not in it.", &peak),
    ]
}

fn table(
    generators: &Generators,
    title: &'static str,
    remark: &str,
    of: &dyn Fn(usize, Work) -> (String, String),
) -> Table {
    let works: Vec<Work> = WORKS.into_iter().filter(|work| generators.knows(*work)).collect();
    let row = |(index, program): (usize, &super::results::Described)| {
        let cells = works.iter().map(|work| of(index, *work));
        [(program.label.clone(), String::new())].into_iter().chain(cells).collect()
    };
    Table {
        title,
        remark: remark.to_owned(),
        head: [String::new()].into_iter().chain(works.iter().map(|work| work.label())).collect(),
        rows: generators.programs.iter().enumerate().map(row).collect(),
    }
}

fn limits(generators: &Generators) -> Vec<String> {
    let mut limits = Vec::new();
    if let Some(why) = &generators.ended_early {
        limits.push(format!("The run was ended early: {why}."));
    }
    if generators.refused() > 0 {
        let (refused, all) =
            (text::grouped(generators.refused() as i64), text::counted(generators.cells.len(), "cell"));
        limits.push(format!("In {refused} of {all} more than a hundredth of the requests failed, or hardly any was made; they are left out."));
    }
    if generators.rounds < 6 {
        limits.push(format!(
            "With {} an interval holds the true median in {} % of runs at best.",
            text::counted(generators.rounds as usize, "round"),
            text::number(attainable_level(generators.rounds as usize) * 100.0)
        ));
    }
    if generators.environment.cores.shared() {
        limits.push("There is one processor: target and generator shared it.".to_owned());
    }
    limits.extend(generators.environment.suspicions.iter().cloned());
    let missing =
        |missing: &crate::results::Missing| format!("{} is not in this run: {}.", missing.label, missing.reason);
    limits.extend(generators.missing.iter().map(missing));
    limits
}

fn facts(generators: &Generators) -> Vec<(&'static str, String)> {
    let e = &generators.environment;
    let others = generators.programs.iter().filter(|program| !program.ours);
    let versions: Vec<String> = others.map(|program| format!("{}: {}", program.label, program.version)).collect();
    let (server, generator) = (cores::text(&e.cores.server), cores::text(&e.cores.generator));
    vec![
        ("Begun", format!("{} UTC, took {}", e.started_utc, text::duration(generators.took_s))),
        ("System", format!("{}, kernel {}", e.system, e.kernel)),
        ("Processor", format!("{}, {} MiB of memory", e.cpu, text::grouped(e.memory_mib as i64))),
        ("Processors used", format!("{server} for the target, {generator} for the generator")),
        (
            "Cells",
            format!(
                "{} in {}, each {} s",
                text::grouped(generators.cells.len() as i64),
                text::counted(generators.rounds as usize, "round"),
                generators.seconds
            ),
        ),
        ("Manifold", e.manifold.clone()),
        ("Others", versions.join("; ")),
    ]
}

#[cfg(test)]
mod tests {
    use manifold_stats::Rng;

    use super::super::plan;
    use super::super::program::PROGRAMS;
    use super::super::results::{Cell, Described, FORMAT};
    use super::*;
    use crate::fixture::environment;
    use crate::peers::claims::Verdict;
    use crate::peers::page;
    use crate::results::Missing;

    /// Six equal rounds in which the n-th program takes n times 10 µs a request and n times 4 MiB; bombardier is missing.
    fn generators() -> Generators {
        let programs: Vec<Described> = PROGRAMS
            .iter()
            .filter(|program| program.name != "bombardier")
            .map(|program| Described {
                name: program.name.to_owned(),
                label: program.label.to_owned(),
                ours: program.file.is_none(),
                version: "1.0".to_owned(),
            })
            .collect();
        let there: Vec<_> = PROGRAMS.iter().filter(|program| program.name != "bombardier").collect();
        let cells = (0..6).flat_map(|round| {
            let steps = plan::round(&there, &WORKS, &mut Rng::new(u64::from(round)));
            steps.into_iter().map(move |(program, work)| Cell {
                round,
                program,
                work,
                done: 100_000,
                failed: 0,
                wall_s: 1.1,
                cpu_s: (program + 1) as f64,
                peak_kib: Some(4096 * (program as u64 + 1)),
            })
        });
        Generators {
            format: FORMAT,
            seed: 7,
            seconds: 1,
            rounds: 6,
            cells: cells.collect(),
            programs,
            missing: vec![Missing { label: "bombardier".to_owned(), reason: "it is not in PATH".to_owned() }],
            environment: environment("manifold lab run generators --seed 7"),
            ended_early: None,
            took_s: 100.0,
        }
    }

    #[test]
    fn every_claim_about_who_was_there_is_judged() {
        let view = of(&generators());
        assert_eq!(view.judgements.len(), CLAIMS.len() - 2, "two are about bombardier");
        let find = |claim: &str| {
            let found = view.judgements.iter().find(|judgement| judgement.claim == claim);
            found.unwrap_or_else(|| panic!("no {claim:?} in {:#?}", view.judgements))
        };
        assert_eq!(find("manifold load at least 1.50 of wrk").figure(), "4.0 [4.0 to 4.0]");
        assert!(view.judgements.iter().all(|judgement| judgement.verdict == Verdict::Met));
        // Were ours the slower and the larger one, both would be missed.
        let mut worse = generators();
        worse.cells.iter_mut().filter(|cell| cell.program == 0).for_each(|cell| {
            cell.cpu_s = 100.0;
            cell.peak_kib = Some(1 << 20);
        });
        let missed = of(&worse).judgements.iter().filter(|judgement| judgement.verdict == Verdict::Missed).count();
        assert_eq!(missed, 17);
    }

    #[test]
    fn every_form_tells_the_same() {
        let view = of(&generators());
        let html = page::html(&view, &crate::page::Frame::FILE).expect("the template renders");
        for text in [page::terminal(&view), page::markdown(&view), html.clone()] {
            for part in
                [view.headline.as_str(), "manifold load at least 1.50 of wrk", "4.0 [4.0 to 4.0]", "not in PATH"]
            {
                assert!(text.contains(part), "no {part:?} in:\n{text}");
            }
        }
        assert_eq!(html.matches("<svg").count(), 4);
    }

    #[test]
    fn cells_with_failures_enter_no_figure() {
        let mut generators = generators();
        generators
            .cells
            .iter_mut()
            .filter(|cell| cell.program == 3 && cell.round < 2)
            .for_each(|cell| cell.failed = 2000);
        assert_eq!(generators.figure(3, KEPT, Metric::CpuUs).map(|figure| figure.rounds), Some(4));
        assert_eq!(generators.ratio(0, 3, KEPT, Metric::CpuUs).map(|ratio| ratio.rounds), Some(4));
        assert!(of(&generators).limits.iter().any(|limit| limit.starts_with("In 10 of 228 cells")));
    }
}
