//! Describing the machine, so that a figure can be judged by someone who was not there.

use std::fs;

use nix::unistd::{Gid, Group, Uid, User};

use crate::cores::Cores;
use crate::proc;
use crate::results::Environment;
use crate::suspicion;

/// Users to run servers as when the laboratory is root, in order of preference: Debian's, then the ones elsewhere.
const USERS: [&str; 4] = ["www-data", "apache", "http", "nobody"];

/// This machine. `command` repeats the run.
pub fn describe(cores: &Cores, command: &str) -> Environment {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let memory_kib: u64 = proc::value(&read("/proc/meminfo"), "MemTotal", ':')
        .and_then(|value| value.trim_end_matches(" kB").parse().ok())
        .unwrap_or(0);
    let or_unknown = |value: Option<&str>| value.filter(|v| !v.is_empty()).unwrap_or("unknown").to_owned();
    Environment {
        started_utc: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S").to_string(),
        system: or_unknown(proc::value(&read("/etc/os-release"), "PRETTY_NAME", '=')),
        kernel: or_unknown(Some(read("/proc/sys/kernel/osrelease").trim())),
        cpu: or_unknown(proc::value(&read("/proc/cpuinfo"), "model name", ':')),
        memory_mib: memory_kib / 1024,
        cores: cores.clone(),
        manifold: env!("CARGO_PKG_VERSION").to_owned(),
        command: command.to_owned(),
        suspicions: suspicion::suspicions(),
    }
}

/// The user and group servers are told to become: only root can, and should not serve as root.
///
/// # Errors
/// If none of the usual users exists.
pub fn server_user() -> Result<Option<(String, String)>, String> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    for name in USERS {
        if let Ok(Some(user)) = User::from_name(name) {
            let group = Group::from_gid(Gid::from_raw(user.gid.as_raw())).ok().flatten();
            return Ok(Some((user.name, group.map_or_else(|| format!("#{}", user.gid), |group| group.name))));
        }
    }
    Err(format!(
        "run as root the servers need a user of their own, and there is none of {}; run as another user",
        USERS.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let environment = describe(&Cores::detect(), "manifold lab run");
        assert!(environment.memory_mib > 0 && !environment.kernel.is_empty(), "{environment:?}");
        assert_eq!(environment.started_utc.len(), 19);
        assert_eq!(environment.command, "manifold lab run");
    }
}
