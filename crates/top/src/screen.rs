//! The view of `manifold top`, pure: what is known, drawn into a frame of any size.

use std::collections::VecDeque;

use manifold_engine::status::{Process, ProcessState, Snapshot, Worker};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Gauge, Paragraph, Row, Sparkline, Table};

use crate::fetch::{Answer, Failure};
use crate::report::{notes, under_way};
use crate::text::{bytes, count, plain, rate, time};

/// Looks whose rates are remembered: wider than most terminals.
const HISTORY: usize = 240;
/// Processes that are listed.
const PROCESSES: usize = 64;

/// In which order requests are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The longest first.
    Age,
    /// By the client's address.
    Client,
    /// By what is asked for.
    Request,
}

impl Order {
    /// The next one of the key `s`.
    pub fn next(self) -> Order {
        match self {
            Order::Age => Order::Client,
            Order::Client => Order::Request,
            Order::Request => Order::Age,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Order::Age => "longest first",
            Order::Client => "by client",
            Order::Request => "by request",
        }
    }
}

/// What is known, and how it is to be shown.
#[derive(Debug)]
pub struct Screen {
    url: String,
    snapshot: Option<Snapshot>,
    /// Why the last look failed.
    trouble: Option<String>,
    /// Requests a second, the newest last.
    rates: VecDeque<u64>,
    /// No look is taken.
    pub paused: bool,
    /// The keys are shown.
    pub help: bool,
    /// Of requests.
    pub order: Order,
}

impl Screen {
    /// Nothing is known of the server of `url` yet.
    pub fn new(url: &str) -> Screen {
        let (url, rates) = (plain(url), VecDeque::with_capacity(HISTORY));
        Screen { url, snapshot: None, trouble: None, rates, paused: false, help: false, order: Order::Age }
    }

    /// A look was taken. What was known before stays on the screen when it failed.
    pub fn looked(&mut self, answer: Result<Answer, Failure>) {
        match answer {
            Ok(Answer { snapshot, .. }) => {
                if self.rates.len() == HISTORY {
                    self.rates.pop_front();
                }
                self.rates.push_back(snapshot.rates.requests.max(0.0).round() as u64);
                (self.snapshot, self.trouble) = (Some(snapshot), None);
            }
            Err(failure) => self.trouble = Some(plain(&failure.to_string())),
        }
    }
}

/// Draws all of it.
pub fn draw(screen: &Screen, frame: &mut Frame<'_>) {
    let Some(snapshot) = &screen.snapshot else {
        let text = screen.trouble.clone().unwrap_or_else(|| format!("looking at {} ...", screen.url));
        frame.render_widget(Paragraph::new(text).style(Style::new().fg(Color::Yellow)), frame.area());
        return;
    };
    let letters = letter_rows(snapshot, frame.area());
    let processes = snapshot.processes.len().min(PROCESSES).min(frame.area().height as usize / 4) as u16;
    let areas = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(3),
        Constraint::Length(3),
        Constraint::Length(letters + 1),
        Constraint::Length(processes + 1),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .split(frame.area());
    frame.render_widget(Paragraph::new(header(screen, snapshot)), areas[0]);
    rates(screen, snapshot, frame, areas[1]);
    workers(snapshot, frame, areas[2]);
    frame.render_widget(Paragraph::new(scoreboard(snapshot, areas[3].width)), areas[3]);
    frame.render_widget(process_table(snapshot, processes as usize), areas[4]);
    frame.render_widget(request_table(screen, snapshot), areas[5]);
    frame.render_widget(Paragraph::new(footer(screen, snapshot)), areas[6]);
    if screen.help {
        help(frame);
    }
}

fn header<'a>(screen: &'a Screen, snapshot: &'a Snapshot) -> Vec<Line<'a>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let age = time(snapshot.time_ms.saturating_sub(snapshot.started_ms));
    let first = Line::from(vec![
        Span::styled(plain(&snapshot.server.version), bold),
        Span::raw(format!(
            "  MPM {}  generation {}  pid {}  up {age}  {}",
            plain(&snapshot.server.mpm),
            snapshot.mpm_generation,
            snapshot.server.pid,
            screen.url
        )),
    ]);
    let connections = &snapshot.connections;
    let mut second = format!(
        "connections {}: keep-alive {}, waiting {}, writing {}, lingering {}",
        connections.open, connections.keep_alive, connections.wait_io, connections.writing, connections.lingering
    );
    for old in snapshot.generations.iter().filter(|generation| generation.draining) {
        second.push_str(&format!("; generation {} drains {} connections", old.number, old.connections.open));
    }
    vec![first, Line::raw(second)]
}

fn rates(screen: &Screen, snapshot: &Snapshot, frame: &mut Frame<'_>, area: Rect) {
    let Snapshot { rates, totals, .. } = snapshot;
    let title = format!(
        " {} requests/s  {}/s  {} connections/s  ({} requests, {} in all) ",
        rate(rates.requests),
        bytes(rates.bytes.max(0.0) as u64),
        rate(rates.connections),
        count(totals.accesses),
        bytes(totals.bytes)
    );
    let block = Block::bordered().title(title);
    let width = block.inner(area).width as usize;
    let shown: Vec<u64> = screen.rates.iter().rev().take(width).rev().copied().collect();
    frame.render_widget(Sparkline::default().block(block).data(&shown).style(Style::new().fg(Color::Cyan)), area);
}

fn workers(snapshot: &Snapshot, frame: &mut Frame<'_>, area: Rect) {
    let (workers, most) = (&snapshot.worker_counts, snapshot.limits.max_request_workers.max(1));
    let ratio = (workers.busy as f64 / most as f64).clamp(0.0, 1.0);
    let colour = match ratio {
        0.0..0.7 => Color::Green,
        0.7..0.9 => Color::Yellow,
        _ => Color::Red,
    };
    let label = format!("{} busy of {most}, {} idle, {} graceful", workers.busy, workers.idle, workers.graceful);
    let gauge = Gauge::default().block(Block::bordered().title(" workers ")).gauge_style(Style::new().fg(colour));
    frame.render_widget(gauge.ratio(ratio).label(label), area);
}

/// How many lines the letters take: at most a quarter of the screen.
fn letter_rows(snapshot: &Snapshot, area: Rect) -> u16 {
    let rows = snapshot.scoreboard.chars().count().div_ceil(area.width.max(1) as usize);
    rows.clamp(1, (area.height as usize / 4).max(1)) as u16
}

fn scoreboard(snapshot: &Snapshot, width: u16) -> Vec<Line<'_>> {
    let letters: Vec<char> = snapshot.scoreboard.chars().collect();
    let line = |row: &[char]| Line::from(row.iter().map(|letter| coloured(*letter)).collect::<Vec<_>>());
    letters.chunks(width.max(1) as usize).map(line).collect()
}

/// A letter of the scoreboard, in a colour of its state.
fn coloured(letter: char) -> Span<'static> {
    let colour = match letter {
        '_' => Color::Green,
        'R' | 'W' | 'L' | 'D' => Color::Red,
        'K' => Color::Blue,
        'C' | 'G' | 'I' => Color::Magenta,
        'S' => Color::Yellow,
        _ => Color::DarkGray,
    };
    let shown = if letter.is_control() { '?' } else { letter };
    Span::styled(shown.to_string(), Style::new().fg(colour))
}

fn process_table(snapshot: &Snapshot, rows: usize) -> Table<'_> {
    let head = Row::new(["PID", "GEN", "STATE", "CONNS", "KEEP", "WAIT", "WRITE", "LINGER", "BUSY", "IDLE"]);
    let widths = [8, 5, 10, 7, 7, 7, 7, 7, 6, 6].map(Constraint::Length);
    let lines = snapshot.processes.iter().take(rows).map(process_row);
    Table::new(lines, widths).header(head.style(Style::new().add_modifier(Modifier::REVERSED)))
}

fn process_row(process: &Process) -> Row<'_> {
    let Process { connections, workers, .. } = process;
    let state = match process.state {
        ProcessState::Starting => "starting",
        ProcessState::Running if !process.accepting => "full",
        ProcessState::Running => "running",
        ProcessState::Quiescing => "draining",
    };
    let numbers = [connections.open, connections.keep_alive, connections.wait_io, connections.writing];
    let more = [connections.lingering, workers.busy, workers.idle];
    let mut cells = vec![process.pid.to_string(), process.generation.to_string(), state.to_owned()];
    cells.extend(numbers.iter().chain(&more).map(ToString::to_string));
    Row::new(cells)
}

fn request_table<'a>(screen: &Screen, snapshot: &'a Snapshot) -> Table<'a> {
    let mut requests = under_way(snapshot);
    match screen.order {
        Order::Age => {}
        Order::Client => requests.sort_by(|a, b| a.client.cmp(&b.client)),
        Order::Request => requests.sort_by(|a, b| a.request.cmp(&b.request)),
    }
    let head = Row::new(["S", "AGE", "CLIENT", "HOST", "REQUEST"]);
    let widths = [
        Constraint::Length(1),
        Constraint::Length(12),
        Constraint::Length(16),
        Constraint::Length(16),
        Constraint::Min(10),
    ];
    let row = |worker: &Worker| {
        let age = time(snapshot.time_ms.saturating_sub(worker.began_ms));
        let cells =
            [worker.status.0.to_string(), age, plain(&worker.client), plain(&worker.vhost), plain(&worker.request)];
        Row::new(cells)
    };
    Table::new(requests.into_iter().map(row), widths).header(head.style(Style::new().add_modifier(Modifier::REVERSED)))
}

fn footer<'a>(screen: &Screen, snapshot: &Snapshot) -> Line<'a> {
    let warning = Style::new().fg(Color::Yellow);
    if let Some(trouble) = &screen.trouble {
        return Line::styled(format!("the server does not answer: {trouble}; trying again"), warning);
    }
    if let Some(note) = notes(snapshot).into_iter().next() {
        return Line::styled(note, warning);
    }
    let paused = if screen.paused { "PAUSED  " } else { "" };
    Line::raw(format!("{paused}q quit  s sort ({})  p pause  ? help", screen.order.name()))
}

fn help(frame: &mut Frame<'_>) {
    let text = "q  quit\ns  sort requests: longest first, by client, by request\np  pause\n?  this help\n\n\
                _ idle   R reading   W sending   K keep-alive   L logging\n\
                C closing   G finishing   I cleaned up   S starting   . open slot";
    let [area] = Layout::vertical([Constraint::Length(9)]).areas(frame.area());
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" manifold top ")), area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use manifold_engine::status::{Connections, Generation, Letter, Limits, Rates, Server, Step, WorkerCounts};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn snapshot() -> Snapshot {
        let at_work = |client: &str, began_ms: u64, request: &str| Worker {
            status: Letter('W'),
            phase: Step::Sending,
            began_ms,
            client: client.into(),
            request: request.into(),
            ..Worker::default()
        };
        Snapshot {
            server: Server { version: "Manifold/1".into(), mpm: "event".into(), pid: 7, ..Server::default() },
            time_ms: 100_000,
            started_ms: 20_000,
            mpm_generation: 2,
            extended: true,
            rates: Rates { over_ms: 9000, requests: 1234.0, bytes: 2048.0, connections: 3.0 },
            worker_counts: WorkerCounts { busy: 2, idle: 48, graceful: 0, starting: 0 },
            connections: Connections { open: 9, keep_alive: 3, ..Connections::default() },
            limits: Limits { max_request_workers: 400, ..Limits::default() },
            generations: vec![Generation { number: 1, draining: true, processes: 1, ..Generation::default() }],
            processes: vec![Process {
                pid: 8,
                generation: 2,
                state: ProcessState::Running,
                accepting: true,
                ..Process::default()
            }],
            workers: vec![
                at_work("192.0.2.9", 99_000, "GET /a HTTP/1.1"),
                at_work("192.0.2.1", 40_000, "GET /b HTTP/1.1"),
            ],
            scoreboard: "WW__K.".into(),
            ..Snapshot::default()
        }
    }

    fn looked(snapshot: Snapshot) -> Screen {
        let mut screen = Screen::new("http://localhost/server-status");
        screen.looked(Ok(Answer { text: String::new(), snapshot }));
        screen
    }

    /// The screen as lines.
    fn lines(screen: &Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(screen, frame)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }

    #[track_caller]
    fn check(screen: &Screen, expected: &[&str]) {
        let lines = lines(screen, 100, 30);
        for text in expected {
            assert!(lines.iter().any(|line| line.contains(text)), "no '{text}' in\n{}", lines.join("\n"));
        }
    }

    #[test]
    fn everything_is_on_the_screen() {
        let mut screen = looked(snapshot());
        check(
            &screen,
            &[
                "Manifold/1  MPM event  generation 2  pid 7  up 1 min 20 s",
                "connections 9: keep-alive 3, waiting 0, writing 0, lingering 0; generation 1 drains 0 connections",
                "1.2k requests/s  2.0 KiB/s  3.0 connections/s",
                "2 busy of 400, 48 idle, 0 graceful",
                "WW__K.",
                "running",
                "q quit  s sort (longest first)  p pause  ? help",
            ],
        );
        let position = |screen: &Screen, text: &str| {
            lines(screen, 100, 30).iter().position(|line| line.contains(text)).expect("it is there")
        };
        assert!(position(&screen, "GET /b") < position(&screen, "GET /a"), "the longest comes first");
        screen.order = Order::Request;
        assert!(position(&screen, "GET /a") < position(&screen, "GET /b"), "by request");
        screen.help = true;
        check(&screen, &["manifold top", "cleaned up"]);
    }

    #[test]
    fn trouble_is_told_and_what_was_known_stays() {
        let mut screen = looked(snapshot());
        screen.looked(Err(Failure::NoStatus("status 404".into())));
        check(&screen, &["the server does not answer: status 404; trying again", "WW__K."]);
        let mut blank = Screen::new("http://x/");
        check(&blank, &["looking at http://x/"]);
        blank.looked(Err(Failure::NoStatus("status 404".into())));
        check(&blank, &["status 404"]);
    }

    #[test]
    fn no_size_and_no_content_breaks_it() {
        let mut many = snapshot();
        many.scoreboard = "_".repeat(20_000);
        many.processes = vec![Process::default(); 500];
        let wild = Snapshot {
            scoreboard: "\u{1b}\u{fffd}".into(),
            rates: Rates { requests: f64::NAN, ..Rates::default() },
            ..snapshot()
        };
        for snapshot in [Snapshot::default(), snapshot(), many, wild] {
            let mut screen = looked(snapshot);
            screen.help = true;
            for (width, height) in [(1, 1), (2, 40), (80, 24), (140, 45), (300, 3)] {
                let drawn = lines(&screen, width, height);
                assert!(drawn.iter().flat_map(|line| line.chars()).all(|c| !c.is_control()));
            }
        }
    }
}
