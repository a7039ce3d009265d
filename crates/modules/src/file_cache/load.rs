//! Reading a file: from an open descriptor to a resource, with everything about it that stays the same rendered.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use manifold_engine::request::{Content, Representation, Resource};
use manifold_engine::transport::Turn;
use manifold_http::ContentCoding;
use manifold_sys::file::{self, FileKind};
use nix::errno::Errno;

use super::etag::{self, TagParts};
use super::links::Wait;
use super::stamp::Stamp;
use crate::mime::Types;
use crate::precompressed::is_compressed;

/// Files up to this many bytes are kept in memory; larger ones are kept open and sent by the kernel.
pub const MEMORY_MAX: u64 = 32 * 1024;

/// What is read of files, beside their bytes.
#[derive(Debug)]
pub(super) struct Loader {
    pub tag: TagParts,
    pub types: Types,
    pub precompressed: Vec<ContentCoding>,
}

/// A file as it was read.
#[derive(Debug)]
pub(super) struct Loaded {
    pub resource: Resource,
    pub stamp: Stamp,
    /// Whether the stamp tells the next change, so that what was read can be kept.
    pub settled: bool,
}

impl Loader {
    /// Reads `file`, which was opened under `path`; `None` for a directory.
    ///
    /// # Errors
    /// `PermissionDenied` for what is neither file nor directory, `WouldBlock` where a disk would have to be waited for, or the
    /// error of reading.
    pub(super) fn load(
        &self,
        file: &Arc<File>,
        path: &CStr,
        coding: Option<ContentCoding>,
        turn: Turn,
        wait: Wait,
    ) -> io::Result<Option<Loaded>> {
        let stamp = Stamp(file::status_of(file)?);
        match stamp.0.kind() {
            FileKind::Directory => return Ok(None),
            FileKind::Regular => {}
            FileKind::Link | FileKind::Other => return Err(io::ErrorKind::PermissionDenied.into()),
        }
        let mut settled = stamp.settled_at(turn.wall);
        let mut read = stamp;
        let content = if stamp.0.size <= MEMORY_MAX {
            let bytes = read_all(file, stamp.0.size as usize, wait)?;
            // Written to while it was read: what was read is served once and not kept.
            settled &= bytes.len() as u64 == stamp.0.size && Stamp(file::status_of(file)?) == stamp;
            read.0.size = bytes.len() as u64;
            Content::Memory(bytes.into())
        } else {
            Content::File(Arc::clone(file))
        };
        let digest = match self.tag.digest {
            true => Some(self.digest(file, &content, wait)?),
            false => None,
        };
        // The extension of a coding says nothing of what is in it.
        let name = path.to_bytes();
        let name = coding.map_or(name, |coding| &name[..name.len() - 1 - coding.extension().len()]);
        let (seconds, nanoseconds) = stamp.0.modified;
        let resource = Resource::of(
            content,
            &Representation {
                size: read.0.size,
                modified: Some(u64::try_from(seconds).unwrap_or(0)),
                modified_nanoseconds: nanoseconds,
                etag: &etag::render(self.tag, &read, turn.wall, digest.as_deref(), coding),
                media_type: self.types.of(name).cloned(),
                coding,
                varies: !self.precompressed.is_empty() && !is_compressed(name, &self.precompressed),
            },
        );
        Ok(Some(Loaded { resource, stamp, settled }))
    }

    fn digest(&self, file: &File, content: &Content, wait: Wait) -> io::Result<Vec<u8>> {
        match (content, wait) {
            (Content::Memory(bytes), _) => Ok(etag::digest_of(bytes)),
            (Content::File(_), Wait::Never) => Err(Errno::EAGAIN.into()),
            (Content::File(_), Wait::Allowed) => etag::digest(file),
        }
    }
}

/// The bytes of a file that has `size` of them, or fewer where it ends earlier by now.
fn read_all(file: &File, size: usize, wait: Wait) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    let mut filled = 0;
    while filled < size {
        match read_at(file, &mut bytes[filled..], filled as u64, wait) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn read_at(file: &File, buffer: &mut [u8], offset: u64, wait: Wait) -> io::Result<usize> {
    if wait == Wait::Never {
        match file::read_cached(&file, buffer, offset) {
            // Not every file system can tell what it has at hand.
            Err(error) if error.raw_os_error() == Some(Errno::EOPNOTSUPP as i32) => {}
            read => return read,
        }
    }
    file.read_at(buffer, offset)
}
