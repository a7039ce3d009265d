//! What a run is to do, as far as one sees by it how far it has come: pure.

use std::time::Duration;

use crate::native::args::Options;
use crate::native::summary::{others, threads};
use crate::plan::Protocol;
use crate::schedule::{Pace, Stage};

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Goal {
    /// What is asked of whom.
    pub title: String,
    /// Connections and what begins requests.
    pub shape: String,
    /// Load before the window.
    pub warmup: Duration,
    /// Length of the window.
    pub duration: Option<Duration>,
    /// Requests in the window.
    pub requests: Option<u64>,
    /// The rate of an open loop over the window's time.
    stages: Vec<Stage>,
    /// Generator threads.
    pub threads: u32,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// What it does.
    pub phase: &'static str,
    /// The part that is done, 0..=1.
    pub done: f64,
    /// How long the rest takes if nothing changes.
    pub left: Option<Duration>,
}

impl Goal {
    /// Of a run with these options.
    pub fn of(options: &Options) -> Goal {
        let streams = match options.protocol {
            Protocol::Http1 => String::new(),
            Protocol::Http2 { streams } => format!(", HTTP/2 with {streams} streams each"),
        };
        let (stages, listed) = match &options.pace {
            Pace::Open { stages, .. } => (stages.clone(), None),
            Pace::Listed(list) => (Vec::new(), Some(list.len() as u64)),
            Pace::Closed(_) => (Vec::new(), None),
        };
        let loop_ = match (options.pace.is_open(), listed) {
            (_, Some(_)) => "replay",
            (true, None) => "open loop",
            (false, None) => "closed loop",
        };
        Goal {
            title: format!("{}{}", options.requests[0].url, others(options.requests.len())),
            shape: format!("{loop_}, {} connections{streams}, {}", options.connections, threads(options.threads)),
            warmup: options.warmup,
            duration: options.duration,
            requests: options.stop_requests.into_iter().chain(listed).min(),
            stages,
            threads: options.threads,
        }
    }

    /// The rate that is asked for so long after the run's beginning; `None`: none is.
    pub fn rate(&self, elapsed: Duration) -> Option<f64> {
        let mut at = elapsed.saturating_sub(self.warmup);
        for stage in &self.stages {
            match stage.length {
                Some(length) if at >= length => at -= length,
                Some(length) => {
                    return Some(stage.from + (stage.to - stage.from) * at.as_secs_f64() / length.as_secs_f64());
                }
                None => return Some(stage.from),
            }
        }
        None
    }

    /// How far it has come after `elapsed`, with so many requests of the window over.
    pub fn progress(&self, elapsed: Duration, over: u64) -> Progress {
        let Some(in_window) = elapsed.checked_sub(self.warmup) else {
            let left = self.duration.map(|duration| self.warmup + duration - elapsed);
            return Progress { phase: "warming up", done: 0.0, left };
        };
        let by_time = self
            .duration
            .map(|duration| (in_window.as_secs_f64() / duration.as_secs_f64(), duration.saturating_sub(in_window)));
        let by_count = self.requests.filter(|_| over > 0).map(|requests| {
            let done = over as f64 / requests as f64;
            let rest = in_window.as_secs_f64() * (1.0 / done - 1.0).max(0.0);
            (done, Duration::try_from_secs_f64(rest).unwrap_or(Duration::MAX))
        });
        let done = [by_time, by_count].into_iter().flatten().map(|(done, _)| done).fold(0.0, f64::max).min(1.0);
        let left = [by_time, by_count].into_iter().flatten().map(|(_, left)| left).min();
        let phase = if done < 1.0 { "running" } else { "waiting for the last answers" };
        Progress { phase, done, left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::args::{Command, parse};

    fn goal(line: &str) -> Goal {
        let words = ["http://h/"].into_iter().chain(line.split_whitespace()).map(std::ffi::OsString::from);
        let Ok(Command::Run(options)) = parse(words) else { panic!("{line} is not understood") };
        Goal::of(&options)
    }

    #[test]
    fn what_is_asked_for_is_said() {
        let check = |line: &str, shape: &str| assert_eq!(goal(line).shape, shape);
        check("-c 5 -t 1", "closed loop, 5 connections, 1 thread");
        check("-c 5 -t 1 --rate 9 --threads 2", "open loop, 5 connections, 2 threads");
        check("-c 5 -t 1 --http2 --streams 7", "closed loop, 5 connections, HTTP/2 with 7 streams each, 1 thread");
        assert_eq!(goal("http://h/b -t 1").title, "http://h/ and 1 more request");
    }

    #[test]
    fn the_rate_asked_for_follows_the_stages() {
        let check = |line: &str, at: f64, expected: Option<f64>| {
            assert_eq!(goal(line).rate(Duration::from_secs_f64(at)), expected, "{line} at {at}");
        };
        check("-t 9", 1.0, None);
        check("-t 9 --rate 250", 100.0, Some(250.0));
        let stages = "--stage 0..100:10 --stage 500:5 --warmup 2";
        for (at, expected) in [(1.0, Some(0.0)), (7.0, Some(50.0)), (13.0, Some(500.0)), (17.5, None)] {
            check(stages, at, expected);
        }
    }

    #[test]
    fn progress_is_that_of_time_or_of_requests_whichever_ends_the_run() {
        let check = |line: &str, at: f64, over: u64, expected: (&'static str, f64, Option<f64>)| {
            let (phase, done, left) = expected;
            let expected = Progress { phase, done, left: left.map(Duration::from_secs_f64) };
            assert_eq!(goal(line).progress(Duration::from_secs_f64(at), over), expected, "{line} at {at}");
        };
        check("-t 10 --warmup 2", 0.5, 0, ("warming up", 0.0, Some(11.5)));
        check("-t 10 --warmup 2", 4.5, 9, ("running", 0.25, Some(7.5)));
        check("-t 10", 12.0, 9, ("waiting for the last answers", 1.0, Some(0.0)));
        check("-n 100 -c 1", 4.0, 0, ("running", 0.0, None));
        check("-n 100 -c 1", 4.0, 25, ("running", 0.25, Some(12.0)));
        check("-n 100 -c 1 -t 10", 4.0, 25, ("running", 0.4, Some(6.0)));
        check("-n 100 -c 1 -t 100", 4.0, 25, ("running", 0.25, Some(12.0)));
    }
}
