//! `manifold status` and `manifold top`: what a server is doing, for the people who run it, once or live. Both read the
//! server's own status page (`server-status?json`) and know nothing that is not on it.
//!
//! [`status_main`] prints and exits as LSB asks of a status command; [`top_main`] draws until `q` is pressed. The view
//! (`screen`) and the text (`report`) are pure: a snapshot in, cells or lines out.
#![forbid(unsafe_code)]

mod args;
mod fetch;
mod live;
mod report;
mod screen;
mod text;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use manifold_httpd::{Located, State};

use crate::args::{Args, Whom};
use crate::fetch::{Failure, fetch};

/// Apache's `STATUSURL`.
const DEFAULT_URL: &str = "http://localhost/server-status";

/// Exit codes of a status command (Linux Standard Base, "Init Script Actions").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lsb {
    /// It runs.
    Running = 0,
    /// It is dead, and its PID file is still there.
    DeadWithPidFile = 1,
    /// It does not run.
    NotRunning = 3,
    /// That cannot be told.
    Unknown = 4,
}

/// The program `status` with the arguments that follow its name.
pub fn status_main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args = match Args::parse("status", args) {
        Ok(Some(args)) => args,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            tell(&format!("manifold status: {error}\n"));
            return ExitCode::from(Lsb::Unknown as u8);
        }
    };
    let (text, code) = status(&args);
    let _closed = io::stdout().write_all(text.as_bytes());
    ExitCode::from(code as u8)
}

/// The program `top` with the arguments that follow its name.
pub fn top_main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let outcome = Args::parse("top", args).and_then(|args| match args {
        None => Ok(()),
        Some(args) => {
            let url = match &args.whom {
                Whom::Url(url) => url.clone(),
                Whom::Configured(words) => located(words)?.url,
            };
            live::run(&url, args.interval.unwrap_or(Duration::from_secs(1)))
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&format!("manifold top: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// What `status` says, and its exit code.
fn status(args: &Args) -> (String, Lsb) {
    let (url, state) = match &args.whom {
        Whom::Url(url) => (url.clone(), None),
        Whom::Configured(words) => match located(words) {
            Ok(Located { url, state }) => (url, Some(state)),
            Err(error) => return (format!("{error}\n"), Lsb::Unknown),
        },
    };
    match state {
        Some(State::Stopped) => return ("The server is not running (no PID file).\n".to_owned(), Lsb::NotRunning),
        Some(State::Dead(pid)) => {
            return (format!("The server is dead; its PID file still names process {pid}.\n"), Lsb::DeadWithPidFile);
        }
        Some(State::Running(_)) | None => {}
    }
    match (fetch(&url), state) {
        (Ok(answer), _) if args.json => (answer.text, Lsb::Running),
        (Ok(answer), _) => (report::text(&answer.snapshot), Lsb::Running),
        (Err(failure), Some(State::Running(pid))) => (
            format!("The server runs (pid {pid}), but tells nothing of itself: {failure}\n{}", failure.help()),
            Lsb::Running,
        ),
        (Err(Failure::Refused(why)), _) => (format!("Nothing answers at {url}: {why}\n"), Lsb::NotRunning),
        (Err(failure), _) => (format!("{url}: {failure}\n{}", failure.help()), Lsb::Unknown),
    }
}

fn located(words: &[OsString]) -> Result<Located, String> {
    manifold_httpd::locate(words)
}

fn tell(text: &str) {
    let _closed = io::stderr().write_all(text.as_bytes());
}
