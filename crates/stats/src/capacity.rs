//! The search for the highest rate at which conditions still hold: which rate is to be tried next, and when enough is known.
//!
//! A condition is a share of requests that may be bad: `p99<50ms` allows 1 % of them to take 50 ms or longer. Rates lie on a geometric grid
//! whose neighbours are the wanted precision apart. The search doubles the rate until the conditions fail, halves the gap on the grid until
//! a rate that holds and one that fails are neighbours, and measures both of these at least twice. A step decides only where the whole
//! [`share_interval`] is on one side of what is allowed; otherwise the rate is tried again and the batches of all its steps count together,
//! up to [`LOOKS_MAX`] times, after which it stays undecided: the answer's interval is the wider for it, and its estimate says on which side.
//!
//! What is assumed is that a server which fails at a rate fails above it. A server for which that is not so has several such borders, and
//! one of them is found. A server that changes meanwhile contradicts itself: then the newer step counts, and the finding says so.

use std::collections::BTreeMap;

use crate::share::{Batch, Level, share_interval};

/// A rate that stays undecided after so many steps is left so.
pub const LOOKS_MAX: u32 = 6;
/// Each end of the answer is measured so often.
const LOOKS_AT_BORDER: u32 = 2;
/// A rate that cannot be measured so often in a row is beyond the generator.
const INVALID_MAX: u32 = 2;
/// A server that has contradicted itself so often is not looked at for longer.
const CONTRADICTIONS_MAX: u32 = 4;

/// What is searched for.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The rate to begin with, above 0.
    pub start: f64,
    /// Below this a rate is not worth having.
    pub lowest: f64,
    /// Beyond this nobody asks.
    pub highest: f64,
    /// How far neighbouring rates are apart, as a share of themselves; above 0.
    pub precision: f64,
    /// For each condition, the share of requests that may be bad.
    pub allowed: Vec<f64>,
}

/// What a step at a rate, or all of them together, says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// All conditions hold.
    Holds,
    /// At least one fails.
    Fails,
    /// The requests are too few to tell.
    Undecided,
}

/// What a step brought.
#[derive(Clone, Debug)]
pub enum Measured {
    /// For each condition, its batches of requests.
    Batches(Vec<Vec<Batch>>),
    /// Nothing: the generator could not keep the rate.
    Invalid,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Measure.
    Try {
        /// At this rate.
        rate: f64,
        /// With at least so many requests. A first look has no such number: that a rate fails badly is often seen in few.
        requests: u64,
    },
    /// There is nothing more to learn.
    Done,
}

/// How far the search has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// The best guess, from `low` to `high`.
    pub estimate: Option<f64>,
    /// The highest rate that surely holds, below all that fail.
    pub low: Option<f64>,
    /// The lowest rate above it that surely fails, or could not be measured.
    pub high: Option<f64>,
    /// What `high` is.
    pub border: Border,
    /// The server held a rate and failed it later, or the other way round.
    pub unstable: bool,
    /// `low` and `high` have been measured as often as they should, and nothing between them is left to try.
    pub complete: bool,
}

/// What ends the range of rates that hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// A rate that fails.
    Failing,
    /// A rate that the generator cannot keep.
    Generator,
    /// None was found: the highest rate of all still holds.
    None,
}

/// The state of a search.
#[derive(Clone, Debug)]
pub struct Search {
    wanted: Wanted,
    /// What is known, by place on the grid; the start is at 0.
    places: BTreeMap<i32, Place>,
    contradictions: u32,
}

/// What is known of a rate.
#[derive(Clone, Debug, Default)]
struct Place {
    /// For each condition, the batches of all steps.
    batches: Vec<Vec<Batch>>,
    looks: u32,
    invalid: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Holds,
    Fails,
    /// After all the steps it may have.
    Undecided,
    /// The generator cannot keep it.
    Wall,
    /// Another step is to tell.
    Open,
}

/// What conditions that allow these shares are to these batches.
pub fn decide(allowed: &[f64], batches: &[Vec<Batch>], level: Level) -> Decision {
    let mut decision = Decision::Holds;
    for (allowed, batches) in allowed.iter().zip(batches) {
        match share_interval(batches, level) {
            Some(share) if share.low > *allowed => return Decision::Fails,
            Some(share) if share.high <= *allowed => {}
            _ => decision = Decision::Undecided,
        }
    }
    decision
}

/// So many requests a step needs to show that no more than `allowed` of them are bad, even if a tenth of these are.
pub fn requests_needed(allowed: f64) -> u64 {
    (10.0 / allowed.max(1e-9)).ceil() as u64
}

impl Search {
    /// A search of which nothing is known yet.
    pub fn new(wanted: Wanted) -> Search {
        Search { wanted, places: BTreeMap::new(), contradictions: 0 }
    }

    /// What is to be done next.
    pub fn next(&self) -> Next {
        match self.next_place() {
            Some(place) => Next::Try { rate: self.rate(place), requests: self.requests(place) },
            None => Next::Done,
        }
    }

    /// Takes in what the step that [`Search::next`] asked for has brought, and says what that step alone decides.
    pub fn tell(&mut self, measured: Measured) -> Option<Decision> {
        let place = self.next_place()?;
        let known = self.places.entry(place).or_default();
        let Measured::Batches(batches) = measured else {
            known.invalid += 1;
            return None;
        };
        let allowed = &self.wanted.allowed;
        let alone = decide(allowed, &batches, Level::Usual);
        let surely = |batches: &[Vec<Batch>]| decide(allowed, batches, Level::Strict);
        let pair = if known.looks > 0 { (surely(&known.batches), surely(&batches)) } else { (alone, alone) };
        if matches!(pair, (Decision::Holds, Decision::Fails) | (Decision::Fails, Decision::Holds)) {
            // The server is another than before; what it was says nothing any more.
            self.contradictions += 1;
            *known = Place::default();
        }
        known.invalid = 0;
        known.looks += 1;
        known.batches.resize(allowed.len(), Vec::new());
        known.batches.iter_mut().zip(batches).for_each(|(all, more)| all.extend(more));
        Some(alone)
    }

    /// What is known by now.
    pub fn finding(&self) -> Finding {
        let (low, top) = (self.low(), self.top());
        let border = match top.map(|top| self.state(top)) {
            Some(State::Wall) => Border::Generator,
            Some(_) => Border::Failing,
            None => Border::None,
        };
        Finding {
            estimate: self.estimate(),
            low: low.map(|low| self.rate(self.surest((i32::MIN, low), Decision::Holds).unwrap_or(low))),
            high: top.map(|top| match border {
                Border::Failing => self.rate(self.surest((top, i32::MAX), Decision::Fails).unwrap_or(top)),
                Border::Generator | Border::None => self.rate(top),
            }),
            border,
            unstable: self.contradictions > 0,
            complete: self.contradictions < CONTRADICTIONS_MAX && self.next_place().is_none(),
        }
    }

    fn next_place(&self) -> Option<i32> {
        if self.contradictions >= CONTRADICTIONS_MAX {
            return None;
        }
        if self.places.is_empty() {
            return Some(0);
        }
        if let Some(place) = self.places.keys().find(|place| self.state(**place) == State::Open) {
            return Some(*place);
        }
        let (low, top) = (self.low(), self.top());
        let undecided = |place: &&i32| {
            self.state(**place) == State::Undecided
                && low.is_none_or(|low| low < **place)
                && top.is_none_or(|top| **place < top)
        };
        let first = self.places.keys().find(undecided).copied();
        let last = self.places.keys().rfind(undecided).copied();
        let Some(low) = low else {
            let lowest = first.or(top)?;
            return Some(lowest - self.doubling()).filter(|place| self.rate(*place) >= self.wanted.lowest);
        };
        // First what holds and what does not are made neighbours, then what is undecided and what fails.
        let gaps = [(Some(low), first.or(top)), (last.or(Some(low)), top)];
        for (below, above) in gaps {
            match (below, above) {
                (Some(below), Some(above)) if above - below > 1 => return Some(below + (above - below) / 2),
                (Some(below), None) if below < self.highest() => {
                    return Some((below + self.doubling()).min(self.highest()));
                }
                _ => {}
            }
        }
        // What fails first, so that what holds is the newest.
        let too_few = |place: &i32| self.places[place].looks < LOOKS_AT_BORDER && self.state(*place) != State::Wall;
        top.filter(too_few).or(Some(low).filter(too_few))
    }

    /// The lowest place that fails or is a wall.
    fn top(&self) -> Option<i32> {
        self.places.keys().copied().find(|place| matches!(self.state(*place), State::Fails | State::Wall))
    }

    /// The highest place below `top` that holds.
    fn low(&self) -> Option<i32> {
        let top = self.top().unwrap_or(i32::MAX);
        self.places.keys().copied().rfind(|place| *place < top && self.state(*place) == State::Holds)
    }

    fn state(&self, place: i32) -> State {
        let Some(known) = self.places.get(&place) else { return State::Open };
        if known.invalid >= INVALID_MAX {
            return State::Wall;
        }
        if known.looks == 0 {
            return State::Open;
        }
        match decide(&self.wanted.allowed, &known.batches, Level::Usual) {
            Decision::Holds => State::Holds,
            Decision::Fails => State::Fails,
            Decision::Undecided if known.looks < LOOKS_MAX => State::Open,
            Decision::Undecided => State::Undecided,
        }
    }

    /// Of the places in a range, the innermost of which this is known strictly. The search itself goes on with what is known less surely, and
    /// looks often: some of its many decisions are wrong, and what the answer's interval rests on must not be.
    fn surest(&self, (from, to): (i32, i32), decision: Decision) -> Option<i32> {
        let is_sure = |(_, known): &(&i32, &Place)| {
            known.looks > 0 && decide(&self.wanted.allowed, &known.batches, Level::Strict) == decision
        };
        let mut sure = self.places.range(from..=to).filter(is_sure).map(|(place, _)| *place);
        if decision == Decision::Holds { sure.next_back() } else { sure.next() }
    }

    /// Where the share of bad requests, which can only grow with the rate, most likely passes what is allowed: the first of all conditions.
    fn estimate(&self) -> Option<f64> {
        let low = self.rate(self.low()?);
        let high = self.top().map(|top| self.rate(top));
        let conditions = 0..self.wanted.allowed.len();
        let crossings = conditions.filter_map(|condition| self.crossing(condition, self.wanted.allowed[condition]));
        // Without a crossing the highest rate of those that were tried is the best there is.
        let highest = self.places.keys().copied().rfind(|place| self.is_tried_below_top(*place));
        let guess = crossings.reduce(f64::min).or(highest.map(|place| self.rate(place)))?;
        Some(guess.max(low).min(high.unwrap_or(f64::INFINITY)))
    }

    /// The rate at which the shares, made monotone and joined by lines on logarithmic axes, pass `allowed`.
    fn crossing(&self, condition: usize, allowed: f64) -> Option<f64> {
        let point = |(place, known): (&i32, &Place)| {
            let share = share_interval(known.batches.get(condition)?, Level::Usual)?;
            // Few requests in which nothing was bad are no share of 0: half a one might have been.
            let likely = (share.estimate * share.worth + 0.5) / (share.worth + 1.0);
            Some(Block { first: *place, last: *place, share: likely, worth: share.worth })
        };
        let measured = self.places.iter().filter(|(_, known)| known.invalid < INVALID_MAX);
        let blocks = monotone(measured.filter_map(point));
        let above = blocks.iter().position(|block| block.share > allowed).filter(|above| *above > 0)?;
        let (below, above) = (blocks[above - 1], blocks[above]);
        let part = ((allowed / below.share).ln() / (above.share / below.share).ln()).clamp(0.0, 1.0);
        let (from, to) = (self.rate(below.last).ln(), self.rate(above.first).ln());
        Some((from + (to - from) * part).exp())
    }

    /// It has been measured, and does not fail.
    fn is_tried_below_top(&self, place: i32) -> bool {
        self.places[&place].looks > 0 && self.top().is_none_or(|top| place < top)
    }

    /// The least requests of a place's next step.
    fn requests(&self, place: i32) -> u64 {
        if self.places.get(&place).is_none_or(|known| known.looks == 0) {
            return 0;
        }
        self.wanted.allowed.iter().map(|allowed| requests_needed(*allowed)).max().unwrap_or(0)
    }

    fn rate(&self, place: i32) -> f64 {
        self.wanted.start * (1.0 + self.wanted.precision).powi(place)
    }

    /// So many places lie between a rate and its double, or nearly so.
    fn doubling(&self) -> i32 {
        (2f64.ln() / self.wanted.precision.ln_1p()).round().max(1.0) as i32
    }

    /// The last place that is not beyond the highest rate.
    fn highest(&self) -> i32 {
        ((self.wanted.highest / self.wanted.start).ln() / self.wanted.precision.ln_1p() + 1e-9).floor().max(0.0) as i32
    }
}

/// Neighbouring places with one share of bad requests.
#[derive(Clone, Copy, Debug)]
struct Block {
    first: i32,
    last: i32,
    share: f64,
    worth: f64,
}

/// The nearest shares that never fall, by pooling neighbours that do (Ayer and others, Annals of Mathematical Statistics 26, 1955).
fn monotone(points: impl Iterator<Item = Block>) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for mut block in points {
        while let Some(before) = blocks.pop_if(|before| before.share > block.share) {
            let worth = before.worth + block.worth;
            let share = (before.share * before.worth + block.share * block.worth) / worth;
            block = Block { first: before.first, last: block.last, share, worth };
        }
        blocks.push(block);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(precision: f64) -> Search {
        Search::new(Wanted { start: 100.0, lowest: 10.0, highest: 1e5, precision, allowed: vec![0.01] })
    }

    /// The rates tried when `answer` says which part of 2,000 requests is bad, or that they cannot be sent.
    fn tried(search: &mut Search, answer: impl Fn(f64) -> Option<u64>) -> Vec<f64> {
        let mut rates = Vec::new();
        while let Next::Try { rate, .. } = search.next() {
            rates.push(rate);
            assert!(rates.len() < 100, "it does not end: {rates:?}");
            search.tell(match answer(rate) {
                Some(bad) => Measured::Batches(vec![vec![Batch { all: 2000, bad }]]),
                None => Measured::Invalid,
            });
        }
        rates
    }

    #[test]
    fn a_border_is_bracketed_on_the_grid() {
        let mut search = search(1.0);
        let rates = tried(&mut search, |rate| Some(if rate <= 450.0 { 0 } else { 500 }));
        assert_eq!(rates, [100.0, 200.0, 400.0, 800.0, 800.0, 400.0]);
        let found = search.finding();
        assert_eq!((found.low, found.high, found.border), (Some(400.0), Some(800.0), Border::Failing));
        assert!(found.complete && !found.unstable);
    }

    #[test]
    fn what_cannot_be_told_is_tried_again_and_then_left_open() {
        let mut search = search(1.0);
        let rates = tried(&mut search, |rate| {
            Some(if rate < 400.0 {
                0
            } else if rate > 400.0 {
                500
            } else {
                20
            })
        });
        assert_eq!(rates.iter().filter(|rate| **rate == 400.0).count() as u32, LOOKS_MAX, "{rates:?}");
        let found = search.finding();
        assert_eq!((found.low, found.high, found.complete), (Some(200.0), Some(800.0), true));
        assert!(found.estimate.is_some_and(|rate| (390.0..=410.0).contains(&rate)), "{found:?}");
    }

    #[test]
    fn the_ends_are_said_as_what_they_are() {
        let check = |answer: fn(f64) -> Option<u64>, low: Option<f64>, border: Border| {
            let mut search = search(1.0);
            tried(&mut search, answer);
            let found = search.finding();
            assert_eq!((found.low, found.border, found.complete), (low, border, true), "{found:?}");
        };
        check(|_| Some(2000), None, Border::Failing);
        check(|_| Some(0), Some(51_200.0), Border::None);
        check(|rate| (rate < 1000.0).then_some(0), Some(800.0), Border::Generator);
        check(|_| None, None, Border::Generator);
        check(|_| Some(20), None, Border::None);
    }

    #[test]
    fn a_server_that_contradicts_itself_is_told_and_not_followed_for_ever() {
        let mut search = search(1.0);
        let mut steps = 0;
        while let Next::Try { .. } = search.next() {
            steps += 1;
            // It holds what it is asked first, and nothing that it is asked again.
            let bad = if steps <= 3 { 0 } else { 1000 };
            search.tell(Measured::Batches(vec![vec![Batch { all: 2000, bad }]]));
            assert!(steps < 100);
        }
        assert!(search.finding().unstable);
    }

    #[test]
    fn a_step_needs_ten_bad_requests_to_be_allowed() {
        assert_eq!((requests_needed(0.01), requests_needed(0.001), requests_needed(0.5)), (1000, 10_000, 20));
        let none = [Batch { all: requests_needed(0.01), bad: 1 }];
        assert_eq!(decide(&[0.01], &[none.to_vec()], Level::Usual), Decision::Holds);
    }
}
