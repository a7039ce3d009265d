//! `cargo xtask tidy`: the house rules that neither rustc nor clippy checks. One table of rules; each is a pure function
//! over the sources, with its tests beside it.

mod code;
mod deps;
mod lexer;
mod prose;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::run::{Run, root};
use deps::Package;

/// One house rule.
struct Rule {
    name: &'static str,
    /// What to do about a finding, and why the rule is there.
    why: &'static str,
    check: Check,
}

/// What a rule looks at.
enum Check {
    /// Each Rust source file by itself.
    Rust(fn(&Source, &mut Vec<Finding>)),
    /// Each text file by itself.
    Text(fn(&Source, &mut Vec<Finding>)),
    /// The whole repository at once.
    Tree(fn(&Tree, &mut Vec<Finding>)),
}

const RULES: &[Rule] = &[
    Rule { name: "opening", why: "a file opens with `//!` and says why it exists", check: Check::Rust(code::opening) },
    Rule { name: "file-length", why: "split it: one file, one thing", check: Check::Rust(code::file_length) },
    Rule {
        name: "function-length",
        why: "split it: a function fits a screen",
        check: Check::Rust(code::function_length),
    },
    Rule { name: "unsafe", why: "`unsafe` lives in crates/sys alone", check: Check::Rust(code::no_unsafe) },
    Rule {
        name: "forbid",
        why: "each crate but sys says `#![forbid(unsafe_code)]`",
        check: Check::Rust(code::forbids_unsafe),
    },
    Rule {
        name: "left-over",
        why: "finish it, or write down in an issue what is missing",
        check: Check::Rust(code::left_over),
    },
    Rule {
        name: "spaces",
        why: "no tabs in Rust, nothing behind the last word, one newline at the end",
        check: Check::Text(prose::spaces),
    },
    Rule { name: "own-machine", why: "no path of somebody's own machine", check: Check::Text(prose::own_machine) },
    Rule { name: "paths", why: "documents name only files that exist", check: Check::Tree(prose::paths) },
    Rule { name: "tasks", why: "documents name only tasks that exist", check: Check::Text(prose::tasks) },
    Rule { name: "book", why: "docs/src/SUMMARY.md lists every page", check: Check::Tree(prose::book) },
    Rule { name: "layers", why: "ARCHITECTURE.md says who may depend on whom", check: Check::Tree(deps::layers) },
    Rule {
        name: "licences",
        why: "dependencies have a licence that agrees with ours",
        check: Check::Tree(deps::licences),
    },
    Rule {
        name: "manifests",
        why: "versions and lints are set once, in the root Cargo.toml",
        check: Check::Tree(deps::manifests),
    },
];

/// A text file of the repository.
struct Source {
    /// Relative to the repository's top folder.
    path: String,
    text: String,
}

/// Everything the rules look at.
struct Tree {
    sources: Vec<Source>,
    /// Every file, those that are not text too.
    paths: Vec<String>,
    packages: Vec<Package>,
}

/// A breach of a rule. Line 0 is the file as a whole.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(source: &Source, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: source.path.clone(), line, what: what.into() }
    }
}

/// Runs the task.
pub fn main(arguments: &[String]) -> Result<()> {
    if !arguments.is_empty() {
        bail!("usage: cargo xtask tidy\n\nIt takes no arguments. The rules are: {}", rule_names().join(", "));
    }
    let tree = Tree::read(root())?;
    let mut total = 0;
    for rule in RULES {
        let findings = rule.findings(&tree);
        total += findings.len();
        for finding in &findings {
            println!("{}:{}: {} [{}: {}]", finding.path, finding.line, finding.what, rule.name, rule.why);
        }
    }
    if total > 0 {
        bail!("{total} breaches of the house rules (xtask/src/tidy)");
    }
    println!("tidy: {} rules hold for {} files", RULES.len(), tree.paths.len());
    Ok(())
}

impl Rule {
    fn findings(&self, tree: &Tree) -> Vec<Finding> {
        let mut findings = Vec::new();
        match self.check {
            Check::Rust(check) => tree.sources.iter().filter(|s| s.is_rust()).for_each(|s| check(s, &mut findings)),
            Check::Text(check) => tree.sources.iter().for_each(|s| check(s, &mut findings)),
            Check::Tree(check) => check(tree, &mut findings),
        }
        findings
    }
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The crate's folder this file is in, `crates/http` of `crates/http/src/uri.rs`.
    fn package_dir(&self) -> &str {
        let depth = if self.path.starts_with("crates/") { 2 } else { 1 };
        match self.path.match_indices('/').nth(depth - 1) {
            Some((end, _)) => &self.path[..end],
            None => "",
        }
    }
}

impl Tree {
    /// All files that git tracks or would track.
    fn read(root: &Path) -> Result<Tree> {
        let listed = Run::new("git", ["ls-files", "--cached", "--others", "--exclude-standard"]).output()?;
        let mut paths: Vec<String> = listed.lines().map(str::to_string).collect();
        paths.sort_unstable();
        paths.dedup();
        paths.retain(|path| root.join(path).is_file());
        let mut sources = Vec::new();
        for path in &paths {
            let bytes = fs::read(root.join(path)).with_context(|| format!("cannot read {path}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                sources.push(Source { path: path.clone(), text });
            }
        }
        Ok(Tree { sources, paths, packages: deps::read()? })
    }

    fn source(&self, path: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.path == path)
    }

    /// Whether a file or a folder of this name is in the repository.
    fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.paths
            .iter()
            .any(|known| known == path || known.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    }
}

fn rule_names() -> Vec<&'static str> {
    RULES.iter().map(|rule| rule.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a rule says about one file: the lines it names.
    pub(super) fn lines(check: fn(&Source, &mut Vec<Finding>), path: &str, text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        check(&Source { path: path.to_string(), text: text.to_string() }, &mut findings);
        findings.iter().map(|finding| finding.line).collect()
    }

    /// What a rule says about a repository made of these files and packages.
    pub(super) fn whats(
        check: fn(&Tree, &mut Vec<Finding>),
        files: &[(&str, &str)],
        packages: Vec<Package>,
    ) -> Vec<String> {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source { path: path.to_string(), text: text.to_string() }).collect();
        let paths = sources.iter().map(|source| source.path.clone()).collect();
        let mut findings = Vec::new();
        check(&Tree { sources, paths, packages }, &mut findings);
        findings.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn rule_names_are_distinct() {
        let mut names = rule_names();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
    }

    #[test]
    fn a_file_knows_its_package() {
        let dir = |path: &str| Source { path: path.to_string(), text: String::new() }.package_dir().to_string();
        assert_eq!(dir("crates/http/src/uri.rs"), "crates/http");
        assert_eq!(dir("xtask/src/main.rs"), "xtask");
        assert_eq!(dir("README.md"), "");
    }
}
