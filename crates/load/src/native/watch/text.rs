//! The figures of a run in few characters, and a line of them.

use std::time::Duration;

use super::standing::{Figures, LAST};
use crate::native::summary::trouble;

/// Microseconds: `850 us`, `1.23 ms`, `45.6 ms`, `123 ms`, `1.23 s`.
pub fn time(us: u64) -> String {
    let (value, unit) = match us {
        0..1000 => return format!("{us} us"),
        1000..1_000_000 => (us as f64 / 1e3, "ms"),
        _ => (us as f64 / 1e6, "s"),
    };
    // From 9.995 on, three digits would be rounded up to four.
    let digits = match value {
        _ if value < 9.995 => 2,
        _ if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// `4.2 s`, `59 s`, `1:05 min`, `2:05:09 h`.
pub fn clock(duration: Duration) -> String {
    let s = duration.as_secs();
    match s {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{s} s"),
        60..3600 => format!("{}:{:02} min", s / 60, s % 60),
        _ => format!("{}:{:02}:{:02} h", s / 3600, s / 60 % 60, s % 60),
    }
}

/// Requests a second: one digit behind the point below 100.
pub fn rate(rate: f64) -> String {
    if rate < 99.95 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

/// How far it has come, in words.
pub fn progress(figures: &Figures) -> String {
    let left = match figures.left {
        Some(left) if figures.done < 1.0 => format!(", {} left", clock(left)),
        _ => String::new(),
    };
    format!("{:.0} %, {} for {}{left}", (figures.done * 100.0).floor(), figures.phase, clock(figures.elapsed))
}

/// The rate, and the one that was asked for.
pub fn reached(figures: &Figures) -> String {
    let asked = figures.asked.map(|asked| format!(" of {}", rate(asked))).unwrap_or_default();
    format!("{}{asked} /s", rate(figures.rate[0]))
}

/// What went wrong, in words.
pub fn errors(figures: &Figures) -> String {
    let said = trouble(&figures.errors, figures.wrong);
    if said.is_empty() { "no errors".to_owned() } else { format!("errors: {said}") }
}

/// All of it in one line.
pub fn line(figures: &Figures) -> String {
    let latency = figures.latency[0].map(|latency| {
        let [p50, p99, max] = [latency.p50, latency.p99, latency.max].map(time);
        format!("; last {LAST} s: p50 {p50}, p99 {p99}, max {max}")
    });
    format!("{}; {}{}; {}", progress(figures), reached(figures), latency.unwrap_or_default(), errors(figures))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let check = |text: String, expected: &str| assert_eq!(text, expected);
        check(time(0), "0 us");
        check(time(999), "999 us");
        check(time(1234), "1.23 ms");
        check(time(9994), "9.99 ms");
        check(time(9995), "10.0 ms");
        check(time(99_950), "100 ms");
        check(time(1_234_567), "1.23 s");
        check(time(86_400_000_000), "86400 s");
        check(clock(Duration::from_millis(4210)), "4.2 s");
        check(clock(Duration::from_millis(59_999)), "59 s");
        check(clock(Duration::from_secs(65)), "1:05 min");
        check(clock(Duration::from_secs(7509)), "2:05:09 h");
        check(rate(0.5), "0.5");
        check(rate(99.95), "100");
        check(rate(123_456.7), "123457");
    }
}
