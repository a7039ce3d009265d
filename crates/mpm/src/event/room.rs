//! What event's listener does when its process is full: never silence. The oldest idle connections are closed first; where
//! nothing is idle, new clients are left to processes that have room, or will soon; where there is none, they are answered
//! with 503.
//!
//! Workers that are all busy are no reason to close idle connections, as Apache does: those hold no worker. New clients
//! then wait in the backlog, for as long as `ListenBacklog` allows, or find another process.

use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::child::lacks_descriptors;
use crate::event::Shared;
use crate::event::slot::Waits;
use crate::generation::Child;
use crate::scoreboard::ServerState;
use crate::shed::{REFUSED_LINGER, Shedding};

/// The part of all connections that is closed at a time, and its bound in connections.
const BATCH_PART: usize = 64;
const BATCH_MAX: usize = 1024;
/// Refused connections that are kept until their clients have read why; with more of them the oldest is closed.
const REFUSED_MAX: usize = 256;
/// What a refused client has sent is read up to so many bytes: unread, they would make the kernel withdraw the answer.
const REFUSED_BYTES_MAX: usize = 64 * 1024;
/// So long a full process leaves new clients in the backlog while the parent may make another: the parent decides once a
/// second, and makes more children the longer they are needed.
const GROWTH_GRACE: Duration = Duration::from_secs(3);
/// What was tried is tried again after so long, unless a connection ends before.
const RETRY: Duration = Duration::from_millis(100);

/// What the listener does with new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doors {
    /// Accepts them.
    Open,
    /// Makes room when one comes, or turns it away: see [`Room::make`].
    Full,
    /// Leaves them to others, or waits.
    Shut,
}

/// The listener's account of whether there is room.
#[derive(Debug)]
pub(crate) struct Room {
    shedding: Shedding,
    /// Refused connections, and when they are closed.
    refused: VecDeque<(Instant, TcpStream)>,
    /// Since when clients find no room and nothing idle.
    starved_since: Option<Instant>,
    /// Room is being made, here or by the parent: nothing else is tried until then.
    retry_at: Option<Instant>,
    /// Why accepting failed, if that is what makes the process full.
    exhausted: Option<io::Error>,
}

impl Room {
    /// Room for everybody; `server` is the name by which the server answers.
    pub fn new(server: &str) -> Room {
        let shedding = Shedding::new(server, "mpm_event");
        Room { shedding, refused: VecDeque::new(), starved_since: None, retry_at: None, exhausted: None }
    }

    /// What is to be done with new connections now.
    pub fn doors(&mut self, shared: &Shared<'_>, now: Instant) -> Doors {
        if shared.is_draining() {
            return Doors::Shut;
        }
        let waits = self.retry_at.is_some_and(|at| now < at);
        if waits || shared.is_full() {
            shared.ask_for_end();
        }
        if waits {
            return Doors::Shut;
        }
        if shared.is_full() {
            return if another_accepts(&shared.child) { Doors::Shut } else { Doors::Full };
        }
        (self.starved_since, self.retry_at) = (None, None);
        let workers_follow = shared.ready.has_room() || shared.ready.wait_for_room();
        if workers_follow { Doors::Open } else { Doors::Shut }
    }

    /// A client has come to a full process. Connections that end for it are added to `ready`, and it waits. `false` where
    /// nothing is idle, and no other process to be expected: the client is to be refused.
    pub fn make(&mut self, shared: &Shared<'_>, now: Instant, ready: &mut Vec<u32>) -> bool {
        let since = *self.starved_since.get_or_insert(now);
        let waits =
            self.close_oldest(shared, ready) > 0 || now - since < GROWTH_GRACE && parent_may_help(&shared.child);
        if waits {
            self.retry_at = Some(now + RETRY);
        }
        waits
    }

    /// A connection has ended, or workers follow again: there may be room.
    pub fn look_again(&mut self) {
        self.retry_at = None;
    }

    /// Accepting failed for lack of a resource. `false` where nothing is idle, and the client can be refused with a descriptor
    /// kept for this.
    pub fn exhausted(&mut self, error: io::Error, shared: &Shared<'_>, now: Instant, ready: &mut Vec<u32>) -> bool {
        self.let_go_of_refused();
        let closed = self.close_oldest(shared, ready);
        let refuse = closed == 0 && lacks_descriptors(&error);
        if closed == 0 && !refuse {
            self.shedding.failed();
        }
        self.exhausted = Some(error);
        shared.ask_for_end();
        if !refuse {
            self.pause(now);
        }
        !refuse
    }

    /// Nothing can be done for new clients at the moment.
    pub fn pause(&mut self, now: Instant) {
        self.retry_at = Some(now + RETRY);
    }

    /// Answers a connection that was just accepted with 503.
    pub fn refuse(&mut self, stream: TcpStream, now: Instant) {
        drop_input(&stream);
        self.shedding.refuse(&stream);
        let _client_is_gone = stream.shutdown(Shutdown::Write);
        if self.refused.len() == REFUSED_MAX
            && let Some((_, first)) = self.refused.pop_front()
        {
            drop_input(&first);
        }
        self.refused.push_back((now + REFUSED_LINGER, stream));
    }

    /// Closes the refused connections, which hold descriptors.
    pub fn let_go_of_refused(&mut self) {
        self.refused.clear();
    }

    /// Whether refused connections are kept.
    pub fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Looks after refused connections, and tells the log what was shed.
    pub fn tend(&mut self, shared: &Shared<'_>, now: Instant) {
        while let Some((_, stream)) = self.refused.pop_front_if(|(until, _)| *until <= now) {
            drop_input(&stream);
        }
        let told = match &self.exhausted {
            Some(error) => self.shedding.report(
                now,
                format_args!("accept failed with {} connections ({error})", shared.open()),
                "raise the limit of open files (ulimit -n, LimitNOFILE), or lower MaxConnections",
            ),
            None => self.shedding.report(
                now,
                format_args!("the process holds {} connections, as many as it may", shared.most),
                "raise MaxConnections or MaxRequestWorkers, or lower KeepAliveTimeout",
            ),
        };
        if told {
            self.exhausted = None;
        }
    }

    /// Asks those connections to end that have been idle for longest; how many. Where a request has arrived in the very
    /// moment it is answered.
    fn close_oldest(&mut self, shared: &Shared<'_>, ready: &mut Vec<u32>) -> usize {
        if shared.child.server().counts().keep_alive == 0 {
            return 0;
        }
        let batch = (shared.most / BATCH_PART).clamp(1, BATCH_MAX);
        let mut oldest = BinaryHeap::with_capacity(batch + 1);
        for (slot, place) in shared.places.made().filter(|(_, place)| place.waits() == Waits::KeepAlive) {
            oldest.push((place.deadline.order(), slot));
            if oldest.len() > batch {
                oldest.pop();
            }
        }
        let before = ready.len();
        for (_, slot) in oldest {
            let place = shared.places.at(slot);
            if place.schedule.notify(false) {
                // Not queued before the end of the turn: nobody is in the slot.
                place.deadline.pass();
                ready.push(slot as u32);
                self.shedding.closed();
                shared.child.server().count_shed();
            }
        }
        ready.len() - before
    }
}

/// Whether another process takes what comes to this one's listeners.
fn another_accepts(child: &Child<'_>) -> bool {
    let generation = child.generation;
    (0..generation.scoreboard.servers()).filter(|slot| *slot != child.slot).any(|slot| {
        let server = generation.scoreboard.server(slot);
        let same_listeners = std::ptr::eq(Child { generation, slot }.listeners(), child.listeners());
        server.state() == ServerState::Running && server.is_accepting() && same_listeners
    })
}

/// Whether the parent may make another process.
fn parent_may_help(child: &Child<'_>) -> bool {
    let board = &child.generation.scoreboard;
    let alive = (0..board.servers())
        .filter(|slot| matches!(board.server(*slot).state(), ServerState::Starting | ServerState::Running))
        .count();
    alive < child.generation.limits.processes() as usize
}

fn drop_input(mut stream: &TcpStream) {
    let mut drop_here = [0; 4096];
    for _ in 0..REFUSED_BYTES_MAX / drop_here.len() {
        if !matches!(stream.read(&mut drop_here), Ok(1..)) {
            return;
        }
    }
}
