//! The view of studies as text for the terminal, as Markdown, and as one HTML file.

use std::fmt::Write as _;

use anyhow::Result;
use askama::Template;

use super::claims::Judgement;
use super::results::Studies;
use super::view::{Section, Table, View};
use crate::files::File;
use crate::output::Output;
use crate::page::Frame;
use crate::{table, text};

/// Writes all of a run that has ended, and tells the answer on the terminal.
///
/// # Errors
/// If a file cannot be written.
pub fn conclude(studies: &Studies, view: &View, out: &Output) -> Result<()> {
    out.write(studies)?;
    println!("\n{}", terminal(view));
    println!("Report: {}", out.folder().join("report.html").display());
    println!("Took {}; repeat it with: {}", text::duration(studies.took_s), view.command);
    Ok(())
}

/// The verdicts, and everything but the plots as Markdown.
///
/// # Errors
/// If the verdicts cannot be written as JSON, which none prevents.
pub fn texts(view: &View) -> Result<Vec<File>> {
    Ok(vec![File::json("claims.json", &view.judgements)?, File::new("report.md", markdown(view))])
}

/// The report as one page that needs nothing else.
///
/// # Errors
/// If the template fails, which no content makes it do.
pub fn html(view: &View, frame: &Frame) -> Result<String, askama::Error> {
    Page { view, frame }.render()
}

#[derive(Template)]
#[template(path = "study.html")]
struct Page<'v> {
    view: &'v View,
    frame: &'v Frame,
}

/// What is told at the end of the run: of each study its verdicts and its first table.
pub fn terminal(view: &View) -> String {
    let mut text = format!("{}\n", view.headline);
    for section in &view.sections {
        let _ = write!(text, "\n{}: {}\n", section.name, section.answer);
        let rows: Vec<Vec<String>> = section.claims.iter().map(claim_row).collect();
        if !rows.is_empty() {
            let lines = table::lines(&["server", "verdict", "measured", "published", "claim"], &rows);
            lines.lines().for_each(|line| _ = writeln!(text, "  {line}"));
        }
        if let Some(first) = section.tables.first() {
            let head: Vec<&str> = std::iter::once("").chain(first.head.iter().map(|(head, _)| head.as_str())).collect();
            let row = |row: &super::view::Row| {
                let cells = row.cells.iter().map(|(figure, _)| figure.clone());
                std::iter::once(row.name.clone()).chain(cells).collect()
            };
            let rows: Vec<Vec<String>> = first.rows.iter().map(row).collect();
            let _ = write!(text, "\n  {}\n", first.title);
            table::lines(&head, &rows).lines().for_each(|line| _ = writeln!(text, "  {line}"));
        }
        section.limits.iter().for_each(|limit| _ = writeln!(text, "  - {limit}"));
    }
    text.push('\n');
    view.limits.iter().for_each(|limit| _ = writeln!(text, "- {limit}"));
    text
}

fn claim_row(judgement: &Judgement) -> Vec<String> {
    vec![
        judgement.server.clone(),
        judgement.verdict.text().to_owned(),
        judgement.figure(),
        judgement.published(),
        judgement.claim.clone(),
    ]
}

/// Everything but the plots.
fn markdown(view: &View) -> String {
    let mut text = format!("# {}\n\n{}\n\n", view.title, view.headline);
    view.limits.iter().for_each(|limit| _ = writeln!(text, "- {limit}"));
    let facts: Vec<String> = view.facts.iter().map(|(name, fact)| format!("{name}: {fact}")).collect();
    let _ = write!(text, "\n{}.\n\nRepeat it with `{}`.\n", facts.join(". "), view.command);
    view.sections.iter().for_each(|section| markdown_section(&mut text, section));
    text
}

fn markdown_section(text: &mut String, section: &Section) {
    let Section { title, question, answer, source, .. } = section;
    let _ = write!(text, "\n## {title}\n\n{question} {answer} {source}\n\n");
    section.limits.iter().for_each(|limit| _ = writeln!(text, "- {limit}"));
    if !section.claims.is_empty() {
        text.push_str("\n| Server | Verdict | Measured | Published | Claim |\n|---|---|---|---|---|\n");
        section.claims.iter().for_each(|claim| _ = writeln!(text, "| {} |", claim_row(claim).join(" | ")));
    }
    section.tables.iter().for_each(|table| markdown_table(text, table));
}

fn markdown_table(text: &mut String, table: &Table) {
    let head: Vec<&str> = table.head.iter().map(|(head, _)| head.as_str()).collect();
    let _ = write!(text, "\n### {}\n\n|  | {} |\n|---{}|\n", table.title, head.join(" | "), "|---:".repeat(head.len()));
    for row in &table.rows {
        let cells: Vec<&str> = row.cells.iter().map(|cell| cell.0.as_str()).collect();
        let _ = writeln!(text, "| {} | {} |", row.name, cells.join(" | "));
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn every_form_tells_the_same() {
        let view = View::of(&fixture::studies());
        let html = html(&view, &Frame::FILE).expect("the template renders");
        for (form, text) in [("terminal", terminal(&view)), ("markdown", markdown(&view)), ("html", html.clone())] {
            let claim = view.judgements[0].claim.as_str();
            for part in [view.headline.as_str(), claim, "reproduced", "contradicted", "published: worker", "1.96"] {
                assert!(text.contains(part), "no {part:?} in {form}:\n{text}");
            }
        }
        assert!(html.contains("<svg") && !html.contains("http://") && !html.contains("https://"));
        assert!(html.contains("id=\"default-mpms\""));
        let markdown = markdown(&view);
        let rows: Vec<&str> = markdown.lines().filter(|line| line.starts_with("| ")).collect();
        assert!(rows.len() > 10, "{markdown}");
    }
}
