//! Rules about Rust source files.

use super::lexer::code_only;
use super::{Finding, Source};

/// Lines of logic a file may have: neither empty nor a comment, and above its tests.
const FILE_LINES_MAX: usize = 500;

/// Lines a function may have, from its `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Files that may be longer, because they are tables: path and reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Functions that may be longer, because they are tables: path, name and reason.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[];

/// The only crate that may say `unsafe`.
const UNSAFE_CRATE: &str = "crates/sys";

/// Words that mark what was not finished. In pieces, so that this file passes its own rule.
const LEFT_OVER: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:"), concat!("HA", "CK:")];

/// A file opens with `//!`.
pub fn opening(source: &Source, findings: &mut Vec<Finding>) {
    if !source.text.starts_with("//! ") {
        findings.push(Finding::new(source, 1, "does not start with `//! `"));
    }
}

/// A file is short. Files of tests are not counted.
pub fn file_length(source: &Source, findings: &mut Vec<Finding>) {
    if is_test_file(source) || LONG_FILES.iter().any(|(path, _)| *path == source.path) {
        return;
    }
    let count = logic(&source.text).filter(|line| !line.is_empty() && !line.starts_with("//")).count();
    if count > FILE_LINES_MAX {
        findings.push(Finding::new(source, 0, format!("{count} lines of logic, at most {FILE_LINES_MAX}")));
    }
}

/// A function is short. Tests are not counted.
pub fn function_length(source: &Source, findings: &mut Vec<Finding>) {
    if is_test_file(source) {
        return;
    }
    let code = code_only(&source.text);
    let end = logic(&source.text).count();
    for function in functions(&code).into_iter().filter(|function| function.line <= end) {
        let excepted = LONG_FUNCTIONS.iter().any(|(path, name, _)| *path == source.path && *name == function.name);
        if function.lines > FUNCTION_LINES_MAX && !excepted {
            let what = format!("fn {} has {} lines, at most {FUNCTION_LINES_MAX}", function.name, function.lines);
            findings.push(Finding::new(source, function.line, what));
        }
    }
}

/// `unsafe` is found in one crate only.
pub fn no_unsafe(source: &Source, findings: &mut Vec<Finding>) {
    if source.package_dir() == UNSAFE_CRATE {
        return;
    }
    for (index, line) in code_only(&source.text).lines().enumerate() {
        if words(line).any(|word| word == "unsafe") {
            findings.push(Finding::new(source, index + 1, "`unsafe` outside crates/sys"));
        }
    }
}

/// The root file of every other crate makes the compiler check it too.
pub fn forbids_unsafe(source: &Source, findings: &mut Vec<Finding>) {
    let dir = source.package_dir();
    let is_root = source.path == format!("{dir}/src/lib.rs") || source.path == format!("{dir}/src/main.rs");
    if is_root && dir != UNSAFE_CRATE && !source.text.lines().any(|line| line == "#![forbid(unsafe_code)]") {
        findings.push(Finding::new(source, 1, "does not say `#![forbid(unsafe_code)]`"));
    }
}

/// Nothing is left for later, and no debugging aid is left behind.
pub fn left_over(source: &Source, findings: &mut Vec<Finding>) {
    for (index, line) in source.text.lines().enumerate() {
        if let Some(word) = LEFT_OVER.iter().find(|word| line.contains(**word)) {
            findings.push(Finding::new(source, index + 1, format!("`{word}`")));
        }
    }
    for (index, line) in code_only(&source.text).lines().enumerate() {
        if let Some(call) = ["dbg!", "todo!", "unimplemented!"].iter().find(|call| line.contains(**call)) {
            findings.push(Finding::new(source, index + 1, format!("`{call}`")));
        }
    }
}

fn is_test_file(source: &Source) -> bool {
    source.path.contains("/tests/") || ["/tests.rs", "/fixture.rs"].iter().any(|name| source.path.ends_with(name))
}

/// The trimmed lines above the tests.
fn logic(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| *line != "#[cfg(test)]").map(str::trim)
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_alphanumeric() || c == '_'))
}

struct Function {
    name: String,
    /// Where it starts, from 1.
    line: usize,
    lines: usize,
}

/// The functions of code laid out by rustfmt: the closing brace stands under the first word of the signature.
fn functions(code: &str) -> Vec<Function> {
    let lines: Vec<&str> = code.lines().collect();
    let mut functions = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let ends = |line: &str| line.strip_prefix(indent).is_some_and(|rest| rest.starts_with('}'));
        let Some(open) = lines[start..].iter().position(|line| line.contains('{') || line.trim_end().ends_with(';'))
        else {
            continue;
        };
        let opening = lines[start + open].trim_end();
        if opening.ends_with('}') || opening.ends_with(';') {
            continue;
        }
        let Some(length) = lines[start + open + 1..].iter().position(|line| ends(line)) else { continue };
        functions.push(Function { name: name.to_string(), line: start + 1, lines: open + length + 2 });
    }
    functions
}

/// The name of the function that starts on this line.
fn function_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    loop {
        match words.next()? {
            "fn" => return words.next()?.split(['(', '<']).next(),
            "pub" | "const" | "async" | "unsafe" | "extern" => {}
            word if word.starts_with("pub(") || word == "super)" || word == "crate)" => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lines;
    use super::*;

    #[test]
    fn a_file_must_open_with_its_reason() {
        assert!(lines(opening, "a.rs", "//! Why.\nfn f() {}\n").is_empty());
        assert_eq!(lines(opening, "a.rs", "use std::io;\n"), [1]);
    }

    #[test]
    fn long_files_are_found_tests_and_comments_aside() {
        let logic = "let x = 1;\n// why\n\n".repeat(FILE_LINES_MAX);
        let tests = format!("#[cfg(test)]\n{}", "assert!(true);\n".repeat(50));
        assert!(lines(file_length, "a/src/b.rs", &format!("{logic}{tests}")).is_empty());
        assert_eq!(lines(file_length, "a/src/b.rs", &format!("{logic}let y = 2;\n{tests}")), [0]);
        assert!(lines(file_length, "a/tests/b.rs", &logic.repeat(2)).is_empty());
    }

    #[test]
    fn long_functions_are_found_wherever_they_are() {
        let body = |n: usize| "        let x = \"}\";\n".repeat(n);
        let method = |n: usize| {
            format!(
                "//! Why.\nimpl A {{\n    pub(crate) async fn f<T>(\n        x: T,\n    ) {{\n{}    }}\n}}\n",
                body(n)
            )
        };
        assert!(lines(function_length, "a/src/b.rs", &method(FUNCTION_LINES_MAX - 4)).is_empty());
        assert_eq!(lines(function_length, "a/src/b.rs", &method(FUNCTION_LINES_MAX - 3)), [3]);
        assert!(
            lines(function_length, "a/src/b.rs", &format!("#[cfg(test)]\nmod tests {{\n{}}}\n", method(90))).is_empty()
        );
        let declaration =
            format!("trait A {{\n    fn f(&self) -> u8;\n    fn g() {{}}\n{}}}\n", "    const X: u8 = 1;\n".repeat(90));
        assert!(lines(function_length, "a/src/b.rs", &declaration).is_empty());
    }

    #[test]
    fn unsafe_is_for_sys() {
        let text = "//! Why: unsafe is told of here.\n#![forbid(unsafe_code)]\nlet x = unsafe { y };\n";
        assert_eq!(lines(no_unsafe, "crates/http/src/lib.rs", text), [3]);
        assert!(lines(no_unsafe, "crates/sys/src/lib.rs", text).is_empty());
        assert!(lines(forbids_unsafe, "crates/http/src/lib.rs", text).is_empty());
        assert_eq!(lines(forbids_unsafe, "crates/http/src/lib.rs", "//! Why.\n"), [1]);
        assert_eq!(lines(forbids_unsafe, "xtask/src/main.rs", "//! Why.\n"), [1]);
        assert!(lines(forbids_unsafe, "crates/http/src/uri.rs", "//! Why.\n").is_empty());
    }

    #[test]
    fn left_overs_are_found_in_comments_and_code() {
        let text = format!("// {} later\nlet s = \"dbg!\";\ndbg!(s);\n", LEFT_OVER[0]);
        assert_eq!(lines(left_over, "a.rs", &text), [1, 3]);
    }
}
