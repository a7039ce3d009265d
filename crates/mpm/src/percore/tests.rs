//! A core in a thread, with real clients over loopback, once on io_uring and once on epoll.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use manifold_engine::phases::{Outcome, Phase, Phases};
use manifold_engine::request::{Body, Content, Request, Resource};
use manifold_engine::site::Site;

use nix::sys::socket::shutdown;

use super::*;
use crate::generation::Generation;
use crate::limits::{Limits, Model, Occasion, RawLimits, resolve};
use crate::scoreboard::{Counts, Scoreboard, Totals};

mod disk;

/// Large enough to overflow the socket buffers of both sides many times.
const LARGE: usize = 20 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq)]
enum On {
    Ring,
    Epoll,
}

/// What a test may change.
struct Setup {
    site: Site,
    limits: Limits,
    room: Room,
    /// Clients that wait to be accepted when the core begins.
    waiting: usize,
}

/// A core that serves until `connections` were accepted and the last is gone.
struct Server {
    address: SocketAddr,
    /// The parent's side of the listening socket.
    listener: TcpListener,
    scoreboard: Scoreboard,
    waiting: Vec<TcpStream>,
    thread: JoinHandle<u8>,
}

impl Server {
    /// Waits for the core to end.
    fn join(self) -> Totals {
        drop(self.waiting);
        assert_eq!(self.thread.join().unwrap(), EXIT_WELL);
        assert_eq!(self.scoreboard.server(0).counts(), Counts::default());
        self.scoreboard.totals()
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }
}

/// Runs `test` against a core on each kind of waiting. The core ends after `connections` connections.
fn check(connections: u64, change: impl Fn(&mut Setup), test: impl Fn(&Server)) {
    for on in [On::Ring, On::Epoll] {
        if let Some(server) = serve(on, connections, &change) {
            test(&server);
            assert_eq!(server.join().connections, connections, "{on:?}");
        }
    }
}

fn serve(on: On, connections: u64, change: &impl Fn(&mut Setup)) -> Option<Server> {
    // So small that everything runs over all the time.
    const OPTIONS: Options = Options { submissions: 16, completions: 16, buffers: 8, buffer_size: 512 };
    if on == On::Ring
        && let Err(error) = Ring::new(&OPTIONS)
    {
        eprintln!("skipped: io_uring not permitted ({error})");
        return None;
    }
    let (limits, _) = resolve(Model::Percore, &RawLimits::default(), 1, Occasion::Start);
    let room = Room::of(limits.max_connections as usize);
    let mut setup = Setup { site: Site::new(pages()), limits, room, waiting: 0 };
    setup.limits.max_connections_per_child = connections;
    change(&mut setup);
    let Setup { site, limits, room, waiting } = setup;
    let scoreboard = Scoreboard::new(1, 1).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let parents = listener.try_clone().unwrap();
    let waiting = (0..waiting).map(|_| TcpStream::connect(address).unwrap()).collect();
    let generation = Generation {
        number: 1,
        limits,
        site: Arc::new(site),
        scoreboard: scoreboard.clone(),
        listeners: vec![vec![listener]],
        identity: None,
        core_dump_directory: None,
    };
    let body = move || {
        let child = Child { generation: &generation, slot: 0 };
        let draining = AtomicBool::new(false);
        let host = ThreadHost::impatient(&child, 0, &draining);
        match on {
            On::Ring => Core::new(Ring::new(&OPTIONS).unwrap(), &child, &host, room).unwrap().run().unwrap(),
            On::Epoll => Core::new(EpollDriver::new().unwrap(), &child, &host, room).unwrap().run().unwrap(),
        }
    };
    let thread = Builder::new().name(format!("core on {on:?}")).spawn(body).unwrap();
    Some(Server { address, listener: parents, scoreboard, waiting, thread })
}

/// Times that a page called by a number repeats its path: just short enough to be sent in one piece.
const ECHOES: usize = 2000;

/// `/` is a short text, `/large` a file, `/memory` as much memory, and each number a page of its own.
fn pages() -> Phases {
    let bytes = Arc::clone(large());
    let path =
        std::env::temp_dir().join(format!("manifold-percore-{}-{:?}", std::process::id(), std::thread::current().id()));
    std::fs::write(&path, &bytes).unwrap();
    let file = Arc::new(File::open(&path).unwrap());
    std::fs::remove_file(path).unwrap();
    let resource = |content| Arc::new(Resource::new(content, LARGE as u64, None, b""));
    let (large, memory) = (resource(Content::File(file)), resource(Content::Memory(bytes)));
    let mut phases = Phases::new();
    phases.add(Phase::Handler, move |request: &mut Request| {
        request.response.body = match &request.path[..] {
            b"/" => Body::Bytes(b"a short text".to_vec()),
            b"/large" => Body::Resource(Arc::clone(&large)),
            b"/memory" => Body::Resource(Arc::clone(&memory)),
            [b'/', b'0'..=b'9', ..] => Body::Bytes(request.path.repeat(ECHOES)),
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

/// Reads one answer from what `stream` sends: status line and body. The rest stays in `left`.
fn read_answer(mut stream: &TcpStream, left: &mut Vec<u8>) -> (String, Vec<u8>) {
    let mut chunk = vec![0; 64 * 1024];
    loop {
        if let Some(end) = left.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(left[..end].to_vec()).unwrap();
            let length =
                head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).map_or(0, |n| n.parse().unwrap());
            if left.len() >= end + 4 + length {
                let rest = left.split_off(end + 4 + length);
                let body = left.split_off(end + 4);
                *left = rest;
                return (head, body);
            }
        }
        let n = stream.read(&mut chunk).unwrap();
        assert!(n > 0, "the connection ended within an answer, after {} bytes of it", left.len());
        left.extend_from_slice(&chunk[..n]);
    }
}

fn ask(stream: &TcpStream, request: &str) -> (String, Vec<u8>) {
    let mut writing = stream;
    writing.write_all(request.as_bytes()).unwrap();
    let mut left = Vec::new();
    let answer = read_answer(stream, &mut left);
    assert!(left.is_empty(), "more than one answer");
    answer
}

fn assert_ended(mut stream: &TcpStream) {
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "the server should have closed");
}

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const GET_LARGE: &str = "GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
const GET_CLOSE: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

fn unchanged(_: &mut Setup) {}

#[test]
fn a_connection_carries_many_requests() {
    check(2, unchanged, |server| {
        let first = server.connect();
        for _ in 0..50 {
            let (head, body) = ask(&first, GET);
            assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
            assert_eq!(body, b"a short text");
        }
        let (head, _) = ask(&server.connect(), GET_CLOSE);
        assert!(head.contains("Connection: close"), "{head}");
    });
}

#[test]
fn a_draining_core_answers_once_more_and_ends() {
    check(2, unchanged, |server| {
        let kept = server.connect();
        let (head, _) = ask(&kept, GET);
        assert!(!head.contains("close"), "{head}");
        // The second connection is the last the core accepts.
        let last = server.connect();
        ask(&last, GET);
        let (head, _) = ask(&kept, GET);
        assert!(head.contains("Connection: close"), "{head}");
        assert_ended(&kept);
    });
}

#[test]
fn a_core_whose_listener_was_shut_drains() {
    let unlimited = |setup: &mut Setup| setup.limits.max_connections_per_child = 0;
    check(1, unlimited, |server| {
        let kept = server.connect();
        ask(&kept, GET);
        shutdown(server.listener.as_raw_fd(), nix::sys::socket::Shutdown::Both).unwrap();
        // However many requests it takes until the core has noticed.
        while !ask(&kept, GET).0.contains("Connection: close") {}
        assert_ended(&kept);
    });
}

#[test]
fn connections_that_a_draining_core_was_woken_for_are_served() {
    let change = |setup: &mut Setup| (setup.limits.max_connections_per_child, setup.waiting) = (1, 20);
    check(20, change, |server| {
        for stream in &server.waiting {
            let (head, _) = ask(stream, GET);
            assert!(head.contains("Connection: close"), "{head}");
            assert_ended(stream);
        }
    });
}

#[test]
fn nobody_is_forgotten_when_many_are_ready_at_the_same_time() {
    const CLIENTS: usize = 300;
    const ROUNDS: usize = 5;
    check(CLIENTS as u64 + 1, unchanged, |server| {
        let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| server.connect()).collect();
        for round in 0..ROUNDS {
            for (index, mut client) in clients.iter().enumerate() {
                client.write_all(GET.repeat(1 + (index + round) % 4).as_bytes()).unwrap();
            }
            for (index, client) in clients.iter().enumerate() {
                let mut left = Vec::new();
                for _ in 0..1 + (index + round) % 4 {
                    assert_eq!(read_answer(client, &mut left).1, b"a short text");
                }
            }
        }
        ask(&server.connect(), GET_CLOSE);
    });
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    check(2, unchanged, |server| {
        let stream = server.connect();
        let paths = ["/", "/missing", "/memory", "/", "/large", "/missing", "/"];
        let mut requests = String::new();
        for path in paths {
            requests += &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        }
        (&stream).write_all(requests.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut left = Vec::new();
        for path in paths {
            let (head, body) = read_answer(&stream, &mut left);
            match path {
                "/" => assert_eq!(body, b"a short text"),
                "/missing" => assert!(head.starts_with("HTTP/1.1 404"), "{head}"),
                _ => assert!(body[..] == large()[..], "{path} arrived broken"),
            }
        }
        assert_ended(&stream);
        ask(&server.connect(), GET_CLOSE);
    });
}

#[test]
fn answers_come_in_order_however_late_the_client_takes_them() {
    /// So many that they overflow the buffers of both sides.
    const REQUESTS: usize = 1500;
    check(
        2,
        |setup| setup.site.max_keep_alive_requests = 0,
        |server| {
            let stream = server.connect();
            let (mut writing, mut left) = (stream.try_clone().unwrap(), Vec::new());
            let writer = Builder::new().spawn(move || {
                for number in 0..REQUESTS {
                    let last = if number + 1 == REQUESTS { "Connection: close\r\n" } else { "" };
                    writing.write_all(format!("GET /{number} HTTP/1.1\r\nHost: x\r\n{last}\r\n").as_bytes()).unwrap();
                }
            });
            let writer = writer.unwrap();
            std::thread::sleep(Duration::from_millis(200));
            for number in 0..REQUESTS {
                let (head, body) = read_answer(&stream, &mut left);
                assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
                assert!(body == format!("/{number}").repeat(ECHOES).as_bytes(), "answer {number} is not its own");
            }
            writer.join().unwrap();
            assert_ended(&stream);
            ask(&server.connect(), GET_CLOSE);
        },
    );
}

#[test]
fn a_head_may_come_byte_by_byte_and_a_body_is_passed_over() {
    check(1, unchanged, |server| {
        let mut stream = server.connect();
        stream.set_nodelay(true).unwrap();
        let request = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3000\r\n\r\n{}", "b".repeat(3000));
        for byte in request.as_bytes().chunks(7) {
            stream.write_all(byte).unwrap();
        }
        let (head, _) = read_answer(&stream, &mut Vec::new());
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    });
}

#[test]
fn a_slow_reader_gets_every_byte_while_others_are_served() {
    check(3, unchanged, |server| {
        let slow = server.connect();
        let slow_memory = server.connect();
        (&slow).write_all(GET_LARGE.as_bytes()).unwrap();
        (&slow_memory).write_all(GET_LARGE.replace("large", "memory").as_bytes()).unwrap();
        // Both answers are stuck in full sockets now, or will be; the third connection does not care.
        ask(&server.connect(), GET_CLOSE);
        for stream in [slow, slow_memory] {
            let (_, body) = read_answer(&stream, &mut Vec::new());
            assert!(body[..] == large()[..], "the file arrived broken");
            assert_ended(&stream);
        }
    });
}

#[test]
fn a_client_that_vanishes_within_an_answer_leaves_nothing_behind() {
    check(20, unchanged, |server| {
        for round in 0..20 {
            let mut stream = server.connect();
            stream.write_all(if round % 2 == 0 { GET_LARGE } else { GET }.as_bytes()).unwrap();
            stream.read_exact(&mut [0; 100]).unwrap();
            // Bytes that were not read turn the close into a reset.
        }
    });
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3600);

/// What a client on a full core does before another one comes.
#[derive(Clone, Copy, Debug)]
enum Holds {
    /// It was answered, and is idle.
    Idle,
    /// It has sent half a head.
    HalfAHead,
    /// It does not read its answer.
    Unread,
    /// It has said nothing so far; its request may be on its way.
    Silent,
}

#[test]
fn a_full_core_closes_who_was_idle_longest_or_says_503() {
    use Holds::{HalfAHead, Idle, Silent, Unread};
    // Who holds the places, in this order; who of them has to make room while silence is taken for a request on its way,
    // and who once it is not. If nobody has to, the new client is refused.
    let rows: [(&[Holds], Option<usize>, Option<usize>); 8] = [
        (&[Idle], Some(0), Some(0)),
        (&[Idle, Idle, Idle], Some(0), Some(0)),
        (&[HalfAHead, Idle, Idle], Some(1), Some(1)),
        (&[Unread, Silent, Idle], Some(2), Some(2)),
        (&[HalfAHead], None, None),
        (&[Unread], None, None),
        (&[Silent], None, Some(0)),
        (&[HalfAHead, Unread, Silent], None, Some(2)),
    ];
    let rows = rows.iter().flat_map(|row| [(row.0, row.1, LONG / 2), (row.0, row.2, Duration::ZERO)]);
    for (holders, gives_way, silence) in rows {
        let full = |setup: &mut Setup| {
            setup.room = Room { silence, ..Room::of(holders.len()) };
            (setup.site.timeout, setup.site.keep_alive_timeout) = (LONG * 2, LONG);
            setup.site.read_timeouts.header.timeout = LONG;
        };
        check(holders.len() as u64 + 1, full, |server| {
            let held: Vec<TcpStream> = holders.iter().map(|holds| hold(server, *holds)).collect();
            let newcomer = server.connect();
            let (head, _) = ask(&newcomer, GET_CLOSE);
            assert_ended(&newcomer);
            let (shed, refused) = server.scoreboard.server(0).shed();
            match gives_way {
                Some(index) => {
                    assert!(head.starts_with("HTTP/1.1 200"), "{holders:?}: {head}");
                    assert_eq!((shed, refused), (1, 0), "{holders:?}");
                    assert_ended(&held[index]);
                }
                None => {
                    assert!(
                        head.starts_with("HTTP/1.1 503") && head.contains("\r\nRetry-After: "),
                        "{holders:?}: {head}"
                    );
                    assert_eq!((shed, refused), (0, 1), "{holders:?}");
                }
            }
        });
    }
}

/// Opens a connection that takes a place, and waits until the core knows.
fn hold(server: &Server, holds: Holds) -> TcpStream {
    let counts = || server.scoreboard.server(0).counts();
    let before = counts();
    let mut stream = server.connect();
    match holds {
        Holds::Idle => {
            ask(&stream, GET);
            until(|| counts().keep_alive > before.keep_alive);
        }
        Holds::HalfAHead => {
            stream.write_all(&GET.as_bytes()[..10]).unwrap();
            until(|| counts().wait_io > before.wait_io);
        }
        Holds::Unread => {
            stream.write_all(GET_LARGE.as_bytes()).unwrap();
            until(|| counts().writing > before.writing);
        }
        Holds::Silent => until(|| counts().open > before.open),
    }
    stream
}

/// Waits for a condition that is sure to come; a hang is the failure.
fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

#[test]
fn everybody_is_told_however_many_come_to_a_full_core() {
    const NEWCOMERS: u64 = 200;
    check(
        NEWCOMERS + 1,
        |setup| setup.room = Room::of(1),
        |server| {
            let holder = hold(server, Holds::HalfAHead);
            let newcomers: Vec<TcpStream> = (0..NEWCOMERS).map(|_| server.connect()).collect();
            // Of those that linger at the same time there is a bound, and the core goes on accepting.
            until(|| server.scoreboard.server(0).shed().1 == NEWCOMERS);
            for newcomer in &newcomers {
                let (head, _) = read_answer(newcomer, &mut Vec::new());
                assert!(head.starts_with("HTTP/1.1 503"), "{head}");
                assert_ended(newcomer);
            }
            assert_eq!(server.scoreboard.server(0).counts().wait_io, 1, "the first one has kept its place");
            (&holder).write_all(&GET_CLOSE.as_bytes()[10..]).unwrap();
            assert!(read_answer(&holder, &mut Vec::new()).0.starts_with("HTTP/1.1 200"));
        },
    );
}

#[test]
fn an_idle_connection_is_closed_when_its_time_is_over() {
    let short = |setup: &mut Setup| {
        setup.site.keep_alive_timeout = Duration::from_millis(50);
        setup.site.timeout = Duration::from_millis(100);
    };
    check(3, short, |server| {
        let (kept, silent, half) = (server.connect(), server.connect(), server.connect());
        ask(&kept, GET);
        (&half).write_all(b"GET / HT").unwrap();
        assert_ended(&kept);
        assert_ended(&silent);
        let (head, _) = read_answer(&half, &mut Vec::new());
        assert!(head.starts_with("HTTP/1.1 408"), "{head}");
        half.shutdown(Shutdown::Write).unwrap();
        assert_ended(&half);
    });
}

#[test]
fn a_client_that_takes_nothing_is_given_up() {
    let short = |setup: &mut Setup| setup.site.timeout = Duration::from_millis(100);
    for path in ["large", "memory"] {
        check(1, short, |server| {
            let stream = server.connect();
            (&stream).write_all(GET_LARGE.replace("large", path).as_bytes()).unwrap();
            // `check` waits for the core to end, which needs this connection's end; only then is anything read.
            let deadline = std::time::Instant::now() + Duration::from_secs(20);
            while !server.thread.is_finished() {
                assert!(std::time::Instant::now() < deadline, "the connection was not given up");
                std::thread::yield_now();
            }
        });
    }
}

#[test]
fn a_refused_request_is_answered_although_the_client_goes_on_sending() {
    check(1, unchanged, |server| {
        let mut stream = server.connect();
        stream.write_all(b"nonsense\r\n\r\n").unwrap();
        // Unread bytes at a plain close would reset the connection, and the answer might be lost.
        stream.write_all(&[b'x'; 100_000]).unwrap();
        let (head, _) = read_answer(&stream, &mut Vec::new());
        assert!(head.starts_with("HTTP/1.1 400"), "{head}");
        assert_ended(&stream);
    });
}

#[test]
fn a_client_that_sends_ahead_of_its_answers_is_left_waiting() {
    check(
        2,
        |setup| setup.site.max_keep_alive_requests = 0,
        |server| {
            const REQUESTS: usize = 5_000;
            // Several times what the core may take in while the first answer is stuck; it would trip over its own bound.
            let request = format!("GET / HTTP/1.1\r\nHost: x\r\nPadding: {}\r\n\r\n", "p".repeat(2000));
            let requests = format!("GET /large HTTP/1.1\r\nHost: x\r\n\r\n{}", request.repeat(REQUESTS)).into_bytes();
            let stream = server.connect();
            // Once a connection was kept alive, bytes are received without being asked for.
            ask(&stream, GET);
            let written = write_impatiently(&stream, &requests);
            let mut writing = stream.try_clone().unwrap();
            let writer = Builder::new().spawn(move || writing.write_all(&requests[written..]).unwrap()).unwrap();
            let mut left = Vec::new();
            assert!(read_answer(&stream, &mut left).1[..] == large()[..], "the file arrived broken");
            for _ in 0..REQUESTS {
                assert_eq!(read_answer(&stream, &mut left).1, b"a short text");
            }
            writer.join().unwrap();
            drop(stream);
            ask(&server.connect(), GET_CLOSE);
        },
    );
}

/// Writes until the socket stayed full for a good while; returns how much was written.
fn write_impatiently(mut stream: &TcpStream, bytes: &[u8]) -> usize {
    stream.set_nonblocking(true).unwrap();
    let (mut written, mut refusals) = (0, 0);
    while written < bytes.len() && refusals < 20_000 {
        match stream.write(&bytes[written..]) {
            Ok(n) => (written, refusals) = (written + n, 0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                refusals += 1;
                std::thread::yield_now();
            }
            Err(error) => panic!("{error} after {written} bytes"),
        }
    }
    stream.set_nonblocking(false).unwrap();
    written
}

/// A small generator of pseudo-random numbers, so that a failing run can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

#[test]
fn clients_of_every_bad_manner_leave_nothing_behind() {
    const CLIENTS: u64 = 4;
    const CONNECTIONS: u64 = 150;
    let change = |setup: &mut Setup| {
        setup.site.timeout = Duration::from_millis(300);
        setup.room = Room { silence: Duration::from_millis(1), ..Room::of(10) };
    };
    check(CLIENTS * CONNECTIONS, change, |server| {
        let address = server.address;
        let client = move |seed: u64| {
            let mut dice = Dice(seed * 7919 + 1);
            for _ in 0..CONNECTIONS {
                misbehave(&TcpStream::connect(address).unwrap(), &mut dice);
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|seed| Builder::new().spawn(move || client(seed)).unwrap()).collect();
        for client in clients {
            client.join().unwrap();
        }
    });
}

/// Does a few random things with a connection and leaves it, mostly in the middle of something. Errors are expected: the
/// server may close first.
fn misbehave(mut stream: &TcpStream, dice: &mut Dice) {
    let mut chunk = [0; 5000];
    stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(5))).unwrap();
    for _ in 0..dice.below(6) {
        let _the_server_may_have_closed = match dice.below(9) {
            0 => stream.write(GET.as_bytes()),
            1 => stream.write(&GET.as_bytes()[..dice.below(20) as usize]),
            2 => stream.write(GET_LARGE.as_bytes()),
            3 => stream.write(GET.repeat(50).as_bytes()),
            4 => stream.write(b"GET /memory HTTP/1.1\r\nHost: x\r\n\r\n"),
            5 => stream.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nsome of it"),
            6 => stream.write(b"nonsense\r\n\r\n"),
            7 => stream.shutdown(Shutdown::Write).map(|()| 0),
            _ => stream.read(&mut chunk),
        };
    }
}
