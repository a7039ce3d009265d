//! Files as they stand at this moment: looked up afresh on every request, read again only when they changed.
//!
//! What is kept of a file is valid for a request when a look-up that was made after the request had been received finds
//! the same file: same device, inode, size, modification and change time. One look-up serves all requests of a turn,
//! because all of them were received before it. A file that changed only just before it was read may change again within
//! the resolution of its time stamps ([`SETTLED_AFTER`]); it is served, and read again the next time.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::hash::BuildHasherDefault;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use manifold_engine::request::{Content, Found, Resource};
use manifold_engine::transport::Turn;

use crate::name_hash::NameHasher;

/// Files up to this many bytes are kept in memory; larger ones are kept open and sent by the kernel.
pub const MEMORY_MAX: u64 = 32 * 1024;
/// Bytes of all files that one process keeps in memory.
const MEMORY_TOTAL_MAX: u64 = 8 * 1024 * 1024;
/// Names that one process keeps, and thereby files it keeps open.
const NAMES_MAX: usize = 512;
/// A change time is trusted once it is this old: the kernel's clock for time stamps ticks every few milliseconds.
const SETTLED_AFTER: Duration = Duration::from_millis(100);
/// The same on file systems that keep whole seconds, or two of them.
const SETTLED_AFTER_COARSE: Duration = Duration::from_secs(3);

/// What one process knows of the files it serves. Bounded; when it is full it is emptied and fills again with what is in
/// use, which costs one read a file.
#[derive(Debug, Default)]
pub struct FileCache {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    names: HashMap<Vec<u8>, Known, BuildHasherDefault<NameHasher>>,
    memory: u64,
}

#[derive(Debug)]
struct Known {
    stamp: Stamp,
    found: Found,
    /// The turn in which the stamp was last compared with the file system.
    checked: u64,
    settled: bool,
}

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileCache {
    /// What stands under `name` now.
    ///
    /// # Errors
    /// The error of the look-up or of opening: `NotFound`, `PermissionDenied`, `NotADirectory` and so on;
    /// `PermissionDenied` for what is neither file nor directory.
    pub fn look_up(&self, name: &[u8], turn: Turn) -> io::Result<Found> {
        if let Some(found) = self.checked_in(name, turn.number) {
            return Ok(found);
        }
        let path = Path::new(OsStr::from_bytes(name));
        let stamp = Stamp::of(&path.metadata()?);
        if let Some(found) = self.unchanged(name, &stamp, turn.number) {
            return Ok(found);
        }
        let (stamp, found, settled) = load(path, turn)?;
        self.keep(name, Known { stamp, found: found.clone(), checked: turn.number, settled });
        Ok(found)
    }

    fn checked_in(&self, name: &[u8], this_turn: u64) -> Option<Found> {
        let inner = self.lock();
        let known = inner.names.get(name)?;
        (known.checked == this_turn).then(|| known.found.clone())
    }

    fn unchanged(&self, name: &[u8], stamp: &Stamp, this_turn: u64) -> Option<Found> {
        let mut inner = self.lock();
        let known = inner.names.get_mut(name)?;
        if known.stamp != *stamp || !known.settled {
            return None;
        }
        known.checked = this_turn;
        Some(known.found.clone())
    }

    fn keep(&self, name: &[u8], known: Known) {
        let mut inner = self.lock();
        if inner.names.len() >= NAMES_MAX || inner.memory + known.memory() > MEMORY_TOTAL_MAX {
            inner.names.clear();
            inner.memory = 0;
        }
        inner.memory += known.memory();
        if let Some(before) = inner.names.insert(name.to_vec(), known) {
            inner.memory -= before.memory();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn memory(&self) -> u64 {
        match &self.found {
            Found::File(resource) if matches!(resource.content, Content::Memory(_)) => resource.size,
            _ => 0,
        }
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether the file has been left alone long enough for its time stamps to tell the next change. The change time alone
    /// decides: nobody can set it, and every change of content moves it.
    fn settled_at(&self, wall: Duration) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds)) else { return false };
        let long_enough = if nanoseconds == 0 { SETTLED_AFTER_COARSE } else { SETTLED_AFTER };
        wall.checked_sub(Duration::new(seconds, nanoseconds)).is_some_and(|age| age >= long_enough)
    }
}

/// Opens and reads what stands under `path`.
fn load(path: &Path, turn: Turn) -> io::Result<(Stamp, Found, bool)> {
    // Opening must not wait for the other end of a pipe.
    let mut file = File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    let stamp = Stamp::of(&metadata);
    if metadata.is_dir() {
        return Ok((stamp, Found::Directory, stamp.settled_at(turn.wall)));
    }
    if !metadata.is_file() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut settled = stamp.settled_at(turn.wall);
    let mut size = stamp.size;
    let content = if size <= MEMORY_MAX {
        let mut bytes = Vec::with_capacity(size as usize + 1);
        (&mut file).take(MEMORY_MAX).read_to_end(&mut bytes)?;
        // Written to while it was read: what was read is served once and not kept.
        settled &= bytes.len() as u64 == size && Stamp::of(&file.metadata()?) == stamp;
        size = bytes.len() as u64;
        Content::Memory(bytes.into())
    } else {
        Content::File(Arc::new(file))
    };
    let modified = u64::try_from(stamp.modified.0).unwrap_or(0);
    let resource = Resource::new(content, size, Some(modified), &etag(&stamp, size, settled));
    Ok((stamp, Found::File(Arc::new(resource)), settled))
}

/// The entity tag as Apache renders it (`FileETag MTime Size`: size and microseconds, in hexadecimal). It is weak while the
/// file may change again without its time stamps telling.
fn etag(stamp: &Stamp, size: u64, settled: bool) -> Vec<u8> {
    let seconds = u64::try_from(stamp.modified.0).unwrap_or(0);
    let microseconds = seconds.wrapping_mul(1_000_000).wrapping_add(stamp.modified.1.unsigned_abs() / 1000);
    let weak = if settled { "" } else { "W/" };
    format!("{weak}\"{size:x}-{microseconds:x}\"").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;
    use std::time::Instant;

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("manifold-file-cache-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn name(&self, file: &str) -> Vec<u8> {
            self.0.join(file).into_os_string().into_encoded_bytes()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// Turn `number`, an hour from now: files made by the test have settled by then.
    fn turn(number: u64) -> Turn {
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Turn { number, now: Instant::now(), wall: wall + Duration::from_secs(3600) }
    }

    fn bytes(found: &Found) -> Vec<u8> {
        match found {
            Found::File(resource) => match &resource.content {
                Content::Memory(bytes) => bytes.to_vec(),
                Content::File(file) => {
                    let mut bytes = Vec::new();
                    file.as_ref().read_to_end(&mut bytes).unwrap();
                    bytes
                }
            },
            other => panic!("expected a file, not {other:?}"),
        }
    }

    #[test]
    fn a_changed_file_is_served_as_it_is_now() {
        let folder = Folder::new("changed");
        let (cache, name) = (FileCache::default(), folder.name("page"));
        for (number, text) in ["first", "other", "longer than before", ""].into_iter().enumerate() {
            // A new file under the same name: whatever the clock's resolution, its inode or its change time differ.
            fs::write(folder.0.join("new"), text).unwrap();
            fs::rename(folder.0.join("new"), folder.0.join("page")).unwrap();
            assert_eq!(bytes(&cache.look_up(&name, turn(number as u64 + 1)).unwrap()), text.as_bytes());
        }
        fs::remove_file(folder.0.join("page")).unwrap();
        assert_eq!(cache.look_up(&name, turn(9)).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn an_unchanged_file_is_read_once_and_a_fresh_one_every_time() {
        let folder = Folder::new("unchanged");
        let (cache, name) = (FileCache::default(), folder.name("page"));
        fs::write(folder.0.join("page"), "text").unwrap();
        let address = |turn| match cache.look_up(&name, turn).unwrap() {
            Found::File(resource) => Arc::as_ptr(&resource),
            other => panic!("expected a file, not {other:?}"),
        };
        assert_eq!(address(turn(1)), address(turn(2)));
        let mut fresh = turn(3);
        let changed = fs::metadata(folder.0.join("page")).unwrap();
        fresh.wall = Duration::new(changed.ctime() as u64, changed.ctime_nsec() as u32 + 1000);
        let other = FileCache::default();
        let first = other.look_up(&name, fresh).unwrap();
        fresh.number += 1;
        let second = other.look_up(&name, fresh).unwrap();
        match (first, second) {
            (Found::File(first), Found::File(second)) => {
                assert!(!Arc::ptr_eq(&first, &second));
                assert!(String::from_utf8_lossy(first.validators()).contains("\r\nETag: W/\"4-"));
            }
            other => panic!("expected two files, not {other:?}"),
        }
    }

    #[test]
    fn small_files_are_kept_in_memory_large_ones_open_and_pipes_refused() {
        let folder = Folder::new("kinds");
        let cache = FileCache::default();
        let large = vec![b'x'; MEMORY_MAX as usize + 1];
        fs::write(folder.0.join("large"), &large).unwrap();
        assert_eq!(bytes(&cache.look_up(&folder.name("large"), turn(1)).unwrap()), large);
        assert!(matches!(cache.look_up(&folder.name("."), turn(2)).unwrap(), Found::Directory));
        nix::unistd::mkfifo(&folder.0.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(cache.look_up(&folder.name("pipe"), turn(3)).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_full_cache_starts_again_instead_of_growing() {
        let folder = Folder::new("full");
        let cache = FileCache::default();
        for number in 0..=NAMES_MAX {
            fs::write(folder.0.join(number.to_string()), "x").unwrap();
            cache.look_up(&folder.name(&number.to_string()), turn(number as u64 + 1)).unwrap();
        }
        assert_eq!(cache.lock().names.len(), 1);
        assert_eq!(cache.lock().memory, 1);
    }
}
