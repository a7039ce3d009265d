//! Our `ab` beside the original: the same arguments against the same servers give the same report to the byte, times aside, the same
//! progress, files, words and exit status. Where ours differs on purpose a row of `differences.rs` says so, and is tried as well.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod beyond;
mod differences;
mod matrix;
mod program;
mod target;

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use differences::{DIFFERENCES, HANGS};
use e2e::server::free_port;
use e2e::{PATIENCE, Scratch, pair, peer};
use program::{BOTH, Deed, ORIGINAL, Which, command};
use target::{Target, read_request};

/// The original has this long for what ends at once, before it counts as hanging.
const HANGING: Duration = Duration::from_secs(2);

/// Whether the comparison can be made.
fn comparable() -> bool {
    peer::are_installed(&[ORIGINAL])
}

/// Runs one of them with this command line, for at most so long; and whether it had to be killed.
fn run(which: Which, line: &str, at: &Place, longest: Duration) -> (Deed, bool) {
    let folder = Scratch::new().unwrap();
    fs::write(folder.path("body"), "a=b&c=d").unwrap();
    if line.contains("DIRpair") {
        let (certificate, key) = pair::make(&folder).unwrap();
        let both = [certificate, key].map(|path| fs::read_to_string(path).unwrap()).concat();
        fs::write(folder.path("pair"), both).unwrap();
    }
    let dir = folder.path("").display().to_string();
    let mut command = command(which);
    command.args(at.arguments(line, &dir)).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let began = Instant::now();
    let mut killed = false;
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > longest {
            child.kill().unwrap();
            killed = true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut deed = Deed::of(&child.wait_with_output().unwrap(), &folder.path(""));
    for text in [&mut deed.stdout, &mut deed.stderr] {
        *text = text.replace(&dir, "DIR");
    }
    (deed, killed)
}

/// Where command lines point to.
struct Place {
    url: String,
    address: String,
    nobody: u16,
}

impl Place {
    fn of(target: &Target) -> Place {
        let address = target.address.to_string();
        Place { url: format!("http://{address}"), address, nobody: free_port().unwrap() }
    }

    fn arguments(&self, line: &str, dir: &str) -> Vec<String> {
        let meant = |word: &str| match word {
            "EMPTY" => String::new(),
            "LONG" => "x".repeat(800),
            "LONGER" => format!("X: {}", "x".repeat(9000)),
            _ => {
                let word = word.replace("HOSTPORT", &self.address).replace("URL", &self.url);
                word.replace("DIR", dir).replace("NOBODY", &self.nobody.to_string())
            }
        };
        line.split_whitespace().map(meant).collect()
    }
}

/// Each line does the same with both; all that do not are told at once.
fn check(lines: &[&str], place: &Place, rewind: impl Fn()) {
    let mut wrong = Vec::new();
    for line in lines {
        let [theirs, ours] = BOTH.map(|which| {
            rewind();
            run(which, line, place, PATIENCE)
        });
        let mut differences = theirs.0.differences(&ours.0);
        if theirs.1 || ours.1 {
            differences.push(format!("killed after {PATIENCE:?}: {} / {}", theirs.1, ours.1));
        }
        if !differences.is_empty() {
            wrong.push(format!("ab {line}\n    {}", differences.join("\n    ")));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), lines.len(), wrong.join("\n"));
}

fn check_at_target(lines: &[&str], ip: &str) {
    if comparable() {
        let target = Target::start(ip).unwrap();
        check(lines, &Place::of(&target), || target.rewind());
    }
}

#[test]
fn what_is_refused() {
    check_at_target(matrix::REFUSED, "127.0.0.1");
}

#[test]
fn plain_runs() {
    check_at_target(matrix::PLAIN, "127.0.0.1");
}

#[test]
fn what_is_sent() {
    check_at_target(matrix::SENT, "127.0.0.1");
}

#[test]
fn odd_servers() {
    check_at_target(matrix::ODD, "127.0.0.1");
}

#[test]
fn ipv6() {
    check_at_target(matrix::IPV6, "::1");
}

/// nginx and Apache close connections in different ways.
#[test]
fn real_servers() {
    if !comparable() || !peer::servers_are_installed() {
        return;
    }
    let nginx = peer::nginx("location /accept { return 200 \"ok\\n\"; }").unwrap();
    let apache = peer::apache("MaxKeepAliveRequests 0").unwrap();
    for server in [nginx, apache] {
        let url = server.url("");
        let url = url.trim_end_matches('/');
        let place = Place { url: url.to_owned(), address: String::new(), nobody: 0 };
        check(matrix::REAL, &place, || ());
    }
}

/// Certificates are made here and verified by neither: once with a name in the URL, once with an address, which is never told.
#[test]
fn secured_servers() {
    if !comparable() || !peer::servers_are_installed() || !peer::are_installed(&[pair::OPENSSL]) {
        return;
    }
    let folder = Scratch::new().unwrap();
    let (certificate, key) = pair::make(&folder).unwrap();
    let (ports, protocols) = ([free_port().unwrap(), free_port().unwrap()], "TLSv1.2 TLSv1.3");
    let nginx = peer::nginx(&format!(
        "listen 127.0.0.1:{} ssl; ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_protocols {protocols};",
        ports[0]
    ));
    let apache = peer::apache(&format!(
        "LoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so\nMaxKeepAliveRequests 0\nListen 127.0.0.1:{port}\n\
         <VirtualHost 127.0.0.1:{port}>\nSSLEngine on\nSSLProtocol -all +TLSv1.2 +TLSv1.3\n\
         SSLCertificateFile {certificate}\nSSLCertificateKeyFile {key}\n</VirtualHost>",
        port = ports[1]
    ));
    let _running = [nginx.unwrap(), apache.unwrap()];
    for (port, host) in ports.into_iter().zip(["localhost", "127.0.0.1"]) {
        let place = Place { url: format!("https://{host}:{port}"), address: String::new(), nobody: 0 };
        check(matrix::SECURED, &place, || ());
    }
}

/// A server that ends kept connections now and then. One connection only: with several, which of them carries how many requests is chance.
#[test]
fn connections_that_are_kept_for_a_while() {
    if comparable() && peer::servers_are_installed() {
        let apache = peer::apache("MaxKeepAliveRequests 10").unwrap();
        let url = apache.url("");
        let place = Place { url: url.trim_end_matches('/').to_owned(), address: String::new(), nobody: 0 };
        check(&["-n 95 -k URL/page.html"], &place, || ());
    }
}

/// Every row really differs in what it names, and the manual has its name.
#[test]
fn differences_on_purpose() {
    if !comparable() {
        return;
    }
    let manual = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/from-ab.md")).unwrap();
    let target = Target::start("127.0.0.1").unwrap();
    let place = Place::of(&target);
    for row in DIFFERENCES {
        let hangs = row.theirs == [HANGS];
        let [theirs, ours] = BOTH.map(|which| {
            target.rewind();
            let longest = if hangs && which == Which::Original { HANGING } else { PATIENCE };
            let (deed, killed) = run(which, row.line, &place, longest);
            let state = if killed { HANGS.to_owned() } else { format!("status {}", deed.status.unwrap_or(-1)) };
            [state, deed.stdout, deed.stderr, deed.files.join("\n")].join("\n")
        });
        let context = format!("{}: ab {}\n--- theirs: {theirs}\n--- ours: {ours}", row.name, row.line);
        assert_ne!(theirs, ours, "{context}");
        assert!(row.theirs.iter().all(|words| theirs.contains(words) && !ours.contains(words)), "{context}");
        assert!(row.ours.iter().all(|words| ours.contains(words) && !theirs.contains(words)), "{context}");
        assert!(manual.contains(&format!("| {} |", row.name)), "the manual's table lacks `{}`", row.name);
    }
}

/// The median of an odd number of requests is that in the middle, not halfway to the one after.
#[test]
fn the_median_is_that_in_the_middle() {
    if !comparable() {
        return;
    }
    let target = Target::start("127.0.0.1").unwrap();
    let [theirs, ours] = BOTH.map(|which| {
        target.rewind();
        let output =
            command(which).args(["-n", "3", &format!("http://{}/last-slow", target.address)]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let total = text.lines().find(|line| line.starts_with("Total:  ")).unwrap().to_owned();
        total.split_whitespace().nth(4).unwrap().parse::<u64>().unwrap()
    });
    // The last request takes 400 ms, the others hardly anything.
    assert!(theirs >= 200 && ours < 200, "{theirs} {ours}");
}

/// An interrupted run shows what it has, with exit status 1.
#[test]
fn an_interrupted_run_shows_its_report() {
    if !comparable() {
        return;
    }
    for arguments in [&["-n", "10"][..], &["-n", "1000", "-c", "1"], &["-n", "10", "-d", "-S", "-q"]] {
        let [theirs, ours] = BOTH.map(|which| interrupted(which, arguments));
        assert_eq!(theirs.differences(&ours), [""; 0], "{arguments:?}");
        assert!(ours.stdout.contains("Complete requests:      3"), "{ours:?}");
    }
}

/// A run with `-w` that is interrupted: the original forgets that HTML was asked for.
#[test]
fn an_interrupted_run_stays_html() {
    if !comparable() {
        return;
    }
    let [theirs, ours] = BOTH.map(|which| interrupted(which, &["-n", "10", "-w"]));
    assert!(theirs.stdout.contains("\nComplete requests:      3\n") && !theirs.stdout.contains("<table"), "{theirs:?}");
    assert!(ours.stdout.contains("Complete requests:</th><td colspan=2 bgcolor=white>3<"), "{ours:?}");
    assert_eq!((theirs.status, ours.status), (Some(1), Some(1)));
}

/// Three requests are done and the fourth waits when it is interrupted.
fn interrupted(which: Which, arguments: &[&str]) -> Deed {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let mut command = command(which);
    let child = command.args(arguments).arg(&url).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for _ in 0..3 {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream).unwrap();
        stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    }
    let (mut stream, _) = listener.accept().unwrap();
    read_request(&mut stream).unwrap();
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output: Output = child.wait_with_output().unwrap();
    let mut deed = Deed::of(&output, std::path::Path::new("/nonexistent"));
    deed.stdout = deed.stdout.replace(&listener.local_addr().unwrap().port().to_string(), "PORT");
    deed
}
