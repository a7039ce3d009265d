//! Our `siege` beside the original: the same command lines, resource files and URL files against the same server give the same lines,
//! summary, log and cookies to the byte, times aside, the same exit status, and the server sees the same bytes. Where ours differs on
//! purpose a row of `differences.rs` says so, and is tried as well.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod channel;
mod differences;
mod matrix;
mod program;
mod target;

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use differences::DIFFERENCES;
use e2e::server::free_port;
use e2e::{PATIENCE, Scratch, binary, pair, peer};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use program::{BOTH, Case, Deed, HANGS, ORIGINAL, Which, run};
use target::Target;

/// The original has this long for what ends at once, before it counts as hanging.
const HANGING: Duration = Duration::from_secs(3);
/// The original now and then does not end by itself, or ends by a crash; it is then asked again.
const ATTEMPTS: usize = 4;

fn comparable() -> bool {
    peer::are_installed(&[ORIGINAL])
}

/// Each case does the same with both.
fn check(cases: &[Case]) {
    if comparable() {
        check_at(cases, &Target::start("127.0.0.1").unwrap());
    }
}

/// The same at a target; all that do not are told at once.
fn check_at(cases: &[Case], target: &Target) {
    let nobody = free_port().unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let ours = run(Which::Ours, *case, target, PATIENCE, nobody);
        let theirs = steady(*case, target, nobody);
        let differences = differences_of(&theirs, &ours);
        if !differences.is_empty() {
            wrong.push(format!("siege {} with {:?}\n    {}", case.line, case.resource, differences.join("\n    ")));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// The original's deed, of the first attempt that it survives.
fn steady(case: Case, target: &Target, nobody: u16) -> Deed {
    let attempt = || run(Which::Original, case, target, Duration::from_secs(6), nobody);
    let fine = |deed: &Deed| deed.end != HANGS && !deed.end.contains("signal");
    (0..ATTEMPTS).map(|_| attempt()).find(fine).unwrap_or_else(attempt)
}

/// The lines in which two differ, for people.
fn differences_of(theirs: &Deed, ours: &Deed) -> Vec<String> {
    let mut found = Vec::new();
    for (name, left, right) in [
        ("end", &theirs.end, &ours.end),
        ("stdout", &theirs.stdout, &ours.stdout),
        ("stderr", &theirs.stderr, &ours.stderr),
        ("log", &theirs.log, &ours.log),
        ("cookies", &theirs.cookies, &ours.cookies),
        ("asked", &theirs.asked.join("\n"), &ours.asked.join("\n")),
    ] {
        if left != right {
            found.push(format!("{name}- {left:?}\n    {name}+ {right:?}"));
        }
    }
    found
}

#[test]
fn answers_and_what_they_count() {
    check(matrix::ANSWERS);
}

#[test]
fn pages_redirects_cookies_logins() {
    check(matrix::PAGES);
}

#[test]
fn what_is_sent() {
    check(matrix::SENT);
}

#[test]
fn what_is_shown() {
    check(matrix::SHOWN);
}

#[test]
fn what_is_secured() {
    check(matrix::SECURED);
}

/// nginx shows which name, suite and certificate it got.
#[test]
fn what_is_secured_by_nginx() {
    if !comparable() || !peer::servers_are_installed() || !peer::are_installed(&[pair::OPENSSL]) {
        return;
    }
    let folder = Scratch::new().unwrap();
    let (certificate, key) = pair::make(&folder).unwrap();
    let port = free_port().unwrap();
    let shows = "\"$ssl_protocol $ssl_cipher $ssl_server_name [$ssl_client_s_dn] $scheme $ssl_session_reused\\n\"";
    let server = peer::nginx(&format!(
        "listen 127.0.0.1:{port} ssl; ssl_certificate {certificate}; ssl_certificate_key {key};\n\
         ssl_protocols TLSv1.2 TLSv1.3; ssl_verify_client optional_no_ca;\n\
         location /who {{ return 200 {shows}; }} location /away {{ return 302 https://localhost:{port}/who; }}"
    ));
    let _running = server.unwrap();
    check_at(matrix::SECURED_REAL, &Target::of_others(([127, 0, 0, 1], port).into()));
}

#[test]
fn over_ipv6() {
    if comparable() {
        check_at(matrix::IPV6, &Target::start("::1").unwrap());
    }
}

#[test]
fn what_starts_no_run() {
    check(matrix::REFUSED);
}

/// Every row really differs in what it names, and the manual has its name.
#[test]
fn differences_on_purpose() {
    if !comparable() {
        return;
    }
    let manual = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/from-siege.md")).unwrap();
    let target = Target::start("127.0.0.1").unwrap();
    for row in DIFFERENCES {
        let [theirs, ours] = BOTH.map(|which| {
            let longest = if which == Which::Original { HANGING } else { PATIENCE };
            let deed = run(which, row.case, &target, longest, 1);
            [deed.end, deed.stdout, deed.stderr, deed.log, deed.asked.join("\n")].join("\n")
        });
        let context = format!("{}: {:?}\n--- theirs: {theirs}\n--- ours: {ours}", row.name, row.case);
        assert!(row.theirs.iter().all(|words| theirs.contains(words) && !ours.contains(words)), "{context}");
        assert!(row.ours.iter().all(|words| ours.contains(words) && !theirs.contains(words)), "{context}");
        assert!(manual.contains(&format!("| {} |", row.name)), "the manual's table lacks `{}`", row.name);
    }
}

/// Exit status 0 after any run, as from the original, unless a condition says otherwise.
#[test]
fn conditions_decide_the_exit_status() {
    let target = Target::start("127.0.0.1").unwrap();
    let nobody = free_port().unwrap();
    for (line, end, words) in [
        ("-c1 -r2 http://127.0.0.1:NOBODY/", "exit status: 0", ""),
        ("-c1 -r2 --fail-on=errors>0 http://127.0.0.1:NOBODY/", "exit status: 99", "failed on errors>0: it is 2"),
        ("-c1 -r2 --fail-on=p99>1h http://127.0.0.1:NOBODY/", "exit status: 99", "failed on p99>1h (us): it is inf"),
        ("-c1 -r2 --fail-on=errors>0,non2xx>0,p99>1h URL/x", "exit status: 0", ""),
        ("-c1 -r2 --fail-on=non2xx>50% URL/500", "exit status: 99", "failed on non2xx>50% (%): it is 100"),
        ("-c1 -r2 --fail-on=completed<3 URL/x", "exit status: 99", "failed on completed<3: it is 2"),
        ("-g --fail-on=non2xx>0 URL/404", "exit status: 99", "failed on non2xx>0: it is 1"),
        ("-c1 -r2 --fail-on=nonsense URL/x", "exit status: 1", "--fail-on: `nonsense`"),
    ] {
        let deed = run(Which::Ours, Case { resource: "", line }, &target, PATIENCE, nobody);
        assert_eq!(deed.end, end, "{line}: {}", deed.stderr);
        assert!(deed.stderr.contains(words), "{line}: {}", deed.stderr);
    }
}

/// Whoever interrupts a run that waits for a silent server gets its report at once, and exit status 0, as from the original.
#[test]
fn an_interrupted_run_reports() {
    if !comparable() {
        return;
    }
    let target = Target::start("127.0.0.1").unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let folder = Scratch::new().unwrap();
        fs::write(folder.path("rc"), "verbose = true\n").unwrap();
        let mut command = Command::new(binary::manifold());
        command.args(["siege", "-c20", &format!("http://{}/hold", target.address)]).env("SIEGERC", folder.path("rc"));
        let child = command.env("HOME", folder.path("")).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        e2e::until("all users ask", || (target.asked() == 20).then_some(())).unwrap();
        target.take();
        nix::sys::signal::kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{signal}: {:?}", output.status);
        assert!(
            text.contains("\nLifting the server siege...\nTransactions:\t\t           0 hits\n"),
            "{signal}: {text}"
        );
    }
}
