//! A running server takes another configuration, another model, another binary: who notices, and what is lost.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use e2e::client::Client;
use e2e::process::Process;
use e2e::server::{Mpm, Server, free_port};
use e2e::site::{self, LARGE};
use e2e::{Scratch, binary, until};
use nix::sys::signal::Signal;

/// Small, so that a test takes little of the machine.
fn small(mpm: Mpm) -> &'static str {
    match mpm {
        Mpm::Prefork => "StartServers 3\nMinSpareServers 1\nMaxSpareServers 20",
        Mpm::Worker | Mpm::Event => {
            "StartServers 1\nServerLimit 2\nThreadsPerChild 10\nMaxRequestWorkers 20\nMinSpareThreads 1\nMaxSpareThreads 20"
        }
        Mpm::Percore => "Cores 2",
    }
}

/// Apache's numbers for: resuming normal operations, graceful restart, restart.
fn numbers(mpm: Mpm) -> [&'static str; 3] {
    match mpm {
        Mpm::Prefork => ["AH00163", "AH00171", "AH00173"],
        Mpm::Worker => ["AH00292", "AH00297", "AH00298"],
        Mpm::Event | Mpm::Percore => ["AH00489", "AH00493", "AH00494"],
    }
}

/// Tells the server to reload, and waits until it has.
fn reload(server: &Server, mpm: Mpm, signal: Signal) {
    let resuming = format!("[mpm_{}:notice]", mpm.name());
    let count = || server.words().lines().filter(|line| line.contains(&resuming) && line.contains("resuming")).count();
    let before = count();
    server.parent().signal(signal).unwrap();
    let what = format!("{} to be in force", mpm.name());
    until(&what, || (count() > before).then_some(())).map_err(|error| error.context(server.words())).unwrap();
}

/// A connection that is kept alive and idle.
fn idle(server: &Server) -> Client {
    let mut client = Client::connect(server.port).unwrap();
    assert_eq!(client.get("/page.html").unwrap().field("connection"), None);
    client
}

/// A connection that waits for the rest of a large file.
fn download(server: &Server) -> Client {
    let mut client = Client::connect(server.port).unwrap();
    client.request("GET", LARGE.path).unwrap();
    client.peek(1000).unwrap();
    client
}

#[test]
fn any_model_follows_any_other_and_every_connection_is_finished() {
    // Passes through all ordered pairs of models, itself after itself included.
    let (p, w, e, c) = (Mpm::Prefork, Mpm::Worker, Mpm::Event, Mpm::Percore);
    let walk = [p, p, w, w, p, e, e, w, c, c, p, c, w, e, c, e, p];
    let keep = "KeepAliveTimeout 60";
    let mut server = Server::start(walk[0], &format!("{}\n{keep}", small(walk[0]))).unwrap();
    for pair in walk.windows(2) {
        let names = (pair[0].name(), pair[1].name());
        let (idle, mut download) = (idle(&server), download(&server));
        let old = server.children().unwrap();
        server.configure(pair[1], &format!("{}\n{keep}", small(pair[1]))).unwrap();
        reload(&server, pair[1], Signal::SIGUSR1);
        assert!(download.response().unwrap().body == LARGE.bytes(), "{names:?}: a download is cut");
        for mut client in [idle, download] {
            let last = client.get("/page.html").unwrap();
            assert_eq!((last.status, last.field("connection")), (200, Some("close")), "{names:?}");
            client.closed().unwrap();
        }
        let gone = || old.iter().all(|child| !child.is_alive()).then_some(());
        until("the old children to end", gone).map_err(|error| error.context(server.words())).unwrap();
        assert_eq!(Client::connect(server.port).unwrap().get("/page.html").unwrap().status, 200, "{names:?}");
    }
    server.stop().unwrap();
}

#[test]
fn each_signal_is_told_under_apaches_number() {
    for mpm in Mpm::ALL {
        let mut server = Server::start(mpm, small(mpm)).unwrap();
        let [resuming, graceful, restart] = numbers(mpm);
        server.logged(resuming, 1).unwrap();
        reload(&server, mpm, Signal::SIGUSR1);
        server.logged(&format!("{graceful}: Graceful restart requested, doing restart"), 1).unwrap();
        let mut download = download(&server);
        reload(&server, mpm, Signal::SIGHUP);
        server.logged(&format!("{restart}: SIGHUP received.  Attempting to restart"), 1).unwrap();
        assert!(download.response().is_err(), "{}: a restart that is not graceful cuts connections", mpm.name());
        for verb in ["graceful", "restart"] {
            let (before, code) = (server.words().matches(resuming).count(), server.control(verb).unwrap());
            assert!(code.status.success(), "{code:?}");
            server.logged(resuming, before + 1).unwrap();
        }
        server.stop().unwrap();
    }
}

#[test]
fn a_broken_configuration_changes_nothing_whoever_sent_the_signal() {
    for mpm in Mpm::ALL {
        let mut server = Server::start(mpm, small(mpm)).unwrap();
        let (mut idle, mut download) = (idle(&server), download(&server));
        let children = server.children().unwrap();
        server.configure(mpm, "Nonsense 1").unwrap();
        for (times, signal) in [Signal::SIGUSR1, Signal::SIGHUP].into_iter().enumerate() {
            server.parent().signal(signal).unwrap();
            server.logged("the server goes on with the old one: AH00526: Syntax error on line", times + 1).unwrap();
        }
        for verb in ["graceful", "restart"] {
            assert_eq!(
                server.control(verb).unwrap().status.code(),
                Some(1),
                "the file is checked before a signal is sent"
            );
        }
        assert_eq!(idle.get("/page.html").unwrap().field("connection"), None, "{}", mpm.name());
        assert!(download.response().unwrap().body == LARGE.bytes(), "{}", mpm.name());
        assert_eq!(server.children().unwrap(), children, "{}", mpm.name());
        server.stop().unwrap();
    }
}

#[test]
fn a_reload_changes_where_the_server_listens_and_every_limit() {
    let other = free_port().unwrap();
    let mut server = Server::start(Mpm::Worker, small(Mpm::Worker)).unwrap();
    let listen = format!("Listen 127.0.0.1:{other}");
    server.configure(Mpm::Worker, &format!("{listen}\nServerLimit 3\nThreadLimit 80\nThreadsPerChild 80\nMaxRequestWorkers 240\nStartServers 2\nUser nobody\nGroup nogroup")).unwrap();
    reload(&server, Mpm::Worker, Signal::SIGUSR1);
    for port in [server.port, other] {
        assert_eq!(Client::connect(port).unwrap().get("/page.html").unwrap().status, 200);
    }
    let threads = || {
        server
            .children()
            .ok()?
            .iter()
            .any(|child| child.threads().is_ok_and(|threads| threads.len() == 81))
            .then_some(())
    };
    until("children of 80 threads and a listener", threads).unwrap();
    if nix::unistd::geteuid().is_root() {
        let uid = format!("Uid:\t{}\t", nix::unistd::User::from_name("nobody").unwrap().unwrap().uid);
        let status = |child: &Process| fs::read_to_string(format!("/proc/{}/status", child.0)).unwrap_or_default();
        let changed = || server.children().ok()?.iter().any(|child| status(child).contains(&uid)).then_some(());
        until("children of another user", changed).unwrap();
    }
    // An address that cannot be bound: the others go on.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    server.configure(Mpm::Event, &format!("{listen}\nListen {}", taken.local_addr().unwrap())).unwrap();
    server.parent().signal(Signal::SIGUSR1).unwrap();
    server.logged("AH00072: make_sock: could not bind to address", 1).unwrap();
    assert_eq!(Client::connect(other).unwrap().get("/page.html").unwrap().status, 200);
    // An address that is not wanted any more is refused, though old children drain.
    let _slow = download(&server);
    server.configure(Mpm::Worker, small(Mpm::Worker)).unwrap();
    reload(&server, Mpm::Worker, Signal::SIGUSR1);
    assert!(Client::is_refused(other));
    assert_eq!(Client::connect(server.port).unwrap().get("/page.html").unwrap().status, 200);
    server.stop().unwrap();
}

#[test]
fn a_drain_has_a_deadline_and_says_who_held_it_up() {
    for mpm in Mpm::ALL {
        let directives = format!("{}\nGracefulShutdownTimeout 1", small(mpm));
        let mut server = Server::start(mpm, &directives).unwrap();
        let mut download = download(&server);
        let port = download.port().unwrap();
        let holder = server.children().unwrap().into_iter().find(|child| child.holds(server.port, port)).unwrap();
        reload(&server, mpm, Signal::SIGUSR1);
        server.logged("GracefulShutdownTimeout: generation 1 still has connections", 1).unwrap();
        server.logged(&format!("pid {} ", holder.0), 1).unwrap();
        assert!(download.response().is_err(), "{}", mpm.name());
        until("the old child to end", || (!holder.is_alive()).then_some(())).unwrap();
        server.stop().unwrap();
    }
}

/// A server that runs from a copy of the binary, which a test can replace.
fn server_of_a_copy(mpm: Mpm) -> (Server, std::path::PathBuf) {
    let dir = Scratch::new().unwrap();
    let (port, copy) = (free_port().unwrap(), dir.path("manifold"));
    fs::copy(binary::manifold(), &copy).unwrap();
    site::write(&dir.path("htdocs")).unwrap();
    let folder = dir.path("");
    let server = Server::run(dir, port, |dir| {
        let mut command = Command::new(dir.path("manifold"));
        command.args(["httpd", "-DFOREGROUND", "-M", mpm.name(), "-f"]).arg(dir.path("httpd.conf"));
        let root = folder.display();
        let text = format!(
            "ServerRoot \"{root}\"\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile httpd.pid\nErrorLog error.log\n\
             DocumentRoot htdocs\nKeepAliveTimeout 60\nUser www-data\n"
        );
        fs::write(dir.path("httpd.conf"), text).unwrap();
        command
    });
    (server.unwrap(), copy)
}

#[test]
fn the_binary_is_started_anew_on_the_same_sockets() {
    for mpm in Mpm::ALL {
        let (mut server, _) = server_of_a_copy(mpm);
        let (mut idle, mut download) = (idle(&server), download(&server));
        let old = server.parent().0;
        server.parent().signal(Signal::SIGUSR2).unwrap();
        server.logged("this server finishes its connections and ends", 1).unwrap();
        assert_eq!(Client::connect(server.port).unwrap().get("/page.html").unwrap().status, 200);
        assert!(download.response().unwrap().body == LARGE.bytes(), "{}", mpm.name());
        for client in [&mut idle, &mut download] {
            assert_eq!(client.get("/page.html").unwrap().field("connection"), Some("close"), "{}", mpm.name());
        }
        assert!(server.wait().unwrap().success(), "{}", server.words());
        let pid: u32 = fs::read_to_string(server.dir.path("httpd.pid")).unwrap().trim().parse().unwrap();
        assert_ne!(pid, old, "the file names the new server, though the old one has ended");
        assert_eq!(Client::connect(server.port).unwrap().get("/page.html").unwrap().status, 200);
        Process(pid).signal(Signal::SIGTERM).unwrap();
        until("the new server to end", || (!Process(pid).is_alive()).then_some(())).unwrap();
        assert!(!server.dir.path("httpd.pid").exists());
    }
}

#[test]
fn a_binary_that_does_not_come_up_changes_nothing() {
    let (mut server, copy) = server_of_a_copy(Mpm::Event);
    let mut idle = idle(&server);
    fs::remove_file(&copy).unwrap();
    server.parent().signal(Signal::SIGUSR2).unwrap();
    server.logged("the binary could not be started anew, this server goes on", 1).unwrap();
    fs::write(&copy, "#!/bin/sh\nexit 3\n").unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    server.parent().signal(Signal::SIGUSR2).unwrap();
    server.logged("the binary could not be started anew, this server goes on", 2).unwrap();
    assert_eq!(idle.get("/page.html").unwrap().field("connection"), None);
    assert_eq!(Client::connect(server.port).unwrap().get("/page.html").unwrap().status, 200);
    server.stop().unwrap();
}

#[test]
fn corrections_at_a_reload_are_logged_under_apaches_other_numbers() {
    let level = "LogLevel info\n";
    let server = Server::start(Mpm::Event, &format!("{level}ServerLimit 0\nCoreDumpDirectory htdocs")).unwrap();
    server.logged("WARNING: ServerLimit of 0 not allowed, increasing to 1.", 1).unwrap();
    server.logged("In effect: MPM event, ServerLimit 1, ThreadLimit 64, ", 1).unwrap();
    let works_in = |folder: &str| {
        let is_there = |child: &Process| {
            let cwd = fs::read_link(format!("/proc/{}/cwd", child.0)).unwrap_or_default();
            cwd.ends_with(folder)
        };
        until(&format!("children in {folder}"), || server.children().ok()?.iter().any(is_there).then_some(()))
    };
    works_in("htdocs").unwrap();
    let directives = "ServerLimit 20001\nThreadLimit 200000\nThreadsPerChild 0\nMaxRequestWorkers 30\nMutex default\n";
    server.configure(Mpm::Event, &format!("{level}{directives}")).unwrap();
    server.parent().signal(Signal::SIGUSR1).unwrap();
    server.logged("In effect: MPM event, ServerLimit 20000, ThreadLimit 100000, ThreadsPerChild 1, ", 1).unwrap();
    for text in [
        "AH00498: ServerLimit of 20001 exceeds compile-time limit of 20000, decreasing to match",
        "AH00503: ThreadLimit of 200000 exceeds compile-time limit of 100000, decreasing to match",
        "AH00510: ThreadsPerChild of 0 not allowed, increasing to 1",
        "Mutex has no effect here: ",
    ] {
        server.logged(text, 1).unwrap();
    }
    server.configure(Mpm::Prefork, &format!("{level}MaxRequestWorkers 300")).unwrap();
    server.parent().signal(Signal::SIGUSR1).unwrap();
    server
        .logged("AH00181: MaxRequestWorkers of 300 exceeds ServerLimit value of 256, decreasing to match", 1)
        .unwrap();
}
