//! The servers that can be measured, as data: what each is called, whether it is installed, and the configuration that
//! puts it on equal terms with the others.
//!
//! Equal terms means: the same page, the same number of processes and threads as its namesake, all of them there from
//! the start (a cell of half a second shall measure the model and not its growth), kept-alive connections ended by the
//! same rules, no access log, the same backlog.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::cores;

/// What all servers are told alike.
#[derive(Clone, Debug)]
pub struct Terms<'a> {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// The folder that is served.
    pub site: &'a Path,
    /// A folder of the server's own for its configuration, error log and process id file.
    pub folder: &'a Path,
    /// Processors the servers run on.
    pub cores: &'a [usize],
    /// User and group to run as; only root may and must change.
    pub user: Option<(&'a str, &'a str)>,
}

/// Whose program a target is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// This binary.
    Manifold,
    /// Apache HTTP Server, as installed here.
    Apache2,
    /// nginx, as installed here.
    Nginx,
}

impl Family {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Family::Manifold => "manifold",
            Family::Apache2 => "apache2",
            Family::Nginx => "nginx",
        }
    }
}

/// A concurrency model; the namesakes of the two families share their colour in every plot.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// A process a connection.
    Prefork,
    /// Processes with a thread a connection.
    Worker,
    /// As worker, idle connections parked.
    Event,
    /// A ring a core.
    Percore,
    /// nginx's own: one event loop a process.
    #[value(skip)]
    Loop,
}

impl Model {
    /// Its name in `LoadModule mpm_NAME_module`.
    pub fn name(self) -> &'static str {
        match self {
            Model::Prefork => "prefork",
            Model::Worker => "worker",
            Model::Event => "event",
            Model::Percore => "percore",
            Model::Loop => "loop",
        }
    }
}

/// A server that can be measured.
#[derive(Debug)]
pub struct Target {
    /// The name on the command line and in the files.
    pub name: &'static str,
    /// The name a person reads.
    pub label: &'static str,
    /// Whose program.
    pub family: Family,
    /// Which model.
    pub model: Model,
}

/// Every target known, in the order of tables and legends.
pub static TARGETS: [Target; 8] = [
    Target { name: "prefork", label: "manifold prefork", family: Family::Manifold, model: Model::Prefork },
    Target { name: "worker", label: "manifold worker", family: Family::Manifold, model: Model::Worker },
    Target { name: "event", label: "manifold event", family: Family::Manifold, model: Model::Event },
    Target { name: "percore", label: "manifold percore", family: Family::Manifold, model: Model::Percore },
    Target { name: "apache2-prefork", label: "apache2 prefork", family: Family::Apache2, model: Model::Prefork },
    Target { name: "apache2-worker", label: "apache2 worker", family: Family::Apache2, model: Model::Worker },
    Target { name: "apache2-event", label: "apache2 event", family: Family::Apache2, model: Model::Event },
    Target { name: "nginx", label: "nginx", family: Family::Nginx, model: Model::Loop },
];

/// A target that is there: the program to run and what it says of itself.
#[derive(Clone, Debug)]
pub struct Installed {
    /// The target.
    pub target: &'static Target,
    /// The program.
    pub program: PathBuf,
    /// One line.
    pub version: String,
}

/// Folders searched after PATH's: Debian keeps servers in sbin, which a user's PATH often lacks.
const SBIN: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];
/// Where distributions keep Apache's modules.
const APACHE_MODULES: [&str; 4] =
    ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules", "/usr/local/apache2/modules"];
/// The names Apache's program goes by.
const APACHE_PROGRAMS: [&str; 2] = ["apache2", "httpd"];

impl Target {
    /// Looks for the target on this machine. `manifold` is the binary that is running.
    ///
    /// # Errors
    /// A sentence for the report: what is missing and how to get it.
    pub fn detect(&'static self, manifold: &Path) -> Result<Installed, String> {
        let (program, version) = match self.family {
            Family::Manifold => (manifold.to_owned(), format!("Manifold {}", env!("CARGO_PKG_VERSION"))),
            Family::Apache2 => {
                let program = APACHE_PROGRAMS
                    .iter()
                    .find_map(|name| which(name))
                    .ok_or("apache2 is not installed (Debian: apt install apache2)")?;
                apache_modules(self.model)?;
                let version = first_line(&program, "-v", "Server version: ")?;
                // On a machine where our own binary is linked as `httpd`, that is no peer.
                if !version.starts_with("Apache/") {
                    return Err(format!("{} is not Apache HTTP Server: it says \"{version}\"", program.display()));
                }
                (program, version)
            }
            Family::Nginx => {
                let program = which("nginx").ok_or("nginx is not installed (Debian: apt install nginx)")?;
                let version = first_line(&program, "-v", "nginx version: ")?;
                (program, version)
            }
        };
        Ok(Installed { target: self, program, version })
    }

    /// The text of its configuration file.
    ///
    /// # Errors
    /// If Apache's modules cannot be found.
    pub fn config(&self, terms: &Terms<'_>) -> Result<String, String> {
        match self.family {
            Family::Manifold => Ok(httpd_config(self, terms, &manifold_lines(self.model))),
            Family::Apache2 => {
                let own = apache_lines(self.model, apache_modules(self.model)?, &[], terms.folder);
                // Large files the way the others send them.
                let own = format!("{own}EnableSendfile On\n");
                Ok(httpd_config(self, terms, &own))
            }
            Family::Nginx => Ok(nginx_config(terms)),
        }
    }

    /// The arguments that make it serve in the foreground by that configuration.
    pub fn arguments(&self, config: &Path) -> Vec<OsString> {
        let folder = config.parent().unwrap_or(Path::new("/"));
        let config = || config.as_os_str().to_owned();
        match self.family {
            Family::Manifold => vec!["httpd".into(), "-f".into(), config(), "-D".into(), "FOREGROUND".into()],
            Family::Apache2 => vec!["-f".into(), config(), "-D".into(), "FOREGROUND".into()],
            // -p and -e keep its compiled-in folder and log out of it until the file is read.
            Family::Nginx => {
                vec!["-p".into(), folder.into(), "-e".into(), folder.join("error.log").into(), "-c".into(), config()]
            }
        }
    }
}

/// The directives that manifold and Apache read alike.
fn httpd_config(target: &Target, terms: &Terms<'_>, own: &str) -> String {
    let folder = terms.folder.display();
    let mut text = format!(
        "# {}, as the laboratory measured it\n\
         ServerRoot \"{folder}\"\n\
         {own}\
         PidFile \"{folder}/httpd.pid\"\n\
         ErrorLog \"{folder}/error.log\"\n\
         LogLevel warn\n\
         ServerName 127.0.0.1\n\
         Listen 127.0.0.1:{}\n\
         ListenBacklog 511\n\
         DocumentRoot \"{}\"\n\
         DirectoryIndex index.html\n\
         Timeout 60\n\
         KeepAlive On\n\
         KeepAliveTimeout 5\n\
         MaxKeepAliveRequests 100\n",
        target.label,
        terms.port,
        terms.site.display(),
    );
    if let Some((user, group)) = terms.user {
        let _ = write!(text, "User {user}\nGroup {group}\n");
    }
    text.push_str(match target.model {
        // Full size from the start, and no spare one ever killed.
        Model::Prefork => {
            "ServerLimit 256\nMaxRequestWorkers 256\nStartServers 256\nMinSpareServers 5\nMaxSpareServers 256\n\
             MaxConnectionsPerChild 0\n"
        }
        Model::Worker | Model::Event => {
            "ServerLimit 16\nThreadsPerChild 25\nMaxRequestWorkers 400\nStartServers 16\nMinSpareThreads 75\n\
             MaxSpareThreads 400\nMaxConnectionsPerChild 0\n"
        }
        // One process a core it may run on, which is what it does without a word.
        Model::Percore | Model::Loop => "",
    });
    text
}

/// What only manifold is told: the model, under the name Apache would load it by.
pub fn manifold_lines(model: Model) -> String {
    format!("LoadModule mpm_{0}_module modules/mod_mpm_{0}.so\n", model.name())
}

/// What only Apache is told: its modules by path (`others` besides those it needs).
pub fn apache_lines(model: Model, modules: &Path, others: &[&str], folder: &Path) -> String {
    let mut text = String::new();
    let model = format!("mpm_{}", model.name());
    for module in [&*model, "authz_core", "mime", "dir"].iter().chain(others) {
        let file = modules.join(format!("mod_{module}.so"));
        // A module that is not there is compiled in.
        if file.exists() || module.starts_with("mpm_") {
            let _ = writeln!(text, "LoadModule {module}_module \"{}\"", file.display());
        }
    }
    let types = if Path::new("/etc/mime.types").exists() { "/etc/mime.types" } else { "/dev/null" };
    let _ = write!(
        text,
        "DefaultRuntimeDir \"{}\"\n<IfModule mime_module>\nTypesConfig {types}\nAddType text/html .html\n</IfModule>\n",
        folder.display()
    );
    text
}

fn nginx_config(terms: &Terms<'_>) -> String {
    let folder = terms.folder.display();
    let user = terms.user.map(|(user, group)| format!("user {user} {group};\n")).unwrap_or_default();
    let types = if Path::new("/etc/nginx/mime.types").exists() {
        "    include /etc/nginx/mime.types;\n"
    } else {
        "    types { text/html html; }\n"
    };
    let mut temporary = String::new();
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = writeln!(temporary, "    {kind}_temp_path \"{folder}/{kind}\";");
    }
    format!(
        "# nginx, as the laboratory measured it on processors {list}\n\
         {user}worker_processes {workers};\n\
         worker_rlimit_nofile 16384;\n\
         daemon off;\n\
         pid \"{folder}/nginx.pid\";\n\
         error_log \"{folder}/error.log\" warn;\n\
         events {{ worker_connections 8192; }}\n\
         http {{\n\
         {types}\
         {temporary}    access_log off;\n\
         \x20   sendfile on;\n\
         \x20   keepalive_timeout 5s;\n\
         \x20   keepalive_requests 100;\n\
         \x20   send_timeout 60s;\n\
         \x20   server {{\n\
         \x20       listen 127.0.0.1:{port} backlog=511;\n\
         \x20       server_name 127.0.0.1;\n\
         \x20       root \"{site}\";\n\
         \x20       index index.html;\n\
         \x20   }}\n\
         }}\n",
        list = cores::text(terms.cores),
        workers = terms.cores.len().max(1),
        port = terms.port,
        site = terms.site.display(),
    )
}

/// Apache's module folder, if the model's module is in it.
///
/// # Errors
/// A sentence that names the places looked at.
pub fn apache_modules(model: Model) -> Result<&'static Path, String> {
    let file = format!("mod_mpm_{}.so", model.name());
    APACHE_MODULES
        .iter()
        .map(Path::new)
        .find(|folder| folder.join(&file).exists())
        .ok_or_else(|| format!("Apache's {file} is in none of {}", APACHE_MODULES.join(", ")))
}

/// The program of that name in PATH or one of the sbin folders.
fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SBIN.iter().map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// The first line a program prints with one option (to either stream), without its prefix.
fn first_line(program: &Path, option: &str, prefix: &str) -> Result<String, String> {
    let output =
        Command::new(program).arg(option).output().map_err(|e| format!("{} cannot be run: {e}", program.display()))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find_map(|line| line.strip_prefix(prefix)).or(text.lines().next()).unwrap_or("").trim();
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }

    fn terms<'a>(user: Option<(&'a str, &'a str)>) -> Terms<'a> {
        Terms { port: 4711, site: Path::new("/a site"), folder: Path::new("/run/one"), cores: &[0, 1], user }
    }

    /// The lines of a configuration that decide the model's size.
    fn check(text: &str, has: &[&str], has_not: &[&str]) {
        for line in has {
            assert!(text.lines().any(|l| l.trim() == *line), "no line {line:?} in:\n{text}");
        }
        for part in has_not {
            assert!(!text.contains(part), "{part:?} in:\n{text}");
        }
    }

    const COMMON: [&str; 9] = [
        "ServerRoot \"/run/one\"",
        "ErrorLog \"/run/one/error.log\"",
        "Listen 127.0.0.1:4711",
        "ListenBacklog 511",
        "DocumentRoot \"/a site\"",
        "Timeout 60",
        "KeepAlive On",
        "KeepAliveTimeout 5",
        "MaxKeepAliveRequests 100",
    ];

    #[test]
    fn manifold_configs() {
        for (name, module, sizes, not) in [
            (
                "prefork",
                "mpm_prefork",
                &["StartServers 256", "MaxSpareServers 256", "MaxRequestWorkers 256"][..],
                "Thread",
            ),
            ("worker", "mpm_worker", &["StartServers 16", "ThreadsPerChild 25", "MaxSpareThreads 400"], "Servers 256"),
            ("event", "mpm_event", &["StartServers 16", "ThreadsPerChild 25", "MaxSpareThreads 400"], "Servers 256"),
            ("percore", "mpm_percore", &[], "StartServers"),
        ] {
            let text = find(name).expect("known").config(&terms(None)).expect("no file is needed");
            let load = format!("LoadModule {module}_module modules/mod_{module}.so");
            check(&text, &COMMON, &["CustomLog", "User ", "Group ", not]);
            check(&text, &[&load], &[]);
            check(&text, sizes, &[]);
        }
        let text = find("event").expect("known").config(&terms(Some(("www", "web")))).expect("no file is needed");
        check(&text, &["User www", "Group web"], &[]);
    }

    #[test]
    fn apache_is_told_the_same_as_its_namesake() {
        for model in [Model::Prefork, Model::Worker, Model::Event] {
            let of = |name: &str| find(name).expect("known");
            let ours = httpd_config(of(model.name()), &terms(None), "");
            let theirs = httpd_config(of(&format!("apache2-{}", model.name())), &terms(None), "");
            assert!(ours.lines().skip(1).eq(theirs.lines().skip(1)), "{ours}\n{theirs}");
        }
        let own = apache_lines(Model::Event, Path::new("/nowhere"), &[], Path::new("/run/one"));
        check(&own, &["LoadModule mpm_event_module \"/nowhere/mod_mpm_event.so\""], &["authz"]);
    }

    #[test]
    fn nginx_config_text() {
        let text = nginx_config(&terms(Some(("www", "web"))));
        check(
            &text,
            &[
                "user www web;",
                "worker_processes 2;",
                "access_log off;",
                "keepalive_timeout 5s;",
                "keepalive_requests 100;",
                "listen 127.0.0.1:4711 backlog=511;",
                "root \"/a site\";",
            ],
            &["open_file_cache", "reuseport"],
        );
        check(&nginx_config(&terms(None)), &[], &["user "]);
    }

    #[test]
    fn arguments_run_in_the_foreground() {
        let words = |name: &str| find(name).expect("known").arguments(Path::new("/c"));
        assert_eq!(words("percore"), ["httpd", "-f", "/c", "-D", "FOREGROUND"]);
        assert_eq!(words("apache2-event"), ["-f", "/c", "-D", "FOREGROUND"]);
        assert_eq!(
            find("nginx").expect("known").arguments(Path::new("/run/n/c")),
            ["-p", "/run/n", "-e", "/run/n/error.log", "-c", "/run/n/c"]
        );
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<&str> = TARGETS.iter().flat_map(|t| [t.name, t.label]).collect();
        // nginx is called the same in both.
        assert_eq!(names.len(), 2 * TARGETS.len() - 1);
    }

    #[test]
    fn a_missing_program_is_a_sentence() {
        assert!(which("no-such-program-anywhere").is_none());
        let said = first_line(Path::new("/no/such/program"), "-v", "").expect_err("it is not there");
        assert!(said.contains("/no/such/program cannot be run"), "{said}");
        assert_eq!(first_line(Path::new("/bin/echo"), "version: 7", "version: "), Ok("7".to_owned()));
    }
}
