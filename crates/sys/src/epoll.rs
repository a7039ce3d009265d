//! epoll_pwait2(2): waiting for many descriptors for a time in nanoseconds, where nix's wait counts whole milliseconds.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use nix::sys::epoll::EpollEvent;

/// Waits until something happens to a watched descriptor, at most `timeout`; how many of `events` were filled. The kernel ends a wait
/// late by the thread's timer slack (50 microseconds unless it was set) and by what waking takes.
///
/// # Errors
/// The call's error: `ENOSYS` before Linux 5.11, `EINTR` when a signal came.
pub fn wait(epoll: BorrowedFd<'_>, events: &mut [EpollEvent], timeout: Duration) -> io::Result<usize> {
    let limit = libc::timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    let room = i32::try_from(events.len()).unwrap_or(i32::MAX);
    // SAFETY: nix's event is the kernel's, transparently; the kernel writes at most `room` of them, which is no more than there
    // are; the timeout is only read, and no signal mask is given.
    let ready = unsafe {
        libc::epoll_pwait2(
            epoll.as_raw_fd(),
            events.as_mut_ptr().cast::<libc::epoll_event>(),
            room,
            &raw const limit,
            std::ptr::null(),
        )
    };
    usize::try_from(ready).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollFlags};

    use super::*;

    #[test]
    fn events_and_the_end_of_the_time_are_told() {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).expect("an epoll instance");
        let (mut ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        epoll.add(&theirs, EpollEvent::new(EpollFlags::EPOLLIN, 7)).expect("a watched socket");
        let mut events = [EpollEvent::empty(); 2];
        assert_eq!(wait(epoll.0.as_fd(), &mut events, Duration::from_nanos(1)).expect("a wait"), 0);
        ours.write_all(b"x").expect("a byte sent");
        assert_eq!(wait(epoll.0.as_fd(), &mut events, Duration::from_secs(60)).expect("a wait"), 1);
        assert_eq!(events[0].data(), 7);
    }
}
