//! A generation: one configuration, one shape and one scoreboard, served by children that are all alike.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use manifold_engine::site::Site;
use manifold_sys::privileges::Identity;

use crate::limits::Limits;
use crate::scoreboard::{Scoreboard, ServerSlot, ServerState, WorkerSlot};

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
    /// Listening sockets: one set that all children share, or in percore one set a core.
    pub listeners: Vec<Vec<TcpListener>>,
    /// Whom children run as; `None` where the parent is not root.
    pub identity: Option<Identity>,
    /// Stack of a worker thread in bytes (`ThreadStackSize`); the system's default where `None`.
    pub thread_stack: Option<usize>,
}

impl Generation {
    /// Longest wait for one receive or send (`Timeout`).
    pub fn timeout(&self) -> Duration {
        self.site.timeout
    }
}

/// One child process, as its MPM sees it.
#[derive(Debug)]
pub struct Child<'a> {
    /// The generation it belongs to.
    pub generation: &'a Generation,
    /// Its process slot in the scoreboard, and in percore the number of its core.
    pub slot: usize,
}

impl<'a> Child<'a> {
    /// The listening sockets this child accepts from.
    pub fn listeners(&self) -> &'a [TcpListener] {
        let sets = &self.generation.listeners;
        &sets[self.slot % sets.len()]
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
        if self.server().state() == ServerState::Starting {
            self.server().set_state(ServerState::Running);
        }
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
}

/// One `Listen` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// `Listen 80`: every interface, IPv6 and IPv4.
    Any(u16),
    /// `Listen 127.0.0.1:80`.
    At(SocketAddr),
}
