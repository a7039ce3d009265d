//! What a simulated day is made of: chance, the things that may happen, and what becomes of clients.

use std::time::Duration;

use crate::limits::Limits;

/// Chance: splitmix64.
#[derive(Debug)]
pub struct Chance(pub u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number of `range`.
    pub fn pick(&mut self, range: std::ops::Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// Whether something happens that does so `per_mille` times in a thousand.
    pub fn happens(&mut self, per_mille: u64) -> bool {
        self.pick(0..1000) < per_mille
    }

    pub fn millis(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.pick(range))
    }

    /// Exponentially distributed around `mean`.
    pub fn around(&mut self, mean: Duration) -> Duration {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        mean.mul_f64(-(1.0 - unit).ln())
    }
}

/// How the children of a generation fare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// They serve; now and then one does not.
    Good,
    /// Starting takes seconds.
    Slow,
    /// All of them end with this status as they start.
    Ends(u8),
    /// None ever comes up.
    Hangs,
}

/// What the next reload finds.
#[derive(Debug)]
pub enum Configuration {
    /// Limits, and how their children fare.
    Valid(Box<Limits>, Nature),
    /// An error in the text.
    Broken,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A client comes, and the next one after it.
    Client,
    /// The client of a worker is done.
    Done {
        pid: i32,
        worker: usize,
        client: u64,
    },
    /// A child has started.
    Up(i32),
    /// A child ends by itself.
    Ends(i32, u8),
    /// Some child is struck by a signal.
    Strike(i32),
    /// From now on forks fail, or work again.
    ForksFail(bool),
    /// Clients from now on: one in so many microseconds (0 is none), how long they stay on average in milliseconds, how
    /// many in a thousand are stuck.
    Load {
        every_us: u64,
        stay_ms: u64,
        stuck: u64,
    },
    Ask(Ask),
    /// The successor has come so far, or ended.
    Successor(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ask {
    Stop,
    GracefulStop,
    Restart,
    Graceful,
    Upgrade,
}

/// What became of clients. Every one is in exactly one of these, or still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub came: u64,
    pub served: u64,
    /// The accept queue was full.
    pub backlog: u64,
    /// The server was told to end, and listened no more.
    pub closed: u64,
    /// With the child that served them, which died of a fault.
    pub died: u64,
    /// By the parent: TERM or KILL after a restart, a stop, or too long a drain.
    pub cut: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.came += other.came;
        self.served += other.served;
        self.backlog += other.backlog;
        self.closed += other.closed;
        self.died += other.died;
        self.cut += other.cut;
    }

    pub fn accounted(&self) -> u64 {
        self.served + self.backlog + self.closed + self.died + self.cut
    }
}
