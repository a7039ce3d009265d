//! What clients say, made of choices, and what each request must be answered: found here by looking at how the request was
//! made, not by parsing it.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use manifold_engine::phases::{Outcome, Phase, Phases};
use manifold_engine::request::{Body, Content, Found, Request, Resource};
use manifold_engine::site::Site;
use manifold_http::{Method, Status};

use crate::Choices;
use crate::answers::Answer;

/// Bodies up to this many bytes are taken.
const BODY_MAX: usize = 1000;

/// Several requests, one behind the other.
pub struct Conversation {
    pub bytes: Vec<u8>,
    /// How the connection ends, when all is said.
    pub ends: Ends,
    /// What the requests must be answered. Those behind one that ends the connection get no answer.
    expected: Vec<Expected>,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The client may go on.
    Open,
    /// As the client asked.
    Closed,
    /// The server understood something wrong, or will not read what follows.
    Refused,
}

/// The answer to a request.
struct Expected {
    status: u16,
    to_head: bool,
    /// `None` where the text is the server's own.
    body: Option<Vec<u8>>,
}

/// The files of the site: small ones are copied, larger ones referred to, the last is on disk.
const PAGES: &[(&str, usize)] = &[("/", 5), ("/large", 5000), ("/file", 10_000)];

/// The content of a file: no two places look alike.
fn content(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at % 251) as u8 ^ (at / 251) as u8).collect()
}

/// A site of these files.
pub fn site() -> Site {
    let mut phases = Phases::new();
    let pages: Vec<(&str, Arc<Resource>)> = PAGES
        .iter()
        .map(|(path, size)| {
            let bytes = content(*size);
            let content = if *path == "/file" { on_disk(&bytes) } else { Content::Memory(Arc::from(bytes)) };
            (*path, Arc::new(Resource::new(content, *size as u64, None, b"\"e\"")))
        })
        .collect();
    phases.add(Phase::MapToStorage, move |request: &mut Request| {
        let page = pages.iter().find(|(path, _)| path.as_bytes() == &request.path[..]);
        let Some((_, resource)) = page else { return Outcome::Declined };
        request.found = Found::File(Arc::clone(resource));
        Outcome::Done
    });
    phases.add(Phase::Handler, |request: &mut Request| {
        let Found::File(resource) = &request.found else { return Outcome::Declined };
        if !matches!(request.method(), Method::Get | Method::Head) {
            return Outcome::Respond(Status::METHOD_NOT_ALLOWED);
        }
        request.response.body = Body::Resource(Arc::clone(resource));
        Outcome::Done
    });
    let mut site = Site::new(phases);
    site.limit_request_body = BODY_MAX as u64;
    site
}

fn on_disk(bytes: &[u8]) -> Content {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let unique = format!("{}-{}", std::process::id(), FILES.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(format!("manifold-engine-simulation-{unique}"));
    std::fs::write(&path, bytes).unwrap();
    let opened = Arc::new(File::open(&path).unwrap());
    std::fs::remove_file(path).unwrap();
    Content::File(opened)
}

impl Conversation {
    /// One to six requests.
    pub fn new(choices: &mut Choices) -> Conversation {
        let mut conversation = Conversation { bytes: Vec::new(), ends: Ends::Open, expected: Vec::new() };
        for _ in 0..=choices.below(6) {
            if choices.once_in(8) {
                // An empty line before a request is skipped (RFC 9112 section 2.2).
                conversation.bytes.extend_from_slice(b"\r\n");
            }
            match choices.below(10) {
                0..4 => conversation.page(choices),
                4 => conversation.part(choices),
                5 => conversation.condition(choices),
                6 | 7 => conversation.body(choices),
                8 => conversation.other(choices),
                _ if choices.once_in(3) => conversation.refused(choices),
                _ => conversation.page(choices),
            }
        }
        conversation
    }

    /// Whether the `nth` answer is one to HEAD.
    pub fn is_head(&self, nth: usize) -> bool {
        self.expected.get(nth).is_some_and(|expected| expected.to_head)
    }

    /// Compares the answers with what was expected.
    pub fn check(&self, answers: &[Answer]) -> Result<(), String> {
        if answers.len() != self.expected.len() {
            return Err(format!("{} answers where there should be {}", answers.len(), self.expected.len()));
        }
        for (nth, (answer, expected)) in answers.iter().zip(&self.expected).enumerate() {
            if answer.status != expected.status {
                return Err(format!("answer {nth} is {} and should be {}", answer.status, expected.status));
            }
            if expected.body.as_ref().is_some_and(|body| *body != answer.body) {
                return Err(format!("answer {nth} has another body"));
            }
            let closes = self.ends != Ends::Open && nth + 1 == answers.len();
            if answer.closes != closes {
                return Err(format!("whether the connection ends is wrong in answer {nth}"));
            }
        }
        Ok(())
    }

    /// Appends a request, and its answer where there is one.
    fn say(&mut self, request: &[u8], status: u16, body: Option<Vec<u8>>, ends: Ends) {
        self.bytes.extend_from_slice(request);
        if self.ends == Ends::Open {
            self.expected.push(Expected { status, to_head: request.starts_with(b"HEAD "), body });
            self.ends = ends;
        }
    }

    /// A file, or one that is not there.
    fn page(&mut self, choices: &mut Choices) {
        let method = choices.of(&["GET", "GET", "HEAD"]);
        let (version, connection, ends) = choices.of(&[
            ("1.1", "", Ends::Open),
            ("1.1", "", Ends::Open),
            ("1.1", "Connection: keep-alive\r\n", Ends::Open),
            ("1.0", "Connection: keep-alive\r\n", Ends::Open),
            ("1.0", "", Ends::Closed),
            ("1.1", "Connection: Close\r\n", Ends::Closed),
        ]);
        let fields = choices.of(&["", "Accept: */*\r\n", "X:\r\n", "User-Agent: a b c\r\nCookie: x=y\r\n"]);
        let (path, status, body) = if choices.once_in(5) {
            ("/none", 404, None)
        } else {
            let (path, size) = choices.of(PAGES);
            (path, 200, Some(content(size)))
        };
        let absolute = if choices.once_in(6) { "http://h" } else { "" };
        let request = format!("{method} {absolute}{path} HTTP/{version}\r\nHost: h\r\n{connection}{fields}\r\n");
        let body = if method == "HEAD" { Some(Vec::new()) } else { body };
        self.say(request.as_bytes(), status, body, ends);
    }

    /// A part of a file.
    fn part(&mut self, choices: &mut Choices) {
        let (path, size) = choices.of(PAGES);
        let all = content(size);
        let from = choices.below(size);
        let to = from + choices.below(size - from);
        let last = 1 + choices.below(size);
        let (range, status, body) = match choices.below(5) {
            0 => (format!("{from}-{to}"), 206, Some(all[from..=to].to_vec())),
            1 => (format!("{from}-"), 206, Some(all[from..].to_vec())),
            2 => (format!("-{last}"), 206, Some(all[size - last..].to_vec())),
            3 => (format!("{from}-{}", size + to), 206, Some(all[from..].to_vec())),
            _ => (format!("{}-", size + to), 416, None),
        };
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nRange: bytes={range}\r\n\r\n");
        self.say(request.as_bytes(), status, body, Ends::Open);
    }

    /// A file, unless it is known, or only if it is.
    fn condition(&mut self, choices: &mut Choices) {
        let (path, size) = choices.of(PAGES);
        let (field, status) = choices.of(&[
            ("If-None-Match: \"e\"", 304),
            ("If-None-Match: \"other\", W/\"e\"", 304),
            ("If-None-Match: *", 304),
            ("If-None-Match: \"other\"", 200),
            ("If-Match: \"e\"", 200),
            ("If-Match: \"other\"", 412),
        ]);
        let body = match status {
            200 => Some(content(size)),
            304 => Some(Vec::new()),
            _ => None,
        };
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{field}\r\n\r\n");
        self.say(request.as_bytes(), status, body, Ends::Open);
    }

    /// A request with a body, which looks like requests.
    fn body(&mut self, choices: &mut Choices) {
        let length = choices.of(&[0, 1, 30, 400, BODY_MAX, BODY_MAX + 1]);
        let body: Vec<u8> =
            b"GET / HTTP/1.1\r\nHost: h\r\n\r\n0\r\n\r\n".iter().copied().cycle().take(length).collect();
        let expect = if choices.once_in(3) { "Expect: 100-continue\r\n" } else { "" };
        let head = format!("POST / HTTP/1.1\r\nHost: h\r\n{expect}");
        let (status, ends) = if length > BODY_MAX { (413, Ends::Refused) } else { (405, Ends::Open) };
        let request = if choices.once_in(2) {
            [format!("{head}Content-Length: {length}\r\n\r\n").as_bytes(), &body].concat()
        } else {
            [format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes(), chunked(&body, choices)].concat()
        };
        self.say(&request, status, None, ends);
    }

    /// Well-formed requests for what there is not.
    fn other(&mut self, choices: &mut Choices) {
        let (request, status, ends) = choices.of(&[
            ("DELETE / HTTP/1.1\r\nHost: h\r\n\r\n", 405, Ends::Open),
            ("CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", 405, Ends::Open),
            ("PROPFIND / HTTP/1.1\r\nHost: h\r\n\r\n", 405, Ends::Open),
            ("TRACE /x HTTP/1.1\r\nHost: h\r\n\r\n", 200, Ends::Open),
            ("BREW / HTTP/1.1\r\nHost: h\r\n\r\n", 501, Ends::Refused),
        ]);
        self.say(request.as_bytes(), status, None, ends);
    }

    /// What must not be understood: nothing behind it is answered.
    fn refused(&mut self, choices: &mut Choices) {
        let (request, status) = choices.of(&[
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\nHost: h\n\n", 400),
            ("GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n", 400),
            ("GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400),
            ("GET /../a HTTP/1.1\r\nHost: h\r\n\r\n", 400),
            ("GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
            ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
            ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +3\r\n\r\nabc", 400),
            ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        ]);
        self.say(request.as_bytes(), status, None, Ends::Refused);
    }
}

/// A body in chunks of any size, with extensions and trailers.
fn chunked(body: &[u8], choices: &mut Choices) -> Vec<u8> {
    let (mut chunks, mut rest) = (Vec::new(), body);
    while !rest.is_empty() {
        let (now, later) = rest.split_at(1 + choices.below(rest.len()));
        let extension = choices.of(&["", "", ";x", ";x=y", ";x=\"y z\""]);
        chunks.extend_from_slice(format!("{:x}{extension}\r\n", now.len()).as_bytes());
        chunks.extend_from_slice(now);
        chunks.extend_from_slice(b"\r\n");
        rest = later;
    }
    chunks.extend_from_slice(choices.of(&["0\r\n\r\n", "000\r\n\r\n", "0\r\nTrailer: t\r\n\r\n"]).as_bytes());
    chunks
}
