//! The service manager (systemd) that started this server, where one did: it is told how the server fares, as
//! sd_notify(3) and sd_watchdog_enabled(3) say.
//!
//! Nothing here needs a configuration: without `NOTIFY_SOCKET` in the environment nothing is said. The environment stays as
//! it is; children do not start programs, and a successor is given what it needs by [`Invocation`].
//!
//! [`Invocation`]: crate::successor::Invocation

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::{Duration, Instant};

use manifold_mpm::server::Pulse;
use manifold_sys::clock::monotonic_microseconds;

/// The socket of the service manager; `@` begins an abstract name.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
/// Within so many microseconds a sign of life is expected.
const WATCHDOG_USEC: &str = "WATCHDOG_USEC";
/// Whose signs of life are expected.
pub(crate) const WATCHDOG_PID: &str = "WATCHDOG_PID";

/// Signs of life in each interval of the watchdog: one may be late.
const BEATS_AN_INTERVAL: u32 = 3;
/// No more often than this, however short the interval.
const BEAT_LEAST: Duration = Duration::from_millis(10);
/// A manager that does not listen holds up the server no longer than this.
const PATIENCE: Duration = Duration::from_millis(100);
/// What is said of the server's load is said this often.
const STATUS_EVERY: Duration = Duration::from_secs(5);
/// Bytes of a status line.
const STATUS_LEN_MAX: usize = 300;
/// Beside the time that ending may take, for what comes before and after it.
const TO_SPARE: Duration = Duration::from_secs(5);

/// What the service manager is told through.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    link: Option<Link>,
    watchdog: Option<Watchdog>,
    /// Why the newest configuration is not in force.
    refused: Option<String>,
    status_at: Option<Instant>,
}

#[derive(Debug)]
struct Link {
    socket: UnixDatagram,
    address: SocketAddr,
}

#[derive(Debug)]
struct Watchdog {
    every: Duration,
    next: Option<Instant>,
}

impl ServiceManager {
    /// What the environment names.
    pub(crate) fn from_environment() -> ServiceManager {
        let text = |name: &str| std::env::var(name).ok();
        let interval = watchdog_interval(text(WATCHDOG_USEC), text(WATCHDOG_PID), std::process::id());
        let socket: Option<OsString> = std::env::var_os(NOTIFY_SOCKET).filter(|name| !name.is_empty());
        let link = socket.and_then(|name| {
            let link = Link::to(&name);
            link.inspect_err(|error| log::warn!(target: "core", "{NOTIFY_SOCKET} {}: {error}", name.display())).ok()
        });
        ServiceManager::new(link, interval)
    }

    fn new(link: Option<Link>, interval: Option<Duration>) -> ServiceManager {
        let every = interval.map(|interval| (interval / BEATS_AN_INTERVAL).max(BEAT_LEAST));
        let watchdog = every.filter(|_| link.is_some()).map(|every| Watchdog { every, next: None });
        ServiceManager { link, watchdog, refused: None, status_at: None }
    }

    /// A configuration is in force: the server serves.
    pub(crate) fn ready(&mut self) {
        self.refused = None;
        self.send("READY=1\nSTATUS=Serving");
    }

    /// The configuration is read anew.
    pub(crate) fn reloading(&mut self) {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=Reloading", monotonic_microseconds()));
    }

    /// The new configuration is not taken: the server goes on with the old one, which a reader of the status should know.
    pub(crate) fn refused(&mut self, why: &str) {
        let why = format!("The new configuration is not taken: {}", why.lines().next().unwrap_or_default());
        self.send(&format!("READY=1\nSTATUS={}", one_line(&why)));
        self.refused = Some(why);
    }

    /// The server ends, within the time given where it is known. Where it is not, the manager's own limit holds.
    pub(crate) fn stopping(&mut self, within: Option<Duration>) {
        self.send("STOPPING=1\nSTATUS=Stopping");
        if let Some(within) = within {
            self.send(&format!("EXTEND_TIMEOUT_USEC={}", (within + TO_SPARE).as_micros()));
        }
    }

    /// Process `pid` is the server from now on. This one has nothing more to say.
    pub(crate) fn replaced(&mut self, pid: i32) {
        self.send(&format!("MAINPID={pid}\nSTATUS=Process {pid} has taken over"));
        (self.link, self.watchdog) = (None, None);
    }

    /// Called often: a sign of life when it is due. Gives the time by which it has to be called again.
    pub(crate) fn beat(&mut self, now: Instant) -> Option<Instant> {
        let Watchdog { every, next } = self.watchdog.as_mut()?;
        let due = next.is_none_or(|next| now >= next);
        let at = if due { now + *every } else { next.unwrap_or(now) };
        *next = Some(at);
        if due {
            self.send("WATCHDOG=1");
        }
        Some(at)
    }

    /// Tells the load, now and then.
    pub(crate) fn tick(&mut self, now: Instant, pulse: Pulse) {
        if self.link.is_some() && self.status_at.is_none_or(|last| now >= last + STATUS_EVERY) {
            self.status_at = Some(now);
            let status = status(pulse, self.refused.as_deref());
            self.send(&format!("STATUS={status}"));
        }
    }

    fn send(&self, message: &str) {
        let Some(link) = &self.link else { return };
        if let Err(error) = link.socket.send_to_addr(message.as_bytes(), &link.address) {
            let what = message.lines().next().unwrap_or_default();
            log::warn!(target: "core", "the service manager could not be told {what}: {error}");
        }
    }
}

impl Link {
    fn to(name: &OsStr) -> io::Result<Link> {
        let address = match name.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(Path::new(name))?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Link { socket, address })
    }
}

/// The watchdog's interval, where it is this process that is watched.
fn watchdog_interval(usec: Option<String>, pid: Option<String>, own_pid: u32) -> Option<Duration> {
    let watched = pid.is_none_or(|pid| pid.parse() == Ok(own_pid));
    let usec = usec?.parse().ok().filter(|usec| *usec > 0)?;
    watched.then(|| Duration::from_micros(usec))
}

fn status(pulse: Pulse, refused: Option<&str>) -> String {
    let Pulse { requests_per_second, busy, workers, draining } = pulse;
    let mut text = format!("{requests_per_second:.1} requests/s, {busy} of {workers} workers busy");
    if draining > 0 {
        text.push_str(&format!(", {draining} old generation{} finishing", if draining == 1 { "" } else { "s" }));
    }
    if let Some(why) = refused {
        text = format!("{text}. {why}");
    }
    one_line(&text)
}

/// A message is lines of assignments, so a value must be one line.
fn one_line(text: &str) -> String {
    let mut line: String = text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    line.truncate(line.floor_char_boundary(STATUS_LEN_MAX));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who listens, and who tells.
    fn linked(interval: Option<Duration>) -> (UnixDatagram, ServiceManager) {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("manifold-notify-{}-{number}", std::process::id());
        let listener = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        listener.set_nonblocking(true).unwrap();
        let link = Link::to(OsStr::new(&format!("@{name}"))).unwrap();
        (listener, ServiceManager::new(Some(link), interval))
    }

    fn told(listener: &UnixDatagram) -> Vec<String> {
        let mut buffer = [0; 1024];
        let message = || {
            let length = listener.recv(&mut buffer).ok()?;
            Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
        };
        std::iter::from_fn(message).collect()
    }

    #[test]
    fn a_servers_life_is_told() {
        let (listener, mut manager) = linked(None);
        manager.ready();
        manager.refused("no\x07 good\nat all");
        manager.stopping(Some(Duration::from_secs(2)));
        manager.stopping(None);
        manager.replaced(77);
        manager.stopping(None);
        let refused = "READY=1\nSTATUS=The new configuration is not taken: no  good";
        let stopping = "STOPPING=1\nSTATUS=Stopping";
        let replaced = "MAINPID=77\nSTATUS=Process 77 has taken over";
        let expected =
            ["READY=1\nSTATUS=Serving", refused, stopping, "EXTEND_TIMEOUT_USEC=7000000", stopping, replaced];
        assert_eq!(told(&listener), expected);
        manager.reloading();
        assert_eq!(told(&listener), [""; 0]);
    }

    #[test]
    fn a_reload_says_when_it_began() {
        let (listener, mut manager) = linked(None);
        manager.reloading();
        let message = told(&listener).remove(0);
        let time = message.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().strip_suffix("\nSTATUS=Reloading");
        assert!(time.unwrap().parse::<u64>().unwrap() > 0, "{message}");
    }

    #[test]
    fn signs_of_life_come_at_least_twice_an_interval() {
        let interval = Duration::from_millis(300);
        let (listener, mut manager) = linked(Some(interval));
        let (start, mut now, mut beats) = (Instant::now(), Instant::now(), 0);
        while now < start + interval * 10 {
            now = manager.beat(now).unwrap();
            beats += told(&listener).iter().filter(|message| *message == "WATCHDOG=1").count();
        }
        assert!((20..=40).contains(&beats), "{beats}");
        let (listener, mut manager) = linked(None);
        assert_eq!((manager.beat(start), told(&listener)), (None, vec![]));
    }

    #[test]
    fn the_load_is_told_now_and_then() {
        let (listener, mut manager) = linked(None);
        let start = Instant::now();
        for second in 0..10 {
            manager.tick(
                start + Duration::from_secs(second),
                Pulse { requests_per_second: 2.5, busy: 1, workers: 75, draining: 0 },
            );
        }
        assert_eq!(told(&listener), ["STATUS=2.5 requests/s, 1 of 75 workers busy"; 2]);
        let pulse = Pulse { draining: 1, ..Pulse::default() };
        assert_eq!(status(pulse, Some("x")), "0.0 requests/s, 0 of 0 workers busy, 1 old generation finishing. x");
        assert_eq!(one_line(&"\u{e9}".repeat(200)).len(), STATUS_LEN_MAX);
    }

    #[test]
    fn only_the_process_that_is_watched_gives_signs_of_life() {
        let check = |usec: Option<&str>, pid: Option<&str>, expected: Option<u64>| {
            let interval = watchdog_interval(usec.map(str::to_owned), pid.map(str::to_owned), 7);
            assert_eq!(interval, expected.map(Duration::from_micros), "{usec:?} {pid:?}");
        };
        check(Some("2000000"), Some("7"), Some(2_000_000));
        check(Some("2000000"), None, Some(2_000_000));
        check(Some("2000000"), Some("8"), None);
        check(Some("soon"), Some("7"), None);
        check(Some("0"), Some("7"), None);
        check(None, Some("7"), None);
    }
}
