//! Apache's modules, one file each under Apache's name. [`phases`] builds the request phases from resolved settings;
//! nothing of a module is looked up by name while serving.
#![forbid(unsafe_code)]

pub mod authz_core;
pub mod authz_host;
pub mod core;
pub mod dir;
pub mod file_cache;
pub mod location;
pub mod log_config;
pub mod log_file;
pub mod mime;
mod name_hash;
pub mod precompressed;
pub mod status;

use std::path::PathBuf;
use std::sync::Arc;

use manifold_engine::phases::Phases;
use manifold_engine::site::ServerName;
use manifold_engine::status::StatusHandle;

use crate::dir::Directories;
use crate::file_cache::{FileCache, FileSettings};
use crate::location::Locations;
use crate::log_config::AccessLog;
use crate::mime::Types;

/// What the modules need to know to serve a site.
#[derive(Debug)]
pub struct Settings {
    /// `DocumentRoot`.
    pub document_root: PathBuf,
    /// `DirectoryIndex`, in the order in which names are tried.
    pub directory_index: Vec<String>,
    /// `ServerName`.
    pub server_name: ServerName,
    /// `TypesConfig` and `AddType`.
    pub types: Types,
    /// How files are looked up and kept.
    pub files: FileSettings,
    /// `CustomLog`, each one opened already.
    pub access_logs: Vec<AccessLog>,
    /// How the status page learns what the server is doing.
    pub status: Arc<StatusHandle>,
    /// `<Location>` sections.
    pub locations: Locations,
}

/// The request phases of a site: every module's hooks, in the order in which they are asked.
pub fn phases(settings: Settings) -> Phases {
    let mut phases = Phases::new();
    let files = Arc::new(FileCache::new(&settings.files, settings.document_root.clone(), settings.types));
    let locations = Arc::new(settings.locations);
    let names_shown = settings.access_logs.iter().any(AccessLog::shows_file_names);
    core::register(&mut phases, settings.document_root, &files, names_shown);
    authz_core::register(&mut phases, &locations);
    core::register_set_handler(&mut phases, &locations);
    let (index, server) = (settings.directory_index, settings.server_name);
    dir::register(
        &mut phases,
        Directories { index, server, files: Arc::clone(&files), locations: Arc::clone(&locations) },
    );
    precompressed::register(&mut phases, settings.files.precompressed, &files);
    status::register(&mut phases, &settings.status);
    core::register_default_handler(&mut phases);
    for log in settings.access_logs {
        log_config::register(&mut phases, log);
    }
    phases
}
