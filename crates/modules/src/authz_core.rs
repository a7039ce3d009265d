//! `mod_authz_core`: who may have what is at a path (`Require`); others get 403.

use std::net::IpAddr;
use std::sync::Arc;

use manifold_engine::phases::{Hook, Outcome, Phase, Phases};
use manifold_engine::request::Request;
use manifold_http::Status;

use crate::authz_host::{self, Subnet};
use crate::location::Locations;

/// What a `Require` line asks of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// `all granted` and `all denied`.
    All(bool),
    /// `local`: the client is on this machine.
    Local,
    /// `ip`: its address is in one of these ranges.
    Ip(Vec<Subnet>),
}

impl Provider {
    fn grants(&self, client: IpAddr) -> bool {
        match self {
            Provider::All(granted) => *granted,
            Provider::Local => authz_host::is_local(client),
            Provider::Ip(ranges) => ranges.iter().any(|range| range.contains(client)),
        }
    }
}

/// Adds the module's hook, where a section says who may have what.
pub fn register(phases: &mut Phases, locations: &Arc<Locations>) {
    if locations.0.iter().any(|location| !location.require.is_empty()) {
        phases.add(Phase::AccessChecker, Access(Arc::clone(locations)));
    }
}

struct Access(Arc<Locations>);

impl Hook for Access {
    fn run(&self, request: &mut Request) -> Outcome {
        if grants(&self.0, &request.path, request) { Outcome::Done } else { Outcome::Respond(Status::FORBIDDEN) }
    }

    /// Where everybody is treated alike.
    fn rests_on_path(&self, path: &[u8]) -> bool {
        self.0.require(path).iter().all(|provider| matches!(provider, Provider::All(_)))
    }
}

/// Whether the client may have what is at `path`, which need not be the path it asked for; a refusal is logged.
pub(crate) fn grants(locations: &Locations, path: &[u8], request: &Request) -> bool {
    let providers = locations.require(path);
    // A client of IPv4 on a socket of IPv6.
    let client = request.peer.ip().to_canonical();
    let granted = providers.is_empty() || providers.iter().any(|provider| provider.grants(client));
    if !granted {
        log::error!(
            target: "authz_core",
            "[client {}] AH01630: client denied by server configuration: {}",
            request.peer,
            String::from_utf8_lossy(&request.filename)
        );
    }
    granted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_provider_that_fits_grants() {
        let check = |provider: Provider, client: &str, expected| {
            assert_eq!(provider.grants(client.parse().unwrap()), expected, "{provider:?} and {client}");
        };
        check(Provider::All(true), "192.0.2.1", true);
        check(Provider::All(false), "127.0.0.1", false);
        for client in ["127.0.0.1", "127.255.0.1", "::1"] {
            check(Provider::Local, client, true);
        }
        for client in ["192.0.2.1", "128.0.0.1", "::2", "::"] {
            check(Provider::Local, client, false);
        }
        let ranges = ["192.0.2", "2001:db8::/32"].map(|range| Subnet::parse(range).unwrap());
        check(Provider::Ip(ranges.to_vec()), "192.0.2.9", true);
        check(Provider::Ip(ranges.to_vec()), "2001:db8::1", true);
        check(Provider::Ip(ranges.to_vec()), "192.0.3.9", false);
    }
}
