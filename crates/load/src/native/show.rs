//! A report leaves: on standard output, into files, and as an exit status.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{files, summary};
use crate::report::Report;
use crate::verdict::{self, Breach, Threshold};

/// Exit status of a run that has passed a threshold, as k6 has it.
pub const FAILED: u8 = 99;

/// In which forms a report is wanted.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// JSON instead of text.
    pub json: bool,
    /// Where the time series goes.
    pub csv: Option<PathBuf>,
    /// Where the latencies go, as an HdrHistogram log.
    pub hdr: Option<PathBuf>,
}

/// Writes the report.
///
/// # Errors
/// A sentence that names the file.
pub fn show(report: &Report, output: &Output) -> io::Result<()> {
    let write = |path: &Path, bytes: &[u8]| {
        std::fs::write(path, bytes)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display())))
    };
    let mut out = io::stdout().lock();
    // The report first: a full disk must not take it along.
    if output.json {
        serde_json::to_writer(&mut out, report)?;
        out.write_all(b"\n")?;
    } else {
        out.write_all(summary::render(report).as_bytes())?;
    }
    if let Some(path) = &output.csv {
        write(path, files::csv(&report.series).as_bytes())?;
    }
    if let Some(path) = &output.hdr {
        write(path, &files::hdr(report)?)?;
    }
    Ok(())
}

/// Writes text to standard output.
///
/// # Errors
/// That of the write.
pub fn print(text: &str) -> io::Result<()> {
    io::stdout().lock().write_all(text.as_bytes())
}

/// Tells the conditions that a run holds; the status to exit with.
pub fn verdict(report: &Report, fail_on: &[Threshold]) -> ExitCode {
    status(&verdict::breaches(fail_on, report, None), is_flagged(report))
}

/// Tells what was passed; the status to exit with.
pub fn status(breaches: &[Breach], is_flagged: bool) -> ExitCode {
    breaches.iter().for_each(|breach| eprintln!("manifold load: failed on {breach}"));
    if !breaches.is_empty() {
        ExitCode::from(FAILED)
    } else if is_flagged {
        ExitCode::from(3)
    } else {
        ExitCode::SUCCESS
    }
}

/// There are reasons not to believe the report, or a part of it.
pub fn is_flagged(report: &Report) -> bool {
    !report.flags.is_empty() || report.machines.iter().any(|machine| !machine.flags.is_empty())
}
