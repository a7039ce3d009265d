//! What the end of a child means for the others, pure: one table of how it ended, and what the parent is to do.

use manifold_sys::process::Ended;

use crate::child::{EXIT_FATAL, EXIT_SICK, EXIT_WELL};

/// Children that died by a fault are replaced at once up to this many in a row; the next waits for a look at the spares.
const REPLACED_AT_ONCE_MAX: u32 = 3;
/// Children that lack a resource before any was ever well, after which the generation is given up even though more
/// are starting.
const SICK_BEFORE_WELL_MAX: u32 = 8;

/// What is remembered of the children of one generation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Health {
    replaced_in_a_row: u32,
    one_was_well: bool,
    sick_before_well: u32,
}

/// The end of one child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Status or signal.
    pub how: Ended,
    /// Whether it belonged to the generation that serves now.
    pub is_current: bool,
    /// Whether it had begun to accept connections.
    pub was_well: bool,
    /// Whether it was on its way out: asked to end, or done with its connections.
    pub was_quiescing: bool,
    /// Whether another child of its generation is still starting.
    pub others_start: bool,
    /// Whether another child of its generation accepts connections.
    pub others_are_well: bool,
}

/// What the end of a child means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was asked to end, or had served enough (`MaxConnectionsPerChild`): nothing to tell. Spares are looked at as ever,
    /// and at once where it leaves nobody behind.
    Well,
    /// It was on its way out, or of an old generation, and died by a fault: told (AH00051, AH00052), nothing else.
    Died,
    /// A fault ended it: told (AH00051, AH00052), and replaced at once.
    Replace,
    /// The same, once more in a row than is replaced at once (AH10392, AH10393): the next look replaces it.
    DiedInARow,
    /// It died as it started, and the next would do so again: told, growth is slow.
    DiedStarting,
    /// It lacked a resource (status 7, `APEXIT_CHILDSICK`): told, growth is slow.
    Sick,
    /// The same, and no child ever was well (AH02324, AH02325): the generation fails.
    NeverWell,
    /// It can never work (status 15, `APEXIT_CHILDFATAL`; AH00050): the server stops.
    Fatal,
    /// The same of an old generation (AH00166, AH00290, AH00487): the one that serves now has nothing to do with it.
    FatalIgnored,
}

impl Verdict {
    /// Whether the generation cannot go on.
    pub fn fails(self) -> bool {
        matches!(self, Verdict::Fatal | Verdict::NeverWell)
    }

    /// Whether more children would only make it worse.
    pub fn slows_growth(self) -> bool {
        matches!(self, Verdict::Sick | Verdict::DiedStarting)
    }

    /// Whether one child is forked for it at once.
    pub fn asks_replacement(self) -> bool {
        self == Verdict::Replace
    }

    /// Whether a set of listening sockets that is left without a child gets one at once.
    pub fn may_leave_a_gap(self) -> bool {
        matches!(self, Verdict::Well | Verdict::Died | Verdict::Replace)
    }
}

impl Health {
    /// A second has passed, or a child was seen to accept (`one_is_well`).
    pub fn tick(&mut self, one_is_well: bool) {
        self.replaced_in_a_row = 0;
        self.one_was_well |= one_is_well;
    }

    /// What the end of a child means.
    pub fn verdict(&mut self, end: End) -> Verdict {
        let End { how, is_current, was_well, was_quiescing, others_start, others_are_well } = end;
        self.one_was_well |= was_well || others_are_well;
        match how {
            Ended::Exit(EXIT_FATAL) if is_current => Verdict::Fatal,
            Ended::Exit(EXIT_FATAL) => Verdict::FatalIgnored,
            Ended::Exit(EXIT_SICK) if is_current => self.sick(others_start),
            Ended::Exit(EXIT_SICK) => Verdict::Sick,
            Ended::Exit(EXIT_WELL) => Verdict::Well,
            _ if !is_current || was_quiescing => Verdict::Died,
            _ if !was_well => Verdict::DiedStarting,
            _ if self.replaced_in_a_row >= REPLACED_AT_ONCE_MAX => Verdict::DiedInARow,
            _ => {
                self.replaced_in_a_row += 1;
                Verdict::Replace
            }
        }
    }

    /// Where others are still starting their word is awaited, but not for ever.
    fn sick(&mut self, others_start: bool) -> Verdict {
        if self.one_was_well {
            return Verdict::Sick;
        }
        self.sick_before_well += 1;
        let is_hopeless = !others_start || self.sick_before_well >= SICK_BEFORE_WELL_MAX;
        if is_hopeless { Verdict::NeverWell } else { Verdict::Sick }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Died, DiedInARow, DiedStarting, Fatal, FatalIgnored, NeverWell, Replace, Sick, Well};

    const SERVING: End = End {
        how: Ended::Signal(11),
        is_current: true,
        was_well: true,
        was_quiescing: false,
        others_start: false,
        others_are_well: false,
    };
    const STARTING: End = End { was_well: false, ..SERVING };
    const LEAVING: End = End { was_quiescing: true, ..SERVING };
    const OLD: End = End { is_current: false, ..SERVING };

    fn by(how: Ended, end: End) -> End {
        End { how, ..end }
    }

    #[track_caller]
    fn check(ends: &[(End, Verdict)]) {
        let mut health = Health::default();
        for (number, (end, expected)) in ends.iter().enumerate() {
            assert_eq!(health.verdict(*end), *expected, "end {number}: {end:?}");
        }
    }

    #[test]
    fn each_end_has_its_verdict() {
        let exit = Ended::Exit;
        for (end, expected) in [
            (by(exit(0), SERVING), Well),
            (by(exit(0), LEAVING), Well),
            (by(exit(0), OLD), Well),
            (SERVING, Replace),
            (by(exit(101), SERVING), Replace),
            (by(exit(1), SERVING), Replace),
            (STARTING, DiedStarting),
            (by(exit(101), STARTING), DiedStarting),
            (LEAVING, Died),
            (OLD, Died),
            (by(exit(15), STARTING), Fatal),
            (by(exit(15), SERVING), Fatal),
            (by(exit(15), OLD), FatalIgnored),
            (by(exit(7), STARTING), NeverWell),
            (by(exit(7), End { others_start: true, ..STARTING }), Sick),
            (by(exit(7), End { others_are_well: true, ..STARTING }), Sick),
            (by(exit(7), SERVING), Sick),
            (by(exit(7), OLD), Sick),
        ] {
            check(&[(end, expected)]);
        }
    }

    #[test]
    fn three_in_a_row_are_replaced_at_once() {
        check(&[
            (SERVING, Replace),
            (SERVING, Replace),
            (SERVING, Replace),
            (SERVING, DiedInARow),
            (SERVING, DiedInARow),
        ]);
        let mut health = Health::default();
        for _ in 0..4 {
            health.verdict(SERVING);
        }
        health.tick(true);
        assert_eq!(health.verdict(SERVING), Replace);
    }

    #[test]
    fn one_that_was_well_pardons_the_sick() {
        let sick = by(Ended::Exit(7), STARTING);
        check(&[(by(Ended::Exit(0), SERVING), Well), (sick, Sick), (sick, Sick)]);
        let mut health = Health::default();
        health.tick(true);
        assert_eq!(health.verdict(sick), Sick);
    }

    #[test]
    fn sick_children_are_given_up_though_more_are_starting() {
        let sick = by(Ended::Exit(7), End { others_start: true, ..STARTING });
        check(&[[(sick, Sick); 7].as_slice(), &[(sick, NeverWell)]].concat());
    }
}
