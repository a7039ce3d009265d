//! What the machine allows a server: memory, descriptors, tasks, waiting connections, ports and pipes, each with where that is said.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit};

use super::reading::Whose;
use crate::proc;

/// Folders where units and their changes stand, the strongest first.
const UNIT_FOLDERS: [&str; 3] = ["/etc/systemd/system", "/run/systemd/system", "/lib/systemd/system"];
/// Names of Apache's unit.
const APACHES_UNITS: [&str; 2] = ["apache2.service", "httpd.service"];
/// Name of ours.
const OUR_UNITS: [&str; 1] = ["manifold.service"];
/// What systemd gives a service that does not say: `DefaultLimitNOFILE`'s soft number.
const SYSTEMD_DESCRIPTORS: u64 = 1024;
/// The script that starts Apache, and what it looks for in Debian.
const APACHECTL: &str = "/usr/sbin/apachectl";
/// See [`APACHECTL`].
const ULIMIT: &str = "APACHE_ULIMIT_MAX_FILES";
/// What Debian's `apachectl` sets where nothing else is said.
const APACHECTL_DESCRIPTORS: u64 = 8192;
/// Of the most tasks that there can be, systemd gives a service this part (`DefaultTasksMax`).
const SYSTEMD_TASKS: f64 = 0.15;

/// A number and where it is said.
#[derive(Clone, Debug, Default, Eq, PartialEq, serde::Serialize)]
pub struct Said {
    /// The number.
    pub number: u64,
    /// Such as `net.core.somaxconn`.
    pub by: String,
}

impl Said {
    fn new(number: u64, by: impl Into<String>) -> Said {
        Said { number, by: by.into() }
    }
}

/// What is looked at; `None` where the machine does not say.
#[derive(Clone, Debug, Default, Eq, PartialEq, serde::Serialize)]
pub struct Machine {
    /// Memory that can still be used, KiB.
    pub memory_kib: Option<Said>,
    /// Descriptors of each process.
    pub descriptors: Option<Said>,
    /// Processes and threads of the server.
    pub tasks: Option<Said>,
    /// Connections that may wait in a listening socket.
    pub somaxconn: Option<Said>,
    /// Local ports for connections to one backend.
    pub ports: Option<Said>,
    /// Pages that a user's pipes may hold.
    pub pipe_pages: Option<Said>,
}

impl Machine {
    /// Looks. `pid` is that of the server where it runs; `variables` are those it is started with.
    pub fn look(whose: Whose, pid: Option<i32>, variables: &BTreeMap<String, String>) -> Machine {
        let read = |path: &str| fs::read_to_string(path).ok();
        let number = |path: &str| read(path)?.trim().parse::<u64>().ok();
        let sysctl =
            |path: &str, name: &str| number(&format!("/proc/sys/{path}")).map(|number| Said::new(number, name));
        let limits = pid.and_then(|pid| read(&format!("/proc/{pid}/limits")));
        let units: &[&str] = if whose == Whose::Apache { &APACHES_UNITS } else { &OUR_UNITS };
        let unit = unit_text(units);
        let debian = whose == Whose::Apache && fs::read_to_string(APACHECTL).is_ok_and(|text| text.contains(ULIMIT));
        let debian = debian.then(|| ulimit(variables));
        let shell = getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft);
        Machine {
            memory_kib: memory(&read("/proc/meminfo").unwrap_or_default(), cgroup_left()),
            descriptors: descriptors(limits.as_deref(), unit.as_deref(), debian, shell),
            tasks: tasks(
                limits.as_deref(),
                unit.as_deref().filter(|_| Path::new("/run/systemd/system").exists()),
                number("/proc/sys/kernel/threads-max"),
                number("/proc/sys/kernel/pid_max"),
            ),
            somaxconn: sysctl("net/core/somaxconn", "net.core.somaxconn"),
            ports: read("/proc/sys/net/ipv4/ip_local_port_range")
                .and_then(|range| ports(&range))
                .map(|ports| Said::new(ports, "net.ipv4.ip_local_port_range")),
            pipe_pages: sysctl("fs/pipe-user-pages-soft", "fs.pipe-user-pages-soft"),
        }
    }
}

impl Machine {
    /// Memory that can still be used, KiB.
    pub fn available_kib() -> Option<f64> {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        memory(&meminfo, cgroup_left()).map(|said| said.number as f64)
    }
}

/// The unit of the server with its changes, the strongest first.
fn unit_text(units: &[&str]) -> Option<String> {
    let unit = units.iter().find(|unit| UNIT_FOLDERS.iter().any(|folder| Path::new(folder).join(unit).exists()))?;
    let mut text = String::new();
    for folder in UNIT_FOLDERS {
        let mut changes: Vec<_> =
            fs::read_dir(format!("{folder}/{unit}.d")).into_iter().flatten().flatten().map(|e| e.path()).collect();
        changes.sort();
        for file in changes.iter().rev() {
            text += &fs::read_to_string(file).unwrap_or_default();
            text.push('\n');
        }
    }
    for folder in UNIT_FOLDERS {
        text += &fs::read_to_string(format!("{folder}/{unit}")).unwrap_or_default();
        text.push('\n');
    }
    Some(text)
}

/// A setting of a unit: the soft number of `LimitNOFILE=1024:4096`.
fn setting(unit: &str, name: &str) -> Option<u64> {
    let value = unit.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))?.trim();
    match value.split(':').next()? {
        "infinity" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// What `apachectl` of Debian sets.
fn ulimit(variables: &BTreeMap<String, String>) -> u64 {
    let words = variables.get(ULIMIT).map_or("", String::as_str);
    words.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(APACHECTL_DESCRIPTORS)
}

/// The soft number of a line of `/proc/PID/limits`.
fn limit(limits: &str, name: &str) -> Option<u64> {
    let rest = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match rest.split_ascii_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn descriptors(limits: Option<&str>, unit: Option<&str>, debian: Option<u64>, shell: Option<u64>) -> Option<Said> {
    if let Some(number) = limits.and_then(|limits| limit(limits, "Max open files")) {
        return Some(Said::new(number, "/proc/PID/limits of the running server"));
    }
    if let Some(number) = debian {
        return Some(Said::new(number, "apachectl (ulimit -n; APACHE_ULIMIT_MAX_FILES in envvars)"));
    }
    match unit {
        Some(unit) => Some(match setting(unit, "LimitNOFILE") {
            Some(number) => Said::new(number, "LimitNOFILE of the unit"),
            None => Said::new(SYSTEMD_DESCRIPTORS, "systemd's default, where the unit has no LimitNOFILE"),
        }),
        None => shell.map(|number| Said::new(number, "ulimit -n of this shell")),
    }
}

fn tasks(limits: Option<&str>, unit: Option<&str>, threads: Option<u64>, pids: Option<u64>) -> Option<Said> {
    let all = threads.into_iter().chain(pids).min();
    let of_unit = unit.map(|unit| match setting(unit, "TasksMax") {
        Some(number) => Said::new(number, "TasksMax of the unit"),
        None => {
            let part = all.unwrap_or(u64::MAX) as f64 * SYSTEMD_TASKS;
            Said::new(part as u64, "systemd's DefaultTasksMax, 15 % of what the kernel has")
        }
    });
    let of_limits = limits.and_then(|limits| limit(limits, "Max processes"));
    [
        of_unit,
        of_limits.map(|number| Said::new(number, "/proc/PID/limits of the running server, Max processes")),
        threads.map(|number| Said::new(number, "kernel.threads-max")),
        pids.map(|number| Said::new(number, "kernel.pid_max")),
    ]
    .into_iter()
    .flatten()
    .min_by_key(|said| said.number)
}

/// What is available by `/proc/meminfo`, or left in our control group where that is less.
fn memory(meminfo: &str, group_kib: Option<u64>) -> Option<Said> {
    let available = proc::value(meminfo, "MemAvailable", ':')?.trim_end_matches(" kB").parse().ok()?;
    Some(match group_kib {
        Some(left) if left < available => Said::new(left, "memory.max of the control group, less what it uses"),
        _ => Said::new(available, "MemAvailable of /proc/meminfo, now"),
    })
}

/// What is left of the memory of our control group, KiB.
fn cgroup_left() -> Option<u64> {
    let number = |name: &str| fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse::<u64>().ok();
    Some(number("memory.max")?.saturating_sub(number("memory.current")?) / 1024)
}

fn ports(range: &str) -> Option<u64> {
    let mut ends = range.split_ascii_whitespace().map(str::parse::<u64>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    (last + 1).checked_sub(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
                          Max processes             96365                96365                processes \n\
                          Max open files            8192                 524288               files     \n";

    #[test]
    fn the_nearest_word_on_descriptors_holds() {
        let said =
            |limits, unit, debian| descriptors(limits, unit, debian, Some(1024)).map(|said| (said.number, said.by));
        let check = |limits, unit, debian, number: u64, by: &str| {
            let (got, whose) = said(limits, unit, debian).expect("a number");
            assert!(got == number && whose.contains(by), "{got} by {whose}");
        };
        check(Some(LIMITS), Some("LimitNOFILE=5"), Some(6), 8192, "running");
        check(None, Some("LimitNOFILE=5"), Some(6), 6, "apachectl");
        check(None, Some("[Service]\n LimitNOFILE=4096:8192\n"), None, 4096, "of the unit");
        check(None, Some("LimitNOFILE=infinity"), None, u64::MAX, "of the unit");
        check(None, Some("[Service]"), None, 1024, "systemd's default");
        check(None, None, None, 1024, "shell");
    }

    #[test]
    fn the_least_bound_on_tasks_holds() {
        let check = |limits, unit, number: u64, by: &str| {
            let said = tasks(limits, unit, Some(100_000), Some(32_768)).expect("a number");
            assert!(said.number == number && said.by.contains(by), "{said:?}");
        };
        check(None, None, 32_768, "pid_max");
        check(None, Some("[Service]"), 4_915, "15 %");
        check(None, Some("TasksMax=512"), 512, "TasksMax");
        check(
            Some("Max processes             64                64                processes"),
            None,
            64,
            "Max processes",
        );
    }

    #[test]
    fn texts() {
        let kib = |group| memory("MemTotal: 9 kB\nMemAvailable:    2048 kB\n", group).map(|said| said.number);
        assert_eq!([kib(None), kib(Some(4096)), kib(Some(1024))], [Some(2048), Some(2048), Some(1024)]);
        assert_eq!(ports("32768\t60999"), Some(28_232));
        let variables = |text: &str| BTreeMap::from([("APACHE_ULIMIT_MAX_FILES".to_owned(), text.to_owned())]);
        assert_eq!([ulimit(&BTreeMap::new()), ulimit(&variables("ulimit -n 65536"))], [8192, 65_536]);
    }
}
