//! A temporary folder that goes with its laboratory, also with one that is killed.
//!
//! A process that is killed cannot clean up, so another does: a small one of this binary (`lab guard`) that waits for the end of a pipe
//! whose other end only the laboratory holds.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

/// What the names of these folders begin with.
const PREFIX: &str = "manifold-lab-";

/// A folder among the temporary files.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    guard: Option<Guard>,
}

/// The process that cleans up, and what it waits for.
#[derive(Debug)]
struct Guard {
    process: Child,
    pipe: ChildStdin,
}

impl Scratch {
    /// Makes a folder of this process's own, guarded by `manifold`, this binary.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(manifold: &Path) -> Result<Scratch> {
        let folder = fresh()?;
        let guard = Command::new(manifold)
            .args(["lab", "guard"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C at the terminal is for the laboratory.
            .process_group(0)
            .spawn()
            .context("cannot start the process that cleans up")
            .and_then(|mut process| {
                let pipe = process.stdin.take().context("the process that cleans up has no pipe")?;
                Ok(Guard { process, pipe })
            });
        let mut scratch = Scratch { folder, guard: None };
        scratch.guard = Some(guard?);
        Ok(scratch)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
        if let Some(Guard { mut process, pipe }) = self.guard.take() {
            drop(pipe);
            let _ = process.wait();
        }
    }
}

/// A new folder: one process may need several.
fn fresh() -> Result<PathBuf> {
    for number in 0..100 {
        let folder = std::env::temp_dir().join(format!("{PREFIX}{}-{number}", std::process::id()));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot make the folder {}", folder.display())),
        }
    }
    bail!(
        "{} is full of folders that begin with {PREFIX}; remove those no laboratory uses",
        std::env::temp_dir().display()
    )
}

/// `lab guard`: removes the folder when the laboratory has ended, however that came about.
pub fn guard(folder: &Path) -> ExitCode {
    let ours = folder.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(PREFIX));
    if !ours {
        eprintln!("manifold lab guard: {} is no folder of the laboratory's", folder.display());
        return ExitCode::from(2);
    }
    // Nothing is ever written: what ends this is the other end.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    // Servers of a killed laboratory may still be ending, and write.
    for _ in 0..50 {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            _ => return ExitCode::SUCCESS,
        }
    }
    ExitCode::from(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_one_process_differ_and_nothing_else_is_removed() {
        let (a, b) = (fresh().expect("a folder"), fresh().expect("another"));
        assert_ne!(a, b);
        for folder in [a, b] {
            fs::remove_dir(folder).expect("it is empty");
        }
        let other = std::env::temp_dir().join(format!("other-{}", std::process::id()));
        fs::create_dir(&other).expect("a folder");
        assert_eq!(format!("{:?}", guard(&other)), format!("{:?}", ExitCode::from(2)));
        fs::remove_dir(&other).expect("it is still there");
    }
}
