//! TLS as a client speaks it: what was asked for becomes one configuration a server, made before the run. The protocol is rustls's.
//!
//! [`stream`] is one connection's state without a socket, [`names`] what protocol versions and cipher suites are called.

mod key;
pub mod names;
mod session;
pub mod stream;
mod trust;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, SupportedCipherSuite, SupportedProtocolVersion};

pub use names::Version;
pub use session::{Fault, Secured};

/// Sessions kept for servers that resume them; TLS 1.3 keeps at most eight of each server.
const SESSIONS: usize = 256;

/// How connections are secured, as asked for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose word is taken for a server's certificate.
    pub trust: Trust,
    /// The client's own certificate, with its key.
    pub identity: Option<Identity>,
    /// The oldest version spoken.
    pub oldest: Version,
    /// The newest version spoken.
    pub newest: Version,
    /// What is offered, the best first; never empty.
    pub suites: Vec<SupportedCipherSuite>,
    /// The name asked for and verified; `None`: the URL's host.
    pub name: Option<String>,
    /// Whether servers are told the name (SNI). Addresses never are (RFC 6066, section 3).
    pub tells_name: bool,
    /// Protocols offered, the best first; none: the extension is not sent.
    pub alpn: Vec<String>,
    /// Whether a connection resumes the session of an earlier one where the server permits.
    pub resumes: bool,
}

/// Whose word is taken for a server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// That of the authorities the system trusts.
    System,
    /// That of the authorities in this file (PEM).
    File(PathBuf),
    /// The server's own: nothing is verified, neither the certificate nor that the server has its key.
    Anyone,
}

/// Files of a client's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate and those that vouch for it (PEM).
    pub certificate: PathBuf,
    /// Its key (PEM); often the same file.
    pub key: PathBuf,
}

impl Default for Settings {
    /// As browsers do it.
    fn default() -> Settings {
        Settings {
            trust: Trust::System,
            identity: None,
            oldest: Version::Tls12,
            newest: Version::Tls13,
            suites: names::as_browsers(),
            name: None,
            tells_name: true,
            alpn: Vec::new(),
            resumes: false,
        }
    }
}

/// Settings with their files read: good for any server.
#[derive(Clone, Debug)]
pub struct Prepared {
    config: Arc<ClientConfig>,
    name: Option<String>,
}

/// How connections to one server are secured. Clones share the sessions that may be resumed.
#[derive(Clone, Debug)]
pub struct Client {
    /// Shared by all connections.
    pub config: Arc<ClientConfig>,
    /// Who the server has to be.
    pub name: ServerName<'static>,
}

impl Settings {
    /// Reads the files and checks that all goes together.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn prepare(&self) -> Result<Prepared, String> {
        let provider = Arc::new(CryptoProvider { cipher_suites: self.suites.clone(), ..aws_lc_rs::default_provider() });
        let versions = self.versions()?;
        let verifier = trust::verifier(&self.trust, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&versions);
        let builder = builder.map_err(|_| "no cipher suite is of a TLS version that is permitted".to_owned())?;
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = identity.read()?;
                let wrong = |error| format!("{}: {error}", identity.certificate.display());
                builder.with_client_auth_cert(chain, key).map_err(wrong)?
            }
        };
        config.enable_sni = self.tells_name;
        config.alpn_protocols = self.alpn.iter().map(|name| name.clone().into_bytes()).collect();
        config.resumption =
            if self.resumes { Resumption::in_memory_sessions(SESSIONS) } else { Resumption::disabled() };
        Ok(Prepared { config: Arc::new(config), name: self.name.clone() })
    }

    /// Offers for TLS 1.2 only the suites of a list, by their names; as with OpenSSL, what TLS 1.3 has is offered besides.
    ///
    /// # Errors
    /// A sentence for the user: a suite is not known, or none is of TLS 1.2.
    pub fn choose_suites(&mut self, list: &str) -> Result<(), String> {
        let chosen = names::suites(list)?.into_iter().filter(|suite| suite.tls13().is_none());
        self.suites.retain(|suite| suite.tls13().is_some());
        let always = self.suites.len();
        self.suites.extend(chosen);
        if self.suites.len() == always {
            return Err(format!("{list}: what TLS 1.3 has is offered in any case; a suite of TLS 1.2 is needed"));
        }
        Ok(())
    }

    fn versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
        let wanted = |version: &Version| (self.oldest..=self.newest).contains(version);
        let versions: Vec<_> = [(Version::Tls13, &TLS13), (Version::Tls12, &TLS12)]
            .into_iter()
            .filter_map(|(version, supported)| wanted(&version).then_some(supported))
            .collect();
        if versions.is_empty() {
            return Err(format!("no TLS version is from {} to {}", self.oldest, self.newest));
        }
        Ok(versions)
    }
}

impl Identity {
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
        let chain = trust::certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| format!("cannot read a private key from {}: {error}", self.key.display()))?;
        Ok((chain, key))
    }
}

impl Prepared {
    /// For this host, as it stands in a URL.
    ///
    /// # Errors
    /// A sentence, where it is neither a name nor an address.
    pub fn client(&self, host: &str) -> Result<Client, String> {
        let host = self.name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("`{host}` is neither a host name nor an address, as TLS needs it"))?;
        Ok(Client { config: Arc::clone(&self.config), name })
    }
}

impl Client {
    /// Makes a handshake over a connection that blocks, and says goodbye. Whether the server chose HTTP/2 (ALPN `h2`).
    ///
    /// # Errors
    /// What went wrong; of kind `InvalidData` where TLS itself did.
    pub fn try_handshake(&self, socket: &mut (impl Read + Write)) -> io::Result<bool> {
        let connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        let mut connection = connection.map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(socket)?;
        }
        connection.send_close_notify();
        connection.write_tls(socket)?;
        Ok(connection.alpn_protocol() == Some(b"h2"))
    }
}
