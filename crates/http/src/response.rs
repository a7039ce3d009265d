//! Writing response heads: everything is appended to a buffer that the connection keeps.

use crate::Status;
use crate::chars::{TOKEN, is};

/// Appends `HTTP/1.1 CODE REASON` and the line end. A server answers with its own highest version, whatever version
/// the request had (RFC 9110 section 6.2). A code above 999 cannot stand in a status line and is written as 500.
pub fn write_status_line(out: &mut Vec<u8>, status: Status) {
    out.extend_from_slice(b"HTTP/1.1 ");
    if status.reason().is_empty() && (100..=999).contains(&status.0) {
        write_decimal(out, u64::from(status.0));
        out.push(b' ');
    } else {
        out.extend_from_slice(status.line().as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends `Name: value` and the line end. No value can end the field early: CR, LF and NUL in it become spaces
/// (RFC 9110 section 5.5), and bytes that cannot stand in a field name are left out of the name.
pub fn write_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    if name.bytes().all(|b| is(b, TOKEN)) {
        out.extend_from_slice(name.as_bytes());
    } else {
        out.extend(name.bytes().filter(|&b| is(b, TOKEN)));
    }
    out.extend_from_slice(b": ");
    let start = out.len();
    out.extend_from_slice(value);
    if memchr::memchr3(b'\r', b'\n', 0, value).is_some() {
        for b in &mut out[start..] {
            if matches!(*b, b'\r' | b'\n' | 0) {
                *b = b' ';
            }
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends `n` in decimal, without the formatting machinery.
pub fn write_decimal(out: &mut Vec<u8>, mut n: u64) {
    const DIGITS_MAX: usize = 20;
    let mut text = [0; DIGITS_MAX];
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        text[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines() {
        let check = |code, expected: &str| {
            let mut out = Vec::new();
            write_status_line(&mut out, Status(code));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check(200, "HTTP/1.1 200 OK\r\n");
        check(404, "HTTP/1.1 404 Not Found\r\n");
        check(299, "HTTP/1.1 299 \r\n");
        check(7, "HTTP/1.1 500 Internal Server Error\r\n");
        check(1000, "HTTP/1.1 500 Internal Server Error\r\n");
    }

    #[test]
    fn fields_cannot_split_a_response() {
        let check = |name, value: &[u8], expected: &[u8]| {
            let mut out = b"x".to_vec();
            write_field(&mut out, name, value);
            assert_eq!(out, [b"x", expected].concat());
        };
        check("Server", b"Manifold", b"Server: Manifold\r\n");
        check("Empty", b"", b"Empty: \r\n");
        check("Location", b"/a\r\nSet-Cookie: x=\xff\0", b"Location: /a  Set-Cookie: x=\xff \r\n");
        check("A\r\nB: c", b"d", b"ABc: d\r\n");
    }

    #[test]
    fn decimals() {
        for n in [0, 9, 10, 99, 100, 12_345, u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            write_decimal(&mut out, n);
            assert_eq!(out, n.to_string().as_bytes());
        }
    }
}
