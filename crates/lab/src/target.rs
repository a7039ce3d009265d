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
use crate::peer::{self, Peer, Program};

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
    /// Sizes and the rules of keeping connections.
    pub limits: &'a Limits,
    /// Bytes of the one body a server that has no files answers with.
    pub body_bytes: usize,
}

/// How large servers are and how they keep connections; the same for namesakes.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections that may wait to be accepted.
    pub backlog: u32,
    /// Seconds an idle connection is kept.
    pub keep_alive_s: u32,
    /// Requests on a connection; 0 for any number.
    pub keep_alive_requests: u32,
    /// prefork's processes.
    pub prefork: u32,
    /// worker's processes.
    pub worker: u32,
    /// event's processes.
    pub event: u32,
    /// Threads of each of worker's and event's processes.
    pub threads: u32,
    /// `AsyncRequestWorkerFactor`, where its default does not do.
    pub event_factor: Option<u32>,
}

impl Limits {
    /// Those of `lab run`: near the defaults of Apache's manual.
    pub const USUAL: Limits = Limits {
        backlog: 511,
        keep_alive_s: 5,
        keep_alive_requests: 100,
        prefork: 256,
        worker: 16,
        event: 16,
        threads: 25,
        event_factor: None,
    };
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
    /// Another server ([`Target::peer`] says which): measured, but not known to the other tests.
    #[value(skip)]
    Peer,
}

impl Family {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Family::Manifold => "manifold",
            Family::Apache2 => "apache2",
            Family::Nginx => "nginx",
            Family::Peer => "peer",
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
    /// nginx's and the other peers': one event loop a process.
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
    /// How it is found and run, of a [`Family::Peer`].
    pub peer: Option<&'static Peer>,
}

/// Every target known, in the order of tables and legends. `lab run` measures those of the three families unless told otherwise.
pub static TARGETS: [Target; 13] = [
    Target { name: "prefork", label: "manifold prefork", family: Family::Manifold, model: Model::Prefork, peer: None },
    Target { name: "worker", label: "manifold worker", family: Family::Manifold, model: Model::Worker, peer: None },
    Target { name: "event", label: "manifold event", family: Family::Manifold, model: Model::Event, peer: None },
    Target { name: "percore", label: "manifold percore", family: Family::Manifold, model: Model::Percore, peer: None },
    Target {
        name: "apache2-prefork",
        label: "apache2 prefork",
        family: Family::Apache2,
        model: Model::Prefork,
        peer: None,
    },
    Target {
        name: "apache2-worker",
        label: "apache2 worker",
        family: Family::Apache2,
        model: Model::Worker,
        peer: None,
    },
    Target { name: "apache2-event", label: "apache2 event", family: Family::Apache2, model: Model::Event, peer: None },
    Target { name: "nginx", label: "nginx", family: Family::Nginx, model: Model::Loop, peer: None },
    peer("h2o", "h2o", &peer::H2O),
    peer("lighttpd", "lighttpd", &peer::LIGHTTPD),
    peer("caddy", "caddy", &peer::CADDY),
    peer("responder", "responder", &peer::RESPONDER),
    peer("responder-sendfile", "responder, sendfile", &peer::RESPONDER_SENDFILE),
];

/// A command line of an experiment's; how it is run says the experiment.
pub static COMMAND: Target = peer("command", "the command", &peer::COMMAND);

const fn peer(name: &'static str, label: &'static str, peer: &'static Peer) -> Target {
    Target { name, label, family: Family::Peer, model: Model::Loop, peer: Some(peer) }
}

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
            Family::Peer => match self.peer.and_then(|peer| peer.program) {
                Some(Program { name, package, version }) => {
                    let program = which(name)
                        .ok_or_else(|| format!("{name} is not installed (Debian: apt install {package})"))?;
                    let version = first_line(&program, version, "")?;
                    (program, version)
                }
                None => (manifold.to_owned(), format!("Manifold {}", env!("CARGO_PKG_VERSION"))),
            },
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
            Family::Peer => {
                self.peer.map(|peer| (peer.config)(terms)).ok_or_else(|| format!("{} is unknown", self.name))
            }
        }
    }

    /// The arguments that make it serve in the foreground by that configuration, a file with `text` in it.
    pub fn arguments(&self, config: &Path, text: &str) -> Vec<OsString> {
        let folder = config.parent().unwrap_or(Path::new("/"));
        let config = || config.as_os_str().to_owned();
        match self.family {
            Family::Manifold => vec!["httpd".into(), "-f".into(), config(), "-D".into(), "FOREGROUND".into()],
            Family::Apache2 => vec!["-f".into(), config(), "-D".into(), "FOREGROUND".into()],
            // -p and -e keep its compiled-in folder and log out of it until the file is read.
            Family::Nginx => {
                vec!["-p".into(), folder.into(), "-e".into(), folder.join("error.log").into(), "-c".into(), config()]
            }
            Family::Peer => self.peer.map_or_else(Vec::new, |peer| (peer.arguments)(config().as_os_str(), text)),
        }
    }
}

/// The directives that manifold and Apache read alike.
fn httpd_config(target: &Target, terms: &Terms<'_>, own: &str) -> String {
    let folder = terms.folder.display();
    let limits = terms.limits;
    let mut text = format!(
        "# {}, as the laboratory measured it\n\
         ServerRoot \"{folder}\"\n\
         {own}\
         PidFile \"{folder}/httpd.pid\"\n\
         ErrorLog \"{folder}/error.log\"\n\
         LogLevel warn\n\
         ServerName 127.0.0.1\n\
         Listen 127.0.0.1:{}\n\
         ListenBacklog {}\n\
         DocumentRoot \"{}\"\n\
         DirectoryIndex index.html\n\
         Timeout 60\n\
         KeepAlive On\n\
         KeepAliveTimeout {}\n\
         MaxKeepAliveRequests {}\n",
        target.label,
        terms.port,
        limits.backlog,
        terms.site.display(),
        limits.keep_alive_s,
        limits.keep_alive_requests,
    );
    if let Some((user, group)) = terms.user {
        let _ = write!(text, "User {user}\nGroup {group}\n");
    }
    text.push_str(&sizes(target.model, limits));
    text
}

/// Full size from the start, and no spare process ever killed.
fn sizes(model: Model, limits: &Limits) -> String {
    let processes = match model {
        Model::Prefork => {
            let n = limits.prefork;
            return format!(
                "ServerLimit {n}\nMaxRequestWorkers {n}\nStartServers {n}\nMinSpareServers 5\nMaxSpareServers {n}\n\
                 MaxConnectionsPerChild 0\n"
            );
        }
        Model::Worker => limits.worker,
        Model::Event => limits.event,
        // One process a core it may run on, which is what it does without a word.
        Model::Percore | Model::Loop => return String::new(),
    };
    let all = processes * limits.threads;
    let mut text = format!(
        "ServerLimit {processes}\nThreadsPerChild {}\nMaxRequestWorkers {all}\nStartServers {processes}\nMinSpareThreads 75\n\
         MaxSpareThreads {all}\nMaxConnectionsPerChild 0\n",
        limits.threads
    );
    if let Some(factor) = limits.event_factor.filter(|_| model == Model::Event) {
        let _ = writeln!(text, "AsyncRequestWorkerFactor {factor}");
    }
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
    let temporary = nginx_temporary(terms.folder);
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
         \x20   keepalive_timeout {keep}s;\n\
         \x20   keepalive_requests {requests};\n\
         \x20   send_timeout 60s;\n\
         \x20   server {{\n\
         \x20       listen 127.0.0.1:{port} backlog={backlog};\n\
         \x20       server_name 127.0.0.1;\n\
         \x20       root \"{site}\";\n\
         \x20       index index.html;\n\
         \x20   }}\n\
         }}\n",
        list = cores::text(terms.cores),
        workers = terms.cores.len().max(1),
        keep = terms.limits.keep_alive_s,
        requests = peer::or_any_number(terms.limits.keep_alive_requests),
        backlog = terms.limits.backlog,
        port = terms.port,
        site = terms.site.display(),
    )
}

/// The lines that keep nginx's temporary files in a folder of its own, within `http`.
pub fn nginx_temporary(folder: &Path) -> String {
    let line = |kind: &str| format!("    {kind}_temp_path \"{}/{kind}\";\n", folder.display());
    ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(line).concat()
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
pub fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SBIN.iter().map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// The first line a program prints with one option (to either stream), without its prefix.
///
/// # Errors
/// A sentence: it cannot be run.
pub fn first_line(program: &Path, option: &str, prefix: &str) -> Result<String, String> {
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
        let (site, folder) = (Path::new("/a site"), Path::new("/run/one"));
        Terms { port: 4711, site, folder, cores: &[0, 1], user, limits: &Limits::USUAL, body_bytes: 44 }
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
        let words = |name: &str| find(name).expect("known").arguments(Path::new("/c"), "");
        assert_eq!(words("percore"), ["httpd", "-f", "/c", "-D", "FOREGROUND"]);
        assert_eq!(words("apache2-event"), ["-f", "/c", "-D", "FOREGROUND"]);
        assert_eq!(
            find("nginx").expect("known").arguments(Path::new("/run/n/c"), ""),
            ["-p", "/run/n", "-e", "/run/n/error.log", "-c", "/run/n/c"]
        );
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<&str> = TARGETS.iter().flat_map(|t| [t.name, t.label]).collect();
        // nginx, h2o, lighttpd, caddy and the responder are called the same in both.
        assert_eq!(names.len(), 2 * TARGETS.len() - 5);
    }

    #[test]
    fn a_missing_program_is_a_sentence() {
        assert!(which("no-such-program-anywhere").is_none());
        let said = first_line(Path::new("/no/such/program"), "-v", "").expect_err("it is not there");
        assert!(said.contains("/no/such/program cannot be run"), "{said}");
        assert_eq!(first_line(Path::new("/bin/echo"), "version: 7", "version: "), Ok("7".to_owned()));
    }
}
