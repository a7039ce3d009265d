//! The diagnosis as a person reads it: the answer, what goes how far, what is corrected, and every value with where it comes from.

use std::fmt::Write as _;

use super::Diagnosis;
use super::ends::End;
use crate::text::{counted, grouped};

/// What runs out first, in a sentence or two.
pub fn answer(ends: &[End], changed: usize, mpm: &str) -> String {
    let Some(first) = ends.first() else { return String::new() };
    let mut text = if first.too_early {
        format!(
            "{} runs out first, at {} requests at the same time, before the configuration's own limit.",
            crate::words::capital(first.what),
            grouped(i64::try_from(first.requests).unwrap_or(i64::MAX))
        )
    } else {
        let next = ends
            .get(1)
            .map_or_else(String::new, |next| format!("; {} would last for {}", next.what, lasts(next.requests)));
        format!("The {mpm} MPM's own limit comes first, at {} at the same time{next}.", lasts(first.requests))
    };
    if changed > 0 {
        let _ = write!(
            text,
            " {} not as written: see below.",
            if changed == 1 { "One number is".to_owned() } else { format!("{} are", counted(changed, "number")) }
        );
    }
    text
}

/// A number of requests; what has no bound has none.
fn lasts(requests: u64) -> String {
    i64::try_from(requests).ok().filter(|n| *n < 1_000_000_000).map_or_else(|| "any number".to_owned(), grouped)
}

/// The whole of it.
pub(super) fn text(diagnosis: &Diagnosis) -> String {
    let mut text = format!("{}\n\n{} by {}\n", diagnosis.answer, diagnosis.file, diagnosis.server);
    let mut part = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\n{title}");
            for line in lines {
                let _ = writeln!(text, "  {line}");
            }
        }
    };
    let mark = |bad: bool| if bad { "! " } else { "- " };
    let ends = diagnosis.ends.iter().map(|end| {
        format!(
            "{}{} ({}): {}",
            mark(end.too_early),
            crate::words::capital(end.what),
            lasts(end.requests),
            end.sentence
        )
    });
    let missing = diagnosis.not_measured.iter().map(|why| format!("- Memory was not measured: {why}"));
    part("How far it goes, in requests at the same time:", ends.chain(missing).collect());
    let remarks = diagnosis.remarks.iter().map(|remark| format!("{}{}", mark(remark.is_finding), remark.sentence));
    part("Waiting and keeping:", remarks.collect());
    let corrections = diagnosis.corrections.iter().map(|correction| {
        let code = correction.code.map_or_else(|| "in silence: ".to_owned(), |code| format!("AH{code:05}: "));
        let code = if correction.code.is_none() && !correction.changes { String::new() } else { code };
        let place = correction.place.as_ref().map_or_else(String::new, |place| format!(" ({place})"));
        format!("{}{code}{}{place}", mark(correction.changes), correction.text)
    });
    part("What the server makes of the numbers:", corrections.collect());
    let widest = diagnosis.values.iter().map(|value| value.name.len()).max().unwrap_or(0);
    let values = std::iter::once(&diagnosis.mpm).chain(&diagnosis.values);
    let values = values.map(|value| format!("{:widest$}  {:<10}  {}", value.name, value.value, value.from));
    part("Values in effect:", values.collect());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(what: &'static str, requests: u64, too_early: bool) -> End {
        End { what, requests, too_early, sentence: String::new() }
    }

    #[test]
    fn the_answer_names_what_runs_out_first() {
        let check = |ends: &[End], changed, expected: &str| {
            assert_eq!(answer(ends, changed, "event").replace('\u{202f}', " "), expected);
        };
        check(
            &[end("workers", 150, false), end("memory", 9000, false)],
            0,
            "The event MPM's own limit comes first, at 150 at the same time; memory would last for 9 000.",
        );
        check(
            &[end("memory", 40, true), end("workers", 150, false)],
            2,
            "Memory runs out first, at 40 requests at the same time, before the configuration's own limit. 2 numbers are not as written: see below.",
        );
        check(
            &[end("workers", u64::MAX, false)],
            0,
            "The event MPM's own limit comes first, at any number at the same time.",
        );
    }
}
