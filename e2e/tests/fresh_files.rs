//! Files that change between requests, in every model: answers are those of the file as it is, symbolic links are followed as
//! `Options` says, and what lies compressed beside a file is sent to who accepts it.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs;
use std::os::unix::fs::symlink;

use e2e::client::Client;
use e2e::server::{Mpm, Server};

const DIRECTIVES: &str =
    "Options -FollowSymLinks\nManifoldPrecompressed gzip\nFileETag Size\nKeepAliveTimeout 30\nMaxKeepAliveRequests 0";

fn check(mpm: Mpm) {
    let mut server = Server::start(mpm, DIRECTIVES).unwrap();
    let path = |name: &str| server.dir.path("htdocs").join(name);
    let write = |name: &str, text: &[u8]| fs::write(path(name), text).unwrap();
    let replace = |name: &str, text: &[u8]| {
        write("new", text);
        fs::rename(path("new"), path(name)).unwrap();
    };
    let mut client = Client::connect(server.port).unwrap();
    let mut said = |name: &str| {
        let answer = client.get(name).unwrap();
        (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
    };
    for round in 0..50 {
        let text = format!("round {round}");
        replace("changing", text.as_bytes());
        assert_eq!(said("/changing"), (200, text), "{}", mpm.name());
        write("changing", b"in place");
        assert_eq!(said("/changing"), (200, "in place".to_owned()), "{}", mpm.name());
    }
    fs::remove_file(path("changing")).unwrap();
    assert_eq!(said("/changing").0, 404);
    symlink("page.html", path("changing")).unwrap();
    assert_eq!(said("/changing").0, 403);
    server.logged("AH00037: Symbolic link not allowed or link target not accessible: ", 1).unwrap();

    write("story.txt", b"plain");
    write("story.txt.gz", b"gzip");
    client.send(b"GET /story.txt HTTP/1.1\r\nHost: h\r\nAccept-Encoding: br, gzip\r\n\r\n").unwrap();
    let answer = client.response().unwrap();
    assert_eq!((answer.body.as_slice(), answer.field("content-encoding")), (&b"gzip"[..], Some("gzip")));
    assert_eq!((answer.field("content-type"), answer.field("vary")), (Some("text/plain"), Some("Accept-Encoding")));
    server.stop().unwrap();
}

#[test]
fn prefork_serves_files_as_they_are() {
    check(Mpm::Prefork);
}

#[test]
fn worker_serves_files_as_they_are() {
    check(Mpm::Worker);
}

#[test]
fn event_serves_files_as_they_are() {
    check(Mpm::Event);
}

#[test]
fn percore_serves_files_as_they_are() {
    check(Mpm::Percore);
}
