//! Reads configuration text into a tree, one line after the other, because lines depend on those before them: `Define`,
//! `ServerRoot`, `LoadModule`, `Include` and the conditional sections are carried out here (Apache's `EXEC_ON_READ`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::diagnostic::{Diagnostic, Severity};
use crate::line::Line;
use crate::source::{Source, SourceId, Sources, Span, Spanned};
use crate::table::{ArgShape, Contexts, Row, SYNTAX_ERROR};
use crate::tree::Node;
use crate::world::World;

/// Bytes of one file.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of all files.
const TOTAL_BYTES_MAX: usize = 64 << 20;
/// Files in all.
const FILES_MAX: usize = 4_096;
/// Bytes of one line, after continuation and variables.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Files including files (Apache's bound).
const INCLUDE_DEPTH_MAX: usize = 128;
/// Folders in folders below an included folder (Apache's `AP_MAX_INCLUDE_DIR_DEPTH`).
pub(crate) const FOLDER_DEPTH_MAX: usize = 20;
/// Sections in sections.
const SECTION_DEPTH_MAX: usize = 128;
/// Errors after which reading is given up.
const ERRORS_MAX: usize = 50;
/// Findings after which warnings are not kept any more.
const FINDINGS_MAX: usize = 500;

/// Who knows the modules.
pub trait Loader {
    /// `LoadModule name path`.
    ///
    /// # Errors
    /// What is wrong with it.
    fn load(&mut self, name: &Spanned<String>, path: &Spanned<String>) -> Result<(), Diagnostic>;
    /// Whether a module is loaded, by its identifier (`dir_module`) or its file's name (`mod_dir.c`).
    fn is_loaded(&self, name: &str) -> bool;
}

/// What was read.
#[derive(Debug)]
pub struct Configuration {
    /// Every text, for showing places.
    pub sources: Sources,
    /// Directives in order.
    pub nodes: Vec<Node>,
    /// Errors and warnings in order.
    pub findings: Vec<Diagnostic>,
    /// `ServerRoot`.
    pub server_root: PathBuf,
    /// Names that were defined by `-D` and `Define` and not undefined again.
    pub defines: BTreeSet<String>,
    /// Values that `Define` gave to names, by the name in lower case: `${x}` and `${X}` are the same in Apache.
    pub variables: BTreeMap<String, String>,
}

/// Reads sources into one [`Configuration`].
pub struct Reader<'w> {
    world: &'w dyn World,
    loader: &'w mut dyn Loader,
    bytes: usize,
    stopped: bool,
    errors: usize,
    result: Configuration,
}

/// A section whose end has not been read.
struct Open {
    /// `<IfModule`
    name: String,
    span: Span,
    kind: Kind,
}

enum Kind {
    /// A conditional section that holds: what is in it belongs to what is around it.
    Taken,
    /// A conditional section that does not hold, or any section in one.
    Skipped,
    Section(Box<Node>),
}

impl<'w> Reader<'w> {
    /// A reader with the names given to `-D` and a `ServerRoot` to start with.
    pub fn new(world: &'w dyn World, loader: &'w mut dyn Loader, server_root: &Path, defines: &[String]) -> Reader<'w> {
        let result = Configuration {
            sources: Sources::default(),
            nodes: Vec::new(),
            findings: Vec::new(),
            server_root: server_root.to_owned(),
            defines: defines.iter().cloned().collect(),
            variables: BTreeMap::new(),
        };
        Reader { world, loader, bytes: 0, stopped: false, errors: 0, result }
    }

    /// Reads lines that stand in no file, such as those of `-C` and `-c`.
    pub fn text(&mut self, name: &str, text: &str) {
        if let Some(nodes) = self.source(name.to_owned(), text.to_owned(), None, 0) {
            self.result.nodes.extend(nodes);
        }
    }

    /// Reads a file.
    pub fn file(&mut self, path: &Path) {
        match self.world.read(path, FILE_BYTES_MAX) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let nodes = self.source(path.display().to_string(), text, None, 0);
                self.result.nodes.extend(nodes.into_iter().flatten());
            }
            Err(error) => self.report(Diagnostic::error(None, could_not_open(path, &error))),
        }
    }

    /// Ends reading.
    pub fn finish(self) -> Configuration {
        self.result
    }

    /// The directives of one source; `None` when a bound was passed before it was read.
    fn source(&mut self, name: String, text: String, from: Option<Span>, depth: usize) -> Option<Vec<Node>> {
        self.bytes = self.bytes.saturating_add(text.len());
        let files = self.result.sources.iter().count();
        if self.bytes > TOTAL_BYTES_MAX || files >= FILES_MAX {
            self.stop(
                from,
                format!("The configuration is larger than {FILES_MAX} files or {} MB", TOTAL_BYTES_MAX >> 20),
            );
            return None;
        }
        if text.len() as u64 > FILE_BYTES_MAX {
            self.stop(from, format!("{name} is larger than {} MB", FILE_BYTES_MAX >> 20));
            return None;
        }
        let id = self.result.sources.add(Source { name, text, included_from: from });
        Some(self.lines(id, depth))
    }

    fn lines(&mut self, id: SourceId, depth: usize) -> Vec<Node> {
        let mut nodes = Vec::new();
        let mut open: Vec<Open> = Vec::new();
        let mut next = 0;
        while !self.stopped && next < self.result.sources.source(id).text.len() {
            let (line, after) = Line::read(id, &self.result.sources.source(id).text, next);
            next = after;
            if line.text.is_empty() || line.text.starts_with('#') {
                continue;
            }
            let skipping = open.last().is_some_and(|open| matches!(open.kind, Kind::Skipped));
            let line = if skipping { Some(line) } else { self.expand(line) };
            let Some(line) = line else { continue };
            self.line(&line, depth, &mut open, &mut nodes);
        }
        if self.stopped {
            return nodes;
        }
        for section in open.iter().rev() {
            let message = match section.kind {
                Kind::Section(_) => {
                    let source = self.result.sources.source(id);
                    format!(
                        "{}:{}: {}> was not closed.",
                        source.name,
                        self.result.sources.line(section.span),
                        section.name
                    )
                }
                _ => format!("Expected </{}> before end of configuration", &section.name[1..]),
            };
            let help = format!("close it with '</{}>' on a line of its own", &section.name[1..]);
            self.report(Diagnostic::error(section.span, message).label("opened here").help(help));
        }
        nodes
    }

    fn expand(&mut self, line: Line) -> Option<Line> {
        let whole = line.whole();
        let mut unknown = Vec::new();
        let line = line.expand(LINE_BYTES_MAX, |name, span| {
            let value =
                self.result.variables.get(&name.to_ascii_lowercase()).cloned().or_else(|| self.world.variable(name));
            // Names with a colon are left for other uses, such as a rewrite map's `${map:key}`.
            if value.is_none() && !name.contains(':') {
                unknown.push((name.to_owned(), span));
            }
            value
        });
        for (name, span) in unknown {
            let finding = Diagnostic::warning(span, format!("Config variable ${{{name}}} is not defined")).code(111);
            let finding = finding.label("left as it is");
            self.report(finding.help(format!("'Define {name} value' sets it, and so does the environment")));
        }
        let line = line.filter(|line| line.text.len() <= LINE_BYTES_MAX);
        if line.is_none() {
            self.report(Diagnostic::error(whole, format!("The line is longer than {} kB", LINE_BYTES_MAX >> 10)));
        }
        line
    }

    fn line(&mut self, line: &Line, depth: usize, open: &mut Vec<Open>, nodes: &mut Vec<Node>) {
        let Some((name, after)) = line.first_word() else { return };
        let words = line.words(after..line.text.len());
        if name.value.starts_with("</") {
            self.close(&name, &words, open, nodes);
        } else if name.value.starts_with('<') {
            if open.len() >= SECTION_DEPTH_MAX {
                return self.stop(Some(name.span), format!("Sections are nested more than {SECTION_DEPTH_MAX} deep"));
            }
            let kind = self.open(line, &name, after, open.last());
            open.push(Open { name: name.value.trim_end_matches('>').to_owned(), span: name.span, kind });
        } else if !open.last().is_some_and(|open| matches!(open.kind, Kind::Skipped)) {
            let node = Node { name, args: words, span: line.whole(), expanded: line.expanded(), body: None };
            for node in self.directive(node, depth) {
                add(node, open, nodes);
            }
        }
    }

    fn open(&mut self, line: &Line, name: &Spanned<String>, after: usize, around: Option<&Open>) -> Kind {
        if around.is_some_and(|open| matches!(open.kind, Kind::Skipped)) {
            return Kind::Skipped;
        }
        let bare = name.value.trim_end_matches('>');
        let Some(end) = line.text.rfind('>') else {
            self.report(Diagnostic::error(line.whole(), format!("{bare}> directive missing closing '>'")));
            return Kind::Skipped;
        };
        let args = line.words(after.min(end)..end);
        let Some(test) = Test::of(bare) else {
            let node = Node {
                name: Spanned { value: bare.to_owned(), ..*name },
                args,
                span: line.whole(),
                expanded: line.expanded(),
                body: Some(Vec::new()),
            };
            return Kind::Section(Box::new(node));
        };
        let Some(argument) = args.first() else {
            self.report(Diagnostic::error(line.whole(), format!("{bare}> directive requires additional arguments")));
            return Kind::Skipped;
        };
        let (negated, argument) = match argument.value.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, argument.value.as_str()),
        };
        let holds = match test {
            Test::Module => self.loader.is_loaded(argument),
            Test::Define => self.result.defines.contains(argument),
            Test::File => self.world.exists(&self.result.server_root.join(argument)),
        };
        if holds == negated { Kind::Skipped } else { Kind::Taken }
    }

    fn close(&mut self, name: &Spanned<String>, rest: &[Spanned<String>], open: &mut Vec<Open>, nodes: &mut Vec<Node>) {
        let closes = |open: &Open, name: &str| open.name[1..].eq_ignore_ascii_case(name);
        let Some(inner) = name.value[2..].strip_suffix('>').filter(|_| rest.is_empty()) else {
            self.report(Diagnostic::error(name.span, format!("{}> directive missing closing '>'", name.value)));
            return;
        };
        let Some(last) = open.last() else {
            let message = format!("</{inner}> without matching <{inner}> section");
            return self.report(Diagnostic::error(name.span, message).label("nothing is open here"));
        };
        if !closes(last, inner) {
            // Apache does not remember conditional sections that hold.
            let message = match last.kind {
                Kind::Taken => format!("</{inner}> without matching <{inner}> section"),
                Kind::Skipped | Kind::Section(_) => format!("Expected </{}> but saw </{inner}>", &last.name[1..]),
            };
            let opened = self.result.sources.line(last.span);
            let finding = Diagnostic::error(name.span, message);
            self.report(finding.help(format!("{}> was opened on line {opened}", last.name)));
            // If an outer section is meant, the inner ones were left open; otherwise the name is misspelt.
            let meant = open.iter().rposition(|open| closes(open, inner)).unwrap_or(open.len() - 1);
            while open.len() > meant + 1 {
                end(open, nodes);
            }
        }
        end(open, nodes);
    }

    /// Carries out what is carried out when read; what remains for later is returned.
    fn directive(&mut self, node: Node, depth: usize) -> Vec<Node> {
        let Some(row) = ROWS.iter().find(|row| row.name.eq_ignore_ascii_case(&node.name.value)) else {
            return vec![node];
        };
        let fits = match row.args {
            ArgShape::Take1 => node.args.len() == 1,
            ArgShape::Take2 => node.args.len() == 2,
            ArgShape::Take12 => (1..=2).contains(&node.args.len()),
            _ => !node.args.is_empty(),
        };
        if !fits {
            let takes = match row.args {
                ArgShape::Take1 => "takes one argument",
                ArgShape::Take2 => "takes two arguments",
                ArgShape::Take12 => "takes 1-2 arguments",
                _ => "requires at least one argument",
            };
            let message = format!("{} {takes}, {}", row.name, row.help.trim_end_matches('.'));
            self.report(Diagnostic::error(node.span, message));
            return Vec::new();
        }
        match row.name {
            "Define" => self.define(&node),
            "UnDefine" => self.undefine(&node),
            "ServerRoot" => self.server_root(&node),
            "LoadModule" => {
                if let Err(finding) = self.loader.load(&node.args[0], &node.args[1]) {
                    self.report(finding);
                }
            }
            "Error" => {
                let text: Vec<_> = node.args.iter().map(|arg| arg.value.as_str()).collect();
                self.report(Diagnostic::error(node.span, text.join(" ")).code(SYNTAX_ERROR));
            }
            name => return self.include(&node, name == "IncludeOptional", depth),
        }
        Vec::new()
    }

    fn define(&mut self, node: &Node) {
        let name = &node.args[0];
        if name.value.contains(':') {
            return self.report(Diagnostic::error(name.span, "Variable name must not contain ':'"));
        }
        self.result.defines.insert(name.value.clone());
        if let Some(value) = node.args.get(1) {
            self.result.variables.insert(name.value.to_ascii_lowercase(), value.value.clone());
        }
    }

    fn undefine(&mut self, node: &Node) {
        let name = &node.args[0];
        if name.value.contains(':') {
            return self.report(Diagnostic::error(name.span, "Variable name must not contain ':'"));
        }
        self.result.defines.remove(&name.value);
        self.result.variables.remove(&name.value.to_ascii_lowercase());
    }

    fn server_root(&mut self, node: &Node) {
        let path = PathBuf::from(&node.args[0].value);
        if !path.is_absolute() || !self.world.is_folder(&path) {
            let finding = Diagnostic::error(node.args[0].span, "ServerRoot must be a valid directory");
            let label = if path.is_absolute() { "there is no such directory" } else { "not an absolute path" };
            return self.report(finding.label(label));
        }
        // Without a trailing slash, as it is shown in messages.
        self.result.server_root = path.components().collect();
    }

    fn include(&mut self, node: &Node, optional: bool, depth: usize) -> Vec<Node> {
        let pattern = &node.args[0];
        if depth >= INCLUDE_DEPTH_MAX {
            let message =
                format!("Exceeded maximum include depth of {INCLUDE_DEPTH_MAX}, There appears to be a recursion.");
            self.stop(Some(node.span), message);
            return Vec::new();
        }
        let files = match crate::include::find(self.world, &self.result.server_root, &pattern.value) {
            Ok(files) => files,
            Err(message) if optional && message.is_absence => Vec::new(),
            Err(message) => {
                let mut error = Diagnostic::error(pattern.span, message.text);
                if message.is_absence && Path::new(&pattern.value).is_relative() {
                    let root = self.result.server_root.display();
                    error = error.help(format!(
                        "relative paths start at ServerRoot, which is '{root}'; IncludeOptional does not mind"
                    ));
                }
                self.report(error);
                Vec::new()
            }
        };
        let mut nodes = Vec::new();
        for file in files {
            if self.stopped {
                break;
            }
            match self.world.read(&file, FILE_BYTES_MAX) {
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let included = self.source(file.display().to_string(), text, Some(node.span), depth + 1);
                    nodes.extend(included.into_iter().flatten());
                }
                Err(error) => self.report(Diagnostic::error(pattern.span, could_not_open(&file, &error))),
            }
        }
        nodes
    }

    fn report(&mut self, finding: Diagnostic) {
        let is_error = finding.severity == Severity::Error;
        self.errors += usize::from(is_error);
        if is_error || self.result.findings.len() < FINDINGS_MAX {
            self.result.findings.push(finding);
        }
        if self.errors >= ERRORS_MAX && !self.stopped {
            self.stop(None, format!("There are more than {ERRORS_MAX} errors; the rest was not read"));
        }
    }

    fn stop(&mut self, span: Option<Span>, message: String) {
        self.stopped = true;
        self.result.findings.push(Diagnostic::error(span, message));
    }
}

/// Conditional sections.
#[derive(Clone, Copy)]
enum Test {
    Module,
    Define,
    File,
}

impl Test {
    fn of(name: &str) -> Option<Test> {
        let tests = [("<IfModule", Test::Module), ("<IfDefine", Test::Define), ("<IfFile", Test::File)];
        tests.into_iter().find(|(section, _)| section.eq_ignore_ascii_case(name)).map(|(_, test)| test)
    }
}

fn add(node: Node, open: &mut [Open], nodes: &mut Vec<Node>) {
    let body = open.iter_mut().rev().find_map(|open| match &mut open.kind {
        Kind::Section(section) => section.body.as_mut(),
        Kind::Taken | Kind::Skipped => None,
    });
    body.unwrap_or(nodes).push(node);
}

/// Closes the innermost section.
fn end(open: &mut Vec<Open>, nodes: &mut Vec<Node>) {
    if let Some(Open { kind: Kind::Section(section), .. }) = open.pop() {
        add(*section, open, nodes);
    }
}

fn could_not_open(path: &Path, error: &std::io::Error) -> String {
    format!("Could not open configuration file {}: {}", path.display(), io_reason(error))
}

/// The system's words, without Rust's "(os error 2)".
pub(crate) fn io_reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// What is carried out here. These rows have no setter: whatever is found is done when it is read.
pub const ROWS: &[Row] = &[
    row(
        "Define",
        ArgShape::Take12,
        "Defines a variable, with a value if there is one; as -D does on the command line.",
    ),
    row("UnDefine", ArgShape::Take1, "Undoes a Define."),
    row("Error", ArgShape::RawArgs, "Stops with the given message."),
    row("Include", ArgShape::Take1, "Reads a file, or all files that match a pattern, in this place."),
    row("IncludeOptional", ArgShape::Take1, "Include that does not mind when nothing is there."),
    Row {
        module: "mod_so",
        ..row("LoadModule", ArgShape::Take2, "Makes a module available, by its name and its file.")
    },
    row("ServerRoot", ArgShape::Take1, "The folder to which relative paths refer."),
    row("<IfModule", ArgShape::RawArgs, "Reads what follows only if a module is there."),
    row("<IfDefine", ArgShape::RawArgs, "Reads what follows only if a name is defined."),
    row("<IfFile", ArgShape::RawArgs, "Reads what follows only if a file exists."),
];

const fn row(name: &'static str, args: ArgShape, help: &'static str) -> Row {
    Row { name, module: "core", contexts: Contexts::GLOBAL, args, default: "", help }
}
