//! What is to be asked of whom: requests as a person describes them, and as bytes.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use super::args::ExpectLength;
use crate::content::Expected;
use crate::plan::Target;

/// One kind of request.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestSpec {
    /// As written.
    pub url: String,
    /// Its parts.
    pub target: Target,
    /// Such as `GET`.
    pub method: String,
    /// Further fields.
    pub headers: Vec<String>,
    /// What follows the head.
    pub body: Vec<u8>,
    /// How often it is sent, compared with the others.
    pub weight: u32,
    /// The status every answer must have; `None`: any 2xx.
    pub expect_status: Option<u16>,
    /// The length every answer must have.
    pub expect_length: ExpectLength,
    /// What every answer's body must be.
    pub expect_content: Expected,
}

/// An address that is used for a host instead of what the resolver says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolve {
    host: String,
    port: u16,
    address: IpAddr,
}

impl Resolve {
    /// Reads `HOST:PORT:ADDRESS`, as curl does.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn parse(given: &str) -> Result<Resolve, String> {
        let wrong = || format!("{given}: HOST:PORT:ADDRESS is needed, as example.com:80:127.0.0.1");
        let (host, rest) = given.split_once(':').ok_or_else(wrong)?;
        let (port, address) = rest.split_once(':').ok_or_else(wrong)?;
        let address = address.trim_matches(['[', ']']).parse().map_err(|_| wrong())?;
        let port = port.parse().map_err(|_| wrong())?;
        Ok(Resolve { host: host.to_owned(), port, address })
    }

    /// The address for this target.
    pub fn address(&self, target: &Target) -> Option<SocketAddr> {
        let same = self.host.eq_ignore_ascii_case(&target.host) && self.port == target.port;
        same.then(|| SocketAddr::new(self.address, self.port))
    }
}

/// Where connections come from and go to, where that is not left to the system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Instead of the resolver.
    pub resolve: Vec<Resolve>,
    /// A socket in the file system instead of any address.
    pub unix_socket: Option<PathBuf>,
    /// Local addresses, in turn.
    pub source: Vec<IpAddr>,
    /// Only addresses of this family: `true` for IPv6.
    pub only_v6: Option<bool>,
}

impl RequestSpec {
    /// GET of a URL, without conditions.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn get(url: &str) -> Result<RequestSpec, String> {
        Ok(RequestSpec {
            url: url.to_owned(),
            target: Target::parse(url)?,
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            weight: 1,
            expect_status: None,
            expect_length: ExpectLength::First,
            expect_content: Expected::default(),
        })
    }

    /// The bytes of the request.
    pub fn bytes(&self, keep_alive: bool) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.target.path);
        let given = |name: &str| {
            let is_it = |line: &String| line.split_once(':').is_some_and(|(field, _)| field.eq_ignore_ascii_case(name));
            self.headers.iter().any(is_it)
        };
        if !given("Host") {
            text.push_str(&format!("Host: {}\r\n", self.target.host_field()));
        }
        if !given("User-Agent") {
            text.push_str(concat!("User-Agent: manifold-load/", env!("CARGO_PKG_VERSION"), "\r\n"));
        }
        if !given("Accept") {
            text.push_str("Accept: */*\r\n");
        }
        if !keep_alive {
            text.push_str("Connection: close\r\n");
        }
        // A method that usually has a body says so when it has none (RFC 9110, section 8.6).
        let usual = matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        if (usual || !self.body.is_empty()) && !given("Content-Length") && !given("Transfer-Encoding") {
            text.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        for line in &self.headers {
            text.push_str(line);
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// A field of a request, `Name: value`.
///
/// # Errors
/// A sentence for the user.
pub fn header(line: String) -> Result<String, String> {
    let named = line.split_once(':').is_some_and(|(name, _)| !name.is_empty() && !name.contains(' '));
    if named && !line.contains(['\r', '\n']) { Ok(line) } else { Err(format!("{line:?}: `Name: value` is needed")) }
}

/// A method: a token of RFC 9110.
///
/// # Errors
/// A sentence for the user.
pub fn method(given: String) -> Result<String, String> {
    let token = !given.is_empty()
        && given.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
    if token { Ok(given) } else { Err(format!("{given:?} is no method")) }
}

/// A body: the text itself, or with `@` in front the file of that name.
///
/// # Errors
/// A sentence for the user.
pub fn body(given: &str) -> Result<Vec<u8>, String> {
    match given.strip_prefix('@') {
        Some(path) => std::fs::read(path).map_err(|error| format!("cannot read the body from {path}: {error}")),
        None => Ok(given.as_bytes().to_vec()),
    }
}

/// Whether these two go to the same server.
pub fn same_server(one: &Target, other: &Target) -> bool {
    one.secure == other.secure && one.host.eq_ignore_ascii_case(&other.host) && one.port == other.port
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_rendered_once() {
        let check = |change: fn(&mut RequestSpec), keep_alive: bool, expected: &str| {
            let mut spec = RequestSpec::get("http://h:81/a?b").expect("a URL");
            change(&mut spec);
            let text = String::from_utf8(spec.bytes(keep_alive)).expect("text");
            let text = text.replace(concat!("User-Agent: manifold-load/", env!("CARGO_PKG_VERSION"), "\r\n"), "");
            assert_eq!(text, expected);
        };
        check(|_| {}, true, "GET /a?b HTTP/1.1\r\nHost: h:81\r\nAccept: */*\r\n\r\n");
        check(|_| {}, false, "GET /a?b HTTP/1.1\r\nHost: h:81\r\nAccept: */*\r\nConnection: close\r\n\r\n");
        check(
            |spec| {
                spec.method = "POST".to_owned();
                spec.body = b"x=1".to_vec();
                spec.headers = vec!["host: other".to_owned(), "ACCEPT: a/b".to_owned()];
            },
            true,
            "POST /a?b HTTP/1.1\r\nContent-Length: 3\r\nhost: other\r\nACCEPT: a/b\r\n\r\nx=1",
        );
        check(
            |spec| spec.method = "PUT".to_owned(),
            true,
            "PUT /a?b HTTP/1.1\r\nHost: h:81\r\nAccept: */*\r\nContent-Length: 0\r\n\r\n",
        );
    }

    #[test]
    fn addresses_are_given_for_hosts() {
        let target = Target::parse("http://Example.com/").expect("a URL");
        let address = |given: &str| Resolve::parse(given).expect(given).address(&target);
        assert_eq!(address("example.com:80:127.0.0.9"), Some("127.0.0.9:80".parse().expect("an address")));
        assert_eq!(address("example.com:80:[::1]"), Some("[::1]:80".parse().expect("an address")));
        assert_eq!(address("example.com:81:127.0.0.9"), None);
        assert!(["h", "h:80", "h:80:x", "h:x:127.0.0.1"].iter().all(|wrong| Resolve::parse(wrong).is_err()));
    }
}
