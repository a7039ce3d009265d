//! URLs as siege reads them: a scheme where there is none, a method and a body behind a blank, what must not stand in a URL escaped; and
//! files of them.

use std::path::Path;

use super::auth::Credentials;
use super::variables::{Variables, expand};
use crate::system_error::plain;

/// Methods that come with a body, in the order in which they are looked for.
const WITH_BODY: [&str; 5] = ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
/// What keeps a URL from being escaped, since blanks separate its parts.
const KEEP_BLANKS: [&str; 9] =
    [" GET", " HEAD", " POST", " PUT", " TRACE", " DELETE", " OPTIONS", " CONNECT", " PATCH"];
/// Files that are sent to the last byte; of others, which are text, trailing line ends are not.
const BINARY: [&str; 20] = [
    "json", "js", "sh", "tex", "pdf", "jpg", "jpeg", "png", "gif", "webp", "ico", "zip", "gz", "tar", "bz2", "xz",
    "bin", "mp3", "mp4", "wasm",
];

/// How a URL is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
    Ftp,
    Unsupported,
}

/// A request's target and what is sent to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// As shown: with its scheme, without method and body.
    pub absolute: String,
    pub scheme: Scheme,
    pub method: &'static str,
    /// Without brackets.
    pub host: String,
    pub port: u16,
    /// Path and query.
    pub request: String,
    /// Its place in the list.
    pub id: usize,
    /// In front of the host.
    pub credentials: Option<Credentials>,
    pub body: Vec<u8>,
}

/// Reads a body's file.
pub type ReadFile<'r> = &'r dyn Fn(&Path) -> std::io::Result<Vec<u8>>;

impl Url {
    /// Reads one. A body's file that cannot be read leaves the body empty; the sentence about it goes to `complain`.
    pub fn parse(text: &str, escape: bool, read: ReadFile<'_>, complain: &mut dyn FnMut(String)) -> Url {
        let escaped = if escape { escaped(text) } else { text.to_owned() };
        let written = if has_scheme(&escaped) {
            escaped
        } else if escaped.contains('/') {
            format!("http://{escaped}")
        } else {
            format!("http://{escaped}/")
        };
        let found = WITH_BODY.iter().find_map(|method| Some((written.find(&format!(" {method}"))?, *method)));
        let (absolute, method, body) = match found {
            None => (written.as_str(), "GET", None),
            Some((at, method)) => (&written[..at], method, Some(written[at + 1 + method.len()..].trim_start())),
        };
        let body = match body.map(|body| body.strip_prefix('<').ok_or(body)) {
            None => Vec::new(),
            Some(Err(inline)) => inline.as_bytes().to_vec(),
            Some(Ok(name)) => body_of_file(Path::new(name.trim()), read, complain),
        };
        let (scheme, rest) = split_scheme(absolute);
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let (credentials, authority) = split_credentials(authority);
        let (host, port) = split_authority(authority, scheme);
        let target = target.split('#').next().unwrap_or_default().trim_end();
        let request = if target.is_empty() { "/" } else { target };
        let request = request.to_owned();
        Url { absolute: absolute.to_owned(), scheme, method, host, port, request, id: 0, credentials, body }
    }

    /// What a page of `self` or a redirect from it means by `location`, which siege always takes from the root.
    pub fn normalize(&self, location: &str, escape: bool) -> Url {
        let plain = |text: &str| Url::parse(text, escape, &|_| Ok(Vec::new()), &mut |_| ());
        if location.contains(':') && !location.starts_with("//") {
            let url = plain(location);
            if url.host.len() > 1 {
                return url;
            }
        }
        if location.contains('.') && !location.starts_with('/') {
            let url = plain(location);
            if url.host.contains('.') && url.host.trim_matches('.').contains('.') {
                return url;
            }
        }
        let (scheme, host) = (self.scheme_name(), bracketed(&self.host));
        plain(&match location.strip_prefix("//") {
            Some(_) => format!("{scheme}:{location}"),
            None => format!("{scheme}://{host}:{}/{}", self.port, location.strip_prefix('/').unwrap_or(location)),
        })
    }

    /// How a line names it.
    pub fn display(&self, full: bool) -> &str {
        if full || self.method != "GET" { &self.absolute } else { &self.request }
    }

    /// The scheme by which it is asked for.
    pub fn scheme_name(&self) -> &'static str {
        if self.scheme == Scheme::Https { "https" } else { "http" }
    }

    /// Whether a body comes with it.
    pub fn sends_body(&self) -> bool {
        WITH_BODY.contains(&self.method)
    }

    /// The value of the Host field.
    pub fn host_field(&self) -> String {
        let host = bracketed(&self.host);
        if self.port == default_port(self.scheme) { host } else { format!("{host}:{}", self.port) }
    }
}

/// A host as it stands in front of a port: brackets around IPv6.
pub fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// The lines of a URL file, its comments and variables resolved.
pub fn lines_of(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut variables = Variables::default();
    let mut lines = Vec::new();
    for line in text.lines().map(str::trim) {
        // Behind a URL, # begins a fragment rather than a comment.
        let comment = !line.contains('/') && line.contains(' ') || line.starts_with('#');
        let line = if comment { line.split('#').next().unwrap_or_default().trim() } else { line };
        let name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match line.split_once('=') {
            _ if line.is_empty() => {}
            Some((left, value)) if name(left) => variables.set(left, value.trim_start_matches([' ', '\t', '=', ':'])),
            _ => lines.push(expand(line, &variables, environment)),
        }
    }
    lines
}

fn body_of_file(path: &Path, read: ReadFile<'_>, complain: &mut dyn FnMut(String)) -> Vec<u8> {
    let mut body = match read(path) {
        Ok(body) => body,
        Err(error) => {
            complain(format!("unable to open file: {}: {}", path.display(), plain(&error)));
            return Vec::new();
        }
    };
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if !BINARY.contains(&extension.to_ascii_lowercase().as_str()) {
        while matches!(body.last(), Some(b'\n' | b'\r')) {
            body.pop();
        }
    }
    body
}

fn has_scheme(text: &str) -> bool {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '+')).unwrap_or(text.len());
    // A name and a port look like a scheme; what follows tells them apart.
    let port = text[end..].strip_prefix(':').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    end > 0 && text[end..].starts_with(':') && !port
}

fn split_scheme(text: &str) -> (Scheme, &str) {
    let after = |scheme: &str| {
        let head = text.get(..scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then(|| text[scheme.len()..].trim_start_matches('/'))
    };
    for (name, scheme) in [("http:", Scheme::Http), ("https:", Scheme::Https), ("ftp:", Scheme::Ftp)] {
        if let Some(rest) = after(name) {
            return (scheme, rest);
        }
    }
    (Scheme::Unsupported, text)
}

fn default_port(scheme: Scheme) -> u16 {
    match scheme {
        Scheme::Https => 443,
        Scheme::Ftp => 21,
        Scheme::Http | Scheme::Unsupported => 80,
    }
}

fn split_credentials(authority: &str) -> (Option<Credentials>, &str) {
    let Some((who, rest)) = authority.rsplit_once('@') else { return (None, authority) };
    let (user, password) = who.split_once(':').unwrap_or((who, ""));
    (Some(Credentials::of_url(user, password)), rest)
}

/// What follows the digits of a port belongs to nothing, as with siege.
fn split_authority(authority: &str, scheme: Scheme) -> (String, u16) {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':').unwrap_or_default()),
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let digits = port.find(|c: char| !c.is_ascii_digit()).unwrap_or(port.len());
    let host = host.split(['?', '#']).next().unwrap_or_default();
    (host.to_owned(), port[..digits].parse().unwrap_or_else(|_| default_port(scheme)))
}

/// Escapes what must not stand in a URL (RFC 1738), and unescapes what need not be escaped.
fn escaped(text: &str) -> String {
    if KEEP_BLANKS.iter().any(|method| text.contains(method)) {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let pair = bytes.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        let decoded = pair.filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()));
        match decoded.and_then(|pair| u8::from_str_radix(pair, 16).ok()).filter(|_| byte == b'%') {
            Some(plain) if is_unsafe(plain) || is_reserved(plain) => {
                out.extend_from_slice(&bytes[at..at + 3]);
                at += 3;
            }
            Some(plain) => {
                out.push(plain);
                at += 3;
            }
            None if is_unsafe(byte) && !is_reserved(byte) => {
                out.extend_from_slice(format!("%{byte:02X}").as_bytes());
                at += 1;
            }
            None => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn is_unsafe(byte: u8) -> bool {
    !byte.is_ascii_graphic() || b"\"%<>\\^`{|}~".contains(&byte)
}

fn is_reserved(byte: u8) -> bool {
    b"#&+/:;=?@[]".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Url {
        let read = |path: &Path| match path.to_str() {
            Some("lines" | "lines.json") => Ok(b"a\nb\n\n".to_vec()),
            _ => Err(std::io::Error::from_raw_os_error(2)),
        };
        Url::parse(text, true, &read, &mut |_| ())
    }

    #[test]
    fn urls() {
        let check = |text: &str, host: &str, port: u16, request: &str| {
            let url = parse(text);
            assert_eq!((url.host.as_str(), url.port, url.request.as_str()), (host, port, request), "{text}");
        };
        check("http://h/", "h", 80, "/");
        check("h", "h", 80, "/");
        check("h:81", "h", 81, "/");
        check("localhost:81/x", "localhost", 81, "/x");
        check("www.h.org/x", "www.h.org", 80, "/x");
        check("HTTP://h:81/X", "h", 81, "/X");
        check("https://h/x", "h", 443, "/x");
        check("http://h:81?q=1", "h", 81, "/");
        check("http://u:p@h/x#frag", "h", 80, "/x");
        check("http://[::1]:81/x", "::1", 81, "/x");
        check("http://h/a b|c<d>%41%zz?q=\u{fc}#f", "h", 80, "/a%20b%7Cc%3Cd%3EA%25zz?q=%C3%BC");
        check("http://h/~u/;a=b?c[d]=`e`&f={g}\"h\"^i", "h", 80, "/%7Eu/;a=b?c[d]=%60e%60&f=%7Bg%7D%22h%22%5Ei");
        check("http://h/%2F%20%61", "h", 80, "/%2F%20a");
        check("http://h/x HEAD", "h", 80, "/x HEAD");
        assert_eq!(parse("ftp://h/x").scheme, Scheme::Ftp);
        assert_eq!(parse("foo://h/x").scheme, Scheme::Unsupported);
    }

    #[test]
    fn methods_and_bodies() {
        let check = |text: &str, method: &str, request: &str, body: &str| {
            let url = parse(text);
            let got = (url.method, url.request.as_str(), std::str::from_utf8(&url.body).unwrap());
            assert_eq!(got, (method, request, body), "{text}");
        };
        check("h/x POST a=b&c=d e", "POST", "/x", "a=b&c=d e");
        check("h/x POST   a=b  ", "POST", "/x", "a=b  ");
        check("h/x  POST a=b", "POST", "/x", "a=b");
        check("h/x POST", "POST", "/x", "");
        check("h/a b PUT c", "PUT", "/a b", "c");
        check("h/x PUT POST c", "POST", "/x PUT", "c");
        check("h/x PATCH c", "PATCH", "/x", "c");
        check("h/x post c", "GET", "/x%20post%20c", "");
        check("h/x POST <lines", "POST", "/x", "a\nb");
        check("h/x POST <lines.json", "POST", "/x", "a\nb\n\n");
        check("h/x POST <none", "POST", "/x", "");
        let mut said = Vec::new();
        Url::parse("h/x POST <none", true, &|_| Err(std::io::Error::from_raw_os_error(2)), &mut |sentence| {
            said.push(sentence);
        });
        assert_eq!(said, ["unable to open file: none: No such file or directory"]);
    }

    #[test]
    fn what_a_page_means() {
        let base = parse("http://h.org:81/dir/page");
        let check = |location: &str, absolute: &str| {
            assert_eq!(base.normalize(location, true).absolute, absolute, "{location}");
        };
        check("/a.png", "http://h.org:81/a.png");
        check("rel/x", "http://h.org:81/rel/x");
        check("//other/x", "http://other/x");
        check("//other:82/x", "http://other:82/x");
        check("http://other/x", "http://other/x");
        check("www.other.org/x", "http://www.other.org/x");
        let base = parse("https://h.org/dir/page");
        for (location, absolute) in [("/a.png", "https://h.org:443/a.png"), ("//other:82/x", "https://other:82/x")] {
            assert_eq!(base.normalize(location, true).absolute, absolute, "{location}");
        }
    }

    #[test]
    fn files_of_urls() {
        let text = "# comment\nPROT=http\nHOST=h:1\n\n$(PROT)://$(HOST)/one\n  ${PROT}://$HOST/two POST a=$(PROT)\nhttp://h/#f\nh # x\nhttp://h/eq?a=b\n";
        let expected = ["http://h:1/one", "http://h:1/two POST a=http", "http://h/#f", "h", "http://h/eq?a=b"];
        assert_eq!(lines_of(text, &|_| None), expected);
    }
}
