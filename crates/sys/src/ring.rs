//! io_uring made safe: a ring that owns everything the kernel may touch, so that no sequence of calls frees memory or
//! reuses a descriptor that an operation under way still needs.
//!
//! - The ring owns the descriptors ([`Ring::adopt`]); an open one is named by a [`Handle`]. Closing is queued behind the
//!   operations queued before it, so no operation can meet a descriptor number that was given to something else.
//! - The ring owns the bytes of a send until its completion arrived.
//! - Received bytes are lent by [`Ring::next_event`] until the next call on the ring, then their buffer returns to the kernel.
//! - A handle has at most one operation of each kind under way.
//! - A dropped ring cancels what is under way and waits for it; what the kernel does not let go of is leaked, never freed.
//!
//! A ring belongs to the thread that made it (it is not `Send`): the kernel is told so (`SINGLE_ISSUER`,
//! `DEFER_TASKRUN`; Linux 6.1) and runs completion work only inside [`Ring::wait`]. Make it after the fork.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::time::{Duration, Instant};

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode};

mod buffers;
#[cfg(test)]
mod tests;

use buffers::Buffers;

/// How large a ring is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Operations that one call of [`Ring::wait`] submits at once; more are queued and submitted in several steps.
    pub submissions: u32,
    /// Completions that fit before the kernel has to keep them aside (it loses none). At least `submissions`.
    pub completions: u32,
    /// Buffers for received bytes, at most: a power of two of at most 32768. They take memory as they are needed.
    pub buffers: u16,
    /// Bytes in each buffer.
    pub buffer_size: u32,
}

/// Names a descriptor that the ring owns, from [`Ring::adopt`] until [`Event::Closed`] (or [`Ring::close`] returned
/// `true`). Later the same number names another descriptor, as indices into a `Vec` do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(u32);

impl Handle {
    /// The number, for tables beside the ring's own; small numbers are used first.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The handle with this number. Operations on a handle that names no open descriptor panic.
    pub fn from_index(index: usize) -> Handle {
        Handle(u32::try_from(index).expect("fewer than 2^32 descriptors"))
    }
}

/// How many times a receive delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shots {
    /// Once.
    One,
    /// Until end of file, an error or [`Ring::stop_receiving`].
    Many,
}

/// What is waited for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Readable, told each time it becomes so.
    Readable,
    /// Writable, told once.
    Writable,
}

/// Something that has happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// A connection was accepted, and adopted by the ring.
    Accepted {
        /// The listener.
        listener: Handle,
        /// The connection, or why there is none.
        connection: io::Result<Handle>,
        /// Whether accepting goes on; where not, [`Ring::accept`] has to be called again.
        more: bool,
    },
    /// Bytes arrived; none is end of file.
    Received {
        /// The connection.
        handle: Handle,
        /// The bytes, lent until the next call on the ring.
        data: io::Result<&'a [u8]>,
        /// Whether the receive goes on; where not, [`Ring::receive`] has to be called again.
        more: bool,
    },
    /// All bytes of a send were accepted by the socket, or it failed.
    Sent {
        /// The connection.
        handle: Handle,
        /// The error, such as `ConnectionReset`, `BrokenPipe` or, where it was stopped, `ECANCELED`.
        result: io::Result<()>,
    },
    /// The socket was too full for all of what was sent by [`Ring::send_at_once`]: the rest is sent as by [`Ring::send`].
    Blocked {
        /// The connection.
        handle: Handle,
    },
    /// The descriptor is readable or writable (or in error, which reading or writing will tell).
    Ready {
        /// The descriptor.
        handle: Handle,
        /// The error of the wait itself, `ECANCELED` where it was stopped.
        result: io::Result<()>,
        /// Whether the wait goes on.
        more: bool,
    },
    /// The last operation on a closed handle has ended: its number is free.
    Closed {
        /// The handle that is no more.
        handle: Handle,
    },
}

/// Kinds of operations. A completion's user data is the kind and the handle's number, so that a kind and a number name at
/// most one operation under way.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Accept = 1,
    Receive = 2,
    Send = 4,
    Poll = 8,
}

/// User data of operations that report only failures, which concern nobody (a cancellation that came too late).
const UNHEARD: u64 = 0;

/// Capacity of a fresh buffer for sends: a usual head fits.
const SPARE_CAPACITY: usize = 512;
/// Buffers of ended sends kept for the next ones, and the largest capacity worth keeping.
const SPARES_MAX: usize = 1024;
const SPARE_CAPACITY_MAX: usize = 64 * 1024;

/// How long a dropped ring waits for the kernel to let go before it leaks what the kernel still holds.
const DROP_PATIENCE: Duration = Duration::from_secs(2);

/// A descriptor and what is under way on it.
#[derive(Default)]
struct Entity {
    /// `None` once it is closing, or vacant.
    descriptor: Option<OwnedFd>,
    /// Kinds under way, as bits.
    under_way: u8,
    /// Whether a receive is to be repeated until it is stopped.
    shots_many: bool,
    /// The receive is not to be repeated where it finds no buffer.
    stopping: bool,
    /// The receive is not with the kernel: it found no buffer, and is among those to be repeated.
    starved: bool,
    /// The rest of a send that went out in part is not to follow.
    giving_up: bool,
    closing: bool,
    /// The bytes of the send under way, and how many of them were sent. The kernel reads them: never changed or freed
    /// while `Kind::Send` is under way.
    outgoing: Vec<u8>,
    sent: usize,
    /// The send under way is one that ends with the submission of this number, unless a completion says otherwise; 0 is none.
    at_once: u64,
}

impl Entity {
    /// Notes that an operation starts.
    fn begin(&mut self, kind: Kind) -> Fd {
        assert!(self.under_way & kind as u8 == 0, "an operation of this kind is under way on the handle");
        self.under_way |= kind as u8;
        self.fd()
    }

    /// Notes that an operation has ended.
    fn end(&mut self, kind: Kind) {
        debug_assert!(self.under_way & kind as u8 != 0);
        self.under_way &= !(kind as u8);
    }

    fn fd(&self) -> Fd {
        Fd(self.descriptor.as_ref().expect("the handle names an open descriptor").as_raw_fd())
    }

    /// Takes over what is to be sent.
    #[inline]
    fn begin_send(&mut self, bytes: Vec<u8>) {
        assert!(!bytes.is_empty(), "nothing to send");
        self.begin(Kind::Send);
        (self.outgoing, self.sent, self.giving_up) = (bytes, 0, false);
    }

    /// A send of all that is left to be sent.
    fn send_entry(&self, flags: libc::c_int) -> Entry {
        let rest = &self.outgoing[self.sent..];
        let len = u32::try_from(rest.len()).unwrap_or(i32::MAX as u32);
        opcode::Send::new(self.fd(), rest.as_ptr(), len).flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL | flags).build()
    }
}

/// An io_uring instance with its descriptors and buffers. See the module's text.
pub struct Ring {
    uring: IoUring,
    entities: ManuallyDrop<Vec<Entity>>,
    buffers: ManuallyDrop<Buffers>,
    vacant: Vec<u32>,
    /// Operations that did not fit into the submission queue, in order.
    backlog: VecDeque<Entry>,
    /// Receives that found no buffer, in order. Each `wait` repeats no more than there are buffers, so that every one of
    /// them finds one, however many there are. Entries of handles that are not `starved` (any more) mean nothing.
    starved: VecDeque<Handle>,
    /// The buffer lent by the last event.
    lent: Option<u16>,
    /// Sends that end with their submission: those that were queued, and those that were submitted; and how many times everything
    /// that was queued was submitted.
    at_once: Vec<Handle>,
    at_once_submitted: Vec<Handle>,
    submissions: u64,
    /// A handle was closed behind bytes that have still to be submitted: nothing but the submission tells of its end.
    closes_behind: bool,
    /// Completions for which the kernel's queue had no room.
    set_aside: VecDeque<cqueue::Entry>,
    spares: Vec<Vec<u8>>,
    /// The kernel takes calls from the thread that made the ring only.
    _not_send: PhantomData<*const ()>,
}

impl Ring {
    /// Makes a ring for the calling thread.
    ///
    /// # Errors
    /// `ENOSYS`, `EPERM` or `EACCES` where io_uring is missing or forbidden (seccomp, `kernel.io_uring_disabled`),
    /// `EINVAL` or `Unsupported` where the kernel is older than 6.1, `ENOMEM` at the limit of locked memory.
    pub fn new(options: &Options) -> io::Result<Ring> {
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize(options.completions.max(options.submissions))
            .build(options.submissions)?;
        require(&uring)?;
        let buffers = Buffers::register(&uring.submitter(), options.buffers, options.buffer_size)?;
        Ok(Ring {
            uring,
            entities: ManuallyDrop::new(Vec::new()),
            buffers: ManuallyDrop::new(buffers),
            vacant: Vec::new(),
            backlog: VecDeque::new(),
            starved: VecDeque::new(),
            lent: None,
            at_once: Vec::new(),
            at_once_submitted: Vec::new(),
            submissions: 0,
            closes_behind: false,
            set_aside: VecDeque::new(),
            spares: Vec::new(),
            _not_send: PhantomData,
        })
    }

    /// Takes a descriptor over. A socket may be in non-blocking mode; operations of the ring wait all the same.
    pub fn adopt(&mut self, descriptor: OwnedFd) -> Handle {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.entities.push(Entity::default());
            (self.entities.len() - 1) as u32
        });
        self.entities[index as usize].descriptor = Some(descriptor);
        Handle(index)
    }

    /// The descriptor itself, for calls the ring has no operation for.
    ///
    /// # Panics
    /// When `handle` names no open descriptor; so do all operations below.
    pub fn descriptor(&self, handle: Handle) -> BorrowedFd<'_> {
        self.entities[handle.index()].descriptor.as_ref().expect("the handle names an open descriptor").as_fd()
    }

    /// Accepts connections from a listener until stopped; accepted sockets are non-blocking and closed on exec.
    ///
    /// # Panics
    /// When it accepts already.
    pub fn accept(&mut self, listener: Handle) {
        let fd = self.entities[listener.index()].begin(Kind::Accept);
        self.push(
            opcode::AcceptMulti::new(fd).flags(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK).build(),
            listener,
            Kind::Accept,
        );
    }

    /// Receives bytes into a buffer of the ring's own.
    ///
    /// # Panics
    /// When a receive is under way.
    pub fn receive(&mut self, handle: Handle, shots: Shots) {
        let entity = &mut self.entities[handle.index()];
        entity.begin(Kind::Receive);
        entity.shots_many = shots == Shots::Many;
        entity.stopping = false;
        self.push_receive(handle);
    }

    /// Whether bytes of [`send_at_once`](Self::send_at_once) have still to be submitted.
    pub fn is_unsubmitted(&self, handle: Handle) -> bool {
        self.entities[handle.index()].at_once > self.submissions
    }

    /// Whether a receive is under way.
    pub fn is_receiving(&self, handle: Handle) -> bool {
        self.entities[handle.index()].under_way & Kind::Receive as u8 != 0
    }

    /// Sends all of `bytes`; `more` announces that further bytes will follow at once (`MSG_MORE`).
    ///
    /// # Panics
    /// When a send is under way, or `bytes` is empty.
    pub fn send(&mut self, handle: Handle, bytes: Vec<u8>, more: bool) {
        self.settle(handle);
        let entity = &mut self.entities[handle.index()];
        entity.begin_send(bytes);
        let send = entity.send_entry(if more { libc::MSG_MORE } else { 0 });
        self.push(send, handle, Kind::Send);
    }

    /// Sends all of `bytes` with the next [`wait`](Self::wait), and reports nothing where the socket takes them, as it nearly
    /// always does: one completion less for each answer. Otherwise [`Event::Blocked`] comes before any event of a later
    /// moment, or [`Event::Sent`] with an error. Gives the bytes back where so many are queued that it cannot be done.
    ///
    /// # Panics
    /// When a send is under way, or `bytes` is empty. One that was made at once is over with the `wait` that follows it.
    ///
    /// # Errors
    /// The bytes; [`send`](Self::send) takes them.
    #[inline]
    pub fn send_at_once(&mut self, handle: Handle, bytes: Vec<u8>) -> Result<(), Vec<u8>> {
        self.settle(handle);
        let entity = &mut self.entities[handle.index()];
        entity.begin_send(bytes);
        // Not to wait: where less than all goes out that is a failure then, and only successes go unreported.
        let send = entity.send_entry(libc::MSG_DONTWAIT).flags(Flags::SKIP_SUCCESS);
        let is_queued = self.backlog.is_empty() && self.try_push(&send.user_data(user_data(handle, Kind::Send)));
        let entity = &mut self.entities[handle.index()];
        if !is_queued {
            entity.end(Kind::Send);
            return Err(std::mem::take(&mut entity.outgoing));
        }
        entity.at_once = self.submissions + 1;
        self.at_once.push(handle);
        Ok(())
    }

    /// An empty buffer for [`send`](Self::send), with the memory of a previous one where there is some.
    pub fn spare(&mut self) -> Vec<u8> {
        self.spares.pop().unwrap_or_else(|| Vec::with_capacity(SPARE_CAPACITY))
    }

    /// Waits for a descriptor to become ready.
    ///
    /// # Panics
    /// When such a wait is under way.
    pub fn poll(&mut self, handle: Handle, readiness: Readiness) {
        let fd = self.entities[handle.index()].begin(Kind::Poll);
        let (flags, multi) = match readiness {
            Readiness::Readable => (libc::POLLIN, true),
            Readiness::Writable => (libc::POLLOUT, false),
        };
        self.push(opcode::PollAdd::new(fd, flags as u32).multi(multi).build(), handle, Kind::Poll);
    }

    /// Ends [`accept`](Self::accept); a last event tells when. Connections accepted until then are still delivered.
    pub fn stop_accepting(&mut self, listener: Handle) {
        self.cancel(listener, Kind::Accept);
    }

    /// Ends a receive; its last event (`ECANCELED`, or bytes that were faster) tells when.
    pub fn stop_receiving(&mut self, handle: Handle) {
        self.entities[handle.index()].stopping = true;
        self.cancel(handle, Kind::Receive);
    }

    /// Gives up a send, of which any part may have gone out; [`Event::Sent`] tells when.
    pub fn stop_sending(&mut self, handle: Handle) {
        self.entities[handle.index()].giving_up = true;
        self.cancel(handle, Kind::Send);
    }

    /// Closes a descriptor: receives and waits under way end, a send under way is still carried through (see
    /// [`stop_sending`](Self::stop_sending)). No event but [`Event::Closed`] follows.
    ///
    /// Returns `true` when nothing was under way: the handle is gone at once and no event follows.
    pub fn close(&mut self, handle: Handle) -> bool {
        self.settle(handle);
        self.closes_behind |= self.is_unsubmitted(handle);
        let entity = &mut self.entities[handle.index()];
        if std::mem::take(&mut entity.starved) {
            entity.end(Kind::Receive);
        }
        if entity.under_way & !(Kind::Send as u8) != 0 {
            for kind in [Kind::Accept, Kind::Receive, Kind::Poll] {
                self.cancel(handle, kind);
            }
        }
        let entity = &mut self.entities[handle.index()];
        let descriptor = entity.descriptor.take().expect("the handle names an open descriptor");
        entity.closing = true;
        let close = opcode::Close::new(Fd(descriptor.into_raw_fd())).build();
        self.queue(close.user_data(UNHEARD).flags(Flags::SKIP_SUCCESS));
        self.vacate(handle)
    }

    /// Submits what was queued and waits until something has happened, at most for `timeout`.
    ///
    /// # Errors
    /// Only what makes the ring unusable; a signal or a passed timeout is no error.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.reclaim();
        self.feed_starved();
        while !self.backlog.is_empty() {
            self.refill();
            if !self.backlog.is_empty() && !self.enter(0, None)? {
                break;
            }
        }
        let nothing_yet = !std::mem::take(&mut self.closes_behind) && self.uring.completion().is_empty();
        let want = usize::from(nothing_yet && self.set_aside.is_empty());
        self.enter(want, if self.starved.is_empty() { timeout } else { Some(Duration::ZERO) })?;
        // Completions are told in their order, so that none of them is still with the kernel when the last has been told.
        while self.uring.submission().cq_overflow() {
            self.set_aside.extend(self.uring.completion());
            self.enter(0, Some(Duration::ZERO))?;
        }
        if self.backlog.is_empty() && self.uring.submission().is_empty() {
            self.submissions += 1;
            if self.at_once_submitted.is_empty() {
                std::mem::swap(&mut self.at_once_submitted, &mut self.at_once);
            } else {
                self.at_once_submitted.append(&mut self.at_once);
            }
        }
        Ok(())
    }

    /// Whether something has happened that was not told yet.
    pub fn has_events(&mut self) -> bool {
        !self.set_aside.is_empty() || !self.uring.completion().is_empty()
    }

    /// The next thing that has happened; `None` when it is time to [`wait`](Self::wait).
    pub fn next_event(&mut self) -> Option<Event<'_>> {
        self.reclaim();
        loop {
            let next =
                if self.set_aside.is_empty() { self.uring.completion().next() } else { self.set_aside.pop_front() };
            let Some(completion) = next else { return self.settle_all().map(|handle| Event::Closed { handle }) };
            // As it is nearly always.
            if let Some(Filled { handle, id, len, more }) = self.filled(&completion) {
                return Some(Event::Received { handle, data: Ok(self.buffers.bytes(id, len)), more });
            }
            if let Some(event) = self.digest(&completion) {
                return Some(event);
            }
        }
    }
}

/// A buffer with so many bytes that were received; whether the receive goes on.
struct Filled {
    handle: Handle,
    id: u16,
    len: usize,
    more: bool,
}

impl Ring {
    /// What a completion has received, unless nobody reads it any more.
    #[inline]
    fn filled(&mut self, completion: &cqueue::Entry) -> Option<Filled> {
        let (data, flags) = (completion.user_data(), completion.flags());
        let (handle, len) = (Handle(data as u32), usize::try_from(completion.result()).ok()?);
        let id = cqueue::buffer_select(flags).filter(|_| data >> 32 == Kind::Receive as u64)?;
        let entity = &mut self.entities[handle.index()];
        if entity.closing || len == 0 {
            return None;
        }
        let more = cqueue::more(flags);
        if !more {
            entity.end(Kind::Receive);
        }
        self.buffers.taken(id);
        self.lent = Some(id);
        Some(Filled { handle, id, len, more })
    }

    /// What a completion tells that has received nothing. Brings the books up to date; `None` where it concerns nobody.
    #[inline(never)]
    fn digest(&mut self, completion: &cqueue::Entry) -> Option<Event<'static>> {
        let (data, flags) = (completion.user_data(), completion.flags());
        if data == UNHEARD {
            return None;
        }
        let handle = Handle(data as u32);
        let result = match completion.result() {
            error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
            value => Ok(value as usize),
        };
        let more = cqueue::more(flags);
        match data >> 32 {
            kind if kind == Kind::Accept as u64 => self.digest_accept(handle, result, more),
            kind if kind == Kind::Receive as u64 => {
                self.digest_receive(handle, result, cqueue::buffer_select(flags), more)
            }
            kind if kind == Kind::Send as u64 => self.digest_send(handle, result),
            _ => self.digest_poll(handle, result, more),
        }
    }

    fn digest_accept(&mut self, listener: Handle, result: io::Result<usize>, more: bool) -> Option<Event<'static>> {
        // SAFETY: the kernel made this descriptor for this completion; nobody else knows of it.
        let accepted = result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) });
        if !more {
            self.entities[listener.index()].end(Kind::Accept);
        }
        if self.entities[listener.index()].closing {
            // The listener is being closed: a connection that was accepted meanwhile is dropped, as its backlog is.
            return (!more && self.vacate(listener)).then_some(Event::Closed { handle: listener });
        }
        let connection = accepted.map(|descriptor| self.adopt(descriptor));
        Some(Event::Accepted { listener, connection, more })
    }

    fn digest_receive(
        &mut self,
        handle: Handle,
        result: io::Result<usize>,
        buffer: Option<u16>,
        more: bool,
    ) -> Option<Event<'static>> {
        let entity = &mut self.entities[handle.index()];
        let closing = entity.closing;
        if let Some(id) = buffer {
            self.buffers.taken(id);
            self.lent = Some(id);
        }
        let no_buffer = matches!(&result, Err(error) if error.raw_os_error() == Some(libc::ENOBUFS));
        let mut result = result;
        if no_buffer && !more && entity.stopping {
            // It ended by itself before it was stopped: that is no failure of the connection.
            result = Err(io::Error::from_raw_os_error(libc::ECANCELED));
        } else if no_buffer && !more && !closing {
            // Repeated with a `wait` to come, by when the buffers of the completions before this one have come back.
            entity.starved = true;
            self.starved.push_back(handle);
            return None;
        }
        if !more {
            entity.end(Kind::Receive);
        }
        if closing {
            self.reclaim();
            return (!more && self.vacate(handle)).then_some(Event::Closed { handle });
        }
        Some(Event::Received { handle, data: result.map(|_| &[][..]), more })
    }

    fn digest_send(&mut self, handle: Handle, result: io::Result<usize>) -> Option<Event<'static>> {
        let entity = &mut self.entities[handle.index()];
        let at_once = std::mem::take(&mut entity.at_once) != 0;
        let goes_on = match &result {
            Ok(sent) => {
                entity.sent += sent;
                *sent > 0
            }
            Err(error) => at_once && error.kind() == io::ErrorKind::WouldBlock,
        };
        if goes_on && entity.sent < entity.outgoing.len() && !entity.giving_up && !entity.closing {
            let send = entity.send_entry(0);
            self.push(send, handle, Kind::Send);
            return at_once.then_some(Event::Blocked { handle });
        }
        entity.end(Kind::Send);
        let complete = entity.sent == entity.outgoing.len();
        let outgoing = std::mem::take(&mut entity.outgoing);
        self.keep_spare(outgoing);
        if self.entities[handle.index()].closing {
            return self.vacate(handle).then_some(Event::Closed { handle });
        }
        let result = match result {
            Ok(_) if complete => Ok(()),
            Ok(_) => Err(io::Error::from_raw_os_error(libc::ECANCELED)),
            Err(error) => Err(error),
        };
        Some(Event::Sent { handle, result })
    }

    /// All completions were told: what was sent at once with the last submission has been sent. Gives a handle that was closed
    /// meanwhile; more may follow.
    fn settle_all(&mut self) -> Option<Handle> {
        while let Some(handle) = self.at_once_submitted.pop() {
            // Where a completion has told of it, or the handle was settled by its next send, this finds nothing to do.
            if self.settle(handle) && self.vacate(handle) {
                return Some(handle);
            }
        }
        None
    }

    /// Ends a send that was made at once and submitted: the kernel has let go of its bytes, and said nothing.
    /// Whether there was one, of a handle that is closing.
    #[inline]
    fn settle(&mut self, handle: Handle) -> bool {
        let entity = &mut self.entities[handle.index()];
        if entity.at_once == 0 || entity.at_once > self.submissions {
            return false;
        }
        entity.at_once = 0;
        entity.end(Kind::Send);
        let closing = entity.closing;
        let outgoing = std::mem::take(&mut entity.outgoing);
        self.keep_spare(outgoing);
        closing
    }

    fn digest_poll(&mut self, handle: Handle, result: io::Result<usize>, more: bool) -> Option<Event<'static>> {
        let entity = &mut self.entities[handle.index()];
        if !more {
            entity.end(Kind::Poll);
        }
        if entity.closing {
            return (!more && self.vacate(handle)).then_some(Event::Closed { handle });
        }
        Some(Event::Ready { handle, result: result.map(drop), more })
    }

    /// Frees the number of a closing handle once nothing is under way on it; whether it did.
    fn vacate(&mut self, handle: Handle) -> bool {
        let entity = &mut self.entities[handle.index()];
        if entity.under_way != 0 {
            return false;
        }
        *entity = Entity::default();
        self.vacant.push(handle.0);
        true
    }

    fn push_receive(&mut self, handle: Handle) {
        let entity = &self.entities[handle.index()];
        let fd = entity.fd();
        let entry = if entity.shots_many {
            opcode::RecvMulti::new(fd, buffers::GROUP).build()
        } else {
            opcode::Recv::new(fd, std::ptr::null_mut(), 0).buf_group(buffers::GROUP).build().flags(Flags::BUFFER_SELECT)
        };
        self.push(entry, handle, Kind::Receive);
    }

    fn push(&mut self, entry: Entry, handle: Handle, kind: Kind) {
        self.queue(entry.user_data(user_data(handle, kind)));
    }

    fn queue(&mut self, entry: Entry) {
        if !self.backlog.is_empty() || !self.try_push(&entry) {
            self.backlog.push_back(entry);
        }
    }

    #[inline]
    fn try_push(&mut self, entry: &Entry) -> bool {
        // SAFETY: the entry was built in this file and is one of: accept, poll, cancel and close, which name no memory; a
        // receive into the registered buffers, which outlive the ring's last operation (`Drop`); a send, whose bytes lie in
        // the heap memory of `Entity::outgoing`, neither changed nor freed before the completion (`digest_send`, `Drop`);
        // growth of `entities` moves the `Vec` but not its heap memory.
        unsafe { self.uring.submission().push(entry) }.is_ok()
    }

    fn refill(&mut self) {
        while let Some(entry) = self.backlog.pop_front() {
            if !self.try_push(&entry) {
                self.backlog.push_front(entry);
                return;
            }
        }
    }

    /// Repeats receives that found no buffer, as many as can find one now.
    fn feed_starved(&mut self) {
        if self.starved.is_empty() {
            return;
        }
        self.buffers.grow();
        for _ in 0..self.buffers.used() {
            let Some(handle) = self.starved.pop_front() else { return };
            self.feed(handle);
        }
    }

    fn feed(&mut self, handle: Handle) {
        if std::mem::take(&mut self.entities[handle.index()].starved) {
            self.push_receive(handle);
        }
    }

    fn cancel(&mut self, handle: Handle, kind: Kind) {
        if kind == Kind::Receive {
            // Only what is with the kernel can be cancelled there.
            self.feed(handle);
        }
        if self.entities[handle.index()].under_way & kind as u8 != 0 {
            let entry = opcode::AsyncCancel::new(user_data(handle, kind)).build();
            self.queue(entry.user_data(UNHEARD).flags(Flags::SKIP_SUCCESS));
        }
    }

    /// Gives the lent buffer back to the kernel.
    fn reclaim(&mut self) {
        if let Some(id) = self.lent.take() {
            self.buffers.give_back(id);
        }
    }

    /// Enters the kernel. `false` when it has to be emptied of completions first.
    fn enter(&self, want: usize, timeout: Option<Duration>) -> io::Result<bool> {
        let spec = timeout.map(|timeout| Timespec::new().sec(timeout.as_secs()).nsec(timeout.subsec_nanos()));
        let mut args = SubmitArgs::new();
        if let Some(spec) = &spec {
            args = args.timespec(spec);
        }
        match self.uring.submitter().submit_with_args(want, &args) {
            Ok(_) => Ok(true),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR) => Ok(true),
                Some(libc::EBUSY | libc::EAGAIN) => Ok(false),
                _ => Err(error),
            },
        }
    }

    fn keep_spare(&mut self, mut bytes: Vec<u8>) {
        if self.spares.len() < SPARES_MAX && bytes.capacity() <= SPARE_CAPACITY_MAX {
            bytes.clear();
            self.spares.push(bytes);
        }
    }

    /// Ends all operations and waits for their completions; `false` when the kernel did not let go in time.
    fn quiesce(&mut self) -> bool {
        for index in 0..self.entities.len() {
            // Nothing is started again from here on.
            self.entities[index].closing = true;
            self.entities[index].giving_up = true;
            for kind in [Kind::Accept, Kind::Receive, Kind::Send, Kind::Poll] {
                self.cancel(Handle(index as u32), kind);
            }
        }
        let until = Instant::now() + DROP_PATIENCE;
        while self.is_any_under_way() && Instant::now() < until {
            if self.wait(Some(Duration::from_millis(10))).is_err() {
                return false;
            }
            while self.next_event().is_some() {}
        }
        !self.is_any_under_way()
    }

    /// Whether the last completion of an operation is still to come.
    fn is_any_under_way(&self) -> bool {
        self.entities.iter().any(|entity| entity.under_way != 0)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.quiesce() && self.uring.submitter().unregister_buf_ring(buffers::GROUP).is_ok() {
            // SAFETY: neither field is used again; no operation is under way, so the kernel uses neither the bytes of sends
            // nor the buffers.
            unsafe {
                ManuallyDrop::drop(&mut self.entities);
                ManuallyDrop::drop(&mut self.buffers);
            }
        }
    }
}

fn user_data(handle: Handle, kind: Kind) -> u64 {
    u64::from(handle.0) | (kind as u64) << 32
}

/// Refuses a kernel that lacks what this file relies on.
fn require(uring: &IoUring) -> io::Result<()> {
    let parameters = uring.params();
    let mut probe = Probe::new();
    uring.submitter().register_probe(&mut probe)?;
    let codes = [
        opcode::Accept::CODE,
        opcode::Recv::CODE,
        opcode::Send::CODE,
        opcode::PollAdd::CODE,
        opcode::AsyncCancel::CODE,
        opcode::Close::CODE,
    ];
    let complete = parameters.is_feature_nodrop()
        && parameters.is_feature_ext_arg()
        && parameters.is_feature_fast_poll()
        && parameters.is_feature_skip_cqe_on_success()
        && parameters.is_feature_submit_stable()
        && codes.iter().all(|code| probe.is_supported(*code));
    if complete { Ok(()) } else { Err(io::Error::from(io::ErrorKind::Unsupported)) }
}
