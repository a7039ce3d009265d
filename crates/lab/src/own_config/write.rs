//! Writes a configuration that was read out again, with what makes it a private copy.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use manifold_config::tree::Node;

use super::endpoint::{self, Endpoint};
use super::place::{self, Fate};
use super::{Changes, Copy, OwnConfig, mpm};
use crate::text;

/// Sections in which a directive of the experiment's takes the place of one: those that are the server, or a virtual host of it.
const SERVER_SECTIONS: [&str; 3] = ["<VirtualHost", "<IfVersion", "<Macro"];

/// Directives that hand requests on to a server of the user's; `SetHandler "proxy:..."` does so as well.
const BACKENDS: [&str; 3] = ["ProxyPass", "ProxyPassMatch", "BalancerMember"];

pub(super) fn copy(own: &OwnConfig, changes: &Changes<'_>) -> Result<Copy, String> {
    let endpoints = own.endpoints()?;
    if changes.ports.len() != endpoints.len() {
        return Err(format!("{} ports were given for {} places to listen at", changes.ports.len(), endpoints.len()));
    }
    let mut writer = Writer {
        own,
        changes,
        endpoints,
        text: String::new(),
        folders: BTreeSet::new(),
        foreign: Vec::new(),
        passes_on: false,
        notes: Vec::new(),
    };
    writer.head();
    writer.nodes(&own.configuration.nodes, 0, true)?;
    for (name, value) in changes.settings {
        let _ = writeln!(writer.text, "{name} {value}");
    }
    writer.note_foreign();
    let Writer { text, folders, passes_on, notes, .. } = writer;
    Ok(Copy { text, folders: folders.into_iter().collect(), passes_on, notes })
}

struct Writer<'a> {
    own: &'a OwnConfig,
    changes: &'a Changes<'a>,
    endpoints: Vec<Endpoint>,
    text: String,
    folders: BTreeSet<&'static str>,
    /// Directives of other MPMs that were left out.
    foreign: Vec<String>,
    passes_on: bool,
    notes: Vec<String>,
}

impl Writer<'_> {
    /// What must stand before all else, and what a copy says once itself.
    fn head(&mut self) {
        let configuration = &self.own.configuration;
        let folder = self.changes.folder.display();
        let mut text = format!(
            "# A private copy of {}, as the laboratory runs it\nServerRoot {}\n",
            self.own.file.display(),
            quoted(&configuration.server_root.display().to_string())
        );
        for name in &configuration.defines {
            let value = configuration.variables.get(&name.to_ascii_lowercase());
            let value = value.map(|value| format!(" {}", quoted(value))).unwrap_or_default();
            let _ = writeln!(text, "Define {name}{value}");
        }
        for node in configuration.nodes.iter().filter(|node| node.name.value.eq_ignore_ascii_case("LoadFile")) {
            let _ = writeln!(text, "{}", self.line(node));
        }
        for module in &self.own.modules {
            let _ = writeln!(text, "LoadModule {} {}", module.name, quoted(&module.file));
        }
        let _ = writeln!(text, "DefaultRuntimeDir \"{folder}\"\nPidFile \"{folder}/httpd.pid\"");
        let _ = writeln!(text, "ErrorLog \"{folder}/error.log\"");
        for (endpoint, port) in self.endpoints.iter().zip(self.changes.ports) {
            let more: String = endpoint.more.iter().map(|word| format!(" {word}")).collect();
            let _ = writeln!(text, "Listen 127.0.0.1:{port}{more}");
        }
        self.text = text;
    }

    /// `is_server` where directives of the experiment's take the place of those that stand there.
    fn nodes(&mut self, nodes: &[Node], depth: usize, is_server: bool) -> Result<(), String> {
        for node in nodes {
            let Some(line) = self.directive(node, is_server)? else { continue };
            let _ = writeln!(self.text, "{:indent$}{line}", "", indent = depth * 4);
            if let Some(body) = &node.body {
                let section = &node.name.value;
                let is_server = is_server && SERVER_SECTIONS.iter().any(|known| known.eq_ignore_ascii_case(section));
                self.nodes(body, depth + 1, is_server)?;
                let _ = writeln!(self.text, "{:indent$}</{}>", "", &section[1..], indent = depth * 4);
            }
        }
        Ok(())
    }

    /// The line of a directive, or the one that opens a section; `None` if it is left out.
    fn directive(&mut self, node: &Node, is_server: bool) -> Result<Option<String>, String> {
        let name = &node.name.value;
        if endpoint::is_host(node) {
            return self.host(node).map(Some);
        }
        if is_server && self.changes.settings.iter().any(|(set, _)| mpm::same(set, name)) {
            return Ok(None);
        }
        if self.own.model.is_some_and(|model| mpm::is_foreign(name, model)) {
            self.foreign.push(format!("{} ({})", self.line(node), self.own.place(node.span)));
            return Ok(None);
        }
        let handler = node.args.first().is_some_and(|arg| arg.value.starts_with("proxy:"));
        if handler || BACKENDS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            self.passes_on(node);
        }
        match place::fate(name) {
            None => Ok(Some(self.line(node))),
            Some(Fate::Left) => Ok(None),
            Some(Fate::Refused(why)) => Err(format!("{}: {name}: {why}", self.own.place(node.span))),
            Some(fate) => Ok(Some(self.moved(node, fate))),
        }
    }

    /// As it was written, variables replaced.
    fn line(&self, node: &Node) -> String {
        node.expanded.clone().unwrap_or_else(|| self.own.configuration.sources.text(node.span).to_owned())
    }

    fn host(&self, node: &Node) -> Result<String, String> {
        let addresses = endpoint::of_host(self.own, node, &self.endpoints, self.changes.ports)?;
        Ok(format!("<VirtualHost {addresses}>"))
    }

    fn moved(&mut self, node: &Node, fate: Fate) -> String {
        let (name, folder) = (&node.name.value, self.changes.folder.display());
        let first = node.args.first().map_or("", |arg| arg.value.as_str());
        let rest = self.words(node, 1);
        match fate {
            Fate::File(file) => {
                if first.starts_with('|') || first.starts_with("syslog") {
                    let place = self.own.place(node.span);
                    self.notes.push(format!("{name} goes to a file instead of {first} ({place})"));
                }
                // What may stand after it there is the system log's.
                let rest = if name.eq_ignore_ascii_case("ErrorLog") { "" } else { &rest };
                format!("{name} \"{folder}/{file}\" {rest}").trim_end().to_owned()
            }
            Fate::Folder(below) => {
                self.folders.insert(below);
                format!("{name} \"{folder}/{below}\" {rest}").trim_end().to_owned()
            }
            Fate::Cache(file) => match first.split_once(':') {
                Some((kind @ ("shmcb" | "shmht" | "dbm"), path)) => {
                    let size = path.rfind('(').map_or("", |at| &path[at..]);
                    format!("{name} \"{kind}:{folder}/{file}{size}\" {rest}").trim_end().to_owned()
                }
                _ => self.line(node),
            },
            Fate::Mutex => match first.split_once(':') {
                Some((kind, _)) => format!("{name} \"{kind}:{folder}\" {rest}").trim_end().to_owned(),
                None => self.line(node),
            },
            Fate::Left | Fate::Refused(_) => self.line(node),
        }
    }

    /// The words from the `from`th on.
    fn words(&self, node: &Node, from: usize) -> String {
        let words: Vec<String> = node.args.iter().skip(from).map(|arg| quoted(&arg.value)).collect();
        words.join(" ")
    }

    fn passes_on(&mut self, node: &Node) {
        if !self.passes_on {
            let place = self.own.place(node.span);
            let note = format!(
                "requests that it passes on reach the same backends as the original's ({place}), whose work is not told from other load"
            );
            self.notes.push(note);
        }
        self.passes_on = true;
    }

    fn note_foreign(&mut self) {
        if let (Some(model), false) = (self.own.model, self.foreign.is_empty()) {
            let list = text::list(&self.foreign);
            self.notes.push(format!("{} does not know {list}, which is left out", model.name()));
        }
    }
}

/// A word in quotes, as Apache takes it back.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}
