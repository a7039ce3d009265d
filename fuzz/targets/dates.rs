//! HTTP dates: what is read as a date is written and read again as the same second, and every second survives the trip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use manifold_http::{IMF_FIXDATE_SECONDS_MAX, imf_fixdate, parse_http_date};

fuzz_target!(|bytes: &[u8]| {
    if let Some(seconds) = parse_http_date(bytes) {
        // A leap second on the last day of the year 9999 is one more than can be written.
        let written = seconds.min(IMF_FIXDATE_SECONDS_MAX);
        assert_eq!(parse_http_date(&imf_fixdate(seconds)), Some(written));
    }
    if let Some(number) = bytes.first_chunk::<8>() {
        let seconds = u64::from_le_bytes(*number);
        assert_eq!(parse_http_date(&imf_fixdate(seconds)), Some(seconds.min(IMF_FIXDATE_SECONDS_MAX)));
    }
});
