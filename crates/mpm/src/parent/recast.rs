//! A configuration that is refused may have added sockets to an address: the kernel gave them connections from the moment
//! they listened, and would reset those if they were closed. So they stay, and the configuration that goes on gets a new
//! generation that accepts from them as well.

use std::time::{Duration, Instant};

use super::{Incoming, Parent, Phase};
use crate::ledger::Reload;
use crate::line::{COMES_UP_WITHIN, Line};
use crate::listeners::Listeners;
use crate::server;
use crate::system::System;

/// An attempt that failed, as when forks fail, is repeated after so long; connections wait meanwhile.
const TRY_AGAIN: Duration = Duration::from_secs(10);

impl<S: System> Parent<S> {
    /// Keeps those of `refused`'s sockets that would be missed.
    pub(super) fn keep_sockets_of(&mut self, refused: Listeners, now: Instant) {
        if self.listeners.adopt(refused) {
            self.recast_at = Some(now);
        }
    }

    /// The same configuration anew on all sockets, where that is due and nothing else comes up.
    pub(super) fn recast(&mut self, now: Instant) {
        let is_due = self.recast_at.is_some_and(|at| now >= at);
        let is_free = self.incoming.is_none() && self.succession.is_none() && matches!(self.phase, Phase::Serving);
        if !is_due || !is_free {
            return;
        }
        self.recast_at = Some(now + TRY_AGAIN);
        let next = self.listeners.try_clone().and_then(|listeners| {
            let (old, others) = (&self.current.generation, self.boards().collect());
            let generation = server::again(self.generations + 1, old, &listeners, &self.ledger, others)?;
            Ok((listeners, generation))
        });
        let (listeners, generation) = match next {
            Ok(next) => next,
            Err(error) => return self.current.messages.cannot_recast(&error.to_string()),
        };
        self.generations += 1;
        let mut line = Line::new(generation, now);
        line.follows_a_reload();
        line.start(self.current.busy(), &mut self.system);
        let (restart, give_up_at) = (Reload::Graceful, now + COMES_UP_WITHIN);
        self.incoming = Some(Incoming { line, listeners, restart, give_up_at, is_recast: true });
    }
}
