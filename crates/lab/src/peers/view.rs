//! What a run of `peers` tells, laid out but not yet written: the claims with their verdicts, the tables, the plots, and what
//! limits them. Text, Markdown and HTML are made from the same.

use manifold_stats::{Interval, attainable_level};

use super::claims::{self, Judgement, Verdict};
use super::plan::{self, Page, Placement, Work, mode};
use super::results::{Peers, counts};
use crate::cores;
use crate::figures::Metric;
use crate::plot::{Axis, Plot, Who};
use crate::results::Mark;
use crate::text;

/// What is said of every run of an experiment.
#[derive(Debug)]
pub struct Words {
    /// Of the report.
    pub title: &'static str,
    /// Above the bars.
    pub bars: &'static str,
    /// How to read the bars.
    pub bars_remark: &'static str,
    /// How titles of tables begin that are shown on the terminal.
    pub shown: &'static [&'static str],
    /// How it was measured: headings and paragraphs.
    pub method: &'static [(&'static str, &'static str)],
    /// The last line.
    pub footer: &'static str,
}

static WORDS: Words = Words {
    title: "Manifold beside its peers",
    bars: "What a request costs",
    bars_remark: "The server’s own processor time a request, user and system. Thin lines are intervals. The responder does nothing but answer: below it is no room for a server that uses epoll.",
    shown: &["CPU a request, µs", "Memory"],
    method: &[
        (
            "Equal terms",
            "Every server is held to one processor and has one event loop, or the processes and threads of its model: prefork 1,088 processes, worker 17 of 64 threads, event 4 of 64 threads, the same for manifold and apache2. None writes an access log; connections are kept for 60 s and any number of requests; the backlog is 4,096, or the most the system allows where it cannot be set. Otherwise each has its own defaults, caches included. The responder answers from memory, or by sendfile from a file in memory, and looks at nothing but the end of a head. The configurations and logs are in the folders servers and servers-idle beside this file.",
        ),
        (
            "Figures and intervals",
            "One cell is one target under one load in one round, loaded by a generator in a process of its own. All servers run all the time and only one is loaded. CPU time is each process’s CPU clock, read before the generator starts and after the server has finished what it left, divided by all requests in between, warm-up included. Figures are medians over rounds with the sign test’s intervals, ratios are Hodges and Lehmann’s estimates over rounds with the signed-rank test’s.",
        ),
    ],
    footer: "Written by manifold lab. The data are in peers.json and claims.json beside this file.",
};

/// Everything that is told.
#[derive(Debug)]
pub struct View {
    /// What is said of every such run.
    pub words: &'static Words,
    /// One sentence: how many claims hold.
    pub headline: String,
    /// Every claim, judged.
    pub judgements: Vec<Judgement>,
    /// The claims by what they are about.
    pub claims: Vec<Claims>,
    /// CPU a request of each load, as bars.
    pub bars: Vec<Plot>,
    /// All figures.
    pub tables: Vec<Table>,
    /// What is to be held against the figures.
    pub limits: Vec<String>,
    /// Where and how it was measured.
    pub facts: Vec<(&'static str, String)>,
    /// The command that repeats it.
    pub command: String,
}

/// Claims about one thing.
#[derive(Debug)]
pub struct Claims {
    /// `CPU a request, 44 B keep-alive`.
    pub about: String,
    /// The claims.
    pub rows: Vec<Judgement>,
}

/// A table whose first column names targets.
#[derive(Debug)]
pub struct Table {
    /// What it shows.
    pub title: &'static str,
    /// How to read it.
    pub remark: String,
    /// Headings.
    pub head: Vec<String>,
    /// Cells as (figure, its interval or nothing).
    pub rows: Vec<Vec<(String, String)>>,
}

impl View {
    /// The view of these results.
    pub fn of(peers: &Peers) -> View {
        let maker = Maker { peers };
        let judgements = claims::judge(peers);
        View {
            words: &WORDS,
            headline: headline(&judgements),
            claims: by_subject(&judgements),
            judgements,
            bars: maker.bars(),
            tables: maker.tables(),
            limits: maker.limits(),
            facts: maker.facts(),
            command: peers.environment.command.clone(),
        }
    }
}

/// The claims by what they are about, in their order.
pub fn by_subject(judgements: &[Judgement]) -> Vec<Claims> {
    let mut all: Vec<Claims> = Vec::new();
    for judgement in judgements {
        match all.iter_mut().find(|claims| claims.about == judgement.about) {
            Some(claims) => claims.rows.push(judgement.clone()),
            None => all.push(Claims { about: judgement.about.clone(), rows: vec![judgement.clone()] }),
        }
    }
    all
}

/// How many claims hold, as a sentence.
pub fn headline(judgements: &[Judgement]) -> String {
    let count = |verdict: Verdict| judgements.iter().filter(|judgement| judgement.verdict == verdict).count();
    let mut parts = vec![format!("{} met", count(Verdict::Met)), format!("{} missed", count(Verdict::Missed))];
    for verdict in [Verdict::NotDistinguishable, Verdict::NotMeasured] {
        if count(verdict) > 0 {
            parts.push(format!("{} {}", count(verdict), verdict.text()));
        }
    }
    if judgements.is_empty() {
        return "These targets were measured; nothing is claimed of them.".to_owned();
    }
    format!("Of {}: {}.", text::counted(judgements.len(), "claim"), text::list(&parts))
}

struct Maker<'r> {
    peers: &'r Peers,
}

impl Maker<'_> {
    fn labels(&self) -> impl Iterator<Item = (usize, String)> {
        self.peers.targets.iter().enumerate().map(|(index, target)| (index, target.label.clone()))
    }

    /// The loads of which there is any cell.
    fn measured(&self, works: Vec<Work>) -> Vec<Work> {
        works.into_iter().filter(|&work| self.peers.cells.iter().any(|cell| cell.work == work)).collect()
    }

    fn bars(&self) -> Vec<Plot> {
        let targets = self.peers.targets.iter();
        let whos = Who::all(targets.map(|target| (target.label.clone(), target.family, target.model)));
        let of = |work: Work| {
            let row = |(index, who): (usize, &Who)| {
                Some((who.clone(), self.peers.figure(index, work, Metric::CpuUsPerRequest)?))
            };
            let mut rows: Vec<(Who, Interval)> = whos.iter().enumerate().filter_map(row).collect();
            rows.sort_by(|a, b| a.1.estimate.total_cmp(&b.1.estimate));
            let caption = work.label();
            Plot::bars(format!("CPU a request, {caption}"), caption, Axis::Micros, rows)
        };
        plan::apart().into_iter().filter_map(of).collect()
    }

    fn tables(&self) -> Vec<Table> {
        let nginx = self.peers.find("nginx");
        let mut tables = vec![
            self.by_work("CPU a request, µs", "User and system time of all of a server's processes, divided by the requests: less is better, and this is what tells servers apart.", |target, work| {
                cell(self.peers.figure(target, work, Metric::CpuUsPerRequest), text::number)
            }),
            self.by_work("CPU a request, times nginx's", "Paired within each round, so that the machine's slow drifts fall out.", |target, work| {
                let ratio = nginx.and_then(|nginx| self.peers.ratio((target, work), (nginx, work), Metric::CpuUsPerRequest));
                cell(ratio, text::ratio_number)
            }),
            self.by_work("Requests a second", "More is better; where the generator was saturated (mark G) the server can do more than this.", |target, work| {
                cell(self.peers.figure(target, work, Metric::RequestsPerSecond), text::number)
            }),
            self.by_work("Latency, median, ms", "Less is better. It contains the time a request waits in the generator when that is saturated.", |target, work| {
                cell(self.peers.figure(target, work, Metric::P50Us), milliseconds)
            }),
            self.by_work("Latency, 99th percentile, ms", "Less is better; one request in a hundred took longer.", |target, work| {
                cell(self.peers.figure(target, work, Metric::P99Us), milliseconds)
            }),
        ];
        tables.extend([self.idle(), self.two_cores(), self.marks()].into_iter().flatten());
        tables.retain(|table| table.head.len() > 1);
        tables
    }

    /// A table of the loads that compare servers.
    fn by_work(&self, title: &'static str, remark: &str, of: impl Fn(usize, Work) -> (String, String)) -> Table {
        let works = self.measured(plan::apart());
        let head = |work: &Work| format!("{} {} c={}", work.page.label(), mode(work.keep_alive), work.connections);
        let row = |(target, label): (usize, String)| {
            let cells = works.iter().map(|&work| of(target, work));
            [(label, String::new())].into_iter().chain(cells).collect()
        };
        Table {
            title,
            remark: remark.to_owned(),
            head: [String::new()].into_iter().chain(works.iter().map(head)).collect(),
            rows: self.labels().map(row).collect(),
        }
    }

    fn idle(&self) -> Option<Table> {
        let row = |(target, label): (usize, String)| {
            let last = self.peers.idle.iter().rfind(|idle| idle.target == target)?;
            let fresh = last.fresh_kib.map_or("–".to_owned(), |kib| text::number(kib as f64 / 1024.0));
            let of = |text: String| (text, String::new());
            let open = text::grouped(last.open as i64);
            let size = format!("{} / {}", last.processes, last.threads);
            Some(vec![of(label), of(fresh), cell(self.peers.idle(target), text::number), of(open), of(size)])
        };
        let rows: Vec<_> = self.labels().filter_map(row).collect();
        let head = ["", "fresh", "with 1,000 idle", "connections that stood", "processes / threads"];
        (!rows.is_empty()).then(|| Table {
            title: "Memory, PSS in MiB",
            remark: "Each server anew and alone, so that it shares its program with nobody; connections are idle after one answered request."
                .to_owned(),
            head: head.map(str::to_owned).to_vec(),
            rows,
        })
    }

    fn two_cores(&self) -> Option<Table> {
        let works = self.measured(plan::on_two());
        let two = |work: &Work| work.placement == Placement::Two;
        let row = |(target, label): (usize, String)| {
            let pairs = works.iter().filter(|work| two(work)).map(|&work| {
                let one = Work { placement: Placement::OneOfTwo, ..work };
                let cpu = |work| cell(self.peers.figure(target, work, Metric::CpuUsPerRequest), text::number);
                // Work a second of CPU time is the inverse of CPU time a request.
                let ratio = self.peers.ratio((target, one), (target, work), Metric::CpuUsPerRequest)?;
                Some([cpu(one), cpu(work), cell(Some(ratio), text::ratio_number)])
            });
            let cells: Option<Vec<[(String, String); 3]>> = pairs.collect();
            Some([(label, String::new())].into_iter().chain(cells?.into_iter().flatten()).collect())
        };
        let rows: Vec<_> = self.labels().filter_map(row).collect();
        let heads = works.iter().filter(|work| two(work)).flat_map(|work| {
            let c = work.connections;
            [
                format!("one core, µs, c={c}"),
                format!("two cores, µs, c={c}"),
                format!("work per CPU second, two to one, c={c}"),
            ]
        });
        (!works.is_empty() && !rows.is_empty()).then(|| Table {
            title: "Two cores",
            remark: format!(
                "CPU a request on {} with keep-alive, the server on one core or two and the generator on the same two where there are no others.",
                Page::Small.label()
            ),
            head: [String::new()].into_iter().chain(heads).collect(),
            rows,
        })
    }

    /// The marks of each cell, for the report.
    fn marks(&self) -> Option<Table> {
        let any = self.peers.cells.iter().any(|cell| !cell.cell.marks.is_empty());
        let seen = |mark: &Mark| self.peers.cells.iter().any(|cell| cell.cell.marks.contains(mark));
        let meanings: Vec<String> =
            Mark::ALL.into_iter().filter(seen).map(|mark| format!("{}: {}", mark.letter(), mark.meaning())).collect();
        any.then(|| {
            let remark = format!("A number tells in how many rounds. {}.", meanings.join(". "));
            self.by_work("Marks", &remark, |target, work| {
                let marks: Vec<String> = Mark::ALL
                    .into_iter()
                    .filter_map(|mark| match self.peers.marked(target, work, mark) {
                        0 => None,
                        n => Some(format!("{}{n}", mark.letter())),
                    })
                    .collect();
                (marks.join(" "), String::new())
            })
        })
    }

    fn limits(&self) -> Vec<String> {
        let peers = self.peers;
        let mut limits = Vec::new();
        if let Some(why) = &peers.ended_early {
            limits.push(format!("The run was ended early: {why}."));
        }
        let count = |mark: Mark| peers.cells.iter().filter(|cell| cell.cell.marks.contains(&mark)).count();
        let all = text::counted(peers.cells.len(), "cell");
        for (mark, said) in [
            (Mark::Disturbed, "Something else used more than a tenth of a processor"),
            (
                Mark::GeneratorSaturated,
                "As is to be expected of fast servers, the generator was saturated (CPU a request stands; requests a second are lower bounds)",
            ),
        ] {
            if count(mark) > 0 {
                limits.push(format!("{said} in {} of {all}.", text::grouped(count(mark) as i64)));
            }
        }
        limits.extend(peers.environment.suspicions.iter().cloned());
        let refused = peers.cells.iter().filter(|cell| !counts(&cell.cell)).count();
        if refused > 0 {
            limits.push(format!(
                "{} of {all} had wrong answers, or fewer than two a connection (mark T: give more --seconds), and are left out.",
                text::grouped(refused as i64)
            ));
        }
        if peers.rounds < 6 {
            limits.push(format!(
                "With {} an interval holds the true median in {} % of runs at best.",
                text::counted(peers.rounds as usize, "round"),
                text::number(attainable_level(peers.rounds as usize) * 100.0)
            ));
        }
        if peers.environment.cores.shared() {
            limits.push("There is one processor: server and generator shared it.".to_owned());
        }
        for missing in &peers.missing {
            limits.push(format!("{} is not in this run: {}.", missing.label, missing.reason));
        }
        limits
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let peers = self.peers;
        let e = &peers.environment;
        let versions: Vec<String> = peers
            .targets
            .iter()
            .filter(|target| !target.version.starts_with("Manifold"))
            .map(|target| target.version.clone())
            .fold(Vec::new(), |mut all, version| {
                if !all.contains(&version) {
                    all.push(version);
                }
                all
            });
        vec![
            ("Begun", format!("{} UTC, took {}", e.started_utc, text::duration(peers.took_s))),
            ("System", format!("{}, kernel {}", e.system, e.kernel)),
            ("Processor", format!("{}, {} MiB of memory", e.cpu, text::grouped(e.memory_mib as i64))),
            (
                "Processors used",
                format!(
                    "{} for the server, {} for the generator",
                    cores::text(&e.cores.server),
                    cores::text(&e.cores.generator)
                ),
            ),
            (
                "Cells",
                format!(
                    "{} in {}, each {} s of load and then {} s measured or more",
                    text::grouped(peers.cells.len() as i64),
                    text::counted(peers.rounds as usize, "round"),
                    peers.warm_up_s,
                    peers.measured_s
                ),
            ),
            ("Manifold", e.manifold.clone()),
            ("Peers", versions.join("; ")),
        ]
    }
}

/// A figure and its interval, as a table has them.
pub fn cell(figure: Option<Interval>, number: fn(f64) -> String) -> (String, String) {
    match figure {
        Some(figure) => (number(figure.estimate), format!("{} – {}", number(figure.low), number(figure.high))),
        None => ("–".to_owned(), String::new()),
    }
}

fn milliseconds(us: f64) -> String {
    text::number(us / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn all_is_told() {
        let view = View::of(&fixture::peers());
        let titles: Vec<&str> = view.tables.iter().map(|table| table.title).collect();
        let expected = [
            "CPU a request, µs",
            "CPU a request, times nginx's",
            "Requests a second",
            "Latency, median, ms",
            "Latency, 99th percentile, ms",
            "Memory, PSS in MiB",
            "Two cores",
            "Marks",
        ];
        assert_eq!(titles, expected);
        for table in &view.tables {
            assert!(table.rows.iter().all(|row| row.len() == table.head.len()), "{}", table.title);
        }
        assert_eq!((view.tables[0].head.len(), view.tables[0].rows.len(), view.bars.len()), (11, 13, 10));
        assert_eq!(view.claims.iter().map(|claims| claims.rows.len()).sum::<usize>(), view.judgements.len());
        assert!(view.headline.starts_with("Of ") && view.headline.contains(" met"), "{}", view.headline);
        assert!(view.limits.iter().any(|limit| limit.contains("saturated")), "{:?}", view.limits);
    }

    #[test]
    fn little_is_told_of_little() {
        let mut peers = fixture::peers();
        peers.cells.clear();
        peers.idle.clear();
        peers.rounds = 0;
        let view = View::of(&peers);
        assert!(view.tables.is_empty() && view.bars.is_empty());
        assert!(view.judgements.iter().all(|judgement| judgement.verdict == Verdict::NotMeasured));
    }
}
