//! Where we answer otherwise than Apache on purpose, and why.

use crate::answer::Answer;

/// A deliberate difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// We say how long a body is where Apache sends it in chunks or until the connection ends, and to HEAD where Apache says
    /// nothing: HEAD gets what GET gets (RFC 9110 section 9.3.2).
    Length,
    /// 416 says how long the file is (RFC 9110 section 15.5.17); Apache's does not.
    UnsatisfiedRange,
    /// A TRACE comes back line by line as it was sent, without what is secret (RFC 9110 section 9.3.8); Apache joins repeated
    /// fields and keeps everything.
    Trace,
    /// A 405 to TRACE names the methods that would do (RFC 9110 section 15.5.6), where Apache's `Allow` is empty; a 501 before
    /// anything was read does not, where Apache's names TRACE.
    Allow,
    /// Apache gives a folder the name of its own handler as a media type, and what is below a file that of the file.
    OptionsType,
    /// RFC 9110 section 15.6.6 has 505 for other major versions; Apache takes higher ones for 1.1.
    MajorVersion,
    /// The same for lower ones, which Apache answers with 400.
    OldVersion,
    /// RFC 9112 section 5.2 lets us refuse a folded line; Apache joins it to the one before.
    Folding,
    /// RFC 9112 section 6.1 has 501 for codings not understood; Apache takes them for content.
    UnknownCoding,
    /// Framing that can be read in two ways is refused (RFC 9112 section 6.3); Apache goes by the coding.
    CodingWithLength,
    /// Lengths that say the same are one (RFC 9110 section 8.6); Apache refuses them.
    EqualLengths,
    /// RFC 6585 has 431 for heads that are too large; Apache says 400.
    TooLarge,
    /// `If-Modified-Since` does not count beside `If-None-Match` (RFC 9110 section 13.1.3); in Apache it does.
    DateBesideTag,
    /// `If-Unmodified-Since` does not count beside `If-Match` (RFC 9110 section 13.1.4); in Apache it does.
    UnmodifiedBesideMatch,
    /// `If-None-Match` compares weakly, with ranges as well (RFC 9110 section 13.1.2).
    WeakTagWithRange,
    /// `If-Range` does not undo a 304 (RFC 9110 section 13.2.2); with a tag that does not fit, in Apache it does.
    IfRangeAndNotModified,
    /// The same, where it fits.
    IfRangeFits,
    /// Ranges belong to GET alone (RFC 9110 section 14.2 says must); Apache gives them to HEAD and POST as well.
    RangeOfOthers,
    /// Lists may have spaces and empty members (RFC 9110 section 5.6.1), and numbers any size; Apache ignores such ranges.
    RangeList,
    /// With `MaxRanges none` there are no ranges that could be wrong; Apache still says 416.
    NoRanges,
    /// What leads above the root is refused however its slashes are written; Apache lets escaped ones do so.
    AboveRoot,
    /// 100 is not sent to a client that did not wait for it (RFC 9110 section 10.1.1); Apache always sends it.
    NeedlessContinue,
    /// A request without a body leaves nothing unclear, whatever it expects; Apache closes the connection.
    ContinueWithoutBody,
    /// Whether a body follows an expectation that cannot be met is not known, so the connection ends and says so; Apache's
    /// stays, and yet what follows is not answered.
    UnmetExpectation,
    /// An unknown method is refused at once; Apache first finds out where it would lead.
    UnknownMethod,
}

/// What a difference makes different.
enum Effect {
    /// These fields, and nothing else.
    Fields(&'static [&'static str]),
    /// The length and the body.
    Body,
    /// The first answers' status codes are these, Apache's first.
    Codes(&'static str, &'static str),
    /// Apache's first answer is left out.
    NoFirst,
    /// Apache closes the connection, and we do not.
    WeKeep,
}

const LENGTH: &[&str] = &["Content-Length", "Transfer-Encoding"];

impl Difference {
    fn effect(self) -> Effect {
        match self {
            Difference::Length => Effect::Fields(LENGTH),
            Difference::UnsatisfiedRange => Effect::Fields(&["Content-Length", "Transfer-Encoding", "Content-Range"]),
            Difference::Trace => Effect::Body,
            Difference::Allow => Effect::Fields(&["Allow"]),
            Difference::OptionsType => Effect::Fields(&["Content-Type"]),
            Difference::MajorVersion => Effect::Codes("200", "505"),
            Difference::OldVersion => Effect::Codes("400", "505"),
            Difference::Folding | Difference::CodingWithLength => Effect::Codes("200", "400"),
            Difference::UnknownCoding => Effect::Codes("200", "501"),
            Difference::EqualLengths => Effect::Codes("400", "200"),
            Difference::TooLarge => Effect::Codes("400", "431"),
            Difference::DateBesideTag | Difference::IfRangeAndNotModified => Effect::Codes("200", "304"),
            Difference::UnmodifiedBesideMatch => Effect::Codes("412", "200"),
            Difference::WeakTagWithRange | Difference::IfRangeFits => Effect::Codes("206", "304"),
            Difference::RangeOfOthers => Effect::Codes("206", "200"),
            Difference::NoRanges => Effect::Codes("416", "200"),
            Difference::AboveRoot => Effect::Codes("200", "400"),
            Difference::RangeList => Effect::Codes("200", "206"),
            Difference::NeedlessContinue => Effect::NoFirst,
            Difference::ContinueWithoutBody => Effect::WeKeep,
            Difference::UnmetExpectation => Effect::Fields(&["Connection"]),
            Difference::UnknownMethod => Effect::Codes("301", "501"),
        }
    }

    /// Whether the answers differ in this and in nothing else, as far as that can be told.
    pub fn explains(self, theirs: &[Answer], ours: &[Answer]) -> bool {
        match self.effect() {
            Effect::Fields(names) => without(theirs, names, false) == without(ours, names, false),
            Effect::Body => without(theirs, LENGTH, true) == without(ours, LENGTH, true),
            Effect::Codes(their_code, our_code) => begins(theirs, their_code) && begins(ours, our_code),
            Effect::NoFirst => begins(theirs, "100") && theirs.get(1..) == Some(ours),
            Effect::WeKeep => {
                let ([end], [kept, _probe]) = (theirs, ours) else { return false };
                let closes = end.fields.iter().any(|field| field == "Connection: close");
                let fields = |answer| without(std::slice::from_ref(answer), &["Connection"], false);
                closes && fields(end) == fields(kept)
            }
        }
    }
}

fn begins(answers: &[Answer], code: &str) -> bool {
    answers.first().is_some_and(|answer| answer.status.split(' ').nth(1) == Some(code))
}

fn without(answers: &[Answer], names: &[&str], body: bool) -> Vec<Answer> {
    let mut answers = answers.to_vec();
    for answer in &mut answers {
        answer.fields.retain(|field| !names.iter().any(|name| field.starts_with(&format!("{name}: "))));
        if body {
            answer.body.clear();
        }
    }
    answers
}
