//! Plots as SVG within a page, whose style sheet colours them. What the page's script needs to show values and to zoom stands in `data`
//! attributes; without it the picture is complete and values are tooltips of the browser's own.

use std::fmt::Write as _;

use manifold_stats::Interval;

use super::scale::{BOTTOM, HEIGHT, INSET, LEFT, Scale, TOP, WIDTH, X, spread};
use super::{Axis, Drawn, Plot, Point, Series, Who};
use crate::target::Family;

/// The height of a bar and what is around it.
const ROW: f64 = 25.0;
/// The width of a digit under the horizontal axis.
const DIGIT: f64 = 6.3;
/// Between the names at the line ends.
const NAME_GAP: f64 = 12.0;
/// Longest name beside a line or bar, in characters; tooltips and tables have the whole.
const NAME_MAX: usize = 24;
/// From a line's end to its name: the tie and the marker.
const BEFORE_NAME: f64 = 23.0;
/// The width of a letter of a name: beside a line, and beside a bar, where it is larger.
const LETTER: (f64, f64) = (5.9, 6.8);

/// The picture.
pub fn of(plot: &Plot) -> String {
    match &plot.drawn {
        Drawn::Bars(rows) => bars(plot, rows),
        Drawn::Lines { what, series } => lines(plot, what, series),
    }
}

/// A small picture of a line, for the legend.
pub fn key(who: &Who) -> String {
    format!(
        "<svg class=\"key {}\" viewBox=\"0 0 30 10\" aria-hidden=\"true\"><path class=\"line\" d=\"M1 5H29\"/>\
         <g transform=\"translate(15 5)\">{}</g></svg>",
        classes(who),
        marker(who)
    )
}

fn classes(who: &Who) -> String {
    let family = match who.family {
        Family::Manifold => "manifold",
        Family::Apache2 => "apache2",
        Family::Nginx => "nginx",
        Family::Peer => "peer",
    };
    format!("s m-{} f-{family}", who.model.name())
}

/// A marker around the origin: the family decides whether it is filled, the place among those of one model its shape.
fn marker(who: &Who) -> String {
    let class = if who.family == Family::Apache2 { "ring" } else { "dot" };
    let square = matches!(who.family, Family::Nginx | Family::Peer);
    match who.shape {
        0 if !square => format!("<circle class=\"{class}\" r=\"3\"/>"),
        0 | 1 => format!("<path class=\"{class}\" d=\"M-2.7-2.7h5.4v5.4h-5.4z\"/>"),
        2 => format!("<path class=\"{class}\" d=\"M0-3.6l3.6 6.2h-7.2z\"/>"),
        3 => format!("<path class=\"{class}\" d=\"M0-4l4 4l-4 4l-4-4z\"/>"),
        _ => format!("<path class=\"{class}\" d=\"M0 3.6l3.6-6.2h-7.2z\"/>"),
    }
}

fn lines(plot: &Plot, what: &str, series: &[Series]) -> String {
    let scale = Scale::fit(plot.axis, series);
    let bottom = HEIGHT - BOTTOM;
    let right = WIDTH - BEFORE_NAME - longest(series.iter().map(|series| &series.who)) * LETTER.0;
    let xs = X::fit(series, right);
    let ends = |values: &[u64]| Some(format!("{} {}", values.first()?, values.last()?));
    let data = format!(
        " data-unit=\"{}\" data-x=\"{} {}\" data-y=\"{} {} {}\" data-area=\"{LEFT} {TOP} {right} {bottom}\" data-inset=\"{} {}\"",
        plot.axis.name(),
        if xs.linear { "lin" } else { "log" },
        ends(&xs.values).unwrap_or_default(),
        if scale.logarithmic { "log" } else { "lin" },
        scale.low,
        scale.high,
        INSET.0,
        INSET.1
    );
    let mut svg = open(&plot.title, HEIGHT, &data);
    draw_vertical_axis(&mut svg, plot.axis, &scale, right);
    draw_horizontal_axis(&mut svg, &xs, what);
    // A drawing of its own, so that what a zoom moves outside is cut off there.
    let (width, height) = (right - LEFT + INSET.1, bottom + 4.0);
    let _ = write!(
        svg,
        "<svg class=\"area\" x=\"{LEFT}\" y=\"0\" width=\"{width}\" height=\"{height}\" viewBox=\"{LEFT} 0 {width} {height}\">"
    );
    for (i, one) in series.iter().enumerate() {
        // A little apart, so that equal intervals do not hide each other.
        let dodge = (i as f64 - (series.len() as f64 - 1.0) / 2.0) * 0.9;
        draw_line(&mut svg, one, (plot.axis, what), &scale, &xs, dodge);
    }
    svg.push_str("</svg>");
    draw_names(&mut svg, series, &scale, &xs);
    svg.push_str("</svg>");
    svg
}

fn draw_vertical_axis(svg: &mut String, axis: Axis, scale: &Scale, right: f64) {
    svg.push_str("<g class=\"y-axis\">");
    for value in scale.ticks() {
        let y = scale.y(value);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right:.1}\"/><text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 5.0,
            y + 3.5,
            axis.tick(value)
        );
    }
    svg.push_str("</g>");
}

fn draw_horizontal_axis(svg: &mut String, xs: &X, what: &str) {
    let bottom = HEIGHT - BOTTOM;
    svg.push_str("<g class=\"x-axis\">");
    let mut free_from = 0.0;
    for &value in &xs.values {
        let x = xs.x(value);
        let tick = Axis::Count.tick(value as f64);
        let half = tick.chars().count() as f64 * DIGIT / 2.0;
        // A number that would run into the one before is left out; its mark is not.
        let hidden = if x - half < free_from { " hidden" } else { "" };
        if hidden.is_empty() {
            free_from = x + half + DIGIT;
        }
        let _ = write!(
            svg,
            "<g data-at=\"{value}\" transform=\"translate({x:.1} {bottom})\"><path class=\"axis\" d=\"M0 0v4\"/>\
             <text class=\"tick middle{hidden}\" y=\"15\">{tick}</text></g>",
        );
    }
    let _ = write!(
        svg,
        "</g><path class=\"axis\" d=\"M{LEFT} {bottom}H{:.1}\"/><text class=\"tick middle\" x=\"{:.1}\" y=\"{:.1}\">{what}</text>",
        xs.right,
        (LEFT + xs.right) / 2.0,
        HEIGHT - 4.0
    );
}

fn draw_line(svg: &mut String, series: &Series, (axis, what): (Axis, &str), scale: &Scale, xs: &X, dodge: f64) {
    let at = |point: &Point| (xs.x(point.x) + dodge, scale.y(point.interval.estimate));
    let _ = write!(svg, "<g class=\"{}\" data-dodge=\"{dodge:.2}\">", classes(&series.who));
    let path: Vec<String> = series.points.iter().map(at).map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let _ = write!(svg, "<path class=\"line\" d=\"M{}\"/>", path.join("L"));
    for point in &series.points {
        let (x, y) = at(point);
        let Point { x: number, interval, lower_bound } = point;
        let (at_least, hat) = match lower_bound {
            true => ("at least ", "<path class=\"hat\" d=\"M-3.5-5.5l3.5-4l3.5 4\"/>"),
            false => ("", ""),
        };
        let _ = write!(
            svg,
            "<g class=\"point\" data-p=\"{number} {} {} {}\" transform=\"translate({x:.1} {y:.1})\"><title>{}</title>\
             <path class=\"bar\" d=\"M0 {:.1}V{:.1}\"/>{}{hat}<circle class=\"touch\" r=\"9\"/></g>",
            short(interval.estimate),
            short(interval.low),
            short(interval.high),
            told(axis, &series.who, &format!("{number} {what}: {at_least}"), interval),
            scale.y(interval.low) - y,
            scale.y(interval.high) - y,
            marker(&series.who)
        );
    }
    svg.push_str("</g>");
}

/// What is told of a point or bar: name, value, interval, a line each.
fn told(axis: Axis, who: &Who, before: &str, interval: &Interval) -> String {
    format!(
        "{}\n{before}{}\ninterval {} to {}",
        escaped(&who.label),
        axis.value(interval.estimate),
        axis.value(interval.low),
        axis.value(interval.high)
    )
}

/// As many digits as a drawing shows.
fn short(value: f64) -> f64 {
    let digits = (5.0 - value.abs().log10().floor()).clamp(0.0, 9.0) as i32;
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

/// The names at the line ends, pushed apart, each tied to its line.
fn draw_names(svg: &mut String, series: &[Series], scale: &Scale, xs: &X) {
    let mut ends: Vec<(usize, f64, f64, &Who)> = series
        .iter()
        .enumerate()
        .filter_map(|(i, s)| s.points.last().map(|p| (i, xs.x(p.x), scale.y(p.interval.estimate), &s.who)))
        .collect();
    ends.sort_by(|a, b| a.2.total_cmp(&b.2));
    let wanted: Vec<f64> = ends.iter().map(|end| end.2).collect();
    svg.push_str("<g class=\"names\">");
    for ((of, x, y, who), name_y) in ends.iter().zip(spread(&wanted, NAME_GAP, TOP + 2.0, HEIGHT - BOTTOM)) {
        let tie = xs.right + 9.0;
        let _ = write!(
            svg,
            "<g class=\"{}\" data-of=\"{of}\"><path class=\"tie\" d=\"M{:.1} {y:.1}L{tie:.1} {name_y:.1}\"/>\
             <g class=\"tag\" transform=\"translate({:.1} {name_y:.1})\">{}<text class=\"name\" x=\"7\" y=\"3.5\">{}</text></g></g>",
            classes(who),
            x + 5.0,
            tie + 5.0,
            marker(who),
            escaped(&cut(who.short()))
        );
    }
    svg.push_str("</g>");
}

/// A name that fits: of one that is too long the beginning, which tells whose it is, and the end, which tells the settings.
fn cut(name: &str) -> String {
    const BEGINNING: usize = 9;
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= NAME_MAX {
        return name.to_owned();
    }
    let end = &letters[letters.len() - (NAME_MAX - BEGINNING - 1)..];
    letters[..BEGINNING].iter().chain(&['…']).chain(end).collect()
}

/// Letters of the longest name, as they are shown.
fn longest<'w>(whos: impl Iterator<Item = &'w Who>) -> f64 {
    whos.map(|who| who.short().chars().count().min(NAME_MAX)).max().unwrap_or(0) as f64
}

/// How far a ratio's interval reaches from 1, in logarithms.
pub fn reach(ratio: &Interval) -> f64 {
    [ratio.low, ratio.high].into_iter().filter(|end| *end > 0.0).map(|end| end.ln().abs()).fold(0.0, f64::max)
}

/// A ratio with its interval on a line with 1 in the middle, which reaches as far as `span` says, in logarithms.
pub fn ratio(ratio: &Interval, span: f64) -> String {
    const HALF: f64 = 58.0;
    let x = |value: f64| match value > 0.0 {
        true => 60.0 + HALF * (value.ln() / span.max(0.1)).clamp(-1.0, 1.0),
        false => 60.0 - HALF,
    };
    format!(
        "<svg class=\"ratio\" viewBox=\"0 0 120 14\" aria-hidden=\"true\"><path class=\"axis\" d=\"M60 0V14\"/>\
         <path class=\"bar\" d=\"M{:.1} 7H{:.1}\"/><circle class=\"dot\" cx=\"{:.1}\" cy=\"7\" r=\"3\"/></svg>",
        x(ratio.low),
        x(ratio.high),
        x(ratio.estimate)
    )
}

/// The height of a plot of so many bars.
pub fn bars_height(rows: usize) -> f64 {
    ROW * rows as f64 + 4.0
}

fn bars(plot: &Plot, rows: &[(Who, Interval)]) -> String {
    const VALUES: f64 = 60.0;
    let names = longest(rows.iter().map(|(who, _)| who)) * LETTER.1 + 8.0;
    let most = rows.iter().map(|(_, i)| i.high).fold(f64::MIN_POSITIVE, f64::max);
    let x = |value: f64| names + (WIDTH - names - VALUES) * value / most;
    let mut svg = open(&plot.title, bars_height(rows.len()), "");
    for (i, (who, interval)) in rows.iter().enumerate() {
        let top = ROW * i as f64 + 4.0;
        let middle = top + (ROW - 6.0) / 2.0;
        let _ = write!(
            svg,
            "<g class=\"{} point\"><title>{}</title><rect class=\"touch\" y=\"{:.1}\" width=\"{WIDTH}\" height=\"{ROW}\"/>\
             <text class=\"label end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <rect class=\"block\" x=\"{names:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"/>\
             <path class=\"halo\" d=\"M{low:.1} {middle:.1}H{high:.1}\"/>\
             <path class=\"whisker\" d=\"M{low:.1} {middle:.1}H{high:.1}\"/>\
             <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            classes(who),
            told(plot.axis, who, "", interval),
            top - 3.0,
            names - 6.0,
            middle + 4.0,
            escaped(&cut(who.short())),
            (x(interval.estimate) - names).max(1.0),
            ROW - 6.0,
            x(interval.estimate.max(interval.high)) + 5.0,
            middle + 4.0,
            plot.axis.value(interval.estimate),
            low = x(interval.low),
            high = x(interval.high),
        );
    }
    svg.push_str("</svg>");
    svg
}

fn open(title: &str, height: f64, data: &str) -> String {
    format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\"{data}>",
        escaped(title)
    )
}

/// For text and attributes in SVG.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{interval, point, who};
    use super::*;

    fn of_lines(title: &str, axis: Axis, what: &'static str, series: Vec<Series>) -> String {
        Plot { title: title.to_owned(), caption: String::new(), axis, drawn: Drawn::Lines { what, series } }.svg()
    }

    #[test]
    fn numbers_of_an_axis_do_not_overlap() {
        let points = (1..=10).map(|i| point(i * 10_000, 1.0)).collect();
        let svg = of_lines("x", Axis::Count, "requests", vec![Series { who: who("apache2 event 100"), points }]);
        let hidden = |text: &str| svg.contains(&format!("<text class=\"tick middle hidden\" y=\"15\">{text}</text>"));
        assert!(!hidden("10 k") && hidden("20 k") && !hidden("30 k") && svg.contains(">requests</text>"), "{svg}");
    }

    #[test]
    fn a_plot_draws_each_point_and_escapes_names() {
        let series =
            Series { who: who("a<b>"), points: vec![point(10, 5.0), Point { lower_bound: true, ..point(1000, 50.0) }] };
        let svg = of_lines("CPU \"a request\"", Axis::Micros, "connections", vec![series.clone()]);
        assert_eq!((svg.matches("<title>").count(), svg.matches("class=\"hat\"").count()), (2, 1));
        assert!(svg.contains("a&lt;b&gt;\n1000 connections: at least 50.0 µs\ninterval 45.0 µs to 55.0 µs"), "{svg}");
        assert!(svg.contains("data-p=\"10 5 4.5 5.5\"") && svg.contains("data-x=\"log 10 1000\""), "{svg}");
        assert!(svg.contains("aria-label=\"CPU &quot;a request&quot;\"") && !svg.contains("NaN"));
        let drawn = Drawn::Bars(vec![(who("a<b>"), interval(5.0))]);
        let bars = Plot { title: "CPU".to_owned(), caption: String::new(), axis: Axis::Micros, drawn }.svg();
        assert!(bars.contains("a&lt;b&gt;\n5.0 µs\ninterval 4.5 µs to 5.5 µs") && !bars.contains("NaN"));
        let one = of_lines("x", Axis::Count, "requests", vec![Series { points: vec![point(10, 5.0)], ..series }]);
        assert!(!one.contains("NaN"), "{one}");
        assert!(!of_lines("empty", Axis::Mib, "connections", Vec::new()).contains("NaN"));
    }

    #[test]
    fn long_names_are_cut_and_numbers_have_the_digits_that_show() {
        assert_eq!(cut("apache2 prefork"), "apache2 prefork");
        let long = cut("apache2 prefork MaxRequestWorkers=1500");
        assert_eq!((long.as_str(), long.chars().count()), ("apache2 p…stWorkers=1500", NAME_MAX));
        for (value, expected) in [(178_432.123_456, 178_432.0), (0.123_456_789, 0.123_457), (0.0, 0.0)] {
            assert_eq!(short(value), expected);
        }
    }
}
