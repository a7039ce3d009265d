//! What of a machine makes figures worth less, pointed out before anybody wonders: read from where Linux says it, judged by pure rules.

use std::fs;

use nix::sys::resource::{Resource, getrlimit};

use crate::proc;

/// With fewer descriptors a thousand connections do not fit into the generator or a server of one process.
const DESCRIPTORS_LEAST: u64 = 4096;
/// Servers ask for at least this backlog.
const BACKLOG_LEAST: u64 = 511;
/// With fewer local ports, connections that are not kept run out of them.
const PORTS_LEAST: u64 = 20_000;
/// More processor time than this share stolen by the hypervisor since boot is much.
const STEAL_MOST: f64 = 0.02;
/// The machine was busy if in the last minute more processes than this wanted a processor.
const LOAD_MOST: f64 = 0.5;
/// A mebibyte in the kibibytes of /proc/meminfo.
const MIB: u64 = 1024;

/// What is looked at; `None` where the machine does not say.
#[derive(Clone, Debug, Default, PartialEq)]
struct Facts {
    /// The frequency governor of the first processor.
    governor: Option<String>,
    /// Whether processors may clock higher for a while.
    turbo: Option<bool>,
    /// Share of processor time the hypervisor took since boot.
    steal: Option<f64>,
    /// Processes that wanted a processor in the last minute, on average.
    load: Option<f64>,
    /// net.core.somaxconn.
    backlog: Option<u64>,
    /// Ports in net.ipv4.ip_local_port_range.
    ports: Option<u64>,
    /// RLIMIT_NOFILE, hard.
    descriptors: Option<u64>,
    /// Processors that cpu.max of our cgroup allows.
    quota: Option<f64>,
    /// Swap in use, KiB.
    swap_kib: Option<u64>,
    /// This binary is built without optimisation.
    debug: bool,
}

/// One sentence for everything that looks wrong here.
pub fn suspicions() -> Vec<String> {
    judge(&Facts::read())
}

fn judge(facts: &Facts) -> Vec<String> {
    let mut said = Vec::new();
    if facts.debug {
        said.push("This manifold was built without optimisation: its own figures are those of a build for debugging (cargo build --release).".to_owned());
    }
    if let Some(load) = facts.load.filter(|load| *load > LOAD_MOST) {
        said.push(format!(
            "In the minute before, {load:.1} other processes wanted a processor on average: the machine was not quiet."
        ));
    }
    if let Some(governor) = facts.governor.as_deref().filter(|governor| *governor != "performance") {
        said.push(format!("The processors' frequency governor is {governor}: figures follow what it makes of the load (cpupower frequency-set -g performance)."));
    }
    if facts.turbo == Some(true) {
        said.push("Processors may clock higher for a while (turbo): a cell after a pause can be faster than the same one later.".to_owned());
    }
    if let Some(steal) = facts.steal.filter(|steal| *steal > STEAL_MOST) {
        said.push(format!(
            "The hypervisor took {:.1} % of the processors' time since boot: other guests' load is in the figures.",
            steal * 100.0
        ));
    }
    if let Some(quota) = facts.quota {
        said.push(format!("A control group allows {quota:.1} processors: what needs more is stopped for parts of each tenth of a second."));
    }
    if let Some(kib) = facts.swap_kib.filter(|kib| *kib > 64 * MIB) {
        said.push(format!("{} MiB are swapped out: memory is short.", kib / MIB));
    }
    if let Some(descriptors) = facts.descriptors.filter(|most| *most < DESCRIPTORS_LEAST) {
        said.push(format!("A process may have {descriptors} descriptors at most: large numbers of connections do not fit (ulimit -Hn)."));
    }
    if let Some(backlog) = facts.backlog.filter(|backlog| *backlog < BACKLOG_LEAST) {
        said.push(format!("net.core.somaxconn is {backlog}: connections beyond it wait a second and try again (sysctl net.core.somaxconn=4096)."));
    }
    if let Some(ports) = facts.ports.filter(|ports| *ports < PORTS_LEAST) {
        said.push(format!("There are {ports} local ports: connections that are not kept can run out of them (sysctl net.ipv4.ip_local_port_range='1024 65535')."));
    }
    said
}

impl Facts {
    fn read() -> Facts {
        let text = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let number = |path: &str| text(path)?.parse().ok();
        let intel = || text("/sys/devices/system/cpu/intel_pstate/no_turbo").map(|off| off == "0");
        let other = || text("/sys/devices/system/cpu/cpufreq/boost").map(|on| on == "1");
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib = |key| proc::value(&meminfo, key, ':')?.strip_suffix(" kB")?.parse::<u64>().ok();
        Facts {
            governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            turbo: intel().or_else(other),
            steal: text("/proc/stat").and_then(|stat| steal(&stat)),
            load: text("/proc/loadavg").and_then(|load| load.split(' ').next()?.parse().ok()),
            backlog: number("/proc/sys/net/core/somaxconn"),
            ports: text("/proc/sys/net/ipv4/ip_local_port_range").and_then(|range| ports(&range)),
            descriptors: getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(_, hard)| hard),
            quota: text("/sys/fs/cgroup/cpu.max").and_then(|max| quota(&max)),
            swap_kib: kib("SwapTotal").and_then(|all| all.checked_sub(kib("SwapFree")?)),
            debug: cfg!(debug_assertions),
        }
    }
}

/// The share of stolen time since boot, by /proc/stat.
fn steal(stat: &str) -> Option<f64> {
    let proc::Machine { busy, idle, steal } = proc::machine(stat)?;
    let all = busy + idle + steal;
    (all > 0).then(|| steal as f64 / all as f64)
}

fn ports(range: &str) -> Option<u64> {
    let mut ends = range.split_ascii_whitespace().map(str::parse::<u64>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    (last + 1).checked_sub(first)
}

/// Processors by cgroup v2's cpu.max, `QUOTA PERIOD` in microseconds; `None` without a limit.
fn quota(max: &str) -> Option<f64> {
    let (quota, period) = max.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_machine_is_not_suspected() {
        let sound = Facts {
            governor: Some("performance".to_owned()),
            turbo: Some(false),
            steal: Some(0.001),
            load: Some(0.1),
            backlog: Some(4096),
            ports: Some(28_232),
            descriptors: Some(1_048_576),
            quota: None,
            swap_kib: Some(0),
            debug: false,
        };
        assert_eq!(judge(&sound), Vec::<String>::new());
        assert_eq!(judge(&Facts::default()), Vec::<String>::new(), "what is not known is not suspected");
    }

    #[test]
    fn everything_that_looks_wrong_is_said() {
        for (facts, part) in [
            (Facts { governor: Some("powersave".to_owned()), ..Facts::default() }, "governor is powersave"),
            (Facts { turbo: Some(true), ..Facts::default() }, "turbo"),
            (Facts { steal: Some(0.05), ..Facts::default() }, "took 5.0 %"),
            (Facts { load: Some(1.5), ..Facts::default() }, "1.5 other processes"),
            (Facts { backlog: Some(128), ..Facts::default() }, "somaxconn is 128"),
            (Facts { ports: Some(5000), ..Facts::default() }, "5000 local ports"),
            (Facts { descriptors: Some(1024), ..Facts::default() }, "1024 descriptors"),
            (Facts { quota: Some(1.5), ..Facts::default() }, "allows 1.5 processors"),
            (Facts { swap_kib: Some(200 * MIB), ..Facts::default() }, "200 MiB are swapped out"),
            (Facts { debug: true, ..Facts::default() }, "without optimisation"),
        ] {
            let said = judge(&facts);
            assert!(said.len() == 1 && said[0].contains(part), "{facts:?}: {said:?}");
        }
    }

    #[test]
    fn texts_of_linux() {
        assert_eq!(steal("cpu  10 0 10 70 0 0 0 10 0 0\ncpu0 1"), Some(0.1));
        assert_eq!((steal(""), steal("cpu  1 2")), (None, None));
        assert_eq!((ports("32768\t60999"), ports("5"), ports("9 1")), (Some(28_232), None, None));
        assert_eq!((quota("150000 100000"), quota("max 100000"), quota("1 0")), (Some(1.5), None, None));
    }
}
