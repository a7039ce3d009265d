//! Where the program under test is. `MANIFOLD_BIN` names it (`cargo xtask test` builds once and sets it); otherwise it is
//! built, which takes no time when nothing has changed, so that a test never runs yesterday's program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

/// The path of the release build of `manifold`.
///
/// # Panics
/// When it cannot be built: no test means anything then.
pub fn manifold() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| find().expect("manifold can be built"))
}

/// A command that runs `manifold` without standard input.
pub fn command<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(manifold());
    // The user's own runs are none of the tests' business.
    command.args(arguments).stdin(Stdio::null()).env("MANIFOLD_LAB_STORE", "none");
    command
}

fn find() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("MANIFOLD_BIN") {
        return Ok(PathBuf::from(path));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--release", "--package", "manifold"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if !build.status().context("cannot start cargo")?.success() {
        bail!("cargo build --release -p manifold failed");
    }
    // A test program is target/debug/deps/name-hash; the release build is beside debug.
    let test = std::env::current_exe()?;
    let target = test.ancestors().nth(3).context("a test program lies in target/debug/deps")?;
    Ok(target.join("release/manifold"))
}
