//! Where ours differs on purpose: each row is tried, and must really differ in what it names.

/// A difference.
pub struct Difference {
    /// Its name in the manual's table.
    pub name: &'static str,
    pub line: &'static str,
    /// What only the original's outcome contains: status, standard output, standard error, files.
    pub theirs: &'static [&'static str],
    /// What only ours contains.
    pub ours: &'static [&'static str],
}

const fn row(
    name: &'static str,
    line: &'static str,
    theirs: &'static [&'static str],
    ours: &'static [&'static str],
) -> Difference {
    Difference { name, line, theirs, ours }
}

/// The original was still running when it should long have ended.
pub const HANGS: &str = "it hangs";

pub const DIFFERENCES: &[Difference] = &[
    row("short answers", "-n 3 URL/short", &["Failed requests:        0"], &["Length: 3"]),
    row("short answers", "-n 3 -k URL/short-kept", &["Failed requests:        0"], &["Length: 3"]),
    row("no answer", "-n 3 URL/close", &["Failed requests:        0"], &["Length: 3"]),
    row("no answer", "-n 20 URL/close", &["Failed requests:        0"], &["Length: 20"]),
    row("no answer", "-n 3 URL/endless-head", &["Failed requests:        0"], &["Length: 3"]),
    row("no HTTP", "-n 3 URL/nohead", &["Failed requests:        0"], &["Exceptions: 3"]),
    row("no HTTP", "-n 3 -k URL/nohead-lines", &["Non-2xx responses:      3"], &["Exceptions: 3"]),
    row("no HTTP", "-n 3 URL/no-status", &["Non-2xx responses:      3"], &["Exceptions: 3"]),
    row("no HTTP", "-n 3 URL/short-status", &["Non-2xx responses:      3"], &["Exceptions: 3"]),
    row("no HTTP", "-n 3 URL/status-2", &["Failed requests:        0"], &["Exceptions: 3"]),
    row("no HTTP", "-n 3 URL/no-http", &["Non-2xx responses:      3"], &["Exceptions: 3"]),
    row("no HTTP", "-n 3 URL/http2-version", &["Non-2xx responses:      3"], &["Exceptions: 3"]),
    row("chunks", "-n 3 URL/chunked", &["Document Length:        26 bytes"], &["Document Length:        11 bytes"]),
    row(
        "chunks",
        "-n 3 -k URL/chunked-kept",
        &["HTML transferred:       78 bytes"],
        &["HTML transferred:       33 bytes"],
    ),
    row(
        "failures count once",
        "-n 3 -r URL/reset",
        &["Receive: 3, Length: 0, Exceptions: 3"],
        &["Receive: 3, Length: 0, Exceptions: 0"],
    ),
    row(
        "failures count once",
        "-n 5 -r URL/reset-third",
        &["Failed requests:        3"],
        &["Failed requests:        1"],
    ),
    row(
        "failures count once",
        "-n 3 -r -v 1 URL/reset-midway",
        &["Failed requests:        9"],
        &["Failed requests:        3"],
    ),
    row(
        "failures count once",
        "-n 3 -r http://127.0.0.1:NOBODY/",
        &["Failed requests:        6"],
        &["Failed requests:        3"],
    ),
    row("runs that are given up", "-n 5 URL/reset-third", &[], &["Complete requests:      2"]),
    row(
        "runs that are given up",
        "-n 5 -k -w URL/reset-third",
        &[],
        &["Complete requests:</th><td colspan=2 bgcolor=white>2<"],
    ),
    row(
        "runs that are given up",
        "-n 5 -s 1 -e DIRout.csv URL/never-third",
        &[],
        &["Complete requests:      2", "Percentage served"],
    ),
    row(
        "bytes beyond the end",
        "-n 3 -k URL/long-kept",
        &["Document Length:        11 bytes"],
        &["Document Length:        5 bytes"],
    ),
    row(
        "kept connections that end",
        "-n 3 -k URL/kept-then-closed",
        &["Failed requests:        1"],
        &["Failed requests:        0"],
    ),
    row(
        "kept connections that end",
        "-n 5 -k URL/close-third",
        &["Failed requests:        1"],
        &["Failed requests:        0"],
    ),
    row(
        "kept in so many words",
        "-n 3 -k URL/kept-word",
        &["Keep-Alive requests:    2"],
        &["Keep-Alive requests:    0"],
    ),
    row(
        "kept in so many words",
        "-n 3 -k URL/kept-nolength",
        &["Total transferred:      144 bytes"],
        &["Total transferred:      216 bytes"],
    ),
    row("no body", "-n 3 -k URL/304", &[HANGS], &["Complete requests:      3"]),
    row(
        "no body",
        "-n 3 -i -k URL/head-body",
        &["Document Length:        5 bytes"],
        &["Document Length:        0 bytes"],
    ),
    row("interim answers", "-n 3 URL/100", &["Non-2xx responses:      3"], &["Document Length:        5 bytes"]),
    row("interim answers", "-n 3 -k URL/100", &[HANGS], &["Keep-Alive requests:    3"]),
    row("long heads", "-n 15 URL/huge-head", &["Test aborted after 10 failures"], &["Complete requests:      15"]),
    row("long heads", "-n 1 -v 2 URL/split-head", &["Server: sp\n"], &[]),
    row("zero bytes", "-n 3 URL/nul", &["Document Length:        0 bytes"], &["Document Length:        6 bytes"]),
    row("the Server field", "-n 3 URL/server-odd", &["Server Software:        a"], &["Server Software:        spaced"]),
    row("cookies", "-n 1 -v 2 -C a=b -C c=d URL/echo", &["Cookie: c=d\r\n"], &["Cookie: a=b; c=d\r\n"]),
    row("long requests", "-n 1 -H LONGER URL/echo", &[], &["Document Length:        9"]),
    row("full disks", "-g /dev/full -n 3 URL/", &["status 0"], &["status 1", "No space left on device"]),
    row("full disks", "-e /dev/full -n 3 URL/", &["status 0"], &["status 1", "No space left on device"]),
    row("percentiles of short runs", "-n 10 -e DIRout.csv URL/", &["DESCENDS"], &[]),
    row("TLS", "-f TLS1.1 https://127.0.0.1:NOBODY/", &["SSL read failed"], &["TLS before 1.2 is not spoken here"]),
    row("TLS", "-Z AES128-SHA https://127.0.0.1:NOBODY/", &["SSL read failed"], &["no such cipher suite"]),
    row("TLS", "-E DIRbody https://127.0.0.1:NOBODY/", &["unable to get certificate"], &["has no certificate in PEM"]),
    row("TLS", "https://127.0.0.1:NOBODY/", &["SSL read failed"], &["apr_socket_recv: Connection refused"]),
    row("long options", "--no-such-option URL/", &["Complete requests:      1"], &["status 22"]),
];
