//! HTTP/2 as a load generator speaks it: requests are frames made before the run, and many of them share a connection.
//!
//! [`request`] makes the frames, [`link`] is the state of one connection without a socket, [`streams`] what is open on it. The wire that
//! presents streams to the loop as slots of their own is [`Multiplexed`](crate::wire::Multiplexed). [`probe`] asks a server, before the
//! run, whether it speaks HTTP/2 at all.

pub mod link;
pub mod probe;
pub mod request;
mod streams;
