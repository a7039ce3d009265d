//! What the page cache holds of a file.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use libc::{c_int, off_t};

/// Bytes that are copied to the same place again and again: it stays in the processor's first cache.
const SCRAP: usize = 8 * 1024;
/// Pieces of one call.
const PIECES: usize = 128;

/// The most that one call of [`cached`] tells of, in bytes.
pub const CACHED_MAX: usize = SCRAP * PIECES;

/// How many of the `length` bytes from `offset` on can be read without waiting for a disk, counted up to the first that
/// cannot, or to the end of the file: then `Ok(0)`. At most [`CACHED_MAX`] are looked at. What is missing is likely to be read
/// ahead by the kernel from now on. See preadv2(2), `RWF_NOWAIT`.
///
/// # Errors
/// `WouldBlock` when not even the first byte is there; `Unsupported` on file systems that cannot tell; a read error.
pub fn cached(file: &File, offset: u64, length: usize) -> io::Result<usize> {
    let mut scrap = MaybeUninit::<[u8; SCRAP]>::uninit();
    let length = length.min(CACHED_MAX);
    let mut pieces = [libc::iovec { iov_base: scrap.as_mut_ptr().cast(), iov_len: SCRAP }; PIECES];
    let count = length.div_ceil(SCRAP);
    if !length.is_multiple_of(SCRAP) {
        pieces[count - 1].iov_len = length % SCRAP;
    }
    let offset = off_t::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the first `count` pieces, at most all of them, name `scrap`, which outlives the call and is written to by
    // nobody else; none is longer than it. That they name the same bytes means only that the last writer wins, and nobody
    // reads them.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), pieces.as_ptr(), count as c_int, offset, libc::RWF_NOWAIT) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_just_written_is_there_and_what_is_behind_the_end_is_not() {
        let path = std::env::temp_dir().join(format!("manifold-cached-{}", std::process::id()));
        std::fs::write(&path, vec![b'x'; CACHED_MAX + 1]).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        if let Err(error) = cached(&file, 0, 1) {
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            return eprintln!("skipped: this file system cannot tell");
        }
        let all = CACHED_MAX as u64 + 1;
        for (offset, length, expected) in [
            (0, 0, 0),
            (0, 1, 1),
            (1, SCRAP, SCRAP),
            (0, 3 * SCRAP + 7, 3 * SCRAP + 7),
            (0, usize::MAX, CACHED_MAX),
            (all - 5, SCRAP, 5),
            (all, SCRAP, 0),
            (all + 5, SCRAP, 0),
        ] {
            assert_eq!(cached(&file, offset, length).unwrap(), expected, "{length} bytes from {offset}");
        }
        assert_eq!(cached(&file, u64::MAX, 1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
