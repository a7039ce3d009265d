//! Disks that are slow: whoever needs one waits, and nobody else.

use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Condvar, Mutex};

use manifold_engine::transport::Job;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::*;

/// A disk that answers when it is told to.
#[derive(Default)]
struct SlowDisk {
    awake: Mutex<bool>,
    woken: Condvar,
    fetched: AtomicBool,
}

impl SlowDisk {
    fn fetch(&self) {
        let awake = self.awake.lock().unwrap();
        drop(self.woken.wait_while(awake, |awake| !*awake).unwrap());
        self.fetched.store(true, Ordering::Relaxed);
    }

    fn wake(&self) {
        *self.awake.lock().unwrap() = true;
        self.woken.notify_all();
    }

    /// What is under `/cold` has to be fetched from the disk; the rest is as ever.
    fn put_under(self: &Arc<SlowDisk>, site: &mut Site) {
        let disk = Arc::clone(self);
        site.phases.add(Phase::MapToStorage, move |request: &mut Request| {
            if request.path != b"/cold" || disk.fetched.load(Ordering::Relaxed) {
                return Outcome::Declined;
            }
            assert!(!request.may_wait, "this thread has others to serve");
            let disk = Arc::clone(&disk);
            request.later = Some(Job::new(move || disk.fetch()));
            Outcome::Later
        });
    }
}

#[test]
fn who_needs_the_disk_waits_and_nobody_else() {
    const COLD: &str = "GET /cold HTTP/1.1\r\nHost: x\r\n\r\n";
    // More than there are helpers.
    const WAITING: usize = 20;
    for on in [On::Ring, On::Epoll] {
        let disk = Arc::new(SlowDisk::default());
        let Some(server) = serve(on, WAITING as u64 + 3, &|setup| disk.put_under(&mut setup.site)) else { continue };
        let cold: Vec<TcpStream> = (0..WAITING).map(|_| server.connect()).collect();
        cold.iter().for_each(|mut stream| stream.write_all(COLD.as_bytes()).unwrap());
        // One goes away without waiting for its answer.
        let gone = server.connect();
        (&gone).write_all(COLD.as_bytes()).unwrap();
        drop(gone);
        let other = server.connect();
        for _ in 0..50 {
            assert_eq!(ask(&other, GET).1, b"a short text");
        }
        assert_eq!(ask(&other, GET_LARGE).1.len(), LARGE);
        assert_ended(&other);
        for stream in &cold {
            stream.set_nonblocking(true).unwrap();
            assert_eq!(
                stream.peek(&mut [0]).unwrap_err().kind(),
                ErrorKind::WouldBlock,
                "{on:?}: an answer from nowhere"
            );
            stream.set_nonblocking(false).unwrap();
        }
        disk.wake();
        for stream in &cold {
            assert!(read_answer(stream, &mut Vec::new()).0.starts_with("HTTP/1.1 404 "));
            // The connection is as good as any other.
            assert_eq!(ask(stream, GET).1, b"a short text");
        }
        drop(cold);
        ask(&server.connect(), GET_CLOSE);
        server.join();
    }
}

/// A file that is about to be sent, in the folder of the test program: not on a file system in memory.
struct Sent {
    path: PathBuf,
    file: Arc<File>,
}

impl Sent {
    fn new() -> Arc<Sent> {
        static FILES: AtomicUsize = AtomicUsize::new(0);
        let name = format!("sent-{}-{}", std::process::id(), FILES.fetch_add(1, Ordering::Relaxed));
        let path = std::env::current_exe().unwrap().with_file_name(name);
        std::fs::write(&path, &large()[..]).unwrap();
        let file = Arc::new(File::open(&path).unwrap());
        Arc::new(Sent { path, file })
    }

    /// Sees to it that nothing of it is in memory, where the file system can do so.
    fn forget(&self) {
        self.file.sync_all().unwrap();
        posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
    }

    fn to_change(&self) -> File {
        File::options().write(true).open(&self.path).unwrap()
    }

    /// Has it served as `/sent`.
    fn put_under(&self, site: &mut Site) {
        let content = Content::File(Arc::clone(&self.file));
        let resource = Arc::new(Resource::new(content, LARGE as u64, None, b""));
        site.phases.add(Phase::Handler, move |request: &mut Request| {
            if request.path != b"/sent" {
                return Outcome::Declined;
            }
            request.response.body = Body::Resource(Arc::clone(&resource));
            Outcome::Done
        });
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        // A test may have removed it.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[test]
fn a_file_that_changes_while_it_is_sent_is_never_made_up() {
    // What happens to the file once a little of it was sent, and how many bytes of it may be sent then.
    type Change = fn(&Sent);
    let changes: [(&str, Change, bool); 5] = [
        ("it is not in memory any more", |sent| sent.forget(), true),
        ("it grows", |sent| sent.to_change().write_all_at(b"more", LARGE as u64).unwrap(), true),
        ("it is removed", |sent| std::fs::remove_file(&sent.path).unwrap(), true),
        ("it loses its end", |sent| sent.to_change().set_len(LARGE as u64 - 1).unwrap(), false),
        ("it loses everything", |sent| sent.to_change().set_len(0).unwrap(), false),
    ];
    for (what, change, whole) in changes {
        for sendfile in [true, false] {
            for on in [On::Ring, On::Epoll] {
                let sent = Sent::new();
                let setup = |setup: &mut Setup| {
                    setup.site.sendfile = sendfile;
                    sent.put_under(&mut setup.site);
                };
                let Some(server) = serve(on, 1, &setup) else { continue };
                let mut stream = server.connect();
                // It comes from the disk from the beginning.
                sent.forget();
                stream.write_all(b"GET /sent HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
                let mut got = vec![0; 100];
                stream.read_exact(&mut got).unwrap();
                change(&sent);
                if whole {
                    let (_, body) = read_answer(&stream, &mut got);
                    assert!(body[..] == large()[..], "{what}: the file arrived broken");
                } else {
                    // Sooner than the length that was announced, the connection ends.
                    stream.read_to_end(&mut got).unwrap();
                    let head = got.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
                    assert!(
                        got.len() < head + LARGE && large().starts_with(&got[head..]),
                        "{what}: {} bytes",
                        got.len()
                    );
                }
                drop(stream);
                server.join();
            }
        }
    }
}
