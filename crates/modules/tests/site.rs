//! The modules together: a folder served over memory, answers compared field by field.
#![expect(clippy::unwrap_used, reason = "a test fails where its set-up does")]

use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use manifold_engine::memory::{Input, MemoryHost, MemoryTransport};
use manifold_engine::phases::{Outcome, Phase};
use manifold_engine::request::{Body, Request};
use manifold_engine::serve::{Conn, serve};
use manifold_engine::site::{ServerName, Site};
use manifold_modules::authz_core::Provider;
use manifold_modules::authz_host::Subnet;
use manifold_modules::file_cache::FileSettings;
use manifold_modules::location::{Location, Locations};
use manifold_modules::log_config::{AccessLog, COMBINED, Format};
use manifold_modules::mime::Types;
use manifold_modules::{Settings, phases};

/// A folder made once for all tests of this file.
fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("manifold-modules-site-{}", std::process::id()));
        fs::create_dir_all(folder.join("site/dir with space")).unwrap();
        fs::create_dir_all(folder.join("site/empty")).unwrap();
        fs::write(folder.join("site/index.html"), "root index").unwrap();
        fs::write(folder.join("site/dir with space/index.htm"), "second choice").unwrap();
        fs::write(folder.join("site/page.css"), "css").unwrap();
        fs::write(folder.join("site/noextension"), "").unwrap();
        fs::write(folder.join("outside"), "secret").unwrap();
        folder
    })
}

fn answer(request: &str, site: &Site) -> String {
    let mut io = MemoryTransport::new([Input::Bytes(request.as_bytes().to_vec())]);
    let mut conn = Conn::new(([192, 0, 2, 7], 4711).into());
    let host = MemoryHost::default();
    let done = pin!(serve(&mut io, &mut conn, site, &host)).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(done, Poll::Ready(Ok(_))));
    String::from_utf8(io.sent).unwrap()
}

fn site(access_logs: Vec<AccessLog>) -> Site {
    Site::new(phases(settings(access_logs, Locations::default())))
}

fn settings(access_logs: Vec<AccessLog>, locations: Locations) -> Settings {
    Settings {
        document_root: folder().join("site"),
        server_name: ServerName::default(),
        directory_index: vec!["index.html".to_owned(), "index.htm".to_owned()],
        types: Types::built_in(),
        files: FileSettings::default(),
        access_logs,
        status: Arc::default(),
        locations,
    }
}

/// Status, `Content-Type` or `Location` where there is one, and the body of a 200.
#[track_caller]
fn check(path: &str, expected: &str) {
    check_on(&site(vec![]), path, expected);
}

#[track_caller]
fn check_on(site: &Site, path: &str, expected: &str) {
    let answer = answer(&format!("GET {path} HTTP/1.1\r\nHost: example.org\r\n\r\n"), site);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("-").to_owned();
    let status = head.split(' ').nth(1).unwrap();
    let summary = match status {
        "200" => format!("200 {} {body}", field("Content-Type: ")),
        "301" => format!("301 {}", field("Location: ")),
        status => status.to_owned(),
    };
    assert_eq!(summary, expected, "{path}");
}

#[test]
fn files_indexes_redirects_and_what_is_not_there() {
    check("/", "200 text/html root index");
    check("/index.html", "200 text/html root index");
    check("/page.css?v=1", "200 text/css css");
    check("/noextension", "200 - ");
    check("/dir%20with%20space/", "200 text/html second choice");
    check("/dir%20with%20space", "301 http://example.org/dir%20with%20space/");
    check("/dir%20with%20space?a=b", "301 http://example.org/dir%20with%20space/?a=b");
    check("/none", "404");
    check("/none/", "404");
    check("/page.css/", "404");
    check("/page.css/more", "404");
    check("/empty/", "403");
    check("/../outside", "400");
    check("/%2e%2e/outside", "400");
    check("/dir%20with%20space/../../outside", "400");
    check("/./dir%20with%20space//index.htm", "200 text/html second choice");
    check(&format!("/{}", "long".repeat(500)), "403");
}

/// A section in which `test` is asked, no handler is, or no choice is made.
fn section(path: &str, handler: Option<Option<&str>>, require: Vec<Provider>) -> Location {
    Location { path: path.into(), handler: handler.map(|name| name.map(Arc::from)), require }
}

#[test]
fn sections_say_who_answers_and_to_whom() {
    let denied = || vec![Provider::All(false)];
    // The client of these tests is 192.0.2.7.
    let range = |range: &str| vec![Provider::Local, Provider::Ip(vec![Subnet::parse(range).unwrap()])];
    let mut phases = phases(settings(
        vec![],
        Locations(vec![
            section("/handled", Some(Some("test")), vec![]),
            section("/handled/page.css", Some(None), vec![]),
            section("/handled/local", None, vec![Provider::Local]),
            section("/page.css", Some(Some("nobody's")), range("192.0.2.0/24")),
            section("/noextension", Some(Some("test")), range("192.0.3.0/24")),
            section("/dir with space", Some(Some("test")), vec![]),
            section("/dir with space/index.htm", None, denied()),
            section("/empty", None, denied()),
            section("/index.html", None, denied()),
        ]),
    ));
    phases.add(Phase::Handler, |request: &mut Request| {
        if request.handler.as_deref() != Some("test") {
            return Outcome::Declined;
        }
        request.response.body = Body::Bytes(b"handled".to_vec());
        Outcome::Done
    });
    let site = Site::new(phases);
    let check = |path: &str, expected: &str| check_on(&site, path, expected);
    for path in ["/handled", "/handled/", "/handled/more?x", "//handled/./more"] {
        check(path, "200 - handled");
    }
    check("/handledx", "404");
    check("/handled/page.css", "404");
    check("/handled/local", "403");
    check("/handled/%6cocal/more", "403");
    // A handler that there is not leaves the file to the usual one.
    check("/page.css", "200 text/css css");
    check("/noextension", "403");
    // What has a handler is not redirected, and no index is looked for.
    check("/dir%20with%20space", "200 - handled");
    check("/dir%20with%20space/", "200 - handled");
    check("/dir%20with%20space/index.htm", "403");
    // Access comes before what is there and what is not.
    check("/empty", "403");
    check("/empty/none", "403");
    check("/emptyish", "404");
    // An index that may not be had by its own name is not to be had by its directory's.
    check("/index.html", "403");
    check("/", "403");
}

#[test]
fn the_access_log_has_a_line_for_each_request() {
    let path = folder().join("access.log");
    let log = AccessLog::open(&path, Format::parse(COMBINED).unwrap()).unwrap();
    let request = "GET /page.css HTTP/1.1\r\nHost: h\r\nUser-Agent: Test \"quoted\"\r\n\r\nHEAD /none HTTP/1.0\r\n\r\n";
    answer(request, &site(vec![log]));
    let log = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    let (start, end) = lines[0].split_once('[').unwrap();
    assert_eq!(start, "192.0.2.7 - - ");
    assert!(end.ends_with("] \"GET /page.css HTTP/1.1\" 200 3 \"-\" \"Test \\\"quoted\\\"\""), "{}", lines[0]);
    assert!(lines[1].ends_with("] \"HEAD /none HTTP/1.0\" 404 - \"-\" \"-\""), "{}", lines[1]);
    assert_eq!(lines.len(), 2);
}
