//! A binary that replaces a running server of its own kind (USR2): the old server starts it with the listening sockets
//! open, names them in the environment, and ends once it was told that the new one serves.

use std::ffi::OsString;
use std::io::{self, PipeWriter, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use manifold_sys::{listener, process};
use nix::unistd::dup;

use crate::error_log;

/// Names the descriptors: that of the pipe first, then the sockets, with commas between them.
const VARIABLE: &str = "MANIFOLD_SUCCESSOR";
/// Descriptors that are taken from the environment.
const DESCRIPTORS_MAX: usize = 65_536;

/// How this process was called: what a successor is called by.
#[derive(Debug)]
pub(crate) struct Invocation {
    program: PathBuf,
    words: Vec<OsString>,
}

impl Invocation {
    /// Of the calling process. Later the file may have been replaced, and the kernel's name for it is that of the old one.
    pub(crate) fn of_this_process() -> Invocation {
        let words: Vec<OsString> = std::env::args_os().collect();
        let by_name = || words.first().map(PathBuf::from).unwrap_or_default();
        Invocation { program: std::env::current_exe().unwrap_or_else(|_| by_name()), words }
    }

    /// Starts a successor; its process id.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub(crate) fn start(&self, sockets: &mut dyn Iterator<Item = &TcpListener>, ready: &PipeWriter) -> io::Result<i32> {
        // Duplicates are inherited, the originals are not.
        let mut handed: Vec<OwnedFd> = vec![dup(ready)?];
        for socket in sockets {
            handed.push(dup(socket.as_fd())?);
        }
        let numbers: Vec<String> = handed.iter().map(|descriptor| descriptor.as_raw_fd().to_string()).collect();
        let mut command = Command::new(&self.program);
        if let Some((name, words)) = self.words.split_first() {
            command.arg0(name).args(words);
        }
        // What keeps it from starting belongs into the log: its terminal is gone.
        if let Some(log) = error_log::installed_file() {
            command.stderr(Stdio::from(log));
        }
        let child = command.env(VARIABLE, numbers.join(",")).spawn()?;
        Ok(child.id() as i32)
    }
}

/// What a successor inherits.
#[derive(Debug, Default)]
pub(crate) struct Inheritance {
    /// Sockets that listen already.
    pub sockets: Vec<TcpListener>,
    /// Where the old server waits to be told; `None` where there is no old server.
    pub ready: Option<Ready>,
}

/// The old server's ear.
#[derive(Debug)]
pub(crate) struct Ready(OwnedFd);

impl Ready {
    /// Tells the old server that this one serves.
    pub(crate) fn tell(self) {
        // An old server that is gone needs no word.
        let _gone = std::fs::File::from(self.0).write_all(b"1");
    }
}

impl Inheritance {
    /// What the environment names; nothing, where this process replaces nobody.
    ///
    /// # Errors
    /// When the environment names what is not there.
    pub(crate) fn take() -> Result<Inheritance, String> {
        let Some(text) = std::env::var_os(VARIABLE) else { return Ok(Inheritance::default()) };
        let wrong =
            |why: &dyn std::fmt::Display| format!("{VARIABLE} is set by a server that starts its successor: {why}");
        let text = text.to_str().ok_or_else(|| wrong(&"it is no list of numbers"))?;
        let numbers: Result<Vec<RawFd>, _> = text.split(',').take(DESCRIPTORS_MAX).map(str::parse).collect();
        let numbers = numbers.map_err(|error| wrong(&error))?;
        let (ready, sockets) = numbers.split_first().ok_or_else(|| wrong(&"it is empty"))?;
        let ready = process::inherited(*ready).map_err(|error| wrong(&error))?;
        let sockets: io::Result<Vec<TcpListener>> = sockets.iter().copied().map(listener::inherited).collect();
        Ok(Inheritance { sockets: sockets.map_err(|error| wrong(&error))?, ready: Some(Ready(ready)) })
    }

    /// Whether this process replaces a server that runs.
    pub(crate) fn replaces_a_server(&self) -> bool {
        self.ready.is_some()
    }
}
