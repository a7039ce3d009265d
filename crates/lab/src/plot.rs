//! Plots as inline SVG: lines over the number of connections or requests, and bars.
//!
//! Drawn here rather than by a plotting library so that they obey the page: text and colours are CSS (dark mode, print),
//! the drawing is 400 units wide, which is a phone's width, and so stays legible there and only grows on a desk. A series
//! is told apart by colour (Okabe and Ito's palette, safe for colour-blind eyes), by dash and marker, and by its name at
//! the line's end.

use std::fmt::Write as _;

use manifold_stats::Interval;

use crate::target::{Family, Model};
use crate::text;

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 264.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 102.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 34.0;
/// The width of a digit under the horizontal axis.
const DIGIT: f64 = 6.3;
/// Between the names at the line ends.
const NAME_GAP: f64 = 12.0;

/// Who a line or bar stands for.
#[derive(Clone, Debug)]
pub struct Who {
    /// Its name.
    pub label: String,
    /// Decides the dash and the marker.
    pub family: Family,
    /// Decides the colour.
    pub model: Model,
}

impl Who {
    /// The CSS classes.
    pub fn classes(&self) -> String {
        let family = match self.family {
            Family::Manifold => "manifold",
            Family::Apache2 => "apache2",
            Family::Nginx => "nginx",
            Family::Peer => "peer",
        };
        format!("s m-{} f-{family}", self.model.name())
    }

    /// The name at a line's end: our models go by their own name alone.
    fn short(&self) -> &str {
        self.label.strip_prefix("manifold ").unwrap_or(&self.label)
    }

    /// A marker at a point.
    fn marker(&self, x: f64, y: f64) -> String {
        match self.family {
            Family::Manifold => format!("<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"),
            Family::Apache2 => format!("<circle class=\"ring\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.8\"/>"),
            Family::Nginx | Family::Peer => {
                format!("<rect class=\"dot\" x=\"{:.1}\" y=\"{:.1}\" width=\"5.4\" height=\"5.4\"/>", x - 2.7, y - 2.7)
            }
        }
    }

    /// A small picture of the line, for the legend.
    pub fn key(&self) -> String {
        format!(
            "<svg class=\"key {}\" viewBox=\"0 0 30 10\" aria-hidden=\"true\"><path class=\"line\" d=\"M1 5H29\"/>{}</svg>",
            self.classes(),
            self.marker(15.0, 5.0)
        )
    }
}

/// One line of a plot.
#[derive(Clone, Debug)]
pub struct Series {
    /// Whose.
    pub who: Who,
    /// Ascending.
    pub points: Vec<Point>,
}

/// One point of a line.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Number of connections or requests.
    pub x: u64,
    /// The figure there.
    pub interval: Interval,
    /// The truth may lie higher: drawn with a hat.
    pub lower_bound: bool,
}

/// What the vertical axis shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Axis {
    /// Linear from 0, thousands as k.
    Count,
    /// Logarithmic, microseconds.
    Micros,
    /// Logarithmic, MiB.
    Mib,
}

impl Axis {
    fn tick(self, value: f64) -> String {
        match self {
            Axis::Count if value >= 1000.0 => format!("{} k", plain(value / 1000.0)),
            Axis::Count | Axis::Mib => plain(value),
            Axis::Micros if value >= 1e6 => format!("{} s", plain(value / 1e6)),
            Axis::Micros if value >= 1000.0 => format!("{} ms", plain(value / 1000.0)),
            Axis::Micros => format!("{} µs", plain(value)),
        }
    }

    fn value(self, value: f64) -> String {
        match self {
            Axis::Count => text::number(value),
            Axis::Micros => text::micros(value),
            Axis::Mib => format!("{} MiB", text::number(value)),
        }
    }

    /// An interval as the tooltip shows it.
    fn interval(self, interval: &Interval) -> String {
        format!("{} [{} to {}]", self.value(interval.estimate), self.value(interval.low), self.value(interval.high))
    }
}

/// A plot against the number of `what` (connections, requests). `title` is for those who cannot see it.
pub fn lines(title: &str, axis: Axis, what: &str, series: &[Series]) -> String {
    let mut svg = open(title, HEIGHT);
    let scale = Scale::fit(axis, series);
    let xs = X::fit(series);
    for value in scale.ticks() {
        let y = scale.y(value);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/><text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 5.0,
            y + 3.5,
            axis.tick(value)
        );
    }
    let mut free_from = 0.0;
    for &value in &xs.values {
        let x = xs.x(value);
        let bottom = HEIGHT - BOTTOM;
        let tick = Axis::Count.tick(value as f64);
        let half = tick.chars().count() as f64 * DIGIT / 2.0;
        // A number that would run into the one before is left out; its mark is not.
        let tick = if x - half < free_from { String::new() } else { tick };
        if !tick.is_empty() {
            free_from = x + half + DIGIT;
        }
        let _ = write!(
            svg,
            "<path class=\"axis\" d=\"M{x:.1} {bottom}v4\"/><text class=\"tick middle\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 15.0,
            tick
        );
    }
    let _ = write!(
        svg,
        "<path class=\"axis\" d=\"M{LEFT} {0:.1}H{1:.1}\"/><text class=\"tick middle\" x=\"{2:.1}\" y=\"{3:.1}\">{what}</text>",
        HEIGHT - BOTTOM,
        WIDTH - RIGHT,
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 4.0
    );
    for (i, one) in series.iter().enumerate() {
        // A little apart, so that equal intervals do not hide each other.
        let dodge = (i as f64 - (series.len() as f64 - 1.0) / 2.0) * 0.9;
        draw_line(&mut svg, one, (axis, what), &scale, &xs, dodge);
    }
    draw_names(&mut svg, series, &scale, &xs);
    svg.push_str("</svg>");
    svg
}

fn draw_line(svg: &mut String, series: &Series, (axis, what): (Axis, &str), scale: &Scale, xs: &X, dodge: f64) {
    let at = |point: &Point| (xs.x(point.x) + dodge, scale.y(point.interval.estimate));
    let _ = write!(svg, "<g class=\"{}\">", series.who.classes());
    let path: Vec<String> = series.points.iter().map(at).map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let _ = write!(svg, "<path class=\"line\" d=\"M{}\"/>", path.join("L"));
    for point in &series.points {
        let (x, y) = at(point);
        let Point { x: number, interval, lower_bound } = point;
        let (at_least, hat) = if *lower_bound {
            ("at least ", format!("<path class=\"hat\" d=\"M{:.1} {:.1}l3.5 -4l3.5 4\"/>", x - 3.5, y - 5.5))
        } else {
            ("", String::new())
        };
        let _ = write!(
            svg,
            "<g><title>{}, {number} {what}: {at_least}{}</title><path class=\"bar\" d=\"M{x:.1} {:.1}V{:.1}\"/>{}{hat}\
             <circle class=\"touch\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"9\"/></g>",
            escaped(&series.who.label),
            axis.interval(interval),
            scale.y(interval.low),
            scale.y(interval.high),
            series.who.marker(x, y)
        );
    }
    svg.push_str("</g>");
}

/// The names at the line ends, pushed apart, each tied to its line.
fn draw_names(svg: &mut String, series: &[Series], scale: &Scale, xs: &X) {
    let mut ends: Vec<(f64, f64, &Who)> = series
        .iter()
        .filter_map(|s| s.points.last().map(|p| (xs.x(p.x), scale.y(p.interval.estimate), &s.who)))
        .collect();
    ends.sort_by(|a, b| a.1.total_cmp(&b.1));
    let wanted: Vec<f64> = ends.iter().map(|end| end.1).collect();
    for ((x, y, who), name_y) in ends.iter().zip(spread(&wanted, NAME_GAP, TOP + 2.0, HEIGHT - BOTTOM)) {
        let tie = WIDTH - RIGHT + 9.0;
        let _ = write!(
            svg,
            "<g class=\"{}\"><path class=\"tie\" d=\"M{:.1} {y:.1}L{:.1} {name_y:.1}\"/>\
             <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            who.classes(),
            x + 5.0,
            tie,
            tie + 2.0,
            name_y + 3.5,
            escaped(who.short())
        );
    }
}

/// Positions at least `gap` apart, in the same order, within bounds, and as near to the wanted ones as a sweep down and
/// one up can get them.
fn spread(wanted: &[f64], gap: f64, least: f64, most: f64) -> Vec<f64> {
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

/// Horizontal bars from 0, in the order given.
pub fn bars(title: &str, axis: Axis, rows: &[(Who, Interval)]) -> String {
    const ROW: f64 = 25.0;
    const NAMES: f64 = 108.0;
    const VALUES: f64 = 56.0;
    let height = ROW * rows.len() as f64 + 4.0;
    let most = rows.iter().map(|(_, i)| i.high).fold(f64::MIN_POSITIVE, f64::max);
    let x = |value: f64| NAMES + (WIDTH - NAMES - VALUES) * value / most;
    let mut svg = open(title, height);
    for (i, (who, interval)) in rows.iter().enumerate() {
        let top = ROW * i as f64 + 4.0;
        let middle = top + (ROW - 6.0) / 2.0;
        let _ = write!(
            svg,
            "<g class=\"{}\"><title>{}: {}</title><text class=\"label end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <rect class=\"block\" x=\"{NAMES}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"/>\
             <path class=\"halo\" d=\"M{low:.1} {middle:.1}H{high:.1}\"/>\
             <path class=\"whisker\" d=\"M{low:.1} {middle:.1}H{high:.1}\"/>\
             <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            who.classes(),
            escaped(&who.label),
            axis.interval(interval),
            NAMES - 6.0,
            middle + 4.0,
            escaped(who.short()),
            (x(interval.estimate) - NAMES).max(1.0),
            ROW - 6.0,
            x(interval.estimate.max(interval.high)) + 5.0,
            middle + 4.0,
            axis.value(interval.estimate),
            low = x(interval.low),
            high = x(interval.high),
        );
    }
    svg.push_str("</svg>");
    svg
}

fn open(title: &str, height: f64) -> String {
    format!("<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">", escaped(title))
}

/// The horizontal axis, by the numbers that were measured: linear where their steps are equal, otherwise logarithmic.
struct X {
    values: Vec<u64>,
    linear: bool,
}

impl X {
    fn fit(series: &[Series]) -> X {
        let mut values: Vec<u64> = series.iter().flat_map(|s| s.points.iter().map(|p| p.x)).collect();
        values.sort_unstable();
        values.dedup();
        let mut steps: Vec<u64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
        steps.dedup();
        X { linear: values.len() > 2 && steps.len() == 1, values }
    }

    fn x(&self, value: u64) -> f64 {
        let (left, right) = (LEFT + 12.0, WIDTH - RIGHT - 8.0);
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
struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    fn fit(axis: Axis, series: &[Series]) -> Scale {
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

    fn y(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        let bottom = HEIGHT - BOTTOM;
        bottom - share.clamp(0.0, 1.0) * (bottom - TOP)
    }

    fn ticks(&self) -> Vec<f64> {
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

/// Without a needless fraction.
fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// For text and attributes in SVG.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(label: &str) -> Who {
        Who { label: label.to_owned(), family: Family::Apache2, model: Model::Event }
    }

    fn point(x: u64, estimate: f64) -> Point {
        Point { x, interval: interval(estimate), lower_bound: false }
    }

    fn interval(estimate: f64) -> Interval {
        Interval { estimate, low: estimate * 0.9, high: estimate * 1.1, rounds: 5 }
    }

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
    fn ticks_are_short() {
        for (axis, value, expected) in [
            (Axis::Count, 150_000.0, "150 k"),
            (Axis::Count, 0.0, "0"),
            (Axis::Micros, 5.0, "5 µs"),
            (Axis::Micros, 2000.0, "2 ms"),
            (Axis::Micros, 1e6, "1 s"),
            (Axis::Mib, 0.5, "0.5"),
        ] {
            assert_eq!(axis.tick(value), expected);
        }
    }

    #[test]
    fn a_sweep_of_equal_steps_is_linear_and_its_numbers_do_not_overlap() {
        for (values, linear) in [(&[10, 100, 1000][..], false), (&[100, 200, 300], true), (&[1, 2], false)] {
            let points = values.iter().map(|&x| point(x, 1.0)).collect();
            assert_eq!(X::fit(&[Series { who: who("x"), points }]).linear, linear, "{values:?}");
        }
        let points = (1..=10).map(|i| point(i * 10_000, 1.0)).collect();
        let svg = lines("x", Axis::Count, "requests", &[Series { who: who("x"), points }]);
        let numbers = |text: &str| svg.contains(&format!(">{text}</text>"));
        assert!(numbers("10 k") && !numbers("20 k") && numbers("30 k") && svg.contains(">requests</text>"), "{svg}");
    }

    #[test]
    fn names_do_not_overlap_and_stay_inside() {
        for wanted in [vec![10.0, 11.0, 12.0, 13.0], vec![200.0, 201.0, 229.0, 230.0], vec![10.0, 100.0, 101.0, 230.0]]
        {
            let got = spread(&wanted, 11.0, 10.0, 230.0);
            assert!(got.windows(2).all(|w| w[1] - w[0] >= 10.999), "{got:?}");
            assert!(got.iter().all(|y| (10.0..=230.0).contains(y)), "{got:?}");
        }
    }

    #[test]
    fn a_plot_draws_each_point_and_escapes_names() {
        let series =
            Series { who: who("a<b>"), points: vec![point(10, 5.0), Point { lower_bound: true, ..point(1000, 50.0) }] };
        let svg = lines("CPU \"a request\"", Axis::Micros, "connections", std::slice::from_ref(&series));
        assert_eq!((svg.matches("<title>").count(), svg.matches("class=\"hat\"").count()), (2, 1));
        assert!(svg.contains("a&lt;b&gt;, 1000 connections: at least 50.0 µs [45.0 µs to 55.0 µs]"), "{svg}");
        assert!(svg.contains("aria-label=\"CPU &quot;a request&quot;\"") && !svg.contains("NaN"));
        let bars = bars("CPU", Axis::Micros, &[(who("a<b>"), interval(5.0))]);
        assert!(bars.contains("a&lt;b&gt;: 5.0 µs") && !bars.contains("NaN"));
        let one = lines("x", Axis::Count, "requests", &[Series { points: vec![point(10, 5.0)], ..series }]);
        assert!(!one.contains("NaN"), "{one}");
        assert!(!lines("empty", Axis::Mib, "connections", &[]).contains("NaN"));
    }
}
