//! From a request target to the path it names: decoded once, without dot segments and doubled slashes.

use std::fmt;
use std::ops::Range;

use crate::Status;
use crate::chars::{is_authority, is_target};
use crate::scan::{is_plain_target, target_end};

/// What a request target is, with the places of its parts in the target as sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A path: origin-form, or absolute-form, which every server must accept (RFC 9112 section 3.2.2).
    Origin {
        /// The query, without its question mark and not decoded; `None` where there is no question mark.
        query: Option<Range<usize>>,
        /// Host and optional port of an absolute-form; they override the `Host` field.
        authority: Option<Range<usize>>,
    },
    /// `*`, the server as a whole: for OPTIONS only. The path is left empty.
    Asterisk,
}

/// What becomes of `%2F` in a path (Apache's `AllowEncodedSlashes`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncodedSlashes {
    /// `Off`: the request is answered with 404.
    #[default]
    Refuse,
    /// `On`: it is a slash like any other, also where it makes a `..` a segment.
    Decode,
    /// `NoDecode`: it stays as it was sent.
    Keep,
}

/// How a path is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathOptions {
    /// `AllowEncodedSlashes`.
    pub encoded_slashes: EncodedSlashes,
    /// `MergeSlashes`: several slashes in a row become one (On).
    pub merge_slashes: bool,
}

impl Default for PathOptions {
    fn default() -> PathOptions {
        PathOptions { encoded_slashes: EncodedSlashes::default(), merge_slashes: true }
    }
}

/// Takes a request target apart and writes its path to `path`, which is emptied first and keeps its memory.
///
/// The path begins with a slash and has no NUL, no `.` or `..` segment and, unless `options` say otherwise, no two
/// slashes in a row; a slash at its end is kept. It is decoded exactly once: `%252e` becomes `%2e`.
///
/// # Errors
/// [`TargetError`]; `path` is then unspecified. An escaped NUL, and an escaped slash where it is refused, is 404 as in
/// Apache; all else is 400, and is reported in preference.
#[inline]
pub fn decode_target(target: &[u8], options: &PathOptions, path: &mut Vec<u8>) -> Result<Target, TargetError> {
    path.clear();
    if stands_for_itself(target) {
        path.extend_from_slice(target);
        return Ok(Target::Origin { query: None, authority: None });
    }
    decode_unusual(target, options, path)
}

/// The same for a target to which there is more. `path` is empty.
fn decode_unusual(target: &[u8], options: &PathOptions, path: &mut Vec<u8>) -> Result<Target, TargetError> {
    if let Some(&bad) = target.iter().find(|&&b| !is_target(b) || b == b'#') {
        return Err(if bad == b'#' { TargetError::Fragment } else { TargetError::Byte });
    }
    if target == b"*" {
        return Ok(Target::Asterisk);
    }
    let (authority, path_start) = match target {
        [b'/', ..] => (None, 0),
        _ => {
            let authority = absolute_form(target)?;
            let end = authority.end;
            (Some(authority), end)
        }
    };
    let question_mark = memchr::memchr(b'?', &target[path_start..]).map(|at| path_start + at);
    let path_end = question_mark.unwrap_or(target.len());
    decode_path(&target[path_start..path_end], options, path)?;
    Ok(Target::Origin { query: question_mark.map(|at| at + 1..target.len()), authority })
}

/// Whether a target is a path to which decoding changes nothing. Most are.
#[inline]
fn stands_for_itself(target: &[u8]) -> bool {
    target_end(target, 0) == target.len() && is_plain_target(target, 0..target.len())
}

/// The place of the authority in `http://authority/path`.
fn absolute_form(target: &[u8]) -> Result<Range<usize>, TargetError> {
    const SCHEMES: [&[u8]; 2] = [b"http://", b"https://"];
    let has = |scheme: &&&[u8]| target.len() >= scheme.len() && target[..scheme.len()].eq_ignore_ascii_case(scheme);
    let start = SCHEMES.iter().find(has).ok_or(TargetError::Form)?.len();
    let end = target[start..].iter().position(|b| matches!(b, b'/' | b'?')).map_or(target.len(), |at| start + at);
    if is_authority(&target[start..end]) { Ok(start..end) } else { Err(TargetError::Authority) }
}

/// Decodes and normalises in one pass. `raw` is empty or begins with a slash; `path` is empty.
fn decode_path(raw: &[u8], options: &PathOptions, path: &mut Vec<u8>) -> Result<(), TargetError> {
    let merge = options.merge_slashes;
    path.push(b'/');
    let mut not_found = None;
    let mut segment = path.len();
    let mut rest = raw.get(1..).unwrap_or_default();
    loop {
        // Everything up to the next byte that means something is copied as it is.
        let plain = rest.iter().position(|b| matches!(b, b'/' | b'%')).unwrap_or(rest.len());
        path.extend_from_slice(&rest[..plain]);
        match &rest[plain..] {
            [] => break,
            [b'/', tail @ ..] => {
                segment = end_segment(path, segment, true, merge)?;
                rest = tail;
            }
            [percent, high_digit, low_digit, tail @ ..] => {
                let (Some(high), Some(low)) = (hex(*high_digit), hex(*low_digit)) else {
                    return Err(TargetError::Escape);
                };
                match high << 4 | low {
                    0 => not_found = not_found.or(Some(TargetError::Nul)),
                    b'/' => match options.encoded_slashes {
                        EncodedSlashes::Refuse => not_found = not_found.or(Some(TargetError::EncodedSlash)),
                        EncodedSlashes::Decode => segment = end_segment(path, segment, true, merge)?,
                        EncodedSlashes::Keep => path.extend_from_slice(&[*percent, *high_digit, *low_digit]),
                    },
                    decoded => path.push(decoded),
                }
                rest = tail;
            }
            _ => return Err(TargetError::Escape),
        }
    }
    end_segment(path, segment, false, merge)?;
    not_found.map_or(Ok(()), Err)
}

/// Ends the segment that begins at `segment` of `path`, with a slash if there was one; returns where the next begins.
fn end_segment(path: &mut Vec<u8>, segment: usize, slash: bool, merge: bool) -> Result<usize, TargetError> {
    match &path[segment..] {
        [] if merge => {}
        b"." => path.truncate(segment),
        b".." => {
            // Drop this segment and the one before, whose slash stands just before this one.
            let parent = path[..segment - 1].iter().rposition(|&b| b == b'/').ok_or(TargetError::AboveRoot)?;
            path.truncate(parent + 1);
        }
        _ if slash => path.push(b'/'),
        _ => {}
    }
    Ok(path.len())
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Why a request target names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetError {
    /// Neither a path nor `http://` or `https://` nor `*`.
    Form,
    /// A space or control byte.
    Byte,
    /// A fragment, which clients keep to themselves.
    Fragment,
    /// An absolute-form whose authority is not a host and an optional port.
    Authority,
    /// A percent sign without two hexadecimal digits.
    Escape,
    /// More `..` than segments to leave.
    AboveRoot,
    /// `%00`.
    Nul,
    /// `%2F`.
    EncodedSlash,
}

impl TargetError {
    /// The status to answer with: 400 or 404.
    pub fn status(&self) -> Status {
        match self {
            TargetError::Nul | TargetError::EncodedSlash => Status::NOT_FOUND,
            _ => Status::BAD_REQUEST,
        }
    }
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TargetError::Form => "target is neither a path nor an http URI",
            TargetError::Byte => "space or control byte in the target",
            TargetError::Fragment => "fragment in the target",
            TargetError::Authority => "malformed authority in the target",
            TargetError::Escape => "malformed escape in the path",
            TargetError::AboveRoot => "path leads above the root",
            TargetError::Nul => "encoded NUL in the path",
            TargetError::EncodedSlash => "encoded slash in the path",
        })
    }
}

impl std::error::Error for TargetError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Parts<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

    fn check(target: &str, expected: Result<Parts<'_>, TargetError>) {
        check_with(&PathOptions::default(), target, expected);
    }

    fn check_with(options: &PathOptions, target: &str, expected: Result<Parts<'_>, TargetError>) {
        let mut path = b"left over".to_vec();
        let result = decode_target(target.as_bytes(), options, &mut path).map(|found| match found {
            Target::Asterisk => (String::from("*"), None, None),
            Target::Origin { query, authority } => {
                let part = |range: Option<Range<usize>>| range.map(|range| &target[range]);
                (String::from_utf8_lossy(&path).into_owned(), part(query), part(authority))
            }
        });
        let result = result.as_ref().map(|(path, query, authority)| (path.as_str(), *query, *authority));
        assert_eq!(result.map_err(|error| *error), expected, "{target}");
    }

    #[test]
    fn paths() {
        for (target, path) in [
            ("/", "/"),
            ("/index.html", "/index.html"),
            ("/a/b/", "/a/b/"),
            ("//", "/"),
            ("//a///b//", "/a/b/"),
            ("/.", "/"),
            ("/./", "/"),
            ("/a/.", "/a/"),
            ("/a/./b", "/a/b"),
            ("/a/..", "/"),
            ("/a/../", "/"),
            ("/a/b/..", "/a/"),
            ("/a/b/../c", "/a/c"),
            ("/a//../b", "/b"),
            ("/a/b/../../c", "/c"),
            ("/%2e", "/"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/.%2e/b", "/b"),
            ("/...", "/..."),
            ("/..a/.b/c..", "/..a/.b/c.."),
            ("/a%20b+c", "/a b+c"),
            ("/%252e%252e/", "/%2e%2e/"),
            ("/%41%c3%a9", "/Aé"),
            ("/é", "/é"),
            ("/a;x=1/b", "/a;x=1/b"),
            ("/a%5cb\\", "/a\\b\\"),
            ("/a%3fb%23c", "/a?b#c"),
            ("/a:b@c", "/a:b@c"),
        ] {
            check(target, Ok((path, None, None)));
        }
    }

    #[test]
    fn queries_and_authorities() {
        check("/?", Ok(("/", Some(""), None)));
        check("/a?b=%zz&c=/../?%00", Ok(("/a", Some("b=%zz&c=/../?%00"), None)));
        check("http://h", Ok(("/", None, Some("h"))));
        check("HTTP://h:8080?q", Ok(("/", Some("q"), Some("h:8080"))));
        check("https://[::1]/a/../b?c", Ok(("/b", Some("c"), Some("[::1]"))));
        check("*", Ok(("*", None, None)));
    }

    #[test]
    fn refused_targets() {
        for (target, error) in [
            ("", TargetError::Form),
            ("a", TargetError::Form),
            ("**", TargetError::Form),
            ("example.com:443", TargetError::Form),
            ("ftp://h/", TargetError::Form),
            ("http:/h", TargetError::Form),
            ("http:///a", TargetError::Authority),
            ("http://u@h/", TargetError::Authority),
            ("http://h:x/", TargetError::Authority),
            ("/a b", TargetError::Byte),
            ("/a\0", TargetError::Byte),
            ("/a?\x7f", TargetError::Byte),
            ("/a#b", TargetError::Fragment),
            ("/?a#b", TargetError::Fragment),
            ("/%", TargetError::Escape),
            ("/%4", TargetError::Escape),
            ("/%4g", TargetError::Escape),
            ("/%u0041", TargetError::Escape),
            ("/..", TargetError::AboveRoot),
            ("/../", TargetError::AboveRoot),
            ("/a/../..", TargetError::AboveRoot),
            ("/a/%2e%2e/%2e./", TargetError::AboveRoot),
            ("http://h/..", TargetError::AboveRoot),
            ("/a%00b", TargetError::Nul),
            ("/a%2fb", TargetError::EncodedSlash),
            ("/a%2F..%2F", TargetError::EncodedSlash),
            ("/a%2F%00", TargetError::EncodedSlash),
            ("/a%00/%zz", TargetError::Escape),
            ("/a%2f/../../..", TargetError::AboveRoot),
        ] {
            check(target, Err(error));
        }
    }

    #[test]
    fn encoded_slashes() {
        let check = |encoded_slashes, target: &str, expected: Result<&str, TargetError>| {
            let options = PathOptions { encoded_slashes, ..PathOptions::default() };
            check_with(&options, target, expected.map(|path| (path, None, None)));
        };
        use EncodedSlashes::{Decode, Keep, Refuse};
        check(Refuse, "/a%2fb", Err(TargetError::EncodedSlash));
        check(Decode, "/a%2fb", Ok("/a/b"));
        check(Decode, "/a%2F..%2f", Ok("/"));
        check(Decode, "/%2f%2F/a", Ok("/a"));
        check(Decode, "/a%2f..", Ok("/"));
        check(Decode, "/%2e%2e%2fa", Err(TargetError::AboveRoot));
        check(Decode, "/..%2fa", Err(TargetError::AboveRoot));
        check(Decode, "/a%252fb", Ok("/a%2fb"));
        check(Decode, "/a%2f%00", Err(TargetError::Nul));
        check(Keep, "/a%2fb%2Fc", Ok("/a%2fb%2Fc"));
        check(Keep, "/a%2f../b", Ok("/a%2f../b"));
        check(Keep, "/a/..%2fb", Ok("/a/..%2fb"));
        check(Keep, "/a%2f%zz", Err(TargetError::Escape));
        check(Keep, "/a%2f%00", Err(TargetError::Nul));
    }

    #[test]
    fn slashes_that_are_not_merged() {
        let options = PathOptions { merge_slashes: false, ..PathOptions::default() };
        let check = |target: &str, expected: Result<&str, TargetError>| {
            check_with(&options, target, expected.map(|path| (path, None, None)));
        };
        check("/", Ok("/"));
        check("//", Ok("//"));
        check("//a///b//", Ok("//a///b//"));
        check("/a//../b", Ok("/a/b"));
        check("//..", Ok("/"));
        check("//../..", Err(TargetError::AboveRoot));
        check("/a//./b", Ok("/a//b"));
        check_with(&options, "http://h//a", Ok(("//a", None, Some("h"))));
        let options = PathOptions { encoded_slashes: EncodedSlashes::Decode, merge_slashes: false };
        check_with(&options, "/a%2f/b", Ok(("/a//b", None, None)));
    }

    #[test]
    fn statuses() {
        assert_eq!(TargetError::Nul.status(), Status::NOT_FOUND);
        assert_eq!(TargetError::EncodedSlash.status(), Status::NOT_FOUND);
        assert_eq!(TargetError::Escape.status(), Status::BAD_REQUEST);
        assert_eq!(TargetError::AboveRoot.status(), Status::BAD_REQUEST);
    }

    /// Targets in which the interesting sequences are frequent.
    fn targets() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"/".to_vec()),
            Just(b".".to_vec()),
            Just(b"..".to_vec()),
            Just(b"%2e".to_vec()),
            Just(b"%2F".to_vec()),
            Just(b"%00".to_vec()),
            Just(b"%25".to_vec()),
            Just(b"http://h".to_vec()),
            Just(b"?".to_vec()),
            "[a-z%]{1,3}".prop_map(String::into_bytes),
            any::<u8>().prop_map(|b| vec![b]),
        ];
        proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn decoded_paths_are_safe(target in targets(), rooted in any::<bool>(), kind in 0..3usize, merge in any::<bool>()) {
            let target = if rooted { [b"/", target.as_slice()].concat() } else { target };
            let encoded_slashes = [EncodedSlashes::Refuse, EncodedSlashes::Decode, EncodedSlashes::Keep][kind];
            let options = PathOptions { encoded_slashes, merge_slashes: merge };
            let mut path = Vec::new();
            if let Ok(Target::Origin { query, authority }) = decode_target(&target, &options, &mut path) {
                prop_assert_eq!(path[0], b'/');
                prop_assert!(!path.contains(&0));
                prop_assert!(!merge || !path.windows(2).any(|pair| pair == b"//"));
                prop_assert!(path.split(|&b| b == b'/').all(|segment| segment != b"." && segment != b".."));
                prop_assert!(path.len() <= target.len() + 1);
                for range in [query, authority].into_iter().flatten() {
                    prop_assert!(range.end <= target.len());
                }
            }
        }

        #[test]
        fn what_stands_for_itself_decodes_to_itself(target in targets(), merge in any::<bool>()) {
            let target = [b"/", target.as_slice()].concat();
            let options = PathOptions { merge_slashes: merge, ..PathOptions::default() };
            let mut path = Vec::new();
            if stands_for_itself(&target) {
                prop_assert_eq!(decode_path(&target, &options, &mut path), Ok(()));
                prop_assert_eq!(path, target);
            }
        }

        #[test]
        fn a_clean_path_is_unchanged(segments in proptest::collection::vec("[a-z0-9_-]{1,8}", 0..6), slash in any::<bool>()) {
            let mut clean: String = segments.iter().flat_map(|segment| ["/", segment]).collect();
            if slash || clean.is_empty() {
                clean.push('/');
            }
            let mut path = Vec::new();
            decode_target(clean.as_bytes(), &PathOptions::default(), &mut path).unwrap();
            prop_assert_eq!(path, clean.into_bytes());
        }

        #[test]
        fn every_byte_survives_escaping(name in proptest::collection::vec(1..=255u8, 1..20)) {
            prop_assume!(!name.contains(&b'/') && name != b"." && name != b"..");
            let escaped: String = name.iter().map(|b| format!("%{b:02X}")).collect();
            let mut path = Vec::new();
            decode_target(format!("/{escaped}").as_bytes(), &PathOptions::default(), &mut path).unwrap();
            prop_assert_eq!(&path[1..], name.as_slice());
        }
    }
}
