//! prefork: many processes of one thread, each serving one connection at a time. Whatever goes wrong in a request stays
//! in its process, and the kernel is the only scheduler. Waiting is a blocking call.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use manifold_engine::transport::{Activity, Host};
use manifold_sys::listener::{accept, set_inherited_timeouts};
use manifold_sys::signal::{self, Signal};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::blocking::serve_connection;
use crate::child::{AcceptFailure, EXIT_SICK, EXIT_WELL};
use crate::generation::Child;
use crate::host::ThreadHost;

/// The whole life of a child: accept, serve, and again, until it has served enough or is asked to end.
pub fn child_main(child: &Child<'_>) -> u8 {
    if signal::note_on(Signal::SIGUSR1).is_err() || prepare(child).is_err() {
        return EXIT_SICK;
    }
    let host = ThreadHost::new(child, 0, signal::asked());
    let enough = child.generation.limits.max_connections_per_child;
    let mut served = 0;
    let mut next_listener = 0;
    child.is_running();
    while !host.draining() && (enough == 0 || served < enough) {
        host.activity(Activity::Ready);
        match wait_and_accept(child.listeners(), &mut next_listener) {
            Ok((stream, peer)) => {
                served += 1;
                serve_connection(stream, peer, child.generation.timeout(), &child.generation.site, &host);
            }
            Err(error) => match AcceptFailure::of(&error) {
                AcceptFailure::Passing => {}
                AcceptFailure::Sick => return EXIT_SICK,
            },
        }
    }
    EXIT_WELL
}

fn prepare(child: &Child<'_>) -> io::Result<()> {
    let listeners = child.listeners();
    for listener in listeners {
        set_inherited_timeouts(listener, child.generation.timeout())?;
        // With one listener accept itself is the wait. With several, poll is, and another child may be quicker.
        listener.set_nonblocking(listeners.len() > 1)?;
    }
    Ok(())
}

/// Waits for a connection. A signal ends the wait with `Interrupted`; one that arrives in the instant before the wait is
/// not lost for good, because the parent repeats it every second.
fn wait_and_accept(listeners: &[TcpListener], next: &mut usize) -> io::Result<(TcpStream, SocketAddr)> {
    if let [only] = listeners {
        return accept(only, false);
    }
    let mut waits: Vec<_> = listeners.iter().map(|listener| PollFd::new(listener.as_fd(), PollFlags::POLLIN)).collect();
    poll(&mut waits, PollTimeout::NONE)?;
    // Round robin over the ready ones, so that a busy address does not starve the others.
    for step in 0..listeners.len() {
        let index = (*next + step) % listeners.len();
        if waits[index].any().unwrap_or(false) {
            *next = index + 1;
            return accept(&listeners[index], false);
        }
    }
    Err(Errno::EAGAIN.into())
}
