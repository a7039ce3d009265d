//! Reading a server's status page: one bounded GET over a plain socket.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use manifold_engine::status::{SCHEMA, Snapshot};
use manifold_http::{Limits, ResponseBody, ResponseDecoder, parse_response_head};

/// Longest wait for a connection, and for each piece of the answer.
const WAIT: Duration = Duration::from_secs(5);
/// Longest time for all of it.
const WHOLE: Duration = Duration::from_secs(10);
/// The longest answer that is read: some 20,000 workers.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// A status page.
#[derive(Debug)]
pub struct Answer {
    /// As it came.
    pub text: String,
    /// What it says.
    pub snapshot: Snapshot,
}

/// Why there is none.
#[derive(Debug)]
pub enum Failure {
    /// The address makes no sense here.
    Address(String),
    /// Nobody accepts connections there.
    Refused(io::Error),
    /// It was interrupted.
    Broken(io::Error),
    /// Something else answers, or the page is not there.
    NoStatus(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Address(why) | Failure::NoStatus(why) => f.write_str(why),
            Failure::Refused(error) | Failure::Broken(error) => error.fmt(f),
        }
    }
}

impl Failure {
    /// The way out, as lines.
    pub fn help(&self) -> &'static str {
        match self {
            Failure::NoStatus(_) => {
                "Its configuration needs these lines:\n\n    <Location /server-status>\n        \
                 SetHandler server-status\n        Require local\n    </Location>\n"
            }
            Failure::Address(_) | Failure::Refused(_) | Failure::Broken(_) => "",
        }
    }
}

/// Reads the status page at `url`, whose query is ours to choose.
///
/// # Errors
/// [`Failure`].
pub fn fetch(url: &str) -> Result<Answer, Failure> {
    let Address { host, authority, path } = parse(url)?;
    let stream = connect(&host)?;
    let began = Instant::now();
    let request = format!("GET {path}?json HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    (&stream).write_all(request.as_bytes()).map_err(Failure::Broken)?;
    let mut received = Vec::new();
    let mut more = |received: &mut Vec<u8>| -> Result<bool, Failure> {
        let mut buffer = [0; 16 * 1024];
        if received.len() > BYTES_MAX || began.elapsed() > WHOLE {
            return Err(Failure::NoStatus("the answer is endless".to_owned()));
        }
        let n = (&stream).read(&mut buffer).map_err(Failure::Broken)?;
        received.extend_from_slice(&buffer[..n]);
        Ok(n > 0)
    };
    let (length, head) = loop {
        let parsed = parse_response_head(&received, false, &Limits::default());
        match parsed.map_err(|error| Failure::NoStatus(format!("the answer is no HTTP: {error}")))? {
            Some(parsed) => break parsed,
            None if more(&mut received)? => {}
            None => return Err(Failure::Broken(io::ErrorKind::UnexpectedEof.into())),
        }
    };
    if head.status != 200 {
        return Err(Failure::NoStatus(format!("the answer to {path} has status {}", head.status)));
    }
    let body = body(received.split_off(length), head.body, &mut more)?;
    read(&body)
}

fn body(
    mut received: Vec<u8>,
    kind: ResponseBody,
    more: &mut dyn FnMut(&mut Vec<u8>) -> Result<bool, Failure>,
) -> Result<Vec<u8>, Failure> {
    let mut decoder = ResponseDecoder::new(kind);
    let mut body = Vec::new();
    while !decoder.is_done() {
        let step = decoder.decode(&received);
        let step = step.map_err(|error| Failure::NoStatus(format!("the answer is no HTTP: {error}")))?;
        body.extend_from_slice(&received[step.payload.clone()]);
        let consumed = step.consumed;
        received.drain(..consumed);
        if step.done {
            break;
        }
        if body.len() > BYTES_MAX {
            return Err(Failure::NoStatus("the answer is endless".to_owned()));
        }
        if consumed == 0 && !more(&mut received)? {
            if decoder.is_done_at_end() {
                break;
            }
            return Err(Failure::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
    }
    Ok(body)
}

fn read(body: &[u8]) -> Result<Answer, Failure> {
    let no_status = |why: &dyn fmt::Display| Failure::NoStatus(format!("the answer is no status of Manifold: {why}"));
    let text = String::from_utf8(body.to_vec()).map_err(|error| no_status(&error))?;
    let snapshot: Snapshot = serde_json::from_str(&text).map_err(|error| no_status(&error))?;
    if snapshot.schema != SCHEMA {
        return Err(no_status(&format_args!("its shape is number {}, not {SCHEMA}", snapshot.schema)));
    }
    Ok(Answer { text, snapshot })
}

#[derive(Debug, PartialEq, Eq)]
struct Address {
    /// Host and port.
    host: String,
    /// As it stands in the address.
    authority: String,
    path: String,
}

fn parse(url: &str) -> Result<Address, Failure> {
    let wrong = |why: &str| Failure::Address(format!("'{url}': {why}"));
    if url.starts_with("https://") {
        return Err(wrong("https is not supported; name an address of the server that begins with http://"));
    }
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (authority, path) = rest.find('/').map_or((rest, "/server-status"), |at| rest.split_at(at));
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_plain(authority) || authority.contains('@') || !is_plain(path) {
        return Err(wrong("this is no address such as http://localhost:8080/server-status"));
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let host = if has_port { authority.to_owned() } else { format!("{authority}:80") };
    Ok(Address { host, authority: authority.to_owned(), path: path.to_owned() })
}

fn connect(host: &str) -> Result<TcpStream, Failure> {
    let addresses = host.to_socket_addrs().map_err(|error| Failure::Address(format!("{host}: {error}")))?;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect_timeout(&address, WAIT) {
            Ok(stream) => {
                let bound = stream.set_read_timeout(Some(WAIT)).and_then(|()| stream.set_write_timeout(Some(WAIT)));
                return bound.map(|()| stream).map_err(Failure::Broken);
            }
            Err(error) => last = error,
        }
    }
    Err(Failure::Refused(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn addresses_are_taken_apart() {
        let check = |url: &str, host: &str, authority: &str, path: &str| {
            let expected = Address { host: host.into(), authority: authority.into(), path: path.into() };
            assert_eq!(parse(url).unwrap(), expected, "{url}");
        };
        check("http://localhost/server-status", "localhost:80", "localhost", "/server-status");
        check("http://localhost:8080/status?auto", "localhost:8080", "localhost:8080", "/status");
        check("localhost:8080", "localhost:8080", "localhost:8080", "/server-status");
        check("http://[::1]/s", "[::1]:80", "[::1]", "/s");
        check("http://[::1]:81/s", "[::1]:81", "[::1]:81", "/s");
        for url in ["https://a/s", "http:///s", "", "http://a b/", "http://user@a/", "http://a/\r\nX: y"] {
            assert!(matches!(parse(url), Err(Failure::Address(_))), "{url}");
        }
    }

    /// What comes of a server that answers with `bytes` and closes.
    fn answered(bytes: &[u8]) -> Result<Answer, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/s", listener.local_addr().unwrap());
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let _request = stream.read(&mut [0; 1024]).unwrap();
                // The client may have hung up before it is all said.
                let _gone = stream.write_all(bytes);
            });
            fetch(&url)
        })
    }

    #[test]
    fn only_a_status_is_a_status() {
        let snapshot = Snapshot { schema: SCHEMA, ..Snapshot::default() };
        let json = serde_json::to_string(&snapshot).unwrap();
        let length = json.len();
        let whole = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{json}");
        assert_eq!(answered(whole.as_bytes()).unwrap().snapshot, snapshot);
        let chunked = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{json}\r\n0\r\n\r\n");
        assert_eq!(answered(chunked.as_bytes()).unwrap().text, json);
        let check = |bytes: &str, expected: &str| {
            let failure = answered(bytes.as_bytes()).unwrap_err().to_string();
            assert!(failure.contains(expected), "{bytes}: {failure}");
        };
        check("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "has status 404");
        check("SSH-2.0\r\n\r\n", "is no HTTP");
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "is no status of Manifold");
        check("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "unexpected end of file");
        check(&whole.replace("\"schema\":1", "\"schema\":9"), "its shape is number 9");
    }

    #[test]
    fn nobody_there_is_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/s", listener.local_addr().unwrap());
        drop(listener);
        assert!(matches!(fetch(&url), Err(Failure::Refused(_))));
    }
}
