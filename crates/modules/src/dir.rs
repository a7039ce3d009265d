//! `mod_dir`: a directory's index (`DirectoryIndex`), and the slash at the end of its URL.

use std::sync::Arc;

use manifold_engine::phases::{Concern, Outcome, Phase, Phases};
use manifold_engine::request::{Found, Request};
use manifold_engine::site::ServerName;
use manifold_http::{Method, Status};

use crate::authz_core;
use crate::core::look_up;
use crate::file_cache::FileCache;
use crate::location::Locations;

/// The module's settings, and what it works with.
#[derive(Debug)]
pub struct Directories {
    /// `DirectoryIndex`, in the order in which names are tried.
    pub index: Vec<String>,
    /// Where a client is sent that did not say whom it asks (`ServerName`).
    pub server: ServerName,
    /// Shared with the other modules of the site.
    pub files: Arc<FileCache>,
    /// What holds for an index, by its own path.
    pub locations: Arc<Locations>,
}

/// Adds the module's hooks.
pub fn register(phases: &mut Phases, directories: Directories) {
    let fixup = move |request: &mut Request| fixup_dir(&directories, request);
    phases.add_for(Concern::Directory, Phase::Fixups, fixup);
}

fn fixup_dir(Directories { index, server, files, locations }: &Directories, request: &mut Request) -> Outcome {
    if request.handler.is_some() {
        return Outcome::Declined;
    }
    if !request.path.ends_with(b"/") {
        return redirect_to_slash(server, request);
    }
    let directory = request.filename.len();
    for name in index {
        request.filename.truncate(directory);
        request.filename.extend_from_slice(name.as_bytes());
        match look_up(files, request) {
            Ok(found @ Found::File(_)) => {
                request.found = found;
                return settle(locations, name, request);
            }
            Ok(_) => {}
            Err(outcome) => {
                // Whoever comes back here begins with the directory.
                request.filename.truncate(directory);
                return outcome;
            }
        }
    }
    request.filename.truncate(directory);
    match look_up(files, request) {
        Ok(Found::Nothing) => {
            request.found = Found::Nothing;
            return Outcome::Declined;
        }
        Ok(_) => {}
        Err(outcome) => return outcome,
    }
    if !matches!(request.method(), Method::Get | Method::Head) {
        return Outcome::Declined;
    }
    log::error!(
        target: "autoindex",
        "[client {}] AH01276: cannot serve directory {}: no matching DirectoryIndex ({}) found",
        request.peer,
        String::from_utf8_lossy(&request.filename),
        index.join(",")
    );
    Outcome::Respond(Status::FORBIDDEN)
}

/// What holds at the index's own path holds for it, whatever path it was asked for by.
fn settle(locations: &Locations, name: &str, request: &mut Request) -> Outcome {
    if locations.0.is_empty() {
        return Outcome::Done;
    }
    // The index's path is made behind the directory's, in memory that the request has already.
    let mut path = std::mem::take(&mut request.path);
    let directory = path.len();
    path.extend_from_slice(name.as_bytes());
    request.handler = locations.handler(&path).cloned();
    let granted = authz_core::grants(locations, &path, request);
    path.truncate(directory);
    request.path = path;
    if granted { Outcome::Done } else { Outcome::Respond(Status::FORBIDDEN) }
}

/// Relative links in an index would lead astray without the slash (`DirectorySlash On`).
fn redirect_to_slash(server: &ServerName, request: &mut Request) -> Outcome {
    let mut location = std::mem::take(&mut request.response.location);
    server.write_origin(&mut location, request);
    escape_path(&mut location, &request.path);
    location.push(b'/');
    if let Some(query) = request.query() {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    request.response.location = location;
    Outcome::Respond(Status::MOVED_PERMANENTLY)
}

/// Writes a decoded path as it must stand in a URL (RFC 3986 section 3.3).
fn escape_path(out: &mut Vec<u8>, path: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for &byte in path {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => out.push(byte),
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@' => out.push(byte),
            _ => out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_cannot_be_split_by_what_a_path_decodes_to() {
        let mut out = Vec::new();
        escape_path(&mut out, b"/a b\r\n?#%\xff/c;d");
        assert_eq!(out, b"/a%20b%0d%0a%3f%23%25%ff/c;d");
    }
}
