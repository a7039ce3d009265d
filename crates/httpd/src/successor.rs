//! A binary that replaces a running server of its own kind (USR2): the old server starts it with the listening sockets
//! open, names them in the environment, and ends once it was told that the new one serves.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeWriter, Write};
use std::net::{SocketAddr, TcpListener};
use std::num::ParseIntError;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use manifold_mpm::listeners::{Inherited, Owner};
use manifold_sys::{listener, process};
use nix::unistd::dup;

use crate::{activation, service_manager};

/// Names the descriptors: that of the pipe first, then the sockets, with commas between them. Behind those that are a
/// service manager's stands [`MANAGED`].
const VARIABLE: &str = "MANIFOLD_SUCCESSOR";
const MANAGED: char = 'm';
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

    /// Starts a successor, whose standard error is `errors` or else that of this process; its process id.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub(crate) fn start(
        &self,
        sockets: &mut dyn Iterator<Item = (&TcpListener, Owner)>,
        ready: &PipeWriter,
        errors: Option<File>,
    ) -> io::Result<i32> {
        // Duplicates are inherited, the originals are not.
        let mut handed: Vec<OwnedFd> = vec![dup(ready)?];
        let mut names = vec![handed[0].as_raw_fd().to_string()];
        for (socket, owner) in sockets {
            let duplicate = dup(socket.as_fd())?;
            let mut name = duplicate.as_raw_fd().to_string();
            name.extend((owner == Owner::ServiceManager).then_some(MANAGED));
            names.push(name);
            handed.push(duplicate);
        }
        let mut command = Command::new(&self.program);
        if let Some((name, words)) = self.words.split_first() {
            command.arg0(name).args(words);
        }
        if let Some(errors) = errors {
            command.stderr(Stdio::from(errors));
        }
        // The service manager watches it from now on, and the sockets that were meant for this process are handed over
        // above.
        for name in activation::VARIABLES.iter().chain([&service_manager::WATCHDOG_PID]) {
            command.env_remove(name);
        }
        let child = command.env(VARIABLE, names.join(",")).spawn()?;
        Ok(child.id() as i32)
    }
}

/// What a successor inherits.
#[derive(Debug, Default)]
pub(crate) struct Inheritance {
    /// Sockets that listen already.
    pub sockets: Vec<Inherited>,
    /// What was handed over and is of no use.
    pub unfit: Vec<String>,
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
    /// What the environment names: the sockets of the server that this one replaces, or else those of a service manager.
    ///
    /// # Errors
    /// When the environment names what is not there.
    pub(crate) fn take() -> Result<Inheritance, String> {
        let Some(text) = std::env::var_os(VARIABLE) else {
            let (sockets, unfit) = activation::take()?;
            return Ok(Inheritance { sockets, unfit, ready: None });
        };
        let wrong =
            |why: &dyn std::fmt::Display| format!("{VARIABLE} is set by a server that starts its successor: {why}");
        let text = text.to_str().ok_or_else(|| wrong(&"it is no list of numbers"))?;
        let numbers: Result<Vec<(RawFd, Owner)>, _> = text.split(',').take(DESCRIPTORS_MAX).map(descriptor).collect();
        let numbers = numbers.map_err(|error| wrong(&error))?;
        let ((ready, _), sockets) = numbers.split_first().ok_or_else(|| wrong(&"it is empty"))?;
        let ready = process::inherited(*ready).map_err(|error| wrong(&error))?;
        let inherited =
            |(number, owner): &(RawFd, Owner)| Ok(Inherited { socket: listener::inherited(*number)?, owner: *owner });
        let sockets: io::Result<Vec<Inherited>> = sockets.iter().map(inherited).collect();
        let sockets = sockets.map_err(|error| wrong(&error))?;
        Ok(Inheritance { sockets, unfit: Vec::new(), ready: Some(Ready(ready)) })
    }

    /// What a service manager listens on for this server.
    pub(crate) fn managed(&self) -> Vec<SocketAddr> {
        let managed = self.sockets.iter().filter(|inherited| inherited.owner == Owner::ServiceManager);
        managed.filter_map(|inherited| inherited.socket.local_addr().ok()).collect()
    }

    /// Whether this process replaces a server that runs.
    pub(crate) fn replaces_a_server(&self) -> bool {
        self.ready.is_some()
    }
}

/// A descriptor's number, and whose socket it is.
fn descriptor(name: &str) -> Result<(RawFd, Owner), ParseIntError> {
    match name.strip_suffix(MANAGED) {
        Some(number) => Ok((number.parse()?, Owner::ServiceManager)),
        None => Ok((name.parse()?, Owner::Server)),
    }
}
