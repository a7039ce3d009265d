//! event's workers: each takes a slot with work, moves its connection on as far as it goes without waiting, and takes the
//! next. Who finds none listens, where nobody else does, and otherwise sleeps.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, TryLockError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use manifold_engine::serve::Conn;
use manifold_engine::transport::{Activity, Host, Next};
use nix::unistd::gettid;

use crate::blocking::linger_total;
use crate::child::EXIT_SICK;
use crate::clock;
use crate::event::listener::Listener;
use crate::event::slot::{Held, Slot, Waits};
use crate::event::table::Table;
use crate::event::transport::{NonblockingTransport, Resting};
use crate::event::{Finished, Shared, Task, WORKER};
use crate::scoreboard::Status;

/// The workers of a child.
pub(crate) struct Workers<'s, 'a, F, S> {
    pub shared: &'s Shared<'a>,
    pub slots: &'s Table<Slot<F>>,
    /// Begins the engine's work on a connection of which bytes were received.
    pub start: &'s S,
    /// The post that is taken by whoever has nothing else to do.
    pub listener: &'s Mutex<Listener<'s, 'a>>,
}

impl<'s, 'a, F, S> Workers<'s, 'a, F, S>
where
    F: Future<Output = Finished<'a>> + Send,
    S: Fn(NonblockingTransport<'a>, Conn) -> F + Sync,
{
    /// The life of a worker thread.
    pub fn work(&self, index: usize) {
        WORKER.set(index);
        self.shared.child.worker(index).set_tid(gettid().as_raw());
        let ready = &self.shared.ready;
        ready.crew.enlist(index);
        let mut spare = None;
        loop {
            while let Some(slot) = ready.pop() {
                let slot = slot as usize;
                if catch_unwind(AssertUnwindSafe(|| self.run(slot, &mut spare))).is_err() {
                    log::error!(target: "mpm_event", "a worker thread panicked; its connection is lost, the thread goes on");
                    spare = None;
                    self.close(slot);
                }
            }
            if ready.crew.has_ended() {
                break;
            }
            self.shared.activity(Activity::Ready);
            match self.listener.try_lock() {
                Ok(mut listener) => self.listen(&mut listener),
                Err(TryLockError::WouldBlock) => ready.sleep(index),
                Err(TryLockError::Poisoned(_)) => ready.crew.end(EXIT_SICK),
            }
        }
        self.shared.child.worker(index).set_status(Status::Dead);
    }

    /// One turn at the listener's post.
    fn listen(&self, listener: &mut Listener<'s, 'a>) {
        let hold = |slot, connection, conn| *self.slots.at(slot).held() = Held::Idle(connection, conn);
        if let Some(status) = listener.turn(hold) {
            self.shared.ready.crew.end(status);
        }
    }

    fn run(&self, index: usize, spare: &mut Option<Task<F>>) {
        let (place, worker) = (self.shared.places.at(index), self.shared.child.worker(WORKER.get()));
        place.schedule.begin();
        let held = std::mem::take(&mut *self.slots.at(index).held());
        if matches!(held, Held::Free) {
            // A late event of a connection that is gone. The slot may get a new one at this moment: hands off.
            if !place.schedule.end() {
                self.shared.ready.push_again(index as u32);
            }
            return;
        }
        place.count(Waits::Not, &worker);
        let held = self.advance(held, index, spare);
        let waits = match &held {
            Held::Free => return self.close(index),
            Held::Idle(_, conn) if conn.kept_alive == 0 => Waits::First,
            Held::Idle(..) => Waits::KeepAlive,
            Held::Parked(_) => place.wanted(),
            Held::Lingering(_) => Waits::Lingering,
        };
        place.count(waits, &worker);
        *self.slots.at(index).held() = held;
        if !place.schedule.end() {
            // Something happened meanwhile: others first, then this slot again.
            self.shared.ready.push_again(index as u32);
        }
    }

    /// The connection of a slot is over; events that still come for it are nobody's.
    fn close(&self, index: usize) {
        let schedule = &self.shared.places.at(index).schedule;
        while !schedule.end() {
            schedule.begin();
        }
        self.shared.ended(index);
    }

    /// Moves a connection on as far as it goes without waiting; `Free` when it is over.
    fn advance(&self, held: Held<F>, index: usize, spare: &mut Option<Task<F>>) -> Held<F> {
        match held {
            Held::Free => Held::Free,
            Held::Idle(connection, conn) => self.wake_up(connection, conn, index, spare),
            Held::Parked(task) => self.poll(task, index, spare),
            Held::Lingering(mut lingering) => {
                if lingering.drain(self.shared.places.at(index)) {
                    return Held::Free;
                }
                Held::Lingering(lingering)
            }
        }
    }

    /// An idle connection has something, or its time is over. The engine is called only when bytes are there.
    fn wake_up(&self, connection: Resting, conn: Conn, index: usize, spare: &mut Option<Task<F>>) -> Held<F> {
        let mut io = connection.wake(self.shared.parking(index));
        match io.receive() {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.stay_idle(io.rest(), conn, index),
            Ok(0) | Err(_) => return Held::Free,
        }
        let mut task = spare.take().unwrap_or_else(|| Box::pin(None));
        task.set(Some((self.start)(io, conn)));
        self.poll(task, index, spare)
    }

    fn stay_idle(&self, mut connection: Resting, conn: Conn, index: usize) -> Held<F> {
        let now = clock::turn().now;
        let deadline = &self.shared.places.at(index).deadline;
        if deadline.has_passed(now) {
            return Held::Free;
        }
        if deadline.is_set() {
            return Held::Idle(connection, conn);
        }
        // Accepted and silent so far: it has the time of a head's first byte, or of an idle connection when the child is to end.
        let (site, draining) = (self.shared.site, self.shared.is_draining());
        let patience = if draining { site.keep_alive_timeout } else { Duration::MAX }.min(site.first_byte_timeout());
        match connection.park(self.shared.parking(index), now + patience) {
            Ok(()) => Held::Idle(connection, conn),
            Err(_) => Held::Free,
        }
    }

    fn poll(&self, mut task: Task<F>, index: usize, spare: &mut Option<Task<F>>) -> Held<F> {
        let future = task.as_mut().as_pin_mut().expect("a task in use holds a future");
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Held::Parked(task),
            Poll::Ready(finished) => {
                task.set(None);
                *spare = Some(task);
                self.shared.places.at(index).deadline.clear();
                self.finish(finished, index)
            }
        }
    }

    /// The engine has returned: the connection idles, lingers or is closed.
    fn finish(&self, finished: Finished<'a>, index: usize) -> Held<F> {
        let Finished { io, conn, next } = finished;
        let place = self.shared.places.at(index);
        match next {
            Ok(Next::KeepAlive) => {
                let more = io.more_waiting() || place.schedule.hung_up();
                let mut connection = io.rest();
                let deadline = clock::turn().now + self.shared.site.keep_alive_timeout;
                if connection.park(self.shared.parking(index), deadline).is_err() {
                    return Held::Free;
                }
                if more {
                    // No event will come for what is there already.
                    place.schedule.notify(false);
                }
                Held::Idle(connection, conn)
            }
            Ok(Next::Linger) => match io.into_lingering(linger_total(&conn)) {
                Ok(lingering) => {
                    place.schedule.notify(false);
                    Held::Lingering(lingering)
                }
                Err(_) => Held::Free,
            },
            Ok(Next::Close) | Err(_) => Held::Free,
        }
    }
}
