//! Sending on connected sockets with the flags the standard library does not offer.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use socket2::SockRef;

/// Whether more is sent at once after this, so that the kernel need not push out a small segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flags {
    /// This is all for now.
    None,
    /// A file follows (`MSG_MORE`).
    MoreFollows,
}

/// Sends `slices` in one call: send(2) for one, sendmsg(2) for several.
///
/// # Errors
/// The call's error; a closed connection is `BrokenPipe`, never a signal.
pub fn send(stream: &impl AsFd, slices: &[IoSlice<'_>], flags: Flags) -> io::Result<usize> {
    let flags = libc::MSG_NOSIGNAL | if flags == Flags::MoreFollows { libc::MSG_MORE } else { 0 };
    let socket = SockRef::from(stream);
    match slices {
        [one] => socket.send_with_flags(one, flags),
        several => socket.send_vectored_with_flags(several, flags),
    }
}
