//! Our `ab` beside the original: the same arguments against the same real servers give the same report, field by field, times aside,
//! the same files, the same exit status, and the same request on the wire.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use e2e::server::{Server, free_port};
use e2e::site::PAGE;
use e2e::{Scratch, binary, peer};

/// The original program.
const ORIGINAL: &str = "/usr/bin/ab";
/// Lines of the report that are made of times alone, or that appear only with certain times.
const TIMED_WORDS: [&str; 4] = ["ERROR:", "deviation apart.", "WARNING: The median", "These results are probably"];

/// Whether the comparison can be made.
fn comparable() -> bool {
    peer::are_installed(&[ORIGINAL]) && peer::servers_are_installed()
}

#[derive(Clone, Copy)]
enum Which {
    Original,
    Ours,
}

fn command(which: Which) -> Command {
    match which {
        Which::Original => Command::new(ORIGINAL),
        Which::Ours => binary::command(["ab"]),
    }
}

fn ab(which: Which, arguments: &[String]) -> Output {
    command(which).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// One line without what depends on time. Tables keep their width, so that a column out of place shows.
fn timeless(line: &str) -> Option<String> {
    if TIMED_WORDS.iter().any(|word| line.contains(word)) {
        return None;
    }
    let table = ["Connect: ", "Processing: ", "Waiting: ", "Total: ", "  "].iter().any(|start| line.starts_with(start))
        && !line.contains("kb/s")
        && !line.trim_start().starts_with("(Connect");
    let columns = ["Connect:<", "Processing:<", "Total:<"];
    let timed = ["Time taken", "Requests per second", "Time per request", "Transfer rate", "kb/s"];
    if table || line.ends_with("(longest request)") {
        let label = line.split_whitespace().next().unwrap_or_default();
        return Some(format!("{label} in {} columns", line.len()));
    }
    if columns.iter().any(|word| line.contains(word)) {
        return Some(line.replace(|c: char| c.is_ascii_digit(), " "));
    }
    if timed.iter().any(|word| line.contains(word)) {
        return Some(line.chars().filter(|c| !c.is_ascii_digit()).collect());
    }
    Some(line.to_owned())
}

/// A report without its banner, which names the program.
fn report(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let banner = if text.starts_with("<p>") { 5 } else { 4 };
    text.lines().skip(banner).filter_map(timeless).collect()
}

fn start_nginx() -> Server {
    peer::nginx("location /accept { return 200 \"ok\\n\"; }").unwrap()
}

/// Apache, closing a connection after so many requests (0: never).
fn start_apache(requests_a_connection: u32) -> Server {
    peer::apache(&format!("MaxKeepAliveRequests {requests_a_connection}")).unwrap()
}

fn check_report(server: &Server, line: &str, path: &str) {
    let mut arguments = words(line);
    arguments.push(server.url(path));
    let [theirs, ours] = [Which::Original, Which::Ours].map(|which| ab(which, &arguments));
    assert_eq!(report(&theirs), report(&ours), "ab {line} {path}");
    assert_eq!(theirs.status.code(), ours.status.code(), "ab {line} {path}");
    let [said, says] = [&theirs, &ours].map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    assert_eq!(said, says, "ab {line} {path}");
}

/// Reports against nginx and Apache, which close connections in different ways.
#[test]
fn reports_agree() {
    if !comparable() {
        return;
    }
    for server in [start_nginx(), start_apache(0)] {
        let body = server.dir.path("body");
        fs::write(&body, vec![b'x'; 5000]).unwrap();
        let body = body.display();
        for line in
            ["", "-n 1000 -c 10", "-n 1000 -c 10 -k", "-q -n 200 -c 7 -k -d", "-n 60 -c 3 -S", "-n 60 -c 3 -d -S -q -l"]
        {
            check_report(&server, line, "/page.html");
        }
        check_report(&server, "-n 20 -c 2", "/none");
        check_report(&server, "-n 20 -c 2 -k", "/none");
        check_report(&server, "-n 20 -c 2 -k", "/empty.txt");
        check_report(&server, "-n 40 -c 4", "/medium.bin");
        check_report(&server, "-n 40 -c 4 -k", "/medium.bin");
        check_report(&server, "-n 3 -k", "/large.bin");
        check_report(&server, "-n 20 -c 2 -i", "/page.html");
        check_report(&server, "-n 20 -c 2 -i -k", "/page.html");
        check_report(&server, "-n 20 -m OPTIONS", "/page.html");
        check_report(&server, "-n 10 -k -t 9 -n 10 -C a=b -A u:p -H X:1 -v 1", "/page.html");
        check_report(&server, &format!("-n 20 -c 2 -p {body} -T text/plain"), "/accept");
        check_report(&server, &format!("-n 20 -u {body}"), "/accept");
        check_report(&server, "-n 200 -c 4 -w -k", "/page.html");
        check_report(&server, "-n 20 -x border=1 -y class=r -z id=4", "/none");
        check_report(&server, "-b 4096 -B 127.0.0.1 -s 5 -r -n 5", "/page.html");
    }
}

/// A server that ends kept connections now and then. One connection only: with several, which of them carries how many requests is chance.
#[test]
fn connections_that_are_kept_for_a_while_agree() {
    if comparable() {
        check_report(&start_apache(10), "-n 95 -k", "/page.html");
    }
}

/// `-v 2` and above print heads; against nginx, whose answers differ in the date alone.
#[test]
fn verbose_output_agrees() {
    if !comparable() {
        return;
    }
    let server = start_nginx();
    for (level, path) in [("2", "/page.html"), ("3", "/page.html"), ("4", "/none")] {
        let arguments = [words("-n 2 -k -v"), vec![level.to_owned(), server.url(path)]].concat();
        let [theirs, ours] = [Which::Original, Which::Ours].map(|which| {
            let lines = report(&ab(which, &arguments));
            lines.into_iter().filter(|line| !line.starts_with("Date: ")).collect::<Vec<_>>()
        });
        assert_eq!(theirs, ours, "-v {level} {path}");
    }
}

#[test]
fn files_agree() {
    if !comparable() {
        return;
    }
    let server = start_nginx();
    let shapes = [Which::Original, Which::Ours].map(|which| {
        let [csv, gnuplot] = ["out.csv", "out.tsv"].map(|name| server.dir.path(name));
        let arguments = [
            words("-q -n 250 -c 5 -e"),
            vec![csv.display().to_string(), "-g".into(), gnuplot.display().to_string(), server.url("/page.html")],
        ];
        assert_eq!(ab(which, &arguments.concat()).status.code(), Some(0));
        (csv_shape(&fs::read_to_string(csv).unwrap()), gnuplot_shape(&fs::read_to_string(gnuplot).unwrap()))
    });
    assert_eq!(shapes[0], shapes[1]);
}

/// Percentages and the number of decimals.
fn csv_shape(text: &str) -> Vec<(String, usize)> {
    let cells = |line: &str| {
        line.split_once(',').map(|(left, right)| (left.to_owned(), right.split('.').next_back().unwrap().len()))
    };
    text.lines().map(|line| cells(line).unwrap()).collect()
}

/// The header, the number of lines, columns in each, length of the date, and whether total times ascend.
fn gnuplot_shape(text: &str) -> (String, usize, Vec<usize>, usize, bool) {
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    let mut columns: Vec<usize> = rows.iter().map(Vec::len).collect();
    columns.dedup();
    let totals: Vec<u64> = rows.iter().map(|row| row[4].parse().unwrap()).collect();
    (text.lines().next().unwrap().to_owned(), rows.len(), columns, rows[0][0].len(), totals.is_sorted())
}

/// What ends without a report: same exit status, and the same words on both streams (of usage: the first line).
#[test]
fn refusals_agree() {
    if !comparable() {
        return;
    }
    let server = start_nginx();
    let (url, body) = (server.url("/"), server.dir.path("htdocs/page.html").display().to_string());
    let nobody = format!("http://127.0.0.1:{}/", free_port().unwrap());
    let check = |line: &str| {
        let line = line.replace("URL", &url).replace("BODY", &body).replace("NOBODY", &nobody);
        let arguments = words(&line);
        let [theirs, ours] = [Which::Original, Which::Ours].map(|which| {
            let output = ab(which, &arguments);
            let first = |bytes: &[u8]| {
                String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().replace(ORIGINAL, "ab")
            };
            (output.status.code(), first(&output.stderr), report(&output))
        });
        assert_eq!(theirs, ours, "ab {line}");
    };
    for line in [
        "",
        "-n",
        "-n 0 URL",
        "-n x URL",
        "-c 5 URL",
        "URL URL",
        "URL -n 5",
        "http://127.0.0.1",
        "-Q",
        "-kQ URL",
        "-Qk URL",
        "-i -p BODY URL",
        "-p BODY -i URL",
        "-p BODY -u BODY URL",
        "-p BODY -m PUT URL",
        "-p /nonexistent URL",
        "-n 3 -e /nonexistent/x URL",
        "-n 3 -g /nonexistent/x URL",
        "NOBODY",
        "-n 4 -c 2 NOBODY",
    ] {
        check(line);
    }
    let [theirs, ours] = [Which::Original, Which::Ours].map(|which| {
        let output = ab(which, &words("-h"));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        // The letters of all options, whatever is said about them.
        let letters: std::collections::BTreeSet<char> = text
            .split_whitespace()
            .filter_map(|word| word.strip_prefix('-'))
            .filter_map(|word| word.chars().next())
            .filter(char::is_ascii_alphabetic)
            .collect();
        (output.status.code(), letters)
    });
    assert_eq!(theirs, ours);
}

/// A server that answers once, then says nothing more: both give up with the same status.
#[test]
fn a_silent_server_ends_both() {
    if !comparable() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // The kernel accepts for the listener, so that both connect and then wait in vain.
    let [theirs, ours] = [Which::Original, Which::Ours].map(|which| {
        let output = ab(which, &[words("-n 2 -s 1"), vec![url.clone()]].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned(), report(&output))
    });
    assert_eq!(theirs, ours);
}

/// An interrupted run shows what it has, with exit status 1.
#[test]
fn an_interrupted_run_shows_its_report() {
    if !comparable() {
        return;
    }
    let [theirs, ours] = [Which::Original, Which::Ours].map(|which| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let mut command = command(which);
        let child = command.args(["-n", "10", &url]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&mut stream);
            stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
        // Three requests are done and the fourth waits.
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
        let output = child.wait_with_output().unwrap();
        let lines = report(&output).into_iter().filter(|line| !line.starts_with("Server Port")).collect::<Vec<_>>();
        (output.status.code(), lines)
    });
    assert_eq!(theirs, ours);
    assert!(ours.1.contains(&"Complete requests:      3".to_owned()), "{ours:?}");
}

/// The very bytes of the request.
#[test]
fn requests_agree() {
    if !comparable() {
        return;
    }
    let dir = Scratch::new().unwrap();
    fs::write(dir.path("body"), PAGE).unwrap();
    let body = dir.path("body").display().to_string();
    let check = |line: &str, headers: &[&str]| {
        let mut arguments = words(&line.replace("BODY", &body));
        for header in headers {
            arguments.extend(["-H".to_owned(), (*header).to_owned()]);
        }
        let [theirs, ours] = [Which::Original, Which::Ours].map(|which| captured(which, &arguments));
        assert_eq!(theirs, ours, "{arguments:?}");
        assert!(theirs.ends_with("\r\n\r\n") || line.contains("BODY"), "{theirs}");
    };
    for line in [
        "",
        "-k",
        "-i",
        "-i -k",
        "-m PATCH",
        "-C a=b",
        "-A user:pass",
        "-P x:y",
        "-k -C a=b -A u:p -P x:y",
        "-p BODY",
        "-u BODY -T a/b",
        "-p BODY -k -C a=b -A u:p -T a/b",
        "-T a/b",
    ] {
        check(line, &[]);
    }
    check("", &["Host: foo"]);
    check("-k", &["accept: x", "USER-AGENT: y", "X: 1", "Connection: close"]);
    check("-p BODY", &["Content-Type: q/r", "nocolon"]);
}

/// What `ab` sends to a socket of ours, the port made the same.
fn captured(which: Which, arguments: &[String]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let arguments = [arguments.to_vec(), vec![format!("http://{address}/x?y=1")]].concat();
    let answering = std::thread::Builder::new().spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let request = read_request(&mut stream);
        stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        request
    });
    let status = ab(which, &arguments).status;
    let request = answering.unwrap().join().unwrap();
    assert_eq!(status.code(), Some(0), "{arguments:?}");
    request.replace(&address, "ADDRESS")
}

/// One request with its body.
fn read_request(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !complete(&request) {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "closed early after {request:?}");
        request.extend_from_slice(&buffer[..read]);
    }
    String::from_utf8(request).unwrap()
}

/// Head and stated body are there.
fn complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let stated = head.lines().find_map(|line| line.strip_prefix("Content-length: "));
    body.len() >= stated.map_or(0, |length| length.parse().unwrap())
}
