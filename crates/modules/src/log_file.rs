//! Opening a log. `/dev/stdout` and its like are not opened but duplicated: what a service manager or a container's runtime
//! put there may be a socket, which cannot be opened, or a pipe that belongs to another user.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// A stream that a process is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Descriptor 1.
    Output,
    /// Descriptor 2.
    Error,
}

impl Stream {
    /// The stream that a path stands for; `None` where it names a file.
    pub fn of(path: &Path) -> Option<Stream> {
        match path.to_str()? {
            "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => Some(Stream::Output),
            "/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2" => Some(Stream::Error),
            _ => None,
        }
    }

    fn duplicate(self) -> io::Result<File> {
        let duplicate = match self {
            Stream::Output => io::stdout().as_fd().try_clone_to_owned()?,
            Stream::Error => io::stderr().as_fd().try_clone_to_owned()?,
        };
        Ok(duplicate.into())
    }
}

/// Opens `path` for appending, and creates it where it is missing.
///
/// # Errors
/// The error of open(2) or dup(2).
pub fn open(path: &Path) -> io::Result<File> {
    match Stream::of(path) {
        Some(stream) => stream.duplicate(),
        None => OpenOptions::new().append(true).create(true).open(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_known_by_each_of_their_names() {
        let check = |path: &str, expected| assert_eq!(Stream::of(Path::new(path)), expected, "{path}");
        check("/dev/stdout", Some(Stream::Output));
        check("/dev/fd/1", Some(Stream::Output));
        check("/proc/self/fd/2", Some(Stream::Error));
        check("/dev/stderr", Some(Stream::Error));
        check("/dev/fd/3", None);
        check("stdout", None);
    }
}
