//! Load shedding, never silence: a full process closes idle connections first, then answers new ones with an answer that
//! was rendered beforehand, and tells the error log so at once, then less and less often.

use std::fmt::Arguments;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use manifold_http::{Status, write_decimal, write_status_line};
use manifold_sys::socket::{self, Flags};

/// Seconds after which a refused client may try again (`Retry-After`, RFC 9110 section 10.2.3).
const RETRY_AFTER_S: u64 = 5;
/// How long a refused client has for reading its answer, whatever it still sends.
pub(crate) const REFUSED_LINGER: Duration = Duration::from_secs(2);
/// The log is told again after the first pause; each is twice the one before, up to the longest. After twice the longest
/// without shedding it begins anew.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LONGEST: Duration = Duration::from_secs(64);

/// What one thread has shed, and when it says so.
#[derive(Debug)]
pub(crate) struct Shedding {
    answer: Vec<u8>,
    /// The log's target.
    target: &'static str,
    /// What was not told yet.
    untold: Untold,
    told: Option<Instant>,
    pause: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Untold {
    closed: u64,
    refused: u64,
    failed: u64,
}

impl Shedding {
    /// Nothing was shed so far; `server` is the value of the field of that name, `target` the module that logs.
    pub(crate) fn new(server: &str, target: &'static str) -> Shedding {
        Shedding { answer: render(server), target, untold: Untold::default(), told: None, pause: PAUSE_FIRST }
    }

    /// Notes that an idle connection was closed to make room.
    pub(crate) fn closed(&mut self) {
        self.untold.closed += 1;
    }

    /// Notes that a connection could not even be accepted.
    pub(crate) fn failed(&mut self) {
        self.untold.failed += 1;
    }

    /// Whether nothing was shed that the log was not told of.
    pub(crate) fn is_told(&self) -> bool {
        self.untold == Untold::default()
    }

    /// Answers a connection that was accepted a moment ago with 503; half-close it and let it linger afterwards. Its
    /// send buffer is empty, so that the answer fits; where it does not, the client is gone and the end tells it.
    pub(crate) fn refuse(&mut self, connection: &impl AsFd) {
        self.untold.refused += 1;
        let _client_is_gone = socket::send(connection, &[IoSlice::new(&self.answer)], Flags::None);
    }

    /// Tells the log what was shed, unless it was told a moment ago. `full` says what is exhausted, as in
    /// "MaxConnections of 100 is reached", and `way_out` what to do about it. Whether it was told.
    pub(crate) fn report(&mut self, now: Instant, full: Arguments<'_>, way_out: &str) -> bool {
        let since = self.told.map(|told| now.saturating_duration_since(told));
        if self.is_told() || since.is_some_and(|since| since < self.pause) {
            return false;
        }
        let anew = since.is_none_or(|since| since >= PAUSE_LONGEST * 2);
        self.pause = if anew { PAUSE_FIRST } else { (self.pause * 2).min(PAUSE_LONGEST) };
        self.told = Some(now);
        let Untold { closed, refused, failed } = std::mem::take(&mut self.untold);
        let level = if refused + failed > 0 { log::Level::Error } else { log::Level::Warn };
        let seconds = since.filter(|_| !anew).map(|since| format!(" in the last {} s", since.as_secs()));
        log::log!(
            target: self.target,
            level,
            "{full}: closed {closed} idle connections and answered {refused} new ones with 503{}; {way_out}",
            seconds.unwrap_or_default()
        );
        true
    }
}

/// The answer. It has no `Date`, which RFC 9110 section 6.6.1 leaves to the server in the 5xx class, so that it is rendered once.
fn render(server: &str) -> Vec<u8> {
    const BODY: &[u8] = b"<!DOCTYPE html>\n<html><head>\n<title>503 Service Unavailable</title>\n</head><body>\n\
        <h1>Service Unavailable</h1>\n<p>The server has as many connections as it can hold. Please try again later.</p>\n\
        </body></html>\n";
    let mut out = Vec::new();
    write_status_line(&mut out, Status::SERVICE_UNAVAILABLE);
    out.extend_from_slice(b"Server: ");
    out.extend_from_slice(server.as_bytes());
    out.extend_from_slice(b"\r\nRetry-After: ");
    write_decimal(&mut out, RETRY_AFTER_S);
    out.extend_from_slice(b"\r\nContent-Length: ");
    write_decimal(&mut out, BODY.len() as u64);
    out.extend_from_slice(b"\r\nConnection: close\r\nContent-Type: text/html; charset=iso-8859-1\r\n\r\n");
    out.extend_from_slice(BODY);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_log_is_told_at_once_and_then_less_and_less_often() {
        let mut shedding = Shedding::new("Test", "mpm_test");
        let start = Instant::now();
        let mut told_at = Vec::new();
        let mut second = |second: u64, shed: bool| {
            if shed {
                shedding.closed();
            }
            if shedding.report(start + Duration::from_secs(second), format_args!("full"), "wait") {
                told_at.push(second);
            }
        };
        (0..300).for_each(|n| second(n, true));
        (300..1000).for_each(|n| second(n, false));
        (1000..1004).for_each(|n| second(n, true));
        assert_eq!(told_at, [0, 1, 3, 7, 15, 31, 63, 127, 191, 255, 319, 1000, 1001, 1003]);
    }

    #[test]
    fn who_is_refused_gets_a_whole_answer() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        Shedding::new("Test", "mpm_test").refuse(&ours);
        drop(ours);
        let mut answer = String::new();
        theirs.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\nServer: Test\r\nRetry-After: 5\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
    }
}
