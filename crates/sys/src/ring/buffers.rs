//! The provided-buffer ring: memory that the kernel fills when bytes arrive, so that an idle connection holds no buffer.
//!
//! The kernel fills buffers in turns, so that all it was ever given take memory however little is received. It is given a few
//! at first, and more when they were not enough at a time.

use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// The only group of buffers that a ring has.
pub(super) const GROUP: u16 = 0;

/// Buffers that the kernel has from the start.
const FIRST: u16 = 16;

/// A private mapping, page-aligned and zeroed.
struct Mapping {
    start: NonNull<u8>,
    bytes: NonZeroUsize,
}

impl Mapping {
    fn new(bytes: usize) -> io::Result<Mapping> {
        let bytes = NonZeroUsize::new(bytes).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: a fresh anonymous mapping overlaps nothing that exists.
        let start = unsafe {
            mmap_anonymous(None, bytes, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE)
        }?;
        Ok(Mapping { start: start.cast(), bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped; whoever drops a Mapping has made sure that neither a reference nor
        // the kernel uses it any more.
        let unmapped = unsafe { munmap(self.start.cast(), self.bytes.get()) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Buffers of one size. Each is either the kernel's (in the ring), or lent to the reader of an event, or was never used.
pub(super) struct Buffers {
    ring: Mapping,
    data: Mapping,
    count: u16,
    /// Those that are in use; the others have no memory.
    used: u16,
    size: u32,
    tail: u16,
    with_kernel: Vec<bool>,
}

impl Buffers {
    /// Maps `count` buffers of `size` bytes, registers them and hands the first of them to the kernel. `count` is a power of
    /// two of at most 32768.
    pub(super) fn register(submitter: &Submitter<'_>, count: u16, size: u32) -> io::Result<Buffers> {
        if !count.is_power_of_two() || size == 0 {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let ring = Mapping::new(usize::from(count) * size_of::<BufRingEntry>())?;
        let data = Mapping::new(usize::from(count) * size as usize)?;
        let with_kernel = vec![false; usize::from(count)];
        let mut buffers = Buffers { ring, data, count, used: 0, size, tail: 0, with_kernel };
        // SAFETY: the mapping holds `count` zeroed entries, is page-aligned, and is unmapped only when `Buffers` is dropped,
        // which the ring does after the kernel has let go of it (or never, see `Ring::drop`).
        unsafe {
            submitter.register_buf_ring_with_flags(buffers.ring.start.as_ptr() as u64, count, GROUP, 0)?;
        }
        buffers.grow();
        Ok(buffers)
    }

    /// How many are in use.
    pub(super) fn used(&self) -> u16 {
        self.used
    }

    /// Puts as many again to use, as far as there are any.
    pub(super) fn grow(&mut self) {
        let used = self.used.saturating_mul(2).max(FIRST).min(self.count);
        for id in self.used..used {
            self.give_back(id);
        }
        self.used = used;
    }

    /// Hands buffer `id` to the kernel.
    ///
    /// # Panics
    /// When the kernel has it already: two receives would fill the same memory.
    pub(super) fn give_back(&mut self, id: u16) {
        let with_kernel = &mut self.with_kernel[usize::from(id)];
        assert!(!*with_kernel, "the kernel has buffer {id} already");
        *with_kernel = true;
        let slot = usize::from(self.tail & (self.count - 1));
        let entries = self.ring.start.cast::<BufRingEntry>();
        // SAFETY: `slot` is below `count`, the number of entries mapped. The kernel reads an entry only after the tail has
        // passed it (the store below), so nobody else accesses this one now. Its tail field, which shares memory with the
        // first entry's unused part, is not touched by the three setters.
        unsafe {
            let entry = &mut *entries.add(slot).as_ptr();
            entry.set_addr(self.data.start.as_ptr() as u64 + u64::from(id) * u64::from(self.size));
            entry.set_len(self.size);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is an aligned u16 inside the mapped first entry, shared with the kernel, which only reads it;
        // it is written nowhere but here.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries.as_ptr()).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    /// Notes that the kernel has filled buffer `id` and let go of it.
    ///
    /// # Panics
    /// When the kernel did not have it: the kernel broke its contract and no memory can be trusted.
    pub(super) fn taken(&mut self, id: u16) {
        let with_kernel = &mut self.with_kernel[usize::from(id)];
        assert!(*with_kernel, "the kernel filled buffer {id}, which it did not have");
        *with_kernel = false;
    }

    /// The first `len` bytes of a buffer that is not the kernel's.
    ///
    /// # Panics
    /// When the kernel has the buffer, or it is shorter than `len`.
    pub(super) fn bytes(&self, id: u16, len: usize) -> &[u8] {
        assert!(!self.with_kernel[usize::from(id)] && len <= self.size as usize, "buffer {id} is not ours to read");
        // SAFETY: the range lies in buffer `id` of the mapping (both asserted), is initialised (zeroed at first), and the
        // kernel does not write to it until `give_back`, which needs `&mut self` and so ends this borrow.
        unsafe {
            let start = self.data.start.add(usize::from(id) * self.size as usize);
            std::slice::from_raw_parts(start.as_ptr(), len)
        }
    }
}
