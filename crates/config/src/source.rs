//! Where configuration text came from, and places in it.

use std::ops::Range;

/// One text that was read: a file, or the directives of `-C` or `-c`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file's path as Apache would print it, or `-C/-c directives`.
    pub name: String,
    /// Its text. Bytes that are no UTF-8 were replaced when it was read.
    pub text: String,
    /// The line that included it; `None` for the main file and the command line.
    pub included_from: Option<Span>,
}

/// Names a [`Source`] of [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceId(pub(crate) u32);

/// A piece of a source: bytes `start..end`. It always lies inside its source, on character boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The source it points into.
    pub source: SourceId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes it covers, for slicing the source's text.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// From the start of `self` to the end of `other`, both of the same source.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        debug_assert_eq!(self.source, other.source);
        Span { end: other.end.max(self.start), ..self }
    }
}

/// A value together with where it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub span: Span,
}

/// All texts that were read, in the order of reading.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    list: Vec<Source>,
}

impl Sources {
    /// Adds a text.
    pub fn add(&mut self, source: Source) -> SourceId {
        let id = SourceId(u32::try_from(self.list.len()).expect("the number of sources is bounded far below 2^32"));
        self.list.push(source);
        id
    }

    /// The source that `id` names.
    pub fn source(&self, id: SourceId) -> &Source {
        &self.list[id.0 as usize]
    }

    /// Every source, with its name for spans.
    pub fn iter(&self) -> impl Iterator<Item = (SourceId, &Source)> {
        self.list.iter().enumerate().map(|(index, source)| (SourceId(index as u32), source))
    }

    /// The text under `span`.
    pub fn text(&self, span: Span) -> &str {
        &self.source(span.source).text[span.range()]
    }

    /// The line number, from 1, on which `span` starts.
    pub fn line(&self, span: Span) -> usize {
        let before = &self.source(span.source).text.as_bytes()[..span.start as usize];
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }
}
