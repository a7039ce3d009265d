//! Children are killed at random under load, again and again: every connection that no killed child held is served, and
//! the scoreboard is right afterwards.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use e2e::client::Client;
use e2e::process::Process;
use e2e::server::{Mpm, Server};
use e2e::until;
use nix::sys::signal::Signal;

/// Kills of each of the four models.
const KILLS: usize = 50;
/// Half of them keep their connections.
const CLIENTS: usize = 8;
/// Requests on a kept connection.
const KEPT: usize = 200;
/// Between two connections of a client: each leaves an entry in the kernel's table of sockets for a minute, which is read
/// at every kill.
const BETWEEN: Duration = Duration::from_millis(3);

/// Enough children that one is always there.
fn several(mpm: Mpm) -> &'static str {
    match mpm {
        Mpm::Prefork => "StartServers 20\nMinSpareServers 10\nMaxSpareServers 30",
        Mpm::Worker | Mpm::Event => {
            "StartServers 4\nServerLimit 8\nThreadsPerChild 10\nMaxRequestWorkers 80\nMinSpareThreads 30\nMaxSpareThreads 60"
        }
        Mpm::Percore => "Cores 2",
    }
}

const STATUS: &str = "LoadModule status_module modules/mod_status.so\nExtendedStatus On\n\
                      <Location /server-status>\nSetHandler server-status\n</Location>\nMaxKeepAliveRequests 0\n";

/// Requests on one connection; the client's port where they fail.
fn talk(server_port: u16, requests: usize, answered: &AtomicU64) -> Result<(), u16> {
    let mut client = Client::connect(server_port).map_err(|_| 0u16)?;
    let port = client.port().map_err(|_| 0u16)?;
    for _ in 0..requests {
        let response = client.get("/page.html").map_err(|_| port)?;
        assert_eq!(response.status, 200);
        answered.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Kills a child; the ports of the clients whose connections it held.
fn kill(server: &Server, random: &mut u64) -> BTreeSet<u16> {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let children = server.children().unwrap();
    let victim = children[(*random >> 33) as usize % children.len()];
    // Stopped first, so that what it holds does not change while it is looked at.
    victim.signal(Signal::SIGSTOP).unwrap();
    let stopped = || fs::read_to_string(format!("/proc/{}/stat", victim.0)).is_ok_and(|stat| stat.contains(") T "));
    until("a child to stop", || stopped().then_some(())).unwrap();
    let held = victim.clients(server.port);
    victim.signal(Signal::SIGKILL).unwrap();
    let replaced = || {
        let now = server.children().ok()?;
        (!now.contains(&victim) && !now.is_empty()).then_some(())
    };
    until("the killed child to be replaced", replaced).unwrap();
    held
}

fn check(mpm: Mpm, seed: u64) {
    let mut server = Server::start(mpm, &format!("{STATUS}{}", several(mpm))).unwrap();
    let (stop, answered, failed) = (AtomicBool::new(false), AtomicU64::new(0), Mutex::new(Vec::new()));
    let mut held = BTreeSet::new();
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (port, stop, answered, failed) = (server.port, &stop, &answered, &failed);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let requests = if number % 2 == 0 { 1 } else { KEPT };
                    if let Err(port) = talk(port, requests, answered) {
                        failed.lock().unwrap().push(port);
                    }
                    thread::sleep(BETWEEN);
                }
            });
        }
        let mut random = seed;
        for _ in 0..KILLS {
            let before = answered.load(Ordering::Relaxed);
            held.extend(kill(&server, &mut random));
            let served = || (answered.load(Ordering::Relaxed) > before + 50).then_some(());
            until("requests to be answered", served).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let failed = failed.into_inner().unwrap();
    let lost: Vec<u16> = failed.into_iter().filter(|port| !held.contains(port)).collect();
    assert!(lost.is_empty(), "{} (seed {seed}): clients {lost:?} failed, and no killed child held them", mpm.name());
    check_scoreboard(&server, mpm);
    server.stop().unwrap();
}

/// The process that answers is busy with the look itself; nobody else is.
fn check_scoreboard(server: &Server, mpm: Mpm) {
    let alive = || -> BTreeSet<Process> { server.children().unwrap().into_iter().collect() };
    let right = || {
        let answer = Client::connect(server.port).ok()?.get("/server-status?json").ok()?;
        let text = String::from_utf8(answer.body).ok()?;
        let document: serde_json::Value = serde_json::from_str(&text).ok()?;
        let processes = document["processes"].as_array()?;
        let pids: BTreeSet<Process> =
            processes.iter().filter_map(|process| Some(Process(process["pid"].as_u64()? as u32))).collect();
        let (busy, open) = (document["worker_counts"]["busy"].as_u64()?, document["connections"]["open"].as_u64()?);
        (pids == alive() && busy == 1 && open == 1).then_some(())
    };
    let what = format!("{}: a scoreboard that is right", mpm.name());
    until(&what, || {
        thread::sleep(Duration::from_millis(20));
        right()
    })
    .unwrap();
}

#[test]
fn no_connection_is_lost_but_those_of_killed_children() {
    for (seed, mpm) in (1..).zip(Mpm::ALL) {
        check(mpm, seed);
    }
}
