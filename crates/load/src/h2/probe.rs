//! Whether a server speaks HTTP/2 without TLS, asked before the run on a connection of its own: one that does not is an error then, and no figure later.

use std::io::{self, Read, Write};

use manifold_http::h2::frame::{HEAD_BYTES, Head, kind, write_go_away, write_settings};
use manifold_http::h2::{Code, PREFACE};

/// Bytes shown of an answer that is no HTTP/2.
const SHOWN_BYTES_MAX: usize = 80;

/// Greets the server and waits for its SETTINGS. The connection's timeouts are the caller's.
///
/// # Errors
/// A sentence that says what the server did instead, and the way out.
pub fn greet(connection: &mut (impl Read + Write)) -> io::Result<()> {
    let mut greeting = PREFACE.to_vec();
    write_settings(&mut greeting, &[]);
    connection.write_all(&greeting)?;
    connection.flush()?;
    let mut answer = Vec::new();
    while answer.len() < HEAD_BYTES {
        let mut bytes = [0; SHOWN_BYTES_MAX];
        match connection.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&bytes[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // What it closes with unread bytes is reset.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(io::Error::other(no_http2("it says nothing")));
            }
            Err(error) => return Err(error),
        }
    }
    let head = answer.first_chunk().map(Head::parse);
    if head.is_some_and(|head| head.kind == kind::SETTINGS && head.stream == 0) {
        let mut goodbye = Vec::new();
        write_go_away(&mut goodbye, 0, Code::NO_ERROR);
        // It has said what was asked.
        let _ = connection.write_all(&goodbye);
        return Ok(());
    }
    let line = answer.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let line = String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES_MAX)]).into_owned();
    let said = if answer.is_empty() {
        "it closes the connection".to_owned()
    } else if line.starts_with("HTTP/1") {
        format!("it answers `{line}`")
    } else {
        "what it answers is no HTTP".to_owned()
    };
    Err(io::Error::other(no_http2(&said)))
}

fn no_http2(said: &str) -> String {
    format!(
        "the server does not speak HTTP/2: {said}; without TLS a server has to take it from the first byte \
         (nginx: `listen PORT http2`, Apache: `Protocols h2c http/1.1`); without --http2 HTTP/1.1 is spoken"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers so, in pieces of one byte.
    struct Server<'a>(&'a [u8]);

    impl Read for Server<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            (&mut self.0).take(1).read(buffer)
        }
    }

    impl Write for Server<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn servers_are_told_apart() {
        let check = |answer: &[u8], expected: Option<&str>| {
            let got = greet(&mut Server(answer)).err().map(|error| error.to_string());
            match expected {
                None => assert_eq!(got, None),
                Some(part) => assert!(got.as_ref().is_some_and(|got| got.contains(part)), "{part}: {got:?}"),
            }
        };
        check(b"\0\0\0\x04\0\0\0\0\0", None);
        check(b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x80", None);
        check(b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n", Some("it answers `HTTP/1.1"));
        check(b"SSH-2.0-OpenSSH", Some("is no HTTP"));
        check(b"", Some("it closes the connection"));
    }
}
