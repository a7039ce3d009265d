//! The multi-processing modules: how many processes, how many threads in each, how many connections a thread holds, and
//! who waits. The protocol is the engine's; an MPM decides only where a connection's future runs and what waiting means.
#![forbid(unsafe_code)]

pub mod generation;
pub mod limits;
pub mod scoreboard;
