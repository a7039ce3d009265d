//! Reading the texts under /proc: pure parsers of what Linux writes there (proc(5)).

use std::time::Duration;

/// What one process's `/proc/PID/stat` says, as far as the laboratory needs it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stat {
    /// The parent's process id.
    pub parent: i32,
    /// Ticks in user mode, its own threads.
    pub user: u64,
    /// Ticks in the kernel, its own threads.
    pub system: u64,
    /// Ticks in user mode of children that have ended and were waited for.
    pub children_user: u64,
    /// Ticks in the kernel of such children.
    pub children_system: u64,
    /// Threads now.
    pub threads: u64,
    /// When it began, ticks since boot.
    pub started: u64,
}

/// Parses `/proc/PID/stat`. The name in brackets may hold spaces and brackets itself, so fields count from the last
/// closing one. `None` if the text is not of that form.
pub fn stat(text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(')')?;
    // fields[0] is field 3 of proc(5), the state.
    let fields: Vec<&str> = fields.split_ascii_whitespace().take(20).collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        user: number(14)?,
        system: number(15)?,
        children_user: number(16)?,
        children_system: number(17)?,
        threads: number(20)?,
        started: number(22)?,
    })
}

/// The proportional set size in KiB out of `/proc/PID/smaps_rollup`: pages shared by n processes count a n-th each, so
/// that the sum over a process tree is what the tree really holds.
pub fn pss_kib(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix("kB")?.trim_end().parse().ok()
}

/// The private memory in KiB out of `/proc/PID/smaps_rollup`: pages that no other process has.
pub fn private_kib(text: &str) -> Option<u64> {
    let of = |key| value(text, key, ':')?.strip_suffix("kB")?.trim_end().parse::<u64>().ok();
    Some(of("Private_Clean")? + of("Private_Dirty")?)
}

/// The most memory that was ever resident in a process, in KiB, out of `/proc/PID/status` (VmHWM). `None` where it has ended.
pub fn peak_kib(status: &str) -> Option<u64> {
    value(status, "VmHWM", ':')?.strip_suffix("kB")?.trim_end().parse().ok()
}

/// Process ids out of `/proc/PID/task/TID/children`.
pub fn children(text: &str) -> impl Iterator<Item = i32> {
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok())
}

/// Ticks of all processors since boot, out of the first line of `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Machine {
    /// Ticks spent on anything but idling, waiting for a disk, and stolen time.
    pub busy: u64,
    /// Ticks in which there was nothing to do, or nothing but waiting for a disk.
    pub idle: u64,
    /// Ticks in which the hypervisor ran someone else while we wanted to run.
    pub steal: u64,
}

/// Parses `/proc/stat`: user nice system idle iowait irq softirq steal, in ticks.
pub fn machine(text: &str) -> Option<Machine> {
    let fields: Vec<u64> =
        text.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace().filter_map(|f| f.parse().ok()).collect();
    let at = |i: usize| fields.get(i).copied();
    Some(Machine { busy: at(0)? + at(1)? + at(2)? + at(5)? + at(6)?, idle: at(3)? + at(4)?, steal: at(7)? })
}

/// What the scheduler counted of a thread.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Scheduling {
    /// Ready to run, without a processor.
    pub waited: Duration,
    /// How often it was put on a processor.
    pub switches: u64,
}

/// Parses `/proc/PID/task/TID/schedstat`: nanoseconds running, nanoseconds waiting, times put on a processor.
pub fn scheduling(text: &str) -> Option<Scheduling> {
    let mut fields = text.split_ascii_whitespace().skip(1).map(str::parse);
    Some(Scheduling { waited: Duration::from_nanos(fields.next()?.ok()?), switches: fields.next()?.ok()? })
}

/// Bytes that a process had moved from and to disks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Disk {
    /// Read.
    pub read: u64,
    /// Written, or to be written out of the page cache.
    pub written: u64,
}

/// Parses `/proc/PID/io`.
pub fn disk(text: &str) -> Option<Disk> {
    let of = |key| value(text, key, ':')?.parse().ok();
    Some(Disk { read: of("read_bytes")?, written: of("write_bytes")? })
}

/// TCP's mishaps on the whole machine since boot.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tcp {
    /// Segments sent again.
    pub retransmitted: u64,
    /// Connections that found a backlog full.
    pub overflows: u64,
}

/// Parses `/proc/net/snmp` and `/proc/net/netstat`.
pub fn tcp(snmp: &str, netstat: &str) -> Option<Tcp> {
    Some(Tcp {
        retransmitted: counter(snmp, "Tcp:", "RetransSegs")?,
        overflows: counter(netstat, "TcpExt:", "ListenOverflows")?,
    })
}

/// A counter out of a file with two lines a group: the names, and the values.
fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(group));
    let place = lines.next()?.split_ascii_whitespace().position(|found| found == name)?;
    lines.next()?.split_ascii_whitespace().nth(place)?.parse().ok()
}

/// The value after `key` and a colon, as in `/proc/cpuinfo`, `/proc/meminfo` and `/etc/os-release` (there after `=`).
pub fn value<'t>(text: &'t str, key: &str, separator: char) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (k, v) = line.split_once(separator)?;
        (k.trim() == key).then(|| v.trim().trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const APACHE: &str = "10730 (apache2) S 10726 10726 4403 0 -1 4194304 1449 0 3 0 21 5 7 9 20 0 27 0 190795 5509120 949 \
        18446744073709551615 94495862169600 94495862490457 140728098820752 0 0 0 0 16781316 134235883 1 0 0 17 1 0 0 0 0 0";

    #[test]
    fn stats() {
        let expected = Stat {
            parent: 10726,
            user: 21,
            system: 5,
            children_user: 7,
            children_system: 9,
            threads: 27,
            started: 190_795,
        };
        for (text, expected) in [
            (APACHE.to_owned(), Some(expected)),
            (APACHE.replace("(apache2)", "(a b) (c)"), Some(expected)),
            (String::new(), None),
            ("1 (x".to_owned(), None),
            ("1 (x) S 1 2 3".to_owned(), None),
            ("1 (x) S one 10726 4403 0 -1 4194304 1449 0 3 0 21 5 7 9 20 0 27 0 190795".to_owned(), None),
        ] {
            assert_eq!(stat(&text), expected, "{text}");
        }
    }

    #[test]
    fn proportional_set_size() {
        let text =
            "5649919-7ffd11 ---p 00000000 00:00 0    [rollup]\nRss:     1600 kB\nPss:      277 kB\nPss_Dirty: 108 kB\n";
        assert_eq!(pss_kib(text), Some(277));
        assert_eq!(pss_kib("Rss: 1 kB\n"), None);
        assert_eq!(pss_kib("Pss: many kB\n"), None);
        let text = "Rss:     1600 kB\nPrivate_Clean:       12 kB\nPrivate_Dirty:      300 kB\n";
        assert_eq!((private_kib(text), private_kib("Private_Clean: 1 kB\n")), (Some(312), None));
    }

    #[test]
    fn child_lists() {
        assert_eq!(children("12 345 6 ").collect::<Vec<_>>(), [12, 345, 6]);
        assert_eq!(children("").count(), 0);
    }

    #[test]
    fn machine_ticks() {
        let text = "cpu  100 1 30 4000 7 2 5 9 0 0\ncpu0 50 0 15 2000 3 1 2 4 0 0\n";
        assert_eq!(machine(text), Some(Machine { busy: 138, idle: 4007, steal: 9 }));
        assert_eq!(machine("intr 1\n"), None);
        assert_eq!(machine("cpu  1 2 3\n"), None);
    }

    #[test]
    fn what_the_scheduler_counted() {
        let some = Scheduling { waited: Duration::from_nanos(56_666_131), switches: 321 };
        for (text, expected) in
            [("129876304 56666131 321\n", Some(some)), ("129876304 56666131", None), ("", None), ("1 two 3", None)]
        {
            assert_eq!(scheduling(text), expected, "{text}");
        }
    }

    #[test]
    fn disks_and_mishaps() {
        let io =
            "rchar: 9\nwchar: 8\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 12288\ncancelled_write_bytes: 0\n";
        assert_eq!(disk(io), Some(Disk { read: 4096, written: 12_288 }));
        assert_eq!(disk("rchar: 9\n"), None);
        let snmp = "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: ActiveOpens RetransSegs InErrs\nTcp: 5 17 0\n";
        let netstat =
            "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 3 4\nIpExt: InNoRoutes\nIpExt: 0\n";
        assert_eq!(tcp(snmp, netstat), Some(Tcp { retransmitted: 17, overflows: 3 }));
        assert_eq!((tcp(snmp, ""), tcp("Tcp: RetransSegs\nTcp:\n", netstat)), (None, None));
    }

    #[test]
    fn values() {
        let cpu = "processor\t: 0\nmodel name\t: AMD EPYC: 7\n";
        assert_eq!(value(cpu, "model name", ':'), Some("AMD EPYC: 7"));
        assert_eq!(value("PRETTY_NAME=\"Debian 12\"\n", "PRETTY_NAME", '='), Some("Debian 12"));
        assert_eq!(value(cpu, "absent", ':'), None);
    }
}
