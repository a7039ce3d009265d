//! `cargo xtask docs`: pages of the book that are made from the product's own tables, so that they cannot go stale.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::run::{Run, root, target_dir};

/// The page of all directives.
const PAGE: &str = "docs/src/directives.md";

/// What stands above the table.
const PREFACE: &str = "# Directives

<!-- Made by `cargo xtask docs` from the declarations in the code; edit those. -->

Every directive that this version knows; any other is an error. As in Apache, the numbers of processes and threads (module
`mpm_common`) are known only under the models that have them: [Choosing an MPM](choosing-an-mpm.md) tells which.

";

/// Runs the task.
pub fn main(arguments: &[String]) -> Result<()> {
    let check = match arguments {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => {
            bail!("usage: cargo xtask docs [--check]\n\n--check writes nothing and fails where a page is out of date.")
        }
    };
    let page = format!("{PREFACE}{}", table()?);
    let path = root().join(PAGE);
    if !check {
        return fs::write(&path, page).with_context(|| format!("cannot write {PAGE}"));
    }
    if fs::read_to_string(&path).unwrap_or_default() != page {
        bail!("{PAGE} is out of date; `cargo xtask docs` writes it");
    }
    println!("docs: {PAGE} is up to date");
    Ok(())
}

/// The table, as the server's own code renders it.
fn table() -> Result<String> {
    // Built for the whole workspace, as the tests are: its dependencies are compiled already.
    Run::cargo("build --quiet --locked --workspace --example directives").show()?;
    Run::new(&target_dir().join("debug/examples/directives").to_string_lossy(), [""; 0]).output()
}
