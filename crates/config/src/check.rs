//! Carries out a configuration: every directive of the tree goes to the module that has its row.

use std::cell::RefCell;
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
    let walk = Walk { server_root: &configuration.server_root, rows, elsewhere, findings: RefCell::new(Vec::new()) };
    let mut errors = 0;
    for node in &configuration.nodes {
        if let Err(error) = walk.apply(node, modules) {
            errors += 1;
            if errors > ERRORS_MAX {
                let text = format!("There are more than {ERRORS_MAX} errors; further ones are not shown");
                walk.findings.borrow_mut().push(Diagnostic::error(None, text));
                break;
            }
            walk.findings.borrow_mut().push(error);
        }
    }
    walk.findings.into_inner()
}

struct Walk<'a> {
    server_root: &'a Path,
    rows: Vec<Row>,
    elsewhere: &'a [Elsewhere],
    findings: RefCell<Vec<Diagnostic>>,
}

impl Walk<'_> {
    fn apply(&self, node: &Node, modules: &mut [&mut dyn Module]) -> Result<(), Diagnostic> {
        if node.body.is_some() {
            return Err(self.section(node));
        }
        let name = &node.name.value;
        let call = Call {
            name: "",
            span: node.span,
            name_span: node.name.span,
            args: &node.args,
            server_root: self.server_root,
            findings: &self.findings,
        };
        modules.iter_mut().find_map(|module| module.apply(name, &call)).unwrap_or_else(|| Err(self.unknown(node)))
    }

    /// Sections other than the conditional ones are not built. What stands in them is not looked at: one error is enough.
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
