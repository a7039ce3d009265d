//! Every file of a run, as text: the data, and what is derived from them. `lab run` and `lab export` write them into a folder, `lab view`
//! hands them out.

use anyhow::{Context, Result};
use serde::Serialize;

use crate::output::Kept;
use crate::page::Frame;
use crate::plot;
use crate::store::Stored;

/// A file.
#[derive(Clone, Debug)]
pub struct File {
    /// Its path below the run's folder.
    pub name: String,
    /// What stands in it.
    pub text: String,
}

impl File {
    /// A file of this name.
    pub fn new(name: &str, text: String) -> File {
        File { name: name.to_owned(), text }
    }

    /// What a program reads: JSON with its parts on lines of their own.
    ///
    /// # Errors
    /// If it cannot be written as JSON, which nothing measured prevents.
    pub fn json(name: &str, what: &impl Serialize) -> Result<File> {
        let text = serde_json::to_string_pretty(what).with_context(|| format!("{name} cannot be written as JSON"))?;
        Ok(File::new(name, text + "\n"))
    }
}

/// What was measured.
///
/// # Errors
/// If it cannot be written as JSON, which nothing measured prevents.
pub fn data<T: Kept + Serialize>(kept: &T) -> Result<File> {
    let text = serde_json::to_string(kept).with_context(|| format!("{} cannot be written as JSON", T::FILE))?;
    Ok(File::new(T::FILE, text + "\n"))
}

/// What is made of it.
///
/// # Errors
/// If the report cannot be made, which nothing measured prevents.
pub fn derived<T: Stored>(found: &T) -> Result<Vec<File>> {
    let mut files = vec![File::new("report.html", found.html(&Frame::FILE)?)];
    files.extend(found.texts()?);
    files.extend(plot::files::of(&found.plots()));
    Ok(files)
}
