//! The requests whose cost is counted, and the client that makes them: one connection and one request at a time, unless
//! the workload says otherwise, so that the server does the same in every run.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::server::{Server, Site};

/// One kind of request.
pub struct Workload {
    pub name: &'static str,
    /// Field lines beside `Host` and `Connection`.
    fields: &'static str,
    path: &'static str,
    status: u16,
    /// Bytes of the answer's body.
    body: usize,
    pub connections: Connections,
    /// Requests that are counted.
    pub requests: usize,
    /// Whether it is made to the server that writes an access log, rather than to the one that does not.
    pub logged: bool,
    /// What its counts may rise by, in percent and where more than usual, because they depend on when which thread runs, or on how
    /// fast the client reads.
    pub instructions_may_rise: f64,
    pub calls_may_rise: f64,
    /// Allocations that a request may make, whatever the baseline says.
    pub allocations_max: f64,
}

/// How connections are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// One for all requests.
    Kept,
    /// One for each request.
    Closing,
    /// So many, and a request on each of them while the server stands still, so that it finds all of them at once.
    AtOnce(usize),
}

/// As a browser asks for a page.
const BROWSER: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-GB,en;q=0.7,de;q=0.3\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Referer: https://www.example.org/\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    Sec-Fetch-Dest: document\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Priority: u=0, i\r\n";

/// A page on a kept connection, from which the others differ.
const PAGE: Workload = Workload {
    name: "44-bytes",
    fields: "",
    path: Site::PAGE,
    status: 200,
    body: 44,
    connections: Connections::Kept,
    requests: 1000,
    logged: false,
    instructions_may_rise: 0.0,
    calls_may_rise: 0.0,
    // None; but a thread may serve for the first time among the requests that are counted, and makes its buffers then.
    allocations_max: 0.1,
};

pub const WORKLOADS: &[Workload] = &[
    PAGE,
    Workload { name: "6-bytes", path: Site::SIX, body: 6, ..PAGE },
    Workload { name: "6-bytes-at-once", path: Site::SIX, body: 6, connections: Connections::AtOnce(50), ..PAGE },
    Workload { name: "44-bytes-closing", connections: Connections::Closing, calls_may_rise: 8.0, ..PAGE },
    Workload { name: "44-bytes-browser", fields: BROWSER, ..PAGE },
    Workload { name: "44-bytes-browser-logged", fields: BROWSER, logged: true, ..PAGE },
    Workload { name: "136-kb", path: Site::MEDIUM, body: Site::MEDIUM_LEN, requests: 200, ..PAGE },
    Workload {
        name: "136-kb-closing",
        path: Site::MEDIUM,
        body: Site::MEDIUM_LEN,
        connections: Connections::Closing,
        requests: 200,
        calls_may_rise: 8.0,
        ..PAGE
    },
    Workload {
        name: "10-mb",
        path: Site::LARGE,
        body: Site::LARGE_LEN,
        requests: 20,
        instructions_may_rise: 25.0,
        calls_may_rise: 40.0,
        allocations_max: 2.0,
        ..PAGE
    },
    // The path of the file that stands for the folder is made for each request.
    Workload { name: "index", path: "/", allocations_max: 1.1, ..PAGE },
    Workload { name: "not-modified", fields: UNCHANGED, status: 304, body: 0, ..PAGE },
    Workload { name: "range", fields: "Range: bytes=6-17\r\n", status: 206, body: 12, ..PAGE },
    Workload {
        name: "range-of-136-kb",
        path: Site::MEDIUM,
        fields: "Range: bytes=65536-131071\r\n",
        status: 206,
        body: 65536,
        requests: 200,
        ..PAGE
    },
    // So is the text of an error page.
    Workload {
        name: "not-found",
        path: "/missing.html",
        status: 404,
        body: NOT_FOUND_LEN,
        allocations_max: 1.1,
        ..PAGE
    },
];

/// The length of the error page.
const NOT_FOUND_LEN: usize = 236;

/// As a browser asks for a page that it has; its files are all of this time.
const UNCHANGED: &str = "If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT\r\n";

/// No answer takes as long, even of a server that valgrind slows down on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a workload's requests to a server.
pub struct Client<'a> {
    server: &'a Server,
    workload: &'a Workload,
    kept: Vec<TcpStream>,
    buffer: Vec<u8>,
}

impl<'a> Client<'a> {
    pub fn new(server: &'a Server, workload: &'a Workload) -> Result<Client<'a>> {
        let kept = match workload.connections {
            Connections::Kept => 1,
            Connections::Closing => 0,
            Connections::AtOnce(connections) => connections,
        };
        let kept = (0..kept).map(|_| connect(server)).collect::<Result<_>>()?;
        Ok(Client { server, workload, kept, buffer: vec![0; 256 * 1024] })
    }

    /// Makes so many requests, or as many more as make whole rounds of all connections, and returns how many.
    pub fn run(&mut self, requests: usize) -> Result<usize> {
        let request = request(self.workload.path, self.workload.fields, self.workload.connections);
        let expected = (self.workload.status, self.workload.body);
        let Connections::AtOnce(connections) = self.workload.connections else {
            for _ in 0..requests {
                self.server.wait_until_idle()?;
                self.exchange(&request, Some(expected))?;
            }
            return Ok(requests);
        };
        let rounds = requests.div_ceil(connections);
        for _ in 0..rounds {
            self.server.pause()?;
            for socket in &mut self.kept {
                socket.write_all(&request)?;
            }
            self.server.go_on()?;
            for socket in &mut self.kept {
                receive(socket, &mut self.buffer, Some(expected))?;
            }
        }
        Ok(rounds * connections)
    }

    /// Makes the request that ends a part of what is counted, in the same way as the others.
    pub fn mark(&mut self) -> Result<()> {
        self.server.wait_until_idle()?;
        self.exchange(&request(Site::MARKER, "", self.workload.connections), None)
    }

    fn exchange(&mut self, request: &[u8], expected: Option<(u16, usize)>) -> Result<()> {
        if let Some(socket) = self.kept.first_mut() {
            socket.write_all(request)?;
            return receive(socket, &mut self.buffer, expected);
        }
        let mut socket = connect(self.server)?;
        socket.write_all(request)?;
        receive(&mut socket, &mut self.buffer, expected)?;
        ensure!(socket.read(&mut self.buffer)? == 0, "more than one answer came");
        Ok(())
    }
}

fn connect(server: &Server) -> Result<TcpStream> {
    let socket = TcpStream::connect(server.address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

fn request(path: &str, fields: &str, connections: Connections) -> Vec<u8> {
    let close = if connections == Connections::Closing { "Connection: close\r\n" } else { "" };
    format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n{close}{fields}\r\n").into_bytes()
}

/// Reads one answer and compares its status and the length of its body with what is expected.
fn receive(socket: &mut TcpStream, buffer: &mut [u8], expected: Option<(u16, usize)>) -> Result<()> {
    let mut filled = 0;
    let end = loop {
        let more = socket.read(&mut buffer[filled..])?;
        ensure!(more > 0, "the server closed the connection instead of answering");
        filled += more;
        if let Some(at) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let length = length(&head).with_context(|| format!("no length in {head}"))?;
    let mut left = length.checked_sub(filled - end).context("more than one answer came")?;
    while left > 0 {
        let read = socket.read(buffer)?;
        ensure!(read > 0, "the server closed the connection in the middle of an answer");
        left = left.checked_sub(read).context("more than one answer came")?;
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    if expected.is_some_and(|(expected, body)| status != Some(expected) || length != body) {
        bail!("expected status and length {expected:?}, got {head}");
    }
    Ok(())
}

fn length(head: &str) -> Option<usize> {
    if head.starts_with("HTTP/1.1 304 ") {
        // It has no body, whatever length it tells.
        return Some(0);
    }
    head.lines().find_map(|line| line.strip_prefix("Content-Length: "))?.parse().ok()
}
