//! The constant answers, rendered once, and sending them from where the last send stopped.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::os::fd::AsFd;

use manifold_sys::socket::{self, Flags};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::sendfile::sendfile64;

use super::args::Options;
use super::plan::Fault;

/// What the body repeats: Apache's own page, 44 bytes.
const PAGE: &[u8] = b"<html><body><h1>It works!</h1></body></html>";
/// So many bytes of small answers are sent at once to a client that sent several requests at once.
const BATCH_BYTES: usize = 16 * 1024;

/// The three answers.
#[derive(Debug)]
pub struct Answers {
    /// After which the connection goes on.
    pub keep: Answer,
    /// After which it is closed.
    pub close: Answer,
    /// To HEAD, closing as well.
    pub head_only: Answer,
    /// Those that a plan asks for.
    wrong: Vec<(Fault, Answer)>,
}

/// One answer, as bytes that are there once or several times, so that several answers go out with one call.
#[derive(Debug)]
pub struct Answer {
    bytes: Vec<u8>,
    /// Of one answer in `bytes`.
    length: usize,
    /// What follows these, sent by sendfile(2).
    file: Option<(File, usize)>,
}

impl Answers {
    /// Renders them.
    ///
    /// # Errors
    /// If the file in memory cannot be made.
    pub fn render(options: &Options) -> io::Result<Answers> {
        let body: Vec<u8> = PAGE.iter().copied().cycle().take(options.body).collect();
        let head = |connection: &str| {
            let length = body.len();
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: {connection}\r\n\r\n"
            )
            .into_bytes()
        };
        // In memory, so that no disk is measured.
        let file = options.sendfile.then(|| -> io::Result<File> {
            let mut file = File::from(memfd_create("answer", MFdFlags::MFD_CLOEXEC)?);
            file.write_all(&body)?;
            Ok(file)
        });
        let file = file.transpose()?;
        let with_body = |head: Vec<u8>| -> io::Result<Answer> {
            if let Some(file) = &file {
                Ok(Answer { length: head.len(), bytes: head, file: Some((file.try_clone()?, body.len())) })
            } else {
                let one = [&head[..], &body].concat();
                Ok(Answer { length: one.len(), bytes: one.repeat((BATCH_BYTES / one.len()).max(1)), file: None })
            }
        };
        let closing = head("close");
        let wrong = options.plan.faults.iter().map(|(_, fault)| (*fault, Answer::wrong(*fault, &body))).collect();
        Ok(Answers {
            wrong,
            keep: with_body(head("keep-alive"))?,
            head_only: Answer { length: closing.len(), bytes: closing.clone(), file: None },
            close: with_body(closing)?,
        })
    }
}

impl Answers {
    /// The answer that is wrong in this way, if there is one to send.
    pub fn wrong(&self, fault: Fault) -> Option<&Answer> {
        self.wrong.iter().find(|(kind, _)| *kind == fault).map(|(_, answer)| answer)
    }
}

/// How far sending came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// To the end.
    All,
    /// Until the socket's buffer was full; that it has room again will be reported.
    Blocked,
}

impl Answer {
    /// Sends `owed` answers, of the first of which `at` bytes are sent already; keeps both numbers up to date.
    ///
    /// # Errors
    /// The error of send(2) or sendfile(2).
    pub fn send(&self, socket: &impl AsFd, owed: &mut usize, at: &mut usize) -> io::Result<Sent> {
        while *owed > 0 {
            let (sent, tried) = match self.step(socket, *owed, *at) {
                Ok((0, _)) => return Err(ErrorKind::WriteZero.into()),
                Ok(step) => step,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Sent::Blocked),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let whole = self.length + self.file.as_ref().map_or(0, |(_, length)| *length);
            *owed -= (*at + sent) / whole;
            *at = (*at + sent) % whole;
            // The kernel took less than it was given because there is no room; asking again would only tell the same.
            if sent < tried {
                return Ok(Sent::Blocked);
            }
        }
        Ok(Sent::All)
    }

    fn wrong(fault: Fault, body: &[u8]) -> Answer {
        let (mut status, mut body) = (200, body.to_vec());
        match fault {
            Fault::Status(wrong) => status = wrong,
            Fault::Length => body.push(b'+'),
            Fault::Content => body.splice(..usize::from(!body.is_empty()), [b'+']).for_each(drop),
            Fault::Short | Fault::Reset | Fault::Close | Fault::Silent => {}
        }
        let mut bytes =
            format!("HTTP/1.1 {status} \r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n", body.len())
                .into_bytes();
        let left = if fault == Fault::Short { body.len() / 2 } else { body.len() };
        bytes.extend_from_slice(&body[..left]);
        Answer { length: bytes.len(), bytes, file: None }
    }

    /// One call; the bytes it sent, and those it was given.
    fn step(&self, socket: &impl AsFd, owed: usize, at: usize) -> io::Result<(usize, usize)> {
        match &self.file {
            None => {
                let end = self.length.saturating_mul(owed).min(self.bytes.len());
                let left = &self.bytes[at..end];
                Ok((socket::send(socket, &[IoSlice::new(left)], Flags::None)?, left.len()))
            }
            Some(_) if at < self.length => {
                let left = &self.bytes[at..];
                // The file follows at once, so the head need not leave in a packet of its own.
                Ok((socket::send(socket, &[IoSlice::new(left)], Flags::MoreFollows)?, left.len()))
            }
            Some((file, length)) => {
                let mut offset = (at - self.length) as i64;
                let left = length - (at - self.length);
                Ok((sendfile64(socket, file, Some(&mut offset), left)?, left))
            }
        }
    }
}
