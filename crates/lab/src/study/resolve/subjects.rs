//! The targets of an experiment: each server with each combination of settings that meets the conditions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{CELLS_MAX, Page};
use crate::study::condition;
use crate::study::file::{self, Scalar, Setting};
use crate::target::{Family, Model, TARGETS, Target};

/// A command must be ready after this long, seconds, unless its file says otherwise.
const READY_WITHIN_S: f64 = 15.0;
/// The longest that a file may say.
const READY_WITHIN_MAX_S: f64 = 600.0;

/// A server with its settings.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Subject {
    /// What the file calls it, with the values that make it one of several.
    pub name: String,
    /// Whose program.
    pub server: Family,
    /// Its model.
    pub model: Model,
    /// Directives with what stands after them.
    pub settings: Vec<(String, String)>,
    /// Where its configuration comes from.
    #[serde(default)]
    pub origin: Origin,
}

/// Where a target comes from.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The laboratory's own configuration of it.
    #[default]
    Lab,
    /// The same, of the server of this name in [`TARGETS`].
    Peer(String),
    /// A private copy of the user's.
    Own(OwnFile),
    /// A command line.
    Command(CommandLine),
    /// Somebody else started it.
    Url(String),
}

/// A configuration of Apache's.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct OwnFile {
    /// The main file.
    pub file: PathBuf,
    /// The model in place of its own.
    pub model: Option<Model>,
    /// The virtual host that is asked.
    pub host: Option<String>,
    /// The port that is asked, as the file has it.
    pub port: Option<u16>,
}

/// A command line.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CommandLine {
    /// Its words.
    pub words: Vec<String>,
    /// The port at which it listens; without, one that is free and takes the place of `{port}`.
    pub port: Option<u16>,
    /// It is ready when this path is answered; without, when the page is.
    pub ready: Option<String>,
    /// After at most so many seconds.
    pub within_s: f64,
}

impl Subject {
    /// For a person: `apache2 prefork`.
    pub fn label(&self) -> String {
        match (&self.origin, self.server) {
            (Origin::Command(_) | Origin::Url(_), _) | (_, Family::Nginx) => self.name.clone(),
            (Origin::Peer(peer), _) if *peer == self.name => self.name.clone(),
            _ => format!("{} {}", self.server_name(), self.name),
        }
    }

    /// Whose program it is, for a person.
    pub fn server_name(&self) -> &str {
        match &self.origin {
            Origin::Lab | Origin::Own(_) => self.server.name(),
            Origin::Peer(peer) => peer,
            Origin::Command(_) => "command",
            Origin::Url(_) => "url",
        }
    }

    /// Whether its pages are its own, and not those that all serve.
    pub fn serves_its_own(&self) -> bool {
        matches!(self.origin, Origin::Own(_) | Origin::Url(_))
    }
}

/// Every server with every combination of settings that meets the conditions.
///
/// # Errors
/// A sentence: a server without that model, a name that is no directive, a condition that cannot be read, or nothing left.
pub fn resolve_target(target: &file::Target, page: &Page) -> Result<Vec<Subject>, String> {
    let sources = sources(target)?;
    if let Some(source) =
        sources.iter().find(|source| page.theirs && matches!(source.origin, Origin::Lab | Origin::Peer(_)))
    {
        return Err(format!("{} has no page of its own; the page needs text, bytes or site", source.server.name()));
    }
    let mut subjects = Vec::new();
    for settings in combinations(&target.settings)? {
        let numbers: BTreeMap<String, i64> = settings
            .iter()
            .filter_map(|(name, value, _)| match value {
                Scalar::Number(number) => Some((name.clone(), *number)),
                Scalar::Text(text) => Some((name.clone(), text.parse().ok()?)),
            })
            .collect();
        let mut holds = true;
        for condition in &target.conditions {
            holds &= condition::holds(condition, &numbers)?;
        }
        if !holds {
            continue;
        }
        let varied = settings.iter().filter(|(.., varies)| *varies);
        let suffix: String = varied.map(|(name, value, _)| format!(" {name}={}", text_of(value))).collect();
        let settings: Vec<(String, String)> =
            settings.into_iter().map(|(name, value, _)| (name, text_of(&value))).collect();
        for Source { server, model, origin } in &sources {
            let (name, origin) = (format!("{}{suffix}", target.name), origin.clone());
            subjects.push(Subject { name, server: *server, model: *model, settings: settings.clone(), origin });
        }
    }
    if subjects.is_empty() {
        return Err(format!("no combination of the settings of \"{}\" meets its conditions", target.name));
    }
    Ok(subjects)
}

/// What a target is before its settings.
struct Source {
    server: Family,
    model: Model,
    origin: Origin,
}

fn sources(target: &file::Target) -> Result<Vec<Source>, String> {
    let kinds = [target.servers.is_some(), target.config.is_some(), target.command.is_some(), target.url.is_some()];
    if kinds.iter().filter(|kind| **kind).count() > 1 {
        return Err("a target is one of servers, config, command and url".to_owned());
    }
    for (given, key, whose) in [
        (target.host.is_some() && target.config.is_none(), "host", "config"),
        (target.port.is_some() && target.config.is_none() && target.command.is_none(), "port", "config and command"),
        (target.ready.is_some() && target.command.is_none(), "ready", "command"),
    ] {
        if given {
            return Err(format!("{key} belongs to {whose}"));
        }
    }
    let one = |origin| Ok(vec![Source { server: Family::Peer, model: Model::Loop, origin }]);
    match target {
        file::Target { config: Some(file), .. } => Ok(vec![own(target, file)?]),
        file::Target { command: Some(words), .. } => {
            has_no_model("a command", target)?;
            one(Origin::Command(command(target, words)?))
        }
        file::Target { url: Some(url), .. } => {
            has_no_model("a url", target)?;
            one(Origin::Url(url_of(url)?))
        }
        _ => {
            let usual = || vec![Family::Manifold.name().to_owned(), Family::Apache2.name().to_owned()];
            let servers = target.servers.clone().unwrap_or_else(usual);
            servers.iter().map(|name| known(name, target)).collect()
        }
    }
}

/// A server that the laboratory configures.
fn known(name: &str, target: &file::Target) -> Result<Source, String> {
    let of = |server, model| Ok(Source { server, model, origin: Origin::Lab });
    match (name, target.mpm) {
        ("nginx", None) => of(Family::Nginx, Model::Loop),
        ("nginx", Some(_)) => Err("nginx has no models; leave mpm out".to_owned()),
        ("apache2", Some(Model::Percore)) => Err("apache2 has no percore; write servers = [\"manifold\"]".to_owned()),
        ("apache2", Some(model)) => of(Family::Apache2, model),
        ("manifold", Some(model)) => of(Family::Manifold, model),
        ("apache2" | "manifold", None) => Err("which model? write mpm = \"event\", for instance".to_owned()),
        (other, _) => {
            let Some(peer) = peers().find(|peer| peer.name == other) else {
                let peers: Vec<&str> = peers().map(|peer| peer.name).collect();
                return Err(format!(
                    "there is no server {other}; there are manifold, apache2, nginx, {}",
                    peers.join(", ")
                ));
            };
            has_no_model(other, target)?;
            Ok(Source { server: Family::Peer, model: peer.model, origin: Origin::Peer(other.to_owned()) })
        }
    }
}

/// The other servers that serve files.
pub fn peers() -> impl Iterator<Item = &'static Target> {
    TARGETS.iter().filter(|target| target.peer.is_some_and(|peer| peer.program.is_some()))
}

fn has_no_model(who: &str, target: &file::Target) -> Result<(), String> {
    if target.mpm.is_some() {
        return Err(format!("{who} has no models; leave mpm out"));
    }
    if !target.settings.is_empty() {
        return Err(format!("{who} takes no settings here; leave them out, or start it by a command of yours"));
    }
    Ok(())
}

fn own(target: &file::Target, file: &Path) -> Result<Source, String> {
    if target.mpm == Some(Model::Percore) {
        return Err("apache2 has no percore; choose prefork, worker or event".to_owned());
    }
    if target
        .host
        .as_ref()
        .is_some_and(|host| host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()))
    {
        return Err("host is a name, as www.example.org".to_owned());
    }
    let file = std::path::absolute(file).map_err(|error| format!("config {}: {error}", file.display()))?;
    let own = OwnFile { file, model: target.mpm, host: target.host.clone(), port: target.port };
    // The file says which model it is, unless another is wanted.
    Ok(Source { server: Family::Apache2, model: target.mpm.unwrap_or(Model::Loop), origin: Origin::Own(own) })
}

fn command(target: &file::Target, words: &[String]) -> Result<CommandLine, String> {
    if words.is_empty() || words.iter().any(|word| word.contains(['\n', '\0'])) {
        return Err("command is a list of words, the program first, each on one line".to_owned());
    }
    if target.port.is_none() && !words.iter().any(|word| word.contains("{port}")) {
        return Err("where does the command listen? write {port} in it, or say port".to_owned());
    }
    let (path, within) = target.ready.clone().map_or((None, None), |ready| (ready.path, ready.within));
    if path.as_ref().is_some_and(|path| !path.starts_with('/') || path.contains(char::is_whitespace)) {
        return Err("ready: path is a URL path, beginning with / and without spaces".to_owned());
    }
    let within_s = within.unwrap_or(READY_WITHIN_S);
    if !(0.1..=READY_WITHIN_MAX_S).contains(&within_s) {
        return Err(format!("ready: within = {within_s}: 0.1 to {READY_WITHIN_MAX_S} seconds are possible"));
    }
    Ok(CommandLine { words: words.to_vec(), port: target.port, ready: path, within_s })
}

/// A URL, up to its path.
fn url_of(url: &str) -> Result<String, String> {
    let known = ["http://", "https://"].iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme));
    match known && !url.contains(|c: char| c.is_whitespace() || c.is_control() || "?#".contains(c)) {
        true => Ok(url.trim_end_matches('/').to_owned()),
        false => Err(format!("url {url}: http:// or https:// with a host is needed; the path asked for is the page's")),
    }
}

/// A directive, one value of it, and whether it has others.
type OneSetting = (String, Scalar, bool);

fn combinations(settings: &BTreeMap<String, Setting>) -> Result<Vec<Vec<OneSetting>>, String> {
    let mut all: Vec<Vec<OneSetting>> = vec![Vec::new()];
    for (name, setting) in settings {
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!("settings: {name} is no directive"));
        }
        let (values, varies) = match setting {
            Setting::One(value) => (std::slice::from_ref(value), false),
            Setting::Many(values) => (values.as_slice(), true),
        };
        for value in values {
            if matches!(value, Scalar::Text(text) if text.contains(['\n', '\r', '\0'])) {
                return Err(format!("settings: {name}: a value is one line"));
            }
        }
        let with = |value: &Scalar| (name.clone(), value.clone(), varies);
        all = all
            .iter()
            .flat_map(|done| values.iter().map(move |value| [done.clone(), vec![with(value)]].concat()))
            .collect();
        if all.len() > CELLS_MAX {
            return Err(format!("settings have more than {CELLS_MAX} combinations"));
        }
    }
    Ok(all)
}

fn text_of(value: &Scalar) -> String {
    match value {
        Scalar::Number(number) => number.to_string(),
        Scalar::Text(text) => text.clone(),
    }
}
