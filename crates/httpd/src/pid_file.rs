//! `PidFile`: which process is the server, for `-k`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use manifold_sys::signal;

use crate::config::reason;

/// What a `PidFile` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    /// There is no file.
    NoFile,
    /// The process that it names is gone.
    Stale(i32),
    /// The process is there.
    Yes(i32),
}

/// Reads the file and looks for the process.
///
/// # Errors
/// When the file cannot be read or holds no process id, in Apache's words.
pub(crate) fn running(path: &Path) -> Result<Running, String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Running::NoFile),
        Err(error) => {
            let corrupt = format!("AH00058: Error retrieving pid file {}: {}", path.display(), reason(&error));
            return Err(format!("{corrupt}\nAH00059: Remove it before continuing if it is corrupted."));
        }
    };
    let Some(pid) = text.trim().parse().ok().filter(|pid| *pid > 1) else {
        let corrupt = format!("AH00058: Error retrieving pid file {}", path.display());
        return Err(format!("{corrupt}\nAH00059: Remove it before continuing if it is corrupted."));
    };
    // The id may be this very process' (in a container every server is process 7, say): then the file is an old one.
    let is_other = u32::try_from(pid).is_ok_and(|pid| pid != std::process::id());
    Ok(if is_other && signal::exists(pid) { Running::Yes(pid) } else { Running::Stale(pid) })
}

/// A file that will hold this process' id. It is made early, while there is someone to tell about a failure, and takes its
/// place once the id is known. It is removed with this value.
#[derive(Debug)]
pub(crate) struct PidFile {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    placed: bool,
}

impl PidFile {
    /// Makes the file beside its place.
    ///
    /// # Errors
    /// The error of open(2).
    pub(crate) fn create(path: &Path) -> io::Result<PidFile> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary)?;
        Ok(PidFile { file, temporary, path: path.to_owned(), placed: false })
    }

    /// Writes the id of the calling process and puts the file in its place.
    ///
    /// # Errors
    /// The error of write(2) or rename(2).
    pub(crate) fn place(&mut self) -> io::Result<()> {
        writeln!(self.file, "{}", std::process::id())?;
        fs::rename(&self.temporary, &self.path)?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Gone already is as good as removed.
        let _gone = fs::remove_file(if self.placed { &self.path } else { &self.temporary });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("manifold-pid-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_pid_file_names_its_process_until_it_is_dropped() {
        let path = scratch("own");
        assert_eq!(running(&path), Ok(Running::NoFile));
        let mut file = PidFile::create(&path).unwrap();
        assert_eq!(running(&path), Ok(Running::NoFile));
        file.place().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        assert_eq!(running(&path), Ok(Running::Stale(std::process::id() as i32)));
        drop(file);
        assert_eq!(running(&path), Ok(Running::NoFile));
    }

    #[test]
    fn what_a_pid_file_says() {
        let path = scratch("text");
        let parent = std::os::unix::process::parent_id() as i32;
        for (text, expected) in [
            (format!("{parent}\n"), Some(Running::Yes(parent))),
            ("x".into(), None),
            ("0".into(), None),
            ("-5".into(), None),
        ] {
            fs::write(&path, &text).unwrap();
            assert_eq!(running(&path).ok(), expected, "{text}");
        }
        fs::remove_file(&path).unwrap();
    }
}
