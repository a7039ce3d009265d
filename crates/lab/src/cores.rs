//! Which processors the servers get and which the generator: apart, so that the one does not take the other's time.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// The division of the processors this process may use.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Cores {
    /// For every server under test.
    pub server: Vec<usize>,
    /// For the generator and the laboratory.
    pub generator: Vec<usize>,
}

impl Cores {
    /// The division of this machine, or of the part of it that we were given (taskset, a container).
    pub fn detect() -> Cores {
        split(&allowed())
    }

    /// With a single processor both share it, and no figure is free of the other's load.
    pub fn shared(&self) -> bool {
        self.server == self.generator
    }
}

/// First half of the processors to the servers, second half to the generator; an odd one goes to the generator, which
/// must not be the slower part. A single one is shared.
fn split(allowed: &[usize]) -> Cores {
    match allowed.len() {
        0 | 1 => Cores { server: allowed.to_vec(), generator: allowed.to_vec() },
        n => Cores { server: allowed[..n / 2].to_vec(), generator: allowed[n / 2..].to_vec() },
    }
}

/// The processors this thread may run on.
fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else { return vec![0] };
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect()
}

/// Binds this thread, and every process it starts from now on, to some processors.
///
/// # Errors
/// What the kernel says, for instance that none of them exists.
pub fn bind(cores: &[usize]) -> nix::Result<()> {
    if cores.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core)?;
    }
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// `0-3,8` for 0, 1, 2, 3, 8: as taskset writes it.
pub fn text(cores: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &core in cores {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => runs.push((core, core)),
        }
    }
    let run =
        |&(first, last): &(usize, usize)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits() {
        for (allowed, server, generator) in [
            (&[0usize][..], &[0usize][..], &[0usize][..]),
            (&[0, 1], &[0], &[1]),
            (&[0, 1, 2], &[0], &[1, 2]),
            (&[2, 3, 6, 7], &[2, 3], &[6, 7]),
        ] {
            let got = split(allowed);
            assert_eq!((&got.server[..], &got.generator[..]), (server, generator), "{allowed:?}");
            assert_eq!(got.shared(), allowed.len() == 1);
        }
    }

    #[test]
    fn texts() {
        for (cores, expected) in [(&[][..], ""), (&[0], "0"), (&[0, 1, 2, 3, 8], "0-3,8"), (&[1, 3], "1,3")] {
            assert_eq!(text(cores), expected);
        }
    }

    #[test]
    fn this_machine_has_some() {
        let cores = Cores::detect();
        assert!(!cores.server.is_empty() && !cores.generator.is_empty(), "{cores:?}");
        assert_eq!(bind(&[]), Ok(()));
    }
}
