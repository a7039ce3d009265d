//! The scoreboard: what every process and thread of a generation is doing, in memory that parent and children share.
//!
//! Only atomic words, no pointers and no locks, as Apache's `scoreboard.h` demands: a child may be killed at any
//! instruction. Each word has one writer at a time (the thread that owns the slot, or the parent once the child is
//! gone), so that relaxed loads and stores suffice and counters are exact.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use manifold_engine::status::{Connections as Counts, Totals};
use manifold_sys::shm::SharedWords;

use crate::clock;
use crate::ledger::milliseconds;

mod worker;

use self::worker::WORKER_WORDS;
pub use self::worker::{Began, Details, PROTOCOL_BYTES, REQUEST_BYTES, Status, VHOST_BYTES, WorkerSlot};

/// Words of a process slot: two cache lines, so that neighbours do not slow each other down.
const SERVER_WORDS: usize = 16;
/// Words of the scoreboard as a whole.
const HEAD_WORDS: usize = 8;
/// In the head: whether the ledger has taken over the counts.
const RETIRED: usize = 0;

/// The table of all slots. Clones share the same memory.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    words: Arc<SharedWords>,
    servers: usize,
    threads: usize,
}

/// The life of a process slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum ServerState {
    /// No process.
    Empty = 0,
    /// Forked, not yet accepting.
    Starting = 1,
    /// Accepting connections.
    Running = 2,
    /// Asked to end gracefully; finishes what it has.
    Quiescing = 3,
}

impl Scoreboard {
    /// Shared memory for `servers` processes of `threads` workers each.
    ///
    /// # Errors
    /// When the system has no memory for it.
    pub fn new(servers: usize, threads: usize) -> io::Result<Scoreboard> {
        let words = Arc::new(SharedWords::new(HEAD_WORDS + servers * (SERVER_WORDS + threads * WORKER_WORDS))?);
        Ok(Scoreboard { words, servers, threads })
    }

    /// Process slots.
    pub fn servers(&self) -> usize {
        self.servers
    }

    /// Worker slots of each process.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The slot of process `server`, less than [`servers`](Self::servers).
    pub fn server(&self, server: usize) -> ServerSlot<'_> {
        assert!(server < self.servers, "process slot {server} of {}", self.servers);
        let workers = HEAD_WORDS + self.servers * SERVER_WORDS + server * self.threads * WORKER_WORDS;
        ServerSlot {
            words: &self.words[HEAD_WORDS + server * SERVER_WORDS..][..SERVER_WORDS],
            workers: &self.words[workers..][..self.threads * WORKER_WORDS],
        }
    }

    /// The slot of worker `thread` in process `server`.
    pub fn worker(&self, server: usize, thread: usize) -> WorkerSlot<'_> {
        assert!(server < self.servers && thread < self.threads, "worker slot {server}/{thread}");
        let before = HEAD_WORDS + self.servers * SERVER_WORDS + (server * self.threads + thread) * WORKER_WORDS;
        WorkerSlot { words: &self.words[before..][..WORKER_WORDS] }
    }

    /// Empties the slots of a process that is gone, keeping its counters: totals never go back.
    pub fn clear(&self, server: usize) {
        self.server(server).set_state(ServerState::Empty);
        self.server(server).clear_connections();
        for thread in 0..self.threads {
            self.worker(server, thread).set_status(Status::Dead);
            self.worker(server, thread).clear_places();
        }
    }

    /// Sums over all slots. Those that no process ever ran in are passed over, so that large tables cost nothing.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for server in (0..self.servers).filter(|server| self.server(*server).was_used()) {
            let (shed, refused) = self.server(server).shed();
            totals.shed += shed;
            totals.refused += refused;
            for thread in 0..self.threads {
                let worker = self.worker(server, thread);
                totals.accesses += worker.requests();
                totals.bytes += worker.bytes();
                totals.connections += worker.connections();
                totals.duration_us += worker.duration_us();
            }
        }
        totals
    }

    /// Whether the ledger has taken over the counts of this scoreboard.
    pub(crate) fn is_retired(&self) -> bool {
        self.words[RETIRED].load(Ordering::Relaxed) != 0
    }

    /// The ledger has taken over the counts.
    pub(crate) fn set_retired(&self) {
        self.words[RETIRED].store(1, Ordering::Relaxed);
    }
}

/// Under which number of a process a connection is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Under none: it is worked on, or there is none.
    Nowhere,
    /// It waits for the client's next request.
    KeepAlive,
    /// It waits for its first request, or more of one.
    WaitIo,
    /// It waits for the client to take more of an answer.
    Writing,
    /// It lingers.
    Lingering,
}

/// Counts a connection less in one place and one more in another; `places` are their words, which one thread writes.
fn shift(words: &[AtomicU64], places: &[usize; 5], from: Place, to: Place) {
    let word = |place: Place| &words[places[place as usize]];
    let add = |word: &AtomicU64, n: u64| word.store(word.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    add(word(from), u64::MAX);
    add(word(to), 1);
}

/// A process in the scoreboard.
#[derive(Clone, Copy, Debug)]
pub struct ServerSlot<'a> {
    words: &'a [AtomicU64],
    /// Those of its workers.
    workers: &'a [AtomicU64],
}

impl ServerSlot<'_> {
    const PID: usize = 0;
    const STATE: usize = 1;
    const GENERATION: usize = 2;
    const OPEN: usize = 3;
    const LINGERING: usize = 5;
    const REFUSING: usize = 6;
    const KEEP_ALIVE: usize = 7;
    const WAIT_IO: usize = 8;
    const WRITING: usize = 9;
    const SHED: usize = 10;
    const REFUSED: usize = 11;
    const STARTED: usize = 12;
    const USED: usize = 13;
    /// What the other places have lost to no place at all; keeps [`shift`](Self::shift) without a branch.
    const NOWHERE: usize = 14;

    /// Takes the slot for process `pid` of `generation`.
    pub fn occupy(&self, pid: i32, generation: u64) {
        self.words[Self::PID].store(pid as u64, Ordering::Relaxed);
        self.words[Self::GENERATION].store(generation, Ordering::Relaxed);
        self.words[Self::STARTED].store(milliseconds(clock::wall()), Ordering::Relaxed);
    }

    /// Process id of the last occupant.
    pub fn pid(&self) -> i32 {
        self.words[Self::PID].load(Ordering::Relaxed) as i32
    }

    /// When the last occupant was forked, in milliseconds since the Unix epoch.
    pub fn started_ms(&self) -> u64 {
        self.words[Self::STARTED].load(Ordering::Relaxed)
    }

    /// Notes that the process serves: its workers count from now on.
    pub fn set_used(&self) {
        self.words[Self::USED].store(1, Ordering::Relaxed);
    }

    fn was_used(&self) -> bool {
        self.words[Self::USED].load(Ordering::Relaxed) != 0
    }

    /// Generation of the last occupant.
    pub fn generation(&self) -> u64 {
        self.words[Self::GENERATION].load(Ordering::Relaxed)
    }

    /// Where the process is in its life.
    pub fn state(&self) -> ServerState {
        match self.words[Self::STATE].load(Ordering::Relaxed) {
            1 => ServerState::Starting,
            2 => ServerState::Running,
            3 => ServerState::Quiescing,
            _ => ServerState::Empty,
        }
    }

    /// Moves the process on in its life.
    pub fn set_state(&self, state: ServerState) {
        self.words[Self::STATE].store(state as u64, Ordering::Relaxed);
    }

    /// Moves a starting process on to running; one that was asked to end meanwhile stays as it is.
    pub fn starts_running(&self) {
        let (starting, running) = (ServerState::Starting as u64, ServerState::Running as u64);
        let _asked_to_end_meanwhile =
            self.words[Self::STATE].compare_exchange(starting, running, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Counts connections that were accepted (1) or closed (-1). All threads of the child may count.
    pub fn add_open(&self, n: i64) {
        self.words[Self::OPEN].fetch_add(n as u64, Ordering::Relaxed);
    }

    /// Moves a connection from one place to another, in a process where one thread alone counts. Where threads take turns with
    /// connections, each counts for itself: [`WorkerSlot::shift`].
    pub fn shift(&self, from: Place, to: Place) {
        shift(self.words, &Self::PLACES, from, to);
    }

    /// The words of the places, in their order.
    const PLACES: [usize; 5] = [Self::NOWHERE, Self::KEEP_ALIVE, Self::WAIT_IO, Self::WRITING, Self::LINGERING];

    /// Counts an idle connection that was closed to make room for a new one.
    pub fn count_shed(&self) {
        self.words[Self::SHED].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a new connection that was answered with 503 for lack of room.
    pub fn count_refused(&self) {
        self.words[Self::REFUSED].fetch_add(1, Ordering::Relaxed);
    }

    /// Connections shed and refused by this slot's occupants.
    pub fn shed(&self) -> (u64, u64) {
        (self.words[Self::SHED].load(Ordering::Relaxed), self.words[Self::REFUSED].load(Ordering::Relaxed))
    }

    /// Tells whether the process accepts connections, or holds as many as it admits.
    pub fn set_accepting(&self, accepting: bool) {
        self.words[Self::REFUSING].store(u64::from(!accepting), Ordering::Relaxed);
    }

    /// Whether the process accepts connections. The idle threads of one that does not are of no use to new clients.
    pub fn is_accepting(&self) -> bool {
        self.words[Self::REFUSING].load(Ordering::Relaxed) == 0
    }

    /// The process' connections by state; each number is exact, though they are not read in one instant.
    pub fn counts(&self) -> Counts {
        // A reader may see the end of a state before its beginning was seen: never less than none.
        let sum = |place: Place| {
            let own = self.words[Self::PLACES[place as usize]].load(Ordering::Relaxed) as i64;
            let workers = self.workers.chunks(WORKER_WORDS).map(|words| WorkerSlot { words }.counted(place));
            workers.fold(own, i64::wrapping_add).max(0) as u64
        };
        Counts {
            open: self.open(),
            keep_alive: sum(Place::KeepAlive),
            wait_io: sum(Place::WaitIo),
            writing: sum(Place::Writing),
            lingering: sum(Place::Lingering),
        }
    }

    /// Connections accepted and not yet closed.
    pub fn open(&self) -> u64 {
        (self.words[Self::OPEN].load(Ordering::Relaxed) as i64).max(0) as u64
    }

    fn clear_connections(&self) {
        let counts = [Self::OPEN, Self::KEEP_ALIVE, Self::WAIT_IO, Self::WRITING, Self::LINGERING];
        for word in counts.into_iter().chain([Self::REFUSING]) {
            self.words[word].store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use manifold_engine::transport::Activity;

    use super::*;

    #[test]
    fn counters_outlive_the_processes_that_made_them() {
        let board = Scoreboard::new(2, 3).unwrap();
        board.server(1).occupy(42, 7);
        board.server(1).set_state(ServerState::Running);
        board.worker(1, 2).set_status(Status::Doing(Activity::Writing));
        board.worker(1, 2).count_connection();
        board.worker(1, 2).count_request(100);
        board.server(1).add_open(2);
        board.server(1).shift(Place::Nowhere, Place::KeepAlive);
        // One worker parks two connections, others take them up and park one of them anew.
        (0..2).for_each(|_| board.worker(1, 0).shift(Place::Nowhere, Place::KeepAlive));
        board.worker(1, 2).shift(Place::KeepAlive, Place::Nowhere);
        board.worker(1, 1).shift(Place::KeepAlive, Place::Lingering);
        assert_eq!(board.server(1).counts(), Counts { open: 2, keep_alive: 1, lingering: 1, ..Counts::default() });
        board.server(1).count_shed();
        (0..2).for_each(|_| board.server(1).count_refused());
        board.worker(0, 0).count_request(11);
        board.clear(1);
        assert_eq!((board.server(1).state(), board.server(1).counts()), (ServerState::Empty, Counts::default()));
        assert_eq!(board.worker(1, 2).status(), Status::Dead);
        assert_eq!(board.totals(), Totals::default());
        board.server(0).set_used();
        board.server(1).set_used();
        assert_eq!(
            board.totals(),
            Totals { accesses: 2, bytes: 111, connections: 1, shed: 1, refused: 2, ..Totals::default() }
        );
    }
}
