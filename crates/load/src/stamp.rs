//! When bytes came, as the kernel saw it, however late somebody was woken to read them.
//!
//! A thread that waits for bytes sees them 20 microseconds after they came, or some milliseconds where others want its processor. The kernel
//! stamps what a socket receives if it is asked to (`SO_TIMESTAMPNS`, socket(7)), and hands the stamp over with the bytes.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, RawFd};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::sys::socket::{self, ControlMessageOwned, MsgFlags, sockopt};
use nix::sys::time::TimeSpec;

use crate::outcome::nanoseconds;

/// Receives bytes, and tells for how long they had waited.
#[derive(Debug)]
pub struct Stamps {
    space: Vec<u8>,
    /// When it was last looked for news, and the time before.
    looked: Instant,
    looked_before: Instant,
}

impl Stamps {
    /// Nothing was received yet.
    pub fn new() -> Stamps {
        let now = Instant::now();
        Stamps { space: nix::cmsg_space!(TimeSpec), looked: now, looked_before: now }
    }

    /// Has a socket's bytes stamped, and those of the sockets it accepts. Where the system refuses, bytes are said not to have waited.
    pub fn ask(socket: &impl AsFd) {
        let _refused = socket::setsockopt(socket, sockopt::ReceiveTimestampns, &true);
    }

    /// The system has just told what there is to be read.
    pub fn looked(&mut self) {
        self.looked_before = std::mem::replace(&mut self.looked, Instant::now());
    }

    /// Receives as recv(2) does. How many bytes, and for how many nanoseconds the last of them had waited.
    ///
    /// # Errors
    /// Those of recvmsg(2).
    pub fn receive(&mut self, socket: RawFd, buffer: &mut [u8]) -> Result<(usize, u64), Errno> {
        let mut pieces = [IoSliceMut::new(buffer)];
        let message = socket::recvmsg::<()>(socket, &mut pieces, Some(&mut self.space), MsgFlags::empty())?;
        let stamp = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
            _ => None,
        });
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let waited = stamp.map_or(Duration::ZERO, |stamp| now.saturating_sub(stamp));
        // What was there when it was looked before was read then. So a step of the system's clock, by which stamps go, does little harm.
        Ok((message.bytes, nanoseconds(waited.min(self.looked_before.elapsed()))))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn bytes_wait_from_when_they_came() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        Stamps::ask(&listener);
        let mut peer = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (socket, _) = listener.accept().expect("accepted");
        let (mut stamps, mut buffer, pause) = (Stamps::new(), [0; 16], Duration::from_millis(30));
        let mut receive = |stamps: &mut Stamps| stamps.receive(socket.as_raw_fd(), &mut buffer).expect("bytes");
        // The kernel begins to stamp a little after the first socket has asked it to.
        let stamped = (0..100).find_map(|_| {
            let began = Instant::now();
            peer.write_all(b"one").expect("sent");
            std::thread::sleep(pause);
            let (received, waited) = receive(&mut stamps);
            assert_eq!(received, 3);
            (waited > 0).then(|| (Duration::from_nanos(waited), began.elapsed()))
        });
        let (waited, since) = stamped.expect("this system stamps");
        // The stamp's clock and this one differ by less than a millisecond over this time.
        let unlike = Duration::from_millis(1);
        assert!(waited + unlike >= pause && waited <= since + unlike, "{waited:?} of {since:?}");
        // They cannot have come before it was looked for them.
        peer.write_all(b"two").expect("sent");
        std::thread::sleep(pause);
        let before = Instant::now();
        stamps.looked();
        stamps.looked();
        let (_, waited) = receive(&mut stamps);
        assert!(Duration::from_nanos(waited) <= before.elapsed(), "{waited}");
    }
}
