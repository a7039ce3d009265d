//! What a request head may be: Apache's `LimitRequestLine`, `LimitRequestFieldSize`, `LimitRequestFields` and
//! `HttpProtocolOptions`.

/// Most empty lines skipped before a request line (RFC 9112 section 2.2 asks for at least one; Apache skips ten).
pub const BLANK_LINES_MAX: usize = 10;

/// Most header fields a head may have whatever [`Limits::fields`] says; the highest value Apache's directive takes.
pub const FIELDS_MAX: usize = 32_767;

/// The most bytes a head may take altogether, whatever the single limits are; more is 431.
pub const HEAD_MAX: usize = 16 << 20;

/// How closely a request has to follow the grammar (the first word of Apache's `HttpProtocolOptions`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// `Strict`: as RFC 9112 writes it.
    #[default]
    Strict,
    /// `Unsafe`: as servers once took it. Lines may end with LF alone, the request line may have several spaces and its
    /// version small letters, methods and field names may be other than tokens, values may have control bytes, and
    /// folded lines are joined. What tells where a request ends is read as strictly as ever.
    Unsafe,
}

/// Which methods are let in (the second word of `HttpProtocolOptions`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Methods {
    /// `LenientMethods`: every token; who does not know it answers 501.
    #[default]
    Lenient,
    /// `RegisteredMethods`: those that [`crate::Method`] knows by name; others are 501 at once.
    Registered,
}

/// Apache's `HttpProtocolOptions`; the default is its default, `Strict LenientMethods Allow0.9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolOptions {
    /// `Strict` or `Unsafe`.
    pub strictness: Strictness,
    /// `LenientMethods` or `RegisteredMethods`.
    pub methods: Methods,
    /// `Allow0.9`, or `Require1.0` where false: 400 for requests without a version.
    pub allow_http09: bool,
}

impl Default for ProtocolOptions {
    fn default() -> ProtocolOptions {
        ProtocolOptions { strictness: Strictness::default(), methods: Methods::default(), allow_http09: true }
    }
}

/// Bounds of one message head, in bytes without line ends, and how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest request line (`LimitRequestLine`, 8190): longer is 414.
    pub request_line: usize,
    /// Longest header field, name, colon and value (`LimitRequestFieldSize`, 8190): longer is 431.
    pub field_size: usize,
    /// Most header fields (`LimitRequestFields`, 100): more is 431. As in Apache, 0 sets no limit, which here means
    /// [`FIELDS_MAX`].
    pub fields: usize,
    /// How a request head is read.
    pub protocol: ProtocolOptions,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { request_line: 8190, field_size: 8190, fields: 100, protocol: ProtocolOptions::default() }
    }
}

impl Limits {
    /// The most bytes a head within these limits can take, line ends included, and never more than [`HEAD_MAX`]: the
    /// bound for a receive buffer. A parser that has seen this many bytes has either found the end of the head or an error.
    pub fn head_max(&self) -> usize {
        let fields = self.fields_max().saturating_mul(self.field_size.saturating_add(2));
        let line = self.request_line.saturating_add(2 * BLANK_LINES_MAX + 2 + 2);
        fields.saturating_add(line).min(HEAD_MAX)
    }

    /// `fields` with 0 resolved.
    pub(crate) fn fields_max(&self) -> usize {
        if self.fields == 0 { FIELDS_MAX } else { self.fields.min(FIELDS_MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::{FIELDS_MAX, HEAD_MAX, Limits};

    #[test]
    fn head_max_is_bounded_and_counts_line_ends() {
        let check = |request_line, field_size, fields, expected| {
            let limits = Limits { request_line, field_size, fields, ..Limits::default() };
            assert_eq!(limits.head_max(), expected);
        };
        check(8190, 8190, 100, 8190 + 24 + 100 * 8192);
        check(10, 10, 1, 10 + 24 + 12);
        check(10, 10, 0, 10 + 24 + 12 * FIELDS_MAX);
        check(8190, 8190, 0, HEAD_MAX);
        check(usize::MAX, usize::MAX, usize::MAX, HEAD_MAX);
    }
}
