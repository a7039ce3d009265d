//! A file as it stood when it was looked up, with everything about it that is the same in every answer rendered once.

use std::fs::File;
use std::sync::Arc;

use manifold_http::{ContentCoding, imf_fixdate, write_decimal, write_field};

/// A file as it stood when it was looked up.
#[derive(Debug)]
pub struct Resource {
    /// Bytes.
    pub size: u64,
    /// Where its bytes come from.
    pub content: Content,
    modified: Option<u64>,
    modified_nanoseconds: u32,
    media_type: Option<Arc<str>>,
    coding: Option<ContentCoding>,
    /// What an answer with the whole of it says of it, as complete field lines, and the blank line.
    head: Box<[u8]>,
    /// Where the tag stands in `head`.
    etag: Option<(u16, u16)>,
    /// Ends of parts of `head`: the validators, the fields of any answer, those of the whole before the connection's.
    validators: u16,
    fields: u16,
    length: u16,
}

/// Where the bytes of a resource come from.
#[derive(Debug)]
pub enum Content {
    /// A small file, kept in memory.
    Memory(Arc<[u8]>),
    /// A larger one, kept open.
    File(Arc<File>),
}

/// What there is to say of a resource.
#[derive(Clone, Debug, Default)]
pub struct Representation<'a> {
    /// Bytes.
    pub size: u64,
    /// When it was last modified, in whole seconds since the Unix epoch.
    pub modified: Option<u64>,
    /// Nanoseconds to be added to that, where they are known.
    pub modified_nanoseconds: u32,
    /// A complete entity tag, with its quotes and `W/` where it is weak; empty where there is none.
    pub etag: &'a [u8],
    /// Media type, by the name of the file.
    pub media_type: Option<Arc<str>>,
    /// The coding that it is in.
    pub coding: Option<ContentCoding>,
    /// Whether it was, or may be, chosen by `Accept-Encoding`, which caches have to know (RFC 9110 section 12.5.5).
    pub varies: bool,
}

impl Resource {
    /// A resource without a media type: `size` bytes, modified so many seconds after the Unix epoch, with this entity tag or,
    /// where that is empty, none.
    pub fn new(content: Content, size: u64, modified: Option<u64>, etag: &[u8]) -> Resource {
        Resource::of(content, &Representation { size, modified, etag, ..Representation::default() })
    }

    /// A resource.
    pub fn of(content: Content, what: &Representation<'_>) -> Resource {
        let mut head = Vec::with_capacity(256);
        let length = |head: &Vec<u8>| u16::try_from(head.len()).unwrap_or(u16::MAX);
        if let Some(modified) = what.modified {
            write_field(&mut head, "Last-Modified", &imf_fixdate(modified));
        }
        let mut etag = None;
        if !what.etag.is_empty() {
            write_field(&mut head, "ETag", what.etag);
            let end = length(&head) - 2;
            etag = u16::try_from(what.etag.len()).ok().map(|length| (end - length, end));
        }
        if what.varies {
            head.extend_from_slice(b"Vary: Accept-Encoding\r\n");
        }
        let validators = length(&head);
        head.extend_from_slice(b"Accept-Ranges: bytes\r\n");
        let fields = length(&head);
        head.extend_from_slice(b"Content-Length: ");
        write_decimal(&mut head, what.size);
        head.extend_from_slice(b"\r\n");
        let before = length(&head);
        if let Some(media_type) = &what.media_type {
            write_field(&mut head, "Content-Type", media_type.as_bytes());
        }
        if let Some(coding) = what.coding {
            write_field(&mut head, "Content-Encoding", coding.name().as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        let Representation { size, modified, modified_nanoseconds, media_type, coding, .. } = what.clone();
        Resource {
            size,
            content,
            modified,
            modified_nanoseconds,
            media_type,
            coding,
            head: head.into(),
            etag,
            validators,
            fields,
            length: before,
        }
    }

    /// When it was last modified, in whole seconds since the Unix epoch: what `Last-Modified` says.
    pub fn modified(&self) -> Option<u64> {
        self.modified
    }

    /// When it was last modified as precisely as is known: seconds since the Unix epoch, and nanoseconds.
    pub fn modified_at(&self) -> Option<(u64, u32)> {
        self.modified.map(|seconds| (seconds, self.modified_nanoseconds))
    }

    /// The entity tag, with its quotes and `W/` where it is weak; `None` where there is none (RFC 9110 section 8.8.3).
    pub fn etag(&self) -> Option<&[u8]> {
        let (begin, end) = self.etag?;
        self.head.get(usize::from(begin)..usize::from(end))
    }

    /// Its media type, where its name tells one.
    pub fn media_type(&self) -> Option<&Arc<str>> {
        self.media_type.as_ref()
    }

    /// The content coding that it is in.
    pub fn coding(&self) -> Option<ContentCoding> {
        self.coding
    }

    /// `Last-Modified`, `ETag` and `Vary`, those that there are, as complete field lines.
    pub fn validators(&self) -> &[u8] {
        &self.head[..usize::from(self.validators)]
    }

    /// The same, and `Accept-Ranges: bytes` behind them.
    pub fn fields(&self) -> &[u8] {
        &self.head[..usize::from(self.fields)]
    }

    /// The same, and `Content-Length` behind them: what an answer with the whole of it says before the connection's fields.
    pub fn fields_of_whole(&self) -> &[u8] {
        &self.head[..usize::from(self.length)]
    }

    /// What an answer says behind them: `Content-Type` and `Content-Encoding`, those that there are, as complete field lines.
    pub fn type_fields(&self) -> &[u8] {
        &self.head[usize::from(self.length)..self.head.len() - 2]
    }

    /// All of it and the blank line, for an answer with the whole that has nothing to say of the connection.
    pub fn whole_head(&self) -> &[u8] {
        &self.head
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
    #[test]
    fn what_stays_the_same_is_rendered_in_the_order_of_an_answer() {
        let content = Content::Memory(Arc::from(&b"page"[..]));
        let representation = Representation {
            size: 4,
            modified: Some(0),
            modified_nanoseconds: 5,
            etag: b"\"4-0-gzip\"",
            media_type: Some(Arc::from("text/html")),
            coding: Some(ContentCoding::Gzip),
            varies: true,
        };
        let resource = Resource::of(content, &representation);
        let before = "Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\nETag: \"4-0-gzip\"\r\n\
            Vary: Accept-Encoding\r\nAccept-Ranges: bytes\r\nContent-Length: 4\r\n";
        let after = "Content-Type: text/html\r\nContent-Encoding: gzip\r\n";
        assert_eq!(String::from_utf8_lossy(resource.fields_of_whole()), before);
        assert_eq!(resource.fields(), &before.as_bytes()[..before.len() - "Content-Length: 4\r\n".len()]);
        assert_eq!(String::from_utf8_lossy(resource.type_fields()), after);
        assert_eq!(resource.whole_head(), [before, after, "\r\n"].concat().as_bytes());
        assert_eq!(resource.etag(), Some(&b"\"4-0-gzip\""[..]));
        assert_eq!(
            (resource.media_type().map(|name| &**name), resource.coding()),
            (Some("text/html"), Some(ContentCoding::Gzip))
        );
    }
}
