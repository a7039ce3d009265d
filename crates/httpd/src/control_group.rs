//! What the control group that the server runs in, a container's or a unit's, leaves it: memory and tasks. (Processors are
//! what `available_parallelism` says; it knows control groups itself.)

use std::fs;
use std::path::{Path, PathBuf};

use manifold_mpm::limits::{Limits, Model};

/// Where control groups are seen. A controller of the first version has a folder of its own below.
const MOUNT: &str = "/sys/fs/cgroup";
/// What stands for no limit in the first version: the largest number of whole pages.
const UNLIMITED: u64 = 1 << 62;

/// Limits that hold for all processes of the server together; `None` where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ControlGroup {
    /// Bytes (`memory.max`).
    pub memory_max: Option<u64>,
    /// Processes and threads (`pids.max`).
    pub pids_max: Option<u64>,
}

impl ControlGroup {
    /// That of the calling process.
    pub(crate) fn current() -> ControlGroup {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        ControlGroup::read(Path::new(MOUNT), &groups)
    }

    /// The least of the limits of the groups that `groups` (as /proc/self/cgroup) names and of those around them.
    fn read(mount: &Path, groups: &str) -> ControlGroup {
        let least = |controller: &str, names: &[&str]| {
            let folders = groups.lines().filter_map(|line| folder(mount, line, controller));
            let files = folders.flat_map(|(top, folder)| {
                let around: Vec<PathBuf> = folder.ancestors().map(Path::to_owned).collect();
                let around = around.into_iter().take_while(move |folder| folder.starts_with(&top));
                around.flat_map(|folder| names.iter().map(move |name| folder.join(name)).collect::<Vec<_>>())
            });
            files.filter_map(|file| limit(&fs::read_to_string(file).ok()?)).min()
        };
        ControlGroup {
            memory_max: least("memory", &["memory.max", "memory.limit_in_bytes"]),
            pids_max: least("pids", &["pids.max"]),
        }
    }

    /// The limits there are, for the table of effective numbers.
    pub(crate) fn rows(self) -> impl Iterator<Item = (&'static str, String)> {
        let rows = [("memory.max", self.memory_max), ("pids.max", self.pids_max)];
        rows.into_iter().filter_map(|(name, limit)| Some((name, limit?.to_string())))
    }

    /// What is wrong where the server may need more processes and threads than it can get.
    pub(crate) fn complaint(self, limits: &Limits) -> Option<String> {
        let (allowed, needed) = (self.pids_max?, tasks(limits));
        (needed > allowed).then(|| {
            format!(
                "the control group allows {allowed} processes and threads (pids.max), but these limits may need {needed}, \
                 and for a while twice as many during a reload: beyond that, children cannot be started; raise pids.max \
                 (TasksMax of a unit, --pids-limit of a container) or lower MaxRequestWorkers"
            )
        })
    }
}

/// The folder of the group that a line of /proc/self/cgroup (`number:controllers:path`) names for a controller, and the
/// one above all groups that are seen. In a container the path may be that of the host: then only the latter is there.
fn folder(mount: &Path, line: &str, controller: &str) -> Option<(PathBuf, PathBuf)> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let top = match controllers {
        "" => mount.to_owned(),
        names => names.split(',').any(|name| name == controller).then(|| mount.join(controller))?,
    };
    Some((top.clone(), top.join(path.trim_start_matches('/'))))
}

fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|limit| *limit < UNLIMITED)
}

/// Processes and threads that a server may have at a time: a thread beside the workers listens, and there is the parent.
fn tasks(limits: &Limits) -> u64 {
    let a_process = match limits.model {
        Model::Worker | Model::Event => u64::from(limits.threads_per_child) + 1,
        Model::Prefork | Model::Percore => 1,
    };
    u64::from(limits.processes()) * a_process + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use manifold_mpm::limits::{Occasion, RawLimits, resolve};

    #[test]
    fn the_least_limit_of_all_groups_around_holds() {
        let mount = std::env::temp_dir().join(format!("manifold-cgroup-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let file = mount.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("a/memory.max", "max\n");
        write("a/pids.max", "100\n");
        write("a/b/pids.max", "200\n");
        write("a/b/memory.max", "4096\n");
        write("pids/pids.max", "50\n");
        write("memory/x/memory.limit_in_bytes", "9223372036854771712\n");
        let check = |groups: &str, memory_max: Option<u64>, pids_max: Option<u64>| {
            assert_eq!(ControlGroup::read(&mount, groups), ControlGroup { memory_max, pids_max }, "{groups}");
        };
        check("0::/a/b\n", Some(4096), Some(100));
        check("0::/a\n", None, Some(100));
        check("0::/elsewhere\n", None, None);
        // Of the first version; what a container sees is mounted in the place of the host's path.
        check("8:pids:/docker/1\n4:memory:/x\n0::/\n", None, Some(50));
        check("4:cpu,cpuacct:/a\n", None, None);
        check("", None, None);
        fs::remove_dir_all(&mount).unwrap();
    }

    #[test]
    fn a_server_that_may_need_more_tasks_than_allowed_is_told() {
        let check = |model: Model, needed: u64| {
            let (limits, _) = resolve(model, &RawLimits::default(), 2, Occasion::Start);
            let group = |pids_max| ControlGroup { pids_max: Some(pids_max), memory_max: None };
            assert_eq!(group(needed).complaint(&limits), None, "{model}");
            let complaint = group(needed - 1).complaint(&limits).unwrap();
            assert!(complaint.contains(&format!("may need {needed},")), "{complaint}");
            assert_eq!(ControlGroup::default().complaint(&limits), None);
        };
        check(Model::Prefork, 257);
        check(Model::Worker, 16 * 26 + 1);
        check(Model::Event, 16 * 26 + 1);
        check(Model::Percore, 3);
    }
}
