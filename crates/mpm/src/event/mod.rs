//! event: some processes of `ThreadsPerChild` workers that take turns as their listener. A connection that waits, for its
//! next request, for the rest of a slow head or body, for a slow reader, for a lingering close, is parked with the listener;
//! a worker is held only while there is work. The child's first thread sees to it that somebody always listens or works.
//!
//! A connection lives in a slot. What the slot holds is moved out by the worker that runs it and moved back in when it has
//! to wait; [`slot::Schedule`] sees to it that one worker at a time does so and that no event is lost meanwhile.

mod appetite;
mod crew;
mod listener;
mod ready;
mod ring;
mod room;
mod slot;
mod table;
#[cfg(test)]
mod tests;
mod transport;
mod workers;

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use manifold_engine::request::Request;
use manifold_engine::serve::{Conn, serve};
use manifold_engine::site::Site;
use manifold_engine::transport::{Activity, Host, Next, Turn};
use nix::sys::epoll::{Epoll, EpollCreateFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::child::{self, EXIT_SICK, connections_allowed, cpus};
use crate::clock;
use crate::event::listener::Listener;
use crate::event::ready::{Admission, ReadyQueue};
use crate::event::slot::{Place, Slot};
use crate::event::table::Table;
use crate::event::transport::{NonblockingTransport, Parking};
use crate::event::workers::Workers;
use crate::generation::Child;
use crate::host::Telling;
use crate::scoreboard::Status;

/// The child's life: workers run what is ready, the listener parks the rest; both end when the last connection is gone.
pub fn child_main(child: &Child<'_>) -> u8 {
    let Ok(epoll) = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC) else { return EXIT_SICK };
    let Ok(wake) = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK) else { return EXIT_SICK };
    let most = connections_allowed(child, "mpm_event");
    let places = Table::new(most);
    let shared = Shared::new(child, &epoll, &wake, &places, most);
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
    let Ok(listener) = Listener::new(shared).map(Mutex::new) else { return EXIT_SICK };
    let slots: Table<Slot<F>> = Table::new(shared.most);
    let workers = Workers { shared, slots: &slots, start: &start, listener: &listener };
    let crew = &shared.ready.crew;
    thread::scope(|scope| {
        // Nobody listens before everybody is there.
        let post = listener.lock();
        for index in 0..child.generation.limits.threads_per_child as usize {
            let workers = &workers;
            let builder = child::thread(child, format!("event-{index}"));
            if let Err(error) = builder.spawn_scoped(scope, move || workers.work(index)) {
                log::error!(target: "mpm_event", "AH03104: no thread could be made: {error}");
                crew.end(EXIT_SICK);
                return EXIT_SICK;
            }
        }
        drop(post);
        crew.wake_another();
        child.is_running();
        shared.ready.watch()
    })
}

/// What listener and workers share.
pub(crate) struct Shared<'a> {
    child: Child<'a>,
    site: &'a Site,
    telling: Telling,
    epoll: &'a Epoll,
    wake: &'a EventFd,
    places: &'a Table<Place>,
    /// Connections the process holds at most: `MaxConnections`, or as many as it may have descriptors for.
    most: usize,
    /// Slots that became free; the listener takes them all when it has no other.
    freed: Mutex<Vec<u32>>,
    ready: ReadyQueue<'a>,
    /// The listener wants to be woken when a connection ends.
    wants_end: AtomicBool,
    draining: AtomicBool,
}

impl<'a> Shared<'a> {
    fn new(
        child: &Child<'a>,
        epoll: &'a Epoll,
        wake: &'a EventFd,
        places: &'a Table<Place>,
        most: usize,
    ) -> Shared<'a> {
        let limits = &child.generation.limits;
        let rule = Admission { threads: limits.threads_per_child as usize, factor: limits.async_factor };
        Shared {
            child: Child { generation: child.generation, slot: child.slot },
            site: &child.generation.site,
            telling: Telling::of(&child.generation.site),
            epoll,
            wake,
            places,
            most,
            freed: Mutex::default(),
            ready: ReadyQueue::new(rule, cpus(), wake),
            wants_end: AtomicBool::new(false),
            draining: AtomicBool::new(false),
        }
    }

    /// Where the connection of `slot` is parked.
    fn parking(&self, slot: usize) -> Parking<'a> {
        Parking { epoll: self.epoll, token: slot as u64, place: self.places.at(slot) }
    }

    /// Connections accepted and not yet closed.
    fn open(&self) -> usize {
        self.child.server().open() as usize
    }

    fn is_full(&self) -> bool {
        self.open() >= self.most
    }

    /// Whether lines of access logs wait to be written. Workers log before a connection ceases to count, so that without
    /// connections none can come.
    fn has_lines(&self, now: Instant) -> bool {
        self.site.phases.settle_logs(now).is_some()
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// The listener will be woken when the next connection ends; then it looks again whether one just did.
    fn ask_for_end(&self) {
        self.wants_end.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The connection of a slot is gone. The slot is given back before the connection ceases to count, so that there is a
    /// slot whenever there is room.
    fn ended(&self, slot: usize) {
        self.places.at(slot).deadline.clear();
        self.freed.lock().unwrap_or_else(PoisonError::into_inner).push(slot as u32);
        self.child.server().add_open(-1);
        fence(Ordering::SeqCst);
        if self.wants_end.load(Ordering::Relaxed) && self.wants_end.swap(false, Ordering::Relaxed) {
            let _full_counter_wakes_as_well = self.wake.write(1);
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

    fn wall(&self) -> Duration {
        clock::wall()
    }

    fn activity(&self, activity: Activity) {
        let status = match activity {
            Activity::Ready if self.is_draining() => Status::Graceful,
            activity => Status::Doing(activity),
        };
        self.child.worker(WORKER.get()).set_status(status);
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
        self.is_draining()
    }
}
