//! What a child's first request needs is made before there are children: while the program's heap is young and its pieces
//! come to lie side by side. A child of prefork then makes a few pages of its parent's its own, where it would otherwise pick
//! free pieces from all over the heap and make a page its own for each.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use manifold_engine::out::OutQueue;
use manifold_engine::request::Pooled;
use manifold_engine::transport::Turn;

use crate::buffer::ReadBuffer;
use crate::clock;

/// Bytes that a usual head, path, file name or set of fields fits into.
const USUAL: usize = 512;

/// Fills the pools of the calling thread, from which its children will take. Call it first of all.
pub fn equip() {
    // Not the thread's own turn: in a child, that would be long past.
    let turn = Turn { number: 1, now: Instant::now(), wall: clock::wall() };
    let mut request = Pooled::take(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), turn);
    request.bytes.reserve(USUAL);
    request.path.reserve(USUAL);
    request.filename.reserve(USUAL);
    request.response.fields.reserve(USUAL);
    let mut out = OutQueue::new();
    out.tail().push(b'x');
    out.advance(1);
    let mut buffer = ReadBuffer::new();
    if buffer.read_from(&b"x"[..]).is_ok() {
        buffer.consume(1);
    }
}
