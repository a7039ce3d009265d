//! The engine over memory: bytes in, bytes out. That they are the same however they are cut on the way is simulated
//! (tests/simulation).

#![expect(clippy::unwrap_used, reason = "a test fails where its set-up does")]

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use manifold_engine::memory::{Input, MemoryHost, MemoryTransport};
use manifold_engine::phases::{Outcome, Phase, Phases};
use manifold_engine::request::{Body, Content, Found, Request, Resource};
use manifold_engine::serve::{Conn, serve};
use manifold_engine::site::{Site, Trace};
use manifold_engine::transaction::{LogTransaction, Transaction};
use manifold_engine::transport::{Job, Next};
use manifold_http::{Method, Status};

/// A site of three pages: `/` in memory, `/large` (above what is copied), `/file` on disk.
fn site() -> Site {
    let mut phases = Phases::new();
    static SITES: AtomicUsize = AtomicUsize::new(0);
    let unique = format!("{}-{}", std::process::id(), SITES.fetch_add(1, Ordering::Relaxed));
    let file = std::env::temp_dir().join(format!("manifold-engine-serve-{unique}"));
    std::fs::write(&file, vec![b'f'; 10_000]).unwrap();
    let opened = Arc::new(std::fs::File::open(&file).unwrap());
    std::fs::remove_file(file).unwrap();
    let resource = |size, content| Arc::new(Resource::new(content, size, None, b"\"e\""));
    let small = resource(5, Content::Memory(Arc::from(&b"small"[..])));
    let large = resource(5000, Content::Memory(Arc::from(vec![b'l'; 5000])));
    let on_disk = resource(10_000, Content::File(opened));
    phases.add(Phase::MapToStorage, move |request: &mut Request| {
        request.found = match &request.path[..] {
            b"/" => Found::File(Arc::clone(&small)),
            b"/large" => Found::File(Arc::clone(&large)),
            b"/file" => Found::File(Arc::clone(&on_disk)),
            _ => return Outcome::Declined,
        };
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
    site.server = "test".to_owned();
    site.limit_request_body = 1000;
    site
}

/// Polls to the end; a script without end would be a mistake of the test.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    for _ in 0..1_000_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
    panic!("the engine waits for ever");
}

/// Everything the engine says on a connection, and how it leaves it.
fn talk(site: &Site, io: &mut MemoryTransport, host: &MemoryHost) -> (Vec<u8>, std::io::Result<Next>) {
    let mut conn = Conn::new(([192, 0, 2, 1], 4711).into());
    loop {
        let next = block_on(serve(io, &mut conn, site, host));
        let more = io.input.iter().any(|input| matches!(input, Input::Bytes(_)));
        if !matches!(next, Ok(Next::KeepAlive)) || !more {
            return (std::mem::take(&mut io.sent), next);
        }
    }
}

fn bytes(text: &str) -> Input {
    Input::Bytes(text.as_bytes().to_vec())
}

/// One exchange: the first line, chosen fields and the body's length of each answer, then how the connection is left.
#[track_caller]
fn check(input: &str, expected: &str) {
    let (sent, next) = talk(&site(), &mut MemoryTransport::new([bytes(input)]), &MemoryHost::default());
    let mut summary = summarise(&sent);
    summary.push_str(&format!("{:?}", next.map_err(|error| error.kind())));
    assert_eq!(summary, expected, "for {input:?}, answered {}", String::from_utf8_lossy(&sent));
}

/// Answers as `status [connection] [allow] length|`, where the length is that of the bytes that really follow the head.
fn summarise(mut sent: &[u8]) -> String {
    let mut summary = String::new();
    while !sent.is_empty() {
        let end = sent.windows(4).position(|window| window == b"\r\n\r\n").expect("a complete head") + 4;
        let head = std::str::from_utf8(&sent[..end]).unwrap();
        let field =
            |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned());
        let status = head.split(' ').nth(1).unwrap();
        summary.push_str(status);
        for name in ["Connection:", "Keep-Alive:", "Allow:"] {
            if let Some(value) = field(name) {
                summary.push_str(&format!(" {value}"));
            }
        }
        // What follows belongs to this answer until the next one begins.
        let rest = &sent[end..];
        let body = rest.windows(9).position(|window| window == b"HTTP/1.1 ").unwrap_or(rest.len());
        let announced = field("Content-Length:").unwrap_or_else(|| "-".to_owned());
        summary.push_str(&format!(" {announced}/{body}|"));
        sent = &rest[body..];
    }
    summary
}

const PAGE_404: usize = 236;

#[test]
fn answers() {
    check("GET / HTTP/1.1\r\nHost: h\r\n\r\n", "200 5/5|Ok(KeepAlive)");
    check("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", "200 5/0|Ok(KeepAlive)");
    check("GET /large HTTP/1.1\r\nHost: h\r\n\r\n", "200 5000/5000|Ok(KeepAlive)");
    check("GET /file HTTP/1.1\r\nHost: h\r\n\r\n", "200 10000/10000|Ok(KeepAlive)");
    check("HEAD /file HTTP/1.1\r\nHost: h\r\n\r\n", "200 10000/0|Ok(KeepAlive)");
    check("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "200 close 5/5|Ok(Close)");
    check("GET / HTTP/1.0\r\n\r\n", "200 close 5/5|Ok(Close)");
    check("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "200 Keep-Alive timeout=5, max=100 5/5|Ok(KeepAlive)");
    let not_found = format!("404 {PAGE_404}/{PAGE_404}|Ok(KeepAlive)");
    check("GET /none HTTP/1.1\r\nHost: h\r\n\r\n", &not_found);
}

/// HTTP/0.9: the body alone, then the end, whatever the client may have sent behind its line.
#[test]
fn a_request_without_a_version_is_answered_without_a_head() {
    let bare = |input: &str| {
        let (sent, next) = talk(&site(), &mut MemoryTransport::new([bytes(input)]), &MemoryHost::default());
        (String::from_utf8(sent).unwrap(), next.unwrap())
    };
    assert_eq!(bare("GET /\r\n"), ("small".to_owned(), Next::Close));
    assert_eq!(bare("GET /\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\n"), ("small".to_owned(), Next::Linger));
    assert_eq!(bare("GET /file\r\n"), ("f".repeat(10_000), Next::Close));
    assert!(bare("GET /none\r\n").0.starts_with("<!DOCTYPE HTML PUBLIC "));
    let mut strict = site();
    strict.limits.protocol.allow_http09 = false;
    let (sent, _) = talk(&strict, &mut MemoryTransport::new([bytes("GET /\r\n")]), &MemoryHost::default());
    assert!(sent.starts_with(b"HTTP/1.1 400 "));
}

#[test]
fn refusals() {
    let refused = |input: &str, status: u16| {
        let (sent, next) = talk(&site(), &mut MemoryTransport::new([bytes(input)]), &MemoryHost::default());
        let summary = summarise(&sent);
        assert!(summary.starts_with(&format!("{status} ")), "{input:?}: {summary}");
        (summary, next.unwrap())
    };
    for (input, status) in [
        ("GET /\n", 400),
        ("POST /\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
        ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n", 413),
        // Whether its end arrives along with what is too much or later.
        (
            &format!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n{:1001}\r\n0\r\n\r\n", ""),
            413,
        ),
        ("BREW / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n", 501),
        ("TRACE / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n", 413),
        ("GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("GET /../etc HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("CONNECT / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (&format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(9000)), 414),
        (&format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(9000)), 431),
    ] {
        let (summary, next) = refused(input, status);
        assert!(summary.contains(" close "), "{summary}");
        assert_eq!(next, Next::Linger, "{input:?}");
    }
    // These are well-formed: the connection stays.
    for (input, status) in [
        ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", 405),
        ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 405),
        ("CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", 405),
        ("PROPFIND / HTTP/1.1\r\nHost: h\r\n\r\n", 405),
        ("GET /a%2Fb HTTP/1.1\r\nHost: h\r\n\r\n", 404),
    ] {
        assert_eq!(refused(input, status).1, Next::KeepAlive, "{input:?}");
    }
    assert!(refused("DELETE / HTTP/1.1\r\nHost: h\r\n\r\n", 405).0.contains("GET,POST,OPTIONS,HEAD,TRACE"));
}

/// The status of an answer, its fields but `Date` and `Server`, and its body.
fn answer_to(site: &Site, input: &str) -> String {
    let (sent, _) = talk(site, &mut MemoryTransport::new([bytes(input)]), &MemoryHost::default());
    let text = String::from_utf8(sent).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let lines = head.split("\r\n").filter(|line| !line.starts_with("Date: ") && !line.starts_with("Server: "));
    let head: Vec<_> = lines.map(|line| line.strip_prefix("HTTP/1.1 ").unwrap_or(line)).collect();
    format!("{}|{}", head.join("|"), body.replace("\r\n", "|"))
}

#[test]
fn parts_of_files_and_none_of_them() {
    let check = |path: &str, fields: &str, expected: &str| {
        let input = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n");
        assert_eq!(answer_to(&site(), &input), expected, "{path} {fields}");
    };
    const FIELDS: &str = "ETag: \"e\"|Accept-Ranges: bytes";
    let part = |length: u32, range: &str, body: &str| {
        format!("206 Partial Content|{FIELDS}|Content-Length: {length}|Content-Range: bytes {range}|{body}")
    };
    check("/", "Range: bytes=1-2", &part(2, "1-2/5", "ma"));
    check("/", "Range: bytes=-1", &part(1, "4-4/5", "l"));
    check("/large", "Range: bytes=4998-", &part(2, "4998-4999/5000", "ll"));
    check("/large", "Range: bytes=1-3000", &part(3000, "1-3000/5000", &"l".repeat(3000)));
    check("/file", "Range: bytes=9000-9001", &part(2, "9000-9001/10000", "ff"));
    check("/", "Range: bytes=1-2\r\nIf-Range: \"e\"", &part(2, "1-2/5", "ma"));
    let whole = format!("200 OK|{FIELDS}|Content-Length: 5|small");
    check("/", "Range: bytes=1-2\r\nIf-Range: \"other\"", &whole);
    check("/", "Range: lines=1-2", &whole);
    let boundary = "0".repeat(16);
    for (path, size, bytes) in [("/", 5, ["a", "s"]), ("/large", 5000, ["l", "l"]), ("/file", 10_000, ["f", "f"])] {
        let part = |at: u32, byte: &str| format!("|--{boundary}|Content-range: bytes {at}-{at}/{size}||{byte}");
        let body = format!("{}{}|--{boundary}--|", part(2, bytes[0]), part(0, bytes[1]));
        // Each line end is two bytes.
        let length = body.len() + body.matches('|').count();
        let kind = format!("Content-Type: multipart/byteranges; boundary={boundary}");
        let expected = format!("206 Partial Content|{FIELDS}|Content-Length: {length}|{kind}|{body}");
        check(path, "Range: bytes=2-2,0-0", &expected);
    }
    check("/", "If-None-Match: \"e\"", &format!("304 Not Modified|{FIELDS}|"));
    check("/", "If-Match: \"other\"", &format!("412 Precondition Failed|{FIELDS}|Content-Length: 0|"));
}

#[test]
fn what_lies_behind_the_end_is_not_there() {
    let answer = answer_to(&site(), "GET / HTTP/1.1\r\nHost: h\r\nRange: bytes=5-\r\n\r\n");
    let expected = "416 Requested Range Not Satisfiable|Content-Range: bytes */5|Content-Length: 354|";
    assert!(answer.starts_with(expected), "{answer}");
}

#[test]
fn a_trace_comes_back_without_what_is_secret() {
    let input = "TRACE /a HTTP/1.1\r\nHost:  h\r\nCookie: c=1\r\nX: a\r\n\r\n";
    let echo = "TRACE /a HTTP/1.1|Host: h|X: a||";
    let fields = "200 OK|Content-Length: 36|Content-Type: message/http|";
    assert_eq!(answer_to(&site(), input), format!("{fields}{echo}"));
    let off = Site { trace: Trace::Off, ..site() };
    let refused = "405 Method Not Allowed|Allow: GET,POST,OPTIONS,HEAD|Content-Length: 262|";
    assert!(answer_to(&off, input).starts_with(refused));
    let extended = Site { trace: Trace::Extended, limit_request_body: 1 << 30, ..site() };
    let input = "TRACE /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: t\r\n\r\n";
    let fields = "200 OK|Content-Length: 61|Content-Type: message/http|";
    let echo = "TRACE /a HTTP/1.1|Host: h|Transfer-Encoding: chunked||abc";
    assert_eq!(answer_to(&extended, input), format!("{fields}{echo}"));
    let too_long = "TRACE /a HTTP/1.1\r\nHost: h\r\nContent-Length: 65537\r\n\r\n";
    assert!(answer_to(&extended, too_long).starts_with("413 "));
}

#[test]
fn a_body_does_not_become_the_next_request() {
    check(
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 27\r\n\r\nGET /large HTTP/1.1\r\nHost: GET / HTTP/1.0\r\n\r\n",
        &format!("405 GET,POST,OPTIONS,HEAD,TRACE {0}/{0}|200 close 5/5|Ok(Close)", 261),
    );
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let one = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let large = "GET /file HTTP/1.1\r\nHost: h\r\n\r\n";
    check(&[one, large, one].concat(), "200 5/5|200 10000/10000|200 5/5|Ok(KeepAlive)");
    let many = one.repeat(1000);
    // 101 answers: MaxKeepAliveRequests counts those that follow the first, as in Apache.
    let expected = format!("{}200 close 5/5|Ok(Linger)", "200 5/5|".repeat(100));
    check(&many, &expected);
}

#[test]
fn continue_is_sent_to_those_who_wait_for_it() {
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    let mut io = MemoryTransport::new([bytes(head), bytes("abc")]);
    let (sent, _) = talk(&site(), &mut io, &MemoryHost::default());
    assert!(sent.starts_with(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 405 "));
    let (sent, _) = talk(&site(), &mut MemoryTransport::new([bytes(&format!("{head}abc"))]), &MemoryHost::default());
    assert!(sent.starts_with(b"HTTP/1.1 405 "), "a body that came along needs no invitation");
}

#[test]
fn silence_is_answered_with_408_only_in_the_middle_of_a_request() {
    let site = site();
    let leave = |input: Vec<Input>| {
        let (sent, next) = talk(&site, &mut MemoryTransport::new(input), &MemoryHost::default());
        (summarise(&sent).split(' ').next().unwrap().to_owned(), next.unwrap())
    };
    assert_eq!(leave(vec![Input::Timeout]), (String::new(), Next::Close));
    assert_eq!(leave(vec![bytes("GET /"), Input::Timeout]), ("408".to_owned(), Next::Linger));
    assert_eq!(leave(vec![bytes("GET / HTTP/1.1\r\n")]), (String::new(), Next::Close));
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na";
    assert_eq!(leave(vec![bytes(post), Input::Timeout]), ("408".to_owned(), Next::Linger));
}

#[test]
fn a_draining_generation_answers_once_more_and_closes() {
    let host = MemoryHost::default();
    host.draining.store(true, Ordering::Relaxed);
    let (sent, next) = talk(&site(), &mut MemoryTransport::new([bytes("GET / HTTP/1.1\r\nHost: h\r\n\r\n")]), &host);
    assert_eq!((summarise(&sent).as_str(), next.unwrap()), ("200 close 5/5|", Next::Linger));
}

#[test]
fn every_answer_is_counted_and_logged_with_its_bytes() {
    struct Lines(Arc<Mutex<Vec<String>>>);
    impl LogTransaction for Lines {
        fn log(&self, Transaction { request, sent, ending, .. }: &Transaction<'_>) {
            let line = String::from_utf8_lossy(request.request_line()).into_owned();
            self.0.lock().unwrap().push(format!("{line} {} {} {ending:?}", request.response.status.0, sent.body));
        }
    }
    let (mut site, lines) = (site(), Arc::default());
    site.phases.add_log(Lines(Arc::clone(&lines)));
    let host = MemoryHost::default();
    let input = "GET / HTTP/1.1\r\nHost: h\r\n\r\nHEAD /file HTTP/1.1\r\nHost: h\r\n\r\nBAD\x01LINE\r\n\r\n";
    let (sent, _) = talk(&site, &mut MemoryTransport::new([bytes(input)]), &host);
    assert_eq!(host.requests.load(Ordering::Relaxed), 3);
    assert_eq!(host.bytes.load(Ordering::Relaxed), sent.len() as u64);
    let lines = lines.lock().unwrap();
    assert_eq!(lines[..2], ["GET / HTTP/1.1 200 5 Kept", "HEAD /file HTTP/1.1 200 0 Kept"]);
    assert!(lines[2].starts_with("BAD\x01LINE 400 "), "{lines:?}");
}

#[test]
fn a_future_stays_small() {
    let (site, host) = (site(), MemoryHost::default());
    let (mut io, mut conn) = (MemoryTransport::default(), Conn::new(([192, 0, 2, 1], 1).into()));
    let size = size_of_val(&serve(&mut io, &mut conn, &site, &host));
    assert!(size <= 1024, "a connection in the middle of a request would take {size} bytes");
}

#[test]
fn time_is_an_argument() {
    let host = MemoryHost::default();
    let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let (sent, _) = talk(&site(), &mut MemoryTransport::new([bytes(get)]), &host);
    assert!(String::from_utf8_lossy(&sent).contains("\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: test\r\n"));
    host.advance(Duration::from_secs(1));
    let (sent, _) = talk(&site(), &mut MemoryTransport::new([bytes(get)]), &host);
    assert!(String::from_utf8_lossy(&sent).contains("\r\nDate: Sun, 06 Nov 1994 08:49:38 GMT\r\n"));
}

/// A site whose pages are on a slow disk: `/N` takes N calls until it is found.
fn slow_site() -> Site {
    let mut phases = Phases::new();
    let fetched = Arc::new(AtomicUsize::new(0));
    phases.add(Phase::MapToStorage, move |request: &mut Request| {
        let calls: usize = std::str::from_utf8(&request.path[1..]).unwrap().parse().unwrap();
        if fetched.load(Ordering::Relaxed) < calls && !request.may_wait {
            let fetched = Arc::clone(&fetched);
            request.later = Some(Job::new(move || {
                fetched.fetch_add(1, Ordering::Relaxed);
            }));
            return Outcome::Later;
        }
        fetched.store(0, Ordering::Relaxed);
        request.response.fields.extend_from_slice(b"X: mapped\r\n");
        Outcome::Declined
    });
    phases.add(Phase::Handler, |request: &mut Request| {
        request.response.body = Body::Bytes(request.path.clone());
        Outcome::Done
    });
    Site::new(phases)
}

#[test]
fn a_phase_that_needs_the_disk_is_repeated_once_it_was_asked() {
    // What the path asks for, whether the thread may wait, and how many calls were made for it.
    for (calls, may_wait, made) in [(0, false, 0), (1, false, 1), (3, false, 3), (3, true, 0), (1000, false, 16)] {
        let host = MemoryHost::default();
        host.impatient.store(!may_wait, Ordering::Relaxed);
        let mut io = MemoryTransport::new([bytes(&format!("GET /{calls} HTTP/1.1\r\nHost: a\r\n\r\n"))]);
        let (sent, _) = talk(&slow_site(), &mut io, &host);
        let sent = String::from_utf8(sent).unwrap();
        assert!(sent.starts_with("HTTP/1.1 200 ") && sent.ends_with(&format!("\r\n\r\n/{calls}")), "{sent}");
        assert_eq!(sent.matches("X: mapped").count(), 1, "{sent}");
        assert_eq!(host.offloaded.load(Ordering::Relaxed), made, "{calls} calls, may wait: {may_wait}");
    }
}
