//! Between the loop and the kernel: connections by the number of their slot, bytes in and out, and one place to wait.
//!
//! A wire is asked what happened, one thing after the other, and answers with bytes rather than with readiness, so that a ring that
//! has received already and a poller that has yet to receive look alike.

mod epoll;
mod multiplexed;
mod ring;
mod tls;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrLike, SockaddrStorage, UnixAddr, sockopt};

use crate::content::Look;
use crate::outcome::Failure;
use crate::plan::Address;
use crate::tls::{Client, Fault, Secured};

pub use epoll::Epoll;
pub use multiplexed::{Multiplexed, slots_below};
pub use ring::Uring;
pub use tls::Tls;

/// What became of bytes that were to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The kernel has them all.
    All,
    /// The kernel has so many of them; the others follow by themselves.
    Part(usize),
    /// The connection does not stand yet; they follow by themselves.
    Connecting,
    /// They could not be sent.
    Failed(Errno),
}

/// Something that has happened.
#[derive(Debug, PartialEq, Eq)]
pub enum Happening<'a> {
    /// Something that concerns the wire alone.
    Nothing,
    /// The interrupting descriptor is readable.
    Interrupted,
    /// There is news of bytes that could not be sent at once.
    Sending {
        /// The connection.
        slot: usize,
        /// What became of them.
        sent: Sent,
    },
    /// Bytes came.
    Received {
        /// The connection.
        slot: usize,
        /// At least one, lent until the next call.
        bytes: &'a [u8],
        /// Nothing will follow them.
        ended: bool,
        /// For how long the kernel had them before they were read, nanoseconds; 0 where it was not asked.
        waited: u64,
    },
    /// The peer sends nothing more.
    Ended {
        /// The connection.
        slot: usize,
    },
    /// The connection is broken.
    Broken {
        /// The connection.
        slot: usize,
        /// How.
        error: Errno,
    },
    /// A handshake is over: the connection stands.
    Secured {
        /// The connection.
        slot: usize,
        /// What was negotiated.
        secured: Secured,
    },
    /// The stream of a secured connection ended, and the server has not said that it would: bytes may be missing.
    CutOff {
        /// The connection.
        slot: usize,
    },
    /// A connection that was to be secured is not, or not any more.
    Insecure {
        /// The connection.
        slot: usize,
        /// What kind of failure it is.
        fault: Fault,
        /// In words.
        said: String,
    },
    /// The same of a connection that slots share: each of them is told that its request failed.
    Untrusted {
        /// In words.
        said: String,
    },
    /// An answer begins, on a wire that takes answers apart itself.
    Begun {
        /// The slot.
        slot: usize,
        /// Status and text of its head, as it would look in HTTP/1, where that is wanted. An interim answer has one as well.
        head: Option<(u16, Rc<[u8]>)>,
    },
    /// An answer is complete, on such a wire.
    Answered {
        /// The slot.
        slot: usize,
        /// The answer.
        answer: Answer,
    },
    /// A request has failed, on such a wire.
    Failed {
        /// The slot.
        slot: usize,
        /// Why.
        failure: Failure,
    },
    /// The server has not processed a request, and says so: it may be made again.
    Refused {
        /// The slot.
        slot: usize,
    },
}

/// A slot has a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connected {
    /// One that is begun for it.
    Anew,
    /// One that others use as well, and that was begun for one of them.
    Joined,
}

/// An answer that the wire has taken apart itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Bytes received: frames and what is in them.
    pub received: u64,
    /// Body bytes among them.
    pub body: u64,
    /// The length of the body, as the head said it.
    pub stated: Option<u64>,
    /// The body is not what [`expect`](Wire::expect) said that it has to be.
    pub wrong_content: bool,
}

/// How a socket is made.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Where it connects from.
    pub local: Option<IpAddr>,
    /// Size of its buffers.
    pub buffer: Option<usize>,
    /// Bytes go out as they are given (TCP_NODELAY): needed where a small send may follow another that nobody has answered, as in a
    /// handshake, because the kernel would keep the second until the first is acknowledged, which servers put off by 40 ms.
    pub no_delay: bool,
}

/// Connections of one thread. A plan lives as long as `'p`.
pub trait Wire<'p> {
    /// Begins to connect a slot that has no connection, secured if `tls` says how, which only [`Tls`] can. Whether it stands is told by
    /// what becomes of the first [`send`](Wire::send).
    ///
    /// # Errors
    /// The error of the call that failed.
    fn connect(
        &mut self,
        slot: usize,
        to: &Address,
        origin: Origin,
        tls: Option<&'p Client>,
    ) -> Result<Connected, Errno>;

    /// Whether the slot's connection, which has carried a request, takes another one.
    fn keeps(&self, _slot: usize) -> bool {
        true
    }

    /// How the body of the answer to the slot's next request is to be looked at. A wire that does not take answers apart gives it back.
    fn expect(&mut self, _slot: usize, look: Option<Box<Look>>) -> Option<Box<Look>> {
        look
    }

    /// Sends bytes of the plan on a connection that has nothing left to send.
    fn send(&mut self, slot: usize, bytes: &'p [u8]) -> Sent;

    /// The same for bytes that are soon gone: what is not sent at once is copied.
    fn send_copy(&mut self, slot: usize, bytes: &[u8]) -> Sent;

    /// Nothing but the end of the connection is of interest from now on.
    fn await_end(&mut self, slot: usize);

    /// Closes a slot's connection, if it has one. Nothing more is told of it.
    fn close(&mut self, slot: usize);

    /// Waits until something happens, at most `timeout`; whether something may have happened.
    ///
    /// # Errors
    /// What makes waiting impossible.
    fn wait(&mut self, timeout: Duration) -> io::Result<bool>;

    /// The next thing that happened; `None` when it is time to wait.
    fn next(&mut self) -> Option<Happening<'_>>;
}

/// A nonblocking socket on its way to `to`.
pub(crate) fn begin_connecting(to: &Address, origin: Origin) -> Result<OwnedFd, Errno> {
    let (inet, unix);
    let (family, address): (_, &dyn SockaddrLike) = match to {
        Address::Inet(to) => {
            inet = SockaddrStorage::from(*to);
            (if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }, &inet)
        }
        Address::Unix(path) => {
            unix = UnixAddr::new(path)?;
            (AddressFamily::Unix, &unix)
        }
    };
    let socket = socket::socket(family, SockType::Stream, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)?;
    if let Some(bytes) = origin.buffer {
        socket::setsockopt(&socket, sockopt::SndBuf, &bytes)?;
        socket::setsockopt(&socket, sockopt::RcvBuf, &bytes)?;
    }
    if let (true, Address::Inet(_)) = (origin.no_delay, to) {
        socket::setsockopt(&socket, sockopt::TcpNoDelay, &true)?;
    }
    if let (Some(local), Address::Inet(_)) = (origin.local, to) {
        // The port is chosen when connecting, so that one local port serves many remote ones.
        socket::setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
        socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(local, 0)))?;
    }
    match socket::connect(socket.as_raw_fd(), address) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}
