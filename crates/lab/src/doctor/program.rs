//! The server a configuration is for, as it describes itself: what is compiled in, where it looks, and with which variables it is started.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use manifold_mpm::limits::Model;

use super::reading::Whose;
use crate::own_config::installed;
use crate::target::{first_line, which};

/// The names Apache's program goes by.
const NAMES: [&str; 2] = ["apache2", "httpd"];
/// How long a server may take to check a configuration.
const CHECKED_WITHIN: Duration = Duration::from_secs(20);
/// Lines of what it says that are shown, the last ones.
const SAID_MAX: usize = 100;
/// Folders that Debian's `apachectl` makes before it starts the server; checking writes nothing into them.
const MADE_AT_START: [&str; 2] = ["APACHE_RUN_DIR", "APACHE_LOCK_DIR"];

/// What is known of a server's program.
#[derive(Debug, Default)]
pub struct Program {
    /// Where it is; `None` where it is not installed.
    pub path: Option<PathBuf>,
    /// What it says of itself.
    pub version: String,
    /// Files of the modules that are compiled in, such as `mod_so.c`, without the models.
    pub built_in: BTreeSet<String>,
    /// The model that is compiled in, where it is one.
    pub model: Option<Model>,
    /// `ServerRoot` where nothing says otherwise.
    pub server_root: Option<PathBuf>,
    /// Variables that it is started with (Debian's `envvars`).
    pub variables: BTreeMap<String, String>,
}

impl Program {
    /// Asks the program itself. `manifold` is this binary; `folder` is the configuration's, where `envvars` may stand.
    pub fn ask(whose: Whose, manifold: &Path, folder: &Path) -> Program {
        let (path, words, root): (_, &[&str], _) = match whose {
            Whose::Manifold => (Some(manifold.to_owned()), &["httpd"], Some("/etc/manifold".into())),
            Whose::Apache => (NAMES.iter().find_map(|name| which(name)), &[], None),
        };
        let Some(path) = path else {
            return Program { variables: variables(folder), ..Program::default() };
        };
        let says = |option: &str| {
            let output = Command::new(&path).args(words).arg(option).stdin(Stdio::null()).output();
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
        };
        let (built_in, models) = compiled_in(&says("-l"));
        let version = match whose {
            Whose::Manifold => format!("Manifold {}", env!("CARGO_PKG_VERSION")),
            Whose::Apache => first_line(&path, "-v", "Server version: ").unwrap_or_default(),
        };
        // Ours has all of them compiled in, which chooses none.
        let model = models.first().copied().filter(|_| models.len() == 1);
        let server_root = root.or_else(|| installed::server_root(&says("-V")));
        Program { path: Some(path), version, built_in, model, server_root, variables: variables(folder) }
    }

    /// The folder that relative names start at, for the configuration `file`: as the server has it, and where none is installed as the
    /// layouts of distributions have it.
    pub fn root_for(&self, file: &Path) -> PathBuf {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let by_layout = if folder.file_name().is_some_and(|name| name == "conf") { folder.parent() } else { None };
        self.server_root.clone().unwrap_or_else(|| by_layout.unwrap_or(folder).to_owned())
    }

    /// What the program itself says of the configuration (`-t`); `None` where it accepts it, or was not asked because it is not there.
    pub fn refuses(&self, whose: Whose, file: &Path, root: &Path) -> Option<String> {
        let path = self.path.as_ref()?;
        let mut command = Command::new(path);
        if whose == Whose::Manifold {
            command.arg("httpd");
        }
        let started = command
            .arg("-t")
            .arg("-d")
            .arg(root)
            .arg("-f")
            .arg(file)
            .envs(&self.variables)
            .envs(MADE_AT_START.iter().filter(|name| self.is_absent(name)).map(|name| (name, std::env::temp_dir())))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = started else { return None };
        let deadline = Instant::now() + CHECKED_WITHIN;
        // Its complaints fit into the pipe: it ends at the first that is an error.
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                return Some(format!("it did not check it within {} s", CHECKED_WITHIN.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let output = child.wait_with_output().ok()?;
        if output.status.success() {
            return None;
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        Some(lines[lines.len().saturating_sub(SAID_MAX)..].join("\n"))
    }
}

impl Program {
    /// Whether the folder that a variable names is still to be made.
    fn is_absent(&self, variable: &str) -> bool {
        self.variables.get(variable).is_some_and(|folder| !Path::new(folder).exists())
    }
}

/// The list of `-l`: files of modules, and the models among them.
fn compiled_in(text: &str) -> (BTreeSet<String>, Vec<Model>) {
    let files = installed::compiled_in(text);
    let model = |file: &String| file.strip_suffix(".c").and_then(|name| name.parse::<Model>().ok());
    let models = files.iter().filter_map(model).collect();
    (files.into_iter().filter(|file| model(file).is_none()).collect(), models)
}

/// What `envvars` beside the configuration exports, as `apachectl` would take it from there. Conditions are not followed: Debian's are
/// about names of further instances.
fn variables(folder: &Path) -> BTreeMap<String, String> {
    exports(&fs::read_to_string(folder.join("envvars")).unwrap_or_default())
}

fn exports(text: &str) -> BTreeMap<String, String> {
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        let Some((name, value)) = line.trim().strip_prefix("export ").and_then(|rest| rest.split_once('=')) else {
            continue;
        };
        let value = value.split(" #").next().unwrap_or_default().trim();
        let value = value.trim_matches(|c| c == '"' || c == '\'');
        let value = expanded(value, &variables);
        variables.insert(name.trim().to_owned(), value);
    }
    variables
}

/// `$NAME` and `${NAME}` replaced; unknown ones by nothing, as a shell does.
fn expanded(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        result.push_str(before);
        let braced = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let (name, tail) = braced.unwrap_or_else(|| {
            let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
            after.split_at(end)
        });
        result.push_str(variables.get(name).map_or("", String::as_str));
        rest = tail;
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_describe_themselves() {
        let (files, models) = compiled_in("Compiled in modules:\n  core.c\n  mod_so.c\n  event.c\n");
        assert_eq!(
            (files.into_iter().collect::<Vec<_>>(), models),
            (vec!["core.c".to_owned(), "mod_so.c".to_owned()], vec![Model::Event])
        );
    }

    #[test]
    fn debians_variables() {
        let text = "unset HOME\n\tSUFFIX=\nexport APACHE_RUN_USER=www-data\nexport A=/var/run/apache2$SUFFIX/x.pid\n\
                    export B=\"${APACHE_RUN_USER}-b\" # why\nexport LANG\n#export C=1\nexport APACHE_ULIMIT_MAX_FILES='ulimit -n 65536'\n";
        let got: Vec<(String, String)> = exports(text).into_iter().collect();
        let expected = [
            ("A", "/var/run/apache2/x.pid"),
            ("APACHE_RUN_USER", "www-data"),
            ("APACHE_ULIMIT_MAX_FILES", "ulimit -n 65536"),
            ("B", "www-data-b"),
        ];
        assert_eq!(got, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn roots_follow_the_layouts() {
        let check = |file: &str, expected: &str| {
            assert_eq!(Program::default().root_for(Path::new(file)), Path::new(expected), "{file}");
        };
        check("/etc/httpd/conf/httpd.conf", "/etc/httpd");
        check("/etc/apache2/apache2.conf", "/etc/apache2");
        check("httpd.conf", ".");
        let program = Program { server_root: Some("/srv".into()), ..Program::default() };
        assert_eq!(program.root_for(Path::new("/x/httpd.conf")), Path::new("/srv"));
    }
}
