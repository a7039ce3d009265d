//! `manifold top`: look, draw, wait for a key, and again. The terminal is given back whatever ends it.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use manifold_sys::signal::{Signal, note_on};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::fetch::fetch;
use crate::screen::{Screen, draw};

/// Longest wait for a key before the signals that end the program are looked at.
const KEYS: Duration = Duration::from_millis(200);

/// Shows the server of `url` until `q` is pressed.
///
/// # Errors
/// When there is no terminal, or the address makes no sense.
pub fn run(url: &str, interval: Duration) -> Result<(), String> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err("this needs a terminal; 'manifold status' prints the same once".to_owned());
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        note_on(signal).map_err(|error| error.to_string())?;
    }
    // Its panic hook gives the terminal back as well.
    let terminal = ratatui::try_init().map_err(|error| format!("the terminal cannot be used: {error}"))?;
    let outcome = show(terminal, url, interval).map_err(|error| format!("the terminal cannot be used: {error}"));
    ratatui::restore();
    outcome
}

fn show(mut terminal: DefaultTerminal, url: &str, interval: Duration) -> io::Result<()> {
    let mut screen = Screen::new(url);
    let mut next = Instant::now();
    while !manifold_sys::signal::asked().load(std::sync::atomic::Ordering::Relaxed) {
        let now = Instant::now();
        if now >= next {
            if !screen.paused {
                screen.looked(fetch(url));
            }
            next = Instant::now() + interval;
        }
        terminal.draw(|frame| draw(&screen, frame))?;
        if wait_for_key(next)? && handle(&mut screen, &event::read()?) {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether something was typed, or the terminal changed its size, before `until` or a short while.
fn wait_for_key(until: Instant) -> io::Result<bool> {
    let wait = until.saturating_duration_since(Instant::now()).min(KEYS);
    match event::poll(wait) {
        // A signal: the loop looks at it.
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        result => result,
    }
}

/// Whether the program shall end.
fn handle(screen: &mut Screen, event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    if key.kind != KeyEventKind::Press {
        return false;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return true,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
        KeyCode::Char('p') => screen.paused = !screen.paused,
        KeyCode::Char('s') => screen.order = screen.order.next(),
        KeyCode::Char('?' | 'h') => screen.help = !screen.help,
        _ => {}
    }
    false
}
