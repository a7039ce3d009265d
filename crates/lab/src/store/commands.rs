//! `lab list`, `show`, `diff`, `export` and `delete`: what was measured before.

use std::path::Path;

use anyhow::{Context, Result};

use super::diff::{Difference, compare};
use super::{Run, State, Store, VARIABLE, kinds};
use crate::output::Output;
use crate::{table, text};

/// So much of a headline fits into a line of a list.
const HEADLINE_CHARS: usize = 70;

fn store() -> Result<Store> {
    Store::of_user()?.with_context(|| format!("{VARIABLE} is none, so that nothing is kept"))
}

/// `lab list`.
///
/// # Errors
/// If the store cannot be read.
pub fn list(json: bool) -> Result<()> {
    let runs = store()?.runs()?;
    if json {
        println!("{}", serde_json::to_string_pretty(&runs.iter().map(as_json).collect::<Vec<_>>())?);
    } else if runs.is_empty() {
        println!("No run is kept yet; `manifold lab run` makes the first.");
    } else {
        print!("{}", list_text(&runs));
    }
    Ok(())
}

fn list_text(runs: &[Run]) -> String {
    let row = |run: &Run| {
        vec![
            run.id.to_string(),
            run.started.clone(),
            run.name.clone(),
            run.state.text().to_owned(),
            text::duration(run.took_s),
            shortened(&run.headline),
        ]
    };
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    table::lines(&["run", "begun (UTC)", "experiment", "state", "took", "answer"], &rows)
}

fn shortened(headline: &str) -> String {
    match headline.char_indices().nth(HEADLINE_CHARS) {
        Some((at, _)) => format!("{}…", headline[..at].trim_end()),
        None => headline.to_owned(),
    }
}

fn as_json(run: &Run) -> serde_json::Value {
    serde_json::json!({
        "run": run.id,
        "kind": run.kind,
        "name": run.name,
        "command": run.command,
        "started_utc": run.started,
        "state": run.state.text(),
        "reason": if let State::EndedEarly(reason) = &run.state { Some(reason) } else { None },
        "took_s": run.took_s,
        "cells": run.cells,
        "folder": run.folder,
        "headline": run.headline,
    })
}

/// `lab show RUN`.
///
/// # Errors
/// If there is no such run, or it has no results that this version can read.
pub fn show(which: &str) -> Result<()> {
    let run = store()?.run(which)?;
    println!(
        "Run {}: {}, begun {} UTC, {}, took {}.",
        run.id,
        run.name,
        run.started,
        run.state.text(),
        text::duration(run.took_s)
    );
    println!("Report: {}\nRepeat it with: {}\n", run.folder.join("report.html").display(), run.command);
    print!("{}", kinds::tell(&run)?);
    Ok(())
}

/// `lab export RUN FOLDER`.
///
/// # Errors
/// If there is no such run, or the folder is there with something in it.
pub fn export(which: &str, folder: &Path) -> Result<()> {
    let run = store()?.run(which)?;
    let out = Output::create(Some(folder))?;
    kinds::export(&run, &out)?;
    println!("Run {} is written to {}", run.id, out.folder().display());
    Ok(())
}

/// `lab delete RUN...`.
///
/// # Errors
/// At the first that is not there, or is being measured.
pub fn delete(which: &[String]) -> Result<()> {
    let store = store()?;
    for which in which {
        let run = store.run(which)?;
        store.delete(&run)?;
        println!("Run {} is deleted; its report stays in {}", run.id, run.folder.display());
    }
    Ok(())
}

/// `lab diff A B`.
///
/// # Errors
/// If there is no such run, or they have nothing in common.
pub fn diff(a: &str, b: &str, all: bool) -> Result<()> {
    let store = store()?;
    let (a, b) = (store.run(a)?, store.run(b)?);
    let differences = compare(&store.values(a.id)?, &store.values(b.id)?);
    anyhow::ensure!(
        !differences.is_empty(),
        "runs {} ({}) and {} ({}) have no target, load and metric in common, so there is nothing to compare",
        a.id,
        a.name,
        b.id,
        b.name
    );
    print!("{}", diff_text((a.id, b.id), &differences, all));
    Ok(())
}

fn diff_text((a, b): (i64, i64), differences: &[Difference], all: bool) -> String {
    let row = |difference: &Difference| {
        let Difference { target, load, metric, medians, ratio, .. } = difference;
        vec![
            target.clone(),
            load.clone(),
            metric.clone(),
            text::number(medians.0),
            text::number(medians.1),
            text::ratio_number(ratio.estimate),
            format!("[{}]", text::ratio_ends(ratio)),
            difference.says().to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = differences.iter().filter(|d| all || d.differs()).map(row).collect();
    let mut told = String::new();
    if !rows.is_empty() {
        let (of_a, of_b) = (format!("run {a}"), format!("run {b}"));
        told = table::lines(&["target", "load", "figure", &of_a, &of_b, "ratio", "95 %", "says"], &rows);
        told.push('\n');
    }
    told.push_str(&super::diff::summary(differences));
    told.push('\n');
    told
}

#[cfg(test)]
mod tests {
    use manifold_stats::Verdict;

    use super::super::{Key, Value};
    use super::*;

    fn values(target: &str, metric: &str, rounds: &[f64]) -> Vec<Value> {
        let value = |(round, value): (usize, &f64)| {
            let key =
                Key { part: String::new(), round: round as u32, target: target.to_owned(), load: "c = 10".to_owned() };
            Value { key, metric: metric.to_owned(), value: *value }
        };
        rounds.iter().enumerate().map(value).collect()
    }

    #[test]
    fn figures_that_both_runs_have_are_compared() {
        let even = [10.0, 10.1, 9.9, 10.0, 10.2];
        let double = even.map(|value| 2.0 * value);
        let a = [values("event", "p99", &even), values("event", "p50", &even), values("worker", "p99", &even)].concat();
        let b =
            [values("event", "p99", &double), values("event", "p50", &even), values("nginx", "p99", &even)].concat();
        let differences = compare(&a, &b);
        let got: Vec<_> = differences.iter().map(|d| (d.metric.as_str(), d.claim)).collect();
        assert_eq!(got, [("p50", Verdict::NotDistinguishable), ("p99", Verdict::More)]);
        let told = diff_text((3, 7), &differences, false);
        assert!(
            told.contains("run 3") && told.contains("2.0") && told.contains("more") && !told.contains("p50"),
            "{told}"
        );
        assert!(told.contains("1 of 2 figures differ") && told.contains("0.10 would by chance"), "{told}");
        assert!(diff_text((3, 7), &differences, true).contains("p50"));
    }

    #[test]
    fn runs_of_few_rounds_say_nothing() {
        let differences = compare(&values("event", "p99", &[1.0, 1.0]), &values("event", "p99", &[9.0, 9.0, 9.0]));
        assert_eq!(differences[0].claim, Verdict::TooFewRounds);
        assert!(diff_text((1, 2), &differences, false).contains("1 have fewer than 3 rounds"));
    }

    #[test]
    fn long_answers_are_shortened_in_lists() {
        assert_eq!(shortened("short"), "short");
        let long = "µ".repeat(100);
        assert_eq!(shortened(&long).chars().count(), HEADLINE_CHARS + 1);
    }
}
