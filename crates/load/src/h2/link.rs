//! One connection as a pure state machine: received bytes in, news of its requests and bytes to be sent out, no socket in sight
//! (RFC 9113).
//!
//! Windows for what the server sends are as large as they can be, so that the server is held back by TCP alone, as with HTTP/1.1; they
//! are opened anew once half of them is used. What we send obeys the server's windows and its limit of streams.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use manifold_http::h2::frame::{self, PAYLOAD_DEFAULT, WINDOW_DEFAULT, WINDOW_MAX};
use manifold_http::h2::{Code, Decoder, Error, Event, LIST_BYTES_MAX, PREFACE, Reader, Setting, Settings};

use super::request;
use super::streams::{Stream, Streams};
use crate::content::Look;
use crate::outcome::Failure;
use crate::wire::{Answer, Happening, Sent};

/// The dynamic table servers may use: what is theirs where nothing is said.
const TABLE_BYTES: usize = 4096;
/// Streams at once until the server has said how many it takes: what the standard wants servers to take at least.
const STREAMS_UNTIL_TOLD: usize = 100;
/// The server is told that it may go on when so much has come.
const ANNOUNCE_BYTES: u32 = WINDOW_MAX / 2;
/// No more of bodies is prepared for sending while so much waits to be sent.
const OUT_BYTES: usize = 64 * 1024;
/// A server that makes us write so much without taking it is up to no good.
const OUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What is told of requests. None of it borrows.
pub type News = VecDeque<Happening<'static>>;

/// The state of one connection.
#[derive(Debug)]
pub struct Link<'p> {
    /// What is to be sent.
    pub out: Vec<u8>,
    reader: Reader,
    decoder: Decoder,
    /// What the last field block said.
    known: Head,
    /// Whether the text of heads is wanted.
    heads: bool,
    streams: Streams<'p>,
    /// Requests for which no stream could be opened yet.
    waiting: VecDeque<(usize, &'p [u8])>,
    /// Places of streams with bodies to be sent, in turn.
    bodies: VecDeque<usize>,
    /// How answers are looked at, by their slots; often none is.
    looks: HashMap<usize, Box<Look>>,
    /// Places of streams whose answers began with the bytes being received.
    begun: Vec<usize>,
    next_id: u32,
    /// What the server allows: streams at once, the window of new streams, that of the connection, the payload of a frame.
    streams_max: usize,
    stream_window: i64,
    window: i64,
    payload_max: usize,
    /// Body bytes since the server was last told that it may go on.
    unannounced: u32,
    /// All bytes that came.
    heard: u64,
    /// The server's SETTINGS have come: it speaks HTTP/2.
    settled: bool,
    /// An answer has come.
    answered: bool,
    /// No further requests are to be made here.
    retired: bool,
}

/// What a field block said.
#[derive(Clone, Debug, Default)]
struct Head {
    /// 0: nothing, as in trailers.
    status: u16,
    length: Option<u64>,
    malformed: bool,
    /// As it would look in HTTP/1.
    text: Option<Rc<[u8]>>,
}

impl<'p> Link<'p> {
    /// A connection that has sent nothing yet; `heads` asks for [`Happening::Begun`] with the text of each head.
    pub fn new(heads: bool) -> Link<'p> {
        let mut out = PREFACE.to_vec();
        let settings = [
            (Setting::ENABLE_PUSH, 0),
            (Setting::INITIAL_WINDOW_SIZE, WINDOW_MAX),
            (Setting::MAX_HEADER_LIST_SIZE, LIST_BYTES_MAX as u32),
        ];
        frame::write_settings(&mut out, &settings);
        frame::write_window_update(&mut out, 0, WINDOW_MAX - WINDOW_DEFAULT);
        Link {
            out,
            reader: Reader::default(),
            decoder: Decoder::new(TABLE_BYTES),
            known: Head::default(),
            heads,
            streams: Streams::default(),
            waiting: VecDeque::new(),
            bodies: VecDeque::new(),
            looks: HashMap::new(),
            begun: Vec::new(),
            next_id: 1,
            streams_max: STREAMS_UNTIL_TOLD,
            stream_window: i64::from(WINDOW_DEFAULT),
            window: i64::from(WINDOW_DEFAULT),
            payload_max: PAYLOAD_DEFAULT,
            unannounced: 0,
            heard: 0,
            settled: false,
            answered: false,
            retired: false,
        }
    }

    /// Whether it takes further requests.
    #[inline]
    pub fn is_usable(&self) -> bool {
        !self.retired
    }

    /// Whether no request is under way.
    pub fn is_idle(&self) -> bool {
        self.streams.len() == 0 && self.waiting.is_empty()
    }

    /// Whether there is more of bodies to be sent than is in `out`.
    pub fn has_more_to_send(&self) -> bool {
        !self.bodies.is_empty()
    }

    /// The answer to a slot's next request is looked at so, or not.
    pub fn expect(&mut self, slot: usize, look: Option<Box<Look>>) {
        match look {
            Some(look) => drop(self.looks.insert(slot, look)),
            None if self.looks.is_empty() => {}
            None => drop(self.looks.remove(&slot)),
        }
    }

    /// Begins a slot's request, or lets it wait for a stream.
    #[inline]
    pub fn open(&mut self, slot: usize, request: &'p [u8]) -> Sent {
        if self.streams.len() >= self.streams_max || !self.waiting.is_empty() {
            self.waiting.push_back((slot, request));
            return Sent::Part(0);
        }
        self.begin(slot, request)
    }

    #[inline]
    fn begin(&mut self, slot: usize, request: &'p [u8]) -> Sent {
        let id = self.next_id;
        self.next_id += 2;
        self.retired |= self.next_id > WINDOW_MAX;
        let body = request::write_head(request, id, &mut self.out);
        let stream = Stream { unsent: body, ..Stream::new(id, slot, self.stream_window, self.heard) };
        let place = self.streams.insert(stream);
        if body.is_empty() {
            return Sent::All;
        }
        self.bodies.push_back(place);
        self.prepare(&mut |_| {});
        if self.streams.get(place).unsent.is_empty() { Sent::All } else { Sent::Part(request.len() - body.len()) }
    }

    /// What has become of a slot's request so far.
    pub fn progress(&mut self) -> Vec<(usize, Sent)> {
        let waiting = self.waiting.iter().map(|(slot, _)| (*slot, Sent::Part(0)));
        let sent = |stream: &mut Stream<'_>| if stream.unsent.is_empty() { Sent::All } else { Sent::Part(0) };
        self.streams.iter().map(|stream| (stream.slot, sent(stream))).chain(waiting).collect()
    }

    /// Gives up a slot's request, if it has one. Where nothing at all was heard while it was under way, the connection is of no use.
    pub fn cancel(&mut self, slot: usize) {
        self.waiting.retain(|(waiting, _)| *waiting != slot);
        if let Some(place) = self.streams.of_slot(slot) {
            let Stream { id, heard_before, .. } = *self.streams.get(place);
            self.retired |= heard_before == self.heard;
            self.reset(place, id, Code::CANCEL);
        }
    }

    fn reset(&mut self, place: usize, id: u32, code: Code) {
        frame::write_reset(&mut self.out, id, code);
        self.close(place);
    }

    /// Forgets a stream, which makes room for another.
    fn close(&mut self, place: usize) {
        if !self.streams.get(place).unsent.is_empty() {
            self.bodies.retain(|body| *body != place);
        }
        self.streams.remove(place);
    }

    /// Prepares more of the bodies for sending, in turn, and tells `done` whose has all been sent.
    pub fn prepare(&mut self, done: &mut dyn FnMut(usize)) {
        let mut in_vain = 0;
        while in_vain < self.bodies.len() && self.window > 0 && self.out.len() < OUT_BYTES {
            let Some(place) = self.bodies.pop_front() else { return };
            let stream = self.streams.get(place);
            let allowed = usize::try_from(stream.window.min(self.window)).unwrap_or(0).min(self.payload_max);
            if allowed == 0 {
                in_vain += 1;
                self.bodies.push_back(place);
                continue;
            }
            in_vain = 0;
            let (part, rest) = stream.unsent.split_at(allowed.min(stream.unsent.len()));
            frame::write_data(&mut self.out, stream.id, part, rest.is_empty());
            stream.unsent = rest;
            stream.window -= part.len() as i64;
            self.window -= part.len() as i64;
            if rest.is_empty() {
                done(stream.slot);
            } else {
                self.bodies.push_back(place);
            }
        }
    }

    /// Takes in bytes.
    ///
    /// # Errors
    /// What ends the connection; [`fail`](Link::fail) tells its requests.
    pub fn receive(&mut self, bytes: &[u8], news: &mut News) -> Result<(), Error> {
        self.heard += bytes.len() as u64;
        let mut input = bytes;
        // What it says is lent by it, while all the rest is changed.
        let mut reader = std::mem::take(&mut self.reader);
        while let Some(event) = reader.next(&mut input)? {
            self.handle(event, news)?;
        }
        self.reader = reader;
        for place in self.begun.drain(..) {
            let stream = self.streams.get(place);
            if stream.id != 0 && !self.heads {
                news.push_back(Happening::Begun { slot: stream.slot, head: None });
            }
        }
        self.go_on(news);
        if self.out.len() > OUT_BYTES_MAX {
            return Err(Error { code: Code::ENHANCE_YOUR_CALM, what: "the server asks for more than it takes" });
        }
        Ok(())
    }

    #[inline]
    fn handle(&mut self, event: Event<'_>, news: &mut News) -> Result<(), Error> {
        if !self.settled && !matches!(event, Event::Settings(_)) {
            return Err(Error::protocol("the server's first frame is not SETTINGS"));
        }
        match event {
            Event::Headers { stream, block, end_stream, wire } => self.headers(stream, block, end_stream, wire, news),
            Event::Data { stream, bytes, flow, end_stream, wire } => {
                self.announce(flow);
                let Some(place) = self.find(stream)? else { return Ok(()) };
                self.data(place, bytes, flow, wire);
                if end_stream {
                    self.finish(place, news);
                }
                Ok(())
            }
            Event::Reset { stream, code } => {
                let Some(place) = self.find(stream)? else { return Ok(()) };
                let slot = self.streams.get(place).slot;
                self.close(place);
                news.push_back(if code == Code::REFUSED_STREAM {
                    Happening::Refused { slot }
                } else {
                    Happening::Failed { slot, failure: Failure::StreamReset }
                });
                Ok(())
            }
            Event::Settings(settings) => self.settings(settings),
            Event::GoAway { last, .. } => {
                self.go_away(last, news);
                Ok(())
            }
            Event::WindowUpdate { stream, increment } => self.window_update(stream, increment, news),
            Event::Ping { ack: false, data } => {
                frame::write_ping_ack(&mut self.out, data);
                Ok(())
            }
            Event::Ping { ack: true, .. } | Event::SettingsAck | Event::Nothing => Ok(()),
        }
    }

    /// An open stream; `None` where it has been closed. One that was never opened is the server's mistake.
    #[inline]
    fn find(&self, id: u32) -> Result<Option<usize>, Error> {
        let found = self.streams.find(id);
        if found.is_none() && (id >= self.next_id || id.is_multiple_of(2)) {
            return Err(Error::protocol("a frame belongs to a stream that was never opened"));
        }
        Ok(found)
    }

    fn headers(&mut self, id: u32, block: &[u8], end: bool, wire: usize, news: &mut News) -> Result<(), Error> {
        // Whatever has become of the stream: the table has to follow.
        if !self.decoder.repeats(block) {
            self.known = decode(&mut self.decoder, block, self.heads)?;
        }
        let Some(place) = self.find(id)? else { return Ok(()) };
        let stream = self.streams.get(place);
        if stream.received == 0 {
            self.begun.push(place);
        }
        stream.received += wire as u64;
        let head = &self.known;
        let is_trailer = stream.status != 0;
        let is_interim = !is_trailer && (100..200).contains(&head.status);
        // Section 8.1: interim answers do not end, trailers do, and only answers have a status.
        let fits = if is_trailer { end && head.status == 0 } else { head.status != 0 && !(is_interim && end) };
        if head.malformed || !fits || head.status == 101 {
            self.malformed(place, news);
            return Ok(());
        }
        if let (Some(text), false) = (&head.text, is_trailer) {
            news.push_back(Happening::Begun { slot: stream.slot, head: Some((head.status, Rc::clone(text))) });
        }
        if !is_trailer && !is_interim {
            (stream.status, stream.stated) = (head.status, head.length);
        }
        if end {
            self.finish(place, news);
        }
        Ok(())
    }

    fn malformed(&mut self, place: usize, news: &mut News) {
        let Stream { id, slot, .. } = *self.streams.get(place);
        self.reset(place, id, Code::PROTOCOL_ERROR);
        news.push_back(Happening::Failed { slot, failure: Failure::Malformed });
    }

    #[inline]
    fn data(&mut self, place: usize, bytes: &[u8], flow: u32, wire: usize) {
        let stream = self.streams.get(place);
        if !self.looks.is_empty()
            && let Some(look) = self.looks.get_mut(&stream.slot)
        {
            look.feed(bytes);
        }
        stream.body += bytes.len() as u64;
        stream.received += wire as u64;
        stream.unannounced += flow;
        if stream.unannounced >= ANNOUNCE_BYTES {
            frame::write_window_update(&mut self.out, stream.id, std::mem::take(&mut stream.unannounced));
        }
    }

    /// So much of the connection's window has been used, by whichever stream.
    #[inline]
    fn announce(&mut self, flow: u32) {
        self.unannounced += flow;
        if self.unannounced >= ANNOUNCE_BYTES {
            frame::write_window_update(&mut self.out, 0, std::mem::take(&mut self.unannounced));
        }
    }

    /// The answer is complete.
    #[inline]
    fn finish(&mut self, place: usize, news: &mut News) {
        let stream = self.streams.get(place);
        let Stream { id, slot, status, received, body, stated, .. } = *stream;
        if status == 0 {
            return self.malformed(place, news);
        }
        let look = if self.looks.is_empty() { None } else { self.looks.remove(&slot) };
        let wrong_content = look.is_some_and(|look| !look.is_right());
        self.answered = true;
        if stream.unsent.is_empty() {
            self.streams.remove(place);
        } else {
            // Nobody waits for the rest of the request.
            self.reset(place, id, Code::CANCEL);
        }
        news.push_back(Happening::Answered { slot, answer: Answer { status, received, body, stated, wrong_content } });
    }

    fn settings(&mut self, settings: Settings<'_>) -> Result<(), Error> {
        self.settled = true;
        for (setting, value) in settings.iter() {
            match setting {
                Setting::MAX_CONCURRENT_STREAMS => self.streams_max = usize::try_from(value).unwrap_or(usize::MAX),
                Setting::INITIAL_WINDOW_SIZE => {
                    let change = i64::from(value) - self.stream_window;
                    self.stream_window = i64::from(value);
                    // Section 6.9.2: it may become negative.
                    self.streams.iter().for_each(|stream| stream.window += change);
                    if self.streams.iter().any(|stream| stream.window > i64::from(WINDOW_MAX)) {
                        return Err(Error { code: Code::FLOW_CONTROL_ERROR, what: "a window became too large" });
                    }
                }
                // Frames above what everybody has to take bring nothing.
                _ => {}
            }
        }
        frame::write_settings_ack(&mut self.out);
        Ok(())
    }

    fn window_update(&mut self, id: u32, increment: u32, news: &mut News) -> Result<(), Error> {
        let most = i64::from(WINDOW_MAX);
        if id == 0 {
            self.window += i64::from(increment);
            let fits = self.window <= most;
            return if fits {
                Ok(())
            } else {
                Err(Error { code: Code::FLOW_CONTROL_ERROR, what: "the window became too large" })
            };
        }
        let Some(place) = self.find(id)? else { return Ok(()) };
        let stream = self.streams.get(place);
        stream.window += i64::from(increment);
        if stream.window > most {
            self.malformed(place, news);
        }
        Ok(())
    }

    /// The server takes no more streams, and has not looked at those above `last`: they are made again elsewhere (section 6.8).
    fn go_away(&mut self, last: u32, news: &mut News) {
        self.retired = true;
        for stream in self.streams.remove_all(|stream| stream.id > last) {
            news.push_back(Happening::Refused { slot: stream.slot });
        }
        self.refuse_waiting(news);
        let streams = &mut self.streams;
        self.bodies.retain(|place| streams.get(*place).id != 0);
    }

    /// Requests for which no stream was opened are made elsewhere.
    pub fn refuse_waiting(&mut self, news: &mut News) {
        news.extend(self.waiting.drain(..).map(|(slot, _)| Happening::Refused { slot }));
    }

    /// Opens streams and sends bodies, as far as what has come allows it now.
    fn go_on(&mut self, news: &mut News) {
        while self.streams.len() < self.streams_max
            && let Some((slot, request)) = self.waiting.pop_front()
        {
            if self.retired {
                news.push_back(Happening::Refused { slot });
                continue;
            }
            let sent = self.begin(slot, request);
            news.push_back(Happening::Sending { slot, sent });
        }
        self.prepare(&mut |slot| news.push_back(Happening::Sending { slot, sent: Sent::All }));
    }

    /// The connection is over because of this: so are its requests.
    pub fn fail(&mut self, failure: Failure, news: &mut News) {
        let under_way = self.streams.remove_all(|_| true).into_iter().map(|stream| stream.slot);
        let waiting = self.waiting.drain(..).map(|(slot, _)| slot);
        news.extend(under_way.chain(waiting).map(|slot| Happening::Failed { slot, failure }));
        self.bodies.clear();
        self.retired = true;
    }

    /// The failure of requests whose connection broke the protocol.
    pub fn breach(&self) -> Failure {
        if self.settled { Failure::Malformed } else { Failure::NotHttp2 }
    }

    /// The server has closed its side. Requests that were never sent are made again elsewhere.
    pub fn end(&mut self, news: &mut News) {
        self.retired = true;
        self.refuse_waiting(news);
        for Stream { slot, received, .. } in self.streams.remove_all(|_| true) {
            let failure = match (received, self.answered) {
                (1.., _) => Failure::Truncated,
                (0, true) => Failure::ClosedReused,
                (0, false) => Failure::NoAnswer,
            };
            news.push_back(Happening::Failed { slot, failure });
        }
        self.bodies.clear();
    }
}

/// What a field block says that matters; with its text, where that is wanted.
fn decode(decoder: &mut Decoder, block: &[u8], with_text: bool) -> Result<Head, Error> {
    let mut head = Head::default();
    let mut text = Vec::new();
    let decoded = decoder.decode(block, |name, value| match name {
        b":status" => {
            head.malformed |= head.status != 0 || value.len() != 3;
            head.status = number(value).and_then(|status| u16::try_from(status).ok()).unwrap_or(0);
            head.malformed |= !(100..1000).contains(&head.status);
            if with_text {
                text.extend_from_slice(b"HTTP/2 ");
                text.extend_from_slice(value);
                text.extend_from_slice(b"\r\n");
            }
        }
        _ => {
            if name == b"content-length" {
                let length = number(value);
                head.malformed |= length.is_none() || head.length.is_some_and(|known| Some(known) != length);
                head.length = length;
            }
            if with_text {
                [name, b": ", value, b"\r\n"].iter().for_each(|part| text.extend_from_slice(part));
            }
        }
    });
    // What is said of it is shown to people who look for the server's mistake.
    decoded.map_err(|_| Error { code: Code::COMPRESSION_ERROR, what: "a field block cannot be decoded" })?;
    if with_text {
        text.extend_from_slice(b"\r\n");
        head.text = Some(text.into());
    }
    Ok(head)
}

/// Digits and nothing else.
fn number(text: &[u8]) -> Option<u64> {
    let digit = |sum: u64, byte: &u8| {
        sum.checked_mul(10)?.checked_add(u64::from(byte.checked_sub(b'0').filter(|digit| *digit < 10)?))
    };
    if text.is_empty() { None } else { text.iter().try_fold(0, digit) }
}

#[cfg(test)]
mod tests;
