//! `report.html`: one file that needs nothing else, the answer first; and [`mod@markdown`] of the same.

mod markdown;

use askama::Template;
use manifold_stats::{Comparison as Seen, Interval, Verdict};

use crate::compare::Comparisons;
use crate::cores;
use crate::experiment::Load;
use crate::figures::{Cells, Metric};
use crate::page::Frame;
use crate::plot::svg;
use crate::plot::{Axis, Plot, Point, Series, Who};
use crate::results::{Mark, Results, TargetInfo};
use crate::target::Family;
use crate::text;
use crate::words::{self, Answer};

pub use markdown::markdown;

/// The page for these results.
///
/// # Errors
/// If the template fails, which no content makes it do.
pub fn html(results: &Results, frame: &Frame) -> Result<String, askama::Error> {
    page(results, frame).render()
}

fn page<'f>(results: &Results, frame: &'f Frame) -> Page<'f> {
    let maker = Maker::of(results);
    Page {
        frame,
        title: title(results),
        answer: words::answer(results),
        legend: maker.whos.iter().map(|who| (svg::key(who), who.label.clone())).collect(),
        bars: maker.bars(),
        plots: maker.plots(),
        compared: maker.comparisons.count(),
        comparison: maker.comparison(),
        tables: maker.tables(),
        marks: maker.marks(),
        settings: maker.settings(),
        machine: maker.machine(),
        targets: maker.targets(),
        command: results.environment.command.clone(),
    }
}

/// Every plot of the page, in its order.
pub fn plots(results: &Results) -> Vec<Plot> {
    let maker = Maker::of(results);
    maker.bars().into_iter().chain(maker.plots().into_iter().flat_map(|row| row.figures)).collect()
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    frame: &'a Frame,
    title: String,
    answer: Answer,
    legend: Vec<(String, String)>,
    bars: Vec<Plot>,
    plots: Vec<Row>,
    compared: usize,
    comparison: Option<Comparison>,
    tables: Vec<Table>,
    marks: Vec<(char, &'static str)>,
    settings: Vec<(&'static str, String)>,
    machine: Vec<(&'static str, String)>,
    targets: Vec<TargetRow>,
    command: String,
}

/// The plots of one metric, keep-alive off and on side by side.
struct Row {
    title: &'static str,
    remark: &'static str,
    figures: Vec<Plot>,
}

struct Comparison {
    columns: Vec<String>,
    rows: Vec<(String, Vec<Ratio>)>,
}

/// How many times less CPU ours needs; empty where there is nothing to compare with.
struct Ratio {
    text: String,
    ends: String,
    class: &'static str,
}

struct Table {
    caption: String,
    rows: Vec<TableRow>,
}

struct TableRow {
    label: String,
    /// The first of its target's rows.
    first: bool,
    connections: u32,
    figures: Vec<(String, String)>,
    user: String,
    size: String,
    marks: String,
}

struct TargetRow {
    label: String,
    version: String,
    size: String,
    fresh: String,
}

struct Maker<'r> {
    results: &'r Results,
    cells: Cells<'r>,
    comparisons: Comparisons,
    /// The targets as plots show them.
    whos: Vec<Who>,
}

impl Maker<'_> {
    fn of(results: &Results) -> Maker<'_> {
        let cells = Cells::new(&results.experiment, &results.cells);
        let comparisons = Comparisons::new(&results.experiment, cells, results.targets.len());
        let whos = Who::all(results.targets.iter().map(|t| (t.label.clone(), t.family, t.model)));
        Maker { results, cells, comparisons, whos }
    }

    fn modes(&self) -> impl Iterator<Item = bool> {
        // Keep-alive first: it is what the answer is about.
        self.results.experiment.keep_alive.iter().rev().copied()
    }

    fn loads(&self, keep_alive: bool) -> Vec<Load> {
        self.results.experiment.loads().into_iter().filter(|load| load.keep_alive == keep_alive).collect()
    }

    fn bars(&self) -> Vec<Plot> {
        self.modes()
            .filter_map(|keep_alive| {
                let loads = self.loads(keep_alive);
                let mean = |i| self.cells.mean(i, &loads, Metric::CpuUsPerRequest);
                let rows = self.whos.iter().enumerate().filter_map(|(i, who)| Some((who.clone(), mean(i)?)));
                let mut rows: Vec<(Who, Interval)> = rows.collect();
                rows.sort_by(|a, b| a.1.estimate.total_cmp(&b.1.estimate));
                let caption = format!("CPU a request, {}", words::mode(keep_alive));
                Plot::bars(caption.clone(), caption, Axis::Micros, rows)
            })
            .collect()
    }

    fn plots(&self) -> Vec<Row> {
        [
            (Metric::RequestsPerSecond, Axis::Count, "Requests a second", "More is better. A hat over a point: the generator was saturated there, so the server can do at least this; such lines run together at what the generator can ask for."),
            (Metric::P50Us, Axis::Micros, "Median latency", "Less is better; half of the requests were answered within this time. Logarithmic."),
            (Metric::P99Us, Axis::Micros, "99th percentile of latency", "Less is better; one request in a hundred took longer. Logarithmic."),
            (Metric::CpuUsPerRequest, Axis::Micros, "CPU a request", "Less is better. User and system time of all of the server's processes, divided by the requests. Logarithmic."),
            (Metric::PssMib, Axis::Mib, "Memory, MiB", "Less is better. Proportional set size of all of the server's processes under load. Logarithmic."),
        ]
        .into_iter()
        .map(|(metric, axis, title, remark)| Row {
            title,
            remark,
            figures: self
                .modes()
                .filter_map(|keep_alive| {
                    let caption = words::mode(keep_alive).to_owned();
                    let series = self.series(keep_alive, metric);
                    Plot::lines(format!("{title}, {caption}"), caption, axis, "connections", series)
                })
                .collect(),
        })
        .filter(|row| !row.figures.is_empty())
        .collect()
    }

    fn series(&self, keep_alive: bool, metric: Metric) -> Vec<Series> {
        // More than half of the rounds decide the median.
        let bound = |target: usize, load: Load| {
            metric == Metric::RequestsPerSecond
                && 2 * self.cells.marked(target, load, Mark::GeneratorSaturated)
                    > self.results.experiment.rounds as usize
        };
        let of = |target: usize| -> Vec<Point> {
            self.results
                .figures
                .iter()
                .filter(|f| f.target == target && f.keep_alive == keep_alive && f.metric == metric)
                .map(|f| Point {
                    x: u64::from(f.concurrency),
                    interval: f.interval(),
                    lower_bound: bound(target, Load { keep_alive, concurrency: f.concurrency }),
                })
                .collect()
        };
        self.whos.iter().enumerate().map(|(i, who)| Series { who: who.clone(), points: of(i) }).collect()
    }

    /// Ours against its namesake and against nginx, in each mode.
    fn comparison(&self) -> Option<Comparison> {
        let ours: Vec<usize> = self.indices(|t| t.family == Family::Manifold);
        let nginx = self.indices(|t| t.family == Family::Nginx).first().copied();
        let apache = self.indices(|t| t.family == Family::Apache2);
        if ours.is_empty() || (nginx.is_none() && apache.is_empty()) {
            return None;
        }
        let mut columns = Vec::new();
        let mut rows: Vec<(String, Vec<Ratio>)> =
            ours.iter().map(|&i| (self.results.targets[i].label.clone(), Vec::new())).collect();
        for keep_alive in self.modes() {
            let loads = self.loads(keep_alive);
            let mut column = |title: &str, peer: &dyn Fn(usize) -> Option<usize>| {
                columns.push(format!("{title}, {}", words::mode(keep_alive)));
                for (row, &i) in rows.iter_mut().zip(&ours) {
                    let seen = peer(i).and_then(|p| self.comparisons.of(p, i, &loads));
                    row.1.push(ratio_cell(seen.as_ref()));
                }
            };
            if !apache.is_empty() {
                let namesake = |i: usize| {
                    let model = self.results.targets[i].model;
                    apache.iter().copied().find(|&p| self.results.targets[p].model == model)
                };
                column("apache2's namesake", &namesake);
            }
            if nginx.is_some() {
                column("nginx", &|_| nginx);
            }
        }
        Some(Comparison { columns, rows })
    }

    fn indices(&self, of: impl Fn(&TargetInfo) -> bool) -> Vec<usize> {
        self.results.targets.iter().enumerate().filter(|(_, t)| of(t)).map(|(i, _)| i).collect()
    }

    fn tables(&self) -> Vec<Table> {
        self.modes()
            .map(|keep_alive| Table {
                caption: capital(words::mode(keep_alive)),
                rows: (0..self.results.targets.len())
                    .flat_map(|target| {
                        self.loads(keep_alive).into_iter().enumerate().map(move |(i, load)| (target, i == 0, load))
                    })
                    .filter(|&(target, _, load)| self.cells.of(target, load).next().is_some())
                    .map(|(target, first, load)| self.table_row(target, first, load))
                    .collect(),
            })
            .collect()
    }

    fn table_row(&self, target: usize, first: bool, load: Load) -> TableRow {
        let figure = |metric: Metric| {
            self.results.figures.iter().find(|f| {
                f.target == target
                    && f.keep_alive == load.keep_alive
                    && f.concurrency == load.concurrency
                    && f.metric == metric
            })
        };
        let shown = |metric: Metric, unit: fn(f64) -> String| match figure(metric) {
            Some(f) => (unit(f.median), format!("{} – {}", unit(f.low), unit(f.high))),
            None => ("–".to_owned(), String::new()),
        };
        let whole = |metric| figure(metric).map_or("–".to_owned(), |f| text::grouped(f.median.round() as i64));
        let rounds = self.results.experiment.rounds as usize;
        let marks: Vec<String> = Mark::ALL
            .into_iter()
            .filter_map(|mark| match self.cells.marked(target, load, mark) {
                0 => None,
                n if n == rounds => Some(mark.letter().to_string()),
                n => Some(format!("{}{n}", mark.letter())),
            })
            .collect();
        TableRow {
            label: self.results.targets[target].label.clone(),
            first,
            connections: load.concurrency,
            figures: vec![
                shown(Metric::RequestsPerSecond, text::number),
                shown(Metric::P50Us, text::micros),
                shown(Metric::P99Us, text::micros),
                shown(Metric::CpuUsPerRequest, text::micros),
                shown(Metric::PssMib, text::number),
            ],
            user: self
                .cells
                .user_share(target, load)
                .map_or("–".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            size: format!("{} / {}", whole(Metric::Processes), whole(Metric::Threads)),
            marks: marks.join(" "),
        }
    }

    fn marks(&self) -> Vec<(char, &'static str)> {
        let seen = |mark: &Mark| self.results.cells.iter().any(|cell| cell.marks.contains(mark));
        Mark::ALL.into_iter().filter(seen).map(|mark| (mark.letter(), mark.meaning())).collect()
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let e = &self.results.experiment;
        let connections: Vec<String> = e.concurrency.iter().map(ToString::to_string).collect();
        let page = match &self.results.page.site {
            Some(site) => {
                format!("{} of {site}, {} bytes", self.results.page.path, text::grouped(self.results.page.bytes as i64))
            }
            None => format!("the built-in page, {} bytes", self.results.page.bytes),
        };
        vec![
            ("Page", page),
            ("Connections", text::list(&connections)),
            ("Rounds", format!("{}, each with all cells in a new random order", e.rounds)),
            ("Each cell", format!("{} s of load or more, then {} s measured", e.warm_up_s, e.measured_s)),
            ("Seed", e.seed.to_string()),
            (
                "Cells",
                format!(
                    "{} measured in {}",
                    text::grouped(self.results.cells.len() as i64),
                    text::duration(self.results.took_s)
                ),
            ),
        ]
    }

    fn machine(&self) -> Vec<(&'static str, String)> {
        let e = &self.results.environment;
        let cores = if e.cores.shared() {
            format!("{} for server and generator together", cores::text(&e.cores.server))
        } else {
            format!(
                "{} for the servers, {} for the generator",
                cores::text(&e.cores.server),
                cores::text(&e.cores.generator)
            )
        };
        vec![
            ("Begun", format!("{} UTC", e.started_utc)),
            ("System", e.system.clone()),
            ("Kernel", e.kernel.clone()),
            ("Processor", e.cpu.clone()),
            ("Processors used", cores),
            ("Memory", format!("{} MiB", text::grouped(e.memory_mib as i64))),
            ("Manifold", e.manifold.clone()),
        ]
    }

    fn targets(&self) -> Vec<TargetRow> {
        let present = self.results.targets.iter().map(|t| TargetRow {
            label: t.label.clone(),
            version: t.version.clone(),
            size: format!("{} / {}", t.processes, t.threads),
            fresh: t.pss_fresh_kib.map_or("–".to_owned(), |kib| text::number(kib as f64 / 1024.0)),
        });
        let missing = self.results.missing.iter().map(|m| TargetRow {
            label: m.label.clone(),
            version: format!("not measured: {}", m.reason),
            size: String::new(),
            fresh: String::new(),
        });
        present.chain(missing).collect()
    }
}

fn ratio_cell(seen: Option<&Seen>) -> Ratio {
    let Some(Seen { ratio, claim, .. }) = seen else {
        return Ratio { text: "–".to_owned(), ends: String::new(), class: "none" };
    };
    let ends = text::ratio_ends(ratio);
    match claim {
        Verdict::More => Ratio { text: format!("{} × less", text::ratio_number(ratio.estimate)), ends, class: "less" },
        Verdict::Less => {
            let inverse = ratio.inverse();
            Ratio {
                text: format!("{} × more", text::ratio_number(inverse.estimate)),
                ends: text::ratio_ends(&inverse),
                class: "more",
            }
        }
        Verdict::NotDistinguishable => Ratio { text: "not told apart".to_owned(), ends, class: "same" },
        Verdict::TooFewRounds => Ratio { text: "too few rounds".to_owned(), ends, class: "same" },
    }
}

fn title(results: &Results) -> String {
    let mut families: Vec<&str> = Vec::new();
    for target in &results.targets {
        let name = match target.family {
            Family::Manifold => "Manifold",
            Family::Apache2 => "apache2",
            Family::Nginx => "nginx",
            Family::Peer => &target.label,
        };
        if !families.contains(&name) {
            families.push(name);
        }
    }
    format!("{} under load", text::list(&families))
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_report_is_complete_and_needs_nothing_else() {
        let html = html(&fixture::clear_winner(), &Frame::FILE).expect("a page");
        for part in [
            "<!doctype html>",
            "name=\"viewport\"",
            "prefers-color-scheme: dark",
            "@media print",
            "manifold percore",
            "nginx",
        ] {
            assert!(html.contains(part), "{part}");
        }
        for resource in ["<script src", "<link", "src=\"http", "url(", "@import"] {
            assert!(!html.contains(resource), "{resource} would be fetched");
        }
        // Five metrics in two modes, and two bar plots.
        assert_eq!(html.matches("<svg class=\"plot\"").count(), 12);
        assert!(!html.contains("NaN") && !html.contains("inf "), "a figure was divided by nothing");
        let (answer, plots) =
            (html.find("class=\"headline\"").expect("an answer"), html.find("<svg class=\"plot\"").expect("plots"));
        assert!(answer < plots, "the answer comes first");
    }

    #[test]
    fn hostile_names_are_escaped() {
        let mut results = fixture::clear_winner();
        results.environment.cpu = "<script>alert(1)</script>".to_owned();
        results.environment.command = "manifold lab run --site '/<b>'".to_owned();
        let html = html(&results, &Frame::FILE).expect("a page");
        assert!(!html.contains("<script>alert") && !html.contains("/<b>"));
    }

    #[test]
    fn an_empty_run_still_makes_a_page() {
        let mut results = fixture::clear_winner();
        results.cells.clear();
        results.figures.clear();
        results.ended_early = Some("interrupted after 0 of 64 cells".to_owned());
        let html = html(&results, &Frame::FILE).expect("a page");
        assert!(html.contains("No cell could be measured") && html.contains("interrupted after 0"));
    }
}
