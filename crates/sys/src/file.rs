//! What stands under a name, in one call and without allocation, and reading that does not wait for a disk.
//!
//! The standard library's metadata leaves out nothing that is needed here, but costs three times the instructions, and a
//! file's state is looked at for every request.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// What the kernel says of a file at one moment: all that tells one state of it from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// The file system: major number in the upper half, minor in the lower.
    pub device: u64,
    /// Its number in that file system.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Last change of its content: seconds since the Unix epoch, nanoseconds. Anybody who may write can set it.
    pub modified: (i64, u32),
    /// Last change of content, owner, mode, name or time stamps. Nobody can set it.
    pub changed: (i64, u32),
    /// User who owns it.
    pub owner: u32,
    /// Kind and permissions.
    pub mode: u16,
}

/// The kinds of files that a server tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Anything else: a device, a pipe, a socket.
    Other,
}

impl FileStatus {
    /// Its kind.
    pub fn kind(&self) -> FileKind {
        match u32::from(self.mode) & libc::S_IFMT {
            libc::S_IFREG => FileKind::Regular,
            libc::S_IFDIR => FileKind::Directory,
            libc::S_IFLNK => FileKind::Link,
            _ => FileKind::Other,
        }
    }
}

/// What stands under `path`, at the end of all symbolic links: statx(2).
///
/// # Errors
/// The call's error.
#[inline]
pub fn status(path: &CStr) -> io::Result<FileStatus> {
    statx(libc::AT_FDCWD, path, 0)
}

/// The status of an open file, which may be open by name only (`O_PATH`), be it a symbolic link itself.
///
/// # Errors
/// The call's error.
pub fn status_of(file: &impl AsFd) -> io::Result<FileStatus> {
    statx(file.as_fd().as_raw_fd(), c"", libc::AT_EMPTY_PATH)
}

/// Reads from `offset` what lies in the page cache, at most as much as `buffer` holds. Less than that is the end of the file or
/// of what is cached: preadv2(2) with `RWF_NOWAIT`.
///
/// # Errors
/// `WouldBlock` where a disk would have to be waited for at once; `EOPNOTSUPP` where the file system cannot tell.
pub fn read_cached(file: &impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let slice = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: the one slice describes `buffer`, which is borrowed mutably and outlives the call.
    let read = unsafe { libc::preadv2(file.as_fd().as_raw_fd(), &raw const slice, 1, offset, libc::RWF_NOWAIT) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

#[inline]
fn statx(directory: RawFd, path: &CStr, flags: libc::c_int) -> io::Result<FileStatus> {
    let mut status = MaybeUninit::<libc::statx>::uninit();
    // SAFETY: `path` ends with a NUL and outlives the call; `status` is writable and as large as the kernel expects.
    let result = unsafe { libc::statx(directory, path.as_ptr(), flags, libc::STATX_BASIC_STATS, status.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, and a kernel that does fills in the whole structure.
    let status = unsafe { status.assume_init_ref() };
    Ok(FileStatus {
        device: u64::from(status.stx_dev_major) << 32 | u64::from(status.stx_dev_minor),
        inode: status.stx_ino,
        size: status.stx_size,
        modified: (status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec),
        changed: (status.stx_ctime.tv_sec, status.stx_ctime.tv_nsec),
        owner: status.stx_uid,
        mode: status.stx_mode,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};

    #[test]
    fn status_is_what_the_standard_library_says() {
        let folder = std::env::temp_dir().join(format!("manifold-sys-file-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("page"), "twelve bytes").unwrap();
        symlink("page", folder.join("link")).unwrap();
        let check = |name: &str, kind: FileKind| {
            let path = folder.join(name);
            let metadata = fs::metadata(&path).unwrap();
            let status = status(&CString::new(path.into_os_string().into_encoded_bytes()).unwrap()).unwrap();
            assert_eq!((status.inode, status.size, status.owner), (metadata.ino(), metadata.size(), metadata.uid()));
            assert_eq!(status.modified, (metadata.mtime(), u32::try_from(metadata.mtime_nsec()).unwrap()));
            assert_eq!(status.changed, (metadata.ctime(), u32::try_from(metadata.ctime_nsec()).unwrap()));
            assert_eq!((u32::from(status.mode), status.kind()), (metadata.mode(), kind), "{name}");
        };
        check("page", FileKind::Regular);
        check("link", FileKind::Regular);
        check(".", FileKind::Directory);
        let by_name =
            File::options().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(folder.join("link"));
        assert_eq!(status_of(&by_name.unwrap()).unwrap().kind(), FileKind::Link);
        assert_eq!(status(c"/dev/null").unwrap().kind(), FileKind::Other);
        assert_eq!(status(c"/there is no such file").unwrap_err().kind(), io::ErrorKind::NotFound);

        let page = File::open(folder.join("page")).unwrap();
        let mut buffer = [0; 32];
        // It was just written, so that it lies in the page cache.
        assert_eq!(read_cached(&page, &mut buffer, 7).unwrap(), 5);
        assert_eq!(&buffer[..6], b"bytes\0");
        assert_eq!(read_cached(&page, &mut buffer, 12).unwrap(), 0);
        fs::remove_dir_all(folder).unwrap();
    }
}
