//! Many client sockets on one machine: connecting without waiting, from as many loopback addresses as it takes.

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrIn, sockopt};

/// Source addresses the clients are spread over, 127.0.0.1 and up: each has its own 28 000 or so local ports.
pub const SOURCES: usize = 20;
/// Descriptors wanted where a thousand connections and more are held, in the generator and in each server.
pub const DESCRIPTORS_WANTED: u64 = 65_536;

/// The source address of the client `index`.
pub fn source(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 1 + (index % SOURCES) as u8)
}

/// Begins a connection to 127.0.0.1 that does not block. `small`, for clients that read slowly: bytes of the receive buffer,
/// and the longest segment the server may send.
///
/// # Errors
/// The error of the call that failed; one in progress is none.
pub fn connect(source: Ipv4Addr, port: u16, small: Option<(usize, u32)>) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
    socket::setsockopt(&socket, sockopt::TcpNoDelay, &true)?;
    if let Some((buffer, segment)) = small {
        socket::setsockopt(&socket, sockopt::RcvBuf, &buffer)?;
        socket::setsockopt(&socket, sockopt::TcpMaxSeg, &segment)?;
    }
    // Ports are then chosen while connecting, where only the pair of both addresses must be new.
    socket::setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
    socket::bind(socket.as_raw_fd(), &address(source, 0))?;
    match socket::connect(socket.as_raw_fd(), &address(Ipv4Addr::LOCALHOST, port)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

fn address(ip: Ipv4Addr, port: u16) -> SockaddrIn {
    let [a, b, c, d] = ip.octets();
    SockaddrIn::new(a, b, c, d, port)
}

/// Raises the number of descriptors to what the system allows, `wanted` at most; servers started from here inherit it.
/// Returns what there is.
pub fn raise_descriptors(wanted: u64) -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 0 };
    let raised = wanted.min(hard).max(soft);
    match setrlimit(Resource::RLIMIT_NOFILE, raised, hard) {
        Ok(()) => raised,
        Err(_) => soft,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_spread_over_the_loopback_network() {
        assert_eq!(source(0), Ipv4Addr::LOCALHOST);
        assert_eq!([source(19), source(20)], [Ipv4Addr::new(127, 0, 0, 20), Ipv4Addr::LOCALHOST]);
    }

    #[test]
    fn a_connection_comes_from_its_source() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let _socket = connect(source(6), port, Some((4096, 1448))).expect("a connection");
        let (_, peer) = listener.accept().expect("it comes");
        assert_eq!(peer.ip(), source(6));
    }
}
