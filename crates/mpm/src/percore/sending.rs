//! Sending: small answers are handed to the driver and forgotten, large ones are sent a share at a time while their future
//! waits. What a turn sends of large answers is bounded, so that however many of them there are and however fast their
//! readers, the next turn, and with it everybody else's request, is milliseconds away.

use std::io;

use manifold_engine::out::Front;
use manifold_engine::transport::Next;

use super::connections::{Connections, Wants};
use super::driver::{Driver, Handle, Readiness};
use super::slot::State;
use super::transport::{Desk, with_mail};
use crate::blocking::{linger_total, send_some};
use crate::clock;

/// Bytes of large answers that are sent in a turn, beside the first share of new ones: about a millisecond. With a quarter of
/// it, most of the answers to 100 clients who fetch 136 KB are cut in two, which was measured to cost a fifth more processor
/// time; with four times as much, 1,000 such clients cost a third more.
pub(super) const TURN_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of a large answer that one connection sends before the others get their turn.
const SHARE: u64 = 1024 * 1024;
/// Bytes of a large answer that are sent at once when it begins, however much the turn has sent already. They cost a call more
/// where the rest has to wait, and were measured to save a quarter of the processor time that letting all of it wait costs.
const FIRST_SHARE: u64 = 16 * 1024;

/// How small answers are sent.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// See [`Driver::send_at_once`].
    AtOnce,
    /// See [`Driver::send`].
    Told { more: bool },
}

impl<D: Driver> Connections<'_, D> {
    /// Lets connections go on that had sent their share.
    pub(super) fn go_on_sending(&mut self) {
        for _ in 0..self.unfinished.len() {
            if self.turn_bytes == 0 {
                return;
            }
            let Some(handle) = self.unfinished.pop_front() else { return };
            if std::mem::take(&mut self.slots[handle.index()].unfinished) {
                self.go_on(handle);
                self.recount(handle);
            }
        }
    }

    /// A send has ended.
    pub(super) fn sent(&mut self, handle: Handle, result: io::Result<()>) {
        let slot = &mut self.slots[handle.index()];
        slot.sending = false;
        if result.is_ok() && !slot.behind.is_empty() {
            let behind = std::mem::replace(&mut slot.behind, self.driver.spare());
            self.driver.send(handle, behind, false);
            slot.sending = true;
            return;
        }
        slot.behind.clear();
        match (slot.state, result) {
            (State::Idle, Ok(())) => {
                self.line_up(handle);
                self.set_deadline(handle, self.now + self.site.keep_alive_timeout);
            }
            (State::Leaving { linger: true }, Ok(())) => {
                let total = linger_total(&slot.conn);
                self.linger(handle, total);
            }
            (State::Busy(task), Err(error)) => {
                with_mail(self.tasks.mail(task), |mail| mail.flushed = Some(Err(error)));
                self.go_on(handle);
            }
            (State::Busy(_), Ok(())) => self.go_on(handle),
            (State::Idle | State::Leaving { .. }, _) => self.close(handle),
            (State::Lingering { .. } | State::Closing | State::Newcomer | State::Vacant, _) => {}
        }
    }

    /// What was thought to be sent with the turn's end was too much for the socket.
    pub(super) fn blocked(&mut self, handle: Handle) {
        let slot = &mut self.slots[handle.index()];
        slot.sending = true;
        if matches!(slot.state, State::Idle | State::Leaving { .. }) {
            self.queues.leave(handle.index());
            self.set_deadline(handle, self.now + self.site.timeout);
        }
    }

    /// Lets connections go on that waited for an answer to go out with the turn's end.
    pub(super) fn go_on_submitted(&mut self) {
        if self.unsubmitted.is_empty() {
            return;
        }
        for handle in std::mem::take(&mut self.unsubmitted) {
            if self.driver.is_unsubmitted(handle) {
                self.unsubmitted.push(handle);
                continue;
            }
            let slot = &self.slots[handle.index()];
            let waits = !slot.behind.is_empty() || matches!(slot.state, State::Busy(_) | State::Leaving { .. });
            if waits && !slot.sending {
                self.sent(handle, Ok(()));
                self.recount(handle);
            }
        }
    }

    /// Goes on with the large answer of a connection, if it has one under way.
    pub(super) fn go_on(&mut self, handle: Handle) {
        if let State::Busy(task) = self.slots[handle.index()].state
            && with_mail(self.tasks.mail(task), |mail| mail.flush.is_some())
            && self.flush(handle, task, self.turn_bytes.min(SHARE))
        {
            self.run(handle, task);
        }
    }

    /// Begins to send what a future has queued. Returns whether that has ended and the future can go on.
    pub(super) fn begin_flush(&mut self, handle: Handle, task: usize) -> bool {
        self.flush(handle, task, self.turn_bytes.clamp(FIRST_SHARE, SHARE))
    }

    /// Takes over what a future has left on its desk, and how it has left the connection; `None` where it serves it again.
    pub(super) fn take_back(&mut self, handle: Handle, task: usize, mut desk: Box<Desk>) -> Option<io::Result<Next>> {
        let result = std::mem::replace(&mut desk.result, Ok(Next::Close));
        let slot = &mut self.slots[handle.index()];
        slot.conn = desk.conn;
        let kept = matches!(result, Ok(Next::KeepAlive));
        if !desk.io.staged.is_empty() {
            // Where the connection goes on, nothing depends on when this has been sent.
            let way = if kept && !slot.ended { Way::AtOnce } else { Way::Told { more: false } };
            self.send_staged(handle, &mut desk.io.staged, way);
        }
        if self.tasks.give_back(task, desk, kept) { None } else { Some(result) }
    }

    /// Takes out of the mail of a future that waits what it left there.
    pub(super) fn collect(&mut self, handle: Handle, task: usize) -> Wants {
        let (mut staged, flushes, fill_by) = with_mail(self.tasks.mail(task), |mail| {
            (std::mem::take(&mut mail.staged), mail.flush.is_some(), mail.fill_by.take())
        });
        if !staged.is_empty() {
            self.send_staged(handle, &mut staged, Way::Told { more: flushes });
            with_mail(self.tasks.mail(task), |mail| mail.staged = staged);
        }
        match fill_by {
            Some(by) => Wants::Fill(by),
            None if flushes => Wants::Flush,
            None => Wants::Disk,
        }
    }

    /// Sends small answers, behind what is still to be sent, and leaves an empty buffer in their place.
    fn send_staged(&mut self, handle: Handle, staged: &mut Vec<u8>, way: Way) {
        let (slot, driver) = (&mut self.slots[handle.index()], &mut self.driver);
        let unsubmitted = driver.is_unsubmitted(handle);
        if unsubmitted {
            self.unsubmitted.push(handle);
        }
        if slot.sending || unsubmitted {
            slot.behind.append(staged);
            return;
        }
        let staged = std::mem::replace(staged, driver.spare());
        slot.sending = match way {
            Way::AtOnce => driver.send_at_once(handle, staged),
            Way::Told { more } => {
                driver.send(handle, staged, more);
                true
            }
        };
    }

    /// Sends up to `share` bytes of what a future has queued. Returns whether all were sent, or sending failed.
    pub(super) fn flush(&mut self, handle: Handle, task: usize, share: u64) -> bool {
        let mail = self.tasks.mail(task);
        let Some((mut queue, mut by)) = with_mail(mail, |mail| mail.flush.take()) else { return true };
        let mut result = with_mail(mail, |mail| mail.flushed.take());
        let mut share = share;
        let unsubmitted = self.driver.is_unsubmitted(handle);
        if unsubmitted {
            self.unsubmitted.push(handle);
        }
        // What was sent behind the engine's back comes first; its end lets this go on, as does the disk's answer.
        while result.is_none()
            && !unsubmitted
            && !self.slots[handle.index()].sending
            && !self.slots[handle.index()].asking
        {
            if share == 0 {
                if !std::mem::replace(&mut self.slots[handle.index()].unfinished, true) {
                    self.unfinished.push_back(handle);
                }
                break;
            }
            let at_most = match queue.front() {
                Front::File(file, part) | Front::Read(file, part) => {
                    let part = part.start..part.end.min(part.start + share);
                    self.ready_to_send(handle, file, part)
                }
                Front::Memory | Front::Empty => share,
            };
            if at_most == 0 {
                break;
            }
            match send_some(&self.driver.descriptor(handle), &queue, at_most) {
                Ok(sent) => {
                    let sent = sent.unwrap_or(0);
                    queue.advance(sent);
                    share = share.saturating_sub(sent);
                    self.turn_bytes = self.turn_bytes.saturating_sub(sent);
                    by = clock::turn().now + self.site.timeout;
                    if queue.is_empty() {
                        result = Some(Ok(()));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !std::mem::replace(&mut self.slots[handle.index()].polling, true) {
                        self.driver.poll(handle, Readiness::Writable);
                    }
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => result = Some(Err(error)),
            }
        }
        let ended = result.is_some();
        if !ended && !self.slots[handle.index()].asking {
            self.set_deadline(handle, by.into());
        }
        with_mail(mail, |mail| (mail.flush, mail.flushed) = (Some((queue, by)), result));
        ended
    }
}
