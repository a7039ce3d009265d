//! Processes and threads as /proc shows them (proc(5)).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process(pub u32);

impl Process {
    /// Its children, oldest number first.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn children(self) -> Result<Vec<Process>> {
        let mut children = Vec::new();
        for task in self.threads()? {
            // A thread that has just ended has no children any more.
            let list = fs::read_to_string(self.path(&format!("task/{task}/children"))).unwrap_or_default();
            children.extend(list.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Process));
        }
        children.sort_unstable();
        Ok(children)
    }

    /// Its threads, by number; the first is the main thread.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn threads(self) -> Result<Vec<u32>> {
        let folder = self.path("task");
        let entries = fs::read_dir(&folder).with_context(|| format!("{} is gone", folder.display()))?;
        let names = entries.filter_map(Result::ok).map(|entry| entry.file_name());
        let mut threads: Vec<u32> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
        threads.sort_unstable();
        Ok(threads)
    }

    /// The number of the system call in which a thread waits; `None` while it runs or where it may not be seen.
    pub fn system_call(self, thread: u32) -> Option<u32> {
        let line = fs::read_to_string(self.path(&format!("task/{thread}/syscall"))).ok()?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// Whether it is there and not a zombie.
    pub fn is_alive(self) -> bool {
        let Ok(stat) = fs::read_to_string(self.path("stat")) else { return false };
        // The state follows the name, which is in parentheses and may hold anything.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    /// Whether it holds the server's end of a TCP connection over IPv4 loopback, given both ports.
    pub fn holds(self, server_port: u16, client_port: u16) -> bool {
        self.clients(server_port).contains(&client_port)
    }

    /// The clients' ports of the TCP connections over IPv4 that it holds the server's end of.
    pub fn clients(self, server_port: u16) -> BTreeSet<u16> {
        let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        let connections: BTreeMap<String, u16> =
            table.lines().filter_map(|line| connection_of(line, server_port)).collect();
        let entries = fs::read_dir(self.path("fd")).into_iter().flatten().filter_map(Result::ok);
        let names = entries.filter_map(|fd| fs::read_link(fd.path()).ok()?.into_os_string().into_string().ok());
        let inode = |name: String| name.strip_prefix("socket:[")?.strip_suffix(']').map(ToOwned::to_owned);
        names.filter_map(inode).filter_map(|inode| connections.get(&inode).copied()).collect()
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it is gone or belongs to somebody else.
    pub fn signal(self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.0.cast_signed()), signal).with_context(|| format!("cannot signal process {}", self.0))
    }

    fn path(self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.0))
    }
}

/// The inode and the client's port in a line of /proc/net/tcp, where it is a connection to this port of a server:
/// `sl local remote st queues tr retrnsmt uid timeout inode`.
fn connection_of(line: &str, server_port: u16) -> Option<(String, u16)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let port = |address: &str| u16::from_str_radix(address.split_once(':')?.1, 16).ok();
    let client = port(fields.get(2)?)?;
    (port(fields.get(1)?)? == server_port && client != 0).then(|| Some(((*fields.get(9)?).to_owned(), client)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_socket_table_is_understood() {
        let line = "   1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 48213 1 0 20 4 30 10 -1";
        assert_eq!(connection_of(line, 8080), Some(("48213".to_owned(), 54321)));
        assert_eq!(connection_of(line, 8081), None);
        assert_eq!(connection_of("  sl  local_address rem_address   st", 8080), None);
    }

    #[test]
    fn this_process_is_found() {
        let me = Process(std::process::id());
        assert!(me.is_alive());
        assert!(me.threads().unwrap().contains(&me.0));
        assert!(!Process(u32::MAX >> 1).is_alive());
    }
}
