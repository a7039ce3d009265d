//! Request smuggling: what the real servers make of requests that can be understood in two ways.
//!
//! Each case of `cases.rs` is sent to Manifold under each of its models, to apache2 and to nginx, with a second request right
//! behind it. What came back has to be what the case records. The page of the manual is made of the same cases;
//! `MANIFOLD_WRITE_DOCS=1 cargo test -p e2e --test smuggling` writes it.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod cases;
mod page;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cases::{Case, GROUPS, UNSAFE, UnsafeCase};
use e2e::server::{Mpm, Server};
use e2e::{PATIENCE, peer};

/// The request behind each case.
const MARKER: &[u8] = b"GET /marker.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
const MARKER_BODY: &[u8] = b"the marker was reached";
/// Cases under way at a time with each server.
const CONNECTIONS: usize = 8;
/// Fewer would mean that some were lost.
const CASES_MIN: usize = 120;

fn all_cases() -> impl Iterator<Item = &'static Case> {
    GROUPS.iter().flat_map(|group| group.cases)
}

/// What a server says to a case with the marker behind it, until it closes.
fn exchange(port: u16, case: &Case) -> Vec<u8> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let all = [&case.sent.bytes()[..], MARKER].concat();
    socket.write_all(&all).unwrap();
    // A server that waits for more learns that nothing comes, so that nobody has to wait for it to lose patience.
    socket.shutdown(Shutdown::Write).unwrap();
    let mut said = Vec::new();
    match socket.read_to_end(&mut said) {
        Ok(_) => {}
        // It closed without reading all: what it had said before is here.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{}: {error}", case.name),
    }
    said
}

/// An exchange in words: the status of each answer, `body` for one without a head, `marker` for that to the request
/// behind; then `close` if the last of them ends the connection, or `open`.
fn outcome(said: &[u8]) -> String {
    let is_answer = |at: usize| {
        let rest = &said[at..];
        rest.starts_with(b"HTTP/1.1 ") && rest.len() > 12 && rest[9..12].iter().all(u8::is_ascii_digit)
    };
    let starts: Vec<usize> = (0..said.len()).filter(|&at| is_answer(at)).collect();
    let mut words = Vec::new();
    if !said.is_empty() && starts.first() != Some(&0) {
        words.push("body".to_owned());
    }
    let ends = starts.iter().skip(1).copied().chain([said.len()]);
    let mut last = &b""[..];
    for (&start, end) in starts.iter().zip(ends) {
        last = &said[start..end];
        let is_marker = last.windows(MARKER_BODY.len()).any(|window| window == MARKER_BODY);
        words.push(if is_marker { "marker".to_owned() } else { String::from_utf8_lossy(&last[9..12]).into_owned() });
    }
    match words.last().map(String::as_str) {
        None => return "nothing".to_owned(),
        Some("marker" | "body") => {}
        Some(_) if last.to_ascii_lowercase().windows(17).any(|window| window == b"connection: close") => {
            words.push("close".to_owned());
        }
        Some(_) => words.push("open".to_owned()),
    }
    words.join(" ")
}

/// The outcomes of all cases, some at a time.
fn outcomes(server: &Server) -> Vec<String> {
    fs::write(server.dir.path("htdocs/marker.txt"), MARKER_BODY).unwrap();
    let cases: Vec<_> = all_cases().collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(vec![String::new(); cases.len()]));
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(nth) else { return };
                    let outcome = outcome(&exchange(server.port, case));
                    found.lock().unwrap()[nth] = outcome;
                }
            });
        }
    });
    found.into_inner().unwrap()
}

/// Compares what a server did with what is recorded for it.
fn check(name: &str, server: &Server, recorded: impl Fn(&Case) -> &'static str) {
    let found = outcomes(server);
    let wrong: Vec<String> = all_cases()
        .zip(&found)
        .filter(|(case, found)| recorded(case) != found.as_str())
        .map(|(case, found)| format!("{name}\t{}\t{found}\t(recorded: {})", case.name, recorded(case)))
        .collect();
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), found.len(), wrong.join("\n"));
}

#[test]
fn every_model_does_as_recorded() {
    for mpm in Mpm::ALL {
        check(mpm.name(), &Server::start(mpm, "").unwrap(), |case| case.manifold);
    }
}

#[test]
fn apache_does_as_recorded() {
    if peer::servers_are_installed() {
        check("apache", &peer::apache("").unwrap(), |case| case.apache);
    }
}

#[test]
fn nginx_does_as_recorded() {
    if peer::servers_are_installed() {
        check("nginx", &peer::nginx("").unwrap(), |case| case.nginx);
    }
}

/// `HttpProtocolOptions Unsafe`: the rows of `UNSAFE` change, and nothing else does.
const UNSAFE_MODE: &str = "HttpProtocolOptions Unsafe";

fn in_unsafe_mode(case: &Case) -> Option<&'static UnsafeCase> {
    UNSAFE.iter().find(|row| row.name == case.name)
}

#[test]
fn unsafe_mode_does_as_recorded() {
    for mpm in Mpm::ALL {
        check(mpm.name(), &Server::start(mpm, UNSAFE_MODE).unwrap(), |case| {
            in_unsafe_mode(case).map_or(case.manifold, |row| row.manifold)
        });
    }
}

#[test]
fn apaches_unsafe_mode_does_as_recorded() {
    if peer::servers_are_installed() {
        check("apache", &peer::apache(UNSAFE_MODE).unwrap(), |case| {
            in_unsafe_mode(case).map_or(case.apache, |row| row.apache)
        });
    }
}

/// Lines are read leniently in Unsafe mode, but never what says how long a request is.
#[test]
fn unsafe_mode_is_not_lenient_about_framing() {
    const FRAMING: [&str; 6] =
        ["Content-Length", "Transfer-Encoding", "Chunk sizes", "Chunk extensions", "Trailers", "Host"];
    for group in GROUPS.iter().filter(|group| FRAMING.contains(&group.title)) {
        for case in group.cases {
            let outcome = in_unsafe_mode(case).map_or(case.manifold, |row| row.manifold);
            assert_eq!(outcome, case.manifold, "{}", case.name);
        }
    }
}

/// What the project promises: where framing can be understood in two ways, one refusal and the end.
#[test]
fn ambiguous_framing_is_refused_and_the_connection_closed() {
    const REFUSALS: [&str; 7] =
        ["400 close", "413 close", "414 close", "417 close", "431 close", "501 close", "505 close"];
    for case in all_cases().filter(|case| case.ambiguous) {
        assert!(REFUSALS.contains(&case.manifold), "{}: {}", case.name, case.manifold);
    }
}

#[test]
fn cases_are_many_distinct_and_explained() {
    assert!(all_cases().count() >= CASES_MIN);
    let mut names: Vec<_> = all_cases().map(|case| case.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a name is there twice");
    for case in all_cases() {
        let differs = case.apache != case.manifold || case.nginx != case.manifold;
        assert_eq!(differs, !case.differs.is_empty(), "{}: a difference, and only that, is explained", case.name);
        assert!(!case.why.is_empty(), "{}", case.name);
    }
}

#[test]
fn the_page_is_what_the_cases_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/smuggling.md");
    let page = page::render();
    if std::env::var_os("MANIFOLD_WRITE_DOCS").is_some() {
        fs::write(path, &page).unwrap();
    }
    let kept = fs::read_to_string(path).unwrap_or_default();
    assert!(kept == page, "docs/src/smuggling.md is out of date; MANIFOLD_WRITE_DOCS=1 writes it");
}

#[test]
fn exchanges_in_words() {
    let check = |said: &str, expected| assert_eq!(outcome(said.as_bytes()), expected, "{said}");
    check("", "nothing");
    check("<html>", "body");
    check("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "200 open");
    check("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "400 close");
    let marker = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nthe marker was reached";
    check(&format!("HTTP/1.1 200 OK\r\n\r\nx{marker}"), "200 marker");
    check(&format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\n\r\n{marker}"), "100 404 marker");
    check("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "200 200 open");
}
