//! The pool of futures that serve connections. A future is made once and then serves one connection after the other, so
//! that no request allocates one; there are as many as connections were ever busy at the same time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use manifold_engine::serve::serve;
use manifold_engine::site::Site;
use manifold_engine::transport::Host;

use super::transport::{Mail, MailTransport, open_mail, with_mail};

/// Idle futures that are kept with their buffers; the memory of more is given back when the load that needed them is over.
const IDLE_MAX: usize = 256;

/// One pooled future.
struct Task<'a> {
    /// `None` where it was given back; the place and its mail are used again.
    future: Option<Pin<Box<dyn Future<Output = ()> + 'a>>>,
    mail: usize,
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

    /// Takes a free future: its number here.
    pub(super) fn take(&mut self) -> usize {
        let task = self.idle.pop().or_else(|| self.empty.pop()).unwrap_or_else(|| {
            self.tasks.push(Task { future: None, mail: open_mail() });
            self.tasks.len() - 1
        });
        let Task { future, mail } = &mut self.tasks[task];
        future.get_or_insert_with(|| Box::pin(serve_for_ever(MailTransport::new(*mail), self.site, self.host)));
        task
    }

    /// Puts a future back that has left its connection.
    pub(super) fn give_back(&mut self, task: usize) {
        if self.idle.len() < IDLE_MAX {
            self.idle.push(task);
        } else {
            self.tasks[task].future = None;
            with_mail(self.tasks[task].mail, |mail| *mail = Mail::default());
            self.empty.push(task);
        }
    }

    /// The number of a future's mail.
    pub(super) fn mail(&self, task: usize) -> usize {
        self.tasks[task].mail
    }

    /// Lets a future go on until it waits; what it wants or has done is in its mail. There is no wake-up to be missed:
    /// a future is polled when what it waits for has happened, and it waits for nothing else.
    pub(super) fn poll(&mut self, task: usize) {
        let future = self.tasks[task].future.as_mut().expect("a task that was taken has a future");
        let ended = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        debug_assert!(ended.is_pending(), "a pooled future serves for ever");
    }
}

async fn serve_for_ever(mut io: MailTransport, site: &Site, host: &dyn Host) {
    loop {
        let mut conn = io.job().await;
        let result = serve(&mut io, &mut conn, site, host).await;
        io.leave(conn, result);
    }
}

#[cfg(test)]
mod tests {
    use manifold_engine::phases::Phases;
    use manifold_engine::request::Request;
    use manifold_engine::serve::Conn;
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
            let taken: Vec<usize> = (0..IDLE_MAX * 2).map(|_| tasks.take()).collect();
            assert_eq!((tasks.idle.len() + tasks.empty.len(), tasks.tasks.len()), (0, IDLE_MAX * 2));
            taken.iter().for_each(|task| tasks.poll(*task));
            taken.iter().for_each(|task| tasks.give_back(*task));
            assert_eq!(tasks.tasks.iter().filter(|task| task.future.is_some()).count(), IDLE_MAX);
        }
    }

    #[test]
    fn a_busy_connection_is_small() {
        let site = Site::new(Phases::new());
        let future = serve_for_ever(MailTransport::new(open_mail()), &site, &NoHost);
        let bytes = size_of_val(&future);
        assert!(bytes <= 2048, "{bytes} bytes");
    }
}
