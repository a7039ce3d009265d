//! The generator against servers that behave in every way a server can: what they did is what the report says.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::cell::Cell;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use manifold_load::native::args::{Command, parse};
use manifold_load::native::run;
use manifold_load::report::{Flag, Report};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const MISSING: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno";
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

/// What a server does with a connection: the stream, the number of connections before this one.
type Behaviour = fn(TcpStream, usize) -> std::io::Result<()>;

/// Starts a server and returns its address. The first connection, on which `manifold load` only looks whether somebody is there, is
/// not given to `behave`.
fn serve(behave: Behaviour) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = std::thread::Builder::new().spawn(move || {
        let number = AtomicUsize::new(0);
        drop(listener.accept());
        for stream in listener.incoming().flatten() {
            let number = number.fetch_add(1, Ordering::Relaxed);
            // Errors here are the client's close, which the report under test tells about.
            let _thread = std::thread::Builder::new().spawn(move || behave(stream, number)).unwrap();
        }
    });
    accepting.unwrap();
    format!("http://{address}/")
}

/// Reads one request head; false at the end of the stream.
fn request(stream: &mut TcpStream) -> std::io::Result<bool> {
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

/// Answers every request on the connection with `answer`.
fn always(stream: &mut TcpStream, answer: &[u8]) -> std::io::Result<()> {
    while request(stream)? {
        stream.write_all(answer)?;
    }
    Ok(())
}

fn once(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    if request(&mut stream)? {
        stream.write_all(answer)?;
    }
    stream.shutdown(Shutdown::Write)
}

/// Closes such that the peer is told of a reset.
fn reset(stream: &TcpStream) -> std::io::Result<()> {
    socket2::SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO))
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

fn load(url: &str, line: &str) -> Report {
    let args = line.split_whitespace().chain(["--poller", POLLER.get(), url]).map(OsString::from);
    let Ok(Command::Run(options)) = parse(args) else { panic!("{line} is not understood") };
    run(&options).unwrap()
}

/// Flags besides the generator's own load, which depends on the machine.
fn flags(report: &Report) -> Vec<Flag> {
    report.flags.iter().copied().filter(|flag| *flag != Flag::GeneratorSaturated).collect()
}

#[test]
fn kept_connections_carry_all_requests() {
    on_both(|| {
        let url = serve(|mut stream, _| always(&mut stream, OK));
        let report = load(&url, "-k -c 4 -n 500 --expect-status 200 --expect-length 5");
        assert_eq!((report.completed, report.errors.total(), report.connect.opened), (500, 0, 4));
        assert_eq!((report.status.success, report.bytes.body), (500, 2500));
        assert_eq!(report.bytes.received, 500 * OK.len() as u64);
        assert_eq!((report.unfinished.count, report.unserved_connections), (0, 0));
        assert_eq!(report.histogram.as_ref().unwrap().count, 500);
        assert_eq!(report.series.completed.iter().sum::<u64>(), 500);
        assert!(flags(&report).is_empty(), "{:?}", report.flags);
    });
}

/// Of two kinds, 3 to 1, one of which is not found.
#[test]
fn each_kind_of_request_has_its_own_figures() {
    on_both(|| {
        let url = serve(|mut stream, _| {
            let mut head = [0; 1024];
            loop {
                let read = stream.read(&mut head)?;
                let answer = if head.starts_with(b"GET /missing") { MISSING } else { OK };
                if read == 0 {
                    return Ok(());
                }
                stream.write_all(answer)?;
            }
        });
        let plan = std::env::temp_dir().join(format!("manifold-kinds-{}.toml", std::process::id()));
        let text = format!("[[request]]\nurl = '{url}'\nweight = 3\n[[request]]\nurl = '{url}missing'\n");
        std::fs::write(&plan, text).unwrap();
        let args = format!("-k -c 4 -n 2000 --plan {} --poller {}", plan.display(), POLLER.get());
        let Ok(Command::Run(options)) = parse(args.split_whitespace().map(OsString::from)) else { panic!("{args}") };
        let report = run(&options).unwrap();
        std::fs::remove_file(&plan).unwrap();
        let [found, missing] = report.kinds.as_slice() else { panic!("{:?}", report.kinds) };
        assert_eq!((found.completed + missing.completed, found.wrong_status), (2000, 0));
        assert_eq!((missing.wrong_status, missing.completed_within), (missing.completed, missing.completed));
        assert_eq!(report.statuses.get(&404), Some(&missing.completed));
        assert!((1400..1600).contains(&found.completed), "{}", found.completed);
        assert!(report.stages.is_empty());
    });
}

/// Constant arrivals are as many as the area below the line, to the last one.
#[test]
fn each_stage_has_its_own_figures() {
    on_both(|| {
        let url = serve(|mut stream, _| always(&mut stream, OK));
        let report = load(
            &url,
            "-k -c 20 --threads 2 --warmup 0.1 --stage 100:0.3 --stage 0..400:0.2 --stage 0:0.1 --stage 1000:5 -t 0.7",
        );
        let due: Vec<u64> =
            report.stages.iter().map(|stage| stage.completed + stage.errors.total() + stage.unanswered).collect();
        assert_eq!(due, [30, 40, 0, 100]);
        // The run ends with its last answer, a millisecond before its time.
        let seconds: Vec<f64> = report.stages.iter().map(|stage| (stage.seconds * 100.0).round() / 100.0).collect();
        assert_eq!(seconds, [0.3, 0.2, 0.1, 0.1]);
        assert!(report.kinds.is_empty());
    });
}

#[test]
fn threads_share_connections_and_requests() {
    on_both(|| {
        let url = serve(|mut stream, _| always(&mut stream, OK));
        let report = load(&url, "-k -c 5 -n 301 --threads 2");
        assert_eq!((report.completed, report.connect.opened, report.unserved_connections), (301, 5, 0));
    });
}

#[test]
fn one_connection_a_request() {
    on_both(|| {
        let url = serve(|stream, _| once(stream, LAST));
        let report = load(&url, "-c 4 -n 100");
        assert_eq!((report.completed, report.errors.total(), report.connect.opened), (100, 0, 100));
        assert!(flags(&report).is_empty(), "{:?}", report.flags);
    });
}

#[test]
fn a_connection_the_server_announced_to_close_is_no_error() {
    on_both(|| {
        let url = serve(|mut stream, _| {
            for answer in [OK, OK, LAST] {
                request(&mut stream)?;
                stream.write_all(answer)?;
            }
            Ok(())
        });
        let report = load(&url, "-k -c 1 -n 60");
        assert_eq!((report.completed, report.errors.total(), report.connect.opened), (60, 0, 20));
    });
}

#[test]
fn a_kept_connection_closed_without_a_word_is_told() {
    on_both(|| {
        let url = serve(|mut stream, _| {
            for _ in 0..3 {
                request(&mut stream)?;
                stream.write_all(OK)?;
            }
            request(&mut stream).map(drop)
        });
        let report = load(&url, "-k -c 1 -n 8");
        assert_eq!((report.completed, report.errors.closed_reused), (6, 2));
        assert_eq!(flags(&report), [Flag::Errors]);
    });
}

#[test]
fn large_bodies_and_bodies_that_end_with_the_connection() {
    on_both(|| {
        let url = serve(|mut stream, number| {
            request(&mut stream)?;
            if number % 2 == 0 {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\nConnection: close\r\n\r\n")?;
            } else {
                stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n")?;
            }
            stream.write_all(&vec![b'x'; 300_000])
        });
        let report = load(&url, "-c 3 -n 20");
        assert_eq!((report.completed, report.errors.total(), report.bytes.body), (20, 0, 6_000_000));
    });
}

#[test]
fn answers_that_come_in_pieces() {
    on_both(|| {
        let url = serve(|mut stream, _| {
            stream.set_nodelay(true)?;
            let answer: &[u8] =
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
            while request(&mut stream)? {
                for piece in answer.chunks(7) {
                    stream.write_all(piece)?;
                }
            }
            Ok(())
        });
        let report = load(&url, "-k -c 2 -n 40 --expect-length 5 --expect-body-contains bcde");
        assert_eq!((report.completed, report.wrong_length, report.errors.total()), (40, 0, 0));
        assert_eq!(report.wrong_content, 0);
    });
}

#[test]
fn every_way_to_fail_has_its_class() {
    on_both(|| {
        let check = |what: &str, behave: Behaviour, class: fn(&Report) -> u64| {
            let report = load(&serve(behave), "-c 2 -n 10");
            assert_eq!(
                (report.completed, class(&report), report.errors.total()),
                (0, 10, 10),
                "{what}: {:?}",
                report.errors
            );
            assert_eq!(flags(&report), [Flag::Errors, Flag::UnservedConnections, Flag::NothingCompleted], "{what}");
            assert!(report.latency_us.is_none());
        };
        check(
            "truncated",
            |stream, _| once(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"),
            |r| r.errors.length,
        );
        check("no answer", |stream, _| once(stream, b""), |r| r.errors.exceptions);
        check("no HTTP", |stream, _| once(stream, b"hello\r\n\r\n"), |r| r.errors.exceptions);
        let resetting: Behaviour = |mut stream, _| {
            request(&mut stream)?;
            reset(&stream)
        };
        check("reset", resetting, |r| r.errors.receive);
    });
}

#[test]
fn a_silent_server_is_a_timeout() {
    on_both(|| {
        let url = serve(|mut stream, _| {
            request(&mut stream)?;
            // Until the client gives up.
            request(&mut stream).map(drop)
        });
        let report = load(&url, "-c 2 -n 4 --timeout 0.1");
        assert_eq!((report.completed, report.errors.timeout), (0, 4));
    });
}

#[test]
fn requests_without_an_answer_at_the_end_are_told() {
    on_both(|| {
        let url = serve(|mut stream, number| {
            if number == 0 {
                return always(&mut stream, OK);
            }
            request(&mut stream)?;
            request(&mut stream).map(drop)
        });
        let report = load(&url, "-k -c 3 --duration 1.3");
        assert!(report.completed > 0);
        assert_eq!(report.unserved_connections, 2);
        assert!(report.unfinished.count >= 2 && report.unfinished.max_age_us > 1_000_000.0, "{:?}", report.unfinished);
        assert_eq!(flags(&report), [Flag::UnservedConnections, Flag::Stalled]);
    });
}

#[test]
fn the_warm_up_is_not_in_the_figures() {
    on_both(|| {
        let url = serve(|mut stream, _| always(&mut stream, OK));
        let report = load(&url, "-k -c 3 -n 50 --warmup 0.2");
        assert_eq!((report.completed, report.connect.opened), (50, 0));
        assert!(report.completed_with_warmup > report.completed);
        assert_eq!(report.status.success, 50);
    });
}

#[test]
fn other_statuses_and_lengths_than_expected_are_flagged() {
    on_both(|| {
        let url = serve(|mut stream, number| {
            always(&mut stream, if number == 0 { OK } else { b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n" })
        });
        let report = load(&url, "-k -c 2 -n 20 --expect-length 5");
        assert_eq!(report.completed, 20);
        assert!(report.status.server_error > 0 && report.status.server_error == report.wrong_status);
        assert_eq!(report.wrong_length, report.wrong_status);
        assert_eq!(flags(&report), [Flag::WrongStatus, Flag::WrongLength]);
        let any = load(&serve(|stream, _| once(stream, LAST)), "-c 1 -n 3 --expect-length any --expect-status 200");
        assert!(flags(&any).is_empty());
    });
}

#[test]
fn bodies_are_held_against_what_is_expected() {
    on_both(|| {
        let url = || {
            serve(|mut stream, number| {
                always(&mut stream, if number == 0 { OK } else { b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhullo" })
            })
        };
        const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        for expectation in ["--expect-body-contains ell", &format!("--expect-sha256 {HELLO}")] {
            let right = load(&url(), &format!("-k -c 1 -n 20 {expectation}"));
            assert_eq!((right.completed, right.wrong_content), (20, 0), "{expectation}");
            assert!(flags(&right).is_empty(), "{:?}", right.flags);
            // A think time, so that both connections carry some.
            let both = load(&url(), &format!("-k -c 2 -n 20 --think 1ms {expectation}"));
            assert!((1..20).contains(&both.wrong_content), "{expectation}: {}", both.wrong_content);
            assert_eq!((flags(&both), both.wrong_length), (vec![Flag::WrongContent], 0));
        }
        // A HEAD is answered without a body, of which nothing can be expected.
        let head = load(
            &serve(|stream, _| once(stream, LAST)),
            "-c 1 -n 3 --head --expect-body-contains x --expect-length any",
        );
        assert_eq!((head.completed, head.wrong_content), (3, 0));
    });
}

#[test]
fn a_host_that_has_no_address_is_an_error_before_the_run() {
    // No name ends so (RFC 6761).
    let args = ["-n", "10", "http://nowhere.invalid/"].map(OsString::from);
    let Ok(Command::Run(options)) = parse(args.into_iter()) else { panic!("not understood") };
    let error = run(&options).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot resolve nowhere.invalid: ") && error.contains("--resolve nowhere.invalid:80:"),
        "{error}"
    );
}

/// However many others can be found: what a request would be lost to is told before the first one.
#[test]
fn one_unknown_host_of_several_is_an_error_before_the_run() {
    let url = serve(|mut stream, _| always(&mut stream, OK));
    let args = ["-n", "10", &url, "http://nowhere.invalid/", &url].map(OsString::from);
    let Ok(Command::Run(options)) = parse(args.into_iter()) else { panic!("not understood") };
    let error = run(&options).unwrap_err().to_string();
    assert!(error.starts_with("cannot resolve nowhere.invalid: "), "{error}");
}

/// A server that goes away once the run has begun.
#[test]
fn refused_connections_have_their_class() {
    on_both(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let serving = std::thread::Builder::new().spawn(move || {
            let _probe = listener.accept().unwrap();
            let (stream, _) = listener.accept().unwrap();
            drop(listener);
            once(stream, LAST).unwrap();
        });
        let report = load(&url, "-c 1 -n 5");
        serving.unwrap().join().unwrap();
        assert_eq!((report.completed, report.errors.connect, report.errors.total()), (1, 4, 4), "{:?}", report.errors);
        assert_eq!(report.failures.get("connect-refused"), Some(&4), "{:?}", report.failures);
    });
}

#[test]
fn nobody_listening_is_an_error_before_the_run() {
    on_both(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        drop(listener);
        let Ok(Command::Run(options)) = parse(["-n", "10", &url].into_iter().map(OsString::from)) else {
            panic!("not understood")
        };
        let error = run(&options).unwrap_err().to_string();
        assert!(error.contains("cannot connect to 127.0.0.1"), "{error}");
    });
}

/// Answers with the request line and the body that came, so that what was sent can be counted.
fn mirror(mut stream: TcpStream, _: usize) -> std::io::Result<()> {
    loop {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read(&mut byte)? == 0 {
                return Ok(());
            }
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let length =
            head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).map_or(0, |n| n.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let status = match head.split(' ').nth(1) {
            Some("/created") if head.starts_with("POST ") && body == b"x=1" => 201,
            Some("/plain") if head.starts_with("GET ") => 200,
            _ => 400,
        };
        stream.write_all(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n").as_bytes())?;
    }
}

#[test]
fn a_plan_sends_several_requests_by_their_weights() {
    on_both(|| {
        let url = serve(mirror);
        let path = std::env::temp_dir().join(format!("manifold-plan-{}.toml", std::process::id()));
        let plan = format!(
            "connections = 4\nrequests = 4000\nkeep-alive = true\nexpect-status = 200\n\
         [[request]]\nurl = '{url}plain'\nweight = 3\n\
         [[request]]\nurl = '{url}created'\ndata = 'x=1'\nexpect-status = 201\n"
        );
        std::fs::write(&path, plan).unwrap();
        let args = ["--plan", path.to_str().unwrap(), "-c", "2", "--poller", POLLER.get()].map(OsString::from);
        let Ok(Command::Run(options)) = parse(args.into_iter()) else { panic!("not understood") };
        std::fs::remove_file(&path).unwrap();
        let report = run(&options).unwrap();
        assert_eq!((report.completed, report.wrong_status, report.connect.opened), (4000, 0, 2));
        let created = report.statuses[&201];
        assert!((900..1100).contains(&created), "a quarter of 4000: {created}");
        assert_eq!(report.statuses[&200] + created, 4000);
    });
}

#[test]
fn a_socket_in_the_file_system_is_a_server_as_well() {
    on_both(|| {
        let path = std::env::temp_dir().join(format!("manifold-load-{}.sock", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        std::thread::Builder::new()
            .spawn(move || {
                // The first looks whether somebody is there.
                drop(listener.accept());
                for mut stream in listener.incoming().flatten() {
                    let mut request = [0; 4096];
                    while stream.read(&mut request).is_ok_and(|read| read > 0) {
                        stream.write_all(OK).unwrap();
                    }
                }
            })
            .unwrap();
        let report = load("http://localhost/", &format!("-k -c 1 -n 50 --unix-socket {}", path.display()));
        std::fs::remove_file(&path).unwrap();
        assert_eq!((report.completed, report.errors.total()), (50, 0));
    });
}

#[test]
fn hosts_are_resolved_and_left_as_asked() {
    on_both(|| {
        let url = serve(|mut stream, _| {
            let peer = stream.peer_addr()?.ip().to_string();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{peer}", peer.len());
            always(&mut stream, answer.as_bytes())
        });
        let port = url.trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
        let line = format!(
            "-k -c 4 -n 40 --resolve nowhere.example:{port}:127.0.0.1 --source 127.0.0.2 --source 127.0.0.30 --expect-length 9"
        );
        let report = load(&format!("http://nowhere.example:{port}/"), &line);
        assert_eq!((report.completed, report.errors.total()), (40, 0));
        // Two connections have 9 letters in their address and two have 10.
        assert_eq!(report.wrong_length > 0, report.wrong_length < 40, "{}", report.wrong_length);
        assert_eq!(report.bytes.body, (40 - report.wrong_length) * 9 + report.wrong_length * 10);
    });
}

/// The second answer came with the first, before the second request could be sent: that ended the thread.
#[test]
fn an_answer_that_comes_before_its_request_ends_the_connection_only() {
    const RING_BUFFER_BYTES: usize = 16 * 1024;
    on_both(|| {
        let url = serve(|mut stream, _| {
            // The first fills a buffer of the ring, so that the second is told apart from it.
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 16000\r\nX: ";
            let filling = "x".repeat(RING_BUFFER_BYTES - 16_000 - head.len() - 4);
            let first = format!("{head}{filling}\r\n\r\n{}", "x".repeat(16_000));
            let both = [first.as_bytes(), OK].concat();
            while request(&mut stream)? {
                stream.write_all(&both)?;
            }
            Ok(())
        });
        let report = load(&url, "-k -c 1 -n 20 --expect-length any");
        assert_eq!(report.completed + report.errors.closed_reused, 20, "{:?}", report.failures);
        assert!(report.completed >= 10, "{:?}", report.failures);
    });
}
