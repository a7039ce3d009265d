//! Conditional and partial requests beside Apache's answers, as recorded from httpd 2.4.71 with its default settings: a file of
//! ten bytes, modified on 9 September 2001 at 01:46:40, with the entity tag `"t"`. Where we differ, the row names the reason.

use manifold_http::{Conditions, Method, RangeLimits, Selection, Validators, Verdict, select_ranges};

/// Why we answer otherwise than Apache does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Difference {
    /// Apache ignores the field where there is white space between ranges, or an empty one at the beginning; RFC 9110
    /// section 5.6.1 allows both in a list.
    List,
    /// Apache ignores the field where a number does not fit into 63 bits; RFC 9110 section 14.1.1 has us read it.
    LargeNumber,
    /// Apache compares strongly where a range is asked for; RFC 9110 section 13.1.2 demands the weak comparison.
    WeakTagWithRange,
    /// Apache looks at dates beside entity tags; RFC 9110 sections 13.1.3 and 13.1.4 have us ignore them there.
    DateBesideTag,
    /// Apache answers with the part that a valid If-Range goes with, though the client has the whole; in RFC 9110 section
    /// 13.2.2 that is asked first.
    IfRangeUndoes,
    /// Apache takes days of one digit and anything for the time zone, which it reads as GMT; RFC 9110 section 5.6.7
    /// has three forms of a date, and a date that is none is ignored.
    Date,
    /// Apache answers HEAD with a range's head; RFC 9110 section 14.2 has ranges for GET alone.
    HeadWithRange,
}

use Difference as D;

/// Method, fields, Apache's answer (with the parts of a 206), and why ours differs.
#[rustfmt::skip]
#[expect(clippy::type_complexity, reason = "one row is one request")]
const REQUESTS: &[(Method, &[(&str, &str)], &str, Option<Difference>)] = &[
    (Method::Get, &[("Range", "bytes=0-0")], "206 0-0", None),
    (Method::Get, &[("Range", "bytes=0-9")], "206 0-9", None),
    (Method::Get, &[("Range", "bytes=0-")], "206 0-9", None),
    (Method::Get, &[("Range", "bytes=5-")], "206 5-9", None),
    (Method::Get, &[("Range", "bytes=-1")], "206 9-9", None),
    (Method::Get, &[("Range", "bytes=-10")], "206 0-9", None),
    (Method::Get, &[("Range", "bytes=-11")], "206 0-9", None),
    (Method::Get, &[("Range", "bytes=-0")], "200", None),
    (Method::Get, &[("Range", "bytes=10-")], "416", None),
    (Method::Get, &[("Range", "bytes=20-")], "416", None),
    (Method::Get, &[("Range", "bytes=5-3")], "200", None),
    (Method::Get, &[("Range", "bytes=x")], "200", None),
    (Method::Get, &[("Range", "bytes=")], "200", None),
    (Method::Get, &[("Range", "bytes=0-0,9-9")], "206 0-0,9-9", None),
    (Method::Get, &[("Range", "bytes=0-0,5-5,9-9")], "206 0-0,5-5,9-9", None),
    (Method::Get, &[("Range", "bytes=0-3,2-5")], "206 0-5", None),
    (Method::Get, &[("Range", "bytes=0-3,4-5")], "206 0-5", None),
    (Method::Get, &[("Range", "bytes=4-5,0-3")], "206 0-5", None),
    (Method::Get, &[("Range", "bytes=5-6,0-3")], "206 5-6,0-3", None),
    (Method::Get, &[("Range", "bytes=0-0,20-")], "206 0-0", None),
    (Method::Get, &[("Range", "bytes=20-30,40-")], "416", None),
    (Method::Get, &[("Range", "bytes=0-,0-0")], "206 0-9", None),
    (Method::Get, &[("Range", "bytes=0-0 ,9-9")], "200", Some(D::List)),
    (Method::Get, &[("Range", "bytes=0-0, 9-9")], "200", Some(D::List)),
    (Method::Get, &[("Range", "bytes=,0-0")], "200", Some(D::List)),
    (Method::Get, &[("Range", "bytes=0-0,")], "206 0-0", None),
    (Method::Get, &[("Range", "bytes= 0-0")], "200", Some(D::List)),
    (Method::Get, &[("Range", "bytes=0 -1")], "200", None),
    (Method::Get, &[("Range", "bytes=0- 1")], "200", None),
    (Method::Get, &[("Range", "bytes=+1-2")], "200", None),
    (Method::Get, &[("Range", "bytes=99999999999999999999-")], "200", Some(D::LargeNumber)),
    (Method::Get, &[("Range", "bytes=0-99999999999999999999")], "200", Some(D::LargeNumber)),
    (Method::Get, &[("Range", "bytes=-99999999999999999999")], "200", Some(D::LargeNumber)),
    (Method::Get, &[("Range", "bytes=1-2-3")], "200", None),
    (Method::Get, &[("Range", "bytes=0-0,0-0,0-0")], "206 0-0", None),
    (Method::Get, &[("Range", "bytes=0-5,3-9,1-2")], "206 0-9", None),
    (Method::Get, &[("Range", "bytes=9-9,8-8,7-7")], "206 7-9", None),
    (Method::Get, &[("Range", "bytes=1-,-9,0-0")], "206 0-9", None),
    (Method::Get, &[("Range", "bytes=0-6,8-9,0-1")], "200", None),
    (Method::Get, &[("Range", "bytes=0x1-2")], "200", None),
    (Method::Get, &[("Range", "octets=0-1")], "200", None),
    (Method::Get, &[("range", "BYTES=0-1")], "206 0-1", None),
    (Method::Get, &[("Range", "bytes = 0-1")], "200", None),
    (Method::Get, &[("Range", "bytes=0-0"), ("Range", "bytes=9-9")], "200", None),
    (Method::Get, &[("If-Match", "\"t\"")], "200", None),
    (Method::Get, &[("If-Match", "\"t\""), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-None-Match", "\"t\"")], "304", None),
    (Method::Get, &[("If-None-Match", "\"t\""), ("Range", "bytes=0-1")], "304", None),
    (Method::Get, &[("If-Match", "W/\"t\"")], "412", None),
    (Method::Get, &[("If-Match", "W/\"t\""), ("Range", "bytes=0-1")], "412", None),
    (Method::Get, &[("If-None-Match", "W/\"t\"")], "304", None),
    (Method::Get, &[("If-None-Match", "W/\"t\""), ("Range", "bytes=0-1")], "206 0-1", Some(D::WeakTagWithRange)),
    (Method::Get, &[("If-Match", "\"x\"")], "412", None),
    (Method::Get, &[("If-Match", "\"x\""), ("Range", "bytes=0-1")], "412", None),
    (Method::Get, &[("If-None-Match", "\"x\"")], "200", None),
    (Method::Get, &[("If-None-Match", "\"x\""), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Match", "*")], "200", None),
    (Method::Get, &[("If-Match", "*"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-None-Match", "*")], "304", None),
    (Method::Get, &[("If-None-Match", "*"), ("Range", "bytes=0-1")], "304", None),
    (Method::Get, &[("If-Match", "\"x\", \"t\"")], "200", None),
    (Method::Get, &[("If-Match", "\"x\", \"t\""), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-None-Match", "\"x\", \"t\"")], "304", None),
    (Method::Get, &[("If-None-Match", "\"x\", \"t\""), ("Range", "bytes=0-1")], "304", None),
    (Method::Get, &[("If-Match", "\"t\", \"x\"")], "200", None),
    (Method::Get, &[("If-Match", "\"t\", \"x\""), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-None-Match", "\"t\", \"x\"")], "304", None),
    (Method::Get, &[("If-None-Match", "\"t\", \"x\""), ("Range", "bytes=0-1")], "304", None),
    (Method::Get, &[("If-Match", "x")], "412", None),
    (Method::Get, &[("If-Match", "x"), ("Range", "bytes=0-1")], "412", None),
    (Method::Get, &[("If-None-Match", "x")], "200", None),
    (Method::Get, &[("If-None-Match", "x"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Match", "")], "412", None),
    (Method::Get, &[("If-Match", ""), ("Range", "bytes=0-1")], "412", None),
    (Method::Get, &[("If-None-Match", "")], "200", None),
    (Method::Get, &[("If-None-Match", ""), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Match", "\"x\",W/\"t\"")], "412", None),
    (Method::Get, &[("If-Match", "\"x\",W/\"t\""), ("Range", "bytes=0-1")], "412", None),
    (Method::Get, &[("If-None-Match", "\"x\",W/\"t\"")], "304", None),
    (Method::Get, &[("If-None-Match", "\"x\",W/\"t\""), ("Range", "bytes=0-1")], "206 0-1", Some(D::WeakTagWithRange)),
    (Method::Get, &[("If-Match", "*, \"x\"")], "200", None),
    (Method::Get, &[("If-Match", "*, \"x\""), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-None-Match", "*, \"x\"")], "304", None),
    (Method::Get, &[("If-None-Match", "*, \"x\""), ("Range", "bytes=0-1")], "304", None),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT")], "304", None),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT"), ("Range", "bytes=0-1")], "304", None),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:40 GMT")], "200", None),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:40 GMT"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Range", "Sun, 09 Sep 2001 01:46:40 GMT")], "200", None),
    (Method::Get, &[("If-Range", "Sun, 09 Sep 2001 01:46:40 GMT"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:39 GMT")], "200", None),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:39 GMT"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:39 GMT")], "412", None),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:39 GMT"), ("Range", "bytes=0-1")], "412", None),
    (Method::Get, &[("If-Range", "Sun, 09 Sep 2001 01:46:39 GMT")], "200", None),
    (Method::Get, &[("If-Range", "Sun, 09 Sep 2001 01:46:39 GMT"), ("Range", "bytes=0-1")], "200", None),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:41 GMT")], "304", None),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:41 GMT"), ("Range", "bytes=0-1")], "304", None),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:41 GMT")], "200", None),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:41 GMT"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Range", "Sun, 09 Sep 2001 01:46:41 GMT")], "200", None),
    (Method::Get, &[("If-Range", "Sun, 09 Sep 2001 01:46:41 GMT"), ("Range", "bytes=0-1")], "200", None),
    (Method::Get, &[("If-Modified-Since", "Sunday, 09-Sep-01 01:46:40 GMT")], "304", None),
    (Method::Get, &[("If-Modified-Since", "Sunday, 09-Sep-01 01:46:40 GMT"), ("Range", "bytes=0-1")], "304", None),
    (Method::Get, &[("If-Unmodified-Since", "Sunday, 09-Sep-01 01:46:40 GMT")], "200", None),
    (Method::Get, &[("If-Unmodified-Since", "Sunday, 09-Sep-01 01:46:40 GMT"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Range", "Sunday, 09-Sep-01 01:46:40 GMT")], "200", None),
    (Method::Get, &[("If-Range", "Sunday, 09-Sep-01 01:46:40 GMT"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Modified-Since", "Sun Sep  9 01:46:40 2001")], "304", None),
    (Method::Get, &[("If-Modified-Since", "Sun Sep  9 01:46:40 2001"), ("Range", "bytes=0-1")], "304", None),
    (Method::Get, &[("If-Unmodified-Since", "Sun Sep  9 01:46:40 2001")], "200", None),
    (Method::Get, &[("If-Unmodified-Since", "Sun Sep  9 01:46:40 2001"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Range", "Sun Sep  9 01:46:40 2001")], "200", None),
    (Method::Get, &[("If-Range", "Sun Sep  9 01:46:40 2001"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2091 01:46:40 GMT")], "200", None),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2091 01:46:40 GMT"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2091 01:46:40 GMT")], "200", None),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2091 01:46:40 GMT"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Range", "Sun, 09 Sep 2091 01:46:40 GMT")], "200", None),
    (Method::Get, &[("If-Range", "Sun, 09 Sep 2091 01:46:40 GMT"), ("Range", "bytes=0-1")], "200", None),
    (Method::Get, &[("If-Modified-Since", "yesterday")], "200", None),
    (Method::Get, &[("If-Modified-Since", "yesterday"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Unmodified-Since", "yesterday")], "200", None),
    (Method::Get, &[("If-Unmodified-Since", "yesterday"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Range", "yesterday")], "200", None),
    (Method::Get, &[("If-Range", "yesterday"), ("Range", "bytes=0-1")], "200", None),
    (Method::Get, &[("If-Modified-Since", "0")], "200", None),
    (Method::Get, &[("If-Modified-Since", "0"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Unmodified-Since", "0")], "200", None),
    (Method::Get, &[("If-Unmodified-Since", "0"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Range", "0")], "200", None),
    (Method::Get, &[("If-Range", "0"), ("Range", "bytes=0-1")], "200", None),
    (Method::Get, &[("If-Modified-Since", "")], "200", None),
    (Method::Get, &[("If-Modified-Since", ""), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Unmodified-Since", "")], "200", None),
    (Method::Get, &[("If-Unmodified-Since", ""), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Range", "")], "200", None),
    (Method::Get, &[("If-Range", ""), ("Range", "bytes=0-1")], "200", None),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 UTC")], "304", Some(D::Date)),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 UTC"), ("Range", "bytes=0-1")], "304", Some(D::Date)),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:40 UTC")], "200", None),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:40 UTC"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Range", "Sun, 09 Sep 2001 01:46:40 UTC")], "200", None),
    (Method::Get, &[("If-Range", "Sun, 09 Sep 2001 01:46:40 UTC"), ("Range", "bytes=0-1")], "206 0-1", Some(D::Date)),
    (Method::Get, &[("If-Modified-Since", "sun, 09 sep 2001 01:46:40 gmt")], "200", None),
    (Method::Get, &[("If-Modified-Since", "sun, 09 sep 2001 01:46:40 gmt"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Unmodified-Since", "sun, 09 sep 2001 01:46:40 gmt")], "200", None),
    (Method::Get, &[("If-Unmodified-Since", "sun, 09 sep 2001 01:46:40 gmt"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Range", "sun, 09 sep 2001 01:46:40 gmt")], "200", None),
    (Method::Get, &[("If-Range", "sun, 09 sep 2001 01:46:40 gmt"), ("Range", "bytes=0-1")], "200", None),
    (Method::Get, &[("If-Modified-Since", "Sun, 9 Sep 2001 01:46:40 GMT")], "304", Some(D::Date)),
    (Method::Get, &[("If-Modified-Since", "Sun, 9 Sep 2001 01:46:40 GMT"), ("Range", "bytes=0-1")], "304", Some(D::Date)),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 9 Sep 2001 01:46:40 GMT")], "200", None),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 9 Sep 2001 01:46:40 GMT"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Range", "Sun, 9 Sep 2001 01:46:40 GMT")], "200", None),
    (Method::Get, &[("If-Range", "Sun, 9 Sep 2001 01:46:40 GMT"), ("Range", "bytes=0-1")], "206 0-1", Some(D::Date)),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT; length=10")], "304", Some(D::Date)),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT; length=10"), ("Range", "bytes=0-1")], "304", Some(D::Date)),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:40 GMT; length=10")], "200", None),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:40 GMT; length=10"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Range", "Sun, 09 Sep 2001 01:46:40 GMT; length=10")], "200", None),
    (Method::Get, &[("If-Range", "Sun, 09 Sep 2001 01:46:40 GMT; length=10"), ("Range", "bytes=0-1")], "206 0-1", Some(D::Date)),
    (Method::Get, &[("If-Modified-Since", "Mon, 09 Sep 2001 01:46:40 GMT")], "304", None),
    (Method::Get, &[("If-Modified-Since", "Mon, 09 Sep 2001 01:46:40 GMT"), ("Range", "bytes=0-1")], "304", None),
    (Method::Get, &[("If-Unmodified-Since", "Mon, 09 Sep 2001 01:46:40 GMT")], "200", None),
    (Method::Get, &[("If-Unmodified-Since", "Mon, 09 Sep 2001 01:46:40 GMT"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Range", "Mon, 09 Sep 2001 01:46:40 GMT")], "200", None),
    (Method::Get, &[("If-Range", "Mon, 09 Sep 2001 01:46:40 GMT"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40")], "200", None),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:40")], "200", None),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:40"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Range", "Sun, 09 Sep 2001 01:46:40")], "200", None),
    (Method::Get, &[("If-Range", "Sun, 09 Sep 2001 01:46:40"), ("Range", "bytes=0-1")], "200", None),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 +0000")], "304", Some(D::Date)),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 +0000"), ("Range", "bytes=0-1")], "304", Some(D::Date)),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:40 +0000")], "200", None),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:40 +0000"), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Range", "Sun, 09 Sep 2001 01:46:40 +0000")], "200", None),
    (Method::Get, &[("If-Range", "Sun, 09 Sep 2001 01:46:40 +0000"), ("Range", "bytes=0-1")], "206 0-1", Some(D::Date)),
    (Method::Get, &[("If-Range", "\"t\""), ("Range", "bytes=0-1")], "206 0-1", None),
    (Method::Get, &[("If-Range", "W/\"t\""), ("Range", "bytes=0-1")], "200", None),
    (Method::Get, &[("If-Range", "\"x\""), ("Range", "bytes=0-1")], "200", None),
    (Method::Get, &[("If-Range", "*"), ("Range", "bytes=0-1")], "200", None),
    (Method::Get, &[("If-Range", "\"t\", \"x\""), ("Range", "bytes=0-1")], "200", None),
    (Method::Get, &[("If-None-Match", "\"x\""), ("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT")], "200", None),
    (Method::Get, &[("If-None-Match", "\"t\""), ("If-Modified-Since", "Sun, 09 Sep 2001 01:46:39 GMT")], "200", Some(D::DateBesideTag)),
    (Method::Get, &[("If-Match", "\"t\""), ("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:39 GMT")], "412", Some(D::DateBesideTag)),
    (Method::Get, &[("If-Match", "\"t\""), ("If-None-Match", "\"t\"")], "304", None),
    (Method::Get, &[("If-None-Match", "\"t\""), ("Range", "bytes=0-1"), ("If-Range", "\"t\"")], "206 0-1", Some(D::IfRangeUndoes)),
    (Method::Get, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT"), ("Range", "bytes=0-1"), ("If-Range", "\"t\"")], "206 0-1", Some(D::IfRangeUndoes)),
    (Method::Get, &[("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:39 GMT"), ("If-None-Match", "\"t\"")], "412", None),
    (Method::Head, &[("Range", "bytes=0-0")], "206 0-0", Some(D::HeadWithRange)),
    (Method::Head, &[("Range", "bytes=10-")], "416", Some(D::HeadWithRange)),
    (Method::Head, &[("Range", "bytes=0-0"), ("Range", "bytes=9-9")], "200", None),
    (Method::Head, &[("If-None-Match", "\"t\"")], "304", None),
    (Method::Head, &[("If-None-Match", "\"t\""), ("Range", "bytes=0-1")], "304", None),
    (Method::Head, &[("If-Match", "\"x\"")], "412", None),
    (Method::Head, &[("If-Match", "\"x\""), ("Range", "bytes=0-1")], "412", None),
    (Method::Head, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT")], "304", None),
    (Method::Head, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:39 GMT")], "200", None),
    (Method::Head, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:41 GMT")], "304", None),
    (Method::Head, &[("If-Modified-Since", "Sunday, 09-Sep-01 01:46:40 GMT")], "304", None),
    (Method::Head, &[("If-Modified-Since", "Sun Sep  9 01:46:40 2001")], "304", None),
    (Method::Head, &[("If-Modified-Since", "Sun, 09 Sep 2091 01:46:40 GMT")], "200", None),
    (Method::Head, &[("If-Modified-Since", "yesterday")], "200", None),
    (Method::Head, &[("If-Modified-Since", "0")], "200", None),
    (Method::Head, &[("If-Modified-Since", "")], "200", None),
    (Method::Head, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 UTC")], "304", Some(D::Date)),
    (Method::Head, &[("If-Modified-Since", "sun, 09 sep 2001 01:46:40 gmt")], "200", None),
    (Method::Head, &[("If-Modified-Since", "Sun, 9 Sep 2001 01:46:40 GMT")], "304", Some(D::Date)),
    (Method::Head, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT; length=10")], "304", Some(D::Date)),
    (Method::Head, &[("If-Modified-Since", "Mon, 09 Sep 2001 01:46:40 GMT")], "304", None),
    (Method::Head, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40")], "200", None),
    (Method::Head, &[("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 +0000")], "304", Some(D::Date)),
    (Method::Head, &[("If-None-Match", "\"t\""), ("If-Modified-Since", "Sun, 09 Sep 2001 01:46:39 GMT")], "200", Some(D::DateBesideTag)),
    (Method::Head, &[("If-None-Match", "\"t\""), ("Range", "bytes=0-1"), ("If-Range", "\"t\"")], "206 0-1", Some(D::HeadWithRange)),
];

const SIZE: u64 = 10;
/// 9 September 2001, 01:46:40.
const MODIFIED: u64 = 1_000_000_000;
/// Long after, and before the date in the future that some rows have.
const NOW: u64 = MODIFIED + 800_000_000;

fn ours(method: Method, fields: &[(&str, &str)]) -> String {
    let mut conditions = Conditions::default();
    for (name, value) in fields {
        conditions.add(name.as_bytes(), value.as_bytes());
    }
    let resource = Validators { entity_tag: Some(b"\"t\""), last_modified: Some(MODIFIED), now: NOW };
    let range = match conditions.evaluate(method, &resource) {
        Verdict::NotModified => return "304".to_owned(),
        Verdict::PreconditionFailed => return "412".to_owned(),
        Verdict::Proceed { ranges } => conditions.range.as_deref().filter(|_| ranges),
    };
    let Some(range) = range else { return "200".to_owned() };
    let mut several = Vec::new();
    match select_ranges(range, SIZE, &RangeLimits::default(), &mut several) {
        Selection::Whole => return "200".to_owned(),
        Selection::Unsatisfiable => return "416".to_owned(),
        Selection::One(range) => several.push(range),
        Selection::Several => {}
    }
    let parts: Vec<_> = several.iter().map(|range| format!("{}-{}", range.first, range.last)).collect();
    format!("206 {}", parts.join(","))
}

#[test]
fn requests() {
    for &(method, fields, apache, difference) in REQUESTS {
        let ours = ours(method, fields);
        match difference {
            None => assert_eq!(ours, apache, "{method:?} {fields:?}"),
            Some(why) => assert_ne!(ours, apache, "no longer {why:?}: {method:?} {fields:?}"),
        }
    }
}
