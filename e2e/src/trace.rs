//! System calls counted by strace while a load runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::Signal;

use crate::process::Process;
use crate::{Scratch, until};

/// A strace that is attached to processes and counts.
#[derive(Debug)]
pub struct Trace {
    strace: Child,
    dir: Scratch,
}

/// How often each system call was made, by its name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Calls(BTreeMap<String, u64>);

impl Trace {
    /// Attaches to processes with all their threads, and to those they start later. Returns when every thread is attached.
    ///
    /// # Errors
    /// When strace cannot be started or may not attach.
    pub fn attach(processes: &[Process]) -> Result<Trace> {
        Trace::attach_with(processes, Command::new("strace"))
    }

    /// The same for calls that have to do with a file, by its path.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn attach_to_file(processes: &[Process], file: &Path) -> Result<Trace> {
        let mut command = Command::new("strace");
        command.arg("-P").arg(file);
        Trace::attach_with(processes, command)
    }

    fn attach_with(processes: &[Process], mut command: Command) -> Result<Trace> {
        let dir = Scratch::new()?;
        command.args(["-f", "-c", "-o"]).arg(dir.path("calls"));
        for process in processes {
            command.args(["-p", &process.0.to_string()]);
        }
        let threads: usize =
            processes.iter().filter_map(|process| process.threads().ok()).map(|threads| threads.len()).sum();
        let said = dir.path("said");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&said)?);
        let strace = command.spawn().context("cannot start strace; `cargo xtask setup` installs it")?;
        let mut trace = Trace { strace, dir };
        // It says `Process N attached`, or `... attached with M threads`, for each process it was given.
        let attached = until("strace to attach", || {
            let said = fs::read_to_string(&said).ok()?;
            let attached: usize = said.lines().map(threads_attached).sum();
            let ended = matches!(trace.strace.try_wait(), Ok(Some(_)));
            (attached >= threads || ended).then_some((attached, ended, said))
        })?;
        match attached {
            (_, false, _) => Ok(trace),
            (attached, true, said) => bail!("strace attached to {attached} of {threads} threads and ended:\n{said}"),
        }
    }

    /// Detaches and returns the counts.
    ///
    /// # Errors
    /// When strace's table cannot be read.
    pub fn finish(mut self) -> Result<Calls> {
        Process(self.strace.id()).signal(Signal::SIGINT)?;
        self.strace.wait()?;
        let table = fs::read_to_string(self.dir.path("calls")).context("strace wrote no table")?;
        Ok(Calls::parse(&table))
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if matches!(self.strace.try_wait(), Ok(None)) {
            // Detaching lets the traced processes live on; killing would, too, but only on newer kernels.
            let _ = Process(self.strace.id()).signal(Signal::SIGINT);
            let _ = self.strace.wait();
        }
    }
}

impl Calls {
    /// The calls of all these names together.
    pub fn of(&self, names: &[&str]) -> u64 {
        names.iter().filter_map(|name| self.0.get(*name)).sum()
    }

    /// All calls.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Reads strace's table: `% time, seconds, usecs/call, calls, [errors,] syscall`.
    fn parse(table: &str) -> Calls {
        let mut calls = BTreeMap::new();
        for line in table.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let count = fields.get(3).and_then(|count| count.parse::<u64>().ok());
            let (Some(count), Some(name)) = (count, fields.last()) else {
                continue;
            };
            if *name != "total" && fields[0].parse::<f64>().is_ok() {
                *calls.entry((*name).to_string()).or_insert(0) += count;
            }
        }
        Calls(calls)
    }
}

fn threads_attached(line: &str) -> usize {
    let Some((_, rest)) = line.split_once(" attached") else { return 0 };
    rest.strip_prefix(" with ").and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_understood() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
                     ------ ----------- ----------- --------- --------- ----------------\n \
                     60.00    0.000600           6       100           recvfrom\n \
                     40.00    0.000400           8        50        10 accept4\n\
                     ------ ----------- ----------- --------- --------- ----------------\n\
                     100.00    0.001000           6       150        10 total\n";
        let calls = Calls::parse(table);
        assert_eq!((calls.total(), calls.of(&["accept", "accept4"]), calls.of(&["recvfrom"])), (150, 50, 100));
    }

    #[test]
    fn attaching_is_understood() {
        assert_eq!(threads_attached("strace: Process 12 attached"), 1);
        assert_eq!(threads_attached("strace: Process 12 attached with 27 threads"), 27);
        assert_eq!(threads_attached("strace: attach: ptrace(PTRACE_SEIZE, 12): Operation not permitted"), 0);
    }
}
