//! A real server for counting: one process (`httpd -X`) that runs under valgrind or strace, on a site in a
//! temporary folder.

use std::fs::{self, File, Permissions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use crate::run::target_dir;
use crate::without_ring;

/// A concurrency model, and how it waits.
pub struct Model {
    pub name: &'static str,
    mpm: &'static str,
    /// Whether io_uring is refused.
    without_ring: bool,
    directives: &'static str,
}

/// Two threads, so that all of them have served something before requests are counted.
const THREADS: &str =
    "ServerLimit 1\nStartServers 1\nThreadsPerChild 2\nMaxRequestWorkers 2\nMinSpareThreads 1\nMaxSpareThreads 2";

pub const MODELS: &[Model] = &[
    Model { name: "prefork", mpm: "prefork", without_ring: false, directives: "" },
    Model { name: "worker", mpm: "worker", without_ring: false, directives: THREADS },
    Model { name: "event", mpm: "event", without_ring: false, directives: THREADS },
    Model { name: "percore", mpm: "percore", without_ring: false, directives: "" },
    Model { name: "percore-epoll", mpm: "percore", without_ring: true, directives: "" },
];

impl Model {
    /// Whether it can hold several connections in one process of a few threads.
    pub fn holds_many(&self) -> bool {
        matches!(self.mpm, "event" | "percore")
    }
}

/// What counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Instructions and allocations, in parts that [`Site::MARKER`] ends.
    Callgrind,
    /// System calls.
    Strace,
}

/// The site that all servers share: files of the sizes that are compared. Dropped, it is removed.
pub struct Site(PathBuf);

impl Site {
    pub const PAGE: &'static str = "/page.html";
    pub const SIX: &'static str = "/six.html";
    pub const MEDIUM: &'static str = "/medium.bin";
    pub const MEDIUM_LEN: usize = 136 * 1024;
    pub const LARGE: &'static str = "/large.bin";
    pub const LARGE_LEN: usize = 10 * 1024 * 1024;
    /// The status page: its function is where valgrind ends a part.
    pub const MARKER: &'static str = "/marker?auto";
    const MARKER_FUNCTION: &'static str = "*manifold_modules::status::render*";

    /// Writes the files and waits until they are old, because time stamps of new files are not trusted.
    pub fn new() -> Result<Site> {
        let folder = folder("site")?;
        let site = Site(folder);
        let contents: [(&str, &[u8]); 4] = [
            (Self::PAGE, b"<html><body><h1>It works!</h1></body></html>"),
            (Self::SIX, b"Hello\n"),
            (Self::MEDIUM, &vec![b'm'; Self::MEDIUM_LEN]),
            (Self::LARGE, &vec![b'l'; Self::LARGE_LEN]),
        ];
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        for (path, content) in contents {
            let path = site.0.join(&path[1..]);
            fs::write(&path, content)?;
            File::options().write(true).open(&path)?.set_modified(old)?;
        }
        let changed = || fs::metadata(site.0.join(&Self::LARGE[1..])).map(|metadata| metadata.ctime());
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        while now() < Duration::from_secs(changed()?.unsigned_abs()) + SETTLED {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(site)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own cleaning of its temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A new folder. Its name has the same length in every process, so that counts are equal.
fn folder(name: &str) -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("manifold-bench-{:010}-{name}", std::process::id()));
    // A run that was killed may have left it behind.
    drop(fs::remove_dir_all(&folder));
    fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// How long a server may take to start; valgrind translates all of its code.
const PATIENCE: Duration = Duration::from_secs(60);

/// So long after their last change are files old whose time stamps are trusted, on any file system.
const SETTLED: Duration = Duration::from_secs(5);

/// A running server; dropped, it is killed and its folder removed.
pub struct Server {
    pub address: SocketAddr,
    dir: PathBuf,
    child: Child,
    /// The server's own process, which is not the child where that is strace.
    process: Pid,
}

impl Server {
    /// Starts a server and waits until it accepts connections.
    pub fn start(site: &Site, model: &Model, tool: Tool, logged: bool) -> Result<Server> {
        let dir = folder(if tool == Tool::Callgrind { "callgrind" } else { "strace" })?;
        // The server gives up its rights, and valgrind writes with those that are left.
        fs::set_permissions(&dir, Permissions::from_mode(0o777))?;
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        fs::write(dir.join("httpd.conf"), configuration(site, model, &dir, address, logged))?;
        let said = File::create(dir.join("said"))?;
        let mut command = command(model, tool, &dir)?;
        // Times in logs are rendered in the machine's time zone, and some zones have longer tables than others.
        command.env("TZ", "UTC").stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        let child = command.spawn().context("cannot start valgrind or strace; `cargo xtask setup` installs them")?;
        let process = Pid::from_raw(child.id().cast_signed());
        let mut server = Server { address, dir, child, process };
        server.wait_until_it_serves()?;
        Ok(server)
    }

    fn wait_until_it_serves(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // It writes its process number after it has begun to listen.
            let process = fs::read_to_string(self.dir.join("httpd.pid")).unwrap_or_default();
            if let Ok(process) = process.trim().parse()
                && TcpStream::connect(self.address).is_ok()
            {
                self.process = Pid::from_raw(process);
                break;
            }
            let ended = self.child.try_wait()?.is_some();
            if ended || Instant::now() > deadline {
                bail!("the server does not start:\n{}", self.words());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The dump that callgrind wrote as the `number`th, from 1 on.
    pub fn dump(&self, number: usize) -> Result<String> {
        let file = self.dir.join(format!("dump.{number}"));
        fs::read_to_string(&file).with_context(|| format!("valgrind wrote no part {number}:\n{}", self.words()))
    }

    /// What strace wrote so far.
    pub fn trace(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.dir.join("trace"))?).into_owned())
    }

    /// Stops its threads where they are, and waits until they stand still.
    pub fn pause(&self) -> Result<()> {
        kill(self.process, Signal::SIGSTOP)?;
        self.wait_until_threads_are("stopped", &['T', 't'])
    }

    /// Lets it go on.
    pub fn go_on(&self) -> Result<()> {
        Ok(kill(self.process, Signal::SIGCONT)?)
    }

    /// Waits until it has nothing to do: all of its threads sleep. What it does after an answer is then done before the
    /// next request, in every run.
    pub fn wait_until_idle(&self) -> Result<()> {
        self.wait_until_threads_are("idle", &['S'])
    }

    fn wait_until_threads_are(&self, what: &str, states: &[char]) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.threads_are(states)? {
            if Instant::now() > deadline {
                bail!("the server does not become {what}");
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    fn threads_are(&self, states: &[char]) -> Result<bool> {
        for thread in fs::read_dir(format!("/proc/{}/task", self.process))? {
            let stat = fs::read_to_string(thread?.path().join("stat"))?;
            // The state follows the name, which is in parentheses and may hold anything.
            if !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(states)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What it and its tool said.
    fn words(&self) -> String {
        ["said", "error.log"].iter().filter_map(|name| fs::read_to_string(self.dir.join(name)).ok()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Each may have ended by itself. A strace that is killed would leave the server running.
        let _ = kill(self.process, Signal::SIGKILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What cannot be removed is left to the system's own cleaning of its temporary folder.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn command(model: &Model, tool: Tool, dir: &Path) -> Result<Command> {
    // On one core, which thread does what is left to chance less often.
    let core = first_core()?.to_string();
    let mut words: Vec<String> = ["taskset", "--cpu-list", &core].map(str::to_owned).into();
    if model.without_ring {
        words.push(std::env::current_exe()?.display().to_string());
        words.push(without_ring::NAME.to_owned());
    }
    let to = |option: &str, name: &str| format!("{option}{}", dir.join(name).display());
    match tool {
        Tool::Callgrind => words.extend([
            "valgrind".to_owned(),
            "--tool=callgrind".to_owned(),
            to("--callgrind-out-file=", "dump"),
            format!("--dump-before={}", Site::MARKER_FUNCTION),
        ]),
        Tool::Strace => words.extend(["strace".to_owned(), "-f".to_owned(), to("--output=", "trace")]),
    }
    words.push(target_dir().join("release/manifold").display().to_string());
    words.extend(["httpd", "-X", "-f"].map(str::to_owned));
    words.push(to("", "httpd.conf"));
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    Ok(command)
}

/// A core that this process may use.
fn first_core() -> Result<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    (0..CpuSet::count()).find(|core| allowed.is_set(*core).unwrap_or(false)).context("no core is allowed")
}

fn configuration(site: &Site, model: &Model, dir: &Path, address: SocketAddr, logged: bool) -> String {
    let (site, root) = (site.0.display(), dir.display());
    let (mpm, directives) = (model.mpm, model.directives);
    let identity = if geteuid().is_root() { "User www-data\nGroup www-data\n" } else { "" };
    let log = if logged { "CustomLog access.log combined\n" } else { "" };
    let marker = Site::MARKER.split('?').next().unwrap_or_default();
    format!(
        "ServerRoot \"{root}\"\n\
         LoadModule mpm_{mpm}_module modules/mod_mpm_{mpm}.so\n\
         ServerName localhost\n\
         Listen {address}\n\
         PidFile httpd.pid\n\
         ErrorLog error.log\n\
         DocumentRoot \"{site}\"\n\
         DirectoryIndex page.html\n\
         MaxKeepAliveRequests 0\n\
         KeepAliveTimeout 60\n\
         ExtendedStatus Off\n\
         {identity}{directives}\n\
         LogFormat \"%h %l %u %t \\\"%r\\\" %>s %b \\\"%{{Referer}}i\\\" \\\"%{{User-Agent}}i\\\"\" combined\n\
         {log}\
         <Location \"{marker}\">\nSetHandler server-status\n</Location>\n"
    )
}
