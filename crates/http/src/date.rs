//! HTTP dates (RFC 9110 section 5.6.7): written as IMF-fixdate, read in all three forms.

/// The last second IMF-fixdate can express: 31 December 9999, 23:59:59.
pub const IMF_FIXDATE_SECONDS_MAX: u64 = 253_402_300_799;

const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const LONG_DAYS: [&[u8]; 7] = [b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday", b"Sunday"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// `Sun, 06 Nov 1994 08:49:37 GMT` for the seconds since 1970 began. Later than [`IMF_FIXDATE_SECONDS_MAX`] gives
/// that second.
pub fn imf_fixdate(unix_seconds: u64) -> [u8; 29] {
    let seconds = unix_seconds.min(IMF_FIXDATE_SECONDS_MAX);
    let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_of_days(days);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[..3].copy_from_slice(DAYS[(days % 7) as usize]);
    two_digits(&mut text[5..7], day);
    text[8..11].copy_from_slice(MONTHS[(month - 1) as usize]);
    two_digits(&mut text[12..14], year / 100);
    two_digits(&mut text[14..16], year % 100);
    two_digits(&mut text[17..19], second_of_day / 3600);
    two_digits(&mut text[20..22], second_of_day / 60 % 60);
    two_digits(&mut text[23..25], second_of_day % 60);
    text
}

/// Seconds since 1970 began for a date in one of the three forms every recipient must accept: IMF-fixdate
/// (`Sun, 06 Nov 1994 08:49:37 GMT`), RFC 850 (`Sunday, 06-Nov-94 08:49:37 GMT`) and asctime
/// (`Sun Nov  6 08:49:37 1994`).
///
/// `None` for anything else and for dates before 1970. The name of the day is checked to be one, not to be the right
/// one. Two-digit years below 70 are in this century, as in Apache. A leap second counts as the second after it.
pub fn parse_http_date(text: &[u8]) -> Option<u64> {
    match text.get(3)? {
        b',' => parse_imf_fixdate(text),
        b' ' => parse_asctime(text),
        _ => parse_rfc_850(text),
    }
}

fn parse_imf_fixdate(text: &[u8]) -> Option<u64> {
    let text: &[u8; 29] = text.try_into().ok()?;
    is_day(&text[..3])?;
    marks(text, &[(3, b", "), (7, b" "), (11, b" "), (16, b" "), (25, b" GMT")])?;
    seconds(number(&text[12..16])?, month(&text[8..11])?, number(&text[5..7])?, &text[17..25])
}

fn parse_rfc_850(text: &[u8]) -> Option<u64> {
    let comma = memchr::memchr(b',', text)?;
    if !LONG_DAYS.contains(&&text[..comma]) {
        return None;
    }
    let rest: &[u8; 24] = text[comma..].try_into().ok()?;
    marks(rest, &[(0, b", "), (4, b"-"), (8, b"-"), (11, b" "), (20, b" GMT")])?;
    let year = number(&rest[9..11])?;
    let year = if year < 70 { year + 2000 } else { year + 1900 };
    seconds(year, month(&rest[5..8])?, number(&rest[2..4])?, &rest[12..20])
}

fn parse_asctime(text: &[u8]) -> Option<u64> {
    let text: &[u8; 24] = text.try_into().ok()?;
    is_day(&text[..3])?;
    marks(text, &[(3, b" "), (7, b" "), (10, b" "), (19, b" ")])?;
    let day = if text[8] == b' ' { number(&text[9..10])? } else { number(&text[8..10])? };
    seconds(number(&text[20..24])?, month(&text[4..7])?, day, &text[11..19])
}

fn marks(text: &[u8], expected: &[(usize, &[u8])]) -> Option<()> {
    expected.iter().all(|(at, mark)| text[*at..].starts_with(mark)).then_some(())
}

fn is_day(name: &[u8]) -> Option<()> {
    DAYS.iter().any(|day| day.as_slice() == name).then_some(())
}

fn month(name: &[u8]) -> Option<u64> {
    MONTHS.iter().position(|month| month.as_slice() == name).map(|index| index as u64 + 1)
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |n, b| b.is_ascii_digit().then(|| n * 10 + u64::from(b - b'0')))
}

/// Seconds for a date and a time of day written `08:49:37`.
fn seconds(year: u64, month: u64, day: u64, time: &[u8]) -> Option<u64> {
    marks(time, &[(2, b":"), (5, b":")])?;
    let (hour, minute, second) = (number(&time[..2])?, number(&time[3..5])?, number(&time[6..8])?);
    if year < 1970 || !(1..=days_in(year, month)).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(days_of_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days in 400 years of the Gregorian calendar.
const ERA_DAYS: u64 = 146_097;
/// Days from 1 March of year 0 to 1 January 1970.
const EPOCH_DAYS: u64 = 719_468;

/// Year, month (1 to 12) and day (1 to 31). Years are taken to begin in March, so that the leap day comes last.
fn civil_of_days(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + EPOCH_DAYS;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Month lengths from March on repeat every five months, 153 days.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

fn days_of_civil(year: u64, month: u64, day: u64) -> u64 {
    let year_from_march = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year_from_march / 400, year_from_march % 400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * ERA_DAYS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - EPOCH_DAYS
}

fn two_digits(out: &mut [u8], n: u64) {
    out[0] = b'0' + (n / 10) as u8;
    out[1] = b'0' + (n % 10) as u8;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn written_dates() {
        let check = |seconds, expected: &str| assert_eq!(std::str::from_utf8(&imf_fixdate(seconds)).unwrap(), expected);
        check(0, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT");
        check(951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT");
        check(1_000_000_000, "Sun, 09 Sep 2001 01:46:40 GMT");
        check(4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT");
        check(4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT");
        check(IMF_FIXDATE_SECONDS_MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
        check(u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn read_dates() {
        let check = |text: &str, expected| assert_eq!(parse_http_date(text.as_bytes()), expected, "{text}");
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777));
        check("Sun Nov  6 08:49:37 1994", Some(784_111_777));
        check("Sun Nov 06 08:49:37 1994", Some(784_111_777));
        check("Wednesday, 01-Jan-69 00:00:00 GMT", Some(3_124_224_000));
        check("Thursday, 01-Jan-70 00:00:00 GMT", Some(0));
        check("Mon, 29 Feb 2016 23:59:60 GMT", Some(1_456_790_400));
        for bad in [
            "",
            "Sun",
            "Sun,",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 29 Feb 2100 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Son, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08-49-37 GMT",
            "Sun  06 Nov 1994 08:49:37 GMT",
            "Sonday, 06-Nov-94 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sun Nov  x 08:49:37 1994",
            "784111777",
        ] {
            check(bad, None);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(seconds in 0..=IMF_FIXDATE_SECONDS_MAX) {
            prop_assert_eq!(parse_http_date(&imf_fixdate(seconds)), Some(seconds));
        }

        #[test]
        fn garbage_does_not_panic(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            parse_http_date(&text);
        }
    }
}
