//! What a thread of prefork or worker does before it waits, so that nothing depends on when it wakes up: lines of access logs
//! that are due are written, and a child that was told to end does so, with its last lines written.
//!
//! While lines wait that are not due yet, no wait is longer than [`SLICE`]. That costs nothing under load, where waits are
//! shorter anyway: receives and sends have timeouts already, which connections inherit from the listener. A thread that wakes
//! up for the log finds the lines due or written after a few slices and then waits for as long as it likes.

use std::time::{Duration, Instant};

use manifold_engine::site::Site;
use manifold_sys::signal::{self, Signal};

/// Longest wait while lines of an access log wait to be written. `modules/src/log_config/batch.rs` counts on it.
pub(crate) const SLICE: Duration = Duration::from_millis(200);

/// Call it before a wait. Gives the longest that the wait may take, where it matters; call it again then.
pub(crate) fn before(site: &Site, now: Instant) -> Option<Duration> {
    let waiting = site.phases.settle_logs(now).map(|_| SLICE);
    signal::hold_back(waiting.is_some());
    if signal::is_told_to_end() {
        end(site);
    }
    waiting
}

/// Call it after a wait: from now on there may be lines to write.
pub(crate) fn after() {
    signal::hold_back(true);
}

/// Ends a child that was told so by TERM: at once, but with what happened written down.
pub(crate) fn end(site: &Site) -> ! {
    site.phases.flush_logs();
    signal::end_by(Signal::SIGTERM)
}
