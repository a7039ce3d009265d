//! Real clients agree with every model: no failure and no wrong byte, with keep-alive and without.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::process::Command;

use e2e::client::Client;
use e2e::server::{Mpm, Server};
use e2e::site::{FILES, PAGE};
use e2e::tool::{Tool, stdout};
use e2e::{alone, process::Process};

/// Requests each client makes in each setting.
const REQUESTS: u64 = 10_000;

/// A connection must live as long as the client wants it.
const UNLIMITED: &str = "MaxKeepAliveRequests 0\nKeepAliveTimeout 30";

fn check_tool(tool: Tool) {
    let _alone = alone();
    for mpm in Mpm::ALL {
        let mut server = Server::start(mpm, UNLIMITED).unwrap();
        for keep_alive in [true, false] {
            let setting = format!("{tool:?} against {}, keep-alive {keep_alive}", mpm.name());
            let tally = tool.run(&server, "/page.html", REQUESTS, keep_alive).expect(&setting);
            assert_eq!(tally.failed, 0, "{setting}: {tally:?}\n{}", server.words());
            assert!(tally.done >= REQUESTS, "{setting}: {tally:?}");
            if let Some(bytes) = tally.body_bytes {
                assert_eq!(bytes, tally.done * PAGE.len() as u64, "{setting}");
            }
        }
        server.stop().unwrap();
    }
}

#[test]
fn ab_agrees() {
    check_tool(Tool::Ab);
}

#[test]
fn siege_agrees() {
    check_tool(Tool::Siege);
}

#[test]
fn wrk_agrees() {
    check_tool(Tool::Wrk);
}

#[test]
fn h2load_agrees() {
    check_tool(Tool::H2load);
}

#[test]
fn files_arrive_whole_without_sendfile() {
    for mpm in Mpm::ALL {
        let mut server = Server::start(mpm, "EnableSendfile Off").unwrap();
        let mut client = Client::connect(server.port).unwrap();
        for file in FILES {
            assert!(client.get(file.path).unwrap().body == file.bytes(), "{} from {}", file.path, mpm.name());
        }
        server.stop().unwrap();
    }
}

#[test]
fn curl_agrees() {
    let _alone = alone();
    for mpm in Mpm::ALL {
        let mut server = Server::start(mpm, UNLIMITED).unwrap();
        for fields in [&[][..], &["-H", "Connection: close"]] {
            let mut curl = Command::new("curl");
            // The range in brackets makes curl ask so many times, on one connection while it is kept.
            let url = server.url(&format!("/page.html?[1-{REQUESTS}]"));
            let bodies = stdout(curl.args(["--silent", "--show-error", "--fail"]).args(fields).arg(url)).unwrap();
            assert!(bodies.as_bytes() == PAGE.repeat(REQUESTS as usize), "{}: {} bytes", mpm.name(), bodies.len());
        }
        server.stop().unwrap();
    }
}

#[test]
fn curl_gets_every_file_byte_for_byte() {
    for mpm in Mpm::ALL {
        let mut server = Server::start(mpm, "").unwrap();
        let got = server.dir.path("got");
        for file in FILES {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--show-error", "--fail", "--output"]).arg(&got);
            stdout(curl.arg(server.url(file.path))).unwrap();
            assert!(std::fs::read(&got).unwrap() == file.bytes(), "{} of {}", file.path, mpm.name());
        }
        let mut head = Command::new("curl");
        let head = stdout(head.args(["--silent", "--head"]).arg(server.url("/medium.bin"))).unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("\r\nContent-Length: 139264\r\n"), "{head}");
        let mut missing = Command::new("curl");
        missing.args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}"]);
        assert_eq!(stdout(missing.arg(server.url("/missing.html"))).unwrap(), "404");
        server.stop().unwrap();
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    for mpm in Mpm::ALL {
        let mut server = Server::start(mpm, UNLIMITED).unwrap();
        let mut client = Client::connect(server.port).unwrap();
        let request = |file: &e2e::site::File| format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", file.path);
        let all: String = FILES.iter().chain(FILES).map(request).collect();
        client.send(all.as_bytes()).unwrap();
        for file in FILES.iter().chain(FILES) {
            let response = client.response().unwrap();
            assert_eq!(response.status, 200, "{} of {}", file.path, mpm.name());
            assert!(response.body == file.bytes(), "{} of {}", file.path, mpm.name());
        }
        server.stop().unwrap();
    }
}

#[test]
fn requests_in_pieces_are_answered() {
    for mpm in Mpm::ALL {
        let mut server = Server::start(mpm, UNLIMITED).unwrap();
        let mut client = Client::connect(server.port).unwrap();
        for piece in "GET /page.html HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD /page.html HTTP/1.1\r\nHost: x\r\n\r\n"
            .as_bytes()
            .chunks(1)
        {
            client.send(piece).unwrap();
        }
        assert_eq!(client.response().unwrap().body, PAGE, "{}", mpm.name());
        let head = client.response_to_head().unwrap();
        assert_eq!((head.status, head.field("content-length")), (200, Some("44")), "{}", mpm.name());
        server.stop().unwrap();
    }
}

/// What the server says to a request that it must refuse, and that it closes the connection then.
#[test]
fn bad_requests_are_refused_by_every_model() {
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9000));
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(9000));
    let cases: &[(&str, u16)] = &[
        ("GET\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        (&long, 414),
        (&large, 431),
        ("BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505),
        ("DELETE /page.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 405),
    ];
    for mpm in Mpm::ALL {
        let mut server = Server::start(mpm, "").unwrap();
        for (request, status) in cases {
            let mut client = Client::connect(server.port).unwrap();
            client.send(request.as_bytes()).unwrap();
            let response = client.response().unwrap();
            assert_eq!(response.status, *status, "{} to {:?}", mpm.name(), &request[..request.len().min(80)]);
        }
        let parent: Process = server.parent();
        assert!(parent.is_alive());
        server.stop().unwrap();
    }
}
