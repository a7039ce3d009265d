//! What TLS versions and cipher suites are called: by people, by the registry (IANA), and by OpenSSL, whose names `ab` and `siege` take.

use std::fmt;

use rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;
use rustls::{CipherSuite, NamedGroup, ProtocolVersion, SupportedCipherSuite};

/// A version of the protocol that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

impl Version {
    /// Reads `1.2` or `1.3`.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn parse(given: &str) -> Result<Version, String> {
        match given {
            "1.2" => Ok(Version::Tls12),
            "1.3" => Ok(Version::Tls13),
            "1.0" | "1.1" => Err(format!("{given}: TLS before 1.2 is not spoken here (RFC 8996); give 1.2 or 1.3")),
            _ => Err(format!("{given}: 1.2 or 1.3 is needed")),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Version::Tls12 => "1.2",
            Version::Tls13 => "1.3",
        })
    }
}

/// A negotiated version, as OpenSSL writes it.
pub fn version(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::TLSv1_2 => "TLSv1.2",
        ProtocolVersion::TLSv1_3 => "TLSv1.3",
        _ => "unknown",
    }
}

/// Where the key came from, as ab shows it.
pub fn temporary_key(group: NamedGroup) -> Option<&'static str> {
    match group {
        NamedGroup::X25519 => Some("X25519 253 bits"),
        NamedGroup::secp256r1 => Some("ECDH prime256v1 256 bits"),
        NamedGroup::secp384r1 => Some("ECDH secp384r1 384 bits"),
        NamedGroup::secp521r1 => Some("ECDH secp521r1 521 bits"),
        _ => None,
    }
}

/// All suites in the order of browsers: with 128 bits first, which is the least work.
pub fn as_browsers() -> Vec<SupportedCipherSuite> {
    let mut suites = ALL_CIPHER_SUITES.to_vec();
    suites.sort_by_key(|suite| bits(suite.suite()) != 128);
    suites
}

/// All suites in the order of OpenSSL: with 256 bits first.
pub fn as_openssl() -> Vec<SupportedCipherSuite> {
    let mut suites = ALL_CIPHER_SUITES.to_vec();
    suites.sort_by_key(|suite| (bits(suite.suite()) != 256, registered(suite.suite()).contains("CHACHA20")));
    suites
}

/// Key length of a suite in bits.
pub fn bits(suite: CipherSuite) -> u32 {
    if registered(suite).contains("_128_") { 128 } else { 256 }
}

/// The registry's name, `TLS_...`; rustls has a prefix of its own for those of TLS 1.3.
pub fn registered(suite: CipherSuite) -> String {
    let name = suite.as_str().unwrap_or("unknown");
    name.strip_prefix("TLS13_").map_or_else(|| name.to_owned(), |rest| format!("TLS_{rest}"))
}

/// OpenSSL's name: the registry's for TLS 1.3, one such as `ECDHE-RSA-AES256-GCM-SHA384` before.
pub fn openssl(suite: CipherSuite) -> String {
    let name = registered(suite);
    let Some((exchange, cipher)) = name.strip_prefix("TLS_").and_then(|name| name.split_once("_WITH_")) else {
        return name;
    };
    let cipher = cipher.replace("AES_", "AES").replace("POLY1305_SHA256", "POLY1305");
    format!("{exchange}-{cipher}").replace('_', "-")
}

/// The suites of a list with colons or commas, in its order; each by its name in the registry or OpenSSL's.
///
/// # Errors
/// A sentence that names the one that is not known, and those that are.
pub fn suites(list: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut chosen: Vec<SupportedCipherSuite> = Vec::new();
    for name in list.split([':', ',']).map(str::trim).filter(|name| !name.is_empty()) {
        let is_it = |suite: &&SupportedCipherSuite| {
            [registered(suite.suite()), openssl(suite.suite())].iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        let suite = ALL_CIPHER_SUITES.iter().find(is_it).ok_or_else(|| {
            let known: Vec<String> = ALL_CIPHER_SUITES.iter().map(|suite| openssl(suite.suite())).collect();
            format!("{name}: no such cipher suite here; there are {}", known.join(", "))
        })?;
        if !chosen.contains(suite) {
            chosen.push(*suite);
        }
    }
    if chosen.is_empty() { Err(format!("{list:?}: a cipher suite is needed")) } else { Ok(chosen) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_have_the_names_openssl_gives_them() {
        let names = |suites: Vec<SupportedCipherSuite>| -> Vec<String> {
            suites.iter().map(|suite| openssl(suite.suite())).collect()
        };
        // As `openssl ciphers -s -v` lists those of them that rustls has.
        let order = [
            "TLS_AES_256_GCM_SHA384",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
            "ECDHE-RSA-AES256-GCM-SHA384",
            "TLS_CHACHA20_POLY1305_SHA256",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
            "ECDHE-RSA-CHACHA20-POLY1305",
            "TLS_AES_128_GCM_SHA256",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
            "ECDHE-RSA-AES128-GCM-SHA256",
        ];
        assert_eq!(names(as_openssl()), order);
        assert_eq!(names(as_browsers())[..2], ["TLS_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"]);
    }

    #[test]
    fn suites_are_chosen_by_either_name_once_each() {
        let check = |list: &str, expected: &[&str]| {
            let chosen = suites(list).expect(list);
            let names: Vec<String> = chosen.iter().map(|suite| openssl(suite.suite())).collect();
            assert_eq!(names, expected, "{list}");
        };
        check("tls_aes_128_gcm_sha256", &["TLS_AES_128_GCM_SHA256"]);
        check(
            "ECDHE-RSA-AES128-GCM-SHA256:TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384",
            &["ECDHE-RSA-AES128-GCM-SHA256", "TLS_AES_256_GCM_SHA384"],
        );
        for (list, said) in [("", "is needed"), (":,", "is needed"), ("RC4-MD5", "RC4-MD5: no such cipher suite")] {
            let error = suites(list).expect_err(list);
            assert!(error.contains(said), "{list}: {error}");
        }
    }

    #[test]
    fn old_versions_are_refused_with_a_reason() {
        assert_eq!((Version::parse("1.2"), Version::parse("1.3")), (Ok(Version::Tls12), Ok(Version::Tls13)));
        assert!(Version::parse("1.1").is_err_and(|said| said.contains("RFC 8996")));
        assert!(Version::parse("3").is_err());
    }
}
