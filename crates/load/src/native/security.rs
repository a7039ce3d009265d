//! The options of TLS, wherever they were written.

use std::path::PathBuf;

use crate::tls::{Identity, Settings, Trust, Version, names};

/// Those without a value.
pub const FLAGS: [&str; 3] = ["insecure", "no-sni", "no-session-reuse"];

/// What `manifold load --help` says of them.
pub const USAGE: &str = "\
      --insecure          https: take any certificate; without, it must be one the system trusts, for the URL's host
      --cacert FILE       https: trust the authorities in FILE (PEM) instead of the system's
      --cert FILE         https: the client's certificate (PEM); --key FILE has its key if that is elsewhere
      --tls-min V, --tls-max V
                          https: versions to speak, 1.2 and 1.3 (default: both)
      --ciphers LIST      https: cipher suites to offer, the best first, by their names in OpenSSL or the registry
      --sni NAME          https: the name to ask for and to verify, instead of the URL's host; --no-sni asks for none
      --alpn LIST         https: protocols to offer (default http/1.1); `none` offers none
      --no-session-reuse  https: a whole handshake for each connection, as of visitors who were never there before
";

/// What was said so far.
#[derive(Clone, Debug)]
pub struct Security {
    settings: Settings,
    key: Option<PathBuf>,
}

impl Default for Security {
    fn default() -> Security {
        let settings = Settings { alpn: vec!["http/1.1".to_owned()], resumes: true, ..Settings::default() };
        Security { settings, key: None }
    }
}

impl Security {
    /// An option with a value; `None`: it is none of TLS.
    pub fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
        let settings = &mut self.settings;
        let path = || PathBuf::from(value);
        match name {
            "cacert" => settings.trust = Trust::File(path()),
            "cert" => settings.identity = Some(Identity { certificate: path(), key: path() }),
            "key" => self.key = Some(path()),
            "sni" => settings.name = Some(value.to_owned()),
            "alpn" if value == "none" => settings.alpn.clear(),
            "alpn" => settings.alpn = value.split(',').map(|name| name.trim().to_owned()).collect(),
            "tls-min" => return Some(Version::parse(value).map(|version| self.settings.oldest = version)),
            "tls-max" => return Some(Version::parse(value).map(|version| self.settings.newest = version)),
            "ciphers" => return Some(names::suites(value).map(|suites| self.settings.suites = suites)),
            _ => return None,
        }
        Some(Ok(()))
    }

    /// An option without a value, one of [`FLAGS`].
    pub fn flag(&mut self, name: &str, on: bool) {
        match name {
            "insecure" if on => self.settings.trust = Trust::Anyone,
            "no-sni" => self.settings.tells_name = !on,
            "no-session-reuse" => self.settings.resumes = !on,
            _ => {}
        }
    }

    /// All was said.
    ///
    /// # Errors
    /// What does not go together.
    pub fn finish(self) -> Result<Settings, String> {
        let Security { mut settings, key } = self;
        match (&mut settings.identity, key) {
            (Some(identity), Some(key)) => identity.key = key,
            (None, Some(_)) => return Err("--key needs --cert".to_owned()),
            (_, None) => {}
        }
        if settings.oldest > settings.newest {
            return Err("--tls-min is above --tls-max".to_owned());
        }
        if settings.alpn.iter().any(|name| name.is_empty() || name.len() > 255) {
            return Err("--alpn: names of 1 to 255 bytes are needed".to_owned());
        }
        Ok(settings)
    }
}
