//! HTTP/2 as pure functions: frames (RFC 9113) and compressed field blocks (RFC 7541). Bytes in, values out.
//!
//! [`Reader`] cuts a stream of bytes into [`Event`]s, however it arrives in pieces, and puts field blocks together; [`Decoder`] takes a
//! field block apart and keeps its dynamic table; [`encode_field`] writes fields that need no table, so that what it writes means the same
//! on every connection. The functions of [`frame`] write frames. What streams are, and how much may be sent on them, is for the user of
//! all this to know: nothing here has a state but what the two formats themselves have.
//!
//! The crates there are for HPACK alone were weighed: `hpack` and its successors (`fluke-hpack`, `loona-hpack`) allocate for every field
//! and are hardly kept up, and the `h2` crate does not export its own.

mod dynamic_table;
mod encode;
mod error;
pub mod frame;
mod hpack;
mod huffman;
mod reader;
mod static_table;

pub use encode::encode_field;
pub use error::{Code, Error};
pub use frame::{PREFACE, Setting};
pub use hpack::{Decoder, FieldError, LIST_BYTES_MAX};
pub use reader::{BLOCK_BYTES_MAX, Event, FRAME_BYTES_MAX, Reader, Settings};
