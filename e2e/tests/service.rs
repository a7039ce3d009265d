//! Under a service manager, and in a container: what systemd is told and hands over, what process 1 owes, and logs that are
//! no files.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};

use e2e::client::Client;
use e2e::process::Process;
use e2e::server::{Mpm, Server, after, configured, foreground};
use e2e::site::LARGE;
use e2e::{PATIENCE, Scratch, until};
use nix::sys::signal::Signal;

/// A service manager's ear.
struct Manager {
    socket: UnixDatagram,
    dir: Scratch,
}

impl Manager {
    fn new() -> Manager {
        let dir = Scratch::new().unwrap();
        let socket = UnixDatagram::bind(dir.path("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Manager { socket, dir }
    }

    /// The next message that begins like this. Between them only signs of life and the load may be told.
    fn told(&self, beginning: &str) -> String {
        loop {
            let mut buffer = [0; 1024];
            let length = self.socket.recv(&mut buffer).unwrap_or_else(|error| panic!("no {beginning}: {error}"));
            let message = String::from_utf8(buffer[..length].to_vec()).unwrap();
            if message.starts_with(beginning) {
                return message;
            }
            let is_routine = message == "WATCHDOG=1" || message.starts_with("STATUS=");
            assert!(is_routine, "{message:?} where {beginning} is due");
        }
    }
}

/// A server that has replaced another one, and so is nobody's child here.
struct Stray(Process);

impl Drop for Stray {
    fn drop(&mut self) {
        // Gone already, after a test that went well.
        let _ = self.0.signal(Signal::SIGKILL);
    }
}

/// The environment that a process was started with.
fn environment(process: Process) -> String {
    fs::read_to_string(format!("/proc/{}/environ", process.0)).unwrap().replace('\0', "\n")
}

#[test]
fn a_service_manager_is_told_of_start_reload_upgrade_and_stop() {
    let manager = Manager::new();
    let (dir, port) = configured(Mpm::Event, "GracefulShutdownTimeout 7").unwrap();
    let mut server = Server::run(dir, port, |dir| {
        let mut command = after("export WATCHDOG_PID=$$", &foreground(dir));
        command.env("NOTIFY_SOCKET", manager.dir.path("notify")).env("WATCHDOG_USEC", "600000");
        command
    })
    .unwrap();
    manager.told("READY=1");
    manager.told("WATCHDOG=1");
    manager.told("WATCHDOG=1");
    assert!(manager.told("STATUS=").ends_with("workers busy"));

    server.parent().signal(Signal::SIGUSR1).unwrap();
    let reloading = manager.told("RELOADING=1\nMONOTONIC_USEC=");
    assert!(reloading.lines().nth(1).unwrap()["MONOTONIC_USEC=".len()..].parse::<u64>().is_ok(), "{reloading}");
    assert_eq!(manager.told("READY=1"), "READY=1\nSTATUS=Serving");

    let configuration = fs::read_to_string(server.dir.path("httpd.conf")).unwrap();
    fs::write(server.dir.path("httpd.conf"), format!("{configuration}\nListen nowhere\n")).unwrap();
    server.parent().signal(Signal::SIGHUP).unwrap();
    manager.told("RELOADING=1");
    let refused = manager.told("READY=1");
    assert!(refused.contains("STATUS=The new configuration is not taken: AH00526: Syntax error"), "{refused}");
    fs::write(server.dir.path("httpd.conf"), configuration).unwrap();

    server.parent().signal(Signal::SIGUSR2).unwrap();
    let message = manager.told("MAINPID=");
    let pid = message.lines().next().unwrap()["MAINPID=".len()..].parse().unwrap();
    let successor = Stray(Process(pid));
    assert!(server.wait().unwrap().success(), "{}", server.words());
    let inherited = environment(successor.0);
    assert!(inherited.contains("NOTIFY_SOCKET=") && !inherited.contains("WATCHDOG_PID="), "{inherited}");
    manager.told("WATCHDOG=1");

    successor.0.signal(Signal::SIGWINCH).unwrap();
    manager.told("STOPPING=1");
    // The timeout, ten seconds in which children are made to end, and some to spare.
    assert_eq!(manager.told("EXTEND_TIMEOUT_USEC="), "EXTEND_TIMEOUT_USEC=22000000");
    until("the successor to end", || (!successor.0.is_alive()).then_some(())).unwrap();
}

/// A server that is handed `socket` as a service manager does.
fn activated(dir: Scratch, socket: &TcpListener, port: u16) -> Server {
    Server::run(dir, port, |dir| {
        let mut command = after("exec 3<&0 </dev/null; export LISTEN_PID=$$", &foreground(dir));
        let socket: std::os::fd::OwnedFd = socket.try_clone().unwrap().into();
        command.stdin(socket).env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", "web");
        command
    })
    .unwrap()
}

#[test]
fn connections_wait_in_a_service_managers_socket_from_one_server_to_the_next() {
    for mpm in Mpm::ALL {
        let (dir, port) = configured(mpm, "").unwrap();
        let socket = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let mut first = activated(dir, &socket, port);
        assert_eq!(Client::connect(port).unwrap().get("/page.html").unwrap().status, 200, "{}", mpm.name());
        assert!(first.control("graceful-stop").unwrap().status.success());
        assert!(first.wait().unwrap().success(), "{}: {}", mpm.name(), first.words());

        // Nobody serves, and nobody is refused.
        let mut waiting = Client::connect(port).unwrap();
        waiting.request("GET", "/page.html").unwrap();
        let (dir, _) = configured(mpm, &format!("Listen 127.0.0.1:{port}")).unwrap();
        let mut second = activated(dir, &socket, port);
        assert_eq!(waiting.response().unwrap().status, 200, "{}", mpm.name());
        second.stop().unwrap();
    }
}

#[test]
fn a_service_managers_socket_is_taken_as_soon_as_a_listen_line_names_it() {
    let socket = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let other = socket.local_addr().unwrap().port();
    let (dir, port) = configured(Mpm::Worker, "").unwrap();
    let mut server = activated(dir, &socket, port);
    let warning = format!("the service manager listens on 127.0.0.1:{other}, but no Listen line names that address");
    until("the warning", || server.words().contains(&warning).then_some(())).unwrap();

    let configuration = fs::read_to_string(server.dir.path("httpd.conf")).unwrap();
    fs::write(server.dir.path("httpd.conf"), format!("{configuration}\nListen 127.0.0.1:{other}\n")).unwrap();
    let mut client = Client::connect(other).unwrap();
    client.request("GET", "/page.html").unwrap();
    server.parent().signal(Signal::SIGUSR1).unwrap();
    assert_eq!(client.response().unwrap().status, 200);

    let in_force = || (server.words().matches("AH00094: Command line").count() == 2).then_some(());
    until("the reload to be done", in_force).unwrap();
    // The successor has the socket from its predecessor, not from the environment once more.
    let before = server.parent();
    server.parent().signal(Signal::SIGUSR2).unwrap();
    assert!(server.wait().unwrap().success(), "{}", server.words());
    let pid_file = || fs::read_to_string(server.dir.path("httpd.pid")).ok()?.trim().parse().ok();
    let successor = Stray(Process(until("the successor's PidFile", pid_file).unwrap()));
    assert!(successor.0 != before && !environment(successor.0).contains("LISTEN_"));
    assert_eq!(Client::connect(other).unwrap().get("/page.html").unwrap().status, 200);
    successor.0.signal(Signal::SIGWINCH).unwrap();
    until("the successor to end", || (!successor.0.is_alive()).then_some(())).unwrap();
    assert!(Client::connect(other).is_ok(), "the service manager's socket is not shut");
}

#[test]
fn logs_go_to_sockets_and_pipes_and_survive_reloads() {
    let directives = "ErrorLog /dev/stderr\nCustomLog /dev/stdout \"%r\"\nStartServers 1";
    let (dir, port) = configured(Mpm::Event, directives).unwrap();
    // As journald's, standard error is a socket, which cannot be opened; standard output is a pipe.
    let (errors, theirs) = UnixStream::pair().unwrap();
    errors.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = foreground(&dir);
    command.stdout(Stdio::piped()).stderr(std::os::fd::OwnedFd::from(theirs));
    let mut child = command.spawn().unwrap();
    drop(command);
    let _kill = Stray(Process(child.id()));
    let mut requests = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut errors = BufReader::new(errors).lines();
    let mut said = |what: &str| while !errors.next().unwrap().unwrap().contains(what) {};
    for round in 0..3 {
        said("AH00094: Command line");
        assert_eq!(Client::connect(port).unwrap().get("/page.html").unwrap().status, 200);
        assert_eq!(requests.next().unwrap().unwrap(), "GET /page.html HTTP/1.1", "after {round} reloads");
        Process(child.id()).signal(Signal::SIGUSR1).unwrap();
    }
    said("AH00094: Command line");
    Process(child.id()).signal(Signal::SIGTERM).unwrap();
    said("caught SIGTERM");
    assert!(child.wait().unwrap().success());
}

/// The command in a container of processes: what it becomes is process 1 there.
fn contained(command: &Command) -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    unshare.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    unshare
}

#[test]
fn process_1_finishes_its_connections_and_buries_orphans() {
    if !contained(&Command::new("true")).status().is_ok_and(|status| status.success()) {
        println!("skipped: this user may not make a name space of processes");
        return;
    }
    let start = || {
        let (dir, port) = configured(Mpm::Event, "").unwrap();
        let server = Server::run(dir, port, |dir| contained(&after("(sleep 1000 &)", &foreground(dir)))).unwrap();
        let [one] = server.children().unwrap()[..] else { panic!("unshare has one child") };
        (server, one)
    };
    let download = |server: &Server| {
        let mut client = Client::connect(server.port).unwrap();
        client.request("GET", LARGE.path).unwrap();
        client.peek(1000).unwrap();
        client
    };
    let refuses = |server: &Server| {
        until("connections to be refused", || Client::is_refused(server.port).then_some(())).unwrap();
    };

    // Both signals come from outside, where the sender's id is none.
    for signal in [Signal::SIGTERM, Signal::SIGWINCH] {
        let (mut server, one) = start();
        let name = |process: &Process| fs::read_to_string(format!("/proc/{}/comm", process.0)).unwrap_or_default();
        let children = one.children().unwrap();
        let orphan = children.into_iter().find(|child| name(child) == "sleep\n").unwrap();
        orphan.signal(Signal::SIGKILL).unwrap();
        let gone = || (!fs::exists(format!("/proc/{}", orphan.0)).unwrap()).then_some(());
        until("the orphan to be buried", gone).unwrap();
        let mut client = download(&server);
        // It would take everything in the container along.
        one.signal(Signal::SIGUSR2).unwrap();
        until("the upgrade to be refused", || server.words().contains("cannot be replaced").then_some(())).unwrap();
        one.signal(signal).unwrap();
        refuses(&server);
        assert!(client.response().unwrap().body == LARGE.bytes(), "{signal}");
        drop(client);
        assert!(server.wait().unwrap().success(), "{signal}: {}", server.words());
    }

    let (mut server, one) = start();
    let mut client = download(&server);
    one.signal(Signal::SIGTERM).unwrap();
    refuses(&server);
    one.signal(Signal::SIGTERM).unwrap();
    assert!(server.wait().unwrap().success(), "{}", server.words());
    assert!(client.response().is_err(), "it was told twice");
}

#[test]
fn children_may_open_as_many_files_as_they_are_to_hold_connections() {
    const HARD: u64 = 2000;
    // Only who has the privilege may go beyond the hard limit.
    let raise = format!("ulimit -H -n {HARD}; ulimit -H -n 9000");
    let privileged = Command::new("sh").args(["-c", &raise]).stderr(Stdio::null()).status().unwrap().success();
    let threads = "StartServers 1\nThreadLimit 600\nThreadsPerChild 600\nMaxRequestWorkers 600";
    for (mpm, directives, needed) in
        [(Mpm::Percore, "MaxConnections 5000", 5000 + 1024), (Mpm::Worker, threads, 2 * 600 + 1024)]
    {
        let limits = format!("ulimit -S -n 300; ulimit -H -n {HARD}");
        let (dir, port) = configured(mpm, directives).unwrap();
        let mut server = Server::run(dir, port, |dir| after(&limits, &foreground(dir))).unwrap();
        let child = until("a child", || server.children().ok()?.into_iter().next()).unwrap();
        let files = || -> Option<u64> {
            let limits = fs::read_to_string(format!("/proc/{}/limits", child.0)).ok()?;
            let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
            line.split_whitespace().nth(3)?.parse().ok()
        };
        let expected = if privileged { needed } else { needed.min(HARD) };
        until("the limit to be raised", || (files()? == expected).then_some(())).unwrap();
        server.stop().unwrap();
    }
}

/// A watchdog's interval that is shorter than what the parent otherwise sleeps.
#[test]
fn serve_gives_signs_of_life_and_listens_where_the_service_manager_does() {
    let manager = Manager::new();
    let socket = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = socket.local_addr().unwrap().port();
    let dir = Scratch::new().unwrap();
    e2e::site::write(&dir.path("htdocs")).unwrap();
    let mut server = Server::run(dir, port, |dir| {
        let mut serve = e2e::binary::command(["serve"]);
        serve.arg(dir.path("htdocs"));
        let mut command = after("exec 3<&0 </dev/null; export LISTEN_PID=$$", &serve);
        let socket: std::os::fd::OwnedFd = socket.try_clone().unwrap().into();
        command.stdin(socket).env("LISTEN_FDS", "1").env("WATCHDOG_USEC", "100000");
        command.env("NOTIFY_SOCKET", manager.dir.path("notify"));
        command
    })
    .unwrap();
    manager.told("READY=1");
    for _ in 0..20 {
        manager.told("WATCHDOG=1");
    }
    assert_eq!(Client::connect(port).unwrap().get("/page.html").unwrap().status, 200);
    server.stop().unwrap();
    manager.told("STOPPING=1");
}

/// A unit of `packaging/systemd`, with the program under test in the place of the installed one.
fn unit(name: &str) -> String {
    let path = format!("{}/../packaging/systemd/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).unwrap().replace("/usr/local/bin/manifold", e2e::binary::manifold().to_str().unwrap())
}

#[test]
fn the_unit_files_are_good() {
    let dir = Scratch::new().unwrap();
    let names = ["manifold.service", "manifold.socket"];
    for name in names {
        fs::write(dir.path(name), unit(name)).unwrap();
    }
    let mut verify = Command::new("systemd-analyze");
    verify.arg("verify").args(names.map(|name| dir.path(name)));
    let output = verify.output().expect("systemd-analyze is there: cargo xtask setup");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn the_service_units_commands_start_and_check_a_server() {
    let service = unit("manifold.service");
    let command = |key: &str, dir: &Scratch| {
        let line = service.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        let line = line.replace("/etc/manifold/httpd.conf", dir.path("httpd.conf").to_str().unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {line}")]).stdin(Stdio::null());
        shell
    };
    let manager = Manager::new();
    let (dir, port) = configured(Mpm::Event, "").unwrap();
    let mut server = Server::run(dir, port, |dir| {
        let mut command = command("ExecStart=", dir);
        command.env("NOTIFY_SOCKET", manager.dir.path("notify"));
        command
    })
    .unwrap();
    manager.told("READY=1");
    let check = command("ExecReload=", &server.dir).output().unwrap();
    assert!(check.status.success(), "{check:?}");
    server.stop().unwrap();
}
