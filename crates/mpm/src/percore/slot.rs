//! A connection of a core while nobody works on it, and how received bytes find somebody who does.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::RawFd;
use std::time::Instant;

use manifold_engine::serve::Conn;
use nix::sys::socket::{SockaddrStorage, getpeername};

use super::tasks::Tasks;
use super::transport::with_mail;

/// Bytes received ahead of the engine before the client has to wait.
pub(super) const INBOX_MAX: usize = 64 * 1024;
/// What the inbox can grow to, as receiving stops only after what the kernel has in its buffers.
const INBOX_BOUND: usize = INBOX_MAX + super::BUFFERS as usize * super::BUFFER_SIZE as usize;

/// What a connection is doing.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
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
pub(super) struct Slot {
    pub(super) state: State,
    pub(super) conn: Conn,
    /// When waiting becomes too long.
    pub(super) deadline: Option<Instant>,
    /// The earliest entry of this place in the deadlines.
    pub(super) queued_due: Option<Instant>,
    /// A send is under way.
    pub(super) sending: bool,
    /// What is sent after it; empty unless one is under way.
    pub(super) behind: Vec<u8>,
    /// A wait for the socket to take more is under way.
    pub(super) polling: bool,
    /// The future waits for input.
    pub(super) filling: bool,
    /// The client has sent its last byte.
    pub(super) ended: bool,
}

impl Slot {
    pub(super) fn vacant() -> Slot {
        let nobody = Conn::new(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        let (state, behind) = (State::Vacant, Vec::new());
        let (deadline, queued_due) = (None, None);
        Slot {
            state,
            conn: nobody,
            deadline,
            queued_due,
            sending: false,
            behind,
            polling: false,
            filling: false,
            ended: false,
        }
    }
}

/// Puts received bytes into the mail of the connection's future; an idle connection gets one.
pub(super) fn deliver(slot: &mut Slot, tasks: &mut Tasks<'_>, idle: &mut u64, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let started = matches!(slot.state, State::Idle);
    if started {
        *idle -= 1;
        slot.state = State::Busy(tasks.take());
        slot.filling = true;
    }
    if let State::Busy(task) = slot.state {
        with_mail(tasks.mail(task), |mail| {
            if started {
                mail.job = Some(slot.conn);
                mail.behind = slot.behind.len();
            }
            mail.inbox.extend_from_slice(bytes);
            debug_assert!(mail.inbox.len() <= INBOX_BOUND, "receiving was not stopped");
        });
    }
}

/// The client's address; `None` when it is not connected any more.
pub(super) fn peer(socket: RawFd) -> Option<SocketAddr> {
    let address: SockaddrStorage = getpeername(socket).ok()?;
    match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(v4), _) => Some(SocketAddrV4::from(*v4).into()),
        (_, Some(v6)) => Some(SocketAddrV6::from(*v6).into()),
        _ => None,
    }
}
