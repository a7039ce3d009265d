//! From a source's bytes to logical lines and words: continuation, variables, quotes. Every piece knows where it was written.

use std::ops::Range;

use crate::source::{SourceId, Span, Spanned};

/// A line after continuation and variables, with the way back to the source.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    source: SourceId,
    pub(crate) text: String,
    /// In order, and without gaps in `text`.
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
struct Piece {
    /// Where it starts in the line's text.
    at: usize,
    written: Range<usize>,
    /// Written as it stands in the text, byte for byte; otherwise it is a variable's value.
    literal: bool,
}

impl Line {
    /// The logical line that starts at byte `from` of `text`, and where the next one starts. A backslash at the end of a
    /// line joins it with the next (also in a comment, as in Apache). White space around the whole is dropped.
    pub(crate) fn read(source: SourceId, text: &str, from: usize) -> (Line, usize) {
        let mut line = Line { source, text: String::new(), pieces: Vec::new() };
        let mut next = from;
        loop {
            let rest = &text[next..];
            let length = rest.find('\n').unwrap_or(rest.len());
            let physical = &rest[..length];
            let physical = physical.strip_suffix('\r').unwrap_or(physical);
            let start = next;
            next += length + usize::from(length < rest.len());
            let (content, goes_on) = match physical.strip_suffix('\\') {
                Some(content) => (content, next < text.len()),
                None => (physical, false),
            };
            // The start of the logical line is trimmed here; its end once all is joined.
            let content = if line.text.is_empty() { content.trim_start_matches(is_space) } else { content };
            let offset = start + (content.as_ptr() as usize - rest.as_ptr() as usize);
            line.push(content, offset..offset + content.len(), true);
            if !goes_on {
                break;
            }
        }
        line.text.truncate(line.text.trim_end_matches(is_space).len());
        (line, next)
    }

    /// Puts values in place of `${NAME}`. `lookup` gets the name and the place; `None` leaves it as it is written.
    /// `None` as a whole when the line would grow beyond `most` bytes.
    pub(crate) fn expand(self, most: usize, mut lookup: impl FnMut(&str, Span) -> Option<String>) -> Option<Line> {
        if !self.text.contains("${") {
            return Some(self);
        }
        let mut expanded = Line { source: self.source, text: String::new(), pieces: Vec::new() };
        let mut at = 0;
        while let Some((start, end)) = find_variable(&self.text, at) {
            let value = lookup(&self.text[start + 2..end - 1], self.span(start..end));
            let Some(value) = value else {
                expanded.copy(&self, at..end);
                at = end;
                continue;
            };
            expanded.copy(&self, at..start);
            expanded.push(&value, self.span(start..end).range(), false);
            at = end;
            if expanded.text.len() > most {
                return None;
            }
        }
        expanded.copy(&self, at..self.text.len());
        Some(expanded)
    }

    /// Where the bytes `range` of the text were written.
    pub(crate) fn span(&self, range: Range<usize>) -> Span {
        let piece = |at: usize| &self.pieces[self.pieces.partition_point(|piece| piece.at <= at).saturating_sub(1)];
        let first = piece(range.start);
        let start = if first.literal { first.written.start + (range.start - first.at) } else { first.written.start };
        let last = piece(range.end.saturating_sub(1).max(range.start));
        let end = if last.literal { last.written.start + (range.end - last.at) } else { last.written.end };
        // A value may be followed by less than what was written for it; a span never runs backwards.
        Span { source: self.source, start: start as u32, end: end.max(start) as u32 }
    }

    /// The whole line.
    pub(crate) fn whole(&self) -> Span {
        self.span(0..self.text.len())
    }

    /// The text, if a variable's value is in it.
    pub(crate) fn expanded(&self) -> Option<String> {
        self.pieces.iter().any(|piece| !piece.literal).then(|| self.text.clone())
    }

    /// The words of `range`, as `ap_getword_conf` takes them: separated by white space, or in quotes.
    pub(crate) fn words(&self, range: Range<usize>) -> Vec<Spanned<String>> {
        let mut at = range.start;
        let mut words = Vec::new();
        while let Some((value, written)) = next_word(&self.text[..range.end], at) {
            at = written.end;
            words.push(Spanned { value, span: self.span(written) });
        }
        words
    }

    /// The first word, and where it ends in the text.
    pub(crate) fn first_word(&self) -> Option<(Spanned<String>, usize)> {
        let (value, written) = next_word(&self.text, 0)?;
        let end = written.end;
        Some((Spanned { value, span: self.span(written) }, end))
    }

    fn copy(&mut self, from: &Line, range: Range<usize>) {
        let mut at = range.start;
        while at < range.end {
            let index = from.pieces.partition_point(|piece| piece.at <= at) - 1;
            let until = from.pieces.get(index + 1).map_or(range.end, |next| next.at.min(range.end));
            self.push(&from.text[at..until], from.span(at..until).range(), from.pieces[index].literal);
            at = until;
        }
    }

    fn push(&mut self, text: &str, written: Range<usize>, literal: bool) {
        self.pieces.push(Piece { at: self.text.len(), written, literal });
        self.text.push_str(text);
    }
}

/// What `isspace` takes for white space.
pub(crate) fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t'..='\r')
}

/// The next `${...}` at or after `from`: its first byte and one past its last.
fn find_variable(text: &str, from: usize) -> Option<(usize, usize)> {
    let start = from + text[from..].find("${")?;
    let end = start + text[start..].find('}')? + 1;
    Some((start, end))
}

/// The next word at or after `from`, and where it stands. Inside quotes a backslash keeps the quote or a backslash; outside
/// it keeps a backslash only. A quote that is never closed ends with the text.
fn next_word(text: &str, from: usize) -> Option<(String, Range<usize>)> {
    let rest = text[from..].trim_start_matches(is_space);
    let start = text.len() - rest.len();
    let first = rest.chars().next()?;
    let quote = Some(first).filter(|first| matches!(first, '"' | '\''));
    let mut word = String::new();
    let mut characters = rest.char_indices().skip(usize::from(quote.is_some())).peekable();
    while let Some((at, character)) = characters.next() {
        let ends = quote.map_or_else(|| is_space(character), |quote| character == quote);
        if ends {
            return Some((word, start..start + at + usize::from(quote.is_some())));
        }
        let escaped = characters.next_if(|(_, next)| character == '\\' && (*next == '\\' || Some(*next) == quote));
        word.push(escaped.map_or(character, |(_, next)| next));
    }
    Some((word, start..text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let (line, _) = Line::read(SourceId(0), text, 0);
        line.words(0..line.text.len()).into_iter().map(|word| word.value).collect()
    }

    /// The words of the first logical line, as Apache 2.4.71 takes them.
    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(words(text), expected, "{text:?}");
    }

    #[test]
    fn words_are_taken_as_apache_takes_them() {
        check("Listen 80", &["Listen", "80"]);
        check("  Listen\t\t80  \r\nNext", &["Listen", "80"]);
        check(r#"User "a b" 'c d'"#, &["User", "a b", "c d"]);
        check(r#"User "a\"b" 'c\'d'"#, &["User", "a\"b", "c'd"]);
        check(r#"User "a\\b" c\\d e\"f"#, &["User", r"a\b", r"c\d", r#"e\"f"#]);
        check(r"User a'b'", &["User", "a'b'"]);
        check(r#"User "ab"cd"#, &["User", "ab", "cd"]);
        check(r#"User "never closed "#, &["User", "never closed"]);
        check(r#"User """#, &["User", ""]);
        check("Ser\\\nverName a\\\n b", &["ServerName", "a", "b"]);
        check("User a\\", &["User", "a"]);
        check("User a\\\r\n b\r\n", &["User", "a", "b"]);
        check("", &[]);
    }

    #[test]
    fn places_survive_continuation_and_variables() {
        let text = "Define X\\\n  y ${LONG}z \"q r\"";
        let (line, next) = Line::read(SourceId(0), text, 0);
        assert_eq!(next, text.len());
        let line = line.expand(100, |name, _| (name == "LONG").then(|| "one two".to_owned())).unwrap();
        let words = line.words(0..line.text.len());
        let places: Vec<_> = words.iter().map(|word| (word.value.as_str(), &text[word.span.range()])).collect();
        let expected = [
            ("Define", "Define"),
            ("X", "X"),
            ("y", "y"),
            ("one", "${LONG}"),
            ("twoz", "${LONG}z"),
            ("q r", "\"q r\""),
        ];
        assert_eq!(places, expected);
    }

    #[test]
    fn variables_are_replaced_once_and_bounded() {
        let expand = |text: &str| {
            let (line, _) = Line::read(SourceId(0), text, 0);
            line.expand(40, |name, _| (name == "A").then(|| "${A}".to_owned())).map(|line| line.text)
        };
        assert_eq!(expand("a${A}b$${A}${").as_deref(), Some("a${A}b$${A}${"));
        assert_eq!(expand("${B}${}").as_deref(), Some("${B}${}"));
        assert_eq!(expand(&"${A}".repeat(20)), None);
    }
}
