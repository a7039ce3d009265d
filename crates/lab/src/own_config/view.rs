//! The world as the private copy is to see it: Debian's variables point into a folder of its own, and the settings of the MPM that is
//! not loaded any more are those of the one that is.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use manifold_config::World;

use super::{Program, Wanted};
use crate::target::Model;

/// The variables by which Debian's configuration says where the server writes, and what each becomes in the folder.
const PRIVATE: [(&str, &str); 4] =
    [("APACHE_PID_FILE", "httpd.pid"), ("APACHE_RUN_DIR", ""), ("APACHE_LOCK_DIR", ""), ("APACHE_LOG_DIR", "")];

/// A [`World`] behind which there is another.
pub(super) struct View<'w> {
    world: &'w dyn World,
    variables: BTreeMap<String, String>,
    model: Option<Model>,
}

impl<'w> View<'w> {
    pub(super) fn new(world: &'w dyn World, program: &Program, wanted: &Wanted<'_>) -> View<'w> {
        let mut variables = program.variables.clone();
        if let Some(folder) = wanted.folder {
            let of = |(name, file): (&str, &str)| (name.to_owned(), join(folder, file).display().to_string());
            variables.extend(PRIVATE.map(of));
        }
        View { world, variables, model: wanted.model }
    }

    /// Debian keeps an MPM's settings in `mods-available/mpm_NAME.conf` and links to that of the one in use.
    fn instead(&self, path: &Path) -> PathBuf {
        let swapped = || {
            let model = self.model?.name();
            let other = path.file_name()?.to_str()?.strip_prefix("mpm_")?.strip_suffix(".conf")?;
            let available = path.parent()?.parent()?.join("mods-available").join(format!("mpm_{model}.conf"));
            (other != model && self.world.exists(&available)).then_some(available)
        };
        swapped().unwrap_or_else(|| path.to_owned())
    }
}

impl World for View<'_> {
    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        self.world.read(&self.instead(path), most)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.world.list(folder)
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.world.is_folder(path)
    }

    fn exists(&self, path: &Path) -> bool {
        self.world.exists(path)
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned().or_else(|| self.world.variable(name))
    }
}

fn join(folder: &Path, file: &str) -> PathBuf {
    if file.is_empty() { folder.to_owned() } else { folder.join(file) }
}
