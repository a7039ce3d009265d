//! Apache's configuration language: text in; a tree, values and findings with their places out.
//!
//! [`Reader`] takes files and command-line lines and carries out what Apache carries out while reading (`Include`,
//! `Define`, `IfModule` ...). [`check()`] then gives each directive to the module whose [`Table`] has a row for it.
//! [`render()`] shows what was wrong. Nothing here touches the system except through [`World`].
#![forbid(unsafe_code)]

mod apache;
pub mod check;
pub mod diagnostic;
pub mod document;
mod include;
mod line;
mod nearest;
pub mod read;
pub mod render;
pub mod source;
pub mod table;
pub mod tree;
pub mod world;

pub use check::{Elsewhere, check};
pub use diagnostic::{Diagnostic, Severity};
pub use read::{Configuration, Loader, Reader};
pub use render::{Style, render, render_line};
pub use source::{Source, SourceId, Sources, Span, Spanned};
pub use table::{ArgShape, Call, Contexts, Directive, Module, Row, Table};
pub use world::{System, World};
