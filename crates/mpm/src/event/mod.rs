//! event: some processes of one listener and `ThreadsPerChild` workers. A connection that waits, for its next request, for
//! the rest of a slow head or body, for a slow reader, for a lingering close, is parked with the listener; a worker is held
//! only while there is work.
//!
//! A connection lives in a slot. What the slot holds is moved out by the worker that runs it and moved back in when it has
//! to wait; [`slot::Schedule`] sees to it that one worker at a time does so and that no event is lost meanwhile.

mod listener;
mod ready;
mod slot;

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use manifold_engine::request::Request;
use manifold_engine::serve::{Conn, serve};
use manifold_engine::site::Site;
use manifold_engine::transport::{Activity, Host, Next, Turn};
use nix::sys::epoll::{Epoll, EpollCreateFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::gettid;

use crate::blocking::linger_total;
use crate::child::{self, EXIT_SICK, cpus};
use crate::clock;
use crate::event::listener::Listener;
use crate::event::ready::ReadyQueue;
use crate::event::slot::{Held, Slot};
use crate::generation::Child;
use crate::host::Telling;
use crate::nonblocking::{NonblockingTransport, Parking};
use crate::scoreboard::Status;

/// The child's life: workers run what is ready, the listener parks the rest; both end when the last connection is gone.
pub fn child_main(child: &Child<'_>) -> u8 {
    let Ok(epoll) = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC) else { return EXIT_SICK };
    let Ok(wake) = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK) else { return EXIT_SICK };
    let slots = slots_needed(child);
    let places: Vec<Place> = (0..slots).map(|_| Place::default()).collect();
    let shared = Shared::new(child, &epoll, &wake, &places);
    run(child, &shared, |io, conn| drive(io, conn, &shared))
}

/// The engine's future for one request, or several pipelined ones; it owns what it works on, so that it can be parked.
async fn drive<'a>(mut io: NonblockingTransport<'a>, mut conn: Conn, shared: &Shared<'a>) -> Finished<'a> {
    let next = serve(&mut io, &mut conn, shared.site, shared).await;
    Finished { io, conn, next }
}

/// What remains when the engine has returned.
pub(crate) struct Finished<'a> {
    io: NonblockingTransport<'a>,
    conn: Conn,
    next: io::Result<Next>,
}

/// A future in memory that is used again for the next one.
type Task<F> = Pin<Box<Option<F>>>;

fn run<'a, F>(child: &Child<'a>, shared: &Shared<'a>, start: impl Fn(NonblockingTransport<'a>, Conn) -> F + Sync) -> u8
where
    F: Future<Output = Finished<'a>> + Send,
{
    let Ok(listener) = Listener::new(child, shared) else { return EXIT_SICK };
    let slots: Vec<Slot<'a, F>> = (0..shared.places.len()).map(|_| Slot::default()).collect();
    let workers = Workers { shared, slots: &slots, start: &start };
    thread::scope(|scope| {
        for index in 0..child.generation.limits.threads_per_child as usize {
            let workers = &workers;
            let builder = child::thread(child, format!("event-{index}"));
            if let Err(error) = builder.spawn_scoped(scope, move || workers.work(index)) {
                log::error!(target: "mpm_event", "AH03104: no thread could be made: {error}");
                shared.ready.close();
                return EXIT_SICK;
            }
        }
        let status = listener.run(child, shared, |slot, io, conn| {
            *slots[slot].held() = Held::Idle(io, conn);
        });
        shared.ready.close();
        status
    })
}

/// Slots of a child: every connection that admission lets in, and as many again that linger.
fn slots_needed(child: &Child<'_>) -> usize {
    let limits = &child.generation.limits;
    let threads = f64::from(limits.threads_per_child);
    2 * (threads * (1.0 + limits.async_factor)).ceil().clamp(1.0, 1e6) as usize
}

/// The part of a slot that listener and transports look at.
#[derive(Debug, Default)]
pub(crate) struct Place {
    schedule: slot::Schedule,
    deadline: clock::Deadline,
}

/// What listener and workers share.
pub(crate) struct Shared<'a> {
    child: Child<'a>,
    site: &'a Site,
    telling: Telling,
    epoll: &'a Epoll,
    wake: &'a EventFd,
    places: &'a [Place],
    free: Mutex<Vec<u32>>,
    ready: ReadyQueue,
    /// The listener has stopped accepting for lack of room and wants to be woken when there is some.
    wants_room: AtomicBool,
    draining: AtomicBool,
}

impl<'a> Shared<'a> {
    fn new(child: &Child<'a>, epoll: &'a Epoll, wake: &'a EventFd, places: &'a [Place]) -> Shared<'a> {
        Shared {
            child: Child { generation: child.generation, slot: child.slot },
            site: &child.generation.site,
            telling: Telling::of(&child.generation.site),
            epoll,
            wake,
            places,
            free: Mutex::new((0..places.len() as u32).rev().collect()),
            ready: ReadyQueue::new(places.len(), cpus()),
            wants_room: AtomicBool::new(false),
            draining: AtomicBool::new(false),
        }
    }

    /// A fresh connection for `slot`.
    fn transport(&self, slot: usize, stream: TcpStream) -> NonblockingTransport<'a> {
        let deadline = &self.places[slot].deadline;
        NonblockingTransport::new(stream, Parking { epoll: self.epoll, token: slot as u64, deadline })
    }

    fn take_slot(&self) -> Option<usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop().map(|slot| slot as usize)
    }

    fn give_back(&self, slot: usize) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(slot as u32);
    }

    fn may_accept(&self) -> bool {
        let limits = &self.child.generation.limits;
        let (open, _, lingering) = self.child.server().connections();
        let idle = (limits.threads_per_child as usize).saturating_sub(self.ready.awake());
        let admitted = f64::from(limits.threads_per_child) + limits.async_factor * idle as f64;
        (open as usize) < self.places.len() && (open.saturating_sub(lingering) as f64) < admitted
    }

    fn wake_listener(&self) {
        let _full_counter_wakes_as_well = self.wake.write(1);
    }

    fn closed(&self, slot: usize) {
        self.places[slot].deadline.clear();
        self.child.server().add_open(-1);
        self.give_back(slot);
    }

    fn offer_room(&self) {
        if self.wants_room.load(Ordering::Relaxed)
            && self.may_accept()
            && self.wants_room.swap(false, Ordering::Relaxed)
        {
            self.wake_listener();
        }
    }
}

thread_local! {
    /// Which worker the calling thread is.
    static WORKER: Cell<usize> = const { Cell::new(0) };
}

impl Host for Shared<'_> {
    fn turn(&self) -> Turn {
        clock::turn()
    }

    fn activity(&self, activity: Activity) {
        self.child.worker(WORKER.get()).set_status(Status::Doing(activity));
    }

    fn reading(&self, conn: &Conn) {
        self.telling.reading(&self.child.worker(WORKER.get()), conn);
    }

    fn began(&self, request: &Request) {
        self.telling.began(&self.child.worker(WORKER.get()), request);
    }

    fn served(&self, bytes: u64, request: &Request, conn: &Conn) {
        self.telling.served(&self.child.worker(WORKER.get()), bytes, request, conn);
    }

    fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

/// The workers of a child.
struct Workers<'s, 'a, F, S> {
    shared: &'s Shared<'a>,
    slots: &'s [Slot<'a, F>],
    start: &'s S,
}

impl<'a, F, S> Workers<'_, 'a, F, S>
where
    F: Future<Output = Finished<'a>> + Send,
    S: Fn(NonblockingTransport<'a>, Conn) -> F + Sync,
{
    /// A worker thread: take a slot with work, run it until it waits, and again.
    fn work(&self, index: usize) {
        WORKER.set(index);
        self.shared.child.worker(index).set_tid(gettid().as_raw());
        let (mut enlisted, mut spare) = (false, None);
        while let Some(slot) = self.shared.ready.pop(&mut enlisted) {
            let slot = slot as usize;
            if catch_unwind(AssertUnwindSafe(|| self.run(slot, &mut spare))).is_err() {
                log::error!(target: "mpm_event", "a worker thread panicked; its connection is lost, the thread goes on");
                spare = None;
                self.close(slot);
            }
            self.shared.activity(Activity::Ready);
            self.shared.offer_room();
        }
        self.shared.child.worker(index).set_status(Status::Dead);
    }

    fn run(&self, index: usize, spare: &mut Option<Task<F>>) {
        let place = &self.shared.places[index];
        place.schedule.begin();
        let held = std::mem::take(&mut *self.slots[index].held());
        if matches!(held, Held::Free) {
            // A late event of a connection that is gone. The slot may get a new one at this moment: hands off.
            if !place.schedule.end() {
                self.shared.ready.push(&[index as u32]);
            }
            return;
        }
        match self.advance(held, index, spare) {
            Held::Free => self.close(index),
            held => {
                *self.slots[index].held() = held;
                if !place.schedule.end() {
                    // Something happened meanwhile: others first, then this slot again.
                    self.shared.ready.push(&[index as u32]);
                }
            }
        }
    }

    /// The connection of a slot is over; events that still come for it are nobody's.
    fn close(&self, index: usize) {
        let schedule = &self.shared.places[index].schedule;
        while !schedule.end() {
            schedule.begin();
        }
        self.shared.closed(index);
    }

    /// Moves a connection on as far as it goes without waiting; `Free` when it is over.
    fn advance(&self, held: Held<'a, F>, index: usize, spare: &mut Option<Task<F>>) -> Held<'a, F> {
        match held {
            Held::Free => Held::Free,
            Held::Idle(io, conn) => self.wake_up(io, conn, index, spare),
            Held::Parked(task) => self.poll(task, index, spare),
            Held::Lingering(mut lingering) => {
                if lingering.drain() {
                    self.shared.child.server().add_lingering(-1);
                    return Held::Free;
                }
                Held::Lingering(lingering)
            }
        }
    }

    /// An idle connection has something, or its time is over. The engine is called only when bytes are there.
    fn wake_up(
        &self,
        mut io: NonblockingTransport<'a>,
        conn: Conn,
        index: usize,
        spare: &mut Option<Task<F>>,
    ) -> Held<'a, F> {
        match io.receive() {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.stay_idle(io, conn, index),
            Ok(0) | Err(_) => return Held::Free,
        }
        let mut task = spare.take().unwrap_or_else(|| Box::pin(None));
        task.set(Some((self.start)(io, conn)));
        self.poll(task, index, spare)
    }

    fn stay_idle(&self, mut io: NonblockingTransport<'a>, conn: Conn, index: usize) -> Held<'a, F> {
        let turn = clock::turn();
        let deadline = &self.shared.places[index].deadline;
        if deadline.has_passed(turn.now) {
            return Held::Free;
        }
        if deadline.is_set() {
            return Held::Idle(io, conn);
        }
        // Accepted and silent so far: it has the time of a request head's first byte.
        match io.park(turn.now + self.shared.site.first_byte_timeout()) {
            Ok(()) => Held::Idle(io, conn),
            Err(_) => Held::Free,
        }
    }

    fn poll(&self, mut task: Task<F>, index: usize, spare: &mut Option<Task<F>>) -> Held<'a, F> {
        let future = task.as_mut().as_pin_mut().expect("a task in use holds a future");
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Held::Parked(task),
            Poll::Ready(finished) => {
                task.set(None);
                *spare = Some(task);
                self.shared.places[index].deadline.clear();
                self.finish(finished, index)
            }
        }
    }

    /// The engine has returned: the connection idles, lingers or is closed.
    fn finish(&self, finished: Finished<'a>, index: usize) -> Held<'a, F> {
        let Finished { mut io, conn, next } = finished;
        match next {
            Ok(Next::KeepAlive) => {
                let more = io.more_waiting() || self.shared.places[index].schedule.hung_up();
                if io.park(clock::turn().now + self.shared.site.keep_alive_timeout).is_err() {
                    return Held::Free;
                }
                if more {
                    // No event will come for what is there already.
                    self.shared.places[index].schedule.notify(false);
                }
                Held::Idle(io, conn)
            }
            Ok(Next::Linger) => match io.into_lingering(linger_total(&conn)) {
                Ok(lingering) => {
                    self.shared.child.server().add_lingering(1);
                    self.shared.places[index].schedule.notify(false);
                    Held::Lingering(lingering)
                }
                Err(_) => Held::Free,
            },
            Ok(Next::Close) | Err(_) => Held::Free,
        }
    }
}
