//! The command line, as people meet it: what is printed where, which exit code follows, and what newcomers are told.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs;
use std::net::TcpListener;
use std::process::Output;

use e2e::client::Client;
use e2e::process::Process;
use e2e::server::{Mpm, Server, free_port};
use e2e::{Scratch, binary, site, until};

/// What a run of manifold left behind.
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ran {
    Ran::of(&binary::command(arguments).output().unwrap())
}

impl Ran {
    fn of(output: &Output) -> Ran {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ran { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Checks the exit code and that each of `words` was said, on either stream.
    fn check(&self, code: i32, words: &[&str]) {
        let said = format!("{}{}", self.stdout, self.stderr);
        assert_eq!(self.code, Some(code), "{said}");
        for word in words {
            assert!(said.contains(word), "no {word:?} in:\n{said}");
        }
    }
}

/// A configuration file in a folder of its own, not started.
struct Written {
    dir: Scratch,
    port: u16,
}

impl Written {
    fn new(directives: &str) -> Written {
        let dir = Scratch::new().unwrap();
        let port = free_port().unwrap();
        site::write(&dir.path("htdocs")).unwrap();
        let root = dir.path("");
        let identity = if nix::unistd::geteuid().is_root() { "User www-data\nGroup www-data\n" } else { "" };
        let text = format!(
            "ServerRoot \"{}\"\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile httpd.pid\nErrorLog error.log\n{identity}{directives}\n",
            root.display()
        );
        fs::write(dir.path("httpd.conf"), text).unwrap();
        Written { dir, port }
    }

    /// Runs `manifold httpd -f THIS` with further arguments.
    fn httpd(&self, arguments: &[&str]) -> Ran {
        let mut command = binary::command(["httpd", "-f"]);
        Ran::of(&command.arg(self.dir.path("httpd.conf")).args(arguments).output().unwrap())
    }
}

const GOOD: &str = "DocumentRoot htdocs\n<IfModule mpm_prefork_module>\nStartServers 2\n</IfModule>";

#[test]
fn the_version_is_told() {
    let ran = run(["httpd", "-v"]);
    ran.check(0, &["Server version: ", "Server built: "]);
    assert!(ran.stdout.starts_with("Server version: "), "{}", ran.stdout);
    Written::new(GOOD).httpd(&["-V"]).check(0, &["Server version: ", "Server MPM:", "threaded:", "forked:"]);
    run(["httpd", "-l"]).check(0, &["Compiled in modules:", "  core.c"]);
}

#[test]
fn a_good_configuration_is_good() {
    let ran = Written::new(GOOD).httpd(&["-t"]);
    ran.check(0, &["Syntax OK"]);
    assert!(ran.stderr.ends_with("\nSyntax OK\n"), "Apache says it last, on standard error: {}", ran.stderr);
    assert!(ran.stdout.is_empty(), "{}", ran.stdout);
}

#[test]
fn a_check_shows_the_numbers_in_effect_and_a_strict_one_fails_where_they_are_others() {
    let check = |arguments: &[&str], directives: &str, code, words: &[&str]| {
        let ran = Written::new(&format!("{GOOD}\n{directives}")).httpd(arguments);
        ran.check(code, words);
        let ends = if code == 0 { "\nSyntax OK\n" } else { "not hold as configured, see above\n" };
        assert!(ran.stderr.ends_with(ends), "{}", ran.stderr);
    };
    let row = |name: &str, value: &str| format!("\n  {name:<24} {value}\n");
    let (workers, spare) = (row("MaxRequestWorkers", "375"), row("MaxSpareThreads", "226"));
    check(&["-t"], "MaxRequestWorkers 390", 0, &["AH00513: WARNING", &workers]);
    check(&["-t", "--strict"], "MaxRequestWorkers 390", 1, &["AH00513: WARNING", &workers, "1 number does"]);
    // Apache makes this adjustment in silence.
    let adjusted = "MaxSpareThreads of 100 is too close to MinSpareThreads of 200, increasing to 226.";
    let spares = "MinSpareThreads 200\nMaxSpareThreads 100";
    check(&["-t"], spares, 0, &[&spare]);
    check(&["-t", "--strict"], spares, 1, &[adjusted, &spare]);
    check(&["-t", "--strict"], "MaxClients 100", 0, &[]);
    check(&["-t", "-e", "info"], "Mutex sem", 0, &["Mutex has no effect here: "]);
    run(["httpd", "--strict"]).check(1, &["--strict goes with -t"]);
}

#[test]
fn wrong_flags_are_refused() {
    run(["httpd", "-Q"]).check(1, &["Usage", "-f"]);
    run(["httpd", "-k", "dance"]).check(1, &["dance"]);
    let ran = run(["no-such-verb"]);
    assert!(ran.code.is_some_and(|code| code != 0), "{}", ran.stdout);
    assert!(ran.stderr.contains("no-such-verb"), "{}", ran.stderr);
    let missing = run(["httpd", "-t", "-f", "/nonexistent/httpd.conf"]);
    missing.check(1, &["/nonexistent/httpd.conf"]);
}

#[test]
fn a_misspelt_directive_is_named_with_its_place_and_the_nearest_one() {
    let written = Written::new("DocumentRot htdocs");
    let line = fs::read_to_string(written.dir.path("httpd.conf")).unwrap().lines().count();
    let place = format!("httpd.conf:{line}");
    written.httpd(&["-t"]).check(1, &["DocumentRot", "DocumentRoot", &place]);
}

#[test]
fn a_missing_document_root_is_named() {
    let ran = Written::new("DocumentRoot nowhere").httpd(&["-t"]);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("DocumentRoot") && said.contains("nowhere"), "{said}");
}

#[test]
fn a_port_in_use_is_named() {
    let written = Written::new(GOOD);
    let _taken = TcpListener::bind(("127.0.0.1", written.port)).unwrap();
    let port = written.port.to_string();
    written.httpd(&["-D", "FOREGROUND"]).check(1, &[&port, "in use"]);
}

#[test]
fn wrong_configurations_are_refused_with_their_place() {
    let cases: &[(&str, &[&str])] = &[
        ("<IfModule mpm_prefork_module>\nStartServers 2", &["IfModule"]),
        ("</IfModule>", &["IfModule"]),
        ("StartServers many", &["StartServers", "many"]),
        ("KeepAlive perhaps", &["KeepAlive"]),
        ("Listen 99999", &["Listen"]),
        ("Include nowhere/site.conf", &["nowhere/site.conf"]),
        ("LoadModule mpm_prefork_module a.so\nLoadModule mpm_event_module b.so", &["MPM"]),
    ];
    for (directives, words) in cases {
        let ran = Written::new(directives).httpd(&["-t"]);
        ran.check(1, words);
        assert!(ran.stderr.contains("httpd.conf"), "{directives}: {}", ran.stderr);
    }
}

#[test]
fn a_server_is_started_and_stopped_by_verbs() {
    let written = Written::new(GOOD);
    written.httpd(&["-k", "stop"]).check(0, &["not running"]);
    written.httpd(&["-k", "start"]).check(0, &[]);
    let pid = until("the PidFile", || fs::read_to_string(written.dir.path("httpd.pid")).ok()?.trim().parse().ok());
    let server = Process(pid.unwrap());
    until("the server to answer", || Client::connect(written.port).ok()).unwrap();
    written.httpd(&["-k", "start"]).check(0, &["already running", &server.0.to_string()]);
    assert_eq!(Client::connect(written.port).unwrap().get("/page.html").unwrap().status, 200);
    written.httpd(&["-k", "stop"]).check(0, &[]);
    until("the server to end", || (!server.is_alive()).then_some(())).unwrap();
}

#[test]
fn one_process_serves_for_debugging() {
    let percore = "DocumentRoot htdocs\nLoadModule mpm_percore_module modules/mod_mpm_percore.so";
    for directives in [GOOD, percore, percore, percore] {
        let written = Written::new(directives);
        let port = written.port;
        let mut server = Server::run(written.dir, port, |dir| {
            let mut command = binary::command(["httpd", "-X", "-f"]);
            command.arg(dir.path("httpd.conf"));
            command
        })
        .unwrap();
        // A ring ends later than its process where it has much to do.
        let mut clients: Vec<_> = (0..50).map(|_| Client::connect(port).unwrap()).collect();
        let concurrent = if directives == GOOD { 1 } else { clients.len() };
        for client in &mut clients[..concurrent] {
            assert_eq!(client.get("/page.html").unwrap().status, 200);
        }
        assert_eq!(server.children().unwrap(), [], "-X is one process");
        server.stop().unwrap();
        TcpListener::bind(("127.0.0.1", port)).expect("the port is free as soon as the server has ended");
    }
}

#[test]
fn a_folder_is_served_without_any_configuration() {
    for mpm in Mpm::ALL {
        let dir = Scratch::new().unwrap();
        site::write(&dir.path("site")).unwrap();
        let port = free_port().unwrap();
        let mut server = Server::run(dir, port, |dir| {
            let mut command = binary::command(["serve"]);
            command.arg(dir.path("site")).args(["--port", &port.to_string(), "--mpm", mpm.name()]);
            command
        })
        .unwrap();
        let response = Client::connect(port).unwrap().get("/medium.bin").unwrap();
        assert!(response.body.len() == 136 * 1024, "{}", mpm.name());
        assert!(server.words().contains(&port.to_string()), "it says where it listens: {}", server.words());
        server.stop().unwrap();
    }
    run(["serve", "/nonexistent/folder"]).check(1, &["/nonexistent/folder"]);
}

#[test]
fn a_link_behaves_as_the_program_it_is_named_after() {
    let dir = Scratch::new().unwrap();
    for (name, argument, word) in
        [("httpd", "-v", "Server version: "), ("apachectl", "-v", "Server version: "), ("ab", "-V", "ApacheBench")]
    {
        let link = dir.path(name);
        std::os::unix::fs::symlink(binary::manifold(), &link).unwrap();
        Ran::of(&std::process::Command::new(link).arg(argument).output().unwrap()).check(0, &[word]);
    }
}
