//! TLS as ab's options ask for it. ab verifies no certificate, and offers what OpenSSL offers in OpenSSL's order.

use std::path::PathBuf;

use super::args::Exit;
use crate::tls::{Client, Identity, Secured, Settings, Trust, Version, names};

/// `-f`, `-Z`, `-E` and `-I` as they were given.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// `-f`.
    pub protocol: Option<String>,
    /// `-Z`.
    pub ciphers: Option<String>,
    /// `-E`: the certificate, those that vouch for it, and its key in one file.
    pub certificate: Option<PathBuf>,
    /// `-I`.
    pub nameless: bool,
    /// `--http2`: it is all that is offered.
    pub http2: bool,
}

impl Given {
    /// How connections to this host are secured.
    ///
    /// # Errors
    /// What cannot be had, as ab says it where it says it.
    pub fn client(&self, host: &str) -> Result<Client, Exit> {
        let error = |sentence: String| Exit::Error(sentence);
        let mut settings = Settings {
            trust: Trust::Anyone,
            suites: names::as_openssl(),
            tells_name: !self.nameless,
            alpn: self.http2.then(|| "h2".to_owned()).into_iter().collect(),
            ..Settings::default()
        };
        (settings.oldest, settings.newest) = self.versions()?;
        if let Some(list) = &self.ciphers {
            settings
                .choose_suites(list)
                .map_err(|said| error(format!("error setting ciphersuite list [{list}]\nab: -Z {said}")))?;
        }
        settings.identity =
            self.certificate.as_ref().map(|path| Identity { certificate: path.clone(), key: path.clone() });
        let prepared = settings.prepare().map_err(|said| error(format!("ab: {said}")))?;
        prepared.client(host).map_err(|said| error(format!("ab: {said}")))
    }

    /// As the original, which takes whatever it does not know for all.
    fn versions(&self) -> Result<(Version, Version), Exit> {
        let given = self.protocol.as_deref().unwrap_or_default().to_ascii_uppercase();
        match given.as_str() {
            "TLS1" | "TLS1.0" | "TLS1.1" => {
                Err(Exit::Error(format!("ab: -f {given}: TLS before 1.2 is not spoken here (RFC 8996); leave -f out")))
            }
            "TLS1.2" => Ok((Version::Tls12, Version::Tls12)),
            "TLS1.3" => Ok((Version::Tls13, Version::Tls13)),
            _ => Ok((Version::Tls12, Version::Tls13)),
        }
    }
}

/// The report's lines on TLS; without a handshake only the name is known.
pub fn lines(secured: Option<&Secured>, name: Option<&str>) -> String {
    let mut lines = String::new();
    if let Some(secured) = secured {
        let (version, suite) = (names::version(secured.version), names::openssl(secured.suite));
        let (key_bits, bits) = (secured.key_bits.unwrap_or(0), names::bits(secured.suite));
        lines.push_str(&format!("SSL/TLS Protocol:       {version},{suite},{key_bits},{bits}\n"));
        if let Some(key) = secured.group.and_then(names::temporary_key) {
            lines.push_str(&format!("Server Temp Key:        {key}\n"));
        }
    }
    if let Some(name) = name {
        lines.push_str(&format!("TLS Server Name:        {name}\n"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use rustls::{CipherSuite, NamedGroup, ProtocolVersion};

    use super::*;

    #[test]
    fn lines_are_the_originals() {
        let secured = Secured {
            version: ProtocolVersion::TLSv1_2,
            suite: CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
            group: Some(NamedGroup::X25519),
            key_bits: Some(2048),
            resumed: false,
            http2: false,
            nanoseconds: 1,
        };
        let expected = "SSL/TLS Protocol:       TLSv1.2,ECDHE-RSA-AES256-GCM-SHA384,2048,256\n\
            Server Temp Key:        X25519 253 bits\nTLS Server Name:        localhost\n";
        assert_eq!(lines(Some(&secured), Some("localhost")), expected);
        assert_eq!(lines(None, None), "");
    }

    #[test]
    fn what_cannot_be_had_is_said() {
        let check = |given: Given, said: &str| match given.client("h") {
            Err(Exit::Error(sentence)) => assert!(sentence.contains(said), "{sentence}"),
            other => panic!("{said}: {other:?}"),
        };
        let protocol = |name: &str| Given { protocol: Some(name.to_owned()), ..Given::default() };
        check(protocol("TLS1.1"), "-f TLS1.1: TLS before 1.2 is not spoken here");
        let ciphers = |list: &str| Given { ciphers: Some(list.to_owned()), ..Given::default() };
        check(ciphers("TLS_AES_128_GCM_SHA256"), "a suite of TLS 1.2 is needed");
        check(ciphers("RC4-MD5"), "error setting ciphersuite list [RC4-MD5]\nab: -Z RC4-MD5: no such cipher suite");
        for good in ["TLS1.2", "tls1.3", "ALL", "SSL3", "junk"] {
            assert!(protocol(good).client("h").is_ok(), "{good}");
        }
        assert!(ciphers("ECDHE-RSA-AES128-GCM-SHA256").client("127.0.0.1").is_ok());
    }
}
