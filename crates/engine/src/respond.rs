//! From an answer to bytes: the status line, the server's own fields, the module's fields, the connection's fields and
//! the body, in Apache's order.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use manifold_http::Method;
use manifold_http::Status;
use manifold_http::Version;
use manifold_http::imf_fixdate;
use manifold_http::{write_decimal, write_field, write_status_line};

use crate::out::{OutQueue, Piece};
use crate::request::{Body, Content, Request};
use crate::site::Site;
use crate::transport::Turn;

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

/// A body in memory up to this many bytes is copied behind its head, so that one plain send carries both: cheaper than
/// gathering two pieces.
const COPY_MAX: usize = 2048;

/// Queues the answer of `request`.
pub fn enqueue(out: &mut OutQueue, request: &Request, connection: &Connection, site: &Site) -> Sent {
    let tail = out.tail();
    let start = tail.len();
    // A request without a version has no head, and neither has its answer.
    if request.head.version() != Version::Http09 {
        write_head(tail, request, connection, site);
    }
    let head = (tail.len() - start) as u64;
    if request.method() == Method::Head {
        return Sent { total: head, body: 0 };
    }
    let body = request.response.body.len();
    match &request.response.body {
        Body::Empty => {}
        Body::Bytes(bytes) => tail.extend_from_slice(bytes),
        Body::Resource(resource) => match &resource.content {
            Content::Memory(bytes) if bytes.len() <= COPY_MAX => tail.extend_from_slice(bytes),
            Content::Memory(bytes) => out.push(Piece::Shared(Arc::clone(bytes), 0..bytes.len())),
            Content::File(file) if site.sendfile => out.push(Piece::File(Arc::clone(file), 0..resource.size)),
            Content::File(file) => out.push(Piece::Read(Arc::clone(file), 0..resource.size)),
        },
    }
    Sent { total: head + body, body }
}

/// Makes the answer for a status that no handler gave a body: a short page, or none where the status forbids one.
pub fn fill_in(request: &mut Request, status: Status) {
    request.response.status = status;
    request.response.body = Body::Empty;
    if status == Status::METHOD_NOT_ALLOWED || request.method() == Method::Options {
        write_field(&mut request.response.fields, "Allow", b"GET,HEAD,OPTIONS");
    }
    if status.0 >= 300 && status != Status::NOT_MODIFIED {
        request.content_type = Some(html());
        request.response.body = Body::Bytes(page(status));
    }
}

fn html() -> Arc<str> {
    thread_local! {
        static HTML: Arc<str> = Arc::from("text/html; charset=iso-8859-1");
    }
    HTML.with(Arc::clone)
}

/// The page for a status without a page of its own.
fn page(status: Status) -> Vec<u8> {
    let line = status.line();
    let reason = status.reason();
    let said = match status {
        Status::MOVED_PERMANENTLY => "The document is at the address given in the Location field.",
        Status::BAD_REQUEST => "The request could not be understood.",
        Status::FORBIDDEN => "You have no permission to see this.",
        Status::NOT_FOUND => "There is nothing under this URL here.",
        Status::METHOD_NOT_ALLOWED => "This URL does not allow the method of the request.",
        Status::REQUEST_TIMEOUT => "The request did not arrive in time.",
        _ => "The request was not answered.",
    };
    format!(
        "<!DOCTYPE html>\n<html><head>\n<title>{line}</title>\n</head><body>\n<h1>{reason}</h1>\n<p>{said}</p>\n</body></html>\n"
    )
    .into_bytes()
}

fn write_head(out: &mut Vec<u8>, request: &Request, connection: &Connection, site: &Site) {
    let response = &request.response;
    write_status_line(out, response.status);
    write_date(out, request.turn);
    out.extend_from_slice(b"Server: ");
    out.extend_from_slice(site.server.as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&response.fields);
    if let Body::Resource(resource) = &response.body {
        out.extend_from_slice(resource.validators());
    }
    if has_body(response.status) {
        out.extend_from_slice(b"Content-Length: ");
        write_decimal(out, response.body.len());
        out.extend_from_slice(b"\r\n");
    }
    write_connection(out, connection);
    if let Some(media_type) = request.content_type.as_deref().filter(|_| has_body(response.status)) {
        out.extend_from_slice(b"Content-Type: ");
        out.extend_from_slice(media_type.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// Whether the status allows a body (RFC 9110 section 6.4.1).
fn has_body(status: Status) -> bool {
    !(status.0 < 200 || status == Status::NO_CONTENT || status == Status::NOT_MODIFIED)
}

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

/// `Date`, rendered once a second on each thread.
fn write_date(out: &mut Vec<u8>, turn: Turn) {
    thread_local! {
        static DATE: RefCell<(u64, [u8; 29])> = const { RefCell::new((u64::MAX, [0; 29])) };
    }
    let second = turn.wall.as_secs();
    DATE.with_borrow_mut(|(rendered_for, date)| {
        if *rendered_for != second {
            *rendered_for = second;
            *date = imf_fixdate(second);
        }
        out.extend_from_slice(b"Date: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n");
    });
}
