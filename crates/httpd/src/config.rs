//! From a configuration file to what a server is started with: read, check, resolve. Every finding is collected on the way.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use manifold_config::{Configuration, Diagnostic, Module, Reader, Row, Severity, Spanned, System, Table, check, read};
use manifold_engine::site::Site;
use manifold_modules::Settings;
use manifold_modules::file_cache::FileSettings;
use manifold_modules::log_config::{AccessLog, Buffering, COMBINED, COMMON, Format};
use manifold_modules::log_file::Stream;
use manifold_modules::mime::Types;
use manifold_modules::status::HANDLER;
use manifold_mpm::directives::{self, RawServer};
use manifold_mpm::generation::ListenPlan;
use manifold_mpm::limits::{Finding, Limits, Model, Occasion, resolve};
use manifold_mpm::server::Plan;
use manifold_sys::privileges::{self, Identity};

use crate::args::Args;
use crate::directives::{ROWS, RawSite, Tokens};
use crate::error_log::Levels;
use crate::files::{self, RawFiles};
use crate::http::{self, RawHttp};
use crate::loader::Modules;
use crate::print;

/// `ServerRoot` where nothing says otherwise.
pub(crate) const SERVER_ROOT: &str = "/etc/manifold";
/// The configuration's name where nothing says otherwise.
pub(crate) const CONFIG_FILE: &str = "httpd.conf";
/// `PidFile` where nothing says otherwise.
pub(crate) const PID_FILE: &str = "logs/httpd.pid";
/// `ErrorLog` where nothing says otherwise.
pub(crate) const ERROR_LOG: &str = "logs/error_log";
/// Defined in every configuration, so that `<IfDefine MANIFOLD>` tells Manifold from Apache.
const OWN_NAME: &str = "MANIFOLD";
/// Whom children of root run as where `User` does not say.
const USER: &str = "nobody";

/// What a server is started with. Nothing has been opened yet.
#[derive(Debug)]
pub(crate) struct Config {
    pub limits: Limits,
    pub listen: ListenPlan,
    pub identity: Option<Identity>,
    pub core_dump_directory: Option<PathBuf>,
    pub pid_file: PathBuf,
    pub server_root: PathBuf,
    pub error_log: PathBuf,
    pub levels: Levels,
    pub document_root: PathBuf,
    /// Names that were defined, for `-S`.
    pub defines: Vec<String>,
    site: SiteConfig,
}

/// The part that becomes a [`Site`].
#[derive(Debug)]
struct SiteConfig {
    raw: RawSite,
    http: RawHttp,
    types: Types,
    files: FileSettings,
    access_logs: Vec<(PathBuf, Format)>,
    extended_status: bool,
    see_request_tail: bool,
}

/// A configuration that was read, with what is to say about it.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub modules: Modules,
    pub configuration: Configuration,
    pub findings: Vec<Diagnostic>,
    /// What there is to say about the numbers of the model.
    pub numbers: Vec<Finding>,
    /// `None` where there are errors.
    pub config: Option<Config>,
}

/// Reads what `args` name, to start a server or for one that runs.
pub(crate) fn load(args: &Args, occasion: Occasion) -> Loaded {
    let mut modules = Modules::new(args.model);
    let server_root = args.server_root.clone().unwrap_or_else(|| SERVER_ROOT.into());
    let server_root = std::path::absolute(&server_root).unwrap_or(server_root);
    let mut defines = args.defines.clone();
    defines.push(OWN_NAME.to_owned());
    let mut reader = Reader::new(&System, &mut modules, &server_root, &defines);
    for line in &args.before {
        reader.text("-c/-C directives", line);
    }
    reader.file(&file(args, &server_root));
    for line in &args.after {
        reader.text("-c/-C directives", line);
    }
    let mut configuration = reader.finish();
    let mut findings = std::mem::take(&mut configuration.findings);
    let model = modules.model();
    let mut server = Table { rows: directives::rows(model), value: RawServer::default() };
    let mut site = Table { rows: ROWS, value: RawSite::default() };
    let mut http = Table { rows: http::ROWS, value: RawHttp::default() };
    let mut files = Table { rows: files::ROWS, value: RawFiles::default() };
    let tables: &mut [&mut dyn Module] = &mut [&mut site, &mut http, &mut files, &mut server];
    findings.extend(check(&configuration, tables, &directives::elsewhere(model)));
    if args.one_process {
        // A signal ends the only process at once, without a moment to write what waits.
        site.value.buffering = Some(Buffering::EachLine);
    }
    let cores = std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX));
    let (limits, numbers) = resolve(model, &server.value.limits, cores, occasion);
    let resolver = Resolver {
        configuration: &configuration,
        findings: &mut findings,
        skip_document_root: args.skip_document_root,
        wants_status: modules.wants_status() || site.value.locations.name_handler(HANDLER),
        leaves_terminal: args.leaves_terminal(),
    };
    let config = resolver.config(limits, server.value, site.value, http.value, files.value.resolve());
    let is_good = findings.iter().all(|finding| finding.severity != Severity::Error);
    Loaded { modules, configuration, findings, numbers, config: config.filter(|_| is_good) }
}

/// Every directive of a model, for lists and the manual.
pub(crate) fn rows(model: Model) -> Vec<Row> {
    let site = ROWS.iter().map(manifold_config::Directive::row);
    let http = http::ROWS.iter().map(manifold_config::Directive::row);
    let server = directives::rows(model).iter().map(manifold_config::Directive::row);
    let files = files::ROWS.iter().map(manifold_config::Directive::row);
    read::ROWS.iter().copied().chain(site).chain(http).chain(files).chain(server).collect()
}

/// `-f`: relative to `ServerRoot` as in Apache; where there is no such file, to the working directory.
fn file(args: &Args, server_root: &Path) -> PathBuf {
    let name = args.file.clone().unwrap_or_else(|| CONFIG_FILE.into());
    let by_root = server_root.join(&name);
    if by_root.exists() || args.server_root.is_some() || args.file.is_none() {
        return by_root;
    }
    std::path::absolute(&name).unwrap_or(by_root)
}

struct Resolver<'a> {
    configuration: &'a Configuration,
    findings: &'a mut Vec<Diagnostic>,
    skip_document_root: bool,
    wants_status: bool,
    leaves_terminal: bool,
}

impl Resolver<'_> {
    fn config(
        mut self,
        limits: Limits,
        server: RawServer,
        site: RawSite,
        http: RawHttp,
        files: FileSettings,
    ) -> Option<Config> {
        let root = &self.configuration.server_root;
        let identity = self.identity(&server);
        let document_root = self.document_root(&site);
        let types = self.types(&site).map(|types| match &http.charset {
            Some(charset) => types.with_charset(charset),
            None => types,
        });
        let access_logs = self.access_logs(&site);
        self.lost_logs(&site);
        Some(Config {
            limits,
            listen: server.listen_plan(),
            identity: identity?,
            core_dump_directory: server.core_dump_directory,
            pid_file: server.pid_file.unwrap_or_else(|| root.join(PID_FILE)),
            server_root: root.clone(),
            error_log: site.error_log.as_ref().map_or_else(|| root.join(ERROR_LOG), |path| path.value.clone()),
            levels: site.levels.clone(),
            document_root,
            defines: self.configuration.defines.iter().cloned().collect(),
            site: SiteConfig {
                types: types?,
                files,
                access_logs: access_logs?,
                extended_status: server.extended_status.unwrap_or(self.wants_status),
                see_request_tail: server.see_request_tail,
                raw: site,
                http,
            },
        })
    }

    /// Whom children run as. Only root can choose; the outer `None` is an error.
    fn identity(&mut self, server: &RawServer) -> Option<Option<Identity>> {
        let wanted = server.user.as_ref().map_or(USER, |user| &user.value);
        let user = privileges::user(wanted);
        if user.is_none() && (server.user.is_some() || privileges::is_root()) {
            self.unknown_name("user", wanted, server.user.as_ref(), 543);
        }
        let group = server.group.as_ref().map(|group| (group, privileges::group(&group.value)));
        if let Some((group, None)) = group {
            self.unknown_name("group", &group.value, Some(group), 544);
            return None;
        }
        let user = match user {
            Some(user) => user,
            None if server.user.is_none() && !privileges::is_root() => return Some(None),
            None => return None,
        };
        let user = match group {
            Some((_, Some(gid))) => user.in_group(gid),
            _ => user,
        };
        Some(privileges::is_root().then_some(user))
    }

    fn unknown_name(&mut self, kind: &str, name: &str, written: Option<&Spanned<String>>, code: u16) {
        let error = Diagnostic::error(written.map(|name| name.span), format!("bad {kind} name {name}")).code(code);
        self.findings.push(error.help(format!("name a {kind} of this system, or its number behind '#'")));
    }

    fn document_root(&mut self, site: &RawSite) -> PathBuf {
        let Some(written) = &site.document_root else { return self.configuration.server_root.join("htdocs") };
        if !self.skip_document_root && std::fs::read_dir(&written.value).is_err() {
            let message = format!("DocumentRoot '{}' is not a directory, or is not readable", written.value.display());
            self.findings.push(Diagnostic::error(written.span, message).code(526));
        }
        written.value.clone()
    }

    fn types(&mut self, site: &RawSite) -> Option<Types> {
        let mut types = match &site.types_config {
            None => Types::built_in(),
            Some(path) => match std::fs::read(&path.value) {
                Ok(bytes) => {
                    let mut types = Types::new();
                    types.read(&String::from_utf8_lossy(&bytes));
                    types
                }
                Err(error) => {
                    let message = format!("AH01597: could not open mime types config file {}.", path.value.display());
                    self.findings.push(Diagnostic::error(path.span, message).code(526).label(reason(&error)));
                    return None;
                }
            },
        };
        for (media_type, extension) in &site.add_type {
            types.add(media_type, extension);
        }
        Some(types)
    }

    /// Logs to streams that are there only as long as the terminal is.
    fn lost_logs(&mut self, site: &RawSite) {
        let logs = site.error_log.iter().chain(site.custom_logs.iter().map(|log| &log.path));
        for log in logs.filter(|log| self.leaves_terminal && Stream::of(&log.value).is_some()) {
            let path = log.value.display();
            let warning =
                Diagnostic::warning(log.span, format!("{path} is lost: a server in the background has no such stream"));
            self.findings.push(
                warning.help("start it with -DFOREGROUND, as service managers and containers do, or name a file"),
            );
        }
    }

    fn access_logs(&mut self, site: &RawSite) -> Option<Vec<(PathBuf, Format)>> {
        let mut logs = Vec::new();
        for log in &site.custom_logs {
            let name = log.format.value.as_str();
            let named =
                site.log_formats.iter().rev().find(|(known, _)| known == name).map(|(_, format)| format.value.as_str());
            let text = named.or(match name {
                "common" => Some(COMMON),
                "combined" => Some(COMBINED),
                format if format.contains('%') => Some(format),
                _ => None,
            });
            let Some(format) = text.and_then(|text| Format::parse(text).ok()) else {
                let error =
                    Diagnostic::error(log.format.span, format!("There is no LogFormat called '{name}'")).code(526);
                self.findings.push(error.help("'common' and 'combined' are built in; others need a LogFormat line"));
                return None;
            };
            logs.push((log.path.value.clone(), format));
        }
        Some(logs)
    }
}

impl Config {
    /// Where the status page is, as a path.
    pub(crate) fn status_path(&self) -> Option<String> {
        self.site.raw.locations.path_of(HANDLER)
    }

    /// Opens the access logs and builds the site.
    ///
    /// # Errors
    /// Names the file that could not be opened.
    pub(crate) fn site(&mut self) -> Result<Arc<Site>, String> {
        let mut access_logs = Vec::new();
        let buffering = self.site.raw.buffering.unwrap_or_default();
        for (path, format) in self.site.access_logs.drain(..) {
            let log = AccessLog::open(&path, format, self.site.http.server_name(), buffering);
            access_logs.push(log.map_err(|error| {
                format!("AH00649: could not open transfer log file {}: {}", path.display(), reason(&error))
            })?);
        }
        let raw = &self.site.raw;
        let status = Arc::default();
        let phases = manifold_modules::phases(Settings {
            document_root: self.document_root.clone(),
            directory_index: raw.directory_index.clone().unwrap_or_else(|| vec!["index.html".to_owned()]),
            server_name: self.site.http.server_name(),
            types: std::mem::take(&mut self.site.types),
            files: self.site.files.clone(),
            access_logs,
            status: Arc::clone(&status),
            locations: raw.locations.resolve(),
        });
        let mut site = Site::new(phases);
        self.site.http.apply(&mut site);
        site.status = status;
        site.built = print::built();
        site.extended_status = self.site.extended_status;
        site.see_request_tail = self.site.see_request_tail;
        site.server = server_field(raw.server_tokens.unwrap_or(Tokens::Whole), env!("CARGO_PKG_VERSION"));
        assign(&mut site.timeout, raw.timeout);
        site.read_timeouts = raw.read_timeouts;
        assign(&mut site.keep_alive, raw.keep_alive);
        assign(&mut site.keep_alive_timeout, raw.keep_alive_timeout);
        assign(&mut site.sendfile, raw.sendfile);
        assign(&mut site.max_keep_alive_requests, raw.max_keep_alive_requests);
        assign(&mut site.limits.request_line, raw.limit_request_line);
        assign(&mut site.limits.fields, raw.limit_request_fields);
        assign(&mut site.limits.field_size, raw.limit_request_field_size);
        assign(&mut site.limit_request_body, raw.limit_request_body);
        Ok(Arc::new(site))
    }
}

impl Config {
    /// What the server is started with, serving `site`.
    pub(crate) fn plan(self, site: Arc<Site>, args: &Args) -> Plan {
        let limits = if args.one_process { self.limits.one_process() } else { self.limits };
        let Config { listen, identity, core_dump_directory, .. } = self;
        Plan { limits, site, listen, identity, core_dump_directory }
    }
}

fn assign<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// `Manifold`, `Manifold/0`, `Manifold/0.1` or `Manifold/0.1.0`.
fn server_field(tokens: Tokens, version: &str) -> String {
    let parts = match tokens {
        Tokens::Product => 0,
        Tokens::Major => 1,
        Tokens::Minor => 2,
        Tokens::Whole => 3,
    };
    let version: Vec<_> = version.split('.').take(parts).collect();
    if version.is_empty() { "Manifold".to_owned() } else { format!("Manifold/{}", version.join(".")) }
}

/// The system's words without Rust's error number.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use manifold_config::{Style, render};

    #[test]
    fn the_server_field_says_as_much_as_it_may() {
        let check = |tokens, expected: &str| assert_eq!(server_field(tokens, "1.2.3"), expected);
        check(Tokens::Product, "Manifold");
        check(Tokens::Major, "Manifold/1");
        check(Tokens::Minor, "Manifold/1.2");
        check(Tokens::Whole, "Manifold/1.2.3");
    }

    /// Loads `lines` as the file `httpd.conf` of a folder of its own.
    fn load_lines(test: &str, lines: &str, args: Args) -> (PathBuf, Loaded) {
        let folder = std::env::temp_dir().join(format!("manifold-config-{}-{test}", std::process::id()));
        std::fs::create_dir_all(folder.join("htdocs")).unwrap();
        std::fs::write(folder.join("mime.types"), "x/y z\n").unwrap();
        std::fs::write(folder.join("httpd.conf"), lines).unwrap();
        let loaded = load(&Args { server_root: Some(folder.clone()), ..args }, Occasion::Start);
        std::fs::remove_dir_all(&folder).unwrap();
        (folder, loaded)
    }

    fn diagnostics(loaded: &Loaded) -> impl Iterator<Item = &Diagnostic> {
        loaded.findings.iter().chain(loaded.numbers.iter().map(|number| &number.diagnostic))
    }

    /// What is said about `lines`; the folder's path is written as `@`.
    #[track_caller]
    fn says(test: &str, lines: &str, expected: &str) {
        let (folder, loaded) = load_lines(test, lines, Args::default());
        let sources = &loaded.configuration.sources;
        let text: String =
            diagnostics(&loaded).map(|finding| render(finding, sources, "httpd", Style::Plain)).collect();
        assert_eq!(text.replace(folder.to_str().unwrap(), "@"), expected.trim_start_matches('\n'));
        assert_eq!(loaded.config.is_some(), !expected.contains("Syntax error") && !expected.contains("httpd:"));
    }

    #[test]
    fn a_faultless_configuration_is_resolved() {
        let lines = "Listen 127.0.0.1:8080\nLoadModule mpm_prefork_module x\nStartServers 2\nDocumentRoot htdocs\n\
                     TypesConfig mime.types\nLogFormat \"%h\" host\nCustomLog a.log host\nCustomLog b.log combined\n\
                     LogLevel info mpm_prefork:debug\nKeepAliveTimeout 100ms\nEnableSendfile Off\nServerTokens Prod\nUser #1\nGroup #2\n";
        let (folder, loaded) = load_lines("faultless", lines, Args::default());
        assert_eq!(diagnostics(&loaded).collect::<Vec<_>>(), [] as [&Diagnostic; 0]);
        let mut config = loaded.config.unwrap();
        assert_eq!((config.limits.model, config.limits.start_servers), (Model::Prefork, 2));
        assert_eq!(config.pid_file, folder.join("logs/httpd.pid"));
        assert_eq!(config.error_log, folder.join("logs/error_log"));
        assert_eq!(config.document_root, folder.join("htdocs"));
        assert_eq!(config.levels.server, log::LevelFilter::Debug);
        assert_eq!(
            config.identity.as_ref().map(|identity| (identity.uid, identity.gid)),
            privileges::is_root().then_some((1, 2))
        );
        assert_eq!(config.site.access_logs.len(), 2);
        config.site.access_logs.clear();
        let site = config.site().unwrap();
        assert_eq!(
            (site.server.as_str(), site.keep_alive_timeout.as_millis(), site.sendfile),
            ("Manifold", 100, false)
        );
    }

    #[test]
    fn the_command_line_stands_before_and_after_the_file() {
        let args = Args {
            before: vec!["Define N 3".into()],
            after: vec!["ServerLimit 7".into()],
            model: Some(Model::Worker),
            ..Args::default()
        };
        let lines = "LoadModule mpm_event_module x\nStartServers ${N}\n<IfModule worker.c>\nThreadsPerChild 10\n</IfModule>\n\
                     <IfModule event.c>\nNonsense\n</IfModule>\n<IfDefine MANIFOLD>\nMaxRequestWorkers 70\n</IfDefine>\n";
        let (_, loaded) = load_lines("command-line", lines, args);
        assert_eq!(diagnostics(&loaded).collect::<Vec<_>>(), [] as [&Diagnostic; 0]);
        let limits = loaded.config.unwrap().limits;
        let numbers = (
            limits.model,
            limits.start_servers,
            limits.threads_per_child,
            limits.server_limit,
            limits.max_request_workers,
        );
        assert_eq!(numbers, (Model::Worker, 3, 10, 7, 70));
    }

    #[test]
    fn what_cannot_be_resolved_is_shown_where_it_is_written() {
        says(
            "root",
            "DocumentRoot nowhere\n",
            "
AH00526: Syntax error on line 1 of @/httpd.conf:
DocumentRoot '@/nowhere' is not a directory, or is not readable
 --> @/httpd.conf:1:14
  |
1 | DocumentRoot nowhere
  |              ^^^^^^^
",
        );
        says(
            "user",
            "User nonexistent-user\n",
            "
AH00543: httpd: bad user name nonexistent-user
 --> @/httpd.conf:1:6
  |
1 | User nonexistent-user
  |      ^^^^^^^^^^^^^^^^
  |
  = help: name a user of this system, or its number behind '#'
",
        );
        says(
            "types",
            "TypesConfig nowhere\n",
            "
AH00526: Syntax error on line 1 of @/httpd.conf:
AH01597: could not open mime types config file @/nowhere.
 --> @/httpd.conf:1:13
  |
1 | TypesConfig nowhere
  |             ^^^^^^^ No such file or directory
",
        );
        says(
            "log",
            "CustomLog a.log comon\n",
            "
AH00526: Syntax error on line 1 of @/httpd.conf:
There is no LogFormat called 'comon'
 --> @/httpd.conf:1:17
  |
1 | CustomLog a.log comon
  |                 ^^^^^
  |
  = help: 'common' and 'combined' are built in; others need a LogFormat line
",
        );
        says(
            "mpm",
            "LoadModule mpm_worker_module a\nLoadModule mpm_event_module b\n",
            "
AH00534: httpd: Configuration error: More than one MPM loaded.
 --> @/httpd.conf:2:12
  |
2 | LoadModule mpm_event_module b
  |            ^^^^^^^^^^^^^^^^ mpm_worker_module is loaded already
  |
  = help: keep one of these lines, or choose an MPM whatever is loaded with '-M event'
",
        );
        says(
            "spare",
            "MinSpareServers 5\nAddType html .html\n",
            "
AH00526: Syntax error on line 1 of @/httpd.conf:
Invalid command 'MinSpareServers', perhaps misspelled or defined by a module not included in the server configuration
 --> @/httpd.conf:1:1
  |
1 | MinSpareServers 5
  | ^^^^^^^^^^^^^^^ not of the MPM in use
  |
  = help: it belongs to the MPM prefork; choose that by 'LoadModule mpm_prefork_module' or '-M prefork'
AH00526: Syntax error on line 2 of @/httpd.conf:
AddType: 'html' is no media type
 --> @/httpd.conf:2:9
  |
2 | AddType html .html
  |         ^^^^
  |
  = help: write it as 'text/html'
",
        );
    }

    #[test]
    fn streams_are_no_logs_for_a_server_in_the_background() {
        let lines = "Listen 80\nErrorLog /dev/stderr\nCustomLog /proc/self/fd/1 common\nCustomLog x.log common\n";
        let check = |args: Args, expected: &[&str]| {
            let (_, loaded) = load_lines("streams", lines, args);
            let said: Vec<&str> = diagnostics(&loaded).map(|finding| finding.message.as_str()).collect();
            assert_eq!(said, expected);
        };
        let lost = |path: &str| format!("{path} is lost: a server in the background has no such stream");
        check(Args::default(), &[&lost("/dev/stderr"), &lost("/proc/self/fd/1")]);
        check(Args { foreground: true, ..Args::default() }, &[]);
        check(Args { one_process: true, ..Args::default() }, &[]);
        // Neither a check nor a verb starts one.
        check(Args { test: true, ..Args::default() }, &[]);
        check(Args { verb: Some(crate::args::Verb::Graceful), ..Args::default() }, &[]);
    }

    #[test]
    fn a_correction_is_shown_where_its_cause_is_written() {
        says("corrected", "ServerName x\nThreadsPerChild 100\n", "
AH00507: WARNING: ThreadsPerChild of 100 exceeds ThreadLimit of 64 threads, decreasing to 64. To increase, please see the ThreadLimit directive.
 --> @/httpd.conf:2:17
  |
2 | ThreadsPerChild 100
  |                 ^^^
AH00513: WARNING: MaxRequestWorkers of 400 is not an integer multiple of ThreadsPerChild of 64, decreasing to nearest multiple 384, for a maximum of 6 servers.
 --> @/httpd.conf:2:17
  |
2 | ThreadsPerChild 100
  |                 ^^^
");
    }

    #[test]
    fn no_directive_stands_in_two_tables() {
        for model in Model::ALL {
            let mut names: Vec<_> = rows(model).iter().map(|row| row.name.to_ascii_lowercase()).collect();
            names.sort_unstable();
            let count = names.len();
            names.dedup();
            assert_eq!(names.len(), count, "{model}");
        }
    }
}
