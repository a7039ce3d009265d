//! The system's monotonic clock as other programs read it, which the standard library keeps to itself.

/// Microseconds of `CLOCK_MONOTONIC`: since some moment of the machine's start, the same for all processes.
pub fn monotonic_microseconds() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, to which the pointer is valid. It cannot fail: the clock exists everywhere.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_clock_of_everybody() {
        let before = monotonic_microseconds();
        // The kernel's own view; both count from the start where the machine never slept.
        assert!(before > 0 && monotonic_microseconds() >= before);
    }
}
