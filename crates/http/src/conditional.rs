//! Conditional requests (RFC 9110 section 13): whether a request is to be carried out, given what the client knows of the
//! resource and what the resource is now.
//!
//! Where the RFC lets the server choose, this is Apache's `ap_meets_conditions`; where Apache departs from the RFC, this
//! does not: `If-Modified-Since` is not looked at beside `If-None-Match`, nor `If-Unmodified-Since` beside `If-Match`;
//! `If-None-Match` is compared weakly with ranges as well; `If-Range` does not undo a 304; and ranges belong to GET.

use std::borrow::Cow;

use crate::entity_tag::entity_tags;
use crate::{Comparison, EntityTag, Method, parse_http_date};

/// The fields of a request that make it conditional or partial, each with all its lines combined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions<'a> {
    /// `If-Match`.
    pub if_match: Option<Cow<'a, [u8]>>,
    /// `If-None-Match`.
    pub if_none_match: Option<Cow<'a, [u8]>>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<Cow<'a, [u8]>>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<Cow<'a, [u8]>>,
    /// `If-Range`.
    pub if_range: Option<Cow<'a, [u8]>>,
    /// `Range`; see [`crate::select_ranges`].
    pub range: Option<Cow<'a, [u8]>>,
}

/// What the server would send of a resource that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validators<'a> {
    /// Its `ETag`, as sent; `None` where it has none.
    pub entity_tag: Option<&'a [u8]>,
    /// Its `Last-Modified`, in seconds since 1970, as sent (never in the future); `None` where it has none.
    pub last_modified: Option<u64>,
    /// When the request came, in seconds since 1970.
    pub now: u64,
}

/// What is to be done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Carry it out.
    Proceed {
        /// Its `Range` field, which is there, is to be looked at.
        ranges: bool,
    },
    /// Answer 304.
    NotModified,
    /// Answer 412.
    PreconditionFailed,
}

/// A date is a strong validator only when it is this many seconds old (Apache's reading of RFC 9110 section 8.8.2.2):
/// before, the resource may change again without its date showing it.
const STRONG_DATE_SECONDS: u64 = 60;

/// Whether a condition that a field states holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Yes,
    No,
}

impl<'a> Conditions<'a> {
    /// Takes note of a field of a request. Lines of the same name are combined by comma and space, as in Apache; of
    /// other names it takes no note.
    pub fn add(&mut self, name: &[u8], value: &'a [u8]) {
        let Some(slot) = self.slot(name) else { return };
        match slot {
            None => *slot = Some(Cow::Borrowed(value)),
            Some(before) => {
                let before = before.to_mut();
                before.extend_from_slice(b", ");
                before.extend_from_slice(value);
            }
        }
    }

    /// Whether [`Conditions::add`] takes note of fields of this name.
    pub(crate) fn concern(name: &[u8]) -> bool {
        Conditions::default().slot(name).is_some()
    }

    fn slot(&mut self, name: &[u8]) -> Option<&mut Option<Cow<'a, [u8]>>> {
        let is = |lower: &[u8]| name.eq_ignore_ascii_case(lower);
        match name.len() {
            5 if is(b"range") => Some(&mut self.range),
            8 if is(b"if-match") => Some(&mut self.if_match),
            8 if is(b"if-range") => Some(&mut self.if_range),
            13 if is(b"if-none-match") => Some(&mut self.if_none_match),
            17 if is(b"if-modified-since") => Some(&mut self.if_modified_since),
            19 if is(b"if-unmodified-since") => Some(&mut self.if_unmodified_since),
            _ => None,
        }
    }

    /// Evaluates them in the order of RFC 9110 section 13.2.2. Only for a request that would succeed without them.
    pub fn evaluate(&self, method: Method, resource: &Validators<'_>) -> Verdict {
        let reads = matches!(method, Method::Get | Method::Head);
        match self.if_match(resource).or_else(|| self.if_unmodified_since(resource)) {
            Some(Holds::No) => return Verdict::PreconditionFailed,
            Some(Holds::Yes) | None => {}
        }
        match self.if_none_match(resource) {
            Some(Holds::No) if reads => return Verdict::NotModified,
            Some(Holds::No) => return Verdict::PreconditionFailed,
            Some(Holds::Yes) => {}
            None if reads && self.if_modified_since(resource) == Some(Holds::No) => return Verdict::NotModified,
            None => {}
        }
        let ranges = method == Method::Get && self.range.is_some();
        Verdict::Proceed { ranges: ranges && self.if_range(resource) != Some(Holds::No) }
    }

    /// RFC 9110 section 13.1.1: any representation will do, or one of those that are listed.
    fn if_match(&self, resource: &Validators<'_>) -> Option<Holds> {
        let list = self.if_match.as_deref()?;
        Some(Holds::of(is_any(list) || resource.is_in(list, Comparison::Strong)))
    }

    /// RFC 9110 section 13.1.2: no representation may there be, or none of those that are listed.
    fn if_none_match(&self, resource: &Validators<'_>) -> Option<Holds> {
        let list = self.if_none_match.as_deref()?;
        Some(Holds::of(!is_any(list) && !resource.is_in(list, Comparison::Weak)))
    }

    /// RFC 9110 section 13.1.4; `None` as well where it is to be ignored.
    fn if_unmodified_since(&self, resource: &Validators<'_>) -> Option<Holds> {
        let date = parse_http_date(self.if_unmodified_since.as_deref()?)?;
        Some(Holds::of(resource.last_modified? <= date))
    }

    /// RFC 9110 section 13.1.3; `None` as well where it is to be ignored. As in Apache, a date in the future says
    /// nothing, and one that is not a strong validator says nothing where a range is asked for.
    fn if_modified_since(&self, resource: &Validators<'_>) -> Option<Holds> {
        let date = parse_http_date(self.if_modified_since.as_deref()?)?;
        if date > resource.now || (self.range.is_some() && !resource.date_is_strong()) {
            return None;
        }
        Some(Holds::of(resource.last_modified? > date))
    }

    /// RFC 9110 section 13.1.5: the very representation of which the client has parts, by a strong validator.
    fn if_range(&self, resource: &Validators<'_>) -> Option<Holds> {
        let value = self.if_range.as_deref()?;
        let same = match (EntityTag::parse(value), resource.tag()) {
            (Some(wanted), Some(tag)) => wanted.matches(&tag, Comparison::Strong),
            (Some(_), None) => false,
            (None, _) => {
                let date = parse_http_date(value);
                date.is_some() && date == resource.last_modified && resource.date_is_strong()
            }
        };
        Some(Holds::of(same))
    }
}

impl Holds {
    fn of(holds: bool) -> Holds {
        if holds { Holds::Yes } else { Holds::No }
    }
}

/// Whether a list of entity tags is `*`, or begins with it.
fn is_any(list: &[u8]) -> bool {
    list.first() == Some(&b'*')
}

impl Validators<'_> {
    fn tag(&self) -> Option<EntityTag<'_>> {
        EntityTag::parse(self.entity_tag?)
    }

    fn is_in(&self, list: &[u8], comparison: Comparison) -> bool {
        self.tag().is_some_and(|tag| entity_tags(list).any(|listed| listed.matches(&tag, comparison)))
    }

    fn date_is_strong(&self) -> bool {
        self.last_modified.is_some_and(|modified| self.now >= modified.saturating_add(STRONG_DATE_SECONDS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imf_fixdate;
    use proptest::prelude::*;

    const PROCEED: Verdict = Verdict::Proceed { ranges: false };
    const RANGES: Verdict = Verdict::Proceed { ranges: true };
    use Verdict::{NotModified, PreconditionFailed};

    /// `Sun, 06 Nov 1994 08:49:37 GMT`.
    const MODIFIED: u64 = 784_111_777;
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const SAME_IN_RFC_850: &str = "Sunday, 06-Nov-94 08:49:37 GMT";
    const SAME_IN_ASCTIME: &str = "Sun Nov  6 08:49:37 1994";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn conditions<'a>(fields: &'a [(&'a str, &'a str)]) -> Conditions<'a> {
        let mut conditions = Conditions::default();
        for (name, value) in fields {
            conditions.add(name.as_bytes(), value.as_bytes());
        }
        conditions
    }

    fn resource<'a>(tag: &'a str, age: u64) -> Validators<'a> {
        let entity_tag = (!tag.is_empty()).then_some(tag.as_bytes());
        Validators { entity_tag, last_modified: Some(MODIFIED), now: MODIFIED + age }
    }

    fn check_of(tag: &str, age: u64, method: Method, fields: &[(&str, &str)], expected: Verdict) {
        let verdict = conditions(fields).evaluate(method, &resource(tag, age));
        assert_eq!(verdict, expected, "{method:?} {fields:?} of {tag}, {age} s old");
    }

    fn check(fields: &[(&str, &str)], expected: Verdict) {
        check_of("\"a\"", 1000, Method::Get, fields, expected);
    }

    #[test]
    fn if_match() {
        for (list, expected) in [
            ("*", PROCEED),
            ("\"a\"", PROCEED),
            ("\"b\", \"a\"", PROCEED),
            ("\"b\"", PreconditionFailed),
            ("W/\"a\"", PreconditionFailed),
            ("a", PreconditionFailed),
            ("", PreconditionFailed),
        ] {
            check(&[("If-Match", list)], expected);
            check_of("\"a\"", 1000, Method::Put, &[("If-Match", list)], expected);
        }
        check_of("W/\"a\"", 1000, Method::Get, &[("If-Match", "W/\"a\"")], PreconditionFailed);
        check_of("", 1000, Method::Get, &[("If-Match", "\"a\"")], PreconditionFailed);
        check_of("", 1000, Method::Get, &[("If-Match", "*")], PROCEED);
    }

    #[test]
    fn if_none_match() {
        for (list, expected) in [
            ("*", NotModified),
            ("\"a\"", NotModified),
            ("W/\"a\"", NotModified),
            ("\"b\",\"a\"", NotModified),
            ("\"b\"", PROCEED),
            ("a", PROCEED),
            ("", PROCEED),
        ] {
            let otherwise = if expected == NotModified { PreconditionFailed } else { PROCEED };
            check(&[("If-None-Match", list)], expected);
            check_of("\"a\"", 0, Method::Head, &[("If-None-Match", list)], expected);
            check_of("W/\"a\"", 0, Method::Get, &[("If-None-Match", list)], expected);
            check_of("\"a\"", 0, Method::Put, &[("If-None-Match", list)], otherwise);
        }
        check_of("", 0, Method::Get, &[("If-None-Match", "\"a\"")], PROCEED);
        check(&[("If-None-Match", "\"b\""), ("if-none-match", "\"a\"")], NotModified);
        check(&[("If-None-Match", "W/\"a\""), ("Range", "bytes=0-")], NotModified);
    }

    #[test]
    fn if_modified_since() {
        for (date, expected) in [
            (SAME, NotModified),
            (SAME_IN_RFC_850, NotModified),
            (SAME_IN_ASCTIME, NotModified),
            (AFTER, NotModified),
            (BEFORE, PROCEED),
            ("Sun, 06 Nov 2094 08:49:37 GMT", PROCEED),
            ("yesterday", PROCEED),
            ("", PROCEED),
        ] {
            check(&[("If-Modified-Since", date)], expected);
            check_of("", 1000, Method::Head, &[("If-Modified-Since", date)], expected);
            check_of("", 1000, Method::Post, &[("If-Modified-Since", date)], PROCEED);
        }
        check_of("", 0, Method::Get, &[("If-Modified-Since", AFTER)], PROCEED);
        check_of("", 0, Method::Get, &[("If-Modified-Since", SAME)], NotModified);
        check_of("", 59, Method::Get, &[("If-Modified-Since", SAME), ("Range", "bytes=0-")], RANGES);
        check_of("", 60, Method::Get, &[("If-Modified-Since", SAME), ("Range", "bytes=0-")], NotModified);
        check(&[("If-Modified-Since", SAME), ("If-Modified-Since", SAME)], PROCEED);
    }

    #[test]
    fn if_unmodified_since() {
        for (date, expected) in
            [(SAME, PROCEED), (AFTER, PROCEED), (BEFORE, PreconditionFailed), ("yesterday", PROCEED), ("", PROCEED)]
        {
            check(&[("If-Unmodified-Since", date)], expected);
            check_of("", 0, Method::Delete, &[("If-Unmodified-Since", date)], expected);
        }
        check_of("", 0, Method::Get, &[("If-Unmodified-Since", BEFORE), ("Range", "bytes=0-")], PreconditionFailed);
    }

    #[test]
    fn a_resource_without_a_date_is_not_judged_by_dates() {
        let resource = Validators { now: MODIFIED, ..Validators::default() };
        let verdict = |name, method| conditions(&[(name, BEFORE), ("Range", "bytes=0-")]).evaluate(method, &resource);
        assert_eq!(verdict("If-Modified-Since", Method::Get), RANGES);
        assert_eq!(verdict("If-Unmodified-Since", Method::Get), RANGES);
        assert_eq!(verdict("If-Range", Method::Get), PROCEED);
    }

    #[test]
    fn tags_go_before_dates() {
        check(&[("If-Match", "\"a\""), ("If-Unmodified-Since", BEFORE)], PROCEED);
        check(&[("If-Match", "\"b\""), ("If-Unmodified-Since", AFTER)], PreconditionFailed);
        check(&[("If-None-Match", "\"b\""), ("If-Modified-Since", SAME)], PROCEED);
        check(&[("If-None-Match", "\"a\""), ("If-Modified-Since", BEFORE)], NotModified);
        check(&[("If-Match", "\"b\""), ("If-None-Match", "\"a\"")], PreconditionFailed);
        check(&[("If-Match", "\"a\""), ("If-None-Match", "\"a\"")], NotModified);
        check(&[("If-Unmodified-Since", BEFORE), ("If-None-Match", "\"a\"")], PreconditionFailed);
    }

    #[test]
    fn if_range() {
        for (value, expected) in [
            ("\"a\"", RANGES),
            ("\"b\"", PROCEED),
            ("W/\"a\"", PROCEED),
            ("\"b\", \"a\"", PROCEED),
            ("*", PROCEED),
            ("a", PROCEED),
            (SAME, RANGES),
            (SAME_IN_RFC_850, RANGES),
            (BEFORE, PROCEED),
            (AFTER, PROCEED),
            ("", PROCEED),
        ] {
            check(&[("Range", "bytes=0-1"), ("If-Range", value)], expected);
            check(&[("If-Range", value)], PROCEED);
        }
        let partial = |validator| [("Range", "bytes=0-1"), ("If-Range", validator)];
        check_of("W/\"a\"", 1000, Method::Get, &partial("W/\"a\""), PROCEED);
        check_of("", 1000, Method::Get, &partial("\"a\""), PROCEED);
        check_of("", 59, Method::Get, &partial(SAME), PROCEED);
        check_of("", 60, Method::Get, &partial(SAME), RANGES);
        check_of("\"a\"", 1000, Method::Head, &partial("\"a\""), PROCEED);
        check(&[("Range", "bytes=0-1"), ("If-Range", "\"a\""), ("If-None-Match", "\"a\"")], NotModified);
    }

    #[test]
    fn ranges_belong_to_get() {
        check(&[("RANGE", "bytes=0-1")], RANGES);
        check(&[], PROCEED);
        check_of("", 0, Method::Head, &[("Range", "bytes=0-1")], PROCEED);
        check_of("", 0, Method::Post, &[("Range", "bytes=0-1")], PROCEED);
    }

    #[test]
    fn lines_are_combined_and_others_left() {
        let all = [("If-Match", "a"), ("X-If-Match", "x"), ("IF-MATCH", "b"), ("Range", "r"), ("if-match", "")];
        let found = conditions(&all);
        assert_eq!(found.if_match.as_deref(), Some(&b"a, b, "[..]));
        assert_eq!(found.range, Some(Cow::Borrowed(&b"r"[..])));
        assert_eq!(
            found,
            Conditions { if_match: found.if_match.clone(), range: found.range.clone(), ..Conditions::default() }
        );
    }

    proptest! {
        #[test]
        fn a_client_that_has_what_there_is_gets_304(opaque in "[!#-~]{0,12}", weak in any::<bool>(), age in 0..200u64) {
            let tag = format!("{}\"{opaque}\"", if weak { "W/" } else { "" });
            let date = String::from_utf8(imf_fixdate(MODIFIED).to_vec()).unwrap();
            let resource = resource(&tag, age);
            for fields in [
                &[("If-None-Match", tag.as_str())][..], &[("If-Modified-Since", date.as_str())],
                &[("If-None-Match", tag.as_str()), ("If-Modified-Since", date.as_str())],
            ] {
                prop_assert_eq!(conditions(fields).evaluate(Method::Get, &resource), NotModified);
            }
            // And one that asks for more of it gets that, if its validator is a strong one.
            let more = |validator| conditions(&[("Range", "bytes=1-"), ("If-Range", validator)]).evaluate(Method::Get, &resource);
            prop_assert_eq!(more(&tag), Verdict::Proceed { ranges: !weak });
            prop_assert_eq!(more(&date), Verdict::Proceed { ranges: age >= STRONG_DATE_SECONDS });
        }

        #[test]
        fn garbage_does_not_panic(values in proptest::collection::vec((0..6usize, proptest::collection::vec(any::<u8>(), 0..30)), 0..8)) {
            const NAMES: [&str; 6] =
                ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range"];
            let mut conditions = Conditions::default();
            for (name, value) in &values {
                conditions.add(NAMES[*name].as_bytes(), value);
            }
            conditions.evaluate(Method::Get, &resource("\"a\"", 100));
        }
    }
}
