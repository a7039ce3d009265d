//! Configuration files: reading, checking and showing findings hold for any text. The input is several files, parted by
//! NUL: the first is the main one, the others are called `1`, `2` ... so that it can include them, or itself as `0`.
#![no_main]

use std::io;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use manifold_config::tree::Node;
use manifold_config::{
    ArgShape, Call, Configuration, Contexts, Diagnostic, Directive, Loader, Reader, Severity, Sources, Span, Spanned,
    Style, Table, World, check, render,
};

/// More in one input only makes it slow: every include may read every file.
const INPUT_MAX: usize = 2048;

fuzz_target!(|bytes: &[u8]| {
    if bytes.len() > INPUT_MAX {
        return;
    }
    let files = Files(bytes.split(|&b| b == 0).collect());
    let configuration = read(&files);
    let again = read(&files);
    assert_eq!(configuration.nodes, again.nodes);
    assert_eq!(configuration.findings, again.findings);

    let sources = &configuration.sources;
    configuration.nodes.iter().for_each(|node| places(node, sources));
    let mut table = Table { rows: ROWS, value: () };
    let checked = check(&configuration, &mut [&mut table], &[]);
    for finding in configuration.findings.iter().chain(&checked) {
        if let Some(span) = finding.span {
            place(span, sources);
        }
        assert!(!finding.message.is_empty());
        let shown = render(finding, sources, "fuzz", Style::Plain);
        assert!(shown.ends_with('\n'));
    }
    // What is said to be without error has all its sections closed and every directive in a table.
    if configuration.findings.iter().chain(&checked).all(|finding| finding.severity != Severity::Error) {
        for node in &configuration.nodes {
            assert!(ROWS.iter().any(|row| row.name.eq_ignore_ascii_case(&node.name.value)), "{:?}", node.name);
        }
    }
});

fn read(files: &Files<'_>) -> Configuration {
    let mut loaded = Loaded(Vec::new());
    let mut reader = Reader::new(files, &mut loaded, Path::new("/root"), &["GIVEN".to_string()]);
    reader.text("-C/-c directives", "Define FROM_C value");
    reader.file(Path::new("/root/0"));
    reader.finish()
}

fn places(node: &Node, sources: &Sources) {
    for span in [node.span, node.name.span].into_iter().chain(node.args.iter().map(|arg| arg.span)) {
        place(span, sources);
    }
    node.body.iter().flatten().for_each(|inner| places(inner, sources));
}

/// Panics unless the span lies in its source, on character boundaries, on a line that exists.
fn place(span: Span, sources: &Sources) {
    let lines = sources.source(span.source).text.split('\n').count();
    assert!(sources.text(span).len() == span.range().len());
    assert!((1..=lines).contains(&sources.line(span)));
}

/// The folder `/root` with the files of the input.
struct Files<'a>(Vec<&'a [u8]>);

impl Files<'_> {
    fn find(&self, path: &Path) -> Option<&[u8]> {
        let number: usize = path.strip_prefix("/root").ok()?.to_str()?.parse().ok()?;
        self.0.get(number).copied()
    }
}

impl World for Files<'_> {
    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let bytes = self.find(path).ok_or(io::ErrorKind::NotFound)?;
        if bytes.len() as u64 > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes.to_vec()) }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        if !self.is_folder(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok((0..self.0.len()).rev().map(|number| number.to_string()).collect())
    }

    fn is_folder(&self, path: &Path) -> bool {
        path == Path::new("/root")
    }

    fn exists(&self, path: &Path) -> bool {
        self.is_folder(path) || self.find(path).is_some()
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "HOME").then(|| "/home".to_string())
    }
}

/// Modules may have any name but one.
struct Loaded(Vec<String>);

impl Loader for Loaded {
    fn load(&mut self, name: &Spanned<String>, path: &Spanned<String>) -> Result<(), Diagnostic> {
        if name.value == "bad_module" {
            return Err(Diagnostic::error(path.span, "Cannot load"));
        }
        self.0.push(name.value.clone());
        Ok(())
    }

    fn is_loaded(&self, name: &str) -> bool {
        self.0.iter().any(|loaded| loaded == name)
    }
}

/// A directive for each kind of argument.
const ROWS: &[Directive<()>] = &[
    row("None", ArgShape::NoArgs, |(), _| Ok(())),
    row("Raw", ArgShape::RawArgs, |(), call| match call.args.iter().position(|arg| arg.value.is_empty()) {
        Some(empty) => Err(call.error_at(empty, "empty")),
        None => Ok(()),
    }),
    row("Number", ArgShape::Take1, |(), call| call.integer(0, -5..=5).map(|n| assert!((-5..=5).contains(&n)))),
    row("Limit", ArgShape::Take12, |(), call| call.integer(0, 1..=i64::MAX).map(|n| assert!(n >= 1))),
    row("Time", ArgShape::Take1, |(), call| call.duration(0).map(|time| assert!(time.as_secs() < 1 << 40))),
    row("Switch", ArgShape::Flag, |(), call| call.flag(0).map(drop)),
    row("Path", ArgShape::Take2, |(), call| {
        assert!(call.path(0).is_absolute() && call.path(1).is_absolute());
        call.report(Diagnostic::warning(call.arg_span(1), "noticed"));
        Ok(())
    }),
    row("Several", ArgShape::Iterate, |(), call| Err(call.error_at(call.args.len(), "refused"))),
    row("Pairs", ArgShape::Iterate2, |(), _| Ok(())),
];

type Set = fn(&mut (), &Call<'_>) -> Result<(), Diagnostic>;

const fn row(name: &'static str, args: ArgShape, set: Set) -> Directive<()> {
    Directive { name, module: "fuzz", contexts: Contexts::ANYWHERE, args, default: "", help: "A test.", set }
}
