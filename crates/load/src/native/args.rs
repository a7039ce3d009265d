//! The command line of `manifold load`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::{Long, Short, Value, ValueExt};

use super::find_max::FindMax;
use super::replay::{Log, Replay};
use super::settings::{Settings, is_flag};
use super::spec::{RequestSpec, Route};
use super::{plan_file, security};
use crate::plan::{PollerKind, Protocol};
use crate::schedule::Pace;
use crate::tls;
use crate::verdict::Threshold;

/// What `manifold load --help` prints.
pub fn usage() -> String {
    format!("{OPTIONS}{}{STATUS}", security::USAGE)
}

const OPTIONS: &str = "\
Usage: manifold load URL... -c N (-n N | --duration SECONDS) [options]
       manifold load merge A.json B.json ...        (the reports of several machines as one; see its --help)
       manifold load compare BASE.json NEW.json     (the ratios of two reports; see its --help)
       manifold load --target-server [options]      (a server that does nothing but answer; see its --help)

Keeps N connections busy with one request each (closed loop), or sends requests by a schedule whatever becomes of
those before (open loop: --rate or --stage), and reports what came back.

  -c, --connections N     connections to keep busy (default 10; 100 in a search or a replay)
  -n, --requests N        stop after N requests
  -t, --duration SECONDS  stop after this time
      --rate RATE         open loop: requests a second, as 250, 0.5, 30/min; latency counts from when a
                          request was due, so that what waits behind a stall is seen
      --arrivals HOW      `constant` (default) or `poisson`
      --stage R[..R]:S    open loop: a rate, or a line from one rate to another, for S seconds (repeatable)
      --think S           closed loop: pause of a connection between requests, as 0.5, 1..3 (evenly), exp:2 (mean)
      --ramp-up SECONDS   closed loop: connections begin spread over this time
      --drain SECONDS     how long requests due at the end may take to finish (default 5 with a rate, else 0)
      --awake             open loop: threads never sleep, a CPU each; answers are seen as soon as they come
      --seed N            decides all random choices (default 1)
      --find-max LIST     search the highest rate at which these conditions hold, as 'p99<50ms,errors<0.1%', in steps
                          of -t (default 10 s) from --rate on
      --precision PART    of the search: distance of neighbouring rates (default 5%)
      --budget TIME       of the search: how long it may take (default 15min)
      --replay LOG        send the GETs and HEADs of an access log (common, combined, vhost_combined; may be gzip's) at
                          the times at which they came, to the URL (which may be given as --target URL)
      --replay-speed N    so many times as fast; `max`: as fast as -c connections are answered (closed loop)
      --replay-rate RATE  so fast that this is the mean rate
      --replay-unsafe     other methods as well, without bodies
      --replay-referer, --replay-user-agent   send the fields of the combined format
      --warmup SECONDS    load before the measured window opens (default 0; 1 in a search)
  -k, --keep-alive        keep connections for the next request
      --http2             speak HTTP/2 (without TLS: from the first byte); connections are kept
      --streams N         with --http2: requests at once on each connection (default 1)
      --threads N         generator threads (default 1)
      --pin CPU[,CPU]     bind the threads to these CPUs, one each, in turn
  -H, --header 'N: V'     add a field to the request (repeatable)
  -m, --method METHOD     instead of GET
  -d, --data TEXT|@FILE   the request's body
      --head              the same as --method HEAD
      --plan FILE         a plan in TOML: these options under their long names, and requests as [[request]] tables
                          with url, method, data, header, weight, expect-...
      --poller HOW        `ring` (default; epoll where io_uring is missing, and for open loops) or `epoll`
      --timeout SECONDS   a request without an answer after this time has failed (default 30)
      --expect-status N   the status every answer must have (default: any 2xx)
      --expect-length N   the body length every answer must have; `any` for no check
                          (default: that of the first answer)
      --expect-body-contains TEXT   the body of every answer must have this text in it
      --expect-sha256 SUM           the body of every answer must have this SHA-256
      --resolve H:P:ADDR  connect to ADDR for host H and port P (repeatable)
      --unix-socket PATH  connect to this socket instead
      --source ADDR       connect from this local address; several are used in turn
  -4, -6, --ipv4, --ipv6  only addresses of this family
      --fail-on LIST      conditions that make the run fail, as 'p99>50ms,errors>1%,non2xx>0,rate<1000'
      --compare BASE.json say how many times the figures of an earlier report (--json) these are, with intervals;
                          --fail-on takes ratios then, as 'p99>1.1x,rate<0.95x'
      --csv FILE          write the time series
      --hdr FILE          write the latencies as an HdrHistogram log
      --json              print the report as one JSON document
      --no-view           no live view where standard error is a terminal, but a line now and then as elsewhere
      --progress TIME     how often such a line is written (default 10 s; 0: never)
";

const STATUS: &str = "\
  -h, --help              show this text

Exit status: 0 the run was made and its figures can be believed; 1 it could not be made;
2 wrong usage; 3 the run was made but is flagged (the report says why); 99 a condition of --fail-on holds, or
those of --find-max at no rate.
";

/// What was asked for, checked.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is sent; at least one.
    pub requests: Vec<RequestSpec>,
    /// Where from and where to.
    pub route: Route,
    /// How connections of https are secured.
    pub tls: tls::Settings,
    /// Connections open at most, at least 1.
    pub connections: u32,
    /// Stop after so many requests.
    pub stop_requests: Option<u64>,
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
    /// What is spoken.
    pub protocol: Protocol,
    /// Keep connections.
    pub keep_alive: bool,
    /// Threads, 1..=connections.
    pub threads: u32,
    /// CPUs for the threads.
    pub pin: Vec<usize>,
    /// Limit of one request.
    pub timeout: Duration,
    /// How threads wait.
    pub poller: PollerKind,
    /// Threads of an open loop never sleep.
    pub awake: bool,
    /// JSON instead of text.
    pub json: bool,
    /// At a terminal the run is shown live.
    pub view: bool,
    /// Elsewhere, how often a line says how it stands; zero: never.
    pub progress: Duration,
    /// What the run must not do.
    pub fail_on: Vec<Threshold>,
    /// Where the time series goes.
    pub csv: Option<PathBuf>,
    /// Where the latencies go, as an HdrHistogram log.
    pub hdr: Option<PathBuf>,
    /// The report of an earlier run, to be held against.
    pub compare: Option<OsString>,
    /// Not one run but a search.
    pub find_max: Option<FindMax>,
    /// A log is to be replayed.
    pub replay: Option<Replay>,
    /// It, once it has been read.
    pub log: Option<Log>,
}

impl Options {
    /// What is sent: the log's requests where there is one.
    pub fn specs(&self) -> &[RequestSpec] {
        self.log.as_ref().map_or(&self.requests, |log| &log.specs)
    }
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
    /// Show [`usage`].
    Help,
}

/// Reads the arguments, without the program's name.
///
/// # Errors
/// A sentence for the user.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Command, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut settings = Settings::default();
    // A plan comes first, wherever it stands: what is said beside it wins.
    let mut given = Vec::new();
    while let Some(arg) = parser.next().map_err(text)? {
        let name = match arg {
            Short('h') | Long("help") => return Ok(Command::Help),
            Value(url) => {
                given.push((URL.to_owned(), Some(url.string().map_err(text)?)));
                continue;
            }
            Short('c') => "connections".to_owned(),
            Short('n') => "requests".to_owned(),
            Short('t') => "duration".to_owned(),
            Short('k') => "keep-alive".to_owned(),
            Short('H') => "header".to_owned(),
            Short('m') => "method".to_owned(),
            Short('d') => "data".to_owned(),
            Short('4') => "ipv4".to_owned(),
            Short('6') => "ipv6".to_owned(),
            Long(name) => name.to_owned(),
            other @ Short(_) => return Err(text(other.unexpected())),
        };
        if name == PLAN {
            let path = parser.value().map_err(text)?.string().map_err(text)?;
            let plan = std::fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
            plan_file::read(&path, &plan, &mut settings)?;
            continue;
        }
        let value = if is_flag(&name) { None } else { Some(parser.value().map_err(text)?.string().map_err(text)?) };
        given.push((name, value));
    }
    for (name, value) in given {
        match value {
            Some(url) if name == URL => settings.url(&url)?,
            Some(value) => settings.set(&name, &value).map_err(|said| format!("--{name} {said}"))?,
            None => settings.flag(&name, true)?,
        }
    }
    Ok(Command::Run(Box::new(settings.finish()?)))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The option that names a plan file.
const PLAN: &str = "plan";
/// What a URL on the command line counts as; no option has this name.
const URL: &str = "";

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
        let request = &options.requests[0];
        assert_eq!((request.expect_status, request.expect_length), (Some(200), ExpectLength::Exactly(44)));
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
            ("ftp://h/ -n 10", "no http:// or https:// URL"),
            ("https://h/ -n 10 --tls-min 1.0", "--tls-min 1.0: TLS before 1.2"),
            ("https://h/ -n 10 --tls-min 1.3 --tls-max 1.2", "--tls-min is above"),
            ("https://h/ -n 10 --ciphers RC4-MD5", "--ciphers RC4-MD5: no such"),
            ("https://h/ -n 10 --key k.pem", "--key needs --cert"),
            ("https://h/ -n 10 --alpn h2,,x", "--alpn: names"),
            ("http://h/ -n 10 -H nocolon", "Name: value"),
            ("http://h/ -n 10 --what 3", "--what there is no such option"),
            ("http://h/ -n 10 -m GE:T", "is no method"),
            ("http://h/ -n 10 -d @/nowhere/at/all", "cannot read the body"),
            ("http://h/ -n 10 --plan /nowhere/at/all", "cannot read /nowhere"),
            ("http://h/ -n 10 --fail-on p99", "there is no < or >"),
            ("http://h/ -n 10 --resolve h:80", "HOST:PORT:ADDRESS"),
            ("http://h/ -n 10 --source here", "an IP address"),
            ("http://h/ -n 10 --streams 5", "--streams needs --http2"),
            ("http://h/ -n 10 --http2 --streams 0", "--streams 0: a whole number"),
            ("http://h/ -n 10 -c5 --http2 --streams 5", "fewer requests than connections"),
            ("http://h/ -n 10 --poller select", "`ring` or `epoll`"),
            ("http://h/ -n 10 -4 -6", "one of --ipv4 and --ipv6"),
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
            ("http://h/ --find-max p99>5ms", "what is not to be"),
            ("http://h/ --find-max p99<5ms -n 100", "give -t, not -n"),
            ("http://h/ --find-max p99<5ms --stage 5:1", "leave out --stage"),
            ("http://h/ --find-max p99<5ms --fail-on p99>5ms", "rate<NUMBER"),
            ("http://h/ --find-max p99<5ms --precision 0", "from 0.1%"),
            ("http://h/ --find-max p99<5ms --csv f", "of one run"),
            ("http://h/ -t 1 --budget 5min", "give --find-max"),
            ("--replay f", "URL is missing"),
            ("http://h/ -t 1 --expect-sha256 abc", "64 hexadecimal"),
            ("http://h/ http://h/ --replay f", "give one URL"),
            ("http://h/ --replay f --rate 5", "has the times"),
            ("http://h/ --replay f --replay-speed 0", "a number is needed"),
            ("http://h/ --replay f --replay-speed 2 --replay-rate 5", "one of --replay-speed and --replay-rate"),
            ("http://h/ -t 1 --replay-unsafe", "need --replay LOG"),
            ("http://h/ -t 1 --fail-on p99>1.1x", "give --compare"),
        ] {
            let error = read(line).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
