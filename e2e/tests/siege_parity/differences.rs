//! Where ours differs on purpose: each row is tried, and must really differ in what it names.

use super::program::{Case, HANGS};

/// A difference.
pub struct Difference {
    /// Its name in the manual's table.
    pub name: &'static str,
    pub case: Case,
    /// What only the original's deed contains.
    pub theirs: &'static [&'static str],
    /// What only ours contains.
    pub ours: &'static [&'static str],
}

const fn row(
    name: &'static str,
    resource: &'static str,
    line: &'static str,
    theirs: &'static [&'static str],
    ours: &'static [&'static str],
) -> Difference {
    Difference { name, case: Case { resource, line }, theirs, ours }
}

pub const DIFFERENCES: &[Difference] = &[
    row("hanging", "", "-c1 -r1 --stall-timeout=1 URL/hold", &[HANGS], &["Failed transactions:\t           1"]),
    row("short answers", "", "-c1 -r1 URL/short", &["Transactions:\t\t           1"], &["the answer ended too early"]),
    row("redirects in a circle", "failures = 1", "-c1 -r1 URL/circle", &[HANGS], &["more than 50 redirects in a row"]),
    row("no body", "", "-c1 -r1 URL/204", &["2 bytes ==> GET  /204"], &["0 bytes ==> GET  /204"]),
    row("no body", "", "-c1 -r1 URL/304", &["2 bytes ==> GET  /304"], &["0 bytes ==> GET  /304"]),
    row("status 418", "", "-c1 -r1 URL/418", &["Failed transactions:\t           1"], &["2 bytes ==> GET  /418"]),
    row(
        "kept connections that end",
        "connection = keep-alive",
        "-c1 -r2 URL/until-close",
        &["Failed transactions:\t           1"],
        &["Transactions:\t\t           2 hits"],
    ),
    row("logins that are not known", "", "-c1 -r1 URL/basic", &["(null)Accept"], &[]),
    row("digests without qop", "login = jeff:secret", "-c1 -r1 URL/digest-old", &["signal"], &["HTTP/1.1 200"]),
    row("names and passwords in URLs", "", "-c1 -r1 http://u:p@HOSTPORT/basic", &["(null)"], &["HTTP/1.1 200"]),
    row("hosts without a dot", "", "-c1 -r1 localhost:PORT/x", &["PROTOCOL NOT SUPPORTED"], &["HTTP/1.1 200"]),
    row("complaints about options", "", "-c1 -r1 -x URL/x", &["'x'\n/usr/bin/siege: invalid option -- 'x'"], &[]),
    row("complaints about options", "", "-c1 -r1 --no URL/x", &["'--no-follow'\n/usr/bin/siege: option '--no'"], &[]),
    row("refused cookies", "cookies = false", "-c1 -r2 URL/cookie", &["Cookie: a=b"], &[]),
    row("logins for all realms", "login = jeff:secret:all", "-c1 -r1 URL/basic", &["(null)"], &["HTTP/1.1 200"]),
    row(
        "dates of pages",
        "cache = true",
        "-c1 -r2 URL/dated",
        &["If-Modified-Since: Thu, 21 Oct 115 7:28:0 GMT"],
        &["If-Modified-Since: Wed, 21 Oct 2015 07:28:00 GMT"],
    ),
    row("hanging", "timeout = 1", "-c1 -r1 https://127.0.0.1:MUTE/", &[HANGS], &["Failed to make an SSL connection: "]),
    row(
        "handshakes that fail",
        "",
        "-c1 -r2 https://127.0.0.1:ALERT/",
        &["SSL_write() failed"],
        &["received fatal alert: HandshakeFailure"],
    ),
    row("handshakes that fail", "", "-c1 -r2 https://127.0.0.1:HANGUP/", &["SSL_write() failed"], &["server closed"]),
    row(
        "handshakes that fail",
        "",
        "-c1 -r2 https://127.0.0.1:GARBLE/",
        &["SSL_write() failed"],
        &["InvalidContentType"],
    ),
    row(
        "connections kept from http to https",
        "connection = keep-alive",
        "-c1 -r1 URL/to-https",
        &[HANGS],
        &["Transactions:\t\t           2 hits"],
    ),
    row(
        "connections kept from https to http",
        "connection = keep-alive",
        "-c1 -r1 SURL/to-http",
        &["None None\nGET /there"],
        &["\r\n\r\n\nGET /there"],
    ),
    row(
        "kept tunnels",
        "connection = keep-alive;proxy-host = 127.0.0.1;proxy-port = PORT",
        "-c1 -r2 https://example.org/x",
        &[HANGS],
        &["Transactions:\t\t           2 hits"],
    ),
    row(
        "refused tunnels",
        "proxy-host = 127.0.0.1;proxy-port = PORT",
        "-c1 -r1 https://refused.example.org/x",
        &[],
        &["the proxy makes no tunnel: it answers `HTTP/1.0 403 Forbidden`"],
    ),
    row("ciphers", "ssl-ciphers = AES128-SHA", "-c1 -r1 SURL/x", &["HTTP/1.1 200"], &["no such cipher suite here"]),
    row(
        "keys that do not fit",
        "ssl-cert = certificate.pem;ssl-key = DIR/body",
        "-c1 -r1 SURL/x",
        &[],
        &["cannot read a private key from "],
    ),
    row("full disks", "", "-c1 -r1 -l/dev/full URL/x", &[], &["/dev/full: No space left on device"]),
    row("too many users", "limit = 2", "-c3 -r1 URL/x", &[HANGS], &["The number of users is capped at 2.", "2 hits"]),
];
