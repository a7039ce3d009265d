//! The terminal of a live view: taken, drawn on, asked for keys, and given back whatever ends it.
//!
//! Standard error is drawn on, so that standard output stays what the report is written to.

use std::env;
use std::io::{self, BufWriter, IsTerminal, Stderr, stderr};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgrp, tcgetpgrp};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use ratatui::{Frame, Terminal};

/// Events that are read at once at most; the rest wait for the next time.
const EVENTS_MAX: usize = 64;
/// Whether the terminal is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A terminal that is drawn on.
#[derive(Debug)]
pub struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stderr>>>,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// That the run ends.
    End,
    /// That the process is stopped until the shell lets it go on.
    Suspend,
    /// That all is drawn now, for the terminal has another size.
    Redraw,
}

impl Screen {
    /// Takes the terminal, if there is one and it is ours to take.
    pub fn take() -> Option<Screen> {
        if !is_ours() || !size().is_ok_and(|(columns, rows)| columns > 0 && rows > 0) {
            return None;
        }
        static HOOK: Once = Once::new();
        HOOK.call_once(give_back_on_panic);
        TAKEN.store(true, Ordering::Relaxed);
        let taken = enable_raw_mode().and_then(|()| execute!(stderr(), EnterAlternateScreen));
        let terminal = taken.and_then(|()| Terminal::new(CrosstermBackend::new(BufWriter::new(stderr()))));
        if terminal.is_err() {
            give_back();
        }
        terminal.ok().map(|terminal| Screen { terminal })
    }

    /// Draws; an error means that the terminal cannot be used any more.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if !TAKEN.load(Ordering::Relaxed) {
            return Err(io::Error::other("a thread has panicked, and its words are on the screen"));
        }
        self.terminal.draw(draw).map(drop)
    }

    /// What was typed meanwhile.
    pub fn wishes(&self) -> io::Result<Vec<Wish>> {
        let mut wishes = Vec::new();
        for _ in 0..EVENTS_MAX {
            match event::poll(Duration::ZERO) {
                Ok(true) => wishes.extend(wish(&event::read()?)),
                Ok(false) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(wishes)
    }

    /// Gives the terminal back and stops the job, as the terminal itself would; returns when it goes on.
    pub fn suspend(self) {
        drop(self);
        // Where the shell has no job control this does nothing.
        let _refused = kill(Pid::from_raw(0), Signal::SIGTSTP);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// There is a terminal, it can move its cursor, and we are not a job in the background, which setting it would stop.
fn is_ours() -> bool {
    let can = env::var_os("TERM").is_some_and(|kind| !kind.is_empty() && kind != "dumb");
    can && stderr().is_terminal() && tcgetpgrp(stderr()).is_ok_and(|group| group == getpgrp())
}

/// The terminal as it was. A second time this does nothing.
fn give_back() {
    if TAKEN.swap(false, Ordering::Relaxed) {
        // A terminal that is gone needs nothing.
        let _gone = disable_raw_mode();
        let _gone = execute!(stderr(), LeaveAlternateScreen, Show);
    }
}

/// What a panic says is to be read.
fn give_back_on_panic() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        give_back();
        before(info);
    }));
}

fn wish(event: &Event) -> Option<Wish> {
    let key = match event {
        Event::Key(key) if key.kind == KeyEventKind::Press => key,
        Event::Resize(..) => return Some(Wish::Redraw),
        _ => return None,
    };
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if control => Some(Wish::End),
        KeyCode::Char('z') if control => Some(Wish::Suspend),
        KeyCode::Char('q') if !control => Some(Wish::End),
        _ => None,
    }
}
