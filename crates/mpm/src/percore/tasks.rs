//! The pool of futures that serve connections. A future is made once and then serves one connection after the other, so
//! that no request allocates one; there are as many as connections were ever busy at the same time.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use manifold_engine::serve::{Conn, serve};
use manifold_engine::site::Site;
use manifold_engine::transport::Host;

use super::transport::{Desk, Mail, open_mail, with_mail};

/// Idle futures that are kept with their buffers; the memory of more is given back when the load that needed them is over.
const IDLE_MAX: usize = 256;

/// One pooled future.
struct Task<'a> {
    /// `None` where it was given back; the place and its mail are used again.
    future: Option<Pin<Box<dyn Future<Output = ()> + 'a>>>,
    seat: Rc<Seat>,
    /// While it serves nobody.
    desk: Option<Box<Desk>>,
    mail: usize,
    /// It has waited while it served its connection: there may be mail.
    waited: bool,
}

/// Where a future and whoever polls it hand the desk to each other.
#[derive(Default)]
struct Seat {
    begun: Cell<Option<Box<Desk>>>,
    left: Cell<Option<Box<Desk>>>,
}

/// All futures of the thread.
pub(super) struct Tasks<'a> {
    site: &'a Site,
    host: &'a dyn Host,
    tasks: Vec<Task<'a>>,
    /// Those that serve nobody, the last used at the end; and those without a future.
    idle: Vec<usize>,
    empty: Vec<usize>,
}

impl<'a> Tasks<'a> {
    /// An empty pool that serves `site`.
    pub(super) fn new(site: &'a Site, host: &'a dyn Host) -> Tasks<'a> {
        Tasks { site, host, tasks: Vec::new(), idle: Vec::new(), empty: Vec::new() }
    }

    /// Takes a free future to serve a connection, which has sent `input` already and has `behind` bytes of earlier answers to
    /// get beside those that are being sent. Gives its number here.
    pub(super) fn take(&mut self, conn: Conn, input: &[u8], behind: usize) -> usize {
        let index = self.idle.pop().or_else(|| self.empty.pop()).unwrap_or_else(|| {
            let (seat, mail) = (Rc::default(), open_mail());
            self.tasks.push(Task { future: None, seat, desk: None, mail, waited: false });
            self.tasks.len() - 1
        });
        let Task { future, seat, desk, mail, waited } = &mut self.tasks[index];
        if future.is_none() {
            *future = Some(Box::pin(serve_for_ever(Rc::clone(seat), self.site, self.host)));
        }
        let mut desk = desk.take().unwrap_or_else(|| Box::new(Desk::new(*mail)));
        desk.prepare(conn, input, behind);
        seat.begun.set(Some(desk));
        *waited = false;
        index
    }

    /// Puts a future back that has left its connection, and whose desk this is. Where that one is `kept` and bytes of it have
    /// arrived meanwhile, the future serves it again: `true`.
    pub(super) fn give_back(&mut self, task: usize, desk: Box<Desk>, kept: bool) -> bool {
        let mut desk = desk;
        let Task { future, seat, desk: place, mail, waited } = &mut self.tasks[task];
        if *waited {
            if kept && with_mail(*mail, |mail| desk.io.take_in(&mut mail.inbox)) > 0 {
                seat.begun.set(Some(desk));
                return true;
            }
            with_mail(*mail, Mail::forget);
        }
        if self.idle.len() < IDLE_MAX {
            desk.clear();
            *place = Some(desk);
            self.idle.push(task);
        } else {
            *future = None;
            with_mail(*mail, |mail| *mail = Mail::default());
            self.empty.push(task);
        }
        false
    }

    /// The number of a future's mail.
    pub(super) fn mail(&self, task: usize) -> usize {
        self.tasks[task].mail
    }

    /// Lets a future go on until it leaves its connection, and gives the desk then, or waits; what it wants is in its mail then.
    /// There is no wake-up to be missed: a future is polled when what it waits for has happened, and it waits for nothing else.
    pub(super) fn poll(&mut self, task: usize) -> Option<Box<Desk>> {
        let Task { future, seat, waited, .. } = &mut self.tasks[task];
        let future = future.as_mut().expect("a task that was taken has a future");
        let ended = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        debug_assert!(ended.is_pending(), "a pooled future serves for ever");
        let left = seat.left.take();
        *waited |= left.is_none();
        left
    }
}

async fn serve_for_ever(seat: Rc<Seat>, site: &Site, host: &dyn Host) {
    loop {
        let mut desk = poll_fn(|_| seat.begun.take().map_or(Poll::Pending, Poll::Ready)).await;
        let Desk { conn, io, .. } = &mut *desk;
        let result = serve(io, conn, site, host).await;
        desk.result = result;
        seat.left.set(Some(desk));
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use manifold_engine::phases::Phases;
    use manifold_engine::request::Request;
    use manifold_engine::transport::{Activity, Turn};

    use super::*;

    struct NoHost;

    impl Host for NoHost {
        fn turn(&self) -> Turn {
            crate::clock::turn()
        }
        fn activity(&self, _: Activity) {}
        fn served(&self, _: u64, _: &Request, _: &Conn) {}
        fn draining(&self) -> bool {
            false
        }
    }

    #[test]
    fn futures_are_used_again_and_many_idle_ones_give_their_memory_back() {
        let site = Site::new(Phases::new());
        let mut tasks = Tasks::new(&site, &NoHost);
        for _ in 0..2 {
            let conn = Conn::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 80)));
            let taken: Vec<usize> = (0..IDLE_MAX * 2).map(|_| tasks.take(conn, b"GET", 0)).collect();
            assert_eq!((tasks.idle.len() + tasks.empty.len(), tasks.tasks.len()), (0, IDLE_MAX * 2));
            for task in taken {
                assert!(tasks.poll(task).is_none(), "it waits for the rest");
                let end = |mail: &mut Mail| mail.ended = Some(Ok(()));
                with_mail(tasks.mail(task), end);
                let desk = tasks.poll(task).expect("it leaves");
                assert!(!tasks.give_back(task, desk, false));
            }
            assert_eq!(tasks.tasks.iter().filter(|task| task.future.is_some()).count(), IDLE_MAX);
        }
    }

    #[test]
    fn a_busy_connection_is_small() {
        let site = Site::new(Phases::new());
        let future = serve_for_ever(Rc::default(), &site, &NoHost);
        let bytes = size_of_val(&future) + size_of::<Desk>();
        assert!(bytes <= 2048, "{bytes} bytes");
    }
}
