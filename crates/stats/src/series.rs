//! An interval within one run, from its seconds: what follows one another is alike, so seconds are drawn again in blocks.
//!
//! The circular block bootstrap (Politis and Romano, "A circular block-resampling procedure for stationary data", 1992): blocks of the series,
//! closed to a circle, are drawn with replacement and the ratio of their sums is taken. A block is as long as the cube root of the number of
//! seconds, as is usual for a variance. Few blocks understate the spread and normal quantiles understate the tails: both are made good, by the
//! factor n / (n - block) and by Student's t with a degree of freedom less than there are blocks.

use crate::interval::Interval;
use crate::rng::Rng;

/// How often the seconds are drawn again.
const RESAMPLES: usize = 1000;
/// Fewer seconds give no interval.
pub const SECONDS_MIN: usize = 8;

/// The ratio of two sums over a series, `a` over `b` (answers over seconds, time over answers), with its interval on a logarithmic scale, at
/// [`LEVEL`](crate::LEVEL). `None` with fewer than [`SECONDS_MIN`] parts or a sum that is not above 0.
///
/// It covers what changes from second to second within this run. What changes from run to run (where memory lies, who shares the machine) is
/// not in one run, and not in the interval.
pub fn sums_interval(parts: &[(f64, f64)], seed: u64) -> Option<Interval> {
    let ratio = |sums: (f64, f64)| (sums.0 > 0.0 && sums.1 > 0.0).then(|| sums.0 / sums.1);
    let n = parts.len();
    if n < SECONDS_MIN {
        return None;
    }
    let estimate = ratio(parts.iter().fold((0.0, 0.0), add))?;
    let block = (n as f64).cbrt().round() as usize;
    let mut rng = Rng::new(seed);
    let drawn = (0..RESAMPLES).filter_map(|_| {
        let mut sums = (0.0, 0.0);
        for taken in (0..n).step_by(block) {
            let begin = rng.below(n);
            let length = block.min(n - taken);
            sums = (begin..begin + length).map(|at| &parts[at % n]).fold(sums, add);
        }
        ratio(sums).map(f64::ln)
    });
    let drawn: Vec<f64> = drawn.collect();
    let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
    let variance = drawn.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (drawn.len() as f64 - 1.0).max(1.0);
    let freedom = (n as f64 / block as f64 - 1.0).max(1.0);
    let spread = (variance * n as f64 / (n - block) as f64).sqrt() * student_t(freedom);
    Some(Interval { estimate, low: estimate * (-spread).exp(), high: estimate * spread.exp(), rounds: n })
}

/// How many times `new` is `base`, two independent figures above 0 with intervals of their own: the method of variance estimates recovery on
/// logarithms (Zou and Donner, "Construction of confidence limits about effect measures", Statistics in Medicine 27, 2008).
pub fn quotient(new: Interval, base: Interval) -> Interval {
    let span = |one: f64, other: f64| (one / other).ln();
    let below = span(new.estimate, new.low).hypot(span(base.high, base.estimate));
    let above = span(new.high, new.estimate).hypot(span(base.estimate, base.low));
    let estimate = new.estimate / base.estimate;
    Interval {
        estimate,
        low: estimate * (-below).exp(),
        high: estimate * above.exp(),
        rounds: new.rounds.min(base.rounds),
    }
}

fn add(sums: (f64, f64), part: &(f64, f64)) -> (f64, f64) {
    (sums.0 + part.0, sums.1 + part.1)
}

/// The 97.5 % point of Student's t: the expansion of Abramowitz and Stegun, 26.7.5, off by less than 1 % from 3 degrees of freedom on.
fn student_t(freedom: f64) -> f64 {
    const Z: f64 = 1.959_963_985;
    let power = |n: i32| Z.powi(n);
    Z + (power(3) + Z) / (4.0 * freedom)
        + (5.0 * power(5) + 16.0 * power(3) + 3.0 * Z) / (96.0 * freedom.powi(2))
        + (3.0 * power(7) + 19.0 * power(5) + 17.0 * power(3) - 15.0 * Z) / (384.0 * freedom.powi(3))
        + (79.0 * power(9) + 776.0 * power(7) + 1482.0 * power(5) - 1920.0 * power(3) - 945.0 * Z)
            / (92_160.0 * freedom.powi(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed tables.
    #[test]
    fn points_of_students_t() {
        for (freedom, expected) in
            [(3.0, 3.182), (4.0, 2.776), (7.0, 2.365), (10.0, 2.228), (30.0, 2.042), (1e9, 1.960)]
        {
            let got = student_t(freedom);
            assert!((got / expected - 1.0).abs() < 0.01, "{freedom}: {got}, {expected}");
        }
    }

    #[test]
    fn too_little_gives_no_interval() {
        assert_eq!(sums_interval(&[(1.0, 1.0); SECONDS_MIN - 1], 1), None);
        assert_eq!(sums_interval(&[(0.0, 1.0); 20], 1), None);
        assert_eq!(sums_interval(&[(1.0, 0.0); 20], 1), None);
        let steady = sums_interval(&[(500.0, 1.0); 20], 1).expect("an interval");
        assert!((steady.low - 500.0).abs() < 1e-9 && (steady.high - 500.0).abs() < 1e-9, "{steady:?}");
    }

    #[test]
    fn quotients_widen_by_both() {
        let figure =
            |estimate: f64, times: f64| Interval { estimate, low: estimate / times, high: estimate * times, rounds: 9 };
        let got = quotient(figure(200.0, 1.1), figure(100.0, 1.1));
        let expected = 1.1f64.powf(2f64.sqrt());
        assert!((got.estimate - 2.0).abs() < 1e-12);
        assert!((got.high / 2.0 - expected).abs() < 1e-9 && (2.0 / got.low - expected).abs() < 1e-9, "{got:?}");
    }

    /// Simulated runs with a known truth: the interval must hold it about as often as it claims, when seconds are independent and when each
    /// resembles the one before (autoregressive with 0.4). 400 runs give a standard error of about 1 percentage point.
    #[test]
    fn coverage_is_as_stated() {
        for (seconds, alike, least, most) in [
            (10, 0.0, 0.93, 1.0),
            (30, 0.0, 0.93, 0.99),
            (60, 0.0, 0.93, 0.99),
            (30, 0.4, 0.86, 0.98),
            (120, 0.4, 0.90, 0.98),
        ] {
            let mut rng = Rng::new(2026);
            let held = (0..400)
                .filter(|run| {
                    let mut state = 0.0;
                    let mut second = || {
                        // About normal, with variance 1.
                        let noise = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
                        state = alike * state + (1.0f64 - alike * alike).sqrt() * noise;
                        (1000.0 + 50.0 * state, 1.0)
                    };
                    // So that a series does not begin at its mean.
                    (0..20).for_each(|_| {
                        second();
                    });
                    let parts: Vec<(f64, f64)> = (0..seconds).map(|_| second()).collect();
                    let got = sums_interval(&parts, *run).expect("an interval");
                    got.low <= 1000.0 && 1000.0 <= got.high
                })
                .count();
            let coverage = held as f64 / 400.0;
            assert!((least..=most).contains(&coverage), "{seconds} seconds, {alike}: {coverage}");
        }
    }
}
