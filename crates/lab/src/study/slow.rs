//! Cells of slow clients: how many of a kind a server holds while a normal client beside them is still answered within a second.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::interrupt::Interrupt;
use crate::server::Server;
use crate::slow_test::holders::{Holders, Wanted};
use crate::slow_test::kind::Kind;
use crate::slow_test::probe::{Outcome, Times, probe};

/// A normal client must have its answer within this time.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);
/// Clients may take this long to arrive.
const ARRIVE_WITHIN: Duration = Duration::from_secs(5);
/// Normal clients that ask. The first that has no answer in time decides.
const TIMES: Times = Times {
    count: 10,
    every: Duration::from_millis(50),
    one_by_one: false,
    within: ANSWERED_WITHIN,
    until_one_fails: true,
};
/// After the clients have left, until the next cell: their connections end.
const SETTLE: Duration = Duration::from_millis(300);
/// What a number of clients takes, for the estimate, seconds.
pub const STEP_S: f64 = 1.5;

/// Where slow clients come from.
#[derive(Debug)]
pub struct Place<'a> {
    /// This binary.
    pub manifold: &'a Path,
    /// Ends it early.
    pub interrupt: &'a Interrupt,
}

impl Place<'_> {
    /// The largest of these ascending numbers of clients beside which every normal one was answered in time, 0 if not even the first was;
    /// the first that fails ends the search. `None` if it was interrupted.
    ///
    /// # Errors
    /// If clients cannot be started.
    pub fn most_held(&self, server: &Server, kind: Kind, numbers: &[u32], page: &[u8]) -> Result<Option<u32>> {
        let mut most = 0;
        for &number in numbers {
            let held = self.holds(server, kind, number as usize, page)?;
            std::thread::sleep(SETTLE);
            match held {
                None => return Ok(None),
                Some(true) => most = number,
                Some(false) => break,
            }
        }
        Ok(Some(most))
    }

    fn holds(&self, server: &Server, kind: Kind, clients: usize, page: &[u8]) -> Result<Option<bool>> {
        let wanted = Wanted { port: server.port, kind, clients, within: ARRIVE_WITHIN };
        let interrupted = || self.interrupt.came();
        let mut holders = Holders::start(self.manifold, &wanted, clients)?;
        let arrived = holders.wait_open(&wanted, interrupted)?.connected == clients;
        let outcomes = probe(&[server.port], page, TIMES, interrupted).context("cannot ask as a normal client")?;
        Ok((!interrupted()).then(|| arrived && in_time(&outcomes)))
    }
}

fn in_time(outcomes: &[Outcome]) -> bool {
    outcomes.len() == TIMES.count
        && outcomes.iter().all(|outcome| outcome.is_ok_and(|us| u128::from(us) <= ANSWERED_WITHIN.as_micros()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_normal_client_must_be_answered_in_time() {
        let quick: Vec<Outcome> = vec![Ok(900); TIMES.count];
        assert!(in_time(&quick));
        for wrong in [Ok(ANSWERED_WITHIN.as_micros() as u64 + 1), Err("no answer")] {
            let mut outcomes = quick.clone();
            outcomes[3] = wrong;
            assert!(!in_time(&outcomes), "{wrong:?}");
        }
        assert!(!in_time(&quick[1..]), "one was not even made");
    }
}
