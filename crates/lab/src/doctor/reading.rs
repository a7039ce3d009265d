//! Reads a configuration as the server does that will run it, and keeps what a doctor asks about: the model and its numbers, each with
//! the place it was written at, and what the server makes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use manifold_config::tree::Node;
use manifold_config::{
    Configuration, Diagnostic, Loader, Module, Reader, Severity, Sources, Span, Spanned, Style, System, Table, World,
    check, render,
};
use manifold_mpm::directives::{RawServer, elsewhere, rows};
use manifold_mpm::limits::{Kind, Limits, Model, Occasion, resolve};

use super::program::Program;

/// Directives whose values decide numbers of processes, threads and connections.
const NUMBERS: [&str; 21] = [
    "StartServers",
    "MinSpareServers",
    "MaxSpareServers",
    "MinSpareThreads",
    "MaxSpareThreads",
    "ServerLimit",
    "ThreadLimit",
    "ThreadsPerChild",
    "MaxRequestWorkers",
    "MaxClients",
    "MaxConnectionsPerChild",
    "MaxRequestsPerChild",
    "AsyncRequestWorkerFactor",
    "GracefulShutdownTimeout",
    "ListenCoresBucketsRatio",
    "ListenBacklog",
    "ThreadStackSize",
    "SpawnPolicy",
    "Cores",
    "MaxConnections",
    "CorePinning",
];
/// Those of them that Apache does not have.
const NOT_APACHES: [&str; 4] = ["SpawnPolicy", "Cores", "MaxConnections", "CorePinning"];
/// New names, and the old ones that mean the same.
const OLD_NAMES: [(&str, &str); 2] =
    [("MaxRequestWorkers", "MaxClients"), ("MaxConnectionsPerChild", "MaxRequestsPerChild")];
/// Directives of the core that decide how long a connection is kept, with Apache's defaults.
const CORE: [(&str, &str); 4] =
    [("KeepAlive", "On"), ("KeepAliveTimeout", "5"), ("MaxKeepAliveRequests", "100"), ("Timeout", "60")];
/// `KeepAliveTimeout` where nothing is said, seconds.
const KEPT_S: f64 = 5.0;
/// `ListenBacklog` where nothing is said.
const BACKLOG: u32 = 511;

/// Whose server the configuration is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Whose {
    /// Apache HTTP Server.
    Apache,
    /// This binary.
    Manifold,
}

/// A value in effect.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize)]
pub struct Value {
    /// The directive.
    pub name: String,
    /// As the directive takes it.
    pub value: String,
    /// `FILE:LINE`, `default`, or what it was before it was corrected.
    pub from: String,
}

/// Something the server makes of the numbers, or says about them.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize)]
pub struct Correction {
    /// The number of Apache's message; `None` where Apache is silent.
    pub code: Option<u16>,
    /// Whether another number holds than was written.
    pub changes: bool,
    /// The message.
    pub text: String,
    /// `FILE:LINE`, where something that is written is to blame.
    pub place: Option<String>,
}

/// What was read.
#[derive(Debug)]
pub struct Setup {
    /// The numbers in effect.
    pub limits: Limits,
    /// Which model, and where that is said.
    pub mpm: Value,
    /// Every value in effect.
    pub values: Vec<Value>,
    /// What the server makes of the numbers.
    pub corrections: Vec<Correction>,
    /// Modules to load beside the model: name and file.
    pub modules: Vec<(String, PathBuf)>,
    /// Seconds that an idle connection is kept; `None` with `KeepAlive Off`.
    pub keep_alive_s: Option<f64>,
    /// Connections that may wait in each listening socket.
    pub backlog: u32,
    /// Listening sockets.
    pub listeners: usize,
    /// Log files.
    pub logs: usize,
    /// Files are sent by sendfile(2).
    pub sendfile: bool,
    /// Addresses of backends over TCP.
    pub backends: BTreeSet<String>,
    /// `PidFile`, absolute.
    pub pid_file: Option<PathBuf>,
}

impl Setup {
    /// The value of a directive in effect, and where it comes from.
    pub fn value(&self, name: &str) -> &Value {
        self.values.iter().find(|value| value.name == name).unwrap_or(&self.mpm)
    }
}

/// Reads `file`.
///
/// # Errors
/// What is wrong in it, as lines for a person, each with file and line.
pub fn read(file: &Path, whose: Whose, program: &Program, server_root: &Path) -> Result<Setup, String> {
    let surroundings = Surroundings { variables: &program.variables };
    let mut modules = Modules { whose, built_in: program.built_in.clone(), loaded: Vec::new(), model: None };
    let defines: &[String] = if whose == Whose::Manifold { &["MANIFOLD".to_owned()] } else { &[] };
    let mut reader = Reader::new(&surroundings, &mut modules, server_root, defines);
    reader.file(file);
    let mut configuration = reader.finish();
    let mut findings = std::mem::take(&mut configuration.findings);
    let (model, model_span) = match modules.model {
        Some((model, span)) => (model, Some(span)),
        None => (program.model.unwrap_or(Model::DEFAULT), None),
    };
    if whose == Whose::Apache && modules.model.is_none() && program.model.is_none() {
        let help = "load one: LoadModule mpm_event_module modules/mod_mpm_event.so";
        findings.push(Diagnostic::error(None, "Configuration error: No MPM loaded.").code(534).help(help));
    }
    let all = std::mem::take(&mut configuration.nodes);
    let is_number = |node: &Node| NUMBERS.iter().any(|name| name.eq_ignore_ascii_case(&node.name.value));
    configuration.nodes = all.iter().filter(|node| is_number(node)).cloned().collect();
    let mut table = Table { rows: rows(model), value: RawServer::default() };
    findings.extend(check(&configuration, &mut [&mut table as &mut dyn Module], &elsewhere(model)));
    if whose == Whose::Apache {
        findings.extend(not_apaches(&configuration));
    }
    refuse(&findings, &configuration.sources, whose)?;
    let cores = std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX));
    let (limits, told) = resolve(model, &table.value.limits, cores, Occasion::Start);
    let written = Written { numbers: &configuration.nodes, all: &all, sources: &configuration.sources };
    let told =
        findings.iter().map(|finding| (Kind::Note, finding)).chain(told.iter().map(|one| (one.kind, &one.diagnostic)));
    let mut corrections: Vec<Correction> = told.map(|(kind, finding)| written.correction(kind, finding)).collect();
    let mut values = written.values(&limits, whose);
    corrections.extend(written.twice());
    if whose == Whose::Apache {
        corrections.extend(whole_factor(&limits, &mut values, &written));
    }
    let backlog = table.value.backlog.and_then(|n| u32::try_from(n).ok()).unwrap_or(BACKLOG);
    values.push(written.value("ListenBacklog", backlog.to_string()));
    let root = &configuration.server_root;
    let unwritten = if whose == Whose::Apache { "compiled in" } else { "default" };
    let from = model_span.map_or_else(|| unwritten.to_owned(), |span| place(&configuration.sources, span));
    Ok(Setup {
        mpm: Value { name: "MPM".to_owned(), value: model.to_string(), from },
        values,
        corrections,
        modules: modules.loaded.into_iter().map(|(name, file)| (name, root.join(file))).collect(),
        keep_alive_s: written.keep_alive_s(),
        backlog,
        listeners: written.count("Listen").max(1),
        logs: everywhere(&all, &["ErrorLog", "CustomLog", "TransferLog"]).len(),
        sendfile: written
            .text("EnableSendfile")
            .map_or(whose == Whose::Manifold, |text| text.eq_ignore_ascii_case("on")),
        backends: backends(&all),
        pid_file: written.text("PidFile").map(|text| root.join(text)),
        limits,
    })
}

/// Errors end it, all of them told.
fn refuse(findings: &[Diagnostic], sources: &Sources, whose: Whose) -> Result<(), String> {
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    let name = if whose == Whose::Apache { "apache2" } else { "httpd" };
    let text: String = errors.map(|error| render(error, sources, name, Style::Plain)).collect();
    if text.is_empty() { Ok(()) } else { Err(text) }
}

/// Directives that only Manifold has, in a configuration for Apache.
fn not_apaches(configuration: &Configuration) -> Vec<Diagnostic> {
    let ours = |node: &&Node| NOT_APACHES.iter().any(|name| name.eq_ignore_ascii_case(&node.name.value));
    let error = |node: &Node| {
        let message = format!("Invalid command '{}': Apache does not have it", node.name.value);
        let help = "put it between '<IfDefine MANIFOLD>' and '</IfDefine>'";
        Diagnostic::error(node.name.span, message).code(526).help(help)
    };
    configuration.nodes.iter().filter(ours).map(error).collect()
}

/// Apache divides whole numbers: a factor counts without what follows its decimal point.
fn whole_factor(limits: &Limits, values: &mut [Value], written: &Written<'_>) -> Option<Correction> {
    let whole = limits.async_factor.trunc();
    (limits.model == Model::Event && whole < limits.async_factor).then(|| {
        if let Some(value) = values.iter_mut().find(|value| value.name == "AsyncRequestWorkerFactor") {
            value.from = format!("{} says {}", value.from, value.value);
            value.value = whole.to_string();
        }
        Correction {
            code: None,
            changes: true,
            text: format!(
                "AsyncRequestWorkerFactor of {} counts as {whole}: Apache divides whole numbers.",
                limits.async_factor
            ),
            place: written.place("AsyncRequestWorkerFactor"),
        }
    })
}

/// What was written, for telling where each value comes from.
struct Written<'a> {
    /// The nodes of [`NUMBERS`].
    numbers: &'a [Node],
    /// All that stands outside of sections, and the sections.
    all: &'a [Node],
    sources: &'a Sources,
}

impl Written<'_> {
    /// The directive that holds: the last, under its old name as well.
    fn last(&self, name: &str) -> Option<&Node> {
        let old = OLD_NAMES.iter().find(|(new, _)| *new == name).map(|(_, old)| *old);
        let is = |node: &&Node| {
            let written = &node.name.value;
            written.eq_ignore_ascii_case(name) || old.is_some_and(|old| written.eq_ignore_ascii_case(old))
        };
        self.all.iter().rfind(is)
    }

    fn count(&self, name: &str) -> usize {
        self.all.iter().filter(|node| node.name.value.eq_ignore_ascii_case(name)).count()
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.last(name)?.args.first().map(|word| word.value.as_str())
    }

    fn place(&self, name: &str) -> Option<String> {
        self.last(name).map(|node| place(self.sources, node.span))
    }

    fn value(&self, name: &str, value: String) -> Value {
        let from = match (self.place(name), self.text(name)) {
            (Some(place), Some(text)) if text.eq_ignore_ascii_case(&value) => place,
            (Some(place), Some(text)) => format!("{place} says {text}"),
            _ => "default".to_owned(),
        };
        Value { name: name.to_owned(), value, from }
    }

    fn correction(&self, kind: Kind, finding: &Diagnostic) -> Correction {
        Correction {
            code: finding.code,
            changes: kind != Kind::Note,
            text: finding.message.clone(),
            place: finding.span.map(|span| place(self.sources, span)),
        }
    }

    /// Seconds that an idle connection is kept; `None` with `KeepAlive Off`.
    fn keep_alive_s(&self) -> Option<f64> {
        let core = |name: &str| self.text(name).unwrap_or_default();
        (!core("KeepAlive").eq_ignore_ascii_case("off")).then(|| seconds(core("KeepAliveTimeout")).unwrap_or(KEPT_S))
    }

    fn values(&self, limits: &Limits, whose: Whose) -> Vec<Value> {
        let shown = |name: &str| match name {
            "MPM" => false,
            "listener sets" => limits.listener_sets > 1,
            name => whose == Whose::Manifold || !NOT_APACHES.contains(&name),
        };
        let of_model = limits.effective().into_iter().filter(|(name, _)| shown(name)).map(|(name, value)| match name {
            "processes at most" => {
                Value { name: name.to_owned(), value, from: "MaxRequestWorkers / ThreadsPerChild".to_owned() }
            }
            "listener sets" => Value { name: name.to_owned(), value, from: "ListenCoresBucketsRatio".to_owned() },
            name => self.value(name, value),
        });
        let of_core =
            CORE.into_iter().map(|(name, default)| self.value(name, self.text(name).unwrap_or(default).to_owned()));
        let mut values: Vec<Value> = of_model.collect();
        if limits.model == Model::Prefork {
            // One thread a process: the quotient is the number itself.
            values.retain(|value| value.name != "processes at most");
        }
        values.extend(of_core);
        values
    }

    /// Directives that are written more than once, of which only the last holds.
    fn twice(&self) -> Vec<Correction> {
        let mut by_name: BTreeMap<String, Vec<&Node>> = BTreeMap::new();
        for node in self.numbers {
            by_name.entry(node.name.value.to_ascii_lowercase()).or_default().push(node);
        }
        let tell = |nodes: Vec<&Node>| {
            let (last, earlier) = nodes.split_last()?;
            let earlier: Vec<String> = earlier.iter().map(|node| place(self.sources, node.span)).collect();
            (!earlier.is_empty()).then(|| Correction {
                code: None,
                changes: false,
                text: format!(
                    "{} is written more than once; the last holds, not that of {}.",
                    last.name.value,
                    earlier.join(", ")
                ),
                place: Some(place(self.sources, last.span)),
            })
        };
        by_name.into_values().filter_map(tell).collect()
    }
}

fn place(sources: &Sources, span: Span) -> String {
    format!("{}:{}", sources.source(span.source).name, sources.line(span))
}

/// All directives of these names, in sections as well.
fn everywhere<'n>(nodes: &'n [Node], names: &[&str]) -> Vec<&'n Node> {
    let mut found = Vec::new();
    for node in nodes {
        if names.iter().any(|name| name.eq_ignore_ascii_case(&node.name.value)) {
            found.push(node);
        }
        found.extend(everywhere(node.body.as_deref().unwrap_or_default(), names));
    }
    found
}

/// Where requests are passed on over TCP: `http://`, `fcgi://`, `ajp://` ... with a host, and no Unix socket before it.
fn backends(nodes: &[Node]) -> BTreeSet<String> {
    let words = everywhere(nodes, &["ProxyPass", "ProxyPassMatch", "SetHandler", "BalancerMember"]);
    let address = |word: &str| {
        let word = word.strip_prefix("proxy:").unwrap_or(word);
        let (scheme, rest) = word.split_once("://")?;
        let host = rest.split('/').next().unwrap_or_default();
        (!host.is_empty() && !matches!(scheme, "balancer") && !scheme.contains("unix:")).then(|| host.to_owned())
    };
    words.iter().flat_map(|node| &node.args).filter_map(|word| address(&word.value)).collect()
}

/// A time as directives take it: seconds, or with a unit.
fn seconds(text: &str) -> Option<f64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: f64 = text[..digits].parse().ok()?;
    Some(match &text[digits..] {
        "" | "s" => number,
        "ms" => number / 1000.0,
        "mi" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return None,
    })
}

/// The file system, and the variables that the server is started with.
struct Surroundings<'v> {
    variables: &'v BTreeMap<String, String>,
}

impl World for Surroundings<'_> {
    fn read(&self, path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
        System.read(path, most)
    }

    fn list(&self, folder: &Path) -> std::io::Result<Vec<String>> {
        System.list(folder)
    }

    fn is_folder(&self, path: &Path) -> bool {
        System.is_folder(path)
    }

    fn exists(&self, path: &Path) -> bool {
        System.exists(path)
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned().or_else(|| System.variable(name))
    }
}

/// What `LoadModule` and `<IfModule>` know.
struct Modules {
    whose: Whose,
    /// Files of the modules that are compiled in: `mod_so.c`.
    built_in: BTreeSet<String>,
    loaded: Vec<(String, String)>,
    model: Option<(Model, Span)>,
}

impl Loader for Modules {
    fn load(&mut self, name: &Spanned<String>, path: &Spanned<String>) -> Result<(), Diagnostic> {
        let Some(model) = name.value.strip_prefix("mpm_").and_then(|rest| rest.strip_suffix("_module")) else {
            self.loaded.push((name.value.clone(), path.value.clone()));
            return Ok(());
        };
        let known = model.parse::<Model>().ok().filter(|m| self.whose == Whose::Manifold || *m != Model::Percore);
        let Some(model) = known else {
            return Err(Diagnostic::error(name.span, format!("there is no MPM of the name {}", name.value)));
        };
        if self.model.is_some_and(|(other, _)| other != model) {
            return Err(Diagnostic::error(name.span, "Configuration error: More than one MPM loaded.").code(534));
        }
        self.model = Some((model, name.span));
        Ok(())
    }

    fn is_loaded(&self, name: &str) -> bool {
        let model = self.model.map(|(model, _)| model).or((self.whose == Whose::Manifold).then_some(Model::DEFAULT));
        let of_model = |model: Model| name == format!("mpm_{model}_module") || name == format!("{model}.c");
        let bare = name.strip_prefix("mod_").and_then(|rest| rest.strip_suffix(".c")).or(name.strip_suffix("_module"));
        let is = |module: &str| module == name || bare.is_some_and(|bare| module.strip_suffix("_module") == Some(bare));
        let file_of = |bare: &str| format!("mod_{bare}.c");
        model.is_some_and(of_model)
            || self.loaded.iter().any(|(module, _)| is(module))
            || self.built_in.contains(name)
            || bare.is_some_and(|bare| self.built_in.contains(&file_of(bare)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a configuration; removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(files: &[(&str, &str)]) -> Folder {
            use std::sync::atomic::{AtomicU32, Ordering};
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let folder = std::env::temp_dir().join(format!("manifold-doctor-{}-{number}", std::process::id()));
            for (name, text) in files {
                let file = folder.join(name);
                std::fs::create_dir_all(file.parent().expect("it has a folder")).expect("a folder");
                std::fs::write(file, text).expect("a file");
            }
            Folder(folder)
        }

        fn read(&self, file: &str, whose: Whose) -> Result<Setup, String> {
            super::read(&self.0.join(file), whose, &Program::default(), &self.0)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const EVENT: &str = "LoadModule mpm_event_module modules/mod_mpm_event.so\n";

    #[test]
    fn debians_layout_is_followed_to_file_and_line() {
        let folder = Folder::new(&[
            (
                "apache2.conf",
                "Define threads 20\nKeepAliveTimeout 3\nIncludeOptional mods-enabled/*.load\nIncludeOptional mods-enabled/*.conf\nIncludeOptional none/*.conf\n",
            ),
            ("mods-enabled/mpm_worker.load", "LoadModule mpm_worker_module /usr/lib/mod_mpm_worker.so\n"),
            (
                "mods-enabled/mpm_worker.conf",
                "<IfModule mpm_worker_module>\n  ThreadsPerChild ${threads}\n  MaxRequestWorkers 150\n</IfModule>\n<IfModule prefork.c>\nMaxSpareServers 7\n</IfModule>\n",
            ),
        ]);
        let setup = folder.read("apache2.conf", Whose::Apache).expect("a configuration");
        let from = |name: &str| setup.value(name).from.replace(&format!("{}/", folder.0.display()), "");
        assert_eq!((setup.mpm.value.as_str(), setup.limits.threads_per_child), ("worker", 20));
        assert_eq!(from("ThreadsPerChild"), "mods-enabled/mpm_worker.conf:2");
        assert_eq!(from("MaxRequestWorkers"), "mods-enabled/mpm_worker.conf:3 says 150");
        assert_eq!((from("ServerLimit").as_str(), from("KeepAliveTimeout").as_str()), ("default", "apache2.conf:2"));
        assert_eq!(setup.value("MaxRequestWorkers").value, "140");
        let [correction] = &setup.corrections[..] else { panic!("{:?}", setup.corrections) };
        assert_eq!((correction.code, correction.changes), (Some(316), true));
    }

    #[test]
    fn red_hats_layout_with_a_server_root_and_two_files_that_say_the_same() {
        let folder = Folder::new(&[
            ("conf/httpd.conf", "Include conf.modules.d/*.conf\nIncludeOptional conf.d/*.conf\n"),
            ("conf.modules.d/00-mpm.conf", "LoadModule mpm_prefork_module modules/mod_mpm_prefork.so\n"),
            ("conf.d/a.conf", "MaxClients 100\n"),
            (
                "conf.d/b.conf",
                "MaxClients 50\nProxyPass /app http://127.0.0.1:8080/\nProxyPass /x unix:/run/php.sock|fcgi://localhost/\n",
            ),
        ]);
        let setup = folder.read("conf/httpd.conf", Whose::Apache).expect("a configuration");
        assert_eq!((setup.limits.max_request_workers, setup.keep_alive_s), (50, Some(5.0)));
        let codes: Vec<Option<u16>> = setup.corrections.iter().map(|correction| correction.code).collect();
        assert_eq!(codes, [Some(188), None], "an old name, and said twice: {:?}", setup.corrections);
        assert!(setup.corrections[1].text.contains("conf.d/a.conf:1"), "{:?}", setup.corrections);
        assert_eq!(setup.backends.iter().collect::<Vec<_>>(), ["127.0.0.1:8080"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_file_and_line() {
        for (text, whose, parts) in [
            (format!("{EVENT}MaxRequestWorkers many"), Whose::Apache, &["httpd.conf", "2", "whole number"][..]),
            (format!("{EVENT}MinSpareServers 5"), Whose::Apache, &["httpd.conf", "MinSpareServers", "prefork"]),
            (format!("{EVENT}Cores 2"), Whose::Apache, &["Cores", "IfDefine MANIFOLD"]),
            (format!("{EVENT}LoadModule mpm_worker_module x"), Whose::Apache, &["More than one MPM"]),
            ("Listen 80".to_owned(), Whose::Apache, &["No MPM loaded"]),
            ("Include none.conf".to_owned(), Whose::Manifold, &["none.conf", "No such file"]),
            ("<IfModule event.c>".to_owned(), Whose::Manifold, &["IfModule", "end of configuration"]),
        ] {
            let folder = Folder::new(&[("httpd.conf", &text)]);
            let said = folder.read("httpd.conf", whose).expect_err(&text);
            assert!(parts.iter().all(|part| said.contains(part)), "{text}: {said}");
        }
        let folder = Folder::new(&[]);
        let said = folder.read("absent.conf", Whose::Apache).expect_err("no file");
        assert!(said.contains("absent.conf") && said.contains("No such file"), "{said}");
    }

    #[test]
    fn manifold_has_numbers_of_its_own_and_apache_rounds_a_factor() {
        let folder = Folder::new(&[("httpd.conf", "LoadModule mpm_percore_module x\nCores 1\nKeepAlive Off\n")]);
        let setup = folder.read("httpd.conf", Whose::Manifold).expect("a configuration");
        assert_eq!((setup.value("Cores").value.as_str(), setup.keep_alive_s), ("1", None));
        let folder = Folder::new(&[("httpd.conf", &format!("{EVENT}AsyncRequestWorkerFactor 1.5\n"))]);
        let setup = folder.read("httpd.conf", Whose::Apache).expect("a configuration");
        assert_eq!(setup.value("AsyncRequestWorkerFactor").value, "1");
        assert!(
            setup.corrections.iter().any(|c| c.changes && c.text.contains("whole numbers")),
            "{:?}",
            setup.corrections
        );
        assert!(setup.values.iter().all(|value| value.name != "SpawnPolicy"), "{:?}", setup.values);
    }
}
