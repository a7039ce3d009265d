//! Content negotiation by `Accept-Encoding` (RFC 9110 section 12.5.3): which of the content codings that a server has ready a
//! client shall get, if any.

/// A content coding that a server may have ready (RFC 9110 section 8.4.1, RFC 7932, RFC 8878).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentCoding {
    /// `br`.
    Brotli,
    /// `zstd`.
    Zstd,
    /// `gzip`, which clients may also call `x-gzip`.
    Gzip,
}

/// What a client accepts, each as a weight in thousandths; 0 is refusal. `None` where nothing was said of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptEncoding {
    codings: [Option<u16>; ContentCoding::ALL.len()],
    identity: Option<u16>,
    any: Option<u16>,
}

impl ContentCoding {
    /// All of them, each at the place of its number.
    pub const ALL: [ContentCoding; 3] = [ContentCoding::Brotli, ContentCoding::Zstd, ContentCoding::Gzip];

    /// Its name, as in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            ContentCoding::Brotli => "br",
            ContentCoding::Zstd => "zstd",
            ContentCoding::Gzip => "gzip",
        }
    }

    /// Extension of the names of files in it, without a dot.
    pub fn extension(self) -> &'static str {
        match self {
            ContentCoding::Brotli => "br",
            ContentCoding::Zstd => "zst",
            ContentCoding::Gzip => "gz",
        }
    }

    /// The coding called `name`, in any case of letters.
    pub fn named(name: &[u8]) -> Option<ContentCoding> {
        if name.eq_ignore_ascii_case(b"x-gzip") {
            return Some(ContentCoding::Gzip);
        }
        ContentCoding::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }
}

impl AcceptEncoding {
    /// Reads the values of all `Accept-Encoding` fields of a request, in order. Of a coding that is named twice the first weight
    /// counts. What does not follow the grammar is left out: a coding with a weight that nobody can read is not accepted by it.
    pub fn parse<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> AcceptEncoding {
        let mut accept = AcceptEncoding::default();
        for element in values.into_iter().flat_map(|value| value.split(|&byte| byte == b',')) {
            let (name, weight) = match element.iter().position(|&byte| byte == b';') {
                None => (element, Some(1000)),
                Some(at) => (&element[..at], weight(&element[at + 1..])),
            };
            let Some(weight) = weight else { continue };
            if let Some(place) = accept.place(name.trim_ascii()) {
                place.get_or_insert(weight);
            }
        }
        accept
    }

    /// The coding to send, of those that are `ready`; `None` is the representation without any. The one with the greatest
    /// weight is chosen, of several the one that stands first in `ready`. The plain representation is chosen where the client
    /// prefers it, where it accepts no coding that is ready, and where it says nothing at all.
    pub fn choose(&self, ready: impl IntoIterator<Item = ContentCoding>) -> Option<ContentCoding> {
        // Not named and not excluded, the plain representation is acceptable, but anything asked for comes before it.
        let plain = self.identity.or(self.any).unwrap_or(0);
        // One less than the least that is enough, so that the first of equals is kept.
        let (mut best, mut beaten) = (None, plain.max(1) - 1);
        for coding in ready {
            let weight = self.weight(coding);
            if weight > beaten {
                (best, beaten) = (Some(coding), weight);
            }
        }
        best
    }

    /// The weight of `coding` in thousandths; 0 where it is not acceptable.
    pub fn weight(&self, coding: ContentCoding) -> u16 {
        self.codings[coding as usize].or(self.any).unwrap_or(0)
    }

    fn place(&mut self, name: &[u8]) -> Option<&mut Option<u16>> {
        if name == b"*" {
            return Some(&mut self.any);
        }
        if name.eq_ignore_ascii_case(b"identity") {
            return Some(&mut self.identity);
        }
        ContentCoding::named(name).map(|coding| &mut self.codings[coding as usize])
    }
}

/// `q=` and a number from 0 to 1 with at most three decimals (RFC 9110 section 12.4.2), in thousandths.
fn weight(parameter: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', one, decimals @ ..] = parameter.trim_ascii() else { return None };
    let decimals = match decimals {
        [] => decimals,
        [b'.', decimals @ ..] if decimals.len() <= 3 => decimals,
        _ => return None,
    };
    let mut weight = u16::from(one.checked_sub(b'0').filter(|&digit| digit <= 1)?);
    for place in 0..3 {
        let digit = decimals.get(place).copied().unwrap_or(b'0');
        weight = weight * 10 + u16::from(digit.checked_sub(b'0').filter(|&digit| digit <= 9)?);
    }
    (weight <= 1000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is chosen of `br`, `zstd` and `gzip`, preferred in this order by the server.
    #[track_caller]
    fn check(values: &[&str], expected: &str) {
        let accept = AcceptEncoding::parse(values.iter().map(|value| value.as_bytes()));
        let chosen = accept.choose(ContentCoding::ALL);
        assert_eq!(chosen.map_or("plain", ContentCoding::name), expected, "{values:?}");
    }

    #[test]
    fn the_greatest_weight_is_chosen_and_the_servers_order_breaks_ties() {
        check(&[], "plain");
        check(&[""], "plain");
        check(&["gzip"], "gzip");
        check(&["x-gzip"], "gzip");
        check(&["GZip;Q=0.1"], "gzip");
        check(&["gzip, deflate, br, zstd"], "br");
        check(&["gzip, deflate, zstd"], "zstd");
        check(&["gzip", "br"], "br");
        check(&["gzip;q=1.0, br;q=0.9"], "gzip");
        check(&["gzip;q=0.5 ,\tbr;q=0.501"], "br");
        check(&["br ; q=0.001"], "br");
        check(&["deflate, compress"], "plain");
        check(&["*"], "br");
        check(&["*, br;q=0"], "zstd");
        check(&["gzip, *;q=0"], "gzip");
        check(&["*;q=0"], "plain");
        check(&[", ,gzip,,"], "gzip");
        check(&["br;q=0.2, br"], "br");
    }

    #[test]
    fn the_plain_representation_is_chosen_where_it_is_preferred() {
        check(&["identity"], "plain");
        check(&["identity, gzip"], "gzip");
        check(&["identity;q=1, gzip;q=0.9"], "plain");
        check(&["identity;q=0.5, gzip;q=0.5"], "gzip");
        check(&["gzip;q=0.5, *;q=0.6, br;q=0, zstd;q=0"], "plain");
        // Nothing else is ready: what was excluded is still better than no answer.
        check(&["identity;q=0"], "plain");
        check(&["identity;q=0, gzip;q=0.001"], "gzip");
        check(&["br;q=0, gzip;q=0, zstd;q=0.0"], "plain");
    }

    #[test]
    fn what_does_not_follow_the_grammar_is_not_accepted() {
        let weights =
            ["1.1", "2", "0.1234", "", ".5", "-1", "0.a", " 1", "0.5;x=1", "1.001"].map(|q| format!("gzip;q={q}"));
        let others = ["gzip;q", "gzip;", "gzip;level=1", "gzip q=1", "gz ip", "\"gzip\"", "g\0zip"].map(str::to_owned);
        for bad in weights.iter().chain(&others) {
            check(&[bad], "plain");
            check(&[bad, "br;q=0.1"], "br");
        }
        // A point without decimals is in the grammar.
        check(&["gzip;q=1., br;q=0."], "gzip");
    }

    #[test]
    fn only_what_is_ready_is_chosen() {
        let accept = AcceptEncoding::parse([&b"br, gzip;q=0.5"[..]]);
        assert_eq!(accept.choose([ContentCoding::Gzip, ContentCoding::Zstd]), Some(ContentCoding::Gzip));
        assert_eq!(accept.choose([]), None);
        let both = AcceptEncoding::parse([&b"br, gzip"[..]]);
        assert_eq!(both.choose([ContentCoding::Gzip, ContentCoding::Brotli]), Some(ContentCoding::Gzip));
    }
}
