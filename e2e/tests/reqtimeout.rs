//! Clients that dribble their request are told so in time, in every model (`RequestReadTimeout`).

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::thread;

use e2e::client::{Client, Response};
use e2e::server::{Mpm, Server};
use e2e::until;

/// A second for a head and for a body, and no more for any byte that comes.
const SHORT: &str = "RequestReadTimeout header=1 body=1\nKeepAliveTimeout 30\nLogLevel reqtimeout:info";

/// Sends a byte every few milliseconds until the server answers.
fn dribble(port: u16, start: &str) -> Response {
    let mut client = Client::connect(port).unwrap();
    client.send(start.as_bytes()).unwrap();
    until("an answer to a dribbled request", || {
        client.send(b"x").unwrap();
        client.has_answer().unwrap().then_some(())
    })
    .unwrap();
    client.response().unwrap()
}

fn check(mpm: Mpm) {
    let mut server = Server::start(mpm, SHORT).unwrap();
    let mut patient = Client::connect(server.port).unwrap();
    assert_eq!(patient.get("/page.html").unwrap().status, 200);
    let port = server.port;
    thread::scope(|scope| {
        let head = scope.spawn(move || dribble(port, "GET /page.html HTTP/1.1\r\nHost: localhost\r\nX: "));
        let body = "POST /page.html HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n";
        for answer in [head.join().unwrap(), dribble(port, body)] {
            assert_eq!((answer.status, answer.field("connection")), (408, Some("close")), "{answer:?}");
        }
    });
    for stage in ["header", "body"] {
        let line = format!("AH01382: Request {stage} read timeout");
        until(&line, || server.words().contains(&line).then_some(())).unwrap();
    }
    // Silence between requests is a matter of KeepAliveTimeout alone.
    assert_eq!(patient.get("/page.html").unwrap().status, 200, "{}", mpm.name());
    server.stop().unwrap();
}

#[test]
fn prefork_tells_slow_clients() {
    check(Mpm::Prefork);
}

#[test]
fn worker_tells_slow_clients() {
    check(Mpm::Worker);
}

#[test]
fn event_tells_slow_clients() {
    check(Mpm::Event);
}

#[test]
fn percore_tells_slow_clients() {
    check(Mpm::Percore);
}
