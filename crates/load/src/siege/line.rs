//! A user's connection: bytes in and out, encrypted where the URL says `https`, and then through a tunnel where there is a proxy.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{self, MsgFlags};

use super::settings::Settings;
use super::urls::{Scheme, Url, bracketed};
use crate::connection::HEAD_BYTES_MAX;
use crate::plan::Address;
use crate::tls::Client;
use crate::tls::stream::{Buffers, RECORD_BYTES, Stream};
use crate::wire::{Origin, begin_connecting};

/// Where a connection leads: URLs with the same route can share one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Host and port that are connected to.
    pub peer: (String, u16),
    /// Host and port of the server that the connection is secured for, if it is.
    pub secured: Option<(String, u16)>,
    /// The peer is a proxy, which is asked for a tunnel to that server.
    tunnel: bool,
}

impl Route {
    /// To a URL's server, or by the proxy.
    pub fn of(url: &Url, settings: &Settings) -> Route {
        let server = (url.host.clone(), url.port);
        let secured = (url.scheme == Scheme::Https).then(|| server.clone());
        match &settings.proxy {
            Some(proxy) => Route { peer: (proxy.clone(), settings.proxy_port), tunnel: secured.is_some(), secured },
            None => Route { peer: server, secured, tunnel: false },
        }
    }
}

/// A connection, or one that is being made.
pub struct Line {
    pub route: Route,
    socket: OwnedFd,
    stage: Stage,
    /// What is to be sent before anything else.
    waiting: Vec<u8>,
    /// The kernel has taken something, so somebody is there.
    connected: bool,
}

enum Stage {
    /// Requests go as they are.
    Plain,
    /// The proxy has not answered yet.
    Tunnel { client: Client, request: Vec<u8>, answer: Vec<u8> },
    /// Requests are encrypted, once the handshake is over.
    Secured { stream: Box<Stream>, ready: bool },
}

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub enum Came<'b> {
    /// Nothing for now.
    Nothing,
    /// Bytes of an answer; none where they concerned the connection alone. `ended`: nothing follows them.
    Bytes { bytes: &'b [u8], ended: bool },
    /// There is a tunnel; what was said to the proxy and by it.
    Tunnel(Vec<u8>),
}

/// What came concerns the connection alone.
const NO_ANSWER: Came<'static> = Came::Bytes { bytes: &[], ended: false };

/// Why a connection is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// An error of the system.
    System(Errno),
    /// It is not secured, or not any more: a sentence.
    Insecure(String),
}

impl Line {
    /// Begins to connect. `client`: how a route that is to be secured is.
    ///
    /// # Errors
    /// The error of the call that failed, or what TLS refuses.
    pub fn open(route: Route, to: &Address, client: Option<Client>, buffers: &mut Buffers) -> Result<Line, Trouble> {
        let socket =
            begin_connecting(to, Origin { local: None, buffer: None, no_delay: true }).map_err(Trouble::System)?;
        let mut line = Line { route, socket, stage: Stage::Plain, waiting: Vec::new(), connected: false };
        match (client, &line.route) {
            (None, _) => {}
            (Some(client), Route { secured: Some((host, port)), tunnel: true, .. }) => {
                let host = bracketed(host);
                let request = format!("CONNECT {host}:{port} HTTP/1.0\r\nUser-agent: Proxy-User\r\n\r\n").into_bytes();
                line.waiting.clone_from(&request);
                line.stage = Stage::Tunnel { client, request, answer: Vec::new() };
            }
            (Some(client), _) => line.greet(&client, buffers)?,
        }
        Ok(line)
    }

    /// Whether requests can be sent on it.
    pub fn stands(&self) -> bool {
        self.connected && matches!(self.stage, Stage::Plain | Stage::Secured { ready: true, .. })
    }

    /// Sends of a request, of which `sent` bytes were sent, what the kernel takes, as soon as that can begin.
    ///
    /// # Errors
    /// The connection is of no use.
    pub fn push(&mut self, request: &[u8], sent: &mut usize, buffers: &mut Buffers) -> Result<(), Trouble> {
        loop {
            while !self.waiting.is_empty() {
                let written = write(&self.socket, &self.waiting).map_err(|error| self.trouble(error))?;
                if written == 0 {
                    return Ok(());
                }
                self.connected = true;
                self.waiting.drain(..written);
            }
            let left = &request[*sent..];
            if left.is_empty() {
                return Ok(());
            }
            match &mut self.stage {
                Stage::Plain => {
                    let written = write(&self.socket, left).map_err(Trouble::System)?;
                    if written == 0 {
                        return Ok(());
                    }
                    self.connected = true;
                    *sent += written;
                }
                Stage::Secured { stream, ready: true } => {
                    let part = &left[..left.len().min(RECORD_BYTES)];
                    let encrypted = stream.encrypt(part, &mut buffers.outgoing);
                    // Whatever became of it, nothing may be left there for another connection.
                    self.take_outgoing(buffers);
                    encrypted.map_err(insecure)?;
                    *sent += part.len();
                }
                Stage::Tunnel { .. } | Stage::Secured { .. } => return Ok(()),
            }
        }
    }

    /// Receives once, into `buffer`; what is encrypted is decrypted into `buffers`.
    ///
    /// # Errors
    /// The connection is of no use.
    pub fn receive<'b>(&mut self, buffer: &'b mut [u8], buffers: &'b mut Buffers) -> Result<Came<'b>, Trouble> {
        let received = loop {
            match socket::recv(self.socket.as_raw_fd(), buffer, MsgFlags::empty()) {
                Ok(received) => break received,
                Err(Errno::EAGAIN) => return Ok(Came::Nothing),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(self.trouble(error)),
            }
        };
        let (bytes, ended) = (&buffer[..received], received == 0);
        match &mut self.stage {
            Stage::Plain => Ok(Came::Bytes { bytes, ended }),
            Stage::Secured { ready: false, .. } if ended => Err(insecure("the server closed the connection")),
            Stage::Tunnel { .. } if ended => Err(no_tunnel("it closes the connection")),
            Stage::Secured { .. } if ended => Ok(Came::Bytes { bytes, ended }),
            Stage::Secured { stream, ready } => {
                buffers.plain.clear();
                let turn = stream.receive(bytes, buffers);
                *ready |= turn.as_ref().is_ok_and(|turn| turn.ready);
                self.take_outgoing(buffers);
                match turn {
                    Ok(turn) => Ok(Came::Bytes { bytes: &buffers.plain, ended: turn.closed }),
                    Err(error) => {
                        // The server is told why, if it still listens.
                        let _alert = write(&self.socket, &self.waiting);
                        Err(insecure(error))
                    }
                }
            }
            Stage::Tunnel { client, request, answer } => {
                answer.extend_from_slice(bytes);
                if !answer.windows(4).any(|four| four == b"\r\n\r\n") {
                    let endless = answer.len() > HEAD_BYTES_MAX;
                    return if endless { Err(no_tunnel("it answers no HTTP")) } else { Ok(NO_ANSWER) };
                }
                let line = String::from_utf8_lossy(answer.split(|byte| *byte == b'\r').next().unwrap_or_default());
                if line.split(' ').nth(1).is_none_or(|status| !status.starts_with('2')) {
                    return Err(no_tunnel(&format!("it answers `{line}`")));
                }
                let (client, talk) = (client.clone(), [request.as_slice(), answer].concat());
                self.greet(&client, buffers)?;
                Ok(Came::Tunnel(talk))
            }
        }
    }

    /// Closes it, with TLS's goodbye where the custom is.
    pub fn close(mut self, buffers: &mut Buffers) {
        if let Stage::Secured { stream, ready: true } = &mut self.stage
            && self.waiting.is_empty()
            && stream.close(&mut buffers.outgoing).is_ok()
        {
            // The connection ends either way.
            let _goodbye = write(&self.socket, buffers.outgoing.bytes());
        }
        buffers.outgoing.clear();
    }

    /// Begins the handshake.
    fn greet(&mut self, client: &Client, buffers: &mut Buffers) -> Result<(), Trouble> {
        let mut stream = Stream::new(client).map_err(insecure)?;
        let greeted = stream.receive(&[], buffers);
        self.take_outgoing(buffers);
        self.stage = Stage::Secured { stream: Box::new(stream), ready: false };
        greeted.map(drop).map_err(insecure)
    }

    fn take_outgoing(&mut self, buffers: &mut Buffers) {
        self.waiting.extend_from_slice(buffers.outgoing.bytes());
        buffers.outgoing.clear();
    }

    /// Nothing has come of it for too long.
    pub fn timed_out(&self) -> Trouble {
        self.trouble(Errno::ETIMEDOUT)
    }

    /// An error of a connection on which somebody was there, while the handshake goes on, is the handshake's.
    fn trouble(&self, error: Errno) -> Trouble {
        if self.connected && !self.stands() { insecure(error.desc()) } else { Trouble::System(error) }
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends what the kernel takes; 0: nothing for now.
fn write(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    loop {
        match socket::send(socket.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL) {
            Err(Errno::EAGAIN) => return Ok(0),
            Err(Errno::EINTR) => {}
            sent => return sent,
        }
    }
}

fn insecure(why: impl std::fmt::Display) -> Trouble {
    Trouble::Insecure(format!("Failed to make an SSL connection: {why}"))
}

fn no_tunnel(why: &str) -> Trouble {
    insecure(format!("the proxy makes no tunnel: {why}"))
}
