//! Files that change while they are sent, and files that are not in memory: in every model, with sendfile and without, with
//! io_uring and without.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use e2e::client::Client;
use e2e::process::Process;
use e2e::server::{Mpm, Server, configured, foreground};
use e2e::site::{FILES, LARGE};
use e2e::tool::stdout;
use e2e::{PATIENCE, Scratch, until};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::signal::Signal;

/// A model, and what it is to do without.
#[derive(Clone, Copy, Debug)]
enum Setting {
    Of(Mpm),
    /// percore where io_uring is forbidden.
    OnEpoll,
}

const SETTINGS: [Setting; 5] = [
    Setting::Of(Mpm::Prefork),
    Setting::Of(Mpm::Worker),
    Setting::Of(Mpm::Event),
    Setting::Of(Mpm::Percore),
    Setting::OnEpoll,
];

impl Setting {
    fn start(self, directives: &str) -> Server {
        match self {
            Setting::Of(mpm) => Server::start(mpm, directives).unwrap(),
            Setting::OnEpoll => {
                let (dir, port) = configured(Mpm::Percore, directives).unwrap();
                let server = Server::run(dir, port, without_io_uring).unwrap();
                server.logged("io_uring is not available", 1).unwrap();
                server
            }
        }
    }
}

/// The server in the foreground, where the kernel refuses io_uring; no other call is slower for it. strace runs beside it, so
/// that signals reach the server.
fn without_io_uring(dir: &Scratch) -> Command {
    let command = foreground(dir);
    let mut strace = Command::new("strace");
    strace.args(["-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=io_uring_setup"]);
    strace.args(["-e", "inject=io_uring_setup:error=EPERM"]).arg(command.get_program()).args(command.get_args());
    strace
}

/// Bytes of the file that changes: more than the buffers of both sockets hold.
const LENGTH: u64 = 32 * 1024 * 1024;

/// The file's byte at a place, as it is at first.
fn byte(at: u64) -> u8 {
    (at % 251) as u8
}

/// Asks for `path` and reads the first bytes of the answer, which is then under way.
fn begin(server: &Server, path: &str) -> (TcpStream, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut got = vec![0; 4096];
    stream.read_exact(&mut got).unwrap();
    (stream, got)
}

/// Where the body begins, and how long it was announced to be.
fn announced(got: &[u8]) -> (usize, u64) {
    let end = got.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let head = std::str::from_utf8(&got[..end]).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    (end, length.parse().unwrap())
}

/// What happens to the file, by its name, and whether the answer goes on to its end.
type Change = (&'static str, fn(&PathBuf), bool);

const CHANGES: [Change; 5] = [
    ("it grows", |path| writing(path).write_all_at(b"more", LENGTH).unwrap(), true),
    ("it is removed", |path| fs::remove_file(path).unwrap(), true),
    ("another takes its place", replace, true),
    ("it loses its end", |path| writing(path).set_len(LENGTH - 1).unwrap(), false),
    ("it loses everything", |path| writing(path).set_len(0).unwrap(), false),
];

fn writing(path: &PathBuf) -> File {
    File::options().write(true).open(path).unwrap()
}

fn replace(path: &PathBuf) {
    let other = path.with_extension("new");
    fs::write(&other, vec![0xFF; LENGTH as usize]).unwrap();
    fs::rename(other, path).unwrap();
}

#[test]
fn a_file_that_changes_while_it_is_sent_is_sent_as_it_was_or_not_to_its_end() {
    let content: Vec<u8> = (0..LENGTH).map(byte).collect();
    for setting in SETTINGS {
        for sendfile in ["On", "Off"] {
            let mut server = setting.start(&format!("EnableSendfile {sendfile}"));
            let path = server.dir.path("htdocs/changing.bin");
            let mut shortened = 0;
            for (what, change, whole) in CHANGES {
                let said = format!("{setting:?}, EnableSendfile {sendfile}, {what}");
                fs::write(&path, &content).unwrap();
                let (mut stream, mut got) = begin(&server, "/changing.bin");
                let (body, length) = announced(&got);
                assert_eq!(length, LENGTH, "{said}");
                change(&path);
                if whole {
                    let mut rest = vec![0; body + LENGTH as usize - got.len()];
                    stream.read_exact(&mut rest).unwrap();
                    got.append(&mut rest);
                    // Nothing follows: the connection is there for the next request.
                    stream.write_all(b"GET /one.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
                    let mut next = Vec::new();
                    stream.read_to_end(&mut next).unwrap();
                    assert!(next.starts_with(b"HTTP/1.1 200 "), "{said}: more than was announced");
                    assert!(got[body..] == content, "{said}: something else arrived");
                } else {
                    // Whether the end is a reset depends on what the client has not read when it comes.
                    match stream.read_to_end(&mut got) {
                        Ok(_) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{said}"),
                    }
                    assert!(((got.len() - body) as u64) < LENGTH, "{said}: something was made up");
                    assert!(content.starts_with(&got[body..]), "{said}: something else arrived");
                    shortened += 1;
                    server.logged("became shorter while it was sent", shortened).unwrap();
                }
            }
            server.stop().unwrap();
        }
    }
}

fn file_at(path: &PathBuf) -> File {
    File::open(path).unwrap()
}

/// Sees to it that nothing of a file is in memory; `false` where its file system does not let go of it.
fn forget(path: &PathBuf) -> bool {
    let file = file_at(path);
    file.sync_all().unwrap();
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
    let resident =
        stdout(Command::new("fincore").args(["--noheadings", "--bytes", "--output", "RES"]).arg(path)).unwrap();
    resident.trim() == "0"
}

#[test]
fn the_thread_of_a_core_never_waits_for_a_disk() {
    for sendfile in ["On", "Off"] {
        let mut server = Server::start(Mpm::Percore, &format!("Cores 1\nEnableSendfile {sendfile}")).unwrap();
        let path = server.dir.path("htdocs/large.bin");
        if !forget(&path) {
            return eprintln!("skipped: the file system of {} keeps everything in memory", path.display());
        }
        let core = server.children().unwrap()[0];
        let trace = Calls::of(core, "read,pread64,preadv2");
        let mut client = Client::connect(server.port).unwrap();
        assert!(client.get("/large.bin").unwrap().body == LARGE.bytes(), "EnableSendfile {sendfile}");
        // A small file is kept in memory, and has to come there first.
        let small = FILES.iter().find(|file| file.path == "/8k.bin").unwrap();
        assert!(forget(&server.dir.path("htdocs/8k.bin")));
        assert!(client.get(small.path).unwrap().body == small.bytes(), "EnableSendfile {sendfile}");
        let calls = trace.finish();
        let by_core = |call: &&(u32, String)| call.0 == core.0;
        // It asks what is in memory, and is told where something is not.
        assert!(calls.iter().filter(by_core).any(|(_, call)| call.contains("RWF_NOWAIT")), "{calls:?}");
        assert!(calls.iter().any(|call| !by_core(&call) && call.1.contains("pread64(")), "nobody read: {calls:?}");
        let whole: Vec<&(u32, String)> = calls.iter().filter(|call| call.1.ends_with("= 8192")).collect();
        // The question itself makes the kernel fetch what is not there, and a quick disk may be done before it answers.
        let (at_once, waited): (Vec<_>, Vec<_>) = whole.into_iter().partition(|call| call.1.contains("RWF_NOWAIT"));
        assert!(!waited.iter().any(by_core), "its thread waited for the small file: {waited:?}");
        assert!(!waited.is_empty() || at_once.iter().any(by_core), "nobody read the small file: {calls:?}");
        server.stop().unwrap();
    }
}

/// A strace that writes down the calls of a process, thread by thread.
struct Calls {
    strace: Child,
    dir: Scratch,
}

impl Calls {
    fn of(process: Process, names: &str) -> Calls {
        let dir = Scratch::new().unwrap();
        let said = dir.path("said");
        let mut command = Command::new("strace");
        command
            .args(["-f", "-e", &format!("trace={names}"), "-p", &process.0.to_string(), "-o"])
            .arg(dir.path("calls"));
        let strace = command.stdout(Stdio::null()).stderr(File::create(&said).unwrap()).spawn().unwrap();
        until("strace to attach", || fs::read_to_string(&said).unwrap().contains("attached").then_some(())).unwrap();
        Calls { strace, dir }
    }

    /// The calls, each with its thread.
    fn finish(mut self) -> Vec<(u32, String)> {
        Process(self.strace.id()).signal(Signal::SIGINT).unwrap();
        self.strace.wait().unwrap();
        let lines = fs::read_to_string(self.dir.path("calls")).unwrap();
        let call = |line: &str| {
            let (thread, call) = line.split_once(' ')?;
            Some((thread.parse().ok()?, call.trim_start().to_owned()))
        };
        lines.lines().filter_map(call).collect()
    }
}
