//! What is wrong with a configuration, where, and what to do about it.

use crate::source::Span;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; shown at `-e info` and in a log at that level.
    Info,
    /// The configuration works, but not as it is written.
    Warning,
    /// The configuration cannot be used.
    Error,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Apache's number of this message: 526 is printed as `AH00526`.
    pub code: Option<u16>,
    /// What is wrong, in Apache's words where Apache says the same.
    pub message: String,
    /// Where it is written; `None` where nothing that is written is to blame.
    pub span: Option<Span>,
    /// A few words beside the marked place; may be empty.
    pub label: String,
    /// The way out.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error at `span`.
    pub fn error(span: impl Into<Option<Span>>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Error, span, message)
    }

    /// A warning at `span`.
    pub fn warning(span: impl Into<Option<Span>>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Warning, span, message)
    }

    /// Something worth knowing at `span`.
    pub fn info(span: impl Into<Option<Span>>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Info, span, message)
    }

    fn new(severity: Severity, span: impl Into<Option<Span>>, message: impl Into<String>) -> Diagnostic {
        let (code, label, help) = (None, String::new(), None);
        Diagnostic { severity, code, message: message.into(), span: span.into(), label, help }
    }

    /// With Apache's number of this message.
    #[must_use]
    pub fn code(mut self, code: u16) -> Diagnostic {
        self.code = Some(code);
        self
    }

    /// With a few words beside the marked place.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// With the way out.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
}
