//! One line of an access log: the common format, the combined one, and either with the virtual host in front.
//!
//! `LogFormat "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\""` is Debian's `vhost_combined`; without the first field it is
//! `combined`, without the last two `common`. Apache writes quotes, backslashes and what cannot be printed with a backslash in front
//! (mod_log_config), nginx as `\xhh`; both are read.

use jiff::fmt::strtime;

/// A request as it was logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When, in seconds since 1970-01-01 UTC.
    pub unix: i64,
    /// Of the virtual host, as the Host field has it.
    pub host: Option<String>,
    /// A token of RFC 9110.
    pub method: String,
    /// Path and query, ready to be sent.
    pub path: String,
    /// Status of the answer.
    pub status: u16,
    /// Of the combined format, where there was one.
    pub referer: Option<String>,
    /// Of the combined format, where there was one.
    pub user_agent: Option<String>,
}

/// Why a line is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not in one of the formats: what is wrong.
    Malformed(&'static str),
    /// It is, but what it tells of was no request for a path of this server: a connection without a request, `*`, a proxy's.
    NoPath,
}

/// Reads lines; times repeat, so that the last one is kept.
#[derive(Debug, Default)]
pub struct Reader {
    stamp: Vec<u8>,
    unix: i64,
}

impl Reader {
    /// Reads one line, without its end.
    ///
    /// # Errors
    /// Why it is no request.
    pub fn read(&mut self, line: &[u8]) -> Result<Line, Fault> {
        let (before, rest) = split(line, b" [").ok_or(Fault::Malformed("there is no time in brackets"))?;
        let (stamp, rest) = split(rest, b"] \"").ok_or(Fault::Malformed("no request in quotes follows the time"))?;
        let unix = self.time(stamp)?;
        let host = host(before)?;
        let (request, rest) = quoted(rest).ok_or(Fault::Malformed("the request's quote does not end"))?;
        let rest = rest.strip_prefix(b" ").unwrap_or(rest);
        let (status, rest) = split(rest, b" ").unwrap_or((rest, b""));
        let status = std::str::from_utf8(status).ok().and_then(|status| status.parse().ok());
        let status = status.filter(|status| (100..1000).contains(status));
        let status = status.ok_or(Fault::Malformed("no status follows the request"))?;
        let (method, path) = request_line(&request)?;
        let mut fields = split(rest, b" \"").map(|(_bytes, rest)| rest).into_iter().flat_map(Fields);
        Ok(Line {
            unix,
            host,
            method,
            path,
            status,
            referer: fields.next().flatten(),
            user_agent: fields.next().flatten(),
        })
    }

    fn time(&mut self, stamp: &[u8]) -> Result<i64, Fault> {
        if self.stamp != stamp {
            let time = std::str::from_utf8(stamp)
                .ok()
                .and_then(|stamp| strtime::parse("%d/%b/%Y:%H:%M:%S %z", stamp).ok()?.to_timestamp().ok());
            self.unix =
                time.ok_or(Fault::Malformed("the time is none such as 10/Oct/2000:13:55:36 -0700"))?.as_second();
            self.stamp = stamp.to_vec();
        }
        Ok(self.unix)
    }
}

/// The quoted fields of a line's rest, from behind the first quote on; `None` for `-`.
struct Fields<'l>(&'l [u8]);

impl Iterator for Fields<'_> {
    type Item = Option<String>;

    fn next(&mut self) -> Option<Option<String>> {
        let (value, rest) = quoted(self.0)?;
        self.0 = split(rest, b" \"").map_or(b"", |(_between, rest)| rest);
        let clean = |c: char| if c.is_control() { ' ' } else { c };
        let text: String = String::from_utf8_lossy(&value).chars().map(clean).collect();
        Some(Some(text).filter(|text| text != "-" && !text.is_empty()))
    }
}

/// What stands before and after the first `separator`.
fn split<'l>(line: &'l [u8], separator: &[u8]) -> Option<(&'l [u8], &'l [u8])> {
    let at = memchr::memmem::find(line, separator)?;
    Some((&line[..at], &line[at + separator.len()..]))
}

/// The virtual host among the words before the time: the first of four or more that ends in a port.
fn host(before: &[u8]) -> Result<Option<String>, Fault> {
    let mut words = before.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    match words.count() {
        0 | 1 => return Err(Fault::Malformed("fewer than three words stand before the time")),
        2 => return Ok(None),
        _ => {}
    }
    let named = std::str::from_utf8(first).ok().and_then(|first| first.rsplit_once(':'));
    let Some((host, port)) = named.filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) else {
        // A user's name may have a blank in it.
        return Ok(None);
    };
    if host.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(Fault::Malformed("the virtual host is none"));
    }
    Ok(Some(if port == "80" { host.to_owned() } else { format!("{host}:{port}") }))
}

/// A quoted text whose first quote has been passed, and what follows the second one.
fn quoted(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut text = Vec::new();
    let mut at = 0;
    loop {
        match line.get(at)? {
            b'"' => return Some((text, &line[at + 1..])),
            b'\\' => {
                let (byte, length) = escaped(&line[at + 1..])?;
                text.push(byte);
                at += 1 + length;
            }
            byte => {
                text.push(*byte);
                at += 1;
            }
        }
    }
}

/// What the bytes behind a backslash stand for, and how many of them.
fn escaped(rest: &[u8]) -> Option<(u8, usize)> {
    if let [b'x', high, low, ..] = rest {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        if let (Some(high), Some(low)) = (digit(*high), digit(*low)) {
            return Some(((high * 16 + low) as u8, 3));
        }
    }
    let byte = *rest.first()?;
    let meant = match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'v' => 11,
        b'f' => 12,
        other => other,
    };
    Some((meant, 1))
}

/// Method and path of `GET /path HTTP/1.1`.
fn request_line(request: &[u8]) -> Result<(String, String), Fault> {
    let mut words = request.splitn(2, |byte| *byte == b' ');
    let (method, rest) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let target = match rest.iter().rposition(|byte| *byte == b' ') {
        Some(at) if rest[at + 1..].starts_with(b"HTTP/") => &rest[..at],
        _ => rest,
    };
    let method = std::str::from_utf8(method).ok().and_then(|method| super::super::spec::method(method.to_owned()).ok());
    let method = method.filter(|method| method != "-" && method != "CONNECT").ok_or(Fault::NoPath)?;
    let path = match target {
        [b'/', ..] => target,
        // The absolute form, as proxies are asked.
        _ if target.len() > 7 && target[..7].eq_ignore_ascii_case(b"http://") => {
            let at = target[7..].iter().position(|byte| *byte == b'/').ok_or(Fault::NoPath)?;
            &target[7 + at..]
        }
        _ => return Err(Fault::NoPath),
    };
    Ok((method, printable(path)))
}

/// What cannot stand in a request line becomes percent-encoded; all else stays as it was sent.
fn printable(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path {
        if byte.is_ascii_graphic() {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Line, Fault> {
        Reader::default().read(line.as_bytes())
    }

    fn line(host: Option<&str>, method: &str, path: &str, status: u16, fields: [Option<&str>; 2]) -> Line {
        let [referer, user_agent] = fields.map(|field| field.map(str::to_owned));
        let (method, path) = (method.to_owned(), path.to_owned());
        // 10/Oct/2000:13:55:36 -0700
        Line { unix: 971_211_336, host: host.map(str::to_owned), method, path, status, referer, user_agent }
    }

    #[test]
    fn every_format_is_read() {
        const TIME: &str = "[10/Oct/2000:13:55:36 -0700]";
        for (before, after, expected) in [
            ("127.0.0.1 - frank", r#""GET /a.gif HTTP/1.0" 200 2326"#, line(None, "GET", "/a.gif", 200, [None, None])),
            ("::1 - -", r#""HEAD / HTTP/1.1" 304 -"#, line(None, "HEAD", "/", 304, [None, None])),
            (
                "h - two words",
                r#""GET /x?y=1&z HTTP/1.1" 404 9 "http://r/" "Agent (\"quoted\")""#,
                line(None, "GET", "/x?y=1&z", 404, [Some("http://r/"), Some("Agent (\"quoted\")")]),
            ),
            (
                "shop.example:80 h - -",
                r#""GET / HTTP/1.1" 200 9 "-" "A""#,
                line(Some("shop.example"), "GET", "/", 200, [None, Some("A")]),
            ),
            (
                "shop.example:8080 h - -",
                r#""POST /x HTTP/2.0" 201 9 "-" "-""#,
                line(Some("shop.example:8080"), "POST", "/x", 201, [None, None]),
            ),
            (
                "h - -",
                r#""GET /a b\xc3\xa4\t HTTP/1.1" 200 1"#,
                line(None, "GET", "/a%20b%C3%A4%09", 200, [None, None]),
            ),
            ("h - -", r#""GET http://other/p?q HTTP/1.1" 200 1"#, line(None, "GET", "/p?q", 200, [None, None])),
            ("h - -", r#""GET /old" 200 1"#, line(None, "GET", "/old", 200, [None, None])),
            (
                "h - -",
                r#""GET / HTTP/1.1" 200 1 "a\r\nX: y" "b" 0.003 extra"#,
                line(None, "GET", "/", 200, [Some("a  X: y"), Some("b")]),
            ),
        ] {
            let text = format!("{before} {TIME} {after}");
            assert_eq!(read(&text).as_ref(), Ok(&expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_request_is_told_apart_from_what_is_no_line() {
        const T: &str = "h - - [10/Oct/2000:13:55:36 -0700]";
        for rest in [
            r#""-" 408 -"#,
            r#""OPTIONS * HTTP/1.1" 200 -"#,
            r#""CONNECT h:443 HTTP/1.1" 405 -"#,
            r#""\x16\x03" 400 -"#,
        ] {
            assert_eq!(read(&format!("{T} {rest}")), Err(Fault::NoPath), "{rest}");
        }
        for text in [
            String::new(),
            "# a comment".to_owned(),
            r#"h - - [10/Oct/2000] "GET / HTTP/1.1" 200 1"#.to_owned(),
            r#"h - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 1"#.to_owned(),
            format!("{T} GET / HTTP/1.1 200 1"),
            format!(r#"{T} "GET / HTTP/1.1 200 1"#),
            format!(r#"{T} "GET / HTTP/1.1""#),
            format!(r#"{T} "GET / HTTP/1.1" - 1"#),
            format!(r#"{T} "GET /\"#),
        ] {
            assert!(matches!(read(&text), Err(Fault::Malformed(_))), "{text}: {:?}", read(&text));
        }
    }
}
