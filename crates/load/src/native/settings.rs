//! Options by their names, wherever they were written: on the command line or in a plan file.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use memchr::memmem::Finder;

use super::args::{ExpectLength, Options};
use super::find_max::options as find_max;
use super::pace::{DRAIN, Pacing};
use super::replay;
use super::security::{self, Security};
use super::spec::{RequestSpec, Resolve, Route, body, header, method};
use super::watch;
use crate::content::Expected;
use crate::plan::{PollerKind, Protocol, Target};
use crate::schedule::{Pace, Think};
use crate::tls;
use crate::units::{self, SECONDS_MAX};
use crate::verdict;

/// Options without a value, those of groups apart.
const FLAGS: &[&str] = &["keep-alive", "http2", "head", "json", "no-view", "ipv4", "ipv6", "awake"];
/// Connections, unless something else is said.
const CONNECTIONS: u32 = 10;
/// The same where the rate is not what is asked for, but what is to be found or was measured.
const CONNECTIONS_MANY: u32 = 100;
/// Streams of a connection at most; servers allow 100 to 1,000.
const STREAMS_MAX: u64 = 100_000;
/// Streams of all connections at most.
const STREAMS_ALL_MAX: u64 = 10_000_000;
/// Requests at most.
const REQUESTS_MAX: usize = 10_000;

/// What may be said of a request, or of all, besides URL and weight.
const REQUEST_KEYS: &[&str] =
    &["method", "header", "data", "expect-status", "expect-length", "expect-body-contains", "expect-sha256"];

/// Whether an option has no value.
pub fn is_flag(name: &str) -> bool {
    FLAGS.contains(&name) || security::FLAGS.contains(&name) || replay::FLAGS.contains(&name)
}

/// What may be said of one request, or of all that do not say it themselves.
#[derive(Clone, Debug, Default)]
struct RawRequest {
    url: Option<(String, Target)>,
    method: Option<String>,
    headers: Vec<String>,
    body: Option<Vec<u8>>,
    weight: Option<u32>,
    expect_status: Option<u16>,
    expect_length: Option<ExpectLength>,
    expect_content: Expected,
}

/// What was said so far.
#[derive(Debug)]
pub struct Settings {
    options: Options,
    connections: Option<u32>,
    warmup: Option<Duration>,
    pacing: Pacing,
    search: find_max::Given,
    security: Security,
    replay: replay::Given,
    http2: bool,
    streams: Option<usize>,
    /// Said of all requests.
    all: RawRequest,
    requests: Vec<RawRequest>,
    /// The one being described.
    current: RawRequest,
}

impl Default for Settings {
    fn default() -> Settings {
        let options = Options {
            requests: Vec::new(),
            route: Route::default(),
            tls: tls::Settings::default(),
            connections: CONNECTIONS,
            stop_requests: None,
            duration: None,
            pace: Pace::Closed(Think::Never),
            ramp_up: Duration::ZERO,
            drain: Duration::ZERO,
            seed: 1,
            warmup: Duration::ZERO,
            keep_alive: false,
            protocol: Protocol::Http1,
            threads: 1,
            pin: Vec::new(),
            timeout: Duration::from_secs(30),
            json: false,
            view: true,
            progress: watch::PROGRESS,
            awake: false,
            poller: PollerKind::Ring,
            fail_on: Vec::new(),
            compare: None,
            csv: None,
            hdr: None,
            find_max: None,
            replay: None,
            log: None,
        };
        Settings {
            options,
            connections: None,
            warmup: None,
            pacing: Pacing::default(),
            search: find_max::Given::default(),
            security: Security::default(),
            replay: replay::Given::default(),
            http2: false,
            streams: None,
            all: RawRequest::default(),
            requests: Vec::new(),
            current: RawRequest::default(),
        }
    }
}

impl Settings {
    /// An option with a value.
    ///
    /// # Errors
    /// What is wrong with the value, which the sentence begins with; the option is the caller's to name.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let options = &mut self.options;
        match name {
            "connections" => self.connections = Some(number(value, 1, 1_000_000)?),
            "requests" => options.stop_requests = Some(number(value, 1, u64::MAX)?),
            "duration" => options.duration = Some(seconds(value)?),
            "rate" => self.pacing.rate(value)?,
            "target" => self.url(value)?,
            "stage" => self.pacing.stage(value)?,
            "arrivals" => self.pacing.arrivals(value)?,
            "think" => self.pacing.think(value)?,
            "drain" => self.pacing.drain = Some(seconds(value)?),
            "ramp-up" => options.ramp_up = seconds(value)?,
            "streams" => self.streams = Some(number(value, 1, STREAMS_MAX)?),
            "seed" => options.seed = number(value, 0, u64::MAX)?,
            "warmup" => self.warmup = Some(seconds(value)?),
            "timeout" => options.timeout = seconds(value)?,
            "threads" => options.threads = number(value, 1, 1024)?,
            "pin" => options.pin = cpus(value)?,
            "resolve" => options.route.resolve.push(Resolve::parse(value)?),
            "unix-socket" => options.route.unix_socket = Some(PathBuf::from(value)),
            "source" => options.route.source.push(source(value)?),
            "fail-on" => options.fail_on.extend(verdict::parse_with_ratios(value)?),
            "poller" => options.poller = poller(value)?,
            "compare" => options.compare = Some(value.into()),
            "csv" => options.csv = Some(PathBuf::from(value)),
            "progress" => options.progress = seconds(value)?,
            "hdr" => options.hdr = Some(PathBuf::from(value)),
            _ => {
                let of_groups = self.search.set(name, value).or_else(|| self.replay.set(name, value));
                let of_groups = of_groups.or_else(|| self.security.set(name, value));
                let known = of_groups.or_else(|| self.all.set(name, value));
                return known.unwrap_or_else(|| Err("there is no such option".to_owned()));
            }
        }
        Ok(())
    }

    /// An option without a value.
    ///
    /// # Errors
    /// If it contradicts another.
    pub fn flag(&mut self, name: &str, on: bool) -> Result<(), String> {
        let route = &mut self.options.route;
        match name {
            "keep-alive" => self.options.keep_alive = on,
            "http2" => self.http2 = on,
            "json" => self.options.json = on,
            "no-view" => self.options.view = !on,
            "awake" => self.options.awake = on,
            "head" if on => self.all.method = Some("HEAD".to_owned()),
            "ipv4" | "ipv6" if on => {
                let v6 = name == "ipv6";
                if route.only_v6.is_some_and(|only| only != v6) {
                    return Err("give one of --ipv4 and --ipv6".to_owned());
                }
                route.only_v6 = Some(v6);
            }
            _ => {
                self.replay.flag(name, on);
                self.security.flag(name, on);
            }
        }
        Ok(())
    }

    /// A request of which nothing is known but its URL.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn url(&mut self, url: &str) -> Result<(), String> {
        self.begin_request();
        self.set_of_request("url", url)?;
        self.end_request()
    }

    /// Another request is described.
    pub fn begin_request(&mut self) {
        self.current = RawRequest::default();
    }

    /// Something of the request being described.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn set_of_request(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "url" => self.current.url = Some((value.to_owned(), Target::parse(value)?)),
            "weight" => self.current.weight = Some(number(value, 0, 1_000_000)?),
            _ => {
                let known = self.current.set(name, value);
                return known.unwrap_or_else(|| Err("there is no such key of a request".to_owned()));
            }
        }
        Ok(())
    }

    /// The request being described is described.
    ///
    /// # Errors
    /// If it has no URL, or is one too many.
    pub fn end_request(&mut self) -> Result<(), String> {
        if self.current.url.is_none() {
            return Err("the URL is missing".to_owned());
        }
        if self.requests.len() == REQUESTS_MAX {
            return Err(format!("more than {REQUESTS_MAX} requests"));
        }
        self.requests.push(std::mem::take(&mut self.current));
        Ok(())
    }

    /// All was said.
    ///
    /// # Errors
    /// What is missing, or does not go together.
    pub fn finish(self) -> Result<Options, String> {
        let Settings { mut options, mut pacing, search, replay, security, http2, streams, all, requests, .. } = self;
        let many = search.is_search() || replay.is_replay();
        options.connections = self.connections.unwrap_or(if many { CONNECTIONS_MANY } else { CONNECTIONS });
        options.warmup = self.warmup.unwrap_or(if search.is_search() { find_max::WARM_UP } else { Duration::ZERO });
        options.find_max = search.finish(&mut options, &mut pacing)?;
        options.tls = security.finish()?;
        if http2 {
            options.protocol = Protocol::Http2 { streams: streams.unwrap_or(1) };
            options.keep_alive = true;
            options.tls.alpn = vec!["h2".to_owned()];
        } else if streams.is_some() {
            return Err("--streams needs --http2: HTTP/1.1 has one request at a time on a connection".to_owned());
        }
        options.requests = requests.into_iter().map(|request| request.finish(&all)).collect();
        if options.requests.is_empty() {
            return Err("the URL is missing".to_owned());
        }
        if options.requests.iter().all(|request| request.weight == 0) {
            return Err("all requests have the weight 0".to_owned());
        }
        let drain = pacing.drain.unwrap_or(DRAIN);
        pacing.finish(&mut options)?;
        options.replay = replay.finish(&options)?;
        if options.replay.as_ref().is_some_and(|replay| replay.speed != replay::Speed::Closed) {
            options.drain = drain;
        }
        check(&options)?;
        Ok(options)
    }
}

impl RawRequest {
    /// `None`: there is no such key.
    fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
        let mut set = || {
            match name {
                "method" => self.method = Some(method(value.to_owned())?),
                "header" => self.headers.push(header(value.to_owned())?),
                "data" => self.body = Some(body(value)?),
                "expect-status" => self.expect_status = Some(number(value, 100, 999)?),
                "expect-body-contains" => self.expect_content.contains = Some(text(value)?),
                "expect-sha256" => self.expect_content.sha256 = Some(Expected::sha256(value)?),
                _ => self.expect_length = Some(length(value)?),
            }
            Ok(())
        };
        REQUEST_KEYS.contains(&name).then(&mut set)
    }

    /// What it does not say itself is as said of all; fields are added to those of all.
    fn finish(self, all: &RawRequest) -> RequestSpec {
        let (url, target) = self.url.expect("it was looked at when the request was read");
        let body = self.body.or_else(|| all.body.clone()).unwrap_or_default();
        let usual = if body.is_empty() { "GET" } else { "POST" };
        RequestSpec {
            url,
            target,
            method: self.method.or_else(|| all.method.clone()).unwrap_or_else(|| usual.to_owned()),
            headers: [all.headers.as_slice(), &self.headers].concat(),
            body,
            weight: self.weight.unwrap_or(1),
            expect_status: self.expect_status.or(all.expect_status),
            expect_length: self.expect_length.or(all.expect_length).unwrap_or(ExpectLength::First),
            expect_content: if self.expect_content.is_any() { all.expect_content.clone() } else { self.expect_content },
        }
    }
}

/// Rules between options.
fn check(options: &Options) -> Result<(), String> {
    if options.compare.is_none() && options.fail_on.iter().any(verdict::Threshold::is_ratio) {
        return Err("--fail-on has a ratio, and nothing to compare with: give --compare BASE.json".to_owned());
    }
    if options.stop_requests.is_none() && options.duration.is_none() && options.replay.is_none() {
        return Err("give -n N or --duration SECONDS, or it would never end".to_owned());
    }
    let closed = !options.pace.is_open() && options.replay.is_none();
    let at_once = u64::from(options.connections).saturating_mul(options.protocol.streams() as u64);
    if closed && options.stop_requests.is_some_and(|requests| requests < at_once) {
        return Err("fewer requests than connections (times streams): some would have nothing to do".to_owned());
    }
    if at_once > STREAMS_ALL_MAX {
        return Err(format!("more than {STREAMS_ALL_MAX} requests at once (connections times streams)"));
    }
    if options.threads > options.connections {
        return Err("more threads than connections".to_owned());
    }
    if options.timeout.is_zero() || options.duration.is_some_and(|duration| duration.is_zero()) {
        return Err("--timeout and --duration must be above 0".to_owned());
    }
    Ok(())
}

fn number<N: TryFrom<u64>>(given: &str, least: u64, most: u64) -> Result<N, String> {
    let number = given.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
    number
        .and_then(|number| N::try_from(number).ok())
        .ok_or_else(|| format!("{given}: a whole number from {least} is needed"))
}

fn seconds(given: &str) -> Result<Duration, String> {
    units::duration(given)
        .ok_or_else(|| format!("{given}: seconds from 0 to {SECONDS_MAX} are needed, or as 500ms, 2min"))
}

fn cpus(list: &str) -> Result<Vec<usize>, String> {
    list.split(',')
        .map(|cpu| cpu.trim().parse().map_err(|_| format!("{list}: CPU numbers with commas are needed")))
        .collect()
}

fn source(given: &str) -> Result<IpAddr, String> {
    given.parse().map_err(|_| format!("{given}: an IP address is needed"))
}

fn poller(given: &str) -> Result<PollerKind, String> {
    match given {
        "ring" => Ok(PollerKind::Ring),
        "epoll" => Ok(PollerKind::Epoll),
        _ => Err(format!("{given}: `ring` or `epoll` is needed")),
    }
}

fn text(given: &str) -> Result<Finder<'static>, String> {
    if given.is_empty() {
        return Err("every body contains an empty text; give one that is not".to_owned());
    }
    Ok(Finder::new(given.as_bytes()).into_owned())
}

fn length(given: &str) -> Result<ExpectLength, String> {
    match given {
        "any" => Ok(ExpectLength::Any),
        _ => given.parse().map(ExpectLength::Exactly).map_err(|_| format!("{given}: a number or `any` is needed")),
    }
}
