//! Running other programs: the command is shown before it runs, and a failure says what to type to see it again.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The repository's top folder. It is asked for at build time: `cargo xtask` always runs from its own checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder in the repository")
}

/// Where cargo puts what it builds: `CARGO_TARGET_DIR` or `target`.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The cargo that runs this task, so that `cargo +toolchain xtask` stays with its toolchain.
pub fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string())
}

/// A program with its arguments, to be run in the repository's top folder without standard input.
pub struct Run {
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    directory: PathBuf,
}

impl Run {
    /// The program and its arguments.
    pub fn new<S: AsRef<str>>(program: &str, arguments: impl IntoIterator<Item = S>) -> Run {
        Run {
            program: program.to_string(),
            arguments: arguments.into_iter().map(|argument| argument.as_ref().to_string()).collect(),
            environment: Vec::new(),
            directory: root().to_path_buf(),
        }
    }

    /// Cargo with arguments separated by spaces.
    pub fn cargo(arguments: &str) -> Run {
        Run::new(&cargo(), arguments.split_whitespace())
    }

    /// Appends arguments.
    pub fn args<S: AsRef<str>>(mut self, arguments: impl IntoIterator<Item = S>) -> Run {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_string()));
        self
    }

    /// Sets a variable for the program alone.
    pub fn env(mut self, name: &str, value: &str) -> Run {
        self.environment.push((name.to_string(), value.to_string()));
        self
    }

    /// Runs in another folder.
    pub fn current_dir(mut self, directory: &Path) -> Run {
        self.directory = directory.to_path_buf();
        self
    }

    /// Shows the command, runs it with its output passed through, and fails when it fails.
    pub fn show(self) -> Result<()> {
        println!("$ {}", self.line());
        let status = self.command().status().with_context(|| format!("cannot start `{}`", self.program))?;
        if !status.success() {
            bail!("`{}` failed: {status}", self.line());
        }
        Ok(())
    }

    /// Shows the command, runs it, and shows what it printed only when it fails; returns all of it.
    pub fn quietly(self) -> Result<String> {
        println!("$ {}", self.line());
        let output = self.command().output().with_context(|| format!("cannot start `{}`", self.program))?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            print!("{text}");
            bail!("`{}` failed: {}", self.line(), output.status);
        }
        Ok(text)
    }

    /// Runs it and returns its standard output; its standard error is passed through.
    pub fn output(self) -> Result<String> {
        let output = self
            .command()
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot start `{}`", self.program))?;
        if !output.status.success() {
            bail!("`{}` failed: {}", self.line(), output.status);
        }
        String::from_utf8(output.stdout).with_context(|| format!("`{}` printed something else than text", self.line()))
    }

    /// Whether it runs and succeeds; its output is dropped.
    pub fn succeeds(self) -> bool {
        let mut command = self.command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    /// The command as one would type it.
    fn line(&self) -> String {
        let mut line = String::new();
        if let Ok(folder) = self.directory.strip_prefix(root())
            && folder != Path::new("")
        {
            let _ = write!(line, "cd {} && ", folder.display());
        }
        for (name, value) in &self.environment {
            let _ = write!(line, "{name}={} ", quoted(value));
        }
        let program =
            Path::new(&self.program).file_name().map_or(self.program.as_str().into(), |n| n.to_string_lossy());
        line.push_str(&program);
        for argument in &self.arguments {
            line.push(' ');
            line.push_str(&quoted(argument));
        }
        line
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(&self.directory).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A word as the shell needs it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_can_be_typed_again() {
        let run = Run::new("/usr/bin/prog", ["-a", "two words", "it's", ""]).env("X", "1 2");
        assert_eq!(run.line(), r"X='1 2' prog -a 'two words' 'it'\''s' ''");
    }

    #[test]
    fn a_failing_program_is_named() {
        let error = Run::new("sh", ["-c", "exit 3"]).show().unwrap_err().to_string();
        assert!(error.contains("sh -c 'exit 3'") && error.contains('3'), "{error}");
        assert_eq!(Run::new("sh", ["-c", "echo a; echo b >&2"]).quietly().unwrap(), "a\nb\n");
        assert!(Run::new("sh", ["-c", "exit 3"]).quietly().is_err());
        assert!(Run::new("no-such-program-here", [""; 0]).output().is_err());
    }
}
