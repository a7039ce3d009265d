//! The connections of a core: what each is waiting for, and what happens to it when that comes.
//!
//! A connection is its state and nothing else while it is idle: no future, no buffer. From the first byte of a request to
//! its answer it is busy and has a future of the pool ([`Tasks`]).

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use manifold_engine::serve::Conn;
use manifold_engine::site::Site;
use manifold_engine::transport::{Activity, Host, Next};
use manifold_sys::ring::{Handle, Shots};
use nix::sys::socket::{Shutdown, SockaddrStorage, getpeername, shutdown};

use super::CoreHost;
use super::deadlines::Deadlines;
use super::driver::{Driver, Readiness};
use super::tasks::Tasks;
use super::transport::{Mail, with_mail};
use crate::blocking::{LINGER_READ, LINGER_TOTAL, send_front};
use crate::clock;
use crate::generation::Child;

/// Bytes of a large answer that one connection sends before the others get their turn.
const SHARE: u64 = 1024 * 1024;
/// Bytes received ahead of the engine before the client has to wait.
const INBOX_MAX: usize = 64 * 1024;
/// Bytes of a lingering client that are dropped before it is cut off.
const LINGER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What a connection is doing.
#[derive(Clone, Copy, Debug)]
enum State {
    /// There is none.
    Vacant,
    /// Accepted beyond `MaxConnections`; not looked at until another ends.
    Queued,
    /// Between requests, or before the first.
    Idle,
    /// A future of the pool serves it.
    Busy(usize),
    /// Done; something is still being sent. Then it is closed, or lingers.
    Leaving { linger: bool },
    /// Half-closed; what the client still sends is dropped, until then and up to so many bytes.
    Lingering { until: Instant, bytes: usize },
    /// Closed; the last operation on it has yet to end.
    Closing,
}

/// A connection; its place in the table is its handle's number.
struct Slot {
    state: State,
    conn: Conn,
    /// When waiting becomes too long.
    deadline: Option<Instant>,
    /// The earliest entry of this place in the deadlines.
    queued_due: Option<Instant>,
    /// A send is under way.
    sending: bool,
    /// The client has sent its last byte.
    ended: bool,
    /// What is sent after it.
    behind: Vec<u8>,
}

/// All connections of the core.
pub(super) struct Connections<'a, D> {
    pub(super) driver: D,
    child: &'a Child<'a>,
    site: &'a Site,
    host: &'a CoreHost<'a>,
    slots: Vec<Slot>,
    tasks: Tasks<'a>,
    deadlines: Deadlines,
    max: usize,
    /// Connections that are served, and those that wait to be.
    open: usize,
    waiting: VecDeque<Handle>,
    admitted: u64,
    idle: u64,
    /// Connections that sent their share and go on next turn.
    unfinished: Vec<Handle>,
    nobody: Conn,
}
