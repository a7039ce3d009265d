//! What a run of studies tells, laid out but not yet written: for each its claims with their verdicts, tables with published figures
//! beside the measured ones, plots, and what limits them. Text, Markdown and HTML are made from the same.

use std::collections::BTreeSet;

use manifold_stats::{Interval, attainable_level};

use super::Size;
use super::claims::{self, Judgement};
use super::course::over_time;
use super::metric::Metric;
use super::resolve::{Load, Study, Work};
use super::results::{Found, Studies};
use crate::cores;
use crate::generator::Amount;
use crate::plot::{Plot, Point, Series, Who};
use crate::results::{Course, Mark};
use crate::text;

/// From so many loads on, tables have the loads as columns, and plots are lines over them.
const SWEEP_MIN: usize = 3;

/// Everything that is told.
#[derive(Debug)]
pub struct View {
    /// Of the report.
    pub title: String,
    /// One sentence: how many claims came out how.
    pub headline: String,
    /// Every claim of every study.
    pub judgements: Vec<Judgement>,
    /// Study by study.
    pub sections: Vec<Section>,
    /// What is to be held against all figures.
    pub limits: Vec<String>,
    /// Where and how it was measured.
    pub facts: Vec<(&'static str, String)>,
    /// The command that repeats it.
    pub command: String,
}

/// One study.
#[derive(Debug)]
pub struct Section {
    /// Its name, which is its anchor.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// What it was to find out.
    pub question: String,
    /// What its claims came to.
    pub answer: String,
    /// Where published figures come from.
    pub source: String,
    /// Its claims.
    pub claims: Vec<Judgement>,
    /// Its plots.
    pub figures: Vec<Plot>,
    /// Its tables.
    pub tables: Vec<Table>,
    /// What is to be held against its figures.
    pub limits: Vec<String>,
}

/// A table; published figures are marked as such.
#[derive(Debug)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Headings; true where the column holds published figures.
    pub head: Vec<(String, bool)>,
    /// Rows.
    pub rows: Vec<Row>,
}

/// A row of a table.
#[derive(Debug)]
pub struct Row {
    /// What stands before it.
    pub name: String,
    /// It holds published figures.
    pub published: bool,
    /// Figures, each with its interval or nothing.
    pub cells: Vec<(String, String)>,
}

impl View {
    /// The view of these results.
    pub fn of(studies: &Studies) -> View {
        let sections: Vec<Section> = studies.found.iter().map(section).collect();
        let judgements: Vec<Judgement> = sections.iter().flat_map(|section| section.claims.clone()).collect();
        let title = match &sections[..] {
            [one] => one.title.clone(),
            _ => "Published experiments, repeated here".to_owned(),
        };
        View {
            title,
            headline: claims::headline(&judgements),
            judgements,
            sections,
            limits: limits(studies),
            facts: facts(studies),
            command: studies.environment.command.clone(),
        }
    }
}

/// Whether its loads differ in more than a number.
fn is_special(study: &Study) -> bool {
    study.loads.iter().any(|load| !matches!(load.work, Work::Asks(_)))
}

fn section(found: &Found) -> Section {
    let study = &found.study;
    let claims = claims::judge_all(found);
    let power = claims::power(found, &claims);
    let mut figures = if study.loads.len() < SWEEP_MIN || is_special(study) { bars(found) } else { curves(found) };
    figures.extend(over_time(found));
    Section {
        name: study.name.clone(),
        title: study.title.clone(),
        question: study.question.clone(),
        answer: claims::headline(&claims),
        source: study.source.clone(),
        claims,
        figures,
        tables: if study.loads.len() < SWEEP_MIN { by_load(found) } else { by_metric(found) },
        limits: held_against(found).into_iter().chain(power).collect(),
    }
}

/// A load for a heading: its name, or what is special about it.
pub fn load_label(load: &Load) -> String {
    if let Some(name) = &load.name {
        return name.clone();
    }
    let amount = match &load.work {
        Work::Asks(Amount::Requests(requests)) => format!(", n = {}", text::grouped(*requests as i64)),
        Work::Asks(Amount::Seconds(_)) | Work::Holds(..) => String::new(),
        Work::Idles => return format!("{} idle", text::grouped(i64::from(load.connections))),
        Work::Reloads(_, times) => format!(", {}", text::counted(*times as usize, "reload")),
        Work::Searches(condition, _) => format!(", {condition}"),
    };
    let kept = if load.keep_alive { ", kept" } else { "" };
    format!("c = {}{amount}{kept}", text::grouped(i64::from(load.connections)))
}

/// What a load is, in words.
fn load_words(load: &Load) -> String {
    let connections = || text::grouped(i64::from(load.connections));
    let amount = match &load.work {
        Work::Asks(Amount::Requests(requests)) => format!("{} requests", text::grouped(*requests as i64)),
        Work::Asks(Amount::Seconds(seconds)) => format!("{} s", text::number(*seconds)),
        Work::Holds(..) => return format!("up to {} slow clients", connections()),
        Work::Idles => return format!("{} idle connections", connections()),
        Work::Reloads(seconds, times) => {
            format!("{} in {} s", text::counted(*times as usize, "graceful reload"), text::number(*seconds))
        }
        Work::Searches(condition, _) => format!("the highest rate with {condition}"),
    };
    let kept = if load.keep_alive { "kept connections" } else { "a new connection for each request" };
    format!("{} at once, {amount}, {kept}", text::counted(load.connections as usize, "client"))
}

/// Whom the plots show, in the order of the targets.
pub fn whos(study: &Study) -> Vec<Who> {
    Who::all(study.targets.iter().map(|subject| (subject.label(), subject.server, subject.model)))
}

/// The figures that claims are about, as bars, load by load.
fn bars(found: &Found) -> Vec<Plot> {
    let (study, whos) = (&found.study, whos(&found.study));
    let metrics: BTreeSet<Metric> = study.claims.iter().map(|claim| claim.metric).collect();
    let mut figures = Vec::new();
    for (index, load) in study.loads.iter().enumerate() {
        for &metric in &metrics {
            let (axis, factor) = metric.axis();
            let row = |(target, who): (usize, &Who)| {
                Some((who.clone(), scaled(found.figure(target, index, metric)?, factor)))
            };
            let rows: Vec<(Who, Interval)> = whos.iter().enumerate().filter_map(row).collect();
            let caption = format!("{}, {}", metric.title(), load_label(load));
            figures.extend(Plot::bars(format!("{}, {caption}", study.title), caption, axis, rows));
        }
    }
    figures
}

/// Every metric over the loads, as lines.
fn curves(found: &Found) -> Vec<Plot> {
    let (study, whos) = (&found.study, whos(&found.study));
    let modes: BTreeSet<bool> = study.loads.iter().map(|load| load.keep_alive).collect();
    let mut figures = Vec::new();
    for &metric in &study.show {
        for &kept in &modes {
            let (axis, factor) = metric.axis();
            let (what, x) = horizontal(study);
            let points = |target: usize| -> Vec<Point> {
                let loads = study.loads.iter().enumerate().filter(|(_, load)| load.keep_alive == kept);
                let point = |(index, load): (usize, &Load)| {
                    let interval = scaled(found.figure(target, index, metric)?, factor);
                    Some(Point { x: x(load), interval, lower_bound: false })
                };
                let mut points: Vec<Point> = loads.filter_map(point).collect();
                points.sort_by_key(|point| point.x);
                points
            };
            let lines = whos.iter().enumerate().map(|(i, who)| Series { who: who.clone(), points: points(i) });
            let mode = if kept { ", connections kept" } else { "" };
            let caption = format!("{}{mode}", metric.heading());
            figures.extend(Plot::lines(format!("{}, {caption}", study.title), caption, axis, what, lines.collect()));
        }
    }
    figures
}

/// What the loads of a sweep differ in: its name, and how a load has it.
fn horizontal(study: &Study) -> (&'static str, fn(&Load) -> u64) {
    let connections: BTreeSet<u32> = study.loads.iter().map(|load| load.connections).collect();
    if connections.len() > 1 {
        return ("connections", |load| u64::from(load.connections));
    }
    ("requests", |load| match load.work {
        Work::Asks(Amount::Requests(requests)) => requests,
        _ => u64::from(load.connections),
    })
}

fn scaled(interval: Interval, factor: f64) -> Interval {
    let Interval { estimate, low, high, rounds } = interval;
    Interval { estimate: estimate * factor, low: low * factor, high: high * factor, rounds }
}

/// A table for each load: metrics below each other, and of each target what was published before what was measured.
fn by_load(found: &Found) -> Vec<Table> {
    let study = &found.study;
    let of_load = |(index, load): (usize, &Load)| {
        let published: Vec<_> = study.published.iter().filter(|entry| entry.load == index).collect();
        let mut head: Vec<(String, bool)> =
            published.iter().map(|entry| (format!("published: {}", entry.target), true)).collect();
        head.extend(study.targets.iter().map(|subject| (subject.label(), false)));
        let row = |&metric: &Metric| {
            let was = published.iter().map(|entry| entry.figures.get(&metric).map(|figure| plain(metric, *figure)));
            let is =
                (0..study.targets.len()).map(|target| found.figure(target, index, metric).map(|i| shown(metric, i)));
            let cells: Vec<Option<(String, String)>> = was.chain(is).collect();
            cells.iter().any(Option::is_some).then(|| Row {
                name: metric.heading(),
                published: false,
                cells: cells.into_iter().map(Option::unwrap_or_default).collect(),
            })
        };
        let title = match &load.name {
            Some(name) => format!("{name}: {}", load_words(load)),
            None => load_words(load),
        };
        Table { title, head, rows: study.show.iter().filter_map(row).collect() }
    };
    study.loads.iter().enumerate().map(of_load).collect()
}

/// A table for each metric: targets below each other, loads beside each other, and what was published under each name.
fn by_metric(found: &Found) -> Vec<Table> {
    let study = &found.study;
    let of_metric = |&metric: &Metric| {
        let mut rows = Vec::new();
        let mut names: Vec<&str> = study.targets.iter().map(|subject| subject.name.as_str()).collect();
        names.dedup();
        for name in names {
            let was = |load: usize| {
                let entry = study.published.iter().find(|entry| entry.target == name && entry.load == load)?;
                entry.figures.get(&metric).map(|figure| plain(metric, *figure))
            };
            let was: Vec<Option<(String, String)>> = (0..study.loads.len()).map(was).collect();
            if was.iter().any(Option::is_some) {
                let cells = was.into_iter().map(Option::unwrap_or_default).collect();
                rows.push(Row { name: format!("published: {name}"), published: true, cells });
            }
            for (target, subject) in study.targets.iter().enumerate().filter(|(_, subject)| subject.name == name) {
                let of = |load| found.figure(target, load, metric).map(|i| shown(metric, i)).unwrap_or_default();
                let cells = (0..study.loads.len()).map(of).collect();
                rows.push(Row { name: subject.label(), published: false, cells });
            }
        }
        let head = study.loads.iter().map(|load| (load_label(load), false)).collect();
        Table { title: metric.heading(), head, rows }
    };
    study.show.iter().map(of_metric).collect()
}

fn plain(metric: Metric, figure: f64) -> (String, String) {
    (metric.text(figure), String::new())
}

fn shown(metric: Metric, interval: Interval) -> (String, String) {
    (metric.text(interval.estimate), format!("{} – {}", metric.text(interval.low), metric.text(interval.high)))
}

/// What is to be held against the figures of one study.
fn held_against(found: &Found) -> Vec<String> {
    let mut limits = Vec::new();
    if found.rounds < found.study.rounds {
        limits.push(format!("{} of {} rounds are complete.", found.rounds, found.study.rounds));
    } else if found.looks > 0 {
        limits.push(format!(
            "{} were made: all claims were looked at {}, until they were decided or {} rounds were made.",
            text::counted(found.rounds as usize, "round"),
            text::counted(found.looks as usize, "time"),
            found.study.most_rounds
        ));
    }
    for missing in &found.missing {
        limits.push(format!("{} is not in it: {}.", crate::words::capital(&missing.label), missing.reason));
    }
    limits.extend(found.remarks.iter().map(|remark| format!("{}.", crate::words::capital(remark))));
    let all = text::counted(found.cells.len(), "cell");
    for mark in Mark::ALL {
        let count = found.marked(mark);
        if count > 0 {
            limits.push(format!("In {} of {all} {}.", text::grouped(count as i64), mark.meaning()));
        }
    }
    limits
}

/// What is to be held against all of them.
fn limits(studies: &Studies) -> Vec<String> {
    let mut limits = Vec::new();
    if let Some(why) = &studies.ended_early {
        limits.push(format!("The run was ended early: {why}."));
    }
    match studies.size {
        Size::Full => {}
        Size::Scaled => limits.push(
            "The run was scaled down (--scaled): fewer requests and shorter cells than were published.".to_owned(),
        ),
        Size::Smallest => limits.push(
            "The run was made as small as can be (--smallest): it shows that everything works, and its figures mean nothing."
                .to_owned(),
        ),
    }
    if studies.environment.cores.shared() {
        limits.push(
            "There is one processor: server and generator shared it, and every figure has the other's load in it."
                .to_owned(),
        );
    }
    limits.extend(studies.environment.suspicions.iter().cloned());
    let fewest = studies.found.iter().map(|found| found.rounds as usize).min().unwrap_or(0);
    if (1..6).contains(&fewest) {
        limits.push(format!(
            "With {} an interval is the range of the rounds; it holds the true median in {} % of runs at best.",
            text::counted(fewest, "round"),
            text::number(attainable_level(fewest) * 100.0)
        ));
    }
    limits
}

fn facts(studies: &Studies) -> Vec<(&'static str, String)> {
    let e = &studies.environment;
    let versions: BTreeSet<&str> = studies.found.iter().flat_map(|f| f.versions.iter().map(String::as_str)).collect();
    let cells: usize = studies.found.iter().map(|found| found.cells.len()).sum();
    let mut facts = vec![
        ("Begun", format!("{} UTC, took {}", e.started_utc, text::duration(studies.took_s))),
        ("Measured", text::counted(cells, "cell")),
        ("Servers", versions.into_iter().collect::<Vec<_>>().join("; ")),
        ("System", format!("{}, kernel {}", e.system, e.kernel)),
        ("Processor", e.cpu.clone()),
        ("Memory", format!("{} MiB", text::grouped(e.memory_mib as i64))),
        (
            "Processors used",
            format!(
                "{} for the servers, {} for the generator",
                cores::text(&e.cores.server),
                cores::text(&e.cores.generator)
            ),
        ),
        ("Seed", studies.seed.to_string()),
    ];
    let courses = studies.found.iter().flat_map(|found| &found.cells).filter_map(|seen| seen.cell.course.as_ref());
    if let Some(most) = courses.map(Course::watching_took).max_by(f64::total_cmp) {
        let percent = text::number(most * 100.0);
        facts.push(("Watching the servers took", format!("at most {percent} % of one processor in any cell")));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn published_figures_stand_beside_the_measured_ones() {
        let view = View::of(&fixture::studies());
        let [section] = &view.sections[..] else { panic!("one study") };
        let table = &section.tables[0];
        let head: Vec<&str> = table.head.iter().map(|(head, _)| head.as_str()).collect();
        assert_eq!(
            head,
            [
                "published: prefork",
                "published: worker",
                "manifold prefork",
                "apache2 prefork",
                "manifold worker",
                "apache2 worker"
            ]
        );
        let row = table.rows.iter().find(|row| row.name == "Requests a second").expect("it is shown");
        assert_eq!(row.cells[0].0, "20.9");
        assert!(row.cells[2].0.starts_with("1\u{202f}0"), "{row:?}");
        assert_eq!(section.figures.len(), 1, "bars of what is claimed");
    }

    #[test]
    fn a_sweep_has_its_loads_as_columns_and_lines() {
        let mut studies = fixture::studies();
        let found = &mut studies.found[0];
        let load = Load { name: None, ..found.study.loads[0].clone() };
        found.study.loads = (1..=3).map(|i| Load { connections: i * 100, ..load.clone() }).collect();
        let view = View::of(&studies);
        let section = &view.sections[0];
        assert_eq!(section.tables.len(), section.figures.len());
        let table = &section.tables[0];
        assert_eq!(table.head[2].0, "c = 300, n = 10\u{202f}000");
        let published: Vec<&Row> = table.rows.iter().filter(|row| row.published).collect();
        assert_eq!(published.len(), 2, "{table:?}");
    }
}
