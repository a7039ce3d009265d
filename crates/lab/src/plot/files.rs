//! Plots as files beside the report: SVG that any program shows, the values as CSV, and data with a script from which gnuplot draws the same.

use std::fmt::Write as _;

use super::scale::{HEIGHT, X};
use super::svg::{self, escaped};
use super::{Axis, Drawn, Plot, Series, Who};
use crate::files::File;
use crate::page::PLOT_STYLE;
use crate::target::{Family, Model};

/// Above a picture that stands by itself: its title.
const TITLE_HEIGHT: f64 = 24.0;
/// Longest name of a file, without what tells its kind.
const NAME_MAX: usize = 72;
/// The gnuplot script, within the folder of the plots.
const SCRIPT: &str = "plots.gnuplot";
/// The heads of the columns of `figures.csv`.
const COLUMNS: &str = "plot,series,x,unit,estimate,low,high,rounds,lower_bound\n";

/// All files of a report's plots.
pub fn of(plots: &[Plot]) -> Vec<File> {
    if plots.is_empty() {
        return Vec::new();
    }
    let mut files = vec![File::new("figures.csv", csv(plots))];
    let mut script = format!(
        "# Draws every plot of the report as PNG: gnuplot {SCRIPT}\n\
         set terminal pngcairo noenhanced size 960,600 font 'sans,11'\nset encoding utf8\nset grid ytics\nset border 3\n"
    );
    for (number, plot) in (1..).zip(plots) {
        let name = name(number, &plot.title);
        files.push(File::new(&format!("plots/{name}.svg"), picture(plot)));
        files.push(File::new(&format!("plots/{name}.dat"), data(plot)));
        script.push_str(&draw(plot, &name));
    }
    files.push(File::new(&format!("plots/{SCRIPT}"), script));
    files
}

/// A file's name: the plot's number and title in letters that every system takes.
fn name(number: usize, title: &str) -> String {
    let mut name = format!("{number:02}");
    for word in title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        if name.len() + 1 + word.len() > NAME_MAX {
            break;
        }
        name.push('-');
        name.push_str(&word.to_ascii_lowercase());
    }
    name
}

/// The picture with its title and its own colours: those of the page in the light, as plain values, since few programs know variables.
fn picture(plot: &Plot) -> String {
    let svg = svg::of(plot);
    let (open, rest) = svg.split_once('>').unwrap_or((&svg, ""));
    let height = match &plot.drawn {
        Drawn::Lines { .. } => HEIGHT,
        Drawn::Bars(rows) => svg::bars_height(rows.len()),
    };
    let before = format!("viewBox=\"0 0 400 {height}\"");
    let around = format!(
        "xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"{}\" viewBox=\"0 {} 400 {}\"",
        2.0 * (height + TITLE_HEIGHT),
        -TITLE_HEIGHT,
        height + TITLE_HEIGHT
    );
    format!(
        "{}><style>{} text {{ font-family: sans-serif; }}</style>\
         <rect x=\"0\" y=\"{}\" width=\"400\" height=\"{}\" fill=\"#ffffff\"/><text class=\"label\" x=\"6\" y=\"-8\">{}</text>{rest}\n",
        open.replace(&before, &around),
        plain_style(PLOT_STYLE),
        -TITLE_HEIGHT,
        height + TITLE_HEIGHT,
        escaped(&plot.title)
    )
}

/// The style sheet with its variables replaced by their values in the light: those of its first block.
fn plain_style(style: &str) -> String {
    let block = style.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(block, _)| block);
    let values = block.split(';').filter_map(|line| line.trim().strip_prefix("--")?.split_once(':'));
    let rules = style.rsplit_once("/* drawing */").map_or("", |(_, rules)| rules);
    values.fold(rules.trim().to_owned(), |style, (name, value)| style.replace(&format!("var(--{name})"), value.trim()))
}

/// Every value of every plot, a line each.
fn csv(plots: &[Plot]) -> String {
    let mut text = COLUMNS.to_owned();
    for plot in plots {
        let mut line = |who: &Who, x: Option<u64>, interval: &manifold_stats::Interval, lower_bound: bool| {
            let x = x.map_or_else(String::new, |x| x.to_string());
            let manifold_stats::Interval { estimate, low, high, rounds } = interval;
            let (plot_title, who, unit) = (quoted(&plot.title), quoted(&who.label), plot.axis.unit());
            let _ = writeln!(text, "{plot_title},{who},{x},{unit},{estimate},{low},{high},{rounds},{lower_bound}");
        };
        match &plot.drawn {
            Drawn::Bars(rows) => rows.iter().for_each(|(who, interval)| line(who, None, interval, false)),
            Drawn::Lines { series, .. } => {
                for (who, point) in series.iter().flat_map(|one| one.points.iter().map(move |point| (&one.who, point)))
                {
                    line(who, Some(point.x), &point.interval, point.lower_bound);
                }
            }
        }
    }
    text
}

/// As RFC 4180 quotes text with commas in it.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// What gnuplot reads: a block a line of the plot, or one with all bars.
fn data(plot: &Plot) -> String {
    match &plot.drawn {
        Drawn::Bars(rows) => {
            let mut text = format!("# {}\n# name, estimate, low, high, colour\n", one_line(&plot.title));
            for (who, i) in rows {
                let label = one_line(&who.label).replace('"', "'");
                let _ = writeln!(text, "\"{label}\" {} {} {} 0x{}", i.estimate, i.low, i.high, colour(who.model));
            }
            text
        }
        Drawn::Lines { what, series } => {
            let mut text = format!("# {}\n# {what}, estimate, low, high\n", one_line(&plot.title));
            for one in series {
                let _ = writeln!(text, "# {}", one_line(&one.who.label));
                for point in &one.points {
                    let i = &point.interval;
                    let _ = writeln!(text, "{} {} {} {}", point.x, i.estimate, i.low, i.high);
                }
                text.push_str("\n\n");
            }
            text
        }
    }
}

/// The part of the script that draws one plot.
fn draw(plot: &Plot, name: &str) -> String {
    let (title, unit) = (literal(&plot.title), literal(plot.axis.unit()));
    let mut text = format!("\nset output '{name}.png'\nset title {title}\nset ylabel {unit}\n");
    match &plot.drawn {
        Drawn::Bars(rows) => {
            let _ = write!(
                text,
                "unset logscale\nset xlabel ''\nunset key\nset style fill solid 0.6\nset boxwidth 0.7\nset yrange [0:*]\n\
                 set xrange [-0.7:{}]\nset xtics rotate by -30\n\
                 plot '{name}.dat' using 0:2:3:4:(0.7):5:xtic(1) with boxerrorbars linecolor rgb variable\n\
                 set xtics norotate autofreq\n",
                rows.len() as f64 - 0.3
            );
        }
        Drawn::Lines { what, series } => {
            let logarithmic = match (plot.axis, X::fit(series, 0.0).linear) {
                (Axis::Count, true) => "",
                (Axis::Count, false) => "set logscale x\n",
                (_, true) => "set logscale y\n",
                (_, false) => "set logscale xy\n",
            };
            let from = if plot.axis == Axis::Count { "0" } else { "*" };
            let _ = write!(
                text,
                "unset logscale\n{logarithmic}set xlabel {}\nset key outside right\nset xrange [*:*]\nset yrange [{from}:*]\nplot \\\n",
                literal(what)
            );
            let line = |(index, one): (usize, &Series)| {
                format!(
                    "  '{name}.dat' index {index} using 1:2:3:4 with yerrorlines title {} linecolor rgb '#{}' dashtype {} pointtype {}",
                    literal(&one.who.label),
                    colour(one.who.model),
                    if one.who.family == Family::Apache2 { 2 } else { 1 },
                    point_type(&one.who)
                )
            };
            let lines: Vec<String> = series.iter().enumerate().map(line).collect();
            text.push_str(&(lines.join(", \\\n") + "\n"));
        }
    }
    text
}

/// A text in gnuplot's single quotes, within which nothing but these has a meaning.
fn literal(text: &str) -> String {
    format!("'{}'", one_line(text).replace('\'', "''"))
}

fn one_line(text: &str) -> String {
    text.split(char::is_control).collect::<Vec<_>>().join(" ")
}

/// Okabe and Ito's colours, as the page has them.
fn colour(model: Model) -> &'static str {
    match model {
        Model::Prefork => "d55e00",
        Model::Worker => "0072b2",
        Model::Event => "009e73",
        Model::Percore => "b0519a",
        Model::Loop => "4a4f57",
    }
}

/// gnuplot's number of the marker that the page draws.
fn point_type(who: &Who) -> u8 {
    const FILLED: [u8; super::SHAPES] = [7, 5, 9, 13, 11];
    const HOLLOW: [u8; super::SHAPES] = [6, 4, 8, 12, 10];
    let shapes = if who.family == Family::Apache2 { HOLLOW } else { FILLED };
    shapes[who.shape]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{interval, point, who};
    use super::*;

    fn plots() -> Vec<Plot> {
        let series = |label: &str| Series { who: who(label), points: vec![point(10, 5.0), point(1000, 50.0)] };
        let lines = vec![series("apache2 event"), series("it's, \"quoted\"")];
        let rows = vec![(who("apache2 event"), interval(5.0))];
        let title = "Latency, 99 %: \"the\" tail".to_owned();
        [
            Plot::lines(title, String::new(), Axis::Micros, "connections", lines),
            Plot::bars("CPU <a request>".to_owned(), String::new(), Axis::Micros, rows),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn file(name: &str) -> String {
        of(&plots()).into_iter().find(|file| file.name == name).map(|file| file.text).expect("it is written")
    }

    #[test]
    fn each_plot_is_a_picture_and_data() {
        let names: Vec<String> = of(&plots()).into_iter().map(|file| file.name).collect();
        let expected = [
            "figures.csv",
            "plots/01-latency-99-the-tail.svg",
            "plots/01-latency-99-the-tail.dat",
            "plots/02-cpu-a-request.svg",
            "plots/02-cpu-a-request.dat",
            "plots/plots.gnuplot",
        ];
        assert_eq!(names, expected);
        assert!(of(&[]).is_empty());
        assert!(name(1, &"long ".repeat(40)).len() <= NAME_MAX);
    }

    #[test]
    fn a_picture_stands_by_itself() {
        for name in ["plots/01-latency-99-the-tail.svg", "plots/02-cpu-a-request.svg"] {
            let svg = file(name);
            assert!(svg.starts_with("<svg ") && svg.contains("xmlns=") && svg.contains("viewBox=\"0 -24 400"), "{svg}");
            assert!(svg.contains(".m-event { color: #009e73; }") && !svg.contains("var("), "{svg}");
        }
        assert!(file("plots/02-cpu-a-request.svg").contains(">CPU &lt;a request&gt;</text>"));
    }

    #[test]
    fn values_are_complete_and_quoted() {
        let csv = file("figures.csv");
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 1 + 4 + 1);
        assert_eq!(lines[3], "\"Latency, 99 %: \"\"the\"\" tail\",\"it's, \"\"quoted\"\"\",10,µs,5,4.5,5.5,5,false");
        assert_eq!(lines[5], "CPU <a request>,apache2 event,,µs,5,4.5,5.5,5,false");
        let script = file("plots/plots.gnuplot");
        assert!(script.contains("title 'it''s, \"quoted\"'") && script.contains("set logscale xy"), "{script}");
        assert_eq!(script.matches("set output ").count(), 2);
        assert!(file("plots/01-latency-99-the-tail.dat").contains("\n1000 50 45 55.00000000000001\n"));
    }
}
