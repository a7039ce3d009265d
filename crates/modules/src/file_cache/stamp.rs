//! What tells one state of a file from another.

use std::time::Duration;

use manifold_sys::file::FileStatus;

/// A file changed less than this long ago is read again each time: the kernel's clock for time stamps ticks every few
/// milliseconds, and a tag that Apache would make weak then has to become strong later.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// The same on file systems that keep whole seconds, or two of them.
const SETTLED_AFTER_COARSE: Duration = Duration::from_secs(3);

/// One state of a file: the same file system, inode, size, modification and change time, owner and mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(pub(super) FileStatus);

impl Stamp {
    /// Whether the file has been left alone long enough for its time stamps to tell the next change. The change time alone
    /// decides: nobody can set it, and every change of content moves it.
    pub(super) fn settled_at(&self, wall: Duration) -> bool {
        let (seconds, nanoseconds) = self.0.changed;
        let Ok(seconds) = u64::try_from(seconds) else { return false };
        let long_enough = if nanoseconds == 0 { SETTLED_AFTER_COARSE } else { SETTLED_AFTER };
        wall.checked_sub(Duration::new(seconds, nanoseconds)).is_some_and(|age| age >= long_enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_settles_when_its_clock_has_certainly_ticked() {
        let check = |changed, wall_ms, expected| {
            let status = FileStatus { device: 0, inode: 0, size: 0, modified: (0, 0), changed, owner: 0, mode: 0 };
            assert_eq!(Stamp(status).settled_at(Duration::from_millis(wall_ms)), expected, "{changed:?} at {wall_ms}");
        };
        check((10, 1_000_000), 11_000, false);
        check((10, 1_000_000), 11_001, true);
        check((10, 0), 12_999, false);
        check((10, 0), 13_000, true);
        // A clock that was set back, and one from before there were clocks.
        check((10, 1), 9_000, false);
        check((-10, 1), 9_000, false);
    }
}
