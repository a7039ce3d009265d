//! The generator over TLS against servers that behave in every way a server can, on io_uring and on epoll.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::cell::Cell;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use manifold_load::native::args::{Command, parse};
use manifold_load::native::run;
use manifold_load::report::Report;
use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};

type Secured = StreamOwned<ServerConnection, TcpStream>;
/// What a server does with a connection once the handshake is over.
type Behaviour = fn(Secured) -> io::Result<()>;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
const ENDLESS: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello";

/// An authority, and a server's certificate of it.
struct Pki {
    authority: Issuer<'static, KeyPair>,
    root: Certificate,
    directory: PathBuf,
}

impl Pki {
    fn new(name: &str) -> Pki {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).unwrap();
        let directory = std::env::temp_dir().join(format!("manifold-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("root.pem"), root.pem()).unwrap();
        Pki { authority: Issuer::new(params, key), root, directory }
    }

    /// The option that trusts this authority.
    fn trusted(&self) -> String {
        format!("--cacert {}", self.directory.join("root.pem").display())
    }

    fn server(&self) -> Server {
        Server {
            names: vec!["127.0.0.1".to_owned(), "localhost".to_owned()],
            expired: false,
            versions: vec![&TLS12, &TLS13],
            clients: None,
        }
    }

    /// Files of a client's certificate and its key.
    fn client(&self) -> String {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["client".to_owned()]).unwrap().signed_by(&key, &self.authority);
        let (at, key_at) = (self.directory.join("client.pem"), self.directory.join("client.key"));
        std::fs::write(&at, certificate.unwrap().pem()).unwrap();
        std::fs::write(&key_at, key.serialize_pem()).unwrap();
        format!("--cert {} --key {}", at.display(), key_at.display())
    }
}

impl Drop for Pki {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.directory);
    }
}

/// How a server is set up.
struct Server {
    names: Vec<String>,
    expired: bool,
    versions: Vec<&'static SupportedProtocolVersion>,
    /// Clients need a certificate of this authority.
    clients: Option<CertificateDer<'static>>,
}

impl Server {
    fn config(&self, pki: &Pki) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(self.names.clone()).unwrap();
        if self.expired {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        }
        let certificate = params.signed_by(&key, &pki.authority).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&self.versions);
        let builder = match &self.clients {
            None => builder.unwrap().with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.unwrap().with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Arc::new(builder.with_single_cert(vec![certificate.der().clone()], key.into()).unwrap())
    }
}

/// Starts a server whose connections are for `accept`, which is told how many there were before; the first is that on which
/// `manifold load` looks whether somebody is there.
fn listen(accept: impl Fn(TcpStream, usize) -> io::Result<()> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let accepting = std::thread::Builder::new().spawn(move || {
        let (number, accept) = (AtomicUsize::new(0), Arc::new(accept));
        for stream in listener.incoming().flatten() {
            let (number, accept) = (number.fetch_add(1, Ordering::Relaxed), Arc::clone(&accept));
            // Errors here are the client's close, which the report under test tells about.
            let _thread = std::thread::Builder::new().spawn(move || accept(stream, number)).unwrap();
        }
    });
    accepting.unwrap();
    url
}

fn serve(config: Arc<ServerConfig>, behave: Behaviour) -> String {
    listen(move |stream, _| behave(secure(stream, &config)?))
}

fn secure(stream: TcpStream, config: &Arc<ServerConfig>) -> io::Result<Secured> {
    stream.set_nodelay(true)?;
    let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    Ok(StreamOwned::new(connection, stream))
}

/// Reads one request head; false at the end of the stream.
fn request(stream: &mut Secured) -> io::Result<bool> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte)? == 0 {
            return Ok(false);
        }
        head.push(byte[0]);
    }
    Ok(true)
}

fn always(mut stream: Secured) -> io::Result<()> {
    while request(&mut stream)? {
        stream.write_all(OK)?;
    }
    Ok(())
}

/// Answers once and says that nothing follows.
fn once(mut stream: Secured, answer: &[u8]) -> io::Result<()> {
    if request(&mut stream)? {
        stream.write_all(answer)?;
        stream.conn.send_close_notify();
        stream.flush()?;
    }
    stream.sock.shutdown(Shutdown::Write)
}

/// Answers once and closes without a word.
fn cut_off(mut stream: Secured, answer: &[u8]) -> io::Result<()> {
    if request(&mut stream)? {
        stream.write_all(answer)?;
        stream.flush()?;
    }
    stream.sock.shutdown(Shutdown::Write)
}

/// Answers a client's hello with these bytes and nothing else.
fn answer_hello(mut stream: TcpStream, answer: &[u8]) -> io::Result<()> {
    let mut hello = [0; 16 * 1024];
    let _hello = stream.read(&mut hello)?;
    stream.write_all(answer)?;
    stream.shutdown(Shutdown::Write)?;
    // Until the client has closed, so that what was written is not lost with a reset.
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

thread_local! {
    static POLLER: Cell<&'static str> = const { Cell::new("") };
}

/// Whatever holds, holds on io_uring (where it is permitted) and on epoll.
fn on_both(test: impl Fn()) {
    for poller in ["ring", "epoll"] {
        POLLER.set(poller);
        test();
    }
}

fn try_load(url: &str, line: &str) -> Result<Report, String> {
    let args = line.split_whitespace().chain(["--poller", POLLER.get(), url]).map(OsString::from);
    let Ok(Command::Run(options)) = parse(args) else { panic!("{line} is not understood") };
    run(&options).map_err(|error| error.to_string())
}

fn load(url: &str, line: &str) -> Report {
    try_load(url, line).unwrap()
}

#[test]
fn requests_are_answered_over_either_version() {
    let pki = Pki::new("versions");
    on_both(|| {
        for (version, name) in [(&TLS12, "TLSv1.2"), (&TLS13, "TLSv1.3")] {
            let config = Server { versions: vec![version], ..pki.server() }.config(&pki);
            let url = serve(Arc::clone(&config), always);
            let report = load(&url, &format!("-k -c 4 -n 500 {} --expect-length 5", pki.trusted()));
            assert_eq!((report.completed, report.errors.total(), report.connect.opened), (500, 0, 4), "{name}");
            assert_eq!((report.bytes.body, report.wrong_length), (2500, 0), "{name}");
            let tls = report.tls.unwrap();
            assert_eq!(tls.handshakes, 4, "{name}");
            assert!(tls.negotiated.keys().all(|negotiated| negotiated.starts_with(name)), "{:?}", tls.negotiated);
            let url = serve(config, |stream| once(stream, LAST));
            let report = load(&url, &format!("-c 4 -n 100 {}", pki.trusted()));
            assert_eq!((report.completed, report.errors.total(), report.connect.opened), (100, 0, 100), "{name}");
            assert_eq!(report.tls.unwrap().handshakes, 100, "{name}");
        }
    });
}

#[test]
fn sessions_are_resumed_unless_that_is_switched_off() {
    let pki = Pki::new("sessions");
    on_both(|| {
        for version in [&TLS12, &TLS13] {
            let config = Server { versions: vec![version], ..pki.server() }.config(&pki);
            let url = serve(config, |stream| once(stream, LAST));
            let resumed = |line: &str| {
                let report = load(&url, &format!("-c 1 -n 20 {} {line}", pki.trusted()));
                assert_eq!(report.completed, 20, "{line}");
                report.tls.unwrap().resumed
            };
            assert!(resumed("") >= 19, "{version:?}");
            assert_eq!(resumed("--no-session-reuse"), 0, "{version:?}");
        }
    });
}

#[test]
fn a_server_has_to_be_who_it_says_it_is() {
    let pki = Pki::new("trust");
    on_both(|| {
        let config = |change: fn(&mut Server)| {
            let mut server = pki.server();
            change(&mut server);
            server.config(&pki)
        };
        let trusted = pki.trusted();
        let good: fn(&mut Server) = |_| {};
        let expired: fn(&mut Server) = |server| server.expired = true;
        let other: fn(&mut Server) = |server| server.names = vec!["example.com".to_owned()];
        for (server, line, said) in [
            (good, trusted.as_str(), ""),
            (good, "", "UnknownIssuer"),
            (good, "--insecure", ""),
            (expired, &trusted, "expired"),
            (expired, "--insecure", ""),
            (other, &trusted, "not valid for name"),
            (other, &format!("{trusted} --sni example.com"), ""),
            (other, "--insecure", ""),
        ] {
            let url = serve(config(server), always);
            match try_load(&url, &format!("-k -c 2 -n 10 {line}")) {
                Ok(report) => assert_eq!((report.completed, said), (10, ""), "{line}"),
                Err(error) => {
                    assert!(!said.is_empty() && error.contains(said), "{line}: {error}");
                    assert!(error.contains("--insecure takes any"), "{line}: {error}");
                }
            }
        }
    });
}

#[test]
fn a_certificate_is_shown_to_servers_that_ask_for_one() {
    let pki = Pki::new("clients");
    on_both(|| {
        for version in [&TLS12, &TLS13] {
            let clients = Some(pki.root.der().clone());
            let config = Server { clients, versions: vec![version], ..pki.server() }.config(&pki);
            let url = serve(config, always);
            let report = load(&url, &format!("-k -c 2 -n 20 {} {}", pki.trusted(), pki.client()));
            assert_eq!((report.completed, report.errors.total()), (20, 0));
            // Without one, TLS 1.2 fails within the handshake, TLS 1.3 after it.
            match try_load(&url, &format!("-k -c 2 -n 20 {}", pki.trusted())) {
                Ok(report) => {
                    assert_eq!((report.completed, report.errors.tls), (0, 20));
                    assert_eq!(report.failures.get("tls-alert"), Some(&20), "{:?}", report.failures);
                    let said = report.tls.unwrap().failures;
                    assert!(said.keys().any(|said| said.contains("CertificateRequired")), "{said:?}");
                }
                Err(error) => assert!(version.version == TLS12.version && error.contains("alert"), "{error}"),
            }
        }
    });
}

#[test]
fn only_close_notify_completes_an_answer_that_ends_with_the_stream() {
    let pki = Pki::new("close");
    on_both(|| {
        let config = pki.server().config(&pki);
        let check = |behave: Behaviour, completed: u64, failures: &[(&str, u64)]| {
            let report = load(&serve(Arc::clone(&config), behave), &format!("-c 2 -n 20 {}", pki.trusted()));
            let got: Vec<_> = report.failures.iter().map(|(name, count)| (name.as_str(), *count)).collect();
            assert_eq!((report.completed, got.as_slice()), (completed, failures));
        };
        check(|stream| once(stream, ENDLESS), 20, &[]);
        check(|stream| cut_off(stream, ENDLESS), 0, &[("tls-truncated", 20)]);
        // Where the length is known, its end is.
        check(|stream| cut_off(stream, LAST), 20, &[]);
        check(|stream| cut_off(stream, &LAST[..LAST.len() - 1]), 0, &[("short-answer", 20)]);
        check(|stream| once(stream, &LAST[..LAST.len() - 1]), 0, &[("short-answer", 20)]);
        check(|stream| once(stream, b""), 0, &[("no-answer", 20)]);
    });
}

#[test]
fn a_handshake_that_fails_is_a_failure_of_tls() {
    let pki = Pki::new("handshake");
    on_both(|| {
        let good = pki.server().config(&pki);
        // The first connection goes well, so that there is a run.
        let check = |then: fn(TcpStream) -> io::Result<()>, name: &str, said: &str| {
            let good = Arc::clone(&good);
            let url =
                listen(move |stream, number| if number == 0 { always(secure(stream, &good)?) } else { then(stream) });
            let report = load(&url, &format!("-c 2 -n 6 {}", pki.trusted()));
            assert_eq!((report.completed, report.errors.tls, report.errors.total()), (0, 6, 6), "{name}");
            assert_eq!(report.failures.get(name), Some(&6), "{:?}", report.failures);
            let words = report.tls.unwrap().failures;
            assert!(words.iter().any(|(text, count)| text.contains(said) && *count == 6), "{words:?}");
        };
        check(|stream| answer_hello(stream, b"\x15\x03\x03\x00\x02\x02\x28"), "tls-alert", "HandshakeFailure");
        check(|stream| answer_hello(stream, b"HTTP/1.1 400 Bad\r\n\r\n"), "tls-handshake", "InvalidContentType");
        check(|stream| answer_hello(stream, b""), "tls-handshake", "closed the connection during the handshake");
        check(|stream| answer_hello(stream, b"\x16\x03\x03\x00\xff\x02\x00"), "tls-handshake", "closed the connection");
    });
}

#[test]
fn large_requests_and_answers_pass_in_any_number_of_records() {
    const BYTES: usize = 300_000;
    let pki = Pki::new("large");
    on_both(|| {
        let url = serve(pki.server().config(&pki), |mut stream| {
            while request(&mut stream)? {
                let mut body = vec![0; BYTES];
                stream.read_exact(&mut body)?;
                assert!(body.iter().all(|byte| *byte == b'x'), "what was sent came");
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n")?;
                stream.write_all(&body)?;
            }
            Ok(())
        });
        let body = pki.directory.join("body");
        std::fs::write(&body, vec![b'x'; BYTES]).unwrap();
        let line = format!("-k -c 3 -n 12 {} -d @{} --expect-length {BYTES}", pki.trusted(), body.display());
        let report = load(&url, &line);
        assert_eq!((report.completed, report.errors.total(), report.wrong_length), (12, 0, 0));
        assert_eq!(report.bytes.body, 12 * BYTES as u64);
    });
}

#[test]
fn secured_and_plain_servers_are_asked_in_one_run() {
    let pki = Pki::new("mixed");
    on_both(|| {
        let secured = serve(pki.server().config(&pki), always);
        let plain = listen(|mut stream, _| {
            let (mut got, mut byte) = (Vec::new(), [0]);
            while stream.read(&mut byte)? > 0 {
                got.push(byte[0]);
                if got.ends_with(b"\r\n\r\n") {
                    stream.write_all(OK)?;
                    got.clear();
                }
            }
            Ok(())
        });
        let plain = plain.replace("https:", "http:");
        let report = load(&secured, &format!("-k -c 4 -n 200 {} {plain}", pki.trusted()));
        assert_eq!((report.completed, report.errors.total(), report.bytes.body), (200, 0, 1000));
    });
}
