//! Ending processes that may not want to: TERM, again and again, then KILL, then nothing more (Apache's
//! `ap_reclaim_child_processes`). Pure: time is an argument.

use std::time::{Duration, Instant};

use manifold_sys::signal::Signal;

/// What is done after so many seconds, in order.
const STEPS: [(u64, Step); 6] = [
    (0, Step::Send(Signal::SIGTERM)),
    (3, Step::Send(Signal::SIGTERM)),
    (5, Step::Send(Signal::SIGTERM)),
    (7, Step::Send(Signal::SIGTERM)),
    (9, Step::Send(Signal::SIGKILL)),
    (10, Step::GiveUp),
];

/// A step of the escalation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Every process that is left is sent this signal.
    Send(Signal),
    /// What is left does not react even to KILL.
    GiveUp,
}

/// How far the escalation has got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Escalation {
    since: Instant,
    done: usize,
}

impl Escalation {
    /// What it takes at most.
    pub const LONGEST: Duration = Duration::from_secs(STEPS[STEPS.len() - 1].0);

    /// It begins; the first step is due at once.
    pub fn begin(now: Instant) -> Escalation {
        Escalation { since: now, done: 0 }
    }

    /// The step that is due at `now`; steps that were missed are skipped. Whether it is a first signal or a reminder tells
    /// the second value.
    pub fn due(&mut self, now: Instant) -> Option<(Step, bool)> {
        let passed = now.saturating_duration_since(self.since);
        let due = STEPS.iter().rposition(|(seconds, _)| passed >= Duration::from_secs(*seconds))?;
        let first = self.done == 0;
        (due >= self.done).then(|| {
            self.done = due + 1;
            (STEPS[due].1, first)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_apaches() {
        let start = Instant::now();
        let mut escalation = Escalation::begin(start);
        let steps: Vec<_> = (0..140)
            .filter_map(|tenth| {
                let (step, _) = escalation.due(start + Duration::from_millis(tenth * 100))?;
                Some((tenth / 10, step))
            })
            .collect();
        assert_eq!(steps, STEPS);
    }

    #[test]
    fn missed_steps_are_not_made_up_for() {
        let start = Instant::now();
        let mut escalation = Escalation::begin(start);
        let mut at = |seconds| escalation.due(start + Duration::from_secs(seconds)).map(|(step, _)| step);
        assert_eq!(at(6), Some(Step::Send(Signal::SIGTERM)));
        assert_eq!(at(6), None);
        assert_eq!(at(60), Some(Step::GiveUp));
        assert_eq!(at(61), None);
    }
}
