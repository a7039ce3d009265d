//! A slot: the home of one connection, and the rule by which at most one worker at a time is in it.
//!
//! It has two parts. The [`Place`] is what everybody looks at: atomic words. What the connection is made of is [`Held`] while
//! no worker is in the slot; an idle connection is a socket and what the engine remembers of it.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use manifold_engine::serve::Conn;

use crate::clock::Deadline;
use crate::event::Task;
use crate::event::transport::{Lingering, Resting};
use crate::scoreboard::{self, WorkerSlot};

/// What a slot holds while no worker is in it.
#[derive(Default)]
pub(crate) enum Held<F> {
    /// No connection.
    #[default]
    Free,
    /// Between requests: no future and no buffer.
    Idle(Resting, Conn),
    /// In the middle of a request, waiting for the client.
    Parked(Task<F>),
    /// Half-closed.
    Lingering(Lingering),
}

/// The part of a slot that workers move in and out.
pub(crate) struct Slot<F> {
    held: Mutex<Held<F>>,
}

impl<F> Default for Slot<F> {
    fn default() -> Self {
        Slot { held: Mutex::new(Held::Free) }
    }
}

impl<F> Slot<F> {
    /// What the slot holds. Never contended: [`Schedule`] lets one worker in at a time.
    pub fn held(&self) -> MutexGuard<'_, Held<F>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a parked connection waits for, as the scoreboard counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Waits {
    /// It is not parked: a worker is in the slot, or it was just accepted and is queued, or there is none.
    Not = 0,
    /// For its first byte.
    First = 1,
    /// For its next request.
    KeepAlive = 2,
    /// For the rest of a head or body.
    Input = 3,
    /// For the client to take more of an answer.
    Output = 4,
    /// For the client to close as well.
    Lingering = 5,
}

impl Waits {
    fn of(word: u8) -> Waits {
        match word {
            1 => Waits::First,
            2 => Waits::KeepAlive,
            3 => Waits::Input,
            4 => Waits::Output,
            5 => Waits::Lingering,
            _ => Waits::Not,
        }
    }

    /// Under which number the scoreboard counts such connections.
    fn counted(self) -> scoreboard::Place {
        match self {
            Waits::Not => scoreboard::Place::Nowhere,
            Waits::KeepAlive => scoreboard::Place::KeepAlive,
            Waits::First | Waits::Input => scoreboard::Place::WaitIo,
            Waits::Output => scoreboard::Place::Writing,
            Waits::Lingering => scoreboard::Place::Lingering,
        }
    }
}

/// The part of a slot that listener, workers and transports look at.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub schedule: Schedule,
    /// Until when the connection may wait.
    pub deadline: Deadline,
    /// What it is counted as.
    counted: AtomicU8,
    /// What its transport has last waited for.
    wanted: AtomicU8,
}

impl Place {
    /// The connection waits for something else now, and is counted so by `worker`, which is in the slot.
    pub fn count(&self, waits: Waits, worker: &WorkerSlot<'_>) {
        let before = Waits::of(self.counted.load(Ordering::Relaxed));
        if before != waits {
            self.counted.store(waits as u8, Ordering::Relaxed);
            worker.shift(before.counted(), waits.counted());
        }
    }

    /// What the connection waits for, for those who are not in the slot.
    pub fn waits(&self) -> Waits {
        Waits::of(self.counted.load(Ordering::Relaxed))
    }

    /// A transport begins to wait.
    pub fn want(&self, waits: Waits) {
        self.wanted.store(waits as u8, Ordering::Relaxed);
    }

    /// What the transport has last waited for.
    pub fn wanted(&self) -> Waits {
        Waits::of(self.wanted.load(Ordering::Relaxed))
    }
}

/// Who is responsible for a slot: nobody, or the queue and then a worker. An event that comes while a worker is in the
/// slot makes the worker (or the next) look once more, so that none is lost and none lets a second worker in.
#[derive(Debug, Default)]
pub(crate) struct Schedule(AtomicU8);

/// Queued, or a worker is in the slot.
const SCHEDULED: u8 = 1;
/// Something happened since the worker began.
const AGAIN: u8 = 2;
/// The client has closed its side; edge-triggered events tell this once only.
const HUNG_UP: u8 = 4;

impl Schedule {
    /// Something happened. `true` when the caller has to queue the slot.
    pub fn notify(&self, hang_up: bool) -> bool {
        let mark = SCHEDULED | AGAIN | if hang_up { HUNG_UP } else { 0 };
        self.0.fetch_or(mark, Ordering::AcqRel) & SCHEDULED == 0
    }

    /// A worker begins.
    pub fn begin(&self) {
        self.0.fetch_and(!AGAIN, Ordering::AcqRel);
    }

    /// Whether the client has hung up.
    pub fn hung_up(&self) -> bool {
        self.0.load(Ordering::Acquire) & HUNG_UP != 0
    }

    /// The worker is done. `false` when something happened meanwhile: the slot stays scheduled and is to be queued again.
    pub fn end(&self) -> bool {
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                (state & AGAIN == 0).then_some(state & !SCHEDULED)
            })
            .is_ok()
    }

    /// The slot got a new connection. `true` when the caller has to queue the slot; a late event of the connection before
    /// may have queued it already.
    pub fn start(&self) -> bool {
        self.0.swap(SCHEDULED | AGAIN, Ordering::AcqRel) & SCHEDULED == 0
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_during_work_is_not_lost_and_lets_nobody_else_in() {
        let schedule = Schedule::default();
        assert!(schedule.notify(false), "nobody is responsible: queue it");
        assert!(!schedule.notify(false), "queued once is enough");
        schedule.begin();
        assert!(!schedule.notify(true), "a worker is in it");
        assert!(!schedule.end(), "the worker has to look again");
        schedule.begin();
        assert!(schedule.hung_up());
        assert!(schedule.end());
        assert!(schedule.start(), "nobody is responsible for the new connection");
        assert!(!schedule.hung_up(), "the new client has not hung up");
        schedule.begin();
        assert!(schedule.end());
        assert!(schedule.notify(false));
    }

    #[test]
    fn workers_exclude_each_other_and_see_the_last_event() {
        use std::sync::atomic::{AtomicBool, AtomicU32};
        use std::sync::mpsc;
        use std::thread;
        const EVENTS: u32 = 20_000;
        let (schedule, inside) = (Schedule::default(), AtomicBool::new(false));
        let (events, seen) = (AtomicU32::new(0), AtomicU32::new(0));
        let (queue, work) = mpsc::channel();
        let work = Mutex::new(work);
        thread::scope(|scope| {
            for _ in 0..3 {
                let queue = queue.clone();
                let (schedule, inside, events, seen, work) = (&schedule, &inside, &events, &seen, &work);
                scope.spawn(move || {
                    while work.lock().unwrap().recv() == Ok(true) {
                        schedule.begin();
                        assert!(!inside.swap(true, Ordering::AcqRel), "two workers in one slot");
                        seen.store(events.load(Ordering::Acquire), Ordering::Release);
                        inside.store(false, Ordering::Release);
                        if !schedule.end() {
                            queue.send(true).unwrap();
                        }
                    }
                });
            }
            for _ in 0..EVENTS {
                events.fetch_add(1, Ordering::AcqRel);
                if schedule.notify(false) {
                    queue.send(true).unwrap();
                }
            }
            while seen.load(Ordering::Acquire) < EVENTS {
                thread::yield_now();
            }
            for _ in 0..3 {
                queue.send(false).unwrap();
            }
        });
    }
}
