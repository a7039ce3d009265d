//! URLs, proxies and names as ab understands them: what it accepts, what it takes for a host, and what it says of those it cannot find.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};

use nix::errno::Errno;

/// An error of the resolver as APR numbers it, which is ab's exit status modulo 256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// What is told.
    pub sentence: String,
    /// The exit status.
    pub status: u8,
}

/// Unknown name: `APR_OS_START_EAIERR` + 2.
const UNKNOWN: i32 = 670_002;
/// A literal of the family that is not asked for: `APR_OS_START_EAIERR` + 9.
const WRONG_FAMILY: i32 = 670_009;

/// Host, port and path of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// It begins with `https://`.
    pub tls: bool,
    /// Host without brackets.
    pub host: String,
    /// Port, 80 or 443 where none is written.
    pub port: u16,
    /// From the first slash on.
    pub path: String,
    /// The value of the Host field.
    pub host_field: String,
}

impl Url {
    /// Reads what ab takes for a URL: the scheme may be missing, the path may not. `None`: invalid.
    pub fn parse(text: &str) -> Option<Url> {
        // A scheme alone is a host to ab.
        let after = |scheme: &str| text.strip_prefix(scheme).filter(|rest| !rest.is_empty());
        let (tls, rest) = match (after("http://"), after("https://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => (false, text),
        };
        let (authority, path) = rest.split_at(rest.find('/')?);
        let (host, port) = split(authority)?;
        let usual = if tls { 443 } else { 80 };
        let port = port.unwrap_or(usual);
        let shown = if authority.starts_with('[') { format!("[{host}]") } else { host.clone() };
        let host_field = if port == usual { shown } else { format!("{shown}:{port}") };
        Some(Url { tls, host, port, path: path.to_owned(), host_field })
    }
}

/// A host and perhaps a port, read from the end as APR does: what follows the last colon is a port only if all of it is digits.
fn split(authority: &str) -> Option<(String, Option<u16>)> {
    let digits = authority.bytes().rev().take_while(u8::is_ascii_digit).count();
    let before = &authority[..authority.len() - digits];
    let (host, port) = match before.strip_suffix(':').filter(|_| digits > 0) {
        Some(host) => (host, Some(authority[before.len()..].parse().ok().filter(|port| *port > 0)?)),
        None => (authority, None),
    };
    // Digits alone are a port without a host.
    if host.is_empty() || before.is_empty() {
        return None;
    }
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').filter(|inside| inside.parse::<std::net::Ipv6Addr>().is_ok())?,
        None => host,
    };
    Some((host.to_owned(), port))
}

/// The addresses of `host`, of the local address's family if there is one.
///
/// # Errors
/// ab's sentence.
pub fn resolve(host: &str, port: u16, local: Option<IpAddr>) -> Result<Vec<SocketAddr>, Unreachable> {
    let fits = |address: IpAddr| local.is_none_or(|local| local.is_ipv4() == address.is_ipv4());
    if host.parse().is_ok_and(|literal| !fits(literal)) {
        return Err(unreachable(host, "Address family for hostname not supported", WRONG_FAMILY));
    }
    let found: Vec<SocketAddr> = (host, port).to_socket_addrs().ok().into_iter().flatten().collect();
    let found: Vec<SocketAddr> = found.into_iter().filter(|address| fits(address.ip())).collect();
    if found.is_empty() { Err(unreachable(host, "Name or service not known", UNKNOWN)) } else { Ok(found) }
}

/// The address of `-B`.
///
/// # Errors
/// ab's sentence.
pub fn resolve_local(name: &str) -> Result<IpAddr, Unreachable> {
    resolve(name, 0, None).map(|addresses| addresses[0].ip())
}

/// Whether connections can be made from `local`, which ab learns with its first one.
///
/// # Errors
/// ab's sentence.
pub fn check_local(local: IpAddr) -> Result<(), Unreachable> {
    let Err(error) = UdpSocket::bind((local, 0)) else { return Ok(()) };
    let number = error.raw_os_error().unwrap_or(1);
    Err(Unreachable { sentence: format!("bind: {} ({number})", Errno::from_raw(number).desc()), status: number as u8 })
}

fn unreachable(name: &str, what: &str, number: i32) -> Unreachable {
    Unreachable { sentence: format!("apr_sockaddr_info_get() for {name}: {what} ({number})"), status: number as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_what_ab_takes_for_them() {
        let check = |text: &str, expected: Option<(bool, &str, u16, &str, &str)>| {
            let url = Url::parse(text);
            let parts = url
                .as_ref()
                .map(|url| (url.tls, url.host.as_str(), url.port, url.path.as_str(), url.host_field.as_str()));
            assert_eq!(parts, expected, "{text}");
        };
        check("http://h/", Some((false, "h", 80, "/", "h")));
        check("h:81/x?y#z", Some((false, "h", 81, "/x?y#z", "h:81")));
        check("https://h/", Some((true, "h", 443, "/", "h")));
        check("https://h:80/", Some((true, "h", 80, "/", "h:80")));
        check("http://[::1]:81/", Some((false, "::1", 81, "/", "[::1]:81")));
        check("http://[::1]/", Some((false, "::1", 80, "/", "[::1]")));
        check("ftp://h/", Some((false, "ftp:", 80, "//h/", "ftp:")));
        check("http:///", None);
        check("h:x/", Some((false, "h:x", 80, "/", "h:x")));
        check("h:/", Some((false, "h:", 80, "/", "h:")));
        check("u:p@h:8/", Some((false, "u:p@h", 8, "/", "u:p@h:8")));
        for wrong in ["", "h", "http://h", "h:0/", "h:65536/", ":80/", "80/", "[::1/", "[::1]x/", "[h]/"] {
            check(wrong, None);
        }
    }

    #[test]
    fn what_cannot_be_found_has_aprs_numbers() {
        let literal = resolve("127.0.0.1", 1, "::1".parse().ok()).unwrap_err();
        assert_eq!((literal.status, literal.sentence.ends_with("(670009)")), (57, true), "{literal:?}");
        let unknown = resolve("a..b", 1, None).unwrap_err();
        assert_eq!((unknown.status, unknown.sentence.ends_with("(670002)")), (50, true), "{unknown:?}");
        assert_eq!(resolve("::1", 7, "::1".parse().ok()).unwrap(), ["[::1]:7".parse().unwrap()]);
        assert_eq!(check_local("192.0.2.1".parse().unwrap()).unwrap_err().status, 99);
        assert_eq!(check_local("127.0.0.1".parse().unwrap()), Ok(()));
    }
}
