//! A user's own Apache configuration as something that can be measured: a private copy in one file, whose server shares nothing with
//! the one that may be running from the original.
//!
//! Text in, text out. [`OwnConfig::read`] follows every `Include` through the [`World`] it is given, with Apache's own rules, and keeps
//! each directive with the file and line it stands in. [`OwnConfig::endpoints`] tells where it would listen. [`OwnConfig::copy`] writes
//! it out again: the MPM swapped, settings replaced, everything the server would write or bind moved into a folder and to ports
//! that are given ([`mod@place`] is the table of that). Only [`mod@installed`] touches the system: it asks the program what it is.
//! The original files are read and never written.

mod endpoint;
pub mod installed;
mod modules;
mod mpm;
mod place;
#[cfg(test)]
mod tests;
mod view;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use manifold_config::{Configuration, Reader, Severity, Span, World};

pub use endpoint::Endpoint;
pub use modules::Loaded;
pub use place::ACCESS_LOG;

use crate::target::Model;

/// What an Apache program says of itself, and what its distribution starts it with.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Where relative paths start until the configuration says `ServerRoot`.
    pub server_root: PathBuf,
    /// Source files of the modules that are compiled in (`core.c`, `mod_so.c`), as `-l` prints them.
    pub compiled_in: Vec<String>,
    /// What the environment holds beside the usual: Debian's `envvars`.
    pub variables: BTreeMap<String, String>,
}

/// What is read.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The main configuration file, by an absolute path.
    pub file: &'a Path,
    /// The model in place of the file's; `None` keeps that.
    pub model: Option<Model>,
    /// Where Debian's `APACHE_LOG_DIR`, `APACHE_RUN_DIR` and the like shall point; `None` leaves them as they are.
    pub folder: Option<&'a Path>,
}

/// A configuration that was read: all its files in one tree, `Include`, `Define` and the conditional sections carried out.
#[derive(Debug)]
pub struct OwnConfig {
    /// The main file.
    pub file: PathBuf,
    /// Directives with their places.
    pub configuration: Configuration,
    /// The modules that it loads, in order, the MPM already swapped.
    pub modules: Vec<Loaded>,
    /// The model that its files load, before any swap; `None` if it is compiled in or no known one.
    pub own_model: Option<Model>,
    /// The model that was asked for instead.
    model: Option<Model>,
}

/// What is different in a copy.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    /// Directives that take the place of all of their name outside of `<Directory>`, `<Location>` and their like.
    pub settings: &'a [(String, String)],
    /// Where the server keeps what it writes; it must exist.
    pub folder: &'a Path,
    /// A port on 127.0.0.1 for each of [`OwnConfig::endpoints`], in their order.
    pub ports: &'a [u16],
}

/// A private copy.
#[derive(Debug, PartialEq)]
pub struct Copy {
    /// The configuration in one file.
    pub text: String,
    /// Folders below the given one that the server needs and that every user must be able to write.
    pub folders: Vec<&'static str>,
    /// It hands requests on to other servers of the user's, whose work is part of its answers.
    pub passes_on: bool,
    /// What is not as in the original and may matter to a figure, as sentences without their full stop.
    pub notes: Vec<String>,
}

impl OwnConfig {
    /// Reads a configuration with everything it includes.
    ///
    /// # Errors
    /// `FILE:LINE: what is wrong (the way out)`, a line each.
    pub fn read(world: &dyn World, program: &Program, wanted: &Wanted<'_>) -> Result<OwnConfig, String> {
        let world = view::View::new(world, program, wanted);
        let mut modules = modules::Modules::new(&program.compiled_in, wanted.model);
        let mut reader = Reader::new(&world, &mut modules, &program.server_root, &[]);
        reader.file(wanted.file);
        let configuration = reader.finish();
        let errors = configuration.findings.iter().filter(|finding| finding.severity == Severity::Error);
        let said: Vec<String> = errors
            .map(|finding| {
                let place =
                    finding.span.map(|span| format!("{}: ", place_of(&configuration, span))).unwrap_or_default();
                let help = finding.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
                // Some of Apache's own messages begin with it.
                let message = finding.message.strip_prefix(&place).unwrap_or(&finding.message);
                format!("{place}{message}{help}")
            })
            .collect();
        if !said.is_empty() {
            return Err(said.join("\n"));
        }
        let (own_model, modules) = modules.end(wanted.file)?;
        Ok(OwnConfig { file: wanted.file.to_owned(), configuration, modules, own_model, model: wanted.model })
    }

    /// Every place it would listen at, in order, each once; and the addresses of virtual hosts that share a wildcard's port.
    ///
    /// # Errors
    /// `FILE:LINE: what is wrong`: an address that cannot be read, or none at all.
    pub fn endpoints(&self) -> Result<Vec<Endpoint>, String> {
        endpoint::all(self)
    }

    /// The private copy.
    ///
    /// # Errors
    /// `FILE:LINE: what is wrong`: an address that cannot be read, or something that would leave the machine.
    pub fn copy(&self, changes: &Changes<'_>) -> Result<Copy, String> {
        write::copy(self, changes)
    }

    /// `FILE:LINE`.
    pub fn place(&self, span: Span) -> String {
        place_of(&self.configuration, span)
    }
}

fn place_of(configuration: &Configuration, span: Span) -> String {
    format!("{}:{}", configuration.sources.source(span.source).name, configuration.sources.line(span))
}
