//! Lines as nearly all clients write them, recognised at a glance. What is not recognised here is read with care, part by part;
//! what is, means the same there.

use super::Field;
use crate::scan::{target_end, token_end, value_end};

/// Where the target ends of a request line `GET target HTTP/1.1` that begins at `start`. `None` where there is another line, one
/// of more than `limit` bytes, or one that is not there to its end.
#[inline]
pub(super) fn request_line(bytes: &[u8], start: usize, limit: usize) -> Option<usize> {
    const AFTER_TARGET: &[u8] = b" HTTP/1.1\r\n";
    if !bytes.get(start..)?.starts_with(b"GET ") {
        return None;
    }
    let target = start + "GET ".len();
    let end = target_end(bytes, target);
    let is_usual =
        bytes.get(end..)?.starts_with(AFTER_TARGET) && end > target && end + " HTTP/1.1".len() - start <= limit;
    is_usual.then_some(end)
}

/// The field of a line `Name: value` that begins at `start`, and where the next line begins. `None` where there is another line,
/// one of more than `limit` bytes, or one that is not there to its end.
#[inline]
pub(super) fn field_line(bytes: &[u8], start: usize, limit: usize) -> Option<(Field, usize)> {
    let name_end = token_end(bytes, start);
    let [b':', b' ', first, ..] = *bytes.get(name_end..)? else { return None };
    let value = name_end + ": ".len();
    let end = value_end(bytes, value);
    let [last, b'\r', b'\n', ..] = *bytes.get(end - 1..)? else { return None };
    // A value begins and ends with something else than a blank, so that it is not empty either.
    let is_usual = name_end > start && first > b' ' && last > b' ' && end - start <= limit;
    let [name, name_end, value, value_end] = [start, name_end, value, end].map(|place| place as u32);
    is_usual.then_some((Field { name, name_end, value, value_end }, end + "\r\n".len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Head, Limits};

    /// A line by both ways: what is recognised means the same to the careful one.
    fn compare(line: &[u8], limit: usize) -> bool {
        let limits = Limits { request_line: limit, field_size: limit, ..Limits::default() };
        // Lines are not always the first.
        for lead in ["", "x", "xxxxxxxxxxxxxxxxx"] {
            let bytes = [lead.as_bytes(), line].concat();
            let start = lead.len();
            let what = line.escape_ascii();
            if let Some(usual) = field_line(&bytes, start, limit) {
                assert_eq!(super::super::field_line(&bytes, start, &limits), Ok(Some(usual)), "{what}");
            }
            let mut careful = Head { at: start, ..Head::default() };
            let parsed = careful.unusual_request_line_at(&bytes, &limits);
            let mut head = Head { at: start, ..Head::default() };
            if request_line(&bytes, start, limit).is_some() {
                assert_eq!(parsed, Ok(Some(())), "{what}");
                assert_eq!(head.request_line_at(&bytes, &limits), Ok(Some(())), "{what}");
                assert_eq!(format!("{head:?}"), format!("{careful:?}"), "{what}");
            }
        }
        field_line(line, 0, limit).is_some() || request_line(line, 0, limit).is_some()
    }

    #[test]
    fn usual_lines_are_recognised_and_others_left() {
        let check = |line: &str, expected| assert_eq!(compare(line.as_bytes(), 30), expected, "{line:?}");
        for usual in [
            "Host: a\r\n",
            "Accept: */*\r\n\r\n",
            "X-1_2!: a b\tc\r\nx",
            "A: \u{e9}\r\n",
            "012345678901234567890123456: a\r\n",
        ] {
            check(usual, true);
        }
        for usual in [
            "GET / HTTP/1.1\r\n",
            "GET /a?b HTTP/1.1\r\n",
            "GET * HTTP/1.1\r\nHost",
            "GET /4567890123456789 HTTP/1.1\r\n",
        ] {
            check(usual, true);
        }
        let others = [
            "Host:a\r\n",
            "Host:  a\r\n",
            "Host: a \r\n",
            "Host: \r\n",
            "Host: a\n",
            "Host: a\r",
            ": a\r\n",
            "H\0: a\r\n",
            "H: \0\r\n",
        ];
        let too_long = ["0123456789012345678901234567: a\r\n", "GET /45678901234567890 HTTP/1.1\r\n"];
        let lines = [
            "HEAD / HTTP/1.1\r\n",
            "GET  HTTP/1.1\r\n",
            "GET / HTTP/1.0\r\n",
            "GET / HTTP/1.1\n",
            "GET /\r\n",
            "GET / HTTP/1.1 \r\n",
        ];
        for other in others.iter().chain(&too_long).chain(&lines) {
            check(other, false);
        }
    }

    proptest! {
        #[test]
        fn what_is_recognised_means_the_same_to_the_careful(
            pieces in proptest::collection::vec(prop_oneof![
                Just("GET "), Just(" HTTP/1.1\r\n"), Just("/"), Just("Host"), Just(": "), Just(":"), Just(" "), Just("\t"),
                Just("\r\n"), Just("\r"), Just("\n"), Just("\0"), Just("\u{e9}"), Just("."), Just("%41"), Just("?"),
                Just("Upgrade-Insecure-Requests"), Just("a_value-of-a-field"),
            ], 0..8),
            limit in 0..60usize,
        ) {
            compare(pieces.concat().as_bytes(), limit);
        }
    }
}
