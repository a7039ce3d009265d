//! Names become addresses, before the run: one that cannot be found or reached is an error then, and no figure later.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::spec::{RequestSpec, Route, same_server};
use crate::plan::{Address, Endpoint, Target};

/// How long the first, unmeasured connection may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The servers of these requests, each once, and for each request the place of its server among them.
///
/// # Errors
/// A sentence that names the host which has no address, or where nobody listens.
pub fn endpoints(requests: &[RequestSpec], route: &Route) -> io::Result<(Vec<Endpoint>, Vec<usize>)> {
    if let Some(path) = &route.unix_socket {
        probe(path)?;
        let endpoint = Endpoint { addresses: vec![Address::Unix(path.clone())] };
        return Ok((vec![endpoint], vec![0; requests.len()]));
    }
    let mut servers: Vec<&Target> = Vec::new();
    let mut endpoints = Vec::new();
    let mut places = Vec::new();
    for request in requests {
        let known = servers.iter().position(|server| same_server(server, &request.target));
        let place = match known {
            Some(place) => place,
            None => {
                let address = first_reachable(&addresses(&request.target, route)?)?;
                servers.push(&request.target);
                endpoints.push(Endpoint { addresses: vec![Address::Inet(address)] });
                servers.len() - 1
            }
        };
        places.push(place);
    }
    Ok((endpoints, places))
}

fn addresses(target: &Target, route: &Route) -> io::Result<Vec<SocketAddr>> {
    if let Some(address) = route.resolve.iter().find_map(|resolve| resolve.address(target)) {
        return Ok(vec![address]);
    }
    let found = target.resolve().map_err(|error| io::Error::other(format!("{}: {error}", target.host)))?;
    let wanted = |address: &SocketAddr| {
        // A local address decides the family as well.
        let source = route.source.first().map(std::net::IpAddr::is_ipv6);
        route.only_v6.or(source).is_none_or(|v6| address.is_ipv6() == v6)
    };
    let addresses: Vec<SocketAddr> = found.into_iter().filter(wanted).collect();
    if addresses.is_empty() {
        return Err(io::Error::other(format!("{}: it has no address of the family wanted", target.host)));
    }
    Ok(addresses)
}

/// The first address somebody listens on.
fn first_reachable(addresses: &[SocketAddr]) -> io::Result<SocketAddr> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address");
    for address in addresses {
        match TcpStream::connect_timeout(address, PROBE_TIMEOUT) {
            Ok(_) => return Ok(*address),
            Err(error) => last = io::Error::new(error.kind(), format!("cannot connect to {address}: {error}")),
        }
    }
    Err(last)
}

fn probe(path: &Path) -> io::Result<()> {
    UnixStream::connect(path)
        .map(drop)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot connect to {}: {error}", path.display())))
}
