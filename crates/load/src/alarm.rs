//! Waking up in time: how long to sleep before a moment that must not be missed, learnt from how late the system wakes us.
//!
//! A sleeping thread is woken 20 to 100 microseconds late, more in a virtual machine. Whoever has to act within a few microseconds sleeps
//! less than there is time for, and asks again and again for what is left.

/// The margin is never longer, nanoseconds: what is spent awake before each moment is bounded.
pub const MARGIN_MAX_NS: u64 = 150_000;
/// It begins here.
const MARGIN_FIRST_NS: u64 = 80_000;
/// A margin that was too long shrinks by this part of the excess at each waking.
const SHRINK: u64 = 32;

/// How late the system wakes this thread, as a margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    margin: u64,
}

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm { margin: MARGIN_FIRST_NS }
    }
}

impl Alarm {
    /// How long to sleep at `now` for a moment at `until`, both nanoseconds; 0: not at all, stay awake.
    pub fn sleep(&self, now: u64, until: u64) -> u64 {
        until.saturating_sub(now).saturating_sub(self.margin)
    }

    /// A sleep that was to end at `planned` ended at `now`, by itself.
    pub fn woke(&mut self, planned: u64, now: u64) {
        let late = now.saturating_sub(planned);
        if late > self.margin {
            self.margin = (late + late / 4).min(MARGIN_MAX_NS);
        } else {
            self.margin -= (self.margin - late) / SHRINK;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_system_is_met_by_an_earlier_alarm() {
        let mut alarm = Alarm::default();
        assert_eq!(alarm.sleep(0, 1_000_000), 920_000);
        assert_eq!((alarm.sleep(0, 80_000), alarm.sleep(5, 4)), (0, 0), "no time to sleep");
        alarm.woke(1000, 101_000);
        assert_eq!(alarm.sleep(0, 1_000_000), 875_000, "a quarter more than it was late");
        alarm.woke(0, 5_000_000);
        assert_eq!(alarm.sleep(0, 1_000_000), 1_000_000 - MARGIN_MAX_NS, "but not for ever awake");
        for _ in 0..200 {
            alarm.woke(0, 20_000);
        }
        let margin = 1_000_000 - alarm.sleep(0, 1_000_000);
        assert!((20_000..22_000).contains(&margin), "{margin}");
    }
}
