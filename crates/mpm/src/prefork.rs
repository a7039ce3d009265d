//! prefork: many processes of one thread, each serving one connection at a time. Whatever goes wrong in a request stays
//! in its process, and the kernel is the only scheduler. Waiting is a blocking call.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use manifold_engine::site::Site;
use manifold_engine::transport::{Activity, Host};
use manifold_sys::listener::{accept, set_inherited_timeouts};
use manifold_sys::signal;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::blocking::serve_connection;
use crate::child::{AcceptFailure, EXIT_SICK, EXIT_WELL};
use crate::generation::Child;
use crate::host::ThreadHost;
use crate::{clock, pause};

/// The whole life of a child: accept, serve, and again, until it has served enough or is asked to end.
pub fn child_main(child: &Child<'_>) -> u8 {
    let Ok(mut acceptor) = Acceptor::new(child) else { return EXIT_SICK };
    let host = ThreadHost::new(child, 0, signal::asked());
    let enough = child.generation.limits.max_connections_per_child;
    let mut served = 0;
    child.is_running();
    while !host.draining() && (enough == 0 || served < enough) {
        host.activity(Activity::Ready);
        match acceptor.next(&child.generation.site) {
            Ok((stream, peer)) => {
                served += 1;
                serve_connection(stream, peer, &child.generation.site, &host);
            }
            Err(error) => match AcceptFailure::of(&error) {
                AcceptFailure::Passing => {}
                AcceptFailure::Sick => return EXIT_SICK,
                AcceptFailure::Closed => break,
            },
        }
    }
    EXIT_WELL
}

/// Waits for connections on the child's listening sockets, and accepts them one at a time.
struct Acceptor<'a> {
    listeners: &'a [TcpListener],
    epoll: Epoll,
}

impl<'a> Acceptor<'a> {
    fn new(child: &Child<'a>) -> io::Result<Acceptor<'a>> {
        let (listeners, epoll) = (child.listeners(), Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        for (index, listener) in listeners.iter().enumerate() {
            set_inherited_timeouts(listener, child.generation.first_waits())?;
            // One process is woken for a connection, not all of them.
            let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE;
            epoll.add(listener, EpollEvent::new(flags, index as u64))?;
        }
        Ok(Acceptor { listeners, epoll })
    }

    /// The next connection. A signal ends the wait with `Interrupted`; one that arrives in the instant before the wait is
    /// not lost for good, because the parent repeats it every second.
    ///
    /// One event is taken at a time: the kernel reports ready sockets in turns, so that a busy address does not starve the
    /// others.
    fn next(&mut self, site: &Site) -> io::Result<(TcpStream, SocketAddr)> {
        let mut event = [EpollEvent::empty()];
        let most = pause::before(site, clock::turn().now).map(|most| most.as_millis() as u8);
        let ready = self.epoll.wait(&mut event, most.map_or(EpollTimeout::NONE, EpollTimeout::from));
        pause::after();
        match ready? {
            0 => {
                clock::tick();
                Err(Errno::EAGAIN.into())
            }
            _ => accept(&self.listeners[event[0].data() as usize], false),
        }
    }
}
