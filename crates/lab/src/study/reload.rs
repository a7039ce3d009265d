//! Cells in which a server is reloaded under load: clients that see every loss ask it all the time, as in `lab reload-test`.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use manifold_load::outcome::{Clock, nanoseconds};
use nix::sys::signal::Signal;

use crate::interrupt::Interrupt;
use crate::reload_test::client::Clients;
use crate::reload_test::pages::Pages;
use crate::reload_test::tally::Counts;
use crate::reload_test::{END_WITHIN, IN_FORCE_WITHIN, plan};
use crate::server::Server;

/// A server that is reloaded, and by whom it is asked meanwhile.
#[derive(Debug)]
pub struct Reloads<'a> {
    /// Clients.
    pub clients: u32,
    /// They keep their connections as long as the server does.
    pub keep_alive: bool,
    /// Seconds.
    pub seconds: f64,
    /// Graceful reloads in that time, evenly spread.
    pub times: u32,
    /// What tells it to reload.
    pub signal: Signal,
    /// Its error log, where that tells of every reload.
    pub log: Option<PathBuf>,
    /// The page.
    pub page: &'a [u8],
}

impl Reloads<'_> {
    /// What became of all requests. `None` if it was interrupted.
    ///
    /// # Errors
    /// If the server ends or does not reload, or the clients cannot go on.
    pub fn measure(&self, server: &mut Server, interrupt: &Interrupt) -> Result<Option<Counts>> {
        let pages = Pages::one(self.page.to_vec());
        let number = if self.keep_alive { (self.clients as usize, 0) } else { (0, self.clients as usize) };
        let clock = Clock::since(Instant::now());
        let mut clients = Clients::new(server.port, &pages, number, clock).context("no epoll instance")?;
        let end = nanoseconds(Duration::from_secs_f64(self.seconds));
        let interval = end / u64::from(self.times);
        let before = self.logged();
        // In the middle of its interval, so that what is lost after the last one is seen too.
        let (mut done, mut next) = (0, interval / 2);
        while done < self.times || clock.now() < end {
            clients.turn()?;
            if interrupt.came() {
                return Ok(None);
            }
            if let Some(broken) = &clients.tally().broken {
                bail!("the clients cannot go on: {broken}");
            }
            if let Some(how) = server.ended() {
                bail!("it ended while it reloaded ({how})\n{}", server.last_words());
            }
            let now = clock.now();
            if done < self.times && now >= next {
                if self.in_force(before, done) {
                    server.signal(self.signal);
                    done += 1;
                    next = now + interval;
                } else if now >= next + nanoseconds(IN_FORCE_WITHIN) {
                    bail!("reload {done} did not take effect within {} s", IN_FORCE_WITHIN.as_secs());
                }
            }
        }
        clients.stop();
        let until = clock.now() + nanoseconds(END_WITHIN);
        while !clients.done() && clock.now() < until {
            clients.turn()?;
        }
        let tally = clients.tally();
        Ok(Some(tally.keep_alive.plus(&tally.closing)))
    }

    /// Whether so many reloads have taken effect, as far as that can be known.
    fn in_force(&self, before: usize, reloads: u32) -> bool {
        self.log.is_none() || self.logged() >= before + reloads as usize
    }

    /// Reloads that the error log tells of.
    fn logged(&self) -> usize {
        let log = self.log.as_ref().and_then(|log| fs::read(log).ok()).unwrap_or_default();
        plan::models_logged(&String::from_utf8_lossy(&log)).len()
    }
}
