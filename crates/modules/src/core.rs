//! `core`: from the URL path to a file under `DocumentRoot`, and the default handler that sends it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use manifold_engine::phases::{Outcome, Phase, Phases};
use manifold_engine::request::{Body, Found, Request};
use manifold_http::{Method, Status};
use nix::errno::Errno;

use crate::file_cache::{FileCache, Wait};
use crate::location::Locations;

/// Adds the module's hooks; `files` is shared with the other modules of the site.
pub fn register(phases: &mut Phases, document_root: PathBuf, files: &Arc<FileCache>) {
    let root = document_root.into_os_string().into_encoded_bytes();
    phases.add(Phase::TranslateName, move |request: &mut Request| translate_name(&root, request));
    let files = Arc::clone(files);
    phases.add(Phase::MapToStorage, move |request: &mut Request| map_to_storage(&files, request));
}

/// Adds `SetHandler`, where a section has one. It comes before `mod_dir`, which leaves alone what has a handler.
pub fn register_set_handler(phases: &mut Phases, locations: &Arc<Locations>) {
    if locations.0.iter().any(|location| location.handler.is_some()) {
        let locations = Arc::clone(locations);
        phases.add(Phase::Fixups, move |request: &mut Request| {
            request.handler = locations.handler(&request.path).cloned();
            Outcome::Declined
        });
    }
}

/// Adds the handler that is asked after all others.
pub fn register_default_handler(phases: &mut Phases) {
    phases.add(Phase::Handler, default_handler);
}

/// `DocumentRoot` and the path, which is normalised and cannot leave it.
fn translate_name(root: &[u8], request: &mut Request) -> Outcome {
    request.filename.clear();
    request.filename.extend_from_slice(root.strip_suffix(b"/").unwrap_or(root));
    request.filename.extend_from_slice(&request.path);
    Outcome::Done
}

/// A path that ends with a slash can only mean a directory, and is not looked up here: `mod_dir` looks for its index, which
/// tells as well whether the directory is there. Nothing being there is no answer yet: access is checked first, and there may
/// be a handler that needs no file.
fn map_to_storage(files: &FileCache, request: &mut Request) -> Outcome {
    if request.path.ends_with(b"/") {
        request.found = Found::Directory;
        return Outcome::Done;
    }
    match files.look_up(&request.filename, request.turn, Wait::Allowed) {
        Ok(found) => {
            request.found = found;
            Outcome::Done
        }
        Err(error) => match status_of(&error) {
            Status::NOT_FOUND => Outcome::Done,
            status => Outcome::Respond(status),
        },
    }
}

/// The status for a file that cannot be had, as Apache's `ap_directory_walk` chooses it.
pub(crate) fn status_of(error: &io::Error) -> Status {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENOTDIR) => Status::NOT_FOUND,
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM) => {
            log::error!(target: "core", "AH00132: file permissions deny server access or a resource is lacking: {error}");
            Status::SERVICE_UNAVAILABLE
        }
        _ => Status::FORBIDDEN,
    }
}

/// Sends the file that was found (Apache's `default_handler`). A POST gets what a GET gets: its body is not for a file.
fn default_handler(request: &mut Request) -> Outcome {
    match request.method() {
        Method::Get | Method::Head | Method::Post => {
            let Found::File(resource) = &request.found else { return Outcome::Declined };
            request.response.body = Body::Resource(Arc::clone(resource));
            Outcome::Done
        }
        Method::Options => {
            if let Found::File(resource) = &request.found {
                request.content_type = resource.media_type().cloned();
            }
            Outcome::Respond(Status::OK)
        }
        _ => Outcome::Respond(Status::METHOD_NOT_ALLOWED),
    }
}
