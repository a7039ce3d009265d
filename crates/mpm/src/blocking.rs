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
use nix::sys::socket::{MsgFlags, recv};

use crate::buffer::ReadBuffer;
use crate::host::ThreadHost;
use crate::scoreboard::ServerSlot;
use crate::{clock, pause};

/// After a half-close: longest wait for each piece the client still sends, and for all of them (Apache's
/// `SECONDS_TO_LINGER` and `MAX_SECS_TO_LINGER`).
pub const LINGER_READ: Duration = Duration::from_secs(2);
/// See [`LINGER_READ`].
pub const LINGER_TOTAL: Duration = Duration::from_secs(30);

/// Longest lingering of a connection. One that was too slow for `RequestReadTimeout` would use up the whole time here.
pub fn linger_total(conn: &Conn) -> Duration {
    if conn.linger_briefly { LINGER_READ } else { LINGER_TOTAL }
}

/// Longest first wait of a receive on a connection, and of a send, in that order: listeners pass them on.
pub fn first_waits(site: &Site) -> (Duration, Duration) {
    let most = if site.phases.has_logs() { pause::SLICE } else { Duration::MAX };
    (site.first_byte_timeout().min(most), site.timeout.min(most))
}

/// Pieces of memory that one call sends.
pub const GATHER_MAX: usize = 8;

/// Serves one connection to its end on the calling thread.
pub fn serve_connection(stream: TcpStream, peer: SocketAddr, site: &Site, host: &ThreadHost<'_>) {
    host.worker.count_connection();
    let _until_it_is_closed = Open::count(host.server);
    converse(stream, peer, site, host);
}

/// The same, whoever keeps count of connections.
pub fn converse<H: Host>(stream: TcpStream, peer: SocketAddr, site: &Site, host: &H) {
    clock::tick();
    let mut io = BlockingTransport::new(stream, site);
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
pub struct BlockingTransport<'a> {
    stream: TcpStream,
    site: &'a Site,
    in_buffer: ReadBuffer,
    out: OutQueue,
    /// `None` until it was set. What the listener passed on is not relied upon once the client is waited for: one may have
    /// connected before the first child set it there.
    receive_timeout: Option<Duration>,
}

impl<'a> BlockingTransport<'a> {
    /// A connection with the timeouts that its listener passed on.
    pub fn new(stream: TcpStream, site: &'a Site) -> BlockingTransport<'a> {
        BlockingTransport { stream, site, in_buffer: ReadBuffer::new(), out: OutQueue::new(), receive_timeout: None }
    }

    fn fill_by(&mut self, by: Instant) -> io::Result<usize> {
        let mut expired = false;
        loop {
            let now = clock::turn().now;
            let left = by.saturating_duration_since(now);
            // A timeout may pass a little early.
            if left.is_zero() || expired && self.receive_timeout.is_some_and(|timeout| left <= timeout / 16) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let most = pause::before(self.site, now);
            let result = if self.receive_timeout.is_none() && !expired {
                // The first request has usually arrived with its connection.
                self.in_buffer.read_from(WithoutWaiting(&self.stream))
            } else {
                self.bound_receive(most.map_or(left, |most| most.min(left)), expired)?;
                self.in_buffer.read_from(&self.stream)
            };
            pause::after();
            clock::tick();
            match result {
                Ok((n, _)) => return Ok(n),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => expired = true,
                Err(error) => return Err(error),
            }
        }
    }

    /// Sets the socket's timeout where it is longer than the wait by more than a sixteenth. A shorter one may do: it is set
    /// anew only when it has expired.
    fn bound_receive(&mut self, wait: Duration, expired: bool) -> io::Result<()> {
        let will_do = |timeout: Duration| timeout <= wait + wait / 16 && (!expired || timeout >= wait - wait / 16);
        if self.receive_timeout.is_none() {
            let (_, send) = first_waits(self.site);
            self.stream.set_write_timeout(Some(send))?;
        }
        if !self.receive_timeout.is_some_and(will_do) {
            self.stream.set_read_timeout(Some(wait))?;
            self.receive_timeout = Some(wait);
        }
        Ok(())
    }

    /// Sends everything. The socket's timeout may be shorter than the client's: it is given up when it has taken nothing for
    /// that long.
    fn flush_all(&mut self) -> io::Result<()> {
        let mut taken_at = clock::turn().now;
        loop {
            let result = send_front(&self.stream, &self.out);
            match result {
                Ok(Some(n)) => {
                    self.out.advance(n);
                    if self.out.is_empty() {
                        return Ok(());
                    }
                    // The peer took a part only: time has passed.
                    taken_at = clock::tick().now;
                    pause::before(self.site, taken_at);
                    pause::after();
                }
                Ok(None) => return Ok(()),
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                    let now = clock::tick().now;
                    // A timeout may pass a little early.
                    if now + self.site.timeout / 16 >= taken_at + self.site.timeout {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    pause::before(self.site, now);
                    pause::after();
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Half-closes, then drops what the client still sends until it closes as well, for a bounded time.
    fn linger(mut self, total: Duration) {
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let until = clock::tick().now + total;
        loop {
            self.in_buffer.consume(self.in_buffer.received().len());
            let by = until.min(clock::turn().now + LINGER_READ);
            if !matches!(self.fill_by(by), Ok(1..)) {
                return;
            }
        }
    }
}

/// Reads what is there.
struct WithoutWaiting<'a>(&'a TcpStream);

impl Read for WithoutWaiting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT)?)
    }
}

impl Transport for BlockingTransport<'_> {
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
