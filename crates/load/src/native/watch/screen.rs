//! The live view of a run, pure: figures drawn into a frame of any size.
//!
//! What a small terminal has no room for is left out, the least important first.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Gauge, Paragraph, Sparkline};

use super::goal::Goal;
use super::standing::{Figures, LAST, Percentiles};
use super::text::{errors, progress, rate, reached, time};
use crate::run::LATE_NS;

/// A chart and its border.
const CHART_ROWS: u16 = 3;
/// Charts of that many rows are high enough.
const CHART_ROWS_MAX: u16 = 8;
/// From this width on there is room for all percentiles.
const WIDE: u16 = 58;
/// Shares of its time from which a thread is said to be busy, and to be busy all the time.
const BUSY: [f64; 2] = [0.8, 0.95];
/// A larger part of the schedule that is missed is a warning.
const MISSED_SHARE: f64 = 0.01;

/// A part of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Title,
    Shape,
    Progress,
    Rates,
    P99s,
    Latency,
    Answers,
    Errors,
    Connections,
    Generator,
    Keys,
}

/// All parts, from top to bottom.
const PARTS: [Part; 11] = [
    Part::Title,
    Part::Shape,
    Part::Progress,
    Part::Rates,
    Part::P99s,
    Part::Latency,
    Part::Answers,
    Part::Errors,
    Part::Connections,
    Part::Generator,
    Part::Keys,
];
/// The same, the most important first.
const IMPORTANT: [Part; 11] = [
    Part::Progress,
    Part::Answers,
    Part::Latency,
    Part::Errors,
    Part::Generator,
    Part::Title,
    Part::Keys,
    Part::Connections,
    Part::Rates,
    Part::P99s,
    Part::Shape,
];

impl Part {
    fn rows(self) -> u16 {
        match self {
            Part::Rates | Part::P99s => CHART_ROWS,
            Part::Latency => 3,
            _ => 1,
        }
    }

    fn is_chart(self) -> bool {
        matches!(self, Part::Rates | Part::P99s)
    }
}

/// The parts that there is room for, from top to bottom, with their rows. Charts share what is left.
fn fitting(height: u16) -> Vec<(Part, u16)> {
    let mut left = height;
    let mut chosen = Vec::new();
    for part in IMPORTANT {
        if part.rows() <= left {
            left -= part.rows();
            chosen.push(part);
        }
    }
    let charts = chosen.iter().filter(|part| part.is_chart()).count() as u16;
    let more = (left / charts.max(1)).min(CHART_ROWS_MAX - CHART_ROWS);
    let rows = |part: Part| part.rows() + if part.is_chart() { more } else { 0 };
    PARTS.into_iter().filter(|part| chosen.contains(part)).map(|part| (part, rows(part))).collect()
}

/// Draws all of it. `ending`: the end was asked for.
pub fn draw(goal: &Goal, figures: &Figures, ending: bool, frame: &mut Frame<'_>) {
    let parts = fitting(frame.area().height);
    let areas = Layout::vertical(parts.iter().map(|(_, rows)| Constraint::Length(*rows))).split(frame.area());
    for ((part, _), area) in parts.iter().zip(areas.iter()) {
        draw_part(*part, goal, figures, ending, frame, *area);
    }
}

fn draw_part(part: Part, goal: &Goal, figures: &Figures, ending: bool, frame: &mut Frame<'_>, area: Rect) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let line = match part {
        Part::Title => Line::styled(goal.title.clone(), bold),
        Part::Shape => Line::raw(goal.shape.clone()),
        Part::Progress => return draw_progress(figures, frame, area),
        Part::Rates => {
            let title = format!(" requests: {}, {} /s on the whole ", reached(figures), rate(figures.rate[1]));
            return draw_chart(&title, &figures.rates, Color::Cyan, frame, area);
        }
        Part::P99s => {
            let longest = figures.p99s.iter().max().map_or_else(String::new, |most| format!(" up to {}", time(*most)));
            return draw_chart(&format!(" p99 of each second{longest} "), &figures.p99s, Color::Yellow, frame, area);
        }
        Part::Latency => return frame.render_widget(Paragraph::new(latency(figures, area.width)), area),
        Part::Answers => Line::raw(answers(figures)),
        Part::Errors if figures.errors.total() + figures.wrong.iter().sum::<u64>() > 0 => {
            Line::styled(errors(figures), Style::new().fg(Color::Red))
        }
        Part::Errors => Line::raw(errors(figures)),
        Part::Connections => Line::raw(connections(figures)),
        Part::Generator => Line::styled(generator(figures), Style::new().fg(health(figures))),
        Part::Keys if ending => Line::styled("ending ...", bold),
        Part::Keys => Line::raw("q or ^C ends the run and reports, ^Z suspends it"),
    };
    frame.render_widget(Paragraph::new(line), area);
}

fn draw_progress(figures: &Figures, frame: &mut Frame<'_>, area: Rect) {
    let gauge = Gauge::default().gauge_style(Style::new().fg(Color::Blue)).ratio(figures.done.clamp(0.0, 1.0));
    frame.render_widget(gauge.label(progress(figures)), area);
}

fn draw_chart(title: &str, data: &[u64], colour: Color, frame: &mut Frame<'_>, area: Rect) {
    let block = Block::bordered().title(title);
    let shown = &data[data.len().saturating_sub(block.inner(area).width as usize)..];
    frame.render_widget(Sparkline::default().block(block).data(shown).style(Style::new().fg(colour)), area);
}

/// A table of percentiles; narrow ones have fewer.
fn latency(figures: &Figures, width: u16) -> Vec<Line<'static>> {
    type Column = (&'static str, fn(&Percentiles) -> u64);
    let all: [Column; 5] = [
        ("p50", |latency| latency.p50),
        ("p90", |latency| latency.p90),
        ("p99", |latency| latency.p99),
        ("p99.9", |latency| latency.p99_9),
        ("max", |latency| latency.max),
    ];
    let columns = all.iter().filter(|(name, _)| width >= WIDE || !matches!(*name, "p90" | "p99.9"));
    let row = |name: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: String = cells.map(|cell| format!("{cell:>9}")).collect();
        format!("{name:<9}{cells}")
    };
    let head = row("latency", &mut columns.clone().map(|(name, _)| (*name).to_owned()));
    let mut lines = vec![Line::styled(head, Style::new().add_modifier(Modifier::REVERSED))];
    for (name, latency) in [format!("last {LAST} s"), "whole".to_owned()].iter().zip(&figures.latency) {
        let cell = |of: fn(&Percentiles) -> u64| latency.as_ref().map_or("-".to_owned(), |latency| time(of(latency)));
        lines.push(Line::raw(row(name, &mut columns.clone().map(|(_, of)| cell(*of)))));
    }
    lines
}

fn answers(figures: &Figures) -> String {
    let megabytes = figures.received as f64 / 1e6;
    format!("answers  {}, {megabytes:.1} MB, now {}", figures.completed, reached(figures))
}

fn connections(figures: &Figures) -> String {
    let vitals = &figures.vitals;
    let waited = match vitals.short_of_connections {
        0 => String::new(),
        short => format!(", {short} requests waited for one"),
    };
    format!("connections  {} open, {} with a request{waited}", vitals.open, vitals.under_way)
}

fn generator(figures: &Figures) -> String {
    let vitals = &figures.vitals;
    let mut text = format!(
        "generator  busiest thread {:.0} %, longest turn {}",
        figures.busy * 100.0,
        time(vitals.longest_turn / 1000)
    );
    if vitals.begun > 0 {
        let late = 100.0 * vitals.late as f64 / vitals.begun as f64;
        text.push_str(&format!(", {late:.1} % over {} ms late", LATE_NS / 1_000_000));
    }
    text
}

/// Green, or what is to be looked at.
fn health(figures: &Figures) -> Color {
    let missed = figures.vitals.late as f64 > figures.vitals.begun as f64 * MISSED_SHARE;
    match figures.busy {
        busy if busy >= BUSY[1] => Color::Red,
        busy if busy >= BUSY[0] || missed => Color::Yellow,
        _ => Color::Green,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::native::args::{Command, parse};
    use crate::outcome::Vitals;
    use crate::report::Errors;

    fn goal() -> Goal {
        let line = "http://h/ http://h/b -c 100 -t 30 --rate 1000 --threads 2";
        let Ok(Command::Run(options)) = parse(line.split_whitespace().map(std::ffi::OsString::from)) else {
            panic!("not understood")
        };
        Goal::of(&options)
    }

    fn figures() -> Figures {
        Figures {
            phase: "running",
            elapsed: Duration::from_millis(12_600),
            done: 0.42,
            left: Some(Duration::from_millis(17_400)),
            asked: Some(1000.0),
            rate: [998.4, 1001.0],
            latency: [
                Some(Percentiles { p50: 850, p90: 1100, p99: 12_340, p99_9: 45_600, max: 123_456 }),
                Some(Percentiles { p50: 840, p90: 1050, p99: 9870, p99_9: 45_000, max: 1_234_567 }),
            ],
            completed: 12_579,
            received: 3_456_789,
            errors: Errors { connect: 1, timeout: 2, ..Errors::default() },
            wrong: [5, 0, 0],
            vitals: Vitals {
                open: 100,
                under_way: 87,
                begun: 12_600,
                late: 126,
                short_of_connections: 12,
                longest_turn: 1_200_000,
                ..Vitals::default()
            },
            busy: 0.43,
            rates: (0..200).collect(),
            p99s: vec![900, 1000, 8000],
        }
    }

    fn lines(figures: &Figures, ending: bool, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
        terminal.draw(|frame| draw(&goal(), figures, ending, frame)).expect("memory");
        let buffer = terminal.backend().buffer().clone();
        let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }

    #[track_caller]
    fn check(lines: &[String], expected: &[&str]) {
        for text in expected {
            assert!(lines.iter().any(|line| line.contains(text)), "no '{text}' in\n{}", lines.join("\n"));
        }
    }

    #[test]
    fn everything_is_on_a_usual_screen() {
        let drawn = lines(&figures(), false, 80, 24);
        check(
            &drawn,
            &[
                "http://h/ and 1 more request",
                "open loop, 100 connections, 2 threads",
                "42 %, running for 12 s, 17 s left",
                "requests: 998 of 1000 /s, 1001 /s on the whole",
                "p99 of each second up to 8.00 ms",
                "latency        p50      p90      p99    p99.9      max",
                "last 5 s    850 us  1.10 ms  12.3 ms  45.6 ms   123 ms",
                "whole       840 us  1.05 ms  9.87 ms  45.0 ms   1.23 s",
                "answers  12579, 3.5 MB, now 998 of 1000",
                "errors: connect 1, timeout 2, wrong status 5",
                "connections  100 open, 87 with a request, 12 requests waited for one",
                "generator  busiest thread 43 %, longest turn 1.20 ms, 1.0 % over 1 ms late",
                "q or ^C ends the run and reports, ^Z suspends it",
                "▁",
            ],
        );
        check(&lines(&figures(), true, 80, 24), &["ending ..."]);
    }

    #[test]
    fn a_small_screen_has_what_matters() {
        let drawn = lines(&figures(), false, 40, 10);
        check(
            &drawn,
            &[
                "42 %, running for 12 s, 17 s left",
                "answers  12579, 3.5 MB, now 998 of 1000",
                "latency        p50      p99      max",
                "errors: connect 1, timeout 2, wrong stat",
                "generator  busiest thread 43 %, longest",
                "q or ^C ends",
            ],
        );
        check(&lines(&figures(), false, 40, 1), &["42 %, running"]);
    }

    #[test]
    fn no_size_and_no_figures_break_it() {
        let strange = Figures { done: 7.0, busy: f64::INFINITY, rates: vec![u64::MAX; 3], ..figures() };
        for figures in [&figures(), &Figures::default(), &strange] {
            for height in 0..40 {
                for width in [0, 1, 3, 9, 40, 57, 58, 80, 300] {
                    lines(figures, false, width, height);
                }
            }
        }
        check(&lines(&Figures::default(), false, 80, 24), &["no errors", "whole            -"]);
    }

    #[test]
    fn parts_fill_the_screen_and_never_more() {
        for height in 0..60 {
            let parts = fitting(height);
            assert!(parts.iter().map(|(_, rows)| rows).sum::<u16>() <= height, "{height}: {parts:?}");
        }
        assert_eq!(fitting(24).len(), PARTS.len());
        assert_eq!(fitting(24).iter().map(|(_, rows)| rows).sum::<u16>(), 23);
    }
}
