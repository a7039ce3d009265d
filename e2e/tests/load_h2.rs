//! `manifold load --http2` and `manifold ab --http2` against servers of others: no request is lost or made twice, every byte comes.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use anyhow::Result;
use e2e::peer::{apache, are_installed, nginx};
use e2e::server::{Server, free_port};
use e2e::{Scratch, binary, pair, site, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const NGHTTPD: &str = "/usr/sbin/nghttpd";
const NGINX: &str = "/usr/sbin/nginx";

/// The report of a run over HTTP/2, and its exit status.
fn load(url: &str, arguments: &[&str]) -> (Value, Option<i32>) {
    let output = binary::command(["load", url, "--http2", "--json"]).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {said}"));
    (report, output.status.code())
}

/// So many requests, each answered once with all its bytes.
fn check(url: &str, arguments: &[&str], requests: u64, bytes: u64) -> Value {
    let count = requests.to_string();
    let (report, status) = load(url, &[arguments, &["-n", &count, "--expect-length", &bytes.to_string()]].concat());
    let what = format!("{url} {arguments:?}: {report}");
    assert_eq!(report["completed"], requests, "{what}");
    assert_eq!((&report["wrong_length"], &report["wrong_status"]), (&0.into(), &0.into()), "{what}");
    assert_eq!(report["bytes"]["body"], requests * bytes, "{what}");
    assert_eq!(report["failures"], serde_json::json!({}), "{what}");
    assert_eq!(report["config"]["protocol"], "http/2", "{what}");
    // Nothing but that the machine is busy may be said of it.
    let harmless = report["flags"].as_array().unwrap().iter().all(|flag| flag == "generator-saturated");
    assert!(harmless && (status == Some(0) || status == Some(3)), "{what}");
    report
}

/// nginx speaks HTTP/2 at a port of its own.
fn nginx_h2(directives: &str) -> Result<(Server, String)> {
    let port = free_port()?;
    let server = nginx(&format!("listen 127.0.0.1:{port} http2; http2_max_concurrent_streams 128; {directives}"))?;
    Ok((server, format!("http://127.0.0.1:{port}")))
}

fn nghttpd(arguments: &[&str]) -> Result<Server> {
    let dir = Scratch::new()?;
    site::write(&dir.path("htdocs"))?;
    let port = free_port()?;
    Server::run(dir, port, |dir| {
        let mut command = Command::new(NGHTTPD);
        command.arg("--no-tls").arg("-d").arg(dir.path("htdocs")).args(arguments).arg(port.to_string());
        command
    })
}

/// nginx speaks it over TLS, or only HTTP/1.1, which it then chooses by ALPN.
fn nginx_over_tls(http2: &str) -> Result<(Server, String)> {
    let (folder, port) = (Scratch::new()?, free_port()?);
    let (certificate, key) = pair::make(&folder)?;
    let server = nginx(&format!(
        "listen 127.0.0.1:{port} ssl {http2}; ssl_certificate {certificate}; ssl_certificate_key {key};"
    ))?;
    Ok((server, format!("https://127.0.0.1:{port}")))
}

fn nghttpd_over_tls() -> Result<(Server, String)> {
    let dir = Scratch::new()?;
    site::write(&dir.path("htdocs"))?;
    let (certificate, key) = pair::make(&dir)?;
    let port = free_port()?;
    let server = Server::run(dir, port, |dir| {
        let mut command = Command::new(NGHTTPD);
        command.arg("-d").arg(dir.path("htdocs")).args([port.to_string(), key, certificate]);
        command
    })?;
    Ok((server, format!("https://127.0.0.1:{port}")))
}

/// Each server, each size, and what bodies have to be.
#[test]
fn it_is_chosen_over_tls() {
    if !are_installed(&[NGINX, NGHTTPD, pair::OPENSSL]) {
        return;
    }
    for (_server, url) in [nginx_over_tls("http2").unwrap(), nghttpd_over_tls().unwrap()] {
        for (path, requests) in [("/page.html", 3000), ("/empty.txt", 200), ("/64k.bin", 100), (site::LARGE.path, 5)] {
            let shape = ["-c5", "--streams=1", "--insecure"];
            let report = check(&format!("{url}{path}"), &shape, requests, length(path));
            assert_eq!(report["tls"]["handshakes"], 5, "{report}");
            check(&format!("{url}{path}"), &["-c1", "--streams=5", "--insecure"], requests, length(path));
        }
        let page = format!("{url}/page.html");
        let output = binary::command(["ab", "-q", "-n2000", "-c5", "--streams", "4", &page]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        for line in ["SSL/TLS Protocol:       TLSv1.", "Complete requests:      2000", "Failed requests:        0"] {
            assert!(said.contains(line), "{line} in {said}{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// A server that only has HTTP/1.1 is named as such before the run, and by ab with its first connection.
#[test]
fn a_server_that_does_not_choose_it_is_named() {
    if !are_installed(&[NGINX, pair::OPENSSL]) {
        return;
    }
    let (_server, url) = nginx_over_tls("").unwrap();
    let page = format!("{url}/page.html");
    for (command, status) in
        [(["load", &page, "--http2", "--insecure", "-n100"].as_slice(), 1), (&["ab", "--http2", "-n100", &page], 93)]
    {
        let output = binary::command(command).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{command:?}: {said}");
        assert!(said.contains("the server does not speak HTTP/2"), "{command:?}: {said}");
        assert!(said.contains("without --http2 HTTP/1"), "{command:?}: {said}");
    }
}

/// Bodies are looked at, however the server cuts them and whatever else is on the connection.
#[test]
fn bodies_are_held_against_what_is_expected() {
    if !are_installed(&[NGINX]) {
        return;
    }
    let (server, url) = nginx_h2("keepalive_requests 100;").unwrap();
    let sum = |path: &str| {
        let file = server.dir.path("htdocs").join(&path[1..]);
        let said = e2e::tool::stdout(Command::new("sha256sum").arg(file)).unwrap();
        said.split(' ').next().unwrap().to_owned()
    };
    let shape = ["-c4", "--streams=5", "-n400"];
    for (path, expected, wrong) in [
        ("/page.html", format!("--expect-sha256={}", sum("/page.html")), 0),
        ("/page.html", format!("--expect-sha256={}", sum("/8k.bin")), 400),
        ("/64k.bin", format!("--expect-sha256={}", sum("/64k.bin")), 0),
        ("/page.html", "--expect-body-contains=It works!".to_owned(), 0),
        ("/page.html", "--expect-body-contains=It fails!".to_owned(), 400),
        ("/empty.txt", "--expect-body-contains=x".to_owned(), 400),
    ] {
        let (report, _) = load(&format!("{url}{path}"), &[shape.as_slice(), &[expected.as_str()]].concat());
        let counts = [&report["completed"], &report["wrong_content"], &report["failures"]];
        assert_eq!(counts, [&400.into(), &wrong.into(), &serde_json::json!({})], "{path} {expected}: {report}");
    }
}

fn length(path: &str) -> u64 {
    site::FILES.iter().find(|file| file.path == path).unwrap().len as u64
}

/// One of each size, on few connections and on many, with few streams and with many.
fn check_all(url: &str) {
    for (path, requests) in [("/page.html", 20_000), ("/empty.txt", 500), ("/64k.bin", 300), (site::LARGE.path, 20)] {
        for shape in [["-c1", "--streams=20"], ["-c10", "--streams=2"], ["-c20", "--streams=1"]] {
            let report = check(&format!("{url}{path}"), &shape, requests, length(path));
            assert_eq!(report["connect"]["opened"], report["config"]["connections"], "{url} {shape:?}");
        }
    }
    check(&format!("{url}/page.html"), &["-c100", "--streams=100", "--threads=2"], 50_000, length("/page.html"));
    check(&format!("{url}/page.html"), &["-c5", "--streams=10", "--poller=epoll"], 5000, length("/page.html"));
    let rate = ["-c2", "--streams=50", "--rate=2000", "-t2"];
    let (report, _) = load(&format!("{url}/page.html"), &rate);
    assert_eq!((&report["completed"], &report["errors"]["timeout"]), (&4000.into(), &0.into()), "{report}");
}

#[test]
fn nginx_is_measured() {
    if !are_installed(&[NGINX]) {
        return;
    }
    let (_server, url) = nginx_h2("").unwrap();
    check_all(&url);
    // A body of a request that no window takes at once.
    let scratch = Scratch::new().unwrap();
    fs::write(scratch.path("body"), "x".repeat(300_000)).unwrap();
    let body = format!("@{}", scratch.path("body").display());
    let (report, _) = load(&format!("{url}/page.html"), &["-c2", "--streams=3", "-n60", "-d", &body]);
    assert_eq!(report["statuses"], serde_json::json!({"405": 60}), "{report}");
}

#[test]
fn nghttpd_is_measured() {
    if !are_installed(&[NGHTTPD]) {
        return;
    }
    check_all(&nghttpd(&["--max-concurrent-streams=100"]).unwrap().url(""));
    // Frames with padding, and trailers behind the bodies.
    let odd = nghttpd(&["--padding=100", "--trailer=x-sum: 1"]).unwrap();
    check(&odd.url("/64k.bin"), &["-c3", "--streams=7"], 500, length("/64k.bin"));
    // Fewer streams than are asked for.
    let narrow = nghttpd(&["--max-concurrent-streams=3"]).unwrap();
    check(&narrow.url("/page.html"), &["-c2", "--streams=50"], 5000, length("/page.html"));
}

#[test]
fn apache_is_measured() {
    if !are_installed(&["/usr/sbin/apache2", "/usr/lib/apache2/modules/mod_http2.so"]) {
        return;
    }
    let http2 =
        "LoadModule http2_module /usr/lib/apache2/modules/mod_http2.so\nProtocols h2c http/1.1\nLogLevel error\n";
    let server = apache(http2).unwrap();
    check_all(&server.url(""));
}

/// nginx ends each connection after a hundred requests, with as many of them under way as there are streams.
#[test]
fn connections_that_end_lose_no_request() {
    if !are_installed(&[NGINX]) {
        return;
    }
    let (_server, url) = nginx_h2("keepalive_requests 100;").unwrap();
    let report = check(&format!("{url}/page.html"), &["-c4", "--streams=10"], 20_000, length("/page.html"));
    let opened = report["connect"]["opened"].as_u64().unwrap();
    assert!((200..=300).contains(&opened), "a hundred requests each: {opened} connections");
    check(&format!("{url}/64k.bin"), &["-c4", "--streams=10"], 3000, length("/64k.bin"));
}

#[test]
fn a_reload_loses_no_request() {
    if !are_installed(&[NGINX]) {
        return;
    }
    let (dir, port) = (Scratch::new().unwrap(), free_port().unwrap());
    site::write(&dir.path("htdocs")).unwrap();
    let root = dir.path("").display().to_string();
    let user = if nix::unistd::geteuid().is_root() { "user www-data;" } else { "" };
    let configuration = format!(
        "daemon off; {user} worker_processes 2; pid {root}pid; error_log {root}error.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; keepalive_requests 10000000;\n\
         server {{ listen 127.0.0.1:{port} http2; root {root}htdocs; }} }}\n"
    );
    fs::write(dir.path("nginx.conf"), configuration).unwrap();
    let server = Server::run(dir, port, |dir| {
        let mut command = Command::new(NGINX);
        command.arg("-c").arg(dir.path("nginx.conf"));
        command
    });
    let server = server.unwrap();
    let url = server.url("/page.html");
    std::thread::scope(|scope| {
        let run = scope.spawn(|| load(&url, &["-c5", "--streams=20", "-t", "4", "--expect-length", "44"]));
        let parent = server.parent().0;
        for _ in 0..3 {
            let before = server.children().unwrap();
            kill(Pid::from_raw(parent as i32), Signal::SIGHUP).unwrap();
            until("other workers", || {
                server.children().ok().filter(|now| now.iter().all(|child| !before.contains(child)))
            })
            .unwrap();
        }
        let (report, _) = run.join().unwrap();
        assert_eq!(report["failures"], serde_json::json!({}), "{report}");
        assert_eq!(report["wrong_length"], 0, "{report}");
        let opened = report["connect"]["opened"].as_u64().unwrap();
        assert!(opened > 5, "connections were ended: {opened}");
    });
}

#[test]
fn a_server_without_http2_is_named_before_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut connection, _) = listener.accept().unwrap();
            let _greeting = connection.read(&mut [0; 100]).unwrap();
            connection.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").unwrap();
        });
        let output = binary::command(["load", &url, "--http2", "-n100"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("does not speak HTTP/2: it answers `HTTP/1.1 400 Bad Request`"), "{said}");
    });
}

#[test]
fn ab_speaks_http2() {
    if !are_installed(&[NGINX]) {
        return;
    }
    let (_server, url) = nginx_h2("keepalive_requests 100;").unwrap();
    let page = format!("{url}/page.html");
    let output = binary::command(["ab", "-q", "-n2000", "-c5", "--streams", "4", &page]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in [
        "Server Software:        nginx",
        "Document Length:        44 bytes",
        "Complete requests:      2000",
        "Failed requests:        0",
        "Keep-Alive requests:    2000",
        "HTML transferred:       88000 bytes",
    ] {
        assert!(said.contains(line), "{line} in {said}{}", String::from_utf8_lossy(&output.stderr));
    }
}
