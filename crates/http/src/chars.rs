//! Which bytes may stand where (RFC 9110 section 5.6, RFC 3986), as one table.

/// Byte of a token: method, field name, coding name.
pub(crate) const TOKEN: u8 = 1;
/// Byte of a host name as Apache takes it: letters, digits, hyphen, dot and underscore. RFC 3986 would allow escapes
/// and more punctuation in a `reg-name`, but no name anywhere uses them.
const HOST: u8 = 1 << 1;
/// The dot, of which a host name may not have two in a row.
const DOT: u8 = 1 << 3;
/// Byte of a quoted string that needs no escape: `qdtext`.
pub(crate) const QDTEXT: u8 = 1 << 2;

const CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let b = i as u8;
        let token = b.is_ascii_alphanumeric()
            || matches!(b, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.')
            || matches!(b, b'^' | b'_' | b'`' | b'|' | b'~');
        let host = b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        let qdtext = is_value(b) && b != b'"' && b != b'\\';
        table[i] = if token { TOKEN } else { 0 }
            | if host { HOST } else { 0 }
            | if qdtext { QDTEXT } else { 0 }
            | if b == b'.' { DOT } else { 0 };
        i += 1;
    }
    table
};

/// Whether `b` belongs to `class`.
#[inline]
pub(crate) fn is(b: u8, class: u8) -> bool {
    CLASS[b as usize] & class != 0
}

/// Byte of a field value: visible, space, tab or 0x80 and above; no other control byte.
#[inline]
pub(crate) const fn is_value(b: u8) -> bool {
    (b >= b' ' && b != 0x7f) || b == b'\t'
}

/// Byte of a request target: visible ASCII, or 0x80 and above, which Apache lets through as well.
#[inline]
pub(crate) const fn is_target(b: u8) -> bool {
    b > b' ' && b != 0x7f
}

/// `value` without spaces and tabs at its ends (optional white space, RFC 9110 section 5.6.3).
#[inline]
pub(crate) fn trim_ows(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Whether `name` is `lower`, in any case. Without branches, so that the compiler compares whole words.
#[inline]
pub(crate) fn is_name<const N: usize>(name: &[u8], lower: &[u8; N]) -> bool {
    match <&[u8; N]>::try_from(name) {
        Ok(name) => name
            .iter()
            .zip(lower)
            .fold(true, |same, (&b, &l)| same & ((b == l) | (l.is_ascii_lowercase() & (b ^ 0x20 == l)))),
        Err(_) => false,
    }
}

/// A decimal number made of digits only, at least one.
pub(crate) fn decimal(digits: &[u8]) -> Result<u64, DecimalError> {
    if digits.is_empty() {
        return Err(DecimalError::NotDigits);
    }
    let mut n: u64 = 0;
    let mut overflow = false;
    for &b in digits {
        if !b.is_ascii_digit() {
            return Err(DecimalError::NotDigits);
        }
        match n.checked_mul(10).and_then(|n| n.checked_add(u64::from(b - b'0'))) {
            Some(next) => n = next,
            None => overflow = true,
        }
    }
    if overflow { Err(DecimalError::Overflow) } else { Ok(n) }
}

/// Why something is no decimal number for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecimalError {
    NotDigits,
    Overflow,
}

/// Whether `authority` is a host and an optional port: a name, an IPv4 address or an IPv6 address in brackets, then
/// perhaps `:` and a port from 1 to 65535. Narrower than RFC 3986 section 3.2 where Apache is: see [`HOST`]; and no
/// empty host, no empty port, no user information, no `..`, which could lead out of a folder named after the host.
pub(crate) fn is_authority(authority: &[u8]) -> bool {
    let host_end = match authority {
        [b'[', rest @ ..] => match memchr::memchr(b']', rest) {
            Some(close) if is_ip_literal(&rest[..close]) => close + 2,
            _ => return false,
        },
        _ => match host_name_length(authority) {
            None | Some(0) => return false,
            Some(end) => end,
        },
    };
    match authority.get(host_end..) {
        None | Some([]) => true,
        Some([b':', port @ ..]) => is_port(port),
        Some(_) => false,
    }
}

/// The length of the host name at the start of `authority`; `None` if it is only a dot or has two in a row.
#[inline]
fn host_name_length(authority: &[u8]) -> Option<usize> {
    let mut length = 0;
    let (mut before, mut dots) = (0, 0);
    for &b in authority {
        let class = CLASS[b as usize];
        if class & HOST == 0 {
            break;
        }
        dots |= class & before;
        before = class;
        length += 1;
    }
    let only_a_dot = length == 1 && before & DOT != 0;
    if only_a_dot || dots & DOT != 0 { None } else { Some(length) }
}

#[inline]
fn is_port(digits: &[u8]) -> bool {
    const DIGITS_MAX: usize = 5;
    if digits.len() > DIGITS_MAX {
        return false;
    }
    let mut port = 0;
    for &b in digits {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return false;
        }
        port = port * 10 + u32::from(digit);
    }
    (1..=65535).contains(&port)
}

/// An IPv6 address. `IPvFuture` has never been given a meaning and is refused.
fn is_ip_literal(inside: &[u8]) -> bool {
    std::str::from_utf8(inside).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_rfc_9110s() {
        let tokens: Vec<u8> = (0..=255).filter(|&b| is(b, TOKEN)).collect();
        assert_eq!(tokens, b"!#$%&'*+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz|~");
    }

    #[test]
    fn names_in_any_case() {
        let check = |name: &[u8], expected| assert_eq!(is_name(name, b"a-z"), expected, "{}", name.escape_ascii());
        check(b"a-z", true);
        check(b"A-Z", true);
        check(b"a\rz", false);
        check(b"a-y", false);
        check(b"a-", false);
        check(b"a-zz", false);
    }

    #[test]
    fn authorities() {
        let check = |authority: &str, expected| assert_eq!(is_authority(authority.as_bytes()), expected, "{authority}");
        for good in
            ["a", "A.b-c_d", "a.", ".a", "127.0.0.1:80", "h:65535", "h:00080", "[::1]", "[::1]:8080", "[1:2::3.4.5.6]"]
        {
            check(good, true);
        }
        for bad in [
            "", ".", "a..b", "..", ":80", "a:", "a:b", "a:0", "a:65536", "a:000080", "a:8 ", "a b", "a/b", "u@h",
            "a%20b", "a,b", "a!", "*", "é",
        ] {
            check(bad, false);
        }
        for bad in ["[::1", "::1", "[::1]x", "[::1]:", "[]", "[v1.x]", "[1.2.3.4]", "[fe80::1%eth0]", "["] {
            check(bad, false);
        }
    }

    #[test]
    fn decimals() {
        let check = |digits: &str, expected| assert_eq!(decimal(digits.as_bytes()), expected, "{digits}");
        check("0", Ok(0));
        check("007", Ok(7));
        check("18446744073709551615", Ok(u64::MAX));
        check("18446744073709551616", Err(DecimalError::Overflow));
        check("99999999999999999999999x", Err(DecimalError::NotDigits));
        check("", Err(DecimalError::NotDigits));
        check("+1", Err(DecimalError::NotDigits));
        check("1 ", Err(DecimalError::NotDigits));
        check("0x1", Err(DecimalError::NotDigits));
    }
}
