//! Waiting as a blocking call: the transport of prefork and worker, and the life of a connection that holds its thread.

use std::fs::File;
use std::future::Future;
use std::io::{self, IoSlice, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use manifold_engine::out::{Front, OutQueue};
use manifold_engine::serve::{Conn, serve};
use manifold_engine::site::Site;
use manifold_engine::transport::{Activity, Host, Next, Transport};
use manifold_sys::socket::{self, Flags};

use crate::buffer::ReadBuffer;
use crate::clock;
use crate::host::ThreadHost;
use crate::scoreboard::ServerSlot;

/// After a half-close: longest wait for each piece the client still sends, and for all of them (Apache's
/// `SECONDS_TO_LINGER` and `MAX_SECS_TO_LINGER`).
pub const LINGER_READ: Duration = Duration::from_secs(2);
/// See [`LINGER_READ`].
pub const LINGER_TOTAL: Duration = Duration::from_secs(30);

/// Longest lingering of a connection. One that was too slow for `RequestReadTimeout` would use up the whole time here.
pub fn linger_total(conn: &Conn) -> Duration {
    if conn.linger_briefly { LINGER_READ } else { LINGER_TOTAL }
}

/// Pieces of memory that one call sends.
pub const GATHER_MAX: usize = 8;

/// Serves one connection to its end on the calling thread.
pub fn serve_connection(stream: TcpStream, peer: SocketAddr, site: &Site, host: &ThreadHost<'_>) {
    host.worker.count_connection();
    let _until_it_is_closed = Open::count(host.server);
    clock::tick();
    let mut io = BlockingTransport::new(stream, site.first_byte_timeout());
    let mut conn = Conn::new(peer);
    loop {
        match block_on(serve(&mut io, &mut conn, site, host)) {
            Ok(Next::KeepAlive) => {
                host.activity(Activity::KeepAlive);
                io.in_buffer.release();
                let by = host.turn().now + site.keep_alive_timeout;
                if !matches!(io.fill_by(by), Ok(1..)) {
                    break;
                }
            }
            Ok(Next::Linger) => {
                host.activity(Activity::Closing);
                return io.linger(linger_total(&conn));
            }
            Ok(Next::Close) | Err(_) => break,
        }
    }
    host.activity(Activity::Closing);
}

/// A connection among the open ones of the process, even if its thread panics.
struct Open<'a>(ServerSlot<'a>);

impl<'a> Open<'a> {
    fn count(server: ServerSlot<'a>) -> Open<'a> {
        server.add_open(1);
        Open(server)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.add_open(-1);
    }
}

/// Polls a future whose every wait blocks inside, so that it is ready at once.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("a blocking transport is never pending"),
    }
}

/// A blocking socket. Receives and sends are bounded by SO_RCVTIMEO and SO_SNDTIMEO, which the socket inherited from its
/// listener and which are set anew only when a wait of another length begins.
#[derive(Debug)]
pub struct BlockingTransport {
    stream: TcpStream,
    in_buffer: ReadBuffer,
    out: OutQueue,
    receive_timeout: Duration,
}

impl BlockingTransport {
    /// `inherited` is the timeout of receives that the listener passed on.
    pub fn new(stream: TcpStream, inherited: Duration) -> BlockingTransport {
        BlockingTransport { stream, in_buffer: ReadBuffer::new(), out: OutQueue::new(), receive_timeout: inherited }
    }

    fn fill_by(&mut self, by: Instant) -> io::Result<usize> {
        loop {
            let left = by.saturating_duration_since(clock::turn().now);
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.bound_receive(left)?;
            let result = self.in_buffer.read_from(&self.stream);
            clock::tick();
            match result {
                Ok((n, _)) => return Ok(n),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(io::ErrorKind::TimedOut.into()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sets the socket's timeout where it is not near enough already: within a sixteenth of the wait.
    fn bound_receive(&mut self, left: Duration) -> io::Result<()> {
        if self.receive_timeout.abs_diff(left) > left / 16 {
            self.stream.set_read_timeout(Some(left))?;
            self.receive_timeout = left;
        }
        Ok(())
    }

    fn flush_all(&mut self) -> io::Result<()> {
        loop {
            let result = send_front(&self.stream, &self.out);
            match result {
                Ok(Some(n)) => {
                    self.out.advance(n);
                    if self.out.is_empty() {
                        return Ok(());
                    }
                    // The peer took a part only: time has passed.
                    clock::tick();
                }
                Ok(None) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(io::ErrorKind::TimedOut.into()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Half-closes, then drops what the client still sends until it closes as well, for a bounded time. Not inlined, for the
    /// same reason as [`send_read`].
    #[inline(never)]
    fn linger(self, total: Duration) {
        if self.stream.shutdown(Shutdown::Write).is_err() || self.stream.set_read_timeout(Some(LINGER_READ)).is_err() {
            return;
        }
        let until = Instant::now() + total;
        let mut drop_here = [0; 4096];
        while Instant::now() < until && matches!((&self.stream).read(&mut drop_here), Ok(1..)) {}
    }
}

impl Transport for BlockingTransport {
    fn received(&self) -> &[u8] {
        self.in_buffer.received()
    }

    fn consume(&mut self, n: usize) {
        self.in_buffer.consume(n);
    }

    fn poll_fill(&mut self, _: &mut Context<'_>, by: Instant) -> Poll<io::Result<usize>> {
        Poll::Ready(self.fill_by(by))
    }

    fn outgoing(&mut self) -> &mut OutQueue {
        &mut self.out
    }

    /// Each send is bounded by the socket's own timeout, so that `by` moves on as long as the peer takes something.
    fn poll_flush(&mut self, _: &mut Context<'_>, _: Instant) -> Poll<io::Result<()>> {
        Poll::Ready(self.flush_all())
    }
}

/// Bytes of a file that are read and sent in one go where sendfile(2) is not to be used.
const READ_MAX: usize = 16 * 1024;

/// Reads the beginning of a range and sends it. What the peer does not take is read again the next time, so that a slow
/// one holds no buffer.
///
/// Not inlined: its buffer would make every thread touch that much more of its stack.
#[inline(never)]
fn send_read(stream: &impl AsFd, file: &File, range: Range<u64>, room: usize) -> io::Result<u64> {
    let mut buffer = [0; READ_MAX];
    let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(room).min(READ_MAX);
    let read = file.read_at(&mut buffer[..length], range.start)?;
    if read == 0 {
        return Err(became_shorter(file));
    }
    let more = range.start + (read as u64) < range.end;
    let flags = if more { Flags::MoreFollows } else { Flags::None };
    socket::send(stream, &[IoSlice::new(&buffer[..read])], flags).map(|n| n as u64)
}

/// What was announced of a file is not there any more.
fn became_shorter(file: &File) -> io::Error {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let name = name.map_or_else(|_| "a file".to_owned(), |name| name.display().to_string());
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("{name} became shorter while it was sent"))
}

/// One call that sends from the front of `out`: send, writev or sendfile; `None` where nothing is left.
///
/// # Errors
/// The call's error; `UnexpectedEof` when a file became shorter than was announced.
pub fn send_front(stream: &impl AsFd, out: &OutQueue) -> io::Result<Option<u64>> {
    send_some(stream, out, u64::MAX)
}

/// The same for at most so many bytes, at least 1: a reader that is as fast as the sender keeps one call busy for as long
/// as there is something to send.
///
/// # Errors
/// As [`send_front`].
pub fn send_some(stream: &impl AsFd, out: &OutQueue, at_most: u64) -> io::Result<Option<u64>> {
    let mut room = usize::try_from(at_most).unwrap_or(usize::MAX);
    match out.front() {
        Front::Empty => Ok(None),
        Front::Memory => {
            let mut slices = [IoSlice::new(&[]); GATHER_MAX];
            let (filled, more) = out.gather(&mut slices);
            let fits = |slice: &&IoSlice<'_>| {
                slice.len() <= room && {
                    room -= slice.len();
                    true
                }
            };
            let fitting = slices[..filled].iter().take_while(fits).count();
            let sent = if fitting == 0 {
                socket::send(stream, &[IoSlice::new(&slices[0][..room])], Flags::MoreFollows)
            } else {
                let flags = if more || fitting < filled { Flags::MoreFollows } else { Flags::None };
                socket::send(stream, &slices[..fitting], flags)
            };
            sent.map(|n| Some(n as u64))
        }
        Front::File(file, range) => {
            let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(room);
            let mut offset = i64::try_from(range.start).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
            match nix::sys::sendfile::sendfile64(stream.as_fd(), file.as_fd(), Some(&mut offset), length)? {
                0 => Err(became_shorter(file)),
                n => Ok(Some(n as u64)),
            }
        }
        Front::Read(file, range) => send_read(stream, file, range, room).map(Some),
    }
}
