//! What every request must pass before a module sees it: its method and its target.

use manifold_http::{BodyLength, Method, Status, Target, decode_target};

use crate::request::Request;
use crate::site::{Site, Trace};

/// Methods allowed for a file. Apache's order is that of a hash table, another in each process.
pub fn allowed(site: &Site) -> &'static [u8] {
    if site.trace == Trace::Off { b"GET,POST,OPTIONS,HEAD" } else { b"GET,POST,OPTIONS,HEAD,TRACE" }
}

/// Takes the target apart, into path, query and authority.
///
/// # Errors
/// The status to answer with, which may be 200: `OPTIONS *` asks about the server as a whole.
#[inline]
pub fn check(request: &mut Request, site: &Site) -> Result<(), Status> {
    // As it nearly always is.
    if request.head.method() == Method::Get && request.head.target_is_plain() {
        take_plain(request);
        return Ok(());
    }
    check_any(request, site)
}

/// Takes a target that is a path as it stands.
#[inline]
fn take_plain(request: &mut Request) {
    request.path.clear();
    request.path.extend_from_slice(request.head.target(&request.bytes));
}

fn check_any(request: &mut Request, site: &Site) -> Result<(), Status> {
    let method = request.head.method();
    match method {
        Method::Get | Method::Head => {}
        Method::Connect => return Err(refuse_tunnel(request, site)),
        Method::Other => return Err(Status::NOT_IMPLEMENTED),
        _ => {}
    }
    if request.head.target_is_plain() {
        take_plain(request);
        return if method == Method::Trace { check_trace(request, site) } else { Ok(()) };
    }
    match decode_target(request.head.target(&request.bytes), &site.paths, &mut request.path) {
        Ok(Target::Origin { query, authority }) => {
            request.query = query;
            // Only of our own scheme: https is not spoken here, so who sends it means a gateway by it.
            request.authority = authority.filter(|authority| authority.start == b"http://".len());
        }
        Ok(Target::Asterisk) if method == Method::Options => return Err(Status::OK),
        Ok(Target::Asterisk) => return Err(Status::BAD_REQUEST),
        Err(error) => return Err(error.status()),
    }
    if method == Method::Trace { check_trace(request, site) } else { Ok(()) }
}

/// This server is no proxy. What CONNECT names must be an authority even so (RFC 9110 section 9.3.6).
fn refuse_tunnel(request: &mut Request, site: &Site) -> Status {
    let target = request.head.target(&request.bytes);
    let uri = [b"http://", target].concat();
    match decode_target(&uri, &site.paths, &mut request.path) {
        Ok(Target::Origin { authority: Some(authority), .. }) if authority.end == uri.len() => {
            Status::METHOD_NOT_ALLOWED
        }
        _ => Status::BAD_REQUEST,
    }
}

fn check_trace(request: &Request, site: &Site) -> Result<(), Status> {
    match (site.trace, request.head.body()) {
        (Trace::Off, _) => Err(Status::METHOD_NOT_ALLOWED),
        (Trace::On, BodyLength::Chunked | BodyLength::Length(1..)) => Err(Status::REQUEST_ENTITY_TOO_LARGE),
        _ => Ok(()),
    }
}
