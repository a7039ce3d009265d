//! The process around a thread, as the engine sees it, wherever one thread has one place in the scoreboard: prefork,
//! worker and percore. event's threads take turns with connections and have a host of their own.

use std::sync::atomic::{AtomicBool, Ordering};

use manifold_engine::transport::{Activity, Host, Turn};

use crate::clock;
use crate::scoreboard::{Status, WorkerSlot};

/// The process around one thread.
#[derive(Debug)]
pub struct ThreadHost<'a> {
    /// The thread's place in the scoreboard.
    pub worker: WorkerSlot<'a>,
    /// Set when the child shall end gracefully.
    pub draining: &'a AtomicBool,
}

impl Host for ThreadHost<'_> {
    fn turn(&self) -> Turn {
        clock::turn()
    }

    fn activity(&self, activity: Activity) {
        self.worker.set_status(Status::Doing(activity));
    }

    fn served(&self, bytes: u64) {
        self.worker.count_request(bytes);
    }

    fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
