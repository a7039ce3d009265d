//! A generation: one configuration, one shape and one scoreboard, served by children that are all alike.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use manifold_engine::site::Site;
use manifold_sys::privileges::Identity;

use crate::blocking;
use crate::limits::Limits;
use crate::scoreboard::{Scoreboard, ServerSlot, WorkerSlot};

/// Everything a child needs, made by the parent before the first fork and never changed afterwards.
#[derive(Debug)]
pub struct Generation {
    /// Counts up from 1 with each generation of the same server.
    pub number: u64,
    /// Which model, and its numbers.
    pub limits: Limits,
    /// What is served, and how.
    pub site: Arc<Site>,
    /// Shared with all children of this generation.
    pub scoreboard: Scoreboard,
    /// Listening sockets in `limits.listener_sets` sets; a child accepts from those of one set.
    pub listeners: Vec<Vec<TcpListener>>,
    /// Whom children run as; `None` where the parent is not root.
    pub identity: Option<Identity>,
    /// Where children work, for their core dumps (`CoreDumpDirectory`); as the parent does where `None`.
    pub core_dump_directory: Option<PathBuf>,
}

impl Generation {
    /// Longest first wait of a receive on a connection, and of a send, in that order.
    pub fn first_waits(&self) -> (Duration, Duration) {
        blocking::first_waits(&self.site)
    }

    /// The set of listening sockets that the child in process slot `slot` accepts from (Apache's listener bucket).
    pub fn set_of(&self, slot: usize) -> usize {
        slot % self.listeners.len().max(1)
    }
}

/// One child process, as its MPM sees it.
#[derive(Debug)]
pub struct Child<'a> {
    /// The generation it belongs to.
    pub generation: &'a Generation,
    /// Its process slot in the scoreboard.
    pub slot: usize,
}

impl<'a> Child<'a> {
    /// The listening sockets this child accepts from. They never block.
    pub fn listeners(&self) -> &'a [TcpListener] {
        &self.generation.listeners[self.generation.set_of(self.slot)]
    }

    /// Its process slot.
    pub fn server(&self) -> ServerSlot<'a> {
        self.generation.scoreboard.server(self.slot)
    }

    /// The slot of one of its workers.
    pub fn worker(&self, thread: usize) -> WorkerSlot<'a> {
        self.generation.scoreboard.worker(self.slot, thread)
    }

    /// Tells the parent that the child accepts connections now.
    pub fn is_running(&self) {
        self.server().set_used();
        self.server().starts_running();
    }
}

/// Where to listen (`Listen`), and with what (`ListenBacklog` and friends).
#[derive(Clone, Debug)]
pub struct ListenPlan {
    /// Addresses in the order of the configuration; without an address every interface is meant.
    pub addresses: Vec<ListenAddress>,
    /// Connections that may wait to be accepted (`ListenBacklog`).
    pub backlog: i32,
    /// Bytes, `SendBufferSize`; the system's default where `None`.
    pub send_buffer: Option<usize>,
    /// Bytes, `ReceiveBufferSize`; the system's default where `None`.
    pub receive_buffer: Option<usize>,
    /// How long the kernel keeps a connection to itself until the client has sent something (`ListenTCPDeferAccept`).
    pub defer_accept: Option<Duration>,
}

/// `ListenBacklog`'s default.
const LISTEN_BACKLOG: i32 = 511;
/// `ListenTCPDeferAccept`'s default, as in Apache's `AcceptFilter http data`.
const LISTEN_TCP_DEFER_ACCEPT: Duration = Duration::from_secs(30);

impl ListenPlan {
    /// Apache's defaults, and no address yet.
    pub fn new() -> ListenPlan {
        ListenPlan {
            addresses: Vec::new(),
            backlog: LISTEN_BACKLOG,
            send_buffer: None,
            receive_buffer: None,
            defer_accept: Some(LISTEN_TCP_DEFER_ACCEPT),
        }
    }
}

impl Default for ListenPlan {
    fn default() -> ListenPlan {
        ListenPlan::new()
    }
}

/// One `Listen` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// `Listen 80`: every interface, IPv6 and IPv4.
    Any(u16),
    /// `Listen 127.0.0.1:80`.
    At(SocketAddr),
}

impl ListenAddress {
    /// Whether a socket bound to `address` is one that this line asks for.
    pub fn matches(self, address: SocketAddr) -> bool {
        match self {
            ListenAddress::Any(port) => address.ip().is_unspecified() && address.port() == port,
            ListenAddress::At(wanted) => wanted == address,
        }
    }
}
