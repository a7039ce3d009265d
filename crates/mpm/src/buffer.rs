//! Receive buffers of transports that read(2): one buffer a connection while there are bytes in it, none while it is idle.

use std::cell::RefCell;
use std::io::{self, Read};

/// Bytes of a fresh buffer: most request heads fit, so that one receive reads them whole.
const FRESH: usize = 8 * 1024;
/// Up to so many bytes are kept in memory of their size while their connection waits for more.
const SETTLED_MAX: usize = 1024;
/// A buffer grows up to this many bytes; the engine's limits on heads refuse a request before.
const GROWN_MAX: usize = 4 * 1024 * 1024;
/// Buffers a thread keeps for reuse.
const POOL_MAX: usize = 8;

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Makes room for the calling thread's spare buffers.
pub fn make_pool() {
    POOL.with_borrow_mut(|pool| pool.reserve_exact(POOL_MAX));
}

/// Received bytes that were not consumed yet, and room for more.
#[derive(Debug, Default)]
pub struct ReadBuffer {
    /// Empty, or initialised to its whole length.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl ReadBuffer {
    /// A buffer that takes memory only when something is read.
    pub fn new() -> ReadBuffer {
        ReadBuffer::default()
    }

    /// What was received and not consumed.
    pub fn received(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Drops the first `n` bytes of [`received`](Self::received).
    pub fn consume(&mut self, n: usize) {
        self.start += n;
        assert!(self.start <= self.end, "consumed more than was received");
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// One read; the number of bytes, and whether it filled all room there was (more may be waiting).
    ///
    /// # Errors
    /// The error of read(2); `OutOfMemory` when nothing was consumed for too long.
    pub fn read_from(&mut self, mut source: impl Read) -> io::Result<(usize, bool)> {
        self.make_room()?;
        let room = &mut self.bytes[self.end..];
        let n = source.read(room)?;
        let full = n == room.len();
        self.end += n;
        Ok((n, full))
    }

    /// Gives the memory back when it holds no bytes: an idle connection has no buffer.
    pub fn release(&mut self) {
        if self.start == self.end && !self.bytes.is_empty() {
            give_back(std::mem::take(&mut self.bytes));
            (self.start, self.end) = (0, 0);
        }
    }

    /// Gives up what is not needed while a client is waited for: a slow one has the bytes it has sent and little else.
    pub fn settle(&mut self) {
        self.release();
        if self.bytes.len() == FRESH && self.received().len() <= SETTLED_MAX {
            let bytes = self.received().to_vec();
            (self.start, self.end) = (0, bytes.len());
            give_back(std::mem::replace(&mut self.bytes, bytes));
        }
    }

    fn make_room(&mut self) -> io::Result<()> {
        if self.bytes.len() < FRESH {
            // None yet, or a settled one.
            let mut bytes = POOL.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; FRESH]);
            let waiting = self.received();
            bytes[..waiting.len()].copy_from_slice(waiting);
            (self.start, self.end) = (0, waiting.len());
            self.bytes = bytes;
        }
        if self.end < self.bytes.len() {
            return Ok(());
        }
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            return Ok(());
        }
        if self.bytes.len() >= GROWN_MAX {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.bytes.resize(self.bytes.len() * 2, 0);
        Ok(())
    }
}

/// Keeps a buffer for the thread's next connection.
fn give_back(bytes: Vec<u8>) {
    if bytes.len() == FRESH {
        // At the end of a thread its pool may be gone already; then the memory is simply freed.
        let _pool_is_gone = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if pool.len() < POOL_MAX {
                pool.push(bytes);
            }
        });
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        self.start = self.end;
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_however_large() {
        let input: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
        let mut source = &input[..];
        let mut buffer = ReadBuffer::new();
        let mut out = Vec::new();
        let mut step = 1;
        while buffer.read_from(&mut source).unwrap().0 > 0 {
            buffer.settle();
            let take = buffer.received().len().min(step);
            out.extend_from_slice(&buffer.received()[..take]);
            buffer.consume(take);
            step = step * 7 % 9973;
        }
        out.extend_from_slice(buffer.received());
        assert_eq!(out, input);
    }

    #[test]
    fn bytes_of_a_slow_client_take_their_size() {
        let mut buffer = ReadBuffer::new();
        for piece in [&b"GET / HT"[..], b"TP/1.1\r\n"] {
            let mut source = piece;
            buffer.read_from(&mut source).unwrap();
            buffer.consume(1);
            buffer.settle();
            assert_eq!(buffer.bytes.capacity(), buffer.received().len());
        }
        assert_eq!(buffer.received(), b"T / HTTP/1.1\r\n");
    }

    #[test]
    fn an_idle_buffer_gives_its_memory_back_and_a_used_one_does_not() {
        let mut buffer = ReadBuffer::new();
        buffer.read_from(&b"abc"[..]).unwrap();
        buffer.consume(1);
        buffer.release();
        assert_eq!(buffer.received(), b"bc");
        buffer.consume(2);
        buffer.release();
        assert!(buffer.bytes.is_empty());
    }
}
