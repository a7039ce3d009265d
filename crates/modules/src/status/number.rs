//! Numbers, sizes and times in the words of Apache's status page, which tools parse.

use jiff::Timestamp;
use jiff::tz::TimeZone;

const KBYTE: u64 = 1024;
const MBYTE: u64 = 1024 * KBYTE;
const GBYTE: u64 = 1024 * MBYTE;

/// `%g` as the Apache Portable Runtime writes it, with `digits` significant digits: no zero before the point (`.25`), and
/// powers of ten where C has them, but with as few digits as they need (`1.e+9`).
pub(super) fn general(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let scientific = format!("{:.*e}", digits.max(1) - 1, value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let figures: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let figures = match figures.trim_end_matches('0') {
        "" => "0",
        trimmed => trimmed,
    };
    let count = figures.len() as i32;
    // Digits before the point; negative where zeros follow it.
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    let sign = if value < 0.0 { "-" } else { "" };
    if point - count > 4 || point < -3 {
        let (first, rest) = figures.split_at(1);
        let (direction, power) = if point > 0 { ('+', point - 1) } else { ('-', 1 - point) };
        return format!("{sign}{first}.{rest}e{direction}{power}");
    }
    let text = if point <= 0 {
        format!(".{}{figures}", "0".repeat(point.unsigned_abs() as usize))
    } else if count > point {
        format!("{}.{}", &figures[..point as usize], &figures[point as usize..])
    } else {
        format!("{figures}{}", "0".repeat((point - count) as usize))
    };
    format!("{sign}{text}")
}

/// A number of bytes (`format_byte_out`).
pub(super) fn bytes(bytes: u64) -> String {
    if bytes < 5 * KBYTE {
        format!("{bytes} B")
    } else if bytes < MBYTE / 2 {
        format!("{:.1} kB", part(bytes, KBYTE))
    } else if bytes < GBYTE / 2 {
        format!("{:.1} MB", part(bytes, MBYTE))
    } else {
        format!("{:.1} GB", part(bytes, GBYTE))
    }
}

/// A number of kilobytes (`format_kbyte_out`).
pub(super) fn kilobytes(kilobytes: u64) -> String {
    if kilobytes < KBYTE {
        format!("{kilobytes} kB")
    } else if kilobytes < MBYTE {
        format!("{:.1} MB", part(kilobytes, KBYTE))
    } else {
        format!("{:.1} GB", part(kilobytes, MBYTE))
    }
}

/// `value` in units of `unit`, in the precision that Apache computes with.
pub(super) fn part(value: u64, unit: u64) -> f64 {
    f64::from(value as f32 / unit as f32)
}

/// A length of time, such as ` 1 day 2 hours` with the space before it; nothing for none (`show_time`).
pub(super) fn uptime(seconds: u64) -> String {
    let parts = [
        (seconds / 86_400, "day"),
        (seconds / 3_600 % 24, "hour"),
        (seconds / 60 % 60, "minute"),
        (seconds % 60, "second"),
    ];
    let some = parts.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, unit)| format!(" {count} {unit}{}", if count == 1 { "" } else { "s" })).collect()
}

/// A time of the day, such as `Saturday, 21-Nov-2026 12:48:59 UTC`.
pub(super) fn time_of_day(milliseconds: u64, zone: &TimeZone) -> String {
    let time = i64::try_from(milliseconds).ok().and_then(|time| Timestamp::from_millisecond(time).ok());
    time.unwrap_or_default().to_zoned(zone.clone()).strftime("%A, %d-%b-%Y %H:%M:%S %Z").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_portable_runtime_does() {
        let check = |value: f64, expected: &str| assert_eq!(general(value, 6), expected, "{value}");
        // Seen in pages of Apache 2.4.
        check(f64::from(3.0_f32 / 9.0), ".333333");
        check(2.25, "2.25");
        check(f64::from(8192.0_f32 / 9.0), "910.222");
        check(0.0, "0");
        check(0.06, ".06");
        check(6_840_780.4, "6840780");
        check(1_291_770.0, "1291770");
        check(1638.4, "1638.4");
        check(0.001_876_17, ".00187617");
        // At the borders.
        check(123_456_789.0, "123457000");
        check(1e9, "1.e+9");
        check(1_200_000.0, "1.2e+6");
        check(1_200_000_000.0, "1.2e+9");
        check(171_429_000.0, "171429000");
        check(1.0e7, "1.e+7");
        check(0.000_12, ".00012");
        check(0.000_012, "1.2e-5");
        check(999_999.5, "1.e+6");
        check(-2.5, "-2.5");
        check(f64::INFINITY, "0");
        assert_eq!(general(2.666_666, 3), "2.67");
        assert_eq!(general(0.107_759, 3), ".108");
    }

    #[test]
    fn sizes_change_their_unit_where_apache_does() {
        let check = |size: u64, expected: &str| assert_eq!(bytes(size), expected);
        check(0, "0 B");
        check(5119, "5119 B");
        check(5427, "5.3 kB");
        check(524_288, "0.5 MB");
        check(6_815_744, "6.5 MB");
        check(1 << 31, "2.0 GB");
        let check = |size: u64, expected: &str| assert_eq!(kilobytes(size), expected);
        check(15, "15 kB");
        check(1536, "1.5 MB");
        check(1_536_503, "1.5 GB");
    }

    #[test]
    fn times_are_told_in_words() {
        let check = |seconds: u64, expected: &str| assert_eq!(uptime(seconds), expected);
        check(0, "");
        check(1, " 1 second");
        check(232, " 3 minutes 52 seconds");
        check(86_400 + 2 * 3_600, " 1 day 2 hours");
        assert_eq!(time_of_day(1_795_265_339_999, &TimeZone::UTC), "Saturday, 21-Nov-2026 12:48:59 UTC");
    }
}
