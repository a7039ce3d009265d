//! Plots: what they show ([`Plot`]), apart from how they are drawn on a page ([`svg`]) and written into files ([`files`]).
//!
//! Drawn here rather than by a plotting library so that they obey the page: text and colours are CSS (dark mode, print),
//! the drawing is 400 units wide, which is a phone's width, and so stays legible there and only grows on a desk. A series
//! is told apart by colour (Okabe and Ito's palette, safe for colour-blind eyes), by dash and marker, and by its name at
//! the line's end.

pub mod files;
mod scale;
pub mod svg;

use manifold_stats::Interval;

use crate::target::{Family, Model};
use crate::text;

/// Markers that are told apart; a further series of the same model begins again.
const SHAPES: usize = 5;

/// A plot with its caption.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What it shows, complete: for those who cannot see it.
    pub title: String,
    /// What it shows, under a heading that says the rest.
    pub caption: String,
    /// What its values are.
    pub axis: Axis,
    /// The values.
    pub drawn: Drawn,
}

/// The values of a plot.
#[derive(Clone, Debug)]
pub enum Drawn {
    /// Horizontal bars from 0, in the order given.
    Bars(Vec<(Who, Interval)>),
    /// Lines over the number of something.
    Lines {
        /// Connections or requests.
        what: &'static str,
        /// The lines.
        series: Vec<Series>,
    },
}

impl Plot {
    /// A plot of bars; `None` where there are none.
    pub fn bars(title: String, caption: String, axis: Axis, rows: Vec<(Who, Interval)>) -> Option<Plot> {
        (!rows.is_empty()).then_some(Plot { title, caption, axis, drawn: Drawn::Bars(rows) })
    }

    /// A plot against the number of `what` (connections, requests), without the series that have no points; `None` where none has.
    pub fn lines(
        title: String,
        caption: String,
        axis: Axis,
        what: &'static str,
        mut series: Vec<Series>,
    ) -> Option<Plot> {
        series.retain(|series| !series.points.is_empty());
        (!series.is_empty()).then_some(Plot { title, caption, axis, drawn: Drawn::Lines { what, series } })
    }

    /// The picture for a page that has the styles of reports.
    pub fn svg(&self) -> String {
        svg::of(self)
    }

    /// Whether it has an axis that can be looked at more closely.
    pub fn zooms(&self) -> bool {
        matches!(self.drawn, Drawn::Lines { .. })
    }
}

/// Who a line or bar stands for.
#[derive(Clone, Debug)]
pub struct Who {
    /// Its name.
    pub label: String,
    /// Decides the dash and whether the marker is filled.
    pub family: Family,
    /// Decides the colour.
    pub model: Model,
    /// Decides the marker's shape: which of those with the same family and model it is.
    shape: usize,
}

impl Who {
    /// All of a run: name, family and model of each, in their order. Those of one family and model get markers of their own.
    pub fn all(of: impl IntoIterator<Item = (String, Family, Model)>) -> Vec<Who> {
        let mut all: Vec<Who> = Vec::new();
        for (label, family, model) in of {
            let before = all.iter().filter(|who| (who.family, who.model) == (family, model)).count();
            all.push(Who { label, family, model, shape: before % SHAPES });
        }
        all
    }

    /// The name at a line's end: our models go by their own name alone.
    fn short(&self) -> &str {
        self.label.strip_prefix("manifold ").unwrap_or(&self.label)
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

/// What the values of a plot are, and how they are scaled.
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
    /// A number beside the axis, with its unit where it needs one.
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

    /// The unit of its values.
    fn unit(self) -> &'static str {
        match self {
            Axis::Count => "",
            Axis::Micros => "µs",
            Axis::Mib => "MiB",
        }
    }

    /// What the page's script calls it.
    fn name(self) -> &'static str {
        match self {
            Axis::Count => "count",
            Axis::Micros => "micros",
            Axis::Mib => "mib",
        }
    }
}

/// Without a needless fraction.
fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A line or bar called so.
    pub fn who(label: &str) -> Who {
        Who { label: label.to_owned(), family: Family::Apache2, model: Model::Event, shape: 0 }
    }

    /// A point with an interval of a tenth on both sides.
    pub fn point(x: u64, estimate: f64) -> Point {
        Point { x, interval: interval(estimate), lower_bound: false }
    }

    /// A tenth on both sides.
    pub fn interval(estimate: f64) -> Interval {
        Interval { estimate, low: estimate * 0.9, high: estimate * 1.1, rounds: 5 }
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
    fn those_of_one_model_have_markers_of_their_own() {
        let of = |label: &str, family| (label.to_owned(), family, Model::Prefork);
        let all = Who::all([
            of("apache2 prefork 150", Family::Apache2),
            of("manifold prefork 150", Family::Manifold),
            of("apache2 prefork 400", Family::Apache2),
        ]);
        assert_eq!(all.iter().map(|who| who.shape).collect::<Vec<_>>(), [0, 0, 1]);
    }

    #[test]
    fn nothing_is_no_plot() {
        let series = vec![Series { who: who("x"), points: Vec::new() }];
        assert!(Plot::lines(String::new(), String::new(), Axis::Count, "requests", series).is_none());
        assert!(Plot::bars(String::new(), String::new(), Axis::Count, Vec::new()).is_none());
    }
}
