//! Rules about texts: spaces, paths of somebody's own machine, and documents that name files.

use std::path::Path;

use super::{Finding, Source, Tree};
use crate::run::root;

/// Folders and files at the top of the repository; a word in a document that starts so is taken for a path.
const PATH_STARTS: &[&str] = &["crates/", "xtask/", "e2e/", "fuzz/", "bench/", "docs/", ".ci/", ".cargo/"];

/// Starts of paths that are some person's own.
const HOMES: &[&str] = &[concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// No tab in Rust, no space at the end of a line, and one newline at the end of the file.
pub fn spaces(source: &Source, findings: &mut Vec<Finding>) {
    if is_verbatim(source) {
        return;
    }
    for (index, line) in source.text.lines().enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            findings.push(Finding::new(source, index + 1, "space at the end of the line"));
        }
        if source.is_rust() && line.contains('\t') {
            findings.push(Finding::new(source, index + 1, "a tab"));
        }
    }
    if !source.text.is_empty() && (!source.text.ends_with('\n') || source.text.ends_with("\n\n")) {
        findings.push(Finding::new(source, source.text.lines().count(), "the file must end with one newline"));
    }
}

/// No home folder and not the place of this checkout.
pub fn own_machine(source: &Source, findings: &mut Vec<Finding>) {
    let here = root().to_string_lossy();
    for (index, line) in source.text.lines().enumerate() {
        let home = HOMES.iter().find(|home| starts_a_path(line, home));
        if let Some(path) = home.copied().or_else(|| starts_a_path(line, &here).then_some(&*here)) {
            findings.push(Finding::new(source, index + 1, format!("`{path}` is a path of one machine only")));
        }
    }
}

/// Every path and every relative link in a Markdown document exists.
pub fn paths(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.sources.iter().filter(|source| source.path.ends_with(".md")) {
        let folder = Path::new(&source.path).parent().unwrap_or(Path::new(""));
        for (index, line) in source.text.lines().enumerate() {
            for path in named_paths(line).filter(|path| !tree.has(path)) {
                findings.push(Finding::new(source, index + 1, format!("there is no {path}")));
            }
            for link in links(line) {
                let target = normal(&folder.join(link));
                if !tree.has(&target) {
                    findings.push(Finding::new(
                        source,
                        index + 1,
                        format!("the link leads to {target}, which is not there"),
                    ));
                }
            }
        }
    }
}

/// Every `cargo xtask TASK` that a document tells to type is there.
pub fn tasks(source: &Source, findings: &mut Vec<Finding>) {
    if !source.path.ends_with(".md") {
        return;
    }
    for (index, line) in source.text.lines().enumerate() {
        let named =
            line.split("cargo xtask ").skip(1).filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next());
        for task in named.filter(|task| !crate::TASKS.iter().any(|known| known.name == *task)) {
            findings.push(Finding::new(source, index + 1, format!("there is no task `{task}`")));
        }
    }
}

/// Every page of the book is in its table of contents.
pub fn book(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(summary) = tree.source("docs/src/SUMMARY.md") else { return };
    for page in
        tree.sources.iter().filter(|source| source.path.starts_with("docs/src/") && source.path.ends_with(".md"))
    {
        let name = &page.path["docs/src/".len()..];
        if page.path != summary.path && !summary.text.contains(&format!("({name})")) {
            findings.push(Finding::new(page, 0, format!("{name} is not in SUMMARY.md")));
        }
    }
}

/// Files kept byte for byte: inputs of tests and the licence.
fn is_verbatim(source: &Source) -> bool {
    source.path == "LICENSE" || source.path.contains("/golden/") || source.path.starts_with("fuzz/seeds/")
}

/// Whether `path` occurs in the line where a path can start.
fn starts_a_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !(c.is_alphanumeric() || "/._-$}*".contains(c)))
    })
}

/// Words of a line that name a place in this repository.
fn named_paths(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| c.is_whitespace() || "`()[],;:'\"|#".contains(c))
        .filter(|word| PATH_STARTS.iter().any(|start| word.starts_with(start)))
        .filter(|word| !word.contains(['*', '<', '{', '$']))
        .map(|word| word.trim_end_matches('.'))
}

/// Targets of the relative links in a line of Markdown, without their fragments.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter_map(|target| {
        let target = target.split('#').next()?;
        (!target.is_empty() && !target.contains("://") && !target.starts_with("mailto:")).then_some(target)
    })
}

/// A relative path without `.` and `..`.
fn normal(path: &Path) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(parts.pop()),
            std::path::Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            _ => {}
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{lines, whats};
    use super::*;

    #[test]
    fn spaces_are_found() {
        assert!(lines(spaces, "a.rs", "//! Why.\nfn f() {}\n").is_empty());
        assert_eq!(lines(spaces, "a.rs", "a \n\tb\nc"), [1, 2, 3]);
        assert_eq!(lines(spaces, "Makefile", "a:\n\tb\n\n"), [3]);
        assert!(lines(spaces, "a/golden/b.txt", "a \n\n").is_empty());
    }

    #[test]
    fn own_paths_are_found() {
        let text = format!("see {0}ada/x\nuri /a{0}x\nin {1}/target\n$HOME/x\n", HOMES[0], root().display());
        assert_eq!(lines(own_machine, "a.md", &text), [1, 3]);
    }

    #[test]
    fn documents_name_only_what_is_there() {
        let text = "`crates/http/src/uri.rs`, crates/http and crates/gone/x.rs. [a](docs/b.md#c) [d](e.md) [f](https://g/) crates/*/src";
        let files =
            [("ARCHITECTURE.md", text), ("crates/http/src/uri.rs", ""), ("docs/b.md", "[up](../ARCHITECTURE.md)")];
        let expected = ["there is no crates/gone/x.rs", "the link leads to e.md, which is not there"];
        assert_eq!(whats(paths, &files, Vec::new()), expected);
    }

    #[test]
    fn documents_name_only_tasks_that_are_there() {
        assert_eq!(
            lines(tasks, "a.md", "`cargo xtask test --only tidy` and `cargo xtask bench`\ncargo xtask tests\n"),
            [2]
        );
    }

    #[test]
    fn every_page_is_in_the_book() {
        let files = [("docs/src/SUMMARY.md", "- [A](a.md)"), ("docs/src/a.md", ""), ("docs/src/b.md", "")];
        assert_eq!(whats(book, &files, Vec::new()), ["b.md is not in SUMMARY.md"]);
    }
}
