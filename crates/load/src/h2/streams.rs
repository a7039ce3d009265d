//! The streams that are open on a connection, found by their number or by their slot.

/// A request under way.
#[derive(Debug)]
pub struct Stream<'p> {
    /// Its number; 0 where there is none.
    pub id: u32,
    /// Whose request it is.
    pub slot: usize,
    /// What is still to be sent of its body.
    pub unsent: &'p [u8],
    /// So much may be sent of it, bytes.
    pub window: i64,
    /// Bytes of its answer, frames and all; and those of the body.
    pub received: u64,
    /// See `received`.
    pub body: u64,
    /// What its head said: the status, 0 before it came, and the length of the body.
    pub status: u16,
    /// See `status`.
    pub stated: Option<u64>,
    /// Body bytes since the server was last told that it may go on.
    pub unannounced: u32,
    /// What had been received on the whole connection when it was opened.
    pub heard_before: u64,
}

impl Stream<'_> {
    /// One that has sent nothing.
    pub fn new(id: u32, slot: usize, window: i64, heard_before: u64) -> Self {
        Stream {
            id,
            slot,
            unsent: &[],
            window,
            received: 0,
            body: 0,
            status: 0,
            stated: None,
            unannounced: 0,
            heard_before,
        }
    }
}

/// Places for streams, used again and again. A small table leads from a stream's number to its place.
#[derive(Debug, Default)]
pub struct Streams<'p> {
    places: Vec<Stream<'p>>,
    vacant: Vec<usize>,
    /// By the lower bits of half of the number: the place where such a stream was put last. Numbers go up one by one, so streams share
    /// an entry only where one of them has been open for long.
    recent: Vec<usize>,
}

impl<'p> Streams<'p> {
    /// How many are open.
    pub fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    /// Opens one; returns its place.
    pub fn insert(&mut self, stream: Stream<'p>) -> usize {
        let id = stream.id;
        let place = match self.vacant.pop() {
            Some(place) => {
                self.places[place] = stream;
                place
            }
            None => {
                self.places.push(stream);
                let entries = (4 * self.places.len()).next_power_of_two();
                if self.recent.len() < entries {
                    self.recent.resize(entries, 0);
                }
                self.places.len() - 1
            }
        };
        let entry = self.entry(id);
        self.recent[entry] = place;
        place
    }

    fn entry(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.recent.len() - 1)
    }

    /// Where a stream is, if it is open.
    #[inline]
    pub fn find(&self, id: u32) -> Option<usize> {
        if self.recent.is_empty() {
            return None;
        }
        let place = self.recent[self.entry(id)];
        let here = self.places.get(place).is_some_and(|stream| stream.id == id);
        if here { Some(place) } else { self.places.iter().position(|stream| stream.id == id) }
    }

    /// Where the stream of a slot is.
    pub fn of_slot(&self, slot: usize) -> Option<usize> {
        self.places.iter().position(|stream| stream.id != 0 && stream.slot == slot)
    }

    /// An open one.
    #[inline]
    pub fn get(&mut self, place: usize) -> &mut Stream<'p> {
        &mut self.places[place]
    }

    /// All that are open.
    pub fn iter(&mut self) -> impl Iterator<Item = &mut Stream<'p>> {
        self.places.iter_mut().filter(|stream| stream.id != 0)
    }

    /// Closes one.
    pub fn remove(&mut self, place: usize) {
        let stream = &mut self.places[place];
        (stream.id, stream.unsent) = (0, &[]);
        self.vacant.push(place);
    }

    /// Closes all for which this holds, and tells each slot, in the order of their numbers.
    pub fn remove_all(&mut self, which: impl Fn(&Stream<'p>) -> bool) -> Vec<Stream<'p>> {
        let mut removed = Vec::new();
        for place in 0..self.places.len() {
            if self.places[place].id != 0 && which(&self.places[place]) {
                let vacant = Stream::new(0, 0, 0, 0);
                removed.push(std::mem::replace(&mut self.places[place], vacant));
                self.vacant.push(place);
            }
        }
        removed.sort_by_key(|stream| stream.id);
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_found_however_long_one_of_them_stays() {
        let mut streams = Streams::default();
        let insert = |streams: &mut Streams<'_>, id: u32| streams.insert(Stream::new(id, id as usize, 0, 0));
        insert(&mut streams, 1);
        for id in (3..2001).step_by(2) {
            insert(&mut streams, id);
            assert!(streams.find(1).is_some() && streams.find(id).is_some(), "{id}");
            assert_eq!(streams.len(), 2);
            let place = streams.of_slot(id as usize).expect("it is open");
            streams.remove(place);
            assert_eq!((streams.find(id), streams.of_slot(id as usize)), (None, None));
        }
        assert_eq!(streams.remove_all(|_| true).len(), 1);
        assert_eq!((streams.len(), streams.find(1)), (0, None));
    }

    #[test]
    fn those_that_go_are_told_in_order() {
        let mut streams = Streams::default();
        let places = [7, 1, 5, 3].map(|id| streams.insert(Stream::new(id, 0, 0, 0)));
        streams.remove(places[2]);
        let gone: Vec<u32> = streams.remove_all(|stream| stream.id > 1).iter().map(|stream| stream.id).collect();
        assert_eq!((gone, streams.len()), (vec![3, 7], 1));
    }
}
