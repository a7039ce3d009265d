//! Numbers as C reads them: what a text begins with, and 0 where that is none.

/// As atoi(3): a sign and digits after blanks; more than fits is as much as fits.
pub fn leading_number(text: &str) -> i64 {
    let text = text.trim_ascii_start();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let number = digits.bytes().take_while(u8::is_ascii_digit).fold(0i64, |number, digit| {
        number.saturating_mul(10).saturating_add(i64::from(digit - b'0')).min(i64::from(i32::MAX))
    });
    sign * number
}

/// As atof(3), of plain decimals; never below 0, never infinite.
pub fn leading_decimal(text: &str) -> f64 {
    let text = text.trim_start();
    let mut point = false;
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' && !std::mem::replace(&mut point, true)));
    text[..end.unwrap_or(text.len())].parse().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let check = |text: &str, number: i64, decimal: f64| {
            assert_eq!(leading_number(text), number, "{text}");
            assert!((leading_decimal(text) - decimal).abs() < 1e-9, "{text}");
        };
        check("12ab", 12, 12.0);
        check(" 7", 7, 7.0);
        check("-3", -3, 0.0);
        check("", 0, 0.0);
        check("x", 0, 0.0);
        check("99999999999999999999", i64::from(i32::MAX), 99_999_999_999_999_999_999.0);
        check("1.5.2", 1, 1.5);
        check("é", 0, 0.0);
        check(".5", 0, 0.5);
    }
}
