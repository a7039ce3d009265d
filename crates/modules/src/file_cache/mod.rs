//! Files as they stand at this moment: looked up afresh on every request, read again only when they changed.
//!
//! What is kept of a file is valid for a request when a look-up that was made after the request had been received finds
//! the same file ([`stamp`]). One look-up serves all requests of a turn, because all of them were received before it. A file
//! that changed only just before it was read may change again within the resolution of its time stamps; it is served, and
//! read again the next time. `ManifoldFileCheck` loosens this for those who want to.
//!
//! A thread finds what it served before in a memory of its own, without a lock ([`front`]). What the process keeps is bounded
//! by bytes, and by descriptors for files that are too large to be kept in memory ([`s3_fifo`]).

mod etag;
mod front;
mod links;
mod load;
mod s3_fifo;
mod stamp;

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use manifold_engine::request::{Content, Found, Resource};
use manifold_engine::transport::Turn;
use manifold_http::ContentCoding;
use manifold_sys::file::FileKind;
use nix::errno::Errno;
use nix::sys::resource;

pub use etag::TagParts;
pub use links::{Links, Wait};
pub use load::MEMORY_MAX;

use self::front::{Front, Known, Name, Slot};
use self::links::Door;
use self::load::{Loaded, Loader};
use self::s3_fifo::{S3Fifo, Used, Uses};
use self::stamp::Stamp;
use crate::mime::Types;

/// `ManifoldFileCacheSize` where it is not written, in bytes. Each process has a cache of its own, and prefork has many.
pub const CACHE_SIZE: u64 = 8 * 1024 * 1024;
/// Files that one process keeps open, at most. No more than an eighth of the descriptors it may have: the rest is for clients.
const OPEN_MAX: u64 = 512;
const OPEN_PART: u64 = 8;
/// What a file in memory is taken to weigh beside its bytes and its name.
const ENTRY_BYTES: usize = 768;

/// `ManifoldFileCheck`: when a file that is kept is compared with the one on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// For each request, after it was received.
    #[default]
    Always,
    /// When that was done this long ago.
    After(Duration),
    /// Not before the next reload.
    Never,
}

/// What the configuration says of files.
#[derive(Clone, Debug)]
pub struct FileSettings {
    /// `ManifoldFileCheck`.
    pub check: Check,
    /// `ManifoldFileCacheSize`, in bytes.
    pub size: u64,
    /// `FileETag`.
    pub tag: TagParts,
    /// `Options FollowSymLinks` and `SymLinksIfOwnerMatch`.
    pub links: Links,
    /// `ManifoldPrecompressed`: codings in which files may lie beside the original.
    pub precompressed: Vec<ContentCoding>,
}

impl Default for FileSettings {
    fn default() -> FileSettings {
        FileSettings {
            check: Check::Always,
            size: CACHE_SIZE,
            tag: TagParts::DEFAULT,
            links: Links::Follow,
            precompressed: Vec::new(),
        }
    }
}

/// What one process knows of the files it serves.
#[derive(Debug)]
pub struct FileCache {
    /// Tells caches apart in the threads' memories.
    id: u64,
    check: Check,
    door: Door,
    loader: Loader,
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    /// Small files, weighed in bytes.
    memory: S3Fifo<Entry>,
    /// Larger ones, each of weight 1.
    open: S3Fifo<Entry>,
}

/// What keeps a file's bytes or its descriptor. Threads know it by [`Known`] alone.
#[derive(Debug)]
struct Entry {
    known: Arc<Known>,
    resource: Arc<Resource>,
}

impl FileCache {
    /// An empty cache of files below `root`.
    pub fn new(settings: &FileSettings, root: PathBuf, types: Types) -> FileCache {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let descriptors = resource::getrlimit(resource::Resource::RLIMIT_NOFILE).map_or(OPEN_MAX, |(soft, _)| soft);
        front::begin();
        FileCache {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            check: settings.check,
            door: Door::new(settings.links, root),
            loader: Loader { tag: settings.tag, types, precompressed: settings.precompressed.clone() },
            kept: Mutex::new(Kept {
                memory: S3Fifo::new(settings.size),
                open: S3Fifo::new(OPEN_MAX.min(descriptors / OPEN_PART)),
            }),
        }
    }

    /// What stands under `name` now, or beside it as its sibling in `coding`.
    ///
    /// # Errors
    /// The error of the look-up or of opening: `NotFound`, `PermissionDenied`, `NotADirectory` and so on;
    /// `PermissionDenied` for what is neither file nor directory; `ELOOP` for a symbolic link that is not to be followed. With
    /// [`Wait::Never`], `WouldBlock` where a disk would have to be waited for: the same look-up, made where waiting harms nobody,
    /// brings what is missing.
    pub fn look_up(&self, name: &[u8], coding: Option<ContentCoding>, turn: Turn, wait: Wait) -> io::Result<Found> {
        self.find(Name { path: name, coding }, turn, wait)
    }

    /// The file that `path` was answered with before ([`remember`](Self::remember)), if it is what a look-up would find now; its
    /// name goes into `filename`, where that is wanted. `None`: what stands there has to be looked up by its name.
    #[inline]
    pub fn recall(&self, path: &[u8], turn: Turn, wait: Wait, filename: Option<&mut Vec<u8>>) -> Option<Arc<Resource>> {
        front::with(self.id, |front| {
            let slot = front.find_path(path)?;
            // Whoever looks it up by its name meets the same error.
            let Ok(Some(Found::File(resource))) = self.check(slot, turn, wait) else { return None };
            if let Some(filename) = filename {
                filename.clear();
                filename.extend_from_slice(slot.known.as_ref()?.path.as_bytes());
            }
            Some(resource)
        })
    }

    /// Keeps in mind that a request of `path` was answered with the file of this name, which this thread has just looked up.
    pub fn remember(&self, path: &[u8], filename: &[u8]) {
        front::with(self.id, |front| front.remember_path(path, Name { path: filename, coding: None }));
    }

    /// Fetches what a look-up with [`Wait::Never`] lacked: from here on the cache has it, or the kernel.
    pub fn fetch(&self, name: &[u8], coding: Option<ContentCoding>, turn: Turn) {
        let name = Name { path: name, coding };
        // An error is met again by whoever asked for the file.
        let _met_again = self.find(name, turn, Wait::Allowed);
        if let Ok(path) = name.write_path(&mut Vec::new()) {
            self.door.learn(path);
        }
    }

    fn find(&self, name: Name<'_>, turn: Turn, wait: Wait) -> io::Result<Found> {
        let hash = name.hash();
        front::with(self.id, |front| {
            if let Some(slot) = front.find(hash, name) {
                match self.check(slot, turn, wait) {
                    Ok(Some(found)) => return Ok(found),
                    Ok(None) => {}
                    Err(error) => return Err(error),
                }
            }
            let mut buffer = std::mem::take(&mut front.path);
            let found = match name.write_path(&mut buffer) {
                Ok(path) => self.find_afresh(front, name, path, turn, wait),
                Err(error) => Err(error),
            };
            front.path = buffer;
            found
        })
    }

    /// What the thread remembers, if that is still so. `None` where the file changed, or is not kept any more.
    #[inline]
    fn check(&self, slot: &mut Slot, turn: Turn, wait: Wait) -> io::Result<Option<Found>> {
        let Some(known) = &slot.known else { return Ok(None) };
        if slot.turn != turn.number {
            let trusted = match self.check {
                Check::Always => false,
                Check::After(time) => slot.at.is_some_and(|at| turn.now.saturating_duration_since(at) < time),
                Check::Never => known.settled,
            };
            if !trusted {
                // A name that was resolved a moment ago is not worth more than one call, even where that might have to wait.
                let wait = if self.door.is_open() { Wait::Allowed } else { wait };
                match self.door.status(&known.path, wait) {
                    Ok(status) if known.settled && known.stamp == Some(Stamp(status)) => slot.at = Some(turn.now),
                    Ok(_) => return Ok(None),
                    Err(error) if known.stamp.is_none() && error.kind() == io::ErrorKind::NotFound => {
                        slot.at = Some(turn.now);
                    }
                    Err(error) => {
                        if error.kind() != io::ErrorKind::WouldBlock {
                            self.lock().remove(known.hash);
                            slot.known = None;
                        }
                        return Err(error);
                    }
                }
            }
            slot.turn = turn.number;
        }
        if known.stamp.is_none() {
            return Err(Errno::ENOENT.into());
        }
        known.uses.count();
        Ok(known.resource.upgrade().map(Found::File))
    }

    /// Looks at the disk, and at what other threads have read.
    #[inline(never)]
    fn find_afresh(&self, front: &mut Front, name: Name<'_>, path: &CStr, turn: Turn, wait: Wait) -> io::Result<Found> {
        let kept = self.lock().get(name).filter(|(known, _)| known.settled);
        let kept = match kept {
            Some(kept) if self.check == Check::Never => Some(kept),
            kept => {
                let status = match self.door.status(path, wait) {
                    Err(error) if name.coding.is_some() && error.kind() == io::ErrorKind::NotFound => {
                        front.remember(Arc::new(Known::missing(name, path)), turn);
                        return Err(error);
                    }
                    status => status?,
                };
                if status.kind() == FileKind::Directory {
                    return Ok(Found::Directory);
                }
                kept.filter(|(known, _)| known.stamp == Some(Stamp(status)))
            }
        };
        let (known, resource) = match kept {
            Some(kept) => kept,
            None => match self.loader.load(&self.open(path, wait)?, path, name.coding, turn, wait)? {
                None => return Ok(Found::Directory),
                Some(loaded) => self.keep(name, path, loaded),
            },
        };
        front.remember(known, turn);
        Ok(Found::File(resource))
    }

    /// Opens a file. Where no descriptor is left, those that are kept for later are given up.
    fn open(&self, path: &CStr, wait: Wait) -> io::Result<Arc<File>> {
        let opened = match self.door.open(path, wait) {
            Err(error) if matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EMFILE | Errno::ENFILE)) => {
                self.lock().open.clear();
                self.door.open(path, wait)
            }
            opened => opened,
        };
        opened.map(Arc::new)
    }

    fn keep(&self, name: Name<'_>, path: &CStr, loaded: Loaded) -> (Arc<Known>, Arc<Resource>) {
        let Loaded { resource, stamp, settled } = loaded;
        let resource = Arc::new(resource);
        let (stamp, resource_known) = (Some(stamp), Arc::downgrade(&resource));
        let known = Arc::new(Known { stamp, settled, resource: resource_known, ..Known::missing(name, path) });
        let entry = Entry { known: Arc::clone(&known), resource: Arc::clone(&resource) };
        self.lock().insert(entry);
        (known, resource)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn get(&self, name: Name<'_>) -> Option<(Arc<Known>, Arc<Resource>)> {
        let hash = name.hash();
        let entry = self.memory.get(hash).or_else(|| self.open.get(hash)).filter(|entry| entry.known.is(name))?;
        entry.known.uses.count();
        Some((Arc::clone(&entry.known), Arc::clone(&entry.resource)))
    }

    /// Keeps a file in place of what its name meant before.
    fn insert(&mut self, entry: Entry) {
        let hash = entry.known.hash;
        match &entry.resource.content {
            Content::Memory(bytes) => {
                let weight = (bytes.len() + entry.known.path.as_bytes().len() + ENTRY_BYTES) as u64;
                self.open.remove(hash);
                self.memory.insert(hash, entry, weight);
            }
            Content::File(_) => {
                self.memory.remove(hash);
                self.open.insert(hash, entry, 1);
            }
        }
    }

    fn remove(&mut self, hash: u64) {
        self.memory.remove(hash);
        self.open.remove(hash);
    }
}

impl Used for Entry {
    fn uses(&self) -> &Uses {
        &self.known.uses
    }
}

#[cfg(test)]
mod tests;
