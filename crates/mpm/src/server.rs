//! Starting a server: sockets first, so that whatever is wrong is told before anything runs.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use manifold_engine::site::Site;
use manifold_sys::privileges::Identity;
use manifold_sys::signal::{Signal, note_on};

use crate::child;
use crate::clock;
use crate::generation::{Child, Generation, ListenPlan};
use crate::ledger::Ledger;
use crate::limits::{Limits, Model};
use crate::listeners::{Inherited, Listeners, Owner};
use crate::parent::{Ended, Parent};
use crate::scoreboard::{Scoreboard, ServerState};
use crate::status::{Board, Source};
use crate::system::Unix;

/// Process slots of each set of listening sockets, at least, beyond the processes that may run: where few may run, even
/// fewer that take long to end would keep others from being made.
const SLOTS_FOR_EXITING: u32 = 8;

/// All that is needed to start a server, or to give a running one another configuration.
#[derive(Debug)]
pub struct Plan {
    /// Which model, and its numbers.
    pub limits: Limits,
    /// What is served.
    pub site: Arc<Site>,
    /// Where to listen.
    pub listen: ListenPlan,
    /// Whom children run as; `None` where the process is not root.
    pub identity: Option<Identity>,
    /// Where children work, for their core dumps; as this process does where `None`.
    pub core_dump_directory: Option<PathBuf>,
}

/// Whoever operates the server: knows its configuration, and is told how the server fares.
pub trait Operator {
    /// Reads the configuration anew and resolves all of it. Nothing of the running server changes when that fails.
    ///
    /// # Errors
    /// What is wrong; it is logged.
    fn reload(&mut self) -> Result<Plan, String>;

    /// The first child of a configuration serves: after the start, and after each reload.
    fn in_force(&mut self);

    /// The configuration that [`reload`](Self::reload) read, or tried to read, is not taken; the old one stays in force.
    fn refused(&mut self, why: &str);

    /// The server begins to end, and takes at most so long where that is known.
    fn stopping(&mut self, within: Option<Duration>);

    /// The successor, process `pid`, serves on the same sockets; this server ends when its connections are done.
    fn replaced(&mut self, pid: i32);

    /// A second has passed.
    fn tick(&mut self, pulse: Pulse);

    /// The parent is alive: called whenever it has looked at everything, and at the latest at the time that was given last.
    fn beat(&mut self, now: Instant) -> Option<Instant>;

    /// Starts the server's binary anew, hands it `sockets`, and lets it tell by a byte in `ready` that it serves.
    ///
    /// # Errors
    /// When it cannot be started.
    fn start_successor(
        &mut self,
        sockets: &mut dyn Iterator<Item = (&TcpListener, Owner)>,
        ready: io::PipeWriter,
    ) -> io::Result<i32>;
}

/// How busy a server is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pulse {
    /// Requests a second, of all generations.
    pub requests_per_second: f64,
    /// Workers of the current generation that are busy.
    pub busy: u32,
    /// All its workers that accept.
    pub workers: u32,
    /// Generations that finish their connections.
    pub draining: usize,
}

/// A server that listens and has no children yet.
#[derive(Debug)]
pub struct Server {
    listeners: Listeners,
    ledger: Ledger,
    generation: Generation,
}

impl Server {
    /// Binds and listens, on sockets among `inherited` where they fit, and makes the scoreboard.
    ///
    /// # Errors
    /// Names the address that could not be bound and why.
    pub fn start(plan: Plan, inherited: Vec<Inherited>) -> Result<Server, StartError> {
        let listeners = Listeners::bind(&plan.listen, plan.limits.listener_sets as usize, inherited)?;
        let ledger = Ledger::new(clock::wall()).map_err(StartError::Scoreboard)?;
        let generation = generation(1, plan, &listeners, &ledger, Vec::new())?;
        Ok(Server { listeners, ledger, generation })
    }

    /// The addresses the server listens on, with the ports the kernel chose for port 0.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.addresses()
    }

    /// The sockets it listens on that nobody else listens on when it has ended.
    pub fn own_sockets(&self) -> Vec<RawFd> {
        self.listeners.own().map(AsRawFd::as_raw_fd).collect()
    }

    /// Runs the server until it is told to stop. The calling process must have one thread.
    ///
    /// # Errors
    /// When signals cannot be collected, or no child can ever run.
    pub fn run(self, operator: Box<dyn Operator>) -> io::Result<Ended> {
        Parent::new(self.listeners, self.ledger, self.generation, Unix::new(operator)?).run()
    }

    /// Serves from the calling process alone, as `httpd -X` does for debuggers. It ends by a signal, or when
    /// `MaxConnectionsPerChild` is reached.
    ///
    /// # Errors
    /// When the identity cannot be taken up.
    pub fn run_single(self) -> io::Result<Ended> {
        child::take_place(&self.generation)?;
        if self.generation.limits.model == Model::Prefork {
            note_on(Signal::SIGUSR1)?;
        }
        let child = Child { generation: &self.generation, slot: 0 };
        child.server().occupy(std::process::id().cast_signed(), self.generation.number);
        child.server().set_state(ServerState::Starting);
        match child::serve(&child) {
            child::EXIT_WELL => Ok(Ended::Gracefully),
            _ => Err(io::Error::other("the only process could not serve; the error log says why")),
        }
    }
}

/// A generation that accepts from `listeners`. Its status page also knows `others`, the generations that are alive.
///
/// # Errors
/// When memory or descriptors are short.
pub(crate) fn generation(
    number: u64,
    plan: Plan,
    listeners: &Listeners,
    ledger: &Ledger,
    others: Vec<Board>,
) -> Result<Generation, StartError> {
    let Plan { limits, site, identity, core_dump_directory, .. } = plan;
    // Processes that end must not keep others from taking their place, so there is room for as many again.
    let processes = limits.processes();
    let room = processes.max(SLOTS_FOR_EXITING.saturating_mul(limits.listener_sets));
    let servers = limits.server_limit.max(processes.saturating_add(room)) as usize;
    let scoreboard = Scoreboard::new(servers, limits.threads_per_child as usize).map_err(StartError::Scoreboard)?;
    let listeners = listeners.share(limits.listener_sets as usize).map_err(StartError::Descriptors)?;
    let generation = Generation { number, limits, site, scoreboard, listeners, identity, core_dump_directory };
    let boards = [Board::of(&generation)].into_iter().chain(others).collect();
    generation.site.status.set(Arc::new(Source::new(ledger.clone(), boards, &generation.site)));
    Ok(generation)
}

/// A generation like `old` that accepts from `listeners`.
///
/// # Errors
/// As [`generation`].
pub(crate) fn again(
    number: u64,
    old: &Generation,
    listeners: &Listeners,
    ledger: &Ledger,
    others: Vec<Board>,
) -> Result<Generation, StartError> {
    let plan = Plan {
        limits: old.limits.clone(),
        site: Arc::clone(&old.site),
        listen: ListenPlan::new(),
        identity: old.identity.clone(),
        core_dump_directory: old.core_dump_directory.clone(),
    };
    generation(number, plan, listeners, ledger, others)
}

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// An address could not be bound.
    Bind(SocketAddr, io::Error),
    /// No address is configured.
    NoListeners,
    /// There is no memory for the scoreboard.
    Scoreboard(io::Error),
    /// The process has no descriptors left for its sockets.
    Descriptors(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind(address, error) => {
                let number = error.raw_os_error().unwrap_or(0);
                let text = error.to_string();
                let text = text.split(" (os error").next().unwrap_or_default();
                write!(f, "({number}){text}: AH00072: make_sock: could not bind to address {address}")
            }
            StartError::NoListeners => f.write_str("no listening sockets available, shutting down"),
            StartError::Scoreboard(error) => write!(f, "AH00004: unable to create the scoreboard: {error}"),
            StartError::Descriptors(error) => write!(f, "no descriptor is left for a listening socket: {error}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Bind(_, error) | StartError::Scoreboard(error) | StartError::Descriptors(error) => Some(error),
            StartError::NoListeners => None,
        }
    }
}
