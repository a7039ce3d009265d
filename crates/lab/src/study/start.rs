//! How each target of a study comes to answer: started by the laboratory's own configuration, by a private copy of the user's, by a
//! command line, or not at all.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use manifold_config::System;
use manifold_load::report::Report;

use super::resolve::{CommandLine, Origin, OwnFile, Page, Subject};
use crate::cores::Cores;
use crate::generator::{Ask, Length};
use crate::own_config::{ACCESS_LOG, Changes, Endpoint, OwnConfig, Wanted, installed};
use crate::server::{self, CONFIG_FILE, Page as Expected, Place, READY_WITHIN, Server, Wrong};
use crate::staged::{Recipe, Stage};
use crate::target::{self, Family, Installed, Limits, Model, Terms};

/// Answers of a page that is not ours, until it is known whether they are all of one length.
const FIRST_ANSWERS: &str = "5";
/// One of them may take so many seconds.
const FIRST_ANSWER_S: &str = "5";
/// An access log that has grown beyond this is emptied between cells: what it costs to write stays, the disk does not fill up.
const LOG_BYTES_MAX: u64 = 64 << 20;

/// A target that answers.
#[derive(Debug)]
pub struct Started {
    /// `None` where it runs without us.
    pub server: Option<Server>,
    /// What its program says of itself.
    pub version: String,
    /// What is to be told of it beside its figures.
    pub remarks: Vec<String>,
    url: String,
    options: Vec<String>,
    length: Length,
    helped: bool,
    access_log: Option<PathBuf>,
}

impl Started {
    /// What the generator asks of it.
    pub fn ask(&self) -> Ask<'_> {
        Ask { url: &self.url, options: &self.options, length: self.length, helped: self.helped }
    }

    /// Whether it is still there, as far as that can be known.
    pub fn alive(&mut self) -> bool {
        self.server.as_mut().is_none_or(Server::alive)
    }

    /// Between two cells.
    pub fn tidy_up(&self) {
        let Some(log) = &self.access_log else { return };
        if fs::metadata(log).is_ok_and(|data| data.len() > LOG_BYTES_MAX) {
            // A server that appends goes on at the new end.
            let _ = File::options().write(true).open(log).and_then(|file| file.set_len(0));
        }
    }

    /// One that serves the page that all serve.
    fn with_page(server: Server, version: String, page: &Page) -> Started {
        Started {
            server: Some(server),
            version,
            remarks: Vec::new(),
            url: page.path.clone(),
            options: Vec::new(),
            length: Length::Exactly(page.bytes),
            helped: false,
            access_log: None,
        }
    }
}

/// Where targets are started.
#[derive(Debug)]
pub struct Starter<'a> {
    /// Folders and programs.
    pub stage: &'a Stage,
    /// The processors.
    pub cores: &'a Cores,
    /// The folder of their folders.
    pub part: &'a str,
    /// The page.
    pub page: &'a Page,
    /// The folder that is served.
    pub site: &'a Path,
}

impl Starter<'_> {
    /// Starts a target, and waits until it answers rightly.
    ///
    /// # Errors
    /// Why it cannot be measured.
    pub fn start(&self, subject: &Subject) -> Result<Started> {
        match &subject.origin {
            Origin::Lab => self.lab(subject),
            Origin::Peer(name) => self.peer(subject, name),
            Origin::Own(own) => self.own(subject, own),
            Origin::Command(command) => self.command(subject, command),
            Origin::Url(url) => self.url(subject, url),
        }
    }

    fn lab(&self, subject: &Subject) -> Result<Started> {
        let installed = self.stage.detect(subject.server, subject.model).map_err(anyhow::Error::msg)?;
        let port = free_port()?;
        let name = self.folder_name(subject);
        let recipe = Recipe {
            model: subject.model,
            ports: &[port],
            root: self.site,
            buckets: false,
            workers: Some(self.cores.server.len()),
            modules: &[],
            lines: lines(subject),
        };
        let text = self.stage.config(&name, subject.server, &recipe)?;
        let mut server = self.server(&installed, &name, port, &text)?;
        server.wait_ready(&self.expected())?;
        Ok(Started::with_page(server, installed.version, self.page))
    }

    /// On the common terms: the least configuration that serves files.
    fn peer(&self, subject: &Subject, name: &str) -> Result<Started> {
        let known = super::resolve::peers().find(|peer| peer.name == name);
        let target = known.with_context(|| format!("there is no server {name}"))?;
        let installed = target.detect(&self.stage.manifold).map_err(anyhow::Error::msg)?;
        let (port, folder) = (free_port()?, self.folder_name(subject));
        let terms = Terms {
            port,
            site: self.site,
            folder: &self.stage.folder(&folder)?,
            cores: &self.cores.server,
            user: self.stage.user(),
            limits: &Limits::USUAL,
            body_bytes: self.page.body.len(),
        };
        let text = target.config(&terms).map_err(anyhow::Error::msg)?;
        let mut server = self.server(&installed, &folder, port, &text)?;
        server.wait_ready(&self.expected())?;
        Ok(Started::with_page(server, installed.version, self.page))
    }

    fn command(&self, subject: &Subject, command: &CommandLine) -> Result<Started> {
        let port = match command.port {
            Some(port) => nobody_listens(port)?,
            None => free_port()?,
        };
        let name = self.folder_name(subject);
        let folder = self.stage.folder(&name)?;
        let words = command.words.iter().map(|word| {
            let word = word.replace("{port}", &port.to_string());
            word.replace("{site}", &self.site.to_string_lossy()).replace("{folder}", &folder.to_string_lossy())
        });
        let words: Vec<String> = words.collect();
        let (first, rest) = words.split_first().context("the command has no words")?;
        let program = if first.contains('/') { Some(PathBuf::from(first)) } else { target::which(first) };
        let program = program.filter(|program| program.is_file());
        let program = program.with_context(|| format!("there is no program {first}; install it, or give its path"))?;
        let installed = Installed { target: &target::COMMAND, program, version: command.words.join(" ") };
        let mut server = self.server(&installed, &name, port, &rest.join("\n"))?;
        let within = Duration::from_secs_f64(command.within_s);
        server.wait_answer(command.ready.as_deref().unwrap_or(&self.page.path), within)?;
        if self.page.theirs {
            return self.theirs(server, installed.version, &self.page.path, Vec::new());
        }
        server.wait_ready(&self.expected()).context("the command must serve {site}, or the page be a path alone")?;
        Ok(Started::with_page(server, installed.version, self.page))
    }

    fn own(&self, subject: &Subject, own: &OwnFile) -> Result<Started> {
        let any = [Model::Event, Model::Worker, Model::Prefork].map(|model| own.model.unwrap_or(model));
        let found = any.iter().find_map(|&model| self.stage.detect(Family::Apache2, model).ok());
        let installed = match found {
            Some(installed) => installed,
            None => self.stage.detect(Family::Apache2, any[0]).map_err(anyhow::Error::msg)?,
        };
        let program = installed::program(&installed.program, &own.file).map_err(anyhow::Error::msg)?;
        let name = self.folder_name(subject);
        let folder = self.stage.folder(&name)?;
        let wanted = Wanted { file: &own.file, model: own.model, folder: Some(&folder) };
        let config = OwnConfig::read(&System, &program, &wanted).map_err(anyhow::Error::msg)?;
        let endpoints = config.endpoints().map_err(anyhow::Error::msg)?;
        let ports = server::free_ports(endpoints.len()).context("there are not enough free ports on 127.0.0.1")?;
        let index = asked(&endpoints, own)?;
        let changes = Changes { settings: &subject.settings, folder: &folder, ports: &ports };
        let copy = config.copy(&changes).map_err(anyhow::Error::msg)?;
        for below in &copy.folders {
            let below = folder.join(below);
            fs::create_dir_all(&below)
                .and_then(|()| fs::set_permissions(&below, fs::Permissions::from_mode(0o1777)))?;
        }
        // The original may hold passwords, and may be readable to root alone.
        File::options().create(true).append(true).mode(0o600).open(folder.join(CONFIG_FILE))?;
        let server = self.server(&installed, &name, ports[index], &copy.text)?;
        let (url, options) = address(&endpoints[index], own.host.as_deref(), ports[index], &self.page.path);
        let mut started = self.theirs(server, installed.version, &url, options)?;
        let model = own.model.or(config.own_model).map_or("its own MPM", Model::name);
        let served = format!(
            "it is a private copy of {} with {model}, asked at its port {}",
            own.file.display(),
            endpoints[index].name()
        );
        let label = subject.label();
        started.remarks = std::iter::once(served).chain(copy.notes).map(|note| format!("{label}: {note}")).collect();
        started.helped = copy.passes_on;
        started.access_log = Some(folder.join(ACCESS_LOG));
        Ok(started)
    }

    fn url(&self, subject: &Subject, url: &str) -> Result<Started> {
        let url = format!("{url}{}", self.page.path);
        let length = first_answers(&self.stage.manifold, &url, &[]).map_err(anyhow::Error::msg)?;
        let local = ["//localhost", "//127.", "//[::1]"].iter().any(|host| url.contains(host));
        let remark =
            format!("{} is only loaded, so that nothing is known of its processor time and memory", subject.name);
        Ok(Started {
            server: None,
            version: url.clone(),
            remarks: vec![remark],
            url,
            options: Vec::new(),
            length,
            // What it uses here is no other's.
            helped: local,
            access_log: None,
        })
    }

    /// One that is asked for a page of its own: the first answers tell whether they are all of one length.
    fn theirs(&self, mut server: Server, version: String, url: &str, options: Vec<String>) -> Result<Started> {
        let port = server.port;
        let whole = if url.starts_with('/') { format!("http://127.0.0.1:{port}{url}") } else { url.to_owned() };
        let mut length = Length::Any;
        server.wait_until(READY_WITHIN, || {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let connected = TcpStream::connect_timeout(&address, Duration::from_secs(1));
            connected.map_err(|error| Wrong::NoAnswer(format!("it does not answer on port {port}: {error}")))?;
            length = first_answers(&self.stage.manifold, &whole, &options).map_err(Wrong::Answer)?;
            Ok(())
        })?;
        let mut started = Started::with_page(server, version, self.page);
        (started.url, started.options, started.length) = (whole, options, length);
        Ok(started)
    }

    fn server(&self, installed: &Installed, name: &str, port: u16, text: &str) -> Result<Server> {
        let folder = self.stage.folder(name)?;
        let place = Place { folder: &folder, port, cores: &self.cores.server };
        Server::start_with(installed, &place, text, &self.stage.manifold)
            .with_context(|| format!("{CONFIG_FILE} in {}", folder.display()))
    }

    fn expected(&self) -> Expected {
        Expected { path: self.page.path.clone(), body: self.page.body.clone() }
    }

    fn folder_name(&self, subject: &Subject) -> String {
        format!("{}/{}", self.part, folder_name(&subject.label()))
    }
}

/// The endpoint that is asked: that of the port the experiment says, or the first that speaks no TLS, or the first.
fn asked(endpoints: &[Endpoint], own: &OwnFile) -> Result<usize> {
    let plain = || endpoints.iter().position(|endpoint| !endpoint.secured).unwrap_or(0);
    let Some(port) = own.port else { return Ok(plain()) };
    let at = endpoints.iter().position(|endpoint| endpoint.port == port);
    at.with_context(|| {
        let all: Vec<String> = endpoints.iter().map(Endpoint::name).collect();
        format!("{} does not listen at port {port}; it listens at {}", own.file.display(), all.join(", "))
    })
}

/// The URL of the copy, and the generator's options that make it ask as a visitor of the original would.
fn address(endpoint: &Endpoint, host: Option<&str>, port: u16, path: &str) -> (String, Vec<String>) {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    if !endpoint.secured {
        let host = host.map(|host| words(&["--header", &format!("Host: {host}")]));
        return (format!("http://127.0.0.1:{port}{path}"), host.unwrap_or_default());
    }
    // The certificate is for the original's address, and may be of an authority of the user's own.
    let host = host.unwrap_or("localhost");
    let here = format!("{host}:{port}:127.0.0.1");
    (format!("https://{host}:{port}{path}"), words(&["--insecure", "--resolve", &here]))
}

/// Asks a few times for a page that is not ours.
fn first_answers(manifold: &Path, url: &str, options: &[String]) -> Result<Length, String> {
    let output = Command::new(manifold)
        .args(["load", url, "--json", "--connections", "1", "--requests", FIRST_ANSWERS, "--timeout", FIRST_ANSWER_S])
        .args(["--expect-status", "200"])
        .args(options)
        .output()
        .map_err(|error| format!("{} cannot be run: {error}", manifold.display()))?;
    let report: Report = serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("{url} cannot be asked: {}", said.lines().next().unwrap_or("the generator said nothing"))
    })?;
    judge(&report).map_err(|said| format!("{url} {said}"))
}

/// Whether the first answers are such that more can be asked for.
fn judge(report: &Report) -> Result<Length, String> {
    let statuses: Vec<String> = report.statuses.keys().map(ToString::to_string).collect();
    let failures: Vec<&str> = report.failures.keys().map(String::as_str).collect();
    match report {
        Report { completed: 0, .. } => Err(format!("does not answer: {}", failures.join(", "))),
        Report { wrong_status: 1.., .. } => Err(format!(
            "answers {} and not 200; ask for another path, host or port, which is served and not passed on to another address",
            statuses.join(", ")
        )),
        _ if report.errors.total() > 0 => Err(format!("answers not always: {}", failures.join(", "))),
        Report { wrong_length: 0, .. } => Ok(Length::AsFirst),
        _ => Ok(Length::Any),
    }
}

fn free_port() -> Result<u16> {
    let ports = server::free_ports(1).context("no free port on 127.0.0.1")?;
    ports.first().copied().context("no free port on 127.0.0.1")
}

/// The port, if nobody answers there yet: another's server would be measured as the command.
fn nobody_listens(port: u16) -> Result<u16> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
        Ok(_) => bail!("something listens at port {port} already; end it, or write {{port}} for one that is free"),
        Err(_) => Ok(port),
    }
}

/// A target's settings as its configuration has them.
fn lines(subject: &Subject) -> String {
    let end = if subject.server == Family::Nginx { ";" } else { "" };
    subject.settings.iter().map(|(name, value)| format!("{name} {value}{end}\n")).collect()
}

/// A label as the name of a folder.
fn folder_name(label: &str) -> String {
    label.chars().map(|c| if c.is_ascii_alphanumeric() || "=._".contains(c) { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_lines_of_the_servers_own_form() {
        let subject = |server, value: &str| Subject {
            name: "t".to_owned(),
            server,
            model: Model::Worker,
            settings: vec![("ThreadsPerChild".to_owned(), value.to_owned())],
            origin: Origin::Lab,
        };
        assert_eq!(lines(&subject(Family::Apache2, "25")), "ThreadsPerChild 25\n");
        assert_eq!(lines(&subject(Family::Nginx, "on")), "ThreadsPerChild on;\n");
        assert_eq!(folder_name("apache2 worker/../25"), "apache2-worker-..-25");
    }

    #[test]
    fn a_copy_is_asked_as_the_original_is() {
        let own = OwnFile { file: "/c".into(), model: None, host: None, port: None };
        let endpoints = {
            let config = "Listen 443\nListen 80\n<VirtualHost *:443>\nSSLEngine on\n</VirtualHost>\n";
            let folder = std::env::temp_dir().join(format!("manifold-lab-asked-{}", std::process::id()));
            fs::create_dir_all(&folder).expect("a folder");
            let file = folder.join("c");
            fs::write(&file, config).expect("a file");
            let wanted = Wanted { file: &file, model: None, folder: None };
            let read = OwnConfig::read(&System, &Default::default(), &wanted).expect("it is right");
            fs::remove_dir_all(&folder).expect("it is ours");
            read.endpoints().expect("it listens")
        };
        let of = |port| asked(&endpoints, &OwnFile { port, ..own.clone() });
        assert_eq!((of(None).ok(), of(Some(443)).ok()), (Some(1), Some(0)), "without a port the one without TLS");
        let said = of(Some(81)).expect_err("nobody listens there").to_string();
        assert_eq!(said, "/c does not listen at port 81; it listens at 443, 80");
        let check = |index: usize, host, url: &str, options: &[&str]| {
            let (got, words) = address(&endpoints[index], host, 5001, "/x");
            assert_eq!((got.as_str(), words.iter().map(String::as_str).collect::<Vec<_>>()), (url, options.to_vec()));
        };
        check(1, None, "http://127.0.0.1:5001/x", &[]);
        check(1, Some("a.org"), "http://127.0.0.1:5001/x", &["--header", "Host: a.org"]);
        check(0, Some("a.org"), "https://a.org:5001/x", &["--insecure", "--resolve", "a.org:5001:127.0.0.1"]);
    }

    #[test]
    fn first_answers_decide_what_is_expected_of_the_rest() {
        let report: Report = serde_json::from_str(include_str!("../../tests/load-report.json")).expect("its own form");
        let of = |change: fn(&mut Report)| {
            let mut report = report.clone();
            change(&mut report);
            judge(&report)
        };
        assert_eq!(of(|_| ()), Ok(Length::AsFirst));
        assert_eq!(of(|report| report.wrong_length = 2), Ok(Length::Any));
        let said = of(|report| (report.wrong_status, report.statuses) = (5, [(301, 5)].into()));
        assert!(said.is_err_and(|said| said.starts_with("answers 301 and not 200")));
        let said =
            of(|report| (report.completed, report.failures) = (0, [("Connection refused".to_owned(), 5)].into()));
        assert_eq!(said, Err("does not answer: Connection refused".to_owned()));
    }
}
