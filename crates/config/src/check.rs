//! Carries out a configuration: every directive of the tree goes to the module that has its row.

use std::cell::{Cell, RefCell};
use std::path::Path;

use crate::apache;
use crate::diagnostic::Diagnostic;
use crate::nearest::nearest;
use crate::read::{self, Configuration};
use crate::table::{Call, Module, Row, SYNTAX_ERROR};
use crate::tree::Node;

/// Errors that are reported; a file of another kind altogether would give one a line.
const ERRORS_MAX: usize = 50;

/// The way out for what Apache has and Manifold has not.
const FOR_APACHE_ONLY: &str =
    "remove it, or put it between '<IfDefine !MANIFOLD>' and '</IfDefine>' to keep it for Apache";

/// A directive that exists, but not among the tables in use: its name, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// As the manual spells it.
    pub name: &'static str,
    /// Such as "it belongs to the MPM prefork".
    pub help: &'static str,
}

/// Carries out all directives, in order, and says what was wrong with them.
pub fn check(
    configuration: &Configuration,
    modules: &mut [&mut dyn Module],
    elsewhere: &[Elsewhere],
) -> Vec<Diagnostic> {
    let rows = modules.iter().flat_map(|module| module.rows()).collect();
    let (findings, errors) = (RefCell::new(Vec::new()), Cell::new(0));
    let walk = Walk { server_root: &configuration.server_root, rows, elsewhere, findings, errors };
    walk.all(&configuration.nodes, modules, None);
    walk.findings.into_inner()
}

struct Walk<'a> {
    server_root: &'a Path,
    rows: Vec<Row>,
    elsewhere: &'a [Elsewhere],
    findings: RefCell<Vec<Diagnostic>>,
    errors: Cell<usize>,
}

impl Walk<'_> {
    /// Carries out what stands outside of sections, or in one. What stands in a section that has an error is not looked at:
    /// one error is enough.
    fn all(&self, nodes: &[Node], modules: &mut [&mut dyn Module], section: Option<&'static str>) {
        for node in nodes {
            match self.apply(node, modules, section) {
                Ok(name) => self.all(node.body.as_deref().unwrap_or_default(), modules, Some(name)),
                Err(error) if self.errors.get() < ERRORS_MAX => {
                    self.errors.set(self.errors.get() + 1);
                    self.findings.borrow_mut().push(error);
                }
                Err(_) => {
                    if self.errors.replace(ERRORS_MAX + 1) == ERRORS_MAX {
                        let text = format!("There are more than {ERRORS_MAX} errors; further ones are not shown");
                        self.findings.borrow_mut().push(Diagnostic::error(None, text));
                    }
                    return;
                }
            }
        }
    }

    /// Carries out a directive, or begins a section; its name as the manual spells it.
    fn apply(
        &self,
        node: &Node,
        modules: &mut [&mut dyn Module],
        section: Option<&'static str>,
    ) -> Result<&'static str, Diagnostic> {
        let name = &node.name.value;
        let row = self.rows.iter().find(|row| row.name.eq_ignore_ascii_case(name));
        let Some(row) = row else {
            return Err(if node.body.is_some() { self.section(node) } else { self.unknown(node) });
        };
        misplaced(node, row, section).map_or(Ok(()), Err)?;
        let call = Call {
            name: row.name,
            span: node.span,
            name_span: node.name.span,
            args: &node.args,
            section,
            server_root: self.server_root,
            findings: &self.findings,
        };
        let outcome = modules.iter_mut().find_map(|module| module.apply(row.name, &call));
        outcome.unwrap_or_else(|| Err(self.unknown(node))).map(|()| row.name)
    }

    /// A section that has no row.
    fn section(&self, node: &Node) -> Diagnostic {
        let name = &node.name.value;
        if let Some(known) = apache::find(name) {
            let message = format!("{}> sections are not supported by this version", known.name);
            let error = Diagnostic::error(node.span, message).code(SYNTAX_ERROR).label("this section");
            return error.help(FOR_APACHE_ONLY);
        }
        self.unknown(node)
    }

    fn unknown(&self, node: &Node) -> Diagnostic {
        let name = &node.name.value;
        let message = format!(
            "Invalid command '{name}', perhaps misspelled or defined by a module not included in the server configuration"
        );
        let error = Diagnostic::error(node.name.span, message).code(SYNTAX_ERROR);
        if let Some(other) = self.elsewhere.iter().find(|other| other.name.eq_ignore_ascii_case(name)) {
            return error.label("not of the MPM in use").help(other.help);
        }
        if let Some(known) = apache::find(name) {
            let label = format!("Apache has it in {}; this version of Manifold does not", known.module);
            return error.label(label).help(FOR_APACHE_ONLY);
        }
        let known = self.rows.iter().chain(read::ROWS).map(|row| row.name);
        match nearest(name, known.chain(self.elsewhere.iter().map(|other| other.name))) {
            Some(nearest) => error.label("unknown").help(format!("did you mean '{nearest}'?")),
            None => error.label("unknown"),
        }
    }
}

/// What is wrong with the place where a directive stands, in Apache's words.
fn misplaced(node: &Node, row: &Row, section: Option<&'static str>) -> Option<Diagnostic> {
    let error = |message| Some(Diagnostic::error(node.name.span, message).code(SYNTAX_ERROR));
    let contexts = row.contexts;
    match section {
        None if !contexts.server => {
            let error = error(format!("{} not allowed here", row.name))?;
            Some(error.help("it belongs into a section such as '<Location /path>'"))
        }
        Some(section) if !contexts.directory => {
            let error = error(format!("{} not allowed in {section}> context", row.name))?;
            Some(error.help(format!("this version takes it in: {contexts}")))
        }
        _ => None,
    }
}
