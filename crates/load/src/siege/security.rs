//! TLS as siege speaks it: it verifies no certificate, and offers what OpenSSL offers in OpenSSL's order. A session is never resumed, so
//! that `ssl-timeout`, which says how long one may be, means nothing to siege either.

use super::settings::Settings;
use crate::system_error::plain;
use crate::tls::{self, Identity, Prepared, Trust, names};

/// What the keys `ssl-cert`, `ssl-key` and `ssl-ciphers` ask for.
///
/// # Errors
/// What siege says of each connection then; with it, where siege does not tell, what is wrong.
pub fn prepare(settings: &Settings) -> Result<Prepared, String> {
    let mut wanted = tls::Settings { trust: Trust::Anyone, suites: names::as_openssl(), ..tls::Settings::default() };
    if let Some(list) = &settings.ssl_ciphers {
        wanted.choose_suites(list).map_err(|why| format!("SSL_CTX_set_cipher_list\nssl-ciphers: {why}"))?;
    }
    if let Some(certificate) = &settings.ssl_cert {
        let key = settings.ssl_key.as_ref().unwrap_or(certificate);
        let no_key = "Private key does not match the certificate";
        if let Err(error) = std::fs::File::open(certificate) {
            let why = plain(&error);
            return Err(format!("Error reading certificate file: {certificate}: {why}\n{no_key}: {why}"));
        }
        if let Err(error) = std::fs::File::open(key) {
            return Err(format!("{no_key}: {}", plain(&error)));
        }
        wanted.identity = Some(Identity { certificate: certificate.into(), key: key.into() });
        return wanted.prepare().map_err(|why| format!("{no_key}: {why}"));
    }
    wanted.prepare()
}
