//! The status page of a running server: counts are exact in every model and across reloads, and the tools that administrators
//! have for Apache read it.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use e2e::client::Client;
use e2e::server::{Mpm, Server, free_port};
use e2e::tool::stdout;
use e2e::{Scratch, until};
use serde_json::Value;

/// As Debian's status.conf.
const STATUS: &str =
    "<Location /server-status>\nSetHandler server-status\nRequire local\n</Location>\nKeepAliveTimeout 60";

/// The page in one of its forms, on a connection of its own.
fn page(port: u16, query: &str) -> String {
    let response = Client::connect(port).unwrap().get(&format!("/server-status{query}")).unwrap();
    assert_eq!(response.status, 200, "{}", response.head);
    String::from_utf8(response.body).unwrap()
}

fn json(port: u16) -> Value {
    serde_json::from_str(&page(port, "?json")).unwrap()
}

fn number(page: &Value, name: &str) -> u64 {
    page.pointer(name).and_then(Value::as_u64).unwrap_or_else(|| panic!("{name} in {page}"))
}

fn check_counts(mpm: Mpm) {
    let mut server = Server::start(mpm, STATUS).unwrap();
    let before = number(&json(server.port), "/totals/accesses");
    let mut client = Client::connect(server.port).unwrap();
    for _ in 0..5 {
        assert_eq!(client.get("/page.html").unwrap().status, 200);
    }
    // Each look counts from the next one on.
    let mut looks = 0;
    until("five requests to be counted", || {
        looks += 1;
        (number(&json(server.port), "/totals/accesses") == before + 5 + looks).then_some(())
    })
    .unwrap();
    let page = page(server.port, "?auto");
    assert!(page.contains(&format!("\nServerMPM: {}\n", mpm.name())), "{page}");
    assert_eq!(page.contains("\nConnsAsyncKeepAlive: "), matches!(mpm, Mpm::Event | Mpm::Percore), "{page}");
    until("as many processes as there are children", || {
        let told = json(server.port)["processes"].as_array()?.len();
        (told == server.children().ok()?.len()).then_some(())
    })
    .unwrap();
    let page = json(server.port);
    let told = page["workers"].as_array().unwrap().iter().any(|row| row["request"] == "GET /page.html HTTP/1.1");
    // Where an idle connection holds no worker, the worker that served it may be the one that answers this.
    assert!(told || matches!(mpm, Mpm::Event | Mpm::Percore), "no worker tells of its last request");
    server.stop().unwrap();
}

#[test]
fn prefork_counts_exactly() {
    check_counts(Mpm::Prefork);
}

#[test]
fn worker_counts_exactly() {
    check_counts(Mpm::Worker);
}

#[test]
fn event_counts_exactly() {
    check_counts(Mpm::Event);
}

#[test]
fn percore_counts_exactly() {
    check_counts(Mpm::Percore);
}

/// Apache's event shows such connections seconds later, when its listener next looks after its queues.
#[test]
fn idle_connections_are_shown_at_once_and_gone_at_once() {
    for mpm in [Mpm::Event, Mpm::Percore] {
        let mut server = Server::start(mpm, STATUS).unwrap();
        let idle = |expected: u64| {
            until(&format!("{expected} idle connections in {}", mpm.name()), || {
                (number(&json(server.port), "/connections/keep_alive") == expected).then_some(())
            })
        };
        let clients: Vec<Client> = (0..30)
            .map(|_| {
                let mut client = Client::connect(server.port).unwrap();
                client.get("/page.html").unwrap();
                client
            })
            .collect();
        idle(30).unwrap();
        drop(clients);
        idle(0).unwrap();
        server.stop().unwrap();
    }
}

#[test]
fn totals_never_go_back_however_often_the_model_changes() {
    let mut server = Server::start(Mpm::Prefork, STATUS).unwrap();
    let mut last = 0;
    for (reloads, mpm) in [Mpm::Percore, Mpm::Event, Mpm::Worker].into_iter().enumerate() {
        server.logged("resuming normal operations", reloads + 1).unwrap();
        server.configure(mpm, STATUS).unwrap();
        assert!(server.control("graceful").unwrap().status.success());
        until(&format!("{} to serve", mpm.name()), || {
            let page = json(server.port);
            let total = number(&page, "/totals/accesses");
            assert!(total >= last, "{last} requests before, then {page}");
            last = total;
            let is_new =
                page["server"]["mpm"] == mpm.name() && number(&page, "/config_generation") == reloads as u64 + 2;
            is_new.then_some(())
        })
        .unwrap();
    }
    server.stop().unwrap();
}

/// A program that runs until the test ends.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Running {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Running(quiet.spawn().expect("`cargo xtask setup` installs it"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; a test that failed tells more than this would.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn server_with_requests() -> Server {
    let server = Server::start(Mpm::Event, STATUS).unwrap();
    let mut client = Client::connect(server.port).unwrap();
    for _ in 0..7 {
        client.get("/page.html").unwrap();
    }
    until("the requests to be counted", || (number(&json(server.port), "/totals/accesses") >= 7).then_some(()))
        .unwrap();
    server
}

/// The value after a name and a space.
fn value(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn the_prometheus_exporter_for_apache_reads_the_page() {
    let mut server = server_with_requests();
    let port = free_port().unwrap();
    let exporter = Running::start(
        Command::new("prometheus-apache-exporter")
            .arg(format!("--telemetry.address=127.0.0.1:{port}"))
            .arg(format!("--scrape_uri={}", server.url("/server-status?auto"))),
    );
    let text = until("the exporter to answer", || {
        let fetched = stdout(Command::new("curl").args(["--silent", &format!("http://127.0.0.1:{port}/metrics")]));
        fetched.ok().filter(|text| text.contains("apache_up"))
    })
    .unwrap();
    assert_eq!(value(&text, "apache_up"), Some(1.0), "{text}");
    assert!(value(&text, "apache_accesses_total").unwrap() >= 7.0, "{text}");
    assert_eq!(value(&text, "apache_scoreboard{state=\"reply\"}"), Some(1.0), "{text}");
    assert_eq!(value(&text, "apache_workers{state=\"busy\"}"), Some(1.0), "{text}");
    assert!(value(&text, "apache_workers{state=\"idle\"}").unwrap() > 0.0, "{text}");
    assert!(text.contains("mpm=\"event\""), "{text}");
    drop(exporter);
    server.stop().unwrap();
}

#[test]
fn munins_plugins_for_apache_read_the_page() {
    let mut server = server_with_requests();
    let port = server.port;
    let plugin = |name: &str| {
        let path = Path::new("/usr/share/munin/plugins").join(name);
        let mut command = Command::new("perl");
        command.arg(path).env("MUNIN_LIBDIR", "/usr/share/munin").env("ports", port.to_string());
        stdout(command.env("url", "http://127.0.0.1:%d/server-status?auto")).unwrap()
    };
    let accesses = plugin("apache_accesses");
    assert!(value(&accesses, &format!("accesses{port}.value")).unwrap() >= 7.0, "{accesses}");
    let processes = plugin("apache_processes");
    for (name, at_least) in [("busy", 1.0), ("idle", 1.0), ("free", 1.0)] {
        assert!(value(&processes, &format!("{name}{port}.value")).unwrap() >= at_least, "{processes}");
    }
    let volume = plugin("apache_volume");
    assert!(value(&volume, &format!("volume{port}.value")).unwrap() >= 1024.0, "{volume}");
    server.stop().unwrap();
}

#[test]
fn collectds_plugin_for_apache_reads_the_page() {
    let mut server = server_with_requests();
    let dir = Scratch::new().unwrap();
    let path = |name: &str| dir.path(name).display().to_string();
    let configuration = format!(
        "Hostname here\nFQDNLookup false\nInterval 1\nBaseDir \"{}\"\nTypesDB \"/usr/share/collectd/types.db\"\n\
         LoadPlugin apache\nLoadPlugin csv\n<Plugin csv>\nDataDir \"{}\"\n</Plugin>\n\
         <Plugin apache>\n<Instance ours>\nURL \"{}\"\nServer apache\n</Instance>\n</Plugin>\n",
        path(""),
        path("csv"),
        server.url("/server-status?auto")
    );
    std::fs::write(dir.path("collectd.conf"), configuration).unwrap();
    let collectd = Running::start(Command::new("/usr/sbin/collectd").args([
        "-f",
        "-C",
        &path("collectd.conf"),
        "-P",
        &path("pid"),
    ]));
    let folder = dir.path("csv/here/apache-ours");
    // The last value of the file whose name begins so: files are named after the day.
    let last = |name: &str| {
        let files = std::fs::read_dir(&folder).ok()?;
        let mut named = files.flatten().filter(|file| file.file_name().to_string_lossy().starts_with(name));
        let text = std::fs::read_to_string(named.next()?.path()).ok()?;
        text.lines().last()?.split(',').nth(1)?.parse::<f64>().ok()
    };
    until("collectd to write requests", || last("apache_requests").filter(|requests| *requests >= 7.0)).unwrap();
    until("collectd to write letters", || last("apache_scoreboard-sending").filter(|sending| *sending >= 1.0)).unwrap();
    until("collectd to write idle workers", || last("apache_idle_workers").filter(|idle| *idle >= 1.0)).unwrap();
    drop(collectd);
    server.stop().unwrap();
}

#[test]
fn a_full_server_says_why() {
    let limits = "StartServers 1\nThreadsPerChild 2\nMaxRequestWorkers 2";
    let mut server = Server::start(Mpm::Worker, &format!("{STATUS}\n{limits}")).unwrap();
    let clients = ["GET /page.html HTTP/1.1\r\nHost: x\r\n", "GET / HTTP/1.1\r\nHost: x\r\nX: y"];
    let clients = clients.map(|part| {
        let mut client = Client::connect(server.port).unwrap();
        client.send(part.as_bytes()).unwrap();
        client
    });
    server.logged("AH00286: server reached MaxRequestWorkers setting", 1).unwrap();
    server.logged(": 2 of 2 workers are held: 2 R head of 1 client, longest ", 1).unwrap();
    server.logged("the event and percore MPMs hold no worker; 2 more workers would take about ", 1).unwrap();
    drop(clients);
    server.stop().unwrap();
}
