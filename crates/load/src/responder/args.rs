//! The command line of `manifold load --target-server`.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};

use lexopt::prelude::{Long, Short, ValueExt};

/// The flag that makes `manifold load` a server.
pub const FLAG: &str = "--target-server";

/// What `manifold load --target-server --help` prints.
pub const USAGE: &str = "\
Usage: manifold load --target-server [options]

Answers every request with the same bytes, and does nothing else: no parsing beyond the end of the head, no file, no date,
no log. One thread around epoll, with the fewest system calls that takes: receive and send for a request on a kept
connection; accept, receive, send and close for one on its own. It is what a load generator can ask at most of this machine,
and what a server can cost at least.

      --listen ADDR:PORT    where to answer (default 127.0.0.1:0, a free port)
      --body BYTES          length of the body (default 44, Apache's own page, which a longer body repeats)
      --sendfile            send the body by sendfile(2) from a file in memory, as servers do with large files
      --defer-accept        leave connections to the kernel until their request is there (TCP_DEFER_ACCEPT)
      --max-connections N   connections open at once; more wait to be accepted (default 16384)
  -h, --help                show this text

It says on standard output where it answers, and ends on TERM or INT. GET and HEAD are answered (HEAD with the head alone,
then it closes); bodies of requests are not read. Answers come as fast as they can: delays are not in this version.

Exit status: 0 it was asked to end; 1 it could not serve; 2 wrong usage.
";

/// What was asked for, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Address and port; port 0 for a free one.
    pub listen: SocketAddr,
    /// Bytes of the body.
    pub body: usize,
    /// The body is sent by sendfile(2).
    pub sendfile: bool,
    /// `TCP_DEFER_ACCEPT`.
    pub defer_accept: bool,
    /// Connections open at once.
    pub max_connections: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            body: 44,
            sendfile: false,
            defer_accept: false,
            max_connections: 16_384,
        }
    }
}

/// The longest body; without sendfile it is held twice.
const BODY_MAX: usize = 256 * 1024 * 1024;

/// Reads the arguments, without the program's name; `None` if help is wanted.
///
/// # Errors
/// A sentence for the user.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Options>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut options = Options::default();
    while let Some(arg) = parser.next().map_err(text)? {
        match arg {
            Long("target-server") => {}
            Long("listen") => {
                let given = value(&mut parser)?;
                options.listen = given.parse().map_err(|_| {
                    format!("--listen {given}: an address and a port are needed, as 127.0.0.1:8080 or [::1]:8080")
                })?;
            }
            Long("body") => options.body = number(&mut parser, "--body", 0, BODY_MAX)?,
            Long("sendfile") => options.sendfile = true,
            Long("defer-accept") => options.defer_accept = true,
            Long("max-connections") => {
                options.max_connections = number(&mut parser, "--max-connections", 1, 1_000_000)?;
            }
            Short('h') | Long("help") => return Ok(None),
            other => return Err(format!("{}: with {FLAG} there is no load to describe", text(other.unexpected()))),
        }
    }
    if options.sendfile && options.body == 0 {
        return Err("--sendfile needs a body; give --body".to_owned());
    }
    Ok(Some(options))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn value(parser: &mut lexopt::Parser) -> Result<String, String> {
    parser.value().map_err(text)?.string().map_err(text)
}

fn number(parser: &mut lexopt::Parser, name: &str, least: usize, most: usize) -> Result<usize, String> {
    let given = value(parser)?;
    let number = given.parse::<usize>().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{name} {given}: a whole number from {least} to {most} is needed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Options>, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn lines_are_read() {
        assert_eq!(read("--target-server"), Ok(Some(Options::default())));
        let line = "--target-server --listen [::1]:81 --body 139264 --sendfile --defer-accept --max-connections 5";
        let expected = Options {
            listen: "[::1]:81".parse().expect("an address"),
            body: 139_264,
            sendfile: true,
            defer_accept: true,
            max_connections: 5,
        };
        assert_eq!(read(line), Ok(Some(expected)));
        assert_eq!(read("--target-server --help"), Ok(None));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, part) in [
            ("--target-server --listen 8080", "as 127.0.0.1:8080"),
            ("--target-server --body -1", "from 0 to"),
            ("--target-server --sendfile --body 0", "needs a body"),
            ("--target-server -c 10", "no load to describe"),
            ("http://h/ --target-server", "no load to describe"),
        ] {
            let said = read(line).expect_err(line);
            assert!(said.contains(part), "{line}: {said}");
        }
    }
}
