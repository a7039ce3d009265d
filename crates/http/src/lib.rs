//! HTTP/1.x, and in [`h2`] HTTP/2, as pure functions: bytes in, values out. No clock, no I/O, no allocation where a request is parsed.
//!
//! The server side is strict, as Apache httpd is with its default `HttpProtocolOptions Strict`, or as lenient as with
//! `Unsafe`: [`Head`] finds and
//! indexes a request head, [`decode_target`] turns its target into a path, [`BodyDecoder`] finds where the body ends.
//! [`Conditions`] and [`select_ranges`] decide what a conditional or partial request gets.
//! The client side ([`parse_response_head`], [`ResponseDecoder`]) finds no more in a response than a load generator
//! needs, and is lenient about line ends, since it has to measure servers other than ours.
//!
//! Every parser gives the same answer however its input was split, and finds an error as soon as the offending bytes
//! are there. The property tests and the fuzz targets hold it to that.
#![forbid(unsafe_code)]

mod accept_encoding;
mod body;
mod chars;
mod client;
mod conditional;
mod date;
mod digest;
mod entity_tag;
pub mod h2;
mod head;
mod head_error;
mod limits;
mod method;
mod range;
mod response;
mod scan;
mod status;
mod uri;
mod version;

pub use accept_encoding::{AcceptEncoding, ContentCoding};
pub use body::{BodyDecoder, BodyError, BodyLength, EXTENSION_BYTES_MAX, Step, TRAILER_BYTES_MAX, TRAILER_FIELDS_MAX};
pub use client::{
    ResponseBody, ResponseDecoder, ResponseError, ResponseHead, find_field, parse_response_head, response_fields,
};
pub use conditional::{Conditions, Validators, Verdict};
pub use date::{IMF_FIXDATE_SECONDS_MAX, imf_fixdate, parse_http_date};
pub use entity_tag::{Comparison, EntityTag};
pub use head::{Head, request_line_of};
pub use head_error::HeadError;
pub use limits::{BLANK_LINES_MAX, FIELDS_MAX, HEAD_MAX, Limits, Methods, ProtocolOptions, Strictness};
pub use method::Method;
pub use range::{
    Boundary, ByteRange, Multipart, RangeLimits, Selection, select_ranges, write_content_range, write_unsatisfied_range,
};
pub use response::{write_decimal, write_field, write_status_line};
pub use status::Status;
pub use uri::{EncodedSlashes, PathOptions, Target, TargetError, decode_target};
pub use version::Version;
