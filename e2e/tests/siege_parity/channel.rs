//! A connection to the target, which is encrypted where the client begins with a handshake.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use anyhow::Result;
use e2e::{Scratch, pair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// What a handshake begins with (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

pub enum Channel {
    Plain(TcpStream),
    Secured(Box<StreamOwned<ServerConnection, TcpStream>>),
}

/// A server's certificate and key, made for these tests.
pub fn secured_server() -> Result<Arc<ServerConfig>> {
    let folder = Scratch::new()?;
    let (certificate, key) = pair::make(&folder)?;
    let chain = vec![CertificateDer::from_pem_file(certificate)?];
    let config = ServerConfig::builder().with_no_client_auth();
    Ok(Arc::new(config.with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?))
}

impl Channel {
    /// Waits for the client's first byte, which says what it speaks.
    pub fn accept(stream: TcpStream, config: &Arc<ServerConfig>) -> io::Result<Channel> {
        let mut first = [0];
        if stream.peek(&mut first)? == 0 || first[0] != HANDSHAKE {
            return Ok(Channel::Plain(stream));
        }
        let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        Ok(Channel::Secured(Box::new(StreamOwned::new(connection, stream))))
    }

    pub fn socket(&self) -> &TcpStream {
        match self {
            Channel::Plain(stream) => stream,
            Channel::Secured(stream) => &stream.sock,
        }
    }

    /// What was negotiated, where it is secured.
    pub fn negotiated(&self) -> String {
        let Channel::Secured(stream) = self else { return String::new() };
        let tls = &stream.conn;
        let (version, suite) = (tls.protocol_version(), tls.negotiated_cipher_suite().map(|suite| suite.suite()));
        format!("{version:?} {suite:?} {:?} {:?}\n", tls.server_name(), tls.alpn_protocol())
    }

    /// Nothing more is sent.
    pub fn end(&mut self) {
        if let Channel::Secured(stream) = self {
            stream.conn.send_close_notify();
            let _gone = stream.flush();
        }
        let _gone = self.socket().shutdown(Shutdown::Write);
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(stream) => stream.read(buffer),
            Channel::Secured(stream) => stream.read(buffer),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(stream) => stream.write(bytes),
            Channel::Secured(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Channel::Plain(stream) => stream.flush(),
            Channel::Secured(stream) => stream.flush(),
        }
    }
}
