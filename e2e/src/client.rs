//! A client of a few lines over a plain socket, for what real clients cannot be told to do: pipelining, reading slowly,
//! staying idle.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::PATIENCE;

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    socket: TcpStream,
    received: Vec<u8>,
}

/// A response, with its body cut off where its head says.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The head as it came, with the empty line.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

/// A head longer than this is taken for a mistake.
const HEAD_LEN_MAX: usize = 64 * 1024;

impl Client {
    /// Connects to a port of loopback.
    ///
    /// # Errors
    /// The socket's.
    pub fn connect(port: u16) -> Result<Client> {
        let socket = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), PATIENCE)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { socket, received: Vec::new() })
    }

    /// Whether a port of loopback refuses connections. One that neither refuses nor accepts within a second, as a full
    /// queue does, does not refuse.
    pub fn is_refused(port: u16) -> bool {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let connected = TcpStream::connect_timeout(&address, Duration::from_secs(1));
        connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    }

    /// The client's own port.
    ///
    /// # Errors
    /// The socket's.
    pub fn port(&self) -> Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// The socket's.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.socket.write_all(bytes)?)
    }

    /// Sends a request of HTTP/1.1, which keeps the connection.
    ///
    /// # Errors
    /// The socket's.
    pub fn request(&mut self, method: &str, path: &str) -> Result<()> {
        self.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
    }

    /// Reads the next response to a GET.
    ///
    /// # Errors
    /// When the connection ends before it is complete, or it is not HTTP.
    pub fn response(&mut self) -> Result<Response> {
        let (status, head) = self.head()?;
        let length = field(&head, "content-length").context("no Content-Length")?.parse::<usize>()?;
        while self.received.len() < length {
            self.more()?;
        }
        let behind = self.received.split_off(length);
        let body = std::mem::replace(&mut self.received, behind);
        Ok(Response { status, head, body })
    }

    /// Reads the next response to a HEAD: nothing follows its head.
    ///
    /// # Errors
    /// When the connection ends before it is complete, or it is not HTTP.
    pub fn response_to_head(&mut self) -> Result<Response> {
        let (status, head) = self.head()?;
        Ok(Response { status, head, body: Vec::new() })
    }

    /// A GET and its response.
    ///
    /// # Errors
    /// As [`response`](Self::response).
    pub fn get(&mut self, path: &str) -> Result<Response> {
        self.request("GET", path)?;
        self.response()
    }

    /// Waits until the server closes the connection; fails when it says anything more.
    ///
    /// # Errors
    /// When bytes arrive instead, or nothing happens in time.
    pub fn closed(&mut self) -> Result<()> {
        let mut byte = [0];
        if !self.received.is_empty() || self.socket.read(&mut byte)? != 0 {
            bail!("the server sent more instead of closing");
        }
        Ok(())
    }

    /// Whether the server has said something, or closed, that was not read yet; does not wait.
    ///
    /// # Errors
    /// The socket's.
    pub fn has_answer(&mut self) -> Result<bool> {
        self.socket.set_nonblocking(true)?;
        let peeked = self.socket.peek(&mut [0]);
        self.socket.set_nonblocking(false)?;
        match peeked {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(!self.received.is_empty()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads until at least `length` bytes of the response to come are here; they stay for [`response`](Self::response).
    ///
    /// # Errors
    /// When the connection ends before.
    pub fn peek(&mut self, length: usize) -> Result<()> {
        while self.received.len() < length {
            self.more()?;
        }
        Ok(())
    }

    fn head(&mut self) -> Result<(u16, String)> {
        let end = loop {
            if let Some(at) = self.received.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if self.received.len() > HEAD_LEN_MAX {
                bail!("no end of the head in {HEAD_LEN_MAX} bytes");
            }
            self.more()?;
        };
        let head = String::from_utf8(self.received.drain(..end).collect())?;
        let status = head.split_whitespace().nth(1).and_then(|code| code.parse().ok());
        Ok((status.with_context(|| format!("not HTTP: {head:?}"))?, head))
    }

    fn more(&mut self) -> Result<()> {
        let mut buffer = [0; 16 * 1024];
        match self.socket.read(&mut buffer)? {
            0 => bail!("the server closed the connection"),
            n => self.received.extend_from_slice(&buffer[..n]),
        }
        Ok(())
    }
}

impl Response {
    /// The value of a header field, by its name in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .find(|(n, _)| n.eq_ignore_ascii_case(name))
        .map(|(_, v)| v.trim())
}
