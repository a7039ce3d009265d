//! worker: some processes of `ThreadsPerChild` threads, each serving one connection at a time. A listener, the child's
//! first thread, accepts only when a thread is free and hands the connection over. Waiting is a blocking call.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use manifold_engine::site::Site;
use manifold_engine::transport::{Activity, Host};
use manifold_sys::listener::{accept, set_inherited_timeouts};
use manifold_sys::signal::Signals;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::blocking::serve_connection;
use crate::child::{self, AcceptFailure, EXIT_SICK, EXIT_WELL};
use crate::generation::Child;
use crate::host::ThreadHost;
use crate::scoreboard::Status;
use crate::{clock, pause};

/// The child's life: threads serve, the listener accepts; both end when the queue is closed.
pub fn child_main(child: &Child<'_>) -> u8 {
    let Ok(listener) = Listener::new(child) else { return EXIT_SICK };
    let queue = Queue::new(child.generation.limits.threads_per_child as usize);
    thread::scope(|scope| {
        for index in 0..child.generation.limits.threads_per_child as usize {
            let queue = &queue;
            let builder = child::thread(child, format!("worker-{index}"));
            if let Err(error) = builder.spawn_scoped(scope, move || serve_queue(child, index, queue)) {
                log::error!(target: "mpm_worker", "AH03142: no thread could be made: {error}");
                queue.close();
                return EXIT_SICK;
            }
        }
        let status = listener.run(child, &queue);
        queue.close();
        status
    })
}

/// A worker thread: take a connection, serve it to its end, and again.
fn serve_queue(child: &Child<'_>, index: usize, queue: &Queue) {
    let host = ThreadHost::new(child, index, &queue.draining);
    host.activity(Activity::Ready);
    while let Some((stream, peer)) = queue.take(&child.generation.site) {
        let serve = || serve_connection(stream, peer, &child.generation.site, &host);
        if catch_unwind(AssertUnwindSafe(serve)).is_err() {
            log::error!(target: "mpm_worker", "a worker thread panicked; its connection is lost, the thread goes on");
        }
        host.activity(Activity::Ready);
    }
    host.worker.set_status(Status::Dead);
}

/// Connections on their way from the listener to a worker. There are never more than there are free workers.
struct Queue {
    inner: Mutex<Inner>,
    /// Signalled when a connection was added, or the queue was closed.
    added: Condvar,
    /// Signalled when a worker became free.
    freed: Condvar,
    draining: AtomicBool,
}

struct Inner {
    connections: VecDeque<(TcpStream, SocketAddr)>,
    free: usize,
    closed: bool,
}

impl Queue {
    fn new(workers: usize) -> Queue {
        let inner = Inner { connections: VecDeque::with_capacity(workers), free: 0, closed: false };
        let draining = AtomicBool::new(false);
        Queue { inner: Mutex::new(inner), added: Condvar::new(), freed: Condvar::new(), draining }
    }

    /// Waits until a worker is free, so that no connection is accepted that would then wait in user space; `false` where
    /// none is after [`LOOK_FOR_SIGNALS`].
    fn await_free(&self) -> bool {
        let is_busy = |inner: &mut Inner| inner.free <= inner.connections.len();
        let waited = self.freed.wait_timeout_while(self.lock(), LOOK_FOR_SIGNALS, is_busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn add(&self, stream: TcpStream, peer: SocketAddr) {
        self.lock().connections.push_back((stream, peer));
        self.added.notify_one();
    }

    /// The next connection; `None` when the queue is closed and empty.
    fn take(&self, site: &Site) -> Option<(TcpStream, SocketAddr)> {
        let mut most = pause::before(site, clock::turn().now);
        let mut inner = self.lock();
        inner.free += 1;
        self.freed.notify_one();
        loop {
            if let Some(connection) = inner.connections.pop_front() {
                inner.free -= 1;
                return Some(connection);
            }
            if inner.closed {
                return None;
            }
            inner = match most {
                None => self.added.wait(inner).unwrap_or_else(PoisonError::into_inner),
                Some(wait) => {
                    let (inner, woken) = self.added.wait_timeout(inner, wait).unwrap_or_else(PoisonError::into_inner);
                    if woken.timed_out() {
                        drop(inner);
                        most = pause::before(site, clock::tick().now);
                        self.lock()
                    } else {
                        inner
                    }
                }
            };
        }
    }

    /// Nothing is added any more; answers under way are the last of their connections.
    fn close(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.lock().closed = true;
        self.added.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The queue stays whole even when a thread panics between two of its calls.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The accepting side of the child.
struct Listener<'a> {
    listeners: &'a [TcpListener],
    signals: Signals,
    epoll: Epoll,
}

/// A listener that waits for a free worker looks for signals this often.
const LOOK_FOR_SIGNALS: Duration = Duration::from_millis(200);

/// Marks the signal descriptor among the events; listeners have their index.
const SIGNALS: u64 = u64::MAX;

impl<'a> Listener<'a> {
    fn new(child: &Child<'a>) -> std::io::Result<Listener<'a>> {
        let listeners = child.listeners();
        let signals = child::signals()?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(signals.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, SIGNALS))?;
        for (index, listener) in listeners.iter().enumerate() {
            set_inherited_timeouts(listener, child.generation.first_waits())?;
            // One process is woken for a connection, not all of them.
            let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE;
            epoll.add(listener, EpollEvent::new(flags, index as u64))?;
        }
        Ok(Listener { listeners, signals, epoll })
    }

    /// Accepts until asked to end, or until enough connections were accepted.
    fn run(&self, child: &Child<'_>, queue: &Queue) -> u8 {
        let enough = child.generation.limits.max_connections_per_child;
        let mut accepted = 0;
        let mut events = [EpollEvent::empty(); 16];
        child.is_running();
        while enough == 0 || accepted < enough {
            if !queue.await_free() {
                if child::is_asked(child, &self.signals) {
                    return EXIT_WELL;
                }
                continue;
            }
            let ready = self.epoll.wait(&mut events, EpollTimeout::NONE).unwrap_or(0);
            for event in &events[..ready] {
                if event.data() == SIGNALS {
                    if child::is_asked(child, &self.signals) {
                        return EXIT_WELL;
                    }
                    continue;
                }
                if !queue.await_free() {
                    // It will be told again.
                    break;
                }
                match accept(&self.listeners[event.data() as usize], false) {
                    Ok((stream, peer)) => {
                        accepted += 1;
                        queue.add(stream, peer);
                    }
                    Err(error) => match AcceptFailure::of(&error) {
                        AcceptFailure::Passing => {}
                        AcceptFailure::Sick => return EXIT_SICK,
                        AcceptFailure::Closed => return EXIT_WELL,
                    },
                }
            }
        }
        EXIT_WELL
    }
}
