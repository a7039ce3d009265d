//! A target whose path says how oddly it answers, the same way in every run, so that both programs meet the very same server.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;

/// No client of a test waits longer than this for the target.
const PATIENCE: Duration = Duration::from_secs(20);

/// What an answer is made of.
enum Step {
    Send(Vec<u8>),
    Pause(u64),
    /// The connection is reset.
    Reset,
    /// Nothing more until the client goes.
    Hold,
    /// The next request on this connection is read.
    Next,
}

/// The target; it listens until the test program ends.
pub struct Target {
    pub address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Target {
    /// One that listens on a free port of this address.
    pub fn start(ip: &str) -> Result<Target> {
        let listener = TcpListener::bind((ip, 0))?;
        let address = listener.local_addr()?;
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        std::thread::Builder::new().spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counter = Arc::clone(&counter);
                // A client that is not served shows as a difference.
                let _shows = std::thread::Builder::new().spawn(move || converse(stream, &counter));
            }
        })?;
        Ok(Target { address, requests })
    }

    /// The next request is the first again.
    pub fn rewind(&self) {
        self.requests.store(0, Ordering::SeqCst);
    }
}

fn converse(mut stream: TcpStream, requests: &AtomicUsize) {
    let _without = stream.set_read_timeout(Some(PATIENCE));
    let _without = stream.set_nodelay(true);
    while let Some(request) = read_request(&mut stream) {
        let number = requests.fetch_add(1, Ordering::SeqCst);
        let target = request.split(' ').nth(1).unwrap_or_default();
        let path = target.strip_prefix("http://").map_or(target, |rest| rest.find('/').map_or("/", |at| &rest[at..]));
        let mut another = false;
        for step in script(path, number, request.contains("Keep-Alive"), &request) {
            match step {
                Step::Send(bytes) => {
                    if stream.write_all(&bytes).is_err() {
                        return;
                    }
                }
                Step::Pause(milliseconds) => std::thread::sleep(Duration::from_millis(milliseconds)),
                Step::Reset => return reset(&stream),
                Step::Hold => return drain(&mut stream),
                Step::Next => another = true,
            }
        }
        if !another {
            let _gone = stream.shutdown(Shutdown::Write);
            return drain(&mut stream);
        }
    }
}

/// Reads until the client has closed, so that no answer is lost to a reset.
fn drain(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
}

/// Closes with a reset, as a crashed server does.
fn reset(stream: &TcpStream) {
    use nix::sys::socket::{setsockopt, sockopt};
    let at_once = nix::libc::linger { l_onoff: 1, l_linger: 0 };
    setsockopt(stream, sockopt::Linger, &at_once).expect("a socket can be made to reset");
}

/// One request with the body that it states, `None` at the end of the stream.
pub fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !complete(&request) {
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&buffer[..read]);
    }
    Some(String::from_utf8_lossy(&request).into_owned())
}

/// Head and stated body are there.
fn complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let stated = head.lines().find_map(|line| line.strip_prefix("Content-length: "));
    body.len() >= stated.map_or(0, |length| length.parse().unwrap_or(0))
}

/// `HTTP/1.1 STATUS`, the fields, `Connection: Keep-Alive` where asked for, and the body.
fn answer(status: &str, fields: &[&str], keep: bool, body: &str) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status}\r\nServer: odd/1.0 (test)\r\n");
    for field in fields {
        let _infallible = write!(text, "{field}\r\n");
    }
    text.push_str(if keep { "Connection: Keep-Alive\r\n\r\n" } else { "\r\n" });
    text.push_str(body);
    text.into_bytes()
}

/// What happens to the request with this number, counted over all connections.
fn script(path: &str, number: usize, keep: bool, request: &str) -> Vec<Step> {
    let send = |text: &str| Step::Send(text.as_bytes().to_vec());
    let kept = |mut steps: Vec<Step>| {
        if keep {
            steps.push(Step::Next);
        }
        steps
    };
    let plain = || Step::Send(answer("200 OK", &["Content-Length: 5"], keep, "hello"));
    let whole = |status: &str, fields: &[&str], body: &str| kept(vec![Step::Send(answer(status, fields, keep, body))]);
    match path {
        "/nolength" => vec![send("HTTP/1.0 200 OK\r\n\r\nsome text until the end")],
        "/short" => vec![Step::Send(answer("200 OK", &["Content-Length: 10"], false, "hello"))],
        "/short-kept" => vec![Step::Send(answer("200 OK", &["Content-Length: 10"], true, "hello"))],
        "/short-third" if number == 2 => vec![Step::Send(answer("200 OK", &["Content-Length: 5"], false, "hel"))],
        "/long" => vec![Step::Send(answer("200 OK", &["Content-Length: 5"], false, "hello world"))],
        "/long-kept" => whole("200 OK", &["Content-Length: 5"], "hello world"),
        "/chunked" => vec![Step::Send(answer("200 OK", &["Transfer-Encoding: chunked"], false, CHUNKS))],
        "/chunked-kept" => whole("200 OK", &["Transfer-Encoding: chunked"], CHUNKS),
        "/404" => whole("404 Not Found", &["Content-Length: 4"], "none"),
        "/500-third" if number % 3 == 2 => whole("500 Internal Server Error", &["Content-Length: 5"], "sorry"),
        "/302" => whole("302 Found", &["Location: /", "Content-Length: 0"], ""),
        "/204" => whole("204 No Content", &[], ""),
        "/304" => whole("304 Not Modified", &["Content-Length: 100"], ""),
        "/vary" => {
            let body = "x".repeat(5 + number % 3);
            whole("200 OK", &[&format!("Content-Length: {}", body.len())], &body)
        }
        "/vary-nolength" => vec![Step::Send(answer("200 OK", &[], false, &"x".repeat(5 + number % 3)))],
        "/reset" => vec![Step::Reset],
        "/reset-third" if number == 2 => vec![Step::Reset],
        "/reset-midway" => {
            vec![Step::Send(answer("200 OK", &["Content-Length: 10"], keep, "hello")), Step::Pause(50), Step::Reset]
        }
        "/close" => vec![],
        "/close-third" if number == 2 => vec![],
        "/nohead" => vec![send("hello")],
        "/nohead-lines" => vec![send("hello\r\n\r\nworld")],
        "/endless-head" => vec![send("HTTP/1.1 200 OK\r\nX: y\r\n")],
        "/lf" => kept(vec![send(&format!(
            "HTTP/1.1 200 OK\nServer: lf\nContent-Length: 5\n{}\nhello",
            if keep { "Connection: Keep-Alive\n" } else { "" }
        ))]),
        "/big-head" => whole("200 OK", &[&format!("X: {}", "y".repeat(3000)), "Content-Length: 5"], "hello"),
        "/huge-head" => whole("200 OK", &[&format!("X: {}", "y".repeat(20_000)), "Content-Length: 5"], "hello"),
        "/says-close" => {
            vec![Step::Send(answer("200 OK", &["Connection: close", "Content-Length: 5"], false, "hello"))]
        }
        "/kept-lower" => {
            vec![
                send("HTTP/1.1 200 OK\r\nserver: low\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\nhello"),
                Step::Next,
            ]
        }
        "/kept-mixed" => {
            vec![send("HTTP/1.1 200 OK\r\nContent-length: 5\r\nConnection: KEEP-ALIVE\r\n\r\nhello"), Step::Next]
        }
        "/kept-word" => vec![Step::Send(answer(
            "200 OK",
            &["X-Note: no Keep-Alive here", "Connection: close", "Content-Length: 5"],
            false,
            "hello",
        ))],
        "/kept-then-closed" => vec![Step::Send(answer("200 OK", &["Content-Length: 5"], keep, "hello"))],
        "/kept-nolength" => vec![Step::Send(answer("200 OK", &[], keep, "hello"))],
        "/kept-split" => kept(vec![
            Step::Send(answer("200 OK", &["Content-Length: 10"], keep, "hello")),
            Step::Pause(30),
            send("world"),
        ]),
        "/split-head" => vec![
            send("HTTP/1.1 200 OK\r\nServer: sp"),
            Step::Pause(30),
            send("lit\r\nContent-Length: 5\r\n"),
            Step::Pause(30),
            send("\r\nhel"),
            Step::Pause(30),
            send("lo"),
        ],
        "/slow" => kept(vec![Step::Pause(150), plain()]),
        "/never" => vec![Step::Hold],
        "/never-third" if number == 2 => vec![Step::Hold],
        "/half" => vec![Step::Send(answer("200 OK", &["Content-Length: 10"], keep, "hello")), Step::Hold],
        "/100" => {
            let mut both = b"HTTP/1.1 100 Continue\r\n\r\n".to_vec();
            both.extend(answer("200 OK", &["Content-Length: 5"], keep, "hello"));
            kept(vec![Step::Send(both)])
        }
        "/no-status" => vec![send("HTTP/1.1 abc\r\n\r\nhello")],
        "/short-status" => vec![send("HTTP/1.1\r\n\r\n")],
        "/status-2" => vec![send("HTTP/1.1 2\r\n\r\nhello")],
        "/no-http" => vec![send("SSH-2.0-thing\r\n\r\nhello")],
        "/http2-version" => vec![send("HTTP/2 200\r\n\r\nhello")],
        "/no-server" => vec![send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")],
        "/server-odd" => vec![send("HTTP/1.1 200 OK\r\nX-Server: a b\r\nserver:   spaced out/1 \r\n\r\nhello")],
        "/server-second" if number == 0 => vec![send("HTTP/1.1 200 OK\r\nServer: first\r\n\r\nhello")],
        "/nul" => vec![Step::Send(b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\nhe\0llo".to_vec())],
        "/last-slow" if number == 2 => kept(vec![Step::Pause(400), plain()]),
        "/late" if number > 0 => kept(vec![Step::Pause(40), plain()]),
        "/head-body" if request.starts_with("HEAD") => {
            vec![Step::Send(answer("200 OK", &["Content-Length: 5"], keep, "hello"))]
        }
        "/echo" => whole("200 OK", &[&format!("Content-Length: {}", request.len())], request),
        _ if request.starts_with("HEAD") => whole("200 OK", &["Content-Length: 5"], ""),
        _ => kept(vec![plain()]),
    }
}

/// A body in chunks, eleven bytes of it.
const CHUNKS: &str = "6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n";
