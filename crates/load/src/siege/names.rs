//! Addresses of hosts, looked up beside the loop, since a resolver may take seconds, and once for all users.

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};

/// So many hosts are looked up in a run; a page could name any number of them.
const HOSTS_MAX: usize = 4096;

/// What is known of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// It is being looked up.
    NotYet,
    /// Never empty.
    Known(Vec<IpAddr>),
    /// Why it has no address, as the resolver says it.
    Failed(String),
}

/// Hosts and what is known of them.
#[derive(Clone, Debug, Default)]
pub struct Names {
    known: Arc<Mutex<HashMap<String, Resolved>>>,
}

impl Names {
    /// What is known now; begins to look it up if nobody has.
    pub fn look_up(&self, host: &str) -> Resolved {
        if let Ok(ip) = host.parse() {
            return Resolved::Known(vec![ip]);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(host) {
            return found.clone();
        }
        if known.len() >= HOSTS_MAX {
            return Resolved::Failed(format!("more than {HOSTS_MAX} hosts"));
        }
        known.insert(host.to_owned(), Resolved::NotYet);
        drop(known);
        let (names, name) = (self.clone(), host.to_owned());
        let work = move || names.learn(name.clone(), resolve(&name));
        if std::thread::Builder::new().name("resolver".to_owned()).spawn(work).is_err() {
            self.learn(host.to_owned(), Resolved::Failed("no thread to look it up".to_owned()));
        }
        Resolved::NotYet
    }

    fn learn(&self, host: String, found: Resolved) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(host, found);
    }
}

fn resolve(host: &str) -> Resolved {
    match (host, 0).to_socket_addrs() {
        Ok(addresses) => {
            let ips: Vec<IpAddr> = addresses.map(|address| address.ip()).collect();
            if ips.is_empty() { Resolved::Failed("Name or service not known".to_owned()) } else { Resolved::Known(ips) }
        }
        Err(error) => {
            let error = error.to_string();
            Resolved::Failed(error.rsplit(": ").next().unwrap_or_default().to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let names = Names::default();
        assert_eq!(names.look_up("127.0.0.1"), Resolved::Known(vec!["127.0.0.1".parse().unwrap()]));
        let wait_for = |host: &str| loop {
            match names.look_up(host) {
                Resolved::NotYet => std::thread::yield_now(),
                found => return found,
            }
        };
        assert!(matches!(wait_for("localhost"), Resolved::Known(ips) if ips.iter().all(IpAddr::is_loopback)));
        assert!(matches!(wait_for("no such host"), Resolved::Failed(_)));
    }
}
