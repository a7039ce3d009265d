//! Names become addresses, before the run: one that cannot be found or reached is an error then, and no figure later.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::spec::{RequestSpec, Route, same_server};
use crate::h2::probe::greet;
use crate::plan::{Address, Endpoint, Protocol, Target};
use crate::tls::{self, Client};

/// How long the first, unmeasured connection may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The servers of these requests, each once, and for each request the place of its server among them.
///
/// # Errors
/// A sentence that names the host which has no address, where nobody listens, or which is not to be trusted.
pub fn endpoints(
    requests: &[RequestSpec],
    route: &Route,
    tls: &tls::Settings,
    protocol: Protocol,
) -> io::Result<(Vec<Endpoint>, Vec<usize>)> {
    let secured = requests.iter().any(|request| request.target.secure);
    let prepared = if secured { Some(tls.prepare().map_err(io::Error::other)?) } else { None };
    let mut servers: Vec<&Target> = Vec::new();
    let mut endpoints = Vec::new();
    let mut places = Vec::new();
    for request in requests {
        let target = &request.target;
        let known = servers.iter().position(|server| {
            // Whoever listens on a socket in the file system is one server, whatever hosts it serves.
            let one = route.unix_socket.is_some() && !server.secure && !target.secure;
            one || same_server(server, target)
        });
        let place = match known {
            Some(place) => place,
            None => {
                let prepared = prepared.as_ref().filter(|_| target.secure);
                let client = prepared.map(|prepared| prepared.client(&target.host)).transpose();
                servers.push(target);
                endpoints.push(endpoint(target, route, client.map_err(io::Error::other)?, protocol)?);
                servers.len() - 1
            }
        };
        places.push(place);
    }
    Ok((endpoints, places))
}

/// The server of a request, which is there and, with TLS, can be trusted.
fn endpoint(target: &Target, route: &Route, tls: Option<Client>, protocol: Protocol) -> io::Result<Endpoint> {
    let address = match &route.unix_socket {
        Some(path) => {
            let socket = connect_to(path)?;
            socket.set_read_timeout(Some(PROBE_TIMEOUT))?;
            socket.set_write_timeout(Some(PROBE_TIMEOUT))?;
            try_out(target, tls.as_ref(), protocol, socket)?;
            Address::Unix(path.clone())
        }
        None => {
            let (address, socket) = first_reachable(&addresses(target, route)?)?;
            socket.set_read_timeout(Some(PROBE_TIMEOUT))?;
            socket.set_write_timeout(Some(PROBE_TIMEOUT))?;
            try_out(target, tls.as_ref(), protocol, socket)?;
            Address::Inet(address)
        }
    };
    Ok(Endpoint { addresses: vec![address], tls })
}

/// A server that cannot be trusted, or does not speak what is to be spoken, is an error now and no figure later.
fn try_out(target: &Target, tls: Option<&Client>, protocol: Protocol, mut socket: impl Read + Write) -> io::Result<()> {
    let named = |error: &dyn std::fmt::Display| io::Error::other(format!("{}: {error}", target.host));
    let http2 = matches!(protocol, Protocol::Http2 { .. });
    let Some(client) = tls else {
        return if http2 { greet(&mut socket).map_err(|error| named(&error)) } else { Ok(()) };
    };
    let chose_http2 = client.try_handshake(&mut socket).map_err(|error| {
        let said = error.to_string();
        let way_out = if http2 && said.contains("NoApplicationProtocol") {
            "; the server does not speak HTTP/2, and without --http2 HTTP/1.1 is spoken"
        } else if error.kind() == io::ErrorKind::InvalidData && said.contains("certificate") {
            "; --cacert FILE names authorities to trust, --insecure takes any certificate"
        } else {
            ""
        };
        named(&format_args!("TLS: {error}{way_out}"))
    })?;
    if http2 && !chose_http2 {
        return Err(named(
            &"the server does not speak HTTP/2: it did not choose `h2` when it was offered (ALPN); without --http2 HTTP/1.1 is spoken",
        ));
    }
    Ok(())
}

fn addresses(target: &Target, route: &Route) -> io::Result<Vec<SocketAddr>> {
    if let Some(address) = route.resolve.iter().find_map(|resolve| resolve.address(target)) {
        return Ok(vec![address]);
    }
    let found = target.resolve().map_err(|error| {
        let sentence = format!(
            "cannot resolve {}: {error}; check the name, or give an address with --resolve {}:{}:ADDRESS",
            target.host, target.host, target.port
        );
        io::Error::new(error.kind(), sentence)
    })?;
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
fn first_reachable(addresses: &[SocketAddr]) -> io::Result<(SocketAddr, TcpStream)> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address");
    for address in addresses {
        match TcpStream::connect_timeout(address, PROBE_TIMEOUT) {
            Ok(socket) => return Ok((*address, socket)),
            Err(error) => last = io::Error::new(error.kind(), format!("cannot connect to {address}: {error}")),
        }
    }
    Err(last)
}

fn connect_to(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(path)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot connect to {}: {error}", path.display())))
}
