//! Times, rates and shares as people write them on command lines and in plan files.

use std::time::Duration;

/// The longest time anybody may ask for, seconds: a week.
pub const SECONDS_MAX: f64 = 604_800.0;
/// Requests a second at most.
pub const RATE_MAX: f64 = 10_000_000.0;

/// A time: seconds with a fraction, or with `us`, `ms`, `s`, `min` or `h` behind; at most a week.
pub fn duration(given: &str) -> Option<Duration> {
    let digits = given.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len();
    let (number, unit) = given.split_at(digits);
    let unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * unit;
    (0.0..=SECONDS_MAX).contains(&seconds).then(|| Duration::from_nanos((seconds * 1e9).round() as u64))
}

/// Requests a second, from 0 on; `/s`, `/min` or `/h` may follow.
pub fn rate(given: &str) -> Option<f64> {
    let (number, unit) = given.split_once('/').unwrap_or((given, "s"));
    let seconds = match unit {
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let rate = number.parse::<f64>().ok()? / seconds;
    (0.0..=RATE_MAX).contains(&rate).then_some(rate)
}

/// A part of all: `10%` or `0.1`.
pub fn share(given: &str) -> Option<f64> {
    let share = match given.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok()? / 100.0,
        None => given.parse().ok()?,
    };
    (0.0..=1.0).contains(&share).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_rates_and_shares() {
        let us = |given: &str| duration(given).map(|duration| duration.as_micros());
        for (given, expected) in
            [("5ms", 5000), ("20us", 20), ("1.5", 1_500_000), ("2s", 2_000_000), ("1min", 60_000_000)]
        {
            assert_eq!(us(given), Some(expected), "{given}");
        }
        assert!(["", "ms", "5 ms", "5d", "-1", "nan", "inf", "169h"].iter().all(|wrong| duration(wrong).is_none()));
        assert_eq!(
            (rate("250"), rate("30/min"), rate("36/h"), rate("1/s")),
            (Some(250.0), Some(0.5), Some(0.01), Some(1.0))
        );
        assert!(["", "x", "1/day", "-1", "1e9"].iter().all(|wrong| rate(wrong).is_none()));
        assert_eq!((share("10%"), share("0.25"), share("101%"), share("2")), (Some(0.1), Some(0.25), None, None));
    }
}
