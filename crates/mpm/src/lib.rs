//! The multi-processing modules: how many processes, how many threads in each, how many connections a thread holds, and
//! who waits. The protocol is the engine's; an MPM decides only where a connection's future runs and what waiting means.
//!
//! [`server::Server`] is the way in. The parent (`parent`) forks children, which all begin in [`child::run`] and go on in
//! the `child_main` of their model: `prefork`, `worker`, `event`, `percore`. [`inside::serve`] is a server within another program, without any of that.
#![forbid(unsafe_code)]

mod blocking;
mod buffer;
pub mod child;
pub mod clock;
pub mod directives;
mod ending;
mod event;
pub mod generation;
pub mod head_start;
pub mod health;
pub mod host;
pub mod inside;
pub mod ledger;
pub mod limits;
mod line;
pub mod listeners;
mod messages;
pub mod parent;
mod pause;
mod percore;
mod prefork;
pub mod saturation;
pub mod scoreboard;
pub mod server;
mod shed;
pub mod spare;
pub mod status;
pub mod system;
mod worker;
