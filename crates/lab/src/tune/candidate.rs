//! What may be chosen: a model with its numbers. The table of candidates is pure arithmetic on the load, the processors, what a child costs and
//! how much memory there is; so is the block that a candidate comes to.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::doctor::memory::Costs;
use crate::target::{Family, Model};

/// Threads of a child that are tried.
const THREADS: [u32; 2] = [25, 64];
/// `MaxRequestWorkers` of each model where nothing is said.
const PREFORK_DEFAULT: u32 = 256;
/// See [`PREFORK_DEFAULT`].
const THREADED_DEFAULT: u32 = 400;
/// Workers a processor, where requests do nothing but compute.
const WORKERS_A_CORE: u32 = 8;
/// Fewer workers than this are not worth having.
const WORKERS_LEAST: u32 = 16;
/// More processes than this are not tried in prefork.
const PREFORK_MOST: u32 = 4_096;
/// More threads than this are not tried.
const THREADS_MOST: u32 = 20_000;
/// Processes of event for each that is needed: those that drain after a reload keep their slots.
const EVENT_SLOTS: u32 = 2;

/// A model with its numbers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Candidate {
    /// For a table: `event 16 x 25`.
    pub name: String,
    /// Which model.
    pub model: Model,
    /// Its directives, in the order of the block.
    pub settings: Vec<(String, String)>,
    /// Requests that are worked on at the same time; 0 where the model has no such number.
    pub workers: u32,
    /// Memory by what a child costs, KiB; `None` where that is not known.
    pub memory_kib: Option<f64>,
    /// `KeepAlive Off`, where the present setting keeps connections.
    pub closes: bool,
    /// It is what is configured now.
    pub is_present: bool,
}

/// What the table is made for.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// Whose server.
    pub family: Family,
    /// Clients at the same time.
    pub clients: u32,
    /// Clients keep their connections.
    pub keep_alive: bool,
    /// Fewest clients at which the present setting is nearly as fast as at its best.
    pub knee: Option<u32>,
    /// Processors of the server.
    pub cores: u32,
    /// What children cost, by model.
    pub costs: &'a [(Model, Costs)],
    /// The most memory, KiB.
    pub memory_kib: f64,
    /// `MaxConnectionsPerChild` as it is now: what leaks does not show in minutes, so nothing is known against it.
    pub replaced_after: &'a str,
}

/// Candidates to measure, and those that do not fit into the memory, as sentences.
#[derive(Debug, Default)]
pub struct Candidates {
    /// To be measured.
    pub list: Vec<Candidate>,
    /// Why others are not.
    pub left_out: Vec<String>,
}

impl Wanted<'_> {
    /// All candidates beside the present setting: of each model one after the other, the largest first, so that the first few are as different
    /// as they can be.
    pub fn candidates(&self) -> Candidates {
        let mut found = Candidates::default();
        let models: &[Model] = match self.family {
            Family::Manifold => &[Model::Event, Model::Percore, Model::Worker, Model::Prefork],
            _ => &[Model::Event, Model::Worker, Model::Prefork],
        };
        let mut by_model: Vec<Vec<Candidate>> = models.iter().map(|&model| self.of(model)).collect();
        while by_model.iter().any(|left| !left.is_empty()) {
            for candidate in by_model.iter_mut().filter_map(Vec::pop) {
                match candidate.memory_kib {
                    Some(kib) if kib > self.memory_kib => found.left_out.push(format!(
                        "{} would take {:.0} MiB, by the measured PSS of a child, and {:.0} MiB are allowed",
                        candidate.name,
                        kib / 1024.0,
                        self.memory_kib / 1024.0
                    )),
                    _ => found.list.push(candidate),
                }
            }
        }
        found
    }

    fn of(&self, model: Model) -> Vec<Candidate> {
        let mut found = Vec::new();
        match model {
            Model::Percore => found.push(self.candidate(model, 0, 0)),
            Model::Prefork => {
                let all: BTreeSet<u32> =
                    self.workers(PREFORK_DEFAULT).into_iter().filter(|n| *n <= PREFORK_MOST).collect();
                found.extend(all.into_iter().map(|children| self.candidate(model, children, 1)));
            }
            Model::Worker | Model::Event => {
                let mut shapes = BTreeSet::new();
                for workers in self.workers(THREADED_DEFAULT) {
                    // Few workers make no use of large children.
                    let sizes = THREADS.into_iter().filter(|threads| *threads == THREADS[0] || workers > 2 * threads);
                    shapes.extend(sizes.map(|threads| (workers.div_ceil(threads), threads)));
                }
                let shapes = shapes.into_iter().filter(|(children, threads)| children * threads <= THREADS_MOST);
                found.extend(shapes.map(|(children, threads)| self.candidate(model, children, threads)));
            }
            Model::Loop => {}
        }
        // A kept connection holds a worker of these while its client pauses, which the clients of a load never do: with fewer workers than
        // clients they look good here and would not be.
        let is_scarce = |one: &Candidate| matches!(model, Model::Prefork | Model::Worker) && one.workers < self.clients;
        if self.keep_alive {
            found = found.into_iter().map(|one| if is_scarce(&one) { closing(&one) } else { one }).collect();
        }
        found
    }

    /// Numbers of workers worth trying: few, as many as the knee asks for, the default, one for each client.
    fn workers(&self, default: u32) -> BTreeSet<u32> {
        let few = (self.cores * WORKERS_A_CORE).max(WORKERS_LEAST);
        let knee = self.knee.map(|clients| (clients + clients / 4).max(few));
        [Some(few), knee, Some(default), Some(self.clients.max(few))].into_iter().flatten().collect()
    }

    fn candidate(&self, model: Model, children: u32, threads: u32) -> Candidate {
        let workers = children * threads;
        let name = match model {
            Model::Percore => model.name().to_owned(),
            Model::Prefork => format!("prefork {children}"),
            _ => format!("{} {children} x {threads}", model.name()),
        };
        let costs = self.costs.iter().find(|(of, _)| *of == model).map(|(_, costs)| costs);
        let (children, threads) = if model == Model::Percore { (self.cores, 1) } else { (children, threads) };
        Candidate {
            name,
            model,
            settings: settings(model, children, threads, self.replaced_after),
            workers,
            memory_kib: costs.map(|costs| costs.of(children, threads)),
            closes: false,
            is_present: false,
        }
    }
}

fn closing(one: &Candidate) -> Candidate {
    Candidate { name: format!("{}, KeepAlive Off", one.name), closes: true, ..one.clone() }
}

/// All there from the start, and none ended for being idle: growth doubles once a second, and a load that comes at once would wait for it.
fn settings(model: Model, children: u32, threads: u32, replaced_after: &str) -> Vec<(String, String)> {
    let all = children * threads;
    let rows: Vec<(&str, u32)> = match model {
        Model::Percore | Model::Loop => Vec::new(),
        Model::Prefork => vec![
            ("ServerLimit", children),
            ("StartServers", children),
            ("MinSpareServers", 5.min(children)),
            ("MaxSpareServers", children.max(5.min(children) + 1)),
            ("MaxRequestWorkers", all),
        ],
        Model::Worker | Model::Event => vec![
            ("ServerLimit", if model == Model::Event { EVENT_SLOTS * children } else { children }),
            ("StartServers", children),
            ("ThreadLimit", threads.max(64)),
            ("ThreadsPerChild", threads),
            ("MinSpareThreads", threads),
            // Apache raises it to this without a word.
            ("MaxSpareThreads", all.max(2 * threads + 1)),
            ("MaxRequestWorkers", all),
        ],
    };
    let numbers = rows.into_iter().map(|(name, number)| (name.to_owned(), number.to_string()));
    numbers.chain([("MaxConnectionsPerChild".to_owned(), replaced_after.to_owned())]).collect()
}

impl Candidate {
    /// Whether both come to the same server.
    pub fn is_same(&self, other: &Candidate) -> bool {
        self.model == other.model && self.closes == other.closes && self.settings == other.settings
    }

    /// Its name as that of a folder.
    pub fn folder(&self) -> String {
        self.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
    }

    /// The block for a configuration of Apache or Manifold. `evidence` stands above it, and tells of each directive what it comes from.
    pub fn block(&self, evidence: &[String], why: impl Fn(&str) -> Option<String>) -> String {
        let mut text: String = evidence.iter().map(|line| format!("# {line}\n")).collect();
        let model = self.model.name();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "<IfModule mpm_{model}_module>");
        for (name, value) in &self.settings {
            if let Some(why) = why(name) {
                let _ = writeln!(text, "    # {why}");
            }
            let _ = writeln!(text, "    {name} {value}");
        }
        text.push_str("</IfModule>\n");
        if self.closes {
            text.push_str("# A kept connection holds a worker of this model, and there are fewer of them than clients.\nKeepAlive Off\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs { base_kib: 6000.0, child_kib: 1024.0, thread_kib: 40.0, threads: 25, modules: 0 };

    fn names(wanted: &Wanted<'_>) -> (Vec<String>, usize) {
        let found = wanted.candidates();
        (found.list.into_iter().map(|one| one.name).collect(), found.left_out.len())
    }

    fn wanted(family: Family, clients: u32, memory_kib: f64) -> Wanted<'static> {
        static ALL: [(Model, Costs); 3] = [
            (Model::Prefork, Costs { thread_kib: 0.0, threads: 1, ..COSTS }),
            (Model::Worker, COSTS),
            (Model::Event, COSTS),
        ];
        Wanted {
            family,
            clients,
            keep_alive: true,
            knee: Some(40),
            cores: 1,
            costs: &ALL,
            memory_kib,
            replaced_after: "0",
        }
    }

    #[test]
    fn candidates_follow_from_the_load_and_the_memory() {
        let (apache, left_out) = names(&wanted(Family::Apache2, 1000, 1e9));
        let first = ["event 40 x 25", "worker 40 x 25", "prefork 1000", "event 16 x 64", "worker 16 x 64"];
        assert_eq!(apache[..5], first, "{apache:?}");
        assert_eq!(apache.iter().filter(|name| name.starts_with("event")).count(), 6, "{apache:?}");
        assert!(apache.contains(&"prefork 1000".to_owned()) && !apache.contains(&"percore".to_owned()), "{apache:?}");
        assert!(apache.contains(&"prefork 16, KeepAlive Off".to_owned()), "{apache:?}");
        assert!(!apache.contains(&"prefork 16".to_owned()), "clients that pause would keep others out");
        assert!(apache.contains(&"event 1 x 25".to_owned()), "idle connections hold no worker");
        assert!(!apache.contains(&"prefork 1000, KeepAlive Off".to_owned()), "there is a worker for each client");
        assert_eq!(left_out, 0);
        let (manifold, _) = names(&wanted(Family::Manifold, 10, 1e9));
        assert!(manifold.contains(&"percore".to_owned()), "{manifold:?}");
        // 6000 KiB and 999 MiB more do not fit into 100 MiB.
        let (small, left_out) = names(&wanted(Family::Apache2, 1000, 102_400.0));
        assert!(!small.contains(&"prefork 1000".to_owned()) && left_out > 0, "{small:?}");
    }

    #[test]
    fn numbers_need_no_correction() {
        use manifold_mpm::limits::{Occasion, RawLimits, Written, resolve};
        let wanted = wanted(Family::Manifold, 1000, 1e9);
        for candidate in wanted.candidates().list.iter().filter(|one| one.model != Model::Percore) {
            let number = |names: &[&'static str]| {
                let directive = names[0];
                let value =
                    candidate.settings.iter().find(|(name, _)| names.contains(&name.as_str()))?.1.parse().ok()?;
                Some(Written { value, span: None, directive })
            };
            let raw = RawLimits {
                start_servers: number(&["StartServers"]),
                min_spare: number(&["MinSpareServers", "MinSpareThreads"]),
                max_spare: number(&["MaxSpareServers", "MaxSpareThreads"]),
                server_limit: number(&["ServerLimit"]),
                thread_limit: number(&["ThreadLimit"]),
                threads_per_child: number(&["ThreadsPerChild"]),
                max_request_workers: number(&["MaxRequestWorkers"]),
                ..RawLimits::default()
            };
            let model = candidate.model.name().parse().expect("a model");
            let (limits, findings) = resolve(model, &raw, 1, Occasion::Start);
            assert!(findings.iter().all(|finding| !finding.is_change()), "{}: {findings:?}", candidate.name);
            assert_eq!(limits.max_request_workers, candidate.workers, "{}", candidate.name);
        }
    }

    #[test]
    fn blocks_have_comments_on_lines_of_their_own() {
        let candidates = wanted(Family::Apache2, 100, 1e9).candidates().list;
        let event = candidates.iter().find(|one| one.name == "event 4 x 25").expect("one a client");
        let block = event.block(&["measured".to_owned()], |name| (name == "StartServers").then(|| "why".to_owned()));
        assert!(
            block.starts_with(
                "# measured\n<IfModule mpm_event_module>\n    ServerLimit 8\n    # why\n    StartServers 4\n"
            ),
            "{block}"
        );
        assert!(block.ends_with("    MaxConnectionsPerChild 0\n</IfModule>\n"), "{block}");
        let closing = closing(event);
        assert!(closing.block(&[], |_| None).ends_with("KeepAlive Off\n"));
    }
}
