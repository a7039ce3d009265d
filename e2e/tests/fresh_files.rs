//! Files that change between requests, in every model: answers are those of the file as it is, be its path known or not, symbolic
//! links are followed as `Options` says, and what lies compressed beside a file is sent to who accepts it.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use e2e::client::Client;
use e2e::server::{Mpm, Server};
use e2e::until;

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

/// Files whose time stamps are this old can be told from what stands there later, so that their paths are known to the server.
const SETTLED: Duration = Duration::from_millis(1100);

/// What happens to pages that are known already, on the connection that has asked for them.
fn check_known(mpm: Mpm) {
    let mut server = Server::start(mpm, "KeepAliveTimeout 30\nMaxKeepAliveRequests 0").unwrap();
    let path = |name: &str| server.dir.path("htdocs").join(name);
    for name in ["unchanged", "replaced", "new", "forbidden", "moved/page", "closed/page", "first/page", "second/page"]
    {
        fs::create_dir_all(path(name).parent().unwrap()).unwrap();
        fs::write(path(name), name).unwrap();
    }
    symlink("first", path("current")).unwrap();
    symlink("second", path("next")).unwrap();
    let age = || fs::metadata(path("second/page")).ok()?.modified().ok()?.elapsed().ok();
    until("the files to settle", || age().filter(|age| *age > SETTLED)).unwrap();

    let mut client = Client::connect(server.port).unwrap();
    let mut expect = |name: &str, status: u16, text: &str| {
        let answer = client.get(name).unwrap();
        assert_eq!(answer.status, status, "{name}, {}", mpm.name());
        assert!(status != 200 || answer.body == text.as_bytes(), "{name}, {}", mpm.name());
    };
    for _ in 0..3 {
        for name in ["unchanged", "replaced", "forbidden", "moved/page", "closed/page"] {
            expect(&format!("/{name}"), 200, name);
        }
        expect("/current/page", 200, "first/page");
    }
    let forbid = |name: &str| fs::set_permissions(path(name), fs::Permissions::from_mode(0o000)).unwrap();
    forbid("forbidden");
    forbid("closed");
    for (from, to) in [("new", "replaced"), ("moved", "elsewhere"), ("next", "current")] {
        fs::rename(path(from), path(to)).unwrap();
    }
    for _ in 0..3 {
        expect("/unchanged", 200, "unchanged");
        expect("/replaced", 200, "new");
        expect("/forbidden", 403, "");
        expect("/moved/page", 404, "");
        expect("/elsewhere/page", 200, "moved/page");
        expect("/closed/page", 403, "");
        expect("/current/page", 200, "second/page");
    }
    fs::set_permissions(path("closed"), fs::Permissions::from_mode(0o755)).unwrap();
    expect("/closed/page", 200, "closed/page");
    server.stop().unwrap();
}

#[test]
fn prefork_serves_files_as_they_are() {
    check(Mpm::Prefork);
    check_known(Mpm::Prefork);
}

#[test]
fn worker_serves_files_as_they_are() {
    check(Mpm::Worker);
    check_known(Mpm::Worker);
}

#[test]
fn event_serves_files_as_they_are() {
    check(Mpm::Event);
    check_known(Mpm::Event);
}

#[test]
fn percore_serves_files_as_they_are() {
    check(Mpm::Percore);
    check_known(Mpm::Percore);
}
