//! How long a server's key is, as OpenSSL's programs show it.

use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;

/// Tags of DER (X.690, section 8).
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;
/// What an RSA key's algorithm begins with: 1.2.840.113549.1.1.
const RSA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01";

/// Length in bits of the key in a certificate; `None` where that is not understood.
pub fn bits(certificate: &CertificateDer<'_>) -> Option<u32> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    of_public_key(&parsed.subject_public_key_info())
}

/// Of a `SubjectPublicKeyInfo` (RFC 5280, section 4.1).
fn of_public_key(info: &[u8]) -> Option<u32> {
    let (info, _) = element(info, SEQUENCE)?;
    let (algorithm, info) = element(info, SEQUENCE)?;
    let (key, _) = element(info, BIT_STRING)?;
    // The first byte says how many bits of the last are unused: none.
    let key = key.get(1..)?;
    if algorithm.starts_with(RSA) {
        let (modulus, _) = element(element(key, SEQUENCE)?.0, INTEGER)?;
        let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
        let first = modulus.get(zeros)?;
        return u32::try_from((modulus.len() - zeros) * 8).ok().map(|bits| bits - first.leading_zeros());
    }
    // Points of the curves there are, with a byte that says that both coordinates follow; or a key of Ed25519.
    match key.len() {
        65 | 32 => Some(256),
        97 => Some(384),
        133 => Some(521),
        _ => None,
    }
}

/// The content of the element that `der` begins with, which has to have this tag, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (head, rest) = der.split_at_checked(2)?;
    let (length, rest) = match head[1] {
        short @ ..0x80 => (usize::from(short), rest),
        long => {
            let (length, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            if length.len() > 4 {
                return None;
            }
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
    };
    (head[0] == tag).then_some(())?;
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_keys() {
        let check = |algorithm: &[u8], key: &[u8], expected| {
            let wrap = |tag: u8, inside: &[u8]| {
                let mut der = vec![tag, 0x82];
                der.extend_from_slice(&(inside.len() as u16).to_be_bytes());
                der.extend_from_slice(inside);
                der
            };
            let bit_string = [&[0], key].concat();
            let info = wrap(SEQUENCE, &[wrap(SEQUENCE, algorithm), wrap(BIT_STRING, &bit_string)].concat());
            assert_eq!(of_public_key(&info), expected);
            for end in 0..info.len() {
                assert_eq!(of_public_key(&info[..end]), None, "cut at {end}");
            }
        };
        let rsa = [RSA, b"\x01\x05\x00"].concat();
        let modulus = |first: u8| [&[SEQUENCE, 0x0e, INTEGER, 9, 0, first], &[7; 7][..], &[INTEGER, 1, 3]].concat();
        check(&rsa, &modulus(0x80), Some(64));
        check(&rsa, &modulus(0x1f), Some(61));
        for (length, bits) in [(65, Some(256)), (97, Some(384)), (133, Some(521)), (32, Some(256)), (5, None)] {
            check(b"\x06\x03\x2a\x03\x04", &vec![4; length], bits);
        }
    }
}
