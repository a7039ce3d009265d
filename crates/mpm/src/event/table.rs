//! A table that grows by chunks: entries are made when they are first asked for and never move, so that they are reached
//! without a lock, and a process that holds few connections is small however many it may hold.

use std::sync::OnceLock;

/// Entries of the first chunk. The next ones are twice as large each, up to `CHUNK_MAX`.
const CHUNK_MIN: usize = 64;
/// Entries of most chunks of a large table.
const CHUNK_MAX: usize = 1024;
/// Chunks below that size, and their entries.
const GROWING: usize = (CHUNK_MAX / CHUNK_MIN).trailing_zeros() as usize;
const IN_GROWING: usize = CHUNK_MAX - CHUNK_MIN;

/// Entries by number.
#[derive(Debug)]
pub(crate) struct Table<T> {
    chunks: Box<[OnceLock<Box<[T]>>]>,
}

impl<T: Default> Table<T> {
    /// Room for at least `most` entries, none of which is made yet.
    pub fn new(most: usize) -> Table<T> {
        let chunks = GROWING + most.saturating_sub(IN_GROWING).div_ceil(CHUNK_MAX);
        Table { chunks: (0..chunks).map(|_| OnceLock::new()).collect() }
    }

    /// The entry of that number, which is below `most`.
    pub fn at(&self, index: usize) -> &T {
        let (chunk, size, within) = place(index);
        &self.chunks[chunk].get_or_init(|| (0..size).map(|_| T::default()).collect())[within]
    }

    /// The entries made so far, with their numbers, when the lower were asked for first.
    pub fn made(&self) -> impl Iterator<Item = (usize, &T)> {
        self.chunks.iter().map_while(OnceLock::get).flatten().enumerate()
    }
}

/// The chunk of an entry, how many entries that has, and the entry's place among them.
fn place(index: usize) -> (usize, usize, usize) {
    if index >= IN_GROWING {
        let beyond = index - IN_GROWING;
        return (GROWING + beyond / CHUNK_MAX, CHUNK_MAX, beyond % CHUNK_MAX);
    }
    // Chunk n begins with entry (2^n - 1) * CHUNK_MIN.
    let chunk = (index / CHUNK_MIN + 1).ilog2() as usize;
    let size = CHUNK_MIN << chunk;
    (chunk, size, index + CHUNK_MIN - size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn every_entry_has_one_place() {
        let (mut chunk, mut within) = (0, 0);
        for index in 0..5 * CHUNK_MAX {
            let (at, size, place) = place(index);
            if at != chunk {
                (chunk, within) = (chunk + 1, 0);
            }
            assert_eq!((at, place), (chunk, within), "entry {index}");
            assert!(place < size && size <= CHUNK_MAX);
            within += 1;
        }
    }

    #[test]
    fn it_grows_by_chunks_whose_entries_stay_where_they_are() {
        const ENTRIES: usize = IN_GROWING + CHUNK_MAX + 1;
        let table: Table<AtomicUsize> = Table::new(ENTRIES);
        assert_eq!(table.made().count(), 0, "an idle process is small");
        let first = table.at(0);
        assert_eq!(table.made().count(), CHUNK_MIN);
        thread::scope(|scope| {
            for start in 0..3 {
                let table = &table;
                scope.spawn(move || {
                    for index in (start..ENTRIES).step_by(3) {
                        table.at(index).store(index, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(std::ptr::eq(first, table.at(0)));
        let stored = table.made().take(ENTRIES).filter(|(index, entry)| entry.load(Ordering::Relaxed) == *index);
        assert_eq!(stored.count(), ENTRIES);
    }
}
