//! `httpd` and `serve`: arguments, configuration, start-up, and apachectl's verbs.
//!
//! [`main`] is `httpd`: `args` takes what was typed, `config` reads and resolves what is configured, `run` starts a server
//! or tells the one that runs. Everything happens in a process with one thread, which becomes the server's parent.
#![forbid(unsafe_code)]

mod activation;
mod args;
mod config;
mod control_group;
mod directives;
mod error_log;
mod files;
mod http;
mod loader;
mod locate;
mod location;
mod operator;
mod pid_file;
mod print;
mod reqtimeout;
mod run;
mod serve;
mod service_manager;
mod successor;

use std::ffi::OsString;
use std::process::ExitCode;

use manifold_config::document;
use manifold_mpm::head_start;
use manifold_mpm::limits::Model;

pub use locate::{DEFAULT_CONFIG, Located, State, locate};

/// The program `httpd` with the arguments that follow its name; `apachectl`'s verbs are understood as well.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    head_start::equip();
    run::main(args)
}

/// The program `serve` with the arguments that follow its name: a folder over HTTP, without configuration.
pub fn serve_main(args: impl Iterator<Item = OsString>) -> ExitCode {
    head_start::equip();
    serve::main(args)
}

/// A Markdown table of every directive there is, whatever the process model, for the manual.
pub fn directives_markdown() -> String {
    let mut rows = Vec::new();
    for row in Model::ALL.into_iter().flat_map(config::rows) {
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    document::markdown(&rows)
}
