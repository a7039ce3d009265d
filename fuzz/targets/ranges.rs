//! Range fields: what is selected lies within the representation, never amounts to more than it, holds to the limits, and
//! the length that a multipart answer announces is the length that it has.
#![no_main]

use libfuzzer_sys::fuzz_target;
use manifold_http::{Boundary, ByteRange, Multipart, RangeLimits, Selection, select_ranges};

fuzz_target!(|input: (u64, Option<u32>, Option<u32>, Option<u32>, &[u8])| {
    let (size, ranges, overlaps, reversals, value) = input;
    let mut several = vec![ByteRange { first: 3, last: 3 }];
    for limits in [RangeLimits::default(), RangeLimits { ranges, overlaps, reversals }] {
        let selection = select_ranges(value, size, &limits, &mut several);
        match selection {
            Selection::Whole => {}
            Selection::Unsatisfiable => assert!(size > 0 && several.is_empty()),
            Selection::One(range) => {
                assert!(several.is_empty());
                check(&[range], size, &limits);
            }
            Selection::Several => {
                assert!(several.len() > 1);
                check(&several, size, &limits);
                announced(&several, size, value);
            }
        }
        // A second reading with the same list gives the same.
        let before = several.clone();
        assert_eq!(select_ranges(value, size, &limits, &mut several), selection);
        assert!(selection != Selection::Several || several == before);
    }
});

fn check(ranges: &[ByteRange], size: u64, limits: &RangeLimits) {
    assert!(ranges.iter().all(|range| range.first <= range.last && range.last < size));
    assert!(ranges.iter().map(|range| u128::from(range.length())).sum::<u128>() <= u128::from(size));
    assert!(limits.ranges.is_none_or(|most| ranges.len() <= most as usize));
}

fn announced(ranges: &[ByteRange], size: u64, content_type: &[u8]) {
    for content_type in [None, Some(content_type)] {
        let multipart = Multipart { boundary: Boundary::new(size), content_type, size };
        let mut frame = Vec::new();
        for &range in ranges {
            multipart.write_part_head(&mut frame, range);
        }
        multipart.write_end(&mut frame);
        let payload: u128 = ranges.iter().map(|range| u128::from(range.length())).sum();
        let total = frame.len() as u128 + payload;
        if total <= u128::from(u64::MAX) {
            assert_eq!(u128::from(multipart.length(ranges)), total);
        }
    }
}
