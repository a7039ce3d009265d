//! Telling how far the run is: one line that rewrites itself on a terminal, a few plain lines elsewhere, and in the store for `lab view`.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use crate::store::Live;
use crate::text;

/// Between two plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(15);

/// The display on the standard error stream.
#[derive(Debug)]
pub struct Progress {
    total: usize,
    first_guess: Duration,
    began: Instant,
    terminal: bool,
    last_plain: Option<Instant>,
    live: Option<Live>,
}

impl Progress {
    /// A display for `total` cells that are guessed to take so long each.
    pub fn new(total: usize, cell: Duration) -> Progress {
        let terminal = stderr().is_terminal();
        Progress { total, first_guess: cell, began: Instant::now(), terminal, last_plain: None, live: None }
    }

    /// The same, and those who look at the store are told as well.
    pub fn telling(self, live: Option<Live>) -> Progress {
        Progress { live, ..self }
    }

    /// So many more cells are to come.
    pub fn grow(&mut self, cells: usize) {
        self.total += cells;
    }

    /// `done` cells are measured, and now comes `what`.
    pub fn show(&mut self, done: usize, what: &str) {
        if let Some(live) = &self.live {
            live.tell(done, self.total, what);
        }
        let line = line(done, self.total, time_left(done, self.total, self.began.elapsed(), self.first_guess), what);
        let mut out = stderr();
        // A display that cannot be written is no reason to lose the run.
        if self.terminal {
            let _ = write!(out, "\r\x1b[2K{line}");
            let _ = out.flush();
        } else if self.last_plain.is_none_or(|last| last.elapsed() >= PLAIN_EVERY) {
            self.last_plain = Some(Instant::now());
            let _ = writeln!(out, "{line}");
        }
    }

    /// Removes the display.
    pub fn end(&self) {
        if self.terminal {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}

/// A line that stays, above the display.
pub fn note(text: &str) {
    let clear = if stderr().is_terminal() { "\r\x1b[2K" } else { "" };
    let _ = writeln!(stderr(), "{clear}{text}");
}

fn line(done: usize, total: usize, left: Duration, what: &str) -> String {
    format!(
        "[{:>3} %] {done} of {total} cells, {} left: {what}",
        done * 100 / total.max(1),
        text::duration(left.as_secs_f64())
    )
}

/// By the first cells' pace, once there are some.
fn time_left(done: usize, total: usize, elapsed: Duration, first_guess: Duration) -> Duration {
    const ENOUGH: usize = 8;
    let cell = if done < ENOUGH { first_guess } else { elapsed / done as u32 };
    cell * total.saturating_sub(done) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let s = Duration::from_secs;
        assert_eq!(line(80, 320, s(121), "nginx"), "[ 25 %] 80 of 320 cells, 2 min 1 s left: nginx");
        assert_eq!(line(0, 0, s(0), "x"), "[  0 %] 0 of 0 cells, 0 s left: x");
        assert_eq!(time_left(0, 10, s(0), s(2)), s(20));
        assert_eq!(time_left(10, 30, s(5), s(2)), s(10));
        assert_eq!(time_left(30, 30, s(5), s(2)), s(0));
    }
}
