//! The directives that Apache 2.4 and its own modules have, so that one which is not built yet is not called misspelt.

/// A line a module: `core: Alias AliasMatch ...`, as `apache2 -L` of 2.4.71 lists them.
const NAMES: &str = include_str!("apache.txt");

/// A directive of Apache.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    /// Its source file's name without its ending.
    pub(crate) module: &'static str,
}

/// The directive called `name`, without regard to case.
pub(crate) fn find(name: &str) -> Option<Known> {
    NAMES.lines().filter_map(|line| line.split_once(':')).find_map(|(module, names)| {
        let name = names.split_ascii_whitespace().find(|known| known.eq_ignore_ascii_case(name))?;
        Some(Known { name, module })
    })
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn names_are_found_with_their_module() {
        let found = |name| find(name).map(|known| (known.name, known.module));
        assert_eq!(found("rewriterule"), Some(("RewriteRule", "mod_rewrite")));
        assert_eq!(found("<virtualhost"), Some(("<VirtualHost", "core")));
        assert_eq!(found("core:"), None);
        assert_eq!(found(""), None);
    }
}
