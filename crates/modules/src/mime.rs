//! `mod_mime`: the media type of a file by the extensions of its name (`TypesConfig`, `AddType`). It is a property of the name
//! alone, so that the file cache asks once for each file it reads.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use crate::name_hash::NameHasher;

/// Media types by extension. Extensions are compared without regard to case, as Apache does.
#[derive(Clone, Debug, Default)]
pub struct Types {
    by_extension: HashMap<String, Arc<str>, BuildHasherDefault<NameHasher>>,
}

/// Longest extension that is looked up; longer ones have no type.
const EXTENSION_MAX: usize = 32;

/// What is known without any file: the types a web page is made of, so that a folder can be served without configuration.
const BUILT_IN: &str = "\
application/gzip gz tgz
application/json json map
application/manifest+json webmanifest
application/octet-stream bin
application/pdf pdf
application/wasm wasm
application/xml xml
application/zip zip
audio/mpeg mp3
audio/ogg ogg oga opus
font/otf otf
font/ttf ttf
font/woff woff
font/woff2 woff2
image/avif avif
image/gif gif
image/jpeg jpg jpeg
image/png png
image/svg+xml svg
image/vnd.microsoft.icon ico
image/webp webp
text/css css
text/csv csv
text/html html htm
text/javascript js mjs
text/markdown md
text/plain txt text log conf
video/mp4 mp4
video/webm webm
";

impl Types {
    /// No types at all.
    pub fn new() -> Types {
        Types::default()
    }

    /// The types that are built in.
    pub fn built_in() -> Types {
        let mut types = Types::new();
        types.read(BUILT_IN);
        types
    }

    /// Adds what a `mime.types` file says: a type and its extensions a line, `#` begins a comment.
    pub fn read(&mut self, text: &str) {
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_ascii_whitespace();
            if let Some(media_type) = words.next() {
                let media_type = Arc::from(media_type);
                for extension in words {
                    self.insert(extension, Arc::clone(&media_type));
                }
            }
        }
    }

    /// `AddType`: from now on `extension`, with or without its dot, means `media_type`.
    pub fn add(&mut self, media_type: &str, extension: &str) {
        self.insert(extension.strip_prefix('.').unwrap_or(extension), Arc::from(media_type));
    }

    /// The same types, those of text said to be in `charset` (`AddDefaultCharset`).
    #[must_use]
    pub fn with_charset(mut self, charset: &str) -> Types {
        for media_type in self.by_extension.values_mut() {
            if matches!(&**media_type, "text/html" | "text/plain") {
                *media_type = Arc::from(format!("{media_type}; charset={charset}"));
            }
        }
        self
    }

    /// The type of a file name: the last of its extensions that has one decides.
    pub fn of(&self, filename: &[u8]) -> Option<&Arc<str>> {
        let name = filename.rsplit(|&byte| byte == b'/').next()?;
        // What stands before the first dot is the name itself; a leading dot hides a file.
        let mut parts = name.strip_prefix(b".").unwrap_or(name).rsplit(|&byte| byte == b'.').peekable();
        while let Some(extension) = parts.next() {
            parts.peek()?;
            if let Some(media_type) = self.get(extension) {
                return Some(media_type);
            }
        }
        None
    }

    fn insert(&mut self, extension: &str, media_type: Arc<str>) {
        self.by_extension.insert(extension.to_ascii_lowercase(), media_type);
    }

    fn get(&self, extension: &[u8]) -> Option<&Arc<str>> {
        let mut lower = [0; EXTENSION_MAX];
        let lower = lower.get_mut(..extension.len())?;
        lower.copy_from_slice(extension);
        lower.make_ascii_lowercase();
        self.by_extension.get(std::str::from_utf8(lower).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_extension_that_has_a_type_decides() {
        let mut types = Types::built_in();
        types.read("text/x-special  special # a comment\n# application/none none\n");
        types.add("text/x-added", ".added");
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(types.of(name.as_bytes()).map(|found| &**found), expected, "{name}");
        };
        check("/srv/index.html", Some("text/html"));
        check("/srv/INDEX.HTML", Some("text/html"));
        check("/srv/index.html.en", Some("text/html"));
        check("/srv/page.special", Some("text/x-special"));
        check("/srv/page.added", Some("text/x-added"));
        check("/srv.html/page", None);
        check("/srv/html", None);
        check("/srv/.html", None);
        check("/srv/page.none", None);
        check("/srv/page.", None);
        check("/srv/page.an-extension-that-is-longer-than-any-type-has", None);
    }
}
