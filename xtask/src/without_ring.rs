//! `cargo xtask without-io-uring PROGRAM`: runs a program for which io_uring is refused, as container runtimes refuse it,
//! so that percore waits in epoll.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, bail};
use nix::libc::EPERM;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// The name of the task, for those who start it.
pub const NAME: &str = "without-io-uring";

/// The number of `io_uring_setup`, which is the same on every architecture.
const IO_URING_SETUP: i64 = 425;

/// Runs the task: replaces this program by the other one.
pub fn main(arguments: &[String]) -> Result<()> {
    let Some((program, arguments)) = arguments.split_first() else {
        bail!("usage: cargo xtask {NAME} PROGRAM [ARGUMENT...]");
    };
    let architecture = TargetArch::try_from(std::env::consts::ARCH).context("no system call filters here")?;
    let refused = SeccompAction::Errno(EPERM.cast_unsigned());
    let rules = [(IO_URING_SETUP, Vec::new())].into_iter().collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture)?;
    seccompiler::apply_filter(&BpfProgram::try_from(filter)?).context("the kernel takes no system call filter")?;
    Err(Command::new(program).args(arguments).exec()).with_context(|| format!("cannot start `{program}`"))
}
