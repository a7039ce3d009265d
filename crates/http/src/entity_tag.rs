//! Entity tags (RFC 9110 section 8.8.3): compared, and looked for in the lists that conditional requests bring.

use crate::chars::trim_ows;

/// An entity tag taken apart; the mark of a weak one aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// It stands for equivalent representations, not for identical ones: `W/"..."`.
    pub weak: bool,
    /// What is between the quotes.
    pub opaque: &'a [u8],
}

/// How entity tags are compared (RFC 9110 section 8.8.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same byte for byte: neither may be weak.
    Strong,
    /// Equivalent, weak or not.
    Weak,
}

impl<'a> EntityTag<'a> {
    /// Reads an entity tag that takes up the whole of `text`.
    pub fn parse(text: &'a [u8]) -> Option<EntityTag<'a>> {
        let (tag, rest) = EntityTag::first(text)?;
        rest.is_empty().then_some(tag)
    }

    /// Whether both stand for the same representation.
    pub fn matches(&self, other: &EntityTag<'_>, comparison: Comparison) -> bool {
        let allowed = comparison == Comparison::Weak || !(self.weak || other.weak);
        allowed && self.opaque == other.opaque
    }

    /// The entity tag at the start of `text`, and what follows it.
    fn first(text: &'a [u8]) -> Option<(EntityTag<'a>, &'a [u8])> {
        let (weak, quoted) = match text {
            [b'W', b'/', quoted @ ..] => (true, quoted),
            _ => (false, text),
        };
        let [b'"', rest @ ..] = quoted else { return None };
        let end = rest.iter().position(|&b| !is_tag(b))?;
        let after = rest[end..].strip_prefix(b"\"")?;
        Some((EntityTag { weak, opaque: &rest[..end] }, after))
    }
}

/// Byte of an entity tag: visible and no quote, or 0x80 and above (`etagc`).
fn is_tag(b: u8) -> bool {
    b > b' ' && b != b'"' && b != 0x7f
}

/// The entity tags of a list, in order. What is no entity tag is left out up to the next comma, as Apache does.
pub(crate) fn entity_tags(list: &[u8]) -> impl Iterator<Item = EntityTag<'_>> {
    let mut rest = list;
    std::iter::from_fn(move || {
        loop {
            rest = trim_ows(rest);
            if rest.is_empty() {
                return None;
            }
            let tag = EntityTag::first(rest);
            let after = tag.map_or(rest, |(_, after)| after);
            let comma = memchr::memchr(b',', after);
            let alone = trim_ows(&after[..comma.unwrap_or(after.len())]).is_empty();
            rest = comma.map_or(&[][..], |at| &after[at + 1..]);
            match tag {
                Some((tag, _)) if alone => return Some(tag),
                _ => {}
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tags() {
        let strong = |opaque| Some(EntityTag { weak: false, opaque });
        let weak = |opaque| Some(EntityTag { weak: true, opaque });
        let check = |text: &[u8], expected| assert_eq!(EntityTag::parse(text), expected, "{}", text.escape_ascii());
        check(b"\"\"", strong(b""));
        check(b"\"2c-5f\"", strong(b"2c-5f"));
        check(b"\"a,\\b'\xe9\"", strong(b"a,\\b'\xe9"));
        check(b"W/\"x\"", weak(b"x"));
        for bad in [&b""[..], b"x", b"\"", b"\"x", b"x\"", b"w/\"x\"", b"W/x", b"W\"x\"", b"\"x\"y", b"\"a b\"", b"*"] {
            check(bad, None);
        }
    }

    #[test]
    fn comparisons_are_those_of_rfc_9110_section_8_8_3_2() {
        let check = |a: &str, b: &str, strong, weak| {
            let parse = |text: &'static str| EntityTag::parse(text.as_bytes()).unwrap();
            let (a, b) = (parse(Box::leak(a.into())), parse(Box::leak(b.into())));
            assert_eq!(
                (a.matches(&b, Comparison::Strong), a.matches(&b, Comparison::Weak)),
                (strong, weak),
                "{a:?} {b:?}"
            );
        };
        check("W/\"1\"", "W/\"1\"", false, true);
        check("W/\"1\"", "W/\"2\"", false, false);
        check("W/\"1\"", "\"1\"", false, true);
        check("\"1\"", "\"1\"", true, true);
        check("\"1\"", "\"2\"", false, false);
    }

    #[test]
    fn lists() {
        let check = |list: &str, expected: &[&str]| {
            let tag = |tag: EntityTag<'_>| {
                format!("{}{}", if tag.weak { "W/" } else { "" }, String::from_utf8_lossy(tag.opaque))
            };
            assert_eq!(entity_tags(list.as_bytes()).map(tag).collect::<Vec<_>>(), expected, "{list}");
        };
        check("", &[]);
        check("\"a\"", &["a"]);
        check("\"a\", W/\"b\",\"c\"", &["a", "W/b", "c"]);
        check(" ,, \"a\" ,\t\"b\" , ", &["a", "b"]);
        check("\"a,b\", \"c\"", &["a,b", "c"]);
        check("a, \"b\"", &["b"]);
        check("\"a\"x, \"b\"", &["b"]);
        check("\"a\" \"b\", \"c\"", &["c"]);
        check("*, \"b\"", &["b"]);
        check("\"a", &[]);
    }

    proptest! {
        #[test]
        fn every_tag_of_a_list_is_found(tags in proptest::collection::vec((any::<bool>(), "[!#-~]{0,6}"), 0..6)) {
            let text = |(weak, opaque): &(bool, String)| format!("{}\"{opaque}\"", if *weak { "W/" } else { "" });
            let list = tags.iter().map(text).collect::<Vec<_>>().join(" , ");
            let found: Vec<_> = entity_tags(list.as_bytes())
                .map(|tag| (tag.weak, String::from_utf8_lossy(tag.opaque).into_owned())).collect();
            prop_assert_eq!(found, tags);
        }

        #[test]
        fn garbage_ends(list in proptest::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(entity_tags(&list).count() <= list.len());
        }
    }
}
