//! The listening sockets of a server, which outlive its generations: a reload keeps the sockets of every address that is
//! still wanted, with the connections that wait in them, and however many sets the next model asks for.
//!
//! An address has one socket, or several among which the kernel spreads connections (`SO_REUSEPORT`). Their number grows
//! when a model wants more sets and never shrinks while the address is listened to: closing one would reset the
//! connections that wait in it. A model with fewer sets accepts from several sockets in each.
//!
//! Sockets of a service manager (socket activation) stay open when the server ends, and connections wait in them for the
//! next one. So they are never shut down, never set up differently, and no others are bound beside them: connections that
//! wait in those would be lost.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;

use manifold_sys::listener::{ListenOptions, adjust, listen, share_port};
use nix::errno::Errno;
use nix::sys::socket::{Shutdown, shutdown};

use crate::generation::{ListenAddress, ListenPlan};
use crate::server::StartError;

/// All listening sockets.
#[derive(Debug, Default)]
pub struct Listeners {
    places: Vec<Place>,
    /// Sockets of the service manager that no `Listen` names. A later configuration may; nobody else can bind there.
    unused: Vec<TcpListener>,
}

/// One address with its sockets, at least one.
#[derive(Debug)]
struct Place {
    wanted: ListenAddress,
    sockets: Vec<TcpListener>,
    owner: Owner,
}

/// Whose a listening socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The server's own.
    Server,
    /// A service manager's, who holds it as well and outlives the server.
    ServiceManager,
}

/// A listening socket that the process was started with.
#[derive(Debug)]
pub struct Inherited {
    /// The socket.
    pub socket: TcpListener,
    /// Whose it is.
    pub owner: Owner,
}

impl Listeners {
    /// Listens on every address of `plan`, with `sets` sockets each. Sockets among `inherited` that are bound to one of
    /// the addresses are used for it; of the others, the service manager's are kept for later and the rest is closed.
    ///
    /// # Errors
    /// Names the address that could not be bound and why.
    pub fn bind(plan: &ListenPlan, sets: usize, inherited: Vec<Inherited>) -> Result<Listeners, StartError> {
        let mut pool = inherited;
        let mut listeners = Listeners::assemble(plan, sets, &mut |wanted| Ok(take(&mut pool, wanted)))?;
        listeners.unused = managed(pool);
        Ok(listeners)
    }

    /// What the next generation listens on: the same sockets for addresses that stay, new ones for the others. Nothing
    /// changes for the generation that runs.
    ///
    /// # Errors
    /// As [`bind`](Self::bind), or when the process lacks descriptors.
    pub fn rebind(&self, plan: &ListenPlan, sets: usize) -> Result<Listeners, StartError> {
        let mut pool = self.not_in(plan).map_err(StartError::Descriptors)?;
        let mut listeners = Listeners::assemble(plan, sets, &mut |wanted| {
            let Some(place) = self.places.iter().find(|place| place.wanted == wanted) else {
                return Ok(take(&mut pool, wanted));
            };
            let sockets = clone_all(&place.sockets).map_err(StartError::Descriptors)?;
            Ok(Some(Place { wanted, sockets, owner: place.owner }))
        })?;
        listeners.unused = managed(pool);
        Ok(listeners)
    }

    /// The service manager's sockets for which `plan` has no address that is listened to already.
    fn not_in(&self, plan: &ListenPlan) -> io::Result<Vec<Inherited>> {
        let left = self.places.iter().filter(|place| !plan.addresses.contains(&place.wanted));
        let left = left.filter(|place| place.owner == Owner::ServiceManager).flat_map(|place| &place.sockets);
        let inherited =
            |socket: &TcpListener| Ok(Inherited { socket: socket.try_clone()?, owner: Owner::ServiceManager });
        left.chain(&self.unused).map(inherited).collect()
    }

    /// The sockets of each of `sets` sets. Every socket is in a set, and every set has a socket of each address.
    ///
    /// # Errors
    /// When the process lacks descriptors.
    pub fn share(&self, sets: usize) -> io::Result<Vec<Vec<TcpListener>>> {
        let mut shared: Vec<Vec<TcpListener>> = Vec::new();
        for set in 0..sets {
            let mut own = Vec::new();
            for Place { sockets, .. } in &self.places {
                let several = sockets.iter().skip(set).step_by(sets);
                let chosen: Vec<&TcpListener> =
                    if set < sockets.len() { several.collect() } else { vec![&sockets[set % sockets.len()]] };
                for socket in chosen {
                    own.push(socket.try_clone()?);
                }
            }
            shared.push(own);
        }
        Ok(shared)
    }

    /// The addresses, with the ports that the kernel chose for port 0.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.places.iter().filter_map(|place| place.sockets[0].local_addr().ok()).collect()
    }

    /// All sockets, to be handed to a server that replaces this one.
    pub fn sockets(&self) -> impl Iterator<Item = (&TcpListener, Owner)> {
        let used = self.places.iter().flat_map(|place| place.sockets.iter().map(|socket| (socket, place.owner)));
        used.chain(self.unused.iter().map(|socket| (socket, Owner::ServiceManager)))
    }

    /// Takes from `other`, which was made of these by [`rebind`](Self::rebind), the sockets it added to addresses that are
    /// listened to here; whether there are any. Its other sockets are closed.
    pub fn adopt(&mut self, other: Listeners) -> bool {
        let mut any = false;
        for Place { wanted, mut sockets, .. } in other.places {
            let Some(own) = self.places.iter_mut().find(|place| place.wanted == wanted) else { continue };
            // Those that both have come first.
            let added = sockets.split_off(own.sockets.len().min(sockets.len()));
            any |= !added.is_empty();
            own.sockets.extend(added);
        }
        any
    }

    /// The same sockets once more.
    ///
    /// # Errors
    /// When the process lacks descriptors.
    pub fn try_clone(&self) -> Result<Listeners, StartError> {
        let place = |place: &Place| Ok(Place { sockets: clone_all(&place.sockets)?, ..*place });
        let places = self.places.iter().map(place).collect::<io::Result<_>>().map_err(StartError::Descriptors)?;
        let unused = clone_all(&self.unused).map_err(StartError::Descriptors)?;
        Ok(Listeners { places, unused })
    }

    /// Says in the log which sockets of the service manager nobody accepts from.
    pub fn tell_unused(&self) {
        for address in self.unused.iter().filter_map(|socket| socket.local_addr().ok()) {
            log::warn!(
                target: "core",
                "the service manager listens on {address}, but no Listen line names that address: connections to it wait \
                 for ever; add 'Listen {address}', or take it out of the socket unit"
            );
        }
    }

    /// The sockets that are the server's alone.
    pub fn own(&self) -> impl Iterator<Item = &TcpListener> {
        self.places.iter().filter(|place| place.owner != Owner::ServiceManager).flat_map(|place| &place.sockets)
    }

    /// Refuses connections from now on at every address that `next` has not, whoever else holds the socket. Merely closed
    /// here, a socket would go on to collect connections that nobody accepts, until the last child that inherited it ends.
    pub fn shut_down_except(&self, next: &Listeners) {
        let stays = |place: &Place| {
            place.owner == Owner::ServiceManager || next.places.iter().any(|other| other.wanted == place.wanted)
        };
        for socket in self.places.iter().filter(|place| !stays(place)).flat_map(|place| &place.sockets) {
            let _only_closed_then = shutdown(socket.as_raw_fd(), Shutdown::Both);
        }
    }

    fn assemble(
        plan: &ListenPlan,
        sets: usize,
        existing: &mut dyn FnMut(ListenAddress) -> Result<Option<Place>, StartError>,
    ) -> Result<Listeners, StartError> {
        if plan.addresses.is_empty() {
            return Err(StartError::NoListeners);
        }
        let options = ListenOptions {
            backlog: plan.backlog,
            reuse_port: false,
            send_buffer: plan.send_buffer,
            receive_buffer: plan.receive_buffer,
            defer_accept: plan.defer_accept,
        };
        let mut places = Vec::new();
        for wanted in plan.addresses.iter().copied() {
            let mut place = match existing(wanted)? {
                Some(place) => place,
                // Bound as nobody else's at first: sockets that share a port would also share it with another server of
                // the same user, unnoticed.
                None => Place { wanted, sockets: vec![bind(wanted, &options)?], owner: Owner::Server },
            };
            if place.owner == Owner::Server {
                for socket in &place.sockets {
                    adjust(socket, &options).map_err(|error| bind_error(socket, error))?;
                }
                grow(&mut place.sockets, sets, &options);
            }
            places.push(place);
        }
        Ok(Listeners { places, unused: Vec::new() })
    }
}

/// Takes the sockets that are bound to an address out of `pool`; `None` where there are none.
fn take(pool: &mut Vec<Inherited>, wanted: ListenAddress) -> Option<Place> {
    let fits = |inherited: &mut Inherited| inherited.socket.local_addr().is_ok_and(|address| wanted.matches(address));
    let taken: Vec<Inherited> = pool.extract_if(.., fits).collect();
    let is_managed = taken.iter().any(|inherited| inherited.owner == Owner::ServiceManager);
    let owner = if is_managed { Owner::ServiceManager } else { Owner::Server };
    let sockets: Vec<TcpListener> = taken.into_iter().map(|inherited| inherited.socket).collect();
    (!sockets.is_empty()).then_some(Place { wanted, sockets, owner })
}

/// The service manager's.
fn managed(pool: Vec<Inherited>) -> Vec<TcpListener> {
    let managed = pool.into_iter().filter(|inherited| inherited.owner == Owner::ServiceManager);
    managed.map(|inherited| inherited.socket).collect()
}

/// Adds sockets to an address until there is one for each set. Where the system refuses, sets share sockets, which serves
/// as well and only costs some contention.
fn grow(sockets: &mut Vec<TcpListener>, sets: usize, options: &ListenOptions) {
    let options = ListenOptions { reuse_port: true, ..*options };
    while sockets.len() < sets {
        let added = sockets.iter().try_for_each(share_port).and_then(|()| listen(sockets[0].local_addr()?, &options));
        match added {
            Ok(socket) => sockets.push(socket),
            Err(error) => {
                let have = sockets.len();
                log::warn!(target: "core", "AH02820: {have} sockets serve {sets} sets of an address, none can be added: {error}");
                return;
            }
        }
    }
}

fn bind(wanted: ListenAddress, options: &ListenOptions) -> Result<TcpListener, StartError> {
    let bind_to = |address: SocketAddr| listen(address, options).map_err(|error| StartError::Bind(address, error));
    match wanted {
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
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL))
}

fn clone_all(sockets: &[TcpListener]) -> io::Result<Vec<TcpListener>> {
    sockets.iter().map(TcpListener::try_clone).collect()
}

fn bind_error(socket: &TcpListener, error: io::Error) -> StartError {
    match socket.local_addr() {
        Ok(address) => StartError::Bind(address, error),
        Err(_) => StartError::Descriptors(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    fn plan(addresses: &[SocketAddr]) -> ListenPlan {
        let addresses = addresses.iter().copied().map(ListenAddress::At).collect();
        ListenPlan { addresses, ..ListenPlan::new() }
    }

    fn any_port() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    #[test]
    fn all_sets_have_the_port_that_the_kernel_chose_and_no_other_server_gets_it() {
        let listeners = Listeners::bind(&plan(&[any_port()]), 3, Vec::new()).unwrap();
        let address = listeners.addresses()[0];
        let sets = listeners.share(3).unwrap();
        assert!(sets.iter().all(|set| set.len() == 1 && set[0].local_addr().unwrap() == address), "{sets:?}");
        for sets in [1, 3] {
            let second = Listeners::bind(&plan(&[address]), sets, Vec::new());
            assert!(matches!(second, Err(StartError::Bind(..))), "{second:?}");
        }
    }

    #[test]
    fn every_socket_is_accepted_from_however_many_sets_there_are() {
        let listeners = Listeners::bind(&plan(&[any_port(), any_port()]), 3, Vec::new()).unwrap();
        // Sets, and sockets in each of them: two addresses of three sockets.
        let check = |sets: usize, expected: &[usize]| {
            let lengths: Vec<usize> = listeners.share(sets).unwrap().iter().map(Vec::len).collect();
            assert_eq!(lengths, expected);
        };
        check(1, &[6]);
        check(2, &[4, 2]);
        check(3, &[2, 2, 2]);
        check(5, &[2, 2, 2, 2, 2]);
    }

    #[test]
    fn sockets_that_a_refused_configuration_added_were_closed_with_the_connections_in_them() {
        let plan = ListenPlan { defer_accept: None, ..plan(&[any_port()]) };
        let mut listeners = Listeners::bind(&plan, 1, Vec::new()).unwrap();
        let refused = listeners.rebind(&plan, 3).unwrap();
        let clients: Vec<TcpStream> = (0..32).map(|_| TcpStream::connect(listeners.addresses()[0]).unwrap()).collect();
        assert!(listeners.adopt(refused));
        let again = listeners.try_clone().unwrap();
        drop(listeners);
        let sets = again.share(1).unwrap();
        let count = |socket: &TcpListener| std::iter::from_fn(|| socket.accept().ok()).count();
        assert_eq!(sets[0].iter().map(count).sum::<usize>(), clients.len());
        let mut listeners = again;
        let refused = listeners.rebind(&plan, 2).unwrap();
        assert!(!listeners.adopt(refused), "nothing was added");
    }

    #[test]
    fn a_reload_keeps_the_sockets_with_the_connections_that_wait_in_them() {
        let plan = plan(&[any_port()]);
        let plan = ListenPlan { defer_accept: None, ..plan };
        let first = Listeners::bind(&plan, 2, Vec::new()).unwrap();
        let clients: Vec<TcpStream> = (0..32).map(|_| TcpStream::connect(first.addresses()[0]).unwrap()).collect();
        let mut listeners = first;
        for sets in [1, 4, 2] {
            listeners = listeners.rebind(&plan, sets).unwrap();
        }
        let sets = listeners.share(1).unwrap();
        let count = |socket: &TcpListener| std::iter::from_fn(|| socket.accept().ok()).count();
        assert_eq!(sets[0].iter().map(count).sum::<usize>(), clients.len());
    }

    #[test]
    fn an_address_that_is_left_refuses_connections_though_a_child_holds_its_socket() {
        let other = SocketAddr::from(([127, 0, 0, 2], 0));
        let first = Listeners::bind(&plan(&[any_port(), other]), 1, Vec::new()).unwrap();
        let (stays, goes) = (first.addresses()[0], first.addresses()[1]);
        let childs = first.share(1).unwrap();
        let kept = ListenPlan { addresses: vec![first.places[0].wanted], ..ListenPlan::new() };
        let next = first.rebind(&kept, 1).unwrap();
        first.shut_down_except(&next);
        assert!(TcpStream::connect(stays).is_ok());
        assert!(TcpStream::connect(goes).is_err());
        drop(childs);
    }

    /// Duplicates of all sockets, as the next process gets them.
    fn handed(listeners: &Listeners, owner: Owner) -> Vec<Inherited> {
        listeners.sockets().map(|(socket, _)| Inherited { socket: socket.try_clone().unwrap(), owner }).collect()
    }

    #[test]
    fn inherited_sockets_are_used_where_they_fit() {
        let first = Listeners::bind(&plan(&[any_port()]), 2, Vec::new()).unwrap();
        let address = first.addresses()[0];
        let second = Listeners::bind(&plan(&[address]), 2, handed(&first, Owner::Server)).unwrap();
        assert_eq!(second.sockets().count(), 2);
        assert_eq!(second.addresses(), [address]);
    }

    #[test]
    fn a_service_managers_sockets_stay_open_when_the_server_leaves_them() {
        let manager = Listeners::bind(&plan(&[any_port(), any_port()]), 1, Vec::new()).unwrap();
        let [one, two] = manager.addresses()[..] else { panic!("two addresses") };
        let count = |listeners: &Listeners| (listeners.places[0].sockets.len(), listeners.unused.len());
        // One of them is listened to, and gets no further sockets; the other one is kept.
        let server = Listeners::bind(&plan(&[one]), 3, handed(&manager, Owner::ServiceManager)).unwrap();
        assert_eq!((server.addresses(), count(&server)), (vec![one], (1, 1)));
        // A reload may change them over, and back: nobody else could bind there.
        let next = server.rebind(&plan(&[two]), 1).unwrap();
        assert_eq!((next.addresses(), count(&next)), (vec![two], (1, 1)));
        server.shut_down_except(&next);
        let both = next.rebind(&plan(&[one, two]), 1).unwrap();
        assert_eq!((both.addresses(), count(&both)), (vec![one, two], (1, 0)));
        both.shut_down_except(&Listeners::default());
        drop((server, next, both));
        for address in [one, two] {
            assert!(TcpStream::connect(address).is_ok());
        }
    }
}
