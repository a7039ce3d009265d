//! The pages of the view: the list of runs, a run that is being measured, two runs beside each other. Reports are the kinds' own.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use askama::Template;
use manifold_stats::median_interval;

use super::query;
use crate::page::{Frame, Link};
use crate::plot::{Plot, svg};
use crate::store::diff::{self, Difference};
use crate::store::kinds::{self, Beside};
use crate::store::{Run, State, Store, Value};
use crate::text;

/// The script of a run that is being measured.
pub const FOLLOW: &str = include_str!("../../templates/follow.js");
/// The largest ratio that the small pictures tell from larger ones.
const REACH_MAX: f64 = 4.0;
/// Runs on one page of the list.
const PAGE: usize = 50;

/// Which runs are listed.
#[derive(Debug, Default)]
pub struct Filter {
    experiment: Option<String>,
    state: Option<String>,
    text: Option<String>,
    /// Runs of lower numbers only.
    before: Option<i64>,
    /// The run that is chosen to be compared already.
    first: Option<i64>,
}

impl Filter {
    /// Reads a query.
    pub fn of(query: &[u8]) -> Filter {
        let number = |name| query::value(query, name).and_then(|number| number.parse().ok());
        Filter {
            experiment: query::value(query, "experiment"),
            state: query::value(query, "state"),
            text: query::value(query, "text"),
            before: number("before"),
            first: number("a"),
        }
    }

    fn takes(&self, run: &Run) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let holds = |text: &String| {
            let words = format!("{} {} {} {}", run.id, run.name, run.command, run.headline).to_lowercase();
            words.contains(&text.to_lowercase())
        };
        is(&self.experiment, &run.name) && is(&self.state, run.state.text()) && self.text.as_ref().is_none_or(holds)
    }

    /// The same list, further down.
    fn older(&self, before: i64) -> String {
        let fields = [("experiment", &self.experiment), ("state", &self.state), ("text", &self.text)];
        let of = |(name, value): (&str, &Option<String>)| {
            value.as_ref().map(|value| format!("{name}={}&", query::encoded(value)))
        };
        let fields: String = fields.into_iter().filter_map(of).collect();
        format!("/?{fields}before={before}")
    }
}

/// A choice of a filter.
struct Choice {
    value: String,
    chosen: bool,
}

#[derive(Template)]
#[template(path = "runs.html")]
struct Runs<'a> {
    frame: &'a Frame,
    file: String,
    experiments: Vec<Choice>,
    states: Vec<Choice>,
    text: &'a str,
    /// Of so many.
    all: usize,
    found: usize,
    runs: Vec<&'a Run>,
    first: Option<i64>,
    older: Option<String>,
}

/// The list, the newest first. `file` is the store.
///
/// # Errors
/// If the template fails, which no content makes it do.
pub fn list(runs: &[Run], filter: &Filter, file: &Path) -> Result<String> {
    let choices = |names: Vec<&str>, chosen: &Option<String>| -> Vec<Choice> {
        let mut names = names;
        names.sort_unstable();
        names.dedup();
        let of = |name: &str| Choice { value: name.to_owned(), chosen: chosen.as_deref() == Some(name) };
        names.into_iter().map(of).collect()
    };
    let taken: Vec<&Run> = runs.iter().rev().filter(|run| filter.takes(run)).collect();
    let mut shown: Vec<&Run> =
        taken.iter().copied().filter(|run| filter.before.is_none_or(|before| run.id < before)).collect();
    let older = shown.get(PAGE).and_then(|_| shown.get(PAGE - 1)).map(|last| filter.older(last.id));
    shown.truncate(PAGE);
    let page = Runs {
        frame: &home(),
        file: file.display().to_string(),
        experiments: choices(runs.iter().map(|run| run.name.as_str()).collect(), &filter.experiment),
        states: choices(runs.iter().map(|run| run.state.text()).collect(), &filter.state),
        text: filter.text.as_deref().unwrap_or_default(),
        all: runs.len(),
        found: taken.len(),
        runs: shown,
        first: filter.first,
        older,
    };
    Ok(page.render()?)
}

fn home() -> Frame {
    Frame { links: vec![link("/", "All runs")] }
}

fn link(href: &str, text: &str) -> Link {
    Link { href: href.to_owned(), text: text.to_owned() }
}

/// What stands above a run's report.
pub fn frame_of(run: &Run) -> Frame {
    let mut frame = home();
    frame.links.push(link(&format!("/run/{}/files/", run.id), &format!("Files of run {}", run.id)));
    frame.links.push(link(&format!("/?a={}", run.id), "Compare it with another"));
    frame
}

#[derive(Template)]
#[template(path = "files.html")]
struct Files<'a> {
    frame: &'a Frame,
    run: &'a Run,
    /// Names and lengths.
    files: Vec<(String, String)>,
}

/// The files of a run.
///
/// # Errors
/// If they cannot be made.
pub fn files(run: &Run) -> Result<String> {
    let size = |bytes: usize| format!("{} KiB", text::number(bytes as f64 / 1024.0));
    let files = kinds::files(run)?.into_iter().map(|file| (file.name, size(file.text.len()))).collect();
    Ok(Files { frame: &frame_of(run), run, files }.render()?)
}

#[derive(Template)]
#[template(path = "live.html")]
struct Live<'a> {
    frame: &'a Frame,
    run: &'a Run,
    goes_on: bool,
    parts: Vec<Part>,
    follow: &'static str,
}

/// Figures so far, of one experiment of a run.
struct Part {
    name: String,
    metrics: Vec<String>,
    rows: Vec<PartRow>,
}

struct PartRow {
    /// Empty where it is that of the row above.
    target: String,
    load: String,
    rounds: usize,
    /// Median and interval of each metric.
    cells: Vec<(String, String)>,
}

/// How far a run is that has no report yet.
///
/// # Errors
/// If the template fails, which no content makes it do.
pub fn live(run: &Run, values: &[Value]) -> Result<String> {
    let goes_on = run.state == State::Running;
    Ok(Live { frame: &home(), run, goes_on, parts: parts(values), follow: FOLLOW }.render()?)
}

fn parts(values: &[Value]) -> Vec<Part> {
    type Rounds<'v> = BTreeMap<(&'v str, &'v str), BTreeMap<&'v str, Vec<f64>>>;
    let mut by_part: BTreeMap<&str, Rounds<'_>> = BTreeMap::new();
    for Value { key, metric, value } in values {
        let rows = by_part.entry(&key.part).or_default();
        rows.entry((&key.target, &key.load)).or_default().entry(metric).or_default().push(*value);
    }
    let part = |(name, rows): (&str, Rounds<'_>)| {
        let mut metrics: Vec<&str> = rows.values().flat_map(|row| row.keys().copied()).collect();
        metrics.sort_unstable();
        metrics.dedup();
        let row = |((target, load), row): (&(&str, &str), &BTreeMap<&str, Vec<f64>>)| PartRow {
            target: (*target).to_owned(),
            load: (*load).to_owned(),
            rounds: row.values().map(Vec::len).max().unwrap_or(0),
            cells: metrics.iter().map(|metric| figure(row.get(metric).map_or(&[], Vec::as_slice))).collect(),
        };
        let mut rows: Vec<PartRow> = rows.iter().map(row).collect();
        for below in (1..rows.len()).rev() {
            if rows[below].target == rows[below - 1].target {
                rows[below].target.clear();
            }
        }
        Part { name: name.to_owned(), metrics: metrics.iter().map(|metric| plain(metric)).collect(), rows }
    };
    by_part.into_iter().map(part).collect()
}

/// A metric's name in files, for a heading.
fn plain(metric: &str) -> String {
    let word = |word: &str| match word {
        "cpu" => "CPU".to_owned(),
        "pss" => "PSS".to_owned(),
        "us" => "µs".to_owned(),
        "mib" => "MiB".to_owned(),
        other => other.to_owned(),
    };
    metric.split(['_', '-']).map(word).collect::<Vec<_>>().join(" ")
}

fn figure(rounds: &[f64]) -> (String, String) {
    match median_interval(rounds) {
        Some(figure) => {
            (text::number(figure.estimate), format!("{} – {}", text::number(figure.low), text::number(figure.high)))
        }
        None => ("–".to_owned(), String::new()),
    }
}

#[derive(Template)]
#[template(path = "compare.html")]
struct Compare<'a> {
    frame: &'a Frame,
    sides: [Side<'a>; 2],
    /// What differs between the machines.
    warning: Option<String>,
    summary: String,
    rows: Vec<DifferenceRow>,
    /// Where all figures stand, or those alone that differ.
    other: (String, &'static str),
    plots: Vec<Plot>,
}

/// One of the two.
struct Side<'a> {
    run: &'a Run,
    facts: Vec<(&'static str, String)>,
}

struct DifferenceRow {
    difference: Difference,
    metric: String,
    medians: (String, String),
    ratio: String,
    ends: String,
    picture: String,
}

/// Two runs beside each other. `all` shows figures as well that do not differ.
///
/// # Errors
/// If the store or a document cannot be read.
pub fn compare(store: &Store, (a, b): (&Run, &Run), all: bool) -> Result<String> {
    let differences = diff::compare(&store.values(a.id)?, &store.values(b.id)?);
    let summary = match differences.is_empty() {
        true => "They have no target, load and figure in common, so there is nothing to compare.".to_owned(),
        false => diff::summary(&differences),
    };
    let besides = [beside(a)?, beside(b)?];
    let machines: Vec<String> =
        besides.iter().flatten().map(|Beside { environment: e, .. }| format!("{}, {}", e.cpu, e.kernel)).collect();
    let warning = match &machines[..] {
        [one, other] if one != other => Some(format!("The machines differ: {one} and {other}.")),
        _ => None,
    };
    let reach = |difference: &Difference| svg::reach(&difference.ratio);
    let span = differences.iter().map(reach).fold(0.0, f64::max).min(REACH_MAX.ln());
    let facts = |beside: &Option<Beside>, run: &Run| facts(beside.as_ref(), run);
    let page = Compare {
        frame: &home(),
        sides: [Side { run: a, facts: facts(&besides[0], a) }, Side { run: b, facts: facts(&besides[1], b) }],
        warning,
        summary,
        rows: differences.into_iter().filter(|one| all || one.differs()).map(|one| row(one, span)).collect(),
        other: match all {
            true => (format!("/compare?a={}&b={}", a.id, b.id), "Only what differs"),
            false => (format!("/compare?a={}&b={}&all=yes", a.id, b.id), "All figures"),
        },
        plots: pairs(besides, (a, b)),
    };
    Ok(page.render()?)
}

/// `None` while it is measured.
fn beside(run: &Run) -> Result<Option<Beside>> {
    run.document.as_ref().map(|_| kinds::beside(run)).transpose()
}

fn facts(beside: Option<&Beside>, run: &Run) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("Begun", format!("{} UTC", run.started)),
        ("State", run.state.text().to_owned()),
        ("Took", text::duration(run.took_s)),
    ];
    if let Some(Beside { environment, .. }) = beside {
        facts.push(("Processor", environment.cpu.clone()));
        facts.push(("Kernel", environment.kernel.clone()));
        facts.push(("Manifold", environment.manifold.clone()));
    }
    facts.push(("Command", run.command.clone()));
    facts
}

fn row(difference: Difference, span: f64) -> DifferenceRow {
    let Difference { metric, medians, ratio, .. } = &difference;
    DifferenceRow {
        metric: plain(metric),
        medians: (text::number(medians.0), text::number(medians.1)),
        ratio: text::ratio_number(ratio.estimate),
        ends: text::ratio_ends(ratio),
        picture: svg::ratio(ratio, span),
        difference,
    }
}

/// The plots that both have, the first's before the second's.
fn pairs(besides: [Option<Beside>; 2], (a, b): (&Run, &Run)) -> Vec<Plot> {
    let [Some(of_a), Some(of_b)] = besides else { return Vec::new() };
    let named = |plot: &Plot, run: &Run| Plot { caption: format!("Run {}: {}", run.id, plot.title), ..plot.clone() };
    let pair = |plot: &Plot| {
        let other = of_b.plots.iter().find(|other| other.title == plot.title)?;
        Some([named(plot, a), named(other, b)])
    };
    of_a.plots.iter().filter_map(pair).flatten().collect()
}

#[derive(Template)]
#[template(path = "refusal.html")]
struct Refusal<'a> {
    frame: &'a Frame,
    sentence: &'a str,
}

/// A page that says why not.
///
/// # Errors
/// If the template fails, which no content makes it do.
pub fn refusal(sentence: &str) -> Result<String> {
    Ok(Refusal { frame: &home(), sentence }.render()?)
}
