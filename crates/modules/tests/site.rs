//! The modules together: a folder served over memory, answers compared field by field.
#![expect(clippy::unwrap_used, reason = "a test fails where its set-up does")]

use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use manifold_engine::memory::{Input, MemoryHost, MemoryTransport};
use manifold_engine::phases::{Outcome, Phase};
use manifold_engine::request::{Body, Request};
use manifold_engine::serve::{Conn, serve};
use manifold_engine::site::{ServerName, Site};
use manifold_http::ContentCoding;
use manifold_modules::authz_core::Provider;
use manifold_modules::authz_host::Subnet;
use manifold_modules::file_cache::FileSettings;
use manifold_modules::location::{Location, Locations};
use manifold_modules::log_config::{AccessLog, Buffering, COMBINED, Format};
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
    let log =
        AccessLog::open(&path, Format::parse(COMBINED).unwrap(), ServerName::default(), Buffering::EachLine).unwrap();
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

/// A site that sends what lies compressed beside a file; the files are made anew.
fn compressing_site(name: &str) -> Site {
    let root = folder().join(name);
    fs::create_dir_all(&root).unwrap();
    for (name, text) in [
        ("app.js", "plain app"),
        ("app.js.br", "br app"),
        ("app.js.gz", "gzipped app"),
        ("old.css", "new text"),
        ("old.css.br", "old text"),
        ("alone.html", "alone"),
        ("index.html", "index"),
        ("index.html.gz", "gzipped index"),
    ] {
        fs::write(root.join(name), text).unwrap();
    }
    let old = fs::File::options().write(true).open(root.join("old.css.br")).unwrap();
    old.set_modified(fs::metadata(root.join("old.css")).unwrap().modified().unwrap() - Duration::from_nanos(1))
        .unwrap();
    let precompressed = vec![ContentCoding::Brotli, ContentCoding::Gzip];
    let files = FileSettings { precompressed, ..FileSettings::default() };
    Site::new(phases(Settings { document_root: root, files, ..settings(vec![], Locations::default()) }))
}

#[test]
fn what_lies_compressed_beside_a_file_is_sent_to_who_takes_it() {
    let site = compressing_site("compressed");
    let check = |path: &str, fields: &str, expected: &str| {
        let answer = answer(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"), &site);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("-").to_owned();
        let (status, coding, vary) = (&head[9..12], field("Content-Encoding: "), field("Vary: "));
        assert_eq!(format!("{status} {coding} {vary} {} {body}", field("Content-Type: ")), expected, "{path} {fields}");
        field("ETag: ")
    };
    let plain = check("/app.js", "", "200 - Accept-Encoding text/javascript plain app");
    let gzipped = "200 gzip Accept-Encoding text/javascript gzipped app";
    check("/app.js", "Accept-Encoding: gzip, deflate\r\n", gzipped);
    check("/app.js", "Accept-Encoding: deflate\r\naccept-encoding: gzip;q=0.5, br;q=0.1\r\n", gzipped);
    let tag = check("/app.js", "Accept-Encoding: gzip, br\r\n", "200 br Accept-Encoding text/javascript br app");
    assert!(tag.ends_with("-br\"") && tag != plain, "{tag} and {plain}");
    // Ranges and conditions are about what is sent.
    check("/app.js", "Accept-Encoding: br\r\nRange: bytes=3-\r\n", "206 br Accept-Encoding text/javascript app");
    let none_match = |tag: &str| format!("Accept-Encoding: br\r\nIf-None-Match: {tag}\r\n");
    check("/app.js", &none_match(&tag), "304 - Accept-Encoding - ");
    check("/app.js", &none_match(&plain), "200 br Accept-Encoding text/javascript br app");
    // Older than the original, or not there at all.
    check("/old.css", "Accept-Encoding: br\r\n", "200 - Accept-Encoding text/css new text");
    check("/alone.html", "Accept-Encoding: br, gzip\r\n", "200 - Accept-Encoding text/html alone");
    check("/", "Accept-Encoding: br, gzip\r\n", "200 gzip Accept-Encoding text/html gzipped index");
    check("/app.js.br", "Accept-Encoding: br\r\n", "200 - - text/javascript br app");
}

/// A thread that must not wait for a disk gives the same answers, and has little fetched by others.
#[test]
fn a_host_that_must_not_wait_gives_the_same_answers() {
    let site = compressing_site("impatient");
    for path in ["/app.js", "/", "/old.css", "/none", "/none/", "/app.js/more"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nAccept-Encoding: br, gzip\r\n\r\n");
        let expected = answer(&request, &site);
        let mut io = MemoryTransport::new([Input::Bytes(request.into_bytes())]);
        let mut conn = Conn::new(([192, 0, 2, 7], 4711).into());
        let host = MemoryHost::default();
        host.impatient.store(true, Ordering::Relaxed);
        {
            let mut served = pin!(serve(&mut io, &mut conn, &site, &host));
            let polls =
                (0..20).take_while(|_| served.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert!(polls.count() < 10, "{path}");
        }
        assert_eq!(String::from_utf8(std::mem::take(&mut io.sent)).unwrap(), expected, "{path}");
    }
}

#[test]
fn every_item_of_a_log_format_says_what_apache_says() {
    let check = |format: &str, request: &str, expected: &[&str]| {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let path = folder().join(format!("items-{}.log", NEXT.fetch_add(1, Ordering::Relaxed)));
        let server = ServerName { host: "www.Example.org".to_owned(), port: 8080 };
        let log = AccessLog::open(&path, Format::parse(format).unwrap(), server, Buffering::EachLine).unwrap();
        answer(request, &site(vec![log]));
        let log = fs::read_to_string(path).unwrap();
        assert_eq!(log.lines().collect::<Vec<_>>(), expected, "{format}: {request}");
    };
    let get = "GET /page.css?a=b HTTP/1.1\r\nHost: WWW.other.org:99\r\nCookie: a=1; sid = 42 ; z=\r\nReferer: \r\n\r\n";
    check("%h %a %{c}a %l %u %L", get, &["192.0.2.7 192.0.2.7 192.0.2.7 - - -"]);
    check("%m %U %q %H %r", get, &["GET /page.css ?a=b HTTP/1.1 GET /page.css?a=b HTTP/1.1"]);
    check("%s %>s %b %B %X %k", get, &["200 200 3 3 + 0"]);
    check("%p %{canonical}p %{remote}p %v %V", get, &["8080 8080 4711 www.Example.org www.other.org"]);
    check("%{Referer}i|%{none}i|%{sid}C|%{z}C|%{b}C", get, &["|-|42|-|-"]);
    check("%{Content-Type}o %{content-length}o %{Date}o %{Server}o %{Location}o", get, &["text/css 3 - - -"]);
    check(
        "%R %{%Y-%m-%d}t %{sec}t %{end:usec}t %{msec_frac}t %{begin:usec_frac}t",
        get,
        &["- 1994-11-06 784111777 784111777000000 000 000000"],
    );
    check("%D %T %{ms}T", get, &["0 0 0"]);
    check("%200,304{Host}i %404{Host}i %!200{Host}i %!404s", get, &["WWW.other.org:99 - - 200"]);
    let length = get.len();
    check("%I", get, &[&length.to_string()]);
    let post = "POST /none HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    check("%I %s %X %k", post, &[&format!("{} 404 - 0", post.len())]);
    let two = "GET /page.css HTTP/1.1\r\nHost: h\r\n\r\nGET /page.css HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    check("%k%X", two, &["0+", "0-"]);
    check("\\t%r\\n", "BAD\r\n\r\n", &["\tBAD", ""]);
    check("%b %B", "HEAD /page.css HTTP/1.0\r\n\r\n", &["- 0"]);
}
