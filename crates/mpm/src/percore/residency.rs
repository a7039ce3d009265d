//! Which parts of large files lie in the page cache, so that sendfile(2) does not wait for a disk: asked once, then
//! remembered for a moment, because a file that many clients fetch would otherwise cost a call more each time.

use std::fs::File;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use manifold_sys::page_cache::cached;

/// Bytes that are asked for, remembered and read together; the first is a multiple of as many.
pub(super) const CHUNK: u64 = 256 * 1024;
/// What was in the page cache stays there for so long: it was used, and the kernel evicts what was not used for longest.
const TRUSTED: Duration = Duration::from_secs(1);
/// Files remembered, a power of two. Where two of them share a place both are asked for again and again.
const FILES: usize = 64;
/// Chunks of a file that are remembered, one behind the other.
const CHUNKS: u64 = u128::BITS as u64;

/// What is known of some files.
pub(super) struct Residency {
    files: Vec<Known>,
}

/// Chunks of a file that lay in the page cache since a moment.
struct Known {
    /// The file is not kept open; that it cannot be another one of the same address is all that matters.
    file: Weak<File>,
    /// Number of the first chunk that is remembered.
    first: u64,
    /// One bit a chunk.
    held: u128,
    since: Option<Instant>,
}

impl Residency {
    pub(super) fn new() -> Residency {
        Residency { files: Vec::new() }
    }

    /// How many bytes from the beginning of `part` can be sent without waiting for a disk; bytes behind the end of the file
    /// are among them, as there is no disk to be waited for: sending will tell.
    pub(super) fn ready(&mut self, file: &Arc<File>, part: Range<u64>, now: Instant) -> u64 {
        let known = self.known(file);
        let mut at = part.start;
        while at < part.end {
            let chunk = at / CHUNK;
            let known_to = if known.holds(chunk, now) {
                (chunk + 1) * CHUNK
            } else {
                let looked = cached_to(file, chunk);
                if looked == (chunk + 1) * CHUNK {
                    // Clients at places far from each other do not take theirs from one another.
                    known.add(chunk, now, false);
                }
                looked
            };
            if known_to <= at {
                break;
            }
            at = known_to;
        }
        at.min(part.end) - part.start
    }

    /// Notes that a chunk was read.
    pub(super) fn was_read(&mut self, file: &Arc<File>, chunk: u64, now: Instant) {
        // It is what is asked for next, whatever else is known.
        self.known(file).add(chunk, now, true);
    }

    /// The place of a file; what it held of another one is forgotten.
    fn known(&mut self, file: &Arc<File>) -> &mut Known {
        if self.files.is_empty() {
            self.files.resize_with(FILES, || Known { file: Weak::new(), first: 0, held: 0, since: None });
        }
        let address = Arc::as_ptr(file);
        // Allocations are aligned to 16 bytes and more; what is above tells them apart.
        let place = (address as usize >> 4).wrapping_mul(0x9E37_79B9) >> 16 & (FILES - 1);
        let known = &mut self.files[place];
        if known.file.as_ptr() != address {
            *known = Known { file: Arc::downgrade(file), first: 0, held: 0, since: None };
        }
        known
    }
}

/// Up to where a chunk lies in the page cache; all of it, where the file ends before.
fn cached_to(file: &File, chunk: u64) -> u64 {
    let (mut at, end) = (chunk * CHUNK, (chunk + 1) * CHUNK);
    while at < end {
        match cached(file, at, (end - at) as usize) {
            Ok(0) => return end,
            Ok(bytes) => at += bytes as u64,
            // Not there, or nobody knows: it has to be read.
            Err(_) => return at,
        }
    }
    end
}

impl Known {
    fn holds(&self, chunk: u64, now: Instant) -> bool {
        let bit = chunk.wrapping_sub(self.first);
        bit < CHUNKS && self.held >> bit & 1 == 1 && self.is_fresh(now)
    }

    fn is_fresh(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) < TRUSTED)
    }

    /// Remembers a chunk; one that is too far from what is trusted only where it has to be.
    fn add(&mut self, chunk: u64, now: Instant, has_to: bool) {
        let near = chunk.wrapping_sub(self.first) < CHUNKS;
        let fresh = self.is_fresh(now);
        if !fresh || !near && has_to {
            (self.first, self.held, self.since) = (chunk - chunk % CHUNKS, 0, Some(now));
        } else if !near {
            return;
        }
        self.held |= 1 << (chunk - self.first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

    const SIZE: u64 = (CHUNKS + 2) * CHUNK + 5;

    /// A file without a name beside the test program, which is not on a file system in memory.
    fn file() -> Arc<File> {
        let program = std::env::current_exe().unwrap();
        let path = program.with_file_name(format!("residency-{:?}", std::thread::current().id()));
        std::fs::write(&path, vec![b'x'; SIZE as usize]).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        Arc::new(file)
    }

    /// Sees to it that nothing of a file is in memory; `false` where this file system does not let go, or cannot tell.
    fn forget(file: &File) -> bool {
        file.sync_all().unwrap();
        posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
        matches!(cached(file, SIZE / 2, 1), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }

    #[test]
    fn what_is_in_memory_is_ready_and_what_is_on_the_disk_is_not() {
        let (file, now) = (file(), Instant::now());
        let mut residency = Residency::new();
        if !forget(&file) {
            return eprintln!("skipped: this file system keeps everything in memory");
        }
        // Asking has the kernel read ahead, so that no part is asked for twice while it is not there.
        assert_eq!(residency.ready(&file, SIZE - 4096..SIZE, now), 0);
        assert!(forget(&file));
        assert_eq!(residency.ready(&file, CHUNK..CHUNK + 10, now), 0);
        file.read_exact_at(&mut vec![0; 2 * CHUNK as usize], CHUNK).unwrap();
        assert_eq!(residency.ready(&file, CHUNK..3 * CHUNK, now), 2 * CHUNK);
        assert_eq!(residency.ready(&file, CHUNK + 5..2 * CHUNK + 7, now), CHUNK + 2);
        // What lies behind the end of the file does not lie on the disk.
        file.read_exact_at(&mut [0; 5], SIZE - 5).unwrap();
        assert_eq!(residency.ready(&file, SIZE - 1..SIZE + 10, now), 11);
    }

    #[test]
    fn what_was_found_is_trusted_for_a_moment() {
        let (one, other, now) = (file(), file(), Instant::now());
        let mut residency = Residency::new();
        residency.was_read(&one, 1, now);
        if !forget(&one) {
            return eprintln!("skipped: this file system keeps everything in memory");
        }
        // Part, moment, and what is ready of it without another look.
        for (part, moment, ready) in [
            (CHUNK..2 * CHUNK, now, CHUNK),
            (CHUNK + 400..2 * CHUNK - 1, now, CHUNK - 401),
            (2 * CHUNK - 1..2 * CHUNK, now + TRUSTED / 2, 1),
        ] {
            assert_eq!(residency.ready(&one, part.clone(), moment), ready, "{part:?}");
        }
        residency.was_read(&other, 0, now);
        residency.was_read(&one, 0, now);
        assert_eq!(residency.ready(&one, 0..2 * CHUNK, now), 2 * CHUNK);
        residency.was_read(&one, CHUNKS, now);
        assert_eq!(
            residency.ready(&one, CHUNKS * CHUNK..CHUNKS * CHUNK + 1, now),
            1,
            "what was read is asked for next"
        );
        assert!(forget(&one));
        let later = now + TRUSTED;
        assert_eq!(residency.ready(&one, CHUNKS * CHUNK..SIZE, later), 0, "not trusted any more");
    }
}
