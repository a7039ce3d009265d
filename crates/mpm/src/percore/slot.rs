//! A connection of a core while nobody works on it, and how received bytes find somebody who does.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::RawFd;

use manifold_engine::serve::Conn;
use nix::sys::socket::{SockaddrStorage, getpeername};

use super::deadlines::Moment;
use super::tasks::Tasks;
use super::transport::with_mail;
use crate::scoreboard::Place;

/// Bytes received ahead of the engine before the client has to wait.
pub(super) const INBOX_MAX: usize = 64 * 1024;
/// What the inbox can grow to, as receiving stops only after what the kernel has in its buffers.
const INBOX_BOUND: usize = INBOX_MAX + super::BUFFERS as usize * super::BUFFER_SIZE as usize;

/// What a connection is doing.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// There is none.
    Vacant,
    /// Accepted in this turn, when there was no room; the turn's end decides whether it is served.
    Newcomer,
    /// Between requests, or before the first.
    Idle,
    /// A future of the pool serves it.
    Busy(usize),
    /// Done; something is still being sent. Then it is closed, or lingers.
    Leaving { linger: bool },
    /// Half-closed; what the client still sends is dropped, until then and up to so many bytes.
    Lingering { until: Moment, bytes: u32 },
    /// Closed; the last operation on it has yet to end.
    Closing,
}

/// A connection; its place in the table is its handle's number. There is one for each connection the core holds, idle
/// ones included, and this is nearly all the memory that an idle one has.
pub(super) struct Slot {
    pub(super) conn: Conn,
    pub(super) state: State,
    /// When waiting becomes too long.
    pub(super) deadline: Option<Moment>,
    /// What is sent after the send under way; empty unless one is.
    pub(super) behind: Vec<u8>,
    pub(super) counted: Place,
    /// It takes one of the places of `MaxConnections`.
    pub(super) served: bool,
    /// A send is under way.
    pub(super) sending: bool,
    /// A wait for the socket to take more is under way.
    pub(super) polling: bool,
    /// It waits for a disk.
    pub(super) asking: bool,
    /// It is among those that go on sending in another turn.
    pub(super) unfinished: bool,
    /// The future waits for input.
    pub(super) filling: bool,
    /// The client has sent its last byte.
    pub(super) ended: bool,
}

impl Slot {
    pub(super) fn vacant() -> Slot {
        Slot {
            conn: Conn::new(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))),
            state: State::Vacant,
            deadline: None,
            behind: Vec::new(),
            counted: Place::Nowhere,
            served: false,
            sending: false,
            polling: false,
            asking: false,
            unfinished: false,
            filling: false,
            ended: false,
        }
    }

    /// What it is waiting for, as the scoreboard counts it, while nobody works on it.
    pub(super) fn waits_for(&self) -> Place {
        match self.state {
            State::Idle | State::Closing if self.sending => Place::Writing,
            State::Vacant | State::Newcomer | State::Closing => Place::Nowhere,
            State::Idle if self.conn.kept_alive > 0 => Place::KeepAlive,
            State::Idle => Place::WaitIo,
            State::Busy(_) if self.filling => Place::WaitIo,
            State::Busy(_) | State::Leaving { .. } => Place::Writing,
            State::Lingering { .. } => Place::Lingering,
        }
    }
}

/// Gives received bytes to the connection's future; an idle connection gets one.
pub(super) fn deliver(slot: &mut Slot, tasks: &mut Tasks<'_>, bytes: &[u8]) {
    match slot.state {
        State::Idle if !bytes.is_empty() => {
            slot.state = State::Busy(tasks.take(slot.conn, bytes, slot.behind.len()));
            slot.filling = true;
        }
        State::Busy(task) => with_mail(tasks.mail(task), |mail| {
            mail.inbox.extend_from_slice(bytes);
            debug_assert!(mail.inbox.len() <= INBOX_BOUND, "receiving was not stopped");
        }),
        _ => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_small() {
        assert!(size_of::<Slot>() <= 112, "{} bytes", size_of::<Slot>());
    }
}
