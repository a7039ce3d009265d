//! From an answer to bytes: the status line, the server's own fields, the module's fields, the connection's fields and
//! the body, in Apache's order.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use manifold_http::Method;
use manifold_http::Status;
use manifold_http::Version;
use manifold_http::imf_fixdate;
use manifold_http::{Multipart, write_content_range};
use manifold_http::{write_decimal, write_field, write_status_line};

use crate::out::{OutQueue, Piece};
use crate::request::{Body, Content, Request, Resource};
use crate::site::Site;
use crate::transport::Turn;
use crate::{admit, error_page};

/// What the answer says about the connection.
#[derive(Clone, Copy, Debug)]
pub enum Connection {
    /// `Connection: close`.
    Close,
    /// It stays open and HTTP/1.1 says so by itself.
    Implied,
    /// It stays open and the client named keep-alive: `Keep-Alive: timeout=5, max=100`.
    KeepAlive {
        /// Longest wait for the next request.
        timeout: Duration,
        /// Requests that may still follow; unlimited where `None`.
        max: Option<u32>,
    },
}

/// Bytes that were queued for one answer.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Head and body.
    pub total: u64,
    /// Body alone.
    pub body: u64,
}

impl Sent {
    /// The same, had the last `unsent` bytes of the answer not been sent.
    pub fn without(self, unsent: u64) -> Sent {
        Sent { total: self.total.saturating_sub(unsent), body: self.body.saturating_sub(unsent) }
    }
}

/// A body in memory up to this many bytes is copied behind its head, so that one plain send carries both: cheaper than
/// gathering two pieces.
const COPY_MAX: usize = 2048;

/// Queues the answer of `request`.
#[inline]
pub fn enqueue(out: &mut OutQueue, request: &mut Request, connection: &Connection, site: &Site) -> Sent {
    let body = length(request, site);
    // A request without a version has no head, and neither has its answer.
    if request.head.version() == Version::Http09 {
        push_body(out, request, site);
        return Sent { total: body, body };
    }
    let tail = out.tail();
    let start = tail.len();
    write_head(tail, request, body, connection, site);
    let head = (tail.len() - start) as u64;
    if site.phases.needs_head() {
        request.response.head.extend_from_slice(&tail[start..]);
    }
    if request.method() == Method::Head {
        return Sent { total: head, body: 0 };
    }
    match small(&request.response.body) {
        Some(bytes) => tail.extend_from_slice(bytes),
        None => push_body(out, request, site),
    }
    Sent { total: head + body, body }
}

/// A body that is copied behind its head; most are.
fn small(body: &Body) -> Option<&[u8]> {
    match body {
        Body::Bytes(bytes) => Some(bytes),
        Body::Resource(resource) => match &resource.content {
            Content::Memory(bytes) if bytes.len() <= COPY_MAX => Some(bytes),
            _ => None,
        },
        _ => None,
    }
}

/// Queues the body as pieces.
fn push_body(out: &mut OutQueue, request: &Request, site: &Site) {
    match &request.response.body {
        Body::Empty | Body::Fields(_) => {}
        Body::Bytes(bytes) if bytes.is_empty() => {}
        Body::Bytes(bytes) => out.tail().extend_from_slice(bytes),
        Body::Resource(resource) => push(out, resource, 0..resource.size, site),
        Body::Part(resource, range) => push(out, resource, range.first..range.last + 1, site),
        Body::Parts(resource) => {
            let parts = multipart(request, resource, site);
            for range in &request.ranges {
                parts.write_part_head(out.tail(), *range);
                push(out, resource, range.first..range.last + 1, site);
            }
            parts.write_end(out.tail());
        }
    }
}

/// Bytes of the body, or of what it would be for a HEAD.
fn length(request: &Request, site: &Site) -> u64 {
    match &request.response.body {
        Body::Empty | Body::Fields(_) => 0,
        Body::Bytes(bytes) => bytes.len() as u64,
        Body::Resource(resource) => resource.size,
        Body::Part(_, range) => range.length(),
        Body::Parts(resource) => multipart(request, resource, site).length(&request.ranges),
    }
}

/// Queues some of a resource's bytes.
fn push(out: &mut OutQueue, resource: &Resource, range: Range<u64>, site: &Site) {
    match &resource.content {
        Content::Memory(bytes) => {
            let range = range.start as usize..range.end as usize;
            if (1..=COPY_MAX).contains(&range.len()) {
                out.tail().extend_from_slice(&bytes[range]);
            } else {
                out.push(Piece::Shared(Arc::clone(bytes), range));
            }
        }
        Content::File(file) if site.sendfile => out.push(Piece::File(Arc::clone(file), range)),
        Content::File(file) => out.push(Piece::Read(Arc::clone(file), range)),
    }
}

/// The frame of several ranges.
fn multipart<'a>(request: &'a Request, resource: &Resource, site: &Site) -> Multipart<'a> {
    let content_type = request.media_type().map(str::as_bytes);
    Multipart { boundary: site.boundary, content_type, size: resource.size }
}

/// Makes the answer for a status that no handler gave a body: Apache's page, or none where the status is a success or
/// forbids one. What a handler said of its own answer does not hold for this one.
pub fn fill_in(request: &mut Request, status: Status, site: &Site) {
    request.response.status = status;
    request.response.body = Body::Empty;
    request.response.fields.clear();
    if allows(request, status) {
        write_field(&mut request.response.fields, "Allow", admit::allowed(site));
    }
    if status.0 >= 300 && status != Status::NOT_MODIFIED {
        if !request.response.location.is_empty() {
            write_field(&mut request.response.fields, "Location", &request.response.location);
        }
        request.content_type = Some(html());
        request.response.body = Body::Bytes(error_page::page(request, status, site));
    }
}

/// Whether the answer tells the methods that would do: to those that would not, and to OPTIONS about a file.
fn allows(request: &Request, status: Status) -> bool {
    match status {
        Status::METHOD_NOT_ALLOWED | Status::NOT_IMPLEMENTED => !request.head.method_token(&request.bytes).is_empty(),
        Status::OK => request.method() == Method::Options && !request.path.is_empty(),
        _ => false,
    }
}

/// Whether nothing more is read from a client that gets this status: it may be that its requests were misunderstood, or that
/// too much follows (Apache's `ap_status_drops_connection`).
pub fn drops_connection(status: Status) -> bool {
    matches!(
        status,
        Status::BAD_REQUEST
            | Status::REQUEST_TIMEOUT
            | Status::LENGTH_REQUIRED
            | Status::REQUEST_ENTITY_TOO_LARGE
            | Status::REQUEST_URI_TOO_LONG
            | Status::INTERNAL_SERVER_ERROR
            | Status::SERVICE_UNAVAILABLE
            | Status::NOT_IMPLEMENTED
    )
}

fn html() -> Arc<str> {
    thread_local! {
        static HTML: Arc<str> = Arc::from(error_page::CONTENT_TYPE);
    }
    HTML.with(Arc::clone)
}

fn write_head(out: &mut Vec<u8>, request: &Request, length: u64, connection: &Connection, site: &Site) {
    let response = &request.response;
    write_opening(out, response.status, request.turn, site);
    if !response.fields.is_empty() {
        out.extend_from_slice(&response.fields);
    }
    match &response.body {
        // Most answers: rendered when the file was read.
        Body::Resource(resource)
            if response.status == Status::OK && accepts_ranges(site) && request.content_type.is_none() =>
        {
            if matches!(connection, Connection::Implied) {
                out.extend_from_slice(resource.whole_head());
            } else {
                out.extend_from_slice(resource.fields_of_whole());
                write_connection(out, connection);
                out.extend_from_slice(resource.type_fields());
                out.extend_from_slice(b"\r\n");
            }
        }
        _ => write_fields(out, request, length, connection, site),
    }
}

/// The fields of an answer that is not a file as a whole, and the blank line.
fn write_fields(out: &mut Vec<u8>, request: &Request, length: u64, connection: &Connection, site: &Site) {
    let response = &request.response;
    if let Some(resource) = response.body.resource() {
        if accepts_ranges(site) {
            out.extend_from_slice(resource.fields());
        } else {
            out.extend_from_slice(resource.validators());
            out.extend_from_slice(b"Accept-Ranges: none\r\n");
        }
    }
    let has_body = !response.status.is_bodiless();
    if has_body {
        out.extend_from_slice(b"Content-Length: ");
        write_decimal(out, length);
        out.extend_from_slice(b"\r\n");
    }
    if let Body::Part(resource, range) = &response.body {
        out.extend_from_slice(b"Content-Range: ");
        write_content_range(out, *range, resource.size);
        out.extend_from_slice(b"\r\n");
    }
    write_connection(out, connection);
    if let Body::Parts(resource) = &response.body {
        out.extend_from_slice(b"Content-Type: ");
        multipart(request, resource, site).write_content_type(out);
        out.extend_from_slice(b"\r\n");
    } else if let Some(media_type) = request.media_type().filter(|_| has_body) {
        out.extend_from_slice(b"Content-Type: ");
        out.extend_from_slice(media_type.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if let Some(coding) = response.body.resource().and_then(Resource::coding).filter(|_| has_body) {
        write_field(out, "Content-Encoding", coding.name().as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Whether parts of files can be asked for (`MaxRanges`).
fn accepts_ranges(site: &Site) -> bool {
    site.ranges.ranges != Some(0)
}

#[inline]
fn write_connection(out: &mut Vec<u8>, connection: &Connection) {
    match connection {
        Connection::Implied => {}
        Connection::Close => out.extend_from_slice(b"Connection: close\r\n"),
        Connection::KeepAlive { timeout, max } => {
            out.extend_from_slice(b"Keep-Alive: timeout=");
            write_decimal(out, timeout.as_secs());
            if let Some(max) = max {
                out.extend_from_slice(b", max=");
                write_decimal(out, u64::from(*max));
            }
            out.extend_from_slice(b"\r\nConnection: Keep-Alive\r\n");
        }
    }
}

/// The status line, `Date` and `Server`.
#[inline]
fn write_opening(out: &mut Vec<u8>, status: Status, turn: Turn, site: &Site) {
    thread_local! {
        static OPENING: Cell<Opening> = const { Cell::new(Opening { second: u64::MAX, bytes: [0; OPENING_LEN] }) };
    }
    let mut opening = OPENING.get();
    let second = turn.wall.as_secs();
    if opening.second != second {
        opening = Opening::of(second);
        OPENING.set(opening);
    }
    if status == Status::OK {
        out.extend_from_slice(&opening.bytes);
    } else {
        write_status_line(out, status);
        out.extend_from_slice(&opening.bytes[OK.len()..]);
    }
    out.extend_from_slice(site.server.as_bytes());
    out.extend_from_slice(b"\r\n");
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\n";
const OPENING_LEN: usize = OK.len() + "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: ".len();

/// What answers of one second with status 200 begin with; rendered once on each thread.
#[derive(Clone, Copy)]
struct Opening {
    second: u64,
    bytes: [u8; OPENING_LEN],
}

impl Opening {
    #[cold]
    fn of(second: u64) -> Opening {
        let mut bytes = [0; OPENING_LEN];
        let mut rest = &mut bytes[..];
        for part in [OK, b"Date: ", &imf_fixdate(second), b"\r\nServer: "] {
            let place;
            (place, rest) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
        }
        Opening { second, bytes }
    }
}
