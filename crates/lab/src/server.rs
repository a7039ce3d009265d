//! Starting a server under test, waiting until it answers rightly, and ending it for certain.
//!
//! A server is started through this binary's own hidden `lab exec`, which binds itself to the servers' processors, asks
//! the kernel for TERM should the laboratory die, and becomes the server. So the process id is the server's, and no
//! server outlives a laboratory that was killed.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use crate::cores;
use crate::sampler;
use crate::target::{Installed, Terms};

/// How long a server may take until it answers.
pub const READY_WITHIN: Duration = Duration::from_secs(15);
/// How long a server that answers may answer wrongly.
const RIGHT_WITHIN: Duration = Duration::from_secs(1);
/// How long a server may take to end after TERM; Apache's parent itself gives its children 10 s.
const STOP_WITHIN: Duration = Duration::from_secs(12);
/// Between two looks at a server that starts or ends.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// One probe's connection and each of its reads.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest answer a probe reads: pages beyond it cannot be compared, and are refused.
const PROBE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A server that was started.
#[derive(Debug)]
pub struct Server {
    /// What it is.
    pub installed: Installed,
    /// Port on 127.0.0.1.
    pub port: u16,
    /// Load before the measured time of its cells.
    pub warm_up: Duration,
    folder: PathBuf,
    child: Child,
}

/// The name of a server's configuration in its folder.
pub const CONFIG_FILE: &str = "server.conf";

/// Where a server is started.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// A folder of its own.
    pub folder: &'a Path,
    /// The port its configuration says.
    pub port: u16,
    /// Processors it runs on.
    pub cores: &'a [usize],
}

/// The page every server must answer with.
#[derive(Debug)]
pub struct Page {
    /// The path asked for, beginning with `/`.
    pub path: String,
    /// The bytes that must come.
    pub body: Vec<u8>,
}

impl Server {
    /// Writes the configuration into `terms.folder` and starts the server. It does not answer yet.
    ///
    /// # Errors
    /// If the folder cannot be written or the program cannot be started.
    pub fn start(installed: &Installed, terms: &Terms<'_>, helper: &Path) -> Result<Server> {
        let text = installed.target.config(terms).map_err(anyhow::Error::msg)?;
        let place = Place { folder: terms.folder, port: terms.port, cores: terms.cores };
        Server::start_with(installed, &place, &text, helper)
    }

    /// As [`start`](Self::start), by a configuration of the caller's.
    ///
    /// # Errors
    /// As `start`.
    pub fn start_with(installed: &Installed, place: &Place<'_>, text: &str, helper: &Path) -> Result<Server> {
        let folder = place.folder.to_owned();
        fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let config = folder.join(CONFIG_FILE);
        fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
        let console = File::create(folder.join("console.log")).context("cannot write the server's console.log")?;
        let child = Command::new(helper)
            .args(["lab", "exec", "--cores", &cores::text(place.cores), "--"])
            .arg(&installed.program)
            .args(installed.target.arguments(&config, text))
            // Programs that keep things in their user's home keep them there instead.
            .env("XDG_CONFIG_HOME", &folder)
            .env("XDG_DATA_HOME", &folder)
            .stdin(Stdio::null())
            .stdout(console.try_clone()?)
            .stderr(console)
            // Ctrl-C at the terminal is for the laboratory, which then ends its servers in order.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", installed.program.display()))?;
        Ok(Server { installed: installed.clone(), port: place.port, warm_up: Duration::ZERO, folder, child })
    }

    /// The process id of the server's parent process.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// The error log that the laboratory's configurations name.
    pub fn error_log(&self) -> PathBuf {
        self.folder.join("error.log")
    }

    /// Waits until it answers with the page.
    ///
    /// # Errors
    /// If it ends, answers wrongly for as long as it is waited for, or does not answer; with its last log lines.
    pub fn wait_ready(&mut self, page: &Page) -> Result<()> {
        let port = self.port;
        self.wait_until(READY_WITHIN, || probe(port, page))
    }

    /// Waits until something on its port answers the path with a status below 400.
    ///
    /// # Errors
    /// As `wait_ready`.
    pub fn wait_answer(&mut self, path: &str, within: Duration) -> Result<()> {
        let port = self.port;
        self.wait_until(within, || answers(port, path))
    }

    /// Waits until `ask` finds nothing wrong.
    ///
    /// # Errors
    /// As `wait_ready`.
    pub fn wait_until(&mut self, within: Duration, mut ask: impl FnMut() -> Result<(), Wrong>) -> Result<()> {
        let began = Instant::now();
        let mut first_wrong = None;
        loop {
            let said = match ask() {
                Ok(()) => return Ok(()),
                Err(Wrong::NoAnswer(said)) => said,
                Err(Wrong::Answer(said)) => {
                    first_wrong.get_or_insert_with(Instant::now);
                    said
                }
            };
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended while it started ({status})\n{}", self.last_words());
            }
            if first_wrong.is_some_and(|since: Instant| since.elapsed() > RIGHT_WITHIN) || began.elapsed() > within {
                bail!("{said}\n{}", self.last_words());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Waits until all its processes together have so many threads.
    ///
    /// # Errors
    /// If it has fewer after that time, or has ended.
    pub fn wait_threads(&mut self, least: u32, within: Duration) -> Result<()> {
        let began = Instant::now();
        loop {
            let threads = sampler::tree(self.pid()).map_or(0, |pids| sampler::usage(&pids).threads);
            if threads >= least {
                return Ok(());
            }
            if !self.alive() || began.elapsed() > within {
                bail!("it has {threads} threads instead of {least}\n{}", self.last_words());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Waits until its number of threads no longer grows (bounded), so that no cell measures the start.
    pub fn wait_full_size(&self) {
        const STEADY: u32 = 5;
        let mut last = 0;
        let mut same = 0;
        for _ in 0..100 {
            let now = sampler::tree(self.pid()).map_or(0, |pids| sampler::usage(&pids).threads);
            same = if now == last { same + 1 } else { 0 };
            if same >= STEADY {
                return;
            }
            last = now;
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Whether it is still there.
    pub fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends it a signal; one that has ended and is not reaped yet takes it without effect.
    pub fn signal(&self, signal: Signal) {
        let _ = kill(Pid::from_raw(self.pid()), signal);
    }

    /// How it ended; `None` while it runs.
    pub fn ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// Asks it to end. Dropping it waits for that; asking all first lets them end side by side.
    pub fn ask_to_end(&self) {
        // Not reaped yet, so the process id cannot have become another's.
        let _ = kill(Pid::from_raw(self.pid()), Signal::SIGTERM);
    }

    /// Ends it: TERM, and KILL to its whole tree should that not do in time.
    fn end(&mut self) {
        if !self.alive() {
            return;
        }
        let family = sampler::tree(self.pid()).unwrap_or_default();
        self.ask_to_end();
        let deadline = Instant::now() + STOP_WITHIN;
        while self.alive() {
            if Instant::now() > deadline {
                // Children first: once their parent is reaped, nothing ties their ids to this server.
                for &pid in family.iter().rev() {
                    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
                }
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// The last lines it wrote to its console and its error log.
    pub fn last_words(&self) -> String {
        let mut text = String::new();
        for name in ["console.log", "error.log"] {
            let file = self.folder.join(name);
            let log = fs::read(&file).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
            for line in &lines[lines.len().saturating_sub(5)..] {
                text.push_str("    ");
                text.push_str(line);
                text.push('\n');
            }
        }
        if text.is_empty() { format!("    (it wrote nothing; see {})", self.folder.display()) } else { text }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// `lab exec`: becomes the server, on the given processors, ending with its parent. Returns only if that failed.
pub fn exec(cores: &[usize], command: &[std::ffi::OsString]) -> ExitCode {
    let Some((program, arguments)) = command.split_first() else {
        eprintln!("manifold lab exec: no program given");
        return ExitCode::from(2);
    };
    if let Err(e) = cores::bind(cores) {
        eprintln!("manifold lab exec: processors {}: {e}", cores::text(cores));
    }
    // The laboratory reads its signals from a descriptor and so blocks them; the server must get its own.
    let _ = SigSet::all().thread_unblock();
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGTERM);
    let e = Command::new(program).args(arguments).exec();
    eprintln!("manifold lab exec: {}: {e}", Path::new(program).display());
    ExitCode::from(1)
}

/// `count` different free ports on 127.0.0.1.
///
/// # Errors
/// If the system has none left.
pub fn free_ports(count: usize) -> std::io::Result<Vec<u16>> {
    // All are held at once, so that none is given twice.
    let held: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<std::io::Result<_>>()?;
    held.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

/// Why a server is not ready, as a sentence.
#[derive(Debug)]
pub enum Wrong {
    /// Nothing came: it may still be starting.
    NoAnswer(String),
    /// Something else than the page came: waiting will hardly change it.
    Answer(String),
}

/// Asks for the page once.
fn probe(port: u16, page: &Page) -> Result<(), Wrong> {
    judge(&ask(port, &page.path)?, page).map_err(Wrong::Answer)
}

/// Whether anything answers the path.
fn answers(port: u16, path: &str) -> Result<(), Wrong> {
    // One that is still starting may answer that it is.
    judge_status(&ask(port, path)?, path).map_err(Wrong::NoAnswer)
}

/// The answer to one request.
fn ask(port: u16, path: &str) -> Result<Vec<u8>, Wrong> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let ask = || -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT)?;
        stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
        stream.set_write_timeout(Some(PROBE_TIMEOUT))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.take(PROBE_BYTES_MAX).read_to_end(&mut answer)?;
        Ok(answer)
    };
    ask().map_err(|e| Wrong::NoAnswer(format!("it does not answer on port {port}: {e}")))
}

/// Whether an answer's status is one of a server that is ready.
fn judge_status(answer: &[u8], path: &str) -> Result<(), String> {
    let line = String::from_utf8_lossy(answer.split(|byte| *byte == b'\r').next().unwrap_or_default());
    let status = line.strip_prefix("HTTP/").and_then(|rest| rest.split_ascii_whitespace().nth(1));
    match status.and_then(|status| status.parse::<u16>().ok()) {
        Some(200..400) => Ok(()),
        Some(status) => Err(format!("{path} answered {status}")),
        None => Err("it answered with something that is not HTTP".to_owned()),
    }
}

/// Whether an answer is the page.
fn judge(answer: &[u8], page: &Page) -> Result<(), String> {
    let head_end =
        answer.windows(4).position(|w| w == b"\r\n\r\n").ok_or("it answered with something that is not HTTP")?;
    let head = String::from_utf8_lossy(&answer[..head_end]);
    let status = head.split_ascii_whitespace().nth(1).unwrap_or("");
    let body = &answer[head_end + 4..];
    match status {
        "200" if body == page.body => Ok(()),
        "200" => Err(format!(
            "{} answered 200 with {} other bytes than the file's {}",
            page.path,
            body.len(),
            page.body.len()
        )),
        "403" => {
            Err(format!("{} answered 403: the server's user may not read the file or a folder above it", page.path))
        }
        _ => Err(format!("{} answered {status}", page.path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_judged() {
        let page = Page { path: "/x".to_owned(), body: b"four".to_vec() };
        for (answer, expected) in [
            (&b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour"[..], Ok(())),
            (b"HTTP/1.1 200 OK\r\n\r\nfive!", Err("5 other bytes")),
            (b"HTTP/1.1 403 Forbidden\r\n\r\n", Err("may not read")),
            (b"HTTP/1.1 404 Not Found\r\n\r\nfour", Err("answered 404")),
            (b"SSH-2.0\r\n", Err("not HTTP")),
            (b"", Err("not HTTP")),
        ] {
            match (judge(answer, &page), expected) {
                (Ok(()), Ok(())) => {}
                (Err(said), Err(part)) => assert!(said.contains(part), "{said}"),
                (got, expected) => panic!("{got:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn statuses_of_a_server_that_is_ready() {
        for (answer, ready) in [
            (&b"HTTP/1.1 200 OK\r\n\r\n"[..], true),
            (b"HTTP/1.0 302 Found\r\n", true),
            (b"HTTP/1.1 503 Starting\r\n\r\n", false),
            (b"HTTP/1.1 404 Not Found\r\n\r\n", false),
            (b"220 mail\r\n", false),
            (b"", false),
        ] {
            assert_eq!(judge_status(answer, "/x").is_ok(), ready, "{answer:?}");
        }
    }

    #[test]
    fn free_ports_differ() {
        let mut ports = free_ports(20).expect("there are ports");
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
        assert!(!ports.contains(&0));
    }

    #[test]
    fn a_closed_port_is_a_sentence() {
        let port = free_ports(1).expect("a port")[0];
        match probe(port, &Page { path: "/".to_owned(), body: vec![] }) {
            Err(Wrong::NoAnswer(said)) => assert!(said.contains("does not answer on port"), "{said}"),
            got => panic!("{got:?}"),
        }
    }
}
