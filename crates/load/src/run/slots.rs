//! The life of a connection: it takes a request, connects where it has to, sends, receives, and is told what became of it.

use std::cmp::Reverse;
use std::rc::Rc;

use manifold_http::{ResponseBody, ResponseHead, Version};

use super::{Driver, Phase, REFUSALS_MAX};
use crate::connection::{End, Progress};
use crate::outcome::{Ended, Failure, Observer, Time, Verdict, nanoseconds};
use crate::plan::{Order, Protocol, Timeout};
use crate::tls::Fault;
use crate::wire::{Answer, Connected, Happening, Origin, Sent, Wire};

/// What came of received bytes.
#[derive(Clone, Copy)]
enum Came {
    /// The answer, or its beginning.
    Answer { progress: Progress, now: u64, ended: bool },
    /// Bytes that nobody asked for.
    Unasked,
}

impl<'p, O: Observer, W: Wire<'p>, T: Time> Driver<'p, O, W, T> {
    /// Handles everything that has happened.
    pub(super) fn handle_all(&mut self) {
        while self.ended.is_none() {
            let Some(happening) = self.wire.next() else { return };
            match happening {
                Happening::Nothing => {}
                Happening::Interrupted => self.ended = Some(Ended::Interrupted),
                Happening::Sending { slot, sent } => self.sending(slot, sent, None),
                Happening::Received { slot: index, bytes, ended, waited } => {
                    let slot = &mut self.slots[index];
                    let came = if matches!(slot.phase, Phase::Sending | Phase::Receiving) {
                        // When they came, rather than when this thread was woken for them.
                        let now = self.clock.now().saturating_sub(waited).max(slot.connection.exchange.started);
                        let observer = &mut self.observer;
                        let server = &mut self.servers[slot.endpoint];
                        let progress = slot.connection.receive(bytes, now, &mut self.known, |bytes, head| {
                            server.answered = true;
                            observer.head(bytes, head);
                        });
                        Came::Answer { progress, now, ended }
                    } else {
                        Came::Unasked
                    };
                    self.received(index, came);
                }
                Happening::Ended { slot } => self.end_of_stream(slot),
                Happening::Broken { slot, error } => self.broken(slot, error),
                Happening::Secured { secured, .. } => self.observer.secured(&secured),
                Happening::CutOff { slot } => self.cut_off(slot),
                Happening::Insecure { slot, fault, said } => self.insecure(slot, fault, &said),
                Happening::Untrusted { said } => self.observer.insecure(&said),
                Happening::Begun { slot, head } => self.begun(slot, head),
                Happening::Answered { slot, answer } => self.answered(slot, answer),
                Happening::Failed { slot, failure } => self.failed(slot, failure),
                Happening::Refused { slot } => self.refused(slot),
            }
        }
    }

    fn received(&mut self, index: usize, came: Came) {
        if self.probing && self.servers[self.slots[index].endpoint].answered {
            self.start_others();
        }
        match came {
            Came::Answer { progress: Progress::Complete { reusable }, now, ended } => {
                self.answer(index, now, reusable, ended);
            }
            Came::Answer { progress: Progress::Malformed, .. } => self.fail(index, Failure::Malformed),
            Came::Answer { progress: Progress::More, ended: true, .. } => self.end_of_stream(index),
            Came::Answer { progress: Progress::More, .. } => {}
            // Between requests nothing may come; the connection cannot be trusted any more.
            Came::Unasked => self.close(index),
        }
    }

    /// Gives the slot its next request, or lets it rest for ever if there is none.
    pub(super) fn next(&mut self, index: usize) {
        if self.slots[index].phase == Phase::Idle {
            self.active += 1;
        }
        if self.take_ticket() {
            let now = self.clock.now();
            let number = self.choose(index);
            self.begin_request(index, number, now, now);
        } else {
            self.go_idle(index);
        }
    }

    pub(super) fn go_idle(&mut self, index: usize) {
        self.close(index);
        self.slots[index].phase = Phase::Idle;
        self.active -= 1;
    }

    pub(super) fn rest(&mut self, index: usize, until: u64) {
        self.slots[index].phase = Phase::Resting { until };
        self.timers.push(Reverse((until, index)));
    }

    fn close(&mut self, index: usize) {
        if std::mem::take(&mut self.slots[index].open) {
            self.wire.close(index);
        }
    }

    /// Which of the plan's requests is next, where the schedule does not say.
    pub(super) fn choose(&mut self, index: usize) -> usize {
        match &self.plan.order {
            Order::Weighted => self.picker.next(&mut self.rng),
            Order::InTurn => {
                let slot = &mut self.slots[index];
                let number = slot.cursor;
                slot.cursor = (number + 1) % self.plan.requests.len();
                number
            }
            Order::Listed(list) => list[self.ticket as usize].request as usize,
        }
    }

    /// This request, which was meant for `intended`, begins at `now`, on the slot's connection if it has one that goes to the right place.
    pub(super) fn begin_request(&mut self, index: usize, number: usize, intended: u64, now: u64) {
        let slot = &mut self.slots[index];
        let request = &self.plan.requests[number];
        let kept = slot.open && slot.endpoint == request.endpoint && self.wire.keeps(index);
        slot.endpoint = request.endpoint;
        slot.refusals = 0;
        slot.connection.begin(now, !kept);
        slot.connection.name(number as u32, intended, request.head_request);
        if kept {
            slot.phase = Phase::Sending;
            self.send(index, None);
        } else {
            self.connect(index);
        }
    }

    /// The slot's request begins anew on a new connection.
    fn repeat_request(&mut self, index: usize, now: u64) {
        let exchange = &self.slots[index].connection.exchange;
        let (number, intended) = (exchange.request, exchange.intended);
        let intended = if self.open.is_some() { intended } else { now };
        self.slots[index].refusals = 0;
        self.slots[index].connection.begin(now, true);
        let request = &self.plan.requests[number as usize];
        self.slots[index].connection.name(number, intended, request.head_request);
        self.connect(index);
    }

    fn connect(&mut self, index: usize) {
        self.close(index);
        let slot = &mut self.slots[index];
        slot.phase = Phase::Connecting;
        let endpoint = &self.plan.endpoints[slot.endpoint];
        let addresses = &endpoint.addresses;
        let address = &addresses[self.servers[slot.endpoint].address.min(addresses.len() - 1)];
        let local = (!self.plan.local.is_empty()).then(|| self.plan.local[self.opened % self.plan.local.len()]);
        self.opened += 1;
        let no_delay = endpoint.tls.is_some() || self.plan.protocol != Protocol::Http1;
        let origin = Origin { local, buffer: self.plan.socket_buffer, no_delay };
        match self.wire.connect(index, address, origin, endpoint.tls.as_ref()) {
            Ok(connected) => slot.opens = connected == Connected::Anew,
            Err(error) => return self.fail(index, Failure::Connect(error)),
        }
        slot.connection.exchange.fresh = slot.opens;
        slot.open = true;
        // Where it stands when it has been asked for, it has stood since before the request was sent.
        let now = self.clock.now();
        self.send(index, Some(now));
    }

    fn send(&mut self, index: usize, stands_since: Option<u64>) {
        let number = self.slots[index].connection.exchange.request as usize;
        let request = &self.plan.requests[number];
        let look = self.wire.expect(index, request.look());
        self.slots[index].connection.expect(look);
        let sent = self.wire.send(index, &request.bytes);
        self.sending(index, sent, stands_since);
    }

    /// There is news of the request's bytes. On a connection that is being made the first successful send is the news that it stands.
    fn sending(&mut self, index: usize, sent: Sent, stands_since: Option<u64>) {
        let slot = &mut self.slots[index];
        match (slot.phase, sent) {
            (Phase::Connecting | Phase::Sending, _) => {}
            // It had seemed to be sent.
            (Phase::Receiving, Sent::Failed(error)) => {
                let kept = !slot.connection.exchange.fresh && slot.connection.exchange.received == 0;
                return self.fail(index, if kept { Failure::ClosedReused } else { Failure::Write(error) });
            }
            _ => return,
        }
        let exchange = &mut slot.connection.exchange;
        let bytes = match sent {
            Sent::Connecting => return,
            Sent::Part(bytes) => bytes,
            Sent::All => self.plan.requests[exchange.request as usize].bytes.len(),
            Sent::Failed(error) if slot.phase == Phase::Connecting => return self.fail(index, Failure::Connect(error)),
            Sent::Failed(_) if !exchange.fresh && exchange.sent == 0 => return self.fail(index, Failure::ClosedReused),
            Sent::Failed(error) => return self.fail(index, Failure::Write(error)),
        };
        if slot.phase == Phase::Connecting {
            exchange.connected = stands_since.unwrap_or_else(|| self.clock.now());
            slot.phase = Phase::Sending;
            if slot.opens {
                self.observer.opened(exchange.connected - exchange.started);
            }
        }
        exchange.sent = bytes as u64;
        if sent == Sent::All {
            slot.phase = Phase::Receiving;
            if O::TIMES_WRITING {
                exchange.wrote = self.clock.now();
            }
        }
    }

    /// The answer is complete.
    fn answer(&mut self, index: usize, now: u64, reusable: bool, ended: bool) {
        let slot = &mut self.slots[index];
        let whole_request_sent = slot.phase == Phase::Receiving;
        slot.served = true;
        slot.connection.exchange.finished = now;
        slot.connection.judge_content();
        if self.observer.completed(&slot.connection.exchange).is_break() {
            slot.phase = Phase::Closing;
            self.ended = Some(Ended::Observer);
            return;
        }
        let reusable = reusable && whole_request_sent && !ended;
        let kept = slot.connection.exchange.kept;
        let pause = self.think.next(&mut self.rng);
        if self.open.is_some() {
            if !reusable {
                self.close(index);
            }
            self.release(index, now);
            self.dispatch(now);
        } else if pause > 0 {
            if !reusable {
                self.close(index);
            }
            self.rest(index, now.saturating_add(pause));
        } else if reusable {
            self.go_on(index, now);
        } else if ended || !whole_request_sent || kept {
            self.close(index);
            self.next(index);
        } else {
            slot.phase = Phase::Closing;
            self.wire.await_end(index);
        }
    }

    /// An answer begins that the wire takes apart itself.
    fn begun(&mut self, index: usize, head: Option<(u16, Rc<[u8]>)>) {
        let now = self.clock.now();
        let slot = &mut self.slots[index];
        if slot.connection.exchange.first_byte == 0 {
            slot.connection.exchange.first_byte = now;
        }
        if let Some((status, text)) = head {
            // What follows is no affair of the head's.
            let (version, body) = (Version::Http11, ResponseBody::UntilClose);
            let head = ResponseHead { status, version, body, keep_alive: true, keep_alive_named: true };
            self.observer.head(&text, &head);
        }
        self.servers[slot.endpoint].answered = true;
        if self.probing {
            self.start_others();
        }
    }

    /// An answer is complete that the wire has taken apart itself.
    fn answered(&mut self, index: usize, answer: Answer) {
        let now = self.clock.now();
        let slot = &mut self.slots[index];
        let exchange = &mut slot.connection.exchange;
        let Answer { status, received, body, stated, wrong_content } = answer;
        (exchange.status, exchange.received, exchange.body, exchange.kept) = (status, received, body, true);
        exchange.wrong_content = wrong_content;
        if exchange.first_byte == 0 {
            exchange.first_byte = now;
        }
        self.servers[slot.endpoint].answered = true;
        let bodiless = self.plan.requests[exchange.request as usize].head_request || matches!(status, 204 | 304);
        match stated {
            // RFC 9113, section 8.1.1.
            Some(stated) if body < stated && !bodiless => self.fail(index, Failure::Truncated),
            Some(stated) if body > stated => self.fail(index, Failure::Malformed),
            _ => self.answer(index, now, true, false),
        }
        if self.probing {
            self.start_others();
        }
    }

    /// A request has failed on a wire that has other requests on the same connection.
    fn failed(&mut self, index: usize, failure: Failure) {
        if matches!(self.slots[index].phase, Phase::Connecting | Phase::Sending | Phase::Receiving) {
            self.fail(index, failure);
        }
    }

    /// The server has not looked at the request: it is made again, as if nothing had happened but that time has passed. At once the first
    /// time, since a connection that is about to end refuses what came too late for it.
    fn refused(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.refusals += 1;
        if slot.refusals > REFUSALS_MAX {
            return self.fail(index, Failure::Refused);
        }
        let pause = if slot.refusals == 1 { 0 } else { nanoseconds(self.plan.connect_pause) };
        self.close(index);
        let until = self.clock.now().saturating_add(pause);
        self.slots[index].phase = Phase::Paused { until };
        self.timers.push(Reverse((until, index)));
    }

    /// A slot of an open loop is free again.
    fn release(&mut self, index: usize, now: u64) {
        self.slots[index].phase = Phase::Idle;
        self.slots[index].free_since = now;
        self.active -= 1;
        if let Some(open) = &mut self.open {
            open.free.push_back(index);
        }
    }

    /// The next request follows at once.
    fn go_on(&mut self, index: usize, now: u64) {
        if self.take_ticket() {
            let number = self.choose(index);
            self.begin_request(index, number, now, now);
        } else {
            self.go_idle(index);
        }
    }

    fn end_of_stream(&mut self, index: usize) {
        match self.slots[index].phase {
            Phase::Sending | Phase::Receiving => {}
            Phase::Closing => {
                self.close(index);
                return self.next(index);
            }
            // Nothing is under way: the server was within its rights.
            _ => return self.close(index),
        }
        let connection = &self.slots[index].connection;
        match connection.end_of_stream() {
            End::Complete => self.answer(index, self.clock.now(), false, true),
            End::Truncated => self.fail(index, Failure::Truncated),
            End::NoAnswer if connection.exchange.fresh => self.fail(index, Failure::NoAnswer),
            End::NoAnswer => self.fail(index, Failure::ClosedReused),
        }
    }

    fn broken(&mut self, index: usize, error: nix::errno::Errno) {
        match self.slots[index].phase {
            Phase::Connecting => self.fail(index, Failure::Connect(error)),
            Phase::Sending | Phase::Receiving => self.fail(index, Failure::Receive(error)),
            _ => self.end_of_stream(index),
        }
    }

    /// The stream of a secured connection is at an end that anybody may have made: an answer that only its end would complete is not.
    fn cut_off(&mut self, index: usize) {
        let slot = &self.slots[index];
        let under_way = matches!(slot.phase, Phase::Sending | Phase::Receiving);
        if under_way && slot.connection.end_of_stream() == End::Complete {
            self.insecure(
                index,
                Fault::Truncated,
                "the stream ended without close_notify, which may have cut an answer off",
            );
        } else {
            self.end_of_stream(index);
        }
    }

    fn insecure(&mut self, index: usize, fault: Fault, said: &str) {
        self.observer.insecure(said);
        match self.slots[index].phase {
            Phase::Connecting | Phase::Sending | Phase::Receiving => self.fail(index, Failure::Tls(fault)),
            _ => self.end_of_stream(index),
        }
    }

    /// The request has failed; its connection is closed. What follows begins with the next turn of the loop, never from here, so that
    /// a server that fails at once cannot make the stack grow.
    pub(super) fn fail(&mut self, index: usize, failure: Failure) {
        let now = self.clock.now();
        self.close(index);
        let slot = &mut self.slots[index];
        slot.connection.exchange.finished = now;
        let refused = matches!(failure, Failure::Connect(_));
        let in_vain = refused || slot.phase == Phase::Connecting;
        let server = &mut self.servers[slot.endpoint];
        let addresses = self.plan.endpoints[slot.endpoint].addresses.len();
        let another_address = refused && !server.answered && server.address + 1 < addresses;
        let verdict = if another_address {
            server.address += 1;
            Verdict::Retry
        } else {
            self.observer.failed(failure, &slot.connection.exchange)
        };
        let pause = if in_vain && !another_address { nanoseconds(self.plan.connect_pause) } else { 0 };
        let until = now.saturating_add(pause);
        match verdict {
            Verdict::Abort => {
                slot.phase = Phase::Closing;
                self.ended = Some(Ended::Observer);
            }
            Verdict::Count if self.open.is_some() => self.release(index, now),
            Verdict::Count => self.rest(index, until),
            Verdict::Retry => {
                slot.phase = Phase::Paused { until };
                self.timers.push(Reverse((until, index)));
            }
        }
    }

    /// The first connection has shown that somebody is there.
    fn start_others(&mut self) {
        self.probing = false;
        let now = self.clock.now();
        for index in 1..self.slots.len() {
            self.begin_slot(index, now);
        }
    }

    /// Goes on with slots whose pause is over.
    pub(super) fn resume(&mut self, now: u64) {
        while let Some(Reverse((at, index))) = self.timers.peek().copied()
            && at <= now
            && self.ended.is_none()
        {
            self.timers.pop();
            match self.slots[index].phase {
                Phase::Resting { until } if until <= now => self.go_on(index, now),
                Phase::Paused { until } if until <= now && self.slots[index].refusals > 0 => self.connect(index),
                Phase::Paused { until } if until <= now => self.repeat_request(index, now),
                _ => {}
            }
        }
    }

    /// Ends requests that have had their time.
    pub(super) fn sweep(&mut self, now: u64) {
        let Timeout::Exchange(limit) = self.plan.timeout else { return };
        let limit = nanoseconds(limit);
        for index in 0..self.slots.len() {
            if self.ended.is_some() {
                return;
            }
            let exchange = &self.slots[index].connection.exchange;
            match self.slots[index].phase {
                Phase::Connecting | Phase::Sending | Phase::Receiving
                    if now.saturating_sub(exchange.started) > limit =>
                {
                    self.fail(index, Failure::Timeout);
                }
                Phase::Closing if now.saturating_sub(exchange.finished) > limit => {
                    self.close(index);
                    self.next(index);
                }
                _ => {}
            }
        }
    }
}
