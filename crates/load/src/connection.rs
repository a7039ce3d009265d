//! One connection's requests and answers as a pure state machine: received bytes and times in, progress out, no socket in sight.

use manifold_http::{Limits, ResponseBody, ResponseDecoder, ResponseHead, parse_response_head};

use crate::content::Look;
use crate::plan::AnswerEnd;

/// A response head longer than this is no HTTP answer for us.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The course of one request. Times are nanoseconds since the beginning of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// When it was to begin: in an open loop by the schedule, in a closed one when it did.
    pub intended: u64,
    /// When it began: before connecting on a fresh connection, else when its first byte was sent.
    pub started: u64,
    /// When the connection stood; equal to `started` on a kept one.
    pub connected: u64,
    /// When the last byte of the request had been handed to the kernel (only where the observer asked for it).
    pub wrote: u64,
    /// When the first byte of the answer was read; 0: none came.
    pub first_byte: u64,
    /// When it was over, well or badly.
    pub finished: u64,
    /// Whether the connection was opened for this request.
    pub fresh: bool,
    /// The request's place in [`Plan::requests`](crate::plan::Plan::requests).
    pub request: u32,
    /// Status of the answer; 0 while there is no head.
    pub status: u16,
    /// Whether the answer left the connection open for another request.
    pub kept: bool,
    /// Bytes received: head, framing, body.
    pub received: u64,
    /// Body bytes among them, without chunk framing.
    pub body: u64,
    /// Bytes sent.
    pub sent: u64,
    /// The answer's body is not what it had to be.
    pub wrong_content: bool,
}

/// What received bytes amounted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The answer goes on.
    More,
    /// The answer is complete. `reusable`: the next request may follow on this connection.
    Complete {
        /// The next request may follow on this connection.
        reusable: bool,
    },
    /// These bytes are no HTTP answer.
    Malformed,
}

/// What the end of the stream amounted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The answer was complete with it.
    Complete,
    /// The answer stops before its stated end.
    Truncated,
    /// There was no byte of an answer.
    NoAnswer,
}

/// How answers are to be read; the same for every connection of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The first request is a HEAD; [`Connection::name`] tells of later ones.
    pub head_request: bool,
    /// Connections are kept where the answer allows it.
    pub keep_alive: bool,
    /// What ends an answer whose connection is not kept.
    pub end: AnswerEnd,
}

/// The last head parsed on any connection of a thread. Servers repeat their head to the byte until the date changes, and comparing it costs
/// a tenth of parsing it.
#[derive(Debug, Default)]
pub struct KnownHead {
    bytes: Vec<u8>,
    /// It, and whether it answered a HEAD.
    head: Option<(ResponseHead, bool)>,
}

impl KnownHead {
    /// The head at the start of `bytes`, if it is the known one. What a head means depends on nothing after it.
    fn find(&self, bytes: &[u8], head_request: bool) -> Option<(usize, ResponseHead)> {
        let (head, of_head_request) = self.head?;
        (of_head_request == head_request && bytes.starts_with(&self.bytes)).then_some((self.bytes.len(), head))
    }

    fn keep(&mut self, bytes: &[u8], head: ResponseHead, head_request: bool) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.head = Some((head, head_request));
    }
}

/// The state of one connection.
#[derive(Debug)]
pub struct Connection {
    /// The request under way, or the last one.
    pub exchange: Exchange,
    reading: Reading,
    limits: Limits,
    state: State,
    /// The beginning of a head whose end has not come yet; empty nearly always.
    partial: Vec<u8>,
    /// Body length the head stated, where the body is nevertheless read up to the close.
    stated: Option<u64>,
    /// Where the body has to be something.
    look: Option<Box<Look>>,
}

#[derive(Debug)]
enum State {
    Head,
    Body(ResponseDecoder),
}

impl Connection {
    /// A connection that has sent nothing yet.
    pub fn new(reading: Reading) -> Connection {
        let limits = Limits { request_line: HEAD_BYTES_MAX, field_size: HEAD_BYTES_MAX, ..Limits::default() };
        Connection {
            exchange: Exchange::default(),
            reading,
            limits,
            state: State::Head,
            partial: Vec::new(),
            stated: None,
            look: None,
        }
    }

    /// The request that has just begun is number `request` of the plan, was to begin at `intended`, and is a HEAD or not.
    pub fn name(&mut self, request: u32, intended: u64, head_request: bool) {
        self.exchange.request = request;
        self.exchange.intended = intended;
        self.reading.head_request = head_request;
    }

    /// The body of the answer to the next request is looked at, or not.
    pub fn expect(&mut self, look: Option<Box<Look>>) {
        self.look = look;
    }

    /// The answer is complete: was its body what it had to be?
    pub fn judge_content(&mut self) {
        if let Some(look) = self.look.take() {
            self.exchange.wrong_content = !look.is_right();
        }
    }

    /// A request begins at `now`, meant to begin then.
    pub fn begin(&mut self, now: u64, fresh: bool) {
        self.exchange = Exchange { intended: now, started: now, connected: now, fresh, ..Exchange::default() };
        self.state = State::Head;
        self.partial.clear();
        self.stated = None;
    }

    /// Takes in bytes that were read at `now`. `on_head` sees what has been received so far and the head found in it. `known` is shared by
    /// connections that read in the same way.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        now: u64,
        known: &mut KnownHead,
        on_head: impl FnMut(&[u8], &ResponseHead),
    ) -> Progress {
        if self.exchange.received == 0 {
            self.exchange.first_byte = now;
        }
        self.exchange.received += bytes.len() as u64;
        match &mut self.state {
            State::Body(decoder) => match decode(decoder, bytes, &mut self.exchange.body, self.look.as_deref_mut()) {
                Some((true, used)) => self.complete(used == bytes.len()),
                Some((false, _)) => Progress::More,
                None => Progress::Malformed,
            },
            State::Head if self.partial.is_empty() => self.receive_head(bytes, known, on_head),
            State::Head => {
                let mut held = std::mem::take(&mut self.partial);
                held.extend_from_slice(bytes);
                let progress = self.receive_head(&held, known, on_head);
                held.clear();
                if self.partial.is_empty() {
                    self.partial = held;
                }
                progress
            }
        }
    }

    /// The server has closed its side.
    pub fn end_of_stream(&self) -> End {
        match &self.state {
            State::Head if self.exchange.received == 0 => End::NoAnswer,
            State::Head => End::Truncated,
            State::Body(_) if self.stated.is_some_and(|stated| self.exchange.body < stated) => End::Truncated,
            State::Body(decoder) if decoder.is_done_at_end() => End::Complete,
            State::Body(_) => End::Truncated,
        }
    }

    /// `bytes` is everything received since the head's beginning.
    fn receive_head(
        &mut self,
        mut bytes: &[u8],
        known: &mut KnownHead,
        mut on_head: impl FnMut(&[u8], &ResponseHead),
    ) -> Progress {
        loop {
            let (length, head) = match known.find(bytes, self.reading.head_request) {
                Some(found) => found,
                None => match parse_response_head(bytes, self.reading.head_request, &self.limits) {
                    Ok(Some((length, head))) => {
                        known.keep(&bytes[..length], head, self.reading.head_request);
                        (length, head)
                    }
                    Ok(None) if bytes.len() <= HEAD_BYTES_MAX => {
                        self.partial.extend_from_slice(bytes);
                        return Progress::More;
                    }
                    Ok(None) | Err(_) => return Progress::Malformed,
                },
            };
            on_head(bytes, &head);
            bytes = &bytes[length..];
            // An interim answer: the one that counts follows (RFC 9110 section 15.2). 101 ends HTTP on this connection.
            if !(100..200).contains(&head.status) || head.status == 101 {
                return self.receive_first_body(&head, bytes);
            }
        }
    }

    fn receive_first_body(&mut self, head: &ResponseHead, bytes: &[u8]) -> Progress {
        let until_close = self.reading.end == AnswerEnd::Close;
        self.exchange.status = head.status;
        self.exchange.kept =
            self.reading.keep_alive && head.keep_alive && head.status != 101 && (head.keep_alive_named || !until_close);
        let body = if until_close && !self.exchange.kept {
            self.stated = if let ResponseBody::Length(length) = head.body { Some(length) } else { None };
            if head.body == ResponseBody::Chunked { ResponseBody::Chunked } else { ResponseBody::UntilClose }
        } else {
            head.body
        };
        let mut decoder = ResponseDecoder::new(body);
        let progress = match decode(&mut decoder, bytes, &mut self.exchange.body, self.look.as_deref_mut()) {
            Some((true, used)) => self.complete(used == bytes.len()),
            Some((false, _)) => Progress::More,
            None => Progress::Malformed,
        };
        self.state = State::Body(decoder);
        progress
    }

    /// Bytes after the end of an answer nobody asked for make the connection useless.
    fn complete(&mut self, exact: bool) -> Progress {
        Progress::Complete { reusable: self.exchange.kept && exact }
    }
}

/// Feeds a decoder, counting payload; whether the body is done and how many bytes it took. `None`: broken framing.
fn decode(
    decoder: &mut ResponseDecoder,
    bytes: &[u8],
    body: &mut u64,
    mut look: Option<&mut Look>,
) -> Option<(bool, usize)> {
    let mut used = 0;
    loop {
        if decoder.is_done() {
            return Some((true, used));
        }
        let step = decoder.decode(&bytes[used..]).ok()?;
        *body += step.payload.len() as u64;
        if let Some(look) = &mut look {
            look.feed(&bytes[used..][step.payload]);
        }
        used += step.consumed;
        if step.done || used == bytes.len() || step.consumed == 0 {
            return Some((step.done, used));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMED: Reading = Reading { head_request: false, keep_alive: true, end: AnswerEnd::Framing };
    const HEAD: Reading = Reading { head_request: true, ..FRAMED };
    /// As `ab -k` and as `ab` read.
    const AB_KEEPS: Reading = Reading { end: AnswerEnd::Close, ..FRAMED };
    const AB: Reading = Reading { keep_alive: false, ..AB_KEEPS };

    /// What became of an answer: complete by itself (and whether reusable), at the end of the stream, or not at all.
    #[derive(Debug, PartialEq, Eq)]
    enum Fate {
        Done { reusable: bool },
        AtEnd(End),
        Malformed,
    }

    /// Feeds `answer` in pieces that end at `cuts`, then ends the stream.
    fn feed(reading: Reading, answer: &[u8], cuts: &[usize]) -> (Fate, u16, u64) {
        let mut connection = Connection::new(reading);
        let mut known = KnownHead::default();
        connection.begin(1, true);
        let mut start = 0;
        for end in cuts.iter().copied().chain([answer.len()]).filter(|end| *end > 0) {
            if end <= start {
                continue;
            }
            let progress = connection.receive(&answer[start..end], 2, &mut known, |_, _| {});
            start = end;
            let fate = match progress {
                Progress::More => continue,
                Progress::Complete { reusable } => Fate::Done { reusable },
                Progress::Malformed => Fate::Malformed,
            };
            return (fate, connection.exchange.status, connection.exchange.body);
        }
        (Fate::AtEnd(connection.end_of_stream()), connection.exchange.status, connection.exchange.body)
    }

    /// The same fate in one piece, byte by byte, and in pieces of seeded random sizes.
    fn check(reading: Reading, answer: &str, expected: &(Fate, u16, u64)) {
        let bytes = answer.as_bytes();
        assert_eq!(feed(reading, bytes, &[]), *expected, "whole: {answer:?}");
        let every: Vec<usize> = (1..bytes.len()).collect();
        assert_eq!(feed(reading, bytes, &every), *expected, "byte by byte: {answer:?}");
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for round in 0..50 {
            let mut cuts = Vec::new();
            let mut at = 0;
            while at < bytes.len() {
                // xorshift64, so that a failure can be repeated.
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                at += 1 + (state % 40) as usize;
                cuts.push(at.min(bytes.len()));
            }
            assert_eq!(feed(reading, bytes, &cuts), *expected, "round {round}, cut at {cuts:?}: {answer:?}");
        }
    }

    #[test]
    fn framed_answers_end_where_they_say() {
        let kept = || Fate::Done { reusable: true };
        let last = || Fate::Done { reusable: false };
        check(FRAMED, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", &(kept(), 200, 5));
        check(FRAMED, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", &(kept(), 200, 0));
        check(FRAMED, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", &(last(), 200, 2));
        check(FRAMED, "HTTP/1.0 404 No\r\nContent-Length: 2\r\n\r\nhi", &(last(), 404, 2));
        check(FRAMED, "HTTP/1.0 200 OK\nConnection: keep-alive\nContent-Length: 1\n\nx", &(kept(), 200, 1));
        check(FRAMED, "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", &(kept(), 304, 0));
        check(HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", &(kept(), 200, 0));
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;x=y\r\nabc\r\n0\r\nT: t\r\n\r\n";
        check(FRAMED, chunked, &(kept(), 200, 8));
    }

    #[test]
    fn interim_answers_are_passed_over() {
        let answer = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
        check(FRAMED, answer, &(Fate::Done { reusable: true }, 200, 2));
    }

    #[test]
    fn the_end_of_the_stream_completes_or_cuts_off() {
        let at_end = |end| Fate::AtEnd(end);
        check(FRAMED, "HTTP/1.1 200 OK\r\n\r\nhello", &(at_end(End::Complete), 200, 5));
        check(FRAMED, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", &(at_end(End::Truncated), 200, 5));
        check(
            FRAMED,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            &(at_end(End::Truncated), 200, 5),
        );
        check(FRAMED, "HTTP/1.1 200 OK\r\nContent-Le", &(at_end(End::Truncated), 0, 0));
        check(FRAMED, "", &(at_end(End::NoAnswer), 0, 0));
    }

    #[test]
    fn ab_reads_to_the_close_unless_the_answer_keeps_the_connection_in_words() {
        let at_end = |end| Fate::AtEnd(end);
        let plain = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let keeping = "HTTP/1.1 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 5\r\n\r\nhello";
        check(AB, plain, &(at_end(End::Complete), 200, 5));
        check(AB, keeping, &(at_end(End::Complete), 200, 5));
        check(AB_KEEPS, plain, &(at_end(End::Complete), 200, 5));
        check(AB_KEEPS, keeping, &(Fate::Done { reusable: true }, 200, 5));
        check(AB, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", &(at_end(End::Truncated), 200, 5));
        check(AB, "HTTP/1.0 200 OK\r\n\r\nhello", &(at_end(End::Complete), 200, 5));
    }

    #[test]
    fn what_is_no_answer_is_found_out() {
        for answer in ["hello\r\n\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n"] {
            check(FRAMED, answer, &(Fate::Malformed, 0, 0));
        }
        let broken = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n";
        assert_eq!(feed(FRAMED, broken.as_bytes(), &[]).0, Fate::Malformed);
        let endless = format!("HTTP/1.1 200 OK\r\n{}", "X: y\r\n".repeat(HEAD_BYTES_MAX));
        assert_eq!(feed(FRAMED, endless.as_bytes(), &[]).0, Fate::Malformed);
    }

    #[test]
    fn bytes_after_the_end_make_the_connection_useless() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n";
        assert_eq!(feed(FRAMED, answer, &[]), (Fate::Done { reusable: false }, 200, 2));
    }

    #[test]
    fn a_kept_connection_begins_anew() {
        let mut connection = Connection::new(FRAMED);
        let mut known = KnownHead::default();
        let mut answer =
            |connection: &mut Connection, bytes: &[u8]| connection.receive(bytes, 7, &mut known, |_, _| {});
        connection.begin(1, true);
        assert_eq!(answer(&mut connection, b"HTTP/1.1 200 OK\r\nContent-Le"), Progress::More);
        let rest = b"ngth: 1\r\n\r\nx";
        assert_eq!(answer(&mut connection, rest), Progress::Complete { reusable: true });
        connection.begin(5, false);
        let second = b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(answer(&mut connection, second), Progress::Complete { reusable: true });
        let exchange = connection.exchange;
        assert_eq!(
            (exchange.status, exchange.body, exchange.received, exchange.fresh),
            (404, 0, second.len() as u64, false)
        );
        assert_eq!((exchange.started, exchange.first_byte), (5, 7));
    }

    #[test]
    fn a_known_head_is_not_mistaken_for_a_longer_or_another_one() {
        let mut known = KnownHead::default();
        let mut answer = |bytes: &[u8]| {
            let mut connection = Connection::new(FRAMED);
            connection.begin(1, true);
            let progress = connection.receive(bytes, 2, &mut known, |_, _| {});
            (progress, connection.exchange.status, connection.exchange.body)
        };
        let kept = Progress::Complete { reusable: true };
        for _ in 0..2 {
            assert_eq!(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), (kept, 200, 2));
        }
        assert_eq!(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"), (kept, 200, 1));
        assert_eq!(
            answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx").0,
            Progress::Complete { reusable: false }
        );
        assert_eq!(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n").0, Progress::More);
        assert_eq!(answer(b"HTTP/1.1 204 No\r\n\r\n"), (kept, 204, 0));
    }
}
