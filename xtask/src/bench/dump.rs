//! What callgrind wrote (its manual, "Callgrind Format Specification"): the instructions of a part of a run, and how
//! often it asked for memory.

use std::collections::HashSet;

/// The C library's functions that hand out memory, as callgrind names them.
const ALLOCATORS: &[&str] = &["malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign", "valloc"];

/// The instructions of everything in a dump.
pub fn instructions(dump: &str) -> Option<u64> {
    let total = dump.lines().find_map(|line| line.strip_prefix("totals:").or_else(|| line.strip_prefix("summary:")))?;
    total.split_whitespace().next()?.parse().ok()
}

/// How often memory was asked for. A function is named where it is first mentioned, `cfn=(12) malloc`, and numbered
/// afterwards, `cfn=(12)`; the line after says how often it was called from there, `calls=3 100`.
pub fn allocations(dump: &str) -> u64 {
    let mut allocators = HashSet::new();
    let mut called = "";
    let mut count = 0;
    for line in dump.lines() {
        if let Some(function) = line.strip_prefix("cfn=").or_else(|| line.strip_prefix("fn=")) {
            let (number, name) = function.split_once(' ').unwrap_or((function, ""));
            // A recursive call is a function of its own, `malloc'2`.
            if ALLOCATORS.contains(&name.split('\'').next().unwrap_or_default()) {
                allocators.insert(number);
            }
            if line.starts_with('c') {
                called = number;
            }
        } else if let Some(calls) = line.strip_prefix("calls=")
            && allocators.contains(called)
        {
            count += calls.split(' ').next().and_then(|calls| calls.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_found() {
        assert_eq!(instructions("events: Ir\nfn=x\n1 2\ntotals: 123456\n"), Some(123_456));
        assert_eq!(instructions("events: Ir\nsummary: 77\n"), Some(77));
        assert_eq!(instructions("events: Ir\n"), None);
    }

    #[test]
    fn calls_of_allocators_are_counted() {
        let dump = "fn=(1) main\n1 2\ncfn=(2) malloc\ncalls=3 10\n1 30\ncfn=(3) memcpy\ncalls=7 10\n1 9\n\
                    fn=(4) realloc\n5 6\nfn=(5) other\ncfn=(2)\ncalls=2 10\n1 5\ncfn=(4)\ncalls=1 10\n1 1\n";
        assert_eq!(allocations(dump), 6);
        assert_eq!(allocations("fn=(1) main\n1 2\n"), 0);
    }
}
