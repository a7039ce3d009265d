//! Entity tags of files in Apache's forms (`FileETag`): what a tag is made of, and the tag of one file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use manifold_http::ContentCoding;
use sha1::{Digest, Sha1};

use super::stamp::Stamp;

/// What tags are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagParts {
    /// The file's number in its file system.
    pub inode: bool,
    /// Its size.
    pub size: bool,
    /// Its modification time, in microseconds.
    pub modified: bool,
    /// Its content (SHA-1, in Base64), which outweighs all else.
    pub digest: bool,
}

impl TagParts {
    /// `FileETag None`: no tag at all.
    pub const NONE: TagParts = TagParts { inode: false, size: false, modified: false, digest: false };
    /// `FileETag MTime Size`, the default since Apache 2.4.
    pub const DEFAULT: TagParts = TagParts { size: true, modified: true, ..TagParts::NONE };
    /// `FileETag All`.
    pub const ALL: TagParts = TagParts { inode: true, ..TagParts::DEFAULT };
}

impl Default for TagParts {
    fn default() -> TagParts {
        TagParts::DEFAULT
    }
}

/// A file modified less than this long before the look-up has a weak tag, as in Apache: it may change again within the
/// resolution of its time stamp.
const WEAK_FOR: Duration = Duration::from_secs(1);

/// Bytes that are read at once to digest a file.
const CHUNK: usize = 64 * 1024;

/// The tag of a file, empty where it has none. `digest` is its content's, where that is part of the tag. A file in a content
/// coding has the tag of a file of its own, with the coding's name added, as Apache's `mod_deflate` does: two representations
/// never have the same strong tag (RFC 9110 section 8.8.3.3).
pub(super) fn render(
    parts: TagParts,
    stamp: &Stamp,
    wall: Duration,
    digest: Option<&[u8]>,
    coding: Option<ContentCoding>,
) -> Vec<u8> {
    let microseconds = microseconds(stamp.0.modified);
    let mut words = Vec::new();
    let mut weak = false;
    if let Some(digest) = digest {
        words.push(BASE64.encode(digest));
    } else {
        let age = i64::try_from(wall.as_micros()).unwrap_or(i64::MAX).saturating_sub(microseconds);
        weak = u128::try_from(age).is_ok_and(|age| age < WEAK_FOR.as_micros()) || age < 0;
        let fields = [
            (parts.inode, stamp.0.inode),
            (parts.size, stamp.0.size),
            // Before 1970 it counts as Apache's unsigned number does.
            (parts.modified, microseconds.cast_unsigned()),
        ];
        words.extend(fields.iter().filter(|(wanted, _)| *wanted).map(|(_, number)| format!("{number:x}")));
    }
    if words.is_empty() {
        return Vec::new();
    }
    words.extend(coding.map(|coding| coding.name().to_owned()));
    format!("{}\"{}\"", if weak { "W/" } else { "" }, words.join("-")).into_bytes()
}

/// SHA-1 of a content in memory.
pub(super) fn digest_of(bytes: &[u8]) -> Vec<u8> {
    Sha1::digest(bytes).to_vec()
}

/// SHA-1 of a file's content. Waits for a disk, whatever the size.
pub(super) fn digest(file: &File) -> io::Result<Vec<u8>> {
    let mut sha = Sha1::new();
    let mut chunk = vec![0; CHUNK];
    let mut offset = 0;
    loop {
        match file.read_at(&mut chunk, offset) {
            Ok(0) => return Ok(sha.finalize().to_vec()),
            Ok(read) => {
                sha.update(&chunk[..read]);
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn microseconds((seconds, nanoseconds): (i64, u32)) -> i64 {
    seconds.saturating_mul(1_000_000).saturating_add(i64::from(nanoseconds / 1000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use manifold_sys::file::FileStatus;

    #[test]
    fn tags_have_apaches_forms() {
        // A file and what Apache 2.4.71 says of it, some time later.
        let modified = (1_700_000_000, 123_456_789);
        let stamp = Stamp(FileStatus {
            device: 1,
            inode: 0xa2_80ab,
            size: 12,
            modified,
            changed: modified,
            owner: 0,
            mode: 0o100_644,
        });
        let tag = |parts, digest, coding, later| {
            let wall = Duration::new(1_700_000_000, 123_456_789) + Duration::from_micros(later);
            String::from_utf8(render(parts, &stamp, wall, digest, coding)).unwrap()
        };
        let check = |parts, expected: &str| assert_eq!(tag(parts, None, None, 1_000_000), expected, "{parts:?}");
        check(TagParts::NONE, "");
        check(TagParts::DEFAULT, "\"c-60a2418202240\"");
        check(TagParts::ALL, "\"a280ab-c-60a2418202240\"");
        check(TagParts { inode: true, ..TagParts::NONE }, "\"a280ab\"");
        check(TagParts { size: true, ..TagParts::NONE }, "\"c\"");
        check(TagParts { modified: true, ..TagParts::NONE }, "\"60a2418202240\"");
        check(TagParts { inode: true, size: true, ..TagParts::NONE }, "\"a280ab-c\"");
        assert_eq!(tag(TagParts::DEFAULT, None, None, 999_999), "W/\"c-60a2418202240\"");
        assert_eq!(tag(TagParts::NONE, None, None, 0), "");
        assert_eq!(tag(TagParts::DEFAULT, None, Some(ContentCoding::Brotli), 1_000_000), "\"c-60a2418202240-br\"");
        let sha = Sha1::digest(b"hello world\n");
        assert_eq!(tag(TagParts::ALL, Some(&sha), None, 0), "\"IlljY7PeQLBvmB+4XYIxLowO1RE=\"");
    }
}
