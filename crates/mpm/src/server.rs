//! Starting a server: sockets first, so that whatever is wrong is told before anything runs.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use manifold_engine::site::Site;
use manifold_sys::listener::{ListenOptions, listen};
use manifold_sys::privileges::Identity;

use crate::child;
use crate::generation::{Child, Generation, ListenAddress, ListenPlan};
use crate::limits::{Limits, Model};
use crate::parent::{Ended, Parent};
use crate::scoreboard::Scoreboard;

/// All that is needed to start a server.
#[derive(Debug)]
pub struct Plan {
    /// Which model, and its numbers.
    pub limits: Limits,
    /// What is served.
    pub site: Arc<Site>,
    /// Where to listen.
    pub listen: ListenPlan,
    /// Whom children run as; `None` where the process is not root.
    pub identity: Option<Identity>,
    /// Stack of a worker thread in bytes; the system's default where `None`.
    pub thread_stack: Option<usize>,
}

/// A server that listens and has no children yet.
#[derive(Debug)]
pub struct Server {
    generation: Generation,
}

/// Accepting waits in the kernel until the client has sent something, at most this long (Apache's `AcceptFilter http data`).
const DEFER_ACCEPT: Duration = Duration::from_secs(30);

impl Server {
    /// Binds and listens, and makes the scoreboard.
    ///
    /// # Errors
    /// Names the address that could not be bound and why.
    pub fn start(plan: Plan) -> Result<Server, StartError> {
        let sets = plan.limits.listener_sets as usize;
        let listeners = bind_sets(&plan.listen, sets)?;
        let servers = match plan.limits.model {
            Model::Percore => plan.limits.cores,
            _ => plan.limits.server_limit,
        };
        let threads = plan.limits.threads_per_child;
        let scoreboard = Scoreboard::new(servers as usize, threads as usize).map_err(StartError::Scoreboard)?;
        let generation = Generation {
            number: 1,
            limits: plan.limits,
            site: plan.site,
            scoreboard,
            listeners,
            identity: plan.identity,
            thread_stack: plan.thread_stack,
        };
        Ok(Server { generation })
    }

    /// The addresses the server listens on, with the ports the kernel chose for port 0.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.generation.listeners[0].iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Runs the server until it is told to stop. The calling process must have one thread.
    ///
    /// # Errors
    /// When signals cannot be collected, or no child can ever run.
    pub fn run(self) -> io::Result<Ended> {
        Parent::new(self.generation)?.run()
    }

    /// Serves from the calling process alone, as `httpd -X` does for debuggers. It ends by a signal, or when
    /// `MaxConnectionsPerChild` is reached.
    ///
    /// # Errors
    /// When the identity cannot be taken up.
    pub fn run_single(mut self) -> io::Result<Ended> {
        // Sockets of other cores would collect connections that nobody accepts.
        self.generation.listeners.truncate(1);
        if let Some(identity) = &self.generation.identity {
            manifold_sys::privileges::drop_to(identity)?;
        }
        let child = Child { generation: &self.generation, slot: 0 };
        match child::serve(&child) {
            child::EXIT_WELL => Ok(Ended::Gracefully),
            _ => Err(io::Error::other("the only process could not serve; the error log says why")),
        }
    }
}

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// An address could not be bound.
    Bind(SocketAddr, io::Error),
    /// No address is configured.
    NoListeners,
    /// There is no memory for the scoreboard.
    Scoreboard(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind(address, error) => {
                let number = error.raw_os_error().unwrap_or(0);
                let text = error.to_string();
                let text = text.split(" (os error").next().unwrap_or_default();
                write!(f, "({number}){text}: AH00072: make_sock: could not bind to address {address}")
            }
            StartError::NoListeners => f.write_str("no listening sockets available, shutting down"),
            StartError::Scoreboard(error) => write!(f, "AH00004: unable to create the scoreboard: {error}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Bind(_, error) | StartError::Scoreboard(error) => Some(error),
            StartError::NoListeners => None,
        }
    }
}

/// Binds `sets` sets of sockets to the same addresses.
///
/// Sockets that share a port would also share it with another server of the same user, unnoticed. So the addresses are
/// first bound as nobody else's; that also settles which port is meant by 0.
fn bind_sets(plan: &ListenPlan, sets: usize) -> Result<Vec<Vec<TcpListener>>, StartError> {
    let alone = bind_all(plan, false)?;
    if sets == 1 {
        return Ok(vec![alone]);
    }
    let addresses = alone.iter().filter_map(|listener| listener.local_addr().ok()).map(ListenAddress::At).collect();
    drop(alone);
    let plan = ListenPlan { addresses, ..*plan };
    (0..sets).map(|_| bind_all(&plan, true)).collect()
}

fn bind_all(plan: &ListenPlan, reuse_port: bool) -> Result<Vec<TcpListener>, StartError> {
    if plan.addresses.is_empty() {
        return Err(StartError::NoListeners);
    }
    let options = ListenOptions {
        backlog: plan.backlog,
        reuse_port,
        send_buffer: plan.send_buffer,
        receive_buffer: plan.receive_buffer,
        defer_accept: Some(DEFER_ACCEPT),
    };
    plan.addresses.iter().map(|address| bind(*address, &options)).collect()
}

fn bind(address: ListenAddress, options: &ListenOptions) -> Result<TcpListener, StartError> {
    let bind_to = |address: SocketAddr| listen(address, options).map_err(|error| StartError::Bind(address, error));
    match address {
        ListenAddress::At(address) => bind_to(address),
        ListenAddress::Any(port) => match bind_to((Ipv6Addr::UNSPECIFIED, port).into()) {
            // A system without IPv6.
            Err(StartError::Bind(_, error)) if is_family_missing(&error) => {
                bind_to((Ipv4Addr::UNSPECIFIED, port).into())
            }
            result => result,
        },
    }
}

fn is_family_missing(error: &io::Error) -> bool {
    use nix::errno::Errno;
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(address: SocketAddr) -> ListenPlan {
        let addresses = vec![ListenAddress::At(address)];
        ListenPlan { addresses, backlog: 8, send_buffer: None, receive_buffer: None }
    }

    #[test]
    fn all_sets_have_the_port_that_the_kernel_chose_and_no_other_server_gets_it() {
        let sets = bind_sets(&plan("127.0.0.1:0".parse().unwrap()), 3).unwrap();
        let addresses: Vec<_> = sets.iter().flatten().map(|listener| listener.local_addr().unwrap()).collect();
        assert_eq!(addresses.len(), 3);
        assert!(addresses.iter().all(|address| *address == addresses[0]), "{addresses:?}");
        for sets in [1, 3] {
            let second = bind_sets(&plan(addresses[0]), sets);
            assert!(matches!(second, Err(StartError::Bind(..))), "{second:?}");
        }
    }
}
