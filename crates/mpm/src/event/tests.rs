//! A child of event in a thread, with real clients over loopback.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle, yield_now};
use std::time::{Duration, Instant};

use manifold_engine::phases::{Outcome, Phase, Phases};
use manifold_engine::request::{Body, Content, Request, Resource};
use manifold_engine::site::Site;
use nix::sys::socket::shutdown;

use super::room::{Doors, Room};
use super::*;
use crate::child::EXIT_WELL;
use crate::generation::Generation;
use crate::limits::{Limits, Model, Occasion, RawLimits, resolve};
use crate::scoreboard::{Counts, Scoreboard, ServerState};

/// Large enough to overflow the socket buffers of both sides many times.
const LARGE: usize = 20 * 1024 * 1024;

/// A child that serves until `connections` were accepted and the last is gone.
struct Server {
    address: SocketAddr,
    /// The parent's side of the listening socket.
    listener: TcpListener,
    scoreboard: Scoreboard,
    thread: JoinHandle<u8>,
}

impl Server {
    fn start(connections: u64, change: impl Fn(&mut Site, &mut Limits)) -> Server {
        let limits = |site: &mut Site, limits: &mut Limits| {
            limits.max_connections_per_child = connections;
            change(site, limits);
        };
        let generation = generation(1, limits);
        let scoreboard = generation.scoreboard.clone();
        let listener = generation.listeners[0][0].try_clone().unwrap();
        let address = listener.local_addr().unwrap();
        let body = move || child_main(&Child { generation: &generation, slot: 0 });
        let thread = Builder::new().name("a child of event".to_owned()).spawn(body).unwrap();
        Server { address, listener, scoreboard, thread }
    }

    /// Waits for the child to end.
    fn join(self) {
        assert_eq!(self.thread.join().unwrap(), EXIT_WELL);
        assert_eq!(self.scoreboard.server(0).counts(), Counts::default(), "every counter returns to nothing");
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    fn connect_and_ask(&self, request: &str) -> TcpStream {
        let stream = self.connect();
        assert!(ask(&stream, request).0.starts_with("HTTP/1.1 200"));
        stream
    }

    /// Waits until the scoreboard counts connections so.
    fn await_counts(&self, wanted: Counts) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut counts = self.scoreboard.server(0).counts();
        while counts != wanted {
            assert!(Instant::now() < deadline, "{counts:?} instead of {wanted:?}");
            yield_now();
            counts = self.scoreboard.server(0).counts();
        }
    }
}

/// A generation of at most so many processes, the first of which is starting.
fn generation(processes: u32, change: impl Fn(&mut Site, &mut Limits)) -> Generation {
    let mut site = Site::new(pages());
    let (mut limits, _) = resolve(Model::Event, &RawLimits::default(), 1, Occasion::Start);
    change(&mut site, &mut limits);
    limits.max_request_workers = limits.threads_per_child * processes;
    let scoreboard = Scoreboard::new(processes as usize, limits.threads_per_child as usize).unwrap();
    scoreboard.server(0).set_state(ServerState::Starting);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    Generation {
        number: 1,
        limits,
        site: Arc::new(site),
        scoreboard,
        listeners: vec![vec![listener]],
        identity: None,
        core_dump_directory: None,
    }
}

/// `/` is a short text, `/panic` makes its worker panic, `/large` a file, `/memory` as much memory.
fn pages() -> Phases {
    let bytes = Arc::clone(large());
    let path =
        std::env::temp_dir().join(format!("manifold-event-{}-{:?}", std::process::id(), std::thread::current().id()));
    std::fs::write(&path, &bytes).unwrap();
    let file = Arc::new(std::fs::File::open(&path).unwrap());
    std::fs::remove_file(path).unwrap();
    let resource = |content| Arc::new(Resource::new(content, LARGE as u64, None, b""));
    let (large, memory) = (resource(Content::File(file)), resource(Content::Memory(bytes)));
    let mut phases = Phases::new();
    phases.add(Phase::Handler, move |request: &mut Request| {
        request.response.body = match &request.path[..] {
            b"/" => Body::Bytes(b"a short text".to_vec()),
            b"/large" => Body::Resource(Arc::clone(&large)),
            b"/panic" => panic!("as the test wants it"),
            b"/memory" => Body::Resource(Arc::clone(&memory)),
            _ => return Outcome::Declined,
        };
        Outcome::Done
    });
    phases
}

fn large() -> &'static Arc<[u8]> {
    static BYTES: OnceLock<Arc<[u8]>> = OnceLock::new();
    BYTES.get_or_init(|| (0..LARGE).map(|n| (n % 251) as u8).collect())
}

/// Reads one answer: head and body.
fn read_answer(mut stream: &TcpStream) -> (String, Vec<u8>) {
    let (mut got, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        if let Some(end) = got.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(got[..end].to_vec()).unwrap();
            let length =
                head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).map_or(0, |n| n.parse().unwrap());
            got.drain(..end + 4);
            let had = got.len();
            got.resize(length, 0);
            stream.read_exact(&mut got[had..]).unwrap();
            return (head, got);
        }
        let n = stream.read(&mut chunk).unwrap();
        assert!(n > 0, "the connection ended within a head");
        got.extend_from_slice(&chunk[..n]);
    }
}

fn ask(stream: &TcpStream, request: &str) -> (String, Vec<u8>) {
    send(stream, request);
    read_answer(stream)
}

fn send(mut stream: &TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
}

fn assert_ended(mut stream: &TcpStream) {
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "the server should have closed");
}

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const GET_CLOSE: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
const GET_LARGE: &str = "GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
/// Refused before its body is there: the server lingers.
const TOO_LARGE: &str = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\nx";

#[test]
fn a_parked_connection_costs_a_hundred_bytes() {
    type Future = std::future::Ready<Finished<'static>>;
    let bytes = size_of::<Place>() + size_of::<Slot<Future>>();
    assert!(bytes <= 104, "a slot has {bytes} bytes");
}

#[test]
fn parked_connections_are_counted_by_what_they_wait_for_and_keep_no_one_out() {
    let one_thread = |site: &mut Site, limits: &mut Limits| {
        (limits.threads_per_child, limits.async_factor) = (1, 1.0);
        (site.keep_alive_timeout, site.limit_request_body) = (Duration::from_secs(60), 98);
    };
    let server = Server::start(302, one_thread);
    let mut parked: Vec<TcpStream> = Vec::new();
    for round in 0..300 {
        let stream = server.connect();
        match round % 6 {
            0 => assert_eq!(ask(&stream, GET).1, b"a short text"),
            1 => send(&stream, "GET / HT"),
            2 => send(&stream, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"),
            3 => send(&stream, GET_LARGE),
            4 => send(&stream, &GET_LARGE.replace("large", "memory")),
            _ => assert!(ask(&stream, TOO_LARGE).0.starts_with("HTTP/1.1 413")),
        }
        parked.push(stream);
    }
    server.await_counts(Counts { open: 300, keep_alive: 50, wait_io: 100, writing: 100, lingering: 50 });
    server.connect_and_ask(GET_CLOSE);
    for (round, stream) in parked.iter().enumerate().take(12) {
        match round % 6 {
            0 => assert_eq!(ask(stream, GET).1, b"a short text"),
            1 => assert!(ask(stream, &GET_CLOSE["GET / HT".len()..]).0.starts_with("HTTP/1.1 200")),
            2 => assert!(ask(stream, "12345678").0.starts_with("HTTP/1.1 200")),
            3 | 4 => assert!(read_answer(stream).1[..] == large()[..], "the answer arrived broken"),
            _ => assert_ended(stream),
        }
    }
    drop(parked);
    server.await_counts(Counts::default());
    server.connect_and_ask(GET_CLOSE);
    server.join();
}

#[test]
fn a_full_process_closes_what_was_idle_for_longest() {
    let small = |site: &mut Site, limits: &mut Limits| {
        limits.max_connections = 4;
        site.keep_alive_timeout = Duration::from_secs(60);
    };
    let server = Server::start(6, small);
    let busy = server.connect();
    send(&busy, "GET / HT");
    server.await_counts(Counts { open: 1, wait_io: 1, ..Counts::default() });
    let mut idle = Vec::new();
    for keep_alive in 1..=3 {
        idle.push(server.connect_and_ask(GET));
        server.await_counts(Counts { open: 1 + keep_alive, keep_alive, wait_io: 1, ..Counts::default() });
    }
    // The first is not the oldest any more.
    assert_eq!(ask(&idle[0], GET).1, b"a short text");
    server.connect_and_ask(GET_CLOSE);
    assert_ended(&idle[1]);
    assert_eq!(ask(&idle[2], GET).1, b"a short text");
    assert_eq!(ask(&idle[0], GET).1, b"a short text");
    assert_eq!(ask(&busy, &GET_CLOSE["GET / HT".len()..]).1, b"a short text");
    server.connect_and_ask(GET_CLOSE);
    drop(idle);
    server.join();
}

#[test]
fn a_full_process_without_an_idle_connection_says_so() {
    let server = Server::start(3, |_, limits| limits.max_connections = 2);
    let busy: Vec<TcpStream> = (0..2).map(|_| server.connect()).collect();
    busy.iter().for_each(|stream| send(stream, "GET / HT"));
    server.await_counts(Counts { open: 2, wait_io: 2, ..Counts::default() });
    for _ in 0..3 {
        let refused = server.connect();
        let (head, _) = ask(&refused, GET);
        assert!(head.starts_with("HTTP/1.1 503"), "{head}");
        assert!(head.contains("Retry-After: ") && head.contains("Connection: close"), "{head}");
        assert_ended(&refused);
    }
    assert!(!server.scoreboard.server(0).is_accepting(), "the parent has to know");
    assert_eq!(ask(&busy[0], &GET_CLOSE["GET / HT".len()..]).1, b"a short text");
    assert_ended(&busy[0]);
    server.await_counts(Counts { open: 1, wait_io: 1, ..Counts::default() });
    server.connect_and_ask(GET_CLOSE);
    drop(busy);
    server.join();
}

#[test]
fn a_full_process_refuses_only_when_no_other_will_help() {
    let generation = generation(2, |_, limits| limits.max_connections = 1);
    let child = Child { generation: &generation, slot: 0 };
    let (epoll, wake) = (Epoll::new(EpollCreateFlags::empty()).unwrap(), EventFd::new().unwrap());
    let places = Table::new(1);
    let shared = Shared::new(&child, &epoll, &wake, &places, 1);
    let (mut room, now, mut ready) = (Room::new("x"), Instant::now(), Vec::new());
    let own = child.server();
    own.set_state(ServerState::Running);
    assert_eq!(room.doors(&shared, now), Doors::Open);
    own.add_open(1);
    assert_eq!(room.doors(&shared, now), Doors::Full);
    assert!(room.make(&shared, now, &mut ready), "the parent may make another process");
    assert_eq!(room.doors(&shared, now), Doors::Shut, "meanwhile clients wait");
    let later = now + Duration::from_secs(4);
    assert_eq!(room.doors(&shared, later), Doors::Full);
    assert!(!room.make(&shared, later, &mut ready), "it did not");
    let other = generation.scoreboard.server(1);
    other.set_state(ServerState::Running);
    assert_eq!(room.doors(&shared, later), Doors::Shut, "the other process takes them");
    other.set_accepting(false);
    assert_eq!(room.doors(&shared, later), Doors::Full);
    assert!(!room.make(&shared, later, &mut ready), "both are full, and there may not be a third");
    own.add_open(-1);
    assert_eq!(room.doors(&shared, later), Doors::Open);
    assert!(ready.is_empty(), "nothing was idle");
}

#[test]
fn a_worker_that_panics_loses_its_connection_and_nothing_else() {
    let server = Server::start(3, |_, limits| limits.threads_per_child = 1);
    let kept = server.connect_and_ask(GET);
    let lost = server.connect();
    send(&lost, &GET.replace("/ ", "/panic "));
    assert_ended(&lost);
    server.await_counts(Counts { open: 1, keep_alive: 1, ..Counts::default() });
    assert_eq!(ask(&kept, GET).1, b"a short text");
    server.connect_and_ask(GET_CLOSE);
    drop(kept);
    server.join();
}

#[test]
fn a_draining_child_answers_once_more_and_ends() {
    let patient = |site: &mut Site, _: &mut Limits| site.keep_alive_timeout = Duration::from_secs(60);
    let server = Server::start(2, patient);
    let kept = server.connect_and_ask(GET);
    // The second connection is the last the child accepts.
    server.connect_and_ask(GET_CLOSE);
    let (head, _) = ask(&kept, GET);
    assert!(head.contains("Connection: close"), "{head}");
    assert_ended(&kept);
    drop(kept);
    server.join();
}

#[test]
fn a_child_whose_listener_was_shut_drains() {
    let server = Server::start(0, |_, _| {});
    let kept = server.connect_and_ask(GET);
    shutdown(server.listener.as_raw_fd(), nix::sys::socket::Shutdown::Both).unwrap();
    // However many requests it takes until the child has noticed.
    while !ask(&kept, GET).0.contains("Connection: close") {}
    assert_ended(&kept);
    drop(kept);
    server.join();
}

#[test]
fn clients_whose_time_is_over_are_left() {
    let short = |site: &mut Site, _: &mut Limits| {
        site.keep_alive_timeout = Duration::from_millis(50);
        site.timeout = Duration::from_millis(100);
    };
    let server = Server::start(4, short);
    let (kept, silent, half, slow) = (server.connect(), server.connect(), server.connect(), server.connect());
    ask(&kept, GET);
    send(&half, "GET / HT");
    send(&slow, GET_LARGE);
    assert_ended(&kept);
    assert_ended(&silent);
    let (head, _) = read_answer(&half);
    assert!(head.starts_with("HTTP/1.1 408"), "{head}");
    half.shutdown(Shutdown::Write).unwrap();
    assert_ended(&half);
    // The child ends, though this client never took its answer.
    server.join();
    drop(slow);
}

#[test]
fn a_client_that_takes_much_at_once_gets_it_in_shares() {
    let server = Server::start(6, |_, limits| limits.threads_per_child = 1);
    std::thread::scope(|scope| {
        for path in ["large", "memory", "large", "memory", "large", "memory"] {
            let server = &server;
            scope.spawn(move || {
                let stream = server.connect();
                let (_, body) = ask(&stream, &GET_LARGE.replace("large", path));
                assert!(body[..] == large()[..], "{path} arrived broken");
                assert_ended(&stream);
            });
        }
    });
    server.join();
}
