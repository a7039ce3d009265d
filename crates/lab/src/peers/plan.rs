//! What `lab run peers` measures: which pages, how they are asked for, where server and generator run, and in which order.

use serde::{Deserialize, Serialize};

use manifold_stats::Rng;

use crate::experiment::Load;

/// A page that is asked for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Page {
    /// Apache's own page: what a request costs.
    Small,
    /// A picture or a script: many segments, but all in memory.
    Medium,
    /// A download.
    Large,
}

impl Page {
    /// All of them, in the order of the tables.
    pub const ALL: [Page; 3] = [Page::Small, Page::Medium, Page::Large];

    /// Length of the body.
    pub fn bytes(self) -> usize {
        match self {
            Page::Small => 44,
            Page::Medium => 136 * 1024,
            Page::Large => 10 * 1024 * 1024,
        }
    }

    /// Its length for a person.
    pub fn label(self) -> &'static str {
        match self {
            Page::Small => "44 B",
            Page::Medium => "136 KB",
            Page::Large => "10 MB",
        }
    }

    /// Its file in the served folder.
    pub fn file(self) -> &'static str {
        match self {
            Page::Small => "index.html",
            Page::Medium => "medium.html",
            Page::Large => "large.html",
        }
    }

    /// Numbers of connections it is asked for over. A thousand downloads of 10 MB at a time would take a generator that is
    /// faster than the servers, and hold gigabytes in the sockets' buffers.
    pub fn connections(self) -> &'static [u32] {
        match self {
            Page::Small | Page::Medium => &[100, 1000],
            Page::Large => &[10],
        }
    }

    /// The body: the small page, repeated as the responder repeats it.
    pub fn body(self) -> Vec<u8> {
        crate::cli::BUILT_IN_PAGE.bytes().cycle().take(self.bytes()).collect()
    }
}

/// Which processors the server has, and which the generator.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// The server one, the generator others: every comparison between servers.
    Apart,
    /// The server one, the generator as in [`Two`](Self::Two): what two processors are compared with.
    OneOfTwo,
    /// The server two; the generator the same two where there are no more.
    Two,
}

/// One kind of load.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Work {
    /// The page.
    pub page: Page,
    /// Connections kept alive between requests.
    pub keep_alive: bool,
    /// Connections open at the same time.
    pub connections: u32,
    /// Who has which processors.
    pub placement: Placement,
}

impl Work {
    /// The number of connections and whether they are kept.
    pub fn load(self) -> Load {
        Load { keep_alive: self.keep_alive, concurrency: self.connections }
    }

    /// How long it is measured where `usual` is enough for the others. Long answers over many connections take their time: a
    /// cell must be long beside one answer.
    pub fn measured_s(self, usual: f64) -> f64 {
        match self.page {
            Page::Small => usual,
            Page::Medium if self.connections < 1000 => usual,
            Page::Medium => 4.0 * usual,
            Page::Large => 3.0 * usual,
        }
    }

    /// `44 B keep-alive, c = 100`.
    pub fn label(self) -> String {
        let placement = match self.placement {
            Placement::Apart => "",
            Placement::OneOfTwo => ", one core, generator on both",
            Placement::Two => ", two cores, generator on both",
        };
        format!("{} {}, c = {}{placement}", self.page.label(), mode(self.keep_alive), self.connections)
    }
}

/// `keep-alive` or `closing`.
pub fn mode(keep_alive: bool) -> &'static str {
    if keep_alive { "keep-alive" } else { "closing" }
}

/// The servers that are measured on two processors as well.
const ON_TWO: [&str; 2] = ["percore", "nginx"];

/// All loads by which servers are compared, in the order of the tables.
pub fn apart() -> Vec<Work> {
    let of = |page: Page, keep_alive: bool| {
        let work = move |&connections| Work { page, keep_alive, connections, placement: Placement::Apart };
        page.connections().iter().map(work)
    };
    Page::ALL.into_iter().flat_map(|page| of(page, true).chain(of(page, false))).collect()
}

/// The loads by which two processors are compared with one.
pub fn on_two() -> Vec<Work> {
    let of = |placement| {
        let work = move |&connections| Work { page: Page::Small, keep_alive: true, connections, placement };
        Page::Small.connections().iter().map(work)
    };
    of(Placement::OneOfTwo).chain(of(Placement::Two)).collect()
}

/// What is measured of one target. The responder that sends from memory stands for small pages, the one that uses sendfile for
/// the others.
pub fn works(target: &str, two_cores: bool) -> Vec<Work> {
    let pages: &[Page] = match target {
        "responder" => &[Page::Small],
        "responder-sendfile" => &[Page::Medium, Page::Large],
        _ => &Page::ALL,
    };
    let mut works: Vec<Work> = apart().into_iter().filter(|work| pages.contains(&work.page)).collect();
    if two_cores && ON_TWO.contains(&target) {
        works.extend(on_two());
    }
    works
}

/// One measurement to be made: an index into the targets, and the load.
pub type Step = (usize, Work);

/// The steps of every round.
pub fn steps(targets: &[&str], two_cores: bool) -> Vec<Step> {
    let of = |(index, target): (usize, &&str)| works(target, two_cores).into_iter().map(move |work| (index, work));
    targets.iter().enumerate().flat_map(of).collect()
}

/// The order of the next round: random, so that a slow minute of the machine hits all and not one, and decided by the seed.
pub fn round(steps: &[Step], rng: &mut Rng) -> Vec<Step> {
    let mut order = steps.to_vec();
    rng.shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_target_has_its_loads() {
        for (target, two_cores, count) in [
            ("nginx", true, 14),
            ("percore", true, 14),
            ("percore", false, 10),
            ("event", true, 10),
            ("responder", true, 4),
            ("responder-sendfile", true, 6),
        ] {
            let works: HashSet<Work> = works(target, two_cores).into_iter().collect();
            assert_eq!(works.len(), count, "{target}");
        }
        assert_eq!(apart()[0].label(), "44 B keep-alive, c = 100");
        assert_eq!(apart()[3].label(), "44 B closing, c = 1000");
    }

    #[test]
    fn rounds_have_every_step_once_in_an_order_of_their_own() {
        let steps = steps(&["percore", "responder"], true);
        let mut rng = Rng::new(7);
        let rounds = [round(&steps, &mut rng), round(&steps, &mut rng)];
        assert_ne!(rounds[0], rounds[1]);
        assert!(rounds.iter().all(|round| round.iter().collect::<HashSet<_>>().len() == steps.len()));
        assert_eq!(round(&steps, &mut Rng::new(7)), rounds[0]);
    }

    #[test]
    fn bodies_repeat_the_small_page() {
        for page in Page::ALL {
            let body = page.body();
            assert_eq!(body.len(), page.bytes());
            assert!(body.starts_with(crate::cli::BUILT_IN_PAGE.as_bytes()));
        }
    }
}
