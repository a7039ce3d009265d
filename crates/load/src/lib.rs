//! The load generator: a fixed set of connections kept busy in a closed loop, measured honestly.
//!
//! [`plan`] says what to send, [`connection`] is the state of one connection (bytes in, progress out), [`run`] drives a set of them in one
//! thread and tells a [`outcome::Observer`] what happened. Two front ends stand on it: [`ab`], which behaves as ApacheBench does, and
//! [`native`], which the laboratory runs in a process of its own and which writes a [`report::Report`]. [`responder`] is the opposite end:
//! a server that does nothing but answer, as a yardstick for generators and servers.
#![forbid(unsafe_code)]

pub mod ab;
pub mod alarm;
pub mod compare;
pub mod connection;
pub mod content;
mod grid;
pub mod h2;
pub mod handshakes;
pub mod histogram;
pub mod latencies;
pub mod leading;
pub mod native;
pub mod outcome;
mod parts;
pub mod plan;
pub mod poller;
pub mod report;
pub mod responder;
pub mod run;
pub mod schedule;
pub mod siege;
pub mod slices;
mod stamp;
mod system_error;
mod tally;
pub mod tls;
pub mod units;
pub mod verdict;
pub mod wire;

pub use native::main;
