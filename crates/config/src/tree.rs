//! The configuration as it was written, after `Include`, `Define` and the conditional sections were carried out.

use crate::source::{Span, Spanned};

/// A directive, or a section with directives in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// As written; names are compared without regard to case. A section's name starts with `<`.
    pub name: Spanned<String>,
    /// Words after the name, quotes taken off and variables replaced.
    pub args: Vec<Spanned<String>>,
    /// From the name to the last word.
    pub span: Span,
    /// The line with the values of its variables in place, if it has any.
    pub expanded: Option<String>,
    /// What stands in a section; `None` for a directive.
    pub body: Option<Vec<Node>>,
}
