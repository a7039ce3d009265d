//! What one thread remembers of the files it served lately, by their names and by the paths of URLs that led to them, so that
//! serving one again takes no lock.
//!
//! Threads need not see each other's news at once: whatever a thread remembers, it compares with the file system before it
//! serves it. It keeps no file alive: what the process throws out is gone, and a thread holds no more than a name and a stamp.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::{Arc, Weak};
use std::time::Instant;

use manifold_engine::request::Resource;
use manifold_engine::transport::Turn;
use manifold_http::ContentCoding;
use nix::errno::Errno;

use super::s3_fifo::{Used, Uses};
use super::stamp::Stamp;
use crate::name_hash;

/// Places for one hash; of those the one that was checked longest ago is given up.
const WAYS: usize = 4;
/// Sets of places of a thread that has served something, and of one that serves many files. Both are powers of two.
const SETS_MIN: usize = 8;
const SETS_MAX: usize = 1024;

/// Longer paths of URLs are not remembered.
const PATH_MAX: usize = 256;

/// What a file is looked up by: a name, and the content coding that is wanted of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    /// The path of the file as it is without a coding.
    pub path: &'a [u8],
    /// The sibling in this coding is meant.
    pub coding: Option<ContentCoding>,
}

/// A file as it was found, or a sibling that was not there.
#[derive(Debug)]
pub(super) struct Known {
    /// Where it is, its coding's extension included.
    pub path: CString,
    pub coding: Option<ContentCoding>,
    pub hash: u64,
    /// `None`: nothing is there.
    pub stamp: Option<Stamp>,
    /// Whether the stamp tells the next change.
    pub settled: bool,
    pub uses: Uses,
    pub resource: Weak<Resource>,
}

/// One thread's memory of one cache.
#[derive(Debug, Default)]
pub(super) struct Front {
    /// The cache that it is of; another one empties it.
    owner: u64,
    sets: Vec<[Slot; WAYS]>,
    /// Slots that were given up since there are this many sets.
    given_up: usize,
    /// Reused to make paths of names.
    pub path: Vec<u8>,
}

/// A place, and when what is in it was last compared with the file system.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    /// Of the URL's path or of the file's name.
    hash: u64,
    /// The path of the URL that the file is the answer to; without one it is the file of its name.
    url_path: Option<Box<[u8]>>,
    /// The turn's number; 0 where nothing is here.
    pub turn: u64,
    pub at: Option<Instant>,
    pub known: Option<Arc<Known>>,
}

thread_local! {
    static FRONT: RefCell<Front> = const { RefCell::new(Front { owner: 0, sets: Vec::new(), given_up: 0, path: Vec::new() }) };
}

/// Makes the calling thread's memory, still empty, with all that the C library does the first time: in the parent, so that each
/// child of prefork need not, which would cost it two pages.
pub(super) fn begin() {
    FRONT.with_borrow(|_| ());
}

/// Gives the calling thread's memory of the cache `owner`.
pub(super) fn with<T>(owner: u64, work: impl FnOnce(&mut Front) -> T) -> T {
    FRONT.with_borrow_mut(|front| {
        if front.owner != owner {
            *front = Front { owner, ..Front::default() };
        }
        work(front)
    })
}

impl Name<'_> {
    /// Writes the path of the file, or of its sibling, as the kernel wants it.
    pub(super) fn write_path<'b>(&self, buffer: &'b mut Vec<u8>) -> io::Result<&'b CStr> {
        buffer.clear();
        buffer.extend_from_slice(self.path);
        if let Some(coding) = self.coding {
            buffer.push(b'.');
            buffer.extend_from_slice(coding.extension().as_bytes());
        }
        buffer.push(0);
        // A name with a NUL in it is no file's.
        CStr::from_bytes_with_nul(buffer).map_err(|_| Errno::ENOENT.into())
    }

    pub(super) fn hash(&self) -> u64 {
        name_hash::hash(self.path) ^ self.coding.map_or(0, |coding| 1 << 40 << coding as u32)
    }
}

impl Known {
    /// Nothing is there.
    pub(super) fn missing(name: Name<'_>, path: &CStr) -> Known {
        Known {
            path: path.to_owned(),
            coding: name.coding,
            hash: name.hash(),
            stamp: None,
            settled: true,
            uses: Uses::default(),
            resource: Weak::new(),
        }
    }

    pub(super) fn is(&self, name: Name<'_>) -> bool {
        let path = self.path.as_bytes();
        // A sibling's path is longer by a dot and its extension.
        let length = path.len() - self.coding.map_or(0, |coding| 1 + coding.extension().len());
        self.coding == name.coding && path[..length] == *name.path
    }
}

impl Used for Arc<Known> {
    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl Front {
    /// The slot that `name` is in.
    #[inline]
    pub(super) fn find(&mut self, hash: u64, name: Name<'_>) -> Option<&mut Slot> {
        let index = hash as usize & self.sets.len().wrapping_sub(1);
        let is_it = |slot: &&mut Slot| {
            slot.hash == hash && slot.url_path.is_none() && slot.known.as_ref().is_some_and(|known| known.is(name))
        };
        self.sets.get_mut(index)?.iter_mut().find(is_it)
    }

    /// The slot of the file that is the answer to the path of a URL.
    #[inline]
    pub(super) fn find_path(&mut self, path: &[u8]) -> Option<&mut Slot> {
        let hash = name_hash::hash(path);
        let index = hash as usize & self.sets.len().wrapping_sub(1);
        let is_it = |slot: &&mut Slot| slot.hash == hash && slot.url_path.as_deref() == Some(path);
        self.sets.get_mut(index)?.iter_mut().find(is_it)
    }

    /// Remembers what was found in this turn.
    pub(super) fn remember(&mut self, known: Arc<Known>, turn: Turn) {
        let hash = known.hash;
        self.enter(Slot { hash, url_path: None, turn: turn.number, at: Some(turn.now), known: Some(known) });
    }

    /// Remembers that the file of this name, if its stamp can tell that it is still the same, is the answer to the path of a URL.
    pub(super) fn remember_path(&mut self, path: &[u8], name: Name<'_>) {
        if path.len() > PATH_MAX {
            return;
        }
        let found = self.find(name.hash(), name).filter(|slot| slot.known.as_ref().is_some_and(|known| known.settled));
        if let Some(found) = found {
            let slot = Slot { hash: name_hash::hash(path), url_path: Some(path.into()), ..found.clone() };
            self.enter(slot);
        }
    }

    fn enter(&mut self, slot: Slot) {
        if self.given_up > self.sets.len() * WAYS && self.sets.len() < SETS_MAX || self.sets.is_empty() {
            self.grow();
        }
        self.given_up += usize::from(self.put(slot));
    }

    /// Puts a slot in the place of an older one of the same hash, or of the oldest; whether something was given up by that.
    fn put(&mut self, slot: Slot) -> bool {
        let index = slot.hash as usize & (self.sets.len() - 1);
        let set = &mut self.sets[index];
        let is_same =
            |other: &Slot| other.hash == slot.hash && other.url_path == slot.url_path && other.known.is_some();
        let same = set.iter().position(is_same);
        let oldest = (0..WAYS).min_by_key(|&way| set[way].turn).unwrap_or(0);
        let place = &mut set[same.unwrap_or(oldest)];
        let gives_up = same.is_none() && place.known.is_some();
        *place = slot;
        gives_up
    }

    fn grow(&mut self) {
        let sets = (self.sets.len() * 2).max(SETS_MIN);
        let before = std::mem::replace(&mut self.sets, std::iter::repeat_with(Default::default).take(sets).collect());
        self.given_up = 0;
        for slot in before.into_iter().flatten().filter(|slot| slot.known.is_some()) {
            self.put(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(number: u64) -> Turn {
        Turn { number, now: Instant::now(), wall: std::time::Duration::ZERO }
    }

    fn known(name: Name<'_>) -> Arc<Known> {
        Arc::new(Known::missing(name, name.write_path(&mut Vec::new()).unwrap()))
    }

    #[test]
    fn many_names_make_room_for_themselves() {
        let mut front = Front::default();
        let names: Vec<String> = (0..1000).map(|number| format!("/srv/www/{number}")).collect();
        let name = |text: &'_ str| Name { path: Box::leak(text.to_owned().into_boxed_str()).as_bytes(), coding: None };
        for round in 1..50 {
            for text in &names {
                let name = name(text);
                match front.find(name.hash(), name) {
                    Some(slot) => slot.turn = round,
                    None => front.remember(known(name), turn(round)),
                }
            }
        }
        let found = names.iter().filter(|text| front.find(name(text).hash(), name(text)).is_some()).count();
        assert!(found > 900 && front.sets.len() <= SETS_MAX, "{found} of 1000 in {} sets", front.sets.len());
    }

    #[test]
    fn a_sibling_is_not_its_original() {
        let mut front = Front::default();
        let plain = Name { path: b"/page.br", coding: None };
        let sibling = Name { path: b"/page", coding: Some(ContentCoding::Brotli) };
        let original = Name { path: b"/page", coding: None };
        front.remember(known(plain), turn(1));
        assert!(front.find(sibling.hash(), sibling).is_none());
        front.remember(known(sibling), turn(1));
        assert!(front.find(original.hash(), original).is_none());
        for name in [plain, sibling] {
            let slot = front.find(name.hash(), name).unwrap();
            assert!(slot.known.as_ref().unwrap().is(name));
        }
        assert!(!known(plain).is(sibling) && !known(sibling).is(plain) && !known(sibling).is(original));
    }

    #[test]
    fn another_caches_files_are_not_this_ones() {
        let name = Name { path: b"/page", coding: None };
        with(7001, |front| front.remember(known(name), turn(1)));
        assert!(with(7001, |front| front.find(name.hash(), name).is_some()));
        assert!(with(7002, |front| front.find(name.hash(), name).is_none()));
        assert!(with(7001, |front| front.find(name.hash(), name).is_none()));
    }
}
