//! What to send, where, how often and for how long: everything decided before the first connection is opened.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use manifold_stats::Rng;

use crate::content::{Expected, Look};
use crate::schedule::{Arrival, Pace, Think};
use crate::tls::Client;

/// What every thread of a run does: prepared once; nothing in it changes while the load runs, except the tickets.
#[derive(Debug)]
pub struct Plan {
    /// The servers that requests go to; never empty.
    pub endpoints: Vec<Endpoint>,
    /// What is sent; never empty.
    pub requests: Vec<Request>,
    /// Which of the requests is next.
    pub order: Order,
    /// What begins a request.
    pub pace: Pace,
    /// Local addresses to connect from, in turn; none: the system's choice.
    pub local: Vec<IpAddr>,
    /// Size of the sockets' send and receive buffers in bytes.
    pub socket_buffer: Option<usize>,
    /// Connections of this plan at most, over all threads.
    pub connections: usize,
    /// What is spoken on them.
    pub protocol: Protocol,
    /// In a closed loop connections begin evenly spread over this time.
    pub ramp_up: Duration,
    /// Whether the next request follows on the same connection where the answer allows it.
    pub keep_alive: bool,
    /// What ends an answer whose connection is not kept.
    pub end: AnswerEnd,
    /// When to stop.
    pub stop: Stop,
    /// After the stop's duration no request begins; those that were due by then may take this long to end.
    pub drain: Duration,
    /// Load before the measured window.
    pub warmup: Duration,
    /// How long to wait, and for what.
    pub timeout: Timeout,
    /// Open one connection first and the others once the head of its answer has come, so that a dead server meets one connection only.
    pub probe_first: bool,
    /// Pause of a connection after it could not be made, so that a refusing server does not turn the generator into a busy loop.
    pub connect_pause: Duration,
    /// Decides every random choice.
    pub seed: u64,
    /// How the threads wait.
    pub poller: PollerKind,
    /// In an open loop the threads never sleep: answers are seen when they come, and not when a sleeping processor has woken.
    pub awake: bool,
}

/// How threads wait for their connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollerKind {
    /// In io_uring, or in epoll where that is missing or forbidden.
    Ring,
    /// In epoll.
    Epoll,
}

impl Plan {
    /// One connection that sends `request` to `addresses` again and again without end: what a front end begins with.
    pub fn one(addresses: Vec<SocketAddr>, request: Vec<u8>) -> Plan {
        Plan {
            endpoints: vec![Endpoint { addresses: addresses.into_iter().map(Address::Inet).collect(), tls: None }],
            requests: vec![Request { bytes: request, head_request: false, endpoint: 0, weight: 1, content: None }],
            order: Order::Weighted,
            pace: Pace::Closed(Think::Never),
            local: Vec::new(),
            socket_buffer: None,
            connections: 1,
            protocol: Protocol::Http1,
            ramp_up: Duration::ZERO,
            keep_alive: false,
            end: AnswerEnd::Framing,
            stop: Stop { requests: None, duration: None },
            drain: Duration::ZERO,
            warmup: Duration::ZERO,
            timeout: Timeout::Exchange(Duration::from_secs(30)),
            probe_first: false,
            connect_pause: Duration::ZERO,
            seed: 0,
            poller: PollerKind::Ring,
            awake: false,
        }
    }
}

/// What is spoken on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 or HTTP/1.1, whatever the requests say.
    Http1,
    /// HTTP/2, from the first byte on.
    Http2 {
        /// Requests at once on each connection, at least 1.
        streams: usize,
    },
}

impl Protocol {
    /// The word for it in reports.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http1 => "http/1",
            Protocol::Http2 { .. } => "http/2",
        }
    }

    /// Requests at once on each connection.
    pub fn streams(self) -> usize {
        match self {
            Protocol::Http1 => 1,
            Protocol::Http2 { streams } => streams,
        }
    }
}

/// A server.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Where to connect; further addresses are tried only while no answer has come from an earlier one. Never empty.
    pub addresses: Vec<Address>,
    /// How connections to it are secured, if they are.
    pub tls: Option<Client>,
}

/// Where to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Over TCP.
    Inet(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// One request, ready to be sent.
#[derive(Clone, Debug)]
pub struct Request {
    /// Head and body; for HTTP/2 as [`h2::request`](crate::h2::request) renders them.
    pub bytes: Vec<u8>,
    /// It is a HEAD: its answer has no body whatever the head says.
    pub head_request: bool,
    /// Its server's place in [`Plan::endpoints`].
    pub endpoint: usize,
    /// How often it is sent, compared with the others.
    pub weight: u32,
    /// What the body of its answer has to be.
    pub content: Option<Arc<Expected>>,
}

impl Request {
    /// A look at the body of an answer to it, where it has to be something; an answer to a HEAD has none.
    pub fn look(&self) -> Option<Box<Look>> {
        self.content.as_ref().filter(|_| !self.head_request).map(|expected| Box::new(Look::new(expected)))
    }
}

/// Which request is next, where the schedule does not name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// By chance, each as often as its weight says.
    Weighted,
    /// Each connection goes through the list and begins again; the connections begin at places evenly spread.
    InTurn,
    /// All connections go through this list once, together; its times mean nothing. [`Stop::requests`] is not above its length.
    Listed(Arc<[Arrival]>),
}

/// What ends an answer whose connection is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEnd {
    /// Its framing (length or chunks). The server is then given the time to close before the next connection is opened.
    Framing,
    /// The server's close, whatever the framing says, as ab measures. Here a connection is kept only if the answer says so in words,
    /// since ab sends HTTP/1.0 requests.
    Close,
}

/// When a run ends: at the first of both.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// After this many requests in the window have ended, well or badly.
    pub requests: Option<u64>,
    /// After this much window.
    pub duration: Option<Duration>,
}

/// What is waited for at most how long.
#[derive(Clone, Copy, Debug)]
pub enum Timeout {
    /// Each request, from its start to the end of its answer; one that takes longer has failed and its connection is closed.
    Exchange(Duration),
    /// Any event on any connection; if none comes the whole run is given up (ab's `-s`).
    Silence(Duration),
}

/// The requests left to start, shared by all threads.
#[derive(Debug)]
pub struct Tickets {
    left: Option<AtomicU64>,
    all: u64,
}

impl Tickets {
    /// `None`: without end.
    pub fn new(requests: Option<u64>) -> Tickets {
        Tickets { left: requests.map(AtomicU64::new), all: requests.unwrap_or(0) }
    }

    /// Takes one and returns its number, from 0 (always 0 where there are endlessly many); `None` when all are gone.
    pub fn take(&self) -> Option<u64> {
        let Some(left) = &self.left else { return Some(0) };
        let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        before.ok().map(|before| self.all - before)
    }

    /// Takes as many as are left, at most `wanted`; returns how many.
    pub fn take_up_to(&self, wanted: u64) -> u64 {
        let Some(left) = &self.left else { return wanted };
        let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(wanted)));
        before.unwrap_or(0).min(wanted)
    }
}

/// Chooses requests by their weights.
#[derive(Debug)]
pub struct Picker {
    /// Weights up to and with each request.
    sums: Vec<u64>,
}

impl Picker {
    /// For these requests.
    pub fn new(requests: &[Request]) -> Picker {
        let sum = |sum: &mut u64, request: &Request| {
            *sum += u64::from(request.weight);
            Some(*sum)
        };
        Picker { sums: requests.iter().scan(0, sum).collect() }
    }

    /// The place of the next one; the first where no weight is above 0.
    pub fn next(&self, rng: &mut Rng) -> usize {
        match self.sums.last() {
            Some(&all) if self.sums.len() > 1 && all > 0 => {
                let chosen = rng.below(usize::try_from(all).unwrap_or(usize::MAX)) as u64;
                self.sums.partition_point(|sum| *sum <= chosen)
            }
            _ => 0,
        }
    }
}

/// The parts of an `http://` or `https://` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// It is https.
    pub secure: bool,
    /// Host as written, without brackets.
    pub host: String,
    /// Port, 80 where none is written, for https 443.
    pub port: u16,
    /// Path and query, beginning with `/`.
    pub path: String,
}

impl Target {
    /// Reads an absolute `http://` or `https://` URL; a missing path is `/`, a fragment is dropped.
    ///
    /// # Errors
    /// A sentence saying what is wrong with it.
    pub fn parse(url: &str) -> Result<Target, String> {
        let (secure, rest) = match (strip_scheme(url, "http://"), strip_scheme(url, "https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            (None, None) => return Err(format!("`{url}` is no http:// or https:// URL")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        if let Some(bad) = path.chars().find(|c| c.is_ascii_control() || *c == ' ') {
            return Err(format!("{bad:?} cannot stand in a URL; write it percent-encoded"));
        }
        if authority.contains('@') {
            return Err("user and password in a URL are not supported".to_owned());
        }
        let (host, port) = split_authority(authority).ok_or_else(|| format!("`{authority}` is no host and port"))?;
        let port = port.unwrap_or(if secure { 443 } else { 80 });
        Ok(Target { secure, host, port, path })
    }

    /// The value of the Host field: brackets around IPv6, the port only where it is not the usual one.
    pub fn host_field(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.secure { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// The addresses of the host.
    ///
    /// # Errors
    /// The resolver's error, or one saying that there is none.
    pub fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        let addresses: Vec<SocketAddr> = (self.host.as_str(), self.port).to_socket_addrs()?.collect();
        if addresses.is_empty() {
            return Err(std::io::Error::new(std::io::ErrorKind::NotFound, "the host has no address"));
        }
        Ok(addresses)
    }
}

/// The rest after a scheme, compared without case.
fn strip_scheme<'u>(url: &'u str, scheme: &str) -> Option<&'u str> {
    let head = url.get(..scheme.len())?;
    head.eq_ignore_ascii_case(scheme).then(|| &url[scheme.len()..])
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`; `None` when it is neither.
pub(crate) fn split_authority(authority: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = match port {
        Some(port) => Some(port.parse().ok().filter(|port| *port != 0)?),
        None => None,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// Lets this process open at least `descriptors` files if its hard limit allows; returns the limit in force.
///
/// # Errors
/// The error of getrlimit(2) or setrlimit(2).
pub fn raise_descriptor_limit(descriptors: u64) -> std::io::Result<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= descriptors {
        return Ok(soft);
    }
    let wanted = descriptors.min(hard);
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)?;
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let check = |url: &str, expected: Result<(&str, u16, &str, &str), ()>| {
            let target = Target::parse(url);
            let got =
                target.as_ref().map(|t| (t.host.as_str(), t.port, t.path.as_str(), t.host_field())).map_err(|_| ());
            assert_eq!(got, expected.map(|(h, p, path, field)| (h, p, path, field.to_owned())), "{url}");
        };
        check("http://h/", Ok(("h", 80, "/", "h")));
        check("http://h", Ok(("h", 80, "/", "h")));
        check("HTTP://h:8080/a?b#c", Ok(("h", 8080, "/a?b", "h:8080")));
        check("http://h?q", Ok(("h", 80, "/?q", "h")));
        check("http://[::1]:81/x", Ok(("::1", 81, "/x", "[::1]:81")));
        check("https://h", Ok(("h", 443, "/", "h")));
        check("HTTPS://h:80/x", Ok(("h", 80, "/x", "h:80")));
        check("http://[::1]/x", Ok(("::1", 80, "/x", "[::1]")));
        for wrong in [
            "ftp://h/",
            "h/",
            "http:///",
            "http://h:0/",
            "http://h:65536/",
            "http://h:x/",
            "http://[::1/",
            "http://u@h/",
            "http://h/a b",
        ] {
            check(wrong, Err(()));
        }
    }

    #[test]
    fn requests_are_chosen_as_often_as_they_weigh() {
        let check = |weights: &[u32], expected: &[f64]| {
            let request = |weight: &u32| Request {
                bytes: Vec::new(),
                head_request: false,
                endpoint: 0,
                weight: *weight,
                content: None,
            };
            let picker = Picker::new(&weights.iter().map(request).collect::<Vec<_>>());
            let mut rng = Rng::new(5);
            let mut counts = vec![0; weights.len()];
            (0..100_000).for_each(|_| counts[picker.next(&mut rng)] += 1);
            for (count, share) in counts.iter().zip(expected) {
                assert!((f64::from(*count) / 100_000.0 - share).abs() < 0.01, "{weights:?}: {counts:?}");
            }
        };
        check(&[1], &[1.0]);
        check(&[1, 1], &[0.5, 0.5]);
        check(&[7, 0, 3], &[0.7, 0.0, 0.3]);
        check(&[0, 0], &[1.0, 0.0]);
    }

    #[test]
    fn tickets_end() {
        let tickets = Tickets::new(Some(5));
        assert_eq!((tickets.take(), tickets.take()), (Some(0), Some(1)));
        assert_eq!(tickets.take_up_to(2), 2);
        assert_eq!((tickets.take(), tickets.take(), tickets.take_up_to(3)), (Some(4), None, 0));
        assert_eq!(Tickets::new(None).take(), Some(0));
    }
}
