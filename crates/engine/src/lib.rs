//! The protocol engine: from bytes received to bytes to send, written once for every process model.
//!
//! [`serve::serve`] is the life of a request; [`phases`] lists what happens to it; [`transport`] is the seam to the
//! process model below. The engine knows no sockets, no threads and no clock.
//!
//! Levels in the log: Apache's `notice` is `log::info!`, its `info` is `log::debug!`, its `debug` is `log::trace!`; the
//! target is the Apache module's name.
#![forbid(unsafe_code)]

pub mod admit;
pub mod error_page;
pub mod memory;
pub mod out;
pub mod phases;
pub mod representation;
pub mod reqtimeout;
pub mod request;
pub mod resource;
pub mod respond;
pub mod serve;
pub mod site;
pub mod status;
pub mod trace;
pub mod transaction;
pub mod transport;
