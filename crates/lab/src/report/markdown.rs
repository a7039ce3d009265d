//! The report without its plots, as Markdown.

use std::fmt::Write as _;

use super::{Comparison, Table};
use crate::page::Frame;
use crate::results::Results;

/// The report of these results.
pub fn markdown(results: &Results) -> String {
    let frame = Frame::FILE;
    let page = super::page(results, &frame);
    let mut text = format!("# {}\n\n{}\n", page.title, page.answer.headline);
    for point in &page.answer.points {
        let _ = write!(text, "\n**{}.** {}\n", point.title, point.text);
        list(&mut text, &point.items);
    }
    if !page.answer.limits.is_empty() {
        text.push_str("\n## What limits these figures\n");
        list(&mut text, &page.answer.limits);
    }
    if let Some(comparison) = &page.comparison {
        compare(&mut text, comparison);
    }
    text.push_str("\n## Every figure\n");
    for table in &page.tables {
        figures(&mut text, table);
    }
    for (letter, meaning) in &page.marks {
        let _ = write!(text, "\n{letter}: {meaning}.\n");
    }
    text.push_str("\n## How it was measured\n\n");
    for (name, fact) in page.settings.iter().chain(&page.machine) {
        let _ = writeln!(text, "- {name}: {fact}");
    }
    let rows = page.targets.iter().map(|t| vec![t.label.as_str(), &t.version, &t.size, &t.fresh]);
    rows_of(&mut text, &["Target", "Version", "Processes / threads", "PSS unloaded, MiB"], rows);
    let _ = write!(text, "\nRepeat it with `{}`.\n", page.command);
    text
}

fn list(text: &mut String, items: &[String]) {
    if !items.is_empty() {
        text.push('\n');
    }
    items.iter().for_each(|item| _ = writeln!(text, "- {item}"));
}

fn compare(text: &mut String, comparison: &Comparison) {
    text.push_str("\n## CPU a request against the peers\n");
    let head: Vec<&str> = std::iter::once("").chain(comparison.columns.iter().map(String::as_str)).collect();
    let ratio = |ratio: &super::Ratio| match ratio.ends.is_empty() {
        true => ratio.text.clone(),
        false => format!("{} [{}]", ratio.text, ratio.ends),
    };
    let rows: Vec<Vec<String>> = comparison
        .rows
        .iter()
        .map(|(label, ratios)| std::iter::once(label.clone()).chain(ratios.iter().map(ratio)).collect())
        .collect();
    rows_of(text, &head, rows.iter().map(|row| row.iter().map(String::as_str).collect()));
}

fn figures(text: &mut String, table: &Table) {
    if table.rows.is_empty() {
        return;
    }
    let _ = write!(text, "\n### {}\n", table.caption);
    let head = [
        "Target",
        "Connections",
        "Requests/s",
        "Latency, median",
        "Latency, 99 %",
        "CPU a request",
        "PSS, MiB",
        "User",
        "Processes / threads",
        "Marks",
    ];
    let rows: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| {
            let figure = |(figure, interval): &(String, String)| match interval.is_empty() {
                true => figure.clone(),
                false => format!("{figure} [{interval}]"),
            };
            let first = [row.label.clone(), row.connections.to_string()];
            let last = [row.user.clone(), row.size.clone(), row.marks.clone()];
            first.into_iter().chain(row.figures.iter().map(figure)).chain(last).collect()
        })
        .collect();
    rows_of(text, &head, rows.iter().map(|row| row.iter().map(String::as_str).collect()));
}

/// A table; what would be taken for a border is not one.
fn rows_of<'t>(text: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<&'t str>>) {
    let _ = write!(text, "\n| {} |\n|---{}|\n", head.join(" | "), "|---:".repeat(head.len().saturating_sub(1)));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn it_tells_what_the_page_tells() {
        let mut results = fixture::clear_winner();
        results.targets[7].version = "nginx | 1.22".to_owned();
        let text = markdown(&results);
        for part in [
            "# Manifold, apache2 and nginx under load",
            "manifold percore",
            "### With keep-alive",
            "nginx \\| 1.22",
            "--seed 7",
        ] {
            assert!(text.contains(part), "no {part:?} in:\n{text}");
        }
        let columns = |line: &str| line.replace("\\|", "").matches('|').count();
        let tables: Vec<Vec<&str>> = text
            .split("\n\n")
            .map(|block| block.lines().filter(|line| line.starts_with('|')).collect())
            .filter(|block: &Vec<&str>| !block.is_empty())
            .collect();
        assert_eq!(tables.len(), 4, "{text}");
        assert!(
            tables.iter().all(|table| table.len() > 2 && table.iter().all(|row| columns(row) == columns(table[0])))
        );
        assert_eq!(tables[1].len(), 2 + 8 * 3, "each target under each load");
    }
}
