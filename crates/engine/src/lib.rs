//! The protocol engine in the making.
pub mod out;
pub mod transport;
