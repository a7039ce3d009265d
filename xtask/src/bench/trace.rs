//! What strace wrote: how many system calls a server made of its own accord. Waits that ended because time passed are left
//! out, as are those that a signal broke off, so that the count does not depend on how fast the machine is.

/// Calls of a trace (`strace -f -o`), each line of which begins with the number of a thread.
pub fn calls(trace: &str) -> u64 {
    trace.lines().filter(|line| is_call(line)).count() as u64
}

fn is_call(line: &str) -> bool {
    let Some((_, rest)) = line.split_once(' ') else { return false };
    let rest = rest.trim_start();
    // Signals and ends of processes; the first half of a call whose second half follows.
    if rest.starts_with("---") || rest.starts_with("+++") || rest.ends_with("<unfinished ...>") {
        return false;
    }
    let Some((call, result)) = rest.rsplit_once(" = ") else { return false };
    let interrupted = ["EINTR", "ERESTART", "ETIME"].iter().any(|error| result.contains(error));
    !interrupted && !has_timed_out(call, result)
}

/// Whether it is a wait for readiness that returned with nothing, unless it was one that only looks (timeout 0).
fn has_timed_out(call: &str, result: &str) -> bool {
    let waits = call.contains("epoll_wait") || call.contains("epoll_pwait");
    waits && result.trim() == "0" && !call.trim_end().trim_end_matches(')').ends_with(", 0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_from_signals_and_timeouts() {
        for (line, counts) in [
            ("12 recvfrom(5, \"\"..., 8192, 0, NULL, NULL) = 76", true),
            ("12 accept4(3, NULL, NULL, SOCK_CLOEXEC) = -1 EAGAIN (Resource temporarily unavailable)", true),
            ("12 epoll_wait(7, [{events=EPOLLIN, data=0x1}], 1024, 100) = 1", true),
            ("12 epoll_wait(7, [], 1024, 100)     = 0", false),
            ("12 epoll_wait(7, [], 1024, 0) = 0", true),
            ("12 epoll_wait(7,  <unfinished ...>", false),
            ("12 <... epoll_wait resumed>[], 1024, 100) = 0", false),
            ("12 <... futex resumed>)              = 0", true),
            ("12 futex(0x7f, FUTEX_WAIT_BITSET) = -1 ETIMEDOUT (Connection timed out)", false),
            ("12 io_uring_enter(7, 1, 1, 0) = -1 ETIME (Timer expired)", false),
            ("12 epoll_wait(7, [], 1024, -1) = -1 EINTR (Interrupted system call)", false),
            ("12 --- SIGCONT {si_signo=SIGCONT} ---", false),
            ("12 +++ exited with 0 +++", false),
        ] {
            assert_eq!(calls(line), u64::from(counts), "{line}");
        }
    }
}
