//! Paths that were answered before skip the phases: only where the answer rests on the path, and never once something else stands
//! there.
#![expect(clippy::unwrap_used, reason = "a test fails where its set-up does")]

use std::fs;
use std::future::Future;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use manifold_engine::memory::{Input, MemoryHost, MemoryTransport};
use manifold_engine::phases::{OfPath, Outcome, Phase};
use manifold_engine::request::Request;
use manifold_engine::serve::{Conn, serve};
use manifold_engine::site::{ServerName, Site};
use manifold_engine::transport::Host;
use manifold_http::ContentCoding;
use manifold_modules::authz_core::Provider;
use manifold_modules::authz_host::Subnet;
use manifold_modules::file_cache::{FileSettings, Links};
use manifold_modules::location::{Location, Locations};
use manifold_modules::log_config::{AccessLog, Buffering, Format};
use manifold_modules::mime::Types;
use manifold_modules::{Settings, phases};

const CLIENT: ([u8; 4], u16) = ([192, 0, 2, 7], 4711);

/// A folder that is removed at the end, with a site that counts how often its phases were gone through.
struct Server {
    folder: PathBuf,
    site: Site,
    gone_through: Arc<AtomicU32>,
    host: MemoryHost,
}

impl Server {
    fn new(change: impl FnOnce(&Path, &mut Settings)) -> Server {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("manifold-known-paths-{}-{number}", std::process::id()));
        fs::create_dir_all(folder.join("site/dir")).unwrap();
        for (name, text) in [("page.html", "page"), ("other.html", "other"), ("dir/page.html", "below")] {
            fs::write(folder.join("site").join(name), text).unwrap();
        }
        symlink("dir", folder.join("site/current")).unwrap();
        let mut settings = Settings {
            document_root: folder.join("site"),
            server_name: ServerName::default(),
            directory_index: vec!["page.html".to_owned()],
            types: Types::built_in(),
            files: FileSettings::default(),
            access_logs: vec![],
            status: Arc::default(),
            locations: Locations::default(),
        };
        change(&folder, &mut settings);
        let mut phases = phases(settings);
        let gone_through = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&gone_through);
        let counts = move |_: &mut Request| {
            count.fetch_add(1, Ordering::Relaxed);
            Outcome::Declined
        };
        phases.add(Phase::QuickHandler, OfPath(counts));
        let host = MemoryHost::default();
        // An hour from now: files made by the test can be told from later ones by then.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        host.advance(now + Duration::from_secs(3600) - host.turn().wall);
        Server { folder, site: Site::new(phases), gone_through, host }
    }

    /// Status and body of the answer in a turn of its own, and how often the phases were gone through.
    fn ask(&self, request: &str, client: impl Into<SocketAddr>) -> (String, u32) {
        self.host.advance(Duration::from_millis(1));
        self.gone_through.store(0, Ordering::Relaxed);
        let mut io = MemoryTransport::new([Input::Bytes(request.as_bytes().to_vec())]);
        let mut conn = Conn::new(client.into());
        let done =
            pin!(serve(&mut io, &mut conn, &self.site, &self.host)).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(done, Poll::Ready(Ok(_))));
        let sent = String::from_utf8(io.sent).unwrap();
        let (head, body) = sent.split_once("\r\n\r\n").unwrap();
        let said = match &head[9..12] {
            status @ ("200" | "206") => format!("{status} {body}"),
            status => status.to_owned(),
        };
        (said, self.gone_through.load(Ordering::Relaxed))
    }

    fn get(&self, path: &str) -> (String, u32) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"), CLIENT)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// What is done to the site, a path, and what it is answered with then where links are followed, where their owners match and
/// where they are refused.
type Change = (&'static str, fn(&Path), &'static str, [&'static str; 3]);

fn rename(site: &Path, from: &str, to: &str) {
    fs::rename(site.join(from), site.join(to)).unwrap();
}

const CHANGES: &[Change] = &[
    ("nothing", |_| (), "/page.html", ["200 page"; 3]),
    ("replaced", |site| rename(site, "other.html", "page.html"), "/page.html", ["200 other"; 3]),
    ("written", |site| fs::write(site.join("page.html"), "egap").unwrap(), "/page.html", ["200 egap"; 3]),
    ("removed", |site| fs::remove_file(site.join("page.html")).unwrap(), "/page.html", ["404"; 3]),
    (
        "made a directory",
        |site| {
            fs::remove_file(site.join("page.html")).unwrap();
            rename(site, "dir", "page.html");
        },
        "/page.html",
        ["301"; 3],
    ),
    (
        "made a link",
        |site| {
            fs::remove_file(site.join("page.html")).unwrap();
            symlink("other.html", site.join("page.html")).unwrap();
        },
        "/page.html",
        ["200 other", "200 other", "403"],
    ),
    ("directory renamed", |site| rename(site, "dir", "gone"), "/dir/page.html", ["404"; 3]),
    (
        "directory swapped",
        |site| {
            rename(site, "dir", "before");
            fs::create_dir(site.join("dir")).unwrap();
            rename(site, "other.html", "dir/page.html");
        },
        "/dir/page.html",
        ["200 other"; 3],
    ),
    (
        "directory made a link",
        |site| {
            rename(site, "dir", "before");
            symlink("before", site.join("dir")).unwrap();
        },
        "/dir/page.html",
        ["200 below", "200 below", "403"],
    ),
    (
        "link swapped",
        |site| {
            symlink(".", site.join("next")).unwrap();
            rename(site, "next", "current");
        },
        "/current/page.html",
        ["200 page", "200 page", "403"],
    ),
    ("link removed", |site| fs::remove_file(site.join("current")).unwrap(), "/current/page.html", ["404"; 3]),
];

#[test]
fn whatever_happens_to_a_known_path_its_next_request_tells() {
    for (links, column) in [(Links::Follow, 0), (Links::OwnerMatch, 1), (Links::Refuse, 2)] {
        for &(what, change, path, expected) in CHANGES {
            let server = Server::new(|_, settings| settings.files.links = links);
            let (before, _) = server.get(path);
            let (again, gone_through) = server.get(path);
            let is_known = before.starts_with("200");
            assert_eq!((again, gone_through), (before, u32::from(!is_known)), "{what}, {links:?}");
            change(&server.folder.join("site"));
            for _ in 0..2 {
                assert_eq!(server.get(path).0, expected[column], "{what}, {links:?}");
            }
        }
    }
}

/// How often the phases are gone through for the last of three requests.
#[track_caller]
fn check(server: &Server, request: &str, answer: &str, gone_through: u32) {
    for _ in 0..2 {
        server.ask(request, CLIENT);
    }
    assert_eq!(server.ask(request, CLIENT), (answer.to_owned(), gone_through), "{request}");
}

#[test]
fn only_what_rests_on_the_path_is_known() {
    let server = Server::new(|_, _| ());
    let get = |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    check(&server, &get("/page.html", ""), "200 page", 0);
    check(&server, &get("/page.html", "Range: bytes=1-2\r\n"), "206 ag", 0);
    check(&server, &get("/page.html", "If-None-Match: *\r\n"), "304", 0);
    check(&server, "HEAD /page.html HTTP/1.1\r\nHost: h\r\n\r\n", "200 ", 0);
    check(&server, "POST /page.html HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx", "200 page", 1);
    check(&server, "OPTIONS /page.html HTTP/1.1\r\nHost: h\r\n\r\n", "200 ", 1);
    for (target, answer) in [
        ("/page.html?v=1", "200 page"),
        ("/p%61ge.html", "200 page"),
        ("//page.html", "200 page"),
        ("/dir/../page.html", "200 page"),
        ("/", "200 page"),
        ("/dir", "301"),
        ("/none", "404"),
    ] {
        check(&server, &get(target, ""), answer, 1);
    }
}

#[test]
fn who_may_have_a_known_path_is_asked_each_time() {
    let section = |path: &str, handler: Option<&str>, require| Location {
        path: path.into(),
        handler: handler.map(|name| Some(Arc::from(name))),
        require,
    };
    let range = || Provider::Ip(vec![Subnet::parse("192.0.2.0/24").unwrap()]);
    let server = Server::new(|_, settings| {
        settings.locations = Locations(vec![
            section("", None, vec![Provider::All(true)]),
            section("/dir", None, vec![range()]),
            section("/other.html", Some("nobody's"), vec![]),
        ]);
    });
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
    check(&server, &get("/page.html"), "200 page", 0);
    check(&server, &get("/dir/page.html"), "200 below", 1);
    check(&server, &get("/other.html"), "200 other", 1);
    assert_eq!(server.ask(&get("/dir/page.html"), ([192, 0, 3, 7], 4711)).0, "403");
    assert_eq!(server.ask(&get("/page.html"), ([192, 0, 3, 7], 4711)).0, "200 page");
}

#[test]
fn what_a_client_accepts_is_asked_each_time() {
    let server = Server::new(|folder, settings| {
        fs::write(folder.join("site/page.html.gz"), "gzipped").unwrap();
        settings.files.precompressed = vec![ContentCoding::Gzip];
    });
    check(&server, "GET /page.html HTTP/1.1\r\nHost: h\r\n\r\n", "200 page", 1);
    check(&server, "GET /page.html HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n", "200 gzipped", 1);
}

#[test]
fn a_known_path_is_logged_with_its_file() {
    let mut log = PathBuf::new();
    let server = Server::new(|folder, settings| {
        log = folder.join("log");
        let format = Format::parse("%s %U %f").unwrap();
        let opened = AccessLog::open(&log, format, ServerName::default(), Buffering::EachLine).unwrap();
        settings.access_logs.push(opened);
    });
    check(&server, "GET /page.html HTTP/1.1\r\nHost: h\r\n\r\n", "200 page", 0);
    let line = format!("200 /page.html {}", server.folder.join("site/page.html").display());
    assert_eq!(fs::read_to_string(log).unwrap().lines().collect::<Vec<_>>(), [&line; 3]);
}

#[test]
fn another_sites_paths_are_not_this_ones() {
    let servers = [Server::new(|_, _| ()), Server::new(|_, _| ())];
    fs::remove_file(servers[1].folder.join("site/page.html")).unwrap();
    for _ in 0..3 {
        assert_eq!(servers[0].get("/page.html").0, "200 page");
        assert_eq!(servers[1].get("/page.html").0, "404");
    }
}

#[test]
fn a_path_that_is_the_files_name_as_well_is_known() {
    let server = Server::new(|_, settings| settings.document_root = PathBuf::from("/"));
    let page = server.folder.join("site/page.html");
    let request = format!("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", page.display());
    check(&server, &request, "200 page", 0);
    // The same file by its name alone.
    check(&server, &request.replace(" HTTP", "?q HTTP"), "200 page", 1);
    check(&server, &request, "200 page", 0);
    fs::remove_file(page).unwrap();
    check(&server, &request, "404", 1);
}
