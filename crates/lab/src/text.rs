//! Numbers and lists as a person reads them.

use manifold_stats::Interval;

/// Three significant digits at most, thousands with a thin space: `0.52`, `6.4`, `31.2`, `178 000`.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 {
        "0".to_owned()
    } else if magnitude < 0.995 {
        format!("{value:.2}")
    } else if magnitude < 99.95 {
        format!("{value:.1}")
    } else if magnitude < 999.5 {
        format!("{value:.0}")
    } else {
        // Rounded to three digits, then grouped.
        let scale = 10f64.powi(magnitude.log10().floor() as i32 - 2);
        grouped((value / scale).round() as i64 * scale.round() as i64)
    }
}

/// A whole number with its thousands apart.
pub fn grouped(value: i64) -> String {
    let digits = value.abs().to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

/// Microseconds, in milliseconds or seconds from 1000 on.
pub fn micros(value: f64) -> String {
    if value < 999.5 {
        format!("{} µs", number(value))
    } else if value < 999_500.0 {
        format!("{} ms", number(value / 1000.0))
    } else {
        format!("{} s", number(value / 1e6))
    }
}

/// The ends of an interval: `2.8 to 3.2`.
pub fn ends(interval: &Interval) -> String {
    format!("{} to {}", number(interval.low), number(interval.high))
}

/// A ratio with its interval: `3.0 times [2.8 to 3.2]`.
pub fn times(ratio: &Interval) -> String {
    format!("{} times [{}]", ratio_number(ratio.estimate), ratio_ends(ratio))
}

/// The ends of a ratio's interval. Near 1 two decimals matter.
pub fn ratio_ends(ratio: &Interval) -> String {
    format!("{} to {}", ratio_number(ratio.low), ratio_number(ratio.high))
}

/// A ratio with the ends of its interval, for a table: `1.27 [1.10 to 1.50]`; a dash where it was not measured.
pub fn ratio_figure(measured: Option<f64>, low: Option<f64>, high: Option<f64>) -> String {
    match (measured, low, high) {
        (Some(measured), Some(low), Some(high)) => {
            format!("{} [{} to {}]", ratio_number(measured), ratio_number(low), ratio_number(high))
        }
        _ => "–".to_owned(),
    }
}

/// A ratio: two decimals below 2, where they decide.
pub fn ratio_number(value: f64) -> String {
    if value < 1.995 { format!("{value:.2}") } else { number(value) }
}

/// `a`, `a and b`, `a, b and c`.
pub fn list<S: AsRef<str>>(items: &[S]) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}

/// A length of time: `8 s`, `3 min 20 s`.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.round().max(0.0) as u64;
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {} s", seconds / 60, seconds % 60) }
}

/// A text of several lines as one, for a table or a list.
pub fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(": ").trim_end_matches('.').to_owned()
}

/// `1 cell`, `2 cells`.
pub fn counted(n: usize, thing: &str) -> String {
    format!("{} {thing}{}", grouped(n as i64), if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (value, expected) in [
            (0.0, "0"),
            (0.5234, "0.52"),
            (0.996, "1.0"),
            (6.44, "6.4"),
            (99.96, "100"),
            (123.4, "123"),
            (1234.0, "1\u{202f}230"),
            (178_432.0, "178\u{202f}000"),
            (999.7, "1\u{202f}000"),
        ] {
            assert_eq!(number(value), expected, "{value}");
        }
    }

    #[test]
    fn others() {
        assert_eq!(grouped(-1_234_567), "-1\u{202f}234\u{202f}567");
        assert_eq!(grouped(12), "12");
        assert_eq!([micros(3.21), micros(4321.0), micros(2_500_000.0)], ["3.2 µs", "4.3 ms", "2.5 s"]);
        assert_eq!(
            [list::<&str>(&[]), list(&["a"]), list(&["a", "b"]), list(&["a", "b", "c"])],
            ["", "a", "a and b", "a, b and c"]
        );
        assert_eq!([duration(8.4), duration(200.0)], ["8 s", "3 min 20 s"]);
        assert_eq!([counted(1, "cell"), counted(0, "cell"), counted(2, "cell")], ["1 cell", "0 cells", "2 cells"]);
        assert_eq!(one_line("it ended\n    (see\n\n    the log).\n"), "it ended: (see: the log)");
        assert_eq!(ratio_figure(Some(1.27), Some(1.1), Some(12.3)), "1.27 [1.10 to 12.3]");
        assert_eq!(ratio_figure(Some(1.27), None, Some(12.3)), "–");
        let ratio = Interval { estimate: 3.0, low: 1.034, high: 12.3, rounds: 5 };
        assert_eq!(times(&ratio), "3.0 times [1.03 to 12.3]");
    }
}
