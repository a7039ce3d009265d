//! From a name to a file under the rules for symbolic links (`Options FollowSymLinks`, `SymLinksIfOwnerMatch`), without a
//! moment between the check and the use.
//!
//! Where links are followed freely, a name is a name. Otherwise what is checked is what was opened: the kernel refuses links
//! while it resolves the name (openat2(2)), or each step is a descriptor whose owner is compared, and the next step starts from
//! there. The document root itself is the administrator's word, and may be reached through links.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};

use manifold_sys::file::{self, FileKind, FileStatus};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat};
use nix::sys::stat::Mode;

/// Which symbolic links below the document root are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// All of them (`Options FollowSymLinks`).
    #[default]
    Follow,
    /// Those whose owner owns what they lead to (`SymLinksIfOwnerMatch`).
    OwnerMatch,
    /// None.
    Refuse,
}

/// Whether a call may wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// As long as it takes.
    Allowed,
    /// Only what the kernel has at hand is asked for.
    Never,
}

/// The way to files.
#[derive(Debug)]
pub(super) struct Door {
    links: Links,
    root: PathBuf,
    /// How often, lately and without an exception, the kernel did not know a name that it had resolved just before.
    forgotten: AtomicU8,
}

/// After so many it is clear that this file system's names are never at hand, as those of some network file systems.
const FORGOTTEN_MAX: u8 = 8;

/// Only what the kernel has at hand is asked for; nix has no name for it yet.
const RESOLVE_CACHED: ResolveFlag = ResolveFlag::from_bits_retain(nix::libc::RESOLVE_CACHED);

impl Door {
    /// The way to files below `root`.
    pub(super) fn new(links: Links, root: PathBuf) -> Door {
        Door { links, root, forgotten: AtomicU8::new(0) }
    }

    /// What stands under `path`.
    ///
    /// # Errors
    /// `WouldBlock` where a disk would have to be waited for; `ELOOP` for a link that is not to be followed; otherwise the
    /// call's error.
    #[inline]
    pub(super) fn status(&self, path: &CStr, wait: Wait) -> io::Result<FileStatus> {
        if self.links == Links::Follow && wait == Wait::Allowed {
            return file::status(path);
        }
        file::status_of(&self.enter(path, OFlag::O_PATH, wait)?)
    }

    /// Opens what stands under `path` for reading, without waiting for the other end of a pipe.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub(super) fn open(&self, path: &CStr, wait: Wait) -> io::Result<File> {
        self.enter(path, OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY, wait).map(File::from)
    }

    /// Whether the state of a file that is known already can be asked for by its name alone.
    pub(super) fn is_open(&self) -> bool {
        self.links == Links::Follow
    }

    /// Learns whether the kernel keeps names at hand, from one that was resolved just now. Where it does not, waiting for them
    /// somewhere else would have to be repeated without end.
    pub(super) fn learn(&self, path: &CStr) {
        let forgotten =
            matches!(self.status(path, Wait::Never), Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        let before = self.forgotten.load(Ordering::Relaxed);
        if before < FORGOTTEN_MAX {
            self.forgotten.store(if forgotten { before + 1 } else { 0 }, Ordering::Relaxed);
        }
    }

    fn enter(&self, path: &CStr, flags: OFlag, wait: Wait) -> io::Result<OwnedFd> {
        let flags = flags | OFlag::O_CLOEXEC;
        let wait = if self.forgotten.load(Ordering::Relaxed) < FORGOTTEN_MAX { wait } else { Wait::Allowed };
        let cached = if wait == Wait::Never { RESOLVE_CACHED } else { ResolveFlag::empty() };
        if self.links == Links::Follow {
            return Ok(match wait {
                Wait::Allowed => openat(AT_FDCWD, path, flags, Mode::empty())?,
                Wait::Never => match openat2(AT_FDCWD, path, how(flags, cached)) {
                    Err(Errno::ENOSYS | Errno::EPERM) => openat(AT_FDCWD, path, flags, Mode::empty())?,
                    opened => opened?,
                },
            });
        }
        let Some(below) = self.below_root(path.to_bytes()) else { return Err(io::ErrorKind::PermissionDenied.into()) };
        let root = openat(AT_FDCWD, &self.root, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        let strict = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | cached;
        match openat2(&root, OsStr::from_bytes(below), how(flags, strict)) {
            Err(Errno::ELOOP) if self.links == Links::OwnerMatch => self.walk(root, below, flags),
            // An old kernel, or one that a sandbox keeps from us.
            Err(Errno::ENOSYS | Errno::EPERM) => self.walk(root, below, flags),
            opened => Ok(opened?),
        }
    }

    /// What follows the document root; `.` is the root itself.
    fn below_root<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        let root = self.root.as_os_str().as_bytes();
        let below = path.strip_prefix(root.strip_suffix(b"/").unwrap_or(root))?;
        let below = match below {
            [] => below,
            [b'/', below @ ..] => below,
            _ => return None,
        };
        Some(if below.is_empty() { b"." } else { below })
    }

    /// Goes from directory to directory, holding each. Names are normalised: none of them is `..`.
    fn walk(&self, root: OwnedFd, below: &[u8], flags: OFlag) -> io::Result<OwnedFd> {
        let by_name = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut at = root;
        let mut names =
            below.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).map(OsStr::from_bytes).peekable();
        while let Some(name) = names.next() {
            let wanted = if names.peek().is_none() { flags } else { OFlag::O_PATH | OFlag::O_CLOEXEC };
            let step = openat(&at, name, by_name, Mode::empty())?;
            let status = file::status_of(&step)?;
            at = if status.kind() == FileKind::Link {
                self.follow(&at, &step, &status, wanted)?
            } else if wanted.contains(OFlag::O_PATH) {
                step
            } else {
                // By its name once more: a link that stands there by now is not followed.
                openat(&at, name, wanted | OFlag::O_NOFOLLOW, Mode::empty())?
            };
        }
        Ok(at)
    }

    /// Opens what `link`, which stands in `directory`, leads to, if both have the same owner. Links on the way there are followed,
    /// as in Apache: what counts is who owns the beginning and the end. The way is read from the very link whose owner is
    /// compared, and the owner of the end is that of the file that was opened.
    fn follow(&self, directory: &OwnedFd, link: &OwnedFd, status: &FileStatus, flags: OFlag) -> io::Result<OwnedFd> {
        if self.links == Links::Refuse {
            return Err(Errno::ELOOP.into());
        }
        let target = readlinkat(link, c"")?;
        let opened = match openat2(directory, target.as_os_str(), how(flags, ResolveFlag::RESOLVE_NO_MAGICLINKS)) {
            Err(Errno::ENOSYS | Errno::EPERM) => openat(directory, target.as_os_str(), flags, Mode::empty())?,
            opened => opened?,
        };
        if file::status_of(&opened.as_fd())?.owner != status.owner {
            return Err(Errno::ELOOP.into());
        }
        Ok(opened)
    }
}

fn how(flags: OFlag, resolve: ResolveFlag) -> OpenHow {
    OpenHow::new().flags(flags).resolve(resolve)
}
