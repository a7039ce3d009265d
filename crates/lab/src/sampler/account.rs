//! What the kernel did for a process tree beside running it: switches, waiting for a processor, the disk, TCP's mishaps.
//!
//! **Switches and waiting** are counted for each thread (`/proc/PID/task/TID/schedstat`): how often it was put on a processor, and how long it
//! was ready and had none. A thread that ends takes its counts with it, so a server that replaces threads under load has more than is
//! said here. **TCP's mishaps** are counted for the whole machine.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::proc;

/// More threads than any server here has.
const THREADS_MAX: usize = 50_000;

/// Counts so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    threads: BTreeMap<i32, proc::Scheduling>,
    /// By process; without those that may not be read.
    disk: BTreeMap<i32, proc::Disk>,
    tcp: Option<proc::Tcp>,
}

/// Counts of a cell.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Kernel {
    /// How often a thread of the server was put on a processor.
    pub switches: u64,
    /// How long threads of the server were ready to run and had no processor, all together, seconds.
    pub waited_s: f64,
    /// Bytes that the server had read from disks.
    pub disk_read: u64,
    /// Bytes that it had written to disks, or will have.
    pub disk_written: u64,
    /// TCP segments that were sent again, of the whole machine.
    pub retransmitted: u64,
    /// Connections that found a backlog full, of the whole machine.
    pub overflows: u64,
}

impl Account {
    /// Of these processes. What ends while it is read is left out.
    pub fn read(pids: &[i32]) -> Account {
        let mut account = Account { tcp: tcp(), ..Account::default() };
        for pid in pids {
            if let Some(disk) = text(&format!("/proc/{pid}/io")).and_then(|text| proc::disk(&text)) {
                account.disk.insert(*pid, disk);
            }
            let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            for task in tasks.flatten().take(THREADS_MAX - account.threads.len().min(THREADS_MAX)) {
                let scheduling = text(&task.path().join("schedstat").to_string_lossy());
                let number = task.file_name().to_str().and_then(|name| name.parse().ok());
                if let (Some(number), Some(scheduling)) = (number, scheduling.and_then(|text| proc::scheduling(&text)))
                {
                    account.threads.insert(number, scheduling);
                }
            }
        }
        account
    }

    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Account) -> Kernel {
        let mut kernel = Kernel::default();
        let mut waited = Duration::ZERO;
        for (number, now) in &self.threads {
            let before = earlier.threads.get(number).copied().unwrap_or_default();
            kernel.switches += now.switches.saturating_sub(before.switches);
            waited += now.waited.saturating_sub(before.waited);
        }
        kernel.waited_s = waited.as_secs_f64();
        for (pid, now) in &self.disk {
            let before = earlier.disk.get(pid).copied().unwrap_or_default();
            kernel.disk_read += now.read.saturating_sub(before.read);
            kernel.disk_written += now.written.saturating_sub(before.written);
        }
        if let (Some(now), Some(before)) = (self.tcp, earlier.tcp) {
            kernel.retransmitted = now.retransmitted.saturating_sub(before.retransmitted);
            kernel.overflows = now.overflows.saturating_sub(before.overflows);
        }
        kernel
    }
}

fn tcp() -> Option<proc::Tcp> {
    proc::tcp(&text("/proc/net/snmp")?, &text("/proc/net/netstat")?)
}

fn text(file: &str) -> Option<String> {
    fs::read_to_string(file).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Thread = (i32, u64, u64);

    /// Threads with their milliseconds of waiting and their switches, processes with the bytes that they read.
    fn account(threads: &[Thread], disks: &[(i32, u64)], retransmitted: u64) -> Account {
        let thread = |&(number, ms, switches): &Thread| {
            (number, proc::Scheduling { waited: Duration::from_millis(ms), switches })
        };
        let disk = |&(pid, read): &(i32, u64)| (pid, proc::Disk { read, written: 2 * read });
        Account {
            threads: threads.iter().map(thread).collect(),
            disk: disks.iter().map(disk).collect(),
            tcp: Some(proc::Tcp { retransmitted, overflows: 1 }),
        }
    }

    #[test]
    fn threads_that_come_count_whole_and_threads_that_go_not_at_all() {
        let before = account(&[(1, 100, 10), (2, 500, 50)], &[(1, 4096), (9, 1)], 7);
        let after = account(&[(1, 350, 25), (3, 250, 5)], &[(1, 12_288), (5, 100)], 9);
        let expected = Kernel {
            switches: 15 + 5,
            waited_s: 0.5,
            disk_read: 8192 + 100,
            disk_written: 16_384 + 200,
            retransmitted: 2,
            overflows: 0,
        };
        assert_eq!(after.since(&before), expected);
        assert_eq!(before.since(&before), Kernel::default());
    }

    #[test]
    fn a_thread_that_sleeps_is_switched() {
        let me = [std::process::id() as i32];
        let before = Account::read(&me);
        (0..20).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
        let kernel = Account::read(&me).since(&before);
        assert!(kernel.switches >= 20, "{kernel:?}");
    }
}
