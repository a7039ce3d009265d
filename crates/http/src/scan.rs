//! How far a part of a request head reaches, sixteen bytes at a time.

use std::ops::Range;

use wide::u8x16;

use crate::chars::{TOKEN, is};

/// Bytes that are looked at together.
const LANES: usize = 16;

/// Where in `bytes`, from `from` on, the first one stands that does not belong to a token.
#[inline]
pub(crate) fn token_end(bytes: &[u8], from: usize) -> usize {
    // Nearly all names are of letters and hyphens, and a colon follows.
    let end = first(bytes, from, |lanes| !(letters(lanes) | lanes.simd_eq(u8x16::splat(b'-'))));
    match bytes.get(end) {
        Some(&b) if b != b':' && is(b, TOKEN) => unusual_token_end(bytes, end),
        _ => end,
    }
}

#[cold]
fn unusual_token_end(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|&b| !is(b, TOKEN)).map_or(bytes.len(), |at| from + at)
}

/// Where in `bytes`, from `from` on, the first one stands that may not be in a field value.
#[inline]
pub(crate) fn value_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        at = first(bytes, at, |lanes| up_to(lanes, b' ' - 1) | lanes.simd_eq(u8x16::splat(0x7f)));
        match bytes.get(at) {
            Some(b'\t') => at += 1,
            _ => return at,
        }
    }
}

/// Where in `bytes`, from `from` on, the first one stands that may not be in a request target.
#[inline]
pub(crate) fn target_end(bytes: &[u8], from: usize) -> usize {
    first(bytes, from, outside_target)
}

/// Whether the target at `range` is plain: a path to which decoding changes nothing, because it has no escape, no query, no
/// fragment, and no segment that is empty or begins with a dot. Most are. It has no byte that may not be in a target.
#[inline]
pub(crate) fn is_plain_target(bytes: &[u8], range: Range<usize>) -> bool {
    if bytes.get(range.start) != Some(&b'/') {
        return false;
    }
    let mut at = range.start;
    // Bit 0: the byte before these is a slash.
    let mut after_slash = 0;
    while at < range.end {
        let (lanes, before) = match lanes(bytes, at) {
            Some(lanes) => (lanes, 0),
            None => match last_lanes(bytes, at) {
                Some(last) => last,
                None => return true,
            },
        };
        let slash = lanes.simd_eq(u8x16::splat(b'/'));
        let no_start = (slash | lanes.simd_eq(u8x16::splat(b'.'))).to_bitmask() >> before;
        let meaning =
            lanes.simd_eq(u8x16::splat(b'%')) | lanes.simd_eq(u8x16::splat(b'?')) | lanes.simd_eq(u8x16::splat(b'#'));
        after_slash |= (slash.to_bitmask() >> before) << 1;
        let odd = (meaning.to_bitmask() >> before) | no_start & after_slash;
        if odd != 0 && at + (odd.trailing_zeros() as usize) < range.end {
            return false;
        }
        after_slash >>= LANES;
        at += LANES;
    }
    true
}

/// Where in `bytes`, from `from` on, the first one stands that `outside` marks. The end if there is none.
#[inline(always)]
fn first(bytes: &[u8], from: usize, outside: impl Fn(u8x16) -> u8x16) -> usize {
    let mut at = from;
    while let Some(lanes) = lanes(bytes, at) {
        let found = outside(lanes).to_bitmask();
        if found != 0 {
            return at + found.trailing_zeros() as usize;
        }
        at += LANES;
    }
    let Some((lanes, before)) = last_lanes(bytes, at) else { return bytes.len() };
    let found = outside(lanes).to_bitmask() >> before;
    if found == 0 { bytes.len() } else { at + found.trailing_zeros() as usize }
}

/// The bytes from `at` on, where there are enough.
#[inline(always)]
fn lanes(bytes: &[u8], at: usize) -> Option<u8x16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u8x16::new(*chunk))
}

/// The last bytes, and how many of them stand before `at`, where fewer than all begin. `None` where there are no bytes at `at`.
#[inline(always)]
fn last_lanes(bytes: &[u8], at: usize) -> Option<(u8x16, usize)> {
    let rest = bytes.get(at..)?;
    if rest.is_empty() {
        return None;
    }
    match bytes.last_chunk() {
        Some(chunk) => Some((u8x16::new(*chunk), LANES - rest.len())),
        None => Some((few(bytes), at)),
    }
}

/// All of fewer bytes than there are lanes, and zeros behind them.
#[cold]
fn few(bytes: &[u8]) -> u8x16 {
    let mut chunk = [0; LANES];
    chunk[..bytes.len()].copy_from_slice(bytes);
    u8x16::new(chunk)
}

/// Marks bytes that may not be in a target, see [`is_target`](crate::chars::is_target).
#[inline(always)]
fn outside_target(lanes: u8x16) -> u8x16 {
    up_to(lanes, b' ') | lanes.simd_eq(u8x16::splat(0x7f))
}

/// Marks letters.
#[inline(always)]
fn letters(lanes: u8x16) -> u8x16 {
    // Those below `a` wrap around to the largest numbers.
    up_to((lanes | u8x16::splat(b'a' ^ b'A')) - u8x16::splat(b'a'), b'z' - b'a')
}

/// Marks bytes that are `most` or less.
#[inline(always)]
fn up_to(lanes: u8x16, most: u8) -> u8x16 {
    lanes.min(u8x16::splat(most)).simd_eq(lanes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chars::{is_target, is_value};

    #[test]
    fn scans_stop_where_the_classes_say() {
        for b in 0..=255u8 {
            for (lead, trail) in (0..40).flat_map(|lead| [0, 1, 12, 20].map(|trail| (lead, trail))) {
                let bytes = [vec![b'a'; lead], vec![b], vec![b'z'; trail]].concat();
                let end = |inside: bool| if inside { bytes.len() } else { lead };
                let what = format!("{b:#x} after {lead} and before {trail}");
                assert_eq!(value_end(&bytes, 0), end(is_value(b)), "value {what}");
                assert_eq!(target_end(&bytes, 0), end(is_target(b)), "target {what}");
                assert_eq!(token_end(&bytes, 0), end(is(b, TOKEN)), "token {what}");
                for from in 0..=lead {
                    assert_eq!(value_end(&bytes, from), end(is_value(b)), "value from {from}, {what}");
                    assert_eq!(target_end(&bytes, from), end(is_target(b)), "target from {from}, {what}");
                    assert_eq!(token_end(&bytes, from), end(is(b, TOKEN)), "token from {from}, {what}");
                }
            }
        }
    }

    #[test]
    fn plain_targets_have_nothing_to_decode() {
        let check = |target: &str, expected| {
            // Wherever it lies, and whatever follows it.
            for (lead, trail) in (0..18).flat_map(|lead| ["", " ", " HTTP/1.1\r\n//..?"].map(|trail| (lead, trail))) {
                let bytes = [&vec![b'x'; lead], target.as_bytes(), trail.as_bytes()].concat();
                let range = lead..lead + target.len();
                assert_eq!(is_plain_target(&bytes, range), expected, "{target} at {lead}, {trail}");
            }
        };
        for plain in
            ["/", "/a", "/a.b/c..", "/index.html", "/a/b/c/", "/0123456789abcde/0123456789abcdef", "/é", "/a:b@c"]
        {
            check(plain, true);
        }
        let odd =
            ["", "a", "*", "http://h/", "//", "/.", "/..", "/a//b", "/a/.b", "/a/../b", "/%61", "/a?b", "/a?", "/a#b"];
        for odd in odd {
            check(odd, false);
        }
        // What is odd, at every place among the lanes.
        for lead in 0..40 {
            let plain = format!("/{}", "a".repeat(lead));
            check(&plain, true);
            check(&format!("{plain}b/c"), true);
            for odd in ["//", "/.", "%41", "?", "#"] {
                check(&format!("{plain}{odd}"), false);
                check(&format!("{plain}{odd}bcdefghijklmnopqrstuvwxyz"), false);
            }
        }
    }
}
