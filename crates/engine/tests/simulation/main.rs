//! The life of connections, simulated: a hundred thousand conversations of all kinds of requests, each made of a seed. What
//! each request is answered is known beforehand ([`conversation`]). Then the same conversation is cut anywhere on its way in
//! and out, at times broken off, and must be answered in the same bytes, or in the first of them.
//!
//! A failure tells its seed; `MANIFOLD_SEED=4711 cargo test -p manifold-engine --test simulation` runs that one alone.

#![expect(clippy::unwrap_used, reason = "a test fails where its set-up does")]

mod answers;
mod conversation;

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use manifold_engine::memory::{Input, MemoryHost, MemoryTransport, Output};
use manifold_engine::serve::{Conn, serve};
use manifold_engine::site::Site;
use manifold_engine::transport::{Host, Next};

use answers::Answer;
use conversation::{Conversation, Ends};

/// Seeds of a run, in so many tests as there are, which run side by side.
const SEEDS: u64 = 100_000;
const TESTS: u64 = 4;

/// Turns that one conversation may take: more than it has bytes.
const TURNS_MAX: usize = 1_000_000;

/// A small generator of reproducible choices (SplitMix64).
pub struct Choices(u64);

impl Choices {
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    /// One of several.
    pub fn of<T: Copy>(&mut self, several: &[T]) -> T {
        several[self.below(several.len())]
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

#[test]
fn first_quarter() {
    run(0);
}

#[test]
fn second_quarter() {
    run(1);
}

#[test]
fn third_quarter() {
    run(2);
}

#[test]
fn fourth_quarter() {
    run(3);
}

/// Every seed that leaves this rest, or the one that was asked for.
fn run(rest: u64) {
    let site = conversation::site();
    match std::env::var("MANIFOLD_SEED") {
        Ok(seed) => one(&site, seed.parse().expect("MANIFOLD_SEED is a number")),
        Err(_) => (0..SEEDS).filter(|seed| seed % TESTS == rest).for_each(|seed| one(&site, seed)),
    }
}

/// One conversation: whole, in pieces, and broken off.
fn one(site: &Site, seed: u64) {
    let mut choices = Choices(seed);
    let conversation = Conversation::new(&mut choices);
    let fail = |what: &str, said: &[u8]| -> ! {
        let asked = String::from_utf8_lossy(&conversation.bytes);
        panic!("seed {seed}: {what}\n--- asked\n{asked}\n--- answered\n{}", String::from_utf8_lossy(said));
    };
    let mut io = MemoryTransport::new([Input::Bytes(conversation.bytes.clone())]);
    let (whole, next) = talk(site, &mut io, &mut choices);
    let answers = answers::read(&whole, &conversation).unwrap_or_else(|error| fail(&error, &whole));
    if let Err(error) = conversation.check(&answers) {
        fail(&error, &whole);
    }
    let left = next.map_err(|error| error.kind());
    let expected = match conversation.ends {
        Ends::Open => left == Ok(Next::KeepAlive),
        Ends::Closed => matches!(left, Ok(Next::Close | Next::Linger)),
        Ends::Refused => left == Ok(Next::Linger),
    };
    if !expected {
        fail(&format!("the connection is left as {left:?}, and should be {:?}", conversation.ends), &whole);
    }
    let mut io = cut(&conversation.bytes, &mut choices);
    let (said, next) = talk(site, &mut io, &mut choices);
    if answers::read(&said, &conversation).as_ref() != Ok(&answers) || next.is_err() {
        fail(&format!("answered differently in pieces, and left as {next:?}"), &said);
    }
    let mut io = cut(&conversation.bytes, &mut choices);
    let timed_out = break_off(&mut io, &mut choices);
    let (said, _) = talk(site, &mut io, &mut choices);
    if let Err(error) = is_first_part(&said, &answers, &conversation, timed_out) {
        fail(&error, &said);
    }
}

/// Everything the engine says on a connection, and how it leaves it. Time goes by while it waits, for less than a second in
/// all, so that every answer has the same date.
fn talk(site: &Site, io: &mut MemoryTransport, choices: &mut Choices) -> (Vec<u8>, io::Result<Next>) {
    let host = MemoryHost::default();
    let mut conn = Conn::new(([192, 0, 2, 1], 4711).into());
    loop {
        let next = live(serve(io, &mut conn, site, &host), &host, choices);
        if let Some(by) = io.latest_deadline {
            assert!(by <= latest(site, &host), "something is waited for longer than any timeout");
        }
        let more = io.input.iter().any(|input| matches!(input, Input::Bytes(_)));
        if !matches!(next, Ok(Next::KeepAlive)) || !more {
            return (std::mem::take(&mut io.sent), next);
        }
    }
}

/// Polls to the end.
fn live<F: Future>(future: F, host: &MemoryHost, choices: &mut Choices) -> F::Output {
    let mut future = pin!(future);
    for _ in 0..TURNS_MAX {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        host.advance(Duration::from_micros(choices.below(100) as u64));
    }
    panic!("the engine waits for ever");
}

/// No deadline may lie behind this one.
fn latest(site: &Site, host: &MemoryHost) -> Instant {
    let timeouts = site.read_timeouts;
    host.turn().now + site.timeout.max(timeouts.header.timeout).max(timeouts.body.timeout)
}

/// The bytes arrive in pieces, and the peer takes what is sent in pieces.
fn cut(bytes: &[u8], choices: &mut Choices) -> MemoryTransport {
    let mut io = MemoryTransport::default();
    let largest = choices.of(&[1, 3, 40, 400, 4000]);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(1 + choices.below(rest.len().min(largest)));
        io.input.push_back(Input::Bytes(now.to_vec()));
        if choices.once_in(3) {
            io.input.push_back(Input::Pending);
        }
        rest = later;
    }
    let largest = choices.of(&[20, 300, 3000]);
    for _ in 0..choices.below(100) {
        io.output.push_back(if choices.once_in(3) {
            Output::Pending
        } else {
            Output::Take(1 + choices.below(largest))
        });
    }
    io
}

/// Something ends the conversation early; tells whether it is time.
fn break_off(io: &mut MemoryTransport, choices: &mut Choices) -> bool {
    let at = choices.below(io.input.len());
    match choices.below(4) {
        0 => io.input.truncate(at),
        1 => io.input[at] = Input::Reset,
        2 => {
            io.input[at] = Input::Timeout;
            io.input.truncate(at + 1);
            return true;
        }
        _ => {
            let at = choices.below(io.output.len() + 1);
            io.output.insert(at, choices.of(&[Output::Broken, Output::Timeout]));
        }
    }
    false
}

/// Whether what was said is the first part of all answers. Where time ran out, the last word may be 408.
fn is_first_part(said: &[u8], answers: &[Answer], conversation: &Conversation, timed_out: bool) -> Result<(), String> {
    let (mut complete, unfinished) = answers::read_first(said, conversation);
    if timed_out && complete.last().is_some_and(|answer| answer.status == 408) {
        complete.pop();
    }
    if !answers.starts_with(&complete) {
        return Err("a conversation that was broken off was answered differently".to_owned());
    }
    let next = answers.get(complete.len()).map(|answer| answer.bytes.as_slice()).unwrap_or_default();
    if !next.starts_with(&unfinished) && !answers::CONTINUE.starts_with(&unfinished) {
        return Err("the last answer, which is not whole, began differently".to_owned());
    }
    Ok(())
}
