//! HTTP/2 around another wire: each slot is a stream, and some of them share a connection of the wire below.
//!
//! Slots are dealt to connections in turn. A slot joins the connection of its group that goes where its request goes, and opens one where
//! there is none that takes further requests; the one before ends when its last answer has come. Requests that begin in one turn of the
//! loop go out together with its wait.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use manifold_http::h2::frame::write_go_away;
use nix::errno::Errno;

use super::{Connected, Happening, Origin, Sent, Wire};
use crate::content::Look;
use crate::h2::link::{Link, News};
use crate::outcome::Failure;
use crate::plan::Address;
use crate::tls::{Client, Fault};

/// So many times in a turn bodies are prepared and sent on one connection, before others have their turn.
const ROUNDS_MAX: usize = 16;

/// Streams of connections.
pub struct Multiplexed<'p> {
    /// Asked once for many requests, so that it may as well be any.
    inner: Box<dyn Wire<'p> + 'p>,
    /// Connections of one server at most, but for those that only end.
    connections: usize,
    /// By the slots of the wire below.
    lines: Vec<Option<Box<Line<'p>>>>,
    vacant: Vec<usize>,
    /// The line of each slot, if it has joined one.
    joined: Vec<Option<usize>>,
    /// The lines of each group of slots.
    groups: Vec<Vec<usize>>,
    /// Lines with something to be sent.
    dirty: Vec<usize>,
    news: News,
    /// Whether the loop wants to see heads.
    heads: bool,
}

/// A connection of the wire below.
struct Line<'p> {
    link: Link<'p>,
    to: Address,
    tls: Option<&'p Client>,
    group: usize,
    /// Something was sent or is being sent; and it stands.
    tried: bool,
    stands: bool,
    /// The wire below has not sent all it was given.
    busy: bool,
    dirty: bool,
}

impl Line<'_> {
    fn goes_to(&self, to: &Address, tls: Option<&Client>) -> bool {
        let same_tls = match (self.tls, tls) {
            (Some(one), Some(other)) => std::ptr::eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        same_tls && self.to == *to
    }
}

/// How many slots the wire below needs for so many slots and servers. A connection that only ends has a stream at least.
pub fn slots_below(slots: usize, connections: usize, servers: usize) -> usize {
    slots + connections * servers
}

impl<'p> Multiplexed<'p> {
    /// Around a wire with as many slots as [`slots_below`] says. `heads` asks for the text of heads.
    pub fn new(
        inner: Box<dyn Wire<'p> + 'p>,
        slots: usize,
        connections: usize,
        servers: usize,
        heads: bool,
    ) -> Multiplexed<'p> {
        let below = slots_below(slots, connections, servers);
        Multiplexed {
            inner,
            connections,
            lines: (0..below).map(|_| None).collect(),
            vacant: (0..below).rev().collect(),
            joined: vec![None; slots],
            groups: vec![Vec::new(); connections],
            dirty: Vec::new(),
            news: VecDeque::new(),
            heads,
        }
    }

    /// The line of a slot.
    fn line_of(&mut self, slot: usize) -> Option<(usize, &mut Box<Line<'p>>)> {
        let number = self.joined[slot]?;
        Some((number, self.lines[number].as_mut()?))
    }

    fn soil(&mut self, number: usize) {
        if let Some(line) = &mut self.lines[number]
            && !std::mem::replace(&mut line.dirty, true)
        {
            self.dirty.push(number);
        }
    }

    /// Hands on what is to be sent on a line, as far as the wire below takes it.
    fn flush(&mut self, number: usize) {
        for _ in 0..ROUNDS_MAX {
            let Some(line) = &mut self.lines[number] else { return };
            let news = &mut self.news;
            line.link.prepare(&mut |slot| news.push_back(Happening::Sending { slot, sent: Sent::All }));
            if line.busy || line.link.out.is_empty() {
                return;
            }
            line.tried = true;
            let sent = self.inner.send_copy(number, &line.link.out);
            line.link.out.clear();
            line.busy = sent != Sent::All;
            match sent {
                Sent::All | Sent::Part(_) => self.stands(number),
                Sent::Connecting => {}
                Sent::Failed(error) => return self.send_failed(number, error),
            }
        }
        self.soil(number);
    }

    fn flush_all(&mut self) {
        for number in std::mem::take(&mut self.dirty) {
            if let Some(line) = &mut self.lines[number] {
                line.dirty = false;
                self.flush(number);
                self.tidy(number);
            }
        }
    }

    /// The line stands: requests that waited for that are told how far they are.
    fn stands(&mut self, number: usize) {
        let Some(line) = &mut self.lines[number] else { return };
        if !std::mem::replace(&mut line.stands, true) {
            let progress = line.link.progress().into_iter();
            self.news.extend(progress.map(|(slot, sent)| Happening::Sending { slot, sent }));
        }
    }

    fn send_failed(&mut self, number: usize, error: Errno) {
        let stands = self.lines[number].as_ref().is_some_and(|line| line.stands);
        self.fail(number, if stands { Failure::Write(error) } else { Failure::Connect(error) });
    }

    fn fail(&mut self, number: usize, failure: Failure) {
        if let Some(line) = &mut self.lines[number] {
            line.link.fail(failure, &mut self.news);
            self.vacate(number);
        }
    }

    /// The server broke the protocol: it is told so, and the line is given up.
    fn give_up(&mut self, number: usize, error: manifold_http::h2::Error) {
        let Some(line) = &mut self.lines[number] else { return };
        if !line.busy {
            line.link.out.clear();
            write_go_away(&mut line.link.out, 0, error.code);
            // The connection ends either way.
            let _goodbye = self.inner.send_copy(number, &line.link.out);
        }
        let failure = line.link.breach();
        self.fail(number, failure);
    }

    /// The server has closed its side.
    fn ended(&mut self, number: usize) {
        if let Some(line) = &mut self.lines[number] {
            line.link.end(&mut self.news);
            self.vacate(number);
        }
    }

    /// Closes a line that takes no further requests and has none under way.
    fn tidy(&mut self, number: usize) {
        if self.lines[number].as_ref().is_some_and(|line| !line.link.is_usable() && line.link.is_idle()) {
            self.vacate(number);
        }
    }

    fn vacate(&mut self, number: usize) {
        let Some(line) = self.lines[number].take() else { return };
        self.inner.close(number);
        self.vacant.push(number);
        self.groups[line.group].retain(|other| *other != number);
        let members = self.joined.iter_mut().skip(line.group).step_by(self.connections);
        members.filter(|joined| **joined == Some(number)).for_each(|joined| *joined = None);
    }

    /// Takes in the next thing that happened below; `None` when it is time to wait.
    fn digest(&mut self) -> Option<Happening<'static>> {
        let (number, outcome) = match self.inner.next()? {
            Happening::Received { slot: number, bytes, ended, .. } => {
                let Some(line) = &mut self.lines[number] else { return Some(Happening::Nothing) };
                (number, line.link.receive(bytes, &mut self.news).map(|()| ended))
            }
            Happening::Ended { slot: number } | Happening::CutOff { slot: number } => (number, Ok(true)),
            Happening::Sending { slot: number, sent } => {
                self.sent(number, sent);
                return Some(Happening::Nothing);
            }
            Happening::Broken { slot: number, error } => {
                let stands = self.lines[number].as_ref().is_some_and(|line| line.stands);
                self.fail(number, if stands { Failure::Receive(error) } else { Failure::Connect(error) });
                return Some(Happening::Nothing);
            }
            Happening::Secured { slot: number, secured } => {
                if !secured.http2 {
                    self.fail(number, Failure::NotHttp2);
                }
                return Some(Happening::Secured { slot: number, secured });
            }
            Happening::Insecure { slot: number, fault, said } => {
                // HTTP/2 is all that was offered.
                let failure = if fault == Fault::NoProtocol { Failure::NotHttp2 } else { Failure::Tls(fault) };
                self.fail(number, failure);
                return Some(Happening::Untrusted { said });
            }
            Happening::Interrupted => return Some(Happening::Interrupted),
            _ => return Some(Happening::Nothing),
        };
        match outcome {
            Ok(true) => self.ended(number),
            Ok(false) => {
                let pending = |line: &Line<'_>| !line.link.out.is_empty() || line.link.has_more_to_send();
                if self.lines[number].as_deref().is_some_and(pending) {
                    self.soil(number);
                }
                self.tidy(number);
            }
            Err(error) => self.give_up(number, error),
        }
        Some(Happening::Nothing)
    }

    /// There is news of what was handed on.
    fn sent(&mut self, number: usize, sent: Sent) {
        let Some(line) = &mut self.lines[number] else { return };
        line.busy = sent != Sent::All;
        match sent {
            Sent::All => {
                self.stands(number);
                self.soil(number);
            }
            Sent::Part(_) => self.stands(number),
            Sent::Connecting => {}
            Sent::Failed(error) => self.send_failed(number, error),
        }
    }
}

impl<'p> Wire<'p> for Multiplexed<'p> {
    fn connect(
        &mut self,
        slot: usize,
        to: &Address,
        origin: Origin,
        tls: Option<&'p Client>,
    ) -> Result<Connected, Errno> {
        let group = slot % self.connections;
        let fits = |line: &Line<'_>| line.link.is_usable() && line.goes_to(to, tls);
        let line = self.groups[group].iter().copied().find(|number| self.lines[*number].as_deref().is_some_and(fits));
        if line.is_some() {
            self.joined[slot] = line;
            return Ok(Connected::Joined);
        }
        // There are as many places as can be needed at once.
        let number = self.vacant.pop().ok_or(Errno::EMFILE)?;
        if let Err(error) = self.inner.connect(number, to, origin, tls) {
            self.vacant.push(number);
            return Err(error);
        }
        let link = Link::new(self.heads);
        let line = Line { link, to: to.clone(), tls, group, tried: false, stands: false, busy: false, dirty: false };
        self.lines[number] = Some(Box::new(line));
        self.groups[group].push(number);
        self.joined[slot] = Some(number);
        Ok(Connected::Anew)
    }

    fn keeps(&self, slot: usize) -> bool {
        let line = self.joined[slot].and_then(|number| self.lines[number].as_ref());
        line.is_some_and(|line| line.link.is_usable())
    }

    fn expect(&mut self, slot: usize, look: Option<Box<Look>>) -> Option<Box<Look>> {
        if let Some((_, line)) = self.line_of(slot) {
            line.link.expect(slot, look);
        }
        None
    }

    fn send(&mut self, slot: usize, bytes: &'p [u8]) -> Sent {
        let Some((number, line)) = self.line_of(slot) else { return Sent::Failed(Errno::EBADF) };
        let sent = line.link.open(slot, bytes);
        if line.tried {
            self.soil(number);
        } else {
            self.flush(number);
        }
        // Where it has failed meanwhile, that is told later.
        if self.lines[number].as_ref().is_some_and(|line| line.stands) { sent } else { Sent::Connecting }
    }

    fn send_copy(&mut self, slot: usize, _bytes: &[u8]) -> Sent {
        debug_assert!(false, "slot {slot}: streams carry requests of the plan");
        Sent::Failed(Errno::ENOTSUP)
    }

    /// Nothing is to be done: the end of a stream is told by its answer.
    fn await_end(&mut self, _slot: usize) {}

    fn close(&mut self, slot: usize) {
        let Some(number) = self.joined[slot].take() else { return };
        if let Some(line) = &mut self.lines[number] {
            line.link.cancel(slot);
            if !line.link.is_usable() {
                line.link.refuse_waiting(&mut self.news);
            }
            self.soil(number);
        }
    }

    fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        self.flush_all();
        if !self.news.is_empty() {
            return Ok(true);
        }
        let more = !self.dirty.is_empty();
        Ok(self.inner.wait(if more { Duration::ZERO } else { timeout })? || more)
    }

    fn next(&mut self) -> Option<Happening<'_>> {
        self.news.pop_front().or_else(|| self.digest())
    }
}
