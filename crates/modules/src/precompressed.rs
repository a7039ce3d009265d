//! Files that lie compressed beside the original (`ManifoldPrecompressed`): `page.html.br` is sent in place of `page.html` to
//! clients that take it.
//!
//! It comes after the file was found and before it is sent: tags, conditions and ranges are those of what is sent. A sibling
//! that is older than its original is of something else, and is left alone.

use std::sync::Arc;

use manifold_engine::phases::{Outcome, Phase, Phases};
use manifold_engine::request::{Found, Request, Resource};
use manifold_http::{AcceptEncoding, ContentCoding, Method};

use crate::core;
use crate::file_cache::FileCache;

/// Adds the module's hook; `codings` are looked for in this order where a client likes several equally.
pub fn register(phases: &mut Phases, codings: Vec<ContentCoding>, files: &Arc<FileCache>) {
    if !codings.is_empty() {
        let files = Arc::clone(files);
        phases.add(Phase::TypeChecker, move |request: &mut Request| choose(&codings, &files, request));
    }
}

/// Whether a file of this name is compressed itself, so that there is nothing to look for beside it.
pub(crate) fn is_compressed(name: &[u8], codings: &[ContentCoding]) -> bool {
    let of = |coding: &ContentCoding| {
        name.strip_suffix(coding.extension().as_bytes()).is_some_and(|rest| rest.ends_with(b"."))
    };
    codings.iter().any(of)
}

fn choose(codings: &[ContentCoding], files: &Arc<FileCache>, request: &mut Request) -> Outcome {
    let Found::File(plain) = &request.found else { return Outcome::Declined };
    let sends_file = matches!(request.method(), Method::Get | Method::Head | Method::Post);
    if !sends_file || is_compressed(&request.filename, codings) {
        return Outcome::Declined;
    }
    let plain = Arc::clone(plain);
    let fields = request.head.fields(&request.bytes);
    let values = fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"Accept-Encoding")).map(|(_, value)| value);
    let accept = AcceptEncoding::parse(values);
    let mut tried = [false; ContentCoding::ALL.len()];
    while let Some(coding) = accept.choose(codings.iter().copied().filter(|coding| !tried[*coding as usize])) {
        tried[coding as usize] = true;
        match core::look_up_sibling(files, coding, request) {
            Ok(Found::File(sibling)) if !is_older(&sibling, &plain) => {
                request.found = Found::File(sibling);
                return Outcome::Done;
            }
            // None, or one that cannot be had: the original is as good.
            Ok(_) | Err(Outcome::Declined | Outcome::Done | Outcome::Respond(_)) => {}
            Err(Outcome::Later) => return Outcome::Later,
        }
    }
    Outcome::Declined
}

fn is_older(sibling: &Resource, plain: &Resource) -> bool {
    sibling.modified_at() < plain.modified_at()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_has_no_compressed_sibling() {
        let check = |name: &str, expected| {
            assert_eq!(
                is_compressed(name.as_bytes(), &[ContentCoding::Brotli, ContentCoding::Gzip]),
                expected,
                "{name}"
            );
        };
        check("/page.html", false);
        check("/page.html.br", true);
        check("/page.gz", true);
        check("/page.zst", false);
        check("/pagebr", false);
        check("/br", false);
    }
}
