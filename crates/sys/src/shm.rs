//! Memory that a parent and its children share: an array of atomic words, and nothing else. It can hold no pointer, no
//! lock and no padding, so that whatever a dying child leaves behind is a valid value for everyone else.

use std::io;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// An array of atomic words, shared with every process forked after its creation. All words start at 0.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    words: usize,
}

impl SharedWords {
    /// Maps `words` words, at least one.
    ///
    /// # Errors
    /// The error of mmap(2), such as `ENOMEM`.
    pub fn new(words: usize) -> io::Result<SharedWords> {
        let words = words.max(1);
        let bytes = words.checked_mul(size_of::<AtomicU64>()).and_then(NonZeroUsize::new);
        let bytes = bytes.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // SAFETY: a fresh anonymous mapping overlaps nothing; it stays mapped until this value is dropped.
        let start =
            unsafe { mmap_anonymous(None, bytes, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED) }?;
        Ok(SharedWords { start: start.cast(), words })
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, holds `words` words, is zeroed by the kernel (a valid AtomicU64) and lives
        // as long as `self`; all access by any process goes through atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped; no reference outlives `self`.
        let unmapped = unsafe { munmap(self.start.cast(), self.words * size_of::<AtomicU64>()) };
        debug_assert!(unmapped.is_ok());
    }
}

// SAFETY: the value is an address of memory that is only read and written through atomics; moving it between threads is harmless.
unsafe impl Send for SharedWords {}
// SAFETY: as above; `&SharedWords` gives nothing but `&[AtomicU64]`, which is Sync.
unsafe impl Sync for SharedWords {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn words_start_at_zero_and_keep_what_is_stored() {
        let words = SharedWords::new(1000).unwrap();
        assert_eq!(words.len(), 1000);
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        words[999].store(7, Ordering::Relaxed);
        assert_eq!(words[999].load(Ordering::Relaxed), 7);
    }
}
