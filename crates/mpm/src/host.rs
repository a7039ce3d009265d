//! The process around a thread, as the engine sees it, wherever one thread has one place in the scoreboard: prefork,
//! worker and percore. event's threads take turns with connections and have a host of their own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use manifold_engine::request::Request;
use manifold_engine::serve::Conn;
use manifold_engine::site::Site;
use manifold_engine::transport::{Activity, Host, Job, Turn};
use manifold_http::Version;
use nix::unistd::gettid;

use crate::clock;
use crate::generation::Child;
use crate::scoreboard::{Began, ServerSlot, Status, WorkerSlot};

/// The process around one thread.
#[derive(Debug)]
pub struct ThreadHost<'a> {
    /// The thread's place in the scoreboard.
    pub worker: WorkerSlot<'a>,
    /// The process' place.
    pub server: ServerSlot<'a>,
    /// Set when the child shall end gracefully.
    pub draining: &'a AtomicBool,
    /// What is told of requests.
    pub telling: Telling,
    /// Where the thread must not wait for a disk: the call that does, from the future that was polled last.
    job: Option<Mutex<Option<Job>>>,
}

impl<'a> ThreadHost<'a> {
    /// The host of worker `thread` of `child`, which is the calling thread.
    pub fn new(child: &Child<'a>, thread: usize, draining: &'a AtomicBool) -> ThreadHost<'a> {
        let worker = child.worker(thread);
        worker.set_tid(gettid().as_raw());
        ThreadHost::at(worker, child.server(), draining, Telling::of(&child.generation.site))
    }

    /// The host of a thread with these places.
    pub fn at(
        worker: WorkerSlot<'a>,
        server: ServerSlot<'a>,
        draining: &'a AtomicBool,
        telling: Telling,
    ) -> ThreadHost<'a> {
        ThreadHost { worker, server, draining, telling, job: None }
    }

    /// The same for a thread that must not wait for a disk. Whoever polls a future of it has to see to
    /// [`take_job`](Self::take_job).
    pub fn impatient(child: &Child<'a>, thread: usize, draining: &'a AtomicBool) -> ThreadHost<'a> {
        ThreadHost { job: Some(Mutex::default()), ..ThreadHost::new(child, thread, draining) }
    }

    /// The call that the future needs which was polled last.
    pub fn take_job(&self) -> Option<Job> {
        self.job.as_ref().and_then(|job| job.lock().unwrap_or_else(PoisonError::into_inner).take())
    }
}

impl Host for ThreadHost<'_> {
    fn turn(&self) -> Turn {
        clock::turn()
    }

    fn wall(&self) -> Duration {
        clock::wall()
    }

    fn may_wait(&self) -> bool {
        self.job.is_none()
    }

    fn poll_offload(&self, job: &mut Option<Job>) -> Poll<()> {
        let Some(called) = job.take() else { return Poll::Ready(()) };
        match &self.job {
            Some(job) => {
                *job.lock().unwrap_or_else(PoisonError::into_inner) = Some(called);
                Poll::Pending
            }
            None => {
                called.run();
                Poll::Ready(())
            }
        }
    }

    fn activity(&self, activity: Activity) {
        self.worker.set_status(Status::Doing(activity));
    }

    fn reading(&self, conn: &Conn) {
        self.telling.reading(&self.worker, conn);
    }

    fn began(&self, request: &Request) {
        self.telling.began(&self.worker, request);
    }

    fn served(&self, bytes: u64, request: &Request, conn: &Conn) {
        self.telling.served(&self.worker, bytes, request, conn);
    }

    fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

/// What workers tell the scoreboard of their requests.
#[derive(Clone, Copy, Debug)]
pub struct Telling {
    /// `ExtendedStatus`.
    pub extended: bool,
    /// `SeeRequestTail`.
    pub tail: bool,
}

impl Telling {
    /// As the configuration says.
    pub fn of(site: &Site) -> Telling {
        Telling { extended: site.extended_status, tail: site.see_request_tail }
    }

    /// See [`Host::reading`].
    pub fn reading(self, worker: &WorkerSlot<'_>, conn: &Conn) {
        worker.set_status(Status::Doing(Activity::Reading));
        if self.extended {
            worker.reading(conn, clock::turn().wall);
        }
    }

    /// See [`Host::began`].
    pub fn began(self, worker: &WorkerSlot<'_>, request: &Request) {
        if self.extended {
            worker.began(&Began {
                at: request.turn.wall,
                request: request.request_line(),
                tail: self.tail,
                vhost: request.head.host(&request.bytes).unwrap_or_default(),
                protocol: protocol(request.head.version()),
            });
        }
    }

    /// See [`Host::served`].
    pub fn served(self, worker: &WorkerSlot<'_>, bytes: u64, request: &Request, conn: &Conn) {
        worker.count_request(bytes);
        if self.extended {
            // The turn's time would do for nothing but waits: most requests begin and end in one turn.
            worker.finished(conn, request.turn.wall, clock::wall());
        }
    }
}

/// As Apache writes it in the scoreboard.
fn protocol(version: Version) -> &'static str {
    match version {
        Version::Http09 => "http/0.9",
        Version::Http10 => "http/1.0",
        Version::Http11 => "http/1.1",
    }
}
