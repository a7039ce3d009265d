//! `core`: from the URL path to a file under `DocumentRoot`, and the default handler that sends it; and the memory of paths that
//! need not be gone through again for that.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use manifold_engine::phases::{Concern, Hook, OfPath, Outcome, Phase, Phases};
use manifold_engine::request::{Body, Found, Request};
use manifold_engine::transport::Job;
use manifold_http::{ContentCoding, Method, Status};
use nix::errno::Errno;

use crate::file_cache::{FileCache, Wait};
use crate::location::Locations;

/// Adds the module's hooks; `files` is shared with the other modules of the site. `names_shown`: a log shows the names of files.
pub fn register(phases: &mut Phases, document_root: PathBuf, files: &Arc<FileCache>, names_shown: bool) {
    let mut root = document_root.into_os_string().into_encoded_bytes();
    if root.ends_with(b"/") {
        root.pop();
    }
    phases.add_for(Concern::Plain, Phase::QuickHandler, KnownPaths { files: Arc::clone(files), names_shown });
    phases.add(Phase::TranslateName, OfPath(move |request: &mut Request| translate_name(&root, request)));
    let files = Arc::clone(files);
    phases.add(Phase::MapToStorage, OfPath(move |request: &mut Request| map_to_storage(&files, request)));
}

/// Adds `SetHandler`, where a section has one. It comes before `mod_dir`, which leaves alone what has a handler.
pub fn register_set_handler(phases: &mut Phases, locations: &Arc<Locations>) {
    if locations.0.iter().any(|location| location.handler.is_some()) {
        let locations = Arc::clone(locations);
        let set_handler = move |request: &mut Request| {
            request.handler = locations.handler(&request.path).cloned();
            Outcome::Declined
        };
        phases.add(Phase::Fixups, OfPath(set_handler));
    }
}

/// Adds the handler that is asked after all others.
pub fn register_default_handler(phases: &mut Phases) {
    phases.add(Phase::Handler, OfPath(default_handler));
}

/// Paths that were answered with a file as it is. What stands there now is looked up for each request all the same; where it is
/// not the file that was remembered, as it was, the phases find out what has become of it.
struct KnownPaths {
    files: Arc<FileCache>,
    /// Somebody will look at the request's file name.
    names_shown: bool,
}

impl Hook for KnownPaths {
    fn run(&self, request: &mut Request) -> Outcome {
        let wait = wait(request);
        let filename = self.names_shown.then_some(&mut request.filename);
        match self.files.recall(&request.path, request.turn, wait, filename) {
            Some(resource) => {
                request.response.body = Body::Resource(resource);
                Outcome::Done
            }
            None => Outcome::Declined,
        }
    }

    fn remember(&self, request: &Request) {
        let response = &request.response;
        let is_file_alone = matches!(response.body, Body::Resource(_)) && response.status == Status::OK;
        if is_file_alone && response.fields.is_empty() && request.content_type.is_none() {
            self.files.remember(&request.path, &request.filename);
        }
    }
}

/// `DocumentRoot`, without a slash at its end, and the path, which is normalised and cannot leave it.
fn translate_name(root: &[u8], request: &mut Request) -> Outcome {
    request.filename.clear();
    request.filename.extend_from_slice(root);
    request.filename.extend_from_slice(&request.path);
    Outcome::Done
}

/// A path that ends with a slash can only mean a directory, and is not looked up here: `mod_dir` looks for its index, which
/// tells as well whether the directory is there. Nothing being there is no answer yet: access is checked first, and there may
/// be a handler that needs no file.
fn map_to_storage(files: &Arc<FileCache>, request: &mut Request) -> Outcome {
    if request.path.ends_with(b"/") {
        request.found = Found::Directory;
        return Outcome::Done;
    }
    match look_up(files, request) {
        Ok(found) => {
            request.found = found;
            Outcome::Done
        }
        Err(outcome) => outcome,
    }
}

/// What stands under the request's file name; [`Found::Nothing`] where nothing does. Otherwise what becomes of the request, as
/// Apache's `ap_directory_walk` decides it, or that it has to wait for a disk.
pub(crate) fn look_up(files: &Arc<FileCache>, request: &mut Request) -> Result<Found, Outcome> {
    let found = files.look_up(&request.filename, None, request.turn, wait(request));
    found.or_else(|error| not_to_be_had(files, None, request, &error))
}

/// The same of its sibling in a content coding.
pub(crate) fn look_up_sibling(
    files: &Arc<FileCache>,
    coding: ContentCoding,
    request: &mut Request,
) -> Result<Found, Outcome> {
    let found = files.look_up(&request.filename, Some(coding), request.turn, wait(request));
    found.or_else(|error| not_to_be_had(files, Some(coding), request, &error))
}

fn wait(request: &Request) -> Wait {
    if request.may_wait { Wait::Allowed } else { Wait::Never }
}

#[cold]
fn not_to_be_had(
    files: &Arc<FileCache>,
    coding: Option<ContentCoding>,
    request: &mut Request,
    error: &io::Error,
) -> Result<Found, Outcome> {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENOTDIR) => Ok(Found::Nothing),
        Some(Errno::EAGAIN) if !request.may_wait => {
            let (files, name, turn) = (Arc::clone(files), request.filename.clone(), request.turn);
            request.later = Some(Job::new(move || files.fetch(&name, coding, turn)));
            Err(Outcome::Later)
        }
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM) => {
            log::error!(target: "core", "AH00132: file permissions deny server access or a resource is lacking: {error}");
            Err(Outcome::Respond(Status::SERVICE_UNAVAILABLE))
        }
        Some(Errno::ELOOP) => {
            log::error!(
                target: "core",
                "[client {}] AH00037: Symbolic link not allowed or link target not accessible: {}",
                request.peer,
                String::from_utf8_lossy(&request.filename)
            );
            Err(Outcome::Respond(Status::FORBIDDEN))
        }
        _ => Err(Outcome::Respond(Status::FORBIDDEN)),
    }
}

/// Sends the file that was found (Apache's `default_handler`). A POST gets what a GET gets: its body is not for a file.
fn default_handler(request: &mut Request) -> Outcome {
    match request.method() {
        Method::Get | Method::Head | Method::Post => {
            // Nobody asks what was found once it is the answer.
            match std::mem::take(&mut request.found) {
                Found::File(resource) => {
                    request.response.body = Body::Resource(resource);
                    Outcome::Done
                }
                other => {
                    request.found = other;
                    Outcome::Declined
                }
            }
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
