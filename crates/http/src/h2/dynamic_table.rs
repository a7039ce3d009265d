//! The fields that a field block has added for those after it (RFC 7541, sections 2.3.2 and 4).

use std::collections::VecDeque;

/// What an entry counts besides its bytes.
const OVERHEAD: usize = 32;
/// So many bytes of dropped entries are kept before the others are moved to the front.
const SLACK_BYTES: usize = 4096;

/// The table: what is added lies behind what was there, and what is dropped is dropped from the front.
#[derive(Debug, Default)]
pub struct Table {
    /// The oldest first.
    entries: VecDeque<Entry>,
    /// Names and values of the entries, each name with its value behind it, and of some that were dropped.
    bytes: Vec<u8>,
    /// The size as the standard counts it, and its limit.
    size: usize,
    max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Where in `bytes` its name begins.
    at: usize,
    name: usize,
    value: usize,
}

impl Entry {
    fn size(self) -> usize {
        self.name + self.value + OVERHEAD
    }
}

impl Table {
    /// An empty table of at most this size.
    pub fn new(max: usize) -> Table {
        Table { max, ..Table::default() }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Name and value of an entry; 0 is the newest.
    pub fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let place = self.entries.len().checked_sub(1 + index)?;
        let Entry { at, name, value } = *self.entries.get(place)?;
        Some(self.bytes[at..at + name + value].split_at(name))
    }

    /// Another limit: what is above it is dropped.
    pub fn resize(&mut self, max: usize) {
        self.max = max;
        self.make_room(0);
    }

    /// Adds a field: `field` is its name, of this length, and its value. One that is larger than the table empties it.
    pub fn insert(&mut self, field: &[u8], name: usize) {
        let entry = Entry { at: 0, name, value: field.len() - name };
        self.make_room(entry.size());
        if entry.size() > self.max {
            return;
        }
        self.tidy();
        let at = self.bytes.len();
        self.bytes.extend_from_slice(field);
        self.entries.push_back(Entry { at, ..entry });
        self.size += entry.size();
    }

    /// Adds the `count` newest entries once more, in the same order.
    pub fn insert_again(&mut self, count: usize) {
        self.tidy();
        let first = self.entries.len() - count;
        let copies: [Option<Entry>; COPIES_MAX] =
            std::array::from_fn(|place| (place < count).then(|| self.entries[first + place]));
        for entry in copies.into_iter().flatten() {
            self.make_room(entry.size());
            // Its bytes are there still, even if the entry has been dropped for its copy.
            let at = self.bytes.len();
            self.bytes.extend_from_within(entry.at..entry.at + entry.name + entry.value);
            self.entries.push_back(Entry { at, ..entry });
            self.size += entry.size();
        }
    }

    /// Drops the oldest entries until there is room for so much.
    fn make_room(&mut self, wanted: usize) {
        while self.size + wanted > self.max
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= entry.size();
        }
    }

    /// Lets go of the bytes of dropped entries, where they have become many.
    fn tidy(&mut self) {
        let dropped = self.entries.front().map_or(self.bytes.len(), |oldest| oldest.at);
        if dropped > SLACK_BYTES {
            self.bytes.drain(..dropped);
            self.entries.iter_mut().for_each(|entry| entry.at -= dropped);
        }
    }
}

/// Entries that can be added again at once.
pub const COPIES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(table: &Table) -> String {
        (0..table.len()).map(|index| String::from_utf8_lossy(table.get(index).unwrap().0).into_owned()).collect()
    }

    #[test]
    fn the_oldest_are_dropped_first() {
        let mut table = Table::new(3 * (OVERHEAD + 2));
        ["a1", "b2", "c3", "d4"].iter().for_each(|field| table.insert(field.as_bytes(), 1));
        assert_eq!(names(&table), "dcb");
        assert_eq!(table.get(2), Some((&b"b"[..], &b"2"[..])));
        assert_eq!(table.get(3), None);
        table.resize(2 * (OVERHEAD + 2));
        assert_eq!(names(&table), "dc");
        table.insert(&[b'x'; 100], 1);
        assert_eq!((names(&table).as_str(), table.size), ("", 0));
    }

    #[test]
    fn entries_added_again_are_the_same_as_entries_added() {
        for max in [2, 3, 5, 100] {
            let max = max * (OVERHEAD + 2);
            let (mut again, mut anew) = (Table::new(max), Table::new(max));
            again.insert(b"z9", 1);
            anew.insert(b"z9", 1);
            for round in 0..5000 {
                for (count, field) in [b"a1", b"b2"].iter().enumerate() {
                    anew.insert(*field, 1);
                    if round == 0 {
                        again.insert(*field, 1);
                    } else if count == 0 {
                        again.insert_again(2);
                    }
                }
                assert_eq!(names(&again), names(&anew), "{max} in round {round}");
                assert_eq!(again.size, anew.size);
            }
            assert!(again.bytes.len() < SLACK_BYTES + 2 * max + 100);
        }
    }
}
