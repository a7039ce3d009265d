//! The pool of futures that serve connections. A future is made once and then serves one connection after the other, so
//! that no request allocates one; there are as many as connections were ever busy at the same time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use manifold_engine::serve::serve;
use manifold_engine::site::Site;
use manifold_engine::transport::Host;

use super::transport::{MailTransport, open_mail};

/// One pooled future.
struct Task<'a> {
    future: Pin<Box<dyn Future<Output = ()> + 'a>>,
    mail: usize,
}

/// All futures of the thread.
pub(super) struct Tasks<'a> {
    site: &'a Site,
    host: &'a dyn Host,
    tasks: Vec<Task<'a>>,
    free: Vec<usize>,
}

impl<'a> Tasks<'a> {
    /// An empty pool that serves `site`.
    pub(super) fn new(site: &'a Site, host: &'a dyn Host) -> Tasks<'a> {
        Tasks { site, host, tasks: Vec::new(), free: Vec::new() }
    }

    /// Takes a free future: its number here.
    pub(super) fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| self.make())
    }

    /// Puts a future back that has left its connection.
    pub(super) fn give_back(&mut self, task: usize) {
        self.free.push(task);
    }

    /// The number of a future's mail.
    pub(super) fn mail(&self, task: usize) -> usize {
        self.tasks[task].mail
    }

    /// Futures that serve a connection.
    pub(super) fn busy(&self) -> usize {
        self.tasks.len() - self.free.len()
    }

    /// Lets a future go on until it waits; what it wants or has done is in its mail. There is no wake-up to be missed:
    /// a future is polled when what it waits for has happened, and it waits for nothing else.
    pub(super) fn poll(&mut self, task: usize) {
        let ended = self.tasks[task].future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        debug_assert!(ended.is_pending(), "a pooled future serves for ever");
    }

    fn make(&mut self) -> usize {
        let mail = open_mail();
        let future = Box::pin(serve_for_ever(MailTransport::new(mail), self.site, self.host));
        self.tasks.push(Task { future, mail });
        self.tasks.len() - 1
    }
}

async fn serve_for_ever(mut io: MailTransport, site: &Site, host: &dyn Host) {
    loop {
        let mut conn = io.job().await;
        let result = serve(&mut io, &mut conn, site, host).await;
        io.leave(conn, result);
    }
}
