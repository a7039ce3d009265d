//! How many connections are accepted from a listening socket before other things are looked at again.
//!
//! The call that finds none waiting costs nearly as much as one that succeeds, and so does a turn for each connection
//! where many wait. So as many are taken as were there lately, and one more only after it was worth the try often enough.

/// Connections accepted at a time, at most.
const AT_ONCE_MAX: u32 = 16;
/// Turns in which all were taken that were wanted, before more are wanted: doubled for each failure up to this.
const PATIENCE_MAX: u32 = 64;

/// The number for one socket, which follows what comes.
#[derive(Debug)]
pub(crate) struct Appetite {
    at_once: u32,
    patience: u32,
    successes: u32,
    /// More are wanted than were there before.
    tries: bool,
}

impl Default for Appetite {
    fn default() -> Appetite {
        Appetite { at_once: 1, patience: 1, successes: 0, tries: false }
    }
}

impl Appetite {
    /// How many connections to accept now.
    pub fn at_once(&self) -> u32 {
        self.at_once
    }

    /// All of them were there.
    pub fn satisfied(&mut self) {
        self.successes += 1;
        if std::mem::take(&mut self.tries) {
            self.patience = 1.max(self.patience / 2);
        }
        if self.successes >= self.patience {
            self.successes = 0;
            self.at_once = AT_ONCE_MAX.min(self.at_once * 2);
            self.tries = true;
        }
    }

    /// There were `accepted` and no more.
    pub fn left_hungry(&mut self, accepted: u32) {
        self.at_once = accepted.max(1);
        self.patience = PATIENCE_MAX.min(self.patience * 2);
        (self.successes, self.tries) = (0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls of accept in so many turns with so many connections waiting in each, and how many they got.
    fn accept(appetite: &mut Appetite, turns: u32, waiting: u32) -> (u32, u32) {
        let (mut calls, mut got) = (0, 0);
        for _ in 0..turns {
            let wanted = appetite.at_once();
            got += wanted.min(waiting);
            calls += wanted.min(waiting + 1);
            if wanted <= waiting { appetite.satisfied() } else { appetite.left_hungry(waiting) }
        }
        (calls, got)
    }

    #[test]
    fn few_calls_are_in_vain_and_a_crowd_is_let_in_soon() {
        let mut appetite = Appetite::default();
        for (turns, waiting, calls_max, got_min) in
            [(10_000, 1, 10_320, 10_000), (300, 50, 4_800, 2_400), (10_000, 3, 30_400, 29_000)]
        {
            let (calls, got) = accept(&mut appetite, turns, waiting);
            assert!(calls <= calls_max && got >= got_min, "{waiting} waiting: {calls} calls, {got} got");
        }
    }
}
