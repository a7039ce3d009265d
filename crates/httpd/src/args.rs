//! The command line: what was typed, by Apache's rules, and nothing decided yet.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};
use manifold_mpm::limits::Model;

/// What was typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Args {
    /// `-D name`, except those that are a [`Dump`] or a mode.
    pub defines: Vec<String>,
    /// `-d`.
    pub server_root: Option<PathBuf>,
    /// `-f`.
    pub file: Option<PathBuf>,
    /// `-C`, in order.
    pub before: Vec<String>,
    /// `-c`, in order.
    pub after: Vec<String>,
    /// `-e`.
    pub startup_level: Option<log::LevelFilter>,
    /// `-E`.
    pub startup_file: Option<PathBuf>,
    /// `-M NAME`.
    pub model: Option<Model>,
    /// `-k VERB`.
    pub verb: Option<Verb>,
    /// What to print instead of running a server.
    pub print: Option<Print>,
    /// `-t`, or something that implies it.
    pub test: bool,
    /// `--strict`: a check fails where numbers do not hold as they are.
    pub strict: bool,
    /// `-T`.
    pub skip_document_root: bool,
    /// `-X`, or `-D DEBUG` or `-D ONE_PROCESS`.
    pub one_process: bool,
    /// `-D FOREGROUND` or `-D NO_DETACH`.
    pub foreground: bool,
    /// `-t -D DUMP_...`, `-S`, `-M`.
    pub dumps: Vec<Dump>,
}

/// `-k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Start,
    Restart,
    Graceful,
    GracefulStop,
    Stop,
}

/// Something that is printed without a configuration, or with as much of it as can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Print {
    /// `-v`.
    Version,
    /// `-V`.
    Settings,
    /// `-l`.
    Modules,
    /// `-L`.
    Directives,
    /// `-h`.
    Help,
}

/// Something about a configuration that is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dump {
    VirtualHosts,
    RunConfiguration,
    Modules,
    Includes,
}

/// The help, in Apache's form.
pub(crate) const USAGE: &str = "\
Usage: httpd [-D name] [-d directory] [-f file]
             [-C \"directive\"] [-c \"directive\"] [-M mpm]
             [-k start|restart|graceful|graceful-stop|stop]
             [-e level] [-E file]
             [-v] [-V] [-h] [-l] [-L] [-t [--strict]] [-T] [-S] [-X]
Options:
  -D name            : define a name for use in <IfDefine name> directives
  -d directory       : specify an alternate initial ServerRoot
  -f file            : specify an alternate ServerConfigFile
  -C \"directive\"     : process directive before reading config files
  -c \"directive\"     : process directive after reading config files
  -M mpm             : choose prefork, worker, event or percore, whatever is configured
  -e level           : show startup errors of level (see LogLevel)
  -E file            : log startup errors to file
  -v                 : show version number
  -V                 : show compile settings
  -h                 : list available command line options (this page)
  -l                 : list compiled in modules
  -L                 : list available configuration directives
  -t -D DUMP_VHOSTS  : show parsed vhost settings
  -t -D DUMP_RUN_CFG : show parsed run settings
  -S                 : a synonym for -t -D DUMP_VHOSTS -D DUMP_RUN_CFG
  -t -D DUMP_MODULES : show all loaded modules
  -M                 : without a name, a synonym for -t -D DUMP_MODULES
  -t -D DUMP_INCLUDES: show all included configuration files
  -t                 : run syntax check for config files, and show the numbers in effect
  -t --strict        : fail as well where a number had to be corrected or adjusted
  -T                 : start without DocumentRoot(s) check
  -X                 : debug mode (only one worker, do not detach)
  -D FOREGROUND      : do not detach
";

impl Args {
    /// Takes the arguments that follow the program's name.
    ///
    /// # Errors
    /// What cannot be understood, as one sentence.
    pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Result<Args, String> {
        let mut parser = Parser::from_args(args);
        let mut parsed = Args::default();
        while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
            match arg {
                Arg::Short('M') => parsed.model_or_dump(&mut parser)?,
                Arg::Short(option) => parsed.option(option, &mut parser)?,
                Arg::Long("help") => parsed.print = Some(Print::Help),
                Arg::Long("version") => parsed.print = Some(Print::Version),
                Arg::Long("strict") => parsed.strict = true,
                Arg::Long(option) => return Err(format!("illegal option -- '--{option}'")),
                // apachectl's words.
                Arg::Value(word) => parsed.word(&word.to_string_lossy())?,
            }
        }
        if parsed.strict && !parsed.test {
            return Err("--strict goes with -t".to_owned());
        }
        Ok(parsed)
    }

    /// Whether a server that is started like this goes to the background.
    pub(crate) fn leaves_terminal(&self) -> bool {
        let starts = !self.test && matches!(self.verb, None | Some(Verb::Start));
        starts && !self.foreground && !self.one_process
    }

    fn option(&mut self, option: char, parser: &mut Parser) -> Result<(), String> {
        match option {
            'D' => self.define(text(option, parser)?),
            'd' => self.server_root = Some(text(option, parser)?.into()),
            'f' => self.file = Some(text(option, parser)?.into()),
            'C' => self.before.push(text(option, parser)?),
            'c' => self.after.push(text(option, parser)?),
            'e' => {
                let level = text(option, parser)?;
                self.startup_level =
                    Some(crate::error_log::level(&level).ok_or_else(|| format!("-e: no such level: '{level}'"))?);
            }
            'E' => self.startup_file = Some(text(option, parser)?.into()),
            'k' => {
                let verb = text(option, parser)?;
                self.verb =
                    Some(verb_of(&verb).ok_or_else(|| format!("illegal option -- k: there is no '-k {verb}'"))?);
            }
            'v' => self.print = Some(Print::Version),
            'V' => self.print = Some(Print::Settings),
            'l' => self.print = Some(Print::Modules),
            'L' => self.print = Some(Print::Directives),
            'h' | '?' => self.print = Some(Print::Help),
            't' => self.test = true,
            'T' => self.skip_document_root = true,
            'X' => self.one_process = true,
            'S' => self.dump(&[Dump::VirtualHosts, Dump::RunConfiguration]),
            _ => return Err(format!("illegal option -- {option}")),
        }
        Ok(())
    }

    /// `-M NAME` chooses the model; followed by another option, or by nothing, it lists the modules as in Apache.
    fn model_or_dump(&mut self, parser: &mut Parser) -> Result<(), String> {
        match parser.optional_value() {
            Some(name) => return self.model(&name.to_string_lossy()),
            None => {
                let mut rest = parser.raw_args().map_err(|error| error.to_string())?;
                let is_name = rest.peek().is_some_and(|next| !next.to_string_lossy().starts_with('-'));
                if let Some(name) = is_name.then(|| rest.next()).flatten() {
                    return self.model(&name.to_string_lossy());
                }
            }
        }
        self.dump(&[Dump::Modules]);
        Ok(())
    }

    fn model(&mut self, name: &str) -> Result<(), String> {
        self.model = Some(name.parse().map_err(|error| format!("-M: {error}"))?);
        Ok(())
    }

    fn define(&mut self, name: String) {
        match name.as_str() {
            "DEBUG" | "ONE_PROCESS" => self.one_process = true,
            "FOREGROUND" | "NO_DETACH" => self.foreground = true,
            "DUMP_VHOSTS" => self.dumps.push(Dump::VirtualHosts),
            "DUMP_RUN_CFG" => self.dumps.push(Dump::RunConfiguration),
            "DUMP_MODULES" => self.dumps.push(Dump::Modules),
            "DUMP_INCLUDES" => self.dumps.push(Dump::Includes),
            _ => {}
        }
        self.defines.push(name);
    }

    fn dump(&mut self, dumps: &[Dump]) {
        self.test = true;
        self.dumps.extend(dumps);
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        match word {
            "configtest" => self.test = true,
            _ => self.verb = Some(verb_of(word).ok_or_else(|| format!("there is no command '{word}'"))?),
        }
        Ok(())
    }
}

fn text(option: char, parser: &mut Parser) -> Result<String, String> {
    let value = parser.value().and_then(ValueExt::string);
    value.map_err(|_| format!("option requires an argument -- {option}"))
}

fn verb_of(word: &str) -> Option<Verb> {
    Some(match word {
        "start" => Verb::Start,
        "restart" => Verb::Restart,
        "graceful" => Verb::Graceful,
        "graceful-stop" => Verb::GracefulStop,
        "stop" => Verb::Stop,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Args, String> {
        Args::parse(words.split_ascii_whitespace().map(OsString::from))
    }

    #[test]
    fn options_are_taken_as_getopt_takes_them() {
        let check = |words: &str, expected: Args| assert_eq!(parse(words), Ok(expected), "{words}");
        let none = Args::default;
        check("", none());
        check("-f x -d /y", Args { file: Some("x".into()), server_root: Some("/y".into()), ..none() });
        check("-fx -kstart", Args { file: Some("x".into()), verb: Some(Verb::Start), ..none() });
        check("-tT", Args { test: true, skip_document_root: true, ..none() });
        check("-C a -c b -C c", Args { before: vec!["a".into(), "c".into()], after: vec!["b".into()], ..none() });
        check("-t --strict", Args { test: true, strict: true, ..none() });
        check("--strict configtest", Args { test: true, strict: true, ..none() });
        check("-X", Args { one_process: true, ..none() });
        check("-D FOREGROUND", Args { foreground: true, defines: vec!["FOREGROUND".into()], ..none() });
        check("-M percore -t", Args { model: Some(Model::Percore), test: true, ..none() });
        check("-Mworker", Args { model: Some(Model::Worker), ..none() });
        check("-M", Args { test: true, dumps: vec![Dump::Modules], ..none() });
        check("-M -f x", Args { test: true, dumps: vec![Dump::Modules], file: Some("x".into()), ..none() });
        check(
            "-e debug -E /x",
            Args { startup_level: Some(log::LevelFilter::Trace), startup_file: Some("/x".into()), ..none() },
        );
        check("graceful-stop", Args { verb: Some(Verb::GracefulStop), ..none() });
        check("configtest", Args { test: true, ..none() });
        check("-h -v", Args { print: Some(Print::Version), ..none() });
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        let check = |words: &str, expected: &str| assert_eq!(parse(words), Err(expected.to_owned()), "{words}");
        check("-Q", "illegal option -- Q");
        check("--frobnicate", "illegal option -- '--frobnicate'");
        check("-k dance", "illegal option -- k: there is no '-k dance'");
        check("-k", "option requires an argument -- k");
        check("-f", "option requires an argument -- f");
        check("-M mpm", "-M: there is no MPM 'mpm'; choose prefork, worker, event or percore");
        check("-e loud", "-e: no such level: 'loud'");
        check("--strict -k start", "--strict goes with -t");
        check("status", "there is no command 'status'");
    }
}
