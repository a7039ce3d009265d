//! Findings as text: first what Apache would print, then the place as rustc would show it.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::diagnostic::{Diagnostic, Severity};
use crate::source::{Sources, Span};
use crate::table::SYNTAX_ERROR;

/// Bytes that are shown before and after the start of a place; a longer line is cut.
const SHOWN_MAX: usize = 160;

/// Characters of a message that are shown.
const MESSAGE_MAX: usize = 1_000;

/// Colours or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// For a file, a pipe, or a terminal that should not have colours.
    Plain,
    /// ANSI colours.
    Coloured,
}

/// The finding as lines, each with its line end. `program` is the name under which the server was called.
pub fn render(finding: &Diagnostic, sources: &Sources, program: &str, style: Style) -> String {
    let mut text = headline(finding, sources, program);
    text.push('\n');
    let Some(span) = finding.span else {
        if let Some(help) = &finding.help {
            text.push_str(&format!("  = help: {help}\n"));
        }
        return text;
    };
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Coloured => Renderer::styled(),
    };
    let (shown, start) = shown(sources, span);
    let marked = (span.start as usize - start).min(shown.len())..(span.end as usize - start).min(shown.len());
    let annotation = AnnotationKind::Primary.span(marked);
    let annotation = if finding.label.is_empty() { annotation } else { annotation.label(&*finding.label) };
    let snippet = Snippet::source(shown).line_start(sources.line(span)).path(&*sources.source(span.source).name);
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Info => Level::INFO,
    };
    let mut group = Group::with_level(level).element(snippet.annotation(annotation));
    if let Some(from) = sources.source(span.source).included_from {
        let place = format!("included by line {} of {}", sources.line(from), sources.source(from.source).name);
        group = group.element(Level::NOTE.message(place));
    }
    if let Some(help) = &finding.help {
        group = group.element(Level::HELP.message(&**help));
    }
    text.push_str(&renderer.render(&[group]));
    text.push('\n');
    text
}

/// The finding as one line for a log, without its line end.
pub fn render_line(finding: &Diagnostic, sources: &Sources, program: &str) -> String {
    let mut text = headline(finding, sources, program).replace('\n', " ");
    if let Some(help) = &finding.help {
        text.push_str(&format!(" ({help})"));
    }
    text
}

/// What Apache prints: `AH00526: Syntax error on line 3 of FILE:` and the reason on a line of its own; without a number
/// both on one line behind the program's name; other numbered errors and warnings without the place.
fn headline(finding: &Diagnostic, sources: &Sources, program: &str) -> String {
    let message = &printable(&finding.message);
    let code = finding.code.map(|code| format!("AH{code:05}: ")).unwrap_or_default();
    let place = finding.span.map(|span| {
        let name = &sources.source(span.source).name;
        format!("Syntax error on line {} of {name}:", sources.line(span))
    });
    match (finding.severity, place) {
        (Severity::Error, Some(place)) if finding.code == Some(SYNTAX_ERROR) => format!("{code}{place}\n{message}"),
        (Severity::Error, Some(place)) if finding.code.is_none() => format!("{program}: {place} {message}"),
        (Severity::Error, _) => format!("{code}{program}: {message}"),
        (Severity::Warning | Severity::Info, _) => format!("{code}{message}"),
    }
}

/// Without anything that steers a terminal, and not endless: a message may hold words of a file that is no configuration.
fn printable(text: &str) -> String {
    let mut printable = String::new();
    for character in text.chars().take(MESSAGE_MAX) {
        if character.is_control() {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

/// The lines that a span touches, cut around the place when they are long, and where in the source that starts.
fn shown(sources: &Sources, span: Span) -> (&str, usize) {
    let text = &sources.source(span.source).text;
    let (start, end) = (span.start as usize, span.end as usize);
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[end..].find('\n').map_or(text.len(), |at| end + at);
    let from = text.floor_char_boundary(line_start.max(start.saturating_sub(SHOWN_MAX)));
    let until = text.ceil_char_boundary(line_end.min(start + SHOWN_MAX));
    (text[from..until].trim_end_matches('\r'), from)
}
