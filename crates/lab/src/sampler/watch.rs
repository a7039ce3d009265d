//! Looking at a process tree while it is under load, as often as one part in 250 of a processor allows.
//!
//! What a look costs is measured, and the next one waits 250 times as long: watching costs at most 0.4 % of a processor for CPU time and
//! threads, and as much for memory, whose reading takes a hundred times longer. A tree of a thousand processes is therefore seen rarely.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::{Usage, pss_kib, tree, usage};

/// Before the first look: short loads are not looked at.
const FIRST_AFTER: Duration = Duration::from_secs(1);
/// Between looks at least.
const EVERY: Duration = Duration::from_millis(500);
/// A look may take one part in so many of a processor.
const PART: u32 = 250;
/// What reading the memory of a process takes, until it has been done.
const MEMORY_GUESS: Duration = Duration::from_micros(150);
/// So many looks at most; then each second one is forgotten, and they come half as often.
const LOOKS_MAX: usize = 600;

/// What a process tree was at a moment.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Look {
    /// Seconds since the load began.
    pub at_s: f64,
    /// CPU time that the tree had used since then, seconds.
    pub cpu_s: f64,
    /// Processes.
    pub processes: u32,
    /// Threads.
    pub threads: u32,
    /// PSS, KiB, where it was looked at.
    pub pss_kib: Option<u64>,
}

/// What was seen over time, and what seeing it took.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Watched {
    /// One after the other.
    pub looks: Vec<Look>,
    /// CPU time that looking took, seconds.
    pub own_cpu_s: f64,
}

/// A process tree that is watched.
#[derive(Debug)]
pub struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<Watched>,
}

impl Watch {
    /// Begins to watch `root` and all below it, which had used `before`; reading that took `cost`.
    ///
    /// # Errors
    /// If there can be no thread for it.
    pub fn begin(root: i32, before: Usage, cost: Duration) -> std::io::Result<Watch> {
        let (stop, stopped) = channel();
        let began = Instant::now();
        let look = move || {
            let mut watched = Watched::default();
            let mut pace = Pace::new(cost, before.processes * MEMORY_GUESS);
            loop {
                let is_over = stopped.recv_timeout(pace.left(began.elapsed())) != Err(RecvTimeoutError::Timeout);
                let at = began.elapsed();
                if !pace.left(at).is_zero() {
                    break;
                }
                let own = own_cpu();
                let Ok(pids) = tree(root) else { break };
                let now = usage(&pids);
                let mut look = Look {
                    at_s: at.as_secs_f64(),
                    cpu_s: now.cpu.saturating_sub(before.cpu).as_secs_f64(),
                    processes: now.processes,
                    threads: now.threads,
                    pss_kib: None,
                };
                pace.looked(at, own_cpu().saturating_sub(own));
                if pace.may_read_memory(at) {
                    let own = own_cpu();
                    look.pss_kib = pss_kib(&pids, began + at + EVERY);
                    pace.read_memory(at, own_cpu().saturating_sub(own));
                }
                watched.looks.push(look);
                if watched.looks.len() > LOOKS_MAX {
                    pace.half_as_often();
                    let mut number = 0;
                    watched.looks.retain(|_| {
                        number += 1;
                        number % 2 == 0
                    });
                }
                if is_over {
                    break;
                }
            }
            watched.own_cpu_s = own_cpu().as_secs_f64();
            watched
        };
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(look)?;
        Ok(Watch { stop, thread })
    }

    /// Ends it. What was seen until then.
    pub fn end(self) -> Watched {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

/// When the next look is due.
#[derive(Debug)]
struct Pace {
    every: Duration,
    next: Duration,
    next_memory: Duration,
}

impl Pace {
    /// Of what a look and what reading memory will take.
    fn new(cost: Duration, memory: Duration) -> Pace {
        Pace { every: EVERY, next: FIRST_AFTER.max(cost * PART), next_memory: memory * PART }
    }

    fn left(&self, now: Duration) -> Duration {
        self.next.saturating_sub(now)
    }

    fn looked(&mut self, at: Duration, cost: Duration) {
        self.next = at + self.every.max(cost * PART);
    }

    fn may_read_memory(&self, at: Duration) -> bool {
        at >= self.next_memory
    }

    fn read_memory(&mut self, at: Duration, cost: Duration) {
        self.next_memory = at + cost * PART;
    }

    fn half_as_often(&mut self) {
        self.every *= 2;
    }
}

/// CPU time of this thread.
fn own_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(Duration::ZERO, |time| Duration::from_nanos(time.num_nanoseconds().max(0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Looks of this cost for ten minutes: how many there are, and what part of the time they take.
    fn check(cost: Duration, memory: Duration, looks: usize, memories: usize) {
        let mut pace = Pace::new(cost, memory);
        let (mut now, mut seen, mut spent) = (Duration::ZERO, (0, 0), Duration::ZERO);
        loop {
            now += pace.left(now);
            if now > Duration::from_secs(600) {
                break;
            }
            pace.looked(now, cost);
            seen.0 += 1;
            spent += cost;
            if pace.may_read_memory(now) {
                pace.read_memory(now, memory);
                seen.1 += 1;
                spent += memory;
            }
        }
        assert_eq!(seen, (looks, memories), "{cost:?} {memory:?}");
        let part = spent.as_secs_f64() / 600.0;
        assert!(part < 0.01, "{cost:?} {memory:?}: {part}");
    }

    #[test]
    fn what_looking_costs_decides_how_often() {
        check(ms(0), ms(0), 1199, 1199);
        check(ms(1), ms(5), 1199, 400);
        check(ms(10), ms(100), 240, 24);
        check(ms(3000), ms(9000), 0, 0);
    }

    #[test]
    fn a_process_is_watched_until_the_end() {
        let began = Instant::now();
        let watch = Watch::begin(std::process::id() as i32, Usage::default(), ms(0)).expect("a thread");
        while began.elapsed() < ms(1100) {
            std::thread::sleep(ms(20));
        }
        let watched = watch.end();
        let first = watched.looks.first().expect("it is looked at after a second");
        assert!(first.at_s >= 1.0 && first.threads >= 2 && first.pss_kib.is_some(), "{first:?}");
        assert!(watched.own_cpu_s > 0.0);
        let gone = Watch::begin(i32::MAX, Usage::default(), ms(0)).expect("a thread").end();
        assert_eq!(gone.looks, []);
    }
}
