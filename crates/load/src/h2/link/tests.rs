//! Servers as bytes, cut in every way; what becomes of the requests does not depend on it.

use std::sync::Arc;

use manifold_http::h2::encode_field;
use manifold_http::h2::frame::{
    Head as FrameHead, flag, kind, write_data, write_go_away, write_headers, write_reset, write_settings,
    write_window_update,
};

use super::*;
use crate::content::Expected;
use crate::h2::request::translate;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// What a server sends.
#[derive(Default)]
struct Server(Vec<u8>);

impl Server {
    /// One that has greeted.
    fn new() -> Server {
        Server::default().settings(&[])
    }

    fn settings(mut self, settings: &[(Setting, u32)]) -> Server {
        write_settings(&mut self.0, settings);
        self
    }

    fn head(mut self, stream: u32, fields: &[(&str, &str)], end: bool) -> Server {
        let mut block = Vec::new();
        fields.iter().for_each(|(name, value)| encode_field(&mut block, name.as_bytes(), value.as_bytes()));
        write_headers(&mut self.0, stream, &block, end);
        self
    }

    fn data(mut self, stream: u32, bytes: &[u8], end: bool) -> Server {
        write_data(&mut self.0, stream, bytes, end);
        self
    }

    fn answer(self, stream: u32) -> Server {
        self.head(stream, &[(":status", "200"), ("content-length", "5")], false).data(stream, b"hello", true)
    }

    fn reset(mut self, stream: u32, code: Code) -> Server {
        write_reset(&mut self.0, stream, code);
        self
    }

    fn go_away(mut self, last: u32) -> Server {
        write_go_away(&mut self.0, last, Code::NO_ERROR);
        self
    }

    fn window(mut self, stream: u32, increment: u32) -> Server {
        write_window_update(&mut self.0, stream, increment);
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Server {
        self.0.extend_from_slice(bytes);
        self
    }
}

/// What became of so many requests on a connection, the beginnings of answers left out; then the connection ends.
fn live(requests: usize, server: &[u8], cuts: &[usize]) -> Vec<String> {
    let request = translate(GET, "http");
    let mut link = Link::new(false);
    (0..requests).for_each(|slot| assert!(matches!(link.open(slot, &request), Sent::All | Sent::Part(0))));
    let mut news = News::new();
    let mut start = 0;
    let mut broken = None;
    for end in cuts.iter().copied().chain([server.len()]) {
        if let Err(error) = link.receive(&server[start..end], &mut news) {
            let failure = link.breach();
            link.fail(failure, &mut news);
            broken = Some(error.what);
            break;
        }
        start = end;
    }
    link.end(&mut news);
    assert!(!link.is_usable() && link.is_idle(), "it has ended");
    let told = news.into_iter().filter(|news| !matches!(news, Happening::Begun { .. }));
    told.map(|news| say(&news)).chain(broken.map(str::to_owned)).collect()
}

fn say(news: &Happening<'_>) -> String {
    match news {
        Happening::Answered { slot, answer: Answer { status, received, body, stated, .. } } => {
            format!("{slot}: {status}, {body} of {stated:?} in {received}")
        }
        Happening::Failed { slot, failure } => format!("{slot}: {failure:?}"),
        Happening::Refused { slot } => format!("{slot}: again"),
        Happening::Sending { slot, sent } => format!("{slot}: sent {sent:?}"),
        other => format!("{other:?}"),
    }
}

fn check(requests: usize, server: &Server, expected: &[&str]) {
    let bytes = &server.0;
    assert_eq!(live(requests, bytes, &[]), expected, "whole");
    assert_eq!(live(requests, bytes, &(1..bytes.len()).collect::<Vec<_>>()), expected, "byte by byte");
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..50 {
        let mut cuts = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            // xorshift64, so that a failure can be repeated.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            at = (at + 1 + (state % 40) as usize).min(bytes.len());
            cuts.push(at);
        }
        assert_eq!(live(requests, bytes, &cuts), expected, "{cuts:?}");
    }
}

#[test]
fn answers_are_complete_when_their_streams_end() {
    check(1, &Server::new().answer(1), &["0: 200, 5 of Some(5) in 28"]);
    check(1, &Server::new().head(1, &[(":status", "204")], true), &["0: 204, 0 of None in 10"]);
    let interim = Server::new().head(1, &[(":status", "103"), ("link", "x")], false).answer(1);
    check(1, &interim, &["0: 200, 5 of Some(5) in 46"]);
    let trailers = Server::new().head(1, &[(":status", "200")], false).data(1, b"hi", false);
    check(1, &trailers.head(1, &[("x-sum", "1")], true), &["0: 200, 2 of None in 39"]);
    // In another order than asked for, and mixed.
    let mixed = Server::new().head(3, &[(":status", "200")], false).head(1, &[(":status", "404")], false);
    let mixed = mixed.data(3, b"ab", false).data(1, b"c", true).data(3, b"d", true);
    check(2, &mixed, &["0: 404, 1 of None in 20", "1: 200, 3 of None in 31"]);
    // Padding belongs to the frame and not to the body.
    let padded = FrameHead { length: 5, kind: kind::DATA, flags: flag::PADDED | flag::END_STREAM, stream: 1 }.bytes();
    let padded = Server::new().head(1, &[(":status", "200")], false).raw(&padded).raw(b"\x02hi\0\0");
    check(1, &padded, &["0: 200, 2 of None in 24"]);
    // What comes on a stream that has been closed is passed over.
    check(
        1,
        &Server::new().answer(1).reset(1, Code::NO_ERROR).window(1, 5).data(1, b"late", true),
        &["0: 200, 5 of Some(5) in 28"],
    );
}

#[test]
fn what_is_no_answer_fails_its_stream_alone() {
    let other = "1: 200, 5 of Some(5) in 28";
    for broken in [
        Server::new().head(1, &[("content-length", "5")], true),
        Server::new().head(1, &[(":status", "20")], true),
        Server::new().head(1, &[(":status", "200"), (":status", "200")], true),
        Server::new().head(1, &[(":status", "101")], false),
        Server::new().head(1, &[(":status", "103")], true),
        Server::new().head(1, &[(":status", "200"), ("content-length", "5 ")], true),
        Server::new().head(1, &[(":status", "200"), ("content-length", "5"), ("content-length", "6")], true),
        Server::new().data(1, b"x", true),
        Server::new().head(1, &[(":status", "200")], false).head(1, &[(":status", "200")], true),
        Server::new().head(1, &[(":status", "200")], false).head(1, &[("x", "y")], false),
        Server::new().window(1, WINDOW_MAX).window(1, WINDOW_MAX),
    ] {
        check(2, &broken.answer(3), &["0: Malformed", other]);
    }
    check(2, &Server::new().reset(1, Code::CANCEL).answer(3), &["0: StreamReset", other]);
    check(2, &Server::new().reset(1, Code::REFUSED_STREAM).answer(3), &["0: again", other]);
}

#[test]
fn a_server_that_goes_away_loses_no_request() {
    check(
        3,
        &Server::new().go_away(3).answer(1).answer(3),
        &["2: again", "0: 200, 5 of Some(5) in 28", "1: 200, 5 of Some(5) in 28"],
    );
    // First the warning, then the truth.
    let twice = Server::new().go_away(WINDOW_MAX).answer(1).go_away(1);
    check(2, &twice, &["0: 200, 5 of Some(5) in 28", "1: again"]);
}

#[test]
fn the_end_of_the_connection_is_told_by_what_had_come() {
    check(2, &Server::new(), &["0: NoAnswer", "1: NoAnswer"]);
    check(2, &Server::new().answer(1), &["0: 200, 5 of Some(5) in 28", "1: ClosedReused"]);
    check(1, &Server::new().head(1, &[(":status", "200")], false), &["0: Truncated"]);
}

#[test]
fn a_server_that_breaks_the_protocol_is_left() {
    let http1 = Server::default().raw(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    check(1, &http1, &["0: NotHttp2", "a frame is longer than allowed"]);
    let early = Server::default().answer(1);
    check(1, &early, &["0: NotHttp2", "the server's first frame is not SETTINGS"]);
    for id in [2, 5] {
        let unknown = Server::new().answer(id);
        check(2, &unknown, &["0: Malformed", "1: Malformed", "a frame belongs to a stream that was never opened"]);
    }
    let block = FrameHead { length: 1, kind: kind::HEADERS, flags: flag::END_HEADERS, stream: 1 }.bytes();
    check(1, &Server::new().raw(&block).raw(b"\xff"), &["0: Malformed", "a field block cannot be decoded"]);
    let window = Server::new().window(0, WINDOW_MAX);
    check(1, &window, &["0: Malformed", "the window became too large"]);
}

#[test]
fn no_more_streams_are_opened_than_the_server_takes() {
    let one = Server::default().settings(&[(Setting::MAX_CONCURRENT_STREAMS, 1)]);
    // Requests that were sent before the server had said so are its own to refuse; here it takes them.
    let mut link = Link::new(false);
    let (mut news, request) = (News::new(), translate(GET, "http"));
    link.receive(&one.0, &mut news).unwrap();
    assert_eq!([0, 1, 2].map(|slot| link.open(slot, &request)), [Sent::All, Sent::Part(0), Sent::Part(0)]);
    assert_eq!(link.progress(), [(0, Sent::All), (1, Sent::Part(0)), (2, Sent::Part(0))]);
    link.cancel(1);
    link.receive(&Server::default().answer(1).0, &mut news).unwrap();
    let told: Vec<String> = news.drain(..).map(|news| say(&news)).collect();
    assert_eq!(told[told.len() - 2..], ["0: 200, 5 of Some(5) in 28", "2: sent All"]);
    link.end(&mut news);
    assert_eq!(news.iter().map(say).collect::<Vec<_>>(), ["2: ClosedReused"]);
}

/// What a connection has sent: bytes of bodies by stream, and the kinds of all frames.
fn sent(out: &[u8]) -> (Vec<(u32, usize, bool)>, Vec<u8>) {
    let (mut bodies, mut kinds) = (Vec::new(), Vec::new());
    let mut rest = out.strip_prefix(PREFACE.as_slice()).unwrap_or(out);
    while let Some(bytes) = rest.first_chunk() {
        let head = FrameHead::parse(bytes);
        if head.kind == kind::DATA {
            bodies.push((head.stream, head.length, head.flags & flag::END_STREAM != 0));
        }
        kinds.push(head.kind);
        rest = &rest[9 + head.length..];
    }
    (bodies, kinds)
}

#[test]
fn bodies_are_sent_as_the_windows_allow() {
    let mut request = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 40000\r\n\r\n".to_vec();
    request.extend([b'x'; 40_000]);
    let request = translate(&request, "http");
    let mut link = Link::new(false);
    let mut news = News::new();
    let bodies = |link: &mut Link<'_>| sent(&std::mem::take(&mut link.out)).0;
    assert!(matches!(link.open(0, &request), Sent::All));
    assert_eq!(bodies(&mut link), [(1, 16_384, false), (1, 16_384, false), (1, 7_232, true)]);
    // 25,535 are left of the connection's window.
    assert!(matches!(link.open(1, &request), Sent::Part(_)));
    assert_eq!(bodies(&mut link), [(3, 16_384, false), (3, 9_151, false)]);
    link.receive(&Server::new().window(0, 1000).0, &mut news).unwrap();
    assert_eq!(bodies(&mut link), [(3, 1000, false)]);
    // Room on the connection, and none on the stream: what its window shrank by has to come back first.
    let shrunk = Server::default().settings(&[(Setting::INITIAL_WINDOW_SIZE, 0)]).window(0, 100_000).window(3, 26_535);
    link.receive(&shrunk.0, &mut news).unwrap();
    assert_eq!(bodies(&mut link), []);
    link.receive(&Server::default().window(3, 13_464).0, &mut news).unwrap();
    assert_eq!(bodies(&mut link), [(3, 13_464, false)]);
    assert!(news.is_empty());
    link.receive(&Server::default().window(3, 1).0, &mut news).unwrap();
    assert_eq!(bodies(&mut link), [(3, 1, true)]);
    assert_eq!(news.iter().map(say).collect::<Vec<_>>(), ["1: sent All"]);
    // An answer before the end of its request: nobody waits for the rest.
    link.open(2, &request);
    link.out.clear();
    link.receive(&Server::default().answer(5).0, &mut news).unwrap();
    assert_eq!(sent(&link.out).1, [kind::RST_STREAM]);
}

#[test]
fn the_server_is_answered_and_told_that_it_may_go_on() {
    let mut link = Link::new(false);
    let mut news = News::new();
    assert_eq!(sent(&std::mem::take(&mut link.out)).1, [kind::SETTINGS, kind::WINDOW_UPDATE]);
    let ping = FrameHead { length: 8, kind: kind::PING, flags: 0, stream: 0 }.bytes();
    link.receive(&Server::new().raw(&ping).raw(b"12345678").0, &mut news).unwrap();
    assert!(link.out.ends_with(b"\x01\0\0\0\x0012345678"));
    assert_eq!(sent(&std::mem::take(&mut link.out)).1, [kind::SETTINGS, kind::PING]);
    link.announce(ANNOUNCE_BYTES - 1);
    assert!(link.out.is_empty());
    link.announce(2);
    assert_eq!(link.out[..4], [0, 0, 4, kind::WINDOW_UPDATE]);
    assert_eq!(link.out[9..], (ANNOUNCE_BYTES + 1).to_be_bytes());
    // A server that lets us write without end.
    let pings = Server::default().raw(&[&ping[..], b"12345678"].concat().repeat(1 + OUT_BYTES_MAX / 17));
    let error = link.receive(&pings.0, &mut news).unwrap_err();
    assert_eq!(error.code, Code::ENHANCE_YOUR_CALM);
}

#[test]
fn a_connection_that_says_nothing_while_a_request_waits_is_left() {
    let request = translate(GET, "http");
    let mut link = Link::new(false);
    let mut news = News::new();
    link.receive(&Server::new().0, &mut news).unwrap();
    link.open(0, &request);
    link.open(1, &request);
    link.receive(&Server::default().answer(1).0, &mut news).unwrap();
    link.out.clear();
    link.cancel(1);
    assert!(link.is_usable(), "it has answered another one");
    assert_eq!(sent(&link.out).1, [kind::RST_STREAM]);
    link.open(2, &request);
    link.cancel(2);
    assert!(!link.is_usable() && link.is_idle());
}

#[test]
fn heads_are_written_as_in_http1_where_they_are_wanted() {
    let request = translate(GET, "http");
    let mut link = Link::new(true);
    let mut news = News::new();
    link.open(0, &request);
    link.receive(&Server::new().answer(1).0, &mut news).unwrap();
    let Some(Happening::Begun { slot: 0, head: Some((200, text)) }) = news.pop_front() else { panic!("{news:?}") };
    assert_eq!(&text[..], b"HTTP/2 200\r\ncontent-length: 5\r\n\r\n");
    assert!(matches!(news.pop_front(), Some(Happening::Answered { .. })));
}

/// A look at bodies that have to be `hello`.
fn look() -> Option<Box<Look>> {
    let contains = Some(memchr::memmem::Finder::new("hello"));
    Some(Box::new(Look::new(&Arc::new(Expected { contains, ..Expected::default() }))))
}

/// Whether the answers of slots 0 to 2 are right, whose bodies come in pieces and in turn; slot 1 expects nothing, and 3 nothing any more.
#[test]
fn bodies_are_looked_at_by_their_streams() {
    let request = translate(GET, "http");
    let mut link = Link::new(false);
    link.expect(3, look());
    link.open(3, &request);
    link.cancel(3);
    for slot in 0..4 {
        link.expect(slot, look().filter(|_| slot % 2 == 0));
        link.open(slot, &request);
    }
    let ok = [(":status", "200")];
    let server = Server::new().head(3, &ok, false).head(5, &ok, false).head(7, &ok, false).head(9, &ok, false);
    let server = server.data(3, b"hel", false).data(7, b"hel", false).data(5, b"x", true).data(3, b"lo", true);
    let server = server.data(7, b"l0", true).data(9, b"y", true);
    let mut news = News::new();
    link.receive(&server.0, &mut news).expect("it keeps to the protocol");
    let judged = news.iter().filter_map(|news| match news {
        Happening::Answered { slot, answer } => Some((*slot, answer.wrong_content)),
        _ => None,
    });
    assert_eq!(judged.collect::<Vec<_>>(), [(1, false), (0, false), (2, true), (3, false)]);
}
