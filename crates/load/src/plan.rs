//! What to send, where, how often and for how long: everything decided before the first connection is opened.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What every thread of a run does: prepared once; nothing in it changes while the load runs, except the tickets.
#[derive(Debug)]
pub struct Plan {
    /// Where to connect; further addresses are tried only while no answer has come from an earlier one.
    pub addresses: Vec<SocketAddr>,
    /// Local address to connect from.
    pub local: Option<IpAddr>,
    /// Size of the sockets' send and receive buffers in bytes.
    pub socket_buffer: Option<usize>,
    /// The whole request, head and body.
    pub request: Vec<u8>,
    /// The request is a HEAD: answers have no body whatever their head says.
    pub head_request: bool,
    /// Connections kept busy by this plan, over all threads.
    pub connections: usize,
    /// Whether the next request follows on the same connection where the answer allows it.
    pub keep_alive: bool,
    /// What ends an answer whose connection is not kept.
    pub end: AnswerEnd,
    /// When to stop.
    pub stop: Stop,
    /// Load before the measured window.
    pub warmup: Duration,
    /// How long to wait, and for what.
    pub timeout: Timeout,
    /// Open one connection first and the others once the head of its answer has come, so that a dead server meets one connection only.
    pub probe_first: bool,
    /// Pause of a connection after it could not be made, so that a refusing server does not turn the generator into a busy loop.
    pub connect_pause: Duration,
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
}

impl Tickets {
    /// `None`: without end.
    pub fn new(requests: Option<u64>) -> Tickets {
        Tickets { left: requests.map(AtomicU64::new) }
    }

    /// Takes one; false when all are gone.
    pub fn take(&self) -> bool {
        self.take_up_to(1) == 1
    }

    /// Takes as many as are left, at most `wanted`; returns how many.
    pub fn take_up_to(&self, wanted: u64) -> u64 {
        let Some(left) = &self.left else { return wanted };
        let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(wanted)));
        before.unwrap_or(0).min(wanted)
    }
}

/// The parts of an `http://` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host as written, without brackets.
    pub host: String,
    /// Port, 80 where none is written.
    pub port: u16,
    /// Path and query, beginning with `/`.
    pub path: String,
}

impl Target {
    /// Reads an absolute `http://` URL; a missing path is `/`, a fragment is dropped.
    ///
    /// # Errors
    /// A sentence saying what is wrong with it.
    pub fn parse(url: &str) -> Result<Target, String> {
        let rest = strip_scheme(url, "http://").ok_or_else(|| match strip_scheme(url, "https://") {
            Some(_) => "https is not built into this version; use an http:// URL".to_owned(),
            None => format!("`{url}` is no http:// URL"),
        })?;
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
        Ok(Target { host, port: port.unwrap_or(80), path })
    }

    /// The value of the Host field: brackets around IPv6, the port only where it is not 80.
    pub fn host_field(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == 80 { host } else { format!("{host}:{}", self.port) }
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
        check("http://[::1]/x", Ok(("::1", 80, "/x", "[::1]")));
        for wrong in [
            "https://h/",
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
    fn tickets_end() {
        let tickets = Tickets::new(Some(5));
        assert!(tickets.take());
        assert_eq!(tickets.take_up_to(3), 3);
        assert_eq!(tickets.take_up_to(3), 1);
        assert!(!tickets.take());
        assert!(Tickets::new(None).take());
    }
}
