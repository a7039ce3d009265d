//! The folder a run leaves: its data, `report.html` and everything else that is derived from them, and what the servers were told and said.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::files;
use crate::results::Results;
use crate::store::Stored;

/// What was measured in a run, as one of its files keeps it.
pub trait Kept: DeserializeOwned {
    /// The file's name.
    const FILE: &'static str;
    /// The format that this version writes and reads.
    const FORMAT: u32;

    /// The format that it was written in.
    fn format(&self) -> u32;
}

impl Kept for Results {
    const FILE: &'static str = "results.json";
    const FORMAT: u32 = crate::results::FORMAT;

    fn format(&self) -> u32 {
        self.format
    }
}

/// Whether `path` is of a run that keeps this: the file, or the folder with it.
pub fn keeps<T: Kept>(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == T::FILE) || path.join(T::FILE).is_file()
}

/// An output folder of our own.
#[derive(Debug)]
pub struct Output {
    folder: PathBuf,
}

impl Output {
    /// Makes the folder: the given one, or `lab-DATE-TIME` here. Nothing that is there is ever overwritten.
    ///
    /// # Errors
    /// If it exists with something in it, or cannot be made.
    pub fn create(given: Option<&Path>) -> Result<Output> {
        let folder = match given {
            Some(folder) => folder.to_owned(),
            None => PathBuf::from(jiff::Zoned::now().strftime("lab-%Y%m%d-%H%M%S").to_string()),
        };
        if fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some()) {
            bail!("{} is there already and not empty; give another folder with --out", folder.display());
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let folder = folder.canonicalize().with_context(|| format!("cannot use the folder {}", folder.display()))?;
        Ok(Output { folder })
    }

    /// The folder of a run that is gone on with, made again should it be gone.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn again(folder: &Path) -> Result<Output> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        Ok(Output { folder: folder.to_owned() })
    }

    /// The folder of an earlier run, by the file with its data or itself, and what that holds.
    ///
    /// # Errors
    /// If it cannot be read, or is of another format.
    pub fn open<T: Kept>(path: &Path) -> Result<(Output, T)> {
        let file = if path.is_dir() { path.join(T::FILE) } else { path.to_owned() };
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let read: T = serde_json::from_str(&text)
            .with_context(|| format!("{} is not a {} of this version", file.display(), T::FILE))?;
        if read.format() != T::FORMAT {
            bail!("{} has format {}, and this version reads {}", file.display(), read.format(), T::FORMAT);
        }
        Ok((Output::at(&file), read))
    }

    /// The folder of a file of an earlier run.
    fn at(file: &Path) -> Output {
        let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Output { folder: folder.to_owned() }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes what was measured, as the file that keeps it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn data<T: Kept + Serialize>(&self, kept: &T) -> Result<()> {
        let data = files::data(kept)?;
        self.file(&data.name, &data.text)
    }

    /// Writes everything.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write<T: Stored>(&self, found: &T) -> Result<()> {
        // The data first: should the report fail, nothing measured is lost.
        self.data(found)?;
        self.write_views(found)
    }

    /// Writes what is derived from the data.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_views<T: Stored>(&self, found: &T) -> Result<()> {
        files::derived(found)?.iter().try_for_each(|file| self.file(&file.name, &file.text))
    }

    /// Writes one file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn file(&self, name: &str, text: &str) -> Result<()> {
        let file = self.folder.join(name);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_run_is_written_read_again_and_never_overwritten() {
        let folder = std::env::temp_dir().join(format!("manifold-lab-output-{}", std::process::id()));
        let out = Output::create(Some(&folder)).expect("a new folder");
        let results = fixture::clear_winner();
        out.write(&results).expect("it can be written");
        let (again, read) = Output::open::<Results>(&folder).expect("it can be read");
        // Not the whole: a float may differ in its last bit after a decimal text.
        assert_eq!((read.cells.len(), &read.targets), (results.cells.len(), &results.targets));
        assert_eq!(read.experiment, results.experiment);
        again.write_views(&read).expect("the views can be made again");
        let said = Output::create(Some(&folder)).expect_err("it is not empty").to_string();
        assert!(said.contains("--out"), "{said}");
        fs::write(folder.join("results.json"), "{}").expect("it can be written");
        let said = Output::open::<Results>(&folder).expect_err("no results").to_string();
        assert!(said.contains("not a results.json"), "{said}");
        fs::remove_dir_all(&folder).expect("it can be removed");
    }
}
