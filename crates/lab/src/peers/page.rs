//! The view of a run of `peers` or `generators` as text for the terminal, as Markdown, and as one HTML file.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use askama::Template;

use super::claims::{Judgement, Verdict};
use super::view::{Table, View};
use crate::files::File;
use crate::keeper::Keeper;
use crate::output::Output;
use crate::page::Frame;
use crate::store::Stored;
use crate::{table, text};

/// Writes all of a run that has ended, and tells the answer on the terminal. `place` is its name in a page of Markdown.
///
/// # Errors
/// If a file cannot be written.
pub fn conclude<T: Stored>(
    kept: &T,
    view: &View,
    out: &Output,
    markdown: Option<(&Path, &str)>,
    keeper: Keeper,
) -> Result<()> {
    out.write(kept)?;
    println!("\n{}", terminal(view));
    if let Some((file, place)) = markdown {
        put(file, place, &self::markdown(view))?;
        println!("Markdown: {}", file.display());
    }
    println!("Report: {}", out.folder().join("report.html").display());
    println!("Took {}; repeat it with: {}", text::duration(keeper.took_s()), view.command);
    keeper.end(kept);
    Ok(())
}

/// The verdicts, and everything but the plots as Markdown.
///
/// # Errors
/// If the verdicts cannot be written as JSON, which none prevents.
pub fn texts(view: &View) -> Result<Vec<File>> {
    Ok(vec![File::json("claims.json", &view.judgements)?, File::new("report.md", markdown(view))])
}

/// What is told at the end of the run: the verdicts, and the tables that matter most.
pub fn terminal(view: &View) -> String {
    let mut text = format!("{}\n\n", view.headline);
    let rows: Vec<Vec<String>> = view.claims.iter().flat_map(|claims| claims.rows.iter().map(claim_row)).collect();
    let lines = table::lines(&["verdict", "measured", "claim"], &rows);
    let mut lines = lines.lines().skip(1);
    for claims in &view.claims {
        let _ = writeln!(text, "{}:", claims.about);
        for line in lines.by_ref().take(claims.rows.len()) {
            let _ = writeln!(text, "  {line}");
        }
    }
    let is_shown = |table: &&Table| view.words.shown.iter().any(|title| table.title.starts_with(title));
    for shown in view.tables.iter().filter(is_shown) {
        let head: Vec<&str> = shown.head.iter().map(String::as_str).collect();
        let rows: Vec<Vec<String>> =
            shown.rows.iter().map(|row| row.iter().map(|cell| cell.0.clone()).collect()).collect();
        let _ = write!(text, "\n{}\n{}", shown.title, table::lines(&head, &rows));
    }
    text.push('\n');
    for limit in &view.limits {
        let _ = writeln!(text, "- {limit}");
    }
    text
}

fn claim_row(judgement: &Judgement) -> Vec<String> {
    vec![judgement.verdict.text().to_owned(), judgement.figure(), judgement.claim.clone()]
}

/// Everything but the plots, for a page of documentation.
pub fn markdown(view: &View) -> String {
    let mut text = format!("{}\n\n", view.headline);
    for limit in &view.limits {
        let _ = writeln!(text, "- {limit}");
    }
    let facts: Vec<String> = view.facts.iter().map(|(name, fact)| format!("{name}: {fact}")).collect();
    let _ = write!(text, "\n{}.\n\nRepeat it with `{}`.\n", facts.join(". "), view.command);
    text.push_str("\n### Claims\n");
    for claims in &view.claims {
        let _ = write!(text, "\n{}:\n\n| Verdict | Measured | Claim |\n|---|---|---|\n", claims.about);
        for judgement in &claims.rows {
            let mut row = claim_row(judgement);
            if judgement.verdict == Verdict::Missed {
                row[0] = format!("**{}**", row[0]);
            }
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
    }
    for table in &view.tables {
        markdown_table(&mut text, table);
    }
    text
}

fn markdown_table(text: &mut String, table: &Table) {
    let _ = write!(text, "\n### {}\n\n{}\n\n", table.title, table.remark);
    let _ = writeln!(text, "| {} |", table.head.join(" | "));
    let _ = writeln!(text, "|---{}|", "|---:".repeat(table.head.len().saturating_sub(1)));
    for row in &table.rows {
        let cells: Vec<&str> = row.iter().map(|cell| cell.0.as_str()).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}

/// Writes Markdown into a file: between the lines `<!-- begin NAME -->` and `<!-- end NAME -->` that mark its place there, or as the
/// whole of a new file.
///
/// # Errors
/// If the file is there without such lines, or cannot be written.
pub fn put(file: &Path, name: &str, markdown: &str) -> Result<()> {
    let text = match fs::read_to_string(file) {
        Ok(old) => between(&old, name, markdown).with_context(|| format!("--markdown {}", file.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => markdown.to_owned(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn between(old: &str, name: &str, markdown: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- begin {name} -->"), format!("<!-- end {name} -->"));
    let places = old.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let Some((before, after)) = places else {
        bail!("the file is there and has no lines {begin} and {end} to write between");
    };
    Ok(format!("{before}{begin}\n\n{}\n\n{end}{after}", markdown.trim_end()))
}

/// The report as one page that needs nothing else.
///
/// # Errors
/// If the template fails, which no content makes it do.
pub fn html(view: &View, frame: &Frame) -> Result<String, askama::Error> {
    Page { view, frame }.render()
}

#[derive(Template)]
#[template(path = "peers.html")]
struct Page<'v> {
    view: &'v View,
    frame: &'v Frame,
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn every_form_tells_the_same() {
        let view = View::of(&fixture::peers());
        let claim = "manifold percore at most 0.55 of nginx, c = 100";
        let html = html(&view, &Frame::FILE).expect("the template renders");
        for (form, text) in [("terminal", terminal(&view)), ("markdown", markdown(&view)), ("html", html.clone())] {
            for part in [view.headline.as_str(), claim, "0.50 [0.50 to 0.50]", "apache2 prefork", "saturated"] {
                assert!(text.contains(part), "no {part:?} in {form}:\n{text}");
            }
        }
        assert!(html.matches("<svg").count() == 10 && !html.contains("http://") && !html.contains("https://"));
        let markdown = markdown(&view);
        let tables: Vec<&str> = markdown.lines().filter(|line| line.starts_with('|')).collect();
        let columns = |line: &str| line.matches('|').count();
        assert!(tables.len() > 60 && tables.iter().all(|line| columns(line) >= 4), "{markdown}");
    }

    #[test]
    fn a_page_keeps_what_is_around() {
        let (begin, end) = ("<!-- begin it -->", "<!-- end it -->");
        let old = format!("# Title\n\n{begin}\nold\n{end}\n\nmore\n");
        let new = between(&old, "it", "new\n").expect("it has the lines");
        assert_eq!(new, format!("# Title\n\n{begin}\n\nnew\n\n{end}\n\nmore\n"));
        assert_eq!(between(&new, "it", "new\n").expect("again"), new);
        for (text, name) in [("# Title\n", "it"), (old.as_str(), "other")] {
            let said = between(text, name, "new").expect_err("no place").to_string();
            assert!(said.contains(&format!("begin {name}")) && said.contains(&format!("end {name}")), "{said}");
        }
    }
}
