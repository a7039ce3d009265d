//! Each model is truly its shape: how many processes, how many threads, and who waits where.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use e2e::client::Client;
use e2e::process::Process;
use e2e::server::{Mpm, Server};
use e2e::tool::{Load, Tool};
use e2e::trace::{Calls, Trace};
use e2e::{alone, until};

/// Numbers of system calls by their name (x86-64 and AArch64).
const FUTEX: u32 = if cfg!(target_arch = "x86_64") { 202 } else { 98 };

/// Waiting for several descriptors at once, as only event and percore should.
const WAITS: &[&str] =
    &["poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2", "io_uring_enter"];

/// Waits until the children have these numbers of threads, in order.
fn check_threads(server: &Server, expected: &[usize]) {
    let threads = || -> Option<Vec<usize>> {
        let children = server.children().ok()?;
        let mut counts: Vec<usize> =
            children.iter().map(|child| child.threads().map_or(0, |threads| threads.len())).collect();
        counts.sort_unstable();
        Some(counts)
    };
    let what = format!("threads of the children to be {expected:?}, they are {:?}", threads());
    until(&what, || (threads()? == expected).then_some(())).unwrap();
    assert_eq!(server.parent().threads().unwrap().len(), 1, "the parent forks, so it has one thread");
}

#[test]
fn prefork_is_many_processes_of_one_thread() {
    let mut server = Server::start(Mpm::Prefork, "StartServers 7\nMinSpareServers 1\nMaxSpareServers 10").unwrap();
    check_threads(&server, &[1; 7]);
    server.stop().unwrap();
}

#[test]
fn predictive_makes_the_children_that_clients_need_and_max_spare_more() {
    let mut server = Server::start(Mpm::Prefork, "SpawnPolicy predictive\nRequestReadTimeout header=0").unwrap();
    let mut clients: Vec<Client> = (0..40).map(|_| Client::connect(server.port).unwrap()).collect();
    clients.iter_mut().for_each(|client| client.send(b"GET / HTTP/1.1\r\n").unwrap());
    check_threads(&server, &[1; 40 + 10]);
    drop(clients);
    server.stop().unwrap();
}

/// Two processes of ten workers, and no reason to have more or fewer.
const TWO_BY_TEN: &str =
    "StartServers 2\nServerLimit 2\nThreadsPerChild 10\nMaxRequestWorkers 20\nMinSpareThreads 1\nMaxSpareThreads 20";

#[test]
fn worker_and_event_have_their_threads_and_one_more_in_each_child() {
    for mpm in [Mpm::Worker, Mpm::Event] {
        let mut server = Server::start(mpm, TWO_BY_TEN).unwrap();
        check_threads(&server, &[11, 11]);
        server.stop().unwrap();
    }
}

#[test]
fn percore_has_one_thread_a_core() {
    let mut server = Server::start(Mpm::Percore, "").unwrap();
    let cores = std::thread::available_parallelism().unwrap().get();
    check_threads(&server, &vec![1; cores]);
    server.stop().unwrap();
}

#[test]
fn prefork_grows_under_load_and_stays_single_threaded() {
    let mut server = Server::start(Mpm::Prefork, "StartServers 2\nMinSpareServers 2\nMaxSpareServers 100").unwrap();
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..10 {
        let mut client = Client::connect(server.port).unwrap();
        // Its own process answers it and then waits for its next request.
        assert_eq!(client.get("/page.html").unwrap().status, 200);
        clients.push(client);
    }
    let children = until("a process a connection and two spare ones", || {
        server.children().ok().filter(|children| children.len() >= 12)
    });
    for child in children.unwrap() {
        assert_eq!(child.threads().unwrap().len(), 1);
    }
    server.stop().unwrap();
}

/// The system calls of the server while a client makes `requests` requests on 20 connections.
fn calls_under_load(server: &Server, requests: u64, keep_alive: bool) -> Calls {
    settle(server);
    // With the parent, children that it forks meanwhile are traced from their first call on.
    let mut processes = server.children().unwrap();
    processes.push(server.parent());
    let trace = Trace::attach(&processes).unwrap();
    let tally = Tool::Ab.run(server, "/page.html", requests, keep_alive).unwrap();
    assert_eq!((tally.done, tally.failed), (requests, 0));
    trace.finish().unwrap()
}

/// Waits until the page has been left alone for longer than a second; before that, it is read anew for every request. Its
/// change time tells, which nobody can set.
fn settle(server: &Server) {
    let page = server.dir.path("htdocs/page.html");
    let changed = |seconds: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs());
    let age = || changed(page.metadata().ok()?.ctime()).elapsed().ok();
    until("the page to be two seconds old", || age().filter(|age| *age > Duration::from_secs(2))).unwrap();
}

#[test]
fn prefork_waits_once_for_a_connection_and_blocks_in_recv() {
    let _alone = alone();
    let fixed = "StartServers 20\nMinSpareServers 1\nMaxSpareServers 20\nServerLimit 20\nMaxRequestWorkers 20\nMaxKeepAliveRequests 0";
    let mut server = Server::start(Mpm::Prefork, fixed).unwrap();
    check_threads(&server, &[1; 20]);
    for keep_alive in [false, true] {
        let requests = 5_000;
        let calls = calls_under_load(&server, requests, keep_alive);
        let receives = calls.of(&["read", "recvfrom", "recvmsg"]);
        assert!(receives >= requests, "keep-alive {keep_alive}: {receives} receives: {calls:?}");
        let connections = if keep_alive { 20 } else { requests };
        assert!(calls.of(&["accept", "accept4"]) >= connections, "keep-alive {keep_alive}: {calls:?}");
        // A wait for each connection, or two where a child that comes back takes the one another was woken for: listening
        // sockets never block, because a reload shares them with other models. No request is waited for.
        assert!(calls.of(WAITS) < 2 * connections + requests / 100, "keep-alive {keep_alive}: {calls:?}");
    }
    server.stop().unwrap();
}

#[test]
fn idle_connections_of_event_hold_no_worker() {
    let _alone = alone();
    // One process of four workers: with worker or prefork, 200 connections would need 200 of them.
    let one =
        "StartServers 1\nServerLimit 1\nThreadsPerChild 4\nMaxRequestWorkers 4\nMinSpareThreads 1\nMaxSpareThreads 4";
    let directives = format!("{one}\nKeepAliveTimeout 60");
    let mut server = Server::start(Mpm::Event, &directives).unwrap();
    let mut clients: Vec<Client> = (0..200).map(|_| Client::connect(server.port).unwrap()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/page.html").unwrap().status, 200);
    }
    let [child] = server.children().unwrap()[..] else { panic!("one child was asked for") };
    // One of the four listens, in the child's epoll. The fourth thread that sleeps is the one that watches over them.
    until("all workers but one to be parked", || (parked(child) == 4).then_some(())).unwrap();
    let response = Client::connect(server.port).unwrap().get("/page.html").unwrap();
    assert_eq!(response.status, 200);
    // And those that were idle were not forgotten.
    for client in &mut clients {
        assert_eq!(client.get("/page.html").unwrap().status, 200);
    }
    server.stop().unwrap();
}

/// Threads of a process that sleep until another thread wakes them.
fn parked(process: Process) -> usize {
    let threads = process.threads().unwrap();
    threads.into_iter().filter(|thread| process.system_call(*thread) == Some(FUTEX)).count()
}

#[test]
fn percore_needs_less_than_one_system_call_a_request() {
    let _alone = alone();
    let mut server = Server::start(Mpm::Percore, "MaxKeepAliveRequests 0").unwrap();
    settle(&server);
    let trace = Trace::attach(&server.children().unwrap()).unwrap();
    let requests = 50_000;
    let tally = Tool::Ab.run_on(&server, "/page.html", Load { requests, connections: 100, keep_alive: true }).unwrap();
    let calls = trace.finish().unwrap();
    assert_eq!((tally.done, tally.failed), (requests, 0));
    assert!(calls.total() < requests, "{} calls for {requests} requests: {calls:?}", calls.total());
    server.stop().unwrap();
}

/// What a request may cost in system calls, kept alive and closing, start of processes and threads included: receive, look at
/// the file, send, in event a share of a wait; and for a connection of its own wait, accept, close. More means that a call
/// crept into the request's path, or that threads of event wake each other for it. Those of worker do for each connection.
#[test]
fn a_request_takes_few_system_calls() {
    let _alone = alone();
    for (mpm, kept, closing) in [(Mpm::Prefork, 4, 9), (Mpm::Worker, 4, 13), (Mpm::Event, 5, 8), (Mpm::Percore, 1, 7)] {
        for (keep_alive, most) in [(true, kept), (false, closing)] {
            let mut server = Server::start(mpm, "MaxKeepAliveRequests 0").unwrap();
            let requests = 10_000;
            let calls = calls_under_load(&server, requests, keep_alive);
            let total = calls.total();
            let what = format!("{}, kept alive {keep_alive}", mpm.name());
            assert!(total < most * requests, "{what}: {total} calls for {requests} requests: {calls:?}");
            server.stop().unwrap();
        }
    }
}
