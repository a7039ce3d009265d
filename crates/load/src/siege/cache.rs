//! `cache = true`: a user asks for a page again only if it has changed, by what the last answer said of it (RFC 9110, section 13.1). As in
//! siege, pages are kept up to their `Expires`, and not without one.

use std::collections::HashMap;

use manifold_http::parse_http_date;

use super::answer::Answer;

/// Pages that a user remembers at most.
const PAGES_MAX: usize = 10_000;

/// What an answer says of its page's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// `Last-Modified`, for `If-Modified-Since`.
    pub modified: Option<String>,
    /// `ETag`, for `If-None-Match`.
    pub tag: Option<String>,
}

/// What one user remembers, by URL.
#[derive(Debug, Default)]
pub struct Cache {
    /// With the second, since 1970, up to which it is kept.
    pages: HashMap<String, (u64, Validators)>,
}

impl Cache {
    /// An answer came for this URL.
    pub fn remember(&mut self, url: &str, answer: &Answer) {
        let field = |name| answer.fields(name).next().map(str::to_owned);
        let validators = Validators { modified: field("Last-Modified"), tag: field("ETag") };
        let known = self.pages.contains_key(url);
        let expires = answer.fields("Expires").next().and_then(|date| parse_http_date(date.as_bytes()));
        if let Some(expires) = expires
            && validators != Validators::default()
            && (known || self.pages.len() < PAGES_MAX)
        {
            self.pages.insert(url.to_owned(), (expires, validators));
        }
    }

    /// What the last answer for this URL said, if that holds at `now`, seconds since 1970.
    pub fn of(&self, url: &str, now: u64) -> Validators {
        let known = self.pages.get(url).filter(|(expires, _)| *expires > now);
        known.map(|(_, validators)| validators.clone()).unwrap_or_default()
    }
}
