//! A target whose path says how it answers, and which notes to the byte what it was asked. It takes requests as they are and encrypted, at
//! one port; and it makes tunnels to itself, as a proxy.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use rustls::ServerConfig;

use super::channel::{Channel, secured_server};

/// No client of a test waits longer than this for the target.
const PATIENCE: Duration = Duration::from_secs(20);

/// A page with everything that siege looks for, and what it passes over.
pub const PAGE: &str = r#"<html><head><title>x</title>
<link rel="stylesheet" type="text/css" href="/style.css"><link href="/before.css" rel='stylesheet'>
<link rel="icon" href="/favicon.ico"><link rel="alternate stylesheet" href="/alternate.css">
<script src="/app.js"></script><script type="text/javascript" src='rel/app2.js'></script>
<!-- <img src="/commented.png"> --></head><body background="/bg.png">
<img src="/a.png"><IMG alt="x" SRC=/b.png><img src = "/c.png"><img alt="hello world" src="sub/d.png">
<a href="/link">l</a><iframe src="/frame.html"></iframe><img src="data:image/png;base64,xx"><img src="/a.png">
<input type="image" src="/input.png"><video src="/v.mp4"></video><table background="/tb.png">
<img src="http://ad.example.net/no.png"></body></html>
"#;

/// Servers with which no handshake succeeds: what they are called in command lines, and what they answer a hello with. `None`: nothing,
/// and they keep the connection open.
const MISFITS: [(&str, Option<&[u8]>); 4] = [
    ("MUTE", None),
    ("HANGUP", Some(b"")),
    ("ALERT", Some(b"\x15\x03\x03\x00\x02\x02\x28")),
    ("GARBLE", Some(b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n")),
];

/// The target; it listens until the test program ends.
pub struct Target {
    pub address: SocketAddr,
    /// Ports of the misfits by their names.
    pub misfits: Vec<(&'static str, u16)>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Target {
    /// One that listens on a free port of this address.
    pub fn start(ip: &str) -> Result<Target> {
        let listener = TcpListener::bind((ip, 0))?;
        let address = listener.local_addr()?;
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (notes, secured) = (Arc::clone(&asked), secured_server()?);
        std::thread::Builder::new().spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (notes, secured) = (Arc::clone(&notes), Arc::clone(&secured));
                // A client that is not served shows as a difference.
                let _shows = std::thread::Builder::new().spawn(move || receive(stream, &secured, &notes));
            }
        })?;
        let misfits = MISFITS.iter().map(|(name, answer)| Ok((*name, misfit(*answer)?))).collect::<Result<_>>()?;
        Ok(Target { address, misfits, asked })
    }

    /// A server of others, of which it is not known what it was asked.
    pub fn of_others(address: SocketAddr) -> Target {
        Target { address, misfits: Vec::new(), asked: Arc::default() }
    }

    /// How many requests came since they were last taken.
    pub fn asked(&self) -> usize {
        self.asked.lock().expect("no thread panics with it").len()
    }

    /// What was asked since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().expect("no thread panics with it"))
    }
}

fn receive(stream: TcpStream, secured: &Arc<ServerConfig>, asked: &Mutex<Vec<String>>) {
    let _without = stream.set_read_timeout(Some(PATIENCE));
    let _without = stream.set_nodelay(true);
    if let Ok(channel) = Channel::accept(stream, secured) {
        converse(channel, secured, asked);
    }
}

fn converse(mut stream: Channel, secured: &Arc<ServerConfig>, asked: &Mutex<Vec<String>>) {
    while let Some(request) = read_request(&mut stream) {
        let target = request.split(' ').nth(1).unwrap_or_default();
        let absolute = target.strip_prefix("http://").or_else(|| target.strip_prefix("https://"));
        let path = absolute.map_or(target, |rest| rest.find('/').map_or("/", |at| &rest[at..]));
        if request.starts_with("CONNECT ") {
            return tunnel(stream, request, secured, asked);
        }
        let answer = answer(path.split('?').next().unwrap_or_default(), &request);
        asked.lock().expect("no thread panics with it").push(format!("{}{request}", stream.negotiated()));
        let silent = path == "/hold";
        let head = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
        let shown = if request.starts_with("HEAD") { &answer[..head] } else { &answer };
        let broken = matches!(path, "/none" | "/garbage" | "/short" | "/until-close");
        let last = request.contains("Connection: close") || request.contains(" HTTP/1.0\r\n") || broken;
        if path == "/reset" {
            return reset(stream.socket());
        }
        if !silent && stream.write_all(shown).is_err() {
            return;
        }
        if last || silent {
            if !silent {
                stream.end();
            }
            // Until the client has closed, so that no answer is lost to a reset.
            let mut buffer = [0; 4096];
            while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
            return;
        }
    }
}

/// The port of a server that answers whatever it is told with this.
fn misfit(answer: Option<&'static [u8]>) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::Builder::new().spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let meet = move || {
                let _without = stream.set_read_timeout(Some(PATIENCE));
                let mut buffer = [0; 4096];
                let mut received = stream.read(&mut buffer);
                if let Some(answer) = answer {
                    let _gone = stream.write_all(answer).and_then(|()| stream.shutdown(Shutdown::Write));
                }
                while received.is_ok_and(|bytes| bytes > 0) {
                    received = stream.read(&mut buffer);
                }
            };
            // A client that is not served shows as a difference.
            let _shows = std::thread::Builder::new().spawn(meet);
        }
    })?;
    Ok(port)
}

/// Whatever server is asked for, it is this one.
fn tunnel(mut stream: Channel, request: String, secured: &Arc<ServerConfig>, asked: &Mutex<Vec<String>>) {
    let refused = request.contains("refused");
    asked.lock().expect("no thread panics with it").push(request);
    let answer = if refused { "403 Forbidden" } else { "200 Connection established" };
    let said = stream.write_all(format!("HTTP/1.0 {answer}\r\nVia: test\r\n\r\n").as_bytes());
    if let (Channel::Plain(stream), Ok(()), false) = (stream, said, refused) {
        receive(stream, secured, asked);
    }
}

/// Closes with a reset, as a crashed server does.
fn reset(stream: &TcpStream) {
    use nix::sys::socket::{setsockopt, sockopt};
    let at_once = nix::libc::linger { l_onoff: 1, l_linger: 0 };
    setsockopt(stream, sockopt::Linger, &at_once).expect("a socket can be made to reset");
}

/// One request with the body that it states, `None` at the end of the stream.
fn read_request(stream: &mut Channel) -> Option<String> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&request);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let stated = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            if body.len() >= stated.map_or(0, |length| length.parse().unwrap_or(0)) {
                return Some(text.into_owned());
            }
        }
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&buffer[..read]);
    }
}

/// A head with these fields, and the body with its length.
fn framed(status: &str, fields: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn answer(path: &str, request: &str) -> Vec<u8> {
    let lower = request.to_ascii_lowercase();
    let asks = |challenge: &str, scheme: &str| {
        if lower.contains(&format!("\r\n{challenge}: {scheme}")) {
            return framed("200 OK", "", "in");
        }
        let (status, field) =
            if challenge == "authorization" { (401, "WWW-Authenticate") } else { (407, "Proxy-Authenticate") };
        let more = match scheme {
            "digest" => r#", nonce="abc", qop="auth", algorithm=MD5, opaque="op""#,
            "digest username=\"jeff\", realm=\"admin\", nonce=\"old\"" => r#", nonce="old""#,
            _ => "",
        };
        let name = if scheme == "basic" { "Basic" } else { "Digest" };
        framed(&format!("{status} No"), &format!("{field}: {name} realm=\"Admin\"{more}\r\n"), "no")
    };
    let host = request.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap_or_default();
    let to = |scheme: &str| {
        framed("302 Found", &format!("Location: {scheme}://{host}/there\r\nSet-Cookie: a=b; Secure\r\n"), "")
    };
    match path {
        "/to-http" => to("http"),
        "/to-https" => to("https"),
        "/html-mixed" => framed(
            "200 OK",
            "Content-Type: text/html\r\n",
            &format!(
                "<img src=/a.png><img src=http://{host}/b.png><img src=https://{host}/c.png><img src=//{host}/d.png>"
            ),
        ),
        "/html" => framed("200 OK", "Content-Type: text/html\r\n", PAGE),
        "/html-utf8" => framed("200 OK", "Content-Type: text/html; charset=utf-8\r\n", "<img src=/one.png>"),
        "/html-404" => framed("404 Not", "Content-Type: text/html\r\n", PAGE),
        "/no-html" => framed("200 OK", "Content-Type: text/plain\r\n", PAGE),
        "/meta" => {
            framed("200 OK", "Content-Type: text/html\r\n", r#"<meta http-equiv="refresh" content="0; url=/there">"#)
        }
        "/redirect" => framed("302 Found", "Location: /there\r\n", ""),
        "/redirect-301" => framed("301 Moved", "Location: /there?a=b\r\n", "moved"),
        "/redirect-303" => framed("303 See", "Location: dir/there\r\n", "moved"),
        "/redirect-307" => framed("307 Temporary", "Location: /there\r\n", "moved"),
        "/redirect-308" => framed("308 Permanent", "Location: /there\r\n", "moved"),
        "/redirect-unknown" => framed("302 Found", "Location: http://nohost.invalid/x\r\n", "moved"),
        "/redirect-nowhere" => framed("302 Found", "", "moved"),
        "/redirect-500" => framed("302 Found", "Location: /500\r\n", "moved"),
        "/circle" => framed("302 Found", "Location: /circle\r\n", ""),
        "/tagged" => framed(
            "200 OK",
            "ETag: \"abc\"\r\nExpires: Wed, 21 Oct 2037 07:28:00 GMT\r\nSet-Cookie: a=b; path=/\r\n",
            "tagged",
        ),
        "/dated" => framed(
            "200 OK",
            "Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\nExpires: Wed, 21 Oct 2037 07:28:00 GMT\r\n",
            "dated",
        ),
        "/tagged-for-ever" => framed("200 OK", "ETag: \"abc\"\r\n", "tagged"),
        "/expired" => framed("200 OK", "ETag: \"abc\"\r\nExpires: Wed, 21 Oct 2015 07:28:00 GMT\r\n", "tagged"),
        "/cookie" => framed("200 OK", "Set-Cookie: a=b; path=/\r\nSet-Cookie: c=d; path=/sub; HttpOnly\r\n", "cookie"),
        "/cookie-lasting" => framed("200 OK", "Set-Cookie: e=f; expires=Thu, 01 Jan 2037 00:00:00 GMT\r\n", "cookie"),
        "/cookie-elsewhere" => framed("200 OK", "Set-Cookie: a=b; domain=localhost\r\n", "cookie"),
        "/basic" => asks("authorization", "basic"),
        "/basic-never" => framed("401 No", "WWW-Authenticate: Basic realm=\"Admin\"\r\n", "no"),
        "/digest" => asks("authorization", "digest"),
        "/digest-old" => asks("authorization", "digest username=\"jeff\", realm=\"admin\", nonce=\"old\""),
        "/proxy-basic" => asks("proxy-authorization", "basic"),
        "/chunked" => {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nabc\r\n0\r\n\r\n".to_vec()
        }
        "/until-close" => b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello".to_vec(),
        "/http10" => b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi".to_vec(),
        "/empty" => framed("200 OK", "", ""),
        "/none" => Vec::new(),
        "/garbage" => b"hello there\r\nyou\r\n\r\nbody".to_vec(),
        "/short" => b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort".to_vec(),
        _ => match path[1..].parse::<u16>() {
            Ok(status) if status >= 100 => framed(&format!("{status} X"), "Content-Type: text/plain\r\n", "st"),
            _ => framed("200 OK", "Content-Type: text/plain\r\n", "hello!"),
        },
    }
}
