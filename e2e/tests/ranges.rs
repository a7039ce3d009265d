//! Parts of files beyond what 32 bits count: a sparse file of 5 GiB arrives right in parts, by one range or several, with
//! sendfile and without, and curl resumes and revalidates.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

use e2e::client::Client;
use e2e::server::{Mpm, Server};
use e2e::site::{LARGE, PAGE};
use e2e::tool::stdout;

const GIB: u64 = 1 << 30;
/// Bytes of the sparse file.
const SIZE: u64 = 5 * GIB;
/// Where it is written, around every bound that a number might have; all else is zero.
const PLACES: [u64; 5] = [0, 2 * GIB - 8, 4 * GIB - 8, 4 * GIB + 1000, SIZE - 16];

/// What stands at a place: 16 bytes that stand nowhere else.
fn mark(place: u64) -> [u8; 16] {
    let mut mark = *b"<              >";
    mark[1..9].copy_from_slice(&place.to_be_bytes());
    mark
}

fn sparse_file(server: &Server) {
    let file = File::create(server.dir.path("htdocs/sparse.bin")).unwrap();
    file.set_len(SIZE).unwrap();
    for place in PLACES {
        file.write_all_at(&mark(place), place).unwrap();
    }
}

/// The bytes that must be in a window of the file.
fn window(first: u64, last: u64) -> Vec<u8> {
    let mut bytes = vec![0; (last - first + 1) as usize];
    for (place, mark) in PLACES.map(|place| (place, mark(place))) {
        for (at, byte) in (place..).zip(mark) {
            if (first..=last).contains(&at) {
                bytes[(at - first) as usize] = byte;
            }
        }
    }
    bytes
}

fn curl(arguments: &[&str], server: &Server, path: &str) -> Vec<u8> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error"]).args(arguments).arg(server.url(path));
    curl.output().unwrap().stdout
}

/// Each window by itself, and all of them in one answer.
fn check_windows(server: &Server) {
    let mut client = Client::connect(server.port).unwrap();
    let windows = PLACES.map(|place| (place.saturating_sub(500), (place + 70_000).min(SIZE - 1)));
    let mut all = String::new();
    for (first, last) in windows {
        let got = curl(&["--range", &format!("{first}-{last}")], server, "/sparse.bin");
        assert!(got == window(first, last), "bytes {first} to {last}: {} of them", got.len());
        all.push_str(&format!("{first}-{last},"));
    }
    // The third and the fourth overlap, so they are one.
    let ranges = all.trim_end_matches(',');
    client.send(format!("GET /sparse.bin HTTP/1.1\r\nHost: h\r\nRange: bytes={ranges}\r\n\r\n").as_bytes()).unwrap();
    let answer = client.response().unwrap();
    assert_eq!(answer.status, 206, "{}", answer.head);
    let kind = answer.field("content-type").unwrap();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let mut expected = Vec::new();
    for (first, last) in [windows[0], windows[1], (windows[2].0, windows[3].1), windows[4]] {
        let head = format!(
            "\r\n--{boundary}\r\nContent-type: application/octet-stream\r\nContent-range: bytes {first}-{last}/{SIZE}\r\n\r\n"
        );
        expected.extend_from_slice(head.as_bytes());
        expected.extend_from_slice(&window(first, last));
    }
    expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    assert!(answer.body == expected, "{} bytes instead of {}", answer.body.len(), expected.len());
    // The connection goes on behind it.
    assert_eq!(client.get("/page.html").unwrap().body, PAGE);
}

#[test]
fn windows_of_a_file_of_5_gib_are_right_in_every_model() {
    for (mpm, ways) in [
        (Mpm::Prefork, &["On"][..]),
        (Mpm::Worker, &["Off"]),
        (Mpm::Event, &["On", "Off"]),
        (Mpm::Percore, &["On", "Off"]),
    ] {
        for sendfile in ways {
            let mut server = Server::start(mpm, &format!("EnableSendfile {sendfile}")).unwrap();
            sparse_file(&server);
            check_windows(&server);
            server.stop().unwrap();
        }
    }
}

#[test]
fn the_parts_of_a_file_of_5_gib_are_all_of_it() {
    let mut server = Server::start(Mpm::Percore, "").unwrap();
    sparse_file(&server);
    for part in 0..5 {
        let range = format!("{}-{}", part * GIB, (part + 1) * GIB - 1);
        let told = curl(
            &["--output", "/dev/null", "--write-out", "%{http_code} %{size_download}", "--range", &range],
            &server,
            "/sparse.bin",
        );
        assert_eq!(String::from_utf8_lossy(&told), format!("206 {GIB}"), "{range}");
    }
    server.stop().unwrap();
}

#[test]
fn curl_resumes_and_revalidates() {
    for mpm in [Mpm::Percore, Mpm::Event] {
        let mut server = Server::start(mpm, "").unwrap();
        let got = server.dir.path("got");
        std::fs::write(&got, &LARGE.bytes()[..1_234_567]).unwrap();
        let to = got.to_str().unwrap();
        curl(&["--continue-at", "-", "--output", to], &server, LARGE.path);
        assert!(std::fs::read(&got).unwrap() == LARGE.bytes(), "a resumed download");
        // Again: there is nothing left to fetch, and the server says so.
        let again = curl(&["--continue-at", "-", "--output", to, "--write-out", "%{http_code}"], &server, LARGE.path);
        assert_eq!(String::from_utf8_lossy(&again), "416");
        let etag = server.dir.path("etag");
        let etag = etag.to_str().unwrap();
        let code = "%{http_code} %{size_download}";
        let first = ["--output", "/dev/null", "--etag-save", etag, "--write-out", code];
        assert_eq!(curl(&first, &server, "/page.html"), b"200 44");
        let second = ["--output", "/dev/null", "--etag-compare", etag, "--write-out", code];
        assert_eq!(curl(&second, &server, "/page.html"), b"304 0");
        let since = ["--output", "/dev/null", "--time-cond", "Mon, 10 Sep 2001 01:46:40 GMT", "--write-out", code];
        assert_eq!(curl(&since, &server, "/page.html"), b"304 0");
        let head = stdout(Command::new("curl").args(["--silent", "--head"]).arg(server.url("/page.html"))).unwrap();
        assert!(head.contains("Content-Length: 44\r\n") && head.contains("Accept-Ranges: bytes\r\n"), "{head}");
        server.stop().unwrap();
    }
}
