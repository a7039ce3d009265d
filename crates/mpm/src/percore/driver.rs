//! How percore waits: completions of an io_uring, or the same said by epoll where io_uring is forbidden. Both own the
//! descriptors, name them by [`Handle`], and tell what has happened as [`Event`]s; see `manifold_sys::ring` for each call.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use manifold_sys::ring::Ring;
pub(super) use manifold_sys::ring::{Event, Handle, Readiness, Shots};

/// What percore asks of the kernel. The meaning of each call is that of [`Ring`]'s method of the same name.
pub(super) trait Driver {
    fn adopt(&mut self, descriptor: OwnedFd) -> Handle;
    fn descriptor(&self, handle: Handle) -> BorrowedFd<'_>;
    fn accept(&mut self, listener: Handle);
    fn stop_accepting(&mut self, listener: Handle);
    fn receive(&mut self, handle: Handle, shots: Shots);
    fn is_receiving(&self, handle: Handle) -> bool;
    fn stop_receiving(&mut self, handle: Handle);
    fn spare(&mut self) -> Vec<u8>;
    fn send(&mut self, handle: Handle, bytes: Vec<u8>, more: bool);
    /// Sends all of `bytes`; whether [`Event::Sent`] follows in any case. Otherwise only trouble is told: [`Event::Blocked`], or
    /// [`Event::Sent`] with an error, before any other event of the connection that was not there yet.
    fn send_at_once(&mut self, handle: Handle, bytes: Vec<u8>) -> bool;
    /// Whether such bytes wait for the turn's end, and trouble may still be told.
    fn is_unsubmitted(&self, handle: Handle) -> bool;
    fn stop_sending(&mut self, handle: Handle);
    fn poll(&mut self, handle: Handle, readiness: Readiness);
    fn close(&mut self, handle: Handle) -> bool;
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;
    fn next_event(&mut self) -> Option<Event<'_>>;
}

impl Driver for Ring {
    fn adopt(&mut self, descriptor: OwnedFd) -> Handle {
        Ring::adopt(self, descriptor)
    }

    fn descriptor(&self, handle: Handle) -> BorrowedFd<'_> {
        Ring::descriptor(self, handle)
    }

    fn accept(&mut self, listener: Handle) {
        Ring::accept(self, listener);
    }

    fn stop_accepting(&mut self, listener: Handle) {
        Ring::stop_accepting(self, listener);
    }

    fn receive(&mut self, handle: Handle, shots: Shots) {
        Ring::receive(self, handle, shots);
    }

    fn is_receiving(&self, handle: Handle) -> bool {
        Ring::is_receiving(self, handle)
    }

    fn stop_receiving(&mut self, handle: Handle) {
        Ring::stop_receiving(self, handle);
    }

    fn spare(&mut self) -> Vec<u8> {
        Ring::spare(self)
    }

    fn send(&mut self, handle: Handle, bytes: Vec<u8>, more: bool) {
        Ring::send(self, handle, bytes, more);
    }

    fn send_at_once(&mut self, handle: Handle, bytes: Vec<u8>) -> bool {
        match Ring::send_at_once(self, handle, bytes) {
            Ok(()) => false,
            Err(bytes) => {
                Ring::send(self, handle, bytes, false);
                true
            }
        }
    }

    fn is_unsubmitted(&self, handle: Handle) -> bool {
        Ring::is_unsubmitted(self, handle)
    }

    fn stop_sending(&mut self, handle: Handle) {
        Ring::stop_sending(self, handle);
    }

    fn poll(&mut self, handle: Handle, readiness: Readiness) {
        Ring::poll(self, handle, readiness);
    }

    fn close(&mut self, handle: Handle) -> bool {
        Ring::close(self, handle)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        Ring::wait(self, timeout)
    }

    fn next_event(&mut self) -> Option<Event<'_>> {
        Ring::next_event(self)
    }
}
