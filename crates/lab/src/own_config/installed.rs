//! What the Apache on this machine says of itself, and where its configuration is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Program;

/// The file in which Debian keeps what Apache's environment holds, beside the main configuration.
const ENVVARS: &str = "envvars";

/// Asks the program, and reads what its distribution starts it with.
///
/// # Errors
/// A sentence: it cannot be run.
pub fn program(apache: &Path, file: &Path) -> Result<Program, String> {
    let said = |option: &str| {
        let output = Command::new(apache).arg(option).output();
        let output = output.map_err(|error| format!("{} cannot be run: {error}", apache.display()))?;
        Ok::<String, String>(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let beside = file.parent().unwrap_or(Path::new("/"));
    let envvars = std::fs::read_to_string(beside.join(ENVVARS)).unwrap_or_default();
    Ok(Program {
        server_root: server_root(&said("-V")?).unwrap_or_else(|| beside.to_owned()),
        compiled_in: compiled_in(&said("-l")?),
        variables: variables(&envvars),
    })
}

/// `HTTPD_ROOT` of what `-V` prints.
pub fn server_root(said: &str) -> Option<PathBuf> {
    let root = said.lines().find_map(|line| line.trim().strip_prefix("-D HTTPD_ROOT=\""))?;
    root.strip_suffix('"').map(PathBuf::from)
}

/// The files that `-l` lists.
pub fn compiled_in(said: &str) -> Vec<String> {
    said.lines().map(str::trim).filter(|line| line.ends_with(".c")).map(str::to_owned).collect()
}

/// The values that a file of a shell sets plainly: `export NAME=value`, without what a shell would have to work out.
fn variables(text: &str) -> BTreeMap<String, String> {
    let plain = |line: &str| {
        let (name, value) = line.trim().strip_prefix("export ")?.split_once('=')?;
        let value = value.trim_matches(['"', '\'']);
        (!value.contains(['$', '`'])).then(|| (name.trim().to_owned(), value.to_owned()))
    };
    text.lines().filter_map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_apache_says_of_itself() {
        let said = "Server version: Apache/2.4.71 (Debian)\n -D HTTPD_ROOT=\"/etc/apache2\"\n -D SUEXEC_BIN=\"/x\"\n";
        assert_eq!(server_root(said), Some(PathBuf::from("/etc/apache2")));
        assert_eq!(server_root(""), None);
        assert_eq!(compiled_in("Compiled in modules:\n  core.c\n  mod_so.c\n"), ["core.c", "mod_so.c"]);
    }

    #[test]
    fn plain_variables_of_a_shell() {
        let text = "unset HOME\nexport APACHE_RUN_USER=www-data\n  export A='b c'\nexport APACHE_RUN_DIR=/run/apache2$SUFFIX\n";
        let expected = [("A", "b c"), ("APACHE_RUN_USER", "www-data")];
        assert_eq!(variables(text), expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }
}
