//! What came from a client, so that it can neither end the line nor the quotes around it, nor steer a terminal (Apache's
//! `ap_escape_logitem`).

/// Bytes looked at together. A short value is one step, and compilers turn a step into vector instructions.
const STEP: usize = 16;

/// Appends `bytes`. Usually all of them are plain: they are looked at and copied in steps.
pub(super) fn escape(out: &mut Vec<u8>, bytes: &[u8]) {
    let (steps, rest) = bytes.as_chunks::<STEP>();
    for step in steps {
        if step.iter().fold(true, |plain, byte| plain & is_plain(*byte)) {
            out.extend_from_slice(step);
        } else {
            step.iter().for_each(|byte| escape_byte(out, *byte));
        }
    }
    if rest.iter().fold(true, |plain, byte| plain & is_plain(*byte)) {
        out.extend_from_slice(rest);
    } else {
        rest.iter().for_each(|byte| escape_byte(out, *byte));
    }
}

const fn is_plain(byte: u8) -> bool {
    (byte >= 0x20) & (byte < 0x7f) & (byte != b'"') & (byte != b'\\')
}

#[cold]
fn escape_byte(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        0x08 => out.extend_from_slice(b"\\b"),
        0x0b => out.extend_from_slice(b"\\v"),
        byte if is_plain(byte) => out.push(byte),
        byte => out.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_cannot_forge_a_log_line() {
        // Wherever in a step it stands.
        for before in 0..STEP {
            let check = |bytes: &[u8], expected: &str| {
                let mut out = Vec::new();
                escape(&mut out, &[&b"x".repeat(before)[..], bytes].concat());
                assert_eq!(String::from_utf8(out).unwrap(), "x".repeat(before) + expected);
            };
            check(b"", "");
            check(b"GET / HTTP/1.1", "GET / HTTP/1.1");
            check(
                b"GET /\"\\\r\n\t\x00\xe9\x08\x0b\x7f HTTP/1.1~",
                "GET /\\\"\\\\\\r\\n\\t\\x00\\xe9\\b\\v\\x7f HTTP/1.1~",
            );
        }
    }
}
