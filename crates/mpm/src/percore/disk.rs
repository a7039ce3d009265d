//! What has to come from a disk: a file that was not looked up lately, and parts of large ones that are not in the page
//! cache. Connections ask for it and the core goes on; helper threads wait in its place.
//!
//! Threads, and not operations of the ring: looking a file up is many calls, each depending on the one before, and is
//! written once for all models; the kernel would hand an open or a read that waits to a thread of its own just so; and
//! where io_uring is forbidden it is needed all the same. They are started when there is something to wait for: a core
//! whose files are in memory has none.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use manifold_engine::transport::Job;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::connections::Connections;
use super::driver::{Driver, Handle, Readiness};
use super::residency::CHUNK;
use super::slot::State;
use super::transport::with_mail;
use crate::clock;

/// Helper threads of a core: so many requests to disks are under way at the same time.
const HELPERS_MAX: usize = 4;
/// Bytes of a helper's stack.
const STACK: usize = 256 * 1024;
/// Bytes behind a chunk that the kernel is asked to read meanwhile.
const READ_AHEAD: u64 = 2 * 1024 * 1024;
/// Bytes read in one call.
const BUFFER: usize = 64 * 1024;

/// Something that a connection waits for.
enum Errand {
    /// A call that a phase needs.
    Call(Job),
    /// A chunk of a file, which is to lie in the page cache.
    Read(Arc<File>, u64),
}

/// What came of an errand.
enum Outcome {
    Called,
    Read(io::Result<(Arc<File>, u64)>),
}

/// The helpers of a core. What waits for them is bounded by the number of connections: each has one errand at most.
pub(super) struct Disk {
    shared: Arc<Shared>,
    /// Rung when an errand is done.
    bell: Handle,
    helpers: usize,
}

struct Shared {
    waiting: Mutex<Waiting>,
    work: Condvar,
    done: Mutex<Vec<(Handle, Outcome)>>,
    bell: EventFd,
}

#[derive(Default)]
struct Waiting {
    errands: VecDeque<(Handle, Errand)>,
    idle: usize,
    /// The core is gone.
    ended: bool,
}

impl Disk {
    fn open(driver: &mut impl Driver) -> io::Result<Disk> {
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let handle = driver.adopt(bell.as_fd().try_clone_to_owned()?);
        driver.poll(handle, Readiness::Readable);
        let (waiting, work, done) = (Mutex::default(), Condvar::new(), Mutex::default());
        Ok(Disk { shared: Arc::new(Shared { waiting, work, done, bell }), bell: handle, helpers: 0 })
    }

    /// Hands an errand to the helpers; gives it back where there is none and none can be started.
    fn ask(&mut self, handle: Handle, errand: Errand) -> Result<(), Errand> {
        let mut waiting = lock(&self.shared.waiting);
        if waiting.idle <= waiting.errands.len() && self.helpers < HELPERS_MAX {
            let shared = Arc::clone(&self.shared);
            match Builder::new().name("disk".to_owned()).stack_size(STACK).spawn(move || help(&shared)) {
                Ok(_) => self.helpers += 1,
                Err(error) if self.helpers == 0 => {
                    log::warn!(target: "mpm_percore", "cannot start a thread that waits for disks, so that everybody waits: {error}");
                    return Err(errand);
                }
                Err(_) => {}
            }
        }
        waiting.errands.push_back((handle, errand));
        self.shared.work.notify_one();
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        lock(&self.shared.waiting).ended = true;
        self.shared.work.notify_all();
    }
}

/// A helper's life.
fn help(shared: &Shared) {
    let mut buffer = vec![0; BUFFER];
    while let Some((handle, errand)) = next(shared) {
        let outcome = errand.run(&mut buffer);
        let mut done = lock(&shared.done);
        done.push((handle, outcome));
        if done.len() == 1 {
            // It cannot fail: what the core has not read yet is a small number.
            let _ = shared.bell.write(1);
        }
    }
}

/// The errand that has waited longest, once there is one; `None` when the core is gone.
fn next(shared: &Shared) -> Option<(Handle, Errand)> {
    let mut waiting = lock(&shared.waiting);
    waiting.idle += 1;
    while waiting.errands.is_empty() && !waiting.ended {
        waiting = shared.work.wait(waiting).unwrap_or_else(PoisonError::into_inner);
    }
    waiting.idle -= 1;
    if waiting.ended { None } else { waiting.errands.pop_front() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Errand {
    fn run(self, buffer: &mut [u8]) -> Outcome {
        match self {
            Errand::Call(job) => {
                // A call that panics has told why. The phase that needs it is repeated, and in the end makes it itself.
                let _ = catch_unwind(AssertUnwindSafe(|| job.run()));
                Outcome::Called
            }
            Errand::Read(file, chunk) => Outcome::Read(read_through(&file, chunk, buffer).map(|()| (file, chunk))),
        }
    }
}

/// Brings a chunk of a file into the page cache, and has what follows it read meanwhile.
fn read_through(file: &File, chunk: u64, buffer: &mut [u8]) -> io::Result<()> {
    let (mut at, end) = (chunk * CHUNK, (chunk + 1) * CHUNK);
    let length = (CHUNK + READ_AHEAD).cast_signed();
    // Advice: reading does without it.
    let _ = posix_fadvise(file, at.cast_signed(), length, PosixFadviseAdvice::POSIX_FADV_WILLNEED);
    while at < end {
        let length = buffer.len().min((end - at) as usize);
        match file.read_at(&mut buffer[..length], at) {
            // It ends here; sending will tell.
            Ok(0) => break,
            Ok(n) => at += n as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl<D: Driver> Connections<'_, D> {
    /// Whether a descriptor is the one that tells of errands that are done.
    pub(super) fn is_bell(&self, handle: Handle) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.bell == handle)
    }

    /// The future of a connection needs a call that may wait for a disk. Returns whether it was made already.
    pub(super) fn offload(&mut self, handle: Handle) -> bool {
        let Some(job) = self.host.take_job() else { return true };
        self.ask_disk(handle, Errand::Call(job)).is_err_and(|errand| {
            errand.run(&mut []);
            true
        })
    }

    /// How many bytes from the beginning of `part`, which is not empty, can be sent now. Where there are none, they are asked
    /// for, and the connection goes on when they are there.
    pub(super) fn ready_to_send(&mut self, handle: Handle, file: &Arc<File>, part: Range<u64>) -> u64 {
        let ready = self.residency.ready(file, part.clone(), clock::turn().now);
        if ready > 0 {
            return ready;
        }
        match self.ask_disk(handle, Errand::Read(Arc::clone(file), part.start / CHUNK)) {
            Ok(()) => 0,
            // Sending will wait for it.
            Err(_) => part.end - part.start,
        }
    }

    fn ask_disk(&mut self, handle: Handle, errand: Errand) -> Result<(), Errand> {
        let disk = match &mut self.disk {
            Some(disk) => disk,
            none => match Disk::open(&mut self.driver) {
                Ok(disk) => none.insert(disk),
                Err(error) => {
                    log::warn!(target: "mpm_percore", "cannot wait for disks without everybody waiting: {error}");
                    return Err(errand);
                }
            },
        };
        disk.ask(handle, errand)?;
        let slot = &mut self.slots[handle.index()];
        // However long the disk takes, the client is not to blame.
        (slot.asking, slot.deadline) = (true, None);
        Ok(())
    }

    /// Lets connections go on whose errands are done.
    pub(super) fn disk_answered(&mut self, more: bool) {
        let Some(disk) = &self.disk else { return };
        if !more {
            self.driver.poll(disk.bell, Readiness::Readable);
        }
        // Nothing to read is no failure: the bell may have rung twice for what one look takes.
        let _ = disk.shared.bell.read();
        let done = std::mem::take(&mut *lock(&disk.shared.done));
        for (handle, outcome) in done {
            let slot = &mut self.slots[handle.index()];
            debug_assert!(slot.asking, "a connection stays while it waits for a disk");
            slot.asking = false;
            let State::Busy(task) = slot.state else { continue };
            match outcome {
                Outcome::Called => self.run(handle, task),
                Outcome::Read(Ok((file, chunk))) => {
                    self.residency.was_read(&file, chunk, clock::turn().now);
                    if self.flush(handle, task, CHUNK) {
                        self.run(handle, task);
                    }
                }
                Outcome::Read(Err(error)) => {
                    with_mail(self.tasks.mail(task), |mail| mail.flushed = Some(Err(error)));
                    self.run(handle, task);
                }
            }
            self.recount(handle);
        }
    }
}
