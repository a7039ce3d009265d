//! The processes of slow clients, seen from the laboratory: starting them, hearing how they are, ending them.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::hold::Held;
use super::kind::Kind;

/// How long a process may take to end once its input has.
const END_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The clients that are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// What they do.
    pub kind: Kind,
    /// How many, in all processes.
    pub clients: usize,
    /// How long they try to connect, in whole seconds.
    pub within: Duration,
}

/// Some processes of `lab hold`, ended when dropped.
#[derive(Debug)]
pub struct Holders {
    holders: Vec<Holder>,
}

#[derive(Debug)]
struct Holder {
    child: Child,
    text: Vec<u8>,
    held: Option<Held>,
}

impl Holders {
    /// Starts the clients, at most `each` of them in a process.
    ///
    /// # Errors
    /// If a process cannot be started.
    pub fn start(manifold: &Path, wanted: &Wanted, each: usize) -> Result<Holders> {
        let mut holders = Holders { holders: Vec::new() };
        let mut left = wanted.clients;
        while left > 0 {
            let now = left.min(each.max(1));
            left -= now;
            holders.holders.push(Holder::start(manifold, wanted, now)?);
        }
        Ok(holders)
    }

    /// What the processes said last, together; those that said nothing yet count as opening.
    ///
    /// # Errors
    /// If one has ended.
    pub fn held(&mut self) -> Result<Held> {
        let mut sum = Held::default();
        for holder in &mut self.holders {
            let held = holder.read()?;
            sum.opening += held.opening;
            sum.connected += held.connected;
            sum.answered += held.answered;
            sum.open += held.open;
            sum.failed += held.failed;
        }
        Ok(sum)
    }

    /// Waits until every client has arrived, at most so long, which is a little longer than they try; returns how they are.
    ///
    /// # Errors
    /// If one has ended.
    pub fn wait_open(&mut self, wanted: &Wanted, mut interrupted: impl FnMut() -> bool) -> Result<Held> {
        let (began, within) = (Instant::now(), wanted.within + Duration::from_secs(1));
        loop {
            let held = self.held()?;
            if held.opening == 0 || began.elapsed() > within || interrupted() {
                return Ok(held);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Holder {
    fn start(manifold: &Path, wanted: &Wanted, clients: usize) -> Result<Holder> {
        let child = Command::new(manifold)
            .args(["lab", "hold", "--kind", wanted.kind.name(), "--within", &wanted.within.as_secs().to_string()])
            .args(["--port", &wanted.port.to_string(), "--clients", &clients.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start the slow clients, {}", manifold.display()))?;
        let output = child.stdout.as_ref().context("the slow clients' output is not connected")?;
        fcntl(output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Holder { child, text: Vec::new(), held: None })
    }

    /// The last whole line so far.
    fn read(&mut self) -> Result<Held> {
        let mut chunk = [0; 4096];
        while let Some(output) = &mut self.child.stdout {
            match output.read(&mut chunk) {
                Ok(0) => bail!("the slow clients ended by themselves"),
                Ok(read) => self.text.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot hear the slow clients"),
            }
        }
        if let Some(end) = self.text.iter().rposition(|&byte| byte == b'\n') {
            let line = self.text[..end].rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
            self.held = Some(serde_json::from_slice(line).context("the slow clients said something else")?);
            self.text.drain(..=end);
        }
        Ok(self.held.unwrap_or(Held { opening: 1, ..Held::default() }))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let until = Instant::now() + END_WITHIN;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}
