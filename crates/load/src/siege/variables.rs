//! `$(NAME)`, `${NAME}` and `$NAME` in resource files and URL files.

use std::collections::HashMap;

/// So many are replaced in one text; a variable that names itself would otherwise never end.
const REPLACED_MAX: usize = 1000;
/// A text grows no longer than this.
const LENGTH_MAX: usize = 64 * 1024;

/// Names and values, as a file defines them.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    values: HashMap<String, String>,
}

impl Variables {
    /// Defines one, or defines it anew.
    pub fn set(&mut self, name: &str, value: &str) {
        self.values.insert(name.to_owned(), value.to_owned());
    }
}

/// Replaces references by the file's variables or the environment's; unknown ones by nothing. A name ends with a bracket or a slash.
pub fn expand(text: &str, variables: &Variables, environment: &dyn Fn(&str) -> Option<String>) -> String {
    let mut text = text.to_owned();
    for _ in 0..REPLACED_MAX {
        let Some((before, after)) = text.split_once('$') else { break };
        let after = after.strip_prefix(['{', '(']).unwrap_or(after);
        let end = after.find(['}', ')', '/']).unwrap_or(after.len());
        let name = &after[..end];
        let rest = after[end..].strip_prefix(['}', ')']).unwrap_or(&after[end..]);
        let value = variables.values.get(name).cloned().or_else(|| environment(name)).unwrap_or_default();
        if before.len() + value.len() + rest.len() > LENGTH_MAX {
            break;
        }
        text = format!("{before}{value}{rest}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        let mut variables = Variables::default();
        variables.set("A", "1");
        variables.set("LOOP", "$(LOOP)x");
        variables.set("NEST", "$(A)2");
        let check = |text: &str, expected: &str| {
            assert_eq!(expand(text, &variables, &|name| (name == "HOME").then(|| "/h".to_owned())), expected, "{text}");
        };
        check("plain", "plain");
        check("$(A)$A", "11");
        check("${A}b", "1b");
        check("$A/b", "1/b");
        check("$(NONE)b", "b");
        check("$HOME", "/h");
        check("$(NEST)", "12");
        check("a$", "a");
        assert!(expand("$(LOOP)", &variables, &|_| None).len() <= LENGTH_MAX + 10);
    }
}
