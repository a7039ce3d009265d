//! One connection's TLS as a state machine: received bytes in, the answers' bytes and bytes to be sent out, no socket in sight.

use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, InsufficientSizeError, UnbufferedStatus, WriteTraffic,
};
use rustls::{CommonState, Error};

use super::Client;

/// Received bytes of a message that is not complete. rustls takes handshake messages of up to 64 KB, in records of any size; a server
/// that wraps them in so many records that this is not enough is hostile.
const REST_MAX: usize = 256 * 1024;
/// Bytes of a request that are encrypted at once: one record.
pub const RECORD_BYTES: usize = 16 * 1024;
/// What may stand around a record: its header, nonce, type and tag, and a message before it that renews keys.
const AROUND_RECORD_BYTES: usize = 256;

/// Memory that the connections of a thread use in turn.
#[derive(Debug, Default)]
pub struct Buffers {
    /// What was received, while it is decrypted.
    incoming: Vec<u8>,
    /// What it says.
    pub plain: Vec<u8>,
    /// What is to be sent.
    pub outgoing: Outgoing,
}

/// Encrypted bytes to be sent, in memory that is cleared only once.
#[derive(Debug, Default)]
pub struct Outgoing {
    memory: Vec<u8>,
    filled: usize,
}

/// What a connection can do after it was given bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// The handshake is over: requests can be sent.
    pub ready: bool,
    /// The server has said that nothing will follow (close_notify).
    pub closed: bool,
}

/// TLS of one connection.
pub struct Stream {
    tls: UnbufferedClientConnection,
    /// The beginning of a message whose end has not come yet; empty nearly always.
    rest: Vec<u8>,
    closed: bool,
    /// An error has ended it: rustls is not to be asked again.
    failed: bool,
}

impl Stream {
    /// A connection that has sent nothing yet; its first [`receive`](Stream::receive), of nothing, says what it begins with.
    ///
    /// # Errors
    /// rustls cannot make a hello of this configuration.
    pub fn new(client: &Client) -> Result<Stream, Error> {
        let tls = UnbufferedClientConnection::new(Arc::clone(&client.config), client.name.clone())?;
        Ok(Stream { tls, rest: Vec::new(), closed: false, failed: false })
    }

    /// What was negotiated.
    pub fn negotiated(&self) -> &CommonState {
        &self.tls
    }

    /// Takes in what was received. What it says is added to `buffers.plain`, and to `buffers.outgoing` what is to be sent because of
    /// it: in the case of an error, the alert that tells the server.
    ///
    /// # Errors
    /// The connection cannot go on.
    pub fn receive(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<Turn, Error> {
        let turn = if self.failed { Err(Error::HandshakeNotComplete) } else { self.take_in(bytes, buffers) };
        if turn.is_err() && !std::mem::replace(&mut self.failed, true) {
            self.alert(&mut buffers.outgoing);
        }
        turn
    }

    fn take_in(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<Turn, Error> {
        let Buffers { incoming, plain, outgoing } = buffers;
        incoming.clear();
        incoming.extend_from_slice(&std::mem::take(&mut self.rest));
        incoming.extend_from_slice(bytes);
        let mut at = 0;
        let ready = loop {
            let UnbufferedStatus { discard, state } = self.tls.process_tls_records(&mut incoming[at..]);
            let ready = match state? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        plain.extend_from_slice(record?.payload);
                    }
                    None
                }
                ConnectionState::WriteTraffic(_) => Some(true),
                ConnectionState::BlockedHandshake => Some(false),
                other => step(other, outgoing, &mut self.closed)?,
            };
            at += discard;
            if let Some(ready) = ready {
                break ready;
            }
        };
        let rest = if self.closed { &[] } else { &incoming[at..] };
        if rest.len() > REST_MAX {
            return Err(Error::General(format!("a message of the server takes more than {REST_MAX} bytes")));
        }
        if !rest.is_empty() {
            self.rest = rest.to_vec();
        }
        Ok(Turn { ready, closed: self.closed })
    }

    /// Encrypts a part of a request, at most [`RECORD_BYTES`], once the connection is ready.
    ///
    /// # Errors
    /// The connection cannot go on.
    pub fn encrypt(&mut self, part: &[u8], outgoing: &mut Outgoing) -> Result<(), Error> {
        self.write(outgoing, |mut traffic, outgoing| {
            traffic.encrypt(part, outgoing.room(part.len() + AROUND_RECORD_BYTES)).map_err(general)
        })
    }

    /// Tells the server that nothing will follow.
    ///
    /// # Errors
    /// The connection is not ready, or cannot go on.
    pub fn close(&mut self, outgoing: &mut Outgoing) -> Result<(), Error> {
        self.write(outgoing, |mut traffic, outgoing| {
            traffic.queue_close_notify(outgoing.room(AROUND_RECORD_BYTES)).map_err(general)
        })
    }

    fn write(
        &mut self,
        outgoing: &mut Outgoing,
        write: impl FnOnce(WriteTraffic<'_, ClientConnectionData>, &mut Outgoing) -> Result<usize, Error>,
    ) -> Result<(), Error> {
        if self.failed {
            return Err(Error::HandshakeNotComplete);
        }
        loop {
            let UnbufferedStatus { discard, state } = self.tls.process_tls_records(&mut self.rest);
            match state? {
                ConnectionState::WriteTraffic(traffic) => {
                    outgoing.filled += write(traffic, outgoing)?;
                    self.rest.drain(..discard);
                    return Ok(());
                }
                ConnectionState::BlockedHandshake | ConnectionState::ReadTraffic(_) => {
                    return Err(Error::HandshakeNotComplete);
                }
                other => {
                    if step(other, outgoing, &mut self.closed)?.is_some() {
                        return Err(Error::General("the connection is closed".to_owned()));
                    }
                }
            }
            self.rest.drain(..discard);
        }
    }

    /// What the server is to be told of an error, if anything.
    fn alert(&mut self, outgoing: &mut Outgoing) {
        // As long as there is something to send, rustls looks at nothing else.
        while self.tls.wants_write()
            && let Ok(state) = self.tls.process_tls_records(&mut []).state
            && step(state, outgoing, &mut self.closed).is_ok()
        {}
    }
}

/// Goes on from a state that concerns neither reading nor writing; `Some` where nothing follows it.
fn step(
    state: ConnectionState<'_, '_, ClientConnectionData>,
    outgoing: &mut Outgoing,
    closed: &mut bool,
) -> Result<Option<bool>, Error> {
    match state {
        ConnectionState::EncodeTlsData(data) => outgoing.encode(data)?,
        ConnectionState::TransmitTlsData(data) => data.done(),
        ConnectionState::PeerClosed => *closed = true,
        // Both sides have closed; rustls has no other states.
        _ => {
            *closed = true;
            return Ok(Some(false));
        }
    }
    Ok(None)
}

impl Outgoing {
    /// What is to be sent.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[..self.filled]
    }

    /// It was sent.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    fn room(&mut self, bytes: usize) -> &mut [u8] {
        if self.memory.len() < self.filled + bytes {
            self.memory.resize(self.filled + bytes, 0);
        }
        &mut self.memory[self.filled..]
    }

    fn encode(&mut self, mut data: EncodeTlsData<'_, ClientConnectionData>) -> Result<(), Error> {
        let written = match data.encode(self.room(RECORD_BYTES)) {
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                data.encode(self.room(required_size))
            }
            written => written,
        };
        self.filled += written.map_err(general)?;
        Ok(())
    }
}

fn general(error: impl std::fmt::Display) -> Error {
    Error::General(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use manifold_stats::Rng;
    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use rustls::crypto::aws_lc_rs;
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use rustls::{ServerConfig, ServerConnection};

    use super::*;
    use crate::tls::{Settings, Trust, Version};

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

    fn client(version: Version) -> Client {
        let settings = Settings { trust: Trust::Anyone, newest: version, oldest: version, ..Settings::default() };
        settings.prepare().expect("settings").client("localhost").expect("a name")
    }

    fn server() -> ServerConnection {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], PrivatePkcs8KeyDer::from(signing_key.serialize_der()).into())
            .expect("a certificate");
        ServerConnection::new(Arc::new(config)).expect("a server")
    }

    /// Hands over what a client sends, and returns what the server sends then.
    fn exchange(server: &mut ServerConnection, outgoing: &mut Outgoing) -> Vec<u8> {
        let mut sent = outgoing.bytes();
        while !sent.is_empty() {
            server.read_tls(&mut sent).expect("memory");
            server.process_new_packets().expect("the client speaks TLS");
        }
        outgoing.clear();
        let mut answer = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut answer).expect("memory");
        }
        answer
    }

    /// A whole conversation in which what the server sends comes in pieces of at most so many bytes.
    fn converse(version: Version, piece_max: usize, rng: &mut Rng) {
        let (mut stream, mut server) = (Stream::new(&client(version)).expect("a hello"), server());
        let mut buffers = Buffers::default();
        let body: Vec<u8> = (0..40_000u32).map(|number| number as u8).collect();
        let mut turn = stream.receive(&[], &mut buffers).expect("a hello");
        let (mut asked, mut plain) = (false, Vec::new());
        while !turn.closed {
            let mut answer = exchange(&mut server, &mut buffers.outgoing);
            if asked && plain.is_empty() {
                let mut request = vec![0; REQUEST.len()];
                server.reader().read_exact(&mut request).expect("the request came");
                assert_eq!(request, REQUEST);
                server.writer().write_all(&body).expect("memory");
                server.send_close_notify();
                answer.extend(exchange(&mut server, &mut buffers.outgoing));
            }
            assert!(!answer.is_empty() || !asked, "the conversation goes on");
            let mut rest = answer.as_slice();
            while !rest.is_empty() {
                let (piece, others) = rest.split_at(rest.len().min(1 + rng.below(piece_max)));
                turn = stream.receive(piece, &mut buffers).expect("TLS");
                plain.append(&mut buffers.plain);
                rest = others;
            }
            if turn.ready && !asked {
                stream.encrypt(REQUEST, &mut buffers.outgoing).expect("it is ready");
                asked = true;
            }
        }
        assert_eq!(plain, body, "{version}, pieces of {piece_max}");
        assert!(stream.rest.is_empty(), "nothing is kept");
    }

    #[test]
    fn what_comes_may_be_cut_anywhere() {
        let mut rng = Rng::new(3);
        for version in [Version::Tls12, Version::Tls13] {
            for piece_max in [1, 2, 7, 100, 3000, 1 << 20] {
                converse(version, piece_max, &mut rng);
            }
        }
    }

    #[test]
    fn a_hostile_server_is_an_error_in_bounded_memory() {
        // A handshake message that says it has 16 MB, in records that never end it; a record longer than any may be; nonsense.
        let endless =
            [b"\x16\x03\x03\x00\x04\x02\xff\xff\xff".as_slice(), &b"\x16\x03\x03\x00\x01\x00".repeat(200_000)];
        let piecemeal =
            [b"\x16\x03\x03\x00\x04\x02\x00\xff\xff".as_slice(), &b"\x16\x03\x03\x00\x01\x00".repeat(200_000)];
        let long = [b"\x17\x03\x03\xff\xff".as_slice(), &[0; 100_000]];
        let nonsense = [b"SSH-2.0-OpenSSH_9.2\r\n".as_slice(), &[]];
        for answer in [endless, piecemeal, long, nonsense] {
            let mut stream = Stream::new(&client(Version::Tls13)).expect("a hello");
            let mut buffers = Buffers::default();
            stream.receive(&[], &mut buffers).expect("a hello");
            let answer = answer.concat();
            let failed = answer.chunks(4096).find_map(|piece| stream.receive(piece, &mut buffers).err());
            assert!(failed.is_some(), "{:?}", &answer[..16]);
            assert!(stream.rest.capacity() <= 2 * REST_MAX && buffers.incoming.capacity() <= 4 * REST_MAX);
        }
    }

    #[test]
    fn bytes_of_random_changes_never_panic() {
        let mut rng = Rng::new(11);
        for _ in 0..100 {
            let (mut stream, mut server) = (Stream::new(&client(Version::Tls13)).expect("a hello"), server());
            let mut buffers = Buffers::default();
            stream.receive(&[], &mut buffers).expect("a hello");
            let mut answer = exchange(&mut server, &mut buffers.outgoing);
            for _ in 0..=rng.below(4) {
                let at = rng.below(answer.len());
                answer[at] ^= 1 << rng.below(8);
            }
            let _outcome = stream.receive(&answer, &mut buffers);
            let _again = stream.receive(&answer, &mut buffers);
            assert!(
                stream.encrypt(REQUEST, &mut buffers.outgoing).is_err()
                    || stream.negotiated().protocol_version().is_some()
            );
        }
    }
}
