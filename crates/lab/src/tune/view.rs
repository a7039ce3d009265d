//! A search as a person reads it: the answer, the block with its evidence, what was tried, and what limits it. Terminal, Markdown and HTML are
//! made from the same.

use std::fmt::Write as _;

use askama::Template;
use manifold_stats::{Interval, median, median_interval, ratio_interval};

use super::candidate::Candidate;
use super::objective::NOTHING;
use super::results::{Tuned, Verdict};
use super::verdict::PRESENT;
use crate::files::File;
use crate::page::Frame;
use crate::plot::{Axis, Plot, Who};
use crate::results::{Cell, Mark};
use crate::target::{Family, Model};
use crate::{table, text};

/// What becomes so many times as much is told.
const WORSE: f64 = 1.25;
/// A smaller part of failed requests is not told, percent.
const FAILED_PERCENT: f64 = 0.1;
/// Lines of a comment in the block are no longer.
const COMMENT_WIDTH: usize = 110;

/// Files beside the report: the same as Markdown, and the block where there is one.
pub fn texts(found: &Tuned) -> Vec<File> {
    let mut files = vec![File::new("report.md", markdown(found))];
    files.extend(block(found).map(|block| File::new("block.conf", block)));
    files
}

/// The figures of the race, the best first.
pub fn plots(found: &Tuned) -> Vec<Plot> {
    let whos = Who::all(found.candidates.iter().map(|one| (one.name.clone(), found.question.target, one.model)));
    let interval = |figures: &Vec<Option<f64>>| median_interval(&figures.iter().copied().flatten().collect::<Vec<_>>());
    let rows = whos.into_iter().zip(&found.figures).filter_map(|(who, figures)| Some((who, interval(figures)?)));
    let mut rows: Vec<(Who, Interval)> = rows.filter(|(_, interval)| interval.estimate > NOTHING).collect();
    rows.sort_by(|a, b| b.1.estimate.total_cmp(&a.1.estimate));
    let caption = "Answers a second in the race".to_owned();
    Plot::bars(format!("{caption}, by setting"), caption, Axis::Count, rows).into_iter().collect()
}

/// The answer in one sentence.
pub fn headline(found: &Tuned) -> String {
    match (&found.verdict, found.chosen) {
        (Verdict::Better { times, low, high }, Some(chosen)) if *times < 1000.0 => format!(
            "{} is {} times as good as the present setting [{} to {}].",
            crate::words::capital(&found.candidates[chosen].name),
            text::ratio_number(*times),
            text::ratio_number(*low),
            text::ratio_number(*high)
        ),
        (Verdict::Better { .. }, Some(chosen)) => format!(
            "{} does what is asked, and the present setting does not.",
            crate::words::capital(&found.candidates[chosen].name)
        ),
        (Verdict::Keep { why }, _) => format!("Keep what you have: {why}."),
        (Verdict::Better { .. }, None) => "Something is better, and was not kept.".to_owned(),
    }
}

/// The block of what is better; `None` where nothing is.
pub fn block(found: &Tuned) -> Option<String> {
    let Verdict::Better { times, low, high } = &found.verdict else { return None };
    let chosen = &found.candidates[found.chosen?];
    let confirmation = found.confirmation.as_ref()?;
    let of = |target: usize| figures(confirmation.cells.iter().filter(move |cell| cell.target == target));
    let (now, new) = (of(0), of(1));
    let ratio = if *times < 1000.0 {
        format!("{times:.2} times the present setting [{low:.2} to {high:.2}]")
    } else {
        "the present setting never did what is asked".to_owned()
    };
    let evidence = [
        format!(
            "manifold lab tune, {} UTC: {}, {}",
            found.environment.started_utc,
            found.version,
            found.question.objective.text()
        ),
        format!("{} rounds on servers of their own: {ratio}", confirmation.rounds),
        format!("now {now}"),
        format!("then {new}"),
    ];
    let evidence: Vec<String> = evidence.iter().flat_map(|line| wrapped(line)).collect();
    let why = |name: &str| why(found, chosen, name);
    Some(chosen.block(&evidence, why))
}

/// What a number comes from.
fn why(found: &Tuned, chosen: &Candidate, name: &str) -> Option<String> {
    let tried = |name: &str| {
        let of_model = found.candidates.iter().filter(|one| one.model == chosen.model && !one.is_present);
        let mut values: Vec<u32> =
            of_model.filter_map(|one| one.settings.iter().find(|(known, _)| known == name)?.1.parse().ok()).collect();
        values.sort_unstable();
        values.dedup();
        let values: Vec<String> = values.iter().map(ToString::to_string).collect();
        text::list(&values)
    };
    Some(match (name, chosen.model) {
        ("MaxRequestWorkers", _) => {
            let cost =
                found.costs.iter().find(|(model, _)| *model == chosen.model).map_or_else(String::new, |(_, cost)| {
                    let a_thread = if cost.thread_kib > 0.0 {
                        format!(", a thread {:.0} KiB", cost.thread_kib)
                    } else {
                        String::new()
                    };
                    format!("; a child takes {:.0} KiB{a_thread} (PSS, idle)", cost.child_kib)
                });
            format!("tried: {}{cost}", tried(name))
        }
        ("ThreadsPerChild", _) => format!("tried: {}", tried(name)),
        ("ServerLimit", Model::Event) => {
            "twice what is needed: processes that drain after a reload keep their slots".to_owned()
        }
        ("StartServers", _) => {
            "all from the start: growth doubles once a second, and a load that comes at once waits for it".to_owned()
        }
        ("MaxSpareServers" | "MaxSpareThreads", _) => "none is ended for being idle".to_owned(),
        ("MaxConnectionsPerChild", _) => "as it was: what leaks does not show in minutes".to_owned(),
        _ => return None,
    })
}

/// Answers a second, latency and memory of these cells.
fn figures<'c>(cells: impl Iterator<Item = &'c Cell>) -> String {
    let cells: Vec<&Cell> = cells.filter(|cell| cell.usable()).collect();
    let of = |value: fn(&Cell) -> Option<f64>| {
        let values: Vec<f64> = cells.iter().filter_map(|cell| value(cell)).collect();
        median(&values)
    };
    let rate = of(|cell| Some(cell.requests_per_second)).map_or_else(|| "-".to_owned(), text::number);
    let p99 = of(|cell| cell.latency_us.map(|latency| latency.p99)).map_or_else(|| "-".to_owned(), text::micros);
    let served =
        of(|cell| Some(100.0 * (1.0 - cell.unserved as f64 / f64::from(cell.concurrency).max(1.0)))).unwrap_or(0.0);
    let memory = of(|cell| cell.pss_kib.map(|kib| kib as f64 / 1024.0)).map_or_else(|| "-".to_owned(), text::number);
    // A block is a configuration, which is plain ASCII.
    format!("{rate} answers a second to {served:.0} % of the clients, p99 {p99}, {memory} MiB (PSS under load)")
        .replace('\u{202f}', "")
        .replace('µ', "u")
}

fn wrapped(line: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last_mut().expect("there is one");
        if !last.is_empty() && last.len() + word.len() >= COMMENT_WIDTH {
            lines.push(format!("  {word}"));
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

/// What is told at the end.
pub fn terminal(found: &Tuned) -> String {
    let mut text = format!("{}\n", [vec![headline(found)], price(found)].concat().join(" "));
    if let Some(block) = block(found) {
        let _ = write!(text, "\n{block}");
    }
    let rows = race(found);
    let head: Vec<&str> = RACE_HEAD.to_vec();
    let _ = write!(text, "\nThe race:\n{}\n", table::lines(&head, &rows));
    // The price stands beside the answer.
    for limit in limits(found).iter().skip(price(found).len()) {
        let _ = writeln!(text, "- {limit}");
    }
    text.push('\n');
    text
}

const RACE_HEAD: [&str; 6] = ["setting", "figure", "times the present", "p99", "memory, MiB", "rungs"];

/// A row a candidate, the best first.
fn race(found: &Tuned) -> Vec<Vec<String>> {
    let most = found.question.objective.clients.last().copied().unwrap_or(0);
    let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
    for (index, candidate) in found.candidates.iter().enumerate() {
        let Some(figures) = found.figures.get(index) else { continue };
        let values: Vec<f64> = figures.iter().copied().flatten().collect();
        let figure = median_interval(&values);
        let ratio = if index == PRESENT { None } else { ratio_interval(figures, &found.figures[PRESENT]) };
        let cells =
            || found.race.iter().filter(|cell| cell.target == index && cell.concurrency == most && cell.usable());
        let p99: Vec<f64> = cells().filter_map(|cell| cell.latency_us.map(|latency| latency.p99)).collect();
        let memory: Vec<f64> = cells().filter_map(|cell| cell.pss_kib).map(|kib| kib as f64 / 1024.0).collect();
        let rungs = found.rungs.iter().filter(|rung| rung.alive.contains(&index)).count();
        let dash = || "–".to_owned();
        rows.push((
            figure.map_or(0.0, |figure| figure.estimate),
            vec![
                candidate.name.clone(),
                figure.map_or_else(dash, |figure| figure_text(&figure)),
                ratio.map_or_else(dash, |ratio| ratio_text(&ratio)),
                median(&p99).map_or_else(dash, text::micros),
                median(&memory).map_or_else(dash, text::number),
                rungs.to_string(),
            ],
        ));
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    rows.into_iter().map(|(_, row)| row).collect()
}

fn figure_text(figure: &Interval) -> String {
    if figure.estimate <= NOTHING {
        "not within the limits".to_owned()
    } else {
        format!("{} [{}]", text::number(figure.estimate), text::ends(figure))
    }
}

fn ratio_text(ratio: &Interval) -> String {
    if !(0.001..1000.0).contains(&ratio.estimate) {
        "–".to_owned()
    } else {
        text::ratio_figure(Some(ratio.estimate), Some(ratio.low), Some(ratio.high))
    }
}

/// What the chosen setting is worse in, where it is: what nobody asked for may still matter.
fn price(found: &Tuned) -> Vec<String> {
    let (Verdict::Better { .. }, Some(confirmation)) = (&found.verdict, &found.confirmation) else { return Vec::new() };
    let of = |target: usize, value: fn(&Cell) -> Option<f64>| {
        let cells = confirmation.cells.iter().filter(|cell| cell.target == target && cell.usable());
        median(&cells.filter_map(value).collect::<Vec<_>>())
    };
    let both = |value| of(0, value).zip(of(1, value));
    let mut price = Vec::new();
    let p99 = both(|cell| cell.latency_us.map(|latency| latency.p99));
    if let Some((now, then)) = p99.filter(|(now, then)| *then > WORSE * now) {
        let (now, then) = (text::micros(now), text::micros(then));
        price.push(format!(
            "Its 99th percentile is longer, {then} instead of {now}: --p99 sets a limit where that matters."
        ));
    }
    let failed = both(|cell| Some(cell.errors as f64 / (cell.completed + cell.errors).max(1) as f64 * 100.0));
    if let Some((now, then)) = failed.filter(|(now, then)| *then > FAILED_PERCENT && *then > WORSE * now) {
        let (now, then) = (text::number(now), text::number(then));
        price.push(format!("More of its requests fail, {then} % instead of {now} %."));
    }
    price
}

/// What is to be held against it.
fn limits(found: &Tuned) -> Vec<String> {
    let mut limits = price(found);
    if let Some(why) = &found.ended_early {
        limits.push(format!("The search was ended early: {why}."));
    }
    let confirmation = found.confirmation.iter().flat_map(|confirmation| &confirmation.cells);
    let cells: Vec<&Cell> = found.race.iter().chain(confirmation).collect();
    let marked = |mark: Mark| cells.iter().filter(|cell| cell.marks.contains(&mark)).count();
    let all = text::counted(cells.len(), "cell");
    for (mark, words) in [
        (Mark::Disturbed, "something else used more than a tenth of a processor, and the round does not count"),
        (
            Mark::GeneratorSaturated,
            "the generator was saturated: the server may be faster, and settings are harder to tell apart",
        ),
        (Mark::Unserved, "some clients got no answer at all, and count as none"),
        (Mark::Errors, "some requests got no complete answer, and are not counted"),
    ] {
        if marked(mark) > 0 {
            limits.push(format!("In {} of {all} {words}.", text::grouped(marked(mark) as i64)));
        }
    }
    let cores = &found.environment.cores;
    limits.push(format!(
        "The server had processors {}, the generator {}, on this machine: where it has more, and its clients are elsewhere, other numbers may be better.",
        crate::cores::text(&cores.server),
        crate::cores::text(&cores.generator)
    ));
    if found.question.share < 1.0 {
        limits.push(format!(
            "The load is {} of the log's paths, {:.0} % of its requests.",
            found.question.paths.len(),
            found.question.share * 100.0
        ));
    }
    if found.question.target == Family::Apache2 && !found.question.is_own {
        limits.push("The pages were served by a configuration with the present numbers and nothing else of it: no access log, no .htaccess, no modules of yours.".to_owned());
    }
    limits.extend(found.remarks.iter().map(|remark| format!("Of the private copies of the configuration: {remark}.")));
    limits.extend(found.environment.suspicions.iter().cloned());
    limits.extend(found.left_out.iter().map(|why| format!("Not tried: {why}.")));
    limits
}

fn facts(found: &Tuned) -> Vec<(&'static str, String)> {
    let question = &found.question;
    let environment = &found.environment;
    let curve: Vec<String> =
        found.curve.iter().map(|(clients, rate)| format!("{clients}: {}", text::number(*rate))).collect();
    vec![
        ("Server", found.version.clone()),
        ("Present setting", question.present.clone().unwrap_or_else(|| "the server's defaults".to_owned())),
        ("Better is", question.objective.text()),
        ("Paths", question.paths.join(", ")),
        ("Clients and answers a second of the present setting", curve.join(", ")),
        ("Knee", found.knee.map_or_else(|| "not seen".to_owned(), |knee| format!("{knee} clients"))),
        ("Machine", format!("{}, {}, Linux {}", environment.cpu, environment.system, environment.kernel)),
        ("Took", text::duration(found.took_s)),
    ]
}

fn markdown(found: &Tuned) -> String {
    let mut text = format!("# {}\n\n", headline(found));
    if let Some(block) = block(found) {
        let _ = write!(text, "```apache\n{block}```\n\n");
    }
    for limit in limits(found) {
        let _ = writeln!(text, "- {limit}");
    }
    let _ = write!(text, "\n| {} |\n|---{}|\n", RACE_HEAD.join(" | "), "|---:".repeat(RACE_HEAD.len() - 1));
    for row in race(found) {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text.push('\n');
    for (name, fact) in facts(found) {
        let _ = writeln!(text, "- {name}: {fact}");
    }
    let _ = write!(text, "\nRepeat it with `{}`.\n", found.environment.command);
    text
}

/// The report as one page that needs nothing else.
///
/// # Errors
/// If the template fails, which no content makes it do.
pub fn html(found: &Tuned, frame: &Frame) -> Result<String, askama::Error> {
    Page {
        frame,
        headline: headline(found),
        block: block(found).unwrap_or_default(),
        limits: limits(found),
        plots: plots(found),
        head: RACE_HEAD,
        rows: race(found),
        facts: facts(found),
        command: &found.environment.command,
    }
    .render()
}

#[derive(Template)]
#[template(path = "tune.html")]
struct Page<'f> {
    frame: &'f Frame,
    headline: String,
    block: String,
    limits: Vec<String>,
    plots: Vec<Plot>,
    head: [&'static str; 6],
    rows: Vec<Vec<String>>,
    facts: Vec<(&'static str, String)>,
    command: &'f str,
}

#[cfg(test)]
mod tests {
    use super::super::objective::Objective;
    use super::super::results::{Confirmation, FORMAT, Question, Rung};
    use super::*;
    use crate::fixture;
    use crate::results::Latency;

    fn cell(target: usize, round: u32, rate: f64) -> Cell {
        Cell {
            round,
            target,
            concurrency: 100,
            completed: 10,
            requests_per_second: rate,
            latency_us: Some(Latency { p99: 1234.0, ..Latency::default() }),
            pss_kib: Some(20_480),
            ..Cell::default()
        }
    }

    fn tuned(verdict: Verdict) -> Tuned {
        let candidate = |name: &str, is_present| Candidate {
            name: name.to_owned(),
            model: Model::Event,
            settings: vec![
                ("ServerLimit".to_owned(), "32".to_owned()),
                ("StartServers".to_owned(), "16".to_owned()),
                ("MaxRequestWorkers".to_owned(), "400".to_owned()),
            ],
            workers: 400,
            memory_kib: Some(1e4),
            closes: false,
            is_present,
        };
        let rates = |rate: f64| vec![Some(rate), Some(rate + 1.0), Some(rate - 1.0)];
        Tuned {
            format: FORMAT,
            question: Question {
                target: Family::Apache2,
                objective: Objective { clients: vec![100], keep_alive: true, p99_ms: None, memory_kib: 1e6 },
                paths: vec!["/".to_owned()],
                share: 1.0,
                site: None,
                present: Some("/etc/apache2/apache2.conf".to_owned()),
                is_own: false,
                minutes: 5.0,
                seed: 1,
            },
            environment: fixture::clear_winner().environment,
            version: "Apache/2.4".to_owned(),
            costs: Vec::new(),
            curve: vec![(1, 10.0), (2, 20.0)],
            knee: Some(2),
            candidates: vec![candidate("present setting (event 6 x 25)", true), candidate("event 16 x 25", false)],
            left_out: vec!["prefork 9000 would take too much".to_owned()],
            remarks: Vec::new(),
            rungs: vec![Rung { alive: vec![0, 1], rounds: 3, cell_s: 0.5 }],
            race: (0..3).flat_map(|round| [cell(0, round, 100.0), cell(1, round, 150.0)]).collect(),
            figures: vec![rates(100.0), rates(150.0)],
            chosen: Some(1),
            confirmation: Some(Confirmation {
                rounds: 3,
                looks: 1,
                cell_s: 1.0,
                cells: (0..3).flat_map(|round| [cell(0, round, 100.0), cell(1, round, 150.0)]).collect(),
                present: rates(100.0),
                chosen: rates(150.0),
            }),
            verdict,
            ended_early: None,
            took_s: 100.0,
        }
    }

    #[test]
    fn what_is_better_is_told_with_its_block_and_evidence() {
        let found = tuned(Verdict::Better { times: 1.5, low: 1.4, high: 1.6 });
        let block = block(&found).expect("a block");
        for part in [
            "# manifold lab tune",
            "1.50 times the present setting [1.40 to 1.60]",
            "then 150 answers a second to 100 % of the clients",
            "    # tried: 400\n    MaxRequestWorkers 400\n",
        ] {
            assert!(block.contains(part), "no {part:?} in {block}");
        }
        assert!(block.is_ascii() && block.lines().all(|line| line.len() < 130), "{block}");
        let html = html(&found, &Frame::FILE).expect("it renders");
        for (form, text) in [("terminal", terminal(&found)), ("markdown", markdown(&found)), ("html", html)] {
            for part in
                ["Event 16 x 25 is 1.50 times as good", "StartServers 16", "prefork 9000", "1.50 [1.50 to 1.51]"]
            {
                assert!(text.contains(part), "no {part:?} in {form}:\n{text}");
            }
        }
        assert_eq!(price(&found), Vec::<String>::new());
        let mut dear = found.clone();
        for cell in dear.confirmation.as_mut().expect("there is one").cells.iter_mut().filter(|cell| cell.target == 1) {
            cell.latency_us = Some(Latency { p99: 20_000.0, ..Latency::default() });
            cell.errors = 1;
        }
        let said = price(&dear).join(" ");
        assert!(said.contains("20.0 ms instead of 1.2 ms") && said.contains("9.1 % instead of 0 %"), "{said}");
        assert!(terminal(&dear).contains("--p99 sets a limit"));
        let endless = tuned(Verdict::Better { times: 1e5, low: 1e4, high: 1e6 });
        assert!(headline(&endless).contains("does what is asked, and the present setting does not"));
    }

    #[test]
    fn keeping_is_said_without_a_block() {
        let found = tuned(Verdict::Keep { why: "nothing is better".to_owned() });
        assert_eq!(block(&found), None);
        assert!(terminal(&found).starts_with("Keep what you have: nothing is better.\n"));
        assert!(!markdown(&found).contains("<IfModule"));
    }
}
