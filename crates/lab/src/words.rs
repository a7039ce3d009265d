//! The answer in words: what a reader should take away, with its evidence, before any plot.
//!
//! The figure that decides is CPU time a request: it is the server's own, also where the generator sets the pace.

use std::fmt::Write as _;

use manifold_stats::{Comparison, Interval, ROUNDS_MIN, Verdict};

use crate::compare::Comparisons;
use crate::experiment::Load;
use crate::figures::{Cells, Metric};
use crate::results::{Cell, Mark, Results};
use crate::target::{Family, Model};
use crate::{limits, text};

/// What the report says first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Answer {
    /// One sentence.
    pub headline: String,
    /// The sentences that follow, each with a title.
    pub points: Vec<Point>,
    /// What limits these figures.
    pub limits: Vec<String>,
}

/// A titled statement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Point {
    /// A few words.
    pub title: String,
    /// A sentence or two.
    pub text: String,
    /// Its evidence, one sentence each.
    pub items: Vec<String>,
}

impl Point {
    fn new(title: &str, text: impl Into<String>, items: Vec<String>) -> Point {
        Point { title: title.to_owned(), text: text.into(), items }
    }
}

/// Reads the answer off the results.
pub fn answer(results: &Results) -> Answer {
    let cells = Cells::new(&results.experiment, &results.cells);
    let comparisons = Comparisons::new(&results.experiment, cells, results.targets.len());
    let view = View { results, cells, comparisons };
    // What fewer rounds cannot tell apart, no sentence compares.
    let compared = results.experiment.rounds as usize >= ROUNDS_MIN;
    let comparisons = [
        view.other_mode(),
        view.namesakes(),
        view.choice(Family::Manifold, "Your choice among the models Apache has"),
        view.choice(Family::Apache2, "The same choice on apache2 itself"),
        view.not_distinguishable(),
    ];
    let points = comparisons.into_iter().filter(|_| compared).chain([view.memory(), view.speed()]).flatten().collect();
    Answer { headline: view.headline(), points, limits: limits::limits(results) }
}

/// The answer for a terminal.
pub fn terminal(results: &Results) -> String {
    let answer = answer(results);
    let mut text = format!("{}\n\n", answer.headline);
    for point in &answer.points {
        let _ = writeln!(text, "{}. {}", point.title, point.text);
        point.items.iter().for_each(|item| _ = writeln!(text, "  - {item}"));
        text.push('\n');
    }
    text
}

struct View<'r> {
    results: &'r Results,
    cells: Cells<'r>,
    comparisons: Comparisons,
}

/// A target and its mean of some metric.
type Ranked = (usize, Interval);

impl View<'_> {
    fn label(&self, target: usize) -> &str {
        &self.results.targets[target].label
    }

    fn loads(&self, keep_alive: bool) -> Vec<Load> {
        self.results.experiment.loads().into_iter().filter(|load| load.keep_alive == keep_alive).collect()
    }

    /// Keep-alive where it was measured: it is what browsers and proxies do.
    fn main_mode(&self) -> bool {
        self.results.experiment.keep_alive.contains(&true)
    }

    /// Targets from least to most by their mean over loads.
    fn ranking(&self, loads: &[Load], metric: Metric) -> Vec<Ranked> {
        let mut ranking: Vec<Ranked> = (0..self.results.targets.len())
            .filter_map(|target| Some((target, self.cells.mean(target, loads, metric)?)))
            .collect();
        ranking.sort_by(|a, b| a.1.estimate.total_cmp(&b.1.estimate));
        ranking
    }

    /// The first of a ranking and those that cannot be told from it; and the first that can.
    fn leaders(&self, ranking: &[Ranked], loads: &[Load]) -> (Vec<Ranked>, Option<(usize, Interval)>) {
        let mut leaders = Vec::new();
        let mut next = None;
        let Some(&(best, _)) = ranking.first() else { return (leaders, next) };
        for &(target, mean) in ranking {
            match self.comparisons.of(target, best, loads) {
                _ if target == best => leaders.push((target, mean)),
                Some(seen) if seen.claim == Verdict::More => {
                    next.get_or_insert((target, seen.ratio));
                }
                Some(seen) if seen.claim == Verdict::TooFewRounds => {}
                _ => leaders.push((target, mean)),
            }
        }
        (leaders, next)
    }

    /// Who needs least CPU in one mode, as a sentence.
    fn cheapest(&self, keep_alive: bool) -> Option<String> {
        let loads = self.loads(keep_alive);
        let ranking = self.ranking(&loads, Metric::CpuUsPerRequest);
        let (leaders, next) = self.leaders(&ranking, &loads);
        let (best, cost) = *leaders.first()?;
        if best_rounds(&ranking) < ROUNDS_MIN {
            return Some(format!(
                "{} has the lowest CPU a request, {}, but {} too few to tell targets apart: use --rounds 5.",
                capital(self.label(best)),
                text::micros(cost.estimate),
                if best_rounds(&ranking) == 1 { "1 round is" } else { "2 rounds are" }
            ));
        }
        let mut said = if leaders.len() == 1 {
            format!("{} needs the least CPU: {} a request", capital(self.label(best)), text::micros(cost.estimate))
        } else {
            let each: Vec<String> = leaders
                .iter()
                .map(|&(target, mean)| format!("{} ({})", self.label(target), text::micros(mean.estimate)))
                .collect();
            let all = if leaders.len() == ranking.len() && ranking.len() > 2 { "No target stands out: " } else { "" };
            let each = if all.is_empty() { capital(&text::list(&each)) } else { text::list(&each) };
            format!("{all}{each} need about the same CPU a request; this run cannot tell them apart")
        };
        if let Some((target, ratio)) = next {
            let joint = if leaders.len() == 1 { ", " } else { "; the first is at " };
            said.push_str(&format!("{joint}{} less than {}", text::times(&ratio), self.label(target)));
        }
        said.push('.');
        if leaders.len() == 1
            && let Some(&(nginx, _)) = ranking.iter().find(|&&(t, _)| self.results.targets[t].family == Family::Nginx)
            && nginx != best
            && next.is_none_or(|(target, _)| target != nginx)
            && let Some(seen) = self.comparisons.of(nginx, best, &loads)
            && seen.claim == Verdict::More
        {
            said.push_str(&format!(" {} needs {} as much.", capital(self.label(nginx)), text::times(&seen.ratio)));
        }
        Some(said)
    }

    fn headline(&self) -> String {
        let unknown = if self.results.cells.iter().any(Cell::usable) {
            "No round is complete, so nothing can be compared yet; what was measured is in the table."
        } else {
            "No cell could be measured, so there is no answer; the limits below say why."
        };
        self.cheapest(self.main_mode()).unwrap_or_else(|| unknown.to_owned())
    }

    /// The headline's question for the mode that the headline is not about.
    fn other_mode(&self) -> Option<Point> {
        let both = self.results.experiment.keep_alive.len() == 2;
        let said = self.cheapest(!self.main_mode()).filter(|_| both)?;
        Some(Point::new("With a new connection for each request", said, Vec::new()))
    }

    fn find(&self, family: Family, model: Model) -> Option<usize> {
        self.results.targets.iter().position(|t| t.family == family && t.model == model)
    }

    /// Each of our models against Apache's of the same name.
    fn namesakes(&self) -> Option<Point> {
        let mut sentences = Vec::new();
        for &keep_alive in self.results.experiment.keep_alive.iter().rev() {
            let loads = self.loads(keep_alive);
            let said: Vec<String> = [Model::Prefork, Model::Worker, Model::Event]
                .into_iter()
                .filter_map(|model| {
                    let ours = self.find(Family::Manifold, model)?;
                    let theirs = self.find(Family::Apache2, model)?;
                    let Comparison { ratio, claim, .. } = self.comparisons.of(theirs, ours, &loads)?;
                    Some(match claim {
                        Verdict::More => format!("{} needs {} less", model.name(), text::times(&ratio)),
                        Verdict::Less => format!("{} needs {} more", model.name(), text::times(&ratio.inverse())),
                        Verdict::NotDistinguishable => {
                            format!("{} cannot be told apart from it [{}]", model.name(), text::ratio_ends(&ratio))
                        }
                        Verdict::TooFewRounds => format!("{} has too few complete rounds", model.name()),
                    })
                })
                .collect();
            if !said.is_empty() {
                sentences.push(format!("{}: {}.", capital(mode(keep_alive)), text::list(&said)));
            }
        }
        (!sentences.is_empty()).then(|| {
            Point::new(
                "Beside Apache's own models",
                "CPU a request, manifold's model against apache2's of the same name:",
                sentences,
            )
        })
    }

    /// Which of the three classical models to take, of one server: first those that leave no connection without an
    /// answer, among them the cheapest in CPU, and where that cannot be told, the one that holds least memory.
    fn choice(&self, family: Family, title: &str) -> Option<Point> {
        let models: Vec<usize> = [Model::Prefork, Model::Worker, Model::Event]
            .into_iter()
            .filter_map(|model| self.find(family, model))
            .collect();
        if models.len() < 2 {
            return None;
        }
        let loads = self.results.experiment.loads();
        let complete: Vec<usize> = models.iter().copied().filter(|&t| self.unserved(t).is_none()).collect();
        let candidates = if complete.is_empty() { &models } else { &complete };
        let ranking: Vec<Ranked> = self
            .ranking(&loads, Metric::CpuUsPerRequest)
            .into_iter()
            .filter(|(target, _)| candidates.contains(target))
            .collect();
        let (leaders, _) = self.leaders(&ranking, &loads);
        let lightest = |held: fn(&Self, usize) -> Option<f64>| {
            let held: Option<Vec<(usize, f64)>> = leaders.iter().map(|&(t, _)| Some((t, held(self, t)?))).collect();
            held?.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(target, _)| target)
        };
        // Only like is compared with like: memory under load of all of them, or else before any load.
        let chosen = lightest(Self::held_loaded).or(lightest(Self::held_fresh)).or(leaders.first().map(|l| l.0))?;

        let name = |target: usize| self.results.targets[target].model.name();
        let mut said = Vec::new();
        if leaders.len() > 1 {
            let names: Vec<&str> = leaders.iter().map(|&(target, _)| name(target)).collect();
            said.push(format!(
                "{} cannot be told apart by CPU a request; it holds the least memory of them.",
                capital(&text::list(&names))
            ));
        }
        let others: Vec<String> = models
            .iter()
            .filter(|&&target| target != chosen && leaders.iter().all(|&(leader, _)| leader != target))
            .filter_map(|&target| {
                let Comparison { ratio, claim, .. } = self.comparisons.of(target, chosen, &loads)?;
                Some(match claim {
                    Verdict::NotDistinguishable => format!("about as much as {}", name(target)),
                    Verdict::TooFewRounds => format!("with too few rounds to say, {}", name(target)),
                    Verdict::Less => format!("{} as much as {}", text::times(&ratio.inverse()), name(target)),
                    Verdict::More => format!("{} less than {}", text::times(&ratio), name(target)),
                })
            })
            .collect();
        if !others.is_empty() {
            said.push(format!("Over all loads it needs, in CPU a request, {}.", text::list(&others)));
        }
        said.extend(self.unserved_words(&models));
        if let Some(memory) = self.top_memory(&models) {
            said.push(memory);
        }
        let why = match complete.len() {
            0 => "None of them answered every connection.",
            1 => "It alone left no connection without an answer.",
            n if n < models.len() => "Of those that left no connection without an answer, it is to be preferred.",
            _ => "",
        };
        Some(Point::new(&format!("{title}: {}", name(chosen)), why, said))
    }

    /// The memory of a target with most connections, MiB.
    fn held_loaded(&self, target: usize) -> Option<f64> {
        self.cells.mean(target, &[self.top_load()?], Metric::PssMib).map(|mib| mib.estimate)
    }

    /// The memory of a target before any load, KiB.
    fn held_fresh(&self, target: usize) -> Option<f64> {
        self.results.targets[target].pss_fresh_kib.map(|kib| kib as f64)
    }

    /// How many connections a target left without any answer in most rounds of some load, and in which.
    fn unserved(&self, target: usize) -> Option<(f64, Load)> {
        let rounds = self.results.experiment.rounds as usize;
        self.results
            .experiment
            .loads()
            .into_iter()
            .filter(|&load| 2 * self.cells.marked(target, load, Mark::Unserved) > rounds)
            .filter_map(|load| {
                let left: Vec<f64> = self.cells.of(target, load).map(|cell| cell.unserved as f64).collect();
                Some((manifold_stats::median(&left)?, load))
            })
            .max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Which of these models leave connections without an answer, as a sentence.
    fn unserved_words(&self, targets: &[usize]) -> Option<String> {
        let each: Vec<String> = targets
            .iter()
            .filter_map(|&target| {
                let (left, load) = self.unserved(target)?;
                let model = self.results.targets[target].model.name();
                Some(format!(
                    "{model} {} of {} ({})",
                    text::grouped(left as i64),
                    load.concurrency,
                    mode(load.keep_alive)
                ))
            })
            .collect();
        (!each.is_empty()).then(|| format!("Connections left without any answer within a cell: {}.", text::list(&each)))
    }

    /// The load with most connections, kept alive if that was measured.
    fn top_load(&self) -> Option<Load> {
        self.loads(self.main_mode()).into_iter().max_by_key(|load| load.concurrency)
    }

    fn top_memory(&self, targets: &[usize]) -> Option<String> {
        let load = self.top_load()?;
        let each: Vec<String> = targets
            .iter()
            .filter_map(|&target| {
                let mib = self.cells.mean(target, &[load], Metric::PssMib)?;
                Some(format!("{} {} MiB", self.results.targets[target].model.name(), text::number(mib.estimate)))
            })
            .collect();
        (each.len() == targets.len())
            .then(|| format!("Memory with {} connections: {}.", load.concurrency, text::list(&each)))
    }

    fn memory(&self) -> Option<Point> {
        let load = self.top_load()?;
        let ranking = self.ranking(&[load], Metric::PssMib);
        let (&(least, low), &(most, high)) = (ranking.first()?, ranking.last()?);
        (least != most).then(|| {
            let said = format!(
                "With {} connections {} holds {} MiB (PSS), the least; {} holds {} MiB, the most.",
                load.concurrency,
                self.label(least),
                text::number(low.estimate),
                self.label(most),
                text::number(high.estimate)
            );
            let unread: Vec<&str> = (0..self.results.targets.len())
                .filter(|&target| ranking.iter().all(|&(ranked, _)| ranked != target))
                .map(|target| self.label(target))
                .collect();
            let unread = if unread.is_empty() {
                Vec::new()
            } else {
                vec![format!("Not read in time, and so not compared: {}.", text::list(&unread))]
            };
            Point::new("Memory", said, unread)
        })
    }

    /// Who answered most, and how much that means.
    fn speed(&self) -> Option<Point> {
        let mut sentences = Vec::new();
        for &keep_alive in self.results.experiment.keep_alive.iter().rev() {
            let best = self
                .loads(keep_alive)
                .into_iter()
                .filter_map(|load| {
                    let (target, rate) = *self.ranking(&[load], Metric::RequestsPerSecond).last()?;
                    Some((target, rate, load))
                })
                .max_by(|a, b| a.1.estimate.total_cmp(&b.1.estimate));
            if let Some((target, rate, load)) = best {
                let bound =
                    if self.cells.marked(target, load, Mark::GeneratorSaturated) > 0 { "at least " } else { "" };
                sentences.push(format!(
                    "{}: {} with {bound}{} requests/s [{}] at {} connections.",
                    capital(mode(keep_alive)),
                    self.label(target),
                    text::number(rate.estimate),
                    text::ends(&rate),
                    load.concurrency
                ));
            }
        }
        (!sentences.is_empty()).then(|| Point::new("Requests a second", "The most answers came from these:", sentences))
    }

    /// Neighbours in the ranking by CPU that the run cannot order.
    fn not_distinguishable(&self) -> Option<Point> {
        let mut sentences = Vec::new();
        for &keep_alive in self.results.experiment.keep_alive.iter().rev() {
            let loads = self.loads(keep_alive);
            let ranking = self.ranking(&loads, Metric::CpuUsPerRequest);
            let pairs: Vec<String> = ranking
                .windows(2)
                .filter_map(|pair| {
                    let Comparison { ratio, claim, .. } = self.comparisons.of(pair[1].0, pair[0].0, &loads)?;
                    (claim == Verdict::NotDistinguishable).then(|| {
                        format!(
                            "{} and {} [{}]",
                            self.label(pair[0].0),
                            self.label(pair[1].0),
                            text::ratio_ends(&ratio)
                        )
                    })
                })
                .collect();
            if !pairs.is_empty() {
                sentences.push(format!("{}: {}.", capital(mode(keep_alive)), text::list(&pairs)));
            }
        }
        (!sentences.is_empty())
            .then(|| Point::new("Not told apart", "By CPU a request these neighbours cannot be ordered:", sentences))
    }
}

/// Rounds behind the best-measured target.
fn best_rounds(ranking: &[Ranked]) -> usize {
    ranking.iter().map(|(_, mean)| mean.rounds).max().unwrap_or(0)
}

/// The keep-alive mode in words.
pub fn mode(keep_alive: bool) -> &'static str {
    if keep_alive { "with keep-alive" } else { "without keep-alive" }
}

/// With a capital first letter, except for nginx, which has none.
pub fn capital(text: &str) -> String {
    if text.starts_with("nginx") {
        return text.to_owned();
    }
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::results::Missing;

    /// The text under a title, or nothing.
    fn point(answer: &Answer, title: &str) -> String {
        let found = answer.points.iter().find(|p| p.title.starts_with(title));
        found.map_or(String::new(), |p| format!("{}. {} {}", p.title, p.text, p.items.join(" ")))
    }

    fn has(text: &str, parts: &[&str]) {
        for part in parts {
            assert!(text.contains(part), "no {part:?} in: {text}");
        }
    }

    #[test]
    fn a_clear_winner_is_named_with_its_lead() {
        let got = answer(&fixture::clear_winner());
        has(
            &got.headline,
            &["Manifold percore needs the least CPU: 2.0 µs a request, 3.0 times", "less than manifold event"],
        );
        has(&got.headline, &["nginx needs 3.", "as much"]);
        has(&point(&got, "With a new connection"), &["Manifold percore needs the least CPU: 12.2 µs a request"]);
        has(
            &point(&got, "Beside Apache"),
            &["With keep-alive: prefork needs 3.0", "worker needs 3.0", "event needs 3.0", "Without keep-alive:"],
        );
        has(
            &point(&got, "Your choice"),
            &[": event.", "less than prefork", "less than worker", "Memory with 1000 connections"],
        );
        has(&point(&got, "The same choice"), &[": event."]);
        has(&point(&got, "Memory"), &["percore holds 8.0 MiB (PSS), the least; apache2 prefork holds 120 MiB"]);
        has(&point(&got, "Requests a second"), &["With keep-alive: manifold percore with 4"]);
        assert_eq!(got.limits.len(), 1, "{:?}", got.limits);
        has(&got.limits[0], &["With 5 rounds an interval is the range of the rounds", "93.8 %"]);
    }

    #[test]
    fn equal_targets_are_not_ordered() {
        // event and percore wobble differently around the same cost; nginx is far off.
        let got = answer(&fixture::of(&[0.0, 0.0, 6.0, 6.0, 0.0, 0.0, 0.0, 12.0]));
        has(
            &got.headline,
            &[
                "about the same CPU a request; this run cannot tell them apart",
                "event (6",
                "percore (6",
                "less than nginx",
            ],
        );
        has(&point(&got, "Not told apart"), &["manifold percore", "manifold event"]);
    }

    #[test]
    fn where_nothing_stands_out_that_is_the_answer() {
        let got = answer(&fixture::of(&[6.0, 6.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0]));
        has(&got.headline, &["No target stands out", "cannot tell them apart"]);
        // Event holds the least memory in the fixture.
        has(&point(&got, "Your choice"), &[": event.", "it holds the least memory of them"]);
    }

    /// Half of the cells without keep-alive are missing in two of three rounds: neither equal nor different.
    #[test]
    fn incomplete_rounds_do_not_make_targets_equal() {
        let mut results = fixture::clear_winner();
        results.experiment.rounds = 3;
        results.cells.retain(|cell| cell.round < 3);
        fixture::mark(&mut results, Mark::NothingCompleted, |cell| {
            cell.target == 7 && cell.round > 0 && cell.concurrency > 10
        });
        let got = answer(&results);
        has(&got.headline, &["Manifold percore needs the least CPU: 2.0 µs a request, 3.0"]);
        assert!(!got.headline.contains("nginx") && !point(&got, "Not told apart").contains("nginx"), "{got:?}");
    }

    #[test]
    fn a_model_that_leaves_connections_out_is_not_chosen() {
        let mut results = fixture::of(&[4.0, 7.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        for cell in results.cells.iter_mut().filter(|cell| cell.target == 0 && cell.concurrency == 1000) {
            cell.unserved = 744;
        }
        fixture::mark(&mut results, Mark::Unserved, |cell| cell.unserved > 0);
        let got = answer(&results);
        has(
            &point(&got, "Your choice"),
            &[
                ": event.",
                "without any answer within a cell: prefork 744 of 1000",
                "Of those that left no connection without an answer",
                "as much as prefork",
            ],
        );
        assert!(
            got.limits.iter().any(|l| l.contains("some connections got no answer at all: manifold prefork")),
            "{:?}",
            got.limits
        );
    }

    #[test]
    fn a_saturated_generator_is_said() {
        let mut results = fixture::clear_winner();
        fixture::mark(&mut results, Mark::GeneratorSaturated, |cell| cell.keep_alive);
        let got = answer(&results);
        has(&got.limits[0], &["saturated in 120 of 240 cells", "lower bounds"]);
        has(&point(&got, "Requests a second"), &["with at least"]);
    }

    #[test]
    fn what_looks_wrong_about_the_machine_is_said() {
        let mut results = fixture::clear_winner();
        results.environment.suspicions = vec!["The processors' frequency governor is powersave.".to_owned()];
        let limits = answer(&results).limits;
        assert!(limits.iter().any(|limit| limit.contains("powersave")), "{limits:?}");
    }

    #[test]
    fn a_busy_machine_is_said_first() {
        let mut results = fixture::clear_winner();
        fixture::mark(&mut results, Mark::Disturbed, |cell| cell.round == 0);
        has(&answer(&results).limits[0], &["in 48 of 240 cells."]);
        fixture::mark(&mut results, Mark::Disturbed, |cell| cell.round == 1);
        has(&answer(&results).limits[0], &["in 96 of 240 cells. The machine was not quiet"]);
    }

    #[test]
    fn missing_peers_are_said_and_compared_with_nothing() {
        let mut results = fixture::of(&[8.0, 7.0, 6.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
        results.missing.push(Missing { label: "nginx".to_owned(), reason: "nginx is not installed".to_owned() });
        let got = answer(&results);
        assert_eq!(point(&got, "Beside Apache"), "");
        assert_eq!(point(&got, "The same choice"), "");
        assert!(
            got.limits.iter().any(|l| l == "nginx is not in this run: nginx is not installed."),
            "{:?}",
            got.limits
        );
    }

    #[test]
    fn refused_cells_are_said() {
        let mut results = fixture::clear_winner();
        fixture::mark(&mut results, Mark::WrongLength, |cell| cell.target == 7);
        let got = answer(&results);
        assert!(
            got.limits.iter().any(|l| l.contains("wrong length came in 30 of 240 cells; these are left out")),
            "{:?}",
            got.limits
        );
        assert!(!got.headline.contains("nginx"), "{}", got.headline);
    }

    #[test]
    fn a_round_cut_short_is_no_answer() {
        let mut results = fixture::clear_winner();
        results.cells.truncate(5);
        let got = answer(&results);
        has(&got.headline, &["No round is complete"]);
        let mut results = fixture::clear_winner();
        results.cells.retain(|cell| cell.round < 2);
        has(&answer(&results).headline, &["percore has the lowest CPU a request, 2.0 µs, but 2 rounds are too few"]);
        results.cells.clear();
        has(&answer(&results).headline, &["No cell could be measured"]);
    }

    #[test]
    fn memory_that_could_not_be_read_is_said() {
        let mut results = fixture::clear_winner();
        for cell in results.cells.iter_mut().filter(|cell| cell.target == 4) {
            cell.pss_kib = None;
        }
        has(
            &point(&answer(&results), "Memory"),
            &["apache2 worker holds 50.0 MiB, the most", "Not read in time, and so not compared: apache2 prefork."],
        );
    }

    #[test]
    fn one_mode_alone_has_no_second_answer() {
        let mut results = fixture::clear_winner();
        results.experiment.keep_alive = vec![false];
        results.cells.retain(|cell| !cell.keep_alive);
        let got = answer(&results);
        has(&got.headline, &["12.2 µs"]);
        assert_eq!(point(&got, "With a new connection"), "");
    }
}
