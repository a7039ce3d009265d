//! A running server: `manifold httpd` with a configuration in a folder of its own, on a free port.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::process::Process;
use crate::{Scratch, binary, site, until};

/// A concurrency model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mpm {
    /// Many processes of one thread.
    Prefork,
    /// Some processes of many threads, one connection a thread.
    Worker,
    /// As worker, with idle connections parked.
    Event,
    /// One thread a core, all connections in flight at once.
    Percore,
}

impl Mpm {
    /// All of them.
    pub const ALL: [Mpm; 4] = [Mpm::Prefork, Mpm::Worker, Mpm::Event, Mpm::Percore];

    /// Its name in `LoadModule mpm_NAME_module` and after `-M`.
    pub fn name(self) -> &'static str {
        match self {
            Mpm::Prefork => "prefork",
            Mpm::Worker => "worker",
            Mpm::Event => "event",
            Mpm::Percore => "percore",
        }
    }
}

/// Ports that tests listen at: below those that the kernel gives to clients, so that no connection of another test takes
/// one between its choice and its use.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A port of loopback that nobody listens at, and that was not given to another test of this process.
///
/// # Errors
/// When there is none.
pub fn free_port() -> Result<u16> {
    static GIVEN: AtomicUsize = AtomicUsize::new(0);
    // Test programs that run at the same time begin at different places.
    let start = std::process::id() as usize * 97;
    for _ in PORTS {
        let nth = start + GIVEN.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + (nth % PORTS.len()) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("every port from {} to {} is taken", PORTS.start, PORTS.end - 1)
}

/// A server with its folder: configuration, site and logs.
#[derive(Debug)]
pub struct Server {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    /// Its folder.
    pub dir: Scratch,
    child: Child,
}

impl Server {
    /// Starts the test site under a model, with further directives, and waits until it answers.
    ///
    /// # Errors
    /// When it does not start; its own words are in the error.
    pub fn start(mpm: Mpm, directives: &str) -> Result<Server> {
        let (dir, port) = configured(mpm, directives)?;
        Server::run(dir, port, foreground)
    }

    /// Starts a server by any command that stays in the foreground, and waits until it answers.
    ///
    /// # Errors
    /// When it does not start; its own words are in the error.
    pub fn run(dir: Scratch, port: u16, command: impl FnOnce(&Scratch) -> Command) -> Result<Server> {
        let output = fs::File::create(dir.path("output"))?;
        let mut command = command(&dir);
        command.stdout(output.try_clone()?).stderr(output).process_group(0);
        let child = command.spawn().context("cannot start manifold")?;
        let mut server = Server { port, dir, child };
        let answered = until("the server to answer", || {
            let ended = server.child.try_wait().ok()?;
            (ended.is_some() || TcpStream::connect(("127.0.0.1", port)).is_ok()).then_some(ended)
        });
        match answered {
            Ok(None) => Ok(server),
            Ok(Some(status)) => bail!("the server ended at once ({status}):\n{}", server.words()),
            Err(error) => Err(error.context(server.words())),
        }
    }

    /// Gives the server's file another model and other directives; it takes effect when the server is told to reload.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn configure(&self, mpm: Mpm, directives: &str) -> Result<()> {
        Ok(fs::write(self.dir.path("httpd.conf"), configuration(&self.dir, self.port, mpm, directives))?)
    }

    /// Waits until the error log says `text` for the `times`th time.
    ///
    /// # Errors
    /// When it does not in time; what it says is in the error.
    pub fn logged(&self, text: &str, times: usize) -> Result<()> {
        let said = || (self.words().matches(text).count() >= times).then_some(());
        until(&format!("'{text}' in the error log, {times} times"), said).with_context(|| self.words())
    }

    /// The parent process.
    pub fn parent(&self) -> Process {
        Process(self.child.id())
    }

    /// The child processes.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn children(&self) -> Result<Vec<Process>> {
        self.parent().children()
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// What it printed and logged.
    pub fn words(&self) -> String {
        ["output", "error.log"].iter().filter_map(|name| fs::read_to_string(self.dir.path(name)).ok()).collect()
    }

    /// Runs `manifold httpd -k VERB` for this server's configuration.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn control(&self, verb: &str) -> Result<Output> {
        let mut command = binary::command(["httpd", "-k", verb, "-f"]);
        Ok(command.arg(self.dir.path("httpd.conf")).output()?)
    }

    /// Waits until the parent has ended.
    ///
    /// # Errors
    /// When it does not end in time.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        until("the server to end", || self.child.try_wait().ok()?)
    }

    /// Asks the parent to end and waits until it and its children are gone.
    ///
    /// # Errors
    /// When it was ended already, does not end in time, leaves a child behind or does not end with success.
    pub fn stop(&mut self) -> Result<()> {
        let children = self.children()?;
        self.parent().signal(Signal::SIGTERM)?;
        let status = self.wait()?;
        until("the children to end", || children.iter().all(|child| !child.is_alive()).then_some(()))?;
        if !status.success() {
            bail!("the server ended with {status} (signal {:?}):\n{}", status.signal(), self.words());
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let group = Pid::from_raw(self.child.id().cast_signed());
            // A test that failed half-way leaves its server running; the whole group goes, whatever state it is in.
            let _ = killpg(group, Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

/// A folder with the test site and a configuration for it, and the port that it says.
///
/// # Errors
/// Those of the file system, or when there is no free port.
pub fn configured(mpm: Mpm, directives: &str) -> Result<(Scratch, u16)> {
    let dir = Scratch::new()?;
    let port = free_port()?;
    site::write(&dir.path("htdocs"))?;
    fs::write(dir.path("httpd.conf"), configuration(&dir, port, mpm, directives))?;
    Ok((dir, port))
}

/// The command that serves a folder in the foreground.
pub fn foreground(dir: &Scratch) -> Command {
    let mut command = binary::command(["httpd", "-D", "FOREGROUND", "-f"]);
    command.arg(dir.path("httpd.conf"));
    command
}

/// The same command run by a shell, which replaces itself by it after `before`.
pub fn after(before: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{before}; exec \"$@\""), "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    shell
}

/// The configuration of the test site.
fn configuration(dir: &Scratch, port: u16, mpm: Mpm, directives: &str) -> String {
    let root = dir.path("");
    let root = root.display();
    let name = mpm.name();
    let identity = if nix::unistd::geteuid().is_root() { "User www-data\nGroup www-data\n" } else { "" };
    format!(
        "ServerRoot \"{root}\"\n\
         LoadModule mpm_{name}_module modules/mod_mpm_{name}.so\n\
         ServerName localhost\n\
         Listen 127.0.0.1:{port}\n\
         PidFile \"{root}httpd.pid\"\n\
         ErrorLog \"{root}error.log\"\n\
         DocumentRoot \"{root}htdocs\"\n\
         {identity}\
         {directives}\n"
    )
}
