//! When requests begin: a pure function of what was asked, a seed, and time. No clock is read here.
//!
//! An open loop's rate is a line of [`Stage`]s. Arrivals are counted in *units*: the integral of the rate over time, one unit a request.
//! The n-th constant arrival is at unit n, a Poisson process has exponential gaps between its units, and time is the inverse of the
//! integral, so that both follow any ramp exactly. Threads share a schedule without talking: of constant arrivals each takes every n-th,
//! and independent Poisson processes add up to one.

use std::sync::Arc;
use std::time::Duration;

use manifold_stats::Rng;

const NANOSECONDS: f64 = 1e9;

/// How a stage's requests are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    #[default]
    Constant,
    /// Each independent of the others, as those of many independent users are.
    Poisson,
}

/// A piece of an open loop's rate: a constant, or a line from one rate to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Requests a second at its beginning.
    pub from: f64,
    /// Requests a second at its end.
    pub to: f64,
    /// How long it takes; `None`, of the last one only: without end.
    pub length: Option<Duration>,
}

/// What begins requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Pace {
    /// The end of the one before, and the time a user thinks.
    Closed(Think),
    /// A schedule, whatever becomes of the requests before.
    Open {
        /// One after the other; the first begins with the run.
        stages: Vec<Stage>,
        /// Within a stage.
        arrivals: Arrivals,
    },
    /// A schedule that names each request: an open loop as well.
    Listed(Arc<[Arrival]>),
}

impl Pace {
    /// Whether requests begin whatever becomes of those before.
    pub fn is_open(&self) -> bool {
        !matches!(self, Pace::Closed(_))
    }
}

/// One request of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Nanoseconds since the beginning.
    pub at: u64,
    /// Its place in [`Plan::requests`](crate::plan::Plan::requests).
    pub request: u32,
}

/// Pause of a connection between an answer and its next request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Think {
    /// None.
    #[default]
    Never,
    /// Each length between the two is as likely as the other.
    Uniform(Duration, Duration),
    /// Exponential with this mean.
    Exponential(Duration),
}

impl Think {
    /// The next pause in nanoseconds.
    pub fn next(self, rng: &mut Rng) -> u64 {
        let nanoseconds = |duration: Duration| duration.as_secs_f64() * NANOSECONDS;
        match self {
            Think::Never => 0,
            Think::Uniform(from, to) => {
                let (from, to) = (nanoseconds(from), nanoseconds(to));
                (from + (to - from) * rng.unit()) as u64
            }
            Think::Exponential(mean) => (exponential(rng) * nanoseconds(mean)) as u64,
        }
    }
}

/// An exponentially distributed number with mean 1.
pub fn exponential(rng: &mut Rng) -> f64 {
    // 1 - u lies in (0, 1], so that the logarithm is finite.
    -(1.0 - rng.unit()).ln()
}

/// A stage with what came before it.
#[derive(Clone, Copy, Debug)]
struct Segment {
    from: f64,
    /// Change of the rate in a second.
    slope: f64,
    /// Seconds since the beginning.
    begins: f64,
    /// Units before it, and in it.
    before: f64,
    units: f64,
}

/// One thread's arrivals, in order: nanoseconds since the beginning.
#[derive(Clone, Debug)]
pub struct Schedule {
    segments: Vec<Segment>,
    /// The segment of the last arrival.
    at: usize,
    arrivals: Arrivals,
    /// The unit of the next arrival.
    next: f64,
    threads: f64,
    rng: Rng,
}

impl Schedule {
    /// The share of thread `thread` of `threads`. Rates that are not positive numbers give no arrivals.
    pub fn new(stages: &[Stage], arrivals: Arrivals, thread: u32, threads: u32, seed: u64) -> Schedule {
        let (mut begins, mut before) = (0.0, 0.0);
        let mut segments = Vec::with_capacity(stages.len());
        for stage in stages {
            let length = stage.length.map_or(f64::INFINITY, |length| length.as_secs_f64());
            let slope = if length.is_finite() && length > 0.0 { (stage.to - stage.from) / length } else { 0.0 };
            let mean = if length.is_finite() { f64::midpoint(stage.from, stage.to) } else { stage.from };
            let units = if mean > 0.0 { mean * length } else { 0.0 };
            segments.push(Segment { from: stage.from, slope, begins, before, units });
            begins += length;
            before += units;
        }
        // Each thread has a sequence of its own, far from the others'.
        let mut rng = Rng::new(seed ^ (u64::from(thread) + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93));
        let threads = f64::from(threads.max(1));
        let next = match arrivals {
            Arrivals::Constant => f64::from(thread),
            Arrivals::Poisson => exponential(&mut rng) * threads,
        };
        Schedule { segments, at: 0, arrivals, next, threads, rng }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        while self.segments.get(self.at)?.ended_before(self.next) {
            self.at += 1;
        }
        let seconds = self.segments[self.at].time_of(self.next);
        self.next += match self.arrivals {
            Arrivals::Constant => self.threads,
            Arrivals::Poisson => exponential(&mut self.rng) * self.threads,
        };
        Some((seconds * NANOSECONDS).round() as u64)
    }
}

impl Segment {
    fn ended_before(&self, unit: f64) -> bool {
        unit >= self.before + self.units
    }

    /// When the integral of the rate reaches `unit`: the root of `from t + slope t²/2 = unit`, in the form that loses no digits.
    fn time_of(&self, unit: f64) -> f64 {
        let unit = unit - self.before;
        if unit == 0.0 {
            return self.begins;
        }
        let root = (self.from * self.from + 2.0 * self.slope * unit).max(0.0).sqrt();
        self.begins + 2.0 * unit / (self.from + root)
    }
}

/// What is due next for one thread of an open loop: when, and which request if that is said.
#[derive(Clone, Debug)]
pub enum Coming {
    /// By a rate.
    Staged(Schedule),
    /// Every so many of a list, from one place on.
    Listed {
        /// In order of time.
        list: Arc<[Arrival]>,
        /// The next one's place.
        place: usize,
        /// Threads that share the list.
        threads: usize,
    },
}

impl Iterator for Coming {
    type Item = (u64, Option<u32>);

    fn next(&mut self) -> Option<(u64, Option<u32>)> {
        match self {
            Coming::Staged(schedule) => schedule.next().map(|at| (at, None)),
            Coming::Listed { list, place, threads } => {
                let Arrival { at, request } = *list.get(*place)?;
                *place += *threads;
                Some((at, Some(request)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(from: f64, to: f64, seconds: u64) -> Stage {
        Stage { from, to, length: (seconds > 0).then(|| Duration::from_secs(seconds)) }
    }

    /// The arrivals of all threads together, in order.
    fn together(stages: &[Stage], arrivals: Arrivals, threads: u32, until: u64) -> Vec<u64> {
        let share = |thread| Schedule::new(stages, arrivals, thread, threads, 7).take_while(|at| *at < until);
        let mut all: Vec<u64> = (0..threads).flat_map(share).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn constant_arrivals_are_at_equal_distances_whoever_sends_them() {
        for threads in [1, 2, 3, 7] {
            let got = together(&[stage(1000.0, 1000.0, 0)], Arrivals::Constant, threads, 1_000_000_000);
            let expected: Vec<u64> = (0..1000).map(|n| n * 1_000_000).collect();
            assert_eq!(got, expected, "{threads} threads");
        }
    }

    #[test]
    fn stages_follow_one_another_and_hold_the_area_below_the_line() {
        // Steps: 100 in the first two seconds, then 10 in one, then a spike of 1000.
        let steps = [stage(50.0, 50.0, 2), stage(10.0, 10.0, 1), stage(1000.0, 1000.0, 1)];
        for threads in [1, 4] {
            let got = together(&steps, Arrivals::Constant, threads, u64::MAX);
            let within = |from: u64, to: u64| got.iter().filter(|at| (from..to).contains(&(**at / 1_000_000))).count();
            assert_eq!((within(0, 2000), within(2000, 3000), within(3000, 4000)), (100, 10, 1000));
            assert_eq!(got.len(), 1110, "and then it ends");
        }
        // A ramp from 0 to 200 in 10 seconds: 1000 in all, a quarter of them in the first half; then back.
        let ramp = [stage(0.0, 200.0, 10), stage(200.0, 0.0, 10)];
        let got = together(&ramp, Arrivals::Constant, 2, u64::MAX);
        let before = |ms: u64| got.iter().filter(|at| **at < ms * 1_000_000).count();
        assert_eq!((before(5000), before(10_000), before(15_000), got.len()), (250, 1000, 1750, 2000));
        assert!(got.is_sorted());
        // The n-th of a ramp from 0 comes at the square root.
        assert_eq!(got[250], 5_000_000_000);
    }

    #[test]
    fn a_stage_without_load_is_a_pause() {
        let got = together(&[stage(0.0, 0.0, 5), stage(2.0, 2.0, 1)], Arrivals::Constant, 1, u64::MAX);
        assert_eq!(got, [5_000_000_000, 5_500_000_000]);
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread_of_their_kind() {
        for threads in [1, 3] {
            let got = together(&[stage(1000.0, 1000.0, 0)], Arrivals::Poisson, threads, 100_000_000_000);
            // 100,000 expected with a standard deviation of 316.
            assert!((98_500..101_500).contains(&got.len()), "{threads} threads: {}", got.len());
            let gaps: Vec<f64> = got.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
            assert!((deviation / mean - 1.0).abs() < 0.02, "{threads} threads: {}", deviation / mean);
            let short = gaps.iter().filter(|gap| **gap < mean * 0.1).count() as f64 / gaps.len() as f64;
            assert!((short - (1.0 - (-0.1f64).exp())).abs() < 0.005, "{threads} threads: {short}");
        }
        let again = |seed| Schedule::new(&[stage(9.0, 9.0, 3)], Arrivals::Poisson, 0, 1, seed).collect::<Vec<_>>();
        assert_eq!(again(1), again(1));
        assert_ne!(again(1), again(2));
    }

    #[test]
    fn pauses_have_their_mean_and_their_bounds() {
        let check = |think: Think, mean: f64, range: std::ops::RangeInclusive<u64>| {
            let mut rng = Rng::new(3);
            let pauses: Vec<u64> = (0..20_000).map(|_| think.next(&mut rng)).collect();
            let got = pauses.iter().sum::<u64>() as f64 / pauses.len() as f64;
            assert!((got - mean).abs() <= mean * 0.02, "{think:?}: {got}");
            assert!(pauses.iter().all(|pause| range.contains(pause)), "{think:?}");
        };
        let ms = Duration::from_millis;
        check(Think::Never, 0.0, 0..=0);
        check(Think::Uniform(ms(5), ms(5)), 5e6, 5_000_000..=5_000_000);
        check(Think::Uniform(ms(1), ms(3)), 2e6, 1_000_000..=3_000_000);
        check(Think::Exponential(ms(2)), 2e6, 0..=u64::MAX);
    }
}
