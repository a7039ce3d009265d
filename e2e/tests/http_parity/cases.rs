//! What is sent.

use std::fmt;

use crate::difference::Difference::{self, *};

/// Requests under the same directives.
pub struct Group {
    /// What both servers are told beside what every group has.
    pub directives: &'static str,
    /// What is sent.
    pub cases: Vec<Case>,
}

/// Something to send on a connection of its own.
pub struct Case {
    /// Sent first; an answer to it is waited for.
    pub awaited: Option<Vec<u8>>,
    /// Sent then.
    pub bytes: Vec<u8>,
    /// How the answers differ on purpose, if they do.
    pub difference: Option<Difference>,
}

impl Case {
    fn new(bytes: impl Into<Vec<u8>>) -> Case {
        Case { awaited: None, bytes: bytes.into(), difference: None }
    }

    /// The same with a deliberate difference.
    fn but(self, difference: Difference) -> Case {
        Case { difference: Some(difference), ..self }
    }

    /// Whether the first answer has no body.
    pub fn is_head(&self) -> bool {
        self.awaited.as_ref().unwrap_or(&self.bytes).starts_with(b"HEAD ")
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [self.awaited.as_deref().unwrap_or_default(), &self.bytes].concat();
        write!(f, "{}", all[..all.len().min(400)].escape_ascii())
    }
}

/// A request of HTTP/1.1 with these fields besides `Host`; a field is ended by CRLF here.
fn request(method: &str, target: &str, fields: &[&str]) -> Case {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    Case::new(format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"))
}

fn get(target: &str, fields: &[&str]) -> Case {
    request("GET", target, fields)
}

/// A request whose body is sent with it.
fn with_body(method: &str, target: &str, body: &str) -> Case {
    Case::new(format!("{method} {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}

/// What the letters' validators are.
const TAG: &str = "\"1a-38d7ea4c68000\"";
const MODIFIED: &str = "Sun, 09 Sep 2001 01:46:40 GMT";
const BEFORE: &str = "Sun, 09 Sep 2001 01:46:39 GMT";
const AFTER: &str = "Sun, 09 Sep 2001 01:46:41 GMT";

/// Everything under the defaults of both.
pub fn defaults() -> Group {
    let mut cases = methods();
    cases.extend(targets());
    cases.extend(hosts());
    cases.extend(conditions());
    cases.extend(ranges());
    cases.extend(heads());
    cases.extend(bodies());
    cases.extend(connections());
    cases.extend(browsers());
    Group { directives: "", cases }
}

fn methods() -> Vec<Case> {
    let mut cases = Vec::new();
    for target in ["/", "/page.html", "/plain", "/dir/", "/long.bin", "/nothing.txt"] {
        cases.extend(["GET", "OPTIONS", "PUT", "DELETE", "PATCH"].map(|method| request(method, target, &[])));
        let head = request("HEAD", target, &[]);
        cases.push(if target == "/nothing.txt" { head.but(Length) } else { head });
        cases.push(with_body("POST", target, "abc"));
    }
    for target in ["/none", "/dir", "/none/", "/page.html/more"] {
        cases.extend(["GET", "PUT", "DELETE", "PROPFIND"].map(|method| request(method, target, &[])));
        let options = request("OPTIONS", target, &[]);
        cases.push(if target == "/page.html/more" { options.but(OptionsType) } else { options });
        cases.push(request("HEAD", target, &[]).but(Length));
        cases.push(with_body("POST", target, "abc"));
    }
    for method in ["PROPFIND", "MKCOL", "VERSION-CONTROL", "MERGE", "FOO", "get", "GETT", "OPTION"] {
        cases.push(request(method, "/page.html", &[]));
    }
    cases.extend([
        get("/empty/", &[]),
        request("HEAD", "/empty/", &[]).but(Length),
        request("OPTIONS", "/empty/", &[]).but(OptionsType),
        with_body("POST", "/empty/", "abc"),
        request("DELETE", "/empty/", &[]),
        with_body("PUT", "/page.html", "abc"),
        with_body("DELETE", "/none", "abc"),
        with_body("OPTIONS", "/page.html", "abc"),
        with_body("GET", "/page.html", "abc"),
        with_body("FOO", "/page.html", "abc"),
        request("FOO", "/dir", &[]).but(UnknownMethod),
        request("FOO", "/none", &[]),
        request("OPTIONS", "*", &[]),
        request("GET", "*", &[]),
        request("HEAD", "*", &[]).but(Length),
        request("TRACE", "*", &[]),
        request("TRACE", "/page.html", &[]).but(Length),
        request("TRACE", "/none?q", &["X-A:  1 "]).but(Length),
        request("TRACE", "/page.html", &["X-A: 1", "x-a: 2"]).but(Trace),
        request("TRACE", "/page.html", &["Cookie: a=b"]).but(Trace),
        request("TRACE", "/page.html", &["Content-Length: 0"]).but(Length),
        with_body("TRACE", "/page.html", "abc"),
        request("CONNECT", "h:80", &[]),
        request("CONNECT", "/page.html", &[]),
    ]);
    cases
}

fn targets() -> Vec<Case> {
    let long = format!("/{}", "x".repeat(300));
    let longer = format!("/{}", "x/".repeat(2500));
    let too_long = format!("/{}", "x".repeat(8300));
    [
        "/page.html?query",
        "/page.html?",
        "/?a=b&c",
        "/dir?x=1&y=<\">",
        "/dir?",
        "/two%20words.txt",
        "/back%5Cslash.txt",
        "/back\\slash.txt",
        "/latin%E9.txt",
        "/latin\u{e9}.txt",
        "/%70age.html",
        "/page%2Ehtml",
        "/%2e/page.html",
        "/./page.html",
        "/dir/../page.html",
        "/dir/%2e%2e/page.html",
        "/dir/.%2E/page.html",
        "/dir/sub/../../page.html",
        "/../page.html",
        "/%2e%2e/page.html",
        "/dir/../../page.html",
        "//page.html",
        "//dir//page.txt",
        "/dir//../page.html",
        "/dir/.",
        "/dir/./",
        "/dir/..",
        "/dir/sub",
        "/a%20b;c'(d)~e%c3%a9",
        "/a%2fb",
        "/dir%2Fpage.txt",
        "/page.html%00",
        "/%00",
        "/%zz",
        "/%",
        "/page.html%2",
        "/page.html#fragment",
        "/page.html/",
        "/page.html/more/still",
        "/dir/index.html/",
        "/PAGE.html",
        "/page.html.",
        "/...",
        "/~",
        "/a<b>\"c'",
        "page.html",
        "",
        "ftp://h/page.html",
        "http://other/page.html",
        "http://other",
        "http://other?q",
        "http://other:8080/dir",
        "http://OTHER./dir",
        "https://other/dir",
        "HTTP://other/dir",
        "http://u@other/page.html",
        "http://other:x/page.html",
        &long,
        &longer,
        &too_long,
    ]
    .map(|target| get(target, &[]))
    .into()
}

fn hosts() -> Vec<Case> {
    let of = |host: &str| Case::new(format!("GET /dir HTTP/1.1\r\n{host}\r\n"));
    [
        "",
        "Host:\r\n",
        "Host: h\r\nHost: h\r\n",
        "Host: HoSt.Example.\r\n",
        "Host: h:80\r\n",
        "Host: h:8080\r\n",
        "Host: [::1]\r\n",
        "Host: [::1]:81\r\n",
        "Host: [::1\r\n",
        "Host: 127.0.0.1\r\n",
        "Host: a_b\r\n",
        "Host: a..b\r\n",
        "Host: a b\r\n",
        "Host: a/b\r\n",
        "Host: u@a\r\n",
        "Host: a:x\r\n",
        "Host: a:99999\r\n",
        "host:h\r\n",
    ]
    .map(of)
    .into_iter()
    .chain([
        Case::new("GET /dir HTTP/1.0\r\n\r\n"),
        Case::new("GET /dir HTTP/1.0\r\nHost: h\r\n\r\n"),
        Case::new("GET http://other/dir HTTP/1.0\r\n\r\n"),
    ])
    .collect()
}

fn conditions() -> Vec<Case> {
    let tag = |name: &str, value: &str| get("/letters.txt", &[&format!("{name}: {value}")]);
    let mut cases = Vec::new();
    let weak = format!("W/{TAG}");
    let listed = format!("\"x\", {TAG}");
    let ended = format!("{TAG},");
    let bare = TAG.trim_matches('"');
    for name in ["If-Match", "If-None-Match"] {
        for value in [TAG, &weak, "*", "\"x\"", &listed, &ended, bare, ""] {
            cases.push(tag(name, value));
        }
    }
    let rfc850 = "Sunday, 09-Sep-01 01:46:40 GMT";
    let asctime = "Sun Sep  9 01:46:40 2001";
    for name in ["If-Modified-Since", "If-Unmodified-Since"] {
        for value in [MODIFIED, BEFORE, AFTER, rfc850, asctime, "yesterday", "0", ""] {
            cases.push(tag(name, value));
        }
    }
    let [matches, other] = [format!("If-None-Match: {TAG}"), "If-None-Match: \"x\"".to_owned()];
    let [same, older] = [format!("If-Modified-Since: {MODIFIED}"), format!("If-Modified-Since: {BEFORE}")];
    let unmodified_before = format!("If-Unmodified-Since: {BEFORE}");
    let if_match = format!("If-Match: {TAG}");
    let letters = |fields: &[&str]| get("/letters.txt", fields);
    cases.extend([
        letters(&[&other, &same]),
        letters(&[&matches, &same]),
        letters(&[&matches, &older]).but(DateBesideTag),
        letters(&[&if_match, &unmodified_before]).but(UnmodifiedBesideMatch),
        letters(&["If-Match: \"x\"", &matches]),
        letters(&[&unmodified_before, &matches]),
        letters(&[&other, &matches]),
        letters(&[&matches, "Connection: keep-alive"]),
        letters(&[&matches, "Connection: close"]),
        letters(&[&matches, "Cache-Control: no-cache"]),
        request("HEAD", "/letters.txt", &[&matches]),
        request("HEAD", "/letters.txt", &["If-Match: \"x\""]).but(Length),
        request("POST", "/letters.txt", &[&matches]),
        request("POST", "/letters.txt", &[&same]),
        request("POST", "/letters.txt", &["If-Match: \"x\""]),
        request("PUT", "/letters.txt", &["If-Match: \"x\""]),
        request("OPTIONS", "/letters.txt", &["If-Match: \"x\""]),
        request("OPTIONS", "/letters.txt", &[&matches]),
        get("/", &["If-None-Match: *"]),
        get("/none", &["If-None-Match: *"]),
        get("/none", &["If-Match: \"x\""]),
        get("/dir", &["If-None-Match: *"]),
        get("/plain", &["If-None-Match: *"]),
        get("/plain", &["If-Match: \"x\""]),
        Case::new(format!("GET /letters.txt HTTP/1.0\r\nIf-None-Match: {TAG}\r\n\r\n")),
        Case::new(format!("GET /letters.txt HTTP/1.0\r\nConnection: keep-alive\r\nIf-None-Match: {TAG}\r\n\r\n")),
    ]);
    cases
}

fn ranges() -> Vec<Case> {
    let of = |target: &str, value: &str| get(target, &[&format!("Range: {value}")]);
    let mut cases: Vec<Case> = [
        "bytes=0-4",
        "bytes=-5",
        "bytes=20-",
        "bytes=0-",
        "bytes=0-99",
        "bytes=-100",
        "bytes=25-25",
        "BYTES=0-1",
        "bytes=5-2",
        "bytes=-0",
        "bytes=--1",
        "bytes=abc",
        "bytes=",
        "bytes",
        "items=0-1",
        "bytes=0-1;2-3",
        "bytes=0-0,2-3",
        "bytes=5-6,0-1",
        "bytes=0-0,-1",
        "bytes=0-1,",
        "bytes=0-4,3-8",
        "bytes=0-4,5-8",
        "bytes=0-1,0-1,0-1",
        "bytes=0-25,0-25",
        "bytes=40-50,0-1",
        "bytes=0-1,40-50",
        "bytes=1-1,3-3,5-5,7-7,9-9",
        "bytes=0-20,10-25,0-3",
        "bytes=10-12,0-3,5-7,20-",
        "bytes=0-12,14-25",
    ]
    .map(|value| of("/letters.txt", value))
    .into();
    cases.extend(
        ["bytes=26-", "bytes=40-50,60-", "bytes=26-30"].map(|value| of("/letters.txt", value).but(UnsatisfiedRange)),
    );
    cases.push(of("/letters.txt", "bytes=0-1 "));
    cases.extend(
        ["bytes= 0-1", "bytes=0-1, 5-6", "bytes=0-1 ,5-6", "bytes=,0-1", "bytes=0-99999999999999999999"]
            .map(|value| of("/letters.txt", value).but(RangeList)),
    );
    for target in ["/long.bin", "/plain", "/", "/one.txt", "/nothing.txt"] {
        cases.extend(["bytes=0-0", "bytes=2-3,0-0", "bytes=-1"].map(|value| of(target, value)));
    }
    cases.extend([
        of("/long.bin", "bytes=1000-150000"),
        of("/long.bin", "bytes=150000-199999,0-70000"),
        of("/long.bin", "bytes=199999-"),
        of("/long.bin", "bytes=200000-").but(UnsatisfiedRange),
        of("/none", "bytes=0-0"),
        of("/dir", "bytes=0-0"),
        request("HEAD", "/letters.txt", &["Range: bytes=0-4"]).but(RangeOfOthers),
        request("HEAD", "/letters.txt", &["Range: bytes=0-0,2-3"]).but(RangeOfOthers),
        request("POST", "/letters.txt", &["Range: bytes=0-0"]).but(RangeOfOthers),
        request("OPTIONS", "/letters.txt", &["Range: bytes=0-0"]),
        request("PUT", "/letters.txt", &["Range: bytes=0-0"]),
        get("/letters.txt", &["Range: bytes=0-0", "Range: bytes=3-3"]),
        get("/letters.txt", &["Request-Range: bytes=0-0"]),
        get("/letters.txt", &["Range: bytes=0-0", "Connection: keep-alive"]),
        get("/letters.txt", &["Range: bytes=0-0,2-2", "Connection: close"]),
        Case::new("GET /letters.txt HTTP/1.0\r\nRange: bytes=0-4\r\n\r\n"),
    ]);
    let range = |fields: &[&str]| get("/letters.txt", &[&["Range: bytes=0-1"], fields].concat());
    let [fits, weak] = [format!("If-Range: {TAG}"), format!("If-Range: W/{TAG}")];
    let [same, before, after] = [MODIFIED, BEFORE, AFTER].map(|date| format!("If-Range: {date}"));
    let matches = format!("If-None-Match: {TAG}");
    let weakly = format!("If-None-Match: W/{TAG}");
    cases.extend([
        range(&[&fits]),
        range(&[&weak]),
        range(&["If-Range: \"x\""]),
        range(&[&same]),
        range(&[&before]),
        range(&[&after]),
        range(&["If-Range: yesterday"]),
        range(&["If-Range:"]),
        range(&[&matches]),
        range(&[&weakly]).but(WeakTagWithRange),
        range(&[&matches, &fits]).but(IfRangeFits),
        range(&[&format!("If-Modified-Since: {MODIFIED}")]),
        range(&[&format!("If-Modified-Since: {MODIFIED}"), "If-Range: \"x\""]).but(IfRangeAndNotModified),
        range(&["If-Match: \"x\""]),
        get("/letters.txt", &[&fits]),
    ]);
    cases
}

fn heads() -> Vec<Case> {
    let long = "x".repeat(8300);
    let many: String = (0..101).map(|number| format!("X-{number}: 1\r\n")).collect();
    let page = |fields: &str| Case::new(format!("GET /page.html HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    vec![
        Case::new("GET /page.html\r\n"),
        Case::new("GET /none\r\n"),
        Case::new("GET /nothing.txt\r\n"),
        Case::new("GET /long.bin\r\n"),
        Case::new("GET /dir\r\n"),
        Case::new("HEAD /page.html\r\n").but(Length),
        Case::new("GET /page.html HTTP/1.0\r\n\r\n"),
        Case::new("HEAD /page.html HTTP/1.0\r\n\r\n"),
        Case::new("POST /page.html HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc"),
        Case::new("GET /none HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
        Case::new("GET /page.html HTTP/1.2\r\nHost: h\r\n\r\n"),
        Case::new("GET /page.html HTTP/2.0\r\nHost: h\r\n\r\n").but(MajorVersion),
        Case::new("GET /page.html HTTP/0.9\r\nHost: h\r\n\r\n").but(OldVersion),
        Case::new("GET /page.html http/1.1\r\nHost: h\r\n\r\n"),
        Case::new("GET /page.html HTTP/1\r\nHost: h\r\n\r\n"),
        Case::new("GET  /page.html HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::new("GET /page.html  HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::new("GET /page.html HTTP/1.1 \r\nHost: h\r\n\r\n"),
        Case::new(" GET /page.html HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::new("\r\n\r\nGET /page.html HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::new("GET /page.html HTTP/1.1\nHost: h\n\n"),
        Case::new("G@T /page.html HTTP/1.1\r\nHost: h\r\n\r\n"),
        page("A : b\r\n"),
        page("A b\r\n"),
        page(": b\r\n"),
        page("A: b\r\n c\r\n").but(Folding),
        page("A: \x01\r\n"),
        page("A: b\tc\r\n"),
        page("A:\r\n"),
        page(&format!("A: {long}\r\n")).but(TooLarge),
        page(&many).but(TooLarge),
    ]
}

fn bodies() -> Vec<Case> {
    let post =
        |fields: &str, body: &str| Case::new(format!("POST /page.html HTTP/1.1\r\nHost: h\r\n{fields}\r\n{body}"));
    let chunked = |body: &str| post("Transfer-Encoding: chunked\r\n", body);
    let waits = |method: &str, target: &str, body: &str| Case {
        awaited: Some(
            format!(
                "{method} {target} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
                body.len()
            )
            .into(),
        ),
        ..Case::new(body)
    };
    vec![
        post("Content-Length: 0\r\n", ""),
        post("Content-Length: 3\r\n", "abc"),
        post("Content-Length: abc\r\n", ""),
        post("Content-Length: -1\r\n", ""),
        post("Content-Length: +3\r\n", "abc"),
        post("Content-Length: 99999999999999999999\r\n", ""),
        post("Content-Length: 3\r\nContent-Length: 4\r\n", "abc"),
        post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc").but(EqualLengths),
        post("Content-Length: 2147483648\r\n", "").but(Length),
        post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "0\r\n\r\n").but(CodingWithLength),
        post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n").but(UnknownCoding),
        post("Transfer-Encoding: gzip\r\n", "0\r\n\r\n"),
        chunked("0\r\n\r\n"),
        chunked("3\r\nabc\r\n0\r\n\r\n"),
        chunked("3;a=b\r\nabc\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\n"),
        chunked("a\r\n0123456789\r\nA\r\n0123456789\r\n000\r\n\r\n"),
        chunked("zz\r\n").but(Length),
        chunked("3\r\nabcd\r\n").but(Length),
        chunked("-1\r\n").but(Length),
        waits("POST", "/page.html", "abc"),
        waits("GET", "/page.html", "abc"),
        waits("POST", "/none", "abc"),
        waits("PUT", "/page.html", "abc"),
        waits("OPTIONS", "/page.html", "abc"),
        with_expect("/page.html", "abc").but(NeedlessContinue),
        get("/page.html", &["Expect: 100-continue"]).but(ContinueWithoutBody),
        get("/page.html", &["Expect:"]),
        get("/page.html", &["Expect: 100-Continue", "Content-Length: 0"]).but(ContinueWithoutBody),
        Case::new("GET /page.html HTTP/1.0\r\nExpect: 100-continue\r\n\r\n"),
        Case::new("FOO /page.html HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
            .but(NeedlessContinue),
        Case::new("POST /page.html HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2147483648\r\n\r\n")
            .but(Length),
    ]
}

/// A client that expects 100 and does not wait for it.
fn with_expect(target: &str, body: &str) -> Case {
    let length = body.len();
    Case::new(format!(
        "POST {target} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

fn connections() -> Vec<Case> {
    let page = |fields: &[&str]| get("/page.html", fields);
    let one = "GET /page.html HTTP/1.1\r\nHost: h\r\n\r\n";
    let none = "GET /none HTTP/1.1\r\nHost: h\r\n\r\n";
    let post = "POST /plain HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    let bad = "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n";
    vec![
        page(&["Connection: keep-alive"]),
        page(&["Connection: Keep-Alive, Upgrade"]),
        page(&["Connection: close"]),
        page(&["Connection: CLOSE"]),
        page(&["Connection: close, keep-alive"]),
        page(&["Connection: x"]),
        page(&["Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAAP__"]),
        get("/none", &["Connection: keep-alive"]),
        get("/none", &["Connection: close"]),
        get("/%zz", &["Connection: keep-alive"]),
        Case::new("GET /page.html HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"),
        Case::new("GET /page.html HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n"),
        Case::new([one, none, one].concat()),
        Case::new([post, one, post].concat()),
        Case::new([one, bad, one].concat()),
        Case::new(one.repeat(20)),
        Case::new([one, "GET /long.bin HTTP/1.1\r\nHost: h\r\n\r\n", one].concat()),
    ]
}

/// What browsers send.
fn browsers() -> Vec<Case> {
    const CHROMIUM: &[&str] = &[
        "Connection: keep-alive",
        "Cache-Control: max-age=0",
        "sec-ch-ua: \"Chromium\";v=\"142\", \"Not_A Brand\";v=\"99\"",
        "sec-ch-ua-mobile: ?0",
        "sec-ch-ua-platform: \"Linux\"",
        "Upgrade-Insecure-Requests: 1",
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
        "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
        "Sec-Fetch-Site: none",
        "Sec-Fetch-Mode: navigate",
        "Sec-Fetch-User: ?1",
        "Sec-Fetch-Dest: document",
        "Accept-Encoding: gzip, deflate, br, zstd",
        "Accept-Language: en-US,en;q=0.9",
        "Cookie: a=b; c=\"d e\"",
    ];
    const FIREFOX: &[&str] = &[
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
        "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "Accept-Language: en-US,en;q=0.5",
        "Accept-Encoding: gzip, deflate, br, zstd",
        "Connection: keep-alive",
        "Upgrade-Insecure-Requests: 1",
        "Priority: u=0, i",
        "Pragma: no-cache",
        "Cache-Control: no-cache",
    ];
    let revalidation = [format!("If-None-Match: {TAG}"), format!("If-Modified-Since: {MODIFIED}")];
    let revalidation = [revalidation[0].as_str(), revalidation[1].as_str()];
    let resumed = ["Accept-Encoding: identity;q=1, *;q=0", "Range: bytes=131072-", "If-Range: \"30d40-38d7ea4c68000\""];
    let mut cases = Vec::new();
    for browser in [CHROMIUM, FIREFOX] {
        cases.push(get("/page.html", browser));
        cases.push(get("/", browser));
        cases.push(get("/dir", browser));
        cases.push(get("/favicon.ico", browser));
        cases.push(get("/letters.txt", &[browser, &revalidation].concat()));
        cases.push(get("/long.bin", &[browser, &["Range: bytes=0-"]].concat()));
        cases.push(get("/long.bin", &[browser, &resumed].concat()));
    }
    cases
}

/// What directives change.
pub fn with_directives() -> Vec<Group> {
    let letters = |value: &str| get("/letters.txt", &[&format!("Range: {value}")]);
    let group = |directives, cases| Group { directives, cases };
    let short = format!("/{}", "x".repeat(60));
    vec![
        group(
            "TraceEnable Off\nAllowEncodedSlashes On\nMergeSlashes Off\nMaxRanges none\nAddDefaultCharset On\nKeepAlive Off",
            vec![
                request("TRACE", "/page.html", &[]).but(Allow),
                request("OPTIONS", "/page.html", &[]),
                request("PUT", "/page.html", &[]),
                request("FOO", "/page.html", &[]),
                get("/dir%2fpage.txt", &[]),
                get("/dir/sub%2f..%2fpage.txt", &[]),
                get("/dir%2f..%2f..%2fpage.html", &[]).but(AboveRoot),
                get("//page.html", &[]),
                get("//dir//", &[]),
                get("/dir//../page.html", &[]),
                letters("bytes=0-0"),
                letters("bytes=99-").but(NoRanges),
                get("/page.html", &[]),
                get("/plain", &[]),
                get("/long.bin", &[]),
                get("/none", &[]),
                get("/page.html", &["Connection: keep-alive"]),
                get("/letters.txt", &["If-None-Match: *"]),
            ],
        ),
        group(
            "TraceEnable extended\nAllowEncodedSlashes NoDecode\nMaxRanges 2\nAddDefaultCharset utf-8\nMaxKeepAliveRequests 2\n\
             HttpProtocolOptions Require1.0 RegisteredMethods\nLimitRequestBody 10\nServerName front.example:8443",
            vec![
                with_body("TRACE", "/page.html", "abc").but(Length),
                Case::new(
                    "TRACE / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: t\r\n\r\n",
                )
                .but(Length),
                request("OPTIONS", "/page.html", &[]),
                get("/dir%2fpage.txt", &[]),
                get("/dir/sub%2f..%2fpage.txt", &[]),
                letters("bytes=0-0,2-2"),
                letters("bytes=0-0,2-2,4-4"),
                letters("bytes=0-0,1-1,2-2"),
                get("/page.html", &[]),
                get("/letters.txt", &[]),
                get("/long.bin", &[]),
                get("/letters.txt", &["Range: bytes=0-0,3-3"]),
                get("/page.html", &["Connection: keep-alive"]),
                Case::new("GET /page.html HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\n\r\n".repeat(4)),
                Case::new("GET /page.html\r\n"),
                request("FOO", "/page.html", &[]).but(Allow),
                request("PROPFIND", "/page.html", &[]),
                with_body("POST", "/page.html", "0123456789"),
                with_body("POST", "/page.html", "0123456789a").but(Length),
                with_body("POST", "/none", "0123456789a").but(Length),
                Case::new(
                    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n",
                )
                .but(Length),
                get("/dir", &[]),
                Case::new("GET /dir HTTP/1.0\r\n\r\n"),
            ],
        ),
        group(
            "ServerSignature On\nServerTokens Prod\nServerAdmin webmaster@example.org\nLimitRequestLine 80\nLimitRequestFieldSize 60\n\
             LimitRequestFields 5\nMaxRangeOverlaps 1\nMaxRangeReversals none\nHttpProtocolOptions Unsafe",
            vec![
                get("/none", &[]),
                Case::new("GET /none HTTP/1.1\r\nHost: HoSt.Example.:8080\r\n\r\n"),
                Case::new("GET /none HTTP/1.1\r\nHost: [::1]:81\r\n\r\n"),
                Case::new("GET /none HTTP/1.0\r\n\r\n"),
                get("http://other:81/none", &[]),
                get("/dir", &[]),
                get(&short, &[]),
                get(&format!("{short}{short}"), &[]),
                get("/page.html", &[&format!("A: {}", "x".repeat(57))]),
                get("/page.html", &[&format!("A: {}", "x".repeat(70))]).but(TooLarge),
                get("/page.html", &["A: 1", "B: 2", "C: 3", "D: 4"]),
                get("/page.html", &["A: 1", "B: 2", "C: 3", "D: 4", "E: 5"]).but(TooLarge),
                letters("bytes=0-1,2-3,8-9"),
                letters("bytes=0-1,2-3,3-4,8-9"),
                letters("bytes=2-3,1-2,8-9"),
                Case::new("GET /page.html HTTP/1.1\nHost: h\n\n"),
                Case::new("GET   /page.html   HTTP/1.1\r\nHost: h\r\n\r\n"),
            ],
        ),
        // Apache forgets what was sent behind this request, and waits for more.
        group("KeepAliveTimeout 1", vec![get("/page.html", &["Expect: <other>"]).but(UnmetExpectation)]),
        group(
            "ServerSignature EMail\nServerTokens Prod\nServerAdmin webmaster@example.org",
            vec![get("/none", &[]), Case::new("GET /none HTTP/1.0\r\n\r\n")],
        ),
    ]
}
