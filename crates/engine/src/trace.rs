//! TRACE: the request comes back as it was understood, so that a client sees what the servers on the way made of it
//! (RFC 9110 section 9.3.8, `TraceEnable`).

use std::sync::Arc;

use crate::request::{Body, Request};

/// Most bytes of a body that comes back (Apache's limit for `TraceEnable extended`).
pub const BODY_MAX: u64 = 64 * 1024;

/// Fields that would tell a script in a browser what it must not know; RFC 9110 has the server leave them out.
const SENSITIVE: [&[u8]; 3] = [b"Authorization", b"Cookie", b"Proxy-Authorization"];

/// Makes the answer to a TRACE.
pub fn echo(request: &mut Request) {
    let mut echo = Vec::with_capacity(request.bytes.len() + request.body.len() + 2);
    echo.extend_from_slice(request.request_line());
    echo.extend_from_slice(b"\r\n");
    for (name, value) in request.head.fields(&request.bytes) {
        if !SENSITIVE.iter().any(|sensitive| name.eq_ignore_ascii_case(sensitive)) {
            for part in [name, b": ", value, b"\r\n"] {
                echo.extend_from_slice(part);
            }
        }
    }
    echo.extend_from_slice(b"\r\n");
    echo.extend_from_slice(&request.body);
    request.content_type = Some(Arc::from("message/http"));
    request.response.body = Body::Bytes(echo);
}
