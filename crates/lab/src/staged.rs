//! A server on a private configuration of a test's own: the base every test needs, what the test adds, and its files.
//!
//! `lab run` puts all servers on equal terms ([`Target::config`]); the tests want something else of each server, and change
//! it while it runs. What they share is here: one folder with the site, the configuration and the logs.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cores::Cores;
use crate::environment;
use crate::scratch::Scratch;
use crate::server::{Place, Server};
use crate::target::{self, Family, Installed, Model, TARGETS, Target};

/// What a configuration says; everything else is the server's default.
#[derive(Clone, Debug)]
pub struct Recipe<'a> {
    /// The model to load (nginx has but one).
    pub model: Model,
    /// Where to listen on 127.0.0.1; the first is the one that is tested.
    pub ports: &'a [u16],
    /// The folder that is served.
    pub root: &'a Path,
    /// A listening socket for each core or bucket (`ListenCoresBucketsRatio 1`, nginx's `reuseport`).
    pub buckets: bool,
    /// nginx's processes, where one a core does not do.
    pub workers: Option<usize>,
    /// Modules of Apache besides the model and those without which it serves nothing.
    pub modules: &'a [&'a str],
    /// Lines of the test; for nginx those within `http`.
    pub lines: String,
}

/// The place of one test: this binary, the user servers become, and a folder that is removed at the end.
#[derive(Debug)]
pub struct Stage {
    /// This binary: server and helper.
    pub manifold: PathBuf,
    /// All processors: these tests are about losses and waiting, and a server has the machine it would have.
    pub cores: Vec<usize>,
    user: Option<(String, String)>,
    folder: PathBuf,
    /// The folder, where it is a temporary one.
    _scratch: Option<Scratch>,
}

impl Stage {
    /// Makes the folder: `keep` and what is in it stays, otherwise one among the temporary files, which does not.
    ///
    /// # Errors
    /// If it cannot be made, or there is no user to serve as.
    pub fn new(keep: Option<&Path>) -> Result<Stage> {
        let manifold = std::env::current_exe().context("cannot tell which program this is")?;
        let user = environment::server_user().map_err(anyhow::Error::msg)?;
        let (folder, scratch) = match keep {
            Some(folder) => (std::path::absolute(folder).context("cannot tell the current folder")?, None),
            None => {
                let scratch = Scratch::new(&manifold)?;
                (scratch.folder().to_owned(), Some(scratch))
            }
        };
        make_folder(&folder)?;
        let cores = Cores::detect();
        let mut all = [cores.server, cores.generator].concat();
        all.sort_unstable();
        all.dedup();
        Ok(Stage { manifold, cores: all, user, folder, _scratch: scratch })
    }

    /// User and group that servers become.
    pub fn user(&self) -> Option<(&str, &str)> {
        self.user.as_ref().map(|(user, group)| (user.as_str(), group.as_str()))
    }

    /// Whose program `family` and `model` are, if it is installed.
    ///
    /// # Errors
    /// A sentence: what is missing and how to get it.
    pub fn detect(&self, family: Family, model: Model) -> Result<Installed, String> {
        let known = TARGETS.iter().find(|target| target.family == family && target.model == model);
        let target: &'static Target = known.ok_or_else(|| format!("there is no model {} there", model.name()))?;
        target.detect(&self.manifold)
    }

    /// A folder below that every user may read, made if it is not there.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        make_folder(&folder)?;
        Ok(folder)
    }

    /// Writes a file every user may read into a folder of [`folder`](Self::folder), in one step.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, folder: &str, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let file = self.folder(folder)?.join(name);
        let draft = file.with_extension("draft");
        let written = fs::write(&draft, bytes)
            .and_then(|()| fs::set_permissions(&draft, fs::Permissions::from_mode(0o644)))
            .and_then(|()| fs::rename(&draft, &file));
        written.with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }

    /// The text of a configuration for a server whose own folder is `name`.
    ///
    /// # Errors
    /// If Apache's modules cannot be found or the folder cannot be made.
    pub fn config(&self, name: &str, family: Family, recipe: &Recipe<'_>) -> Result<String> {
        let folder = self.folder(name)?;
        match family {
            Family::Manifold => Ok(self.httpd_config(&folder, recipe, &target::manifold_lines(recipe.model))),
            Family::Apache2 => {
                let modules = target::apache_modules(recipe.model).map_err(anyhow::Error::msg)?;
                let own = target::apache_lines(recipe.model, modules, recipe.modules, &folder);
                Ok(self.httpd_config(&folder, recipe, &own))
            }
            Family::Nginx => Ok(self.nginx_config(&folder, recipe)),
            Family::Peer => bail!("the laboratory's tests know nothing of this server; lab run measures it"),
        }
    }

    /// Starts a server in the folder `name` by `text`; it does not answer yet.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(&self, name: &str, installed: &Installed, port: u16, text: &str) -> Result<Server> {
        let folder = self.folder(name)?;
        let place = Place { folder: &folder, port, cores: &self.cores };
        Server::start_with(installed, &place, text, &self.manifold)
    }

    fn httpd_config(&self, folder: &Path, recipe: &Recipe<'_>, own: &str) -> String {
        let folder = folder.display();
        let mut text = format!(
            "ServerRoot \"{folder}\"\n{own}PidFile \"{folder}/httpd.pid\"\nErrorLog \"{folder}/error.log\"\n\
             LogLevel notice\nServerName 127.0.0.1\n"
        );
        for port in recipe.ports {
            let _ = writeln!(text, "Listen 127.0.0.1:{port}");
        }
        // percore has a socket a core anyway.
        if recipe.buckets && recipe.model != Model::Percore {
            text.push_str("ListenCoresBucketsRatio 1\n");
        }
        let _ = write!(text, "DocumentRoot \"{}\"\nDirectoryIndex index.html\n", recipe.root.display());
        if let Some((user, group)) = &self.user {
            let _ = write!(text, "User {user}\nGroup {group}\n");
        }
        text.push_str(&recipe.lines);
        text
    }

    fn nginx_config(&self, folder: &Path, recipe: &Recipe<'_>) -> String {
        let user = self.user.as_ref().map(|(user, group)| format!("user {user} {group};\n")).unwrap_or_default();
        let reuseport = if recipe.buckets { " reuseport" } else { "" };
        let listens: String =
            recipe.ports.iter().map(|port| format!("listen 127.0.0.1:{port} backlog=511{reuseport}; ")).collect();
        let temporary = target::nginx_temporary(folder);
        format!(
            "{user}worker_processes {workers};\nworker_rlimit_nofile {files};\ndaemon off;\n\
             pid \"{folder}/nginx.pid\";\nerror_log \"{folder}/error.log\" notice;\n\
             events {{ worker_connections {files}; }}\n\
             http {{\n{temporary}types {{ text/html html; }}\naccess_log off;\n{lines}\
             server {{ {listens}server_name 127.0.0.1; root \"{root}\"; index index.html; }}\n}}\n",
            workers = recipe.workers.unwrap_or(self.cores.len()).max(1),
            files = NGINX_FILES,
            folder = folder.display(),
            lines = recipe.lines,
            root = recipe.root.display(),
        )
    }
}

/// Descriptors and connections of an nginx worker; below the hard limit that Debian and containers usually give.
const NGINX_FILES: u32 = 16_384;

/// Makes a folder that every user may enter, whatever the umask: servers run as another user when we are root.
fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot open the folder {} to all", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(family: Family, model: Model, buckets: bool, has: &[&str], has_not: &[&str]) {
        let keep = std::env::temp_dir().join(format!("manifold-lab-staged-{}", std::process::id()));
        let mut stage = Stage::new(Some(&keep)).expect("a folder");
        stage.user = Some(("www".to_owned(), "web".to_owned()));
        let recipe = Recipe {
            model,
            ports: &[4711, 4712],
            root: Path::new("/a site"),
            buckets,
            workers: None,
            modules: &[],
            lines: "# the test's\n".to_owned(),
        };
        let text = stage.config("one", family, &recipe).expect("a configuration");
        for part in has {
            assert!(text.contains(part), "no {part:?} in:\n{text}");
        }
        for part in has_not {
            assert!(!text.contains(part), "{part:?} in:\n{text}");
        }
        fs::remove_dir_all(&keep).expect("it is ours");
    }

    #[test]
    fn configurations() {
        let ours = [
            "LoadModule mpm_event_module",
            "Listen 127.0.0.1:4711\nListen 127.0.0.1:4712\n",
            "DocumentRoot \"/a site\"",
            "User www\n",
        ];
        check(Family::Manifold, Model::Event, false, &ours, &["Buckets"]);
        check(Family::Manifold, Model::Event, true, &["ListenCoresBucketsRatio 1\n", "# the test's\n"], &[]);
        check(Family::Manifold, Model::Percore, true, &["mpm_percore_module"], &["Buckets"]);
        let theirs = [
            "listen 127.0.0.1:4711 backlog=511; listen 127.0.0.1:4712",
            "root \"/a site\"",
            "user www web;",
            "# the test's\n",
        ];
        check(Family::Nginx, Model::Loop, false, &theirs, &["reuseport"]);
        check(Family::Nginx, Model::Loop, true, &["listen 127.0.0.1:4711 backlog=511 reuseport;"], &[]);
    }
}
