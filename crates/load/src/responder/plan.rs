//! When a request is answered, and how wrongly: a pure function of a plan, a seed, and the time at which the request came.

use std::time::Duration;

use manifold_stats::Rng;

use crate::latencies::Latencies;

/// What the target does besides answering at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Time between a request and its answer.
    pub delay: Duration,
    /// Up to this much is added, each length as likely as the other.
    pub jitter: Duration,
    /// Requests are worked on one after the other, each for so long, in the order in which they come: a queue with a known capacity. The
    /// delay comes after that.
    pub work: Duration,
    /// This part of the requests takes this long instead of `delay`.
    pub slow: Option<(f64, Duration)>,
    /// Nothing is answered in the last so much of each so much, counted from the target's start.
    pub stall: Option<(Duration, Duration)>,
    /// Parts of the requests that are answered wrongly; together at most 1.
    pub faults: Vec<(f64, Fault)>,
    /// Decides every choice.
    pub seed: u64,
}

/// A wrong answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A whole answer with this status.
    Status(u16),
    /// The connection is reset.
    Reset,
    /// The connection is closed without an answer.
    Close,
    /// The answer stops in the middle of its body, and the connection is closed.
    Short,
    /// There is never an answer.
    Silent,
    /// A whole answer whose body is one byte longer.
    Length,
    /// A whole answer whose body has another byte at its beginning.
    Content,
}

impl Fault {
    /// As it is written: a status or a word.
    pub fn parse(word: &str) -> Option<Fault> {
        Some(match word {
            "reset" => Fault::Reset,
            "close" => Fault::Close,
            "short" => Fault::Short,
            "silent" => Fault::Silent,
            "length" => Fault::Length,
            "content" => Fault::Content,
            status => Fault::Status(status.parse().ok().filter(|status| (200..600).contains(status))?),
        })
    }
}

impl Plan {
    /// Whether there is anything to it.
    pub fn is_plain(&self) -> bool {
        *self == Plan { seed: self.seed, ..Plan::default() }
    }

    /// When a request that came at `now`, in nanoseconds since the target's start, is to be answered, and how wrongly. `free_at` is when the
    /// work on those before it ends; 0 at first.
    pub fn next(&self, now: u64, free_at: &mut u64, rng: &mut Rng) -> (u64, Option<Fault>) {
        let mut delay = match self.slow {
            Some((share, slow)) if rng.unit() < share => slow,
            _ => self.delay,
        };
        if !self.jitter.is_zero() {
            delay += self.jitter.mul_f64(rng.unit());
        }
        *free_at = now.max(*free_at).saturating_add(nanoseconds(self.work));
        let mut due = free_at.saturating_add(nanoseconds(delay));
        if let Some((length, period)) = self.stall {
            let (length, period) = (nanoseconds(length), nanoseconds(period));
            let within = due % period;
            if within >= period - length {
                due += period - within;
            }
        }
        let mut left = if self.faults.is_empty() { 1.0 } else { rng.unit() };
        let fault = self.faults.iter().find(|(share, _)| {
            left -= share;
            left < 0.0
        });
        (due, fault.map(|(_, fault)| *fault))
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What the target did, to hold a generator's figures against.
#[derive(Debug, Default)]
pub struct Truth {
    /// From when requests came to when they were to be answered.
    pub intended: Latencies,
    /// From then to when the target began to send.
    pub late: Latencies,
    /// Both together: from when requests came to when the target began to answer.
    pub took: Latencies,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The response times of requests each `every` nanoseconds over `seconds`.
    fn responses(plan: &Plan, every: u64, seconds: u64) -> Latencies {
        let mut rng = Rng::new(plan.seed);
        let mut latencies = Latencies::default();
        let mut free_at = 0;
        for at in (0..seconds * 1000 * MS).step_by(every as usize) {
            latencies.record(plan.next(at, &mut free_at, &mut rng).0 - at);
        }
        latencies
    }

    #[test]
    fn response_times_have_the_distribution_that_follows_from_the_plan() {
        let ms = Duration::from_millis;
        // The quantile function of each, in milliseconds.
        let check = |plan: Plan, truth: &dyn Fn(f64) -> f64| {
            let got = responses(&plan, MS / 10, 20);
            for quantile in [0.1, 0.25, 0.5, 0.75, 0.85, 0.95, 0.99, 0.999] {
                let (got, truth) = (got.histogram.value_at_quantile(quantile) as f64 / 1000.0, truth(quantile));
                assert!((got - truth).abs() <= (truth * 0.02).max(0.02), "{plan:?} {quantile}: {got} {truth}");
            }
        };
        let fixed = Plan { delay: ms(5), ..Plan::default() };
        check(fixed.clone(), &|_| 5.0);
        check(Plan { jitter: ms(10), ..fixed.clone() }, &|q| 5.0 + 10.0 * q);
        check(Plan { slow: Some((0.1, ms(50))), ..fixed.clone() }, &|q| if q <= 0.9 { 5.0 } else { 50.0 });
        // A stall of a second in each ten: a tenth of the requests wait for its end, evenly.
        let stall = Some((ms(1000), ms(10_000)));
        check(Plan { stall, ..fixed.clone() }, &|q| if q <= 0.9 { 5.0 } else { 5.0 + 1000.0 * (q - 0.9) / 0.1 });
        // Ten thousand a second come: below the capacity nobody waits, at 0.8 of it the queue grows by a fifth of all time.
        let work = |us| Plan { work: Duration::from_micros(us), ..fixed.clone() };
        check(work(100), &|_| 5.1);
        check(work(125), &|q| 5.125 + 5000.0 * q);
    }

    #[test]
    fn faults_come_as_often_as_they_should() {
        let plan = Plan { faults: vec![(0.1, Fault::Reset), (0.25, Fault::Status(503))], ..Plan::default() };
        let mut rng = Rng::new(1);
        let mut count = [0; 3];
        for _ in 0..100_000 {
            let place = match plan.next(0, &mut 0, &mut rng).1 {
                Some(Fault::Reset) => 0,
                Some(Fault::Status(503)) => 1,
                None => 2,
                other => panic!("{other:?}"),
            };
            count[place] += 1;
        }
        for (count, share) in count.iter().zip([0.1, 0.25, 0.65]) {
            assert!((f64::from(*count) / 100_000.0 - share).abs() < 0.01, "{count} {share}");
        }
    }

    #[test]
    fn a_plan_without_anything_is_plain() {
        assert!(Plan { seed: 5, ..Plan::default() }.is_plain());
        assert!(!Plan { faults: vec![(0.5, Fault::Close)], ..Plan::default() }.is_plain());
    }
}
