//! The directive table: a directive is one row, declared in its module. Checking, `-L` and the manual all come from it.

use std::cell::RefCell;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::diagnostic::Diagnostic;
use crate::source::{Span, Spanned};

/// Apache's number of "Syntax error on line ...".
pub(crate) const SYNTAX_ERROR: u16 = 526;

/// Where a directive may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contexts {
    /// Outside of all sections.
    pub server: bool,
    /// In `<VirtualHost>`.
    pub virtual_host: bool,
    /// In `<Directory>`, `<Files>`, `<Location>` and `<If>`.
    pub directory: bool,
    /// In `.htaccess` files.
    pub htaccess: bool,
}

impl Contexts {
    /// For the whole server only (Apache's `GLOBAL_ONLY`).
    pub const GLOBAL: Contexts = Contexts { server: true, virtual_host: false, directory: false, htaccess: false };
    /// Outside of sections and in `<VirtualHost>` (`RSRC_CONF`).
    pub const SERVER: Contexts = Contexts { virtual_host: true, ..Contexts::GLOBAL };
    /// In `<Directory>`, `<Files>`, `<Location>`, `<If>` and `.htaccess` (`OR_AUTHCFG`).
    pub const SECTION: Contexts = Contexts { server: false, virtual_host: false, ..Contexts::ANYWHERE };
    /// Everywhere (`OR_ALL`).
    pub const ANYWHERE: Contexts = Contexts { server: true, virtual_host: true, directory: true, htaccess: true };
}

impl fmt::Display for Contexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.server, "server config"),
            (self.virtual_host, "virtual host"),
            (self.directory, "directory"),
            (self.htaccess, ".htaccess"),
        ];
        let names: Vec<_> = all.iter().filter(|(allowed, _)| *allowed).map(|(_, name)| *name).collect();
        f.write_str(&names.join(", "))
    }
}

/// How many words a directive takes, under Apache's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgShape {
    /// None.
    NoArgs,
    /// Any number; the directive checks for itself (`TAKE_ARGV`).
    RawArgs,
    /// One.
    Take1,
    /// One or two.
    Take12,
    /// Two.
    Take2,
    /// Two or three.
    Take23,
    /// One or more.
    Iterate,
    /// One, and then one or more (`ITERATE2`).
    Iterate2,
    /// `On` or `Off`. As in Apache, what follows is ignored; here not without a word.
    Flag,
}

impl ArgShape {
    /// Whether `args` fit. The complaint is in Apache's words, without the name of the directive.
    fn complaint(self, args: &[Spanned<String>]) -> Option<&'static str> {
        let (fits, complaint) = match self {
            ArgShape::NoArgs => (args.is_empty(), "takes no arguments"),
            ArgShape::RawArgs => (true, ""),
            ArgShape::Take1 => (args.len() == 1, "takes one argument"),
            ArgShape::Take12 => ((1..=2).contains(&args.len()), "takes 1-2 arguments"),
            ArgShape::Take2 => (args.len() == 2, "takes two arguments"),
            ArgShape::Take23 => ((2..=3).contains(&args.len()), "takes two or three arguments"),
            ArgShape::Iterate => (!args.is_empty(), "requires at least one argument"),
            ArgShape::Iterate2 => (args.len() >= 2, "requires at least two arguments"),
            ArgShape::Flag => (args.first().is_some_and(|arg| flag(&arg.value).is_some()), "must be On or Off"),
        };
        (!fits).then_some(complaint)
    }
}

/// One row: everything there is to know about a directive.
pub struct Directive<T: 'static> {
    /// As the manual spells it.
    pub name: &'static str,
    /// The source file's name without its ending in Apache, such as `core` or `mod_dir`.
    pub module: &'static str,
    /// Where it may stand.
    pub contexts: Contexts,
    /// How many words it takes.
    pub args: ArgShape,
    /// What holds where it is not written; empty where nothing does.
    pub default: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Takes the words into the module's settings.
    pub set: fn(&mut T, &Call<'_>) -> Result<(), Diagnostic>,
}

/// A row without its setter: what lists and manuals show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// See [`Directive::name`].
    pub name: &'static str,
    /// See [`Directive::module`].
    pub module: &'static str,
    /// See [`Directive::contexts`].
    pub contexts: Contexts,
    /// See [`Directive::args`].
    pub args: ArgShape,
    /// See [`Directive::default`].
    pub default: &'static str,
    /// See [`Directive::help`].
    pub help: &'static str,
}

impl<T> Directive<T> {
    /// What lists and manuals show of it.
    pub fn row(&self) -> Row {
        let Directive { name, module, contexts, args, default, help, .. } = *self;
        Row { name, module, contexts, args, default, help }
    }
}

impl<T> fmt::Debug for Directive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.row().fmt(f)
    }
}

/// Some rows together with the settings that they write to.
#[derive(Debug)]
pub struct Table<T: 'static> {
    /// The directives.
    pub rows: &'static [Directive<T>],
    /// What they have set so far.
    pub value: T,
}

/// A [`Table`] whose settings' type nobody needs to know.
pub trait Module {
    /// Its rows.
    fn rows(&self) -> Vec<Row>;
    /// Carries out a directive; `None` when it has no row of that name.
    fn apply(&mut self, name: &str, call: &Call<'_>) -> Option<Result<(), Diagnostic>>;
}

impl<T> Module for Table<T> {
    fn rows(&self) -> Vec<Row> {
        self.rows.iter().map(Directive::row).collect()
    }

    fn apply(&mut self, name: &str, call: &Call<'_>) -> Option<Result<(), Diagnostic>> {
        let directive = self.rows.iter().find(|row| row.name.eq_ignore_ascii_case(name))?;
        let call = Call { name: directive.name, ..*call };
        if let Some(complaint) = directive.args.complaint(call.args) {
            return Some(Err(call.wrong_shape(complaint, &directive.row())));
        }
        if let (ArgShape::Flag, Some(surplus)) = (directive.args, call.args.get(1)) {
            let ignored =
                Diagnostic::warning(surplus.span, format!("{} takes one word; what follows is ignored", call.name));
            call.report(ignored.help("a comment must be on a line of its own"));
        }
        Some((directive.set)(&mut self.value, &call))
    }
}

/// A directive as it stands in the configuration, and helpers that turn its words into values.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// As the manual spells it.
    pub name: &'static str,
    /// From the name to the last word.
    pub span: Span,
    /// The name.
    pub name_span: Span,
    /// The words; their number fits the row.
    pub args: &'a [Spanned<String>],
    /// The section it stands in, such as `<Location`.
    pub section: Option<&'static str>,
    /// `ServerRoot`, to which paths are relative.
    pub server_root: &'a Path,
    /// Findings that are no errors go here.
    pub findings: &'a RefCell<Vec<Diagnostic>>,
}

impl Call<'_> {
    /// The text of word `index`; empty when there is none.
    pub fn text(&self, index: usize) -> &str {
        self.args.get(index).map_or("", |arg| &arg.value)
    }

    /// Where word `index` stands, or the whole directive when there is none.
    pub fn arg_span(&self, index: usize) -> Span {
        self.args.get(index).map_or(self.span, |arg| arg.span)
    }

    /// An error about the whole directive.
    pub fn error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(self.span, message).code(SYNTAX_ERROR)
    }

    /// An error about word `index`.
    pub fn error_at(&self, index: usize, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(self.arg_span(index), message).code(SYNTAX_ERROR)
    }

    /// Reports something that is no error.
    pub fn report(&self, finding: Diagnostic) {
        self.findings.borrow_mut().push(finding);
    }

    /// A whole number. Apache reads text as 0 and ignores what follows the digits; here both are errors.
    ///
    /// # Errors
    /// When the word is no number, or is outside of `range`.
    pub fn integer(&self, index: usize, range: RangeInclusive<i64>) -> Result<i64, Diagnostic> {
        let text = self.text(index);
        let name = self.name;
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let error = self.error_at(index, format!("{name} takes a whole number, not '{text}'"));
            return Err(error.label("a whole number belongs here"));
        }
        match text.parse() {
            Ok(number) if range.contains(&number) => Ok(number),
            _ => {
                let (least, most) = (range.start(), range.end());
                let message = match *most {
                    i64::MAX => format!("{name} of {text} is not allowed, it must be at least {least}"),
                    _ => format!("{name} of {text} is not allowed, it must be between {least} and {most}"),
                };
                Err(self.error_at(index, message).label("out of range"))
            }
        }
    }

    /// `On` is true, `Off` is false.
    ///
    /// # Errors
    /// When the word is neither.
    pub fn flag(&self, index: usize) -> Result<bool, Diagnostic> {
        flag(self.text(index)).ok_or_else(|| self.error_at(index, format!("{} must be On or Off", self.name)))
    }

    /// A time with one of Apache's units behind it: `ms`, `s`, `mi` (minutes) or `h`; without one, in seconds.
    ///
    /// # Errors
    /// When the word is no such time.
    pub fn duration(&self, index: usize) -> Result<Duration, Diagnostic> {
        duration(self.text(index)).ok_or_else(|| {
            self.error_at(index, format!("{} has wrong format", self.name)).label("not a time").help(
                "write a whole number of seconds such as '5', or a number with its unit: '500ms', '5s', '2mi', '1h'",
            )
        })
    }

    /// A path; a relative one starts at `ServerRoot`.
    pub fn path(&self, index: usize) -> PathBuf {
        self.server_root.join(self.text(index))
    }

    fn wrong_shape(&self, complaint: &str, row: &Row) -> Diagnostic {
        let help = row.help.trim_end_matches('.');
        let (name, flag) = (self.name, row.args == ArgShape::Flag);
        let message = if flag { format!("{name} {complaint}") } else { format!("{name} {complaint}, {help}") };
        let surplus = match row.args {
            ArgShape::NoArgs => self.args.first(),
            ArgShape::Take1 => self.args.get(1),
            ArgShape::Take12 | ArgShape::Take2 => self.args.get(2),
            ArgShape::Take23 => self.args.get(3),
            ArgShape::RawArgs | ArgShape::Iterate | ArgShape::Iterate2 | ArgShape::Flag => None,
        };
        let quotes = "an argument with spaces in it needs quotes; a comment must be on a line of its own";
        match (surplus, self.args) {
            (Some(surplus), _) => {
                Diagnostic { span: Some(surplus.span), ..self.error(message) }.label("too many").help(quotes)
            }
            (None, []) => self.error(message).label("nothing follows"),
            (None, [only]) if flag => {
                Diagnostic { span: Some(only.span), ..self.error(message) }.label("neither On nor Off")
            }
            (None, _) => self.error(message).label("too few"),
        }
    }
}

fn flag(text: &str) -> Option<bool> {
    match () {
        () if text.eq_ignore_ascii_case("on") => Some(true),
        () if text.eq_ignore_ascii_case("off") => Some(false),
        () => None,
    }
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let milliseconds = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "mi" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    // Beyond a century nobody waits, and sums of such times would overflow.
    number.checked_mul(milliseconds).filter(|time| *time <= 100 * 366 * 86_400_000).map(Duration::from_millis)
}
