//! Byte ranges (RFC 9110 section 14): which parts of a representation a `Range` field asks for, and how they are labelled.
//!
//! Where the RFC leaves it to the server, ranges are merged, limited and ignored as by Apache's byterange filter.

use crate::chars::trim_ows;
use crate::write_decimal;

/// A part of a representation, by the places of its first and last byte; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Place of the first byte, counted from 0.
    pub first: u64,
    /// Place of the last byte, at least `first` and below the representation's length.
    pub last: u64,
}

impl ByteRange {
    /// How many bytes it has.
    pub fn length(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// How many ranges one request may ask for (Apache's `MaxRanges`, `MaxRangeOverlaps`, `MaxRangeReversals`). `None` is
/// `unlimited`; zero is `none`. Whoever asks for more gets the whole representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLimits {
    /// Most ranges that are left after merging (200). With zero, ranges are not supported at all.
    pub ranges: Option<u32>,
    /// Most ranges that overlap or touch the one before, and are merged with it (20).
    pub overlaps: Option<u32>,
    /// Most merged ranges that begin before the one that they are merged with (20).
    pub reversals: Option<u32>,
}

impl Default for RangeLimits {
    fn default() -> RangeLimits {
        RangeLimits { ranges: Some(200), overlaps: Some(20), reversals: Some(20) }
    }
}

/// What a `Range` field asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The field is to be ignored: 200 with the whole representation.
    Whole,
    /// One range: 206 with `Content-Range`.
    One(ByteRange),
    /// Several: 206 with `multipart/byteranges`. They are in the list that was handed in.
    Several,
    /// Ranges that lie behind the end, all of them: 416 with [`write_unsatisfied_range`].
    Unsatisfiable,
}

/// Finds the ranges that the value of a `Range` field selects of a representation of `size` bytes.
///
/// `several` is emptied, keeps its memory, and is used only for the answer [`Selection::Several`]; the ranges are in the
/// order asked for, each merged with the one asked for before it where they overlap or touch.
///
/// Ignored are, as by Apache: other units than bytes, a field with a range that is malformed or `-0`, one that asks for
/// more bytes altogether than there are, or for more than `limits` allow; and every range of an empty representation.
/// `0-` stands for the whole, whatever else is asked for. Numbers too large for 64 bits count as the largest that fits
/// (RFC 9110 section 14.1.1), where Apache ignores the field.
pub fn select_ranges(value: &[u8], size: u64, limits: &RangeLimits, several: &mut Vec<ByteRange>) -> Selection {
    several.clear();
    if size == 0 || limits.ranges == Some(0) {
        return Selection::Whole;
    }
    match merged(value, size, several) {
        None => Selection::Whole,
        Some(Merged { last: None, .. }) => Selection::Unsatisfiable,
        Some(Merged { last: Some(last), overlaps, reversals }) => {
            let count = several.len() + 1;
            let sum = several.iter().try_fold(last.length(), |sum, range| sum.checked_add(range.length()));
            let beyond = |count: usize, limit: Option<u32>| limit.is_some_and(|limit| count > limit as usize);
            if sum.is_none_or(|sum| sum > size)
                || beyond(count, limits.ranges)
                || beyond(overlaps, limits.overlaps)
                || beyond(reversals, limits.reversals)
            {
                return Selection::Whole;
            }
            if several.is_empty() {
                return Selection::One(last);
            }
            several.push(last);
            Selection::Several
        }
    }
}

/// All ranges but the last are in the caller's list.
struct Merged {
    /// `None`: there was no range that could be satisfied.
    last: Option<ByteRange>,
    overlaps: usize,
    reversals: usize,
}

/// `None`: the field is to be ignored.
fn merged(value: &[u8], size: u64, done: &mut Vec<ByteRange>) -> Option<Merged> {
    const UNIT: &[u8] = b"bytes=";
    let (unit, set) = value.split_at_checked(UNIT.len())?;
    if !unit.eq_ignore_ascii_case(UNIT) {
        return None;
    }
    let mut state = Merged { last: None, overlaps: 0, reversals: 0 };
    let mut any = false;
    for spec in set.split(|&b| b == b',').map(trim_ows).filter(|spec| !spec.is_empty()) {
        any = true;
        let spec = Spec::parse(spec)?;
        if spec == Spec::From(0) {
            done.clear();
            let whole = ByteRange { first: 0, last: size - 1 };
            return Some(Merged { last: Some(whole), ..state });
        }
        let Some(range) = spec.of(size) else { continue };
        match &mut state.last {
            None => state.last = Some(range),
            Some(before) => match merge(*before, range) {
                Some(both) => {
                    state.overlaps += 1;
                    state.reversals += usize::from(range.first < before.first);
                    *before = both;
                }
                None => {
                    done.push(*before);
                    *before = range;
                }
            },
        }
    }
    any.then_some(state)
}

/// One range of both, where they overlap or touch.
fn merge(a: ByteRange, b: ByteRange) -> Option<ByteRange> {
    let touch = a.first <= b.last + 1 && b.first <= a.last + 1;
    touch.then(|| ByteRange { first: a.first.min(b.first), last: a.last.max(b.last) })
}

/// A range as asked for (RFC 9110 section 14.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spec {
    /// `a-b`, with a no greater than b.
    Between(u64, u64),
    /// `a-`.
    From(u64),
    /// `-n`, with n above zero.
    Last(u64),
}

impl Spec {
    fn parse(spec: &[u8]) -> Option<Spec> {
        let dash = memchr::memchr(b'-', spec)?;
        let (before, after) = (&spec[..dash], &spec[dash + 1..]);
        match (before.is_empty(), after.is_empty()) {
            (true, _) => number(after).filter(|&n| n > 0).map(Spec::Last),
            (false, true) => number(before).map(Spec::From),
            (false, false) => {
                let (first, last) = (number(before)?, number(after)?);
                (first <= last).then_some(Spec::Between(first, last))
            }
        }
    }

    /// The bytes it means of `size`, which is not zero; `None` where there are none.
    fn of(self, size: u64) -> Option<ByteRange> {
        let (first, last) = match self {
            Spec::Between(first, last) => (first, last.min(size - 1)),
            Spec::From(first) => (first, size - 1),
            Spec::Last(n) => (size.saturating_sub(n), size - 1),
        };
        (first < size).then_some(ByteRange { first, last })
    }
}

/// At least one digit; what does not fit into 64 bits is the largest number that does.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits
        .iter()
        .try_fold(0u64, |n, b| b.is_ascii_digit().then(|| n.saturating_mul(10).saturating_add(u64::from(b - b'0'))))
}

/// Appends the value of `Content-Range` for a part that is sent: `bytes 0-4/10` (RFC 9110 section 14.4).
pub fn write_content_range(out: &mut Vec<u8>, range: ByteRange, size: u64) {
    out.extend_from_slice(b"bytes ");
    write_decimal(out, range.first);
    out.push(b'-');
    write_decimal(out, range.last);
    out.push(b'/');
    write_decimal(out, size);
}

/// Appends the value of `Content-Range` for 416: `bytes */10`.
pub fn write_unsatisfied_range(out: &mut Vec<u8>, size: u64) {
    out.extend_from_slice(b"bytes */");
    write_decimal(out, size);
}

/// A boundary between parts, in hexadecimal: random, so that no representation has it in it by design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary([u8; 16]);

impl Boundary {
    /// The boundary made of 64 random bits.
    pub fn new(random: u64) -> Boundary {
        let digit = |k: usize| b"0123456789abcdef"[(random >> (60 - 4 * k) & 15) as usize];
        Boundary(std::array::from_fn(digit))
    }

    /// Its characters.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The frame of a `multipart/byteranges` body (RFC 9110 section 14.6), with white space and capitals as in Apache.
///
/// The body is, for each range, [`Multipart::write_part_head`] and the bytes of the range, then
/// [`Multipart::write_end`].
#[derive(Clone, Copy, Debug)]
pub struct Multipart<'a> {
    /// Between the parts.
    pub boundary: Boundary,
    /// The `Content-Type` of the whole representation, if it has one.
    pub content_type: Option<&'a [u8]>,
    /// Bytes of the whole representation.
    pub size: u64,
}

impl Multipart<'_> {
    /// Appends the value of the response's own `Content-Type`.
    pub fn write_content_type(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"multipart/byteranges; boundary=");
        out.extend_from_slice(self.boundary.as_bytes());
    }

    /// Appends what stands before the bytes of a range.
    pub fn write_part_head(&self, out: &mut Vec<u8>, range: ByteRange) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(self.boundary.as_bytes());
        if let Some(content_type) = self.content_type {
            out.extend_from_slice(b"\r\nContent-type: ");
            out.extend_from_slice(content_type);
        }
        out.extend_from_slice(b"\r\nContent-range: ");
        write_content_range(out, range, self.size);
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// Appends what stands behind the last range.
    pub fn write_end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(self.boundary.as_bytes());
        out.extend_from_slice(b"--\r\n");
    }

    /// Bytes of the whole body: the response's `Content-Length`. The size has to be one that a file can have, below 2^63.
    pub fn length(&self, ranges: &[ByteRange]) -> u64 {
        let boundary = self.boundary.as_bytes().len();
        let content_type = self.content_type.map_or(0, |value| b"\r\nContent-type: ".len() + value.len());
        let fixed = b"\r\n--".len() + boundary + content_type + b"\r\nContent-range: bytes -/\r\n\r\n".len();
        let head = |range: &ByteRange| (fixed + digits(range.first) + digits(range.last) + digits(self.size)) as u64;
        let parts: u64 = ranges.iter().map(|range| head(range) + range.length()).sum();
        parts + (b"\r\n----\r\n".len() + boundary) as u64
    }
}

/// How many digits a number has in decimal.
fn digits(n: u64) -> usize {
    n.checked_ilog10().map_or(1, |power| power as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNLIMITED: RangeLimits = RangeLimits { ranges: None, overlaps: None, reversals: None };

    /// `-` for the whole, `416`, or the ranges as `a-b` with commas.
    fn selected(value: &str, size: u64, limits: &RangeLimits) -> String {
        let mut several = vec![ByteRange { first: 7, last: 7 }];
        let text = |range: &ByteRange| format!("{}-{}", range.first, range.last);
        match select_ranges(value.as_bytes(), size, limits, &mut several) {
            Selection::Whole => "whole".to_owned(),
            Selection::Unsatisfiable => "416".to_owned(),
            Selection::One(range) => text(&range),
            Selection::Several => several.iter().map(text).collect::<Vec<_>>().join(","),
        }
    }

    #[test]
    fn ranges_of_ten_bytes() {
        for (value, expected) in [
            ("bytes=0-0", "0-0"),
            ("bytes=0-9", "0-9"),
            ("bytes=3-5", "3-5"),
            ("BYTES=3-5", "3-5"),
            ("bytes=3-", "3-9"),
            ("bytes=0-", "0-9"),
            ("bytes=-1", "9-9"),
            ("bytes=-10", "0-9"),
            ("bytes=-11", "0-9"),
            ("bytes=9-100", "9-9"),
            ("bytes=007-008", "7-8"),
            ("bytes=8-99999999999999999999999", "8-9"),
            ("bytes=-99999999999999999999999", "0-9"),
            ("bytes=10-", "416"),
            ("bytes=10-20", "416"),
            ("bytes=10-20,11-", "416"),
            ("bytes=99999999999999999999999-", "416"),
            ("bytes=0-0,9-9", "0-0,9-9"),
            ("bytes=9-9,0-0", "9-9,0-0"),
            ("bytes=0-0,5-5,9-9", "0-0,5-5,9-9"),
            ("bytes= 0-0 ,\t9-9 ", "0-0,9-9"),
            ("bytes=,0-0,,9-9,", "0-0,9-9"),
            ("bytes=20-30,0-0", "0-0"),
            ("bytes=0-0,20-30", "0-0"),
            ("bytes=0-3,2-5", "0-5"),
            ("bytes=0-3,4-5", "0-5"),
            ("bytes=0-3,5-6", "0-3,5-6"),
            ("bytes=4-5,0-3", "0-5"),
            ("bytes=5-6,0-3", "5-6,0-3"),
            ("bytes=2-7,3-4", "2-7"),
            ("bytes=3-4,2-7", "2-7"),
            ("bytes=3-3,0-", "0-9"),
            ("bytes=0-,3-3", "0-9"),
            ("bytes=0-0,5-5,0-0", "0-0,5-5,0-0"),
            ("bytes=0-6,8-9,0-0", "0-6,8-9,0-0"),
            ("bytes=0-6,8-9,0-1", "whole"),
            ("bytes=1-,-9,0-0", "0-9"),
        ] {
            assert_eq!(selected(value, 10, &RangeLimits::default()), expected, "{value}");
        }
    }

    #[test]
    fn ignored_fields() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes= ",
            "bytes=-",
            "bytes=-0",
            "bytes=x",
            "bytes=1",
            "bytes=5-3",
            "bytes=1-2-3",
            "bytes=--1",
            "bytes=+1-2",
            "bytes=1-+2",
            "bytes=1 -2",
            "bytes=1- 2",
            "bytes=0x1-2",
            "bytes=1-2;3-4",
            "bytes=0-0,x",
            "bytes=20-30,x",
            "bytes =0-1",
            "bytes:0-1",
            "octets=0-1",
            "bytes=0-1, bytes=3-4",
            "bytes=\u{661}-2",
        ] {
            assert_eq!(selected(value, 10, &RangeLimits::default()), "whole", "{value}");
        }
        for value in ["bytes=0-0", "bytes=-1", "bytes=0-", "bytes=5-"] {
            assert_eq!(selected(value, 0, &RangeLimits::default()), "whole", "{value}");
        }
    }

    #[test]
    fn limits_give_the_whole() {
        let check = |value: &str, limits: RangeLimits, expected| {
            assert_eq!(selected(value, 1000, &limits), expected, "{value} {limits:?}");
        };
        let ranges = |n| RangeLimits { ranges: Some(n), ..UNLIMITED };
        check("bytes=0-0", ranges(1), "0-0");
        check("bytes=0-0,2-2", ranges(1), "whole");
        check("bytes=0-0,1-1", ranges(1), "0-1");
        check("bytes=0-0", ranges(0), "whole");
        check("bytes=5000-", ranges(0), "whole");
        check("bytes=5000-", ranges(1), "416");
        let overlaps = |n| RangeLimits { overlaps: Some(n), ..UNLIMITED };
        check("bytes=0-5,3-8,20-20", overlaps(1), "0-8,20-20");
        check("bytes=0-5,3-8,8-9", overlaps(1), "whole");
        check("bytes=0-5,3-8", overlaps(0), "whole");
        check("bytes=5000-,0-", overlaps(0), "0-999");
        let reversals = |n| RangeLimits { reversals: Some(n), ..UNLIMITED };
        check("bytes=5-9,3-6,20-20,18-19", reversals(2), "3-9,18-20");
        check("bytes=5-9,3-6,20-20,18-19", reversals(1), "whole");
        check("bytes=9-9,5-5", reversals(0), "9-9,5-5");
        let many: Vec<String> = (0..201).map(|k| format!("{0}-{0}", 2 * k)).collect();
        assert_eq!(selected(&format!("bytes={}", many.join(",")), 1000, &RangeLimits::default()), "whole");
        assert_eq!(
            selected(&format!("bytes={}", many[1..].join(",")), 1000, &RangeLimits::default()),
            many[1..].join(",")
        );
    }

    #[test]
    fn a_single_range_does_not_allocate() {
        let mut several = Vec::new();
        select_ranges(b"bytes=0-5,3-8", 100, &RangeLimits::default(), &mut several);
        assert_eq!(several.capacity(), 0);
    }

    #[test]
    fn a_sum_beyond_64_bits_is_beyond_every_size() {
        assert_eq!(selected("bytes=0-0,5090-,46249-,0-151614", u64::MAX, &UNLIMITED), "whole");
        assert_eq!(selected("bytes=0-", u64::MAX, &UNLIMITED), format!("0-{}", u64::MAX - 1));
    }

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn content_ranges() {
        assert_eq!(
            written(|out| write_content_range(out, ByteRange { first: 0, last: 499 }, 1234)),
            "bytes 0-499/1234"
        );
        assert_eq!(written(|out| write_unsatisfied_range(out, 1234)), "bytes */1234");
    }

    #[test]
    fn a_multipart_frame_is_apaches() {
        let multipart = Multipart { boundary: Boundary::new(0x12ab), content_type: Some(b"text/plain"), size: 10 };
        assert_eq!(written(|out| multipart.write_content_type(out)), "multipart/byteranges; boundary=00000000000012ab");
        let part = "\r\n--00000000000012ab\r\nContent-type: text/plain\r\nContent-range: bytes 3-4/10\r\n\r\n";
        assert_eq!(written(|out| multipart.write_part_head(out, ByteRange { first: 3, last: 4 })), part);
        assert_eq!(written(|out| multipart.write_end(out)), "\r\n--00000000000012ab--\r\n");
        let untyped = Multipart { content_type: None, ..multipart };
        let part = "\r\n--00000000000012ab\r\nContent-range: bytes 3-4/10\r\n\r\n";
        assert_eq!(written(|out| untyped.write_part_head(out, ByteRange { first: 3, last: 4 })), part);
    }

    fn specs() -> impl Strategy<Value = String> {
        let number = || prop_oneof![0..30u64, 0..2000u64];
        prop_oneof![
            6 => (number(), number()).prop_map(|(first, more)| format!("{first}-{}", first + more)),
            1 => number().prop_map(|n| format!("-{}", n + 1)),
            1 => number().prop_map(|n| format!("{n}-")),
            1 => "[0-9, -]{0,6}",
        ]
    }

    proptest! {
        #[test]
        fn what_is_sent_was_asked_for(specs in proptest::collection::vec(specs(), 1..12), size in 1..1500u64) {
            let value = format!("bytes={}", specs.join(","));
            let mut several = Vec::new();
            let ranges = match select_ranges(value.as_bytes(), size, &UNLIMITED, &mut several) {
                Selection::Whole | Selection::Unsatisfiable => vec![],
                Selection::One(range) => vec![range],
                Selection::Several => several,
            };
            // A plain reading of the field: the set of bytes, by their places.
            let mut asked = vec![false; size as usize];
            let all: Vec<Spec> = value["bytes=".len()..].split(',').filter_map(|spec| Spec::parse(spec.trim().as_bytes())).collect();
            for range in all.iter().filter_map(|spec| spec.of(size)) {
                asked[range.first as usize..=range.last as usize].fill(true);
            }
            let mut sent = vec![false; size as usize];
            for range in &ranges {
                prop_assert!(range.first <= range.last && range.last < size);
                sent[range.first as usize..=range.last as usize].fill(true);
            }
            prop_assert!(ranges.is_empty() || sent == asked || all.contains(&Spec::From(0)));
            prop_assert!(ranges.iter().map(ByteRange::length).sum::<u64>() <= size);
        }

        #[test]
        fn the_length_is_that_of_what_is_written(
            ranges in proptest::collection::vec((any::<u64>(), 0..50u64), 1..6), size in any::<u64>(), typed in any::<bool>(),
        ) {
            let ranges: Vec<_> =
                ranges.iter().map(|&(first, more)| ByteRange { first: first / 2, last: first / 2 + more }).collect();
            let multipart =
                Multipart { boundary: Boundary::new(size), content_type: typed.then_some(b"image/png"), size };
            let mut out = Vec::new();
            let mut payload = 0;
            for &range in &ranges {
                multipart.write_part_head(&mut out, range);
                payload += range.length();
            }
            multipart.write_end(&mut out);
            prop_assert_eq!(multipart.length(&ranges), out.len() as u64 + payload);
        }

        #[test]
        fn garbage_does_not_panic(value in proptest::collection::vec(any::<u8>(), 0..40), size in any::<u64>()) {
            let value = [b"bytes=", value.as_slice()].concat();
            select_ranges(&value, size, &RangeLimits::default(), &mut Vec::new());
        }
    }
}
