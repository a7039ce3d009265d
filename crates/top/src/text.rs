//! Numbers and times in few characters, for people.

/// `12`, `1.2k`, `34M`.
pub fn count(n: u64) -> String {
    scaled(n as f64, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
}

/// `12 B`, `1.2 KiB`, `34 MiB`.
pub fn bytes(n: u64) -> String {
    scaled(n as f64, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

/// A rate: `0.3`, `12`, `1.2k`.
pub fn rate(n: f64) -> String {
    if n > 0.0 && n < 10.0 { format!("{n:.1}") } else { count(n.max(0.0).round() as u64) }
}

/// `0.3 s`, `12 s`, `3 min 4 s`, `2 h 5 min`, `3 d 4 h`.
pub fn time(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..10 => format!("{:.1} s", ms as f64 / 1000.0),
        10..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        3600..86400 => format!("{} h {} min", s / 3600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86400, s / 3600 % 24),
    }
}

/// What came from a client or a server, without anything that steers a terminal.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn scaled(n: f64, step: f64, units: &[&str]) -> String {
    let mut left = n;
    let mut unit = 0;
    // From 999.5 on three digits would be rounded up to four.
    while left >= step - 0.5 && unit + 1 < units.len() {
        left /= step;
        unit += 1;
    }
    if unit == 0 || left >= 9.95 { format!("{left:.0}{}", units[unit]) } else { format!("{left:.1}{}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let check = |text: String, expected: &str| assert_eq!(text, expected);
        check(count(0), "0");
        check(count(999), "999");
        check(count(1000), "1.0k");
        check(count(9_949), "9.9k");
        check(count(9_950), "10k");
        check(count(999_499), "999k");
        check(count(999_500), "1.0M");
        check(count(u64::MAX), "18E");
        check(bytes(1023), "1023 B");
        check(bytes(1536), "1.5 KiB");
        check(rate(0.0), "0");
        check(rate(0.25), "0.2");
        check(rate(1234.0), "1.2k");
        check(time(300), "0.3 s");
        check(time(59_999), "59 s");
        check(time(184_000), "3 min 4 s");
        check(time(7_500_000), "2 h 5 min");
        check(time(273_600_000), "3 d 4 h");
        check(plain("a\u{1b}[2Jb"), "a?[2Jb");
    }
}
