//! `LoadModule`, and the modules there are. All of them are built in: loading one only says that it is wanted.

use std::fmt::Write;

use manifold_config::{Diagnostic, Loader, Spanned};
use manifold_mpm::limits::Model;

/// A module of Apache's whose function is built in.
struct BuiltIn {
    /// As `LoadModule` and `<IfModule>` name it.
    identifier: &'static str,
    /// As `<IfModule>` and `-l` name it too.
    file: &'static str,
}

/// Built in like the others; where it is asked for, `ExtendedStatus` is on.
const STATUS: &str = "status_module";

/// Modules other than the process models, in Apache's order.
const BUILT_IN: [BuiltIn; 11] = [
    BuiltIn { identifier: "core_module", file: "core.c" },
    BuiltIn { identifier: "so_module", file: "mod_so.c" },
    BuiltIn { identifier: "http_module", file: "http_core.c" },
    BuiltIn { identifier: "authz_host_module", file: "mod_authz_host.c" },
    BuiltIn { identifier: "authz_core_module", file: "mod_authz_core.c" },
    BuiltIn { identifier: "reqtimeout_module", file: "mod_reqtimeout.c" },
    BuiltIn { identifier: "log_config_module", file: "mod_log_config.c" },
    BuiltIn { identifier: "mime_module", file: "mod_mime.c" },
    BuiltIn { identifier: STATUS, file: "mod_status.c" },
    BuiltIn { identifier: "dir_module", file: "mod_dir.c" },
    BuiltIn { identifier: "unixd_module", file: "mod_unixd.c" },
];

/// The modules in use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Modules {
    /// `-M`, which outweighs the configuration.
    forced: Option<Model>,
    loaded: Option<Model>,
    status: bool,
}

impl Modules {
    /// With the model that the command line chooses.
    pub(crate) fn new(forced: Option<Model>) -> Modules {
        Modules { forced, ..Modules::default() }
    }

    /// The model in use.
    pub(crate) fn model(&self) -> Model {
        self.forced.or(self.loaded).unwrap_or(Model::DEFAULT)
    }

    /// Whether the configuration asks for the status page's module.
    pub(crate) fn wants_status(&self) -> bool {
        self.status
    }

    /// `-M`: what is loaded.
    pub(crate) fn list_loaded(&self) -> String {
        let mut text = "Loaded Modules:\n".to_owned();
        for module in &BUILT_IN {
            // Writing to a String cannot fail.
            let _ = writeln!(text, " {} (static)", module.identifier);
        }
        let _ = writeln!(text, " mpm_{}_module (static)", self.model());
        text
    }

    fn load_model(&mut self, name: &Spanned<String>, model: &str) -> Result<(), Diagnostic> {
        let Ok(model) = model.parse::<Model>() else {
            let message = format!("Cannot load {}: this version has no such MPM", name.value);
            return Err(Diagnostic::error(name.span, message)
                .help("there are mpm_prefork_module, mpm_worker_module, mpm_event_module and mpm_percore_module"));
        };
        match self.loaded {
            Some(other) if other != model && self.forced.is_none() => {
                let error = Diagnostic::error(name.span, "Configuration error: More than one MPM loaded.").code(534);
                let help = format!("keep one of these lines, or choose an MPM whatever is loaded with '-M {model}'");
                Err(error.label(format!("mpm_{other}_module is loaded already")).help(help))
            }
            _ => {
                self.loaded = Some(model);
                Ok(())
            }
        }
    }
}

impl Loader for Modules {
    fn load(&mut self, name: &Spanned<String>, _: &Spanned<String>) -> Result<(), Diagnostic> {
        let model = name.value.strip_prefix("mpm_").and_then(|rest| rest.strip_suffix("_module"));
        if let Some(model) = model {
            return self.load_model(name, model);
        }
        if BUILT_IN.iter().any(|module| module.identifier == name.value) {
            self.status |= name.value == STATUS;
            return Ok(());
        }
        let names: Vec<_> = BUILT_IN.iter().map(|module| module.identifier.trim_end_matches("_module")).collect();
        let error = Diagnostic::error(
            name.span,
            format!("Cannot load {} into server: it is not part of this version", name.value),
        );
        let help = "remove the line, or put it between '<IfDefine !MANIFOLD>' and '</IfDefine>' to keep it for Apache";
        Err(error.label(format!("built in are {}", names.join(", "))).help(help))
    }

    fn is_loaded(&self, name: &str) -> bool {
        let model = self.model();
        BUILT_IN.iter().any(|module| module.identifier == name || module.file == name)
            || name == format!("mpm_{model}_module")
            || name == format!("{model}.c")
    }
}

/// `-l`: what is built in.
pub(crate) fn list_built_in() -> String {
    let mut text = "Compiled in modules:\n".to_owned();
    for file in BUILT_IN.iter().map(|module| module.file.to_owned()).chain(Model::ALL.map(|model| format!("{model}.c")))
    {
        let _ = writeln!(text, "  {file}");
    }
    text
}

/// Whether `LogLevel` may name a module: `core`, `core_module`, `mod_dir.c`, `mpm_event` ...; its name in the log if so.
pub(crate) fn log_name(name: &str) -> Option<String> {
    let bare = name.strip_suffix("_module").unwrap_or(name);
    let by_file = name.strip_suffix(".c").map(|file| file.strip_prefix("mod_").unwrap_or(file));
    let names = [Some(bare), by_file];
    let known = |wanted: &str| {
        BUILT_IN.iter().any(|module| module.identifier.strip_suffix("_module") == Some(wanted))
            || wanted == "mpm_common"
    };
    let model =
        |wanted: &str| Model::ALL.into_iter().find(|model| wanted == model.name() || wanted == format!("mpm_{model}"));
    names.into_iter().flatten().find_map(|wanted| match model(wanted) {
        Some(model) => Some(format!("mpm_{model}")),
        None => known(wanted).then(|| wanted.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use manifold_config::{Configuration, Reader, System};
    use std::path::Path;

    fn read(text: &str, forced: Option<Model>) -> (Modules, Configuration) {
        let mut modules = Modules::new(forced);
        let mut reader = Reader::new(&System, &mut modules, Path::new("/"), &[]);
        reader.text("test", text);
        let configuration = reader.finish();
        (modules, configuration)
    }

    #[test]
    fn the_model_is_chosen_by_the_command_line_then_by_load_module() {
        let check = |text: &str, forced: Option<Model>, expected: Model| {
            let (modules, configuration) = read(text, forced);
            assert_eq!((modules.model(), configuration.findings.len()), (expected, 0), "{text}");
        };
        check("", None, Model::Event);
        check("LoadModule mpm_prefork_module a.so", None, Model::Prefork);
        check("LoadModule mpm_prefork_module a.so\nLoadModule mpm_prefork_module b.so", None, Model::Prefork);
        check("LoadModule mpm_prefork_module a.so", Some(Model::Percore), Model::Percore);
        check("LoadModule dir_module a.so\nLoadModule mime_module modules/mod_mime.so", None, Model::Event);
    }

    #[test]
    fn what_cannot_be_loaded_is_named() {
        let check = |text: &str, message: &str| {
            let (_, configuration) = read(text, None);
            assert_eq!(configuration.findings[0].message, message, "{text}");
        };
        check(
            "LoadModule mpm_worker_module a\nLoadModule mpm_event_module b",
            "Configuration error: More than one MPM loaded.",
        );
        check("LoadModule mpm_winnt_module a", "Cannot load mpm_winnt_module: this version has no such MPM");
        check("LoadModule php_module a", "Cannot load php_module into server: it is not part of this version");
    }

    #[test]
    fn modules_are_known_by_identifier_and_by_file() {
        let modules = Modules::new(Some(Model::Prefork));
        for name in ["core_module", "core.c", "mod_dir.c", "mpm_prefork_module", "prefork.c"] {
            assert!(modules.is_loaded(name), "{name}");
        }
        for name in ["event.c", "mpm_event_module", "MOD_DIR.C", "dir", ""] {
            assert!(!modules.is_loaded(name), "{name}");
        }
    }

    #[test]
    fn log_levels_name_modules_as_apache_does() {
        let check = |name: &str, expected: Option<&str>| assert_eq!(log_name(name).as_deref(), expected, "{name}");
        check("core", Some("core"));
        check("dir_module", Some("dir"));
        check("mod_dir.c", Some("dir"));
        check("mpm_event", Some("mpm_event"));
        check("event.c", Some("mpm_event"));
        check("mpm_percore_module", Some("mpm_percore"));
        check("ssl", None);
    }

    #[test]
    fn lists_are_apaches() {
        let expected = "Compiled in modules:\n  core.c\n  mod_so.c\n  http_core.c\n  mod_authz_host.c\n  mod_authz_core.c\n  \
                        mod_reqtimeout.c\n  mod_log_config.c\n  \
                        mod_mime.c\n  mod_status.c\n  mod_dir.c\n  mod_unixd.c\n  prefork.c\n  worker.c\n  event.c\n  percore.c\n";
        assert_eq!(list_built_in(), expected);
        let loaded = Modules::new(None).list_loaded();
        assert!(loaded.starts_with("Loaded Modules:\n core_module (static)\n"));
        assert!(loaded.ends_with(" mpm_event_module (static)\n"));
    }
}
