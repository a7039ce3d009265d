//! Which modules a configuration loads, under which names `<IfModule>` knows them, and the MPM in place of its own.

use std::path::Path;

use manifold_config::{Diagnostic, Loader, Spanned};

use super::mpm;
use crate::target::Model;

/// A module that is loaded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Loaded {
    /// Its identifier: `dir_module`.
    pub name: String,
    /// Its file as written, which may be relative to `ServerRoot`.
    pub file: String,
}

/// Carries out `LoadModule`.
pub(super) struct Modules<'p> {
    compiled_in: &'p [String],
    wanted: Option<Model>,
    /// The first MPM that was loaded, by its name.
    own: Option<String>,
    loaded: Vec<Loaded>,
}

impl<'p> Modules<'p> {
    pub(super) fn new(compiled_in: &'p [String], wanted: Option<Model>) -> Modules<'p> {
        Modules { compiled_in, wanted, own: None, loaded: Vec::new() }
    }

    /// The MPM of the files, and all that is loaded.
    pub(super) fn end(self, file: &Path) -> Result<(Option<Model>, Vec<Loaded>), String> {
        if let (Some(wanted), None) = (self.wanted, &self.own) {
            return Err(format!(
                "{} loads no MPM, so that there is none to change into {}; it is compiled in, or its LoadModule line is missing",
                file.display(),
                wanted.name()
            ));
        }
        Ok((self.own.as_deref().and_then(mpm::model), self.loaded))
    }
}

impl Loader for Modules<'_> {
    fn load(&mut self, name: &Spanned<String>, path: &Spanned<String>) -> Result<(), Diagnostic> {
        let mut module = Loaded { name: name.value.clone(), file: path.value.clone() };
        if let Some(own) = mpm::of_module(&name.value) {
            self.own.get_or_insert_with(|| own.to_owned());
            if let Some(wanted) = self.wanted {
                let file = format!("mod_mpm_{}.so", wanted.name());
                module.name = format!("mpm_{}_module", wanted.name());
                module.file = Path::new(&path.value).with_file_name(file).display().to_string();
            }
        }
        // Apache skips one that is there already.
        if !self.loaded.iter().any(|loaded| loaded.name == module.name) {
            self.loaded.push(module);
        }
        Ok(())
    }

    fn is_loaded(&self, name: &str) -> bool {
        let is = |module: &Loaded| module.name == name || source_files(module).iter().any(|file| file == name);
        self.loaded.iter().any(is) || self.compiled_in.iter().any(|file| file == name || identifier(file) == name)
    }
}

/// The names of the source file that a module may be compiled from; which one it is stands in the module alone.
fn source_files(module: &Loaded) -> [String; 2] {
    if let Some(model) = mpm::of_module(&module.name) {
        return [format!("{model}.c"), format!("mpm_{model}.c")];
    }
    let by_name = module.name.strip_suffix("_module").unwrap_or(&module.name);
    let by_file = Path::new(&module.file).file_stem().unwrap_or_default().to_string_lossy();
    [format!("mod_{by_name}.c"), format!("{by_file}.c")]
}

/// The identifier of a module that is compiled in from this file.
fn identifier(file: &str) -> String {
    match file.strip_suffix(".c").unwrap_or(file) {
        "http_core" => "http_module".to_owned(),
        model @ ("prefork" | "worker" | "event") => format!("mpm_{model}_module"),
        other => format!("{}_module", other.strip_prefix("mod_").unwrap_or(other)),
    }
}
