//! A table that grows by chunks: entries are made when they are first asked for and never move, so that they are reached
//! without a lock, and a process that holds few connections is small however many it may hold.

use std::sync::OnceLock;

/// Entries of a chunk: a few pages.
const CHUNK: usize = 256;

/// Entries by number.
#[derive(Debug)]
pub(crate) struct Table<T> {
    chunks: Box<[OnceLock<Box<[T]>>]>,
}

impl<T: Default> Table<T> {
    /// Room for at least `most` entries, none of which is made yet.
    pub fn new(most: usize) -> Table<T> {
        Table { chunks: (0..most.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect() }
    }

    /// The entry of that number, which is below `most`.
    pub fn at(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK].get_or_init(|| (0..CHUNK).map(|_| T::default()).collect())[index % CHUNK]
    }

    /// The entries made so far, with their numbers, when the lower were asked for first.
    pub fn made(&self) -> impl Iterator<Item = (usize, &T)> {
        self.chunks.iter().map_while(OnceLock::get).flatten().enumerate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn it_grows_by_chunks_whose_entries_stay_where_they_are() {
        let table: Table<AtomicUsize> = Table::new(2 * CHUNK + 1);
        assert_eq!(table.made().count(), 0, "an idle process is small");
        let first = table.at(0);
        assert_eq!(table.made().count(), CHUNK);
        thread::scope(|scope| {
            for start in 0..3 {
                let table = &table;
                scope.spawn(move || {
                    for index in (start..=2 * CHUNK).step_by(3) {
                        table.at(index).store(index, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(std::ptr::eq(first, table.at(0)));
        let stored = table.made().take(2 * CHUNK + 1).filter(|(index, entry)| entry.load(Ordering::Relaxed) == *index);
        assert_eq!(stored.count(), 2 * CHUNK + 1);
    }
}
