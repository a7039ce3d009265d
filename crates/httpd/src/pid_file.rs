//! `PidFile`: which process is the server, for `-k`.
//!
//! A server holds a lock on its file as long as it runs. An id alone would not do: after a crash it may by now belong to
//! any other process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use manifold_sys::signal;

use crate::config::reason;

/// A process id, its line end, and room to see that there is more.
const PID_BYTES_MAX: u64 = 64;

/// What a `PidFile` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    /// There is no file.
    NoFile,
    /// The process that it names is gone, or is no server of ours.
    Stale(i32),
    /// The server is there.
    Yes(i32),
}

/// Reads the file and looks for the server.
///
/// # Errors
/// When the file cannot be read or holds no process id, in Apache's words.
pub(crate) fn running(path: &Path) -> Result<Running, String> {
    let corrupt = |why: String| {
        let what = format!("AH00058: Error retrieving pid file {}{why}", path.display());
        format!("{what}\nAH00059: Remove it before continuing if it is corrupted.")
    };
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Running::NoFile),
        Err(error) => return Err(corrupt(format!(": {}", reason(&error)))),
    };
    let mut text = String::new();
    let read = (&mut file).take(PID_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| corrupt(format!(": {}", reason(&error))))?;
    let pid = text.trim().parse().ok().filter(|pid| *pid > 0).ok_or_else(|| corrupt(String::new()))?;
    // A lock that can be had is held by nobody; it is given back when the file is closed. Where a file system has no
    // locks, the id has to do.
    let is_held = file.try_lock().is_err();
    Ok(if is_held && signal::exists(pid) { Running::Yes(pid) } else { Running::Stale(pid) })
}

/// A file that will hold this process' id. It is made early, while there is someone to tell about a failure, and takes its
/// place once the id is known. It is removed with this value.
#[derive(Debug)]
pub(crate) struct PidFile {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    placed: bool,
    left: bool,
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
        // A file system without locks has none to break; the id has to do there.
        let _unsupported = file.try_lock();
        Ok(PidFile { file, temporary, path: path.to_owned(), placed: false, left: false })
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

impl PidFile {
    /// Where it stands, or will stand.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Another server has put its file in the place of this one: it is not removed with this value.
    pub(crate) fn leave_to_successor(&mut self) {
        self.left = true;
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if self.left {
            return;
        }
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
        assert_eq!(running(&path), Ok(Running::Yes(std::process::id() as i32)));
        drop(file);
        assert_eq!(running(&path), Ok(Running::NoFile));
    }

    #[test]
    fn an_id_without_a_lock_is_not_a_server() {
        let path = scratch("text");
        let parent = std::os::unix::process::parent_id() as i32;
        let cases = [
            (format!("{parent}\n"), Some(Running::Stale(parent))),
            // A server in a container may well be process 1.
            ("1\n".into(), Some(Running::Stale(1))),
            ("x".into(), None),
            ("".into(), None),
            ("0".into(), None),
            ("-5".into(), None),
        ];
        for (text, expected) in cases {
            fs::write(&path, &text).unwrap();
            assert_eq!(running(&path).ok(), expected, "{text}");
        }
        fs::remove_file(&path).unwrap();
    }
}
