//! A worker's place in the scoreboard. One thread writes it; the parent and whoever shows the status page read it.
//!
//! Status and counters are single words. What belongs together, the text of a request above all, is guarded by a sequence
//! word: odd while it is being written. A reader that meets a change tries again, so that it never shows the beginning
//! of one request and the end of another.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use manifold_engine::serve::Conn;
use manifold_engine::status::Step;
use manifold_engine::transport::Activity;

use super::Place;

/// Words of a worker slot: five cache lines. What is written for each request without `ExtendedStatus` is all in the first.
pub(super) const WORKER_WORDS: usize = 40;

/// Bytes of a request line that are kept.
pub const REQUEST_BYTES: usize = 64;
/// Bytes of a host's name that are kept.
pub const VHOST_BYTES: usize = 32;
/// Bytes of a protocol's name that are kept.
pub const PROTOCOL_BYTES: usize = 16;

/// A reader gives up after so many changes under its eyes; the row is shown without its request then.
const READS_MAX: usize = 100;

/// What a worker is doing: Apache's scoreboard letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// `.`: no such thread.
    Dead,
    /// `S`: starting up.
    Starting,
    /// `G`: finishing gracefully.
    Graceful,
    /// Serving or ready to.
    Doing(Activity),
}

impl Status {
    /// The letter of `mod_status`.
    pub fn letter(self) -> u8 {
        match self {
            Status::Dead => b'.',
            Status::Starting => b'S',
            Status::Graceful => b'G',
            Status::Doing(activity) => activity.letter(),
        }
    }

    /// The same in finer steps.
    pub fn step(self) -> Step {
        match self {
            Status::Dead => Step::Dead,
            Status::Starting => Step::Starting,
            Status::Graceful => Step::Closing,
            Status::Doing(activity) => activity.step(),
        }
    }

    /// Whether the spare management counts the worker as idle: one that starts is not yet busy, so that the parent does
    /// not pile on.
    pub fn is_idle(self) -> bool {
        matches!(self, Status::Starting | Status::Doing(Activity::Ready))
    }

    /// Memory starts as zeros: nobody is there.
    fn to_word(self) -> u64 {
        match self {
            Status::Dead => 0,
            Status::Starting => 1,
            Status::Graceful => 2,
            Status::Doing(activity) => DOING + activity as u64,
        }
    }

    fn from_word(word: u64) -> Status {
        match word {
            1 => Status::Starting,
            2 => Status::Graceful,
            DOING.. => {
                Activity::ALL.get((word - DOING) as usize).map_or(Status::Dead, |activity| Status::Doing(*activity))
            }
            _ => Status::Dead,
        }
    }
}

/// Words from here on are activities.
const DOING: u64 = 3;

/// A worker in the scoreboard: a thread, or a whole process in prefork.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSlot<'a> {
    pub(super) words: &'a [AtomicU64],
}

/// What a worker tells of its current or last request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// When reading began or, from then on, when the head was complete; microseconds since the Unix epoch.
    pub began_us: u64,
    /// When the last answer was finished, the same.
    pub last_used_us: u64,
    /// How long the last request took, in microseconds.
    pub last_duration_us: u64,
    /// Requests and bytes of the connection.
    pub connection: (u64, u64),
    /// The client; `None` where there was none yet.
    pub client: Option<IpAddr>,
    /// The request line, or as much of it as is kept.
    pub request: Vec<u8>,
    /// The host that was asked.
    pub vhost: Vec<u8>,
    /// Such as `http/1.1`.
    pub protocol: Vec<u8>,
}

/// What [`WorkerSlot::began`] keeps.
#[derive(Clone, Copy, Debug)]
pub struct Began<'a> {
    /// When its head was complete, since the Unix epoch.
    pub at: Duration,
    /// The request line.
    pub request: &'a [u8],
    /// Whether its end is kept where it is too long (`SeeRequestTail`), or its beginning.
    pub tail: bool,
    /// The host that is asked.
    pub vhost: &'a [u8],
    /// Such as `http/1.1`.
    pub protocol: &'static str,
}

impl WorkerSlot<'_> {
    const STATUS: usize = 0;
    const REQUESTS: usize = 1;
    const BYTES: usize = 2;
    const CONNECTIONS: usize = 3;
    const DURATION: usize = 4;
    /// Connections that this worker put into each [`Place`] less those that it took from there; the places that few requests see
    /// in the fifth line.
    const PLACES: [usize; 5] = [5, 6, 7, 32, 33];
    const SEQUENCE: usize = 8;
    const BEGAN: usize = 9;
    const LAST_USED: usize = 10;
    const LAST_DURATION: usize = 11;
    const CONNECTION_REQUESTS: usize = 12;
    const CONNECTION_BYTES: usize = 13;
    /// From the lowest byte: length of the request, of the vhost, of the protocol; 4 or 6 for the client's address.
    const LENGTHS: usize = 14;
    const CLIENT: usize = 15;
    const REQUEST: usize = 17;
    const VHOST: usize = 25;
    const PROTOCOL: usize = 29;
    const TID: usize = 34;
    /// Requests and bytes when the present process began: what it has done itself is the difference.
    const REQUESTS_BEFORE: usize = 35;
    const BYTES_BEFORE: usize = 36;

    /// What the worker is doing.
    pub fn status(&self) -> Status {
        Status::from_word(self.load(Self::STATUS))
    }

    /// Tells what the worker is doing.
    pub fn set_status(&self, status: Status) {
        self.store(Self::STATUS, status.to_word());
    }

    /// For a worker that is idle while its process begins to drain; called by another thread. A worker that takes something
    /// up in that moment is not overruled.
    pub fn set_graceful_if_ready(&self) {
        let (ready, graceful) = (Status::Doing(Activity::Ready).to_word(), Status::Graceful.to_word());
        let word = &self.words[Self::STATUS];
        let _busy_ones_tell_later = word.compare_exchange(ready, graceful, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Takes the slot for a worker of a process that has just begun: it is ready, and nothing is left of another's request.
    pub fn begin(&self) {
        self.store(Self::REQUESTS_BEFORE, self.requests());
        self.store(Self::BYTES_BEFORE, self.bytes());
        self.store(Self::TID, 0);
        self.write(|slot| {
            for word in [Self::BEGAN, Self::LENGTHS, Self::CONNECTION_REQUESTS, Self::CONNECTION_BYTES] {
                slot.store(word, 0);
            }
        });
        self.set_status(Status::Doing(Activity::Ready));
    }

    /// Notes which thread works here.
    pub fn set_tid(&self, tid: i32) {
        self.store(Self::TID, tid as u64);
    }

    /// The thread that works here; 0 where it is not known.
    pub fn tid(&self) -> i32 {
        self.load(Self::TID) as i32
    }

    /// Counts one answered request of `bytes` bytes.
    pub fn count_request(&self, bytes: u64) {
        self.add(Self::REQUESTS, 1);
        self.add(Self::BYTES, bytes);
    }

    /// Counts one accepted connection.
    pub fn count_connection(&self) {
        self.add(Self::CONNECTIONS, 1);
    }

    /// Moves a connection from one place to another. Each of a process' workers counts what it does itself, without heed of
    /// the others: the numbers of connections are the sums over all workers.
    pub fn shift(&self, from: Place, to: Place) {
        super::shift(self.words, &Self::PLACES, from, to);
    }

    /// This worker's part of a place's number.
    pub(super) fn counted(&self, place: Place) -> i64 {
        self.load(Self::PLACES[place as usize]) as i64
    }

    pub(super) fn clear_places(&self) {
        Self::PLACES.iter().for_each(|word| self.store(*word, 0));
    }

    /// Notes that a request of `conn` is read from `at` on, since the Unix epoch.
    pub fn reading(&self, conn: &Conn, at: Duration) {
        self.write(|slot| {
            slot.store(Self::BEGAN, microseconds(at));
            let family = match conn.peer.ip() {
                IpAddr::V4(ip) => {
                    slot.store(Self::CLIENT, u64::from(ip.to_bits()));
                    4
                }
                IpAddr::V6(ip) => {
                    let bits = ip.to_bits();
                    slot.store(Self::CLIENT, bits as u64);
                    slot.store(Self::CLIENT + 1, (bits >> 64) as u64);
                    6
                }
            };
            slot.store(Self::LENGTHS, family << 24);
            slot.store(Self::CONNECTION_REQUESTS, u64::from(conn.kept_alive));
            slot.store(Self::CONNECTION_BYTES, conn.sent);
        });
    }

    /// Notes a request whose head is complete. The client stays as [`reading`](Self::reading) noted it.
    pub fn began(&self, began: &Began<'_>) {
        let cut = began.request.len().saturating_sub(REQUEST_BYTES);
        let request = if began.tail { &began.request[cut..] } else { began.request };
        self.write(|slot| {
            slot.store(Self::BEGAN, microseconds(began.at));
            let request = slot.store_text(Self::REQUEST, REQUEST_BYTES, request);
            let vhost = slot.store_text(Self::VHOST, VHOST_BYTES, began.vhost);
            let protocol = slot.store_text(Self::PROTOCOL, PROTOCOL_BYTES, began.protocol.as_bytes());
            let family = slot.load(Self::LENGTHS) & 0xff << 24;
            slot.store(Self::LENGTHS, family | protocol << 16 | vhost << 8 | request);
        });
    }

    /// Notes that a request of `conn` that began at `began` was answered at `at`, both since the Unix epoch.
    pub fn finished(&self, conn: &Conn, began: Duration, at: Duration) {
        let duration = microseconds(at).saturating_sub(microseconds(began));
        self.add(Self::DURATION, duration);
        self.write(|slot| {
            slot.store(Self::LAST_USED, microseconds(at));
            slot.store(Self::LAST_DURATION, duration);
            slot.store(Self::CONNECTION_REQUESTS, u64::from(conn.kept_alive) + 1);
            slot.store(Self::CONNECTION_BYTES, conn.sent);
        });
    }

    /// Requests answered by this slot's occupants.
    pub fn requests(&self) -> u64 {
        self.load(Self::REQUESTS)
    }

    /// Bytes sent by this slot's occupants.
    pub fn bytes(&self) -> u64 {
        self.load(Self::BYTES)
    }

    /// Connections accepted by this slot's occupants.
    pub fn connections(&self) -> u64 {
        self.load(Self::CONNECTIONS)
    }

    /// Time spent on requests by this slot's occupants, in microseconds.
    pub fn duration_us(&self) -> u64 {
        self.load(Self::DURATION)
    }

    /// Requests and bytes of the present or last occupant.
    pub fn own(&self) -> (u64, u64) {
        let requests = self.requests().saturating_sub(self.load(Self::REQUESTS_BEFORE));
        (requests, self.bytes().saturating_sub(self.load(Self::BYTES_BEFORE)))
    }

    /// What the worker tells of its request; `None` while it changes too often to be read, or where its thread was killed as
    /// it wrote.
    pub fn details(&self) -> Option<Details> {
        (0..READS_MAX).find_map(|_| {
            let before = self.words[Self::SEQUENCE].load(Ordering::Acquire);
            let details = self.read();
            fence(Ordering::Acquire);
            (before.is_multiple_of(2) && self.load(Self::SEQUENCE) == before).then_some(details)
        })
    }

    fn read(&self) -> Details {
        let lengths = self.load(Self::LENGTHS).to_le_bytes();
        let client = match lengths[3] {
            4 => Some(IpAddr::V4(Ipv4Addr::from_bits(self.load(Self::CLIENT) as u32))),
            6 => {
                let bits = u128::from(self.load(Self::CLIENT + 1)) << 64 | u128::from(self.load(Self::CLIENT));
                Some(IpAddr::V6(Ipv6Addr::from_bits(bits)).to_canonical())
            }
            _ => None,
        };
        Details {
            began_us: self.load(Self::BEGAN),
            last_used_us: self.load(Self::LAST_USED),
            last_duration_us: self.load(Self::LAST_DURATION),
            connection: (self.load(Self::CONNECTION_REQUESTS), self.load(Self::CONNECTION_BYTES)),
            client,
            request: self.load_text(Self::REQUEST, REQUEST_BYTES, lengths[0]),
            vhost: self.load_text(Self::VHOST, VHOST_BYTES, lengths[1]),
            protocol: self.load_text(Self::PROTOCOL, PROTOCOL_BYTES, lengths[2]),
        }
    }

    /// Changes what belongs together. A writer that was killed on the way has left the sequence odd; the next one goes on
    /// from there.
    fn write(&self, change: impl FnOnce(&Self)) {
        let odd = self.load(Self::SEQUENCE) | 1;
        self.store(Self::SEQUENCE, odd);
        fence(Ordering::Release);
        change(self);
        self.words[Self::SEQUENCE].store(odd.wrapping_add(1), Ordering::Release);
    }

    /// Stores the beginning of `text`; returns how many bytes that is.
    fn store_text(&self, first: usize, bytes: usize, text: &[u8]) -> u64 {
        let text = &text[..text.len().min(bytes)];
        let (whole, rest) = text.as_chunks::<8>();
        let words = &self.words[first..first + bytes / 8];
        for (word, chunk) in words.iter().zip(whole) {
            word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let last = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            words[whole.len()].store(last, Ordering::Relaxed);
        }
        text.len() as u64
    }

    fn load_text(&self, first: usize, bytes: usize, length: u8) -> Vec<u8> {
        let words = &self.words[first..first + bytes / 8];
        let mut text: Vec<u8> = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        text.truncate(usize::from(length));
        text
    }

    fn load(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Relaxed)
    }

    fn store(&self, word: usize, value: u64) {
        self.words[word].store(value, Ordering::Relaxed);
    }

    /// One writer at a time: a load and a store are exact, and cheaper than a locked addition.
    fn add(&self, word: usize, n: u64) {
        self.store(word, self.load(word).wrapping_add(n));
    }
}

fn microseconds(time: Duration) -> u64 {
    time.as_secs() * 1_000_000 + u64::from(time.subsec_micros())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::scoreboard::Scoreboard;

    const AT: Duration = Duration::from_micros(1_700_000_000_123_456);

    fn began<'a>(request: &'a [u8], vhost: &'a [u8], tail: bool) -> Began<'a> {
        Began { at: AT, request, tail, vhost, protocol: "http/1.1" }
    }

    fn conn(peer: &str) -> Conn {
        Conn::new(format!("{peer}:1234").parse().unwrap())
    }

    #[test]
    fn every_status_is_read_back() {
        let board = Scoreboard::new(1, 1).unwrap();
        let slot = board.worker(0, 0);
        assert_eq!(slot.status(), Status::Dead);
        let doing = Activity::ALL.map(Status::Doing);
        for status in [Status::Dead, Status::Starting, Status::Graceful].into_iter().chain(doing) {
            slot.set_status(status);
            assert_eq!(slot.status(), status);
        }
        let letters: Vec<u8> = Activity::ALL.iter().map(|activity| activity.letter()).collect();
        assert_eq!(String::from_utf8(letters).unwrap(), "_RRWWKCL");
    }

    #[test]
    fn text_is_cut_at_either_end_and_nothing_is_left_of_what_stood_there() {
        let board = Scoreboard::new(1, 1).unwrap();
        let slot = board.worker(0, 0);
        let long: Vec<u8> = (b'0'..=b'z').collect();
        let check = |request: &[u8], tail, expected: &[u8]| {
            slot.began(&began(request, b"www.example.org:8080", tail));
            let details = slot.details().unwrap();
            assert_eq!(details.request.escape_ascii().to_string(), expected.escape_ascii().to_string());
            assert_eq!(
                (details.vhost.as_slice(), details.protocol.as_slice()),
                (&b"www.example.org:8080"[..], &b"http/1.1"[..])
            );
        };
        check(&long, false, &long[..64]);
        check(&long, true, &long[11..]);
        check(b"GET / HTTP/1.1", true, b"GET / HTTP/1.1");
        check(b"\xff\0", false, b"\xff\0");
        check(b"", false, b"");
        check(&long[..64], true, &long[..64]);
        slot.began(&began(b"GET /", &[b'v'; 200], false));
        assert_eq!(slot.details().unwrap().vhost, [b'v'; 32]);
        slot.reading(&conn("127.0.0.1"), AT);
        let details = slot.details().unwrap();
        assert_eq!((details.request, details.vhost, details.protocol), (vec![], vec![], vec![]));
    }

    #[test]
    fn a_client_of_either_family_is_read_back() {
        let board = Scoreboard::new(1, 1).unwrap();
        let slot = board.worker(0, 0);
        assert_eq!(slot.details().unwrap(), Details::default());
        for (peer, shown) in
            [("192.0.2.255", "192.0.2.255"), ("[2001:db8::f:1]", "2001:db8::f:1"), ("[::ffff:192.0.2.7]", "192.0.2.7")]
        {
            slot.reading(&conn(peer), AT);
            slot.began(&began(b"GET /", b"", false));
            assert_eq!(slot.details().unwrap().client.unwrap().to_string(), shown);
        }
    }

    #[test]
    fn requests_are_counted_for_connection_process_and_slot() {
        let board = Scoreboard::new(1, 1).unwrap();
        let slot = board.worker(0, 0);
        slot.begin();
        slot.count_request(500);
        let mut conn = conn("127.0.0.1");
        (conn.kept_alive, conn.sent) = (2, 1500);
        slot.finished(&conn, AT, AT + Duration::from_micros(42));
        let details = slot.details().unwrap();
        assert_eq!((details.connection, details.last_duration_us, slot.own()), ((3, 1500), 42, (1, 500)));
        slot.begin();
        slot.count_request(7);
        assert_eq!((slot.own(), slot.requests(), slot.bytes(), slot.duration_us()), ((1, 7), 2, 507, 42));
        // A clock that was set back.
        slot.finished(&conn, AT, AT - Duration::from_secs(1));
        assert_eq!((slot.duration_us(), slot.details().unwrap().last_duration_us), (42, 0));
    }

    #[test]
    fn a_reader_never_sees_halves_of_two_requests() {
        let board = Scoreboard::new(1, 1).unwrap();
        let done = AtomicBool::new(false);
        let lines: Vec<[u8; 64]> = (b'a'..=b'z').map(|letter| [letter; 64]).collect();
        let torn = |details: &Details| {
            let all = details.request.iter().chain(&details.vhost);
            !details.request.is_empty() && all.clone().any(|byte| *byte != details.request[0])
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let slot = board.worker(0, 0);
                while !done.load(Ordering::Relaxed) {
                    for line in &lines {
                        slot.began(&began(line, &line[..32], false));
                    }
                }
            });
            let slot = board.worker(0, 0);
            // The test is of no use unless it met a writer at work.
            let (mut seen, mut met) = (0, 0);
            while seen < 10_000 || met == 0 {
                if slot.load(WorkerSlot::SEQUENCE) % 2 == 1 {
                    met += 1;
                }
                if let Some(details) = slot.details() {
                    seen += 1;
                    if torn(&details) {
                        done.store(true, Ordering::Relaxed);
                        panic!("{details:?}");
                    }
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_row_whose_writer_was_killed_is_given_up_until_the_next_one_comes() {
        let board = Scoreboard::new(1, 1).unwrap();
        let slot = board.worker(0, 0);
        slot.store(WorkerSlot::SEQUENCE, 7);
        assert_eq!(slot.details(), None);
        slot.begin();
        assert_eq!(slot.details(), Some(Details::default()));
    }
}
