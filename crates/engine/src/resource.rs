//! A file as it stood when it was looked up, with everything about it that is the same in every answer rendered once.

use std::fs::File;
use std::sync::Arc;

use manifold_http::imf_fixdate;

/// A file as it stood when it was looked up.
#[derive(Debug)]
pub struct Resource {
    /// Bytes.
    pub size: u64,
    /// Where its bytes come from.
    pub content: Content,
    modified: Option<u64>,
    /// `Last-Modified`, `ETag` and `Accept-Ranges: bytes` as complete field lines.
    fields: Box<[u8]>,
    /// Where the tag begins in `fields`; it ends before the last CRLF of the validators. `None` where the file has none.
    etag: Option<u8>,
}

/// The end of every resource's fields.
const ACCEPT_RANGES: &[u8] = b"Accept-Ranges: bytes\r\n";

/// Where the bytes of a resource come from.
#[derive(Debug)]
pub enum Content {
    /// A small file, kept in memory.
    Memory(Arc<[u8]>),
    /// A larger one, kept open.
    File(Arc<File>),
}

impl Resource {
    /// A resource of `size` bytes. `modified` is in whole seconds since the Unix epoch; `etag` is a complete entity tag, with
    /// its quotes and `W/` where it is weak, or empty where the resource has none.
    pub fn new(content: Content, size: u64, modified: Option<u64>, etag: &[u8]) -> Resource {
        let mut fields = Vec::with_capacity(128);
        if let Some(modified) = modified {
            fields.extend_from_slice(b"Last-Modified: ");
            fields.extend_from_slice(&imf_fixdate(modified));
            fields.extend_from_slice(b"\r\n");
        }
        let mut begins = None;
        if !etag.is_empty() {
            fields.extend_from_slice(b"ETag: ");
            begins = u8::try_from(fields.len()).ok();
            fields.extend_from_slice(etag);
            fields.extend_from_slice(b"\r\n");
        }
        fields.extend_from_slice(ACCEPT_RANGES);
        Resource { size, content, modified, fields: fields.into(), etag: begins }
    }

    /// When it was last modified, in whole seconds since the Unix epoch: what `Last-Modified` says.
    pub fn modified(&self) -> Option<u64> {
        self.modified
    }

    /// The entity tag, with its quotes and `W/` where it is weak; `None` where there is none (RFC 9110 section 8.8.3).
    pub fn etag(&self) -> Option<&[u8]> {
        let begins = usize::from(self.etag?);
        let validators = self.validators();
        validators.get(begins..validators.len() - 2)
    }

    /// `Last-Modified` and `ETag`, those that there are, as complete field lines.
    pub fn validators(&self) -> &[u8] {
        &self.fields[..self.fields.len() - ACCEPT_RANGES.len()]
    }

    /// The same, and `Accept-Ranges: bytes` behind them.
    pub fn fields(&self) -> &[u8] {
        &self.fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validators_are_rendered_once_and_the_tag_is_found_in_them() {
        let check = |modified, etag: &str, lines: &str| {
            let resource = Resource::new(Content::Memory(Arc::from(&b""[..])), 0, modified, etag.as_bytes());
            assert_eq!(String::from_utf8_lossy(resource.validators()), lines);
            assert_eq!(resource.modified(), modified);
            assert_eq!(resource.etag(), (!etag.is_empty()).then_some(etag.as_bytes()));
        };
        check(None, "", "");
        check(None, "\"a\"", "ETag: \"a\"\r\n");
        check(Some(784_111_777), "", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
        check(Some(0), "W/\"2c-1\"", "Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\nETag: W/\"2c-1\"\r\n");
    }
}
