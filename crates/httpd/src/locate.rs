//! Where the server of a configuration is: for programs that look at it from outside.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use manifold_config::{Severity, Style, render};
use manifold_mpm::generation::ListenAddress;
use manifold_mpm::limits::Occasion;

use crate::args::Args;
use crate::config::load;
use crate::pid_file::{Running, running};

/// The configuration that is read where none is named.
pub const DEFAULT_CONFIG: &str = "/etc/manifold/httpd.conf";

/// A server, as far as its configuration and its PID file tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Whether it runs.
    pub state: State,
    /// Where its status page is, or would be.
    pub url: String,
}

/// Whether a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// This process.
    Running(i32),
    /// It does not, and its PID file was left behind by this process.
    Dead(i32),
    /// It does not.
    Stopped,
}

/// Finds the server whose configuration `words` name as `httpd` would (`-d`, `-f`).
///
/// # Errors
/// What is wrong with the words, the configuration or the PID file.
pub fn locate(words: &[OsString]) -> Result<Located, String> {
    let args = Args::parse(words.iter().cloned()).map_err(|error| error.to_string())?;
    let loaded = load(&args, Occasion::Start);
    let Some(config) = &loaded.config else {
        let errors = loaded.findings.iter().filter(|finding| finding.severity == Severity::Error);
        let sources = &loaded.configuration.sources;
        return Err(errors.map(|error| render(error, sources, "httpd", Style::Plain)).collect());
    };
    let state = match running(&config.pid_file)? {
        Running::Yes(pid) => State::Running(pid),
        Running::Stale(pid) => State::Dead(pid),
        Running::NoFile => State::Stopped,
    };
    let address = config.listen.addresses.first().copied().map_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 80)), reach);
    let path = config.status_path().unwrap_or_else(|| "/server-status".to_owned());
    Ok(Located { state, url: format!("http://{address}{path}") })
}

/// An address at which this machine reaches a listening socket.
fn reach(listen: ListenAddress) -> SocketAddr {
    match listen {
        ListenAddress::Any(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        ListenAddress::At(address) if !address.ip().is_unspecified() => address,
        ListenAddress::At(address) => {
            let ip = if address.is_ipv4() { IpAddr::from(Ipv4Addr::LOCALHOST) } else { Ipv6Addr::LOCALHOST.into() };
            SocketAddr::new(ip, address.port())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_reached_from_this_machine() {
        let check = |listen, expected: &str| assert_eq!(reach(listen).to_string(), expected);
        check(ListenAddress::Any(80), "127.0.0.1:80");
        check(ListenAddress::At("0.0.0.0:81".parse().unwrap()), "127.0.0.1:81");
        check(ListenAddress::At("[::]:82".parse().unwrap()), "[::1]:82");
        check(ListenAddress::At("192.0.2.1:83".parse().unwrap()), "192.0.2.1:83");
    }
}
