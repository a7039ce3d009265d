//! The statistics behind every figure of the laboratory: pure functions of numbers and a seed.
//!
//! A run measures each cell (one target under one load) once a *round*, and the rounds are interleaved in random
//! order. So a round is the unit of every interval: noise that lasts seconds (a neighbour on the machine, a warm
//! cache) hits all cells of a round alike, and a ratio taken within a round is free of it.
//!
//! - [`quantile`] and [`median`]: sample quantiles, Hyndman and Fan's type 7.
//! - [`median_interval`]: a median with its interval over rounds.
//! - [`ratio_interval`]: how many times one target's figure is another's, paired by round.
//! - [`runs_ratio_interval`]: the same of two runs whose rounds have nothing to do with each other.
//! - [`Interval::verdict`]: whether a ratio is told apart from 1 at all.
//! - [`judge`]: what may be claimed of many ratios at once; [`judge_look`] while rounds still come in.
//! - [`attainable_level`]: how sure an interval over so few rounds can be at best, to be said beside it.
//! - [`share_interval`]: what part of requests was bad, where neighbours share their fate.
//! - [`sums_interval`] and [`quotient`]: an interval within one run from its seconds, and the ratio of two.
//! - [`halving`]: which of many candidates are worth further rounds.
//! - [`capacity`]: which rate to try next in search of the highest at which conditions hold.
//!
//! Nothing here reads a clock or a random device: the same numbers and the same seed give the same answer.
#![forbid(unsafe_code)]

pub mod capacity;
mod claims;
mod describe;
pub mod halving;
mod interval;
mod rank_sum;
mod rng;
mod series;
mod share;
mod sign;
mod signed_rank;
#[cfg(test)]
mod simulation;

pub use claims::{Comparison, ERROR, Rounds, judge, judge_look, next_look};
pub use describe::{geometric_mean, median, quantile};
pub use interval::{Interval, LEVEL, ROUNDS_MIN, Verdict, attainable_level};
pub use rank_sum::runs_ratio_interval;
pub use rng::Rng;
pub use series::{SECONDS_MIN, quotient, sums_interval};
pub use share::{Batch, Level, ShareInterval, share_interval};
pub use sign::median_interval;
pub use signed_rank::ratio_interval;
