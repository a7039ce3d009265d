//! What a server says on one connection, taken apart so that it can be compared.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use e2e::PATIENCE;

use crate::cases::Case;

/// One answer. What names the server or the moment is masked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status line; empty for HTTP/0.9.
    pub status: String,
    /// Field lines in their order.
    pub fields: Vec<String>,
    /// The body, without its coding.
    pub body: Vec<u8>,
}

/// Longest body shown when something is wrong.
const SHOWN_MAX: usize = 600;

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.status)?;
        for field in &self.fields {
            writeln!(f, "{field}")?;
        }
        let shown = &self.body[..self.body.len().min(SHOWN_MAX)];
        writeln!(f, "({} bytes) {}", self.body.len(), shown.escape_ascii())
    }
}

/// Asked after every case: it is answered only where the connection was kept.
const PROBE: &[u8] = b"GET /probe.txt HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n";

/// Everything that a server answers on one connection until it closes it.
pub fn ask(port: u16, case: &Case) -> Vec<Answer> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut said = Vec::new();
    if let Some(first) = &case.awaited {
        socket.write_all(first).unwrap();
        while !said.ends_with(b"\r\n\r\n") {
            assert!(receive(&mut socket, &mut said), "{case}: closed before a first answer");
        }
    }
    // A server that refuses a request may have closed before all of it is sent.
    let _ = socket.write_all(&[&case.bytes, PROBE].concat());
    while receive(&mut socket, &mut said) {}
    answers(&said, case)
}

/// Receives once; false at the end.
fn receive(socket: &mut TcpStream, said: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 64 * 1024];
    match socket.read(&mut buffer) {
        Ok(0) => false,
        Ok(length) => {
            said.extend_from_slice(&buffer[..length]);
            true
        }
        Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
        Err(error) => panic!("the server neither answers nor closes: {error}; so far {}", said.escape_ascii()),
    }
}

fn answers(said: &[u8], case: &Case) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut rest = said;
    let mut head_only = case.is_head();
    while !rest.is_empty() {
        let (answer, length) = answer(rest, head_only);
        // The probe follows an answer to HEAD.
        head_only &= answer.status.starts_with("HTTP/1.1 1");
        answers.push(answer);
        rest = &rest[length..];
    }
    answers
}

/// The answer at the start of `said`, and how long it is.
fn answer(said: &[u8], head_only: bool) -> (Answer, usize) {
    let Some(end) = said.windows(4).position(|window| window == b"\r\n\r\n").filter(|_| said.starts_with(b"HTTP/1."))
    else {
        return (Answer { body: said.to_vec(), ..Answer::default() }, said.len());
    };
    let head = String::from_utf8_lossy(&said[..end]).into_owned();
    let mut lines = head.split("\r\n").map(str::to_owned);
    let status = lines.next().unwrap();
    let mut fields: Vec<String> = lines.collect();
    let rest = &said[end + 4..];
    let code = status.split(' ').nth(1).unwrap().to_owned();
    let chunked = fields.iter().any(|field| field == "Transfer-Encoding: chunked");
    let announced = value(&fields, "Content-Length").map(|length| length.parse::<usize>().unwrap());
    let (body, taken) = if head_only || code.starts_with('1') || code == "204" || code == "304" {
        (Vec::new(), 0)
    } else if chunked {
        unchunk(rest)
    } else {
        let length = announced.unwrap_or(rest.len()).min(rest.len());
        (rest[..length].to_vec(), length)
    };
    let body = mask(&mut fields, body);
    (Answer { status, fields, body }, end + 4 + taken)
}

/// The value of a field.
pub fn value<'a>(fields: &'a [String], name: &str) -> Option<&'a str> {
    fields.iter().find_map(|field| field.strip_prefix(name)?.strip_prefix(": "))
}

fn unchunk(mut rest: &[u8]) -> (Vec<u8>, usize) {
    let (mut body, whole) = (Vec::new(), rest.len());
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap().trim(), 16).unwrap();
        rest = &rest[line + 2..];
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
        if size == 0 {
            return (body, whole - rest.len());
        }
    }
}

/// Replaces what cannot be the same: the moment, the server's name and version, and the random boundary between parts.
fn mask(fields: &mut [String], body: Vec<u8>) -> Vec<u8> {
    let server = value(fields, "Server").unwrap_or_default().to_owned();
    let boundary =
        value(fields, "Content-Type").and_then(|kind| kind.split_once("boundary=")).map(|(_, it)| it.to_owned());
    if let Some(boundary) = &boundary {
        // Apache writes a number without leading zeros.
        assert!(
            (8..=16).contains(&boundary.len()) && boundary.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{boundary}"
        );
    }
    let before = body.len();
    let mut text = body;
    if find(&text, b"<address>").is_some() {
        text = replace(&text, server.as_bytes(), b"SERVER");
    }
    if let Some(boundary) = &boundary {
        text = replace(&text, boundary.as_bytes(), b"BOUNDARY");
    }
    for field in fields {
        let (name, value) = field.split_once(": ").unwrap_or((field, ""));
        *field = match name {
            "Date" => {
                assert!(value.ends_with(" GMT") && value.len() == 29, "{field}");
                "Date: *".to_owned()
            }
            "Server" => {
                assert!(["Apache", "Manifold"].iter().any(|product| value.starts_with(product)), "{field}");
                "Server: *".to_owned()
            }
            // Apache's order is that of a hash table, and another in each process.
            "Allow" => {
                let mut methods: Vec<_> = value.split(',').collect();
                methods.sort_unstable();
                format!("Allow: {}", methods.join(","))
            }
            "Content-Length" if text.len() != before => {
                let length: usize = value.parse().unwrap();
                format!("Content-Length: {}", length + text.len() - before)
            }
            "Content-Type" => match &boundary {
                Some(boundary) => field.replace(boundary.as_str(), "*"),
                None => continue,
            },
            _ => continue,
        };
    }
    text
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

fn replace(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let (mut rest, mut out) = (text, Vec::new());
    while let Some(at) = find(rest, old) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(new);
        rest = &rest[at + old.len()..];
    }
    out.extend_from_slice(rest);
    out
}
