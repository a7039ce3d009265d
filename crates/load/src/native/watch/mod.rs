//! Who looks on while a run goes on: a person at a terminal (a live view), or whoever reads standard error (a line now and then).
//!
//! Threads of the run hand over a second's figures once a second, whether anybody looks on or not; everything here is done by the thread
//! that waits for them. [`standing`] is what is known, [`screen`] and [`text`] show it: pure, all three.

mod goal;
mod screen;
mod standing;
mod terminal;
mod text;

use std::io::{Write, stderr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::args::Options;
use super::handover::Second;
use crate::outcome::nanoseconds;
use crate::slices::Slice;
use goal::Goal;
use standing::Standing;
use terminal::{Screen, Wish};

/// How often the view is drawn.
const DRAWN: Duration = Duration::from_millis(250);
/// How often a line is written unless something else is said.
pub const PROGRESS: Duration = Duration::from_secs(10);

/// An onlooker, or nobody.
#[derive(Debug)]
pub struct Watch(Option<Onlooker>);

impl Watch {
    /// Of a run that begins now: at a terminal a view unless the options say otherwise, and lines elsewhere.
    pub fn begin(options: &Options) -> Watch {
        Watch(Some(Onlooker::begin(options)))
    }

    /// Nobody.
    pub fn nobody() -> Watch {
        Watch(None)
    }

    /// A thread has handed over a second; `slice`: its latencies.
    pub fn look(&mut self, thread: usize, second: &Second, slice: &Slice) {
        if let Watch(Some(onlooker)) = self {
            onlooker.standing.look(thread, second, slice);
        }
    }

    /// Shows how the run stands, if it is time to.
    pub fn show(&mut self) {
        if let Watch(Some(onlooker)) = self {
            onlooker.show(Instant::now());
        }
    }
}

#[derive(Debug)]
struct Onlooker {
    standing: Standing,
    eyes: Eyes,
    /// The run's beginning by the wall's clock, nanoseconds since 1970, and by ours.
    began: (u64, Instant),
    /// When it is shown again.
    next: Instant,
    /// Time between lines; zero: none are written.
    progress: Duration,
}

/// How it looks on.
#[derive(Debug)]
enum Eyes {
    /// `ending`: the end was asked for.
    View {
        screen: Screen,
        ending: bool,
    },
    Lines,
}

impl Onlooker {
    fn begin(options: &Options) -> Onlooker {
        let screen = if options.view { Screen::take() } else { None };
        let now = Instant::now();
        let unix = nanoseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        Onlooker {
            standing: Standing::new(Goal::of(options), unix),
            next: if screen.is_some() { now } else { now + options.progress },
            eyes: screen.map_or(Eyes::Lines, |screen| Eyes::View { screen, ending: false }),
            began: (unix, now),
            progress: options.progress,
        }
    }

    fn show(&mut self, now: Instant) {
        match self.eyes {
            Eyes::View { .. } => self.show_view(now),
            Eyes::Lines => self.show_line(now),
        }
    }

    fn show_line(&mut self, now: Instant) {
        if self.progress.is_zero() || now < self.next {
            return;
        }
        self.next = now + self.progress;
        // Nobody reads it: that is no reason to end the run.
        let _unread = writeln!(stderr(), "{}", text::line(&self.standing.figures(self.unix(now))));
    }

    fn show_view(&mut self, now: Instant) {
        let Eyes::View { screen, ending } = &mut self.eyes else { return };
        let Ok(wishes) = screen.wishes() else { return self.close_view(now) };
        if wishes.contains(&Wish::End) {
            *ending = true;
            // As ^C does without a view: all threads wait for it.
            let _sent = kill(Pid::this(), Signal::SIGINT);
        }
        if wishes.contains(&Wish::Suspend) {
            return self.suspend();
        }
        if now < self.next && wishes.is_empty() {
            return;
        }
        self.next = now + DRAWN;
        let figures = self.standing.figures(self.unix(now));
        let Eyes::View { screen, ending } = &mut self.eyes else { return };
        let drawn = screen.draw(|frame| screen::draw(self.standing.goal(), &figures, *ending, frame));
        if drawn.is_err() {
            self.close_view(now);
        }
    }

    /// Once the job goes on, in the foreground the view does so as well.
    fn suspend(&mut self) {
        if let Eyes::View { screen, .. } = std::mem::replace(&mut self.eyes, Eyes::Lines) {
            screen.suspend();
        }
        let now = Instant::now();
        match Screen::take() {
            Some(screen) => (self.eyes, self.next) = (Eyes::View { screen, ending: false }, now),
            None => self.next = now + self.progress,
        }
    }

    /// The terminal cannot be used any more.
    fn close_view(&mut self, now: Instant) {
        (self.eyes, self.next) = (Eyes::Lines, now + self.progress);
    }

    /// Nanoseconds since 1970, by the clock of the run.
    fn unix(&self, now: Instant) -> u64 {
        self.began.0 + nanoseconds(now.saturating_duration_since(self.began.1))
    }
}
