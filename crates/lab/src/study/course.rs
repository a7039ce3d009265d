//! Loads over time: what servers did in each second of a load, over all rounds.

use manifold_stats::median_interval;

use super::results::Found;
use super::view::{load_label, whos};
use crate::plot::{Axis, Plot, Point, Series};
use crate::results::Course;

/// Fewer seconds are no course.
const SECONDS_MIN: usize = 3;
/// More points are joined.
const POINTS_MAX: usize = 24;

/// A figure of the seconds of a course: title, axis, and its values.
type Row = (&'static str, Axis, fn(&Course, &Grid) -> Vec<Option<f64>>);

static ROWS: [Row; 3] = [
    ("Answers a second", Axis::Count, answers),
    ("Processors used", Axis::Count, processors),
    ("Memory, MiB", Axis::Mib, memory),
];

/// Whole seconds, as many in each point.
struct Grid {
    /// Seconds in a point.
    width: usize,
    points: usize,
}

/// A plot of each figure, load by load.
pub fn over_time(found: &Found) -> Vec<Plot> {
    let whos = whos(&found.study);
    let mut plots = Vec::new();
    for (index, load) in found.study.loads.iter().enumerate() {
        let courses = |target: usize| {
            let cells = found.cells.iter().filter(move |seen| seen.load == index && seen.cell.target == target);
            cells.filter(|seen| seen.cell.usable()).filter_map(|seen| seen.cell.course.as_ref())
        };
        let all = (0..whos.len()).flat_map(courses);
        let Some(grid) = Grid::of(all) else { continue };
        for (title, axis, values) in &ROWS {
            let series = whos.iter().enumerate().map(|(target, who)| {
                let rounds: Vec<Vec<Option<f64>>> = courses(target).map(|course| values(course, &grid)).collect();
                Series { who: who.clone(), points: points(&rounds, &grid) }
            });
            let caption = format!("{title} over time, {}", load_label(load));
            let whole = format!("{}, {caption}", found.study.title);
            plots.extend(Plot::lines(whole, caption, *axis, "seconds", series.collect()));
        }
    }
    plots
}

impl Grid {
    /// The seconds of the longest; `None` if there are too few.
    fn of<'c>(courses: impl Iterator<Item = &'c Course>) -> Option<Grid> {
        let (mut seconds, mut step) = (0, 1);
        for course in courses {
            let Some(intervals) = in_whole_seconds(course) else { continue };
            seconds = seconds.max((course.answers.len() as f64 * course.interval_s) as usize);
            step = step.max((intervals as f64 * course.interval_s).round() as usize);
        }
        (seconds >= SECONDS_MIN * step).then(|| {
            let width = step * (seconds / step).div_ceil(POINTS_MAX);
            Grid { width, points: seconds / width }
        })
    }

    /// From when to when a point counts, seconds.
    fn span(&self, point: usize) -> (f64, f64) {
        ((point * self.width) as f64, ((point + 1) * self.width) as f64)
    }
}

/// The fewest intervals that are a whole number of seconds.
fn in_whole_seconds(course: &Course) -> Option<usize> {
    let ms = (course.interval_s * 1000.0).round() as u64;
    (1..=1000).find(|n| ms > 0 && (n * ms).is_multiple_of(1000)).map(|n| n as usize)
}

fn answers(course: &Course, grid: &Grid) -> Vec<Option<f64>> {
    let of = |point| {
        let (from, to) = grid.span(point);
        let place = |at: f64| (at / course.interval_s).round() as usize;
        let part = course.answers.get(place(from)..place(to))?;
        Some(part.iter().sum::<u64>() as f64 / grid.width as f64)
    };
    (0..grid.points).map(of).collect()
}

fn processors(course: &Course, grid: &Grid) -> Vec<Option<f64>> {
    let looks: Vec<(f64, f64)> = course.server.looks.iter().map(|look| (look.at_s, look.cpu_s)).collect();
    let of = |point| {
        let (from, to) = grid.span(point);
        Some((between(&looks, to)? - between(&looks, from)?) / (to - from))
    };
    (0..grid.points).map(of).collect()
}

/// The value at a time that lies between two looks.
fn between(looks: &[(f64, f64)], at: f64) -> Option<f64> {
    let pair = looks.windows(2).find(|pair| pair[0].0 <= at && at <= pair[1].0)?;
    let share = (at - pair[0].0) / (pair[1].0 - pair[0].0);
    Some(pair[0].1 + (pair[1].1 - pair[0].1) * share)
}

fn memory(course: &Course, grid: &Grid) -> Vec<Option<f64>> {
    let of = |point| {
        let (from, to) = grid.span(point);
        let looks = course.server.looks.iter().filter(|look| from <= look.at_s && look.at_s < to);
        looks.filter_map(|look| look.pss_kib).next_back().map(|kib| kib as f64 / 1024.0)
    };
    (0..grid.points).map(of).collect()
}

/// The medians over the rounds; a point stands at the end of its seconds.
fn points(rounds: &[Vec<Option<f64>>], grid: &Grid) -> Vec<Point> {
    let point = |number: usize| {
        let values: Vec<f64> = rounds.iter().filter_map(|round| round[number]).collect();
        let interval = median_interval(&values)?;
        Some(Point { x: grid.span(number).1 as u64, interval, lower_bound: false })
    };
    (0..grid.points).filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::sampler::watch::{Look, Watched};

    /// `seconds` seconds in intervals of 200 ms with 10 answers in each; half a processor from the first look on.
    fn course(seconds: usize) -> Course {
        let look = |half: usize| {
            let at_s = 1.0 + half as f64 / 2.0;
            let pss_kib = half.is_multiple_of(4).then_some(2048);
            Look { at_s, cpu_s: 7.0 + at_s / 2.0, processes: 2, threads: 4, pss_kib }
        };
        let server = Watched { looks: (0..2 * seconds).map(look).collect(), own_cpu_s: 0.01 };
        Course { interval_s: 0.2, answers: vec![10; 5 * seconds], server }
    }

    fn check(courses: &[Course], figure: fn(&Course, &Grid) -> Vec<Option<f64>>, expected: &[(u64, f64)]) {
        let grid = Grid::of(courses.iter()).expect("seconds enough");
        let rounds: Vec<_> = courses.iter().map(|course| figure(course, &grid)).collect();
        let points: Vec<_> = points(&rounds, &grid).iter().map(|point| (point.x, point.interval.estimate)).collect();
        assert_eq!(points, expected);
    }

    #[test]
    fn seconds_come_out_of_intervals_and_looks() {
        check(&[course(4), course(3)], answers, &[(1, 50.0), (2, 50.0), (3, 50.0), (4, 50.0)]);
        check(&[course(4)], processors, &[(2, 0.5), (3, 0.5), (4, 0.5)]);
        check(&[course(4)], memory, &[(2, 2.0), (4, 2.0)]);
        let coarse = Course { interval_s: 0.8, answers: vec![40; 20], ..course(16) };
        check(&[coarse], answers, &[(4, 50.0), (8, 50.0), (12, 50.0), (16, 50.0)]);
        let long = Grid::of([&course(50)].into_iter()).expect("seconds enough");
        assert_eq!((long.width, long.points), (3, 16), "few enough to be told apart");
        assert!(Grid::of([&course(2)].into_iter()).is_none(), "that is no course");
    }

    #[test]
    fn each_load_that_lasted_is_drawn() {
        let mut found = fixture::found();
        assert!(over_time(&found).is_empty());
        found.cells.iter_mut().for_each(|seen| seen.cell.course = Some(course(5)));
        let plots = over_time(&found);
        assert_eq!(plots.len(), 3);
        assert!(plots[0].caption.starts_with("Answers a second over time"), "{}", plots[0].caption);
    }
}
