//! What came of a handshake, in words of our own: the rest of the generator does not know whose TLS it is.

use super::key;
use rustls::{AlertDescription, CipherSuite, CommonState, Error, HandshakeKind, NamedGroup, ProtocolVersion};

/// What was negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secured {
    /// The protocol's version.
    pub version: ProtocolVersion,
    /// The cipher suite.
    pub suite: CipherSuite,
    /// Where the key comes from; `None`: from an earlier session alone.
    pub group: Option<NamedGroup>,
    /// Length of the server's key; `None`: it was not shown, since a session was resumed, or is of a kind not known.
    pub key_bits: Option<u32>,
    /// An earlier session was resumed.
    pub resumed: bool,
    /// HTTP/2 is to be spoken (ALPN `h2`).
    pub http2: bool,
    /// Time since the connection below stood, nanoseconds.
    pub nanoseconds: u64,
}

impl Secured {
    /// Of a connection whose handshake, which took so many nanoseconds, is over.
    pub fn of(state: &CommonState, nanoseconds: u64) -> Secured {
        let resumed = state.handshake_kind() == Some(HandshakeKind::Resumed);
        let certificate = state.peer_certificates().and_then(<[_]>::first).filter(|_| !resumed);
        Secured {
            version: state.protocol_version().unwrap_or(ProtocolVersion::Unknown(0)),
            suite: state.negotiated_cipher_suite().map_or(CipherSuite::Unknown(0), |suite| suite.suite()),
            group: state.negotiated_key_exchange_group().map(rustls::crypto::SupportedKxGroup::name),
            key_bits: certificate.and_then(key::bits),
            resumed,
            http2: state.alpn_protocol() == Some(b"h2"),
            nanoseconds,
        }
    }
}

/// What kind of failure of TLS it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The handshake came to nothing: no version or suite in common, nonsense, or an end.
    Handshake,
    /// The server's certificate is not what it has to be.
    Certificate,
    /// The server speaks none of the protocols that it was offered (ALPN).
    NoProtocol,
    /// The server has refused by another alert.
    Alert,
    /// The stream ended without close_notify where only that says that nothing is missing.
    Truncated,
    /// What came after the handshake is not TLS, or was altered.
    Record,
}

impl Fault {
    /// Of an error; `ready`: after the handshake.
    pub(crate) fn of(error: &Error, ready: bool) -> Fault {
        match error {
            Error::InvalidCertificate(_) | Error::NoCertificatesPresented | Error::UnsupportedNameType => {
                Fault::Certificate
            }
            Error::AlertReceived(AlertDescription::NoApplicationProtocol) | Error::NoApplicationProtocol => {
                Fault::NoProtocol
            }
            Error::AlertReceived(_) => Fault::Alert,
            _ if ready => Fault::Record,
            _ => Fault::Handshake,
        }
    }
}
