//! What ab never had, behind long options only, so that nothing of its own command line means anything else.

use std::path::PathBuf;
use std::time::Duration;

use crate::units;
use crate::verdict::{self, Threshold};

/// Threads at most.
const THREADS_MAX: u32 = 1024;
/// Streams of a connection at most.
const STREAMS_MAX: u32 = 100_000;
/// Runs at most.
const REPEAT_MAX: u32 = 10_000;

/// The long options.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beyond {
    /// `--threads`.
    pub threads: Option<u32>,
    /// `--rate`: requests a second, whatever becomes of those before.
    pub rate: Option<f64>,
    /// `--http1.1`.
    pub http11: bool,
    /// `--http2`, with the requests at once on each connection (`--streams`).
    pub http2: Option<usize>,
    /// `--warmup`.
    pub warmup: Duration,
    /// `--repeat`: how many runs, if more than one.
    pub repeat: Option<u32>,
    /// `--json`.
    pub json: bool,
    /// `--hdr`.
    pub hdr: Option<PathBuf>,
    /// `--fail-on`.
    pub fail_on: Vec<Threshold>,
    /// `--percentiles`, as written and as numbers.
    pub percentiles: Vec<(String, f64)>,
}

/// The long options with their values, and a line on each.
pub const OPTIONS: &[(&str, &str)] = &[
    ("--threads N", "Share the connections among so many threads (processors)"),
    (
        "--rate R",
        "Send R requests a second, e.g. 250 or 30/min, whatever\n                    becomes of those before; times count from when one was due",
    ),
    ("--warmup T", "Load before the figures begin, e.g. 5s"),
    ("--repeat N", "Make so many runs, and say how much they differ"),
    ("--percentiles P", "Show these in microseconds, e.g. 50,99,99.9"),
    ("--json", "Print a report as `manifold load --json` does, and nothing else"),
    ("--hdr FILE", "Write the times as a log for HdrHistogram's tools"),
    (
        "--fail-on LIST",
        "End with exit status 99 where one of these holds,\n                    e.g. 'p99>50ms,non2xx>0'",
    ),
    ("--http1.1", "Send HTTP/1.1"),
    ("--http2", "Speak HTTP/2 from the first byte; connections are kept"),
    ("--streams N", "With --http2: requests at once on each connection (1)"),
];

impl Beyond {
    /// Whether a report as of `manifold load` is needed.
    pub fn reports(&self) -> bool {
        self.json || self.hdr.is_some() || !self.fail_on.is_empty()
    }

    /// Takes an option; `value` gives what follows it.
    ///
    /// # Errors
    /// A sentence.
    pub fn take(&mut self, name: &str, mut value: impl FnMut() -> Option<String>) -> Result<(), String> {
        let mut needed = || value().ok_or_else(|| format!("--{name} needs a value"));
        let number = |given: &str, most: u32| given.parse().ok().filter(|number| (1..=most).contains(number));
        match name {
            "threads" => {
                let given = needed()?;
                let threads = number(&given, THREADS_MAX);
                self.threads = Some(
                    threads.ok_or_else(|| format!("--threads {given}: a number from 1 to {THREADS_MAX} is needed"))?,
                );
            }
            "repeat" => {
                let given = needed()?;
                let repeat = number(&given, REPEAT_MAX);
                self.repeat =
                    Some(repeat.ok_or_else(|| format!("--repeat {given}: a number from 1 to {REPEAT_MAX} is needed"))?);
            }
            "rate" => {
                let given = needed()?;
                let rate = units::rate(&given).filter(|rate| *rate > 0.0);
                self.rate =
                    Some(rate.ok_or_else(|| {
                        format!("--rate {given}: requests a second are needed, as 250, 0.5 or 30/min")
                    })?);
            }
            "warmup" => {
                let given = needed()?;
                self.warmup = units::duration(&given)
                    .ok_or_else(|| format!("--warmup {given}: a time is needed, as 5s or 500ms"))?;
            }
            "percentiles" => {
                let given = needed()?;
                self.percentiles = percentiles(&given)
                    .ok_or_else(|| format!("--percentiles {given}: numbers from 0 to 100 are needed, as 50,99,99.9"))?;
            }
            "json" => self.json = true,
            "hdr" => self.hdr = Some(needed()?.into()),
            "fail-on" => self.fail_on.extend(verdict::parse(&needed()?)?),
            "http1.1" => self.http11 = true,
            "http2" => self.http2 = self.http2.or(Some(1)),
            "streams" => {
                let given = needed()?;
                let streams = number(&given, STREAMS_MAX);
                let streams =
                    streams.ok_or_else(|| format!("--streams {given}: a number from 1 to {STREAMS_MAX} is needed"))?;
                self.http2 = Some(streams as usize);
            }
            _ => return Err(format!("there is no option --{name}")),
        }
        Ok(())
    }
}

fn percentiles(given: &str) -> Option<Vec<(String, f64)>> {
    let one = |text: &str| {
        let number = text.trim().parse::<f64>().ok().filter(|number| (0.0..=100.0).contains(number))?;
        Some((text.trim().to_owned(), number))
    };
    given.split(',').map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(name: &str, value: Option<&str>) -> Result<Beyond, String> {
        let mut beyond = Beyond::default();
        beyond.take(name, || value.map(str::to_owned)).map(|()| beyond)
    }

    #[test]
    fn long_options_are_read() {
        let none = Beyond::default;
        let check =
            |name: &str, value: &str, expected: Beyond| assert_eq!(take(name, Some(value)), Ok(expected), "{name}");
        check("threads", "3", Beyond { threads: Some(3), ..none() });
        check("repeat", "5", Beyond { repeat: Some(5), ..none() });
        check("rate", "30/min", Beyond { rate: Some(0.5), ..none() });
        check("warmup", "500ms", Beyond { warmup: Duration::from_millis(500), ..none() });
        check(
            "percentiles",
            "50, 99.9",
            Beyond { percentiles: vec![("50".into(), 50.0), ("99.9".into(), 99.9)], ..none() },
        );
        check("json", "", Beyond { json: true, ..none() });
        check("hdr", "x", Beyond { hdr: Some("x".into()), ..none() });
        assert_eq!(take("fail-on", Some("p99>50ms,non2xx>0")).unwrap().fail_on.len(), 2);
        check("http1.1", "", Beyond { http11: true, ..none() });
        check("http2", "", Beyond { http2: Some(1), ..none() });
        check("streams", "7", Beyond { http2: Some(7), ..none() });
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_name() {
        for (name, value) in [
            ("threads", Some("0")),
            ("threads", None),
            ("repeat", Some("x")),
            ("rate", Some("0")),
            ("warmup", Some("5d")),
            ("percentiles", Some("50,101")),
            ("streams", Some("0")),
            ("such", None),
        ] {
            let sentence = take(name, value).unwrap_err();
            assert!(sentence.contains(&format!("--{name}")), "{sentence}");
        }
    }
}
