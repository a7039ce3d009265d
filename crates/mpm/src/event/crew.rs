//! Who of a child's workers is awake. As many are kept so as there are processors: more of them cost switches and gain
//! nothing, as long as they run. One that is stuck in a system call is noticed by the child's first thread ([`Crew::watch`]),
//! which then wakes another. The worker that fell asleep last is woken first: few threads keep warm what each thread has of
//! its own, its stack and its pools of buffers, and those beyond stay small.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use nix::unistd::gettid;

/// A worker is woken to help where so many slots wait: for fewer, waking costs more than it gains.
const HANDFUL: usize = 4;
/// The workers are looked after this often: at first, and ever more often down to the least where some were stuck.
const PAUSE_MAX: Duration = Duration::from_millis(16);
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Looks without anything to be seen before the watch sleeps until it is woken.
const QUIET_LOOKS: u32 = 6;

/// The workers of a child, by what they do.
#[derive(Debug)]
pub(crate) struct Crew {
    seats: Box<[Seat]>,
    awake_target: usize,
    awake: AtomicUsize,
    /// Workers asleep, the last to fall asleep last.
    asleep: Mutex<Vec<usize>>,
    /// A worker waits at the listener's post, so that nothing can happen unseen.
    listening: AtomicBool,
    watch: OnceLock<Thread>,
    /// The watch sleeps until it is woken.
    dozing: AtomicBool,
    /// With which status the child is to end.
    ended: OnceLock<u8>,
}

/// Where a worker sleeps.
#[derive(Debug, Default)]
struct Seat {
    thread: OnceLock<Thread>,
    tid: AtomicI32,
    woken: AtomicBool,
}

impl Crew {
    /// `workers` of which `processors` shall be awake while there is work.
    pub fn new(workers: usize, processors: usize) -> Crew {
        Crew {
            seats: (0..workers).map(|_| Seat::default()).collect(),
            awake_target: processors.max(1),
            awake: AtomicUsize::new(0),
            asleep: Mutex::new(Vec::with_capacity(workers)),
            listening: AtomicBool::new(false),
            watch: OnceLock::new(),
            dozing: AtomicBool::new(false),
            ended: OnceLock::new(),
        }
    }

    /// Makes the calling thread worker number `index`, below `ThreadsPerChild`.
    pub fn enlist(&self, index: usize) {
        let seat = &self.seats[index];
        let _first_time = seat.thread.set(thread::current());
        seat.tid.store(gettid().as_raw(), Ordering::Relaxed);
        self.awake.fetch_add(1, Ordering::SeqCst);
    }

    /// Workers that look for work or do it.
    pub fn awake(&self) -> usize {
        self.awake.load(Ordering::SeqCst)
    }

    /// Somebody begins to wait at the listener's post.
    pub fn listens(&self) {
        self.listening.store(true, Ordering::Release);
    }

    /// The wait is over. From now on somebody has to see that work is done.
    pub fn listened(&self) {
        self.listening.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.dozing.load(Ordering::Relaxed) && self.dozing.swap(false, Ordering::Relaxed) {
            self.watch.get().inspect(|watch| watch.unpark());
        }
    }

    /// `queued` slots were queued by a worker that takes part itself.
    pub fn help(&self, queued: usize) {
        fence(Ordering::SeqCst);
        let wanted = (queued / HANDFUL).min(self.awake_target.saturating_sub(self.awake()));
        if wanted > 0 {
            self.wake(wanted);
        }
    }

    /// Wakes one worker, if one sleeps.
    pub fn wake_another(&self) -> bool {
        self.wake(1)
    }

    /// Sleeps until there is work for worker `index`, or the child ends.
    pub fn sleep(&self, index: usize, has_work: impl Fn() -> bool) {
        {
            let mut asleep = self.asleep();
            if self.ended.get().is_some() {
                return;
            }
            asleep.push(index);
            self.awake.fetch_sub(1, Ordering::SeqCst);
        }
        // Whoever queues something from now on knows of one worker less.
        fence(Ordering::SeqCst);
        if has_work() {
            let mut asleep = self.asleep();
            if let Some(place) = asleep.iter().rposition(|sleeper| *sleeper == index) {
                asleep.remove(place);
                self.awake.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
        while !self.seats[index].woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }

    /// Lets the workers end once there is nothing left to do, and the child then end with `status`.
    pub fn end(&self, status: u8) {
        {
            let _nobody_falls_asleep_meanwhile = self.asleep();
            let _the_first_reason_counts = self.ended.set(status);
        }
        self.wake(usize::MAX);
        self.watch.get().inspect(|watch| watch.unpark());
    }

    /// Whether the workers are to end.
    pub fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Looks after the workers until they end; gives the child's status. `taken` counts up with the work that is done.
    pub fn watch(&self, taken: impl Fn() -> u64) -> u8 {
        let _first_time = self.watch.set(thread::current());
        let (mut before, mut pause, mut quiet) = (taken(), PAUSE_MAX, 0);
        loop {
            if let Some(status) = self.ended.get() {
                return *status;
            }
            thread::park_timeout(pause);
            let now = taken();
            let (moves, listening) = (now != before, self.listening.load(Ordering::Acquire));
            before = now;
            quiet = if listening && !moves { quiet + 1 } else { 0 };
            pause = PAUSE_MAX.min(pause * 2);
            if quiet == QUIET_LOOKS {
                self.doze();
                quiet = 0;
            } else if !listening && !moves && self.all_stuck() && self.wake_another() {
                pause = PAUSE_MIN;
            }
        }
    }

    /// Sleeps while somebody listens and nothing comes.
    fn doze(&self) {
        self.dozing.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while self.dozing.load(Ordering::Relaxed)
            && self.listening.load(Ordering::Relaxed)
            && self.ended.get().is_none()
        {
            thread::park();
        }
        self.dozing.store(false, Ordering::Relaxed);
    }

    /// Whether no worker that is awake runs, or would if it had a processor.
    fn all_stuck(&self) -> bool {
        let asleep = self.asleep();
        let awake = (0..self.seats.len()).filter(|index| !asleep.contains(index));
        !awake.map(|index| self.seats[index].tid.load(Ordering::Relaxed)).any(is_runnable)
    }

    fn wake(&self, wanted: usize) -> bool {
        let mut asleep = self.asleep();
        let first = asleep.len().saturating_sub(wanted);
        self.awake.fetch_add(asleep.len() - first, Ordering::SeqCst);
        if let [seat] = asleep[first..] {
            // The usual case allocates nothing.
            asleep.truncate(first);
            drop(asleep);
            self.seats[seat].wake();
            return true;
        }
        let woken = asleep.split_off(first);
        drop(asleep);
        woken.iter().for_each(|seat| self.seats[*seat].wake());
        !woken.is_empty()
    }

    fn asleep(&self) -> MutexGuard<'_, Vec<usize>> {
        // The list stays whole even when a worker panics between two calls.
        self.asleep.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Whether a thread of this process runs or waits for a processor (proc_pid_stat(5)); not, where the system does not tell.
fn is_runnable(tid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/self/task/{tid}/stat")) else { return false };
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_thread_that_waits_is_told_from_one_that_runs() {
        assert!(is_runnable(gettid().as_raw()));
        let (tid, told) = (AtomicI32::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                tid.store(gettid().as_raw(), Ordering::Release);
                while !told.load(Ordering::Acquire) {
                    thread::park();
                }
            });
            while tid.load(Ordering::Acquire) == 0 || is_runnable(tid.load(Ordering::Acquire)) {
                thread::yield_now();
            }
            told.store(true, Ordering::Release);
            sleeper.thread().unpark();
        });
    }

    #[test]
    fn where_all_who_are_awake_are_stuck_another_is_woken() {
        let (crew, work, taken) = (Crew::new(3, 1), AtomicUsize::new(0), AtomicU64::new(0));
        let (released, waiting) = (Mutex::new(()), AtomicUsize::new(0));
        let guard = released.lock().unwrap();
        let take = || work.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        thread::scope(|scope| {
            for index in 0..3 {
                let (crew, work, taken, released, waiting, take) = (&crew, &work, &taken, &released, &waiting, &take);
                scope.spawn(move || {
                    crew.enlist(index);
                    loop {
                        if take() {
                            taken.fetch_add(1, Ordering::SeqCst);
                            // A slow call.
                            waiting.fetch_add(1, Ordering::SeqCst);
                            drop(released.lock().unwrap());
                        } else if crew.has_ended() {
                            return;
                        } else {
                            crew.sleep(index, || work.load(Ordering::SeqCst) > 0);
                        }
                    }
                });
            }
            while crew.asleep().len() < 3 {
                thread::yield_now();
            }
            let watch = scope.spawn(|| crew.watch(|| taken.load(Ordering::SeqCst)));
            work.store(3, Ordering::SeqCst);
            crew.wake_another();
            // Without the watch, the first to be stuck would be the last to be woken.
            while waiting.load(Ordering::SeqCst) < 3 {
                thread::yield_now();
            }
            drop(guard);
            crew.end(7);
            assert_eq!(watch.join().unwrap(), 7);
        });
        assert_eq!(crew.awake(), 3);
    }

    #[test]
    fn helpers_are_woken_for_more_than_a_handful_and_up_to_the_processors() {
        let crew = Crew::new(4, 3);
        let sleepers = || {
            let mut asleep = crew.asleep();
            *asleep = vec![0, 1, 2];
            crew.awake.store(1, Ordering::SeqCst);
        };
        for (queued, awake) in [(1, 1), (3, 1), (4, 2), (8, 3), (400, 3)] {
            sleepers();
            crew.help(queued);
            assert_eq!(crew.awake(), awake, "{queued} slots");
        }
    }
}
