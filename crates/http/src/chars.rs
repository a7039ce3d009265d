//! Which bytes may stand where (RFC 9110 section 5.6, RFC 3986), as one table, and quick scans over them.

/// Byte of a token: method, field name, coding name.
pub(crate) const TOKEN: u8 = 1;
/// Byte of a host name: unreserved, sub-delims, and `%` (RFC 3986 `reg-name`).
pub(crate) const REG_NAME: u8 = 1 << 1;
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
        let reg_name = b.is_ascii_alphanumeric()
            || matches!(b, b'-' | b'.' | b'_' | b'~' | b'%')
            || matches!(b, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=');
        let qdtext = is_value(b) && b != b'"' && b != b'\\';
        table[i] =
            if token { TOKEN } else { 0 } | if reg_name { REG_NAME } else { 0 } | if qdtext { QDTEXT } else { 0 };
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

/// Index of the first byte from `at` on that is no token byte; the length of `bytes` if all are.
#[inline]
pub(crate) fn token_end(bytes: &[u8], at: usize) -> usize {
    let mut i = at;
    while let Some(&b) = bytes.get(i) {
        if !is(b, TOKEN) {
            break;
        }
        i += 1;
    }
    i
}

/// Index of the first byte from `at` on that may not stand in a field value; the length of `bytes` if all may.
#[inline]
pub(crate) fn value_end(bytes: &[u8], at: usize) -> usize {
    let mut i = at;
    loop {
        i = below_or_del(bytes, i, b' ');
        match bytes.get(i) {
            Some(b'\t') => i += 1,
            _ => return i,
        }
    }
}

/// Index of the first byte from `at` on that may not stand in a request target; the length of `bytes` if all may.
#[inline]
pub(crate) fn target_end(bytes: &[u8], at: usize) -> usize {
    below_or_del(bytes, at, b'!')
}

/// Index of the first byte from `at` on that is below `floor` (at most 0x80) or DEL: eight bytes at a time.
#[inline]
fn below_or_del(bytes: &[u8], at: usize, floor: u8) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut i = at;
    while let Some(chunk) = bytes.get(i..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        // A subtraction that borrows sets the high bit of its byte. A borrow can also make a later byte look like a
        // hit, but never an earlier one, and only the first hit counts.
        let below = word.wrapping_sub(ONES * floor as u64) & !word;
        let del = (word ^ (ONES * 0x7f)).wrapping_sub(ONES) & !(word ^ (ONES * 0x7f));
        let hits = (below | del) & HIGH;
        if hits != 0 {
            return i + (hits.trailing_zeros() / 8) as usize;
        }
        i += 8;
    }
    while let Some(&b) = bytes.get(i) {
        if b < floor || b == 0x7f {
            break;
        }
        i += 1;
    }
    i
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

/// Whether `authority` is a host and an optional port: `reg-name` or an IP literal in brackets, then `:` and at most
/// a port number up to 65535 (RFC 3986 section 3.2; user information is refused). An empty authority is left to the
/// caller.
pub(crate) fn is_authority(authority: &[u8]) -> bool {
    let port = if let [b'[', rest @ ..] = authority {
        let Some(close) = rest.iter().position(|&b| b == b']') else { return false };
        if !is_ip_literal(&rest[..close]) {
            return false;
        }
        match &rest[close + 1..] {
            [] => return true,
            [b':', port @ ..] => port,
            _ => return false,
        }
    } else {
        let colon = authority.iter().position(|&b| !is(b, REG_NAME)).unwrap_or(authority.len());
        if colon == 0 || !escapes_are_whole(&authority[..colon]) {
            return false;
        }
        match &authority[colon..] {
            [] => return true,
            [b':', port @ ..] => port,
            _ => return false,
        }
    };
    port.is_empty() || decimal(port).is_ok_and(|n| (1..=65535).contains(&n))
}

/// An IPv6 address. `IPvFuture` has never been given a meaning and is refused.
fn is_ip_literal(inside: &[u8]) -> bool {
    std::str::from_utf8(inside).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
}

fn escapes_are_whole(name: &[u8]) -> bool {
    let mut rest = name;
    while let Some(percent) = rest.iter().position(|&b| b == b'%') {
        match &rest[percent + 1..] {
            [a, b, tail @ ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => rest = tail,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_stop_where_the_classes_say() {
        for b in 0..=255u8 {
            for lead in 0..20 {
                let mut bytes = vec![b'a'; lead];
                bytes.push(b);
                bytes.extend_from_slice(b"bcdefghijklm");
                let end = |inside: bool| if inside { bytes.len() } else { lead };
                assert_eq!(value_end(&bytes, 0), end(is_value(b)), "value {b:#x} after {lead}");
                assert_eq!(target_end(&bytes, 0), end(is_target(b)), "target {b:#x} after {lead}");
                assert_eq!(token_end(&bytes, 0), end(is(b, TOKEN)), "token {b:#x} after {lead}");
            }
        }
    }

    #[test]
    fn tokens_are_rfc_9110s() {
        let tokens: Vec<u8> = (0..=255).filter(|&b| is(b, TOKEN)).collect();
        assert_eq!(tokens, b"!#$%&'*+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz|~");
    }

    #[test]
    fn authorities() {
        let check = |authority: &str, expected| assert_eq!(is_authority(authority.as_bytes()), expected, "{authority}");
        for good in ["a", "a.b-c_d~e", "127.0.0.1:80", "h:", "[::1]", "[::1]:8080", "[1:2::3.4.5.6]", "a%20b", "a,b;c"]
        {
            check(good, true);
        }
        for bad in [
            "", ":80", "a:b", "a:0", "a:65536", "a b", "a/b", "u@h", "[::1", "::1", "[::1]x", "[]", "[v1.x]", "a%2",
            "é",
        ] {
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
