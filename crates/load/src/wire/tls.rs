//! TLS around another wire: what is sent and received is encrypted on those connections that ask for it, and handed through on others.
//!
//! To the loop a connection stands once its handshake is over. What is encrypted lies in memory that all connections of the thread use in
//! turn; the wire below copies what it cannot send at once.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use rustls::Error;

use super::{Connected, Happening, Origin, Sent, Wire};
use crate::outcome::nanoseconds;
use crate::plan::Address;
use crate::tls::stream::{Buffers, Outgoing, RECORD_BYTES, Stream, Turn};
use crate::tls::{Client, Fault, Secured};

/// Connections of which some are secured.
pub struct Tls<'p, W> {
    inner: W,
    /// By slot; `None`: it has no connection, or one that is not secured.
    sessions: Vec<Option<Box<Session<'p>>>>,
    buffers: Buffers,
    /// The last news of a secured connection, not looked at yet: it was lent by the wire below.
    news: Option<(usize, News)>,
    /// What came of it, to be told one after the other.
    told: VecDeque<(usize, Told)>,
}

/// What the wire below says.
enum News {
    /// What it received has been decrypted.
    Received {
        turn: Result<Turn, Error>,
        ended: bool,
        waited: u64,
    },
    Sending(Sent),
    Ended,
    Broken(Errno),
}

/// What the loop is to be told.
enum Told {
    Secured(Secured),
    Sending(Sent),
    /// The bytes lie in the buffers.
    Received {
        ended: bool,
        waited: u64,
    },
    Ended,
    CutOff,
    Broken(Errno),
    Insecure(Fault, String),
}

/// A secured connection.
struct Session<'p> {
    stream: Stream,
    request: Cow<'p, [u8]>,
    /// So many bytes of the request were encrypted and handed on.
    encrypted: usize,
    /// The wire below has not sent all it was given.
    busy: bool,
    /// What is to be sent after that, of handshakes and alerts.
    waiting: Vec<u8>,
    /// Since when the connection below stands.
    stands: Option<Instant>,
    /// The handshake is over.
    ready: bool,
    /// Nothing more will come, or is of interest.
    over: bool,
}

/// Why nothing can be sent.
enum Stuck {
    System(Errno),
    Tls(Error),
}

impl<'p, W: Wire<'p>> Tls<'p, W> {
    /// Around a wire with so many slots.
    pub fn new(inner: W, slots: usize) -> Tls<'p, W> {
        let sessions = (0..slots).map(|_| None).collect();
        Tls { inner, sessions, buffers: Buffers::default(), news: None, told: VecDeque::new() }
    }

    /// Sends on a secured connection, or when it is one.
    fn begin_sending(&mut self, slot: usize, bytes: Cow<'p, [u8]>) -> Sent {
        let Some(session) = &mut self.sessions[slot] else { return Sent::Failed(Errno::EBADF) };
        (session.request, session.encrypted) = (bytes, 0);
        if !session.ready {
            return self.greet(slot);
        }
        self.push(slot).unwrap_or_else(|stuck| match stuck {
            Stuck::System(error) => Sent::Failed(error),
            Stuck::Tls(_) => Sent::Failed(Errno::EPROTO),
        })
    }

    /// Hands on what was encrypted.
    fn transmit(&mut self, slot: usize) -> Result<(), Errno> {
        let (Some(session), outgoing) = (&mut self.sessions[slot], &mut self.buffers.outgoing) else { return Ok(()) };
        if session.busy {
            session.waiting.extend_from_slice(outgoing.bytes());
        } else if !outgoing.bytes().is_empty() {
            let sent = self.inner.send_copy(slot, outgoing.bytes());
            outgoing.clear();
            return session.handed_on(sent);
        }
        outgoing.clear();
        Ok(())
    }

    /// Encrypts and hands on the request, as far as the wire below takes it.
    fn push(&mut self, slot: usize) -> Result<Sent, Stuck> {
        loop {
            let Some(session) = &mut self.sessions[slot] else { return Err(Stuck::System(Errno::EBADF)) };
            if session.busy {
                return Ok(Sent::Part(session.encrypted));
            }
            if session.is_encrypted() {
                return Ok(Sent::All);
            }
            session.encrypt_part(&mut self.buffers.outgoing).map_err(Stuck::Tls)?;
            self.transmit(slot).map_err(Stuck::System)?;
        }
    }

    /// The hello of a connection that is being made.
    fn greet(&mut self, slot: usize) -> Sent {
        let Some(session) = &mut self.sessions[slot] else { return Sent::Failed(Errno::EBADF) };
        // The first turn of a stream that has received nothing cannot fail.
        let began = session.stream.receive(&[], &mut self.buffers);
        debug_assert!(began.is_ok(), "{began:?}");
        self.transmit(slot).map_or_else(Sent::Failed, |()| Sent::Connecting)
    }

    /// Notes what the loop is to be told of some news.
    fn digest(&mut self, slot: usize, news: News) {
        match news {
            News::Received { turn: Ok(turn), ended, waited } => self.received(slot, turn, ended, waited),
            News::Received { turn: Err(error), waited, .. } => {
                // Whether the server hears of it is its own affair.
                let _alert = self.transmit(slot);
                if !self.buffers.plain.is_empty() {
                    self.told.push_back((slot, Told::Received { ended: false, waited }));
                }
                self.give_up(slot, &error);
            }
            News::Sending(Sent::All) => self.sent(slot),
            News::Sending(Sent::Failed(error)) => self.broken(slot, error, Told::Sending(Sent::Failed(error))),
            News::Sending(sent @ (Sent::Part(_) | Sent::Connecting)) => {
                if let Some(session) = &mut self.sessions[slot] {
                    // It was noted already that it has not sent all.
                    let _never = session.handed_on(sent);
                }
            }
            News::Ended => self.ended(slot),
            News::Broken(error) => self.broken(slot, error, Told::Broken(error)),
        }
    }

    fn received(&mut self, slot: usize, turn: Turn, ended: bool, waited: u64) {
        let Some(session) = &mut self.sessions[slot] else { return };
        session.over |= turn.closed;
        let begins = turn.ready && !session.ready;
        // The request goes out with the last words of the handshake, so that the server is woken once for both.
        let encrypted = if begins { session.encrypt_part(&mut self.buffers.outgoing) } else { Ok(()) };
        if let Err(error) = self.transmit(slot) {
            return self.broken(slot, error, Told::Sending(Sent::Failed(error)));
        }
        if begins {
            self.begin_request(slot, encrypted);
        }
        if !self.buffers.plain.is_empty() {
            self.told.push_back((slot, Told::Received { ended: turn.closed, waited }));
        } else if turn.closed {
            self.told.push_back((slot, Told::Ended));
        }
        if ended && !turn.closed {
            self.ended(slot);
        }
    }

    /// The handshake is over, and of the request a part was encrypted.
    fn begin_request(&mut self, slot: usize, encrypted: Result<(), Error>) {
        let Some(session) = &mut self.sessions[slot] else { return };
        session.ready = true;
        let since = session.stands.map_or(Duration::ZERO, |stands| stands.elapsed());
        let secured = Secured::of(session.stream.negotiated(), nanoseconds(since));
        self.told.push_back((slot, Told::Secured(secured)));
        match encrypted {
            Ok(()) => self.push_and_tell(slot),
            Err(error) => self.give_up(slot, &error),
        }
    }

    /// The wire below has sent all it was given.
    fn sent(&mut self, slot: usize) {
        let Some(session) = &mut self.sessions[slot] else { return };
        let mut sent = session.handed_on(Sent::All);
        if !session.waiting.is_empty() {
            sent = session.handed_on(self.inner.send_copy(slot, &session.waiting));
            session.waiting.clear();
        }
        match sent {
            Ok(()) if session.ready => self.push_and_tell(slot),
            Ok(()) => {}
            Err(error) => self.broken(slot, error, Told::Sending(Sent::Failed(error))),
        }
    }

    fn push_and_tell(&mut self, slot: usize) {
        match self.push(slot) {
            Ok(sent) => self.told.push_back((slot, Told::Sending(sent))),
            Err(Stuck::System(error)) => self.told.push_back((slot, Told::Sending(Sent::Failed(error)))),
            Err(Stuck::Tls(error)) => self.give_up(slot, &error),
        }
    }

    /// The server's stream is at its end. Without a word of TLS that may be anybody's doing.
    fn ended(&mut self, slot: usize) {
        let told = match &self.sessions[slot] {
            Some(session) if !session.ready => {
                Told::Insecure(Fault::Handshake, "the server closed the connection during the handshake".to_owned())
            }
            Some(session) if !session.over => Told::CutOff,
            _ => Told::Ended,
        };
        self.told.push_back((slot, told));
    }

    /// The connection is broken: during the handshake that is TLS's failure, before and after it is as without TLS.
    fn broken(&mut self, slot: usize, error: Errno, otherwise: Told) {
        let handshaking =
            self.sessions[slot].as_ref().is_some_and(|session| session.stands.is_some() && !session.ready);
        let told = if handshaking {
            Told::Insecure(Fault::Handshake, format!("the connection broke during the handshake: {}", error.desc()))
        } else {
            otherwise
        };
        self.told.push_back((slot, told));
    }

    fn give_up(&mut self, slot: usize, error: &Error) {
        let Some(session) = &mut self.sessions[slot] else { return };
        session.over = true;
        let fault = Fault::of(error, session.ready);
        self.told.push_back((slot, Told::Insecure(fault, error.to_string())));
    }

    fn tell(&self, slot: usize, told: Told) -> Happening<'_> {
        match told {
            Told::Secured(secured) => Happening::Secured { slot, secured },
            Told::Sending(sent) => Happening::Sending { slot, sent },
            Told::Received { ended, waited } => Happening::Received { slot, bytes: &self.buffers.plain, ended, waited },
            Told::Ended => Happening::Ended { slot },
            Told::CutOff => Happening::CutOff { slot },
            Told::Broken(error) => Happening::Broken { slot, error },
            Told::Insecure(fault, said) => Happening::Insecure { slot, fault, said },
        }
    }
}

impl<'p, W: Wire<'p>> Wire<'p> for Tls<'p, W> {
    fn connect(
        &mut self,
        slot: usize,
        to: &Address,
        origin: Origin,
        tls: Option<&'p Client>,
    ) -> Result<Connected, Errno> {
        self.inner.connect(slot, to, origin, None)?;
        // What rustls refuses here (a name that is too long) it refuses at once, for every connection.
        let stream = tls.map(Stream::new).transpose().map_err(|_| Errno::EINVAL)?;
        self.sessions[slot] = stream.map(|stream| Box::new(Session::new(stream)));
        Ok(Connected::Anew)
    }

    fn send(&mut self, slot: usize, bytes: &'p [u8]) -> Sent {
        match self.sessions[slot] {
            Some(_) => self.begin_sending(slot, Cow::Borrowed(bytes)),
            None => self.inner.send(slot, bytes),
        }
    }

    fn send_copy(&mut self, slot: usize, bytes: &[u8]) -> Sent {
        match self.sessions[slot] {
            Some(_) => self.begin_sending(slot, Cow::Owned(bytes.to_vec())),
            None => self.inner.send_copy(slot, bytes),
        }
    }

    fn await_end(&mut self, slot: usize) {
        if let Some(session) = &mut self.sessions[slot] {
            session.over = true;
        }
        self.inner.await_end(slot);
    }

    fn close(&mut self, slot: usize) {
        if let Some(mut session) = self.sessions[slot].take() {
            let outgoing = &mut self.buffers.outgoing;
            if session.ready && !session.over && !session.busy && session.stream.close(outgoing).is_ok() {
                // The connection ends either way.
                let _goodbye = self.inner.send_copy(slot, outgoing.bytes());
            }
            outgoing.clear();
            self.told.retain(|(of, _)| *of != slot);
            self.news.take_if(|(of, _)| *of == slot);
        }
        self.inner.close(slot);
    }

    fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        self.inner.wait(timeout)
    }

    fn next(&mut self) -> Option<Happening<'_>> {
        if let Some((slot, news)) = self.news.take() {
            self.digest(slot, news);
        }
        if let Some((slot, told)) = self.told.pop_front() {
            return Some(self.tell(slot, told));
        }
        self.news = Some(match self.inner.next()? {
            Happening::Received { slot, bytes, ended, waited } => {
                let Some(session) = &mut self.sessions[slot] else {
                    return Some(Happening::Received { slot, bytes, ended, waited });
                };
                self.buffers.plain.clear();
                let turn = session.stream.receive(bytes, &mut self.buffers);
                (slot, News::Received { turn, ended, waited })
            }
            Happening::Sending { slot, sent } if self.sessions[slot].is_some() => (slot, News::Sending(sent)),
            Happening::Ended { slot } if self.sessions[slot].is_some() => (slot, News::Ended),
            Happening::Broken { slot, error } if self.sessions[slot].is_some() => (slot, News::Broken(error)),
            other => return Some(other),
        });
        Some(Happening::Nothing)
    }
}

impl Session<'_> {
    fn new<'p>(stream: Stream) -> Session<'p> {
        Session {
            stream,
            request: Cow::Borrowed(&[]),
            encrypted: 0,
            busy: false,
            waiting: Vec::new(),
            stands: None,
            ready: false,
            over: false,
        }
    }

    /// All of the request was encrypted.
    fn is_encrypted(&self) -> bool {
        self.encrypted == self.request.len()
    }

    /// Encrypts the next part of the request, if there is one.
    fn encrypt_part(&mut self, outgoing: &mut Outgoing) -> Result<(), Error> {
        let left = &self.request[self.encrypted..];
        let part = &left[..left.len().min(RECORD_BYTES)];
        if part.is_empty() {
            return Ok(());
        }
        self.stream.encrypt(part, outgoing)?;
        self.encrypted += part.len();
        Ok(())
    }

    /// The wire below was given bytes, of which this became.
    fn handed_on(&mut self, sent: Sent) -> Result<(), Errno> {
        self.busy = sent != Sent::All;
        match sent {
            Sent::All | Sent::Part(_) => {
                self.stands.get_or_insert_with(Instant::now);
            }
            Sent::Connecting => {}
            Sent::Failed(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::io::Write as _;
    use std::sync::Arc;

    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use rustls::crypto::aws_lc_rs;
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use rustls::{ServerConfig, ServerConnection};

    use super::*;
    use crate::tls::{Settings, Trust, Version};

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

    /// A server at the other end of a wire that takes everything at once.
    struct Memory {
        config: Arc<ServerConfig>,
        server: ServerConnection,
        coming: Vec<u8>,
        lent: Vec<u8>,
        /// What was sent on the last connection, and how many requests came on all.
        sends: usize,
        asked: usize,
    }

    impl Memory {
        fn new() -> Memory {
            let made = generate_simple_self_signed(["localhost".to_owned()]);
            let CertifiedKey { cert, signing_key } = made.expect("a key");
            let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("versions")
                .with_no_client_auth()
                .with_single_cert(
                    vec![cert.der().clone()],
                    PrivatePkcs8KeyDer::from(signing_key.serialize_der()).into(),
                );
            let config = Arc::new(config.expect("a certificate"));
            let server = ServerConnection::new(Arc::clone(&config)).expect("a server");
            Memory { config, server, coming: Vec::new(), lent: Vec::new(), sends: 0, asked: 0 }
        }
    }

    impl<'p> Wire<'p> for Memory {
        fn connect(&mut self, _: usize, _: &Address, _: Origin, _: Option<&'p Client>) -> Result<Connected, Errno> {
            self.server = ServerConnection::new(Arc::clone(&self.config)).expect("a server");
            self.sends = 0;
            Ok(Connected::Anew)
        }

        fn send(&mut self, _: usize, _: &'p [u8]) -> Sent {
            unreachable!("what is encrypted is not the plan's")
        }

        fn send_copy(&mut self, _: usize, mut bytes: &[u8]) -> Sent {
            self.sends += 1;
            while !bytes.is_empty() {
                self.server.read_tls(&mut bytes).expect("memory");
                self.server.process_new_packets().expect("the client speaks TLS");
            }
            let mut request = [0; REQUEST.len()];
            if self.server.reader().read_exact(&mut request).is_ok() {
                assert_eq!(request, REQUEST);
                self.asked += 1;
                self.server.writer().write_all(b"answer").expect("memory");
                self.server.send_close_notify();
            }
            while self.server.wants_write() {
                self.server.write_tls(&mut self.coming).expect("memory");
            }
            Sent::All
        }

        fn await_end(&mut self, _: usize) {}

        fn close(&mut self, _: usize) {
            self.coming.clear();
        }

        fn wait(&mut self, _: Duration) -> io::Result<bool> {
            Ok(!self.coming.is_empty())
        }

        fn next(&mut self) -> Option<Happening<'_>> {
            self.lent = std::mem::take(&mut self.coming);
            (!self.lent.is_empty()).then_some(Happening::Received {
                slot: 0,
                bytes: &self.lent,
                ended: false,
                waited: 0,
            })
        }
    }

    /// A small send that follows another waits in the kernel until the server acknowledges the first, for 40 ms.
    #[test]
    fn the_request_goes_out_with_the_last_words_of_the_handshake() {
        let origin = Origin { local: None, buffer: None, no_delay: true };
        // Sends of a whole handshake and a request, and of a resumed one: in TLS 1.2 the server has the last word of a whole one.
        for (version, whole, resumed) in [(Version::Tls12, 3, 2), (Version::Tls13, 2, 2)] {
            let settings = Settings {
                trust: Trust::Anyone,
                newest: version,
                oldest: version,
                resumes: true,
                ..Settings::default()
            };
            let client = settings.prepare().expect("settings").client("localhost").expect("a name");
            let mut wire = Tls::new(Memory::new(), 1);
            for (number, (sends, resumes)) in [(whole, false), (resumed, true), (resumed, true)].into_iter().enumerate()
            {
                let to = Address::Inet(([127, 0, 0, 1], 1).into());
                assert_eq!(wire.connect(0, &to, origin, Some(&client)), Ok(Connected::Anew));
                assert_eq!(wire.send(0, REQUEST), Sent::Connecting);
                let (mut secured, mut answer) = (None, Vec::new());
                while let Some(happening) = wire.next() {
                    match happening {
                        Happening::Secured { secured: what, .. } => secured = Some(what),
                        Happening::Received { bytes, .. } => answer.extend_from_slice(bytes),
                        Happening::Nothing | Happening::Sending { sent: Sent::All, .. } | Happening::Ended { .. } => {}
                        other => panic!("{version}: {other:?}"),
                    }
                }
                assert_eq!(answer, b"answer", "{version}");
                assert_eq!(secured.map(|secured| secured.resumed), Some(resumes), "{version}");
                assert_eq!((wire.inner.sends, wire.inner.asked), (sends, number + 1), "{version}, resumed {resumes}");
                wire.close(0);
            }
        }
    }
}
