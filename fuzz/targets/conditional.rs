//! Conditional requests and entity tags: a verdict follows the rules of RFC 9110 section 13.2.2 whatever the fields say.
#![no_main]

use libfuzzer_sys::{arbitrary, fuzz_target};
use manifold_http::{Comparison, Conditions, EntityTag, Method, Validators, Verdict, imf_fixdate, parse_http_date};

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    fields: Vec<(u8, &'a [u8])>,
    entity_tag: Option<&'a [u8]>,
    last_modified: Option<u64>,
    age: u8,
}

const NAMES: [&str; 7] =
    ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "if-range", "RANGE", "X-Other"];
const METHODS: [Method; 4] = [Method::Get, Method::Head, Method::Put, Method::Other];

fuzz_target!(|input: Input<'_>| {
    let mut conditions = Conditions::default();
    for (name, value) in &input.fields {
        conditions.add(NAMES[usize::from(*name) % NAMES.len()].as_bytes(), value);
    }
    let now = input.last_modified.unwrap_or_default().saturating_add(u64::from(input.age));
    let resource = Validators { entity_tag: input.entity_tag, last_modified: input.last_modified, now };
    for method in METHODS {
        check(&conditions, method, &resource);
    }
    if let Some(tag) = input.entity_tag.and_then(EntityTag::parse) {
        tags(&tag);
        client_is_up_to_date(input.entity_tag.unwrap_or_default(), &resource);
    }
});

fn check(conditions: &Conditions<'_>, method: Method, resource: &Validators<'_>) {
    let reads = matches!(method, Method::Get | Method::Head);
    let says = |field: &Option<_>| field.is_some();
    let any = |field: &Option<std::borrow::Cow<'_, [u8]>>| field.as_deref().is_some_and(|list| list.starts_with(b"*"));
    match conditions.evaluate(method, resource) {
        Verdict::Proceed { ranges } => {
            assert!(!any(&conditions.if_none_match));
            assert!(!ranges || (method == Method::Get && says(&conditions.range)));
        }
        Verdict::NotModified => {
            assert!(reads && (says(&conditions.if_none_match) || says(&conditions.if_modified_since)));
        }
        Verdict::PreconditionFailed => {
            let reading = says(&conditions.if_match) || says(&conditions.if_unmodified_since);
            assert!(reading || (!reads && says(&conditions.if_none_match)));
            assert!(!(any(&conditions.if_match) && reads));
        }
    }
}

fn tags(tag: &EntityTag<'_>) {
    assert!(tag.matches(tag, Comparison::Weak));
    assert_eq!(tag.matches(tag, Comparison::Strong), !tag.weak);
    let text = [if tag.weak { b"W/".as_slice() } else { b"" }, b"\"", tag.opaque, b"\""].concat();
    assert_eq!(EntityTag::parse(&text), Some(*tag));
}

/// A client that names the tag or the date that there is has the representation.
fn client_is_up_to_date(tag: &[u8], resource: &Validators<'_>) {
    let mut by_tag = Conditions::default();
    by_tag.add(b"if-none-match", b"\"other\"");
    by_tag.add(b"if-none-match", tag);
    assert_eq!(by_tag.evaluate(Method::Get, resource), Verdict::NotModified);
    if let Some(modified) = resource.last_modified {
        let date = imf_fixdate(modified);
        if parse_http_date(&date) == Some(modified) {
            let mut by_date = Conditions::default();
            by_date.add(b"if-modified-since", &date);
            assert_eq!(by_date.evaluate(Method::Head, resource), Verdict::NotModified);
        }
    }
}
