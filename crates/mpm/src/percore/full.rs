//! A core that holds as many connections as it may: idle ones make room for new ones, the one that has been idle longest
//! first. Where all are at work, a new one is told so at once.

use std::io;
use std::os::fd::AsRawFd;

use nix::sys::socket::{MsgFlags, recv};

use super::connections::Connections;
use super::deadlines::Moment;
use super::driver::{Driver, Handle};
use super::queues::Queue;
use super::slot::State;
use crate::clock;
use crate::shed::REFUSED_LINGER;

/// Idle connections that are looked at for one that can be closed. Those where a request has arrived cannot.
const LOOKS_MAX: usize = 16;
/// Idle connections closed at once where descriptors ran out.
const CLOSED_AT_ONCE: usize = 16;

impl<D: Driver> Connections<'_, D> {
    /// Decides about connections that were accepted when there was no room. All events of the turn have been handled, so
    /// that an idle connection is one whose client really has sent nothing.
    pub(super) fn settle_newcomers(&mut self) {
        if self.newcomers.is_empty() {
            return;
        }
        for handle in std::mem::take(&mut self.newcomers) {
            if self.served >= self.room.connections {
                self.close_longest_idle();
            }
            if self.served < self.room.connections {
                self.begin(handle);
            } else {
                self.refuse(handle);
            }
            self.recount(handle);
        }
    }

    /// Makes room where accepting failed for lack of descriptors or memory.
    pub(super) fn make_room(&mut self, error: io::Error) {
        self.shedding.failed();
        self.accept_error = Some((self.open(), error));
        for _ in 0..CLOSED_AT_ONCE {
            if !self.close_longest_idle() && !self.close_first_refused() {
                break;
            }
        }
    }

    /// Tells the log what was shed.
    pub(super) fn report_shedding(&mut self) {
        if self.shedding.is_told() {
            return;
        }
        let now = clock::turn().now;
        let told = match &self.accept_error {
            Some((open, error)) => self.shedding.report(
                now,
                format_args!("accept failed with {open} connections ({error})"),
                "accepting goes on when one ends; raise the limit of open files",
            ),
            None => self.shedding.report(
                now,
                format_args!("MaxConnections of {} is reached in a process", self.room.connections),
                "raise MaxConnections, or lower KeepAliveTimeout",
            ),
        };
        if told {
            self.accept_error = None;
        }
    }

    /// Closes the connection that has been idle longest, if any can be closed.
    fn close_longest_idle(&mut self) -> bool {
        for _ in 0..LOOKS_MAX {
            let Some((queue, index)) = self.longest_idle() else { return false };
            let handle = Handle::from_index(index);
            // A request that arrives together with the close is the client's to repeat (RFC 9112 section 9.5); one that
            // has arrived before is answered.
            if self.has_input(handle) || self.driver.is_unsubmitted(handle) {
                self.queues.join(queue, index);
                continue;
            }
            self.leave(handle, None);
            self.recount(handle);
            self.shedding.closed();
            self.child.server().count_shed();
            return true;
        }
        false
    }

    fn longest_idle(&self) -> Option<(Queue, usize)> {
        if let Some(index) = self.queues.first(Queue::Kept) {
            return Some((Queue::Kept, index));
        }
        let index = self.queues.first(Queue::Silent)?;
        // It has that time from when it was accepted.
        let left_at_most = self.site.first_byte_timeout().saturating_sub(self.room.silence);
        let due_by = Moment::from(clock::turn().now + left_at_most);
        let is_idle = self.slots[index].deadline.is_some_and(|deadline| deadline <= due_by);
        is_idle.then_some((Queue::Silent, index))
    }

    fn has_input(&self, handle: Handle) -> bool {
        let socket = self.driver.descriptor(handle).as_raw_fd();
        recv(socket, &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT).is_ok_and(|n| n > 0)
    }

    /// Cuts the lingering of the client short that was refused first; `false` where there is none.
    fn close_first_refused(&mut self) -> bool {
        let Some(index) = self.queues.first(Queue::Refused) else { return false };
        self.close(Handle::from_index(index));
        self.recount(Handle::from_index(index));
        true
    }

    /// Answers 503 and lets the client read it. Where too many do so at the same time, the first has had its time.
    fn refuse(&mut self, handle: Handle) {
        self.shedding.refuse(&self.driver.descriptor(handle));
        self.child.server().count_refused();
        if self.queues.length(Queue::Refused) >= self.room.refused {
            self.close_first_refused();
        }
        self.linger(handle, REFUSED_LINGER);
        if matches!(self.slots[handle.index()].state, State::Lingering { .. }) {
            self.queues.join(Queue::Refused, handle.index());
        }
    }
}
