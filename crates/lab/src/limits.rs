//! What limits the figures of a run, in words: everything that a validity guard saw, and what was not there.

use manifold_stats::attainable_level;

use crate::figures::Cells;
use crate::results::{Mark, Results};
use crate::{text, words};

/// One sentence for each reason to read the figures with care, the gravest first.
pub fn limits(results: &Results) -> Vec<String> {
    let cells = Cells::new(&results.experiment, &results.cells);
    let mut limits = Vec::new();
    let rounds = results.experiment.rounds as usize;
    if let Some(why) = &results.ended_early {
        limits.push(format!("The run was ended early: {why}."));
    }
    let (disturbed, all) = cells.count(Mark::Disturbed);
    if disturbed > 0 {
        let advice = if 4 * disturbed > all {
            " The machine was not quiet: ratios hold better than figures, and a run with nothing beside it tells more."
        } else {
            ""
        };
        limits.push(format!(
            "Something else used more than a tenth of a processor in {} of {}.{advice}",
            text::grouped(disturbed as i64),
            text::counted(all, "cell")
        ));
    }
    let (saturated, _) = cells.count(Mark::GeneratorSaturated);
    if saturated > 0 {
        limits.push(format!(
            "The generator was saturated in {} of {}: requests a second are lower bounds there, and latency contains waiting \
             in the generator. CPU a request and memory are the server's own and stand.",
            text::grouped(saturated as i64),
            text::counted(all, "cell")
        ));
    }
    limits.extend(left_out(&cells));
    limits.extend(held_against(&cells, results));
    if results.environment.cores.shared() {
        limits.push(
            "There is one processor: server and generator shared it, and every figure contains the other's load."
                .to_owned(),
        );
    }
    if rounds < 6 {
        limits.push(format!(
            "With {} an interval is the range of the rounds; it holds the true median in {} % of runs at best.",
            text::counted(rounds, "round"),
            text::number(attainable_level(rounds) * 100.0)
        ));
    }
    limits.extend(results.environment.suspicions.iter().cloned());
    for missing in &results.missing {
        limits.push(format!("{} is not in this run: {}.", words::capital(&missing.label), missing.reason));
    }
    limits
}

/// Cells whose answers were wrong or missing, so that they enter no figure.
fn left_out(cells: &Cells<'_>) -> Vec<String> {
    let (_, all) = cells.count(Mark::Disturbed);
    let mut limits = Vec::new();
    for (mark, what) in [
        (Mark::NothingCompleted, "Nothing was answered"),
        (Mark::WrongStatus, "Wrong status codes came"),
        (Mark::WrongLength, "Answers of a wrong length came"),
        (Mark::PortsExhausted, "Local ports ran out"),
        (Mark::DescriptorsExhausted, "File descriptors ran out"),
    ] {
        let (count, _) = cells.count(mark);
        if count > 0 {
            limits.push(format!(
                "{what} in {} of {}; these are left out of every figure.",
                count,
                text::counted(all, "cell")
            ));
        }
    }
    limits
}

/// Cells that enter the figures with something held against them, and whose they are.
fn held_against(cells: &Cells<'_>, results: &Results) -> Vec<String> {
    let label = |target: usize| results.targets[target].label.as_str();
    let (_, all) = cells.count(Mark::Disturbed);
    let mut limits = Vec::new();
    for (mark, what) in [
        (Mark::Errors, "some requests failed"),
        (Mark::Unserved, "some connections got no answer at all"),
        (Mark::Stalled, "requests were stuck at the end"),
        (Mark::TooShort, "there were fewer than two answers a connection"),
    ] {
        let who: Vec<&str> = (0..results.targets.len())
            .filter(|&t| results.cells.iter().any(|cell| cell.target == t && cell.marks.contains(&mark)))
            .map(label)
            .collect();
        if !who.is_empty() {
            let (count, _) = cells.count(mark);
            let every = who.len() == results.targets.len() && who.len() > 2;
            let who = if every { "of every target".to_owned() } else { text::list(&who) };
            limits.push(format!("In {} of {} {what}: {who}.", count, text::counted(all, "cell")));
        }
    }
    limits
}
