//! Watching a server from outside: the CPU time, memory, processes and threads of a whole process tree.
//!
//! **CPU time** is read as each process's CPU clock (clock_getcpuclockid(3)), which counts nanoseconds, all threads,
//! ended ones too. `/proc/PID/stat` would count in ticks of 10 ms, each process cut down to whole ones: hopeless for
//! 256 children in a cell of 0.4 s. What children used that have ended and were waited for is added from their
//! parent's `stat` (there only ticks exist, but such children are few). **The split into user and system** exists in
//! ticks only, so a cell's split is rough; the report pools it over all rounds of a cell.
//!
//! **Memory** is the proportional set size (PSS) of each process, summed. A page shared by n processes counts a n-th in
//! each, so the sum is what the tree holds; summed RSS would count it n times. Socket buffers in the kernel are in
//! neither. Reading it takes about 0.1 ms a process, so it is done in the warm-up, and given up rather than carried into
//! the measured time.

pub mod account;
pub mod watch;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::{Pid, SysconfVar, sysconf};

use crate::proc;

/// More processes than any server here has; a tree cannot be followed without end.
const PROCESSES_MAX: usize = 20_000;

/// What a process tree has used since it was started, and what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU time of all processes, ended and reaped ones included.
    pub cpu: Duration,
    /// User time of the same, counted in ticks.
    pub user: Duration,
    /// System time of the same, counted in ticks.
    pub system: Duration,
    /// Processes now.
    pub processes: u32,
    /// Threads now.
    pub threads: u32,
}

impl Usage {
    /// What was used since `earlier`; processes and threads stay those of now.
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            processes: self.processes,
            threads: self.threads,
        }
    }
}

/// The usage of these processes. One that ends while it is read is left out; its parent has its ticks then.
pub fn usage(pids: &[i32]) -> Usage {
    let tick = tick();
    let mut total = Usage::default();
    for &pid in pids {
        let Some(stat) = fs::read_to_string(format!("/proc/{pid}/stat")).ok().as_deref().and_then(proc::stat) else {
            continue;
        };
        let own = clock_getcpuclockid(Pid::from_raw(pid)).and_then(ClockId::now);
        let own = match own {
            Ok(time) => Duration::from_nanos(time.num_nanoseconds().max(0) as u64),
            Err(_) => tick * (stat.user + stat.system) as u32,
        };
        total.cpu += own + tick * (stat.children_user + stat.children_system) as u32;
        total.user += tick * (stat.user + stat.children_user) as u32;
        total.system += tick * (stat.system + stat.children_system) as u32;
        total.processes += 1;
        total.threads += stat.threads as u32;
    }
    total
}

/// The summed PSS of these processes, in KiB; `None` if it may not be read (another user's processes), or could not be
/// read to the end by the deadline.
pub fn pss_kib(pids: &[i32], deadline: Instant) -> Option<u64> {
    let mut total = 0;
    for pid in pids {
        if Instant::now() > deadline {
            return None;
        }
        match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
            Ok(text) => total += proc::pss_kib(&text).unwrap_or(0),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return None,
            Err(_) => {} // ended meanwhile
        }
    }
    Some(total)
}

/// The summed private memory of these processes, in KiB; `None` if it may not be read.
pub fn private_kib(pids: &[i32]) -> Option<u64> {
    let of = |pid| fs::read_to_string(format!("/proc/{pid}/smaps_rollup"));
    let mut total = 0;
    for pid in pids {
        match of(*pid) {
            Ok(text) => total += proc::private_kib(&text)?,
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return None,
            Err(_) => {} // ended meanwhile
        }
    }
    Some(total)
}

/// Processor time of the whole machine that was used or stolen (by the hypervisor) since boot; `None` where /proc/stat
/// cannot be read.
pub fn machine() -> Option<Duration> {
    let machine = proc::machine(&fs::read_to_string("/proc/stat").ok()?)?;
    Some(Duration::from_secs_f64((machine.busy + machine.steal) as f64 * tick().as_secs_f64()))
}

/// The length of one tick of `/proc/PID/stat`.
fn tick() -> Duration {
    let hertz = sysconf(SysconfVar::CLK_TCK).ok().flatten().filter(|&h| h > 0).unwrap_or(100);
    Duration::from_secs(1) / hertz as u32
}

/// `root` and all its descendants, parents first.
///
/// # Errors
/// If `root` is gone.
pub fn tree(root: i32) -> io::Result<Vec<i32>> {
    let first = PathBuf::from(format!("/proc/{root}"));
    if !first.exists() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("process {root} is gone")));
    }
    if !first.join(format!("task/{root}/children")).exists() {
        return tree_by_scan(root); // kernels without CONFIG_PROC_CHILDREN
    }
    let mut pids = vec![root];
    let mut next = 0;
    while next < pids.len() && pids.len() < PROCESSES_MAX {
        let pid = pids[next];
        next += 1;
        // A child belongs to the thread that forked it, so every thread is asked; most processes have one.
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for task in tasks.flatten() {
            if let Ok(text) = fs::read_to_string(task.path().join("children")) {
                pids.extend(proc::children(&text));
            }
        }
    }
    Ok(pids)
}

/// The tree by reading every process's parent.
fn tree_by_scan(root: i32) -> io::Result<Vec<i32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if let Some(stat) = fs::read_to_string(entry.path().join("stat")).ok().as_deref().and_then(proc::stat) {
            parents.push((pid, stat.parent));
        }
    }
    Ok(descendants(root, &parents))
}

/// `root` and everything below it in a list of (process, parent).
fn descendants(root: i32, parents: &[(i32, i32)]) -> Vec<i32> {
    let mut pids = vec![root];
    let mut next = 0;
    while next < pids.len() && pids.len() < PROCESSES_MAX {
        let parent = pids[next];
        next += 1;
        pids.extend(parents.iter().filter(|&&(pid, p)| p == parent && pid != root).map(|&(pid, _)| pid));
    }
    pids
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn descendants_of_a_list() {
        let parents = [(1, 0), (10, 1), (11, 10), (12, 10), (20, 1), (13, 11)];
        assert_eq!(descendants(10, &parents), [10, 11, 12, 13]);
        assert_eq!(descendants(99, &parents), [99]);
    }

    #[test]
    fn a_tree_with_a_child_is_seen_whole() {
        // The shell waits for input with a child that waits as well: two processes, until their input ends.
        let mut shell = Command::new("sh")
            .args(["-c", "echo up; cat; exit 0"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let root = shell.id() as i32;
        let both = (0..10_000).any(|_| {
            std::thread::yield_now();
            tree(root).is_ok_and(|pids| pids.len() == 2)
        });
        assert!(both, "the shell and its cat");
        let scanned = tree_by_scan(root).expect("/proc can be read");
        assert_eq!(scanned.len(), 2);
        let pids = tree(root).expect("it is there");
        let used = usage(&pids);
        assert_eq!((used.processes, used.threads), (2, 2));
        assert!(used.cpu > Duration::ZERO);
        let now = Instant::now();
        assert!(pss_kib(&pids, now + Duration::from_secs(60)).is_some_and(|kib| kib > 0));
        assert_eq!(pss_kib(&pids, now - Duration::from_nanos(1)), None, "given up after the deadline");
        drop(shell.stdin.take());
        shell.wait().expect("it ends");
        assert!(tree(root).is_err());
        assert_eq!(usage(&pids), Usage::default());
    }

    #[test]
    fn cpu_time_is_finer_than_a_tick() {
        let me = [std::process::id() as i32];
        let before = usage(&me);
        let mut sum = 0u64;
        let mut after = before;
        for _ in 0..1000 {
            sum = sum.wrapping_add((0..10_000u64).fold(0, |a, b| a ^ b));
            after = usage(&me);
            if after.cpu > before.cpu {
                break;
            }
        }
        let used = after.since(&before);
        assert!(used.cpu > Duration::ZERO && !used.cpu.subsec_nanos().is_multiple_of(10_000_000), "{used:?} {sum}");
    }
}
