//! Apache's configuration language: text in; a tree, values and findings with their places out.
#![forbid(unsafe_code)]

pub mod diagnostic;
pub mod source;

pub use diagnostic::{Diagnostic, Severity};
pub use source::{Source, SourceId, Sources, Span, Spanned};
