//! What a page needs besides itself, found as siege finds it: no HTML parser, but words between `<` and `>`.
//!
//! That siege takes `href` of `stylesheet` links, `src` of images and scripts, `background` of a body and the target of a `meta` refresh,
//! and nothing else, decides what load a page is. So its way of cutting words is kept, oddities included.

/// Something that a page names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asset {
    /// To be requested after the page.
    Part(String),
    /// Where a `meta` refresh leads.
    Refresh(String),
}

/// A tag is looked at so far.
const TAG_MAX: usize = 4095;
/// A page names at most so many that count.
const ASSETS_MAX: usize = 1000;

const WORDS: &[u8] = b" =";
const VALUES: &[u8] = b" \"'";
const ANY: &[u8] = b" =\"'";

/// What the page names, in its order.
pub fn assets(page: &[u8]) -> Vec<Asset> {
    // siege takes these out before it looks.
    let page: Vec<u8> = page.iter().copied().filter(|byte| !matches!(byte, b'\\' | b'"')).collect();
    let mut found = Vec::new();
    let mut rest = page.as_slice();
    while let Some(at) = memchr::memchr(b'<', rest) {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix(b"!--") {
            let end = memchr::memmem::find(comment, b"-->").map_or(comment.len(), |at| at + 3);
            rest = &comment[end..];
            continue;
        }
        let end = memchr::memchr(b'>', rest).unwrap_or(rest.len()).min(TAG_MAX);
        tag(&rest[..end], &mut found);
        rest = &rest[end..];
        if found.len() >= ASSETS_MAX {
            found.truncate(ASSETS_MAX);
            break;
        }
    }
    found
}

/// Words of a tag, one after the other, each cut by its own separators.
struct Words<'t> {
    rest: &'t [u8],
}

impl<'t> Words<'t> {
    /// The next word; the separator behind it is passed over.
    fn next(&mut self, separators: &[u8]) -> Option<&'t [u8]> {
        let start = self.rest.iter().position(|byte| !separators.contains(byte))?;
        let word = &self.rest[start..];
        let end = word.iter().position(|byte| separators.contains(byte)).unwrap_or(word.len());
        self.rest = word.get(end + 1..).unwrap_or_default();
        Some(&word[..end])
    }
}

fn tag(text: &[u8], found: &mut Vec<Asset>) {
    let mut words = Words { rest: text };
    let mut next = words.next(WORDS);
    let first = next;
    while let Some(word) = next {
        if is(word, b"href") || is(word, b"location.href") {
            words.next(ANY);
        } else if is(word, b"meta") {
            meta(&mut words, found);
        } else if is(word, b"img") {
            image(&mut words, found);
        } else if is(word, b"link") {
            link(&mut words, found);
        } else if is(word, b"script") {
            while let Some(word) = words.next(WORDS) {
                if is(word, b"src")
                    && let Some(value) = words.next(VALUES)
                    && !value.starts_with(b"+")
                {
                    found.push(part(value));
                }
            }
        } else if is(word, b"frame") {
            while words.next(WORDS).is_some() {}
        } else if is(word, b"background")
            && let Some(value) = words.next(VALUES)
            && first.is_some_and(|first| first.eq_ignore_ascii_case(b"body"))
        {
            found.push(part(value));
        }
        next = words.next(WORDS);
    }
}

/// `<meta http-equiv="refresh" content="0; url=/there">`
fn meta(words: &mut Words<'_>, found: &mut Vec<Asset>) {
    while let Some(word) = words.next(WORDS) {
        if !is(word, b"content") {
            continue;
        }
        while let Some(word) = words.next(WORDS) {
            if word.windows(3).any(|three| three.eq_ignore_ascii_case(b"url"))
                && let Some(value) = words.next(VALUES)
            {
                found.push(Asset::Refresh(String::from_utf8_lossy(value).into_owned()));
            }
        }
    }
}

fn image(words: &mut Words<'_>, found: &mut Vec<Asset>) {
    let embedded = |value: &[u8]| is(value, b"data:image");
    let Some(word) = words.next(WORDS) else { return };
    if is(word, b"src") {
        if let Some(value) = words.next(VALUES)
            && !embedded(value)
            && !value.ends_with(b"+")
        {
            found.push(part(value));
        }
        return;
    }
    while let Some(word) = words.next(WORDS) {
        if is(word, b"src")
            && let Some(value) = words.next(VALUES)
            && value.len() > 1
            && !embedded(value)
        {
            found.push(part(value));
        }
    }
}

fn link(words: &mut Words<'_>, found: &mut Vec<Asset>) {
    let mut wanted = false;
    let mut target = None;
    while let Some(word) = words.next(WORDS) {
        if is(word, b"rel") {
            let kind = words.next(ANY).unwrap_or_default();
            wanted = is(kind, b"stylesheet") || wanted && !is(kind, b"next") && !is(kind, b"alternate");
        } else if is(word, b"href") {
            target = words.next(VALUES).or(target);
        }
    }
    if let (true, Some(target)) = (wanted, target) {
        found.push(part(target));
    }
}

fn part(value: &[u8]) -> Asset {
    Asset::Part(String::from_utf8_lossy(value).into_owned())
}

/// Whether a word begins so, in whatever case.
fn is(word: &[u8], start: &[u8]) -> bool {
    word.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages() {
        let check = |page: &str, expected: &[&str]| {
            let found: Vec<String> = assets(page.as_bytes())
                .into_iter()
                .map(|asset| match asset {
                    Asset::Part(value) => value,
                    Asset::Refresh(value) => format!("-> {value}"),
                })
                .collect();
            assert_eq!(found, expected, "{page}");
        };
        check(
            r#"<link rel="stylesheet" type="text/css" href="/a.css"><link href='/b.css' rel='stylesheet'>"#,
            &["/a.css", "/b.css"],
        );
        check(r#"<link rel="icon" href="/a.ico"><link href="/b.css">"#, &[]);
        check(r#"<script src="/a.js"></script><script type="text/javascript" src='b.js'>"#, &["/a.js", "b.js"]);
        check(r#"<!-- <img src="/no.png"> --><img src="/a.png"><IMG alt="x y" SRC=/b.png>"#, &["/a.png", "/b.png"]);
        check(r#"<img src = "/c.png">"#, &["="]);
        check(r#"<img src="data:image/png;base64,xx"><img src="">"#, &[]);
        check(r#"<body background="/bg.png"><table background="/no.png">"#, &["/bg.png"]);
        check(r#"<iframe src="/no"></iframe><a href="/no">x</a><video src="/no">"#, &[]);
        check(r#"<meta http-equiv="refresh" content="0; url=/there">"#, &["-> /there"]);
        check("<img", &[]);
        check("<!-- <img src=x", &[]);
        check("< < <img src=ab", &[]);
        check("<br><img src=ab", &["ab"]);
    }

    #[test]
    fn pages_without_end_have_one() {
        let page = r#"<img src="/a.png">"#.repeat(5000);
        assert_eq!(assets(page.as_bytes()).len(), ASSETS_MAX);
    }
}
