//! A certificate of its own and its key, made by OpenSSL.

use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::Scratch;

/// The program that makes them.
pub const OPENSSL: &str = "/usr/bin/openssl";

/// Files of a certificate for `localhost`, good for some days, and of its key.
///
/// # Errors
/// When OpenSSL is missing or fails.
pub fn make(folder: &Scratch) -> Result<(String, String)> {
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path(name).display().to_string());
    let mut openssl = Command::new(OPENSSL);
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "7", "-subj", "/CN=localhost"]);
    openssl.args(["-out", &certificate, "-keyout", &key]).stdin(Stdio::null()).stderr(Stdio::null());
    ensure!(openssl.status()?.success(), "openssl made no certificate");
    Ok((certificate, key))
}
