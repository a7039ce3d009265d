//! `cargo xtask docs`: pages of docs/ that are generated from the product's own tables.

use anyhow::{Result, bail};

/// Runs the task.
pub fn main(arguments: &[String]) -> Result<()> {
    let _ = arguments;
    bail!("not yet")
}
