//! Rules about packages: who may depend on whom, and under which licences.

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Finding, Tree};
use crate::run::Run;

/// What each of our packages may depend on, from the bottom up. Dependencies of tests are not bound by this.
const LAYERS: &[(&str, &[&str])] = &[
    ("manifold-sys", &[]),
    ("manifold-http", &[]),
    ("manifold-config", &[]),
    ("manifold-stats", &[]),
    ("manifold-engine", &["manifold-http", "manifold-config"]),
    ("manifold-modules", &["manifold-engine", "manifold-http", "manifold-config", "manifold-sys"]),
    ("manifold-mpm", &["manifold-engine", "manifold-sys", "manifold-http", "manifold-config"]),
    (
        "manifold-httpd",
        &["manifold-mpm", "manifold-modules", "manifold-engine", "manifold-sys", "manifold-http", "manifold-config"],
    ),
    ("manifold-load", &["manifold-http", "manifold-sys", "manifold-stats"]),
    // The laboratory's doctor explains configurations by the grammar and the rules of correction that servers use.
    // Its view of kept runs is served by our own server.
    (
        "manifold-lab",
        &["manifold-load", "manifold-stats", "manifold-config", "manifold-mpm", "manifold-engine", "manifold-http"],
    ),
    ("manifold-top", &["manifold-httpd", "manifold-engine", "manifold-http", "manifold-sys"]),
    ("manifold", &["manifold-httpd", "manifold-lab", "manifold-load", "manifold-top"]),
    (
        "manifold-bench",
        &["manifold-mpm", "manifold-http", "manifold-config", "manifold-engine", "manifold-modules", "manifold-load"],
    ),
    ("e2e", &[]),
    ("xtask", &[]),
];

/// Licences that ask no more of our users than Apache-2.0 does.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// A package of the build, ours or not.
pub struct Package {
    /// Its name as in Cargo.toml.
    pub name: String,
    /// The SPDX expression of its licence.
    pub licence: String,
    /// Whether it is a member of the workspace.
    pub ours: bool,
    /// Names of what it needs to be built and run, not tested.
    pub needs: Vec<String>,
}

/// Asks cargo for the packages of the build.
pub fn read() -> Result<Vec<Package>> {
    let text = Run::cargo("metadata --format-version 1 --locked").output()?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata printed something else than JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    Ok(packages.iter().map(package).collect())
}

fn package(value: &Value) -> Package {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let needs = value["dependencies"].as_array().into_iter().flatten();
    Package {
        name: text(&value["name"]),
        licence: text(&value["license"]),
        ours: value["source"].is_null(),
        needs: needs.filter(|need| need["kind"] != "dev").map(|need| text(&need["name"])).collect(),
    }
}

/// Our packages depend on each other only downwards.
pub fn layers(tree: &Tree, findings: &mut Vec<Finding>) {
    let ours = |name: &str| tree.packages.iter().any(|package| package.ours && package.name == name);
    for package in tree.packages.iter().filter(|package| package.ours) {
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == package.name) else {
            findings.push(breach(&package.name, "is not in the list of layers (xtask/src/tidy/deps.rs)"));
            continue;
        };
        for need in package.needs.iter().filter(|need| ours(need) && !allowed.contains(&need.as_str())) {
            findings.push(breach(&package.name, &format!("must not depend on {need}")));
        }
    }
}

/// Every dependency's licence is in the list.
pub fn licences(tree: &Tree, findings: &mut Vec<Finding>) {
    for package in tree.packages.iter().filter(|package| !allowed(&package.licence)) {
        findings
            .push(breach(&package.name, &format!("has the licence `{}`, which is not in the list", package.licence)));
    }
}

/// Members of the workspace take versions and lints from the root.
pub fn manifests(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in
        tree.sources.iter().filter(|source| source.path.ends_with("/Cargo.toml") && !source.path.starts_with("fuzz/"))
    {
        if !source.text.contains("[lints]\nworkspace = true\n") {
            findings.push(Finding::new(source, 0, "does not say `[lints] workspace = true`"));
        }
        let mut in_dependencies = false;
        for (index, line) in source.text.lines().enumerate() {
            if line.starts_with('[') {
                in_dependencies = line.trim_matches(['[', ']']).ends_with("dependencies");
            } else if in_dependencies && line.contains('=') && !line.contains("workspace = true") {
                findings.push(Finding::new(
                    source,
                    index + 1,
                    "a version of its own; put it into the root's [workspace.dependencies]",
                ));
            }
        }
    }
}

/// Whether an SPDX expression can be met with the licences of the list. `/` is the old way to write `OR`.
fn allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
    either(&mut words) && words.is_empty()
}

/// `A OR B`; the next word is the last of `words`.
fn either(words: &mut Vec<&str>) -> bool {
    let mut met = both(words);
    while words.pop_if(|word| *word == "OR").is_some() {
        met |= both(words);
    }
    met
}

/// `A AND B`, which binds closer.
fn both(words: &mut Vec<&str>) -> bool {
    let mut met = licence(words);
    while words.pop_if(|word| *word == "AND").is_some() {
        met &= licence(words);
    }
    met
}

/// One licence, perhaps `WITH` an exception, or an expression in parentheses.
fn licence(words: &mut Vec<&str>) -> bool {
    let Some(first) = words.pop() else { return false };
    if first == "(" {
        let met = either(words);
        return words.pop() == Some(")") && met;
    }
    let mut name = first.to_string();
    if words.pop_if(|word| *word == "WITH").is_some() {
        name = format!("{first} WITH {}", words.pop().unwrap_or_default());
    }
    LICENCES.contains(&name.as_str())
}

fn breach(package: &str, what: &str) -> Finding {
    Finding { path: "Cargo.toml".to_string(), line: 0, what: format!("{package} {what}") }
}

#[cfg(test)]
mod tests {
    use super::super::tests::whats;
    use super::*;

    fn ours(name: &str, needs: &[&str]) -> Package {
        Package {
            name: name.to_string(),
            licence: "Apache-2.0".to_string(),
            ours: true,
            needs: needs.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn dependencies_point_downwards() {
        let packages = || vec![ours("manifold-http", &["memchr"]), ours("manifold-engine", &["manifold-http"])];
        assert!(whats(layers, &[], packages()).is_empty());
        let mut upwards = packages();
        upwards[0].needs.push("manifold-engine".to_string());
        assert_eq!(whats(layers, &[], upwards), ["manifold-http must not depend on manifold-engine"]);
        assert_eq!(
            whats(layers, &[], vec![ours("new", &[])]),
            ["new is not in the list of layers (xtask/src/tidy/deps.rs)"]
        );
    }

    #[test]
    fn the_list_of_layers_is_itself_ordered() {
        for (index, (name, needs)) in LAYERS.iter().enumerate() {
            for need in *needs {
                assert!(LAYERS[..index].iter().any(|(lower, _)| lower == need), "{name} needs {need} from below");
            }
        }
    }

    #[test]
    fn licence_expressions_are_understood() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "MIT AND Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(allowed(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "MPL-2.0", "(MIT OR ISC) AND GPL-3.0", "(MIT", "MIT ISC"] {
            assert!(!allowed(bad), "{bad}");
        }
        let stranger =
            Package { name: "x".to_string(), licence: "GPL-3.0".to_string(), ours: false, needs: Vec::new() };
        assert_eq!(whats(licences, &[], vec![stranger]), ["x has the licence `GPL-3.0`, which is not in the list"]);
    }

    #[test]
    fn manifests_keep_no_versions() {
        let good = "[package]\nname = \"a\"\n[lints]\nworkspace = true\n\n[dependencies]\nb.workspace = true\n";
        assert!(whats(manifests, &[("a/Cargo.toml", good)], Vec::new()).is_empty());
        let bad = "[dev-dependencies]\nb = \"1\"\n";
        assert_eq!(whats(manifests, &[("a/Cargo.toml", bad)], Vec::new()).len(), 2);
    }
}
