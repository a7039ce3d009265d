//! A server inside another program, such as the laboratory's view of its runs: a crew of threads in a process that is not the server's
//! alone, each serving one connection at a time. No fork, no scoreboard, no signals: it ends when a descriptor becomes readable.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use manifold_engine::request::Request;
use manifold_engine::serve::Conn;
use manifold_engine::site::Site;
use manifold_engine::transport::{Activity, Host, Turn};
use manifold_sys::listener::{accept, set_inherited_timeouts};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::blocking::{converse, first_waits};
use crate::child::AcceptFailure;
use crate::clock;

/// Where descriptors or memory are lacking, a thread leaves them alone for so long.
const RECOVER: Duration = Duration::from_millis(100);

/// Serves what comes to `listener` with so many threads, each of which holds one connection, until `until` is readable. Then answers under
/// way are sent, and connections that wait for a request are closed.
///
/// # Errors
/// If the socket cannot be set up, or no thread can be made.
pub fn serve(listener: &TcpListener, site: &Site, threads: usize, until: BorrowedFd<'_>) -> io::Result<()> {
    // Whichever thread is quicker has the connection; the others must not be stuck in the call.
    listener.set_nonblocking(true)?;
    set_inherited_timeouts(listener, first_waits(site))?;
    let (ended, end) = io::pipe()?;
    let crew = Crew { listener, site, ended, draining: AtomicBool::new(false), open: Mutex::default() };
    thread::scope(|scope| {
        let crew = &crew;
        for index in 0..threads {
            let builder = thread::Builder::new().name(format!("inside-{index}"));
            if let Err(error) = builder.spawn_scoped(scope, move || crew.serve(index)) {
                crew.end(end);
                return Err(error);
            }
        }
        let waited = wait(&mut [PollFd::new(until, PollFlags::POLLIN)]);
        crew.end(end);
        waited
    })
}

/// Waits until one of them has something to say.
fn wait(descriptors: &mut [PollFd<'_>]) -> io::Result<()> {
    loop {
        match poll(descriptors, PollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => {}
            done => return Ok(done.map(drop)?),
        }
    }
}

/// What the threads share.
struct Crew<'a> {
    listener: &'a TcpListener,
    site: &'a Site,
    /// Hangs up when all shall end.
    ended: PipeReader,
    draining: AtomicBool,
    /// The connection of each thread that has one.
    open: Mutex<BTreeMap<usize, TcpStream>>,
}

impl Crew<'_> {
    /// A thread's life: wait, accept, serve, and again.
    fn serve(&self, index: usize) {
        while self.await_connection() {
            let (stream, peer) = match accept(self.listener, false) {
                Ok(accepted) => accepted,
                Err(error) => match AcceptFailure::of(&error) {
                    AcceptFailure::Passing => continue,
                    AcceptFailure::Sick => {
                        thread::sleep(RECOVER);
                        continue;
                    }
                    AcceptFailure::Closed => return,
                },
            };
            if !self.enter(index, &stream) {
                return;
            }
            let serve = || converse(stream, peer, self.site, &InsideHost(&self.draining));
            if catch_unwind(AssertUnwindSafe(serve)).is_err() {
                log::error!(target: "mpm_inside", "a thread panicked; its connection is lost, the thread goes on");
            }
            self.open().remove(&index);
        }
    }

    /// `false` when it is time to end.
    fn await_connection(&self) -> bool {
        let mut waited =
            [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN), PollFd::new(self.ended.as_fd(), PollFlags::POLLIN)];
        wait(&mut waited).is_ok() && waited[1].revents().is_some_and(|events| events.is_empty())
    }

    /// Notes a connection, so that the end reaches it; `false` where that has come.
    fn enter(&self, index: usize, stream: &TcpStream) -> bool {
        let mut open = self.open();
        // Looked at under the lock: whoever ends sets it before it takes the lock.
        if self.draining.load(Ordering::Relaxed) {
            return false;
        }
        match stream.try_clone() {
            Ok(stream) => open.insert(index, stream),
            // It is served all the same; at the end its timeouts bound it.
            Err(_) => None,
        };
        true
    }

    /// No further request is read: connections that wait for one see the end of the stream.
    fn end(&self, end: PipeWriter) {
        self.draining.store(true, Ordering::Relaxed);
        drop(end);
        for stream in self.open().values() {
            // One that is gone has ended by itself.
            let _ = stream.shutdown(Shutdown::Read);
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<usize, TcpStream>> {
        // The table stays whole whatever happens to a thread.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process that keeps no account of its threads.
struct InsideHost<'a>(&'a AtomicBool);

impl Host for InsideHost<'_> {
    fn turn(&self) -> Turn {
        clock::turn()
    }

    fn activity(&self, _: Activity) {}

    fn served(&self, _: u64, _: &Request, _: &Conn) {}

    fn draining(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use manifold_engine::phases::{Outcome, Phase, Phases};
    use manifold_engine::request::Body;

    use super::*;

    fn site() -> Site {
        let mut phases = Phases::new();
        phases.add(Phase::Handler, |request: &mut Request| {
            assert_ne!(request.path, b"/panic", "as asked");
            request.response.body = Body::Bytes(request.path.clone());
            Outcome::Done
        });
        Site::new(phases)
    }

    /// Asks on a connection that is kept.
    fn ask(stream: &mut TcpStream, path: &str) -> String {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("it is sent");
        let mut answer = Vec::new();
        let mut byte = [0];
        while !answer.ends_with(path.as_bytes()) && stream.read(&mut byte).expect("it answers") > 0 {
            answer.push(byte[0]);
        }
        String::from_utf8(answer).expect("text")
    }

    #[test]
    fn it_answers_survives_a_panic_and_ends_with_connections_open() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let (until, end) = io::pipe().expect("a pipe");
        let site = site();
        thread::scope(|scope| {
            let served = thread::Builder::new().spawn_scoped(scope, || serve(&listener, &site, 3, until.as_fd()));
            let connect = || TcpStream::connect(address).expect("it listens");
            let mut kept = connect();
            for path in ["/first", "/second"] {
                let answer = ask(&mut kept, path);
                assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with(path), "{answer}");
            }
            assert_eq!(ask(&mut connect(), "/panic"), "");
            let (mut silent, mut slow) = (connect(), connect());
            slow.write_all(b"GET /half HTTP/1.1\r\n").expect("it is sent");
            assert!(ask(&mut kept, "/third").ends_with("/third"));
            drop(end);
            served.expect("a thread").join().expect("it ends").expect("without an error");
            for stream in [&mut kept, &mut silent, &mut slow] {
                let mut rest = Vec::new();
                // What was never accepted is reset when the listener goes; the others were closed.
                let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
                let _ = stream.read_to_end(&mut rest);
                assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&rest));
            }
        });
    }
}
