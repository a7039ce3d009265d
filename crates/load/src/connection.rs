//! One connection's requests and answers as a pure state machine: received bytes and times in, progress out, no socket in sight.

use manifold_http::{Limits, ResponseBody, ResponseDecoder, ResponseHead, parse_response_head};

use crate::plan::AnswerEnd;

/// A response head longer than this is no HTTP answer for us.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The course of one request. Times are nanoseconds since the beginning of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// When it began: before connecting on a fresh connection, else at the end of the answer before.
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
    /// Requests are HEAD.
    pub head_request: bool,
    /// Connections are kept where the answer allows it.
    pub keep_alive: bool,
    /// What ends an answer whose connection is not kept.
    pub end: AnswerEnd,
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
        }
    }

    /// A request begins at `now`.
    pub fn begin(&mut self, now: u64, fresh: bool) {
        self.exchange = Exchange { started: now, connected: now, fresh, ..Exchange::default() };
        self.state = State::Head;
        self.partial.clear();
        self.stated = None;
    }

    /// Takes in bytes that were read at `now`. `on_head` sees what has been received so far and the head found in it.
    pub fn receive(&mut self, bytes: &[u8], now: u64, on_head: impl FnMut(&[u8], &ResponseHead)) -> Progress {
        if self.exchange.received == 0 {
            self.exchange.first_byte = now;
        }
        self.exchange.received += bytes.len() as u64;
        match &mut self.state {
            State::Body(decoder) => match decode(decoder, bytes, &mut self.exchange.body) {
                Some((true, used)) => self.complete(used == bytes.len()),
                Some((false, _)) => Progress::More,
                None => Progress::Malformed,
            },
            State::Head if self.partial.is_empty() => self.receive_head(bytes, on_head),
            State::Head => {
                let mut held = std::mem::take(&mut self.partial);
                held.extend_from_slice(bytes);
                let progress = self.receive_head(&held, on_head);
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
    fn receive_head(&mut self, mut bytes: &[u8], mut on_head: impl FnMut(&[u8], &ResponseHead)) -> Progress {
        loop {
            let (length, head) = match parse_response_head(bytes, self.reading.head_request, &self.limits) {
                Ok(Some(found)) => found,
                Ok(None) if bytes.len() <= HEAD_BYTES_MAX => {
                    self.partial.extend_from_slice(bytes);
                    return Progress::More;
                }
                Ok(None) | Err(_) => return Progress::Malformed,
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
        let progress = match decode(&mut decoder, bytes, &mut self.exchange.body) {
            Some((true, used)) => self.complete(used == bytes.len()),
            Some((false, _)) => Progress::More,
            None => Progress::Malformed,
        };
        self.state = State::Body(decoder);
        progress
    }

    /// Bytes after the end of an answer nobody asked for make the connection useless.
    fn complete(&mut self, exact: bool) -> Progress {
        self.exchange.kept &= exact;
        Progress::Complete { reusable: self.exchange.kept }
    }
}

/// Feeds a decoder, counting payload; whether the body is done and how many bytes it took. `None`: broken framing.
fn decode(decoder: &mut ResponseDecoder, bytes: &[u8], body: &mut u64) -> Option<(bool, usize)> {
    let mut used = 0;
    loop {
        if decoder.is_done() {
            return Some((true, used));
        }
        let step = decoder.decode(&bytes[used..]).ok()?;
        used += step.consumed;
        *body += step.payload.len() as u64;
        if step.done || used == bytes.len() || step.consumed == 0 {
            return Some((step.done, used));
        }
    }
}
