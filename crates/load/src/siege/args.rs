//! siege's command line: getopt_long's rules (options anywhere, long ones abbreviated), siege's reading of their values, and what is said
//! of options that are none, which does not end the program.

use std::ffi::OsString;

use lexopt::Arg;

use super::settings::{Dialect, Refusal, Repetitions, Settings, seconds_of};
use super::threshold;
use crate::leading::{leading_decimal, leading_number};

/// Long options, and the short one that each of them is. Capital letters without a short option are marked by being over `Z`.
const LONG: [(&str, char); 27] = [
    ("version", 'V'),
    ("help", 'h'),
    ("verbose", 'v'),
    ("quiet", 'q'),
    ("config", 'C'),
    ("debug", 'D'),
    ("get", 'g'),
    ("print", 'p'),
    ("concurrent", 'c'),
    ("no-parser", 'N'),
    ("no-follow", 'F'),
    ("internet", 'i'),
    ("benchmark", 'b'),
    ("reps", 'r'),
    ("time", 't'),
    ("delay", 'd'),
    ("log", 'l'),
    ("file", 'f'),
    ("rc", 'R'),
    ("mark", 'm'),
    ("header", 'H'),
    ("user-agent", 'A'),
    ("content-type", 'T'),
    ("json-output", 'j'),
    // Ours.
    ("dialect", 'Σ'),
    ("stall-timeout", 'Ω'),
    ("fail-on", 'Φ'),
];

/// What the command line asks for, still to be applied to what the resource file sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    options: Vec<(char, Option<String>)>,
    /// The last word that is no option.
    url: Option<String>,
    /// `-R`.
    pub resource: Option<String>,
    /// What getopt complains of.
    pub complaints: Vec<String>,
}

/// What is to be done instead of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    Version,
    Help,
    Configuration,
}

/// Reads the words of the command line, the program's name not among them.
pub fn collect(args: impl Iterator<Item = OsString>) -> Given {
    let mut parser = lexopt::Parser::from_args(args);
    parser.set_short_equals(false);
    let mut given = Given::default();
    loop {
        let option = match parser.next() {
            Ok(None) => break,
            Ok(Some(Arg::Value(word))) => {
                given.url = Some(word.to_string_lossy().into_owned());
                continue;
            }
            Ok(Some(Arg::Short(short))) if LONG.iter().any(|(_, known)| *known == short && short.is_ascii()) => {
                Ok((short, format!("option requires an argument -- '{short}'")))
            }
            Ok(Some(Arg::Short(short))) => Err(format!("invalid option -- '{short}'")),
            Ok(Some(Arg::Long(name))) => long(name),
            Err(error) => Err(error.to_string()),
        };
        let (option, missing) = match option {
            Ok(found) => found,
            Err(complaint) => {
                // The value of an option that there is not belongs to it.
                let value = parser.optional_value().map(|value| format!("={}", value.to_string_lossy()));
                let quoted = complaint.strip_suffix('\'').filter(|_| complaint.starts_with("unrecognized"));
                given.complaints.push(match (quoted, value) {
                    (Some(start), Some(value)) => format!("{start}{value}'"),
                    _ => complaint,
                });
                continue;
            }
        };
        let value = match option {
            'l' => parser.optional_value(),
            'c' | 'r' | 't' | 'd' | 'f' | 'R' | 'm' | 'H' | 'A' | 'T' | 'Σ' | 'Ω' | 'Φ' => match parser.value() {
                Ok(value) => Some(value),
                Err(_) => {
                    given.complaints.push(missing);
                    continue;
                }
            },
            _ => None,
        };
        let value = value.map(|value| value.to_string_lossy().into_owned());
        if option == 'R' {
            given.resource = value;
        } else {
            given.options.push((option, value));
        }
    }
    given
}

/// The option that a long name or the beginning of one stands for, and what is said if its value is missing.
fn long(name: &str) -> Result<(char, String), String> {
    let exact = LONG.iter().find(|(long, _)| *long == name);
    let begun: Vec<_> = LONG.iter().filter(|(long, _)| long.starts_with(name)).collect();
    match (exact, begun.as_slice()) {
        (Some((long, short)), _) | (None, [(long, short)]) => {
            Ok((*short, format!("option '--{long}' requires an argument")))
        }
        (None, []) => Err(format!("unrecognized option '--{name}'")),
        (None, several) => {
            let names: Vec<String> = several.iter().map(|(long, _)| format!(" '--{long}'")).collect();
            Err(format!("option '--{name}' is ambiguous; possibilities:{}", names.concat()))
        }
    }
}

impl Given {
    /// Applies the options to what the resource file has set; `Some`: there is something to do instead of a run.
    ///
    /// # Errors
    /// The sentence with which siege ends.
    pub fn apply(&self, settings: &mut Settings) -> Result<Option<Instead>, Refusal> {
        let mut instead = None;
        for (option, value) in &self.options {
            let value = value.as_deref().unwrap_or_default();
            match option {
                'V' => return Ok(Some(Instead::Version)),
                'h' => return Ok(Some(Instead::Help)),
                'C' => instead = Some(Instead::Configuration),
                'v' => settings.verbose = true,
                'q' => settings.quiet = true,
                'D' => settings.debug = true,
                'g' => settings.get = true,
                'p' => settings.print = true,
                'i' => settings.internet = true,
                'b' => settings.benchmark = true,
                'j' => settings.json = true,
                'N' => settings.parser = false,
                'F' => settings.follow = false,
                'c' => settings.concurrent = leading_number(value),
                'd' => settings.delay = leading_decimal(value),
                't' => settings.seconds = seconds_of(value),
                'r' if value.eq_ignore_ascii_case("once") => settings.repetitions = Repetitions::Once,
                'r' => {
                    let times = leading_number(value);
                    settings.repetitions = if times == -1 { Repetitions::Once } else { Repetitions::Times(times) };
                }
                'f' => value.clone_into(&mut settings.file),
                'A' => value.clone_into(&mut settings.user_agent),
                'T' => value.clone_into(&mut settings.content_type),
                'H' => settings.add_header(value)?,
                'l' => {
                    settings.logging = true;
                    if !value.is_empty() {
                        value.clone_into(&mut settings.log_file);
                    }
                }
                'm' => {
                    settings.logging = true;
                    settings.mark = Some(value.to_owned());
                }
                'Σ' => {
                    settings.dialect = match value {
                        "secs" => Dialect::Seconds,
                        "ms" => Dialect::Milliseconds,
                        _ => return Err(format!("--dialect is secs or ms, not '{value}'")),
                    }
                }
                'Φ' => settings.fail_on.extend(threshold::parse(value)?),
                'Ω' => {
                    settings.stall_timeout =
                        value.parse().ok().filter(|seconds| (1..=86_400).contains(seconds)).ok_or_else(|| {
                            format!("--stall-timeout is a number of seconds from 1 to 86400, not '{value}'")
                        })?;
                }
                _ => {}
            }
        }
        if self.url.is_some() {
            settings.url.clone_from(&self.url);
        }
        Ok(instead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(line: &str) -> (Given, Settings, Option<Instead>) {
        let given = collect(line.split_whitespace().map(OsString::from));
        let mut settings = Settings::of_code();
        let instead = given.apply(&mut settings).unwrap();
        (given, settings, instead)
    }

    #[test]
    fn options_anywhere_and_abbreviated() {
        let (all, settings, instead) =
            given("http://a/ -c5 --reps=3 --benchm -t 2S -l/tmp/l --conc 7 http://b/ -vH X:y --rc=rc");
        assert_eq!(all.complaints, Vec::<String>::new());
        assert_eq!((settings.concurrent, settings.seconds, settings.benchmark, settings.verbose), (7, 2, true, true));
        assert_eq!(settings.repetitions, Repetitions::Times(3));
        assert_eq!((settings.logging, settings.log_file.as_str()), (true, "/tmp/l"));
        assert_eq!((settings.url.as_deref(), all.resource.as_deref(), instead), (Some("http://b/"), Some("rc"), None));
        assert_eq!(settings.headers, ["X:y"]);
        assert_eq!(given("-r once").1.repetitions, Repetitions::Once);
        assert_eq!(given("-l h").1.log_file, Settings::of_code().log_file, "the value of -l sticks to it");
    }

    #[test]
    fn complaints_of_getopt() {
        let check = |line: &str, complaint: &str| assert_eq!(given(line).0.complaints, [complaint], "{line}");
        check("-x", "invalid option -- 'x'");
        check("-c", "option requires an argument -- 'c'");
        check("--foo", "unrecognized option '--foo'");
        check("--agent=abc", "unrecognized option '--agent=abc'");
        check("--no", "option '--no' is ambiguous; possibilities: '--no-parser' '--no-follow'");
        check("--reps", "option '--reps' requires an argument");
    }

    #[test]
    fn what_is_done_instead() {
        assert_eq!(given("-V -h").2, Some(Instead::Version));
        assert_eq!(given("-c3 -h").2, Some(Instead::Help));
        assert_eq!(given("-C -c3").2, Some(Instead::Configuration));
        assert_eq!(given("-c3").2, None);
    }
}
