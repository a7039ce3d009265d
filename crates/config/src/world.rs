//! What reading a configuration needs from outside: files, folders and the environment. Tests bring their own.

use std::io;
use std::path::Path;

/// The outside world of a [`Reader`](crate::read::Reader).
pub trait World {
    /// The bytes of a file, at most `most` of them; `FileTooLarge` when there are more.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>>;
    /// The names in a folder, in any order, without `.` and `..`.
    ///
    /// # Errors
    /// When it cannot be listed.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Whether there is a folder.
    fn is_folder(&self, path: &Path) -> bool;
    /// Whether there is anything.
    fn exists(&self, path: &Path) -> bool;
    /// An environment variable.
    fn variable(&self, name: &str) -> Option<String>;
}

/// The real one.
#[derive(Clone, Copy, Debug)]
pub struct System;

impl World for System {
    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(std::fs::File::open(path)?, most + 1), &mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(folder)?;
        Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn variable(&self, name: &str) -> Option<String> {
        // A name with these would make the standard library's function fail on some systems.
        if name.is_empty() || name.contains(['=', '\0']) {
            return None;
        }
        std::env::var(name).ok()
    }
}
