//! Where a configuration listens, and which virtual hosts are reached there.
//!
//! In the copy all is on 127.0.0.1, so that addresses cannot tell hosts apart any more; ports do. Each address and port that is
//! listened at, or that a virtual host has to itself on a wildcard's port, becomes a port of its own.

use manifold_config::tree::Node;

use super::OwnConfig;

/// More places to listen at than this are a mistake.
const ENDPOINTS_MAX: usize = 1_000;

/// A place to listen at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoint {
    /// The address as written; `None` for all of them.
    pub host: Option<String>,
    /// The port.
    pub port: u16,
    /// Whether a virtual host there, or the server itself, speaks TLS.
    pub secured: bool,
    /// What stands after the address in `Listen`: `https`.
    pub(super) more: Vec<String>,
    /// Where it stands.
    pub place: String,
}

impl Endpoint {
    /// As `Listen` has it.
    pub fn name(&self) -> String {
        self.host.as_ref().map_or_else(|| self.port.to_string(), |host| format!("{host}:{}", self.port))
    }
}

/// Every endpoint of a configuration.
pub(super) fn all(own: &OwnConfig) -> Result<Vec<Endpoint>, String> {
    let (mut listens, mut hosts) = (Vec::new(), Vec::new());
    collect(&own.configuration.nodes, &mut listens, &mut hosts);
    let mut endpoints = Vec::new();
    for node in listens {
        listen(own, node, &mut endpoints)?;
    }
    if endpoints.is_empty() {
        return Err(format!("{} has no Listen line, so that nobody can ask it", own.file.display()));
    }
    for node in &hosts {
        for address in addresses(own, node)? {
            claim(own, node, &address, &mut endpoints);
        }
    }
    if endpoints.len() > ENDPOINTS_MAX {
        return Err(format!("{} listens at more than {ENDPOINTS_MAX} places", own.file.display()));
    }
    let everywhere = speaks_tls(&own.configuration.nodes);
    endpoints.iter_mut().for_each(|endpoint| endpoint.secured |= everywhere);
    for node in hosts {
        if speaks_tls(node.body.as_deref().unwrap_or_default()) {
            for address in addresses(own, node)? {
                reached(&address, &endpoints).into_iter().for_each(|index| endpoints[index].secured = true);
            }
        }
    }
    Ok(endpoints)
}

/// The addresses of a virtual host in the copy, where each endpoint is a port on 127.0.0.1.
pub(super) fn of_host(own: &OwnConfig, node: &Node, endpoints: &[Endpoint], ports: &[u16]) -> Result<String, String> {
    let mut all: Vec<String> = Vec::new();
    for (address, written) in addresses(own, node)?.into_iter().zip(&node.args) {
        let reached = reached(&address, endpoints);
        match (&address.host, address.port) {
            (None, None) => all.push("*".to_owned()),
            // Where nobody listens it is not reached in the original either.
            _ if reached.is_empty() => all.push(written.value.clone()),
            // One that names its address goes before those that do not, as in the original.
            (Some(_), _) => all.extend(reached.into_iter().map(|index| format!("127.0.0.1:{}", ports[index]))),
            (None, Some(_)) => all.extend(reached.into_iter().map(|index| format!("*:{}", ports[index]))),
        }
    }
    all.dedup();
    Ok(all.join(" "))
}

/// Whether a node is a `<VirtualHost>`.
pub(super) fn is_host(node: &Node) -> bool {
    node.name.value.eq_ignore_ascii_case("<VirtualHost")
}

/// An address as `Listen` and `<VirtualHost>` have it.
#[derive(Debug, PartialEq)]
struct Address {
    /// `None` for all.
    host: Option<String>,
    /// `None` for all.
    port: Option<u16>,
}

/// `Listen` lines and virtual hosts, wherever they stand.
fn collect<'n>(nodes: &'n [Node], listens: &mut Vec<&'n Node>, hosts: &mut Vec<&'n Node>) {
    for node in nodes {
        if node.name.value.eq_ignore_ascii_case("Listen") {
            listens.push(node);
        } else if is_host(node) {
            hosts.push(node);
        }
        collect(node.body.as_deref().unwrap_or_default(), listens, hosts);
    }
}

fn listen(own: &OwnConfig, node: &Node, endpoints: &mut Vec<Endpoint>) -> Result<(), String> {
    let place = own.place(node.span);
    let wrong = |said: String| format!("{place}: Listen {said}");
    let written = node.args.first().ok_or_else(|| wrong("without a port".to_owned()))?;
    let address = match written.value.parse::<u16>() {
        Ok(port) => Address { host: None, port: Some(port) },
        Err(_) => address(&written.value).map_err(wrong)?,
    };
    let port =
        address.port.filter(|port| *port > 0).ok_or_else(|| wrong(format!("{}: a port is needed", written.value)))?;
    let more = node.args[1..].iter().map(|arg| arg.value.clone()).collect();
    if !endpoints.iter().any(|endpoint| (&endpoint.host, endpoint.port) == (&address.host, port)) {
        endpoints.push(Endpoint { host: address.host, port, secured: false, more, place });
    }
    Ok(())
}

fn addresses(own: &OwnConfig, node: &Node) -> Result<Vec<Address>, String> {
    let of = |text: &str| address(text).map_err(|said| format!("{}: <VirtualHost> {said}", own.place(node.span)));
    node.args.iter().map(|arg| of(&arg.value)).collect()
}

/// `*`, `*:80`, `_default_:443`, `10.0.0.1`, `[::1]:80`, `name:80`.
fn address(text: &str) -> Result<Address, String> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let host = match host {
        "*" | "_default_" | "0.0.0.0" | "::" => None,
        host => Some(host.to_owned()),
    };
    let port = match port {
        None | Some("*") => None,
        Some(port) => Some(port.parse().map_err(|_| format!("{text}: {port} is no port; write it as a number"))?),
    };
    Ok(Address { host, port })
}

/// A virtual host that names an address has it to itself: on a wildcard's port that makes an endpoint more.
fn claim(own: &OwnConfig, node: &Node, address: &Address, endpoints: &mut Vec<Endpoint>) {
    let Some(host) = &address.host else { return };
    let has = |port: u16| address.port.is_none_or(|wanted| wanted == port);
    let is = |endpoint: &Endpoint| endpoint.host.as_ref() == Some(host) && has(endpoint.port);
    if endpoints.iter().any(is) {
        return;
    }
    let shared = endpoints.iter().filter(|endpoint| endpoint.host.is_none() && has(endpoint.port));
    let place = own.place(node.span);
    let new = |shared: &Endpoint| Endpoint { host: Some(host.clone()), place: place.clone(), ..shared.clone() };
    let new: Vec<Endpoint> = shared.map(new).collect();
    endpoints.extend(new);
}

fn reached(address: &Address, endpoints: &[Endpoint]) -> Vec<usize> {
    let is = |endpoint: &Endpoint| {
        address.port.is_none_or(|port| port == endpoint.port)
            && address.host.as_ref().is_none_or(|host| endpoint.host.as_ref() == Some(host))
    };
    (0..endpoints.len()).filter(|&index| is(&endpoints[index])).collect()
}

fn speaks_tls(nodes: &[Node]) -> bool {
    let on = |node: &Node| {
        node.name.value.eq_ignore_ascii_case("SSLEngine")
            && node.args.first().is_some_and(|arg| !arg.value.eq_ignore_ascii_case("off"))
    };
    nodes.iter().any(on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_apache_writes_them() {
        let of = |host: Option<&str>, port| Ok(Address { host: host.map(str::to_owned), port });
        for (text, expected) in [
            ("*:80", of(None, Some(80))),
            ("*", of(None, None)),
            ("_default_:443", of(None, Some(443))),
            ("0.0.0.0:80", of(None, Some(80))),
            ("[::]:80", of(None, Some(80))),
            ("[fe80::1]:80", of(Some("fe80::1"), Some(80))),
            ("10.0.0.1", of(Some("10.0.0.1"), None)),
            ("10.0.0.1:*", of(Some("10.0.0.1"), None)),
            ("www.example.org:8080", of(Some("www.example.org"), Some(8080))),
            ("*:$port", Err("*:$port: $port is no port; write it as a number".to_owned())),
            ("*:99999", Err("*:99999: 99999 is no port; write it as a number".to_owned())),
        ] {
            assert_eq!(address(text), expected);
        }
    }
}
