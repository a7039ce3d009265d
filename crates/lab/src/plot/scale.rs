//! From values to places on a drawing, and the numbers that stand beside its axes.

use super::{Axis, Series};

/// The width of the drawing, which is a phone's.
pub const WIDTH: f64 = 400.0;
/// The height of a plot of lines.
pub const HEIGHT: f64 = 264.0;
/// Left of the lines: numbers of the vertical axis.
pub const LEFT: f64 = 46.0;
/// Above the lines.
pub const TOP: f64 = 10.0;
/// Below the lines: numbers of the horizontal axis.
pub const BOTTOM: f64 = 34.0;
/// Between the vertical axis and the first point, and between the last point and the names.
pub const INSET: (f64, f64) = (12.0, 8.0);

/// The horizontal axis, by the numbers that were measured: linear where their steps are equal, otherwise logarithmic.
pub struct X {
    /// What was measured, ascending.
    pub values: Vec<u64>,
    /// Otherwise logarithmic.
    pub linear: bool,
    /// Where the lines' part of the drawing ends and their names begin.
    pub right: f64,
}

impl X {
    /// The axis that holds all points, up to `right` on the drawing.
    pub fn fit(series: &[Series], right: f64) -> X {
        let mut values: Vec<u64> = series.iter().flat_map(|s| s.points.iter().map(|p| p.x)).collect();
        values.sort_unstable();
        values.dedup();
        let mut steps: Vec<u64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
        steps.dedup();
        X { linear: values.len() > 2 && steps.len() == 1, values, right }
    }

    /// Where a value lies.
    pub fn x(&self, value: u64) -> f64 {
        let (left, right) = (LEFT + INSET.0, self.right - INSET.1);
        match (self.values.first(), self.values.last()) {
            (Some(&first), Some(&last)) if first < last => {
                let (value, first, last) = (value as f64, first as f64, last as f64);
                let share = if self.linear {
                    (value - first) / (last - first)
                } else {
                    (value / first).ln() / (last / first).ln()
                };
                left + (right - left) * share
            }
            _ => (left + right) / 2.0,
        }
    }
}

/// The vertical axis.
pub struct Scale {
    /// The value at the bottom.
    pub low: f64,
    /// The value at the top.
    pub high: f64,
    /// Otherwise linear.
    pub logarithmic: bool,
}

impl Scale {
    /// The axis that holds all intervals and ends on ticks.
    pub fn fit(axis: Axis, series: &[Series]) -> Scale {
        let intervals = || series.iter().flat_map(|s| s.points.iter().map(|p| p.interval));
        let most = intervals().map(|i| i.high).fold(f64::MIN_POSITIVE, f64::max);
        if axis == Axis::Count {
            let step = step(most);
            return Scale { low: 0.0, high: (most / step).ceil() * step, logarithmic: false };
        }
        let least = intervals().map(|i| i.low).filter(|&low| low > 0.0).fold(most, f64::min);
        // To the next 1, 2 or 5 outside, so that the ends are ticks.
        let low = one_two_five(least).0;
        let high = one_two_five(most).1;
        Scale { low, high: if high > low { high } else { low * 10.0 }, logarithmic: true }
    }

    /// Where a value lies.
    pub fn y(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        let bottom = HEIGHT - BOTTOM;
        bottom - share.clamp(0.0, 1.0) * (bottom - TOP)
    }

    /// The numbers beside it.
    pub fn ticks(&self) -> Vec<f64> {
        if !self.logarithmic {
            let step = step(self.high);
            return (0..=(self.high / step).round() as u32).map(|i| f64::from(i) * step).collect();
        }
        // 1, 2 and 5 of each power of ten; only the powers where that would be many.
        let few = (self.high / self.low).log10() <= 2.2;
        let mut ticks = Vec::new();
        let mut power = 10f64.powi(self.low.log10().floor() as i32);
        while power <= self.high * 1.0001 {
            for digit in [1.0, 2.0, 5.0] {
                let value = power * digit;
                if (few || digit == 1.0) && value >= self.low * 0.9999 && value <= self.high * 1.0001 {
                    ticks.push(value);
                }
            }
            power *= 10.0;
        }
        ticks
    }
}

/// A step of 1, 2 or 5 times a power of ten that divides 0 to `most` into four to ten parts.
fn step(most: f64) -> f64 {
    let power = 10f64.powi((most / 4.0).log10().floor() as i32);
    [5.0, 2.0, 1.0].into_iter().map(|digit| digit * power).find(|&step| most / step >= 3.0).unwrap_or(power)
}

/// The nearest 1, 2 or 5 times a power of ten not above, and not below, a value.
fn one_two_five(value: f64) -> (f64, f64) {
    let power = 10f64.powi(value.log10().floor() as i32);
    let digits = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    let below = digits.into_iter().rev().find(|&d| d <= value * 1.0001).unwrap_or(power);
    let above = digits.into_iter().find(|&d| d >= value * 0.9999).unwrap_or(10.0 * power);
    (below, above)
}

/// Positions at least `gap` apart, in the same order, within bounds, and as near to the wanted ones as a sweep down and
/// one up can get them. Where there is not room for all at that distance, they are evenly apart.
pub fn spread(wanted: &[f64], gap: f64, least: f64, most: f64) -> Vec<f64> {
    let gap = gap.min((most - least) / (wanted.len().max(2) - 1) as f64);
    let mut at = wanted.to_vec();
    let mut floor = least;
    for y in &mut at {
        *y = y.max(floor);
        floor = *y + gap;
    }
    let mut ceiling = most;
    for y in at.iter_mut().rev() {
        *y = y.min(ceiling);
        ceiling = *y - gap;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::super::tests::{point, who};
    use super::*;

    #[test]
    fn axes_end_on_ticks_and_hold_all_values() {
        for (axis, values, ticks) in [
            (Axis::Count, &[10.0, 40_000.0, 170_000.0][..], &[0.0, 50_000.0, 100_000.0, 150_000.0, 200_000.0][..]),
            (Axis::Micros, &[3.0, 60.0], &[2.0, 5.0, 10.0, 20.0, 50.0, 100.0]),
            (Axis::Micros, &[150.0, 900_000.0], &[100.0, 1000.0, 10_000.0, 100_000.0, 1_000_000.0]),
            (Axis::Mib, &[5.0], &[2.0, 5.0, 10.0]),
        ] {
            let points = values.iter().map(|&v| point(10, v)).collect();
            let scale = Scale::fit(axis, &[Series { who: who("x"), points }]);
            let got = scale.ticks();
            assert_eq!(got.len(), ticks.len(), "{axis:?} {values:?}: {got:?}");
            assert!(got.iter().zip(ticks).all(|(a, b)| (a - b).abs() < b.abs() * 1e-6 + 1e-9), "{got:?}");
            for &v in values {
                assert!((TOP..=HEIGHT - BOTTOM).contains(&scale.y(v)));
            }
        }
    }

    #[test]
    fn a_sweep_of_equal_steps_is_linear() {
        for (values, linear) in [(&[10, 100, 1000][..], false), (&[100, 200, 300], true), (&[1, 2], false)] {
            let points = values.iter().map(|&x| point(x, 1.0)).collect();
            assert_eq!(X::fit(&[Series { who: who("x"), points }], 300.0).linear, linear, "{values:?}");
        }
    }

    #[test]
    fn names_do_not_overlap_and_stay_inside() {
        for wanted in [vec![10.0, 11.0, 12.0, 13.0], vec![200.0, 201.0, 229.0, 230.0], vec![10.0, 100.0, 101.0, 230.0]]
        {
            let got = spread(&wanted, 11.0, 10.0, 230.0);
            assert!(got.windows(2).all(|w| w[1] - w[0] >= 10.999), "{got:?}");
            assert!(got.iter().all(|y| (10.0..=230.0).contains(y)), "{got:?}");
        }
        let many = spread(&[100.0; 45], 11.0, 10.0, 230.0);
        assert!(many[0] >= 9.999 && many[44] <= 230.001 && many.windows(2).all(|w| w[1] - w[0] >= 4.999), "{many:?}");
    }
}
