//! The queue of what a connection has to send: pieces in order, as Apache's bucket brigade. The engine appends, the
//! transport takes from the front and chooses the call: send, writev, sendfile or a ring operation.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// Something to send.
#[derive(Debug)]
pub enum Piece {
    /// Owned bytes: heads, and small bodies copied behind them.
    Bytes(Vec<u8>),
    /// Bytes that live as long as the program.
    Static(&'static [u8]),
    /// A range of bytes kept in memory and shared, such as a cached file.
    Shared(Arc<[u8]>, Range<usize>),
    /// A range of a file, to be sent without copying it through user space.
    File(Arc<File>, Range<u64>),
    /// A range of a file, to be read just before it is sent: nothing of it is held while the peer is slow.
    Read(Arc<File>, Range<u64>),
}

impl Piece {
    /// Bytes in this piece.
    pub fn len(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Static(bytes) => bytes.len() as u64,
            Piece::Shared(_, range) => range.len() as u64,
            Piece::File(_, range) | Piece::Read(_, range) => range.end.saturating_sub(range.start),
        }
    }

    /// Whether nothing is left of this piece.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of a piece held in memory; `None` for a file.
    fn memory(&self) -> Option<&[u8]> {
        match self {
            Piece::Bytes(bytes) => Some(bytes),
            Piece::Static(bytes) => Some(bytes),
            Piece::Shared(bytes, range) => Some(&bytes[range.clone()]),
            Piece::File(..) | Piece::Read(..) => None,
        }
    }
}

/// What the front of the queue asks the transport to do.
#[derive(Debug)]
pub enum Front<'a> {
    /// Nothing left to send.
    Empty,
    /// Memory to send; [`OutQueue::gather`] gives it and what follows as slices.
    Memory,
    /// A range of a file, for sendfile(2).
    File(&'a Arc<File>, Range<u64>),
    /// A range of a file that is to be read and sent.
    Read(&'a Arc<File>, Range<u64>),
}

/// Pieces in the order in which they are to be sent. Pieces are never empty.
#[derive(Debug, Default)]
pub struct OutQueue {
    memory: Memory,
    /// Bytes of the first piece that were sent already, where it is memory.
    sent: usize,
}

/// What a queue works with. It is taken from the thread's pool when something is queued and goes back there, so that an idle
/// connection holds none and a busy one allocates none in the steady state.
#[derive(Debug, Default)]
struct Memory {
    /// The first piece where it is owned bytes, as it nearly always is; otherwise empty, and the memory of those that were sent.
    head: Vec<u8>,
    /// What follows.
    rest: VecDeque<Piece>,
}

/// Bytes of a fresh buffer: a usual head fits.
const HEAD_CAPACITY: usize = 512;
/// A buffer that grew larger than this is given back to the allocator when its bytes are sent.
const HEAD_CAPACITY_MAX: usize = 16 * 1024;
/// Queues' memory that a thread keeps.
const POOL_MAX: usize = 16;

thread_local! {
    static POOL: RefCell<Vec<Memory>> = const { RefCell::new(Vec::new()) };
}

impl OutQueue {
    /// An empty queue without any allocation.
    pub fn new() -> OutQueue {
        OutQueue::default()
    }

    /// Whether everything was sent.
    pub fn is_empty(&self) -> bool {
        self.memory.head.is_empty() && self.memory.rest.is_empty()
    }

    /// Bytes still to be sent.
    pub fn len(&self) -> u64 {
        let Memory { head, rest } = &self.memory;
        head.len() as u64 + rest.iter().map(Piece::len).sum::<u64>() - self.sent as u64
    }

    /// The owned bytes at the end of the queue, to append to; starts a piece where the last is of another kind.
    /// The caller must append at least one byte when it starts a piece.
    #[inline]
    pub fn tail(&mut self) -> &mut Vec<u8> {
        if !self.memory.rest.is_empty() {
            return self.tail_of_rest();
        }
        if self.memory.head.capacity() == 0 {
            self.equip();
            self.memory.head.reserve(HEAD_CAPACITY);
        }
        &mut self.memory.head
    }

    fn tail_of_rest(&mut self) -> &mut Vec<u8> {
        let rest = &mut self.memory.rest;
        if !matches!(rest.back(), Some(Piece::Bytes(_))) {
            rest.push_back(Piece::Bytes(Vec::with_capacity(HEAD_CAPACITY)));
        }
        match rest.back_mut() {
            Some(Piece::Bytes(bytes)) => bytes,
            _ => unreachable!("a Bytes piece was just appended"),
        }
    }

    /// Appends a piece; an empty one is dropped.
    pub fn push(&mut self, piece: Piece) {
        if !piece.is_empty() {
            self.equip();
            self.memory.rest.push_back(piece);
        }
    }

    /// What the transport has to do next.
    pub fn front(&self) -> Front<'_> {
        let Memory { head, rest } = &self.memory;
        match rest.front() {
            _ if !head.is_empty() => Front::Memory,
            None => Front::Empty,
            Some(Piece::File(file, range)) => Front::File(file, range.clone()),
            Some(Piece::Read(file, range)) => Front::Read(file, range.clone()),
            Some(_) => Front::Memory,
        }
    }

    /// Fills `slices` with the memory at the front, in order, up to the first file; returns how many were filled and
    /// whether a piece that did not fit, or a file, follows (so that the transport can announce more to come).
    pub fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> (usize, bool) {
        let Memory { head, rest } = &self.memory;
        let head = (!head.is_empty()).then_some(Some(&head[..]));
        let mut skip = self.sent;
        let mut filled = 0;
        for bytes in head.into_iter().chain(rest.iter().map(Piece::memory)) {
            let Some(bytes) = bytes.filter(|_| filled < slices.len()) else { return (filled, true) };
            slices[filled] = IoSlice::new(&bytes[std::mem::take(&mut skip)..]);
            filled += 1;
        }
        (filled, false)
    }

    /// Gives up owned bytes that are all there is to send, at most `max`, for the memory of `bytes`, which is empty. `false`
    /// where there is something else to send.
    #[inline]
    pub fn swap_only(&mut self, bytes: &mut Vec<u8>, max: usize) -> bool {
        let Memory { head, rest } = &mut self.memory;
        if !rest.is_empty() || self.sent > 0 || head.is_empty() || head.len() > max {
            return false;
        }
        std::mem::swap(head, bytes);
        true
    }

    /// Notes that `n` bytes were sent from the front; `n` is at most [`len`](Self::len).
    #[inline]
    pub fn advance(&mut self, n: u64) {
        let Memory { head, rest } = &mut self.memory;
        let mut n = n;
        if !head.is_empty() {
            let left = (head.len() - self.sent) as u64;
            if n < left {
                self.sent += n as usize;
                return;
            }
            n -= left;
            self.sent = 0;
            head.clear();
            head.shrink_to(HEAD_CAPACITY_MAX);
        }
        if !rest.is_empty() {
            self.advance_rest(n);
        }
    }

    fn advance_rest(&mut self, n: u64) {
        let mut n = n;
        while let Some(piece) = self.memory.rest.front_mut() {
            let left = piece.len() - self.sent as u64;
            if n < left {
                match piece {
                    Piece::File(_, range) | Piece::Read(_, range) => range.start += n,
                    _ => self.sent += n as usize,
                }
                return;
            }
            n -= left;
            self.sent = 0;
            self.memory.rest.pop_front();
        }
        debug_assert_eq!(n, 0, "more was sent than was queued");
    }

    /// Drops everything that was not sent, for a connection that is given up.
    #[inline]
    pub fn clear(&mut self) {
        if !self.is_empty() {
            self.memory.head.clear();
            self.memory.rest.clear();
            self.sent = 0;
        }
    }

    /// Gives up all memory, so that an idle connection holds none; does nothing while something is to be sent.
    pub fn shrink(&mut self) {
        if self.is_empty() && self.memory.is_some() {
            let memory = std::mem::take(&mut self.memory);
            // At the end of a thread its pool may be gone already; then the memory is simply freed.
            let _pool_is_gone = POOL.try_with(|pool| {
                let mut pool = pool.borrow_mut();
                if pool.len() < POOL_MAX {
                    pool.push(memory);
                }
            });
        }
    }

    /// Takes memory from the pool where the queue has none.
    fn equip(&mut self) {
        if !self.memory.is_some() {
            self.memory = POOL.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
    }
}

impl Memory {
    fn is_some(&self) -> bool {
        self.head.capacity() > 0 || self.rest.capacity() > 0
    }
}

impl Drop for OutQueue {
    fn drop(&mut self) {
        self.clear();
        self.shrink();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `queue` in steps of at most `step` bytes and returns what a peer would have read.
    fn drain(queue: &mut OutQueue, step: usize) -> Vec<u8> {
        let mut got = Vec::new();
        loop {
            let taken = match queue.front() {
                Front::Empty => return got,
                Front::File(file, range) | Front::Read(file, range) => {
                    use std::os::unix::fs::FileExt;
                    let mut buffer = vec![0; (range.end - range.start).min(step as u64) as usize];
                    file.read_exact_at(&mut buffer, range.start).unwrap();
                    got.extend_from_slice(&buffer);
                    buffer.len()
                }
                Front::Memory => {
                    let mut slices = [IoSlice::new(&[]); 2];
                    let (filled, _) = queue.gather(&mut slices);
                    let flat: Vec<u8> = slices[..filled].iter().flat_map(|s| s.iter().copied()).take(step).collect();
                    got.extend_from_slice(&flat);
                    flat.len()
                }
            };
            queue.advance(taken as u64);
        }
    }

    #[test]
    fn pieces_arrive_in_order_however_they_are_cut() {
        let dir = std::env::temp_dir().join(format!("manifold-out-{}", std::process::id()));
        std::fs::write(&dir, b"0123456789").unwrap();
        for step in 1..20 {
            let mut queue = OutQueue::new();
            queue.tail().extend_from_slice(b"head ");
            queue.push(Piece::Static(b"static "));
            queue.push(Piece::Shared(Arc::from(&b"xshared x"[..]), 1..8));
            queue.push(Piece::File(Arc::new(File::open(&dir).unwrap()), 2..9));
            queue.push(Piece::Read(Arc::new(File::open(&dir).unwrap()), 1..3));
            queue.push(Piece::Static(b""));
            queue.tail().extend_from_slice(b" tail");
            assert_eq!(queue.len(), 5 + 7 + 7 + 7 + 2 + 5);
            assert_eq!(drain(&mut queue, step), b"head static shared 234567812 tail", "step {step}");
            assert!(queue.is_empty());
        }
        std::fs::remove_file(dir).unwrap();
    }

    #[test]
    fn bytes_that_are_all_there_is_change_hands() {
        let check = |head: &[u8], rest: Vec<Piece>, advance: u64, max: usize, expected: Option<&[u8]>| {
            let mut queue = OutQueue::new();
            queue.tail().extend_from_slice(head);
            rest.into_iter().for_each(|piece| queue.push(piece));
            queue.advance(advance);
            let before = queue.len();
            let mut bytes = Vec::with_capacity(99);
            assert_eq!(queue.swap_only(&mut bytes, max).then_some(&bytes[..]), expected);
            assert_eq!(queue.len(), if expected.is_some() { 0 } else { before });
            if expected.is_some() {
                assert_eq!(queue.tail().capacity(), 99, "the memory given for it is used next");
            }
        };
        check(b"head", vec![], 0, 4, Some(b"head"));
        check(b"head", vec![], 0, 3, None);
        check(b"head", vec![], 1, 4, None);
        check(b"head", vec![Piece::Static(b"more")], 0, 9, None);
        check(b"", vec![Piece::Static(b"head")], 0, 9, None);
        check(b"", vec![], 0, 9, None);
    }

    #[test]
    fn a_sent_head_leaves_its_buffer_for_the_next() {
        let mut queue = OutQueue::new();
        queue.tail().extend_from_slice(b"first");
        let buffer = queue.tail().as_ptr();
        queue.advance(5);
        queue.tail().extend_from_slice(b"second");
        assert_eq!(queue.tail().as_ptr(), buffer);
    }

    #[test]
    fn memory_of_a_queue_serves_the_next_one() {
        let mut queue = OutQueue::new();
        queue.tail().extend_from_slice(b"first");
        let buffer = queue.tail().as_ptr();
        queue.shrink();
        assert_eq!(queue.len(), 5, "what is to be sent stays");
        queue.advance(5);
        queue.shrink();
        assert!(!queue.memory.is_some());
        drop(queue);
        let mut next = OutQueue::new();
        next.tail().extend_from_slice(b"second");
        assert_eq!(next.tail().as_ptr(), buffer);
    }
}
