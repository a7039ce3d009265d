//! Access logs: written in batches, and yet complete, in order, whole and prompt, whatever becomes of the processes.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use e2e::client::Client;
use e2e::process::Process;
use e2e::server::{Mpm, Server, configured, foreground};
use e2e::site::LARGE;
use e2e::tool::{Load, Tool};
use e2e::trace::Trace;
use e2e::{Scratch, alone, until};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

/// Small, so that a test takes little of the machine, and yet of several processes and threads.
fn small(mpm: Mpm) -> &'static str {
    match mpm {
        Mpm::Prefork => "StartServers 4\nMinSpareServers 2\nMaxSpareServers 20",
        Mpm::Worker | Mpm::Event => {
            "StartServers 2\nServerLimit 2\nThreadsPerChild 10\nMaxRequestWorkers 20\nMinSpareThreads 1\nMaxSpareThreads 20"
        }
        Mpm::Percore => "Cores 2",
    }
}

/// One line for each request, of what it asked for.
const LOG: &str = "LogFormat \"%r\" line\nCustomLog access.log line";

fn start(mpm: Mpm, directives: &str) -> Server {
    Server::start(mpm, &format!("{}\n{LOG}\n{directives}", small(mpm))).unwrap()
}

/// The queries of all requests in a log, in its order.
fn queries(text: &str) -> Vec<String> {
    let query = |line: &str| {
        let query = line.strip_prefix("GET /page.html?").and_then(|rest| rest.strip_suffix(" HTTP/1.1"));
        query.unwrap_or_else(|| panic!("not a whole line: {line:?}")).to_owned()
    };
    text.lines().map(query).collect()
}

fn log_of(dir: &Scratch) -> String {
    fs::read_to_string(dir.path("access.log")).unwrap_or_default()
}

/// Waits until the log has so many lines.
fn await_lines(server: &Server, lines: usize) {
    let what = format!("{lines} lines in the log");
    let are_there = || (log_of(&server.dir).lines().count() >= lines).then_some(());
    until(&what, are_there).map_err(|error| error.context(server.words())).unwrap();
}

#[test]
fn lines_show_up_though_nothing_follows() {
    for mpm in Mpm::ALL {
        let server = start(mpm, "");
        // Idle between requests.
        let mut idle = Client::connect(server.port).unwrap();
        for n in 0..3 {
            idle.get(&format!("/page.html?{n}")).unwrap();
        }
        await_lines(&server, 3);
        // In the middle of sending.
        for n in 3..6 {
            idle.get(&format!("/page.html?{n}")).unwrap();
        }
        idle.request("GET", LARGE.path).unwrap();
        await_lines(&server, 6);
        // Gone.
        let mut gone = Client::connect(server.port).unwrap();
        for n in 6..9 {
            gone.get(&format!("/page.html?{n}")).unwrap();
        }
        drop(gone);
        await_lines(&server, 9);
        let mut seen = queries(&log_of(&server.dir));
        seen.sort();
        assert_eq!(seen, (0..9).map(|n| n.to_string()).collect::<Vec<_>>(), "{mpm:?}");
    }
}

/// What ends a child.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Stop,
    GracefulStop,
    Reload,
    Restart,
    ChildTold,
    Enough,
}

#[test]
fn nothing_is_lost_when_children_end() {
    use Ending::{ChildTold, Enough, GracefulStop, Reload, Restart, Stop};
    for mpm in Mpm::ALL {
        for ending in [Stop, GracefulStop, Reload, Restart, ChildTold, Enough] {
            let enough = if ending == Enough { "MaxConnectionsPerChild 3" } else { "" };
            let mut server = start(mpm, enough);
            let mut clients: Vec<Client> = (0..6).map(|_| Client::connect(server.port).unwrap()).collect();
            for (n, client) in clients.iter_mut().enumerate() {
                for m in 0..5 {
                    let answer = client.get(&format!("/page.html?{n}-{m}")).unwrap();
                    if answer.field("connection") == Some("close") {
                        *client = Client::connect(server.port).unwrap();
                    }
                }
            }
            let children = server.children().unwrap();
            match ending {
                Stop => server.stop().unwrap(),
                GracefulStop => {
                    drop(clients);
                    stop_gracefully(&mut server);
                }
                Reload | Restart => {
                    let signal = if ending == Reload { Signal::SIGUSR1 } else { Signal::SIGHUP };
                    server.parent().signal(signal).unwrap();
                    drop(clients);
                    gone(&children);
                }
                ChildTold => {
                    children.iter().for_each(|child| child.signal(Signal::SIGTERM).unwrap());
                    gone(&children);
                }
                Enough => drop(clients),
            }
            // A child that ends at once may be between an answer and its line; the line of the answer before is there then.
            let last = if matches!(ending, Stop | Restart | ChildTold) { 4 } else { 5 };
            let mut expected: Vec<String> = (0..6).flat_map(|n| (0..last).map(move |m| format!("{n}-{m}"))).collect();
            expected.sort();
            if ending == Enough {
                await_lines(&server, expected.len());
            }
            let mut seen = queries(&log_of(&server.dir));
            seen.retain(|query| last == 5 || !query.ends_with("-4"));
            seen.sort();
            assert_eq!(seen, expected, "{mpm:?}, {ending:?}\n{}", server.words());
        }
    }
}

fn stop_gracefully(server: &mut Server) {
    let children = server.children().unwrap();
    server.parent().signal(Signal::SIGWINCH).unwrap();
    assert!(server.wait().unwrap().success());
    gone(&children);
}

fn gone(children: &[Process]) {
    until("the children to end", || children.iter().all(|child| !child.is_alive()).then_some(())).unwrap();
}

/// Clients that ask one after the other for numbers, until they are told to stop; gives how far each has come.
fn ask(server: &Server, clients: usize, stop: &AtomicBool, requests: usize) -> Vec<usize> {
    thread::scope(|scope| {
        let each = |client: usize| {
            move || {
                let mut connection = Client::connect(server.port).unwrap();
                let mut number = 0;
                while number < requests && !stop.load(Ordering::Relaxed) {
                    let answer = connection.get(&format!("/page.html?{client}-{number}")).unwrap();
                    assert_eq!(answer.status, 200);
                    number += 1;
                    if answer.field("connection") == Some("close") {
                        connection = Client::connect(server.port).unwrap();
                    }
                }
                number
            }
        };
        let threads: Vec<_> = (0..clients).map(|client| scope.spawn(each(client))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The numbers of each client, in the order of the log.
fn by_client(text: &str) -> BTreeMap<usize, Vec<usize>> {
    let mut by_client: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for query in queries(text) {
        let (client, number) = query.split_once('-').unwrap();
        by_client.entry(client.parse().unwrap()).or_default().push(number.parse().unwrap());
    }
    by_client
}

#[test]
fn lines_of_a_connection_are_in_order_and_whole_in_files_and_pipes() {
    const CLIENTS: usize = 8;
    const REQUESTS: usize = 400;
    for mpm in Mpm::ALL {
        for pipe in [false, true] {
            let directives = format!("{}\n{LOG}\nMaxKeepAliveRequests 0", small(mpm));
            let (dir, port) = configured(mpm, &directives).unwrap();
            let path = dir.path("access.log");
            let (answered, text) = thread::scope(|scope| {
                let reader = pipe.then(|| {
                    mkfifo(&path, Mode::from_bits_truncate(0o666)).unwrap();
                    scope.spawn(|| {
                        let mut text = String::new();
                        fs::File::open(&path).unwrap().read_to_string(&mut text).unwrap();
                        text
                    })
                });
                let mut server = Server::run(dir, port, foreground).unwrap();
                let answered = ask(&server, CLIENTS, &AtomicBool::new(false), REQUESTS);
                stop_gracefully(&mut server);
                (answered, reader.map_or_else(|| log_of(&server.dir), |reader| reader.join().unwrap()))
            });
            assert_eq!(answered, [REQUESTS; CLIENTS]);
            for (client, numbers) in by_client(&text) {
                assert!(numbers.iter().copied().eq(0..REQUESTS), "{mpm:?}, pipe {pipe}, client {client}: {numbers:?}");
            }
            assert_eq!(text.lines().count(), CLIENTS * REQUESTS, "{mpm:?}, pipe {pipe}");
        }
    }
}

#[test]
fn a_log_is_rotated_under_load_and_no_line_is_lost_or_doubled() {
    const CLIENTS: usize = 6;
    for mpm in Mpm::ALL {
        let mut server = start(mpm, "");
        let stop = AtomicBool::new(false);
        let answered = thread::scope(|scope| {
            let (server, stop) = (&server, &stop);
            let clients = scope.spawn(move || ask(server, CLIENTS, stop, usize::MAX));
            let rotate = || {
                for turn in 1..=4 {
                    await_lines(server, 200);
                    // What logrotate does.
                    fs::rename(server.dir.path("access.log"), server.dir.path(&format!("access.log.{turn}"))).unwrap();
                    server.parent().signal(Signal::SIGUSR1).unwrap();
                    server.logged("resuming normal operations", turn + 1).unwrap();
                }
                await_lines(server, 200);
            };
            let rotated = std::panic::catch_unwind(std::panic::AssertUnwindSafe(rotate));
            stop.store(true, Ordering::Relaxed);
            let answered = clients.join().unwrap();
            rotated.unwrap();
            answered
        });
        stop_gracefully(&mut server);
        let names = ["access.log.1", "access.log.2", "access.log.3", "access.log.4", "access.log"];
        let text: String = names.iter().map(|name| fs::read_to_string(server.dir.path(name)).unwrap()).collect();
        let seen = by_client(&text);
        for (client, answered) in answered.into_iter().enumerate() {
            let mut numbers = seen[&client].clone();
            numbers.sort_unstable();
            assert!(
                numbers.iter().copied().eq(0..answered),
                "{mpm:?}, client {client}: {answered} answered: {numbers:?}"
            );
        }
    }
}

#[test]
fn under_load_many_lines_go_into_one_write() {
    let _alone = alone();
    const REQUESTS: u64 = 10_000;
    for mpm in Mpm::ALL {
        let (directives, processes) = match mpm {
            Mpm::Prefork => ("StartServers 110\nMaxSpareServers 200", 110),
            Mpm::Worker => ("StartServers 5\nMaxSpareThreads 200", 5),
            Mpm::Event | Mpm::Percore => (small(mpm), 2),
        };
        let directives = format!("{directives}\nCustomLog access.log combined\nMaxKeepAliveRequests 0");
        let server = Server::start(mpm, &directives).unwrap();
        let children = || server.children().ok().filter(|children| children.len() >= processes);
        let children = until("all children", children).unwrap();
        let trace = Trace::attach_to_file(&children, &server.dir.path("access.log")).unwrap();
        let begun = Instant::now();
        let load = Load { requests: REQUESTS, connections: 100, keep_alive: true };
        let tally = Tool::H2load.run_on(&server, "/page.html", load).unwrap();
        assert_eq!((tally.done, tally.failed), (REQUESTS, 0));
        let written = trace.finish().unwrap().total();
        // A write each time a batch is due, however slow the machine is.
        let due = children.len() as u64 * (begun.elapsed().as_millis() as u64 / 800 + 2);
        println!("{mpm:?}: {written} writes for {REQUESTS} requests; {due} may be due");
        assert!(written <= REQUESTS / 50 + due, "{mpm:?}: {written} writes for {REQUESTS} requests");
    }
}

/// Items that say the same in Apache; times, ports and numbers of processes do not.
const ITEMS: &str = "%h %a %{c}a %l %u %L %m %q %H %r %s %>s %f %R %k %X %v %{User-Agent}i %{Referer}i %{sid}C \
                     %{Content-Type}o %{Content-Length}o %{Date}o %{Server}o %200{Host}i %!200{Host}i %B %b \\t%%";

const REQUESTS: [&str; 6] = [
    "GET /page.html?a=b HTTP/1.1\r\nHost: h\r\nUser-Agent: me \"x\" \\ \u{e9}\r\nCookie: a=1; SID=42\r\nReferer: \r\n\r\n\
     HEAD /page.html HTTP/1.1\r\nHost: h\r\n\r\nGET /page.html HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "GET /page.html HTTP/1.0\r\nUser-Agent: ua\r\n\r\n",
    "POST /page.html HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
    "POST /page.html HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5;x\r\nhello\r\n0\r\n\r\n",
    "\r\nGET /one.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "GET /%70age.html?%22\"\u{e9} HTTP/1.0\r\n\r\n",
];

#[test]
fn lines_are_apaches() {
    let apache = Path::new("/usr/sbin/apache2");
    if !apache.exists() {
        println!("apache2 is not installed: nothing to compare with");
        return;
    }
    let log = format!("LogFormat \"{ITEMS}\" items\nCustomLog access.log items\n");
    let modules = "/usr/lib/apache2/modules";
    let ours = Server::start(Mpm::Event, &log).unwrap();
    let (dir, port) = configured(Mpm::Event, &log).unwrap();
    let text =
        fs::read_to_string(dir.path("httpd.conf")).unwrap().replace("modules/mod_mpm", &format!("{modules}/mod_mpm"));
    let more = format!(
        "DefaultRuntimeDir {}\nLoadModule authz_core_module {modules}/mod_authz_core.so\n\
         LoadModule mime_module {modules}/mod_mime.so\nTypesConfig /etc/mime.types\n",
        dir.path("").display()
    );
    fs::write(dir.path("httpd.conf"), format!("{more}{text}")).unwrap();
    let command = |dir: &Scratch| {
        let mut command = Command::new(apache);
        command.args(["-DFOREGROUND", "-f"]).arg(dir.path("httpd.conf"));
        command
    };
    let theirs = Server::run(dir, port, command).unwrap();
    let lines = |server: &Server| {
        for request in REQUESTS {
            let mut client = std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap();
            client.write_all(request.as_bytes()).unwrap();
            client.read_to_end(&mut Vec::new()).unwrap();
        }
        await_lines(server, REQUESTS.len() + 2);
        let log = log_of(&server.dir).replace(&*server.dir.path("").to_string_lossy(), "DIR/");
        // Several processes write, each when it likes.
        let mut lines: Vec<String> = log.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&ours), lines(&theirs));
}
