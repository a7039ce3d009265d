//! The responder over real sockets: every request gets the one answer, however its bytes come, and connections live as asked.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

use manifold_load::responder::args::Options;
use manifold_load::responder::serve;

const PAGE: &[u8] = b"<html><body><h1>It works!</h1></body></html>";
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const LAST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// A responder in a thread of its own; it ends when this is dropped, because the other end of its `stop` is closed then.
struct Running {
    address: SocketAddr,
    _stop: UnixStream,
}

fn start(options: Options) -> Running {
    let (ours, stop) = UnixStream::pair().unwrap();
    let (tell, told) = mpsc::channel();
    let body = move || serve(&options, stop.as_fd(), |address| tell.send(address).unwrap()).unwrap();
    std::thread::Builder::new().spawn(body).unwrap();
    Running { address: told.recv().unwrap(), _stop: ours }
}

impl Running {
    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }
}

fn options(body: usize, sendfile: bool) -> Options {
    Options { body, sendfile, ..Options::default() }
}

fn answer(body: &[u8], connection: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: {connection}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn body(length: usize) -> Vec<u8> {
    PAGE.iter().copied().cycle().take(length).collect()
}

fn all(mut stream: TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[test]
fn requests_are_answered_however_their_bytes_come() {
    // From a small page to one that fills the socket's buffers many times, which makes sends stop anywhere.
    for (length, sendfile) in
        [(44, false), (44, true), (139_264, false), (139_264, true), (9_000_000, true), (0, false)]
    {
        let running = start(options(length, sendfile));
        let several = 5;
        let requests = [GET.repeat(several), LAST.to_vec()].concat();
        let body = body(length);
        let expected = [answer(&body, "keep-alive").repeat(several), answer(&body, "close")].concat();
        for piece in [requests.len(), 1, 20] {
            let mut stream = running.connect();
            for bytes in requests.chunks(piece) {
                stream.write_all(bytes).unwrap();
            }
            assert!(all(stream).unwrap() == expected, "{length} bytes, sendfile {sendfile}, pieces of {piece}");
        }
    }
}

#[test]
fn many_pipelined_requests_are_counted() {
    let running = start(options(44, false));
    let several = 10_000;
    let stream = running.connect();
    let mut sending = stream.try_clone().unwrap();
    let sent = std::thread::Builder::new().spawn(move || {
        sending.write_all(&GET.repeat(several)).unwrap();
        sending.shutdown(Shutdown::Write).unwrap();
    });
    assert!(all(stream).unwrap() == answer(PAGE, "keep-alive").repeat(several));
    sent.unwrap().join().unwrap();
}

#[test]
fn connections_live_as_asked() {
    let running = start(options(44, false));
    let head_only = &answer(PAGE, "close")[..answer(PAGE, "close").len() - PAGE.len()];
    for (request, expected) in [
        (&b"GET / HTTP/1.0\r\n\r\n"[..], &answer(PAGE, "close")[..]),
        (b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", head_only),
        (&[b'x'; 20_000], b""),
    ] {
        let mut stream = running.connect();
        stream.write_all(request).unwrap();
        // What is closed with bytes unread is reset, and then the kernel may drop what was sent before.
        assert_eq!(all(stream).unwrap_or_default(), expected, "{}", request.escape_ascii());
    }
    let mut stream = running.connect();
    let mut one = vec![0; answer(PAGE, "keep-alive").len()];
    for request in [&b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"[..], GET, GET] {
        stream.write_all(request).unwrap();
        stream.read_exact(&mut one).unwrap();
        assert_eq!(one, answer(PAGE, "keep-alive"));
    }
    // The client ends the connection; the server does so as well.
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut one).unwrap(), 0);
}

#[test]
fn connections_beyond_the_bound_wait_for_room() {
    let running = start(Options { max_connections: 2, ..Options::default() });
    let mut one = vec![0; answer(PAGE, "keep-alive").len()];
    let mut open: Vec<TcpStream> = (0..2).map(|_| running.connect()).collect();
    for stream in &mut open {
        stream.write_all(GET).unwrap();
        stream.read_exact(&mut one).unwrap();
    }
    let mut third = running.connect();
    third.write_all(LAST).unwrap();
    third.set_nonblocking(true).unwrap();
    // The others are served while it waits.
    for stream in &mut open {
        stream.write_all(GET).unwrap();
        stream.read_exact(&mut one).unwrap();
    }
    assert_eq!(third.read(&mut one).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(open.pop());
    third.set_nonblocking(false).unwrap();
    assert_eq!(all(third).unwrap(), answer(PAGE, "close"));
}

#[test]
fn an_address_in_use_is_named() {
    let running = start(Options::default());
    let (_ours, stop) = UnixStream::pair().unwrap();
    let taken = Options { listen: running.address, ..Options::default() };
    let said = serve(&taken, stop.as_fd(), |_| {}).unwrap_err().to_string();
    assert!(said.contains(&format!("cannot listen on {}", running.address)), "{said}");
}
