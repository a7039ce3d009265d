//! What a child's first request needs is made before there are children: while the program's heap is young and its pieces
//! come to lie side by side. A child of prefork then makes a few pages of its parent's its own, where it would otherwise pick
//! free pieces from all over the heap and make a page its own for each.

use std::net::{Ipv4Addr, SocketAddr};

use manifold_engine::out::OutQueue;
use manifold_engine::request::Pooled;
use manifold_http::{Limits, write_field};

use crate::buffer::{self, ReadBuffer};
use crate::clock;

/// Bytes that a usual head, path, file name or set of fields fits into.
const USUAL: usize = 512;

/// A request that every child could get: what it is parsed with finds out at its first use what the processor can do.
const REHEARSED: &[u8] = b"GET /?x HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n";

/// Fills the pools of the calling thread, from which its children will take. Call it first of all.
pub fn equip() {
    // Its number is what a child counts on from; the time will be long past then, and `child::serve` takes a new one.
    let turn = clock::tick();
    let mut request = Pooled::take(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), turn);
    request.bytes.reserve(USUAL);
    request.path.reserve(USUAL);
    request.filename.reserve(USUAL);
    request.response.fields.reserve(USUAL);
    let _it_is_complete = request.head.parse_more(REHEARSED, &Limits::default());
    write_field(&mut request.response.fields, "Vary", b"Accept-Encoding");
    let mut out = OutQueue::new();
    out.tail().push(b'x');
    out.advance(1);
    drop((request, out));
    // The largest last: of its pages only the first is used.
    buffer::make_pool();
    let mut buffer = ReadBuffer::new();
    if buffer.read_from(&b"x"[..]).is_ok() {
        buffer.consume(1);
    }
}
