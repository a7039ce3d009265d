//! Children die and servers are stopped: who notices, and what is lost.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::collections::BTreeSet;

use e2e::client::Client;
use e2e::process::Process;
use e2e::server::{Mpm, Server};
use e2e::site::LARGE;
use e2e::until;
use nix::sys::signal::Signal;

/// Several processes whatever the model, each with room for several connections where the model has that.
fn several(mpm: Mpm) -> &'static str {
    match mpm {
        Mpm::Prefork => "StartServers 10\nMinSpareServers 2\nMaxSpareServers 20",
        Mpm::Worker | Mpm::Event => {
            "StartServers 2\nServerLimit 2\nThreadsPerChild 10\nMaxRequestWorkers 20\nMinSpareThreads 1\nMaxSpareThreads 20"
        }
        Mpm::Percore => "",
    }
}

/// Connections that each wait for the rest of a large file, and the child that sends it.
fn downloads(server: &Server, count: usize) -> Vec<(Client, Process)> {
    let mut downloads = Vec::new();
    for _ in 0..count {
        let mut client = Client::connect(server.port).unwrap();
        client.request("GET", LARGE.path).unwrap();
        client.peek(1000).unwrap();
        let port = client.port().unwrap();
        // Asked for each time: the server may have started more meanwhile.
        let children = server.children().unwrap();
        let child = children.iter().copied().find(|child| child.holds(server.port, port));
        downloads.push((client, child.expect("a child of the server holds the connection")));
    }
    downloads
}

fn check_kill(mpm: Mpm) {
    let mut server = Server::start(mpm, several(mpm)).unwrap();
    let downloads = downloads(&server, 8);
    let children = server.children().unwrap();
    let holders: BTreeSet<Process> = downloads.iter().map(|(_, child)| *child).collect();
    let victim = *holders.first().unwrap();
    victim.signal(Signal::SIGKILL).unwrap();
    until("the killed child to be gone", || (!victim.is_alive()).then_some(())).unwrap();

    let content = LARGE.bytes();
    for (mut client, child) in downloads {
        let response = client.response();
        if child == victim {
            assert!(response.is_err(), "{}: the killed child cannot have finished", mpm.name());
        } else {
            assert!(response.unwrap().body == content, "{}: another child's connection is whole", mpm.name());
        }
    }
    let replaced = || -> Option<()> {
        let now = server.children().ok()?;
        (now.len() >= children.len() && now.iter().any(|child| !children.contains(child))).then_some(())
    };
    until("a replacement of the killed child", replaced).unwrap();
    for _ in 0..50 {
        assert_eq!(Client::connect(server.port).unwrap().get("/page.html").unwrap().status, 200, "{}", mpm.name());
    }
    server.stop().unwrap();
}

#[test]
fn a_killed_child_of_prefork_takes_only_its_own_connection() {
    check_kill(Mpm::Prefork);
}

#[test]
fn a_killed_child_of_worker_takes_only_its_own_connections() {
    check_kill(Mpm::Worker);
}

#[test]
fn a_killed_child_of_event_takes_only_its_own_connections() {
    check_kill(Mpm::Event);
}

#[test]
fn a_killed_child_of_percore_takes_only_its_own_connections() {
    check_kill(Mpm::Percore);
}

#[test]
fn stop_ends_every_process_at_once() {
    for mpm in Mpm::ALL {
        let mut server = Server::start(mpm, several(mpm)).unwrap();
        let children = server.children().unwrap();
        let mut idle = Client::connect(server.port).unwrap();
        assert_eq!(idle.get("/page.html").unwrap().status, 200);
        let output = server.control("stop").unwrap();
        assert!(output.status.success(), "{}: {output:?}", mpm.name());
        assert!(server.wait().unwrap().success(), "{}: {}", mpm.name(), server.words());
        until("the children to end", || children.iter().all(|child| !child.is_alive()).then_some(())).unwrap();
        assert!(!server.dir.path("httpd.pid").exists(), "{}: the PidFile goes with the server", mpm.name());
    }
}

#[test]
fn graceful_stop_loses_no_request_in_flight() {
    for mpm in Mpm::ALL {
        let mut server = Server::start(mpm, &format!("{}\nKeepAliveTimeout 30", several(mpm))).unwrap();
        let downloads = downloads(&server, 4);
        let children = server.children().unwrap();
        let output = server.control("graceful-stop").unwrap();
        assert!(output.status.success(), "{}: {output:?}", mpm.name());
        let content = LARGE.bytes();
        for (mut client, _) in downloads {
            assert!(client.response().unwrap().body == content, "{}", mpm.name());
            // This client was not told that the connection ends, so its next request may be on its way already.
            let last = client.get("/page.html").unwrap();
            assert_eq!((last.status, last.field("connection")), (200, Some("close")), "{}", mpm.name());
            client.closed().unwrap();
        }
        assert!(server.wait().unwrap().success(), "{}: {}", mpm.name(), server.words());
        until("the children to end", || children.iter().all(|child| !child.is_alive()).then_some(())).unwrap();
    }
}

/// Others can take over an address only when it is free, and a balancer turns elsewhere only when it is refused.
#[test]
fn graceful_stop_refuses_new_connections_at_once() {
    for mpm in Mpm::ALL {
        let mut server = Server::start(mpm, several(mpm)).unwrap();
        let mut downloads = downloads(&server, 1);
        assert!(server.control("graceful-stop").unwrap().status.success(), "{}", mpm.name());
        let what = format!("{} to refuse connections", mpm.name());
        until(&what, || Client::is_refused(server.port).then_some(())).unwrap();
        assert!(downloads[0].0.response().unwrap().body == LARGE.bytes(), "{}", mpm.name());
        assert!(server.wait().unwrap().success(), "{}: {}", mpm.name(), server.words());
    }
}
