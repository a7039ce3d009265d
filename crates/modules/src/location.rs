//! What holds at a path of the URL (`<Location>`), resolved: which handler is asked, and who may have what is there.

use std::sync::Arc;

use crate::authz_core::Provider;

/// One section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The decoded path that it begins at, as in the configuration; empty is every path.
    pub path: Vec<u8>,
    /// `SetHandler`: a handler, or none (`SetHandler None`); where it is not written, the sections before hold.
    pub handler: Option<Option<Arc<str>>>,
    /// `Require`: any of these grants access. Where none is written, the sections before hold.
    pub require: Vec<Provider>,
}

impl Location {
    /// Whether `path`, decoded and normalised, lies in the section: it is the section's, or is below it.
    fn covers(&self, path: &[u8]) -> bool {
        let own = self.path.as_slice();
        match path.strip_prefix(own) {
            Some(rest) => rest.is_empty() || rest[0] == b'/' || own.is_empty() || own.ends_with(b"/"),
            None => false,
        }
    }
}

/// The sections of a site, in the order of the configuration. Later ones outweigh earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locations(pub Vec<Location>);

impl Locations {
    /// The handler for `path`.
    pub fn handler(&self, path: &[u8]) -> Option<&Arc<str>> {
        self.at(path).find_map(|location| location.handler.as_ref()).and_then(Option::as_ref)
    }

    /// Who may have `path`: any of these; none at all is everybody.
    pub fn require(&self, path: &[u8]) -> &[Provider] {
        self.at(path)
            .map(|location| location.require.as_slice())
            .find(|require| !require.is_empty())
            .unwrap_or_default()
    }

    fn at(&self, path: &[u8]) -> impl Iterator<Item = &Location> {
        self.0.iter().rev().filter(move |location| location.covers(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(path: &str, handler: Option<Option<&str>>, require: &[Provider]) -> Location {
        let handler = handler.map(|name| name.map(Arc::from));
        Location { path: path.into(), handler, require: require.to_vec() }
    }

    #[test]
    fn a_section_ends_where_a_segment_ends() {
        let check = |own: &str, path: &str, expected| {
            assert_eq!(section(own, None, &[]).covers(path.as_bytes()), expected, "{own} and {path}");
        };
        check("/status", "/status", true);
        check("/status", "/status/", true);
        check("/status", "/status/more", true);
        check("/status", "/status-of", false);
        check("/status", "/statu", false);
        check("/status", "/Status", false);
        check("/status", "/x/status", false);
        check("/status/", "/status", false);
        check("/status/", "/status/", true);
        check("/status/", "/status/more", true);
        check("/", "/", true);
        check("/", "/any/thing", true);
        check("", "/", true);
        check("", "/any", true);
    }

    #[test]
    fn later_sections_outweigh_earlier_ones_where_they_say_something() {
        const GRANTED: Provider = Provider::All(true);
        const DENIED: Provider = Provider::All(false);
        let locations = Locations(vec![
            section("", Some(Some("base")), &[]),
            section("/a", Some(Some("first")), &[DENIED]),
            section("/a/b", None, &[GRANTED, Provider::Local]),
            section("/a/b/c", Some(None), &[]),
            section("/a/d", Some(Some("second")), &[GRANTED]),
            section("/a/d", None, &[DENIED]),
            section("/x/y", Some(Some("deep")), &[GRANTED]),
            section("/x", Some(Some("late")), &[DENIED]),
        ]);
        let check = |path: &str, handler: Option<&str>, require: &[Provider]| {
            assert_eq!(locations.handler(path.as_bytes()).map(|name| &**name), handler, "{path}");
            assert_eq!(locations.require(path.as_bytes()), require, "{path}");
        };
        check("/", Some("base"), &[]);
        check("/a", Some("first"), &[DENIED]);
        check("/a/b", Some("first"), &[GRANTED, Provider::Local]);
        check("/a/b/c/d", None, &[GRANTED, Provider::Local]);
        check("/a/d", Some("second"), &[DENIED]);
        // The order of the file counts, not the length of the path.
        check("/x/y", Some("late"), &[DENIED]);
    }
}
