//! Listening sockets and what is set on them once, because accepted sockets inherit it: no call per connection is needed.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::errno::Errno;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

/// How a listening socket is set up.
#[derive(Clone, Copy, Debug)]
pub struct ListenOptions {
    /// Connections that may wait to be accepted (`ListenBacklog`).
    pub backlog: i32,
    /// Several sockets may be bound to the address, and the kernel spreads connections over them.
    pub reuse_port: bool,
    /// Bytes, `SendBufferSize`; the system's default where `None`.
    pub send_buffer: Option<usize>,
    /// Bytes, `ReceiveBufferSize`; the system's default where `None`.
    pub receive_buffer: Option<usize>,
    /// Accepting waits in the kernel until the client has sent something (`AcceptFilter http data`), at most this long.
    pub defer_accept: Option<Duration>,
}

/// Binds and listens. Accepted sockets inherit `TCP_NODELAY`.
///
/// The listening socket never blocks: processes of several models may accept from it at the same time during a reload,
/// and whether a socket blocks is a property of the socket, not of the process.
///
/// # Errors
/// The error of the call that was refused, such as `AddrInUse` or `PermissionDenied`.
pub fn listen(address: SocketAddr, options: &ListenOptions) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(options.reuse_port)?;
    if address.is_ipv6() {
        socket.set_only_v6(address.ip() != std::net::Ipv6Addr::UNSPECIFIED)?;
    }
    if let Some(bytes) = options.send_buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(options.backlog)?;
    if let Some(longest) = options.defer_accept {
        set_defer_accept(&socket, longest)?;
    }
    Ok(socket.into())
}

/// From now on further sockets may be bound to the address of `listener` by `listen` with `reuse_port`, and the kernel
/// spreads connections over all of them. Until then the address is this socket's alone.
///
/// # Errors
/// The error of setsockopt(2).
pub fn share_port(listener: &TcpListener) -> io::Result<()> {
    SockRef::from(listener).set_reuse_port(true)
}

/// Gives a listening socket that exists already another backlog and other buffers.
///
/// # Errors
/// The error of listen(2) or setsockopt(2).
pub fn adjust(listener: &TcpListener, options: &ListenOptions) -> io::Result<()> {
    let socket = SockRef::from(listener);
    if let Some(bytes) = options.send_buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.listen(options.backlog)
}

/// Takes over a listening socket that the process inherited under the number `descriptor`, from a service manager or
/// from the server that it replaces.
///
/// # Errors
/// When there is no such descriptor, or it is no listening TCP socket.
pub fn inherited(descriptor: RawFd) -> io::Result<TcpListener> {
    let listener = TcpListener::from(crate::process::inherited(descriptor)?);
    if !SockRef::from(&listener).is_listener()? || listener.local_addr().is_err() {
        let what = format!("descriptor {descriptor} is no listening TCP socket");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    listener.set_nonblocking(true)?;
    SockRef::from(&listener).set_tcp_nodelay(true)?;
    Ok(listener)
}

fn set_defer_accept(socket: &Socket, longest: Duration) -> io::Result<()> {
    let seconds = libc::c_int::try_from(longest.as_secs()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the option's value is a c_int, passed with its size; the descriptor is open.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    Errno::result(result).map(drop).map_err(io::Error::from)
}

/// Bounds every blocking call on sockets accepted from `listener` from now on (and accept itself): how long a receive
/// may block, and how long a send. Set once here instead of once a connection.
///
/// # Errors
/// The error of setsockopt(2).
pub fn set_inherited_timeouts(listener: &TcpListener, (receive, send): (Duration, Duration)) -> io::Result<()> {
    let socket = SockRef::from(listener);
    socket.set_read_timeout(Some(receive))?;
    socket.set_write_timeout(Some(send))
}

/// Accepts one connection; unlike the standard library's accept it returns when a signal arrives (`Interrupted`).
///
/// # Errors
/// The error of accept4(2).
pub fn accept(listener: &TcpListener, nonblocking: bool) -> io::Result<(TcpStream, SocketAddr)> {
    let flags = libc::SOCK_CLOEXEC | if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
    // SAFETY: the closure passes storage and length as accept4 wants them, and `try_init` hands out the address only
    // when the call succeeded.
    let (descriptor, peer) = unsafe {
        SockAddr::try_init(|storage, length| {
            let descriptor = libc::accept4(listener.as_raw_fd(), storage.cast(), length, flags);
            Errno::result(descriptor).map_err(io::Error::from)
        })
    }?;
    // SAFETY: accept4 returned a fresh descriptor that nobody else owns.
    let stream = TcpStream::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    let peer = peer.as_socket().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((stream, peer))
}

/// Accepts one connection that does not block, without asking who it is: the cheapest accept there is.
///
/// # Errors
/// The error of accept4(2).
pub fn accept_anonymous(listener: &TcpListener) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: with a null address the kernel writes nothing.
    let descriptor = unsafe { libc::accept4(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags) };
    let descriptor = Errno::result(descriptor)?;
    // SAFETY: accept4 returned a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Connections that are complete and wait to be accepted from `listener` (`TCP_INFO`; tcp(7)).
///
/// # Errors
/// The error of getsockopt(2).
pub fn waiting(listener: &TcpListener) -> io::Result<u32> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`, which is as large; it is zeroed, so that every field is
    // initialised even where an older kernel writes less, and all of its fields are plain numbers.
    let info = unsafe {
        let result = libc::getsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        );
        Errno::result(result)?;
        info.assume_init()
    };
    // Of a listening socket these fields tell the length of its queue and its bound.
    Ok(info.tcpi_unacked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const OPTIONS: ListenOptions =
        ListenOptions { backlog: 128, reuse_port: false, send_buffer: None, receive_buffer: None, defer_accept: None };

    #[test]
    fn accepted_sockets_inherit_what_the_listener_has() {
        let listener = listen("127.0.0.1:0".parse().unwrap(), &OPTIONS).unwrap();
        set_inherited_timeouts(&listener, (Duration::from_secs(7), Duration::from_secs(8))).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"x").unwrap();
        let (stream, peer) = accept(&listener, false).unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        assert!(stream.nodelay().unwrap());
        assert_eq!(stream.read_timeout().unwrap(), Some(Duration::from_secs(7)));
        assert_eq!(stream.write_timeout().unwrap(), Some(Duration::from_secs(8)));
    }

    #[test]
    fn an_address_is_shared_only_once_its_first_socket_allows_it() {
        let first = listen("127.0.0.1:0".parse().unwrap(), &OPTIONS).unwrap();
        let address = first.local_addr().unwrap();
        let sharing = ListenOptions { reuse_port: true, ..OPTIONS };
        assert_eq!(listen(address, &sharing).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        share_port(&first).unwrap();
        let second = listen(address, &sharing).unwrap();
        // The kernel spreads connections over both.
        let clients: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
        let count = |listener: &TcpListener| std::iter::from_fn(|| accept(listener, false).ok()).count();
        let (one, two) = (count(&first), count(&second));
        assert_eq!(one + two, clients.len());
        assert!(one > 0 && two > 0, "{one} and {two}");
    }

    #[test]
    fn an_inherited_descriptor_must_be_a_listening_socket() {
        use std::os::fd::IntoRawFd;
        let listener = listen("127.0.0.1:0".parse().unwrap(), &OPTIONS).unwrap();
        let address = listener.local_addr().unwrap();
        let taken = inherited(listener.into_raw_fd()).unwrap();
        assert_eq!(taken.local_addr().unwrap(), address);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(inherited(file.into_raw_fd()).is_err());
        assert!(inherited(1 << 20).is_err());
    }

    #[test]
    fn those_who_wait_are_counted() {
        let listener = listen("127.0.0.1:0".parse().unwrap(), &OPTIONS).unwrap();
        let address = listener.local_addr().unwrap();
        let clients = [(); 3].map(|()| TcpStream::connect(address).unwrap());
        // The kernel queues a connection when the client's last acknowledgement arrives; on loopback before connect returns.
        assert_eq!(waiting(&listener).unwrap(), 3);
        accept(&listener, false).unwrap();
        assert_eq!(waiting(&listener).unwrap(), 2);
        drop(clients);
    }

    #[test]
    fn an_address_in_use_is_told() {
        let first = listen("127.0.0.1:0".parse().unwrap(), &OPTIONS).unwrap();
        let second = listen(first.local_addr().unwrap(), &OPTIONS);
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
