//! The command line of `manifold load`.

use std::ffi::OsString;
use std::time::Duration;

use lexopt::prelude::{Long, Short, Value, ValueExt};

use super::pace::Pacing;
use crate::plan::Target;
use crate::schedule::{Pace, Think};
use crate::units::{self, SECONDS_MAX};

/// What `manifold load --help` prints.
pub const USAGE: &str = "\
Usage: manifold load URL -c N (-n N | --duration SECONDS) [options]
       manifold load --target-server [options]      (a server that does nothing but answer; see its --help)

Keeps N connections busy with one request each (closed loop), or sends requests by a schedule whatever becomes of
those before (open loop: --rate or --stage), and reports what came back.

  -c, --connections N     connections to keep busy (default 10)
  -n, --requests N        stop after N requests
  -t, --duration SECONDS  stop after this time
      --rate RATE         open loop: requests a second, as 250, 0.5, 30/min; latency counts from when a
                          request was due, so that what waits behind a stall is seen
      --arrivals HOW      `constant` (default) or `poisson`
      --stage R[..R]:S    open loop: a rate, or a line from one rate to another, for S seconds (repeatable)
      --think S           closed loop: pause of a connection between requests, as 0.5, 1..3 (evenly), exp:2 (mean)
      --ramp-up SECONDS   closed loop: connections begin spread over this time
      --drain SECONDS     how long requests due at the end may take to finish (default 5 with a rate, else 0)
      --seed N            decides all random choices (default 1)
      --warmup SECONDS    load before the measured window opens (default 0)
  -k, --keep-alive        keep connections for the next request
      --threads N         generator threads (default 1)
      --pin CPU[,CPU]     bind the threads to these CPUs, one each, in turn
  -H, --header 'N: V'     add a field to the request (repeatable)
      --head              send HEAD instead of GET
      --timeout SECONDS   a request without an answer after this time has failed (default 30)
      --expect-status N   the status every answer must have (default: any 2xx)
      --expect-length N   the body length every answer must have; `any` for no check
                          (default: that of the first answer)
      --json              print the report as one JSON document
  -h, --help              show this text

Exit status: 0 the run was made and its figures can be believed; 1 it could not be made;
2 wrong usage; 3 the run was made but is flagged (the report says why).
";

/// What was asked on the command line, checked.
#[derive(Clone, Debug)]
pub struct Options {
    /// The URL as written.
    pub url: String,
    /// The URL's parts.
    pub target: Target,
    /// Connections kept busy, at least 1.
    pub connections: u32,
    /// Stop after so many requests.
    pub requests: Option<u64>,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// What begins requests, from the window's beginning.
    pub pace: Pace,
    /// Spread of the connections' beginnings.
    pub ramp_up: Duration,
    /// Time for requests to end after the window.
    pub drain: Duration,
    /// Decides all random choices.
    pub seed: u64,
    /// Load before the window.
    pub warmup: Duration,
    /// Keep connections.
    pub keep_alive: bool,
    /// Threads, 1..=connections.
    pub threads: u32,
    /// CPUs for the threads.
    pub pin: Vec<usize>,
    /// Further fields of the request.
    pub headers: Vec<String>,
    /// HEAD instead of GET.
    pub head: bool,
    /// Limit of one request.
    pub timeout: Duration,
    /// Status every answer must have.
    pub expect_status: Option<u16>,
    /// Length every answer must have.
    pub expect_length: ExpectLength,
    /// JSON instead of text.
    pub json: bool,
}

/// The body length answers are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectLength {
    /// That of the first answer.
    First,
    /// This many bytes.
    Exactly(u64),
    /// Any.
    Any,
}

/// What the arguments amount to.
#[derive(Debug)]
pub enum Command {
    /// Make a run.
    Run(Box<Options>),
    /// Show [`USAGE`].
    Help,
}

/// Reads the arguments, without the program's name.
///
/// # Errors
/// A sentence for the user.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Command, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut url = None;
    let mut options = Options {
        url: String::new(),
        target: Target { host: String::new(), port: 80, path: String::new() },
        connections: 10,
        requests: None,
        duration: None,
        pace: Pace::Closed(Think::Never),
        ramp_up: Duration::ZERO,
        drain: Duration::ZERO,
        seed: 1,
        warmup: Duration::ZERO,
        keep_alive: false,
        threads: 1,
        pin: Vec::new(),
        headers: Vec::new(),
        head: false,
        timeout: Duration::from_secs(30),
        expect_status: None,
        expect_length: ExpectLength::First,
        json: false,
    };
    let mut pacing = Pacing::default();
    while let Some(arg) = parser.next().map_err(text)? {
        match arg {
            Short('c') | Long("connections") => options.connections = number(&mut parser, "-c", 1, 1_000_000)?,
            Short('n') | Long("requests") => options.requests = Some(number(&mut parser, "-n", 1, u64::MAX)?),
            Short('t') | Long("duration") => options.duration = Some(seconds(&mut parser, "--duration")?),
            Long("rate") => pacing.rate(&value(&mut parser)?)?,
            Long("stage") => pacing.stage(&value(&mut parser)?)?,
            Long("arrivals") => pacing.arrivals(&value(&mut parser)?)?,
            Long("think") => pacing.think(&value(&mut parser)?)?,
            Long("ramp-up") => options.ramp_up = seconds(&mut parser, "--ramp-up")?,
            Long("drain") => pacing.drain = Some(seconds(&mut parser, "--drain")?),
            Long("seed") => options.seed = number(&mut parser, "--seed", 0, u64::MAX)?,
            Long("warmup") => options.warmup = seconds(&mut parser, "--warmup")?,
            Short('k') | Long("keep-alive") => options.keep_alive = true,
            Long("threads") => options.threads = number(&mut parser, "--threads", 1, 1024)?,
            Long("pin") => options.pin = cpus(&value(&mut parser)?)?,
            Short('H') | Long("header") => options.headers.push(header(value(&mut parser)?)?),
            Long("head") => options.head = true,
            Long("timeout") => options.timeout = seconds(&mut parser, "--timeout")?,
            Long("expect-status") => options.expect_status = Some(number(&mut parser, "--expect-status", 100, 999)?),
            Long("expect-length") => options.expect_length = length(&value(&mut parser)?)?,
            Long("json") => options.json = true,
            Short('h') | Long("help") => return Ok(Command::Help),
            Value(given) if url.is_none() => url = Some(given.string().map_err(text)?),
            Value(_) => return Err("one URL only".to_owned()),
            other => return Err(text(other.unexpected())),
        }
    }
    options.url = url.ok_or("the URL is missing")?;
    options.target = Target::parse(&options.url)?;
    pacing.finish(&mut options)?;
    check(&options)?;
    Ok(Command::Run(Box::new(options)))
}

/// Rules between options.
fn check(options: &Options) -> Result<(), String> {
    if options.requests.is_none() && options.duration.is_none() {
        return Err("give -n N or --duration SECONDS, or it would never end".to_owned());
    }
    if options.requests.is_some_and(|requests| requests < u64::from(options.connections)) {
        return Err("fewer requests than connections: some connections would have nothing to do".to_owned());
    }
    if options.threads > options.connections {
        return Err("more threads than connections".to_owned());
    }
    if options.timeout.is_zero() || options.duration.is_some_and(|duration| duration.is_zero()) {
        return Err("--timeout and --duration must be above 0".to_owned());
    }
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn value(parser: &mut lexopt::Parser) -> Result<String, String> {
    parser.value().map_err(text)?.string().map_err(text)
}

fn number<N: TryFrom<u64>>(parser: &mut lexopt::Parser, name: &str, least: u64, most: u64) -> Result<N, String> {
    let given = value(parser)?;
    let number = given.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
    number
        .and_then(|number| N::try_from(number).ok())
        .ok_or_else(|| format!("{name} {given}: a whole number from {least} is needed"))
}

fn seconds(parser: &mut lexopt::Parser, name: &str) -> Result<Duration, String> {
    let given = value(parser)?;
    units::duration(&given)
        .ok_or_else(|| format!("{name} {given}: seconds from 0 to {SECONDS_MAX} are needed, or as 500ms, 2min"))
}

fn cpus(list: &str) -> Result<Vec<usize>, String> {
    list.split(',')
        .map(|cpu| cpu.trim().parse().map_err(|_| format!("--pin {list}: CPU numbers with commas are needed")))
        .collect()
}

fn header(line: String) -> Result<String, String> {
    let named = line.split_once(':').is_some_and(|(name, _)| !name.is_empty() && !name.contains(' '));
    if named && !line.contains(['\r', '\n']) { Ok(line) } else { Err(format!("-H {line:?}: `Name: value` is needed")) }
}

fn length(given: &str) -> Result<ExpectLength, String> {
    match given {
        "any" => Ok(ExpectLength::Any),
        _ => given
            .parse()
            .map(ExpectLength::Exactly)
            .map_err(|_| format!("--expect-length {given}: a number or `any` is needed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn a_full_line() {
        let line = "http://h/x -c8 --duration 2.5 --warmup 1 -k --threads 2 --pin 0,1 --expect-status 200 --expect-length 44 --timeout 5 --json";
        let Ok(Command::Run(options)) = read(line) else { panic!("not read") };
        assert_eq!((options.connections, options.threads, options.pin.as_slice()), (8, 2, [0, 1].as_slice()));
        assert_eq!((options.duration, options.warmup), (Some(Duration::from_millis(2500)), Duration::from_secs(1)));
        assert!(options.keep_alive && options.json);
        assert_eq!((options.expect_status, options.expect_length), (Some(200), ExpectLength::Exactly(44)));
        assert_eq!(options.timeout, Duration::from_secs(5));
    }

    #[test]
    fn wrong_lines_are_refused_with_a_sentence() {
        for (line, part) in [
            ("", "URL is missing"),
            ("http://h/", "never end"),
            ("http://h/ -n 5 -c 10", "fewer requests"),
            ("http://h/ -n 50 -c 2 --threads 3", "more threads"),
            ("http://h/ -n 0", "whole number"),
            ("http://h/ -t -1", "seconds"),
            ("http://h/ -t nan", "seconds"),
            ("http://h/ -n 10 --timeout 0", "above 0"),
            ("https://h/ -n 10", "https is not built"),
            ("http://h/ -n 10 -H nocolon", "Name: value"),
            ("http://h/ http://i/ -n 10", "one URL"),
            ("http://h/ -n 10 --what", "--what"),
            ("http://h/ -t 1 --rate 0", "--rate 0"),
            ("http://h/ -t 1 --rate 10/week", "--rate 10/week"),
            ("http://h/ -t 1 --rate 5 --stage 5:1", "one of --rate and --stage"),
            ("http://h/ --stage 5", "--stage 5"),
            ("http://h/ --stage 5..x:1", "--stage 5..x:1"),
            ("http://h/ --stage 0..0:1", "no request at all"),
            ("http://h/ -t 1 --rate 5 --think 1", "--think is of the closed loop"),
            ("http://h/ -t 1 --rate 5 --ramp-up 1", "--ramp-up is of the closed loop"),
            ("http://h/ -t 1 --arrivals poisson", "--arrivals needs"),
            ("http://h/ -t 1 --rate 5 --arrivals random", "`constant` or `poisson`"),
            ("http://h/ -t 1 --think 3..1", "--think 3..1"),
        ] {
            let error = read(line).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
