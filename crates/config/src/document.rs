//! Lists made from the directive tables: `-L`, and tables for the manual.

use std::fmt::Write;

use crate::table::{ArgShape, Row};

/// The lines that `-L` prints for `rows`, in Apache's form.
pub fn list(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let contexts = row.contexts;
        let place = match (contexts.directory, contexts.server) {
            (true, true) => "anywhere",
            (true, false) => "only inside <Directory>, <Files>, <Location>, or <If>",
            (false, _) => "only outside <Directory>, <Files>, <Location>, or <If>",
        };
        let htaccess = if contexts.htaccess { " and in .htaccess\n\twhen AllowOverride isn't None" } else { "" };
        // Writing to a String cannot fail.
        let _ =
            writeln!(text, "{} ({}.c)\n\t{}\n\tAllowed in *.conf {place}{htaccess}", row.name, row.module, row.help);
    }
    text
}

/// A Markdown table of `rows`, sorted by name, for the manual.
pub fn markdown(rows: &[Row]) -> String {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| row.name.trim_start_matches('<').to_ascii_lowercase());
    let mut text =
        "| Directive | Arguments | Default | Context | Module | Meaning |\n|---|---|---|---|---|---|\n".to_owned();
    for row in rows {
        let closing = if row.name.starts_with('<') { ">" } else { "" };
        let default = if row.default.is_empty() { String::new() } else { format!("`{}`", row.default) };
        let cells = [
            format!("`{}{closing}`", row.name),
            arguments(row.args).to_owned(),
            default,
            row.contexts.to_string(),
            row.module.to_owned(),
            row.help.to_owned(),
        ];
        let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

fn arguments(shape: ArgShape) -> &'static str {
    match shape {
        ArgShape::NoArgs => "none",
        ArgShape::RawArgs => "any",
        ArgShape::Take1 => "one",
        ArgShape::Take12 => "one or two",
        ArgShape::Take2 => "two",
        ArgShape::Take23 => "two or three",
        ArgShape::Iterate => "one or more",
        ArgShape::Iterate2 => "two or more",
        ArgShape::Flag => "`On` or `Off`",
    }
}
