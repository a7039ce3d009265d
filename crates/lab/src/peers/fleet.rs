//! The servers of a run of `peers`: one of each target, and further ones where a load needs another page or more processors.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::plan::{Page, Placement, Work};
use crate::cores::Cores;
use crate::server::{self, Page as Expected, Server};
use crate::staged::Stage;
use crate::target::{Installed, Limits, Model, Terms};

/// Sizes: for 1,000 connections a process (prefork) or a thread (worker) each, with some to spare; connections kept as long as the
/// client likes; and a backlog that holds all of them.
pub const LIMITS: Limits = Limits {
    backlog: 4096,
    keep_alive_s: 60,
    keep_alive_requests: 0,
    prefork: 1088,
    worker: 17,
    event: 4,
    threads: 64,
    // Apache's event closes kept connections beyond its formula, and 1,000 are no surprise here.
    event_factor: Some(8),
};

/// How long a large server may take until all its processes are there.
const FULL_SIZE_WITHIN: Duration = Duration::from_secs(60);

/// The processors of a run.
#[derive(Clone, Debug)]
pub struct Places {
    /// The one of every server.
    pub one: Vec<usize>,
    /// Two, for the servers that are measured on two as well; `None` where there are none.
    pub two: Option<Vec<usize>>,
    /// The generator's, apart from `one` where there are others.
    pub apart: Vec<usize>,
    /// The generator's when servers have `two`.
    pub together: Vec<usize>,
}

/// More processors than this the generator does not need.
const GENERATOR_CORES_MAX: usize = 4;

impl Places {
    /// By the processors there are.
    pub fn of(cores: &Cores) -> Places {
        let mut all = [&cores.server[..], &cores.generator].concat();
        all.sort_unstable();
        all.dedup();
        let of = |from: usize| -> Vec<usize> {
            let rest = all.get(from..).unwrap_or_default();
            rest.iter().copied().take(GENERATOR_CORES_MAX).collect()
        };
        let two = (all.len() > 1).then(|| all[..2].to_vec());
        let or = |cores: Vec<usize>, others: &[usize]| if cores.is_empty() { others.to_vec() } else { cores };
        Places {
            one: all[..1].to_vec(),
            apart: or(of(1), &all[..1]),
            together: or(of(2), two.as_deref().unwrap_or(&all[..1])),
            two,
        }
    }

    /// The generator's for a load, and whether its threads are bound to them.
    pub fn generator(&self, placement: Placement) -> (&[usize], bool) {
        match placement {
            Placement::Apart => (&self.apart, self.apart != self.one),
            Placement::OneOfTwo | Placement::Two => (&self.together, true),
        }
    }
}

/// One server of a run.
#[derive(Debug)]
pub struct Instance {
    /// Index of its target.
    pub target: usize,
    two: bool,
    /// The pages it answers with; the responder knows but one.
    pages: Vec<Page>,
    /// `None` once it has ended.
    pub server: Option<Server>,
}

impl Instance {
    /// Whether this is the server that a load is for.
    pub fn serves(&self, target: usize, work: Work) -> bool {
        self.target == target && self.two == (work.placement == Placement::Two) && self.pages.contains(&work.page)
    }
}

/// What starting a server takes.
#[derive(Debug)]
pub struct Starter<'a> {
    /// The place of the run.
    pub stage: &'a Stage,
    /// The processors.
    pub places: &'a Places,
    /// The folder with the pages.
    pub site: &'a Path,
    /// The folder below which servers keep their files.
    pub folder: PathBuf,
    /// Load before the measured time.
    pub warm_up: Duration,
}

impl Starter<'_> {
    /// Starts the servers for these loads, and waits until each answers rightly and has its full size.
    ///
    /// # Errors
    /// If one cannot be started; those that were are ended.
    pub fn start_all(&self, target: usize, installed: &Installed, works: &[Work]) -> Result<Vec<Instance>> {
        // A peer that is our own binary is the responder.
        let one_page = installed.target.peer.is_some_and(|peer| peer.program.is_none());
        let mut instances: Vec<Instance> = Vec::new();
        for &work in works {
            if instances.iter().any(|instance| instance.serves(target, work)) {
                continue;
            }
            let two = work.placement == Placement::Two;
            let pages = if one_page { vec![work.page] } else { Page::ALL.to_vec() };
            let name = format!("{}-{}", installed.target.name, instances.len());
            let mut server = self.start(installed, &name, work.page, two)?;
            // A thread's first sendfile gets it a pipe, and pipes become small where a user has many: each server has its own
            // before those with a thousand processes take theirs.
            for page in pages.iter().filter(|page| **page != work.page) {
                server.wait_ready(&Expected { path: format!("/{}", page.file()), body: page.body() })?;
            }
            instances.push(Instance { target, two, pages, server: Some(server) });
        }
        Ok(instances)
    }

    /// Starts one server in a folder of its own, and waits as `start_all` does.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(&self, installed: &Installed, name: &str, page: Page, two: bool) -> Result<Server> {
        let port = *server::free_ports(1).context("no free port on 127.0.0.1")?.first().unwrap_or(&0);
        let cores = if two { self.places.two.as_ref().unwrap_or(&self.places.one) } else { &self.places.one };
        let terms = Terms {
            port,
            site: self.site,
            folder: &self.folder.join(name),
            cores,
            user: self.stage.user(),
            limits: &LIMITS,
            body_bytes: page.bytes(),
        };
        let mut server = Server::start(installed, &terms, &self.stage.manifold)?;
        server.wait_ready(&Expected { path: format!("/{}", page.file()), body: page.body() })?;
        server.wait_threads(threads(installed.target.model), FULL_SIZE_WITHIN)?;
        server.wait_full_size();
        server.warm_up = self.warm_up;
        Ok(server)
    }
}

/// The threads that a server of this model has at least, all processes together.
fn threads(model: Model) -> u32 {
    match model {
        Model::Prefork => LIMITS.prefork,
        Model::Worker => LIMITS.worker * LIMITS.threads,
        Model::Event => LIMITS.event * LIMITS.threads,
        Model::Percore | Model::Loop => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_divided() {
        let check = |all: &[usize], apart: &[usize], together: &[usize], two: bool| {
            let half = all.len() / 2;
            let (server, generator) = if half == 0 { (all, all) } else { all.split_at(half) };
            let places = Places::of(&Cores { server: server.to_vec(), generator: generator.to_vec() });
            assert_eq!((&places.one[..], &places.apart[..], &places.together[..]), (&all[..1], apart, together));
            assert_eq!(places.two, two.then(|| all[..2].to_vec()));
        };
        check(&[3], &[3], &[3], false);
        check(&[0, 1], &[1], &[0, 1], true);
        check(&[0, 1, 2, 3], &[1, 2, 3], &[2, 3], true);
        check(&[0, 1, 2, 3, 4, 5, 6, 7], &[1, 2, 3, 4], &[2, 3, 4, 5], true);
    }

    #[test]
    fn sizes_hold_a_thousand_connections() {
        assert!([Model::Prefork, Model::Worker].into_iter().all(|model| threads(model) > 1000));
        // Apache's formula: workers x (factor + 1).
        assert!(threads(Model::Event) * (LIMITS.event_factor.unwrap_or(2) + 1) > 1000);
    }
}
