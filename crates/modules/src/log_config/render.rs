//! Writing a line: nothing is allocated, nothing is computed that was known before the request.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use manifold_engine::request::Request;
use manifold_engine::site::ServerName;
use manifold_engine::transaction::{Ending, Transaction};
use manifold_http::{find_field, write_decimal};

use super::escape::escape;
use super::format::{Clock, Format, Unit, What};

/// What a line tells of the server rather than of the request.
#[derive(Debug)]
pub(super) struct Surroundings {
    /// The zone in which times are written.
    pub zone: TimeZone,
    pub server: ServerName,
}

impl Format {
    /// Appends the line of a request, without its end.
    pub(super) fn write(&self, out: &mut Vec<u8>, transaction: &Transaction<'_>, around: &Surroundings) {
        let status = transaction.request.response.status.0;
        for item in &self.0 {
            if item.only.as_ref().is_none_or(|only| only.admits(status)) {
                write_item(out, &item.what, transaction, around);
            } else {
                out.push(b'-');
            }
        }
    }
}

fn write_item(out: &mut Vec<u8>, what: &What, transaction: &Transaction<'_>, around: &Surroundings) {
    let Transaction { request, conn, sent, .. } = transaction;
    match what {
        What::Text(text) => out.extend_from_slice(text),
        What::Client => write_address(out, request.peer.ip()),
        What::Unknown => out.push(b'-'),
        What::Time { end, clock } => {
            let at = if *end { transaction.host.wall() } else { request.turn.wall };
            write_time(out, at, clock, &around.zone);
        }
        What::Taken(unit) => {
            let taken = transaction.host.wall().saturating_sub(request.turn.wall);
            write_decimal(out, unit.of(taken));
        }
        What::RequestLine => escape_or_dash(out, Some(request.request_line()).filter(|line| !line.is_empty())),
        What::Status => write_decimal(out, u64::from(request.response.status.0)),
        What::BodyBytes { dash: true } if sent.body == 0 => out.push(b'-'),
        What::BodyBytes { .. } => write_decimal(out, sent.body),
        What::Received => write_decimal(out, request.received()),
        What::Sent => write_decimal(out, sent.total),
        What::Transferred => write_decimal(out, request.received() + sent.total),
        What::Method => escape_or_dash(out, Some(request.method_token()).filter(|method| !method.is_empty())),
        What::Path => escape(out, &request.path),
        What::Query => {
            if let Some(query) = request.query() {
                out.push(b'?');
                escape(out, query);
            }
        }
        What::Protocol => out.extend_from_slice(request.head.version().as_str().as_bytes()),
        What::Filename => escape_or_dash(out, Some(&request.filename[..]).filter(|name| !name.is_empty())),
        What::Handler => escape_or_dash(out, request.handler.as_deref().map(str::as_bytes)),
        What::RequestField(name) => escape_or_dash(out, request.field(name)),
        What::ResponseField(name) => escape_or_dash(out, response_field(request, name)),
        What::Cookie(name) => escape_or_dash(out, cookie(request, name)),
        What::KeptAlive => write_decimal(out, kept_alive(conn.kept_alive, transaction.ending)),
        What::Ending => out.push(match transaction.ending {
            Ending::Kept => b'+',
            Ending::Closed => b'-',
            Ending::Aborted => b'X',
        }),
        What::Port => write_decimal(out, u64::from(around.server.port)),
        What::ClientPort => write_decimal(out, u64::from(request.peer.port())),
        What::ServerName => escape(out, around.server.host.as_bytes()),
        What::UsedName => {
            let (host, _) = around.server.used(request);
            let start = out.len();
            escape(out, host);
            out[start..].make_ascii_lowercase();
        }
        What::Process => write_decimal(out, identity().0),
        What::Thread { hex: false } => write_decimal(out, identity().1),
        What::Thread { hex: true } => write_hex(out, identity().1),
    }
}

fn escape_or_dash(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(value) => escape(out, value),
        None => out.push(b'-'),
    }
}

/// As `Display` does, without its machinery where an address is IPv4.
fn write_address(out: &mut Vec<u8>, address: IpAddr) {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            for (index, octet) in address.octets().into_iter().enumerate() {
                if index > 0 {
                    out.push(b'.');
                }
                write_decimal(out, u64::from(octet));
            }
        }
        IpAddr::V6(address) => {
            use std::io::Write as _;
            let _infallible = write!(out, "{address}");
        }
    }
}

impl Unit {
    fn of(self, time: Duration) -> u64 {
        match self {
            Unit::Seconds => time.as_secs(),
            Unit::Milliseconds => u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            Unit::Microseconds => u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

/// `at` is the time since the Unix epoch.
fn write_time(out: &mut Vec<u8>, at: Duration, clock: &Clock, zone: &TimeZone) {
    match clock {
        Clock::Text { format, id } => write_text_time(out, at.as_secs(), format, *id, zone),
        Clock::Since(unit) => write_decimal(out, unit.of(at)),
        Clock::Fraction(unit) => {
            let digits = if *unit == Unit::Microseconds { 6 } else { 3 };
            let fraction = unit.of(Duration::from_nanos(u64::from(at.subsec_nanos())));
            let start = out.len();
            write_decimal(out, 10u64.pow(digits) + fraction);
            // The one in front has kept the zeros.
            out.remove(start);
        }
    }
}

/// Renders a second once on each thread.
fn write_text_time(out: &mut Vec<u8>, second: u64, format: &str, id: usize, zone: &TimeZone) {
    thread_local! {
        /// The second that was rendered last, and its text, for each format.
        static RENDERED: RefCell<Vec<(u64, String)>> = const { RefCell::new(Vec::new()) };
    }
    RENDERED.with_borrow_mut(|rendered| {
        if rendered.len() <= id {
            rendered.resize(id + 1, (u64::MAX, String::new()));
        }
        let (rendered_for, text) = &mut rendered[id];
        if *rendered_for != second {
            let at = i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok());
            let at = at.unwrap_or_default().to_zoned(zone.clone());
            // That the format can be rendered was seen when it was parsed.
            *text = jiff::fmt::strtime::format(format, &at).unwrap_or_default();
            *rendered_for = second;
        }
        out.extend_from_slice(text.as_bytes());
    });
}

/// A field of the answer as Apache knows it when it logs: `Date` and `Server` are not among them, and a media type is
/// without its parameters.
fn response_field<'a>(request: &'a Request, name: &str) -> Option<&'a [u8]> {
    if name.eq_ignore_ascii_case("Date") || name.eq_ignore_ascii_case("Server") {
        return None;
    }
    let value = find_field(&request.response.head, name)?;
    if name.eq_ignore_ascii_case("Content-Type") {
        return value.split(|byte| *byte == b';').next();
    }
    Some(value)
}

/// A cookie by its name in any case, as Apache's tolerant reading of `Cookie` finds it.
fn cookie<'a>(request: &'a Request, name: &str) -> Option<&'a [u8]> {
    request.field("Cookie")?.split(|byte| *byte == b';').find_map(|pair| {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let (found, value) = (pair[..equals].trim_ascii(), &pair[equals + 1..]);
        (found.eq_ignore_ascii_case(name.as_bytes()) && !value.is_empty()).then(|| value.trim_ascii())
    })
}

/// Apache counts how often it has offered to keep the connection, and shows one less.
fn kept_alive(before: u32, ending: Ending) -> u64 {
    u64::from(if ending == Ending::Kept { before } else { before.saturating_sub(1) })
}

/// The numbers of the process and of the thread, asked once a thread.
fn identity() -> (u64, u64) {
    thread_local! {
        static IDENTITY: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
    }
    IDENTITY.get().unwrap_or_else(|| {
        let thread = nix::unistd::gettid().as_raw();
        let identity = (u64::from(std::process::id()), u64::from(thread.cast_unsigned()));
        IDENTITY.set(Some(identity));
        identity
    })
}

fn write_hex(out: &mut Vec<u8>, number: u64) {
    use std::io::Write as _;
    let _infallible = write!(out, "{number:x}");
}
