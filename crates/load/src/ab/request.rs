//! The bytes of ab's request, in ab's order.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The request's method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Not chosen: GET.
    #[default]
    Unset,
    /// GET.
    Get,
    /// `-i`.
    Head,
    /// `-p`.
    Post,
    /// `-u`.
    Put,
    /// `-m`.
    Custom(String),
}

/// Basic authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Of a proxy (`-P`).
    pub proxy: bool,
    /// `user:password`.
    pub text: String,
}

/// What a request is made of.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// The method.
    pub method: Method,
    /// `-C`, each `name=value`.
    pub cookies: Vec<String>,
    /// `-A` and `-P` in the order given.
    pub credentials: Vec<Credentials>,
    /// `-H`, each a whole line.
    pub headers: Vec<String>,
    /// `-T`.
    pub content_type: Option<String>,
    /// The body of `-p` or `-u`.
    pub body: Option<Vec<u8>>,
    /// HTTP/1.1 instead of 1.0.
    pub http11: bool,
}

impl Parts {
    /// GET, where nothing was chosen.
    pub fn finish_method(&mut self) {
        if self.method == Method::Unset {
            self.method = Method::Get;
        }
    }

    /// The method's name.
    pub fn method_name(&self) -> &str {
        match &self.method {
            Method::Unset | Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Custom(name) => name,
        }
    }

    /// The request's head; `target` is a path or, for a proxy, a URL.
    pub fn head(&self, target: &str, host_field: &str, keep_alive: bool) -> String {
        let version = if self.http11 { "1.1" } else { "1.0" };
        let mut head = format!("{} {target} HTTP/{version}\r\n", self.method_name());
        let mut line = |text: &str| {
            head.push_str(text);
            head.push_str("\r\n");
        };
        if keep_alive {
            line("Connection: Keep-Alive");
        } else if self.http11 {
            line("Connection: close");
        }
        if !self.cookies.is_empty() {
            line(&format!("Cookie: {}", self.cookies.join("; ")));
        }
        for Credentials { proxy, text } in &self.credentials {
            let name = if *proxy { "Proxy-Authorization" } else { "Authorization" };
            line(&format!("{name}: Basic {}", STANDARD.encode(text)));
        }
        if let Some(body) = &self.body {
            line(&format!("Content-length: {}", body.len()));
            line(&format!("Content-type: {}", self.content_type.as_deref().unwrap_or("text/plain")));
        }
        self.headers.iter().for_each(|header| line(header));
        if !self.overrides("Host:") {
            line(&format!("Host: {host_field}"));
        }
        if !self.overrides("User-Agent:") {
            line("User-Agent: ApacheBench/2.3");
        }
        if !self.overrides("Accept:") {
            line("Accept: */*");
        }
        line("");
        head
    }

    /// Whether a `-H` line begins with this name and colon.
    fn overrides(&self, name: &str) -> bool {
        let begins = |header: &String| header.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        self.headers.iter().any(begins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_every_remainder() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("u:p", "dTpw"), ("\u{ff}\u{fe}?", "w7/Dvj8=")]
        {
            assert_eq!(STANDARD.encode(plain), coded, "{plain}");
        }
    }

    #[test]
    fn fields_come_in_the_originals_order() {
        let parts = Parts {
            method: Method::Post,
            cookies: vec!["a=b".into()],
            credentials: vec![
                Credentials { proxy: false, text: "u:p".into() },
                Credentials { proxy: true, text: "x:y".into() },
            ],
            headers: vec!["X: 1".into()],
            content_type: Some("a/b".into()),
            body: Some(b"12345".to_vec()),
            http11: false,
        };
        let expected = "POST /x HTTP/1.0\r\nConnection: Keep-Alive\r\nCookie: a=b\r\nAuthorization: Basic dTpw\r\n\
            Proxy-Authorization: Basic eDp5\r\nContent-length: 5\r\nContent-type: a/b\r\nX: 1\r\nHost: h:8\r\n\
            User-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\n";
        assert_eq!(parts.head("/x", "h:8", true), expected);
    }

    #[test]
    fn header_lines_replace_host_agent_and_accept_only() {
        let parts = Parts {
            headers: vec!["host: other".into(), "ACCEPT: x".into(), "User-Agent:z".into(), "Connection: close".into()],
            ..Parts::default()
        };
        let expected = "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\nhost: other\r\nACCEPT: x\r\nUser-Agent:z\r\nConnection: close\r\n\r\n";
        assert_eq!(parts.head("/", "h", true), expected);
    }

    #[test]
    fn a_newer_version_says_when_a_connection_is_not_kept() {
        let parts = Parts { http11: true, ..Parts::default() };
        assert!(parts.head("/", "h", false).starts_with("GET / HTTP/1.1\r\nConnection: close\r\n"));
        assert!(parts.head("/", "h", true).starts_with("GET / HTTP/1.1\r\nConnection: Keep-Alive\r\n"));
    }

    #[test]
    fn every_cookie_is_sent() {
        let parts = Parts { cookies: vec!["a=b".into(), "c=d".into()], ..Parts::default() };
        assert!(parts.head("/", "h", false).contains("\r\nCookie: a=b; c=d\r\n"));
    }
}
